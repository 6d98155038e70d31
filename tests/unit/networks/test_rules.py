"""Rules of attention: weights against other packages, exact values, files, refusals, and their laws."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from oracles.attention_rules import cells_by_rules, value_by_rules
from oracles.judging_rules import rule_problems, states_of
from oracles.random_rules import rule_instance

import hardmax as hm
from hardmax.errors import HardmaxError
from hardmax.results import load

OPTIONS = [
    {"rule": "top-k", "k": 2},
    {"rule": "top-k", "k": 2, "ties": "leftmost"},
    {"rule": "top-k", "k": 3, "ties": "rightmost"},
    {"rule": "sparsemax", "temperature": Fraction(1, 3)},
    {"rule": "sparsemax", "temperature": [1, 2.5]},
    {"rule": "relu"},
    {"rule": "relu", "temperature": 0.5},
    {"ties": "leftmost"},
    {"ties": "rightmost"},
]


def block(options, seed=0, *, d=2, n=5, integers=False, heads=2, **more):
    rng = np.random.default_rng(seed)
    draw = (lambda shape: rng.integers(-2, 3, shape)) if integers else rng.standard_normal
    return hm.Attention(draw((heads, n, d)), draw((heads, n)), draw((heads, n, d)), **options, **more)


# ----------------------------------------------------------------------------------------------
# Values
# ----------------------------------------------------------------------------------------------


def test_sparsemax_is_that_of_entmax():
    torch, entmax = pytest.importorskip("torch"), pytest.importorskip("entmax")
    head = block(
        {"rule": "sparsemax", "temperature": [0.25, 3.0]},
        mask=np.array([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0]]) > 0,
    )
    x = np.random.default_rng(1).standard_normal((300, 2))
    s = np.einsum("nd,hkd->nhk", x, head.scores.floats) + head.biases.floats
    s = np.where(head.mask, s / np.array([0.25, 3.0])[:, None], -np.inf)
    weights = entmax.sparsemax(torch.from_numpy(s), dim=-1).numpy()
    expected = x + np.einsum("nhk,hke->ne", weights, head.outputs.floats)
    np.testing.assert_allclose(head(x), expected, rtol=0, atol=1e-12)
    sizes = np.count_nonzero(head.chosen(x), axis=-1)
    assert set(np.unique(sizes)) >= {1, 2, 3}
    np.testing.assert_array_equal(head.chosen(x), weights > 0)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_k_is_that_of_torch(k):
    torch = pytest.importorskip("torch")
    head = block({"rule": "top-k", "k": k})
    x = np.random.default_rng(1).standard_normal((100, 2))
    s = torch.from_numpy(np.einsum("nd,hkd->nhk", x, head.scores.floats) + head.biases.floats)
    weights = torch.zeros_like(s).scatter(-1, torch.topk(s, k).indices, 1 / k).numpy()
    expected = x + np.einsum("nhk,hke->ne", weights, head.outputs.floats)
    np.testing.assert_allclose(head(x), expected, rtol=0, atol=1e-12)


def test_relu_attention_is_that_of_torch():
    torch = pytest.importorskip("torch")
    mask = np.array([[1, 1, 1, 1, 1], [0, 1, 1, 1, 0]]) > 0
    x = np.random.default_rng(1).standard_normal((100, 2))
    for options, tau in (({}, [5, 3]), ({"temperature": 0.5}, [0.5, 0.5])):
        head = block({"rule": "relu"} | options, mask=mask)
        s = torch.from_numpy(np.einsum("nd,hkd->nhk", x, head.scores.floats) + head.biases.floats)
        weights = torch.relu(s).numpy() * mask / np.array(tau)[:, None]
        expected = x + np.einsum("nhk,hke->ne", weights, head.outputs.floats)
        np.testing.assert_allclose(head(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_values_on_a_grid_where_scores_tie(options):
    """Integers tie at many points of a grid: the oracle decides in fractions who wins or shares."""
    network = hm.Network([block(options, 3, integers=True), block(options, 4, integers=True)])
    grid = np.stack(np.meshgrid(np.arange(-2, 3), np.arange(-2, 3)), axis=-1).reshape(-1, 2)
    for x in grid.tolist():
        expected = value_by_rules(network, x)
        assert list(network.exact_value(x)) == expected
        first = hm.Network(network.blocks[:1])  # its scores are integers: floats do not round
        np.testing.assert_allclose(first(x), [float(v) for v in value_by_rules(first, x)], atol=1e-12)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_affine_at_is_the_map_of_the_cell(options):
    network = hm.Network([block(options, 5), block(options, 6)])
    expected = cells_by_rules(network, [-1, -1], [1, 1])
    for cell in expected.cells[::3]:
        points = [[Fraction(a, p[-1]) for a in p[:-1]] for p, _ in cell.piece.vertices]
        x = [float(sum(column) / len(points)) for column in zip(*points, strict=True)]
        linear, offset = network.affine_at(x)
        rows = np.array([[float(a) for a in row] for row in cell.map])
        np.testing.assert_allclose(np.column_stack([linear, offset]), rows, rtol=1e-9, atol=1e-9)


# ----------------------------------------------------------------------------------------------
# Files
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_saved_network_and_its_cells_come_back(tmp_path, options):
    network = hm.Network([block(options, 7, heads=2), hm.FeedForward(np.eye(2), [0.5, -0.5], np.eye(2))])
    found = hm.enumerate_regions(network, hm.Box.cube(2, -1, 1))
    for thing, name in ((network, "network"), (found, "cells")):
        thing.save(tmp_path / f"{name}.npz")
    again = load(tmp_path / "network.npz").blocks[0]
    given = network.blocks[0]
    assert (again.rule, again.k, again.ties) == (given.rule, given.k, given.ties)
    assert again._rule.temperatures == given._rule.temperatures
    cells = load(tmp_path / "cells.npz")
    assert states_of(cells) == states_of(found)
    assert [cells.exact_map(i) for i in range(len(cells))] == [found.exact_map(i) for i in range(len(found))]
    assert cells.n_regions == found.n_regions
    assert cells.verify().ok


# ----------------------------------------------------------------------------------------------
# Refusals
# ----------------------------------------------------------------------------------------------

REFUSED = [
    ({"rule": "sparsemax"}, "temperature must be given with rule 'sparsemax'; try temperature=1."),
    ({"rule": "sparsemax", "temperature": 0}, "temperature must be above 0 .* holds 0; .*hardmax"),
    ({"rule": "sparsemax", "temperature": -1.5}, "temperature must be above 0 .* holds -1.5"),
    ({"rule": "sparsemax", "temperature": [1, -1]}, "temperature must be above 0 .* holds -1"),
    ({"rule": "sparsemax", "temperature": [1, 1, 1]}, r"one number or one per head \(2\), but holds 3"),
    ({"rule": "sparsemax", "temperature": float("nan")}, "temperature .*finite"),
    (
        {"rule": "sparsemax", "temperature": 1, "ties": "leftmost"},
        "ties must be left out with rule 'sparsemax'",
    ),
    ({"rule": "sparsemax", "temperature": 1, "k": 2}, "k must be left out with rule 'sparsemax', but was 2"),
    ({"rule": "relu", "temperature": 0}, "temperature must be above 0 with rule 'relu'"),
    ({"rule": "relu", "ties": "rightmost"}, "ties must be left out with rule 'relu'"),
    ({"temperature": 1}, "temperature must be left out with rule 'hardmax'"),
    ({"k": 1}, "k must be left out with rule 'hardmax', but was 1"),
    ({"rule": "top-k"}, "k must be a whole number of at least 1 .* but was None"),
    ({"rule": "top-k", "k": 0}, "k must be a whole number of at least 1 .* but was 0"),
    ({"rule": "top-k", "k": 1.0}, "k must be a whole number of at least 1 .* but was 1.0"),
    ({"rule": "top-k", "k": True}, "k must be a whole number of at least 1 .* but was True"),
    ({"rule": "top-k", "k": 6}, "at most the number of keys that are present, but is 6 and head 0 has 5"),
    (
        {"rule": "top-k", "k": 3, "mask": np.arange(5) < [[3], [2]]},
        "but is 3 and head 1 has 2; lower k or change the mask",
    ),
    ({"rule": "softmax"}, "temperature must be given with rule 'softmax'"),
    ({"rule": "argmax"}, "rule must be one of hardmax, top-k, sparsemax, relu, softmax, but was 'argmax'."),
    ({"ties": "first"}, "ties must be one of mean, leftmost, rightmost, but was 'first'."),
]


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=lambda value: str(value)[:40])
def test_options_that_make_no_sense_are_refused_in_one_sentence(options, words):
    with pytest.raises(HardmaxError) as refused:
        block(options)
    message = str(refused.value)
    assert re.search(words, message), message
    assert message.endswith(".")
    assert "\n" not in message


def test_softmax_has_no_cells():
    network = hm.Network([block({"rule": "softmax", "temperature": 1})])
    for ask in (hm.enumerate_regions, hm.count_cells, hm.count_regions):
        with pytest.raises(HardmaxError, match="must be piecewise affine") as refused:
            ask(network, hm.Box.cube(2, -1, 1))
        assert "\n" not in str(refused.value)


# ----------------------------------------------------------------------------------------------
# Laws
# ----------------------------------------------------------------------------------------------


def cells_of(head, **options):
    return hm.enumerate_regions(hm.Network([head]), hm.Box.cube(2, -1, 1), **options)


def with_rule(head, **options):
    kept = head.scores.numbers, head.biases.numbers, head.outputs.numbers
    return hm.Attention(*kept, mask=head.mask, skip=head.skip, **options)


@pytest.mark.parametrize("seed", range(4))
def test_a_single_key_has_all_weight_where_it_leads_by_the_temperature(seed):
    r"""Sparsemax gives all weight to key i exactly where :math:`s_i - s_j \ge \tau` for every other j.

    The threshold is at least that of the set {i}, :math:`s_i - \tau`, with equality if and only if {i}
    attains the maximum: then every other :math:`s_j \le t = s_i - \tau`. Conversely, if all others are below
    :math:`s_i - \tau`, no key can raise the threshold of {i} by joining, so it is the maximum.

    So the cell of the support {i} is the hardmax cell of i, moved inwards by :math:`\tau` in every difference
    of scores. A point of it whose distance to each wall :math:`s_i = s_j` is at least :math:`\tau / |a_i -
    a_j|` has the support of hardmax. As soon as :math:`\tau` is below the largest lead in every hardmax cell,
    the supports of size one are exactly the keys that have a hardmax cell.
    """
    head = block({}, seed, n=8, heads=1)
    hard = cells_of(head)
    scores, biases = head.scores.floats[0], head.biases.floats[0]
    leads = []
    for i, (winner,) in enumerate(hard.routings.tolist()):
        x = [*hard.exact_witness(i), Fraction(1)]
        s = [
            sum((Fraction(a) * v for a, v in zip((*row, b), x, strict=True)), Fraction(0))
            for row, b in zip(scores.tolist(), biases.tolist(), strict=True)
        ]
        leads.append(min(s[winner] - other for j, other in enumerate(s) if j != winner))
    tau = min(leads) * Fraction(99, 100)
    soft = cells_of(with_rule(head, rule="sparsemax", temperature=tau))
    chosen = soft.chosen(0)[:, 0]
    single = np.flatnonzero(chosen.sum(axis=1) == 1)
    assert sorted(chosen[single].argmax(axis=1)) == sorted(hard.routings[:, 0].tolist())

    x = np.random.default_rng(seed).uniform(-1, 1, (2000, 2))
    s = x @ scores.T + biases
    best = s.argmax(axis=1)
    slopes = np.linalg.norm(scores[best][:, None] - scores, axis=2)
    slopes[np.arange(len(x)), best] = np.inf
    distance = ((s.max(axis=1)[:, None] - s) / slopes).copy()
    distance[np.arange(len(x)), best] = np.inf
    bound = float(tau) / slopes * (1 + 1e-9)
    far = (distance >= bound).all(axis=1)
    supports = with_rule(head, rule="sparsemax", temperature=tau).chosen(x)[:, 0]
    assert far.any()
    assert not far.all()
    assert (supports[far].sum(axis=1) == 1).all()
    np.testing.assert_array_equal(supports[far].argmax(axis=1), best[far])
    near = (distance <= bound * (1 - 1e-6)).any(axis=1)
    assert (supports[near].sum(axis=1) > 1).all()


@pytest.mark.parametrize("seed", range(4))
def test_at_small_temperatures_every_face_of_the_diagram_has_a_cell(seed):
    r"""With generic keys and a small temperature, sparsemax has :math:`2E + 1` cells for E walls of hardmax.

    A support S of sparsemax has all its members within :math:`\tau` of the largest score. As :math:`\tau \to
    0` its cell shrinks to the face of the power diagram at which the keys of S tie. Where the diagram is
    simple, the differences of the scores that tie at a face of dimension d - m + 1 are m - 1 independent
    coordinates across it, and each subset of the m keys is a support of the sparsemax of them, which is
    :math:`\tau` times the one at temperature 1. So supports and faces that meet the inside of the box
    correspond: C cells, E walls, V vertices. The walls and the sides of the box are a connected planar graph,
    so :math:`V - E + C = 1`, and :math:`C + E + V = 2E + 1`.
    """
    sites = np.random.default_rng(seed).uniform(-1, 1, (1, 9, 2))
    head = hm.Attention(sites, -(sites**2).sum(axis=2) / 2, sites)
    hard = cells_of(head)
    n_walls = len(hard.adjacency)
    assert n_walls > 12
    soft = cells_of(with_rule(head, rule="sparsemax", temperature=Fraction(1, 10**7)))
    assert soft.n_cells == 2 * n_walls + 1
    assert soft.complete
    hot = cells_of(with_rule(head, rule="sparsemax", temperature=10**4))
    assert hot.n_cells == 1  # every key has weight everywhere


@pytest.mark.parametrize("ties", ["mean", "leftmost", "rightmost"])
@pytest.mark.parametrize("integers", [False, True])
def test_top_1_is_hardmax(ties, integers):
    head = block({}, 8, integers=integers)
    one, hard = (cells_of(with_rule(head, ties=ties, **o)) for o in ({"rule": "top-k", "k": 1}, {}))
    assert sorted(states_of(one)) == sorted(states_of(hard))
    maps = [{state: found.exact_map(i) for i, state in enumerate(states_of(found))} for found in (one, hard)]
    assert maps[0] == maps[1]
    assert one.n_regions == hard.n_regions


def test_all_keys_together_are_one_cell():
    for integers in (False, True):
        head = block({"rule": "top-k", "k": 5}, 9, integers=integers)
        found = cells_of(head)
        assert found.n_cells == 1
        assert found.chosen(0).all()
        linear, offset = found.exact_map(0)
        assert linear == [[1, 0], [0, 1]]
        outputs = [[Fraction(v) for v in row] for one in head.outputs.floats.tolist() for row in one]
        assert offset == [sum(column) / 5 for column in zip(*outputs, strict=True)]


def exact_cells(head):
    found = cells_of(head)
    return {state: found.exact_map(i) for i, state in enumerate(states_of(found))}


@pytest.mark.parametrize("seed", range(3))
def test_sparsemax_knows_differences_of_scores_only(seed):
    rng = np.random.default_rng(seed)
    a, b, v = (
        rng.integers(-8, 9, (2, 4, 2)) / 4,
        rng.integers(-8, 9, (2, 4)) / 4,
        rng.standard_normal((2, 4, 2)),
    )
    options = {"rule": "sparsemax", "temperature": Fraction(2, 3)}
    moved = hm.Attention(a + rng.integers(-3, 4, (2, 1, 2)), b + rng.integers(-3, 4, (2, 1)), v, **options)
    assert exact_cells(moved) == exact_cells(hm.Attention(a, b, v, **options))


@pytest.mark.parametrize("rule", ["sparsemax", "relu"])
def test_scores_and_temperature_have_one_unit(rule):
    rng = np.random.default_rng(2)
    a, b = rng.integers(-8, 9, (2, 4, 2)) / 4, rng.integers(-8, 9, (2, 4)) / 4
    v, factor = rng.standard_normal((2, 4, 2)), Fraction(7, 3)
    first = hm.Attention(a, b, v, rule=rule, temperature=[1, Fraction(1, 2)])
    exactly = np.vectorize(lambda value: Fraction(float(value)) * factor, otypes=[object])
    second = hm.Attention(exactly(a), exactly(b), v, rule=rule, temperature=[factor, factor / 2])
    assert exact_cells(second) == exact_cells(first)


# ----------------------------------------------------------------------------------------------
# Cells against the oracle
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [*range(60), 1531, 1831])  # the last two once had wrong cells
def test_cells_of_small_networks_are_those_of_the_oracle(number):
    """More of them: ``python tests/scripts/sweeps.py --only rules``."""
    case = rule_instance(number)
    low, high = case.domain.low.numbers, case.domain.high.numbers
    expected = cells_by_rules(case.network, np.asarray(low).tolist(), np.asarray(high).tolist())
    found = hm.enumerate_regions(case.network, case.domain)
    assert rule_problems(found, expected, expected.n_regions) == []
    assert hm.count_cells(case.network, case.domain).n_cells == expected.n_cells


def test_keys_that_are_level_with_the_threshold_are_not_chosen():
    """Keys 1 and 2 are level with the threshold everywhere; they have no weight, though sets that attain the
    threshold may hold them."""
    head = hm.Attention(
        [[[0.0], [0.0], [0.0]]], [[0.0, 1.0, 0.0]], [[[1.0], [2.0], [4.0]]], rule="sparsemax", temperature=1
    )
    found = hm.enumerate_regions(hm.Network([head]), hm.Box([-1], [1]))
    assert found.chosen(0)[:, 0].tolist() == [[False, True, False]]
    assert found.exact_map(0) == ([[1]], [2])


@pytest.mark.parametrize("engine", ["plane", "search"])
def test_equal_keys_and_keys_that_tie_on_a_cell_share_alike(engine):
    """Behind units that are off, all three keys tie; two of them are equal everywhere."""
    off = hm.FeedForward(np.eye(2), [-9.0, -9.0], np.eye(2))
    keys, outputs = [[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]], [[[3.0, 0.0], [6.0, 0.0], [0.0, 9.0]]]
    for k in (1, 2):
        head = hm.Attention(keys, None, outputs, rule="top-k", k=k, skip=False)
        found = hm.enumerate_regions(hm.Network([off, head]), hm.Box.cube(2, -1, 1), engine=engine)
        assert found.exact_map(0) == ([[0, 0], [0, 0]], [3, 3])
    for ties, value in (("leftmost", [3, 0]), ("rightmost", [0, 9])):
        head = hm.Attention(keys, None, outputs, rule="top-k", k=1, ties=ties, skip=False)
        found = hm.enumerate_regions(hm.Network([off, head]), hm.Box.cube(2, -1, 1), engine=engine)
        assert found.exact_map(0)[1] == value


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("rule", ["top-k", "sparsemax"])
def test_keys_that_differ_but_tie_behind_a_map_that_forgets(rule, d, seed):
    """A map of rank one makes scores of different keys equal, so sets tie on whole cells and share walls."""
    rng = np.random.default_rng(seed)
    keys, outputs = rng.integers(-1, 2, (1, 6, 2)) * 1.0, rng.integers(-2, 3, (1, 6, 2)) * 1.0
    low = np.outer(rng.integers(1, 3, 2), rng.integers(-2, 3, d)) * 1.0
    folded = hm.FeedForward(np.vstack([np.eye(d), -np.eye(d)]), None, np.hstack([low, -low]))
    options = {"temperature": int(rng.integers(1, 4))}
    if rule == "top-k":
        options = {"k": int(rng.integers(2, 5)), "ties": ("mean", "leftmost", "rightmost")[seed % 3]}
    network = hm.Network([folded, hm.Attention(keys, None, outputs, skip=False, rule=rule, **options)])
    expected = cells_by_rules(network, [-3] * d, [2] * d)
    found = hm.enumerate_regions(network, hm.Box([-3] * d, [2] * d))
    assert rule_problems(found, expected, expected.n_regions) == []


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(
    ("scale", "options"),
    [
        (2.0**60, {"rule": "sparsemax", "temperature": 1}),
        (2.0**990, {"rule": "sparsemax", "temperature": 1}),
        (2.0**-1060, {"rule": "sparsemax", "temperature": 2.0**-1000}),
        (1.0, {"rule": "sparsemax", "temperature": Fraction(2) ** 1000}),
        (2.0**1000, {"rule": "top-k", "k": 2}),
        (2.0**-1065, {"rule": "top-k", "k": 2}),
    ],
    ids=str,
)
def test_cells_at_the_ends_of_the_range_of_floats(scale, options, d):
    rng = np.random.default_rng(d)
    a, b = rng.integers(-8, 9, (1, 4, d)) * scale, rng.integers(-8, 9, (1, 4)) * scale
    network = hm.Network([hm.Attention(a, b, rng.standard_normal((1, 4, d)), **options)])
    expected = cells_by_rules(network, [-1] * d, [1] * d)
    found = hm.enumerate_regions(network, hm.Box.cube(d, -1, 1))
    assert sorted(states_of(found)) == sorted(expected.by_states)
    for i, state in enumerate(states_of(found)):
        linear, offset = found.exact_map(i)
        rows = tuple((*row, constant) for row, constant in zip(linear, offset, strict=True))
        assert rows == expected.by_states[state].map


def test_a_temperature_below_all_floats_is_hardmax_in_a_forward_pass():
    head = block({}, 10)
    x = np.random.default_rng(0).standard_normal((50, 2))
    for tau in (Fraction(1, 10**400), 5e-324, Fraction(1, 2**1060)):
        np.testing.assert_array_equal(with_rule(head, rule="sparsemax", temperature=tau)(x), head(x))
