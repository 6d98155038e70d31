"""``hardmax flow``: what a task costs, which architecture it needs, how information travels (P2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hardmax as hm
from hardmax.cli.inputs import read_arrays
from hardmax.cli.numbers import REAL, WHOLE
from hardmax.cli.outputs import (
    FILE,
    JSON,
    check_targets,
    counted,
    output_options,
    print_json,
    print_table,
    save_and_draw,
    write_picture,
)
from hardmax.cli.targets import target_options
from hardmax.errors import DimensionMismatchError
from hardmax.flow.costs.estimate import exponent_range
from hardmax.results import plain
from hardmax.targets.naming import whole_numbers

if TYPE_CHECKING:
    from hardmax.flow.costs.advise import Advice
    from hardmax.flow.costs.estimate import CostEstimate
    from hardmax.targets.target import Target

_HEADS = click.option("--heads", required=True, metavar="H1,H2,...", help="Heads per layer.")
_WIDTHS = click.option("--widths", required=True, metavar="E1,E2,...", help="Widths E_l, or one for all.")

_TIME_LIMIT = click.option("--time-limit", type=REAL, metavar="S", help="Give up after this many seconds.")


def _one_input(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that shows one input ``--input``, ``--json`` and ``--plot``."""
    for option in (
        click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.svg|png"),
        JSON,
        click.option("--input", "input_file", type=FILE, metavar="FILE", help="The tokens, a T x d table."),
    ):
        command = option(command)
    return command


@click.group()
def flow() -> None:
    """How many heads and layers a task needs, and how information travels.

    TARGET is retrieval:D, pairwise:D, triangle-center, depth-separation, kth-largest:K, position-sum:P,Q,
    copy:P, associative-recall or a text such as "sum(i<4) max(s,t) x[s]' A[i] x[t]"; advise takes induction
    and k-hop:K, too. Positions count from 0.

    \b
    Examples:
      hardmax flow estimate pairwise:4 --n-tokens 64 --heads 4,4 --widths 24
      hardmax flow advise pairwise:4 --n-tokens 64
      hardmax flow trace depth-separation --n-tokens 6 --heads 1,1 --plot trace.svg
      hardmax flow trees triangle-center --n-tokens 10
    """


@flow.command()
@target_options
@_HEADS
@_WIDTHS
@click.option("--samples", type=WHOLE, default=256, show_default=True, help="Inputs on which the plan runs.")
@_TIME_LIMIT
@output_options
def estimate(
    target: Target,
    n_tokens: int,
    seed: int,
    heads: str,
    widths: str,
    samples: int,
    time_limit: float | None,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """What a target costs an architecture, from below and from above.

    \b
    Examples:
      hardmax flow estimate pairwise:4 --n-tokens 64 --heads 4,4 --widths 24
      hardmax flow estimate triangle-center --n-tokens 256 --heads 2,2 --widths 24 --json
    """
    check_targets(out, plot)
    sizes = whole_numbers(widths, "--widths")
    shape = hm.Architecture(
        n_tokens, target.d_token, whole_numbers(heads, "--heads"), sizes[0] if len(sizes) == 1 else sizes
    )
    result = hm.estimate_cost(target, shape, n_samples=samples, rng=seed, time_limit=time_limit)
    save_and_draw(result, out, plot)
    if as_json:
        print_json(result.to_dict())
    else:
        _print_estimate(result)


@flow.command()
@partial(target_options, hops=True)
@click.option("--max-depth", type=WHOLE, default=3, show_default=True, help="How many layers at most.")
@click.option("--max-heads", type=WHOLE, help="How many heads per layer at most.")
@click.option("--exponent", type=REAL, default=0.0, show_default=True, help="The cost exponent to aim at.")
@click.option("--budget", type=WHOLE, metavar="PARAMETERS", help="How many parameters are allowed.")
@click.option("--samples", type=WHOLE, default=128, show_default=True, help="Inputs on which plans are run.")
@_TIME_LIMIT
@output_options
def advise(
    target: Target | str,
    n_tokens: int,
    seed: int,
    max_depth: int,
    max_heads: int | None,
    exponent: float,
    budget: int | None,
    samples: int,
    time_limit: float | None,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """The smallest architectures that carry a target, and what breaks without one head.

    \b
    Examples:
      hardmax flow advise pairwise:4 --n-tokens 64
      hardmax flow advise k-hop:5 --n-tokens 64 --max-depth 4
      hardmax flow advise "max(t) x[t][0] + min(s!=t) |x[s] - x[t]|^2" --d 2 --n-tokens 32 --budget 5000
    """
    check_targets(out, plot)
    result = hm.advise(
        target,
        n_tokens,
        max_depth=max_depth,
        max_heads=max_heads,
        max_exponent=exponent,
        budget=budget,
        n_samples=samples,
        rng=seed,
        time_limit=time_limit,
    )
    save_and_draw(result, out, plot)
    if as_json:
        print_json(result.to_dict())
    else:
        _print_advice(result)


@flow.command()
@target_options
@_HEADS
@_one_input
def trace(
    target: Target,
    n_tokens: int,
    seed: int,
    heads: str,
    input_file: Path | None,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Who reads whom for one input, and what everyone knows after every layer.

    The plan is the one that `flow estimate` finds for these heads.

    \b
    Examples:
      hardmax flow trace depth-separation --n-tokens 6 --heads 1,1
      hardmax flow trace pairwise:2 --n-tokens 8 --heads 2,2 --seed 3 --plot trace.svg
    """
    check_targets(None, plot)
    counts = whole_numbers(heads, "--heads")
    wide = target.d_token + 1  # for the rank of any score of degree two
    shape = hm.Architecture(n_tokens, target.d_token, counts, [wide * count for count in counts])
    X = _input(input_file, target, n_tokens, seed)
    plan = hm.estimate_cost(target, shape, n_samples=64, rng=seed, thresholds=False).plan
    result = hm.information_sets(shape, plan, X, keep="all")
    active = target.active_set(X)
    if plot is not None:
        from hardmax.plotting.flows import draw_flow

        write_picture(draw_flow(result, active=active[0]).figure, plot)
    if as_json:
        sets = [
            [sorted(row.nonzero()[0].tolist()) for row in result.sets(layer, "tokens")[0]]
            for layer in range(shape.depth)
        ]
        cls = [result.sets(layer)[0].nonzero()[0].tolist() for layer in range(shape.depth + 1)]
        print_json(
            {
                "kind": "trace",
                "target": target.name or repr(target),
                "input": X[0],
                "plan": plan.to_dict(n_tokens),
                "routings": [routing[0] for routing in result.routings],
                "token_sets": sets,
                "cls_sets": cls,
                "active": active[0].nonzero()[0],
                "learns": bool(result.learns(target)),
            }
        )
        return
    click.echo(f"{target.name or repr(target)}: {plan!r}")
    click.echo(result.trace())
    needed = ", ".join(f"x{t + 1}" for t in active[0].nonzero()[0])
    verdict = "all of them are" if result.learns(target) else "not all of them are"
    click.echo(f"The target depends on {needed}; {verdict} in the set of CLS.")


@flow.command()
@target_options
@_one_input
def trees(
    target: Target,
    n_tokens: int,
    seed: int,
    input_file: Path | None,
    as_json: bool,
    plot: Path | None,
) -> None:
    """The comparison trees of a target, at work on one input.

    \b
    Examples:
      hardmax flow trees retrieval:2 --n-tokens 4 --plot trees.svg
      hardmax flow trees triangle-center --n-tokens 10 --json
    """
    check_targets(None, plot)
    made = target.trees(n_tokens)
    X = _input(input_file, target, n_tokens, seed)
    roots = [[int(t) for t in tree(X)[0] if t >= 0] for tree in made]
    active = target.active_set(X)[0].nonzero()[0].tolist()
    number = target.comparisons(n_tokens)
    if plot is not None:
        from hardmax.plotting.comparison_trees import draw_trees

        write_picture(draw_trees(made, X[0]), plot)
    if as_json:
        print_json(
            {
                "kind": "trees",
                "target": target.name or repr(target),
                "n_tokens": n_tokens,
                "max_active": target.max_active.to_dict(),
                "dimension": target.dimension.to_dict(),
                "order": target.order.to_dict(),
                "comparisons": number.to_dict(),
                "input": X[0],
                "active": active,
                "trees": [
                    {"leaves": plain(tree.leaves), "n_comparisons": tree.n_comparisons, "root": root}
                    for tree, root in zip(made, roots, strict=True)
                ],
            }
        )
        return
    rows = [
        [str(i), str(tree.n_leaves), str(tree.dimension), str(tree.n_comparisons), _names(root)]
        for i, (tree, root) in enumerate(zip(made, roots, strict=True), start=1)
    ]
    notes = [
        f"D0 = {target.max_active}, dimension {target.dimension}, order {target.order}, "
        f"comparisons {number}.",
        f"The target depends on {_names(active)} at this input.",
        *number.reasons,
    ]
    title = f"{counted(len(made), 'tree')} for {counted(n_tokens, 'token')}: {target.name or repr(target)}"
    print_table(title, ["tree", "leaves", "dimension", "comparisons", "root"], rows, notes)


def _input(path: Path | None, target: Target, n_tokens: int, seed: int) -> Any:
    """One sequence: from a file, or a random one."""
    import numpy as np

    if path is None:
        return target.sample(1, n_tokens, seed)
    arrays = list(read_arrays(path).values())
    table = np.asarray(arrays[0], dtype=np.float64)
    if len(arrays) != 1 or table.shape != (n_tokens, target.d_token):
        raise DimensionMismatchError(
            f"{path} must hold one table of {n_tokens} tokens with {target.d_token} numbers, but has the "
            f"shape {table.shape}."
        )
    return table[None]


def _names(positions: list[int]) -> str:
    return "{" + ", ".join(f"x{t + 1}" for t in positions) + "}"


def _print_estimate(result: CostEstimate) -> None:
    shape, sizes = result.architecture, result.sizes
    carried = f"carried on {_share(result.share, result.n_samples)}"
    if result.rules == "global":
        carried = "carries every target, by definition"
    rows = [
        ["D0, tokens it depends on", str(result.max_active), "at most, over all lengths"],
        ["dimension of comparison", str(result.dimension), "tokens per comparison"],
        ["order of comparison", str(result.order), "power of T"],
        ["comparisons it needs", str(result.comparisons), f"at T = {shape.n_tokens}"],
        ["comparisons of maxima", str(result.capacity["printed"]), "equation (5), printed"],
        ["", str(result.capacity["repaired"]), "equation (5), repaired"],
        ["set size by counting", str(sizes.printed), "equation (5), printed"],
        ["", str(sizes.repaired), "equation (5), repaired"],
        ["lower exponent", str(result.lower), "by the law, counting with equation (5), repaired"],
        ["plan", result.rules, carried],
        ["its largest set", str(result.set_size), f"layer by layer {_joined(result.layer_sizes)}"],
        ["its exponent", str(result.upper), f"by the law; the paper's construction pays {result.paid}"],
        ["reading everything", str(result.global_exponent), "exponent by the law"],
    ]
    meaning = {
        "tokens": "first T with a positive lower exponent, equation (5) repaired",
        "heads": "heads per layer for a plan of maxima",
        "head_width": "width of one head for the ranks of its scores",
        "counting_heads": "heads per layer that satisfy counting with sets of one token",
        "depth": "layers of these heads for a plan of maxima",
        "lower_width": "width at which the lower exponent is 0",
        "upper_width": "width at which the exponent of the plan is 0",
    }
    for name, value in result.thresholds.items():
        found = "none found" if value is None else str(value)
        rows.append([f"threshold: {name.replace('_', ' ')}", found, meaning[name]])
    notes = [result.verdict + "."]
    for row in result.narrow:
        notes.append(
            f"Term {row.term} in layer {row.layer}: a score of rank {row.rank} in a head of width "
            f"{row.head_width}; with the best score of that rank {_loss(row.missed, row.error)}, carried on "
            f"{_share(row.share, result.n_samples)}."
        )
    notes += [f"- {line}" for line in result.assumptions]
    sizes_of = f"heads {_joined(shape.heads)}, widths {_joined(shape.widths)}"
    title = f"{result.target}; T = {shape.n_tokens}, {sizes_of}"
    print_table(title, ["", "value", "meaning"], rows, notes)


def _print_advice(result: Advice) -> None:
    rows = [
        [
            _joined(each.heads),
            _joined(each.widths),
            str(each.parameters),
            each.rules,
            _joined(each.ranks),
            str(max(each.layer_sizes)),
            exponent_range(each.lower, each.exponent).removeprefix("exponent "),
            "always" if each.rules == "everything" else f"{each.share:.1%}",
        ]
        for each in result.suggestions
    ]
    notes = [
        f"carried: on how many of {result.n_samples:,} sampled inputs CLS ends with every token that the "
        "target depends on.",
        *result.needs,
    ]
    if not rows:
        notes.append("No architecture fits into the budget; try a larger one.")
    else:
        notes.insert(0, f"The first {result.what_was_done()}.")
        for less in result.suggestions[0].narrower:
            notes.append(
                f"With heads of width {less.head_width} in layer {less.layer}, one less than the rank of a "
                f"score: {_loss(less.missed, less.error)}, carried on {less.share:.1%} of the samples."
            )
        for removal in result.suggestions[0].without:
            without = f"Without one head of layer {removal.layer} of the first"
            if not removal.heads:
                notes.append(f"{without} nothing is read any more.")
                continue
            notes.append(
                f"{without} (heads {_joined(removal.heads)}): {removal.lost} lost, carried on "
                f"{removal.share:.1%} of the samples; reading everything instead has exponent "
                f"{removal.global_exponent}."
            )
    columns = ["heads", "widths", "parameters", "reads", "ranks", "largest set", "exponent", "carried"]
    title = f"{counted(len(rows), 'architecture')} for {counted(result.n_tokens, 'token')}: {result.target}"
    print_table(title, columns, rows, notes)


def _loss(missed: float | None, error: float | None) -> str:
    """What narrow heads lose: proved, and measured."""
    proved = "no bound on what a maximum misses is known"
    if missed is not None:
        proved = f"a maximum is missed by at most {missed:.3g}"
    return proved if error is None else f"{proved}, NMSE {error:.2g} on samples"


def _share(share: float, n_samples: int) -> str:
    return f"all {n_samples} samples" if share == 1.0 else f"{share:.1%} of {n_samples} samples"


def _joined(numbers: Any) -> str:
    return ", ".join(map(str, numbers))
