"""
Heads during a training
=======================

A small transformer learns the maximum of a bilinear form, in about two seconds. The error falls, margins
grow and more queries become hard. At the end the classification token knows what it needs on almost all
inputs.
"""

import numpy as np

import hardmax as hm

shape = hm.training.TransformerShape(8, 2, widths=(8, 8), heads=(2, 2), hidden=(16, 16), beta=1.0)
marks = tuple(int(n) for n in np.linspace(0, 300_000, 11))
settings = hm.training.TrainingSettings(300_000, learning_rate=1e-2, train_size=20_000, checkpoints=marks)
result = hm.training.train(
    hm.training.Job({"name": "pairwise", "D": 1, "d": 2, "seed": 0}, shape, settings, seed=0)
)
found = hm.along_training(result)
axes = found.plot()
