"""Maps from signatures in any input dimension: rationals, floats and residues against the forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from oracles.rational_regions import exact_forward

import hardmax as hm
from hardmax.networks.layers import layers_of
from hardmax.regions.engine.program import Program
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.maps.float_maps import PatternMaps, pattern_maps, projected_maps
from hardmax.regions.maps.merging import Residues, equal_pairs, glued


@dataclass(frozen=True)
class Signatures:
    """All that maps and gluing ask of cells."""

    bits: np.ndarray
    routings: np.ndarray
    tied: np.ndarray

    @property
    def n(self) -> int:
        return len(self.tied)


def network(d: int, number: int) -> hm.Network:
    rng = np.random.default_rng([d, number])
    if number == 0:
        return hm.Network.random_mlp([d, 70, 12, 3], rng)
    if number == 1:
        return hm.Network.random(d, n_tokens=4, heads=2, depth=2, d_ff=9, rng=rng, ffn_skip=True)
    keys, width = 3, 8

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape)

    third = np.array([[Fraction(int(v), 3) for v in row] for row in rng.integers(-4, 5, (d, d))])
    if number == 3:
        return hm.Network(
            [
                hm.Maxout(normal(2, keys, d), normal(2, keys), normal(d, 2), normal(d), skip=True),
                hm.FeedForward(normal(width, d), normal(width), normal(3, width), slope=0.01),
                hm.Maxout.pool(3, [[0, 1], [1, 2], [0]]),
            ]
        )
    return hm.Network(
        [
            hm.Affine(third, rng.standard_normal(d)),
            hm.Attention(
                rng.standard_normal((1, keys, d)), None, rng.standard_normal((1, keys, 2)), skip=False
            ),
            hm.FeedForward(rng.standard_normal((width, 2)), None, rng.standard_normal((2, width)), skip=True),
        ]
    )


def signatures(net: hm.Network, points) -> tuple[Signatures, list[list[Fraction]]]:
    """Signatures of points and the values there, both in rationals; sorted, so that prefixes are shared."""
    rows = sorted((exact_forward(net, point), i) for i, point in enumerate(points))
    bits = np.array([row[0][1] for row in rows], dtype=bool).reshape(len(rows), -1)
    words = np.zeros((len(rows), -(-bits.shape[1] // 64)), dtype=np.uint64)
    for unit in range(bits.shape[1]):
        words[:, unit // 64] |= bits[:, unit].astype(np.uint64) << np.uint64(unit % 64)
    routings = np.array([row[0][0] for row in rows], dtype=np.int32).reshape(len(rows), -1)
    found = Signatures(words, routings, np.zeros(len(rows), dtype=np.uint8))
    return found, [(points[i], row[2]) for row, i in rows]


CASES = [(d, number) for d in (1, 3, 4, 5, 6, 7, 8) for number in range(4)]


@pytest.mark.parametrize(("d", "number"), CASES)
def test_maps_give_the_values_of_the_network(d, number):
    net = network(d, number)
    rng = np.random.default_rng(d)
    points = [[Fraction(int(v), 97) for v in row] for row in rng.integers(-300, 300, (12, d))]
    cells, values = signatures(net, points)
    layers = layers_of(net)
    exact = ExactMaps(layers, hm.Box.cube(d, -4, 4))
    maps = pattern_maps(layers, cells.bits, cells.routings, cells.tied, exact)
    assert maps.linear.shape == (cells.n, net.d_out, d)
    assert maps.error.max() < 1e-11
    residues = Residues(layers)
    prime = next(residues.primes())
    modulo = residues.walk.residue_maps(
        residues.modulo(prime), cells.bits, cells.routings, np.arange(cells.n), prime
    )
    for i, (point, value) in enumerate(values):
        rows, denominator = exact.output(cells.bits[i], cells.routings[i])
        entries = [[Fraction(int(v), denominator) for v in row] for row in rows.tolist()]
        assert [sum(a * x for a, x in zip(row, [*point, 1], strict=True)) for row in entries] == value
        assert tuple(value) == net.exact_value(point)
        for r, row in enumerate(entries):
            for have, want in zip([*maps.linear[i, r], maps.offset[i, r]], row, strict=True):
                assert abs(Fraction(have) - want) <= Fraction(maps.error[i])
            expected = [v.numerator * pow(v.denominator, -1, prime) % prime for v in row]
            assert modulo[i, r].tolist() == expected
    linear, offset = net.affine_at(np.array(values[0][0], dtype=float))
    assert np.allclose(linear, maps.linear[0], rtol=0, atol=1e-12)
    assert np.allclose(offset, maps.offset[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("d", [3, 5, 8])
def test_equal_maps_are_found_in_any_dimension(d):
    """Units that come in pairs z, -z with opposite outputs change bits, not maps; others change the map."""
    rng = np.random.default_rng(d)
    w, u = rng.standard_normal((6, d)), rng.standard_normal((2, 6))
    pairs_of_units = hm.FeedForward(np.vstack([w, -w]), None, np.hstack([u, -u]), None)
    last = hm.FeedForward(rng.standard_normal((3, 2)), None, rng.standard_normal((10, 3)), [1.0] * 10)
    net = hm.Network([pairs_of_units, last])
    points = [[Fraction(int(v), 97) for v in row] for row in rng.integers(-300, 300, (40, d))]
    cells, _ = signatures(net, points)
    layers = layers_of(net)
    exact = ExactMaps(layers, hm.Box.cube(d, -4, 4))
    pairs = np.array([(i, j) for i in range(cells.n) for j in range(i)], dtype=np.int64)
    keys = [tuple(map(str, exact.output(b, r))) for b, r in zip(cells.bits, cells.routings, strict=True)]
    expected = [keys[i] == keys[j] for i, j in pairs.tolist()]
    assert any(expected)
    assert not all(expected)
    full = pattern_maps(layers, cells.bits, cells.routings, cells.tied, exact)
    assert equal_pairs(cells, pairs, full, layers, exact).tolist() == expected
    projected = projected_maps(layers, cells.bits, cells.routings, cells.tied, exact)
    assert projected.linear.shape == (cells.n, 2, d)
    assert equal_pairs(cells, pairs, projected, layers, exact, projected=True).tolist() == expected
    blind = PatternMaps(full.linear * 0, full.offset * 0, np.full(cells.n, np.inf))
    assert equal_pairs(cells, pairs, blind, layers, exact, projected=True).tolist() == expected
    classes = glued(cells, pairs, full, layers, exact)
    assert len(np.unique(classes)) == len(set(keys))


def test_a_program_for_any_dimension():
    layers = layers_of(hm.Network.random_mlp([3, 5, 1], 0))
    assert Program.of(layers, columns=4).path_size == 4 * (3 + 5) + 8
    affine = layers_of(hm.Network([hm.Affine(np.ones((2, 5)))]))
    assert Program.of(affine, columns=6).table[0, :3].tolist() == [1, 5, 5]
