"""Kernels are announced when they are compiled, cached, and loaded without a word."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import numpy as np
from hardmax.tropical.semiring_kernels import max_plus
max_plus(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))
"""


def run(cache):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True
    )


def test_the_first_process_announces_and_the_second_loads_from_the_cache(tmp_path):
    first = run(tmp_path)
    assert "compiling kernels for their first use" in first.stderr
    assert first.stderr.count("\n") == 1
    assert list(tmp_path.rglob("*.nbc"))
    assert run(tmp_path).stderr == ""
