"""The command ``hardmax``: one thin command per question, each with ``--json`` for machines.

Wrong input ends with exit code 2 and one sentence on standard error, an interrupt with 130, a failure that is
not the user's with 1; none of them with a traceback. Files are data: they are never unpickled and never run.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn, TextIO

import click

from hardmax.errors import CertificateError, HardmaxError, IncompleteError, MissingExtraError, readable

__all__ = ["main"]

WRONG_INPUT = 2
NOT_THE_USERS_FAULT = 1
INTERRUPTED = 130


class Commands(click.Group):
    """The group of all commands; it turns every foreseen failure into one sentence and an exit code."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **options: Any) -> Any:
        """Run the command line and leave with its exit code."""
        _open_streams()
        try:
            code = super().main(args, *others, **{**options, "standalone_mode": False})
            sys.stdout.flush()  # what is written only when the process ends would fail without a sentence
        except BrokenPipeError:  # the reader has left; nobody is there to be told
            _drop(sys.stdout)
            sys.exit(NOT_THE_USERS_FAULT)
        except (click.Abort, KeyboardInterrupt):
            _leave("interrupted.", INTERRUPTED)
        except click.ClickException as error:
            _leave(error.format_message().replace(". Did you", "; did you"), error.exit_code)
        except (MissingExtraError, IncompleteError, CertificateError) as error:
            _leave(str(error), NOT_THE_USERS_FAULT)
        except HardmaxError as error:
            _leave(str(error), WRONG_INPUT)
        except OSError as error:
            _leave(_failure(error), WRONG_INPUT)
        except MemoryError:
            _leave("the input is too large for the memory of this machine.", NOT_THE_USERS_FAULT)
        sys.exit(code if isinstance(code, int) else 0)


def _failure(error: OSError) -> str:
    """A sentence of ours as it is; one of the operating system with the file that it is about."""
    if not error.strerror:
        return str(error)
    where = f" {error.filename}" if error.filename else ""
    reason = error.strerror[0].lower() + error.strerror[1:]
    return f"cannot read or write{where}: {reason}; try another place."


def _leave(sentence: str, code: int) -> NoReturn:
    try:
        click.echo(f"hardmax: {readable(' '.join(sentence.split()))}", err=True)
    except OSError:  # standard error is full or gone: the exit code says it
        _drop(sys.stderr)
    _drop_unwritten()
    sys.exit(code)


class _NoStream(io.TextIOBase):
    """Stands for a standard output that was closed before the program began: nothing can be written."""

    def write(self, text: str) -> int:
        """Fail as a closed file does, but for nothing at all."""
        if text:
            raise OSError(errno.EBADF, "standard output is closed")
        return 0


def _open_streams() -> None:
    """Python sets streams that were closed before it began to None; nothing here expects that."""
    if sys.stdout is None:
        sys.stdout = _NoStream()
    if sys.stderr is None:  # what is said there is no result
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _drop(stream: TextIO) -> None:
    """Let what is still waiting to be written go nowhere, or Python would fail once more when it ends."""
    with suppress(OSError, ValueError):
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, stream.fileno())
        os.close(handle)


def _drop_unwritten() -> None:
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _drop(sys.stdout)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="hardmax", message="%(package)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """What a transformer can express, computed exactly.

    Input files hold plain numbers: .npy, .npz or .csv. Every command prints a table, or JSON with --json.

    \b
    Examples:
      hardmax diagram keys.csv --plot diagram.svg
      hardmax minkowski head0.npy head1.npy --json
      hardmax regions network.npz --box -4 4 --plot cells.png
      hardmax report
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _add_commands() -> None:
    from hardmax.cli import (
        atlas,
        boundary,
        bounds,
        claims,
        compare,
        diagrams,
        estimate,
        experts,
        explore,
        flips,
        flow,
        influence,
        installation,
        regions,
        report,
        reproduce,
        stability,
        trace,
        training,
        verify,
    )

    for command in (
        diagrams.diagram,
        diagrams.minkowski,
        regions.regions,
        boundary.boundary,
        trace.trace,
        estimate.estimate,
        verify.verify,
        bounds.bounds,
        stability.stability,
        flow.flow,
        influence.influence,
        training.training,
        atlas.atlas,
        compare.compare,
        compare.along_training,
        flips.flips,
        experts.experts,
        report.report,
        explore.explore,
        reproduce.reproduce,
        claims.claims,
        installation.compile_kernels,
        installation.versions,
    ):
        main.add_command(command)


_add_commands()
