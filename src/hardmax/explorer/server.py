"""The explorer on this machine only: one page, and exact answers to what it shows.

The server listens on 127.0.0.1. A page of another site in the same browser could send requests to it, so it
answers only requests that name it as their host and, for questions, as their origin. It reads nothing from
disk and takes small JSON of numbers only (:mod:`hardmax.explorer.states`); one question is computed at a
time.
"""

from __future__ import annotations

import json
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hardmax.errors import HardmaxError
from hardmax.explorer.answers import answer
from hardmax.explorer.page import explorer_page, first_state
from hardmax.explorer.states import State
from hardmax.results import strict

LARGEST_QUESTION = 200_000  # bytes
_SECONDS = 10.0  # for a request to arrive


class ExplorerServer(ThreadingHTTPServer):
    """Serves the page at :attr:`url` until :meth:`shutdown`.

    Parameters
    ----------
    scene : str or dict, optional
        What is shown first.
    port : int
        0 for any that is free.

    Examples
    --------
    >>> with ExplorerServer() as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    daemon_threads = True
    block_on_close = False  # a browser may keep a connection open; Ctrl-C does not wait for it

    def __init__(self, scene: str | State | None = None, *, port: int = 0) -> None:
        self.page = explorer_page(first_state(scene), asks="server").encode()
        self.asking = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_port}/"

    @property
    def names(self) -> set[str]:
        """The hosts under which a browser on this machine may ask."""
        return {f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}"}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no failure; anything else is shown as usual."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer
    timeout = _SECONDS
    server_version = "hardmax"
    sys_version = ""

    def do_GET(self) -> None:
        """The page, and nothing else."""
        if not self._from_here():
            return
        if self.path != "/":
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here but the page /.")
        else:
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)

    def do_POST(self) -> None:
        """The exact answer to a state."""
        if not self._from_here():
            return
        origin = self.headers.get("Origin", "").removeprefix("http://")
        length = self.headers.get("Content-Length", "")
        if self.path != "/answer":
            self._refuse(HTTPStatus.NOT_FOUND, "questions go to /answer.")
        elif origin not in self.server.names:
            self._refuse(HTTPStatus.FORBIDDEN, "only the page of this server may ask.")
        elif self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a question must be JSON.")
        elif not length.isdecimal() or int(length) > LARGEST_QUESTION:
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a question has at most {LARGEST_QUESTION:,} bytes."
            )
        else:
            self._answer(self.rfile.read(int(length)))

    def _answer(self, body: bytes) -> None:
        try:
            state = json.loads(body)
        except (ValueError, RecursionError):
            self._refuse(HTTPStatus.BAD_REQUEST, "the question is not JSON.")
            return
        if not self.server.asking.acquire(timeout=_SECONDS):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "another question is still being answered.")
            return
        try:
            found = answer(state)
        except HardmaxError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        finally:
            self.server.asking.release()
        self._send(HTTPStatus.OK, "application/json", json.dumps(strict(found)).encode())

    def _from_here(self) -> bool:
        """Whether the request names this server as its host: a foreign name that resolves to it does not."""
        if self.headers.get("Host") in self.server.names:
            return True
        self._refuse(HTTPStatus.FORBIDDEN, f"open {self.server.url} instead.")
        return False

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True  # what is left of the request is not read
        self._send(status, "application/json", json.dumps({"error": why}).encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not printed."""


_KEYS = [[1, 0, 0], [0, 1, 1], [1, 1, 0]]
_HEAD: State = {"mode": "head", "scores": "attention", "temperature": 1, "half": 1, "keys": _KEYS}
_FIRST: tuple[State, ...] = (
    {**_HEAD, "rule": "top-2"},
    {**_HEAD, "rule": "sparsemax"},
    {"mode": "heads", "half": 1, "heads": [_KEYS, _KEYS]},
)


def warm_up() -> None:
    """Compile what answers need before the first question comes: kernels take seconds, once per machine."""
    for state in _FIRST:
        try:
            answer(state)
        except HardmaxError:  # compiling took longer than an answer may; the next one is fast
            continue
