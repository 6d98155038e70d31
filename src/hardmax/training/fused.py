"""The fused step: what the kernels need to know of a shape, and the vectors they work on.

Compiled once for all shapes; sizes are data. The first use in a process takes a few seconds to load the
kernels, the first on a machine to compile them (``hardmax compile`` does it beforehand).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError
from hardmax.training import fused_kernels
from hardmax.training.fused_kernels import (
    ADDITIVE,
    APPENDED,
    DERIVE,
    GELU,
    LANES,
    LAYER,
    LEARN,
    LOOK,
    NO_POSITIONS,
    RELU,
    TANH,
)
from hardmax.training.layout import TransformerShape

Floats = NDArray[np.float32]

_BLOCK = 128  # columns that products with weights like to see at once
_GROUP = 16  # CLS tokens side by side; more would push the states of their tokens out of the cache
_LINE = 64  # bytes of a cache line
_NOTHING = np.zeros(0, dtype=np.float32)


class _Room:
    """Hands out places in the work space, each at the beginning of a cache line."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, n: int) -> int:
        at = self.size
        self.size += -(-n // 16) * 16
        return at


def planned(shape: TransformerShape) -> tuple[Any, NDArray[Any], NDArray[np.float32], int]:
    """The plan, the table of layers, the inverse temperatures, and the size of the work space."""
    own = -(-shape.n_tokens // LANES) * LANES
    group, side_by_side = _GROUP, 1
    while 2 * side_by_side * own <= _BLOCK and 2 * side_by_side <= group:
        side_by_side *= 2
    columns, rows = side_by_side * own, -(-shape.n_tokens // 4) * 4
    at = {parameter.name: parameter.offset for parameter in shape.parameters}
    room = _Room()
    layers = np.zeros(shape.depth, dtype=LAYER)
    for l in range(shape.depth):
        _lay_out(layers[l], l, shape, at, room, own, rows)
    tokens, E, w = group * own, max(shape.widths), max(*shape.hidden, shape.encoder_hidden)
    heads = max(h * width for h, width in zip(shape.heads, shape.widths, strict=True))
    work = {
        "inputs": shape.d_token * tokens,
        "embedded_pre": shape.encoder_hidden * tokens,
        "embedded_act": shape.encoder_hidden * tokens,
        "output": shape.n_outputs * group,
        "d_output": max(E, shape.n_outputs) * group,
        **dict.fromkeys(("dx", "dx_above"), E * tokens),
        **dict.fromkeys(("dy", "da"), E * columns),
        "dqkv": 3 * E * columns,
        "dp": rows * own,
        "dh": w * columns,
        **dict.fromkeys(("dc", "dcy", "dv", "dq"), E * group),
        "dch": w * group,
        "du": heads * group,
        "dd": own,
    }
    same = ("depth", "n_tokens", "d_token", "n_outputs", "cls_position", "layer_norm", "d_embedded")
    plan = fused_kernels.Plan(
        **{name: int(getattr(shape, name)) for name in (*same, "encoder_hidden")},
        activation={"tanh": TANH, "gelu": GELU, "relu": RELU}[shape.activation],
        positions={None: NO_POSITIONS, "additive": ADDITIVE, "appended": APPENDED}[shape.positions],
        d_position=shape.d_position or 0,
        first_weight=at.get("encoder_hidden.weight", 0),
        first_bias=at.get("encoder_hidden.bias", 0),
        encoder_weight=at["encoder.weight"],
        encoder_bias=at["encoder.bias"],
        cls=at["cls"],
        place=at.get("positions", 0),
        own=own,
        columns=columns,
        group=group,
        rows=rows,
        **{name: room.take(size) for name, size in work.items()},
    )
    return plan, layers, np.array(shape.betas, dtype=np.float32), room.size


def _lay_out(
    layer: Any, l: int, shape: TransformerShape, at: dict[str, int], room: _Room, own: int, rows: int
) -> None:
    E, h, w, group = shape.widths[l], shape.heads[l], shape.hidden[l], _GROUP
    top = l + 1 == shape.depth
    sizes = {"width": E, "heads": h, "hidden": w, "above": shape.n_outputs if top else shape.widths[l + 1]}
    for name, size in sizes.items():
        layer[name] = size
    for part in ("query", "key", "value", "output"):
        layer[part] = at[f"layers.{l}.{part}"]
    for part in ("norm", "hidden", "out"):
        for kind in ("weight", "bias"):
            layer[f"{part}_{kind}"] = at.get(f"layers.{l}.{part}.{kind}", 0)
    tokens = group * own
    normed = int(shape.layer_norm)
    states = {"x": E * tokens}
    if not top:
        states |= {"qkv": 3 * E * tokens, "e": group * h * rows * own, "r": group * h * own}
        states |= {"a": E * tokens, "y": E * tokens, "pre": w * tokens, "act": w * tokens}
        states |= {"hat": normed * E * tokens, "spread": normed * tokens}
    for name, size in states.items():
        layer[name] = room.take(size)
    room.take(h * E * group)  # the derivative of z stands right before u: one product uses both
    layer["u"] = room.take(h * E * group)
    own_states = {"c": E, "q": E, "z": h * E, "v": E, "cy": E, "cpre": w, "cact": w}
    own_states |= {"chat": normed * E, "cspread": normed}
    for name, n in own_states.items():
        layer[name] = room.take(n * group)
    layer["p"] = room.take(2 * h * own * group)  # weights and their derivatives


def _aligned(n: int) -> Floats:
    """``n`` zeros that begin at a cache line: a vector that crosses one costs two accesses."""
    memory = np.zeros(n + _LINE // 4, dtype=np.float32)
    shift = -memory.ctypes.data % _LINE // 4
    return memory[shift : shift + n]


def _seen(array: NDArray[Any], kind: Any) -> NDArray[Any]:
    """The array as a read-only row: kernels are compiled once, not again for arrays that may be written."""
    row = np.ascontiguousarray(array, dtype=kind).reshape(-1).view()
    row.setflags(write=False)
    return row


class FusedSteps:
    """AdamW steps on the mean squared error, forward, backward and update in one kernel.

    Examples
    --------
    >>> shape = TransformerShape(3, 1, widths=(4,), heads=(1,), hidden=(8,))
    >>> steps = FusedSteps(shape, shape.initial(0), batch=2)
    >>> X, Y = np.zeros((2, 3, 1), np.float32), np.ones((2, 1), np.float32)
    >>> before = steps.run(X, Y, np.arange(2), np.array([1e-2]))
    >>> steps.run(X, Y, np.arange(2), np.array([1e-2])) < before
    True
    """

    def __init__(
        self,
        shape: TransformerShape,
        vector: Floats,
        *,
        batch: int = 128,
        weight_decay: float = 1e-2,
        clip: float = 1.0,
    ) -> None:
        self._shape, self._batch, self._decay, self._clip = shape, batch, weight_decay, clip
        self._plan, self._layers, self._betas, size = planned(shape)
        padded = -(-shape.n_parameters // LANES) * LANES
        self._theta, self._grad, self._first, self._second = (_aligned(padded) for _ in range(4))
        self._theta[: shape.n_parameters] = vector
        self._ws = _aligned(size)
        self._step = 0

    @property
    def parameters(self) -> Floats:
        """A copy of the vector."""
        return self._theta[: self._shape.n_parameters].copy()

    def run(self, X: Floats, Y: Floats, order: NDArray[np.int64], rates: NDArray[np.float64]) -> float:
        """One step for each rate, on consecutive batches of ``order``; the mean loss."""
        loss = self._pass(X, Y, order, self._batch, rates, LEARN, _NOTHING)
        self._step += len(rates)
        return loss

    def predict(self, X: Floats) -> Floats:
        """(B, T, d) -> (B, outputs)."""
        out = np.empty((len(X), self._shape.n_outputs), dtype=np.float32)
        self._pass(X, _NOTHING, np.arange(len(X)), len(X), np.zeros(1), LOOK, out.reshape(-1))
        return out

    def gradient(self, X: Floats, Y: Floats) -> tuple[float, Floats]:
        """The mean squared error over all sequences, and its gradient."""
        loss = self._pass(X, Y, np.arange(len(X)), len(X), np.zeros(1), DERIVE, _NOTHING)
        found = self._grad[: self._shape.n_parameters].copy()
        self._grad[:] = 0.0
        return loss, found

    def _pass(
        self,
        X: Floats,
        Y: Floats,
        order: NDArray[np.int64],
        batch: int,
        rates: NDArray[np.float64],
        task: int,
        out: Floats,
    ) -> float:
        self._check(X, Y, order, batch * len(rates), task)
        given = (_seen(X, np.float32), _seen(Y, np.float32), _seen(order, np.int64))
        vectors = (self._theta, self._grad, self._first, self._second, self._ws)
        loss = fused_kernels.run(
            *(self._plan, self._layers, self._betas, vectors, *given, batch, self._step),
            *(_seen(rates, np.float64), self._decay, self._clip, task, out),
        )
        return float(loss)

    def _check(self, X: Floats, Y: Floats, order: NDArray[np.int64], needed: int, task: int) -> None:
        """Kernels do not check what they read, so arrays that do not fit are refused here."""
        shape = self._shape
        if X.shape[1:] != (shape.n_tokens, shape.d_token):
            raise DimensionMismatchError(
                f"X must have shape (B, {shape.n_tokens}, {shape.d_token}), but has shape {X.shape}."
            )
        if task != LOOK and Y.shape != (len(X), shape.n_outputs):
            raise DimensionMismatchError(
                f"Y must have shape {(len(X), shape.n_outputs)}, but has shape {Y.shape}."
            )
        if len(order) < needed or (len(order) and not 0 <= order.min() <= order.max() < len(X)):
            raise DimensionMismatchError(
                f"order must name {needed} of {len(X)} sequences, but has {len(order)} entries, or others."
            )
