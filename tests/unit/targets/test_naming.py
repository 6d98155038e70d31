"""Targets by name: the same ones as by their functions, and a sentence for what is none."""

from __future__ import annotations

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("retrieval:3", hm.targets.retrieval(3)),
        ("kth-largest:2", hm.targets.kth_largest(2)),
        ("position-sum:0,2", hm.targets.position_sum([0, 2])),
        ("triangle-center", hm.targets.triangle_center()),
        ("depth-separation", hm.targets.depth_separation()),
        ("pairwise:2", hm.targets.pairwise(np.random.default_rng(0).standard_normal((2, 4, 4)))),
    ],
)
def test_a_name_is_the_function(text, made):
    X = made.sample(20, 5, 1)
    named = hm.targets.named(text)
    assert (named(X) == made(X)).all()
    assert repr(named) == repr(made)


def test_verbs_take_names():
    target = hm.targets.named("pairwise:2")
    assert hm.advise("pairwise:2", 16).to_dict() == hm.advise(target, 16).to_dict()
    shape = hm.Architecture(16, 4, (2, 2), 16)
    assert hm.estimate_cost("pairwise:2", shape).upper == hm.estimate_cost(target, shape).upper


def test_pairwise_takes_matrices_instead_of_a_number():
    stack = np.random.default_rng(5).standard_normal((2, 3, 3))
    X = np.random.default_rng(6).standard_normal((4, 5, 3))
    for given in (stack, {"A": stack[0], "B": stack[1]}):
        assert (hm.targets.named("pairwise", matrices=given)(X) == hm.targets.pairwise(stack)(X)).all()


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (3, {}, "must be a Target or a text, but was a int"),
        ("retrievl:3", {}, r"no target \(did you mean retrieval\?\)"),
        ("pairwise", {}, "must be followed by a number"),
        ("pairwise:2", {"matrices": np.ones((1, 2, 2))}, "either a number or matrices"),
        ("retrieval:1", {"matrices": np.ones((1, 2, 2))}, "matrices belong to pairwise"),
        ("triangle-center:2", {}, "takes no number"),
        ("position-sum:a", {}, "separated by commas"),
    ],
)
def test_what_is_no_target_gets_one_sentence(text, options, words):
    with pytest.raises(InvalidInputError, match=words):
        hm.targets.named(text, **options)
