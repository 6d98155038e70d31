"""Order-k cells by brute force over all subsets of k keys, in three ways that share nothing with it.

A set of k keys wins on an open set exactly when the sum of its lifted keys is a vertex (an upper one, with
biases) of the hull of all such sums. Sets are written with the lowest indices of identical keys.

* :func:`ppl_sets`: the Parma Polyhedra Library on all sums, in rationals;
* :func:`simplex_sets`: one linear program per subset, "each member beats each other key", by the simplex
  method in ``Fraction`` of :mod:`oracles.minkowski_bruteforce`;
* :func:`qhull_sets`: scipy's Qhull on all sums, in floats: to be trusted in general position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from hardmax.geometry.diagrams.order_k import winning_sets
from hardmax.geometry.diagrams.set_location import locate_sets
from hardmax.geometry.scores import Scores

from .certificates import Head, cleared, exact_vector, lift_keys, lift_sites
from .diagrams import qhull_winners
from .instances import instance
from .judging import HAS_PPL
from .minkowski_bruteforce import is_linear, ppl_vertices, strict_solution

Sets = set[tuple[int, ...]]


def is_lowest(head: Head, members: Sequence[int]) -> bool:
    """Whether no identical key of lower index stands outside."""
    inside = set(members)
    return not any(head[l] == head[j] and l not in inside for j in members for l in range(j))


def subsets(head: Head, k: int) -> list[tuple[int, ...]]:
    return [members for members in combinations(range(len(head)), k) if is_lowest(head, members)]


def sums_head(head: Head, sets: list[tuple[int, ...]]) -> Head:
    return [
        tuple(sum(column, Fraction(0)) for column in zip(*(head[j] for j in members), strict=True))
        for members in sets
    ]


def ppl_sets(head: Head, k: int) -> Sets:
    """The winning sets as vertices of the hull of all sums."""
    sets = subsets(head, k)
    sums = sums_head(head, sets)
    if is_linear([head]):
        sums = [(*total[:-1], Fraction(0)) for total in sums]
    winners = {sets[j] for (j,) in ppl_vertices([sums]).values()}
    for members in winners:
        total = sums[sets.index(members)]
        if sums.count(total) != 1:
            raise AssertionError(f"{members} is a vertex, but not the only set of its sum")
    return winners


def simplex_sets(head: Head, k: int) -> Sets:
    """The winning sets, one exact linear program each."""
    d, linear = len(head[0]) - 1, is_linear([head])
    found = set()
    for members in subsets(head, k):
        rows = [
            tuple(p - q for p, q in zip(head[i], head[l], strict=True))
            for i in members
            for l in range(len(head))
            if l not in members and head[l] != head[i]
        ]
        if linear:
            solution = strict_solution([row[:-1] for row in rows], d)
        else:
            solution = strict_solution([*rows, (Fraction(0),) * d + (Fraction(1),)], d + 1)
        if solution is not None:
            found.add(members)
    return found


def qhull_sets(head: Head, k: int) -> Sets:
    """The winning sets by Qhull on the sums of k lifted keys, in floats."""
    sets = subsets(head, k)
    return {sets[i] for i in qhull_winners(sums_head(head, sets))}


def set_problems(head: Head, members: Sequence[int], point: Sequence[object]) -> list[str]:
    """What keeps ``point`` from proving that a set beats every key not identical to a member."""
    values = list(point)
    if any(value != value or abs(value) == float("inf") for value in values):
        return [f"the witness of {members} is not finite"]
    if not is_lowest(head, members):
        return [f"{members} leaves out an identical key of lower index"]
    rows = cleared(head)
    (x,) = cleared([(*exact_vector(values), Fraction(1))])
    scores = [sum(p * q for p, q in zip(row, x, strict=True)) for row in rows]
    return [
        f"key {i} of {members} does not beat key {l} at its witness"
        for i in members
        for l, row in enumerate(rows)
        if l not in members and row != rows[i] and scores[l] >= scores[i]
    ]


def result_problems(result, head: Head) -> list[str]:
    """What is wrong with a computed list of sets in itself."""
    sets = [tuple(row) for row in result.sets.tolist()]
    problems = [] if sets == sorted(set(sets)) else ["the sets are not in order, or one occurs twice"]
    for i, members in enumerate(sets):
        witness = result.exact_witnesses.get(i, result.witnesses[i])
        problems += set_problems(head, members, witness)
    return problems


@dataclass(frozen=True)
class OrderInstance:
    """Keys with biases, or sites with weights, and a number of winners."""

    name: str
    keys: np.ndarray
    offsets: np.ndarray | None
    sites: bool
    k: int

    @property
    def head(self) -> Head:
        lift = lift_sites if self.sites else lift_keys
        return lift(self.keys, self.offsets)


def order_instance(
    number: int, *, dimensions: tuple[int, ...] = (1, 2, 3, 4), largest: int = 7
) -> OrderInstance:
    """The numbered small instances: those of the Minkowski sums, all keys in one head, cut to a few keys.

    So they are Gaussian, on grids, collinear, flat, doubled, homothetic, of many scales, or fractions.
    """
    case = instance(number, tuples=60, dimensions=dimensions)
    rng = np.random.default_rng([11, number])
    keys = np.concatenate([np.asarray(points, dtype=object) for points in case.point_sets])
    offsets = (
        None
        if case.biases is None
        else np.concatenate([np.asarray(values, dtype=object) for values in case.biases])
    )
    if len(keys) < 2:
        keys = np.concatenate([keys, keys])
        offsets = None if offsets is None else np.concatenate([offsets, offsets])
    chosen = rng.permutation(len(keys))[:largest]
    if rng.random() < 0.2:  # twins
        chosen = np.append(chosen[:-1], chosen[0]) if len(chosen) > 2 else chosen
    keys = keys[chosen]
    offsets = None if offsets is None else offsets[chosen]
    sites = bool(rng.random() < 0.3)
    return OrderInstance(case.name, keys, offsets, sites, int(rng.integers(1, len(keys) + 1)))


def problems_of(case: OrderInstance, *, slow: bool = False) -> tuple[int, list[str]]:
    """The number of cells of an instance, and every difference between the package and the oracles.

    Both methods of the package are held against PPL (where it is installed) or the simplex method (``slow``),
    Gaussian keys against Qhull as well; witnesses are checked in rationals and located.
    """
    scores = (Scores.of_sites if case.sites else Scores.of_keys)(case.keys, case.offsets)
    head, problems = case.head, []
    expected = [("simplex", simplex_sets(head, case.k))] if slow or not HAS_PPL else []
    expected += [("PPL", ppl_sets(head, case.k))] if HAS_PPL else []
    expected += [("Qhull", qhull_sets(head, case.k))] if case.name.startswith("gaussian") else []
    for method in (None, "walk", "levels"):
        result = winning_sets(scores, case.k, method=method)
        problems += [f"{method}: {problem}" for problem in result_problems(result, head)]
        got = {tuple(row) for row in result.sets.tolist()}
        for oracle, sets in expected:
            if got != sets:
                missing, extra = sorted(sets - got), sorted(got - sets)
                problems.append(f"{method} against {oracle}: missing {missing[:3]}, extra {extra[:3]}")
    inside = [i for i in range(len(result.sets)) if i not in result.exact_witnesses]
    located = locate_sets(scores, case.k, result.witnesses[inside])
    if not np.array_equal(located, result.sets[inside]):
        problems.append("a witness is not located in its cell")
    return len(result.sets), problems
