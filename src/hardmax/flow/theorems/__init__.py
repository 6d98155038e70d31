"""P2 Theorems 1 to 3 and Lemma 1, as constructions and bounds."""
