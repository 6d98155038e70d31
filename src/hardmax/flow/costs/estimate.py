"""What a target costs a given architecture: P2's two-step procedure (section 5.3), with every step in view.

Step 1, from below. The model must make at least as many comparisons as the target needs, N(model) >=
N(target) with equation (5), which asks for information sets of some size M; and CLS must at last hold all D0
tokens on which the target depends. With the cost law both ask for epsilon^{-p} parameters.

Step 2, from above. A plan is searched whose information sets reach the active set
(:mod:`hardmax.flow.costs.plan_search`), is run on samples, and its sets are charged by the same law.

The law is a law of the paper, supported by Theorem 3 after repair, not a theorem about transformers: the
numbers say what InfoFlow predicts, and the assumptions are listed with them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np

from hardmax.errors import DimensionMismatchError, InvalidInputError, written
from hardmax.flow.architectures import Architecture
from hardmax.flow.costs.cost_law import cost_exponents, minimal_set_size, model_comparisons, score_ranks
from hardmax.flow.costs.plan_search import (
    Look,
    Need,
    assign,
    global_plan,
    in_blocks,
    narrow_error,
    needs_of,
    own_partners,
    plan_for,
    unproven_terms,
)
from hardmax.flow.costs.score_rank import missed_maximum
from hardmax.flow.information_sets import InformationFlow, follow
from hardmax.flow.plans import Plan
from hardmax.limits import Clock
from hardmax.progress import shown
from hardmax.randomness import generator_of
from hardmax.results import Result
from hardmax.targets.naming import as_target
from hardmax.targets.target import Interval, Target
from hardmax.targets.terms import Term

Rules = Literal["max-position", "positions", "max-position and positions", "global"]

_SHORT, _LONGEST, _MOST_HEADS, _DEEPEST = 12, 1 << 14, 128, 12
_INTERVALS = ("max_active", "dimension", "order", "comparisons")
_STORED_SIZES = {
    "printed": "set_size_printed",
    "repaired": "set_size_repaired",
    "active": "set_size_active",
    "exponent": "lower",
}  # fields of SetSizes under their names in files


@dataclass(frozen=True)
class SetSizes:
    """How large information sets must be, and what that costs at least.

    M by equation (5), as printed and as repaired, comes from the lower end of the number of comparisons.
    """

    printed: int
    repaired: int
    active: int  # the lower end of D0: so many tokens CLS must hold in the end
    exponent: Fraction  # by the law: M repaired in the widest layer, D0 in the last one


@dataclass(frozen=True)
class NarrowHead:
    """A score of larger rank than its head is wide."""

    term: int  # from 1
    layer: int  # from 1
    rank: int  # that the score needs
    head_width: int
    missed: float | None  # proved: the most that the maximum is missed by; None where no bound is known
    share: (
        float  # of samples on which CLS holds the active set with all scores cut to the width of their heads
    )
    error: float | None = None  # measured on samples, of all terms together: the NMSE with scores cut so


@dataclass(frozen=True, eq=False, repr=False)
class CostEstimate(Result):
    """What InfoFlow predicts for a target and an architecture.

    Attributes
    ----------
    target : str
        The target in words.
    architecture : Architecture
    max_active, dimension, order, comparisons : Interval
        D0, beta1, beta' and N of the target at this length.
    capacity : dict
        The most comparisons that max-position retrieval makes by equation (5): ``printed`` and ``repaired``.
    sizes : SetSizes
        M from below, with the lower cost exponent.
    lower, upper : Fraction
        The cost is between epsilon^{-lower} and epsilon^{-upper} parameters by the law.
    paid : Fraction
        The exponent M d/E that the paper's own construction pays for the plan.
    global_exponent : Fraction
        The exponent of one head that reads everything in the last layer.
    rules : str
        "max-position", "positions", "max-position and positions" or "global".
    plan : Plan
        The plan that was found.
    set_size, sampled_size : int
        The largest information set that the plan can make whatever the input, which is what is charged, and
        the largest one on the samples.
    layer_sizes : tuple of int
        The former layer by layer.
    share : float
        On which share of ``n_samples`` samples CLS holds the active set.
    ranks : tuple of dict
        The rank that each score needs against the width of its head, for the plan of maxima if there is one.
    narrow : tuple of NarrowHead
        Scores of larger rank than their heads are wide, if that is all that a plan of maxima lacks: what the
        maxima are missed by at most, and how often CLS still holds the active set.
    thresholds : dict
        Where the answer changes in T, heads, depth and width; None where it does not within the search.
    verdict : str
        One sentence.
    assumptions : tuple of str
        What the numbers rest on.

    Examples
    --------
    >>> import numpy as np
    >>> import hardmax as hm
    >>> matrices = np.random.default_rng(0).standard_normal((3, 4, 4))
    >>> estimate = hm.estimate_cost(hm.targets.pairwise(matrices), hm.Architecture(32, 4, (3, 3), 18))
    >>> estimate
    <CostEstimate: max-position, exponent 1/3; carried on 256 of 256 samples>
    >>> estimate.rules, estimate.set_size, estimate.global_exponent
    ('max-position', 6, Fraction(55, 9))
    >>> estimate.thresholds["heads"]
    3
    """

    kind: ClassVar[str] = "CostEstimate"
    _nested: ClassVar[dict[str, type]] = {"narrow": NarrowHead}

    target: str
    architecture: Architecture
    max_active: Interval
    dimension: Interval
    order: Interval
    comparisons: Interval
    capacity: Mapping[str, int]
    sizes: SetSizes
    upper: Fraction
    paid: Fraction
    global_exponent: Fraction
    rules: Rules
    plan: Plan
    set_size: int
    sampled_size: int
    layer_sizes: tuple[int, ...]
    share: float
    n_samples: int
    ranks: tuple[Mapping[str, Any], ...]
    thresholds: Mapping[str, int | None]
    verdict: str
    assumptions: tuple[str, ...]
    narrow: tuple[NarrowHead, ...] = ()

    @property
    def lower(self) -> Fraction:
        """The lower cost exponent."""
        return self.sizes.exponent

    def _state(self) -> dict[str, Any]:
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        sizes = asdict(state.pop("sizes"))
        return {
            "target": state.pop("target"),
            **asdict(state.pop("architecture")),
            **{stored: sizes[name] for name, stored in _STORED_SIZES.items()},
            **state,
            **{name: state[name].to_dict() for name in _INTERVALS},
            "plan": self.plan.to_dict(self.architecture.n_tokens),
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        values = dict(state)
        shape = [values.pop(field.name) for field in fields(Architecture)]
        sizes = {name: values.pop(stored) for name, stored in _STORED_SIZES.items()}
        for name in _INTERVALS:
            ends = values[name]
            values[name] = Interval(
                ends["low"], ends["high"], tuple(ends["reasons"]), tuple(ends["assuming"])
            )
        parts = {"architecture": Architecture(*shape), "sizes": SetSizes(**sizes)}
        return super()._from_state({**values, **parts, "plan": Plan.from_dict(values["plan"])})

    def _summary(self) -> str:
        learned = round(self.share * self.n_samples)
        return (
            f"{self.rules}, {exponent_range(self.lower, self.upper)}; "
            f"carried on {learned} of {self.n_samples} samples"
        )

    def _table(self) -> Mapping[str, Sequence[Any]]:
        heads, widths = self.architecture.heads, self.architecture.widths
        return {
            "layer": list(range(1, len(heads) + 1)),
            "heads": list(heads),
            "width": list(widths),
            "largest set": list(self.layer_sizes),
            "law": [
                cost_exponents(size, self.architecture.d_token, width).law
                for size, width in zip(self.layer_sizes, widths, strict=True)
            ],
        }


def estimate_cost(
    target: Target | str,
    architecture: Architecture,
    *,
    n_samples: int = 256,
    rng: int | np.random.Generator = 0,
    thresholds: bool = True,
    time_limit: float | None = None,
    progress: bool | Callable[[int, int, str], object] | None = None,
) -> CostEstimate:
    """Estimate what it costs an architecture to approximate a target, before any training.

    Parameters
    ----------
    target : Target or str
        Or its name or text form, as :func:`hardmax.targets.named` reads it.
        Its domain is where samples are drawn.
    architecture : Architecture
        T, d, heads and widths.
    n_samples : int
        Inputs on which needs are read off and the plan is checked.
    rng : int or Generator
        For the samples.
    thresholds : bool
        Whether to look for the T, heads, depth and width at which the answer changes.
    time_limit : float, optional
        Seconds after which it is given up. The plan is run on all samples, in time that grows with
        ``n_samples`` and the square of T.
    progress : bool or callable, optional
        ``True`` shows a bar; a function is called with the number of samples done, that of all, and what is
        done with them.

    Raises
    ------
    IncompleteError
        When the time is over.
    DimensionMismatchError
        When tokens of the target and of the architecture differ in size.

    Examples
    --------
    Six heads find six maxima; five do not, and reading everything instead is expensive.

    >>> import hardmax as hm
    >>> target = hm.targets.retrieval(6)
    >>> six = hm.estimate_cost(target, hm.Architecture(64, 6, (6,), 36))
    >>> print(six.verdict)
    max-position retrieval carries what it needs with sets of up to 6 tokens: cost epsilon^-0 by the law, and
    no less
    >>> five = hm.estimate_cost(target, hm.Architecture(64, 6, (5,), 35))
    >>> five.rules, five.upper, five.thresholds["heads"]
    ('global', Fraction(349, 35), 6)
    """
    clock = Clock(time_limit, "run the plan on samples")
    target = as_target(target)
    _check(target, architecture, n_samples)
    with shown(progress, _line, clock) as report:
        return _estimated(target, architecture, n_samples, generator_of(rng), thresholds, report)


def _line(done: int, total: int, what: str) -> tuple[float | None, str]:
    return done / total, f"{what} of {done:,} of {total:,} samples"


def _estimated(
    target: Target,
    architecture: Architecture,
    n_samples: int,
    generator: np.random.Generator,
    thresholds: bool,
    report: Look | None,
) -> CostEstimate:
    T, d = architecture.n_tokens, architecture.d_token
    X = target.sample(n_samples, T, generator)
    needs = sampled_needs(target, T, n_samples, generator)
    sizes = set_sizes(target, architecture)
    plan, rules, narrow = _plan(target, needs, architecture, X, report)
    flow = follow(architecture, plan, X, look=_look(report, "sets"))
    ranked = flow if narrow is None else follow(architecture, narrow.plan, X, look=_look(report, "sets"))
    share = 1.0  # of reading everything, by definition
    if rules != "global":
        share = flow.learns(active_sets(target, X, _look(report, "active sets"))).share
        if share < 1.0:  # a function that is not what it seemed on short sequences
            plan, rules, share = global_plan(architecture.depth), "global", 1.0
            flow = follow(architecture, plan, X, look=_look(report, "sets"))
    layer_sizes = _layer_sizes(flow)
    costs = [
        cost_exponents(size, d, width) for size, width in zip(layer_sizes, architecture.widths, strict=True)
    ]
    upper = max(cost.law for cost in costs)
    beta1, D0 = target.dimension.high, target.max_active.high
    unproven = unproven_terms(target, needs) if T > 1 else ()
    return CostEstimate(
        target=target.name or repr(target),
        architecture=architecture,
        max_active=target.max_active,
        dimension=target.dimension,
        order=target.order,
        comparisons=target.comparisons(T),
        capacity={
            "printed": int(model_comparisons(architecture, beta1)),
            "repaired": int(model_comparisons(architecture, beta1, version="repaired", max_active=D0)),
        },
        sizes=sizes,
        upper=upper,
        paid=max(cost.upper for cost in costs),
        global_exponent=cost_exponents(T, d, architecture.widths[-1]).law,
        rules=rules,
        plan=plan,
        set_size=max(layer_sizes),
        sampled_size=flow.largest,
        layer_sizes=layer_sizes,
        share=share,
        n_samples=n_samples,
        ranks=tuple(score_ranks(ranked).rows),
        thresholds=_thresholds(target, needs, architecture, layer_sizes) if thresholds else {},
        verdict=_verdict(rules, max(layer_sizes), sizes.exponent, upper, bool(unproven), narrow),
        assumptions=_assumptions(
            target,
            rules,
            n_samples,
            unproven,
            max((own_partners(target, need, X, _look(report, "partners")) for need in needs), default=0.0),
        ),
        narrow=() if narrow is None else narrow.rows,
    )


def _look(report: Look | None, what: str) -> Look | None:
    return None if report is None else lambda done, total: report(done, total, what)


def active_sets(target: Target, X: np.ndarray, look: Look | None = None) -> np.ndarray:
    """The tokens on which a target depends, (B, T), in blocks of inputs.

    >>> import hardmax as hm
    >>> target = hm.targets.retrieval(1)
    >>> active_sets(target, target.sample(3, 8)).sum(axis=1)
    array([1, 1, 1])
    """
    return np.concatenate([target.active_set(block) for block in in_blocks(X, look)])


def sampled_needs(
    target: Target, n_tokens: int, n_samples: int, rng: np.random.Generator
) -> tuple[Need, ...]:
    """What a target needs, read off short sequences: which form a term has does not depend on the length."""
    length = min(n_tokens, max(_SHORT, target.min_tokens))
    return needs_of(target, target.sample(n_samples, length, rng))


def set_sizes(target: Target, architecture: Architecture) -> SetSizes:
    """Step 1: the sizes that information sets must have, and the lower cost exponent.

    Where beta1 and D0 are intervals, the ends are taken that ask for less.

    Examples
    --------
    The bound on the triangle-center target starts far beyond the T <= 64 of the experiments:

    >>> import hardmax as hm
    >>> for T in (64, 189, 190):
    ...     print(T, set_sizes(hm.targets.triangle_center(), hm.Architecture(T, 2, (2, 2), 24)).exponent)
    64 0
    189 0
    190 1/12
    """
    wanted = target.comparisons(architecture.n_tokens).low
    beta1, size, d = target.dimension.high, target.max_active, architecture.d_token
    printed = minimal_set_size(wanted, architecture, beta1)
    repaired = minimal_set_size(wanted, architecture, beta1, version="repaired", max_active=size.high)
    active = min(size.low, architecture.n_tokens)
    exponent = max(
        cost_exponents(repaired, d, max(architecture.widths)).law,
        cost_exponents(active, d, architecture.widths[-1]).law,
    )
    return SetSizes(printed, repaired, active, exponent)


def _check(target: Target, architecture: Architecture, n_samples: int) -> None:
    if not isinstance(architecture, Architecture):
        raise InvalidInputError(
            f"architecture must be an Architecture, but was a {type(architecture).__name__}."
        )
    if target.d_token != architecture.d_token:
        raise DimensionMismatchError(
            f"target and architecture must have tokens of one size, but these have {target.d_token} and "
            f"{architecture.d_token} numbers."
        )
    if n_samples < 1:
        raise InvalidInputError(f"n_samples must be at least 1, but was {written(n_samples)}.")
    if architecture.n_tokens < target.min_tokens:
        raise InvalidInputError(
            f"n_tokens must be at least {target.min_tokens} for this target, but was {architecture.n_tokens}."
        )


@dataclass(frozen=True)
class _Narrow:
    """A plan of maxima for which heads are too narrow."""

    plan: Plan
    rows: tuple[NarrowHead, ...]


def _narrow(
    target: Target, needs: Sequence[Need], architecture: Architecture, X: np.ndarray, report: Look | None
) -> _Narrow | None:
    """The plan of maxima that these heads would carry if they were wider, and what they lose."""
    assignment = assign(needs, architecture.heads)
    if assignment is None:
        return None
    depth = architecture.depth
    widths = [architecture.head_width(layer + 1) for layer in range(depth)]
    plan = plan_for(target, needs, assignment, depth)
    rows = []
    for need, place, readings in zip(needs, assignment.tokens, assignment.cls, strict=True):
        for layer, _ in [place] if place is not None else readings[1:]:
            if widths[layer] < need.width:
                rows.append((need, layer))
    narrow = plan_for(target, needs, assignment, depth, widths)
    cut = follow(architecture, narrow, X, look=_look(report, "sets of narrow heads"))
    pairs = all(need.kind == "pair" for need, _ in rows)
    look = _look(report, "losses of narrow heads")
    share = cut.learns(active_sets(target, X, look)).share if pairs else 0.0
    error = narrow_error(target, needs, assignment, widths, X, look) if pairs else None
    return _Narrow(
        plan,
        tuple(
            NarrowHead(
                need.terms[0] + 1,
                layer + 1,
                need.width,
                widths[layer],
                missed_by(target, need, widths[layer]),
                share,
                error,
            )
            for need, layer in rows
        ),
    )


def missed_by(target: Target, need: Need, width: int) -> float | None:
    """A proved bound on what the first term of a need loses in heads of this width; None if none is known."""
    term = target.terms[need.terms[0]]
    if need.kind != "pair" or not isinstance(term, Term):
        return None
    return missed_maximum(term, width, target.domain, target.d_token)


def _plan(
    target: Target, needs: Sequence[Need], architecture: Architecture, X: np.ndarray, report: Look | None
) -> tuple[Plan, Rules, _Narrow | None]:
    widths = [architecture.head_width(layer + 1) for layer in range(architecture.depth)]
    assignment = assign(needs, architecture.heads, widths)
    if assignment is None:
        return global_plan(architecture.depth), "global", _narrow(target, needs, architecture, X, report)
    fixed = {need.kind == "positions" for need in needs}
    rules: Rules = (
        "max-position and positions" if len(fixed) == 2 else "positions" if True in fixed else "max-position"
    )
    return plan_for(target, needs, assignment, architecture.depth), rules, None


def _layer_sizes(flow: InformationFlow) -> tuple[int, ...]:
    """The most that a token or CLS can hold after each layer, whatever the input."""
    bound = flow.growth_bound
    of_tokens = [*bound.tokens.tolist(), 0]
    return tuple(max(pair) for pair in zip(of_tokens, bound.cls.tolist(), strict=True))


def _thresholds(
    target: Target, needs: Sequence[Need], architecture: Architecture, layer_sizes: Sequence[int]
) -> dict[str, int | None]:
    """Where the answer changes, one quantity at a time.

    ``tokens``: the first T with a positive lower exponent. ``heads``: the fewest heads per layer with which a
    plan of maxima is found. ``counting_heads``: the fewest with which counting asks for sets of one token
    only. ``depth``: the fewest layers of these heads. ``lower_width``, ``upper_width``: the width from which
    on the lower and the upper exponent are 0.
    """
    T, d, L = architecture.n_tokens, architecture.d_token, architecture.depth
    sizes = set_sizes(target, architecture)

    def costs(length: int) -> bool:
        return set_sizes(target, replace(architecture, n_tokens=length)).exponent > 0

    def trivial(h: int) -> bool:
        N = target.comparisons(T).low
        return minimal_set_size(N, Architecture(T, d, (h,) * L, h), target.dimension.high) == 1

    most = max(architecture.heads)
    return {
        "tokens": _first(costs, target.min_tokens, _LONGEST),
        "heads": next((h for h in range(1, _MOST_HEADS + 1) if assign(needs, (h,) * L)), None),
        "head_width": max((need.width for need in needs if need.kind != "many"), default=1),
        "counting_heads": _first(trivial, 1, 4 * T),
        "depth": next((l for l in range(1, _DEEPEST + 1) if assign(needs, (most,) * l)), None),
        "lower_width": max(sizes.repaired, sizes.active) * d,
        "upper_width": max(layer_sizes) * d,
    }


def _first(holds: Any, low: int, limit: int) -> int | None:
    """The first number from ``low`` on for which a monotone condition holds, up to a limit."""
    high = low
    while not holds(high):
        if high > limit:
            return None
        low, high = high + 1, 2 * high
    return low + bisect_left(range(low, high), True, key=holds)


def _verdict(
    rules: Rules, size: int, lower: Fraction, upper: Fraction, only_seen: bool, narrow: _Narrow | None
) -> str:
    cost = f"cost epsilon^-{_decimal(upper)} by the law"
    if rules == "global":
        if upper == 0:
            return f"reading everything fits into the width: {size} tokens, {cost}"
        if narrow is not None and narrow.rows:
            first = narrow.rows[0]
            return (
                f"the heads are enough but too narrow: the score of term {first.term} has rank {first.rank} "
                f"and a head of layer {first.layer} width {first.head_width}; reading everything, {size} "
                f"tokens: {cost}{_instead(first)}"
            )
        return f"no plan of maxima was found with these heads; reading everything, {size} tokens: {cost}"
    how = {"positions": "reading fixed positions"}.get(rules, f"{rules} retrieval")
    tail = ", and no less" if lower == upper else f", at least epsilon^-{_decimal(lower)}"
    carries = "carries what it needs on all samples" if only_seen else "carries what it needs"
    return f"{how} {carries} with sets of up to {size} tokens: {cost}{tail}"


def _instead(row: NarrowHead) -> str:
    """What narrow heads do, measured."""
    if row.error is None:
        return ""
    return f"; with scores cut to the widths of the heads the NMSE is {row.error:.2g} on samples"


def exponent_range(lower: Fraction, upper: Fraction) -> str:
    """In words: one exponent where both ends agree."""
    return f"exponent {upper}" if lower == upper else f"exponent {lower} to {upper}"


def _decimal(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):.4g}"


def _assumptions(
    target: Target, rules: Rules, n_samples: int, unproven: tuple[int, ...], own: float
) -> tuple[str, ...]:
    masks = []
    if own > 0 and rules != "global":
        masks = [
            "tokens are kept from reading themselves by a mask, which the paper's transformer does not have"
        ]
    plan = f"the plan is right by construction and was run on {n_samples} samples"
    if rules == "global":
        plan = "reading everything learns every target"
    elif unproven:
        plan = (
            f"that one token wins, or the tokens of another term do, was seen on {n_samples} samples and not "
            f"proved of term {', '.join(str(i + 1) for i in unproven)}; the plan was run on as many"
        )
    lines = [
        f"tokens are independent in {target.domain}; statements hold almost everywhere",
        "the cost law max(M d/E - 1, 0) is InfoFlow's, not a theorem: constants are unknown, and with "
        "bounded weights decoding costs more",
        "the lower exponent rests on counting comparisons by the repaired equation (5), a heuristic, and on "
        "the tokens that CLS must hold in the end",
        f"{plan}; ties between tokens are ignored",
        *masks,
        "sets are pruned to what is used later; a head carries a score only if it is as wide as the rank of "
        "the score, where that is known (polynomials of degree two, k-th best tokens)",
        "what the feed-forward blocks must compute from the sets is not charged",
    ]
    if rules in ("positions", "max-position and positions"):
        lines.append("fixed positions need positional encoding")
    for name in _INTERVALS[:3]:
        lines += getattr(target, name).assuming
    return tuple(dict.fromkeys(lines))
