r"""The space engine: the cells of a network in three to six dimensions, exactly.

The compiled machine of :mod:`hardmax.regions.space.kernels` cuts polyhedra until its stack is empty. Where a
sign is undecided in floats it is decided here in integers, as in the plane: a node of a fold layer gets the
missing entries of its sets of rays, a node of a wall layer is cut into the cells of its head. Polyhedra that
contain a line have no vertices to work with; they are cut here too. They are few: every cut takes a line
away, unless the network does not see it at all.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import EmptyDomainError
from hardmax.geometry.cones.rational_splitting import RationalCone
from hardmax.geometry.cones.splitting_kernels import EMPTIES
from hardmax.geometry.domains import Box, Domain
from hardmax.networks.layers import Layer
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, Cells, Ragged, decode_wall, encode_wall
from hardmax.regions.engine.decide import CompiledLadder
from hardmax.regions.engine.layer_kernels import HEADER
from hardmax.regions.engine.stack_machine import Column, StackMachine, State
from hardmax.regions.space import kernels

LARGEST_DIMENSION = 6  # beyond, a cell has more vertices than constraints are worth

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Row = list[int]

_REMEMBERED = 50_000  # exact rays
_ROUGHLY = 1e-6  # relative error of a vertex above which it is placed by rationals


class SpaceMachine(StackMachine):
    """A resumable enumeration: ``advance`` until ``done``, then read the counts and, if stored, the cells.

    Parameters
    ----------
    layers : tuple of Layer
        The network; its input has the dimension of the domain.
    domain : Domain
        A box, a polytope, or the whole space.
    arithmetic : str
        ``"certified"``, ``"exact"`` or ``"float"``.
    store : bool
        Whether cells are written down or only counted.
    sliver : float
        Kept for the region set: which cells are slivers follows from their volumes.
    """

    kernels: ClassVar[Any] = kernels
    units = ("cells", "rays", "facets")

    def __init__(
        self, layers: tuple[Layer, ...], domain: Domain, *, arithmetic: str, store: bool, sliver: float
    ) -> None:
        self._units = _units(domain)
        super().__init__(layers, domain, arithmetic=arithmetic, store=store)
        self.d = domain.d
        self.D = domain.d + 1
        self.slow = max(0, 2 * (domain.d - 4))
        self.sliver = sliver
        self._rays: dict[tuple[Any, ...], Row] = {}
        self._mask_words = 1
        root = self._root()
        self._ray_words, self._facet_words = 1, 1
        while len(root.facets) + 8 > 64 * self._facet_words:
            self._facet_words *= 2
        while 2 * len(root.rays) > 64 * self._ray_words:
            self._ray_words *= 2
        self._bag = 8
        self._make_work()
        self._make_output(1 << 8 if store else 0, 1 << 12 if store else 0, 1 << 11 if store else 0)
        self._begin(root)

    ladder: CompiledLadder

    def _ladder(self) -> CompiledLadder:
        return CompiledLadder(self.program, self.domain, units=self._units)

    # arrays

    def _make_work(self) -> None:
        D, widest = self.D, self.program.widest
        rays, facets = 64 * self._ray_words, 64 * self._facet_words

        def ints(n: int) -> Integers:
            return np.zeros(n, dtype=np.int64)

        def words(*shape: int) -> NDArray[np.uint64]:
            return np.zeros(shape, dtype=np.uint64)

        table, sides = np.zeros((rays, D + 1)), np.zeros((facets, D + 1))
        mask, label = words(rays, self._facet_words), np.zeros((facets, 3), dtype=np.int64)
        self.cell = kernels.Cell(
            rays=table,
            mask=mask,
            alive=words(self._ray_words),
            facets=sides,
            label=label,
            used=words(self._facet_words),
            flat_rays=table.reshape(-1),
            flat_mask=mask.reshape(-1),
            flat_facets=sides.reshape(-1),
            flat_label=label.reshape(-1),
        )
        self.pending = kernels.Pending(
            ints(widest), words(self._ray_words, widest), words(self._ray_words, widest)
        )
        self._node_ints = (
            3 * facets + self._facet_words + self._ray_words + rays * self._facet_words
            + widest * (2 + 2 * self._ray_words) + HEADER
        )  # fmt: skip
        self._node_floats = (D + 1) * (facets + rays) + D * widest
        bag_i = ints(self._bag * self._node_ints)
        keys = max(self.program.row(i).rows for i in range(self.program.last + 1)) + 1
        self.room = kernels.Room(
            word=ints(widest // 64 + 1),
            routes=ints(widest + 1),
            hidden=np.zeros(D * widest),
            on=ints(widest + 1),
            sums=np.zeros(widest),
            above=words(self._ray_words),
            below=words(self._ray_words),
            fresh=words(self._ray_words),
            rest=words(self._ray_words),
            pick=ints(D),
            pool=ints(facets),
            minors=np.zeros(1 << D),
            residual=np.zeros((facets, D)),
            row=np.zeros(D),
            slots=ints(rays),
            near=words(rays),
            pairs=np.zeros((rays, 2), dtype=np.int64),
            bounds=np.zeros(rays),
            size=ints(2),
            place=ints(facets),
        )
        self.keys = kernels.Heads(
            table=np.zeros((rays, keys if self.program.heads else 1)),
            slack=np.zeros(rays),
            rivals=ints(2 * keys + 2),
            todo=ints(keys),
            seen=ints(keys),
            place=ints(2 * keys + 4),
            bag_i=bag_i,
            bag_u=bag_i.view(np.uint64),
            bag_f=np.zeros(self._bag * self._node_floats),
        )

    def _columns(self) -> dict[str, Column]:
        return super()._columns() | {
            "free": Column("cells"),
            "ray_start": Column("cells", more=1),
            "rays": Column("rays", self.D + 1),
            "facet_start": Column("cells", more=1),
            "label": Column("facets", 2),
            "mask": Column("rays", self._mask_words, table=True),
            "witness": Column("cells", self.D),
        }

    def _largest(self) -> tuple[int, ...]:
        return 1024, 64 * self._ray_words, 64 * self._facet_words

    def _grow_output(self) -> None:
        if self._mask_words < self._facet_words:
            wider = self._facet_words - self._mask_words
            self.output["mask"] = np.pad(self.output["mask"], ((0, 0), (0, wider)))
            self._mask_words = self._facet_words
        super()._grow_output()

    @property
    def _state(self) -> kernels.State:
        return kernels.State(
            self.control, self.layer_cells, self.path, self.errors, self.signs, self.si,
            self.si.view(np.uint64), self.sf,
        )  # fmt: skip

    @property
    def _out(self) -> kernels.Out:
        return kernels.Out(**self.output)

    # the first polyhedron

    def _root(self) -> RationalCone:
        """The domain as a cone over the hyperplane x0 = 1."""
        cone = RationalCone(self.D)
        cone.cut([0] * self.d + [1], (AT_INFINITY, 0))
        for i in range(self.domain.b.shape[0]):
            row = list(self.exact_maps.domain_line(i))
            if any(row[:-1]) and cone.cut(row, (DOMAIN_SIDE, i)) != EMPTIES:
                continue
            if any(row[:-1]) or row[-1] <= 0:
                raise EmptyDomainError(
                    "domain must have interior, but its half-spaces leave no open set; check A x <= b."
                )
        return cone

    def _begin(self, cone: RationalCone) -> None:
        units = np.diag(np.ldexp(1.0, self._units))
        self.path[: self.D * self.d] = np.vstack([units, np.zeros((1, self.d))]).ravel()
        rays = self._put(cone)
        while not kernels.begin(
            self.D, self.program.net, self._state, self.cell, rays, self.pending, self.room, self.ladder.rungs
        ):
            self._grow_stack()

    def _put(self, cone: RationalCone) -> int:
        """A rational cone becomes the working polyhedron; returns its number of ray slots, 0 with lines."""
        keep = _kept(cone)
        rays = [] if cone.lines else cone.rays
        self._fit(len(rays), len(keep))
        cell = self.cell
        cell.used[:] = 0
        cell.alive[:] = 0
        cell.mask[:] = 0
        for k, s in enumerate(keep):
            row, label = cone.facets[s]
            cell.facets[k] = self._rounded_facet(row)
            cell.label[k] = (*label, 1) if len(label) == 2 else label
            cell.used[k >> 6] |= np.uint64(1 << (k & 63))
        for v, ray in enumerate(rays):
            cell.rays[v] = self._rounded_ray(ray)
            cell.alive[v >> 6] |= np.uint64(1 << (v & 63))
            for k, s in enumerate(keep):
                if cone.masks[v] >> s & 1:
                    cell.mask[v, k >> 6] |= np.uint64(1 << (k & 63))
        return len(rays)

    def _rounded_facet(self, row: Row) -> list[float]:
        """An exact row in the machine's units, scaled to 1-norm at most 1, then the bound on its error."""
        low = min(0, *self._units.tolist())
        inner = [v << (k - low) for v, k in zip(row, (*self._units.tolist(), 0), strict=True)]
        return _rounded(inner, sum(abs(v) for v in inner))

    def _rounded_ray(self, ray: Row) -> list[float]:
        """An exact ray in the machine's units, scaled to entries at most 1, then the bound on its error."""
        high = max(0, *self._units.tolist())
        inner = [v << (high - k) for v, k in zip(ray, (*self._units.tolist(), 0), strict=True)]
        return _rounded(inner, max(abs(v) for v in inner))

    def _fit(self, rays: int, facets: int) -> None:
        """Room in the working cell for a polyhedron of this size, and for a cut of it."""
        before = self._ray_words, self._facet_words
        while rays + 1 > 64 * self._ray_words:
            self._ray_words *= 2
        while facets + 2 > 64 * self._facet_words:
            self._facet_words *= 2
        if before != (self._ray_words, self._facet_words):
            self._make_work()

    # running

    def _run(self, budget: int) -> None:
        kernels.run(
            (0,) * self.D, self.program.net, self._state, self.cell, self.pending, self.room, self.keys,
            self.ladder.rungs, self._out, budget,
        )  # fmt: skip

    def _resume(self, status: int) -> None:
        if status == kernels.HAS_LINES:
            self._cut_lines()
        elif status == kernels.UNCERTAIN:
            self._place_rays()
        else:
            self._bag *= 2 if status == kernels.BAG_FULL else 1
            self._ray_words *= 2 if status == kernels.RAYS_FULL else 1
            self._facet_words *= 2 if status == kernels.FACETS_FULL else 1
            self._make_work()

    # checkpoints

    def restore(self, state: State) -> None:
        """Go back to a saved state of a machine for the same question."""
        super().restore(state)
        self._mask_words = self.output["mask"].shape[1]

    # exact decisions

    def _top(self) -> tuple[int, int, int, int, int, int, int, int]:
        """Of the top node: layer, head, ray slots, pending units, facet slots, tied, first int and float."""
        end, floats = int(self.control[kernels.C_INTS]), int(self.control[kernels.C_FLOATS])
        _, layer, head, rays, pending, facets, ints, size = (int(v) for v in self.si[end - 8 : end])
        return layer, head, rays, pending, facets >> 1, facets & 1, end - ints, floats - size

    def _node(self) -> _Node:
        """The node on top of the stack, with its facets as exact rows."""
        layer, head, rays, n_pending, facets, tied, at, float_at = self._top()
        D, si = self.D, self.si
        words = si.view(np.uint64)
        nwf, nwr = (facets + 63) >> 6, (rays + 63) >> 6
        labels = si[at : at + 3 * facets].reshape(-1, 3)
        at += 3 * facets
        used = _set_of(words[at : at + nwf])
        at += nwf
        alive = _set_of(words[at : at + nwr])
        at += nwr
        masks = [_set_of(row) for row in words[at : at + rays * nwf].reshape(rays, nwf)]
        at += rays * nwf
        bits, routings = self._prefix(layer)
        # units of this layer that were cut on the way here belong to this layer's row; lines ask for layers
        # before only
        rows: dict[int, Row] = {}
        for s in _members(used):
            owner, wall, side = (int(v) for v in labels[s])
            rows[s] = [side * v for v in self._row(owner, wall, bits, routings)]
        pending = si[at : at + n_pending * (1 + 2 * nwr)].reshape(n_pending, 1 + 2 * nwr)
        at += pending.size
        float_at += facets * (D + 1)
        ray_floats = self.sf[float_at : float_at + rays * (D + 1)].reshape(rays, D + 1)
        float_at += rays * (D + 1)
        return _Node(
            layer, head, tied, labels, used, alive, masks, rows, pending, nwr, at, float_at, ray_floats,
            bits, routings,
        )  # fmt: skip

    def _row(
        self, owner: int, wall: int, bits: NDArray[np.uint64], routings: NDArray[np.int32]
    ) -> tuple[int, ...]:
        if owner == AT_INFINITY:
            return (*([0] * self.d), 1)
        if owner == DOMAIN_SIDE:
            return self.exact_maps.domain_line(wall)
        return self.exact_maps.line(*decode_wall(wall), bits, routings)

    def _ray(self, node: _Node, v: int) -> Row:
        """The exact ray in a slot: on all its facets, and on the inner side of the others."""
        mine = _members(node.masks[v] & node.used)
        key = tuple(sorted((int(node.labels[s, 0]), int(node.labels[s, 1])) for s in mine))
        ray = self._rays.get(key)
        if ray is None:
            null, _ = flint.fmpz_mat([node.rows[s] for s in mine]).nullspace()
            ray = [int(null[c, 0]) for c in range(self.D)]
            divisor = abs(int(np.gcd.reduce([abs(x) for x in ray]))) if max(map(abs, ray)) < 2**62 else 1
            if divisor > 1:
                ray = [x // divisor for x in ray]
            if ray[-1] < 0:
                ray = [-x for x in ray]
            if ray[-1] != 0:
                if len(self._rays) >= _REMEMBERED:
                    self._rays.clear()
                self._rays[key] = ray
        if ray[-1] == 0:
            for row in node.rows.values():
                value = _dot(row, ray)
                if value:
                    return ray if value > 0 else [-x for x in ray]
        return ray

    def _fold_exactly(self) -> None:
        """Fill in the undecided signs of the node on top of the stack."""
        node = self._node()
        nwr = node.nwr
        words = node.pending.view(np.uint64)
        positive, negative = words[:, 1 : 1 + nwr], words[:, 1 + nwr :]
        open_somewhere = _set_of(np.bitwise_or.reduce(positive & negative, axis=0))
        rays = {v: self._ray(node, v) for v in _members(open_somewhere)}
        for v, ray in rays.items():
            self._refresh(node, v, ray)
        for j in range(len(words)):
            undecided = _set_of(positive[j] & negative[j])
            if not undecided:
                continue
            row = self.exact_maps.line(node.layer, int(node.pending[j, 0]), 0, 0, node.bits, node.routings)
            for v in _members(undecided):
                value = _dot(row, rays[v])
                here = np.uint64(1 << (v & 63))
                if value <= 0:
                    positive[j, v >> 6] &= ~here
                if value >= 0:
                    negative[j, v >> 6] &= ~here

    def _refresh(self, node: _Node, v: int, ray: Row) -> None:
        """A ray that floats know badly becomes the exact one, rounded."""
        if not node.ray_floats[v, -1] < 1e-12:
            node.ray_floats[v] = self._rounded_ray(ray)

    def _place_rays(self) -> None:
        """Replace the rays of the top node that floats know badly by the exact ones, rounded."""
        node = self._node()
        for v in _members(node.alive):
            x0, error = node.ray_floats[v, -2:]
            if not error < _ROUGHLY * x0:  # directions, with x0 = 0, among them
                ray = self._ray(node, v)
                node.ray_floats[v] = self._rounded_ray(ray)
        self.control[kernels.C_FREE] = 1  # there is no better place for them: do not ask again

    def _cone(self, node: _Node) -> RationalCone:
        """The node on top of the stack as a rational cone; labels are (owner, wall, side)."""
        slots = _members(node.used)
        labels: list[Any] = [tuple(int(v) for v in node.labels[s]) for s in slots]
        if node.alive:
            alive = _members(node.alive)
            masks = [sum(1 << k for k, s in enumerate(slots) if node.masks[v] >> s & 1) for v in alive]
            return RationalCone(
                self.D, [], [self._ray(node, v) for v in alive], masks,
                [(node.rows[s], label) for s, label in zip(slots, labels, strict=True)],
            )  # fmt: skip
        cone = RationalCone(self.D)
        for s, label in zip(slots, labels, strict=True):
            cone.cut(node.rows[s], label)
        return cone

    def _head_exactly(self) -> None:
        """Replace the node on top of the stack by the cells of its next head, in rationals."""
        node = self._node()
        block, keys = self.layers[node.layer], self.program.keys(node.layer, node.head)
        rows = self.exact_maps.lines(node.layer, node.bits, node.routings)[keys]
        first, owner = keys.start, self._owner(node.layer)
        parts = _envelope(
            self._cone(node),
            rows,
            lambda a, b: (owner, encode_wall(node.layer, node.head, first + a, first + b)),
        )
        e = self.program.carried(node.layer)
        hidden = self.sf[node.float_at : node.float_at + e].copy()
        routes = self.si[node.at : node.at + block.heads].copy()
        self._join_keys(node.layer, [[first + i for i in members] for _, members, _ in parts])
        for key, members, cone in self._replacing(parts):
            routes[node.head] = first + key
            flag = node.tied | (len(members) > 1 and block.shares)
            value = hidden + block.mean_output(first + np.array(members)) if e else hidden
            self._push(node.layer, node.head + 1, cone, [], routes, value, flag)

    def _replacing(self, parts: list[Any]) -> Any:
        """Take the top node off the stack, then hand out what replaces it, the last part first."""
        *_, at, float_at = self._top()
        self.whole = False
        self.control[kernels.C_INTS], self.control[kernels.C_FLOATS] = at, float_at
        yield from reversed(parts)
        self.whole = True

    def _push(
        self, layer: int, head: int, cone: RationalCone, pending: list[int], tail: Integers, hidden: Floats,
        tied: int,
    ) -> None:  # fmt: skip
        """Push a node whose polyhedron is a rational cone; nothing is known yet about its pending units."""
        rays = self._put(cone)
        facets = len(_kept(cone))
        nwf, nwr = (facets + 63) >> 6, (rays + 63) >> 6
        cell = self.cell
        undecided = cell.alive[:nwr].view(np.int64)
        ints = np.concatenate(
            [
                cell.label[:facets].ravel(),
                cell.used[:nwf].view(np.int64),
                undecided,
                np.ascontiguousarray(cell.mask[:rays, :nwf]).ravel().view(np.int64),
                *(np.concatenate([[unit], undecided, undecided]) for unit in pending),
                tail,
            ]
        ).astype(np.int64)
        floats = np.concatenate([cell.facets[:facets].ravel(), cell.rays[:rays].ravel(), hidden])
        kind = self.program.row(layer).kind
        size = len(ints) + HEADER
        header = [kind, layer, head, rays, len(pending), 2 * facets + tied, size, len(floats)]
        io, fo = int(self.control[kernels.C_INTS]), int(self.control[kernels.C_FLOATS])
        while io + size > len(self.si) or fo + len(floats) > len(self.sf):
            self._grow_stack()
        self.si[io : io + len(ints)] = ints
        self.si[io + len(ints) : io + size] = header
        self.sf[fo : fo + len(floats)] = floats
        self.control[kernels.C_INTS], self.control[kernels.C_FLOATS] = io + size, fo + len(floats)

    # polyhedra with lines

    def _cut_lines(self) -> None:
        """Go on with a node whose polyhedron contains a line."""
        node = self._node()
        if node.head < self.program.row(node.layer).heads:
            self.ladder.decide(self._head_exactly)
        elif len(node.pending):
            self.ladder.decide(self._fold_lines, node)
        else:
            self._show_lines(node)

    def _fold_lines(self, node: _Node) -> None:
        """Settle units up to the first one that cuts a polyhedron with lines, and cut it."""
        cone, here, e, D = (
            self._cone(node),
            self.program.row(node.layer),
            self.program.carried(node.layer),
            self.D,
        )
        hidden = self.sf[node.float_at : node.float_at + D * e].reshape(D, e).copy()
        words = self.si[node.at : node.at + here.words].copy()
        units = [int(row[0]) for row in node.pending]
        rows = self.path[here.z_at :][: D * here.rows].reshape(D, here.rows)
        outputs = self.program.weights[here.outputs :][: e * here.rows].reshape(here.rows, e)

        def turn_on(unit: int, words: Integers, hidden: Floats) -> None:
            bits = words.view(np.uint64)
            bits[unit >> 6] |= np.uint64(1 << (unit & 63))
            if e:
                hidden += rows[:, unit : unit + 1] * outputs[unit]

        owner = self._owner(node.layer)
        parts: list[Any] = []
        for k, unit in enumerate(units):
            row = list(self.exact_maps.line(node.layer, unit, 0, 0, node.bits, node.routings))
            wall = encode_wall(node.layer, unit)
            on, off = cone.copy(), cone.copy()
            above = on.cut(row, (owner, wall, 1)) != EMPTIES if any(row) else False  # type: ignore[arg-type]
            below = off.cut([-v for v in row], (owner, wall, -1)) != EMPTIES if any(row) else True  # type: ignore[arg-type]
            if above and below:
                parts = [(off, words.copy(), hidden.copy(), units[k + 1 :])]
                turn_on(unit, words, hidden)
                parts.append((on, words, hidden, units[k + 1 :]))
                break
            if above:
                turn_on(unit, words, hidden)
        else:
            parts = [(cone, words, hidden, [])]
        for part, bits, values, rest in self._replacing(parts):
            self._push(node.layer, 0, part, rest, bits, values.ravel(), 0)

    def _show_lines(self, node: _Node) -> None:
        """Give a finished cell that contains lines the rays of its pointed form, to be written down."""
        cone = self._cone(node)
        free, rays = cone.pointed_form()
        layer, tied, head = node.layer, node.tied, node.head
        row = self.program.row(layer)
        tail = self.si[node.at : node.at + row.words + row.heads].copy()
        pointed = RationalCone(self.D, [], rays, list(cone.masks), list(cone.facets))
        if not rays:  # the whole space, seen by nothing
            pointed = RationalCone(self.D, [], [[0] * self.d + [1]], [0], list(cone.facets))
        for part in self._replacing([pointed]):
            self._push(layer, head, part, [], tail, np.zeros(0), tied)
        self.control[kernels.C_FREE] = 2 * free + 1

    # results

    def cells(self) -> Cells:
        """What was written down."""
        (n, rays, facets), common = self._written()
        D, o = self.D, self.output
        witness = o["witness"][: n * D].reshape(n, D)
        vertices = o["rays"][: rays * (D + 1)].reshape(rays, D + 1)
        if self._units.any():  # from the machine's units, with a largest coordinate of about 1 again
            units = np.ldexp(1.0, self._units)
            witness = np.column_stack([witness[:, : self.d] * units, witness[:, self.d] * units.min()])
            vertices = vertices * np.concatenate([units, [1.0, max(units.max(), 1.0)]])
            size = np.ldexp(1.0, -np.frexp(np.abs(vertices[:, :D]).max(axis=1, initial=1e-300))[1])
            vertices *= size[:, None]
            for array in (witness, vertices):
                array.setflags(write=False)
        return Cells(
            kind="polyhedra",
            witnesses=witness[:, : self.d],
            margins=witness[:, self.d],
            facets=Ragged(o["facet_start"][: n + 1], o["label"][: 2 * facets].reshape(facets, 2)),
            vertices=Ragged(o["ray_start"][: n + 1], vertices),
            masks=Ragged(o["ray_start"][: n + 1], o["mask"][:rays]),
            free=o["free"][:n],
            **common,
        )

    @property
    def tolerance(self) -> float:
        """How thin a sliver is: relative to the largest side of a box."""
        box = self.domain if isinstance(self.domain, Box) else None
        if box is None:
            return self.sliver
        sides = box.high.floats / 2.0 - box.low.floats / 2.0  # halves, which do not overflow
        return 2.0 * self.sliver * float(sides.max())


class _Node:
    """The node on top of the stack, unpacked: views into the stack, and exact rows of its facets."""

    def __init__(
        self, layer: int, head: int, tied: int, labels: Integers, used: int, alive: int, masks: list[int],
        rows: dict[int, Row], pending: Integers, nwr: int, at: int, float_at: int, ray_floats: Floats,
        bits: NDArray[np.uint64], routings: NDArray[np.int32],
    ) -> None:  # fmt: skip
        self.layer, self.head, self.tied = layer, head, tied
        self.labels, self.used, self.alive, self.masks, self.rows = labels, used, alive, masks, rows
        self.pending, self.nwr, self.at, self.float_at = pending, nwr, at, float_at
        self.ray_floats, self.bits, self.routings = ray_floats, bits, routings


def _units(domain: Domain) -> Integers:
    """The power of two in which each coordinate is measured: that of a box, if its sides differ much.

    One bound on the error of a ray serves all its coordinates, so they should be of one size.
    """
    none = np.zeros(domain.d, dtype=np.int64)
    if not isinstance(domain, Box):
        return none
    sizes = np.maximum(np.abs(domain.low.floats), np.abs(domain.high.floats))
    units = np.frexp(sizes)[1].astype(np.int64)
    return units if units.max() - units.min() >= 4 and np.abs(units).max() < 100 else none


def _envelope(cone: RationalCone, rows: list[Row], name: Any) -> list[tuple[int, list[int], RationalCone]]:
    """The winners inside a cone: (key, keys that win together, cone), ascending.

    The walk starts from the keys that are highest at an interior point and follows walls.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for key, row in enumerate(rows):
        groups.setdefault(tuple(row), []).append(key)
    members = {group[0]: group for group in groups.values()}
    if len(members) == 1:
        key, group = next(iter(members.items()))
        return [(key, group, cone.copy())]
    point = cone.interior_point()
    values = {key: _dot(rows[key], point) for key in members}
    highest = max(values.values())
    todo = [key for key, value in values.items() if value == highest]
    seen = set(todo)
    parts = []
    while todo:
        key = todo.pop()
        part = cone.copy()
        walls: dict[Any, int] = {}
        empty = False
        for other in sorted(members, key=lambda l: -values[l]):
            if other == key:
                continue
            low, high = min(key, other), max(key, other)
            label = (*name(low, high), 1 if key == high else -1)
            walls[label] = other
            row = [a - b for a, b in zip(rows[key], rows[other], strict=True)]
            if part.cut(row, label) == EMPTIES:
                empty = True
                break
        if empty:
            continue
        parts.append((key, members[key], part))
        for s in part.touching():
            rival = walls.get(part.facets[s][1])
            if rival is not None and rival not in seen:
                seen.add(rival)
                todo.append(rival)
    return sorted(parts, key=lambda part: part[0])


def _kept(cone: RationalCone) -> list[int]:
    """The facets that go with a cone: those it touches, and infinity as long as it contains lines.

    Lines lie at infinity: the rays that come out of them must know.
    """
    keep = cone.touching()
    if cone.lines and 0 not in keep and cone.facets and cone.facets[0][1][0] == AT_INFINITY:
        return [0, *keep]
    return keep


def _rounded(row: Row, size: int) -> list[float]:
    """An integer vector divided by a power of two at least ``size``, then the bound on its error."""
    length = (size - 1).bit_length() if size > 1 else 0
    if length <= 53:
        return [*(float(v) / (1 << length) for v in row), 0.0]
    shift = max(length - 1000, 0)
    floats = [math.ldexp(v >> shift, shift - length) for v in row]
    # what is not zero stays so: a vertex, however far out, is no direction
    tiny = [x if x or not v else 5e-324 if v > 0 else -5e-324 for x, v in zip(floats, row, strict=True)]
    return [*tiny, len(row) * 2.0**-52]


def _dot(a: Any, b: Any) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _set_of(words: NDArray[np.uint64]) -> int:
    """Words of bits as one integer."""
    return sum(int(word) << (64 * w) for w, word in enumerate(words))


def _members(bits: int) -> list[int]:
    """The positions of the ones."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
