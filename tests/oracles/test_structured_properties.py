"""Networks in which ties are the rule, against the rational enumerator.

``tests/scripts/sweeps.py --only ties`` goes on with as many more as asked for.
"""

from __future__ import annotations

import pytest

import hardmax as hm
from oracles.rational_space import enumerate_space
from oracles.structured_networks import (
    STRUCTURED_KINDS,
    judge_structured,
    structured_instance,
    structured_instances,
)

EACH = 14  # networks of every kind


@pytest.mark.parametrize("kind", STRUCTURED_KINDS)
def test_regions_are_those_of_the_rational_enumerator(kind):
    first = list(STRUCTURED_KINDS).index(kind)
    for number in range(first, first + EACH * len(STRUCTURED_KINDS), len(STRUCTURED_KINDS)):
        case = structured_instance(number)
        judgement = judge_structured(case, ("certified", "exact") if number % 4 == 0 else ("certified",))
        assert not judgement.problems, f"{judgement.problems}\n{case!r}"


def test_floats_leave_signs_open_in_most_of_them():
    """Whatever comes after floats is tested here."""
    cases = list(structured_instances(EACH * len(STRUCTURED_KINDS)))
    assert {case.domain.d for case in cases} == {1, 2, 3, 4}
    counts = [hm.count_cells(case.network, case.domain) for case in cases]
    later = sum(
        count.n_double_double + getattr(count, "n_zero", 0) + count.n_rational > 0 for count in counts
    )
    assert later > 0.5 * len(cases)


def test_moving_one_number_a_little_changes_cells():
    """Who takes what is nearly zero for zero finds the cells of the network that was not moved."""
    different = 0
    for number in range(6, 1500, 7):
        case, plain = structured_instance(number), structured_instance(number, move=False)
        assert case.kind == plain.kind
        assert case.network is not plain.network
        if case.domain.d == 2:
            signatures = [enumerate_space(each.network, each.domain).signatures for each in (case, plain)]
            different += signatures[0] != signatures[1]
    assert different >= 25


@pytest.mark.parametrize("kind", STRUCTURED_KINDS)
def test_cells_on_the_line_are_those_of_the_rational_enumerator(kind):
    first = 10_000 + list(STRUCTURED_KINDS).index(kind)
    for number in range(first, first + EACH * len(STRUCTURED_KINDS), len(STRUCTURED_KINDS)):
        case = structured_instance(number, dimension=1)
        judgement = judge_structured(case, ("certified", "exact") if number % 4 == 0 else ("certified",))
        assert not judgement.problems, f"{judgement.problems}\n{case!r}"


def test_rationals_are_hardly_asked_on_the_line():
    """Only where keys win together on a whole cell, and at the ends of the range of floats."""
    cases = [structured_instance(number, dimension=1) for number in range(10_000, 10_330)]
    cases = [case for case in cases if "ties behind ties" not in case.kind]
    counts = [hm.count_cells(case.network, case.domain) for case in cases]
    assert sum(count.n_zero for count in counts) > 1000
    assert sum(count.n_rational > 0 for count in counts) <= 3


@pytest.mark.parametrize("kind", ["tied keys", "ties behind ties"])
@pytest.mark.parametrize("d", [7, 8])
def test_cells_beyond_six_dimensions_are_those_of_the_rational_enumerator(kind, d):
    rational = cells = 0
    for number in range(20 if d == 7 else 8):
        case = structured_instance(number, kind=kind, dimension=d)
        judgement = judge_structured(case)
        assert not judgement.problems, f"{judgement.problems}\n{case!r}"
        if "moved" not in case.kind:
            rational, cells = rational + judgement.n_rational, cells + len(judgement.expected.cells)
    assert cells > 20
    assert 20 * rational <= cells  # sides of many digits, and boxes in thirds
