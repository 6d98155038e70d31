"""The explorer as a widget of a notebook: the page in a frame, with exact answers and its state in Python.

Needs anywidget (extra ``notebook``). The script of the page is the same as everywhere; ``web/widget.js`` only
hands messages on.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from hardmax.errors import HardmaxError, MissingExtraError
from hardmax.explorer.answers import answer
from hardmax.explorer.page import explorer_page
from hardmax.explorer.states import State, checked_state
from hardmax.results import strict

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise MissingExtraError(
        "the widget of a notebook needs anywidget, which is not installed; try: pip install anywidget."
    ) from error


class ExplorerWidget(anywidget.AnyWidget):
    """The page of the explorer in a notebook.

    Attributes
    ----------
    state : dict
        What the page shows, since the last key was released; ``observe`` it to follow the page.
    """

    _esm = (files("hardmax.explorer") / "web" / "widget.js").read_text(encoding="utf-8")
    page = traitlets.Unicode().tag(sync=True)
    state = traitlets.Dict()

    def __init__(self, state: State) -> None:
        super().__init__(page=explorer_page(state, asks="notebook"), state=state)
        self.on_msg(self._asked)

    def _asked(self, _: Any, question: Any, buffers: Any) -> None:
        """Answer a state that the page sent, and keep it."""
        try:
            asked = checked_state(question["state"])
            self.state = asked
            found = strict(answer(asked))
        except HardmaxError as error:
            found = {"error": str(error)}
        self.send({"id": question["id"], **found})
