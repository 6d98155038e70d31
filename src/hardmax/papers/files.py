"""The folder of a reproduction: pictures, tables, numbers and the comparison, written whole or not at all.

Everything is written into a hidden folder beside the target, which is renamed when it is complete.
``numbers.json`` names the files it came with; only a folder that holds nothing else is ever replaced.
"""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax.papers.ledger import all_claims
from hardmax.papers.recipes import Outcome, Recipe, Reproduction, Settings
from hardmax.results import columns_of, plain, strict
from hardmax.versions import installed_versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_reproduction"]

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
        header = json.loads(numbers.read_text())
        return set(header["files"]) if header["format"] == "hardmax reproduction" else set()
    except (OSError, ValueError, KeyError, TypeError):
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
