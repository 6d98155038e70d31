"""The ``time_limit`` option of verbs that can take long: one clock per call, seen between pieces of work."""

from __future__ import annotations

from time import monotonic

from hardmax.errors import IncompleteError, InvalidInputError


class Clock:
    """How long a call has run, and whether its time is over; without a limit it never is.

    Parameters
    ----------
    time_limit : float, optional
        Seconds, from now on.
    task : str
        What the time is for, as the error says it.

    Examples
    --------
    >>> Clock(None, "find all cells").over
    False
    >>> Clock(-1.0, "find all cells")
    Traceback (most recent call last):
    hardmax.errors.InvalidInputError: time_limit must be a positive number of seconds, but was -1.0.
    """

    def __init__(self, time_limit: float | None, task: str = "") -> None:
        if time_limit is not None and not time_limit > 0:
            raise InvalidInputError(f"time_limit must be a positive number of seconds, but was {time_limit}.")
        self.time_limit, self.task = time_limit, task
        self.begin = monotonic()

    @property
    def seconds(self) -> float:
        """Since the call began."""
        return monotonic() - self.begin

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return self.time_limit is not None and self.seconds > self.time_limit

    def check(self, done: str) -> None:
        """Raise :class:`~hardmax.errors.IncompleteError`, with what was ``done``, if the time is over."""
        if self.over:
            raise IncompleteError(
                f"time_limit must be enough to {self.task}, but was {self.time_limit:g} s; so far: {done}."
            )
