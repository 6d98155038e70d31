"""The main jobs on what the repository ships: a report, pictures and numbers in out/demo.

    make demo

Two processes share the jobs, and each job is printed when it is done. Figure 3 of the tropical paper comes
first: a Voronoi diagram and the attention diagram of the same keys. The report is a trained transformer in
one page, out/demo/report/report.html, with margins, keys that can win, cells and information flow of its
heads. Figure 4: the Newton polytopes of one, two and three heads with six keys each, and why the third cannot
have the 216 vertices that the paper gives it. Who reads whom in the example of appendix E of the InfoFlow
paper, which heads and layers its pairwise target needs, and what a model that was trained on such a target
lets its last token know. Last what the paper only samples: every linear region of a transformer with three
layers, exactly, beside the bounds of theory, and how many of its cells two million random points find.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import hardmax as hm
from hardmax.plotting.diagrams import compare_diagrams
from hardmax.plotting.polytopes import compare_sums
from hardmax.plotting.regions import compare_depths, draw_regions
from hardmax.training.data import outputs_of
from hardmax.training.learned_routing import query_network, routed_flow
from hardmax.training.trained_models import bundled_model

OUT = Path(__file__).resolve().parent.parent / "out" / "demo"

# Figure 3: eight keys in the plane; the last two lie inside the hull of the others.
KEYS = np.array(
    [
        [2.1, 0.4],
        [0.9, 1.9],
        [-1.5, 1.6],
        [-2.2, -0.6],
        [-0.5, -2.0],
        [1.6, -1.5],
        [0.9, 0.3],
        [-0.6, 0.5],
    ]
)

# Figure 4: integer heads on parabolas, keys (p u, -p^2) with p = 7 j + c, j = -2 .. 3.
DIRECTIONS = [(1, 0), (-1, 2), (-1, -3)]
SHIFTS = [0, 5, 11]

# Regions: a random transformer whose tokens live in the plane.
TRANSFORMER = {"d": 2, "n_tokens": 30, "heads": 3, "depth": 3, "d_ff": 48, "rng": 1}
SQUARE = hm.Box.cube(2, -4, 4)
SAMPLES = 2_000_000

# Trained: where most walls of the first layer meet.
WINDOW = hm.Box.cube(2, -0.03, 0.03)

# Advice: the sum of D maxima of bilinear forms (equation (6) of the InfoFlow paper).
D, TOKENS = 4, 64

WHY_NOT_216 = "The paper's 216 is impossible: linear scores in R^3 allow 3 N^2 - 3 N + 2 = 92 at most."


def heads_of_figure_4() -> list[np.ndarray]:
    """Three heads with six integer keys in R^3; their sum has 92 vertices, the most that any three have."""
    steps = [[7 * j + c for j in range(-2, 4)] for c in SHIFTS]
    return [
        np.array([[p * u, p * v, -p * p] for p in ps]) for (u, v), ps in zip(DIRECTIONS, steps, strict=True)
    ]


def figure_3(out: Path) -> tuple[dict[str, Any], str]:
    """Draw figure 3 and count its cells."""
    voronoi = hm.power_diagram(KEYS, np.zeros(len(KEYS)))
    attention = hm.attention_diagram(KEYS)
    counts = [int(diagram.nonempty.sum()) for diagram in (voronoi, attention)]
    titles = [f"(a) Voronoi diagram: {counts[0]} cells", f"(b) attention: {counts[1]} cells with interior"]
    figure = compare_diagrams([voronoi, attention], titles=titles, box=hm.Box.cube(2, -3, 3))
    save(figure, out / "figure3")
    losers = np.flatnonzero(~attention.nonempty).tolist()
    found = {
        "keys": len(KEYS),
        "voronoi_cells": counts[0],
        "attention_cells": counts[1],
        "keys_without_cell": losers,
    }
    return (
        found,
        f"""\
Figure 3: {len(KEYS)} keys in the plane ({out / "figure3.png"})
  {counts[0]:>3} cells of the Voronoi diagram
  {counts[1]:>3} attention cells: keys {" and ".join(map(str, losers))} lie in the hull of the others""",
    )


def report(out: Path) -> tuple[dict[str, Any], str]:
    """The page about the bundled trained model."""
    made = hm.report()
    page, *others = made.write(out / "report")
    heads, flow = made.atlas.heads, made.flows[0]
    margin = float(np.median([head.margin_median for head in heads]))
    can, of = sum(head.keys_can_win for head in heads), sum(head.keys_can_win_of for head in heads)
    cells = {f"layer {piece.layer}": piece.n_cells for piece in made.atlas.slices}
    known = [flow.key_tokens[t] for t in flow.known_by(made.read_out)]
    needed = [flow.key_tokens[t] for t in made.needed]
    found = {
        "page": str(page),
        "files": 1 + len(others),
        "heads": len(heads),
        "median_margin": margin,
        "keys_can_win": [can, of],
        "cells": cells,
        "cls_can_know": known,
        "answer_needs": needed,
    }
    return (
        found,
        f"""\
Report: {page}
  {len(heads)} heads of a trained transformer on a random sequence; the winning key leads by {margin:.1f} \
units of temperature
  {can} of {of} keys can win; {" and ".join(f"{n} cells in {layer}" for layer, n in cells.items())} on a \
plane of inputs, exactly
  the last token can know {", ".join(known)}; the answer depends on {", ".join(needed)}""",
    )


def figure_4(out: Path) -> tuple[dict[str, Any], str]:
    """Draw figure 4 and count its vertices."""
    heads = heads_of_figure_4()
    sums = [hm.minkowski_vertices(heads[:n]) for n in (1, 2, 3)]
    for result in sums:
        verification = result.verify()
        if not verification.ok:
            raise hm.errors.CertificateError(f"a count failed its check: {verification}.")
    names = ["one head", "two heads", "three heads"]
    save(compare_sums(sums, titles=names, view=(30, -50), proportions="round"), out / "figure4")
    # The same six numbers per head where the directions are independent: all 216 choices win.
    steps = [np.array([7 * j + c for j in range(-2, 4)]) for c in SHIFTS]
    axes = np.eye(3, dtype=int)
    affine = hm.minkowski_vertices(
        [np.outer(p, axis) for p, axis in zip(steps, axes, strict=True)], [-(p**2) for p in steps]
    )
    linear = hm.minkowski_vertices(
        [np.column_stack([np.outer(p, axis), -(p**2)]) for p, axis in zip(steps, axes, strict=True)]
    )
    maximum = hm.vertex_maximum(6, 3, 3, biased=False)
    found = {
        "keys_per_head": 6,
        "vertices": {name: result.count for name, result in zip(names, sums, strict=True)},
        "maximum_linear_R3": maximum,
        "vertices_affine_R3": affine.count,
        "vertices_linear_R4": linear.count,
    }
    lines = "\n".join(f"  {result.count:>3} with {name}" for name, result in zip(names, sums, strict=True))
    return (
        found,
        f"""\
Figure 4: 6 keys per head, vertices of the Minkowski sum, linear scores in R^3 ({out / "figure4.png"})
{lines}
  {maximum:>3} is the most that any three heads can have
  {affine.count:>3} with three heads and biases in R^3, all 6^3 choices
  {linear.count:>3} with three heads in R^4, all 6^3 choices
  {WHY_NOT_216}""",
    )


def appendix_e(out: Path) -> tuple[dict[str, Any], str]:
    """The example of appendix E: four tokens, two layers, and whether CLS has what the target needs."""
    found = {row.quantity: row.computed for row in hm.reproduce("infoflow.fig5", out).comparisons}
    return (
        found,
        f"""\
Appendix E: layer 1 reads {found["positions read in layer 1, score negated"]}; with the score as printed \
{found["positions read in layer 1, score as printed"]}""",
    )


def advice(out: Path) -> tuple[dict[str, Any], str]:
    """How many heads and layers the pairwise target needs, and what breaks without one of them."""
    matrices = np.random.default_rng(0).standard_normal((D, 4, 4))
    advised = hm.advise(hm.targets.pairwise(matrices), TOKENS)
    save(advised.plot().figure, out / "advice")
    best = advised.suggestions[0]
    found = {
        "heads": list(best.heads),
        "widths": list(best.widths),
        "parameters": best.parameters,
        "learns": best.share,
        "without_a_head_of_layer_1": best.without[0].share,
    }
    return (
        found,
        f"""\
Advice: the sum of {D} maxima of bilinear forms over pairs of {TOKENS} tokens
  heads {found["heads"]}, widths {found["widths"]}, {best.parameters:,} parameters: what it needs arrives on \
{best.share:.0%} of random inputs
  with one head of the first layer less: on {best.without[0].share:.0%}""",
    )


def trained_model(out: Path) -> tuple[dict[str, Any], str]:
    """The bundled model: what it learned, what reaches its last token, and the cells of its first layer."""
    model = bundled_model()
    (target,) = outputs_of(model.about["job"]["target"])
    inputs = target.sample(1000, model.shape.n_tokens, rng=5)
    error = float(((model(inputs)[:, 0] - target(inputs)) ** 2).mean() / target(inputs).var())
    share = routed_flow(model.shape, model.vector, inputs).learns(target).share
    plane = np.eye(2, model.shape.d_token)
    first_layer = query_network(model.shape, model.vector, inputs[0])
    plane_of_queries = first_layer.restrict(np.zeros(len(plane[0])), plane)
    cut = hm.enumerate_regions(plane_of_queries, SQUARE)
    seen = hm.count_cells(plane_of_queries, WINDOW).n_cells
    title = (
        f"A trained layer of two heads on a plane of queries: {cut.n_cells} cells, exactly,\n"
        f"{seen} of them in sight: most walls meet close to the origin"
    )
    save(draw_regions(cut, box=WINDOW, title=title).figure, out / "trained-layer")
    found = {"nmse": error, "what_it_needs_arrives": share, "cells_of_layer_1": cut.n_cells}
    return (
        found,
        f"""\
Trained: the bundled model, two layers of two heads on the sum of two such maxima, 15 tokens
  {error:.1e} of the variance is left; the winning tokens reach the last one on {share:.1%} of random inputs
  {cut.n_cells} cells of its first layer in a plane of queries""",
    )


def regions(out: Path) -> tuple[dict[str, Any], str]:
    """Enumerate, verify and draw the regions of a transformer, and sample it as the paper does."""
    network = hm.Network.random(**TRANSFORMER)
    # load the kernels first, so that the times below are those of the work
    hm.count_regions(network.truncate(2), SQUARE)
    hm.estimate_cells(network, SQUARE, n_samples=1000)
    start = time.perf_counter()
    cells = hm.enumerate_regions(network, SQUARE)
    counted = time.perf_counter()
    n_regions = cells.n_regions
    glued = time.perf_counter()
    estimate = hm.estimate_cells(network, SQUARE, n_samples=SAMPLES)
    sampled = time.perf_counter()
    cells.verify().require()
    sizes = {name: TRANSFORMER[name] for name in ("n_tokens", "heads", "d_ff", "depth")}
    bounds = hm.region_bounds(d_model=TRANSFORMER["d"], **sizes, biased=True)
    title = f"A transformer of depth 3 on $[-4, 4]^2$: {cells.n_cells:,} cells, exactly"
    save(draw_regions(cells, title=title).figure, out / "regions")
    save(compare_depths(network, SQUARE), out / "regions-by-depth")
    by_depth = list(hm.count_cells(network, SQUARE).cells_by_depth)
    found = {
        "n_cells": cells.n_cells,
        "n_regions": n_regions,
        "complete": cells.complete,
        "cells_by_depth": by_depth,
        "lower_bound": f"{bounds.lower.value:.3e}",
        "upper_bound": f"{bounds.upper.value:.3e}",
        "n_samples": SAMPLES,
        "n_signatures": estimate.n_signatures,
        "unseen_mass": estimate.unseen_mass,
    }
    return (
        found,
        f"""\
Regions: a random transformer, 3 layers, 3 heads, 30 tokens, 48 ReLU units each, on [-4, 4]^2
  {cells.n_cells:>5,} cells, all of them, in {counted - start:.2f} s; block by block \
{", ".join(f"{n:,}" for n in by_depth)}
  {n_regions:>5,} linear regions: adjacent cells compared exactly, in {glued - counted:.2f} s
  {estimate.n_signatures:>5,} cells found by {SAMPLES:,} random points, in {sampled - glued:.2f} s
  {found["upper_bound"]} is what no network of this shape exceeds; some have at least \
{found["lower_bound"]}""",
    )


Job = Callable[[Path], tuple[dict[str, Any], str]]

# What needs few kernels comes first. The report compiles those of the plane while the other process draws.
JOBS: list[Job] = [figure_3, report, figure_4, appendix_e, advice, trained_model, regions]


def named(job: Job, out: Path) -> tuple[str, dict[str, Any], str]:
    """The name of a job, what it counted and what it says."""
    logging.getLogger("hardmax").setLevel(logging.ERROR)  # that kernels are compiled has been said
    return job.__name__, *job(out)


def save(figure: Any, path: Path) -> None:
    """Write a figure as SVG and as PNG."""
    for ending in ("svg", "png"):
        figure.savefig(path.with_suffix(f".{ending}"))


def main() -> int:
    """Do the jobs and say what they show."""
    OUT.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    print("Two figures, a report on a trained transformer, a trace, advice and exact regions")
    print("(the first run compiles kernels; later ones load them)", flush=True)
    counts = {}
    done = Parallel(n_jobs=2, batch_size=1, return_as="generator_unordered")(
        delayed(named)(job, OUT) for job in JOBS
    )
    for name, found, text in done:
        counts[name] = found
        print(f"\n[{time.perf_counter() - start:.0f} s] {text}", flush=True)
    (OUT / "counts.json").write_text(json.dumps(counts, indent=2) + "\n")
    print(f"\n{time.perf_counter() - start:.1f} s; the report, the pictures and counts.json are in {OUT}")
    print("`hardmax claims check` checks every statement of the papers, in half a minute")
    return 0


if __name__ == "__main__":
    sys.exit(main())
