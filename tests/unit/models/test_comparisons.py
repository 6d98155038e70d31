"""Two models head by head, and models along their training: differences that exist, and no others."""

from __future__ import annotations

import json
from dataclasses import fields
from importlib.util import find_spec

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import InvalidInputError
from hardmax.models.bundled import BundledSource
from hardmax.training.learned_routing import measured_hardness, routed_flow

X = np.random.default_rng(8).standard_normal((16, 15, 4))
TEXTS = [
    "the cat sat on a red mat",
    "a dog ran over the old house and sat",
    "red birds looked at the cat",
    "the man sat on the mat and the dog ran",
    "a cat and a dog and a bird ran over a mat",
    "the old man looked at the red house",
    "on a mat sat the old red cat and looked",
    "the dog looked at a man",
    "a red house and an old mat",
    "cat dog bird man house mat red old",
]


@pytest.fixture(scope="module")
def source():
    return hm.models.bundled_source()


def changed(source, name, rows, factor):
    """The model with some rows of a parameter multiplied."""
    vector = source.model.vector.copy()
    source.model.shape.split(vector)[name][rows] *= factor
    return BundledSource("changed", hm.training.TrainedModel(source.model.shape, vector), X[0])


# Two models
# ----------------------------------------------------------------------------------------------------------


def test_a_model_against_itself_differs_nowhere(source):
    found = hm.compare(source, source, X)
    for kind in ("direct", "total"):
        assert not found.differences(kind).any()
        assert (found.p_values(kind) == 1.0).all()
        assert found.named(kind) == ()


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (0, 1), (1, 1)])
def test_the_head_whose_queries_are_scaled_is_named_alone(source, layer, head):
    other = changed(source, f"layers.{layer}.query", slice(6 * head, 6 * head + 6), 4.0)
    found = hm.compare(source, other, X)
    assert found.named_heads == ((layer, head),)
    assert {place[0] for place in found.heads_named("total")} <= set(range(layer, 2))  # none in front of it
    row = 2 * layer + head
    others = [i for i in range(4) if i != row]
    assert not found.differences("direct")[:, others].any()
    # four times the query has four times the lead
    j = found.statistics.index("margin")
    np.testing.assert_allclose(found.values_direct[:, row, j], 4 * found.values_a[:, row, j], rtol=1e-6)


def test_values_alone_change_no_head_directly(source):
    other = changed(source, "layers.0.value", slice(None), 2.0)
    found = hm.compare(source, other, X)
    assert found.named_heads == ()
    assert {place[0] for place in found.heads_named("total")} == {1}


def test_a_comparison_is_saved_tabled_and_drawn(source, tmp_path):
    found = hm.compare(source, changed(source, "layers.0.query", slice(0, 6), 4.0), X[:8])
    again = hm.load(found.save(tmp_path / "comparison.npz"))
    assert again.named_heads == found.named_heads
    assert len(again.to_frame()) == 4 * 5
    assert again.plot(statistic="entropy").get_ylabel() == "difference of entropy"
    assert "1 head differs with the same inputs" in repr(again)


def test_a_comparison_goes_on_where_it_was(source, tmp_path):
    other = changed(source, "layers.1.query", slice(0, 6), 2.0)
    hm.compare(source, other, X[:5], checkpoint=tmp_path / "run")
    found = hm.compare(source, other, X[:8], checkpoint=tmp_path / "run")
    plain = hm.compare(source, other, X[:8])
    np.testing.assert_array_equal(found.values_direct, plain.values_direct)
    with pytest.raises(InvalidInputError, match="made with another b"):
        hm.compare(source, source, X[:8], checkpoint=tmp_path / "run")


def test_what_cannot_be_compared_is_said(source):
    with pytest.raises(InvalidInputError, match="texts must be at least three"):
        hm.compare(source, source, X[:2])
    with pytest.raises(InvalidInputError, match="statistics must be a list of"):
        hm.compare(source, source, X, statistics=["hardness"])
    with pytest.raises(InvalidInputError, match="alpha must be above 0"):
        hm.compare(source, source, X, alpha=5)


torch_missing = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("transformers")),
    reason="needs the extra 'models'",
)


@torch_missing
@pytest.mark.parametrize("family", ["bert", "gpt2", pytest.param("llama", marks=pytest.mark.slow)])
def test_of_two_torch_models_the_scaled_head_is_named_alone(family):
    import torch
    from tiny_models import tiny_model, tiny_tokenizer

    tokenizer = tiny_tokenizer(family)
    a, b = tiny_model(family), tiny_model(family)
    state = b.state_dict()
    heads = b.config.num_attention_heads
    layers = b.config.num_hidden_layers
    d_head = getattr(b.config, "head_dim", None) or b.config.hidden_size // heads
    part = {
        "bert": "layer.1.attention.self.query.weight",
        "gpt2": "h.1.attn.c_attn.weight",
        "llama": "layers.1.self_attn.q_proj.weight",
    }[family]
    (name,) = [key for key in state if key.endswith(part)]
    rows = slice(d_head, 2 * d_head)  # head 1
    with torch.no_grad():
        (state[name][:, rows] if family == "gpt2" else state[name][rows]).mul_(4.0)
    same = hm.compare(a, a, TEXTS, tokenizer=tokenizer)
    assert same.named_heads == () == same.heads_named("total")
    found = hm.compare(a, b, TEXTS, tokenizer=tokenizer, statistics=["margin", "entropy"])
    assert found.named_heads == ((1, 1),)
    moved = np.abs(found.differences("direct")).max(axis=(0, 2)) > 0
    assert [(int(n), int(h)) for n, h in zip(found.layer[moved], found.head[moved], strict=True)] == [(1, 1)]
    assert {place[0] for place in found.heads_named("total")} <= set(range(1, layers))
    # the inputs that were handed over are those of a: without a change both ways agree to the last bit
    np.testing.assert_array_equal(same.values_direct, same.values_a)


@torch_missing
def test_other_heads_are_refused_and_other_widths_have_no_direct_difference():
    from tiny_models import tiny_model, tiny_tokenizer

    tokenizer = tiny_tokenizer("bert")
    a = tiny_model("bert")
    with pytest.raises(InvalidInputError, match="must have the same layers and heads"):
        hm.compare(a, tiny_model("bert", num_hidden_layers=2), TEXTS, tokenizer=tokenizer)
    with pytest.raises(
        InvalidInputError, match=r"has 7 layers of 4, 4, 4, 2, 2, 2, 2 heads and .* 7 layers of 4 h"
    ):
        hm.compare(tiny_model("bart"), tiny_model("t5"), TEXTS, tokenizer=tokenizer)
    wide = tiny_model("bert", hidden_size=2 * a.config.hidden_size)
    found = hm.compare(a, wide, TEXTS[:4], tokenizer=tokenizer)
    assert not found.has_direct
    assert "without direct differences" in found.notes[0]
    assert found.named_heads == found.heads_named("total")


# Along a training
# ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    shape = hm.training.TransformerShape(6, 2, widths=(8, 8), heads=(2, 1), hidden=(16, 16), beta=1.0)
    settings = hm.training.TrainingSettings(
        12_800, batch=64, learning_rate=1e-2, train_size=2000, checkpoints=(0, 3200, 12_800)
    )
    target = {"name": "pairwise", "D": 1, "d": 2, "seed": 0}
    return hm.training.train(hm.training.Job(target, shape, settings))


@pytest.fixture(scope="module")
def course(trained):
    return hm.along_training(trained, rng=4)


def test_along_a_training_of_ours_every_number_is_that_of_its_checkpoint(trained, course):
    assert course.steps.tolist() == [0, 3200, 12_800]
    X = hm.training.outputs_of(trained.job.target)[0].sample(32, 6, rng=4)
    target = hm.training.outputs_of(trained.job.target)[0]
    for c, vector in enumerate(trained.checkpoint_parameters):
        model = hm.training.TrainedModel(trained.shape, vector, trained.mean, trained.scale)
        wanted = target(X)
        guess = model(X)[:, 0]
        assert course.error[c] == pytest.approx(((guess - wanted) ** 2).mean() / wanted.var(), rel=1e-4)
        flow = routed_flow(trained.shape, vector, X)
        assert course.learns[c] == flow.learns(target).share
        np.testing.assert_allclose(course.read_out_sizes[c, :, -1] * 6, flow.sizes.cls[:, -1])
        for row in measured_hardness(trained.shape, vector, X, tolerance=0.1):
            if row.layer == 2:  # CLS alone asks there: one query per text
                found = course.interval("share_within_10").mean[c, 1 + row.head]
                assert found == pytest.approx(row.share_hard)
    assert (course.cells > 0).all()


def test_events_are_where_the_share_crosses_the_threshold(course):
    values = course.values.copy()
    j = course.statistics.index("share_within_10")
    values[..., j] = 0.0
    values[1:, :, 0, j] = 0.9  # from the second checkpoint on
    values[0, :, 1, j] = 1.0  # hard at first, then soft
    values[2, :, 2, j] = np.linspace(0.0, 1.02, 32)  # about half, not sure
    made = hm.models.AlongTraining(**{**vars_of(course), "values": values})
    told = [(event.step, event.layer, event.head, event.what, event.sure) for event in made.events]
    assert told == [
        (0, 0, 1, "hard", True),
        (3200, 0, 0, "hard", True),
        (3200, 0, 1, "soft", True),
        (12_800, 1, 0, "hard", False),
    ]
    assert made.became_hard() == {(0, 0): 3200, (0, 1): None, (1, 0): 12_800}


def vars_of(result):
    return {field.name: getattr(result, field.name) for field in fields(result)}


def test_a_course_is_saved_tabled_and_drawn(course, trained, tmp_path):
    again = hm.load(course.save(tmp_path / "course.npz"))
    np.testing.assert_array_equal(again.values, course.values)
    assert len(again.to_frame()) == 3 * 3
    assert len(again.plot().figure.axes) == 5
    resumed = hm.along_training(trained, rng=4, checkpoint=tmp_path / "run")
    once_more = hm.along_training(trained, rng=4, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(resumed.values, course.values)
    np.testing.assert_array_equal(once_more.cells, course.cells)


def test_what_is_no_training_is_said(trained):
    with pytest.raises(InvalidInputError, match="must be a list of models"):
        hm.along_training("checkpoint-1", TEXTS)
    with pytest.raises(InvalidInputError, match="checkpoints must hold at least one"):
        hm.along_training([], TEXTS)
    with pytest.raises(InvalidInputError, match="in the order of their steps"):
        hm.along_training(["checkpoint-20", "checkpoint-3"], TEXTS)
    with pytest.raises(InvalidInputError, match="hard must be above 0"):
        hm.along_training(trained, hard=0)


@torch_missing
def test_along_folders_and_on_the_command_line(tmp_path):
    from click.testing import CliRunner
    from safetensors.torch import load_file, save_file
    from tiny_models import tiny_folder

    from hardmax.cli import main

    for step, factor in ((5, 0.01), (100, 60.0)):
        folder = tiny_folder(tmp_path / f"checkpoint-{step}", "gpt2")
        (file,) = folder.glob("*.safetensors")
        tensors = load_file(file)
        (name,) = [key for key in tensors if key.endswith("h.0.attn.c_attn.weight")]
        tensors[name][:, : tensors[name].shape[1] // 3] *= factor  # queries of the first layer
        tensors[name.replace("weight", "bias")][: tensors[name].shape[1] // 3] *= factor
        save_file(tensors, file, metadata={"format": "pt"})
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS))
    folders = [str(tmp_path / f"checkpoint-{step}") for step in (100, 5)]
    run = CliRunner().invoke(
        main,
        ["along-training", *folders, "--texts", str(tmp_path / "lines.txt"), "--cells", "1", "--json"],
    )
    assert run.exit_code == 0, run.output
    found = json.loads(run.output)
    assert found["steps"] == [5, 100]
    named = [
        str((tmp_path / f"checkpoint-{step}").rename(tmp_path / name))
        for step, name in ((5, "v2-start"), (100, "v2-end"))
    ]
    texts = ["--texts", str(tmp_path / "lines.txt"), "--cells", "0"]
    run = CliRunner().invoke(main, ["along-training", *named, *texts])  # names that are no steps: as given
    assert "step 1: layer 0, head 0 becomes hard (" in run.output
    assert "step 0: layer 0" not in run.output
    assert "from layer 0, head 0 to layer 2, head 3." in run.output
    assert "enough" not in run.output  # there is no task
    for name, step in (("v2-start", 5), ("v2-end", 100)):
        (tmp_path / name).rename(tmp_path / f"checkpoint-{step}")
    first = [event for event in found["events"] if event["layer"] == 0]
    assert {(event["step"], event["what"], event["sure"]) for event in first} == {(100, "hard", True)}
    assert len(first) == found["layer"].count(0)
    run = CliRunner().invoke(main, ["compare", *folders, "--texts", str(tmp_path / "lines.txt"), "--json"])
    assert run.exit_code == 0, run.output
    assert {one["layer"] for one in json.loads(run.output)["direct"]} == {0}
    run = CliRunner().invoke(main, ["compare", *folders, "--texts", str(tmp_path / "lines.txt")])
    assert "Differences direct: with the inputs of A" in run.output
    run = CliRunner().invoke(main, ["compare", *folders])
    assert run.exit_code == 2
    for command in ("atlas", "influence"):
        extra = ["--probes", "0"] if command == "influence" else []
        run = CliRunner().invoke(
            main,
            [command, folders[0], "--texts", str(tmp_path / "lines.txt"), *extra]
            + ["--checkpoint", str(tmp_path / command)],
        )
        assert run.exit_code == 0, run.output
        assert "95 % intervals over texts (Student's t)" in run.output
        assert len(list((tmp_path / command).glob("*.npz"))) == len(TEXTS)
