"""Modules that import an extra at their top are left out where it is missing: doctests would import them.

Tests skip themselves and say why.
"""

import re
from importlib.util import find_spec
from pathlib import Path

EXTRAS = ("anywidget", "nnsight", "onnx", "onnxruntime", "playwright", "pysat", "safetensors", "torch")
EXTRAS += ("transformer_lens", "transformers")


def needing(missing: set[str]) -> set[Path]:
    """The modules, other than tests, whose imports at the top lead to a missing package."""
    root = Path(__file__).parent
    sources = [path for folder in ("src", "tests") for path in (root / folder).rglob("*.py")]
    texts = {path: path.read_text() for path in sources if not path.name.startswith("test_")}
    found: set[Path] = set()
    while missing:
        names = "|".join(map(re.escape, sorted(missing)))
        imports = re.compile(rf"^(?:try:\n    )?(?:import|from) (?:[\w.]+\.)?(?:{names})\b", re.MULTILINE)
        new = {path for path, text in texts.items() if imports.search(text)} - found
        missing = {path.stem for path in new if root / "tests" in path.parents}
        found |= new
    return found


collect_ignore = [str(path) for path in needing({name for name in EXTRAS if not find_spec(name)})]
