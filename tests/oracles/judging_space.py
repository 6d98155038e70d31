"""Hold cells and regions beyond the plane against those of the rational enumerator, number by number."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

import numpy as np

import hardmax as hm
from hardmax.networks.layers import layers_of
from hardmax.regions.result import RegionSet
from hardmax.regions.space.sizes import VOLUME_ERROR

from .judging_regions import _float, map_problems, signatures_of
from .made_cells import region_set
from .random_networks import Instance
from .rational_regions import integers, reduced
from .rational_space import Cell, RationalSpace, enumerate_space

CLOSE = 1e-9  # how far a float that is only shown may be off, relatively

Problem = str


@dataclass(frozen=True)
class Judgement:
    """What the rational enumerator found for an instance, and what is wrong with the engine's answer."""

    expected: RationalSpace
    n_rational: int
    problems: list[Problem]


def searched(network, domain, arithmetic: str = "certified") -> tuple[RegionSet, int]:
    """The cells by linear programs, whatever the dimension, and how many decisions needed rationals."""
    from hardmax.regions.search.machine import SearchMachine

    machine = SearchMachine(layers_of(network), domain, arithmetic=arithmetic, store=True)
    while not machine.done:
        machine.advance(10_000)
    found = region_set(network, domain, machine, arithmetic=arithmetic)
    if machine.n_unbounded != (~found.bounded).sum():
        raise AssertionError(
            f"{machine.n_unbounded} unbounded cells were counted, not {(~found.bounded).sum()}"
        )
    return found, machine.n_rational


def enumerated(network, domain, arithmetic: str = "certified") -> tuple[RegionSet, int]:
    """The cells by the engine that the front door takes, and how many decisions needed rationals."""
    count = hm.count_cells(network, domain, arithmetic=arithmetic)
    found = hm.enumerate_regions(network, domain, arithmetic=arithmetic)
    have = count.n_cells, count.n_unbounded, count.complete, count.exact
    if have != (found.n_cells, int((~found.bounded).sum()), found.complete, found.exact):
        raise AssertionError(f"count_cells says {count}")
    return found, count.n_rational


def judge_space(
    case: Instance, arithmetics: tuple[str, ...] = ("certified",), engine=enumerated, *, contacts: bool = True
) -> Judgement:
    """Hold cells, maps, contacts and regions of an instance against the rational enumerator."""
    expected = enumerate_space(case.network, case.domain)
    problems, n_rational = [], 0
    for arithmetic in arithmetics:
        try:
            found, decided = engine(case.network, case.domain, arithmetic)
            listed = space_problems(found, expected)
            if not listed and contacts:
                listed = touching_problems(found, expected)
            n_rational = max(n_rational, decided if arithmetic == "certified" else 0)
        except Exception as error:  # whatever it is, it is the engine's
            listed = [f"{type(error).__name__}: {error}"]
        problems += [f"[{arithmetic}] {problem}" for problem in listed]
    return Judgement(expected, n_rational, problems)


def space_problems(found: RegionSet, expected: RationalSpace) -> list[Problem]:
    """Signatures, facets, vertices, witnesses, volumes and maps."""
    signatures = signatures_of(found)
    if signatures != expected.signatures:
        have, want = set(signatures), set(expected.signatures)
        return [
            f"{len(signatures)} cells, not {len(want)}; missing {sorted(want - have)[:4]}, invented "
            f"{sorted(have - want)[:4]}{', in another order' if have == want else ''}"
        ]
    problems = []
    if not (found.complete and found.exact):
        problems.append("says that it is not complete or not exact")
    problems += _coverage_problems(found, expected)
    for i, cell in enumerate(expected.cells):
        texts = _facet_problems(found, i, cell) + _witness_problems(found, i, cell)
        texts += _size_problems(found, i, cell) + map_problems(found, i, cell)
        problems += [f"cell {i} {cell.signature}: {text}" for text in texts]
    return problems


def _coverage_problems(found: RegionSet, expected: RationalSpace) -> list[Problem]:
    coverage = found.coverage
    if found.volumes is None or not expected.bounded:
        return [] if coverage is None else [f"coverage is {coverage}, but has no meaning"]
    if coverage is None:
        volume = expected.volume  # None only where it is no float
        return [] if not Fraction(10) ** -300 < volume < Fraction(10) ** 300 else ["coverage is not known"]
    return [] if abs(coverage - 1) <= CLOSE else [f"coverage is {coverage}, not 1"]


def _facet_problems(found: RegionSet, i: int, cell: Cell) -> list[Problem]:
    problems = []
    listed = [
        reduced(tuple(integers(np.array([*(-v for v in row[:-1]), row[-1]], dtype=object))[0]))
        for row in found.exact_halfspaces(i)
    ]
    if len(set(listed)) != len(listed):
        problems.append("a facet is listed twice")
    if set(listed) != cell.halfspaces:
        problems.append(f"half-spaces {sorted(listed)}, not {sorted(cell.halfspaces)}")
    if bool(found.bounded[i]) != cell.bounded:
        problems.append(f"bounded is {found.bounded[i]}")
    return problems


def _size_problems(found: RegionSet, i: int, cell: Cell) -> list[Problem]:
    if found.volumes is None:
        return []
    problems = []
    volume = float(found.volumes[i])
    if cell.bounded and found.d > 4:  # exact volumes take too long there; coverage speaks for all of them
        size = volume
    else:
        size = float("inf") if cell.volume is None else _float(cell.volume)
    representable = not 1e300 < size < float("inf") and not 0 < size < 1e-300
    if representable and volume != size and not abs(volume - size) <= VOLUME_ERROR * size:
        problems.append(f"volume {volume}, not {size}")
    vertices = found.cell_vertices(i)
    if not cell.cone.lines and len(vertices) != len(cell.vertices):
        problems.append(f"{len(vertices)} vertices, not {len(cell.vertices)}")
    return problems


def _witness_problems(found: RegionSet, i: int, cell: Cell) -> list[Problem]:
    margin = float(found.margins[i])
    if not margin > 0:
        point = found.exact_witness(i)
        return [] if cell.contains(point, strictly=True) else [f"exact witness {point} is not inside"]
    if not isfinite(margin):
        return [f"margin {margin}"] if cell.halfspaces else []
    point = [Fraction(v) for v in found.witnesses[i].tolist()]
    problems = []
    for row in cell.halfspaces:
        height = sum(a * x for a, x in zip(row, (*point, 1), strict=True))
        if height <= 0 or height**2 < Fraction(margin) ** 2 * sum(a * a for a in row[:-1]):
            problems.append(f"witness {found.witnesses[i].tolist()} is not {margin} away from {row}")
    return problems


def touching_problems(found: RegionSet, expected: RationalSpace) -> list[Problem]:
    """Adjacent cells, wall or fold, and regions."""
    problems = []
    pairs = [tuple(pair) for pair in found.adjacency.tolist()]
    have = dict(zip(pairs, [("fold", "wall")[kind] for kind in found.adjacency_kind.tolist()], strict=True))
    want = expected.adjacency
    if len(set(pairs)) != len(pairs):
        problems.append("a pair of cells is adjacent twice")
    if have != want:
        problems.append(
            f"adjacent: missing {sorted(want.items() - have.items())[:6]}, invented "
            f"{sorted(have.items() - want.items())[:6]}"
        )
    elif pairs != sorted(pairs):
        problems.append("adjacent pairs are not in order")
    if found.region_of_cell.tolist() != expected.region_of_cell:
        problems.append(f"regions {found.region_of_cell.tolist()}, not {expected.region_of_cell}")
    return problems
