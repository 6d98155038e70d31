"""How far softmax is from hardmax: against exact and high-precision arithmetic, and dense matrices."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.temperature.observed_scores import leading_eigenvalue

QUANTITIES = ("value", "gradient", "hessian", "lipschitz", "affine_error")


def by_mpmath(n: int, margin: float, temperature: float) -> dict[str, mpmath.mpf]:
    """The fifteen bounds from their formulas, at a precision that doubles cannot tell from exact."""
    tau, e, m = mpmath.mpf(temperature), mpmath.exp(-mpmath.mpf(margin) / mpmath.mpf(temperature)), n - 1
    value = tau * mpmath.log1p(m * e)
    sharp = max((k + 1) * e / (1 + k * e) ** 2 for k in range(1, n)) / tau
    short = min(n * e, mpmath.mpf(1) / 2) / tau
    printed = m * e / tau
    return {
        **{f"value{form}": value for form in ("", "_sharp", "_paper")},
        "gradient": min(2 * m * e, mpmath.mpf(2)),
        "gradient_sharp": 2 * m * e / (1 + m * e),
        "gradient_paper": 2 * m * e,
        **{
            f"{name}{form}": x
            for name in ("hessian", "lipschitz")
            for form, x in (("", short), ("_sharp", sharp), ("_paper", printed))
        },
        "affine_error": short / 2,
        "affine_error_sharp": sharp / 2,
        "affine_error_paper": printed / 2,
    }


def nearest(x: mpmath.mpf) -> float:
    """The double nearest to a high-precision number, through fractions: mpmath's own float rounds subnormals
    twice."""
    sign, mantissa, exponent, _ = x._mpf_
    if mantissa == 0 or int(mantissa).bit_length() + exponent < -1100:
        return 0.0
    return float((-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** int(exponent))


CASES = [
    (512, 2.0, 0.125),
    (512, 2.0, 8.0),
    (512, 2.0, 1.0),
    (2, 0.1, 1.0),
    (2, 1e-12, 3.0),
    (3, 7.3, 0.01),
    (40, 700.0, 1.0),  # close to the smallest normal double
    (7, 743.0, 1.0),  # subnormal
    (7, 745.2, 0.999),
    (100, 1e3, 1e-6),  # far below every double
    (17, 1e-300, 1e-290),
    (5, 3.0, 1e300),
]


@pytest.mark.parametrize("case", CASES)
def test_bounds_are_correctly_rounded(case):
    bounds = hm.stability_bounds(*case)
    with mpmath.workdps(80):
        for name, x in by_mpmath(*case).items():
            assert getattr(bounds, name) == nearest(x), name
            assert getattr(bounds.log10, name) == nearest(mpmath.log10(x)), name


@given(
    st.integers(2, 60),
    st.floats(0, 50, allow_subnormal=False),
    st.floats(1e-3, 50),
)
def test_bounds_are_correctly_rounded_anywhere(n, margin, temperature):
    bounds = hm.stability_bounds(n, margin, temperature)
    if margin == 0.0:
        assert bounds.hessian_sharp == bounds.hessian == float(1 / (2 * Fraction(temperature)))
        return
    with mpmath.workdps(120):
        for name, x in by_mpmath(n, margin, temperature).items():
            assert getattr(bounds, name) == nearest(x), name


def test_decimal_arithmetic_agrees_with_example_vi_2():
    """A third arithmetic, from the standard library."""
    with localcontext() as context:
        context.prec = 50
        e = Decimal(-16).exp()
        value = (1 + 511 * e).ln() / 8
        sharp = 8 * 512 * e / (1 + 511 * e) ** 2
    bounds = hm.stability_bounds(512, 2.0, 0.125)
    assert bounds.value == float(value)
    assert bounds.hessian_sharp == float(sharp)
    assert bounds.hessian_keys == 511


def test_example_vi_2_as_printed_and_as_it_is():
    """Right up to truncation, but 4.6004e-4 is no bound, and 1/8 is no head's temperature."""
    bounds = hm.stability_bounds(512, 2.0, 1 / 8)
    assert f"{bounds.value:.3e}" == "7.188e-06"
    assert f"{bounds.gradient_paper:.3e}" == "1.150e-04"
    assert bounds.hessian_paper < bounds.hessian_sharp <= bounds.hessian
    assert [f"{x:.4e}" for x in (bounds.hessian_paper, bounds.hessian_sharp, bounds.hessian)] == [
        "4.6004e-04",
        "4.6089e-04",
        "4.6094e-04",
    ]
    assert bounds.top_probability > 0.999942
    for temperature in (hm.temperature.standard_temperature(64), 1.0):
        real = hm.stability_bounds(512, 2.0, temperature)
        assert real.vacuous == QUANTITIES
    assert hm.stability_bounds(512, 128.0, 8.0).gradient == bounds.gradient  # the same ratio


def test_the_order_of_the_three_forms():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n, margin, temperature = int(rng.integers(2, 600)), rng.exponential(3), rng.exponential(1) + 1e-3
        bounds = hm.stability_bounds(n, margin, temperature)
        for name in QUANTITIES:
            sharp = getattr(bounds, f"{name}_sharp")
            assert sharp <= getattr(bounds, name) * (1 + 1e-15)
        assert bounds.hessian <= 0.5 / temperature * (1 + 1e-15)
        assert bounds.affine_error == pytest.approx(bounds.hessian / 2, rel=1e-15)


@pytest.mark.parametrize("n", [2, 3, 4, 8, 512])
def test_the_printed_hessian_bound_is_exceeded_by_n_over_n_minus_1(n):
    bounds = hm.stability_bounds(n, 30.0, 1.0)
    assert bounds.hessian_sharp / bounds.hessian_paper == pytest.approx(n / (n - 1), rel=1e-9)
    scores = np.zeros((1, n))
    scores[0, 0] = 30.0
    assert hm.check_stability(scores, 1.0).hessian_norm[0] > bounds.hessian_paper  # the scores that exceed it


def test_worst_rivals_is_the_best_k_by_trying_all():
    for margin in (0.05, 0.3, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0):
        e = math.exp(-margin)
        best = max(range(1, 200), key=lambda k, e=e: (k + 1) * e / (1 + k * e) ** 2)
        assert hm.stability_bounds(200, margin, 1.0).hessian_keys == best


def test_one_key_has_no_rival():
    for bounds in (hm.stability_bounds(1, 0.0, 1.0), hm.stability_bounds(7, math.inf, 1.0)):
        assert [getattr(bounds, name) for name in QUANTITIES] == [0.0] * 5
        assert bounds.log10.hessian_sharp == -math.inf
        assert bounds.top_probability == 1.0
        assert bounds.vacuous == ()


def test_fractions_are_taken_as_they_are():
    third = Fraction(1, 3)
    assert (
        hm.stability_bounds(5, third, third).epsilon == hm.stability_bounds(5, 1, 1).epsilon == math.exp(-1)
    )


@pytest.mark.parametrize("temperature", [0, 0.0, -1.0, math.nan, math.inf, True, "warm", None])
def test_a_temperature_must_be_positive(temperature):
    keys, net = [[1.0], [0.0]], hm.networks.sawtooth_network(1, 2, 1, 1)
    for ask in (
        lambda: hm.stability_bounds(3, 1.0, temperature),
        lambda: hm.check_stability([[1.0, 0.0]], temperature),
        lambda: hm.temperature.transition_band(keys, temperature),
        lambda: hm.temperature.margin_needed(3, temperature),
        lambda: hm.temperature.output_error_bound(keys, 1.0, temperature),
        lambda: hm.temperature.surviving_cells(net, [[0.5]], temperature),
    ):
        with pytest.raises(InvalidInputError, match="temperature must be"):
            ask()


@pytest.mark.parametrize("margin", [-1e-9, -math.inf, math.nan, "wide", False])
def test_a_margin_is_not_negative(margin):
    with pytest.raises(InvalidInputError, match="margin must be"):
        hm.stability_bounds(3, margin, 1.0)


@pytest.mark.parametrize("n_tokens", [0, -1, 2.5, True, "3"])
def test_keys_are_counted(n_tokens):
    with pytest.raises(InvalidInputError, match="n_tokens must be an integer of at least 1"):
        hm.stability_bounds(n_tokens, 1.0, 1.0)


# Scores -------------------------------------------------------------------------------------------------


def dense_norm(scores: np.ndarray, temperature: float) -> float:
    """The norm of the Hessian from the matrix itself."""
    p = np.exp((scores - scores.max()) / temperature)
    p /= p.sum()
    return float(np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1]) / temperature


@given(
    st.lists(st.one_of(st.floats(-30, 30), st.integers(-3, 3), st.just(-math.inf)), min_size=1, max_size=12),
    st.floats(0.05, 20),
)
def test_the_secular_equation_agrees_with_a_dense_eigenproblem(scores, temperature):
    row = np.array(scores, dtype=np.float64)
    if np.isneginf(row).all():
        row[0] = 0.0
    report = hm.check_stability(row, temperature)
    expected = dense_norm(row, temperature)
    assert report.hessian_norm[0] == pytest.approx(expected, rel=1e-12, abs=2e-15 / temperature)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 30.0, 300.0, 3000.0])
def test_the_norm_keeps_its_digits_at_every_size(scale):
    """Against the characteristic equation solved with 60 digits."""
    rng = np.random.default_rng(3)
    for n in (2, 3, 6, 10):
        row = np.round(scale * rng.standard_normal(n), 12)
        row[: n // 2] = row[0]  # ties among rivals, or at the top
        spectrum = leading_eigenvalue(row[None], 1.0)
        with mpmath.workdps(60 + int(2 * np.ptp(row))):
            p = [mpmath.exp(mpmath.mpf(x) - mpmath.mpf(row.max())) for x in row.tolist()]
            total = mpmath.fsum(p)
            p = sorted((x / total for x in p), reverse=True)
            norm = p[0] if p[0] == p[1] else bisected(p)
            assert spectrum.log_norm[0] == pytest.approx(float(mpmath.log(norm)), rel=1e-13, abs=1e-13)


def bisected(p: list[mpmath.mpf]) -> mpmath.mpf:
    """The root of sum p / (p - x) between the two largest entries."""
    low, high = p[1], p[0]
    for _ in range(240):
        x = mpmath.sqrt(low * high)  # they may be thousands of digits apart
        if mpmath.fsum(q / (q - x) for q in p) > 0:  # from minus to plus infinity on the way from low to high
            high = x
        else:
            low = x
    return (low + high) / 2


def test_what_is_measured_obeys_what_is_guaranteed():
    rng = np.random.default_rng(1)
    for scale in (0.1, 1.0, 5.0, 40.0):
        scores = scale * rng.standard_normal((200, 9))
        scores[rng.random(scores.shape) < 0.2] = -np.inf
        scores[:, 0] = rng.standard_normal(200)
        values = rng.standard_normal((9, 3))
        report = hm.check_stability(scores, 0.7, values=values)
        slack = 1 + 1e-13
        assert (report.value_error <= report.value_bound * slack).all()
        assert (report.total_variation <= report.total_variation_bound * slack).all()
        assert (report.hessian_norm <= report.hessian_bound * slack).all()
        assert (report.output_error <= report.output_error_bound * slack + 1e-300).all()
        for i in range(0, 200, 37):
            n, margin = int(report.n_keys[i]), float(report.margin[i])
            bounds = hm.stability_bounds(n, margin, 0.7)
            assert report.hessian_norm[i] <= bounds.hessian_sharp * slack
            assert report.hessian_bound[i] == pytest.approx(bounds.hessian, rel=1e-13)
            assert report.value_bound[i] == pytest.approx(bounds.value, rel=1e-13)
            names = [
                name for name in ("value", "gradient", "hessian") if getattr(report, f"{name}_vacuous")[i]
            ]
            assert names == [name for name in bounds.vacuous if name in ("value", "gradient", "hessian")]


def test_the_bounds_are_attained_when_all_rivals_are_at_the_margin():
    scores = np.array([[3.0, 0.0, 0.0, 0.0, 0.0]])
    report = hm.check_stability(scores, 0.8, values=[[0.0], [1.0], [1.0], [1.0], [1.0]])
    bounds = hm.stability_bounds(5, 3.0, 0.8)
    assert report.value_error[0] == pytest.approx(bounds.value, rel=1e-14)
    assert 2 * report.total_variation[0] == pytest.approx(bounds.gradient_sharp, rel=1e-14)
    assert report.hessian_norm[0] == pytest.approx(bounds.hessian_sharp, rel=1e-14)
    assert report.output_error[0] == pytest.approx(report.output_error_bound[0], rel=1e-14)


def test_measured_output_errors_against_the_head_itself():
    rng = np.random.default_rng(2)
    keys, values, queries = (rng.standard_normal((6, 3)) for _ in range(3))
    report = hm.check_stability(queries @ keys.T, 0.3, values=values)
    head = hm.Network([hm.Attention([keys], None, [values], skip=False)])
    error = np.linalg.norm(head(queries, 0.3) - values[report.routing], axis=1)
    assert report.output_error == pytest.approx(error, rel=1e-9, abs=1e-14)


def test_the_supremum_over_a_cell_never_shrinks():
    head = hm.Network([hm.Attention([[[1.0], [-1.0]]], None, [[[1.0], [-1.0]]], skip=False)])
    queries = np.geomspace(1e-9, 10, 200)[:, None]
    sups = [np.abs(head(t * queries, t) - 1).max() for t in (1.0, 0.1, 1e-3, 1e-6)]
    assert sups == pytest.approx([1.0] * 4, abs=1e-8)
    assert hm.temperature.output_error_bound([[1.0], [-1.0]], 0.0, 1e-6) == pytest.approx([1.0, 1.0])


def test_many_small_and_masked_scores():
    rng = np.random.default_rng(0)
    million = rng.standard_normal(1_000_000).astype(np.float32)
    one = hm.check_stability(million, 0.01)
    assert one.margin.shape == (1,)
    assert one.n_keys[0] == 1_000_000
    top = np.sort(million.astype(np.float64))[-2:]
    assert one.margin[0] == top[1] - top[0]
    tall = hm.check_stability(million.reshape(1000, 10, 100), 1.0)
    assert tall.margin.shape == tall.hard.shape == (1000, 10)
    p = np.exp(million.astype(np.float64).reshape(-1, 100))
    assert tall.top_probability.ravel() == pytest.approx(p.max(axis=1) / p.sum(axis=1), rel=1e-12)
    masked = np.where(np.arange(100) < 60, million.reshape(-1, 100), -np.inf)
    cut = hm.check_stability(masked, 1.0)
    assert (cut.n_keys == 60).all()
    kept = hm.check_stability(masked[:, :60], 1.0)
    assert cut.hessian_norm == pytest.approx(kept.hessian_norm, rel=1e-13)
    assert (cut.routing == kept.routing).all()


def test_one_key_and_a_tie():
    alone = hm.check_stability([[5.0], [-3.0]], 2.0)
    assert alone.margin.tolist() == [math.inf, math.inf]
    assert alone.hessian_norm.tolist() == alone.total_variation.tolist() == [0.0, 0.0]
    assert alone.share_hard == 1.0
    assert alone.margin_needed == 0.0
    tie = hm.check_stability([[1.0, 1.0, -math.inf]], 2.0)
    assert (tie.margin[0], tie.routing[0], tie.total_variation[0]) == (0.0, 0, 0.5)
    assert tie.hessian_norm[0] == 0.25


def test_logarithms_of_what_no_float_holds():
    report = hm.check_stability([[5000.0, 0.0, 0.0]], 1.0)
    assert report.hessian_norm[0] == report.total_variation[0] == 0.0
    bounds = hm.stability_bounds(3, 5000.0, 1.0)
    assert report.log10_hessian_norm[0] == pytest.approx(bounds.log10.hessian_sharp, rel=1e-14)
    assert report.log10_total_variation[0] == pytest.approx(math.log10(2) - 5000 / math.log(10), rel=1e-14)


@pytest.mark.parametrize(
    ("scores", "error", "words"),
    [
        ([[1.0, math.nan]], NotFiniteError, "query 0 has nan at key 1"),
        ([[1.0, 2.0], [math.inf, 0.0]], NotFiniteError, "query 1 has inf at key 0"),
        ([[0.0, 1.0], [-math.inf, -math.inf]], InvalidInputError, "all keys of query 1 are masked"),
        ([], InvalidInputError, "at least one query"),
        (3.0, InvalidInputError, "at least one query"),
        ([[1.0, 2.0], [3.0]], DimensionMismatchError, "equally many keys"),
        ([["a", "b"]], InvalidInputError, "real numbers"),
        ([[1j, 0]], InvalidInputError, "real numbers"),
    ],
)
def test_scores_that_make_no_sense(scores, error, words):
    with pytest.raises(error, match=words):
        hm.check_stability(scores, 1.0)


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -0.1, math.nan])
def test_a_tolerance_lies_between_0_and_1(tolerance):
    with pytest.raises(InvalidInputError, match="tolerance must lie between 0 and 1"):
        hm.check_stability([[1.0, 0.0]], 1.0, tolerance=tolerance)


def test_values_fit_the_keys():
    with pytest.raises(DimensionMismatchError, match="one row per key"):
        hm.check_stability([[1.0, 0.0]], 1.0, values=[[1.0]])


# Bands --------------------------------------------------------------------------------------------------


@given(st.integers(2, 40), st.floats(0.01, 10), st.floats(1e-4, 0.4))
def test_the_margin_needed_is_the_least(n, temperature, tolerance):
    needed = hm.temperature.margin_needed(n, temperature, tolerance=tolerance)
    scores = np.zeros((2, n))
    scores[:, 0] = needed * (1 + 1e-9), needed * (1 - 1e-9)
    report = hm.check_stability(scores, temperature, tolerance=tolerance)
    assert report.hard.tolist() == [True, False]


def test_soft_queries_lie_in_the_bands():
    rng = np.random.default_rng(5)
    keys = rng.standard_normal((5, 2))
    band = hm.temperature.transition_band(keys, 0.2, tolerance=0.05)
    queries = rng.uniform(-4, 4, (4000, 2))
    scores = queries @ keys.T
    report = hm.check_stability(scores, 0.2, tolerance=0.05)
    winners = report.routing
    gaps = scores.max(axis=1)[:, None] - scores
    with np.errstate(invalid="ignore"):
        distance = gaps / band.distance[winners]  # from the wall with each other key
    near = distance < band.width[winners] / 2
    near[np.arange(len(keys))[None] == winners[:, None]] = False
    assert (near.any(axis=1) | report.hard).all()
    assert (~report.hard).any()
    alone = distance < band.width_alone[winners] / 2
    alone[np.arange(len(keys))[None] == winners[:, None]] = False
    assert not (alone.any(axis=1) & report.hard).any()


def test_bands_of_one_key_and_of_equal_keys():
    assert hm.temperature.transition_band([[1.0, 2.0]], 1.0).width.tolist() == [[math.inf]]
    assert hm.temperature.transition_band([[1.0], [1.0]], 1.0).width[0, 1] == math.inf
    assert 2 * hm.temperature.margin_needed(512, 1.0) == pytest.approx(21.66, abs=0.01)


# Depth --------------------------------------------------------------------------------------------------


def test_one_head_routes_the_same_at_every_temperature():
    net = hm.Network.random(2, n_tokens=6, heads=3, depth=1, d_ff=0, rng=0)
    points = np.random.default_rng(0).uniform(-3, 3, (500, 2))
    for temperature in (1e-3, 1.0, 100.0):
        survival = hm.temperature.surviving_cells(net, points, temperature)
        assert survival.share_kept == 1.0
        assert survival.n_surviving == survival.n_soft == survival.n_cells


def test_the_sawtooth_dissolves():
    """Mismatch 100%, 96%, 23%, 1.9%, 0.2% at uniform points: the claims' numbers."""
    net = hm.networks.sawtooth_network(d=1, n_tokens=4, teeth=1, depth=3)
    points = np.random.default_rng(0).uniform(0, 1, (20_000, 1))
    lost = [
        1 - hm.temperature.surviving_cells(net, points, t).share_kept for t in (1 / 8, 1e-2, 1e-3, 1e-4, 1e-5)
    ]
    assert lost == pytest.approx([1.0, 0.96, 0.23, 0.019, 0.002], abs=0.006)
    survival = hm.temperature.surviving_cells(net, points, 1 / 8)
    assert (survival.n_cells, survival.n_surviving, survival.n_soft) == (512, 0, 29)


def test_soft_signatures_against_a_forward_pass_in_numpy():
    net = hm.networks.sawtooth_network(d=1, n_tokens=4, teeth=1, depth=3)
    points = np.random.default_rng(1).uniform(0, 1, (300, 1))
    soft = net.signature(points, 0.02)
    y, head, unit = points, 0, 0
    for block in net.blocks:
        if isinstance(block, hm.Attention):
            scores = y @ block.scores.floats[0].T + block.biases.floats[0]
            assert (soft.routings[:, head] == scores.argmax(axis=1)).all()
            p = np.exp((scores - scores.max(axis=1, keepdims=True)) / 0.02)
            y = y + p @ block.outputs.floats[0] / p.sum(axis=1, keepdims=True)
            head += 1
        else:
            z = y @ block.w_in.floats.T + block.b_in.floats
            assert (soft.relu[:, unit : unit + block.width] == (z > 0)).all()
            y = np.maximum(z, 0) @ block.w_out.floats.T + block.b_out.floats
            unit += block.width
    assert net(points, 0.02) == pytest.approx(y, rel=1e-12, abs=1e-12)


def test_first_change_and_shares_fit_together():
    net = hm.Network.random(2, n_tokens=5, heads=2, depth=3, d_ff=8, rng=1)
    survival = hm.temperature.surviving_cells(net, np.random.default_rng(0).uniform(-4, 4, (400, 2)), 0.5)
    assert survival.kept.tolist() == (survival.first_change < 0).tolist()
    shares = survival.share_kept_by_block
    assert (np.diff(shares) <= 0).all()
    assert shares[-1] == survival.share_kept
    assert 0 < survival.share_kept < 1
    assert (survival.output_error >= 0).all()


def test_survival_needs_a_network_and_points():
    net = hm.networks.sawtooth_network(1, 2, 1, 1)
    with pytest.raises(InvalidInputError, match="network must be a Network"):
        hm.temperature.surviving_cells(3, [[0.5]], 1.0)
    with pytest.raises(InvalidInputError, match="at least one point"):
        hm.temperature.surviving_cells(net, np.empty((0, 1)), 1.0)


# Files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["bounds", "report", "band", "survival"])
def test_results_survive_a_file(which, tmp_path):
    net = hm.networks.sawtooth_network(1, 2, 1, 2)
    result = {
        "bounds": lambda: hm.stability_bounds(512, 1e3, 1e-6),
        "report": lambda: hm.check_stability([[1.0, 0.0, -math.inf], [4.0, 0.0, 1.0]], 1.0, values=np.eye(3)),
        "band": lambda: hm.temperature.transition_band([[1.0], [0.0]], 1.0),
        "survival": lambda: hm.temperature.surviving_cells(net, [[0.2], [0.7]], 0.1),
    }[which]()
    again = hm.load(result.save(tmp_path / "result.npz"))
    assert repr(again) == repr(result)
    assert again.to_dict() == result.to_dict()
    assert len(result.to_frame()) > 0
