"""How a trained model, its text, and a choice of its layers and heads are described on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from hardmax.cli.outputs import FILE
from hardmax.errors import FileFormatError, InvalidInputError

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


def text_for(model: str | None, text: str | None, file: Path | None) -> str | None:
    """The text of ``--text`` or ``--file``, of which MODEL needs one; None without MODEL."""
    if model is None:
        refuse_words(text, file)
        return None
    if (text is None) == (file is None):
        raise InvalidInputError("give one of --text and --file.")
    return str(text) if file is None else words_of(file)


def words_of(file: Path) -> str:
    """What a text file holds."""
    if not file.is_file():
        raise FileNotFoundError(f"{file} must be a text file, but does not exist or is a folder.")
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{file} must be a text file in UTF-8, but is not.") from error


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
