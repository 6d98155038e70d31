"""The plane engine's error bounds hold: every float row, vertex and pair is compared with integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numba.core.caching import NullCache
from oracles.random_networks import instance

import hardmax as hm
from hardmax.compiling import kernel
from hardmax.exact import double_double_kernels
from hardmax.exact.double_double import pair_of, sum_of_pairs
from hardmax.exact.double_double_kernels import products
from hardmax.exact.rationals import as_exact
from hardmax.networks.layers import AffineLayer, ArgmaxLayer, layers_of
from hardmax.regions.engine import layer_kernels
from hardmax.regions.engine.program import Program, perron_bound, spectral_bound
from hardmax.regions.engine.sign_kernels import FINER
from hardmax.regions.plane import kernels
from hardmax.regions.plane.geometry import corners_of, domain_polygon, envelope, planar, sign_at
from hardmax.regions.plane.machine import PlaneMachine
from hardmax.regions.search.machine import SearchMachine
from hardmax.regions.space.machine import SpaceMachine

BOX = hm.Box.cube(2, -4, 4)


def networks():
    yield hm.Network.random_mlp([2, 12, 12, 12, 1], 0)
    yield hm.Network.random(2, 6, 2, 3, 8, 0)
    yield hm.Network.random(2, 6, 2, 2, 8, 1, ffn_skip=True)
    yield hm.Network.random(5, 6, 2, 2, 8, 1, d_head=2).restrict(np.ones(5) / 3, np.eye(2, 5) + 0.1)
    yield hm.networks.sawtooth_network(2, 3, 2, 1)


def machines(steps):
    for network in networks():
        layers, domain = planar(layers_of(network), BOX)
        machine = PlaneMachine(layers, domain, arithmetic="certified", store=False, sliver=0.0)
        for _ in range(steps):
            machine.advance(7)
            if machine.done:
                break
            yield machine


def exact_rows(machine, layer):
    """Rows of a layer on the current path, as fractions."""
    bits, routings = machine._prefix(layer)
    hidden, q = machine.exact_maps.entering(layer, bits, routings)
    y = [[Fraction(int(v), q) for v in row] for row in hidden.tolist()]
    block = machine.layers[layer]
    matrix = block.weights if isinstance(block, AffineLayer) else block.scores
    biases = block.offsets if isinstance(block, AffineLayer) else block.biases
    rows = []
    for i in range(biases.shape[0]):
        value = biases.rational(i)
        bias = Fraction(int(value.p), int(value.q))
        if matrix is None:
            row = list(y[i])
        else:
            w = [Fraction(int(v.p), int(v.q)) for v in matrix.rational_row(i)]
            row = [sum(w[j] * y[j][c] for j in range(len(w))) for c in range(machine.domain.d + 1)]
        rows.append([*row[:-1], row[-1] + bias])
    return rows


def test_rows_and_vertices_stay_within_their_error_bounds():
    compared = 0
    for machine in machines(steps=12):
        layer, _, k, _, at, float_at = machine._top()
        for i in range(layer + 1):
            row_of_layer = machine.program.row(i)
            z, n = row_of_layer.z_at, row_of_layer.rows
            if isinstance(machine.layers[i], AffineLayer):
                continue
            error = machine.errors[i]
            for r, row in enumerate(exact_rows(machine, i)):
                a, b, c = (Fraction(machine.path[z + s * n + r]) for s in range(3))
                assert abs(a - row[0]) <= Fraction(error[layer_kernels.RA])
                assert abs(b - row[1]) <= Fraction(error[layer_kernels.RA])
                assert abs(c - row[2]) <= Fraction(error[layer_kernels.RC])
                compared += 1
        bits, routings = machine._prefix(layer)
        corners = corners_of(machine._exact_lines(machine.si[at : at + 2 * k], bits, routings))
        vertices = machine.sf[float_at : float_at + kernels.FLOATS_PER_EDGE * k].reshape(k, -1)
        for vertex, (x, y, w, _, _) in zip(vertices, corners, strict=True):
            if not vertex[kernels.EW] < np.inf:
                continue
            fx, fy, fw = (Fraction(vertex[c]) for c in (kernels.X, kernels.Y, kernels.W))
            exy, ew = Fraction(vertex[kernels.EXY]), Fraction(vertex[kernels.EW])
            # homogeneous: some multiple of the exact corner is within reach
            low, high = max(fw - ew, 0), fw + ew
            for value, exact in ((fx, Fraction(x, w)), (fy, Fraction(y, w))):
                reachable = sorted((low * exact, high * exact))
                assert reachable[0] - exy <= value <= reachable[1] + exy
            compared += 1
    assert compared > 1500


@pytest.mark.parametrize("kind", [SpaceMachine, SearchMachine])
def test_rows_and_their_values_stay_within_the_bounds_in_any_dimension(kind):
    """One kernel enters a layer in every dimension; values at points are within T_A |x| + T_C."""
    rng, compared = np.random.default_rng(0), 0
    for d in (3, 5):
        blocks = hm.Network.random(d, 5, 2, 2, 6, 1, ffn_skip=True)
        for network in (hm.Network.random_mlp([d, 8, 8, 8, 1], 0), blocks):
            domain = hm.Box.cube(d, -4, 4)
            machine = kind(layers_of(network), domain, arithmetic="certified", store=False, sliver=0.0)
            for _ in range(6):
                machine.advance(7)
                if machine.done:
                    break
                top = int(machine.control[machine.kernels.C_INTS]) - layer_kernels.HEADER
                for i in range(int(machine.si[top + 1]) + 1):
                    here = machine.program.row(i)
                    z, n = here.z_at, here.rows
                    floats, error = machine.path[z : z + (d + 1) * n].reshape(d + 1, n), machine.errors[i]
                    for r, row in enumerate(exact_rows(machine, i)):
                        off = [abs(Fraction(v) - exact) for v, exact in zip(floats[:, r], row, strict=True)]
                        assert max(off[:-1]) <= Fraction(error[layer_kernels.RA])
                        assert off[-1] <= Fraction(error[layer_kernels.RC])
                        point = rng.uniform(-4, 4, d)
                        exact = sum((Fraction(v) * a for v, a in zip(point, row[:-1], strict=True)), row[-1])
                        bound = error[layer_kernels.T_A] * np.abs(point).sum() + error[layer_kernels.T_C]
                        assert abs(Fraction(float(floats[:-1, r] @ point + floats[-1, r])) - exact) <= bound
                        compared += 1
    assert compared > 200


def test_maps_are_changed_and_computed_anew_in_time():
    changed = whole = 0
    for machine in machines(steps=200):
        for layer in range(machine.program.last):
            row, changes = machine.program.row(layer), machine.errors[layer, layer_kernels.CHANGES]
            if row.kind == layer_kernels.FOLD:
                assert changes <= row.rows / 2
                changed += changes > 0
                whole += changes == 0
    assert changed > 50
    assert whole > 50


@kernel
def enter_first(net, path, errors):
    layer_kernels.enter(np.int64(3), net, path, errors, np.int64(0), np.int64(layer_kernels.CERTIFIED))


@kernel
def leave_first(net, path, errors, word, signs, units):
    layer_kernels.leave_units(np.int64(3), net, path, errors, np.int64(0), word, signs, units)


for wrapper in (enter_first, leave_first):  # numba's cache would not see that the kernels they call changed
    wrapper._cache = NullCache()


def rounded(x, terms):
    """What rounding a sum of so many terms, of absolute values x, may cost."""
    u = Fraction(1, 2**53)
    return x * terms * u / (1 - terms * u)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("spread", [0.1, 30.0])
def test_the_bound_on_a_changed_map_covers_every_rounding(skip, spread):
    """A walk through the cells of a layer of 64 units, whose roundings are added up in rationals.

    With a small spread the norms of the bound are nearly attained; it would fail without its steps.
    """
    rng, n, e = np.random.default_rng(int(spread)), 64, 2
    w_in, b_in, w_out, b_out = (np.exp(spread * rng.uniform(-1, 1, s)) for s in ((n, 2), n, (e, n), e))
    if spread > 1.0:
        w_out *= rng.choice([-1.0, 1.0], w_out.shape)
    blocks = [
        hm.FeedForward(w_in, b_in, w_out, b_out, skip=skip),
        hm.FeedForward(np.eye(e), b_out, np.eye(e), b_out),
    ]
    program = Program.of(layers_of(hm.Network(blocks)))
    net, here, to = program.net, program.row(0), program.row(1).y_at
    path, errors = np.zeros(program.path_size), np.zeros((3, layer_kernels.ERRORS))
    word, signs, units = (
        np.zeros(1, dtype=np.int64),
        np.zeros(program.sign_size, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
    )
    path[:6] = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    enter_first(net, path, errors)
    z = [[Fraction(v) for v in row] for row in path[here.z_at : here.z_at + 3 * n].reshape(3, n)]
    u = [[Fraction(v) for v in row] for row in w_out]
    kept = [[Fraction(c * (r == i) if skip else 0) for i in range(e)] for r, c in ((0, 1), (1, 1), (2, 0))]
    start = [kept[0], kept[1], [kept[2][i] + Fraction(b_out[i]) for i in range(e)]]
    # what the errors of z bring along; the rest of the bound is for the roundings below
    f = program.bounds[0]
    brought = [
        f[layer_kernels.GAMMA] * (f[layer_kernels.SIGMA_ABS] * x + b)
        for x, b in ((1.0, 0.0), (0.0, f[layer_kernels.B_NORM]))
    ]
    on, cost, most = np.ones(n, dtype=bool), None, 0
    for step in range(120):
        word[0] = np.packbits(on, bitorder="little").view(np.int64)[0]
        before = [[Fraction(v) for v in row] for row in path[to : to + 3 * e].reshape(3, e)]
        flipped = np.flatnonzero(on != (np.unpackbits(signs[2:3].view(np.uint8), bitorder="little") == 1))
        leave_first(net, path, errors, word, signs, units)
        assert signs[2] == word[0]
        changes = errors[0, layer_kernels.CHANGES]
        most = max(most, changes)
        terms = [[[u[i][j] * z[c][j] for j in range(n)] for i in range(e)] for c in range(3)]
        if changes == 0:
            cost = [
                [
                    rounded(
                        abs(start[c][i]) + sum(abs(terms[c][i][j]) for j in np.flatnonzero(on)), on.sum() + 2
                    )
                    for i in range(e)
                ]
                for c in range(3)
            ]
        else:
            more = [
                [
                    rounded(abs(before[c][i]) + sum(abs(terms[c][i][j]) for j in flipped), len(flipped) + 1)
                    for i in range(e)
                ]
                for c in range(3)
            ]
            cost = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(cost, more, strict=True)]
        floats = path[to : to + 3 * e].reshape(3, e)
        for c in range(3):
            bound = errors[1, layer_kernels.DC if c == 2 else layer_kernels.DA]
            norm = errors[1, layer_kernels.EC if c == 2 else layer_kernels.EA]
            own, all_own = (
                Fraction(v) - Fraction(f[g]) * Fraction(brought[c // 2])
                for v, g in ((bound, layer_kernels.RHO_OUT), (norm, layer_kernels.SIGMA_OUT))
            )
            for i in range(e):
                exact = start[c][i] + sum(terms[c][i][j] for j in np.flatnonzero(on))
                assert abs(Fraction(floats[c, i]) - exact) <= cost[c][i] <= own
            assert sum(v * v for v in cost[c]) <= all_own**2
        if spread > 1.0:
            on[rng.integers(n, size=rng.integers(4))] ^= True
        else:  # nearly all units stay on, so that the map is as large as its bound
            on[:] = True
            on[rng.integers(n)] = step % 2 == 0
    assert most > 20


def test_bounds_of_pairs_are_bounds_of_floats_with_a_finer_unit():
    """The error of a sum of n products is at most n + 8 units for pairs, and n + 6 are charged for floats."""
    for n in (0, 1, 2, 10, 10**6):
        pairs, floats = Fraction(double_double_kernels.UNIT), Fraction(layer_kernels.UNIT)
        assert (n + 8) * pairs <= Fraction(FINER) * (n + 6) * floats


def test_double_double_decides_what_floats_cannot():
    rng = np.random.default_rng(1)
    weights = rng.standard_normal(
        (16, 2)
    )  # sixteen lines through one point, up to a few units in the last place
    biases = -(weights @ [0.1, 0.2]) * (1 + rng.integers(-3, 4, 16) * 2.0**-52)
    network = hm.Network.mlp(
        [
            (weights, biases),
            (rng.standard_normal((16, 16)) / 4, rng.standard_normal(16)),
            (np.ones((1, 16)), None),
        ]
    )
    count = hm.count_cells(network, BOX)
    assert count.n_double_double > 100
    assert count.n_cells == hm.count_cells(network, BOX, arithmetic="exact").n_cells


def test_products_of_pairs_carry_a_hundred_bits():
    rng = np.random.default_rng(0)
    a = np.array([[Fraction(int(v), 3) for v in row] for row in rng.integers(-9, 9, (3, 4))], dtype=object)
    b = np.array([[Fraction(int(v), 7) for v in row] for row in rng.integers(-9, 9, (4, 2))], dtype=object)
    ah, al = pair_of(as_exact(a, "a", ndim=2))
    bh, bl = pair_of(as_exact(b, "b", ndim=2))
    high, low = np.zeros((3, 2)), np.zeros((3, 2))
    products(ah, al, bh, bl, high, low)
    exact = a @ b
    for index in np.ndindex(3, 2):
        assert abs(Fraction(high[index]) + Fraction(low[index]) - exact[index]) < Fraction(1, 2**97)
    total = sum_of_pairs(np.array([1.0]), np.array([2.0**-60]), np.array([-1.0]), np.array([2.0**-70]))
    assert total[0][0] + total[1][0] == 2.0**-60 + 2.0**-70


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (40, 40), (64, 5)])
def test_the_spectral_bound_is_a_bound_and_close(shape):
    matrix = np.random.default_rng(0).standard_normal(shape)
    norm = np.linalg.norm(matrix, 2)
    assert norm <= spectral_bound(matrix) <= 1.2 * norm
    assert spectral_bound(0.0 * matrix) == 0.0
    norm = np.linalg.norm(np.abs(matrix), 2)
    assert norm <= perron_bound(np.abs(matrix)) <= 1.05 * norm
    assert perron_bound(0.0 * matrix) == 0.0


def test_a_filter_without_its_bound_would_be_wrong():
    """On degenerate input the plain float machine disagrees with the certified one: the bound matters."""
    differences = 0
    for number in range(300):
        case = instance(number)
        certified = hm.count_cells(case.network, case.domain).n_cells
        differences += (
            hm.count_cells(case.network, case.domain, arithmetic="float", max_cells=5000).n_cells != certified
        )
    assert differences > 0


def test_integer_polygons():
    square = domain_polygon(
        [(1, 0, 0), (-1, 0, 1), (0, 1, 0), (0, -1, 1), (-1, -1, 3)]
    )  # the last side is redundant
    assert square is not None
    lines, labels = square
    assert sorted(labels) == [0, 1, 2, 3]
    corners = corners_of(lines)
    assert sorted((x / w, y / w) for x, y, w, _, _ in corners) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert domain_polygon([(1, 0, 0), (-1, 0, 0)]) is None
    parts = envelope(lines, corners, [(0, 0, 0), (2, 0, -1), (2, 0, -1), (1, 0, -3)])
    assert [(key, tied) for key, tied, _ in parts] == [(0, [0]), (1, [1, 2])]
    assert sign_at((1, 0, -7), corners_of(domain_polygon([])[0])[2]) == 1  # far to the right of x = 7


def test_wall_layers_keep_multiplicities():
    head = hm.Attention([[[1.0], [1.0], [-1.0]]], None, [[[0.0], [1.0], [3.0]]])
    (layer,) = layers_of(hm.Network([head]))
    assert isinstance(layer, ArgmaxLayer)
    assert layer.multiplicities.tolist() == [2, 1]
