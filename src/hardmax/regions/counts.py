"""Counts as results: cells, and regions, with what is known about how complete they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from hardmax.results import Result

__all__ = ["CellCount", "RegionCount"]


@dataclass(frozen=True, eq=False, repr=False)
class CellCount(Result):
    """How many cells a network has in a domain: ``int(count)`` or ``count.n_cells``.

    Attributes
    ----------
    n_cells : int
        Cells found; all of them if ``complete``, otherwise a lower bound.
    complete : bool
        Whether every split was decided and followed.
    exact : bool
        Whether every decision was proven (false for ``arithmetic="float"``).
    coverage : float or None
        Area of the cells over the area of the domain; ``None`` in an unbounded domain and in space. A sanity
        check, not the proof.
    n_slivers : int or None
        Cells thinner than the stated tolerance; they are counted like all others. ``None`` in space, where
        volumes are only computed when they are asked for.
    n_unbounded : int or None
        Cells that reach to infinity; ``None`` if linear programs searched for cells, which do not tell.
    cells_by_depth : tuple of int
        Cells of the network cut off after each block that has walls or folds.
    decided_in_pairs, n_rational : int
        How often floats could not tell and double-double arithmetic, or rationals, decided.

    Examples
    --------
    >>> import hardmax as hm
    >>> count = hm.count_cells(hm.Network.random_mlp([2, 16, 16, 16, 1], 0), hm.Box.cube(2, -4, 4))
    >>> count
    <CellCount: 778 cells, complete, exact>
    >>> count.cells_by_depth
    (120, 397, 778)
    """

    kind: ClassVar[str] = "CellCount"

    n_cells: int
    complete: bool
    exact: bool
    coverage: float | None
    n_slivers: int | None
    n_unbounded: int | None
    cells_by_depth: tuple[int, ...]
    decided_in_pairs: int
    n_rational: int

    def __int__(self) -> int:
        return self.n_cells

    def _state(self) -> dict[str, Any]:
        return {
            "n_cells": self.n_cells,
            "complete": self.complete,
            "exact": self.exact,
            "coverage": self.coverage,
            "n_slivers": self.n_slivers,
            "n_unbounded": self.n_unbounded,
            "cells_by_depth": list(self.cells_by_depth),
            "decided_in_pairs": self.decided_in_pairs,
            "n_rational": self.n_rational,
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**{**state, "cells_by_depth": tuple(state["cells_by_depth"])})

    def _summary(self) -> str:
        cells = "1 cell" if self.n_cells == 1 else f"{self.n_cells} cells"
        return f"{cells}, {_how_sure(self.complete, self.exact)}"

    def _table(self) -> dict[str, Any]:
        depth = len(self.cells_by_depth)
        return {"blocks with walls or folds": list(range(1, depth + 1)), "cells": list(self.cells_by_depth)}


@dataclass(frozen=True, eq=False, repr=False)
class RegionCount(Result):
    """How many maximal linear regions a network has in a domain: ``int(count)`` or ``count.n_regions``.

    Attributes
    ----------
    n_regions : int
        Cells glued together wherever adjacent ones carry the same affine map, proven equal.
    n_cells : int
        The cells they are made of.
    complete, exact : bool
        As for :class:`CellCount`. In an incomplete count ``n_regions`` bounds nothing: missing cells may join
        regions or add new ones.

    Examples
    --------
    >>> import hardmax as hm
    >>> head = hm.Attention([[[1, 0], [-1, 0]]], None, [[[3, 0], [3, 0]]])      # two keys, one value
    >>> hm.count_regions(hm.Network([head]), hm.Box.cube(2, -1, 1))
    <RegionCount: 1 region of 2 cells, complete, exact>
    """

    kind: ClassVar[str] = "RegionCount"

    n_regions: int
    n_cells: int
    complete: bool
    exact: bool

    def __int__(self) -> int:
        return self.n_regions

    def _state(self) -> dict[str, Any]:
        return {
            "n_regions": self.n_regions,
            "n_cells": self.n_cells,
            "complete": self.complete,
            "exact": self.exact,
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**state)

    def _summary(self) -> str:
        regions = "1 region" if self.n_regions == 1 else f"{self.n_regions} regions"
        cells = "1 cell" if self.n_cells == 1 else f"{self.n_cells} cells"
        return f"{regions} of {cells}, {_how_sure(self.complete, self.exact)}"

    def _table(self) -> dict[str, Any]:
        return {"regions": [self.n_regions], "cells": [self.n_cells]}


def _how_sure(complete: bool, exact: bool) -> str:
    return f"{'complete' if complete else 'INCOMPLETE'}, {'exact' if exact else 'not certified'}"
