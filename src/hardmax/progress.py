"""The ``progress`` option of every verb that takes long: a bar, a function of the caller's, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hardmax.errors import InvalidInputError

_WIDTH = 30  # characters of a bar
_EVERY = 0.1  # seconds between two lines


@dataclass(frozen=True)
class Progress:
    """What a function that watches an enumeration is called with.

    Attributes
    ----------
    n_cells : int
        Cells (pieces, signatures) found so far.
    share : float or None
        Share of the domain that is settled; ``None`` in an unbounded domain.
    seconds : float
        Since this process took up the enumeration.
    """

    n_cells: int
    share: float | None
    seconds: float

    def line(self) -> tuple[float | None, str]:
        """What a bar shows."""
        return self.share, f"{self.n_cells:,} cells, {self.seconds:.0f} s"


@contextmanager
def shown(
    progress: Any, line: Callable[..., tuple[float | None, str]]
) -> Iterator[Callable[..., object] | None]:
    """What a verb calls on its way, with whatever it promises to pass.

    Parameters
    ----------
    progress : bool, callable or None
        ``True`` shows a bar on standard error, a function is called, ``None`` and ``False`` do nothing.
    line : callable
        Called with the same arguments by the bar: the share that is done (``None``: unknown), and a text.

    Examples
    --------
    >>> with shown(print, lambda done, total: (done / total, "layers")) as report:
    ...     report(1, 2)
    1 2
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        bar = Bar(line)
        try:
            yield bar
        finally:
            bar.close()
    elif callable(progress):
        yield progress
    else:
        raise InvalidInputError(
            f"progress must be True (a bar), a function or None, but was {progress!r}; try progress=True."
        )


class Bar:
    """A line of plain text on standard error that is written again and again."""

    def __init__(self, line: Callable[..., tuple[float | None, str]]) -> None:
        self.line = line
        self._text = ""
        self._written = 0  # characters of the line that stands
        self._next = 0.0

    def __call__(self, *args: Any) -> None:
        """Write the line for these arguments, if it is time again."""
        share, text = self.line(*args)
        if share is not None:
            share = min(max(share, 0.0), 1.0)
            filled = int(_WIDTH * share)
            text = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {100.0 * share:3.0f} %  {text}"
        self._text = text
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EVERY
            self._write()

    def _write(self) -> None:
        sys.stderr.write(f"\r{self._text.ljust(self._written)}")
        sys.stderr.flush()
        self._written = len(self._text)

    def close(self) -> None:
        """Leave the last line standing."""
        if self._text:
            self._write()
            sys.stderr.write("\n")
