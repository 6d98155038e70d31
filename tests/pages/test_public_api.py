"""The public names and their parameters, as they were agreed upon: a change shows in public_api.txt.

``python tests/pages/test_public_api.py`` rewrites the file after a change that is meant.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import hardmax as hm
from hardmax.errors import MissingExtraError

AGREED = Path(__file__).with_name("public_api.txt")
NAMESPACES = {name for name in hm.__all__ if inspect.ismodule(getattr(hm, name))}


def parameters(thing: Any) -> str:
    """Names and defaults; types are not part of the agreement, and Python versions write them differently."""
    try:
        signature = inspect.signature(thing)
    except (ValueError, TypeError):
        return ""
    blank = inspect.Parameter.empty
    bare = [p.replace(annotation=blank) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=blank))
    return re.sub(r"<(?:function|class) '?([\w.]+)[^>]*>| at 0x[0-9a-f]+", r"\1", text)


def members(cls: type) -> dict[str, Any]:
    """What a class has by itself or from another class of hardmax."""
    own = [base for base in reversed(cls.__mro__) if base.__module__.startswith("hardmax")]
    return {name: value for base in own for name, value in vars(base).items() if not name.startswith("_")}


def described(name: str, thing: Any) -> list[str]:
    if inspect.ismodule(thing):
        return [f"{name}: module"]
    if not inspect.isclass(thing):
        return [f"{name}{parameters(thing)}" if callable(thing) else f"{name}: {type(thing).__name__}"]
    lines = [f"{name}{parameters(thing)}"]
    for member, value in sorted(members(thing).items()):
        inner = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        lines.append(f"{name}.{member}{parameters(inner) if inspect.isroutine(inner) else ''}")
    return lines


def listing() -> tuple[dict[str, list[str]], set[str]]:
    """The lines of every public name, and the names that need a package that is not installed."""
    found: dict[str, list[str]] = {}
    missing = set()
    spaces = {"hm": hm} | {f"hm.{name}": getattr(hm, name) for name in NAMESPACES}
    for space, module in sorted(spaces.items()):
        for name in sorted(getattr(module, "__all__", [])):
            full = f"{space}.{name}"
            try:
                found[full] = described(full, getattr(module, name))
            except MissingExtraError:
                missing.add(full)
    return found, missing


def test_public_names_and_parameters_are_those_agreed_upon():
    found, missing = listing()
    agreed: dict[str, list[str]] = {}
    for line in AGREED.read_text(encoding="utf-8").splitlines():
        parts = re.split(r"[:(]", line)[0].split(".")
        agreed.setdefault(".".join(parts[: 3 if parts[1] in NAMESPACES else 2]), []).append(line)
    changed = {name for name in agreed.keys() | found.keys() if agreed.get(name) != found.get(name)}
    assert changed <= missing, "if the change is meant: python tests/pages/test_public_api.py"


if __name__ == "__main__":
    AGREED.write_text("".join(f"{line}\n" for lines in listing()[0].values() for line in lines), "utf-8")
