r"""What the search writes down: signatures, witnesses, and the hyperplanes that may bound each cell.

A cell is a signature with a witness, and a list of *candidates*: the hyperplanes that cut it out of the
domain on the way to it, among them all its facets. Which of them are facets, whether the cell is bounded and
which cells touch is found out when it is first asked for (:mod:`hardmax.regions.search.outline`,
:mod:`hardmax.regions.search.contacts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import CertificateError, InvalidInputError, UnsupportedDimensionError
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.search.contacts import contacts_of
from hardmax.regions.search.outline import Facets, Outline
from hardmax.regions.search.rational_programs import inner_point

if TYPE_CHECKING:
    from hardmax.networks.groups import Layer
    from hardmax.regions.maps.adjacency import Contacts

__all__ = ["FoundCells"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_KEPT = ("bits", "routings", "tied", "candidate_start", "candidates", "witnesses", "margins")


@dataclass(frozen=True, eq=False)
class FoundCells:
    """The cells of a network in a domain of any dimension, found by linear programs.

    Attributes
    ----------
    d : int
        The dimension of the domain.
    bits, routings, tied
        Signatures, as in :class:`~hardmax.regions.cells.Cells`.
    candidate_start : int64 (n + 1,)
        Candidates of cell i are ``candidate_start[i]:candidate_start[i + 1]``.
    candidates : int64 (C,)
        Codes of the hyperplanes that may hold a facet, in the order in which they were drawn: a unit or pair
        of keys (:func:`~hardmax.regions.cells.encode_wall`), or -2 - s for side s of the domain.
    witnesses : float64 (n, d)
    margins : float64 (n,)
        A proven lower bound on the distance of the witness from the cell's boundary; 0 where floats prove
        none.
    """

    d: int
    bits: NDArray[np.uint64]
    routings: NDArray[np.int32]
    tied: NDArray[np.uint8]
    candidate_start: Integers
    candidates: Integers
    witnesses: Floats
    margins: Floats

    @property
    def n(self) -> int:
        """The number of cells."""
        return len(self.tied)

    @property
    def volumes(self) -> None:
        """Volumes are not computed by linear programs."""
        return None

    @property
    def bounded(self) -> NDArray[np.bool_]:
        """Which cells are bounded."""
        return self._facets.bounded

    def cell_vertices(self, i: int) -> Floats:
        """Vertices are not known here."""
        raise UnsupportedDimensionError(
            f"vertices are not computed in dimension {self.d}, where cells have too many; try "
            "halfspaces(i), or a slice, network.restrict(origin, directions)."
        )

    def boundary(self, i: int) -> list[tuple[int, int]]:
        """The names (owner, wall) of the facets of cell ``i``, in the order in which they were drawn."""
        facets = self._facets
        at = slice(int(facets.start[i]), int(facets.start[i + 1]))
        return list(zip(facets.owner[at].tolist(), facets.wall[at].tolist(), strict=True))

    def exact_witness(self, i: int) -> list[Fraction]:
        """A point strictly inside cell ``i``."""
        rows = self._outline.rows_of(i)
        point = (
            [Fraction(float(v)) for v in self.witnesses[i]] if np.isfinite(self.witnesses[i]).all() else None
        )
        if point is not None and all(
            sum(a * v for a, v in zip(row, [*point, Fraction(1)], strict=True)) > 0 for row in rows
        ):
            return point
        inside = inner_point([*rows, self._outline.infinity])
        if inside is None:
            raise CertificateError(f"cell {i} has no interior point; the list of cells is damaged.")
        return [
            Fraction(int(v.p), int(v.q)) / Fraction(int(inside[-1].p), int(inside[-1].q)) for v in inside[:-1]
        ]

    def contacts(self, layers: tuple[Layer, ...], exact: ExactMaps) -> Contacts:
        """Which cells meet in dimension d - 1, and whether a fold or a wall lies between them.

        Lengths are not known (NaN); ``edges`` number the facets of all cells.
        """
        return contacts_of(self.bind(exact), layers, self._outline)

    # files, and results of several tasks

    def bind(self, exact: ExactMaps) -> Self:
        """Say whose cells these are: facets are found out with the maps of the network."""
        if self.__dict__.get("_exact") is not exact:
            self.__dict__["_exact"] = exact
            self.__dict__.pop("_outline", None)
        return self

    def state(self) -> dict[str, Any]:
        """Everything that must survive a file."""
        return {"d": self.d, **{name: getattr(self, name) for name in _KEPT}}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The cells of a file."""
        columns: dict[str, Any] = {name: np.asarray(state[name]) for name in _KEPT}
        return cls(d=int(state["d"]), **columns)

    @classmethod
    def joined(cls, parts: list[FoundCells]) -> Self:
        """The cells of several searches, one after the other."""
        if not parts:
            raise InvalidInputError("parts must hold at least one set of cells, but is empty.")
        counts = np.concatenate([np.diff(part.candidate_start) for part in parts])
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in _KEPT
        }
        columns["candidate_start"] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(d=parts[0].d, **columns)

    # facets

    @cached_property
    def _outline(self) -> Outline:
        exact = self.__dict__.get("_exact")
        if exact is None:
            raise CertificateError(
                "cells know their facets only together with their network; bind them first."
            )
        return Outline(self, exact)

    @property
    def _facets(self) -> Facets:
        return self._outline.facets
