r"""What an engine writes down: the cells of a network, in one form for every dimension.

Cells are stored flat, in lexicographic order of their signatures, layer by layer: winners of a head in order
of their keys, a unit off before on. A facet (an edge in the plane, an end on the line) has a name: the *layer
cell* in which its hyperplane was drawn (``owner``: one number per cell of the network up to that layer) and
the code of the unit or the pair of keys (``wall``). So ``(owner, wall)`` names one piece of a hyperplane, and
the cells on its two sides each partition it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hardmax.networks.layers import Layer

Array = NDArray[Any]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

DOMAIN_SIDE, AT_INFINITY = -1, -2  # owners of facets that are no fold and no wall
NOT_NAMED = -3  # the owner of a facet whose layer cell has no number yet

KEY_BITS, GROUP_BITS = 19, 16  # of the codes of walls
_KEY, _GROUP = (1 << KEY_BITS) - 1, (1 << GROUP_BITS) - 1
_REVERSED = np.packbits(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), axis=1
)[:, 0]
_GROWTH = 1.25
_COPIED = 2**27  # bytes of the largest array that is copied as it grows


def encode_wall(layer: int, group: int, a: int = 0, b: int = 0) -> int:
    """The code of unit ``group`` of a fold layer, or of keys a < b of head ``group`` of a wall layer.

    >>> decode_wall(encode_wall(3, 2, 10, 17))
    (3, 2, 10, 17)
    """
    return (layer << (GROUP_BITS + 2 * KEY_BITS)) | (group << (2 * KEY_BITS)) | (a << KEY_BITS) | b


def decode_wall(code: int) -> tuple[int, int, int, int]:
    """``(layer, group, a, b)`` of a code; a = b = 0 for a unit."""
    code = int(code)
    return (
        code >> (GROUP_BITS + 2 * KEY_BITS),
        (code >> (2 * KEY_BITS)) & _GROUP,
        (code >> KEY_BITS) & _KEY,
        code & _KEY,
    )


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows that belong to cells: those of cell i are ``content[offsets[i]:offsets[i + 1]]``.

    Examples
    --------
    >>> polygons = Ragged(np.array([0, 3, 7, 10]), np.arange(10))
    >>> polygons[1], polygons.counts, polygons.cell_of
    (array([3, 4, 5, 6]), array([3, 4, 3]), array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2]))
    >>> some = polygons[np.array([True, False, True])]
    >>> some.offsets, some.content
    (array([0, 3, 6]), array([0, 1, 2, 7, 8, 9]))
    """

    offsets: Integers
    content: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, chosen: Any) -> Any:
        """The rows of one cell; or, for a slice, a mask or an array of numbers, those of some cells."""
        if isinstance(chosen, slice):
            offsets = self.offsets[chosen.start : chosen.stop + 1]
            return Ragged(offsets - offsets[0], self.content[offsets[0] : offsets[-1]])
        if isinstance(chosen, np.ndarray):
            cells = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
            counts = self.counts[cells]
            offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            rows = np.arange(offsets[-1]) + np.repeat(self.offsets[cells] - offsets[:-1], counts)
            return Ragged(offsets, self.content[rows])
        return self.content[self.offsets[chosen] : self.offsets[chosen + 1]]

    @property
    def counts(self) -> Integers:
        """How many rows each cell has."""
        return np.diff(self.offsets)

    @property
    def cell_of(self) -> Integers:
        """The cell of every row."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.counts)

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return int(self.offsets.nbytes + self.content.nbytes)

    def span(self, i: int) -> range:
        """The numbers of the rows of cell ``i``."""
        return range(int(self.offsets[i]), int(self.offsets[i + 1]))


class Contacts(NamedTuple):
    """Pairs of adjacent cells, read-only.

    Attributes
    ----------
    pairs : int64 (P, 2)
        Cells i < j, in lexicographic order.
    kinds : uint8 (P,)
        0 for a fold, 1 for a wall: what was drawn in the layer where the two signatures part.
    lengths : float64 (P,)
        Length of the common segment, infinite where it is unbounded; negative codes where it is measured
        only when it is asked for, by ``contact_sizes`` of the geometry.
    edges : int64 (P, 2)
        The edge of i and the edge of j on which they meet.
    uncovered : int64 (U,)
        Edges of which some part has no cell beyond; none when the cells fill the domain.
    """

    pairs: Integers
    kinds: NDArray[np.uint8]
    lengths: Floats
    edges: Integers
    uncovered: Integers


class _VertexColumn:
    """A property of cells: some columns of their vertices."""

    def __init__(self, columns: int | slice, doc: str) -> None:
        self.columns, self.__doc__ = columns, doc

    def __get__(self, cells: Cells, _: Any = None) -> Floats:
        return cells.vertices.content[:, self.columns]


Table = dict[str, Any]  # columns with an entry per cell: arrays, or Ragged


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a network in a domain.

    Attributes
    ----------
    kind : str
        What a cell looks like: ``"intervals"``, ``"polygons"``, ``"polyhedra"``, or ``"halfspaces"`` where no
        vertices are known.
    bits : uint64 (n, words)
        ReLU bits, unit u of the network at word u // 64, bit u % 64.
    routings : int32 (n, heads)
        Winning key of every head, the lowest of those that win together.
    tied : uint8 (n,)
        1 where several keys with different scores coincide on the cell, so that its map is a mean.
    witnesses : float64 (n, d)
    margins : float64 (n,)
        A proven lower bound on the distance of the witness from the cell's boundary; 0 where floats prove
        none.
    facets : Ragged of int64 (F, 2)
        Owner and wall of every facet. Owner -1 is a side of the domain (``wall`` its number), -2 infinity.
        Intervals have two: the low end, then the high end. Edges of polygons are in counterclockwise order.
        Facets of polyhedra may be redundant: then their vertices are among those of another one. Of
        half-spaces these are candidates, all facets among them, in the order in which they were drawn, with
        owner -3: the layer cell has no number.
    vertices : Ragged of float64
        Intervals: the two ends and bounds on their errors. Polygons: x, y, a bound on the error of each
        coordinate (infinite: unknown) of the vertex at which an edge starts, and, in unbounded domains, dx
        and dy: the vertex is (x + M dx, y + M dy) with M beyond every number. Polyhedra: homogeneous
        coordinates of a ray, the constant last, and a bound on the error of every entry; a ray :math:`(x,
        x_0)` with :math:`x_0 > 0` is the vertex :math:`x / x_0`, one with :math:`x_0 = 0` a direction in
        which the cell is unbounded. Half-spaces: none.
    masks : Ragged of uint64 (V, words), polyhedra only
        Bit s of a ray's mask: it lies on facet number s of its cell.
    free : int64 (n,), polyhedra only
        0, or for a cell that contains lines a set of coordinates (bit c: coordinate c); its rays are moved
        along the lines to where these coordinates vanish.
    lengths : float64 (n,), intervals only
        From ends relative to a point of the domain.
    position : int64 (n,), intervals only
        How many cells lie to the left.
    """

    kind: str
    bits: NDArray[np.uint64]
    routings: NDArray[np.int32]
    tied: NDArray[np.uint8]
    witnesses: Floats
    margins: Floats
    facets: Ragged
    vertices: Ragged
    masks: Any = None
    free: Any = None
    lengths: Any = None
    position: Any = None

    @property
    def n(self) -> int:
        """The number of cells."""
        return len(self.tied)

    @property
    def d(self) -> int:
        """The dimension in which they lie."""
        return int(self.witnesses.shape[1])

    # facets

    @property
    def owner(self) -> Integers:
        """The layer cells in which facets were drawn."""
        return self.facets.content[:, 0]

    @property
    def wall(self) -> Integers:
        """The codes of the hyperplanes of facets."""
        return self.facets.content[:, 1]

    def names(self, i: int) -> list[tuple[int, int]]:
        """``(owner, wall)`` of the facets of cell ``i``."""
        return [(owner, wall) for owner, wall in self.facets[i].tolist()]

    # vertices of polygons

    vx = _VertexColumn(0, "First coordinates of the vertices of polygons.")
    vy = _VertexColumn(1, "Second coordinates of the vertices of polygons.")
    vr = _VertexColumn(2, "Errors of the vertices of polygons.")
    dx = _VertexColumn(3, "First coordinates of the directions of vertices; only if ``unbounded``.")
    dy = _VertexColumn(4, "Second coordinates of the directions of vertices; only if ``unbounded``.")

    @property
    def unbounded(self) -> bool:
        """Whether polygons have directions, ``dx`` and ``dy``."""
        return bool(self.vertices.content.shape[1] > 3)

    # vertices of polyhedra

    rays = _VertexColumn(slice(None, -1), "Homogeneous coordinates of the rays of polyhedra.")
    ray_error = _VertexColumn(-1, "Errors of the rays of polyhedra.")

    # some of them, in another order, in files

    @property
    def table(self) -> Table:
        """The columns, without those that this kind does not have."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None and name != "kind"}

    def select(self, chosen: NDArray[Any]) -> Self:
        """The cells that are marked, or whose numbers are given in order."""
        return replace(self, **{name: column[chosen] for name, column in self.table.items()})

    def in_order(self, layers: tuple[Layer, ...]) -> Self:
        """The same cells in the order of their signatures."""
        return self.select(signature_order(layers, self.bits, self.routings))

    def state(self) -> dict[str, Any]:
        """Everything that must survive a file."""
        return {"kind": self.kind, **plain_table(self.table)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The cells of a file, which :func:`hardmax.regions.cell_checks.check_cells` must see first."""
        return cls(kind=state["kind"], **table_of({k: v for k, v in state.items() if k != "kind"}))


def plain_table(table: Table) -> dict[str, Any]:
    """Columns as plain values for a file."""
    return {
        name: {"offsets": column.offsets, "content": column.content} if isinstance(column, Ragged) else column
        for name, column in table.items()
    }


def table_of(state: dict[str, Any]) -> Table:
    """The columns of a file."""
    return {name: Ragged(**value) if isinstance(value, dict) else value for name, value in state.items()}


def signature_order(
    layers: tuple[Layer, ...], bits: NDArray[np.uint64], routings: NDArray[np.int32]
) -> Integers:
    """The lexicographic order of signatures, layer by layer: keys ascending, a unit off before on.

    >>> from hardmax.networks.layers import layers_of
    >>> from hardmax.networks.network import Network
    >>> layers = layers_of(Network.random_mlp([1, 2, 1], 0))
    >>> signature_order(layers, np.array([[1], [3], [2]], dtype=np.uint64), np.zeros((3, 0), dtype=np.int32))
    array([2, 0, 1])
    """
    n = len(bits)
    if n == 0:
        return np.arange(0)
    columns: list[NDArray[np.uint8]] = []
    octets = _REVERSED[np.ascontiguousarray(bits.astype("<u8", copy=False)).view(np.uint8)]
    for layer in layers:
        if layer.units:
            first, end = layer.unit_slice.start, layer.unit_slice.stop
            column = octets[:, first >> 3 : (end + 7) >> 3].copy()
            column[:, 0] &= 0xFF >> (first & 7)  # units of other layers stand in the same octets
            column[:, -1] &= (0xFF << (-end & 7)) & 0xFF
            columns.append(column)
        elif layer.heads:
            keys = np.ascontiguousarray(routings[:, layer.head_slice], dtype=">u4")
            columns.append(keys.view(np.uint8).reshape(n, -1))
    width = sum(column.shape[1] for column in columns)
    if width == 0:
        return np.arange(n)
    padded = np.zeros((n, -(-width // 8) * 8), dtype=np.uint8)
    np.concatenate(columns, axis=1, out=padded[:, :width])
    words = padded.view(">u8").astype(np.uint64)
    varied = np.flatnonzero((words != words[0]).any(axis=0))
    if not len(varied):
        return np.arange(n)
    return np.lexsort(words[:, varied[::-1]].T)


# Cells that come in parts
# ----------------------------------------------------------------------------------------------------------


class JoinedTables:
    """Tables with the same columns, appended one after the other to arrays that grow in place.

    A big result is never held twice.

    Examples
    --------
    >>> joined = JoinedTables()
    >>> for k in (3, 4):
    ...     joined.append({"margins": np.full(1, k), "vertices": Ragged(np.array([0, k]), np.arange(k))})
    >>> whole = joined.finish()
    >>> whole["margins"], whole["vertices"].offsets, whole["vertices"].content
    (array([3, 4]), array([0, 3, 7]), array([0, 1, 2, 0, 1, 2, 3]))
    """

    def __init__(self) -> None:
        self.n = 0  # cells
        self._only: Table | None = None  # a single table stays as it is
        self._grown: dict[str, tuple[_Grown, ...]] = {}

    def append(self, table: Table, renumbered: Callable[[Integers], Integers] | None = None) -> None:
        """Add a table at the end; ``renumbered`` gives the owners of facets their final numbers."""
        n = len(next(iter(table.values())))
        empty = self._only is None and not self._grown
        if not n and not empty:
            return
        if renumbered is not None and "facets" in table:
            facets: Ragged = table["facets"]
            before, wall = facets.content.T
            owner = renumbered(before)
            if owner is not before:
                table = {**table, "facets": Ragged(facets.offsets, np.column_stack([owner, wall]))}
        self.n += n
        if empty:
            self._only = table
            return
        if self._only is not None:
            first, self._only = self._only, None
            self._add(first)
            del first
        self._add(table)

    def _add(self, table: Table) -> None:
        for name, column in table.items():
            if isinstance(column, Ragged):
                if name not in self._grown:
                    self._grown[name] = _Grown(column.offsets[:1]), _Grown(column.content[:0])
                offsets, content = self._grown[name]
                offsets.append(column.offsets[1:] + content.n)
                content.append(column.content)
            else:
                if name not in self._grown:
                    self._grown[name] = (_Grown(column[:0]),)
                self._grown[name][0].append(column)

    def _table(self) -> Table:
        """All columns as they are now."""
        if self._only is not None:
            return self._only
        views = {name: [part.rows[: part.n] for part in parts] for name, parts in self._grown.items()}
        return {name: Ragged(*parts) if len(parts) == 2 else parts[0] for name, parts in views.items()}

    def part(self, first: int, stop: int) -> Table:
        """The columns of cells ``first`` to ``stop - 1``."""
        return {name: column[first:stop] for name, column in self._table().items()}

    def finish(self, n: int | None = None) -> Table:
        """All columns, or those of the first ``n`` cells; nothing can be appended afterwards."""
        if self._only is not None:
            return self._only if n is None or n >= self.n else self.part(0, n)
        for parts in self._grown.values():
            if n is not None and n < self.n:
                parts[0].n = n + len(parts) - 1
                if len(parts) == 2:
                    parts[1].n = int(parts[0].rows[n])
            for part in parts:
                part.trim()
        return self._table()


class _Grown:
    """An array that grows at its end.

    It is copied as it grows, which other threads can run beside: ``resize`` clears new memory under the
    interpreter's lock. A large one is resized nevertheless, because both copies would need too much memory.
    """

    def __init__(self, rows: Array) -> None:
        self.rows, self.n = np.array(rows, order="C"), len(rows)

    def append(self, rows: Array) -> None:
        if rows.ndim == 2 and rows.shape[1] != self.rows.shape[1]:
            wide = max(rows.shape[1], self.rows.shape[1])
            self.rows, rows = _widened(self.rows, wide), _widened(rows, wide)
        end = self.n + len(rows)
        if end > len(self.rows):
            room = (max(end, int(_GROWTH * len(self.rows))), *self.rows.shape[1:])
            if self.rows.nbytes > _COPIED:
                self.rows.resize(room, refcheck=False)
            else:  # memory that is asked for at once comes in large pages
                grown = np.empty(room, dtype=self.rows.dtype)
                grown[: self.n] = self.rows[: self.n]
                self.rows = grown
        self.rows[self.n : end] = rows
        self.n = end

    def trim(self) -> None:
        self.rows.resize((self.n, *self.rows.shape[1:]), refcheck=False)
        self.rows.setflags(write=False)


def _widened(array: Array, columns: int) -> Array:
    wide = np.zeros((len(array), columns), dtype=array.dtype)
    wide[:, : array.shape[1]] = array
    return wide
