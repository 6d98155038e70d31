"""The main jobs on what the repository ships: a report, pictures and numbers in out/demo.

    make demo

First the report: a trained transformer in one page, out/demo/report/report.html, with margins, keys that can
win, cells and information flow of its heads. Then the papers. Figure 3: a Voronoi diagram and the attention
diagram of the same keys. Figure 4: the Newton polytopes of one, two and three heads with six keys each, and
why the third cannot have the 216 vertices that the paper gives it. Then what the paper only samples: every
linear region of a transformer with three layers, exactly, beside the bounds of theory, and how many of its
cells two million random points find. Which heads and layers the pairwise target of the InfoFlow paper needs,
who reads whom in the example of its appendix E, and what a model that was trained on such a target lets its
last token know. Last the ledger: every statement of both papers checked.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.plotting.diagrams import compare_diagrams
from hardmax.plotting.polytopes import compare_sums
from hardmax.plotting.regions import compare_depths, draw_regions
from hardmax.training.bundled import bundled_model
from hardmax.training.data import outputs_of
from hardmax.training.geometry import query_network, routed_flow

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

# Advice: the sum of D maxima of bilinear forms (equation (6) of the InfoFlow paper).
D, TOKENS = 4, 64

CLAIMS: list[str] | None = None  # which claims are checked; None for all of both papers

WHY_NOT_216 = "The paper's 216 is impossible: linear scores in R^3 allow 3 N^2 - 3 N + 2 = 92 at most."


def heads_of_figure_4() -> list[np.ndarray]:
    """Three heads with six integer keys in R^3; their sum has 92 vertices, the most that any three have."""
    steps = [[7 * j + c for j in range(-2, 4)] for c in SHIFTS]
    return [
        np.array([[p * u, p * v, -p * p] for p in ps]) for (u, v), ps in zip(DIRECTIONS, steps, strict=True)
    ]


def report() -> dict[str, Any]:
    """The page about the trained model that comes along."""
    found = hm.report()
    page, *others = found.write(OUT / "report")
    heads, flow = found.atlas.heads, found.flows[0]
    return {
        "page": str(page),
        "files": 1 + len(others),
        "heads": len(heads),
        "median_margin": float(np.median([head.margin_median for head in heads])),
        "keys_can_win": [
            sum(head.keys_can_win for head in heads),
            sum(head.keys_can_win_of for head in heads),
        ],
        "cells": {f"layer {piece.layer}": piece.n_cells for piece in found.atlas.slices},
        "cls_can_know": [flow.key_tokens[t] for t in flow.known_by(found.read_out)],
        "answer_needs": [flow.key_tokens[t] for t in found.needed],
    }


def figure_3() -> dict[str, Any]:
    """Draw figure 3 and count its cells."""
    voronoi = hm.power_diagram(KEYS, np.zeros(len(KEYS)))
    attention = hm.attention_diagram(KEYS)
    counts = [int(diagram.nonempty.sum()) for diagram in (voronoi, attention)]
    titles = [f"(a) Voronoi diagram: {counts[0]} cells", f"(b) attention: {counts[1]} cells with interior"]
    figure = compare_diagrams([voronoi, attention], titles=titles, box=hm.Box.cube(2, -3, 3))
    save(figure, "figure3")
    losers = np.flatnonzero(~attention.nonempty).tolist()
    return {
        "keys": len(KEYS),
        "voronoi_cells": counts[0],
        "attention_cells": counts[1],
        "keys_without_cell": losers,
    }


def figure_4() -> dict[str, Any]:
    """Draw figure 4 and count its vertices."""
    heads = heads_of_figure_4()
    sums = [hm.minkowski_vertices(heads[:n]) for n in (1, 2, 3)]
    for result in sums:
        verification = result.verify()
        if not verification.ok:
            raise hm.errors.CertificateError(f"a count failed its check: {verification}.")
    figure = compare_sums(
        sums, titles=["one head", "two heads", "three heads"], view=(30, -50), proportions="round"
    )
    save(figure, "figure4")
    # The same six numbers per head where the directions are independent: all 216 choices win.
    steps = [np.array([7 * j + c for j in range(-2, 4)]) for c in SHIFTS]
    axes = np.eye(3, dtype=int)
    affine = hm.minkowski_vertices(
        [np.outer(p, axis) for p, axis in zip(steps, axes, strict=True)], [-(p**2) for p in steps]
    )
    linear = hm.minkowski_vertices(
        [np.column_stack([np.outer(p, axis), -(p**2)]) for p, axis in zip(steps, axes, strict=True)]
    )
    return {
        "keys_per_head": 6,
        "vertices": {"one head": sums[0].count, "two heads": sums[1].count, "three heads": sums[2].count},
        "maximum_linear_R3": hm.vertex_maximum(6, 3, 3, biased=False),
        "vertices_affine_R3": affine.count,
        "vertices_linear_R4": linear.count,
    }


def regions() -> dict[str, Any]:
    """Enumerate, verify and draw the regions of a transformer, and sample it as the paper does."""
    network = hm.Network.random(**TRANSFORMER)
    # load the kernels first, so that the times below are those of the work
    hm.count_regions(network.truncate(2), SQUARE)
    hm.estimate_cells(network, SQUARE, n_samples=1000)
    start = time.perf_counter()
    found = hm.enumerate_regions(network, SQUARE)
    counted = time.perf_counter()
    n_regions = found.n_regions
    glued = time.perf_counter()
    estimate = hm.estimate_cells(network, SQUARE, n_samples=SAMPLES)
    sampled = time.perf_counter()
    found.verify().require()
    sizes = {name: TRANSFORMER[name] for name in ("n_tokens", "heads", "d_ff", "depth")}
    bounds = hm.region_bounds(d_model=TRANSFORMER["d"], **sizes, biased=True)
    title = f"A transformer of depth 3 on $[-4, 4]^2$: {found.n_cells:,} cells, exactly"
    save(draw_regions(found, title=title).figure, "regions")
    save(compare_depths(network, SQUARE), "regions-by-depth")
    return {
        "n_cells": found.n_cells,
        "n_regions": n_regions,
        "complete": found.complete,
        "cells_by_depth": list(hm.count_cells(network, SQUARE).cells_by_depth),
        "lower_bound": f"{bounds.lower.value:.3e}",
        "upper_bound": f"{bounds.upper.value:.3e}",
        "n_samples": SAMPLES,
        "n_signatures": estimate.n_signatures,
        "unseen_mass": estimate.unseen_mass,
        "seconds": {
            "cells": round(counted - start, 3),
            "regions": round(glued - counted, 3),
            "sampling": round(sampled - glued, 3),
        },
    }


def advice() -> dict[str, Any]:
    """How many heads and layers the pairwise target needs, and what breaks without one of them."""
    matrices = np.random.default_rng(0).standard_normal((D, 4, 4))
    found = hm.advise(hm.targets.pairwise(matrices), TOKENS)
    save(found.plot().figure, "advice")
    best = found.suggestions[0]
    return {
        "heads": list(best.heads),
        "widths": list(best.widths),
        "parameters": best.parameters,
        "learns": best.share,
        "without_a_head_of_layer_1": best.without[0].share,
    }


def trace() -> dict[str, Any]:
    """The example of appendix E: four tokens, two layers, and whether CLS has what the target needs."""
    reproduction = hm.reproduce("infoflow.fig5", OUT)
    return {row.quantity: row.computed for row in reproduction.comparisons}


def trained() -> dict[str, Any]:
    """The bundled model: how well it learned, what reaches its last token, and the cells of its first
    layer.
    """
    model = bundled_model()
    (target,) = outputs_of(model.about["job"]["target"])
    inputs = target.sample(1000, model.shape.n_tokens, rng=5)
    error = float(((model(inputs)[:, 0] - target(inputs)) ** 2).mean() / target(inputs).var())
    share = routed_flow(model.shape, model.vector, inputs).learns(target).share
    plane = np.eye(2, model.shape.d_token)
    first_layer = query_network(model.shape, model.vector, inputs[0])
    found = hm.enumerate_regions(first_layer.restrict(np.zeros(len(plane[0])), plane), SQUARE)
    title = f"A trained layer of two heads on a plane of queries: {found.n_cells} cells, exactly"
    save(draw_regions(found, title=title).figure, "trained-layer")
    return {"nmse": error, "what_it_needs_arrives": share, "cells_of_layer_1": found.n_cells}


def ledger() -> dict[str, Any]:
    """Every statement of both papers, checked."""
    checked = hm.check_claims(CLAIMS)
    return {
        "counts": {str(verdict): n for verdict, n in checked.counts.items()},
        "surprises": [entry.name for entry in checked.surprises],
        "certificates": sum(entry.certificate is not None for entry in checked.entries),
    }


def save(figure: Any, name: str) -> None:
    """Write a figure as SVG and as PNG."""
    for ending in ("svg", "png"):
        figure.savefig(OUT / f"{name}.{ending}")


def main() -> int:
    """Make the figures and say what they show."""
    OUT.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    print("A report on a trained transformer, two figures, exact regions, advice, a trace and the ledger")
    print("(the first run compiles kernels; later ones load them)")
    page, third, fourth, exact = report(), figure_3(), figure_4(), regions()
    advised, traced, model = advice(), trace(), trained()
    checking = time.perf_counter()
    verdicts = ledger()
    checking = time.perf_counter() - checking
    counts = {
        "report": page,
        "figure3": third,
        "figure4": fourth,
        "regions": exact,
        "advice": advised,
        "appendix_e": traced,
        "trained_model": model,
        "ledger": verdicts,
    }
    (OUT / "counts.json").write_text(json.dumps(counts, indent=2) + "\n")
    seconds, by_depth = exact["seconds"], ", ".join(f"{n:,}" for n in exact["cells_by_depth"])
    never = " and ".join(map(str, third["keys_without_cell"]))
    can, of = page["keys_can_win"]
    print(f"""
Report: {page["page"]}
  {page["heads"]} heads of a trained transformer on a random sequence; the winning key leads by \
{page["median_margin"]:.1f} units of temperature
  {can} of {of} keys can win; {" and ".join(f"{n} cells in {layer}" for layer, n in page["cells"].items())} \
on a plane of inputs, exactly
  the last token can know {", ".join(page["cls_can_know"])}; the answer depends on \
{", ".join(page["answer_needs"])}

Figure 3: {third["keys"]} keys in the plane
  {third["voronoi_cells"]:>3} cells of the Voronoi diagram
  {third["attention_cells"]:>3} attention cells: keys {never} lie in the hull of the others

Figure 4: {fourth["keys_per_head"]} keys per head, vertices of the Minkowski sum, linear scores in R^3""")
    for heads, count in fourth["vertices"].items():
        print(f"  {count:>3} with {heads}")
    print(f"""\
  {fourth["maximum_linear_R3"]:>3} is the most that any three heads can have
  {fourth["vertices_affine_R3"]:>3} with three heads and biases in R^3, all 6^3 choices
  {fourth["vertices_linear_R4"]:>3} with three heads in R^4, all 6^3 choices
  {WHY_NOT_216}

Regions: a random transformer, 3 layers, 3 heads, 30 tokens, 48 ReLU units each, on [-4, 4]^2
  {exact["n_cells"]:>5,} cells, all of them, in {seconds["cells"]:.2f} s; block by block {by_depth}
  {exact["n_regions"]:>5,} linear regions: adjacent cells compared exactly, in {seconds["regions"]:.2f} s
  {exact["n_signatures"]:>5,} cells found by {SAMPLES:,} random points, in {seconds["sampling"]:.2f} s
  {exact["upper_bound"]} is what no network of this shape exceeds; some have at least {exact["lower_bound"]}

Advice: the sum of {D} maxima of bilinear forms over pairs of {TOKENS} tokens
  heads {advised["heads"]}, widths {advised["widths"]}, {advised["parameters"]:,} parameters: what it needs \
arrives on {advised["learns"]:.0%} of random inputs
  with one head of the first layer less: on {advised["without_a_head_of_layer_1"]:.0%}

Appendix E: layer 1 reads {traced["positions read in layer 1, score negated"]}; with the score as printed \
{traced["positions read in layer 1, score as printed"]}

Trained: the model that comes along, two layers of two heads on the sum of two such maxima, 15 tokens
  {model["nmse"]:.1e} of the variance is left; the winning tokens reach the last one on \
{model["what_it_needs_arrives"]:.1%} of random inputs
  {model["cells_of_layer_1"]} cells of its first layer in a plane of queries

Ledger: {", ".join(f"{n} {verdict}" for verdict, n in verdicts["counts"].items())}; \
{verdicts["certificates"]} certificates, in {checking:.0f} s (hardmax claims check)

{time.perf_counter() - start:.1f} s; the report, the pictures and counts.json are in {OUT}""")
    return 0


if __name__ == "__main__":
    sys.exit(main())
