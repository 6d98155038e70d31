"""Kinds of networks: what a cell costs in networks that people bring, ``python benchmarks/bench_kinds.py``.

A line per kind (:mod:`kinds`):

- cells: how many; "stopped" where the time limit came first, and the line speaks of the part that was found;
- set-up: milliseconds that do not depend on the number of cells (the same network on a tiny box);
- us: microseconds per cell beyond that;
- floats: the share of signs that floats decide, counted as one sign per unit or key and cell that enters its
  layer (there are more, so the share is at least that);
- dd, zero, rational: signs per 1,000 cells that double-double, the zero proof and rationals decide;
- /random: microseconds over those of random networks with the same shape;
- /forward: microseconds over those of one numpy forward pass (batches of 4,096, one thread).

Processor time, the least of several runs in turns, one thread. ``--out FILE`` writes everything as JSON, and
``benchmarks/compare.py`` compares two such files. Names or patterns select kinds. Exits with 1 if a target
is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from timing import seconds

import numpy as np  # isort: skip (the thread counts come first)

import hardmax as hm
from hardmax.versions import installed_versions

from kinds import Kind, along, integer_maxout, kinds, lookup_program  # isort: skip

SCHEMA = 1
BATCH = 4096
LIMIT = 6.0  # seconds for one network
ROUNDS = 7
PATIENT = 2.0  # seconds after which no other round begins
FEW, ENOUGH, MOST_DRAWN = 200, 2000, 20  # cells of a random network, of all that are drawn, and how many are
MOST_RATIONAL = 1.0  # per 1,000 cells


@dataclass
class Timed:
    """The least times of one network: on its domain, and on a tiny box in it."""

    network: hm.Network
    domain: hm.Box
    limit: float
    asked: Any = None  # instead of the box
    seconds: float = float("inf")
    set_up: float = float("inf")
    count: Any = None
    cells_tiny: int = 0

    def __post_init__(self) -> None:
        low, high = self.domain.low.floats, self.domain.high.floats
        corner = low + (high - low) * np.linspace(0.3711, 0.5923, self.domain.d)
        self.tiny = hm.Box(corner, corner + 1e-6 * (high - low))

    def run(self) -> None:
        """Once more."""

        def count() -> None:
            domain = self.domain if self.asked is None else self.asked
            self.count = hm.count_cells(self.network, domain, time_limit=self.limit)

        def count_tiny() -> None:
            self.cells_tiny = hm.count_cells(self.network, self.tiny, time_limit=self.limit).n_cells

        self.set_up = min(self.set_up, seconds(count_tiny))
        self.seconds = min(self.seconds, seconds(count))

    @property
    def cells(self) -> int:
        return int(self.count.n_cells)


def per_cell(timed: list[Timed]) -> float:
    """Seconds per cell without set-up; no less than 0.1 microseconds, which the clock does not resolve."""
    cells = sum(max(each.cells - each.cells_tiny, 1) for each in timed)
    return max(sum(each.seconds - each.set_up for each in timed) / cells, 1e-7)


def forward(network: hm.Network, points: np.ndarray) -> np.ndarray:
    """A forward pass in plain numpy: the yardstick, which does not change with the library."""
    y = points
    for block in network.blocks:
        if isinstance(block, hm.Attention):
            added = y if block.skip else 0.0
            for scores, biases, outputs in zip(
                block.scores.floats, block.biases.floats, block.outputs.floats, strict=True
            ):
                added = added + outputs[(y @ scores.T + biases).argmax(axis=1)]
            y = added
        elif isinstance(block, hm.FeedForward):
            z = (y if block.w_in is None else y @ block.w_in.floats.T) + block.b_in.floats
            z = np.maximum(z, 0) @ block.w_out.floats.T + block.b_out.floats
            y = y + z if block.skip else z
        elif isinstance(block, hm.Maxout):
            z = (np.tensordot(y, block.scores.floats, (1, 2)) + block.biases.floats).max(axis=2)
            y = z if block.w_out is None else z @ block.w_out.floats.T + block.b_out.floats
        else:
            y = y @ block.w.floats.T + block.b.floats
    return y


def signs_at_least(network: hm.Network, cells_by_depth: tuple[int, ...]) -> int:
    """One per unit, and per key but one, for every cell that enters their layer."""
    numbers = [
        block.biases.shape[0] * (block.biases.shape[1] - 1)
        if isinstance(block, hm.Attention | hm.Maxout)
        else block.width
        for block in network.blocks
        if not isinstance(block, hm.Affine)
    ]
    entering = (1, *cells_by_depth)
    return sum(number * cells for number, cells in zip(numbers, entering, strict=False))


def digest(network: hm.Network, domain: hm.Box, asked: Any = None) -> str:
    """Of all numbers: counts of two files are comparable only if the networks are the same."""
    total = hashlib.sha256()
    for part in (*network.blocks, domain):
        for name in (
            "scores",
            "biases",
            "outputs",
            "w_in",
            "b_in",
            "w_out",
            "b_out",
            "w",
            "b",
            "low",
            "high",
        ):
            array = getattr(part, name, None)
            if array is not None:
                total.update(np.ascontiguousarray(array.floats, dtype="<f8").tobytes() + name.encode())
    for array in () if asked is None else (asked.a, asked.b):
        total.update(np.ascontiguousarray(array.floats, dtype="<f8").tobytes() + b"asked")
    return total.hexdigest()[:16]


@dataclass
class Line:
    """One line of the table, as it is written to the file."""

    name: str
    digest: str
    cells: int
    complete: bool
    set_up_ms: float
    us_per_cell: float
    floats_at_least: float
    per_thousand_cells: dict[str, float]
    random_cells: int
    random_us_per_cell: float
    forward_us: float
    ratio_to_random: float
    ratio_to_forward: float
    targets: dict[str, float] = field(default_factory=dict)

    @property
    def missed(self) -> list[str]:
        """The targets that this line misses."""
        have = {
            "ratio_to_random": self.ratio_to_random,
            "ratio_to_forward": self.ratio_to_forward,
            "rational_per_thousand_cells": self.per_thousand_cells["rational"],
        }
        return [name for name, most in self.targets.items() if have[name] > most]

    def cell_texts(self) -> tuple[str, ...]:
        asked = {"ratio_to_random": "/random", "ratio_to_forward": "/forward"}
        targets = [f"{asked[name]} <= {most:g}" for name, most in self.targets.items() if name in asked]
        counted = self.per_thousand_cells
        return (
            self.name,
            f"{self.cells:,}" + ("" if self.complete else " stopped"),
            f"{self.set_up_ms:.1f}",
            f"{self.us_per_cell:.1f}",
            f"{100 * self.floats_at_least:.2f} %",
            *(f"{counted[step]:.1f}" for step in ("double_double", "zero", "rational")),
            f"{self.ratio_to_random:.1f}x",
            f"{self.ratio_to_forward:.1f}x",
            ", ".join([*targets, f"rational <= {MOST_RATIONAL:g}"]),
            "NO" if self.missed else "yes",
        )


HEAD = ("kind", "cells", "set-up ms", "us", "floats", "dd", "zero", "rational", "/random", "/forward",
        "targets", "ok")  # fmt: skip


def random_networks(kind: Kind, made: hm.Network, ours: Timed) -> list[Timed]:
    """What the kind is compared with, each run once: the same shape with Gaussian numbers on the same domain.

    Where that has few cells, set-up is nearly everything and hides what a cell costs: then on a larger
    domain, and several of them. A random network is compared with itself.
    """
    network, domain = kind.random_question(made, 0)
    if digest(network, domain) == digest(ours.network, ours.domain):
        return [ours]
    drawn = [Timed(network, domain, ours.limit, kind.asked)]
    drawn[0].run()
    most = 0.0 if kind.asked is not None else 100 * domain.high.floats[0]
    while drawn[0].cells < FEW and drawn[0].domain.high.floats[0] < most:
        low, high = drawn[0].domain.low.floats, drawn[0].domain.high.floats
        side = 2 * (high - low)
        drawn = [Timed(network, hm.Box((low + high) / 2 - side, (low + high) / 2 + side), ours.limit)]
        drawn[0].run()
    while sum(each.cells for each in drawn) < ENOUGH and len(drawn) < MOST_DRAWN:
        network, _ = kind.random_question(made, len(drawn))
        drawn.append(Timed(network, drawn[0].domain, ours.limit, kind.asked))
        drawn[-1].run()
    return drawn


def measured(kind: Kind, limit: float) -> Line:
    made = kind.make()
    network, domain = kind.question(made)
    ours = Timed(network, domain, limit, kind.asked)
    points = np.random.default_rng(0).uniform(domain.low.floats, domain.high.floats, (BATCH, domain.d))
    best = [float("inf")]

    def passes() -> None:
        best[0] = min(best[0], *(seconds(lambda: forward(network, points)) for _ in range(5)))

    def round_of_all() -> None:
        for timed in {id(each): each for each in (ours, *references)}.values():
            timed.run()
        passes()

    ours.run()
    references = random_networks(kind, made, ours)
    spent, rounds = seconds(passes) + ours.seconds + sum(each.seconds for each in references), 1
    while spent < PATIENT and rounds < ROUNDS:
        spent, rounds = spent + seconds(round_of_all), rounds + 1
    count, each, ordinary = ours.count, per_cell([ours]), per_cell(references)
    decided = {
        "double_double": count.n_double_double,
        "zero": getattr(count, "n_zero", 0),
        "rational": count.n_rational,
    }
    signs = signs_at_least(network, count.cells_by_depth)
    targets = {"ratio_to_random": kind.most_random, "ratio_to_forward": kind.most_forward}
    return Line(
        name=kind.name,
        digest=digest(network, domain, kind.asked),
        cells=ours.cells,
        complete=bool(count.complete),
        set_up_ms=1e3 * ours.set_up,
        us_per_cell=1e6 * each,
        floats_at_least=signs / max(signs + sum(decided.values()), 1),
        per_thousand_cells={step: 1e3 * n / max(ours.cells, 1) for step, n in decided.items()},
        random_cells=sum(other.cells for other in references),
        random_us_per_cell=1e6 * ordinary,
        forward_us=1e6 * best[0] / BATCH,
        ratio_to_random=each / ordinary,
        ratio_to_forward=each * BATCH / best[0],
        targets={name: most for name, most in targets.items() if most is not None}
        | {"rational_per_thousand_cells": MOST_RATIONAL},
    )


def warm_up() -> None:
    """Load every kernel and what decides in rationals, and let the allocator keep what is freed.

    Otherwise a forward pass pays for fresh pages, up to three times its own time, in some processes and not
    in others: glibc raises its limits only after something large was freed.
    """
    for _ in range(2):
        np.ones(2**22 - 2**12).sum()  # just below 32 MB, the largest limit
    for d in (1, 2, 3, 4, 7):
        for network in (
            hm.Network.random(d, n_tokens=3, heads=2, depth=1, d_ff=3, rng=0),
            hm.Network.mlp([(np.ones((3, d)), [0, 0, 1]), (np.ones((1, 3)), [0])]),
        ):
            hm.count_cells(network, hm.Box.cube(d, -1, 1))
    for heads in (integer_maxout(), lookup_program(3, 1)):  # signs that floats leave open on the line
        hm.count_cells(along(heads, hm.Box.cube(2, -1, 1), 4), hm.Box([0], [1]))


def table(lines: list[Line], limit: float) -> str:
    rows = [HEAD, *(line.cell_texts() for line in lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    texts = []
    for number, row in enumerate(rows):
        cells = [
            text.rjust(width) if 0 < i < 10 else text.ljust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        texts.append(" | ".join(cells).rstrip())
        if number == 0:
            texts.append("-|-".join("-" * width for width in widths))
    missed = [line.name for line in lines if line.missed]
    texts += [
        f"  us: microseconds per cell without set-up; stopped after {limit:g} s; dd, zero, rational: signs",
        "  per 1,000 cells; /random, /forward: over random networks of the same shape, over forward passes",
        f"  {len(missed)} of {len(lines)} kinds miss a target{': ' + '; '.join(missed) if missed else ''}",
    ]
    return "\n".join(texts)


def write_page(page: Path, text: str) -> None:
    """Replace what follows the heading "The table"."""
    before, heading, _ = page.read_text().partition("## The table\n")
    if not heading:
        raise SystemExit(f"{page} must have a heading '## The table'.")
    versions = installed_versions()
    used = ", ".join(f"{name} {versions[name]}" for name in ("hardmax", "numpy", "numba", "python"))
    page.write_text(f"{before}{heading}\n{used}:\n\n```text\n{text}\n```\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("patterns", nargs="*", default=["*"], help='which kinds: "int4", "lattice*"')
    parser.add_argument("--out", type=Path, help="write the table as JSON")
    parser.add_argument("--page", type=Path, help="write the table into this page of the documentation")
    parser.add_argument("--time-limit", type=float, default=LIMIT, help="seconds for one network")
    options = parser.parse_args()
    wanted = [kind for kind in kinds() if any(fnmatchcase(kind.name, p) for p in options.patterns)]
    if not wanted:
        parser.error(f"no kind is called {', '.join(options.patterns)}; there are: "
                     f"{'; '.join(kind.name for kind in kinds())}")  # fmt: skip
    warm_up()
    lines = []
    for kind in wanted:
        lines.append(measured(kind, options.time_limit))
    text = table(lines, options.time_limit)
    print(text)
    if options.page:
        write_page(options.page, text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        written = {
            "schema": SCHEMA,
            "versions": installed_versions(),
            "time_limit": options.time_limit,
            "batch": BATCH,
            "kinds": [asdict(line) for line in lines],
        }
        options.out.write_text(json.dumps(written, indent=1) + "\n")
        print(f"  written to {options.out}; compare with: python benchmarks/compare.py BEFORE {options.out}")
    return 1 if any(line.missed for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
