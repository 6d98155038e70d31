"""Training without torch: shapes, data, jobs, the fused step against plain numpy in double precision."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import plain_transformer

import hardmax as hm
from hardmax.errors import DimensionMismatchError, FileFormatError, InvalidInputError
from hardmax.training import fused_kernels
from hardmax.training.data import BLOCK, canonical, examples, nmse, outputs_of
from hardmax.training.fused import FusedSteps
from hardmax.training.fused_kernels import LANES, load, outer_tile, product_tile, store, sum_tile
from hardmax.training.jobs import NUMERICS, Job, TrainingSettings
from hardmax.training.layout import TransformerShape
from hardmax.training.loop import TrainingResult, predict, run_job, train
from hardmax.training.trained_models import TrainedModel, load_model

PAIRS = {"name": "pairwise", "D": 2, "d": 4, "seed": 0}
C4 = TransformerShape(15, 4, widths=(12, 12), heads=(2, 2), hidden=(32, 32), beta=1.0)

VARIANTS = [
    TransformerShape(5, 2, (6, 4), (2, 1), (5, 3)),
    TransformerShape(4, 1, (6,), (3,), (4,), 2, activation="gelu"),
    TransformerShape(4, 2, (6, 4), (2, 1), (5, 3), activation="relu"),
    TransformerShape(3, 2, (4, 6, 4), (1, 2, 2), (3, 4, 5), beta=(1.0, 0.5, 3.0)),
    TransformerShape(4, 2, (6, 5), (2, 1), (4, 4), positions="additive", encoder_hidden=3),
    TransformerShape(4, 2, (6, 4), (2, 2), (3, 3), positions="appended", d_position=2, activation="gelu"),
    TransformerShape(4, 2, (6,), (1,), (5,), 2, positions="additive", layer_norm=True, cls_position=True),
    TransformerShape(3, 1, (4, 5), (2, 1), (3, 4), positions="appended", layer_norm=True, cls_position=True),
]


def batch(shape: TransformerShape, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, shape.n_tokens, shape.d_token)).astype(np.float32)
    return X, rng.standard_normal((n, shape.n_outputs)).astype(np.float32)


def in_double(shape: TransformerShape, vector: np.ndarray) -> dict[str, np.ndarray]:
    return shape.split(vector.astype(np.float64))


def slope(shape: TransformerShape, vector: np.ndarray, X, Y, direction: np.ndarray) -> float:
    """The derivative of the plain loss along a direction, by central differences in double precision."""
    h = 1e-5
    up, down = (
        plain_transformer.loss(shape, shape.split(vector.astype(np.float64) + s * h * direction), X, Y)
        for s in (1, -1)
    )
    return (up - down) / (2 * h)


# The fused step
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", VARIANTS, ids=lambda s: f"{s.activation}-{s.positions}-{s.depth}")
def test_fused_gradient_is_the_slope_of_the_plain_loss(shape):
    vector, (X, Y) = shape.initial(1), batch(shape, 3)
    loss, found = FusedSteps(shape, vector).gradient(X, Y)
    assert loss == pytest.approx(plain_transformer.loss(shape, in_double(shape, vector), X, Y), rel=1e-5)
    rng = np.random.default_rng(0)
    for parameter in shape.parameters:  # one direction inside each array
        direction = np.zeros(shape.n_parameters)
        place = slice(parameter.offset, parameter.offset + parameter.size)
        direction[place] = rng.choice([-1.0, 1.0], parameter.size)
        wanted = slope(shape, vector, X, Y, direction)
        assert float(found @ direction) == pytest.approx(wanted, abs=1e-5 * float(np.linalg.norm(found)))


@st.composite
def shapes(draw, longest: int = 40) -> TransformerShape:
    depth = draw(st.integers(1, 3))
    heads = tuple(draw(st.lists(st.integers(1, 4), min_size=depth, max_size=depth)))
    widths = tuple(h * draw(st.integers(1, 7)) for h in heads)
    positions = draw(st.sampled_from([None, "additive", "appended"]))
    if positions == "appended" and widths[0] < 2:
        positions = "additive"
    return TransformerShape(
        draw(st.integers(1, longest)),
        draw(st.integers(1, 5)),
        widths,
        heads,
        tuple(draw(st.lists(st.integers(1, 19), min_size=depth, max_size=depth))),
        draw(st.integers(1, 3)),
        activation=draw(st.sampled_from(["tanh", "gelu", "relu"])),
        positions=positions,
        beta=draw(st.sampled_from([None, 1.0, 4.0])),
        encoder_hidden=draw(st.sampled_from([0, 3])),
    )


@settings(max_examples=20, deadline=None)
@given(shapes(longest=17), st.integers(1, 20), st.integers(0, 99))
def test_fused_outputs_and_slopes_for_random_shapes(shape, n, seed):
    vector, (X, Y) = shape.initial(seed), batch(shape, n, seed)
    few = min(n, 2)
    wanted = plain_transformer.output(shape, in_double(shape, vector), X[:few])
    assert predict(shape, vector, X)[:few] == pytest.approx(wanted, abs=3e-6 * (1 + np.abs(wanted).max()))
    _, found = FusedSteps(shape, vector).gradient(X[:few], Y[:few])
    direction = np.random.default_rng(seed).standard_normal(shape.n_parameters)
    wanted = slope(shape, vector, X[:few], Y[:few], direction)
    tolerance = float(1e-5 * np.linalg.norm(found) * np.linalg.norm(direction) + 1e-7)
    assert float(found @ direction) == pytest.approx(wanted, abs=tolerance)


@settings(max_examples=20, deadline=None)
@given(shapes(), st.integers(1, 20), st.integers(1, 20))
def test_a_gradient_is_the_mean_of_the_gradients_of_its_parts(shape, n, m):
    """Groups that are not full, and sequences beside each other, must not see each other."""
    X, Y = batch(shape, n + m)
    Y = Y + 3  # residuals of one sign: where they cancel, a gradient is nothing but rounding
    steps = FusedSteps(shape, shape.initial(0))
    whole, one, other = (
        steps.gradient(X[part], Y[part])[1] for part in (slice(None), slice(n), slice(n, None))
    )
    assert np.linalg.norm((n * one + m * other) / (n + m) - whole) < 1e-5 * np.linalg.norm(whole)


def test_adamw_makes_the_textbook_steps():
    """Twenty steps with clipping and decay, against AdamW in double precision on the fused gradients."""
    shape = TransformerShape(6, 3, (8, 6), (2, 3), (7, 5))
    X, Y = batch(shape, 48)
    order = np.random.default_rng(1).permutation(480) % 48
    rates, decay, clip = np.linspace(1e-2, 1e-3, 20), 1e-2, 0.5
    steps = FusedSteps(shape, shape.initial(3), batch=24, weight_decay=decay, clip=clip)
    steps.run(X, Y, order, rates)
    theta = shape.initial(3).astype(np.float64)
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for t, rate in enumerate(rates, start=1):
        rows = order[(t - 1) * 24 : t * 24]
        g = FusedSteps(shape, theta.astype(np.float32)).gradient(X[rows], Y[rows])[1].astype(np.float64)
        g *= min(1.0, clip / (np.linalg.norm(g) + 1e-6))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        theta -= rate * decay * theta
        theta -= rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    assert np.abs(steps.parameters - theta).max() < 2e-5


def test_steps_may_be_asked_for_in_any_portions():
    X, Y = batch(C4, 300)
    order, rates = np.arange(300 * 2) % 300, np.full(6, 1e-3)
    vectors = []
    for cuts in ((6,), (1, 5), (2, 2, 2)):
        steps, done = FusedSteps(C4, C4.initial(0), batch=100), 0
        for n in cuts:
            steps.run(X, Y, order[done * 100 : (done + n) * 100], rates[done : done + n])
            done += n
        vectors.append(steps.parameters)
    assert (vectors[0] == vectors[1]).all()
    assert (vectors[0] == vectors[2]).all()


def test_scores_of_any_size_neither_overflow_nor_underflow():
    shape = TransformerShape(9, 2, (6, 6), (2, 2), (4, 4), beta=1e4)
    vector, (X, Y) = shape.initial(0), batch(shape, 4)
    wanted = plain_transformer.output(shape, in_double(shape, vector), X)
    assert predict(shape, vector, X) == pytest.approx(wanted, abs=2e-3)  # scores of 1e4 in single precision
    assert np.isfinite(FusedSteps(shape, vector).gradient(X, Y)[1]).all()


def test_hard_heads_make_no_denormal_numbers():
    """On those a processor is thirty times slower, and training ends with hard heads."""
    shape = TransformerShape(64, 4, (12, 12), (2, 2), (32, 32), beta=1.0, activation="gelu")
    vector, (X, Y) = shape.initial(0), batch(shape, 16)
    for part in shape.parameters:
        if part.name.endswith((".query", ".key")):
            vector[part.offset : part.offset + part.size] *= 40
    steps = FusedSteps(shape, vector, batch=16)
    _, slopes = steps.gradient(X, Y)
    for numbers in (steps._ws, slopes):
        sizes = np.abs(numbers[numbers != 0])
        assert not (sizes < np.finfo(np.float32).tiny).any()


def test_what_does_not_fit_never_reaches_the_kernel():
    X, Y = batch(C4, 4)
    steps = FusedSteps(C4, C4.initial(0), batch=2)
    rate = np.full(2, 1e-3)
    for x, y, order in (
        (X[:, :9], Y, np.arange(4)),
        (X, Y[:3], np.arange(4)),
        (X, Y, np.arange(3)),
        (X, Y, np.arange(4) + 1),
        (X, Y, np.arange(4) - 1),
    ):
        with pytest.raises(DimensionMismatchError):
            steps.run(x, y, order, rate)
    with pytest.raises(DimensionMismatchError, match=r"X must have shape \(B, 15, 4\)"):
        predict(C4, C4.initial(0), X[:, :3])


# Vectors and tiles (compiled here without a cache, which would not notice edits of what is tested)
# ----------------------------------------------------------------------------------------------


@numba.njit
def elementary(values, out, which):
    for i in range(0, values.size, LANES):
        x = load(values, i)
        if which == 0:
            store(out, i, fused_kernels.exp2(x))
        elif which == 1:
            store(out, i, fused_kernels.tanh(x))
        else:
            store(out, i, fused_kernels.reciprocal(x))


@pytest.mark.parametrize(
    ("which", "exact", "low", "high", "absolute", "relative"),
    [
        (0, np.exp2, -64, 64, 0.0, 4e-7),
        (1, np.tanh, -40, 40, 2e-7, 0.0),
        (2, np.reciprocal, 1e-3, 1e9, 0.0, 3e-7),
    ],
)
def test_elementary_functions(which, exact, low, high, absolute, relative):
    values = np.linspace(low, high, 1 << 16).astype(np.float32)
    out = np.empty_like(values)
    elementary(values, out, which)
    wanted = exact(values.astype(np.float64))
    assert (np.abs(out - wanted) <= absolute + relative * np.abs(wanted)).all()


def tile_kernel(tile):
    @numba.njit
    def run(high, W, w, by_row, by_column, ws, x, x_step, inner, out, out_step, start, base):
        tile(high, W, w, by_row, by_column, ws, x, x_step, inner, out, out_step, start, base)

    return run


def test_a_product_tile_makes_its_rows_and_nothing_else():
    rng = np.random.default_rng(0)
    W, inner, rows, step = rng.standard_normal(40).astype(np.float32), 5, 3, 3 * LANES
    before = rng.standard_normal(20 * step).astype(np.float32)
    run = tile_kernel(product_tile((2, rows), 2))
    at, base = 10 * step, 15 * step
    for start in (fused_kernels.ZERO, fused_kernels.KEPT, fused_kernels.BIAS):
        ws = before.copy()
        run(
            rows, W, 2, 7, 1, ws, 0, step, inner, at, step, start, 30 if start == fused_kernels.BIAS else base
        )
        wanted = before.copy().reshape(-1, step)
        for i in range(rows):
            row = sum(W[2 + 7 * i + j] * wanted[j, : 2 * LANES] for j in range(inner))
            if start == fused_kernels.KEPT:
                row = row + wanted[15 + i, : 2 * LANES]
            elif start == fused_kernels.BIAS:
                row = row + W[30 + i]
            wanted[10 + i, : 2 * LANES] = row
        assert ws == pytest.approx(wanted.ravel(), abs=1e-5)


@numba.njit
def outer_and_sums(out, o, by_row, by_column, ws, y, x, step, n):
    TILE(out, o, by_row, by_column, ws, y, step, x, step, n)
    SUMS(out, 100, ws, y, step, n)


TILE, SUMS = outer_tile(2, 4), sum_tile(8)


@pytest.mark.parametrize("by_column", [1, 3])
def test_an_outer_tile_adds_sums_where_they_belong(by_column):
    rng = np.random.default_rng(0)
    n, step = 3 * LANES, 4 * LANES
    rows = rng.standard_normal((16, step)).astype(np.float32)
    out = np.ones(128, dtype=np.float32)
    outer_and_sums(out, 1, 20, by_column, rows.ravel(), 0, 8 * step, step, n)
    wanted = np.ones(128)
    for i in range(2):
        for j in range(4):
            wanted[1 + 20 * i + by_column * j] += rows[i, :n] @ rows[8 + j, :n]
    wanted[100:108] += rows[:8, :n].sum(axis=1)
    assert out == pytest.approx(wanted, abs=2e-5)


# Shapes
# ---------------------------------------------------------------------------------------------------------


def test_the_parameters_of_appendix_c4():
    """(D, D) heads: encoder, CLS, four matrices a layer, two blocks; counted by hand."""
    for D in (2, 3, 6):
        E, w = 6 * D, 16 * D
        shape = TransformerShape(64, 4, (E, E), (D, D), (w, w))
        attention = 2 * 4 * E * E
        blocks = (w * E + w + E * w + E) + (w * E + w + w + 1)
        assert shape.n_parameters == 4 * E + E + E + attention + blocks


@given(shapes(), st.integers(0, 9))
def test_vectors_split_and_join(shape, seed):
    vector = shape.initial(seed)
    assert (shape.join(shape.split(vector)) == vector).all()
    assert TransformerShape.from_json(json.loads(canonical(shape.to_json()))) == shape
    assert (vector == shape.initial(seed)).all()
    for parameter in shape.parameters:
        part = shape.split(vector)[parameter.name]
        if parameter.fan_in:
            assert np.abs(part).max() <= 1 / math.sqrt(parameter.fan_in) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": (5, 2)}, "5 heads do not divide the width 12 of layer 0; try 15"),
        ({"heads": (2,)}, "one entry for each layer"),
        ({"widths": (0, 12)}, "widths must be a whole number, 1 or more"),
        ({"n_tokens": 0}, "n_tokens must be a whole number"),
        ({"activation": "silu"}, "activation must be one of 'tanh', 'gelu', 'relu', but was 'silu'"),
        ({"positions": "rotary"}, "positions must be None"),
        ({"beta": 0.0}, "beta must be positive"),
        ({"beta": (1.0,)}, "beta must be one number or one for each of 2 layers"),
        ({"cls_position": True}, "cls_position needs positions"),
        ({"positions": "appended", "d_position": 12}, "d_position must be between 1 and 11"),
    ],
)
def test_shapes_that_cannot_be(change, message):
    with pytest.raises(InvalidInputError, match=message):
        replace(C4, **change)


def test_foreign_and_missing_parameters_are_refused():
    arrays = C4.split(C4.initial(0))
    with pytest.raises(DimensionMismatchError, match="unknown 'stranger'"):
        C4.join({**arrays, "stranger": np.zeros(1)})
    with pytest.raises(DimensionMismatchError, match="lacks 'cls'"):
        C4.join({name: array for name, array in arrays.items() if name != "cls"})
    with pytest.raises(DimensionMismatchError, match=r"cls must have shape \(12,\)"):
        C4.join({**arrays, "cls": np.zeros(3)})
    with pytest.raises(DimensionMismatchError, match="parameters of this shape"):
        C4.split(np.zeros(5))


# Data
# -----------------------------------------------------------------------------------------------------------


def test_values_are_those_of_the_target():
    made = examples(PAIRS, 7, 50, seed=3)
    assert made.Y[:, 0] == pytest.approx(outputs_of(PAIRS)[0](made.X), rel=1e-6)
    three = examples({"name": "positions", "positions": [0, 1, 2], "d": 2}, 10, 20)
    assert pytest.approx(three.X[:, :3].sum(axis=1), abs=1e-6) == three.Y


def test_data_is_the_same_for_any_number_of_jobs_and_from_the_cache(tmp_path):
    n = BLOCK + 10
    alone = examples(PAIRS, 3, n, seed=1)
    shared = examples(PAIRS, 3, n, seed=1, n_jobs=2, cache=tmp_path)
    kept = examples(PAIRS, 3, n, seed=1, cache=tmp_path)
    for other in (shared, kept):
        assert (other.X == alone.X).all()
        assert (other.Y == alone.Y).all()
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:1000])  # a damaged file is made again
    assert (examples(PAIRS, 3, n, seed=1, cache=tmp_path).X == alone.X).all()
    assert (examples(PAIRS, 3, n, seed=1, stream=1).X != alone.X).any()
    assert (examples(PAIRS, 3, n, seed=2).X != alone.X).any()


def test_tokens_of_appendix_c5():
    """N(0, 2 I), norms between 0.2 and 4."""
    triangle = {
        "name": "triangle_center",
        "domain": "gaussian",
        "inputs": {"scale": math.sqrt(2), "min_norm": 0.2, "max_norm": 4.0},
    }
    X = examples(triangle, 4, 5000).X
    norms = np.linalg.norm(X, axis=2)
    assert norms.min() == pytest.approx(0.2, abs=1e-6)
    assert norms.max() == pytest.approx(4.0, abs=1e-6)
    # the radius is Rayleigh distributed: P(norm <= r) = 1 - exp(-r^2 / 4)
    for r in (0.5, 1.0, 2.0, 3.0):
        assert (norms <= r).mean() == pytest.approx(1 - math.exp(-r * r / 4), abs=0.02)


def test_nmse_of_a_constant_is_one():
    Y = np.random.default_rng(0).standard_normal((100, 2))
    assert nmse(np.broadcast_to(Y.mean(axis=0), Y.shape), Y) == pytest.approx(1.0)
    assert nmse(Y, Y) == 0.0
    with pytest.raises(DimensionMismatchError):
        nmse(Y[:, 0], Y)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"name": "wavelets"}, "name is one of"),
        ({"name": "pairwise", "D": 2}, "needs 'd'"),
        ({"name": "pairwise", "D": 2, "d": 4, "T": 3}, "no setting 'T'"),
        ({"name": "kth_largest", "k": 0}, "k must be"),
        ("max(t x[t][0]", "column 7"),
    ],
)
def test_targets_that_cannot_be(target, message):
    with pytest.raises(InvalidInputError, match=message):
        outputs_of(target)


# Jobs
# -----------------------------------------------------------------------------------------------------------


def test_a_key_names_the_job():
    job = Job(PAIRS, C4, TrainingSettings(10_000))
    again = Job.from_json(job.to_json())
    assert again == job
    assert again.key == job.key
    others = [
        replace(job, seed=1),
        replace(job, shape=replace(C4, activation="gelu")),
        replace(job, settings=replace(job.settings, learning_rate=2e-3)),
        replace(job, target={**PAIRS, "seed": 1}),
    ]
    assert len({job.key, *(other.key for other in others)}) == 5
    assert NUMERICS >= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_samples": -1}, "n_samples must be a whole number"),
        ({"n_samples": 10}, "at least one batch of 128"),
        ({"learning_rate": 0.0}, "learning_rate must be a positive number"),
        ({"learning_rate": math.nan}, "learning_rate must be a positive number"),
        ({"warmup": 1.0}, "warmup must be a share"),
        ({"schedule": "linear"}, "schedule must be one of"),
        ({"checkpoints": (20_000,)}, "checkpoints must lie between 0 and n_samples"),
        ({"batch": 0}, "batch must be a whole number"),
        ({"n_samples": math.inf}, "n_samples must be a whole number, 1 or more, but was inf"),
        ({"train_size": None}, "train_size must be a whole number"),
        ({"data_seed": -1}, "data_seed must be a whole number, 0 or more"),
    ],
)
def test_settings_that_cannot_be(change, message):
    with pytest.raises(InvalidInputError, match=message):
        replace(TrainingSettings(10_000), **change)


def test_negative_epochs_are_refused():
    with pytest.raises(InvalidInputError, match="epochs must be positive, but was -3"):
        TrainingSettings.of_epochs(-3)
    with pytest.raises(InvalidInputError, match="epochs must be positive, but was -3"):
        TrainingSettings.from_json({"epochs": -3})


def test_jobs_may_speak_of_epochs():
    assert TrainingSettings.from_json({"epochs": 2, "train_size": 500}) == TrainingSettings(
        1000, train_size=500
    )
    for plain, message in (
        ({"epochs": 2, "n_samples": 1000}, "n_samples or epochs, but have both"),
        ({}, "n_samples or epochs, but have neither"),
        ({"epochs": "many"}, "epochs must be positive, but was many"),
        ({"epoch": 2}, "no setting 'epoch'; it has n_samples"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            TrainingSettings.from_json(plain)


def test_jobs_that_do_not_fit_together():
    with pytest.raises(DimensionMismatchError, match="tokens of dimension 4 and 1 outputs"):
        Job(PAIRS, replace(C4, d_token=3), TrainingSettings(10_000))
    with pytest.raises(InvalidInputError, match="n_tokens must be at least 20"):
        Job(
            {"name": "positions", "positions": [19], "d": 4}, replace(C4, n_outputs=4), TrainingSettings(1000)
        )
    with pytest.raises(InvalidInputError, match="seed"):
        Job(PAIRS, C4, TrainingSettings(1000), seed=-1)
    with pytest.raises(InvalidInputError, match="'seed' is missing"):
        Job.from_json({"target": PAIRS, "shape": C4.to_json(), "settings": TrainingSettings(1000).to_json()})


def test_schedules():
    cosine = TrainingSettings(100_000, batch=100, learning_rate=2.0, warmup=0.1).rates()
    assert len(cosine) == 1000
    assert cosine[:100] == pytest.approx(2.0 * np.arange(1, 101) / 100)
    assert cosine[100:] == pytest.approx(1.0 + np.cos(np.pi * np.arange(900) / 900))
    two = TrainingSettings(
        1000, batch=1, learning_rate=1e-3, warmup=0.0, schedule="cosine then constant", second_rate=1e-4
    )
    assert two.rates()[500:] == pytest.approx(np.full(500, 1e-4))
    assert two.rates()[499] < 1e-7


# Training
# -------------------------------------------------------------------------------------------------------

SHORT = TrainingSettings(
    40_000,
    batch=64,
    learning_rate=1e-2,
    train_size=4000,
    validation_size=500,
    evaluations=4,
    checkpoints=(0, 1000),
)
SMALL = Job("max(t) x[t][0]", TransformerShape(6, 1, (4, 4), (1, 1), (8, 8), beta=1.0), SHORT)


@pytest.fixture(scope="module")
def trained() -> TrainingResult:
    return train(SMALL)


def test_training_learns(trained):
    assert trained.samples.tolist() == [0, 10048, 20032, 30016, 40000]
    assert trained.best < 0.01 < 0.5 < trained.validation_nmse[0]
    assert trained.best <= trained.final
    assert not trained.diverged
    assert not trained.stuck
    X = np.random.default_rng(5).uniform(-1, 1, (2000, 6, 1)).astype(np.float32)
    assert nmse(trained.predict(X), X.max(axis=1)) < 0.02


def test_a_job_gives_the_same_numbers_again(trained):
    again = train(SMALL)
    assert (again.parameters == trained.parameters).all()
    assert (again.validation_nmse == trained.validation_nmse).all()
    assert (train(replace(SMALL, seed=1)).parameters != trained.parameters).any()


def test_checkpoints_are_on_the_way(trained):
    assert trained.checkpoint_samples.tolist() == [0, 1024]
    start = SMALL.shape.initial(np.random.default_rng((0, 0)))
    assert (trained.checkpoint_parameters[0] == start).all()
    assert (trained.checkpoint_parameters[1] != start).any()


def test_a_result_survives_its_file(trained, tmp_path):
    again = hm.load(trained.save(tmp_path / "run.npz"))
    assert isinstance(again, TrainingResult)
    assert again.job == trained.job
    assert (again.best_parameters == trained.best_parameters).all()
    assert (again.best, again.final, again.stuck) == (trained.best, trained.final, trained.stuck)
    assert again.path == "fused"


def test_run_job_takes_text_and_gives_bytes(trained, tmp_path):
    path = tmp_path / "result.npz"
    path.write_bytes(run_job(SMALL.to_json()))
    assert (hm.load(path).parameters == trained.parameters).all()


def test_divergence_is_reported():
    wild = replace(SMALL, settings=replace(SHORT, learning_rate=1e6, clip=0.0, warmup=0.0))
    result = train(wild)
    assert result.diverged
    assert result.final == math.inf
    assert result.samples[-1] <= SHORT.n_samples


def test_a_run_that_learns_nothing_is_stuck():
    """One token of six is seen by no maximum: a rate too small to move."""
    result = train(replace(SMALL, settings=replace(SHORT, learning_rate=1e-9)))
    assert result.stuck
    assert not result.diverged


def test_fresh_data_and_progress():
    seen = []
    job = replace(SMALL, settings=replace(SHORT, fresh=True, train_size=2000))
    result = train(job, progress=lambda samples, value: seen.append((samples, value)))
    assert result.best < 0.02
    assert seen[-1][0] == 40_000 - 40_000 % 64
    assert [s for s, _ in seen] == sorted(s for s, _ in seen)


def test_a_batch_may_exceed_the_training_set():
    result = train(replace(SMALL, settings=replace(SHORT, train_size=50, batch=128)))
    assert len(result.samples) == 5


def test_unknown_path():
    with pytest.raises(InvalidInputError, match="path must be 'fused' or 'torch'"):
        train(SMALL, path="jax")


# Files of models
# ------------------------------------------------------------------------------------------------


def test_models_survive_their_file(trained, tmp_path):
    model = TrainedModel.of(trained)
    again = load_model(model.save(tmp_path / "model.safetensors"))
    X = np.random.default_rng(0).uniform(-1, 1, (20, 6, 1)).astype(np.float32)
    assert (again(X) == trained.predict(X)).all()
    assert again.about["best_validation_nmse"] == trained.best
    assert Job.from_json(again.about["job"]) == trained.job


def rewritten(path, **words):
    """The file with other words in its header."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] |= words
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(b""), "truncated or damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "truncated or damaged"),
        (lambda path: path.write_bytes(b"\xff" * 100), "truncated or damaged"),
        (lambda path: rewritten(path, schema="99", hardmax="9.9"), "newer hardmax 9.9"),
        (lambda path: rewritten(path, format="pt"), "not one of a hardmax transformer"),
        (lambda path: rewritten(path, shape=canonical(C4.to_json())), "must have shape"),
        (
            lambda path: rewritten(
                path, shape=canonical(replace(SMALL.shape, positions="additive").to_json())
            ),
            "lacks 'positions'",
        ),
    ],
)
def test_files_that_are_not_models(spoil, message, tmp_path):
    path = tmp_path / "model.safetensors"
    TrainedModel(SMALL.shape, SMALL.shape.initial(0)).save(path)
    spoil(path)
    with pytest.raises(FileFormatError, match=message):
        load_model(path)


def test_a_file_with_foreign_tensors_is_refused(tmp_path):
    from hardmax.training.trained_models import _packed

    path = tmp_path / "model.safetensors"
    shape = SMALL.shape
    words = {
        "format": "hardmax transformer",
        "schema": "1",
        "shape": canonical(shape.to_json()),
        "about": "{}",
    }
    tensors = {**shape.split(shape.initial(0)), "output.mean": np.zeros(1), "output.scale": np.ones(1)}
    path.write_bytes(_packed({**tensors, "lm_head.weight": np.zeros((2, 2))}, words))
    with pytest.raises(FileFormatError, match=r"unknown 'lm_head\.weight'"):
        load_model(path)


def test_other_programs_can_read_the_file(trained, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    path = TrainedModel.of(trained).save(tmp_path / "model.safetensors")
    tensors = safetensors.load_file(path)
    assert (
        SMALL.shape.join({k: v for k, v in tensors.items() if not k.startswith("output.")})
        == trained.best_parameters
    ).all()
