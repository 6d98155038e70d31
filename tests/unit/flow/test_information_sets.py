"""Information sets against a plain loop, the golden values of P2 Appendix E, and Proposition 1."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.appendix_e import appendix_e, least_inside, least_pair
from oracles.flow_loop import information_loop

import hardmax as hm
from hardmax.errors import DimensionMismatchError, IncompleteError, InvalidInputError, NotFiniteError
from hardmax.flow import bitsets
from hardmax.flow.costs.cost_law import score_ranks


def members(flow, layer, token="cls"):
    return set(np.flatnonzero(flow.sets(layer, token)[0]).tolist())


# P2 Appendix E
# ------------------------------------------------------------------------------------------------------------


def test_appendix_e_with_the_sign_of_its_scores_corrected():
    flow = appendix_e(-1)
    assert (flow.routings[0][0, :4, 0] + 1).tolist() == [3, 4, 1, 3]
    assert [members(flow, 1, t) for t in range(4)] == [{0, 2}, {1, 3}, {0, 2}, {2, 3}]
    assert members(flow, 1) == set()
    assert members(flow, 2) == {0, 2}
    active = np.array([[True, False, True, False]])
    assert flow.learns(active)


def test_appendix_e_as_printed_fails():
    flow = appendix_e(+1)
    assert (flow.routings[0][0, :4, 0] + 1).tolist() == [1, 2, 3, 1]
    assert members(flow, 2) == {0}
    learning = flow.learns(np.array([[True, False, True, False]]))
    assert not learning
    assert learning.share == 0
    assert learning.failing.tolist() == [0]
    assert np.flatnonzero(learning.missing[0]).tolist() == [2]


def test_the_trace_of_appendix_e_says_where_it_rests_on_a_tie():
    assert appendix_e(-1).trace() == "\n".join(
        [
            "layer  token  reads              information set  size  at most",
            "0      x1                        {x1}             1     1",
            "0      x2                        {x2}             1     1",
            "0      x3                        {x3}             1     1",
            "0      x4                        {x4}             1     1",
            "0      CLS                       {}               0     0",
            "1      x1     x3                 {x1, x3}         2     2",
            "1      x2     x4                 {x2, x4}         2     2",
            "1      x3     x1                 {x1, x3}         2     2",
            "1      x4     x3                 {x3, x4}         2     2",
            "1      CLS                       {}               0     0",
            "2      CLS    x1 (ties with x3)  {x1, x3}         2     2",
        ]
    )
    with pytest.raises(InvalidInputError, match="tie for 1 queries"):
        appendix_e(-1, ties="refuse")
    assert appendix_e(-1, ties="highest").routings[1][0, 0, 0] == 2


# A plain loop as oracle
# ------------------------------------------------------------------------------------------------------------


def integer_score(numbers):
    """A score of all slots in small whole numbers, so that ties are frequent and sums exact."""
    a, b, c = numbers

    def score(queries, keys):
        q = np.nan_to_num(queries, nan=5.0).sum(axis=2) * (1 + queries.shape[2])
        k = np.nan_to_num(keys, nan=-3.0)
        k = (k * np.arange(1, 1 + k.shape[2])[:, None]).sum(axis=2) if k.shape[2] else k.sum(axis=2)
        return a * (q @ k.swapaxes(1, 2)) + b * k.sum(-1)[:, None] + c * q.sum(-1)[:, :, None]

    return score


@st.composite
def plans(draw):
    T, L = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    heads = tuple(draw(st.integers(1, 3)) for _ in range(L))
    token_slots, cls_slots, layers = 1, 0, []

    def slots(n):
        return draw(st.none() | st.lists(st.integers(0, n - 1), unique=True, max_size=4)) if n else None

    def rule(n_own):
        residual = draw(st.booleans()) if not n_own or draw(st.booleans()) else slots(n_own) or False
        match draw(st.integers(0, 4)):
            case 0:
                return hm.GlobalRead()
            case 1:
                chosen = draw(st.lists(st.integers(0, T - 1), max_size=2))
                positions = draw(st.sampled_from([chosen, lambda t: range(t % 3, min(T, 2))]))
                return hm.Positions(positions, residual, prune=slots(token_slots))
            case _:
                numbers = draw(st.tuples(*[st.integers(-2, 2)] * 3))
                return hm.MaxPosition(
                    integer_score(numbers),
                    slots(token_slots),
                    residual,
                    query_slots=slots(n_own),
                    key_slots=slots(token_slots),
                )

    for number, h in enumerate(heads, start=1):
        layer = {}
        if number < L:
            if draw(st.booleans()):
                layer["tokens"] = [rule(token_slots) for _ in range(draw(st.integers(0, h)))]
            if draw(st.booleans()):
                layer[draw(st.integers(0, T - 1))] = [rule(token_slots) for _ in range(h)]
        if draw(st.booleans()):
            layer["cls"] = [rule(cls_slots) for _ in range(h)]
        layers.append(layer)
        shape = hm.Architecture(T, 2, heads[:number] + (1,), [6 * h for h in heads[:number]] + [1])
        grown = hm.Plan([*layers, {}]) if number < L else hm.Plan(layers)
        if number < L:
            from hardmax.flow.propagation import lay_out

            layout = lay_out(grown, shape)
            token_slots, cls_slots = layout.token_slots[-1], layout.cls_slots[-2]
            if max(token_slots, cls_slots) > 60:
                layers = layers[:-1]
                break
    if not layers:
        layers, heads = [{}], heads[:1]
    heads = heads[: len(layers)]
    last = {who: rules for who, rules in layers[-1].items() if who == "cls"}
    ties = draw(st.sampled_from(["lowest", "highest"]))
    plan = hm.Plan([*layers[:-1], last], ties=ties)
    X = draw(st.lists(st.lists(st.lists(st.integers(-2, 2), min_size=2, max_size=2), min_size=T, max_size=T),
                      min_size=1, max_size=3))  # fmt: skip
    return hm.Architecture(T, 2, heads, [6 * h for h in heads]), plan, np.array(X, dtype=float)


@settings(max_examples=60, deadline=None)
@given(plans())
def test_any_plan_does_what_the_plain_loop_does(case):
    architecture, plan, X = case
    T, L = architecture.n_tokens, architecture.depth
    flow = hm.information_sets(architecture, plan, X, keep="all")
    lean = hm.information_sets(architecture, plan, X)
    bound = flow.growth_bound
    for i, x in enumerate(X.tolist()):
        loop = information_loop(architecture, plan, x)
        for layer in range(L + 1):
            for t, held in loop.sets[layer].items():
                assert set(np.flatnonzero(flow.sets(layer, t)[i]).tolist()) == held
                if layer and t < T:
                    assert flow.sizes.tokens[i, layer - 1, t] == len(held) <= bound.tokens[layer - 1]
                elif layer:
                    assert flow.sizes.cls[i, layer - 1] == len(held) <= bound.cls[layer - 1]
            if layer:
                for t, winners in loop.winners[layer - 1].items():
                    row = flow.routings[layer - 1][i, -1 if t == T else t]
                    assert row[: len(winners)].tolist() == winners
                    assert (row[len(winners) :] == -1).all()
    assert (lean.cls_words == flow.cls_words).all()
    assert (lean.sizes.tokens == flow.sizes.tokens).all()
    assert all((a[:, -1] == b[:, -1]).all() for a, b in zip(lean.routings, flow.routings, strict=True))


def test_tokens_may_read_different_numbers_of_positions():
    """All earlier tokens, or of these only what they found themselves first."""
    T, X = 5, np.zeros((2, 5, 1))
    earlier = hm.Positions(range, residual=False)
    shape = hm.Architecture(T, 1, (1, 1, 1), 1)
    whole = hm.information_sets(shape, hm.Plan([{"tokens": earlier}, {"tokens": earlier}, {}]), X, keep="all")
    first = hm.Positions(range, residual=False, prune=(0,))
    pruned = hm.information_sets(shape, hm.Plan([{"tokens": earlier}, {"tokens": first}, {}]), X, keep="all")
    for t in range(T):
        assert members(whole, 1, t) == set(range(t))
        assert members(whole, 2, t) == set(range(t - 1))
        assert members(pruned, 2, t) == ({0} if t >= 2 else set())


def test_kept_slots_stay_in_the_order_in_which_they_are_named():
    T = 4
    X = np.arange(T, dtype=float).reshape(1, T, 1)
    following = hm.Positions(lambda t: [(t + 1) % T])  # slots: itself, the next
    swapped = hm.MaxPosition(hm.KeyScore(lambda k: k[:, :, 0, 0]), prune=(), residual=(1, 0))
    last = hm.MaxPosition(hm.KeyScore(lambda k: k[:, :, 0, 0]), prune=(0,), key_slots=(0,))
    plan = hm.Plan([{"tokens": following}, {"tokens": swapped}, {"cls": last}])
    flow = hm.information_sets(hm.Architecture(T, 1, (1, 1, 1), 1), plan, X)
    assert flow.routings[2].item() == 2  # the token before the greatest one shows it in slot 0
    assert members(flow, 3) == {3}


def test_many_blocks_give_what_one_input_at_a_time_gives(monkeypatch):
    rng = np.random.default_rng(5)
    T, d = 70, 3  # two words of bits
    layers = [{"tokens": [hm.MaxPosition(hm.BilinearScore(rng.normal(size=(d, d)))) for _ in range(3)]}]
    layers.append({"tokens": [hm.MaxPosition(hm.BilinearScore(rng.normal(size=(d, d))), query_slots=(1,),
                              key_slots=(2,))] * 2})  # fmt: skip
    layers.append({"cls": [hm.MaxPosition(hm.KeyScore(lambda k: k[:, :, 0, 0]))]})
    plan, shape = hm.Plan(layers), hm.Architecture(T, d, (3, 2, 1), 6)
    X = rng.normal(size=(11, T, d))
    whole = hm.information_sets(shape, plan, X, keep="all")
    monkeypatch.setattr("hardmax.flow.information_sets._BLOCK_NUMBERS", 4 * T * T)
    monkeypatch.setattr("hardmax.flow.information_sets._BLOCK_WORDS", 3 * T)
    blocks = hm.information_sets(shape, plan, X, keep="all")
    for layer in range(3):
        assert (whole.routings[layer] == blocks.routings[layer]).all()
        assert (whole.sets(layer, "tokens") == blocks.sets(layer, "tokens")).all()
    for i in (0, 7):
        loop = information_loop(shape, plan, X[i].tolist())
        for layer in range(3):
            for t in (0, 63, 64, 69):
                assert set(np.flatnonzero(whole.sets(layer, t)[i])) == loop.sets[layer][t]
        assert set(np.flatnonzero(whole.sets()[i])) == loop.sets[3][T]


@given(st.integers(1, 130).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1)))))
def test_words_of_bits_are_sets(case):
    n, positions = case
    words = np.zeros((1, bitsets.n_words(n)), dtype=np.uint64)
    for t in positions:
        bitsets.add_positions(words, np.array([t]))
    held = np.isin(np.arange(n), positions)[None]
    assert (bitsets.unpacked(words, n) == held).all()
    assert (bitsets.packed(held) == words).all()
    assert bitsets.count(words)[0] == len(set(positions))
    assert bitsets.count(bitsets.full(n)[None])[0] == n
    assert (bitsets.unpacked(bitsets.singletons(n), n) == np.eye(n, dtype=bool)).all()


# Targets of P2, with active sets found here by brute force
# ------------------------------------------------------------------------------------------------------------


def pairwise_active(X, matrices):
    """The tokens of the winning pairs of sum_i max x(s)' A_i x(t)."""
    active = np.zeros(X.shape[:2], dtype=bool)
    for A in matrices:
        values = np.einsum("bsd,de,bte->bst", X, A, X).reshape(len(X), -1)
        s, t = np.unravel_index(values.argmax(axis=1), (X.shape[1],) * 2)
        active[np.arange(len(X)), s] = active[np.arange(len(X)), t] = True
    return active


def pairwise_plan(matrices, *, prune, heads=None):
    """Layer 1: head i of token t finds s_i(t) = argmax x(s)' A_i x(t); layer 2: CLS takes the best t."""
    D = len(matrices)
    first = [hm.MaxPosition(hm.BilinearScore(A.T)) for A in matrices]

    def found(i):
        A = matrices[i]
        return hm.KeyScore(lambda k: np.einsum("btd,de,bte->bt", k[:, :, 1], A, k[:, :, 0]))

    last = [
        hm.MaxPosition(found(i), prune=(0, 1 + i) if prune else None, key_slots=(0, 1 + i)) for i in range(D)
    ]
    if heads is not None:
        first = first[: heads[0]]
        last = [rule for i, rule in enumerate(last) if i < heads[0]][: heads[1]]
    return hm.Plan([{"tokens": first}, {"cls": last}])


@pytest.mark.parametrize(("T", "D"), [(8, 2), (16, 3)])
def test_proposition_1_d_heads_in_both_layers_learn_the_pairwise_target(T, D):
    rng = np.random.default_rng(D)
    d = 4
    matrices = rng.normal(size=(D, d, d))
    X = rng.uniform(-1, 1, size=(400, T, d))
    active = pairwise_active(X, matrices)
    shape = hm.Architecture(T, d, (D, D), 6 * D)
    pruned = hm.information_sets(shape, pairwise_plan(matrices, prune=True), X)
    whole = hm.information_sets(shape, pairwise_plan(matrices, prune=False), X)
    assert pruned.learns(active).share == whole.learns(active).share == 1
    assert pruned.growth_bound.cls[-1] == min(T, 2 * D)
    assert whole.growth_bound.cls[-1] == min(T, D * (D + 1))
    assert ((pruned.sets() & ~whole.sets()).sum(), (pruned.sets() == active).all()) == (0, True)
    for heads in ((D - 1, D), (D, D - 1)):
        fewer = hm.information_sets(shape, pairwise_plan(matrices, prune=True, heads=heads), X)
        learning = fewer.learns(active)
        assert 0 < learning.share < 1
        assert set(learning.failing) == set(np.flatnonzero((active & ~fewer.sets()).any(axis=1)))


@pytest.mark.parametrize(("heads", "all_learnt"), [((3, 3), True), ((2, 3), False)])
def test_two_layers_retrieve_as_many_maxima_as_they_have_heads_together(heads, all_learnt):
    """P2 C.1 asks for D heads in the first layer; h1 + h2 = D is enough."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(500, 24, 6))
    active = np.zeros((500, 24), dtype=bool)
    np.put_along_axis(active, X.argmax(axis=1), True, axis=1)

    def largest(i):
        return hm.MaxPosition(hm.KeyScore(lambda k: k[:, :, 0, i]), key_slots=(0,), prune=(0,))

    order = [largest(i) for i in range(sum(heads))]
    plan = hm.Plan([{"cls": order[: heads[0]]}, {"cls": order[heads[0] :]}])
    flow = hm.information_sets(hm.Architecture(24, 6, heads, 6), plan, X)
    learning = flow.learns(active)
    assert (learning.share == 1) is all_learnt
    if not all_learnt:  # the sixth maximum is held only if it stands where another one does
        others = X[:, :, :5].argmax(axis=1)
        assert learning.share == (X[:, :, 5].argmax(axis=1)[:, None] == others).any(axis=1).mean()


def test_fixed_positions_and_global_reading():
    X = np.zeros((1, 10, 2))
    shape = hm.Architecture(10, 2, (2,), 2)
    flow = hm.information_sets(shape, hm.Plan([{"cls": [hm.Positions([0, 1, 2])]}]), X)
    assert members(flow, 1) == {0, 1, 2}
    mixed = hm.Plan([{"cls": [hm.Positions([3]), hm.GlobalRead()]}])
    assert members(hm.information_sets(shape, mixed, X), 1) == set(range(10))


def test_global_reading_brings_back_what_was_forgotten_and_reading_all_positions_does_not():
    X = np.arange(4.0).reshape(1, 4, 1)
    forget = {"tokens": [hm.Positions([2], residual=False)]}
    shape = hm.Architecture(4, 1, (1, 1), 1)
    literal = hm.information_sets(shape, hm.Plan([forget, {"cls": [hm.GlobalRead()]}]), X)
    honest = hm.information_sets(shape, hm.Plan([forget, {"cls": [hm.Positions(range(4))]}]), X)
    assert members(literal, 2) == {0, 1, 2, 3}
    assert members(honest, 2) == {2}


def test_the_growth_bound_is_reached():
    """With scores that always find new tokens, sets grow as the recursion says."""
    T, heads = 40, (2, 2, 1)
    X = np.arange(T, dtype=float).reshape(1, T, 1)

    def shifted(by):
        return hm.MaxPosition(
            lambda q, k: -(np.abs((q[:, :, :1, 0] + by) % T - k[:, None, :, 0, 0])),
            query_slots=(0,),
            key_slots=(0,),
        )

    last = hm.MaxPosition(hm.KeyScore(lambda k: -k[:, :, 0, 0]), key_slots=(0,))
    plan = hm.Plan(
        [{"tokens": [shifted(1), shifted(2)]}, {"tokens": [shifted(3), shifted(6)]}, {"cls": last}]
    )
    flow = hm.information_sets(hm.Architecture(T, 1, heads, 2), plan, X)
    assert flow.sizes.tokens[0, 0].tolist() == [3] * T
    assert flow.sizes.tokens[0, 1].tolist() == [9] * T
    assert flow.growth_bound.tokens.tolist() == [3, 9]
    assert flow.sizes.cls[0].tolist() == [0, 0, 9]
    assert flow.largest == 9


# Files, tables, single inputs
# ------------------------------------------------------------------------------------------------------------


def test_a_flow_survives_a_file(tmp_path):
    rng = np.random.default_rng(0)
    previous = hm.Positions(lambda t: [t - 1] if t else [])
    plan = hm.Plan(
        [
            {
                "tokens": [hm.MaxPosition(hm.BilinearScore(np.eye(2)), prune=()), previous],
                3: [hm.Positions([0, 1])],
            },
            {"cls": [hm.MaxPosition(hm.KeyScore(least_inside), key_slots=(0,))]},
        ]
    )
    flow = hm.information_sets(hm.Architecture(5, 2, (2, 1), 2), plan, rng.normal(size=(6, 5, 2)), keep="all")
    again = hm.load(flow.save(tmp_path / "flow.npz"))
    assert repr(again) == repr(flow)
    assert again.trace(2) == flow.trace(2)
    assert (again.sets(1, "tokens") == flow.sets(1, "tokens")).all()
    assert flow.to_frame().equals(again.to_frame())
    twice = hm.load(again.save(tmp_path / "again.npz"))
    assert (twice.sets(1, "tokens") == flow.sets(1, "tokens")).all()
    with pytest.raises(InvalidInputError, match="was not saved"):
        hm.information_sets(flow.architecture, again.plan, flow.X)


def test_one_input_is_looked_at_even_if_only_cls_was_kept():
    rng = np.random.default_rng(0)
    plan = hm.Plan([{"tokens": hm.MaxPosition(hm.BilinearScore(np.eye(2)))}, {"cls": [hm.Positions([1])]}])
    X = rng.normal(size=(6, 5, 2))
    shape = hm.Architecture(5, 2, (1, 1), 2)
    lean, kept = hm.information_sets(shape, plan, X), hm.information_sets(shape, plan, X, keep="all")
    with pytest.raises(IncompleteError, match='keep="all"'):
        lean.sets(1, "tokens")
    assert lean.trace(4) == kept.trace(4)
    assert lean.trace(-2) == kept.trace(4)
    assert (lean.of_input(3).sets(1, "tokens") == kept.sets(1, "tokens")[3]).all()
    assert (lean.sets(0, "tokens") == np.eye(5, dtype=bool)).all()
    with pytest.raises(InvalidInputError, match="6 inputs"):
        lean.trace(6)


def test_inputs_are_safe_from_later_writes():
    X = np.zeros((1, 3, 1))
    flow = hm.information_sets(hm.Architecture(3, 1, (1,), 1), hm.Plan([{}]), X)
    X[:] = 7
    assert not flow.X.any()
    for array in (flow.X, flow.cls_words, *flow.sizes, *flow.routings):
        assert not array.flags.writeable


@pytest.mark.parametrize("T", [1, 128, 129])
def test_winners_are_kept_in_small_integers(T):
    X = np.arange(T, dtype=float).reshape(1, T, 1)
    plan = hm.Plan([{"cls": hm.MaxPosition(hm.KeyScore(lambda k: k[:, :, 0, 0]))}])
    flow = hm.information_sets(hm.Architecture(T, 1, (1,), 1), plan, X)
    assert flow.routings[0].item() == T - 1
    assert flow.routings[0].itemsize == (1 if T <= 128 else 2)
    assert members(flow, 1) == {T - 1}


# Ranks
# ------------------------------------------------------------------------------------------------------------


def test_ranks_of_scores_stand_beside_the_width_of_the_head():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(4, 2)) @ rng.normal(size=(2, 4))
    rules = [
        hm.MaxPosition(hm.BilinearScore(A)),
        hm.MaxPosition(
            lambda q, k: hm.BilinearScore(A)(q, k) + q[:, :, 0, :1]
        ),  # no winner depends on q alone
        hm.MaxPosition(lambda q, k: -((q - k.swapaxes(1, 2)) ** 2).sum(-1)),
    ]
    last = [
        hm.MaxPosition(lambda q, k: k[:, None, :, 0, 0], rank=7),
        hm.MaxPosition(lambda q, k: np.where(k[:, None, :, 0, 0] > 0, 1.0, -np.inf)),
    ]
    plan = hm.Plan([{"tokens": rules}, {"cls": last}])
    flow = hm.information_sets(hm.Architecture(12, 4, (3, 2), (6, 6)), plan, rng.normal(size=(5, 12, 4)))
    ranks = score_ranks(flow)
    assert [row["rank"] for row in ranks.rows] == [2, 2, 5, 7, None]
    assert [row["how"] for row in ranks.rows] == ["declared", "measured", "measured", "declared", "unknown"]
    assert [row["head_width"] for row in ranks.rows] == [2, 2, 2, 3, 3]
    assert [row["enough"] for row in ranks.rows] == [True, True, False, False, None]
    assert ranks.enough is False


# What is refused
# ------------------------------------------------------------------------------------------------------------


def best_of(score):
    plan = hm.Plan([{"tokens": [hm.MaxPosition(score)]}, {}])
    return hm.information_sets(hm.Architecture(3, 2, (1, 1), 1), plan, np.ones((2, 3, 2)))


@pytest.mark.parametrize(
    ("score", "error", "message"),
    [
        (lambda q, k: np.full((len(k), q.shape[1], 3), np.nan), NotFiniteError, "greatest value was nan"),
        (lambda q, k: np.full((len(k), q.shape[1], 3), np.inf), NotFiniteError, "greatest value was inf"),
        (lambda q, k: np.full((len(k), q.shape[1], 3), -np.inf), NotFiniteError, "greatest value was -inf"),
        (
            lambda q, k: np.zeros((2, 3)),
            DimensionMismatchError,
            r"\(B, S, T\) = \(2, 3, 3\), but had \(2, 3\)",
        ),
        (lambda q, k: "none", DimensionMismatchError, "shape"),
        (lambda q, k: np.full((2, 3, 3), "a"), InvalidInputError, "real numbers"),
        (lambda q, k: np.full((2, 3, 3), 1j), InvalidInputError, "real numbers"),
        (hm.KeyScore(lambda k: np.zeros((2, 5))), DimensionMismatchError, "one number per key"),
        (hm.BilinearScore(np.eye(3)), DimensionMismatchError, "tokens of 2 numbers"),
    ],
)
def test_a_score_must_be_numbers_of_the_right_shape(score, error, message):
    with pytest.raises(error, match=message):
        best_of(score)


def test_one_nan_among_many_scores_is_found():
    def score(queries, keys):
        values = np.zeros((len(keys), queries.shape[1], keys.shape[1]))
        values[1, 2, 1] = np.nan
        return values

    with pytest.raises(NotFiniteError, match="head 1 in layer 1"):
        best_of(score)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hm.Architecture(8, 2, (3,), 8), "layer 1 has 3 heads in width 8; try width 9"),
        (lambda: hm.Architecture(8, 2, (2, 2), (4, 4, 4)), "2 layers and widths 3"),
        (lambda: hm.Architecture(0, 2, (1,), 1), "n_tokens must be an integer of at least 1"),
        (lambda: hm.Architecture(2, 0, (1,), 1), "d_token must be an integer of at least 1"),
        (lambda: hm.Architecture(2, 1, (), 1), "at least one layer"),
        (lambda: hm.Architecture(2, 1, (0,), 1), "heads must be an integer of at least 1"),
        (lambda: hm.Architecture(2.5, 1, (1,), 1), "n_tokens must be an integer"),
        (lambda: hm.Architecture(2, 1, "22", 1), "heads must be an integer"),
        (lambda: hm.Architecture(2, 1, (1,), 1).head_width(2), "between 1 and 1"),
        (lambda: hm.Plan([{"token": []}]), "'token' of layer 1 is unknown"),
        (lambda: hm.Plan([{-1: []}]), "-1 of layer 1 is unknown"),
        (lambda: hm.Plan([{None: []}]), "None of layer 1 is unknown"),
        (lambda: hm.Plan([{(1, 2): [], 2: []}]), "twice to position 2"),
        (lambda: hm.Plan([[]]), "layer 1 must be a mapping"),
        (lambda: hm.Plan({"cls": []}), "one mapping per layer"),
        (lambda: hm.Plan([]), "at least one layer"),
        (lambda: hm.Plan([{"cls": ["max"]}]), "MaxPosition, GlobalRead or Positions"),
        (lambda: hm.Plan([{}], ties="random"), "ties must be"),
        (lambda: hm.Positions([0, -2]), "at least 0, but was -2"),
        (lambda: hm.Positions(["a"]), "a position must be an integer"),
        (lambda: hm.MaxPosition(3), "score must be a function"),
        (lambda: hm.MaxPosition(len, prune=(1, 1)), "names 1 twice"),
        (lambda: hm.MaxPosition(len, prune=2), "sequence of slot numbers"),
        (lambda: hm.BilinearScore([[np.nan]]), "matrix must be finite"),
        (lambda: hm.BilinearScore([1.0]), "matrix must be a matrix"),
    ],
)
def test_what_makes_no_architecture_and_no_plan(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([{}], "has 1 for an architecture of depth 2"),
        ([{"tokens": [hm.Positions([0])] * 3}, {}], "layer 1 has 2 heads, but the plan gives 3"),
        ([{(0, 9): []}, {}], "gives rules to position 9"),
        ([{}, {"tokens": []}], "last layer has the classification token only"),
        ([{}, {2: []}], "last layer has the classification token only"),
        ([{"cls": [hm.Positions([5])]}, {}], "reads position 5"),
        ([{"cls": [hm.Positions([4])]}, {}], "classification token is never read"),
        ([{"tokens": [hm.Positions(lambda t: [t + 1])]}, {}], "position 4"),
        ([{"cls": [], 4: []}, {}], "twice to the classification token"),
        ([{"tokens": [hm.Positions([0], prune=(1,))]}, {}], "prune of layer 1 names slot 1"),
        ([{"cls": [hm.Positions([0], residual=(0,))]}, {}], "carries no slots"),
        ([{"tokens": [hm.MaxPosition(least_pair, key_slots=(2,))]}, {}], "key_slots of layer 1 names slot 2"),
        ([{"cls": [hm.MaxPosition(least_pair, query_slots=(0,))]}, {}], "query_slots of layer 1"),
        ([{"cls": [hm.MaxPosition(hm.BilinearScore(np.eye(2)))]}, {}], "holds no information yet"),
    ],
)
def test_a_plan_must_fit_the_architecture(layers, message):
    with pytest.raises(InvalidInputError, match=message):
        hm.information_sets(hm.Architecture(4, 2, (2, 2), 2), hm.Plan(layers), np.zeros((1, 4, 2)))


@pytest.mark.parametrize(
    ("X", "error"),
    [
        (np.zeros((1, 3, 2)), DimensionMismatchError),
        (np.zeros(4), DimensionMismatchError),
        (np.zeros((0, 4, 2)), InvalidInputError),
        (np.full((1, 4, 2), np.nan), NotFiniteError),
    ],
)
def test_inputs_must_fit(X, error):
    with pytest.raises(error, match="X must"):
        hm.information_sets(hm.Architecture(4, 2, (1,), 1), hm.Plan([{}]), X)


def test_what_a_flow_does_not_know():
    flow = hm.information_sets(hm.Architecture(4, 2, (1,), 1), hm.Plan([{}]), np.zeros((2, 4, 2)))
    with pytest.raises(InvalidInputError, match="layer must be between 0 and 1"):
        flow.sets(2)
    with pytest.raises(InvalidInputError, match='"cls", "tokens" or a position between 0 and 4'):
        flow.sets(1, 5)
    with pytest.raises(InvalidInputError, match="only the classification token passes layer 1"):
        flow.sets(1, 0)
    with pytest.raises(DimensionMismatchError, match="booleans of the shape"):
        flow.learns(np.zeros((2, 3), dtype=bool))
    with pytest.raises(InvalidInputError, match='keep must be "cls" or "all"'):
        hm.information_sets(flow.architecture, flow.plan, flow.X, keep="everything")


def test_all_pairs_of_one_token():
    """T = 1: every head reads the only token."""
    plan = hm.Plan(
        [{"tokens": [hm.MaxPosition(least_pair)]}, {"cls": hm.MaxPosition(hm.KeyScore(least_inside))}]
    )
    flow = hm.information_sets(hm.Architecture(1, 2, (1, 1), 1), plan, [[0.5, 1.0]], keep="all")
    assert members(flow, 1, 0) == members(flow, 2) == {0}
    assert len(list(combinations_with_replacement(range(1), 2))) == flow.largest == 1
