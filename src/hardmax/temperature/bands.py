r"""How wide the band around a wall is in which attention is not hard (P1 Remark VI.3 in its true form).

A query has total variation distance :math:`1 - \max p \le \eta` as soon as its margin is at least
:math:`\delta_\eta` (:func:`margin_needed`), and for scores :math:`q \cdot k_j` the margin over key j is
:math:`\lvert k_i - k_j\rvert` times the distance of q from the wall between i and j. So every query that is
not hard lies within :math:`\delta_\eta / \lvert k_i - k_j\rvert` of a wall. This is of order :math:`\tau`, as
the paper says, at fixed N and fixed keys; at N = 512 and :math:`\eta` = 1% the width of the band is 21.7
temperatures over the distance of the keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.bounds.large_integers import positive
from hardmax.errors import InvalidInputError, NotFiniteError
from hardmax.exact.rationals import as_exact
from hardmax.results import Result
from hardmax.temperature.arguments import checked_tolerance, positive_temperature

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class TransitionBand(Result):
    r"""The band around each wall in which the total variation distance to hardmax may exceed a tolerance.

    Attributes
    ----------
    temperature, tolerance : float
    distance : (N, N) float64
        :math:`\lvert k_i - k_j\rvert`.
    width : (N, N) float64
        Outside the bands of this width every query is hard; infinite for equal keys, which tie everywhere.
    width_alone : (N, N) float64
        The width of the band if no third key came near: inside it a query near this wall is certainly not
        hard. Zero for a tolerance of 1/2 and more.

    Examples
    --------
    >>> band = transition_band([[0.0], [1.0], [3.0]], temperature=0.5)
    >>> band
    <TransitionBand: 3 keys at temperature 0.5, bands 1.763 to 5.288 wide at tolerance 0.01>
    >>> band.width_alone[0].round(3)
    array([  inf, 4.595, 1.532])
    """

    kind: ClassVar[str] = "TransitionBand"
    _shapes: ClassVar[dict[str, str]] = {
        "distance": "N N",
        "width": "N N",
        "width_alone": "N N",
    }

    temperature: float
    tolerance: float
    distance: Floats
    width: Floats
    width_alone: Floats

    def _summary(self) -> str:
        widths = self._table()["width"]
        if len(widths) == 0:
            return "1 key, no wall"
        return (
            f"{len(self.width)} keys at temperature {self.temperature:g}, bands {widths.min():.4g} to "
            f"{widths.max():.4g} wide at tolerance {self.tolerance:g}"
        )

    def _table(self) -> dict[str, Any]:
        i, j = np.triu_indices(len(self.width), 1)
        numbers = {name: getattr(self, name)[i, j] for name in ("distance", "width", "width_alone")}
        return {"key": i, "other_key": j, **numbers}


def margin_needed(n_tokens: int, temperature: float, *, tolerance: float = 0.01) -> float:
    r"""The margin :math:`\tau\log((N-1)(1-\eta)/\eta)` that puts softmax within a tolerance of one-hot.

    It is the least such margin, 0 where none is needed: at a smaller one, N - 1 rivals at exactly the margin
    exceed the tolerance.

    Parameters
    ----------
    n_tokens : int
        N, the number of keys.
    temperature : float
        :math:`\tau > 0`.
    tolerance : float
        :math:`\eta`, the total variation distance that is allowed; between 0 and 1.

    Examples
    --------
    A standard head of 64 dimensions with 512 keys, raw scores:

    >>> round(margin_needed(512, 8.0, tolerance=0.01), 2)
    86.65
    """
    n, eta = positive("n_tokens", n_tokens), checked_tolerance(tolerance)
    tau = float(positive_temperature(temperature))
    return 0.0 if n == 1 else max(0.0, tau * (math.log(n - 1) + math.log1p(-eta) - math.log(eta)))


def transition_band(keys: ArrayLike, temperature: float, *, tolerance: float = 0.01) -> TransitionBand:
    r"""How wide the band around the wall between two keys is: :math:`2\delta_\eta/\lvert k_i - k_j\rvert`.

    Parameters
    ----------
    keys : (N, d) array_like
    temperature : float
        :math:`\tau > 0`.
    tolerance : float
        :math:`\eta`, the total variation distance that is allowed; between 0 and 1.

    Examples
    --------
    >>> transition_band([[1.0, 0.0], [-1.0, 0.0]], temperature=0.1).width[0, 1].round(4)
    np.float64(0.4595)
    """
    points = as_exact(keys, "keys", ndim=2).floats
    if 0 in points.shape:
        raise InvalidInputError(f"keys must hold at least one key, but has shape {points.shape}.")
    tau, eta = float(positive_temperature(temperature)), checked_tolerance(tolerance)
    distance = np.zeros((len(points), len(points)))
    for axis in points.T:  # one coordinate at a time: no array of N * N * d
        with np.errstate(over="ignore"):
            np.hypot(distance, axis[:, None] - axis, out=distance)
    if not np.isfinite(distance).all():
        raise NotFiniteError(
            "keys must be less than 1.8e308 apart, but two of them are farther; rescale them."
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        width = 2 * margin_needed(len(points), tau, tolerance=eta) / distance
        alone = 2 * margin_needed(2, tau, tolerance=eta) / distance
    same = distance == 0.0
    width[same] = alone[same] = np.inf
    return TransitionBand(tau, eta, distance, width, alone)
