r"""Shapes of P2's transformers, and how all their parameters lie in one vector.

A shape says everything about the transformer of P2 section 3 but the numbers: length and dimension of the
input, widths :math:`E_l = h_l n_l`, heads :math:`h_l`, hidden widths :math:`w_l` of the feed-forward blocks
(the last is that of the output block), activation, positions and the inverse temperatures :math:`\beta_l`.
The numbers are one vector of single precision, which is what training steps, files and studies handle;
:meth:`TransformerShape.split` shows it as named matrices without copying.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.randomness import generator_of

Floats = NDArray[np.float32]

ACTIVATIONS = ("tanh", "gelu", "relu")
POSITIONS = (None, "additive", "appended")


@dataclass(frozen=True)
class Parameter:
    """One named array inside the vector: ``vector[offset : offset + size].reshape(shape)``."""

    name: str
    shape: tuple[int, ...]
    offset: int
    fan_in: int

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class TransformerShape:
    r"""The shape of a transformer of P2 section 3.

    Parameters
    ----------
    n_tokens, d_token : int
        Length T and dimension d of the input; CLS comes on top.
    widths, heads : tuple of int
        :math:`E_l` and :math:`h_l`, one per layer; heads divide widths.
    hidden : tuple of int
        Hidden widths :math:`w_l` of the feed-forward blocks, the last for the output block.
    n_outputs : int
        The dimension of the output.
    activation : {"tanh", "gelu", "relu"}
        tanh is the paper's kind (sigmoidal, 1-Lipschitz); GELU, in its tanh form, is a deviation from it, and
        so is ReLU, which makes the transformer piecewise affine at temperature zero.
    positions : {None, "additive", "appended"}
        Learned positions: none, added to the embedded token, or standing beside it.
    beta : float or tuple of float, optional
        Inverse temperature of each layer; :math:`1/\sqrt{n_l}` when left out.
    d_position : int, optional
        Coordinates that appended positions take; half of :math:`E_1` when left out.
    encoder_hidden : int
        Hidden width of the token encoder; 0 for a linear one.
    layer_norm : bool
        Normalise what comes out of each attention layer (the variant of appendix C.3).
    cls_position : bool
        Give CLS a position of its own and let it start at zero (appendix C.3); needs positions.

    Examples
    --------
    The model of appendix C.4 for D = 2:

    >>> import numpy as np
    >>> shape = TransformerShape(64, 4, widths=(12, 12), heads=(2, 2), hidden=(32, 32))
    >>> shape.n_parameters, shape.head_widths
    (2485, (6, 6))
    >>> [parameter.name for parameter in shape.parameters[:4]]
    ['encoder.weight', 'encoder.bias', 'cls', 'layers.0.query']
    >>> vector = shape.initial(np.random.default_rng(0))
    >>> shape.split(vector)["layers.1.out.weight"].shape
    (1, 32)
    """

    n_tokens: int
    d_token: int
    widths: tuple[int, ...]
    heads: tuple[int, ...]
    hidden: tuple[int, ...]
    n_outputs: int = 1
    activation: str = "tanh"
    positions: str | None = None
    beta: tuple[float, ...] | float | None = None
    d_position: int | None = None
    encoder_hidden: int = 0
    layer_norm: bool = False
    cls_position: bool = False

    def __post_init__(self) -> None:
        for name in ("n_tokens", "d_token", "n_outputs"):
            object.__setattr__(self, name, as_integer(getattr(self, name), name))
        object.__setattr__(self, "encoder_hidden", as_integer(self.encoder_hidden, "encoder_hidden", least=0))
        for name in ("widths", "heads", "hidden"):
            object.__setattr__(self, name, _integers(getattr(self, name), name))
        if not len(self.widths) == len(self.heads) == len(self.hidden):
            raise DimensionMismatchError(
                "widths, heads and hidden must have one entry for each layer, but have "
                f"{len(self.widths)}, {len(self.heads)} and {len(self.hidden)}."
            )
        for layer, (width, heads) in enumerate(zip(self.widths, self.heads, strict=True)):
            if width % heads:
                raise InvalidInputError(
                    f"heads must divide widths, but {heads} heads do not divide the width {width} of layer "
                    f"{layer}; try {-(-width // heads) * heads}."
                )
        if self.activation not in ACTIVATIONS:
            known = ", ".join(map(repr, ACTIVATIONS))
            raise InvalidInputError(f"activation must be one of {known}, but was {self.activation!r}.")
        if self.positions not in POSITIONS:
            raise InvalidInputError(
                f"positions must be None, 'additive' or 'appended', but was {self.positions!r}."
            )
        object.__setattr__(self, "beta", self._temperatures())
        object.__setattr__(self, "d_position", self._position_width())
        if self.cls_position and self.positions is None:
            raise InvalidInputError("cls_position needs positions, but positions was None; try 'additive'.")

    def _temperatures(self) -> tuple[float, ...]:
        beta: Any = self.beta
        if beta is None:
            return tuple(1.0 / math.sqrt(n) for n in self.head_widths)
        values = tuple(float(b) for b in beta) if isinstance(beta, Sequence) else (float(beta),) * self.depth
        if len(values) != self.depth:
            raise DimensionMismatchError(
                f"beta must be one number or one for each of {self.depth} layers, but has {len(values)}."
            )
        if not all(math.isfinite(b) and b > 0 for b in values):
            raise InvalidInputError(f"beta must be positive, but was {beta}.")
        return values

    def _position_width(self) -> int | None:
        if self.positions is None:
            return None
        if self.positions == "additive":
            return self.widths[0]
        wide = self.widths[0] // 2 if self.d_position is None else as_integer(self.d_position, "d_position")
        if not 0 < wide < self.widths[0]:
            raise InvalidInputError(
                f"d_position must be between 1 and {self.widths[0] - 1}, one less than the first width, but "
                f"was {wide}."
            )
        return wide

    # Derived numbers
    # -----------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """The number of layers L."""
        return len(self.widths)

    @property
    def head_widths(self) -> tuple[int, ...]:
        """:math:`n_l = E_l / h_l`."""
        return tuple(width // heads for width, heads in zip(self.widths, self.heads, strict=True))

    @property
    def betas(self) -> tuple[float, ...]:
        """The inverse temperature of each layer."""
        assert isinstance(self.beta, tuple)
        return self.beta

    @property
    def d_embedded(self) -> int:
        """Coordinates of an embedded token: :math:`E_1`, less those that appended positions take."""
        taken = self.d_position if self.positions == "appended" else 0
        return self.widths[0] - (taken or 0)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Every parameter in the order in which it stands in the vector."""
        listed: list[Parameter] = []
        at = 0
        for name, shape, fan_in in self._arrays():
            listed.append(Parameter(name, shape, at, fan_in))
            at += math.prod(shape)
        return tuple(listed)

    def _arrays(self) -> list[tuple[str, tuple[int, ...], int]]:
        """Names, shapes and the number of inputs that a row weighs (0: not a linear map)."""
        d, first, inner = self.d_token, self.d_embedded, self.encoder_hidden
        arrays: list[tuple[str, tuple[int, ...], int]] = []

        def linear(name: str, rows: int, columns: int) -> None:
            arrays.append((f"{name}.weight", (rows, columns), columns))
            arrays.append((f"{name}.bias", (rows,), columns))

        if inner:
            linear("encoder_hidden", inner, d)
        linear("encoder", first, inner or d)
        arrays.append(("cls", (self.widths[0],), 0))
        if self.d_position is not None:
            arrays.append(("positions", (self.d_position, self.n_tokens + self.cls_position), 0))
        for layer, (width, hidden) in enumerate(zip(self.widths, self.hidden, strict=True)):
            above = self.widths[layer + 1] if layer + 1 < self.depth else self.n_outputs
            for part in ("query", "key", "value", "output"):
                arrays.append((f"layers.{layer}.{part}", (width, width), width))
            if self.layer_norm:
                arrays.append((f"layers.{layer}.norm.weight", (width,), 0))
                arrays.append((f"layers.{layer}.norm.bias", (width,), 0))
            linear(f"layers.{layer}.hidden", hidden, width)
            linear(f"layers.{layer}.out", above, hidden)
        return arrays

    @property
    def n_parameters(self) -> int:
        """The length of the vector."""
        return self.parameters[-1].offset + self.parameters[-1].size

    # The vector
    # ----------------------------------------------------------------------------------------------------

    def initial(self, rng: int | np.random.Generator) -> Floats:
        r"""A random vector to start from.

        Weights and biases are uniform on :math:`\pm 1/\sqrt{\text{inputs}}`, CLS and positions standard
        normal, CLS zero where it has a position of its own, layer norms the identity. The paper states none
        of this but the last zero.
        """
        generator = generator_of(rng)
        vector = np.zeros(self.n_parameters, dtype=np.float32)
        for parameter in self.parameters:
            place = slice(parameter.offset, parameter.offset + parameter.size)
            if parameter.fan_in:
                bound = 1.0 / math.sqrt(parameter.fan_in)
                vector[place] = generator.uniform(-bound, bound, parameter.size)
            elif parameter.name == "positions" or (parameter.name == "cls" and not self.cls_position):
                vector[place] = generator.standard_normal(parameter.size)
            elif parameter.name.endswith("norm.weight"):
                vector[place] = 1.0
        return vector

    def split(self, vector: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The vector as named arrays that share its memory."""
        flat = np.asarray(vector)
        if flat.shape != (self.n_parameters,):
            raise DimensionMismatchError(
                f"vector must hold the {self.n_parameters} parameters of this shape, but has shape "
                f"{flat.shape}."
            )
        return {p.name: flat[p.offset : p.offset + p.size].reshape(p.shape) for p in self.parameters}

    def join(self, arrays: Mapping[str, ArrayLike]) -> Floats:
        """The vector of named arrays; the inverse of :meth:`split`."""
        names = [parameter.name for parameter in self.parameters]
        foreign = sorted(set(arrays) - set(names))
        missing = [name for name in names if name not in arrays]
        if foreign or missing:
            problem = f"holds the unknown {foreign[0]!r}" if foreign else f"lacks {missing[0]!r}"
            raise DimensionMismatchError(
                f"arrays must be the {len(names)} parameters of this shape, but {problem}."
            )
        vector = np.empty(self.n_parameters, dtype=np.float32)
        for parameter in self.parameters:
            array = np.asarray(arrays[parameter.name])
            if array.shape != parameter.shape:
                raise DimensionMismatchError(
                    f"{parameter.name} must have shape {parameter.shape}, but has shape {array.shape}."
                )
            vector[parameter.offset : parameter.offset + parameter.size] = array.ravel()
        return vector

    def to_json(self) -> dict[str, Any]:
        """The shape in plain Python."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> TransformerShape:
        """The shape that :meth:`to_json` described."""
        known: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in plain.items()}
        unknown = sorted(set(known) - set(cls.__dataclass_fields__))
        if unknown:
            raise InvalidInputError(f"a shape has no entry {unknown[0]!r}.")
        return cls(**known)


def as_integer(value: Any, name: str, least: int = 1) -> int:
    """A whole number that is large enough, whatever type it came in.

    Examples
    --------
    >>> as_integer(4.0, "batch")
    4
    """
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):  # None, a word, infinity
        number = least - 1
    if isinstance(value, bool) or number != value or number < least:
        raise InvalidInputError(f"{name} must be a whole number, {least} or more, but was {value}.")
    return number


def _integers(values: Any, name: str) -> tuple[int, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise InvalidInputError(f"{name} must be one whole number per layer, but was {values!r}.")
    return tuple(as_integer(value, name) for value in values)
