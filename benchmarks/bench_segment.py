"""A segment through a big network: width 384, six layers of 12 heads with 128 keys and 1536 ReLU units.

What a piece costs is stated in forward passes of the same network, of which a trace replaces at least two per
piece if it were searched for by bisection, and many more if it were sampled. A forward pass of one point has
to read all weights from memory; a batch of points, one per piece, is what matrix products can do at best.
"""

from __future__ import annotations

from timing import Comparison, print_table, seconds, side_by_side, spell

import numpy as np  # isort: skip (the thread counts come first)

import hardmax as hm

SHARE = 0.3  # of the way between two Gaussian points


def big_network() -> hm.Network:
    """Scales that keep scores and pre-activations of order one."""
    return hm.Network.random(
        384, n_tokens=128, heads=12, depth=6, d_ff=1536, rng=0, ffn_skip=True,
        score_scale=384**-0.5, bias_scale=0.5, output_scale=12**-0.5,
    )  # fmt: skip


def run() -> list[Comparison]:
    network = big_network()
    start, end = np.random.default_rng(1).standard_normal((2, 384))
    end = start + SHARE * (end - start)
    hm.trace_segment(hm.Network.random(3, 3, 2, 2, 4, 0), [0, 0, 0], [1, 1, 1])  # compiles
    first = seconds(lambda: hm.trace_segment(network, start, end))
    trace = hm.trace_segment(network, start, end)
    places = np.concatenate([[0.0], trace.breakpoints, [1.0]])
    middles = 0.5 * (places[1:] + places[:-1])
    points = start + middles[:, None] * (end - start)
    seen = network.signature(points)
    agree = (seen.routings == trace.routings).all(axis=1) & (seen.bits == trace.bits).all(axis=1)
    if not agree.all():
        raise SystemExit(f"{int((~agree).sum())} midpoints have other signatures than their pieces")
    ours, batched = side_by_side(
        lambda: hm.trace_segment(network, start, end), lambda: network(points), repeats=2, rounds=3
    )
    single = min(seconds(lambda: network(points[0])) for _ in range(10))
    pieces = trace.n_pieces
    note = (
        f"{pieces} pieces, certified, {pieces / ours:,.0f} per second, {spell(ours / pieces)} each; the "
        f"first trace also lays out the network, {spell(first - ours)}; "
        f"least gap {np.diff(places).min():.1e}, "
        f"greatest error {trace.errors.max():.1e}"
    )
    return [
        Comparison("segment over forward passes one by one", ours, pieces * single, 8.0, note=note),
        Comparison("segment over one batch of forward passes", ours, batched, 2.0, at_most=True),
    ]


if __name__ == "__main__":
    print_table(run())
