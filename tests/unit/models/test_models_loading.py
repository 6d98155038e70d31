"""Models of every family are read faithfully: masks, rotations, norms, groups, half precision.

Tiny random models with large weights; the oracle is transformers' own eager attention, asked for directly.
"""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from tiny_models import SETTINGS, TEXT, tiny_folder, tiny_model, tiny_tokenizer  # noqa: E402

from hardmax.errors import FidelityError, UnsupportedModelError  # noqa: E402
from hardmax.models.influence.interventions import Interventions  # noqa: E402
from hardmax.models.reading import capture, families, loading  # noqa: E402
from hardmax.models.reading.families import FAMILIES, rotated  # noqa: E402
from hardmax.models.reading.loading import open_model  # noqa: E402

LIMIT = 1e-5


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def opened(family, **options):
    return open_model(tiny_model(family, **options), tokenizer=tiny_tokenizer(family))


def read(model, text=TEXT, **options):
    layers = []
    reading = model.read(text, layers.append, **options)
    return layers, reading


def some_inputs(model, *, length=32):
    """A padded text, or an image."""
    if model.places.images:
        generator = torch.Generator().manual_seed(5)
        return {"pixel_values": torch.randn(1, 3, 12, 12, generator=generator)}
    return model.encode(TEXT, length=length)


def test_every_family_has_a_tiny_model():
    assert set(SETTINGS) == set(FAMILIES)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_family_is_read_faithfully(family, dtype):
    model = opened(family, dtype=dtype, num_hidden_layers=2)
    layers, reading = read(model, some_inputs(model))
    assert [layer.index for layer in layers] == list(range(model.n_layers))
    assert tuple(layer.heads for layer in layers) == model.heads
    found = [reading.score_difference, reading.probability_difference]
    assert max(*found, reading.query_difference, reading.output_difference) < LIMIT
    assert (reading.native_difference is None) == (dtype == "float32")
    assert reading.precision == dtype
    asked = [layer.present.any(axis=1) for layer in layers]
    top = np.concatenate(
        [layer.probabilities(0).max(axis=1)[a] for layer, a in zip(layers, asked, strict=True)]
    )
    assert np.median(top) > 3 / len(reading.key_tokens)  # far from uniform, or nothing was tested
    for layer, asking in zip(layers, map(np.flatnonzero, asked), strict=True):
        for t in asking[[0, len(asking) // 2, -1]]:
            at = layer.query_map(t)
            q = np.einsum("hkd,d->hk", at.matrix, layer.inputs[t].astype(float)) + at.offset
            assert np.abs(q - layer.queries[:, t]).max() < LIMIT * np.abs(layer.queries).max()


@pytest.mark.parametrize("family", ["bert", "albert", "gpt2", "gpt_neox", "llama", "mistral", "qwen3", "vit"])
def test_probabilities_are_those_that_transformers_returns(family):
    model = opened(family)
    inputs = some_inputs(model)
    layers, _ = read(model, inputs)
    other = tiny_model(family, attn_implementation="eager")  # the same numbers, never touched by hardmax
    with torch.no_grad():
        own = other(**model._accepted(inputs), output_attentions=True).attentions
    assert len(own) == len(layers)
    for layer, probabilities in zip(layers, own, strict=True):
        found = np.stack([layer.probabilities(h) for h in range(layer.heads)])
        alive = layer.present.any(
            axis=1
        )  # in a window with nothing but padding the model's own are arbitrary
        assert np.abs(found - probabilities[0].numpy())[:, alive].max() < LIMIT


def test_causal_sliding_and_padding_masks():
    n, window = 29, SETTINGS["mistral"]["sliding_window"]
    t, s = np.arange(n)[:, None], np.arange(n)[None]
    real = len(opened("bert").tokens(TEXT))
    assert real < n
    expected = {
        "bert": (s < real) & (t >= 0),
        "gpt2": s <= t,
        "mistral": (s <= t) & (s > t - window),
    }
    for family, present in expected.items():
        model = opened(family)
        layers, _ = read(model, model.encode(TEXT, length=n))
        for layer in layers:
            np.testing.assert_array_equal(layer.present, present & (s < real))


def test_padding_before_a_causal_text():
    model = opened("llama")
    inputs = model.encode(TEXT)
    n = inputs["input_ids"].shape[1]
    padded = {
        "input_ids": torch.cat([torch.zeros((1, 3), dtype=torch.long), inputs["input_ids"]], dim=1),
        "attention_mask": torch.cat(
            [torch.zeros((1, 3), dtype=torch.long), torch.ones((1, n))], dim=1
        ).long(),
    }
    layers, reading = read(model, padded)
    assert not layers[0].present[:3].any()  # these queries may read nothing, and are left out of the check
    assert layers[0].present[3:, 3:].sum() == n * (n + 1) // 2
    assert np.all(layers[0].probabilities(0)[:3] == 0)
    assert reading.probability_difference < LIMIT


def test_layers_differ_in_what_they_read_and_turn():
    layers, _ = read(opened("qwen2"))  # full attention in one layer, sliding windows in the others
    assert [bool(layer.present[-1].all()) for layer in layers] == [True, False, False]
    layers, _ = read(opened("smollm3"))  # every second layer without rotations
    assert [layer.query_map(4).position for layer in layers] == [4, None, 4]


def test_what_is_frozen_is_said():
    for family, frozen, position in [
        ("bert", (), None),
        ("llama", (), 7),
        ("qwen3", ("query norm",), 7),
        ("olmo2", ("query norm",), 7),
        ("phi", ("query norm",), 7),
    ]:
        layers, _ = read(opened(family), layers=(1,))
        at = layers[0].query_map(7)
        assert (at.frozen, at.position) == (frozen, position)


def test_rotations_are_applied_position_by_position():
    layers, _ = read(opened("llama"), layers=(0,))
    layer = layers[0]
    maps = [layer.query_map(t) for t in (2, 9)]
    assert np.abs(maps[0].matrix - maps[1].matrix).max() > 0.1
    wrong = np.einsum("hkd,d->hk", maps[0].matrix, layer.inputs[9].astype(float)) + maps[0].offset
    assert np.abs(wrong - layer.queries[:, 9]).max() > 0.1


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
        {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 16},
        {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0},
    ],
)
def test_scaled_rotations(rope):
    _, reading = read(opened("llama", rope_parameters=rope))
    assert max(reading.score_difference, reading.query_difference) < LIMIT


# Negative controls
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["llama", "gpt_neox", "qwen3", "cohere"])
def test_a_family_without_its_rotation_is_refused(family, monkeypatch):
    monkeypatch.setitem(families.FAMILIES, family, replace(FAMILIES[family], rotary=None))
    with pytest.raises(FidelityError, match=r"queries differ by"):
        opened(family)


def test_capturing_without_rotations_is_refused(monkeypatch):
    from transformers.models.llama import modeling_llama

    turn = modeling_llama.apply_rotary_pos_emb
    model = opened("llama")
    config = model.module.config

    def only_in_eager(q, k, *args, **options):
        return turn(q, k, *args, **options) if config._attn_implementation == "eager" else (q, k)

    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", only_in_eager)
    seen = []
    with pytest.raises(FidelityError, match=r"scores differ by .*, probabilities differ by"):
        model.read(TEXT, seen.append)
    assert seen == []  # nothing unfaithful is shown


@pytest.mark.parametrize("wrong", ["scale", "present", "keys", "values", "bias"])
def test_a_wrong_array_is_refused(wrong, monkeypatch):
    model = opened("mistral")
    taken = capture._Notes._captured

    def spoiled(*args):
        found = taken(*args)
        layer = found.layer
        changes = {
            "scale": layer.scale * 1.001,
            "present": np.tri(layer.n_queries, layer.n_keys, dtype=bool),  # causal, but no window
            "keys": layer.keys[::-1],  # groups in the wrong order
            "values": layer.values[::-1],
            "bias": np.full((1, layer.n_queries, layer.n_keys), 0.01) * np.arange(layer.n_keys),
        }
        return replace(found, layer=replace(layer, **{wrong: changes[wrong]}))

    monkeypatch.setattr(capture._Notes, "_captured", spoiled)
    with pytest.raises(FidelityError):
        model.read(TEXT, lambda layer: None)


def test_a_gate_behind_attention_is_noticed(monkeypatch):
    from transformers.models.llama.modeling_llama import LlamaAttention

    model = tiny_model("llama")
    for module in model.modules():
        if isinstance(module, LlamaAttention):
            module.o_proj.register_forward_pre_hook(lambda m, args: (args[0] * 0.5,))
    with pytest.raises(FidelityError, match="outputs differ by"):
        open_model(model)


def test_masks_that_add_and_masks_by_head():
    model = opened("bert")
    inputs = model.encode(TEXT)
    n = inputs["input_ids"].shape[1]
    added = torch.linspace(-1.0, 1.0, n * n).reshape(1, 1, n, n)
    layers, reading = read(model, {**inputs, "attention_mask": added})
    assert layers[0].bias.shape == (4, n, n)
    np.testing.assert_array_equal(layers[0].bias[3], added[0, 0].numpy())
    assert reading.score_difference < LIMIT
    by_head = torch.zeros(1, 4, n, n)
    by_head[0, 2, :, 3] = torch.finfo(torch.float32).min
    with pytest.raises(UnsupportedModelError, match="different masks"):
        model.read({**inputs, "attention_mask": by_head}, lambda layer: None)


# What is left behind
# --------------------------------------------------------------------------------------------------


def fingerprint(module):
    hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules())
    weights = [
        (name, id(p), p.dtype, p.detach().float().sum().item()) for name, p in module.named_parameters()
    ]
    names = [
        *transformers.modeling_utils.AttentionInterface._global_mapping,
        *transformers.masking_utils.AttentionMaskInterface._global_mapping,
    ]
    return hooks, weights, module.config._attn_implementation, sorted(names), torch.backends.mkldnn.enabled


class Stop(Exception):
    pass


@pytest.mark.parametrize("where", ["nowhere", "in visit", "in a layer", "in a hook"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_model_is_left_as_it_was(where, dtype, monkeypatch):
    module = tiny_model("gpt2", dtype=dtype)
    model = open_model(module, tokenizer=tiny_tokenizer())
    before = fingerprint(module)
    assert before[2] == "sdpa"

    def stop(*args, **options):
        raise Stop

    def visit(layer):
        if where == "in visit":
            raise Stop

    with monkeypatch.context() as patch:
        if where == "in a layer":
            patch.setattr(module.h[1].mlp.c_proj, "forward", stop)
        if where == "in a hook":
            patch.setattr(capture._Notes, "_captured", stop)
        if where == "nowhere":
            model.read(TEXT, visit)
        else:
            with pytest.raises(Stop):
                model.read(TEXT, visit)
    assert fingerprint(module) == before
    assert read(model)[1].score_difference < LIMIT


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_threads_take_turns_with_a_model(dtype):
    """What is exchanged in a model for a reading would be seen by every other reading of it."""
    module = tiny_model("llama", dtype=dtype)
    model = open_model(module, tokenizer=tiny_tokenizer("llama"))
    Interventions(model, "the cat")  # transformers leaves hooks of its own when it shows hidden states
    before = fingerprint(module)
    alone: list[float] = []
    model.read(TEXT, lambda layer: alone.append(float(layer.scores(0).max())))

    def read(_: int) -> list[float]:
        found: list[float] = []
        model.read(TEXT, lambda layer: found.append(float(layer.scores(0).max())))
        Interventions(model, "the cat").gradient(probes=1)
        return found

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(read, range(8))) == [alone] * 8
    assert fingerprint(module) == before


# Parts
# --------------------------------------------------------------------------------------------------


def test_layers_in_groups_are_the_same(monkeypatch):
    model = opened("gpt_neox", dtype="bfloat16")
    whole, reading = read(model)
    monkeypatch.setattr(loading, "_GROUP_BYTES", 1)  # one layer at a time
    parts, again = read(model)
    assert [layer.index for layer in parts] == [0, 1, 2]
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(a.queries, b.queries)
    for name in ("tokens", "score_difference", "probability_difference", "native_difference"):
        assert getattr(again, name) == getattr(reading, name)
    chosen, _ = read(model, layers=(2, 0))
    assert [layer.index for layer in chosen] == [0, 2]
    np.testing.assert_array_equal(chosen[1].keys, whole[2].keys)


def test_arrays_are_read_only():
    layers, _ = read(opened("bert"), layers=(0,))
    layer = layers[0]
    for array in (layer.inputs, layer.queries, layer.keys, layer.values, layer.present, layer.output_weights):
        assert not array.flags.writeable


def test_output_weights_give_what_the_attention_module_returns():
    for family in ("gpt2", "llama", "distilbert"):
        model = opened(family)
        layers, _ = read(model, layers=(1,))
        layer = layers[0]
        _, projection = list(families.attention_modules(model.module, model.places))[1]
        kept = []
        handle = projection.register_forward_hook(lambda m, args, out, kept=kept: kept.append(out))
        model.run(**model.encode(TEXT))
        handle.remove()
        mixed = sum(
            layer.probabilities(h) @ layer.values[layer.group(h)] @ layer.output_weights[h].T
            for h in range(layer.heads)
        )
        bias = 0.0 if projection.bias is None else projection.bias.detach().numpy()
        own = kept[0][0].detach().numpy()
        assert np.abs(mixed + bias - own).max() < 1e-5 * np.abs(own).max()


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_models_with_heads(family, tmp_path):
    plain, _ = read(opened(family))
    headed = tiny_model(family, head=True)
    layers, reading = read(open_model(headed, tokenizer=tiny_tokenizer()))
    assert reading.score_difference < LIMIT
    tiny_folder(tmp_path, family, head=True)
    from_folder, _ = read(open_model(tmp_path))
    for a, b in zip(layers, from_folder, strict=True):
        np.testing.assert_array_equal(a.queries, b.queries)
    assert len(plain) == len(layers)


def test_half_precision_runs_in_float32_as_a_converted_model_would():
    for family in ("bert", "gemma", "qwen2_moe", "vit"):
        model = opened(family, dtype="bfloat16")
        inputs = some_inputs(model)
        with torch.no_grad():
            found = model.run(**inputs)
            wide = copy.deepcopy(model.module).float()
            expected = wide(**model._accepted(inputs)).last_hidden_state
        assert found.dtype == torch.float32
        tolerance = 1e-2 if family == "vit" else 1e-5  # its pixels are rounded on the way in
        assert (found - expected).abs().max() < tolerance * expected.abs().max()


def test_embedded_tokens_give_the_same_states():
    for family in ("bert", "gpt2", "opt", "gemma", "gemma3_text"):
        for dtype in ("float32", "bfloat16"):
            model = opened(family, dtype=dtype)
            inputs = model.encode(TEXT)
            rest = {name: tensor for name, tensor in inputs.items() if name != "input_ids"}
            with torch.no_grad():
                states = model.run(**inputs)
                again = model.run(inputs_embeds=model.embed(inputs["input_ids"]), **rest)
            assert (states - again).abs().max() <= 1e-6 * states.abs().max()


def test_gradients_pass_through_half_precision_models():
    model = opened("llama", dtype="bfloat16")
    inputs = model.encode(TEXT)
    embedded = model.embed(inputs["input_ids"]).detach().requires_grad_()
    out = model.run(inputs_embeds=embedded, attention_mask=inputs["attention_mask"])
    (gradient,) = torch.autograd.grad(out[0, 5].square().sum(), embedded)
    assert gradient.dtype == torch.float32
    assert gradient[0, 6:].abs().max() == 0  # causal: later tokens have no influence
    assert gradient[0, :6].abs().min() > 0


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 99), st.sampled_from(["halves", "pairs"]))
def test_rotations_turn_pairs_like_complex_numbers(pairs, rest, seed, layout):
    rng = np.random.default_rng(seed)
    y, angle = rng.standard_normal(2 * pairs + rest), rng.uniform(-9, 9, pairs)
    table = np.tile(angle, 2) if layout == "halves" else np.repeat(angle, 2)
    turned = rotated(y, np.cos(table), np.sin(table), layout)
    first = np.arange(pairs) if layout == "halves" else 2 * np.arange(pairs)
    second = first + (pairs if layout == "halves" else 1)
    expected = (y[first] + 1j * y[second]) * np.exp(1j * angle)
    np.testing.assert_allclose(turned[first] + 1j * turned[second], expected, atol=1e-12)
    np.testing.assert_array_equal(turned[2 * pairs :], y[2 * pairs :])
    if layout == "pairs":
        other = rotated(y, np.cos(np.tile(angle, 2)), np.sin(np.tile(angle, 2)), "pairs from halves")
        np.testing.assert_allclose(other, turned, atol=1e-12)
