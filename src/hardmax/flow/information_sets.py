"""Which input positions are still available at which token: the information sets of P2 section 5.1.

For every input the winners of all heads are found layer by layer, and with them the sets

    I(t, 0) = {t},   I(CLS, 0) = {},   I(t, l+1) = union of what the heads fetched and of what was kept.

Inputs are processed in blocks, so that only one block of scores is in memory at a time. What stays of an
input are the winners in small integers, the sizes of all sets, and the sets of the classification token; any
other set is derived from the winners when it is asked for. A :class:`Trace` describes one input in words, as
P2 Appendix E does: positions count from 1, CLS is the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, IncompleteError, InvalidInputError, NotFiniteError
from hardmax.flow import bitsets
from hardmax.flow.architectures import Architecture
from hardmax.flow.bitsets import Words
from hardmax.flow.plans import GlobalRead, MaxPosition, Plan, Positions, is_forgotten
from hardmax.flow.propagation import Group, Layout, Propagation, find_winners, lay_out, scores_of
from hardmax.limits import Clock
from hardmax.progress import shown
from hardmax.randomness import check_room
from hardmax.results import Result

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
    """On which of the given inputs the classification token holds all that a target depends on."""

    n_inputs: int  # nothing is known of others
    failing: NDArray[np.intp]  # the inputs on which something is missing
    missing: NDArray[np.bool_]  # (failing, T), what is missing there

    @property
    def share(self) -> float:
        """The share of inputs on which nothing is missing."""
        return float(self.exact_share)

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
        """:math:`M = \\max |I(t, l)|` over all tokens, layers and inputs."""
        return int(max(self.sizes.tokens.max(initial=0), self.sizes.cls.max(initial=0)))

    @property
    def growth_bound(self) -> Sizes:
        """The most that the sets can hold after layers 1, 2, ... whatever the input: of a token, and of CLS.

        Without pruning min(T, (1 + h_1) ... (1 + h_l)) and that product less one (P2 Appendix B.1).
        """
        layout, T = self._layout(), self.architecture.n_tokens
        slots = layout.token_slots, layout.cls_slots
        return Sizes(*(np.array([min(T, n) for n in after[1:]], dtype=np.int64) for after in slots))

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
        wanted = token if isinstance(token, int) else slice(None)
        words = np.concatenate([part[:, wanted].copy() for part in self._token_words(layer)])
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
        one = slice(index % self.n_inputs, index % self.n_inputs + 1)
        if self.keep == "all":
            return replace(
                self,
                X=self.X[one],
                routings=tuple(routing[one] for routing in self.routings),
                sizes=Sizes(self.sizes.tokens[one], self.sizes.cls[one]),
                cls_words=self.cls_words[one],
            )
        return information_sets(self.architecture, self.plan, self.X[one], keep="all")

    def trace(self, index: int = 0) -> str:
        """The way of one input in words: who reads whom, what everyone holds, and how much that is."""
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
            spread.winners = [routing[block] for routing in self.routings[:layer]]
            words = spread.first_sets()
            for number in range(1, layer + 1):
                words = spread.token_sets(number, words)
            yield words

    def _state(self) -> dict[str, Any]:
        return {
            **asdict(self.architecture),
            "plan": self.plan.to_dict(self.architecture.n_tokens),
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
        shape = self.architecture
        counts = {"input": self.n_inputs, "token": shape.n_tokens, "layer": shape.depth}
        inputs, tokens, layers = (f"{n} {word}" if n == 1 else f"{n} {word}s" for word, n in counts.items())
        low, high = int(self.sizes.cls[:, -1].min()), int(self.sizes.cls[:, -1].max())
        held = str(low) if low == high else f"{low} to {high}"
        return f"{inputs} of {tokens} through {layers}, CLS holds {held}"

    def _table(self) -> dict[str, Any]:
        bound = self.growth_bound
        rows = []
        for layer in range(self.architecture.depth):
            for name, found, most in zip(("tokens", "CLS"), self.sizes, bound, strict=True):
                if layer < len(most):  # tokens end one layer earlier
                    sizes = found[:, layer]
                    rows.append((layer + 1, name, int(sizes.max()), float(sizes.mean()), int(most[layer])))
        names = ("layer", "token", "largest", "mean", "at most")
        return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


_BLOCK_NUMBERS = 1 << 20  # numbers in one block of scores: 8 MB
_SLOTS_COUNTED = 64  # a score that reads more slots than this is given smaller blocks


def information_sets(
    architecture: Architecture,
    plan: Plan,
    X: ArrayLike,
    keep: Literal["cls", "all"] = "cls",
    *,
    time_limit: float | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
) -> InformationFlow:
    """Follow information through a transformer that obeys a plan.

    Parameters
    ----------
    architecture : Architecture
        Sequence length, heads and widths.
    plan : Plan
        What every head does.
    X : array (B, T, d) or (T, d)
        The inputs.
    keep : {"cls", "all"}
        Whose winners are kept: those of the classification token, or of all tokens. The sizes of all sets and
        the sets of the classification token are always there; with ``"all"`` so is any other set.
    time_limit : float, optional
        Seconds after which it is given up.
    progress : bool or callable, optional
        ``True`` shows a bar; a function is called with the number of inputs done and that of all.

    Raises
    ------
    IncompleteError
        When the time is over.
    DimensionMismatchError
        When X, the plan or the result of a score function does not fit the architecture.
    NotFiniteError
        When X or a score is NaN, or all scores of a token are -inf.
    InvalidInputError
        When the plan names a token or a slot that does not exist, or a tie was to be refused.

    Notes
    -----
    A layer costs one evaluation of T x T scores per head and an arg-max over them; the sets add T/64 words
    per head and token. Memory beyond X is that of the winners, one or two bytes per token and head, and a few
    megabytes for the block at work.

    Examples
    --------
    The example of P2 Appendix E, with the sign of its scores corrected:

    >>> import numpy as np
    >>> import hardmax as hm
    >>> first = hm.MaxPosition(lambda q, k: -np.einsum("bsid,btjd->bst", q, k))
    >>> last = hm.MaxPosition(hm.KeyScore(lambda k: -np.einsum("btid,btjd->btij", k, k).min((-1, -2))))
    >>> plan = hm.Plan([{"tokens": [first]}, {"cls": [last]}])
    >>> X = [[0, -1], [0.7, 0.7], [0, 1], [-0.2, -0.9]]
    >>> flow = hm.information_sets(hm.Architecture(4, 2, (1, 1), 2), plan, X)
    >>> flow
    <InformationFlow: 1 input of 4 tokens through 2 layers, CLS holds 2>
    >>> flow.sets()
    array([[ True, False,  True, False]])
    """
    if keep not in ("cls", "all"):
        raise InvalidInputError(f'keep must be "cls" or "all", but was {keep!r}.')
    clock = Clock(time_limit, "follow information through all inputs")
    with shown(progress, _line, clock) as report:
        return follow(architecture, plan, X, keep, look=report)


def _line(done: int, total: int) -> tuple[float | None, str]:
    return done / total, f"{done:,} of {total:,} input{'' if total == 1 else 's'}"


def follow(
    architecture: Architecture,
    plan: Plan,
    X: ArrayLike,
    keep: Literal["cls", "all"] = "cls",
    *,
    look: Callable[[int, int], object] | None = None,
) -> InformationFlow:
    """:func:`information_sets` as part of other questions: ``look`` is called before every layer of a block
    of inputs, with the number of inputs done and that of all; what it raises ends it."""
    inputs = inputs_of(X, architecture)
    layout = lay_out(plan, architecture)
    B, T, L = len(inputs), architecture.n_tokens, architecture.depth
    small = np.int8 if T <= 128 else np.int16 if T <= 2**15 else np.int32
    kept_rows = [1 if keep == "cls" or layer == L else T + 1 for layer in range(1, L + 1)]
    check_room("winners", B, sum(rows * h for rows, h in zip(kept_rows, architecture.heads, strict=True)))
    routings = [
        np.empty((B, rows, heads), dtype=small)
        for rows, heads in zip(kept_rows, architecture.heads, strict=True)
    ]
    token_sizes = np.empty((B, L - 1, T), dtype=np.min_scalar_type(T))
    cls_sizes = np.empty((B, L), dtype=np.int32)
    cls_words = np.empty((B, L, bitsets.n_words(T)), dtype=np.uint64)
    step = _block_length(layout)
    for start in range(0, B, step):
        block = slice(start, min(start + step, B))
        spread = Propagation(layout, len(inputs[block]))
        sets = spread.first_sets()
        own = np.zeros((spread.n, bitsets.n_words(T)), dtype=np.uint64)
        for layer in range(1, L + 1):
            if look is not None:
                look(start, B)
            winners = find_winners(spread, layer, inputs[block], plan.ties)
            routings[layer - 1][block] = winners[:, -kept_rows[layer - 1] :]
            own = spread.cls_sets(layer, sets, own)
            cls_words[block, layer - 1] = own
            cls_sizes[block, layer - 1] = bitsets.count(own)
            if layer < L:
                sets = spread.token_sets(layer, sets)
                token_sizes[block, layer - 1] = bitsets.count(sets)
    return InformationFlow(
        architecture=architecture,
        plan=plan,
        X=inputs,
        routings=tuple(routings),
        sizes=Sizes(token_sizes, cls_sizes),
        cls_words=cls_words,
        keep=keep,
    )


def inputs_of(X: ArrayLike, architecture: Architecture) -> NDArray[np.float64]:
    """X as an array (B, T, d) of finite numbers, read-only; one sequence (T, d) is a batch of one."""
    inputs = np.asarray(X, dtype=np.float64)
    if inputs.flags.writeable:  # the caller may write to it later
        inputs = inputs.copy() if np.shares_memory(inputs, np.asarray(X)) else inputs
        inputs.setflags(write=False)
    if inputs.ndim == 2:
        inputs = inputs[None]
    expected = (architecture.n_tokens, architecture.d_token)
    if inputs.ndim != 3 or inputs.shape[1:] != expected:
        raise DimensionMismatchError(
            f"X must have the shape (B, {expected[0]}, {expected[1]}), but had {np.shape(X)}."
        )
    if not len(inputs):
        raise InvalidInputError("X must hold at least one input, but was empty.")
    if not np.isfinite(inputs).all():
        raise NotFiniteError("X must be finite, but holds NaN or an infinity.")
    return inputs


def _block_length(layout: Layout) -> int:
    T, d = layout.architecture.n_tokens, layout.architecture.d_token
    slots = max(min(n, _SLOTS_COUNTED) for n in (*layout.token_slots, *layout.cls_slots))
    return max(1, _BLOCK_NUMBERS // (T * max(T, slots * d)))


def token_name(t: int, n_tokens: int) -> str:
    """x1, ..., xT and CLS for positions 0, ..., T.

    >>> token_name(0, 4), token_name(4, 4)
    ('x1', 'CLS')
    """
    return "CLS" if t == n_tokens else f"x{t + 1}"


def set_text(members: NDArray[np.bool_], limit: int = 12) -> str:
    """A set of positions; long ones are cut.

    >>> set_text(np.array([True, False, True]))
    '{x1, x3}'
    """
    names = [f"x{t + 1}" for t in np.flatnonzero(members)]
    if len(names) == len(members) > 3:
        return f"{{x1, ..., x{len(members)}}}"
    shown = names if len(names) <= limit else [*names[: limit - 2], "...", names[-1]]
    return "{" + ", ".join(shown) + "}"


class Reading(NamedTuple):
    """One arrow of a trace: ``source`` is a token one layer earlier, or ``None`` for all input tokens."""

    kind: Literal["own", "head", "position", "all"]
    source: int | None
    head: int  # from 0; -1 for what a token keeps of itself
    pruned: bool  # something of the source was forgotten


class Trace:
    """Who reads whom on one input, and what everyone holds; made of a flow of one input with all kept."""

    def __init__(self, flow: InformationFlow) -> None:
        self.flow = flow
        self.layout = flow._layout()
        self.n_tokens, self.depth = flow.architecture.n_tokens, flow.architecture.depth
        self._spread = Propagation(self.layout, 1)
        self._spread.winners = list(flow.routings)

    def tokens(self, layer: int) -> list[int]:
        """The tokens that exist after a layer; T is the classification token."""
        return [self.n_tokens] if layer == self.depth else list(range(self.n_tokens + 1))

    def held(self, layer: int) -> dict[int, NDArray[np.bool_]]:
        """The information set of every token after a layer."""
        held = {self.n_tokens: self.flow.sets(layer, "cls")[0]}
        if layer < self.depth:
            held |= dict(enumerate(self.flow.sets(layer, "tokens")[0]))
        return held

    def group(self, layer: int, t: int) -> Group:
        """The rules of a token in a layer."""
        return next(group for group in self.layout.groups(layer) if t in group.rows)

    def winner(self, layer: int, t: int, head: int) -> int:
        """The token that a head of token t picks."""
        row = -1 if t == self.n_tokens else t
        return int(self.flow.routings[layer - 1][0, row, head])

    def tied(self, layer: int, t: int, head: int) -> list[int]:
        """The other tokens with the same greatest score; unknown, so none, for a plan from a file."""
        group = self.group(layer, t)
        rule = group.rules[head]
        if not isinstance(rule, MaxPosition) or is_forgotten(rule):
            return []
        scores = scores_of(self._spread, layer, group, rule, head, self.flow.X)
        row = scores[0, int(np.flatnonzero(group.rows == t)[0])]
        winner = self.winner(layer, t, head)
        return [int(s) for s in np.flatnonzero(row == row[winner]) if s != winner]

    def readings(self, layer: int, t: int) -> list[Reading]:
        """Where the information of token t after a layer comes from, one entry per source and head."""
        group = self.group(layer, t)
        row = int(np.flatnonzero(group.rows == t)[0])
        found = []
        for block in group.blocks:
            source: int | None = None if block.source == "all" else t
            if block.source == "head":
                source = self.winner(layer, t, block.index)
            elif block.source == "position":
                source = int(group.table[row, block.index])
            if source != -1:
                found.append(Reading(block.source, source, block.head, not block.whole))
        return found

    def reads(self, layer: int, t: int) -> str:
        """What the heads of token t read in a layer."""
        words = []
        for head, rule in enumerate(self.group(layer, t).rules):
            match rule:
                case MaxPosition():
                    rivals = [self._name(s) for s in self.tied(layer, t, head)]
                    shown = ", ".join(rivals[:3]) + (", ..." if len(rivals) > 3 else "")
                    name = self._name(self.winner(layer, t, head))
                    words.append(f"{name} (ties with {shown})" if rivals else name)
                case GlobalRead():
                    words.append("all")
                case Positions():
                    names = [self._name(j) for j in rule.of(t)]
                    words.append("+".join(names) if len(names) <= 6 else f"{len(names)} positions")
        return ", ".join(words)

    def _name(self, t: int) -> str:
        return token_name(t, self.n_tokens)

    def __str__(self) -> str:
        bound = self.flow.growth_bound
        rows: list[tuple[Any, ...]] = [("layer", "token", "reads", "information set", "size", "at most")]
        for layer in range(self.depth + 1):
            held = self.held(layer)
            for t in self.tokens(layer):
                reads, most = "", int(t < self.n_tokens)
                if layer:
                    reads = self.reads(layer, t)
                    most = (bound.cls if t == self.n_tokens else bound.tokens)[layer - 1]
                rows.append((layer, self._name(t), reads, set_text(held[t]), held[t].sum(), most))
        cells = [[str(cell) for cell in row] for row in rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(rows[0]))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        )
