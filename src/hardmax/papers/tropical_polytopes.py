"""P1 figure 4: the Newton polytopes of one, two and three heads, and how many vertices their sums have.

The caption says that three heads of N = 6 keys in space go from 6 to 216 vertices. 216 is the number of
candidate sums N^H; at most 92 of them are vertices (:func:`hardmax.vertex_maximum`), and integer keys attain
that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.bounds import vertex_maximum
from hardmax.geometry.minkowski import MinkowskiVertices, minkowski_vertices, parabolic_heads
from hardmax.papers.recipes import Comparison, Option, Outcome, Recipe, Settings

__all__ = ["RECIPES"]

_D = 3  # the dimension in which figure 4 draws


def _cook_figure_4(settings: Settings) -> Outcome:
    from hardmax.plotting.polytopes import compare_sums

    n_tokens, heads = settings["n_tokens"], settings["heads"]
    pictures = {name: _sums(settings, name) for name in ("parabola", "gaussian")}
    sums = pictures["parabola"]
    counts = [one.count for one in sums]
    random = _random_counts(settings)
    best = [vertex_maximum(n_tokens, h, _D) for h in range(1, heads + 1)]
    table: dict[str, Any] = {
        "heads": list(range(1, heads + 1)),
        "candidates": [n_tokens**h for h in range(1, heads + 1)],
        "maximum": best,
        "drawn": counts,
        "gaussian_mean": random.mean(axis=0),
        "gaussian_least": random.min(axis=0),
        "gaussian_most": random.max(axis=0),
    }
    vertices = sums[-1]
    titles = ["one head", *(f"{_word(h)} heads" for h in range(2, heads + 1))]
    figures = {
        "fig4": compare_sums(sums, titles=titles, proportions="round"),
        "fig4_gaussian": compare_sums(pictures["gaussian"], titles=titles),
    }
    of_paper = "216" if (n_tokens, heads) == (6, 3) else f"{n_tokens**heads} (N^H)"
    attained = "attained by the keys drawn" if counts[-1] == best[-1] else f"the keys drawn have {counts[-1]}"
    return Outcome(
        figures=figures,
        tables={"counts": table, "vertices": _vertex_table(vertices)},
        comparisons=(
            Comparison(
                f"most vertices of a sum, N = {n_tokens}, H = {heads}, d = 3",
                of_paper,
                str(best[-1]),
                ("fails" if best[-1] < n_tokens**heads else "holds") + f": {attained}",
            ),
            Comparison("vertices of one head", f"at most {n_tokens}", str(counts[0]), "holds"),
            Comparison(
                f"vertices with Gaussian keys, {len(random)} draws",
                "not stated",
                f"mean {random[:, -1].mean():.1f}, {random[:, -1].min()} to {random[:, -1].max()}",
                "measurement only",
            ),
        ),
        notes=(
            "fig4 draws integer keys on a parabola, which attain the maximum, in an affine image with the "
            "same faces; fig4_gaussian draws Gaussian keys.",
            f"{n_tokens**heads} is the number of candidate sums, one key of each head. It is attained in "
            f"dimension {heads + 1}, or in dimension {heads} by scores with biases.",
        ),
    )


def _sums(settings: Settings, kind: str) -> list[MinkowskiVertices]:
    """The sums of the first 1, 2, ... heads, whose keys lie on a parabola or are Gaussian."""
    n_tokens, heads = settings["n_tokens"], settings["heads"]
    keys: list[NDArray[Any]]
    if kind == "parabola":
        keys = list(parabolic_heads(n_tokens, heads, _D)[0])
    else:
        keys = list(settings.rng("drawn").standard_normal((heads, n_tokens, _D)))
    return [minkowski_vertices(keys[: h + 1]) for h in range(heads)]


def _random_counts(settings: Settings) -> NDArray[np.int64]:
    """Vertices of the first h Gaussian heads, one row per draw."""
    shape = (settings["heads"], settings["n_tokens"], _D)
    draws = [settings.rng("gaussian", i).standard_normal(shape) for i in range(settings["draws"])]
    return np.array(
        [[minkowski_vertices(list(keys[: h + 1])).count for h in range(shape[0])] for keys in draws]
    )


def _vertex_table(result: MinkowskiVertices) -> dict[str, Any]:
    return {"choice": result.choices, "vertex": result.vertices, "witness": result.witnesses}


def _word(n: int) -> str:
    return {2: "two", 3: "three", 4: "four"}.get(n, str(n))


RECIPES = (
    Recipe(
        "tropical.fig4",
        "Newton polytopes of one, two and three heads: 92 vertices, not 216",
        (
            Option("n_tokens", 6, "keys per head (the paper: 6)", least=2),
            Option("heads", 3, "heads in the last picture (the paper: 3)", least=1),
            Option("draws", 20, "Gaussian draws whose vertices are counted", medium=200, paper=1000, least=1),
        ),
        _cook_figure_4,
    ),
)
