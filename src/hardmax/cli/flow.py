"""``hardmax flow``: what a task costs, which architecture it needs, how information travels (P2)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hardmax.cli.inputs import read_arrays
from hardmax.cli.outputs import check_targets, output_options, print_json, print_table, save_and_draw
from hardmax.cli.targets import read_target, target_options, whole_numbers
from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.results import plain
from hardmax.storage import written_whole

if TYPE_CHECKING:
    from hardmax.flow.architectures import Architecture
    from hardmax.flow.costs.advise import Advice
    from hardmax.flow.costs.estimate import CostEstimate

__all__ = ["flow"]

_HEADS = click.option("--heads", required=True, metavar="H1,H2,...", help="Heads per layer.")
_WIDTHS = click.option("--widths", required=True, metavar="E1,E2,...", help="Widths E_l, or one for all.")


def _one_input(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that shows one input ``--input``, ``--json`` and ``--plot``."""
    for option in (
        click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.svg|png"),
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table."),
        click.option(
            "--input",
            "input_file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="The tokens, a T x d table.",
        ),
    ):
        command = option(command)
    return command


@click.group()
def flow() -> None:
    """How many heads and layers a task needs, and how information travels.

    TARGET is retrieval:D, pairwise:D, triangle-center, depth-separation, kth-largest:K, position-sum:P,Q or a
    text such as "sum(i<4) max(s,t) x[s]' A[i] x[t]". Positions count from 0.

    \b
    Examples:
      hardmax flow estimate pairwise:4 --n-tokens 64 --heads 4,4 --widths 24
      hardmax flow advise pairwise:4 --n-tokens 64
      hardmax flow trace depth-separation --n-tokens 6 --heads 1,1 --plot trace.svg
      hardmax flow trees triangle-center --n-tokens 10
    """


@flow.command()
@click.argument("target")
@target_options
@_HEADS
@_WIDTHS
@click.option("--samples", type=int, default=256, show_default=True, help="Inputs on which the plan runs.")
@output_options
def estimate(
    target: str,
    n_tokens: int,
    d_token: int | None,
    matrices: Path | None,
    domain: str | None,
    seed: int,
    heads: str,
    widths: str,
    samples: int,
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
    import hardmax as hm

    check_targets(out, plot)
    read = read_target(target, d_token, matrices, domain, seed)
    shape = _architecture(n_tokens, read.d_token, heads, widths)
    result = hm.estimate_cost(read, shape, n_samples=samples, rng=seed)
    save_and_draw(result, out, plot)
    if as_json:
        print_json(result.to_dict())
    else:
        _print_estimate(result)


@flow.command()
@click.argument("target")
@target_options
@click.option("--max-depth", type=int, default=3, show_default=True, help="How many layers at most.")
@click.option("--max-heads", type=int, help="How many heads per layer at most.")
@click.option("--exponent", type=float, default=0.0, show_default=True, help="The cost exponent to aim at.")
@click.option("--budget", type=int, metavar="PARAMETERS", help="How many parameters are allowed.")
@click.option("--samples", type=int, default=128, show_default=True, help="Inputs on which plans are run.")
@output_options
def advise(
    target: str,
    n_tokens: int,
    d_token: int | None,
    matrices: Path | None,
    domain: str | None,
    seed: int,
    max_depth: int,
    max_heads: int | None,
    exponent: float,
    budget: int | None,
    samples: int,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """The smallest architectures that learn a target, and what breaks without one head.

    \b
    Examples:
      hardmax flow advise pairwise:4 --n-tokens 64
      hardmax flow advise "max(t) x[t][0] + min(s!=t) |x[s] - x[t]|^2" --d 2 --n-tokens 32 --budget 5000
    """
    import hardmax as hm

    check_targets(out, plot)
    read = read_target(target, d_token, matrices, domain, seed)
    result = hm.advise(
        read,
        n_tokens,
        max_depth=max_depth,
        max_heads=max_heads,
        max_exponent=exponent,
        budget=budget,
        n_samples=samples,
        rng=seed,
    )
    save_and_draw(result, out, plot)
    if as_json:
        print_json(result.to_dict())
    else:
        _print_advice(result)


@flow.command()
@click.argument("target")
@target_options
@_HEADS
@_one_input
def trace(
    target: str,
    n_tokens: int,
    d_token: int | None,
    matrices: Path | None,
    domain: str | None,
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
    import hardmax as hm

    check_targets(None, plot)
    read = read_target(target, d_token, matrices, domain, seed)
    counts = whole_numbers(heads, "--heads")
    shape = hm.Architecture(n_tokens, read.d_token, counts, counts)
    X = _input(input_file, n_tokens, read.d_token, lambda: read.sample(1, n_tokens, seed))
    plan = hm.estimate_cost(read, shape, n_samples=64, rng=seed, thresholds=False).plan
    result = hm.information_sets(shape, plan, X, keep="all")
    active = read.active_set(X)
    if plot is not None:
        from hardmax.plotting.flows import draw_flow

        _draw(draw_flow(result, active=active[0]).figure, plot)
    if as_json:
        sets = [
            [sorted(row.nonzero()[0].tolist()) for row in result.sets(layer, "tokens")[0]]
            for layer in range(shape.depth)
        ]
        cls = [result.sets(layer)[0].nonzero()[0].tolist() for layer in range(shape.depth + 1)]
        print_json(
            {
                "kind": "trace",
                "target": read.name or repr(read),
                "input": X[0],
                "plan": plan.to_dict(n_tokens),
                "routings": [routing[0] for routing in result.routings],
                "token_sets": sets,
                "cls_sets": cls,
                "active": active[0].nonzero()[0],
                "learns": bool(result.learns(read)),
            }
        )
        return
    click.echo(f"{read.name or repr(read)}: {plan!r}")
    click.echo(result.trace())
    needed = ", ".join(f"x{t + 1}" for t in active[0].nonzero()[0])
    verdict = "all of them are" if result.learns(read) else "not all of them are"
    click.echo(f"The target depends on {needed}; {verdict} in the set of CLS.")


@flow.command()
@click.argument("target")
@target_options
@_one_input
def trees(
    target: str,
    n_tokens: int,
    d_token: int | None,
    matrices: Path | None,
    domain: str | None,
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
    read = read_target(target, d_token, matrices, domain, seed)
    made = read.trees(n_tokens)
    X = _input(input_file, n_tokens, read.d_token, lambda: read.sample(1, n_tokens, seed))
    roots = [[int(t) for t in tree(X)[0] if t >= 0] for tree in made]
    active = read.active_set(X)[0].nonzero()[0].tolist()
    number = read.comparisons(n_tokens)
    if plot is not None:
        from hardmax.plotting.comparison_trees import draw_trees

        _draw(draw_trees(made, X[0]), plot)
    if as_json:
        print_json(
            {
                "kind": "trees",
                "target": read.name or repr(read),
                "n_tokens": n_tokens,
                "max_active": read.max_active.to_dict(),
                "dimension": read.dimension.to_dict(),
                "order": read.order.to_dict(),
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
        f"D0 = {read.max_active}, dimension {read.dimension}, order {read.order}, comparisons {number}.",
        f"The target depends on {_names(active)} at this input.",
        *number.reasons,
    ]
    title = f"{_counted(len(made), 'tree')} for {_counted(n_tokens, 'token')}: {read.name or repr(read)}"
    print_table(
        title, ["tree", "leaves", "dimension", "comparisons", "root"], rows.__getitem__, len(rows), notes
    )


def _architecture(n_tokens: int, d_token: int, heads: str, widths: str) -> Architecture:
    import hardmax as hm

    sizes = whole_numbers(widths, "--widths")
    return hm.Architecture(
        n_tokens, d_token, whole_numbers(heads, "--heads"), sizes[0] if len(sizes) == 1 else sizes
    )


def _input(path: Path | None, n_tokens: int, d_token: int, otherwise: Any) -> Any:
    import numpy as np

    if path is None:
        return otherwise()
    arrays = list(read_arrays(path).values())
    table = np.asarray(arrays[0], dtype=np.float64)
    if len(arrays) != 1 or table.shape != (n_tokens, d_token):
        raise DimensionMismatchError(
            f"{path} must hold one table of {n_tokens} tokens with {d_token} numbers, but has the shape "
            f"{table.shape}."
        )
    return table[None]


def _draw(figure: Any, path: Path) -> None:
    if path.suffix.lower() not in (".svg", ".png"):
        raise InvalidInputError(f"{path} must end in .svg or .png.")
    with written_whole(path) as file:
        figure.savefig(file, format=path.suffix.lower()[1:])
    click.echo(f"drew {path}", err=True)


def _names(positions: list[int]) -> str:
    return "{" + ", ".join(f"x{t + 1}" for t in positions) + "}"


def _print_estimate(result: CostEstimate) -> None:
    shape, sizes = result.architecture, result.sizes
    learns = f"learns on {_share(result.share, result.n_samples)}"
    if result.rules == "global":
        learns = "learns every target, by definition"
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
        ["plan", result.rules, learns],
        ["its largest set", str(result.set_size), f"layer by layer {_joined(result.layer_sizes)}"],
        ["its exponent", str(result.upper), f"by the law; the paper's construction pays {result.paid}"],
        ["reading everything", str(result.global_exponent), "exponent by the law"],
    ]
    meaning = {
        "tokens": "first T with a positive lower exponent, equation (5) repaired",
        "heads": "heads per layer for a plan of maxima",
        "counting_heads": "heads per layer that satisfy counting with sets of one token",
        "depth": "layers of these heads for a plan of maxima",
        "lower_width": "width at which the lower exponent is 0",
        "upper_width": "width at which the exponent of the plan is 0",
    }
    for name, value in result.thresholds.items():
        rows.append(
            [
                f"threshold: {name.replace('_', ' ')}",
                "none found" if value is None else str(value),
                meaning[name],
            ]
        )
    narrow = [row for row in result.ranks if row["enough"] is False]
    notes = [result.verdict + "."]
    if narrow:
        notes.append(
            f"{len(narrow)} of {len(result.ranks)} scores have a larger rank than their head is wide; no "
            "cost is made of that."
        )
    notes += [f"- {line}" for line in result.assumptions]
    title = (
        f"{result.target}; T = {shape.n_tokens}, heads {_joined(shape.heads)}, widths {_joined(shape.widths)}"
    )
    print_table(title, ["", "value", "meaning"], rows.__getitem__, len(rows), notes)


def _print_advice(result: Advice) -> None:
    rows = [
        [
            _joined(each.heads),
            _joined(each.widths),
            str(each.parameters),
            each.rules,
            str(max(each.layer_sizes)),
            f"{each.lower} to {each.exponent}",
            "always" if each.rules == "everything" else f"{each.share:.1%}",
        ]
        for each in result.suggestions
    ]
    notes = list(result.needs)
    if not rows:
        notes.append("No architecture fits into the budget; try a larger one.")
    else:
        for removal in result.suggestions[0].without:
            without = f"Without one head of layer {removal.layer} of the first"
            if not removal.heads:
                notes.append(f"{without} nothing is read any more.")
                continue
            notes.append(
                f"{without} (heads {_joined(removal.heads)}): {removal.lost} lost, learns on "
                f"{removal.share:.1%} of the samples; reading everything instead has exponent "
                f"{removal.global_exponent}."
            )
    columns = ["heads", "widths", "parameters", "reads", "largest set", "exponent", "learns"]
    title = f"{_counted(len(rows), 'architecture')} for {_counted(result.n_tokens, 'token')}: {result.target}"
    print_table(title, columns, rows.__getitem__, len(rows), notes)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _share(share: float, n_samples: int) -> str:
    return f"all {n_samples} samples" if share == 1.0 else f"{share:.1%} of {n_samples} samples"


def _joined(numbers: Any) -> str:
    return ", ".join(map(str, numbers))
