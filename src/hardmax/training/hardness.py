"""How hard the heads of a model are, and how that changes while it is trained.

Margins are given in units of the temperature: beta times the lead of the winning score. A query is hard when
its softmax is within a tolerance of hardmax in total variation (:func:`hardmax.check_stability`).
:func:`follow_training` measures this, the exact cells of the first layer and the information sets at every
checkpoint of a training, which P1 names as an open question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import InvalidInputError
from hardmax.results import Result
from hardmax.targets.target import Target
from hardmax.temperature.observed_scores import check_stability
from hardmax.training.geometry import cells_in_plane, head_diagram, routed_flow
from hardmax.training.layout import TransformerShape
from hardmax.training.states import run_states, states_in_blocks

__all__ = ["Hardness", "TrainingGeometry", "follow_training", "measured_hardness"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Hardness:
    """How hard one head is on given inputs.

    Attributes
    ----------
    layer, head : int
        Counted from 1.
    who : {"tokens", "CLS"}
        Whose queries.
    share_hard : float
        The share of queries whose softmax is within the tolerance of hardmax in total variation.
    margin : float
        The median lead of the winner, in units of the temperature: the median of beta times the raw margin.
    margin_low : float
        The same for the lower decile.
    margin_needed : float
        The lead, in the same units, from which on every query is hard.
    """

    layer: int
    head: int
    who: str
    share_hard: float
    margin: float
    margin_low: float
    margin_needed: float


def measured_hardness(
    shape: TransformerShape, parameters: ArrayLike, X: ArrayLike, *, tolerance: float = 0.01
) -> tuple[Hardness, ...]:
    """Margins in units of temperature and shares of hard queries, head by head.

    Parameters
    ----------
    shape : TransformerShape
    parameters : array
    X : array (B, T, d)
    tolerance : float
        A query is hard when its total variation distance to hardmax is at most this.
    """
    blocks = [layers for _, layers in states_in_blocks(shape, parameters, X)]
    rows = []
    for number, h in enumerate(shape.heads):
        temperature = 1.0 / shape.betas[number]
        for i in range(h):
            asked: dict[str, list[Floats]] = {"tokens": [], "CLS": []}
            for layers in blocks:
                layer = layers[number]
                asked["CLS"].append(layer.cls_scores[:, i])
                if layer.scores is not None:
                    asked["tokens"].append(layer.scores[:, i].reshape(-1, shape.n_tokens))
            for who, scores in asked.items():
                if scores:
                    report = check_stability(np.concatenate(scores), temperature, tolerance=tolerance)
                    margin = report.margin / temperature
                    rows.append(
                        Hardness(
                            number + 1,
                            i + 1,
                            who,
                            report.share_hard,
                            float(np.median(margin)),
                            float(np.quantile(margin, 0.1)),
                            report.margin_needed / temperature,
                        )
                    )
    return tuple(rows)


@dataclass(frozen=True, eq=False, repr=False)
class TrainingGeometry(Result):
    """How routing, margins and cells change during a training.

    Attributes
    ----------
    samples : array of int (C,)
        Samples seen at each checkpoint.
    share_hard, margin : array (C, rows)
        Share of hard queries and median margin in units of temperature, for the heads named in ``heads``.
    heads : tuple of str
        ``"layer 1, head 2, tokens"``, for instance.
    cells : array (C, sequences)
        Cells of the first layer in the slice: routings of all its heads as one token moves in a plane.
    reachable : array (C, h)
        Keys with a cell in the diagram of each head of the first layer, mean over the sequences.
    learns : array (C,)
        The share of inputs on which the model's information sets contain the active set.
    nmse : array (C,)
        Mean squared error over variance on the inputs.
    tolerance : float
    """

    kind: ClassVar[str] = "TrainingGeometry"

    samples: NDArray[np.int64]
    share_hard: Floats
    margin: Floats
    heads: tuple[str, ...]
    cells: NDArray[np.int64]
    reachable: Floats
    learns: Floats
    nmse: Floats
    tolerance: float

    def _state(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "share_hard": self.share_hard,
            "margin": self.margin,
            "heads": list(self.heads),
            "cells": self.cells,
            "reachable": self.reachable,
            "learns": self.learns,
            "nmse": self.nmse,
            "tolerance": self.tolerance,
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**{**state, "heads": tuple(state["heads"])})

    def _summary(self) -> str:
        return (
            f"{len(self.samples)} checkpoints, NMSE {self.nmse[0]:.2g} to {self.nmse[-1]:.2g}, sets hold the "
            f"active set on {self.learns[0]:.0%} to {self.learns[-1]:.0%} of inputs"
        )

    def _table(self) -> dict[str, Any]:
        return self.columns()

    def columns(self) -> dict[str, Any]:
        """One row per checkpoint, for tables."""
        table: dict[str, Any] = {
            "samples": self.samples,
            "nmse": self.nmse,
            "learns": self.learns,
            "cells": self.cells.mean(axis=1),
        }
        for i in range(self.reachable.shape[1]):
            table[f"keys with a cell, head {i + 1}"] = self.reachable[:, i]
        for i, name in enumerate(self.heads):
            table[f"hard: {name}"] = self.share_hard[:, i]
            table[f"margin: {name}"] = self.margin[:, i]
        return table


def follow_training(
    shape: TransformerShape,
    checkpoints: Iterable[tuple[int, ArrayLike]],
    target: Target,
    X: ArrayLike,
    *,
    scale: tuple[float, float] = (0.0, 1.0),
    n_sequences: int = 4,
    radius: float = 2.0,
    rng: int = 0,
    tolerance: float = 0.01,
) -> TrainingGeometry:
    """Routing, margins and cells along the checkpoints of a training.

    Parameters
    ----------
    shape : TransformerShape
        Without positions.
    checkpoints : iterable of (samples, parameters)
    target : Target
        What was trained for.
    X : array (B, T, d)
        Inputs on which everything but the cells is measured.
    scale : (mean, deviation)
        The model predicts (F - mean) / deviation.
    n_sequences : int
        Sequences, the first of X, whose cells are counted.
    radius : float
        Cells are counted in the square of this half side around the origin of a plane of tokens: all of it
        for tokens of dimension 2, a random plane through the origin above.
    rng : int
        For that plane.
    tolerance : float
        Of hard queries.
    """
    inputs = np.asarray(X, dtype=np.float64)
    wanted = (target(inputs) - scale[0]) / scale[1]
    plane = _plane(shape.d_token, rng)
    rows: dict[str, list[Any]] = {
        name: [] for name in ("samples", "share_hard", "margin", "cells", "reachable", "learns", "nmse")
    }
    names: tuple[str, ...] = ()
    for samples, vector in checkpoints:
        hardness = measured_hardness(shape, vector, inputs, tolerance=tolerance)
        names = tuple(f"layer {row.layer}, head {row.head}, {row.who}" for row in hardness)
        rows["samples"].append(int(samples))
        rows["share_hard"].append([row.share_hard for row in hardness])
        rows["margin"].append([row.margin for row in hardness])
        rows["cells"].append([cells_in_plane(shape, vector, x, plane, radius) for x in inputs[:n_sequences]])
        rows["reachable"].append(_reachable(shape, vector, inputs[:n_sequences]))
        rows["learns"].append(routed_flow(shape, vector, inputs).learns(target).share)
        found = run_states(shape, vector, inputs)[1][:, 0]
        rows["nmse"].append(float(((found - wanted) ** 2).mean() / wanted.var()))
    if not rows["samples"]:
        raise InvalidInputError("checkpoints must hold at least one, but was empty.")
    return TrainingGeometry(
        samples=np.array(rows["samples"], dtype=np.int64),
        share_hard=np.array(rows["share_hard"]),
        margin=np.array(rows["margin"]),
        heads=names,
        cells=np.array(rows["cells"], dtype=np.int64),
        reachable=np.array(rows["reachable"]),
        learns=np.array(rows["learns"]),
        nmse=np.array(rows["nmse"]),
        tolerance=tolerance,
    )


def _plane(d: int, rng: int) -> Floats:
    if d <= 2:
        return np.eye(d)
    directions = np.linalg.qr(np.random.default_rng(rng).standard_normal((d, 2)))[0].T
    return np.asarray(directions)


def _reachable(
    shape: TransformerShape, parameters: ArrayLike, sequences: Sequence[Any] | Floats
) -> list[float]:
    counts = [
        [int(head_diagram(shape, parameters, x, i).nonempty.sum()) for i in range(shape.heads[0])]
        for x in sequences
    ]
    return [float(value) for value in np.mean(counts, axis=0)]
