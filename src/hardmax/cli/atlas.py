"""``hardmax atlas``: every head of a real model on one text (P1)."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import hardmax as hm
from hardmax.cli.models import layers_and_heads, model_and_text, number_list, text_for
from hardmax.cli.outputs import check_folder, number, out_folder, print_json, print_table

if TYPE_CHECKING:
    from hardmax.models.atlas.head_atlas import HeadAtlas, HeadRecord

_MOST_HEADS = 400
_PLANES: dict[str, Any] = {"tokens": "tokens", "principal": "principal", "none": None}


@click.command()
@model_and_text
@layers_and_heads
@click.option(
    "--positions",
    metavar="LIST",
    help="Queries at which keys that can win and slices are asked for, where they depend on it; the last "
    "query by default.",
)
@click.option(
    "--plane",
    default="tokens",
    show_default=True,
    metavar="tokens|principal|T,T,T|none",
    help="What spans the slices: three tokens that are far apart or named, or principal directions.",
)
@click.option("--time-limit", type=float, default=60.0, show_default=True, help="Seconds per slice.")
@out_folder("Write atlas.npz, atlas.json and heads.csv into this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def atlas(
    model: str | None,
    text: str | None,
    file: Path | None,
    layers: str | None,
    heads: str | None,
    positions: str | None,
    plane: str,
    time_limit: float,
    out: Path | None,
    as_json: bool,
    hub: bool,
) -> None:
    """What every head of a trained model does on one text.

    MODEL is a folder with a Hugging Face model (safetensors), or with --hub a name on the hub; both need the
    extra models. Without MODEL the bundled model is read. Per head:
    margins in units of temperature, distance to hardmax and what margins guarantee for it, keys that can win
    (certified) and keys that do, sinks, distances to walls. Per layer: the exact routing cells of all heads
    together on a plane of inputs.

    \b
    Examples:
      hardmax atlas
      hardmax atlas ./all-MiniLM-L6-v2 --text "The cat sat on the mat."
      hardmax atlas ./gpt2 --file page.txt --layers 0,3-5 --heads 0-3 --json
      hardmax atlas ./gpt2 --file page.txt --positions 7,31 --plane 3,9,12 --out atlas
    """
    from hardmax.models.bundled import bundled_source

    words = text_for(model, text, file)
    if out is not None:
        check_folder(out)
    found = hm.head_atlas(
        bundled_source() if model is None else model,
        words,
        hub=hub,
        layers=number_list(layers, "--layers"),
        heads=number_list(heads, "--heads"),
        positions=number_list(positions, "--positions"),
        plane=_PLANES[plane] if plane in _PLANES else number_list(plane, "--plane"),
        time_limit=time_limit,
        progress=_layer_done if sys.stderr.isatty() else None,
    )
    if out is not None:
        out.mkdir(exist_ok=True)
        for path in (
            found.save(out / "atlas.npz"),
            found.to_json(out / "atlas.json"),
            found.to_csv(out / "heads.csv"),
        ):
            click.echo(f"saved {path}", err=True)
    if as_json:
        print_json(found.summary())
        return
    _print_heads(found)
    if found.slices:
        click.echo()
        _print_slices(found)


def _layer_done(done: int, total: int) -> None:
    click.echo(f"\rlayer {done} of {total}" + ("\n" if done == total else ""), nl=False, err=True)


def _short(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3g}"


def _percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.0f}"


def _print_heads(found: HeadAtlas) -> None:
    names = found.key_tokens

    def row(record: HeadRecord) -> list[str]:
        at = "" if record.position < 0 else f" at {record.position}"
        sink = f"{names[record.sink]} ({_percent(record.sink_share)} %)" if record.sink >= 0 else ""
        return [
            str(record.layer),
            str(record.head),
            _short(record.margin_median),
            f"{_short(record.margin_low)}..{_short(record.margin_high)}",
            _short(record.top_probability),
            _short(record.tv_to_hardmax),
            _short(record.output_distance),
            f"{_percent(record.share_hard_1)}/{_percent(record.share_measured_1)}",
            f"{_percent(record.share_hard_10)}/{_percent(record.share_measured_10)}",
            f"{record.keys_can_win}/{record.keys_can_win_of}{at}",
            _short(record.largest_reach_margin),
            _short(record.largest_reach_probability_bound),
            str(record.keys_do_win),
            _short(record.usage_entropy),
            _short(record.wall_distance_median),
            sink,
        ]

    reading = found.reading
    notes = [
        "margin: lead of the winner in units of temperature (median, then 10 % to 90 %).",
        "TV: total variation distance to hardmax; out: distance of the outputs of softmax and hardmax, over "
        "the norm of the former (medians).",
        "1 %, 10 %: queries in per cent that are so close to hardmax: guaranteed by their margin / measured.",
        "can: keys whose cell has interior, certified, of those that may be read; do: keys that win.",
        "reach, p at most: the largest margin and probability possible at the query norms that occur.",
        "entropy: of wins, in bits; wall: median distance of queries to the boundary of their cell.",
        f"Fidelity: scores within {number(reading.score_difference)}, probabilities within "
        f"{number(reading.probability_difference)} of the model's own.",
        f"{found.seconds:.1f} s, {found.cpu_seconds:.1f} s of processor time: {found.ratio:.0f} times the "
        "model's plain forward pass.",
        *found.notes,
    ]
    columns = [
        "layer", "head", "margin", "10..90 %", "top p", "TV", "out", "1 %", "10 %", "can", "reach",
        "p at most", "do", "entropy", "wall", "sink",
    ]  # fmt: skip
    title = f"{found.model} ({found.family}) on {len(found.text_tokens)} tokens"
    print_table(title, columns, map(row, found.heads), notes, most=_MOST_HEADS)


def _print_slices(found: HeadAtlas) -> None:
    rows = [
        [
            str(piece.layer),
            str(piece.n_cells) + ("" if piece.complete else "+"),
            " ".join(str(n) for n in piece.n_cells_per_head),
            str(piece.n_cells_plane) + ("" if piece.complete else "+"),
            str(piece.refinement_bound),
            "any" if piece.any_position else str(piece.position),
            _percent(float(np.nanmean(piece.token_agreement))),
            f"{piece.n_checked}/{piece.n_cells}",
        ]
        for piece in found.slices
    ]
    planes = {piece.spanned_by for piece in found.slices}
    spanned = planes.pop() if len(planes) == 1 else "three tokens of each layer"
    frozen = sorted({word for piece in found.slices for word in piece.frozen})
    notes = [
        "cells: routings of all heads together around the tokens, exactly; per head: of each alone.",
        "plane: on the whole plane; at most: of heads with as many keys.",
        "agree: heads in per cent whose winner at a token's place in the plane is its real one.",
        "checked: cells whose routing plain floats confirmed.",
        *([f"Held fixed to make queries affine: {', '.join(frozen)}."] if frozen else []),
        *(["+: the time was up, there are more."] if not all(p.complete for p in found.slices) else []),
    ]
    columns = ["layer", "cells", "per head", "plane", "at most", "position", "agree", "checked"]
    print_table(f"Cells on the plane of {spanned}", columns, rows, notes)
