"""``hardmax flips``: which decisions of heads and routers low precision cannot change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import hardmax as hm
from hardmax.cli.inputs import naming, read_result, read_scores
from hardmax.cli.models import layers_and_heads, model_and_text, number_list, text_for
from hardmax.cli.numbers import TIME_LIMIT, WHOLE
from hardmax.cli.outputs import (
    FILE,
    check_targets,
    counted,
    number,
    output_options,
    print_json,
    print_table,
    save_and_draw,
)
from hardmax.errors import InvalidInputError
from hardmax.results import plain

if TYPE_CHECKING:
    from hardmax.models.atlas.router_flips import RouterFlips

_MOST_HEADS = 400


@click.command()
@model_and_text
@layers_and_heads
@click.option(
    "--logits",
    type=FILE,
    metavar="FILE",
    help="Router logits instead of a model: one decision per row, -inf for an absent expert.",
)
@click.option(
    "--dtype",
    default="bfloat16",
    show_default=True,
    help="float32, bfloat16, float16, float8_e4m3 or float8_e5m2.",
)
@click.option("--k", type=WHOLE, default=1, show_default=True, help="How many keys or experts win.")
@click.option(
    "--accumulate", default="float32", show_default=True, help="In which format products are summed."
)
@click.option(
    "--score-dtype", help="In which format scores are kept; that of --dtype, bfloat16 for eight bits."
)
@TIME_LIMIT
@output_options
def flips(
    model: str | None,
    text: str | None,
    file: Path | None,
    layers: str | None,
    heads: str | None,
    logits: Path | None,
    dtype: str,
    k: int,
    accumulate: str,
    score_dtype: str | None,
    time_limit: float | None,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
    hub: bool,
) -> None:
    """Which decisions of heads and routers arithmetic of low precision cannot change.

    MODEL is a folder with a Hugging Face model, or with --hub a name on the hub; without MODEL the bundled
    model is read. A decision is the set of the K keys with the largest scores. It cannot flip if its margin
    survives rounding in any order of summation; that is proven, not sampled.
    JSON has every decision.

    \b
    Examples:
      hardmax flips
      hardmax flips ./all-MiniLM-L6-v2 --text "The cat sat on the mat." --dtype bfloat16
      hardmax flips ./all-MiniLM-L6-v2 --file page.txt --dtype float16 --plot flips.svg
      hardmax flips --logits router.npy --k 2 --dtype float8_e4m3 --json
    """
    from hardmax.models.bundled import bundled_source

    check_targets(out, plot)
    options: dict[str, Any] = {"dtype": dtype, "k": k, "accumulate": accumulate, "score_dtype": score_dtype}
    options["time_limit"] = time_limit
    if logits is None:
        words = text_for(model, text, file)
        found = hm.models.router_flips(
            bundled_source() if model is None else model,
            words,
            layers=number_list(layers, "--layers"),
            heads=number_list(heads, "--heads"),
            hub=hub,
            **options,
        )
    else:
        if any(given is not None for given in (model, text, file, layers, heads)):
            raise InvalidInputError("--logits stands alone: leave out MODEL, the text, --layers and --heads.")
        found = read_result(logits, "RouterFlips")
        if found is None:
            with naming(logits):
                found = hm.models.router_flips(np.atleast_2d(read_scores(logits)), **options)
    save_and_draw(found, out, plot)
    if as_json:
        more = {
            "share": found.share,
            "layer_shares": dict(zip(found.layers, found.layer_shares, strict=True)),
        }
        print_json({**found.to_dict(), **more, "heads": plain(found._table())})
        return
    _print(found)


def _print(found: RouterFlips) -> None:
    table = found._table()
    columns = ["layer", "head", "decisions", "cannot flip", "%", "margin", "bound", "wall"]
    rows = [
        [str(a), str(b), str(n), str(safe), f"{100 * share:.1f}", number(margin), number(bound), number(wall)]
        for a, b, n, safe, share, margin, bound, wall in zip(*table.values(), strict=True)
    ]
    shares = ", ".join(
        f"{100 * share:.1f} % in layer {layer}"
        for layer, share in zip(found.layers, found.layer_shares, strict=True)
    )
    notes = [
        f"{int(found.cannot_flip.sum())} of {counted(found.n_decisions, 'decision')} cannot flip: {shares}.",
        "margin: lead of the last winner over the first loser; bound: its error at most (medians).",
        "wall: median distance to the nearest wall, in the space of queries or inputs.",
        f"Sums in {found.accumulate}, in any order; scores kept in {found.score_dtype}.",
    ]
    top = "" if found.k == 1 else f", best {found.k}"
    print_table(f"{found.model} in {found.dtype}{top}", columns, rows, notes, most=_MOST_HEADS)
