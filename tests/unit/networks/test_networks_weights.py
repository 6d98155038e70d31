"""Attention layers made of weights and a fixed context: nothing is rounded, and equal tokens stay equal."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax import errors
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.products import ExactProduct, integer_matrix, integer_stack
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.networks.blocks import Attention
from hardmax.networks.network import Network

# ----------------------------------------------------------------------------------------------
# Products
# ----------------------------------------------------------------------------------------------

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100)


@given(st.lists(finite, min_size=4, max_size=4))
def test_integers_over_a_denominator_are_the_floats(values):
    matrix = as_exact(np.array(values).reshape(2, 2), "m", ndim=2)
    numerators, denominator = integer_matrix(matrix)
    assert [Fraction(int(n), denominator) for n in numerators.entries()] == [Fraction(v) for v in values]


@given(st.lists(st.fractions(max_denominator=10**6), min_size=4, max_size=4))
def test_integers_over_a_denominator_are_the_fractions(values):
    matrix = as_exact(np.array(values, dtype=object).reshape(2, 2), "m", ndim=2)
    numerators, denominator = integer_matrix(matrix)
    assert [Fraction(int(n), denominator) for n in numerators.entries()] == values


def test_a_product_is_exact_and_its_floats_are_correctly_rounded():
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((4, 3)), rng.standard_normal((3, 5)), rng.standard_normal((5, 2))
    scale = Fraction(1, 7)
    product = ExactProduct([[ExactArray(a), ExactArray(b), ExactArray(c)]], [scale])
    exact = [[Fraction(v) for v in row] for row in a]
    for factor in (b, c):
        exact = [
            [sum(x * Fraction(factor[k, j]) for k, x in enumerate(row)) for j in range(factor.shape[1])]
            for row in exact
        ]
    expected = [[scale * v for v in row] for row in exact]
    assert product.shape == (1, 4, 2)
    assert product.rounded
    assert product.fractions[0].tolist() == expected
    assert product.floats[0].tolist() == [[float(v) for v in row] for row in expected]
    assert product.approximation == pytest.approx(product.floats, rel=1e-13)
    assert product.rational((0, 3, 1)) == flint.fmpq(expected[3][1].numerator, expected[3][1].denominator)
    assert not product.all_zero()
    for numerators, denominator in integer_stack(product) + integer_stack(
        ExactArray(product.floats, product.fractions)
    ):
        found = [Fraction(int(n), denominator) for n in numerators.entries()]
        assert found == [v for row in expected for v in row]


def test_a_product_that_fits_into_floats_says_so():
    product = ExactProduct([[as_exact([[3, 4]], "a", ndim=2), as_exact([[0.5], [2]], "b", ndim=2)]])
    assert not product.rounded
    assert product.fractions is None
    assert product.floats.tolist() == [[[9.5]]]


def test_products_that_cancel_are_zero():
    product = ExactProduct([[as_exact([[0.1, 0.1]], "a", ndim=2), as_exact([[0.3], [-0.3]], "b", ndim=2)]])
    assert product.all_zero()


@pytest.mark.parametrize(
    "chains",
    [
        [[np.ones((2, 3)), np.ones((2, 2))]],
        [[np.ones((2, 3))], [np.ones((3, 3))]],
    ],
)
def test_factors_that_do_not_fit(chains):
    with pytest.raises(errors.DimensionMismatchError):
        ExactProduct([[ExactArray(factor) for factor in chain] for chain in chains])


def test_products_that_overflow():
    big = ExactArray(np.array([[1e200]]))
    with pytest.raises(errors.NotFiniteError, match="products of the weights"):
        ExactProduct([[big, big]])


# ----------------------------------------------------------------------------------------------
# Attention.from_weights against the direct computation
# ----------------------------------------------------------------------------------------------

RANKS = [(2, 3), (4, 1), (1, 2)]  # of keys and of values, head by head
N, D, D_MODEL, E = 5, 3, 4, 3


def draw(rng, kind, *shape):
    if kind == "float":
        return rng.standard_normal(shape)
    values = [
        Fraction(int(a), int(b)) for a, b in zip(*rng.integers(1, 9, (2, int(np.prod(shape)))), strict=True)
    ]
    signs = rng.choice([-1, 1], len(values)).tolist()
    return np.array([s * v for s, v in zip(signs, values, strict=True)], dtype=object).reshape(shape)


def weights(seed, kind, biased=True):
    rng = np.random.default_rng(seed)
    made = {
        "context": draw(rng, kind, N, D_MODEL),
        "W_Q": [draw(rng, kind, r, D) for r, _ in RANKS],
        "W_K": [draw(rng, kind, r, D_MODEL) for r, _ in RANKS],
        "W_V": [draw(rng, kind, s, D_MODEL) for _, s in RANKS],
        "W_O": [draw(rng, kind, E, s) for _, s in RANKS],
    }
    if biased:
        made |= {
            "b_Q": [draw(rng, kind, r) for r, _ in RANKS],
            "b_K": [draw(rng, kind, r) for r, _ in RANKS],
            "b_V": [draw(rng, kind, s) for _, s in RANKS],
            "b_O": draw(rng, kind, E),
            "score_bias": draw(rng, kind, len(RANKS), N),
            "scale": [0.5, Fraction(1, 3), 2],
            "mask": rng.random((len(RANKS), N)) < 0.8,
        }
        made["mask"][:, 0] = True
    return made


def direct(made, x, temperature=None):
    """Multi-head attention as it is written in a paper; exact when everything is a fraction."""
    zero = Fraction(0)
    y = list(x)
    for i in range(E):
        y[i] = y[i] + (made["b_O"][i] if "b_O" in made else zero)
    for h in range(len(RANKS)):
        bias = {name: made[name][h] if name in made else zero for name in ("b_Q", "b_K", "b_V")}
        query = made["W_Q"][h] @ x + bias["b_Q"]
        scores, values = {}, {}
        for j, token in enumerate(made["context"]):
            if "mask" in made and not made["mask"][h][j]:
                continue
            key = made["W_K"][h] @ token + bias["b_K"]
            values[j] = made["W_O"][h] @ (made["W_V"][h] @ token + bias["b_V"])
            scale = made["scale"][h] if "scale" in made else 1
            scores[j] = scale * (key @ query) + (made["score_bias"][h][j] if "score_bias" in made else zero)
        best = max(scores.values())
        if temperature is None:
            share = {j: Fraction(1) for j in scores if scores[j] == best}
        else:
            share = {j: np.exp((scores[j] - best) / temperature) for j in scores}
        total = sum(share.values())
        for j, p in share.items():
            for i in range(E):
                y[i] = y[i] + p * values[j][i] / total
    return y


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_fractions_give_the_direct_computation_exactly(seed, biased):
    made = weights(seed, "fraction", biased)
    if biased:
        made["scale"] = [Fraction(v) for v in made["scale"]]
    net = Network([Attention.from_weights(**made)])
    rng = np.random.default_rng(seed)
    for _ in range(5):
        x = draw(rng, "fraction", D)
        assert list(net.exact_value(x)) == direct(made, x)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_floats_give_the_direct_computation(seed, biased):
    made = weights(seed, "float", biased)
    if biased:
        made["scale"] = [float(v) for v in made["scale"]]
    block = Attention.from_weights(**made)
    for x in np.random.default_rng(seed).standard_normal((10, D)):
        assert block(x) == pytest.approx(np.array(direct(made, x), dtype=float), abs=1e-11)
        assert block(x, 0.7) == pytest.approx(np.array(direct(made, x, 0.7), dtype=float), abs=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_scores_of_float_weights_are_their_exact_products(seed):
    """The products of floats, computed from the weights in rationals."""
    made = weights(seed, "float")
    block = Attention.from_weights(**made)
    exact = {
        name: [fractions_of(as_exact(part, name, ndim=np.ndim(part))) for part in made[name]]
        for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V")
    }
    context = fractions_of(as_exact(made["context"], "context", ndim=2))
    for h, scale in enumerate(Fraction(v) for v in made["scale"]):
        for j, token in enumerate(context):
            key = exact["W_K"][h] @ token + exact["b_K"][h]
            row = scale * (exact["W_Q"][h].T @ key)
            bias = scale * (key @ exact["b_Q"][h]) + Fraction(made["score_bias"][h, j])
            output = exact["W_O"][h] @ (exact["W_V"][h] @ token + exact["b_V"][h])
            if h == 0:
                output = output + np.array([Fraction(v) for v in made["b_O"]], dtype=object)
            assert fractions_of(block.scores)[h, j].tolist() == row.tolist()
            assert fractions_of(block.biases)[h, j] == bias
            assert fractions_of(block.outputs)[h, j].tolist() == output.tolist()


def test_rank_deficient_scores_stay_rank_deficient():
    """A head of rank one: every score row is a multiple of W_Q, exactly; a rounded product is not."""
    rng = np.random.default_rng(0)
    made = {
        "context": rng.standard_normal((6, 4)),
        "W_Q": rng.standard_normal((1, 1, 3)),
        "W_K": rng.standard_normal((1, 1, 4)),
        "W_V": rng.standard_normal((1, 2, 4)),
        "W_O": rng.standard_normal((1, 3, 2)),
    }
    block = Attention.from_weights(**made)

    def rank(rows):
        values = [flint.fmpq(v.numerator, v.denominator) for row in rows for v in row]
        return flint.fmpq_mat(6, 3, values).rank()

    assert rank(fractions_of(block.scores)[0].tolist()) == 1
    assert rank(fractions_of(ExactArray(block.scores.floats))[0].tolist()) > 1


def test_equal_tokens_tie():
    rng = np.random.default_rng(0)
    context = rng.standard_normal((40, 64))
    context[17] = context[29] = context[3]
    block = Attention.from_weights(
        context,
        rng.standard_normal((2, 16, 64)),
        rng.standard_normal((2, 16, 64)),
        rng.standard_normal((2, 16, 64)),
        rng.standard_normal((2, 64, 16)),
        b_Q=rng.standard_normal((2, 16)),
    )
    assert (block.keys.counts.sum(axis=1) == 40).all()
    assert ((block.keys.counts == 3).sum(axis=1) == 1).all()


def test_a_real_layer_is_ready_at_once():
    """Sizes of a small language model: the exact products wait until somebody asks."""
    rng = np.random.default_rng(0)
    block = Attention.from_weights(
        rng.standard_normal((128, 768)),
        0.02 * rng.standard_normal((12, 64, 768)),
        0.02 * rng.standard_normal((12, 64, 768)),
        0.02 * rng.standard_normal((12, 64, 768)),
        0.02 * rng.standard_normal((12, 768, 64)),
    )
    assert block(rng.standard_normal((10, 768)), 8.0).shape == (10, 768)
    assert "_products" not in vars(block.scores)
    entry = block.scores.rational((0, 0, 0))
    assert list(block.scores._products) == [0]  # the work of one head
    assert float(Fraction(int(entry.p), int(entry.q))) == pytest.approx(block.scores.approximation[0, 0, 0])


GOOD = weights(0, "float")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"context": np.ones((0, 4))}, "context must hold at least one token"),
        ({"context": np.ones(4)}, "context must be a matrix"),
        ({"context": np.full((5, 4), np.nan)}, "context must be finite"),
        ({"context": np.ones((5, 3))}, r"W_K\[0\] must have shape \(2, 3\)"),
        ({"W_Q": []}, "W_Q must hold one array per head"),
        ({"W_Q": 3}, "W_Q must hold one array per head"),
        ({"W_K": GOOD["W_K"][:2]}, r"W_K must hold one matrix per head \(3\), but holds 2"),
        ({"W_Q": [np.ones((2, 3)), np.ones((4, 2)), np.ones((1, 3))]}, r"W_Q\[1\] must have shape \(4, 3\)"),
        ({"W_O": [np.ones((3, 3)), np.ones((3, 2)), np.ones((3, 2))]}, r"W_O\[1\] must have shape \(3, 1\)"),
        ({"b_Q": [np.ones(2)] * 3}, r"b_Q must hold vectors of the lengths \[2, 4, 1\]"),
        ({"b_O": np.ones(2)}, r"b_O must hold vectors of the lengths \[3\]"),
        ({"scale": [1, 2]}, r"one per head \(3\), but holds 2"),
        ({"scale": 0}, "scale must be above 0"),
        ({"scale": np.inf}, "scale must be finite"),
        ({"score_bias": np.ones((2, 5))}, r"score_bias must hold one number per token \(5\)"),
        ({"mask": [True, False]}, "mask must hold one entry per head and key"),
        ({"mask": [False] * 5}, "head 0 has none"),
    ],
)
def test_weights_that_do_not_fit(change, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        Attention.from_weights(**(GOOD | change))


def test_one_mask_and_one_score_bias_serve_all_heads():
    made = weights(0, "float", biased=False)
    mask, shift = [True, True, False, True, True], np.arange(5.0)
    shared = Attention.from_weights(**made, mask=mask, score_bias=shift)
    written = Attention.from_weights(**made, mask=[mask] * 3, score_bias=[shift] * 3)
    x = np.random.default_rng(0).standard_normal((20, 3))
    assert np.array_equal(shared(x), written(x))
    assert not shared.mask[:, 2].any()
