"""The space engine, d = 3 to 6."""
