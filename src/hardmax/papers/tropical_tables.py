"""P1 tables I and II: the notation with its names in code, and each row of the dictionary as a check.

Table II maps operations of networks to tropical algebra and to polyhedra. Every row is computed on random
integers, where equality means equality; the rows for residuals and heads hold only in the sense that the
verdict states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.domains import WholeSpace
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.networks.blocks import Attention
from hardmax.networks.network import Network
from hardmax.papers.notation import NOTATION, resolve
from hardmax.papers.recipes import Comparison, Option, Outcome, Recipe, Settings
from hardmax.regions.api import count_cells, count_regions
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.tropical.refinements import common_refinement
from hardmax.tropical.semirings import oplus, otimes, tropical_sum

__all__ = ["RECIPES"]


@dataclass(frozen=True)
class _Row:
    """What a check found: how many of how many cases agree, and what that means."""

    agreeing: int
    cases: int
    measured: str
    verdict: str


def _cook_table_1(settings: Settings) -> Outcome:
    names = [name for row in NOTATION for name in row.code]
    for name in names:
        resolve(name)
    return Outcome(
        figures={},
        tables={
            "notation": {
                "group": [row.group for row in NOTATION],
                "symbol": [row.symbol for row in NOTATION],
                "meaning": [row.meaning for row in NOTATION],
                "code": ["; ".join(row.code) for row in NOTATION],
                "remark": [row.remark for row in NOTATION],
            }
        },
        comparisons=(
            Comparison(
                "symbols with a name in code",
                f"{len(NOTATION)} rows",
                f"{sum(bool(row.code) for row in NOTATION)} rows, {len(set(names))} names, all found",
                "complete but for the refinement operator, which is inside the engines",
            ),
        ),
        notes=("The same table is the page docs/notation.md.",),
    )


def _cook_table_2(settings: Settings) -> Outcome:
    found = {concept: check(settings) for concept, _, check in _ROWS}
    return Outcome(
        figures={},
        tables={
            "checks": {
                "concept": list(found),
                "claim": [claim for _, claim, _ in _ROWS],
                "agreeing": [row.agreeing for row in found.values()],
                "cases": [row.cases for row in found.values()],
                "measured": [row.measured for row in found.values()],
                "verdict": [row.verdict for row in found.values()],
            }
        },
        comparisons=tuple(
            Comparison(f"{concept}: {claim}", "yes", found[concept].measured, found[concept].verdict)
            for concept, claim, _ in _ROWS
        ),
    )


# The rows of table II
# ----------------------------------------------------------------------------------------------------


def _addition(settings: Settings) -> _Row:
    """Soft maximum to maximum at rate tau log 2; Newton polytope of a sum is the hull of the union."""
    rng, cases = settings.rng("addition"), settings["draws"]
    a, b = rng.normal(size=(2, cases))
    worst = 0.0
    for temperature in (1.0, 0.1, 0.01):
        gap = (oplus(a, b, temperature=temperature) - np.maximum(a, b)) / (temperature * np.log(2.0))
        worst = max(worst, float(gap.max()) if gap.min() >= 0.0 else np.inf)
    hulls = 0
    for _ in range(cases):
        p, q = _polynomial(rng), _polynomial(rng)
        hulls += bool(
            (
                _support((p + q).newton_polytope().vertices)
                == np.maximum(_support(p.exponents), _support(q.exponents))
            ).all()
        )
    fits = worst <= 1.0 + 1e-9 and bool((oplus(a, b) == np.maximum(a, b)).all())
    return _Row(
        hulls,
        cases,
        f"gap at most {worst:.3f} tau log 2; hull of the union in {hulls} of {cases}",
        _verdict(hulls == cases and fits),
    )


def _multiplication(settings: Settings) -> _Row:
    """A product of polynomials is the sum of functions, and the Minkowski sum of polytopes."""
    rng, cases = settings.rng("multiplication"), settings["draws"]
    agreeing = 0
    for _ in range(cases):
        p, q = _polynomial(rng), _polynomial(rng)
        x = _point(rng)
        product = p * q
        values = product.exact_value(x) == otimes(float(p.exact_value(x)), float(q.exact_value(x)))
        agreeing += values and bool(
            (
                _support(product.newton_polytope().vertices) == _support(p.exponents) + _support(q.exponents)
            ).all()
        )
    measured = f"values and Minkowski sum in {agreeing} of {cases}"
    return _Row(agreeing, cases, measured, _verdict(agreeing == cases))


def _division(settings: Settings) -> _Row:
    """A quotient is the difference of two convex functions."""
    rng, cases = settings.rng("division"), settings["draws"]
    agreeing = bent = 0
    for _ in range(cases):
        p, q = _polynomial(rng), _polynomial(rng)
        x, y = _point(rng), _point(rng)
        middle = (x + y) / 2
        quotient = p / q
        agreeing += all(
            quotient.exact_value(z)[0] == p.exact_value(z) - q.exact_value(z) for z in (x, y, middle)
        )
        bent += 2 * quotient.exact_value(middle)[0] > quotient.exact_value(x)[0] + quotient.exact_value(y)[0]
    measured = f"p - q in {agreeing} of {cases}; not convex on {bent} of {cases} segments"
    return _Row(agreeing, cases, measured, _verdict(agreeing == cases))


def _residual(settings: Settings) -> _Row:
    """x + layer(x): a translation on each cell for attention; x shifts all exponents by one."""
    rng, cases = settings.rng("residual"), settings["draws"]
    translations = shifts = 0
    for _ in range(cases):
        keys, values = rng.integers(-9, 10, (2, 1, 5, 2))
        linear, offset = Network((Attention(keys, None, values),)).affine_at(rng.normal(size=2))
        translations += bool((linear == np.eye(2)).all()) and offset.tolist() in values[0].tolist()
        p = _polynomial(rng)
        shifted = TropicalPolynomial([[1, 0]], [0]) * p
        shifts += bool(
            (_support(shifted.newton_polytope().vertices) == _support(p.exponents) + _DIRECTIONS[:, 0]).all()
        )
    return _Row(
        min(translations, shifts),
        cases,
        f"translation by a value in {translations} of {cases}; polytope shifted in {shifts} of {cases}",
        _verdict(translations == shifts == cases)
        + ", cell by cell: the translation differs between cells, so the map jumps",
    )


def _denominator(settings: Settings) -> _Row:
    """tau log of the softmax denominator tends to a tropical polynomial, which is convex."""
    rng, cases = settings.rng("denominator"), settings["draws"]
    n, worst, convex = 6, 0.0, 0
    for _ in range(cases):
        keys = rng.integers(-9, 10, (n, 2))
        p = TropicalPolynomial(keys, [0] * n)
        x, y = _point(rng), _point(rng)
        scores = keys @ x.astype(np.float64)
        for temperature in (1.0, 0.1):
            gap = float(tropical_sum(scores, temperature=temperature)) - float(p.exact_value(x))
            worst = max(worst, gap / (temperature * np.log(n)))
        middle = (x + y) / 2
        convex += 2 * p.exact_value(middle) <= p.exact_value(x) + p.exact_value(y)
    return _Row(
        convex,
        cases,
        f"gap at most {worst:.3f} tau log N; convex on {convex} of {cases} segments",
        _verdict(convex == cases and worst <= 1.0 + 1e-9),
    )


def _concatenation(settings: Settings) -> _Row:
    """Routing cells of several heads: the common refinement, counted by vertices of the Minkowski sum."""
    rng, cases = settings.rng("heads"), min(settings["draws"], 60)
    agreeing = merged = 0
    for _ in range(cases):
        keys, values = rng.integers(-9, 10, (2, 2, 4, 2))
        polynomials = [TropicalPolynomial(head, [0] * len(head)) for head in keys]
        refinement = common_refinement(*polynomials).n_cells
        vertices = minkowski_vertices(keys).count
        network = Network((Attention(keys, None, values, skip=False),))
        cells = count_cells(network, WholeSpace(2), n_jobs=1).n_cells
        agreeing += refinement == vertices == cells
        flat = Network((Attention(keys, None, values * np.array([[[0, 0]], [[1, 1]]]), skip=False),))
        merged += count_regions(flat, WholeSpace(2), n_jobs=1).n_regions < cells
    return _Row(
        agreeing,
        cases,
        f"refinement = vertices = cells in {agreeing} of {cases}; fewer regions than cells in {merged} of "
        f"{cases} when W_O drops a head",
        _verdict(agreeing == cases) + " for the routing; the output map may merge cells",
    )


def _verdict(holds: bool) -> str:
    return "holds" if holds else "fails"


def _polynomial(rng: np.random.Generator) -> TropicalPolynomial:
    """Five terms in two variables, small integers."""
    return TropicalPolynomial(rng.integers(-4, 5, (5, 2)), rng.integers(-9, 10, 5))


def _point(rng: np.random.Generator) -> NDArray[np.object_]:
    """A point in eighths, which floats hold exactly too."""
    return np.array([Fraction(int(numerator), 8) for numerator in rng.integers(-80, 81, 2)], dtype=object)


def _support(points: NDArray[Any]) -> NDArray[np.float64]:
    """The support function of the hull of points: two polytopes are equal when it is.

    Whole numbers, and more directions than polytopes of this size have edges.
    """
    return np.asarray((_DIRECTIONS @ np.asarray(points, dtype=np.float64).T).max(axis=1))


_DIRECTIONS = np.array([(x, y) for x in range(-9, 10) for y in range(-9, 10)], dtype=np.float64)

_ROWS: tuple[tuple[str, str, Callable[[Settings], _Row]], ...] = (
    ("addition", "log-sum-exp becomes max; hull of both polytopes", _addition),
    ("multiplication", "addition becomes tropical product; Minkowski sum", _multiplication),
    ("division", "subtraction becomes tropical division; difference of convex functions", _division),
    ("residual", "x + layer(x) is a tropical product; translation and shift of degrees", _residual),
    ("attention denominator", "softmax denominator becomes a tropical polynomial; convex", _denominator),
    ("MHSA concatenation", "tropical product of heads; common refinement of fans", _concatenation),
)

_DRAWS: Any = Option("draws", 60, "random cases per row", medium=500, paper=5000, least=1)

RECIPES = (
    Recipe("tropical.table1", "The symbols of the paper and their names in code", (), _cook_table_1),
    Recipe("tropical.table2", "The dictionary of operations, each row a check", (_DRAWS,), _cook_table_2),
)
