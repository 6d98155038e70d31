"""Claims about temperature: verdicts, certificates, and the interval arithmetic that replays them."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.papers import replay
from hardmax.papers.ledger import Claim, write_certificates
from hardmax.papers.tropical import sec6_bounds, sec6_limits

CLAIMS = [
    thing
    for module in (sec6_bounds, sec6_limits)
    for thing in vars(module).values()
    if isinstance(thing, Claim)
]

FAILING = {
    "cov_lemma",
    "lse_hess_paper",
    "lse_affine_paper",
    "ex_vi2_tau",
    "uniform_limit",
    "finite_tau_depth",
}


@pytest.fixture(scope="module")
def ledger():
    return hm.check_claims([claim.name for claim in CLAIMS])


def test_verdicts(ledger):
    verdicts = {name.removeprefix("tropical."): str(verdict) for name, verdict in ledger.verdicts.items()}
    numerical = {"fig5_hidden_regions": "holds numerically"}
    expected = {name: "fails" if name in FAILING else "holds (proved)" for name in verdicts}
    assert verdicts == {**expected, **numerical}
    assert set(verdicts) >= FAILING
    assert ledger.surprises == ()


def test_what_fails_has_a_certificate_and_what_holds_a_proof(ledger):
    for entry in ledger:
        assert entry.certificate is not None or entry.proof
        if entry.verdict == "fails":
            assert entry.certificate is not None
            assert entry.correction


def test_certificates_are_accepted_without_hardmax(ledger, tmp_path):
    paths = write_certificates(ledger, tmp_path)
    assert len(paths) == 7
    command = [sys.executable, "-S", "-E", str(tmp_path / "replay.py")]
    assert subprocess.run([*command, str(tmp_path)], capture_output=True, check=False).returncode == 0


def high_precision(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def rationals(n):
    """Rational numbers of all sizes: near 0, around the powers of two, up to 700, whole and not."""
    rng = np.random.default_rng(0)
    sizes = 2.0 ** rng.uniform(-40, 9.4, n)
    signs = rng.choice([-1, 1], n)
    bottoms = rng.integers(1, 10**9, n)
    for i, (size, sign, bottom) in enumerate(zip(sizes, signs, bottoms, strict=True)):
        value = Fraction(int(sign) * round(size * int(bottom)), int(bottom))
        yield value if i % 3 else Fraction(round(float(value) * 64), 64)


def test_exponentials_are_enclosed_at_10000_points():
    with mpmath.workdps(150):
        for x in rationals(10_000):
            low, high = replay.exponential(x)
            true = mpmath.exp(high_precision(x))
            assert high_precision(low) <= true <= high_precision(high), x
            assert (high_precision(high) - high_precision(low)) / true < mpmath.mpf(2) ** -235, x


def test_the_enclosure_is_one_before_it_is_squared():
    """The sum of the series, with its proven error, holds the exponential; nothing is healed later."""
    rng = np.random.default_rng(1)
    with mpmath.workdps(150):
        for _ in range(500):
            precision = int(rng.integers(200, 300))
            a = int(rng.integers(-(2**62), 2**62)) * 2 ** (precision - 68)  # up to 1/64
            low, high = replay.exponential_sum(a, precision)
            true = mpmath.exp(mpmath.mpf(a) / mpmath.mpf(2) ** precision)
            assert high_precision(low) <= true <= high_precision(high)


def test_logarithms_are_enclosed():
    with mpmath.workdps(150):
        for x in rationals(1000):
            if x > 0:
                low, high = replay.logarithm(x)
                assert high_precision(low) <= mpmath.log(high_precision(x)) <= high_precision(high)
                assert high - low < Fraction(1, 10**65)


@given(st.fractions(-10, 10).filter(bool), st.booleans())
def test_rounding_goes_outwards(x, up):
    bounded = replay.few_bits(x, up)
    assert bounded >= x if up else bounded <= x
    assert abs(bounded - x) <= abs(x) / 2**250


@pytest.mark.parametrize("temperature", [Fraction(1, 8), Fraction(1, 100), Fraction(1, 1000)])
def test_signatures_in_intervals_agree_with_those_in_floats(temperature):
    net = hm.networks.sawtooth_network(d=1, n_tokens=3, teeth=1, depth=2)
    record = replay.sawtooth(1, 3, 1, 2)
    points = [Fraction(i, 61) for i in range(1, 61, 7)]
    kept = 0
    for p in points:
        hard, soft = (replay.interval_signature(record, [(p, p)], tau) for tau in (None, temperature))
        kept += hard == soft
    floats = np.array(points, dtype=float)[:, None]
    assert kept == int(hm.temperature.surviving_cells(net, floats, float(temperature)).kept.sum())


def test_an_undecided_sign_is_refused():
    head = {
        "block": "Attention",
        "scores": [[[1], [1]]],
        "biases": [[0, 0]],
        "outputs": [[[0], [1]]],
        "skip": True,
    }
    with pytest.raises(replay.Rejected, match="not decided"):
        replay.interval_signature([head], [(Fraction(1), Fraction(1))], Fraction(1))
