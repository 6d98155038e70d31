"""``hardmax experts``: how routers of a mixture of experts spread tokens, and which choices cannot flip."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hardmax as hm
from hardmax.cli.models import TextsDone, many_texts, model_and_text, text_for, texts_of
from hardmax.cli.numbers import TIME_LIMIT
from hardmax.cli.outputs import check_targets, number, output_options, print_json, print_table, save_and_draw
from hardmax.errors import InvalidInputError
from hardmax.results import plain

if TYPE_CHECKING:
    from hardmax.models.atlas.router_load import RouterLoad
    from hardmax.models.spread import MeanIntervals

_MOST_ROWS = 400


@click.command()
@model_and_text
@many_texts
@click.option(
    "--dtype", default="bfloat16", show_default=True, help="For which precision flips are ruled out."
)
@TIME_LIMIT
@output_options
def experts(
    model: str | None,
    text: str | None,
    file: Path | None,
    texts: str | None,
    field: str | None,
    checkpoint: Path | None,
    dtype: str,
    time_limit: float | None,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
    hub: bool,
) -> None:
    """The load of every expert of a mixture: its share of tokens and of probability, margins and flips.

    MODEL is a folder with a Hugging Face model of a family with experts (mixtral, qwen2_moe, qwen3_moe,
    olmoe, phimoe, granitemoe, gpt_oss), or with --hub a name on the hub. With --texts numbers are means over
    texts with intervals over texts.

    \b
    Examples:
      hardmax experts ./mixtral --text "The cat sat on the mat."
      hardmax experts ./olmoe --texts lines.txt --checkpoint run --plot load.svg
    """
    if model is None:
        raise InvalidInputError(
            "MODEL must be a folder with a mixture of experts; the bundled model has none."
        )
    words = text_for(model, text, file, texts_of(texts, field))
    if checkpoint is not None and texts is None:
        raise InvalidInputError("--checkpoint belongs to --texts, which was not given.")
    check_targets(out, plot)
    found = hm.models.router_load(
        model,
        words,
        dtype=dtype,
        hub=hub,
        checkpoint=checkpoint,
        time_limit=time_limit,
        progress=TextsDone() if sys.stderr.isatty() else None,
    )
    save_and_draw(found, out, plot)
    if as_json:
        print_json(
            {**found.to_dict(), "experts": plain(found._table()), "idle": [list(one) for one in found.idle]}
        )
        return
    _print(found)


def _print(found: RouterLoad) -> None:
    share, mass, load = found.interval("share"), found.interval("mass"), found.relative_load
    margin, safe = found.interval("margin").mean, found.interval("cannot_flip").mean

    def ends(part: MeanIntervals, r: int, e: int) -> str:
        mean, low, high = (100 * float(getattr(part, end)[r, e]) for end in ("mean", "low", "high"))
        return f"{mean:.1f} ({low:.1f}..{high:.1f})" if low == low else f"{mean:.1f}"  # NaN for one text

    rows = [
        [
            str(layer),
            str(e),
            ends(share, r, e),
            ends(mass, r, e),
            f"{load[r, e]:.2f}",
            number(float(margin[r])) if e == 0 else "",
            f"{100 * safe[r]:.1f}" if e == 0 else "",
        ]
        for r, layer in enumerate(found.layer.tolist())
        for e in range(found.n_experts)
    ]
    k = "/".join(str(n) for n in sorted(set(found.k.tolist())))
    notes = [
        f"tokens: share of the tokens that an expert gets, in per cent; each token gets {k}.",
        "mass: mean probability of the expert; load: share over the even share.",
        f"margin: median lead of the last winner over the first loser; safe: choices in per cent that "
        f"{found.dtype} cannot change.",
        *(
            [f"Without a token: {', '.join(f'layer {n} expert {e}' for n, e in found.idle)}."]
            if found.idle
            else []
        ),
        f"{int(found.n_tokens.sum())} tokens, {found.seconds:.1f} s.",
    ]
    columns = ["layer", "expert", "tokens", "mass", "load", "margin", "safe"]
    texts = "1 text" if len(found.names) == 1 else f"{len(found.names)} texts"
    print_table(f"{found.model} ({found.family}) on {texts}", columns, rows, notes, most=_MOST_ROWS)
