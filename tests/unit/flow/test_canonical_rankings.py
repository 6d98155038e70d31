"""Refutations of too few heads, replayed without a solver, and the plans that do with fewer heads."""

from __future__ import annotations

import json
import random
from itertools import combinations, permutations, product
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


def test_literals_of_no_variable_prove_nothing():
    """0 is its own negative: a clause that holds it twice looks true, and once it looks false."""
    for steps in ([(0, 0), ()], [(0,), ()], [(0, 1), (0, 0), ()], [(1, -1, 0), (0,), ()]):
        assert not refuted([(1, 2)], steps)
    with pytest.raises(InvalidInputError, match="from 1 on"):
        refuted([(1, 2), (0,)], [()])
    assert refuted([(1, 2), ()], [()])
    assert refuted([(1,), (-1,)], [()])


def written_out(case):
    """The clauses of a stored case from the definitions, with the numbers of variables that the file uses."""
    n_terms, heads, n_tokens = case["n_terms"], case["heads"], case["n_tokens"]
    base, n = n_terms + 1, 3 * heads * (n_terms + 1) ** 3

    def above(colour, g, u, s, t):
        if s > t:
            return -above(colour, g, u, t, s)
        shades = (colour[frozenset(pair)] for pair in ((u, s), (u, t), (s, t)))
        number = 3 * g + (s < u) + (t < u)
        for shade in shades:
            number = base * number + shade
        return number + 1

    def coloured(shades, size):
        return {frozenset(p): int(c) for p, c in zip(combinations(range(size), 2), shades, strict=True)}

    clauses = set()
    for shades in product(range(base), repeat=6):
        colour = coloured(shades, 4)
        for (u, s, t, w), g in product(permutations(range(4)), range(heads)):
            circle = frozenset(-above(colour, g, u, *pair) for pair in ((s, t), (t, w), (w, s)))
            if s < min(t, w) and not any(-literal in circle for literal in circle):
                clauses.add(circle)
    for p, q, shades in case["inputs"]:
        colour, ways, best = coloured(shades, n_tokens), [], {}
        for u in (p, q, *sorted(set(range(n_tokens)) - {p, q})):
            pairs = [(s, g) for s in (p, q) if s != u for g in range(heads)]
            if u == p:  # the file numbers both ends head by head
                pairs = [(s, g) for g in range(heads) for s in (q, p)]
            for s, g in pairs if u != q and (u == p or heads > 1) else ():
                query, n = (p + q - s if u == p else u), n + 1
                best[query, s, g] = n
                rest = set(range(n_tokens)) - {query, s}
                clauses |= {frozenset((-n, above(colour, g, query, s, t))) for t in rest}
                ways += [n] if u == p else []
            for g, k in permutations(range(heads), 2) if u not in (p, q) else ():
                n += 1
                clauses |= {frozenset((-n, best[u, p, g])), frozenset((-n, best[u, q, k]))}
                ways.append(n)
        clauses.add(frozenset(ways))
    return clauses


def follows(clauses, at, step):
    """Whether unit propagation from the denial of a step meets a clause that has become false."""
    true = {-literal for literal in step}
    waiting = [literal for clause in at[None] for literal in clauses[clause]] + list(true)
    true.update(waiting)
    while waiting:
        for number in at.get(-waiting.pop(), ()):
            left = [literal for literal in clauses[number] if -literal not in true]
            if not left:
                return True
            if len(left) == 1 and left[0] not in true:
                true.add(left[0])
                waiting.append(left[0])
    return False


@pytest.mark.parametrize("sizes", [(2, 1, 4), pytest.param((3, 2, 6), marks=pytest.mark.slow)])
def test_stored_refutations_by_a_second_program(sizes):
    """Clauses from the definitions, propagation without watched literals; one input less, and it fails."""
    for last in (None, -1) if sizes[0] == 2 else (None,):
        case = CASES[sizes] | {"inputs": CASES[sizes]["inputs"][:last]}
        clauses, at, checked = sorted(map(sorted, written_out(case))), {None: []}, True
        for number, clause in enumerate(clauses):
            for key in [*clause, *[None] * (len(clause) < 2)]:
                at.setdefault(key, []).append(number)
        for step in steps_of(case):
            checked &= follows(clauses, at, step)
            for key in [*step, *[None] * (len(step) < 2)]:
                at.setdefault(key, []).append(len(clauses))
            clauses.append(list(step))
        assert checked == (last is None)


@pytest.mark.parametrize("n_colours", [2, 3])
def test_what_a_letter_without_colours_reads(n_colours):
    """Lemma B, for all rules: its best is the first, the last, or next to it, and eight rules are left."""
    rng, kept = random.Random(0), 0

    def above(rule, u, s, t, colour):
        return rule[(s < u) + (t < u)][colour[s, t]] if s < t else not above(rule, u, t, s, colour)

    for bits in product((False, True), repeat=3 * n_colours):
        rule = [bits[i * n_colours : (i + 1) * n_colours] for i in range(3)]
        circles = 0
        for u, shades in product(range(4), product(range(n_colours), repeat=3)):
            s, t, w = (place for place in range(4) if place != u)
            colour = dict(zip(((s, t), (s, w), (t, w)), shades, strict=True))
            circles += len({above(rule, u, *pair, colour) for pair in ((s, t), (t, w), (w, s))}) == 1
        if circles:
            continue
        kept += 1
        for n_tokens, u in ((n, u) for n in range(2, 7) for u in range(n)):
            others = [place for place in range(n_tokens) if place != u]
            colour = {pair: rng.randrange(n_colours) for pair in combinations(others, 2)}
            (best,) = (s for s in others if all(above(rule, u, s, t, colour) for t in set(others) - {s}))
            assert best in (others[0], others[-1], u - 1, u + 1)
    assert kept == 8


@pytest.mark.parametrize("n_colours", [2, 3, 4])
def test_a_ranking_without_a_query_goes_by_the_order_alone(n_colours):
    """What CLS can read in the first layer: of all rules by colour only two have no circle."""
    kept = [
        rule
        for rule in product((False, True), repeat=n_colours)
        if not any(rule[a] == rule[b] != rule[c] for a, b, c in product(range(n_colours), repeat=3))
    ]
    assert kept == [(False,) * n_colours, (True,) * n_colours]


def reads(u, rank, n_tokens, colour):
    """The best letter of u where a rank of (later, colour) comes first and places decide next."""

    def order(s):
        first, way = rank[s > u, colour.get(frozenset((u, s)), 0)]
        return first, way * s

    return min(set(range(n_tokens)) - {u}, key=order)


@pytest.mark.parametrize("n_terms", [2, 3, 4])
def test_no_token_holds_the_pair_of_two_stars(n_terms):
    """The input of the proof of part 2, against rankings by side, colour and place."""
    rng, heads = random.Random(n_terms), n_terms - 1
    for _ in range(40):
        kinds = list(product((False, True), range(n_terms + 1)))
        ranks = [
            {kind: (rank, rng.choice((1, -1))) for rank, kind in enumerate(rng.sample(kinds, len(kinds)))}
            for _ in range(heads)
        ]

        missed = {}
        for signs in product((1, -1), repeat=n_terms):
            order = [j for j in range(n_terms) if signs[j] < 0]
            centre = len(order)
            order = [*order, None, *(j for j in range(n_terms) if signs[j] > 0)]
            colour = {frozenset((centre, i)): j + 1 for i, j in enumerate(order) if j is not None}
            best = {order[reads(centre, rank, n_terms + 1, colour)] for rank in ranks}
            missed[signs] = min(set(range(n_terms)) - best), order
        i, first, second = next(
            (i, a, b)
            for (s, (i, a)), (t, (k, b)) in product(missed.items(), repeat=2)
            if i == k and s[i] > 0 > t[i]
        )
        p, q = first.index(None), second.index(None)
        left, right = first.index(i), second.index(i)
        tags = [*((j, "p") for j in first[:p]), *((j, "q") for j in second[:right]), "p"]
        tags += [*((j, "p") for j in first[p + 1 : left]), *((j, "q") for j in second[right + 1 : q]), "q"]
        tags += [*((j, "p") for j in first[left + 1 :]), *((j, "q") for j in second[q + 1 :])]
        letters = ["added"]
        for tag in tags:
            letters += [tag, "added"]
        if letters.index("q") == letters.index("p") + 2:
            letters.insert(letters.index("q"), "added")
        letters += ["added"] * (4 * n_terms + 2 - len(letters))
        assert len(letters) == 4 * n_terms + 2
        pair = {letters.index("p"), letters.index("q")}
        colour = {frozenset(pair): i + 1}
        for place, letter in enumerate(letters):
            if isinstance(letter, tuple):
                colour[frozenset((place, letters.index(letter[1])))] = letter[0] + 1
        assert list(colour.values()).count(i + 1) == 1
        for u in range(len(letters)):
            assert not pair <= {u, *(reads(u, rank, len(letters), colour) for rank in ranks)}


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
