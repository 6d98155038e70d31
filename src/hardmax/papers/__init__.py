"""Both papers, section by section: every statement as a claim with a verdict, every figure as a recipe."""
