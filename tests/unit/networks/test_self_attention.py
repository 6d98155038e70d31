"""Self-attention and transformers: values against torch and rationals, files, and refused input."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from oracles.random_transformers import drawn_transformer

import hardmax as hm
from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.networks.transformer import Positions

ONE = [[[1.0]]]


def layer(rng, heads=2, d=6, r=3, **options):
    g = np.random.default_rng(rng)
    return hm.SelfAttention(*g.standard_normal((3, heads, r, d)), g.standard_normal((heads, d, r)), **options)


def test_softmax_is_that_of_torch():
    torch = pytest.importorskip("torch")
    d, heads, n = 8, 2, 5
    module = torch.nn.MultiheadAttention(d, heads, bias=True, dtype=torch.float64, batch_first=True)
    torch.nn.init.normal_(module.in_proj_bias)
    torch.nn.init.normal_(module.out_proj.bias)
    r = d // heads
    q, k, v = module.in_proj_weight.detach().numpy().reshape(3, heads, r, d)
    bq, bk, bv = module.in_proj_bias.detach().numpy().reshape(3, heads, r)
    out = module.out_proj.weight.detach().numpy().reshape(d, heads, r).transpose(1, 0, 2)
    block = hm.SelfAttention(
        q, k, v, out, b_Q=bq, b_K=bk, b_V=bv, b_O=module.out_proj.bias.detach().numpy(),
        rule="softmax", temperature=r**0.5, mask="causal", skip=False,
    )  # fmt: skip
    x = np.random.default_rng(0).standard_normal((3, n, d))
    hidden = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
    expected = module(*[torch.from_numpy(x)] * 3, attn_mask=hidden, need_weights=False)[0]
    assert np.abs(block(x) - expected.detach().numpy()).max() < 1e-12


def test_hardmax_is_the_limit_of_softmax():
    block, x = layer(0), np.random.default_rng(1).standard_normal((4, 7, 6))
    assert np.abs(block(x) - block(x, temperature=1e-4)).max() < 1e-9
    assert np.abs(block(x) - block(x, temperature=1.0)).max() > 1e-2


@pytest.mark.parametrize("seed", range(40))
def test_exact_values_are_the_float_values(seed):
    transformer, start, _ = drawn_transformer(2 * seed)
    exact = transformer.exact_value(start)
    assert np.allclose(transformer(start), exact.astype(float), atol=1e-9)
    batch = np.stack([np.array(start, dtype=float)] * 2)
    assert np.array_equal(transformer(batch)[1], transformer(start))


@pytest.mark.parametrize(("ties", "expected"), [("mean", 2.0), ("leftmost", 1.0), ("rightmost", 3.0)])
def test_ties(ties, expected):
    block = hm.SelfAttention([[[0.0]]], ONE, ONE, ONE, ties=ties, skip=False)
    x = [[1.0], [3.0]]
    assert block(x)[0, 0] == expected
    assert hm.Transformer([block]).exact_value(x)[0, 0] == expected
    assert block.trace(np.array([x]))[1][0, 0, 0] == (1 if ties == "rightmost" else 0)


def test_a_score_bias_is_added_behind_the_scale():
    """With a bias the scale decides who wins, without one it does not."""
    x, bias = [[1.0], [2.0]], [[1.5, 0.0], [1.5, 0.0]]
    for scale, reads in ((1, 2.0), (1, 1.0), (Fraction(1, 4), 1.0)):
        add = None if reads == 2.0 else bias
        block = hm.SelfAttention(ONE, ONE, ONE, ONE, score_bias=add, scale=scale, skip=False)
        assert block(x)[0, 0] == reads == hm.Transformer([block]).exact_value(x)[0, 0]


def test_only_some_tokens_are_read():
    transformer = hm.Transformer([layer(0), layer(1)], [1, 3])
    x = np.random.default_rng(2).standard_normal((5, 6))
    assert np.array_equal(transformer(x), hm.Transformer(transformer.blocks)(x)[[1, 3]])


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_saved_and_loaded(seed, tmp_path):
    transformer, start, _ = drawn_transformer(seed)
    again = hm.load(transformer.save(tmp_path / "t.npz"))
    assert repr(again) == repr(transformer)
    assert [repr(block) for block in again.blocks] == [repr(block) for block in transformer.blocks]
    assert (again.exact_value(start) == transformer.exact_value(start)).all()
    assert again.read == transformer.read


def test_softmax_survives_a_file(tmp_path):
    transformer = hm.Transformer([layer(0, rule="softmax", temperature=0.5, mask="causal")])
    x = np.random.default_rng(2).standard_normal((5, 6))
    assert np.array_equal(hm.load(transformer.save(tmp_path / "t.npz"))(x), transformer(x))


def _attention(**options):
    return lambda: hm.SelfAttention(ONE, ONE, ONE, ONE, **options)


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (_attention(rule="sparse"), InvalidInputError, "rule must be one of hardmax, softmax"),
        (_attention(rule="softmax"), InvalidInputError, "temperature must be a finite number above 0"),
        (_attention(rule="softmax", temperature=0.0), InvalidInputError, "above 0 for rule"),
        (_attention(rule="softmax", temperature=-1.0), InvalidInputError, "above 0 for rule"),
        (_attention(temperature=1.0), InvalidInputError, 'temperature belongs to rule="softmax"'),
        (_attention(ties="first"), InvalidInputError, "ties must be one of mean, leftmost, rightmost"),
        (_attention(mask="future"), InvalidInputError, 'mask must be None, "causal" or a square matrix'),
        (_attention(mask=[[True, False]]), InvalidInputError, "square matrix"),
        (_attention(mask=[[False, False], [True, True]]), InvalidInputError, "query 0 has none"),
        (_attention(score_bias=[[1.0, 2.0]]), DimensionMismatchError, "score_bias must have shape"),
        (_attention(score_bias=[[1.0]], mask=[[True, True]] * 2), DimensionMismatchError, "of one length"),
        (_attention(b_Q=[[1.0, 2.0]]), DimensionMismatchError, "b_Q must hold vectors of the lengths [1]"),
        (_attention(scale=0), InvalidInputError, "scale must be above 0"),
        (lambda: hm.SelfAttention(ONE, [[[1.0, 2.0]]], ONE, ONE), DimensionMismatchError, "W_K[0] must have"),
        (lambda: hm.SelfAttention(ONE, ONE, ONE, [[[1.0], [1.0]]]), InvalidInputError, "skip connection"),
        (lambda: hm.SelfAttention([[[np.nan]]], ONE, ONE, ONE), NotFiniteError, "W_Q[0] must be finite"),
        (lambda: hm.SelfAttention(ONE, ONE, ONE, ONE)([[1e200], [1e200]]), NotFiniteError, "overflow"),
        (lambda: hm.SelfAttention(ONE, ONE, ONE, ONE)([1.0]), DimensionMismatchError, "x must be"),
        (lambda: hm.Transformer([]), InvalidInputError, "at least one block"),
        (lambda: hm.Transformer([3]), InvalidInputError, "block 0 is a int"),
        (lambda: hm.Transformer([layer(0), hm.Affine([[1.0]])]), DimensionMismatchError, "block 1 must take"),
        (lambda: hm.Transformer([Positions([[1.0]]), Positions([[1.0], [2.0]])]), InvalidInputError, "1, 2"),
        (lambda: hm.Transformer([layer(0)], [-1]), InvalidInputError, "read must name tokens from 0 on"),
        (lambda: hm.Transformer([layer(0)], [7])(np.ones((3, 6))), DimensionMismatchError, "up to 7"),
        (lambda: hm.Transformer([layer(0)])(np.ones((3, 5))), DimensionMismatchError, "6 coordinates"),
    ],
)  # fmt: skip
def test_bad_input_gets_a_sentence(make, error, sentence):
    with pytest.raises(error) as caught:
        make()
    assert sentence in str(caught.value)
    assert str(caught.value).endswith(".")
