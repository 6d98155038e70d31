r"""A temperature below which softmax provably takes the same decisions as hardmax, on a finite set of inputs.

A program that is compiled into hard attention is right at temperature zero. A transformer has softmax; at
which temperature does it still compute the program? For every input the deviation of the softmax network is
bounded in the directions that count, the differences of the output's coordinates
(:mod:`hardmax.temperature.deviations`). If the decision c is ahead of each other coordinate k by
:math:`g_k = y_c - y_k` and the deviation can take less than that, the decision stays. The bound grows with
the temperature, so it stays at all lower ones too, and bisection finds where the proof ends.

How sharp this is. Let a network be one head and a linear read-out, w the winner, :math:`m_j` the margins, and
:math:`g_j` the lead of c over k when key j alone is read. Softmax gives the lead
:math:`\sum_j p_j g_j = p_w \bigl(g_w + \sum_{j \ne w} e^{-m_j/\tau} g_j\bigr)`, and the proof ends where

.. math:: g_w = \sum_{j \ne w} e^{-m_j/\tau} \max(0, -g_j) .

If no losing key speaks for c (all :math:`g_j \le 0`) these are the same: the certified temperature is the
very temperature at which the decision changes, factor 1, but for the last step of the bisection,
:math:`1 + 2^{-20}`. So no larger temperature can be certified from margins, number of keys and outputs alone.
For instance, N - 1 rivals that are all behind by m and all have :math:`g_j = -\rho g_w` change the decision
at :math:`\tau = m / \log((N - 1)\rho)`, as soon as :math:`(N-1)\rho > 1`. Keys that speak for c
can only keep it longer; with them, and in deep networks, the factor depends on the instance. So every result
carries its own: a higher temperature at which an input provably gets another decision, where one was found.

*Proof of the first line.* :math:`p_j = p_w e^{-m_j/\tau}`. By :mod:`~hardmax.temperature.deviations` the
deviation takes at most :math:`\max_A \sum_A r_j (g_w - g_j) / (1 + \sum_A r_j)` from the lead, and this is
below :math:`g_w` exactly if :math:`g_w + \sum_A r_j g_j > 0` for all A: for the A of all keys with
:math:`g_j < 0`. ∎
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import as_exact, fraction, nearest_float
from hardmax.limits import Clock
from hardmax.networks.attention import Attention
from hardmax.networks.block import points_of
from hardmax.networks.blocks import Affine, Block, FeedForward, Maxout
from hardmax.networks.network import Network
from hardmax.networks.reading.sources import NetworkLike, as_network
from hardmax.progress import shown
from hardmax.results import Result
from hardmax.temperature.deviations import INFINITE, ZERO, Direction, Walk, soft_value, walk

Floats = NDArray[np.float64]

_WIDTH = 1.0 + 2.0**-20  # where bisection stops
_FACTORS = (1 + 2.0**-18, 1.001, 1.01, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8, 16, 32, 64, 256, 1024, 2.0**20)
_PRECISIONS = (64, 192, 768)
_LOWEST, _HIGHEST = 1e-307, 1e307  # of the temperatures at which leads are measured
_CURVE = 61


@dataclass(frozen=True, eq=False, repr=False)
class CertifiedTemperature(Result):
    """A temperature up to which decisions are proven; made by :func:`hardmax.certified_temperature`.

    Attributes
    ----------
    temperature : float
        At this temperature and at every lower one softmax takes the decisions of hardmax, proven. Infinite
        if no temperature changes one.
    broken_temperature : float
        A higher temperature at which some input provably gets another decision; infinite if none was found.
    binding_input, broken_input : int
        The input at which the proof ends first, and one that breaks; -1 where there is none.
    decisions : (n,) int64
        The decision of each input: the winning coordinate, or 1 and 0 for above and below the threshold.
    output_margins : (n,) float64
        The lead of the decision over the next coordinate at temperature zero, rounded.
    head_margins : (n,) float64
        The smallest margin of a head on the way of each input; infinite where no head has a choice.
    attention_blocks : (b,) int64
        The blocks in which a head has a choice.
    block_margins : (b,) float64
        The smallest margin over inputs and heads in each of them.
    curve_temperatures, curve_leads : (m,) float64
        The smallest lead of a decision over all inputs, measured in float64 at some temperatures.

    Examples
    --------
    >>> import hardmax as hm
    >>> head = hm.Attention([[[1.0], [-1.0]]], None, [[[1.0, 0.0], [0.0, 3.0]]], skip=False)
    >>> found = hm.certified_temperature(hm.Network([head]), [[1.0]])
    >>> found
    <CertifiedTemperature: 1 input keeps its decision up to temperature 1.82048, and changes at 1.82048>
    >>> round(2 / np.log(3), 5)
    np.float64(1.82048)
    """

    kind: ClassVar[str] = "CertifiedTemperature"
    _shapes: ClassVar[dict[str, str]] = {
        "decisions": "inputs",
        "output_margins": "inputs",
        "head_margins": "inputs",
        "attention_blocks": "blocks",
        "block_margins": "blocks",
        "curve_temperatures": "m",
        "curve_leads": "m",
    }

    temperature: float
    broken_temperature: float
    binding_input: int
    broken_input: int
    decisions: NDArray[np.int64]
    output_margins: Floats
    head_margins: Floats
    attention_blocks: NDArray[np.int64]
    block_margins: Floats
    curve_temperatures: Floats
    curve_leads: Floats

    @property
    def n_inputs(self) -> int:
        """The number of inputs."""
        return len(self.decisions)

    @property
    def factor(self) -> float:
        """No temperature this many times larger can be certified; infinite if none was found to break."""
        return self.broken_temperature / self.temperature if self.broken_input >= 0 else float("inf")

    def _summary(self) -> str:
        kept = (
            "1 input keeps its decision"
            if self.n_inputs == 1
            else f"{self.n_inputs:,} inputs keep their decisions"
        )
        if self.temperature == INFINITE:
            return f"{kept} at every temperature"
        found = self.broken_input >= 0
        changes = "changes" if self.n_inputs == 1 else "one changes"
        where = f", and {changes} at {self.broken_temperature:g}" if found else ""
        return f"{kept} up to temperature {self.temperature:g}{where}"

    def _table(self) -> dict[str, Any]:
        return {
            "decision": self.decisions,
            "output_margin": self.output_margins,
            "head_margin": self.head_margins,
        }


def certified_temperature(
    network: NetworkLike,
    inputs: ArrayLike,
    *,
    readout: ArrayLike | None = None,
    threshold: float = 0.0,
    time_limit: float | None = None,
    progress: bool | Callable[..., object] | None = None,
) -> CertifiedTemperature:
    r"""A temperature up to which softmax provably takes the same decisions as hardmax on given inputs.

    Parameters
    ----------
    network : Network, torch module, or path of an ONNX file or a saved network
        Attention with hardmax, ReLU layers, maxout and affine maps.
    inputs : (n, d) array_like
        The inputs that count, floats or fractions.
    readout : (C, e) array_like, optional
        One row per class; the decision is the class with the largest product of its row and the output. By
        default the largest coordinate of the output.
    threshold : number, default 0
        For a single number at the end, the decision is whether it is above this.
    time_limit : float, optional
        Seconds after which the proof is given up.
    progress : bool or callable, optional
        ``True`` shows a bar; a function is called with the number of inputs done, that of all inputs, and
        what is done with them.

    Returns
    -------
    CertifiedTemperature
        Sharp with one head whose losing keys do not speak for the decision, and with its own factor in
        general: see :mod:`hardmax.temperature.certified` for the theorem and its proof.

    Raises
    ------
    InvalidInputError
        If a decision is tied at temperature zero, or if winners of a head are tied that softmax in front of
        it parts, so that no temperature can be certified.
    IncompleteError
        When the time is over: a temperature that holds for some inputs says nothing about the others.

    Examples
    --------
    Induction over the fixed context ``a b c a d``: the first head finds where the token was seen before (the
    last such place), the second reads what followed it. Tokens are numbers; head one scores place j by
    :math:`-(x - t_j)^2` and a little for being late, with the term :math:`x^2` that all share left out.

    >>> import hardmax as hm
    >>> seen = np.array([0, 1, 2, 0])          # a b c a
    >>> follows = np.array([1, 2, 0, 3])       # b c a d
    >>> places = np.arange(4)
    >>> find = hm.Attention(
    ...     [2 * seen[:, None]], [-(seen**2) + places / 8], [places[:, None]], skip=False)
    >>> fetch = hm.Attention(
    ...     [2 * places[:, None]], [-(places**2)], [np.eye(4)[follows]], skip=False)
    >>> program = hm.Network([find, fetch])
    >>> found = hm.certified_temperature(program, [[0], [1], [2]])
    >>> found.decisions                        # after a comes d, after b comes c, after c comes a
    array([3, 2, 0])
    >>> found
    <CertifiedTemperature: 3 inputs keep their decisions up to temperature 0.231061, and one changes at ...>
    >>> found.block_margins
    array([0.375, 1.   ])
    """
    clock = Clock(time_limit, "certify a temperature for all inputs")
    network = as_network(network)
    blocks = _checked(network, readout)
    points = fractions_of(as_exact(points_of(inputs, network.d)[0], "inputs", ndim=2))
    if len(points) == 0:
        raise InvalidInputError("inputs must hold at least one input, but is empty.")
    single = blocks[-1].d_out == 1
    level = fractions_of(as_exact([threshold], "threshold", ndim=1))[0]
    with shown(progress, _line, clock) as report, flint.ctx.workprec(_PRECISIONS[0]):
        done, what = 0, "read"

        def look() -> None:
            if report is not None:
                report(done, len(points), what)

        cases = []
        for done, row in enumerate(points):
            cases.append(_Case(blocks, done, row.tolist(), level, look))
        certified, binding, what = INFINITE, -1, "proven"
        for done, case in enumerate(cases):
            if not case.holds(certified):
                certified, binding = case.largest(certified), done
        floats = as_exact(points, "inputs", ndim=2).floats
        decisions = np.array([case.decision for case in cases], dtype=np.int64)
        leads = _Leads(Network(blocks), floats, decisions, float(level), single, look)
        done, what = len(points), "proven; higher temperatures are tried"
        broken, where = (
            (INFINITE, -1) if certified == INFINITE else _broken(blocks, points, cases, leads, certified)
        )
        temperatures = (
            np.geomspace(max(certified / 8, _LOWEST), min(certified * 32, _HIGHEST), _CURVE)
            if certified != INFINITE
            else np.zeros(0)
        )
        curve = np.array([leads.at(t).min() for t in temperatures.tolist()])
    margins = [case.way.head_margins for case in cases]
    numbers = sorted({block for found in margins for block, _ in found})
    return CertifiedTemperature(
        temperature=certified,
        broken_temperature=broken,
        binding_input=binding,
        broken_input=where,
        decisions=decisions,
        output_margins=np.array([_rounded(fraction(min(case.margins))) for case in cases]),
        head_margins=np.array([_least([m for _, m in found]) for found in margins]),
        attention_blocks=np.array(numbers, dtype=np.int64),
        block_margins=np.array([_least([m for f in margins for b, m in f if b == n]) for n in numbers]),
        curve_temperatures=temperatures,
        curve_leads=curve,
    )


def _line(done: int, total: int, what: str) -> tuple[float | None, str]:
    """What a bar shows: most of the work is in the inputs that bind."""
    return None, f"{done:,} of {total:,} input{'' if total == 1 else 's'} {what}"


class _Case:
    """One input: its decision, what it is ahead by, and the bounds on what softmax can take."""

    def __init__(
        self,
        blocks: Sequence[Block],
        number: int,
        point: list[Fraction],
        level: Fraction,
        look: Callable[[], object],
    ) -> None:
        self.number, self.level = number, flint.fmpq(level.numerator, level.denominator)
        self.way: Walk = walk(blocks, [flint.fmpq(x.numerator, x.denominator) for x in point], look)
        y = self.way.value
        if len(y) == 1:
            ahead = y[0] - self.level
            self.decision, self.margins = int(ahead > 0), [abs(ahead)]
            rows = [[-1 if ahead > 0 else 1]]
            tie = f"equals the threshold {level}"
        else:
            self.decision = max(range(len(y)), key=y.__getitem__)
            others = [k for k in range(len(y)) if k != self.decision]
            self.margins = [y[self.decision] - y[k] for k in others]
            rows = [[int(c == k) - int(c == self.decision) for c in range(len(y))] for k in others]
            tie = "has two largest coordinates"
        if min(self.margins) == 0:
            raise InvalidInputError(
                f"inputs must have a decision at temperature zero, but the output of input {number} "
                f"{tie}; leave it out or change the read-out."
            )
        matrix = flint.fmpq_mat(len(rows), len(y), [c for row in rows for c in row])
        self.directions: list[Direction] = self.way.directions(matrix)

    def holds(self, temperature: float) -> bool:
        """Whether the decision is proven at this temperature and at all lower ones."""
        taken = self.way.bounds(self.directions, temperature)
        return all(lost < ahead for lost, ahead in zip(taken, self.margins, strict=True))

    def largest(self, above: float) -> float:
        """The largest temperature that is proven, but for the width of the bisection; ``above`` is not."""
        if not self.holds(ZERO):
            places = ", ".join(f"head {h} of block {b}" for b, h in self.way.tied)
            raise InvalidInputError(
                f"inputs must not tie keys that softmax in front of them can part, but input "
                f"{self.number} ties keys of {places}, and its decision hangs on them; no temperature can be "
                "certified."
            )
        low, high = min(1.0, above / 2), above
        while not self.holds(low):
            low, high = low * min(0.25, low), low
            if low == 0.0:
                raise InvalidInputError(
                    f"inputs must have margins that a float can tell from zero, but input {self.number} "
                    "needs a temperature below the smallest one; rescale the scores."
                )
        while high == INFINITE:
            if 2.0 * low == INFINITE:  # no float is between
                return low
            if self.holds(2.0 * low):
                low *= 2.0
            else:
                high = 2.0 * low
        while high > low * _WIDTH:
            middle = low * np.sqrt(high / low)
            if self.holds(middle):
                low = float(middle)
            else:
                high = float(middle)
        return low


class _Leads:
    """How far each decision is ahead at a temperature, in float64: measured, not proven."""

    def __init__(
        self,
        network: Network,
        points: Floats,
        decisions: NDArray[np.int64],
        level: float,
        single: bool,
        look: Callable[[], object],
    ) -> None:
        self.network, self.points, self.decisions = network, points, decisions
        self.level, self.single, self.look = level, single, look

    def at(self, temperature: float) -> Floats:
        """One number per input; NaN where floats overflow."""
        self.look()
        try:
            y = self.network(self.points, temperature)
        except NotFiniteError:
            return np.full(len(self.points), np.nan)
        if self.single:
            return np.where(self.decisions == 1, 1.0, -1.0) * (y[:, 0] - self.level)
        each = np.arange(len(y))
        chosen = y[each, self.decisions]
        y[each, self.decisions] = -np.inf
        return np.asarray(chosen - y.max(axis=1))


def _broken(
    blocks: Sequence[Block], points: NDArray[Any], cases: list[_Case], leads: _Leads, certified: float
) -> tuple[float, int]:
    """The first of some higher temperatures at which an input provably gets another decision."""
    for factor in _FACTORS:
        temperature = certified * factor
        found = leads.at(temperature)
        order = np.argsort(found)
        for i in order[: max(1, int((found <= 0.0).sum()))].tolist():
            if found[i] <= 1e-6 * abs(_rounded(fraction(min(cases[i].margins)))) and _changes(
                blocks, points[i].tolist(), cases[i], leads, temperature
            ):
                return temperature, i
    return INFINITE, -1


def _changes(
    blocks: Sequence[Block], point: list[Fraction], case: _Case, leads: _Leads, temperature: float
) -> bool:
    """Whether softmax provably takes another decision; balls are made smaller until that is settled."""
    for precision in _PRECISIONS:
        leads.look()
        with flint.ctx.workprec(precision):
            y = soft_value(blocks, point, temperature)
            if leads.single:
                rivals = [(y[0] - case.level) * (1 if case.decision else -1)]
            else:
                rivals = [y[case.decision] - value for k, value in enumerate(y) if k != case.decision]
            if any(lead < 0 for lead in rivals):
                return True
            if all(lead > 0 for lead in rivals):
                return False
    return False


def _checked(network: Network, readout: ArrayLike | None) -> tuple[Block, ...]:
    for i, block in enumerate(network.blocks):
        rule = getattr(block, "rule", "hardmax")
        if rule == "hardmax" and not isinstance(block, Attention | FeedForward | Maxout | Affine):
            raise InvalidInputError(
                f"network must have hardmax heads and piecewise-affine blocks, but block {i} is {block!r}."
            )
        if rule != "hardmax":
            raise InvalidInputError(
                f"network must have heads with hardmax, of which softmax is the version at a "
                f"temperature, but block {i} has the rule {rule!r}."
            )
    if readout is None:
        return network.blocks
    rows = as_exact(readout, "readout", ndim=2)
    if rows.shape[1] != network.d_out:
        raise DimensionMismatchError(
            f"readout must have one column per coordinate of the output ({network.d_out}), but has shape "
            f"{rows.shape}."
        )
    classes: Any = rows
    return (*network.blocks, Affine(classes))


def _least(values: list[Any]) -> float:
    return _rounded(fraction(min(values))) if values else float("inf")


def _rounded(value: Fraction) -> float:
    """The nearest float; the largest one beyond, because infinite means that there is no margin at all."""
    return min(nearest_float(value), float(np.finfo(np.float64).max))
