r"""Theorem 3 of P2, part 1: two-layer networks that store m numbers in n < m coordinates.

:func:`binary_code` is the paper's: every number is cut to L bits and the :math:`mL` bits are dealt out to
the n latent coordinates. The decoder has to tell :math:`2^q` values of a coordinate apart, :math:`q =
\lceil mL/n \rceil`, hence :math:`O(\varepsilon^{-m/n})` units. :func:`analog_code` quantises all but one of
the r = m/n numbers of a coordinate and leaves the last as it is,

.. math:: u = \frac{1}{R^{r-1}} \Bigl(\sum_{i<r} \lfloor R V_i \rfloor R^{r-1-i} + V_r\Bigr),

so the decoder has only :math:`R^{r-1}` jumps: :math:`O(\varepsilon^{-\max(1,\, m/n - 1)})` units, which for
:math:`m \ge 2n` is the exponent of the cost law. Both have steps; Lemma 1 replaces them by tanh units,
whose weights grow like the number of values that have to be told apart: a Heaviside unit is a tanh unit up to
any error in :math:`L_p(\mu)`, :math:`\mu` finite,

.. math:: \lVert 1_{\{x \ge 0\}} - \tfrac12(1 + \tanh(Bx + C)) \rVert_{L_p(\mu)} < \delta .

The shift C takes care of an atom at zero, where the step is 1; B is large enough for everything that does
not lie next to zero. It holds for every :math:`1 \le p < \infty` (the paper asks for p > 1) and on any
interval. In the maximum norm it is false: a continuous function stays at least 1/2 away from a step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from hardmax.errors import InvalidInputError
from hardmax.flow.theorems.softmax_transformers import Floats, TwoLayer, positive_number
from hardmax.networks.random_networks import check_size
from hardmax.randomness import generator_of

_MOST_UNITS = 4_000_000


@dataclass(frozen=True, eq=False)
class Code:
    """An encoder [0, 1]^m -> R^n and a decoder R^n -> R^m.

    Attributes
    ----------
    encoder, decoder : TwoLayer
    epsilon : float
        The error in L_2 that it was made for.
    bits : int
        Bits per number of the binary code, 0 for the analog one.
    cells : int
        Values per number that are told apart.
    steepness : (float, float) or None
        Of the tanh units in encoder and decoder; ``None`` for steps.

    Examples
    --------
    >>> code = binary_code(2, 1, 0.5)
    >>> code
    Code(m=2, n=1, epsilon=0.5, heaviside, 77 units, 311 parameters)
    >>> code([[0.3, 0.9]])
    array([[0.25 , 0.875]])
    """

    encoder: TwoLayer
    decoder: TwoLayer
    epsilon: float
    bits: int
    cells: int
    steepness: tuple[float, float] | None

    @property
    def m(self) -> int:
        """How many numbers are stored."""
        return self.encoder.d_in

    @property
    def n(self) -> int:
        """In how many latent coordinates."""
        return self.encoder.d_out

    @property
    def n_units(self) -> int:
        """Hidden units of both blocks."""
        return self.encoder.width + self.decoder.width

    @property
    def n_parameters(self) -> int:
        """Entries of all arrays of both blocks."""
        return self.encoder.n_parameters + self.decoder.n_parameters

    @property
    def largest_weight(self) -> float:
        """The largest absolute value of a weight."""
        return max(self.encoder.largest_weight, self.decoder.largest_weight)

    def __repr__(self) -> str:
        return (
            f"Code(m={self.m}, n={self.n}, epsilon={self.epsilon:g}, {self.encoder.activation}, "
            f"{self.n_units} units, {self.n_parameters} parameters)"
        )

    def __call__(self, v: ArrayLike) -> Floats:
        """What is read back: (..., m) -> (..., m)."""
        return self.decoder(self.encoder(v))

    def mean_error(self, *, p: float = 2.0, n_samples: int = 4000, rng: int = 0) -> float:
        r"""The error :math:`(E \lVert V - \hat V \rVert_p^p)^{1/p}`, V uniform, estimated from samples."""
        v = generator_of(rng).random((n_samples, self.m))
        return float((np.abs(self(v) - v) ** p).sum(axis=1).mean() ** (1.0 / p))

    def sup_error(self, v: ArrayLike) -> float:
        """The largest error of a number at given points."""
        return float(np.abs(self(v) - np.asarray(v)).max())

    def to_torch(self) -> Any:
        """Encoder and decoder as a torch ``Sequential`` (needs the extra ``training``)."""
        blocks = self.encoder.to_torch(), self.decoder.to_torch()  # says what to install if torch is missing
        import torch

        return torch.nn.Sequential(*blocks)


Units = Literal["heaviside", "tanh"]


def binary_code(
    m: int,
    n: int,
    epsilon: float,
    *,
    units: Units = "heaviside",
    steepness: tuple[float, float] | None = None,
) -> Code:
    r"""The code of the paper: L bits of each of m numbers, dealt out to n latent coordinates.

    Parameters
    ----------
    m, n : int
        Numbers and latent coordinates, n < m.
    epsilon : float
        :math:`L = \lceil \log_2(2m/\varepsilon) \rceil`.
    units : {"heaviside", "tanh"}
        With steps the code is exactly the L-bit truncation.
    steepness : (float, float), optional
        Of the tanh units of encoder and decoder; by default such that the error in :math:`L_2` is provably
        at most epsilon.

    Notes
    -----
    The thresholds of the decoder lie halfway between the values of the latent coordinate. The dyadic ones of
    the paper coincide with those values, where a tanh unit is neither on nor off.

    Examples
    --------
    >>> binary_code(4, 3, 0.0625).n_units
    3577
    >>> code = binary_code(2, 1, 0.25, units="tanh")
    >>> code.mean_error() < 0.25
    True
    """
    epsilon = _checked(m, n, epsilon, units)
    bits = max(1, math.ceil(math.log2(2 * m / epsilon) - 1e-12))
    q = -(-m * bits // n)
    n_cells = 2**bits
    _check_units(epsilon, m * n_cells, n * 2**q)
    levels = np.arange(n_cells)
    # the place of each bit, latent coordinate and power of two: first bits first, so that a latent
    # coordinate that is a little wrong costs the bits that matter least
    owner = {(k % m, k // m): (k % n, k // n + 1) for k in range(m * bits)}
    encoder_out = np.zeros((n, m * (n_cells - 1)))
    for j in range(m):
        for bit in range(bits):
            latent, place = owner[j, bit]
            share = ((levels >> (bits - 1 - bit)) & 1) * 2.0**-place
            encoder_out[latent, j * (n_cells - 1) : (j + 1) * (n_cells - 1)] += np.diff(share)
    thresholds = np.arange(1, n_cells) / n_cells
    encoder = _steps_and_lines(np.eye(m), thresholds, np.zeros((0, m)), encoder_out, np.zeros(n))
    codes = np.arange(2**q)
    decoder_out = np.zeros((m, n * (2**q - 1)))
    for j in range(m):
        for bit in range(bits):
            latent, place = owner[j, bit]
            share = ((codes >> (q - place)) & 1) * 2.0 ** -(bit + 1)
            decoder_out[j, latent * (2**q - 1) : (latent + 1) * (2**q - 1)] += np.diff(share)
    middles = (np.arange(1, 2**q) - 0.5) / 2**q
    decoder = _steps_and_lines(np.eye(n), middles, np.zeros((0, n)), decoder_out, np.zeros(m))
    if units == "heaviside":
        return Code(encoder, decoder, epsilon, bits, n_cells, None)
    steepness = steepness or _binary_steepness(encoder, decoder, epsilon, n_cells, q)
    first, second = (positive_number(each, "steepness") for each in steepness)
    return Code(
        _smoothed(encoder, first), _smoothed(decoder, second), epsilon, bits, n_cells, (first, second)
    )


def analog_code(
    m: int,
    n: int,
    epsilon: float,
    *,
    units: Units = "heaviside",
    steepness: tuple[float, float] | None = None,
) -> Code:
    r"""The cheaper code: per latent coordinate one number is stored as it is, the others in R cells.

    Parameters
    ----------
    m, n : int
        n divides m, and n < m.
    epsilon : float
        :math:`R = \lceil \sqrt{(m-n)/6}/\varepsilon \rceil`, which leaves half of the squared error for the
        tanh units.
    units, steepness
        As in :func:`binary_code`; beside its steps each block has n linear units.

    Returns
    -------
    Code
        :math:`n((r-1)(R-1) + R^{r-1} + 1)` units, r = m/n.

    Examples
    --------
    >>> code = analog_code(2, 1, 0.03125)
    >>> code
    Code(m=2, n=1, epsilon=0.03125, heaviside, 28 units, 115 parameters)
    >>> bool(code.mean_error() <= 0.03125), bool(analog_code(2, 1, 0.1, units="tanh").mean_error() <= 0.1)
    (True, True)
    """
    epsilon = _checked(m, n, epsilon, units)
    if m % n:
        raise InvalidInputError(f"m must be a multiple of n, but {m} is not one of {n}; try binary_code.")
    r = m // n
    cells = max(2, math.ceil(math.sqrt((m - n) / 6.0) / epsilon - 1e-12))
    values = cells ** (r - 1)
    _check_units(epsilon, n * (r - 1) * cells, n * values)
    # number i of latent l is V[l * r + i]; digit i counts cells^(r-2-i), the last number is the fraction
    numbers = np.arange(m).reshape(n, r)
    quantised, plain = numbers[:, :-1].ravel(), numbers[:, -1]
    digits = float(cells) ** (r - 2 - quantised % r) / values
    per_digit = np.eye(n)[:, quantised // r] * digits
    encoder = _steps_and_lines(
        np.eye(m)[quantised],
        np.arange(1, cells) / cells,
        np.eye(m)[plain],
        np.hstack([np.repeat(per_digit, cells - 1, axis=1), np.eye(n) / values]),
        np.zeros(n),
    )
    v_out, c_out = np.zeros((m, n * values)), np.zeros(m)
    codes = np.arange(values)
    for l in range(n):
        rows = slice(l * (values - 1), (l + 1) * (values - 1))
        for i in range(r - 1):
            digit = (codes // cells ** (r - 2 - i)) % cells
            v_out[l * r + i, rows] = np.diff(digit) / cells
            c_out[l * r + i] = 0.5 / cells
        v_out[l * r + r - 1, rows] = -1.0
        v_out[l * r + r - 1, n * (values - 1) + l] = float(values)
    decoder = _steps_and_lines(np.eye(n), np.arange(1, values) / values, np.eye(n), v_out, c_out)
    if units == "heaviside":
        return Code(encoder, decoder, epsilon, 0, cells, None)
    smooth = _analog_smoothness(encoder, decoder, epsilon, cells, values)
    first, second = (positive_number(each, "steepness") for each in steepness or smooth[:2])
    return Code(
        _smoothed(encoder, first, flat=smooth[2]),
        _smoothed(decoder, second, flat=smooth[3]),
        epsilon,
        0,
        cells,
        (first, second),
    )


def _checked(m: int, n: int, epsilon: float, units: str) -> float:
    check_size(m, "m", 1)
    check_size(n, "n", 1)
    if n >= m:
        raise InvalidInputError(
            f"n must be less than m = {m}, but was {n}; "
            "try hardmax.flow.theorems.decoding_bounds.identity_block."
        )
    if units not in ("heaviside", "tanh"):
        raise InvalidInputError(f"units must be heaviside or tanh, but was {units!r}.")
    return positive_number(epsilon, "epsilon")


def _check_units(epsilon: float, encoder: int, decoder: int) -> None:
    if encoder + decoder > _MOST_UNITS:
        raise InvalidInputError(
            f"epsilon must leave at most {_MOST_UNITS} units, but {epsilon:g} needs {decoder}; try a "
            "larger one."
        )


def _steps_and_lines(
    stepped: Floats, jumps: Floats, linear: Floats, w_out: Floats, b_out: Floats
) -> TwoLayer:
    """Steps at the same jumps of every row of ``stepped``, then linear units, the rows of ``linear``."""
    w_in = np.concatenate([np.repeat(stepped, len(jumps), axis=0), linear])
    b_in = np.concatenate([np.tile(-jumps, len(stepped)), np.zeros(len(linear))])
    return TwoLayer(w_in, b_in, w_out, b_out, activation="heaviside", n_linear=len(linear))


def _smoothed(net: TwoLayer, steepness: float, *, flat: float = 1.0) -> TwoLayer:
    """Steps become (1 + tanh(steepness z))/2, linear units tanh(flat z)/flat."""
    n_bent = net.width - net.n_linear
    scale = np.full(net.width, steepness)
    scale[n_bent:] = flat
    w_out = np.array(net.w_out)
    w_out[:, :n_bent] *= 0.5
    w_out[:, n_bent:] /= flat
    b_out = net.b_out + w_out[:, :n_bent].sum(axis=1)
    return TwoLayer(net.w_in * scale[:, None], net.b_in * scale, w_out, b_out)


def _binary_steepness(
    encoder: TwoLayer, decoder: TwoLayer, epsilon: float, cells: int, q: int
) -> tuple[float, float]:
    r"""Steepness for an error of at most epsilon in L_2; the constants are those of docs/constructions.md.

    At least eta away from its thresholds, the encoder is within a quarter of the spacing :math:`2^{-q}`;
    then the decoder is within epsilon/8 of the truncation. The rest has measure at most :math:`2 m 2^L
    \eta`, and there no number is wrong by more than 1.
    """
    m = encoder.d_in
    eta = 0.75 * epsilon**2 / (2.0 * m**2 * cells)
    first = math.log(4.0 * 2.0**q * _variation(encoder)) / (2.0 * eta)
    second = math.log(max(2.0, 8.0 * math.sqrt(m) * _variation(decoder) / epsilon)) * 2.0 * 2.0**q
    return first, second


def _analog_smoothness(
    encoder: TwoLayer, decoder: TwoLayer, epsilon: float, cells: int, values: int
) -> tuple[float, float, float, float]:
    """The same for the analog code, and the slopes of the tanh units that replace linear ones.

    Latent values fill intervals, so the decoder has a bad set too: fractions within ``margin`` of 0 or 1.
    """
    m, n = encoder.d_in, encoder.d_out
    share = 0.15 * epsilon**2 / (1.21 * m)
    eta, margin = share / (2.0 * (m - n) * cells), share / (2.0 * n)
    part = epsilon / (32.0 * math.sqrt(m))
    tau = min(margin / 2.0, part)  # error of the latent coordinate, in units of its spacing 1/values
    first = math.log(2.0 * values * _variation(encoder) / tau) / (2.0 * eta)
    second = math.log(max(2.0, _variation(decoder) / (2.0 * part))) * values / margin
    return first, second, math.sqrt(1.5 * tau), math.sqrt(3.0 * part / values)


def _variation(net: TwoLayer) -> float:
    """The largest sum of absolute jumps of an output."""
    n_bent = net.width - net.n_linear
    return float(np.abs(net.w_out[:, :n_bent]).sum(axis=1).max())


@dataclass(frozen=True)
class TanhStep:
    r"""The function :math:`\tfrac12 (1 + \tanh(Bx + C))` in place of a step at zero."""

    steepness: float  # B
    shift: float  # C
    error_bound: float  # proven, on the error in L_p(mu)

    def __call__(self, x: ArrayLike) -> Floats:
        """Values."""
        return 0.5 * (1.0 + np.tanh(self.steepness * np.asarray(x, dtype=np.float64) + self.shift))


def tanh_step(
    delta: float,
    *,
    p: float = 2.0,
    density: float = 1.0,
    interval: tuple[float, float] = (-1.0, 1.0),
    atoms: Mapping[float, float] | None = None,
) -> TanhStep:
    r"""Lemma 1 as a function: B and C for an error below delta in :math:`L_p(\mu)`.

    Parameters
    ----------
    delta : float
        The error that is allowed.
    p : float
        At least 1, finite.
    density : float
        A bound on the density of the continuous part of :math:`\mu`.
    interval : (float, float)
        Where it lives.
    atoms : mapping of float to float, optional
        Point masses, by their place; the one at zero is where the shift is needed.

    Notes
    -----
    :math:`\mu` is cut into what lies within :math:`\eta` of zero (a third of :math:`\delta^p`), the atom at
    zero (a third) and the rest (a third), as in the paper.

    Examples
    --------
    >>> step = tanh_step(0.05, atoms={0.0: 2.0})
    >>> bool(step.error_bound < 0.05), bool(1 - step(0.0) < 0.05)
    (True, True)
    """
    delta = positive_number(delta, "delta")
    if not 1.0 <= p < math.inf:
        raise InvalidInputError(
            f"p must be at least 1 and finite, but was {p}: no tanh unit is uniformly close."
        )
    low, high = interval
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInputError(f"interval must be (low, high) with low < high, but was {interval}.")
    masses = {float(place): float(mass) for place, mass in (atoms or {}).items()}
    bad = [mass for mass in (density, *masses.values()) if not 0.0 <= mass < math.inf]
    if bad:
        raise InvalidInputError(f"density and atoms must be finite and at least 0, but there was {bad[0]}.")
    share = delta**p / 3.0
    nearest = min((abs(place) for place in masses if place != 0.0), default=math.inf)
    eta = min(nearest, 0.99 * share / (2.0 * density) if density > 0 else math.inf, high - low)
    eta *= 1.0 - 1e-12  # no atom lies strictly within eta
    total = density * (high - low) + sum(masses.values())
    at_zero = masses.get(0.0, 0.0)
    shift = _reach(share, at_zero, p) if at_zero > 0 else 0.0
    rest = _reach(share / 2.0, total, p)
    steepness = (rest + shift) / eta
    tails = 2.0 * total * _tail(rest) ** p
    bound = (2.0 * eta * density + at_zero * _tail(shift) ** p + tails) ** (1.0 / p)
    return TanhStep(steepness, shift, bound)


def _tail(r: float) -> float:
    r""":math:`1 - \tfrac12(1 + \tanh r)`, without cancellation."""
    return 1.0 / (1.0 + math.exp(min(2.0 * r, 700.0)))


def _reach(share: float, mass: float, p: float) -> float:
    """The smallest r >= 0 with ``mass * tail(r)**p`` a little below ``share``."""
    if mass <= 0:
        return 0.0
    tail = (0.99 * share / mass) ** (1.0 / p)
    return max(0.0, 0.5 * math.log(max(1.0 / tail - 1.0, 1.0)))
