"""``hardmax bounds``: how many cells there can be (P1 section V)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hardmax as hm
from hardmax.cli.numbers import WHOLE, is_whole
from hardmax.cli.outputs import check_targets, out_option, print_json, print_table, save_and_draw
from hardmax.errors import InvalidInputError

if TYPE_CHECKING:
    from hardmax.bounds import HeadBudget, RegionBounds


class WholeNumbers(click.ParamType):
    """Integers separated by commas."""

    name = "N,N,..."

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> tuple[int, ...]:
        """Read ``"2,3,3"``."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(map(is_whole, parts)):
            self.fail(f"must be integers separated by commas, but was {value!r}.", param, context)
        return tuple(map(int, parts))


_NUMBERS = WholeNumbers()


@click.command()
@click.option("--n-tokens", type=WHOLE, metavar="N", help="Keys per head.")
@click.option("--heads", type=_NUMBERS, metavar="H", help="Heads; with --budget several: 1,8.")
@click.option("--d-model", type=WHOLE, metavar="D", help="Dimension of the tokens.")
@click.option("--d-ff", type=WHOLE, metavar="N", help="ReLU units per block; 0 for attention alone.")
@click.option("--depth", type=WHOLE, default=1, show_default=True, metavar="L", help="Blocks.")
@click.option(
    "--biased/--linear",
    default=None,
    help="Scores with or without biases.  [default: biased; linear with --budget]",
)
@click.option("--d-head", type=WHOLE, metavar="N", help="Width of the heads; 1 allows only two winners each.")
@click.option("--ranks", type=_NUMBERS, metavar="R,...", help="Rank of the keys, one or one per head.")
@click.option("--key-span", type=WHOLE, metavar="D", help="Dimension that the keys of all heads span.")
@click.option("--k", type=WHOLE, metavar="K", help="One head whose K best keys win together: its cells.")
@click.option("--voronoi", is_flag=True, help="With --k: the keys are sites without weights.")
@click.option("--mlp", type=_NUMBERS, metavar="D,N,...", help="A ReLU network instead: input, widths.")
@click.option("--budget", is_flag=True, help="One attention layer of 4 d^2 parameters, cut into heads.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with log10 and hex for long numbers.")
@out_option("Save the bounds; hm.load reads them back.")
def bounds(
    n_tokens: int | None,
    heads: tuple[int, ...] | None,
    d_model: int | None,
    d_ff: int | None,
    depth: int,
    biased: bool | None,
    d_head: int | None,
    ranks: tuple[int, ...] | None,
    key_span: int | None,
    k: int | None,
    voronoi: bool,
    mlp: tuple[int, ...] | None,
    budget: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    """How many cells a transformer of a given size can have, at most and at least.

    A maximum is attained by some weights; an upper bound holds for all; a lower bound is reached by a
    construction. What the tropical paper prints stands beside each, with what is wrong with it.

    \b
    Examples:
      hardmax bounds --n-tokens 512 --heads 8 --d-model 512 --d-ff 2048 --depth 6
      hardmax bounds --n-tokens 6 --heads 3 --d-model 3 --d-ff 0 --linear
      hardmax bounds --mlp 2,3,3
      hardmax bounds --budget --n-tokens 512 --d-model 512 --heads 1,8
      hardmax bounds --k 2 --n-tokens 64 --d-model 2 --linear
    """
    check_targets(out, None)
    if mlp is not None and budget:
        raise InvalidInputError("--mlp and --budget must not both be given; they are two questions.")
    if k is not None and (mlp is not None or budget):
        raise InvalidInputError("--k is about one head; leave out --mlp and --budget.")
    if voronoi and k is None:
        raise InvalidInputError("--voronoi belongs to --k; add --k 1 for ordinary cells.")
    if voronoi and biased is False:
        raise InvalidInputError("--voronoi has scores with biases; leave out --linear.")
    sizes = {"--n-tokens": n_tokens, "--d-model": d_model}
    keys = {"--d-head": d_head, "--ranks": ranks, "--key-span": key_span}
    result: RegionBounds | HeadBudget
    if k is not None:
        _refuse(
            "--k", {"--d-ff": d_ff, **keys, "--heads other than 1": None if heads in (None, (1,)) else heads}
        )
        n, d = _given(sizes)
        result = hm.bounds.order_k_bounds(n, d, k, biased=biased is not False, voronoi=voronoi)
    elif mlp is not None:
        _refuse("--mlp", {**sizes, "--heads": heads, "--d-ff": d_ff, **keys, "--biased or --linear": biased})
        result = hm.bounds.mlp_bounds(mlp)
    elif budget:
        _refuse("--budget", {"--d-ff": d_ff, **keys})
        n, d = _given(sizes)
        result = hm.bounds.head_budget(n, d, heads=heads, biased=bool(biased))
    else:
        if heads is not None and len(heads) != 1:
            raise InvalidInputError("--heads must be one number; several are compared by --budget.")
        n, d, n_heads, units = _given({**sizes, "--heads": heads[0] if heads else None, "--d-ff": d_ff})
        result = hm.region_bounds(
            n_tokens=n,
            heads=n_heads,
            d_model=d,
            d_ff=units,
            depth=depth,
            biased=biased is not False,
            d_head=d_head,
            ranks=ranks[0] if ranks is not None and len(ranks) == 1 else ranks,
            key_span=key_span,
        )
    save_and_draw(result, out, None)
    if as_json:
        print_json(result.to_dict())
    else:
        _print(result)


def _refuse(question: str, options: dict[str, Any]) -> None:
    wrong = [name for name, value in options.items() if value is not None]
    if wrong:
        raise InvalidInputError(f"{wrong[0]} says nothing about {question}; leave it out.")


def _given(sizes: dict[str, int | None]) -> list[int]:
    missing = [name for name, value in sizes.items() if value is None]
    if missing:
        raise InvalidInputError(
            f"{missing[0]} must be given; try --n-tokens 512 --heads 8 --d-model 512 --d-ff 2048 --depth 6."
        )
    return [value for value in sizes.values() if value is not None]


def _print(result: RegionBounds | HeadBudget) -> None:
    from hardmax.bounds import HeadBudget

    if isinstance(result, HeadBudget):
        table = result._table()
        columns = ["heads", "d_head", "parameters", "most cells", "N^H"]
        lines = [[str(table[name][i]) for name in columns] for i in range(len(result.heads))]
        print_table(result._summary(), columns, lines)
        return
    lines = []
    for bound in result:
        exponent = "" if bound.exponent is None else str(bound.exponent)
        lines.append([bound.name, str(bound.side), bound.text, exponent, bound.formula])
    title = result._summary()
    columns = ["bound", "side", "number", "exponent of N", "formula"]
    print_table(title, columns, lines, _notes(result))


def _notes(result: RegionBounds) -> list[str]:
    """Each printed form with its verdict, false ones first; of the two kinds of scores the one asked for."""
    notes = []
    other = "multi_head_linear" if result.question.get("biased") else "multi_head_affine"
    for bound in result:
        if bound.name == other:
            continue
        for form in bound.printed:
            reason = f": {form.reason}" if form.reason else ""
            notes.append((form.verdict != "false", f"{form.place}: {form.formula}: {form.verdict}{reason}"))
    notes.sort(key=lambda note: note[0])
    return ["", "What the paper prints:", *(text for _, text in notes)] if notes else []
