"""Theorem 3 and Lemma 1 of the InfoFlow paper: codes, what they cost, and what no code can do."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from hardmax.errors import (
    DimensionMismatchError,
    IncompleteError,
    InvalidInputError,
    MissingExtraError,
    NotFiniteError,
)
from hardmax.flow.theorems.codes import analog_code, binary_code, tanh_step
from hardmax.flow.theorems.decoding_bounds import (
    alternation_program,
    alternation_width_bound,
    antipodal_pair,
    decoder_width_bound,
    identity_block,
    identity_error,
)
from hardmax.flow.theorems.softmax_transformers import TwoLayer


@pytest.mark.parametrize(
    ("case", "bits", "units", "parameters", "error"),
    [
        ((2, 1, 0.5), 3, 77, 311, 0.102),
        ((2, 1, 0.25), 4, 285, 1143, 0.051),
        ((2, 1, 0.125), 5, 1085, 4343, 0.026),
        ((4, 3, 0.0625), 7, 3577, 28623, 0.0089),
    ],
)
def test_the_binary_code(case, bits, units, parameters, error):
    code = binary_code(*case)
    assert (code.bits, code.n_units, code.n_parameters) == (bits, units, parameters)
    assert code.mean_error(n_samples=1000) == pytest.approx(error, rel=0.06)
    assert code.mean_error(n_samples=500) <= case[2]


@pytest.mark.parametrize(
    ("case", "units", "parameters"),
    [((2, 1, 0.0625), 4221, 16887), ((3, 1, 0.25), 32860, 164304), ((4, 2, 0.0625), 33274, 232924)],
)
def test_the_size_of_large_codes(case, units, parameters):
    code = binary_code(*case)
    assert (code.n_units, code.n_parameters) == (units, parameters)


@given(st.sampled_from([(2, 1), (3, 1), (3, 2), (4, 3), (5, 2)]), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_the_step_code_truncates_exactly(size, seed):
    code = binary_code(*size, 1.9)
    v = np.random.default_rng(seed).random((50, size[0]))
    assert (code(v) == np.floor(v * code.cells) / code.cells).all()
    assert (code(np.floor(v * code.cells) / code.cells) == np.floor(v * code.cells) / code.cells).all()


@pytest.mark.parametrize("epsilon", [0.5, 0.25, 0.125])
def test_the_tanh_code_is_close_in_the_mean_and_stays_in_the_cube(epsilon):
    code = binary_code(2, 1, epsilon, units="tanh")
    assert code.encoder.activation == code.decoder.activation == "tanh"
    assert code.mean_error(n_samples=2000) <= epsilon
    v = np.random.default_rng(0).random((500, 2))
    for values in (code.encoder(v), code(v)):
        assert values.min() >= -1e-9
        assert values.max() <= 1 + 1e-9
    assert code.largest_weight > epsilon**-2


@pytest.mark.parametrize(
    ("epsilon", "steepness", "error"),
    [(0.5, (32, 2048), 0.237), (0.25, (64, 8192), 0.177), (0.125, (256, 32768), 0.100)],
)
def test_a_given_steepness(epsilon, steepness, error):
    code = binary_code(2, 1, epsilon, units="tanh", steepness=steepness)
    assert code.mean_error(n_samples=2000) == pytest.approx(error, rel=0.08)


@pytest.mark.parametrize(
    ("size", "parameters", "error"),
    [((2, 1), 115, 0.0205), ((3, 1), 1994, 0.0213), ((4, 2), 538, 0.0215), ((6, 2), 14084, 0.0214)],
)
def test_the_analog_code(size, parameters, error):
    m, n = size
    code = analog_code(m, n, 1 / 32)
    r = m // n
    assert code.n_parameters == parameters
    assert code.n_units == n * ((r - 1) * (code.cells - 1) + code.cells ** (r - 1) + 1)
    assert code.mean_error() == pytest.approx(error, rel=0.04)
    assert code.mean_error() == pytest.approx(math.sqrt((m - n) / 12) / code.cells, rel=0.04)
    smooth = analog_code(m, n, 1 / 32, units="tanh")
    assert smooth.encoder.n_linear == smooth.decoder.n_linear == 0
    assert smooth.mean_error(n_samples=1000) <= 1 / 32


@given(st.sampled_from([(2, 1), (3, 1), (4, 2)]), st.floats(0.03, 1.0), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_the_analog_code_is_wrong_by_half_a_cell(size, epsilon, seed):
    code = analog_code(*size, epsilon)
    v = np.random.default_rng(seed).uniform(1e-6, 1 - 1e-6, (40, size[0]))
    assert code.sup_error(v) <= 0.5 / code.cells + 1e-9
    kept = [(l + 1) * (code.m // code.n) - 1 for l in range(code.n)]
    assert np.abs(code(v) - v)[:, kept].max() < 1e-9
    assert code.encoder(v).min() >= 0
    assert code.encoder(v).max() <= 1


def test_the_analog_code_is_cheaper_by_an_order():
    epsilons = [1 / 8 / 2**i for i in range(5)]
    for (m, n), limit in (((2, 1), -1), ((3, 1), -2)):
        counts = [analog_code(m, n, epsilon).n_parameters for epsilon in epsilons]
        assert np.polyfit(np.log(epsilons), np.log(counts), 1)[0] == pytest.approx(limit, abs=0.2)


@pytest.mark.parametrize("make", [binary_code, analog_code])
@pytest.mark.parametrize("units", ["heaviside", "tanh"])
def test_torch_agrees_on_codes(make, units):
    torch = pytest.importorskip("torch")
    code = make(4, 2, 0.5, units=units)
    v = np.random.default_rng(0).random((50, 4))
    exported = code.to_torch()(torch.tensor(v)).detach().numpy()
    assert np.abs(exported - code(v)).max() < 1e-10


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for thing in (binary_code(2, 1, 0.5), binary_code(2, 1, 0.5).encoder):
        with pytest.raises(MissingExtraError, match="try: pip install torch"):
            thing.to_torch()


def test_bad_codes():
    with pytest.raises(InvalidInputError, match="n must be less than m"):
        binary_code(2, 2, 0.1)
    with pytest.raises(InvalidInputError, match="m must be a multiple of n"):
        analog_code(3, 2, 0.1)
    with pytest.raises(InvalidInputError, match="units must be heaviside or tanh"):
        binary_code(2, 1, 0.1, units="relu")
    with pytest.raises(InvalidInputError, match="epsilon must leave at most"):
        binary_code(8, 1, 0.01)
    with pytest.raises(InvalidInputError, match="epsilon must leave at most"):
        analog_code(8, 1, 0.01)
    with pytest.raises(InvalidInputError, match="steepness"):
        binary_code(2, 1, 0.5, units="tanh", steepness=(0, 1))
    with pytest.raises(InvalidInputError, match="m must be a whole number"):
        binary_code(0, 1, 0.5)


# Lemma 1


def error_by_quadrature(step, p, atoms):
    """The error in L_p of density 1 on [-1, 1] with atoms, in the variable B x."""

    def off(x):
        return abs(float(x >= 0) - float(step(x)))

    scale = 60.0 / step.steepness
    inner = (
        quad(lambda x: off(x) ** p, -scale, 0, limit=300)[0]
        + quad(lambda x: off(x) ** p, 0, scale, limit=300)[0]
    )
    return (inner + sum(mass * off(place) ** p for place, mass in atoms.items())) ** (1 / p)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("delta", [0.3, 0.05])
@pytest.mark.parametrize("atoms", [{}, {0.0: 3.0}, {0.0: 1.0, 1e-3: 2.0, -0.02: 1.0}])
def test_a_step_becomes_a_tanh_unit(p, delta, atoms):
    step = tanh_step(delta, p=p, atoms=atoms)
    assert error_by_quadrature(step, p, atoms) <= step.error_bound < delta


def test_no_tanh_unit_is_uniformly_close():
    step = tanh_step(0.01, atoms={0.0: 1.0})
    assert float(step(-1e-12)) > 0.9


def test_bad_steps():
    with pytest.raises(InvalidInputError, match="p must be at least 1 and finite"):
        tanh_step(0.1, p=math.inf)
    with pytest.raises(InvalidInputError, match="p must be at least 1"):
        tanh_step(0.1, p=0.5)
    with pytest.raises(InvalidInputError, match="interval"):
        tanh_step(0.1, interval=(1.0, 0.0))
    with pytest.raises(InvalidInputError, match="density and atoms"):
        tanh_step(0.1, atoms={0.0: -1.0})
    with pytest.raises(InvalidInputError, match="delta"):
        tanh_step(0.0)


# Bounds


@pytest.mark.parametrize(
    ("case", "width"),
    [((2, 1, 0.01), 2.758), ((2, 1, 0.001), 27.78), ((3, 1, 0.01), 46.28), ((8, 2, 0.01), 545.6)],
)
def test_decoder_width_bounds(case, width):
    assert decoder_width_bound(*case) == pytest.approx(width, rel=3e-4)


@given(st.integers(2, 6), st.integers(1, 4), st.floats(1e-3, 0.3), st.floats(0.5, 3.0))
def test_the_decoder_bound_satisfies_its_packing_inequality(m, n, epsilon, weight):
    """Any integer width below the bound contradicts 1/2 <= ceil(K / 2 eps)^n (6 eps)^m."""
    bound = decoder_width_bound(m, n, epsilon, weight_bound=weight)
    below = math.ceil(bound) - 1
    if below >= 1:
        lipschitz = below * weight**2 * n
        # the ceiling is at most one more than the quotient, which is what the closed form uses
        assert (lipschitz / (2 * epsilon) + 1) ** n * (6 * epsilon) ** m <= 0.5 * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 0.2, 0.1])
def test_the_codes_respect_the_lower_bound(epsilon):
    code = binary_code(2, 1, epsilon, units="tanh")
    v = np.random.default_rng(0).random((500, 2))
    mean = float(np.abs(code(v) - v).max(axis=1).mean())
    assert code.decoder.width >= decoder_width_bound(2, 1, mean, weight_bound=code.decoder.largest_weight)


@pytest.mark.parametrize(("p", "error"), [(1, 0.238), (2, 0.0758), (4, 0.0203), (8, 0.00518), (16, 0.00130)])
def test_the_identity_is_never_exact(p, error):
    block = identity_block(2, 3, p)
    v = np.stack(np.meshgrid(np.linspace(0, 1, 41), np.linspace(0, 1, 41)), axis=-1).reshape(-1, 2)
    found = float(np.abs(block(v)[:, :2] - v).max())
    assert found == pytest.approx(identity_error(p), abs=1e-12)
    assert found == pytest.approx(error, rel=4e-3)
    assert 0 < found < 1 / (3 * p**2)
    assert (block(v)[:, 2] == 0).all()
    assert block.largest_weight == 1.0
    back = identity_block(3, 2, p)
    assert np.abs(back(block(v)) - v).max() <= 2 * identity_error(p)


@pytest.mark.parametrize(("k", "width"), [(1, 0.541), (2, 8.16), (3, 72.6), (4, 972.0)])
def test_alternations_are_expensive(k, width):
    found = alternation_program(k, n_dictionary=61, n_check=201)
    assert found.width == pytest.approx(width, rel=0.01)
    assert found.width > alternation_width_bound(k)
    # the multipliers prove it: no unit on another grid exceeds 1, up to the spacing of the grid
    rng = np.random.default_rng(0)
    units = np.tanh(rng.uniform(-1, 1, (2000, 1)) * found.points + rng.uniform(-1, 1, (2000, 1)))
    assert np.abs(units @ found.multipliers).max() < 1.01


def test_the_proven_bound_holds_for_random_networks():
    rng = np.random.default_rng(0)
    alternating = 0
    for _ in range(2000):
        p, k = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        block = TwoLayer(*(rng.uniform(-1, 1, shape) for shape in ((p, 1), (p,), (1, p), (1,))))
        values = block(np.sort(rng.random(k + 1))[:, None])[:, 0]
        for up in (values[::2], values[1::2]), (values[1::2], values[::2]):
            amplitude = (up[0].min() - up[1].max()) / 2  # around the best level
            if amplitude > 0:
                alternating += 1
                assert p >= alternation_width_bound(k, amplitude=amplitude)
    assert alternating > 500


# Antipodes


@pytest.mark.parametrize(
    ("epsilon", "steepness", "error"),
    [(0.5, (32, 2048), 0.5625), (0.25, (64, 8192), 0.53125), (0.125, (256, 32768), 0.515625)],
)
def test_the_tanh_code_fails_at_an_antipodal_pair(epsilon, steepness, error):
    code = binary_code(2, 1, epsilon, units="tanh", steepness=steepness)
    pair = antipodal_pair(code.encoder, 2)
    assert pair.code_gap < 1e-12
    assert pair.point + pair.antipode == pytest.approx(1.0)
    assert np.abs(pair.point - pair.antipode).max() == 1.0
    assert pair.sup_error(code.decoder, code.encoder) == pytest.approx(error, abs=1e-6)


@given(st.sampled_from([(2, 1), (3, 1), (3, 2), (4, 2), (5, 3)]), st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_every_smooth_encoder_has_an_antipodal_pair(size, seed):
    m, n = size
    rng = np.random.default_rng(seed)
    encoder = TwoLayer(
        rng.normal(size=(6, m)), rng.normal(size=6), rng.normal(size=(n, 6)), rng.normal(size=n)
    )
    decoder = TwoLayer(
        rng.normal(size=(6, n)), rng.normal(size=6), rng.normal(size=(m, 6)), rng.normal(size=m)
    )
    pair = antipodal_pair(encoder, m, tolerance=1e-8, tries=200)
    assert pair.code_gap <= 1e-8
    assert np.abs(pair.point - pair.antipode).max() == pytest.approx(1.0)
    error = pair.sup_error(decoder, encoder)
    assert error >= pair.certain_error(decoder.lipschitz()) >= 0.5 - 1e-3


def test_bad_encoders():
    with pytest.raises(InvalidInputError, match="fewer outputs"):
        antipodal_pair(lambda v: v, 3)
    with pytest.raises(NotFiniteError, match="finite"):
        antipodal_pair(lambda v: v[:, :1] * np.nan, 3)
    with pytest.raises(DimensionMismatchError, match="encoder must return shape"):
        antipodal_pair(lambda v: v[:, 0], 3)
    with pytest.raises(InvalidInputError, match="m must be a whole number"):
        antipodal_pair(lambda v: v[:, :1], 1)
    with pytest.raises(IncompleteError, match="one exists"):  # steps are not continuous
        antipodal_pair(lambda v: np.floor(v[:, :2] * 1000) * [[1.0, np.pi]] + 0.3, 3, tries=2)


def test_lipschitz_constants_are_for_smooth_blocks():
    with pytest.raises(InvalidInputError, match="tanh"):
        binary_code(2, 1, 0.5).decoder.lipschitz()
    assert TwoLayer([[0.5, -0.5]], [0.0], [[2.0]], [0.0]).lipschitz() == 2.0


def test_fractions_are_welcome():
    assert binary_code(2, 1, Fraction(1, 2)).n_units == 77
