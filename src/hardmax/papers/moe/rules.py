"""The rules of certificates about top-k routing; docs/write.py copies them into ``replay.py``."""

from math import comb

from hardmax.papers.paper import rule
from hardmax.papers.replay import UNSTATED, arrangement, fields, items, matrix, require, spend, whole


def top_set(scores, k):
    """The k experts with the largest scores, which must be apart from the others."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    require(scores[order[k - 1]] > scores[order[k]], "the best k are not determined")
    return frozenset(order[:k])


@rule("moe.capacity", "top_k_sets", UNSTATED)
def fewer_sets_than_vertices(data):
    """N experts and inputs of dimension d: fewer cells of N hyperplanes in dimension d + 1 than sets of k
    experts, so no router chooses all. And score vectors in R^N at which every set of k is chosen."""
    d, k, points = fields(data, "d k points")
    rows = matrix(items(points, 2, 1000))
    n = len(rows[0])
    whole(n, 3, 12), whole(k, 1, n - 1), whole(d, 1, n - 2)
    spend(len(rows) * n)
    chosen = {top_set(scores, k) for scores in rows}
    most = arrangement(n, d + 1)
    require(most < comb(n, k) == len(chosen), "not fewer in dimension d, or not all in score space")
    return {"at most": most, "in score space": len(chosen)}
