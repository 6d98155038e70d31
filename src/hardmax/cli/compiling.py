"""``hardmax compile``: compile every kernel now, so that the first real call does not wait for it."""

from __future__ import annotations

import logging
from importlib import import_module

import click

from hardmax.cli.outputs import print_json, print_table
from hardmax.errors import InvalidInputError

__all__ = ["compile_kernels"]

# Rooms and their engines, the longest first. What stands in one entry is compiled in one process, because the
# later engines call kernels of the earlier ones.
_CHAINS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("regions", ("space", "volumes and adjacency in space")),
    ("geometry", ("splitting", "candidates", "prefix search", "min-norm points")),
    ("regions", ("plane", "adjacency and gluing")),
    ("regions", ("search",)),
    ("training", ()),
    ("regions", ("segment", "sampling")),
    ("targets", ()),
    ("tropical", ()),
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
        found = [_compiled(room, engines) for room, engines in _CHAINS]
    else:
        from joblib import Parallel, delayed

        found = Parallel(n_jobs=jobs, batch_size=1, pre_dispatch="all")(
            delayed(_compiled)(room, engines, silent=True) for room, engines in _CHAINS
        )
    seconds = {name: elapsed for part in found for name, elapsed in part.items()}
    if as_json:
        print_json({"seconds": seconds})
    else:
        lines = [[name, f"{elapsed:.2f}"] for name, elapsed in seconds.items()]
        print_table("Kernels are compiled", ["kernels", "seconds"], lines.__getitem__, len(lines))


def _compiled(room: str, engines: tuple[str, ...], *, silent: bool = False) -> dict[str, float]:
    """Compile some kernels of a room, or all; seconds by name."""
    if silent:  # other processes need not all announce it
        logging.getLogger("hardmax").setLevel(logging.ERROR)
    seconds: dict[str, float] = {}
    options = {"only": engines} if engines else {}
    import_module(f"hardmax.{room}").compile_kernels(seconds.__setitem__, **options)
    return seconds
