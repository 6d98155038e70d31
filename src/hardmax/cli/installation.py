"""``hardmax compile`` compiles every kernel now; ``hardmax versions`` says what is installed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter

import click
import numpy as np
from numpy.typing import NDArray

import hardmax as hm
from hardmax.cli.numbers import WHOLE
from hardmax.cli.outputs import JSON, print_json, print_table
from hardmax.errors import InvalidInputError, written
from hardmax.versions import installed_versions

_MOST_JOBS = 10_000


def _normal(*shape: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).standard_normal(shape)


def _splitting() -> None:
    hm.minkowski_vertices(_normal(2, 4, 2))
    hm.power_diagram(_normal(6, 2)).polygons(hm.Box.cube(2, -1, 1))


def _order_k() -> None:
    diagram = hm.attention_diagram(_normal(6, 2), k=2)
    diagram.adjacency()
    diagram.locate(_normal(4, 2))


def _min_norm_points() -> None:
    sizes = np.random.default_rng(1).uniform(size=(24, 1))  # some keys inside the hull of the others
    diagram = hm.attention_diagram(sizes * _normal(24, 9))
    diagram.nonempty.any()
    diagram.max_margin()
    diagram.locate(_normal(4, 9))


def _tropical_products() -> None:
    for temperature in (0.0, 1.0):
        hm.tropical.tropical_matmul(np.zeros((128, 128)), np.zeros((128, 128)), temperature)


def _count(d: int, max_cells: int | None = None) -> None:
    hm.count_cells(hm.Network.random(d, 3, 2, 1, 4, 0), hm.Box.cube(d, -4, 4), max_cells=max_cells)


def _glue(d: int) -> None:
    flat = hm.Network.mlp([(np.eye(2, d), None), ([[1, -1]], None)])  # cells with equal maps
    for network in (hm.Network.random(d, 3, 2, 1, 4, 0), flat):
        cells = hm.enumerate_regions(network, hm.Box.cube(d, -4, 4))
        _ = cells.n_regions, cells.n_slivers


def _segment() -> None:
    network = hm.Network.random(2, 3, 2, 2, 4, 0)
    hm.trace_segment(network, [-4, -4], [4, 4])
    hm.trace_segment(network, [-4, -4], [4, 4], max_pieces=1)
    # three keys that meet in one point, a fold there, folds that coincide, and a very short cell
    meet = hm.Attention([[[-1], [0], [1]]], [[0, 0, 0]], [[[0], [0], [0]]], skip=True)
    folds = hm.FeedForward([[1]] * 4, [0, -0.5, -0.5, -0.5 - 2.0**-40], [[1] * 4], [0])
    hm.count_cells(hm.Network((meet, folds)), hm.Box([-1], [1]))


def _moving_keys() -> None:
    one = [[[1.0]]]
    blocks = (hm.SelfAttention(one, one, one, one), hm.FeedForward([[1]], None, [[1]], skip=True))
    transformer = hm.Transformer((*blocks, hm.Maxout([[[1], [-1]]])))
    hm.trace_segment(transformer, [[1], [-1]], [[0], [2]])


def _sampling() -> None:
    hm.estimate_cells(hm.Network.random(2, 3, 2, 2, 4, 0), hm.Box.cube(2, -4, 4), n_samples=100)


def _training() -> None:
    shape = hm.training.TransformerShape(1, 1, widths=(1,), heads=(1,), hidden=(1,))
    hm.training.predict(shape, shape.initial(0), [[[0.0]]])


# A tiny input for every group of kernels, the longest first. One entry is one process, because the later
# groups call kernels of the earlier ones.
KERNELS: tuple[dict[str, Callable[[], object]], ...] = (
    {
        **{f"space, d = {d}": lambda d=d: _count(d) for d in range(3, 7)},  # type: ignore[misc]
        "volumes and adjacency in space": lambda: _glue(3),
    },
    {
        "splitting": _splitting,
        "order-k diagrams": _order_k,
        "candidates": lambda: hm.attention_diagram(_normal(300, 2)).nonempty.any(),
        "prefix search": lambda: hm.minkowski_vertices(_normal(2, 4, 7)),
        "min-norm points": _min_norm_points,
    },
    {"plane": lambda: _count(2), "adjacency and merging": lambda: _glue(2)},
    {"search": lambda: _count(7, max_cells=20)},
    {"training": _training},
    {"segment": _segment, "moving keys": _moving_keys, "sampling": _sampling},
    {
        "targets": lambda: hm.targets.triangle_center()([[[0.0, 0.0]]]),
        "tropical products": _tropical_products,
    },
)


@click.command("compile")
@click.option(
    "--jobs", type=WHOLE, default=1, show_default=True, metavar="N", help="Processes; -1 for one per core."
)
@JSON
def compile_kernels(jobs: int, as_json: bool) -> None:
    """Compile every kernel and keep the machine code on disk.

    Kernels are compiled on first use and cached; this does it for all of them at once, for instance when an
    image or a cluster node is prepared. A second run only loads the cache.

    \b
    Examples:
      hardmax compile
      hardmax compile --jobs -1
    """
    if jobs == 0 or not -1 <= jobs <= _MOST_JOBS:
        raise InvalidInputError(
            f"--jobs must be from 1 to {_MOST_JOBS:,}, or -1 for every core, but was {written(jobs)}."
        )
    jobs = min(jobs, len(KERNELS))
    if jobs == 1:
        found = [_compiled(i) for i in range(len(KERNELS))]
    else:
        from joblib import Parallel, delayed

        found = Parallel(n_jobs=jobs, batch_size=1, pre_dispatch="all")(
            delayed(_compiled)(i, silent=True) for i in range(len(KERNELS))
        )
    seconds = {name: elapsed for part in found for name, elapsed in part.items()}
    if as_json:
        print_json({"seconds": seconds})
    else:
        lines = [[name, f"{elapsed:.2f}"] for name, elapsed in seconds.items()]
        print_table("Kernels are compiled", ["kernels", "seconds"], lines)


def _compiled(number: int, *, silent: bool = False) -> dict[str, float]:
    """Compile the groups of one entry; seconds by name."""
    if silent:  # other processes need not all announce it
        logging.getLogger("hardmax").setLevel(logging.ERROR)
    seconds: dict[str, float] = {}
    for name, run in KERNELS[number].items():
        start = perf_counter()
        run()
        seconds[name] = perf_counter() - start
    return seconds


@click.command()
@JSON
def versions(as_json: bool) -> None:
    """Print the versions of hardmax and of what it stands on.

    \b
    Example:
      hardmax versions --json
    """
    found = installed_versions()
    if as_json:
        print_json(found)
    else:
        lines = [[name, version or "not installed"] for name, version in found.items()]
        print_table("Installed versions", ["package", "version"], lines)
