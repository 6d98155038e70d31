"""``hardmax boundary``: pieces, distances of data points, planes through three points, wrong input."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: object, command: str = "boundary"):
    return CliRunner().invoke(main, [command, *(str(arg) for arg in args)])


def answer(*args: object):
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*args: object, command: str = "boundary") -> str:
    result = run(*args, command=command)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert result.stderr.startswith("hardmax: ")
    return result.stderr


@pytest.fixture
def diamond(elsewhere):
    units = [[1, 0], [-1, 0], [0, 1], [0, -1]]
    return hm.Network.mlp([(units, None), ([[-1, -1, -1, -1]], [1])]).save(elsewhere / "diamond.npz").name


def test_the_pieces_of_a_diamond(diamond):
    told = answer(diamond, "--box", -2, 2)
    assert told["n_pieces"] == 4
    assert told["total_size"] == pytest.approx(4 * 2**0.5)
    assert told["classes"] == [[0, 1]] * 4
    assert {tuple(map(Fraction, v)) for piece in told["exact_vertices"] for v in piece} == {
        (1, 0), (-1, 0), (0, 1), (0, -1),
    }  # fmt: skip
    table = run(diamond, "--box", -2, 2).stdout.splitlines()
    assert table[0] == "decision boundary: 4 pieces, length 5.65685, 2 decision regions, complete, exact"
    assert len(table) == 6
    assert answer(diamond, "--box", -2, 2, "--exact")["exact_vertices"] == told["exact_vertices"]


def test_distances_of_points(diamond):
    Path("points.csv").write_text("x,y,label\n1/4,0,1\n0,3/2,0\n")
    told = answer(diamond, "--box", -2, 2, "--points", "points.csv", "--distance", "--norm", "2")["distances"]
    assert [one["exact"] for one in told] == ["9/32", "1/4"]
    assert [one["certain"] for one in told] == [True, True]
    assert [(one["class_here"], one["class_beyond"]) for one in told] == [(1, 0), (0, 1)]
    table = run(diamond, "--box", -2, 2, "--points", "points.csv", "--distance", "--norm", "inf").stdout
    assert "norm inf" in table.splitlines()[0]
    Path("far.csv").write_text("0,1.75\n")
    table = run(diamond, "--box", -2, 2, "--points", "far.csv", "--distance").stdout
    assert "at least 0.25: the domain ends there" in table


def test_pictures_and_files(diamond):
    Path("points.csv").write_text("0.25,0,1\n0,1.5,0\n")
    where = (diamond, "--box", -2, 2)
    result = run(*where, "--points", "points.csv", "--plot", "d.png", "--out", "d.npz")
    assert result.exit_code == 0, result.output
    assert Path("d.png").read_bytes().startswith(b"\x89PNG")
    assert run("d.npz").stdout == run(*where).stdout
    assert "is a saved result" in refused("d.npz", "--box", -1, 1)
    for colour in ("class", "output", "cell"):
        drawn = run(
            *where, "--colour", colour, "--points", "points.csv", "--plot", "r.svg", command="regions"
        )
        assert drawn.exit_code == 0, drawn.output


def test_the_plane_through_three_images():
    """The numbers of docs/decision-boundaries.md, from the files beside the examples."""
    images = np.load(ROOT / "examples" / "digit_images.npy")
    np.save("images.npy", images)
    net = hm.load(ROOT / "examples" / "digits.npz")
    assert net(images).argmax(axis=1).tolist() == [3, 5, 8]
    told = answer(ROOT / "examples" / "digits.npz", "--through", "images.npy", "--polygon", _square(-2, 5))
    assert (told["n_pieces"], told["n_decision_regions"]) == (48, 7)
    assert told["total_size"] == pytest.approx(17.1285, abs=1e-4)
    plane = net.plane_through(*images)
    assert told["plane_points"] == [[str(v) for v in point] for point in plane.exact_points]
    points = [np.array([Fraction(v) for v in point], dtype=object) for point in told["plane_points"]]
    values = [plane.network.exact_value(point) for point in points]
    assert values == [net.exact_value(image) for image in images]
    around = answer(ROOT / "examples" / "digits.npz", "--through", "images.npy")
    assert around["n_pieces"] > 0
    again = run(
        ROOT / "examples" / "digits.npz", "--through", "images.npy", "--points", "images.npy", "--distance"
    )
    assert [line.split()[-1] for line in again.stdout.splitlines()[2:]], again.output
    cells = run(
        ROOT / "examples" / "digits.npz", "--through", "images.npy", "--colour", "class", "--plot", "p.png",
        command="regions",
    )  # fmt: skip
    assert cells.exit_code == 0, cells.output


def test_an_onnx_file_on_the_plane_through_three_points():
    """Through the corners of the unit square the plane is the whole input: cells are where they were."""
    pytest.importorskip("onnx")
    moons = ROOT / "examples" / "moons.onnx"
    Path("points.csv").write_text("0,0\n1,0\n0,1\n")
    plain = json.loads(run(moons, "--box", -2, 3, "--json", command="regions").stdout)
    told = json.loads(
        run(moons, "--through", "points.csv", "--box", -2, 3, "--json", command="regions").stdout
    )
    assert told["n_cells"] == plain["n_cells"] == 406
    assert sum(told["volumes"]) == pytest.approx(25)
    assert sorted(told["volumes"]) == pytest.approx(sorted(plain["volumes"]), rel=1e-6, abs=1e-12)
    Path("moved.csv").write_text("x,y\n2,1\n2,3/2\n0,1/4\n")  # turned and moved: look around the points
    around = run(moons, "--through", "moved.csv", "--json", command="regions")
    assert around.exit_code == 0, around.output
    plane = hm.Network.from_onnx(moons).plane_through([2, 1], [2, 1.5], [0, 0.25])
    points = np.array([[Fraction(v) for v in p] for p in json.loads(around.stdout)["plane_points"]])
    assert (points == np.array(plane.exact_points)).all()
    values = [plane.network.exact_value(point) for point in points]
    net = hm.Network.from_onnx(moons)
    assert values == [net.exact_value([Fraction(v) for v in p]) for p in ([2, 1], [2, 1.5], [0, 0.25])]
    answered = answer(moons, "--through", "moved.csv", "--points", "moved.csv", "--distance", "--norm", "2")
    for given, one in zip(([2, 1], [2, 1.5], [0, 0.25]), answered["distances"], strict=True):
        assert one["class_here"] == int(net(given).argmax())  # two columns are inputs, where inputs have two
    Path("short.csv").write_text("0,0\n1,0\n")
    assert "must hold three points" in refused(moons, "--through", "short.csv", command="regions")


def test_the_commands_of_the_page_print_what_it_says():
    """The blocks of docs/decision-boundaries.md, pipes to `head` and `printf` included."""
    pytest.importorskip("onnx")
    page = (ROOT / "docs" / "decision-boundaries.md").read_text()
    blocks = re.findall(r"```console\n((?:\$ printf .*\n)?)\$ hardmax (.*)\n((?:.*\n)*?)```", page)
    assert len(blocks) == 2
    for made, command, printed in blocks:
        for text, name in re.findall(r"\$ printf '(.*)' > (\S+)", made):
            Path(name).write_text(text.replace("\\n", "\n"))
        words, _, head = command.partition(" | head -")
        args = [ROOT / word if word.startswith("examples/") else word for word in words.split()]
        lines = run(*args[1:], command=args[0]).stdout.splitlines()
        assert [line.rstrip() for line in lines[: int(head) if head else None]] == printed.splitlines()


def _square(low: int, high: int) -> str:
    Path("square.csv").write_text(f"{low},{low}\n{high},{low}\n{high},{high}\n{low},{high}\n")
    return "square.csv"


def test_wrong_input_gets_one_sentence(diamond):
    where = (diamond, "--box", -2, 2)
    assert "add --points FILE" in refused(*where, "--distance")
    assert "one of --box LOW HIGH" in refused(diamond)
    Path("wide.csv").write_text("1,2,3,4\n")
    assert "must have 2 numbers on every line" in refused(*where, "--points", "wide.csv")
    Path("labels.csv").write_text("1,1,0.5\n")
    assert "whole numbers from 0 on" in refused(*where, "--points", "labels.csv")
    Path("outside.csv").write_text("9,9\n")
    assert "must lie in the domain" in refused(*where, "--points", "outside.csv", "--distance")
    Path("two.csv").write_text("1,1\n2,2\n")
    assert "must hold three points" in refused(diamond, "--through", "two.csv")
    Path("line.csv").write_text("1,1\n2,2\n3,3\n")
    assert "must not lie on one line" in refused(diamond, "--through", "line.csv")
    assert "leave one out" in refused(diamond, "--through", "line.csv", "--slice", "0,0:1,0")
    assert "belongs to --plot" in refused(*where, "--points", "two.csv", command="regions")
    assert "colour must be one of" in refused(
        *where, "--colour", "pink", "--plot", "x.png", command="regions"
    )
    assert "there is no such file" in refused("no_such.npz", "--box", 0, 1)
