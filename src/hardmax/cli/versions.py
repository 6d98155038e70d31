"""``hardmax versions``: what is installed, for a bug report."""

from __future__ import annotations

import click

from hardmax.cli.outputs import print_json, print_table
from hardmax.versions import installed_versions

__all__ = ["versions"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def versions(as_json: bool) -> None:
    """Print the versions of hardmax and of what it stands on.

    \b
    Example:
      hardmax versions --json
    """
    found = installed_versions()
    if as_json:
        print_json(found)
    else:
        lines = [[name, version or "not installed"] for name, version in found.items()]
        print_table("Installed versions", ["package", "version"], lines.__getitem__, len(lines))
