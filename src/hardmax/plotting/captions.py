"""What pictures of regions say in words: the names of the axes, the counts, and what the lines mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D

from hardmax.plotting.style import GROUND, INK, number_of

if TYPE_CHECKING:
    from hardmax.networks.network import Network
    from hardmax.regions.result import RegionSet

_LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "wall": ("wall: a routing changes", {"color": INK, "linewidth": 1.6}),
    "fold": ("fold: a ReLU switches", {"color": "white", "linewidth": 1.6}),
    "support": ("fold: a head reads other keys", {"color": "white", "linewidth": 1.6}),
    "boundary": ("decision boundary", {"color": INK, "linewidth": 2.6}),
    "jump": ("... where outputs jump", {"color": "white", "linewidth": 1.4, "linestyle": (0, (1, 1.5))}),
    "seam": ("same map on both sides", {"color": "white", "linewidth": 1.6, "linestyle": (0, (1, 1.5))}),
}


def axis_names(network: Network) -> list[str]:
    """The names of the input's coordinates; those of a slice say along which direction they run.

    Examples
    --------
    >>> import hardmax as hm
    >>> axis_names(hm.Network.random_mlp([2, 8, 1], 0))
    ['$x_{1}$', '$x_{2}$']
    >>> wide = hm.Network.random_mlp([4, 8, 1], 0)
    >>> axis_names(wide.restrict([0, 0, 0, 0], [[0, 1, 0, 0], [1, 1, 0, 0]]))
    ['$x_{2}$', '$t_{2}$ (slice direction 2)']
    """
    first: Any = network.blocks[0]
    if first.cuts or first.d_out <= first.d_in:  # no affine map that lifts a slice into a wider space
        return [f"$x_{{{i + 1}}}$" for i in range(network.d)] if network.d > 1 else ["$x$"]
    names = []
    for i in range(network.d):
        direction, origin = first.w.floats[:, i], first.b.floats
        along = np.flatnonzero(direction)
        if len(along) == 1 and direction[along[0]] == 1.0 and origin[along[0]] == 0.0:
            names.append(f"$x_{{{along[0] + 1}}}$")
        else:
            names.append(f"$t_{{{i + 1}}}$ (slice direction {i + 1})")
    return names


def counted(result: RegionSet) -> str:
    """How many cells and regions a result has.

    Examples
    --------
    >>> import hardmax as hm
    >>> counted(hm.enumerate_regions(hm.Network.random_mlp([2, 16, 16, 16, 1], 0), hm.Box.cube(2, -4, 4)))
    '778 cells, 778 regions'
    """
    cells = number_of(result.n_cells, "cell")
    return f"{cells}, {number_of(result.n_regions, 'region')}" if result.complete else f"{cells} so far"


def explain(figure: Any, drawn: Iterable[str], curves: Iterable[Any] = ()) -> None:
    """Write below a figure what its lines mean; ``drawn`` names the kinds that occur."""
    handles = [
        *curves,
        *(Line2D([], [], label=_LINES[kind][0], **_LINES[kind][1]) for kind in _LINES if kind in drawn),
    ]
    if handles:
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=min(len(handles), 4),
            facecolor=GROUND,
            edgecolor="none",
            framealpha=1,
            fontsize=9,
        )
