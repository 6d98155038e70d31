"""The routing of a decoder while it writes: one query per step, over cached keys whose number grows.

At every step only the newest token asks. Its attention is captured in the pass that the model really makes,
with cached keys and values of all tokens before it, and compared with the model's own eager attention in a
second pass on a copy of the cache. The model writes greedily: the likeliest token is next.
"""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.limits import Clock, look
from hardmax.models.atlas.head_measures import measure_queries
from hardmax.models.reading.capture import Differences, capture, differences, within_limit
from hardmax.models.reading.folders import check_folder, check_writes, folder_name, loaded, tokenizer_of
from hardmax.models.reading.loading import OpenModel, in_float32, open_model
from hardmax.models.reading.sources import required
from hardmax.models.reading.threads import one_thread
from hardmax.models.reading.watching import Watched, watch
from hardmax.networks.block import many
from hardmax.progress import shown
from hardmax.results import Result

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class GenerationAtlas(Result):
    """Every head of a decoder at every step of its writing.

    Attributes
    ----------
    model, family : str
    tokens : tuple of str
        The prompt and what was written behind it.
    n_prompt : int
        Tokens of the prompt. The query of step i is token ``n_prompt - 1 + i``; it writes the next one.
    layer, head : arrays of int (rows,)
    winners : array of int (steps, rows)
        The position of the token that each head reads most.
    margins, top_probabilities, entropies : arrays (steps, rows)
        The winner's lead in units of temperature, its probability, and the entropy of all in bits; NaN where
        there is one key only.
    within_10 : array of bool (steps, rows)
        Whether the distance to hardmax is at most 10 %.
    n_keys : array of int (steps,)
        How many keys each step may read.
    probability_difference : float
        The largest difference between probabilities that were rebuilt and the model's own.

    Examples
    --------
    One head that looks at the token before, over two steps:

    >>> one = np.ones((2, 1))
    >>> found = GenerationAtlas(
    ...     "toy", "toy", ("a", "b", "c", "d"), 2, np.array([0]), np.array([0]), np.array([[0], [1]]),
    ...     4.0 * one, 0.98 * one, 0.1 * one, one > 0, np.array([2, 3]), 0.0)
    >>> found
    <GenerationAtlas: toy, 1 head over 2 steps, 2 to 3 keys; within 10 % of hardmax in 100 % of ...>
    >>> found.written, found.distances.ravel().tolist()
    (('c', 'd'), [1, 1])
    """

    kind: ClassVar[str] = "GenerationAtlas"

    model: str
    family: str
    tokens: tuple[str, ...]
    n_prompt: int
    layer: Integers
    head: Integers
    winners: Integers
    margins: Floats
    top_probabilities: Floats
    entropies: Floats
    within_10: NDArray[np.bool_]
    n_keys: Integers
    probability_difference: float

    def __post_init__(self) -> None:
        self._freeze()

    @property
    def written(self) -> tuple[str, ...]:
        """What was written, token by token."""
        return self.tokens[self.n_prompt :]

    @property
    def distances(self) -> Integers:
        """How many tokens back each head looks: (steps, rows)."""
        asks = self.n_prompt - 1 + np.arange(len(self.winners))
        return np.asarray(asks[:, None] - self.winners)

    def _summary(self) -> str:
        return (
            f"{self.model}, {many(len(self.layer), 'head')} over {many(len(self.winners), 'step')}, "
            f"{int(self.n_keys[0])} to {int(self.n_keys[-1])} keys; within 10 % of hardmax in "
            f"{100 * self.within_10.mean():.0f} % of their decisions"
        )

    def _table(self) -> dict[str, Any]:
        """One row per step and head."""
        step, row = (place.ravel() for place in np.indices(self.winners.shape))
        return {
            "step": step,
            "token": [self.tokens[self.n_prompt - 1 + s] for s in step],
            "layer": self.layer[row],
            "head": self.head[row],
            "n_keys": self.n_keys[step],
            "winner": self.winners.ravel(),
            "winner_token": [self.tokens[w] for w in self.winners.ravel()],
            "distance": self.distances.ravel(),
            "margin": self.margins.ravel(),
            "top_probability": self.top_probabilities.ravel(),
            "entropy": self.entropies.ravel(),
        }


def generation_atlas(
    model: Any,
    prompt: str,
    *,
    n_steps: int = 20,
    tokenizer: Any = None,
    time_limit: float | None = None,
    progress: Any = None,
) -> GenerationAtlas:
    """Let a decoder write, and say at every step what every head reads.

    Parameters
    ----------
    model : path or torch module
        A folder of a causal language model, or a module with its head over the vocabulary and its
        ``tokenizer``.
    prompt : str
        What it goes on from.
    n_steps : int
        Tokens to write.
    tokenizer : optional
        For a module.
    time_limit : float, optional
        Seconds after which it is given up, looked at between tokens and between the passes of each.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with the number of steps done and their
        total.

    Returns
    -------
    GenerationAtlas

    Raises
    ------
    InvalidInputError
        When the model has no head over the vocabulary, or keeps fewer keys than tokens (a sliding window).
    FidelityError
        When what is captured differs from the model's own attention.

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.models.generation_atlas("./gpt2", "Once upon a time", n_steps=8)   # doctest: +SKIP
    >>> found.written, found.winners[:, 0]                                            # doctest: +SKIP
    """
    clock = Clock(time_limit, "write all tokens")
    if int(n_steps) < 1:
        raise InvalidInputError(f"n_steps must be at least 1, but was {n_steps}.")
    name = None
    if isinstance(model, (str, os.PathLike)):
        folder = check_folder(model)
        name, model = folder_name(folder), loaded(folder, writes=True).eval()
        tokenizer = tokenizer if tokenizer is not None else tokenizer_of(folder)
    opened = open_model(model, tokenizer=tokenizer)
    opened = opened if name is None else replace(opened, name=name)
    if not opened.kinds:
        check_writes(opened.module.config, opened.name)
    if opened.module.get_output_embeddings() is None or opened.module is opened.module.base_model:
        raise InvalidInputError(
            f"model must have a head over its vocabulary to write, but {type(opened.module).__name__} has "
            "none; try AutoModelForCausalLM."
        )
    if opened.kinds or opened.places.sinks:
        raise InvalidInputError(
            f"model must be a decoder whose keys are its tokens, but {opened.name} "
            f"{'reads an encoder' if opened.kinds else 'has scores that belong to no token'}; its atlas on a "
            "text comes from head_atlas."
        )
    torch = required("torch")
    ids = opened.encode(prompt)["input_ids"]
    n_prompt, last = int(ids.shape[1]), opened.limit
    if last is not None and n_prompt + n_steps > last:
        raise InvalidInputError(
            f"prompt and n_steps together must be at most {last} tokens for {opened.name}, but are "
            f"{n_prompt + n_steps}."
        )
    rows: list[dict[str, Any]] = []
    worst = Differences()
    places: list[tuple[int, int]] = []
    with (
        one_thread(),
        torch.no_grad(),
        in_float32(opened.module),
        shown(progress, lambda done, total: (done / total, f"{done} of {total} tokens"), clock) as report,
    ):
        cache = required("transformers").DynamicCache(config=opened.module.config)
        if n_prompt > 1:
            cache = opened.module(
                input_ids=ids[:, :-1], past_key_values=cache, use_cache=True
            ).past_key_values
        for step in range(int(n_steps)):
            row, found, places = _step(opened, ids[:, -1:], cache)
            worst = worst.with_largest(found)
            within_limit(worst, model=opened.name)
            look()
            if row["n_keys"] != n_prompt + step:
                alone = row["n_keys"] == 1
                raise InvalidInputError(
                    f"model must keep the keys of all tokens, but {opened.name} keeps {row['n_keys']} of "
                    f"{n_prompt + step}; "
                    f"{'encoders do not write text' if alone else 'give a shorter prompt than its window'}."
                )
            rows.append(row)
            out = opened.module(input_ids=ids[:, -1:], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            ids = torch.cat([ids, out.logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
            if report is not None:
                report(step + 1, int(n_steps))
    whole = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return GenerationAtlas(
        model=opened.name,
        family=opened.family,
        tokens=opened.tokens({"input_ids": ids}),
        n_prompt=n_prompt,
        layer=np.array([n for n, _ in places], dtype=np.int64),
        head=np.array([h for _, h in places], dtype=np.int64),
        probability_difference=worst.probabilities,
        **whole,
    )


def _step(
    opened: OpenModel, newest: Any, cache: Any
) -> tuple[dict[str, Any], Differences, list[tuple[int, int]]]:
    """What every head does with the newest token, and how far that is from the model's own attention."""
    body = opened.module.base_model
    n = opened.n_layers

    def inputs() -> dict[str, Any]:
        """A pass changes the cache, so each gets a copy."""
        return {"input_ids": newest, "past_key_values": copy.deepcopy(cache), "use_cache": True}

    options: Any = {
        "name": opened.name,
        "wanted": lambda index: True,
        "enough": lambda found: len(found) == n,
    }
    layers = capture(body, opened.places, inputs(), **options)
    look()
    worst = Differences()

    def compare(index: int, watched: Watched) -> None:
        nonlocal worst
        worst = worst.with_largest(differences(layers[index], watched))

    watch(body, opened.places, inputs(), last=n - 1, show=compare)
    if len({one.layer.n_keys for one in layers}) != 1:
        raise InvalidInputError(
            f"every layer must keep as many keys as the others, but some of {opened.name} keep fewer; prompt "
            "and n_steps together must fit into its smallest window."
        )
    found = [
        (one.layer.index, h, measure_queries(one.layer, h)) for one in layers for h in range(one.layer.heads)
    ]
    measures = [measured for _, _, measured in found]
    row = {
        "winners": [int(one.winner[0]) for one in measures],
        "margins": [float(one.margin[0]) for one in measures],
        "top_probabilities": [float(one.top_probability[0]) for one in measures],
        "entropies": [float(one.entropy[0]) for one in measures],
        "within_10": [bool(one.total_variation[0] <= 0.1) for one in measures],
        "n_keys": layers[0].layer.n_keys,
    }
    return row, worst, [(index, h) for index, h, _ in found]
