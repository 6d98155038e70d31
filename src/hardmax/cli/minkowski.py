"""``hardmax minkowski``: how many cells several heads cut together (P1 section V-A)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hardmax.cli.inputs import naming, read_heads, read_result, read_vectors
from hardmax.cli.outputs import (
    check_targets,
    output_options,
    point,
    print_json,
    print_table,
    save_and_draw,
)
from hardmax.errors import CertificateError, DimensionMismatchError, InvalidInputError

__all__ = ["minkowski"]

FILE = click.Path(path_type=Path)


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
    result = _compute(heads, biases)
    verification = result.verify() if verify else None
    if verification is not None and not verification.ok:
        raise CertificateError(f"the result failed its own check ({verification}); please report this.")
    save_and_draw(result, out, plot)
    report = _report(result, verification.checks if verification else None)
    if as_json:
        print_json(report)
    else:
        _print(report)


def _compute(heads: tuple[Path, ...], biases: tuple[Path, ...]) -> Any:
    import hardmax as hm

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


def _report(result: Any, checks: dict[str, str] | None) -> dict[str, Any]:
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


def _print(report: dict[str, Any]) -> None:
    def row(i: int) -> list[str]:
        return [str(i), *(point(report[name][i]) for name in ("choices", "vertices", "witnesses"))]

    count, heads = report["count"], report["heads"]
    title = (
        f"{count} {'vertex' if count == 1 else 'vertices'}: "
        f"{heads} {'head' if heads == 1 else 'heads'} in dimension {report['d']}"
    )
    notes = [f"check {name}: {outcome}" for name, outcome in report.get("verified", {}).items()]
    print_table(title, ["vertex", "winning keys", "point", "witness"], row, count, notes)
