"""Mixtures of experts: values, files, bad input, and exact cells against brute force in rationals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.networks import MixtureOfExperts
from tests.oracles.rational_regions import enumerate_rationally, exact_forward


def feed_forward(rng, width, d, e, numbers):
    return hm.FeedForward(
        numbers(rng, (width, d)), numbers(rng, width), numbers(rng, (e, width)), numbers(rng, e)
    )


def normal(rng, shape):
    return rng.normal(size=shape)


def small(rng, shape):
    """Few values, many of them equal or zero."""
    return rng.integers(-2, 3, size=shape).astype(float)


def thirds(rng, shape):
    return np.array([Fraction(int(v), 3) for v in np.ravel(rng.integers(-4, 5, size=shape))]).reshape(shape)


def mixture(rng, d, e, numbers, *, n=None, k=None, skip=None):
    n = int(rng.integers(1, 6)) if n is None else n
    if k is None:  # mostly fewer than all experts: otherwise the router chooses nothing
        k = n if n == 1 or rng.random() < 0.1 else int(rng.integers(1, n))
    experts = [feed_forward(rng, int(rng.integers(1, 4)), d, e, numbers) for _ in range(n)]
    if numbers is not normal and n > 1 and rng.random() < 0.3:
        experts[1] = experts[0]
    skip = bool(rng.random() < 0.5) and d == e if skip is None else skip
    return MixtureOfExperts(numbers(rng, (n, d)), numbers(rng, n), experts, k=k, skip=skip)


def instance(seed, d):
    """A small network with a mixture and, mostly, something before or behind it."""
    rng = np.random.default_rng([seed, d])
    numbers = (normal, small, thirds)[seed % 3]
    blocks = []
    if rng.random() < 0.3:
        blocks.append(feed_forward(rng, 2, d, d, numbers))
    elif rng.random() < 0.3:
        blocks.append(hm.Attention(numbers(rng, (1, 3, d)), numbers(rng, (1, 3)), numbers(rng, (1, 3, d))))
    e = int(rng.integers(1, 3))
    blocks.append(mixture(rng, d, e, numbers))
    if rng.random() < 0.3:
        blocks.append(mixture(rng, e, e, numbers, n=2))
    elif rng.random() < 0.3:
        blocks.append(feed_forward(rng, 2, e, 1, numbers))
    return hm.Network(blocks)


def assert_right(network, domain, expected):
    """The cells of brute force, each found once, with the same exact map and size."""
    found = hm.enumerate_regions(network, domain)
    assert found.complete
    assert found.exact
    cells = {cell.signature: cell for cell in expected.cells}
    seen = set()
    for i in range(found.n_cells):
        signature = exact_forward(network, found.exact_witness(i))[:2]
        seen.add(signature)
        linear, offset = found.exact_map(i)
        wanted = cells[signature].map
        assert [row[: network.d] for row in wanted.linear] == linear
        assert wanted.offset == offset
        assert float(cells[signature].area) == pytest.approx(found.volumes[i], rel=1e-7, abs=1e-12)
    assert seen == cells.keys()
    assert len(seen) == found.n_cells
    return found


@pytest.mark.parametrize("seed", range(45))
def test_cells_in_the_plane(seed):
    network, domain = instance(seed, 2), hm.Box.cube(2, -3, 3)
    expected = enumerate_rationally(network, domain)
    found = assert_right(network, domain, expected)
    assert found.n_regions == expected.n_regions
    assert hm.count_cells(network, domain).n_cells == expected.n_cells


@pytest.mark.parametrize("seed", range(45))
def test_cells_on_the_line(seed):
    network = instance(seed, 1)
    flat = hm.Network([hm.Affine([[1, 0]]), *network.blocks])
    strip = hm.Polytope([[1, 0], [-1, 0], [0, 1], [0, -1]], [3, 3, 1, 0])
    assert_right(network, hm.Box([-3], [3]), enumerate_rationally(flat, strip))


@pytest.mark.parametrize("d", [3, 7])
def test_cells_in_space_and_by_search(d):
    rng = np.random.default_rng(d)
    network = hm.Network([mixture(rng, d, 2, small, n=3, k=2)])
    found = hm.enumerate_regions(network, hm.Box.cube(d, -1, 1))
    assert found.complete
    signatures = {exact_forward(network, found.exact_witness(i))[1] for i in range(found.n_cells)}
    assert len(signatures) == found.n_cells
    sampled = network.signature(rng.uniform(-1, 1, (5000, d)))
    assert {tuple(row) for row in sampled.relu.astype(int).tolist()} <= signatures


def test_a_triangle_and_a_search_in_the_plane():
    rng = np.random.default_rng(5)
    network = hm.Network([mixture(rng, 2, 1, normal, n=3, k=1)])
    triangle = hm.Polytope([[1, 1], [-1, 0], [0, -1]], [1, 1, 1])
    expected = enumerate_rationally(network, triangle)
    assert_right(network, triangle, expected)
    assert hm.enumerate_regions(network, triangle, engine="search").n_cells == expected.n_cells


def plain_value(block, x):
    """The textbook forward pass at one point."""
    scores = block.router.floats @ x + block.router_bias.floats
    runs = sorted(range(len(scores)), key=lambda e: (-scores[e], e))[: block.k]
    parts = []
    for e in runs:
        expert = block.experts[e]
        parts.append(
            expert.w_out.floats @ np.maximum(expert.w_in.floats @ x + expert.b_in.floats, 0)
            + expert.b_out.floats
        )
    return sum(parts) / block.k + (x if block.skip else 0)


@pytest.mark.parametrize("seed", range(10))
def test_values_and_maps(seed):
    rng = np.random.default_rng(seed)
    block = mixture(rng, 3, 3, normal)
    points = rng.normal(size=(50, 3))
    want = np.array([plain_value(block, x) for x in points])
    np.testing.assert_allclose(block(points), want, rtol=1e-12, atol=1e-12)
    network = hm.Network([block])
    for x, y in zip(points[:5], want, strict=False):
        linear, offset = network.affine_at(x)
        np.testing.assert_allclose(linear @ x + offset, y, rtol=1e-12, atol=1e-12)
        routings, bits, value = exact_forward(network, x.tolist())
        assert list(network.exact_value(x)) == value
        assert bits == tuple(network.signature(x).relu[0].astype(int).tolist())
        assert routings == ()


def test_torch_agrees():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    block = mixture(rng, 4, 3, normal, n=5, k=2, skip=False)
    x = torch.tensor(rng.normal(size=(100, 4)))
    scores = x @ torch.tensor(block.router.floats.copy()).T + torch.tensor(block.router_bias.floats.copy())
    best = scores.topk(2, dim=1).indices
    experts = []
    for expert in block.experts:
        first, second = torch.nn.Linear(4, expert.width).double(), torch.nn.Linear(expert.width, 3).double()
        for layer, w, b in ((first, expert.w_in, expert.b_in), (second, expert.w_out, expert.b_out)):
            layer.weight.data, layer.bias.data = torch.tensor(w.floats.copy()), torch.tensor(b.floats.copy())
        experts.append(torch.nn.Sequential(first, torch.nn.ReLU(), second)(x))
    want = torch.stack(experts, dim=1).gather(1, best[:, :, None].expand(-1, -1, 3)).mean(dim=1)
    np.testing.assert_allclose(block(x.numpy()), want.detach().numpy(), rtol=1e-12, atol=1e-12)


def test_equal_scores_let_the_first_expert_run():
    experts = [hm.FeedForward([[1.0]], [1.0], [[v]]) for v in (1.0, 10.0)]
    network = hm.Network([MixtureOfExperts([[2.0], [2.0]], None, experts)])
    assert network([1.0])[0] == 2.0
    assert network.exact_value([1]) == (2,)
    found = hm.enumerate_regions(network, hm.Box([0], [1]))
    assert found.n_cells == 1
    assert found.exact_map(0) == ([[1]], [1])
    assert found.chosen(0).tolist() == [[[True, False]]]


def test_units_of_experts_that_do_not_run_cut_nothing():
    wide = hm.FeedForward(np.ones((20, 1)), np.linspace(-3, -0.5, 20), np.ones((1, 20)))
    none = hm.FeedForward([[0.0]], [-1.0], [[1.0]])  # a dead unit
    network = hm.Network([MixtureOfExperts([[1.0], [-1.0]], None, [none, wide])])
    assert hm.count_cells(network, hm.Box([0], [4])).n_cells == 1
    assert hm.count_cells(network, hm.Box([-4], [4])).n_cells == 2
    turned = hm.Network([MixtureOfExperts([[-1.0], [1.0]], None, [none, wide])])
    assert hm.count_cells(turned, hm.Box([-4], [4])).n_cells == 22


@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1e20, 1e150])
def test_numbers_of_any_size(scale):
    rng = np.random.default_rng(0)
    block = mixture(rng, 1, 1, normal, n=3, k=2, skip=False)
    experts = [
        hm.FeedForward(expert.w_in, expert.b_in.floats * scale, expert.w_out, expert.b_out)
        for expert in block.experts
    ]
    scaled = MixtureOfExperts(block.router, block.router_bias.floats * scale, experts, k=2)
    want = hm.count_cells(hm.Network([block]), hm.Box([-3], [3])).n_cells
    assert hm.count_cells(hm.Network([scaled]), hm.Box([-3 * scale], [3 * scale])).n_cells == want


def test_files(tmp_path):
    rng = np.random.default_rng(3)
    network = hm.Network([mixture(rng, 2, 2, thirds, n=3, k=2, skip=True)])
    network.save(tmp_path / "network.npz")
    again = hm.load(tmp_path / "network.npz")
    x = [Fraction(1, 7), Fraction(2, 3)]
    assert again.exact_value(x) == network.exact_value(x)
    assert repr(again.blocks) == repr(network.blocks)
    found = hm.enumerate_regions(network, hm.Box.cube(2, -2, 2))
    found.save(tmp_path / "cells.npz")
    loaded = hm.load(tmp_path / "cells.npz")
    assert loaded.n_regions == found.n_regions
    assert (loaded.chosen(0) == found.chosen(0)).all()
    assert all(loaded.exact_map(i) == found.exact_map(i) for i in range(found.n_cells))
    assert loaded.verify().ok


def test_verification_and_limits():
    network = hm.Network([mixture(np.random.default_rng(8), 2, 2, normal, n=4, k=2)])
    box = hm.Box.cube(2, -3, 3)
    assert hm.enumerate_regions(network, box).verify().ok
    part = hm.enumerate_regions(network, box, max_cells=3)
    assert not part.complete
    assert part.n_cells <= 3
    assert part.outlook is not None
    assert part.outlook.upper.value >= hm.count_cells(network, box).n_cells


ONE = hm.FeedForward([[1.0]], None, [[1.0]])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[1.0]], None, [ONE]), {"gates": "softmax"}, "softmax gates are no piecewise-affine functions"),
        (([[1.0]], None, [ONE]), {"gates": "sparsemax"}, "quadratic on a cell"),
        (([[1.0]], None, [ONE]), {"gates": 3}, "gates must be 'uniform', but was 3"),
        (([[1.0]], None, [ONE]), {"k": 2}, "k must be a whole number from 1"),
        (([[1.0]], None, [ONE]), {"k": 0}, "k must be a whole number from 1"),
        (([[1.0]], None, [ONE]), {"k": True}, "k must be a whole number from 1"),
        (([[1.0]], None, 5), {}, "experts must be a sequence"),
        (([[1.0]], None, [hm.Affine([[1.0]])]), {}, "experts must be FeedForward"),
        (([[1.0]], None, [hm.FeedForward([[1.0]], None, [[1.0]], slope=0.5)]), {}, "without slope or skip"),
        (([[1.0]], None, [hm.FeedForward([[1.0]], None, [[1.0]], skip=True)]), {}, "without slope or skip"),
        ((np.zeros((0, 1)), None, []), {}, "router must hold at least one expert"),
    ],
)
def test_bad_input(arguments, options, message):
    with pytest.raises(InvalidInputError, match=message):
        MixtureOfExperts(*arguments, **options)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[1.0], [2.0]], None, [ONE]), {}, "one block per row of the router"),
        (([[1.0]], [1.0, 2.0], [ONE]), {}, "router_bias"),
        (([[1.0, 2.0]], None, [ONE]), {}, "must take the 2 inputs of the router"),
        (([[1.0, 2.0]], None, [hm.FeedForward([[1, 2]], None, [[1]])]), {"skip": True}, "skip connection"),
    ],
)
def test_wrong_sizes(arguments, options, message):
    with pytest.raises(DimensionMismatchError, match=message):
        MixtureOfExperts(*arguments, **options)


@pytest.mark.parametrize("domain", [hm.WholeSpace(1), hm.Polytope([[1.0]], [0.0])])
def test_unbounded_domains_are_refused(domain):
    network = hm.Network([MixtureOfExperts([[1.0], [-1.0]], None, [ONE, ONE])])
    with pytest.raises(InvalidInputError, match="domain must be bounded"):
        hm.count_cells(network, domain)


def test_segments_run_through_experts():
    network = hm.Network([MixtureOfExperts([[1.0], [-1.0]], None, [ONE, ONE])])
    trace = hm.trace_segment(network, [-1.0], [1.0])
    assert trace.complete
    np.testing.assert_array_equal(trace.chosen(0)[[0, -1], 0], [[False, True], [True, False]])
    for i, t in enumerate((trace.breakpoints[:-1] + trace.breakpoints[1:]) / 2, start=1):
        value = trace.values[i, 0] + (t - trace.breakpoints[i - 1]) * trace.slopes[i]
        np.testing.assert_allclose(value, network(trace.point(t)), atol=1e-12)
