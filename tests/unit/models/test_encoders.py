"""BERT encoders as transformers of blocks, against torch."""

from __future__ import annotations

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import InvalidInputError, UnsupportedModelError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from click.testing import CliRunner  # noqa: E402
from tiny_models import TEXT, tiny_folder, tiny_model  # noqa: E402

from hardmax.cli import main  # noqa: E402
from hardmax.models.reading.loading import open_model  # noqa: E402


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_an_encoder_computes_what_torch_computes(tmp_path, activation):
    opened = open_model(tiny_folder(tmp_path / "bert", "bert", hidden_act=activation))
    model = hm.models.encoder_transformer(opened)
    x = hm.models.token_embeddings(opened, TEXT)
    words = opened.encode(TEXT)
    with torch.no_grad():
        want = opened.module.double()(**words).last_hidden_state[0].numpy()
    assert np.abs(model(x) - want).max() < 1e-10
    assert len(model.blocks) == 1 + 4 * opened.n_layers
    assert len(hm.models.encoder_transformer(opened, depth=1).blocks) == 5


def test_other_families_and_depths_are_refused(tmp_path):
    with pytest.raises(UnsupportedModelError, match="gpt2"):
        hm.models.encoder_transformer(tiny_model("gpt2"))
    with pytest.raises(InvalidInputError, match="depth must be from 0 to the 3 layers"):
        hm.models.encoder_transformer(tiny_model("bert"), depth=4)


def test_the_command_follows_a_model_from_one_text_to_another(tmp_path):
    folder = str(tiny_folder(tmp_path / "bert", "bert"))
    texts = "--text", "the cat sat .", "--to-text", "the dog sat ."
    result = CliRunner().invoke(main, ["trace", folder, *texts, "--depth", "1"])
    assert result.exit_code == 0, result.output
    assert "(CertifiedTrace)" in result.stdout
    assert "0 not separated" in result.stdout
    longer = CliRunner().invoke(
        main, ["trace", folder, "--text", "the cat", "--to-text", "the cat sat on a mat"]
    )
    assert longer.exit_code == 2
    assert "as many tokens" in longer.stderr
