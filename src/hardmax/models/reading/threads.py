"""One thread for linear algebra while texts are read one by one.

Matrices of short texts are small: several threads of torch and of numpy's OpenBLAS wait for each other longer
than they work. torch has a function for the number of its threads, numpy has none, and the environment is
read before it is loaded; so the library in numpy's own wheel is asked (``openblas_set_num_threads``). A numpy
that was built with another library is left as it is.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy

_FOLDERS = ("../{name}.libs", ".dylibs")  # of a wheel for Linux or Windows, and for macOS
_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads")


class Pool(NamedTuple):
    """Threads of one library: how many there are, and how to change that."""

    name: str
    get: Callable[[], int]
    set: Callable[[int], Any]


@cache
def blas_pools() -> tuple[Pool, ...]:
    """The OpenBLAS libraries of numpy and scipy that are loaded; none where they have another.

    Examples
    --------
    >>> all(pool.get() >= 1 for pool in blas_pools())
    True
    """
    found = []
    for package in (np, scipy):
        home = Path(str(package.__file__)).parent
        for folder in _FOLDERS:
            for path in sorted((home / folder.format(name=package.__name__)).glob("*openblas*")):
                pool = _pool(path)
                found += [pool] if pool is not None else []
    return tuple(found)


def _pool(path: Path) -> Pool | None:
    try:
        library = ctypes.CDLL(str(path))  # loaded already: this is the same one
    except OSError:
        return None
    for name in _NAMES:
        get, change = (getattr(library, name.format(what), None) for what in ("get", "set"))
        if get is not None and change is not None:
            get.restype, change.argtypes, change.restype = ctypes.c_int, [ctypes.c_int], None
            return Pool(path.name, get, change)
    return None


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch, where it is loaded, and for OpenBLAS; afterwards as many as before."""
    pools = list(blas_pools())
    torch = sys.modules.get("torch")
    if torch is not None:
        pools.append(Pool("torch", torch.get_num_threads, torch.set_num_threads))
    with ExitStack() as stack:
        for pool in pools:
            stack.callback(pool.set, pool.get())
            pool.set(1)
        yield
