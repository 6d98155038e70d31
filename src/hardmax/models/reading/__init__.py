"""Real transformers, read layer by layer as plain arrays."""
