"""Minkowski vertices against brute force: PPL in rationals, an exact simplex method, and Qhull on all sums.

Vertices are compared as sets of exact points (a vertex is the sum of exactly one tuple of distinct keys, so
the tuples of choices say the same), and every witness is put to the standard-library checker.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax import errors
from oracles.certificates import lift_heads, tuple_problems
from oracles.instances import FAMILIES, Instance, instance
from oracles.judging import HAS_PPL, WITHOUT_PPL, missing_and_extra, reference, result_problems
from oracles.minkowski_bruteforce import (
    cell_interior,
    ppl_vertices,
    qhull_count,
    simplex_vertices,
    sums_of_tuples,
)

needs_ppl = pytest.mark.skipif(not HAS_PPL, reason=WITHOUT_PPL)

# Qhull works in floats: near-degenerate heads mislead it in any dimension, exactly degenerate ones from
# dimension 5 on.
MISLEADS_QHULL = {"nearly flat", "many scales"}


def judge(case: Instance):
    """Compute the vertices of an instance and hold them against the oracles."""
    heads = lift_heads(case.point_sets, case.biases)
    result = hm.minkowski_vertices(case.point_sets, case.biases)
    assert result_problems(result, heads) == [], case
    expected = reference(heads)
    if expected is None:
        return result
    missing, extra = missing_and_extra(result, expected)
    assert (missing, extra) == (set(), set()), case
    family = case.name.split(",")[0]
    if case.generic or (family not in MISLEADS_QHULL and case.d + (case.biases is not None) <= 4):
        assert result.count == qhull_count(heads), case
    return result


# ----------------------------------------------------------------------------------------------
# The oracles agree with each other
# ----------------------------------------------------------------------------------------------


@needs_ppl
@pytest.mark.parametrize("start", range(0, 156, 13))
def test_oracles_agree(start):
    for number in range(start, start + 13):
        case = instance(number, tuples=24)
        heads = lift_heads(case.point_sets, case.biases)
        assert simplex_vertices(heads) == ppl_vertices(heads), case


def test_simplex_oracle_gives_interior_points():
    for number in range(0, 26, 2):
        case = instance(number, tuples=12)
        heads = lift_heads(case.point_sets, case.biases)
        for choices in sums_of_tuples(heads).values():
            for choice in choices:
                point = cell_interior(heads, choice)
                if point is not None:
                    assert tuple_problems(heads, choice, point) == []


# ----------------------------------------------------------------------------------------------
# The library against the oracles
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_random_instances(family):
    """24 instances of each family, dimension 1 to 6, linear and affine."""
    first = list(FAMILIES).index(family)
    for number in range(first, first + 24 * len(FAMILIES), len(FAMILIES)):
        judge(instance(number))


@pytest.mark.parametrize("d", [7, 8, 9, 10])
def test_higher_dimensions(d):
    for number in range(2 * len(FAMILIES)):
        judge(instance(1000 + number, tuples=24, dimensions=(d,)))


@pytest.mark.parametrize(("d", "heads", "n_tokens"), [(2, 3, 7), (3, 3, 6), (4, 3, 5), (5, 3, 4), (6, 2, 8)])
@pytest.mark.parametrize("biased", [False, True])
def test_larger_gaussian_heads(d, heads, n_tokens, biased):
    rng = np.random.default_rng(d)
    points = rng.standard_normal((heads, n_tokens, d))
    biases = rng.standard_normal((heads, n_tokens)) if biased else None
    judge(Instance("gaussian", list(points), None if biases is None else list(biases), d, True))


coordinates = st.one_of(
    st.integers(-2, 2), st.integers(-2, 2), st.sampled_from([Fraction(1, 3), Fraction(-2, 7), 0.1])
)


@st.composite
def small_heads(draw):
    d = draw(st.integers(1, 4))
    heads = draw(st.integers(1, 3))
    sizes = draw(st.lists(st.integers(1, 5), min_size=heads, max_size=heads))
    # at most two distinct kinds of number, or the instance is generic and teaches little
    point_sets = [[[draw(coordinates) for _ in range(d)] for _ in range(size)] for size in sizes]
    biases = [[draw(coordinates) for _ in range(size)] for size in sizes] if draw(st.booleans()) else None
    objects = [np.array(points, dtype=object).reshape(len(points), d) for points in point_sets]
    return Instance(
        "drawn", objects, None if biases is None else [np.array(b, dtype=object) for b in biases], d, False
    )


@settings(deadline=None, max_examples=150)
@given(small_heads())
def test_drawn_instances(case):
    heads = lift_heads(case.point_sets, case.biases)
    result = hm.minkowski_vertices(case.point_sets, case.biases)
    assert result_problems(result, heads) == []
    expected = reference(heads)
    if expected is not None:
        assert missing_and_extra(result, expected) == (set(), set())


@settings(deadline=None, max_examples=25)
@given(small_heads())
def test_self_verification_accepts_what_is_right(case):
    assert hm.minkowski_vertices(case.point_sets, case.biases).verify().ok


def test_self_verification_of_every_family():
    for number in range(2 * len(FAMILIES)):
        case = instance(5000 + number, tuples=60, dimensions=(2, 3))
        assert hm.minkowski_vertices(case.point_sets, case.biases).verify().ok, case


# ----------------------------------------------------------------------------------------------
# Named degenerate cases
# ----------------------------------------------------------------------------------------------

SQUARE = [[0, 0], [1, 0], [0, 1], [1, 1]]
CUBE = [[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]
NAMED = {
    "one key": ([[[3.0, 4.0]]], None, 1),
    "one key in each of three heads": ([[[1.0]], [[2.0]], [[3.0]]], None, 1),
    "all keys identical": ([[[1.0, 2.0]] * 5, [[0.0, 0.0]] * 3], None, 1),
    "all keys identical but for the sign of zero": (
        [[[0.0, 1.0], [-0.0, 1.0]], [[-0.0, -0.0], [0.0, 0.0]]],
        None,
        1,
    ),
    "two points on a line": ([[[0.0], [1.0]]], None, 2),
    "midpoint never wins": ([[[0.0], [1.0], [2.0]]], None, 2),
    "square": ([SQUARE], None, 4),
    "square with its centre and edge midpoints": (
        [[[2 * x, 2 * y] for x, y in SQUARE] + [[1, 1], [1, 0], [0, 1], [2, 1]]],
        None,
        4,
    ),
    "square plus square": ([SQUARE, SQUARE], None, 4),
    "square plus diamond": ([SQUARE, [[1, 0], [-1, 0], [0, 1], [0, -1]]], None, 8),
    "segments along the axes give a cube": (
        [[[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [0, 1, 0]], [[0, 0, 0], [0, 0, 1]]],
        None,
        8,
    ),
    "parallel segments": ([[[0, 0], [1, 1]], [[5, 5], [7, 7]], [[0, 0], [-3, -3]]], None, 2),
    "zonotope of four generic segments in space": (
        [[[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [0, 1, 0]], [[0, 0, 0], [0, 0, 1]], [[0, 0, 0], [1, 1, 1]]],
        None,
        14,
    ),
    "cube plus its mirror image": ([CUBE, [[-x, -y, -z] for x, y, z in CUBE]], None, 8),
    "keys at the origin": ([[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0]]], None, 1),
    "the middle term is essential": ([[[0], [1], [2]]], [[0, 5, 0]], 3),
    "the middle term is not essential": ([[[0], [1], [2]]], [[0, -5, 0]], 2),
    "the middle term touches the envelope in one point": ([[[0], [1], [2]]], [[0, 0, 0]], 2),
    "equal slopes, the larger bias wins": ([[[1.0], [1.0]]], [[0.0, 1.0]], 1),
    "equal slopes and biases, the first wins": ([[[1.0], [1.0]]], [[1.0, 1.0]], 1),
    "constant scores": ([[[0, 0], [0, 0], [0, 0]]], [[1, 3, 2]], 1),
    "parallel strips": ([[[0, 0], [1, 0], [2, 0]], [[0, 0], [2, 0], [4, 0]]], [[0, -1, -4], [0, -4, -16]], 5),
    "the same wall twice": ([[[0], [1]], [[0], [1]]], [[0, 0], [0, 0]], 2),
    "walls that coincide exactly in thirds": (
        [[[0], [1]], [[0], [3]]],
        [[0, Fraction(1, 3)], [0, 1]],
        2,
    ),
    "walls a hair apart": ([[[0], [1]], [[0], [1]]], [[0.0, 1 / 3], [0.0, Fraction(1, 3)]], 3),
    "grid of affine walls": (
        [[[0, 0], [1, 0], [2, 0]], [[0, 0], [0, 1], [0, 2]]],
        [[0, -1, -3], [0, -1, -3]],
        9,
    ),
    "tiny keys": ([[[5e-324, 0.0], [0.0, 5e-324], [0.0, 0.0]], [[1e-300, 0.0], [0.0, 0.0]]], None, 4),
    "one head tiny and one huge": ([[[1e-200, 0.0], [0.0, 1e-200]], [[1e200, 0.0], [0.0, 1e200]]], None, 2),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_cases(name):
    point_sets, biases, count = NAMED[name]
    heads = lift_heads(point_sets, biases)
    expected = simplex_vertices(heads)
    assert len(expected) == count
    result = hm.minkowski_vertices(point_sets, biases)
    assert result_problems(result, heads) == []
    assert missing_and_extra(result, expected) == (set(), set())
    assert result.verify().ok


HUGE = [[1e308, 0.0], [0.0, 1e308], [-1e308, -1e308]]
EXTREME = {
    "sums beyond the float range": ([HUGE, HUGE, HUGE], None),
    "differences beyond the float range": ([HUGE], None),
    "a wall beyond the float range": (
        [[[0.0], [-1.2035415053273523e-170]]],
        [[-1.4817611848649048e294, -4.6e-283]],
    ),
    "a witness beyond the float range in R^5": (
        [[[0.0] * 5, [0.0] * 4 + [1.6330252207878255e-201]]],
        [[-9.631122184913854e201, 6.321601419838989e192]],
    ),
    "walls at both ends of the float range": (
        [[[0.0], [1e-300]], [[0.0], [1e300]]],
        [[0.0, -1.0], [0.0, -1.0]],
    ),
}


@pytest.mark.parametrize("name", EXTREME)
def test_extreme_scales_are_right_or_refused(name):
    point_sets, biases = EXTREME[name]
    heads = lift_heads(point_sets, biases)
    try:
        result = hm.minkowski_vertices(point_sets, biases)
    except errors.HardmaxError:
        return
    assert result_problems(result, heads) == []
    assert missing_and_extra(result, simplex_vertices(heads)) == (set(), set())


# ----------------------------------------------------------------------------------------------
# What must not change the answer (also where brute force is out of reach)
# ----------------------------------------------------------------------------------------------


def tuples(result) -> set[tuple[int, ...]]:
    return {tuple(row) for row in result.choices.tolist()}


@pytest.mark.parametrize(
    ("d", "heads", "n_tokens"), [(2, 6, 30), (3, 5, 20), (4, 4, 12), (5, 3, 10), (6, 3, 9), (8, 3, 7)]
)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("integer", [False, True])
def test_invariances(d, heads, n_tokens, biased, integer):
    rng = np.random.default_rng([d, heads, biased, integer])
    draw = (lambda shape: rng.integers(-4, 5, size=shape).astype(float)) if integer else rng.standard_normal
    if integer and d >= 5:
        n_tokens, heads = n_tokens // 2 + 1, 3
    points = draw((heads, n_tokens, d))
    biases = draw((heads, n_tokens)) if biased else None
    base = hm.minkowski_vertices(points, biases)
    expected = tuples(base)

    order = rng.permutation(heads)
    permuted = hm.minkowski_vertices(points[order], None if biases is None else biases[order])
    assert tuples(permuted) == {tuple(choice[h] for h in order) for choice in expected}

    scale = 2.0 ** rng.integers(-3, 4, size=(heads, 1, 1))
    scaled = hm.minkowski_vertices(points * scale, None if biases is None else biases * scale[:, :, 0])
    assert tuples(scaled) == expected

    if integer:  # integer arithmetic: translations and shears are exact
        shift = rng.integers(-8, 9, size=(heads, 1, d)).astype(float)
        moved = hm.minkowski_vertices(points + shift, None if biases is None else biases + 3.0)
        assert tuples(moved) == expected
        shear = np.eye(d) + np.triu(rng.integers(-1, 2, size=(d, d)), 1)
        assert tuples(hm.minkowski_vertices(points @ shear, biases)) == expected

    doubled = np.concatenate(
        [points, points[:, :3]], axis=1
    )  # later copies of three keys: they tie and are not named
    doubled_biases = None if biases is None else np.concatenate([biases, biases[:, :3]], axis=1)
    assert tuples(hm.minkowski_vertices(doubled, doubled_biases)) == _first_of_groups(
        expected, points, biases
    )


def _first_of_groups(choices, points, biases):
    heads = lift_heads(points, biases)
    return {tuple(head.index(head[j]) for head, j in zip(heads, choice, strict=True)) for choice in choices}


def test_affine_scores_are_linear_scores_one_dimension_up():
    """With keys lifted to (a, b) and the head {0, e} added, upper vertices are the vertices that choose e."""
    rng = np.random.default_rng(7)
    for d in (1, 2, 3, 4):
        for integer in (False, True):
            shape = (3, 6, d + 1)
            lifted = rng.integers(-3, 4, size=shape).astype(float) if integer else rng.standard_normal(shape)
            affine = hm.minkowski_vertices(lifted[:, :, :d], lifted[:, :, d])
            up = np.zeros((2, d + 1))
            up[1, d] = 1.0
            linear = hm.minkowski_vertices([*lifted, up])
            assert tuples(affine) == {choice[:-1] for choice in tuples(linear) if choice[-1] == 1}


def test_zero_biases_are_no_biases():
    points = np.random.default_rng(1).integers(-3, 4, size=(3, 6, 3)).astype(float)
    assert tuples(hm.minkowski_vertices(points)) == tuples(hm.minkowski_vertices(points, np.zeros((3, 6))))
    assert tuples(hm.minkowski_vertices(points)) == tuples(
        hm.minkowski_vertices(points, np.full((3, 6), 0.1))
    )


def test_every_random_query_routes_to_a_listed_tuple():
    rng = np.random.default_rng(3)
    for d, heads, n_tokens, biased in [
        (2, 5, 40, True),
        (3, 6, 25, False),
        (4, 4, 20, True),
        (6, 3, 9, False),
    ]:
        points = rng.standard_normal((heads, n_tokens, d))
        biases = rng.standard_normal((heads, n_tokens)) if biased else None
        queries = rng.standard_normal((4000, d)) * 3
        scores = np.einsum("hnd,qd->qhn", points, queries) + (0 if biases is None else biases[None])
        listed = tuples(hm.minkowski_vertices(points, biases))
        assert {tuple(row) for row in scores.argmax(axis=2).tolist()} <= listed


def test_same_answer_for_every_kind_of_input():
    integers = np.random.default_rng(2).integers(-3, 4, size=(3, 5, 3))
    expected = hm.minkowski_vertices(integers.astype(float))
    fractions = [[[Fraction(int(v)) for v in key] for key in head] for head in integers]
    for same in (
        integers,
        integers.tolist(),
        list(integers),
        fractions,
        integers.astype(np.float32),
        tuple(integers),
    ):
        result = hm.minkowski_vertices(same)
        np.testing.assert_array_equal(result.choices, expected.choices)
        np.testing.assert_array_equal(result.vertices, expected.vertices)


def test_results_do_not_change_and_repeat():
    points = np.random.default_rng(2).standard_normal((3, 6, 3))
    kept = points.copy()
    result = hm.minkowski_vertices(points)
    again = hm.minkowski_vertices(points)
    np.testing.assert_array_equal(points, kept)
    np.testing.assert_array_equal(result.choices, again.choices)
    np.testing.assert_array_equal(result.witnesses, again.witnesses)
    for array in (result.choices, result.vertices, result.witnesses):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


# ----------------------------------------------------------------------------------------------
# Bad input: one sentence that names the argument
# ----------------------------------------------------------------------------------------------

GOOD = [[[0.0, 1.0], [1.0, 0.0]], [[2.0, 0.0]]]
BAD = {
    "NaN": (([[[0.0, float("nan")]]], None), errors.NotFiniteError, "point_sets"),
    "infinity": (([[[0.0, float("inf")]]], None), errors.NotFiniteError, "point_sets"),
    "no heads": (([], None), errors.InvalidInputError, "point_sets"),
    "a head without keys": (([[[0.0, 1.0]], np.empty((0, 2))], None), errors.InvalidInputError, "point_sets"),
    "keys without coordinates": (([np.empty((3, 0))], None), errors.InvalidInputError, "point_sets"),
    "heads of different dimension": (
        ([[[0.0, 1.0]], [[1.0]]], None),
        errors.DimensionMismatchError,
        "point_sets",
    ),
    "a ragged head": (([[[0.0, 1.0], [1.0]]], None), errors.InvalidInputError, "point_sets"),
    "one set of points instead of a list of sets": (
        (np.zeros((4, 2)), None),
        errors.InvalidInputError,
        "point_sets",
    ),
    "a number": ((3.0, None), errors.InvalidInputError, "point_sets"),
    "a string": (("keys", None), errors.InvalidInputError, "point_sets"),
    "words as keys": (([[["a", "b"]]], None), errors.InvalidInputError, "point_sets"),
    "complex keys": (([np.array([[1j, 0.0]])], None), errors.InvalidInputError, "point_sets"),
    "biases for fewer heads": ((GOOD, [[0.0, 0.0]]), errors.DimensionMismatchError, "biases"),
    "biases for fewer keys": ((GOOD, [[0.0], [0.0]]), errors.DimensionMismatchError, "biases"),
    "NaN bias": ((GOOD, [[0.0, float("nan")], [0.0]]), errors.NotFiniteError, "biases"),
    "biases as one number": ((GOOD, 1.0), errors.InvalidInputError, "biases"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    (point_sets, biases), error, argument = BAD[name]
    with pytest.raises(error) as caught:
        hm.minkowski_vertices(point_sets, biases)
    message = str(caught.value)
    assert argument in message
    assert "\n" not in message
    assert message.endswith(".")
