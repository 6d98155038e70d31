"""Layers that other tools captured: recorded arrays everywhere, the packages themselves where installed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import DimensionMismatchError, FidelityError, InvalidInputError
from hardmax.models import CapturedLayer, captured_source

TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def recorded():
    with np.load(TESTS / "recorded" / "other_tools.npz") as file:  # written by scripts/record_other_tools.py
        return dict(file)


def patterns(layer):
    return np.stack([layer.probabilities(h) for h in range(layer.heads)])


class Cache(dict):
    """The part of an ActivationCache that is used."""

    has_batch_dim = True
    model = None


def lens(recorded, name):
    start = f"lens/{name}/"
    return Cache({k.removeprefix(start): v for k, v in recorded.items() if k.startswith(start)})


@pytest.mark.parametrize(("name", "causal"), [("causal", None), ("both", False), ("grouped", None)])
def test_a_recorded_cache_of_transformer_lens_gives_its_own_pattern(recorded, name, causal):
    cache = lens(recorded, name)
    layer = CapturedLayer.from_transformer_lens(cache, 1, causal=causal)
    own = cache["blocks.1.attn.hook_pattern"][0]
    np.testing.assert_allclose(patterns(layer), own, atol=1e-6)
    assert np.abs(own - own.mean(axis=2, keepdims=True)).max() > 0.2  # far from uniform: it could fail
    assert layer.keys.shape[0] == (2 if name == "grouped" else 4)
    assert layer.index == 1
    assert layer.present.all() == (name == "both")


def test_a_rotation_that_the_cache_does_not_hold_is_refused(recorded):
    with pytest.raises(FidelityError, match="a rotation without hook_rot_q"):
        CapturedLayer.from_transformer_lens(lens(recorded, "rotary"), 1)


@pytest.mark.parametrize("heads_first", [False, True])
def test_rotated_queries_are_taken_in_either_layout(recorded, heads_first):
    cache = lens(recorded, "causal")
    start = "blocks.1.attn.hook_"
    turned = Cache(cache)
    for one in "qk":
        true = cache[f"{start}{one}"]
        turned[f"{start}rot_{one}"] = true.swapaxes(1, 2) if heads_first else true
        turned[f"{start}{one}"] = np.roll(true, 1, axis=3) * (1.0 + (one == "k"))  # before the rotation
    layer = CapturedLayer.from_transformer_lens(turned, 1)
    np.testing.assert_allclose(patterns(layer), cache[f"{start}pattern"][0], atol=1e-6)


def test_padding_that_nobody_reads_is_absent(recorded):
    cache = lens(recorded, "both")
    start = "blocks.1.attn.hook_"
    pattern = cache[f"{start}pattern"].copy()
    pattern[..., 5:] = 0
    padded = Cache(cache)
    padded[f"{start}pattern"] = pattern / pattern.sum(axis=3, keepdims=True)
    layer = CapturedLayer.from_transformer_lens(padded, 1, causal=False)
    assert layer.present.sum(axis=1).tolist() == [5] * 7
    np.testing.assert_allclose(patterns(layer), padded[f"{start}pattern"][0], atol=1e-6)


def test_a_cache_without_the_entries_says_which(recorded):
    with pytest.raises(InvalidInputError, match=r"blocks\.0\.attn\.hook_q"):
        CapturedLayer.from_transformer_lens(lens(recorded, "causal"), 0)
    bare = lens(recorded, "causal")
    del bare["blocks.1.attn.hook_pattern"]
    with pytest.raises(InvalidInputError, match="hook_pattern, with which the layer is compared"):
        CapturedLayer.from_transformer_lens(bare, 1)


def call(recorded, family):
    """The recorded call as nnsight saves it."""
    of = {k.rpartition("/")[2]: v for k, v in recorded.items() if k.startswith(f"nnsight/{family}/")}
    module = SimpleNamespace(forward=None, is_causal=family != "bert")
    given = (module, of["q"], of["k"], of["v"], of.get("mask"))
    return (given, {"scaling": float(of["scaling"]), "dropout": 0.0}), (None, of["pattern"])


@pytest.mark.parametrize("family", ["llama", "gpt2", "bert"])
def test_a_recorded_trace_of_nnsight_gives_its_own_pattern(recorded, family):
    inputs, output = call(recorded, family)
    layer = CapturedLayer.from_nnsight(inputs, output, index=1)
    np.testing.assert_allclose(patterns(layer), output[1][0], atol=1e-6)
    assert np.array_equal(layer.present, np.tri(7, dtype=bool) if family != "bert" else np.ones((7, 7), bool))
    wrong = inputs[0][:2] + (inputs[0][2] * 1.5,) + inputs[0][3:], inputs[1]
    with pytest.raises(FidelityError, match="must give the attention pattern"):
        CapturedLayer.from_nnsight(wrong, output)
    assert CapturedLayer.from_nnsight(wrong).heads == layer.heads  # without a pattern nothing is compared


def test_what_is_no_call_of_attention_is_said(recorded):
    with pytest.raises(InvalidInputError, match=r"saved \.inputs of the attention interface"):
        CapturedLayer.from_nnsight(np.zeros((1, 2, 3, 4)))
    with pytest.raises(InvalidInputError, match="attention_interface_1, before it was"):
        CapturedLayer.from_nnsight(((lambda x: x,), {}))


def attention(q, k, *, cap=None, sinks=None, relative=None):
    """Probabilities of tokens by hand, one query at a time."""
    found = np.zeros((len(q), q.shape[1], k.shape[1]))
    for h, t in np.ndindex(found.shape[:2]):
        keys = k[h] if relative is None else k[h] + relative[0][h][relative[1][t]]
        scores = keys[: t + 1] @ q[h, t] / 2.0
        scores = scores if cap is None else cap * np.tanh(scores / cap)
        weights = np.exp(scores)
        found[h, t, : t + 1] = weights / (weights.sum() + (0.0 if sinks is None else np.exp(sinks[h])))
    return found


def test_arrays_with_a_softcap_relative_keys_or_sinks():
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 3, 5, 4))
    relative = rng.standard_normal((3, 7, 4)), rng.integers(0, 7, (5, 5))
    sinks = np.array([0.5, -1.0, 2.0])
    for options in ({"softcap": 0.7}, {"relative": relative}, {"sinks": sinks}):
        own = attention(q, k, **{"cap" if name == "softcap" else name: v for name, v in options.items()})
        layer = CapturedLayer.from_arrays(q, k, causal=True, probabilities=own, **options)
        np.testing.assert_allclose(patterns(layer)[..., :5], own, atol=1e-12)
        with pytest.raises(FidelityError, match="must give the attention pattern"):
            CapturedLayer.from_arrays(q, k, causal=True, probabilities=own)
        report = hm.report(captured_source([layer], ["a", "b", "c", "d", "e"]))
        assert report.atlas.text_tokens[5:] == (("sink",) if "sinks" in options else ())
        assert "nan" not in report.verdict.sentences[0]
    with pytest.raises(InvalidInputError, match="softcap must be left out where there is a bias or sinks"):
        CapturedLayer.from_arrays(q, k, softcap=1.0, sinks=sinks)
    with pytest.raises(DimensionMismatchError, match="sinks must be one finite score per head, 3"):
        CapturedLayer.from_arrays(q, k, sinks=sinks[:2])
    with pytest.raises(InvalidInputError, match="whole numbers from 0 to 6"):
        CapturedLayer.from_arrays(q, k, relative=(relative[0], relative[1] + 1))


def test_sinks_and_caps_of_a_call_of_attention_are_taken_and_what_is_not_understood_is_refused():
    q, k = np.random.default_rng(0).standard_normal((2, 1, 3, 5, 4))
    sinks = np.array([0.5, -1.0, 2.0])
    given = (SimpleNamespace(forward=None, is_causal=True), q, k, k, None)
    layer = CapturedLayer.from_nnsight(
        (given, {"s_aux": sinks}), (None, attention(q[0], k[0], sinks=sinks)[None])
    )
    assert layer.null_keys == 1
    capped = CapturedLayer.from_nnsight((given, {"softcap": 0.7}))  # no pattern: nothing would notice it
    np.testing.assert_allclose(patterns(capped), attention(q[0], k[0], cap=0.7), atol=1e-12)
    with pytest.raises(InvalidInputError, match="but it takes 'learned_scale'"):
        CapturedLayer.from_nnsight((given, {"learned_scale": 3.0}))


def test_a_cap_of_transformer_lens_is_that_of_its_configuration():
    q, k = np.random.default_rng(0).standard_normal((2, 3, 5, 4))
    cache = Cache(
        {f"blocks.0.attn.hook_{n}": a.swapaxes(0, 1)[None] for n, a in zip("qkv", (q, k, k), strict=True)}
    )
    cache["blocks.0.attn.hook_pattern"] = attention(q, k, cap=0.7)[None]
    cache.model = SimpleNamespace(cfg=SimpleNamespace(attn_scores_soft_cap=0.7))
    np.testing.assert_allclose(
        patterns(CapturedLayer.from_transformer_lens(cache, 0)), attention(q, k, cap=0.7), atol=1e-12
    )
    cache.model.cfg.attn_scores_soft_cap = -1.0
    with pytest.raises(FidelityError, match="must give hook_pattern"):
        CapturedLayer.from_transformer_lens(cache, 0)


def test_arrays_in_one_line(recorded):
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((4, 6, 8)), rng.standard_normal((2, 6, 8)), rng.standard_normal((2, 6, 5))
    layer = CapturedLayer.from_arrays(q, k, v, causal=True, bias=np.zeros((1, 6, 6)))
    for h in range(4):
        for t in range(6):
            weights = np.exp([q[h, t] @ k[h // 2, s] / np.sqrt(8) for s in range(t + 1)])
            np.testing.assert_allclose(layer.probabilities(h)[t, : t + 1], weights / weights.sum())
    assert layer.values.shape == (2, 6, 5)
    with pytest.raises(DimensionMismatchError, match=r"\(heads, tokens, d_head\)"):
        CapturedLayer.from_arrays(q[None], k)
    with pytest.raises(DimensionMismatchError, match="G a divisor of H"):
        CapturedLayer.from_arrays(q[:3], k)
    with pytest.raises(InvalidInputError, match="keys must be finite"):
        CapturedLayer.from_arrays(q, np.full_like(k, np.nan))


def test_captured_layers_are_read_like_a_model(recorded):
    inputs, output = call(recorded, "bert")
    layers = [CapturedLayer.from_nnsight(inputs, output, index=i) for i in range(2)]
    tokens = ["a", "b", "c", "d", "e", "f", "g"]
    found = hm.report(captured_source(layers, tokens, name="traced"), rules=["argmax"])
    assert found.atlas.text_tokens == tuple(tokens)
    top = np.median(output[1][0].max(axis=2), axis=1)
    assert [r.top_probability for r in found.atlas.heads[:4]] == pytest.approx(top, abs=1e-6)
    assert "traced" in found.html()
    with pytest.raises(InvalidInputError, match="numbered from 0 on"):
        captured_source(layers[1:])
    with pytest.raises(InvalidInputError, match="text must be left out"):
        hm.head_atlas(captured_source(layers), "a text")


# The packages themselves
# ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tools():
    pytest.importorskip("transformer_lens", reason="TransformerLens is not installed")
    pytest.importorskip("nnsight", reason="nnsight is not installed")
    sys.path.insert(0, str(TESTS / "scripts"))
    import record_other_tools

    return record_other_tools


@pytest.mark.parametrize("changes", [{}, {"attention_dir": "bidirectional"}, {"n_key_value_heads": 2}])
def test_transformer_lens_itself(tools, changes):
    model = tools.lens_model(**changes)
    cache = tools.lens_cache(model)
    layers = [CapturedLayer.from_transformer_lens(cache, n) for n in range(2)]
    for layer in layers:
        own = cache[f"blocks.{layer.index}.attn.hook_pattern"][0].detach().numpy()
        np.testing.assert_allclose(patterns(layer), own, atol=1e-5)
        maps = layer.query_map(0)
        made = np.einsum("hij,tj->hti", maps.matrix, layer.inputs) + maps.offset[:, None]
        np.testing.assert_allclose(made, layer.queries, atol=1e-4)
        mixed = np.stack([layer.probabilities(h) @ layer.values[layer.group(h)] for h in range(4)])
        out = np.einsum("hte,hde->td", mixed, layer.output_weights)
        own_out = cache[f"blocks.{layer.index}.hook_attn_out"][0].detach().numpy()
        assert np.ptp(out - own_out, axis=0).max() < 1e-4  # up to the bias b_O, the same for all tokens
    assert hm.head_atlas(captured_source(layers)).slices


def test_transformer_lens_with_a_rotation_that_is_not_cached_is_refused(tools):
    cache = tools.lens_cache(tools.lens_model(positional_embedding_type="rotary", rotary_dim=4))
    with pytest.raises(FidelityError):
        CapturedLayer.from_transformer_lens(cache, 0)


@pytest.mark.parametrize("family", ["llama", "gpt2", "bert"])
def test_nnsight_itself(tools, family):
    inputs, output = tools.traced(family)
    layer = CapturedLayer.from_nnsight(inputs, output, index=1)
    np.testing.assert_allclose(patterns(layer), output[1][0].detach().numpy(), atol=1e-5)
