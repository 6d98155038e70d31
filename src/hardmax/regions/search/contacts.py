r"""Which of the cells that the search found touch, and whether a fold or a wall lies between them.

Across the fold of a unit the map is continuous, so the later hyperplanes of both sides meet the fold in the
same places: the cell beyond a facet is the one whose signature differs in that unit only, if no keys are tied
in either of them. Across a wall the map jumps, and signatures beyond may differ in many places; there, and
wherever a fold has no such partner, pairs of facets in one hyperplane are tested for a common part of
dimension :math:`d - 1`, in floats with proven bounds and in rationals where those leave it open.

Two cells that touch have the same signature up to some layer and part in it, so the hyperplane between them
was drawn in that layer, in one and the same layer cell; only facets drawn there are paired.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from hardmax.networks.layers import Layer
from hardmax.regions.cells import Cells, Contacts, decode_wall
from hardmax.regions.search import kernels
from hardmax.regions.search.outline import Outline, decoded, plain
from hardmax.regions.search.rational_programs import IntegerRow, reduced, share_facet

__all__ = ["contacts_of"]

Integers = NDArray[np.int64]


def contacts_of(cells: Cells, layers: tuple[Layer, ...], outline: Outline) -> Contacts:
    """All pairs of cells that meet in dimension d - 1.

    Lengths are not known (NaN); ``edges`` number the facets of all cells.
    """
    return _Contact(cells, layers, outline).found()


class _Contact:
    """The pairs of cells that touch, found facet by facet."""

    def __init__(self, cells: Cells, layers: tuple[Layer, ...], outline: Outline) -> None:
        self.cells, self.layers, self.outline = cells, layers, outline
        self.pairs: dict[tuple[int, int], tuple[int, int, int]] = {}

    def found(self) -> Contacts:
        outline = self.outline
        true = np.flatnonzero((outline.verdict == 1) & (outline.codes >= 0))
        number = np.cumsum(outline.verdict == 1) - 1  # of each facet among the facets of all cells
        left = self._by_signature(true)
        beyond = self._by_programs(left)
        pairs = np.array(sorted(self.pairs), dtype=np.int64).reshape(-1, 2)
        found = [self.pairs[i, j] for i, j in pairs.tolist()]
        return Contacts(
            pairs=pairs,
            kinds=np.array([kind for kind, _, _ in found], dtype=np.uint8),
            lengths=np.full(len(pairs), np.nan),
            edges=number[np.array([edges for _, *edges in found], dtype=np.int64).reshape(-1, 2)],
            uncovered=number[np.array(beyond, dtype=np.int64)],
        )

    def _add(self, f: int, g: int, kind: int) -> None:
        i, j = int(self.outline.cell_of[f]), int(self.outline.cell_of[g])
        if i > j:
            i, j, f, g = j, i, g, f
        self.pairs[i, j] = kind, f, g

    def _by_signature(self, true: Integers) -> list[int]:
        """Match facets on folds with those of the cell beyond; returns those that are left."""
        cells = self.cells
        facet_of = {(int(self.outline.cell_of[f]), int(self.outline.codes[f])): int(f) for f in true.tolist()}
        index = {
            (cells.bits[i].tobytes(), cells.routings[i].tobytes()): i
            for i in range(cells.n)
            if not cells.tied[i]
        }
        left = []
        for f in true.tolist():
            i, code = int(self.outline.cell_of[f]), int(self.outline.codes[f])
            layer, unit, _, _ = decode_wall(code)
            block = self.layers[layer]
            partner = None
            if block.units and not cells.tied[i]:
                bits = cells.bits[i].copy()
                u = block.unit_slice.start + unit
                bits[u >> 6] ^= np.uint64(1) << np.uint64(u & 63)
                j = index.get((bits.tobytes(), cells.routings[i].tobytes()))
                partner = None if j is None else facet_of.get((j, code))
            if partner is None:
                left.append(f)
            else:
                self._add(f, partner, 0)
        return left

    def _by_programs(self, left: list[int]) -> list[int]:
        """Test pairs of facets in one hyperplane; returns the facets that have nothing beyond."""
        groups: dict[tuple[int, IntegerRow], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        cell = self.outline.cell_of[left]
        layer = decoded(self.outline.codes[left])[0]
        owners = self.outline.layer_cells(layer, cell)
        for f, owner, number in zip(left, owners.tolist(), layer.tolist(), strict=True):
            row = reduced(self.outline.row(f))
            turned = tuple(-v for v in row)
            groups[owner * len(self.layers) + number, max(row, turned)][int(row > turned)].append(f)
        tests = [(f, g) for below, above in groups.values() for f in below for g in above]
        covered = set()
        for (f, g), meet in zip(tests, self._touch(tests), strict=True):
            if meet:
                number = decode_wall(int(self.outline.codes[f]))[0]
                self._add(f, g, int(self._jumps(self.layers[number])))
                covered |= {f, g}
        return [f for f in left if f not in covered]

    @staticmethod
    def _jumps(layer: Layer) -> bool:
        """Whether a hyperplane of this layer is a wall."""
        return layer.jumps

    def _touch(self, tests: list[tuple[int, int]]) -> list[bool]:
        if not tests:
            return []
        o, t = self.outline, self.outline.work
        facets = np.array(tests, dtype=np.int64)
        table = np.ascontiguousarray(np.column_stack([o.cell_of[facets], facets]))
        verdict = np.zeros(len(tests), dtype=np.uint8)
        kernels.touching(
            table, plain(self.cells.facets.offsets), plain(self.outline.codes), o.sign, o.rows, o.errors,
            o.n, verdict, t["base"], t["base_error"], t["lifted"], t["lifted_error"], t["basis"],
            t["inverse"], t["multipliers"], t["y"], t["values"], t["c"], t["z"],
        )  # fmt: skip
        answers = []
        for (i, j, f, _), found in zip(table.tolist(), verdict.tolist(), strict=True):
            if found == 2:
                rows = [*o.rows_of(i), *o.rows_of(j), o.infinity]
                found = share_facet(o.row(f), rows)
            answers.append(bool(found))
        return answers
