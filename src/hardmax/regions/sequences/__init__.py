"""Transformers along segments of sequences: scores are quadratics, and breaks are their roots."""
