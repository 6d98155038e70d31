"""Has any result changed? ``python benchmarks/digests.py`` recomputes what ``digests.json`` holds.

About 200 networks in dimensions 1 to 8 on every engine and arithmetic, diagrams, Minkowski sums, refinements,
traces, information sets and every verdict of the ledger. The last line is ``identical``, or every difference
is listed and the exit code is 1. ``--write`` stores the present values; names and patterns select entries
(``"integer*"``, ``"*/search/*"``, ``"claim/*"``); ``--skip-slow`` leaves out the ledger and rational runs.

Only discrete data and numbers that are computed in a fixed order are digested (SHA-256, 16 digits of it):
signatures, public maps, adjacency, region labels, exact half-spaces, counts. Not digested: how a sign was
decided, volumes, witnesses, and whatever else depends on the last bits of BLAS or of fused operations.
Numbers of the ledger are compared to six digits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

# every name of the library that this script uses
from hardmax import (
    Affine,
    Architecture,
    Attention,
    BilinearScore,
    Box,
    FeedForward,
    GlobalRead,
    KeyScore,
    Maxout,
    MaxPosition,
    Network,
    Plan,
    Polytope,
    Positions,
    TropicalPolynomial,
    WholeSpace,
    attention_diagram,
    check_claims,
    common_refinement,
    count_cells,
    count_regions,
    enumerate_regions,
    information_sets,
    minkowski_vertices,
    power_diagram,
    region_bounds,
    targets,
    trace_segment,
    vertex_maximum,
)
from hardmax.geometry import parabolic_heads
from hardmax.networks import sawtooth_network

STORED = Path(__file__).with_name("digests.json")
ENGINES = {1: ("segment", "plane"), 2: ("plane", "search"), 7: ("search",), 8: ("search",)}
FEW_CELLS = 400  # so many cells at most are enumerated once more in rationals


# Digests
# ----------------------------------------------------------------------------------------------------------


def digest(*values: Any) -> str:
    """Sixteen digits of the SHA-256 of arrays and plain values."""
    total = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            kind = {"b": "|b1", "i": "<i8", "u": "<u8", "f": "<f8"}[value.dtype.kind]
            array = np.ascontiguousarray(value, dtype=kind)
            if kind == "<f8":
                array = array + 0.0  # minus zero is zero
            total.update(repr(array.shape).encode())
            total.update(array.tobytes())
        else:
            total.update(repr(value).encode())
        total.update(b"|")
    return total.hexdigest()[:16]


def texts(rows: Any) -> list[list[str]]:
    """Rows of fractions as text, in order."""
    return sorted([str(Fraction(value)) for value in row] for row in rows)


def same(before: Any, after: Any) -> bool:
    """Equal; numbers with a fractional part to six digits, or both below 1e-9."""
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(same(before[k], after[k]) for k in before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(same(x, y) for x, y in zip(before, after, strict=True))
    if isinstance(before, float) or isinstance(after, float):
        if not all(isinstance(value, (int, float)) for value in (before, after)):
            return False
        size = max(abs(before), abs(after))
        return bool(size < 1e-9 or abs(before - after) <= 1e-6 * size or before == after)
    return type(before) is type(after) and before == after


# Networks: one of each kind in each dimension
# ----------------------------------------------------------------------------------------------------------

FIRST = {1: 16, 2: 9, 3: 7, 4: 6, 5: 5, 6: 5, 7: 5, 8: 4}  # units of the first layer
SECOND = {1: 12, 2: 7, 3: 5, 4: 4, 5: 3, 6: 2, 7: 3, 8: 2}


@dataclass
class Draw:
    """Random numbers that are the same on every machine."""

    d: int
    rng: np.random.Generator

    @property
    def first(self) -> int:
        return FIRST[self.d]

    @property
    def second(self) -> int:
        return SECOND[self.d]

    def reals(self, *shape: int) -> Any:
        """Between -2 and 2, with 53 bits."""
        return self.rng.integers(-(2**52), 2**52, shape) / 2.0**51

    def integers(self, most: int, *shape: int) -> Any:
        return self.rng.integers(-most, most + 1, shape).astype(float)

    def fractions(self, *shape: int) -> Any:
        values = [
            Fraction(int(p), int(q))
            for p, q in zip(
                self.rng.integers(-9, 10, shape).flat, self.rng.integers(1, 8, shape).flat, strict=True
            )
        ]
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array.reshape(shape)

    def layers(self, numbers: Callable[..., Any], *, biased: bool = True) -> list[tuple[Any, Any]]:
        sizes = (self.d, self.first, self.second, 2)
        return [
            (numbers(after, before), numbers(after) if biased else None) for before, after in pairwise(sizes)
        ]

    def head(self, numbers: Callable[..., Any], heads: int, keys: int, **options: Any) -> Attention:
        biases = numbers(heads, keys) if options.pop("biased", True) else None
        return Attention(numbers(heads, keys, self.d), biases, numbers(heads, keys, self.d), **options)

    def fold(self, numbers: Callable[..., Any], *, skip: bool = False, slope: Any = 0) -> FeedForward:
        n = self.second
        return FeedForward(
            numbers(n, self.d), numbers(n), numbers(self.d, n), numbers(self.d), skip=skip, slope=slope
        )


def _generic(draw: Draw) -> Network:
    return Network.random_mlp([draw.d, draw.first, draw.second, 1], draw.d)


def _uniform(draw: Draw) -> Network:
    return Network.mlp(draw.layers(draw.reals))


def _integer(draw: Draw) -> Network:
    return Network.mlp(draw.layers(lambda *shape: draw.integers(3, *shape)))


def _ternary(draw: Draw) -> Network:
    return Network.mlp(draw.layers(lambda *shape: draw.integers(1, *shape)))


def _eighths(draw: Draw) -> Network:
    return Network.mlp(draw.layers(lambda *shape: draw.integers(12, *shape) / 8))


def _fractions(draw: Draw) -> Network:
    return Network.mlp(draw.layers(draw.fractions))


def _zero_bias(draw: Draw) -> Network:
    return Network.mlp(draw.layers(draw.reals, biased=False))


def _integer_zero_bias(draw: Draw) -> Network:
    return Network.mlp(draw.layers(lambda *shape: draw.integers(2, *shape), biased=False))


def _tied_units(draw: Draw) -> Network:
    (w, b), *later = draw.layers(draw.reals)
    w[1], b[1] = w[0], b[0]  # the same unit twice
    w[2], b[2] = -w[0], -b[0]  # and once more from the other side
    return Network.mlp([(w, b), *later])


def _nearly_tied(draw: Draw) -> Network:
    (w, b), *later = draw.layers(draw.reals)
    w[1], b[1] = w[0], np.nextafter(b[0], 9.0)
    w[2], b[2] = 3.0 * w[0], 3.0 * b[0]  # rounded: almost the same hyperplane
    return Network.mlp([(w, b), *later])


def _dead_units(draw: Draw) -> Network:
    (w, b), (v, c), last = draw.layers(draw.reals)
    b[0] = -1e6  # off in every bounded domain
    w[1] = 0.0  # constant
    v[0], c[0] = -np.abs(v[0]), -1.0  # off everywhere
    v[1] = 0.0
    c[1] = 0.0  # zero everywhere counts as off
    return Network.mlp([(w, b), (v, c), last])


def _leaky(draw: Draw) -> Network:
    return Network.mlp(draw.layers(draw.reals), slope=0.25)


def _slopes(draw: Draw) -> Network:
    slopes = ([Fraction(1, 3), -1, 0, 2, Fraction(-1, 7), 1, 0.1, 0.5] * 2)[: draw.second]
    return Network([draw.fold(lambda *shape: draw.integers(3, *shape), slope=slopes), draw.fold(draw.reals)])


def _residual(draw: Draw) -> Network:
    return Network([draw.fold(draw.reals, skip=True), draw.fold(draw.reals, skip=True)])


def _maxout(draw: Draw) -> Network:
    n = draw.second
    first = Maxout(draw.reals(n, 3, draw.d), draw.reals(n, 3))
    return Network([first, FeedForward(draw.reals(3, n), draw.reals(3), draw.reals(2, 3), None)])


def _integer_maxout(draw: Draw) -> Network:
    n = draw.second
    first = Maxout([draw.integers(2, 2 + g % 2, draw.d) for g in range(n)])
    return Network([first, Maxout(draw.integers(1, 2, 3, n), draw.integers(1, 2, 3), draw.integers(2, 1, 2))])


def _pool(draw: Draw) -> Network:
    n = draw.first
    windows = [[i, i + 1, i + 2] for i in range(0, n - 2, 2)]
    pool = Maxout.pool(n, windows)
    last = FeedForward(None, None, draw.reals(1, len(windows)), None)
    return Network([Affine(draw.reals(n, draw.d), draw.reals(n)), pool, last])


def _attention(draw: Draw) -> Network:
    return Network([draw.head(draw.reals, 2, 4), draw.fold(draw.reals)])


def _attention_linear(draw: Draw) -> Network:
    first = draw.head(draw.reals, 2, 4, biased=False, skip=False)
    return Network([first, draw.head(draw.reals, 1, 3, biased=False)])


def _attention_integer(draw: Draw) -> Network:
    def numbers(*shape: int) -> Any:
        return draw.integers(2, *shape)

    return Network([draw.head(numbers, 2, 4), draw.fold(numbers), draw.head(numbers, 1, 3)])


def _attention_fractions(draw: Draw) -> Network:
    return Network([draw.head(draw.fractions, 1, 4), draw.fold(draw.fractions)])


def _duplicate_keys(draw: Draw) -> Network:
    keys, biases, values = draw.integers(2, 2, 5, draw.d), draw.integers(1, 2, 5), draw.reals(2, 5, draw.d)
    keys[:, 1], biases[:, 1] = keys[:, 0], biases[:, 0]  # they win together
    keys[1, 3], biases[1, 3] = keys[1, 0], biases[1, 0]
    return Network([Attention(keys, biases, values), draw.fold(draw.reals)])


def _equal_values(draw: Draw) -> Network:
    values = np.repeat(draw.reals(2, 1, draw.d), 4, axis=1)  # walls that the map does not see
    return Network([Attention(draw.reals(2, 4, draw.d), draw.reals(2, 4), values), draw.fold(draw.reals)])


def _collinear_keys(draw: Draw) -> Network:
    steps = np.arange(5.0)[None, :, None]
    keys = steps * draw.integers(2, 2, 1, draw.d)
    biases = np.tile(-(np.arange(5.0) ** 2) / 2, (2, 1))
    return Network([Attention(keys, biases, draw.integers(2, 2, 5, draw.d)), draw.fold(draw.reals)])


def _ragged_heads(draw: Draw) -> Network:
    counts = (1, 4, 2)  # the first head has one key
    heads = [draw.reals(n, draw.d) for n in counts]
    values = [draw.reals(n, draw.d) for n in counts]
    block = Attention(heads, [draw.reals(n) for n in counts], values)
    mask = np.array([[True, False, True, True]])
    return Network([block, draw.head(draw.reals, 1, 4, mask=mask), draw.fold(draw.reals)])


def _one_key(draw: Draw) -> Network:
    return Network([draw.head(draw.reals, 1, 1), draw.fold(draw.reals), draw.head(draw.reals, 1, 1)])


def _weights(draw: Draw) -> Network:
    rank, width = 1 + draw.d // 3, 4
    shapes = ((2, rank, draw.d), (2, rank, width), (2, 2, width), (2, draw.d, 2))
    context = draw.reals(4, width)
    factors = [draw.reals(*shape) for shape in shapes]
    block = Attention.from_weights(context, *factors, b_Q=draw.reals(2, rank), score_bias=draw.reals(4))
    return Network([block, draw.fold(draw.reals)])


def _transformer(draw: Draw) -> Network:
    width = max(2, draw.second - 1)
    return Network.random(draw.d, n_tokens=3, heads=2, depth=2 if draw.d < 5 else 1, d_ff=width, rng=draw.d)


def _transformer_skip(draw: Draw) -> Network:
    return Network.random(
        draw.d, 4, 1, 1, draw.second, rng=draw.d + 90, d_head=1, biased=False, ffn_skip=True
    )


def _slice(draw: Draw) -> Network:
    wide = Network.random(draw.d + 3, n_tokens=4, heads=2, depth=1, d_ff=draw.second, rng=draw.d + 40)
    return wide.restrict(draw.reals(draw.d + 3), draw.reals(draw.d, draw.d + 3))


def _flat_slice(draw: Draw) -> Network:
    wide = Network.mlp(draw.layers(lambda *shape: draw.integers(2, *shape)))
    turned = draw.integers(1, draw.d, draw.d)
    turned[-1] = turned[0]  # not of full rank: cells that contain lines
    return wide.restrict(draw.fractions(draw.d), turned)


def _scales(draw: Draw) -> Network:
    layers = draw.layers(draw.reals)
    (w, b), (v, c), last = layers
    w[0], b[0] = w[0] * 2.0**200, b[0] * 2.0**200
    v[:, 0] = v[:, 0] * 2.0**-200
    w[1], b[1] = w[1] * 2.0**-60, b[1] * 2.0**-60
    return Network.mlp([(w, b), (v, c), last])


KINDS: dict[str, Callable[[Draw], Network]] = {
    make.__name__[1:].replace("_", "-"): make
    for make in (
        _generic, _uniform, _integer, _ternary, _eighths, _fractions, _zero_bias, _integer_zero_bias,
        _tied_units, _nearly_tied, _dead_units, _leaky, _slopes, _residual, _maxout, _integer_maxout, _pool,
        _attention, _attention_linear, _attention_integer, _attention_fractions, _duplicate_keys,
        _equal_values, _collinear_keys, _ragged_heads, _one_key, _weights, _transformer, _transformer_skip,
        _slice, _flat_slice, _scales,
    )
}  # fmt: skip
IN_FLOATS = ("generic", "uniform", "leaky", "maxout", "attention", "slice")  # no near ties
LOW = ("flat-slice", "scales", "ragged-heads", "collinear-keys", "pool", "equal-values")  # up to dimension 4

LARGE = ((1, (64, 64, 64), 0), (2, (32, 32, 32), 0), (2, (70, 6), 1), (3, (14, 8), 0), (4, (8, 6), 0),
         (5, (7, 5), 0), (6, (6, 4), 0), (7, (7, 4), 0), (8, (7, 4), 0))  # fmt: skip


def domains(d: int, n: int) -> tuple[str, Any]:
    """A box, the whole space, a simplex and a wedge, in turn."""
    eye, ones = np.eye(d), np.ones((1, d))
    return (
        ("box", Box.cube(d, -3, 3)),
        ("space", WholeSpace(d)),
        ("simplex", Polytope(np.concatenate([-eye, ones]), [1] * d + [2])),
        ("wedge", Polytope(np.concatenate([-eye[:1], ones]), [2, 3])),
        ("rational-box", Box([Fraction(-7, 3)] * d, [Fraction(5, 2)] * d)),
    )[n % 5]


def networks() -> Iterator[tuple[str, Network, str, Any]]:
    """Name, network, name of a domain, domain."""
    for k, (kind, make) in enumerate(KINDS.items()):
        for d in range(1, 9 if kind not in LOW else 5):
            seed = zlib.crc32(f"{kind} {d}".encode())
            network = make(Draw(d, np.random.default_rng(seed)))
            yield (f"{kind}-{d}d", network, *domains(d, k + d))
    cube = ("box", Box.cube(2, -4, 4))
    yield ("mlp-wide", Network.random_mlp([2, 16, 16, 16, 1], 0), *cube)
    yield ("one-unit", Network.mlp([([[1, 2]], [0]), ([[1]], [0])]), *cube)
    yield ("affine", Network([Affine([[1, 2]], [3])]), *cube)
    yield ("many-units", Network.random_mlp([2, 70, 3, 1], 1), "box", Box.cube(2, -1, 1))
    yield ("many-units-3d", Network.random_mlp([3, 12, 1], 1), "box", Box.cube(3, -1, 1))
    for d, widths, seed in LARGE:
        yield (f"large-{d}d-{seed}", Network.random_mlp([d, *widths, 1], seed), "box", Box.cube(d, -4, 4))
    draw = Draw(2, np.random.default_rng(8))
    whole = [(draw.integers(3, m, n), draw.integers(3, m)) for n, m in pairwise((2, 20, 20, 1))]
    yield ("large-integer", Network.mlp(whole), "box", Box.cube(2, -5, 5))
    deep = Network.random(2, n_tokens=6, heads=2, depth=3, d_ff=12, rng=4)
    yield ("large-transformer", deep, "box", Box.cube(2, -4, 4))
    for d, keys, teeth, depth, variant in (
        (1, 3, 2, 2, "plain"), (2, 3, 1, 1, "plain"), (2, 2, 1, 2, "plain"), (3, 2, 1, 1, "plain"),
        (1, 2, 2, 2, "ffn_skip"), (2, 2, 2, 1, "ffn_skip"), (1, 3, 1, 2, "genuine"), (2, 2, 1, 1, "genuine"),
    ):  # fmt: skip
        network = sawtooth_network(d, keys, teeth, depth, variant=variant)
        yield f"sawtooth-{variant}-{d}-{keys}-{teeth}-{depth}", network, "box", Box.cube(d, 0, 1)
    free = sawtooth_network(3, 2, 1, 1, variant="bias_free").restrict([0, 0, 1], [[1, 0, 0], [0, 1, 0]])
    yield "sawtooth-bias-free", free, "box", Box.cube(2, 0, 1)


# What is asked of a network
# ----------------------------------------------------------------------------------------------------------


def signatures(cells: Any) -> dict[str, Any]:
    found = digest(np.asarray(cells.routings), np.asarray(cells.relu_bits))
    return {"cells": cells.n_cells, "complete": cells.complete, "signatures": found}


def everything(network: Network, domain: Any, engine: str) -> dict[str, Any]:
    cells = enumerate_regions(network, domain, engine=engine)
    count = count_cells(network, domain, engine=engine)
    rows = [texts(cells.exact_halfspaces(i)) for i in range(0, cells.n_cells, 1 + cells.n_cells // 20)]
    return {
        **signatures(cells),
        "regions": cells.n_regions,
        "maps": digest(cells.linear, cells.offset),
        "adjacency": digest(cells.adjacency, cells.adjacency_kind),
        "labels": digest(cells.region_of_cell),
        "bounded": digest(cells.bounded),
        "halfspaces": digest(rows),
        "counted": [count.n_cells, count.complete, *count.cells_by_depth],
    }


@dataclass(frozen=True)
class Entry:
    """Something to compute, by name."""

    name: str
    compute: Callable[[], dict[str, Any]]
    slow: bool = False


def network_entries() -> Iterator[Entry]:
    for name, network, where, domain in networks():
        d = domain.d
        for engine in ENGINES.get(d, ("space", "search")):
            at = f"{name}/{where}/{engine}"
            yield Entry(f"{at}/certified", lambda n=network, x=domain, e=engine: everything(n, x, e))
            if d <= 4:
                yield Entry(
                    f"{at}/exact", lambda n=network, x=domain, e=engine: in_rationals(n, x, e), slow=True
                )
            if name.rpartition("-")[0] in IN_FLOATS and (d <= 3 or engine == "search"):
                yield Entry(
                    f"{at}/float",
                    lambda n=network, x=domain, e=engine: signatures(
                        enumerate_regions(n, x, engine=e, arithmetic="float")
                    ),
                )
    for d, widths in ((1, [1, 40, 20, 1]), (2, [2, 12, 8, 1]), (3, [3, 7, 4, 1]), (7, [7, 5, 3, 1])):
        network, box = Network.random_mlp(widths, 3), Box.cube(d, -2, 2)
        yield Entry(f"regions-counted-{d}d", lambda n=network, x=box: regions_counted(n, x))
        yield Entry(f"stopped-{d}d", lambda n=network, x=box: stopped(n, x))
        yield Entry(f"two-jobs-{d}d", lambda n=network, x=box: signatures(enumerate_regions(n, x, n_jobs=2)))
    network, box = Network.random_mlp([2, 128, 128, 128, 1], 0), Box.cube(2, -4, 4)  # several tasks
    yield Entry("tasks/regions", lambda: regions_counted(network, box))
    yield Entry("tasks/cells", lambda: counted(count_cells(network, box)))
    yield Entry("tasks/cells-two-jobs", lambda: counted(count_cells(network, box, n_jobs=2)))
    yield Entry("tasks/signatures", lambda: signatures(enumerate_regions(network, box)))


def counted(count: Any) -> dict[str, Any]:
    return {"cells": count.n_cells, "complete": count.complete, "depths": list(count.cells_by_depth)}


def in_rationals(network: Network, domain: Any, engine: str) -> dict[str, Any]:
    if count_cells(network, domain, engine=engine, max_cells=FEW_CELLS + 1).n_cells > FEW_CELLS:
        return {"cells": f"more than {FEW_CELLS}"}
    return signatures(enumerate_regions(network, domain, engine=engine, arithmetic="exact"))


def regions_counted(network: Network, domain: Any) -> dict[str, Any]:
    found = count_regions(network, domain)
    return {"regions": found.n_regions, "cells": found.n_cells, "complete": found.complete}


def stopped(network: Network, domain: Any) -> dict[str, Any]:
    found = enumerate_regions(network, domain, max_cells=10)
    return {"cells": found.n_cells, "complete": found.complete}


# Diagrams, sums, refinements, traces, information sets
# ----------------------------------------------------------------------------------------------------------


def keys_of(kind: str, d: int) -> tuple[Any, Any]:
    draw = Draw(d, np.random.default_rng(zlib.crc32(f"{kind} keys {d}".encode())))
    if kind == "real":
        return draw.reals(12, d), draw.reals(12)
    if kind == "linear":
        return draw.reals(12, d), None
    if kind == "fractions":
        return draw.fractions(9, d), draw.fractions(9)
    return draw.integers(1, 14, d), draw.integers(1, 14)  # a grid, with duplicates


def diagram(made: Any) -> dict[str, Any]:
    points = np.random.default_rng(made.d).integers(-6, 7, (300, made.d)) / 2.0  # many of them on walls
    found: dict[str, Any] = {
        "wins": np.flatnonzero(made.nonempty).tolist(),
        "ties": made.tie_group.tolist(),
        "located": digest(made.locate(points)),
    }
    if made.d <= 4:
        found["adjacency"] = digest(made.adjacency())
        found["walls"] = digest([(wall.keys, bool(wall.bounded)) for wall in made.facets()])
        found["vertices"] = len(made.vertices())
    return found


def sums(sets: Any, biases: Any) -> dict[str, Any]:
    found = minkowski_vertices(sets, biases)
    return {"count": found.count, "choices": digest(found.choices), "degenerate": found.degenerate}


def refinement(kind: str, d: int, domain: Any) -> dict[str, Any]:
    first, second = keys_of(kind, d), keys_of("integer", d)
    terms = [TropicalPolynomial(*first), TropicalPolynomial(*second)]
    cells = common_refinement(*terms, domain=domain)
    return {
        "cells": cells.n_cells,
        "terms": digest(cells.terms),
        "facets": digest([sorted(cells.facets(i)) for i in range(cells.n_cells)]),
        "fan": cells.is_fan,
        "essential": [polynomial.essential_terms().tolist() for polynomial in terms],
    }


def trace(network: Network, start: Any, end: Any, arithmetic: str) -> dict[str, Any]:
    found = trace_segment(network, start, end, arithmetic=arithmetic)
    seen = found.signatures
    values: dict[str, Any] = {
        "pieces": found.n_pieces,
        "complete": found.complete,
        "signatures": digest(seen.routings, seen.relu),
        "kinds": digest(found.kinds),
    }
    if arithmetic != "float":
        values["slopes"] = digest(found.slopes)
        values["breakpoints"] = digest(
            [str(found.exact_breakpoint(i)) for i in range(found.n_pieces - 1)][:12]
        )
    return values


def flow(plan: Plan, heads: tuple[int, ...], tokens: int, keep: str) -> dict[str, Any]:
    inputs = np.random.default_rng(tokens).integers(-8, 9, (40, tokens, 2)) / 4.0
    found = information_sets(Architecture(tokens, 2, heads, 2), plan, inputs, keep=keep)
    return {
        "routings": digest(*found.routings),
        "sizes": digest(found.sizes.tokens, found.sizes.cls),
        "sets": digest(found.sets()),
    }


def bounds() -> dict[str, Any]:
    return {
        "maxima": [str(vertex_maximum(n, h, d)) for n in (2, 3, 5) for h in (1, 3, 6) for d in (1, 2, 4)],
        "regions": [
            [bound.name, str(bound.base), bound.power]
            for bound in region_bounds(n_tokens=3, heads=2, d_model=3, d_ff=8, depth=2)
        ],
    }


def target(name: str) -> dict[str, Any]:
    inputs = np.random.default_rng(5).integers(-8, 9, (60, 7, 2)) / 4.0
    made = targets.triangle_center() if name == "triangle" else targets.pairwise([[[0, 1], [1, 0]]])
    return {"active": digest(made.active_set(inputs)), "comparisons": str(made.comparisons(12))}


def other_entries() -> Iterator[Entry]:
    for kind in ("real", "linear", "fractions", "integer"):
        for d in (1, 2, 3, 4, 6):
            keys, biases = keys_of(kind, d)
            yield Entry(
                f"attention-diagram/{kind}-{d}d",
                lambda k=keys, b=biases: diagram(attention_diagram(k, b)),
            )
        yield Entry(f"power-diagram/{kind}", lambda k=kind: diagram(power_diagram(*keys_of(k, 2))))
    for d, (n, heads) in {1: (5, 4), 2: (4, 4), 3: (3, 4), 4: (3, 3)}.items():
        draw = Draw(d, np.random.default_rng(d))
        real = [draw.reals(n, d) for _ in range(heads)]
        grid = [draw.integers(1, n + 2, d) for _ in range(heads)]
        lifts = [draw.reals(n) for _ in range(heads)]
        yield Entry(f"minkowski/real-{d}d", lambda s=real: sums(s, None))
        yield Entry(f"minkowski/lifted-{d}d", lambda s=real, b=lifts: sums(s, b))
        yield Entry(f"minkowski/grid-{d}d", lambda s=grid: sums(s, None))
        if d > 1:
            yield Entry(
                f"minkowski/parabolic-{d}d",
                lambda n=n, h=heads, d=d: sums(*parabolic_heads(n, h, d)),
            )
    for d in (1, 2, 3):
        for kind in ("real", "fractions", "integer"):
            where, domain = domains(d, d + len(kind))
            yield Entry(f"refinement/{kind}-{d}d/{where}", lambda k=kind, d=d, x=domain: refinement(k, d, x))
    wide = Network.random(16, n_tokens=10, heads=4, depth=2, d_ff=64, rng=0)
    teeth = sawtooth_network(2, 3, 2, 2)
    whole = Network.mlp(
        Draw(3, np.random.default_rng(2)).layers(
            lambda *s: np.round(np.arange(np.prod(s)) % 5 - 2).reshape(s)
        )
    )
    for arithmetic in ("certified", "exact", "float"):
        for name, network, start, end in (
            ("transformer", wide, [-1.0] * 16, [1.0] * 16),
            ("sawtooth", teeth, [0, 0], [1, Fraction(2, 3)]),
            ("integer", whole, [-5, 1, 0], [5, 0, 1]),
        ):
            if (name, arithmetic) not in (
                ("transformer", "exact"),
                ("sawtooth", "float"),
                ("integer", "float"),
            ):
                yield Entry(
                    f"trace/{name}/{arithmetic}",
                    lambda n=network, s=start, e=end, a=arithmetic: trace(n, s, e, a),
                )
    largest = MaxPosition(KeyScore(lambda keys: keys[:, :, 0, 0]))
    smallest = MaxPosition(KeyScore(lambda keys: -keys[:, :, 0, 1]))
    partner = MaxPosition(BilinearScore([[0, 1], [-1, 0]]))
    plans = {
        "one-layer": (Plan([{"cls": [largest, smallest]}]), (2,)),
        "two-layers": (Plan([{"tokens": [partner]}, {"cls": [largest]}]), (1, 1)),
        "mixed": (
            Plan([{"tokens": [partner, Positions([0, 1])], 2: [GlobalRead()]}, {"cls": [largest]}]),
            (2, 1),
        ),
    }
    for name, (plan, heads) in plans.items():
        for keep in ("cls", "all"):
            yield Entry(f"information-sets/{name}/{keep}", lambda p=plan, h=heads, k=keep: flow(p, h, 9, k))
    yield Entry("bounds", bounds)
    for name in ("triangle", "pairwise"):
        yield Entry(f"target/{name}", lambda n=name: target(n))


def claims(wanted: Callable[[str], bool]) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in check_claims():
        if wanted(f"claim/{entry.name}"):
            yield (
                f"claim/{entry.name}",
                {
                    "verdict": str(entry.verdict),
                    "numbers": json.loads(json.dumps(entry.numbers)),
                },
            )


# Comparing
# ----------------------------------------------------------------------------------------------------------


def attempted(entry: Entry) -> dict[str, Any]:
    try:
        return entry.compute()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def recomputed(
    wanted: Callable[[str], bool], names: list[str], skip_slow: bool, times: dict[str, float]
) -> dict[str, Any]:
    values = {}
    for entry in (*network_entries(), *other_entries()):
        if wanted(entry.name) and not (entry.slow and skip_slow):
            start = time.process_time()
            values[entry.name] = attempted(entry)
            times[entry.name] = time.process_time() - start
    if not skip_slow and (not names or any(name.startswith(("claim", "*")) for name in names)):
        start = time.process_time()
        values.update(claims(wanted))
        times["claim/*"] = time.process_time() - start
    return values


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield f"{name}: is no longer computed"
        elif name not in before:
            yield f"{name}: is not stored"
        else:
            old, new = before[name], after[name]
            for part in sorted(old.keys() | new.keys()):
                if part not in old or part not in new or not same(old[part], new[part]):
                    yield f"{name}: {part} was {old.get(part)}, is {new.get(part)}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Recompute digests of results and compare them.")
    parser.add_argument("names", nargs="*", help="names or patterns of entries; all by default")
    parser.add_argument("--write", action="store_true", help="store the present values")
    parser.add_argument("--skip-slow", action="store_true", help="without the ledger and rational runs")
    parser.add_argument("--times", action="store_true", help="print the entries that took longest")
    options = parser.parse_args()

    def wanted(name: str) -> bool:
        return not options.names or any(name == p or fnmatchcase(name, p) for p in options.names)

    times: dict[str, float] = {}
    after = recomputed(wanted, options.names, options.skip_slow, times)
    slow = {entry.name for entry in (*network_entries(), *other_entries()) if entry.slow}
    stored: dict[str, Any] = json.loads(STORED.read_text()) if STORED.exists() else {}
    compared = {
        name: value
        for name, value in stored.items()
        if wanted(name) and not (options.skip_slow and (name in slow or name.startswith("claim/")))
    }
    if options.times:
        for name in sorted(times, key=lambda name: -times[name])[:40]:
            print(f"{times[name]:8.2f} s  {name}")
    print(f"{len(after)} entries in {time.process_time():.0f} CPU seconds")
    if options.write:
        kept = {name: value for name, value in stored.items() if name not in compared}
        lines = [
            f"{json.dumps(name)}: {json.dumps(value)}" for name, value in sorted({**kept, **after}.items())
        ]
        STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        failed = [name for name, value in after.items() if "error" in value]
        print(f"written to {STORED.name}" + (f"; {len(failed)} with an error: {failed}" if failed else ""))
        return 1 if failed else 0
    found = list(differences(compared, json.loads(json.dumps(after))))
    print("\n".join(found) if found else "identical")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
