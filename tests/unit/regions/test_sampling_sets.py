"""Samples of networks whose heads choose sets of keys: the same signatures as the exact cells."""

from __future__ import annotations

import numpy as np
import pytest

import hardmax as hm
from hardmax.networks import MixtureOfExperts


def networks():
    rng = np.random.default_rng(0)
    scores, biases, outputs = rng.normal(size=(2, 5, 2)), rng.normal(size=(2, 5)), rng.normal(size=(2, 5, 2))
    layer = hm.FeedForward(rng.normal(size=(4, 2)), rng.normal(size=4), rng.normal(size=(2, 4)))
    experts = [
        hm.FeedForward(rng.normal(size=(3, 2)), rng.normal(size=3), rng.normal(size=(2, 3))) for _ in range(3)
    ]
    plain = hm.Attention(scores, biases, outputs)
    return {
        "top-k": hm.Network([hm.Attention(scores, biases, outputs, rule="top-k", k=2), layer]),
        "sparsemax": hm.Network([hm.Attention(scores, biases, outputs, rule="sparsemax", temperature=1)]),
        "experts": hm.Network([plain, MixtureOfExperts(rng.normal(size=(3, 2)), None, experts, k=2)]),
    }


@pytest.mark.parametrize("name", networks())
def test_signatures_seen_are_those_of_cells(name):
    network, box = networks()[name], hm.Box.cube(2, -2, 2)
    found = hm.enumerate_regions(network, box)
    seen = hm.estimate_cells(network, box, n_samples=30_000, rng=1, first_points=True)
    cells = found.locate(seen.first_points)
    assert (cells >= 0).all()
    assert len(set(cells.tolist())) == seen.n_signatures
    areas = np.array(found.volumes, dtype=float) / 16
    assert set(np.flatnonzero(areas > 1e-3).tolist()) <= set(cells.tolist())
    shares = seen.counts / seen.n_samples
    assert np.abs(shares - areas[cells]).max() < 5 * 0.5 / np.sqrt(30_000)


def test_threads_do_not_change_the_sample():
    network, box = networks()["experts"], hm.Box.cube(2, -2, 2)
    counts = [hm.estimate_cells(network, box, n_samples=200_000, n_jobs=n).counts for n in (1, 2)]
    assert (counts[0] == counts[1]).all()
