r"""The small transformers of P2's experiments: train them fast, keep every run.

A :class:`Job` names a target, a shape, settings and a seed; :func:`train` runs it and returns the trained
vector with its history. Only :mod:`hardmax.training.transformer`, the model as a readable module, and the
plain loop ``train(job, path="torch")`` need torch.

Examples
--------
>>> import hardmax as hm
>>> shape = hm.training.TransformerShape(3, 1, widths=(4,), heads=(1,), hidden=(8,), beta=1.0)
>>> settings = hm.training.TrainingSettings(6400, batch=64, learning_rate=1e-2, train_size=1000)
>>> result = hm.training.train(hm.training.Job("max(t) x[t][0]", shape, settings))
>>> result.diverged, result.best < 0.5
(False, True)
"""

from __future__ import annotations

from hardmax.training.data import examples, nmse, outputs_of
from hardmax.training.jobs import NUMERICS, Job, TrainingSettings
from hardmax.training.layout import Parameter, TransformerShape
from hardmax.training.loop import TrainingResult, predict, run_job, train
from hardmax.training.trained_models import TrainedModel, load_model

__all__ = [
    "NUMERICS",
    "Job",
    "Parameter",
    "TrainedModel",
    "TrainingResult",
    "TrainingSettings",
    "TransformerShape",
    "examples",
    "load_model",
    "nmse",
    "outputs_of",
    "predict",
    "run_job",
    "train",
]
