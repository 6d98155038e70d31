r"""What P2 charges for a flow: decoding its sets, comparing inside them, and the ranks of its scores.

**Decoding.** To keep :math:`|I|` tokens of d numbers in a width E up to an error epsilon, P2 charges
epsilon^{-p} parameters and gives p in five places in five forms:

==============  =================  ==================================================
name            exponent p         where
==============  =================  ==================================================
``law``         max(M d/E - 1, 0)  section 5.2 (clamped as in Theorem 3, part 2)
``upper``       M d/E              Theorem 3, part 1, and the text of Appendix A.3
``appendix_b``  M/E                Appendix B.2, without d
``section_4``   T/E                section 4.2, global reading
``section_6``   T d/E              section 6, global reading
==============  =================  ==================================================

``law`` is the default: it is the form that the paper states as its law, the one that a packing bound supports
from below (in L_p; for the sup norm the hypothesis of Theorem 3 is never met), and the one that a better code
than the paper's reaches when M d >= 2 E and E divides M d. ``upper`` is what the paper's own construction
pays. Between the two lies the truth as far as it is known, so both are reported. With weights bounded by a
constant neither is an upper bound.

**Comparing.** Attention compares T - 1 times per head and reading token; inside an information set I, P2
allows :math:`|I|^{beta1} - 1` further comparisons, where beta1 is the dimension of comparison of the target.
Equation (5) is

    sum over tokens t and layers l < L of  |I(t, l)|^beta1 - 1 + h_l (T - 1)
    + sum over layers l <= L of            |I(CLS, l)|^beta1 - 1 + h_l (T - 1).

Taken literally, an empty set counts -1, and one head that reads everything (which "learns" every target)
falls short of D(T - D) for the retrieval of D >= 3 maxima. Three versions are kept apart, and every number
carries the name of its version: ``printed``, the formula; ``clamped``, where an empty set counts 0; and
``repaired``, where moreover D0 (|I|^beta1 - 1) comparisons are allowed inside a set, one tree for each of the
D0 tokens to be found.

**Ranks.** A head scores by inner products of vectors of length n_l, so it can produce a score only up to rank
n_l. P2 names this as a limitation: its law does not ask for the rank. Here a plan gives a score to heads that
are wide enough only, and says what narrower heads lose (:mod:`hardmax.flow.costs.score_rank`).
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import accumulate, chain
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.bounds.large_integers import positive
from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.flow.architectures import Architecture
from hardmax.flow.information_sets import InformationFlow, Sizes
from hardmax.flow.plans import GlobalRead, MaxPosition, Positions, is_forgotten, score_name
from hardmax.flow.propagation import Group, Propagation, find_winners, states_of
from hardmax.results import Result

Version = Literal["printed", "clamped", "repaired"]


@dataclass(frozen=True)
class CostExponents:
    """The exponents p of the cost epsilon^{-p} in the five forms of P2; ``law`` is the default."""

    law: Fraction
    upper: Fraction
    appendix_b: Fraction
    section_4: Fraction
    section_6: Fraction

    @property
    def versions(self) -> dict[str, Fraction]:
        """All five by name, the default first."""
        return asdict(self)


def cost_exponents(size: int, d_token: int, width: int, *, n_tokens: int | None = None) -> CostExponents:
    """The exponents of the cost of an information set of ``size`` tokens in a layer of width E.

    Parameters
    ----------
    size : int
        \\|I(t, l)\\|, or the bound M on it.
    d_token, width : int
        d and E_l.
    n_tokens : int, optional
        T, for the two forms that speak of global reading; ``size`` by default.

    Examples
    --------
    T = 64 tokens of 4 numbers, all read at once, in width 36:

    >>> for name, exponent in cost_exponents(64, 4, 36).versions.items():
    ...     print(f"{name:<10} {exponent!s:>5} {float(exponent):.3f}")
    law         55/9 6.111
    upper       64/9 7.111
    appendix_b  16/9 1.778
    section_4   16/9 1.778
    section_6   64/9 7.111
    """
    m, d, e = positive("size", size, least=0), positive("d_token", d_token), positive("width", width)
    t = m if n_tokens is None else positive("n_tokens", n_tokens)
    return CostExponents(
        law=max(Fraction(m * d, e) - 1, Fraction(0)),
        upper=Fraction(m * d, e),
        appendix_b=Fraction(m, e),
        section_4=Fraction(t, e),
        section_6=Fraction(t * d, e),
    )


def position_size(n_positions: int, largest_before: int) -> int:
    """|I'| max_s |I(s, l)|: the size that P2 section 5.2 charges for reading fixed positions.

    It bounds the size of the set that is read; the law with the true size is never larger.

    >>> position_size(3, 2)
    6
    """
    return positive("n_positions", n_positions, least=0) * positive("largest_before", largest_before, least=0)


@dataclass(frozen=True, eq=False, repr=False)
class CostTable(Result):
    """The cost of every token in every layer, and of all together.

    The total is the sum of epsilon^{-p} over all (t, l), as P2 section 5.2 defines it; for small epsilon only
    the greatest exponent matters. (All tokens of a layer share their feed-forward block, so the sum counts it
    T times: a factor, not an exponent.)

    Attributes
    ----------
    rows : tuple of dict
        Per layer and token: ``layer``, ``token`` (T is CLS), ``size`` (what is charged), ``law``, ``upper``
        and ``printed``, the exponent by the paper's own size for the rule in use (T for global reading,
        |I'| max |I| for fixed positions).
    version : str
        Which exponent the total uses.
    charge : str
        "held": the largest set that was seen, a measurement; "bound": the largest that the plan allows.
    smoothness : Fraction or None
        gamma, if the cost epsilon^{-gamma} of the feed-forward block was to be added per (t, l).
    """

    kind: ClassVar[str] = "CostTable"

    rows: tuple[dict[str, Any], ...]
    version: Literal["law", "upper", "printed"]
    charge: Literal["held", "bound"]
    smoothness: Fraction | None

    @property
    def terms(self) -> dict[Fraction, int]:
        """How often each exponent occurs in the sum, greatest first."""
        counts: Counter[Fraction] = Counter(row[self.version] for row in self.rows)
        if self.smoothness is not None:
            counts[self.smoothness] += len(self.rows)
        return dict(sorted(counts.items(), reverse=True))

    @property
    def exponent(self) -> Fraction:
        """The greatest exponent: the cost is of this order as epsilon goes to 0."""
        return max(self.terms)

    @property
    def upper(self) -> Fraction:
        """The greatest exponent of the form ``upper``, to stand beside :attr:`exponent`."""
        found: Fraction = max(row["upper"] for row in self.rows)
        return found if self.smoothness is None else max(found, self.smoothness)

    def log10_total(self, epsilon: float) -> float:
        """log10 of the sum of epsilon^{-p}; constants are unknown and taken as 1."""
        if not 0 < epsilon < 1:
            raise InvalidInputError(f"epsilon must lie between 0 and 1, but was {epsilon}.")
        scale = -math.log10(epsilon)
        powers = [(float(p) * scale, n) for p, n in self.terms.items()]
        greatest = max(power for power, _ in powers)
        return greatest + math.log10(sum(n * 10.0 ** (power - greatest) for power, n in powers))

    def _summary(self) -> str:
        sizes = "sets as held" if self.charge == "held" else "sets at their largest"
        return f"exponent {self.exponent} ({self.version}), upper {self.upper}, {sizes}"

    def _table(self) -> Mapping[str, Any]:
        names = ("layer", "token", "size", "law", "upper", "printed")
        return {name: [row[name] for row in self.rows] for name in names}


def cost_of(
    flow: InformationFlow,
    *,
    version: Literal["law", "upper", "printed"] = "law",
    charge: Literal["held", "bound"] = "held",
    smoothness: Fraction | int | float | None = None,
) -> CostTable:
    """The cost of a flow: an exponent for every token after every layer, by the size of its set.

    Parameters
    ----------
    flow : InformationFlow
        A plan on inputs.
    version : {"law", "upper", "printed"}
        Which form the total uses; ``printed`` is the law with the sizes that P2 prints for each rule.
    charge : {"held", "bound"}
        Charge for the largest set that a token held on the inputs of the flow, or for the largest that the
        plan allows on any input.
    smoothness : Fraction, int or float, optional
        gamma >= 0: adds the cost epsilon^{-gamma} that P2 mentions and omits, once per token and layer.

    Examples
    --------
    >>> import hardmax as hm
    >>> plan = hm.Plan([{"cls": [hm.Positions([0, 1, 2])]}])
    >>> flow = hm.information_sets(hm.Architecture(10, 2, (1,), 4), plan, [[[0.0, 0.0]] * 10])
    >>> cost_of(flow)
    <CostTable: exponent 1/2 (law), upper 3/2, sets as held>
    """
    if version not in ("law", "upper", "printed"):
        raise InvalidInputError(f'version must be "law", "upper" or "printed", but was {version!r}.')
    if charge not in ("held", "bound"):
        raise InvalidInputError(f'charge must be "held" or "bound", but was {charge!r}.')
    gamma = None if smoothness is None else exponent_of("smoothness", smoothness)
    shape, layout = flow.architecture, flow._layout()
    T, d = shape.n_tokens, shape.d_token
    before = 1  # the largest set of a token one layer earlier
    rows: list[dict[str, Any]] = []
    for layer, width in enumerate(shape.widths, start=1):
        for group in layout.groups(layer):
            for t in group.rows.tolist():
                largest = flow.sizes.cls[:, layer - 1] if group.is_cls else flow.sizes.tokens[:, layer - 1, t]
                size = int(largest.max()) if charge == "held" else min(T, group.n_slots)
                exponents = cost_exponents(size, d, width)
                printed = cost_exponents(max(size, *_printed_sizes(group.rules, t, before, T)), d, width)
                rows.append(
                    {
                        "layer": layer,
                        "token": t,
                        "size": size,
                        "law": exponents.law,
                        "upper": exponents.upper,
                        "printed": printed.law,
                    }
                )
        before = max((row["size"] for row in rows if row["layer"] == layer and row["token"] < T), default=0)
    rows.sort(key=lambda row: (row["layer"], row["token"]))
    return CostTable(tuple(rows), version, charge, gamma)


def exponent_of(name: str, value: Any) -> Fraction:
    """An exponent of a cost, 0 or more, exactly."""
    try:
        exponent = Fraction(value)
    except (TypeError, ValueError, OverflowError):
        exponent = Fraction(-1)
    if exponent < 0:
        raise InvalidInputError(f"{name} must be a number, 0 or more, but was {value!r}.")
    return exponent


def _printed_sizes(rules: tuple[Any, ...], t: int, before: int, T: int) -> list[int]:
    """The sizes that P2 charges for reading everything and for fixed positions."""
    sizes = [0]
    for rule in rules:
        if isinstance(rule, GlobalRead):
            sizes.append(T)
        elif isinstance(rule, Positions):
            sizes.append(position_size(len(rule.of(t)), before))
    return sizes


@dataclass(frozen=True)
class ComparisonCount:
    """A number of comparisons, with the version of equation (5) that it comes from; ``int(count)``."""

    number: int  # for a flow the most over its inputs
    version: Version
    beta1: int  # the dimension of comparison of the target
    max_active: int | None = None  # D0, for the repaired version
    per_input: tuple[int, ...] = ()  # for a flow, the comparisons input by input

    def __int__(self) -> int:
        return self.number

    __index__ = __int__

    def __str__(self) -> str:
        return f"{self.number} (equation (5), {self.version})"


def size_recursion(architecture: Architecture) -> Sizes:
    """The largest sets that max-position retrieval can make, after layers 1, 2, ...

    tok_l = min(T, (1 + h_l) tok_{l-1}), cls_l = min(T, cls_{l-1} + h_l tok_{l-1}), from 1 and 0.

    Examples
    --------
    >>> import hardmax as hm
    >>> size_recursion(hm.Architecture(64, 4, (6, 6), 36))
    Sizes(tokens=array([7]), cls=array([ 6, 48]))
    """
    T = architecture.n_tokens
    tokens, cls = [1], [0]
    for h in architecture.heads:
        cls.append(min(T, cls[-1] + h * tokens[-1]))
        tokens.append(min(T, (1 + h) * tokens[-1]))
    return Sizes(np.array(tokens[1:-1], dtype=np.int64), np.array(cls[1:], dtype=np.int64))


def model_comparisons(
    model: Architecture | InformationFlow,
    beta1: int,
    *,
    version: Version = "printed",
    max_active: int | None = None,
    sizes: tuple[ArrayLike, ArrayLike] | None = None,
) -> ComparisonCount:
    """Equation (5) for the sets of a flow, for given sizes, or at its maximum for an architecture.

    Parameters
    ----------
    model : Architecture or InformationFlow
        For an architecture without ``sizes``: the most that max-position retrieval alone can reach.
    beta1 : int
        The dimension of comparison of the target.
    version : {"printed", "clamped", "repaired"}
        Which form of (5); see :mod:`hardmax.flow.costs.cost_law`.
    max_active : int, optional
        D0 of the target, which the repaired version needs.
    sizes : pair of arrays, optional
        |I(t, l)| of the tokens for l = 1, ..., L - 1, either (L - 1,) for all tokens alike or (L - 1, T), and
        |I(CLS, l)| for l = 1, ..., L.

    Examples
    --------
    Two layers of six heads and 64 tokens, for a target that compares pairs:

    >>> import hardmax as hm
    >>> print(model_comparisons(hm.Architecture(64, 4, (6, 6), 36), 2))
    30358 (equation (5), printed)

    One head that reads everything, for the retrieval of D = 3 maxima of T = 8 (the target needs 21, by the
    paper's own lower bound 15):

    >>> shape, everything = hm.Architecture(8, 1, (1,), 1), ([], [8])
    >>> print(model_comparisons(shape, 1, sizes=everything))
    14 (equation (5), printed)
    >>> print(model_comparisons(shape, 1, sizes=everything, version="repaired", max_active=3))
    28 (equation (5), repaired)
    """
    beta1, factor = _checked(beta1, version, max_active)
    if isinstance(model, InformationFlow):
        if sizes is not None:
            raise InvalidInputError("sizes belongs to an architecture; a flow has its own.")
        shape = model.architecture
        per_input = tuple(
            _equation_5(shape, tokens.tolist(), cls.tolist(), beta1, version, factor)
            for tokens, cls in zip(model.sizes.tokens, model.sizes.cls, strict=True)
        )
        return ComparisonCount(max(per_input), version, beta1, max_active, per_input)
    tokens, cls = size_recursion(model) if sizes is None else sizes
    number = _equation_5(model, *_checked_sizes(model, tokens, cls), beta1, version, factor)
    return ComparisonCount(number, version, beta1, max_active)


def maximum_comparisons(
    architecture: Architecture,
    beta1: int,
    *,
    version: Version = "printed",
    max_active: int | None = None,
) -> ComparisonCount:
    """The most that max-position retrieval can reach, in closed form.

    With P_l = (1 + h_1) ... (1 + h_l), the sets are min(T, P_l) and min(T, P_l - 1), so (5) is at most

        sum_{l<L} T (min(T, P_l)^b - 1 + h_l (T-1)) + sum_{l<=L} (min(T, P_l - 1)^b - 1 + h_l (T-1)).

    For two layers and b = 2 the last sum has (h1 + h2)(T - 1), where P2's (47) has 2(T - 1).

    Examples
    --------
    >>> import hardmax as hm
    >>> print(maximum_comparisons(hm.Architecture(64, 4, (2, 2), 24), 2))
    8894 (equation (5), printed)
    """
    beta1, factor = _checked(beta1, version, max_active)
    T, heads = architecture.n_tokens, architecture.heads
    products = list(accumulate((1 + h for h in heads), operator.mul))
    inside = T * sum(min(T, p) ** beta1 - 1 for p in products[:-1])
    inside += sum(min(T, p - 1) ** beta1 - 1 for p in products)
    return ComparisonCount(_by_attention(architecture) + factor * inside, version, beta1, max_active)


def minimal_set_size(
    n_comparisons: int,
    architecture: Architecture,
    beta1: int,
    *,
    version: Version = "printed",
    max_active: int | None = None,
) -> int:
    """M, the smallest size that all sets may have for equation (5) to reach ``n_comparisons``.

    The smallest M >= 1 with (T (L-1) + L) (M^beta1 - 1) + (T - 1) (T sum_{l<L} h_l + sum_l h_l) >= N, with a
    factor D0 before M^beta1 - 1 in the repaired version. It may exceed T: then no model of this architecture
    has enough comparisons by this count. A bound that counting gives, not a theorem about transformers.

    Examples
    --------
    The triangle target with 64 tokens, by the paper's count C(64, 3) - 3:

    >>> import hardmax as hm
    >>> minimal_set_size(41661, hm.Architecture(64, 2, (2, 2), 24), 3)
    8
    """
    beta1, factor = _checked(beta1, version, max_active)
    T, L = architecture.n_tokens, architecture.depth
    wanted = positive("n_comparisons", n_comparisons, least=-3)  # the least of the paper's C(T, 3) - 3
    missing = wanted - _by_attention(architecture)
    if missing <= 0:
        return 1
    per_set = -(-missing // (factor * (T * (L - 1) + L)))  # M^beta1 - 1 must reach this
    low, high = 1, per_set + 1  # (per_set + 1)^beta1 - 1 >= per_set
    while low < high:
        middle = (low + high) // 2
        if middle**beta1 - 1 >= per_set:
            high = middle
        else:
            low = middle + 1
    return low


def _equation_5(
    shape: Architecture,
    tokens: list[list[int]],
    cls: list[int],
    beta1: int,
    version: Version,
    factor: int,
) -> int:
    least = -1 if version == "printed" else 0
    inside: int = sum(max(size**beta1 - 1, least) for size in chain(cls, *tokens))
    return _by_attention(shape) + factor * inside


def _by_attention(shape: Architecture) -> int:
    """The comparisons that the heads of all tokens make, T - 1 each."""
    return (shape.n_tokens - 1) * (shape.n_tokens * sum(shape.heads[:-1]) + sum(shape.heads))


def _checked_sizes(shape: Architecture, tokens: Any, cls: Any) -> tuple[list[list[int]], list[int]]:
    T, L = shape.n_tokens, shape.depth
    of_tokens, of_cls = np.asarray(tokens), np.asarray(cls)
    if of_tokens.shape == (L - 1,):
        of_tokens = np.repeat(of_tokens[:, None], T, axis=1)
    if of_tokens.shape != (L - 1, T) or of_cls.shape != (L,):
        raise DimensionMismatchError(
            f"sizes must be of the tokens, ({L - 1},) or ({L - 1}, {T}), and of CLS, ({L},), but had the "
            f"shapes {of_tokens.shape} and {of_cls.shape}."
        )
    for array in (of_tokens, of_cls):
        if array.size and (not np.issubdtype(array.dtype, np.integer) or array.min() < 0 or array.max() > T):
            raise InvalidInputError(f"sizes must be whole numbers between 0 and {T}.")
    return of_tokens.tolist(), of_cls.tolist()


def _checked(beta1: Any, version: Any, max_active: Any) -> tuple[int, int]:
    """beta1, and the factor before the comparisons inside a set."""
    if version not in ("printed", "clamped", "repaired"):
        raise InvalidInputError(f'version must be "printed", "clamped" or "repaired", but was {version!r}.')
    beta1 = positive("beta1", beta1)
    if version != "repaired":
        return beta1, 1
    if max_active is None:
        raise InvalidInputError("the repaired equation (5) needs max_active, the D0 of the target.")
    return beta1, positive("max_active", max_active)


_POOL = 96  # queries and keys of which a score matrix is made
_RELATIVE = 1e-9  # singular values below this share of the greatest count as zero


@dataclass(frozen=True, eq=False, repr=False)
class ScoreRanks(Result):
    """Per head: the rank of its score and the width n_l of the head.

    Attributes
    ----------
    rows : tuple of dict
        ``layer``, ``token`` (a class), ``head`` (from 1), ``score``, ``rank``, ``how`` ("declared" by the
        score, or "measured": the rank of a matrix of sampled scores, up to a relative 1e-9 of its singular
        values, a lower bound), ``head_width``, and ``enough``, which is ``None`` where the rank is unknown.
    """

    kind: ClassVar[str] = "ScoreRanks"

    rows: tuple[dict[str, Any], ...]

    @property
    def enough(self) -> bool | None:
        """Whether every head is wide enough for its score; ``None`` if no head is too narrow but not all
        ranks are known."""
        verdicts = [row["enough"] for row in self.rows]
        return False if False in verdicts else None if None in verdicts else True

    def _summary(self) -> str:
        narrow = sum(row["enough"] is False for row in self.rows)
        heads = "1 score" if len(self.rows) == 1 else f"{len(self.rows)} scores"
        unknown = sum(row["enough"] is None for row in self.rows)
        rest = f", {unknown} unknown" if unknown else ""
        return f"{heads}, {narrow} of larger rank than their head is wide{rest}"

    def _table(self) -> Mapping[str, Any]:
        names = ("layer", "token", "head", "score", "rank", "how", "head_width", "enough")
        return {name: [row[name] for row in self.rows] for name in names}


def score_ranks(flow: InformationFlow, *, n_inputs: int = 32) -> ScoreRanks:
    """The rank of every score of a plan against the width of its head.

    Parameters
    ----------
    flow : InformationFlow
        Scores that do not declare a rank are evaluated between the queries and keys of its first inputs.
    n_inputs : int
        How many inputs.

    Examples
    --------
    >>> import hardmax as hm
    >>> import numpy as np
    >>> distance = hm.MaxPosition(lambda q, k: -((q - k.swapaxes(1, 2)) ** 2).sum(-1))
    >>> plan = hm.Plan([{"tokens": [distance]}, {}])
    >>> X = np.random.default_rng(0).normal(size=(8, 16, 2))
    >>> ranks = score_ranks(hm.information_sets(hm.Architecture(16, 2, (1, 1), 2), plan, X))
    >>> ranks.rows[0]["rank"], ranks.rows[0]["head_width"]
    (3, 2)
    >>> ranks
    <ScoreRanks: 1 score, 1 of larger rank than their head is wide>
    """
    if n_inputs < 1:
        raise InvalidInputError(f"n_inputs must be at least 1, but was {n_inputs}.")
    shape, layout = flow.architecture, flow._layout()
    X = flow.X[:n_inputs]
    spread = Propagation(layout, len(X))
    rows: list[dict[str, Any]] = []
    for layer in range(1, shape.depth + 1):
        for group in layout.groups(layer):
            for head, rule in enumerate(group.rules):
                if isinstance(rule, MaxPosition):
                    rank, how = rule.rank, "declared"
                    if rank is None and not is_forgotten(rule):
                        rank, how = _measured(spread, layer, group, rule, X), "measured"
                    width = shape.head_width(layer)
                    rows.append(
                        {
                            "layer": layer,
                            "token": _class_name(group),
                            "head": head + 1,
                            "score": score_name(rule.score),
                            "rank": rank,
                            "how": "unknown" if rank is None else how,
                            "head_width": width,
                            "enough": None if rank is None else rank <= width,
                        }
                    )
        if layer < shape.depth:
            find_winners(spread, layer, X, flow.plan.ties)
    return ScoreRanks(tuple(rows))


def _measured(
    spread: Propagation, layer: int, group: Group, rule: MaxPosition, X: NDArray[np.float64]
) -> int | None:
    """The rank of a matrix of scores, less what depends on the query only."""
    queries, keys = states_of(spread, layer, group, rule, X)
    pools = []
    for states in (queries, keys):
        pool = states.reshape(1, states.shape[0] * states.shape[1], *states.shape[2:])
        if not states.shape[2]:  # an empty token is one query, however often it occurs
            pool = pool[:, :1]
        chosen = np.linspace(0, pool.shape[1] - 1, min(_POOL, pool.shape[1])).round().astype(int)
        pools.append(pool[:, np.unique(chosen)])
    scores = np.asarray(rule.score(pools[0], pools[1]), dtype=np.float64)
    if scores.shape != (1, pools[0].shape[1], pools[1].shape[1]) or not np.isfinite(scores).all():
        return None
    centred = scores[0] - scores[0].mean(axis=1, keepdims=True)
    values = np.linalg.svd(centred, compute_uv=False)
    return int((values > _RELATIVE * max(values[0], np.abs(scores).max())).sum())


def _class_name(group: Group) -> str:
    if group.is_cls:
        return "CLS"
    if group.everyone:
        return "tokens"
    names = [f"x{t + 1}" for t in group.rows.tolist()]
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:4])}, ... ({len(names)} tokens)"
