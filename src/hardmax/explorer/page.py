"""The explorer as one HTML file: style, scenes and script inside, nothing loaded from anywhere.

The script is written as plain modules in ``web/``, which node can import for tests. A page that opens from
disk cannot import files, so they are joined here: each becomes a function that returns what it exports, in
the order of their imports. There is no other build step.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from jinja2 import Environment, StrictUndefined

from hardmax.errors import InvalidInputError
from hardmax.explorer.states import State, checked_state
from hardmax.explorer.worked_scenes import scenes
from hardmax.models.report.page import content_policy, json_for_script
from hardmax.models.report.svg import figure_style
from hardmax.versions import installed_versions

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def explorer_page(
    scene: str | State | None = None, *, asks: Literal["server", "notebook"] | None = None
) -> str:
    """The whole file.

    Parameters
    ----------
    scene : str or dict, optional
        What is shown first: the name of a scene, or a state; by default the first scene.
    asks : {"server", "notebook"}, optional
        Who confirms counts besides the page itself: the server that it came from, or the notebook around it.

    Examples
    --------
    >>> "Content-Security-Policy" in explorer_page("fig5")
    True
    """
    script = joined_script("app") + "\nmodules.app.start();"
    data = {"scenes": scenes(), "asks": asks, "first": first_state(scene)}
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    return environment.from_string(_resource("page.html.j2")).render(
        policy=content_policy(script, connect="'self'" if asks == "server" else None),
        style=figure_style() + _resource("explorer.css"),
        script=script,
        data=json_for_script(data),
        asks=asks,
        version=installed_versions()["hardmax"],
    )


def first_state(scene: str | State | None) -> State:
    """The state of a scene by name, or a state that was checked."""
    listed: dict[str, Any] = {one["name"]: one["state"] for one in scenes()}
    if scene is None:
        return dict(next(iter(listed.values())))
    if isinstance(scene, str):
        if scene not in listed:
            raise InvalidInputError(f"scene must be one of {', '.join(listed)}, but was {scene!r}.")
        return dict(listed[scene])
    return checked_state(scene)


@cache
def joined_script(first: str) -> str:
    """The modules that ``first`` needs as one script, each in a scope of its own.

    Examples
    --------
    >>> joined_script("exact").startswith("const modules = {};")
    True
    """
    written: dict[str, str] = {}

    def write(name: str) -> None:
        if name in written:
            return
        source = _resource(f"{name}.js")
        for _, needed in _IMPORT.findall(source):
            write(needed)
        exported = ", ".join(_EXPORT.findall(source))
        body = _EXPORT.sub("", _IMPORT.sub(r"const {\1} = modules.\2;\n", source))
        written[name] = f"modules.{name} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n"

    write(first)
    return "const modules = {};\n" + "".join(written.values())


def _resource(name: str) -> str:
    return (files("hardmax.explorer") / "web" / name).read_text(encoding="utf-8")
