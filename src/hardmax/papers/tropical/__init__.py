"""P1, "Expressivity of Transformers: A Tropical Geometry Perspective": its claims and its recipes."""
