"""Refutations of too few heads, replayed without a solver, and the plans that do with fewer heads."""

from __future__ import annotations

import json
import random
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from hardmax.errors import InvalidInputError
from hardmax.flow.theorems.canonical_rankings import (
    CanonicalRules,
    ColouredInput,
    cyclic_rankings,
    needed_steps,
    refuted,
)

STORED = Path(__file__).parents[2] / "scripts" / "pair_refutations.json"
CASES = {(c["n_terms"], c["heads"], c["n_tokens"]): c for c in json.loads(STORED.read_text())}


def inputs_of(case):
    return [ColouredInput((p, q), tuple(map(int, colours))) for p, q, colours in case["inputs"]]


def steps_of(case):
    return [tuple(map(int, step.split())) for step in case["steps"]]


def rules_of(case, inputs):
    rules = CanonicalRules(case["n_terms"], case["heads"])
    for each in inputs:
        rules.demand(each)
    return rules


def holds(rankings, coloured):
    """Whether some token holds the pair: rankings[u][g] lists places, best first."""
    held = [{u, *(ranking[0] for ranking in lists)} for u, lists in enumerate(rankings)]
    return any(set(coloured.pair) <= letters for letters in held)


@pytest.mark.parametrize("sizes", [(2, 1, 4), (3, 2, 6)])
def test_stored_refutations_check(sizes):
    case = CASES[sizes]
    inputs, steps = inputs_of(case), steps_of(case)
    assert {each.n_tokens for each in inputs} == {sizes[2]}
    assert all(each.pair != (0, sizes[2] - 1) for each in inputs)  # so that longer inputs follow
    assert refuted(rules_of(case, inputs).clauses, steps)


def test_a_refutation_needs_every_input_and_every_step():
    case = CASES[2, 1, 4]
    inputs, steps = inputs_of(case), steps_of(case)
    for number in range(len(inputs)):
        assert not refuted(rules_of(case, inputs[:number] + inputs[number + 1 :]).clauses, steps)
    clauses = rules_of(case, inputs).clauses
    assert not refuted(clauses, steps[:-1])
    assert refuted(clauses, needed_steps(clauses, steps))


def test_changed_steps_are_refused():
    case, rng = CASES[3, 2, 6], random.Random(0)
    clauses, steps = rules_of(case, inputs_of(case)).clauses, steps_of(case)
    assert not refuted(clauses, [*steps[:3], ()])
    assert not refuted(clauses, [(1,), (-1,), ()])
    for _ in range(3):  # a unit that was not derived, claimed first
        literal = rng.choice([-1, 1]) * rng.randrange(1, 300)
        assert not refuted(clauses, [(literal,), (-literal,), ()])


def test_the_formula_says_what_a_token_holds():
    """Random scores: the clauses of one input can be met exactly if a token holds the pair."""
    rng = np.random.default_rng(0)
    seen = set()
    rules = CanonicalRules(3, 2)
    start, n_variables = len(rules.clauses), rules.n_variables
    for _ in range(60):
        colours = rng.integers(0, 4, size=10)
        pair = tuple(sorted(rng.choice(5, size=2, replace=False).tolist()))
        place = list(combinations(range(5), 2)).index(pair)
        colours[colours == 1] = 0
        colours[place] = 1
        coloured = ColouredInput(pair, tuple(colours.tolist()))
        scores = rng.normal(size=(5, 2, 5))
        rankings = [
            [sorted(set(range(5)) - {u}, key=lambda s, u=u, g=g: -scores[u, g, s]) for g in (0, 1)]
            for u in range(5)
        ]
        del rules.clauses[start:]
        rules.n_variables, table = n_variables, coloured.table()
        true = {
            rules.above(table, g, u, s, t): (u, g, s, t)
            for u in range(5)
            for g in (0, 1)
            for s in set(range(5)) - {u}
            for t in set(range(5)) - {u, s}
            if scores[u, g, s] > scores[u, g, t]
        }
        if any(-literal in true for literal in true):
            continue  # these scores are not canonical: the same kind of triple is ranked both ways
        rules.demand(coloured)
        met = set(true)
        for clause in rules.clauses[start:-1]:  # new variables are true if all they imply is
            new = -clause[0]
            if all(other[1] in met for other in rules.clauses[start:-1] if other[0] == -new):
                met.add(new)
        satisfied = any(literal in met for literal in rules.clauses[-1])
        assert satisfied == holds(rankings, coloured)
        seen.add(satisfied)
    assert seen == {True, False}


@pytest.mark.parametrize(("heads", "most"), [(1, 3), (2, 5)])
def test_circles_hold_every_pair_of_few_tokens_and_no_more(heads, most):
    rankings = cyclic_rankings(8, heads)
    for n_tokens in range(2, 7):
        missed = 0
        for letters in combinations(range(8), n_tokens):
            held = [
                {u, *(next(s for s in ranking.tolist() if s in letters) for ranking in rankings[u])}
                for u in letters
            ]
            missed += sum(not any({p, q} <= h for h in held) for p, q in combinations(letters, 2))
        assert (missed == 0) == (n_tokens <= most)


def test_inputs_that_demand_nothing_are_refused():
    with pytest.raises(InvalidInputError, match="has no colour"):
        CanonicalRules(2, 1).demand(ColouredInput((0, 1), (0, 1, 0)))
    with pytest.raises(InvalidInputError, match="no pair of places"):
        CanonicalRules(2, 1).demand(ColouredInput((1, 0), (1, 0, 0)))
    with pytest.raises(InvalidInputError, match="1 or 2"):
        cyclic_rankings(5, 3)
