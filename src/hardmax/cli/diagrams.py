"""Heads by their keys: ``hardmax diagram`` (P1 section IV) and ``hardmax minkowski`` (section V-A)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import hardmax as hm
from hardmax.cli.inputs import naming, read_heads, read_matrix, read_result, read_vector, read_vectors
from hardmax.cli.numbers import REAL, TIME_LIMIT, WHOLE
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
)
from hardmax.errors import CertificateError, DimensionMismatchError, InvalidInputError
from hardmax.geometry.domains import Box
from hardmax.limits import Clock

if TYPE_CHECKING:
    from hardmax.geometry.diagrams.order_k_diagrams import OrderKDiagram
    from hardmax.geometry.diagrams.power_diagrams import PowerDiagram


@click.command()
@click.argument("keys", type=FILE)
@click.option("--biases", type=FILE, metavar="FILE", help="One bias per key, added to its score.")
@click.option("--sites", is_flag=True, help="The rows are sites of a power diagram instead of keys.")
@click.option(
    "--weights", type=FILE, metavar="FILE", help="One weight per site (needs --sites); default 0: Voronoi."
)
@click.option(
    "--k", type=WHOLE, metavar="K", help="The K best keys win together (a top-k head).  [default: 1]"
)
@click.option(
    "--box",
    nargs=2,
    type=REAL,
    metavar="LOW HIGH",
    help="In the plane: the square [LOW, HIGH]^2 to cut out.",
)
@click.option(
    "--max-margin", is_flag=True, help="The largest margin that a query of norm at most 1 can give each key."
)
@TIME_LIMIT
@output_options
def diagram(
    keys: Path,
    biases: Path | None,
    sites: bool,
    weights: Path | None,
    k: int | None,
    box: tuple[float, float] | None,
    max_margin: bool,
    time_limit: float | None,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """Which keys can win, and where.

    KEYS is a file with one key per row (or a saved diagram). A query x is routed to the key with the largest
    score k . x + b; the table says for every key whether it wins on a set with interior, and shows one
    winning query as a witness. With --k 2 or more it lists the sets of K keys that win together instead.

    \b
    Examples:
      hardmax diagram keys.npy
      hardmax diagram keys.npy --k 2 --plot pairs.svg
      hardmax diagram keys.csv --biases biases.csv --json
      hardmax diagram sites.csv --sites --weights weights.csv --box -3 3 --plot diagram.svg
      hardmax diagram keys.npy --max-margin --out diagram.npz
    """
    check_targets(out, plot)
    if weights is not None and not sites:
        raise InvalidInputError(
            "--weights belongs to a power diagram; add --sites, or use --biases for keys."
        )
    if biases is not None and sites:
        raise InvalidInputError("--biases belongs to keys; for --sites use --weights.")
    cells = _diagram(keys, biases, sites, weights, k)
    several = cells.kind == "OrderKDiagram"
    if several and max_margin:
        raise InvalidInputError("--max-margin is about single keys; leave out --k.")
    clock = Clock(time_limit, "decide about all keys")
    cells.find(time_limit=time_limit)
    with naming(keys, biases, weights):
        square = None if box is None else Box.cube(2, *box)
        if square is not None and cells.d != 2:
            raise InvalidInputError(f"--box cuts a square out of the plane, but dimension is {cells.d}.")
        with clock.around_calls():
            margins = cells.max_margin().values if max_margin else None
    save_and_draw(cells, out, plot, box=square)
    report = _set_report(cells, square) if several else _report(cells, square, margins)
    word = "site" if sites else "key"
    if as_json:
        print_json(report)
    elif several:
        _print_sets(report, word)
    else:
        _print(report, word)


def _diagram(keys: Path, biases: Path | None, sites: bool, weights: Path | None, k: int | None) -> Any:
    saved = read_result(keys, "PowerDiagram", "OrderKDiagram")
    if saved is not None:
        if biases is not None or sites or k is not None:
            raise InvalidInputError(f"{keys} is a saved diagram and has its biases, weights and k already.")
        return saved
    with naming(keys, biases, weights):
        points = read_matrix(keys, "site" if sites else "key")
        order = 1 if k is None else k
        if sites:
            heights = [0] * len(points) if weights is None else read_vector(weights)
            return hm.power_diagram(points, heights, k=order)
        return hm.attention_diagram(points, None if biases is None else read_vector(biases), k=order)


def _set_report(cells: OrderKDiagram, box: Box | None) -> dict[str, Any]:
    report: dict[str, Any] = {
        "kind": cells.kind,
        "n_keys": cells.n_keys,
        "d": cells.d,
        "k": cells.k,
        "n_cells": cells.n_cells,
        "sets": cells.sets,
        "witnesses": cells.witnesses,
    }
    if box is not None:
        report["polygons"] = cells.polygons(box)
    return {**report, "provenance": cells.provenance}


def _print_sets(report: dict[str, Any], word: str) -> None:
    def row(i: int) -> list[str]:
        line = [point(report["sets"][i]), point(report["witnesses"][i])]
        return line + ([number(_area(report["polygons"][i]))] if "polygons" in report else [])

    columns = [f"{word}s", "witness"] + ["area in the box"] * ("polygons" in report)
    title = f"{counted(report['n_cells'], 'set')} of {report['k']} out of {report['n_keys']} {word}s"
    title += f" win on a set with interior, in dimension {report['d']}"
    print_table(title, columns, map(row, range(report["n_cells"])), n_rows=report["n_cells"])


def _report(cells: PowerDiagram, box: Box | None, margins: Any) -> dict[str, Any]:
    report: dict[str, Any] = {
        "kind": cells.kind,
        "n_keys": len(cells.nonempty),
        "d": cells.d,
        "n_nonempty": int(cells.nonempty.sum()),
        "nonempty": cells.nonempty,
        "witnesses": cells.witnesses,
    }
    if margins is not None:
        report["max_margin"] = margins
    if box is not None:
        report["polygons"] = cells.polygons(box)
    return {**report, "provenance": cells.provenance}


def _print(report: dict[str, Any], word: str) -> None:
    def row(j: int) -> list[str]:
        nonempty = bool(report["nonempty"][j])
        line = [str(j), "yes" if nonempty else "no", point(report["witnesses"][j]) if nonempty else ""]
        if "max_margin" in report:
            line.append(number(report["max_margin"][j]))
        if "polygons" in report:
            line.append(number(_area(report["polygons"][j])))
        return line

    columns = [word, "interior", "witness"]
    columns += ["max margin"] * ("max_margin" in report) + ["area in the box"] * ("polygons" in report)
    won, n_keys, d = report["n_nonempty"], report["n_keys"], report["d"]
    title = f"{won} of {n_keys} {word}s win on a set with interior, in dimension {d}"
    print_table(title, columns, map(row, range(n_keys)), n_rows=n_keys)


def _area(corners: Any) -> float:
    """Area of a polygon by the shoelace formula; 0 for an empty one, infinite beyond float64."""
    corners = np.reshape(corners, (-1, 2))
    unit = max(float(np.abs(corners).max(initial=0.0)), 1e-300)
    x, y = (corners / unit).T
    return abs(float(x @ np.roll(y, -1) - np.roll(x, -1) @ y)) / 2 * unit * unit


@click.command()
@click.argument("heads", type=FILE, nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--biases",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="Biases of the keys: once per head, or one file for all.",
)
@click.option(
    "--k", type=WHOLE, default=1, show_default=True, metavar="K", help="The K best keys of a head win."
)
@click.option("--verify", is_flag=True, help="Check every witness and the Euler and Weibel identities.")
@TIME_LIMIT
@output_options
def minkowski(
    heads: tuple[Path, ...],
    biases: tuple[Path, ...],
    k: int,
    verify: bool,
    time_limit: float | None,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """How many cells several heads cut together.

    Each FILE is a head with one key per row; one array of shape (H, N, d) or a .npz with several arrays holds
    several heads; a saved MinkowskiVertices is shown again. A vertex of the Minkowski sum of the heads is a
    choice of one key per head that wins on a set with interior; its witness is a query for which it wins.
    With
    --k the K best keys of each head win together, and a vertex is a choice of one set per head.

    \b
    Examples:
      hardmax minkowski head0.npy head1.npy
      hardmax minkowski heads.npy --verify --json
      hardmax minkowski a.csv b.csv --biases a-biases.csv --biases b-biases.csv
      hardmax minkowski heads.npz --out sum.npz --plot sum.svg
      hardmax minkowski heads.npz --k 2
    """
    check_targets(out, plot)
    result = _sum(heads, biases, k, time_limit)
    verification = result.verify() if verify else None
    if verification is not None and not verification.ok:
        raise CertificateError(f"the result failed its own check ({verification}); please report this.")
    save_and_draw(result, out, plot)
    report = _sum_report(result, verification.checks if verification else None)
    if as_json:
        print_json(report)
    else:
        _print_sum(report)


def _sum(heads: tuple[Path, ...], biases: tuple[Path, ...], k: int, time_limit: float | None) -> Any:
    saved = read_result(heads[0], "MinkowskiVertices")
    if saved is not None:
        if len(heads) > 1 or biases or k != 1:
            raise InvalidInputError(
                f"{heads[0]} is a saved result; it is shown alone and without --biases and --k."
            )
        return saved
    point_sets = read_heads(heads)
    offsets = read_vectors(biases) if biases else None
    if offsets is not None and len(offsets) != len(point_sets):
        raise DimensionMismatchError(
            f"--biases must give one list per head ({len(point_sets)}), but gives {len(offsets)}."
        )
    with naming(*heads, *biases):
        return hm.minkowski_vertices(point_sets, offsets, k=k, time_limit=time_limit)


def _sum_report(result: Any, checks: dict[str, str] | None) -> dict[str, Any]:
    report: dict[str, Any] = {
        "kind": result.kind,
        "count": result.count,
        "heads": int(result.choices.shape[1]),
        "d": int(result.vertices.shape[1]),
        "choices": _keys_of(result),
        "vertices": result.vertices,
        "witnesses": result.witnesses,
    }
    if checks is not None:
        report["verified"] = checks
    return {**report, "provenance": result.provenance}


def _keys_of(result: Any) -> Any:
    """The winning key of every head, or of top-k heads the keys: (count, H) or per row one list per head."""
    if result.sets is None:
        return result.choices
    return np.stack([result.winning_keys(h) for h in range(result.heads)], axis=1)


def _print_sum(report: dict[str, Any]) -> None:
    def row(i: int) -> list[str]:
        keys = report["choices"][i]
        chosen = point(keys) if keys.ndim == 1 else " ".join(map(point, keys))
        return [str(i), chosen, point(report["vertices"][i]), point(report["witnesses"][i])]

    vertices = counted(report["count"], "vertex", "vertices")
    title = f"{vertices}: {counted(report['heads'], 'head')} in dimension {report['d']}"
    notes = [f"check {name}: {outcome}" for name, outcome in report.get("verified", {}).items()]
    columns = ["vertex", "winning keys", "point", "witness"]
    print_table(title, columns, map(row, range(report["count"])), notes, n_rows=report["count"])
