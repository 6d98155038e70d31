r"""What a margin guarantees at a temperature (P1 Theorem VI.1), corrected and sharp.

The bounds are on :math:`P_\tau(s) = \tau \log \sum_j e^{s_j/\tau}`, its gradient and its Hessian; see
:func:`stability_bounds`. The gradient is Lipschitz with the Hessian's constant, and the error of the tangent
plane is half of it times the squared distance. P1 prints :math:`m\varepsilon/\tau` for the Hessian, which is
false for every :math:`N \ge 2` once :math:`\varepsilon` is small. Proofs, of the least upper bounds too, are
in ``docs/temperature.md``.

Every number is the double nearest to the real one, whatever its size. A quantity is a function that computes
an enclosing ball at the current working precision (Arb), and the precision is doubled until both ends of the
ball round to the same double. That ends: for a rational :math:`\delta/\tau` other than 0 all quantities are
transcendental (Lindemann and Weierstrass), so never halfway between two doubles; at 0 they are rational,
except the value :math:`\tau\log N`, and kept as fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

import flint

from hardmax.bounds.large_integers import dimension, positive
from hardmax.errors import CertificateError, written
from hardmax.limits import look
from hardmax.results import Result
from hardmax.temperature.arguments import checked_margin, positive_temperature

_FIRST_BITS = 96
_LAST_BITS = 1 << 14
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Real:
    """A positive number: a fraction where it is rational, else balls around it and around its logarithm.

    The logarithm has a ball of its own because the number may lie beyond every float, and beyond Arb too.

    >>> third = rational(Fraction(1, 3))
    >>> float(third), third.log10
    (0.3333333333333333, -0.47712125471966244)
    """

    fraction: Fraction | None
    enclosure: Callable[[], flint.arb]
    log: Callable[[], flint.arb]

    def __float__(self) -> float:
        return rounded(self.enclosure) if self.fraction is None else rounded_fraction(self.fraction)

    @property
    def log10(self) -> float:
        """The decimal logarithm, correctly rounded."""
        if self.fraction == 1:
            return 0.0
        return rounded(lambda: self.log() / flint.arb.const_log10())


def rational(value: Fraction) -> Real:
    """A positive rational number."""
    return Real(value, lambda: ball(value), lambda: ball(value).log())


def rounded(quantity: Callable[[], flint.arb]) -> float:
    """The double nearest to a quantity that is not itself halfway between two doubles.

    >>> rounded(lambda: flint.arb(-16).exp())
    1.1253517471925912e-07
    >>> rounded(lambda: flint.arb(-(10**9)).exp())          # below the smallest double
    0.0
    """

    def double(enclosure: flint.arb) -> float | None:
        if not enclosure.is_finite():
            return None
        low, high = _nearest(enclosure.lower()), _nearest(enclosure.upper())
        return low if low == high else None

    return _decided(quantity, double)


def is_positive(quantity: Callable[[], flint.arb]) -> bool:
    """Whether a quantity that is not zero is above zero, decided rigorously.

    >>> is_positive(lambda: flint.arb(2).log() - ball(Fraction(7, 10)))
    False
    """
    return _decided(quantity, lambda enclosure: True if enclosure > 0 else False if enclosure < 0 else None)


def _decided(quantity: Callable[[], flint.arb], decide: Callable[[flint.arb], _Answer | None]) -> _Answer:
    """What is decided of a ball that is small enough: the working precision is doubled until it is."""
    bits = _FIRST_BITS
    while bits <= _LAST_BITS:
        with flint.ctx.workprec(bits):
            answer = decide(quantity())
        if answer is not None:
            return answer
        bits *= 2
    raise CertificateError(f"a number could not be decided with {_LAST_BITS} bits; please report this.")


def ball(value: int | Fraction) -> flint.arb:
    """The ball of a rational number at the current working precision."""
    number = Fraction(value)
    return flint.arb(flint.fmpq(number.numerator, number.denominator))


def _nearest(point: flint.arb) -> float:
    """The double nearest to the exact midpoint of a ball."""
    mantissa, exponent = (int(part) for part in point.mid().man_exp())
    size = mantissa.bit_length() + exponent  # 2**(size - 1) <= |point| < 2**size
    if mantissa == 0 or size < -1075:  # below half of the smallest double
        return 0.0
    if size > 1024:
        return math.inf if mantissa > 0 else -math.inf
    return rounded_fraction(Fraction(mantissa) * Fraction(2) ** exponent)


def rounded_fraction(value: Fraction) -> float:
    """The double nearest to a rational number; infinity beyond the largest.

    >>> rounded_fraction(Fraction(1, 3)), rounded_fraction(Fraction(10) ** 400)
    (0.3333333333333333, inf)
    """
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


QUANTITIES = ("value", "gradient", "hessian", "lipschitz", "affine_error")
FORMS = ("", "_sharp", "_paper")
NAMES = tuple(f"{quantity}{form}" for quantity in QUANTITIES for form in FORMS)


def closed_forms(n: int, ratio: Fraction, tau: Fraction) -> dict[str, Real]:
    """The fifteen bounds for at least two keys: five quantities, each as a true bound, sharp, and as printed.

    >>> forms = closed_forms(2, Fraction(0), Fraction(1))
    >>> forms["hessian_sharp"].fraction, forms["hessian_paper"].fraction
    (Fraction(1, 2), Fraction(1, 1))
    """
    m, k = n - 1, worst_rivals(n - 1, ratio)
    forms = {f"value{form}": _value(m, ratio, tau) for form in FORMS}
    forms["gradient"] = _capped(ratio, 2 * m, Fraction(2), Fraction(1))
    forms["gradient_sharp"] = of_epsilon(ratio, lambda e: 2 * m / (1 + m * e))
    forms["gradient_paper"] = of_epsilon(ratio, lambda e: 2 * m + 0 * e)
    for quantity, share in (("hessian", 1), ("lipschitz", 1), ("affine_error", 2)):
        scale = 1 / (share * tau)
        forms[quantity] = _capped(ratio, n, Fraction(1, 2), scale)
        forms[f"{quantity}_sharp"] = of_epsilon(ratio, lambda e: (k + 1) / (1 + k * e) ** 2, scale)
        forms[f"{quantity}_paper"] = of_epsilon(ratio, lambda e: m + 0 * e, scale)
    return forms


def of_epsilon(
    ratio: Fraction, slope: Callable[[Any], Any], scale: Fraction = Fraction(1), *, order: int = 1
) -> Real:
    r"""The number :math:`c\,\varepsilon^{k} g(\varepsilon)`, k = 0 or 1 being the order and g not near zero.

    >>> of_epsilon(Fraction(0), lambda e: 1 / (1 + e)).fraction
    Fraction(1, 2)
    """
    if ratio == 0:
        return rational(Fraction(slope(Fraction(1))) * scale)
    return Real(
        None,
        lambda: ball(scale) * slope(_epsilon(ratio)) * (_epsilon(ratio) if order else 1),
        lambda: ball(scale).log() + slope(_epsilon(ratio)).log() - order * ball(ratio),
    )


def _value(m: int, ratio: Fraction, tau: Fraction) -> Real:
    r"""The number :math:`\tau\log(1 + m\varepsilon)`."""

    def log() -> flint.arb:
        x = m * _epsilon(ratio)
        if x < ball(Fraction(1, 2 ** (4 * flint.ctx.prec))):  # log(1 + x) is near x, which may underflow
            share = (1 - x.upper()).union(flint.arb(1))
            return ball(tau).log() + ball(m).log() - ball(ratio) + share.log()
        return ball(tau).log() + x.log1p().log()

    return Real(None, lambda: ball(tau) * (m * _epsilon(ratio)).log1p(), log)


def _capped(ratio: Fraction, slope: int, cap: Fraction, scale: Fraction) -> Real:
    r"""The number :math:`c \min(a\varepsilon, b)`."""
    if at_least(ratio, cap / slope):
        return rational(cap * scale)
    return of_epsilon(ratio, lambda e: slope + 0 * e, scale)


def _epsilon(ratio: Fraction) -> flint.arb:
    return (-ball(ratio)).exp()


def at_least(ratio: Fraction, level: Fraction) -> bool:
    r"""Whether :math:`\varepsilon \ge` a positive level; they are equal only when both are 1.

    >>> at_least(Fraction(1), Fraction(1, 3)), at_least(Fraction(2), Fraction(1, 3))
    (True, False)
    """
    if ratio == 0:
        return level <= 1
    return level < 1 and is_positive(lambda: -ball(ratio) - ball(level).log())


def worst_rivals(m: int, ratio: Fraction) -> int:
    r"""The k from 1 to m at which :math:`(k+1)\varepsilon/(1+k\varepsilon)^2` is largest.

    The term of k + 1 beats that of k exactly if :math:`(k^2+3k+1)\varepsilon^2 + 2\varepsilon < 1`. So the
    terms rise and then fall, and halving finds where.

    >>> worst_rivals(511, Fraction(16)), worst_rivals(511, Fraction(1, 4)), worst_rivals(511, Fraction(2))
    (511, 1, 5)
    """

    def rises(k: int) -> bool:
        return is_positive(lambda: 1 - 2 * _epsilon(ratio) - (k * k + 3 * k + 1) * _epsilon(ratio) ** 2)

    low, high = 1, m if ratio else 1  # at ratio 0 the terms are 1 / (k + 1)
    while low < high:
        middle = (low + high) // 2
        if rises(middle):
            low = middle + 1
        else:
            high = middle
    return low


def vacuous(n: int, ratio: Fraction) -> tuple[str, ...]:
    """Which of the true bounds say no more than holds without them (see :class:`StabilityBounds`).

    >>> vacuous(512, Fraction(1, 4)), vacuous(512, Fraction(16))
    (('value', 'gradient', 'hessian', 'lipschitz', 'affine_error'), ())
    """

    def excess() -> flint.arb:  # log(1 + m e) >= r means 1 + m e >= 1 / e
        e = _epsilon(ratio)
        return (n - 1) * e * e + e - 1

    empty = ["value"] if ratio == 0 or is_positive(excess) else []
    if at_least(ratio, Fraction(1, n - 1)):
        empty.append("gradient")
    if at_least(ratio, Fraction(1, 2 * n)):
        empty += ["hessian", "lipschitz", "affine_error"]
    return tuple(empty)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Forms:
    """Five quantities in three forms each: a true bound, the least upper bound, and what P1 prints."""

    value: float
    value_sharp: float
    value_paper: float
    gradient: float
    gradient_sharp: float
    gradient_paper: float
    hessian: float
    hessian_sharp: float
    hessian_paper: float
    lipschitz: float
    lipschitz_sharp: float
    lipschitz_paper: float
    affine_error: float
    affine_error_sharp: float
    affine_error_paper: float


@dataclass(frozen=True, kw_only=True)
class Magnitudes(_Forms):
    """The decimal logarithms of five quantities in three forms each."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StabilityBounds(_Forms, Result):
    r"""How far a log-sum-exp is from a maximum, given the lead of the largest score.

    Every quantity has three forms: ``hessian`` is a true bound in its shortest form, ``hessian_sharp`` the
    least upper bound, ``hessian_paper`` what P1 Theorem VI.1 prints. ``log10`` holds the decimal logarithms
    of all of them, for what lies beyond the range of floats. All numbers are correctly rounded.

    Attributes
    ----------
    n_tokens : int
    margin, temperature : float
        :math:`\delta` and :math:`\tau`.
    epsilon : float
        :math:`e^{-\delta/\tau}`.
    value, value_sharp, value_paper : float
        Of :math:`P_\tau(s) - \max_j s_j`.
    gradient, gradient_sharp, gradient_paper : float
        Of :math:`\lVert \mathrm{softmax}(s/\tau) - e_i \rVert_1`, twice the total variation distance.
    hessian, hessian_sharp, hessian_paper : float
        Of the spectral norm of :math:`\nabla^2 P_\tau`.
    lipschitz, lipschitz_sharp, lipschitz_paper : float
        Of :math:`\lVert\nabla P_\tau(s) - \nabla P_\tau(s')\rVert_2 / \lVert s - s'\rVert_2`.
    affine_error, affine_error_sharp, affine_error_paper : float
        Of the error of the tangent plane over :math:`\lVert s - s'\rVert_2^2`.
    top_probability : float
        What the largest probability is at least: :math:`1 / (1 + m\varepsilon)`.
    hessian_keys : int
        How many rivals at exactly the margin (the others far below) make the Hessian largest.
    log10 : Magnitudes
        The same fifteen names.
    vacuous : tuple of str
        The quantities whose true bound says nothing; see Notes.

    Notes
    -----
    A bound is called vacuous when it says no more than holds without it: for the value, when it is not below
    the margin itself (rivals are no farther away than the error); for the gradient, when it is not below 2,
    which no two probability vectors exceed; for the other three, when it is not below :math:`1/(2\tau)`, the
    norm of the Hessian at the worst score vector of all.

    Examples
    --------
    >>> bounds = stability_bounds(3, 2.0, 0.5)
    >>> round(bounds.hessian_sharp / bounds.hessian_paper, 3), bounds.hessian_keys, bounds.vacuous
    (1.396, 2, ())
    >>> bounds.to_frame()["quantity"].tolist()
    ['value', 'gradient', 'hessian', 'lipschitz', 'affine_error']
    """

    kind: ClassVar[str] = "StabilityBounds"
    _nested: ClassVar[dict[str, type]] = {"log10": Magnitudes}

    n_tokens: int
    margin: float
    temperature: float
    epsilon: float
    top_probability: float
    hessian_keys: int
    log10: Magnitudes
    vacuous: tuple[str, ...]

    def _state(self) -> dict[str, Any]:
        state = super()._state()
        asked = ("n_tokens", "margin", "temperature", "epsilon")  # stands first
        return {name: state[name] for name in (*asked, *state)}

    def _summary(self) -> str:
        keys = "key" if self.n_tokens == 1 else "keys"
        of = f"{written(self.n_tokens)} {keys}, margin {self.margin:g}, temperature {self.temperature:g}"
        if len(self.vacuous) == len(QUANTITIES):
            return f"{of}: every bound is vacuous"
        return f"{of}: top probability at least {self.top_probability:.6g}"

    def _table(self) -> dict[str, Any]:
        return {
            "quantity": list(QUANTITIES),
            "bound": [getattr(self, name) for name in QUANTITIES],
            "sharp": [getattr(self, f"{name}_sharp") for name in QUANTITIES],
            "paper": [getattr(self, f"{name}_paper") for name in QUANTITIES],
            "log10": [getattr(self.log10, name) for name in QUANTITIES],
            "vacuous": [name in self.vacuous for name in QUANTITIES],
        }


def stability_bounds(n_tokens: int, margin: float, temperature: float) -> StabilityBounds:
    r"""Bounds on value, gradient and Hessian of :math:`P_\tau` where one score leads by a margin.

    .. math::

        0 \le P_\tau - \max s \le \tau\log(1 + m\varepsilon), \qquad \lVert\nabla P_\tau - e_i\rVert_1 \le
        \tfrac{2m\varepsilon}{1+m\varepsilon} \le \min(2m\varepsilon, 2), \\
        \lVert\nabla^2 P_\tau\rVert \le \tfrac1\tau \max_{1\le k\le m}
        \tfrac{(k+1)\varepsilon}{(1+k\varepsilon)^2} \le \tfrac1\tau \min(N\varepsilon, \tfrac12)

    with :math:`m = N - 1` and :math:`\varepsilon = e^{-\delta/\tau}`; the first bound on each is the least.

    Parameters
    ----------
    n_tokens : int
        N, the number of keys; of one key every quantity is zero.
    margin : float or Fraction
        :math:`\delta \ge 0`; infinity stands for no rival at all.
    temperature : float or Fraction
        :math:`\tau > 0`, which divides the scores: :math:`\sqrt{d_{head}}` for the raw scores of a standard
        transformer (:func:`standard_temperature`), 1 for scores that are scaled already.

    Raises
    ------
    InvalidInputError
        If a margin is negative, a temperature is not positive, or N is not a positive integer.

    Examples
    --------
    P1 Example VI.2 takes 1/8 for the temperature of a head with 64 dimensions. What it prints as a bound on
    the Hessian is below what is attained.

    >>> bounds = stability_bounds(512, 2.0, 0.125)
    >>> f"{bounds.hessian_paper:.5g} < {bounds.hessian_sharp:.5g} <= {bounds.hessian:.5g}"
    '0.00046004 < 0.00046089 <= 0.00046094'

    With the temperature that such a head has, nothing is left of it.

    >>> stability_bounds(512, 2.0, standard_temperature(64))
    <StabilityBounds: 512 keys, margin 2, temperature 8: every bound is vacuous>

    What no float can hold is zero, and its logarithm says how small it is.

    >>> cold = stability_bounds(512, 1e3, 1e-6)
    >>> cold.hessian, cold.log10.hessian
    (0.0, -434294473.1939...)
    """
    n = positive("n_tokens", n_tokens)
    tau = positive_temperature(temperature)
    delta = checked_margin(margin)
    found: dict[str, Any] = {"n_tokens": n, "temperature": rounded_fraction(tau)}
    if delta is None:
        found |= {"margin": math.inf, "epsilon": 0.0}
    else:
        epsilon = of_epsilon(delta / tau, lambda e: 1 + 0 * e)
        found |= {"margin": rounded_fraction(delta), "epsilon": float(epsilon)}
    if delta is None or n == 1:  # no rival within reach
        found |= {**dict.fromkeys(NAMES, 0.0), "top_probability": 1.0, "hessian_keys": 0, "vacuous": ()}
        return StabilityBounds(**found, log10=Magnitudes(**dict.fromkeys(NAMES, -math.inf)))
    look()
    ratio = delta / tau
    forms = closed_forms(n, ratio, tau)
    found |= {name: float(form) for name, form in forms.items()}
    return StabilityBounds(
        **found,
        top_probability=float(of_epsilon(ratio, lambda e: 1 / (1 + (n - 1) * e), order=0)),
        hessian_keys=worst_rivals(n - 1, ratio),
        log10=Magnitudes(**{name: form.log10 for name, form in forms.items()}),
        vacuous=vacuous(n, ratio),
    )


def standard_temperature(d_head: int) -> float:
    r"""The temperature :math:`\sqrt{d_{head}}` of a standard transformer's softmax on raw scores.

    :math:`\mathrm{softmax}(q \cdot k / \sqrt{d_{head}})` is :math:`\mathrm{softmax}(s / \tau)` with
    :math:`s = q \cdot k` and :math:`\tau = \sqrt{d_{head}}`. P1 calls :math:`1/\sqrt{d_{head}}` the
    temperature, which is P2's :math:`\beta = 1/\tau`.

    Examples
    --------
    >>> standard_temperature(64)
    8.0
    """
    return math.sqrt(dimension("d_head", d_head))
