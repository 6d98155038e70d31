"""What a token of a model can know, and what really matters to it (P2)."""
