"""How a trained model, its text, and a choice of its layers and heads are described on the command line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from hardmax.cli.outputs import FILE
from hardmax.errors import InvalidInputError
from hardmax.models.reading.texts import read_texts, text_of
from hardmax.progress import duration

_DIGITS = 5

Command = TypeVar("Command", bound=Callable[..., Any])


def model_and_text(command: Command) -> Command:
    """MODEL, ``--hub``, ``--text`` and ``--file``."""
    for option in (
        click.option(
            "--hub", is_flag=True, help="MODEL may be a name on the hub; without this, nothing is fetched."
        ),
        click.option("--file", type=FILE, metavar="FILE", help="Read the text from a file."),
        click.option("--text", help="What the model reads."),
        click.argument("model", required=False),
    ):
        command = option(command)
    return command


_TEXTS = click.option(
    "--texts",
    metavar="FILE|GLOB",
    help="Many texts: a file with one per line, a .jsonl file, a .json object of names and texts, or a "
    "quoted glob of text files.",
)
_FIELD = click.option("--field", help="The field of a .jsonl file that holds the text.  [default: text]")


def many_texts(command: Command) -> Command:
    """``--texts``, ``--field`` and ``--checkpoint``."""
    checkpoint = click.option(
        "--checkpoint",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="With --texts: keep every text that was measured in this folder, and go on from there.",
    )
    for option in (checkpoint, _FIELD, _TEXTS):
        command = option(command)
    return command


def texts_of(texts: str | None, field: str | None) -> dict[str, str] | None:
    """The texts of ``--texts``, by name; None where it was not given."""
    if texts is None:
        if field is not None:
            raise InvalidInputError("--field belongs to --texts, which was not given.")
        return None
    return read_texts(texts, field=field)


class TextsDone:
    """One line on the terminal: how many texts are done, how fast, and how long the rest takes."""

    def __init__(self) -> None:
        self._begin, self._first = 0.0, -1

    def __call__(self, done: int, total: int) -> None:
        """Write the line."""
        now, rate = time.monotonic(), ""
        if self._first < 0:
            self._begin, self._first = now, done
        elif now > self._begin:
            speed = (done - self._first) / (now - self._begin)
            left = f", about {duration((total - done) / speed)} left" if done < total else ""
            rate = f", {speed:.1f} texts per second{left}"
        line = f"{done:,} of {total:,} texts{rate}"
        click.echo(f"\r\033[K{line}" + ("\n" if done == total else ""), nl=False, err=True)


def pace(n_texts: int, seconds: float) -> str:
    """How long the texts took, and where the system says so how much memory this process has had at most.

    >>> pace(20, 4.0).partition(" per second")[0]
    '4.0 s, 5 texts'
    """
    peak = peak_memory()
    memory = "" if peak is None else f", at most {peak / 1e6:,.0f} MB of memory"
    return f"{seconds:.1f} s, {n_texts / max(seconds, 1e-9):.3g} texts per second{memory}."


def peak_memory() -> int | None:
    """The largest resident memory of this process so far, in bytes; None where nobody says, as on Windows."""
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most) if sys.platform == "darwin" else int(most) * 1024  # kilobytes, except on macOS


def layers_and_heads(command: Command) -> Command:
    """``--layers`` and ``--heads``."""
    command = click.option("--heads", metavar="LIST", help="Which heads of each layer.")(command)
    return click.option(
        "--layers", metavar="LIST", help="Which layers, counted from 0: 0,3-5. All by default."
    )(command)


def refuse_words(*given: object) -> None:
    """Without MODEL there is no tokenizer: a text is refused."""
    if any(value is not None for value in given):
        raise InvalidInputError("a text needs a MODEL with a tokenizer; the bundled model reads vectors.")


def text_for(
    model: str | None, text: str | None, file: Path | None, texts: dict[str, str] | None = None
) -> Any:
    """The text of ``--text`` or ``--file``, or the texts; MODEL needs one of them. None without MODEL."""
    if model is None:
        refuse_words(text, file, texts)
        return None
    if texts is not None:
        if text is not None or file is not None:
            raise InvalidInputError("give one of --text, --file and --texts.")
        return texts
    if (text is None) == (file is None):
        raise InvalidInputError("give one of --text and --file.")
    return str(text) if file is None else text_of(file)


def number_list(text: str | None, name: str) -> tuple[int, ...] | None:
    """Numbers such as ``0,3-5``, in the order given; None for None.

    >>> number_list("0,3-5", "--layers")
    (0, 3, 4, 5)
    """
    if text is None:
        return None
    numbers: list[int] = []
    for part in text.split(","):
        ends = [end.strip() for end in part.split("-")]
        if len(ends) > 2 or not all(end.isascii() and end.isdigit() for end in ends):
            raise InvalidInputError(f"{name} must be numbers and ranges such as 0,3-5, but was {text!r}.")
        if max(len(end) for end in ends) > _DIGITS:
            raise InvalidInputError(f"{name} must be numbers of at most {_DIGITS} digits, but was {text!r}.")
        low, high = int(ends[0]), int(ends[-1])
        if low > high:
            raise InvalidInputError(f"{name} must have ranges that go up, such as 3-5, but was {text!r}.")
        numbers += range(low, high + 1)
    return tuple(numbers)
