"""The worked example of P2 Appendix E: four tokens in the plane, two layers of one head."""

from __future__ import annotations

import numpy as np

import hardmax as hm

APPENDIX_E = np.array([[0, -1], [0.7, 0.7], [0, 1], [-0.2, -0.9]])


def least_pair(queries, keys):
    """The least product of a token of the query and one of the key (P2 Appendix E, layer 1)."""
    return np.einsum("bsid,btjd->bstij", queries, keys).min(axis=(-1, -2))


def least_inside(keys):
    """The least product of two tokens of the key (layer 2)."""
    return np.einsum("btid,btjd->btij", keys, keys).min(axis=(-1, -2))


def appendix_e(sign, ties="lowest"):
    """What the example knows, with its scores as printed (1) or with the sign that it needs (-1)."""
    first = hm.MaxPosition(lambda q, k: sign * least_pair(q, k))
    last = hm.MaxPosition(hm.KeyScore(lambda k: sign * least_inside(k)))
    plan = hm.Plan([{"tokens": [first]}, {"cls": [last]}], ties=ties)
    return hm.information_sets(hm.Architecture(4, 2, (1, 1), 2), plan, APPENDIX_E, keep="all")
