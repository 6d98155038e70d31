r"""What decoding an information set costs: the five forms of P2's cost law, side by side.

To keep |I| tokens of d numbers in a width E up to an error epsilon, P2 charges epsilon^{-p} parameters and
gives p in five places in five forms:

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
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np

from hardmax.errors import InvalidInputError
from hardmax.flow.information_flow import InformationFlow
from hardmax.flow.plans import GlobalRead, Positions
from hardmax.results import Result

__all__ = ["CostExponents", "CostTable", "cost_exponents", "cost_of", "position_size"]

Version = Literal["law", "upper", "appendix_b", "section_4", "section_6"]


@dataclass(frozen=True)
class CostExponents:
    """The exponents p of the cost epsilon^{-p} in the five forms of P2, as fractions.

    Attributes
    ----------
    law, upper, appendix_b, section_4, section_6 : Fraction
        See :mod:`hardmax.flow.costs.cost_law`; ``law`` is the default.
    """

    law: Fraction
    upper: Fraction
    appendix_b: Fraction
    section_4: Fraction
    section_6: Fraction

    default: ClassVar[str] = "law"

    @property
    def versions(self) -> dict[str, Fraction]:
        """All five by name, the default first."""
        return {
            "law": self.law,
            "upper": self.upper,
            "appendix_b": self.appendix_b,
            "section_4": self.section_4,
            "section_6": self.section_6,
        }


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
    m, d, e = _at_least(size, 0, "size"), _at_least(d_token, 1, "d_token"), _at_least(width, 1, "width")
    t = m if n_tokens is None else _at_least(n_tokens, 1, "n_tokens")
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
    return _at_least(n_positions, 0, "n_positions") * _at_least(largest_before, 0, "largest_before")


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

    def _state(self) -> dict[str, Any]:
        return {
            "rows": [dict(row) for row in self.rows],
            "version": self.version,
            "charge": self.charge,
            "smoothness": self.smoothness,
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(tuple(state["rows"]), state["version"], state["charge"], state["smoothness"])

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
    try:
        gamma = None if smoothness is None else Fraction(smoothness)
    except (TypeError, ValueError, OverflowError):
        gamma = Fraction(-1)
    if gamma is not None and gamma < 0:
        raise InvalidInputError(f"smoothness must be a number, 0 or more, but was {smoothness!r}.")
    shape, layout = flow.architecture, flow._layout()
    T, d = shape.n_tokens, shape.d_token
    before = 1  # the largest set of a token one layer earlier
    rows: list[dict[str, Any]] = []
    for layer in range(1, shape.depth + 1):
        groups = [*(layout.tokens[layer - 1] if layer < shape.depth else ()), layout.cls[layer - 1]]
        sizes = np.concatenate(
            [
                flow.sizes.tokens[:, layer - 1].max(axis=0)
                if layer < shape.depth
                else np.zeros(T, dtype=int),
                flow.sizes.cls[:, layer - 1].max(axis=0, keepdims=True),
            ]
        )
        for group in groups:
            for t in group.rows.tolist():
                size = int(sizes[t]) if charge == "held" else min(T, group.n_slots)
                exponents = cost_exponents(size, d, shape.widths[layer - 1])
                printed = cost_exponents(
                    max(size, *_printed_sizes(group.rules, t, before, T)), d, shape.widths[layer - 1]
                )
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
        if layer < shape.depth:
            before = int(sizes[:T].max()) if charge == "held" else min(T, layout.token_slots[layer])
    rows.sort(key=lambda row: (row["layer"], row["token"]))
    return CostTable(tuple(rows), version, charge, gamma)


def _printed_sizes(rules: tuple[Any, ...], t: int, before: int, T: int) -> list[int]:
    sizes = [0]
    for rule in rules:
        if isinstance(rule, GlobalRead):
            sizes.append(T)
        elif isinstance(rule, Positions):
            sizes.append(position_size(len(rule.of(t)), before))
    return sizes


def _at_least(value: Any, least: int, name: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidInputError(f"{name} must be a whole number, but was {value!r}.") from None
    if number < least:
        raise InvalidInputError(f"{name} must be at least {least}, but was {number}.")
    return number
