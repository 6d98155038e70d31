"""The text form of targets: what it means, what it refuses, and where it says the mistake is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.errors import GrowingActiveSetError, HardmaxError, InvalidInputError, TargetSyntaxError
from hardmax.targets import names_in
from hardmax.targets.grammar import Parser
from hardmax.targets.tokens import Bilinear, Coordinate, LinearForm, SquaredSum

RNG = np.random.default_rng(3)
A = RNG.standard_normal((4, 3, 3))
w = RNG.standard_normal(3)
X = RNG.uniform(-1, 1, (30, 6, 3))


def bilinear(M):
    return np.einsum("bsi,ij,btj->bst", X, M, X)


MEANINGS = {
    "sum(i<4) max(s,t) x[s]' A[i] x[t]": lambda: sum(bilinear(M).max(axis=(1, 2)) for M in A),
    "max(s,t) x[s]'A[2]x[t]": lambda: bilinear(A[2]).max(axis=(1, 2)),
    "min(s,t) 2*(1 + x[s]' x[t])": lambda: 2 + 2 * bilinear(np.eye(3)).min(axis=(1, 2)),
    "min(s,t) x[s]' (A[0] + A[1]') x[t]": lambda: bilinear(A[0] + A[1].T).min(axis=(1, 2)),
    "max(t) w' x[t]": lambda: (X @ w).max(axis=1),
    "max(t) |x[t] - w|": lambda: np.linalg.norm(X - w, axis=2).max(axis=1),
    "min(s!=t) |x[s]-x[t]|^2": lambda: (
        ((X[:, :, None] - X[:, None]) ** 2).sum(-1)[:, ~np.eye(6, dtype=bool)].min(axis=1)
    ),
    "-max(t) x[t][0]": lambda: -X[:, :, 0].max(axis=1),
    "3 - 2 max(t) x[t][0] / 4 + min(t) x[t][2]": lambda: 3 - X[:, :, 0].max(1) / 2 + X[:, :, 2].min(1),
    "kth(2,t) x[t][1]": lambda: np.sort(X[:, :, 1], axis=1)[:, -2],
    "-kth(2,t) x[t][1]": lambda: -np.sort(X[:, :, 1], axis=1)[:, -2],
    "x[0][0] + 2 x[3][1] - 1": lambda: X[:, 0, 0] + 2 * X[:, 3, 1] - 1,
    "sum(i<3) x[i][i]": lambda: X[:, 0, 0] + X[:, 1, 1] + X[:, 2, 2],
    "x[1]' x[2] + max(t) x[t][0]": lambda: (X[:, 1] * X[:, 2]).sum(-1) + X[:, :, 0].max(1),
    "exp(max(t) x[t][0]) * min(t) x[t][1] + x[2][0]": lambda: (
        np.exp(X[:, :, 0].max(1)) * X[:, :, 1].min(1) + X[:, 2, 0]
    ),
    "|max(t) x[t][0] - 2|^3": lambda: np.abs(X[:, :, 0].max(1) - 2) ** 3,
    "max(t) (x[t][0]^2 - sin(x[t][1]) / 2)": lambda: (X[:, :, 0] ** 2 - np.sin(X[:, :, 1]) / 2).max(1),
    "max(t) tanh(|x[t][0]|^2)": lambda: np.tanh(X[:, :, 0] ** 2).max(1),
    "max(t) 2^2 x[t][0]": lambda: 4 * X[:, :, 0].max(1),
    "max(t) x[t][0]^-2": lambda: (X[:, :, 0] ** -2.0).max(1),
    "max(s<t) x[s][0] - min(t) x[t][0]": None,
    "max(s<=t) (x[s][0] - x[t][1])": lambda: np.where(
        np.triu(np.ones((6, 6), bool)), X[:, :, None, 0] - X[:, None, :, 1], -np.inf
    ).max(axis=(1, 2)),
}


@pytest.mark.parametrize("text", [text for text, meaning in MEANINGS.items() if meaning])
def test_a_text_means_what_it_says(text):
    target = hm.targets.parse(text, matrices={"A": A, "w": w})
    assert np.allclose(target(X), MEANINGS[text]())
    assert target.name == text


def test_known_forms_are_recognised():
    def form(text, **options):
        return hm.targets.parse(text, **options).terms[0].function

    assert np.array_equal(form("max(s,t) x[s]' A x[t]", matrices=A[0]).matrix, A[0])
    assert np.allclose(form("max(s,t) x[t]' A x[s]", matrices=A[0]).matrix, A[0].T)
    assert np.allclose(form("max(s,t) 2 (x[s] - 0 x[s])' A' x[t]", matrices=A[0]).matrix, 2 * A[0].T)
    eight = form("min(s,t) 2*(1 + x[s]' x[t])", d=3)
    assert isinstance(eight, Bilinear)
    assert eight.constant == 2.0
    assert np.array_equal(eight.matrix, 2 * np.eye(3))
    seven = form("min(r,s,t) |x[r] + x[s] + x[t]|^2", d=2)
    assert isinstance(seven, SquaredSum)
    assert seven.arity == 3
    assert form("max(t) x[t][1]") == Coordinate(1)
    assert form("max(t) (x[t][1] - 2 x[t][0])") == LinearForm((-2.0, 1.0))
    assert not isinstance(form("max(s,t) |x[s] - x[t]|^2", d=2), (Bilinear, SquaredSum))
    assert not isinstance(form("max(s,t) (x[s]' x[t] + x[s][0])", d=2), Bilinear)


def test_texts_and_builtins_agree():
    pairs = hm.targets.parse("sum(i<4) max(s,t) x[s]' A[i] x[t]", matrices=A, domain="gaussian")
    assert pairs.comparisons(64) == hm.targets.pairwise(A).comparisons(64)
    triangle = hm.targets.parse("min(r,s,t) |x[r] + x[s] + x[t]|^2", d=2)
    assert triangle.comparisons(64) == hm.targets.triangle_center().comparisons(64)


def test_dimensions_are_found():
    assert hm.targets.parse("max(t) x[t][4]").d_token == 5
    assert hm.targets.parse("max(t) x[t]").d_token == 1
    assert hm.targets.parse("max(s,t) x[s]' A x[t]", matrices=A[0]).d_token == 3
    assert hm.targets.parse("max(t) x[t][0]", d=7).d_token == 7
    assert hm.targets.parse("sum(i<3) max(t) x[t][i]").d_token == 3


def test_matrices_are_drawn_on_request():
    text = "sum(i<4) max(s,t) x[s]' A[i] B x[t]"
    assert names_in(text) == {"A": 4, "B": 0}
    one, two, other = (hm.targets.parse(text, d=3, rng=seed) for seed in (0, 0, 1))
    assert np.array_equal(one(X), two(X))
    assert not np.array_equal(one(X), other(X))
    with pytest.raises(InvalidInputError, match="d must be given"):
        hm.targets.parse(text, rng=0)


MISTAKES = [
    ("", 1, "nothing to read"),
    ("   ", 1, "nothing to read"),
    ("mxa(t) x[t]", 1, "did you mean 'max'"),
    ("max(t x[t]", 7, "expected ')' or another index, but found 'x'"),
    ("max t x[t]", 1, "not known"),
    ("max(t) x[u]", 10, "'u' is not known; only t"),
    ("x[t]", 3, "no max, min or sum"),
    ("max(s,t) x[s]", 7, "'t' is not used"),
    ("max(s,s) x[s]", 7, "taken"),
    ("max(x) x[x]", 5, "taken"),
    ("max(s<t,u) x[s] x[t] x[u]", 5, "one sign must join"),
    ("max(t) x[t] max(s) x[s]", 13, "inside the body"),
    ("max(t) x[0]", 10, "is fixed"),
    ("max(t) x[t][0", 14, "expected ']'"),
    ("max(t) x[t][-1]", 13, "a whole number of at most nine digits for a coordinate"),
    ("max(t) x[t][0.5]", 13, "a whole number"),
    ("max(t) |x[t]", 13, "a closing '|'"),
    ("max(t) (x[t]", 13, "expected ')'"),
    ("max(t) x[t] )", 13, "the end of the text"),
    ("max(t) x[t] +", 14, "found the end of the text"),
    ("max(t) x[t] $ 2", 13, "'$' has no meaning"),
    ("max(t) x[t] ^ y", 15, "exponent"),
    ("kth(0,t) x[t]", 5, "k must be 1"),
    ("kth(2,s,t) x[s] x[t]", 9, "single index"),
    ("sum(i<0) x[i]", 7, "1 to 1000"),
    ("sum(i<99999999999) x[i]", 7, "at most nine digits"),
    ("sum(i) x[i]", None, "grow with T"),
    ("3 + 4", 1, "no token takes part"),
    ("0 * max(t) x[t]", 1, "factor must not be zero"),
    ("max(t) x[t] / 0 + 1", None, "NaN or an infinity"),
    ("(max(t) x[t]) / 0", 17, "divisor must not be zero"),
    ("log(0) + max(t) x[t]", 1, "not a real number"),
    ("x[0] * (max(t) x[t])", 1, "fixed position is multiplied"),
    ("__import__('os')", 1, "not known"),
    ("max(t) x[t].real", 12, "'.' has no meaning"),
    ("(" * 3000, None, ""),
]


@pytest.mark.parametrize(
    ("text", "column", "problem"), MISTAKES, ids=[repr(text[:30]) for text, _, _ in MISTAKES]
)
def test_a_mistake_is_found_at_its_column(text, column, problem):
    with pytest.raises(HardmaxError) as error:
        hm.targets.parse(text)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
    if isinstance(error.value, TargetSyntaxError) and column is not None:
        assert error.value.column == column


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("max(s,t) x[s] A[0] x[t]", 15, "a vector times a matrix"),
        ("max(s,t) x[s] x[t]", 15, "transpose the first"),
        ("max(s,t) x[s]' B x[t]", 16, "'B' is not known; give it with matrices"),
        ("max(s,t) x[s]' A[7] x[t]", 16, "4 matrices A, so A[7]"),
        ("max(s,t) x[s]' A[i] x[t]", 18, "a whole number of at most nine digits for the index of A"),
        ("max(s,t) x[s]' A x[t]", 16, "must have shape (3, 3)"),
        ("max(t) x[t]", 8, "this is a vector; take a coordinate"),
        ("max(t) x[t][3]", 13, "beyond tokens of dimension 3"),
        ("max(t) (x[t] + 1)", 9, "a number is needed"),
    ],
)
def test_kinds_must_fit_together(text, column, problem):
    with pytest.raises(TargetSyntaxError) as error:
        hm.targets.parse(text, matrices=A)
    assert error.value.column == column
    assert problem in str(error.value)


def test_bad_matrices_are_refused():
    for matrices in (
        [[1.0, np.nan], [0.0, 1.0]],
        [],
        {"A": np.eye(2), "B": np.eye(3)},
        [[1.0], [1.0, 2.0]],
        3.0,
    ):
        with pytest.raises(InvalidInputError):
            hm.targets.parse("max(s,t) x[s]' A x[t]", matrices=matrices)
    with pytest.raises(InvalidInputError, match="text must be a string"):
        hm.targets.parse(3)
    with pytest.raises(InvalidInputError, match="d must be an integer"):
        hm.targets.parse("max(t) x[t]", d=0)


def test_a_sum_over_all_positions_names_what_to_do():
    with pytest.raises(GrowingActiveSetError, match=r"column 15 .*as in sum\(t<4\)"):
        hm.targets.parse("max(s) x[s] + sum(t) x[t]")


PIECES = [
    *(
        "max",
        "min",
        "kth",
        "sum",
        "(",
        ")",
        "[",
        "]",
        "x",
        "s",
        "t",
        "i",
        "A",
        "'",
        "+",
        "-",
        "*",
        "/",
        "^",
        "|",
    ),
    *(
        ",",
        "<",
        "<=",
        "!=",
        "0",
        "1",
        "2.5",
        "exp",
        "x[t]",
        "x[s]",
        "max(t)",
        "max(s,t)",
        "sum(i<2)",
        "$",
        " ",
    ),
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14))
def test_no_text_does_anything_but_parse_or_explain(pieces):
    text = " ".join(pieces)
    try:
        target = hm.targets.parse(text, matrices=np.eye(2))
    except HardmaxError as problem:
        column = getattr(problem, "column", 1)
    else:
        column = 1
        assert target(np.random.default_rng(0).uniform(0.1, 1, (2, 5, 2))).shape == (2,)
    assert 1 <= column <= len(text) + 1


@pytest.mark.parametrize(("text", "column"), [("max(t) 1e999 x[t]", 8), ("max(t) x[t]^1e999", 13)])
def test_numbers_beyond_floats_are_refused(text, column):
    with pytest.raises(TargetSyntaxError, match=f"column {column} .* too large"):
        hm.targets.parse(text)


def test_the_parser_reads_everything_once():
    parser = Parser("max(t) x[t][2]", {}, None)
    parser.target()
    assert parser.coordinates == 3
