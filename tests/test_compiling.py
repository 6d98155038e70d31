"""Kernels are announced when they are compiled, cached, and loaded without a word until a source changes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize(
    ("edited", "old", "new", "value"),
    [("inner", "x + OFFSET", "x - OFFSET", 0), ("constants", "= 1", "= 7", 80)],
)
def test_editing_a_file_that_a_kernel_imports_compiles_it_anew(tmp_path, edited, old, new, value):
    """numba alone would load the machine code of the old source: the file of the kernel did not change."""
    package = tmp_path / "sums"
    package.mkdir()
    for name, source in SOURCES.items():
        (package / f"{name}.py").write_text(source)

    def results():
        path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
        return run(tmp_path / "cache", SUMS, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1").stdout.split()

    assert results() == ["20", "-1", "0", "0"]
    assert results() == ["20", "-1", "1", "1"]
    (package / f"{edited}.py").write_text(SOURCES[edited].replace(old, new))
    assert results() == [str(value), "-1", "0", "1"]  # what does not import the file stays in the cache
