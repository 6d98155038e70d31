"""``hardmax claims``: what is true in the papers, statement by statement."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hardmax.cli.numbers import TIME_LIMIT
from hardmax.cli.outputs import counted, print_json
from hardmax.errors import FileFormatError, InvalidInputError
from hardmax.papers.paper import papers
from hardmax.untrusted import check_plain

if TYPE_CHECKING:
    from hardmax.papers.ledger import Claim, Entry


class PaperName(click.ParamType):
    """The name of a paper of the ledger, whichever there are."""

    name = "paper"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The names that there are."""
        return f"[{'|'.join(papers())}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, or why it is none."""
        if value not in (known := papers()):
            self.fail(f"{value!r} is not one of {', '.join(map(repr, known))}.", param, ctx)
        return value


_PAPER = click.option("--paper", type=PaperName(), help="Only the claims of this paper.")
_SELECT = click.option(
    "--select",
    multiple=True,
    metavar="NAME",
    help="A claim, the beginning of its name, or a pattern such as 'tropical.v7_*'; may be repeated.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


@click.group()
def claims() -> None:
    """What is true in the papers, statement by statement.

    Every statement is a check: `hardmax claims list` names them, `hardmax claims check` computes their
    verdicts, and `hardmax claims replay` re-checks certificates with nothing but the standard library of
    Python.

    \b
    Examples:
      hardmax claims list --paper tropical
      hardmax claims check --select tropical.fig4_216
      hardmax claims count --paper tropical
      hardmax claims check --paper tropical --certificates certificates
      hardmax claims replay certificates
    """


@claims.command("list")
@_PAPER
@_SELECT
@_JSON
def list_claims(paper: str | None, select: Sequence[str], as_json: bool) -> None:
    """Name the claims, with their places in the papers; nothing is computed."""
    chosen = _chosen(paper, select)
    if as_json:
        print_json([_described(claim) for claim in chosen])
        return
    for claim in chosen:
        click.echo(f"{claim.name}  ({claim.place})")
        click.echo(f"    {claim.statement}")
    click.echo(counted(len(chosen), "claim"))


@claims.command("check")
@_PAPER
@_SELECT
@click.option(
    "--effort",
    type=click.Choice(["quick", "full"]),
    default="quick",
    show_default=True,
    help="Quick takes about a minute for a paper; full checks larger instances.",
)
@click.option(
    "--certificates",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write a certificate per claim, and replay.py, into this folder.",
)
@TIME_LIMIT
@_JSON
def check(
    paper: str | None,
    select: Sequence[str],
    effort: str,
    certificates: Path | None,
    time_limit: float | None,
    as_json: bool,
) -> int:
    """Compute the verdicts.

    Exit code 0: every verdict is the one that is pinned; 1: at least one is not.
    """
    from hardmax.papers.ledger import check_claims, write_certificates

    chosen = [claim.name for claim in _chosen(paper, select)]
    shown = None if as_json else _print_entry
    ledger = check_claims(chosen, effort, time_limit=time_limit, progress=shown)
    if certificates is not None:
        written = write_certificates(ledger, certificates)
        files = counted(len(written), "certificate")
        click.echo(f"wrote {files} and replay.py into {certificates}", err=True)
    if as_json:
        said = ledger.to_dict()
        for entry in said["entries"]:
            del entry["seconds"]  # two runs say the same
        print_json({**said, "counts": ledger.counts})
    else:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in ledger.counts.items())
        click.echo(f"{counted(len(ledger), 'claim')}: {counts}")
    return 1 if ledger.surprises else 0


@claims.command("count")
@_PAPER
@_SELECT
@TIME_LIMIT
@_JSON
def count(paper: str | None, select: Sequence[str], time_limit: float | None, as_json: bool) -> None:
    """Compute the verdicts and count them, the statements of each paper apart from our own."""
    from hardmax.papers.ledger import Verdict, check_claims

    ledger = check_claims([claim.name for claim in _chosen(paper, select)], time_limit=time_limit)
    if as_json:
        print_json(ledger.by_origin)
        return
    origins, width = ledger.by_origin, max(len(verdict) for verdict in Verdict)
    click.echo("  ".join([f"{'verdict':<{width}}", *origins]))

    def line(name: str, numbers: Iterable[int]) -> str:
        cells = [f"{n:>{len(origin)}}" for origin, n in zip(origins, numbers, strict=True)]
        return "  ".join([f"{name:<{width}}", *cells])

    for verdict in ledger.counts:
        click.echo(line(verdict, [counts.get(verdict, 0) for counts in origins.values()]))
    click.echo(line("all", [sum(counts.values()) for counts in origins.values()]))


@claims.command("replay")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|DIR...")
@_JSON
def replay_certificates(paths: Sequence[Path], as_json: bool) -> int:
    """Check certificates again, without the code that made them.

    This runs the same file, replay.py, that `hardmax claims check --certificates DIR` puts beside them; with
    `python -I DIR/replay.py DIR` it runs without hardmax. Exit code 0: all were accepted; 1: at least one was
    not.
    """
    from hardmax.papers import replay

    files = list(replay.files_in([str(path) for path in paths]))
    if bare := [path for path in files if path.is_dir()]:
        raise InvalidInputError(
            f"there is no certificate in {', '.join(map(str, bare))}; "
            "try: hardmax claims check --certificates DIR."
        )
    results = []
    for path in files:
        if not path.exists():
            raise FileNotFoundError(f"cannot read {path}: there is no such file.")
        check_plain(path)
        try:
            record = replay.read(path)
        except (ValueError, RecursionError) as error:
            raise FileFormatError(
                f"{path} must be a certificate, but is no JSON file that is one: {replay.shown(str(error))}."
            ) from error
        why = replay.failure(record)
        accepted, line = replay.outcome(record, path)
        claim = record.get("claim") if isinstance(record, dict) else None
        results.append({"file": str(path), "claim": claim, "accepted": accepted, "reason": why})
        if not as_json:
            click.echo(f"{'accepted' if accepted else 'REJECTED'}  {line}")
    rejected = sum(not result["accepted"] for result in results)
    if as_json:
        print_json(results)
    else:
        click.echo(f"{counted(len(results), 'certificate')}, {rejected} rejected")
    return 1 if rejected else 0


def _chosen(paper: str | None, select: Sequence[str]) -> list[Claim]:
    from hardmax.papers.ledger import selected

    chosen = [claim for claim in selected(list(select) or None) if paper in (None, claim.paper)]
    if not chosen:
        raise InvalidInputError(f"no claim of the paper {paper} matches {', '.join(select) or 'anything'}.")
    return chosen


def _described(claim: Claim) -> dict[str, Any]:
    names = (
        "paper",
        "name",
        "place",
        "statement",
        "hypotheses",
        "computation",
        "correction",
        "proof",
        "unstated",
        "own",
    )
    return {name: getattr(claim, name) for name in names}


def _print_entry(done: int, total: int, entry: Entry) -> None:
    verdict = str(entry.verdict).upper() if entry.verdict == "fails" else str(entry.verdict)
    verdict += ", our own statement" if entry.own else ""
    click.echo(f"[{done}/{total}] {entry.name} ({entry.place}): {verdict}")
    click.echo(f"    {entry.statement}")
    click.echo(f"    computed: {entry.computed}")
    if entry.unstated:
        click.echo(f"    unstated: {entry.unstated}")
    if entry.correction:
        click.echo(f"    instead: {entry.correction}")
    if not entry.as_expected:
        click.echo(f"    UNEXPECTED: the pinned verdict is {entry.expected}")
    sys.stdout.flush()
