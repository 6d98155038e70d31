"""The fused step against torch's automatic differentiation and AdamW; skipped where torch is missing."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import plain_transformer
from test_training import C4, PAIRS, SMALL, VARIANTS, batch, in_double, shapes

from hardmax.training.fused import FusedSteps
from hardmax.training.jobs import Job, TrainingSettings
from hardmax.training.layout import TransformerShape
from hardmax.training.loop import train

torch = pytest.importorskip("torch", reason="torch is not installed")

from hardmax.training.transformer import TorchSteps, Transformer  # noqa: E402


def by_torch(shape, vector, X, Y):
    model = Transformer(shape, vector)
    loss = ((model(torch.from_numpy(X)) - torch.from_numpy(Y)) ** 2).mean()
    loss.backward()
    return float(loss.detach()), model.vector(gradient=True)


@settings(max_examples=40, deadline=None)
@given(shapes(), st.integers(1, 40), st.integers(0, 99), st.booleans())
def test_gradients_agree_with_torch(shape, n, seed, norm):
    shape = replace(shape, layer_norm=norm)
    vector, (X, Y) = shape.initial(seed), batch(shape, n, seed)
    Y = Y + 3  # residuals of one sign: where they cancel, a gradient is nothing but rounding
    loss, found = FusedSteps(shape, vector).gradient(X, Y)
    wanted_loss, wanted = by_torch(shape, vector, X, Y)
    assert loss == pytest.approx(wanted_loss, rel=1e-5)
    assert np.linalg.norm(found - wanted) < 1e-5 * np.linalg.norm(wanted)


@pytest.mark.parametrize(
    "shape", [C4, replace(C4, n_tokens=64, activation="gelu"), *VARIANTS], ids=lambda s: str(s.n_parameters)
)
def test_twenty_steps_agree_with_torch(shape):
    X, Y = batch(shape, 200)
    order, rates = np.random.default_rng(0).integers(0, 200, 20 * 32), np.full(20, 1e-3)
    ways = [way(shape, shape.initial(0), batch=32) for way in (FusedSteps, TorchSteps)]
    losses = [way.run(X, Y, order, rates) for way in ways]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert np.abs(ways[0].parameters - ways[1].parameters).max() < 2e-5


@pytest.mark.parametrize("shape", VARIANTS, ids=lambda s: f"{s.activation}-{s.positions}-{s.depth}")
def test_the_module_is_the_transformer_of_the_paper(shape):
    vector, (X, _) = shape.initial(2), batch(shape, 3)
    model = Transformer(shape, vector)
    wanted = plain_transformer.output(shape, in_double(shape, vector), X)
    with torch.no_grad():
        assert model(torch.from_numpy(X)).numpy() == pytest.approx(wanted, abs=3e-6)
        tokens, cls = model.states(torch.from_numpy(X))[-1]
        last = model.layers[-1]
        again = last.out(model.activation(last.hidden(cls)))[:, 0]
    assert again.numpy() == pytest.approx(wanted, abs=3e-6)
    assert tokens.shape == (3, shape.n_tokens, shape.widths[-1])
    assert (model.vector() == vector).all()


def test_both_paths_train_alike():
    """The same start and the same batches: the first evaluations agree, later ones only in size."""
    job = replace(SMALL, settings=replace(SMALL.settings, n_samples=6400, evaluations=4))
    fused, plain = train(job), train(job, path="torch")
    assert fused.validation_nmse[:2] == pytest.approx(plain.validation_nmse[:2], rel=1e-3)
    assert fused.best == pytest.approx(plain.best, rel=0.2)
    assert plain.path == "torch"


def test_results_become_modules():
    result = train(Job(PAIRS, C4, TrainingSettings(1280, train_size=500, validation_size=100, evaluations=1)))
    X, _ = batch(C4, 5)
    with torch.no_grad():
        outputs = result.to_torch()(torch.from_numpy(X)).numpy()
    assert outputs * result.scale + result.mean == pytest.approx(result.predict(X), rel=1e-4, abs=1e-4)


def test_fused_training_needs_no_torch():
    """In a process in which torch cannot be imported, the fused path trains and the other names the extra."""
    code = """
import sys
sys.modules["torch"] = None
import hardmax.training as training
job = training.Job("max(t) x[t][0]", training.TransformerShape(3, 1, (2,), (1,), (2,)),
              training.TrainingSettings(256, train_size=128, validation_size=16, evaluations=1))
assert training.train(job).best < 100
try:
    training.train(job, path="torch")
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install torch" in run.stdout


def test_a_transformer_refuses_another_vector():
    with pytest.raises(ValueError, match="parameters of this shape"):
        Transformer(TransformerShape(3, 1, (2,), (1,), (2,)), np.zeros(3))
