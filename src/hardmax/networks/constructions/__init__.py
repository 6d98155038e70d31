"""Networks that are built rather than trained: P1 Theorem V.7, and random ones."""
