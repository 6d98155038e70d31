"""Claims about temperature: verdicts, certificates, and the interval arithmetic that replays them."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.papers import replay
from hardmax.papers.ledger import Claim, network_record, write_certificates
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
    "fig5_hidden_regions",
}


@pytest.fixture(scope="module")
def ledger():
    return hm.check_claims([claim.name for claim in CLAIMS])


def test_verdicts(ledger):
    verdicts = {name.removeprefix("tropical."): str(verdict) for name, verdict in ledger.verdicts.items()}
    assert verdicts == {name: "fails" if name in FAILING else "holds" for name in verdicts}
    assert set(verdicts) >= FAILING
    assert ledger.surprises == ()


def test_what_fails_has_a_certificate_and_what_holds_a_proof(ledger):
    for entry in ledger:
        assert entry.certificate is not None or entry.proof
        if entry.verdict == "fails":
            assert entry.certificate is not None
            assert entry.correction


def test_certificates_are_accepted_without_hardmax_and_rejected_when_changed(ledger, tmp_path):
    paths = write_certificates(ledger, tmp_path)
    assert len(paths) == 8
    command = [sys.executable, "-S", "-E", str(tmp_path / "replay.py")]
    assert subprocess.run([*command, str(tmp_path)], capture_output=True, check=False).returncode == 0
    for path in paths:
        record = json.loads(path.read_text())
        changed = json.dumps(tampered(record["data"]))
        assert changed != json.dumps(record["data"])
        assert replay.failure({**record, "data": json.loads(changed)}) is not None, path.name
        assert replay.failure({**record, "expected": "something else"}) is not None


def tampered(data):
    """The data with one number changed, so that the computed value must change."""
    data = json.loads(json.dumps(data))
    if "cases" in data:
        data["cases"][0]["vector"][0] = 7
    elif "network" in data:
        data["temperature"] = "1/100000"
    elif "points" in data:
        data["points"][0] = [0, 0]
    elif "before" in data:
        data["before"] = "1/21"
    elif "n_tokens" in data:
        data["n_tokens"] += 1
    else:
        data["weights"][1] = "1/2"
    return data


def high_precision(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


@settings(max_examples=40)
@given(st.fractions(-200, 50, max_denominator=10**6))
def test_exponentials_are_enclosed(x):
    low, high = replay.exponential(x)
    with mpmath.workdps(150):
        true = mpmath.exp(high_precision(x))
        assert high_precision(low) <= true <= high_precision(high)
        assert (high_precision(high) - high_precision(low)) / true < mpmath.mpf(10) ** -65


@settings(max_examples=40)
@given(st.fractions(Fraction(1, 10**6), 10**6, max_denominator=10**9).filter(bool))
def test_logarithms_are_enclosed(x):
    low, high = replay.logarithm(x)
    with mpmath.workdps(150):
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
    points = [[Fraction(i, 61)] for i in range(1, 61, 7)]
    seen = replay.check_soft_signatures(
        {
            "network": network_record(net),
            "temperature": str(temperature),
            "points": [[str(p[0])] for p in points],
        }
    )
    floats = np.array(points, dtype=float)
    assert seen["kept"] == int(hm.temperature.surviving_cells(net, floats, float(temperature)).kept.sum())


def test_an_undecided_sign_is_refused():
    head = [
        {
            "block": "Attention",
            "scores": [[[1], [1]]],
            "biases": [[0, 0]],
            "outputs": [[[0], [1]]],
            "skip": True,
        }
    ]
    record = {"network": head, "temperature": 1, "points": [[1]]}
    with pytest.raises(replay.Rejected, match="not decided"):
        replay.check_soft_signatures(record)
