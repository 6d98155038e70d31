"""Pictures, one module per kind; the only package that imports matplotlib (the extra ``plot``).

Everything is drawn through figure objects, never through pyplot, so that no screen, no backend choice and no
hidden state is involved: a function returns the axes it drew on, and ``axes.figure.savefig`` writes a file.
Where a function takes ``ax``, it draws there, and in a new figure without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardmax.errors import InvalidInputError, MissingExtraError

try:
    import matplotlib  # noqa: F401 (every module below needs it; its absence is explained here, once)
except ImportError as error:
    raise MissingExtraError(
        "pictures need matplotlib, which is not installed; try: pip install matplotlib."
    ) from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.domains import Box
    from hardmax.results import Result

__all__ = ["draw"]

# Where the picture of each kind of result is drawn. What has no part to choose is drawn whole, without a box.
_IN_A_BOX = {
    "PowerDiagram": "diagrams.draw_diagram",
    "OrderKDiagram": "diagrams.draw_diagram",
    "CommonRefinement": "diagrams.draw_refinement",
    "Hypersurface": "diagrams.draw_hypersurface",
    "RegionSet": "regions.draw_regions",
    "DecisionBoundary": "regions.draw_boundary",
}
_WHOLE = {
    "MinkowskiVertices": ("polytopes.draw_sum", "a Minkowski sum"),
    "SegmentTrace": ("profiles.draw_trace", "a segment"),
    "CertifiedTrace": ("enclosures.draw_certified", "a segment"),
    "NormedDiagram": ("enclosures.draw_normed", "a diagram"),
    "TransformerTrace": ("profiles.draw_trace", "a segment"),
    "FrozenContextEffect": ("profiles.draw_frozen_context", "a segment"),
    "InformationFlow": ("flows.draw_flow", "a flow"),
    "HeadBudget": ("growth.draw_budget", "a budget"),
    "StabilityReport": ("temperatures.draw_report", "a report"),
    "CostEstimate": ("advice.draw_estimate", "an estimate"),
    "Advice": ("advice.draw_advice", "advice"),
    "CertifiedTemperature": ("temperatures.draw_certified", "a certified temperature"),
    "RouterFlips": ("atlases.draw_flips", "decisions"),
    "RouterLoad": ("corpora.draw_router_load", "a load"),
    "CorpusAtlas": ("corpora.draw_corpus_atlas", "an atlas"),
    "CorpusInfluence": ("corpora.draw_corpus_influence", "influence"),
    "ModelComparison": ("corpora.draw_comparison", "a comparison"),
    "GenerationAtlas": ("corpora.draw_generation", "an atlas"),
    "HeadAtlas": ("atlases.draw_atlas", "an atlas"),
    "TokenFlow": ("atlases.draw_routes", "a flow of tokens"),
    "LayerSlice": ("atlases.draw_slice", "a slice"),
}
_FIGURES = {
    "AlongTraining": "corpora.draw_along_training",
    "Recovery": "trainings.draw_probe",
}


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

    Examples
    --------
    >>> import hardmax as hm
    >>> axes = draw(hm.attention_diagram([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]))
    >>> len(axes.patches)
    3
    """
    kind = result.kind
    if kind in _IN_A_BOX:
        return _drawing(_IN_A_BOX[kind])(result, ax=ax, box=box)
    if kind in _FIGURES:
        if ax is not None or box is not None:
            raise InvalidInputError("this picture makes its own axes, so ax and box must be left out.")
        return _drawing(_FIGURES[kind])(result).axes[0]
    if kind not in _WHOLE:
        raise InvalidInputError(f"there is no picture of a {kind}; try to_frame() for a table.")
    place, words = _WHOLE[kind]
    if box is not None:
        raise InvalidInputError(f"box belongs to pictures of the plane; {words} is drawn whole.")
    return _drawing(place)(result, ax=ax)


def _drawing(place: str) -> Any:
    """The function ``module.name``, imported when its picture is asked for."""
    module, name = place.split(".")
    return getattr(import_module(f"hardmax.plotting.{module}"), name)
