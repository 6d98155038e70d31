"""``hardmax atlas``: every head of a real model on one text, or on many (P1)."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import hardmax as hm
from hardmax.cli.models import (
    TextsDone,
    layers_and_heads,
    many_texts,
    model_and_text,
    number_list,
    pace,
    text_for,
    texts_of,
)
from hardmax.cli.numbers import REAL, TIME_LIMIT, WholeRange
from hardmax.cli.outputs import check_folder, number, out_folder, print_json, print_table
from hardmax.errors import InvalidInputError

if TYPE_CHECKING:
    from hardmax.models.atlas.corpus_atlas import CorpusAtlas, CorpusHead
    from hardmax.models.atlas.head_atlas import HeadAtlas, HeadRecord

_MOST_HEADS = 400
_PLANES: dict[str, Any] = {"tokens": "tokens", "principal": "principal", "none": None}


@click.command()
@model_and_text
@many_texts
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
@click.option(
    "--slice-limit", type=REAL, default=60.0, show_default=True, metavar="S", help="Seconds per slice."
)
@TIME_LIMIT
@click.option(
    "--generate",
    type=WholeRange(min=1),
    metavar="N",
    help="Let a causal language model write N tokens behind --text, and show what its heads read meanwhile.",
)
@out_folder("Write atlas.npz, atlas.json and heads.csv into this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def atlas(
    model: str | None,
    text: str | None,
    file: Path | None,
    texts: str | None,
    field: str | None,
    checkpoint: Path | None,
    layers: str | None,
    heads: str | None,
    positions: str | None,
    plane: str,
    slice_limit: float,
    time_limit: float | None,
    generate: int | None,
    out: Path | None,
    as_json: bool,
    hub: bool,
) -> None:
    """What every head of a trained model does on one text, or on many.

    MODEL is a folder with a Hugging Face model (safetensors), or with --hub a name on the hub; both need the
    extra models. Without MODEL the bundled model is read. Per head:
    margins in units of temperature, distance to hardmax and what margins guarantee for it, keys that can win
    (certified) and keys that do, sinks, distances to walls. Per layer: the exact routing cells of all heads
    together on a plane of inputs. With --texts: means over texts with intervals over texts, without keys
    that can win and cells.

    \b
    Examples:
      hardmax atlas
      hardmax atlas ./all-MiniLM-L6-v2 --text "The cat sat on the mat."
      hardmax atlas ./gpt2 --file page.txt --layers 0,3-5 --heads 0-3 --json
      hardmax atlas ./gpt2 --file page.txt --positions 7,31 --plane 3,9,12 --out atlas
      hardmax atlas ./all-MiniLM-L6-v2 --texts lines.txt --checkpoint run --out atlas
      hardmax atlas ./gpt2 --text "Once upon a time" --generate 20
    """
    from hardmax.models.atlas.head_atlas import HeadAtlas
    from hardmax.models.bundled import bundled_source

    words = text_for(model, text, file, texts_of(texts, field))
    if out is not None:
        check_folder(out)
    if generate is not None:
        if model is None or texts is not None or layers or heads or positions or hub:
            raise InvalidInputError(
                "--generate takes a MODEL folder and --text or --file, and no choice of heads."
            )
        _print_generation(model, words, generate, time_limit, out, as_json)
        return
    if texts is not None and (positions is not None or plane != "tokens"):
        raise InvalidInputError("--positions and --plane belong to one text; leave them out with --texts.")
    if checkpoint is not None and texts is None:
        raise InvalidInputError("--checkpoint belongs to --texts, which was not given.")
    done: Any = _layer_done if texts is None else TextsDone()
    found: HeadAtlas | CorpusAtlas = hm.head_atlas(
        bundled_source() if model is None else model,
        words,
        hub=hub,
        layers=number_list(layers, "--layers"),
        heads=number_list(heads, "--heads"),
        positions=number_list(positions, "--positions"),
        plane=_PLANES[plane] if plane in _PLANES else number_list(plane, "--plane"),
        slice_limit=slice_limit,
        time_limit=time_limit,
        checkpoint=checkpoint,
        progress=done if sys.stderr.isatty() else None,
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
    if not isinstance(found, HeadAtlas):
        print_corpus(found)
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


def print_corpus(found: CorpusAtlas) -> None:
    """Print means over texts with intervals, head by head."""

    def ends(record: CorpusHead, name: str, percent: bool = False) -> str:
        mean, low, high = (part[name] for part in (record.mean, record.low, record.high))
        form = _percent if percent else _short
        return f"{form(mean)} ({form(low)}..{form(high)})" if not math.isnan(low) else form(mean)

    def row(record: CorpusHead) -> list[str]:
        return [
            str(record.layer),
            str(record.head),
            ends(record, "margin"),
            ends(record, "top_probability"),
            ends(record, "share_within_10", percent=True),
            _percent(record.mean["share_hard_10"]),
            ends(record, "entropy"),
            ends(record, "win_entropy"),
            f"{record.sink} on {record.sink_texts}" if record.sink else "",
            ends(record, "sink_share", percent=True) if record.sink else "",
        ]

    total = int(found.n_tokens.sum())
    notes = [
        f"Means over texts, in brackets {100 * found.confidence:g} % intervals over texts (Student's t).",
        "margin: median lead of the winner in units of temperature; top p: median probability of the winner.",
        "10 %: queries in per cent that are within 10 % of hardmax; sure: those whose margin guarantees it.",
        "entropy: of the probabilities, in bits; of wins: over the largest possible.",
        "sink: the most frequent one and on how many texts; share: its readers in per cent that it wins.",
        f"Fidelity: probabilities within {number(found.probability_difference)} of the model's own.",
        pace(found.n_texts, found.seconds),
    ]
    columns = ["layer", "head", "margin", "top p", "10 %", "sure", "entropy", "of wins", "sink", "share"]
    title = f"{found.model} ({found.family}) on {found.n_texts} texts, {total} tokens"
    print_table(title, columns, map(row, found.heads), notes, most=_MOST_HEADS)


def _print_generation(
    model: str, prompt: str, n_steps: int, time_limit: float | None, out: Path | None, as_json: bool
) -> None:
    done = _token_done if sys.stderr.isatty() else None
    found = hm.models.generation_atlas(model, prompt, n_steps=n_steps, time_limit=time_limit, progress=done)
    if out is not None:
        out.mkdir(exist_ok=True)
        click.echo(f"saved {found.save(out / 'atlas.npz')}", err=True)
    if as_json:
        print_json(found.to_dict())
        return
    rows = [
        [
            found.tokens[found.n_prompt - 1 + step],
            found.written[step],
            str(found.n_keys[step]),
            str(int(found.within_10[step].sum())),
            _short(float(np.nanmedian(found.top_probabilities[step]))),
            " ".join(
                f"{n}.{h}:{found.tokens[w]}"
                for n, h, w, hard in zip(
                    found.layer, found.head, found.winners[step], found.within_10[step], strict=True
                )
                if hard
            ),
        ]
        for step in range(n_steps)
    ]
    notes = [
        "hard: heads within 10 % of hardmax; reads: what they read (layer.head:token); top p: median.",
        f"Fidelity: probabilities within {number(found.probability_difference)} of the model's own.",
    ]
    columns = ["asks", "writes", "keys", "hard", "top p", "reads"]
    print_table(f"{found.model} writes {n_steps} tokens", columns, rows, notes, most=_MOST_HEADS)


def _token_done(done: int, total: int) -> None:
    click.echo(f"\rtoken {done} of {total}" + ("\n" if done == total else ""), nl=False, err=True)


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
