"""Networks that are not piecewise affine, along a segment: enclosures that prove where a signature changes."""
