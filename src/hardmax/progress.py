"""The ``progress`` option of every verb that takes long: a bar, a function of the caller's, or nothing."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from hardmax import limits
from hardmax.errors import InvalidInputError
from hardmax.limits import Clock

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
        Share of the work that is settled: of the volume of the domain, or, where linear programs search, of
        the tree of cells if every split halves it. ``None`` where neither is known.
    seconds : float
        Since this process took up the enumeration.
    outlook : Outlook or None
        After the first second: a bound and a sample of the number of cells
        (:mod:`hardmax.regions.outlook`).
    """

    n_cells: int
    share: float | None
    seconds: float
    outlook: Any = None

    @property
    def estimate(self) -> float | None:
        """About how many cells there are, if the rest of the work is like what is settled: no bound."""
        return self.n_cells / self.share if self.share and self.n_cells else None

    @property
    def seconds_left(self) -> float | None:
        """About how long the rest takes, on the same assumption."""
        return self.seconds * (1.0 / self.share - 1.0) if self.share and self.share <= 1.0 else None

    def line(self) -> tuple[float | None, str]:
        """What a bar shows."""
        text, left = f"{self.n_cells:,} cells", self.seconds_left
        if self.estimate is not None:
            text += f" of about {self.estimate:.3g}"
        text += f", {self.seconds:.0f} s"
        if left is not None and self.share != 1.0:
            text += f", about {duration(left)} left"
        if self.outlook is not None:
            text += f"; {self.outlook}"
        return self.share, text


def duration(seconds: float) -> str:
    """A time as a person says it.

    >>> [duration(s) for s in (3.2, 600, 86400 * 2.5, 1e12, 1e90)]
    ['4 s', '10 min', '3 days', '31,710 years', '3.17e+82 years']
    """
    for size, name in ((60.0, "s"), (3600.0, "min"), (48 * 3600.0, "h"), (2 * 31_536_000.0, "days")):
        if seconds < size:
            unit = {"s": 1.0, "min": 60.0, "h": 3600.0, "days": 86_400.0}[name]
            return f"{math.ceil(seconds / unit)} {name}"
    years = seconds / 31_536_000.0
    return f"{years:,.0f} years" if years < 1e9 else f"{years:.3g} years"


@contextmanager
def shown(
    progress: Any, line: Callable[..., tuple[float | None, str]], clock: Clock | None = None
) -> Iterator[Callable[..., object] | None]:
    """What a verb calls on its way, with whatever it promises to pass.

    With a ``clock`` that has a limit, the call raises an :class:`~hardmax.errors.IncompleteError` when the
    time is over, with the text of the last line, and verbs that are called inside are over with it. Without
    one it asks the clock around it.

    Parameters
    ----------
    progress : bool, callable or None
        ``True`` shows a bar on standard error, a function is called, ``None`` and ``False`` do nothing.
    line : callable
        Called with the same arguments by the bar: the share that is done (``None``: unknown), and a text.
    clock : Clock, optional

    Examples
    --------
    >>> with shown(print, lambda done, total: (done / total, "layers")) as report:
    ...     report(1, 2)
    1 2
    """

    def limited(report: Callable[..., object] | None) -> Callable[..., object] | None:
        own = clock if clock is not None and clock.limited else None
        if own is None and not limits.heard():
            return report

        def look(*args: Any) -> None:
            if report is not None:
                report(*args)
            if own is None:
                limits.look(line(*args)[1])
            else:
                own.check(line(*args)[1])

        return look

    inside = nullcontext() if clock is None else clock.around_calls()
    if progress is None or progress is False:
        with inside:
            yield limited(None)
    elif progress is True:
        bar = Bar(line)
        try:
            with inside:
                yield limited(bar)
        finally:
            bar.close()
    elif callable(progress):
        with inside:
            yield limited(progress)
    else:
        raise InvalidInputError(
            f"progress must be True (a bar), a function or None, but was {progress!r}; try progress=True."
        )


@contextmanager
def watched(progress: Any, clock: Clock) -> Iterator[Callable[[str], None]]:
    """The same for a verb that is made of calls of others: what they say of themselves is shown.

    Yields what says how far it is in words of its own; the words and the seconds go to ``progress``.

    Examples
    --------
    >>> with watched(lambda words, seconds: print(words), Clock(60.0, "ask")) as say:
    ...     say("half of it")
    half of it
    """
    with shown(progress, lambda words, seconds: (None, f"{words}; {seconds:.0f} s in all")) as report:
        clock.watch = report
        with clock.around_calls():
            yield limits.look


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
        if sys.stderr is None:  # closed before the program began
            return
        sys.stderr.write(f"\r{self._text.ljust(self._written)}")
        sys.stderr.flush()
        self._written = len(self._text)

    def close(self) -> None:
        """Leave the last line standing."""
        if self._text:
            self._write()
            if sys.stderr is not None:
                sys.stderr.write("\n")
