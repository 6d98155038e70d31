"""The matrix of versions: every supported Python, and the oldest supported dependencies (docs/versions.md).

``nox`` runs what it finds interpreters for; ``nox -s oldest`` only the lower bounds. Each environment gets
the wheel, not the sources beside it.
"""

import re
import tomllib
from pathlib import Path

import nox

nox.options.error_on_missing_interpreters = False
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
EXTRAS = ["plot", "tables", "graphs", "onnx"]
FAST = [
    "tests/unit/test_import.py",
    "tests/unit/test_results.py",
    "tests/unit/exact",
    "tests/unit/bounds",
    "tests/unit/geometry/test_power_diagrams.py",
    "tests/unit/geometry/test_voronoi_views.py",
    "tests/unit/networks/test_networks.py",
    "tests/unit/flow/test_information_sets.py",
]


def lower_bounds() -> list[str]:
    """Every requirement of the library and of its tested extras at its lower bound."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(r for e in EXTRAS for r in project["optional-dependencies"][e])]
    return sorted({re.sub(r">=(\d+\.\d+)(\.\d+)?", r"==\1.*", one) for one in wanted})


def tried(session: nox.Session, *pins: str) -> None:
    """Install the wheel and run the smoke script and the fast tests."""
    session.install(f".[{','.join(EXTRAS)}]", *pins, "pytest>=8", "hypothesis")
    session.run("python", "tests/scripts/version_smoke.py")
    session.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *FAST)


@nox.session(python=PYTHONS)
def newest(session: nox.Session) -> None:
    """The newest dependencies that resolve."""
    tried(session)


@nox.session(python=PYTHONS[0])
def oldest(session: nox.Session) -> None:
    """The oldest dependencies that are supported."""
    tried(session, *lower_bounds())


@nox.session(python=PYTHONS[-2])
def bare(session: nox.Session) -> None:
    """The wheel alone, without extras: the smoke script leaves out what needs them."""
    session.install(".")
    session.run("python", "tests/scripts/version_smoke.py")
    session.run("hardmax", "versions")
