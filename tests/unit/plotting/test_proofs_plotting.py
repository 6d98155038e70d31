"""Pictures of proofs: the boxes of the leaves cover the inputs, and the colours say what closes them."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

import hardmax as hm
from hardmax.errors import InvalidInputError, UnsupportedDimensionError

SQUARE = hm.Box.cube(2, -1, 1)


def boxes_of(axes):
    """The corners and the colours of the boxes that were drawn."""
    (drawn,) = (found for found in axes.collections if isinstance(found, PolyCollection))
    corners = np.array([path.vertices[:4] for path in drawn.get_paths()])
    return corners.min(axis=1), corners.max(axis=1), [to_hex(colour) for colour in drawn.get_facecolors()]


def networks():
    relu = hm.Network.random_mlp([2, 16, 16, 1], 3)
    heads = hm.Network.random(2, n_tokens=4, heads=2, depth=1, d_ff=4, rng=1)
    return {"relu": relu, "heads": heads, "top-2": heads.with_rule("top-k", k=2)}


@pytest.mark.parametrize("name", ["relu", "heads", "top-2"])
def test_the_boxes_of_a_proof_cover_the_domain_without_overlap(name):
    network = networks()[name]
    bound = hm.maximise(network, 0, SQUARE).value + 0.01
    found = hm.verify(network, f"y0 <= {bound}", SQUARE)
    assert found.verdict == "holds"
    low, high, _ = boxes_of(found.certificate.plot())
    assert np.prod(high - low, axis=1).sum() == pytest.approx(4.0)
    points = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
    inside = ((points[:, None] > low) & (points[:, None] < high)).all(axis=2)
    assert (inside.sum(axis=1) == 1).all()


def test_a_box_has_the_colour_of_what_closes_it():
    easy = hm.verify(networks()["relu"], "y0 <= 1000", SQUARE).certificate
    axes = easy.plot()
    assert axes.get_title() == "1 leaf"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one bound"]
    tight = hm.maximise(networks()["relu"], 0, SQUARE).certificate
    kinds = {proof[0] for proofs, _ in tight.record["data"]["trees"][0] for proof in proofs}
    colours = boxes_of(tight.plot())[2]
    assert (("e" in kinds), len(set(colours)) > 1) == (True, True)


def test_what_has_no_picture_says_why():
    network = networks()["relu"]
    with pytest.raises(InvalidInputError, match="that holds"):
        hm.verify(network, "y0 <= -1000", SQUARE).certificate.plot()
    line = hm.Network.random_mlp([3, 4, 1], 0)
    with pytest.raises(UnsupportedDimensionError, match="here 3 do"):
        hm.verify(line, "y0 <= 1000", hm.Box.cube(3, -1, 1)).certificate.plot()
