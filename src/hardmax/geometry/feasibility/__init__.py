"""Strict feasibility of linear systems: floats that prove, rationals that decide."""
