"""``hardmax influence``: what the tokens of a real model can know, and what really matters to them."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hardmax as hm
from hardmax.cli.models import TextsDone, many_texts, model_and_text, pace, refuse_words, texts_of
from hardmax.cli.numbers import REAL, WHOLE, WholeRange
from hardmax.cli.outputs import check_targets, out_option, print_json, print_table, save_and_draw
from hardmax.errors import InvalidInputError
from hardmax.models.reading.texts import text_of

if TYPE_CHECKING:
    from hardmax.models.atlas.frozen_norms import FrozenNormEffect
    from hardmax.models.influence.corpus_influence import CorpusInfluence
    from hardmax.models.influence.influence_report import InfluenceReport
    from hardmax.models.spread import MeanIntervals, Spread


@click.command()
@model_and_text
@many_texts
@click.option(
    "--rule",
    "rules",
    multiple=True,
    default=("argmax", "top-3", "mass 0.5"),
    show_default=True,
    help="Which keys a head reads: argmax, top-K, mass M. Several are allowed.",
)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    help="What replaces a token: mean, mask, zero; several are allowed. If not given, mean and mask.",
)
@click.option(
    "--probes",
    type=WHOLE,
    help="Directions for gradients; 0 for none. If not given, all for short texts, else 8.",
)
@click.option(
    "--read-out", "position", type=WHOLE, metavar="POSITION", help="Also list what this token can know."
)
@click.option("--norms", is_flag=True, help="Also compare routing with norms frozen and as they are.")
@click.option("--draws", type=WHOLE, default=200, show_default=True, help="Random sets per token.")
@click.option("--seed", type=WholeRange(min=0), default=0, show_default=True, help="Moves every random draw.")
@click.option("--time-limit", type=REAL, metavar="S", help="Give up after this many seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@out_option()
def influence(
    model: str | None,
    text: str | None,
    file: Path | None,
    texts: str | None,
    field: str | None,
    checkpoint: Path | None,
    hub: bool,
    rules: tuple[str, ...],
    baselines: tuple[str, ...],
    probes: int | None,
    position: int | None,
    norms: bool,
    draws: int,
    seed: int,
    time_limit: float | None,
    as_json: bool,
    out: Path | None,
) -> None:
    """How much of what matters to a token lies inside its information set.

    MODEL is a folder with a Hugging Face model (safetensors), or an id with --hub; both need the extra
    models. Without MODEL the bundled model is read. Information sets
    follow the model's own routing; influence is measured by replacing input tokens and by gradients; sets
    are compared with random ones, with those of attention rollout, and with the best ones of the same size.
    A .json file of --texts is reported text by text; other files of texts are a corpus, with intervals over
    texts.

    \b
    Examples:
      hardmax influence --read-out 15
      hardmax influence path/to/model --text "The cat sat on the mat."
      hardmax influence path/to/model --texts texts.json --probes 8 --norms --json
      hardmax influence path/to/model --texts lines.txt --probes 0 --checkpoint run
    """
    from hardmax.models.bundled import bundled_source
    from hardmax.models.reading.loading import as_source

    check_targets(out, None)
    if model is None:
        refuse_words(text, file, texts)
    many = texts_of(texts, field)
    corpus = many is not None and not str(texts).lower().endswith(".json")
    named: dict[str, Any] = {"one sequence": None} if model is None else _texts(text, file, many)
    if checkpoint is not None and not corpus:
        raise InvalidInputError("--checkpoint belongs to a corpus: --texts with lines, JSONL or a glob.")
    if corpus and (norms or position is not None):
        raise InvalidInputError("--norms and --read-out belong to one text; leave them out for a corpus.")
    source = bundled_source() if model is None else as_source(model, hub=hub)
    if corpus:
        done = TextsDone()
        found = hm.measure_influence(
            source,
            list(named.values()),
            rules=rules,
            baselines=baselines or None,
            probes=probes,
            n_draws=draws,
            rng=seed,
            checkpoint=checkpoint,
            time_limit=time_limit,
            progress=(lambda _, n, total: done(n, total)) if sys.stderr.isatty() else None,
        )
        save_and_draw(found, out, None)
        print_json(found.to_dict()) if as_json else _print_corpus(found)
        return
    report = hm.measure_influence(
        source,
        named,
        rules=rules,
        baselines=baselines or None,
        probes=probes,
        n_draws=draws,
        rng=seed,
        time_limit=time_limit,
        progress=_Passes() if sys.stderr.isatty() else None,
    )
    known = _known(report, position)  # a wrong position is said before anything is printed or saved
    compared = {name: hm.models.frozen_norm_effect(source, words) for name, words in named.items() if norms}
    save_and_draw(report, out, None)
    if as_json:
        effects = {name: comparison.to_dict() for name, comparison in compared.items()}
        print_json({**report.to_dict(), "known": known, "norms": effects})
        return
    _print_growth(report)
    for measure in report.measures:
        _print_recall(report, measure)
    for name, rows in known.items():
        for rule, tokens in rows.items():
            click.echo(f"{name}, {rule}: position {position} can know {len(tokens)}: {' '.join(tokens)}")
    for name, comparison in compared.items():
        _print_norms(name, comparison)


class _Passes:
    """One line on the terminal: how far a text is, and how long it will take."""

    def __init__(self) -> None:
        self._text, self._begin, self._first = "", 0.0, 0

    def __call__(self, text: str, done: int, total: int) -> None:
        now, left = time.monotonic(), ""
        if text != self._text:
            self._text, self._begin, self._first = text, now, done
        else:
            rest = (now - self._begin) * (total - done) / (done - self._first)
            left = f", about {rest:.0f} s left" if done < total else ""
        line = f"{text}: {done:,} of {total:,} passes through the model{left}"
        click.echo(f"\r\033[K{line}" + ("\n" if done == total else ""), nl=False, err=True)


def _texts(text: str | None, file: Path | None, texts: dict[str, str] | None) -> dict[str, str]:
    if sum(given is not None for given in (text, file, texts)) != 1:
        raise InvalidInputError("exactly one of --text, --file and --texts must be given.")
    if file is not None:
        return {file.name: text_of(file)}
    return {"text": str(text)} if texts is None else texts


def _print_corpus(found: CorpusInfluence) -> None:
    shown = ("share_compared", "size", "random", "recall", "rollout", "best")
    parts = {name: found.interval(name) for name in (*shown, "gain", "rollout_gain")}
    for j, measure in enumerate(found.measures):
        rows = [
            [
                str(layer + 1),
                rule,
                *(_rounded(parts[name].mean[layer, i, j], "{:.1%}") for name in shown),
                *(_interval(parts[name], (layer, i, j)) for name in ("gain", "rollout_gain")),
            ]
            for layer in range(found.n_layers)
            for i, rule in enumerate(found.rules)
        ]
        notes = [
            "Means over texts of medians over the compared tokens of each; in brackets "
            f"{100 * found.confidence:g} % intervals over texts (Student's t).",
            "Gain: 0 as a random set, 1 as the best of the size.",
            pace(len(found.names), found.seconds),
        ]
        columns = [
            "after", "rule", "compared", "set size", "random", "information set", "rollout", "best", "gain",
            "rollout's gain",
        ]  # fmt: skip
        print_table(f"Recall of influence on {len(found.names)} texts: {measure}", columns, rows, notes)


def _interval(found: MeanIntervals, place: tuple[int, int, int]) -> str:
    mean, low, high = (float(part[place]) for part in (found.mean, found.low, found.high))
    return _rounded(mean, "{:.2f}") + ("" if math.isnan(low) else f" ({low:.2f}..{high:.2f})")


def _rounded(value: float, form: str) -> str:
    return "" if math.isnan(value) else form.format(value)


def _known(report: InfluenceReport, position: int | None) -> dict[str, dict[str, list[str]]]:
    if position is None:
        return {}
    return {
        text.name: {
            flow.rule: [flow.key_tokens[s] for s in flow.known_by(position)]
            for flow in text.flows
            if flow.rule in report.rules
        }
        for text in report.texts
    }


def _print_growth(report: InfluenceReport) -> None:
    rows = [
        [text.name, flow.rule, *(f"{size:g}" for size in flow.growth["median"]), str(len(flow.key_tokens))]
        for text in report.texts
        for flow in text.flows
        if flow.rule in report.rules
    ]
    columns = ["text", "rule", *(f"after {layer}" for layer in range(report.n_layers + 1)), "of"]
    print_table("Tokens that a token can know (median)", columns, rows)


def _print_recall(report: InfluenceReport, measure: str) -> None:
    found = [
        report.summary(layer=layer, rule=rule, measure=measure)
        for layer in range(1, report.n_layers + 1)
        for rule in report.rules
    ]
    names = ("size", "random", "recall", "rollout", "best")
    rows = [
        [
            str(summary.layer),
            summary.rule,
            f"{summary.share_compared:.0%}",
            *(_share(getattr(summary, name)) for name in names),
            _gain(summary.gain),
            _gain(summary.rollout_gain),
        ]
        for summary in found
    ]
    notes = [
        "Medians over tokens, the token itself left out; tokens whose set is empty or full are not compared.",
        "Gain: 0 as a random set, 1 as the best of the size; quartiles in brackets.",
    ]
    if measure == "gradient":
        text = report.texts[0]
        notes.append(
            "Gradients are exact."
            if report.gradient_exact
            else f"Gradients are estimated from {text.gradient_probes} of {text.d} directions; median "
            f"relative standard error {max(text.gradient_error for text in report.texts):.1%} (worst text)."
        )
    columns = [
        "after", "rule", "compared", "set size", "random", "information set", "rollout", "best", "gain",
        "rollout's gain",
    ]  # fmt: skip
    print_table(f"Recall of influence: {measure}", columns, rows, notes)


def _share(found: Spread) -> str:
    return f"{found.median:.1%}" if found.n else ""


def _gain(found: Spread) -> str:
    return f"{found.median:.2f} ({found.lower_quartile:.2f} to {found.upper_quartile:.2f})" if found.n else ""


def _print_norms(name: str, comparison: FrozenNormEffect) -> None:
    import numpy as np

    rows = [
        [str(layer), *(f"{share:.1%}" for share in np.median(shares, axis=0))]
        for layer, shares in zip(comparison.layers, comparison.any_head, strict=True)
    ]
    notes = [
        f"Sliced: {comparison.sliced}; {comparison.plane} plane through each token, "
        f"{comparison.n_points} points.",
        "Radii in units of the token's median distance from the other tokens; medians over tokens.",
    ]
    columns = ["layer", *(f"radius {radius:g}" for radius in comparison.radii)]
    title = f"Share of a disk on which some head reads another key with its norm frozen: {name}"
    print_table(title, columns, rows, notes)
