"""The plan of the sources: no import leads back, and no folder or dispatch grows unnoticed."""

from __future__ import annotations

import ast
import re
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import hardmax as hm

ROOT = Path(hm.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
LAYERS = r"(Affine|Relu|Argmax|Max)Layer|Attention|FeedForward|Maxout|Affine|Leaky\w*|BaseBlock"


def module_of(file: Path) -> str:
    parts = ("hardmax", *file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file): file for file in FILES}


def names_in_stubs() -> dict[str, str]:
    """Where a name that a package loads lazily lives: "hardmax.load" -> "hardmax.results"."""
    homes = {}
    for stub in ROOT.rglob("*.pyi"):
        package = module_of(stub)
        for node in ast.parse(stub.read_text()).body:
            if isinstance(node, ast.ImportFrom):
                home = f"{package}.{node.module}" if node.level else node.module
                homes |= {f"{package}.{alias.name}": home for alias in node.names}
    return homes


STUBS = names_in_stubs()


def imports_of(tree: ast.AST) -> set[str]:
    """Modules of hardmax that a module imports, inside functions too; not those that only types need."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are spelled out"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            name = STUBS.get(name, name)
            found.add(name if name in MODULES else name.rpartition(".")[0])
        found |= imports_of(node)
    return found & MODULES.keys()


def test_no_import_comes_back():
    graph = {name: imports_of(ast.parse(file.read_text())) - {name} for name, file in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_folders_stay_small():
    sizes = Counter(file.parent.relative_to(ROOT).as_posix() for file in FILES)
    large = {folder: n for folder, n in sizes.items() if n > 16 and folder not in ("cli", "plotting")}
    assert not large


def test_few_files_ask_for_the_type_of_a_layer():
    pattern = re.compile(rf"isinstance\([^\n]*\b({LAYERS})\b|case ({LAYERS})\(")
    asking = [str(file.relative_to(ROOT)) for file in FILES if pattern.search(file.read_text())]
    assert len(asking) <= 12, asking
