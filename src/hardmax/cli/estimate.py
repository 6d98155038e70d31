"""``hardmax estimate``: how many cells random points fall into (P1 section VII)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hardmax as hm
from hardmax.cli.inputs import naming
from hardmax.cli.networks import read_network
from hardmax.cli.numbers import REAL, WHOLE
from hardmax.cli.outputs import (
    JSON,
    check_targets,
    number,
    out_option,
    print_json,
    print_table,
    save_and_draw,
)
from hardmax.errors import InvalidInputError

if TYPE_CHECKING:
    from hardmax.regions.sampling.estimate import CellEstimate


@click.command()
@click.argument("network")
@click.option("--box", nargs=2, type=REAL, metavar="LOW HIGH", help="The cube [LOW, HIGH]^d to sample.")
@click.option("--samples", type=WHOLE, default=2_000_000, show_default=True, help="The number of points.")
@click.option("--seed", type=WHOLE, default=0, show_default=True, help="The same seed gives the same points.")
@click.option(
    "--confidence",
    type=REAL,
    default=0.95,
    show_default=True,
    help="How sure the bound on the unseen volume shall be.",
)
@click.option("--time-limit", type=REAL, metavar="S", help="Stop after this many seconds.")
@click.option("--jobs", type=WHOLE, metavar="N", help="Threads; the answer does not depend on them.")
@JSON
@out_option("Save the estimate; hm.load reads it back.")
def estimate(
    network: str,
    box: tuple[float, float] | None,
    samples: int,
    seed: int,
    confidence: float,
    time_limit: float | None,
    jobs: int | None,
    as_json: bool,
    out: Path | None,
) -> None:
    """How many cells random points fall into.

    NETWORK is a saved Network, or described as in mlp:2,64,64,64,1,seed=0 (or a saved CellEstimate, which is
    shown again). The number of different signatures is a lower bound on the number of cells; it says nothing
    about the number of linear regions, which may be smaller. In the plane, `hardmax regions` counts exactly.

    \b
    Examples:
      hardmax estimate network.npz --box -4 4
      hardmax estimate mlp:2,64,64,64,1,seed=0 --box -4 4
      hardmax estimate network.npz --box -4 4 --samples 10000000 --seed 1 --json
    """
    check_targets(out, None)
    if not 0.0 < confidence < 1.0:
        raise InvalidInputError(f"confidence must lie between 0 and 1, but was {confidence:g}.")
    estimate = _compute(network, box, samples, seed, time_limit, jobs)
    report = _report(estimate, confidence)
    save_and_draw(estimate, out, None)
    if as_json:
        print_json(report)
    else:
        _print(report)


def _compute(
    text: str,
    box: tuple[float, float] | None,
    samples: int,
    seed: int,
    time_limit: float | None,
    jobs: int | None,
) -> CellEstimate:
    stored = read_network(text, or_saved="CellEstimate")
    if stored.kind == "CellEstimate":
        if box is not None:
            raise InvalidInputError(f"{text} is a saved estimate; it is shown without --box.")
        return stored  # type: ignore[no-any-return]
    if box is None:
        raise InvalidInputError("--box must say where the points are drawn; try --box -4 4.")
    with naming(Path(text)):
        return hm.estimate_cells(
            stored,
            hm.Box.cube(stored.d, *box),
            n_samples=samples,
            rng=seed,
            time_limit=time_limit,
            n_jobs=jobs,
        )


def _report(estimate: CellEstimate, confidence: float) -> dict[str, Any]:
    return {
        "kind": estimate.kind,
        "d": estimate.domain.d,
        "n_samples": estimate.n_samples,
        "complete": estimate.complete,
        "n_signatures": estimate.n_signatures,
        "n_seen_once": int((estimate.counts == 1).sum()),
        "unseen_mass": estimate.unseen_mass,
        "confidence": confidence,
        "unseen_mass_upper": estimate.unseen_mass_upper(confidence),
        "n_cells_chao1": estimate.n_cells_chao1,
        "collision_probability": estimate.collision_probability,
        "provenance": estimate.provenance,
    }


def _print(report: dict[str, Any]) -> None:
    lines = [
        ["different signatures", str(report["n_signatures"]), "at least this many cells"],
        ["seen once", str(report["n_seen_once"]), ""],
        ["unseen volume", number(report["unseen_mass"]), "share of the domain, estimated"],
        ["", number(report["unseen_mass_upper"]), f"at most, with confidence {report['confidence']:g}"],
        ["cells by Chao's estimate", f"{report['n_cells_chao1']:.0f}", "a guess, usually too low"],
        ["probability of a collision", number(report["collision_probability"]), "at most"],
    ]
    title = f"{report['n_signatures']} signatures at {report['n_samples']} points, in dimension {report['d']}"
    notes = [] if report["complete"] else ["INCOMPLETE: sampling stopped early."]
    print_table(title, ["", "number", "meaning"], lines, notes)
