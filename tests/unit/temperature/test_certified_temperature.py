"""Certified temperatures against a softmax network in decimals, and against closed forms."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm

DIGITS = 60
BELOW = (1.0, 1 - 1e-9, 0.9, 0.7, 0.5, 0.3, 0.1, 0.03, 0.01)


def decimals(array) -> list:
    if array.ndim == 0:
        value = Fraction(array.item())
        return Decimal(value.numerator) / Decimal(value.denominator)
    return [decimals(part) for part in array]


def dot(a, b):
    return sum((p * q for p, q in zip(a, b, strict=True)), Decimal(0))


def image(w, b, y):
    return [dot(row, y) + shift for row, shift in zip(w, b, strict=True)]


def soft_output(network: hm.Network, x, temperature: float) -> list[Decimal]:
    """The softmax network in sixty digits, by its definition."""
    y, tau = decimals(np.asarray(x)), decimals(np.asarray(temperature))
    for block in network.blocks:
        before = y
        if isinstance(block, hm.Attention):
            y = list(before) if block.skip else [Decimal(0)] * block.d_out
            for h in range(block.heads):
                keys = np.flatnonzero(block.mask[h])
                scores = image(
                    decimals(block.scores.floats[h][keys]), decimals(block.biases.floats[h][keys]), before
                )
                weights = [((s - max(scores)) / tau).exp() for s in scores]
                outputs = decimals(block.outputs.floats[h][keys])
                for c in range(block.d_out):
                    y[c] += dot(weights, [v[c] for v in outputs]) / sum(weights)
            continue
        if isinstance(block, hm.Affine):
            y = image(decimals(block.w.floats), decimals(block.b.floats), before)
            continue
        if isinstance(block, hm.FeedForward):
            w = np.eye(block.d_in) if block.w_in is None else block.w_in.floats
            z = image(decimals(w), decimals(block.b_in.floats), before)
            slopes = decimals(block.slope.floats)
            middle = [p if p > 0 else p * a for p, a in zip(z, slopes, strict=True)]
        else:
            middle = [
                max(image(decimals(block.scores.floats[g]), decimals(block.biases.floats[g]), before))
                for g in range(block.heads)
            ]
        w = np.eye(len(middle)) if block.w_out is None else block.w_out.floats
        y = image(decimals(w), decimals(block.b_out.floats), middle)
        if block.skip:
            y = [p + q for p, q in zip(y, before, strict=True)]
    return y


def decision(y: list) -> int:
    return int(y[0] > 0) if len(y) == 1 else max(range(len(y)), key=y.__getitem__)


def random_network(rng: np.random.Generator) -> hm.Network:
    """Up to four blocks of all kinds; half of them with small integers, in which ties are common."""
    integers = rng.random() < 0.5

    def draw(*shape: int) -> np.ndarray:
        return rng.integers(-3, 4, shape).astype(float) if integers else rng.standard_normal(shape)

    d = int(rng.integers(1, 4))
    blocks: list = []
    depth = int(rng.integers(1, 4))
    sure = int(rng.integers(depth))  # one block at least is attention
    for i in range(depth):
        kind = "attention" if i == sure else rng.choice(["attention", "relu", "maxout", "affine"])
        e, n = int(rng.integers(1, 4)), int(rng.integers(1, 5)) + (i == sure)
        skip = bool(rng.random() < 0.5)
        out = d if skip else e
        if kind == "attention":
            h = int(rng.integers(1, 3))
            blocks.append(hm.Attention(draw(h, n, d), draw(h, n), draw(h, n, out), skip=skip))
        elif kind == "relu":
            slope = float(rng.choice([0.0, 0.0, 0.25, -1.0, 2.0]))
            blocks.append(
                hm.FeedForward(draw(n, d), draw(n), draw(out, n), draw(out), skip=skip, slope=slope)
            )
        elif kind == "maxout":
            blocks.append(hm.Maxout(draw(2, n, d), draw(2, n), draw(out, 2), draw(out), skip=skip))
        else:
            out = e
            blocks.append(hm.Affine(draw(e, d), draw(e)))
        d = out
    classes = int(rng.integers(1, 4))
    return hm.Network([*blocks, hm.Affine(draw(classes, d), draw(classes))])


def judge(number: int) -> str:
    """Certify a random network and try to break the certificate."""
    rng = np.random.default_rng(number)
    network = random_network(rng)
    inputs = rng.integers(-2, 3, (5, network.d)).astype(float)
    inputs += 0.0 if rng.random() < 0.5 else rng.standard_normal(inputs.shape)
    hard = [network.exact_value(x) for x in inputs]
    tied = [sorted(y)[-1] == sorted(y)[-2] if len(y) > 1 else y[0] == 0 for y in hard]
    if any(tied):
        with pytest.raises(hm.errors.InvalidInputError, match="decision at temperature zero"):
            hm.certified_temperature(network, inputs)
        inputs = inputs[~np.array(tied)]
        hard = [y for y, t in zip(hard, tied, strict=True) if not t]
        if not len(inputs):
            return "tied"
    try:
        found = hm.certified_temperature(network, inputs)
    except hm.errors.InvalidInputError as error:
        if "ties keys of" not in str(error):
            raise
        return "parted"
    want = [decision(y) for y in hard]
    assert found.decisions.tolist() == want
    assert found.temperature > 0
    with localcontext() as context:
        context.prec = DIGITS
        top = min(found.temperature, 1e6)
        for factor in BELOW:
            for x, c in zip(inputs, want, strict=True):
                assert decision(soft_output(network, x, top * factor)) == c, (number, factor)
        if found.broken_input >= 0:
            x = inputs[found.broken_input]
            y = soft_output(network, x, found.broken_temperature)
            assert decision(y) != want[found.broken_input], number
            assert found.temperature < found.broken_temperature
            return f"sharp {found.factor:g}"
    return "never" if found.temperature == math.inf else "unknown"


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_decisions_hold_at_and_below_the_certified_temperature(start):
    said = [judge(number) for number in range(start, start + 50)]
    factors = [float(word.split()[1]) for word in said if word.startswith("sharp")]
    assert len(factors) >= 5  # the test sees networks that do change
    assert np.median(factors) <= 4


@pytest.mark.parametrize("n", [2, 3, 10])
@pytest.mark.parametrize("rho", [0.75, 3.0, 50.0])
def test_equal_rivals_change_the_decision_at_the_closed_form(n, rho):
    """N - 1 rivals behind by m with the lead -rho g: tau = m / log((N - 1) rho), and factor 1."""
    m, g = 0.625, 2.0
    values = np.array([[g, 0.0]] + [[0.0, rho * g]] * (n - 1))
    head = hm.Attention(np.zeros((1, n, 1)), [[0.0] + [-m] * (n - 1)], values[None], skip=False)
    found = hm.certified_temperature(hm.Network([head]), [[0.0]])
    if (n - 1) * rho <= 1:
        assert found.temperature == math.inf
        return
    tau = m / math.log((n - 1) * rho)
    assert tau * (1 - 2e-6) <= found.temperature <= tau * (1 + 1e-12)
    assert found.factor <= 1 + 2.0**-17


@pytest.mark.parametrize("seed", range(40))
def test_one_head_is_sharp_where_no_losing_key_speaks_for_the_decision(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    values = np.stack([np.zeros(n), rng.exponential(size=n) + 0.5], axis=1)
    scores = rng.standard_normal((1, n, 2))
    x = rng.standard_normal(2)
    winner = int((scores[0] @ x).argmax())
    values[winner] = [0.3, 0.0]
    found = hm.certified_temperature(
        hm.Network([hm.Attention(scores, None, values[None], skip=False)]), x[None]
    )
    margins = (scores[0] @ x)[winner] - np.delete(scores[0] @ x, winner)
    votes = np.delete(values[:, 1], winner)
    left = 0.3 - (np.exp(-margins / found.temperature) * votes).sum()
    if found.temperature == math.inf:
        assert votes.sum() - 1e-12 <= 0.3
    else:
        assert abs(left) <= 1e-4
        assert found.factor <= 1 + 2.0**-17
        with localcontext() as context:
            context.prec = DIGITS
            y = soft_output(
                hm.Network([hm.Attention(scores, None, values[None], skip=False)]),
                x,
                found.temperature * (1 + 1e-5),
            )
        assert decision(y) == 1


def test_winners_that_nothing_can_part_share_evenly():
    """Two copies of a key deep in a network tie at every temperature; their mean decides."""
    first = hm.Attention([[[1.0], [-1.0]]], None, [[[1.0], [-1.0]]], skip=False)
    second = hm.Attention([[[2.0], [2.0], [0.0]]], None, [[[3.0, 0.0], [0.0, 1.0], [0.0, 9.0]]], skip=False)
    found = hm.certified_temperature(hm.Network([first, second]), [[1.0]])
    assert found.decisions.tolist() == [0]
    assert 0.3 < found.temperature < 10
    assert found.factor < 1.5


def test_winners_that_softmax_parts_are_refused():
    first = hm.Attention([[[1.0], [-1.0]]], None, [[[0.0], [1.0]]], skip=False)
    second = hm.Attention([[[1.0], [-1.0]]], None, [[[3.0, 0.0], [0.0, 1.0]]], skip=False)
    second_reversed = hm.Attention([[[-1.0], [1.0]]], None, [[[3.0, 0.0], [0.0, 1.0]]], skip=False)
    for block in (second, second_reversed):  # parted towards the decision, and away from it
        with pytest.raises(hm.errors.InvalidInputError, match="input 0 ties keys of head 0 of block 1"):
            hm.certified_temperature(hm.Network([first, block]), [[1.0]])
    # where the decision does not hang on them, they do no harm
    harmless = hm.Attention([[[1.0], [-1.0]]], None, [[[3.0, 0.0], [2.0, 1.0]]], skip=False)
    assert hm.certified_temperature(hm.Network([first, harmless]), [[1.0]]).temperature > 0.1


def test_readouts_and_thresholds():
    head = hm.Attention([[[1.0], [-1.0]]], None, [[[1.0], [-3.0]]], skip=False)
    net = hm.Network([head])
    at_zero = hm.certified_temperature(net, [[1.0], [-1.0]])
    assert at_zero.decisions.tolist() == [1, 0]
    two_rows = hm.certified_temperature(net, [[1.0], [-1.0]], readout=[[0.0], [1.0]])
    assert two_rows.decisions.tolist() == [1, 0]
    assert two_rows.temperature == pytest.approx(at_zero.temperature, rel=1e-5)
    lower = hm.certified_temperature(net, [[1.0]], threshold=Fraction(-1, 3))
    assert lower.temperature > hm.certified_temperature(net, [[1.0]]).temperature
    with pytest.raises(hm.errors.InvalidInputError, match="equals the threshold"):
        hm.certified_temperature(net, [[1.0]], threshold=1.0)


def test_an_affine_network_decides_alike_at_every_temperature(tmp_path):
    found = hm.certified_temperature(hm.Network([hm.Affine([[1.0], [0.0]])]), [[1.0], [-2.0]])
    assert found.temperature == math.inf
    assert repr(found) == "<CertifiedTemperature: 2 inputs keep their decisions at every temperature>"
    again = hm.load(found.save(tmp_path / "found.npz"))
    assert again.decisions.tolist() == [0, 1]
    assert again.temperature == math.inf


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-500, 2.0**900])
def test_temperature_scales_with_the_scores(scale):
    head = hm.Attention(np.array([[[1.0], [-1.0]]]) * scale, None, [[[1.0, 0.0], [0.0, 3.0]]], skip=False)
    found = hm.certified_temperature(hm.Network([head]), [[1.0]])
    assert found.temperature / scale == pytest.approx(2 / math.log(3), rel=2e-6)


def test_wrong_input_gets_a_sentence():
    net = hm.Network([hm.Affine([[1.0], [0.0]])])
    with pytest.raises(hm.errors.InvalidInputError, match="network must be a Network"):
        hm.certified_temperature(3, [[1.0]])
    with pytest.raises(hm.errors.InvalidInputError, match="at least one input"):
        hm.certified_temperature(net, np.zeros((0, 1)))
    with pytest.raises(hm.errors.DimensionMismatchError, match="readout must have one column"):
        hm.certified_temperature(net, [[1.0]], readout=[[1.0]])
    with pytest.raises(hm.errors.NotFiniteError):
        hm.certified_temperature(net, [[np.nan]])
