"""Re-check witnesses and emptiness certificates in rationals, with the standard library alone.

A head's key j scores an input x with ``a_j . x + b_j``. Here a *lifted key* is the tuple ``(a_j, b_j)`` of
``fractions.Fraction``, and a *head* is the list of its lifted keys. Two statements can be certified:

* key j wins somewhere with room to spare: a point x where it beats every key that is not identical to it;
* key j never does: weights ``w_i >= 0`` on other keys with ``sum w_i = 1``, ``sum w_i a_i = a_j`` and
  ``sum w_i b_i >= b_j``, because then at every x some key of the support scores at least as much as j.

Every checker returns the list of what is wrong; an empty list is a proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from operator import mul

LiftedKey = tuple[Fraction, ...]
Head = list[LiftedKey]


def exact(value: object) -> Fraction:
    """The rational number that ``value`` is; a float is the dyadic rational it stores."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, (int, float)):
        return Fraction(value)
    return Fraction(value.item())  # a numpy scalar


def exact_vector(values: Sequence[object]) -> tuple[Fraction, ...]:
    return tuple(exact(value) for value in values)


def dot(left: Sequence[Fraction], right: Sequence[Fraction]) -> Fraction:
    return sum((p * q for p, q in zip(left, right, strict=True)), Fraction(0))


def lift_keys(keys, biases=None, query_map=None) -> Head:
    """Lifted keys of the scores ``k_j . (W x + c) + b_j`` with ``query_map = (W, c)``."""
    rows = [exact_vector(key) for key in keys]
    offsets = [Fraction(0)] * len(rows) if biases is None else [exact(bias) for bias in biases]
    if query_map is None:
        return [(*row, offset) for row, offset in zip(rows, offsets, strict=True)]
    matrix, shift = query_map
    matrix = [exact_vector(row) for row in matrix]
    shift = [Fraction(0)] * len(matrix) if shift is None else exact_vector(shift)
    columns = list(zip(*matrix, strict=True))
    return [
        (*(dot(row, column) for column in columns), dot(row, shift) + offset)
        for row, offset in zip(rows, offsets, strict=True)
    ]


def lift_sites(sites, weights=None) -> Head:
    """Lifted keys of a power diagram: ``|x - c|^2 - w`` is least where ``c . x + (w - |c|^2)/2`` is most."""
    rows = [exact_vector(site) for site in sites]
    powers = [Fraction(0)] * len(rows) if weights is None else [exact(weight) for weight in weights]
    return [(*row, (power - dot(row, row)) / 2) for row, power in zip(rows, powers, strict=True)]


def lift_heads(point_sets, biases=None) -> list[Head]:
    """The heads of a Minkowski sum, one list of lifted keys each."""
    if biases is None:
        return [lift_keys(points) for points in point_sets]
    return [lift_keys(points, offsets) for points, offsets in zip(point_sets, biases, strict=True)]


def cleared(head: Head) -> list[tuple[int, ...]]:
    """The lifted keys times one common denominator: integers, so that many comparisons cost little."""
    common = lcm(*(value.denominator for key in head for value in key))
    return [tuple(value.numerator * (common // value.denominator) for value in key) for key in head]


def win_problems(
    head: Head, winner: int, point: Sequence[object], integers: list[tuple[int, ...]] | None = None
) -> list[str]:
    """What keeps ``point`` from proving that key ``winner`` beats every key that is not identical to it.

    ``integers`` is ``cleared(head)``, for callers that ask about many keys of one head.
    """
    values = list(point)
    if any(value != value for value in values):
        return [f"the witness of key {winner} holds a NaN"]
    if any(isinstance(value, float) and value in (float("inf"), float("-inf")) for value in values):
        return [f"the witness of key {winner} is not finite"]
    if len(values) != len(head[winner]) - 1:
        return [f"the witness of key {winner} has {len(values)} coordinates, not {len(head[winner]) - 1}"]
    rows = cleared(head) if integers is None else integers
    # (x, 1) times its common denominator: scaling by positive numbers changes no comparison
    (x,) = cleared([(*exact_vector(values), Fraction(1))])
    best = sum(map(mul, rows[winner], x))
    return [
        f"key {winner} does not beat key {other} at its witness"
        for other, row in enumerate(rows)
        if row != rows[winner] and sum(map(mul, row, x)) >= best
    ]


def tuple_problems(heads: list[Head], choice: Sequence[int], point: Sequence[object]) -> list[str]:
    """What keeps ``point`` from proving that every head h routes to key ``choice[h]`` strictly."""
    problems = []
    if len(choice) != len(heads):
        return [f"{len(choice)} choices for {len(heads)} heads"]
    for h, (head, winner) in enumerate(zip(heads, choice, strict=True)):
        winner = int(winner)
        if not 0 <= winner < len(head):
            problems.append(f"head {h} has no key {winner}")
            continue
        if head.index(head[winner]) != winner:
            problems.append(f"head {h}: key {winner} is not the lowest of its group of identical keys")
        problems += [f"head {h}: {problem}" for problem in win_problems(head, winner, point)]
    return problems


def emptiness_problems(head: Head, key: int, support: Sequence[int], weights: Sequence[object]) -> list[str]:
    """What keeps ``(support, weights)`` from proving that the cell of ``key`` has no interior."""
    indices = [int(index) for index in support]
    shares = exact_vector(weights)
    d = len(head[key]) - 1
    problems = []
    if len(indices) != len(shares):
        return [f"{len(indices)} indices but {len(shares)} weights"]
    if len(set(indices)) != len(indices):
        problems.append("an index occurs twice in the support")
    if any(not 0 <= index < len(head) for index in indices):
        return [*problems, "the support names a key that does not exist"]
    if any(head[index] == head[key] for index in indices):
        problems.append(f"the support of key {key} holds a key identical to it")
    if len(indices) > d + 1:
        problems.append(f"{len(indices)} keys in the support, more than d + 1 = {d + 1}")
    if any(share < 0 for share in shares):
        problems.append("a weight is negative")
    if sum(shares, Fraction(0)) != 1:
        problems.append("the weights do not add up to 1")
    # In integers: shares times their common denominator, keys times theirs.
    common = lcm(*(share.denominator for share in shares))
    parts = [share.numerator * (common // share.denominator) for share in shares]
    own, *others = cleared([head[key], *(head[index] for index in indices)])
    mixed = [
        sum(part * other[axis] for part, other in zip(parts, others, strict=True)) for axis in range(d + 1)
    ]
    for axis in range(d):
        if mixed[axis] != common * own[axis]:
            problems.append(f"the combination misses key {key} in coordinate {axis}")
    if mixed[d] < common * own[d]:
        problems.append(f"the combination lies below key {key}")
    return problems
