"""Transformers along segments: dense samples, laws, limits, files, and the frozen picture."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from oracles.random_transformers import drawn_transformer

import hardmax as hm
from hardmax import storage
from hardmax.errors import FileFormatError, InvalidInputError
from hardmax.flow.theorems.depth_separation import _most_opposite
from hardmax.networks.constructions import genuine_sawtooth, narrow_sawtooth
from hardmax.regions.sequences.stages import spectral_bound


def random_transformer(n, d, depth, heads, width, seed, **options):
    g = np.random.default_rng(seed)
    r, blocks = d // heads, []
    for _ in range(depth):
        weights = g.standard_normal((3, heads, r, d)) / np.sqrt(d)
        blocks.append(hm.SelfAttention(*weights, g.standard_normal((heads, d, r)) / np.sqrt(d), **options))
        w_in, w_out = (
            g.standard_normal((width, d)) / np.sqrt(d),
            g.standard_normal((d, width)) / np.sqrt(width),
        )
        blocks.append(hm.FeedForward(w_in, g.standard_normal(width) / 2, w_out, skip=True))
    return hm.Transformer(blocks), *g.standard_normal((2, n, d))


def signature(transformer, x):
    """Routings and bits by the float forward pass."""
    routings, bits, y = [], [], np.asarray(x)[None]
    for block in transformer.blocks:
        if isinstance(block, hm.SelfAttention):
            y, winners = block.trace(y)
            routings.append(winners[0])
        else:
            out, _, on = block.trace(y[0])
            y = out[None]
            bits.append(on.T)
    return np.concatenate(routings), np.concatenate(bits), y[0]


def test_dense_samples_lie_in_the_pieces():
    transformer, start, end = random_transformer(12, 8, 2, 2, 6, 0)
    trace = hm.trace_segment(transformer, start, end)
    assert trace.n_pieces > 100
    rng = np.random.default_rng(1)
    for s in rng.random(400):
        i = int(np.searchsorted(trace.breakpoints, s))
        near = trace.breakpoints[max(0, i - 1) : i + 1]
        if len(near) and np.abs(near - s).min() < 1e-9:
            continue
        routings, bits, y = signature(transformer, trace.point(s))
        assert np.array_equal(trace.routings[i], routings)
        assert np.array_equal(trace.relu[i], bits)
        offset, slope = trace.affine(i)
        assert np.abs(offset + s * slope - y).max() < 1e-9
    assert trace.exact
    assert (np.diff(trace.breakpoints) > 0).all()
    widths = np.array([len(set(map(bytes, (trace.routings[i], trace.routings[i + 1])))) for i in range(50)])
    assert ((widths == 1) <= (trace.kinds[:50] == 0)).all()  # where no routing changes it is a fold


def test_the_way_back_has_the_same_pieces():
    transformer, start, end = random_transformer(6, 4, 2, 2, 3, 3)
    there, back = hm.trace_segment(transformer, start, end), hm.trace_segment(transformer, end, start)
    assert there.n_pieces == back.n_pieces
    assert np.array_equal(there.routings, back.routings[::-1])
    assert np.array_equal(there.relu, back.relu[::-1])
    assert np.allclose(there.breakpoints, 1 - back.breakpoints[::-1], atol=1e-9)


def test_two_halves_are_the_whole():
    transformer, start, end = random_transformer(5, 4, 1, 2, 3, 4)
    middle = 0.5 * (start + end)
    whole = hm.trace_segment(transformer, start, end)
    left, right = hm.trace_segment(transformer, start, middle), hm.trace_segment(transformer, middle, end)
    places = np.concatenate([0.5 * left.breakpoints, 0.5 + 0.5 * right.breakpoints])
    assert np.allclose(places, whole.breakpoints, atol=1e-9)
    assert np.array_equal(left.routings[-1], right.routings[0])


@pytest.mark.parametrize("power", [-300, -120, 120, 300])
def test_scaling_by_powers_of_two_changes_nothing(power):
    """Numbers at the ends of the range of floats go through rationals, with the same result."""
    transformer, start, end = random_transformer(4, 2, 1, 1, 2, 5)
    attention, units = transformer.blocks
    scaled = hm.Transformer(
        [
            hm.SelfAttention(
                [attention.W_Q[0].floats * 2.0**power], [attention.W_K[0].floats * 2.0**power],
                [attention.W_V[0].floats], [attention.W_O[0].floats],
            ),
            hm.FeedForward(
                units.w_in.floats * 2.0**power, units.b_in.floats * 2.0**power, units.w_out.floats
            ),
        ]
    )  # fmt: skip
    plain = hm.Transformer([attention, hm.FeedForward(units.w_in, units.b_in, units.w_out)])
    a, b = hm.trace_segment(plain, start, end), hm.trace_segment(scaled, start, end)
    assert a.n_pieces == b.n_pieces > 3
    assert np.array_equal(a.routings, b.routings)
    assert np.array_equal(a.relu, b.relu)


def test_overflowing_floats_are_decided_in_rationals():
    block = hm.SelfAttention([[[1.0]]], [[[1.0]]], [[[1.0]]], [[[1.0]]], skip=False)
    trace = hm.trace_segment(hm.Transformer([block]), [[1e200], [0.5e200]], [[1e200], [2e200]])
    assert trace.n_pieces == 2
    assert str(trace.exact_breakpoint(0)).startswith("1/3") or abs(trace.breakpoints[0] - 1 / 3) < 1e-15
    assert trace.n_exact > 0


def test_duplicate_tokens_share():
    transformer, start, end = random_transformer(24, 4, 2, 2, 4, 6)
    start[12:], end[12:] = start[:12], end[:12]
    trace = hm.trace_segment(transformer, start, start + 0.25 * (end - start))
    single = hm.trace_segment(transformer, start[:12], start[:12] + 0.25 * (end - start)[:12])
    assert trace.n_pieces == single.n_pieces > 5
    assert np.array_equal(trace.routings[:, :, :12], single.routings)
    assert np.array_equal(trace.routings[:, :, 12:], single.routings)
    assert np.allclose(trace.slopes[:, :12], single.slopes)


def test_limits_and_files(tmp_path):
    transformer, start, end = random_transformer(6, 4, 2, 2, 3, 3)
    whole = hm.trace_segment(transformer, start, end)
    seen = []
    part = hm.trace_segment(transformer, start, end, max_pieces=7, progress=seen.append)
    assert (part.n_pieces, part.complete) == (7, False)
    assert part.reach == whole.breakpoints[6]
    assert np.array_equal(part.routings, whole.routings[:7])
    assert repr(part).endswith("pieces, stopped at " + f"{part.reach:.3g}, exact>")
    short = hm.trace_segment(transformer, start, end, time_limit=1e-9)
    assert not short.complete
    for trace in (whole, part):
        again = hm.load(trace.save(tmp_path / "trace.npz"))
        assert repr(again) == repr(trace)
        assert np.array_equal(again.routings, trace.routings)
        assert np.array_equal(again.values, trace.values)
        assert again.exact_breakpoint(0) == trace.exact_breakpoint(0)
    assert len(whole.to_frame()) == whole.n_pieces
    assert whole.plot().get_title() == f"{whole.n_pieces} pieces"
    assert seen == [] or seen[-1].n_cells >= 1


def test_an_interrupt_passes_through(monkeypatch):
    from hardmax.regions.sequences import sweep

    transformer, start, end = random_transformer(6, 4, 1, 2, 3, 3)

    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep.Sweep, "advance", stop)
    with pytest.raises(KeyboardInterrupt):
        hm.trace_segment(transformer, start, end)


def test_a_transformer_without_cuts_has_one_piece():
    trace = hm.trace_segment(hm.Transformer([hm.Affine([[2.0]])]), [[0.0], [1.0]], [[1.0], [1.0]])
    assert trace.n_pieces == 1
    assert trace.slopes[0].tolist() == [[2.0], [0.0]]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"end": [[0.0], [1.0]]}, "different sequences"),
        ({"end": [[0.0]]}, "of one shape"),
        ({"end": [[0.0, 1.0]]}, "end must be a sequence of shape (T, 1)"),
        ({"arithmetic": "float"}, 'arithmetic must be "certified" for a transformer'),
        ({"max_pieces": 0}, "max_pieces must be at least 1"),
    ],
)
def test_bad_input_gets_a_sentence(change, sentence):
    asked = {
        "network": hm.Transformer([hm.SelfAttention(*[[[[1.0]]]] * 4)]),
        "start": [[0.0], [1.0]],
        "end": [[1.0], [1.0]],
    }
    with pytest.raises(InvalidInputError) as caught:
        hm.trace_segment(**(asked | change))
    assert sentence in str(caught.value)


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (64, 16), (40, 40)])
def test_bounds_of_norms_are_above_and_close(shape):
    a = np.random.default_rng(0).standard_normal(shape)
    norm = np.linalg.norm(a, 2)
    assert norm <= spectral_bound(a, np.linalg.norm(a) * (1 + 1e-12)) <= 1.02 * norm
    assert spectral_bound(np.zeros(shape), 0.0) == 0.0


# P1's frozen keys
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_frozen_keys_agree_where_the_segment_begins(seed):
    transformer, start, end = random_transformer(7, 4, 2, 2, 4, seed)
    effect = hm.regions.frozen_context_effect(transformer, start, 2, end[2])
    assert effect.first_difference > 0
    assert (effect.frozen[0] == effect.moving[0]).all()
    assert 0 < effect.agreement_of_all <= effect.agreement.min() <= 1 + 1e-12
    net = hm.regions.frozen_context(transformer, start, 2)
    assert np.allclose(net(start[2]), transformer(start)[2])


def test_keys_that_never_move_make_no_difference():
    """A token that nobody may read, not even itself."""
    mask = np.ones((5, 5), dtype=bool)
    mask[:, 2] = False
    transformer, start, end = random_transformer(5, 4, 2, 2, 4, 1, mask=mask)
    effect = hm.regions.frozen_context_effect(transformer, start, 2, end[2])
    assert effect.agreement_of_all == pytest.approx(1.0)
    assert effect.n_pieces_frozen == effect.n_pieces_own == effect.n_pieces


def test_a_frozen_network_needs_the_mean_of_ties():
    transformer, start, _ = drawn_transformer(0)
    last = hm.SelfAttention(*[[[[1.0]]]] * 4, ties="leftmost")
    with pytest.raises(InvalidInputError, match="to be frozen"):
        hm.regions.frozen_context(hm.Transformer([last]), [[1.0], [2.0]], 0)
    with pytest.raises(InvalidInputError, match="token must be in range"):
        hm.regions.frozen_context(transformer, start, 99)


# Constructions of the papers
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_tokens", "teeth", "depth"), [(2, 1, 1), (3, 2, 1), (2, 2, 2)])
def test_the_genuine_sawtooth_with_keys_that_move(n_tokens, teeth, depth):
    """Theorem V.7 of P1: the token that moves has a key and a value that do not, so both pictures agree."""
    layer, tokens = genuine_sawtooth(1, n_tokens, teeth)
    attention = hm.SelfAttention(layer.w_q, layer.w_k, layer.w_v, layer.w_o)
    transformer = hm.Transformer([attention, layer.feed_forward()] * depth, [n_tokens])
    end = tokens.copy()
    end[-1, 0] = Fraction(1)
    trace = hm.trace_segment(transformer, tokens, end)
    net = hm.networks.sawtooth_network(1, n_tokens, teeth, depth, variant="genuine")
    expected = hm.trace_segment(net, [0], [1])
    own = trace.routings[:, :, n_tokens], trace.relu[:, :, n_tokens]
    assert trace.n_pieces == expected.n_pieces
    assert np.array_equal(own[0], expected.signatures.routings)
    assert np.array_equal(own[1], expected.signatures.relu)
    for i in range(trace.n_pieces - 1):
        assert trace.exact_breakpoint(i) == expected.exact_breakpoint(i)


@pytest.mark.parametrize(("n_tokens", "teeth", "depth"), [(2, 1, 2), (3, 2, 2), (2, 1, 3)])
def test_the_narrow_sawtooth_with_keys_that_move(n_tokens, teeth, depth):
    """Width 2 for one coordinate: the moving token's own key is quadratic in it, and never wins."""
    layer, tokens = narrow_sawtooth(1, n_tokens, teeth)
    attention = hm.SelfAttention(layer.w_q, layer.w_k, layer.w_v, layer.w_o)
    moving = n_tokens + 1
    transformer = hm.Transformer([attention, layer.feed_forward()] * depth, [moving])
    end = tokens.copy()
    end[-1, 0] = Fraction(n_tokens + 2)
    trace = hm.trace_segment(transformer, tokens, end)
    assert trace.n_pieces == (2 * teeth * n_tokens) ** depth
    assert (trace.routings[:, :, moving] < n_tokens).all()
    # all others read the token with value 0; what they read in the last layer is asked by nobody
    assert (trace.routings[:, :-1, :moving] == n_tokens).all()


def test_the_first_layer_of_the_depth_separation():
    """Theorem 1 of P2: every token reads the one that is most opposite to it."""
    layer = _most_opposite()
    attention = hm.SelfAttention(layer.w_q, layer.w_k, layer.w_v, [layer.w_o])
    rng = np.random.default_rng(0)
    start, end = (np.concatenate([rng.uniform(-1, 1, (9, 3)), np.zeros((9, 3))], axis=1) for _ in range(2))
    trace = hm.trace_segment(hm.Transformer([attention]), start, end)
    assert trace.n_pieces > 20
    ends = np.concatenate([[0.0], trace.breakpoints, [1.0]])
    for i, s in enumerate(0.5 * (ends[:-1] + ends[1:])):
        x = trace.point(s)[:, :3]
        assert np.array_equal(trace.routings[i, 0], (-x @ x.T).argmax(axis=1))


# Far below the resolution of floats
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1])
def test_breaks_that_floats_cannot_tell_apart(first):
    """Two heads change at roots of 2 that differ by about 1e-40; which comes first is decided exactly."""
    tiny = [Fraction(0), Fraction(1, 10**40)]
    biases = [2 + tiny[first], 2 + tiny[1 - first]]  # head h: the key of token 0, s^2, beats bias / 4
    shift = np.zeros((2, 2, 2), dtype=object)
    for h in range(2):
        shift[h, :, 1] = biases[h] / 4
    one = [[[1]], [[1]]]
    block = hm.SelfAttention(one, one, one, one, score_bias=shift)
    trace = hm.trace_segment(hm.Transformer([block], [0]), [[0], [0]], [[1], [0]])
    assert trace.n_pieces == 3
    assert trace.routings[:, :, 0].tolist() == [[1, 1], [0, 1] if first == 0 else [1, 0], [0, 0]]
    assert trace.exact_breakpoint(0) < trace.exact_breakpoint(1)
    assert float(trace.exact_breakpoint(0)) == float(trace.exact_breakpoint(1)) == 0.5**0.5
    assert trace.n_exact > 0


def test_breaks_that_coincide_are_one():
    block = hm.SelfAttention([[[1]], [[2]]], [[[1]], [[2]]], [[[1]]] * 2, [[[1]]] * 2,
                             score_bias=[[[0, Fraction(1, 2)]] * 2, [[0, 2]] * 2])  # fmt: skip
    trace = hm.trace_segment(hm.Transformer([block], [0]), [[0], [0]], [[1], [0]])
    assert trace.n_pieces == 2
    assert str(trace.exact_breakpoint(0)) == "sqrt(1/2)"


def test_a_rival_that_only_touches_is_no_break():
    """The scores s^2 and s - 1/4 meet at 1/2, where one touches the other."""
    shift = [[0, Fraction(-1, 4)], [0, 0]]
    block = hm.SelfAttention([[[1, 0]]], [[[1, 0]]], [[[1, 0]]], [[[1], [0]]], score_bias=shift)
    trace = hm.trace_segment(hm.Transformer([block], [0]), [[0, 0], [1, 0]], [[1, 0], [1, 0]])
    assert trace.n_pieces == 1
    assert trace.routings[0, 0, 0] == 0


@pytest.mark.parametrize(
    ("name", "spoiled"),
    [
        ("changes", lambda a: a + 99),
        ("changes", lambda a: -1 - a),
        ("broken", lambda a: a[1:]),
        ("first", lambda a: a[:-1]),
        ("lows", lambda a: a[:-1]),
        ("ties", lambda a: [[0, 99, 0, 0, [0]]]),
    ],
)
def test_a_damaged_file_is_refused(name, spoiled, tmp_path):
    transformer, start, end = random_transformer(4, 4, 1, 2, 3, 3)
    trace = hm.trace_segment(transformer, start, end)
    state = trace._state()
    state[name] = spoiled(state[name])
    path = storage.write(tmp_path / "trace.npz", storage.Stored(trace.kind, state, trace.provenance))
    with pytest.raises(FileFormatError, match="do not fit together"):
        hm.load(path)


@pytest.mark.parametrize("seed", range(12))
def test_equal_tokens_traced_once_give_the_trace_of_all_tokens(seed):
    """The sweep over all tokens is the judge; masks, biases and positions that tell tokens apart included."""
    import time

    from hardmax.regions.sequences.equal_tokens import kinds_of_tokens
    from hardmax.regions.sequences.sweep import Sweep
    from hardmax.regions.sequences.trace import TransformerTrace, _swept, segment_of

    rng = np.random.default_rng(seed)
    n, d = 7, 3
    mask = np.ones((n, n), dtype=bool)
    mask[:, 5] = False
    more = {
        0: {},
        1: {"mask": mask},
        2: {"score_bias": np.where(np.arange(n)[:, None] < 3, 0.5, 0.0) * np.ones((2, n, n))},
        3: {"ties": ("leftmost", "rightmost", "mean")[seed % 3]},
    }[seed % 4]
    looks = [
        hm.SelfAttention(*rng.integers(-2, 3, (3, 2, 2, d)), rng.integers(-2, 3, (2, d, 2)), **more)
        for _ in range(2)
    ]
    units = hm.FeedForward(
        rng.integers(-2, 3, (4, d)), rng.integers(-2, 3, 4), rng.integers(-2, 3, (d, 4)), skip=True
    )
    places = hm.networks.Positions(rng.integers(0, 2, (n, d))) if seed >= 8 else None
    blocks = [*([] if places is None else [places]), looks[0], units, looks[1]]
    model = hm.Transformer(blocks, read=(2, 6) if seed % 2 else None)
    start, end = rng.integers(-3, 4, (2, n, d)).astype(float)
    for t, other in ((4, 1), (6, 1), (3, 0), (5, 2)):
        start[t], end[t] = start[other], end[other]
    found = hm.trace_segment(model, start, end)
    first, last = segment_of(model, start, end)
    sweep = _swept(Sweep(model, first, last), time.monotonic(), None, None, None)
    judge = TransformerTrace._of(model, first, last, sweep.record, sweep.done)
    if seed < 8 and more.get("ties") != "rightmost":
        assert len(np.unique(kinds_of_tokens(model, first, last))) < n
    assert found.n_pieces == judge.n_pieces
    assert (found.routings == judge.routings).all()
    assert (found.relu == judge.relu).all()
    for i in range(found.n_pieces):
        for ours, theirs in zip(found.exact_affine(i), judge.exact_affine(i), strict=True):
            assert (ours == theirs).all()
    for i in range(len(found.breakpoints)):
        assert found.exact_breakpoint(i) == judge.exact_breakpoint(i)
