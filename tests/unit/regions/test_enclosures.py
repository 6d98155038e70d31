"""Certified traces: against the exact engines, dense sampling, and sympy's real roots."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from oracles.smooth_networks import KINDS, judge, sampled, smooth_network, smooth_transformer

import hardmax as hm
from hardmax.errors import InvalidInputError
from hardmax.exact.rationals import as_exact
from hardmax.networks import LayerNorm, RMSNorm, SmoothFeedForward
from hardmax.regions.enclosures.trace import certified_trace


def enclosed(network, start, end, **options):
    axes = np.ndim(start)
    return certified_trace(
        network, as_exact(start, "start", ndim=axes), as_exact(end, "end", ndim=axes), **options
    )


def ends(seed, *shape):
    return np.random.default_rng(1000 + seed).normal(size=(2, *shape))


@pytest.mark.parametrize("seed", range(12))
def test_piecewise_affine_networks_have_the_breaks_of_the_exact_engine(seed):
    if seed % 3 == 0:
        net = hm.Network.random_mlp([5, 12, 12, 12, 1], seed)
    elif seed % 3 == 1:
        net = hm.Network.random(5, n_tokens=6, heads=2, depth=2, d_ff=8, rng=seed)
    else:
        rng = np.random.default_rng(seed)
        pieces = hm.Maxout(rng.normal(size=(4, 3, 5)), rng.normal(size=(4, 3)))
        net = hm.Network([pieces, hm.FeedForward(rng.normal(size=(6, 4)), None, np.eye(6), slope=0.25)])
    start, end = 2 * ends(seed, 5)
    exact, found = hm.trace_segment(net, start, end), enclosed(net, start, end)
    assert found.n_unseparated == 0
    assert found.n_pieces == exact.n_pieces
    assert (found.routings == exact.routings).all()
    assert (found.bits == exact.bits).all()
    for i in range(0, len(exact.breakpoints), 5):
        low, high = found.brackets[i]
        assert Fraction(low) <= exact.exact_breakpoint(i) <= Fraction(high)


@pytest.mark.parametrize("seed", range(4))
def test_transformers_have_the_breaks_of_the_exact_engine(seed):
    net = smooth_transformer(seed, "tanh, softmax")
    hard = [
        hm.SelfAttention(b.W_Q, b.W_K, b.W_V, b.W_O, b_Q=b.b_Q, mask=b.mask) for b in net.blocks if b.heads
    ]
    relu = [b for b in net.blocks if b.width]
    plain = hm.Transformer([hard[0], relu[0], hard[1], relu[1]], read=None if seed % 2 else (1, 3))
    start, end = ends(seed, 5, 4)
    exact, found = hm.trace_segment(plain, start, end), enclosed(plain, start, end)
    assert found.n_unseparated == 0
    assert found.n_pieces == exact.n_pieces > 5
    assert (found.routings == exact.routings).all()
    assert (found.relu == exact.relu).all()
    assert (abs(found.breakpoints - exact.breakpoints) <= found.errors + exact.errors).all()


@pytest.mark.parametrize("kind", list(KINDS))
def test_changes_found_by_sampling_lie_in_brackets(kind):
    for seed in range(3):
        net = smooth_network(seed, kind)
        start, end = 2 * ends(seed, 6)
        trace = hm.trace_segment(net, start, end)
        changes = sampled(net, start, end, 20_000)
        assert judge(trace, changes) is None
        assert trace.complete
        assert trace.n_unseparated == 0
        assert len(changes) + 1 == trace.n_pieces  # these are not closer than samples
        middles = trace.pieces.mean(axis=1)
        seen = net.signature(np.array([trace.point(t) for t in middles]))
        assert (seen.routings == trace.routings).all()
        assert (seen.relu == trace.relu).all()
        assert (trace.brackets[:, 1] - trace.brackets[:, 0] <= 1e-11).all()


@pytest.mark.parametrize("kind", list(KINDS)[:3])
def test_changes_of_transformers_lie_in_brackets(kind):
    net = smooth_transformer(1, kind)
    start, end = ends(1, 4, 4)
    trace = hm.trace_segment(net, start, end)
    changes = sampled(net, start, end, 20_000)
    assert judge(trace, changes) is None
    assert trace.n_unseparated == 0
    assert trace.n_pieces >= len(changes) + 1 > 5


def test_the_bundled_model_with_gelu_and_softmax():
    from hardmax.training.trained_models import bundled_model

    model = bundled_model()
    net = model.to_transformer(rule="softmax")
    start, end = (model.with_cls(x) for x in np.random.default_rng(0).uniform(-1, 1, size=(2, 15, 4)))
    assert np.allclose(net(start), model(start[None, :15]), atol=1e-5)
    trace = hm.trace_segment(net, start, end)
    assert trace.complete
    assert trace.n_unseparated == 0
    assert trace.routings.shape == (trace.n_pieces, 4, 16)
    assert (trace.routings[:, :2] >= 0).all()
    assert (trace.routings[:, 2:, :15] == -1).all()
    for i in range(0, trace.n_pieces, 9):
        y = trace.point(trace.pieces[i].mean())[None]
        for block in net.blocks:
            if block.heads:
                assert (block.scores(y).argmax(axis=3)[0] == trace.routings[i, :2]).all()
                break
            y = block.forward(y if block.skip else y[0]).reshape(1, 16, -1)


@pytest.mark.parametrize("seed", range(6))
def test_rational_instances_against_sympy(seed):
    """Units behind an RMSNorm: w.x / rho + b changes sign at a root of (w.x)^2 = b^2 rho^2."""
    sympy = pytest.importorskip("sympy")
    rng = np.random.default_rng(seed)
    start, end = (np.array([Fraction(int(n), 4) for n in row]) for row in rng.integers(-9, 10, (2, 3)))
    w = rng.integers(-5, 6, (4, 3))
    b = [Fraction(int(n), 3) for n in rng.integers(-3, 4, 4)]
    epsilon = Fraction(int(rng.integers(0, 3)), 8)
    s = sympy.symbols("s", real=True)
    x = [
        sympy.Rational(p) + s * (sympy.Rational(q) - sympy.Rational(p))
        for p, q in zip(start, end, strict=True)
    ]
    square = sum(v**2 for v in x) / 3 + sympy.Rational(epsilon)
    roots = set()
    for row, bias in zip(w, b, strict=True):
        line = sum(int(c) * v for c, v in zip(row, x, strict=True))
        beta = sympy.Rational(bias)
        for root, times in sympy.roots(sympy.Poly(line**2 - beta**2 * square, s), multiple=False).items():
            assert times % 2 or beta == 0, "a unit that touches zero"
            if root.is_real and 0 < root < 1 and (beta == 0 or (line.subs(s, root) * beta) < 0):
                roots.add(root)
    net = hm.Network([RMSNorm([1, 1, 1], epsilon=epsilon), hm.FeedForward(w, b, np.eye(4))])
    trace = hm.trace_segment(net, start, end)
    assert trace.n_unseparated == 0
    assert len(trace.brackets) == len(roots)
    for (low, high), root in zip(trace.brackets.tolist(), sorted(roots), strict=True):
        assert sympy.Rational(Fraction(low)) < root < sympy.Rational(Fraction(high))


def test_units_that_switch_together_make_one_bracket():
    both = hm.FeedForward([[1, 2], [-2, -4], [0, 0]], [-1, 2, 0], np.eye(3))
    net = hm.Network([LayerNorm([1, 1], [3, -1], epsilon=1), both])
    trace = hm.trace_segment(net, [-1, 4], [5, 0])
    assert trace.n_pieces == 2
    assert trace.n_unseparated == 0
    assert (trace.relu[:, 2] == 0).all()  # no weights: off
    assert (trace.relu[:, 0] != trace.relu[:, 1]).all()


def test_a_start_where_all_scores_tie():
    keys = np.random.default_rng(3).normal(size=(1, 5, 3))
    net = hm.Network(
        [RMSNorm([1, 1, 1], epsilon=1e-3), hm.Attention(keys, None, keys, rule="softmax", temperature=1)]
    )
    trace = hm.trace_segment(net, [0, 0, 0], [1.0, 2.0, -1.0])
    assert trace.n_pieces == 1
    assert len(trace.brackets) == 0
    assert trace.pieces.tolist() == [[0.0, 1.0]]


def test_a_unit_that_touches_zero_is_not_separated():
    parabola = hm.Network(
        [
            hm.Affine([[1.0], [0.0]], [-0.5, 1.0]),  # (s - 1/2, 1)
            RMSNorm([1, 1], epsilon=0),
            hm.FeedForward([[0, -1]], [Fraction(7, 5)], [[1.0]]),  # 1 / rho <= sqrt 2, which is above 7/5
        ]
    )
    crossing = hm.trace_segment(parabola, [0.0], [1.0])
    assert crossing.n_pieces == 3
    assert crossing.n_unseparated == 0
    square = SmoothFeedForward([[1.0]], None, [[1.0]], activation="silu")
    least = -0.27846454276107379510  # near the least value of SiLU
    touching = hm.Network([hm.Affine([[8.0]], [-4.0]), square, hm.FeedForward([[1.0]], [-least], [[1.0]])])
    trace = hm.trace_segment(touching, [0.0], [1.0])
    assert trace.complete
    assert trace.n_unseparated or trace.n_pieces in (1, 3)


def test_a_norm_that_is_not_defined_on_the_way():
    net = hm.Network([RMSNorm([1, 1], epsilon=0), hm.FeedForward([[1, 0]], None, [[1.0]])])
    with pytest.raises(InvalidInputError, match="start must be a point at which the network has a value"):
        hm.trace_segment(net, [0, 0], [1, 1])
    trace = hm.trace_segment(net, [-1, -1], [2, 1])  # beside the origin
    assert trace.n_pieces == 2
    assert trace.proven.all()
    through = hm.trace_segment(net, [-1, -1], [1, 1])
    assert through.n_pieces == 2
    assert not through.proven.any()
    assert through.brackets[0, 0] < 0.5 < through.brackets[0, 1]


def test_limits_and_bad_input(tmp_path):
    net = smooth_network(0, "layer norm, GELU, softmax")
    start, end = 2 * ends(0, 6)
    trace = hm.trace_segment(net, start, end)
    again = hm.load(trace.save(tmp_path / "trace.npz"))
    assert np.array_equal(again.brackets, trace.brackets)
    assert (again.signatures.relu == trace.signatures.relu).all()
    some = hm.trace_segment(net, start, end, max_pieces=3)
    assert some.n_pieces == 3
    assert not some.complete
    assert np.array_equal(some.pieces, trace.pieces[:3])
    wide = hm.trace_segment(net, start, end, bracket_width=1e-4)
    assert wide.n_pieces <= trace.n_pieces
    assert not hm.trace_segment(net, start, end, time_limit=1e-9).complete
    for options, sentence in (
        ({"bracket_width": 0}, "bracket_width"),
        ({"arithmetic": "exact"}, "certified"),
    ):
        with pytest.raises(InvalidInputError, match=sentence):
            hm.trace_segment(net, start, end, **options)
    with pytest.raises(InvalidInputError, match="different points"):
        hm.trace_segment(net, start, start)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_tokens_are_traced_as_one_that_counts_twice(kind):
    net = smooth_transformer(2, kind)  # no mask: nothing tells the tokens apart
    start, end = ends(7, 4, 4)
    start[3], end[3] = start[0], end[0]
    trace = hm.trace_segment(net, start, end)
    assert trace.n_unseparated == 0
    assert (trace.routings != 3).all()  # the lower index stands for both
    assert (trace.routings[:, :, 3] == trace.routings[:, :, 0]).all()
    assert (trace.relu[:, :, 3] == trace.relu[:, :, 0]).all()
    for (low, high), routings, relu in zip(trace.pieces, trace.routings, trace.relu, strict=True):
        head = unit = 0
        y = trace.point(float(low + high) / 2)[None]
        for block in net.blocks:
            if block.heads:
                scores = block.scores(y)[0]  # (heads, T, T)
                chosen = np.take_along_axis(scores, routings[head : head + block.heads, :, None], axis=-1)
                assert (chosen >= scores - 1e-9).all()
                y, head = block.forward(y), head + block.heads
                continue
            if block.width:
                seen = block.trace(y[0])[2]
                assert (relu[unit : unit + block.width] == np.asarray(seen, dtype=bool).T).all()
            y, unit = block.forward(y[0])[None], unit + block.width


def test_a_deep_network_that_floats_do_not_know_is_traced_with_series_of_high_order():
    """Eight layers in which bounds lose fifteen digits: floats separate nothing in minutes."""
    rng = np.random.default_rng(5)
    d, blocks = 16, []
    for _ in range(8):
        w, v = 2 * rng.normal(size=(2, 2 * d, d)) / d**0.5
        blocks += [LayerNorm(np.ones(d), np.zeros(d))]
        blocks += [SmoothFeedForward(w, None, v.T, activation="gelu", skip=True)]
    soft = {"rule": "softmax", "temperature": 1}
    net = hm.Network(
        [*blocks, hm.Attention(rng.normal(size=(1, 5, d)), None, rng.normal(size=(1, 5, d)), **soft)]
    )
    start = rng.normal(size=d)
    end = start + 0.5 * rng.normal(size=d)
    trace = hm.trace_segment(net, start, end)
    assert trace.complete
    assert trace.n_unseparated == 0
    changes = sampled(net, start, end, 20_000)
    assert judge(trace, changes) is None
    assert trace.n_pieces == len(changes) + 1 == 2


def test_both_arithmetics_give_the_same_trace(monkeypatch):
    from dataclasses import replace

    from hardmax.regions.enclosures import trace as module

    net = smooth_transformer(4, "layer norm, GELU, softmax")
    start, end = ends(4, 4, 4)
    floats = hm.trace_segment(net, start, end)

    def sharp(stages, width, size):
        field = module.ArbField(128, Fraction(width) / 4, Fraction(1, 2**60))
        return module.Isolation(stages, replace(field, order=10))

    monkeypatch.setattr(module, "_arithmetic", sharp)
    balls = hm.trace_segment(net, start, end)
    assert floats.n_unseparated == balls.n_unseparated == 0
    assert (floats.routings == balls.routings).all()
    assert (floats.bits == balls.bits).all()
    assert (
        np.maximum(floats.brackets[:, 0], balls.brackets[:, 0])
        <= np.minimum(floats.brackets[:, 1], balls.brackets[:, 1])
    ).all()
