"""The command ``hardmax``: one thin command per question, each with ``--json`` for machines.

Wrong input ends with exit code 2 and one sentence on standard error, an interrupt with 130, a failure that is
not the user's with 1; none of them with a traceback. Files are data: they are never unpickled and never run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from hardmax.errors import CertificateError, HardmaxError, IncompleteError, MissingExtraError

__all__ = ["main"]

WRONG_INPUT = 2
NOT_THE_USERS_FAULT = 1
INTERRUPTED = 130


class Commands(click.Group):
    """The group of all commands; it turns every foreseen failure into one sentence and an exit code."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **options: Any) -> Any:
        """Run the command line and leave with its exit code."""
        try:
            code = super().main(args, *others, **{**options, "standalone_mode": False})
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
    click.echo(f"hardmax: {' '.join(sentence.split())}", err=True)
    sys.exit(code)


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
        report.report,
        explore.explore,
        reproduce.reproduce,
        claims.claims,
        installation.compile_kernels,
        installation.versions,
    ):
        main.add_command(command)


_add_commands()
