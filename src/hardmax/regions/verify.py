r"""Checking a set of cells from the outside.

Nothing of the engine is used to judge its result: the network's own forward pass says which signature a point
has and what its value is, and geometry says where the point lies. Where the forward pass, which is rounded,
contradicts the list, the point is put through the network once more in rationals; only a contradiction that
stands there is a failure. :class:`Verification` reports what was checked and how often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hardmax.errors import CertificateError
from hardmax.regions.checks import Check
from hardmax.regions.maps.exact_maps import exact_signature
from hardmax.regions.plane.checks import PlaneCheck
from hardmax.regions.space.checks import ListedCheck, SpaceCheck

if TYPE_CHECKING:
    from hardmax.regions.result import RegionSet

__all__ = ["Verification", "exact_signature", "verify"]

_CHECKS: dict[str, type[Check]] = {
    "intervals": ListedCheck,
    "polygons": PlaneCheck,
    "polyhedra": SpaceCheck,
    "halfspaces": ListedCheck,
}


@dataclass(frozen=True)
class Verification:
    """What was checked.

    Attributes
    ----------
    checks : dict of str
        For each check ``"passed"``, ``"failed: ..."`` or ``"skipped: ..."``.
    counts : dict of int
        How many cells, points or borders each check looked at.
    settled_exactly : int
        Contradictions of the rounded forward pass that rationals resolved.
    """

    checks: dict[str, str]
    counts: dict[str, int]
    settled_exactly: int

    @property
    def ok(self) -> bool:
        """No check failed."""
        return not self.failures

    @property
    def failures(self) -> list[str]:
        """The checks that failed, each with the first contradiction."""
        return [f"{name} {what}" for name, what in self.checks.items() if what.startswith("failed")]

    def require(self) -> None:
        """Raise :class:`CertificateError` if a check failed."""
        if self.failures:
            raise CertificateError(f"the cells contradict the network: {'; '.join(self.failures)}.")

    def __repr__(self) -> str:
        checks = (f"{name} {what} ({self.counts[name]})" for name, what in self.checks.items())
        return "<Verification: " + "; ".join(checks) + ">"


def verify(regions: RegionSet, *, n_points: int = 10_000, rng: int | np.random.Generator = 0) -> Verification:
    r"""Check cells, maps and borders against the network itself.

    * ``witnesses``: the witness of every cell has the cell's signature;
    * ``maps``: there the network has the value of the cell's map, and of the map of its region's first cell;
    * ``distinct``: no signature is listed twice;
    * ``areas`` (``volumes`` outside the plane): they add up to the size of the domain;
    * ``points``: random points have a listed signature and lie inside that cell;
    * ``closed``: every piece of every edge (every facet) has a listed cell beyond it, or is a side of the
      domain;
    * ``crossings``: a step across each of these pieces (across the middle of each facet) leads to a neighbour
      that is listed there;
    * ``borders``: the perimeters (surfaces) of the cells add up to twice the common borders and the rim of
      the domain.

    What cannot be asked in a dimension is skipped, and says so.

    Parameters
    ----------
    regions : RegionSet
    n_points : int
        Random points.
    rng : int or numpy Generator

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1, 1], [1, -1]], [0, 0]), ([[1, 1]], [0])])
    >>> report = hm.enumerate_regions(net, hm.Box.cube(2, -1, 1)).verify(n_points=100)
    >>> report.ok, report.counts["witnesses"], report.counts["crossings"]
    (True, 4, 4)
    """
    check = _CHECKS[regions.cells.kind](regions, np.random.default_rng(rng))
    check.distinct()
    check.witnesses()
    check.maps()
    check.sizes()
    check.points(n_points)
    check.closed()
    check.crossings()
    check.borders()
    return Verification(check.checks, check.counts, check.settled)
