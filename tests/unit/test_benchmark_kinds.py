"""The networks of ``make bench`` compute what their names say, and ``compare.py`` notices what it should."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hardmax as hm
from benchmarks import compare, kinds
from hardmax.flow.theorems.codes import analog_code, binary_code


def points(count=200, d=2, side=4.0):
    return np.random.default_rng(3).uniform(-side, side, (count, d))


@pytest.mark.parametrize("functions", [4, 8])
def test_a_lattice_is_a_maximum_of_minima(functions):
    slopes, offsets = kinds.affine_functions(functions)
    chosen = np.random.default_rng(1).integers(0, functions, functions**2)
    values = (points() @ slopes.T + offsets)[:, chosen].reshape(-1, functions, functions)
    network = kinds.lattice(functions)
    assert np.allclose(network(points())[:, 0], values.min(axis=2).max(axis=1))
    widths = [network.blocks[0].d_out, *(block.width for block in network.blocks[1:])]
    n = functions**2
    assert widths == [n, *(2 * n >> i for i in range(n.bit_length() - 1))]


def test_a_pairwise_lattice_is_the_second_largest():
    slopes, offsets = kinds.affine_functions(8)
    values = np.sort(points() @ slopes.T + offsets, axis=1)
    assert np.allclose(kinds.pairwise_lattice(8)(points())[:, 0], values[:, -2])


def test_a_sorting_network_sorts_integers_exactly():
    network = kinds.sorting_network(8)
    x = np.random.default_rng(0).integers(-9, 10, (100, 2)).astype(float)
    read = network.blocks[0]
    assert (network(x) == np.sort(x @ read.w.floats.T + read.b.floats, axis=1)).all()


@pytest.mark.parametrize("code", [binary_code(2, 1, 0.125), analog_code(4, 2, 1 / 32)])
def test_a_code_as_a_network(code):
    x = np.random.default_rng(0).random((300, code.m))
    assert np.allclose(kinds.code_network(code)(x), code(x))


def test_the_classifiers_classify():
    x, labels = kinds.two_moons(seed=5)
    plain = kinds.trained_moons()
    others = [
        kinds.sparse_moons(),
        kinds.pruned(plain),
        kinds.moons(batch_norm=True),
        kinds.quantised(plain, 8),
    ]
    for layers in (plain, *others):
        assert ((hm.Network.mlp(layers)(x) > 0) == (labels == 1)).mean() > 0.97
    assert all((w == 0).mean() > 0.75 for w, _ in kinds.pruned(plain))


@pytest.mark.parametrize(("bits", "levels"), [(8, 255), (4, 15)])
def test_quantised_weights_are_integers_times_one_number(bits, levels):
    for (w, _), (grid, biases) in zip(
        kinds.trained_moons(), kinds.quantised(kinds.trained_moons(), bits), strict=True
    ):
        step = float(np.float32(np.abs(w).max() / (levels // 2)))
        assert len(np.unique(grid)) <= levels
        assert ((grid / step) % 1 == 0).all()
        assert ((biases / step) % 1 == 0).all()


def test_units_only_change_what_inputs_are_measured_in():
    x = points(50, 4, 1.0)
    plain, measured = kinds.controller(), kinds.controller(kinds.PHYSICAL)
    assert np.allclose(plain(x), measured(kinds.PHYSICAL.zero + kinds.PHYSICAL.one * x))
    kind = next(kind for kind in kinds.kinds() if kind.name == "controller 6x50, 3-D, physical units")
    network, domain = kind.question(measured)
    corner = np.concatenate([[0.1, -0.2, 0.15] + kind.domain.high.floats, [0.05]])
    assert np.allclose(network(domain.high.floats), plain(corner))


def shape(block):
    """Dimensions, units, heads and keys per head: equal keys count, which the forward pass merges."""
    return block.d_in, block.d_out, block.width, block.heads, getattr(block, "n_tokens", 0)


def test_random_networks_have_the_same_shape():
    for kind in kinds.kinds():
        if not kind.name.startswith(
            ("lattice of 32", "weight", "batch", "deep", "digits")
        ):  # large, or trained
            made = kind.make()
            other = kinds.random_like(made)
            assert [shape(block) for block in other.blocks] == [shape(block) for block in made.blocks]
    widths = [2, 8, 8, 1]
    same = hm.Network.random_mlp(widths, 0)
    assert (kinds.random_like(same)(points()) == same(points())).all()


def line(name="int4", **changes):
    held = {
        "name": name, "digest": "a", "cells": 10, "complete": True, "ratio_to_forward": 2.0,
        "ratio_to_random": 3.0,
    }  # fmt: skip
    return held | changes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "same"),
        ({"ratio_to_forward": 3.0}, "slower"),
        ({"ratio_to_forward": 1.0}, "faster"),
        ({"ratio_to_random": 9.0}, "same"),
        ({"complete": False, "cells": 3}, "stopped"),
        ({"digest": "b", "cells": 11}, "another network"),
    ],
)
def test_verdicts(changes, said):
    assert compare.verdict(line(), line(**changes), "ratio_to_forward", 1.3) == said


def test_comparing_files(tmp_path, capsys):
    def written(name, *lines):
        path = tmp_path / name
        path.write_text(json.dumps({"schema": 1, "versions": {}, "kinds": lines}))
        return str(path)

    before = written("before.json", line(), line("ternary"))
    assert compare.main([before, before]) == 0
    assert compare.main([before, written("fewer.json", line())]) == 1
    assert compare.main([before, written("wrong.json", line(cells=11), line("ternary"))]) == 1
    behind = written("behind.json", line(ratio_to_random=5.0), line("ternary"))
    assert compare.main([before, behind]) == 0
    assert compare.main([before, behind, "--by", "random"]) == 1
    assert "kinds that are worse: 1" in capsys.readouterr().out
