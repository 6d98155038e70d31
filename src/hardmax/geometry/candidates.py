"""placeholder"""
import numpy as np
def candidate_neighbours(points, error, *, cone_is_halfspace):
    n = len(points)
    others = np.arange(n)[None, :].repeat(n, axis=0)[~np.eye(n, dtype=np.bool_)]
    return np.arange(n), np.arange(n + 1) * (n - 1), others.astype(np.int64)
