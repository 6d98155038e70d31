"""``hardmax diagram``: which keys can win, and where (P1 section IV)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hardmax.cli.inputs import naming, read_matrix, read_result, read_vector
from hardmax.cli.outputs import (
    check_targets,
    number,
    output_options,
    point,
    print_json,
    print_table,
    save_and_draw,
)
from hardmax.errors import InvalidInputError

if TYPE_CHECKING:
    from hardmax.geometry.diagrams.power_diagrams import PowerDiagram
    from hardmax.geometry.domains import Box

__all__ = ["diagram"]

FILE = click.Path(path_type=Path)


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
    "--reach", is_flag=True, help="The largest margin that a query of norm at most 1 can give each key."
)
@output_options
def diagram(
    keys: Path,
    biases: Path | None,
    sites: bool,
    weights: Path | None,
    box: tuple[float, float] | None,
    reach: bool,
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
      hardmax diagram keys.npy --reach --out diagram.npz
    """
    check_targets(out, plot)
    if weights is not None and not sites:
        raise InvalidInputError(
            "--weights belongs to a power diagram; add --sites, or use --biases for keys."
        )
    if biases is not None and sites:
        raise InvalidInputError("--biases belongs to keys; for --sites use --weights.")
    cells, shown_box, reaches = _compute(keys, biases, sites, weights, box, reach)
    save_and_draw(cells, out, plot, box=shown_box)
    report = _report(cells, shown_box, reaches)
    if as_json:
        print_json(report)
    else:
        _print(report, "site" if sites else "key")


def _compute(
    keys: Path,
    biases: Path | None,
    sites: bool,
    weights: Path | None,
    box: tuple[float, float] | None,
    reach: bool,
) -> tuple[PowerDiagram, Box | None, Any]:
    import hardmax as hm

    cells = read_result(keys, "PowerDiagram")
    if cells is not None and (biases is not None or sites):
        raise InvalidInputError(f"{keys} is a saved diagram and has its biases or weights already.")
    with naming(keys, biases, weights):
        if cells is None and sites:
            points = read_matrix(keys, "site")
            cells = hm.power_diagram(points, [0] * len(points) if weights is None else read_vector(weights))
        elif cells is None:
            points = read_matrix(keys, "key")
            cells = hm.attention_diagram(points, None if biases is None else read_vector(biases))
        square = None if box is None else hm.Box.cube(2, *box)
        if square is not None and cells.d != 2:
            raise InvalidInputError(f"--box cuts a square out of the plane, but dimension is {cells.d}.")
        return cells, square, cells.reach().values if reach else None


def _report(cells: PowerDiagram, box: Box | None, reaches: Any) -> dict[str, Any]:
    report: dict[str, Any] = {
        "kind": cells.kind,
        "n_keys": len(cells.nonempty),
        "d": cells.d,
        "n_nonempty": int(cells.nonempty.sum()),
        "nonempty": cells.nonempty,
        "witnesses": cells.witnesses,
    }
    if reaches is not None:
        report["reach"] = reaches
    if box is not None:
        report["polygons"] = cells.polygons(box)
    return {**report, "provenance": cells.provenance}


def _print(report: dict[str, Any], word: str) -> None:
    def row(j: int) -> list[str]:
        nonempty = bool(report["nonempty"][j])
        line = [str(j), "yes" if nonempty else "no", point(report["witnesses"][j]) if nonempty else ""]
        if "reach" in report:
            line.append(number(report["reach"][j]))
        if "polygons" in report:
            line.append(number(_area(report["polygons"][j])))
        return line

    columns = [word, "interior", "witness"]
    columns += ["reach"] * ("reach" in report) + ["area in the box"] * ("polygons" in report)
    won, n_keys, d = report["n_nonempty"], report["n_keys"], report["d"]
    print_table(
        f"{won} of {n_keys} {word}s win on a set with interior, in dimension {d}", columns, row, n_keys
    )


def _area(corners: Any) -> float:
    """Area of a polygon by the shoelace formula; 0 for an empty one."""
    n = len(corners)
    doubled = sum(
        corners[i][0] * corners[(i + 1) % n][1] - corners[(i + 1) % n][0] * corners[i][1] for i in range(n)
    )
    return abs(float(doubled)) / 2
