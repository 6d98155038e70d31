"""A torch ``Sequential`` read by duck typing: torch is never imported.

What counts is the name of a module's class and its numbers. Linear maps, ReLUs, leaky ones and max-pooling
over the coordinates of a point are read, modules that do nothing in evaluation are passed over, and
everything else is refused by name, all at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.networks.blocks import Affine, Block, FeedForward, Maxout

_SILENT = ("Identity", "Flatten", "Dropout", "Dropout1d", "AlphaDropout", "FeatureAlphaDropout")


@dataclass(frozen=True)
class _Linear:
    weight: NDArray[Any]
    bias: NDArray[Any] | None


@dataclass(frozen=True)
class _Units:
    """ReLUs, with the slope that they have when they are off."""

    slope: Any


@dataclass(frozen=True)
class _Pool:
    """Max-pooling of a row of coordinates."""

    kernel: int
    stride: int
    padding: int
    dilation: int
    ceil: bool

    def windows(self, d: int) -> list[list[int]]:
        """The coordinates of each window; those that stand in the padding never win."""
        room = d + 2 * self.padding - self.dilation * (self.kernel - 1) - 1
        count = (-(-room // self.stride) if self.ceil else room // self.stride) + 1
        if self.ceil and (count - 1) * self.stride >= d + self.padding:
            count -= 1  # torch drops a window that starts in the padding behind
        starts = [i * self.stride - self.padding for i in range(max(count, 0))]
        inside = [[start + self.dilation * j for j in range(self.kernel)] for start in starts]
        return [[i for i in window if 0 <= i < d] for window in inside]


_Step = _Linear | _Units | _Pool


def blocks_of_module(module: Any) -> tuple[Block, ...]:
    """The blocks of a torch module; see :meth:`hardmax.networks.network.Network.from_torch`."""
    steps: list[_Step] = []
    refused = []
    for path, part in _flat(module, ""):
        kind = type(part).__name__
        if kind == "Linear":
            steps.append(_linear(part, path))
        elif kind == "ReLU":
            steps.append(_Units(0))
        elif kind == "LeakyReLU" and hasattr(part, "negative_slope"):
            steps.append(_Units(part.negative_slope))
        elif kind == "PReLU" and hasattr(part, "weight"):
            slopes = _array(part.weight)
            steps.append(_Units(slopes[0] if slopes is not None and slopes.shape == (1,) else slopes))
        elif kind == "MaxPool1d" and hasattr(part, "kernel_size") and not _says(part, "return_indices"):
            steps.append(_pool(part))
        elif kind not in _SILENT:
            refused.append(f"{kind} at {path}")
        elif "Dropout" in kind and getattr(part, "training", False) and getattr(part, "p", 0.0) > 0:
            refused.append(f"{kind} at {path} in training mode (call module.eval() first)")
    if refused:
        raise InvalidInputError(
            "module must be made of Linear, ReLU, LeakyReLU, PReLU, MaxPool1d and modules that do nothing in "
            f"evaluation, but holds {', '.join(refused)}."
        )
    return tuple(_blocks(steps))


def _flat(module: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The parts of nested Sequentials in order, with the names that torch prints."""
    if type(module).__name__ != "Sequential":
        yield path or "the top", module
        return
    children = getattr(module, "named_children", None)
    named = children() if children is not None else ((str(i), part) for i, part in enumerate(module))
    for name, part in named:
        yield from _flat(part, f"{path}.{name}" if path else name)


def _linear(part: Any, path: str) -> _Linear:
    weight = _array(getattr(part, "weight", None))
    if weight is None or weight.ndim != 2:
        raise InvalidInputError(f"the Linear at {path} must have a weight matrix, but has none.")
    return _Linear(weight, _array(getattr(part, "bias", None)))


def _pool(part: Any) -> _Pool:
    def number(name: str, default: int) -> int:
        value = getattr(part, name, None)
        return default if value is None else int(np.ravel(value)[0])

    kernel = number("kernel_size", 1)
    return _Pool(
        kernel,
        number("stride", kernel),
        number("padding", 0),
        number("dilation", 1),
        _says(part, "ceil_mode"),
    )


def _says(part: Any, name: str) -> bool:
    return bool(getattr(part, name, False))


def _array(tensor: Any) -> NDArray[Any] | None:
    if tensor is None:
        return None
    for step in ("detach", "cpu", "double"):  # numpy knows no bfloat16; as doubles all torch floats are exact
        tensor = getattr(tensor, step)() if hasattr(tensor, step) else tensor
    return np.asarray(tensor)


def _blocks(steps: list[_Step]) -> Iterator[Block]:
    """Blocks: Linear, ReLU, Linear make one; a ReLU after a block reads its output directly."""
    width = _input_width(steps)
    linear = 0
    i = 0
    while i < len(steps):
        step = steps[i]
        after = steps[i + 1] if i + 1 < len(steps) else None
        if isinstance(step, _Linear):
            _check_fit(step, linear, width)
            width, linear, i = step.weight.shape[0], linear + 1, i + 1
            if not isinstance(after, _Units):
                yield Affine(step.weight, step.bias)
                continue
            units, before = after, step
            after = steps[i + 1] if i + 1 < len(steps) else None
        elif isinstance(step, _Pool):
            yield Maxout.pool(width, _checked_windows(step, width))
            width, i = len(step.windows(width)), i + 1
            continue
        else:
            units, before = step, _Linear(np.empty(0), None)
        w_in, b_in = (None, None) if before.weight.size == 0 else (before.weight, before.bias)
        if isinstance(after, _Linear):
            _check_fit(after, linear, width)
            yield FeedForward(w_in, b_in, after.weight, after.bias, slope=units.slope)
            width, linear, i = after.weight.shape[0], linear + 1, i + 2
        else:  # the end, or something else behind it
            yield FeedForward(w_in, b_in, np.eye(width), None, slope=units.slope)
            i += 1


def _input_width(steps: list[_Step]) -> int:
    """What the first Linear takes, which nothing before it may change."""
    for step in steps:
        if isinstance(step, _Linear):
            return int(step.weight.shape[1])
        if isinstance(step, _Pool):
            raise InvalidInputError(
                "module must begin with a Linear before its first MaxPool1d, or the width of its input is "
                "unknown; try Network([Maxout.pool(d, windows), ...])."
            )
    raise InvalidInputError("module must hold at least one Linear, but has none; its width is unknown.")


def _check_fit(linear: _Linear, number: int, width: int) -> None:
    if linear.weight.shape[1] != width:
        raise DimensionMismatchError(
            f"Linear number {number} must take the {width} coordinates that come before it, but takes "
            f"{linear.weight.shape[1]}."
        )


def _checked_windows(pool: _Pool, width: int) -> list[list[int]]:
    windows = pool.windows(width)
    if not windows or not all(windows):
        raise DimensionMismatchError(
            f"a MaxPool1d of kernel {pool.kernel} must fit into the {width} coordinates before it, but does "
            "not."
        )
    return windows
