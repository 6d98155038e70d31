"""Networks that are not piecewise affine: enclosures that prove where a signature changes."""
