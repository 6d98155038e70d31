"""``hardmax compile`` compiles every kernel now; ``hardmax versions`` says what is installed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter

import click
import numpy as np

from hardmax.cli.outputs import print_json, print_table
from hardmax.errors import InvalidInputError
from hardmax.versions import installed_versions

__all__ = ["KERNELS", "compile_kernels", "versions"]


def _splitting() -> None:
    from hardmax.geometry import Box, minkowski_vertices, power_diagram

    rng = np.random.default_rng(0)
    minkowski_vertices(rng.standard_normal((2, 4, 2)))
    power_diagram(rng.standard_normal((6, 2))).polygons(Box.cube(2, -1, 1))


def _candidates() -> None:
    from hardmax.geometry import attention_diagram

    attention_diagram(np.random.default_rng(0).standard_normal((300, 2))).nonempty.any()


def _prefix_search() -> None:
    from hardmax.geometry import minkowski_vertices

    minkowski_vertices(np.random.default_rng(0).standard_normal((2, 4, 7)))


def _min_norm_points() -> None:
    from hardmax.geometry import attention_diagram

    rng = np.random.default_rng(0)
    diagram = attention_diagram(rng.standard_normal((24, 9)) * rng.uniform(size=(24, 1)))
    diagram.nonempty.any()
    diagram.max_margin()
    diagram.locate(rng.standard_normal((4, 9)))


def _tropical_products() -> None:
    from hardmax.tropical import tropical_matmul

    for temperature in (0.0, 1.0):
        tropical_matmul(np.zeros((128, 128)), np.zeros((128, 128)), temperature)


def _count(d: int, max_cells: int | None = None) -> None:
    from hardmax.geometry import Box
    from hardmax.networks import Network
    from hardmax.regions import count_cells

    count_cells(Network.random(d, 3, 2, 1, 4, 0), Box.cube(d, -4, 4), max_cells=max_cells)


def _glue(d: int) -> None:
    from hardmax.geometry import Box
    from hardmax.networks import Network
    from hardmax.regions import enumerate_regions

    flat = Network.mlp([(np.eye(2, d), None), ([[1, -1]], None)])  # cells with equal maps
    for network in (Network.random(d, 3, 2, 1, 4, 0), flat):
        cells = enumerate_regions(network, Box.cube(d, -4, 4))
        _ = cells.n_regions, cells.n_slivers


def _segment() -> None:
    from hardmax.networks import Network
    from hardmax.regions import trace_segment

    network = Network.random(2, 3, 2, 2, 4, 0)
    trace_segment(network, [-4, -4], [4, 4])
    trace_segment(network, [-4, -4], [4, 4], max_pieces=1)


def _sampling() -> None:
    from hardmax.geometry import Box
    from hardmax.networks import Network
    from hardmax.regions import estimate_cells

    estimate_cells(Network.random(2, 3, 2, 2, 4, 0), Box.cube(2, -4, 4), n_samples=100)


def _targets() -> None:
    from hardmax.targets import triangle_center

    triangle_center()([[[0.0, 0.0]]])


def _training() -> None:
    from hardmax.training import TransformerShape, predict

    shape = TransformerShape(1, 1, widths=(1,), heads=(1,), hidden=(1,))
    predict(shape, shape.initial(0), [[[0.0]]])


# A tiny input for every group of kernels, the longest first. One entry is one process, because the later
# groups call kernels of the earlier ones.
KERNELS: tuple[dict[str, Callable[[], None]], ...] = (
    {"space": lambda: _count(3), "volumes and adjacency in space": lambda: _glue(3)},
    {
        "splitting": _splitting,
        "candidates": _candidates,
        "prefix search": _prefix_search,
        "min-norm points": _min_norm_points,
    },
    {"plane": lambda: _count(2), "adjacency and merging": lambda: _glue(2)},
    {"search": lambda: _count(7, max_cells=20)},
    {"training": _training},
    {"segment": _segment, "sampling": _sampling},
    {"targets": _targets, "tropical products": _tropical_products},
)


@click.command("compile")
@click.option(
    "--jobs", type=int, default=1, show_default=True, metavar="N", help="Processes; -1 for one per core."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def compile_kernels(jobs: int, as_json: bool) -> None:
    """Compile every kernel and keep the machine code on disk.

    Kernels are compiled on first use and cached; this does it for all of them at once, for instance when an
    image or a cluster node is prepared. A second run only loads the cache.

    \b
    Examples:
      hardmax compile
      hardmax compile --jobs -1
    """
    if jobs == 0 or jobs < -1:
        raise InvalidInputError(f"--jobs must be a positive number, or -1 for every core, but was {jobs}.")
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
        print_table("Kernels are compiled", ["kernels", "seconds"], lines.__getitem__, len(lines))


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
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
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
        print_table("Installed versions", ["package", "version"], lines.__getitem__, len(lines))
