r"""How many cells of a network survive at a temperature.

One head routes the same way at every temperature, because softmax keeps the order of the scores. Behind it
that ends: the next layer sees the soft output instead of the winner's value, and its routings and ReLU bits
may differ. P1 Remark VI.3 calls the cells persistent on the strength of a theorem about one log-sum-exp. Here
the question is put to the network: the soft signature of a point, read off along the forward pass at
temperature :math:`\tau`, is compared with the hard one.

How many soft signatures there are depends on how far layers carry points apart. Where they do not,
:func:`clear_signatures_bound` limits those with a margin at every depth; where they do, nothing limits them
(``docs/theorems.md``, Theorems 9 and 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.bounds.large_integers import dimension
from hardmax.errors import InvalidInputError
from hardmax.limits import Clock
from hardmax.networks.block import points_of
from hardmax.networks.network import Network
from hardmax.networks.planes import lengths
from hardmax.networks.reading.sources import NetworkLike, as_network
from hardmax.networks.signatures import Signature
from hardmax.progress import shown
from hardmax.results import Result
from hardmax.temperature.arguments import positive_temperature

Floats = NDArray[np.float64]

_AT_ONCE = 1 << 14  # points


@dataclass(frozen=True, eq=False, repr=False)
class CellSurvival(Result):
    """Soft signatures against hard ones at the same points.

    Attributes
    ----------
    temperature : float
    n_cells : int
        Cells that the points fall into: different hard signatures.
    n_soft : int
        Different soft signatures at the same points.
    n_surviving : int
        Cells of which some point keeps its signature.
    kept : (n_points,) bool
        Whether the soft signature of a point is its hard one.
    first_change : (n_points,) int64
        The block, counted from 0, at which the two first differ; -1 where they agree.
    share_kept_by_block : (n_blocks,) float64
        The share of points whose signatures agree up to and including each block.
    output_error : (n_points,) float64
        The distance of the soft output from the hard one.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.networks.sawtooth_network(d=1, n_tokens=4, teeth=1, depth=2)
    >>> survival = surviving_cells(net, np.linspace(0.001, 0.999, 999)[:, None], 1e-3)
    >>> survival
    <CellSurvival: 58 of 64 cells survive at temperature 0.001, at 999 points>
    >>> survival.share_kept_by_block.round(3)
    array([1.   , 0.998, 0.944, 0.908])
    """

    kind: ClassVar[str] = "CellSurvival"
    _shapes: ClassVar[dict[str, str]] = {
        "kept": "points",
        "first_change": "points",
        "share_kept_by_block": "blocks",
        "output_error": "points",
    }

    temperature: float
    n_cells: int
    n_soft: int
    n_surviving: int
    kept: NDArray[np.bool_]
    first_change: NDArray[np.int64]
    share_kept_by_block: Floats
    output_error: Floats

    @property
    def n_points(self) -> int:
        """The number of points."""
        return len(self.kept)

    @property
    def share_kept(self) -> float:
        """The share of points that keep their signature."""
        return float(self.kept.mean())

    def _summary(self) -> str:
        points = "1 point" if self.n_points == 1 else f"{self.n_points:,} points"
        cells = f"{self.n_surviving:,} of {self.n_cells:,} cells"
        return f"{cells} survive at temperature {self.temperature:g}, at {points}"

    def _table(self) -> dict[str, Any]:
        shares = self.share_kept_by_block
        return {"block": np.arange(len(shares)), "share_kept": shares}


def surviving_cells(
    network: NetworkLike,
    points: ArrayLike,
    temperature: float,
    *,
    time_limit: float | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
) -> CellSurvival:
    r"""Which cells of a network are still there at a temperature, judged at given points.

    Parameters
    ----------
    network : Network, torch module, or path of an ONNX file or a saved network
    points : (n, d) array_like
        Where the two signatures are compared. The witnesses of a :class:`RegionSet` ask every cell once;
        random points weigh cells by their volume.
    temperature : float
        :math:`\tau > 0`, of every head.
    time_limit : float, optional
        Seconds after which it is given up.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with the number of points done and their
        total.

    Notes
    -----
    The work is known beforehand: two forward passes per point.

    Examples
    --------
    The sawtooth of P1 Theorem V.7, three layers deep, at the temperature 1/8 of P1 Example VI.2: none of 512
    cells is left.

    >>> import hardmax as hm
    >>> net = hm.networks.sawtooth_network(d=1, n_tokens=4, teeth=1, depth=3)
    >>> cells = hm.enumerate_regions(net, hm.Box.cube(1, 0, 1))
    >>> surviving_cells(net, cells.witnesses, 1 / 8)
    <CellSurvival: 0 of 512 cells survive at temperature 0.125, at 512 points>
    """
    network = as_network(network)
    tau = float(positive_temperature(temperature))
    table, _ = points_of(points, network.d)
    if len(table) == 0:
        raise InvalidInputError("points must hold at least one point, but is empty.")
    hard, soft, errors = _signatures(network, table, tau, Clock(time_limit, "compare all points"), progress)
    change = _first_change(network, hard, soft)
    kept = change < 0
    alike = np.concatenate([_words(hard), _words(soft)])
    _, names = np.unique(alike, axis=0, return_inverse=True)
    hard_names, soft_names = np.split(names.ravel(), 2)
    blocks = np.arange(len(network.blocks))
    return CellSurvival(
        temperature=tau,
        n_cells=len(np.unique(hard_names)),
        n_soft=len(np.unique(soft_names)),
        n_surviving=len(np.unique(hard_names[kept])),
        kept=kept,
        first_change=change,
        share_kept_by_block=(kept | (change > blocks[:, None])).mean(axis=1),
        output_error=errors,
    )


def _signatures(
    network: Network, points: Floats, tau: float, clock: Clock, progress: Any
) -> tuple[Signature, Signature, Floats]:
    """Hard and soft signatures, and by how much outputs differ: many points at a time."""
    hard: list[Signature] = []
    soft: list[Signature] = []
    errors: list[Floats] = []
    with shown(
        progress, lambda done, total: (done / total, f"{done:,} of {total:,} points"), clock
    ) as report:
        for start in range(0, len(points), _AT_ONCE):
            part = points[start : start + _AT_ONCE]
            hard.append(network.signature(part))
            soft.append(network.signature(part, tau))
            errors.append(lengths(network(part, tau) - network(part)))
            if report is not None:
                report(min(start + _AT_ONCE, len(points)), len(points))
    return _joined(hard), _joined(soft), np.concatenate(errors)


def _joined(parts: list[Signature]) -> Signature:
    routings, bits = np.concatenate([p.routings for p in parts]), np.concatenate([p.bits for p in parts])
    return Signature(routings, bits, parts[0].units_total)


def clear_signatures_bound(d: int, *, side: float, margin: float, slope: float, growth: float = 1.0) -> int:
    r"""How many signatures with a margin a network can have on a cube, whatever its depth.

    Let the map from the input to the input of every block be Lipschitz with constant ``growth``, at the
    temperature in question. Call a point *clear* if in every block the winner of each head leads by at least
    ``margin`` and every ReLU unit reads at least ``margin`` in absolute value. Two clear points with
    different signatures are at least :math:`r = 2\,\mathrm{margin} / (\mathrm{slope} \cdot \mathrm{growth})`
    apart, so there are at most :math:`(\lfloor \sqrt d\, \mathrm{side} / r \rfloor + 1)^d` signatures of
    clear points.

    Parameters
    ----------
    d : int
        Dimension of the input.
    side : float
        Of a cube that holds the inputs.
    margin : float
        Positive.
    slope : float
        The largest distance of two keys of a head (gradients of its scores), or norm of the weights of a
        unit.
    growth : float
        The Lipschitz constant, at least 1, because the first block reads the input itself. A softmax head
        without skip connection multiplies it by at most :math:`D_k D_v / 4\tau`, with one by
        :math:`1 + D_k D_v / 4\tau`, where :math:`D_k` and :math:`D_v` are the diameters of its keys and
        outputs.

    Examples
    --------
    >>> clear_signatures_bound(2, side=1.0, margin=0.1, slope=1.0)
    64
    """
    d = dimension("d", d)
    for name, value in (("side", side), ("margin", margin), ("slope", slope), ("growth", growth)):
        if not (0 < value < np.inf):
            raise InvalidInputError(f"{name} must be a positive finite number, but was {value}.")
    if growth < 1:
        raise InvalidInputError(
            f"growth must be at least 1, as the first block reads the input, but was {growth}."
        )
    steps = Fraction(side) * Fraction(slope) * Fraction(growth) / (2 * Fraction(margin))
    per_axis = math.isqrt(math.floor(d * steps**2)) + 1
    return int(per_axis**d)


def _first_change(network: Network, hard: Signature, soft: Signature) -> NDArray[np.int64]:
    """The first block at which signatures differ, -1 where they agree."""
    change = np.full(len(hard), -1, dtype=np.int64)
    head = unit = 0
    for i, block in enumerate(network.blocks):
        heads, units = slice(head, head + block.heads), slice(unit, unit + block.width)
        differ = (hard.routings[:, heads] != soft.routings[:, heads]).any(axis=1)
        differ |= (hard.relu[:, units] != soft.relu[:, units]).any(axis=1)
        change[differ & (change < 0)] = i
        head, unit = heads.stop, units.stop
    return change


def _words(signature: Signature) -> NDArray[np.int64]:
    """One row of integers per signature."""
    return np.concatenate([signature.routings.astype(np.int64), signature.bits.view(np.int64)], axis=1)
