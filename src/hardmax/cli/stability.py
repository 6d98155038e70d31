"""``hardmax stability``: how far attention at a temperature is from hardmax (P1 section VI)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import hardmax as hm
from hardmax.cli.inputs import naming, read_matrix, read_result, read_scores
from hardmax.cli.networks import read_network
from hardmax.cli.numbers import REAL, WHOLE
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
from hardmax.randomness import check_room, generator_of

if TYPE_CHECKING:
    from hardmax.temperature.cell_survival import CellSurvival
    from hardmax.temperature.certified import CertifiedTemperature
    from hardmax.temperature.margin_bounds import StabilityBounds
    from hardmax.temperature.observed_scores import StabilityReport


@click.command()
@click.argument("scores", required=False, type=FILE)
@click.option("--n-tokens", type=WHOLE, metavar="N", help="Without SCORES: the number of keys.")
@click.option("--margin", type=REAL, help="Without SCORES: the lead of the largest score.")
@click.option("--temperature", type=REAL, help="What the scores are divided by.")
@click.option("--d-head", type=WHOLE, help="The temperature sqrt(D_HEAD) of a standard head on raw scores.")
@click.option("--beta", type=REAL, help="One over the temperature.")
@click.option(
    "--tolerance", type=REAL, default=0.01, show_default=True, help="A query is hard up to this distance."
)
@click.option("--values", type=FILE, metavar="FILE", help="One value per key, to measure output errors.")
@click.option(
    "--network", metavar="NETWORK", help="Which cells of a deep network survive, instead of SCORES."
)
@click.option("--box", nargs=2, type=REAL, metavar="LOW HIGH", help="With --network: sample [LOW, HIGH]^d.")
@click.option("--samples", type=WHOLE, default=20_000, show_default=True, help="With --network: points.")
@click.option("--seed", type=WHOLE, default=0, show_default=True, help="With --network: of the points.")
@click.option(
    "--inputs",
    type=FILE,
    metavar="FILE",
    help="With --network: up to which temperature the decisions on these inputs, one per row, are proven.",
)
@click.option("--time-limit", type=REAL, metavar="S", help="With --network: give up after this many seconds.")
@output_options
def stability(
    scores: Path | None,
    n_tokens: int | None,
    margin: float | None,
    temperature: float | None,
    d_head: int | None,
    beta: float | None,
    tolerance: float,
    values: Path | None,
    network: str | None,
    box: tuple[float, float] | None,
    samples: int,
    seed: int,
    inputs: Path | None,
    time_limit: float | None,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """How far attention at a temperature is from hardmax.

    Four questions. With --n-tokens and --margin: what does a margin guarantee (Theorem VI.1, corrected and
    sharp, beside what the paper prints)? With SCORES, a file with one query per row and one key per column
    (-inf masks a key; a saved StabilityReport is shown again): how hard is each query? With --network and
    --box: which cells of a deep network survive at this temperature? With --network and --inputs: up to which
    temperature does softmax provably take the same decisions as hardmax, the largest coordinate of the
    output?

    The temperature divides the scores. A standard head of 64 dimensions has temperature 8 on raw scores
    (--d-head 64) and 1 on scores that are scaled already.

    \b
    Examples:
      hardmax stability --n-tokens 512 --margin 2 --temperature 0.125
      hardmax stability --n-tokens 512 --margin 2 --d-head 64 --json
      hardmax stability scores.npy --d-head 64 --tolerance 0.05 --plot hard.svg
      hardmax stability --network sawtooth:d=1,n_tokens=4,teeth=1,depth=3 --box 0 1 --temperature 0.125
      hardmax stability --network program.npz --inputs inputs.csv --plot decisions.svg
    """
    check_targets(out, plot)
    asked = [scores is not None, network is not None, n_tokens is not None or margin is not None]
    if sum(asked) != 1:
        raise InvalidInputError(
            "give one of: a file of SCORES, --network with --box or --inputs, or --n-tokens with --margin."
        )
    if inputs is not None and (network is None or box is not None):
        raise InvalidInputError("--inputs needs --network, and no --box.")
    if time_limit is not None and network is None:
        raise InvalidInputError("--time-limit belongs to --network; scores are read once.")
    if plot is not None and scores is None and inputs is None:
        raise InvalidInputError("--plot draws how hard queries are; it needs SCORES, or --inputs.")
    result: Any
    show: Callable[[Any], None]
    if scores is not None:
        result = read_result(scores, "StabilityReport")
        if result is None:
            result = _check(scores, _temperature(temperature, d_head, beta), tolerance, values)
        more = {"share_hard": result.share_hard, "margin_needed": result.margin_needed}
        report, show = {**result.to_dict(), **more}, _print_report
    elif network is not None and inputs is not None:
        if (temperature, d_head, beta) != (None, None, None):
            raise InvalidInputError(
                "--inputs asks for a temperature; leave out --temperature, --d-head and --beta."
            )
        result = hm.certified_temperature(
            read_network(network), read_matrix(inputs, "input"), time_limit=time_limit
        )
        report, show = {**result.to_dict(), "factor": result.factor}, _print_certified
    elif network is not None:
        result = _survive(network, box, samples, seed, _temperature(temperature, d_head, beta), time_limit)
        report, show = _of_network(result), _print_survival
    elif n_tokens is None or margin is None:
        raise InvalidInputError("--n-tokens and --margin must be given together.")
    else:
        result = hm.stability_bounds(n_tokens, margin, _temperature(temperature, d_head, beta))
        report, show = result.to_dict(), _print_bounds
    save_and_draw(result, out, plot)
    if as_json:
        print_json(report)
    else:
        show(result)


def _temperature(temperature: float | None, d_head: int | None, beta: float | None) -> float:
    if sum(given is not None for given in (temperature, d_head, beta)) != 1:
        raise InvalidInputError("give one of --temperature, --d-head and --beta.")
    if d_head is not None:
        return hm.temperature.standard_temperature(d_head)
    if beta is not None:
        if not 0.0 < beta < float("inf"):
            raise InvalidInputError(f"beta must be a finite number above 0, but was {beta}.")
        return 1.0 / beta
    return float(temperature)  # type: ignore[arg-type]


def _check(scores: Path, temperature: float, tolerance: float, values: Path | None) -> StabilityReport:
    table = read_scores(scores)
    vectors = None if values is None else read_matrix(values, "key")
    with naming(scores, values):
        return hm.check_stability(table, temperature, tolerance=tolerance, values=vectors)


def _survive(
    text: str,
    box: tuple[float, float] | None,
    samples: int,
    seed: int,
    temperature: float,
    time_limit: float | None,
) -> CellSurvival:
    if box is None:
        raise InvalidInputError("--box must say where the points are drawn; try --box -4 4.")
    if samples < 1 or seed < 0:
        raise InvalidInputError(
            f"--samples must be at least 1 and --seed at least 0, but were {samples}, {seed}."
        )
    network = read_network(text)
    domain = hm.Box.cube(network.d, *box)
    low, high = domain.low.floats, domain.high.floats
    check_room("--samples", samples, network.d)
    points = generator_of(seed).uniform(low, high, (samples, network.d))
    return hm.temperature.surviving_cells(network, points, temperature, time_limit=time_limit)


def _of_network(result: CellSurvival) -> dict[str, Any]:
    names = ("kind", "temperature", "n_points", "n_cells", "n_soft", "n_surviving", "share_kept")
    return {
        **{name: getattr(result, name) for name in names},
        "share_kept_by_block": result.share_kept_by_block,
        "largest_output_error": float(result.output_error.max()),
        "provenance": result.provenance,
    }


def _print_bounds(bounds: StabilityBounds) -> None:
    meaning = {
        "value": "log-sum-exp above the maximum",
        "gradient": "softmax to one-hot, L1",
        "hessian": "norm of the Hessian",
        "lipschitz": "of the gradient",
        "affine_error": "of the tangent plane, times |s - s'|^2",
    }
    table = bounds._table()
    lines = [
        [
            name,
            *(number(table[column][i]) for column in ("bound", "sharp", "paper")),
            f"10^{table['log10'][i]:.2f}" if np.isfinite(table["log10"][i]) else "",
            "says nothing" if table["vacuous"][i] else "",
            meaning[name],
        ]
        for i, name in enumerate(table["quantity"])
    ]
    logs = bounds.log10  # these tell apart what is zero as a float
    false = [
        name for name in table["quantity"] if getattr(logs, f"{name}_paper") < getattr(logs, f"{name}_sharp")
    ]
    notes = [f"The largest probability is at least {number(bounds.top_probability)}."]
    if false:
        notes.append(f"The paper's bound is false here, below what is attained, for: {', '.join(false)}.")
    keys = counted(bounds.n_tokens, "key")
    title = f"{keys}, margin {bounds.margin:g}, temperature {bounds.temperature:g}"
    columns = ["", "bound", "least bound", "paper", "bound as power", "", "of"]
    print_table(title, columns, lines, notes)


def _print_report(report: StabilityReport) -> None:
    margins, distances, norms = (
        array.ravel() for array in (report.margin, report.total_variation, report.hessian_norm)
    )
    keys, routing, hard = report.n_keys.ravel(), report.routing.ravel(), report.hard.ravel()
    empty = (report.value_vacuous, report.gradient_vacuous, report.hessian_vacuous)
    flags = [array.ravel() for array in empty]
    words = ("value", "gradient", "Hessian")
    outputs = (report.output_error, report.output_error_bound)
    measured = [array.ravel() for array in outputs if array is not None]

    def row(i: int) -> list[str]:
        return [
            str(i),
            str(keys[i]),
            str(routing[i]),
            number(float(margins[i])),
            number(1.0 - float(distances[i])),
            number(float(distances[i])),
            number(float(norms[i])),
            *(number(float(array[i])) for array in measured),
            "yes" if hard[i] else "no",
            ", ".join(word for word, flag in zip(words, flags, strict=True) if flag[i]),
        ]

    notes = [
        f"{report.share_hard:.2%} of the queries are hard: within {report.tolerance:g} of one-hot in total "
        "variation.",
        f"A margin of {number(report.margin_needed)} makes every query hard.",
        *(
            f"The bound on the {w} says nothing for {f.mean():.2%}."
            for w, f in zip(words, flags, strict=True)
        ),
    ]
    columns = ["query", "keys", "winner", "margin", "top probability", "distance", "Hessian"]
    columns += ["output error", "at most"] * bool(measured) + ["hard", "vacuous"]
    title = f"{counted(margins.size, 'query', 'queries')} at temperature {report.temperature:g}"
    print_table(title, columns, map(row, range(margins.size)), notes, n_rows=margins.size)


def _print_survival(result: CellSurvival) -> None:
    lines = [
        ["cells seen", str(result.n_cells), "different signatures at temperature 0"],
        ["surviving", str(result.n_surviving), "some point keeps its signature"],
        ["soft signatures", str(result.n_soft), "different signatures at this temperature"],
        ["points kept", number(result.share_kept), "share whose signature is the same"],
        ["output error", number(float(result.output_error.max())), "largest distance of the outputs"],
    ]
    kept = ", ".join(f"{share:.4g}" for share in result.share_kept_by_block)
    title = f"{result.n_points} points at temperature {result.temperature:g}"
    notes = [f"Share of points whose signatures agree up to each block: {kept}."]
    print_table(title, ["", "number", "meaning"], lines, notes)


def _print_certified(found: CertifiedTemperature) -> None:
    n = found.n_inputs
    rows = [
        [str(i), str(found.decisions[i]), number(found.output_margins[i]), number(found.head_margins[i])]
        for i in range(n)
    ]
    margins = ", ".join(
        f"{margin:g} in block {block}"
        for block, margin in zip(found.attention_blocks, found.block_margins, strict=True)
    )
    notes = [f"{found!r}"[len("<CertifiedTemperature: ") : -1] + "."]
    if found.binding_input >= 0:
        notes.append(f"The proof ends first at input {found.binding_input}.")
    if margins:
        notes.append(f"Smallest margins of heads: {margins}.")
    print_table(
        f"Decisions on {counted(n, 'input')}", ["input", "decision", "ahead by", "head margin"], rows, notes
    )
