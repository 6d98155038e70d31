"""Router flips against low-precision arithmetic that is simulated operation by operation, and rationals."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from captured_layers import Layers, causal, random_layer
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.cli import main
from hardmax.exact.formats import FORMATS, format_of
from hardmax.models.atlas.router_flips import arithmetic_of
from hardmax.models.atlas.score_errors import Enclosed, converted, linear, products

NAMES = list(FORMATS)


# Formats
# ----------------------------------------------------------------------------------------------------------


def nearest(x: Fraction, form) -> float:
    """Rounding by its definition, in rationals."""
    if x == 0:
        return 0.0
    exponent = form.e_min
    while abs(x) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    grain = Fraction(2) ** (exponent - form.precision + 1)
    y = round(x / grain) * grain  # Python rounds halves to even
    return float(y) if abs(y) <= Fraction(form.largest) else math.copysign(math.inf, x)


@pytest.mark.parametrize("name", NAMES)
@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_rounding_is_that_of_the_definition(name, x):
    form = FORMATS[name]
    assert form.rounded(x) == nearest(Fraction(x), form)
    for y in (form.largest, form.smallest_normal, form.smallest_normal * 2 ** (1 - form.precision)):
        assert form.rounded(y) == y
    assert form.rounded(form.largest * (1 + 2 * form.unit)) == np.inf


def test_float32_is_numpys():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(20_000) * 2.0 ** rng.integers(-160, 126, 20_000)
    np.testing.assert_array_equal(FORMATS["float32"].rounded(x), x.astype(np.float32))
    half = np.clip(x, -65503, 65503)
    np.testing.assert_array_equal(FORMATS["float16"].rounded(half), half.astype(np.float16))


def test_names_of_formats():
    assert format_of(np.float16) is FORMATS["float16"]
    with pytest.raises(hm.errors.InvalidInputError, match="dtype must be one of float32, bfloat16"):
        format_of("int8")


# Enclosures
# ----------------------------------------------------------------------------------------------------------


def summed(terms: np.ndarray, form, rng: np.random.Generator) -> float:
    """Products and sums rounded one by one, paired at random."""
    parts = [float(form.rounded(t)) for t in terms]
    while len(parts) > 1:
        i, j = rng.choice(len(parts), 2, replace=False)
        total = float(form.rounded(parts[i] + parts[j]))
        parts = [p for n, p in enumerate(parts) if n not in (i, j)] + [total]
    return parts[0]


@pytest.mark.parametrize("scale", [1.0, 2.0**-70, 2.0**-130])
@pytest.mark.parametrize("accumulate", ["float32", "same"])
@pytest.mark.parametrize("name", NAMES)
def test_sums_in_any_order_stay_inside(name, accumulate, scale):
    form = FORMATS[name]
    arithmetic = arithmetic_of(name, name if accumulate == "same" else accumulate)
    rng = np.random.default_rng(NAMES.index(name))
    for _ in range(30):
        d = int(rng.integers(1, 12))
        x, w, b = (
            rng.standard_normal((1, d)),
            rng.standard_normal((3, d)) * scale,
            rng.standard_normal(3) * scale,
        )
        ends = linear(
            converted(x, arithmetic), converted(w, arithmetic), converted(b, arithmetic), arithmetic, form
        )
        bare = products(converted(x, arithmetic), converted(w, arithmetic), arithmetic)
        xr, wr, br = form.rounded(x)[0], form.rounded(w), form.rounded(b)
        for e in range(3):
            terms = xr * wr[e]
            for _ in range(5):
                dot = summed(terms, arithmetic.accumulate, rng)
                assert bare.low[0, e] <= dot <= bare.high[0, e]
                fused = form.rounded(summed(np.append(terms, br[e]), arithmetic.accumulate, rng))
                apart = form.rounded(form.rounded(dot) + br[e])
                for value in (fused, apart):
                    assert ends.low[0, e] <= value <= ends.high[0, e]


def test_a_single_number_is_its_own_enclosure():
    arithmetic = arithmetic_of("bfloat16")
    x = converted([[1.5, -2.0]], arithmetic)
    assert (x.low == x.high).all()
    made = products(x, x, arithmetic)
    assert made.low[0, 0] < 6.25 < made.high[0, 0]
    assert made.kept(FORMATS["bfloat16"]) == Enclosed(np.array([[6.25]]), np.array([[6.25]]))


# Decisions
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_logits_cannot_flip_exactly_where_their_roundings_differ(name, k):
    """Rounding is monotone, so this is the whole truth."""
    rng = np.random.default_rng(0)
    logits = np.concatenate([rng.standard_normal((500, 6)), rng.integers(-3, 4, (200, 6)).astype(float)])
    found = hm.models.router_flips(logits.astype(np.float32), dtype=name, score_dtype=name, k=k)
    exact = np.sort(logits.astype(np.float32), axis=1)[:, ::-1]
    rounded = FORMATS[name].rounded(exact)
    np.testing.assert_array_equal(found.cannot_flip, rounded[:, k - 1] > rounded[:, k])
    np.testing.assert_array_equal(found.margin, exact[:, k - 1].astype(float) - exact[:, k])
    assert found.cannot_flip[found.margin > found.bound].all()


def exact_decision(scores: list[Fraction], k: int) -> tuple[set[int], Fraction]:
    order = sorted(range(len(scores)), key=lambda j: (-scores[j], j))
    return set(order[:k]), scores[order[k - 1]] - scores[order[k]]


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_routers_against_rationals_and_simulated_arithmetic(name, integers, k):
    rng = np.random.default_rng(7)
    n, d, e = 60, 5, 4

    def draw(*shape: int) -> np.ndarray:
        return rng.integers(-2, 3, shape).astype(float) if integers else rng.standard_normal(shape)

    x, w, b = draw(n, d), draw(e, d), draw(e)
    found = hm.models.router_flips(hm.models.RouterLayer(x, w, b), dtype=name, score_dtype=name, k=k)
    form, sums = FORMATS[name], FORMATS["float32"]
    xr, wr, br = form.rounded(x), form.rounded(w), form.rounded(b)
    weights = [[Fraction(v) for v in row] for row in w]
    for t in range(n):
        point = [Fraction(v) for v in x[t]]
        scores = [
            sum(p * q for p, q in zip(row, point, strict=True)) + Fraction(b[j])
            for j, row in enumerate(weights)
        ]
        winners, margin = exact_decision(scores, k)
        assert abs(Fraction(found.margin[t]) - margin) <= Fraction(found.rounding[t])
        assert not (margin == 0 and found.cannot_flip[t])
        assert set(found.winners[t].tolist()) == winners  # ties included: the lowest index
        assert (found.margin[t] == 0) == (margin == 0)
        walls = [
            float(scores[i] - scores[j])
            / np.sqrt(float(sum((p - q) ** 2 for p, q in zip(weights[i], weights[j], strict=True))))
            for i in winners
            for j in range(e)
            if j not in winners and weights[i] != weights[j]
        ]
        if walls:
            assert abs(found.distance[t] - min(walls)) <= found.distance_rounding[t] + 1e-15 * abs(min(walls))
        if found.cannot_flip[t]:
            for _ in range(4):
                made = [
                    float(form.rounded(summed(np.append(xr[t] * wr[j], br[j]), sums, rng))) for j in range(e)
                ]
                assert min(made[j] for j in winners) > max(made[j] for j in range(e) if j not in winners)
    assert 0 < found.share <= 1
    assert found.cannot_flip[found.margin > found.bound].all()


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3"])
def test_heads_against_simulated_arithmetic(name):
    layer = random_layer(3, n=9, heads=4, groups=2, present=causal(9))
    found = hm.models.router_flips(layer, dtype=name, score_dtype=name)
    assert found.n_decisions == 4 * 8  # the first query has no choice
    form, sums = FORMATS[name], FORMATS["float32"]
    rng = np.random.default_rng(0)
    checked = 0
    for i in range(found.n_decisions):
        h, t = int(found.head[i]), int(found.position[i])
        q, keys = form.rounded(layer.queries[h, t]), form.rounded(layer.keys_of(h))
        exact = layer.scores(h)[t]
        assert found.winners[i, 0] == exact.argmax()
        for _ in range(3):
            dots = [form.rounded(summed(q * keys[j], sums, rng)) for j in range(t + 1)]
            made = [form.rounded(sums.rounded(v * sums.rounded(layer.scale))) for v in dots]
            if found.cannot_flip[i]:
                checked += 1
                assert int(np.argmax(made)) == found.winners[i, 0]
                assert np.sort(made)[-1] > np.sort(made)[-2]
    assert checked > 20


def test_projected_attention_is_at_least_as_careful_as_captured():
    rng = np.random.default_rng(1)
    x, w, v = rng.standard_normal((50, 12)), rng.standard_normal((2, 6, 12)), rng.standard_normal((1, 6, 12))
    bias = rng.standard_normal((2, 6))
    layer = hm.models.ProjectedAttention(x, w, v, b_Q=bias, scale=0.4, present=causal(50), index=5)
    found = hm.models.router_flips(layer, dtype="bfloat16")
    q = np.einsum("hrd,td->htr", w, x) + bias[:, None]
    keys = np.einsum("hrd,td->htr", v, x)
    scores = np.einsum("htr,sr->hts", q, keys[0]) * 0.4
    scores = np.where(causal(50), scores, -np.inf)
    np.testing.assert_array_equal(found.winners[:, 0], scores[:, 1:].argmax(axis=2).ravel())
    assert set(found.layer) == {5}
    gap = np.sort(scores[:, 1:], axis=2)
    np.testing.assert_allclose(found.margin, (gap[..., -1] - gap[..., -2]).ravel(), atol=1e-12)
    normals = 0.4 * np.einsum("hrd,sr->hsd", w, keys[0])
    i = 17
    h, t, j = found.head[i], found.position[i], found.winners[i, 0]
    walls = [
        (scores[h, t, j] - scores[h, t, l]) / np.linalg.norm(normals[h, j] - normals[h, l])
        for l in range(t + 1)
        if l != j
    ]
    assert found.distance[i] == pytest.approx(min(walls))
    assert found.distance_rounding[i] < 1e-12


def test_ties_and_copies_may_flip():
    x = np.array([[1.0, 2.0], [2.0, 1.0]])
    router = hm.models.RouterLayer(x, [[1.0, 0.0], [1.0, 0.0], [0.0, 0.5]])
    found = hm.models.router_flips(router)
    assert found.margin.tolist() == [0.0, 0.0]
    assert not found.cannot_flip.any()
    assert hm.models.router_flips(router, k=2).cannot_flip.tolist() == [False, True]


def test_winners_that_float64_cannot_tell_are_found_in_rationals():
    """1 + 2^-60 is no float, but a sum of products can be it; the last key is ahead by that."""
    tiny = 2.0**-60
    x = np.array([[1.0, 1.0, 1.0]])
    w = np.array([[1.0, tiny, -tiny], [1.0, 0.0, 0.0], [1.0, tiny, 0.0]])
    found = hm.models.router_flips(hm.models.RouterLayer(x, w))
    assert found.winners.tolist() == [[2]]
    assert found.margin.tolist() == [tiny]
    assert not found.cannot_flip[0]
    layer = hm.models.ProjectedAttention(np.vstack([w, x]), np.eye(3)[None], np.eye(3)[None], scale=0.1)
    found = hm.models.router_flips(layer, heads=[0])
    tied = found.position == 3  # (1, 1, 1) scores itself best
    assert found.winners[tied].tolist() == [[3]]
    captured = random_layer(0, n=4, heads=1, integers=True)
    found = hm.models.router_flips(captured)
    for i in range(4):
        q, keys = captured.queries[0, i], captured.keys[0]
        scores = [sum(Fraction(a) * Fraction(b) for a, b in zip(q, key, strict=True)) for key in keys]
        assert found.winners[i, 0] == scores.index(max(scores))


@pytest.mark.parametrize("size", [1e300, 1e39, 1e5, 1e-44, 1e-300, 2.0**-1074])
@pytest.mark.parametrize("name", NAMES)
def test_numbers_out_of_range_may_flip_and_nothing_breaks(name, size):
    x = np.array([[1.0, 0.0], [-1.0, 3.0]]) * size
    found = hm.models.router_flips(
        hm.models.RouterLayer(x, [[1.0, 2.0], [3.0, -1.0], [0.0, 1.0]]), dtype=name
    )
    form = FORMATS[name]
    if size > form.largest or size < form.smallest_normal * form.unit / 4:
        assert not found.cannot_flip.any()
    assert hm.models.router_flips(x, dtype=name).n_decisions == 2


def test_overflow_is_not_a_proof():
    router = hm.models.RouterLayer([[300.0, 0.0]], [[300.0, 0.0], [1.0, 0.0]])
    assert hm.models.router_flips(router, dtype="bfloat16").cannot_flip.all()
    found = hm.models.router_flips(router, dtype="float16")
    assert not found.cannot_flip.any()
    assert found.bound[0] == np.inf


def test_masked_logits_and_rows_without_a_choice():
    inf = np.inf
    found = hm.models.router_flips([[1.0, -inf, 5.0], [-inf, 2.0, -inf], [1.0, 1.0, -inf]])
    assert found.position.tolist() == [0, 2]
    assert found.cannot_flip.tolist() == [True, False]
    assert np.isnan(found.distance).all()


def test_a_source_is_read_layer_by_layer(tmp_path):
    layers = [random_layer(i, n=6, index=i) for i in range(3)]
    found = hm.models.router_flips(Layers(layers), dtype="float16", layers=[0, 2], heads=[1])
    assert found.layers == (0, 2)
    assert set(found.head) == {1}
    alone = hm.models.router_flips(layers[::2], dtype="float16", heads=[1])
    np.testing.assert_array_equal(found.lead, alone.lead)
    again = hm.load(found.save(tmp_path / "flips.npz"))
    np.testing.assert_array_equal(again.cannot_flip, found.cannot_flip)
    assert again.to_frame().share.tolist() == found.to_frame().share.tolist()
    axes = found.plot()
    assert len(axes.texts) == 2


def test_a_wall_that_does_not_exist_is_infinitely_far():
    router = hm.models.RouterLayer([[1.0]], [[2.0], [2.0]], [1.0, 0.0])
    found = hm.models.router_flips(router)
    assert found.distance.tolist() == [np.inf]
    assert found.cannot_flip.all()


@pytest.mark.parametrize(
    ("layer", "options", "sentence"),
    [
        ([[1.0, 2.0]], {"k": 2}, "k must be below the number of keys, 2, but was 2"),
        ([[1.0, 2.0]], {"k": 0}, "k must be a whole number of at least 1"),
        ([[1.0, 2.0]], {"dtype": "int8"}, "dtype must be one of"),
        ([[1.0, 2.0]], {"accumulate": "e4m3"}, "accumulate must be at least as precise as dtype"),
        ([[1.0, np.nan]], {}, "scores must be finite"),
        ([[1.0, 2.0]], {"layers": [0]}, "text and layers belong to a model"),
        ([[-np.inf, -np.inf]], {}, "leave every query a key"),
    ],
)
def test_wrong_wishes_get_one_sentence(layer, options, sentence):
    with pytest.raises(hm.errors.HardmaxError, match=sentence):
        hm.models.router_flips(layer, **options)


def test_wrong_layers_get_one_sentence():
    with pytest.raises(hm.errors.DimensionMismatchError, match="weights must have one column"):
        hm.models.RouterLayer([[1.0]], [[1.0, 2.0]])
    with pytest.raises(hm.errors.DimensionMismatchError, match="bias must hold 2 numbers"):
        hm.models.RouterLayer([[1.0]], [[1.0], [2.0]], [1.0])
    with pytest.raises(hm.errors.NotFiniteError, match="inputs must be finite"):
        hm.models.RouterLayer([[np.inf]], [[1.0], [2.0]])
    with pytest.raises(hm.errors.DimensionMismatchError, match="W_Q and W_K"):
        hm.models.ProjectedAttention(np.ones((2, 3)), np.ones((2, 2, 3)), np.ones((1, 4, 3)))
    with pytest.raises(hm.errors.InvalidInputError, match="scale must be a finite number above 0"):
        hm.models.ProjectedAttention(np.ones((2, 3)), np.ones((2, 2, 3)), np.ones((1, 2, 3)), scale=0.0)


# The command
# ----------------------------------------------------------------------------------------------------------


def test_the_command_reads_logits_and_the_bundled_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("router.npy", [[1.0, 0.999, -3.0], [0.25, 4.0, 4.5]])
    told = CliRunner().invoke(main, ["flips", "--logits", "router.npy", "--json"])
    assert told.exit_code == 0, told.output
    report = json.loads(told.stdout)
    assert report["cannot_flip"] == [False, True]
    assert report["share"] == 0.5
    shown = CliRunner().invoke(main, ["flips", "--dtype", "float8_e5m2", "--plot", "f.svg", "--out", "f.npz"])
    assert shown.exit_code == 0, shown.output
    assert "34 of 34 decisions cannot flip" in shown.stdout
    assert (tmp_path / "f.svg").stat().st_size > 1000
    again = CliRunner().invoke(main, ["flips", "--logits", "f.npz"])
    assert again.stdout == shown.stdout


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--logits", "none.npy"], "none.npy"),
        (["--dtype", "int4"], "dtype must be one of"),
        (["--text", "words"], "a text needs a MODEL"),
        (["--logits", "x.npy", "--heads", "0"], "--logits stands alone"),
    ],
)
def test_wrong_input_of_the_command(args, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(main, ["flips", *args])
    assert told.exit_code == 2
    assert sentence in told.stderr
    assert len(told.stderr.splitlines()) == 1
