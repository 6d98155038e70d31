"""What every head of every layer does: scores, rules, and plans made of them (P2 section 5.1).

A token carries *slots*, each filled with one input token. Before the first layer token t carries one slot,
itself, and the classification token none. After a layer a token carries

    its own slots, then the slots that head 1 fetched, then those of head 2, ...

so that after one layer slot 0 is the token itself and slot i what head i found. The information set I(t, l)
is the set of positions in the slots. Slots keep the order that sets forget, which scores of later layers
need: "the product of the token with what head i found" is a function of slots 0 and i.

The rules of P2 say "subset of": a layer may forget, and what it forgets decides the cost. Here forgetting is
explicit: ``prune`` names the slots of a fetched token that stay, ``residual`` those of the token itself.

A score is an inner product of two vectors of length n_l, so as a function of (query, key) it has rank at most
n_l. Scores that know their rank carry it as ``rank``; for others it is measured
(:func:`hardmax.flow.costs.cost_law.score_ranks`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.bounds.large_integers import positive
from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.untrusted import said_plainly

Floats = NDArray[np.float64]


class ScoreFunction(Protocol):
    """score(queries (B, S, slots, d), keys (B, T, slots, d)) -> (B, S, T); the largest score wins."""

    def __call__(self, queries: Floats, keys: Floats, /) -> ArrayLike:
        """The scores of all keys for all queries."""
        ...


class BilinearScore:
    """The score x' A y of the key y for the query x, each the first slot that is given.

    Parameters
    ----------
    matrix : array (d, d)
        A. Its rank is the head width that this score needs.

    Examples
    --------
    >>> import numpy as np
    >>> import hardmax as hm
    >>> score = hm.BilinearScore([[0, 1], [0, 0]])
    >>> score(np.array([[[[2.0, 0.0]]]]), np.array([[[[0.0, 3.0]], [[5.0, 1.0]]]]))
    array([[[6., 2.]]])
    >>> score.rank
    1
    """

    def __init__(self, matrix: ArrayLike) -> None:
        array = np.array(matrix, dtype=np.float64)
        if array.ndim != 2:
            raise DimensionMismatchError(f"matrix must be a matrix, but had the shape {array.shape}.")
        if not np.isfinite(array).all():
            raise NotFiniteError("matrix must be finite, but holds NaN or an infinity.")
        array.setflags(write=False)
        self.matrix: Floats = array
        self.rank = int(np.linalg.matrix_rank(array))

    def __call__(self, queries: Floats, keys: Floats, /) -> Floats:
        """x' A y for all queries and keys."""
        if queries.shape[-1] != self.matrix.shape[0] or keys.shape[-1] != self.matrix.shape[1]:
            raise DimensionMismatchError(
                f"the matrix of a bilinear score must fit the tokens, but is {self.matrix.shape} for tokens "
                f"of {keys.shape[-1]} numbers."
            )
        if not queries.shape[2] or not keys.shape[2]:
            raise InvalidInputError(
                "a bilinear score needs a query and a key, but this token holds no information yet; the "
                "classification token starts empty, try KeyScore."
            )
        values: Floats = (queries[:, :, 0] @ self.matrix) @ keys[:, :, 0].swapaxes(1, 2)
        return values

    def __repr__(self) -> str:
        return f"BilinearScore({' x '.join(map(str, self.matrix.shape))}, rank {self.rank})"


class KeyScore:
    """A score that depends on the key only, as every score of the still empty classification token does.

    Parameters
    ----------
    function : callable
        keys (B, T, slots, d) -> (B, T).

    Examples
    --------
    >>> import numpy as np
    >>> import hardmax as hm
    >>> score = hm.KeyScore(lambda keys: keys[:, :, 0, 0])
    >>> score(np.empty((1, 1, 0, 1)), np.array([[[[2.0]], [[3.0]]]]))
    array([[[2., 3.]]])
    """

    rank = 1

    def __init__(self, function: Callable[[Floats], ArrayLike]) -> None:
        self.function = function

    def __call__(self, queries: Floats, keys: Floats, /) -> Floats:
        """The function of the keys, the same for all queries."""
        values = np.asarray(self.function(keys), dtype=np.float64)
        if values.shape != keys.shape[:2]:
            raise DimensionMismatchError(
                f"a function of the keys must give one number per key, {keys.shape[:2]}, but gave the shape "
                f"{values.shape}."
            )
        return np.broadcast_to(values[:, None, :], (len(keys), queries.shape[1], keys.shape[1]))

    def __repr__(self) -> str:
        return f"KeyScore({score_name(self.function)})"


def score_name(score: Any) -> str:
    """A short name of a score function, for traces and files.

    >>> score_name(BilinearScore([[1.0]]))
    'BilinearScore(1 x 1, rank 1)'
    >>> score_name(len)
    'len'
    """
    name = getattr(score, "__name__", None)
    return str(name) if name is not None else repr(score)


Slots = tuple[int, ...]
Ties = Literal["lowest", "highest", "refuse"]
TokenClass = Literal["tokens", "cls"] | tuple[int, ...]


@dataclass(frozen=True)
class MaxPosition:
    """Rule 1, max-position retrieval: I(t, l+1) = I(s, l) ∪ I(t, l) with s = argmax of a score.

    Parameters
    ----------
    score : callable
        ``score(queries, keys) -> (B, S, T)`` with queries (B, S, slots, d) and keys (B, T, slots, d): the
        contents of the slots of S reading tokens and of the T tokens. A slot that a token does not have holds
        NaN. -inf keeps a key from winning.
    prune : sequence of int, optional
        The slots of the winner that are kept; all of them by default (no pruning).
    residual : bool or sequence of int
        Whether the token keeps its own slots, or which of them.
    query_slots, key_slots : sequence of int, optional
        The slots passed to the score, in this order; all of them by default.
    rank : int, optional
        The head width that the score needs, where it is known; ``score.rank`` if the score has one.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.MaxPosition(hm.BilinearScore([[0, 1], [1, 0]])).rank
    2
    """

    score: ScoreFunction
    prune: Slots | None = None
    residual: bool | Slots = True
    query_slots: Slots | None = field(default=None, kw_only=True)
    key_slots: Slots | None = field(default=None, kw_only=True)
    rank: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not callable(self.score):
            raise InvalidInputError(f"score must be a function, but was {self.score!r}.")
        _normalise(self)
        for name in ("query_slots", "key_slots"):
            object.__setattr__(self, name, _slots(getattr(self, name), name))
        rank = getattr(self.score, "rank", None) if self.rank is None else self.rank
        object.__setattr__(self, "rank", None if rank is None else positive("rank", rank, least=0))


@dataclass(frozen=True)
class GlobalRead:
    """Rule 2, global aggregation: I(t, l+1) = {1, ..., T}, whatever was forgotten before.

    The rule is taken literally. To read only what the tokens still hold, give ``Positions(range(T))``.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.Plan([{"cls": [hm.GlobalRead()]}])
    <Plan: 1 layer, CLS: global>
    """

    prune: None = field(default=None, init=False, repr=False)
    residual: bool = field(default=False, init=False, repr=False)


@dataclass(frozen=True)
class Positions:
    """Rule 3, specific positions: I(t, l+1) = union of I(j, l) over fixed positions j, and I(t, l).

    P2's rule leaves out I(t, l) although its architecture adds it; that is ``residual=False``.

    Parameters
    ----------
    positions : iterable of int, or callable
        The positions j, counted from 0; a function of t if they depend on the reading token. A token that
        reads fewer positions than others of its class has empty slots in their place.
    residual : bool or sequence of int
        Whether the token keeps its own slots, or which of them.
    prune : sequence of int, optional
        The slots of every read token that are kept; all of them by default.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.Positions([0, 1, 2]).of(7)
    (0, 1, 2)
    >>> hm.Positions(lambda t: [t - 1] if t else []).of(7)
    (6,)
    """

    positions: Iterable[int] | Callable[[int], Iterable[int]]
    residual: bool | Slots = True
    prune: Slots | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not callable(self.positions):
            object.__setattr__(self, "positions", _positions(self.positions))
        _normalise(self)

    def of(self, t: int) -> tuple[int, ...]:
        """The positions that token t reads."""
        return _positions(self.positions(t)) if callable(self.positions) else tuple(self.positions)


Rule = MaxPosition | GlobalRead | Positions
LayerPlan = tuple[tuple[TokenClass, tuple[Rule, ...]], ...]


@dataclass(frozen=True, repr=False)
class Plan:
    """The rules of all heads, layer by layer.

    Heads of different rules are mixed by union: a token holds what any of its heads fetched, and its own
    slots as far as any of its rules keeps them.

    Parameters
    ----------
    layers : sequence of mappings
        Per layer a mapping from a token class to the rules of its heads, first head first. A class is
        ``"tokens"``, ``"cls"``, a position or a tuple of positions (counted from 0), which takes precedence
        over ``"tokens"``. A class that is not named keeps what it has; heads beyond the last rule are idle.
        The last layer has rules for the classification token only.
    ties : {"lowest", "highest", "refuse"}
        Which of several keys with the same greatest score wins; "refuse" makes a tie an error.

    Examples
    --------
    >>> import hardmax as hm
    >>> first = hm.MaxPosition(hm.BilinearScore([[-1, 0], [0, -1]]))
    >>> last = hm.MaxPosition(hm.KeyScore(lambda k: -(k[:, :, 0] * k[:, :, 1]).sum(-1)))
    >>> hm.Plan([{"tokens": [first]}, {"cls": [last]}])
    <Plan: 2 layers, tokens: max | CLS: max>
    """

    layers: tuple[LayerPlan, ...]
    ties: Ties = "lowest"

    def __init__(
        self, layers: Iterable[Mapping[Any, Rule | Sequence[Rule]]], *, ties: Ties = "lowest"
    ) -> None:
        if ties not in ("lowest", "highest", "refuse"):
            raise InvalidInputError(f'ties must be "lowest", "highest" or "refuse", but was {ties!r}.')
        if isinstance(layers, Mapping):
            raise InvalidInputError(
                "layers must be a sequence with one mapping per layer, but was a mapping."
            )
        plan = tuple(_layer(number, layer) for number, layer in enumerate(layers, start=1))
        if not plan:
            raise InvalidInputError("layers must hold at least one layer, but was empty.")
        object.__setattr__(self, "layers", plan)
        object.__setattr__(self, "ties", ties)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self.layers)

    def __repr__(self) -> str:
        layers = "1 layer" if self.depth == 1 else f"{self.depth} layers"
        return f"<Plan: {layers}, {' | '.join(map(_describe, self.layers))}>"

    def to_dict(self, n_tokens: int) -> dict[str, Any]:
        """The plan for T tokens in plain values; only the names of score functions are kept."""
        layers = []
        for layer in self.layers:
            entries = []
            for who, rules in layer:
                rows = range(n_tokens) if who == "tokens" else (n_tokens,) if who == "cls" else who
                name = who if isinstance(who, str) else list(who)
                entries.append({"who": name, "rules": [_plain(rule, rows) for rule in rules]})
            layers.append(entries)
        return {"ties": self.ties, "layers": layers}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plan:
        """The plan of :meth:`to_dict`; its score functions can no longer be called."""
        layers: list[dict[Any, list[Rule]]] = []
        with said_plainly("a plan must be as to_dict wrote it, but is not"):
            for entries in values["layers"]:
                layers.append({})
                for entry in entries:
                    who = entry["who"] if isinstance(entry["who"], str) else tuple(entry["who"])
                    layers[-1][who] = [_rule(rule) for rule in entry["rules"]]
            return cls(layers, ties=values["ties"])


class _NamedScore:
    """Stands for a score function that was loaded from a file, which holds only its name."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, queries: Any, keys: Any, /) -> Any:
        raise InvalidInputError(
            f"the score function {self.__name__!r} was not saved with the flow; make the plan again."
        )


def is_forgotten(rule: MaxPosition) -> bool:
    """Whether the rule comes from a file, which keeps only the name of its score function."""
    return isinstance(rule.score, _NamedScore)


def _layer(number: int, layer: Any) -> LayerPlan:
    if not isinstance(layer, Mapping):
        raise InvalidInputError(
            f'layer {number} must be a mapping such as {{"tokens": [rule]}}, but was {layer!r}.'
        )
    entries: list[tuple[TokenClass, tuple[Rule, ...]]] = []
    for key, value in layer.items():
        rules = [value] if isinstance(value, MaxPosition | GlobalRead | Positions) else list(value)
        for rule in rules:
            if not isinstance(rule, MaxPosition | GlobalRead | Positions):
                raise InvalidInputError(
                    f"the rules of layer {number} must be MaxPosition, GlobalRead or Positions, but one was "
                    f"{rule!r}."
                )
        entries.append((_token_class(number, key), tuple(rules)))
    named = [t for who, _ in entries if not isinstance(who, str) for t in who]
    if len(named) != len(set(named)):
        raise InvalidInputError(f"layer {number} gives rules twice to position {_repeated(named)}.")
    return tuple(entries)


def _token_class(number: int, key: Hashable) -> TokenClass:
    if key == "tokens" or key == "cls":
        return key
    try:
        return _positions(key if isinstance(key, Iterable) else [key])
    except InvalidInputError:
        raise InvalidInputError(
            f'the token class {key!r} of layer {number} is unknown; use "tokens", "cls", a position or a '
            "tuple of positions, counted from 0."
        ) from None


def _normalise(rule: MaxPosition | Positions) -> None:
    object.__setattr__(rule, "prune", _slots(rule.prune, "prune"))
    if not isinstance(rule.residual, bool):
        object.__setattr__(rule, "residual", _slots(rule.residual, "residual"))


def _slots(values: Iterable[int] | None, name: str) -> Slots | None:
    if values is None:
        return None
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInputError(f"{name} must be a sequence of slot numbers, but was {values!r}.")
    slots = tuple(positive(name, value, least=0) for value in values)
    if len(slots) != len(set(slots)):
        raise InvalidInputError(f"{name} must name every slot once, but names {_repeated(slots)} twice.")
    return slots


def _positions(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(positive("a position", value, least=0) for value in values))


def _repeated(values: Sequence[int]) -> int:
    return next(value for i, value in enumerate(values) if value in values[:i])


def _describe(layer: LayerPlan) -> str:
    words = {MaxPosition: "max", GlobalRead: "global", Positions: "positions"}
    parts = []
    for who, rules in layer:
        name = "CLS" if who == "cls" else who if isinstance(who, str) else ", ".join(f"x{t + 1}" for t in who)
        counts = Counter(words[type(rule)] for rule in rules)
        heads = " + ".join(word if n == 1 else f"{n} {word}" for word, n in counts.items()) or "idle"
        parts.append(f"{name}: {heads}")
    return "; ".join(parts) or "nothing"


def _plain(rule: Rule, rows: Sequence[int]) -> dict[str, Any]:
    if isinstance(rule, GlobalRead):
        return {"rule": "global"}
    if isinstance(rule, Positions):
        own: dict[str, Any] = {"rule": "positions", "positions": rule.positions}
        if callable(rule.positions):
            own["positions"] = {str(t): list(rule.of(t)) for t in rows}
    else:
        own = {"rule": "max", "score": score_name(rule.score), "rank": rule.rank}
        own |= {"query_slots": rule.query_slots, "key_slots": rule.key_slots}
    own |= {"prune": rule.prune, "residual": rule.residual}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in own.items()}


def _rule(values: Mapping[str, Any]) -> Rule:
    options = dict(values)
    kind = options.pop("rule")
    if kind == "global":
        return GlobalRead()
    if kind == "max":
        return MaxPosition(_NamedScore(options.pop("score")), **options)
    read = options.pop("positions")
    return Positions((lambda t: read[str(t)]) if isinstance(read, Mapping) else read, **options)
