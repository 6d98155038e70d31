"""The pages that are written by a program: the command line, the claims, the notation, the list of modules.

    python docs/write.py                   write cli, notation, architecture, reliability and
                                           results/experiments anew
    python docs/write.py replay            write the rules of the folders and the digests of the statements
                                           into replay.py, and its own SHA-256 into docs/replay.sha256
    python docs/write.py claims            write docs/claims.md anew: checks every claim, which takes half a
                                           minute; after replay
    python docs/write.py --check           say which of them are stale; computes no claim
    python docs/write.py --words           count the words of the pages that people write

Everything else is built from the sources by Sphinx (docs/conf.py): ``make docs``.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs"


def cli_page() -> str:
    """``docs/cli.md``: the help text of every command, as the terminal shows it."""
    import click

    from hardmax.cli import main

    def help_of(command: click.Command, name: str) -> str:
        settings = {"terminal_width": 96, "max_content_width": 96, "help_option_names": ["-h", "--help"]}
        context = click.Context(command, info_name=name, **settings)
        return f"```text\n{command.get_help(context).strip()}\n```\n"

    sections = [
        "# The command line\n",
        "This page is written by `python docs/write.py cli`; do not edit it by hand.\n",
        "Exit codes: 0 for success, 2 for wrong input (with one sentence that says what is wrong), 130 after "
        "an interrupt, 1 for anything else.\n",
        help_of(main, "hardmax"),
    ]
    for name, command in sorted(main.commands.items()):
        sections += [f"## hardmax {name}\n", help_of(command, f"hardmax {name}")]
        for part, subcommand in getattr(command, "commands", {}).items():
            title = f"hardmax {name} {part}"
            sections += [f"### {title}\n", help_of(subcommand, title)]
    return "\n".join(sections)


MODULES = re.compile(r"(?<=```text\nsrc/hardmax/\n).*?(?=```)", flags=re.DOTALL)


def module_tree() -> str:
    """Every module with the first sentence of its docstring: the list in ``docs/architecture.md``."""
    root, lines = ROOT / "src" / "hardmax", []

    def sentence(path: Path) -> str:
        text = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0]
        text = re.sub(r":\w+:`~?([^`]*)`", r"\1", " ".join(text.split()).replace("``", ""))
        return re.split(r"(?<=[.;])(?<!et al\.) (?=[A-Z:])", text)[0].rstrip(".:;")

    def visit(folder: Path, depth: int) -> None:
        for path in sorted(folder.glob("*.py")):
            if path.name != "__init__.py":
                lines.append(f"{'  ' * depth + path.name:<34} {sentence(path)}")
        for inner in sorted(path.parent for path in folder.glob("*/__init__.py")):
            lines.append(f"{'  ' * depth + inner.name + '/':<34} {sentence(inner / '__init__.py')}")
            visit(inner, depth + 1)

    visit(root, 1)
    return "\n".join(lines) + "\n"


def architecture_page(text: str) -> str:
    """``docs/architecture.md`` with the list of modules as it is."""
    return MODULES.sub(lambda _: module_tree(), text)


COMPUTED = "- computed: "


def claims_page(entries) -> str:
    """``docs/claims.md``: every claim with its verdict.

    ``entries`` are those of a ledger, or bare claims; these have not been computed, so their pinned verdict
    is shown and the line with the numbers is missing.
    """
    from hardmax.papers.ledger import Verdict
    from hardmax.papers.paper import contents, papers

    def verdict(entry) -> str:
        return str(getattr(entry, "verdict", entry.expected))

    def link(entry) -> str:
        return f"[`{entry.name}`](#{anchor_of(entry.name)})"

    meanings = {
        Verdict.PROVED: "finite and checked exactly, or a proof is linked, written out or (where the "
        "hypotheses say so) cited",
        Verdict.CHECKED: "checked exactly on the stated instances, no more",
        Verdict.NUMERICAL: "tested in floating point on the stated instances, no more",
        Verdict.UNSTATED: "true as the authors evidently mean it, under a hypothesis that the entry names; "
        "false without it",
        Verdict.FAILS: "there is an exact counterexample that meets the stated hypotheses, with a "
        "certificate",
        Verdict.MISPRINT: "false as printed, by a slip on which nothing is built; the entry says what is "
        "meant",
        Verdict.VACUOUS: "what it assumes never happens, or what it says is true of everything",
        Verdict.INCONSISTENT: "the paper says it in several ways that disagree",
        Verdict.MEASUREMENT: "a number that depends on choices; measured, with the choices stated",
        Verdict.OPEN: "neither proved nor refuted here",
    }
    entries = list(entries)
    lines = [
        "# Claims\n",
        "This page is written by `python docs/write.py claims`; do not edit it by hand.\n",
        "Every statement of the papers that can be checked, with the verdict of the check. Run one with "
        "`hardmax claims check --select NAME`, all of a paper with `hardmax claims check --paper tropical`, "
        "or [`hm.check_claims`](reference.md#check_claims) from Python. With `--certificates DIR` the data "
        "behind the verdicts are written as JSON, beside the file `replay.py` that checks them again with "
        "nothing but Python's standard library: `python -I DIR/replay.py DIR`. Where a verdict concerns all "
        "sizes, a [proof](proofs.md) is linked. A referee's summary is on the page "
        "[Report on the two papers](referee-report.md); how a paper enters the ledger is on the page "
        "[Adding a paper](adding-a-paper.md); twenty entries were "
        "[derived again](results/rederived.md) without the library.\n",
        "A certificate names its claim and its verdict, and `replay.py` has a rule for each claim: what the "
        "data must be, what is computed, and what the verdict needs of it. The file is published by its "
        f"SHA-256, `{PUBLISHED.read_text().split()[0]}` (`docs/replay.sha256`), so that nobody needs to run "
        "the copy that came with the data. More than 200 forged certificates are refused by a test; of 5,000 "
        "random mutations (`tests/scripts/certificate_mutations.py`) none is accepted unless its data still "
        "prove the claim. A rule accepts every instance that shows the same, unless its own description "
        "there says that the instance, or its size, is fixed.\n",
        "Counted by `hardmax claims count`, the statements of each paper apart from our own (corrections, "
        "sharpenings, additions):\n",
        f"| verdict | meaning | {' | '.join(papers())} | our own |",
        f"|---|---|{'---|' * len(papers())}---|",
    ]
    origins = Counter(("own" if entry.own else entry.paper, verdict(entry)) for entry in entries)
    for each, meaning in meanings.items():
        numbers = [origins[origin, str(each)] for origin in (*papers(), "own")]
        lines.append(f"| {each} | {meaning} | {' | '.join(map(str, numbers))} |")
    totals = [sum(n for (of, _), n in origins.items() if of == origin) for origin in (*papers(), "own")]
    lines.append(f"| all | | {' | '.join(map(str, totals))} |")
    lines += [
        "\n## Contents\n",
        "Every numbered place of the papers, with its claims or the reason why there are none (`PAPER` in "
        "the folder of each; a test fails when a place has neither).\n",
        "| paper | place | claims | |",
        "|---|---|---|---|",
    ]
    for place in contents():
        links = ", ".join(f"[`{name}`](#{anchor_of(name)})" for name in place.claims)
        lines.append(f"| {place.paper} | {place.name} | {links} | {place.reason} |")
    for paper, described in papers().items():
        of_paper = [entry for entry in entries if entry.paper == paper]
        if not of_paper:
            continue
        cited = f"{described.authors}, *{described.title}*, {described.year} ({described.source})"
        lines += [f"\n## {paper}\n", f"{cited}\n", "| claim | place | verdict |", "|---|---|---|"]
        for entry in of_paper:
            lines.append(
                f"| {link(entry)} | {entry.place} | {verdict(entry)}{' (own)' if entry.own else ''} |"
            )
        for entry in of_paper:
            lines += [f"\n### {entry.name}\n", f"{marked(entry.place)}: {marked(entry.statement)}\n"]
            lines.append(f"- verdict: **{verdict(entry)}**{', our own statement' if entry.own else ''}")
            lines += [f"- unstated: {marked(entry.unstated)}"] if entry.unstated else []
            lines += [f"- assumed: {marked(entry.hypotheses)}"] if entry.hypotheses else []
            lines.append(f"- checked: {marked(entry.computation)}")
            if hasattr(entry, "computed"):
                lines.append(f"{COMPUTED}{marked(entry.computed)}")
            lines += [f"- instead: {marked(entry.correction)}"] if entry.correction else []
            lines += [f"- [proof]({entry.proof})"] if entry.proof else []
    return "\n".join(lines) + "\n"


def marked(text: str) -> str:
    """Plain text in Markdown."""
    return re.sub(r"([\\*$<>`\[\]])", r"\\\1", text)


def claims_are_fresh(page: str) -> bool:
    """Whether docs/claims.md shows the claims as they are; nothing is computed again."""
    from hardmax.papers.ledger import all_claims

    kept = [line for line in page.splitlines(keepends=True) if not line.startswith(COMPUTED)]
    return "".join(kept) == claims_page(all_claims())


def anchor_of(heading: str) -> str:
    """The anchor of a heading, in lower case, with dashes for blanks and no punctuation."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def notation_page() -> str:
    """``docs/notation.md``: the symbols of the tropical paper."""
    from hardmax.papers.tropical.sec3_algebra import notation_page

    return notation_page()


def experiments_page() -> str:
    """``docs/results/experiments.md``: what the kept trainings say, and what the paper's sizes would cost."""
    import hardmax as hm
    from hardmax.papers.infoflow import experiments
    from hardmax.papers.ledger import Verdict

    kept = experiments.kept()
    found = kept["recipes"]
    ledger = hm.check_claims(list(experiments.SENTENCES))
    wall, used = (sum(each[what] for each in found.values()) for what in ("seconds", "cpu_seconds"))
    work, speeds = kept["work"], experiments.speeds().values()
    versions = ", ".join(f"{name} {version}" for name, version in kept["versions"].items())
    lines = [
        "# Experiments: the medium profile, run once\n",
        "This page is written by `python docs/write.py results/experiments` from the kept results, "
        f"`src/hardmax/papers/infoflow/{experiments.FILE}`; do not edit it by hand.\n",
        "**Which sentences of the infoflow paper about trained transformers can be reproduced?** All "
        f"{len(found)} [recipes that train](../experiments.md) were run with\n",
        f"```sh\n{kept['command']}\n```\n",
        f"on the sources of commit `{kept['commit'][:12]}` ({versions}): {work['medium']['trainings']} "
        f"trainings, {work['medium']['samples'] / 1e6:,.0f} million samples, {used:,.0f} s of processor time "
        f"in all threads, {wall / 60:.1f} minutes on two cores that other work kept busy. The seed is 0 "
        "everywhere; a configuration has the seeds 0, 1, ... of its recipe.\n",
        "## The sentences of the paper\n",
        "One line per sentence; predicates and assumptions are in the [ledger](../claims.md). *Open* with "
        "*not reproduced at this size* is no refutation: the models are smaller than the paper's or were "
        "trained for shorter. Words such as *substantially* and *close* were given a number with the results "
        "at hand; the column *found* shows by how much it is met or missed. The paper profile is needed "
        "where the verdict is open, and where it holds on smaller sizes than the paper's only.\n",
        f"Verdicts: {', '.join(f'{n} {verdict}' for verdict, n in ledger.counts.items())}.\n",
        "| sentence | place | verdict | found | needs the paper profile | core hours |",
        "|---|---|---|---|---|---|",
    ]
    for entry in ledger:
        sentence = experiments.SENTENCES[entry.name]
        smaller = experiments.smaller_sizes(entry.name)
        needed = entry.verdict == Verdict.OPEN or bool(smaller)
        why = "; ".join(smaller) or "longer training"
        cost = sum(
            experiments.core_hours(found[f"infoflow.{name}"]["work"]["paper"]) for name in sentence.recipes
        )
        lines.append(
            f"| {marked(entry.statement)} ([`{entry.name}`](../claims.md#{anchor_of(entry.name)})) "
            f"| {entry.place} | {entry.verdict} | {marked(entry.computed)} "
            + (f"| yes: {why} | {cost:,.1f} ({', '.join(sentence.recipes)}) |" if needed else "| no | |")
        )
    lines += [
        "\n## What it cost, and what the paper profile would cost\n",
        "Processor seconds are those of the medium run and count a training in the first recipe that needs "
        "it. Core hours are operations of the paper profile at the speed of this run, "
        f"{work['medium']['operations'] / used:.1e} per second and core (recipe by recipe "
        f"{min(speeds):.1e} to {max(speeds):.1e}, so the hours are good to a factor of about "
        "two). All recipes together share trainings: "
        f"{work['paper']['trainings']:,} in the paper profile, {work['paper']['samples'] / 1e6:,.0f} million "
        f"samples, **{experiments.core_hours(work['paper']):,.0f} core hours**.\n",
        "| recipe | trainings | CPU s | wall s | paper: trainings | million samples | core hours | longest |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, entry in found.items():
        here, paper = entry["work"]["medium"], entry["work"]["paper"]
        lines.append(
            f"| `{name}` | {here['trainings']} | {entry['cpu_seconds']:,.1f} | {entry['seconds']:,.1f} "
            f"| {paper['trainings']} | {paper['samples'] / 1e6:,.0f} | {experiments.core_hours(paper):,.2f} "
            f"| {experiments.core_hours(paper, 'longest'):.2f} |"
        )
    lines.append("\n## Every recipe\n")
    for name, entry in found.items():
        lines += [f"### {name}\n", f"{entry['title']}. `hardmax reproduce {name} --profile medium`\n"]
        if "same_as" in entry:
            lines.append(f"The numbers are those of [{entry['same_as']}](#{anchor_of(entry['same_as'])}).\n")
            continue
        settings = "; ".join(f"{option} {listed(value)}" for option, value in entry["settings"].items())
        if "note" in entry:
            lines.append(entry["note"] + "\n")
        lines += [f"Settings: {marked(settings)}.\n", "| quantity | the paper | here |", "|---|---|---|"]
        lines += [
            f"| {' | '.join(marked(cell) for cell in row)} |"
            for row in entry["comparisons"]
            if row[2] != "not run"
        ]
        lines.append("")
    return "\n".join(lines)


def listed(value) -> str:
    """A number, or several, as pages show them."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


REPLAY = ROOT / "src" / "hardmax" / "papers" / "replay.py"
PUBLISHED = PAGES / "replay.sha256"
STATEMENTS = re.compile(
    r"(?<=\nSTATEMENTS: dict\[str, str\] = \{).*?(?=\}\n# end of the statements\n)", re.DOTALL
)


FOLDER_RULES = re.compile(
    r"(?<=\n# Rules that stand in the folders of papers; docs/write.py copies them\n).*?"
    r"(?=# end of the rules of folders\n)",
    re.DOTALL,
)


def rules_of(paper: str) -> str:
    """The rules in the folder of a paper, ``rules.py``, as ``replay.py`` holds them: without its imports,
    which must be names that ``replay.py`` has."""
    from hardmax.papers import replay

    path = REPLAY.parent / paper / "rules.py"
    if not path.exists():
        return ""
    text = path.read_text()
    head = [node for node in ast.parse(text).body if isinstance(node, (ast.Expr, ast.Import, ast.ImportFrom))]
    needed = [alias.asname or alias.name for node in head[1:] for alias in node.names]
    if missing := [name for name in needed if not hasattr(replay, name) and name != "annotations"]:
        raise SystemExit(f"{path} imports {', '.join(missing)}, which replay.py does not have")
    return f"# {paper}\n" + "\n".join(text.splitlines()[head[-1].end_lineno :]) + "\n\n\n"


def replay_file(text: str) -> str:
    """``replay.py`` with the rules of the folders, and with the digest of the statement of every claim that
    it has a rule for."""
    from hardmax.papers.ledger import all_claims
    from hardmax.papers.paper import papers

    text = FOLDER_RULES.sub(lambda _: "".join(rules_of(paper) for paper in papers()), text)
    ruled = set(re.findall(r'^@rule\("([^"]+)"', text, flags=re.MULTILINE))
    digests = {claim.name: claim.sha256 for claim in all_claims() if claim.name in ruled}
    lines = "".join(f'    "{name}": "{digest}",\n' for name, digest in digests.items())
    return STATEMENTS.sub(lambda _: f"\n{lines}", text)


def published() -> str:
    """``docs/replay.sha256``, as ``sha256sum -c`` reads it."""
    return f"{hashlib.sha256(REPLAY.read_bytes()).hexdigest()}  replay.py\n"


def write_replay() -> None:
    """Write rules and digests into ``replay.py``, and its SHA-256 beside the pages; claims that are checked
    after that are judged by the new file."""
    from hardmax.papers import replay

    REPLAY.write_text(replay_file(REPLAY.read_text()))
    PUBLISHED.write_text(published())
    importlib.reload(replay)


TABLES = re.compile(
    r"(?<=<!-- tests/scripts/)(\w+)\.py --table -->\n\n.*?(?=<!-- end of the table -->)", re.DOTALL
)


def reliability_page(text: str) -> str:
    """``docs/reliability.md`` with the tables that the kept records of long runs give."""
    sys.path.insert(0, str(ROOT / "tests" / "scripts"))
    import records

    def made(found: re.Match[str]) -> str:
        script = importlib.import_module(found[1])
        record = records.read(script.RECORD)
        rows = script.table(record) if record else "Nothing is recorded yet."
        return f"{found[1]}.py --table -->\n\n{rows}\n\n"

    return TABLES.sub(made, text)


# Each page as it should be, given the page as it is.
WRITERS: dict[str, Callable[[str], str]] = {
    "cli": lambda _: cli_page(),
    "notation": lambda _: notation_page(),
    "architecture": architecture_page,
    "reliability": reliability_page,
    "results/experiments": lambda _: experiments_page(),
}


def stale() -> list[str]:
    """The pages that no longer say what the sources say."""
    pages = {name: (PAGES / f"{name}.md").read_text() for name in [*WRITERS, "claims"]}
    found = [name for name, write in WRITERS.items() if pages[name] != write(pages[name])]
    if REPLAY.read_text() != replay_file(REPLAY.read_text()) or PUBLISHED.read_text() != published():
        found.append("replay")
    return found if claims_are_fresh(pages["claims"]) else [*found, "claims"]


NO_PROSE = re.compile(
    r"^```.*?^```|\$\$.*?\$\$|\$[^$]*?\$|`[^`]*`|\]\([^)]*\)", flags=re.DOTALL | re.MULTILINE
)  # blocks of code, formulas, code in a line, targets of links


def words() -> dict[str, tuple[int, int]]:
    """Of every page that people write: everything between blanks, and words outside of code and formulas."""
    written = {
        PAGES / f"{name}.md" for name in ("claims", "cli", "errors", "notation", "results/experiments")
    }
    counts = {}
    for path in sorted(PAGES.rglob("*.md")):
        if path not in written and not {"auto_gallery", "reference"} & set(path.parts):
            text = MODULES.sub("", path.read_text())
            prose = re.findall(r"[^\W\d_][\w'-]*", NO_PROSE.sub("", text))
            counts[str(path.relative_to(PAGES))] = len(text.split()), len(prose)
    return counts


def main() -> int:
    """Run from the command line; the exit code says whether everything is in order."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"{', '.join(WRITERS)}, replay or claims")
    parser.add_argument("--check", action="store_true", help="write nothing, and say what is stale")
    parser.add_argument("--words", action="store_true", help="write nothing, and count words")
    options = parser.parse_args()
    if options.words:
        counts = words()
        for name, (n, prose) in sorted(counts.items(), key=lambda item: -item[1][0]):
            print(f"{n:>7,} {prose:>7,}  {name}")
        totals = [sum(column) for column in zip(*counts.values(), strict=True)]
        print(f"{totals[0]:>7,} {totals[1]:>7,}  {len(counts)} pages; second: outside of code and formulas")
        return 0
    if unknown := set(options.pages) - {*WRITERS, "replay", "claims"}:
        parser.error(f"no such page: {', '.join(sorted(unknown))}")
    if options.check:
        found = stale()
        for name in found:
            stale_file = "docs/replay.sha256" if name == "replay" else f"docs/{name}.md"
            print(f"{stale_file} is stale; run: python docs/write.py {name}", file=sys.stderr)
        return 1 if found else 0
    for name in sorted(options.pages or WRITERS, key=lambda name: name != "replay"):  # it judges the claims
        if name == "replay":
            write_replay()
            print("wrote src/hardmax/papers/replay.py and docs/replay.sha256")
            continue
        page = PAGES / f"{name}.md"
        if name == "claims":
            import hardmax as hm

            text = claims_page(hm.check_claims())
        else:
            text = WRITERS[name](page.read_text())
        page.write_text(text)
        print(f"wrote docs/{name}.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
