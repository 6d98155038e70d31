"""Trained models as transformers of blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hardmax as hm
from hardmax.training.data import outputs_of
from hardmax.training.layout import TransformerShape
from hardmax.training.states import run_states
from hardmax.training.trained_models import TrainedModel, bundled_model

PLAIN = TransformerShape(5, 2, (6, 4), (2, 1), (5, 3), activation="relu", beta=(0.5, 2.0))
SHAPES = [
    PLAIN,
    replace(PLAIN, positions="additive", cls_position=True),
    replace(PLAIN, positions="appended", d_position=2),
    replace(PLAIN, positions="appended", d_position=None, cls_position=True, encoder_hidden=3, n_outputs=2),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.positions}-{s.encoder_hidden}")
def test_values_are_those_of_the_model(shape):
    n = shape.n_outputs
    model = TrainedModel(shape, shape.initial(1), mean=np.arange(n), scale=np.arange(1, n + 1))
    X = np.random.default_rng(0).standard_normal((3, 5, 2))
    _, outputs = run_states(shape, model.vector, X)
    soft = model.to_transformer(rule="softmax")(model.with_cls(X))
    assert soft.shape == (3, 1, n)
    assert np.abs(soft[:, 0] - (outputs * model.scale + model.mean)).max() < 1e-12


@pytest.mark.parametrize(("name", "n_tokens"), [("pairwise-2-relu", 15), ("pairwise-2-relu-64", 64)])
def test_the_bundled_relu_models_learned_their_target_and_can_be_followed(name, n_tokens):
    model = bundled_model(name)
    assert (model.shape.n_tokens, model.shape.activation, model.shape.layer_norm) == (n_tokens, "relu", False)
    (target,) = outputs_of(model.about["job"]["target"])
    X = target.sample(500, n_tokens, rng=5)
    assert ((model(X)[:, 0] - target(X)) ** 2).mean() < 0.03 * target(X).var()
    transformer = model.to_transformer()
    start, end = model.with_cls(X[0]), model.with_cls(X[1])
    trace = hm.trace_segment(transformer, start, end, max_pieces=100)
    assert trace.n_pieces == 100
    for i in range(0, 100, 9):
        s = trace.breakpoints[i - 1 : i + 1].mean() if i else 0.5 * trace.breakpoints[0]
        offset, slope = trace.affine(i)
        assert np.allclose(offset + s * slope, transformer(trace.point(s)), atol=1e-9)


def test_a_model_with_smooth_units_is_not_piecewise_affine():
    assert not bundled_model().to_transformer().piecewise_affine
