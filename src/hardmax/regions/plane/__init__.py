"""The plane engine, d = 2."""
