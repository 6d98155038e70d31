"""Whatever a user can reach is documented: names with examples, commands with their help, pages without dead
links."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax import errors
from hardmax.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = {path: path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]}


def docs_build():
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PUBLIC = {name: thing for name, (_, thing) in docs_build().public_names().items()}
NAMESPACES = [name for name in hm.__all__ if inspect.ismodule(getattr(hm, name))]


@pytest.fixture(scope="module")
def build():
    return docs_build()


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_a_docstring_with_an_example(name):
    docstring = inspect.getdoc(PUBLIC[name]) or ""
    assert len(docstring.splitlines()) > 3, f"{name} needs a docstring"
    assert ">>> " in docstring, f"the docstring of {name} needs an example"


@pytest.mark.parametrize("name", [*PUBLIC, *NAMESPACES])
def test_a_public_name_is_in_the_docs(name):
    assert any(re.search(rf"\b{name}\b", text) for path, text in PAGES.items() if path.parent.name == "docs")


@pytest.mark.parametrize("name", PUBLIC)
def test_public_methods_are_described(name):
    thing = PUBLIC[name]
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if not member.startswith("_") and (callable(value) or isinstance(value, (property, classmethod))):
                assert inspect.getdoc(getattr(thing, member)), f"{name}.{member} needs a docstring"


@pytest.mark.parametrize("name", errors.__all__)
def test_an_error_is_documented(name):
    assert inspect.getdoc(getattr(errors, name))
    assert f"| `{name}` |" in PAGES[ROOT / "docs" / "errors.md"]


@pytest.mark.parametrize("name", sorted(main.commands))
def test_a_command_is_documented_with_an_example(name):
    assert f"## hardmax {name}" in PAGES[ROOT / "docs" / "cli.md"]
    assert f"hardmax {name}" in (main.commands[name].help or ""), f"the help of {name} needs an example"


def test_the_command_line_page_is_fresh(build):
    assert PAGES[ROOT / "docs" / "cli.md"] == build.cli_page(), "run: python docs/build.py --write-cli"


def test_the_pages_build_and_their_links_resolve(build, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "OUT", tmp_path)
    site = build.Site()
    site.build()
    assert site.problems == []
    assert "<math" in (tmp_path / "glossary.html").read_text()


def test_every_page_is_reached_from_the_index():
    index = PAGES[ROOT / "docs" / "index.md"]
    pages = {path.name for path in PAGES if path.parent.name == "docs"} - {"index.md"}
    assert {page for page in pages if f"({page})" not in index} == set()


def test_a_dead_link_is_found(build, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "OUT", tmp_path)
    site = build.Site()
    page = ROOT / "docs" / "index.md"
    site._resolved("nowhere.md", page)
    site._resolved("glossary.md#no-such-heading", page)
    assert len(site.problems) == 2


@pytest.mark.parametrize(
    "page",
    [pytest.param(text, id=path.stem) for path, text in PAGES.items() if "```python" in text],
)
def test_the_python_on_a_page_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert all(">>> " in block for block in blocks), "a block without prompts is never checked"
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "page", "page", 0)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.DocTestRunner(optionflags=flags).run(test).failed == 0


def test_the_table_in_the_readme_is_what_the_command_prints(tmp_path, monkeypatch):
    """The first shell block with a prompt: its first line makes the input, its second is the command."""
    block = re.search(
        r"```sh\n\$ printf '(.*?)' > (\S+)\n\$ hardmax (.*?)\n(.*?)```",
        PAGES[ROOT / "README.md"],
        flags=re.DOTALL,
    )
    monkeypatch.chdir(tmp_path)
    Path(block[2]).write_text(block[1].replace("\\n", "\n"))
    printed = CliRunner().invoke(main, block[3].split()).stdout
    assert printed == block[4]


def test_the_report_in_the_readme_is_what_the_command_prints(tmp_path, monkeypatch):
    block = re.search(r"\$ hardmax report\n(.*?)```", PAGES[ROOT / "README.md"], flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["report"])
    assert done.stdout + done.stderr.splitlines()[-1] + "\n" == block[1]


def test_the_citation_names_this_version_and_both_papers():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {hm.__version__}\n" in citation
    assert "arXiv:2604.14727" in citation
    assert "arXiv:2605.17930" in citation


def test_the_architecture_page_shows_every_module(build):
    page = PAGES[ROOT / "docs" / "architecture.md"]
    assert build.MODULES.search(page)
    assert page == build.architecture_page(page), "run: python docs/build.py --write-modules"
