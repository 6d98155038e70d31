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
    import numpy as np

    from hardmax.geometry.diagrams.power_diagrams import attention_diagram, power_diagram
    from hardmax.geometry.domains import Box
    from hardmax.geometry.minkowski import minkowski_vertices

    rng = np.random.default_rng(0)

    def split() -> None:
        minkowski_vertices(rng.standard_normal((2, 4, 2)))
        power_diagram(rng.standard_normal((6, 2))).polygons(Box.cube(2, -1, 1))

    def many_keys() -> None:
        attention_diagram(rng.standard_normal((300, 2))).nonempty.any()

    def search() -> None:
        minkowski_vertices(rng.standard_normal((2, 4, 7)))

    def high_dimension() -> None:
        diagram = attention_diagram(rng.standard_normal((24, 9)) * rng.uniform(size=(24, 1)))
        diagram.nonempty.any()
        diagram.reach()
        diagram.locate(rng.standard_normal((4, 9)))

    for name, run in (
        ("splitting", split),
        ("candidates", many_keys),
        ("prefix search", search),
        ("min-norm points", high_dimension),
    ):
        if only is not None and name not in only:
            continue
        start = perf_counter()
        run()
        if progress is not None:
            progress(name, perf_counter() - start)
