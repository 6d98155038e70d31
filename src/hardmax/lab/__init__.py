"""The small transformers of P2's experiments: train them fast, keep every run."""
