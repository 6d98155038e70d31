r"""Proven bounds on a node: the states of a network as affine forms of the inputs and of symbols.

A state is :math:`y_i = c_i + \sum_j a_{ij} t_j + \sum_k e_{ik} \varepsilon_k + \delta_i` with :math:`t,
\varepsilon \in [-1, 1]` and :math:`|\delta_i| \le r_i`: a zonotope (inputs are :math:`x = m + \rho t`) whose
radii :math:`r` hold rounding errors and whatever got no symbol. Affine stages multiply. A ReLU unit whose
sign is open on :math:`[l, u]` becomes, for any :math:`\lambda \in [0, 1]`,

.. math:: \max(z, 0) \in \lambda z + [0, \max((1 - \lambda) u, -\lambda l)], \qquad \lambda = u / (u - l),

with a symbol of its own. A head whose winner is open gives a point of the hull of the outputs that can still
win. Facts of the node (:mod:`hardmax.verification.nodes`) fix signs and winners, and each is also a row that
is known to be positive: combinations of such rows with the constraints of a property close a node.

Every bound here holds beyond the rounding errors of float64; radii grow by :data:`_ROUNDING` of what a sum is
made of, a few hundred times more than float64 needs, so that a replay in other arithmetic agrees.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.verification.nodes import Cut, Node
from hardmax.verification.stages import AffineStage, ChooseStage, MaxStage, Program, ReluStage

Floats = NDArray[np.float64]

_ROUNDING = 2.0**-42
_OF_MAGNITUDE = 2.0**-42  # the same, of the largest number of the stage
SLOPE = 2.0**-30  # slopes of relaxed units are multiples of this
MAX_SYMBOLS = 512  # open decisions beyond these widen radii


@dataclass(eq=False)
class Rows:
    """Affine forms, one per row: columns are the constant, the inputs t, the symbols; and radii."""

    columns: Floats
    radius: Floats

    def highest(self) -> Floats:
        """Upper bounds."""
        return self.columns[:, 0] + self.spread()

    def spread(self) -> Floats:
        """How far a row is from its constant, at most."""
        return np.asarray(np.abs(self.columns[:, 1:]).sum(axis=1) + self.radius)

    def padded(self, columns: int) -> Rows:
        """The same rows with symbols that came later."""
        if self.columns.shape[1] == columns:
            return self
        wider = np.zeros((len(self.columns), columns))
        wider[:, : self.columns.shape[1]] = self.columns
        return Rows(wider, self.radius)


@dataclass(frozen=True, eq=False)
class Open:
    """A decision that is open: the cut that would settle it, its symbol (-1: none) and how wide it is."""

    cut: Cut
    symbol: int
    width: float
    row: Floats | None = None  # what is decided, relative to its spread, over the inputs


@dataclass(eq=False)
class Outcome:
    """What is known on a node.

    Attributes
    ----------
    out : Rows
        The outputs.
    inputs : Rows
    facts : list of Rows
        One row per fact of the node, which is at least zero there.
    choices : list
        Per stage what was decided: units that are on, winners, weights, supports; ``None`` for affine stages.
    open : list of Open
    lost : bool
        Numbers left the range that radii are made for; nothing may be concluded.
    equal : list of bool
        Which facts say that their row is zero.
    """

    out: Rows
    inputs: Rows
    facts: list[Rows]
    choices: list[Any]
    open: list[Open]
    lost: bool
    equal: list[bool]


@dataclass(eq=False)
class _Walk:
    """The state of a walk through the stages."""

    program: Program
    node: Node
    rows: Rows
    magnitude: float = 0.0
    facts: dict[Cut, Rows] = field(default_factory=dict)
    choices: list[Any] = field(default_factory=list)
    open: list[Open] = field(default_factory=list)
    lost: bool = False

    @property
    def symbols(self) -> int:
        return int(self.rows.columns.shape[1]) - 1 - self.program.d

    def affine(self, stage: AffineStage) -> None:
        c, r = self.rows.columns, self.rows.radius
        columns = np.asarray(stage.matrix @ c)
        offsets = stage.offsets.floats
        columns[:, 0] += offsets
        size = np.abs(c).sum(axis=1) + r
        both = np.asarray(stage.absolute @ np.column_stack([r, size]))
        radius = both[:, 0] + _ROUNDING * (both[:, 1] + np.abs(offsets)) + _OF_MAGNITUDE * self.magnitude
        self.rows = Rows(columns, radius)
        self.choices.append(None)

    def relu(self, number: int, stage: ReluStage) -> None:
        first = stage.first
        columns, radius = self.rows.columns, self.rows.radius.copy()
        spread = self.rows.spread()[first:]
        low, high = columns[first:, 0] - spread, columns[first:, 0] + spread
        on, off = low >= 0.0, high <= 0.0
        for fact in self.node.facts:
            if fact.cut[0] == "s" and fact.cut[1] == number:
                u = fact.cut[2]
                on[u], off[u] = fact.case == ">=", fact.case == "<"
                sign = 1.0 if fact.case == ">=" else -1.0
                row = columns[first + u : first + u + 1] * sign
                self.facts[fact.cut] = Rows(row, radius[first + u : first + u + 1].copy())
        unsure = np.flatnonzero(~on & ~off)
        columns = columns.copy()
        dead = first + np.flatnonzero(off)
        columns[dead], radius[dead] = 0.0, 0.0
        if len(unsure):
            self._relax(number, first, unsure, low, high, columns, radius, spread)
        else:
            self.rows = Rows(columns, radius)
        self.choices.append(on if not len(unsure) else None)

    def _relax(
        self,
        number: int,
        first: int,
        unsure: NDArray[np.intp],
        low: Floats,
        high: Floats,
        columns: Floats,
        radius: Floats,
        spread: Floats,
    ) -> None:
        l, u = low[unsure], high[unsure]
        slope = np.clip(np.round(u / (u - l) / SLOPE) * SLOPE, 0.0, 1.0)
        half = np.maximum((1.0 - slope) * u, -slope * l) / 2 * (1 + 2.0**-40)
        places = first + unsure
        share = columns[places, 1 : 1 + self.program.d] / spread[unsure, None]
        columns[places] *= slope[:, None]
        columns[places, 0] += half
        radius[places] = (
            radius[places] * slope + _ROUNDING * (spread[unsure] + half) + _OF_MAGNITUDE * self.magnitude
        )
        room = min(len(unsure), MAX_SYMBOLS - self.symbols)
        radius[places[room:]] += half[room:]
        new = np.zeros((len(columns), room))
        new[places[:room], np.arange(room)] = half[:room]
        start = self.symbols
        self.rows = Rows(np.concatenate([columns, new], axis=1), radius)
        for k, unit in enumerate(unsure.tolist()):
            symbol = start + k if k < room else -1
            self.open.append(Open(("s", number, unit), symbol, float(half[k]), np.abs(share[k])))

    # Groups of scores
    # ------------------------------------------------------------------------------------------------------

    def _differences(self, number: int, group: int, a: int, b: int) -> tuple[Floats, Floats]:
        """Bounds on score i less score j, (n, n) each; facts about pairs become rows."""
        c, r = self.rows.columns[a:b], self.rows.radius[a:b]
        middle = c[:, None, 0] - c[None, :, 0]
        spread = np.abs(c[:, None, 1:] - c[None, :, 1:]).sum(axis=2) + r[:, None] + r[None, :]
        size = np.abs(c).sum(axis=1)
        spread += _ROUNDING * (size[:, None] + size[None, :])
        low, high = middle - spread, middle + spread
        for fact in self.node.facts:
            cut = fact.cut
            if cut[0] == "p" and cut[1:3] == (number, group):
                _, _, _, i, j = cut
                sign = -1.0 if fact.case == "<" else 1.0
                error = r[i : i + 1] + r[j : j + 1] + _ROUNDING * (size[i] + size[j])
                self.facts[cut] = Rows(sign * (c[i : i + 1] - c[j : j + 1]), error)
                if fact.case in (">", ">=", "="):
                    low[i, j], high[j, i] = max(low[i, j], 0.0), min(high[j, i], 0.0)
                if fact.case in ("<", "="):
                    high[i, j], low[j, i] = min(high[i, j], 0.0), max(low[j, i], 0.0)
        return low, high

    def maxima(self, number: int, stage: MaxStage) -> None:
        kept = self.rows
        columns, radius = [kept.columns[: stage.first]], [kept.radius[: stage.first]]
        winners: list[int | None] = []
        added: list[tuple[int, float, Open | None]] = []
        place = stage.first
        for g, (a, b) in enumerate(zip(stage.starts, stage.starts[1:], strict=False)):
            low, high = self._differences(number, g, a, b)
            left = _unbeaten(low)
            winner = int(left[np.argmax(kept.columns[a + left, 0])])
            columns.append(kept.columns[a + winner][None])
            radius.append(kept.radius[a + winner][None])
            if len(left) == 1:
                winners.append(winner)
            else:
                others = left[left != winner]
                gap = float(high[others, winner].max())
                rival = int(others[np.argmax(high[others, winner])])
                i, j = min(winner, rival), max(winner, rival)
                winners.append(None)
                added.append(
                    (place, max(gap, 0.0) / 2 * (1 + 2.0**-40), Open(("p", number, g, i, j), -1, gap / 2))
                )
            place += 1
        self.rows = Rows(np.concatenate(columns), np.concatenate(radius).copy())
        self._widen(added)
        self.choices.append(None if None in winners else winners)

    def _widen(self, added: list[tuple[int, float, Open | None]]) -> None:
        """Add to rows something between 0 and twice a number, each with a symbol while there is room."""
        room = min(len(added), MAX_SYMBOLS - self.symbols)
        new = np.zeros((len(self.rows.columns), room))
        columns = self.rows.columns.copy()
        start = self.symbols
        for k, (place, half, what) in enumerate(added):
            columns[place, 0] += half
            self.rows.radius[place] += _ROUNDING * (half + abs(columns[place, 0]))
            if k < room:
                new[place, k] = half
            else:
                self.rows.radius[place] += half
            if what is not None:
                self.open.append(Open(what.cut, start + k if k < room else -1, half))
        self.rows = Rows(np.concatenate([columns, new], axis=1), self.rows.radius)

    def choose(self, number: int, stage: ChooseStage) -> None:
        rows, e = self.rows, stage.outputs.shape[1]
        n = rows.columns.shape[0]
        matrix = np.zeros((e, n))
        if stage.keep:
            matrix[:, : stage.first] = np.eye(e)
        offsets, half = np.zeros(e), np.zeros(e)
        segments: list[tuple[Floats, Cut]] = []
        choices: list[Any] = []
        for h, (a, b) in enumerate(zip(stage.starts, stage.starts[1:], strict=False)):
            outputs = stage.outputs.floats[a - stage.first : b - stage.first]
            low, high = self._differences(number, h, a, b)
            decide = self._top if stage.k is not None else self._sparse
            weights, unsure, share, cut = decide(number, stage, h, low, high)
            if weights is not None:
                choices.append(weights)
                if stage.k is None:
                    linear, constant = sparsemax_map(weights, stage.temperatures[h])
                    matrix[:, [a + j for j in weights]] += outputs[weights].T @ _floats(linear)
                    offsets += outputs[weights].T @ _floats(constant)
                else:
                    for j, weight in weights.items():
                        offsets += float(weight) * outputs[j]
                continue
            choices.append(None)
            sure, left = unsure
            for j in sure:
                offsets += outputs[j] / stage.k
            hull = outputs[left]
            bottom, top = hull.min(axis=0), hull.max(axis=0)
            offsets += share * (bottom + top) / 2
            if len(left) == 2:
                segments.append((share * (hull[0] - hull[1]) / 2, cut))
            else:
                half += share * (top - bottom) / 2
            if cut is not None:
                width = float(share * (top - bottom).max() / 2)
                symbol = self.symbols + len(segments) - 1 if len(left) == 2 else -1
                self.open.append(Open(cut, symbol, width))
        columns = matrix @ rows.columns
        columns[:, 0] += offsets
        size = np.abs(matrix) @ (np.abs(rows.columns).sum(axis=1) + rows.radius)
        largest = np.abs(stage.outputs.floats).max(axis=0) * len(choices)
        radius = np.abs(matrix) @ rows.radius + half * (1 + 2.0**-40)
        radius += _ROUNDING * (size + largest) + _OF_MAGNITUDE * self.magnitude
        if segments:
            columns = np.concatenate([columns, np.stack([v for v, _ in segments], axis=1)], axis=1)
        self.rows = Rows(columns, radius)
        self.choices.append(None if any(choice is None for choice in choices) else choices)

    def _top(self, number: int, stage: ChooseStage, h: int, low: Floats, high: Floats) -> Any:
        """Weights of the keys of a top-k head, or the keys that surely win and those that may."""
        k, n = stage.k or 1, len(low)
        larger, equal = low > 0.0, self.program.equal[number, h].copy()
        for fact in self.node.facts:
            if fact.cut[0] == "p" and fact.cut[1:3] == (number, h):
                i, j = fact.cut[3:]
                larger[i, j], larger[j, i] = fact.case == ">", fact.case == "<"
                equal[i, j] = equal[j, i] = fact.case == "="
        sure = (~larger).sum(axis=1) - 1 <= k - 1
        out = larger.sum(axis=0) >= k
        contradiction = bool((sure & out).any()) or sure.sum() > k
        left = np.flatnonzero(~sure & ~out)
        n_sure = int(sure.sum())
        if not contradiction and (n_sure == k or len(left)):
            if n_sure == k:
                return dict.fromkeys(np.flatnonzero(sure).tolist(), Fraction(1, k)), None, None, None
            if equal[np.ix_(left, left)].all():
                return (
                    shared_weights(np.flatnonzero(sure).tolist(), left.tolist(), k, stage.ties),
                    None,
                    None,
                    None,
                )
            cut = _open_pair(number, h, left, larger, equal, high)
            if cut is None:  # scores of which the others know too little
                everything = np.arange(n)
                cut = _open_pair(number, h, everything, larger, equal, high)
            if cut is None:
                self.open.append(Open(("empty",), -1, 0.0))
            return None, (np.flatnonzero(sure), left), (k - n_sure) / k, cut
        self.open.append(Open(("empty",), -1, 0.0))
        return None, (np.zeros(0, dtype=np.intp), np.arange(n)), 1.0, None

    def _sparse(self, number: int, stage: ChooseStage, h: int, low: Floats, high: Floats) -> Any:
        """The support of a sparsemax head, or the keys that may have weight."""
        tau, n = float(stage.temperatures[h]), len(low)
        np.fill_diagonal(low, 0.0)
        np.fill_diagonal(high, 0.0)
        above, below = np.maximum(high, 0.0).sum(axis=0), np.maximum(low, 0.0).sum(axis=0)
        slack = 2.0**-40 * (tau + np.abs(high).sum(axis=0))
        out, inside = below >= tau + slack, above <= tau - slack
        rows = self.rows
        a = stage.starts[h]
        for fact in self.node.facts:
            if fact.cut[0] == "f" and fact.cut[1:3] == (number, h):
                _, _, _, j, keys = fact.cut
                sign = 1.0 if fact.case == ">=" else -1.0
                at = a + np.array(keys, dtype=np.intp)
                row = rows.columns[at].sum(axis=0) - len(keys) * rows.columns[a + j]
                row[0] -= tau
                size = np.abs(rows.columns[at]).sum() + len(keys) * np.abs(rows.columns[a + j]).sum() + tau
                error = rows.radius[at].sum() + len(keys) * rows.radius[a + j] + _ROUNDING * size
                self.facts[fact.cut] = Rows(sign * row[None], np.array([error]))
                if fact.case == ">=":
                    out[j] = True
                else:
                    known = np.zeros(n, dtype=bool)
                    known[list(keys)] = True
                    inside[j] |= bool((low[known, j] >= 0.0).all() and (high[~known, j] <= 0.0).all())
        if (out | inside).all() and inside.any() and not (out & inside).any():
            return np.flatnonzero(inside).tolist(), None, None, None
        if (out | inside).all():
            inside_only = inside & ~out
            if inside_only.any():  # weight zero either way: on the border of the support
                return np.flatnonzero(inside_only).tolist(), None, None, None
            self.open.append(Open(("empty",), -1, 0.0))
            return None, (np.zeros(0, dtype=np.intp), np.arange(n)), 1.0, None
        left = np.flatnonzero(~out)
        j = int(np.flatnonzero(~out & ~inside)[0])
        unknown = (low[:, j] < 0.0) & (high[:, j] > 0.0)
        if unknown.any():
            i = int(np.argmax(np.where(unknown, high[:, j] - low[:, j], -1.0)))
            cut: Cut = ("p", number, h, min(i, j), max(i, j))
        else:
            keys = np.flatnonzero((low[:, j] >= 0.0) & (np.arange(n) != j))
            cut = ("f", number, h, j, tuple(keys.tolist()))
        return None, (np.zeros(0, dtype=np.intp), left), 1.0, cut


def _unbeaten(low: Floats) -> NDArray[np.intp]:
    """The scores that are left when each that another one left is at least as large as is dropped."""
    left = list(range(len(low)))
    for j in range(len(low)):
        if any(low[i, j] >= 0.0 for i in left if i != j):
            left.remove(j)
    return np.array(left, dtype=np.intp)


def _open_pair(
    number: int,
    h: int,
    keys: NDArray[np.intp],
    larger: NDArray[np.bool_],
    equal: NDArray[np.bool_],
    high: Floats,
) -> Cut | None:
    """The pair of keys whose order is the most open."""
    best, found = -np.inf, None
    for place, i in enumerate(keys.tolist()):
        for j in keys[place + 1 :].tolist():
            if not (larger[i, j] or larger[j, i] or equal[i, j]):
                openness = min(high[i, j], high[j, i])
                if openness > best:
                    best, found = openness, ("p", number, h, i, j)
    return found


def shared_weights(sure: list[int], tied: list[int], k: int, ties: str) -> dict[int, Fraction]:
    """Weights where some keys surely win and others tie for the places that are left.

    >>> shared_weights([2], [0, 1], 2, "mean")
    {2: Fraction(1, 2), 0: Fraction(1, 4), 1: Fraction(1, 4)}
    """
    weights = dict.fromkeys(sure, Fraction(1, k))
    left = k - len(sure)
    if ties == "mean":
        return weights | dict.fromkeys(tied, Fraction(left, k * len(tied)))
    order = sorted(tied, reverse=ties == "rightmost")
    return weights | dict.fromkeys(order[:left], Fraction(1, k))


def sparsemax_map(support: list[int], tau: Fraction) -> tuple[list[list[Fraction]], list[Fraction]]:
    """The weights of a support as affine functions of its scores.

    >>> sparsemax_map([0, 3], Fraction(1))[1]
    [Fraction(1, 2), Fraction(1, 2)]
    """
    n = len(support)
    linear = [[(Fraction(int(i == j)) - Fraction(1, n)) / tau for j in range(n)] for i in range(n)]
    return linear, [Fraction(1, n)] * n


def _floats(values: Any) -> Floats:
    return np.array(values, dtype=np.float64)


def relaxed(program: Program, node: Node, magnitudes: list[float]) -> Outcome:
    """Bounds on everything that a node's box and facts say about the network."""
    middle, radius = node.ball
    columns = np.zeros((program.d, 1 + program.d))
    columns[:, 0] = middle
    columns[np.arange(program.d), 1 + np.arange(program.d)] = radius
    inputs = Rows(columns, np.zeros(program.d))
    walk = _Walk(program, node, inputs)
    for number, (stage, magnitude) in enumerate(zip(program.stages, magnitudes, strict=True)):
        walk.magnitude = magnitude
        if isinstance(stage, AffineStage):
            walk.affine(stage)
        elif isinstance(stage, ReluStage):
            walk.relu(number, stage)
        elif isinstance(stage, MaxStage):
            walk.maxima(number, stage)
        else:
            walk.choose(number, stage)
        size = np.abs(walk.rows.columns).max(initial=0.0)
        if not size < 2.0**8 * magnitude:
            walk.lost = True
    total = walk.rows.columns.shape[1]
    facts = [walk.facts[fact.cut].padded(total) for fact in node.facts]
    equal = [fact.case == "=" for fact in node.facts]
    return Outcome(walk.rows, inputs.padded(total), facts, walk.choices, walk.open, walk.lost, equal)
