"""Targets from text: grammar, expressions, reading."""
