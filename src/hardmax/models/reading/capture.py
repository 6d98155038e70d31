r"""What a model's attention receives, layer by layer, and a check against what the model computes itself.

Every model that follows transformers' attention interface looks up the function that computes attention by a
name in its configuration, and the function that builds masks by the same name. For the time of a forward pass
:func:`capture` enters a name of its own: the function under it notes queries, keys, values, mask and scale,
and lets the model's own eager function compute; masks are built as for eager attention. So nothing is
computed twice in two ways, and no family needs code of its own here. Name and implementation are put back
whatever happens. A family that computes attention without the interface is watched closely instead
(:mod:`hardmax.models.reading.watching`).

A second pass with ``"eager"`` itself (:func:`~hardmax.models.reading.watching.watch`) looks at the model from
outside: the scores that enter its softmax, the probabilities that leave it, and what W_O receives. Nothing of
the first pass is used in it, which makes it a check: :func:`differences` compares, for every layer and head
and in double precision,

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

from hardmax import limits
from hardmax.errors import DimensionMismatchError, FidelityError, UnsupportedModelError
from hardmax.models.reading.captured import HARMLESS, Fields, with_sinks
from hardmax.models.reading.families import FAMILIES, Family, QueryWay, attention_modules, output_weights
from hardmax.models.reading.sources import CapturedLayer, RelativeKeys, required, softmax
from hardmax.models.reading.watching import (
    Enough,
    Watched,
    arguments_of,
    forward,
    implementation,
    products_of,
    states_of,
    watch,
)

LIMIT = 1e-4
"""Differences above this are not rounding; the model is refused."""

_UNDERSTOOD = {"dropout", "position_bias", "scaling", "softcap"}

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
class _Notes:
    """The state of a capturing pass."""

    family: Family
    modules: dict[Any, Any]  # attention module -> the one of W_O
    wanted: Callable[[int], bool]
    enough: Callable[[list[Captured]], bool]
    name: str
    seen: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)  # of the module that is running
    found: list[Captured] = field(default_factory=list)
    kept: dict[tuple[int, Any], tuple[Any, Any]] = field(default_factory=dict)

    def enter(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        limits.look()
        self.arguments = arguments_of(module, args, kwargs)

    def attend(
        self, module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any
    ) -> tuple[Any, Any]:
        """Take the place of the attention interface."""
        if module not in self.modules:
            raise self._refused(f"attention is computed by a {type(module).__name__}, which is not known")
        index, self.seen = self.seen, self.seen + 1
        if self.wanted(index):
            self._check(options)
            self._note(self._captured(index, module, query, key, value, attention_mask, options))
        eager = _eager_function(module)
        if eager is None:
            raise self._refused(f"{type(module).__name__} has no eager attention function beside it")
        return eager(module, query, key, value, attention_mask, **options)  # type: ignore[no-any-return]

    def look(self, index: int, watched: Watched) -> None:
        """Take what a module without the interface multiplied."""
        if not self.wanted(index):
            return
        met = products_of(watched, self.family)
        if isinstance(met, str):
            raise self._refused(met)
        module, family, self.arguments = watched.module, self.family, watched.arguments
        bias = met.bias if family.bias is None else self.arguments.get(family.bias)
        if bias is not None and family.bias_factor is not None:
            bias = bias * family.bias_factor(module)
        options = {
            "scaling": None if family.scale is None else family.scale(module),
            "position_bias": bias,
            "relative": None if met.relative_keys is None else (met.relative_keys, met.relative_place),
        }
        self._note(self._captured(index, module, met.query, met.key, met.value, met.present, options))

    def _note(self, captured: Captured) -> None:
        self.found.append(captured)
        if self.enough(self.found):
            raise Enough

    def _check(self, options: dict[str, Any]) -> None:
        given = {name for name, value in options.items() if value is not None}
        strange = sorted(given - HARMLESS - _UNDERSTOOD - ({"s_aux"} if self.family.sinks else set()))
        reasons = [f"its attention takes {name!r}, which is not understood" for name in strange]
        if options.get("dropout"):
            reasons.append("it applies dropout to probabilities")
        if reasons:
            raise self._refused(*reasons)

    def _captured(
        self, index: int, module: Any, query: Any, key: Any, value: Any, mask: Any, options: dict[str, Any]
    ) -> Captured:
        heads, n_queries, d_head = query.shape[1:]
        shape = (heads, n_queries, int(key.shape[2]))
        scaling, sinks, softcap = (options.get(name) for name in ("scaling", "s_aux", "softcap"))
        inputs = _array(states_of(self.arguments)[0])
        cos, sin = self._angles(module)
        way = QueryWay(module, self.family, heads, d_head, inputs, cos, sin)
        present, bias = self._mask(mask, shape)
        bias = _sum(bias, self._position_bias(options.get("position_bias"), shape))
        if softcap is not None and not (bias is None and sinks is None):
            raise self._refused("its scores pass through a softcap before something is added to them")
        fields: Fields = {
            "queries": _array(query[0]),
            "keys": _array(key[0]),
            "values": _array(value[0]),
            "present": present,
            "bias": bias,
        }
        if sinks is not None:
            fields.update(with_sinks(fields, _array(sinks)))
        relative = options.get("relative")
        layer = CapturedLayer(
            index=index,
            inputs=inputs,
            scale=float(d_head**-0.5 if scaling is None else scaling),
            output_weights=output_weights(self.modules[module], self.family, heads),
            query_map=way.at,
            softcap=None if softcap is None else float(softcap),
            relative=None if relative is None else RelativeKeys(*(_array(part) for part in relative)),
            **fields,
        )
        for array in (layer.keys, layer.values, layer.present):
            array.setflags(write=False)
        return Captured(layer, way)

    def _angles(self, module: Any) -> tuple[Any, Any]:
        """Cosines and sines (Q, r) by which this layer turns its queries; None where it does not."""
        family, given = self.family, self.arguments
        if family.rotary is None or (family.rotary_if and not getattr(module, family.rotary_if)):
            return None, None
        if family.bias is not None and given.get(family.bias) is not None:
            return None, None  # a family with both has one or the other
        if family.sines is not None:
            table = _array(getattr(module, family.sines))[_array(given["position_ids"]).reshape(-1)]
            sin, cos = np.split(table, 2, axis=-1)
        else:
            pairs = [a for a in given.values() if isinstance(a, tuple) and len(a) == 2]
            angles = given.get("position_embeddings", pairs[0] if pairs else None)
            if angles is None:
                return None, None
            cos, sin = (_array(t[0] if t.ndim == 3 else t) for t in angles)  # (1, Q, r) or (Q, r)
        return (np.tile(cos, 2), np.tile(sin, 2)) if family.angles_once else (cos, sin)

    def _mask(self, mask: Any, shape: tuple[int, int, int]) -> tuple[NDArray[np.bool_], Any]:
        present, bias = self._once(mask, shape, _present_and_bias)
        if present is None:
            raise self._refused("its heads have different masks")
        return present, bias

    def _position_bias(self, bias: Any, shape: tuple[int, int, int]) -> NDArray[np.float32] | None:
        """What is added to scores according to positions (H, Q, N); longer tables end with this text."""
        return None if bias is None else self._once(bias, shape, _by_position)

    def _once(self, tensor: Any, shape: tuple[int, int, int], make: Callable[[Any, Any], Any]) -> Any:
        """What is made of a tensor that the layers share; it is kept beside its id, so ids stay different."""
        if (id(tensor), shape) not in self.kept:
            self.kept[id(tensor), shape] = tensor, make(tensor, shape)
        return self.kept[id(tensor), shape][1]

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
    if family.outside:
        watch(model, family, inputs, show=notes.look, closely=True)
        return notes.found
    key = f"hardmax_{id(notes):x}"
    with _registered(key, notes.attend), implementation(model, key):
        handles = [m.register_forward_pre_hook(notes.enter, with_kwargs=True) for m in modules]
        try:
            forward(model, inputs)
        except Enough:
            pass
        finally:
            for handle in handles:
                handle.remove()
    return notes.found


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


def _by_position(bias: Any, shape: tuple[int, int, int]) -> NDArray[np.float32] | None:
    table = _array(bias.reshape(shape[0], -1, bias.shape[-1])[:, -shape[1] :, -shape[2] :])
    return np.broadcast_to(table, shape) if table.any() else None


def _sum(a: NDArray[Any] | None, b: NDArray[Any] | None) -> NDArray[Any] | None:
    return b if a is None else a if b is None else a + b


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
            if layer.null_keys:  # these models subtract the largest score of a row, which changes nothing
                found, own = (a - a.max(axis=1, keepdims=True) for a in (found, own))
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
