"""Limits, progress, Ctrl-C, checkpoints and bad input of the exact enumeration."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import pytest
from oracles.judging_regions import signatures_of

import hardmax as hm
from hardmax.errors import (
    DimensionMismatchError,
    EmptyDomainError,
    FileFormatError,
    InvalidInputError,
    NotFiniteError,
)

SQUARE = hm.Box.cube(2, -4, 4)
NETWORK = hm.Network.random(2, n_tokens=20, heads=2, depth=3, d_ff=24, rng=1)
DEGENERATE = hm.Network(  # integer weights: many decisions are left to rationals
    [
        hm.Attention(
            np.random.default_rng(0).integers(-2, 3, (2, 12, 2)),
            None,
            np.random.default_rng(1).integers(-2, 3, (2, 12, 2)),
        ),
        hm.FeedForward(
            np.random.default_rng(2).integers(-2, 3, (24, 2)),
            np.random.default_rng(3).integers(-2, 3, 24),
            np.random.default_rng(4).integers(-1, 2, (2, 24)),
            None,
        ),
        hm.FeedForward(
            np.random.default_rng(5).integers(-1, 2, (24, 2)),
            np.random.default_rng(6).integers(-2, 3, 24),
            np.ones((1, 24)),
            None,
        ),
    ]
)


def same(one, other) -> bool:
    """Whether two results hold the same numbers, bit by bit."""
    names = ("routings", "bits", "tied", "vx", "vy", "vr", "wall", "witnesses", "margins")
    arrays = all(np.array_equal(getattr(one.cells, name), getattr(other.cells, name)) for name in names)
    arrays = arrays and np.array_equal(one.cells.facets.offsets, other.cells.facets.offsets)
    return arrays and (one.complete, one.coverage) == (other.complete, other.coverage)


@pytest.fixture(scope="module")
def whole():
    return hm.enumerate_regions(NETWORK, SQUARE)


# Limits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 2, 100, 1000])
def test_a_limit_on_cells(whole, most):
    found = hm.enumerate_regions(NETWORK, SQUARE, max_cells=most)
    assert found.n_cells == most
    assert not found.complete
    assert found.exact
    assert 0 < found.coverage < 1
    assert signatures_of(found) == signatures_of(whole)[:most]  # the first in the order of the whole
    assert "INCOMPLETE" in repr(found)
    count = hm.count_cells(NETWORK, SQUARE, max_cells=most)
    assert (count.n_cells, count.complete) == (most, False)


def test_a_limit_that_is_not_reached_changes_nothing(whole):
    assert same(hm.enumerate_regions(NETWORK, SQUARE, max_cells=10**7, time_limit=1000), whole)


def test_a_limit_on_time():
    begin = time.monotonic()
    count = hm.count_cells(hm.Network.random_mlp([2, 3000, 1], 0), SQUARE, time_limit=0.2)
    assert not count.complete
    assert 0 < count.n_cells < 3_800_000
    assert time.monotonic() - begin < 20  # compiling included


def test_progress_is_told(whole):
    told = []
    hm.enumerate_regions(NETWORK, SQUARE, progress=told.append)
    assert told[-1].n_cells == whole.n_cells
    assert all(a.n_cells <= b.n_cells and a.seconds <= b.seconds for a, b in pairwise(told))
    assert abs(told[-1].share - 1) < 1e-9
    hm.count_cells(NETWORK, hm.WholeSpace(2), progress=told.append)
    assert told[-1].share is None


# Checkpoints ------------------------------------------------------------------------------------


@pytest.mark.parametrize("arithmetic", ["certified", "exact"])
@pytest.mark.parametrize("domain", [SQUARE, hm.WholeSpace(2)], ids=["square", "plane"])
def test_stopped_and_resumed_again_and_again(tmp_path, domain, arithmetic):
    """However often an enumeration is stopped, its result is the one that was never stopped."""
    network = DEGENERATE
    straight = hm.enumerate_regions(network, domain, arithmetic=arithmetic)
    path = tmp_path / "half.npz"
    for most in (1, 2, 50, 51, 400):
        found = hm.enumerate_regions(network, domain, arithmetic=arithmetic, max_cells=most, checkpoint=path)
        assert (found.n_cells, found.complete) == (most, False)
        assert path.exists()
    resumed = hm.enumerate_regions(network, domain, arithmetic=arithmetic, checkpoint=path)
    assert same(resumed, straight)
    assert resumed.region_of_cell.tolist() == straight.region_of_cell.tolist()
    assert not path.exists()  # nothing is left to resume


def test_a_count_is_resumed_too(tmp_path, whole):
    path = tmp_path / "count.npz"
    assert not hm.count_cells(NETWORK, SQUARE, max_cells=500, checkpoint=path).complete
    count = hm.count_cells(NETWORK, SQUARE, checkpoint=path)
    straight = hm.count_cells(NETWORK, SQUARE)
    assert (count.n_cells, count.complete) == (whole.n_cells, True)
    assert count.cells_by_depth == straight.cells_by_depth
    assert count.coverage == straight.coverage


def test_a_time_limit_leaves_a_checkpoint(tmp_path):
    network, path = hm.Network.random_mlp([2, 2000, 1], 0), tmp_path / "count.npz"
    rounds = 0
    while True:
        count = hm.count_cells(network, SQUARE, time_limit=0.1, checkpoint=path)
        rounds += 1
        if count.complete:
            break
    assert rounds > 1
    assert count.n_cells == 1705129


def test_interrupted_in_the_middle_and_resumed(tmp_path, whole):
    path = tmp_path / "half.npz"

    def interrupt(progress):
        if progress.n_cells > 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hm.enumerate_regions(NETWORK, SQUARE, checkpoint=path, progress=interrupt)
    assert path.exists()
    assert same(hm.enumerate_regions(NETWORK, SQUARE, checkpoint=path), whole)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals are sent differently there")
def test_ctrl_c_in_a_real_process(tmp_path):
    """Ctrl-C at two moments of a checkpointed run: nothing is lost or counted twice."""
    program = (
        "import sys, time, hardmax as hm\n"
        "def wait(progress):\n"
        "    if progress.n_cells > int(sys.argv[1]):\n"
        "        print('under way', flush=True)\n"
        "        time.sleep(60)\n"
        "net, square = hm.Network.random_mlp([2, 256, 256, 256, 1], 0), hm.Box.cube(2, -4, 4)\n"
        "found = hm.enumerate_regions(net, square, checkpoint='half.npz', progress=wait)\n"
        "print(found.n_cells, found.complete, flush=True)\n"
    )
    for cells in (100, 50_000, 1_000_000):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(cells)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            # a test run in the background of a shell inherits that Ctrl-C is ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        if cells < 1_000_000:
            assert process.stdout.readline() == "under way\n"
            process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=240)
        assert ("KeyboardInterrupt" in errors) == (tmp_path / "half.npz").exists() == (cells < 1_000_000)
    assert output.split() == ["223579", "True"]


def test_the_checkpoint_of_another_question_is_refused(tmp_path):
    path = tmp_path / "half.npz"
    hm.enumerate_regions(NETWORK, SQUARE, max_cells=10, checkpoint=path)
    other = hm.Network.random(2, n_tokens=20, heads=2, depth=3, d_ff=24, rng=2)
    for network, domain, options in (
        (other, SQUARE, {}),
        (NETWORK, hm.Box.cube(2, -4, 5), {}),
        (NETWORK, SQUARE, {"arithmetic": "exact"}),
        (NETWORK, SQUARE, {"sliver": 1e-3}),
    ):
        with pytest.raises(FileFormatError, match="belongs to another network, domain or option"):
            hm.enumerate_regions(network, domain, checkpoint=path, **options)
    with pytest.raises(FileFormatError, match="another"):
        hm.count_cells(NETWORK, SQUARE, checkpoint=path)
    assert path.exists()


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "network", "bits"])
def test_a_damaged_checkpoint_is_refused(tmp_path, damage):
    path = tmp_path / "half.npz"
    hm.enumerate_regions(NETWORK, SQUARE, max_cells=300, checkpoint=path)
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "text":
        path.write_text("no checkpoint")
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "network":
        NETWORK.save(path)
    else:
        middle = len(data) // 2
        path.write_bytes(
            data[:middle] + bytes(b ^ 0xFF for b in data[middle : middle + 64]) + data[middle + 64 :]
        )
    with pytest.raises(FileFormatError):
        hm.enumerate_regions(NETWORK, SQUARE, checkpoint=path)


def test_a_folder_that_does_not_exist_is_named_before_the_work(tmp_path):
    with pytest.raises((InvalidInputError, OSError), match="nowhere"):
        hm.enumerate_regions(NETWORK, SQUARE, max_cells=10, checkpoint=tmp_path / "nowhere" / "half.npz")


# Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "error", "sentence"),
    [
        (hm.Polytope([[1, 0], [-1, 0]], [0, -1]), EmptyDomainError, "domain must have interior"),
        (hm.Polytope([[1, 0], [-1, 0]], [1, -1]), EmptyDomainError, "domain must have interior"),
        (hm.Polytope([[1, 0], [-1, 0], [0, 1], [0, -1]], [1, 1, 0, 0]), EmptyDomainError, "interior"),
        (hm.Polytope([[0, 0], [1, 0]], [-1, 1]), EmptyDomainError, "interior"),
        (hm.Box.cube(3, -1, 1), DimensionMismatchError, "dimension of the network's input, 2, but has 3"),
        (hm.WholeSpace(1), DimensionMismatchError, "dimension of the network's input, 2, but has 1"),
        ("square", InvalidInputError, "domain must be a Box, Polytope or WholeSpace, but was str"),
        ((-4, 4), InvalidInputError, "domain must be a Box, Polytope or WholeSpace, but was tuple"),
    ],
)
def test_bad_domains(domain, error, sentence):
    for ask in (hm.enumerate_regions, hm.count_cells, hm.count_regions):
        with pytest.raises(error, match=sentence):
            ask(NETWORK, domain)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"arithmetic": "rational"}, "arithmetic must be one of certified, exact, float, but was 'rational'"),
        ({"max_cells": 0}, "max_cells must be at least 1, but was 0"),
        ({"max_cells": -5}, "max_cells must be at least 1, but was -5"),
        ({"time_limit": 0}, "time_limit must be a positive number of seconds, but was 0"),
        ({"time_limit": -1.0}, "time_limit must be a positive number"),
        ({"time_limit": float("nan")}, "time_limit must be a positive number of seconds, but was nan"),
        ({"sliver": -1e-9}, "sliver must be zero or positive"),
        ({"sliver": float("nan")}, "sliver must be zero or positive, but was nan"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
    ],
)
def test_bad_options(options, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        hm.enumerate_regions(NETWORK, SQUARE, **options)
    with pytest.raises(InvalidInputError, match=sentence):
        hm.count_cells(NETWORK, SQUARE, **options)


def test_bad_networks():
    with pytest.raises(InvalidInputError, match=r"network must be a Network, .* but was FeedForward"):
        hm.count_cells(hm.FeedForward([[1, 0]], [0], [[1]], [0]), SQUARE)
    with pytest.raises(NotFiniteError, match="w_in"):
        hm.FeedForward([[float("nan"), 0]], [0], [[1]], [0])
    with pytest.raises(NotFiniteError, match="scores"):
        hm.Attention([[[np.inf, 0], [1, 0]]], None, [[[0, 0], [1, 1]]])
    with pytest.raises(DimensionMismatchError):
        hm.Network([hm.Affine([[1, 2]], [0]), hm.FeedForward([[1, 0]], [0], [[1]], [0])])


def test_a_damaged_network_file_is_refused(tmp_path):
    path = NETWORK.save(tmp_path / "network.npz")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(FileFormatError):
        hm.load(path)


def test_cells_that_do_not_exist_are_refused(whole):
    for ask in (
        whole.signature,
        whole.cell_vertices,
        whole.halfspaces,
        whole.exact_halfspaces,
        whole.exact_witness,
    ):
        for i in (whole.n_cells, -whole.n_cells - 1):
            with pytest.raises(InvalidInputError, match=f"i must be in range\\({whole.n_cells}\\)"):
                ask(i)
    unbounded = hm.enumerate_regions(NETWORK, hm.WholeSpace(2))
    with pytest.raises(InvalidInputError, match="box must say where unbounded cells are cut off"):
        unbounded.polygons()
