"""Verdicts against Marabou, a verifier in floats: equal, unless a property is tight."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm

core = pytest.importorskip("maraboupy.MarabouCore")


def marabou(layers, low, high, row, bound) -> str:
    """Whether Marabou finds an input with row . y >= bound: "sat" or "unsat"."""
    query = core.InputQuery()
    sizes = [len(low)]
    for i, (w, _) in enumerate(layers):
        sizes += [w.shape[0]] * (1 if i == len(layers) - 1 else 2)
    query.setNumberOfVariables(sum(sizes))
    for i, (a, b) in enumerate(zip(low, high, strict=True)):
        query.setLowerBound(i, a)
        query.setUpperBound(i, b)
        query.markInputVariable(i, i)
    seen, free = list(range(len(low))), len(low)
    for i, (w, b) in enumerate(layers):
        z = list(range(free, free + len(w)))
        free += len(w)
        for variable, weights, offset in zip(z, w, b, strict=True):
            equation = core.Equation()
            for weight, other in zip(weights, seen, strict=True):
                equation.addAddend(float(weight), other)
            equation.addAddend(-1.0, variable)
            equation.setScalar(-float(offset))
            query.addEquation(equation)
        seen = z
        if i < len(layers) - 1:
            seen = list(range(free, free + len(w)))
            free += len(w)
            for before, after in zip(z, seen, strict=True):
                query.setLowerBound(after, 0.0)
                core.addReluConstraint(query, before, after)
    goal = core.Equation(core.Equation.EquationType.GE)
    for weight, variable in zip(row, seen, strict=True):
        goal.addAddend(float(weight), variable)
    goal.setScalar(float(bound))
    query.addEquation(goal)
    options = core.Options()
    options._verbosity = 0
    options._timeoutInSeconds = 60
    return core.solve(query, options, "")[0]


def _drawn(number):
    rng = np.random.default_rng([31, number])
    d, widths = int(rng.integers(1, 4)), rng.integers(2, 7, rng.integers(1, 3)).tolist()
    sizes = [d, *widths, 2]
    layers = [(rng.standard_normal((b, a)), rng.standard_normal(b)) for a, b in itertools.pairwise(sizes)]
    return layers, [-1.0] * d, [1.0] * d, rng.integers(-2, 3, 2).astype(float)


@pytest.mark.parametrize("block", range(10))
def test_against_marabou(block):
    """30 networks each, 300 in all: the threshold lies 1e-3 above or below the exact maximum, or far off."""
    for number in range(30 * block, 30 * block + 30):
        layers, low, high, row = _drawn(number)
        net, box = hm.Network.mlp(layers), hm.Box(low, high)
        top = hm.maximise(net, row, box).value
        shift = (Fraction(1, 1000), Fraction(-1, 1000), Fraction(1), Fraction(-1, 2))[number % 4]
        if not row.any():
            shift = abs(shift)
        y = hm.verification.outputs(2)
        found = hm.verify(net, row[0] * y[0] + row[1] * y[1] < float(top + shift), box)
        assert found.verdict == ("holds" if shift > 0 else "violated")
        found.certificate.replay()
        assert marabou(layers, low, high, row, float(top + shift)) == (
            "unsat" if found.verdict == "holds" else "sat"
        )


@pytest.mark.parametrize(("number", "shift", "wrong"), [(35, 1e-8, "sat"), (36, -1e-7, "unsat")])
def test_tight_properties_that_a_float_verifier_gets_wrong(number, shift, wrong):
    """1e-8 above an exact maximum Marabou finds a point, 1e-7 below another one it finds none.

    It works in floats with a tolerance. The exact verdicts have a certificate and a point.
    """
    layers, low, high, row = _drawn(number)
    net, box = hm.Network.mlp(layers), hm.Box(low, high)
    best = hm.maximise(net, row, box)
    bound = float(best.value) + shift
    y = hm.verification.outputs(2)
    found = hm.verify(net, row[0] * y[0] + row[1] * y[1] < bound, box)
    assert found.verdict == ("holds" if shift > 0 else "violated")
    found.certificate.replay()
    exact = net.exact_value(list(best.point))
    assert sum(Fraction(float(r)) * v for r, v in zip(row, exact, strict=True)) == best.value
    assert marabou(layers, low, high, row, bound) == wrong
