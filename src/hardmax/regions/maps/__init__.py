"""Affine maps of cells, which cells are adjacent, and how cells merge into regions."""
