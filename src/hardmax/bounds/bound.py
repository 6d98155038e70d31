"""What a bound is: a number with a side, the hypotheses it needs, and the form that P1 prints beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Self

from hardmax.bounds.large_integers import MOST_DIGITS, check_digits, log10_of, readable
from hardmax.errors import InvalidInputError, written
from hardmax.results import Result

_LARGEST_PLAIN = 2**53  # beyond, JSON readers round


class Side(StrEnum):
    """On which side of the truth a bound lies."""

    MAXIMUM = "maximum"  # attained: an upper bound that some keys reach
    UPPER = "upper"
    LOWER = "lower"
    FOUND = "found"  # a lower bound that rests on one stored example


class PrintedForm(StrEnum):
    """What is to be said about a form that P1 prints, for the sizes at hand."""

    HOLDS = "holds"
    NOT_SHARP = "holds, not sharp"
    FALSE = "false"
    SILENT = "does not apply"


@dataclass(frozen=True)
class Printed:
    """A form that P1 prints.

    ``base ** power`` (or ``log10``, where it is not a whole number) is the form with constant 1 in place of
    O, and ``exponent`` its exponent of N; ``None`` where there is none. An O form is judged by its exponent,
    because its value has no finite meaning.

    Examples
    --------
    >>> import hardmax as hm
    >>> bounds = hm.region_bounds(n_tokens=3, heads=1, d_model=2, d_ff=4, depth=1)
    >>> bounds["zaslavsky"].printed[0].place
    'Definition III.2'
    """

    place: str
    formula: str
    verdict: PrintedForm
    reason: str = ""
    base: int | None = None
    power: int = 1
    log10: float | None = None
    exponent: int | None = None

    def __post_init__(self) -> None:
        if self.log10 is None and self.base:
            object.__setattr__(self, "log10", log10_of(self.base, self.power))

    @property
    def value(self) -> int | None:
        """The form as an integer, where it is one."""
        if self.base is None:
            return None
        check_digits(self.log10 or 0.0)
        return int(self.base**self.power)

    @property
    def text(self) -> str:
        """The form as a person reads it; a dash where it has no value."""
        if self.base is not None:
            return readable(self.base, self.power)
        return "-" if self.log10 is None else readable(10, self.log10)

    def _state(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": str(self.verdict), "base": _hex(self.base)}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**{**state, "verdict": PrintedForm(state["verdict"]), "base": _unhex(state["base"])})


@dataclass(frozen=True)
class Bound:
    """One bound: ``base ** power``, which side it is on, and what it needs.

    Attributes
    ----------
    name, formula, hypotheses : str
    side : Side
        ``maximum`` (attained), ``upper``, ``lower`` (a construction reaches it) or ``found``.
    base, power : int
        The number as a power; ``base`` is ``None`` where the hypotheses fail and there is no bound.
    exponent : int or None
        The exponent of N, everything else fixed.
    printed : tuple of Printed
        What P1 prints.

    Examples
    --------
    >>> import hardmax as hm
    >>> bound = hm.region_bounds(n_tokens=3, heads=1, d_model=2, d_ff=4, depth=1)["zaslavsky"]
    >>> bound.name, bound.side.value, bound.value
    ('zaslavsky', 'maximum', 11)
    """

    name: str
    side: Side
    base: int | None
    formula: str
    hypotheses: str
    power: int = 1
    exponent: int | None = None
    printed: tuple[Printed, ...] = ()

    @cached_property
    def value(self) -> int:
        """The bound as an integer; it may have a hundred thousand digits."""
        check_digits(self.log10)
        return int(self._known() ** self.power)

    @property
    def log10(self) -> float:
        """Its decimal logarithm."""
        return log10_of(self._known(), self.power)

    @property
    def text(self) -> str:
        """The bound as a person reads it: in full, or as a power of ten; a dash where there is none."""
        return "-" if self.base is None else readable(self.base, self.power)

    def _known(self) -> int:
        if self.base is None:
            raise InvalidInputError(f"{self.name} has no value for these sizes: it needs {self.hypotheses}.")
        return self.base

    def _state(self) -> dict[str, Any]:
        printed = [form._state() for form in self.printed]
        return {**asdict(self), "side": str(self.side), "base": _hex(self.base), "printed": printed}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        base, printed = _unhex(state["base"]), tuple(map(Printed._from_state, state["printed"]))
        return cls(**{**state, "side": Side(state["side"]), "base": base, "printed": printed})


@dataclass(frozen=True, eq=False, repr=False)
class RegionBounds(Result):
    """All bounds for one architecture.

    Attributes
    ----------
    question : dict
        The sizes that were asked for.
    bounds : tuple of Bound
        ``bounds["depth"]`` finds one by name, iterating lists them.

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.region_bounds(n_tokens=4, heads=2, d_model=2, d_ff=4, depth=3)
    >>> found.lower.value, found.upper.value
    (262144, 5451776)
    >>> hm.bounds.mlp_bounds([2, 3, 3])
    <RegionBounds: at most, and attained, 34 cells for widths=[2, 3, 3]>
    >>> found["multi_head_affine"].value, found["feed_forward"].value
    (16, 11)
    """

    kind: ClassVar[str] = "RegionBounds"
    _nested: ClassVar[dict[str, type]] = {"bounds": Bound}

    question: dict[str, Any]
    bounds: tuple[Bound, ...]

    def __getitem__(self, name: str) -> Bound:
        by_name = {bound.name: bound for bound in self.bounds}
        if name not in by_name:
            raise InvalidInputError(f"name must be one of {', '.join(by_name)}, but was {name!r}.")
        return by_name[name]

    def __iter__(self) -> Iterator[Bound]:
        return iter(self.bounds)

    @property
    def upper(self) -> Bound:
        """The bound on the cells of the whole network that needs nothing but its sizes."""
        return [bound for bound in self.bounds if bound.side in (Side.UPPER, Side.MAXIMUM)][-1]

    @property
    def lower(self) -> Bound:
        """What the best known network of this size reaches.

        Raises
        ------
        InvalidInputError
            When no network of this size is known that reaches more than one cell.
        """
        if not self._lower:
            raise InvalidInputError(
                "lower must be known for these sizes, but no network of them was counted."
            )
        return self._lower[-1]

    @property
    def _lower(self) -> list[Bound]:
        return [bound for bound in self.bounds if bound.side in (Side.LOWER, Side.FOUND)]

    @property
    def false_forms(self) -> tuple[Printed, ...]:
        """The printed forms that are false for these sizes."""
        return tuple(
            form for bound in self.bounds for form in bound.printed if form.verdict is PrintedForm.FALSE
        )

    def to_dict(self) -> dict[str, Any]:
        """The bounds in plain Python: each number as text, log10 and hex, and in full up to 2^53."""
        described = []
        for bound in self.bounds:
            entry = {**bound._state(), **_numbers(bound)}
            entry["printed"] = [{**form._state(), **_numbers(form)} for form in bound.printed]
            for described_number in (entry, *entry["printed"]):
                del described_number["base"], described_number["power"]
            described.append(entry)
        return {**super().to_dict(), "bounds": described}

    def _summary(self) -> str:
        sizes = ", ".join(
            f"{name}={written(value)}" for name, value in self.question.items() if value is not None
        )
        known = [bound.text for bound in self._lower[-1:] if bound.base is not None]
        between = f"between {known[0]} and" if known else "at most"
        if known == [self.upper.text]:
            between = "at most, and attained,"
        return f"{between} {self.upper.text} cells for {sizes}"

    def _table(self) -> dict[str, Any]:
        return {
            "bound": [bound.name for bound in self.bounds],
            "side": [str(bound.side) for bound in self.bounds],
            "number": [bound.text for bound in self.bounds],
            "log10": [None if bound.base is None else bound.log10 for bound in self.bounds],
            "exponent of N": [bound.exponent for bound in self.bounds],
            "printed": ["; ".join(form.formula for form in bound.printed) for bound in self.bounds],
            "verdict": ["; ".join(form.verdict for form in bound.printed) for bound in self.bounds],
        }


def _hex(number: int | None) -> str | None:
    return None if number is None else hex(number)


def _unhex(text: str | None) -> int | None:
    return None if text is None else int(text, 16)


def _numbers(item: Bound | Printed) -> dict[str, Any]:
    """How a number leaves the program; an integer of more than ten million digits only by its logarithm."""
    if item.base is None:
        log10 = item.log10 if isinstance(item, Printed) else None
        return {"text": None if log10 is None else item.text, "log10": log10, "hex": None, "value": None}
    value = item.value if log10_of(item.base or 1, item.power) <= MOST_DIGITS else None
    plain = value if value is not None and value <= _LARGEST_PLAIN else None
    return {"text": item.text, "log10": item.log10, "hex": _hex(value), "value": plain}
