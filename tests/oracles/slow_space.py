"""Cells of a network in any dimension, written down as the compiled engine does, but cut one by one in
rationals.

Slow and plain: a cell is a homogeneous cone (:class:`RationalCone`); a head cuts it once for each of its
keys, a ReLU unit into two halves. What comes out are :class:`Cells`, so that everything that reads one
can be tested without the engine that usually writes it.
"""

from __future__ import annotations

import numpy as np

from hardmax.geometry.cones.rational_splitting import RationalCone
from hardmax.geometry.cones.splitting_kernels import EMPTIES
from hardmax.networks.layers import FoldLayer, WallLayer, layers_of
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, Cells, Ragged, encode_wall
from hardmax.regions.maps.exact_maps import ExactMaps


class Piece:
    """A cell under construction."""

    def __init__(self, cone, bits, routings, tied):
        self.cone, self.bits, self.routings, self.tied = cone, bits, routings, tied

    def child(self, cone):
        return Piece(cone, self.bits.copy(), self.routings.copy(), self.tied)


def space_cells(network, domain) -> Cells:
    """The cells of a network in a domain of dimension three or more."""
    layers = layers_of(network)
    exact = ExactMaps(layers, domain)
    d, D = domain.d, domain.d + 1
    cone = RationalCone(D)
    assert cone.cut([0] * d + [1], (AT_INFINITY, 0)) != EMPTIES
    for i in range(domain.b.shape[0]):
        assert cone.cut(list(exact.domain_line(i)), (DOMAIN_SIDE, i)) != EMPTIES
    words = max(1, -(-network.units_total // 64))
    heads = sum(layer.heads for layer in layers if isinstance(layer, WallLayer))
    pieces = [Piece(cone, np.zeros(words, dtype=np.uint64), np.zeros(heads, dtype=np.int32), 0)]
    serial = 0
    for number, layer in enumerate(layers):
        done = []
        for piece in pieces:
            parts = [piece]
            if isinstance(layer, FoldLayer):
                rows = exact.lines(number, piece.bits, piece.routings)
                for unit in range(layer.units):
                    parts = [
                        half
                        for part in parts
                        for half in _fold(part, rows[unit], number, unit, layer, serial)
                    ]
            elif isinstance(layer, WallLayer):
                rows = exact.lines(number, piece.bits, piece.routings)
                for head in range(layer.heads):
                    parts = [won for part in parts for won in _route(part, rows, number, head, layer, serial)]
            serial += 1
            done += parts
        pieces = done
    return _written(d, pieces)


def _fold(part, row, number, unit, layer, serial):
    label = (serial, encode_wall(number, unit))
    off, on = part.cone.copy(), part.cone.copy()
    stays = off.cut([-v for v in row], label) != EMPTIES
    if on.cut(row, label) == EMPTIES:
        return [part.child(off if stays else part.cone)]  # a unit that is zero everywhere is off
    found = [part.child(off)] if stays else []
    lit = part.child(on)
    place = layer.first_unit + unit
    lit.bits[place // 64] |= np.uint64(1 << (place % 64))
    return [*found, lit]


def _route(part, rows, number, head, layer, serial):
    keys = range(int(layer.head_start[head]), int(layer.head_start[head + 1]))
    found = []
    for j in keys:
        if any(rows[i] == rows[j] for i in keys if i < j):
            continue
        cone, empty = part.cone.copy(), False
        for k in keys:
            if rows[k] == rows[j]:
                continue
            label = (serial, encode_wall(number, head, min(j, k), max(j, k)))
            lead = [a - b for a, b in zip(rows[j], rows[k], strict=True)]
            if cone.cut(lead, label) == EMPTIES:
                empty = True
                break
        if not empty:
            won = part.child(cone)
            won.routings[layer.first_head + head] = layer.key[j]
            won.tied |= sum(rows[k] == rows[j] for k in keys) > 1
            found.append(won)
    return found


def _written(d, pieces):
    rays, errors, masks, owner, wall, free, witnesses = [], [], [], [], [], [], []
    ray_start, facet_start = [0], [0]
    for piece in pieces:
        cone = piece.cone
        alive = cone.touching()
        lost, moved = cone.pointed_form()
        free.append(lost)
        for ray, mask in zip(moved, cone.masks, strict=True):
            top = max(abs(v) for v in ray)
            scaled = [v / top for v in ray]
            rays.append(scaled)
            errors.append(2.0**-53)
            masks.append(sum(1 << s for s, facet in enumerate(alive) if mask >> facet & 1))
        for facet in alive:
            owner.append(cone.facets[facet][1][0])
            wall.append(cone.facets[facet][1][1])
        ray_start.append(len(rays))
        facet_start.append(len(owner))
        centre = np.zeros(d + 1)
        for ray in moved:
            centre += np.array([v / (ray[-1] or max(abs(v) for v in ray)) for v in ray])
        witnesses.append(centre[:d] / centre[d])
    mask_words = max(1, -(-max(int(np.diff(facet_start).max(initial=1)), 1) // 64))
    packed = np.zeros((len(rays), mask_words), dtype=np.uint64)
    for r, mask in enumerate(masks):
        for w in range(mask_words):
            packed[r, w] = (mask >> (64 * w)) & (2**64 - 1)
    return Cells(
        kind="polyhedra",
        bits=np.array([p.bits for p in pieces], dtype=np.uint64),
        routings=np.array([p.routings for p in pieces], dtype=np.int32).reshape(len(pieces), -1),
        tied=np.array([p.tied for p in pieces], dtype=np.uint8),
        facets=Ragged(np.array(facet_start), np.column_stack([owner, wall]).astype(np.int64)),
        vertices=Ragged(np.array(ray_start), np.column_stack([rays, errors])),
        masks=Ragged(np.array(ray_start), packed),
        free=np.array(free, dtype=np.int64),
        witnesses=np.array(witnesses),
        margins=np.zeros(len(pieces)),
    )
