"""``hardmax compile``: compile every kernel now, so that the first real call does not wait for it."""

from __future__ import annotations

from time import perf_counter

import click

from hardmax.cli.outputs import print_json, print_table

__all__ = ["compile_kernels"]


@click.command("compile")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def compile_kernels(as_json: bool) -> None:
    """Compile every kernel and keep the machine code on disk.

    Kernels are compiled on first use and cached; this does it for all of them at once, for instance when an
    image or a cluster node is prepared. A second run only loads the cache.

    \b
    Example:
      hardmax compile
    """
    import numpy as np

    from hardmax import geometry, lab, regions, targets
    from hardmax.algebra.semirings import tropical_matmul

    seconds: dict[str, float] = {}
    start = perf_counter()
    matrix = np.zeros((80, 80))  # large enough for the compiled product
    for temperature in (0.0, 1.0):
        tropical_matmul(matrix, matrix, temperature)
    seconds["tropical products"] = perf_counter() - start
    geometry.compile_kernels(seconds.__setitem__)
    regions.compile_kernels(seconds.__setitem__)
    targets.compile_kernels(seconds.__setitem__)
    lab.compile_kernels(seconds.__setitem__)
    if as_json:
        print_json({"seconds": seconds})
    else:
        lines = [[name, f"{elapsed:.2f}"] for name, elapsed in seconds.items()]
        print_table("Kernels are compiled", ["kernels", "seconds"], lines.__getitem__, len(lines))
