"""The rows of the head atlas: what is written down about a head, as numbers for a table.

Statistics are over the queries that have a choice, at least two different keys; they are NaN where none has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardmax.models.atlas.head_measures import QueryMeasures, key_usage, readable
from hardmax.models.atlas.reachable_keys import KeysThatCanWin
from hardmax.models.reading.captured_layer import CapturedLayer

__all__ = ["HeadRecord", "PositionRecord", "head_record", "position_record"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HeadRecord:
    """One head on one text. Statistics are over the queries that have a choice; NaN where none has.

    Attributes
    ----------
    layer, head : int
        Counted from 0.
    n_queries, n_keys : int
        Queries with a choice, and keys of the sequence.
    margin_median, margin_low, margin_high : float
        Median, lower and upper decile of the winner's lead, in units of temperature.
    top_probability, tv_to_hardmax, output_distance : float
        Medians: probability of the winner, total variation distance to hardmax, and the distance of the
        outputs of softmax and hardmax over the norm of the former.
    share_hard_1, share_hard_10 : float
        The share of queries whose margin guarantees a distance to hardmax of at most 1 % or 10 %.
    share_measured_1, share_measured_10 : float
        The share whose measured distance is at most that.
    share_vacuous : float
        The share for which the bound says nothing: it allows more than one half.
    keys_can_win, keys_can_win_of : int
        Keys whose cell has interior among the keys that the query at ``position`` may read.
    certified : bool
        Whether that was decided with proof for every key: it always is, by :mod:`hardmax.geometry`.
    position : int
        The query whose keys those are; -1 where all queries have the same.
    query_norm, query_norm_median : float
        The largest and the median norm of the queries.
    largest_reach_margin, largest_reach_margin_bound : float
        The largest margin that any key can get at the largest query norm: attained, and never exceeded.
    median_reach_margin : float
        The attained one at the median norm; NaN with biases.
    largest_reach_probability, largest_reach_probability_bound : float
        The largest probability that any key can get at the largest query norm: attained, and never exceeded.
    keys_do_win : int
        Different keys that win some query.
    usage_entropy, usage_entropy_relative : float
        Entropy of the wins in bits, and over the largest possible.
    sink : int
        The greatest sink, -1 without one.
    sink_share, sink_mass : float
        The share of its readers that it wins, and its mean probability for them.
    n_sinks : int
    wall_distance_median, wall_distance_relative : float
        Median distance of a query to the boundary of its cell, and over the norm of the query.
    wall_distance_rounding : float
        How far rounding may have moved any of these distances, proven.
    """

    layer: int
    head: int
    n_queries: int
    n_keys: int
    margin_median: float
    margin_low: float
    margin_high: float
    top_probability: float
    tv_to_hardmax: float
    output_distance: float
    share_hard_1: float
    share_hard_10: float
    share_measured_1: float
    share_measured_10: float
    share_vacuous: float
    keys_can_win: int
    keys_can_win_of: int
    certified: bool
    position: int
    query_norm: float
    query_norm_median: float
    largest_reach_margin: float
    largest_reach_margin_bound: float
    median_reach_margin: float
    largest_reach_probability: float
    largest_reach_probability_bound: float
    keys_do_win: int
    usage_entropy: float
    usage_entropy_relative: float
    sink: int
    sink_share: float
    sink_mass: float
    n_sinks: int
    wall_distance_median: float
    wall_distance_relative: float
    wall_distance_rounding: float


@dataclass(frozen=True)
class PositionRecord:
    """Keys that can win at one of the positions that were asked for; fields as in :class:`HeadRecord`."""

    layer: int
    head: int
    position: int
    keys_can_win: int
    keys_can_win_of: int
    largest_reach_margin: float
    largest_reach_margin_bound: float
    largest_reach_probability: float
    largest_reach_probability_bound: float


def head_record(
    layer: CapturedLayer, head: int, found: QueryMeasures, reached: KeysThatCanWin, sink_factor: float
) -> HeadRecord:
    """The row of one head, from what its queries do and what its keys can do."""
    usage = key_usage(found, readable(layer, head)[0], factor=sink_factor)
    some = found.choice
    bound, measured = found.total_variation_bound[some], found.total_variation[some]
    norm = found.norm[some]
    walls = found.wall_distance[some]
    relative = np.divide(walls, norm, out=np.zeros(len(walls)), where=norm > 0.0)
    return HeadRecord(
        layer=layer.index,
        head=head,
        n_queries=int(some.sum()),
        n_keys=layer.n_keys,
        margin_median=_median(found.margin[some]),
        margin_low=_quantile(found.margin[some], 0.1),
        margin_high=_quantile(found.margin[some], 0.9),
        top_probability=_median(found.top_probability[some]),
        tv_to_hardmax=_median(measured),
        output_distance=_median(found.output_distance[some]),
        share_hard_1=_share(bound <= 0.01),
        share_hard_10=_share(bound <= 0.1),
        share_measured_1=_share(measured <= 0.01),
        share_measured_10=_share(measured <= 0.1),
        share_vacuous=_share(bound >= 0.5),
        keys_can_win=reached.n_can_win,
        keys_can_win_of=reached.n_present,
        certified=True,
        position=-1 if reached.position is None else reached.position,
        query_norm=reached.query_norm,
        query_norm_median=reached.median_norm,
        largest_reach_margin=reached.margin,
        largest_reach_margin_bound=reached.margin_bound,
        median_reach_margin=reached.margin_at_median,
        largest_reach_probability=reached.probability,
        largest_reach_probability_bound=reached.probability_bound,
        keys_do_win=int((usage.wins > 0).sum()),
        usage_entropy=usage.entropy if some.any() else float("nan"),
        usage_entropy_relative=usage.relative_entropy if some.any() else float("nan"),
        sink=usage.sinks[0] if usage.sinks else -1,
        sink_share=usage.sink_share,
        sink_mass=usage.sink_mass,
        n_sinks=len(usage.sinks),
        wall_distance_median=_median(walls),
        wall_distance_relative=_median(relative),
        wall_distance_rounding=float(found.wall_rounding[some].max(initial=0.0)),
    )


def position_record(layer: int, head: int, position: int, found: KeysThatCanWin) -> PositionRecord:
    """The row of one head and position."""
    return PositionRecord(
        layer,
        head,
        position,
        found.n_can_win,
        found.n_present,
        found.margin,
        found.margin_bound,
        found.probability,
        found.probability_bound,
    )


def _median(values: Floats) -> float:
    return float(np.median(values)) if values.size else float("nan")


def _quantile(values: Floats, q: float) -> float:
    return float(np.quantile(values, q)) if values.size else float("nan")


def _share(flags: NDArray[np.bool_]) -> float:
    return float(flags.mean()) if flags.size else float("nan")
