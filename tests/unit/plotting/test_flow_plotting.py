"""Pictures of flows, rules and comparison trees (P2 figures 5, 3 and 2): they show what was computed."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import Circle, FancyArrowPatch
from oracles.appendix_e import appendix_e

import hardmax as hm
from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.plotting.comparison_trees import draw_tree, draw_trees
from hardmax.plotting.flows import COLOURS, draw_flow, draw_reading, draw_rules
from hardmax.plotting.style import new_figure
from hardmax.targets.comparison_trees import ComparisonTree


def words(axes):
    return [text.get_text() for text in axes.texts]


def colours(axes):
    from matplotlib.colors import to_hex

    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    return [to_hex(arrow.get_edgecolor()).upper() for arrow in arrows]


def test_figure_5():
    axes = draw_flow(appendix_e(-1), active=np.array([True, False, True, False]))
    assert words(axes) == [
        "x1\n{1}", "x2\n{2}", "x3\n{3}", "x4\n{4}", "CLS\n∅",
        "x1\n{1, 3}", "x2\n{2, 4}", "x3\n{1, 3}", "x4\n{3, 4}", "CLS\n∅",
        "CLS\n{1, 3}",
    ]  # fmt: skip
    assert axes.get_title() == "CLS holds {x1, x3}: all that the target needs"
    assert colours(axes).count(COLOURS["head"]) == 5  # four tokens and CLS
    assert colours(axes).count(COLOURS["own"]) == 4
    assert [label.get_text() for label in axes.get_yticklabels()] == ["input", "layer 1", "layer 2"]
    failed = draw_flow(appendix_e(+1), active=np.array([True, False, True, False]))
    assert failed.get_title() == "CLS holds {x1}, misses {x3}"


def test_a_flow_plots_itself_and_saves_the_same_bytes(tmp_path):
    flow = appendix_e(-1)
    for name in ("a.svg", "b.svg"):
        flow.plot().figure.savefig(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    axes = new_figure(4, 3).add_subplot()
    assert flow.plot(ax=axes) is axes
    with pytest.raises(InvalidInputError, match="a flow is drawn whole"):
        flow.plot(box=hm.Box.cube(2, 0, 1))


def test_every_kind_of_reading_has_its_colour():
    plan = hm.Plan(
        [
            {"tokens": [hm.Positions([0], residual=False)], 1: [hm.GlobalRead()]},
            {"cls": [hm.Positions([1], prune=(0,))]},
        ]
    )
    axes = draw_flow(hm.information_sets(hm.Architecture(3, 1, (1, 1), 1), plan, np.zeros((2, 3, 1))))
    assert colours(axes) == [COLOURS["position"], *[COLOURS["all"]] * 3, *[COLOURS["position"]] * 2]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["fixed position", "all input tokens", "in part"]


def test_many_tokens_are_dots_and_too_many_are_refused():
    plan = hm.Plan([{"cls": [hm.GlobalRead()]}])
    axes = draw_flow(hm.information_sets(hm.Architecture(20, 1, (1,), 1), plan, np.zeros((1, 20, 1))))
    assert len(axes.lines) == 20
    assert words(axes)[-1] == "CLS\n{1, …, 20}"
    long = hm.information_sets(hm.Architecture(41, 1, (1,), 1), plan, np.zeros((1, 41, 1)))
    with pytest.raises(InvalidInputError, match="at most 40 tokens"):
        draw_flow(long)
    with pytest.raises(DimensionMismatchError, match=r"active must have the shape \(41,\)|\(4,\)"):
        draw_flow(appendix_e(-1), active=np.zeros(3, dtype=bool))


def test_figure_3():
    figure = draw_rules(4, token=2, winner=0, positions=(0, 1))
    first, second, third = figure.axes
    assert words(first) == ["x1", "x2", "x3", "x4", "x3′", "argmax", "residual"]
    assert words(second)[-1] == "all positions"
    assert words(third)[-1] == "fixed positions"
    for axes, read in [(first, 2), (second, 4), (third, 2)]:
        solid = [p for p in axes.patches if isinstance(p, FancyArrowPatch) and p.get_linewidth() > 1]
        assert len(solid) == read
        assert len([p for p in axes.patches if isinstance(p, Circle)]) == 5


def test_a_reading_that_is_not_there():
    flow = appendix_e(-1)
    assert "CLS′" in words(draw_reading(flow, 4, layer=2))
    for token, layer in [(0, 2), (5, 1), (0, 0), (0, 3)]:
        with pytest.raises(InvalidInputError, match=f"layer {layer} has no token {token}"):
            draw_reading(flow, token, layer=layer)
    wide = hm.information_sets(hm.Architecture(17, 1, (1,), 1), hm.Plan([{}]), np.zeros((1, 17, 1)))
    with pytest.raises(InvalidInputError, match="at most 16 tokens"):
        draw_reading(wide, 17)


def test_figure_2():
    leaves = ((0,), (1,), (2,), (3,))
    x = [[0.1], [0.3], [0.4], [0.2]]
    trees = [
        ComparisonTree(leaves, (lambda k: k[:, 0, 0],)),
        ComparisonTree(leaves, (lambda k: -k[:, 0, 0],)),
    ]
    figure = draw_trees(trees, x, ["maximum", "minimum"])
    assert [words(axes) for axes in figure.axes] == [
        ["{1}", "{2}", "{3}", "{4}", "{2}", "{3}", "{3}"],
        ["{1}", "{2}", "{3}", "{4}", "{1}", "{4}", "{1}"],
    ]
    assert [axes.get_title() for axes in figure.axes] == ["maximum", "minimum"]


def test_trees_of_any_shape():
    uneven = ComparisonTree(((0, 1), (2,), (1, 2), (0,), (3,)), (lambda k: k.sum((1, 2)),))
    axes = draw_tree(uneven, [[1.0], [5.0], [2.0], [9.0]])
    assert axes.get_title() == "root {4}"
    assert uneven([[[1.0], [5.0], [2.0], [9.0]]]).tolist() == [[3, -1]]
    nodes = np.array([[1, 0, 1], [3, 2, 0]])  # the smaller of the first two, then the larger
    listed = ComparisonTree(((0,), (1,), (2,)), (lambda k: k[:, 0, 0], lambda k: -k[:, 0, 0]), nodes)
    assert words(draw_tree(listed, [[3.0], [4.0], [1.0]]))[3:] == ["{1}", "{1}"]
    single = draw_tree(ComparisonTree(((1, 0),), (len,)), [[0.0], [0.0]])
    assert words(single) == ["{2, 1}"]


def test_trees_that_cannot_be_drawn():
    wide = ComparisonTree(tuple((t,) for t in range(33)), (lambda k: k[:, 0, 0],))
    with pytest.raises(InvalidInputError, match="at most 32 leaves, but has 33"):
        draw_tree(wide, np.zeros((33, 1)))
    with pytest.raises(InvalidInputError, match="x must be one sequence"):
        draw_tree(ComparisonTree(((2,),), (len,)), np.zeros((2, 1)))
    with pytest.raises(InvalidInputError, match="at least one tree"):
        draw_trees([], np.zeros((2, 1)))
    with pytest.raises(InvalidInputError, match="titles must name 1 trees"):
        draw_trees([ComparisonTree(((0,),), (len,))], np.zeros((2, 1)), [])


def test_the_root_that_is_drawn_is_the_one_that_the_tree_finds():
    (tree,) = hm.targets.kth_largest(2).trees(5)
    for x in np.random.default_rng(0).uniform(size=(5, 5, 1)):
        assert draw_tree(tree, x).get_title() == f"root {{{tree(x[None])[0, 0] + 1}}}"
