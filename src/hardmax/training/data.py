"""Training data: sequences from a target's domain, with the target's values.

A target is described in JSON, so that a job can be hashed, stored and sent: ``{"name": "pairwise", "D": 2,
"d": 4, "seed": 0}`` is equation (6) with standard normal matrices, ``"max(t) x[t][0]"`` the text form.
Sequences come in blocks, each from a generator of its own, so that blocks can be made in parallel and a
cached file is the same as a fresh one.

NMSE is the mean squared error over the variance of the values: a constant reaches 1.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax import storage
from hardmax.errors import DimensionMismatchError, FileFormatError, InvalidInputError, written
from hardmax.limits import Clock
from hardmax.progress import shown
from hardmax.randomness import check_room
from hardmax.targets import (
    Target,
    depth_separation,
    kth_largest,
    pairwise,
    parse,
    position_sum,
    retrieval,
    triangle_center,
)

Floats = NDArray[np.float32]
Description = str | Mapping[str, Any]

BLOCK = 4096  # sequences that one generator makes
_KIND = "LabExamples"
_MAKER = 1  # grows when the same description would give other numbers


def canonical(value: Any) -> str:
    """JSON with sorted names and no spaces: equal values give equal text.

    Examples
    --------
    >>> canonical({"b": 1, "a": (1, 2.0)})
    '{"a":[1,2.0],"b":1}'
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"what is stored must consist of JSON values (no NaN, no infinity), but {error}."
        ) from error


def content_hash(value: Any) -> str:
    """SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


# Descriptions of targets
# ------------------------------------------------------------------------------------------------


def outputs_of(description: Description) -> tuple[Target, ...]:
    """The targets that a description names, one for each output.

    Parameters
    ----------
    description : str or mapping
        The text form of a target, or a mapping with its ``"name"``: ``"pairwise"`` (``D``, ``d``, ``seed``,
        or ``matrices``), ``"retrieval"`` (``D``, ``d``), ``"triangle_center"`` (``d``),
        ``"depth_separation"`` (``d``), ``"kth_largest"`` (``k``, ``d``), ``"positions"`` (``positions``,
        ``d``: the sum of these tokens, one output per coordinate), ``"text"`` (``text``, ``d``, ``seed``).
        Each may name its ``"domain"``, and ``"inputs"`` for another law of the tokens (:func:`examples`).

    Examples
    --------
    >>> outputs_of({"name": "pairwise", "D": 2, "d": 4, "seed": 0})[0].d_token
    4
    >>> len(outputs_of({"name": "positions", "positions": [0, 1, 2], "d": 2}))
    2
    """
    if isinstance(description, str):
        return (parse(description),)
    if not isinstance(description, Mapping) or description.get("name") not in _MAKERS:
        known = ", ".join(sorted(_MAKERS))
        raise InvalidInputError(
            f"target must be a text or a mapping whose name is one of {known}, but was {description!r}."
        )
    chosen = {key: value for key, value in description.items() if key not in ("name", "inputs")}
    maker, needed, optional = _MAKERS[description["name"]]
    unknown = sorted(set(chosen) - {*needed, *optional, "domain"})
    if unknown:
        allowed = ", ".join((*needed, *optional))
        raise InvalidInputError(
            f"the target {description['name']!r} has no setting {unknown[0]!r}; it has {allowed} and domain."
        )
    missing = [] if "matrices" in chosen else [name for name in needed if name not in chosen]
    if missing:
        raise InvalidInputError(
            f"the target {description['name']!r} needs {missing[0]!r}, which was left out."
        )
    made = maker(**chosen)
    return made if isinstance(made, tuple) else (made,)


def _pairwise(*, D: int = 0, d: int = 0, seed: int = 0, matrices: Any = None, **domain: Any) -> Target:
    if matrices is None:
        matrices = np.random.default_rng(seed).standard_normal((D, d, d))
    return pairwise(matrices, **domain)


def _positions(*, positions: Sequence[int], d: int = 1, domain: str = "gaussian") -> tuple[Target, ...]:
    if d == 1:
        return (position_sum(positions, domain=domain),)
    texts = [" + ".join(f"x[{p}][{c}]" for p in positions) for c in range(d)]
    return tuple(parse(text, d=d, domain=domain) for text in texts)


_MAKERS: Mapping[str, tuple[Callable[..., Any], tuple[str, ...], tuple[str, ...]]] = {
    "pairwise": (_pairwise, ("D", "d"), ("seed", "matrices")),
    "retrieval": (lambda D, **rest: retrieval(D, **rest), ("D",), ("d",)),
    "triangle_center": (triangle_center, (), ("d",)),
    "depth_separation": (depth_separation, (), ("d",)),
    "kth_largest": (kth_largest, ("k",), ("d",)),
    "positions": (_positions, ("positions",), ("d",)),
    "text": (lambda text, seed=None, **rest: parse(text, rng=seed, **rest), ("text",), ("d", "seed")),
}
"""What makes each target, the settings it needs, and others that it has."""


# Sequences and values
# -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Examples:
    """Sequences ``X`` (n, T, d) and what the target says of them, ``Y`` (n, outputs), both float32."""

    X: Floats
    Y: Floats

    def __len__(self) -> int:
        return len(self.X)


def examples(
    description: Description,
    n_tokens: int,
    n: int,
    *,
    seed: int = 0,
    stream: int = 0,
    n_jobs: int | None = 1,
    cache: str | Path | None = None,
    time_limit: float | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
) -> Examples:
    """``n`` random sequences with the values of the target.

    Parameters
    ----------
    description : str or mapping
        The target (:func:`outputs_of`). Its entry ``"inputs"``, for instance ``{"scale": 1.4, "min_norm":
        0.2, "max_norm": 4.0}``, multiplies the tokens and then clamps their norms, as appendix C.5 does.
    n_tokens, n : int
        Length and number of the sequences.
    seed, stream : int
        Which sequences: training and validation sets are two streams of one seed.
    n_jobs : int, optional
        Processes that share the blocks; the result does not depend on it.
    cache : path-like, optional
        A folder in which sequences are kept under the hash of all of the above.
    time_limit : float, optional
        Seconds after which it is given up.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with the number of examples made and
        their total.

    Examples
    --------
    >>> sample = examples({"name": "kth_largest", "k": 2}, 5, 3)
    >>> sample.X.shape, sample.Y.shape
    ((3, 5, 1), (3, 1))
    """
    if n < 1:
        raise InvalidInputError(f"n must be a whole number, 1 or more, but was {written(n)}.")
    check_room("the examples", n, n_tokens)
    asked = {"target": description, "n_tokens": n_tokens, "n": n, "seed": [seed, stream], "maker": _MAKER}
    path = None if cache is None else Path(cache) / f"{content_hash(asked)}.npz"
    if path is not None and path.exists():
        kept = _cached(path, n)
        if kept is not None:
            return kept
    counts = [min(BLOCK, n - start) for start in range(0, n, BLOCK)]
    inputs = {} if isinstance(description, str) else description.get("inputs") or {}
    shared = outputs_of(description), inputs, n_tokens
    tasks = [(*shared, count, (seed, stream, i)) for i, count in enumerate(counts)]
    if n_jobs == 1 or len(counts) == 1:
        found: Iterable[Any] = (_block(*task) for task in tasks)
    else:
        from joblib import Parallel, delayed

        found = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(_block)(*task) for task in tasks)
    clock, blocks = Clock(time_limit, "make the examples"), []
    with shown(
        progress, lambda done, total: (done / total, f"{done:,} of {total:,} examples"), clock
    ) as report:
        for block in found:
            blocks.append(block)
            if report is not None:
                report(min(BLOCK * len(blocks), n), n)
    made = Examples(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))
    for array in (made.X, made.Y):
        array.setflags(write=False)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        storage.write(path, storage.Stored(_KIND, {"X": made.X, "Y": made.Y}, {}), packed=False)
    return made


def _cached(path: Path, n: int) -> Examples | None:
    """What the file holds; nothing when it is damaged, since it can be made again."""
    try:
        state = storage.read(path).state
        found = Examples(state["X"], state["Y"])
    except (FileFormatError, KeyError, OSError):
        return None
    return found if len(found) == n else None


def _block(
    targets: tuple[Target, ...], inputs: Mapping[str, Any], n_tokens: int, n: int, seed: tuple[int, int, int]
) -> tuple[Floats, Floats]:
    """Sequences and values."""
    X = targets[0].sample(n, n_tokens, np.random.default_rng(seed))
    single = _reshaped(X, inputs).astype(np.float32)
    # the values belong to the rounded tokens, which are all that the transformer sees
    Y = np.stack([target(single.astype(np.float64)) for target in targets], axis=1)
    return single, Y.astype(np.float32)


def _reshaped(X: NDArray[np.float64], inputs: Mapping[str, Any]) -> NDArray[np.float64]:
    unknown = sorted(set(inputs) - {"scale", "min_norm", "max_norm"})
    if unknown:
        raise InvalidInputError(f"inputs has no setting {unknown[0]!r}; it has scale, min_norm and max_norm.")
    if not inputs:
        return X
    X = X * float(inputs.get("scale", 1.0))
    norms = np.linalg.norm(X, axis=2, keepdims=True)
    clamped = np.clip(norms, float(inputs.get("min_norm", 0.0)), float(inputs.get("max_norm", math.inf)))
    return np.asarray(X * (clamped / np.maximum(norms, np.finfo(float).tiny)))


def nmse(predicted: NDArray[Any], wanted: NDArray[Any]) -> float:
    """Mean squared error over variance, both summed over outputs.

    Examples
    --------
    >>> nmse(np.array([[1.0], [1.0]]), np.array([[0.0], [2.0]]))
    1.0
    """
    one, other = np.asarray(predicted, dtype=np.float64), np.asarray(wanted, dtype=np.float64)
    if one.shape != other.shape:
        raise DimensionMismatchError(
            f"predicted and wanted must have the same shape, but have {one.shape} and {other.shape}."
        )
    return float(((one - other) ** 2).mean() / other.var(axis=0).mean())
