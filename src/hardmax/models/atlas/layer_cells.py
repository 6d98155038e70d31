r"""How all heads of a layer together cut a plane of inputs, exactly.

Let the query side of a layer move while keys and masks stay as they are (the conditioned input space of P1):
head h routes the input :math:`x = o + t_1 u_1 + t_2 u_2` to the largest of
:math:`k_{hl} \cdot (W_h x + b_h) + B_{hl} / \sigma`. These are affine functions of t, multiplied out in
integers from the captured numbers, so no wall is moved by rounding, and the cells of all heads
together, the common refinement of their diagrams, are enumerated by :func:`hardmax.enumerate_regions`.

The input is what the query projection receives, after the norm where one stands before it. The plane is
spanned by three tokens or by the two principal directions of all; tokens off the plane are shown at their
nearest point, their distance from it is kept, and whether the routing there is still their own. Mask, biases
and rotary encodings belong to one position: the picture is that of the query there. For other tokens it is
theirs only in so far as these agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hardmax.bounds import vertex_maximum
from hardmax.errors import CertificateError, InvalidInputError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.products import ExactProduct
from hardmax.exact.rationals import ExactArray
from hardmax.fields import check_offsets
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.reading.sources import CapturedLayer, QueryMap
from hardmax.networks.attention import Attention
from hardmax.networks.network import Network
from hardmax.regions.api import count_cells, enumerate_regions
from hardmax.results import Result

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_UNIT = 2.0**-53
_ROOM = 0.15  # the window goes beyond the tokens by this share of its sides
_FIT = 1e-4  # how well W x + b must give the captured query, relative to |W||x| + |b|


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane of inputs: an origin and two orthonormal directions, up to rounding."""

    origin: Floats  # (d_model,)
    directions: Floats  # (2, d_model)
    spanned_by: str  # in words, for captions

    def places(self, points: Floats) -> tuple[Floats, Floats]:
        """The nearest points of the plane in its coordinates (n, 2), and how far away they are (n,)."""
        offset = points - self.origin
        places = offset @ self.directions.T
        return places, np.linalg.norm(offset - places @ self.directions, axis=1)


def principal_plane(inputs: Floats) -> Plane:
    """The plane through the mean of the inputs along their two principal directions.

    Where the inputs do not span a plane, coordinate axes fill up. The largest coordinate of a direction is
    positive, so that the picture does not depend on the machine.

    Examples
    --------
    >>> plane = principal_plane(np.array([[3.0, 0.0, 1.0], [-3.0, 0.0, 1.0], [0.0, 1.0, 1.0]]))
    >>> plane.directions.round(6)
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """
    x = np.asarray(inputs, dtype=np.float64)
    if x.shape[1] < 2:
        raise InvalidInputError("a plane needs inputs of at least two dimensions, but these have one.")
    origin = x.mean(axis=0)
    _, sizes, axes = np.linalg.svd(x - origin, full_matrices=False)
    small = sizes <= 1e-9 * max(float(np.abs(x).max()), 1e-300)
    return Plane(origin, _completed(axes[: min(2, int((~small).sum()))], x.shape[1]), "principal directions")


def plane_through(inputs: Floats, tokens: Sequence[int]) -> Plane:
    """The plane through the inputs of three tokens; the first is the origin, the second lies to its right.

    Examples
    --------
    >>> plane = plane_through(np.array([[1.0, 1.0, 0.0], [3.0, 1.0, 0.0], [2.0, 2.0, 0.0]]), (0, 1, 2))
    >>> plane.places(np.array([[2.0, 2.0, 5.0]]))
    (array([[1., 1.]]), array([5.]))
    """
    x = np.asarray(inputs, dtype=np.float64)
    chosen = [int(t) for t in tokens]
    if len(chosen) != 3 or not all(0 <= t < len(x) for t in chosen):
        raise InvalidInputError(
            f"plane must name three tokens from 0 to {len(x) - 1}, but named {', '.join(map(str, chosen))}."
        )
    a, b, c = x[chosen]
    size = max(float(np.abs(x).max()), 1e-300)
    first, second = b - a, c - a
    if np.linalg.norm(first) > 1e-9 * size:
        first = first / np.linalg.norm(first)
        second = second - (second @ first) * first
    if min(np.linalg.norm(first), np.linalg.norm(second)) <= 1e-9 * size:
        raise InvalidInputError(
            f"plane must name three tokens whose inputs do not lie on a line, but those of {chosen} do."
        )
    second = second / np.linalg.norm(second)
    second = second - (second @ first) * first
    directions = np.stack([first, second / np.linalg.norm(second)])
    return Plane(a, directions, f"tokens {chosen[0]}, {chosen[1]} and {chosen[2]}")


def far_tokens_plane(layer: CapturedLayer, position: int) -> Plane:
    """The plane through three tokens that belong to it and lie far apart.

    The first is the query at ``position``, whose mask and rotation the picture has; the second is farthest
    from it, the third from the line through both. Only tokens whose own routing holds under that mask and
    rotation are taken, as long as there are two. Where no three tokens span a plane, it is that of
    :func:`principal_plane`.

    Examples
    --------
    >>> keys = np.array([[[1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]]])
    >>> x = np.array([[2.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> same = QueryMap(np.eye(2)[None], np.zeros((1, 2)))
    >>> layer = CapturedLayer(
    ...     0, x, x[None], keys, keys, np.ones((3, 3), dtype=bool), 1.0, query_map=lambda t: same)
    >>> far_tokens_plane(layer, 2).spanned_by
    'tokens 2, 0 and 1'
    """
    x, known = np.nan_to_num(np.asarray(layer.inputs, dtype=np.float64)), np.flatnonzero(layer.have_inputs)
    if layer.query_map is None:
        raise InvalidInputError(
            f"layer {layer.index} must say how its queries depend on its input, but has no query_map."
        )
    heads = tuple(range(layer.heads))
    agree = _Floats(layer, heads, position, layer.query_map(position)).agreement(x)
    own = np.flatnonzero(agree == 1.0)
    others = own if (own != position).sum() >= 2 else known
    away = x[others] - x[position]
    length = np.linalg.norm(away, axis=1)
    second = int(length.argmax())
    along = away[second] / max(float(length[second]), 1e-300)
    third = int(np.linalg.norm(away - np.outer(away @ along, along), axis=1).argmax())
    try:
        return plane_through(x, (position, int(others[second]), int(others[third])))
    except InvalidInputError:  # all on a line
        return principal_plane(x[known])


def _completed(axes: Floats, d: int) -> Floats:
    """Two orthonormal directions that begin with the given ones, up to sign."""
    rows = [row * np.sign(row[np.abs(row).argmax()]) for row in axes]
    for axis in np.eye(d):
        if len(rows) == 2:
            break
        for row in rows:
            axis = axis - (axis @ row) * row
        if np.linalg.norm(axis) > 0.5 / d:
            rows.append(axis / np.linalg.norm(axis))
    return np.stack(rows)


@dataclass(frozen=True, eq=False, repr=False)
class LayerSlice(Result):
    """The exact routing cells of the heads of a layer on a plane of inputs.

    Attributes
    ----------
    layer : int
    heads : tuple of int
        Whose routings these are.
    position : int
        The query whose mask, biases and rotation are used.
    any_position : bool
        Whether mask and biases are the same for every query and the map does not depend on it, so that the
        picture holds for all of them.
    frozen : tuple of str
        What was held fixed to make queries affine in the input.
    spanned_by : str
    origin, directions : arrays (d_model,), (2, d_model)
    low, high : arrays (2,)
        The corners of the part of the plane that was cut.
    token_places : array (Q, 2)
        The nearest point of the plane for the input of each query; NaN for a token without an input.
    token_distances : array (Q,)
        How far the input is from it.
    token_agreement : array (Q,)
        The share of heads whose winner at that point is the real winner of the token; NaN for a token that
        may read nothing.
    n_cells : int
        Cells inside the corners: routings of all heads together, their common refinement.
    n_cells_per_head : array of int (H,)
        Cells of each head alone inside the corners.
    n_cells_plane : int
        Cells of all heads together on the whole plane.
    refinement_bound : int
        The most cells that heads with as many different keys can have on a plane.
    routings : array of int (n_cells, H)
        The winning keys, the lowest index among copies.
    witnesses : array (n_cells, 2)
        A point inside each cell.
    corners, start : arrays (v, 2), (n_cells + 1,)
        The corners of cell i, counterclockwise, are ``corners[start[i]:start[i + 1]]``.
    coverage : float
        Area of the cells over that of the part that was cut: a sanity check.
    n_checked : int
        Cells whose routing a separate float computation at the witness confirmed; in the others it is within
        rounding of a wall. A contradiction raises CertificateError.
    query_difference : float
        The difference between the captured query at ``position`` and what the affine map gives for its input,
        over the norm of :math:`|W||x| + |b|`; the largest over heads.
    complete : bool
        Whether every cell was found in the time allowed.
    """

    kind: ClassVar[str] = "LayerSlice"
    _shapes: ClassVar[dict[str, str]] = {
        "origin": "d_model",
        "directions": "2 d_model",
        "low": "2",
        "high": "2",
        "token_places": "Q 2",
        "token_distances": "Q",
        "token_agreement": "Q",
        "heads": "H",
        "n_cells_per_head": "H",
        "routings": "cells H",
        "witnesses": "cells 2",
        "corners": "v 2",
        "start": "cells+1",
    }

    layer: int
    heads: tuple[int, ...]
    position: int
    any_position: bool
    frozen: tuple[str, ...]
    spanned_by: str
    origin: Floats
    directions: Floats
    low: Floats
    high: Floats
    token_places: Floats
    token_distances: Floats
    token_agreement: Floats
    n_cells: int
    n_cells_per_head: Integers
    n_cells_plane: int
    refinement_bound: int
    routings: Integers
    witnesses: Floats
    corners: Floats
    start: Integers
    coverage: float
    n_checked: int
    query_difference: float
    complete: bool

    @property
    def polygons(self) -> list[Floats]:
        """The cells as polygons, counterclockwise."""
        return [self.corners[a:b] for a, b in zip(self.start[:-1], self.start[1:], strict=True)]

    @property
    def spanning(self) -> tuple[int, ...]:
        """The three tokens that span the plane; empty for principal directions."""
        return tuple(int(t) for t in re.findall(r"\d+", self.spanned_by))

    def walls(self, number: int) -> Floats:
        """The walls of one of ``heads`` in the window, as segments (n, 2, 2).

        The cells with one routing of a head form a convex polygon, its cell in the head's own diagram; walls
        are the sides that two of them share.
        """
        sides: dict[tuple[tuple[float, ...], ...], Floats] = {}
        column, corners = self.routings[:, number], self.polygons
        unit = max(float((self.high - self.low).max()), 1e-300) * 1e-6
        for key in np.unique(column):
            hull = _hull(np.concatenate([corners[i] for i in np.flatnonzero(column == key)]), unit)
            for side in np.stack([hull, np.roll(hull, -1, axis=0)], axis=1):
                on_frame = (np.abs(side - self.low) < unit).all(0) | (np.abs(side - self.high) < unit).all(0)
                if not on_frame.any():
                    ends = sorted(tuple(float(v) for v in np.round(end / unit / 4)) for end in side)
                    sides.setdefault(tuple(ends), side)
        return np.stack(list(sides.values())) if sides else np.empty((0, 2, 2))

    @property
    def holds(self) -> NDArray[np.bool_]:
        """Whether the routing at a token's place is the token's own in every head (Q,)."""
        return np.asarray(self.token_agreement == 1.0)

    def summary(self) -> dict[str, Any]:
        """Everything but the cells themselves, in plain values."""
        left_out = ("origin", "directions", "routings", "witnesses", "corners", "start")
        return {name: value for name, value in self._state().items() if name not in left_out}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        found = super()._from_state(state)
        check_offsets("start", found.start, len(found.corners))
        return found

    def _summary(self) -> str:
        how = "complete, exact" if self.complete else "INCOMPLETE"
        return (
            f"layer {self.layer}, {len(self.heads)} heads, {self.n_cells} cells on the plane of "
            f"{self.spanned_by}, {how}"
        )

    def _table(self) -> dict[str, Any]:
        return {"head": list(self.heads), "cells": self.n_cells_per_head}


def _hull(points: Floats, unit: float) -> Floats:
    """The corners of the convex hull of points in the plane, counterclockwise; ``unit`` counts as nothing."""
    order = np.lexsort((points[:, 1], points[:, 0]))
    corners: list[Floats] = []
    for chain in (points[order], points[order][::-1]):
        kept: list[Floats] = []
        for p in chain:
            while len(kept) > 1 and _turn(kept[-2], kept[-1], p) <= 0.0:
                kept.pop()
            kept.append(p)
        corners += kept[:-1]
    i = 0  # rounding leaves corners on sides: those go last, so that no true corner is lost for them
    while len(corners) > 3 and i < len(corners):
        before, here, after = corners[i - 1], corners[i], corners[(i + 1) % len(corners)]
        near = float(np.linalg.norm(here - before)) < unit
        if near or abs(_turn(before, here, after)) < unit * float(np.linalg.norm(after - before)):
            del corners[i]
            i = max(i - 2, 0)
        else:
            i += 1
    return np.array(corners)


def _turn(a: Floats, b: Floats, c: Floats) -> float:
    """Twice the area of a triangle, positive if it is counterclockwise."""
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def slice_network(
    layer: CapturedLayer, plane: Plane, position: int, *, heads: Sequence[int] | None = None
) -> tuple[Network, QueryMap]:
    """The routing of a layer on a plane as an exact network with two inputs, and the affine query map.

    Scores are raw plus biases over the scale; outputs are zero, because only routings are asked for. The
    products of keys, query weights and directions are kept as factors and multiplied out in integers.
    """
    if layer.query_map is None:
        raise InvalidInputError(
            f"layer {layer.index} must say how its queries depend on its input, but has no query_map."
        )
    asked = layer.query_map(position)
    matrix, offset = np.asarray(asked.matrix, np.float64), np.asarray(asked.offset, np.float64)
    chosen = range(layer.heads) if heads is None else heads
    exact = [_exact_scores(layer, h, position, matrix[h], offset[h], plane) for h in chosen]
    slopes, offsets, present = (np.stack(part) for part in zip(*exact, strict=True))
    block = Attention(slopes, offsets, np.zeros((*offsets.shape, 1)), mask=present, skip=False)
    return Network((block,)), asked


def _exact_scores(
    layer: CapturedLayer, head: int, position: int, matrix: Floats, offset: Floats, plane: Plane
) -> tuple[NDArray[np.object_], NDArray[np.object_], NDArray[np.bool_]]:
    """Slopes (N, 2) and offsets (N,) of one head's scores on the plane, in fractions."""
    present, bias = layer.readable(head)
    columns = np.column_stack([plane.directions.T, plane.origin])
    asked = _fractions(ExactArray(matrix), ExactArray(columns))  # W u_1, W u_2, W o
    asked[:, 2] += fractions_of(ExactArray(offset))
    keys = layer.keys_of(head, position)
    rounded = np.array([[float(entry) for entry in row] for row in asked])
    table = _fractions(ExactArray(keys), ExactArray(rounded, asked))
    if bias is not None:
        table[:, 2] += fractions_of(ExactArray(bias[position])) / Fraction(float(layer.scale))
    return table[:, :2], table[:, 2], present[position]


def _fractions(a: ExactArray, b: ExactArray) -> NDArray[np.object_]:
    numerators, denominator = ExactProduct([(a, b)]).integers(0)
    entries = [Fraction(int(entry), denominator) for entry in numerators.entries()]
    table = np.empty(len(entries), dtype=object)
    table[:] = entries
    return table.reshape(a.shape[0], b.shape[1])


def layer_slice(
    layer: CapturedLayer,
    plane: Plane,
    *,
    position: int | None = None,
    heads: Sequence[int] | None = None,
    time_limit: float | None = None,
) -> LayerSlice:
    """All heads of a layer on a plane of inputs, exactly, in a window that holds the places of all tokens.

    Parameters
    ----------
    layer : CapturedLayer
        With a ``query_map``.
    plane : Plane
    position : int, optional
        The query whose mask, biases and rotation are used; the last by default.
    heads : sequence of int, optional
        All by default.
    time_limit : float, optional
        Seconds; beyond them the slice says ``complete=False``.

    Examples
    --------
    One head with three keys on the plane itself: three cells.

    >>> keys = np.array([[[1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]]])
    >>> x = np.array([[2.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> same = QueryMap(np.eye(2)[None], np.zeros((1, 2)))
    >>> layer = CapturedLayer(
    ...     0, x, x[None], keys, keys, np.ones((3, 3), dtype=bool), 1.0, query_map=lambda t: same)
    >>> found = layer_slice(layer, principal_plane(x))
    >>> found.n_cells, found.n_cells_per_head, found.token_agreement
    (3, array([3]), array([1., 1., 1.]))
    """
    t = layer.reading_position(position)
    chosen = tuple(range(layer.heads)) if heads is None else tuple(heads)
    network, asked = slice_network(layer, plane, t, heads=chosen)
    inputs = np.asarray(layer.inputs, dtype=np.float64)
    places, distances = plane.places(inputs)
    low, high = np.nanmin(places, axis=0), np.nanmax(places, axis=0)
    side = np.maximum((high - low) * _ROOM, max(1e-6, 0.05 * float((high - low).max())))
    if not (high - low).any():  # one token, or all at one place
        side = np.full(2, max(1.0, float(np.linalg.norm(plane.origin))) * 0.5)
    low, high = low - side, high + side
    found = enumerate_regions(network, Box(low, high), time_limit=time_limit)
    everywhere = count_cells(network, WholeSpace(2), time_limit=time_limit)
    polygons = found.polygons()
    routings = np.asarray(found.routings, dtype=np.int64)
    check = _Floats(layer, chosen, t, asked)
    n_checked = check.confirmed(plane.origin + np.asarray(found.witnesses) @ plane.directions, routings)
    sizes = [len(np.unique(layer.keys_of(h, t)[layer.readable(h)[0][t]], axis=0)) for h in chosen]
    return LayerSlice(
        layer=layer.index,
        heads=chosen,
        position=t,
        any_position=check.any_position(),
        frozen=tuple(asked.frozen),
        spanned_by=plane.spanned_by,
        origin=plane.origin,
        directions=plane.directions,
        low=low,
        high=high,
        token_places=places,
        token_distances=distances,
        token_agreement=check.agreement(plane.origin + np.nan_to_num(places) @ plane.directions),
        n_cells=found.n_cells,
        n_cells_per_head=np.array([len(np.unique(column)) for column in routings.T], dtype=np.int64),
        n_cells_plane=everywhere.n_cells,
        refinement_bound=vertex_maximum(sizes, len(sizes), 2, biased=True),
        routings=routings,
        witnesses=np.asarray(found.witnesses),
        corners=np.concatenate(polygons) if polygons else np.empty((0, 2)),
        start=np.cumsum([0, *(len(polygon) for polygon in polygons)], dtype=np.int64),
        coverage=float(found.coverage) if found.coverage is not None else float("nan"),
        n_checked=n_checked,
        query_difference=check.query_difference(),
        complete=found.complete and everywhere.complete,
    )


@dataclass(frozen=True, eq=False)
class _Floats:
    """The same routing once more, in plain floats and from whole inputs: to check the cells."""

    layer: CapturedLayer
    heads: tuple[int, ...]
    position: int
    asked: QueryMap

    def _head(self, number: int) -> tuple[Floats, Floats, Floats]:
        h = self.heads[number]
        keys = self.layer.keys_of(h, self.position)
        return np.asarray(self.asked.matrix[h], np.float64), np.asarray(self.asked.offset[h]), keys

    def _copies(self, number: int) -> Integers:
        """Equal numbers for keys that have the same score everywhere at the position."""
        keys, bias = self._head(number)[2], self.layer.readable(self.heads[number])[1]
        rows = keys if bias is None else np.column_stack([keys, bias[self.position]])
        return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1]).ravel()

    def scores(self, number: int, x: Floats, rows: NDArray[Any] | int) -> tuple[Floats, Floats]:
        """Scaled scores at inputs under the masks of the queries ``rows``, and bounds on their rounding."""
        matrix, offset, keys = self._head(number)
        present, bias = self.layer.readable(self.heads[number])
        scale = float(self.layer.scale)
        queries = x @ matrix.T + offset
        table = (queries @ keys.T) * scale
        if bias is not None:
            table = table + bias[rows]
        # |x| is rounded too: it is built from the plane
        size = np.linalg.norm(x, axis=1) * np.linalg.norm(matrix) + np.linalg.norm(offset)
        longest = float(np.linalg.norm(keys, axis=1).max(initial=0.0))
        wrong = 4.0 * (sum(matrix.shape) + 8) * _UNIT * scale * size * longest
        wrong = wrong + 8.0 * _UNIT * np.abs(table).max(axis=1, initial=0.0)
        return np.where(present[rows], table, -np.inf), wrong

    def confirmed(self, x: Floats, routings: Integers) -> int:
        """How many cells float scores at the witnesses confirm; a contradiction raises."""
        sure = np.ones(len(x), dtype=np.bool_)
        each = np.arange(len(x))
        for number in range(len(self.heads)):
            table, wrong = self.scores(number, x, self.position)
            copy_of = self._copies(number)
            own = table[each, routings[:, number]]
            rivals = np.where(copy_of == copy_of[routings[:, number]][:, None], -np.inf, table)
            lead = own - rivals.max(axis=1, initial=-np.inf)
            if (lead < -wrong).any():
                i = int(np.argmax(lead < -wrong))
                raise CertificateError(
                    f"cell {i} of layer {self.layer.index} must be won by key {routings[i, number]} of head "
                    f"{self.heads[number]}, but float scores at its witness say otherwise."
                )
            sure &= lead > wrong
        return int(sure.sum())

    def agreement(self, x: Floats) -> Floats:
        """For each token the share of heads whose winner at its point is its real one."""
        total = np.zeros(len(x))
        for number, h in enumerate(self.heads):
            here = self.scores(number, x, self.position)[0].argmax(axis=1)
            real = self.layer.scores(h, capped=False).argmax(axis=1)
            copy_of = self._copies(number)
            total += copy_of[here] == copy_of[real]
        reads = self.layer.present.any(axis=1)
        return np.where(reads, total / len(self.heads), np.nan)

    def any_position(self) -> bool:
        """Whether mask, biases and map are those of every query."""
        if self.asked.position is not None or not (self.layer.present == self.layer.present[0]).all():
            return False
        if self.layer.relative is not None:
            return False
        biases = [self.layer.readable(h)[1] for h in self.heads]
        return all(bias is None or bool((bias == bias[0]).all()) for bias in biases)

    def query_difference(self) -> float:
        """How well the map gives the captured queries at the position; too badly raises."""
        x = np.asarray(self.layer.inputs[self.position], dtype=np.float64)
        worst = 0.0
        for number, h in enumerate(self.heads):
            matrix, offset, _ = self._head(number)
            query = np.asarray(self.layer.queries[h][self.position], dtype=np.float64)
            # what rounding is measured by: sums of absolute values, which cancel in the query itself
            size = max(float(np.linalg.norm(np.abs(matrix) @ np.abs(x) + np.abs(offset))), 1e-300)
            worst = max(worst, float(np.linalg.norm(matrix @ x + offset - query)) / size)
        if worst > _FIT:
            raise CertificateError(
                f"the query map of layer {self.layer.index} must give the captured query at position "
                f"{self.position}, but is off by {worst:.2g} of its size."
            )
        return worst
