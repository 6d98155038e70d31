"""Bounds against exact enumeration: never exceeded, and attained where they claim to be."""

from __future__ import annotations

import contextlib
import random
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import comb, factorial, log2, prod
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.bounds import Bound, growth_exponent, pair_arrangement
from hardmax.bounds.bound import PrintedForm, Side
from hardmax.bounds.heads import symmetric_sum, symmetric_sums
from hardmax.errors import InvalidInputError
from hardmax.networks.constructions import best_found_mlp, tooth_units

SIZES = st.integers(1, 7)


def forms(result: hm.bounds.RegionBounds, name: str) -> dict[str, str]:
    return {form.place: str(form.verdict) for form in result[name].printed}


# Heads
# ----------------------------------------------------------------------------------------------------


def prefixes(sizes, d, *, biased):
    """Heads of different sizes that attain the maximum: the first keys of parabolic ones."""
    sets, biases = hm.geometry.parabolic_heads(max(sizes), len(sizes), d, biased=biased)
    cut = [keys[:n] for keys, n in zip(sets, sizes, strict=True)]
    return cut, None if biases is None else [b[:n] for b, n in zip(biases, sizes, strict=True)]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("sizes", "d"), [((2, 3, 4), 2), ((1, 5, 2, 3), 3), ((4, 4, 3), 3), ((2, 6, 3), 4)])
def test_heads_of_different_sizes_attain_the_maximum(sizes, d, biased):
    found = hm.minkowski_vertices(*prefixes(sizes, d, biased=biased))
    assert found.count == hm.vertex_maximum(sizes, len(sizes), d, biased=biased)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_heads_of_width_one_have_two_winners_each(d, biased):
    """Keys on lines through the origin, lifted or not: an arrangement of one hyperplane per head."""
    rng = np.random.default_rng(d)
    heads, n = 5, 6
    directions = rng.integers(-9, 10, (heads, d + biased))
    factors = rng.permuted(np.tile(np.arange(-2, n - 2), (heads, 1)), axis=1)
    keys = factors[:, :, None] * directions[:, None, :]
    found = hm.minkowski_vertices(keys[..., :d], keys[..., d] if biased else None)
    most = hm.vertex_maximum(n, heads, d, biased=biased, d_head=1)
    assert found.count == most == hm.bounds.zaslavsky(heads, d, central=not biased)
    assert most <= 2**heads


@pytest.mark.parametrize("biased", [False, True])
def test_heads_of_width_two_reach_everything(biased):
    """The parabola needs two coordinates of its own per head, so d_head = 2 restricts nothing."""
    for heads, d in product((1, 2, 3, 4), (2, 3)):
        sets, biases = hm.geometry.parabolic_heads(4, heads, d, biased=biased)
        for h in range(heads):
            lifted = sets[h] if biases is None else np.column_stack([sets[h], biases[h]])
            assert np.linalg.matrix_rank(lifted - lifted[0]) <= 2
        most = hm.vertex_maximum(4, heads, d, biased=biased, d_head=2)
        assert hm.minkowski_vertices(sets, biases).count == most
        assert most == hm.vertex_maximum(4, heads, d, biased=biased)


@pytest.mark.parametrize("biased", [False, True])
def test_mixed_ranks_are_attained(biased):
    ranks, n, d = (2, 1, 3, 0), 5, 3
    sizes = [min(n, 2**rank) if rank < 2 else n for rank in ranks]
    found = hm.minkowski_vertices(*prefixes(sizes, d, biased=biased))
    assert found.count == hm.vertex_maximum(n, 4, d, biased=biased, ranks=ranks)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("span", [1, 2, 3])
def test_keys_that_span_a_subspace_count_as_in_that_subspace(span, biased):
    d, heads, n = 4, 4, 3
    sets, biases = hm.geometry.parabolic_heads(n, heads, span, biased=biased)
    rng = np.random.default_rng(span)
    inclusion = rng.integers(-3, 4, (span, d))
    assert np.linalg.matrix_rank(inclusion) == span
    shifts = rng.integers(-5, 6, (heads, 1, d))  # a common shift of all keys of a head moves no wall
    keys = [points @ inclusion + shift for points, shift in zip(sets, shifts, strict=True)]
    found = hm.minkowski_vertices(keys, biases)
    assert found.count == hm.vertex_maximum(n, heads, d, biased=biased, key_span=span)
    assert found.count <= hm.vertex_maximum(n, heads, d, biased=biased)


def test_keys_that_do_not_differ_make_one_cell():
    assert hm.vertex_maximum(9, 4, 3, key_span=0) == 1
    assert hm.vertex_maximum(9, 4, 3, key_span=0, biased=True) == 1
    assert hm.minkowski_vertices(np.ones((4, 9, 3)), np.arange(36.0).reshape(4, 9)).count == 1
    assert growth_exponent(4, 3, key_span=0) == 0


@hypothesis_settings(max_examples=60)
@given(st.data())
def test_random_heads_never_exceed_the_maximum(data):
    d, heads = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=heads, max_size=heads))
    biased = data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    keys = [rng.integers(-6, 7, (n, d)) for n in sizes]
    biases = [rng.integers(-6, 7, n) for n in sizes] if biased else None
    lifted = [np.column_stack([k, b]) for k, b in zip(keys, biases, strict=True)] if biased else keys
    ranks = [int(np.linalg.matrix_rank(points - points[0])) for points in lifted]
    span = int(np.linalg.matrix_rank(np.vstack([k - k[0] for k in keys])))
    count = hm.minkowski_vertices(keys, biases).count
    most = hm.vertex_maximum(sizes, heads, d, biased=biased, ranks=ranks, key_span=span)
    assert count <= most <= hm.vertex_maximum(sizes, heads, d, biased=biased)
    assert most <= prod(sizes)
    assert most <= pair_arrangement(max(sizes), heads, d, biased=biased)


@given(SIZES, SIZES, SIZES, st.booleans())
def test_equal_sizes_give_the_printed_formula(n, heads, d, biased):
    value = hm.vertex_maximum(n, heads, d, biased=biased)
    assert value == hm.vertex_maximum([n] * heads, heads, d, biased=biased)
    if n >= 2:
        low = sum(comb(heads, j) * (n - 1) ** j for j in range(d + biased))
        assert value == (low if biased else low + comb(heads - 1, d - 1))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("heads", "d", "d_head"), [(4, 3, None), (2, 3, 2), (5, 2, None), (1, 1, 2), (3, 3, 1)]
)
def test_growth_exponents(heads, d, d_head, biased):
    exponent = growth_exponent(heads, d, biased=biased, d_head=d_head)
    n = 2**40
    ratio = Fraction(
        hm.vertex_maximum(2 * n, heads, d, biased=biased, d_head=d_head),
        hm.vertex_maximum(n, heads, d, biased=biased, d_head=d_head),
    )
    assert log2(ratio) == pytest.approx(exponent, abs=1e-6)


def test_the_saturated_form_of_theorem_v2_is_false_from_dimension_three():
    for d in range(1, 7):
        found = hm.region_bounds(n_tokens=8, heads=d + 1, d_model=d, d_ff=4, depth=1, biased=False)
        assert forms(found, "multi_head_linear")["Theorem V.2"] == ("holds" if d <= 2 else "false")
        assert forms(found, "multi_head_affine")["Theorem V.2"] == "false"


@given(st.integers(2, 9), SIZES, SIZES)
def test_the_inequality_of_appendix_d_holds_for_linear_scores(n, heads, d):
    found = hm.region_bounds(n_tokens=n, heads=heads, d_model=d, d_ff=2, depth=1, biased=False)
    assert forms(found, "multi_head_linear")["Appendix D"] != "false"


def test_the_inequality_of_appendix_d_fails_for_affine_scores():
    found = hm.region_bounds(n_tokens=2, heads=30, d_model=2, d_ff=2, depth=1)
    (form,) = (form for form in found["multi_head_affine"].printed if form.place == "Appendix D")
    assert form.verdict is PrintedForm.FALSE
    sets, biases = hm.geometry.parabolic_heads(2, 30, 2, biased=True)
    assert hm.minkowski_vertices(sets, biases).count == found["multi_head_affine"].value > form.value


def test_figure_4():
    found = hm.region_bounds(n_tokens=6, heads=3, d_model=3, d_ff=0, depth=1, biased=False)
    assert found["multi_head_linear"].value == found.upper.value == 92
    assert forms(found, "multi_head_linear")["Figure 4, Example V.3"] == "false"
    assert forms(found, "multi_head_affine")["Figure 4, Example V.3"] == "holds"
    assert [form.value for form in found["multi_head_linear"].printed] == [216, 216, 294, None]


# Arrangements and ReLU networks
# ----------------------------------------------------------------------------------------------------


def arrangement(n, d, rng, *, central=False):
    """A ReLU layer whose units are n hyperplanes."""
    b = np.zeros(n) if central else rng.integers(-99, 100, n)
    return hm.Network([hm.FeedForward(rng.integers(-99, 100, (n, d)), b, np.ones((1, n)), [0])])


@pytest.mark.parametrize("central", [False, True])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (4, 1), (3, 2), (5, 2), (2, 3), (5, 3), (6, 4)])
def test_zaslavsky_is_attained(n, d, central):
    network = arrangement(n, d, np.random.default_rng(10 * n + d), central=central)
    assert int(hm.count_cells(network, hm.WholeSpace(d))) == hm.bounds.zaslavsky(n, d, central=central)


@given(st.integers(0, 12), st.integers(0, 12))
def test_zaslavsky_follows_pascal(n, d):
    assert hm.bounds.zaslavsky(n, d) == sum(comb(n, j) for j in range(d + 1))
    if d:
        assert hm.bounds.zaslavsky(n + 1, d) == hm.bounds.zaslavsky(n, d) + hm.bounds.zaslavsky(n, d - 1)
    if n and d:  # a central arrangement is twice an affine one in a hyperplane
        assert hm.bounds.zaslavsky(n, d, central=True) == 2 * hm.bounds.zaslavsky(n - 1, d - 1)


@pytest.mark.parametrize(("d_ff", "d"), [(2, 4), (4, 4), (5, 4), (1, 3), (40, 3)])
def test_the_printed_bound_on_a_relu_layer_needs_enough_units(d_ff, d):
    found = hm.region_bounds(n_tokens=2, heads=1, d_model=d, d_ff=d_ff, depth=1)
    exact = Fraction(27182818284, 10**10) * Fraction(d_ff, d)  # a little less than e d_ff / d
    false = found["feed_forward"].printed[0].verdict is PrintedForm.FALSE
    assert false == (exact**d < hm.bounds.zaslavsky(d_ff, d)) == (d_ff < d)


def test_example_iii3():
    found = hm.bounds.mlp_bounds([2, 3, 3])
    assert [bound.value for bound in found] == [49, 40, 34, 34]
    assert [bound.side for bound in found] == [Side.UPPER, Side.UPPER, Side.MAXIMUM, Side.FOUND]
    assert found.false_forms[0].place == "Example III.3"
    for arithmetic in ("certified", "exact"):
        count = hm.count_cells(best_found_mlp((2, 3, 3)), hm.WholeSpace(2), arithmetic=arithmetic)
        assert count.complete
        assert count.exact
        assert count.n_cells == 34
        assert count.cells_by_depth == (7, 34)


def test_ranks_for_each_way_of_orienting_three_lines():
    """One of the eight patterns of three units does not occur; which one decides how much is possible."""
    pieces = {pattern: hm.bounds.zaslavsky(3, min(sum(pattern), 2)) for pattern in product((0, 1), repeat=3)}
    most = {pattern: sum(pieces.values()) - pieces[pattern] for pattern in pieces}
    assert [most[pattern] for pattern in ((0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1))] == [40, 37, 34, 34]
    found = hm.enumerate_regions(best_found_mlp().truncate(1), hm.WholeSpace(2))
    occurring = {tuple(map(int, row[:3])) for row in np.asarray(found.relu_bits)}
    assert set(pieces) - occurring == {(0, 0, 1)}


def test_only_known_networks_are_stored():
    with pytest.raises(InvalidInputError, match=r"widths must be one of \[2, 3, 3\], but was \[2, 4\]"):
        best_found_mlp([2, 4])


def serra(d, hidden):
    """The bound with ranks, summed term by term as it is stated."""
    total = 0
    for choice in product(*(range(n + 1) for n in hidden)):
        rank, fits = d, True
        for n, j in zip(hidden, choice, strict=True):
            fits = fits and j <= min(rank, n)
            rank = min(rank, n - j)
        total += fits * prod(comb(n, j) for n, j in zip(hidden, choice, strict=True))
    return total


@given(st.integers(1, 4), st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_the_count_with_ranks_is_the_sum_that_is_stated(d, hidden):
    found = hm.bounds.mlp_bounds([d, *hidden])
    assert found["rank_aware"].value == serra(d, hidden) <= found["product"].value


@hypothesis_settings(max_examples=40)
@given(st.integers(1, 3), st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(0, 10**6))
def test_random_mlps_never_exceed_the_count_with_ranks(d, hidden, seed):
    rng = np.random.default_rng(seed)
    widths = [d, *hidden, 1]
    layers = [(rng.integers(-9, 10, (n, m)), rng.integers(-9, 10, n)) for m, n in pairwise(widths)]
    count = hm.count_cells(hm.Network.mlp(layers), hm.WholeSpace(d))
    assert count.n_cells <= hm.bounds.mlp_bounds([d, *hidden])["rank_aware"].value


def test_one_relu_layer_is_a_maximum():
    assert hm.bounds.mlp_bounds([2, 5]).upper.side is Side.MAXIMUM
    assert hm.bounds.mlp_bounds([2, 5]).upper.value == 16


# Transformers
# ----------------------------------------------------------------------------------------------------


def random_transformer(rng, *, d, n, heads, d_ff, depth, biased, skip):
    blocks = []
    for _ in range(depth):
        scores, outputs = rng.integers(-5, 6, (2, heads, n, d))
        biases = rng.integers(-5, 6, (heads, n)) if biased else None
        blocks.append(hm.Attention(scores, biases, outputs))
        if d_ff:
            w_in, b_in = rng.integers(-5, 6, (d_ff, d)), rng.integers(-5, 6, d_ff)
            w_out, b_out = rng.integers(-5, 6, (d, d_ff)), rng.integers(-5, 6, d)
            blocks.append(hm.FeedForward(w_in, b_in, w_out, b_out, skip=skip))
    return hm.Network(blocks)


@hypothesis_settings(max_examples=60)
@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 4),
    st.integers(1, 2),
    st.booleans(),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_random_transformers_never_exceed_the_bounds(d, n, heads, d_ff, depth, biased, skip, seed):
    if d == 3:  # in space two blocks may have thousands of cells; one is enough
        depth = 1
    sizes = {"n_tokens": n, "heads": heads, "d_model": d, "d_ff": d_ff, "depth": depth, "biased": biased}
    network = random_transformer(
        np.random.default_rng(seed), d=d, n=n, heads=heads, d_ff=d_ff, depth=depth, biased=biased, skip=skip
    )
    found = hm.region_bounds(**sizes)
    count = hm.count_cells(network, hm.WholeSpace(d))
    assert count.n_cells <= found["depth"].value
    attention = hm.count_cells(hm.Network(network.blocks[:1]), hm.WholeSpace(d))
    assert attention.n_cells <= found["multi_head_affine" if biased else "multi_head_linear"].value
    block = hm.count_cells(hm.Network(network.blocks[: 2 if d_ff else 1]), hm.WholeSpace(d))
    assert block.n_cells <= found["block"].value
    if not skip:
        assert count.n_cells <= found["depth_rank_aware"].value <= found["depth"].value


def test_the_count_with_ranks_cannot_be_used_with_a_skip():
    """Two units in the plane, no attention: with a skip two layers reach 16 cells, without one fewer."""
    found = hm.region_bounds(n_tokens=1, heads=1, d_model=2, d_ff=2, depth=2)
    still = hm.Attention(np.zeros((1, 1, 2)), None, np.zeros((1, 1, 2)))
    first = hm.FeedForward([[1, 0], [0, 1]], [0, 0], [[-2, 0], [0, -2]], [0, 0], skip=True)  # |x| up to sign
    second = hm.FeedForward([[1, 0], [0, 1]], [1, 1], [[1, 0], [0, 1]], [0, 0], skip=True)
    count = hm.count_cells(hm.Network([still, first, still, second]), hm.WholeSpace(2))
    assert count.n_cells == found["depth"].value == 16
    assert found["depth_rank_aware"].value < 16


@pytest.mark.parametrize(
    ("d", "n", "teeth", "depth"), [(1, 3, 2, 2), (2, 3, 2, 1), (2, 2, 1, 2), (2, 4, 1, 2), (3, 2, 1, 1)]
)
def test_the_construction_reaches_its_bound(d, n, teeth, depth):
    found = hm.region_bounds(n_tokens=n, heads=d, d_model=d, d_ff=2 * teeth * d, depth=depth)
    network = hm.networks.sawtooth_network(d, n, teeth, depth)
    assert int(hm.count_cells(network, hm.Box.cube(d, 0, 1))) == found.lower.value
    assert found.lower.value == (2 * teeth * n) ** (d * depth)
    assert found["constructive"].printed[0].value * 2 ** (d * depth) == found.lower.value
    assert found.lower.value <= found.upper.value
    assert found.lower.exponent == found.upper.exponent == d * depth
    assert forms(found, "depth")["Corollary V.9"] == "holds"


@pytest.mark.parametrize(("d", "n", "teeth", "depth"), [(2, 3, 2, 2), (3, 2, 1, 1), (3, 3, 1, 1)])
def test_the_construction_without_biases_reaches_its_bound(d, n, teeth, depth):
    found = hm.region_bounds(
        n_tokens=n, heads=d - 1, d_model=d, d_ff=2 * teeth * (d - 1), depth=depth, biased=False
    )
    network = hm.networks.sawtooth_network(d, n, teeth, depth, variant="bias_free")
    origin, directions = [0] * (d - 1) + [1], np.eye(d)[: d - 1]
    slice_of = network.restrict(origin, directions)
    assert int(hm.count_cells(slice_of, hm.Box.cube(d - 1, 0, 1))) == found.lower.value
    assert found.lower.value == (2 * teeth * n) ** ((d - 1) * depth)


def folding_network(d, n, heads, teeth, depth):
    """The sawtooth with fewer heads than coordinates: the others are folded by the ReLU layer alone."""
    keys = [Fraction(2 * j + 1, 2 * n) for j in range(n)]
    scores = np.full((heads, n, d), Fraction(0), dtype=object)
    outputs = scores.copy()
    for h, j in product(range(heads), range(n)):
        scores[h, j, h], outputs[h, j, h] = keys[j], -keys[j]
    biases = np.array([[-key * key / 2 for key in keys]] * heads, dtype=object)
    units = [
        (i, slope, bias, out)
        for i in range(d)
        # without a head the coordinate stays in [0, 1] instead of [-1/2N, 1/2N]
        for slope, bias, out in (
            (s, b - (i >= heads) * Fraction(1, 2), o) for s, b, o in tooth_units(n if i < heads else 1, teeth)
        )
    ]
    w_in, w_out = np.full((len(units), d), Fraction(0)), np.full((d, len(units)), Fraction(0))
    for u, (i, slope, _, out) in enumerate(units):
        w_in[u, i], w_out[i, u] = slope, out
    layer = hm.FeedForward(w_in, [bias for _, _, bias, _ in units], w_out, [0] * d)
    return hm.Network([hm.Attention(scores, biases, outputs), layer] * depth)


@pytest.mark.parametrize(
    ("d", "n", "heads", "teeth", "depth"), [(2, 3, 1, 1, 2), (2, 3, 1, 2, 1), (3, 2, 2, 1, 1)]
)
def test_coordinates_without_a_head_are_folded_by_the_relu_layer(d, n, heads, teeth, depth):
    found = hm.region_bounds(n_tokens=n, heads=heads, d_model=d, d_ff=2 * teeth * d, depth=depth)
    network = folding_network(d, n, heads, teeth, depth)
    assert int(hm.count_cells(network, hm.Box.cube(d, 0, 1))) == found.lower.value
    assert found.lower.value == (n**heads * (2 * teeth) ** d) ** depth
    if depth == 1 and d == 2:
        assert int(hm.count_regions(network, hm.Box.cube(d, 0, 1))) == found.lower.value


@given(
    st.integers(1, 9),
    SIZES,
    SIZES,
    st.integers(0, 30),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([None, 1, 2, 3]),
    st.integers(0, 7),
)
def test_lower_never_exceeds_upper(n, heads, d, d_ff, depth, biased, d_head, span):
    found = hm.region_bounds(
        n_tokens=n,
        heads=heads,
        d_model=d,
        d_ff=d_ff,
        depth=depth,
        biased=biased,
        d_head=d_head,
        key_span=min(span, d),
    )
    assert found["depth_rank_aware"].value <= found["depth"].value == found["block"].value ** depth
    routing = found["multi_head_affine" if biased else "multi_head_linear"].value
    assert found["single_head"].value <= routing <= max(found["naive"].value, 1)
    if d_ff >= 2 * d:
        assert found["depth_rank_aware"].value == found["depth"].value
        if biased:
            assert found.lower.base is not None
    if found.lower.base is not None:
        assert found.lower.value <= found["depth_rank_aware"].value
        assert found.lower.exponent == found.upper.exponent


def test_theorem_v7_contradicts_the_bias_free_definition():
    found = hm.region_bounds(n_tokens=100, heads=2, d_model=2, d_ff=4, depth=1, biased=False)
    assert found.upper.value == 2200
    assert found["constructive"].printed[0].value == 10_000
    assert forms(found, "constructive") == {"Theorem V.7": "false"}
    assert forms(found, "depth")["Corollary V.9"] == "false"


# Long numbers, budgets, files, wrong input
# ----------------------------------------------------------------------------------------------------


def test_long_integers_are_exact_and_readable():
    found = hm.region_bounds(n_tokens=512, heads=512, d_model=512, d_ff=2048, depth=60)
    assert found.lower.value == 2048 ** (512 * 60)  # two teeth: 2 w N = 4 * 512
    assert found.lower.text == "1.138e101724"
    assert (found.lower.value + 5 * 10**101720) // 10**101721 == 1138
    assert found.lower.log10 == pytest.approx(512 * 60 * log2(2048) * 0.30102999566398120)
    described = found.to_dict()["bounds"][-1]
    assert int(described["hex"], 16) == found.upper.value
    assert described["value"] is None
    assert described["log10"] == found.upper.log10


@given(st.integers(1, 10**40), st.integers(1, 40))
def test_readable_numbers_are_the_number(base, power):
    text = Bound("b", Side.UPPER, base, "", "", power).text
    value = base**power
    if value < 10**15:
        assert text == str(value)
    else:
        leading, _, exponent = text.partition("e")
        error = abs(Fraction(leading) * 10 ** int(exponent) - value)
        assert 2 * 1000 * error <= 10 ** int(exponent)


def test_an_absurd_depth_costs_nothing():
    found = hm.region_bounds(n_tokens=512, heads=8, d_model=512, d_ff=600, depth=10**7)
    assert found.upper.log10 > 10**9
    assert "e" in found.upper.text
    assert found.to_dict()["bounds"][-1]["hex"] is None


def test_example_v3():
    budget = hm.bounds.head_budget(512, 512, heads=[1, 8])
    assert budget.n_parameters == (4 * 512**2,) * 2
    assert budget.vertices == (512, 2**72)
    everything = hm.bounds.head_budget(512, 512)
    assert everything.heads == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    assert everything.heads[everything.best] == 256
    assert everything.vertices[-1] == 2**512  # heads of width 1


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_a_budget_is_attained_at_small_size(heads):
    """d = 4, N = 5, keys of width 4 / H in blocks of their own; width 1 leaves two winners."""
    d, n, width = 4, 5, 4 // heads
    keys = np.zeros((heads, n, d), dtype=int)
    p = np.arange(n)
    for h in range(heads):
        keys[h, :, h * width] = p
        if width > 1:
            keys[h, :, h * width + 1] = -p * p
    budget = hm.bounds.head_budget(n, d, heads=[heads])
    assert budget.vertices == (hm.minkowski_vertices(keys).count,)
    assert budget.vertices == ({1: 5, 2: 25, 4: 16}[heads],)


@pytest.mark.parametrize(
    "result",
    [
        hm.region_bounds(n_tokens=64, heads=40, d_model=40, d_ff=100, depth=80, d_head=2),
        hm.region_bounds(n_tokens=6, heads=3, d_model=3, d_ff=0, depth=1, biased=False, ranks=[2, 1, 0]),
        hm.bounds.mlp_bounds([2, 3, 3]),
    ],
    ids=["long", "no construction", "mlp"],
)
def test_bounds_survive_a_file(result, tmp_path):
    loaded = hm.load(result.save(tmp_path / "bounds.npz"))
    assert loaded.question == result.question
    assert loaded.bounds == result.bounds
    assert repr(loaded) == repr(result)
    assert len(result.to_frame()) == len(result.bounds)


def test_a_budget_survives_a_file(tmp_path):
    budget = hm.bounds.head_budget(512, 96)
    loaded = hm.load(budget.save(tmp_path / "budget.npz"))
    assert loaded.to_dict() == budget.to_dict()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: hm.vertex_maximum(0, 2, 2), "n_tokens must be an integer of at least 1, but was 0."),
        (lambda: hm.vertex_maximum(2.5, 2, 2), "n_tokens must be an integer of at least 1, but was 2.5."),
        (lambda: hm.vertex_maximum(True, 2, 2), "n_tokens must be an integer of at least 1, but was True."),
        (lambda: hm.vertex_maximum(4, -1, 2), "heads must be an integer of at least 1, but was -1."),
        (
            lambda: hm.vertex_maximum([4, 4], 3, 2),
            "n_tokens must be one integer, or one for each of the 3 heads, but holds 2.",
        ),
        (
            lambda: hm.vertex_maximum(4, 2, 2, ranks=[1, -1]),
            "ranks must be an integer of at least 0, but was -1.",
        ),
        (
            lambda: hm.vertex_maximum(4, 2, 2, d_head=1, ranks=[1, 1]),
            "d_head and ranks must not both be given, because d_head is a rank for every head; ",
        ),
        (lambda: hm.vertex_maximum(4, 2, 2, d_head=0), "d_head must be an integer of at least 1, but was 0."),
        (
            lambda: hm.vertex_maximum(4, 2, 2, key_span=3),
            "key_span must be at most the dimension 2, but was 3.",
        ),
        (lambda: hm.bounds.zaslavsky(-1, 2), "n must be an integer of at least 0, but was -1."),
        (
            lambda: hm.region_bounds(n_tokens=4, heads=2, d_model=2, d_ff=-1, depth=1),
            "d_ff must be an integer of at least 0, but was -1.",
        ),
        (
            lambda: hm.region_bounds(n_tokens=4, heads=2, d_model=2, d_ff=4, depth=0),
            "depth must be an integer of at least 1, but was 0.",
        ),
        (
            lambda: hm.region_bounds(n_tokens=float("nan"), heads=2, d_model=2, d_ff=4, depth=1),
            "n_tokens must be an integer of at least 1, but was nan.",
        ),
        (
            lambda: hm.bounds.mlp_bounds([2]),
            "widths must hold the input dimension and at least one hidden width, but was [2].",
        ),
        (lambda: hm.bounds.mlp_bounds(7), "widths must be a sequence of integers, but was 7."),
        (
            lambda: hm.bounds.head_budget(8, 12, heads=[5]),
            "heads must divide d_model (12), but 5 does not; leave heads out for all divisors.",
        ),
        (
            lambda: hm.bounds.head_budget(8, 12, heads=[]),
            "heads must hold at least one number of heads, but is empty.",
        ),
        (
            lambda: hm.bounds.mlp_bounds([2, 3])["depth"],
            "name must be one of product, rank_aware, but was 'depth'.",
        ),
        (
            lambda: hm.region_bounds(n_tokens=4, heads=2, d_model=2, d_ff=1, depth=1).lower.value,
            "constructive has no value for these sizes: it needs d_ff >= 2 d",
        ),
    ],
)
def test_wrong_input_gets_one_sentence(call, sentence):
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert str(caught.value).startswith(sentence)


def test_one_key_makes_one_cell():
    for biased, d in product((False, True), (1, 2, 5)):
        assert hm.vertex_maximum(1, 4, d, biased=biased) == 1
    found = hm.region_bounds(n_tokens=1, heads=2, d_model=2, d_ff=4, depth=1)
    assert found.upper.value == 11
    assert found.lower.value == 4


def test_the_approximation_of_zaslavsky_is_only_one_for_many_hyperplanes():
    for n, close in ((3, False), (6, False), (100, True)):
        found = hm.region_bounds(n_tokens=2, heads=1, d_model=2, d_ff=n, depth=1)
        printed = found["zaslavsky"].printed[0]
        assert printed.log10 == pytest.approx(np.log10(n**2 / factorial(2)))
        assert (printed.verdict is PrintedForm.HOLDS) == close


# Any size
# ----------------------------------------------------------------------------------------------------

HUGE = 10**40
PLAIN = {"n_tokens": 4, "heads": 2, "d_model": 3, "d_ff": 5, "depth": 2}


@pytest.mark.parametrize(
    "question",
    [
        *(lambda name=name, huge=huge: hm.region_bounds(**{**PLAIN, name: huge}).to_dict()
          for name in PLAIN for huge in (10**9, 2**63, HUGE, 10**3999)),
        lambda: hm.region_bounds(**{**PLAIN, "heads": 100_000, "d_model": 100_000}),
        lambda: hm.region_bounds(**{**PLAIN, "depth": HUGE}).upper.value,
        lambda: hm.vertex_maximum(4, HUGE, 3),
        lambda: hm.vertex_maximum(4, 10**9, 3),
        lambda: hm.bounds.mlp_bounds([HUGE, 3]),
        lambda: hm.bounds.mlp_bounds([10**9, 10**9]),
        lambda: hm.bounds.mlp_bounds([100_000, 100_000, 100_000]),
        lambda: hm.bounds.zaslavsky(HUGE, HUGE),
        lambda: hm.bounds.order_k_bounds(HUGE, 3, HUGE // 2),
        lambda: hm.bounds.order_k_bounds(10**6, 2, 500_000),
        lambda: hm.bounds.pair_arrangement(HUGE, 2, 99_999),
        lambda: hm.bounds.head_budget(10, 83_160),
        lambda: hm.geometry.parabolic_heads(HUGE, 2, 3),
        lambda: hm.geometry.parabolic_heads(3, HUGE, 3),
        lambda: hm.geometry.parabolic_heads(2, 5, 100_000),
        lambda: hm.geometry.expected_vertices(4, HUGE, 3),
        lambda: hm.networks.sawtooth_network(2, 3, HUGE, 1),
        lambda: hm.networks.rounding_temperature(10**400, 2),
        lambda: hm.Network.random_mlp([2, HUGE, 1], 0),
        lambda: hm.Network.random(2, 3, 2, HUGE, 4, 0),
        lambda: hm.Box.cube(HUGE, 0, 1),
    ],
)  # fmt: skip
def test_any_size_is_answered_or_refused_at_once(question):
    begin = process_time()
    with contextlib.suppress(hm.errors.InvalidInputError):
        question()
    assert process_time() - begin < 10


def test_inputs_that_no_unit_tells_apart_do_not_count():
    """The count with ranks of a wide input is that of as many inputs as the first layer has units."""
    for hidden in ([3], [3, 4], [2, 5, 3], [4, 1, 6]):
        wide, narrow = (hm.bounds.mlp_bounds([d, *hidden])["rank_aware"].value for d in (9, hidden[0]))
        assert wide == narrow
    assert hm.bounds.mlp_bounds([HUGE, 3])["rank_aware"].value == 8


def test_four_leading_digits_at_the_largest_depth():
    found = hm.region_bounds(**{**PLAIN, "depth": HUGE})
    base = found.upper.base
    with localcontext() as context:
        context.prec = 200
        logarithm = Decimal(base).log10() * HUGE
        leading = 10 ** (logarithm % 1) * 1000
    mantissa, _, exponent = found.upper.text.partition("e")
    assert int(exponent) == int(logarithm)
    assert int(Decimal(mantissa) * 1000) == int(leading.to_integral_value())


def test_sums_of_products_are_those_of_the_definition():
    rng = random.Random(0)
    for _ in range(60):
        values = [rng.randint(1, 3) for _ in range(rng.randint(1, 6))]
        for top in range(len(values) + 2):
            expected = sum(prod(part) for j in range(top + 1) for part in combinations(values, j))
            assert symmetric_sum(values, top) == expected
            assert list(symmetric_sums(values, top))[-1] == expected
