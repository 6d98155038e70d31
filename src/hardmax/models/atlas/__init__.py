"""What every head of a model does on a text (P1)."""
