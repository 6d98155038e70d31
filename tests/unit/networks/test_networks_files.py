"""Saved networks: every number comes back, and a file that is not one is refused in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from fractions import Fraction

import numpy as np
import pytest

from hardmax.errors import FileFormatError
from hardmax.exact.products import ExactProduct
from hardmax.networks.blocks import Affine, Attention, FeedForward
from hardmax.networks.network import Network
from hardmax.results import load

third = Fraction(1, 3)


def examples():
    rng = np.random.default_rng(0)
    heads = [rng.standard_normal((3, 2)), rng.standard_normal((1, 2))]
    mask = [[True, False, True], [True]]
    ragged = Attention(heads, None, [rng.standard_normal((3, 2)), rng.standard_normal((1, 2))], mask=mask)
    exact = FeedForward([[third, 1]], [Fraction(1, 7)], [[1], [2**70 + 1]], None, skip=True)
    context, maps, back = rng.standard_normal((4, 3)), rng.standard_normal((2, 2, 3)), np.ones((2, 2, 2))
    queries = rng.standard_normal((2, 2, 2))
    real = Attention.from_weights(context, queries, maps, maps, back, b_Q=np.ones((2, 2)), scale=third)
    return {
        "random": Network.random(2, n_tokens=3, heads=2, depth=2, d_ff=4, rng=5),
        "rank": Network.random(3, n_tokens=3, heads=2, depth=1, d_ff=4, rng=5, d_head=1),
        "mlp": Network.random_mlp([2, 3, 3, 1], 0),
        "affine": Network([Affine([[third, 0.1]], [2.5])]),
        "all": Network([Affine(np.eye(2)), ragged, exact, real]),
    }


@pytest.mark.parametrize("name", examples())
def test_every_number_comes_back(name, tmp_path):
    net = examples()[name]
    again = load(net.save(tmp_path / "net.npz"))
    assert isinstance(again, Network)
    assert repr(again) == repr(net)
    assert again.description == net.description
    assert again.provenance == net.provenance
    for before, after in zip(net.blocks, again.blocks, strict=True):
        assert repr(after) == repr(before)
        for field in vars(before):
            one, other = getattr(before, field), getattr(after, field)
            if hasattr(one, "floats"):
                assert type(other) is type(one)
                assert np.array_equal(other.floats, one.floats)
                assert (one.fractions is None) == (other.fractions is None)
                assert one.fractions is None or one.fractions.tolist() == other.fractions.tolist()
            elif field in ("mask", "skip"):
                assert np.array_equal(one, other)
    x = np.random.default_rng(0).standard_normal((10, net.d))
    assert np.array_equal(again(x), net(x))


def test_saving_does_not_multiply_weights_out(tmp_path):
    net = examples()["all"]
    path = net.save(tmp_path / "net.npz")
    product = net.blocks[3].scores
    assert isinstance(product, ExactProduct)
    assert "_products" not in vars(product)
    factors = [name for name in zipfile.ZipFile(path).namelist() if "factors" in name]
    block = net.blocks[3]
    chains = [chain for array in (block.scores, block.biases, block.outputs) for chain in array.chains]
    assert len(factors) == len({id(factor) for chain in chains for factor in chain})


def test_a_network_is_loaded_in_a_fresh_process(tmp_path):
    """Its class is found although nothing of its package is imported yet."""
    path = examples()["mlp"].save(tmp_path / "net.npz")
    code = f"import hardmax; print(hardmax.load({str(path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "<Network: 2 -> 1, 2 blocks, 6 units>"


def test_tables_and_plain_values():
    net = examples()["all"]
    assert net.to_dict()["blocks"][2]["w_in"] == [["1/3", "1"]]
    assert "Attention" in net._repr_html_()
    pandas = pytest.importorskip("pandas")
    frame = net.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["block"].tolist() == ["Affine", "Attention", "FeedForward", "Attention"]
    assert frame["skip"].tolist() == [False, True, True, True]


def damaged(path, change):
    """Rewrite the header of a saved file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    change(header)
    members["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def without(*keys):
    def change(header):
        part = header["state"]
        for key in keys[:-1]:
            part = part[key]
        del part[keys[-1]]

    return change


def replaced(value, *keys):
    def change(header):
        part = header["state"]
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value

    return change


FRACTIONS = {"@": "fractions", "shape": [1, 2]}

CHANGES = {
    "no blocks": without("blocks"),
    "no description": without("description"),
    "description of another type": replaced(3, "description"),
    "blocks of another type": replaced(3, "blocks"),
    "an empty network": replaced([], "blocks"),
    "a block without scores": without("blocks", 1, "scores"),
    "a block without skip": without("blocks", 1, "skip"),
    "a skip that is no truth value": replaced("yes", "blocks", 1, "skip"),
    "a block of unknown kind": replaced("Convolution", "blocks", 0, "block"),
    "a matrix that does not fit": replaced(FRACTIONS | {"values": ["1", "2"]}, "blocks", 0, "w"),
    "a fraction that is none": replaced(FRACTIONS | {"values": ["1/0", "1"]}, "blocks", 2, "w_in"),
    "words for numbers": replaced([["a", "b"]], "blocks", 2, "w_in"),
    "not finite": replaced([[{"@": "float", "value": "nan"}, 1]], "blocks", 2, "w_in"),
    "a chain of factors that are not there": replaced([[0, 99]], "blocks", 3, "scores", "chains"),
    "scales missing": without("blocks", 3, "scores", "scales"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_damaged_file_is_refused(name, tmp_path):
    path = examples()["all"].save(tmp_path / "net.npz")
    damaged(path, CHANGES[name])
    with pytest.raises(FileFormatError, match=r"net\.npz"):
        load(path)


def test_cut_and_foreign_files_are_refused(tmp_path):
    path = examples()["all"].save(tmp_path / "net.npz")
    data = path.read_bytes()
    for length in (0, 10, len(data) // 2, len(data) - 10):
        path.write_bytes(data[:length])
        with pytest.raises(FileFormatError):
            load(path)
    np.savez(path, w=np.eye(2))
    with pytest.raises(FileFormatError, match="not a saved hardmax result"):
        load(path)


def test_every_flipped_byte_is_noticed_or_harmless(tmp_path):
    path = examples()["mlp"].save(tmp_path / "net.npz")
    data = bytearray(path.read_bytes())
    for place in range(0, len(data), 7):
        changed = bytearray(data)
        changed[place] ^= 0x55
        path.write_bytes(changed)
        try:
            again = load(path)
        except FileFormatError:
            continue
        assert np.array_equal(again([[0.5, 1.0]]), examples()["mlp"]([[0.5, 1.0]]))
