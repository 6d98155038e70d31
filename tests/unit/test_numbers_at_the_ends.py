"""Numbers near the ends of float64 and beyond: the right answer, or one sentence; no warning of numpy."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import InvalidInputError, NotFiniteError

HUGE = 1.7976931348623157e308
ENDS = np.array([0.0, 5e-324, 1e-320, 1e-308, 1e-160, 1.0, -1.0, 2.0**60, 1e155, 1e308, -1e308, HUGE, -HUGE])


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def drawn(rng, *shape):
    return np.where(rng.random(shape) < 0.5, rng.choice(ENDS, size=shape), rng.standard_normal(shape))


def answered(ask):
    """The answer, or nothing if it is refused with a sentence."""
    try:
        return ask()
    except hm.errors.HardmaxError:
        return None


@pytest.mark.parametrize("seed", range(40))
def test_diagrams_of_keys_at_the_ends(seed):
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 4)), int(rng.integers(1, 7))
    k = int(rng.integers(1, min(3, n) + 1))
    diagram = answered(lambda: hm.attention_diagram(drawn(rng, n, d), drawn(rng, n), k=k))
    if diagram is None:
        return
    points = drawn(rng, 3, d)
    for ask in (
        lambda: diagram.weights,
        diagram.adjacency,
        diagram.vertices,
        diagram.facets,
        lambda: diagram.as_voronoi() if k == 1 else None,
        lambda: diagram.witnesses,
    ):
        answered(ask)
    found = diagram.locate(points) if k == 1 else None
    for x, winner in zip(points, [] if found is None else found, strict=False):  # rationals say the same
        scores = [
            sum(Fraction(a) * Fraction(v) for a, v in zip(row, x, strict=True)) + Fraction(b)
            for row, b in zip(diagram.slopes, diagram.offsets, strict=True)
        ]
        assert winner == scores.index(max(scores))


@pytest.mark.parametrize("seed", range(20))
def test_refinements_of_polynomials_at_the_ends(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 3))
    made = [hm.TropicalPolynomial(drawn(rng, n, d), drawn(rng, n)) for n in rng.integers(1, 4, 2)]
    cells = answered(lambda: hm.common_refinement(*made))
    if cells is not None:
        assert cells.n_cells >= 1


def test_signatures_with_a_margin_are_counted_without_rounding():
    bound = hm.temperature.clear_signatures_bound
    assert bound(1, side=1e308, margin=5e-324, slope=1e308) == (
        math.floor(Fraction(1e308) ** 2 / (2 * Fraction(5e-324))) + 1
    )
    assert bound(4, side=1.5, margin=0.5, slope=1.0) == 4**4
    with pytest.raises(InvalidInputError, match="d must be at most"):
        bound(10**40, side=1.0, margin=0.1, slope=1.0)


def test_a_distance_beyond_float64_is_named():
    with pytest.raises(NotFiniteError, match="apart"):
        hm.temperature.transition_band([[HUGE], [-HUGE]], 1.0)
    with pytest.raises(NotFiniteError, match="weights"):
        _ = hm.attention_diagram([[1e200], [0.0]]).weights


def test_a_list_of_polynomials_is_named():
    one = hm.TropicalPolynomial([[1, 0], [0, 1]])
    with pytest.raises(InvalidInputError, match="one is a list"):
        hm.common_refinement([one, one])


@pytest.mark.parametrize("seed", range(12))
def test_sequences_at_the_ends(seed):
    rng = np.random.default_rng(seed)
    head = hm.SelfAttention(*(drawn(rng, 1, 2, 2) for _ in range(4)))
    start, end = drawn(rng, 3, 2), drawn(rng, 3, 2)
    found = answered(lambda: hm.trace_segment(hm.Transformer([head]), start, end, time_limit=5.0))
    assert found is None or len(repr(found)) > 10


def test_lengths_whose_squares_overflow():
    """A forward pass at a temperature differs by 1e300 from hardmax; points lie far from a plane."""
    head = hm.Attention([[[1e300], [-1e300], [5e299]]], None, [[[1e300], [-1e300], [1e300]]])
    found = hm.temperature.surviving_cells(hm.Network([head]), np.ones((2, 1)), 1e300)
    assert 1e298 < found.output_error[0] < HUGE
    network = hm.Network.random_mlp([3, 4, 2], 0)
    plane = network.plane_through([0, 0, 0], [1e200, 0, 0], [0, 1e200, 0])
    coordinates, away = plane.project([[1e200, 0, 1e200], [0, 0, 1e-200]])
    assert np.isfinite(coordinates).all()
    assert away.tolist() == [1e200, 1e-200]


def test_numbers_with_thousands_of_digits_are_named():
    for number in (10**400, 10**5000, -(10**5000), Fraction(10**5000, 3)):
        with pytest.raises(NotFiniteError, match="must fit into float64, but holds about 1e"):
            hm.Affine([[number]], [0])
        with pytest.raises(NotFiniteError, match="must fit into float64"):
            hm.Box([0], [abs(number)])


@pytest.mark.parametrize(
    "ask",
    [
        lambda: hm.verification.inputs(10**40),
        lambda: hm.targets.depth_separation(10**40),
        lambda: hm.training.examples("kth:2", 4, 10**40),
        lambda: hm.geometry.vertices_from_subsets(np.eye(3)[None] * [[[1.0]], [[2.0]]], n_samples=10**40),
    ],
)
def test_more_numbers_than_there_is_room_for_are_refused(ask):
    with pytest.raises(InvalidInputError, match="must hold at most"):
        ask()
