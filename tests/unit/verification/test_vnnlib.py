"""VNN-LIB files: what they mean, what is refused, and a second reader's opinion."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import FileFormatError, InvalidInputError
from hardmax.verification import parse_vnnlib, read_vnnlib
from hardmax.verification.properties import groups_of

HEAD = (
    "(declare-const X_0 Real)\n(declare-const X_1 Real)\n(declare-const Y_0 Real)\n(declare-const Y_1 Real)\n"
)
BOX = "(assert (<= X_0 0.1)) (assert (>= X_0 -0.1))\n(assert (<= X_1 1e-1)) (assert (>= X_1 0))\n"


def test_decimals_are_exact_and_files_describe_what_must_not_be(tmp_path):
    net = hm.Network.mlp([([[1, 0], [0, 1]], None), ([[1, 0], [0, 1]], None)])
    file = tmp_path / "p.vnnlib"
    file.write_text(HEAD + BOX + "(assert (>= Y_0 0.1))\n")
    found = hm.verify(net, file)
    assert (found.verdict, found.counterexample[0]) == ("violated", Fraction(1, 10))
    file.write_text(HEAD + BOX + "(assert (> Y_0 0.1)) ; one tenth is the largest\n")
    assert hm.verify(net, str(file)).verdict == "holds"
    file.write_text(HEAD + BOX + "(assert (>= (+ Y_0 (* 2 Y_1) (- 0.05)) (/ 1 4)))\n")
    assert hm.verify(net, file).verdict == "violated"


def test_disjunctions_of_boxes():
    text = HEAD + (
        "(assert (or (and (<= X_0 1) (>= X_0 0) (= X_1 0)) (and (<= X_0 3) (>= X_0 2)"
        " (<= X_1 1) (>= X_1 0))))"
        "(assert (or (and (>= Y_0 1)) (and (<= Y_1 -1) (<= Y_0 Y_1))))"
    )
    groups = groups_of(parse_vnnlib(text), 2, 2)
    assert [(group.low, group.high, len(group.disjuncts)) for group in groups] == [
        ((0, 0), (1, 0), 2),
        ((2, 0), (3, 1), 2),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no assert"),
        ("(assert (<= X_0 1))", "not declared"),
        (HEAD + "(assert (<= X_0 1)", "never closed"),
        (HEAD + ")", "without its"),
        (HEAD + "(assert (<= (* X_0 X_1) 1))", "no linear"),
        (HEAD + "(assert (<= X_0 one))", "neither a number"),
        (HEAD + "(assert (<= X_0 1/2))", "neither a number"),
        (HEAD + "(assert (xor true false))", "no condition"),
        (HEAD + "(define-fun f () Real 1)", "no command"),
        ("(declare-const Z_0 Real)", "X_i or Y_j"),
        ("(declare-const X_0 Int)", "X_i or Y_j"),
        (HEAD + "(assert (<= X_0 1e999999))", "digits"),
        ("(" * 1000, "deep"),
        ("hello", "outside"),
    ],
)
def test_what_is_refused(tmp_path, text, words):
    with pytest.raises(InvalidInputError, match=words):
        parse_vnnlib(text)
    file = tmp_path / "p.vnnlib"
    file.write_text(text)
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_vnnlib(file)


def test_no_text(tmp_path):
    file = tmp_path / "p.vnnlib"
    file.write_bytes(bytes(range(256)))
    with pytest.raises(FileFormatError):
        read_vnnlib(file)


def test_against_the_package_vnnlib():
    """Random files of the competition's grammar: the same set, at random points."""
    compat = pytest.importorskip("vnnlib.compat")
    if not hasattr(compat, "read_vnnlib_simple"):
        pytest.skip("needs vnnlib below 1.0, which reads the grammar of the competitions")
    rng = np.random.default_rng(0)
    for _ in range(60):
        text, (n, m) = _random_file(rng)
        cases = compat.read_vnnlib_simple(_written(text), n, m)
        condition = parse_vnnlib(text)
        groups = groups_of(condition, n, m)
        for _ in range(60):
            x = rng.integers(-8, 9, n) / 4
            y = rng.integers(-8, 9, m) / 4
            theirs = any(
                all(low <= v <= high for v, (low, high) in zip(x, box, strict=True))
                and any((np.asarray(a) @ y <= np.asarray(b).ravel()).all() for a, b in outs)
                for box, outs in cases
            )
            fx, fy = [Fraction(float(v)) for v in x], [Fraction(float(v)) for v in y]
            ours = any(
                all(a <= v <= b for a, v, b in zip(g.low, fx, g.high, strict=True))
                and any(all(c.holds(fx, fy) for c in case) for case in g.disjuncts)
                for g in groups
            )
            assert ours == theirs, text


def _written(text):
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".vnnlib", delete=False) as file:
        file.write(text)
    return file.name


def _random_file(rng):
    n, m = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    lines = [f"(declare-const X_{i} Real)" for i in range(n)] + [
        f"(declare-const Y_{j} Real)" for j in range(m)
    ]

    def number():
        return str(rng.integers(-8, 9) / 4)

    for i in range(n):
        low = rng.integers(-8, 1) / 4
        lines += [f"(assert (>= X_{i} {low}))", f"(assert (<= X_{i} {low + rng.integers(0, 12) / 4}))"]

    def atom():
        sign, j = ("<=", ">=")[rng.integers(2)], rng.integers(m)
        other = number() if rng.integers(2) or m == 1 else f"Y_{(j + 1) % m}"
        return f"({sign} Y_{j} {other})"

    if rng.integers(2):
        lines += [f"(assert {atom()})" for _ in range(rng.integers(1, 3))]
    else:
        parts = " ".join(
            f"(and {' '.join(atom() for _ in range(rng.integers(1, 3)))})" for _ in range(rng.integers(1, 4))
        )
        lines.append(f"(assert (or {parts}))")
    return "\n".join(lines), (n, m)
