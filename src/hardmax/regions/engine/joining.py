"""Cells that come in parts, put together in order.

Whatever an engine writes down is a dataclass of arrays: some have a row per cell, others a row per edge, ray
or facet, which ``edge_start`` and its kin assign to the cells. Parts are appended to arrays that grow in
place, so that a big result is never held twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["JoinedCells", "select"]

Array = NDArray[Any]

# which arrays have a row per edge, ray or facet, by the array that says where those of a cell begin
_RAGGED = {
    "edge_start": ("vx", "vy", "vr", "dx", "dy", "owner", "wall"),
    "ray_start": ("rays", "ray_error", "mask"),
    "facet_start": ("owner", "wall"),
    "candidate_start": ("candidates",),
}
_GROWTH = 1.25


def _arrays(cells: Any) -> dict[str, Array]:
    values = {field.name: getattr(cells, field.name) for field in fields(cells)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def select(cells: Any, chosen: NDArray[np.bool_]) -> Any:
    """The cells that are marked, in their order.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Polygons:
    ...     edge_start: np.ndarray
    ...     vx: np.ndarray
    >>> some = select(Polygons(np.array([0, 3, 7, 10]), np.arange(10)), np.array([True, False, True]))
    >>> some.edge_start.tolist(), some.vx.tolist()
    ([0, 3, 6], [0, 1, 2, 7, 8, 9])
    """
    arrays = _arrays(cells)
    result: dict[str, Any] = {field.name: getattr(cells, field.name) for field in fields(cells)}
    ragged: set[str] = set()
    for start, names in _RAGGED.items():
        if start not in arrays:
            continue
        lengths = np.diff(arrays[start])
        rows = np.repeat(chosen, lengths)
        result[start] = np.concatenate([[0], np.cumsum(lengths[chosen])]).astype(np.int64)
        for name in names:
            if name in arrays:
                result[name] = arrays[name][rows]
        ragged |= {start, *names}
    for name, array in arrays.items():
        if name not in ragged:
            result[name] = array[chosen]
    return type(cells)(**result)


class JoinedCells:
    """Parts of a set of cells, appended one after the other.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Polygons:
    ...     edge_start: np.ndarray
    ...     vx: np.ndarray
    ...     n = property(lambda self: len(self.edge_start) - 1)
    >>> joined = JoinedCells()
    >>> for part in (Polygons(np.array([0, 3]), np.arange(3)), Polygons(np.array([0, 4]), np.arange(4))):
    ...     joined.append(part)
    >>> joined.cells().edge_start.tolist(), joined.cells().vx.tolist()
    ([0, 3, 7], [0, 1, 2, 0, 1, 2, 3])
    """

    def __init__(self) -> None:
        self._only: Any = None  # one part is handed on as it is
        self._kind: Any = None
        self._plain: dict[str, Any] = {}  # what is no array
        self._grown: dict[str, Array] = {}
        self._rows: dict[str, int] = {}
        self._parts = 0
        self.n = 0  # cells

    def append(self, part: Any, renumbered: Callable[[Array], Array] | None = None) -> None:
        """Add a part at the end; ``renumbered`` gives the owners their final numbers."""
        if self._parts and not part.n:
            return
        if renumbered is not None and isinstance(getattr(part, "owner", None), np.ndarray):
            owner = renumbered(part.owner)
            part = type(part)(**{f.name: getattr(part, f.name) for f in fields(part)} | {"owner": owner})
        self._parts += 1
        self.n += part.n
        if self._parts == 1:
            self._only = part
            return
        if self._only is not None:
            first, self._only = self._only, None
            self._add(first)
            del first
        self._add(part)

    def _add(self, part: Any) -> None:
        arrays = _arrays(part)
        self._kind = type(part)
        for field in fields(part):
            if field.name not in arrays:
                self._plain[field.name] = getattr(part, field.name)
        for name, array in arrays.items():
            if name in _RAGGED:
                array = array[1:] + (self._grown[name][self._rows[name] - 1] if name in self._grown else 0)
                if name not in self._grown:
                    self._grow(name, np.zeros(1, dtype=np.int64))
            self._grow(name, array)

    def _grow(self, name: str, rows: Array) -> None:
        at = self._rows.setdefault(name, 0)
        if name not in self._grown:
            self._grown[name] = np.zeros(rows.shape, dtype=rows.dtype)
        if rows.ndim == 2 and rows.shape[1] != self._grown[name].shape[1]:
            wide = max(rows.shape[1], self._grown[name].shape[1])
            self._grown[name], rows = (_widened(array, wide) for array in (self._grown[name], rows))
        grown = self._grown[name]
        if at + len(rows) > len(grown):
            # moved by the system, not copied, where it can
            room = max(at + len(rows), int(_GROWTH * len(grown)))
            grown.resize((room, *grown.shape[1:]), refcheck=False)
        grown[at : at + len(rows)] = rows
        self._rows[name] = at + len(rows)

    @property
    def nbytes(self) -> int:
        """Bytes of all cells."""
        return sum(array.nbytes for array in self._between(0, self.n).values())

    def cells(self, n: int | None = None) -> Any:
        """The cells, or the first ``n``; nothing can be appended afterwards."""
        if self._only is not None:
            whole = n is None or n >= self.n
            return self._only if whole else select(self._only, np.arange(self.n) < (n or 0))
        rows = self._rows if n is None or n >= self.n else self._counts(n)
        for name, array in self._grown.items():
            array.resize((rows[name], *array.shape[1:]), refcheck=False)
            array.setflags(write=False)
        return self._kind(**self._plain, **self._grown)

    def _counts(self, n: int) -> dict[str, int]:
        """Rows of every array that belong to the first ``n`` cells."""
        arrays = _arrays(self._only) if self._only is not None else self._grown
        rows = dict.fromkeys(arrays, n)
        for start, names in _RAGGED.items():
            if start in arrays:
                rows[start] = n + 1
                rows.update({name: int(arrays[start][n]) for name in names if name in arrays})
        return rows

    def _between(self, first: int, stop: int) -> dict[str, Array]:
        """The arrays of some cells, without their starts moved to zero."""
        if not self._parts:
            return {}
        arrays = _arrays(self._only) if self._only is not None else self._grown
        low, high = self._counts(first), self._counts(stop)
        return {name: array[low[name] - (name in _RAGGED) : high[name]] for name, array in arrays.items()}

    def part(self, first: int, stop: int) -> dict[str, Any]:
        """Cells ``first`` to ``stop - 1`` as plain values for a file."""
        if not self._parts:
            return {}
        arrays = self._between(first, stop)
        for name in _RAGGED.keys() & arrays.keys():
            arrays[name] = arrays[name] - arrays[name][0]
        some = self._plain if self._only is None else _plain(self._only)
        plain = {name: value for name, value in some.items() if value is not None and name[0] != "_"}
        return {**arrays, **plain}


def _plain(cells: Any) -> dict[str, Any]:
    arrays = _arrays(cells)
    return {field.name: getattr(cells, field.name) for field in fields(cells) if field.name not in arrays}


def _widened(array: Array, columns: int) -> Array:
    wide = np.zeros((len(array), columns), dtype=array.dtype)
    wide[:, : array.shape[1]] = array
    return wide
