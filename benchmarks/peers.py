"""What hardmax answers beside what one would use instead: ``python benchmarks/peers.py`` prints one table.

Every line is one question on one instance, answered by both, one thread, processor time, kernels warm. Peers
are Qhull (through scipy), HiGHS, the Parma Polyhedra Library and random points through numpy. The page
docs/hardmax-in-four-pages.md shows the table of one run.
"""

from __future__ import annotations

from dataclasses import dataclass

from timing import side_by_side, spell

import numpy as np  # isort: skip (the thread counts come first)
import ppl  # isort: skip
from scipy.spatial import ConvexHull, Voronoi  # isort: skip

import hardmax as hm

from bench_minkowski import incremental_qhull  # isort: skip
from bench_power import N_KEYS, SAMPLE, CombinationProgram, radial_keys  # isort: skip
from bench_regions import BOX, NETWORKS, PART, SAMPLES, numpy_count  # isort: skip


@dataclass(frozen=True)
class Line:
    """One question: both answers and both times."""

    question: str
    ours: str
    spent: float
    peer: str
    theirs: str
    reference: float


def sums_by_qhull(d: int, n_heads: int, n_tokens: int, rounds: int) -> Line:
    """Vertices of a Minkowski sum, one hull after the other."""
    heads = np.random.default_rng(0).standard_normal((n_heads, n_tokens, d))
    count, theirs = hm.minkowski_vertices(heads).count, incremental_qhull(heads)
    spent = side_by_side(
        lambda: hm.minkowski_vertices(heads), lambda: incremental_qhull(heads), repeats=5, rounds=rounds
    )
    question = f"vertices of the sum of {n_heads} heads, {n_tokens} keys, $d = {d}$"
    return Line(question, str(count), spent[0], "Qhull", str(theirs), spent[1])


def incremental_ppl(heads: np.ndarray) -> int:
    """The same in exact integers."""
    total = {tuple(map(int, key)) for key in heads[0]}
    for head in heads[1:]:
        points = ppl.Generator_System()
        for one in {tuple(a + int(b) for a, b in zip(x, key, strict=True)) for x in total for key in head}:
            points.insert(ppl.point(ppl.Linear_Expression(one, 0)))
        corners = ppl.C_Polyhedron(points).minimized_generators()
        total = {tuple(map(int, corner.coefficients())) for corner in corners}
    return len(total)


def sums_by_ppl(d: int, n_heads: int, n_tokens: int) -> Line:
    """Keys with thirty bits behind the point, as integers."""
    heads = np.round(np.random.default_rng(0).standard_normal((n_heads, n_tokens, d)) * 2**30).astype(int)
    count, theirs = hm.minkowski_vertices(heads).count, incremental_ppl(heads)
    spent = side_by_side(
        lambda: hm.minkowski_vertices(heads), lambda: incremental_ppl(heads), repeats=5, rounds=1
    )
    question = f"vertices of the sum of {n_heads} heads, {n_tokens} integer keys, $d = {d}$"
    return Line(question, str(count), spent[0], "PPL (exact)", str(theirs), spent[1])


def empty_keys() -> Line:
    """Which of 512 keys in 64 dimensions never win."""
    keys = radial_keys()
    program = CombinationProgram(keys)
    sample = range(0, N_KEYS, N_KEYS // SAMPLE)
    found: list[bool] = []

    def reference() -> None:
        found[:] = [program.own_weight(j) > 0.5 for j in sample]

    diagram = hm.attention_diagram(keys)
    spent = side_by_side(lambda: hm.attention_diagram(keys).nonempty, reference, repeats=3, rounds=1)
    agree = sum(diagram.nonempty[list(sample)] == found)
    return Line(
        f"which of {N_KEYS} keys never win, $d = 64$",
        f"{int((~diagram.nonempty).sum())}, with proofs",
        spent[0],
        f"HiGHS, {SAMPLE} of the keys, time scaled",
        f"agrees on {agree} of {SAMPLE}",
        spent[1] * N_KEYS / SAMPLE,
    )


def thin_cells() -> Line:
    """A square with a key in the middle of each side, moved out by one bit: all eight keys win."""
    out = 1 + 2.0**-52
    keys = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1], [out, 0], [0, out], [-out, 0], [0, -out]])

    def reference() -> int:
        return len(ConvexHull(keys).vertices)

    def ours() -> int:
        return int(hm.attention_diagram(keys).nonempty.sum())

    answers = ours(), reference()
    spent = side_by_side(ours, reference, repeats=5, rounds=5)
    question = "which of 8 keys win, four of them one bit outside of the hull of the others"
    return Line(question, f"{answers[0]}, with proofs", spent[0], "Qhull", str(answers[1]), spent[1])


def voronoi() -> Line:
    """The Voronoi diagram of ten thousand points, in the form of scipy."""
    points = np.random.default_rng(0).standard_normal((10_000, 2))
    view = hm.power_diagram(points).as_voronoi()
    same = {tuple(sorted(pair)) for pair in view.ridge_points.tolist()}
    theirs = {tuple(sorted(pair)) for pair in Voronoi(points).ridge_points.tolist()}
    spent = side_by_side(
        lambda: hm.power_diagram(points).as_voronoi(), lambda: Voronoi(points), repeats=2, rounds=2
    )
    return Line("ridges of the Voronoi diagram of 10,000 points", f"{len(same):,}", spent[0],
                "Qhull", f"{len(theirs):,}, {len(same ^ theirs)} differ", spent[1])  # fmt: skip


def cells(name: str, words: str) -> Line:
    """The cells of a network on a square, and how many of them random points find."""
    network, _ = NETWORKS[name]
    count = hm.count_cells(network, BOX).n_cells
    found = hm.estimate_cells(network, BOX, n_samples=SAMPLES, rng=0).n_signatures
    spent = side_by_side(
        lambda: hm.count_cells(network, BOX), lambda: numpy_count(network, packed=True), repeats=5, rounds=1
    )
    return Line(f"cells of {words}", f"{count:,}, all of them", spent[0],
                f"{SAMPLES:,} random points, numpy, time scaled", f"{found:,}", spent[1] * PART)  # fmt: skip


def table(lines: list[Line]) -> str:
    """The lines in Markdown."""
    rows = ["| question | hardmax | time | peer | answer | time | ratio |", "|---|---|---|---|---|---|---|"]
    for one in lines:
        ratio = one.reference / one.spent
        rows.append(
            f"| {one.question} | {one.ours} | {spell(one.spent)} | {one.peer} | {one.theirs} "
            f"| {spell(one.reference)} | {ratio:.{0 if ratio >= 10 else 2}f} |"
        )
    return "\n".join(rows)


def main() -> None:
    print(
        table(
            [
                sums_by_qhull(4, 4, 30, 5),
                sums_by_qhull(6, 4, 10, 1),
                sums_by_ppl(4, 3, 20),
                empty_keys(),
                thin_cells(),
                voronoi(),
                cells("[2,64,64,64,1]", "a ReLU network, three layers of 64"),
                cells("H=2 N=50 d_ff=64 L=2", "a transformer, two layers, 50 keys"),
            ]
        )
    )


if __name__ == "__main__":
    main()
