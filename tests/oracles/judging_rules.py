"""Hold cells of networks with rules of attention against those of the plain oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

import hardmax as hm

from .attention_rules import RuleCell, RuleCells, cells_by_rules, value_by_rules
from .random_networks import Instance
from .rational_regions import exact


@dataclass(frozen=True)
class Expected:
    """What the sweep sums up."""

    cells: list[RuleCell]
    n_regions: int
    adjacency: dict = field(default_factory=dict)

    @property
    def n_cells(self) -> int:
        return len(self.cells)


@dataclass(frozen=True)
class RuleJudgement:
    """What the oracle found for an instance, and what is wrong with the answers."""

    expected: Expected
    n_rational: int
    problems: list[str]


def states_of(found: hm.regions.RegionSet) -> list[tuple]:
    """Keys with weight per head and bits of units, block by block, as the oracle writes them.

    Columns of routings and bits belong to ``plain``, which has blocks of its own for those that choose sets.
    """
    routings, bits = found.routings, found.relu_bits
    rows: list[list] = [[] for _ in range(found.n_cells)]
    head = unit = 0
    for b, block in enumerate(found.network.blocks):
        if isinstance(block, hm.FeedForward):
            width = exact(block.w_in).shape[0]
            states = [(tuple(row),) for row in bits[:, unit : unit + width].astype(int).tolist()]
            unit += width
        elif block.rule in ("top-k", "sparsemax"):
            chosen = found.chosen(b)
            states = [tuple(tuple(np.flatnonzero(keys).tolist()) for keys in row) for row in chosen]
            head += len(block.mask)
            unit += int(block.mask.sum()) if block.rule == "sparsemax" else 0
        elif block.rule == "relu":
            width = block.mask.size
            table = bits[:, unit : unit + width].reshape(-1, *block.mask.shape)
            states = [tuple(tuple(np.flatnonzero(keys).tolist()) for keys in row) for row in table]
            unit += width
        else:
            count = len(block.mask)
            states = [tuple((j,) for j in row) for row in routings[:, head : head + count].tolist()]
            head += count
        for row, state in zip(rows, states, strict=True):
            row.append(state)
    return [tuple(row) for row in rows]


def rule_problems(
    found: hm.regions.RegionSet, expected: RuleCells, n_regions: int | None = None
) -> list[str]:
    """States, maps, witnesses, volumes and regions."""
    have, want = states_of(found), expected.by_states
    if sorted(have) != sorted(want):
        missing, invented = sorted(set(want) - set(have)), sorted(set(have) - set(want))
        return [f"{len(have)} cells, not {len(want)}; missing {missing[:4]}, invented {invented[:4]}"]
    problems = []
    if not (found.complete and found.exact):
        problems.append("says that it is not complete or not exact")
    for i, states in enumerate(have):
        cell = want[states]
        linear, offset = found.exact_map(i)
        rows = tuple((*row, constant) for row, constant in zip(linear, offset, strict=True))
        if rows != cell.map:
            problems.append(f"cell {states}: exact map {rows}, not {cell.map}")
        floats = np.column_stack([found.linear[i], found.offset[i]])
        wanted = np.array([[float(a) for a in row] for row in cell.map])
        if not np.allclose(floats, wanted, rtol=1e-9, atol=1e-9):
            problems.append(f"cell {states}: map {floats.tolist()}, not {wanted.tolist()}")
        x = found.exact_witness(i)
        if not all(sum(a * v for a, v in zip(row, (*x, 1), strict=True)) > 0 for row in cell.piece.rows):
            problems.append(f"cell {states}: witness {x} is not inside")
            continue
        at = [sum((a * v for a, v in zip(row, (*x, 1), strict=True)), Fraction(0)) for row in cell.map]
        if value_by_rules(found.network, x) != at:
            problems.append(f"cell {states}: the oracle contradicts itself at {x}")
        if list(found.network.exact_value(x)) != at:
            problems.append(f"cell {states}: exact_value at {x} is {found.network.exact_value(x)}, not {at}")
    if n_regions is not None and found.n_regions != n_regions:
        problems.append(f"{found.n_regions} regions, not {n_regions}")
    if found.coverage is not None and abs(found.coverage - 1) > 1e-9:
        problems.append(f"coverage is {found.coverage}")
    return problems


OTHER_ENGINES = {1: ("plane",), 2: ("search",), 3: ("search",)}


def judge_rules(case: Instance, arithmetics: tuple[str, ...] = ("certified",)) -> RuleJudgement:
    """Hold an instance against the oracle: all arithmetics, and another engine for every third of a rule."""
    low, high = (exact(end).tolist() for end in (case.domain.low, case.domain.high))
    cells = cells_by_rules(case.network, low, high)
    expected = Expected(cells.cells, cells.n_regions)
    engines: list[tuple[str | None, str]] = [(None, arithmetic) for arithmetic in arithmetics]
    others = OTHER_ENGINES[case.domain.d]
    if case.number // 5 % 3 == 0:
        engines.append((others[case.number // 15 % len(others)], "certified"))
    problems, n_rational = [], 0
    for engine, arithmetic in engines:
        try:
            found = hm.enumerate_regions(case.network, case.domain, arithmetic=arithmetic, engine=engine)
            listed = rule_problems(found, cells, expected.n_regions if engine != "search" else None)
            if engine is None and arithmetic == "certified":
                count = hm.count_cells(case.network, case.domain)
                n_rational = count.n_rational
                have = count.n_cells, count.complete, count.exact
                if have != (expected.n_cells, True, True):
                    listed.append(f"count_cells says {have}")
        except Exception as error:  # whatever it is, it is the engine's
            listed = [f"{type(error).__name__}: {error}"]
        problems += [f"[{engine or 'default'}, {arithmetic}] {problem}" for problem in listed]
    return RuleJudgement(expected, n_rational, problems)
