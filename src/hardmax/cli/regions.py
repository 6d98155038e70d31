"""``hardmax regions``: every cell of a network, exactly (P1 section V, without sampling)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import hardmax as hm
from hardmax.bounds.large_integers import readable
from hardmax.cli.inputs import Number
from hardmax.cli.networks import Place, place_options, read_network, read_rules
from hardmax.cli.numbers import NUMBER, REAL, WHOLE, WholeRange
from hardmax.cli.outputs import (
    FILE,
    check_targets,
    counted,
    number,
    output_options,
    point,
    print_json,
    print_table,
    save_and_draw,
    write_picture,
)
from hardmax.errors import CertificateError, InvalidInputError, MissingExtraError
from hardmax.networks.heads.rules import RULES, TIES
from hardmax.progress import duration

if TYPE_CHECKING:
    from hardmax.networks.network import Network
    from hardmax.regions.api import Progress
    from hardmax.regions.result import RegionSet


@click.command()
@click.argument("network", metavar="NETWORK")
@place_options
@click.option("--rule", type=click.Choice(RULES), help="Give all attention this rule.")
@click.option("--k", type=WHOLE, metavar="K", help="With --rule top-k: how many keys win.")
@click.option("--temperature", type=NUMBER, metavar="T", help="Of the rules sparsemax and relu.")
@click.option("--ties", type=click.Choice(TIES), help="Who wins among equal scores: all share, or one.")
@click.option(
    "--rules",
    metavar="RULE,RULE,...",
    help="With --plot: a panel for each rule, as in hardmax,top-2,sparsemax:0.1,sparsemax:1,relu:4.",
)
@click.option("--exact", is_flag=True, help="Decide everything in rationals: the same cells, slowly.")
@click.option("--count", is_flag=True, help="Only count; memory does not grow with the cells.")
@click.option("--regions", "glue", is_flag=True, help="Glue cells with the same map into linear regions.")
@click.option("--max-cells", type=WholeRange(min=1), metavar="N", help="Stop after this many cells.")
@click.option("--time-limit", type=REAL, metavar="S", help="Stop after this many seconds.")
@click.option(
    "--checkpoint",
    type=FILE,
    metavar="FILE.npz",
    help="Keep the state here; the same command goes on from it.",
)
@click.option(
    "--jobs",
    type=WHOLE,
    metavar="N",
    help="Share the work between N threads, -1 for every core; the answer is the same for all N.",
)
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Let a Dask cluster do the work: the address of its scheduler, as in tcp://host:8786.",
)
@click.option("--verify", is_flag=True, help="Check the cells against the network, from the outside.")
@click.option("--depths", is_flag=True, help="With --plot: one panel for each depth.")
@click.option(
    "--colour",
    default="map",
    show_default=True,
    metavar="map|region|cell|class|output[:K]",
    help="With --plot: similar colours for similar maps; different ones for neighbouring regions, or cells; "
    "the winning class; the value of output K.",
)
@click.option(
    "--points", type=FILE, metavar="FILE", help="With --plot: draw these points; one more column is a label."
)
@output_options
def regions(
    network: str,
    box: tuple[Number, Number] | None,
    whole: bool,
    polygon: Path | None,
    slice_text: str | None,
    slice_file: Path | None,
    through: Path | None,
    rule: str | None,
    k: int | None,
    temperature: Number | None,
    ties: str | None,
    rules: str | None,
    exact: bool,
    count: bool,
    glue: bool,
    max_cells: int | None,
    time_limit: float | None,
    checkpoint: Path | None,
    jobs: int | None,
    dask: str | None,
    verify: bool,
    depths: bool,
    colour: str,
    points: Path | None,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """Every cell of a network, exactly: on a line, in the plane, in space.

    NETWORK is an ONNX file, a file written by network.save (or a saved RegionSet, which is shown again), or a
    description as in the examples: random MLPs and transformers, and the sawtooth of Theorem V.7. A cell is
    the set of inputs with one signature; the table shows its winning keys, how many ReLU units are on, a
    point inside and its area or volume. Three to six dimensions are split into polyhedra, more are searched
    by linear programs, which takes long beyond some ten thousand cells.

    \b
    Examples:
      hardmax regions network.npz --box -4 4 --plot cells.png
      hardmax regions classifier.onnx --box -4 4 --regions
      hardmax regions mlp:2,64,64,64,1,seed=0 --box -4 4 --count
      hardmax regions mlp:3,16,16,1,seed=0 --box -4 4 --regions --plot open.png
      hardmax regions transformer:n_tokens=50,heads=2,d_ff=64,depth=2,seed=0 --box -4 4 --regions --verify
      hardmax regions transformer:n_tokens=8,heads=1,d_ff=0,depth=1 --box -3 3 --rule top-k --k 2
      hardmax regions sawtooth:d=2,n_tokens=3,teeth=2,depth=1 --box 0 1 --exact --json
      hardmax regions wide.npz --slice 0,0,1:1,0,0:0,1,0 --whole --out cells.npz
      hardmax regions wide.npz --through images.csv --colour class --plot plane.png
      hardmax regions network.npz --box -8 8 --checkpoint run.npz --time-limit 600
      hardmax regions network.npz --box -8 8 --count --dask tcp://10.0.0.1:8786
    """
    check_targets(out, plot)
    if jobs is not None and dask is not None:
        raise InvalidInputError(
            "--jobs counts threads here and --dask names a cluster; leave one of them out."
        )
    panels = {} if rules is None else read_rules(rules)
    if count and (plot is not None or verify):
        raise InvalidInputError(
            f"--count keeps no cells, so {'--plot' if plot else '--verify'} has none; leave it out."
        )
    if points is not None and (plot is None or depths or rules is not None):
        raise InvalidInputError(
            "--points belongs to --plot with one panel; add --plot FILE and leave out --depths and --rules."
        )
    if depths and plot is None:
        raise InvalidInputError("--depths belongs to --plot; add --plot FILE.")
    if rules is not None and (plot is None or depths or _given(rule, k, temperature, ties)):
        raise InvalidInputError(
            "--rules belongs to --plot and names every rule itself; add --plot FILE and leave out --depths, "
            "--rule, --k, --temperature and --ties."
        )
    stored = read_network(network, or_saved=None if count else "RegionSet")
    if stored.kind == "RegionSet":
        if rules or _given(rule, k, temperature, ties):
            raise InvalidInputError(f"{network} is a saved result, whose rules are settled; give a network.")
        if box or whole or polygon or slice_text or slice_file or through:
            raise InvalidInputError(
                f"{network} is a saved result; it is shown without --box, --whole, --polygon, --slice or "
                "--through."
            )
        result, others, place = stored, {}, Place(stored.network, stored.domain)
    else:
        if _given(rule, k, temperature, ties):
            stored = stored.with_rule(rule, k=k, temperature=temperature, ties=ties)
        place = Place.of(stored, box, whole, polygon, slice_text, slice_file, through)
        ask = hm.enumerate_regions if not count else hm.count_regions if glue else hm.count_cells
        question = partial(
            ask,
            place.network,
            place.domain,
            arithmetic="exact" if exact else "certified",
            max_cells=max_cells,
            time_limit=time_limit,
            n_jobs=jobs,
            checkpoint=checkpoint,
        )
        others = {name: place.network.with_rule(**options) for name, options in panels.items()}
        result = answer(question, checkpoint, dask)
    notes = _notes(result, checkpoint)
    if count:
        save_and_draw(result, out, None)
        if as_json:
            print_json(result.to_dict())
        else:
            _print_count(result, glue, notes)
        return
    checks = _verified(result) if verify else None
    save_and_draw(result, out, None)
    if plot is not None:
        write_picture(_picture(result, depths, colour, others, place.read_points(points)), plot)
    report = _report(result, glue, checks)
    if as_json:
        where = None if place.plane is None else place.plane.exact_points
        lists = {**_lists(result, glue), "plane_points": where}
        print_json({**report, **lists, "provenance": result.provenance})
    else:
        _print(result, report, glue, notes)


def _given(*options: Any) -> bool:
    return any(option is not None for option in options)


# Asking
# ----------------------------------------------------------------------------------------------------------


class _Interrupted(click.ClickException):
    """Ctrl-C while the state is kept in a file."""

    exit_code = 130


def answer(question: Callable[..., Any], kept: Path | None = None, dask: str | None = None) -> Any:
    """Enumerate or count, with progress on a terminal; an interrupt says where the state is kept."""
    try:
        with _cluster(dask), _progress() as progress:
            return question(progress=progress)
    except KeyboardInterrupt:
        if kept is None or not kept.exists():
            raise
        raise _Interrupted(f"interrupted; the same command goes on from {kept}.") from None


@contextmanager
def _cluster(address: str | None) -> Iterator[None]:
    """The cluster that does the work, if one was named."""
    if address is None:
        yield
        return
    import joblib

    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError(
            "--dask needs Dask, which is not installed; try: pip install distributed."
        ) from error
    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"--dask must be the address of a running scheduler, but {address!r} does not answer; "
            "start one with: dask scheduler."
        ) from error
    with client, joblib.parallel_config(backend="dask", client=client):
        yield


_LONG = 3.0  # seconds after which a run says what to expect


class _Outlook:
    """Says once, on standard error, how many cells there may be and how long they would take.

    Seconds count from the first report on: before it kernels may have been compiled.
    """

    def __init__(self) -> None:
        self._said = False
        self._first: float | None = None

    def __call__(self, state: Progress) -> None:
        if self._first is None:
            self._first = state.seconds
        seconds = state.seconds - self._first
        if self._said or state.outlook is None or seconds < _LONG:
            return
        self._said = True
        click.echo(_expected(replace(state, seconds=seconds)), err=True)


def _expected(state: Progress) -> str:
    """What a run that takes long says after its first seconds; bound, sample and estimate each by name."""
    known = state.outlook
    text = f"This takes long. {str(known)[0].upper()}{str(known)[1:]}."
    if state.seconds_left is not None and state.estimate is not None:
        text += (
            f" By what is settled, an estimate: about {state.estimate:.3g} cells, "
            f"{duration(state.seconds_left)} more."
        )
    rate = state.n_cells / state.seconds
    if known.n_cells_likely is not None and rate > 0:
        text += (
            f" At the present rate of {rate:.3g} cells per second, {readable(known.n_cells_likely)} cells "
            f"take {duration(known.n_cells_likely / rate)}."
        )
    return f"{text} --time-limit and --max-cells stop early, --checkpoint keeps the state."


@contextmanager
def _progress() -> Iterator[Callable[[Progress], object] | None]:
    """What to expect, after some seconds; on a terminal also a line on standard error with the cells."""
    outlook = _Outlook()
    if not sys.stderr.isatty():
        yield outlook
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Line

    columns = (
        TextColumn("{task.fields[cells]} cells"),
        BarColumn(),
        TextColumn("{task.fields[share]}"),
        TimeElapsedColumn(),
    )
    with Line(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task("", total=None, cells="0", share="")

        def report(state: Progress) -> None:
            outlook(state)
            share = "" if state.share is None else f"{state.share:.1%} settled"
            if state.seconds_left is not None and state.share != 1.0:
                share += f", about {duration(state.seconds_left)} left"
            total = None if state.share is None else 1.0
            line.update(
                task, total=total, completed=state.share or 0.0, cells=f"{state.n_cells:,}", share=share
            )

        yield report


# Telling
# ----------------------------------------------------------------------------------------------------------


def _verified(result: RegionSet) -> dict[str, str]:
    verification = result.verify()
    if not verification.ok:
        raise CertificateError(f"the result failed its own check ({verification}); please report this.")
    return verification.checks


def _picture(result: RegionSet, depths: bool, colour: str, others: dict[str, Network], data: Any) -> Any:
    from hardmax.plotting.regions import compare_depths, compare_rules

    if others:
        found = {name: hm.enumerate_regions(network, result.domain) for name, network in others.items()}
        return compare_rules(found, colour=colour)
    if depths:
        return compare_depths(result.network, result.domain, colour=colour)
    points, labels = data
    return result.plot(colour=colour, points=points, labels=labels).figure


def _report(result: RegionSet, glue: bool, checks: dict[str, str] | None) -> dict[str, Any]:
    report: dict[str, Any] = {
        "kind": result.kind,
        "d": result.d,
        "n_cells": result.n_cells,
        "complete": result.complete,
        "exact": result.exact,
        "coverage": result.coverage,
        "n_unbounded": int((~result.bounded).sum()),
        "outlook": None if result.outlook is None else result.outlook._state(),
    }
    if glue:
        report["n_regions"] = result.n_regions
    if checks is not None:
        report["verified"] = checks
    return report


def _lists(result: RegionSet, glue: bool) -> dict[str, Any]:
    """What JSON says about every cell."""
    lists: dict[str, Any] = {
        "n_slivers": result.n_slivers,
        "routings": result.routings,
        "relu_bits": ["".join("1" if bit else "0" for bit in row) for row in result.relu_bits.tolist()],
        "witnesses": result.witnesses,
        "margins": result.margins,
        "volumes": result.volumes,
        "linear": result.linear,
        "offset": result.offset,
    }
    if result.listed is not None:
        lists["chosen"] = {str(b): result.chosen(b).astype(int) for b in result.listed.choices}
    return {**lists, "region_of_cell": result.region_of_cell} if glue else lists


def _print(result: RegionSet, report: dict[str, Any], glue: bool, notes: list[str]) -> None:
    heads, units = result.plain.heads_total, result.plain.units_total
    columns = ["cell"] + ["winning keys"] * bool(heads) + [f"ReLU on, of {units}"] * bool(units)
    sizes = ["length", "area", "volume"][result.d - 1 : result.d]  # beyond, they cost more than the cells
    columns += ["inside", *sizes] + ["region"] * glue

    sets = [] if result.listed is None else [result.chosen(b) for b in result.listed.choices]

    def winners(i: int) -> str:
        if not sets:
            return point(result.routings[i])
        heads_of = [keys for chosen in sets for keys in chosen[i]]  # those that choose sets, in order
        return " ".join("{" + ", ".join(map(str, keys.nonzero()[0])) + "}" for keys in heads_of)

    def row(i: int) -> list[str]:
        line = [str(i)]
        if heads:
            line.append(winners(i))
        if units:
            line.append(str(int(result.signature(i).relu.sum())))
        line.append(point(result.witnesses[i]))
        if sizes:
            line.append(number(_size(result, i)))
        return [*line, str(int(result.region_of_cell[i]))] if glue else line

    cells = counted(result.n_cells, "cell")
    if glue:
        cells += f" in {counted(result.n_regions, 'linear region')}"
    checks = [f"check {name}: {outcome}" for name, outcome in report.get("verified", {}).items()]
    rows = map(row, range(result.n_cells))
    print_table(f"{cells}, {_how_sure(result)}", columns, rows, [*notes, *checks], n_rows=result.n_cells)


def _print_count(found: Any, glue: bool, notes: list[str]) -> None:
    names = {
        "n_cells": "cells",
        "n_regions": "linear regions",
        "n_slivers": "slivers",
        "n_unbounded": "unbounded cells",
    }
    known = {word: getattr(found, name, None) for name, word in names.items()}
    lines = [[word, str(n)] for word, n in known.items() if n is not None]
    for i, n in enumerate(getattr(found, "cells_by_depth", ())):
        lines.append([f"cells after block {i + 1}", str(n)])
    title = f"{found.n_regions} linear regions of {found.n_cells} cells" if glue else f"{found.n_cells} cells"
    print_table(f"{title}, {_how_sure(found)}", ["what", "how many"], lines, notes)


def _size(result: RegionSet, i: int) -> float:
    """Length, area or volume of a cell, as precise as a table shows it."""
    if not result.bounded[i]:
        return float("inf")
    if result.d > 2:
        return float(result.volumes[i])
    corners = result.cell_vertices(i)
    if result.d == 1:
        return float(corners.max() - corners.min())
    x, y = (corners - corners[0]).T
    with np.errstate(over="ignore", invalid="ignore"):
        area = 0.5 * abs(float(x[:-1] @ y[1:] - y[:-1] @ x[1:]))
    return area if math.isfinite(area) else math.inf  # beyond float64


def _how_sure(found: Any) -> str:
    return f"{'complete' if found.complete else 'INCOMPLETE'}, {'exact' if found.exact else 'not certified'}"


def _notes(found: Any, checkpoint: Path | None) -> list[str]:
    if found.complete:
        return []
    more = "" if checkpoint is None else f" The same command with other limits goes on from {checkpoint}."
    known = getattr(found, "outlook", None)
    notes = [f"Stopped early: there are at least this many cells.{more}"]
    return notes if known is None else [*notes, f"Before counting: {known}."]
