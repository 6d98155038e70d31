"""Compile the tropical matrix products beforehand."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

__all__ = ["compile_kernels"]


def compile_kernels(progress: Callable[[str, float], None] | None = None) -> None:
    """Compile the tropical matrix products, or load them from the cache.

    ``progress`` is called with the name and the seconds it took.
    """
    import numpy as np

    from hardmax.tropical.semirings import tropical_matmul

    start = perf_counter()
    for temperature in (0.0, 1.0):
        tropical_matmul(np.zeros((128, 128)), np.zeros((128, 128)), temperature)
    if progress is not None:
        progress("tropical products", perf_counter() - start)
