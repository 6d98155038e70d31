"""A decoder while it writes: what is captured step by step is what one pass over the whole text shows."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'models'")
pytest.importorskip("transformers", reason="needs the extra 'models'")

from tiny_models import tiny_folder, tiny_model, tiny_tokenizer  # noqa: E402

import hardmax as hm  # noqa: E402
from hardmax.errors import FileFormatError, InvalidInputError  # noqa: E402
from hardmax.models.atlas.head_measures import measure_queries  # noqa: E402
from hardmax.models.reading.loading import open_model  # noqa: E402


@pytest.mark.parametrize("family", ["gpt2", pytest.param("llama", marks=pytest.mark.slow)])
def test_steps_are_the_rows_of_one_causal_pass(family, tmp_path):
    model, tokenizer = tiny_model(family, head=True), tiny_tokenizer(family)
    found = hm.models.generation_atlas(model, "the cat sat", n_steps=6, tokenizer=tokenizer)
    ids = tokenizer("the cat sat", return_tensors="pt")["input_ids"]
    assert found.n_prompt == ids.shape[1]
    assert found.n_keys.tolist() == [found.n_prompt + i for i in range(6)]
    # greedy writing without a cache gives the same tokens
    for _ in range(6):
        with torch.no_grad():
            ids = torch.cat([ids, model(input_ids=ids, use_cache=False).logits[:, -1:].argmax(-1)], dim=1)
    opened = open_model(model, tokenizer=tokenizer)
    assert found.tokens == opened.tokens({"input_ids": ids})
    seen = []
    opened.read({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, seen.append)
    asks = slice(found.n_prompt - 1, found.n_prompt + 5)
    rows = [measure_queries(layer, h) for layer in seen for h in range(layer.heads)]
    np.testing.assert_array_equal(found.winners.T, [one.winner[asks] for one in rows])
    np.testing.assert_allclose(found.margins.T, [one.margin[asks] for one in rows], rtol=1e-3, atol=1e-4)
    wanted = [one.top_probability[asks] for one in rows]
    np.testing.assert_allclose(found.top_probabilities.T, wanted, rtol=1e-3, atol=1e-4)
    assert found.probability_difference < 1e-4
    assert (found.distances >= 0).all()
    again = hm.load(found.save(tmp_path / "generation.npz"))
    assert again.written == found.written
    assert len(again.to_frame()) == found.winners.size
    assert again.plot().get_ylabel() == "layer.head"


def test_what_cannot_write_is_said():
    tokenizer = tiny_tokenizer("gpt2")
    with pytest.raises(InvalidInputError, match="must have a head over its vocabulary"):
        hm.models.generation_atlas(tiny_model("gpt2"), "the cat", tokenizer=tokenizer)
    with pytest.raises(InvalidInputError, match="n_steps must be at least 1"):
        hm.models.generation_atlas(tiny_model("gpt2", head=True), "the cat", n_steps=0, tokenizer=tokenizer)


def test_a_folder_is_read_with_its_head(tmp_path):
    folder = tiny_folder(tmp_path / "writer", "gpt2", head=True)
    found = hm.models.generation_atlas(folder, "the cat", n_steps=2)
    model, tokenizer = tiny_model("gpt2", head=True), tiny_tokenizer("gpt2")
    assert (
        found.written == hm.models.generation_atlas(model, "the cat", n_steps=2, tokenizer=tokenizer).written
    )
    assert found.model == "writer"
    from click.testing import CliRunner

    from hardmax.cli import main

    run = CliRunner().invoke(main, ["atlas", str(folder), "--text", "the cat", "--generate", "2"])
    assert run.exit_code == 0, run.output
    assert "writer writes 2 tokens" in run.output
    assert CliRunner().invoke(main, ["atlas", "--generate", "2"]).exit_code == 2


@pytest.mark.parametrize(
    ("family", "error", "sentence"),
    [
        ("llama", FileFormatError, "lm_head.weight among them; they would be random numbers"),
        ("t5", InvalidInputError, r"decoder that writes by itself, but t5 \(t5\) is none"),
        ("bart", InvalidInputError, r"decoder that writes by itself, but bart \(bart\) is none"),
        ("vit", InvalidInputError, r"decoder that writes by itself, but vit \(vit\) is none"),
        ("bert", InvalidInputError, r"bert \(bert\) is an encoder, which does not write text"),
        ("distilbert", InvalidInputError, "is an encoder, which does not write text"),
        ("gemma2", InvalidInputError, "must fit into its smallest window"),
    ],
)
def test_a_folder_that_cannot_write_is_refused_in_one_sentence(family, error, sentence, tmp_path, capfd):
    folder = tiny_folder(tmp_path / family, family, tokenizer=family != "vit")
    capfd.readouterr()
    with pytest.raises(error, match=sentence):
        hm.models.generation_atlas(folder, "the little cat sat on the old mat", n_steps=2)
    assert "LOAD REPORT" not in capfd.readouterr().err


def test_an_encoder_does_not_write():
    tokenizer = tiny_tokenizer("bert")
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(tiny_model("bert").config).eval()
    with pytest.raises(InvalidInputError, match=r"BertLMHeadModel \(bert\) is an encoder, which does not"):
        hm.models.generation_atlas(model, "the cat", n_steps=2, tokenizer=tokenizer)
