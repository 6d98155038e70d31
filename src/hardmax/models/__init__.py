"""Real models: the geometry and the information flow of a trained transformer, read-only (P1, P2)."""
