"""
A model with softmax and GELU
=============================

The bundled model is not piecewise linear. Between two inputs the places where a head changes its winner are
enclosed with proof: each line is an interval that is narrower than the line and holds exactly one change.
"""

import numpy as np

import hardmax as hm
from hardmax.training.trained_models import bundled_model

model = bundled_model()
start, end = (model.with_cls(x) for x in np.random.default_rng(0).uniform(-1, 1, size=(2, 15, 4)))
trace = hm.trace_segment(model.to_transformer(rule="softmax"), start, end)
print(trace)

axes = trace.plot()
