"""The ledger: every statement of both papers as a check with a verdict.

The claims stand in the modules that :mod:`hardmax.papers.sections` lists, each of which ends with a tuple
``CLAIMS``; what a claim is, :mod:`hardmax.papers.findings` says. :func:`check_claims` runs them and returns a
:class:`Ledger`.
"""

from __future__ import annotations

import difflib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Self

from hardmax.errors import IncompleteError, InvalidInputError, MissingExtraError
from hardmax.papers.certificates import Certificate
from hardmax.papers.findings import Claim, Effort, Finding, Verdict
from hardmax.papers.sections import collected
from hardmax.progress import shown
from hardmax.results import Result, plain

__all__ = ["Entry", "Ledger", "all_claims", "check_claims", "effort_of", "selected"]


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: a claim, and what its check found.

    Attributes
    ----------
    paper, name, place, statement, hypotheses, computation, correction, proof : str
        Of the :class:`Claim`.
    expected : Verdict
        The pinned verdict.
    verdict : Verdict
        The computed one.
    computed : str
        One line with the numbers that were found.
    numbers : mapping
        The same numbers for machines.
    certificate : Certificate or None
        What anybody needs to check it.
    seconds : float
        How long the check took.
    """

    paper: str
    name: str
    place: str
    statement: str
    hypotheses: str
    computation: str
    correction: str
    proof: str
    expected: Verdict
    verdict: Verdict
    computed: str
    numbers: Mapping[str, Any]
    certificate: Certificate | None
    seconds: float

    @property
    def as_expected(self) -> bool:
        """Whether the computed verdict is the pinned one."""
        return self.verdict == self.expected


@dataclass(frozen=True, eq=False, repr=False)
class Ledger(Result):
    """Claims with the verdicts that were computed for them.

    Attributes
    ----------
    entries : tuple of Entry
        One per claim, in the order of the papers; ``ledger["tropical.fig4_216"]`` finds one by name.
    effort : Effort
        How much was computed.

    Examples
    --------
    >>> import hardmax as hm
    >>> ledger = hm.check_claims("tropical.pow_512_8")
    >>> ledger
    <Ledger: 1 claim: 1 fails; 1 certificate>
    >>> ledger["tropical.pow_512_8"].computed
    '512^8 = 2^72 = 4722366482869645213696 = 4.722e21; printed 1.1e21, short by a factor of 4.3'
    """

    kind: ClassVar[str] = "Ledger"

    entries: tuple[Entry, ...]
    effort: Effort

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __getitem__(self, name: str) -> Entry:
        for entry in self.entries:
            if entry.name == name.lower():
                return entry
        names = [entry.name for entry in self.entries]
        raise InvalidInputError(f"{name!r} must be the name of a claim in this ledger{_nearest(name, names)}")

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The computed verdict of every claim, by name."""
        return {entry.name: entry.verdict for entry in self.entries}

    @property
    def counts(self) -> dict[Verdict, int]:
        """How often each verdict was computed; verdicts that do not occur are left out."""
        counted = Counter(entry.verdict for entry in self.entries)
        return {verdict: counted[verdict] for verdict in Verdict if counted[verdict]}

    @property
    def surprises(self) -> tuple[Entry, ...]:
        """Entries whose computed verdict is not the pinned one."""
        return tuple(entry for entry in self.entries if not entry.as_expected)

    def _state(self) -> dict[str, Any]:
        return {"effort": str(self.effort), "entries": [_entry_state(entry) for entry in self.entries]}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(tuple(_entry_from(entry) for entry in state["entries"]), Effort(state["effort"]))

    def _summary(self) -> str:
        n = len(self.entries)
        certified = sum(entry.certificate is not None for entry in self.entries)
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items())
        return (
            f"{n} {'claim' if n == 1 else 'claims'}: {counts or 'none'}; "
            f"{certified} {'certificate' if certified == 1 else 'certificates'}"
        )

    def _table(self) -> Mapping[str, Sequence[Any]]:
        return {
            "claim": [entry.name for entry in self.entries],
            "place": [entry.place for entry in self.entries],
            "verdict": [str(entry.verdict) for entry in self.entries],
            "expected": [str(entry.expected) for entry in self.entries],
            "computed": [entry.computed for entry in self.entries],
        }


def check_claims(
    select: str | Iterable[str] | None = None,
    effort: str | Effort = "quick",
    *,
    progress: bool | Callable[[int, int, Entry], object] | None = None,
) -> Ledger:
    """Check statements of the papers, and say what is true of each.

    Parameters
    ----------
    select : str or iterable of str, optional
        Which claims: a name, the beginning of one, a pattern with ``*`` and ``?``, or a paper
        (``"tropical"``); the paper in front may be left out. All claims otherwise.
    effort : {"quick", "full"}
        Quick takes about a minute for a paper; full checks larger instances.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called as ``progress(done, total, entry)`` after
        each claim.

    Returns
    -------
    Ledger
        One entry per claim, with verdict, numbers, correction and certificate.

    Raises
    ------
    InvalidInputError
        When nothing matches ``select``; the message names the nearest claim.

    Examples
    --------
    Figure 4 of the tropical paper shows 216 vertices; there cannot be more than 92.

    >>> import hardmax as hm
    >>> for entry in hm.check_claims("tropical.newton*"):
    ...     print(entry.name, "-", entry.verdict)
    tropical.newton_characterises - fails
    """
    effort = effort_of(effort)
    claims = selected(select)
    entries = []
    with shown(progress, lambda done, total, entry: (done / total, entry.name)) as report:
        for claim in claims:
            entries.append(_checked(claim, effort))
            if report is not None:
                report(len(entries), len(claims), entries[-1])
    return Ledger(tuple(entries), effort)


def all_claims() -> tuple[Claim, ...]:
    """Every claim of every module, in the order of the ledger."""
    return collected("CLAIMS")


def selected(select: str | Iterable[str] | None = None) -> tuple[Claim, ...]:
    """The claims that :func:`check_claims` would check, in the order of the ledger."""
    claims = all_claims()
    if select is None:
        return claims
    if not isinstance(select, Iterable):
        raise InvalidInputError(f"select must be a name or several, but was {select!r}.")
    patterns = [select] if isinstance(select, str) else list(select)
    chosen: set[str] = set()
    for pattern in patterns:
        wanted = str(pattern).strip().lower()
        exactly = {claim.name for claim in claims if wanted in _names(claim)}
        names = exactly or {claim.name for claim in claims if _matches(claim, wanted)}
        if not names:
            raise InvalidInputError(
                "select must name a claim, the beginning of one, a pattern such as tropical.v7_* or a paper, "
                f"but nothing matches {pattern!r}{_nearest(pattern, [claim.name for claim in claims])}"
            )
        chosen |= names
    return tuple(claim for claim in claims if claim.name in chosen)


def effort_of(effort: str | Effort) -> Effort:
    """``effort`` as an :class:`Effort`, or a sentence that says which there are."""
    try:
        return Effort(effort)
    except ValueError:
        choices = " or ".join(repr(str(choice)) for choice in Effort)
        raise InvalidInputError(f"effort must be {choices}, but was {effort!r}.") from None


def _names(claim: Claim) -> tuple[str, str]:
    return claim.name, claim.name.removeprefix(f"{claim.paper}.")


def _matches(claim: Claim, pattern: str) -> bool:
    return bool(pattern) and any(
        name.startswith(pattern) or fnmatchcase(name, pattern) for name in _names(claim)
    )


def _nearest(name: object, names: Sequence[str]) -> str:
    wanted = str(name).lower()
    short = {each.partition(".")[2]: each for each in names}
    close = difflib.get_close_matches(wanted, names, n=1) or [
        short[each] for each in difflib.get_close_matches(wanted, list(short), n=1)
    ]
    return f"; did you mean {close[0]}?" if close else "."


def _checked(claim: Claim, effort: Effort) -> Entry:
    start = time.perf_counter()
    try:
        finding = claim.check(effort)
    except (IncompleteError, MissingExtraError) as error:
        finding = Finding(Verdict.UNDECIDED, str(error))
    except Exception as error:
        error.add_note(f"while checking {claim.name}")
        raise
    return Entry(
        **{name: getattr(claim, name) for name in _OF_THE_CLAIM},
        expected=claim.expected,
        verdict=Verdict(finding.verdict),
        computed=finding.computed,
        numbers=plain(finding.numbers),
        certificate=finding.certificate,
        seconds=time.perf_counter() - start,
    )


_OF_THE_CLAIM = ("paper", "name", "place", "statement", "hypotheses", "computation", "correction", "proof")


def _entry_state(entry: Entry) -> dict[str, Any]:
    state = {each.name: getattr(entry, each.name) for each in fields(entry)}
    certificate = entry.certificate
    return {
        **state,
        "expected": str(entry.expected),
        "verdict": str(entry.verdict),
        "numbers": dict(entry.numbers),
        "certificate": certificate
        and {"kind": certificate.kind, "data": certificate.data, "expected": certificate.expected},
    }


def _entry_from(state: dict[str, Any]) -> Entry:
    certificate = state["certificate"]
    return Entry(
        **{
            **state,
            "expected": Verdict(state["expected"]),
            "verdict": Verdict(state["verdict"]),
            "certificate": certificate and Certificate(**certificate),
        }
    )
