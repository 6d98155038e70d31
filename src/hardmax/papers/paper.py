"""A paper is a folder of :mod:`hardmax.papers`, found and not listed, that holds all that is known of it.

The folder's ``__init__.py`` holds one :class:`Paper`, the others are modules with claims and recipes, and
``rules.py``, if there is one, holds the rules of its certificates. Ledger, commands, pages and tests ask
:func:`papers` and :func:`contents`; none of them names a paper. How to add one is on the page
docs/adding-a-paper.md.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TypeVar

import hardmax.papers

Check = TypeVar("Check", bound=Callable[..., object])


@dataclass(frozen=True, kw_only=True)
class Paper:
    """What the folder of a paper says of it, as ``PAPER`` in its ``__init__.py``.

    Attributes
    ----------
    number : int
        Its place in the ledger: 1 is the paper that docstrings cite as P1.
    title, authors, year : str
        As a bibliography gives them.
    source : str
        Where it is published.
    sections : tuple of str
        The modules of the folder with claims and recipes, in the order of the ledger.
    contents : str
        The table of contents, a line ``place: claims - reason`` each: definitions, lemmas, theorems,
        corollaries, remarks, examples, tables, figures, and the sections with claims of their own. A place
        has names of claims (without the paper in front), or a sentence behind ``-`` that says why there is
        nothing to check, or both.
    """

    number: int
    title: str
    authors: str
    year: str
    source: str
    sections: tuple[str, ...]
    contents: str


@dataclass(frozen=True)
class Place:
    """A place of a paper, the claims of the ledger about it, and why there are none, or not more.

    Examples
    --------
    >>> [place.claims for place in contents() if place.name == "Figure 4"]
    [('tropical.fig4_216',), ('infoflow.fig4', 'infoflow.exp.positions')]
    """

    paper: str
    name: str
    claims: tuple[str, ...]
    reason: str


def papers() -> dict[str, Paper]:
    """Every paper by the name of its folder, in the order of their numbers.

    Examples
    --------
    >>> list(papers())[:2]
    ['tropical', 'infoflow']
    """
    folders = [each.name for each in pkgutil.iter_modules(hardmax.papers.__path__) if each.ispkg]
    found = {name: import_module(f"hardmax.papers.{name}").PAPER for name in folders}
    return dict(sorted(found.items(), key=lambda item: (item[1].number, item[0])))


def sections() -> tuple[str, ...]:
    """The modules with claims and recipes, relative to :mod:`hardmax.papers`, in the order of the ledger."""
    return tuple(f"{name}.{section}" for name, paper in papers().items() for section in paper.sections)


def contents() -> Iterator[Place]:
    """Every place of every paper, in their order."""
    for paper, described in papers().items():
        for line in described.contents.strip().splitlines():
            name, _, rest = line.partition(": ")
            names, _, reason = rest.partition("- ") if rest.startswith("- ") else rest.partition(" - ")
            yield Place(paper, name, tuple(f"{paper}.{each}" for each in names.split()), reason)


def rule(claim: str, kind: str, verdict: str) -> Callable[[Check], Check]:
    """Mark the rule of a claim in ``rules.py`` of a folder. It does nothing there: what judges certificates
    is the copy of the file in ``replay.py``, which ``python docs/write.py replay`` writes."""
    return lambda check: check
