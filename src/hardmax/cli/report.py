"""``hardmax report``: what both papers say about a trained model, as one page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hardmax as hm
from hardmax.cli.atlas import print_corpus
from hardmax.cli.models import layers_and_heads, many_texts, model_and_text, number_list, text_for, texts_of
from hardmax.cli.numbers import REAL, WHOLE, WholeRange
from hardmax.cli.outputs import JSON, check_folder, number, out_folder, print_json, print_table
from hardmax.errors import InvalidInputError

if TYPE_CHECKING:
    from hardmax.models.report.corpus_report import CorpusReport
    from hardmax.models.report.model_report import ModelReport


@click.command()
@model_and_text
@many_texts
@click.option(
    "--full",
    type=WholeRange(min=1),
    metavar="N",
    help="With --texts: how many texts the page keeps in full.  [default: 3]",
)
@layers_and_heads
@click.option("--read-out", type=WHOLE, metavar="POSITION", help="Whose knowledge is shown, counted from 0.")
@click.option(
    "--influence/--no-influence",
    default=None,
    help="Measure which tokens matter, in many forward passes. By default up to 64 tokens.",
)
@click.option(
    "--seed",
    type=WholeRange(min=0),
    default=0,
    show_default=True,
    help="Without MODEL: of the sequence it reads.",
)
@click.option(
    "--time-limit",
    type=REAL,
    metavar="S",
    help="Give up after this many seconds; texts measured so far stay in --checkpoint.",
)
@out_folder("The folder for report.html, report.json, heads.csv and figures.", "hardmax-report")
@JSON
def report(
    model: str | None,
    text: str | None,
    file: Path | None,
    texts: str | None,
    field: str | None,
    checkpoint: Path | None,
    full: int | None,
    layers: str | None,
    heads: str | None,
    read_out: int | None,
    influence: bool | None,
    seed: int,
    time_limit: float | None,
    out: Path,
    as_json: bool,
    hub: bool,
) -> None:
    """A trained transformer in one page: geometry and information flow of its attention.

    With --texts the page has the verdict over all texts, with intervals, and shows one text at a time of
    those that are kept in full.

    MODEL is a folder with a Hugging Face model (safetensors), or with --hub a name on the hub; both need the
    extra models. Without MODEL the bundled model is read. The page opens
    from disk, loads nothing from anywhere and can be printed; each drawing is also a file of its own.

    \b
    Examples:
      hardmax report
      hardmax report ./all-MiniLM-L6-v2 --text "The cat sat on the mat." --out report
      hardmax report ./gpt2 --file page.txt --layers 0,3-5 --no-influence --json
      hardmax report ./all-MiniLM-L6-v2 --texts lines.txt --checkpoint run --out report
    """
    words = text_for(model, text, file, texts_of(texts, field))
    if texts is None and (checkpoint is not None or full is not None):
        option = "--checkpoint" if checkpoint is not None else "--full"
        raise InvalidInputError(f"{option} belongs to --texts, which was not given.")
    check_folder(out)
    shown = sys.stderr.isatty()
    if shown:  # before the packages are loaded, which takes seconds; the bar writes over it
        click.echo("loading", err=True, nl=False)
    found: ModelReport | CorpusReport = hm.report(
        model,
        words,
        hub=hub,
        layers=number_list(layers, "--layers"),
        heads=number_list(heads, "--heads"),
        read_out=read_out,
        influence=influence,
        checkpoint=checkpoint,
        rng=seed,
        time_limit=time_limit,
        progress=shown or None,
        **({} if full is None else {"full": full}),
    )
    if shown:
        click.echo("writing the page", err=True)
    written = found.write(out)
    if as_json:
        print_json(found.to_dict())
    elif isinstance(found, hm.models.ModelReport):
        _print(found)
    else:
        click.echo(f"{found.atlas.model}: {len(found.atlas.layer)} heads on {found.atlas.n_texts} texts")
        for sentence in found.verdict.sentences:
            click.echo(f"- {sentence}")
        print_corpus(found.atlas)
    click.echo(f"wrote {written[0]} and {len(written) - 1} files beside it", err=True)


def _print(found: ModelReport) -> None:
    heads = found.atlas.heads
    rows = [
        [
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
        for r in heads
    ]
    columns = ["layer", "head", "margin", "top", "hard, proven", "hard", "can win", "do win", "sink"]
    notes = [
        "hard: share of queries within 10 % of hardmax in total variation; margins in units of temperature."
    ]
    for flow in found.flows:
        known = len(flow.known_by(found.read_out))
        notes.append(
            f"{flow.rule}: {flow.tokens[found.read_out]} can know {known} of {len(flow.key_tokens)} "
            "positions."
        )
    click.echo(f"{found.atlas.model}: {len(heads)} heads on {len(found.atlas.text_tokens)} tokens")
    for sentence in found.verdict.sentences:
        click.echo(f"- {sentence}")
    print_table("every head", columns, rows, notes)
