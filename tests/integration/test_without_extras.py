"""`make test` collects everything where only the core and its tests are installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COLLECT = """
import sys
from importlib.machinery import PathFinder

import pytest

EXTRAS = {"anywidget", "onnx", "onnxruntime", "playwright", "safetensors", "torch", "transformers", "entmax"}


class WithoutExtras(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in EXTRAS else PathFinder.find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutExtras
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "src", "tests"]))
"""


@pytest.mark.slow
def test_every_module_is_collected_without_extras():
    done = subprocess.run([sys.executable, "-c", COLLECT], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "could not import 'torch'" in done.stdout  # tests that need it say so
