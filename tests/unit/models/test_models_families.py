"""Families with biases, relative keys, softcaps, null keys and a decoder that reads an encoder.

The oracle is transformers itself (``output_attentions``) on tiny random models; formulas of biases are
written down here once more. Every kind has a negative control: a wrong reading is refused.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from captured_layers import random_layer  # noqa: E402
from tiny_models import TEXT, tiny_folder, tiny_model, tiny_tokenizer  # noqa: E402

import hardmax as hm  # noqa: E402
from hardmax.errors import FidelityError, HardmaxError, UnsupportedModelError  # noqa: E402
from hardmax.models.atlas.head_measures import measure_queries  # noqa: E402
from hardmax.models.atlas.layer_cells import layer_slice, principal_plane  # noqa: E402
from hardmax.models.atlas.reachable_keys import keys_that_can_win, read_keys  # noqa: E402
from hardmax.models.influence.interventions import Interventions  # noqa: E402
from hardmax.models.influence.routing_flow import FlowRecorder, token_flow  # noqa: E402
from hardmax.models.reading import capture, families  # noqa: E402
from hardmax.models.reading.families import FAMILIES  # noqa: E402
from hardmax.models.reading.loading import open_model  # noqa: E402
from hardmax.models.reading.loading import read as read_with  # noqa: E402
from hardmax.models.reading.sources import CapturedLayer, RelativeKeys, TextReading  # noqa: E402
from hardmax.models.report.report import report  # noqa: E402

LIMIT = 1e-5
SHORT = "the little cat sat on the old mat"

VARIANTS = {
    "bloom": {},
    "mpt": {},
    "falcon": {},
    "falcon with one key": {"new_decoder_architecture": False, "multi_query": True},
    "falcon with a key per head": {
        "new_decoder_architecture": False,
        "multi_query": False,
        "num_kv_heads": 4,
        "bias": True,
    },
    "mpnet": {},
    "deberta": {},
    "deberta c2p": {"pos_att_type": ["c2p"]},
    "deberta p2c": {"pos_att_type": ["p2c"]},
    "deberta without": {"relative_attention": False},
    "deberta-v2": {},
    "deberta-v2 c2p": {"pos_att_type": ["c2p"]},
    "deberta-v2 shared": {"share_att_key": True},
    "gptj": {},
    "codegen": {},
    "gpt_neo": {},
    "gemma2": {},
    "gpt_oss": {},
}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def opened(family, **options):
    options = {"num_hidden_layers": 2, **options}
    return open_model(tiny_model(family, **options), tokenizer=tiny_tokenizer(family))


def read(model, text=SHORT, **options):
    layers = []
    reading = model.read(text, layers.append, **options)
    return layers, reading


def all_probabilities(layer):
    return np.stack([layer.probabilities(h) for h in range(layer.heads)])


@pytest.mark.parametrize("variant", VARIANTS)
def test_probabilities_are_those_that_transformers_returns(variant):
    family, changes = variant.split()[0], {"num_hidden_layers": 2, **VARIANTS[variant]}
    model = opened(family, **changes)
    inputs = model.encode(TEXT, length=30)
    layers, reading = read(model, inputs)
    other = tiny_model(family, attn_implementation="eager", **changes)
    with torch.no_grad():
        own = other(**model._accepted(inputs), output_attentions=True).attentions
    for layer, probabilities in zip(layers, own, strict=True):
        n = probabilities.shape[-1]
        alive = layer.present[:n, :n].any(axis=1)
        found = all_probabilities(layer)[:, :n, :n]
        assert np.abs(found - probabilities[0].numpy())[:, alive].max() < LIMIT
    assert max(reading.score_difference, reading.query_difference, reading.output_difference) < LIMIT


# Biases
# --------------------------------------------------------------------------------------------------


def slopes_once(monkeypatch):
    """Falcon: transformers 5.22 puts ALiBi slopes into the mask and adds them in eager attention again."""
    from transformers.models.falcon.modeling_falcon import FalconAttention

    forward = FalconAttention.forward

    def repaired(self, hidden_states, alibi=None, attention_mask=None, **options):
        if alibi is not None and self.config._attn_implementation == "eager":
            attention_mask = torch.where(attention_mask < -1e30, attention_mask, 0.0)
        return forward(self, hidden_states, alibi=alibi, attention_mask=attention_mask, **options)

    monkeypatch.setattr(FalconAttention, "forward", repaired)


def test_falcon_with_alibi_is_read_where_eager_attention_is_what_the_model_computes(monkeypatch):
    inputs = {"input_ids": torch.arange(12)[None]}

    def apart():
        with torch.no_grad():
            eager, usual = (
                tiny_model("falcon", alibi=True, attn_implementation=name)(**inputs).last_hidden_state
                for name in ("eager", "sdpa")
            )
        return float((eager - usual).abs().max() / usual.abs().max())

    if apart() > 1e-3:  # the two differ in some versions of transformers, and nothing else can be compared
        with pytest.raises(FidelityError, match="scores differ by"):
            opened("falcon", alibi=True)
    slopes_once(monkeypatch)
    assert apart() < LIMIT
    assert read(opened("falcon", alibi=True))[1].score_difference < LIMIT
    for changes in ({"bias_factor": None}, {"bias_factor": lambda module: 1.01 * module.inv_norm_factor}):
        monkeypatch.setitem(families.FAMILIES, "falcon", replace(FAMILIES["falcon"], **changes))
        with pytest.raises(FidelityError, match="scores differ by"):
            opened("falcon", alibi=True)


@pytest.mark.parametrize("family", ["bloom", "mpt", "falcon"])
def test_alibi_is_a_slope_times_the_distance(family, monkeypatch):
    slopes_once(monkeypatch)
    layers, _ = read(opened(family, alibi=True) if family == "falcon" else opened(family))
    slopes = 2.0 ** (-2.0 * np.arange(1, 5))  # of four heads, as the paper of ALiBi has them
    scale = layers[0].scale if family == "falcon" else 1.0  # Falcon scales them with its scores
    n = layers[0].n_keys
    away = np.arange(n)[:, None] - np.arange(n)[None]
    for layer in layers:
        relative = layer.bias - np.diagonal(layer.bias, axis1=1, axis2=2)[:, :, None]
        expected = -slopes[:, None, None] * away * scale
        assert np.abs(np.where(layer.present, relative - expected, 0.0)).max() < 1e-5


def test_the_bias_of_t5_is_its_table_at_the_distance():
    model = opened("t5")
    layers, _ = read(model)
    n, kinds = 10, model.kinds
    assert kinds == ("encoder", "encoder", "decoder", "cross")
    table = (
        model.module.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight.detach().numpy()
    )
    for layer in layers[:2]:  # the first has the table and the second uses it too
        for offset, bucket in {0: 0, -1: 1, 1: 5}.items():  # four buckets behind, then four ahead
            diagonal = np.diagonal(layer.bias[:, :n, :n], offset=offset, axis1=1, axis2=2)
            np.testing.assert_allclose(diagonal, np.broadcast_to(table[bucket][:, None], diagonal.shape))
    assert layers[3].bias is None  # cross-attention knows no distances


def test_local_windows_of_gpt_neo():
    layers, _ = read(opened("gpt_neo"), TEXT)
    n = layers[0].n_keys
    t, s = np.arange(n)[:, None], np.arange(n)[None]
    np.testing.assert_array_equal(layers[0].present, (s <= t) & (s > t - 5))
    np.testing.assert_array_equal(layers[1].present, s <= t)
    assert layers[0].scale == 1.0


# Negative controls
# --------------------------------------------------------------------------------------------------

WRONG = [
    ("bloom", {"bias": None}, "scores"),
    ("mpt", {"bias": None}, "scores"),
    ("mpt", {"scale": lambda module: 1.0}, "scores"),
    ("falcon", {"packing": "stacked"}, "queries"),
    ("falcon", {"rotary": "pairs"}, "queries"),
    ("mpnet", {"bias": None}, "scores"),
    ("deberta", {"relative": None}, "scores"),
    ("deberta", {"query_bias": None}, "queries"),
    ("deberta-v2", {"relative": None}, "scores"),
    ("deberta-v2", {"relative": lambda module: 1.0}, "scores"),
    ("gptj", {"rotary": None}, "queries"),
    ("gptj", {"rotary": "halves"}, "queries"),
    ("codegen", {"packing": "stacked"}, "queries"),
    ("gpt_neo", {"scale": None}, "scores"),
    ("gpt_oss", {"angles_once": False}, "queries"),
    ("xlm", {"factor": None}, "queries"),
]


@pytest.mark.parametrize(("family", "changes", "what"), WRONG)
def test_a_wrong_description_is_refused(family, changes, what, monkeypatch):
    monkeypatch.setitem(families.FAMILIES, family, replace(FAMILIES[family], **changes))
    with pytest.raises(FidelityError, match=rf"{what} differ by"):
        opened(family)


def rolled(layer):
    return np.roll(layer.bias, 1, axis=0)


SPOILED = {
    "bias of another head": (["bloom", "mpt", "mpnet", "t5", "umt5"], lambda x: {"bias": rolled(x)}),
    "no bias": (["t5", "mt5"], lambda x: {"bias": None}),
    "another place": (
        ["deberta", "deberta-v2"],
        lambda x: {"relative": replace(x.relative, place=np.roll(x.relative.place, 1, axis=1))},
    ),
    "keys of positions of another head": (
        ["deberta", "deberta-v2"],
        lambda x: {"relative": replace(x.relative, keys=x.relative.keys[::-1])},
    ),
    "no position meets keys": (["deberta", "deberta-v2"], lambda x: {"bias": None}),
    "no softcap": (["gemma2"], lambda x: {"softcap": None}),
    "another softcap": (["gemma2"], lambda x: {"softcap": 1.001 * x.softcap}),
    "sink of another head": (["gpt_oss"], lambda x: {"bias": rolled(x)}),
    "no window": (["gpt_neo"], lambda x: {"present": np.tri(x.n_keys, dtype=bool)}),
    "keys of other tokens": (["bart", "marian", "m2m_100"], lambda x: {"keys": np.roll(x.keys, 1, axis=1)}),
    "values of other tokens": (["bart"], lambda x: {"values": np.roll(x.values, 1, axis=1)}),
}


@pytest.mark.parametrize(("what", "family"), [(w, f) for w, (fs, _) in SPOILED.items() for f in fs])
def test_a_wrong_array_is_refused(what, family, monkeypatch):
    model = opened(family)
    taken, spoil = capture._Notes._captured, SPOILED[what][1]
    crossed = model.kinds.index("cross") if family in ("bart", "marian", "m2m_100") else 0

    def spoiled(*args):
        found = taken(*args)
        layer = found.layer
        return replace(found, layer=replace(layer, **spoil(layer))) if layer.index == crossed else found

    monkeypatch.setattr(capture._Notes, "_captured", spoiled)
    seen = []
    with pytest.raises(FidelityError):
        model.read(TEXT, seen.append)
    assert seen == []


def test_a_module_that_cannot_be_watched_is_refused(monkeypatch):
    from transformers.models.bloom import modeling_bloom

    forward = modeling_bloom.BloomAttention.forward

    def fused(self, hidden_states, *args, **options):
        return forward(self, hidden_states, *args, **options)

    def quiet(values, **options):  # no softmax that anybody sees
        weights = (values - values.max(dim=-1, keepdim=True).values).exp()
        return weights / weights.sum(dim=-1, keepdim=True)

    monkeypatch.setattr(modeling_bloom.F, "softmax", quiet)
    monkeypatch.setattr(modeling_bloom.BloomAttention, "forward", fused)
    with pytest.raises(UnsupportedModelError, match="no softmax"):
        opened("bloom")


def test_a_decoder_alone_is_refused():
    with pytest.raises(UnsupportedModelError, match="open the whole model"):
        opened("bart", head=True)


@pytest.mark.parametrize("family", ["falcon", "bloom", "deberta", "t5"])
def test_nothing_is_left_in_a_model(family):
    module = tiny_model(family, num_hidden_layers=2)
    before = [m.config._attn_implementation for m in module.modules() if hasattr(m, "config")]
    read(open_model(module, tokenizer=tiny_tokenizer(family)))
    assert [m.config._attn_implementation for m in module.modules() if hasattr(m, "config")] == before
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules()) == 0


# Relative keys
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["deberta", "deberta-v2"])
def test_every_query_meets_keys_of_its_own(family):
    layers, _ = read(opened(family), TEXT)
    layer = layers[1]
    assert layer.relative is not None
    assert np.ptp(layer.relative.place) > 3
    for h in range(layer.heads):
        scores, measured = layer.scores(h), measure_queries(layer, h)
        for t in range(layer.n_queries):
            keys = layer.keys_of(h, t)
            plain = layer.queries[h, t].astype(float) @ keys.T * layer.scale + layer.bias[h, t]
            np.testing.assert_allclose(plain, scores[t], atol=1e-5)
            alone = layer.met_by(t)
            np.testing.assert_allclose(alone.scores(h)[0], scores[t], atol=1e-5)
            np.testing.assert_array_equal(layer.one_head(h).scores(0)[t], scores[t])
            assert measured.winner[t] == scores[t].argmax()
            rest = np.delete(scores[t], measured.winner[t])
            assert measured.margin[t] == pytest.approx(scores[t].max() - rest.max(), abs=1e-5)
    with pytest.raises(hm.errors.InvalidInputError, match="adds relative keys"):
        layer.keys_of(0)


def relative_layer(rng):
    layer = random_layer(rng, n=7, heads=2, d_head=3)
    place = (np.arange(7)[:, None] - np.arange(7)[None]).clip(-2, 2) + 2
    return replace(layer, relative=RelativeKeys(rng.standard_normal((2, 5, 3)), place))


def test_walls_and_cells_of_relative_keys():
    rng = np.random.default_rng(0)
    layer = relative_layer(rng)
    found = measure_queries(layer, 1)
    for t in range(7):
        keys = layer.keys_of(1, t)
        query, w = layer.queries[1, t], int(found.winner[t])
        others = np.delete(np.arange(7), w)
        apart = (keys[w] - keys[others]) @ query / np.linalg.norm(keys[w] - keys[others], axis=1)
        assert found.wall_distance[t] == pytest.approx(apart.min())
        reached = keys_that_can_win(read_keys(layer, 1, t), layer.scale, found.norm)
        assert reached.position == t
        won = np.unique((20.0 * rng.standard_normal((4000, 3)) @ keys.T).argmax(axis=1))
        assert reached.can_win[won].all()
    piece = layer_slice(layer, principal_plane(layer.inputs), position=4)
    assert not piece.any_position
    assert piece.complete
    points = piece.origin + piece.witnesses @ piece.directions
    at = layer.query_map(4)
    for h in range(2):
        queries = points @ at.matrix[h].T + at.offset[h]
        np.testing.assert_array_equal((queries @ layer.keys_of(h, 4).T).argmax(axis=1), piece.routings[:, h])


# Softcaps
# --------------------------------------------------------------------------------------------------


def test_a_softcap_changes_probabilities_and_no_winner():
    cap = 0.7
    plain = random_layer(3, n=9, heads=2)
    layer = replace(plain, softcap=cap)
    for h in range(2):
        raw = plain.scores(h)
        np.testing.assert_allclose(layer.scores(h), cap * np.tanh(raw / cap))
        weights = np.exp(cap * np.tanh(raw / cap))
        np.testing.assert_allclose(layer.probabilities(h), weights / weights.sum(axis=1, keepdims=True))
        a, b = measure_queries(plain, h), measure_queries(layer, h)
        np.testing.assert_array_equal(a.winner, b.winner)
        np.testing.assert_array_equal(a.wall_distance, b.wall_distance)  # walls are those of affine scores
        falling = -np.sort(-layer.scores(h), axis=1)
        np.testing.assert_allclose(b.margin, falling[:, 0] - falling[:, 1])  # margins those of the softmax
        assert (b.margin <= a.margin).all()
        assert (b.margin < 2 * cap).all()
        assert (b.total_variation <= b.total_variation_bound + 1e-12).all()
        reached = keys_that_can_win(read_keys(layer, h), layer.scale, b.norm)
        np.testing.assert_array_equal(
            reached.can_win, keys_that_can_win(read_keys(plain, h), plain.scale, a.norm).can_win
        )
        assert np.isnan(reached.margin)
        assert np.isnan(reached.probability_bound)


def test_near_the_cap_the_winner_is_that_of_the_scores_before_it():
    layer = replace(random_layer(4, n=9, heads=1), softcap=1e-3)  # tanh is 1 for nearly all
    raw = layer.scores(0, capped=False)
    assert (layer.scores(0) == layer.scores(0).max(axis=1, keepdims=True)).sum(axis=1).max() > 1
    np.testing.assert_array_equal(measure_queries(layer, 0).winner, raw.argmax(axis=1))
    flow = FlowRecorder(["argmax"])
    flow(layer)
    reading = TextReading(tuple("abcdefghi"), tuple("abcdefghi"), 0, 0, None, 0)
    routes = flow.flows(reading)[0].routes[0]
    np.testing.assert_array_equal(routes, np.eye(9, dtype=bool)[raw.argmax(axis=1)])


# Null keys
# --------------------------------------------------------------------------------------------------


def test_learned_scores_take_probability_and_hand_over_nothing():
    model = opened("gpt_oss")
    layers, reading = read(model, TEXT)
    n = len(reading.tokens) - 1
    assert reading.tokens[-1] == "sink"
    assert reading.tokens == reading.key_tokens
    won = 0
    for layer, module in zip(
        layers, (m for m, _ in families.attention_modules(model.module, model.places)), strict=True
    ):
        assert layer.null_keys == 1
        assert layer.present.shape == (n + 1, n + 1)
        assert not layer.present[n].any()
        assert layer.present[:n, n].all()
        np.testing.assert_array_equal(layer.bias[:, 0, n], module.sinks.detach().numpy())
        assert not layer.keys[:, n].any()
        assert not layer.values[:, n].any()
        for h in range(layer.heads):
            p = layer.probabilities(h)
            np.testing.assert_allclose(p[:n].sum(axis=1), 1.0)
            raw = np.exp(layer.scores(h)[:n, :n])
            share = raw.sum(axis=1) / (raw.sum(axis=1) + np.exp(module.sinks[h].item()))
            np.testing.assert_allclose(p[:n, :n].sum(axis=1), share)
            won += int((measure_queries(layer, h).winner[:n] == n).sum())
    assert won > 0
    flow = token_flow(model, TEXT, rule="readable")
    assert not flow.sets[:, :n, n].any()
    assert flow.sets[-1, n - 1, :n].all()


# A decoder that reads an encoder
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["t5", "bart", "marian"])
def test_layers_of_two_sequences(family):
    model = opened(family, num_hidden_layers=3)
    layers, reading = read(model)
    assert model.kinds == ("encoder",) * 3 + ("decoder", "cross") * 2
    assert "which read the encoder: 4, 6." in model.about
    e = 10
    n = 2 * e
    assert reading.tokens[1:e] == ("the", *SHORT.split()[1:], "[SEP]")
    assert reading.tokens[e + 1 :] == reading.tokens[: e - 1]
    encoder, decoder = np.arange(n) < e, np.arange(n) >= e
    expected = {
        "encoder": np.outer(encoder, encoder),
        "decoder": np.outer(decoder, decoder) & np.tri(n, dtype=bool),
        "cross": np.outer(decoder, encoder),
    }
    other = tiny_model(family, num_hidden_layers=3, attn_implementation="eager")
    with torch.no_grad():
        own = other(**model._accepted(model.encode(SHORT)), output_attentions=True)
    theirs = {
        "encoder": iter(own.encoder_attentions),
        "decoder": iter(own.decoder_attentions),
        "cross": iter(own.cross_attentions),
    }
    for layer, kind in zip(layers, model.kinds, strict=True):
        np.testing.assert_array_equal(layer.present, expected[kind])
        rows, columns = layer.present.any(axis=1), layer.present.any(axis=0)
        found = all_probabilities(layer)[:, rows][:, :, columns]
        assert np.abs(found - next(theirs[kind])[0].numpy()).max() < LIMIT
        with pytest.raises(hm.errors.InvalidInputError, match="one that asks"):
            layer.query_map(0 if kind != "encoder" else n - 1)


def test_what_a_decoder_knows_of_its_encoder_comes_by_cross_attention():
    model = opened("bart", num_hidden_layers=3)
    flow = token_flow(model, SHORT, rule="readable")
    e = 10
    assert not flow.sets[:5, e:, :e].any()  # three layers of the encoder and one of the decoder
    assert flow.sets[5, e:, :e].all()
    assert not flow.sets[:, :e, e:].any()
    np.testing.assert_array_equal(flow.sets[-1][e:, e:], np.tri(e, dtype=bool))


def test_tokens_that_are_not_read_count_for_nothing():
    """An encoder measured with its decoder has the numbers that it has alone."""
    whole = opened("t5")
    encoder = transformers.T5EncoderModel(whole.module.config).eval()
    encoder.load_state_dict(whole.module.state_dict(), strict=False)
    alone = open_model(encoder, tokenizer=tiny_tokenizer())
    texts = [SHORT, "a dog ran over the red log ."]
    a, b = (hm.head_atlas(model, texts, layers=[0, 1]) for model in (whole, alone))
    np.testing.assert_allclose(a.values, b.values, atol=1e-6)
    a, b = (hm.head_atlas(model, SHORT, layers=[0, 1], plane=None).heads for model in (whole, alone))
    for one, other in zip(a, b, strict=True):
        assert one.n_keys == other.n_keys == 10
        assert one.keys_can_win == other.keys_can_win
        assert one.usage_entropy_relative == pytest.approx(other.usage_entropy_relative)
    a, b = (hm.models.check_assumptions(model, SHORT).heads for model in (whole, alone))
    for name in ("n_keys", "copies", "spans"):
        np.testing.assert_array_equal(a[name][:8], b[name])


def test_a_target_is_what_the_decoder_has_written():
    model = opened("t5")
    encoded = model.encode("the cat sat", target="a dog")
    layers, reading = read(model, encoded)
    assert reading.tokens == ("[CLS]", "the", "cat", "sat", "[SEP]", "[PAD]", "[CLS]", "a", "dog")
    assert layers[-1].present.sum() == 4 * 5
    assert hm.head_atlas(model, encoded, plane=None).text_tokens == reading.tokens
    with pytest.raises(hm.errors.InvalidInputError, match="target belongs to a decoder"):
        opened("bert").encode("the cat", target="a dog")


def test_models_with_heads_and_encoders_alone(tmp_path):
    import copy

    config = tiny_model("t5", num_hidden_layers=2).config
    whole = transformers.T5ForConditionalGeneration(copy.deepcopy(config)).eval()
    layers, reading = read(open_model(whole, tokenizer=tiny_tokenizer()))
    assert len(layers) == 4
    assert reading.score_difference < LIMIT
    whole.save_pretrained(tmp_path / "t5")
    tiny_tokenizer().save_pretrained(tmp_path / "t5")
    again, _ = read(open_model(tmp_path / "t5"))
    for a, b in zip(layers, again, strict=True):
        np.testing.assert_array_equal(a.queries, b.queries)
    encoder = transformers.T5EncoderModel(copy.deepcopy(config)).eval()
    model = open_model(encoder, tokenizer=tiny_tokenizer())
    layers, reading = read(model)
    assert model.kinds == ()
    assert len(layers) == 2
    assert len(reading.tokens) == 10


@pytest.mark.parametrize("family", ["bart", "bloom", "deberta-v2", "gpt_oss", "mpnet"])
def test_families_from_a_folder(family, tmp_path):
    tiny_folder(tmp_path, family, num_hidden_layers=2)
    from_folder, _ = read(open_model(tmp_path))
    for a, b in zip(read(opened(family))[0], from_folder, strict=True):
        np.testing.assert_array_equal(a.queries, b.queries)


# What stands on the arrays
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["bloom", "t5", "deberta-v2", "gemma2", "gpt_oss", "gpt_neo"])
def test_atlas_and_report(family):
    model = opened(family)
    text = "the cat sat on the mat"
    found = report(model, text, rules=["argmax"], influence=False)
    atlas = found.atlas
    assert len(atlas.slices) == model.n_layers
    assert all(piece.complete for piece in atlas.slices)
    assert "NaN" not in found.html()
    assert found.about == model.about
    layers, _ = read(model, text)
    for record, winners in zip(atlas.heads, atlas.winners, strict=True):
        layer = layers[record.layer]
        asks = layer.present.any(axis=1)
        raw = layer.scores(record.head, capped=False)
        np.testing.assert_array_equal(winners[asks], raw.argmax(axis=1)[asks])
        assert (winners[~asks] == -1).all()
    for piece in atlas.slices:
        layer = layers[piece.layer]
        np.testing.assert_array_equal(layer.have_inputs, layer.present.any(axis=1))
        np.testing.assert_array_equal(np.isfinite(piece.token_places).all(axis=1), layer.have_inputs)
    if model.kinds:
        assert found.read_out == len(atlas.text_tokens) - 1


def test_a_wrong_head_is_named_across_two_sequences():
    a, b = (tiny_model("bart", num_hidden_layers=2) for _ in range(2))
    with torch.no_grad():
        b.decoder.layers[0].encoder_attn.q_proj.weight[:16] *= 8  # the first of two heads
        b.decoder.layers[0].encoder_attn.q_proj.bias[:16] *= 8
    texts = [
        "the cat sat",
        "a dog ran on the log",
        "who saw the old bird ?",
        SHORT,
        "the red mat , a blue log",
    ]
    tokenizer = tiny_tokenizer()
    models = [open_model(m, tokenizer=tokenizer) for m in (a, b)]
    found = hm.compare(*models, texts)
    assert any("keys come from an encoder" in note for note in found.notes)
    moved = np.abs(found.differences("total")).max(axis=(0, 2)) > 0
    assert {(int(n), int(h)) for n, h in zip(found.layer[moved], found.head[moved], strict=True)} == {(3, 0)}


def test_what_cannot_be_done_is_said_in_one_sentence():
    crossed, sinks, capped = opened("t5"), opened("gpt_oss"), opened("gemma2")
    written = tiny_model("gpt_oss", head=True, num_hidden_layers=2)
    for call, words in [
        (lambda: Interventions(crossed, SHORT), "one sequence of tokens"),
        (lambda: Interventions(sinks, SHORT), "one sequence of tokens"),
        (lambda: Interventions(opened("bloom"), SHORT).gradient(probes=1), "try probes=0"),
        (lambda: crossed.read(SHORT, print, inputs={0: np.zeros((10, 32))}), "two sequences"),
        (
            lambda: hm.models.generation_atlas(written, SHORT, tokenizer=tiny_tokenizer()),
            "scores that belong to no token",
        ),
        (lambda: hm.models.router_flips(capped, SHORT), "no softcap"),
        (lambda: hm.models.router_flips(opened("deberta"), SHORT), "relative keys"),
        (lambda: crossed.read({"inputs_embeds": torch.zeros(1, 3, 32)}, print), "decoder_input_ids"),
    ]:
        with pytest.raises(HardmaxError, match=words) as error:
            call()
        assert str(error.value).count(". ") == 0


@pytest.mark.parametrize("family", ["bloom", "gptj", "gpt_neo", "falcon", "mpt", "codegen"])
def test_generation_with_a_cache(family):
    """Each step reads what a whole text up to it reads at its end."""
    module, tokenizer = tiny_model(family, head=True, num_hidden_layers=2), tiny_tokenizer(family)
    found = hm.models.generation_atlas(module, "the cat", n_steps=2, tokenizer=tokenizer)
    model = open_model(module, tokenizer=tokenizer)
    ids = model.encode("the cat")["input_ids"]
    with torch.no_grad():
        ids = torch.cat([ids, module(input_ids=ids).logits[:, -1:].argmax(dim=-1)], dim=1)
    layers, _ = read(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    winners = [measure_queries(layer, h).winner[-1] for layer in layers for h in range(layer.heads)]
    np.testing.assert_array_equal(found.winners[-1], winners)


def test_a_layer_among_other_tokens():
    layer = random_layer(0, n=4, heads=2)
    placed = layer.among(9, 5, 1)
    assert placed.present.sum() == 16
    assert placed.present[5:, 1:5].all()
    np.testing.assert_allclose(placed.probabilities(1)[5:, 1:5], layer.probabilities(1))
    assert placed.query_map(6) is layer.query_map(1)
    assert isinstance(placed, CapturedLayer)
    assert layer.among(4, 0, 0) is layer

    class Seen:
        layers = (2,)

        def __call__(self, layer):
            self.shape = layer.present.shape

    seen = Seen()
    read_with(opened("t5"), SHORT, [seen])
    assert seen.shape == (20, 20)
