"""All heads of a layer on a plane of inputs: against other engines, other arithmetic and plain evaluation."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from captured_layers import causal, random_layer
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.errors import CertificateError, InvalidInputError
from hardmax.models.atlas import layer_cells
from hardmax.models.atlas.layer_cells import layer_slice, plane_through, principal_plane, slice_network
from hardmax.models.reading.sources import CapturedLayer, QueryMap


@st.composite
def layers(draw: st.DrawFn) -> CapturedLayer:
    n = draw(st.integers(1, 7))
    heads = draw(st.sampled_from([1, 2, 4]))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    bias = draw(st.sampled_from([None, heads]))
    return random_layer(
        rng,
        n=n,
        heads=heads,
        groups=1 if heads == 4 else heads,
        d_model=draw(st.integers(2, 5)),
        d_head=draw(st.integers(1, 3)),
        present=causal(n) if draw(st.booleans()) else None,
        bias=None if bias is None else rng.integers(-2, 3, (bias, n, n)) / 4.0,
        integers=draw(st.booleans()),
        scale=draw(st.sampled_from([0.1, 1.0, 3**-0.5])),
    )


def exact_winners(layer: CapturedLayer, head: int, t: int, x: list[Fraction]) -> set[int]:
    """The keys with the largest score at an input, in fractions, from whole weights."""
    asked = layer.query_map(t)
    W, b = asked.matrix[head], asked.offset[head]
    q = [
        sum((Fraction(float(w)) * v for w, v in zip(row, x, strict=True)), Fraction(float(o)))
        for row, o in zip(W, b, strict=True)
    ]
    scores = {}
    for s in np.flatnonzero(layer.present[t]):
        key = layer.keys[layer.group(head)][s]
        score = Fraction(float(layer.scale)) * sum(
            Fraction(float(k)) * v for k, v in zip(key, q, strict=True)
        )
        if layer.bias is not None:
            score += Fraction(float(layer.bias[head][t, s]))
        scores[int(s)] = score
    top = max(scores.values())
    return {s for s, score in scores.items() if score == top}


@given(layers(), st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_cells_against_plain_evaluation_and_a_second_engine(layer: CapturedLayer, at: int) -> None:
    t = at % layer.n_queries
    found = layer_slice(layer, principal_plane(layer.inputs), position=t)
    assert found.complete
    assert found.coverage == pytest.approx(1.0)
    assert found.n_cells == len(found.routings) == len(found.polygons)
    assert len(np.unique(found.routings, axis=0)) == found.n_cells  # a cell is convex, so met once
    # a point of every cell, in fractions and from whole weights (slivers may hold no float)
    network, _ = slice_network(layer, principal_plane(layer.inputs), t)
    cells = hm.enumerate_regions(network, hm.Box(found.low, found.high))
    np.testing.assert_array_equal(cells.routings, found.routings)
    for i in range(min(found.n_cells, 12)):
        place = cells.exact_witness(i)
        x = [
            Fraction(float(o)) + place[0] * Fraction(float(u)) + place[1] * Fraction(float(v))
            for o, u, v in zip(found.origin, *found.directions, strict=True)
        ]
        for h in range(layer.heads):
            assert found.routings[i, h] == min(exact_winners(layer, h, t, x))
    # cells of the whole plane by the engine of Minkowski sums
    block = network.blocks[0]
    seen = np.flatnonzero(layer.present[t])
    slopes = [[list(map(Fraction, block.scores.floats[h, s])) for s in seen] for h in range(layer.heads)]
    if block.scores.fractions is not None:
        slopes = [block.scores.fractions[h][seen] for h in range(layer.heads)]
    exact = block.biases.floats if block.biases.fractions is None else block.biases.fractions
    sum_of_heads = hm.minkowski_vertices(slopes, [exact[h][seen] for h in range(layer.heads)])
    assert found.n_cells_plane == sum_of_heads.count
    assert found.n_cells <= found.n_cells_plane <= found.refinement_bound
    # what a fine grid of float evaluations sees is among the cells
    grid = np.stack(np.meshgrid(*np.linspace(found.low, found.high, 23).T), axis=-1).reshape(-1, 2)
    x = found.origin + grid @ found.directions
    asked = layer.query_map(t)
    routed, clear = [], np.ones(len(grid), dtype=bool)
    for h in range(layer.heads):
        q = x @ asked.matrix[h].T + asked.offset[h]
        scores = q @ layer.keys[layer.group(h)].T * layer.scale
        if layer.bias is not None:
            scores = scores + layer.bias[h][t]
        scores = np.where(layer.present[t], scores, -np.inf)
        best = scores.argmax(axis=1)
        rows = layer.keys[layer.group(h)]
        rows = rows if layer.bias is None else np.column_stack([rows, layer.bias[h][t]])
        copies = (rows[best][:, None] == rows[None]).all(axis=2) & layer.present[t]
        routed.append(copies.argmax(axis=1))
        near = (scores > scores.max(axis=1, keepdims=True) - 1e-6) & ~copies
        clear &= ~near.any(axis=1)  # floats cannot tell, which is what exact arithmetic is for
    known = {tuple(row) for row in found.routings}
    assert {tuple(row) for row in np.stack(routed, axis=1)[clear]} <= known


def test_the_same_cells_by_restriction_of_the_whole_layer() -> None:
    """Keys as context with exact selectors, W_Q as it is, restricted to the plane."""
    layer = random_layer(7, n=9, heads=3, d_model=6, d_head=3)
    plane = principal_plane(layer.inputs)
    found = layer_slice(layer, plane)
    context = np.concatenate(list(layer.keys), axis=1)
    selectors = [np.eye(9)[3 * h : 3 * h + 3] for h in range(3)]
    asked = layer.query_map(0)
    block = hm.Attention.from_weights(
        context, list(asked.matrix), selectors, [np.zeros((1, 9))] * 3, [np.zeros((1, 1))] * 3,
        b_Q=list(asked.offset), skip=False,
    )  # fmt: skip
    network = hm.Network([block]).restrict(plane.origin, plane.directions)
    whole = hm.enumerate_regions(network, hm.Box(found.low, found.high))
    np.testing.assert_array_equal(whole.routings, found.routings)
    for ours, theirs in zip(found.polygons, whole.polygons(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    for h in range(3):  # each head alone
        alone = layer_slice(layer, plane, heads=[h])
        assert alone.n_cells == found.n_cells_per_head[h]
        assert alone.heads == (h,)


def test_tokens_of_the_plane_are_where_they_route() -> None:
    layer = random_layer(11, n=10, heads=4, d_model=6, d_head=4)
    found = layer_slice(layer, plane_through(layer.inputs, (2, 5, 7)))
    np.testing.assert_allclose(found.token_distances[[2, 5, 7]], 0.0, atol=1e-12)
    np.testing.assert_allclose(found.token_places[2], 0.0, atol=1e-12)
    assert found.token_places[5][0] > 0.0
    assert abs(found.token_places[5][1]) < 1e-12
    np.testing.assert_array_equal(found.token_agreement[[2, 5, 7]], 1.0)
    for t in (2, 5, 7):  # the cell that holds the token has its routing
        inside = [_holds(polygon, found.token_places[t]) for polygon in found.polygons]
        real = [int(layer.scores(h)[t].argmax()) for h in range(4)]
        assert found.routings[inside].tolist() == [real]
    far = np.delete(np.arange(10), [2, 5, 7])
    offset = layer.inputs[far] - found.origin
    inside_plane = found.token_places[far] @ found.directions
    np.testing.assert_allclose(
        found.token_distances[far] ** 2,
        (offset**2).sum(axis=1) - (inside_plane**2).sum(axis=1),
        rtol=1e-9,
    )
    assert (found.token_places > found.low).all()
    assert (found.token_places < found.high).all()


def _holds(polygon: np.ndarray, point: np.ndarray) -> bool:
    a, b = polygon, np.roll(polygon, -1, axis=0)
    side, to = b - a, point - a
    return bool((side[:, 0] * to[:, 1] - side[:, 1] * to[:, 0] > 0).all())


def test_what_a_picture_depends_on_is_said() -> None:
    layer = random_layer(1, n=6)
    plane = principal_plane(layer.inputs)
    assert layer_slice(layer, plane).any_position
    masked = replace(layer, present=causal(6))
    assert not layer_slice(masked, plane).any_position
    assert layer_slice(masked, plane).position == 5
    assert layer_slice(masked, plane, position=0).n_cells == 1  # one key, one cell
    turned = replace(
        layer,
        query_map=lambda t: QueryMap(layer.query_map(t).matrix, layer.query_map(t).offset, t, ("norm",)),
    )
    found = layer_slice(turned, plane, position=3)
    assert not found.any_position
    assert found.frozen == ("norm",)
    alibi = np.random.default_rng(0).standard_normal((2, 6, 6))
    assert not layer_slice(replace(layer, bias=alibi), plane).any_position
    unread = causal(6)
    unread[5] = False
    last = layer_slice(replace(layer, present=unread), plane)
    assert last.position == 4
    assert np.isnan(last.token_agreement[5])


def test_degenerate_inputs_still_have_a_plane() -> None:
    layer = random_layer(2, n=1)
    assert layer_slice(layer, principal_plane(layer.inputs)).n_cells == 1
    line = np.outer(np.arange(5.0), [1.0, 2.0, 2.0])
    plane = principal_plane(line)
    np.testing.assert_allclose(plane.directions @ plane.directions.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(plane.places(line)[1], 0.0, atol=1e-12)
    same = principal_plane(np.ones((4, 3)))
    np.testing.assert_array_equal(same.directions, np.eye(3)[:2])
    with pytest.raises(InvalidInputError, match="on a line"):
        plane_through(line, (0, 1, 3))
    with pytest.raises(InvalidInputError, match="on a line"):
        plane_through(np.random.default_rng(0).standard_normal((4, 3)), (0, 0, 1))
    with pytest.raises(InvalidInputError, match="three tokens from 0 to 4"):
        plane_through(line, (0, 1))
    with pytest.raises(InvalidInputError, match="three tokens from 0 to 4"):
        plane_through(line, (0, 1, 5))
    with pytest.raises(InvalidInputError, match="two dimensions"):
        principal_plane(np.ones((4, 1)))
    with pytest.raises(InvalidInputError, match="query_map"):
        layer_slice(replace(layer, query_map=None), principal_plane(layer.inputs))


def test_repeated_tokens_are_one_key() -> None:
    layer = random_layer(8, n=5, heads=2)
    twice = replace(
        layer,
        keys=np.concatenate([layer.keys, layer.keys[:, ::-1]], axis=1),
        values=np.concatenate([layer.values, layer.values], axis=1),
        present=np.ones((5, 10), dtype=bool),
    )
    plane = principal_plane(layer.inputs)
    one, two = layer_slice(layer, plane), layer_slice(twice, plane)
    np.testing.assert_array_equal(one.routings, two.routings)
    assert two.refinement_bound == one.refinement_bound
    assert two.n_checked == two.n_cells


def test_an_unfinished_slice_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = random_layer(0, n=20, heads=3, d_model=8, d_head=6)
    plane = principal_plane(layer.inputs)
    whole = layer_slice(layer, plane, time_limit=60.0)
    assert whole.complete
    monkeypatch.setattr(layer_cells, "count_cells", partial(hm.count_cells, max_cells=3))
    assert not layer_slice(layer, plane).complete
    monkeypatch.undo()
    monkeypatch.setattr(layer_cells, "enumerate_regions", partial(hm.enumerate_regions, max_cells=3))
    cut = layer_slice(layer, plane)
    assert not cut.complete
    assert cut.n_cells < whole.n_cells
    assert "INCOMPLETE" in repr(cut)


def test_a_map_that_does_not_give_the_queries_is_refused() -> None:
    layer = random_layer(3)
    asked = layer.query_map(0)
    wrong = replace(layer, query_map=lambda t: QueryMap(asked.matrix, asked.offset + 0.01))
    with pytest.raises(CertificateError, match="query map of layer 0"):
        layer_slice(wrong, principal_plane(layer.inputs))


def test_a_wrong_routing_is_caught() -> None:
    layer = random_layer(4)
    plane = principal_plane(layer.inputs)
    found = layer_slice(layer, plane)
    check = layer_cells._Floats(layer, (0, 1), found.position, layer.query_map(0))
    points = plane.origin + found.witnesses @ plane.directions
    assert check.confirmed(points, found.routings) == found.n_cells
    wrong = found.routings.copy()
    wrong[0, 1] = (wrong[0, 1] + 1) % layer.n_keys
    with pytest.raises(CertificateError, match="float scores at its witness"):
        check.confirmed(points, wrong)


def test_a_point_on_a_wall_confirms_nothing() -> None:
    x = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    keys = np.array([[[1.0, 0.0], [-1.0, 0.0]]])
    same = QueryMap(np.eye(2)[None], np.zeros((1, 2)))
    layer = CapturedLayer(
        0, x, x[None], keys, keys, np.ones((3, 2), dtype=bool), 1.0, query_map=lambda t: same
    )
    check = layer_cells._Floats(layer, (0,), 0, same)
    places = np.array([[0.5, 3.0], [0.0, 3.0], [-0.5, 3.0]])
    assert check.confirmed(places, np.array([[0], [1], [1]])) == 2


def test_a_slice_is_a_result(tmp_path) -> None:
    found = layer_slice(random_layer(5), principal_plane(random_layer(5).inputs))
    path = found.save(tmp_path / "slice.npz")
    again = hm.load(path)
    assert repr(again) == repr(found)
    for ours, theirs in zip(again.polygons, found.polygons, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert again.heads == found.heads
    assert list(again.to_frame()["cells"]) == list(found.n_cells_per_head)
    assert "corners" not in found.summary()
