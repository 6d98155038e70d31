r"""The layers of a network as stages of an enclosure: functions whose signs decide, and what leaves.

A stage with units decides the signs of functions; a stage with groups decides the largest of several
functions, group by group. What leaves depends on the decision, the *choice*, and is smooth: the engine forces
a choice and follows the smooth function that belongs to it, also a little beyond where the choice is true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.balls import Constant
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.networks.layers import (
    AffineLayer,
    ArgmaxLayer,
    MaxLayer,
    NormLayer,
    ReluLayer,
    SmoothLayer,
    SoftmaxLayer,
)
from hardmax.regions.enclosures.jets import Jet

Choice = NDArray[Any]  # bits (n, units) or winners (n, groups)


@dataclass(eq=False)
class Stage:
    """What happens to a jet: ``decide`` gives the functions that a choice is about, ``leave`` what goes on.

    Attributes
    ----------
    units, groups : int
        How many signs, or how many winners, are decided; at most one of the two is not zero.
    keys : (groups, K) int
        The numbers of the keys; ``present`` says which of the K places are keys at all.
    first : int
        The number of its first unit or group among all.
    free : bool
        Whether what leaves does not depend on the choice, as in softmax; it cuts nothing behind it.
    same : callable
        Whether two events, (unit,) or (group, old, new), are roots of proportional functions, exactly.
    """

    leave: Callable[[Jet, Any, Any], Jet]
    decide: Callable[[Jet], Jet] | None = None
    units: int = 0
    groups: int = 0
    keys: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    present: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.bool_))
    first: int = 0
    free: bool = False
    same: Callable[[tuple[int, ...], tuple[int, ...]], bool] = lambda a, b: False

    @property
    def places(self) -> slice:
        """Where its choices stand among all units or groups."""
        return slice(self.first, self.first + self.units + self.groups)


def stage_of(layer: Any) -> Stage:
    """The stage of a layer."""
    return _STAGES[type(layer)](layer)


def _affine(layer: AffineLayer) -> Stage:
    w, b = Constant(layer.weights), Constant(layer.offsets)
    return Stage(lambda jet, f, choice: jet.affine(w, b))


def _relu(layer: ReluLayer) -> Stage:
    w = None if layer.scores is None else Constant(layer.scores)
    b, u, o = Constant(layer.biases), Constant(layer.outputs), Constant(layer.offsets)

    def leave(jet: Jet, z: Jet, bits: Choice) -> Jet:
        on = Jet(z.balls.masked(bits), z.radius).affine(u, o)
        return jet + on if layer.skip else on

    def same(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        if layer.scores is None:
            return False
        scores, biases = layer.scores, layer.biases
        return _proportional(*([*scores.rational_row(i[0]), biases.rational(i[0])] for i in (a, b)))

    return Stage(leave, lambda jet: jet.affine(w, b), units=layer.units, first=layer.first_unit, same=same)


def _padded(layer: ArgmaxLayer) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For every head the rows of its keys, padded with its first, and which of them are keys."""
    counts = np.diff(layer.head_start)
    places = np.arange(int(counts.max()))
    present = places < counts[:, None]
    return layer.head_start[:-1, None] + np.where(present, places, 0), present


def _argmax(layer: ArgmaxLayer) -> Stage:
    rows, present = _padded(layer)
    a, b = Constant(layer.scores), Constant(layer.biases)
    outputs = Constant(layer.outputs)

    def decide(jet: Jet) -> Jet:
        return jet.affine(a, b).arranged(lambda array: array[..., rows])

    def constant(jet: Jet, scores: Jet, winners: Choice) -> Jet:
        balls = type(jet.c).constant(outputs)
        total = balls[rows[0, winners[:, 0]]]
        for h in range(1, layer.heads):
            total = total + balls[rows[h, winners[:, h]]]
        if layer.skip:
            return jet.plus(total)
        zero = type(total).exactly(np.zeros(total.shape))
        return Jet(type(total).stack([total, *[zero] * (jet.balls.shape[0] - 1)]), jet.radius)

    def same(p: tuple[int, ...], q: tuple[int, ...]) -> bool:
        return _proportional(*(_difference(layer, rows[g, old], rows[g, new]) for g, old, new in (p, q)))

    return Stage(
        constant,
        decide,
        groups=layer.heads,
        keys=layer.key[rows],
        present=present,
        first=layer.first_head,
        same=same,
    )


def _max(layer: MaxLayer) -> Stage:
    stage = _argmax(layer)

    def leave(jet: Jet, scores: Jet, winners: Choice) -> Jet:
        best = taken(scores, winners)
        if not layer.skip:
            return best
        return Jet(type(jet.balls).joined([jet.balls, best.balls], -1), jet.radius)

    stage.leave = leave
    return stage


def _softmax(layer: SoftmaxLayer) -> Stage:
    stage = _argmax(layer)
    rows, present = _padded(layer)
    inverse = Constant(ExactArray(np.array([layer.temperature])))
    # a key that stands for several counts as often
    weights = Constant(ExactArray(layer.multiplicities[rows].astype(np.float64)))
    outputs = [Constant(layer.outputs.take(rows[h]).transposed) for h in range(layer.heads)]

    def leave(jet: Jet, scores: Jet, winners: Choice) -> Jet:
        means = softmax(scores, present, inverse, weights)
        total = None
        for h, output in enumerate(outputs):
            part = means.arranged(lambda array, h=h: array[:, :, h]).affine(output, None)
            total = part if total is None else total + part
        assert total is not None
        return jet + total if layer.skip else total

    stage.leave, stage.free = leave, True
    return stage


def softmax(scores: Jet, present: NDArray[np.bool_], temperature: Constant, weights: Constant | None) -> Jet:
    """Probabilities along the last axis; the scores are taken relative to the largest one at the midpoint."""
    kind = type(scores.c)
    middle = np.where(present, midpoints(scores.c), -np.inf)
    best = middle.argmax(axis=-1)
    # the largest less itself is zero without any error, so a head that is nearly hard has nearly none
    others = best[..., None] != np.arange(middle.shape[-1])
    shifted = scores - taken(scores, best, keep=True)
    shifted = Jet(shifted.balls.masked(others), shifted.radius)
    powers = shifted.times(kind.constant(temperature).reciprocal()).exp()
    if weights is not None:
        powers = powers.times(kind.constant(weights))
    powers = Jet(powers.balls.masked(present), powers.radius)
    return powers * powers.sum(-1).reciprocal()


def _norm(layer: NormLayer) -> Stage:
    share = Constant(_one_over(layer.d_in))
    scale, shift = Constant(layer.scale), Constant(layer.shift)
    epsilon = Constant(layer.epsilon)
    floor = float(layer.epsilon.floats[0]) * (1.0 - 2.0**-50)

    def leave(jet: Jet, f: Any, choice: Any) -> Jet:
        constant = type(jet.c).constant
        x = jet - jet.sum(-1).times(constant(share)) if layer.centred else jet
        square = (x * x).sum(-1).times(constant(share)).plus(constant(epsilon))
        y = (x * square.rsqrt(floor)).times(constant(scale))
        return y if layer.shift.all_zero() else y.plus(constant(shift))

    return Stage(leave)


def _smooth(layer: SmoothLayer) -> Stage:
    w, b = Constant(layer.scores), Constant(layer.biases)
    u, o = Constant(layer.outputs), Constant(layer.offsets)

    def leave(jet: Jet, f: Any, choice: Any) -> Jet:
        y = jet.affine(w, b).activated(layer.activation).affine(u, o)
        return jet + y if layer.skip else y

    return Stage(leave)


_STAGES: dict[type, Callable[[Any], Stage]] = {
    AffineLayer: _affine,
    ReluLayer: _relu,
    ArgmaxLayer: _argmax,
    MaxLayer: _max,
    SoftmaxLayer: _softmax,
    NormLayer: _norm,
    SmoothLayer: _smooth,
}


def taken(jet: Jet, winners: Choice, *, keep: bool = False) -> Jet:
    """One entry of the last axis each."""
    index = winners[None, ..., None]
    best = jet.arranged(lambda array: np.take_along_axis(array, index, axis=-1))
    return best if keep else best.arranged(lambda array: array[..., 0])


def midpoints(balls: Any) -> NDArray[np.float64]:
    """Floats near the numbers."""
    if hasattr(balls, "mid"):
        return np.asarray(balls.mid)
    flat = [float(v.mid()) for v in balls.arb.reshape(-1)]
    return np.array(flat).reshape(balls.shape)


def _one_over(n: int) -> ExactArray:
    return ExactArray(np.array([1.0 / n]), np.array([Fraction(1, n)], dtype=object))


def _difference(layer: ArgmaxLayer, i: int, j: int) -> list[Any]:
    a, b = layer.scores, layer.biases
    row = [x - y for x, y in zip(a.rational_row(i), a.rational_row(j), strict=True)]
    return [*row, b.rational(i) - b.rational(j)]


def _proportional(p: list[Any], q: list[Any]) -> bool:
    """Whether two vectors of rationals are multiples of each other."""
    at = next((i for i, value in enumerate(p) if value != 0), None)
    if at is None or q[at] == 0:
        return False
    return all(p[i] * q[at] == q[i] * p[at] for i in range(len(p)))


def way(start: ExactArray, end: ExactArray) -> Stage:
    """The segment as a stage that takes the one variable."""
    steps = fractions_of(end) - fractions_of(start)
    w, b = Constant(as_exact(steps[:, None], "end", ndim=2)), Constant(start)
    return Stage(lambda jet, f, choice: jet.affine(w, b))
