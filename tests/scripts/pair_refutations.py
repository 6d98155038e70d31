"""Find and prove: D - 1 heads of the first layer are not enough for D terms (docs/theorems-extremal.md).

    python tests/scripts/pair_refutations.py [--cases 2,1,4 3,2,6] [--out tests/scripts/pair_refutations.json]

Needs python-sat; what it writes does not, and is checked by tests/unit/flow/test_canonical_rankings.py. Two
formulas take turns: rules that satisfy every input so far, and an input that these rules do not hold. When
there are no rules left, the inputs are reduced to few and a proof is written, one clause after the other.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from itertools import combinations, permutations, product
from pathlib import Path

from pysat.solvers import Solver

from hardmax.flow.theorems.canonical_rankings import CanonicalRules, ColouredInput, needed_steps, refuted

OUT = Path(__file__).with_suffix(".json")


def counterexample(values, n_terms, heads, n_tokens, pair, colour):
    """An input with one pair of this colour that rules with the given values do not hold, or None."""
    solver, n, shade = Solver(name="cadical195"), 0, {}
    for a, b in combinations(range(n_tokens), 2):
        for c in range(n_terms + 1):
            n += 1
            shade[a, b, c] = shade[b, a, c] = n
        solver.add_clause([shade[a, b, c] for c in range(n_terms + 1)])
        for c, d in combinations(range(n_terms + 1), 2):
            solver.add_clause([-shade[a, b, c], -shade[a, b, d]])
        solver.add_clause([shade[a, b, colour] if (a, b) == pair else -shade[a, b, colour]])
    above = {}
    for u, g in product(range(n_tokens), range(heads)):
        for s, t in combinations([place for place in range(n_tokens) if place != u], 2):
            n += 1
            above[u, g, s, t], above[u, g, t, s] = n, -n
            for c in product(range(n_terms + 1), repeat=3):
                on = values[(g, (s < u) + (t < u), *c)]
                solver.add_clause(
                    [-shade[u, s, c[0]], -shade[u, t, c[1]], -shade[s, t, c[2]], n if on else -n]
                )

    def not_picked(u, g, s):
        return [-above[u, g, s, t] for t in range(n_tokens) if t not in (u, s)]

    p, q = pair
    for g in range(heads):
        solver.add_clause(not_picked(p, g, q))
        solver.add_clause(not_picked(q, g, p))
    for u in set(range(n_tokens)) - {p, q}:
        for g, k in permutations(range(heads), 2):
            solver.add_clause(not_picked(u, g, p) + not_picked(u, k, q))
    if not solver.solve():
        return None
    true = {literal for literal in solver.get_model() if literal > 0}
    places = combinations(range(n_tokens), 2)
    return ColouredInput(
        pair, tuple(c for a, b in places for c in range(n_terms + 1) if shade[a, b, c] in true)
    )


def find_inputs(n_terms, heads, n_tokens, *, seconds):
    """Inputs that no canonical rules satisfy; an empty list if rules satisfy all, None if time is up."""
    rules, inputs, end, fed = CanonicalRules(n_terms, heads), [], time.monotonic() + seconds, 0
    solver = Solver(name="cadical195")
    while time.monotonic() < end:
        for clause in rules.clauses[fed:]:
            solver.add_clause(clause)
        fed = len(rules.clauses)
        if not solver.solve():
            return inputs
        model = solver.get_model()
        values = {kind: model[number - 1] > 0 for kind, number in rules.variables.items()}
        found = [
            counterexample(values, n_terms, heads, n_tokens, pair, colour)
            for pair in combinations(range(n_tokens), 2)
            if pair != (0, n_tokens - 1)  # an isolated letter in front may hold that pair
            for colour in range(1, n_terms + 1)
        ]
        new = [each for each in found if each is not None]
        if not new:
            return []
        for each in new:
            rules.demand(each)
        inputs += new
    return None


def reduced(inputs, n_terms, heads):
    """Few of the inputs that still cannot be satisfied, by unsatisfiable cores."""
    for seed in range(6):
        random.Random(seed).shuffle(inputs)
        inputs = _core(inputs, n_terms, heads, range(len(inputs)))
    for each in list(inputs):
        fewer = [other for other in inputs if other is not each]
        if (smaller := _core(fewer, n_terms, heads, range(len(fewer)))) is not None:
            inputs = smaller
    return inputs


def _core(inputs, n_terms, heads, chosen):
    rules, switches = CanonicalRules(n_terms, heads), {}
    for number in chosen:
        rules.demand(inputs[number])
        rules.n_variables += 1
        switches[rules.n_variables] = number
        rules.clauses[-1] += (-rules.n_variables,)
    solver = Solver(name="glucose4", bootstrap_with=rules.clauses)
    if solver.solve(assumptions=list(switches)):
        return None
    return [inputs[number] for number in sorted(switches[s] for s in solver.get_core())]


def proof(inputs, n_terms, heads):
    """The shortest of some refutations, without the steps that are not needed."""
    rules = CanonicalRules(n_terms, heads)
    for each in inputs:
        rules.demand(each)
    best = None
    for name, seed in product(("glucose3", "glucose4"), range(20)):
        clauses = list(rules.clauses)
        random.Random(seed).shuffle(clauses)
        solver = Solver(name=name, bootstrap_with=clauses, with_proof=True)
        solver.solve()
        lines = [line.split()[:-1] for line in solver.get_proof() if not line.startswith("d")]
        steps = [tuple(map(int, line)) for line in lines]
        if steps[-1]:
            steps.append(())
        if best is None or sum(map(len, steps)) < sum(map(len, best)):
            best = steps
    for _ in range(3):
        best = needed_steps(rules.clauses, best)
    if not refuted(rules.clauses, best):
        raise SystemExit("the refutation does not check: a defect")
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=["2,1,4", "3,2,6"], help="D,heads,T")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    cases = []
    for case in options.cases:
        n_terms, heads, n_tokens = map(int, case.split(","))
        inputs = find_inputs(n_terms, heads, n_tokens, seconds=options.seconds)
        if not inputs:
            print(f"{case}: {'open' if inputs is None else 'canonical rules exist'}", flush=True)
            continue
        found = len(inputs)
        inputs = reduced(inputs, n_terms, heads)
        steps = proof(inputs, n_terms, heads)
        print(f"{case}: refuted; {found} inputs found, {len(inputs)} kept, {len(steps)} steps", flush=True)
        cases.append(
            {
                "n_terms": n_terms,
                "heads": heads,
                "n_tokens": n_tokens,
                "inputs": [[*each.pair, "".join(map(str, each.colours))] for each in inputs],
                "steps": [" ".join(map(str, step)) for step in steps],
            }
        )
        options.out.write_text(json.dumps(cases, indent=0) + "\n")


if __name__ == "__main__":
    main()
