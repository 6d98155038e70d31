"""Pictures, one module per kind; the only room that knows matplotlib (the extra ``plot``).

Everything is drawn through figure objects, never through pyplot, so that no screen, no backend choice and no
hidden state is involved: a function returns the axes it drew on, and ``axes.figure.savefig`` writes a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardmax.errors import InvalidInputError, MissingExtraError

try:
    import matplotlib  # noqa: F401 (every module below needs it; its absence is explained here, once)
except ImportError as error:
    raise MissingExtraError(
        "pictures need matplotlib, which is not installed; try: pip install 'hardmax[plot]'."
    ) from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.domains import Box
    from hardmax.results import Result

__all__ = ["draw"]


def draw(result: Result, *, ax: Axes | None = None, box: Box | None = None) -> Axes:
    """Draw any result that has a picture; this is what ``result.plot()`` calls.

    Parameters
    ----------
    result : Result
        A power diagram, a common refinement, a hypersurface or the cells of a network in the plane, a network
        on the line or along a segment, a stability report, an atlas of heads, or the vertices of a Minkowski
        sum in two or three dimensions.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise. A sum in three dimensions needs axes with ``projection="3d"``.
    box : Box, optional
        The part of the plane or line that is shown.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import hardmax as hm
    >>> axes = draw(hm.attention_diagram([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]))
    >>> len(axes.patches)
    3
    """
    from hardmax.plotting import (
        advice,
        atlases,
        counts,
        diagrams,
        flows,
        polytopes,
        regions,
        temperatures,
        traces,
        trainings,
        tropical,
    )

    match result.kind:
        case "PowerDiagram":
            return diagrams.draw_diagram(result, ax=ax, box=box)  # type: ignore[arg-type]
        case "CommonRefinement":
            return tropical.draw_refinement(result, ax=ax, box=box)  # type: ignore[arg-type]
        case "Hypersurface":
            return tropical.draw_hypersurface(result, ax=ax, box=box)  # type: ignore[arg-type]
        case "MinkowskiVertices":
            if box is not None:
                raise InvalidInputError(
                    "box belongs to pictures of the plane; a Minkowski sum is drawn whole."
                )
            return polytopes.draw_sum(result, ax=ax)  # type: ignore[arg-type]
        case "RegionSet":
            return regions.draw_regions(result, ax=ax, box=box)  # type: ignore[arg-type]
        case "SegmentTrace":
            if box is not None:
                raise InvalidInputError("box belongs to pictures of the plane; a segment is drawn whole.")
            return traces.draw_trace(result, ax=ax)  # type: ignore[arg-type]
        case "InformationFlow":
            if box is not None:
                raise InvalidInputError("box belongs to pictures of the plane; a flow is drawn whole.")
            return flows.draw_flow(result, ax=ax)  # type: ignore[arg-type]
        case "HeadBudget":
            if box is not None:
                raise InvalidInputError("box belongs to pictures of the plane; a budget is drawn whole.")
            return counts.draw_budget(result, ax=ax)  # type: ignore[arg-type]
        case "StabilityReport":
            if box is not None:
                raise InvalidInputError("box belongs to pictures of the plane; a report is drawn whole.")
            return temperatures.draw_report(result, ax=ax)  # type: ignore[arg-type]
        case "CostEstimate" | "Advice":
            if box is not None:
                raise InvalidInputError("box belongs to pictures of the plane; this picture has bars.")
            if result.kind == "Advice":
                return advice.draw_advice(result, ax=ax)  # type: ignore[arg-type]
            return advice.draw_estimate(result, ax=ax)  # type: ignore[arg-type]
        case "Recovery" | "TrainingGeometry":
            if ax is not None or box is not None:
                raise InvalidInputError("this picture makes its own axes, so ax and box must be left out.")
            if result.kind == "Recovery":
                return trainings.draw_recovery([trainings.Probed.of(result)]).axes[0]  # type: ignore[arg-type]
            return trainings.draw_training_geometry(result).axes[0]  # type: ignore[arg-type]
        case "HeadAtlas" | "LayerSlice":
            if box is not None:
                raise InvalidInputError("box belongs to pictures of diagrams; this one is drawn whole.")
            if result.kind == "LayerSlice":
                return atlases.draw_slice(result, ax=ax)  # type: ignore[arg-type]
            return atlases.draw_atlas(result, ax=ax)  # type: ignore[arg-type]
        case kind:
            raise InvalidInputError(f"there is no picture of a {kind}; try to_frame() for a table.")
