"""The tree of a proof that a property holds: its leaves as boxes of the inputs, coloured by the proof."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from hardmax.errors import InvalidInputError, UnsupportedDimensionError
from hardmax.plotting.style import FILLS, INK, given_or_new, number_of, styled
from hardmax.verification import replay

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.verification.certificate import Certificate

Corners = tuple[tuple[Fraction, ...], tuple[Fraction, ...]]

_KINDS = {
    "bound": ("one bound", FILLS[0]),
    "combination": ("bounds and facts", FILLS[3]),
    "exact": ("rationals", FILLS[1]),
}  # from the cheapest proof to the dearest


def draw_certificate(certificate: Certificate, *, ax: Axes | None = None) -> Axes:
    """Draw the boxes into which a proof cuts its inputs, coloured by what proves the property there.

    A box that is also cut by the state of a unit or the key of a head has several leaves; it is drawn once,
    in the colour of the dearest of their proofs.

    Parameters
    ----------
    certificate : Certificate
        Of a property that holds, for inputs of which two vary.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.random_mlp([2, 8, 8, 1], 0)
    >>> proof = hm.verify(net, "y0 <= 0", hm.Box.cube(2, -1, 1)).certificate
    >>> draw_certificate(proof).get_title()
    '13 leaves'
    """
    data = certificate.record["data"]
    if certificate.record["expected"]["verdict"] != "holds":
        raise InvalidInputError("certificate must prove a property that holds to have a tree to draw.")
    boxes: dict[Corners, str] = {}
    for group, tree in zip(data["property"], data["trees"], strict=True):
        low, high = (tuple(_number(v) for v in group[side]) for side in ("low", "high"))
        _collect(tree, data["network"]["stages"], (low, high), boxes)
    varying = sorted({i for low, high in boxes for i in range(len(low)) if low[i] < high[i]})
    if len(varying) != 2:
        raise UnsupportedDimensionError(
            f"a proof is drawn where two inputs vary, but here {len(varying)} do; try network.restrict."
        )
    i, j = varying
    corners = np.array(
        [[(a[i], a[j]), (b[i], a[j]), (b[i], b[j]), (a[i], b[j])] for a, b in boxes], dtype=np.float64
    )
    with styled():
        ax = given_or_new(ax, 5.4, 5.4)
        fills = [_KINDS[kind][1] for kind in boxes.values()]
        cells = PolyCollection(list(corners), facecolors=fills, edgecolors=INK, linewidths=0.5)
        ax.add_collection(cells, autolim=False)
        ax.set(
            xlim=(corners[:, :, 0].min(), corners[:, :, 0].max()),
            ylim=(corners[:, :, 1].min(), corners[:, :, 1].max()),
            xlabel=f"$x_{{{i + 1}}}$",
            ylabel=f"$x_{{{j + 1}}}$",
            title=number_of(certificate.n_leaves, "leaf", "leaves"),
        )
        ax.locator_params(nbins=5)
        handles = [
            Patch(facecolor=colour, edgecolor=INK, linewidth=0.5, label=label)
            for kind, (label, colour) in _KINDS.items()
            if kind in boxes.values()
        ]
        place = (0.5, -0.11)
        ax.legend(
            handles=handles, loc="upper center", bbox_to_anchor=place, ncols=3, frameon=False, fontsize=9
        )
    return ax


def _collect(tree: list[Any], stages: list[Any], root: Corners, boxes: dict[Corners, str]) -> None:
    """Add the boxes of the leaves of a tree, which lists its nodes depth first."""
    dearest = list(_KINDS).index
    stack = [(root, "bound")]
    for proofs, cut in tree:
        (low, high), kind = stack.pop()
        kind = max([kind, *map(_kind, proofs)], key=dearest)  # what is closed here is closed below
        if cut is None:
            boxes[low, high] = max(boxes.get((low, high), kind), kind, key=dearest)
        elif cut[0] == "x":
            i, value = cut[1], _number(cut[2])
            stack.append(((low[:i] + (value,) + low[i + 1 :], high), kind))
            stack.append(((low, high[:i] + (value,) + high[i + 1 :]), kind))
        else:  # of two scores of a head the first is larger, or the second, or they tie
            ties = cut[0] == "p" and stages[cut[1]].get("k") is not None
            stack += [((low, high), kind)] * (3 if ties else 2)


def _kind(proof: Any) -> str:
    kind, _, rows, facts = proof
    return "exact" if kind == "e" else "combination" if len(rows) + len(facts) > 1 else "bound"


def _number(text: Any) -> Fraction:
    return Fraction(replay.number(text))  # type: ignore[no-untyped-call]
