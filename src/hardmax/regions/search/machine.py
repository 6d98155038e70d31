r"""The search engine: the cells of a network in any dimension by linear programs, exactly.

Vertices of cells multiply with the dimension (about :math:`2^d` per cell for random networks), so beyond six
dimensions cells are not cut but searched for. The compiled machine of :mod:`hardmax.regions.search.kernels`
goes through units and keys in order and asks of every side whether it is empty. It stops when its time slice
is over, when an array is full, or when a question is undecided: a side whose margin is lost in the error of
the rows, or that is a set without interior. Such questions are decided here in rationals, by the same
question for exact rows (:mod:`hardmax.geometry.feasibility.rational_programs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import EmptyDomainError
from hardmax.exact.rationals import nearest_float
from hardmax.geometry.domains import Box, Domain
from hardmax.networks.layers import Layer
from hardmax.regions.cells import DOMAIN_SIDE, NOT_NAMED, Cells, Ragged, encode_wall
from hardmax.regions.engine.layer_kernels import HEADER
from hardmax.regions.engine.stack_machine import Column, StackMachine, State
from hardmax.regions.search import kernels
from hardmax.regions.search.geometry import (
    IntegerRow,
    base_of,
    bounding_box,
    domain_is_bounded,
    exact_row,
    inner_point,
    is_bounded,
    times,
    unit_sides,
    units_of,
    workspace,
)
from hardmax.regions.search.simplex_kernels import EMPTY, INSIDE

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class SearchMachine(StackMachine):
    """A resumable enumeration: ``advance`` until ``done``, then read the counts and, if stored, the cells.

    Parameters
    ----------
    layers : tuple of Layer
        The network.
    domain : Domain
        A box, a polytope, or the whole space, of any dimension.
    arithmetic : str
        ``"certified"``, ``"exact"`` or ``"float"``.
    store : bool
        Whether cells are written down or only counted.
    sliver : float
        Cells have no volume here, so none is called a sliver.
    """

    kernels: ClassVar[Any] = kernels
    units = ("cells", "facets")
    saved = (*StackMachine.saved, "rows", "row_errors", "base_at", "pend", "totals", "around")
    stack = (1 << 12, 1 << 12)
    slow = 4
    begins_at_once = False

    def __init__(
        self, layers: tuple[Layer, ...], domain: Domain, *, arithmetic: str, store: bool, sliver: float = 0.0
    ) -> None:
        super().__init__(layers, domain, arithmetic=arithmetic, store=store)
        self.arithmetic = arithmetic
        self.sliver = sliver
        self.n = n = domain.d + 1
        self.control[kernels.C_DIMENSION] = n
        program = self.program
        self._row_at = program.row_at
        self.rows = np.zeros((int(self._row_at[-1]) + 1, n))
        self.row_errors = np.zeros(int(self._row_at[-1]) + 1)
        self.pend = np.zeros(int(self._row_at[-1]) + 1, dtype=np.int64)
        self.totals = np.zeros(1)
        self.base_at = np.zeros((program.last + 2, 2), dtype=np.int64)
        self._box = self._bounds = domain if isinstance(domain, Box) else None
        self.around = np.zeros((2, domain.d))  # corners of a box around a bounded polytope, once it is known
        sides = 0 if self._box else domain.b.shape[0]
        self._base = base_of(64 + 4 * (sides + 2), n)
        self._make_work(64 + 2 * (sides + 2))
        self._units = units_of(program.layers, self._box, self._sides)
        self._make_output(1 << 8 if store else 0, 1 << 11 if store else 0)
        self.control[kernels.C_STATUS] = kernels.WAITING

    # arrays

    def _make_work(self, size: int) -> None:
        self._size = size
        is_domain = self._box is not None
        self.work, self.simplex = workspace(
            size, self.n, self.program.widest, self._bounds, is_domain=is_domain
        )

    def _columns(self) -> dict[str, Column]:
        return super()._columns() | {
            "start": Column("cells", more=1),
            "codes": Column("facets"),
            "witness": Column("cells", self.n),
        }

    def _largest(self) -> tuple[int, ...]:
        return 1024, 2 * len(self._base.rows) + (2 * self._box.d if self._box else 0)

    @property
    def _state(self) -> kernels.State:
        return kernels.State(
            self.control, self.layer_cells, self.path, self.errors, self.rows, self.row_errors, self._row_at,
            self.signs, self.pend, self.base_at, self.si, self.sf, self.totals,
        )  # fmt: skip

    # the first cone

    def _begin(self) -> None:
        if self._box is not None:
            m, (w, known) = 0, self._middle(self._box)
        else:
            m = self._write_sides()
            rows = self._domain_rows
            bounded = domain_is_bounded(self.exact_maps, self.check_time)
            witness = inner_point(rows, self.check_time)
            if witness is None:
                raise EmptyDomainError(
                    "domain must have interior, but its half-spaces leave no open set; check A x <= b."
                )
            if bounded:
                box = bounding_box(rows, witness, self.check_time)
                self.around[...] = box.low.floats, box.high.floats
                self._search_around()
                m -= 1  # x_0 is 1
            self.control[kernels.C_OPEN_DOMAIN] = not bounded
            w, known = self._rounded(witness, rows)
        for i in range(self.n - 1):  # the identity map, column by column
            self.path[i * (self.n - 1) + i] = 1.0
        while not kernels.descend(
            self.program.net, self._units, self._state, self.work, 0, m, w, 1.0, known, 0, 0
        ):
            self._grow_stack()
        self.control[kernels.C_STATUS] = kernels.RUNNING

    def _search_around(self) -> None:
        """Solve programs in the box around the domain."""
        self._bounds = Box(*self.around)
        self._make_work(self._size)
        self._units = units_of(self.program.layers, self._bounds, self._sides)

    def _middle(self, box: Box) -> tuple[Floats, int]:
        """The middle of a box, which is inside without any program, and whether its floats are inside too."""
        w = np.append(0.5 * box.low.floats + 0.5 * box.high.floats, 1.0)
        sides = enumerate(zip(box.low.numbers.tolist(), box.high.numbers.tolist(), strict=True))
        return w, int(all(low < Fraction(w[i]) < high for i, (low, high) in sides))

    def _write_sides(self) -> int:
        """The sides of a domain that is no box, and x_0 > 0, as the rows of the first cone."""
        sides, errors = unit_sides(self.exact_maps)
        m, base = len(sides) + 1, self._base
        base.rows[:m] = np.concatenate([sides, np.eye(self.n)[-1:]])
        base.error[:m] = np.append(errors, 0.0)
        base.code[:m] = [*(kernels.SIDE - i for i in range(m - 1)), kernels.INFINITY]
        base.sign[:m] = 1
        return m

    @cached_property
    def _sides(self) -> list[IntegerRow]:
        """The sides of a domain that is no box as integers."""
        return [] if self._box else [self.exact_maps.domain_line(i) for i in range(self.domain.b.shape[0])]

    @cached_property
    def _domain_rows(self) -> list[IntegerRow]:
        """The sides of the domain and x_0 > 0 as integers."""
        sides = range(self.domain.b.shape[0])
        return [*(self.exact_maps.domain_line(i) for i in sides), (*[0] * (self.n - 1), 1)]

    # running

    @property
    def size(self) -> float:
        """The share of the tree of cells that is settled, if every split halves what it splits."""
        return float(self.totals[0])

    def settled(self, size: float) -> float | None:
        """Volumes are not known here, but how much of the tree is done."""
        return size

    @property
    def n_programs(self) -> int:
        """Linear programs solved so far in floats."""
        return int(self.control[kernels.C_PROGRAMS])

    def _run(self, budget: int) -> None:
        if self.control[kernels.C_STATUS] == kernels.WAITING:
            self._begin()
        kernels.run(
            self.program.net, self._units, self._state, self._base, self.work, self.simplex,
            kernels.Out(**self.output), budget,
        )  # fmt: skip

    def _resume(self, status: int) -> None:
        if status == kernels.UNDECIDED_CELL:
            self.ladder.decide(self._cell_exactly)
        else:
            self._grow_work()

    def _grow_work(self) -> None:
        before, self._base = self._base, base_of(2 * len(self._base.rows), self.n)
        for array, saved in zip(self._base, before, strict=True):
            array[: len(saved)] = saved
        self._make_work(2 * self._size)

    # exact decisions

    def _fold_exactly(self) -> None:
        """The unit at which the node on top of the stack stopped, on both sides, in rationals."""
        node = _Node(self)
        bits, routings = self._prefix(node.layer)
        unit = int(self.pend[self._row_at[node.layer] + node.place])
        z = self.exact_maps.line(node.layer, unit, 0, 0, bits, routings)
        cone = self._exact_cone(node, bits, routings)
        sides: dict[int, tuple[Floats, int]] = {}
        if not any(z):
            sides[0] = node.w, node.known
        else:
            at_witness = times(z, _rationals(node.w)) if node.known else 0
            for side in (0, 1):
                row = z if side else tuple(-v for v in z)
                if at_witness and (at_witness > 0) == (side == 1):
                    sides[side] = node.w, 1
                    continue
                point = inner_point([*cone, row], self.check_time)
                if point is not None:
                    sides[side] = self._rounded(point, [*cone, row])
        self._replace(node)
        both = len(sides) == 2
        for side in sorted(sides, reverse=True):
            w, known = sides[side]
            word = node.choice.copy()
            if side:
                word[unit >> 6] |= np.int64(np.uint64(1 << (unit & 63)).view(np.int64))
            cuts = node.cuts
            if both:
                cuts = np.append(cuts, [encode_wall(node.layer, unit), 2 * side - 1])
            share = node.share / len(sides)
            self._push(node, node.head, node.place + 1, cuts, word, w, share, node.hidden, known, node.tied)
        self.whole = True

    def _cell_exactly(self) -> None:
        """Whether the cell on top of the stack is bounded, in rationals."""
        node = _Node(self)
        rows = self._exact_cone(node, *self._prefix(node.layer))
        verdict = EMPTY if is_bounded(rows, self.n - 1, self.check_time) else INSIDE
        self.control[kernels.C_ANSWERED] = verdict

    def _head_exactly(self) -> None:
        """The head at which the node on top of the stack stopped: who wins where, in rationals."""
        node = _Node(self)
        block, keys = self.layers[node.layer], self.program.keys(node.layer, node.head)
        bits, routings = self._prefix(node.layer)
        cone = self._exact_cone(node, bits, routings)
        scores = self.exact_maps.lines(node.layer, bits, routings)[keys]
        members: dict[IntegerRow, list[int]] = {}
        for key, score in enumerate(scores, keys.start):
            members.setdefault(tuple(score), []).append(key)
        groups = list(members.values())
        winners = self._envelope(cone, list(members))
        names = [groups[i] for i in winners]
        self._join_keys(node.layer, names)
        self._replace(node)
        for i in sorted(winners, reverse=True):
            group, (w, known) = groups[i], winners[i]
            key = group[0]
            cuts = node.cuts.tolist()
            for other in names:
                if other[0] != key:
                    low, high = min(key, other[0]), max(key, other[0])
                    cuts += [encode_wall(node.layer, node.head, low, high), 1 if key == high else -1]
            choice = node.choice.copy()
            choice[node.head] = key
            hidden = node.hidden
            if len(hidden):
                with np.errstate(all="ignore"):
                    hidden = hidden + block.mean_output(np.array(group))
            tied = node.tied | (len(group) > 1 and block.shares)  # equal maxima are one
            drawn = np.array(cuts, dtype=np.int64)
            share = node.share / len(winners)
            self._push(node, node.head + 1, node.place, drawn, choice, w, share, hidden, known, tied)
        self.whole = True

    def _envelope(self, cone: list[IntegerRow], scores: list[IntegerRow]) -> dict[int, tuple[Floats, int]]:
        """Which of different scores win on an open part of a cone, each with a witness.

        A score is held against those known to win first: most are beaten by them.
        """
        found: dict[int, tuple[Floats, int]] = {}
        for i, score in enumerate(scores):
            known = [_minus(score, scores[j]) for j in found]
            if known and inner_point([*cone, *known], self.check_time) is None:
                continue
            rows = [*cone, *(_minus(score, rival) for rival in scores if rival != score)]
            point = inner_point(rows, self.check_time)
            if point is not None:
                found[i] = self._rounded(point, rows)
        return found

    def _rounded(self, point: Sequence[flint.fmpq], rows: Sequence[IntegerRow]) -> tuple[Floats, int]:
        """A rational witness in floats, and whether the floats are inside too."""
        largest = point[-1] if self._bounds else max(abs(v) for v in point)
        parts = [v / largest for v in point]
        w = np.array([nearest_float(Fraction(int(v.p), int(v.q))) for v in parts])
        exact = _rationals(w) if np.isfinite(w).all() else None
        return w, int(exact is not None and all(times(row, exact) > 0 for row in rows))

    def _exact_cone(
        self, node: _Node, bits: NDArray[np.uint64], routings: NDArray[np.int32]
    ) -> list[IntegerRow]:
        """The rows of the cone of a node as integers, positive inside."""
        start, m = (int(v) for v in self.base_at[node.layer])
        labels = [(int(self._base.code[i]), int(self._base.sign[i])) for i in range(start, start + m)]
        labels += list(zip(node.cuts[::2].tolist(), node.cuts[1::2].tolist(), strict=True))
        rows = [exact_row(self.exact_maps, code, sign, bits, routings) for code, sign in labels]
        if self._box:
            return [*self._domain_rows, *rows]
        return [*rows, self._domain_rows[-1]] if self._bounds else rows

    def _replace(self, node: _Node) -> None:
        self.whole = False
        self.control[kernels.C_INTS], self.control[kernels.C_FLOATS] = node.first_int, node.first_float
        self.control[kernels.C_STEPS] += 1

    def _push(
        self, node: _Node, head: int, place: int, cuts: Integers, choice: Integers, w: Floats, share: float,
        hidden: Floats, known: int, tied: int,
    ) -> None:  # fmt: skip
        n_cuts, e = len(cuts) // 2, len(hidden)
        cuts = np.ascontiguousarray(cuts, dtype=np.int64)
        while not kernels.push(
            self._state, node.layer, head, place, cuts, n_cuts, choice, len(choice), w, share, hidden, e,
            int(known), int(tied),
        ):  # fmt: skip
            self._grow_stack()

    # checkpoints

    def state(self) -> State:
        """Everything a later process needs to go on, as arrays."""
        used = int(self.base_at.sum(axis=1).max())
        base = {f"base_{name}": array[:used] for name, array in self._base._asdict().items()}
        return {**super().state(), **base}

    def restore(self, state: State) -> None:
        """Go back to a saved state of a machine for the same question."""
        super().restore(state)
        if self._bounds is None and self.around.any():
            self._search_around()
        while len(self._base.rows) < len(state["base_rows"]):
            self._grow_work()
        for name, array in self._base._asdict().items():
            array[: len(state[f"base_{name}"])] = state[f"base_{name}"]

    def split(self) -> list[State]:
        """The work that is left as independent states, in the order of their cells; this machine keeps what
        it has found."""
        if self.control[kernels.C_STATUS] == kernels.WAITING:
            self._begin()
        state = self.state()
        return self.cut(state, max(len(state["stack_ints"]), 1))

    # results

    def cells(self) -> Cells:
        """What was written down."""
        (n, facets), common = self._written()
        witness = self.output["witness"][: self.n * n].reshape(n, self.n)
        codes = self.output["codes"][:facets]
        side = codes <= kernels.SIDE
        owner, wall = np.where(side, DOMAIN_SIDE, NOT_NAMED), np.where(side, kernels.SIDE - codes, codes)
        return Cells(
            kind="halfspaces",
            witnesses=witness[:, :-1],
            margins=witness[:, -1],
            facets=Ragged(self.output["start"][: n + 1], np.column_stack([owner, wall])),
            vertices=Ragged(np.zeros(n + 1, dtype=np.int64), np.zeros((0, 0))),
            **common,
        )

    @property
    def tolerance(self) -> float:
        """How small the margin of a sliver is."""
        return self.sliver


class _Node:
    """The node on top of the stack."""

    def __init__(self, machine: SearchMachine) -> None:
        end, floats = int(machine.control[kernels.C_INTS]), int(machine.control[kernels.C_FLOATS])
        header = machine.si[end - HEADER : end]
        self.known, self.layer, self.head, n_cuts, place, self.tied, ints, reals = (int(v) for v in header)
        self.place = -place
        self.first_int, self.first_float = end - ints, floats - reals
        body = machine.si[self.first_int : end - HEADER].copy()
        self.cuts, self.choice = body[: 2 * n_cuts], body[2 * n_cuts :]
        at = self.first_float + machine.n
        self.w = machine.sf[self.first_float : at].copy()
        self.share, self.hidden = float(machine.sf[at]), machine.sf[at + 1 : floats].copy()


def _rationals(point: Floats) -> list[flint.fmpq]:
    return [flint.fmpq(*float(v).as_integer_ratio()) for v in point]


def _minus(u: Sequence[int], v: Sequence[int]) -> IntegerRow:
    return tuple(a - b for a, b in zip(u, v, strict=True))
