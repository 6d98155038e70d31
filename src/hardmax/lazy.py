"""Public names of a package, each listed once, in the stub that type checkers read.

A package has an ``__init__.pyi`` of lines ``from hardmax.regions.api import count_cells as count_cells``, and
its ``__init__.py`` says ``__getattr__, __dir__, __all__ = attach(__name__)``: the pattern of SPEC 1 of
Scientific Python. A name is then imported from its module the first time it is asked for.
"""

from __future__ import annotations

import sys

# Nothing else is imported here: it takes time in which Python itself answers Ctrl-C, with a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def attach(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the stub beside it.

    Examples
    --------
    >>> from hardmax.lazy import attach
    >>> load, listed, public = attach("hardmax")
    >>> load("Box"), "Box" in public
    (<class 'hardmax.geometry.domains.Box'>, True)
    """
    module = sys.modules[package]
    home_of: dict[str, str] = {}
    with open(f"{module.__file__}i", encoding="utf-8") as stub:
        for line in stub:
            match line.split():
                case ["from", home, "import", name, "as", again] if name == again:
                    home_of[name] = home

    def load(name: str) -> object:
        from importlib import import_module

        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # a name that is at home in the package itself is one of its modules
        found = import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)
        setattr(module, name, found)  # the next access does not come here
        return found

    def listed() -> list[str]:
        return sorted({*home_of, *(name for name in vars(module) if name.startswith("__"))})

    return load, listed, list(home_of)
