"""``hardmax report``: what both papers say about a trained model, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hardmax.cli.outputs import number, print_json, print_table
from hardmax.errors import InvalidInputError

if TYPE_CHECKING:
    from hardmax.models.report import Report

__all__ = ["report"]


@click.command()
@click.argument("model", required=False)
@click.option("--text", help="The text that the model reads.")
@click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.txt",
    help="The same from a file.",
)
@click.option("--hub", is_flag=True, help="MODEL may be fetched from the Hugging Face hub.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("hardmax-report"),
    show_default=True,
    metavar="DIR",
    help="The folder for report.html, report.json, heads.csv and figures.",
)
@click.option("--read-out", type=int, metavar="POSITION", help="Whose knowledge is shown, from 0.")
@click.option(
    "--influence/--no-influence",
    default=None,
    help="Measure which tokens matter, in many forward passes.  [default: up to 64 tokens]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Without MODEL: of the sequence it reads.")
@click.option("--json", "as_json", is_flag=True, help="Print report.json instead of a table.")
def report(
    model: str | None,
    text: str | None,
    file: Path | None,
    hub: bool,
    out: Path,
    read_out: int | None,
    influence: bool | None,
    seed: int,
    as_json: bool,
) -> None:
    """A trained transformer in one page: geometry and information flow of its attention.

    MODEL is a local folder with safetensors weights and a tokenizer, or a hub id with --hub. Without MODEL the
    small trained transformer that comes with hardmax is read, which needs no torch. The page opens from disk,
    loads nothing from anywhere, and can be printed; each drawing is also a file of its own.

    \b
    Examples:
      hardmax report
      hardmax report path/to/model --text "The cat sat on the mat." --out report
      hardmax report sentence-transformers/all-MiniLM-L6-v2 --hub --file story.txt --json
    """
    from hardmax.models.report import report as make

    if text is not None and file is not None:
        raise InvalidInputError("give --text or --file, not both.")
    if out.exists() and not out.is_dir():
        raise InvalidInputError(f"--out must be a folder, but {out} is a file.")
    if file is not None:
        text = _read_text(file)
    if model is None and text is not None:
        raise InvalidInputError(
            "--text and --file need a MODEL with a tokenizer; the one that comes with hardmax reads vectors."
        )
    if model is not None and text is None:
        raise InvalidInputError("a MODEL reads a text: give --text or --file.")
    found = make(model, text, hub=hub, read_out=read_out, influence=influence, rng=seed)
    written = found.write(out)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
    click.echo(f"wrote {written[0]} and {len(written) - 1} files beside it", err=True)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"--file must be a text in UTF-8, but {path} is not.") from error


def _print(found: Report) -> None:
    heads = found.atlas.heads

    def row(i: int) -> list[str]:
        r = heads[i]
        return [
            str(r.layer),
            str(r.head),
            number(float(r.margin_median)),
            number(float(r.top_probability)),
            f"{r.share_hard_10:.0%}",
            f"{r.share_measured_10:.0%}",
            f"{r.keys_can_win}/{r.keys_can_win_of}",
            str(r.keys_do_win),
            found.atlas.key_tokens[r.sink] if r.sink >= 0 else "",
        ]

    columns = ["layer", "head", "margin", "top", "hard, proven", "hard", "can win", "do win", "sink"]
    notes = ["hard: share of queries within 10 % of hardmax in total variation; margins in units of temperature."]
    for flow in found.flows:
        known = len(flow.known_by(found.read_out))
        notes.append(
            f"{flow.rule}: {flow.tokens[found.read_out]} can know {known} of {len(flow.key_tokens)} positions."
        )
    title = f"{found.atlas.model}: {len(heads)} heads on {len(found.atlas.text_tokens)} tokens"
    print_table(title, columns, row, len(heads), notes)
