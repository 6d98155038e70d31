"""Every exception of hardmax, named after the situation a user is in.

Each message is one sentence that says which argument is meant, what it must be, what it was and, where one
exists, what to try. All of them derive from :class:`HardmaxError`, so one ``except`` catches what the library
itself reports; the second base class (``ValueError``, ``ImportError``, ...) is the one that Python users
expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

__all__ = [
    "BiasedDiagramError",
    "CertificateError",
    "DamagedFileError",
    "DimensionMismatchError",
    "EmptyDomainError",
    "FidelityError",
    "FileFormatError",
    "GrowingActiveSetError",
    "HardmaxError",
    "IncompleteError",
    "InvalidInputError",
    "MissingExtraError",
    "NotFiniteError",
    "TargetSyntaxError",
    "UnsupportedDimensionError",
    "UnsupportedModelError",
    "UnsupportedNetworkError",
]


LONGEST_SENTENCE = 1200
"""Characters of a message; a longer one is shortened in its middle, where what was given stands."""


def readable(text: str, longest: int = LONGEST_SENTENCE) -> str:
    """``text`` without control characters, and shortened in its middle where it is too long.

    A file's name or contents may hold anything: characters that move the cursor, reverse the direction of
    writing or cannot be seen are shown as escapes.

    Examples
    --------
    >>> readable("bell \\x07 and \\x1b[31m")
    'bell \\\\x07 and \\\\x1b[31m'
    >>> readable("hidden\\u200b"), len(readable("\\u202e" * 10**4)) <= LONGEST_SENTENCE
    ('hidden\\\\u200b', True)
    >>> readable("0123456789" * 1000, 40)
    '01234567 ... 9,984 more characters ... 23456789'
    """
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    if len(text) > longest:
        kept = max(longest - 30 - len(f"{len(text):,}"), 16) // 2
        note = f" ... {len(text) - 2 * kept:,} more characters ... "
        text = text[:kept] + note + text[len(text) - kept :]
    return text


def written(value: Any) -> str:
    """A value as a sentence says it; Python refuses to write integers of more than 4,300 digits.

    Examples
    --------
    >>> written(-3), written("x"), written(1 << 40_000)
    ('-3', "'x'", 'an integer of 40,001 bits')
    """
    if isinstance(value, int) and value.bit_length() > 4_000:
        return f"{'a negative' if value < 0 else 'an'} integer of {value.bit_length():,} bits"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(written, value))}]"
    return repr(value)


class HardmaxError(Exception):
    """Base class of every error that hardmax raises on purpose."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*(readable(arg) if isinstance(arg, str) else arg for arg in args))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies, and errors from other processes, are made of the sentence, not of what it was made of."""
        return _restored, (type(self), self.args, self.__dict__)

    def about(self, where: str) -> Self:
        """The same error, with ``where`` in front of its sentence.

        >>> str(TargetSyntaxError("max(s", 6, "a bracket is open").about("plan.json"))
        "plan.json: column 6 of 'max(s': a bracket is open."
        """
        error = copy(self)
        error.args = (readable(f"{where}: {self}"),)
        return error


def _restored(cls: type[HardmaxError], sentence: tuple[Any, ...], state: dict[str, Any]) -> HardmaxError:
    error = cls.__new__(cls, *sentence)
    error.__dict__.update(state)
    return error


class InvalidInputError(HardmaxError, ValueError):
    """An argument is not what the mathematics needs."""


class DimensionMismatchError(InvalidInputError):
    """Two arguments live in spaces of different dimension, or have lengths that do not fit together."""


class NotFiniteError(InvalidInputError):
    """An array holds NaN or an infinity where a real number is needed."""


class EmptyDomainError(InvalidInputError):
    """A domain has no interior, so it holds no full-dimensional cell."""


class BiasedDiagramError(InvalidInputError):
    """A question that only makes sense for unbiased keys was asked of a biased diagram."""


class UnsupportedDimensionError(InvalidInputError):
    """The dimension is outside the range for which this question has an algorithm here."""


class GrowingActiveSetError(InvalidInputError):
    """A target depends on more and more tokens as sequences grow, so it is not one that retrieves."""


class TargetSyntaxError(InvalidInputError):
    """The text form of a target cannot be read; ``column`` says where, counted from 1."""

    def __init__(self, text: str, column: int, problem: str) -> None:
        super().__init__(f"column {column} of {text!r}: {problem}" + ("" if problem.endswith("?") else "."))
        self.column = column


class UnsupportedModelError(InvalidInputError):
    """A model computes attention in a way that is not understood; ``obstacles`` lists all of them."""

    def __init__(self, model: str, obstacles: Sequence[str], families: Sequence[str]) -> None:
        reasons = "; ".join(f"({i}) {reason}" for i, reason in enumerate(obstacles, 1))
        super().__init__(
            f"model must be one whose attention is understood, but {model} cannot be read: {reasons}; "
            f"families that are read: {', '.join(families)}."
        )
        self.obstacles = tuple(obstacles)


class UnsupportedNetworkError(InvalidInputError):
    """A network holds operations that are not read exactly; ``obstacles`` lists all of them."""

    def __init__(self, obstacles: Sequence[str], advice: str = "") -> None:
        reasons = "; ".join(f"({i}) {reason}" for i, reason in enumerate(obstacles, 1))
        super().__init__(
            "network must be made of operations that are read exactly, but holds "
            f"{obstacles[0] if len(obstacles) == 1 else reasons}{f'; {advice}' if advice else ''}."
        )
        self.obstacles = tuple(obstacles)


class FidelityError(HardmaxError, RuntimeError):
    """What was read from a model does not give back what the model computes itself."""


class FileFormatError(HardmaxError, ValueError):
    """A file is truncated, foreign, newer than this version, or not what its name says."""


class DamagedFileError(FileFormatError):
    """A file is damaged, or was changed after it was written; the message names the part."""


class MissingExtraError(HardmaxError, ImportError):
    """An optional package is not installed; the message says what to install."""


class IncompleteError(HardmaxError, RuntimeError):
    """A computation was stopped before its answer was certain."""


class CertificateError(HardmaxError, RuntimeError):
    """A certificate failed its check; this is a defect of hardmax, not of the input."""
