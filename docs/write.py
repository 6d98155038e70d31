"""The pages that are written by a program: the command line, the claims, the notation, the list of modules.

    python docs/write.py                   write cli, notation and architecture anew
    python docs/write.py claims            write docs/claims.md anew: checks every claim, which takes minutes
    python docs/write.py --check           say which of them are stale; computes no claim
    python docs/write.py --words           count the words of the pages that people write

Everything else is built from the sources by Sphinx (docs/conf.py): ``make docs``.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
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
    from hardmax.papers.ledger import PAPERS, Verdict

    def verdict(entry) -> str:
        return str(getattr(entry, "verdict", entry.expected))

    def link(entry) -> str:
        return f"[`{entry.name}`](#{anchor_of(entry.name)})"

    meanings = {
        Verdict.HOLDS: "finite and checked exactly, or a proof is linked, "
        "written out or (where the hypotheses say so) cited",
        Verdict.HOLDS_NUMERICALLY: "tested on the stated instances, no more",
        Verdict.FAILS: "there is an exact counterexample, with a certificate",
        Verdict.VACUOUS: "what it assumes never happens, or what it says is true of everything",
        Verdict.INCONSISTENT: "the paper says it in several ways that disagree",
        Verdict.MEASUREMENT: "a number that depends on choices; measured, with the choices stated",
        Verdict.UNDECIDED: "the computation did not settle it",
        Verdict.OUT_OF_REACH: "it cannot be checked here, for the stated reason",
    }
    entries = list(entries)
    lines = [
        "# Claims\n",
        "This page is written by `python docs/write.py claims`; do not edit it by hand.\n",
        "Every statement of the two papers that can be checked, with the verdict of the check. Run one with "
        "`hardmax claims check --select NAME`, all of a paper with `hardmax claims check --paper tropical`, "
        "or [`hm.check_claims`](reference.md#check_claims) from Python. With `--certificates DIR` the data "
        "behind the verdicts are written as JSON, beside the file `replay.py` that checks them again with "
        "nothing but Python's standard library: `python DIR/replay.py DIR`. Where a verdict concerns all "
        "sizes, a [proof](proofs.md) is linked.\n",
        "| verdict | meaning | claims |",
        "|---|---|---|",
    ]
    for each, meaning in meanings.items():
        lines.append(f"| {each} | {meaning} | {sum(verdict(entry) == each for entry in entries)} |")
    for paper, title in PAPERS.items():
        of_paper = [entry for entry in entries if entry.paper == paper]
        if not of_paper:
            continue
        lines += [f"\n## {paper}\n", f"*{title}*\n", "| claim | place | verdict |", "|---|---|---|"]
        lines += [f"| {link(entry)} | {entry.place} | {verdict(entry)} |" for entry in of_paper]
        for entry in of_paper:
            lines += [f"\n### {entry.name}\n", f"{marked(entry.place)}: {marked(entry.statement)}\n"]
            lines.append(f"- verdict: **{verdict(entry)}**")
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


# Each page as it should be, given the page as it is.
WRITERS: dict[str, Callable[[str], str]] = {
    "cli": lambda _: cli_page(),
    "notation": lambda _: notation_page(),
    "architecture": architecture_page,
}


def stale() -> list[str]:
    """The pages that no longer say what the sources say."""
    pages = {name: (PAGES / f"{name}.md").read_text() for name in [*WRITERS, "claims"]}
    found = [name for name, write in WRITERS.items() if pages[name] != write(pages[name])]
    return found if claims_are_fresh(pages["claims"]) else [*found, "claims"]


NO_PROSE = re.compile(
    r"^```.*?^```|\$\$.*?\$\$|\$[^$]*?\$|`[^`]*`|\]\([^)]*\)", flags=re.DOTALL | re.MULTILINE
)  # blocks of code, formulas, code in a line, targets of links


def words() -> dict[str, tuple[int, int]]:
    """Of every page that people write: everything between blanks, and words outside of code and formulas."""
    written = {PAGES / f"{name}.md" for name in ("claims", "cli", "errors", "notation")}
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
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"{', '.join(WRITERS)} or claims")
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
    if unknown := set(options.pages) - {*WRITERS, "claims"}:
        parser.error(f"no such page: {', '.join(sorted(unknown))}")
    if options.check:
        found = stale()
        for name in found:
            print(f"docs/{name}.md is stale; run: python docs/write.py {name}", file=sys.stderr)
        return 1 if found else 0
    for name in options.pages or WRITERS:
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
