r"""How much an input token matters for an output token, measured on the model itself.

Write :math:`y_t^{(l)}(x_1, ..., x_N)` for the state of token t after l layers as a function of the input
embeddings. Two measures of the influence of token s on it:

* **ablation**, an exact intervention: :math:`\lVert y_t^{(l)}(x) - y_t^{(l)}(x \text{ with } x_s
  \text{ replaced by a baseline}) \rVert_2`, one forward pass per token;
* **gradient**: the Frobenius norm of the Jacobian block :math:`\partial y_t^{(l)} / \partial x_s`. With an
  orthonormal basis of directions :math:`u_1, ..., u_d` its square is :math:`\sum_i \lVert \partial y_t /
  \partial x_s\, u_i\rVert^2`, by forward differentiation, for all tokens and layers at once. The first m of
  a random basis give the unbiased estimate :math:`\tfrac dm \sum_{i \le m}`, all d the exact value.

What is replaced or moved is the embedding of the token's word alone: its position (and type) stays where the
model adds that later. Nothing is trained and nothing is changed in the model.

:func:`measure_influence` asks for every layer, token, rule and measure how much of the influence lies inside
the information sets (:mod:`hardmax.models.influence.influence_report`).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.limits import Clock
from hardmax.models.influence.corpus_influence import CorpusInfluence, corpus_influence
from hardmax.models.influence.influence_report import InfluenceReport, TextInfluence, report_of
from hardmax.models.influence.routing_flow import FlowRecorder, RolloutRecorder, TokenFlow
from hardmax.models.reading.loading import as_source, in_float32, read
from hardmax.models.reading.sources import named_texts, required
from hardmax.models.reading.texts import is_corpus
from hardmax.models.reading.watching import implementation
from hardmax.progress import shown
from hardmax.randomness import generator_of

Floats = NDArray[np.float64]

Passed = Callable[[int], None]
"""Called with the number of passes through the model since its last call."""

Progress = Callable[[str, int, int], object]

BASELINES = {
    "mean": "the mean of all rows of the embedding table",
    "mask": "the embedding of the tokenizer's mask token",
    "zero": "the zero vector",
}

CANDIDATES = "readable"
"""The rule whose sets hold everything that can matter: recall is a share of these."""

_SAME = 1e-4
_TOKENS_AT_ONCE = 2048  # rows of a batch times tokens: bounds the memory, not the result
_EXACT_PASSES = 4096  # texts whose Jacobians take no more directions than this are differentiated exactly
_PROBES = 8


@dataclass(frozen=True, eq=False)
class GradientInfluence:
    """Norms of Jacobian blocks."""

    norms: Floats  # (L, Q, N): of the block of output token t and input token s after layers 1, ..., L
    probes: int  # directions that were used
    d: int  # of how many
    relative_error: float  # the median relative standard error of the norms; zero where all were used

    @property
    def exact(self) -> bool:
        """Whether every direction was used, so that only rounding remains."""
        return self.probes == self.d


class Disturbed(Protocol):
    """One text in one model, ready to be disturbed."""

    n_tokens: int
    d: int

    @property
    def differentiable(self) -> bool:
        """Whether gradients can be taken."""
        ...

    def baselines(self) -> dict[str, str]:
        """What can be put in the place of a token, in words."""
        ...

    def ablation(self, baseline: str, *, passed: Passed | None = None) -> Floats:
        """How far each state moves when one input token is replaced: (L, Q, N), exact."""
        ...

    def gradient(
        self, *, probes: int | None = None, rng: int = 0, passed: Passed | None = None
    ) -> GradientInfluence:
        """Norms of the Jacobian blocks of all states."""
        ...


def can_disturb(source: Any, text: Any) -> bool:
    """Whether the tokens of this text can be replaced in this model; encoded inputs and images cannot be."""
    if hasattr(source, "disturb"):
        return True
    return isinstance(text, str) and hasattr(source, "module") and _one_sequence(source)


def _one_sequence(opened: Any) -> bool:
    """Whether what is read are the tokens of one text, not those of a decoder or a null key besides."""
    return not getattr(opened, "kinds", ()) and not getattr(getattr(opened, "places", None), "sinks", False)


def disturb(source: Any, text: str | None) -> Disturbed:
    """A text in a model, ready to be disturbed: as the source does it itself, or by torch."""
    own = getattr(source, "disturb", partial(Interventions, source))
    disturbed: Disturbed = own(text)
    return disturbed


class Interventions:
    """One text in one torch model, ready to be disturbed.

    Parameters
    ----------
    opened : OpenModel
        With ``module``, ``encode(text)`` and, for the mask token, ``tokenizer``.
    text : str

    Raises
    ------
    InvalidInputError
        When the model takes no embedded input, or computes something else from it than from the text.
    """

    def __init__(self, opened: Any, text: str | None) -> None:
        if not hasattr(opened, "module") or not hasattr(opened, "encode"):
            raise InvalidInputError(
                f"model must be a torch model to be disturbed, but {getattr(opened, 'name', opened)!s} only "
                "shows its attention; its information sets come from token_flow."
            )
        if not _one_sequence(opened):
            why = "a decoder that reads an encoder" if opened.kinds else "scores that belong to no token"
            raise InvalidInputError(
                f"model must read one sequence of tokens and nothing else to be disturbed, but {opened.name} "
                f"has {why}; its information sets come from token_flow."
            )
        if text is None:
            raise InvalidInputError("text must be a text for this model, but was None.")
        torch = required("torch")
        self._torch = torch
        self._mask = getattr(getattr(opened, "tokenizer", None), "mask_token_id", None)
        module = getattr(opened.module, "base_model", opened.module)  # without the head over the vocabulary
        table = module.get_input_embeddings()
        if getattr(table, "weight", None) is None:
            raise InvalidInputError("model must have a table of input embeddings, but has none.")
        self._module = module
        encoded = {name: tensor.to(table.weight.device) for name, tensor in opened.encode(text).items()}
        ids = encoded.pop("input_ids")
        known = inspect.signature(module.forward).parameters
        self._rest = {name: value for name, value in encoded.items() if name in known}
        with torch.no_grad(), in_float32(self._module):
            self._embedded = table(ids)[0].detach()
        self._table = table
        self.n_tokens, self.d = (int(n) for n in self._embedded.shape)
        self._check(ids)

    def _check(self, ids: Any) -> None:
        """The embedded text must give the states that the text gives."""
        with self._torch.no_grad(), in_float32(self._module):
            states = self._run(self._embedded[None])
            wanted = self._states(input_ids=ids, **self._rest)[-1]
        self._depth = len(states) - 1
        difference = float((states[-1] - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30))
        if not difference <= _SAME:
            raise InvalidInputError(
                "model must compute the same from embedded tokens as from the text, but "
                f"{type(self._module).__name__} differs by {difference:.2g} relative to its largest entry."
            )

    @cached_property
    def differentiable(self) -> bool:
        """Whether every part of the model has a forward derivative; some activations (BLOOM's) have none."""
        torch = self._torch
        forward_ad = torch.autograd.forward_ad
        embedded = self._embedded[None]
        try:
            with (
                torch.no_grad(),
                in_float32(self._module),
                implementation(self._module, "eager"),
                forward_ad.dual_level(),
            ):
                self._run(forward_ad.make_dual(embedded, torch.zeros_like(embedded)))
        except NotImplementedError:
            return False
        return True

    # What is put in the place of a token
    # ----------------------------------------------------------------------------------------------------

    def baselines(self) -> dict[str, str]:
        """The baselines that this model has, in words."""
        return {name: words for name, words in BASELINES.items() if name != "mask" or self._mask is not None}

    def _baseline(self, name: str) -> Any:
        torch = self._torch
        with torch.no_grad(), in_float32(self._module):
            if name == "mean":
                weight = self._table.weight
                index = torch.arange(len(weight), device=weight.device)
                total = sum(self._table(part).double().sum(dim=0) for part in index.split(8192))
                return (total / len(weight)).to(self._embedded.dtype)
            if name == "zero":
                return torch.zeros_like(self._embedded[0])
            if name == "mask":
                if self._mask is None:
                    raise InvalidInputError(
                        "baseline mask needs a mask token, but the tokenizer has none; try 'mean'."
                    )
                return self._table(torch.tensor([self._mask], device=self._embedded.device))[0]
        raise InvalidInputError(f"baseline must be one of {', '.join(BASELINES)}, but was {name!r}.")

    # Influence
    # ----------------------------------------------------------------------------------------------------

    def states(self) -> Floats:
        """The states of all tokens after layers 0, 1, ..., L: (L + 1, Q, d)."""
        with self._torch.no_grad(), in_float32(self._module):
            layers = self._run(self._embedded[None])
        return np.stack([layer[0].double().cpu().numpy() for layer in layers])

    def ablation(self, baseline: str = "mean", *, passed: Passed | None = None) -> Floats:
        """How far each state moves when one input token is replaced: (L, Q, N), exact."""
        torch = self._torch
        instead = self._baseline(baseline)
        n = self.n_tokens
        moved: list[Floats] = []
        with torch.no_grad(), in_float32(self._module):
            plain = [layer.double() for layer in self._run(self._embedded[None])[1:]]
            for positions in torch.arange(n).split(max(1, _TOKENS_AT_ONCE // n)):
                batch = self._embedded.repeat(len(positions), 1, 1)
                batch[torch.arange(len(positions)), positions] = instead
                layers = self._run(batch)[1:]
                norms = [(x.double() - y).norm(dim=-1) for x, y in zip(layers, plain, strict=True)]
                moved.append(torch.stack(norms).cpu().numpy())  # (L, inputs, outputs)
                if passed is not None:
                    passed(len(positions))
        return np.ascontiguousarray(np.concatenate(moved, axis=1).swapaxes(1, 2))

    def gradient(
        self, *, probes: int | None = None, rng: int = 0, passed: Passed | None = None
    ) -> GradientInfluence:
        """Norms of the Jacobian blocks of all states: exact with all d directions, estimated with fewer.

        Parameters
        ----------
        probes : int or None
            How many directions of a random orthonormal basis are used; all for None.
        rng : int
            For the basis.
        passed : callable, optional
            Called with the passes as they are made, tokens times directions in all.
        """
        if not self.differentiable:
            raise InvalidInputError(
                f"model must have forward derivatives for a gradient, but a part of "
                f"{type(self._module).__name__} has none in torch; try probes=0."
            )
        m = self.d if probes is None else int(probes)
        if not 1 <= m <= self.d:
            raise InvalidInputError(
                f"probes must be from 1 to {self.d}, the width of the model, but was {probes}."
            )
        directions = np.eye(self.d)
        if m < self.d:
            directions = np.linalg.qr(generator_of(rng).standard_normal((self.d, m)))[0].T
        torch, n = self._torch, self.n_tokens
        forward_ad = torch.autograd.forward_ad
        moves = torch.as_tensor(directions, dtype=self._embedded.dtype, device=self._embedded.device)
        pairs = torch.cartesian_prod(torch.arange(m), torch.arange(n)).reshape(-1, 2)
        total = np.zeros((2, self._depth, n, n))  # sums of squares and of their squares
        # fused attention has no forward derivative; the plain one computes the same
        with torch.no_grad(), in_float32(self._module), implementation(self._module, "eager"):
            for part in pairs.split(max(1, _TOKENS_AT_ONCE // n)):
                rows = torch.arange(len(part))
                tangent = torch.zeros((len(part), n, self.d), dtype=moves.dtype, device=moves.device)
                tangent[rows, part[:, 1]] = moves[part[:, 0]]
                with forward_ad.dual_level():
                    dual = forward_ad.make_dual(self._embedded.repeat(len(part), 1, 1), tangent)
                    found = [forward_ad.unpack_dual(layer).tangent for layer in self._run(dual)[1:]]
                lengths = torch.stack([change.double().square().sum(dim=-1) for change in found])
                squares = lengths.cpu().numpy()  # (L, pairs, outputs)
                for row, (_, s) in enumerate(part.tolist()):
                    total[:, :, :, s] += squares[:, row], squares[:, row] ** 2
                if passed is not None:
                    passed(len(part))
        norms = np.sqrt(total[0] * (self.d / m))
        return GradientInfluence(norms, m, self.d, _relative_error(total, m, self.d))

    def _run(self, embedded: Any) -> tuple[Any, ...]:
        """The states after layers 0, 1, ..., L for a batch of embedded texts."""
        batch = len(embedded)
        rest = {name: value.expand(batch, *value.shape[1:]) for name, value in self._rest.items()}
        try:
            return self._states(inputs_embeds=embedded, **rest)
        except TypeError as error:
            raise InvalidInputError(
                f"model must accept inputs_embeds, but {type(self._module).__name__} does not."
            ) from error

    def _states(self, **inputs: Any) -> tuple[Any, ...]:
        return tuple(self._module(**inputs, output_hidden_states=True, return_dict=True).hidden_states)


def _relative_error(total: Floats, m: int, d: int) -> float:
    """The median relative standard error of a norm: half that of its square, less as fewer directions are
    left out."""
    if m == d or m == 1:
        return 0.0 if m == d else float("nan")
    mean = total[0] / m
    variance = np.maximum(total[1] / m - mean**2, 0.0) * m / (m - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = 0.5 * np.sqrt(variance / m * (1.0 - m / d)) / mean
    known = error[np.isfinite(error)]
    return float(np.median(known)) if known.size else 0.0


@overload
def measure_influence(
    model: Any, texts: str | dict[str, str] | None = None, **options: Any
) -> InfluenceReport: ...


@overload
def measure_influence(model: Any, texts: Sequence[str] | Floats, **options: Any) -> CorpusInfluence: ...


def measure_influence(  # type: ignore[misc]
    model: Any,
    texts: str | Sequence[str] | dict[str, str] | Floats | None = None,
    *,
    rules: Sequence[str] = ("argmax", "top-3", "mass 0.5"),
    baselines: Sequence[str] | None = None,
    probes: int | None = None,
    tokenizer: Any = None,
    hub: bool = False,
    n_draws: int = 200,
    n_bootstrap: int = 1000,
    rng: int = 0,
    confidence: float = 0.95,
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    progress: bool | Progress | None = None,
) -> InfluenceReport | CorpusInfluence:
    r"""How much of the influence of input tokens on output tokens lies inside the information sets.

    Parameters
    ----------
    model : OpenModel, path, hub id or torch module
    texts : str, dict from names to texts, or sequence of str
        None for a source that has a sequence of its own. One text, or a few by name, are kept with all their
        matrices in an :class:`~hardmax.models.InfluenceReport`. A list of texts (or, for models of
        :mod:`hardmax.training`, an array (B, T, d) of sequences) is a corpus: of each text only its medians
        are kept, and a :class:`~hardmax.models.CorpusInfluence` has intervals over texts.
    rules : sequence of str
        Under which the sets are made: ``argmax``, ``top-K``, ``mass M``.
    baselines : sequence of {"mean", "mask", "zero"}, optional
        What tokens are replaced by; mean, and mask where the tokenizer has one, if not given. Exact: one
        forward pass per token.
    probes : int, optional
        Directions for the gradient. None: all of them, which is exact, for texts so short that they are no
        more than 4096 (tokens times width of the model), 8 otherwise, which is an estimate whose error is
        reported; 0 leaves the gradient out. Models of :mod:`hardmax.training` have none.
    tokenizer, hub
        As in :func:`hardmax.head_atlas`.
    n_draws : int
        Random sets per token and size; their expectation is known exactly besides.
    n_bootstrap : int
    rng : int
        The seed of draws, directions and bootstrap.
    confidence : float
        Of the intervals over the texts of a corpus.
    checkpoint : path-like, optional
        For a corpus: a folder in which every text that was measured is kept. A run that was killed goes on
        from there with the same call, and loses at most one text.
    time_limit : float, optional
        Seconds after which it is given up, looked at between passes of the model.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with the name of a text, the passes
        through the model that were made for it, and how many there will be: a long text takes tokens times
        (baselines plus directions) of them. For a corpus: with ``"texts"``, the number done and their total.

    Returns
    -------
    InfluenceReport, or CorpusInfluence for a list of texts

    Raises
    ------
    IncompleteError
        When the time is over; texts that were measured are in the ``checkpoint``.

    Examples
    --------
    The bundled model has a sequence of its own; nothing need be installed for it:

    >>> from hardmax.models.bundled import bundled_source
    >>> report = measure_influence(bundled_source(), rules=["argmax"])
    >>> report
    <InfluenceReport: pairwise-2, 1 text, ... argmax by ablation mean: recall ...>
    >>> read_out = report.texts[0].flows[0].known_by(-1)         # what CLS can know at the end
    >>> int(report.texts[0].influence["ablation mean"][-1, -1].argmax()) in read_out
    True
    """
    clock = Clock(time_limit, "measure influence on all texts")
    source = as_source(model, tokenizer=tokenizer, hub=hub)
    corpus = is_corpus(texts) and not isinstance(texts, dict)
    if checkpoint is not None and not corpus:
        raise InvalidInputError("checkpoint belongs to a list of texts, but none was given; try [text].")

    def influence(name: str, text: Any, seed: int, passed: Progress | None) -> TextInfluence:
        disturbed = disturb(source, text)
        flow, rollout = FlowRecorder([*rules, CANDIDATES]), RolloutRecorder()
        reading = read(source, text, [flow, rollout])
        flows, walks = flow.flows(reading), rollout.rollout(len(reading.key_tokens))
        options: Any = {"baselines": baselines, "probes": probes, "rng": seed, "progress": passed}
        return text_influence(disturbed, flows, walks, name=name, **options)

    def line(name: str, done: int, total: int) -> tuple[float | None, str]:
        return done / total, f"{name}: {done:,} of {total:,}" if clock.limited else name

    with shown(progress, line, clock) as passed:
        within = (
            None if not clock.limited else lambda name, done, total: clock.check(line(name, done, total)[1])
        )
        if corpus:
            asked = {"rules": list(rules), "baselines": baselines, "probes": probes, "rng": rng}
            return corpus_influence(
                source,
                texts,
                lambda text: influence("a text, passes", text, rng, within),
                settings={**asked, "n_draws": n_draws},
                confidence=confidence,
                checkpoint=checkpoint,
                progress=None if passed is None else partial(passed, "texts"),
            )
        named = named_texts(texts)  # type: ignore[arg-type]
        measured = [influence(name, text, rng + i, passed) for i, (name, text) in enumerate(named.items())]
    return report_of(source.name, measured, n_draws=n_draws, n_bootstrap=n_bootstrap, rng=rng)


def text_influence(
    disturbed: Disturbed,
    flows: tuple[TokenFlow, ...],
    rollout: NDArray[np.float64],
    *,
    name: str = "text",
    baselines: Sequence[str] | None = None,
    probes: int | None = None,
    rng: int = 0,
    progress: Progress | None = None,
) -> TextInfluence:
    """The influence of every token of a text that was read: by extra passes with one token changed in each.

    Parameters
    ----------
    disturbed : Disturbed
        The text in its model.
    flows : tuple of TokenFlow
        Its information sets, the last under the rule :data:`CANDIDATES`.
    rollout : array (L, Q, N)
    name, baselines, probes, rng, progress
        As in :func:`measure_influence`, for one text.
    """
    words = disturbed.baselines()
    chosen = [name for name in words if name != "zero"] if baselines is None else baselines
    directions = _directions(disturbed) if probes is None else probes
    done, total = 0, disturbed.n_tokens * (len(chosen) + directions)

    def passed(n: int) -> None:
        nonlocal done
        done += n
        if progress is not None:
            progress(name, done, total)

    influence = {f"ablation {baseline}": disturbed.ablation(baseline, passed=passed) for baseline in chosen}
    gradient = disturbed.gradient(probes=directions, rng=rng, passed=passed) if directions else None
    if gradient is not None:
        influence["gradient"] = gradient.norms
    if not influence:
        raise InvalidInputError(
            "baselines must name at least one where probes is 0, but was empty; try ['mean']."
        )
    return TextInfluence(
        name=name,
        flows=flows,
        influence=influence,
        baselines={baseline: words[baseline] for baseline in chosen},
        rollout=rollout,
        gradient_probes=0 if gradient is None else gradient.probes,
        d=disturbed.d,
        gradient_error=0.0 if gradient is None else gradient.relative_error,
    )


def _directions(disturbed: Disturbed) -> int:
    """All where they are few, else some; none where the model is not differentiated."""
    if not disturbed.differentiable:
        return 0
    exact = disturbed.n_tokens * disturbed.d <= _EXACT_PASSES
    return disturbed.d if exact else min(_PROBES, disturbed.d)
