"""What became of the information: the result of :func:`hardmax.information_sets`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, IncompleteError, InvalidInputError
from hardmax.flow import bitsets
from hardmax.flow.architectures import Architecture
from hardmax.flow.bitsets import Words
from hardmax.flow.plans import Plan
from hardmax.flow.propagation import Propagation
from hardmax.flow.slots import Layout, lay_out
from hardmax.results import Result

__all__ = ["HasActiveSet", "InformationFlow", "Learning", "Sizes"]

_BLOCK_WORDS = 1 << 20


class Sizes(NamedTuple):
    """The sizes of the information sets after layers 1, 2, ...: of tokens (B, L - 1, T) and of CLS (B, L)."""

    tokens: NDArray[Any]
    cls: NDArray[Any]


class HasActiveSet(Protocol):
    """What :meth:`InformationFlow.learns` needs of a target."""

    def active_set(self, X: Any, /) -> NDArray[np.bool_]:
        """Bool (B, T): the tokens on which the target depends at X."""
        ...


@dataclass(frozen=True, eq=False)
class Learning:
    """On which of the given inputs the classification token holds all that a target depends on.

    Attributes
    ----------
    n_inputs : int
        The inputs that were looked at; nothing is known of others.
    failing : array of int
        The inputs on which something is missing.
    missing : bool array (failing, T)
        What is missing there.
    """

    n_inputs: int
    failing: NDArray[np.intp]
    missing: NDArray[np.bool_]

    @property
    def share(self) -> float:
        """The share of inputs on which nothing is missing."""
        return (self.n_inputs - len(self.failing)) / self.n_inputs

    @property
    def exact_share(self) -> Fraction:
        """The same as a fraction."""
        return Fraction(self.n_inputs - len(self.failing), self.n_inputs)

    def __bool__(self) -> bool:
        return not len(self.failing)

    def __repr__(self) -> str:
        return f"<Learning: {self.n_inputs - len(self.failing)} of {self.n_inputs} inputs>"


@dataclass(frozen=True, eq=False, repr=False)
class InformationFlow(Result):
    """Winners, sizes and information sets of a plan on given inputs.

    Attributes
    ----------
    architecture : Architecture
    plan : Plan
    X : array (B, T, d)
        The inputs.
    routings : tuple of int arrays (B, S, h_l), one per layer
        The winner of every head, -1 for a head that looks for no maximum. The last row belongs to the
        classification token; with ``keep="all"`` the tokens come before it (in all layers but the last).
    sizes : Sizes
        ``sizes.tokens`` (B, L - 1, T) and ``sizes.cls`` (B, L): the sizes of I(t, l) for l = 1, 2, ...
    cls_words : uint64 array (B, L, T/64 rounded up)
        The sets of the classification token, packed: position t is bit t mod 64 of word t div 64.
    keep : "cls" or "all"
        Whose routings were kept.

    Examples
    --------
    >>> import hardmax as hm
    >>> largest = hm.MaxPosition(hm.KeyScore(lambda keys: keys[:, :, 0, 0]))
    >>> plan = hm.Plan([{"cls": [largest]}])
    >>> flow = hm.information_sets(hm.Architecture(3, 1, (1,), 4), plan, [[[1.0], [3.0], [2.0]]])
    >>> flow.routings[-1][:, -1], flow.sizes.cls
    (array([[1]], dtype=int8), array([[1]], dtype=int32))
    >>> print(flow.trace())
    layer  token  reads  information set  size  at most
    0      x1            {x1}             1     1
    0      x2            {x2}             1     1
    0      x3            {x3}             1     1
    0      CLS           {}               0     0
    1      CLS    x2     {x2}             1     1
    """

    kind: ClassVar[str] = "InformationFlow"

    architecture: Architecture
    plan: Plan
    X: NDArray[np.float64]
    routings: tuple[NDArray[Any], ...]
    sizes: Sizes
    cls_words: Words
    keep: Literal["cls", "all"]

    def __post_init__(self) -> None:
        for array in (*self.routings, *self.sizes, self.cls_words):
            array.setflags(write=False)  # made for this result, so no copy is needed

    @property
    def n_inputs(self) -> int:
        """B."""
        return len(self.X)

    @property
    def largest(self) -> int:
        """M = max |I(t, l)| over all tokens, layers and inputs."""
        return int(max(self.sizes.tokens.max(initial=0), self.sizes.cls.max(initial=0)))

    @property
    def growth_bound(self) -> Sizes:
        """The most that the sets can hold after layers 1, 2, ... whatever the input: of a token, and of CLS.

        Without pruning min(T, (1 + h_1) ... (1 + h_l)) and that product less one (P2 Appendix B.1).
        """
        layout, T = self._layout(), self.architecture.n_tokens
        return Sizes(
            np.array([min(T, n) for n in layout.token_slots[1:]], dtype=np.int64),
            np.array([min(T, n) for n in layout.cls_slots[1:]], dtype=np.int64),
        )

    def sets(
        self,
        layer: int | None = None,
        token: int | Literal["cls", "tokens"] = "cls",
        *,
        packed: bool = False,
    ) -> NDArray[Any]:
        """I(token, layer) for all inputs.

        Parameters
        ----------
        layer : int, optional
            0, ..., L; the last by default. Tokens end at layer L - 1.
        token : int, "cls" or "tokens"
            A position (T is the classification token), or all tokens at once. Tokens need ``keep="all"``.
        packed : bool
            Words of 64 bits instead of booleans.

        Returns
        -------
        bool array (B, T), for all tokens (B, T, T); packed uint64 (B, W) or (B, T, W)
        """
        T, L = self.architecture.n_tokens, self.architecture.depth
        layer = L if layer is None else layer
        is_cls = token == "cls" or token == T
        if not 0 <= layer <= L:
            raise InvalidInputError(f"layer must be between 0 and {L}, but was {layer}.")
        if not is_cls and token != "tokens" and not (isinstance(token, int) and 0 <= token < T):
            raise InvalidInputError(
                f'token must be "cls", "tokens" or a position between 0 and {T}, but was {token!r}.'
            )
        if is_cls:
            words = self.cls_words[:, layer - 1] if layer else np.zeros_like(self.cls_words[:, 0])
            return words if packed else bitsets.unpacked(words, T)
        if layer == L:
            raise InvalidInputError(
                f"tokens have sets after layers 0 to {L - 1}; only the classification token passes layer {L}."
            )
        one = token if isinstance(token, int) else None
        wanted = slice(None) if one is None else slice(one, one + 1)
        words = np.concatenate([part[:, wanted].copy() for part in self._token_words(layer)])
        words = words if one is None else words[:, 0]  # copied above, so that a block can go
        return words if packed else bitsets.unpacked(words, T)

    def learns(self, target: HasActiveSet | ArrayLike) -> Learning:
        """Whether I_F(X) is a subset of I(CLS, L), input by input (P2 section 5.1).

        Parameters
        ----------
        target : Target, or bool array (B, T)
            A target, or the tokens on which one depends.
        """
        active = target.active_set(self.X) if hasattr(target, "active_set") else target
        needed = np.asarray(active)
        if needed.shape != self.X.shape[:2] or needed.dtype != bool:
            raise DimensionMismatchError(
                f"the active set must be booleans of the shape {self.X.shape[:2]}, but was {needed.dtype} of "
                f"the shape {needed.shape}."
            )
        lacking = bitsets.packed(needed) & ~self.cls_words[:, -1]
        failing = np.flatnonzero(lacking.any(axis=-1))
        missing = bitsets.unpacked(lacking[failing], self.architecture.n_tokens)
        return Learning(self.n_inputs, failing, missing)

    def of_input(self, index: int) -> InformationFlow:
        """The same flow on one of the inputs, with everything kept."""
        if not -self.n_inputs <= index < self.n_inputs:
            raise InvalidInputError(
                f"there are {self.n_inputs} inputs, counted from 0, but input {index} was asked for."
            )
        index %= self.n_inputs
        one = slice(index, index + 1)
        if self.keep == "all":
            sizes = Sizes(self.sizes.tokens[one], self.sizes.cls[one])
            routings = tuple(routing[one] for routing in self.routings)
            words = self.cls_words[one]
            return InformationFlow(self.architecture, self.plan, self.X[one], routings, sizes, words, "all")
        from hardmax.flow.information_sets import information_sets

        return information_sets(self.architecture, self.plan, self.X[one], keep="all")

    def trace(self, index: int = 0) -> str:
        """The way of one input in words: who reads whom, what everyone holds, and how much that is."""
        from hardmax.flow.traces import Trace

        return str(Trace(self.of_input(index)))

    def _layout(self) -> Layout:
        return lay_out(self.plan, self.architecture)

    def _token_words(self, layer: int) -> Iterator[Words]:
        """The sets of all tokens after a layer, block by block of inputs."""
        if layer and self.keep != "all":
            raise IncompleteError(
                'the routings of tokens were not kept; make the flow with keep="all", or look at one input '
                "with of_input."
            )
        layout, T = self._layout(), self.architecture.n_tokens
        step = max(1, _BLOCK_WORDS // (T * bitsets.n_words(T)))
        for start in range(0, self.n_inputs, step):
            block = slice(start, min(start + step, self.n_inputs))
            spread = Propagation(layout, block.stop - block.start)
            spread.token_winners = [routing[block, :-1] for routing in self.routings[:layer]]
            words = spread.first_sets()
            for number in range(1, layer + 1):
                words = spread.token_sets(number, words)
            yield words

    def _state(self) -> dict[str, Any]:
        shape = self.architecture
        return {
            "n_tokens": shape.n_tokens,
            "d_token": shape.d_token,
            "heads": list(shape.heads),
            "widths": list(shape.widths),
            "plan": self.plan.to_dict(shape.n_tokens),
            "X": self.X,
            "routings": list(self.routings),
            "token_sizes": self.sizes.tokens,
            "cls_sizes": self.sizes.cls,
            "cls_words": self.cls_words,
            "keep": self.keep,
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(
            Architecture(state["n_tokens"], state["d_token"], state["heads"], state["widths"]),
            Plan.from_dict(state["plan"]),
            state["X"],
            tuple(state["routings"]),
            Sizes(state["token_sizes"], state["cls_sizes"]),
            state["cls_words"],
            state["keep"],
        )

    def _summary(self) -> str:
        inputs = "1 input" if self.n_inputs == 1 else f"{self.n_inputs} inputs"
        tokens = "1 token" if self.architecture.n_tokens == 1 else f"{self.architecture.n_tokens} tokens"
        depth = self.architecture.depth
        layers = "1 layer" if depth == 1 else f"{depth} layers"
        low, high = int(self.sizes.cls[:, -1].min()), int(self.sizes.cls[:, -1].max())
        held = str(low) if low == high else f"{low} to {high}"
        return f"{inputs} of {tokens} through {layers}, CLS holds {held}"

    def _table(self) -> dict[str, Any]:
        L = self.architecture.depth
        bound = self.growth_bound
        rows: list[tuple[int, str, int, float, int]] = []
        for layer in range(1, L + 1):
            if layer < L:
                sizes = self.sizes.tokens[:, layer - 1]
                rows.append(
                    (layer, "tokens", int(sizes.max()), float(sizes.mean()), int(bound.tokens[layer - 1]))
                )
            sizes = self.sizes.cls[:, layer - 1]
            rows.append((layer, "CLS", int(sizes.max()), float(sizes.mean()), int(bound.cls[layer - 1])))
        names = ("layer", "token", "largest", "mean", "at most")
        return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
