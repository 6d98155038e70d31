"""The verb :func:`explore`: the explorer in a notebook, in a file, or in the browser."""

from __future__ import annotations

import os
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax.errors import MissingExtraError
from hardmax.explorer.page import explorer_page, first_state
from hardmax.explorer.states import State
from hardmax.storage import written_whole

if TYPE_CHECKING:
    from hardmax.explorer.widget import ExplorerWidget


@dataclass(frozen=True)
class Explorer:
    """A page with keys to drag; made by :func:`explore`.

    In a notebook the page is the output of the cell; with anywidget installed, it is a :attr:`widget` that
    asks the library and whose state can be read. :meth:`save` writes it as a file that opens from disk,
    :meth:`serve` opens it in the browser with exact answers from the library.

    Attributes
    ----------
    state : dict
        What is shown first.

    Examples
    --------
    >>> import hardmax as hm
    >>> page = hm.explore("fig5")
    >>> page.state["temperature"], page.html.startswith("<!doctype html>")
    (0.5, True)
    """

    state: State

    @property
    def html(self) -> str:
        """The page as one file."""
        return explorer_page(self.state)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, whole or not at all, and return where it is."""
        target = Path(path)
        with written_whole(target) as file:
            file.write(self.html.encode())
        return target

    def serve(
        self, *, port: int = 0, browser: bool = True, ready: Callable[[str], object] | None = None
    ) -> None:
        """Serve the page on this machine until Ctrl-C; counts are confirmed by the library.

        Parameters
        ----------
        port : int
            0 for any that is free.
        browser : bool
            Whether to open the page in the browser.
        ready : callable, optional
            Called with the address once the server listens.
        """
        from hardmax.explorer.server import ExplorerServer, warm_up

        with ExplorerServer(self.state, port=port) as server:
            threading.Thread(target=warm_up, daemon=True).start()
            if ready is not None:
                ready(server.url)
            if browser:
                webbrowser.open(server.url)
            try:
                server.serve_forever(poll_interval=0.2)
            except KeyboardInterrupt:
                return

    @cached_property
    def widget(self) -> ExplorerWidget:
        """The page as a widget of a notebook (extra ``notebook``): ``widget.state`` is what it shows now.

        Raises
        ------
        MissingExtraError
            When anywidget is not installed.
        """
        from hardmax.explorer.widget import ExplorerWidget

        return ExplorerWidget(self.state)

    def _repr_mimebundle_(self, **_: Any) -> Any:
        # the frame comes along for readers without a kernel, such as a saved notebook on a web page
        try:
            shown = self.widget._repr_mimebundle_()
        except MissingExtraError:
            return {"text/plain": repr(self), "text/html": self._repr_html_()}
        bundle, details = shown if isinstance(shown, tuple) else (shown, {})
        return {**(bundle or {}), "text/plain": repr(self), "text/html": self._repr_html_()}, details

    def _repr_html_(self) -> str:
        # an inner document, so that neither style nor script meets those of the notebook
        return (
            f'<iframe srcdoc="{escape(self.html, quote=True)}" width="100%" height="900" '
            'sandbox="allow-scripts allow-downloads" style="border:0" title="hardmax explorer"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<Explorer: mode {self.state['mode']}; .serve() opens it, .save('explorer.html') writes it>"


def explore(scene: str | State | None = None) -> Explorer:
    """Keys that one drags, and what follows: cells, Minkowski sums, folds, information flow.

    Parameters
    ----------
    scene : str or dict, optional
        The name of a scene (``hm.explorer.scenes()`` lists them), or a state such as the page's links hold;
        by default the first scene.

    Returns
    -------
    Explorer
        Shown by itself in a notebook; ``.serve()`` opens it in the browser, ``.save(path)`` writes one HTML
        file.

    Raises
    ------
    InvalidInputError
        When there is no such scene, or the state makes no sense.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.explore("sawtooth")
    <Explorer: mode depth; .serve() opens it, .save('explorer.html') writes it>
    >>> keys = [[2, 0, 0], [-1, 2, 0], [-1, -2, 0]]
    >>> page = hm.explore({"mode": "heads", "half": 3, "heads": [keys]})
    """
    return Explorer(first_state(scene))
