"""The simulator of a cluster against closed forms."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="module")
def cluster():
    path = Path(__file__).resolve().parents[3] / "benchmarks" / "cluster.py"
    spec = importlib.util.spec_from_file_location("cluster", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["cluster"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["cluster"]


def equal_tasks(cluster, n, seconds=1.0):
    return cluster.Tree(np.full(n, seconds), [[] for _ in range(n)], list(range(n)))


def free(cluster, n, **options):
    """Workers whose messages cost nothing and hold one task."""
    costs = {"scheduler": 0.0, "client": 0.0, "latency": 0.0, "bundle": 1, "message": 100.0}
    return cluster.Cluster(n, **costs | options)


@pytest.mark.parametrize(("tasks", "n"), [(10, 1), (10, 4), (12, 4), (7, 100)])
def test_equal_tasks(cluster, tasks, n):
    run = cluster.simulate(equal_tasks(cluster, tasks), free(cluster, n))
    assert run.makespan == -(-tasks // n)
    assert run.busy == tasks / (n * run.makespan)
    assert run.messages == tasks


def test_a_slow_scheduler_is_the_limit(cluster):
    """A thousand workers that a scheduler serves one by one, half before the work and half after it."""
    run = cluster.simulate(equal_tasks(cluster, 5000), free(cluster, 1000, scheduler=0.01))
    assert 5000 * 0.01 <= run.makespan <= 5000 * 0.01 + 1.01
    assert run.scheduler_load == pytest.approx(1.0, abs=0.03)


def test_long_messages_come_back_unfinished(cluster):
    run = cluster.simulate(equal_tasks(cluster, 4, 2.5), free(cluster, 4, message=1.0))
    assert (run.makespan, run.messages) == (2.5, 12)


def test_a_chain_keeps_one_worker_busy(cluster):
    """Each task is cut into one other: nobody can help."""
    chain = replace(equal_tasks(cluster, 20), children=[[i + 1] for i in range(19)] + [[]], roots=[0])
    for alone in (False, True):
        run = cluster.simulate(chain, free(cluster, 8, alone=alone))
        assert run.makespan == 20
        assert run.messages == (20 if alone else 1)


def test_workers_share_the_pieces_when_the_message_is_over(cluster):
    """One task that is cut into eight: four workers have two each, after the first message came back."""
    star = replace(equal_tasks(cluster, 9), children=[list(range(1, 9)), *[[] for _ in range(8)]], roots=[0])
    run = cluster.simulate(star, free(cluster, 4, message=1.0))
    assert run.makespan == 1 + 2


def test_lost_work_is_repeated(cluster):
    tree = equal_tasks(cluster, 400)
    run = cluster.simulate(tree, free(cluster, 10, deaths=0.05, back=0.0), rng=1)
    assert run.repeated > 0
    assert run.makespan * 10 >= 400 + run.repeated
    assert run.busy < 1
