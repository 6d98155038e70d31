"""What a temperature does to one head: its output in the plane (P1 figure 5), and what margins guarantee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import hsv_to_rgb, to_rgb
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.networks.attention import Attention
from hardmax.plotting.diagrams import draw_keys, key_handle
from hardmax.plotting.style import GROUND, INK, LINES, Picture, frame, given_or_new, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.diagrams.power_diagrams import PowerDiagram
    from hardmax.geometry.domains import Box
    from hardmax.temperature.certified import CertifiedTemperature
    from hardmax.temperature.margin_bounds import StabilityBounds
    from hardmax.temperature.observed_scores import StabilityReport

Floats = NDArray[np.float64]

_LEAST = 1e-16  # distances below this are drawn at the left edge


def draw_temperatures(
    diagram: PowerDiagram, temperatures: Sequence[float], *, box: Box, resolution: int = 240
) -> Picture:
    """Draw what a head returns when every key has a colour as its value, one panel per temperature.

    Colours blend as softmax weighs them. The walls on top are those of the exact diagram; they are the same
    in every panel, because softmax keeps the order of the scores. Keys are white stars, hollow if they have
    no cell.

    Parameters
    ----------
    diagram : PowerDiagram
        Of unbiased keys in the plane.
    temperatures : sequence of float
        Of the panels, from left to right; zero is hardmax.
    box : Box
        The part of the plane that is shown.
    resolution : int
        Pixels along a side.

    Examples
    --------
    >>> import hardmax as hm
    >>> keys = hm.attention_diagram([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0]])
    >>> figure = draw_temperatures(keys, [1.0, 0.1], box=hm.Box.cube(2, -3, 3), resolution=20)
    >>> [axes.get_title() for axes in figure.axes]
    ['temperature 1', 'temperature 0.1']
    """
    if diagram.d != 2 or box.d != 2:
        raise InvalidInputError(f"temperatures are drawn in dimension 2, but the diagram has {diagram.d}.")
    keys = diagram.sites
    head = Attention([keys], None, [key_colours(len(keys))], skip=False)
    low, high = box.low.floats, box.high.floats
    x, y = low[:, None] + (high - low)[:, None] * (np.arange(resolution) + 0.5) / resolution
    pixels = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    with styled():
        figure = new_figure(3.1 * len(temperatures), 3.9)
        panels = figure.subplots(1, len(temperatures), squeeze=False)[0]
        for ax, temperature in zip(panels, temperatures, strict=True):
            colours = np.clip(head.forward(pixels, temperature), 0.0, 1.0)
            ax.imshow(
                colours.reshape(resolution, resolution, 3),
                origin="lower",
                extent=(low[0], high[0], low[1], high[1]),
                interpolation="nearest",
            )
            for corners in diagram.polygons(box):
                if len(corners) > 2:
                    closed = np.concatenate([corners, corners[:1]])
                    ax.plot(*closed.T, color=INK, linewidth=1.1, zorder=3)
            draw_keys(ax, diagram, 120)
            frame(ax, box, "$q_1$", "$q_2$" if ax is panels[0] else "")
            ax.set_title(f"temperature {temperature:g}")
        handles = [Line2D([], [], color=INK, linewidth=1.1, label="exact wall"), key_handle("white", "key")]
        if not diagram.nonempty.all():
            handles.append(key_handle("none", "key without a cell"))
        figure.legend(
            handles=handles, loc="outside lower center", ncols=len(handles), facecolor=GROUND, framealpha=1
        )
    return figure


def key_colours(n: int) -> Floats:
    """A colour for each key, as red, green and blue between 0 and 1.

    >>> key_colours(2).round(2)
    array([[0.  , 0.45, 0.7 ],
           [0.84, 0.37, 0.  ]])
    """
    if n <= len(LINES):
        return np.array([to_rgb(colour) for colour in LINES[:n]])
    return np.asarray(hsv_to_rgb(np.stack([np.arange(n) / n, np.full(n, 0.75), np.full(n, 0.9)], axis=1)))


def draw_guarantees(bounds: Mapping[str, Sequence[StabilityBounds]], *, margin: float) -> Picture:
    """Draw what growing margins guarantee: the top probability, and the largest norm of the Hessian.

    Parameters
    ----------
    bounds : mapping
        A name for each temperature, and its bounds at growing margins.
    margin : float
        Marked by a dotted line.

    Examples
    --------
    >>> import hardmax as hm
    >>> margins = [0.5, 1.0, 2.0, 4.0]
    >>> figure = draw_guarantees({"cold": [hm.stability_bounds(9, m, 0.1) for m in margins]}, margin=2.0)
    >>> len(figure.axes)
    2
    """
    with styled():
        figure = new_figure(9.4, 4.6)
        left, right = figure.subplots(1, 2)
        for colour, row in zip(LINES, bounds.values(), strict=False):
            margins = [one.margin for one in row]
            left.plot(margins, [one.top_probability for one in row], color=colour)
            right.plot(margins, [_shown(one.hessian_sharp) for one in row], color=colour)
            right.plot(
                margins, [_shown(one.hessian_paper) for one in row], color=colour, linestyle=(0, (4, 2))
            )
        for ax in (left, right):
            ax.axvline(margin, color=INK, linewidth=0.9, linestyle=":")
            ax.set(xscale="log", xlabel="margin")
            ax.spines[["top", "right"]].set_visible(False)
        left.set(title="top probability, by temperature", ylabel="at least", ylim=(-0.03, 1.03))
        right.set(title="norm of the Hessian, by temperature", ylabel="at most", yscale="log")
        handles = [
            *(Line2D([], [], color=c, label=name) for c, name in zip(LINES, bounds, strict=False)),
            Line2D([], [], color=INK, label="supremum"),
            Line2D([], [], color=INK, linestyle=(0, (4, 2)), label="as printed"),
            Line2D([], [], color=INK, linewidth=0.9, linestyle=":", label=f"margin {margin:g}"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def draw_report(report: StabilityReport, *, ax: Axes | None = None) -> Axes:
    """Draw which share of the queries is how close to one-hot, and what their margins alone guarantee.

    Examples
    --------
    >>> import hardmax as hm
    >>> axes = draw_report(hm.check_stability([[3.0, 0.0], [9.0, 0.0]], 1.0))
    >>> axes.get_xlabel()
    'total variation distance to one-hot'
    """
    with styled():
        ax = given_or_new(ax, 5.6, 4.2)
        n = report.margin.size
        shares = np.arange(1, n + 1) / n
        looks = (
            ("measured", report.total_variation, "-"),
            ("guaranteed by the margin", report.total_variation_bound, "--"),
        )
        for colour, (label, distances, look) in zip(LINES, looks, strict=False):
            sizes = np.maximum(np.sort(distances.ravel()), _LEAST)
            ax.step([_LEAST, *sizes, 1.0], [0.0, *shares, 1.0], look, where="post", color=colour, label=label)
        ax.axvline(
            report.tolerance, color=INK, linewidth=0.9, linestyle=":", label=f"tolerance {report.tolerance:g}"
        )
        ax.set(
            xscale="log",
            xlim=(min(1e-3, max(_LEAST, float(report.total_variation.min()) / 2)), 1.0),
            ylim=(-0.02, 1.02),
            xlabel="total variation distance to one-hot",
            ylabel="share of queries up to it",
            title=f"{report.share_hard:.1%} of {n:,} queries are hard at temperature {report.temperature:g}",
        )
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="upper left", frameon=False)
    return ax


def draw_certified(found: CertifiedTemperature, *, ax: Axes | None = None) -> Axes:
    """Draw how far the closest decision is ahead at each temperature, and up to where it is proven.

    Examples
    --------
    >>> import hardmax as hm
    >>> head = hm.Attention([[[1.0], [-1.0]]], None, [[[1.0, 0.0], [0.0, 3.0]]], skip=False)
    >>> axes = draw_certified(hm.certified_temperature(hm.Network([head]), [[1.0]]))
    >>> axes.get_xlabel()
    'temperature'
    """
    with styled():
        ax = given_or_new(ax, 5.6, 3.8)
        if not len(found.curve_temperatures):
            raise InvalidInputError("there is no picture of decisions that no temperature changes.")
        ax.plot(found.curve_temperatures, found.curve_leads, color=LINES[0], label="smallest lead, measured")
        ax.axhline(0.0, color=INK, linewidth=0.8)
        ax.axvspan(
            found.curve_temperatures[0],
            found.temperature,
            color=LINES[2],
            alpha=0.18,
            linewidth=0,
            label="proven",
        )
        if found.broken_input >= 0:
            ax.axvline(
                found.broken_temperature, color=LINES[1], linestyle="--", label="another decision, proven"
            )
        ax.set(
            xscale="log",
            xlim=(found.curve_temperatures[0], found.curve_temperatures[-1]),
            xlabel="temperature",
            ylabel="lead of the decision",
            title=f"{found.n_inputs:,} decisions hold up to temperature {found.temperature:.4g}",
        )
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="best", frameon=False)
    return ax


def _shown(value: float) -> float:
    """A norm that is worth a place on a logarithmic axis."""
    return value if 1e-12 < value < 1e4 else float("nan")
