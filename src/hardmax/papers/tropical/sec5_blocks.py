"""P1 Theorem V.5 and figure 7: the partition of a block.

The paper draws the common refinement of the attention cells and one arrangement of folds. The ReLU layer
sees x + v_j, so each attention cell has the arrangement shifted by its own value: the block of figure 7 has
eight cells, one more than any refinement of a wall and two folds can have. The product bound is true: cells
of attention times cells of the arrangement.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax.bounds import vertex_maximum, zaslavsky
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.networks.blocks import Attention, FeedForward
from hardmax.networks.network import Network
from hardmax.papers.certificates import Certificate, network_record
from hardmax.papers.findings import Claim, Effort, Finding, Verdict, failing, holding
from hardmax.papers.recipes import Option, Outcome, Recipe, Settings, compared, refuted
from hardmax.papers.tropical.sec7_signatures import random_transformers
from hardmax.regions.api import count_cells, enumerate_regions

__all__ = ["CLAIMS", "RECIPES"]

LINE = Box([-4], [4])


def _block_is_refinement(effort: Effort) -> Finding:
    fold = FeedForward([[1]], [-1], [[1]], [0])
    moved = Network(
        (
            Attention([[[-1], [1]]], None, [[[3], [0]]]),
            fold,
        )
    )
    unmoved = Network(
        (
            Attention([[[-1], [1]]], None, [[[0], [0]]]),
            fold,
        )
    )
    cells = [int(count_cells(network, LINE)) for network in (moved, unmoved)]
    lines = [{"cells": n, "regions": r, "jumps": j, "signatures": 0} for n, r, j in ((4, 4, 1), (3, 2, 0))]
    certificate = Certificate(
        "network_line",
        {"networks": [network_record(moved), network_record(unmoved)], "interval": [-4, 4]},
        {"networks": lines},
    )
    return failing(
        cells == [4, 3],
        f"a wall at 0 with values 3 and 0, then a fold at 1: {cells[0]} cells; the refinement of both "
        f"partitions, which the same block without values has, {cells[1]}",
        {"cells": cells[0], "refinement": cells[1]},
        certificate,
    )


def _block_product_bound(effort: Effort) -> Finding:
    worst, checked = 0.0, 0
    for skip in (False, True):
        for network in random_transformers(effort, ffn_skip=skip):
            heads = int(count_cells(network.truncate(1), WholeSpace(2)))
            most = heads * zaslavsky(4, 2)
            assured = vertex_maximum(4, 2, 2, biased=True) * zaslavsky(4, 2)
            worst = max(worst, int(count_cells(network, WholeSpace(2))) / min(most, assured))
            checked += 1
    return holding(
        worst <= 1,
        f"{checked} random blocks: at most {worst:.2f} of (cells of the heads) R(d_ff, d)",
        {"blocks": checked, "largest_ratio": worst},
    )


def _run_figure_7(settings: Settings) -> Outcome:
    from hardmax.plotting.blocks import compare_block

    attention, feed_forward = _drawn(settings)
    box = Box.cube(2, -settings["box"], settings["box"])
    names = ["attention", "ReLU layer", "common refinement", "block"]
    counts = _counts(attention, feed_forward)
    drawn = dict(zip(names, counts, strict=True))
    size = settings["random_n_tokens"], settings["random_d_ff"]
    random = np.array([_counts(*_random(settings, i, *size)) for i in range(settings["draws"])])
    more = int((random[:, 3] > random[:, 2]).sum())
    fewer = int((random[:, 3] < random[:, 2]).sum())
    within = int((random[:, 3] <= random[:, 0] * random[:, 1]).sum())
    found = [enumerate_regions(network, box, n_jobs=1) for network in _networks(attention, feed_forward)]
    three_lines = (settings["n_tokens"], settings["d_ff"]) == (2, 2)
    return Outcome(
        figures={"fig7": compare_block(found, feed_forward, box)},
        tables={
            "drawn": {"partition": names, "cells_of_the_plane": counts},
            "random": {"draw": list(range(len(random))), **dict(zip(_columns(), random.T, strict=True))},
            "weights": _weights(attention, feed_forward),
        },
        comparisons=(
            refuted(
                "cells of the drawn block in the whole plane = common refinement",
                f"{drawn['common refinement']}{' (three lines: never more than 7)' if three_lines else ''}",
                str(drawn["block"]),
                drawn["block"] != drawn["common refinement"],
                claim="tropical.block_is_refinement",
            ),
            refuted(
                f"random blocks (N = {size[0]}, d_ff = {size[1]}, {len(random)} draws) = common refinement",
                "always",
                f"equally many in {len(random) - more - fewer}, more in {more}, fewer in {fewer}",
                more + fewer > 0,
                claim="tropical.block_is_refinement",
            ),
            compared(
                "product bound: cells of the block <= cells of attention x cells of the ReLU layer",
                "yes (Theorem V.5)",
                f"{within} of {len(random)} draws; drawn: {drawn['block']} <= "
                f"{drawn['attention']} x {drawn['ReLU layer']}",
                within == len(random) and drawn["block"] <= drawn["attention"] * drawn["ReLU layer"],
                claim="tropical.block_product_bound",
            ),
        ),
        notes=(
            "The FFN arrangement is the same up to a translation in every attention cell, so its number of "
            "cells bounds the pieces of each; that is all the product bound needs.",
        ),
    )


def _columns() -> list[str]:
    return ["attention", "relu_layer", "common_refinement", "block"]


def _drawn(settings: Settings) -> tuple[Attention, FeedForward]:
    """The block of the picture: by default integers, whose folds cross on both sides of the wall."""
    if settings["weights"] == "random" or (settings["n_tokens"], settings["d_ff"]) != (2, 2):
        return _random(settings, settings["draws"], settings["n_tokens"], settings["d_ff"])
    attention = Attention([[[2, 1], [-2, -1]]], None, [[[-2, 0], [3, 2]]])
    feed_forward = FeedForward([[1, -1], [1, 2]], [0, -3], [[1, 0], [0, 1]], [0, 0])
    return attention, feed_forward


def _random(settings: Settings, i: int, n_tokens: int, d_ff: int) -> tuple[Attention, FeedForward]:
    rng = settings.rng("blocks", i)
    scores, values = rng.standard_normal((2, 1, n_tokens, 2))
    biases = rng.standard_normal((1, n_tokens)) if settings["score_bias"] else None
    w_in, b_in = rng.standard_normal((d_ff, 2)), rng.standard_normal(d_ff)
    w_out, b_out = rng.standard_normal((2, d_ff)), rng.standard_normal(2)
    return Attention(scores, biases, values), FeedForward(w_in, b_in, w_out, b_out)


def _networks(attention: Attention, feed_forward: FeedForward) -> list[Network]:
    """Attention, the ReLU layer, the two at the same input (their common refinement), and the block."""
    scores: Any = attention.scores
    biases: Any = attention.biases
    still = Attention(scores, biases, np.zeros(attention.outputs.shape))
    parts: list[Any] = [[attention], [feed_forward], [still, feed_forward], [attention, feed_forward]]
    return [Network(blocks) for blocks in parts]


def _counts(attention: Attention, feed_forward: FeedForward) -> list[int]:
    networks = _networks(attention, feed_forward)
    return [count_cells(network, WholeSpace(2), n_jobs=1).n_cells for network in networks]


def _weights(attention: Attention, feed_forward: FeedForward) -> dict[str, list[Any]]:
    w_in: Any = feed_forward.w_in
    rows: list[tuple[str, Any, float]] = [
        *(
            (f"key {j}", key, bias)
            for j, (key, bias) in enumerate(
                zip(attention.scores.floats[0], attention.biases.floats[0], strict=True)
            )
        ),
        *((f"value {j}", value, 0.0) for j, value in enumerate(attention.outputs.floats[0])),
        *(
            (f"unit {i}", w, b)
            for i, (w, b) in enumerate(zip(w_in.floats, feed_forward.b_in.floats, strict=True))
        ),
    ]
    return {
        "vector": [name for name, _, _ in rows],
        "x1": [float(vector[0]) for _, vector, _ in rows],
        "x2": [float(vector[1]) for _, vector, _ in rows],
        "bias": [float(bias) for _, _, bias in rows],
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        paper="tropical",
        name="block_is_refinement",
        place="Theorem V.5, figure 7",
        statement="The partition of a block is the common refinement of those of its attention and its ReLU "
        "layer.",
        hypotheses="one dimension, two keys, one unit",
        computation="cells of the block, exactly",
        check=_block_is_refinement,
        expected=Verdict.FAILS,
        correction="The folds are shifted differently in every attention cell; the product of the two "
        "numbers still bounds the cells.",
        proof="proofs.md#what-a-block-cuts-at-most",
    ),
    Claim(
        paper="tropical",
        name="block_product_bound",
        place="Theorem V.5",
        statement="A block has at most (cells of its heads) R(d_ff, d) cells, so depth L has at most (V "
        "R)^L.",
        hypotheses="V the largest number of cells of the heads, linear or affine as the scores are",
        computation="cells of random blocks in the whole plane, exactly",
        check=_block_product_bound,
        expected=Verdict.HOLDS,
        proof="proofs.md#what-a-block-cuts-at-most",
    ),
)


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "tropical.fig7",
        "One block: the folds of the ReLU layer are shifted in each attention cell",
        (
            Option("n_tokens", 2, "keys (the paper: 2)", least=1),
            Option("d_ff", 2, "ReLU units (the paper: 2)", least=1),
            Option(
                "weights",
                "integers",
                "the block drawn: small integers (for 2 keys and 2 units) or random; not stated",
                choices=("integers", "random"),
            ),
            Option("score_bias", False, "whether random scores have biases"),
            Option("random_n_tokens", 4, "keys of the random blocks that are counted", least=1),
            Option("random_d_ff", 6, "ReLU units of the random blocks that are counted", least=1),
            Option("box", 4.0, "the pictures show [-box, box]^2; not stated", positive=True),
            Option("draws", 60, "random blocks that are counted", medium=500, paper=2000, least=1),
        ),
        _run_figure_7,
    ),
)
