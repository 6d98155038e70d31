r"""The plane engine: the cells of a network in a polygon or the whole plane, exactly.

The compiled machine of :mod:`hardmax.regions.plane.kernels` cuts polygons until its stack is empty. It stops
now and then: because its time slice is over (for progress, limits, checkpoints and Ctrl-C), because an array
is full, or because a sign is undecided. Undecided signs are decided here in integers: a node of a fold layer
gets the missing entries of its sign masks, a node of a wall layer gets the whole envelope of its head. Both
then go on in the machine, which never learns who decided.
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
from hardmax.networks.layers import FoldLayer, Layer, MaxLayer, WallLayer
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, Cells, Ragged, decode_wall, encode_wall
from hardmax.regions.engine.layers import (
    A_MAX,
    C_MAX,
    CERTIFIED,
    ERRORS,
    EXACT,
    FLOAT,
    RA,
    RC,
    ROWS,
    SIGN_AT,
    UNIT,
    Z_AT,
)
from hardmax.regions.engine.program import Program
from hardmax.regions.engine.stack_machine import StackMachine
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.plane import kernels
from hardmax.regions.plane.double_double import (
    DoubleDoubleMaps,
    Rows,
    difference,
    one_row,
    side_row,
    signs_at_corners,
)
from hardmax.regions.plane.rational_polygons import (
    Corner,
    Line,
    corners_of,
    domain_polygon,
    envelope,
    sign_at,
)

__all__ = ["PlaneMachine"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TRUST = {"exact": EXACT, "certified": CERTIFIED, "float": FLOAT}
_F = kernels.FLOATS_PER_EDGE
_SYMBOLIC_SIDES: list[Line] = [(0, 1, 0, 1), (-1, 0, 0, 1), (0, -1, 0, 1), (1, 0, 0, 1)]


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

    def __init__(
        self, layers: tuple[Layer, ...], domain: Domain, *, arithmetic: str, store: bool, sliver: float
    ) -> None:
        self.layers = layers
        self.domain = domain
        self.exact_maps = ExactMaps(layers, domain)
        self.program = program = Program.of(layers)
        self.control = np.zeros(kernels.CONTROL, dtype=np.int64)
        self.control[kernels.C_TRUST] = _TRUST[arithmetic]
        self.control[kernels.C_LAST] = program.last
        self.control[kernels.C_EMIT] = store
        self.control[kernels.C_WORDS] = program.words
        self.control[kernels.C_ROUTES] = program.heads
        self.control[kernels.C_MOST_CELLS] = np.iinfo(np.int64).max
        self.totals = np.array([0.0, sliver, 1.0])  # area so far, tolerance, unit of length
        self.layer_cells = np.zeros(program.last + 2, dtype=np.int64)
        self.path = np.zeros(program.path_size)
        self.errors = np.zeros((program.last + 2, ERRORS))
        self.signs = np.zeros(program.sign_size, dtype=np.int64)
        self.double_double = DoubleDoubleMaps(layers)
        self.decided_exactly = 0
        self.decided_by_pairs = 0
        self.whole = True  # false while the node on top of the stack is being replaced
        lines, labels = self._domain_lines(domain)
        self.unbounded = any(line[3] for line in lines)
        self.control[kernels.C_STRIDE] = 5 if self.unbounded else 3  # floats per vertex that is written down
        self._make_work(edges=max(70, len(lines) + 8))
        self.si: Integers = self._ints(1 << 16)
        self.sf: Floats = np.zeros(1 << 17)
        self._make_output(1 << 10 if store else 0, 1 << 13 if store else 0)
        self._begin(lines, labels, domain)

    # arrays

    @staticmethod
    def _ints(n: int) -> Integers:
        return np.zeros(n, dtype=np.int64)

    def _make_work(self, *, edges: int) -> None:
        widest = self.program.widest
        self.work: dict[str, NDArray[Any]] = {
            "p": np.zeros(_F * edges),
            "q": self._ints(2 * edges),
            "pend": self._ints(3 * widest),
            "word": self._ints(widest // 64 + 1),
            "yv": np.zeros(3 * widest),
            "routes": self._ints(widest + 1),
            "code": self._ints(edges),
            "codes": self._ints(2 * widest + 2),
            "extra": np.zeros(2 * _F),
            "units": self._ints(widest),
            "on": self._ints(widest + 1),
            "pending": self._ints(3 * widest + 3),
            "more": self._ints(widest),
            "cand": self._ints(3 * widest),
            "todo": self._ints(2 * widest),
            "bag_f": np.zeros(_F * edges * 16),
            "bag_i": self._ints(2 * edges * 16),
            "bag_k": self._ints(widest),
            "df": np.zeros(_F * edges),
            "di": self._ints(2 * edges),
        }
        self.answer = self._ints(edges)

    def _make_stack(self, ints: int, floats: int) -> None:
        si, sf = self._ints(ints), np.zeros(floats)
        si[: len(self.si)], sf[: len(self.sf)] = self.si, self.sf
        self.si, self.sf = si, sf

    @property
    def _stride(self) -> int:
        return int(self.control[kernels.C_STRIDE])

    def _make_output(self, cells: int, edges: int) -> None:
        shapes = {
            "bits": (np.uint64, cells * self.program.words),
            "routes": (np.int32, cells * self.program.heads),
            "tied": (np.uint8, cells),
            "start": (np.int64, cells + 1),
            "vertices": (np.float64, self._stride * edges),
            "labels": (np.int64, 2 * edges),
            "witness": (np.float64, 3 * cells),
        }
        if not hasattr(self, "output"):
            self.output = {name: np.zeros(max(size, 1), dtype=kind) for name, (kind, size) in shapes.items()}
            return
        for name, (_, size) in shapes.items():
            # the memory is moved, not copied, where the system can: a big result is never held twice
            self.output[name].resize(max(size, 1), refcheck=False)

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
        p, q = self.work["p"], self.work["q"]
        for v, label in enumerate(labels):
            edge = p[_F * v : _F * (v + 1)]
            if label < 0:
                edge[kernels.LA : kernels.LC + 1] = _SYMBOLIC_SIDES[-1 - label][:3]
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
        while not self._descend(k):
            self._make_stack(2 * len(self.si), 2 * len(self.sf))

    def _descend(self, k: int) -> bool:
        w = self.work
        return bool(
            kernels.descend(
                self.program.net, self.path, self.errors, self.signs, self.control, w["p"],
                w["q"], k, 0,
                self.sf, self.si, w["units"], w["on"], w["pending"], w["more"],
            )
        )  # fmt: skip

    # running

    def advance(self, steps: int) -> None:
        """Work off at most ``steps`` nodes of the stack, deciding in rationals what floats cannot."""
        before = self.control[kernels.C_STEPS]
        while self.control[kernels.C_STEPS] - before < steps:
            self._run(int(steps - (self.control[kernels.C_STEPS] - before)))
            status = int(self.control[kernels.C_STATUS])
            if status in (kernels.DONE, kernels.BUDGET):
                return
            if status == kernels.UNDECIDED_FOLD:
                self._decide_fold()
            elif status == kernels.UNDECIDED_HEAD:
                self._decide_head()
            elif status == kernels.STACK_FULL:
                self._make_stack(2 * len(self.si), 2 * len(self.sf))
            elif status == kernels.OUTPUT_FULL:
                self._grow_output()
            elif status == kernels.UNCERTAIN:
                self._place_corners()
            else:
                self._grow_work()

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
        w, o = self.work, self.output
        kernels.run(
            self.program.net, self.path, self.errors, self.signs,
            self.control,
            self.totals, self.answer, self.sf, self.si, self.layer_cells, w["p"], w["q"], w["pend"],
            w["word"], w["yv"],
            w["routes"], w["code"], w["codes"], w["extra"], w["units"], w["on"], w["pending"], w["more"],
            w["cand"],
            w["todo"], w["bag_f"], w["bag_i"], w["bag_k"], w["df"], w["di"], o["bits"], o["routes"],
            o["tied"], o["start"], o["vertices"], o["labels"], o["witness"], budget,
        )  # fmt: skip

    def _grow_output(self) -> None:
        cells, edges = len(self.output["tied"]), len(self.output["labels"]) // 2
        if int(self.control[kernels.C_OUT_CELLS]) + 1 >= len(self.output["start"]):
            cells = int(1.25 * cells) + 1024
        else:
            edges = int(1.25 * edges) + len(self.work["q"])  # room for any polygon that fits the work arrays
        self._make_output(cells, edges)

    def _grow_work(self) -> None:
        """Room for bigger polygons, or for more cells of one head."""
        edges = len(self.work["q"]) // 2
        bag = len(self.work["bag_i"]) // (2 * edges)
        k = int(self.si[self.control[kernels.C_INTS] - 5])
        if k + 8 > edges:
            self._make_work(edges=2 * edges)
        else:
            self.work["bag_f"] = np.zeros(_F * edges * 2 * bag)
            self.work["bag_i"] = np.zeros(2 * edges * 2 * bag, dtype=np.int64)

    # checkpoints

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything a later process needs to go on, as arrays."""
        n, edges = int(self.control[kernels.C_OUT_CELLS]), int(self.control[kernels.C_OUT_EDGES])
        sizes = {"bits": n * self.program.words, "routes": n * self.program.heads, "tied": n, "start": n + 1}
        sizes |= {"vertices": self._stride * edges, "labels": 2 * edges, "witness": 3 * n}
        return {
            "control": self.control,
            "totals": self.totals,
            "layer_cells": self.layer_cells,
            "path": self.path,
            "errors": self.errors,
            "signs": self.signs,
            "stack_ints": self.si[: self.control[kernels.C_INTS]],
            "stack_floats": self.sf[: self.control[kernels.C_FLOATS]],
            "decided": np.array([self.decided_exactly, self.decided_by_pairs]),
            "answer": self.answer if self.control[kernels.C_ANSWERED] else self.answer[:0],
            **{f"output_{name}": self.output[name][:size] for name, size in sizes.items()},
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a saved state of a machine for the same question."""
        for name in ("control", "totals", "layer_cells", "path", "errors", "signs"):
            getattr(self, name)[...] = state[name]
        ints, floats = state["stack_ints"], state["stack_floats"]
        if len(ints) > len(self.si) or len(floats) > len(self.sf):
            self._make_stack(max(len(self.si), 2 * len(ints)), max(len(self.sf), 2 * len(floats)))
        self.si[: len(ints)], self.sf[: len(floats)] = ints, floats
        self.decided_exactly, self.decided_by_pairs = (int(v) for v in state["decided"])
        self.double_double.forget()
        answer = state["answer"]
        if len(answer) > len(self.answer):
            self._make_work(edges=len(answer))
        self.answer[: len(answer)] = answer
        if len(state.get("output_tied", ())):  # a piece brings no cells along
            for name in self.output:
                saved = state[f"output_{name}"]
                self.output[name] = np.zeros(max(len(saved), 1), dtype=self.output[name].dtype)
                self.output[name][: len(saved)] = saved
        self.whole = True

    def take(self) -> Cells:
        """What was written down since the last time; the machine keeps nothing of it."""
        room = len(self.output["tied"]), len(self.output["labels"]) // 2
        cells = self.cells()
        self.control[[kernels.C_OUT_CELLS, kernels.C_OUT_EDGES]] = 0
        del self.output
        self._make_output(*room)
        return cells

    # exact decisions

    def _top(self) -> tuple[int, int, int, int, int, int]:
        """Layer, head, edges, pending units, first int and first float of the node on top of the stack."""
        end, floats = int(self.control[kernels.C_INTS]), int(self.control[kernels.C_FLOATS])
        header = self.si[end - kernels.HEADER : end]
        return (
            int(header[1]),
            int(header[2]),
            int(header[3]),
            int(header[4]),
            end - int(header[6]),
            floats - int(header[7]),
        )

    def _exact_lines(
        self, labels: Integers, bits: NDArray[np.uint64], routings: NDArray[np.int32]
    ) -> list[Line]:
        lines: list[Line] = []
        for owner, wall in labels.reshape(-1, 2).tolist():
            if owner == AT_INFINITY:
                lines.append(_SYMBOLIC_SIDES[wall])
                continue
            if owner == DOMAIN_SIDE:
                row = self.exact_maps.domain_line(wall)
            else:
                row = self.exact_maps.line(*decode_wall(wall), bits, routings)
            lines.append((row[0], row[1], row[2], 0))
        return lines

    def _decide_fold(self) -> None:
        """Fill in the undecided signs of the node on top of the stack."""
        layer, _, k, n_pending, at, _ = self._top()
        if k > kernels.MASK:
            self.decided_exactly += 1
            bits, routings = self._prefix(layer)
            corners = corners_of(self._exact_lines(self.si[at : at + 2 * k], bits, routings))
            unit = int(self.control[kernels.C_ASKED_UNIT])
            line = self.exact_maps.line(layer, unit, 0, 0, bits, routings)
            for v, corner in enumerate(corners):
                self.answer[v] = (0, 1, 2)[sign_at(line, corner)]
            self.control[kernels.C_ANSWERED] = 1
            return
        pending = self.si[at + 2 * k : at + 2 * k + 3 * n_pending].reshape(-1, 3)
        if self.control[kernels.C_TRUST] == CERTIFIED:
            self._decide_by_pairs(layer, self.si[at : at + 2 * k], pending)
        if not (pending[:, 1] & pending[:, 2]).any():
            self.decided_by_pairs += 1
            return
        self.decided_exactly += 1
        bits, routings = self._prefix(layer)
        corners = corners_of(self._exact_lines(self.si[at : at + 2 * k], bits, routings))
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

    def _decide_by_pairs(self, layer: int, labels: Integers, pending: Integers) -> None:
        """Settle what double-double arithmetic can settle in the sign masks of a fold node."""
        path = self._path(layer)
        if path is None:
            return
        with np.errstate(all="ignore"):
            self._settle_by_pairs(layer, labels, pending, *path)

    def _settle_by_pairs(
        self,
        layer: int,
        labels: Integers,
        pending: Integers,
        serials: dict[int, int],
        winners: dict[int, Integers],
    ) -> None:
        lines: list[Rows | None] = []
        for owner, wall in labels.reshape(-1, 2).tolist():
            if owner == AT_INFINITY:
                lines.append(None)
            elif owner == DOMAIN_SIDE:
                lines.append(side_row(self.domain, wall))
            else:
                at, group, a, b = decode_wall(wall)
                rows = self.double_double.rows(at, serials, winners)
                lines.append(one_row(rows, group) if a == b else difference(rows, b, a))
        rows = self.double_double.rows(layer, serials, winners)
        asked = np.flatnonzero(pending[:, 1] & pending[:, 2])
        codes = signs_at_corners(lines, rows, pending[asked, 0])
        for row, signs in zip(asked, codes, strict=True):
            for v in np.flatnonzero(signs).tolist():
                if int(pending[row, 1] & pending[row, 2]) >> v & 1:
                    pending[row, 2 if signs[v] > 0 else 1] &= ~(1 << v)

    def _path(self, layer: int) -> tuple[dict[int, int], dict[int, Integers]] | None:
        """Numbers of the layer cells up to a layer, and who is on or wins there; ``None`` if keys tie."""
        serials: dict[int, int] = {}
        winners: dict[int, Integers] = {}
        for i, block in enumerate(self.layers[: layer + 1]):
            at = int(self.program.table[i, SIGN_AT])
            if isinstance(block, FoldLayer):
                serials[i] = int(self.signs[at])
                words = self.signs[at + 2 : at + 2 - (-block.units // 64)].astype("<i8")
                winners[i] = np.unpackbits(words.view(np.uint8), bitorder="little")[: block.units].astype(
                    np.int64
                )
            elif isinstance(block, WallLayer):
                serials[i] = int(self.signs[at])
                if i < layer and self.signs[at + 1]:
                    return None
                winners[i] = self.signs[at + 2 : at + 2 + block.heads]
        return serials, winners

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

    def _decide_head(self) -> None:
        """Replace the node on top of the stack by the cells of its next head."""
        self.decided_exactly += 1
        layer, head, k, _, at, float_at = self._top()
        block = self.layers[layer]
        assert isinstance(block, WallLayer)
        bits, routings = self._prefix(layer)
        labels = self.si[at : at + 2 * k].copy()
        lines = self._exact_lines(labels, bits, routings)
        first, stop = int(block.head_start[head]), int(block.head_start[head + 1])
        rows = self.exact_maps.lines(layer, bits, routings)[first:stop]
        parts = envelope(lines, corners_of(lines), rows)
        edges = self.sf[float_at : float_at + _F * k].reshape(-1, _F).copy()
        bends = isinstance(block, MaxLayer)  # keys that coincide have one value, and nothing is carried along
        e = 0 if layer == self.program.last or bends else block.d_out
        hidden = self.sf[float_at + _F * k : float_at + _F * k + e].copy()
        routes = self.si[at + 2 * k : at + 2 * k + block.heads].copy()
        tied_before = int(self.si[self.control[kernels.C_INTS] - 3])
        self.whole = False
        self.control[kernels.C_INTS], self.control[kernels.C_FLOATS] = at, float_at
        for key, tied, sides in reversed(parts):
            polygon, names = self._part(layer, head, first, key, sides, edges, labels)
            flag = tied_before | (len(tied) > 1 and not bends)
            while not kernels.push_head(
                self.control, self.program.table, self.program.weights, layer, head, first + key, polygon,
                names,
                len(sides), routes, hidden, e, flag, self.sf, self.si,
            ):  # fmt: skip
                self._make_stack(2 * len(self.si), 2 * len(self.sf))
            if len(tied) > 1 and e:
                members = first + np.array(tied)
                shares = block.multiplicities[members] / block.multiplicities[members].sum()
                end = int(self.control[kernels.C_FLOATS])
                self.sf[end - e : end] = hidden + shares @ block.outputs.floats[members]
        self.whole = True

    def _part(
        self, layer: int, head: int, first: int, key: int, sides: list[int], edges: Floats, labels: Integers
    ) -> tuple[Floats, Integers]:
        """The polygon of one winner in floats: its lines, and the vertices where they meet."""
        table, error = self.program.table[layer], self.errors[layer]
        z, n = int(table[Z_AT]), int(table[ROWS])
        rows = self.path[z : z + 3 * n].reshape(3, n)
        owner = int(self.signs[table[SIGN_AT]])
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
        n, edges = int(self.control[kernels.C_OUT_CELLS]), int(self.control[kernels.C_OUT_EDGES])
        self._make_output(n, edges)
        vertices = self.output["vertices"][: self._stride * edges].reshape(-1, self._stride)
        labels = self.output["labels"][: 2 * edges].reshape(-1, 2)
        witness = self.output["witness"][: 3 * n].reshape(-1, 3)
        for array in self.output.values():
            array.setflags(write=False)
        offsets = self.output["start"][: n + 1]
        return Cells(
            kind="polygons",
            bits=self.output["bits"][: n * self.program.words].reshape(n, self.program.words),
            routings=self.output["routes"][: n * self.program.heads].reshape(n, self.program.heads),
            tied=self.output["tied"][:n],
            witnesses=witness[:, :2],
            margins=witness[:, 2],
            facets=Ragged(offsets, labels),
            vertices=Ragged(offsets, vertices),
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
