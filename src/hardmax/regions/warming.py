"""Compile the kernels of this package beforehand, by running each engine on a tiny input."""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import perf_counter

__all__ = ["compile_kernels"]


def compile_kernels(
    progress: Callable[[str, float], None] | None = None, *, only: Collection[str] | None = None
) -> None:
    """Compile every kernel of this room, or load it from the cache, by running each engine on a tiny input.

    ``progress`` is told the name of each engine and the seconds it took; ``only`` names some of them.
    """
    from hardmax.geometry.domains import Box
    from hardmax.networks.network import Network
    from hardmax.regions.api import count_cells, enumerate_regions
    from hardmax.regions.sampling.estimate import estimate_cells
    from hardmax.regions.segment.trace import trace_segment

    network, box = Network.random(2, 3, 2, 2, 4, 0), Box.cube(2, -4, 4)

    def plane() -> None:
        count_cells(network, box)

    def gluing() -> None:
        flat = Network.mlp([([[1, 0], [-1, 0]], None), ([[1, -1]], None)])  # two cells, one map
        for cut in (network, flat):
            enumerate_regions(cut, box).n_regions.bit_length()

    def space() -> None:
        count_cells(Network.random(3, 3, 2, 1, 4, 0), Box.cube(3, -4, 4))

    def solids() -> None:
        cells = enumerate_regions(Network.random(3, 3, 2, 1, 4, 0), Box.cube(3, -4, 4))
        for size in (cells.n_regions, cells.n_slivers):
            size.bit_length()

    def search() -> None:
        count_cells(Network.random(7, 3, 2, 1, 3, 0), Box.cube(7, -1, 1), max_cells=20)

    def sampling() -> None:
        estimate_cells(network, box, n_samples=100)

    def segment() -> None:
        trace_segment(network, [-4, -4], [4, 4])
        trace_segment(network, [-4, -4], [4, 4], max_pieces=1)

    for name, run in (
        ("plane", plane),
        ("adjacency and gluing", gluing),
        ("segment", segment),
        ("space", space),
        ("volumes and adjacency in space", solids),
        ("search", search),
        ("sampling", sampling),
    ):
        if only is not None and name not in only:
            continue
        start = perf_counter()
        run()
        if progress is not None:
            progress(name, perf_counter() - start)
