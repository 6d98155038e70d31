"""Heads by their keys: ``hardmax diagram`` (P1 section IV) and ``hardmax minkowski`` (section V-A)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import hardmax as hm
from hardmax.cli.inputs import naming, read_heads, read_matrix, read_result, read_vector, read_vectors
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

if TYPE_CHECKING:
    from hardmax.geometry.diagrams.power_diagrams import PowerDiagram


@click.command()
@click.argument("keys", type=FILE)
@click.option("--biases", type=FILE, metavar="FILE", help="One bias per key, added to its score.")
@click.option("--sites", is_flag=True, help="The rows are sites of a power diagram instead of keys.")
@click.option(
    "--weights", type=FILE, metavar="FILE", help="One weight per site (needs --sites); default 0: Voronoi."
)
@click.option(
    "--box",
    nargs=2,
    type=float,
    metavar="LOW HIGH",
    help="In the plane: the square [LOW, HIGH]^2 to cut out.",
)
@click.option(
    "--max-margin", is_flag=True, help="The largest margin that a query of norm at most 1 can give each key."
)
@output_options
def diagram(
    keys: Path,
    biases: Path | None,
    sites: bool,
    weights: Path | None,
    box: tuple[float, float] | None,
    max_margin: bool,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """Which keys can win, and where.

    KEYS is a file with one key per row (or a saved PowerDiagram). A query x is routed to the key with the
    largest score k . x + b; the table says for every key whether it wins on a set with interior, and shows
    one winning query as a witness.

    \b
    Examples:
      hardmax diagram keys.npy
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
    cells = _diagram(keys, biases, sites, weights)
    with naming(keys, biases, weights):
        square = None if box is None else Box.cube(2, *box)
        if square is not None and cells.d != 2:
            raise InvalidInputError(f"--box cuts a square out of the plane, but dimension is {cells.d}.")
        margins = cells.max_margin().values if max_margin else None
    save_and_draw(cells, out, plot, box=square)
    report = _report(cells, square, margins)
    if as_json:
        print_json(report)
    else:
        _print(report, "site" if sites else "key")


def _diagram(keys: Path, biases: Path | None, sites: bool, weights: Path | None) -> PowerDiagram:
    saved: PowerDiagram | None = read_result(keys, "PowerDiagram")
    if saved is not None:
        if biases is not None or sites:
            raise InvalidInputError(f"{keys} is a saved diagram and has its biases or weights already.")
        return saved
    with naming(keys, biases, weights):
        points = read_matrix(keys, "site" if sites else "key")
        if sites:
            return hm.power_diagram(points, [0] * len(points) if weights is None else read_vector(weights))
        return hm.attention_diagram(points, None if biases is None else read_vector(biases))


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
    """Area of a polygon by the shoelace formula; 0 for an empty one."""
    x, y = np.reshape(corners, (-1, 2)).T
    return abs(float(x @ np.roll(y, -1) - np.roll(x, -1) @ y)) / 2


@click.command()
@click.argument("heads", type=FILE, nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--biases",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="Biases of the keys: once per head, or one file for all.",
)
@click.option("--verify", is_flag=True, help="Check every witness and the Euler and Weibel identities.")
@output_options
def minkowski(
    heads: tuple[Path, ...],
    biases: tuple[Path, ...],
    verify: bool,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """How many cells several heads cut together.

    Each FILE is a head with one key per row; one array of shape (H, N, d) or a .npz with several arrays holds
    several heads; a saved MinkowskiVertices is shown again. A vertex of the Minkowski sum of the heads is a
    choice of one key per head that wins on a set with interior; its witness is a query for which it wins.

    \b
    Examples:
      hardmax minkowski head0.npy head1.npy
      hardmax minkowski heads.npy --verify --json
      hardmax minkowski a.csv b.csv --biases a-biases.csv --biases b-biases.csv
      hardmax minkowski heads.npz --out sum.npz --plot sum.svg
    """
    check_targets(out, plot)
    result = _sum(heads, biases)
    verification = result.verify() if verify else None
    if verification is not None and not verification.ok:
        raise CertificateError(f"the result failed its own check ({verification}); please report this.")
    save_and_draw(result, out, plot)
    report = _sum_report(result, verification.checks if verification else None)
    if as_json:
        print_json(report)
    else:
        _print_sum(report)


def _sum(heads: tuple[Path, ...], biases: tuple[Path, ...]) -> Any:
    saved = read_result(heads[0], "MinkowskiVertices")
    if saved is not None:
        if len(heads) > 1 or biases:
            raise InvalidInputError(f"{heads[0]} is a saved result; it is shown alone and without --biases.")
        return saved
    point_sets = read_heads(heads)
    offsets = read_vectors(biases) if biases else None
    if offsets is not None and len(offsets) != len(point_sets):
        raise DimensionMismatchError(
            f"--biases must give one list per head ({len(point_sets)}), but gives {len(offsets)}."
        )
    with naming(*heads, *biases):
        return hm.minkowski_vertices(point_sets, offsets)


def _sum_report(result: Any, checks: dict[str, str] | None) -> dict[str, Any]:
    report: dict[str, Any] = {
        "kind": result.kind,
        "count": result.count,
        "heads": int(result.choices.shape[1]),
        "d": int(result.vertices.shape[1]),
        "choices": result.choices,
        "vertices": result.vertices,
        "witnesses": result.witnesses,
    }
    if checks is not None:
        report["verified"] = checks
    return {**report, "provenance": result.provenance}


def _print_sum(report: dict[str, Any]) -> None:
    def row(i: int) -> list[str]:
        return [str(i), *(point(report[name][i]) for name in ("choices", "vertices", "witnesses"))]

    vertices = counted(report["count"], "vertex", "vertices")
    title = f"{vertices}: {counted(report['heads'], 'head')} in dimension {report['d']}"
    notes = [f"check {name}: {outcome}" for name, outcome in report.get("verified", {}).items()]
    columns = ["vertex", "winning keys", "point", "witness"]
    print_table(title, columns, map(row, range(report["count"])), notes, n_rows=report["count"])
