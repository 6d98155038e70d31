"""What is read from a model: states, recovered tokens, real routing, diagrams and hardness."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.flow.theorems.depth_separation import separation_transformer
from hardmax.flow.theorems.softmax_transformers import SoftmaxLayer, SoftmaxTransformer, TwoLayer
from hardmax.training.data import outputs_of
from hardmax.training.layout import TransformerShape
from hardmax.training.learned_routing import (
    cells_in_plane,
    fixed_context,
    head_diagram,
    measured_hardness,
    query_network,
    routed_flow,
)
from hardmax.training.states import (
    head_weights,
    recovery,
    recovery_errors,
    run_states,
    states_in_blocks,
    token_of_rank,
)
from hardmax.training.trained_models import bundled_model

SHAPE = TransformerShape(5, 3, (6, 8), (2, 4), (7, 9), beta=0.8)


def inputs(n: int, shape: TransformerShape = SHAPE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, shape.n_tokens, shape.d_token))


@pytest.fixture(scope="module")
def vector():
    return SHAPE.initial(3)


# States
# ----------------------------------------------------------------------------------------------------------


def as_softmax_transformer(shape: TransformerShape, vector: np.ndarray) -> SoftmaxTransformer:
    """The same model in the words of another module, which was written for constructions."""
    arrays = {name: np.asarray(a, dtype=float) for name, a in shape.split(vector).items()}
    layers, blocks = [], []
    for l in range(shape.depth):
        h, E = shape.heads[l], shape.widths[l]
        q, k, v = (arrays[f"layers.{l}.{part}"].reshape(h, E // h, E) for part in ("query", "key", "value"))
        layers.append(SoftmaxLayer(q, k, v, arrays[f"layers.{l}.output"]))
        blocks.append(
            TwoLayer(
                *(
                    arrays[f"layers.{l}.{p}"]
                    for p in ("hidden.weight", "hidden.bias", "out.weight", "out.bias")
                )
            )
        )
    return SoftmaxTransformer(
        arrays["encoder.weight"],
        arrays["encoder.bias"],
        arrays["cls"],
        tuple(layers),
        tuple(blocks[:-1]),
        blocks[-1],
        shape.betas[0],
    )


def test_states_are_those_of_the_other_implementation(vector):
    X = inputs(6)
    layers, found = run_states(SHAPE, vector, X)
    other = as_softmax_transformer(SHAPE, vector)
    np.testing.assert_allclose(found[:, 0], other(X), rtol=1e-12, atol=1e-13)
    tokens, cls = other.states(X)[0]
    np.testing.assert_allclose(layers[0].of_tokens[1], tokens, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(layers[0].cls_attended, cls, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"activation": "gelu", "beta": (0.5, 2.0)},
        {"positions": "additive"},
        {"positions": "appended", "d_position": 2},
        {"positions": "additive", "cls_position": True, "layer_norm": True},
        {"encoder_hidden": 4},
    ],
)
def test_states_are_those_of_the_torch_module(options):
    torch = pytest.importorskip("torch", reason="the reference module needs torch")
    from hardmax.training.transformer import Transformer

    shape = TransformerShape(5, 3, (6, 8), (2, 4), (7, 9), n_outputs=2, **options)
    start = shape.initial(1)
    X = inputs(4, shape)
    with torch.no_grad():
        wanted = Transformer(shape, start)(torch.from_numpy(X.astype(np.float32))).numpy()
    np.testing.assert_allclose(run_states(shape, start, X)[1], wanted, rtol=2e-5, atol=2e-6)


def test_blocks_are_the_whole(vector, monkeypatch):
    X = inputs(7)
    monkeypatch.setattr("hardmax.training.states._SCORES", 300)
    blocks = list(states_in_blocks(SHAPE, vector, X))
    assert len(blocks) > 1
    whole = run_states(SHAPE, vector, X)[0]
    np.testing.assert_array_equal(
        np.concatenate([layers[1].cls_scores for _, layers in blocks]).shape, whole[1].cls_scores.shape
    )
    np.testing.assert_allclose(
        np.concatenate([layers[1].cls_scores for _, layers in blocks]), whole[1].cls_scores, atol=1e-13
    )


def test_states_refuse_what_does_not_fit(vector):
    with pytest.raises(DimensionMismatchError, match="parameters of this shape"):
        run_states(SHAPE, vector[:-1], inputs(1))
    with pytest.raises(NotFiniteError, match="parameters must be finite"):
        run_states(SHAPE, np.full_like(vector, np.nan), inputs(1))
    with pytest.raises(DimensionMismatchError, match=r"X must have the shape \(B, 5, 3\)"):
        run_states(SHAPE, vector, inputs(1)[:, :4])
    with pytest.raises(InvalidInputError, match="layer must be between 0 and 1"):
        head_weights(SHAPE, vector, 2)
    with pytest.raises(InvalidInputError, match="layer must not be the last"):
        _ = run_states(SHAPE, vector, inputs(1))[0][1].of_tokens


# Probes
# ----------------------------------------------------------------------------------------------------------


def copying_model(beta: float) -> tuple[TransformerShape, np.ndarray]:
    """One head that puts the token with the largest first coordinate beside the token itself.

    A third coordinate of the state is 1, so that every query can ask for the first coordinate of the keys.
    """
    shape = TransformerShape(6, 2, (6, 6), (1, 1), (3, 3), beta=beta)
    arrays = {name: np.zeros_like(a) for name, a in shape.split(shape.initial(0)).items()}
    arrays["encoder.weight"][:2] = np.eye(2)
    arrays["encoder.bias"][2] = 1.0
    arrays["layers.0.query"][0, 2] = 1.0
    arrays["layers.0.key"][0, 0] = 1.0
    arrays["layers.0.value"][:2, :2] = np.eye(2)
    arrays["layers.0.output"][3:5, :2] = np.eye(2)
    return shape, shape.join(arrays)


def test_a_hard_head_gives_its_winner_away_and_nothing_else():
    shape, built = copying_model(beta=300.0)
    X, Z = inputs(300, shape, 0), inputs(200, shape, 1)
    assert recovery_errors(shape, built, X, Z)[0] < 1e-2
    second = recovery_errors(shape, built, X, Z, rank=2)[0]
    assert second > 0.3
    soft = recovery_errors(*copying_model(beta=0.01), X, Z)[0]
    assert soft > 20 * recovery_errors(shape, built, X, Z)[0]


def test_the_error_is_that_of_equation_56(vector):
    X, Z = inputs(40, seed=1), inputs(20, seed=2)
    h, T = SHAPE.heads[0], SHAPE.n_tokens
    first, test = run_states(SHAPE, vector, X)[0][0], run_states(SHAPE, vector, Z)[0][0]
    for rank in (1, 2):
        found = recovery_errors(SHAPE, vector, X, Z, rank=rank)
        for i in range(h):
            rows, wanted = [], []
            for b in range(len(X)):
                for t in range(T):
                    order = sorted(range(T), key=lambda s: -first.scores[b, i, t, s])
                    rows.append([*first.attended[b, t], 1.0])
                    wanted.append(X[b, order[rank - 1]])
            g = np.linalg.pinv(np.array(rows)) @ np.array(wanted)
            errors = []
            for b in range(len(Z)):
                for t in range(T):
                    order = sorted(range(T), key=lambda s: -test.scores[b, i, t, s])
                    x = Z[b, order[rank - 1]]
                    y = np.array([*test.attended[b, t], 1.0]) @ g
                    errors.append(((y - x) ** 2).sum() / (x**2).sum())
            assert found[i] == pytest.approx(np.mean(errors), rel=1e-9)


def test_the_weighted_fit_is_better_by_its_own_measure(vector):
    X = inputs(60)
    plain = recovery_errors(SHAPE, vector, X, X)
    weighted = recovery_errors(SHAPE, vector, X, X, fit="weighted")
    assert (weighted <= plain + 1e-12).all()
    assert (weighted <= 1.0).all()


def test_a_model_compared_with_itself_has_ratio_one(vector, tmp_path):
    found = recovery(SHAPE, vector, vector, inputs(30), inputs(30, seed=1), rank=2)
    np.testing.assert_array_equal(found.ratio, 1.0)
    again = hm.load(found.save(tmp_path / "probe.npz"))
    np.testing.assert_array_equal(again.trained, found.trained)
    assert "second largest" in repr(found)
    assert found.plot().get_title() == "token of rank 2"


def test_ranks_with_ties_go_by_position():
    scores = np.array([[1.0, 3.0, 3.0, 2.0]])
    assert [int(token_of_rank(scores, rank)[0]) for rank in (1, 2, 3, 4)] == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be between 1 and 5"),
        ({"rank": 6}, "rank must be between 1 and 5"),
        ({"fit": "ridge"}, 'fit must be "plain" or "weighted"'),
    ],
)
def test_probes_refuse(vector, options, message):
    with pytest.raises(InvalidInputError, match=message):
        recovery_errors(SHAPE, vector, inputs(30), inputs(30), **options)


def test_probes_need_two_layers_and_enough_sequences(vector):
    one = TransformerShape(5, 3, (6,), (2,), (7,))
    with pytest.raises(InvalidInputError, match="two layers or more"):
        recovery_errors(one, one.initial(0), inputs(30), inputs(30))
    with pytest.raises(InvalidInputError, match="X_fit must hold at least 14 tokens"):
        recovery_errors(SHAPE, vector, inputs(2), inputs(30))


# Routing
# ----------------------------------------------------------------------------------------------------------


def test_sets_follow_every_argmax(vector):
    X = inputs(12)
    flow = routed_flow(SHAPE, vector, X)
    first, last = run_states(SHAPE, vector, X)[0]
    for b in range(len(X)):
        token = [{t} | {int(first.scores[b, i, t].argmax()) for i in range(2)} for t in range(5)]
        cls = {int(first.cls_scores[b, i].argmax()) for i in range(2)}
        assert [set(np.flatnonzero(row)) for row in flow.sets(1, "tokens")[b]] == token
        cls = cls.union(*(token[int(last.cls_scores[b, i].argmax())] for i in range(4)))
        assert set(np.flatnonzero(flow.sets()[b])) == cls
        assert flow.sizes.cls[b, -1] == len(cls)
    assert "head" in flow.trace(0) or "x1" in flow.trace(0)
    assert flow.learns(np.ones((12, 5), dtype=bool)).share == np.mean(flow.sizes.cls[:, -1] == 5)


def test_a_flow_of_a_trained_model_can_be_saved(vector, tmp_path):
    flow = routed_flow(SHAPE, vector, inputs(3))
    again = hm.load(flow.save(tmp_path / "flow.npz"))
    np.testing.assert_array_equal(again.sets(1, "tokens"), flow.sets(1, "tokens"))


def built_separation(
    epsilon: float, n_tokens: int
) -> tuple[TransformerShape, np.ndarray, SoftmaxTransformer]:
    """The transformer of Theorem 1 as a vector of parameters."""
    net = separation_transformer(epsilon, n_tokens).transformer
    blocks = (*net.blocks, net.output)
    shape = TransformerShape(
        n_tokens, 3, (6, 6), (1, 1), tuple(len(block.b_in) for block in blocks), beta=net.beta
    )
    arrays = {name: np.zeros_like(a) for name, a in shape.split(shape.initial(0)).items()}
    arrays["encoder.weight"][:3], arrays["encoder.bias"][:3] = net.embedding, net.embedding_bias
    arrays["cls"][:] = net.cls
    for l, (layer, block) in enumerate(zip(net.layers, blocks, strict=True)):
        n = layer.w_q.shape[1]
        for part, matrix in (("query", layer.w_q), ("key", layer.w_k), ("value", layer.w_v)):
            arrays[f"layers.{l}.{part}"][:n] = matrix[0]
        arrays[f"layers.{l}.output"][:, : layer.w_o.shape[1]] = layer.w_o
        arrays[f"layers.{l}.hidden.weight"][:], arrays[f"layers.{l}.hidden.bias"][:] = block.w_in, block.b_in
        arrays[f"layers.{l}.out.weight"][:], arrays[f"layers.{l}.out.bias"][:] = block.w_out, block.b_out
    return shape, shape.join(arrays), net


def test_the_constructed_transformer_routes_as_its_proof_says():
    shape, vector, net = built_separation(0.05, 8)
    target = hm.targets.depth_separation()
    X = target.sample(300, 8, 5)
    np.testing.assert_allclose(run_states(shape, vector, X)[1][:, 0], net(X), atol=2e-3)  # float32 weights
    flow = routed_flow(shape, vector, X)
    assert flow.learns(target).share > 0.97
    assert routed_flow(shape, shape.initial(0), X).learns(target).share < 0.6
    hard = [row for row in measured_hardness(shape, vector, X) if (row.layer, row.who) == (1, "tokens")]
    assert hard[0].share_hard > 0.9


# A fixed context
# ----------------------------------------------------------------------------------------------------------


def test_the_fixed_context_is_the_layer_of_the_model(vector):
    X = inputs(3)
    layers, _ = run_states(SHAPE, vector, X)
    for layer in (0, 1):
        attention = fixed_context(SHAPE, vector, X[1], layer=layer)
        asked = layers[layer].cls[1] if layer else layers[0].tokens[1, 2]
        wanted = layers[layer].cls_attended[1] if layer else layers[0].attended[1, 2]
        np.testing.assert_allclose(attention(asked, temperature=1 / 0.8), wanted, atol=1e-12)


def test_diagrams_and_networks_send_tokens_where_the_model_does(vector):
    X = inputs(2)
    first = run_states(SHAPE, vector, X)[0][0]
    network = query_network(SHAPE, vector, X[0])
    np.testing.assert_array_equal(network.signature(X[0]).routings[:, 0], first.scores[0, 0].argmax(-1))
    for head in range(2):
        diagram = head_diagram(SHAPE, vector, X[0], head)
        np.testing.assert_array_equal(diagram.locate(X[0]), first.scores[0, head].argmax(-1))
        assert diagram.nonempty[first.scores[0, head].argmax(-1)].all()


def test_cells_in_a_plane_are_no_fewer_than_points_see(vector):
    sequence = inputs(1)[0]
    plane = np.eye(3)[:2]
    count = cells_in_plane(SHAPE, vector, sequence, plane, 2.0)
    points = np.random.default_rng(0).uniform(-2, 2, (4000, 2)) @ plane
    seen = {tuple(row) for row in query_network(SHAPE, vector, sequence).signature(points).routings}
    assert len(seen) <= count <= len(seen) + 2


def test_geometry_refuses(vector):
    placed = TransformerShape(5, 3, (6,), (2,), (7,), positions="additive")
    with pytest.raises(InvalidInputError, match="must have no positions"):
        query_network(placed, placed.initial(0), inputs(1)[0])
    with pytest.raises(InvalidInputError, match="layer and head must be among"):
        head_diagram(SHAPE, vector, inputs(1)[0], 2)
    with pytest.raises(DimensionMismatchError, match=r"sequence must have the shape \(T, d\)"):
        fixed_context(SHAPE, vector, inputs(1))


# Hardness
# ----------------------------------------------------------------------------------------------------------


def test_hardness_is_counted_query_by_query(vector):
    X = inputs(20)
    rows = {
        (row.layer, row.head, row.who): row for row in measured_hardness(SHAPE, vector, X, tolerance=0.75)
    }
    assert len(rows) == 2 * 2 + 4
    first = run_states(SHAPE, vector, X)[0][0]
    for i in range(2):
        margins, hard = [], 0
        for scores in first.scores[:, i].reshape(-1, 5):
            order = sorted(0.8 * scores)
            margins.append(order[-1] - order[-2])
            hard += 1 - 1 / sum(math.exp(s - order[-1]) for s in order) <= 0.75
        row = rows[1, i + 1, "tokens"]
        assert row.share_hard == pytest.approx(hard / 100)
        assert 0 < row.share_hard < 1
        assert row.margin == pytest.approx(np.median(margins))


# The bundled model
# ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundled():
    return bundled_model()


def test_the_bundled_model_is_as_good_as_it_says(bundled):
    (target,) = outputs_of(bundled.about["job"]["target"])
    X = target.sample(2000, 15, 77).astype(np.float32)  # sequences that training never saw
    wanted = target(X.astype(float))
    assert ((bundled(X)[:, 0] - wanted) ** 2).mean() / wanted.var() < 3e-4
    assert bundled.about["best_validation_nmse"] < 2e-4
    slow = bundled.mean + bundled.scale * run_states(bundled.shape, bundled.vector, X)[1]
    np.testing.assert_allclose(slow, bundled(X), rtol=1e-4, atol=1e-4)


def test_the_bundled_model_keeps_the_largest_token_and_no_other(bundled):
    """Appendix C.1 and C.2 on a model that has learned its target."""
    start = bundled.shape.initial(np.random.default_rng((bundled.about["job"]["seed"], 0)))
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((1000, 15, 4)), rng.standard_normal((500, 15, 4))
    first = recovery(bundled.shape, start, bundled.vector, X, Z).ratio
    second = recovery(bundled.shape, start, bundled.vector, X, Z, rank=2).ratio
    assert (first < 0.15).all()
    assert ((second > 0.85) & (second < 1.15)).all()


def test_the_bundled_model_routes_what_the_target_needs(bundled):
    (target,) = outputs_of(bundled.about["job"]["target"])
    X = target.sample(1000, 15, 78)
    assert routed_flow(bundled.shape, bundled.vector, X).learns(target).share > 0.9


def test_there_is_no_other_bundled_model():
    with pytest.raises(InvalidInputError, match="name must be one of pairwise-2"):
        bundled_model("gpt")
