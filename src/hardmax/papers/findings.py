"""What a claim is, and what its check may find.

A :class:`Claim` says what a paper states and how it is checked; its ``check`` computes a :class:`Finding`,
and the verdict of the finding comes from that computation, never from what is expected. A computation on
instances proves nothing about all of them: the verdict *holds* needs a finite statement that was checked
exactly, or a written proof.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hardmax.errors import InvalidInputError
from hardmax.papers.certificates import Certificate

__all__ = ["PAPERS", "Claim", "Effort", "Finding", "Verdict", "earned", "failing", "holding", "within"]

PAPERS = {
    "tropical": "Expressivity of Transformers: A Tropical Geometry Perspective",
    "infoflow": "InfoFlow: A Framework for Multi-Layer Transformer Analysis",
}


class Verdict(StrEnum):
    """What a computation says about a statement."""

    HOLDS = "holds"
    """Finite and checked exactly, or a proof is linked, written out or (where it says so) cited."""
    HOLDS_NUMERICALLY = "holds numerically"
    """Tested on the stated instances, no more."""
    FAILS = "fails"
    """There is an exact counterexample, and a certificate of it."""
    VACUOUS = "vacuous"
    """What it assumes never happens, or what it says is true of everything."""
    INCONSISTENT = "inconsistent versions"
    """The paper says it in several ways that disagree."""
    MEASUREMENT = "measurement only"
    """A number that depends on choices; it was measured, with the choices stated."""
    UNDECIDED = "undecided"
    """The computation did not settle it."""
    OUT_OF_REACH = "out of reach"
    """It cannot be checked here, for the stated reason."""


class Effort(StrEnum):
    """How much is computed: all of a paper in about a minute, or larger instances."""

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True)
class Finding:
    """What the check of a claim found.

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
class Claim:
    """A statement of a paper, and how it is checked.

    Attributes
    ----------
    paper : {"tropical", "infoflow"}
        Where it stands.
    name : str
        Lower case, with the paper in front: ``"tropical.fig4_216"``. The paper is added if it is missing.
    place : str
        The theorem, figure or section.
    statement : str
        What the paper says, in our words.
    hypotheses : str
        Under which assumptions it was checked.
    computation : str
        What is computed.
    check : callable
        ``check(effort)`` computes the :class:`Finding`.
    expected : Verdict
        The verdict that is pinned; the tests compare it with the computed one.
    correction : str
        What is true instead, where the statement fails.
    proof : str
        Link to a written proof, relative to ``docs/``: ``"minkowski.md#why"``.
    """

    paper: str
    name: str
    place: str
    statement: str
    hypotheses: str
    computation: str
    check: Callable[[Effort], Finding]
    expected: Verdict
    correction: str = ""
    proof: str = ""

    def __post_init__(self) -> None:
        if self.paper not in PAPERS:
            raise InvalidInputError(f"paper must be one of {', '.join(PAPERS)}, but was {self.paper!r}.")
        if not self.name.startswith(f"{self.paper}."):
            object.__setattr__(self, "name", f"{self.paper}.{self.name}")
        if not re.fullmatch(r"[a-z0-9_.\-]+", self.name):
            raise InvalidInputError(
                f"name must be made of a-z, 0-9, dots, dashes and underscores, but was {self.name!r}."
            )
        object.__setattr__(self, "expected", Verdict(self.expected))


def earned(
    verdict: Verdict,
    condition: bool,
    computed: str,
    numbers: Mapping[str, Any] | None = None,
    certificate: Certificate | None = None,
) -> Finding:
    """The finding with ``verdict`` if ``condition`` was computed and the certificate, if any, is accepted;
    undecided otherwise. No check has another way to a verdict."""
    if not condition or (certificate is not None and not certificate.holds):
        verdict = Verdict.UNDECIDED
    return Finding(verdict, computed, numbers or {}, certificate)


def holding(
    holds: bool,
    computed: str,
    numbers: Mapping[str, Any] | None = None,
    certificate: Certificate | None = None,
    *,
    numerically: bool = False,
) -> Finding:
    """The finding of a check that passed everywhere; undecided if it did not, or if the certificate fails."""
    verdict = Verdict.HOLDS_NUMERICALLY if numerically else Verdict.HOLDS
    return earned(verdict, holds, computed, numbers, certificate)


def failing(
    fails: bool, computed: str, numbers: Mapping[str, Any] | None, certificate: Certificate
) -> Finding:
    """The finding of a counterexample that was computed and whose certificate is accepted; undecided
    otherwise."""
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
