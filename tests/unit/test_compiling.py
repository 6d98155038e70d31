"""Kernels are announced when they are compiled, cached, and loaded without a word until a source changes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hardmax

PROGRAM = """
import numpy as np
from hardmax.tropical.semiring_kernels import max_plus
max_plus(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))
"""


def run(cache, program=PROGRAM, **environment):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **environment}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )


def test_the_first_process_announces_and_the_second_loads_from_the_cache(tmp_path):
    first = run(tmp_path)
    assert "compiling kernels for their first use" in first.stderr
    assert first.stderr.count("\n") == 1
    assert list(tmp_path.rglob("*.nbc"))
    assert run(tmp_path).stderr == ""


def test_a_cache_that_cannot_be_read_is_written_anew(tmp_path):
    """The index of an older version may name modules that have moved."""
    run(tmp_path)
    for index in tmp_path.rglob("*.nbi"):
        version = index.read_bytes().partition(b"\n")[0]
        index.write_bytes(index.read_bytes().replace(b"numba.core", b"numba.gone"))
        assert index.read_bytes().partition(b"\n")[0] == version
    assert "compiling kernels" in run(tmp_path).stderr
    assert run(tmp_path).stderr == ""


def test_machine_code_that_was_cut_off_is_written_anew(tmp_path):
    run(tmp_path)
    for kept in tmp_path.rglob("*.nbc"):
        kept.write_bytes(kept.read_bytes()[:-20])
    assert "compiling kernels" in run(tmp_path).stderr
    assert run(tmp_path).stderr == ""


def test_without_a_compiler_there_is_a_sentence(tmp_path):
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(tmp_path, NUMBA_DISABLE_JIT="1")
    assert "NUMBA_DISABLE_JIT is set, but the kernels" in caught.value.stderr


SOURCES = {
    "__init__": "",
    "constants": "OFFSET = 1\n",
    "inner": """
from hardmax.compiling import kernel
from sums.constants import (
    OFFSET,
)
@kernel(inner=True)
def term(x):
    return x + OFFSET
""",
    "outer": """
from hardmax.compiling import kernel
from sums import inner
term = inner.term
@kernel
def total(x):
    return 10 * term(x)
""",
    "apart": """
from hardmax.compiling import kernel
@kernel
def negative(x):
    return -x
""",
}

SUMS = """
from sums.apart import negative
from sums.outer import total
print(total(1), negative(1), sum(total.stats.cache_hits.values()), sum(negative.stats.cache_hits.values()))
"""


def sums(folder, before="", **environment):
    """Results and cache hits of the kernels above, in a process of their own that runs ``before`` first."""
    package = folder / "sums"
    if not package.exists():
        package.mkdir()
        for name, source in SOURCES.items():
            (package / f"{name}.py").write_text(source)
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), str(Path(hardmax.__file__).parent.parent)])
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return run(folder / "cache", before + SUMS, **environment).stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edited", "old", "new", "value"),
    [("inner", "x + OFFSET", "x - OFFSET", 0), ("constants", "= 1", "= 7", 80)],
)
def test_editing_a_file_that_a_kernel_imports_compiles_it_anew(tmp_path, edited, old, new, value):
    """numba alone would load the machine code of the old source: the file of the kernel did not change."""
    assert sums(tmp_path) == ["20", "-1", "0", "0"]
    assert sums(tmp_path) == ["20", "-1", "1", "1"]
    (tmp_path / "sums" / f"{edited}.py").write_text(SOURCES[edited].replace(old, new))
    assert sums(tmp_path) == [str(value), "-1", "0", "1"]  # what does not import the file stays in the cache


APPLY = "import hardmax.compiling; print(hardmax.compiling._shortcuts.apply)\n"


def test_the_shortcuts_apply_to_this_numba(tmp_path):
    assert sums(tmp_path, APPLY) == ["True", "20", "-1", "0", "0"]


def test_a_variable_switches_the_shortcuts_off(tmp_path):
    assert sums(tmp_path, APPLY, HARDMAX_PLAIN_NUMBA="1") == ["False", "20", "-1", "0", "0"]
    assert sums(tmp_path, APPLY, HARDMAX_PLAIN_NUMBA="1") == ["False", "20", "-1", "1", "1"]


FROM_THE_END = """
import numba
import numpy as np
from hardmax.compiling import _shortcuts, kernel

@kernel
def here(a, i):
    return a[i]

@numba.njit
def from_the_end(a, i):
    return a[i]

a = np.arange(5.0)
print(here(a, 2), from_the_end(a, -2), here(a[3:], -2) == (1.0 if _shortcuts.apply else 3.0))
"""


@pytest.mark.parametrize("plain", ["", "1"])
def test_a_kernel_takes_an_index_as_it_is_and_other_code_does_not(tmp_path, plain):
    assert run(tmp_path, FROM_THE_END, HARDMAX_PLAIN_NUMBA=plain).stdout.split() == ["2.0", "3.0", "True"]


def kernels_of(path):
    """The kernels of a file, as trees."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            names = {getattr(getattr(d, "func", d), "id", "") for d in node.decorator_list}
            if names & {"kernel"}:
                yield node


def test_no_kernel_indexes_from_the_end_by_a_constant():
    package, seen = Path(hardmax.__file__).parent, 0
    for path in package.rglob("*.py"):
        for function in kernels_of(path):
            seen += 1
            for node in ast.walk(function):
                if isinstance(node, ast.Subscript):
                    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                    negative = [p for p in parts if isinstance(p, ast.UnaryOp) and isinstance(p.op, ast.USub)]
                    assert not negative, f"{path.name}:{node.lineno}"
    assert seen > 200


SURPRISES = {
    "a later version": "import numba; numba.__version__ = '9.9.9'",
    "an earlier version": "import numba; numba.__version__ = '0.59.1'",
    "another argument": """
from numba.core.cpu import CPUContext
plain = CPUContext.get_executable
CPUContext.get_executable = lambda self, library, fndesc, env, more=None: plain(self, library, fndesc, env)
""",
    "a missing class": "import numba.core.codegen as home; del home.CPUCodeLibrary",
}


@pytest.mark.parametrize("before", SURPRISES.values(), ids=SURPRISES)
def test_an_unknown_numba_compiles_plainly(tmp_path, before):
    assert sums(tmp_path, before + "\n" + APPLY) == ["False", "20", "-1", "0", "0"]


def test_a_shortcut_that_fails_is_given_up_on_the_way(tmp_path):
    """The first kernel is compiled anew, without shortcuts and without what they left of inner kernels."""
    fail = """
import hardmax.compiling
def fail(*parts):
    raise RuntimeError("unknown")
hardmax.compiling._Shortcuts._executable = fail
"""
    assert sums(tmp_path, APPLY + fail) == ["True", "20", "-1", "0", "0"]
    check = "import atexit; atexit.register(lambda: print(hardmax.compiling._shortcuts.apply))\n"
    assert sums(tmp_path, fail + check, NUMBA_CACHE_DIR=str(tmp_path / "other"))[-1] == "False"


def test_without_a_stamp_nothing_is_kept_on_disk(tmp_path):
    """Code of an older source must not run: better none at all."""
    unknown = "import numba.core.dispatcher as home; home.FunctionCache = lambda function: object()\n"
    assert sums(tmp_path, unknown) == ["20", "-1", "0", "0"]
    assert not list(tmp_path.rglob("*.nbc"))


CELLS = """
import hardmax as hm
found = hm.enumerate_regions(hm.Network.random(1, 30, 3, 3, 120, 1), hm.Box.cube(1, -4, 4))
print(found.n_cells, found.n_regions, [found.signature(i) for i in range(found.n_cells)])
"""


@pytest.mark.slow
def test_the_engine_of_the_line_finds_the_same_cells_without_shortcuts(tmp_path):
    """The smallest engine: plain numba takes two minutes for that of the plane."""
    plain = run(tmp_path, CELLS, HARDMAX_PLAIN_NUMBA="1").stdout
    assert plain == run(os.environ.get("NUMBA_CACHE_DIR", ""), CELLS).stdout
    assert int(plain.split()[0]) > 100
