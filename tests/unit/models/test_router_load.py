"""The load of experts: recomputed from the routers' own choices, for every family that is read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

import hardmax as hm
from hardmax.cli import main
from hardmax.errors import FidelityError, InvalidInputError

torch = pytest.importorskip("torch", reason="models need the extra 'models'")
pytest.importorskip("transformers", reason="models need the extra 'models'")

from tiny_models import tiny_folder, tiny_model, tiny_tokenizer  # noqa: E402 (needs transformers)

FAMILIES = ["mixtral", "qwen2_moe", "phimoe", "granitemoe", "qwen3_moe", "olmoe", "gpt_oss"]
TEXTS = [
    "the little cat sat on the old mat",
    "a red bird flew over the river",
    "the dog saw who ran and then ran",
]


def own_choices(model, tokenizer, text):
    """Logits and choices that the routers return themselves, layer by layer."""
    seen = []
    handles = [
        module.register_forward_hook(lambda _, args, out: seen.append((out[0], out[2])))
        for module in model.modules()
        if hasattr(module, "top_k") and getattr(module, "weight", None) is not None
    ]
    with torch.no_grad():
        model.base_model(**{k: v for k, v in tokenizer(text, return_tensors="pt").items() if "type" not in k})
    for handle in handles:
        handle.remove()
    return [
        (logits.reshape(-1, logits.shape[-1]).double().numpy(), chosen.numpy()) for logits, chosen in seen
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_share_mass_and_margin_are_those_of_the_routers_themselves(family):
    torch.set_num_threads(1)
    model, tokenizer = tiny_model(family), tiny_tokenizer(family)
    found = hm.models.router_load(model, TEXTS, tokenizer=tokenizer)
    assert found.share.shape == (3, 3, 4)
    assert found.layer.tolist() == [0, 1, 2]
    assert found.k.tolist() == [2, 2, 2]
    for i, text in enumerate(TEXTS):
        for r, (logits, chosen) in enumerate(own_choices(model, tokenizer, text)):
            counts = [sum(e in row for row in chosen.reshape(len(logits), -1).tolist()) for e in range(4)]
            assert found.share[i, r].tolist() == pytest.approx(np.array(counts) / len(logits))
            p = np.exp(logits - logits.max(axis=1, keepdims=True))
            np.testing.assert_allclose(
                found.mass[i, r], (p / p.sum(axis=1, keepdims=True)).mean(axis=0), atol=1e-5
            )
            ranked = np.sort(logits, axis=1)
            assert found.margin[i, r] == pytest.approx(np.median(ranked[:, -2] - ranked[:, -3]), abs=1e-4)
    np.testing.assert_allclose(found.share.sum(axis=2), 2.0)
    np.testing.assert_allclose(found.mass.sum(axis=2), 1.0)
    assert (found.cannot_flip >= 0).all()
    assert (found.cannot_flip <= 1).all()


@pytest.fixture(scope="module")
def found():
    return hm.models.router_load(tiny_model("mixtral"), TEXTS, tokenizer=tiny_tokenizer("mixtral"))


def test_intervals_are_those_of_scipy(found):
    interval = found.interval("share")
    values = found.share[:, 1, 2]
    low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
    assert interval.mean[1, 2] == pytest.approx(values.mean())
    assert (interval.low[1, 2], interval.high[1, 2]) == pytest.approx((max(low, 0.0), min(high, 1.0)))
    np.testing.assert_allclose(found.relative_load.sum(axis=1), 4.0)
    assert found.idle == tuple((r, e) for r, e in np.ndindex(3, 4) if not found.share[:, r, e].any())


def test_a_load_is_saved_tabled_and_drawn(found, tmp_path):
    again = hm.load(found.save(tmp_path / "load.npz"))
    np.testing.assert_array_equal(again.share, found.share)
    assert repr(again) == repr(found)
    assert len(found.to_frame()) == 12
    ax = found.plot()
    assert ax.get_xlabel() == "layer, its experts from left to right"
    heights = ax.containers[0][0].get_ydata()
    np.testing.assert_allclose(heights, found.relative_load.ravel())


def test_a_run_goes_on(tmp_path):
    model, tokenizer = tiny_model("olmoe"), tiny_tokenizer("olmoe")
    first = hm.models.router_load(model, TEXTS[:2], tokenizer=tokenizer, checkpoint=tmp_path / "run")
    whole = hm.models.router_load(model, TEXTS, tokenizer=tokenizer, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(whole.share[:2], first.share)
    with pytest.raises(InvalidInputError, match="made with another dtype"):
        hm.models.router_load(model, TEXTS, tokenizer=tokenizer, dtype="float16", checkpoint=tmp_path / "run")


def test_a_model_without_routers_and_a_router_that_chooses_otherwise():
    with pytest.raises(InvalidInputError, match="must have routers over experts"):
        hm.models.router_load(tiny_model("llama"), TEXTS, tokenizer=tiny_tokenizer("llama"))
    model = tiny_model("mixtral")
    gate = model.layers[1].mlp.gate
    own = type(gate).forward
    gate.forward = lambda x: (lambda a, b, c: (a, b, 3 - c))(*own(gate, x))
    with pytest.raises(FidelityError, match="layer 1 of MixtralModel must choose the largest"):
        hm.models.router_load(model, TEXTS[:1], tokenizer=tiny_tokenizer("mixtral"))


def test_the_command(tmp_path):
    folder = str(tiny_folder(tmp_path / "mixtral", "mixtral"))
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS))
    done = CliRunner().invoke(main, ["experts", folder, "--texts", str(tmp_path / "lines.txt"), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert len(told["experts"]["expert"]) == 12
    assert np.array(told["share"]).shape == (3, 3, 4)
    one = CliRunner().invoke(main, ["experts", folder, "--text", TEXTS[0]])
    assert one.exit_code == 0, one.output
    assert "each token gets 2" in one.output
    none = CliRunner().invoke(main, ["experts"])
    assert none.exit_code == 2
