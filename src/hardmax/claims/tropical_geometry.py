"""Claims of the tropical paper about single heads and tropical polynomials (P1 sections III and IV).

Everything here is decided in rationals by the library; the certificates let :mod:`hardmax.claims.replay`
decide it again without the library. Proofs that hold for all sizes are on the page ``docs/proofs.md``.
"""

from __future__ import annotations

from fractions import Fraction

import hardmax as hm
from hardmax.claims.certificates import Certificate
from hardmax.claims.ledger import Claim, Effort, Finding, Verdict

__all__ = ["CLAIMS"]

HALF = Fraction(1, 2)


def _newton_characterises(effort: Effort) -> Finding:
    high = hm.TropicalPolynomial([[0], [1], [2]], [0, 5, 0])
    low = hm.TropicalPolynomial([[0], [1], [2]], [0, -5, 0])
    counts = [p.cells().n_cells for p in (high, low)]
    same = high.newton_polytope() == low.newton_polytope()
    certificate = Certificate(
        "diagrams",
        {
            "diagrams": [
                {"scores": [[0, 0], [1, 5], [2, 0]], "winners": {0: [-6], 1: [0], 2: [6]}, "losers": {}},
                {
                    "scores": [[0, 0], [1, -5], [2, 0]],
                    "winners": {0: [-1], 2: [1]},
                    "losers": {1: [HALF, 0, HALF]},
                },
            ]
        },
        {"winning": [[0, 1, 2], [0, 2]]},
    )
    fails = same and counts[0] != counts[1]
    return Finding(
        Verdict.FAILS if fails else Verdict.HOLDS,
        f"max(0, 5+x, 2x) has {counts[0]} regions, max(0, -5+x, 2x) has {counts[1]}; "
        f"same Newton polytope: {same}",
        {"regions": counts, "same_newton_polytope": same},
        certificate,
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        paper="tropical",
        name="newton_characterises",
        place="Definition III.5",
        statement="The Newton polytope determines the linear regions of a tropical polynomial completely.",
        hypotheses="one variable, three terms",
        computation="regions of max(0, 5+x, 2x) and of max(0, -5+x, 2x), which have the same Newton polytope",
        check=_newton_characterises,
        expected=Verdict.FAILS,
        correction="Regions are the upper vertices of the lifted points (exponent, coefficient); the Newton "
        "polytope suffices only when all coefficients are equal.",
    ),
)
