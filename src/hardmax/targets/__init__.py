"""The functions that P2 asks a transformer to compute: maxima and minima over tuples of tokens."""
