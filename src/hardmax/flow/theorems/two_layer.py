r"""Two-layer feed-forward blocks with real weights: what P2 counts, and what its constructions are made of.

.. math:: y = W_{out} \sigma(W_{in} x + b_{in}) + b_{out}, \qquad \sigma = \tanh \text{ or } 1_{\{z \ge 0\}} .

The parameters of P2 are the entries of the four arrays, zeros included (the *dense* count); its weight bound
is on their absolute values. A block may end in units that hand their input on unchanged: no tanh network has
them, the Heaviside form of a code does, and :func:`hardmax.flow.theorems.codes.analog_code` replaces them by
flat tanh units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError

__all__ = ["TwoLayer", "frozen_array", "positive_number", "stacked"]

Floats = NDArray[np.float64]
Activation = Literal["tanh", "heaviside"]

_BLOCK = 4_000_000  # hidden values that are held at once


@dataclass(frozen=True, eq=False)
class TwoLayer:
    r"""A two-layer block: :math:`x \mapsto W_{out}\,\sigma(W_{in} x + b_{in}) + b_{out}`.

    Parameters
    ----------
    w_in, b_in : array of shape (width, inputs), (width,)
    w_out, b_out : array of shape (outputs, width), (outputs,)
    activation : {"tanh", "heaviside"}
        The Heaviside function is 1 at zero, as in P2.
    n_linear : int
        How many of the last units hand their input on unchanged.

    Examples
    --------
    >>> net = TwoLayer([[1.0], [2.0]], [0.0, -1.0], [[1.0, 1.0]], [0.0], activation="heaviside")
    >>> net([[-1.0], [0.0], [0.5]]).ravel()
    array([0., 1., 2.])
    >>> net.width, net.n_parameters, net.largest_weight
    (2, 7, 2.0)
    """

    w_in: Floats
    b_in: Floats
    w_out: Floats
    b_out: Floats
    activation: Activation = "tanh"
    n_linear: int = 0

    def __post_init__(self) -> None:
        for name, axes in (("w_in", 2), ("b_in", 1), ("w_out", 2), ("b_out", 1)):
            object.__setattr__(self, name, frozen_array(getattr(self, name), name, axes))
        if self.activation not in ("tanh", "heaviside"):
            raise InvalidInputError(f"activation must be tanh or heaviside, but was {self.activation!r}.")
        width = len(self.b_in)
        if len(self.w_in) != width or self.w_out.shape != (len(self.b_out), width):
            shapes = ", ".join(f"{f.name} {np.shape(getattr(self, f.name))}" for f in fields(self)[:4])
            raise DimensionMismatchError(f"the arrays must have one width, but their shapes are {shapes}.")
        if not 0 <= self.n_linear <= width:
            raise InvalidInputError(f"n_linear must lie between 0 and {width}, but was {self.n_linear!r}.")

    @property
    def width(self) -> int:
        """The number of hidden units."""
        return len(self.b_in)

    @property
    def d_in(self) -> int:
        """The number of inputs."""
        return int(self.w_in.shape[1])

    @property
    def d_out(self) -> int:
        """The number of outputs."""
        return len(self.b_out)

    @property
    def n_parameters(self) -> int:
        """Entries of the four arrays, zeros included."""
        return self.w_in.size + self.b_in.size + self.w_out.size + self.b_out.size

    @property
    def largest_weight(self) -> float:
        """The largest absolute value of a weight or bias."""
        return max(
            float(np.abs(part).max(initial=0.0)) for part in (self.w_in, self.b_in, self.w_out, self.b_out)
        )

    def lipschitz(self) -> float:
        r"""A Lipschitz constant in the maximum norms, :math:`\lVert\, |W_{out}|\,|W_{in}|\, \rVert_\infty`.

        For weights of at most B it is at most :math:`p B^2 n` (tanh blocks only).
        """
        if self.activation != "tanh":
            raise InvalidInputError(
                f"activation must be tanh for a Lipschitz constant, but was {self.activation}."
            )
        return float((np.abs(self.w_out) @ np.abs(self.w_in)).sum(axis=1).max(initial=0.0))

    def __call__(self, x: ArrayLike) -> Floats:
        """Values at points: (..., inputs) -> (..., outputs)."""
        points = np.asarray(x, dtype=np.float64)
        if points.ndim == 0 or points.shape[-1] != self.d_in:
            raise DimensionMismatchError(
                f"x must have {self.d_in} entries along its last axis, but has shape {points.shape}."
            )
        if not np.isfinite(points).all():
            raise NotFiniteError("x must be finite, but holds NaN or an infinity.")
        rows = points.reshape(-1, self.d_in)
        values = np.empty((len(rows), self.d_out))
        step = max(1, _BLOCK // max(1, self.width))
        for start in range(0, len(rows), step):
            hidden = rows[start : start + step] @ self.w_in.T + self.b_in
            values[start : start + step] = self._activated(hidden) @ self.w_out.T + self.b_out
        return values.reshape(*points.shape[:-1], self.d_out)

    def _activated(self, hidden: Floats) -> Floats:
        bent = hidden[:, : self.width - self.n_linear]
        if self.activation == "tanh":
            np.tanh(bent, out=bent)
        else:
            bent[...] = bent >= 0.0
        return hidden

    def to_torch(self) -> Any:
        """The block as a ``torch.nn.Module`` in double precision (needs the extra ``training``)."""
        from hardmax.flow.theorems.torch_export import two_layer_module

        return two_layer_module(self)


def stacked(
    units: list[tuple[Floats, Floats, Floats]], b_out: ArrayLike, *, activation: Activation = "tanh"
) -> TwoLayer:
    """The block whose hidden layer is the given groups of units, one below the other.

    Parameters
    ----------
    units : list of (w_in, b_in, w_out)
        Groups of units, ``w_out`` of shape (outputs, units of the group).
    b_out : array
    activation : {"tanh", "heaviside"}

    Examples
    --------
    >>> one = np.ones((1, 1))
    >>> stacked([(one, np.zeros(1), one), (-one, np.zeros(1), one)], [0.5])([[0.3]])
    array([[0.5]])
    """
    w_in, b_in, w_out = (list(part) for part in zip(*units, strict=True))
    return TwoLayer(
        np.concatenate(w_in),
        np.concatenate(b_in),
        np.concatenate(w_out, axis=1),
        np.asarray(b_out, dtype=np.float64),
        activation=activation,
    )


def frozen_array(value: ArrayLike, name: str, axes: int) -> Floats:
    """``value`` as a read-only array of finite floats with so many axes.

    >>> frozen_array([1, 2], "b_in", 1)
    array([1., 2.])
    """
    array = np.array(value, dtype=np.float64)
    if array.ndim != axes:
        raise DimensionMismatchError(f"{name} must have {axes} axes, but has shape {array.shape}.")
    if not np.isfinite(array).all():
        raise NotFiniteError(f"{name} must be finite, but holds NaN or an infinity.")
    array.setflags(write=False)
    return array


def positive_number(value: Any, name: str, *, below: float = math.inf) -> float:
    """``value`` as a float, positive, finite and less than ``below``.

    >>> positive_number(0, "epsilon")
    Traceback (most recent call last):
    hardmax.errors.InvalidInputError: epsilon must be a positive finite number, but was 0.
    """
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (0.0 < number < math.inf and number < below):
        limit = f" below {below:g}" if below < math.inf else ""
        raise InvalidInputError(f"{name} must be a positive finite number{limit}, but was {value!r}.")
    return number
