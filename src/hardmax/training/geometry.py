r"""The geometry of a trained model: who its heads really read, and how its attention cuts space.

Two views of the transformer of P2 section 3, for any vector of parameters, trained or not:

* its own routing (the arg-max of every head at every token) as information sets, so that one can ask how
  often CLS can know all that the target depends on (:func:`routed_flow`);
* a layer whose context is held fixed, as the :class:`~hardmax.networks.blocks.Attention` of P1: power
  diagrams of its heads and exact cells on a slice (:func:`fixed_context`, :func:`head_diagram`,
  :func:`cells_in_plane`).

Information sets follow the arg-max only. A head that spreads its weight carries more than that, or less: the
share of hard queries (:mod:`hardmax.training.hardness`) says how far the sets are to be believed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.flow import bitsets
from hardmax.flow.architectures import Architecture
from hardmax.flow.information_sets import InformationFlow, Sizes
from hardmax.flow.plans import Plan
from hardmax.flow.propagation import Propagation, lay_out
from hardmax.geometry.diagrams.power_diagrams import PowerDiagram, attention_diagram
from hardmax.networks.blocks import Affine, Attention
from hardmax.networks.network import Network
from hardmax.training.layout import TransformerShape
from hardmax.training.states import head_weights, parameter_arrays, run_states, states_in_blocks

__all__ = ["cells_in_plane", "fixed_context", "head_diagram", "query_network", "routed_flow"]

Floats = NDArray[np.float64]


# Routing
# ----------------------------------------------------------------------------------------------------------


def routed_flow(shape: TransformerShape, parameters: ArrayLike, X: ArrayLike) -> InformationFlow:
    """The information sets that the model's own arg-max routing makes on given inputs.

    Every head obeys rule 1 of P2 with the scores that the model really computes, nothing is pruned.

    Parameters
    ----------
    shape : TransformerShape
    parameters : array
    X : array (B, T, d)

    Returns
    -------
    InformationFlow
        With everything kept: ``learns(target)`` says how often CLS holds the active set.
    """
    inputs = np.asarray(X, dtype=np.float64)
    architecture = Architecture(shape.n_tokens, shape.d_token, tuple(shape.heads), tuple(shape.widths))
    plan = _own_scores(shape)
    layout = lay_out(plan, architecture)
    T, L = shape.n_tokens, shape.depth
    small = np.int8 if T <= 128 else np.int16 if T <= 2**15 else np.int32
    routings: list[list[NDArray[Any]]] = [[] for _ in range(L)]
    token_sizes, cls_sizes, cls_words = [], [], []
    for _, layers in states_in_blocks(shape, parameters, inputs):
        n = len(layers[0].cls)
        spread = Propagation(layout, n)
        sets, own = spread.first_sets(), np.zeros((n, bitsets.n_words(T)), dtype=np.uint64)
        sizes, of_cls, words = np.empty((n, L - 1, T), dtype=np.min_scalar_type(T)), [], []
        for number, layer in enumerate(layers, start=1):
            asked = layer.cls_scores.argmax(axis=-1)  # (n, h)
            spread.cls_winners.append(asked)
            winners = asked[:, None]
            if layer.scores is not None:
                of_tokens = layer.scores.argmax(axis=-1).swapaxes(1, 2)  # (n, T, h)
                spread.token_winners.append(of_tokens)
                winners = np.concatenate([of_tokens, winners], axis=1)
            own = spread.cls_sets(number, sets, own)
            words.append(own)
            of_cls.append(bitsets.count(own))
            if number < L:
                sets = spread.token_sets(number, sets)
                sizes[:, number - 1] = bitsets.count(sets)
            routings[number - 1].append(winners.astype(small))
        token_sizes.append(sizes)
        cls_sizes.append(np.stack(of_cls, axis=1))
        cls_words.append(np.stack(words, axis=1))
    return InformationFlow(
        architecture=architecture,
        plan=plan,
        X=inputs,
        routings=tuple(np.concatenate(parts) for parts in routings),
        sizes=Sizes(np.concatenate(token_sizes), np.concatenate(cls_sizes)),
        cls_words=np.concatenate(cls_words),
        keep="all",
    )


def _own_scores(shape: TransformerShape) -> Plan:
    """Rule 1 for every head, with the names of its scores only: a trained score reads whole states, not the
    slots that a plan knows."""
    rest = {
        "rule": "max",
        "prune": None,
        "residual": True,
        "rank": None,
        "query_slots": None,
        "key_slots": None,
    }
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

    Parameters
    ----------
    shape : TransformerShape
    parameters : array
    sequence : array (T, d)
        Its states before the layer become keys and values.
    layer : int
        Counted from 0.

    Returns
    -------
    Attention
        On states of width E, residual included. Scores are raw, so the model runs it at temperature 1/beta.
    """
    states = _states(shape, parameters, sequence, layer)
    heads = head_weights(shape, parameters, layer)
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
    if not 0 <= layer < shape.depth:
        raise InvalidInputError(f"layer must be between 0 and {shape.depth - 1}, but was {layer}.")
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
