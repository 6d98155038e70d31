"""How many heads and layers does my task need? The smallest architectures that carry it, by InfoFlow.

For every depth the fewest heads are found with which a plan of maxima exists
(:mod:`hardmax.flow.costs.plan_search`), and beside them one head that reads everything. Widths follow from
the cost law: a layer whose sets hold M tokens of d numbers gets the smallest width E with M d/E - 1 at most
the exponent that is allowed, wide enough for the ranks of its scores. What is left is a list of
architectures, counted in parameters, and for each of them what breaks when one head is taken away.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from math import ceil
from typing import Any, ClassVar

import numpy as np

from hardmax.bounds.large_integers import positive
from hardmax.errors import InvalidInputError
from hardmax.flow.architectures import Architecture
from hardmax.flow.costs.cost_law import cost_exponents, exponent_of
from hardmax.flow.costs.estimate import active_sets, missed_by, sampled_needs, set_sizes
from hardmax.flow.costs.plan_search import (
    Assignment,
    Look,
    Need,
    assign,
    narrow_error,
    own_partners,
    plan_for,
    unproven_terms,
)
from hardmax.flow.information_sets import follow
from hardmax.flow.plans import Plan
from hardmax.flow.theorems.hops import hop_plan, hops
from hardmax.limits import Clock
from hardmax.progress import shown
from hardmax.randomness import check_room, generator_of
from hardmax.results import Result
from hardmax.targets.naming import as_target
from hardmax.targets.target import Target
from hardmax.targets.tasks import hops_of
from hardmax.targets.tokens import Bilinear

_MOST_CHOICES = 1_000_000  # of heads for every layer but the last
_STEPS = 64  # exponents between which a budget chooses: 0, 1/8, 2/8, ...


@dataclass(frozen=True)
class Removal:
    """What happens when one head of a layer is taken away."""

    layer: int  # from 1
    heads: tuple[int, ...]  # that are left; a layer without heads disappears
    lost: str  # the terms for which no head is left
    share: float  # of samples on which CLS still holds the active set, with the other terms served
    global_exponent: Fraction  # of reading everything instead, in the width of the last layer


@dataclass(frozen=True)
class Narrowing:
    """What happens when the heads of a layer are one narrower than the ranks of their scores."""

    layer: int  # from 1
    head_width: int  # one less than the suggestion's ranks ask for
    missed: float | None  # proved: the most by which a maximum is missed; None: no bound is known
    share: float  # of samples on which CLS still holds the active set
    error: float | None  # measured: the NMSE on samples, None where the target is no sum of maxima


@dataclass(frozen=True)
class Suggestion:
    """One architecture that carries what the target needs."""

    _nested: ClassVar[dict[str, type]] = {"without": Removal, "narrower": Narrowing}

    heads: tuple[int, ...]
    widths: tuple[int, ...]
    rules: str  # "maxima" (rules 1 and 3) or "everything" (rule 2)
    parameters: int  # see parameter_count
    layer_sizes: tuple[int, ...]  # the largest information set of every layer
    exponent: Fraction  # the cost exponent of the plan, by the law
    lower: Fraction  # the least that the law asks of any plan
    share: float  # of samples on which CLS holds the active set
    without: tuple[Removal, ...]  # what breaks if one head is removed, layer by layer
    ranks: tuple[int, ...] = ()  # the largest known rank of a score, layer by layer: heads are as wide
    missed: float = 0.0  # proved: no maximum is missed by more, because of heads narrower than their rank
    narrower: tuple[Narrowing, ...] = ()  # what breaks if heads are narrower, where scores have rank above 1


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Result):
    """Architectures that carry what a target needs, the smallest first. Nothing is trained.

    Attributes
    ----------
    target : str
        In words.
    n_tokens, d_token : int
        T and d.
    suggestions : tuple of Suggestion
        Ranked by cost exponent, then by parameters.
    needs : tuple of str
        What the target needs.
    budget : int or None
        The parameters that were allowed.
    n_samples : int
        Samples on which every suggestion was run.

    Examples
    --------
    >>> import numpy as np
    >>> import hardmax as hm
    >>> matrices = np.random.default_rng(0).standard_normal((4, 4, 4))
    >>> advice = hm.advise(hm.targets.pairwise(matrices), n_tokens=64)
    >>> advice
    <Advice: 6 suggestions for 64 tokens, first: heads (4, 4), widths (20, 32), carries what it needs on
    100 % of 128 sampled inputs; nothing was trained>
    >>> print(advice.suggestions[0].without[0].lost)
    term 4
    """

    kind: ClassVar[str] = "Advice"
    _nested: ClassVar[dict[str, type]] = {"suggestions": Suggestion}

    target: str
    n_tokens: int
    d_token: int
    suggestions: tuple[Suggestion, ...]
    needs: tuple[str, ...]
    budget: int | None
    n_samples: int

    def _summary(self) -> str:
        n = len(self.suggestions)
        first = ""
        if n:
            first = f", first: heads {self.suggestions[0].heads}, widths {self.suggestions[0].widths}"
            first += f", {self.what_was_done()}"
        return f"{n} {'suggestion' if n == 1 else 'suggestions'} for {self.n_tokens} tokens{first}"

    def what_was_done(self, number: int = 0) -> str:
        """What stands behind a suggestion, in words.

        Examples
        --------
        >>> import hardmax as hm
        >>> hm.advise("retrieval:2", n_tokens=16, n_samples=4096).what_was_done()
        'carries what it needs on 100 % of 4,096 sampled inputs; nothing was trained'
        """
        each = self.suggestions[number]
        if each.rules == "everything":
            return "reads everything and so carries every target; nothing was run or trained"
        held = round(each.share * self.n_samples)
        percent = "100" if held == self.n_samples else f"{min(100 * each.share, 99.9):.1f}"
        return (
            f"carries what it needs on {percent} % of {self.n_samples:,} sampled inputs; nothing was trained"
        )

    def _table(self) -> Mapping[str, Sequence[Any]]:
        rows = self.suggestions
        return {
            "depth": [len(row.heads) for row in rows],
            "heads": [_joined(row.heads) for row in rows],
            "widths": [_joined(row.widths) for row in rows],
            "parameters": [row.parameters for row in rows],
            "reads": [row.rules for row in rows],
            "ranks": [_joined(row.ranks) for row in rows],
            "largest set": [max(row.layer_sizes) for row in rows],
            "exponent": [row.exponent for row in rows],
            "lower": [row.lower for row in rows],
            "share": [row.share for row in rows],
        }


def advise(
    target: Target | str,
    n_tokens: int,
    *,
    max_depth: int = 3,
    max_heads: int | None = None,
    max_exponent: float | Fraction = 0,
    max_missed: float = 0.0,
    budget: int | None = None,
    d_ff: int | None = None,
    n_samples: int = 128,
    n_suggestions: int = 6,
    rng: int | np.random.Generator = 0,
    time_limit: float | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
) -> Advice:
    """Suggest the smallest architectures that carry what a target needs, by InfoFlow. Nothing is trained.

    Parameters
    ----------
    target : Target or str
        Or its name or text form, as :func:`hardmax.targets.named` reads it; also ``"induction"`` and
        ``"k-hop:K"``, which are no targets but have plans.
    n_tokens : int
        T.
    max_depth, max_heads : int
        How deep to look, and how many heads a layer may have; by default as many as the target has needs.
    max_exponent : number
        The cost exponent that widths are chosen for; 0 means that sets fit into their layers uncompressed.
    max_missed : float
        How much of a maximum of pairs may be missed because a head is narrower than the rank of its score; 0
        asks for the full rank. A bound is known for bilinear forms on cubes.
    budget : int, optional
        The parameters that are allowed. Suggestions that do not fit are narrowed, at a higher exponent.
    d_ff : int, optional
        The width of the feed-forward blocks; 4 E_l by default.
    n_samples : int
        Inputs on which every suggestion is run.
    n_suggestions : int
        How many to return at most.
    rng : int or Generator
    time_limit : float, optional
        Seconds after which it is given up. Every suggestion is run on all samples, in time that grows with
        ``n_samples`` and the square of ``n_tokens``.
    progress : bool or callable, optional
        ``True`` shows a bar; a function is called with the number of suggestions done and that of all.

    Raises
    ------
    IncompleteError
        When the time is over.

    Examples
    --------
    A maximum needs one head of one layer; two best pairs need two heads in each of two layers, or three
    layers of one head:

    >>> import hardmax as hm
    >>> hm.advise(hm.targets.retrieval(1), 64).suggestions[0].heads
    (1,)
    >>> hm.advise("pairwise:2", n_tokens=64).suggestions[0].heads
    (2, 2)
    >>> target = hm.targets.pairwise([[[1, 0], [0, -1]], [[-1, 2], [2, 1]]])
    >>> for each in hm.advise(target, 32).suggestions:
    ...     print(each.heads, each.widths, each.rules, each.parameters)
    (2, 2) (6, 8) maxima 1113
    (1, 1, 1) (4, 6, 8) maxima 1351
    (1,) (64,) everything 33537
    """
    clock = Clock(time_limit, "run all suggestions on samples")
    hops = hops_of(target) if isinstance(target, str) else None
    if hops is None:
        target = as_target(target)
        n_tokens = positive("n_tokens of this target", n_tokens, least=target.min_tokens)
    max_depth, n_samples = positive("max_depth", max_depth), positive("n_samples", n_samples)
    max_heads = None if max_heads is None else positive("max_heads", max_heads)
    d_ff = None if d_ff is None else positive("d_ff", d_ff)
    budget = None if budget is None else positive("budget", budget)
    n_suggestions = positive("n_suggestions", n_suggestions)
    allowed = exponent_of("max_exponent", max_exponent).limit_denominator(10**6)
    allowed_loss = float(exponent_of("max_missed", max_missed))
    generator = generator_of(rng)
    with shown(progress, _line, clock) as report:
        if hops is not None:
            look = _looking(report, 0, 1)
            return _of_hops(hops, n_tokens, max_depth, allowed, budget, d_ff, n_samples, generator, look)
        target = as_target(target)
        needs = sampled_needs(target, n_tokens, n_samples, generator)
        X = target.sample(n_samples, n_tokens, generator)
        found: list[tuple[tuple[int, ...], Assignment | None]] = [
            (heads, assign(needs, heads)) for heads in _smallest_heads(needs, max_depth, max_heads)
        ]
        if n_tokens > 1:
            found.append(((1,), None))  # one head that reads everything
        fitted = []
        for heads, assignment in found:
            ranks, missed = _ranks(target, needs, assignment, len(heads), allowed_loss)
            fit = _fitted(target, needs, heads, assignment, n_tokens, allowed, budget, d_ff, ranks)
            if fit is not None:
                fitted.append((replace(fit, ranks=ranks, missed=missed), assignment))
        fitted.sort(key=lambda each: (each[0].exponent, each[0].parameters, each[0].heads))
        fitted = fitted[:n_suggestions]
        looks = [_looking(report, i, len(fitted)) for i in range(len(fitted))]
        look = _looking(report, 0, max(len(fitted), 1))
        active = active_sets(target, X, look)
        suggestions = tuple(
            _checked(target, needs, Samples(X, active, look), *each)
            for look, each in zip(looks, fitted, strict=True)
        )
        unproven = unproven_terms(target, needs) if n_tokens > 1 else ()
        words = [f"{need}: {_WORDS[need.kind]}" for need in needs]
        words += [
            _needs_a_mask(need, share) for need in needs if (share := own_partners(target, need, X, look)) > 0
        ]
        if unproven:
            listed = _joined([i + 1 for i in unproven])
            words.append(
                f"That one token wins, or the tokens of another term do, was seen on {n_samples} samples and "
                f"not proved of term {listed}."
            )
        return Advice(
            target.name or repr(target),
            n_tokens,
            target.d_token,
            suggestions,
            tuple(words),
            budget,
            n_samples,
        )


def _line(done: int, total: int) -> tuple[float | None, str]:
    return done / total, f"{done} of {total} suggestions"


def _looking(report: Look | None, done: int, total: int) -> Look | None:
    """What looks at the clock while one suggestion is run."""
    return None if report is None else lambda *_: report(done, total)


def _of_hops(
    k: int,
    n_tokens: int,
    max_depth: int,
    allowed: Fraction,
    budget: int | None,
    d_ff: int | None,
    n_samples: int,
    rng: np.random.Generator,
    look: Look | None,
) -> Advice:
    """Advice for induction and chains of it: the plan of :mod:`hardmax.flow.theorems.hops`, run on samples.

    A token (letter, position) keeps itself, the one before it and what it found, CLS only what it found.
    """
    T = positive("n_tokens", n_tokens, least=2)
    shape, plan = hop_plan(T, k)
    name = "the token behind the last match" if k == 1 else f"the token behind the last match, {k} hops"
    words = [f"{k} {'hop' if k == 1 else 'hops'}: {shape.depth} layers of one head, with positional encoding"]
    choices: list[tuple[tuple[int, ...], tuple[int, ...], str]] = [((1,), (T,), "everything")]
    if shape.depth <= max_depth:
        choices.insert(0, (shape.heads, (2, *(3 for _ in range(shape.depth - 2)), 1), "maxima"))
    else:
        words.append(f"They are more than max_depth = {max_depth}; try max_depth={shape.depth}.")
    share = _share_of_hops(shape, plan, k, n_samples, rng, look)
    found = []
    for heads, sizes, rules in choices:
        ranks = _largest_ranks(plan) if rules == "maxima" else (1,)
        fit = _narrowed_to(budget, allowed, T, 2, heads, sizes, ranks, d_ff, positions=True)
        if fit is not None:
            widths, parameters, exponent = fit
            seen = share if rules == "maxima" else 1.0
            each = (heads, widths, rules, parameters, sizes, exponent, Fraction(0), seen, (), ranks)
            found.append(Suggestion(*each))
    return Advice(name, T, 2, tuple(found), tuple(words), budget, n_samples)


def _largest_ranks(plan: Plan) -> tuple[int, ...]:
    """The largest known rank of a score, layer by layer; 1 where nothing is known."""
    return tuple(
        max([1, *(getattr(rule, "rank", None) or 1 for _, rules in layer for rule in rules)])
        for layer in plan.layers
    )


def _share_of_hops(
    shape: Architecture, plan: Plan, k: int, n_samples: int, rng: np.random.Generator, look: Look | None
) -> float:
    """On how many of ``n_samples`` random texts of three letters that have an answer CLS ends with it."""
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < n_samples:  # one text in three ends with a letter twice, which answers itself
        check_room("samples", max(n_samples, 256), shape.n_tokens)
        letters = rng.integers(0, 3, (max(n_samples, 256), shape.n_tokens))
        kept.append(letters[hops(letters, k) >= 0])
    letters = np.concatenate(kept)[:n_samples]
    places = np.broadcast_to(np.arange(shape.n_tokens), letters.shape)
    X = np.stack([letters, places], axis=2).astype(np.float64)
    held = follow(shape, plan, X, look=look).sets(shape.depth)
    right = held.sum(axis=1) == 1
    right &= held.argmax(axis=1) == hops(letters, k)
    return float(right.mean())


def _needs_a_mask(need: Need, share: float) -> str:
    return (
        f"{need}: two different tokens, but {share:.0%} of the sampled tokens would be their own best "
        "partner; the heads of the tokens need a mask that keeps them from reading themselves."
    )


_WORDS = {
    "single": "the best token, one head of CLS",
    "pair": "the best pair, one head of the tokens and one of CLS in a later layer",
    "rank": "the k-th best token, one head of CLS in each of k layers",
    "positions": "fixed positions, one head of CLS with positional encoding",
    "many": "tuples for which no plan of maxima is known",
}


def parameter_count(architecture: Architecture, *, d_ff: int | None = None, positions: bool = False) -> int:
    """The parameters of the transformer of P2 section 3, biases in the feed-forward blocks included.

    (d + 1) E_1 for the embedding, E_1 for CLS, T E_1 for positions if they are used; 4 E_l^2 for the
    projections of layer l; (E_l + 1) w + (w + 1) E_{l+1} for its feed-forward block of width w, where E_{L+1}
    = 1 is the output.

    Examples
    --------
    >>> import hardmax as hm
    >>> parameter_count(hm.Architecture(64, 4, (4, 4), 24), d_ff=64)
    9577
    """
    widths = [*architecture.widths, 1]
    total = (architecture.d_token + 2) * widths[0] + (architecture.n_tokens * widths[0] if positions else 0)
    for here, after in pairwise(widths):
        w = 4 * here if d_ff is None else d_ff
        total += 4 * here**2 + (here + 1) * w + (w + 1) * after
    return total


def _smallest_heads(
    needs: Sequence[Need], max_depth: int, max_heads: int | None
) -> Iterator[tuple[int, ...]]:
    """Heads with which a plan of maxima exists, but not with one head less in any layer.

    Each of them then does one of the readings that the needs ask for, so there are no more than those.
    """
    if any(need.kind == "many" for need in needs):
        return
    readings = sum({"pair": 2, "rank": need.rank}.get(need.kind, 1) for need in needs) or 1
    max_depth = min(max_depth, readings)
    max_heads = min(max_heads or max(len(needs), 1), readings)
    if max_heads ** (max_depth - 1) > _MOST_CHOICES:
        raise InvalidInputError(
            f"max_depth must be smaller: {max_depth} layers of up to {max_heads} heads are more than "
            f"{_MOST_CHOICES:,} choices; try max_depth=3 or a smaller max_heads."
        )
    for depth in range(1, max_depth + 1):
        for before in product(range(1, max_heads + 1), repeat=depth - 1):
            last = 1 + bisect_left(  # more heads never hurt
                range(1, max_heads + 1), True, key=lambda h: assign(needs, (*before, h)) is not None
            )
            heads = (*before, last)
            if last <= max_heads and not any(assign(needs, left) for _, left in _one_less(heads) if left):
                yield heads


def _one_less(heads: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Layer by layer (from 1), the heads that are left when one is taken away."""
    for layer, h in enumerate(heads):
        middle = (h - 1,) if h > 1 else ()
        yield layer + 1, (*heads[:layer], *middle, *heads[layer + 1 :])


def _sizes(
    needs: Sequence[Need], assignment: Assignment | None, n_tokens: int, depth: int
) -> tuple[int, ...]:
    """The largest set of every layer, counted from the plan: of tokens before the last layer, and of CLS."""
    if assignment is None:
        return (*(1 for _ in range(depth - 1)), n_tokens)
    tokens, cls = [1] * depth, [0] * depth
    for need, place, readings in zip(needs, assignment.tokens, assignment.cls, strict=True):
        for layer in range(depth):
            if place is not None and layer >= place[0] and layer < depth - 1:
                tokens[layer] += 1
            weight = {"pair": 2, "positions": len(need.positions)}.get(need.kind, 1)
            cls[layer] += weight * sum(reading[0] <= layer for reading in readings)
    return tuple(min(n_tokens, max(pair)) for pair in zip(tokens, cls, strict=True))


def _ranks(
    target: Target, needs: Sequence[Need], assignment: Assignment | None, depth: int, allowed: float
) -> tuple[tuple[int, ...], float]:
    """How wide the heads of every layer must be (known ranks, less if allowed), and what is missed."""
    ranks, missed = [1] * depth, 0.0
    if assignment is None:
        return tuple(ranks), missed
    for need, place, readings in zip(needs, assignment.tokens, assignment.cls, strict=True):
        if need.kind == "pair" and place is not None:
            width, loss = need.width, 0.0
            while allowed and width > 1:
                less = missed_by(target, need, width - 1)
                if less is None or less > allowed:
                    break
                width, loss = width - 1, less
            ranks[place[0]] = max(ranks[place[0]], width)
            missed = max(missed, loss)
        elif need.kind == "rank":
            for layer, _ in readings[1:]:
                ranks[layer] = max(ranks[layer], need.width)
    return tuple(ranks), missed


def _fitted(
    target: Target,
    needs: Sequence[Need],
    heads: tuple[int, ...],
    assignment: Assignment | None,
    n_tokens: int,
    allowed: Fraction,
    budget: int | None,
    d_ff: int | None,
    ranks: tuple[int, ...],
) -> Suggestion | None:
    """The widest choice that the budget allows, not yet run on samples, or None."""
    d, positions = target.d_token, any(need.kind == "positions" for need in needs)
    sizes = _sizes(needs, assignment, n_tokens, len(heads))
    fit = _narrowed_to(budget, allowed, n_tokens, d, heads, sizes, ranks, d_ff, positions=positions)
    if fit is None:
        return None
    widths, parameters, reached = fit
    rules = "everything" if assignment is None else "maxima"
    lower = set_sizes(target, Architecture(n_tokens, d, heads, widths)).exponent
    return Suggestion(heads, widths, rules, parameters, sizes, reached, lower, 1.0, ())


def _narrowed_to(
    budget: int | None,
    allowed: Fraction,
    n_tokens: int,
    d: int,
    heads: tuple[int, ...],
    sizes: tuple[int, ...],
    ranks: tuple[int, ...],
    d_ff: int | None,
    *,
    positions: bool,
) -> tuple[tuple[int, ...], int, Fraction] | None:
    """The widest widths that the budget allows, with their parameters and cost exponent, or None."""
    for step in range(_STEPS + 1):
        exponent = allowed + Fraction(step, 8)
        widths = tuple(
            max(ceil(size * d / (1 + exponent) / h), rank) * h
            for size, h, rank in zip(sizes, heads, ranks, strict=True)
        )
        shape = Architecture(n_tokens, d, heads, widths)
        parameters = parameter_count(shape, d_ff=d_ff, positions=positions)
        if budget is None or parameters <= budget:
            reached = max(cost_exponents(size, d, E).law for size, E in zip(sizes, widths, strict=True))
            return widths, parameters, reached
    return None


@dataclass(frozen=True)
class Samples:
    """Sampled inputs, the tokens on which the target depends at each, and what looks at the clock."""

    X: np.ndarray
    active: np.ndarray
    look: Look | None


def _checked(
    target: Target, needs: Sequence[Need], samples: Samples, each: Suggestion, assignment: Assignment | None
) -> Suggestion:
    """A suggestion with its share of samples, and with what breaks when a head is removed."""
    share, narrower = 1.0, tuple[Narrowing, ...]()
    if assignment is not None:
        widths = each.ranks if each.missed else None
        share = _share(target, needs, assignment, each.heads, samples, widths)
        narrower = _narrower(target, needs, assignment, each, samples)
    everything = cost_exponents(samples.X.shape[1], target.d_token, each.widths[-1]).law
    without = tuple(
        Removal(layer, left, *_what_is_lost(target, needs, left, samples, assignment is None), everything)
        for layer, left in _one_less(each.heads)
    )
    return replace(each, share=share, without=without, narrower=narrower)


def _narrower(
    target: Target, needs: Sequence[Need], assignment: Assignment, each: Suggestion, samples: Samples
) -> tuple[Narrowing, ...]:
    """Layer by layer, what heads lose that are one narrower than they must be, for bilinear forms."""
    found = []
    for layer, rank in enumerate(each.ranks):
        pairs = [
            need
            for need, place in zip(needs, assignment.tokens, strict=True)
            if place is not None and place[0] == layer and need.width >= rank
        ]
        if rank > 1 and pairs and all(isinstance(target.terms[n.terms[0]].function, Bilinear) for n in pairs):
            widths = [*each.ranks[:layer], rank - 1, *each.ranks[layer + 1 :]]
            losses = [missed_by(target, need, rank - 1) for need in pairs]
            missed = None if None in losses else max(loss for loss in losses if loss is not None)
            share = _share(target, needs, assignment, each.heads, samples, widths)
            error = narrow_error(target, needs, assignment, widths, samples.X, samples.look)
            found.append(Narrowing(layer + 1, rank - 1, missed, share, error))
    return tuple(found)


def _what_is_lost(
    target: Target, needs: Sequence[Need], left: tuple[int, ...], samples: Samples, reads_all: bool
) -> tuple[str, float]:
    """Which needs have no head any more, and how often CLS still holds what it must."""
    if reads_all or not left:
        return "everything: nothing is read any more", 0.0
    served = list(needs)
    while served and assign(served, left) is None:
        pairs = [i for i, need in enumerate(served) if need.kind == "pair"]
        served.pop(pairs[-1] if pairs else -1)
    lost = ", ".join(str(need) for need in needs if need not in served)
    assignment = assign(served, left)
    if not served or assignment is None:
        return lost, 0.0
    return lost, _share(target, served, assignment, left, samples)


def _share(
    target: Target,
    needs: Sequence[Need],
    assignment: Assignment,
    heads: tuple[int, ...],
    samples: Samples,
    head_widths: Sequence[int] | None = None,
) -> float:
    shape = Architecture(
        samples.X.shape[1], target.d_token, heads, heads
    )  # widths play no part in what is learned
    plan = plan_for(target, needs, assignment, shape.depth, head_widths)
    return follow(shape, plan, samples.X, look=samples.look).learns(samples.active).share


def _joined(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
