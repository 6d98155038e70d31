r"""How many cells a transformer can have (P1 section V-B).

A block cuts twice: attention into routing cells, then its ReLU layer cuts each of them by a translate of one
arrangement. So a block has at most :math:`V \cdot R(d_{ff}, d)` cells and L blocks at most the L-th power: on
every cell the network so far is affine, and the preimage of a partition into convex cells is one. P1 Theorem
V.5 says the same with O for the constants; its exponent dL needs scores with biases. The lower bound is the
sawtooth of Theorem V.7, with the factor :math:`2^{dL}` that the paper drops.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lgamma, log10, prod

from hardmax.bounds.arrangements import rank_aware_step, zaslavsky
from hardmax.bounds.bound import Bound, Printed, PrintedForm, RegionBounds, Side
from hardmax.bounds.heads import Heads, heads_of, pair_arrangement, symmetric_sum
from hardmax.bounds.large_integers import (
    LARGEST_POWER,
    check_digits,
    dimension,
    log10_of,
    positive,
    readable,
)
from hardmax.errors import InvalidInputError, written

_MOST_DIGITS = 3e8  # dimension times depth times digits beyond which the count with ranks is not worth it
_LOG10_E = 0.4342944819032518
_CLOSE = 0.05  # an approximation is called one when it is right up to 12 percent


def region_bounds(
    *,
    n_tokens: int,
    heads: int,
    d_model: int,
    d_ff: int,
    depth: int,
    biased: bool = True,
    d_head: int | None = None,
    ranks: Sequence[int] | int | None = None,
    key_span: int | None = None,
) -> RegionBounds:
    r"""Every bound of P1 section V for one architecture, corrected, with the printed form beside it.

    .. math::

        (2 w N)^{d L} \le \max_{\mathrm{weights}} \#\mathrm{cells} \le
        \bigl( V(N, H, d) \cdot R(d_{ff}, d) \bigr)^L, \qquad w = \lfloor d_{ff} / 2 d \rfloor

    for H >= d and affine scores. Linear scores lose one dimension: :math:`(2 w N)^{(d-1) L}` with
    :math:`w = \lfloor d_{ff} / 2 (d - 1) \rfloor` below, :math:`V_{\mathrm{lin}}` above. With fewer heads
    than coordinates the rest are folded by the ReLU layer alone.

    Parameters
    ----------
    n_tokens, heads, d_model, d_ff, depth : int
        N keys per head, H heads, d, ReLU units per block (0 for attention alone) and blocks.
    biased : bool
        Whether scores may carry biases, by a query bias or a constant coordinate. P1 defines attention
        without, and counts with.
    d_head, ranks, key_span
        Restrictions of the keys, as in :func:`vertex_maximum`; they hold in every block.

    Returns
    -------
    RegionBounds
        Named ``zaslavsky``, ``single_head``, ``multi_head_linear``, ``multi_head_affine``, ``naive``,
        ``feed_forward``, ``block``, ``constructive``, ``depth_rank_aware``, ``depth``.

    Notes
    -----
    Only the query varies; keys and values are held fixed, free in every block. Bounds are on cells, so on
    linear regions too; the constructive one is on regions.

    Examples
    --------
    >>> found = region_bounds(n_tokens=100, heads=2, d_model=2, d_ff=4, depth=1, biased=False)
    >>> found["depth"].value, [form.value for form in found["constructive"].printed]
    (2200, [10000])
    >>> found["constructive"].printed[0].reason
    'more than the 2200 cells that are possible'

    Integers stay exact however long they are.

    >>> big = region_bounds(n_tokens=512, heads=512, d_model=512, d_ff=2048, depth=6)
    >>> big.lower.text, big.lower.value == 2048 ** (512 * 6)
    ('2.545e10172', True)
    """
    n, d = positive("n_tokens", n_tokens), dimension("d_model", d_model)
    heads, depth = positive("heads", heads), positive("depth", depth)
    if depth > LARGEST_POWER:
        raise InvalidInputError(f"depth must be at most 10^40, but was {written(depth)}.")
    d_ff = positive("d_ff", d_ff, least=0)
    linear, affine = (
        heads_of(n, heads, d, biased=with_bias, d_head=d_head, ranks=ranks, key_span=key_span)
        for with_bias in (False, True)
    )
    check_digits(d * (log10(heads) + 2 * log10(n) + log10(max(d_ff, 1))), d)
    scores = affine if biased else linear
    fold = zaslavsky(d_ff, d)
    block = scores.maximum * fold
    words = "affine" if biased else "linear"
    place, formula, reason = "Theorem V.5, L = 1", "V_multi O((d_ff / d)^d)", "with V_multi of Theorem V.2"
    printed_exponent = heads if heads <= d else d // 2
    block_form = _upper_form(place, formula, printed_exponent, scores.exponent, None, reason=reason)
    bounds = (
        _zaslavsky(d_ff, d, fold),
        _single_head(n, d, scores, words),
        _multi_head("multi_head_linear", linear, n, heads, d, key_span),
        _multi_head("multi_head_affine", affine, n, heads, d, key_span),
        _naive(n, heads, d, biased),
        _feed_forward(d_ff, d, fold),
        Bound(
            "block",
            Side.UPPER,
            block,
            "V(N, H, d) R(d_ff, d)",
            f"one block, {words} scores; each routing cell sees a translate of the ReLU arrangement",
            exponent=scores.exponent,
            printed=(block_form,),
        ),
        _constructive(scores, n, heads, d, d_ff, depth, block),
        _rank_aware(scores, d, d_ff, depth, block),
        Bound(
            "depth",
            Side.UPPER,
            block,
            "(V(N, H, d) R(d_ff, d))^L",
            f"L blocks, {words} scores, with or without a skip around the ReLU layer",
            power=depth,
            exponent=scores.exponent * depth,
            printed=_depth_forms(scores, heads, d, d_ff, depth),
        ),
    )
    question = {
        "n_tokens": n,
        "heads": heads,
        "d_model": d,
        "d_ff": d_ff,
        "depth": depth,
        "biased": bool(biased),
        "d_head": d_head,
        "ranks": list(ranks) if isinstance(ranks, Sequence) else ranks,
        "key_span": key_span,
    }
    return RegionBounds(question, bounds)


def _zaslavsky(d_ff: int, d: int, fold: int) -> Bound:
    log_printed = d * log10(d_ff) - lgamma(d + 1) * _LOG10_E if d_ff else None
    log_ratio = None if log_printed is None else log10_of(fold) - log_printed
    close = log_ratio is not None and abs(log_ratio) < _CLOSE
    printed = Printed(
        "Definition III.2",
        "about n^d / d! for n much larger than d",
        PrintedForm.HOLDS if close else PrintedForm.SILENT,
        "" if log_ratio is None else f"R is {readable(10, log_ratio)} times this",
        log10=log_printed,
    )
    return Bound(
        "zaslavsky",
        Side.MAXIMUM,
        fold,
        "R(n, d) = sum_{j<=d} C(n, j)",
        "n = d_ff hyperplanes; attained in general position",
        exponent=0,
        printed=(printed,),
    )


def _single_head(n: int, d: int, scores: Heads, words: str) -> Bound:
    one = Heads((max(scores.winners),), min(scores.long, 1), scores.span, scores.biased)
    exact = one.maximum == n
    printed = Printed(
        "Proposition V.1",
        "V_single <= N",
        PrintedForm.HOLDS if exact else PrintedForm.NOT_SHARP,
        "" if exact else "only the two ends of keys on a line can win" if one.maximum == 2 else "",
        n,
        exponent=1,
    )
    return Bound(
        "single_head",
        Side.MAXIMUM,
        one.maximum,
        "N (2 for keys on a line)",
        f"one head, {words} scores; attained by keys in convex position",
        exponent=one.exponent,
        printed=(printed,),
    )


def _multi_head(name: str, scores: Heads, n: int, heads: int, d: int, key_span: int | None) -> Bound:
    most, exponent = scores.maximum, scores.exponent
    forms = []
    if heads <= d:
        forms.append(_upper_form("Theorem V.2", "O(N^H) for H <= d", heads, exponent, n**heads))
        verdict, reason, place = PrintedForm.HOLDS, "", "Figure 4, Example V.3"
        if most != n**heads:
            verdict = PrintedForm.FALSE
            reason = f"N^H counts the sums; at most {readable(most)} are vertices"
        forms.append(Printed(place, "N^H vertices", verdict, reason, n**heads, exponent=heads))
    else:
        half = d // 2
        formula = "O((N H)^floor(d/2)) for H > d"
        forms.append(_upper_form("Theorem V.2", formula, half, exponent, (n * heads) ** half))
    appendix = n * symmetric_sum([n] * (heads - 1), min(d, heads) - 1)
    if appendix < most:
        verdict, reason = PrintedForm.FALSE, "it is stated for linear scores and less than the maximum here"
    else:
        verdict, reason = PrintedForm.HOLDS if appendix == most else PrintedForm.NOT_SHARP, ""
    formula = "sum_{k<d} C(H-1, k) N^(k+1)"
    forms.append(Printed("Appendix D", formula, verdict, reason, appendix, exponent=min(d, heads)))
    span = d if key_span is None else key_span
    place = "Appendix E" if key_span is None else "Appendix E, remark on the span of the keys"
    letter = "d" if key_span is None else "d'"
    forms.append(_upper_form(place, f"C_d N^min(H, {letter})", min(heads, span), exponent, None))
    formula = "sum_{j<=d} C(H, j) (N-1)^j" if scores.biased else "sum_{j<d} C(H, j) (N-1)^j + C(H-1, d-1)"
    hypotheses = f"scores {'with free biases' if scores.biased else 'without bias'}; {_authority(scores)}"
    return Bound(name, Side.MAXIMUM, most, formula, hypotheses, exponent=exponent, printed=tuple(forms))


def _authority(scores: Heads) -> str:
    """Who says that no keys exceed the maximum."""
    if len(scores.winners) <= scores.top:
        return "attained, and no more than the sums of one key per head"
    return "attained, and an upper bound by Theorem 3 of docs/theorems.md"


def _naive(n: int, heads: int, d: int, biased: bool) -> Bound:
    kind = "hyperplanes" if biased else "hyperplanes through the origin"
    formula, power = "O((H N^2)^d), called loose", (heads * n * n) ** d
    printed = Printed("Remark V.6", formula, PrintedForm.HOLDS, "", power, exponent=2 * d)
    return Bound(
        "naive",
        Side.UPPER,
        pair_arrangement(n, heads, d, biased=biased),
        "R(H C(N, 2), d)" if biased else "R_central(H C(N, 2), d)",
        f"all pairs of keys compared: H C(N, 2) {kind}",
        exponent=2 * d if biased else 2 * (d - 1),
        printed=(printed,),
    )


def _feed_forward(d_ff: int, d: int, fold: int) -> Bound:
    log_printed = d * (_LOG10_E + log10(d_ff) - log10(d)) if d_ff else None
    if log_printed is None:
        verdict, reason = PrintedForm.SILENT, "there is no ReLU layer"
    elif log_printed < log10_of(fold):
        verdict, reason = PrintedForm.FALSE, "it needs d_ff >= d"
    else:
        verdict, reason = PrintedForm.NOT_SHARP, ""
    printed = Printed(
        "Appendix E, used in Theorem V.5", "(e d_ff / d)^d", verdict, reason, log10=log_printed, exponent=0
    )
    return Bound(
        "feed_forward",
        Side.MAXIMUM,
        fold,
        "R(d_ff, d)",
        "one ReLU layer with biases; 2^d_ff when d_ff <= d",
        exponent=0,
        printed=(printed,),
    )


def _depth_forms(scores: Heads, heads: int, d: int, d_ff: int, depth: int) -> tuple[Printed, ...]:
    truth = scores.exponent * depth
    upper = _upper_form(
        "Theorem V.5",
        "O(N^(d L)) for H >= d" if heads >= d else "(C_d N^min(H, d) (e d_ff / d)^d)^L",
        min(heads, d) * depth,
        truth,
        None,
    )
    if heads < d:
        verdict, reason = PrintedForm.SILENT, "H < d"
    elif truth < d * depth:
        verdict, reason = PrintedForm.FALSE, f"the exponent is {truth}, not {d * depth}"
    elif d_ff < 2 * d:
        verdict, reason = PrintedForm.SILENT, "the construction needs d_ff >= 2 d"
    else:
        verdict, reason = PrintedForm.HOLDS, ""
    formula = "Theta(N^(d L)) for H >= d"
    return upper, Printed("Corollary V.9", formula, verdict, reason, exponent=d * depth)


def _constructive(scores: Heads, n: int, heads: int, d: int, d_ff: int, depth: int, block: int) -> Bound:
    folded = d if scores.biased else d - 1
    teeth = d_ff // (2 * folded) if folded else 0
    width = d_ff // (2 * d)
    formula = "(N^d w^d)^L with w = floor(d_ff / 2d), H = d"
    exponent = d * depth
    base = (n * width) ** d
    if heads < d or not width:
        verdict = PrintedForm.SILENT
        reason = "it needs H >= d" if heads < d else "it needs d_ff >= 2 d"
    elif base > block:
        verdict = PrintedForm.FALSE
        reason = f"more than the {readable(block, depth)} cells that are possible"
    elif scores.exponent * depth < exponent:
        verdict = PrintedForm.FALSE
        reason = "the bound above grows more slowly in N, so it fails for long sequences"
    else:
        verdict, reason = PrintedForm.NOT_SHARP, "a sawtooth of w teeth has 2 w pieces"
    form = Printed("Theorem V.7", formula, verdict, reason, base, depth, exponent=exponent)
    if verdict is PrintedForm.SILENT:
        form = Printed("Theorem V.7", formula, verdict, reason, exponent=exponent)
    by_attention = sorted(scores.winners, reverse=True)[: max(scores.top, 0)]
    pieces = prod(2 * teeth * keys for keys in by_attention) * (2 * teeth) ** (folded - len(by_attention))
    where = "on [0, 1]^d" if scores.biased else "on the slice where the last coordinate is 1"
    needs = "d_ff >= 2 d" if scores.biased else "d >= 2 and d_ff >= 2 (d - 1)"
    return Bound(
        "constructive",
        Side.LOWER,
        pieces if teeth else None,
        _constructive_formula(by_attention, folded, n, biased=scores.biased),
        f"{needs}, keys and values free in every block; counts linear regions {where}; "
        "coordinates without a head of their own contribute 2 w",
        power=depth,
        exponent=scores.exponent * depth if teeth else None,
        printed=(form,),
    )


def _constructive_formula(by_attention: Sequence[int], folded: int, n: int, *, biased: bool) -> str:
    """(2 w N)^(d L) if every coordinate has a head of N winners; otherwise what the heads do stands apart."""
    d = "d" if biased else "(d-1)"
    w = f"w = floor(d_ff / 2{d})"
    if len(by_attention) == folded and all(keys == n for keys in by_attention):
        return f"(2 w N)^({d} L), {w}"
    heads = f"min(H, {d.strip('()')})"
    if all(keys == n for keys in by_attention):
        return f"((2 w)^{d} N^{heads})^L, {w}"
    return f"((2 w)^{d} prod n_h)^L, {w}, n_h keys of {heads} heads that can win"


def _rank_aware(scores: Heads, d: int, d_ff: int, depth: int, block: int) -> Bound:
    base, power = block, depth
    digits = log10_of(block, depth)
    if 0 < d_ff < 2 * d and d * depth * digits < _MOST_DIGITS:  # else nothing is gained, or it takes too long
        routing = scores.on_subspaces(d)
        counts = [1] * (d + 1)
        for _ in range(depth):
            counts = rank_aware_step(d_ff, counts, routing.__getitem__)
        base, power = counts[d], 1
    return Bound(
        "depth_rank_aware",
        Side.UPPER,
        base,
        "B(d), B_l(k) = V(k) sum_{j<=k} C(d_ff, j) B_{l+1}(min(k, d_ff - j))",
        "L blocks without a skip around the ReLU layer; no gain when d_ff >= 2 d",
        power=power,
        exponent=scores.exponent * depth,
    )


def _upper_form(
    place: str, formula: str, exponent: int, truth: int, value: int | None, *, reason: str = ""
) -> Printed:
    """Judge an O form by its exponent of N: a true maximum must not grow faster."""
    if exponent < truth:
        verdict, reason = PrintedForm.FALSE, f"the maximum grows like N^{truth}"
    elif exponent > truth:
        verdict, reason = PrintedForm.NOT_SHARP, reason or f"the exponent is {truth}"
    else:
        verdict = PrintedForm.HOLDS
    return Printed(place, formula, verdict, reason, value, exponent=exponent)
