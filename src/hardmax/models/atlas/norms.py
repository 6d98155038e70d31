"""Norms: as formulas, and which one stands in front of a layer's queries, found by watching the model run.

No table of families is needed: among all norms that ran, the one whose output is the layer's input is the one
that is meant. What was found is rebuilt in double precision and compared, so that an unknown kind of norm is
refused instead of being taken for another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.models.reading.captured_layer import CapturedLayer
from hardmax.models.reading.required import required

__all__ = ["Norm", "NormInputs"]

Floats = NDArray[np.float64]

_TOLERANCE = 1e-3  # relative; half precision leaves this much


@dataclass(frozen=True, eq=False)
class Norm:
    """A layer norm or RMS norm.

    Attributes
    ----------
    centred : bool
        Whether the mean is taken off: layer norms do, RMS norms do not.
    weight, bias : array (d,)
    epsilon : float
        Added to the variance.
    """

    centred: bool
    weight: Floats
    bias: Floats
    epsilon: float

    def parts(self, x: Floats) -> tuple[Floats, Floats]:
        """What is divided (..., d) and what it is divided by (...,)."""
        middle = x - x.mean(axis=-1, keepdims=True) if self.centred else x
        return middle, np.sqrt((middle**2).mean(axis=-1) + self.epsilon)

    def __call__(self, x: Floats) -> Floats:
        """The norm of each row."""
        middle, scale = self.parts(np.asarray(x, dtype=np.float64))
        return np.asarray(self.weight * middle / scale[..., None] + self.bias)

    def frozen(self, x: Floats, at: Floats) -> Floats:
        """The same with mean and scale of ``at``, whatever x is.

        Examples
        --------
        >>> norm = Norm(True, np.ones(2), np.zeros(2), 0.0)
        >>> norm(np.array([[0.0, 2.0], [0.0, 4.0]]))
        array([[-1.,  1.],
               [-1.,  1.]])
        >>> norm.frozen(np.array([0.0, 4.0]), at=np.array([0.0, 2.0]))
        array([-1.,  3.])
        """
        middle, scale = self.parts(np.asarray(at, dtype=np.float64))
        mean = np.asarray(at) - middle
        return np.asarray(self.weight * (np.asarray(x, dtype=np.float64) - mean) / scale + self.bias)


@dataclass(frozen=True, eq=False)
class _Seen:
    name: str
    module: Any
    entered: Floats
    left: Floats


class NormInputs:
    """What went into and out of every norm of a model on one text.

    Attributes
    ----------
    sliced : str
        What the inputs of the norms found so far are, in words.
    """

    def __init__(self, opened: Any, text: str) -> None:
        torch = required("torch")
        self._seen: list[_Seen] = []
        self.sliced = "what enters the norm in front of each layer's queries"
        handles = []
        for name, module in opened.module.named_modules():
            if "norm" in type(module).__name__.lower():
                handles.append(module.register_forward_hook(self._hook(name, module)))
        try:
            with torch.no_grad():
                opened.run(**opened.encode(text))
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, name: str, module: Any) -> Any:
        def hook(_: Any, args: tuple[Any, ...], output: Any) -> None:
            if args and args[0].dim() == 3:
                entered, left = (np.asarray(x[0].detach().double().cpu().numpy()) for x in (args[0], output))
                self._seen.append(_Seen(name, module, entered, left))

        return hook

    def of(self, layer: CapturedLayer) -> tuple[Norm, Floats]:
        """The norm in front of a layer's queries, and what enters it (Q, d_model)."""
        inputs = np.asarray(layer.inputs, dtype=np.float64)
        size = max(float(np.abs(inputs).max(initial=0.0)), 1e-300)
        fits = [
            (float(np.abs(seen.left - inputs).max()) / size, seen)
            for seen in self._seen
            if seen.left.shape == inputs.shape
        ]
        error, best = min(fits, key=lambda fit: fit[0], default=(np.inf, None))
        if best is None or error > _TOLERANCE:
            raise InvalidInputError(
                f"layer {layer.index} must have a norm in front of its queries to freeze, but no norm of the "
                "model puts out what they are computed from; choose other layers with layers=."
            )
        norm = _rebuilt(best, size)
        return norm, best.entered


def _rebuilt(seen: _Seen, size: float) -> Norm:
    """The norm as formulas; a weight may be stored as its difference from one."""
    d = seen.entered.shape[1]
    weight, bias = _stored(seen.module, "weight", np.ones(d)), _stored(seen.module, "bias", np.zeros(d))
    epsilon = float(getattr(seen.module, "eps", getattr(seen.module, "variance_epsilon", 0.0)) or 0.0)
    tries = [
        Norm(centred, scale, bias, epsilon) for scale in (weight, 1.0 + weight) for centred in (True, False)
    ]
    errors = [float(np.abs(norm(seen.entered) - seen.left).max()) / size for norm in tries]
    best = int(np.argmin(errors))
    if errors[best] > _TOLERANCE:
        raise InvalidInputError(
            f"the norm {seen.name} must be a layer norm or an RMS norm, but {type(seen.module).__name__} "
            f"computes something else (relative difference {errors[best]:.2g})."
        )
    return tries[best]


def _stored(module: Any, name: str, otherwise: Floats) -> Floats:
    found = getattr(module, name, None)
    return otherwise if found is None else np.asarray(found.detach().double().cpu().numpy())
