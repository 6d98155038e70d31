r"""What a model's attention receives, layer by layer, and a check against what the model computes itself.

Every model that follows transformers' attention interface looks up the function that computes attention by a
name in its configuration, and the function that builds masks by the same name. For the time of a forward pass
:func:`capture` enters a name of its own: the function under it notes queries, keys, values, mask and scale,
and lets the model's own eager function compute; masks are built as for eager attention. So nothing is
computed twice in two ways, and no family needs code of its own here. Name and implementation are put back
whatever happens.

A second pass with ``"eager"`` itself (:func:`watch`) looks at the model from outside: the scores that enter
its softmax, the probabilities that leave it, and what W_O receives. Nothing of the first pass is used in it,
which makes it a check: :func:`differences` compares, for every layer and head and in double precision,

.. math:: s_{ts} = \sigma\, q_t \cdot k_s + B_{ts}, \qquad p_t = \operatorname{softmax}(s_t), \qquad
          o_t = \sum_s p_{ts} v_s

with them, and the queries that follow from :class:`~hardmax.models.reading.families.QueryWay` with those that
were captured. A query that may read no key at all (padding before a causal text) has no probabilities and is
left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, FidelityError, UnsupportedModelError
from hardmax.models.reading.families import FAMILIES, Family, QueryWay, attention_modules, output_weights
from hardmax.models.reading.sources import CapturedLayer, required, softmax

LIMIT = 1e-4
"""Differences above this are not rounding; the model is refused."""

# What families may hand to the interface without changing a score: windows are in the mask already, and the
# rest is for other implementations.
_HARMLESS = {
    "block_sequence_ids", "cache_position", "cu_seq_lens_k", "cu_seq_lens_q", "deterministic", "is_causal",
    "layer_idx", "max_length_k", "max_length_q", "output_attentions", "output_hidden_states",
    "output_router_logits", "position_embeddings", "position_ids", "return_dict", "sliding_window",
    "target_dtype", "token_type_ids", "use_cache",
}  # fmt: skip

_ROWS = 64


@dataclass(frozen=True, eq=False)
class Captured:
    """One layer as it was captured, and how its queries were made."""

    layer: CapturedLayer
    way: QueryWay

    @property
    def bytes(self) -> int:
        """How much memory it holds; masks are shared by all layers."""
        layer = self.layer
        return sum(a.nbytes for a in (layer.inputs, layer.queries, layer.keys, layer.values))


@dataclass(eq=False)
class Watched:
    """What one layer computed in a pass of its own."""

    scores: Any = None
    probabilities: Any = None
    received: Any = None


class _Enough(Exception):
    """Ends a forward pass after the last layer that is wanted."""


def forward(model: Any, inputs: dict[str, Any]) -> Any:
    """One forward pass without gradients; ``model`` is the one without its head."""
    torch = required("torch")
    with torch.no_grad():
        return model(**inputs)


@dataclass(eq=False)
class _Notes:
    """The state of a capturing pass."""

    family: Family
    modules: dict[Any, Any]  # attention module -> the one of W_O
    wanted: Callable[[int], bool]
    enough: Callable[[list[Captured]], bool]
    name: str
    seen: int = 0
    inputs: Any = None
    angles: Any = None
    found: list[Captured] = field(default_factory=list)
    masks: dict[int, tuple[Any, NDArray[np.bool_], NDArray[np.float32] | None]] = field(default_factory=dict)

    def enter(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.inputs = args[0] if args else kwargs["hidden_states"]
        self.angles = kwargs.get("position_embeddings")
        if self.angles is None and self.family.rotary:
            pairs = [a for a in args[1:] if isinstance(a, tuple) and len(a) == 2]
            self.angles = pairs[0] if pairs else None

    def attend(
        self, module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any
    ) -> tuple[Any, Any]:
        if module not in self.modules:
            raise self._refused(f"attention is computed by a {type(module).__name__}, which is not known")
        index, self.seen = self.seen, self.seen + 1
        if self.wanted(index):
            self._check(options)
            self.found.append(self._captured(index, module, query, key, value, attention_mask, options))
            if self.enough(self.found):
                raise _Enough
        eager = _eager_function(module)
        if eager is None:
            raise self._refused(f"{type(module).__name__} has no eager attention function beside it")
        return eager(module, query, key, value, attention_mask, **options)  # type: ignore[no-any-return]

    def _check(self, options: dict[str, Any]) -> None:
        given = {name for name, value in options.items() if value is not None}
        strange = sorted(given - _HARMLESS - {"scaling", "dropout"})
        reasons = [f"its attention takes {name!r}, which is not understood" for name in strange]
        if options.get("dropout"):
            reasons.append("it applies dropout to probabilities")
        if reasons:
            raise self._refused(*reasons)

    def _captured(
        self, index: int, module: Any, query: Any, key: Any, value: Any, mask: Any, options: dict[str, Any]
    ) -> Captured:
        heads, n_queries, d_head = query.shape[1:]
        scaling = options.get("scaling")
        turned = self.family.rotary is not None and self.angles is not None
        if self.family.rotary_if is not None:
            turned = turned and bool(getattr(module, self.family.rotary_if))
        # tables of angles are (1, Q, r) or (Q, r)
        cos, sin = (_array(t[0] if t.ndim == 3 else t) for t in self.angles) if turned else (None, None)
        inputs = _array(self.inputs[0])
        way = QueryWay(module, self.family, heads, d_head, inputs, cos, sin)
        present, bias = self._mask(mask, (heads, n_queries, int(key.shape[2])))
        layer = CapturedLayer(
            index=index,
            inputs=inputs,
            queries=_array(query[0]),
            keys=_array(key[0]),
            values=_array(value[0]),
            present=present,
            scale=float(d_head**-0.5 if scaling is None else scaling),
            bias=bias,
            output_weights=output_weights(self.modules[module], self.family, heads),
            query_map=way.at,
        )
        return Captured(layer, way)

    def _mask(self, mask: Any, shape: tuple[int, int, int]) -> tuple[NDArray[np.bool_], Any]:
        if id(mask) not in self.masks:  # the tensor is kept beside its id, so ids stay different
            present, bias = _present_and_bias(mask, shape)
            if present is None:
                raise self._refused("its heads have different masks")
            self.masks[id(mask)] = mask, present, bias
        return self.masks[id(mask)][1:]

    def _refused(self, *reasons: str) -> UnsupportedModelError:
        return UnsupportedModelError(self.name, list(reasons), sorted(FAMILIES))


def capture(
    model: Any,
    family: Family,
    inputs: dict[str, Any],
    *,
    name: str,
    wanted: Callable[[int], bool],
    enough: Callable[[list[Captured]], bool],
) -> list[Captured]:
    """Note the wanted layers of one forward pass, which ends when there are enough of them.

    Raises
    ------
    UnsupportedModelError
        When the attention function is called in a way that is not understood.
    """
    modules = dict(attention_modules(model, family))
    notes = _Notes(family, modules, wanted, enough, name)
    key = f"hardmax_{id(notes):x}"
    with _registered(key, notes.attend), implementation(model, key):
        handles = [m.register_forward_pre_hook(notes.enter, with_kwargs=True) for m in modules]
        try:
            forward(model, inputs)
        except _Enough:
            pass
        finally:
            for handle in handles:
                handle.remove()
    return notes.found


def watch(
    model: Any, family: Family, inputs: dict[str, Any], *, last: int, show: Callable[[int, Watched], None]
) -> None:
    """Run the model with its own eager attention and show what each layer computed, up to layer ``last``.

    ``show(index, watched)`` is called when a layer's W_O is about to be applied; what it gets is not kept.
    """
    torch = required("torch")
    state: dict[str, Any] = {"inside": None, "layer": -1, "watched": Watched()}
    softmax = (torch.nn.functional.softmax, torch.softmax, torch.Tensor.softmax)

    class Softmax(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        """Looks at what goes into a softmax inside attention, and at what comes out."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if state["inside"] is not None and func in softmax:
                scores = args[0] if args else kwargs["input"]
                state["watched"].scores, state["watched"].probabilities = scores, result
            return result

    def enter(module: Any, args: Any, kwargs: Any) -> None:
        state.update(inside=module, layer=state["layer"] + 1, watched=Watched())

    def leave(module: Any, args: Any) -> None:
        if state["inside"] is None:
            return
        state["watched"].received = args[0]
        state["inside"] = None
        show(state["layer"], state["watched"])
        state["watched"] = Watched()
        if state["layer"] >= last:
            raise _Enough

    handles = []
    try:
        with implementation(model, "eager"), Softmax():
            for module, projection in attention_modules(model, family):
                handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
                handles.append(projection.register_forward_pre_hook(leave))
            forward(model, inputs)
    except _Enough:
        pass
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def receiving(model: Any, family: Family, inputs: Mapping[int, NDArray[Any]] | None) -> Iterator[None]:
    """Attention of some layers receives other inputs (Q, d_model) than the layers before it computed.

    What stands behind attention still gets the model's own states, but the next layer's attention is given
    its inputs again, so each layer is asked about exactly the states that were handed over.
    """
    torch = required("torch")

    def hook(other: NDArray[Any]) -> Callable[..., Any]:
        def replaced(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            own = args[0] if args else kwargs["hidden_states"]
            given = torch.from_numpy(np.array(other))[None].to(own)
            if given.shape != own.shape:
                raise DimensionMismatchError(
                    f"inputs must have the shape {tuple(own.shape[1:])} of the layer's own, but have "
                    f"{tuple(given.shape[1:])}."
                )
            return ((given, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": given})

        return replaced

    handles = [
        module.register_forward_pre_hook(hook(inputs[index]), with_kwargs=True)
        for index, (module, _) in enumerate(attention_modules(model, family))
        if inputs is not None and index in inputs
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _registered(name: str, function: Callable[..., Any]) -> Iterator[None]:
    """An attention function and masks like those of eager attention, under a name that is gone afterwards."""
    modeling = required("transformers.modeling_utils")
    masking = required("transformers.masking_utils")
    modeling.AttentionInterface.register(name, function)
    masking.AttentionMaskInterface.register(name, masking.ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    try:
        yield
    finally:
        # transformers has a way to enter a name and none to remove it
        modeling.AttentionInterface._global_mapping.pop(name, None)
        masking.AttentionMaskInterface._global_mapping.pop(name, None)


@contextmanager
def implementation(model: Any, name: str) -> Iterator[None]:
    """Another attention implementation for a while."""
    configs = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}.values()
    before = [(config, config._attn_implementation_internal) for config in configs]
    try:
        model.set_attn_implementation(name)
        yield
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation


def _eager_function(module: Any) -> Callable[..., Any] | None:
    for cls in type(module).__mro__:
        found = getattr(sys.modules.get(cls.__module__), "eager_attention_forward", None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    return None


def _present_and_bias(mask: Any, shape: tuple[int, int, int]) -> tuple[Any, Any]:
    """Which keys may be read (Q, N), None where that differs from head to head; what else a mask adds."""
    present, bias = np.ones((1, *shape[1:]), dtype=bool), None
    if mask is not None:
        torch, mask = required("torch"), mask[0, :, :, : shape[2]]
        if mask.dtype == torch.bool:
            present = _array(mask)
        else:
            present, added = _array(mask > torch.finfo(mask.dtype).min / 2), _array(mask)
            if (added[present] != 0).any():
                bias = np.broadcast_to(np.where(present, added, np.float32(0.0)), shape)
    if not (present == present[:1]).all():
        return None, None
    present = np.array(np.broadcast_to(present[0], shape[1:]))
    present.setflags(write=False)
    return present, bias


def _array(tensor: Any) -> NDArray[Any]:
    """A copy in numpy; half precision becomes float32."""
    tensor = tensor.detach().cpu()
    if tensor.is_floating_point() and tensor.element_size() < 4:
        tensor = tensor.float()
    array = np.array(tensor.numpy())
    array.setflags(write=False)
    return array


@dataclass(frozen=True)
class Differences:
    """Largest differences, relative to the largest entry but for probabilities."""

    scores: float = 0.0
    probabilities: float = 0.0
    queries: float = 0.0
    outputs: float = 0.0

    def with_largest(self, other: Differences) -> Differences:
        """Entry by entry the larger of two; NaN is larger than any number."""
        both = np.array([astuple(self), astuple(other)])
        return Differences(*np.where(np.isnan(both), np.inf, both).max(axis=0).tolist())


def differences(captured: Captured, watched: Watched) -> Differences:
    """Compare one layer with what the model computed in it.

    Raises
    ------
    FidelityError
        When the model's softmax runs over something else than the keys that were captured.
    """
    layer = captured.layer
    shape = (layer.heads, layer.n_queries, layer.n_keys)
    seen = None if watched.scores is None else tuple(watched.scores.shape[1:])
    if seen != shape:
        raise FidelityError(
            f"layer {layer.index} must have one score per head, query and key, {shape}, but the model's own "
            f"softmax runs over {'nothing' if seen is None else seen}; it cannot be read."
        )
    received = _by_head(watched.received, layer.heads)
    scores = probabilities = outputs = largest = 0.0
    for h in range(layer.heads):
        values = np.asarray(layer.values[layer.group(h)], dtype=np.float64)
        for rows in _blocks(layer.n_queries):
            present = layer.present[rows]
            alive = present.any(axis=1)
            found, own = layer.scores(h, rows), _double(watched.scores[0, h, rows])
            p, own_p = softmax(found), _double(watched.probabilities[0, h, rows])
            for array in (found, own):
                np.copyto(array, 0.0, where=~present)
            scores, largest = max(scores, _largest(found - own)), max(largest, _largest(own))
            probabilities = max(probabilities, _largest((p - own_p)[alive]))
            outputs = max(outputs, _largest((p @ values - received[h, rows])[alive]))
    return Differences(
        scores=_relative(scores, largest),
        probabilities=probabilities,
        queries=_relative(_largest(captured.way.queries() - layer.queries), _largest(layer.queries)),
        outputs=_relative(outputs, _largest(received)),
    )


def native_difference(captured: Captured, watched: Watched) -> float:
    """The largest difference of probabilities to a pass in the precision of the weights."""
    layer = captured.layer
    worst = 0.0
    for h in range(layer.heads):
        for rows in _blocks(layer.n_queries):
            alive = layer.present[rows].any(axis=1)
            own = _double(watched.probabilities[0, h, rows])
            worst = max(worst, _largest((layer.probabilities(h, rows) - own)[alive]))
    return worst


def within_limit(found: Differences, *, model: str) -> None:
    """Refuse a model that was not read faithfully.

    Raises
    ------
    FidelityError
        When a difference is above :data:`LIMIT`.

    Examples
    --------
    >>> within_limit(Differences(scores=1e-7), model="a model")
    >>> within_limit(Differences(scores=0.3), model="a model")
    Traceback (most recent call last):
    ...
    hardmax.errors.FidelityError: what was read from a model must agree with its own eager attention up to \
0.0001, but scores differ by 0.3; it is not understood and cannot be read.
    """
    beyond = [f"{name} differ by {value:.3g}" for name, value in asdict(found).items() if not value <= LIMIT]
    if beyond:
        raise FidelityError(
            f"what was read from {model} must agree with its own eager attention up to {LIMIT:g}, but "
            f"{', '.join(beyond)}; it is not understood and cannot be read."
        )


def _blocks(n: int) -> Iterator[slice]:
    """Queries in blocks whose scores fit into a processor's cache."""
    return (slice(start, min(start + _ROWS, n)) for start in range(0, n, _ROWS))


def _double(tensor: Any) -> Any:
    return tensor.detach().cpu().double().numpy()


def _by_head(received: Any, heads: int) -> Any:
    """What W_O receives, (H, Q, d_value)."""
    array = _double(received)
    array = array[0] if array.ndim == 3 else array
    return array.reshape(len(array), heads, -1).transpose(1, 0, 2)


def _largest(array: Any) -> float:
    """The largest absolute value; infinite where something is not a number."""
    if array.size == 0:
        return 0.0
    worst = float(max(array.max(), -array.min()))  # without a copy of the array
    return float("inf") if np.isnan(worst) else worst


def _relative(difference: float, scale: float) -> float:
    return difference / scale if scale > 0 else difference
