"""The ledger: every statement of the papers as a claim, with a verdict that is computed and can be replayed.

A :class:`Claim` says what a paper states; the function that it decorates checks it and returns a
:class:`Finding`, whose verdict comes from that computation, never from what is expected. A computation on
instances proves nothing about all of them: the verdict *holds* needs a finite statement that was checked
exactly, or a written proof. :func:`check_claims` runs the claims of every paper that
:func:`hardmax.papers.paper.papers` finds and returns a :class:`Ledger`.

A :class:`Certificate` is what anybody needs to check a verdict without trusting this library: data for the
rule of a claim in :mod:`hardmax.papers.replay`, a single file that uses nothing but the standard library. The
rule checks that the data are an instance of the statement, recomputes a value in rationals, which must be
``expected``, and requires of it what the verdict needs. As a file it is one JSON object::

    {"schema": 2, "claim": "tropical.fig4_216", "place": "...", "statement": "...", "hypotheses": "...",
     "sha256": "...", "verdict": "fails", "kind": "heads", "data": {...}, "expected": {...},
     "hardmax": "0.1.0", "commit": "..."}

There are no floating-point literals in it: an exact number is an integer or a string ``"p/q"``, a float64 is
the string that ``float.hex`` gives. So nothing is rounded on the way.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from hardmax.errors import IncompleteError, InvalidInputError, MissingExtraError
from hardmax.limits import Clock, look
from hardmax.networks.network import Network
from hardmax.papers import replay
from hardmax.papers.paper import papers, sections
from hardmax.progress import shown
from hardmax.results import Result, plain
from hardmax.storage import written_whole
from hardmax.versions import installed_versions, source_commit

Kind = TypeVar("Kind")


def collected(kind: type[Kind]) -> tuple[Kind, ...]:
    """Every claim, or every recipe, that stands in a section (or in a tuple there), in their order."""
    modules = [import_module(f"hardmax.papers.{section}") for section in sections()]
    things = [thing for module in modules for thing in vars(module).values()]
    listed = [thing if isinstance(thing, tuple) else (thing,) for thing in things]
    return tuple(each for group in listed for each in group if isinstance(each, kind))


# Claims and what is found about them
# ----------------------------------------------------------------------------------------------------------


class Verdict(StrEnum):
    """What a computation says about a statement."""

    PROVED = "holds (proved)"
    """Finite and checked exactly, or a proof is linked, written out or (where it says so) cited."""
    CHECKED = "holds (checked on stated instances)"
    """Checked exactly on the stated instances; no proof of the rest is at hand."""
    NUMERICAL = "holds numerically"
    """Tested in floating point on the stated instances, no more."""
    UNSTATED = "holds under an unstated hypothesis"
    """True as the authors evidently mean it, under a hypothesis that the entry names; false without it."""
    FAILS = "fails"
    """There is an exact counterexample that meets the stated hypotheses, and a certificate of it."""
    MISPRINT = "fails as printed (a misprint)"
    """False as printed, by a slip that the paper itself does not build on; the entry says what is meant."""
    VACUOUS = "vacuous"
    """What it assumes never happens, or what it says is true of everything."""
    INCONSISTENT = "inconsistent versions"
    """The paper says it in several ways that disagree."""
    MEASUREMENT = "measurement only"
    """A number that depends on choices; it was measured, with the choices stated."""
    OPEN = "open"
    """Neither proved nor refuted by the computation."""


class Effort(StrEnum):
    """How much is computed: all of a paper in about a minute, or larger instances."""

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True)
class Finding:
    """What the check of a claim found; made by :func:`earned`, and by it alone.

    Attributes
    ----------
    verdict : Verdict
        What the computation says.
    computed : str
        One line with the numbers that were found.
    numbers : mapping
        The same numbers for machines.
    certificate : Certificate or None
        What anybody needs to check it.
    """

    verdict: Verdict
    computed: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    certificate: Certificate | None = None


@dataclass(frozen=True)
class Statement:
    """What a paper says and how it is checked: what a claim and its line in the ledger have in common.

    Attributes
    ----------
    name : str
        Lower case, with the paper in front: ``"tropical.fig4_216"``.
    place : str
        The theorem, figure or section.
    statement : str
        What the paper says, in our words.
    hypotheses : str
        Under which assumptions it was checked.
    computation : str
        What is computed.
    expected : Verdict
        The verdict that is pinned; the tests compare it with the computed one.
    correction : str
        What is true instead, where the statement fails.
    proof : str
        Link to a written proof, relative to ``docs/``: ``"theorems.md#theorem-3"``.
    unstated : str
        The hypothesis that must be added, for the verdict that names one.
    own : bool
        Whether the statement is ours (a correction, a sharpening, an addition), not the paper's; these are
        counted apart.
    """

    name: str
    place: str
    statement: str
    _: KW_ONLY
    hypotheses: str
    computation: str
    expected: Verdict
    correction: str = ""
    proof: str = ""
    unstated: str = ""
    own: bool = False

    @property
    def sha256(self) -> str:
        """What stands for the statement in certificates: the SHA-256 of its name, place, words and
        hypotheses."""
        return replay.statement_digest(self.name, self.place, self.statement, self.hypotheses)

    @property
    def paper(self) -> str:
        """The paper in which it stands."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class Claim(Statement):
    """A statement of a paper, and the function ``check(effort)`` that computes the :class:`Finding`."""

    check: Callable[[Effort], Finding]

    def __post_init__(self) -> None:
        if self.paper not in (known := papers()):
            raise InvalidInputError(f"paper must be one of {', '.join(known)}, but was {self.paper!r}.")
        if not re.fullmatch(r"[a-z0-9_.\-]+", self.name):
            raise InvalidInputError(
                f"name must be made of a-z, 0-9, dots, dashes and underscores, but was {self.name!r}."
            )
        object.__setattr__(self, "expected", Verdict(self.expected))
        if bool(self.unstated) != (self.expected is Verdict.UNSTATED):
            raise InvalidInputError(
                f"unstated must name the hypothesis of {self.name} if its verdict is "
                f"{str(Verdict.UNSTATED)!r}, and be empty otherwise, but was {self.unstated!r}."
            )


@dataclass(frozen=True)
class claim:
    """The head of a :class:`Claim`: ``@claim(name, place, expected).states(statement, ...)`` stands above the
    function that checks it."""

    name: str
    place: str
    expected: Verdict

    def states(self, statement: str, **rest: Any) -> Callable[[Callable[[Effort], Finding]], Claim]:
        """Make a :class:`Claim` of the function that checks it; ``rest`` are the other fields."""
        return lambda check: Claim(
            self.name, self.place, statement, expected=self.expected, check=check, **rest
        )


def earned(
    verdict: Verdict,
    condition: bool,
    computed: str,
    numbers: Mapping[str, Any] | None = None,
    certificate: Certificate | None = None,
) -> Finding:
    """The finding with ``verdict`` if ``condition`` was computed; open otherwise. No check has another way to
    a verdict. A certificate must also be accepted by ``replay.py`` as one of this claim and this verdict,
    which :func:`check_claims` sees to."""
    return Finding(verdict if condition else Verdict.OPEN, computed, numbers or {}, certificate)


def holding(
    holds: bool,
    computed: str,
    numbers: Mapping[str, Any] | None = None,
    certificate: Certificate | None = None,
    *,
    by: Verdict = Verdict.PROVED,
) -> Finding:
    """The finding of a check that passed everywhere, which together with the linked proof (or because the
    statement is finite) proves it; ``by`` names a weaker kind of verdict. Open if it did not pass."""
    return earned(by, holds, computed, numbers, certificate)


def failing(
    fails: bool, computed: str, numbers: Mapping[str, Any] | None, certificate: Certificate
) -> Finding:
    """The finding of a counterexample that was computed; open otherwise."""
    return earned(Verdict.FAILS, fails, computed, numbers, certificate)


def within(value: float, limit: float) -> str:
    """``"below 1e-12"``: the limit that a check enforces, not a residual of rounding, which depends on the
    processor.

    Examples
    --------
    >>> within(2.8e-16, 1e-12)
    'below 1e-12'
    >>> within(0.25, 1e-12)
    'not below 1e-12'
    """
    return f"{'below' if value < limit else 'not below'} {limit:g}".replace("e-0", "e-")


# The ledger
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Entry(Statement):
    """One line of the ledger: a statement, and what its check found.

    Attributes
    ----------
    verdict, computed, numbers, certificate
        As in :class:`Finding`.
    seconds : float
        How long the check took.
    """

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
    <Ledger: 1 claim: 1 fails as printed (a misprint); 1 certificate>
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
        raise InvalidInputError(f"{name!r} must be the name of a claim in this ledger{nearest(name, names)}")

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
    def by_origin(self) -> dict[str, dict[Verdict, int]]:
        """The same, apart for the statements of each paper and for our own."""
        counted: dict[str, Counter[Verdict]] = {entry.paper: Counter() for entry in self.entries}
        counted["own"] = Counter()
        for entry in self.entries:
            counted["own" if entry.own else entry.paper][entry.verdict] += 1
        return {
            origin: {verdict: of[verdict] for verdict in Verdict if of[verdict]}
            for origin, of in counted.items()
        }

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
    time_limit: float | None = None,
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
    time_limit : float, optional
        Seconds after which it is given up; ``progress`` has had the claims that were checked.
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
    IncompleteError
        When the time is over: a claim that was checked in part has no verdict.

    Examples
    --------
    The Newton polytope does not determine the linear regions:

    >>> import hardmax as hm
    >>> for entry in hm.check_claims("tropical.newton*"):
    ...     print(entry.name, "-", entry.verdict)
    tropical.newton_characterises - holds under an unstated hypothesis
    """
    clock = Clock(time_limit, "check all claims")
    effort = effort_of(effort)
    claims = selected(select)
    entries: list[Entry] = []

    def line(done: int, total: int, entry: Entry) -> tuple[float | None, str]:
        return done / total, f"{entry.name}, {done} of {total}"

    with shown(progress, line, clock) as report:
        for claim in claims:
            entries.append(_checked(claim, effort))
            if report is not None:
                report(len(entries), len(claims), entries[-1])
    return Ledger(tuple(entries), effort)


def all_claims() -> tuple[Claim, ...]:
    """Every claim of every module, in the order of the ledger."""
    return collected(Claim)


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
                f"but nothing matches {pattern!r}{nearest(pattern, [claim.name for claim in claims])}"
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


def nearest(name: object, names: Sequence[str], otherwise: str = ".") -> str:
    """The end of a sentence: the name that was probably meant, written with its paper or without."""
    meant = {key: each for each in reversed(names) for key in (each.partition(".")[2], each.lower()) if key}
    close = difflib.get_close_matches(str(name).strip().lower(), list(meant), n=1)
    return f"; did you mean {meant[close[0]]}?" if close else otherwise


def _checked(claim: Claim, effort: Effort) -> Entry:
    start = time.perf_counter()
    try:
        finding = claim.check(effort)
        look()  # a part of it may have been cut short
    except (IncompleteError, MissingExtraError) as error:
        look()
        finding = Finding(Verdict.OPEN, str(error))
    except Exception as error:
        look()
        error.add_note(f"while checking {claim.name}")
        raise
    if finding.certificate is not None:
        refused = finding.certificate.failure(claim, Verdict(finding.verdict))
        if refused is not None:
            why = f"{finding.computed}; but the certificate is refused: {refused}"
            finding = replace(finding, verdict=Verdict.OPEN, computed=why)
    return Entry(
        **{each.name: getattr(claim, each.name) for each in fields(Statement)},
        verdict=Verdict(finding.verdict),
        computed=finding.computed,
        numbers=plain(finding.numbers),
        certificate=finding.certificate,
        seconds=time.perf_counter() - start,
    )


def _entry_state(entry: Entry) -> dict[str, Any]:
    return {
        "paper": entry.paper,
        **vars(entry),
        "expected": str(entry.expected),
        "verdict": str(entry.verdict),
        "numbers": dict(entry.numbers),
        "certificate": entry.certificate and vars(entry.certificate),
    }


def _entry_from(state: dict[str, Any]) -> Entry:
    rest = {name: value for name, value in state.items() if name != "paper"}
    certificate = state["certificate"] and Certificate(**state["certificate"])
    verdicts = {name: Verdict(state[name]) for name in ("expected", "verdict")}
    return Entry(**{**rest, **verdicts, "certificate": certificate})


# Certificates
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Certificate:
    """Data that :mod:`hardmax.papers.replay` checks without importing hardmax.

    Parameters
    ----------
    kind : str
        What the data are; the rule of the claim in ``replay.py`` names it too.
    data : mapping
        What the rule is given. Numbers may be ints, fractions, floats or arrays, and networks may stand
        as they are: all is written as :func:`exact` says.
    expected : object
        What the rule must return for ``data``, likewise.

    Examples
    --------
    >>> certificate = Certificate("power", {"base": 512, "exponent": 8}, {"value": 2**72})
    >>> certificate.failure(selected("tropical.pow_512_8")[0], Verdict.MISPRINT) is None
    True
    >>> certificate.failure(selected("tropical.pow_512_8")[0], Verdict.PROVED)
    'the data of tropical.pow_512_8 can only show: fails as printed (a misprint)'
    """

    kind: str
    data: Mapping[str, Any]
    expected: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", exact(self.data))
        object.__setattr__(self, "expected", exact(self.expected))

    def record(self, statement: Statement, verdict: Verdict) -> dict[str, Any]:
        """The JSON object of the certificate's file, for a verdict about a statement."""
        return {
            "schema": replay.SCHEMA,
            "claim": statement.name,
            "place": statement.place,
            "statement": statement.statement,
            "hypotheses": statement.hypotheses,
            "sha256": statement.sha256,
            "verdict": str(verdict),
            "kind": self.kind,
            "data": self.data,
            "expected": self.expected,
            "hardmax": str(installed_versions()["hardmax"]),
            "commit": source_commit(),
        }

    def failure(self, statement: Statement, verdict: Verdict) -> str | None:
        """Why ``replay.py`` does not accept it for this verdict about this statement; ``None`` if it does."""
        return replay.failure(self.record(statement, verdict))


def exact(value: Any) -> Any:
    """``value`` in JSON without rounding: fractions as ``"p/q"``, floats by ``float.hex``, arrays as lists,
    networks as :func:`network_record` says.

    Examples
    --------
    >>> exact({"p": Fraction(1, 3), "x": np.array([0.1, 2.0]), "n": 7})
    {'p': '1/3', 'x': ['0x1.999999999999ap-4', '0x1.0000000000000p+1'], 'n': 7}
    """
    if isinstance(value, np.ndarray):
        return exact(value.tolist())
    if isinstance(value, np.generic):
        return exact(value.item())
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else str(value)
    if isinstance(value, float):
        return (value + 0.0).hex()  # minus zero is written as zero
    if isinstance(value, Mapping):
        return {str(key): exact(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [exact(item) for item in value]
    if isinstance(value, Network):
        return network_record(value)
    raise InvalidInputError(
        f"a certificate holds integers, fractions, floats, strings, lists and mappings, but was given a "
        f"{type(value).__name__}."
    )


def network_record(network: Network) -> list[dict[str, Any]]:
    """The blocks of a network as certificates hold them, in exact numbers.

    Examples
    --------
    >>> import hardmax as hm
    >>> network_record(hm.Network([hm.Affine([[0.5]], [2])]))
    [{'block': 'Affine', 'w': [['1/2']], 'b': [2]}]
    """
    records = []
    for block in network.blocks:
        state = block.state()
        mask = state.pop("mask", None)
        if state["block"] == "Maxout" or "slope" in state or not (mask is None or np.all(mask)):
            raise InvalidInputError(
                "network must be made of affine maps, ReLU layers and unmasked attention to become a "
                "certificate."
            )
        records.append({name: _fractions(value) for name, value in state.items()})
    return records


def _fractions(value: Any) -> Any:
    """Arrays as nested lists of exact numbers; a float is the fraction it stands for."""
    if isinstance(value, np.ndarray):
        return _fractions(value.tolist())
    if isinstance(value, list):
        return [_fractions(item) for item in value]
    return exact(Fraction(value) if isinstance(value, float) else value)


def write_certificates(entries: Iterable[Entry], folder: str | os.PathLike[str]) -> list[Path]:
    """Write one JSON file per certificate into ``folder``, and ``replay.py`` beside them.

    Parameters
    ----------
    entries : iterable of Entry
        Entries of a ledger; those without a certificate are passed over.
    folder : path-like
        Made if it does not exist.

    Returns
    -------
    list of Path
        The certificates, named after their claims; ``python replay.py *.json`` in the folder checks them.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for entry in entries:
        if entry.certificate is None:
            continue
        path = folder / f"{entry.name}.json"
        record = entry.certificate.record(entry, entry.verdict)
        with written_whole(path) as file:
            file.write(json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n")
        paths.append(path)
    with written_whole(folder / "replay.py") as copy, open(replay.__file__, "rb") as original:
        shutil.copyfileobj(original, copy)
    return paths
