"""The ``time_limit`` option of verbs that can take long: one clock per call, seen between pieces of work.

``time_limit`` is the limit of the whole call, everywhere. A clock can stand around other calls
(:meth:`Clock.around_calls`): the clocks of verbs that are called meanwhile are over with it, and :func:`look`
asks it where a piece of work has no clock of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from hardmax.errors import IncompleteError, InvalidInputError, written

_AROUND: ContextVar[Clock | None] = ContextVar("the clock around this call", default=None)
_SHORTEST = 1e-3  # seconds that are left to an inner call, so that it is one


class Clock:
    """How long a call has run, and whether its time is over; without a limit it never is.

    Parameters
    ----------
    time_limit : float, optional
        Seconds, from now on.
    task : str
        What the time is for, as the error says it.

    Attributes
    ----------
    watch : callable or None
        Called with words and seconds whenever a call inside :meth:`around_calls` says how far it is.

    Examples
    --------
    >>> Clock(None, "find all cells").over
    False
    >>> Clock(-1.0, "find all cells")
    Traceback (most recent call last):
    hardmax.errors.InvalidInputError: time_limit must be a positive number of seconds, but was -1.0.
    """

    def __init__(self, time_limit: float | None, task: str = "") -> None:
        self.time_limit, self.task = seconds_of("time_limit", time_limit), task
        self.watch: Callable[[str, float], object] | None = None
        self.around = _AROUND.get()
        self.done = "nothing yet"
        if self.around is not None:
            self.around.check()
        self.begin = monotonic()

    @property
    def seconds(self) -> float:
        """Since the call began."""
        return monotonic() - self.begin

    @property
    def limited(self) -> bool:
        """Whether it can ever be over."""
        return self.time_limit is not None or (self.around is not None and self.around.limited)

    @property
    def left(self) -> float | None:
        """Seconds until it is over, or very few, as the limit of a call inside; None without a limit."""
        own = None if self.time_limit is None else max(self.time_limit - self.seconds, _SHORTEST)
        outer = None if self.around is None else self.around.left
        return own if outer is None else outer if own is None else min(own, outer)

    @property
    def over(self) -> bool:
        """Whether the time is over, its own or that of a clock around it."""
        if self.time_limit is not None and self.seconds > self.time_limit:
            return True
        return self.around is not None and self.around.over

    def check(self, done: str | None = None) -> None:
        """Raise :class:`~hardmax.errors.IncompleteError`, with what was ``done``, if the time is over."""
        if done is not None:
            self.done = done
        if self.time_limit is not None and self.seconds > self.time_limit:
            raise IncompleteError(
                f"time_limit must be enough to {self.task}, but was {self.time_limit:g} s; so far: "
                f"{self.done}."
            )
        if self.around is not None:
            self.around.hear(done)

    def hear(self, words: str | None) -> None:
        """What a call inside says of itself: it is passed on, and the clock is looked at."""
        if self.watch is not None and words is not None:
            self.done = words
            self.watch(words, self.seconds)
        self.check()

    @contextmanager
    def around_calls(self) -> Iterator[None]:
        """Calls inside are over with this clock, and what they leave unfinished does not get out.

        Examples
        --------
        >>> clock = Clock(60.0, "ask twice")
        >>> with clock.around_calls():
        ...     Clock(None).limited, Clock(90.0).left <= 60.0
        (True, True)
        """
        if not self.limited and self.watch is None:
            yield
            return
        token = _AROUND.set(self)
        try:
            yield
        except Exception:
            self.check()  # what went wrong may be a part that was cut short
            raise
        else:
            self.check()
        finally:
            _AROUND.reset(token)


def look(words: str | None = None) -> None:
    """Raise :class:`~hardmax.errors.IncompleteError` if the time of a call around this one is over.

    For long loops inside of verbs, which know no clock; ``words`` say how far they are.

    Examples
    --------
    >>> look()
    """
    clock = _AROUND.get()
    if clock is not None:
        clock.hear(words)


def heard() -> bool:
    """Whether there is a clock around this call, so that :func:`look` means something."""
    return _AROUND.get() is not None


def left(time_limit: float | None) -> float | None:
    """A limit of one's own, or what is left to the call around it where that is less.

    >>> left(3.0), left(None)
    (3.0, None)
    """
    clock = _AROUND.get()
    outer = None if clock is None else clock.left
    return time_limit if outer is None else outer if time_limit is None else min(time_limit, outer)


def seconds_of(name: str, value: float | None) -> float | None:
    """A number of seconds, checked; None stays None.

    >>> seconds_of("time_limit", 3), seconds_of("slice_limit", None)
    (3.0, None)
    """
    if value is None:
        return None
    try:
        seconds = math.nan if isinstance(value, (str, bool)) else float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    except OverflowError:
        seconds = math.inf if value > 0 else -math.inf
    if not seconds > 0:
        raise InvalidInputError(f"{name} must be a positive number of seconds, but was {written(value)}.")
    return seconds
