"""The stand-alone replay: accepts what the search proves, refuses what was tampered with."""

from __future__ import annotations

import copy
import gzip
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.verification import replay

TENT = hm.Network.mlp([([[1], [1]], [0, -0.5]), ([[2, -4]], [0])])


@pytest.fixture(scope="module")
def proven():
    """A certificate with input cuts, sign cuts, bounds, combinations and exact leaves."""
    net = hm.Network.random_mlp([2, 12, 12, 1], 3)
    box = hm.Box.cube(2, -2, 2)
    best = hm.maximise(net, 0, box)
    record = json.loads(json.dumps(best.certificate.record))
    assert replay.failure(record) is None
    return record


def _mutated(record, change):
    other = copy.deepcopy(record)
    change(other["data"], other["expected"])
    return replay.failure(other)


def test_dropped_nodes_are_refused(proven):
    entries = proven["data"]["trees"][0]
    for i in range(len(entries)):
        assert _mutated(proven, lambda data, _, i=i: data["trees"][0].pop(i)) is not None


def test_dropped_proofs_are_refused(proven):
    for i, (proofs, _) in enumerate(proven["data"]["trees"][0]):
        if proofs:
            assert _mutated(proven, lambda data, _, i=i: data["trees"][0][i].__setitem__(0, [])) is not None


def test_changed_multipliers_are_refused(proven):
    """Exact leaves stand on equality: another multiplier breaks it, or names what is not there."""
    changed = 0
    for i, (proofs, _) in enumerate(proven["data"]["trees"][0]):
        for p, (kind, _, _, of_facts) in enumerate(proofs):
            for f, (_, value) in enumerate(of_facts):
                for other in (0, -1, str(-replay.number(value))):

                    def change(data, _, i=i, p=p, f=f, other=other):
                        data["trees"][0][i][0][p][3][f][1] = other

                    assert _mutated(proven, change) is not None
                    changed += 1
            if kind == "b":  # a bound is no exact proof where decisions are open, and facts have an end
                assert _mutated(
                    proven, lambda data, _, i=i, p=p: data["trees"][0][i][0][p][3].append([99, 1])
                )
    assert changed >= 3


def test_another_network_property_or_box_is_refused(proven):
    def weight(data, _):
        data["network"]["stages"][0]["b"][0] = 1

    def threshold(data, _):
        constraint = data["property"][0]["unsafe"][0][0]
        constraint["constant"] = str(replay.number(constraint["constant"]) + Fraction(1, 1000))

    def box(data, _):
        data["property"][0]["high"][0] = 3

    def hashes_too(change):
        def both(data, expected):
            change(data, expected)
            expected["network"] = replay.digest(data["network"])
            expected["property"] = replay.digest(data["property"])

        return both

    for change in (weight, threshold, box):
        assert _mutated(proven, change) is not None
    for change in (threshold,):  # consistent, but false: the maximum is not below the new threshold
        assert _mutated(proven, hashes_too(change)) is not None


def test_cuts_must_cover(proven):
    entries = proven["data"]["trees"][0]
    places = [i for i, (_, cut) in enumerate(entries) if cut is not None]
    for i in places:
        for cut in (["x", 0, 99], ["x", 5, 0], ["s", 0, 0], ["s", 1, 99], ["q", 1, 1], ["x"], [], 3):
            assert _mutated(proven, lambda data, _, i=i, cut=cut: data["trees"][0][i].__setitem__(1, cut))


def test_random_mutants_of_the_text(proven):
    """One digit of the file changed: refused, unless the proof does not need it; never an exception."""
    rng = np.random.default_rng(0)
    text = json.dumps(proven["data"]["trees"])
    digits = [i for i, c in enumerate(text) if c.isdigit()]
    refused = 0
    for i in rng.choice(digits, min(150, len(digits)), replace=False):
        other = copy.deepcopy(proven)
        try:
            other["data"]["trees"] = json.loads(text[:i] + str((int(text[i]) + 3) % 10) + text[i + 1 :])
        except ValueError:
            continue
        refused += replay.failure(other) is not None
    assert refused > len(digits) // 10


def test_malformed_records_are_refused():
    good = hm.verify(TENT, "y0 <= 1", hm.Box([0], [1])).certificate.record
    for record in (None, 3, [], {}, {"schema": 1}, {"schema": 1, "kind": "verification", "data": {}}):
        assert replay.failure(record) is not None
    for key in ("network", "property", "trees"):
        for value in (None, 3, [], {}, "x"):
            other = copy.deepcopy(good)
            other["data"][key] = value
            assert replay.failure(other) is not None


def test_a_false_counterexample_is_refused():
    record = hm.verify(TENT, "y0 < 1", hm.Box([0], [1])).certificate.record
    assert replay.failure(record) is None
    for point in ([0], [2], ["1/3"]):
        other = copy.deepcopy(record)
        other["data"]["violation"]["point"] = point
        assert replay.failure(other) is not None


def test_the_file_runs_alone(tmp_path, proven):
    """Without hardmax and without site packages."""
    script = tmp_path / "replay.py"
    script.write_text(Path(replay.__file__).read_text("utf-8"), "utf-8")
    good, bad, junk = tmp_path / "good.json", tmp_path / "bad.json", tmp_path / "junk.json"
    good.write_text(json.dumps(proven))
    proven = copy.deepcopy(proven)
    proven["data"]["trees"][0].pop()
    bad.write_text(json.dumps(proven))
    junk.write_text("0.5")
    for files, code in (([good], 0), ([good, bad], 1), ([junk], 2), ([], 2)):
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(script), *map(str, files)], capture_output=True
        )
        assert done.returncode == code, done


def test_values_agree_with_the_network():
    """The replay evaluates networks of every kind as hardmax does, without rounding."""
    from hardmax.verification.stages import canonical, program_of

    rng = np.random.default_rng(0)
    blocks = {
        "hardmax": {},
        "leftmost": {"ties": "leftmost"},
        "top-2": {"rule": "top-k", "k": 2},
        "sparsemax": {"rule": "sparsemax", "temperature": Fraction(3, 2)},
        "relu": {"rule": "relu"},
    }
    for options in blocks.values():
        head = hm.Attention(
            *(rng.integers(-2, 3, s).astype(float) for s in ((2, 4, 2), (2, 4), (2, 4, 2))), **options
        )
        maxout = hm.Maxout(rng.integers(-2, 3, (3, 2, 2)).astype(float), None, rng.integers(-1, 2, (2, 3)))
        net = hm.Network(
            [head, hm.FeedForward(np.eye(2), [0.5, -1], np.eye(2), slope=Fraction(1, 3)), maxout]
        )
        program = program_of(net)
        other = replay.Network(json.loads(json.dumps(canonical(program))))
        points = rng.integers(-3, 4, (30, 2))
        floats = program.values(points.astype(float))
        for point, seen in zip(points.tolist(), floats, strict=True):
            exact = net.exact_value(point)
            assert tuple(other.value([Fraction(v) for v in point])) == exact
            assert np.allclose(seen, [float(v) for v in exact])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_that_unpacks_to_more_than_the_limit_is_not_read(pack, tmp_path, monkeypatch, capsys):
    path = tmp_path / "large.json"
    path.write_bytes(pack(b"[" + b" " * 1000 + b"]"))
    monkeypatch.setattr(replay, "LIMIT", 1000)
    assert replay.main([str(path)]) == 2
    assert "more than 1000 bytes" in capsys.readouterr().out
