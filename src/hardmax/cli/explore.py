"""``hardmax explore``: keys that one drags, in the browser."""

from __future__ import annotations

from pathlib import Path

import click

import hardmax as hm
from hardmax.cli.numbers import WholeRange
from hardmax.cli.outputs import check_folder


@click.command()
@click.argument("scene", required=False)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.html",
    help="Write the page into this file instead of serving it.",
)
@click.option(
    "--port", type=WholeRange(0, 65535), default=0, help="Where to listen; by default any free port."
)
@click.option("--browser/--no-browser", default=True, help="Open the page in the browser.")
@click.option("--list", "listed", is_flag=True, help="List the scenes.")
def explore(scene: str | None, out: Path | None, port: int, browser: bool, listed: bool) -> None:
    """Drag keys and see what follows: cells, heads that add up, depth, information flow.

    SCENE is what is shown first. The page is served on this machine only, and its counts are confirmed by the
    library when a key is released; Ctrl-C ends it. With --out it becomes one HTML file that opens from disk,
    loads nothing and confirms its counts itself.

    \b
    Examples:
      hardmax explore
      hardmax explore sawtooth --no-browser --port 8000
      hardmax explore --out explorer.html
    """
    if listed:
        for one in hm.explorer.scenes():
            click.echo(f"{one['name']:<12}{one['title']} ({one['from']})")
        return
    found = hm.explore(scene)
    if out is not None:
        check_folder(out)
        click.echo(f"wrote {found.save(out)}", err=True)
        return
    found.serve(
        port=port, browser=browser, ready=lambda url: click.echo(f"the explorer is at {url} (Ctrl-C ends it)")
    )
