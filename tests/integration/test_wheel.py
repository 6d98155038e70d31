"""A wheel builds, installs into a clean environment, and runs there, far from the sources."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import hardmax

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that knows nothing of this environment's packages."""
    clean = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    }
    return subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, env=clean)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = run(
        sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    assert wheel.name == f"hardmax-{hardmax.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "hardmax/py.typed" in names
    assert all(name.startswith(("hardmax/", f"hardmax-{hardmax.__version__}.dist-info/")) for name in names)
    assert not [name for name in names if re.search(r"__pycache__|\.nb[ic]$|\.pyc$", name)]
    files = [
        path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.is_file()
    ]
    assert {name for name in files if not re.search(r"__pycache__|/\.", name)} <= set(names)


KERNEL = """
import numpy as np, hardmax as hm
A = np.arange(80.0 * 80).reshape(80, 80)
assert hm.tropical.tropical_matmul(A, A)[3, 4] == (A[3] + A[:, 4]).max()
"""


def test_the_wheel_runs_in_a_clean_environment(wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=False)
    programs = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "--disable-pip-version-check"]
    how = [
        "--quiet",
        "--no-compile",
        "--constraint",
        ROOT / "constraints.txt",
    ]  # most of it is never imported
    done = run(*pip, "install", *how, wheel, cwd=tmp_path)
    if re.search(r"name resolution|NewConnectionError|Network is unreachable", done.stderr):
        pytest.skip(
            "the package index cannot be reached, so nothing can be installed into a clean environment"
        )
    assert done.returncode == 0, done.stderr

    done = run(programs / "hardmax", "versions", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    versions = json.loads(done.stdout)
    assert versions["hardmax"] == hardmax.__version__
    assert versions["matplotlib"] is None  # an extra, and nobody asked for it

    done = run(programs / "python", "-c", KERNEL, cwd=tmp_path)  # the smallest kernel: compiling takes time
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "env").rglob("hardmax/**/*.nbc"))  # kept beside the package

    (tmp_path / "x.csv").write_text("0,0\n1,0\n")
    done = run(programs / "hardmax", "minkowski", "x.csv", "--plot", "x.svg", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install matplotlib" in done.stderr
