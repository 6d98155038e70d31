"""Classifiers: where the winning class changes, and how far a point is from there."""
