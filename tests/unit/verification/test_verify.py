"""Verdicts and maxima: hand-made cases with known answers, limits, checkpoints, errors."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import FileFormatError, IncompleteError, InvalidInputError
from hardmax.verification import inputs, outputs, read_certificate
from hardmax.verification.stages import ReluStage, program_of

TENT = hm.Network.mlp([([[1], [1]], [0, -0.5]), ([[2, -4]], [0])])
UNIT = hm.Box([0], [1])
THIRD = Fraction(1, 3)
# 0 left of 1/3, 3 right of it, and the mean where both keys tie
JUMP = [[[0], [1]]], [[THIRD, 0]], [[[0], [3]]]


def _head(**options):
    return hm.Network([hm.Attention(*JUMP, skip=False, **options)])


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("y0 <= 1", "holds"),
        ("y0 < 1", "violated"),
        ("y0 >= 0", "holds"),
        ("y0 > 0", "violated"),
        ("y0 <= 0.99", "violated"),
        ("y0 <= 2 x0", "holds"),
        ("y0 <= 2 x0 and y0 <= 2 - 2 x0", "holds"),
        ("y0 < 2 x0 or x0 <= 0.5", "holds"),
        ("not (y0 = 1 and x0 > 0.5)", "holds"),
        ("y0 <= 1000000000001/1000000000000 - 1/1000000000000", "holds"),
    ],
)
def test_tight_properties_of_a_tent(text, verdict):
    found = hm.verify(TENT, text, UNIT)
    assert found.verdict == verdict
    found.certificate.replay()
    assert (found.counterexample is None) == (verdict == "holds")


@pytest.mark.parametrize(
    ("options", "text", "verdict"),
    [
        ({}, "y0 <= 3/2 or x0 > 1/3", "holds"),
        ({}, "y0 < 3/2 or x0 > 1/3", "violated"),
        ({}, "y0 = 0 or y0 = 3", "violated"),
        ({"ties": "leftmost"}, "y0 = 0 or y0 = 3", "holds"),
        ({"ties": "leftmost"}, "y0 = 0 or x0 > 1/3", "holds"),
        ({"ties": "rightmost"}, "y0 = 0 or x0 > 1/3", "violated"),
        ({"rule": "top-k", "k": 2}, "y0 = 3/2", "holds"),
        ({"rule": "sparsemax", "temperature": 1}, "y0 <= 3 and y0 >= 1", "holds"),
        ({"rule": "sparsemax", "temperature": 1}, "y0 > 1", "violated"),
        ({"rule": "sparsemax", "temperature": 1}, "y0 >= 1 + x0/100", "holds"),
    ],
)
def test_heads_with_their_ties(options, text, verdict):
    found = hm.verify(_head(**options), text, UNIT)
    assert found.verdict == verdict
    found.certificate.replay()


def test_a_supremum_that_is_not_attained():
    """On [0, 1/3] the right side of the wall is the single point of the tie; to its left the value is 0."""
    best = hm.maximise(_head(), 0, hm.Box([0], [1]))
    assert (best.value, best.attained) == (3, True)
    # added to -x the value 3 is approached as x falls to 1/3, and not attained
    head = hm.Attention([[[0, 0], [1, 0]]], [[THIRD, 0]], [[[0, 0], [0, 3]]], skip=True)
    net = hm.Network([hm.Affine([[1], [-1]], [0, 0]), head])
    best = hm.maximise(net, [0, 1], hm.Box([0], [1]))
    assert (best.value, best.attained, best.point) == (3 - THIRD, False, (THIRD,))
    best.certificate.replay()
    assert hm.verify(net, "y1 < 8/3", hm.Box([0], [1])).verdict == "holds"
    assert hm.verify(net, "y1 < 7.99999999/3", hm.Box([0], [1])).verdict == "violated"


def test_maximum_over_a_polytope_and_of_a_difference():
    net = hm.Network.mlp([([[1, 0], [0, 1]], None), ([[1, -1], [0, 1]], None)])
    triangle = hm.Polytope([[-1, 0], [0, -1], [1, 1]], [0, 0, 1])
    assert hm.maximise(net, [1, 2], triangle).value == 1
    assert hm.maximise(net, [1, 1], triangle).value == 1
    assert hm.maximise(net, 1, triangle).point == (0, 1)


def test_an_open_box_side():
    """Strict bounds on inputs are part of the conjunction, not of the box."""
    assert hm.verify(TENT, "y0 > 0 or x0 <= 0 or x0 >= 1", UNIT).verdict == "holds"


def test_limits_checkpoints_and_resume(tmp_path):
    net, box = hm.Network.random_mlp([3, 16, 16, 1], 0), hm.Box.cube(3, -1, 1)
    top = hm.maximise(net, 0, box)
    text = f"y0 <= {top.value + Fraction(1, 100)}"
    whole = hm.verify(net, text, box)
    file = tmp_path / "proof.json.gz"
    stopped = hm.verify(net, text, box, max_nodes=3, checkpoint=file)
    assert (whole.verdict, stopped.verdict, stopped.n_nodes) == ("holds", "unknown", 3)
    assert 0 <= stopped.share < 1
    with pytest.raises(hm.errors.CertificateError, match="open"):
        stopped.certificate.replay()
    visited = 3
    for _ in range(200):
        found = hm.verify(net, text, box, max_nodes=7, checkpoint=file)
        visited += found.n_nodes
        if found.verdict != "unknown":
            break
    assert found.verdict == "holds"
    assert visited == whole.n_nodes
    assert found.certificate.record == whole.certificate.record
    read_certificate(file).replay()
    with pytest.raises(InvalidInputError, match="belongs to another"):
        hm.verify(net, "y0 <= 1000", box, checkpoint=file)
    assert hm.verify(net, text, box, time_limit=1e-9).verdict == "unknown"
    with pytest.raises(IncompleteError, match="at least"):
        hm.maximise(net, 0, box, max_nodes=1)


def test_ctrl_c_keeps_what_is_proven():
    def stop(seen):
        if seen.n_nodes == 5:
            raise KeyboardInterrupt

    net, box = hm.Network.random_mlp([3, 16, 16, 1], 0), hm.Box.cube(3, -1, 1)
    top = hm.maximise(net, 0, box).value
    found = hm.verify(net, f"y0 <= {top}", box, progress=stop)
    assert found.verdict == "unknown"
    assert found.n_nodes == 5
    assert sum(entry != "open" for entry in found.certificate.record["data"]["trees"][0]) == 5


def test_planted_counterexamples():
    """A spike of width 1e-3 in a network that is zero elsewhere is found, wherever it stands."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        centre = [Fraction(float(v)) for v in rng.uniform(-0.9, 0.9, 2)]
        # max(0, 1/1000 - |x - c|_1): four units, then one
        rows = [[1, 0], [-1, 0], [0, 1], [0, -1]]
        first = hm.FeedForward(
            rows, [-centre[0], centre[0], -centre[1], centre[1]], [[-1] * 4], [Fraction(1, 1000)]
        )
        net = hm.Network([first, hm.FeedForward(None, None, [[1]], None)])
        box = hm.Box.cube(2, -1, 1)
        found = hm.verify(net, "y0 <= 0.0009", box)
        assert found.verdict == "violated"
        assert found.outputs[0] > Fraction(9, 10000)
        best = hm.maximise(net, 0, box)
        assert (best.value, best.point) == (Fraction(1, 1000), tuple(centre))


def test_conditions_from_operators():
    x, y = inputs(1), outputs(1)
    assert hm.verify(TENT, (y[0] <= 2 * x[0]) & ~(y[0] > 1), UNIT).verdict == "holds"
    with pytest.raises(InvalidInputError, match="joined with"):
        bool(y[0] <= 1)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ("y0 <= ", "should be a number"),
        ("y0", "should be <="),
        ("y1 <= 0", "outputs of the network"),
        ("x3 <= 0", "inputs of the network"),
        ("y0 * y0 <= 1", "two unknowns"),
        ("y0 <= 1/0", "other than 0"),
        ("(" * 300 + "y0 <= 1", "nested|not understood|should be"),
        ("y0 <= 1 ; rm", "not understood"),
        (3, "must be a text"),
    ],
)
def test_bad_properties_get_one_sentence(stated, words):
    with pytest.raises(InvalidInputError, match=words):
        hm.verify(TENT, stated, UNIT)


def test_bad_questions():
    with pytest.raises(InvalidInputError, match="bounded"):
        hm.verify(TENT, "y0 <= 1")
    with pytest.raises(InvalidInputError, match="WholeSpace"):
        hm.verify(TENT, "y0 <= 1", hm.WholeSpace(1))
    with pytest.raises(InvalidInputError, match="bounded"):
        hm.verify(TENT, "y0 <= 1", hm.Polytope([[1]], [1]))
    with pytest.raises(InvalidInputError, match="inputs of the network"):
        hm.verify(TENT, "y0 <= 1", hm.Box.cube(2, 0, 1))
    with pytest.raises(FileNotFoundError, match="no such file"):
        hm.verify("nothing.npz", "y0 <= 1", UNIT)
    with pytest.raises(InvalidInputError, match="network must be"):
        hm.verify(3, "y0 <= 1", UNIT)
    with pytest.raises(InvalidInputError, match="one number per output"):
        hm.maximise(TENT, [1, 2], UNIT)
    norm = hm.Network([hm.networks.LayerNorm([1.0, 1.0], [0.0, 0.0])])
    with pytest.raises(InvalidInputError, match="piecewise affine"):
        hm.verify(norm, "y0 <= 1", hm.Box.cube(2, 0, 1))


def test_broken_checkpoints(tmp_path):
    file = tmp_path / "broken.json"
    for content in (b"", b"{", b"[]", b"\x1f\x8bxx", json.dumps({"kind": "verification"}).encode()):
        file.write_bytes(content)
        with pytest.raises(FileFormatError):
            hm.verify(TENT, "y0 <= 1", UNIT, checkpoint=file)


def test_where_floats_cannot_tell():
    """Ten times one tenth: 1 in decimals, less in floats, and a hair above 1 for the float 0.1."""
    net = hm.Network.mlp([([[1.0]], None), ([[0.1] * 1], None)])
    tenth = hm.Network.mlp([([[1]], None), ([[Fraction(1, 10)]], None)])
    box = hm.Box([0], [10])
    assert hm.verify(tenth, "y0 <= 1", box).verdict == "holds"
    found = hm.verify(net, "y0 <= 1", box)
    assert found.verdict == "violated"
    assert 0 < found.outputs[0] - 1 < Fraction(1, 10**15)


@pytest.mark.parametrize("units", [3, 4])
def test_units_that_read_the_same_up_to_sign_are_one(units):
    """The maximum of two inputs with passed-on values: one decision is left, and values are the same."""
    rows = [[1, 1], [-1, -1], [1, -1], [-1, 1]] if units == 4 else [[1, -1], [0, 1], [0, -1]]
    out = [[0.5, -0.5, 0.5, 0.5]] if units == 4 else [[1, 1, -1]]
    net = hm.Network([hm.FeedForward(rows, None, out, [THIRD])])
    program = program_of(net)
    assert [stage.size for stage in program.stages if isinstance(stage, ReluStage)] == [1]
    points = np.random.default_rng(0).integers(-9, 9, (50, 2)).astype(float)
    assert np.allclose(program.values(points)[:, 0], points.max(axis=1) + 1 / 3)
    box = hm.Box.cube(2, -1, 1)
    best = hm.maximise(net, 0, box)
    assert best.value == 1 + THIRD
    best.certificate.replay()
    assert hm.verify(net, "y0 < 4/3", box).verdict == "violated"
    # a value that is only passed on decides nothing: the network is affine
    passed = hm.Network.mlp([([[1, 0], [-1, 0]], None), ([[1, -1]], None)])
    assert hm.verify(passed, "y0 = x0", box).certificate.n_leaves == 1


def _lattice(n):
    """The maximum of n minima of n affine functions drawn from n, each by three ReLU units per pair."""
    rng = np.random.default_rng(0)
    slopes, offsets = rng.standard_normal((n, 2)), rng.standard_normal(n)
    chosen = rng.integers(0, n, n * n)
    blocks, size = [hm.Affine(slopes[chosen], offsets[chosen])], n * n
    while size > 1:
        sign = -1 if size > n else 1
        pairs = np.eye(size // 2)
        a, b = np.kron(pairs, [[1.0, 0.0]]), np.kron(pairs, [[0.0, 1.0]])
        blocks.append(
            hm.FeedForward(
                np.concatenate([sign * (a - b), b, -b]),
                None,
                np.concatenate([sign * pairs, pairs, -pairs], 1),
                None,
            )
        )
        size //= 2
    return hm.Network(blocks), lambda p: (p @ slopes.T + offsets)[:, chosen].reshape(-1, n, n).min(2).max(1)


def test_a_lattice_at_its_exact_maximum():
    """Many decisions meet in the maximum of a lattice; full enumeration gives the same fraction."""
    net, closed_form = _lattice(8)
    box = hm.Box.cube(2, -8, 8)
    best = hm.maximise(net, 0, box)
    best.certificate.replay()
    regions = hm.enumerate_regions(net, box)
    tops = [np.asarray(net(regions.cell_vertices(i))).max() for i in range(len(regions))]
    highest = np.flatnonzero(np.array(tops) > max(tops) - 1e-9).tolist()
    assert best.value == max(net.exact_value(v)[0] for i in highest for v in regions.exact_vertices(i))
    points = np.random.default_rng(1).uniform(-8, 8, (10_000, 2))
    assert closed_form(points).max() <= float(best.value)
    tight = hm.verify(net, f"y0 <= {best.value}", box)
    assert tight.verdict == "holds"
    tight.certificate.replay()
    assert hm.verify(net, f"y0 < {best.value}", box).verdict == "violated"
