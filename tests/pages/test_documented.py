"""Whatever a user can reach is documented: names with examples, commands with their help, fresh pages."""

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
BUILT = {"auto_gallery", "reference"}  # folders that Sphinx writes
PAGES = {
    path: path.read_text()
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if path.parent.name not in BUILT
}


NAMESPACES = [name for name in hm.__all__ if inspect.ismodule(getattr(hm, name))]
# errors, targets and training are described on pages of their own
PUBLIC = {name: getattr(hm, name) for name in hm.__all__ if name not in NAMESPACES} | {
    f"{space}.{name}": getattr(getattr(hm, space), name)
    for space in NAMESPACES
    if space not in ("errors", "targets", "training")
    for name in getattr(hm, space).__all__
    if getattr(hm, name, None) is not getattr(getattr(hm, space), name)
}


def loaded(name, path):
    """A script of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_a_docstring_with_an_example(name):
    docstring = inspect.getdoc(PUBLIC[name]) or ""
    assert len(docstring.splitlines()) > 3, f"{name} needs a docstring"
    assert ">>> " in docstring, f"the docstring of {name} needs an example"


@pytest.mark.parametrize("name", ["hardmax", *(f"hardmax.{name}" for name in NAMESPACES)])
def test_the_reference_lists_a_namespace(name):
    """Its names follow from its stub (docs/conf.py)."""
    assert f"\n   {name}\n" in PAGES[ROOT / "docs" / "reference.md"]


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


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_outside_the_documentation_lead_somewhere(name):
    """Those inside are checked when the pages are built (test_built_docs)."""
    links = re.findall(r"\]\((?!\w+:)([^)#]+)", (ROOT / name).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize(
    "page",
    [pytest.param(text, id=path.stem) for path, text in PAGES.items() if "```python" in text],
)
def test_the_python_on_a_page_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # pages are read in the root of a checkout
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


def test_the_picture_on_top_of_the_readme_shows_as_many_cells_as_it_says():
    banner = loaded("banner", "docs/pictures/banner.py")
    top = PAGES[ROOT / "README.md"].split("```")[0]
    assert top.startswith("![")
    assert "](docs/pictures/banner.png)" in top
    assert f"all {banner.found().n_cells} cells" in top


def test_the_citation_names_this_version_and_both_papers():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {hm.__version__}\n" in citation
    assert "arXiv:2604.14727" in citation
    assert "arXiv:2605.17930" in citation


def test_pages_that_a_program_writes_are_fresh():
    write = loaded("docs_write", "docs/write.py")
    assert write.MODULES.search(PAGES[ROOT / "docs" / "architecture.md"])
    assert write.stale() == [], "run: python docs/write.py"
