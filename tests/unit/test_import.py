"""``import hardmax`` is light: it takes a blink and pulls in nothing heavy."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import hardmax

ROOT = Path(hardmax.__file__).parent

HEAVY = ["torch", "jinja2", "matplotlib", "numba", "scipy", "pandas", "click", "rich", "flint", "highspy"]
PROBE = """
import json, sys, time
start = time.perf_counter()
{statement}
seconds = time.perf_counter() - start
print(json.dumps({{"seconds": seconds, "heavy": [name for name in {heavy} if name in sys.modules]}}))
"""


def probe(statement: str) -> dict[str, object]:
    """Run ``statement`` in a fresh interpreter; how long it took and which heavy packages it brought
    along."""
    code = PROBE.format(statement=statement, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_import_brings_nothing_heavy():
    assert probe("import hardmax")["heavy"] == []


def test_import_is_fast():
    assert min(probe("import hardmax")["seconds"] for _ in range(3)) < 0.5


@pytest.mark.parametrize("name", ["numba", "scipy"])
def test_the_probe_can_fail(name):
    """A test that could not fail would prove nothing."""
    assert name in probe(f"import hardmax, {name}")["heavy"]


def test_a_public_name_is_loaded_on_first_use():
    assert probe("import hardmax; hardmax.load")["heavy"] == []


def test_every_name_of_the_stub_is_one_that_run_time_gives():
    """The stub is read line by line; a line in another form would be seen by type checkers only."""
    for stub in Path(hardmax.__file__).parent.rglob("__init__.pyi"):
        package = import_module(".".join(("hardmax", *stub.parent.relative_to(ROOT).parts)))
        names = [
            (alias.name, alias.asname)
            for node in ast.parse(stub.read_text()).body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        ]
        assert all(name == public for name, public in names)
        assert [name for name, _ in names] == package.__all__
        for name in package.__all__:
            assert getattr(package, name) is not None


def test_every_public_name_exists():
    for name in hardmax.__all__:
        assert getattr(hardmax, name) is not None
    assert set(hardmax.__all__) <= set(dir(hardmax))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'softmax'"):
        hardmax.softmax  # noqa: B018 (the access is the test)


def test_show_versions_names_what_matters(capsys):
    hardmax.show_versions()
    out = capsys.readouterr().out
    for name in ("hardmax", "python", "numpy", "numba", "python-flint"):
        assert name in out


def test_a_warning_from_hardmax_is_an_error_in_tests():
    """The filter in pyproject.toml does what it says."""
    with pytest.raises(UserWarning, match="from within"):
        warnings.warn_explicit(
            "from within", UserWarning, "minkowski.py", 1, module="hardmax.geometry.minkowski"
        )
