r"""The plane engine: the cells of a network in a polygon or the whole plane, exactly.

The compiled machine of :mod:`hardmax.regions.plane.kernels` cuts polygons until its stack is empty. It stops
now and then: because its time slice is over (for progress, limits, checkpoints and Ctrl-C), because an array
is full, or because a sign is undecided. Undecided signs are decided here, in double-double or in
integers: a node of a fold layer gets the missing entries of its sign masks, a node of a wall layer gets the
whole envelope of its head. The kernel then resumes.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import EmptyDomainError
from hardmax.exact.rationals import nearest_float
from hardmax.geometry.domains import Domain
from hardmax.networks.layers import Layer
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, Cells, Ragged, decode_wall, encode_wall
from hardmax.regions.engine.decide import CompiledLadder
from hardmax.regions.engine.layer_kernels import A_MAX, C_MAX, HEADER, RA, RC, UNIT
from hardmax.regions.engine.stack_machine import Column, StackMachine, State, allocated
from hardmax.regions.plane import kernels
from hardmax.regions.plane.geometry import (
    FAR_SIDES,
    Corner,
    Line,
    corners_of,
    domain_polygon,
    envelope,
    sign_at,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_F = kernels.FLOATS_PER_EDGE


class PlaneMachine(StackMachine):
    """A resumable enumeration: ``advance`` until ``done``, then read the counts and, if stored, the cells.

    Parameters
    ----------
    layers : tuple of Layer
        The network; its input is the plane.
    domain : Domain
        A box, a polygon, or the whole plane.
    arithmetic : str
        ``"certified"``, ``"exact"`` or ``"float"``.
    store : bool
        Whether cells are written down or only counted.
    sliver : float
        A cell whose area is below ``sliver`` times half its perimeter counts as a sliver, in units of the
        size of a bounded domain.
    """

    kernels: ClassVar[Any] = kernels
    units = ("cells", "edges")
    saved = (*StackMachine.saved, "totals")

    def __init__(
        self, layers: tuple[Layer, ...], domain: Domain, *, arithmetic: str, store: bool, sliver: float
    ) -> None:
        super().__init__(layers, domain, arithmetic=arithmetic, store=store)
        self.totals = np.array([0.0, sliver, 1.0])  # area so far, tolerance, unit of length
        lines, labels = self._domain_lines(domain)
        self.unbounded = any(line[3] for line in lines)
        self.control[kernels.C_STRIDE] = 5 if self.unbounded else 3  # floats per vertex that is written down
        keys = int(np.diff(self.program.heads_at).max(initial=0))  # of the largest head
        self._make_work(edges=max(70, len(lines) + 8), bag=min(max(keys, 16), 512))
        self._make_output(1 << 10 if store else 0, 1 << 13 if store else 0)
        self._begin(lines, labels, domain)

    ladder: CompiledLadder

    def _ladder(self) -> CompiledLadder:
        return CompiledLadder(self.program, self.domain)

    # arrays

    def _make_work(self, *, edges: int, bag: int = 16) -> None:
        """Room for polygons with so many edges, and for so many cells of one head."""
        widest, floats = self.program.widest, _F * edges
        self._edges, self._bag = edges, bag
        self.work: kernels.Work = allocated(
            kernels.Work,
            {
                "p": floats,
                "q": 2 * edges,
                "half_p": floats,
                "half_q": 2 * edges,
                "limits": 2 * edges,
                "pend": 3 * widest + 3,
                "word": widest // 64 + 1,
                "yv": widest,
                "routes": widest + 1,
                "code": edges,
                "codes": 2 * widest + 2,
                "extra": 2 * _F,
                "units": widest + 1,
                "positive": widest // 64 + 1,
                "negative": widest // 64 + 1,
            },
        )
        self.keys: kernels.Heads = allocated(
            kernels.Heads,
            {
                "cand": 4 * widest,
                "todo": 2 * widest,
                "bag_f": floats * bag,
                "bag_i": 2 * edges * bag,
                "bag_k": widest,
                "df": floats,
                "di": 2 * edges,
                "n_level": 1,
            },
        )
        self.answer = np.zeros(edges, dtype=np.int64)

    @property
    def _stride(self) -> int:
        return int(self.control[kernels.C_STRIDE])

    def _columns(self) -> dict[str, Column]:
        return super()._columns() | {
            "start": Column("cells", more=1),
            "vertices": Column("edges", self._stride),
            "labels": Column("edges", 2),
            "witness": Column("cells", 3),
        }

    def _largest(self) -> tuple[int, ...]:
        return 1024, 2 * self._edges

    @property
    def _state(self) -> kernels.State:
        return kernels.State(
            self.control, self.totals, self.layer_cells, self.path, self.errors, self.signs, self.answer,
            self.si, self.sf,
        )  # fmt: skip

    # the first polygon

    def _domain_lines(self, domain: Domain) -> tuple[list[Line], list[int]]:
        halfspaces = [self.exact_maps.domain_line(i) for i in range(domain.b.shape[0])]
        polygon = domain_polygon(halfspaces)
        if polygon is None:
            raise EmptyDomainError(
                "domain must have interior, but its half-spaces leave no open set; check A x <= b."
            )
        return polygon

    def _begin(self, lines: list[Line], labels: list[int], domain: Domain) -> None:
        a, b = domain.halfspaces()
        rounded = domain.a.rounded or domain.b.rounded
        p, q = self.work.p, self.work.q
        for v, label in enumerate(labels):
            edge = p[_F * v : _F * (v + 1)]
            if label < 0:
                edge[kernels.LA : kernels.LC + 1] = FAR_SIDES[-1 - label][:3]
                edge[kernels.LDC] = kernels.SYMBOLIC
                q[2 * v], q[2 * v + 1] = AT_INFINITY, -1 - label
            else:
                edge[kernels.LA], edge[kernels.LB], edge[kernels.LC] = -a[label, 0], -a[label, 1], b[label]
                edge[kernels.LDA] = UNIT * np.abs(a[label]).max() if rounded else 0.0
                edge[kernels.LDC] = UNIT * abs(b[label]) if rounded else 0.0
                q[2 * v], q[2 * v + 1] = DOMAIN_SIDE, label
        k = len(lines)
        kernels.close_polygon(p, k)
        if not self.unbounded:
            self.totals[2], self.domain_area = _size(corners_of(lines))
        self.path[:6] = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]  # the identity map of the plane
        while not kernels.begin(self.program.net, self._state, self.work, self.ladder.rungs, k):
            self._grow_stack()

    # running

    @property
    def size(self) -> float:
        """Area of the bounded cells found so far, in the machine's unit."""
        return float(self.totals[0])

    def share(self, size: float) -> float | None:
        """An area in the machine's unit over the area of the domain; ``None`` where that has no meaning."""
        if self.unbounded or not self.domain_area > 0.0:
            return None
        return size / self.domain_area

    def _run(self, budget: int) -> None:
        kernels.run(
            self.program.net, self._state, self.work, self.keys, self.ladder.rungs,
            kernels.Out(**self.output), budget,
        )  # fmt: skip

    def _resume(self, status: int) -> None:
        if status == kernels.UNCERTAIN:
            self._place_corners()
        elif int(self.si[self.control[kernels.C_INTS] - 5]) + 8 > self._edges:
            self._make_work(edges=2 * self._edges)
        else:
            self._make_work(edges=self._edges, bag=2 * self._bag)

    # checkpoints

    def state(self) -> State:
        """Everything a later process needs to go on, as arrays."""
        answered = self.control[kernels.C_ANSWERED]
        return {**super().state(), "answer": self.answer if answered else self.answer[:0]}

    def restore(self, state: State) -> None:
        """Go back to a saved state of a machine for the same question."""
        super().restore(state)
        answer = state["answer"]
        if len(answer) > len(self.answer):
            self._make_work(edges=len(answer))
        self.answer[: len(answer)] = answer

    # exact decisions

    def _top(self) -> tuple[int, int, int, int, int, int]:
        """Layer, head, edges, pending units, first int and first float of the node on top of the stack."""
        end, floats = int(self.control[kernels.C_INTS]), int(self.control[kernels.C_FLOATS])
        _, layer, head, edges, pending, _, ints, size = self.si[end - HEADER : end].tolist()
        return layer, head, edges, pending, end - ints, floats - size

    def _exact_lines(
        self, labels: Integers, bits: NDArray[np.uint64], routings: NDArray[np.int32]
    ) -> list[Line]:
        lines: list[Line] = []
        for owner, wall in labels.reshape(-1, 2).tolist():
            if owner == AT_INFINITY:
                lines.append(FAR_SIDES[wall])
                continue
            if owner == DOMAIN_SIDE:
                row = self.exact_maps.domain_line(wall)
            else:
                row = self.exact_maps.line(*decode_wall(wall), bits, routings)
            lines.append((row[0], row[1], row[2], 0))
        return lines

    def _pending(self) -> tuple[int, Integers, Integers]:
        """Of the fold node on top of the stack: layer, labels of its sides, sign masks of its units."""
        layer, _, k, n_pending, at, _ = self._top()
        masks = self.si[at + 2 * k : at + 2 * k + 3 * n_pending].reshape(-1, 3)
        return layer, self.si[at : at + 2 * k], masks

    def _fold_exactly(self) -> None:
        """Fill in the undecided signs of the node on top of the stack."""
        layer, labels, pending = self._pending()
        bits, routings = self._prefix(layer)
        corners = corners_of(self._exact_lines(labels, bits, routings))
        if len(corners) > kernels.MASK:  # no masks: only the unit that was asked for
            unit = int(self.control[kernels.C_ASKED_UNIT])
            line = self.exact_maps.line(layer, unit, 0, 0, bits, routings)
            for v, corner in enumerate(corners):
                self.answer[v] = (0, 1, 2)[sign_at(line, corner)]
            self.control[kernels.C_ANSWERED] = 1
            return
        for row in pending:
            undecided = int(row[1] & row[2])
            if not undecided:
                continue
            line = self.exact_maps.line(layer, int(row[0]), 0, 0, bits, routings)
            positive, negative = int(row[1]) & ~undecided, int(row[2]) & ~undecided
            for v, corner in enumerate(corners):
                if undecided >> v & 1:
                    sign = sign_at(line, corner)
                    positive |= (sign > 0) << v
                    negative |= (sign < 0) << v
            row[1], row[2] = positive, negative

    def _place_corners(self) -> None:
        """Replace the vertices of the cell on top of the stack by its exact corners, correctly rounded."""
        layer, _, k, _, at, float_at = self._top()
        bits, routings = self._prefix(layer)
        corners = corners_of(self._exact_lines(self.si[at : at + 2 * k], bits, routings))
        vertices = self.sf[float_at : float_at + _F * k].reshape(-1, _F)
        for vertex, (x, y, w, dx, dy) in zip(vertices, corners, strict=True):
            place = [nearest_float(Fraction(v, w)) for v in (x, y, dx, dy)]
            error = 2.0 * UNIT * (abs(place[0]) + abs(place[1])) + sys.float_info.min
            far = 2.0 * UNIT * (abs(place[2]) + abs(place[3]))
            vertex[: kernels.LA] = place[0], place[1], 1.0, error, 0.0, place[2], place[3], far

    def _head_exactly(self) -> None:
        """Replace the node on top of the stack by the cells of its next head."""
        layer, head, k, _, at, float_at = self._top()
        block, keys, e = self.layers[layer], self.program.keys(layer, head), self.program.carried(layer)
        bits, routings = self._prefix(layer)
        labels = self.si[at : at + 2 * k].copy()
        lines = self._exact_lines(labels, bits, routings)
        rows = self.exact_maps.lines(layer, bits, routings)[keys]
        parts = envelope(lines, corners_of(lines), rows)
        edges = self.sf[float_at : float_at + _F * k].reshape(-1, _F).copy()
        hidden = self.sf[float_at + _F * k : float_at + _F * k + e].copy()
        routes = self.si[at + 2 * k : at + 2 * k + block.heads].copy()
        tied_before = int(self.si[self.control[kernels.C_INTS] - 3])
        self.whole = False
        self.control[kernels.C_INTS], self.control[kernels.C_FLOATS] = at, float_at
        self._join_keys(layer, [[keys.start + i for i in tied] for _, tied, _ in parts])
        for key, _, sides in reversed(parts):
            polygon, names = self._part(layer, head, keys.start, key, sides, edges, labels)
            while not kernels.push_head(
                self.program.net, self._state, layer, head, keys.start + key, polygon, names, len(sides),
                routes, hidden, e, tied_before,
            ):  # fmt: skip
                self._grow_stack()
        self.whole = True

    def _part(
        self, layer: int, head: int, first: int, key: int, sides: list[int], edges: Floats, labels: Integers
    ) -> tuple[Floats, Integers]:
        """The polygon of one winner in floats: its lines, and the vertices where they meet."""
        row, error, owner = self.program.row(layer), self.errors[layer], self._owner(layer)
        rows = self.path[row.z_at : row.z_at + 3 * row.rows].reshape(3, row.rows)
        polygon, names = np.zeros((len(sides), _F)), np.zeros((len(sides), 2), dtype=np.int64)
        for v, s in enumerate(sides):
            if s >= 0:
                polygon[v] = edges[s]
                names[v] = labels[2 * s : 2 * s + 2]
                continue
            i, j = first + (-1 - s), first + key
            with np.errstate(all="ignore"):
                polygon[v, kernels.LA : kernels.LC + 1] = rows[:, i] - rows[:, j]
            polygon[v, kernels.LDA] = 2.0 * error[RA] + 2.0 * UNIT * error[A_MAX]
            polygon[v, kernels.LDC] = 2.0 * error[RC] + 2.0 * UNIT * error[C_MAX]
            names[v] = owner, encode_wall(layer, head, min(i, j), max(i, j))
        flat = np.ascontiguousarray(polygon.ravel())
        kernels.close_polygon(flat, len(sides))
        return flat, np.ascontiguousarray(names.ravel())

    # results

    def cells(self) -> Cells:
        """What was written down."""
        (n, edges), common = self._written()
        vertices = self.output["vertices"][: self._stride * edges].reshape(-1, self._stride)
        labels = self.output["labels"][: 2 * edges].reshape(-1, 2)
        witness = self.output["witness"][: 3 * n].reshape(-1, 3)
        offsets = self.output["start"][: n + 1]
        return Cells(
            kind="polygons",
            witnesses=witness[:, :2],
            margins=witness[:, 2],
            facets=Ragged(offsets, labels),
            vertices=Ragged(offsets, vertices),
            **common,
        )

    @property
    def tolerance(self) -> float:
        """How thin a sliver is, in the coordinates of the domain."""
        return float(self.totals[1] / self.totals[2])


def _size(corners: list[Corner]) -> tuple[float, float]:
    """A power of two that brings a bounded polygon to size about 1, and its area then (0: unknown)."""
    points = [(Fraction(x, w), Fraction(y, w)) for x, y, w, _, _ in corners]
    size = max(max(p[c] for p in points) - min(p[c] for p in points) for c in range(2))
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if abs(exponent) > 1000:
        return 1.0, 0.0  # no float can tell its vertices apart
    unit = Fraction(2) ** -exponent
    area = sum(
        (x * v - y * u for (x, y), (u, v) in zip(points, points[1:] + points[:1], strict=True)), Fraction(0)
    )
    return float(unit), float(area * unit * unit / 2)
