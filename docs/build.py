"""Build the pages of this folder into out/docs, check that their links lead somewhere, and keep docs/cli.md
and docs/claims.md fresh.

    python docs/build.py                build and check; fails when a link is broken or such a page is stale
    python docs/build.py --write-cli    write docs/cli.md anew from the help texts of the commands
    python docs/build.py --write-claims write docs/claims.md anew: checks every claim, which takes minutes
    python docs/build.py --write-notation    write docs/notation.md anew from the table of symbols
    python docs/build.py --write-modules     write the list of modules in docs/architecture.md anew

Pages are Markdown with formulas between dollar signs; they become plain HTML with MathML, so that they can be
read without a network.
"""

from __future__ import annotations

import argparse
import ast
import html
import inspect
import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs"
OUT = ROOT / "out" / "docs"

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --soft: #f3f3f0; --link: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e4; --paper: #181818; --soft: #262624; --link: #56b4e9; }
}
body { margin: 0 auto; max-width: 48rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
       font: 1rem/1.6 system-ui, sans-serif; }
a { color: var(--link); } nav { border-bottom: 1px solid; padding-bottom: .6rem; }
nav a { margin-right: 1rem; white-space: nowrap; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; line-height: 1.4; }
code { background: var(--soft); padding: .1rem .25rem; } pre code { padding: 0; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border: 1px solid #8888; padding: .3rem .6rem; text-align: left; vertical-align: top; }
img { max-width: 100%; } math[display=block] { margin: 1rem 0; }
"""


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
        "This page is written by `python docs/build.py --write-cli`; do not edit it by hand.\n",
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
        "This page is written by `python docs/build.py --write-claims`; do not edit it by hand.\n",
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


def reference_text() -> str:
    """Signature and docstring of every public name, for the end of the reference page."""
    parts = []
    for name, (home, thing) in public_names().items():
        signature = str(inspect.signature(thing)).replace("'", "") if callable(thing) else ""
        docstring = html.escape(inspect.getdoc(thing) or "")
        parts.append(
            f'<h2 id="{name}">{name}</h2>\n<pre>{home}.{name}{html.escape(signature)}\n\n{docstring}</pre>'
        )
    return "\n".join(parts)


def public_names() -> dict[str, tuple[str, object]]:
    """Every public name with where it is reached and what it is: those of ``hm``, then of its namespaces."""
    import hardmax as hm

    found: dict[str, tuple[str, object]] = {}
    spaces = [name for name in hm.__all__ if inspect.ismodule(getattr(hm, name))]
    for name in hm.__all__:
        if name not in spaces:
            found[name] = "hm", getattr(hm, name)
    for space in spaces:
        if space not in ("errors", "targets", "training"):  # these have pages of their own
            module = getattr(hm, space)
            for name in module.__all__:
                found.setdefault(name, (f"hm.{space}", getattr(module, name)))
    return found


def anchor_of(heading: str) -> str:
    """The anchor of a heading, in lower case, with dashes for blanks and no punctuation."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


class Site:
    """All pages together: rendered one by one, their links checked at the end."""

    def __init__(self) -> None:
        from latex2mathml.converter import convert
        from markdown_it import MarkdownIt
        from mdit_py_plugins.dollarmath import dollarmath_plugin

        def formula(tex: str, options: dict[str, bool]) -> str:
            return str(convert(tex, display="block" if options["display_mode"] else "inline"))

        self.markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
        self.markdown.use(dollarmath_plugin, renderer=formula)
        self.sources = sorted(PAGES.rglob("*.md"), key=lambda page: (page.stem != "index", page.as_posix()))
        self.titles = {page: self._title(page) for page in self.sources}
        self.anchors = {page: self._anchors(page) for page in self.sources}
        self.problems: list[str] = []

    def _title(self, page: Path) -> str:
        heading = re.search(r"^# (.+)$", page.read_text(), flags=re.MULTILINE)
        return heading[1] if heading else page.stem

    def _anchors(self, page: Path) -> set[str]:
        tokens = self.markdown.parse(page.read_text())
        headings = {
            anchor_of(tokens[i + 1].content) for i, t in enumerate(tokens) if t.type == "heading_open"
        }
        return headings | set(re.findall(r'id="([^"]+)"', page.read_text()))

    def build(self) -> None:
        """Write every page to out/docs."""
        for page in self.sources:
            tokens = self.markdown.parse(page.read_text())
            for i, token in enumerate(tokens):
                if token.type == "heading_open":
                    token.attrSet("id", anchor_of(tokens[i + 1].content))
                for child in token.children or []:
                    for attribute in ("href", "src"):
                        link = child.attrGet(attribute)
                        if link is not None:
                            child.attrSet(attribute, self._resolved(str(link), page))
            body = self.markdown.renderer.render(tokens, self.markdown.options, {})
            if page.stem == "reference":
                body += reference_text()
            target = self._target(page)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self._framed(body, page), encoding="utf-8")

    def _target(self, page: Path) -> Path:
        return OUT / page.relative_to(PAGES).with_suffix(".html")

    def _framed(self, body: str, page: Path) -> str:
        links = " ".join(
            f'<a href="{os.path.relpath(self._target(other), self._target(page).parent)}">'
            f"{html.escape('hardmax' if other.stem == 'index' else self.titles[other])}</a>"
            for other in self.sources
        )
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            f"<title>{html.escape(self.titles[page])}</title>"
            f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
            f"<nav>{links}</nav><main>{body}</main></html>\n"
        )

    def _resolved(self, link: str, page: Path) -> str:
        """The link as the built page needs it; a link inside the project that leads nowhere is a problem."""
        if re.match(r"[a-z]+:", link):
            return link
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            self.problems.append(f"{page.relative_to(ROOT)}: {link} leads to no file")
            return link
        if target not in self.titles:
            return os.path.relpath(target, self._target(page).parent)
        known = self.anchors[target] | (set(public_names()) if target.stem == "reference" else set())
        if anchor and anchor not in known:
            self.problems.append(f"{page.relative_to(ROOT)}: {link} leads to no heading")
        built = os.path.relpath(self._target(target), self._target(page).parent)
        return f"{built}#{anchor}" if anchor else built


def main() -> int:
    """Run from the command line; the exit code says whether everything is in order."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write-cli", action="store_true", help="write docs/cli.md anew")
    parser.add_argument("--write-claims", action="store_true", help="write docs/claims.md anew")
    parser.add_argument("--write-notation", action="store_true", help="write docs/notation.md anew")
    parser.add_argument(
        "--write-modules", action="store_true", help="write the modules of docs/architecture.md"
    )
    options = parser.parse_args()
    architecture = PAGES / "architecture.md"
    if options.write_modules:
        architecture.write_text(architecture_page(architecture.read_text()))
        print(f"wrote {architecture.relative_to(ROOT)}")
        return 0
    from hardmax.papers.tropical.sec3_algebra import notation_page

    cli, notation = PAGES / "cli.md", PAGES / "notation.md"
    if options.write_notation:
        notation.write_text(notation_page())
        print(f"wrote {notation.relative_to(ROOT)}")
        return 0
    if options.write_cli:
        cli.write_text(cli_page())
        print(f"wrote {cli.relative_to(ROOT)}")
        return 0
    claims = PAGES / "claims.md"
    if options.write_claims:
        import hardmax as hm

        claims.write_text(claims_page(hm.check_claims()))
        print(f"wrote {claims.relative_to(ROOT)}")
        return 0
    site = Site()
    site.build()
    problems = site.problems
    if not cli.exists() or cli.read_text() != cli_page():
        problems.append("docs/cli.md is stale; run: python docs/build.py --write-cli")
    if not claims.exists() or not claims_are_fresh(claims.read_text()):
        problems.append("docs/claims.md is stale; run: python docs/build.py --write-claims")
    if not notation.exists() or notation.read_text() != notation_page():
        problems.append("docs/notation.md is stale; run: python docs/build.py --write-notation")
    if architecture.read_text() != architecture_page(architecture.read_text()):
        problems.append("docs/architecture.md is stale; run: python docs/build.py --write-modules")
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"built {len(site.sources)} pages; open {(OUT / 'index.html').relative_to(ROOT)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
