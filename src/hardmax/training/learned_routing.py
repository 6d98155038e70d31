r"""The routing that a model has learned: who its heads read, how hard, and how attention cuts space.

Three views of the transformer of P2 section 3, for any vector of parameters, trained or not:

* its own routing (the arg-max of every head at every token) as information sets, so that one can ask how
  often CLS can know all that the target depends on (:func:`routed_flow`);
* a layer whose context is held fixed, as the :class:`~hardmax.networks.blocks.Attention` of P1: power
  diagrams of its heads and exact cells on a slice (:func:`fixed_context`, :func:`head_diagram`,
  :func:`cells_in_plane`);
* how hard each head is (:func:`measured_hardness`). Margins are given in units of the temperature: beta times
  the lead of the winning score. A query is hard when its softmax is within a tolerance of hardmax in total
  variation (:func:`hardmax.check_stability`). Information sets follow the arg-max only; a head that spreads
  its weight carries more than that, or less, and the share of hard queries says how far to believe them.

:func:`hardmax.along_training` measures heads, information sets and cells at every checkpoint of a training,
which P1 names as an open question.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.flow import bitsets
from hardmax.flow.architectures import Architecture
from hardmax.flow.information_sets import InformationFlow, Sizes
from hardmax.flow.plans import Plan
from hardmax.flow.propagation import Propagation, lay_out
from hardmax.geometry.diagrams.power_diagrams import PowerDiagram, attention_diagram
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import Affine
from hardmax.networks.network import Network
from hardmax.temperature.observed_scores import check_stability
from hardmax.training.layout import TransformerShape
from hardmax.training.states import head_weights, parameter_arrays, run_states, states_in_blocks

Floats = NDArray[np.float64]


# Routing
# ----------------------------------------------------------------------------------------------------------


def routed_flow(shape: TransformerShape, parameters: ArrayLike, X: ArrayLike) -> InformationFlow:
    """The information sets that the model's own arg-max routing makes on inputs X (B, T, d).

    Every head obeys rule 1 of P2 with the scores that the model really computes, nothing is pruned and
    everything is kept: ``learns(target)`` of the flow says how often CLS holds the active set.
    """
    inputs = np.asarray(X, dtype=np.float64)
    architecture = Architecture(shape.n_tokens, shape.d_token, tuple(shape.heads), tuple(shape.widths))
    plan = _own_scores(shape)
    layout = lay_out(plan, architecture)
    T, L = shape.n_tokens, shape.depth
    small = np.int8 if T <= 128 else np.int16 if T <= 2**15 else np.int32
    found = []
    for _, layers in states_in_blocks(shape, parameters, inputs):
        spread = Propagation(layout, len(layers[0].cls))
        sets, own = spread.first_sets(), np.zeros((spread.n, bitsets.n_words(T)), dtype=np.uint64)
        sizes, of_cls = np.empty((spread.n, L - 1, T), dtype=np.min_scalar_type(T)), []
        for number, layer in enumerate(layers, start=1):
            winners = layer.cls_scores.argmax(axis=-1)[:, None]  # (n, 1, h)
            if layer.scores is not None:
                of_tokens = layer.scores.argmax(axis=-1).swapaxes(1, 2)  # (n, T, h)
                winners = np.concatenate([of_tokens, winners], axis=1)
            spread.winners.append(winners)
            own = spread.cls_sets(number, sets, own)
            of_cls.append(own)
            if number < L:
                sets = spread.token_sets(number, sets)
                sizes[:, number - 1] = bitsets.count(sets)
        words = np.stack(of_cls, axis=1)
        found.append((sizes, bitsets.count(words), words, *(won.astype(small) for won in spread.winners)))
    token_sizes, cls_sizes, cls_words, *routings = map(np.concatenate, zip(*found, strict=True))
    return InformationFlow(
        architecture, plan, inputs, tuple(routings), Sizes(token_sizes, cls_sizes), cls_words, keep="all"
    )


def _own_scores(shape: TransformerShape) -> Plan:
    """Rule 1 for every head, with the names of its scores only: a trained score reads whole states, not the
    slots that a plan knows."""
    absent = dict.fromkeys(("prune", "rank", "query_slots", "key_slots"))
    rest = {"rule": "max", "residual": True, **absent}
    layers = []
    for number, h in enumerate(shape.heads, start=1):
        rules = [{**rest, "score": f"head {i} of layer {number}"} for i in range(1, h + 1)]
        asking = ("cls",) if number == shape.depth else ("tokens", "cls")
        layers.append([{"who": who, "rules": rules} for who in asking])
    return Plan.from_dict({"ties": "lowest", "layers": layers})


# A layer whose context is held fixed
# ----------------------------------------------------------------------------------------------------------


def fixed_context(
    shape: TransformerShape, parameters: ArrayLike, sequence: ArrayLike, *, layer: int = 0
) -> Attention:
    """One attention layer with the states of a sequence as its context: the object of P1.

    The states of the sequence (T, d) before the layer, counted from 0, become keys and values. The result
    acts on states of width E, residual included. Scores are raw, so the model runs it at temperature 1/beta.
    """
    heads = head_weights(shape, parameters, layer)
    states = _states(shape, parameters, sequence, layer)
    return Attention.from_weights(states, list(heads.W_Q), list(heads.W_K), list(heads.W_V), list(heads.W_O))


def query_network(shape: TransformerShape, parameters: ArrayLike, sequence: ArrayLike) -> Network:
    """The first layer as a map of one token: encoder, then attention to a sequence that stays as it is.

    Its cells are where all heads keep their winners while the token moves; ``restrict`` cuts a slice. A token
    of a model with positions would need one, so such models are refused.
    """
    if shape.positions is not None:
        raise InvalidInputError(
            f"shape must have no positions to let a token move freely, but has {shape.positions} ones."
        )
    arrays = parameter_arrays(shape, parameters)
    encoder = Affine(arrays["encoder.weight"], arrays["encoder.bias"])
    return Network((encoder, fixed_context(shape, parameters, sequence)))


def head_diagram(
    shape: TransformerShape, parameters: ArrayLike, sequence: ArrayLike, head: int, *, layer: int = 0
) -> PowerDiagram:
    """The power diagram of one head with the context held fixed: in the space of tokens for the first layer,
    in that of states otherwise.
    """
    if not 0 <= layer < shape.depth or not 0 <= head < shape.heads[layer]:
        raise InvalidInputError(
            f"layer and head must be among those of heads {tuple(shape.heads)}, counted from 0, but were "
            f"{layer} and {head}."
        )
    heads = head_weights(shape, parameters, layer)
    keys = _states(shape, parameters, sequence, layer) @ heads.W_K[head].T
    if layer or shape.positions is not None:
        return attention_diagram(keys, query_map=(heads.W_Q[head], None))
    arrays = parameter_arrays(shape, parameters)
    asks = heads.W_Q[head] @ arrays["encoder.weight"], heads.W_Q[head] @ arrays["encoder.bias"]
    return attention_diagram(keys, query_map=asks)


def _states(shape: TransformerShape, parameters: ArrayLike, sequence: ArrayLike, layer: int) -> Floats:
    tokens = np.asarray(sequence, dtype=np.float64)
    if tokens.ndim != 2:
        raise DimensionMismatchError(
            f"sequence must have the shape (T, d) = ({shape.n_tokens}, {shape.d_token}), but had "
            f"{tokens.shape}."
        )
    return np.asarray(run_states(shape, parameters, tokens[None])[0][layer].tokens[0])


def cells_in_plane(
    shape: TransformerShape, parameters: ArrayLike, sequence: ArrayLike, plane: ArrayLike, radius: float
) -> int:
    """Exact cells of the first layer in a square of a plane through the origin of token space.

    ``plane`` holds two directions (2, d); cells are routings of all heads of the layer.
    """
    from hardmax.geometry.domains import Box
    from hardmax.regions.api import count_cells

    directions = np.asarray(plane, dtype=np.float64)
    network = query_network(shape, parameters, sequence)
    sliced = network.restrict(np.zeros(shape.d_token), directions)
    return int(count_cells(sliced, Box.cube(len(directions), -radius, radius)).n_cells)


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
    """Margins in units of temperature and shares of hard queries on inputs X (B, T, d), head by head.

    A query is hard when its total variation distance to hardmax is at most ``tolerance``.
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
                    typical, low = float(np.median(margin)), float(np.quantile(margin, 0.1))
                    needed = report.margin_needed / temperature
                    rows.append(Hardness(number + 1, i + 1, who, report.share_hard, typical, low, needed))
    return tuple(rows)
