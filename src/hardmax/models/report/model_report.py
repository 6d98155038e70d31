"""The report of one text: what both papers say about a trained model on it, measured, in one HTML file.

Its numbers come from :mod:`hardmax.models.atlas.head_measures` (margins) and :mod:`hardmax.models.influence`.

:func:`text_report` reads the text once and puts together the head atlas (P1), the information sets of the
model's own routing (P2) and, where the text is short, the influence of tokens. The result writes a folder:
the page, its numbers as JSON and CSV, and each drawing as a file. Everything is made before anything is
written, and every file appears whole or none does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from hardmax.errors import InvalidInputError, written
from hardmax.models.atlas.head_atlas import AtlasRecorder, HeadAtlas, atlas_of
from hardmax.models.influence.influence_report import InfluenceReport, report_of
from hardmax.models.influence.interventions import CANDIDATES, can_disturb, disturb, text_influence
from hardmax.models.influence.routing_flow import FlowRecorder, RolloutRecorder, RoutingRule, TokenFlow
from hardmax.models.reading.loading import read
from hardmax.models.reading.sources import CapturedLayer
from hardmax.models.report.files import in_frame, write_report
from hardmax.models.report.kept_attention import AttentionRecorder, KeptAttention
from hardmax.models.report.page import figures_of, heads_csv, page
from hardmax.models.report.svg import Figure
from hardmax.models.report.verdict import Verdict, percent, verdict_of
from hardmax.results import Result, plain, timeless

RULES = ("argmax", "top-3", "mass 0.9")
"""What heads are taken to read, if nothing else is said."""

INFLUENCE_TOKENS = 64
"""Texts up to this length have the influence of their tokens measured."""

_CLASSIFICATION = ("[CLS]", "CLS", "<cls>")
_SCHEMA = 2

Progress = Callable[[str, int, int], object]
"""Called with what is being done, how far it is, and how much there is; 0 of 0 where that is not known."""


@dataclass(frozen=True, eq=False, repr=False)
class ModelReport(Result):
    """What :func:`hardmax.report` found on one text; :meth:`write` makes the page.

    Attributes
    ----------
    atlas : HeadAtlas
    flows : tuple of TokenFlow
        One per rule.
    influence : InfluenceReport or None
    read_out : int
        The position whose knowledge is shown.
    d_head : int
        The dimension of queries and keys, the largest over layers.
    needed : tuple of int
        Positions that the right answer depends on, where the model was trained on a known target.
    about : str
        What the model is, in a sentence, where it is known.
    attention : KeptAttention or None
        What the page keeps of every head; None without rules, and for a model and text that are too large.

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.report(rng=1, rules=["argmax"])
    >>> found.verdict.follows
    ("The report's sections on argmax describe ... of 4 heads...",)
    >>> sorted(found.figures)
    ['growth', 'guarantees', 'hardness', 'keys', 'margins', 'recall', 'sinks', 'slice-0', 'slice-1']
    >>> found.html().startswith("<!doctype html>")
    True
    """

    kind: ClassVar[str] = "ModelReport"
    _nested: ClassVar[dict[str, type]] = {
        "atlas": HeadAtlas,
        "flows": TokenFlow,
        "influence": InfluenceReport,
        "attention": KeptAttention,
    }

    atlas: HeadAtlas
    flows: tuple[TokenFlow, ...]
    influence: InfluenceReport | None
    read_out: int
    d_head: int
    needed: tuple[int, ...] = ()
    about: str = ""
    attention: KeptAttention | None = None

    @cached_property
    def verdict(self) -> Verdict:
        """How well hardmax describes the model on this text, what follows, and what to look at first."""
        return verdict_of(self.atlas, self.attention, self.influence)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Every drawing of the page, by name."""
        return figures_of(self)

    def html(self) -> str:
        """The page as text."""
        return page(self)

    def _repr_html_(self) -> str:
        return in_frame(self.html())

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain Python: verdict, atlas, flows, recall of influence; no times."""
        atlas = timeless(self.atlas.summary())
        return {
            "kind": self.kind,
            "schema": _SCHEMA,
            "model": self.atlas.model,
            "about": self.about,
            "read_out": self.read_out,
            "needed": list(self.needed),
            "d_head": self.d_head,
            "verdict": self.verdict.to_dict(),
            "atlas": plain(atlas),
            "flows": [
                {
                    "rule": flow.rule,
                    "sizes": flow.sizes.tolist(),
                    "read_out_knows": list(flow.known_by(self.read_out)),
                }
                for flow in self.flows
            ],
            "influence": None if self.influence is None else plain(self.influence.to_dict()),
            "provenance": dict(self.provenance),
        }

    def write(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Write the page, its numbers and its drawings into a folder, which is made if it does not exist.

        Returns
        -------
        tuple of Path
            ``report.html``, ``report.json``, ``heads.csv`` and ``figures/*.svg``.

        Notes
        -----
        Every file is written under a temporary name first; they get their names together at the end, the page
        last. A failure before that leaves an older report as it was.
        """
        return write_report(
            folder,
            self.html(),
            self.to_dict(),
            {"heads.csv": heads_csv(self.atlas)},
            {name: figure.standalone() for name, figure in self.figures.items()},
        )

    def _summary(self) -> str:
        heads, tokens = len(self.atlas.heads), len(self.atlas.text_tokens)
        share = percent(self.verdict.share)
        return f"{self.atlas.model}, {heads} heads on {tokens} tokens, {share} of the queries near hardmax"

    def _table(self) -> Any:
        return self.atlas._table()


def text_report(
    source: Any,
    text: Any = None,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    rules: Sequence[str] = RULES,
    read_out: int | None = None,
    influence: bool | None = None,
    progress: Progress | None = None,
) -> ModelReport:
    """What both papers say about a model that is open, on one text; options as in :func:`hardmax.report`."""
    check_options(source, text, rules=rules, influence=influence)
    disturbs = bool(rules) and influence is not False and can_disturb(source, text)
    atlas = AtlasRecorder(
        source, layers=layers, heads=heads, progress=None if progress is None else partial(progress, "layers")
    )
    shape = _ShapeRecorder(None if rules else atlas.layers)
    flow = FlowRecorder([*rules, CANDIDATES] if disturbs else rules) if rules else None
    kept = AttentionRecorder(source) if rules else None
    rollout = RolloutRecorder(max_tokens=None if influence else INFLUENCE_TOKENS) if disturbs else None
    if progress is not None:
        progress("reading the text", 0, 0)
    reading = read(source, text, [one for one in (atlas, shape, flow, kept, rollout) if one is not None])
    found = atlas_of(atlas, reading)
    flows = flow.flows(reading) if flow else ()
    if read_out is None and getattr(source, "kinds", None):
        read_out = -1  # what the decoder writes next
    position = _read_out(read_out, reading.tokens, shape.n_readable)
    measured = None
    if rollout is not None and rollout.walks:
        walked = rollout.rollout(len(reading.key_tokens))
        influenced = text_influence(
            disturb(source, text),
            flows,
            walked,
            progress=None if progress is None else lambda _, done, total: progress("influence", done, total),
        )
        measured = report_of(source.name, [influenced])
    return ModelReport(
        atlas=found,
        flows=flows[: len(rules)],
        influence=measured,
        read_out=position,
        d_head=shape.d_head,
        needed=getattr(source, "needed", ()),
        about=getattr(source, "about", ""),
        attention=kept.kept() if kept else None,
    )


def check_options(source: Any, text: Any, *, rules: Sequence[str], influence: bool | None) -> None:
    """Refuse what cannot be done with a text, before anything is read."""
    for rule in rules:
        RoutingRule.of(rule)
    if influence and not can_disturb(source, text):
        raise InvalidInputError(
            "influence must be left out for a model or an input whose tokens cannot be disturbed: it is "
            "measured with other tokens in their place."
        )


def _read_out(position: int | None, tokens: Sequence[str], n_readable: Sequence[int]) -> int:
    if position is None:
        # under a causal mask a first token that is called [CLS] reads nothing but itself
        most = max(n_readable)
        full = [t for t, n in enumerate(n_readable) if n == most]
        return next((t for t in full if tokens[t] in _CLASSIFICATION), full[-1])
    if not -len(tokens) <= position < len(tokens):
        raise InvalidInputError(
            f"read_out must be from 0 to {len(tokens) - 1} (or count from the end), "
            f"but was {written(position)}."
        )
    return position % len(tokens)


class _ShapeRecorder:
    """The largest dimension of queries and keys, and how many keys each query of the first layer may read."""

    def __init__(self, layers: tuple[int, ...] | None) -> None:
        self.layers = layers
        self.d_head = 0
        self.n_readable: tuple[int, ...] = ()

    def __call__(self, layer: CapturedLayer) -> None:
        self.d_head = max(self.d_head, int(layer.keys.shape[2]))
        self.n_readable = self.n_readable or tuple(int(n) for n in layer.present.sum(axis=1))
