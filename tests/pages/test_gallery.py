"""Every script of the gallery has the form of a gallery script, runs alone and draws one picture."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.rglob("*.py"))
FAST = "one_head/cells_of_a_head.py", "flow/routes.py", "decisions/two_moons.py"

# Runs scripts one after the other, each in its folder and in fresh variables, as Sphinx does, and looks at
# the figures that they hold.
RUN = """
import os, runpy, sys
import matplotlib
matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
for path in sys.argv[1:]:
    os.chdir(os.path.dirname(path))
    held = runpy.run_path(path, run_name="__main__").values()
    figures = {getattr(thing, "figure", None) if isinstance(thing, Axes) else thing for thing in held
               if isinstance(thing, (Axes, Figure))}
    assert len(figures) == 1, f"{path} holds {len(figures)} figures"
    (figure,) = figures
    figure.set_dpi(40)
    figure.savefig(os.devnull, format="png", dpi=40)
    canvas = matplotlib.backends.backend_agg.FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].reshape(-1, 3)
    inked = (pixels != pixels[0]).any(axis=1).mean()
    empty = [axes.get_title() for axes in figure.axes if not axes.has_data() and not axes.texts]
    assert inked > 0.01, f"{path} draws almost nothing"
    assert not empty, f"{path} has empty panels: {empty}"
    pyplot.close("all")
assert "torch" not in sys.modules
print("drawn", len(sys.argv) - 1)
"""


def run(paths: list[Path]) -> str:
    """Run scripts in one process; returns what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, paths)],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(autouse=True)
def _matplotlib() -> None:
    pytest.importorskip("matplotlib")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(GALLERY)))
def test_a_script_is_short_and_says_what_it_shows(path):
    source = path.read_text()
    tree = ast.parse(source)
    title, rule, blank, *text = (ast.get_docstring(tree) or "").splitlines()
    assert rule == "=" * len(title)
    assert not blank
    assert 2 <= len(re.findall(r"[.?](?= |$)", " ".join(text))) <= 4  # sentences
    assert len(title) <= 50
    code = [line for line in source.splitlines()[tree.body[1].lineno - 1 :] if line.strip()]
    assert len(code) <= 25
    assert len(source.splitlines()) >= 10
    imported = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {str(node.module).partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= {"hardmax", "matplotlib", "numpy", "pathlib", "scipy"}
    assert "import hardmax as hm" in source
    assert "hm." in source


def test_there_is_a_picture_of_every_package_and_every_script_has_its_place():
    sections = {path.parent.name for path in SCRIPTS}
    assert len(SCRIPTS) >= 26
    assert {path.parent.name for path in GALLERY.glob("*/GALLERY_HEADER.rst")} == sections
    (order,) = (
        ast.literal_eval(node.value)
        for node in ast.parse((ROOT / "docs" / "conf.py").read_text()).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "GALLERY"
    )
    listed = [f"{section}/{name}.py" for section, names in order.items() for name in names.split()]
    assert sorted(listed) == [path.relative_to(GALLERY).as_posix() for path in SCRIPTS]
    names = [path.stem for path in SCRIPTS]
    assert len(set(names)) == len(names)  # a name is a place in the order


def test_three_scripts_draw():
    assert "drawn 3" in run([GALLERY / name for name in FAST])


@pytest.mark.slow
def test_every_script_draws_one_picture():
    assert f"drawn {len(SCRIPTS)}" in run(SCRIPTS)
