"""The verb ``hardmax.report``: a model on one text, or on many, ready to be written as one page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.limits import Clock
from hardmax.models.bundled import bundled_source
from hardmax.models.reading.loading import as_source
from hardmax.models.reading.texts import is_corpus
from hardmax.models.report.corpus_report import FULL_TEXTS, CorpusReport, corpus_report
from hardmax.models.report.model_report import RULES, ModelReport, Progress, text_report
from hardmax.progress import shown


@overload
def report(model: Any = None, text: str | None = None, **options: Any) -> ModelReport: ...


@overload
def report(
    model: Any, text: Sequence[str] | Mapping[str, str] | NDArray[np.float64], **options: Any
) -> CorpusReport: ...


def report(  # type: ignore[misc]
    model: Any = None,
    text: str | Sequence[str] | Mapping[str, str] | NDArray[np.float64] | None = None,
    *,
    tokenizer: Any = None,
    hub: bool = False,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    rules: Sequence[str] = RULES,
    read_out: int | None = None,
    influence: bool | None = None,
    full: int | Sequence[str] = FULL_TEXTS,
    confidence: float = 0.95,
    checkpoint: str | os.PathLike[str] | None = None,
    rng: int | np.random.Generator = 0,
    time_limit: float | None = None,
    progress: bool | Progress | None = None,
) -> ModelReport | CorpusReport:
    """What both papers say about a model on a text, or on many, ready to be written as a page.

    Parameters
    ----------
    model : path, hub id, torch module or Source, optional
        Without one the bundled model, which needs no torch.
    text : str, or many of them, optional
        What is read. A list of texts, a dictionary of names and texts (:func:`hardmax.models.read_texts`
        reads them from files) or an array (B, T, d) of sequences gives a
        :class:`~hardmax.models.CorpusReport`: one page with the verdict over all texts, on which the reader
        chooses one of those that are kept in full. The bundled model reads sequences of vectors; without one
        it draws its own with ``rng``.
    tokenizer, hub, layers, heads
        As in :func:`hardmax.head_atlas`.
    rules : sequence of str
        Which keys a head is taken to read, for information sets: ``argmax``, ``top-K``, ``mass M``.
    read_out : int, optional
        The position whose knowledge is shown; the classification token where one reads everything, else the
        last token that does.
    influence : bool, optional
        Whether the influence of tokens is measured too (one forward pass per token and more). By
        default for texts of at most 64 tokens. Of many texts, on those that are kept in full.
    full : int or sequence of str
        Of many texts: how many the page keeps in full, or which, by name. The first is taken, then the most
        typical, the most unusual, the hardest and the softest, then the others in order.
    confidence : float
        Of the intervals over texts, where there are many.
    checkpoint : path-like, optional
        For many texts: a folder in which every text that was measured is kept. A run that was killed goes on
        from there with the same call, and loses at most one text.
    rng : int or numpy Generator
        Draws the sequence of the bundled model.
    time_limit : float, optional
        Seconds after which it is given up, looked at between layers, passes of the model and texts.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with what is being done (loading,
        layers, influence, texts), how far it is and how much there is.

    Returns
    -------
    ModelReport, or CorpusReport for many texts

    Raises
    ------
    IncompleteError
        When the time is over; texts that were measured are in the ``checkpoint``.

    Examples
    --------
    >>> import tempfile
    >>> found = report()
    >>> found
    <ModelReport: pairwise-2, 4 heads on 16 tokens, ... % of the queries near hardmax>
    >>> [path.name for path in found.write(tempfile.mkdtemp())][:3]
    ['report.html', 'report.json', 'heads.csv']

    Many sequences, of which the page keeps two in full:

    >>> sequences = np.random.default_rng(0).standard_normal((10, 15, 4))
    >>> report(None, sequences, full=2)
    <CorpusReport: pairwise-2, 4 heads on 10 texts, 2 of them in full, ... % of the queries near hardmax>
    """
    clock = Clock(time_limit, "read the model and measure it")
    many = is_corpus(text)
    if checkpoint is not None and not many:
        raise InvalidInputError("checkpoint belongs to many texts, but one was given; try [text].")
    options: dict[str, Any] = {
        "layers": layers,
        "heads": heads,
        "rules": rules,
        "read_out": read_out,
        "influence": influence,
    }
    with shown(progress, _line, clock) as told:
        if told is not None:
            told("loading the model", 0, 0)
        source = bundled_source(rng=rng) if model is None else as_source(model, tokenizer=tokenizer, hub=hub)
        if not many:
            return text_report(source, text, **options, progress=told)
        return corpus_report(
            source, text, **options, full=full, confidence=confidence, checkpoint=checkpoint, progress=told
        )


def _line(stage: str, done: int, total: int) -> tuple[float | None, str]:
    """What the bar shows."""
    return (None, stage) if not total else (done / total, f"{stage}: {done:,} of {total:,}")
