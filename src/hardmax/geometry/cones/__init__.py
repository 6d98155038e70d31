"""Common refinements in low dimension: cones are cut, cell by cell."""
