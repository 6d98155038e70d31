"""The segment engine, d = 1."""
