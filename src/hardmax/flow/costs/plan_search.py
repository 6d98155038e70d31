"""A plan that learns a target with given heads: the second step of P2's procedure (section 5.3).

What a target needs is read off its terms, and off the winners on sampled inputs (terms that are always won by
the same tokens share a head, a form that is always won on the diagonal is a function of one token):

``single``
    the best token by a score: one head of CLS, in any layer;
``pair``
    the best pair: one head of the tokens, which find their partner, and in a later layer one head of CLS,
    which finds the token whose pair is best (the design of Proposition 1);
``rank``
    the k-th best token: one head of CLS in each of k layers, each looking below what the last one found;
``positions``
    fixed positions: one head of CLS by rule 3;
``many``
    best tuples of three or more tokens, or of pairs whose order in the sequence matters: no plan of maxima is
    known for them.

Needs are given to heads layer by layer. Where heads are too few, narrower than the rank of a score
(:mod:`hardmax.flow.costs.score_rank`), or a need is ``many``, one head of CLS reads
everything (rule 2). A plan is made to learn by construction; whether it does is measured on samples as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hardmax.flow.costs.score_rank import BELOW, narrowed, partner_rank
from hardmax.flow.plans import BilinearScore, GlobalRead, KeyScore, MaxPosition, Plan, Positions, Rule
from hardmax.targets.target import Target
from hardmax.targets.terms import FixedTerm, Term
from hardmax.targets.tokens import Bilinear

Floats = NDArray[np.float64]
Look = Callable[..., object]  # called between pieces of work; what it raises ends them

_PAIRS = 1 << 22  # pairs of tokens that are held at once
_MEASURED = 256  # inputs on which the error of narrow heads is measured at most
Kind = Literal["single", "pair", "rank", "positions", "many"]


@dataclass(frozen=True)
class Need:
    """What some terms of a target ask of a plan."""

    kind: Kind
    terms: tuple[int, ...]  # that share it, the first one giving the score
    rank: int = 1  # k for "rank"
    positions: tuple[int, ...] = ()  # for "positions"
    width: int = 1  # the head width that the score of a pair, or of a k-th best token, needs; 1 if unknown

    def __str__(self) -> str:
        names = ", ".join(str(term + 1) for term in self.terms)
        return f"{'term' if len(self.terms) == 1 else 'terms'} {names}"


@dataclass(frozen=True)
class Assignment:
    """Which head serves which need: per need layers and heads, both from 0."""

    tokens: tuple[tuple[int, int] | None, ...]  # where the tokens look for partners
    cls: tuple[tuple[tuple[int, int], ...], ...]  # where CLS reads, in order


def needs_of(target: Target, X: Floats) -> tuple[Need, ...]:
    """What a target needs, with terms that are won by the same tokens on all of ``X`` taken together.

    Examples
    --------
    >>> import hardmax as hm
    >>> target = hm.targets.pairwise([[[1, 0], [0, 1]], [[2, 0], [0, 2]], [[0, 1], [1, 0]]])
    >>> [(need.kind, need.terms) for need in needs_of(target, target.sample(200, 8))]
    [('single', (0, 1)), ('pair', (2,))]
    """
    winners = target.winners(X)
    fixed = [i for i, term in enumerate(target.terms) if isinstance(term, FixedTerm)]
    found: list[tuple[Need, NDArray[Any]]] = []
    for i, term in enumerate(target.terms):
        if isinstance(term, FixedTerm):
            continue
        kind = _kind(term, winners[i], X)
        held = np.sort(winners[i][:, :1] if kind == "single" else winners[i], axis=1)
        for number, (need, other) in enumerate(found):
            if need.kind == kind and np.array_equal(held, other):
                found[number] = replace(need, terms=(*need.terms, i)), other
                break
        else:
            width = partner_rank(term, target.d_token) if kind == "pair" else BELOW if kind == "rank" else 1
            found.append((Need(kind, (i,), term.rank, width=width or 1), held))
    needs = [need for need, held in found if not _is_inside(need, held, found)]
    if fixed:
        places = sorted({p for i in fixed for p in target.terms[i].positions})  # type: ignore[union-attr]
        needs.append(Need("positions", tuple(fixed), positions=tuple(places)))
    return tuple(needs)


def _kind(term: Term, winners: NDArray[Any], X: Floats) -> Kind:
    if term.rank > 1:
        return "rank"
    if term.arity == 1 or (winners == winners[:, :1]).all():
        return "single"
    if term.arity > 2:
        return "many"
    return "pair" if term.tuples in ("all", "distinct") or _symmetric(term, X) else "many"


def _symmetric(term: Term, X: Floats) -> bool:
    """Whether the order of two tokens makes no difference, declared or on all neighbours in ``X``."""
    if term.symmetric:
        return True
    x, y = X[:, :-1], X[:, 1:]
    forth, back = np.asarray(term.function(x, y)), np.asarray(term.function(y, x))
    return bool(np.allclose(forth, back, rtol=1e-12, atol=1e-12))


def _is_inside(need: Need, held: NDArray[Any], found: Sequence[tuple[Need, NDArray[Any]]]) -> bool:
    """Whether a single token is always among the winners of a pair, so that it costs nothing more."""
    return need.kind == "single" and any(
        other.kind == "pair" and (pairs == held).any(axis=1).all() for other, pairs in found
    )


def unproven_terms(target: Target, needs: Sequence[Need]) -> tuple[int, ...]:
    """The terms, from 0, that share a head or take a single token only because samples look that way.

    A form that is semidefinite, or a multiple of another one, is known to; other terms may need more heads at
    inputs that are rare.

    Examples
    --------
    >>> import hardmax as hm
    >>> for A in ([[1, 0], [0, 1]], [[1, 0.01], [-0.01, 1]]):
    ...     target = hm.targets.pairwise([A])
    ...     needs = needs_of(target, target.sample(100, 8))
    ...     print([need.kind for need in needs], unproven_terms(target, needs))
    ['single'] ()
    ['single'] (0,)
    """
    own = {i: [role for role in target.roles if role.source == i] for i in range(len(target.terms))}
    found = {i for i, roles in own.items() if roles}  # whatever is left in no need, or joined to another term
    for need in needs:
        first = need.terms[0]
        simpler = need.kind == "single" and getattr(target.terms[first], "arity", 1) > 1
        if not simpler or (len(own[first]) == 1 and own[first][0].arity == 1):
            found.discard(first)
    return tuple(sorted(found))


def assign(
    needs: Sequence[Need], heads: Sequence[int], head_widths: Sequence[int] | None = None
) -> Assignment | None:
    """Give every need its heads, or None where there are too few, or too few that are wide enough.

    Tokens look for partners as early as possible; of the readings of CLS those of pairs come first, the
    latest partners first, then the k-th best tokens, largest k first, which CLS reads in k different layers,
    then single tokens. Where k-th best tokens are wanted, each reading takes the layer with most heads to
    spare (the earliest of these), which leaves as many different layers as can be; otherwise the earliest.
    With ``head_widths``, one for each layer, a score is given to heads as wide as its rank only; scores of
    high rank choose first.

    Examples
    --------
    >>> needs = [Need("pair", (0,)), Need("pair", (1,)), Need("single", (2,))]
    >>> assign(needs, (2, 2)).cls
    (((1, 0),), ((1, 1),), ((0, 0),))
    >>> assign(needs, (1, 2)) is None
    True
    >>> assign([Need("pair", (0,), width=3)], (1, 1), (2, 4)) is None
    True
    """
    depth = len(heads)
    widths = [max((need.width for need in needs), default=1)] * depth if head_widths is None else head_widths
    of_tokens, of_cls = [0] * depth, [0] * depth  # heads in use
    tokens: list[tuple[int, int] | None] = [None] * len(needs)
    cls: list[tuple[tuple[int, int], ...]] = [()] * len(needs)

    ranked = any(need.kind == "rank" for need in needs)

    def read(start: int, times: int, width: int) -> tuple[tuple[int, int], ...]:
        """Heads of CLS in ``times`` different layers from ``start`` on, all but the first as wide as asked;
        empty where there are too few."""
        free = [layer for layer in range(start, depth) if of_cls[layer] < heads[layer]]
        if ranked:
            free.sort(key=lambda layer: of_cls[layer] - heads[layer])
        wide = [layer for layer in free if widths[layer] >= width]
        chosen = sorted(wide[:times]) if len(wide) >= times else []
        for first in () if chosen else sorted(free):
            later = [layer for layer in wide if layer > first]
            if len(later) >= times - 1:
                chosen = [first, *sorted(later[: times - 1])]
                break
        for layer in chosen:
            of_cls[layer] += 1
        return tuple((layer, of_cls[layer] - 1) for layer in chosen)

    if any(need.kind == "many" for need in needs):
        return None
    for i in sorted(range(len(needs)), key=lambda i: -needs[i].width):
        if needs[i].kind == "pair":
            wide = (l for l in range(depth - 1) if of_tokens[l] < heads[l] and widths[l] >= needs[i].width)
            layer = next(wide, None)
            if layer is None:
                return None
            tokens[i] = layer, of_tokens[layer]
            of_tokens[layer] += 1
    for i in sorted(range(len(needs)), key=lambda i: (-(tokens[i] or (-1, 0))[0], -needs[i].rank)):
        place, need = tokens[i], needs[i]
        cls[i] = read(
            0 if place is None else place[0] + 1, need.rank, need.width if need.kind == "rank" else 1
        )
        if not cls[i]:
            return None
    return Assignment(tuple(tokens), tuple(cls))


def plan_for(
    target: Target,
    needs: Sequence[Need],
    assignment: Assignment,
    depth: int,
    head_widths: Sequence[int] | None = None,
) -> Plan:
    """The plan that an assignment describes; with ``head_widths``, bilinear scores are cut to these ranks."""
    partners = sorted((place, i) for i, place in enumerate(assignment.tokens) if place is not None)
    slot_of_partner = {place: slot for slot, (place, _) in enumerate(partners, start=1)}  # slot 0: the token
    readings = sorted(
        (*place, i, step) for i, places in enumerate(assignment.cls) for step, place in enumerate(places)
    )
    layers: list[dict[str, list[Rule]]] = [{} for _ in range(depth)]
    for (layer, _), i in partners:
        width = None if head_widths is None else head_widths[layer]
        score = _partner_score(_term(target, needs[i]), width)
        rank = needs[i].width if width is None else min(needs[i].width, width)
        partner = MaxPosition(score, (0,), rank=rank if _is_known(target, needs[i]) else None)
        layers[layer].setdefault("tokens", []).append(partner)
    last_found: dict[int, int] = {}  # need -> slot of CLS that holds what it found last
    cls_slots = 0
    for layer, _, i, step in readings:
        need, place = needs[i], assignment.tokens[i]
        rule: Rule
        if need.kind == "positions":
            rule, n_slots = Positions(need.positions, prune=(0,)), len(need.positions)
        elif place is not None:
            slot = slot_of_partner[place]
            rule, n_slots = MaxPosition(_pair_score(_term(target, need), slot), (0, slot)), 2
        else:
            term = _term(target, need)
            before = (last_found[i],) if step else None
            score = _below(term) if step else _token_score(term)
            rule = MaxPosition(score, (0,), query_slots=before, rank=BELOW if step else 1)
            last_found[i], n_slots = cls_slots, 1
        layers[layer].setdefault("cls", []).append(rule)
        cls_slots += n_slots
    return Plan(layers)


def own_partners(target: Target, need: Need, X: Floats, look: Look | None = None) -> float:
    """The share of tokens of ``X`` that would be their own best partner in a pair of different tokens.

    0 where a token may be paired with itself. Measured on at most 64 inputs.

    Examples
    --------
    >>> import hardmax as hm
    >>> target = hm.targets.parse("min(s!=t) |x[s] - x[t]|^2", d=2)
    >>> X = target.sample(20, 6)
    >>> own_partners(target, needs_of(target, X)[0], X)
    1.0
    """
    term = target.terms[need.terms[0]]
    if need.kind != "pair" or isinstance(term, FixedTerm) or term.tuples in ("all", "unordered"):
        return 0.0
    X, own = X[:64], []
    for block in in_blocks(X, look):
        x, y = np.broadcast_arrays(block[:, :, None], block[:, None])
        values = _value(term, x, y)  # of the pair (x(s), x(t)) at [s, t]
        own.append(np.diagonal(values, axis1=1, axis2=2) >= values.max(axis=1))
    return float(np.concatenate(own).mean())


def in_blocks(X: Floats, look: Look | None = None) -> Iterator[Floats]:
    """The sequences, as many at once as have few pairs of tokens; ``look`` is called before each
    block, with the number of sequences done and that of all.

    >>> [len(block) for block in in_blocks(np.zeros((5, 1024, 1)))]
    [4, 1]
    """
    step = max(1, _PAIRS // X.shape[1] ** 2)
    for start in range(0, len(X), step):
        if look is not None:
            look(start, len(X))
        yield X[start : start + step]


def narrow_error(
    target: Target,
    needs: Sequence[Need],
    assignment: Assignment,
    head_widths: Sequence[int],
    X: Floats,
    look: Look | None = None,
) -> float | None:
    """The NMSE on ``X`` of a sum of maxima in which tokens find partners by scores cut to these widths.

    A measurement on at most 256 inputs: the mean square of what is missed over the variance of the target.
    None where the target is no sum, or a score that is too wide no bilinear form.
    """
    if target.outer is not None:
        return None
    narrow = [
        (need, head_widths[place[0]])
        for need, place in zip(needs, assignment.tokens, strict=True)
        if place is not None and need.width > head_widths[place[0]]
    ]
    if not all(isinstance(_term(target, need).function, Bilinear) for need, _ in narrow):
        return None
    lost, whole = [], []
    for block in in_blocks(X[:_MEASURED], look):
        lost.append(sum((_lost(target, need, width, block) for need, width in narrow), np.zeros(len(block))))
        whole.append(target(block))
    return float(np.mean(np.concatenate(lost) ** 2) / np.var(np.concatenate(whole)))


def _lost(target: Target, need: Need, width: int, X: Floats) -> Floats:
    """By how much the terms of a need are missed where tokens find partners by a score of this width."""
    term, rows, total = _term(target, need), np.arange(len(X)), np.zeros(len(X))
    form = term.function
    assert isinstance(form, Bilinear)
    cut = narrowed(form, width).table(X, term.sign)
    if term.tuples not in ("all", "unordered"):
        cut[:, np.arange(X.shape[1]), np.arange(X.shape[1])] = -np.inf
    partners = cut.argmax(axis=1)
    values = np.take_along_axis(form.table(X, term.sign), partners[:, None], axis=1)[:, 0]
    t = values.argmax(axis=1)
    found = np.stack([partners[rows, t], t], axis=1)
    for number in need.terms:
        each = target.terms[number]
        total += each.values(X, each.winners(X)) - each.values(X, found)
    return total


def global_plan(depth: int) -> Plan:
    """CLS reads everything in the last layer: that learns every target, with T tokens in one state."""
    return Plan([*({} for _ in range(depth - 1)), {"cls": [GlobalRead()]}])


def _term(target: Target, need: Need) -> Term:
    term = target.terms[need.terms[0]]
    if isinstance(term, FixedTerm):
        raise TypeError("fixed positions have no score")
    return term


def _value(term: Term, *tokens: Floats) -> Floats:
    """What a term maximises at the given tokens."""
    return term.sign * np.asarray(term.function(*tokens), dtype=np.float64)


def _is_known(target: Target, need: Need) -> bool:
    """Whether the width of a pair was computed, not put to 1 for want of knowledge."""
    return partner_rank(_term(target, need), target.d_token) is not None


def _partner_score(term: Term, width: int | None = None) -> Any:
    """What token t maximises over s: the value of (x(s), x(t)), s itself left out where tuples ask for it."""
    function, repeats = narrowed(term.function, width), term.tuples in ("all", "unordered")
    if isinstance(function, Bilinear) and repeats and function.scale == 1.0 and function.offset == 0.0:
        return BilinearScore(term.sign * function.matrix.T)

    def partner_value(queries: Floats, keys: Floats) -> Floats:
        x, y = np.broadcast_arrays(keys[:, None, :, 0], queries[:, :, None, 0])
        values = term.sign * np.asarray(function(x, y), dtype=np.float64)
        return values if repeats else np.where((x == y).all(axis=-1), -np.inf, values)

    return partner_value


def _pair_score(term: Term, slot: int) -> KeyScore:
    """What CLS maximises over t: the value of (what t found, x(t))."""

    def pair_value(keys: Floats) -> Floats:
        return _value(term, keys[:, :, slot], keys[:, :, 0])

    return KeyScore(pair_value)


def _token_score(term: Term) -> KeyScore:
    """What CLS maximises over t: the value of x(t), or of (x(t), ..., x(t)) for a form won there."""

    def token_value(keys: Floats) -> Floats:
        return _value(term, *[keys[:, :, 0]] * term.arity)

    return KeyScore(token_value)


def _below(term: Term) -> Callable[[Floats, Floats], Floats]:
    """The best value that is worse than what CLS found before."""

    def value_below(queries: Floats, keys: Floats) -> Floats:
        found, values = _value(term, queries[:, :, 0]), _value(term, keys[:, :, 0])
        values = np.broadcast_to(values[:, None, :], (*found.shape, values.shape[1]))
        below = values < found[:, :, None]
        below |= ~below.any(axis=2, keepdims=True)  # all tokens tie: the best ones are read once more
        return np.where(below, values, -np.inf)

    return value_below
