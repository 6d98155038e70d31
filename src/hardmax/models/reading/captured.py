"""Attention that another tool has captured, as the arrays of a layer: plain arrays, TransformerLens, nnsight.

None of these packages is imported. What they hand over is told apart by the names of their entries and by
shapes, and compared with the attention pattern that they hand over too, wherever there is one: queries that
were captured before their rotation, or scores to which something unknown was added, give other probabilities
and are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, FidelityError, InvalidInputError

Floats = NDArray[np.floating]
Fields = dict[str, Any]
"""Fields of a :class:`~hardmax.models.reading.sources.CapturedLayer` by name."""

TOLERANCE = 1e-4
"""By how much rebuilt probabilities may differ from those that a tool has captured."""

HARMLESS = {
    "block_sequence_ids", "cache_position", "cu_seq_lens_k", "cu_seq_lens_q", "deterministic", "is_causal",
    "layer_idx", "max_length_k", "max_length_q", "output_attentions", "output_hidden_states",
    "output_router_logits", "position_embeddings", "position_ids", "return_dict", "sliding_window",
    "target_dtype", "token_type_ids", "use_cache",
}  # fmt: skip
"""What families may hand to transformers' attention interface without changing a score: windows are in the
mask already, and the rest is for other implementations."""

_UNDERSTOOD = {"attention_mask", "dropout", "position_bias", "s_aux", "scaling", "softcap"}
_LEAST = -1e30  # what is added to a score that nobody may read is below this


def array(values: Any, name: str = "array") -> NDArray[Any]:
    """An array of numpy from an array or a tensor of any precision."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = (
            values.float() if values.element_size() < 4 and values.is_floating_point() else values
        ).numpy()
    found = np.asarray(values)
    if found.dtype == object:
        raise InvalidInputError(f"{name} must be an array or a tensor, but is a {type(values).__name__}.")
    return found


def of_arrays(
    queries: Any,
    keys: Any,
    values: Any = None,
    *,
    inputs: Any = None,
    present: Any = None,
    causal: bool = False,
    scale: float | None = None,
    bias: Any = None,
    softcap: float | None = None,
    relative: Any = None,
    sinks: Any = None,
    output_weights: Any = None,
    probabilities: Any = None,
) -> Fields:
    """Fields from queries (H, Q, d), keys (G, N, d) and what belongs to them; ``relative`` is a pair of
    arrays."""
    q, k = array(queries, "queries"), array(keys, "keys")
    for name, part in (("queries", q), ("keys", k)):
        if part.ndim != 3:
            raise DimensionMismatchError(
                f"{name} must have the shape (heads, tokens, d_head), but have {part.shape}; of a batch give "
                "one entry."
            )
    v = k if values is None else array(values, "values")
    heads, n_queries, d_head = q.shape
    groups, n_keys, _ = k.shape
    if k.shape[2] != d_head or heads % groups or v.shape[:2] != k.shape[:2]:
        raise DimensionMismatchError(
            "queries (H, Q, d), keys (G, N, d) and values (G, N, e) must agree, with G a divisor of H, but "
            f"have the shapes {q.shape}, {k.shape} and {v.shape}."
        )
    may = (
        np.ones((n_queries, n_keys), dtype=bool)
        if present is None
        else array(present, "present").astype(bool)
    )
    if may.shape != (n_queries, n_keys):
        raise DimensionMismatchError(
            f"present must have the shape (Q, N) = {(n_queries, n_keys)}, but has {may.shape}."
        )
    if causal:
        may = may & np.tri(n_queries, n_keys, n_keys - n_queries, dtype=bool)
    added = None if bias is None else array(bias, "bias")
    if added is not None and added.shape not in {(h, n_queries, n_keys) for h in (1, heads)}:
        raise DimensionMismatchError(
            f"bias must have the shape (H, Q, N) = {(heads, n_queries, n_keys)}, but has {added.shape}."
        )
    if softcap is not None and not float(softcap) > 0:
        raise InvalidInputError(f"softcap must be above 0, but was {softcap}.")
    if softcap is not None and not (added is None and sinks is None):
        raise InvalidInputError("softcap must be left out where there is a bias or sinks, but was given.")
    if relative is not None and sinks is not None:
        raise InvalidInputError("sinks must be left out where there are relative keys, but were given.")
    if relative is not None:
        relative = _relative(relative, (heads, n_queries, n_keys, d_head))
    x = np.concatenate(list(q), axis=1) if inputs is None else array(inputs, "inputs")
    if x.ndim != 2 or len(x) != n_queries:
        raise DimensionMismatchError(
            f"inputs must have one row per query, {n_queries}, but have the shape {x.shape}."
        )
    for name, part in (("queries", q), ("keys", k), ("values", v), ("inputs", x)):
        if not np.isfinite(part).all():
            raise InvalidInputError(f"{name} must be finite, but hold NaN or infinity.")
    found: Fields = {
        "inputs": x,
        "queries": q,
        "keys": k,
        "values": v,
        "present": may,
        "scale": d_head**-0.5 if scale is None else float(scale),
        "bias": added,
        "softcap": None if softcap is None else float(softcap),
        "relative": relative,
        "null_keys": 0,
        "output_weights": None if output_weights is None else array(output_weights, "output_weights"),
    }
    if sinks is not None:
        scores = array(sinks, "sinks")
        if scores.shape != (heads,) or not np.isfinite(scores).all():
            raise DimensionMismatchError(
                f"sinks must be one finite score per head, {heads}, but have the shape {scores.shape}."
            )
        found.update(with_sinks(found, scores))
    if probabilities is not None:
        off = difference(found, array(probabilities, "probabilities"))
        if not off <= TOLERANCE:
            raise FidelityError(
                f"queries and keys must give the attention pattern that was captured with them, but are "
                f"{off:.2g} away; try queries and keys after their rotation, the mask, the scale, or the "
                "bias of positions."
            )
    return found


def _relative(pair: Any, shape: tuple[int, int, int, int]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Relative keys (H, R, d) and which of them (Q, N) a query meets."""
    heads, n_queries, n_keys, d_head = shape
    keys, place = array(pair[0], "relative keys"), array(pair[1], "relative places")
    if keys.ndim != 3 or (len(keys), keys.shape[2]) != (heads, d_head) or place.shape != (n_queries, n_keys):
        raise DimensionMismatchError(
            f"relative must be keys (H, R, d) and places (Q, N) with H = {heads}, d = {d_head} and (Q, N) = "
            f"{(n_queries, n_keys)}, but they have the shapes {keys.shape} and {place.shape}."
        )
    if place.dtype.kind not in "iu" or place.min(initial=0) < 0 or place.max(initial=0) >= keys.shape[1]:
        raise InvalidInputError(
            f"relative places must be whole numbers from 0 to {keys.shape[1] - 1}, but are others."
        )
    return keys, place


def with_sinks(fields: Fields, sinks: NDArray[Any]) -> Fields:
    """Fields that change when every head has a learned score (H,) of its own that belongs to no token: a null
    key, the last one."""
    queries, bias = fields["queries"], fields["bias"]
    heads, n_queries, n_keys = len(queries), queries.shape[1], fields["keys"].shape[1]
    rows = np.zeros((heads, 1, n_keys), dtype=sinks.dtype) if bias is None else bias
    rows = np.broadcast_to(rows, (heads, *rows.shape[1:]))
    last = np.broadcast_to(sinks[:, None, None], (*rows.shape[:2], 1))
    return {
        "keys": np.pad(fields["keys"], ((0, 0), (0, 1), (0, 0))),
        "values": np.pad(fields["values"], ((0, 0), (0, 1), (0, 0))),
        "present": np.pad(fields["present"], ((0, 0), (0, 1)), constant_values=True),
        "bias": np.broadcast_to(np.concatenate([rows, last], axis=2), (heads, n_queries, n_keys + 1)),
        "null_keys": 1,
    }


def difference(fields: Fields, pattern: NDArray[Any]) -> float:
    """The largest difference between rebuilt probabilities and a pattern (H, Q, N), without null keys."""
    q, k = fields["queries"].astype(np.float64), fields["keys"].astype(np.float64)
    n_tokens = k.shape[1] - fields["null_keys"]
    if pattern.shape != (len(q), q.shape[1], n_tokens):
        raise DimensionMismatchError(
            f"the pattern must have the shape (H, Q, N) = {(len(q), q.shape[1], n_tokens)}, but has "
            f"{pattern.shape}."
        )
    scores = np.einsum("hqd,hnd->hqn", q, np.repeat(k, len(q) // len(k), axis=0))
    if fields["relative"] is not None:
        more, place = fields["relative"]
        met = np.einsum("hqd,hrd->hqr", q, more.astype(np.float64))
        scores += np.take_along_axis(met, np.broadcast_to(place, (len(q), *place.shape)), axis=2)
    scores = scores * fields["scale"]
    if fields["bias"] is not None:
        scores = scores + fields["bias"]
    if fields["softcap"] is not None:
        scores = fields["softcap"] * np.tanh(scores / fields["softcap"])
    scores = np.where(fields["present"], scores, -np.inf)
    top = scores.max(axis=2, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=2, keepdims=True)
    reads = total[..., 0] > 0  # what a tool says of queries that read nothing is arbitrary
    rebuilt = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return float(np.abs(rebuilt[..., :n_tokens] - pattern)[reads].max(initial=0.0))


# TransformerLens
# ----------------------------------------------------------------------------------------------------------


def of_transformer_lens(cache: Any, layer: int, *, batch: int = 0, causal: bool | None = None) -> Fields:
    """Fields from the ``ActivationCache`` of ``run_with_cache``, of any version of TransformerLens."""
    start = f"blocks.{layer}."
    names = {name for name in cache.keys() if str(name).startswith(start)}  # noqa: SIM118 (a cache is no dict)
    if f"{start}attn.hook_q" not in names:
        raise InvalidInputError(
            f"cache must hold {start}attn.hook_q, but does not; run run_with_cache without names_filter, or "
            "with one that keeps hook_q, hook_k, hook_v and hook_pattern."
        )
    has_batch = bool(getattr(cache, "has_batch_dim", True))

    def entry(*candidates: str) -> NDArray[Any] | None:
        for name in candidates:
            if start + name in names:
                found = array(cache[start + name], start + name)
                return np.asarray(found[batch] if has_batch else found)
        return None

    model = getattr(cache, "model", None)
    config = getattr(model, "cfg", None)
    if causal is None:
        causal = str(getattr(config, "attention_dir", "causal")) == "causal"
    pattern = entry("attn.hook_pattern")
    if pattern is None:
        raise InvalidInputError(
            f"cache must hold {start}attn.hook_pattern, with which the layer is compared, but does not."
        )
    scale, cap = _scale(config), getattr(config, "attn_scores_soft_cap", None)
    cap = None if cap is None or not float(cap) > 0 else float(cap)  # -1 for none
    made = []
    for swapped in (False, True):  # hook_rot_q has heads before tokens in some versions
        parts: list[NDArray[Any] | None] = []
        for one in ("q", "k", "v"):
            rotated = entry(f"attn.hook_rot_{one}")
            if rotated is not None and swapped:
                parts.append(rotated)
            else:
                plain = rotated if rotated is not None else entry(f"attn.hook_{one}")
                parts.append(None if plain is None else plain.swapaxes(0, 1))
        q, k, v = parts
        if q is None or k is None or v is None or not _fits(q, k, v, pattern):
            continue
        x = entry("attn.q.hook_in", "attn.hook_in", "ln1.hook_out", "ln1.hook_normalized", "hook_resid_pre")
        for may in _readable(pattern, causal):
            made.append(of_arrays(q, k, v, inputs=x, present=may, scale=scale, softcap=cap))
    if not made:
        raise DimensionMismatchError(
            f"the entries of {start}attn must be those of attention with one pattern per head, but have "
            "other shapes."
        )
    apart = [difference(fields, pattern) for fields in made]
    good = [i for i, off in enumerate(apart) if off <= TOLERANCE]  # the first: padding before windows
    at = good[0] if good else int(np.argmin(apart))
    best, off = made[at], apart[at]
    if not off <= TOLERANCE:
        raise FidelityError(
            f"{start}attn.hook_q and hook_k must give hook_pattern, but are {off:.2g} away: scores pass "
            "through something that the cache does not hold (a rotation without hook_rot_q, a bias of "
            "positions). Read the model itself with hardmax.head_atlas, or give arrays."
        )
    weights = _weights(model, layer)
    if weights is not None:
        best.update(_maps(best, *weights))
    return best


def _fits(q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], pattern: NDArray[Any]) -> bool:
    """Whether queries, keys and values have as many heads and tokens as a pattern."""
    shapes = q.shape[:2] == pattern.shape[:2] and k.shape[1] == v.shape[1] == pattern.shape[2]
    return bool(shapes and k.shape[0] == v.shape[0] and len(q) % len(k) == 0)


def _readable(pattern: NDArray[Any], causal: bool) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which keys a query may read: without those that nobody reads (padding), and entry by entry (windows).

    The first leaves a key in place that one query gives nothing only because its probability underflows.
    """
    n_queries, n_keys = pattern.shape[1:]
    may = np.tri(n_queries, n_keys, n_keys - n_queries if causal else n_keys, dtype=bool)
    read = (pattern > 0).any(axis=0)
    return may & read.any(axis=0), may & read


def _scale(config: Any) -> float | None:
    """What raw scores are multiplied by, where the configuration says so."""
    if config is None:
        return None
    if getattr(config, "use_attn_scale", True) is False:
        return 1.0
    divisor = getattr(config, "attn_scale", None)
    return None if divisor is None or not float(divisor) > 0 else 1.0 / float(divisor)


def _weights(model: Any, layer: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None:
    """W_Q (H, d_model, d_head), b_Q (H, d_head) and W_O (H, d_head, d_model), where the model shows them."""
    try:
        return tuple(array(getattr(model, name)[layer], name) for name in ("W_Q", "b_Q", "W_O"))  # type: ignore[return-value]
    except (AttributeError, IndexError, TypeError, NotImplementedError, InvalidInputError):
        return None


def _maps(fields: Fields, W_Q: NDArray[Any], b_Q: NDArray[Any], W_O: NDArray[Any]) -> Fields:
    """W_O, and how queries follow from inputs, where they do so without a rotation or a norm."""
    q, x = fields["queries"], fields["inputs"]
    found: Fields = {}
    heads, d_value = len(q), fields["values"].shape[2]
    if W_O.ndim == 3 and W_O.shape[:2] == (heads, d_value):
        found["output_weights"] = np.ascontiguousarray(W_O.swapaxes(1, 2))
    if W_Q.shape == (heads, x.shape[1], q.shape[2]):
        made = np.einsum("td,hde->hte", x.astype(np.float64), W_Q) + b_Q[:, None]
        if np.abs(made - q).max() <= TOLERANCE * max(1.0, float(np.abs(q).max())):
            found["query_affine"] = np.ascontiguousarray(W_Q.swapaxes(1, 2)), b_Q
    return found


# nnsight
# ----------------------------------------------------------------------------------------------------------


def of_nnsight(
    inputs: Any, output: Any = None, *, batch: int = 0, causal: bool | None = None, hidden: Any = None
) -> Fields:
    """Fields from the saved inputs, and output, of the call of transformers' attention interface."""
    call = _value(inputs)
    if not (isinstance(call, tuple) and len(call) == 2 and isinstance(call[1], Mapping)):
        raise InvalidInputError(
            "inputs must be the saved .inputs of the attention interface, a tuple and a dict, but are a "
            f"{type(call).__name__}; try model...self_attn.source.attention_interface_1.inputs.save()."
        )
    given, named = tuple(_value(one) for one in call[0]), {k: _value(v) for k, v in call[1].items()}
    tensors = [one for one in given if getattr(one, "ndim", 0) == 4]
    if len(tensors) < 3:
        raise InvalidInputError(
            "inputs must hold queries, keys and values (batch, heads, tokens, d_head), but hold "
            f"{len(tensors)} such arrays; in nnsight 0.8 the call is attention_interface_1, before it was "
            "attention_interface_0."
        )
    q, k, v = (array(one)[batch] for one in tensors[:3])
    mask = named.get("attention_mask", tensors[3] if len(tensors) > 3 else None)
    module = next((one for one in given if hasattr(one, "forward")), None)
    if causal is None:
        causal = mask is None and bool(named.get("is_causal", getattr(module, "is_causal", False)))
    present, bias = _mask(mask, batch, q.shape[1], k.shape[1])
    pattern = None
    if output is not None:
        results = _value(output)
        weights = _value(results[1]) if isinstance(results, (tuple, list)) and len(results) > 1 else None
        pattern = None if weights is None else array(weights)[batch]
    strange = sorted({k for k, one in named.items() if one is not None} - HARMLESS - _UNDERSTOOD)
    if strange or named.get("dropout"):
        raise InvalidInputError(
            f"inputs must be of attention whose options are understood, but it takes "
            f"{strange[0] if strange else 'dropout'!r}."
        )
    if named.get("position_bias") is not None:
        of_positions = array(named["position_bias"])
        of_positions = of_positions[min(batch, len(of_positions) - 1)][..., : q.shape[1], : k.shape[1]]
        bias = of_positions if bias is None else bias + of_positions
    x = None if hidden is None else array(_value(hidden))
    x = x[batch] if x is not None and x.ndim == 3 else x
    return of_arrays(
        q,
        k,
        v,
        inputs=x,
        present=present,
        causal=causal,
        scale=named.get("scaling"),
        bias=bias,
        softcap=named.get("softcap"),
        sinks=named.get("s_aux"),
        probabilities=pattern,
    )


def _value(saved: Any) -> Any:
    """What a proxy of older versions holds; newer ones give the value itself."""
    return saved.value if type(saved).__module__.startswith("nnsight") and hasattr(saved, "value") else saved


def _mask(
    mask: Any, batch: int, n_queries: int, n_keys: int
) -> tuple[NDArray[np.bool_] | None, NDArray[Any] | None]:
    """Which keys may be read, and what is added to scores, from a mask of transformers (B, 1 or H, Q, N)."""
    if mask is None:
        return None, None
    table = array(mask)
    table = table[min(batch, len(table) - 1)][..., :n_queries, :n_keys]
    if table.dtype == bool:
        return table[0], None
    absent = table < _LEAST
    added = np.where(absent, 0.0, table)
    return ~absent.all(axis=0), (added if added.any() else None)


def checked_layers(
    layers: Iterable[Any], tokens: Iterable[str] | None
) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """Layers of one sequence in order, and names for its tokens."""
    found = tuple(layers)
    if not found:
        raise InvalidInputError("layers must hold at least one layer, but were empty.")
    sizes = {(one.n_queries, one.n_keys - one.null_keys) for one in found}
    nulls = {one.null_keys for one in found}
    if len(nulls) > 1:
        raise InvalidInputError(
            f"layers must have as many null keys as each other, but have {sorted(nulls)}."
        )
    if len(sizes) > 1 or any(q != n for q, n in sizes):
        raise InvalidInputError(
            "layers must be of one sequence that reads itself, with as many queries as keys, but have "
            f"{', '.join(f'{q} and {n}' for q, n in sorted(sizes))}."
        )
    if [one.index for one in found] != list(range(len(found))):
        raise InvalidInputError(
            f"layers must be numbered from 0 on without gaps, but are {[one.index for one in found]}."
        )
    n = found[0].n_queries
    names = tuple(f"x{t + 1}" for t in range(n)) if tokens is None else tuple(map(str, tokens))
    if len(names) != n:
        raise InvalidInputError(f"tokens must be one per query, {n}, but there are {len(names)}.")
    whole = n + nulls.pop()  # so that null keys are tokens that ask nothing
    return tuple(one.among(whole, 0, 0) for one in found), names + ("sink",) * (whole - n)
