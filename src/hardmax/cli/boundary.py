"""``hardmax boundary``: where the winning class of a network changes, and how far points are from there."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hardmax as hm
from hardmax.cli.inputs import Number, naming
from hardmax.cli.networks import Place, place_options, read_network
from hardmax.cli.numbers import REAL, WHOLE, WholeRange
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
from hardmax.cli.regions import answer
from hardmax.errors import InvalidInputError

if TYPE_CHECKING:
    from hardmax.regions.decisions.boundary import DecisionBoundary
    from hardmax.regions.decisions.distance import DecisionDistance

_MOST_VERTICES = 4  # that a table shows of a piece
_PART = 256  # class cells of an incomplete search whose pieces are listed


@click.command()
@click.argument("network", metavar="NETWORK")
@place_options
@click.option(
    "--points", type=FILE, metavar="FILE", help="Data points, one per line; one more column is a label."
)
@click.option("--distance", is_flag=True, help="How far each of the --points is from the boundary.")
@click.option(
    "--norm",
    type=click.Choice(["1", "2", "inf"]),
    default="2",
    show_default=True,
    help="With --distance: how far is measured.",
)
@click.option("--exact", is_flag=True, help="Decide everything in rationals: the same boundary, slowly.")
@click.option("--max-cells", type=WholeRange(min=1), metavar="N", help="Stop after this many cells.")
@click.option("--time-limit", type=REAL, metavar="S", help="Stop after this many seconds.")
@click.option("--jobs", type=WHOLE, metavar="N", help="Share the work between N threads, -1 for every core.")
@output_options
def boundary(
    network: str,
    box: tuple[Number, Number] | None,
    whole: bool,
    polygon: Path | None,
    slice_text: str | None,
    slice_file: Path | None,
    through: Path | None,
    points: Path | None,
    distance: bool,
    norm: str,
    exact: bool,
    max_cells: int | None,
    time_limit: float | None,
    jobs: int | None,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """The decision boundary of a classifier, exactly: where its winning class changes.

    NETWORK is an ONNX file, a file written by network.save (or a saved DecisionBoundary, which is shown
    again), or a description as for hardmax regions. The class of an input is its largest output; one output
    decides by its sign. The boundary consists of segments in the plane, polygons in space, points on the
    line, each between two classes. With --distance the table is about the points instead: how far each is
    from the boundary, and whether a part of it outside of the domain could be nearer.

    \b
    Examples:
      hardmax boundary network.onnx --box -4 4 --plot classes.png
      hardmax boundary network.npz --box -4 4 --points data.csv --plot classes.png
      hardmax boundary network.npz --box -4 4 --points data.csv --distance --norm inf --json
      hardmax boundary mlp:2,16,16,3,seed=0 --box -4 4 --out boundary.npz
      hardmax boundary digits.npz --through images.csv --plot plane.png
    """
    check_targets(out, plot)
    if distance and points is None:
        raise InvalidInputError("--distance is about data points; add --points FILE.")
    stored = read_network(network, or_saved="DecisionBoundary")
    if stored.kind == "DecisionBoundary":
        if box or whole or polygon or slice_text or slice_file or through:
            raise InvalidInputError(
                f"{network} is a saved result; it is shown without --box, --whole, --polygon, --slice or "
                "--through."
            )
        place, found = Place(stored.network, stored.domain), stored
    else:
        place = Place.of(stored, box, whole, polygon, slice_text, slice_file, through)
        found = answer(
            partial(
                hm.decision_boundary,
                place.network,
                place.domain,
                arithmetic="exact" if exact else "certified",
                max_cells=max_cells,
                time_limit=time_limit,
                n_jobs=jobs,
            )
        )
    data, labels = place.read_points(points)
    lengths: list[DecisionDistance] = []
    if distance and data is not None:
        with naming(points):
            lengths = [found.distance(row, norm) for row in data]
    save_and_draw(found, out, None)
    if plot is not None:
        write_picture(found.plot(points=data, labels=labels).figure, plot)
    if as_json:
        print_json({**_report(found, place), "distances": [_told(one) for one in lengths]})
    elif distance:
        _print_distances(found, lengths)
    elif _is_cut_off(found):
        click.echo(
            f"decision boundary: {found.class_cells.n_cells:,} class cells, INCOMPLETE; pieces are listed "
            f"when the search is complete or has found at most {_PART} class cells."
        )
    else:
        _print(found, place)


def _report(found: DecisionBoundary, place: Place) -> dict[str, Any]:
    """What JSON says."""
    few = found.d <= 6
    head = {
        "kind": found.kind,
        "d": found.d,
        "n_class_cells": found.class_cells.n_cells,
        "n_classes": found.n_classes,
        "complete": found.complete,
        "exact": found.exact,
        "provenance": found.provenance,
    }
    if _is_cut_off(found):
        return head
    return {
        **head,
        "n_pieces": len(found),
        "total_size": found.total_size if found.complete else None,
        "class_sizes": found.class_sizes,
        "n_decision_regions": found.n_decision_regions,
        "classes": found.classes,
        "cells": found.cells,
        "jumps": found.jumps,
        "sizes": found.sizes,
        "vertices": [piece.vertices for piece in found] if few else None,
        "exact_vertices": [piece.exact_vertices for piece in found] if few else None,
        "plane_points": None if place.plane is None else place.plane.exact_points,
    }


def _is_cut_off(found: DecisionBoundary) -> bool:
    """Whether a limit stopped the search with more class cells than pieces are made of afterwards."""
    return not found.complete and found.class_cells.n_cells > _PART


def _told(one: DecisionDistance) -> dict[str, Any]:
    return {
        "point": one.point,
        "norm": one.norm,
        "distance": one.distance,
        "exact": one.exact,
        "nearest": one.nearest,
        "exact_nearest": one.exact_nearest,
        "class_here": one.class_here,
        "class_beyond": one.class_beyond,
        "certain": one.certain,
        "lower_bound": one.lower_bound,
        "edge_distance": one.edge_distance,
    }


def _title(found: DecisionBoundary) -> str:
    words = counted(len(found), "piece" if found.d > 1 else "point")
    if found.complete and found.d in (2, 3):
        words += f", {'length' if found.d == 2 else 'area'} {number(found.total_size)}"
    sure = f"{'complete' if found.complete else 'INCOMPLETE'}, {'exact' if found.exact else 'not certified'}"
    return f"decision boundary: {words}, {counted(found.n_decision_regions, 'decision region')}, {sure}"


def _print(found: DecisionBoundary, place: Place) -> None:
    size = {1: [], 2: ["length"]}.get(found.d, ["size"])
    jumps = found.jumps.any()

    def row(i: int) -> list[str]:
        piece = found[i]
        line = [str(i), "{} | {}".format(*piece.classes), " ".join(map(str, sorted(set(piece.cells))))]
        corners: Any = piece.vertices if found.d <= 6 else []
        shown = [point(corner) for corner in corners[:_MOST_VERTICES]]
        line.append(" ".join(shown) + (" ..." if len(corners) > _MOST_VERTICES else ""))
        return line + [number(piece.size)] * len(size) + [("jumps" if piece.jump else "")] * bool(jumps)

    columns = ["piece", "classes", "in cell", "vertices", *size] + ["outputs"] * bool(jumps)
    notes = [] if found.complete else ["Stopped early: there may be more pieces."]
    if place.plane is not None:
        notes.append("The three points lie at " + ", ".join(point(p) for p in place.plane.points) + ".")
    print_table(_title(found), columns, map(row, range(len(found))), notes, n_rows=len(found))


def _print_distances(found: DecisionBoundary, lengths: list[DecisionDistance]) -> None:
    rows = [
        [
            str(i),
            point([float(v) for v in one.point]),
            str(one.class_here),
            number(one.distance),
            "" if one.class_beyond is None else str(one.class_beyond),
            "" if one.nearest is None else point(one.nearest),
            "" if one.certain else f"at least {number(one.lower_bound)}: the domain ends there",
        ]
        for i, one in enumerate(lengths)
    ]
    columns = ["number", "point", "class", "distance", "to class", "nearest", "outside of the domain"]
    if all(one.certain for one in lengths):
        rows, columns = [row[:-1] for row in rows], columns[:-1]
    print_table(f"{_title(found)}; norm {lengths[0].norm}", columns, rows)
