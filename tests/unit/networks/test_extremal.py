"""Small networks with the most cells: counted by the library and, independently, in plain rationals."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import hardmax as hm
from hardmax.bounds import mlp_bounds, region_bounds, zaslavsky
from hardmax.errors import InvalidInputError
from hardmax.networks.extremal import centred_attention, centres, line_transformer, most_cells_mlp

PLANE = hm.WholeSpace(2)


def feasible(rows):
    """Whether a x + b y + c > 0 for all rows has a solution: y, then x, is eliminated in rationals."""
    rest = [(a, c) for a, b, c in rows if b == 0]
    rest += [
        (b * d - a * e, b * f - c * e)
        for (d, e, f), (a, b, c) in product(
            [row for row in rows if row[1] < 0], [row for row in rows if row[1] > 0]
        )
    ]
    lows = [-c / a for a, c in rest if a > 0]
    highs = [-c / a for a, c in rest if a < 0]
    return all(c > 0 for a, c in rest if a == 0) and (not lows or not highs or max(lows) < min(highs))


def patterns(first, second):
    """All signs of the units of both layers that occur on an open set; rows are weights and a bias."""
    found = 0
    for on in product((1, -1), repeat=len(first)):
        cell = [tuple(s * x for x in row) for s, row in zip(on, first, strict=True)]
        units = [
            tuple(sum(w * row[k] for w, row, s in zip(ws, first, on, strict=True) if s > 0) + (k == 2) * b
                  for k in range(3))
            for *ws, b in second
        ]  # fmt: skip
        for signs in product((1, -1), repeat=len(second)) if feasible(cell) else ():
            cut = [tuple(s * x for x in unit) for s, unit in zip(signs, units, strict=True)]
            found += feasible(cell + cut)
    return found


def exact(array):
    """The entries of an exact array as fractions."""
    return np.vectorize(Fraction, otypes=[object])(array.numbers)


def rows_of(weights, biases):
    return [(*row, b) for row, b in zip(exact(weights).tolist(), exact(biases).tolist(), strict=True)]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_three_lines_reach_their_maximum(n):
    network = most_cells_mlp(n)
    block = network.blocks[0]
    second = rows_of(block.w_out, block.b_out)
    first = rows_of(block.w_in, block.b_in)
    most = mlp_bounds([2, 3, n])["three_lines"].value
    assert most == 7 + 6 * n + 3 * n * (n - 1) // 2
    assert int(hm.count_cells(network, PLANE)) == patterns(first, second) == most


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_all_cells_are_regions(n):
    assert hm.count_regions(most_cells_mlp(n), PLANE).n_regions == mlp_bounds([2, 3, n]).upper.value


WAYS = {(1, 1, 1): (6, 2), (1, 1, -1): (6, 3), (1, -1, -1): (6, 3), (-1, -1, -1): (6, 2)}


@pytest.mark.parametrize("way", WAYS)
def test_random_networks_obey_the_two_inequalities_of_the_proof(way):
    """How many cells one zero set crosses, and in how many points two cross, for each orientation."""
    crossed, crossings = WAYS[way]
    lines = np.array([[1, 0, 0], [0, 1, 0], [-1, -1, 1]]) * np.array(way)[:, None]
    first = [tuple(map(Fraction, row)) for row in lines.tolist()]
    rng = np.random.default_rng(0)
    one, two = 0, 0
    for _ in range(120):
        rows = rng.integers(-9, 10, size=(2, 4)) + 0.5 * (rng.random((2, 4)) < 0.5)
        second = [tuple(map(Fraction, row)) for row in rows.tolist()]
        singles = [patterns(first, [row]) - 7 for row in second]
        both = patterns(first, second) - 7 - sum(singles)
        one, two = max(one, *singles), max(two, both)
    assert 4 <= one <= crossed
    assert 1 <= two <= crossings


@pytest.mark.parametrize("heads", [3, 4, 5])
def test_attention_reaches_the_power_of_one_layer(heads):
    cells = zaslavsky(heads, 2)
    held = centres(heads)
    assert len(held) == cells
    network = centred_attention(heads, 2)
    assert int(hm.count_cells(network, PLANE)) == cells**2
    bounds = region_bounds(n_tokens=2, heads=heads, d_model=2, d_ff=0, depth=2)
    assert bounds["depth"].value == cells**2
    # the proof's points: every sum of a centre and a small centre has its own pair of cells
    scale = exact(network.blocks[1].biases)[0, 1] / exact(network.blocks[0].biases)[0, 1]
    seen = set()
    for (on, centre), (then, small) in product(held, repeat=2):
        x, routing = centre + scale * small, []
        for block in network.blocks:
            scores = exact(block.scores) @ x + exact(block.biases)
            keys = scores.argmax(axis=1)
            assert (np.sort(scores, axis=1)[:, 0] < np.sort(scores, axis=1)[:, 1]).all()
            x = x + exact(block.outputs)[np.arange(heads), keys].sum(axis=0)
            routing.append(tuple(keys.tolist()))
        assert routing == [on, then]
        seen.add(tuple(routing))
    assert len(seen) == cells**2


@pytest.mark.parametrize("sizes", [(2, 1, 1, 3), (3, 2, 1, 2), (2, 2, 2, 2), (2, 3, 3, 2)])
def test_transformers_on_the_line_reach_the_product(sizes):
    n_tokens, heads, d_ff, depth = sizes
    network, line = line_transformer(*sizes), hm.WholeSpace(1)
    most = ((heads * (n_tokens - 1) + 1) * (d_ff + 1)) ** depth
    bounds = region_bounds(n_tokens=n_tokens, heads=heads, d_model=1, d_ff=d_ff, depth=depth)
    assert bounds["depth"].value == most
    assert int(hm.count_cells(network, line)) == hm.count_regions(network, line).n_regions == most


def test_sizes_are_checked():
    with pytest.raises(InvalidInputError, match="heads must be one of"):
        centred_attention(6, 1)
    with pytest.raises(InvalidInputError, match="d_ff must be a whole number"):
        line_transformer(2, 1, 0, 1)
