"""The computations behind docs/theorems.md that take longer than a test: writes docs/results/theorems.md.

    python tests/scripts/theorems.py                      about two minutes on one core
    python tests/scripts/theorems.py --quick              smaller samples; writes nothing
    python tests/scripts/theorems.py --plot theorems.png  only the picture of the page

Every section says what is computed and ends with the worst case that was found; a check that fails ends the
script with an error.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import numpy as np

import hardmax as hm
from hardmax.flow.theorems.colliding_pairs import retrieval_pair, retrieval_width_bound
from hardmax.flow.theorems.decoding_bounds import antipodal_pair, decoder_width_bound
from hardmax.flow.theorems.softmax_transformers import TwoLayer
from hardmax.geometry.many_heads import angle_sums, expected_vertices, vertices_from_subsets
from hardmax.geometry.minkowski import mixed_counts
from hardmax.networks.constructions import rounding_temperature, sawtooth_network
from hardmax.temperature.observed_scores import leading_eigenvalue

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "results" / "theorems.md"
Rows = Iterator[str]


def table(head: list[str], rows: list[list[object]]) -> str:
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines, ""])


def hessian(rng: np.random.Generator, size: int) -> Rows:
    """Theorem 1: random rivals, and k at the margin; no norm above the supremum, which is reached."""
    rows = []
    for n in (2, 3, 5, 8, 64, 512):
        worst, reached = 0.0, math.inf
        for e in (1e-4, 0.05, 0.2, 0.4, 0.7, 1.0):
            sharp = max((k + 1) * e / (1 + k * e) ** 2 for k in range(1, n))
            rivals = e * rng.random((size, n - 1)) ** rng.uniform(0.02, 2, (size, 1))
            corners = e * np.tri(n - 1)
            with np.errstate(divide="ignore"):
                scores = np.insert(np.log(np.concatenate([rivals, corners])), 0, 0.0, axis=1)
            norms = leading_eigenvalue(scores, 1.0).norm
            worst, reached = max(worst, norms.max() / sharp), min(reached, norms.max() / sharp)
        assert worst <= 1 + 1e-12
        assert reached >= 1 - 1e-12
        rows.append([n, 6 * (size + n - 1), f"{worst:.12f}", f"{reached:.12f}"])
    yield table(["keys", "score vectors", "largest norm over the supremum", "smallest, over margins"], rows)


def mixed_terms(rng: np.random.Generator, size: int) -> Rows:
    """Theorems 2 and 3: 0 <= m(T) <= prod (N_h - 1) in random families; the maxima, attained."""
    rows = []
    for d, biased in ((1, True), (2, True), (3, True), (2, False), (3, False), (4, False)):
        heads, families, terms, largest = min(d + 2, 5), 0, 0, 0.0
        for _ in range(size):
            sizes = rng.integers(2, 7 if d < 3 else 5, heads)
            keys = [rng.standard_normal((n, d)) * rng.uniform(0.1, 3) for n in sizes]
            biases = [rng.standard_normal(n) for n in sizes] if biased else None
            counts = {(): 1}
            for j in range(1, heads + 1):
                for part in combinations(range(heads), j):
                    chosen = None if biases is None else [biases[h] for h in part]
                    counts[part] = hm.minkowski_vertices([keys[h] for h in part], chosen).count
            families += 1
            for part, term in mixed_counts(counts).items():
                most = math.prod(int(sizes[h]) - 1 for h in part)
                if len(part) > (d if biased else d - 1):
                    assert term == (0 if biased else (-1) ** (d + len(part)))
                    continue
                assert 0 <= term <= most
                terms += 1
                if len(part) > 1:
                    largest = max(largest, term / most)
        rows.append(["affine" if biased else "linear", d, families, terms, f"{largest:.3f}"])
    yield table(
        ["scores", "d", "families", "terms m(T)", "largest share of the bound, two heads or more"], rows
    )
    rows = []
    for n, heads, d, biased in (
        (9, 5, 2, False), (5, 5, 3, False), (4, 5, 4, False), (3, 5, 5, False), (2, 7, 5, False),
        (6, 6, 1, True), (6, 5, 2, True), (4, 5, 3, True), (3, 5, 4, True),
    ):  # fmt: skip
        sets, biases = hm.geometry.parabolic_heads(n, heads, d, biased=biased)
        found = hm.minkowski_vertices(sets, biases).count
        assert found == hm.vertex_maximum(n, heads, d, biased=biased)
        rows.append(["affine" if biased else "linear", n, heads, d, found])
    yield table(["scores", "N", "H", "d", "cells of the integer heads = maximum"], rows)


def codes(rng: np.random.Generator, size: int) -> Rows:
    """Theorems 4 and 5: antipodal pairs of random encoders; colliding pairs of random heads."""
    rows = []
    for m, n in ((2, 1), (3, 1), (3, 2), (4, 2), (5, 4)):
        gaps = []
        for _ in range(max(2, size // 20)):
            weights = rng.normal(size=(6, m)), rng.normal(size=6), rng.normal(size=(n, 6)), np.zeros(n)
            gaps.append(antipodal_pair(TwoLayer(*weights), m).code_gap)
        assert max(gaps) < 1e-9
        bounds = [decoder_width_bound(m, n, e) for e in (1e-2, 1e-3)]
        rows.append([m, n, len(gaps), *(f"{bound:.4g}" for bound in bounds)])
    head = ["m", "n", "encoders with an antipodal pair of one code", "units for 1e-2 in the mean", "for 1e-3"]
    yield table(head, rows)
    rows = []
    for tokens, k, epsilon in ((6, 2, 0.002), (7, 2, 0.002), (7, 3, 0.002)):
        pair = retrieval_pair(lambda x: x[:, None], lambda x: 4 * x, n_tokens=tokens, k=k, epsilon=epsilon)
        assert pair.target_gap >= 3.9 * epsilon
        rows.append([tokens, k, epsilon, f"{pair.target_gap:.4f}", f"{pair.attention_gap:.2g}"])
    yield table(["T", "k", "epsilon", "targets differ by", "attention by"], rows)
    cases = [(64, 2, 6, 1e-4), (64, 2, 6, 1e-5), (64, 8, 6, 1e-5)]
    rows = [[*case, f"{retrieval_width_bound(*case):.3g}"] for case in cases]
    yield table(["T", "k", "n", "epsilon", "width at least"], rows)


def rules(rng: np.random.Generator, size: int) -> Rows:
    """Theorem 6: order-k diagrams below the bounds, and supports of sparsemax against faces."""
    rows = []
    for n, d, biased in ((7, 2, False), (7, 2, True), (8, 1, True), (7, 3, False)):
        for k in (2, 3):
            upper = hm.bounds.order_k_upper(n, d, k, biased=biased)
            most = 0
            for _ in range(max(5, size // 4)):
                keys = rng.standard_normal((n, d))
                given = {"biases": rng.standard_normal(n)} if biased else {}
                most = max(most, hm.attention_diagram(keys, k=k, **given).n_cells)
            assert most <= upper
            rows.append(["affine" if biased else "linear", n, d, k, most, upper])
    yield table(["scores", "N", "d", "k", "most cells found", "upper bound"], rows)
    rows = []
    box = hm.Box.cube(2, -1, 1)
    for n in (4, 6, 8):
        agree = 0
        for _ in range(max(3, size // 20)):
            sites = rng.uniform(-1, 1, (1, n, 2))
            net = hm.Network([hm.Attention(sites, -np.square(sites).sum(axis=2) / 2, sites, skip=False)])
            hard = hm.enumerate_regions(net, box)
            walls, corners = faces(sites[0])
            found = hm.count_cells(net.with_rule("sparsemax", temperature=1e-7), box).n_cells
            assert found == hard.n_cells + walls + corners
            agree += 1
        rows.append([n, agree])
    yield table(["sites", "diagrams whose supports at temperature 1e-7 are the faces in the square"], rows)


def faces(sites: np.ndarray) -> tuple[int, int]:
    """Walls and corners of a Voronoi diagram that meet the open square, from their definition."""
    n, walls, corners = len(sites), 0, 0
    half = np.square(sites).sum(axis=1) / 2
    for i, j in combinations(range(n), 2):
        normal, level = sites[i] - sites[j], half[i] - half[j]
        along = np.array([-normal[1], normal[0]])
        point = normal * level / (normal @ normal)
        low, high = -math.inf, math.inf
        rows = [(sites[i] - sites[l], half[i] - half[l]) for l in range(n) if l not in (i, j)]
        rows += [(s * e, -1.0) for e in np.eye(2) for s in (1, -1)]
        for row, bound in rows:  # row . x >= bound
            slope, start = row @ along, row @ point - bound
            if slope > 0:
                low = max(low, -start / slope)
            else:
                high = min(high, -start / slope)
        walls += low < high
    for three in combinations(range(n), 3):
        a, b, c = three
        matrix = np.array([sites[a] - sites[b], sites[a] - sites[c]])
        x = np.linalg.solve(matrix, [half[a] - half[b], half[a] - half[c]])
        scores = sites @ x - half
        others = [scores[l] for l in range(n) if l not in three]
        corners += bool(np.abs(x).max() < 1 and all(value < scores[a] for value in others))
    return walls, corners


def narrow(_: np.random.Generator, size: int) -> Rows:
    """Theorem 7: regions of the transformer of width d + 1, enumerated exactly."""
    rows = []
    sizes = [(1, 2, 1, 5), (1, 4, 1, 4), (1, 16, 1, 2), (1, 5, 3, 2), (2, 2, 1, 3), (2, 4, 1, 2)]
    sizes += [(2, 8, 1, 1), (3, 2, 1, 1), (3, 3, 1, 1), (3, 2, 1, 2)]
    for d, n, w, depth in sizes if size >= 100 else sizes[:4]:
        net = sawtooth_network(d, n, w, depth, variant="narrow")
        found = hm.count_regions(net, hm.Box.cube(d, 0, 1))
        assert found.exact
        assert found.n_regions == (2 * w * n) ** (d * depth)
        rows.append([d, d + 1, n, w, depth, found.n_regions, f"(2 * {w} * {n})^({d} * {depth})"])
    yield table(["d", "d_model", "N", "w", "L", "regions, exactly", "formula"], rows)


def gaussian(rng: np.random.Generator, size: int) -> Rows:
    """Theorem 8: means of enumerated Gaussian families; many heads from a sample of their subsets."""
    rows = []
    for n, heads, d in (
        (8, 4, 2),
        (64, 4, 2),
        (8, 4, 3),
        (32, 2, 3),
        (64, 6, 3),
        (6, 3, 4),
        (12, 3, 4),
        (6, 3, 5),
    ):
        counts = [hm.minkowski_vertices(rng.standard_normal((heads, n, d))).count for _ in range(10 * size)]
        mean, error = np.mean(counts), np.std(counts, ddof=1) / math.sqrt(len(counts))
        formula = expected_vertices(n, heads, d)
        assert abs(mean - formula) < 4.5 * error
        assert size < 100 or error < 0.005 * mean
        cells = f"{mean:.3f} ({error:.3f})"
        rows.append([n, heads, d, len(counts), cells, f"{formula:.3f}", f"{mean / formula:.4f}"])
    head = ["N", "H", "d", "families", "mean (standard error)", "formula", "ratio"]
    yield table(head, rows)
    rows = []
    for n, d in ((16, 3), (64, 3), (16, 4)):
        constant = 2 * angle_sums(n, 2)[1] ** (d - 1) / math.factorial(d - 1)
        shares = [expected_vertices(n, h, d) / h ** (d - 1) / constant for h in (8, 64, 512)]
        rows.append([n, d, f"{constant:.5g}", *(f"{share:.4f}" for share in shares)])
    yield table(["N", "d", "constant", "H = 8", "H = 64", "H = 512: cells over constant H^(d-1)"], rows)
    rows = []
    for n, heads, d in ((8, 512, 3), (8, 128, 4)):
        found = vertices_from_subsets(rng.standard_normal((heads, n, d)), n_samples=size, rng=0)
        formula = expected_vertices(n, heads, d)
        rows.append([n, heads, d, size, f"{found.value:.6g} ({found.standard_error:.2g})", f"{formula:.6g}"])
    yield table(["N", "H", "d", "subsets", "cells of one family, estimated (standard error)", "mean"], rows)


def survival(_: np.random.Generator, size: int) -> Rows:
    """Theorem 10: cells that keep their signature at a temperature, with and without rounding."""
    rows = []
    for n, w, depths in ((2, 2, 5), (3, 2, 4), (4, 1, 4)):
        for depth, total, plain, rounded, proved in kept_cells(n, w, depths if size >= 100 else 2):
            assert rounded >= proved
            rows.append([n, w, f"{rounding_temperature(n, w):.4g}", depth, total, plain, rounded, proved])
    yield table(
        ["N", "w", "temperature", "L", "cells", "kept, plain", "kept, rounded", "(2N(w-1)+2)^L"], rows
    )


def kept_cells(n: int, w: int, depths: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Depth, cells, how many of the plain and of the rounded network keep their signature, and the bound."""
    temperature, pieces = rounding_temperature(n, w), 2 * w * n
    for depth in range(1, depths + 1):
        middles = (2 * np.arange(pieces**depth)[:, None] + 1) / (2 * pieces**depth)
        kept = [
            hm.temperature.surviving_cells(net, middles, temperature).n_surviving
            for net in (sawtooth_network(1, n, w, depth), sawtooth_network(1, n, w, depth, variant="rounded"))
        ]
        yield depth, pieces**depth, *kept, (2 * n * (w - 1) + 2) ** depth


SECTIONS = {
    "Theorem 1: the Hessian": hessian,
    "Theorems 2 and 3: mixed terms and maxima": mixed_terms,
    "Theorems 4 and 5: codes and retrieval": codes,
    "Theorem 6: other rules": rules,
    "Theorem 7: width d + 1": narrow,
    "Theorem 8: random heads": gaussian,
    "Theorem 10: cells at a temperature": survival,
}


def draw(path: str) -> None:
    """Mean cells of random heads over their number, and surviving cells over depth."""
    import matplotlib.pyplot as plt

    from hardmax.plotting.style import styled

    rng = np.random.default_rng(0)
    with styled():
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
        for d, most, colour in ((2, 12, "#4477aa"), (3, 12, "#ee6677"), (4, 6, "#228833")):
            heads = np.arange(1, 33)
            left.plot(heads, [expected_vertices(8, int(h), d) for h in heads], color=colour, lw=1.2)
            shown = [h for h in (1, 2, 3, 4, 6, 8, 12) if h <= most]
            means = [
                np.mean([hm.minkowski_vertices(rng.standard_normal((h, 8, d))).count for _ in range(40)])
                for h in shown
            ]
            left.plot(shown, means, "o", ms=4, color=colour, label=f"d = {d}")
        left.set(xscale="log", yscale="log", xlabel="heads H", ylabel="cells, mean")
        left.set_title("8 Gaussian keys per head: formula and 40 families")
        left.legend(frameon=False)
        rows = list(kept_cells(2, 2, 5))
        depth, total, plain, rounded, proved = (np.array(column) for column in zip(*rows, strict=True))
        right.plot(depth, total, "-", color="#999999", lw=1.2, label="all cells")
        right.plot(depth, rounded, "o-", color="#4477aa", ms=4, lw=1.2, label="kept, with rounding")
        right.plot(depth, proved, "--", color="#4477aa", lw=1.0, label="$6^L$, proved")
        right.plot(depth, plain, "s-", color="#ee6677", ms=4, lw=1.2, label="kept, Theorem V.7")
        right.set(yscale="log", xlabel="layers L", ylabel="cells", xticks=depth)
        right.set_title(f"N = 2, w = 2 at temperature {rounding_temperature(2, 2):.3f}")
        right.legend(frameon=False)
        figure.savefig(path, dpi=150)


def sentence(section: Callable[[np.random.Generator, int], Rows]) -> str:
    """What a section computes, from its docstring."""
    text = (section.__doc__ or "").partition(": ")[2]
    return text[:1].upper() + text[1:]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller samples, nothing is written")
    parser.add_argument("--plot", help="draw the picture of the page into this file, and nothing else")
    arguments = parser.parse_args()
    if arguments.plot:
        draw(arguments.plot)
        return
    size = 10 if arguments.quick else 100
    parts = [
        "# Results for the theorems\n",
        "Written by `make theorems` (`python tests/scripts/theorems.py`); do not edit it by hand. The "
        "statements and proofs are in [Theorems](../theorems.md). Seed 0. Every line was checked against its "
        "theorem while it was written.\n",
    ]
    for title, section in SECTIONS.items():
        print(f"==> {title}", flush=True)
        parts += [f"## {title}\n", f"{sentence(section)}\n"]
        for text in section(np.random.default_rng(0), size):
            print(text, flush=True)
            parts.append(text)
    if not arguments.quick:
        PAGE.write_text("\n".join(parts))
        print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
