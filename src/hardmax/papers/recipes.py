"""One recipe per figure, table and example of the papers: it computes, draws and compares.

A recipe knows the choices that a paper leaves open as :class:`Option`, each with a stated default. Its
function ``run`` turns them into an :class:`Outcome`: pictures, tables of numbers, and a
:class:`Comparison` "paper / computed / verdict" for every number that the paper prints. A verdict is computed
from the numbers beside it, or is the finding of a claim with the settings of the recipe; it is never written
down. :func:`reproduce` writes all of it into a folder, whole or not at all. The same name, profile, seed and
settings give the same numbers, tables and SVG pictures.

Recipes stand in the modules of :func:`hardmax.papers.paper.sections`. They import pictures inside their
function, so that the list of them needs no matplotlib::

    @recipe("tropical.fig9", "What the picture shows", Option("box", 4.0, "half side of the box"))
    def _run_figure_9(settings: Settings) -> Outcome:
        from hardmax.plotting.growth import draw_growth

        rng = settings.rng("keys")
        ...
        return Outcome(figures={"fig9": figure}, tables={"counts": {"N": [2, 3], "cells": [4, 9]}},
                       comparisons=(compared("cells at N = 3", "9", str(cells), cells == 9),))

The folder of a reproduction is written into a hidden folder beside the target, which is renamed when it is
complete. ``numbers.json`` names the files it came with; only a folder that holds nothing else is ever
replaced.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import secrets
import shlex
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from hardmax.errors import InvalidInputError, written
from hardmax.limits import Clock
from hardmax.papers.ledger import Finding, Verdict, all_claims, collected, nearest
from hardmax.papers.paper import papers
from hardmax.progress import watched
from hardmax.results import Result, columns_of, plain, strict
from hardmax.untrusted import parsed_json, plain_bytes
from hardmax.versions import installed_versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure  # for type checkers only: pictures are made in plotting

Value = int | float | str | bool | tuple[Any, ...]
Profile = Literal["quick", "medium", "paper"]
PROFILES: tuple[Profile, ...] = ("quick", "medium", "paper")
NOT_COMPARED = "not compared"
NOT_RUN = "not run"
_IN_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


@dataclass(frozen=True)
class Option:
    """A choice that the paper leaves open, with the default that is used here.

    Parameters
    ----------
    name : str
        The name used by ``settings`` and ``--set``.
    default : int, float, str, bool or non-empty tuple of one of them
        The value in the profile ``quick``; its type is the type of the option.
    help : str
        What is chosen, in one line.
    medium, paper : optional
        Values in the other profiles, where they differ from the default (``paper`` also from ``medium``).
    choices : tuple, optional
        The only values there are (of each entry, for a tuple).
    least : float, optional
        The smallest value (of each entry, for a tuple).
    positive : bool
        Whether the value must be larger than 0.

    Examples
    --------
    >>> heads = Option("heads", (1, 2), "numbers of heads", least=1)
    >>> heads.read("1,2,3")
    (1, 2, 3)
    >>> Option("seeds", 6, "networks per point", paper=80).value_in("paper")
    80
    """

    name: str
    default: Value
    help: str
    medium: Value | None = field(default=None, kw_only=True)
    paper: Value | None = field(default=None, kw_only=True)
    choices: tuple[Any, ...] = field(default=(), kw_only=True)
    least: float | None = field(default=None, kw_only=True)
    positive: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.default == ():
            raise InvalidInputError(f"the default of option {self.name} must show the type of its entries.")
        for value in (self.default, self.medium, self.paper):
            if value is not None:
                self.read(value)

    def value_in(self, profile: Profile) -> Value:
        """The default in a profile."""
        if profile == "paper" and self.paper is not None:
            return self.paper
        if profile != "quick" and self.medium is not None:
            return self.medium
        return self.default

    def read(self, given: Any) -> Value:
        """``given``, possibly a text from the command line, as a value of this option.

        Raises
        ------
        InvalidInputError
            When it is of another type, not among the choices, or too small.
        """
        if not isinstance(self.default, tuple):
            value: Value = self._entry(given, self.default)
            return value
        if isinstance(given, str):
            given = [part for part in given.split(",") if part.strip()]
        if not isinstance(given, (list, tuple, np.ndarray)) or not len(given):
            raise self._refusal(given)
        return tuple(self._entry(entry, self.default[0]) for entry in given)

    def _entry(self, given: Any, like: Any) -> Any:
        value = self._converted(given.strip() if isinstance(given, str) else given, like)
        if value is None or (self.choices and value not in self.choices):
            raise self._refusal(given)
        if (self.least is not None and not value >= self.least) or (self.positive and not value > 0):
            raise self._refusal(given)
        return value

    @staticmethod
    def _converted(given: Any, like: Any) -> Any:
        """``given`` in the type of ``like``, or ``None`` where that would change it."""
        if isinstance(like, bool):
            words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
            if isinstance(given, (bool, np.bool_)):
                return bool(given)
            return words.get(given.lower()) if isinstance(given, str) else None
        if isinstance(like, str):
            return given if isinstance(given, str) and given else None
        if isinstance(given, (bool, np.bool_)):
            return None
        try:
            if isinstance(like, int):
                return int(given) if isinstance(given, (str, int, np.integer)) else None
            value = float(given)
        except (TypeError, ValueError):
            return None
        return value if math.isfinite(value) else None

    def _refusal(self, given: Any) -> InvalidInputError:
        return InvalidInputError(f"{self.name} must be {self.kind}, but was {given!r}.")

    @property
    def kind(self) -> str:
        """What the option accepts, in words.

        >>> Option("seeds", 6, "networks per point", least=1).kind
        'a whole number of at least 1'
        """
        entry = self.default[0] if isinstance(self.default, tuple) else self.default
        if self.choices:
            words = " or ".join(map(str, self.choices))
        else:
            words = _IN_WORDS[type(entry)].replace("a ", "a positive " if self.positive else "a ", 1)
        if self.least is not None:
            words += f" of at least {self.least:g}"
        return f"a list, separated by commas, of: {words}" if isinstance(self.default, tuple) else words


@dataclass(frozen=True)
class Settings(Mapping[str, Any]):
    """What a recipe runs with: ``settings["option name"]``, the profile and the seed.

    Examples
    --------
    >>> settings = Settings("quick", 0, {"box": 4.0})
    >>> settings["box"]
    4.0
    >>> bool(settings.rng("keys").normal() == settings.rng("keys").normal())
    True
    """

    profile: Profile
    seed: int
    chosen: Mapping[str, Value]

    def __getitem__(self, name: str) -> Any:
        return self.chosen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.chosen)

    def __len__(self) -> int:
        return len(self.chosen)

    def rng(self, *stream: int | str) -> np.random.Generator:
        """A stream of random numbers of its own for each name or number (or several); the seed moves all."""
        key = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in stream]
        return np.random.default_rng([self.seed, *key])


@dataclass(frozen=True)
class Comparison:
    """One number of the paper beside what was computed.

    Recipes make it by :class:`stated`, :func:`compared` and :func:`measured`, which compute the verdict.

    Attributes
    ----------
    quantity, paper, computed : str
        What is compared, what the paper says of it, and what was found.
    verdict : str
        A :class:`~hardmax.papers.ledger.Verdict`, ``"not compared"`` or ``"not run"``.
    claim : str
        The claim of the ledger that the number belongs to, or nothing.
    """

    quantity: str
    paper: str
    computed: str
    verdict: str
    claim: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", str(self.verdict))
        if self.verdict not in (*Verdict, NOT_COMPARED, NOT_RUN):
            raise InvalidInputError(
                f"verdict must be one of {', '.join((*Verdict, NOT_COMPARED, NOT_RUN))}, but was "
                f"{self.verdict!r}."
            )


@dataclass(frozen=True)
class stated:
    """What a paper states of a quantity, to be set beside what was computed by one of the methods.

    Examples
    --------
    >>> stated("vertices", "216", "tropical.fig4_216").compared("92", 92 >= 216).verdict
    'fails'
    """

    quantity: str
    paper: str
    claim: str = ""

    def _beside(self, computed: str, verdict: str) -> Comparison:
        return Comparison(self.quantity, self.paper, computed, verdict, self.claim)

    def judged(self, computed: str, finding: Finding) -> Comparison:
        """A comparison whose verdict is the finding of the claim, checked with the settings of the recipe."""
        return self._beside(computed, finding.verdict)

    def compared(self, computed: str, holds: bool | None, *, exactly: bool = False) -> Comparison:
        """A comparison whose verdict says whether what the paper states is true of the computed numbers.

        ``holds`` is ``None`` where the paper states nothing, or nothing for these settings. ``exactly`` is
        for a statement about these numbers alone; otherwise it holds numerically, on these instances.
        """
        if holds is None:
            return self._beside(computed, NOT_COMPARED)
        true = Verdict.PROVED if exactly else Verdict.NUMERICAL
        return self._beside(computed, true if holds else Verdict.FAILS)

    def refuted(self, computed: str, fails: bool) -> Comparison:
        """A comparison that can only refute: undecided where no counterexample was found."""
        return self._beside(computed, Verdict.FAILS if fails else Verdict.OPEN)


def compared(
    quantity: str, paper: str, computed: str, holds: bool | None, *, claim: str = "", exactly: bool = False
) -> Comparison:
    """A comparison that fits on a line: :meth:`stated.compared`."""
    return stated(quantity, paper, claim).compared(computed, holds, exactly=exactly)


def measured(quantity: str, paper: str, computed: str, *, claim: str = "") -> Comparison:
    """A number that depends on random draws or on choices that the paper does not state; perhaps not run."""
    verdict = NOT_RUN if computed == NOT_RUN else Verdict.MEASUREMENT
    return Comparison(quantity, paper, computed, verdict, claim)


@dataclass(frozen=True)
class Outcome:
    """What a recipe yields: pictures and tables by name, comparisons, and remarks.

    A table is a mapping of column names to columns of one length; a matrix becomes several columns.

    Examples
    --------
    >>> Outcome(figures={}, tables={"counts": {"N": [2, 3], "cells": [4]}}, comparisons=())
    Traceback (most recent call last):
    hardmax.errors.InvalidInputError: the columns of table counts must have one length, but have 1, 2.
    """

    figures: Mapping[str, Figure]
    tables: Mapping[str, Mapping[str, Sequence[Any]]]
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, table in self.tables.items():
            lengths = sorted({len(column) for column in table.values()})
            if len(lengths) > 1:
                raise InvalidInputError(
                    f"the columns of table {name} must have one length, but have "
                    f"{', '.join(map(str, lengths))}."
                )


@dataclass(frozen=True)
class Recipe:
    """A figure, table or example of a paper: its name, what it shows, its options, how it is made.

    Examples
    --------
    >>> recipe = Recipe("tropical.fig0", "An example", (Option("box", 4.0, "half side of the box"),), print)
    >>> recipe.settings("quick", 0, {"box": "3"})["box"]
    3.0
    """

    name: str
    title: str
    options: tuple[Option, ...]
    run: Callable[[Settings], Outcome]

    def settings(
        self, profile: Profile = "quick", seed: int = 0, given: Mapping[str, Any] | None = None
    ) -> Settings:
        """The options of a profile, with those that are given in place of their defaults."""
        if profile not in PROFILES:
            raise InvalidInputError(f"profile must be one of {', '.join(PROFILES)}, but was {profile!r}.")
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise InvalidInputError(f"seed must be a whole number of at least 0, but was {written(seed)}.")
        values = {option.name: option.value_in(profile) for option in self.options}
        known = {option.name: option for option in self.options}
        for name, value in (given or {}).items():
            if name not in known:
                has = ", ".join(known) or "none"
                raise InvalidInputError(
                    f"settings must name options of {self.name} ({has}), but there was "
                    f"{name!r}{nearest(name, list(known))}"
                )
            values[name] = known[name].read(value)
        return Settings(profile, int(seed), values)


def recipe(name: str, title: str, *options: Option) -> Callable[[Callable[[Settings], Outcome]], Recipe]:
    """Make a :class:`Recipe` of the function that runs it."""
    return lambda run: Recipe(name, title, options, run)


def tabulated(names: str | Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Rows as columns, for a table of an :class:`Outcome`; names may be words of one text.

    >>> tabulated("N cells", [(2, 4), (3, 9)])
    {'N': [2, 3], 'cells': [4, 9]}
    """
    columns: dict[str, list[Any]] = {
        name: [] for name in (names.split() if isinstance(names, str) else names)
    }
    for row in rows:
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    return columns


@dataclass(frozen=True, eq=False, repr=False)
class Reproduction(Result):
    """What was reproduced, and where it was written.

    Attributes
    ----------
    name, title : str
        The recipe.
    profile : str
    seed : int
    settings : dict
        Every option with the value that was used.
    folder : str
        Where the files are.
    files : tuple of str
        Their names: pictures (svg, png), tables (csv), ``numbers.json``, ``comparison.md``.
    comparisons : tuple of Comparison
        Paper, computed, verdict.
    tables : dict
        The numbers, by table and column.
    notes : tuple of str

    Examples
    --------
    >>> import tempfile
    >>> import hardmax as hm
    >>> done = hm.reproduce("tropical.fig4", tempfile.mkdtemp())
    >>> done.comparisons[0].paper, done.comparisons[0].computed
    ('216', '92')
    """

    kind: ClassVar[str] = "Reproduction"
    _nested: ClassVar[dict[str, type]] = {"comparisons": Comparison}

    name: str
    title: str
    profile: str
    seed: int
    settings: Mapping[str, Any]
    folder: str
    files: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    tables: Mapping[str, Mapping[str, Any]]
    notes: tuple[str, ...]

    def _summary(self) -> str:
        return f"{self.name}, {len(self.comparisons)} comparisons, {len(self.files)} files in {self.folder}"

    def _table(self) -> dict[str, list[str]]:
        columns = ("quantity", "paper", "computed", "verdict", "claim")
        return {name: [getattr(row, name) for row in self.comparisons] for name in columns}


def recipes() -> Mapping[str, Recipe]:
    """Every recipe by its name, in the order of the papers.

    Examples
    --------
    >>> "tropical.fig4" in recipes()
    True
    """
    found: dict[str, Recipe] = {}
    for recipe in collected(Recipe):
        if recipe.name in found:
            raise InvalidInputError(f"there must be one recipe of a name, but {recipe.name} has two.")
        found[recipe.name] = recipe
    return {name: found[name] for name in sorted(found, key=_place)}


def _place(name: str) -> tuple[int, str, int, str]:
    """Sorts papers by their numbers, and figure 2 before figure 10."""
    paper, _, item = name.partition(".")
    letters = item.rstrip("0123456789")
    return papers()[paper].number, letters, int(item[len(letters) :] or 0), item


def find_recipe(name: str) -> Recipe:
    """The recipe of a name.

    Raises
    ------
    InvalidInputError
        When there is none; the message suggests the nearest name.

    Examples
    --------
    >>> find_recipe("fig4")
    Traceback (most recent call last):
    hardmax.errors.InvalidInputError: name must be a recipe, but was 'fig4'; did you mean tropical.fig4?
    """
    known = recipes()
    if name not in known:
        hint = nearest(name, list(known), otherwise="; hardmax reproduce --list shows all.")
        raise InvalidInputError(f"name must be a recipe, but was {name!r}{hint}")
    return known[name]


def reproduce(
    name: str,
    out: str | os.PathLike[str],
    profile: Profile = "quick",
    *,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
    progress: bool | Callable[[str, float], object] | None = None,
) -> Reproduction:
    """Redo a figure, table or example of a paper and compare it with what the paper prints.

    Writes the folder ``out/<name>``: every picture as SVG and PNG, every table as CSV, ``numbers.json``
    (tables, comparisons, settings, seed, versions) and ``comparison.md``. The folder appears whole or not at
    all; an earlier one of the same recipe is replaced.

    Parameters
    ----------
    name : str
        ``"tropical.fig6"``, for instance; ``hardmax reproduce --list`` shows all.
    out : path-like
        The folder in which the folder of the recipe is made.
    profile : {"quick", "medium", "paper"}
        How much is computed: seconds, minutes, or what the paper did.
    seed : int
        Moves every random draw.
    settings : mapping, optional
        Options of the recipe in place of their defaults; texts are read as on the command line.
    time_limit : float, optional
        Seconds after which it is given up. A part of a figure proves nothing: no folder is left.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with what is being computed, in words,
        and the seconds since it began.

    Returns
    -------
    Reproduction

    Raises
    ------
    InvalidInputError
        When there is no such recipe or option, or a value does not fit.
    FileExistsError
        When the folder is there and holds files that no recipe wrote.
    IncompleteError
        When the time is over.

    Examples
    --------
    >>> import tempfile
    >>> done = reproduce("tropical.fig4", tempfile.mkdtemp(), settings={"n_tokens": 4})
    >>> "comparison.md" in done.files
    True
    """
    Clock(time_limit)  # refuses what is no limit
    recipe = find_recipe(name)
    chosen = recipe.settings(profile, seed, settings)
    import_module("hardmax.plotting")  # says which extra is missing before time is spent
    with watched(progress, Clock(time_limit, f"run the recipe {recipe.name}")) as say:
        say("computes")
        outcome = recipe.run(chosen)
    return write_reproduction(recipe, chosen, outcome, Path(out))


NUMBERS = "numbers.json"
COMPARISON = "comparison.md"
SCHEMA = 1


def write_reproduction(recipe: Recipe, settings: Settings, outcome: Outcome, out: Path) -> Reproduction:
    """Write ``out/<name>`` and say what is in it."""
    tables = {name: columns_of(table) for name, table in outcome.tables.items()}
    contents: dict[str, bytes] = {}
    for name, figure in outcome.figures.items():
        for ending in ("svg", "png"):
            contents[f"{name}.{ending}"] = _picture(figure, ending)
    for name, table in tables.items():
        contents[f"{name}.csv"] = _csv(table).encode()
    contents[COMPARISON] = _page(recipe, settings, outcome).encode()
    files = (*contents, NUMBERS)
    numbers = {
        "format": "hardmax reproduction",
        "schema": SCHEMA,
        "recipe": recipe.name,
        "title": recipe.title,
        "profile": settings.profile,
        "seed": settings.seed,
        "settings": dict(settings),
        "comparisons": [vars(comparison) for comparison in outcome.comparisons],
        "notes": outcome.notes,
        "tables": tables,
        "files": files,
        "versions": {name: version for name, version in installed_versions().items() if version is not None},
    }
    contents[NUMBERS] = (json.dumps(strict(numbers), indent=1, allow_nan=False) + "\n").encode()
    with _folder_whole(out / recipe.name) as folder:
        for name, content in contents.items():
            with open(folder / name, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
    return Reproduction(
        name=recipe.name,
        title=recipe.title,
        profile=settings.profile,
        seed=settings.seed,
        settings=dict(settings),
        folder=str(out / recipe.name),
        files=files,
        comparisons=outcome.comparisons,
        tables=plain(tables),
        notes=outcome.notes,
    )


@contextmanager
def _folder_whole(target: Path) -> Iterator[Path]:
    """A folder that appears at ``target`` complete or not at all, in place of an earlier reproduction."""
    _check_replaceable(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    mark = secrets.token_hex(4)
    fresh = target.with_name(f".{target.name}.{mark}.partial")
    earlier = target.with_name(f".{target.name}.{mark}.earlier")
    fresh.mkdir()
    try:
        yield fresh
        _check_replaceable(target)  # somebody may have put a file there while the recipe ran
        if target.exists():
            os.replace(target, earlier)
        os.replace(fresh, target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        if earlier.exists() and not target.exists():
            os.replace(earlier, target)
        raise
    if earlier.exists():
        shutil.rmtree(earlier)


def _check_replaceable(target: Path) -> None:
    """Refuse to touch anything that a recipe did not write."""
    if not target.exists() and not target.is_symlink():
        return
    foreign = "it is not a folder"
    if target.is_dir() and not target.is_symlink():
        present = {path.name for path in target.iterdir()}
        own = _files_written(target / NUMBERS)
        others = sorted(present - own)
        if not others:
            return
        foreign = f"it holds {others[0]!r}, which no recipe wrote"
    raise FileExistsError(f"cannot write {target}: {foreign}; try another folder.")


def _files_written(numbers: Path) -> set[str]:
    try:
        header = parsed_json(plain_bytes(numbers), str(numbers))
        return set(header["files"]) if header["format"] == "hardmax reproduction" else set()
    except (OSError, ValueError, LookupError, TypeError):
        return set()


def _picture(figure: Figure, ending: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending)
    return buffer.getvalue()


def _csv(table: Mapping[str, Any]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(plain(column) for column in table.values()), strict=True))
    return text.getvalue()


def _page(recipe: Recipe, settings: Settings, outcome: Outcome) -> str:
    """The comparison as a page: what the paper prints, what was computed, and the pictures."""
    lines = [f"# {recipe.name}: {recipe.title}", ""]
    lines += _markdown_table(
        ("quantity", "paper", "computed", "verdict", "claim"),
        [(row.quantity, row.paper, row.computed, row.verdict, row.claim) for row in outcome.comparisons],
    )
    lines += _corrections([row.claim for row in outcome.comparisons if row.claim])
    for note in outcome.notes:
        lines += [note, ""]
    for name in outcome.figures:
        lines += [f"![{name}]({name}.png)", ""]
    lines += ["## Made with", "", f"    {command_line(recipe, settings)}", ""]
    if recipe.options:
        rows = [(o.name, _shown(settings[o.name]), o.help) for o in recipe.options]
        lines += _markdown_table(("option", "value", "meaning"), rows)
    return "\n".join(lines).rstrip() + "\n"


def _corrections(names: list[str]) -> list[str]:
    """What is true instead, for every claim that has a correction."""
    claims = [claim for claim in all_claims() if claim.name in names and claim.correction]
    lines = [f"- {claim.name} ({claim.place}): {claim.correction}" for claim in claims]
    return ["What is true instead:", "", *lines, ""] if lines else []


def command_line(recipe: Recipe, settings: Settings) -> str:
    """The command that makes the same folder again; options at their defaults are left out."""
    words = ["hardmax", "reproduce", recipe.name, "--profile", settings.profile, "--seed", str(settings.seed)]
    for option in recipe.options:
        if settings[option.name] != option.value_in(settings.profile):
            words += ["--set", f"{option.name}={_shown(settings[option.name])}"]
    return " ".join(shlex.quote(word) for word in words)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(_shown(entry) for entry in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _markdown_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in rows]
    return [f"| {line} |" for line in lines] + [""]
