r"""A model's own eager attention, looked at from outside: what its softmax receives and gives.

Nothing is replaced and nothing is computed: hooks say when a module of attention begins and when its
:math:`W_O` is about to be applied, and in between every softmax is looked at. This is what a reading is
compared with (:mod:`hardmax.models.reading.capture`).

Some families compute attention in the module itself and call no attention interface (BLOOM, GPT-J, DeBERTa,
...). There is no one to hand queries, keys and values over, but every such module multiplies queries by keys
before its softmax and probabilities by values after it. :func:`watch` with ``closely=True`` notes these
products, and rows of products that are gathered by relative positions; :func:`products_of` says which is
which. What a family claims about them (its scale, its bias) is not taken from the scores themselves, so that
comparing the two in another pass can fail.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hardmax import limits
from hardmax.models.reading.families import Family, attention_modules
from hardmax.models.reading.sources import required

_PRODUCTS = {"matmul", "__matmul__", "bmm", "baddbmm"}
_MASKED = -1e30  # masks put the smallest float32 in the place of a score, or a tenth of it


class Enough(Exception):
    """Ends a forward pass after the last layer that is wanted."""


@dataclass(eq=False)
class Watched:
    """What one layer computed in a pass of its own."""

    module: Any = None
    arguments: dict[str, Any] = field(default_factory=dict)  # of the module, by name
    scores: Any = None
    probabilities: Any = None
    received: Any = None
    before: list[tuple[Any, Any, Any]] = field(default_factory=list)  # products before the softmax
    after: list[tuple[Any, Any, Any]] = field(default_factory=list)  # and after it: left, right, result
    gathered: list[tuple[Any, Any, Any]] = field(default_factory=list)  # from what, which rows, result


@dataclass(frozen=True, eq=False)
class Products:
    """Tensors (1, heads or groups, rows, columns) around the softmax of a module."""

    query: Any
    key: Any
    value: Any
    present: Any  # (1, H, Q, N), bool
    bias: Any = None  # of positions that meet keys, over all scales
    relative_keys: Any = None  # (H, R, d_head): positions that meet queries
    relative_place: Any = None  # (Q, N): which of them


def forward(model: Any, inputs: dict[str, Any]) -> Any:
    """One forward pass without gradients; ``model`` is the one without its head."""
    torch = required("torch")
    with torch.no_grad():
        return model(**inputs)


def arguments_of(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a module is called with, by name."""
    signature = inspect.signature(module.forward)
    bound = dict(signature.bind_partial(*args, **kwargs).arguments)
    rest = [name for name, p in signature.parameters.items() if p.kind is p.VAR_KEYWORD]
    return {**bound, **bound.pop(rest[0], {})} if rest else bound


def states_of(arguments: dict[str, Any]) -> Any:
    """What the query projection receives."""
    return arguments.get("hidden_states", next(iter(arguments.values())))


@contextmanager
def implementation(model: Any, name: str) -> Iterator[None]:
    """Another attention implementation for a while."""
    configs = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}.values()
    before = [(config, config._attn_implementation_internal) for config in configs]
    try:
        for config in configs:  # transformers' own way to set it leaves out families without the interface
            config._attn_implementation_internal = name
        yield
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation


def watch(
    model: Any,
    family: Family,
    inputs: dict[str, Any],
    *,
    last: int | None = None,
    show: Callable[[int, Watched], None],
    closely: bool = False,
) -> None:
    """Run the model with its own eager attention and show what each layer computed, up to layer ``last``.

    ``show(index, watched)`` is called when a layer's W_O is about to be applied; what it gets is not kept.
    With ``closely`` products and gathered rows are noted as well.
    """
    torch = required("torch")
    state: dict[str, Any] = {"inside": None, "layer": -1, "watched": Watched()}
    softmax = (torch.nn.functional.softmax, torch.softmax, torch.Tensor.softmax)

    class Softmax(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        """Looks at what goes into a softmax inside attention, and at what comes out."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if state["inside"] is not None:
                self.note(func, args, kwargs or {}, result)
            return result

        def note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
            watched, name = state["watched"], getattr(func, "__name__", "")
            if func in softmax:
                watched.scores = args[0] if args else kwargs["input"]
                watched.probabilities = result
            elif closely and name in _PRODUCTS:
                given = [*args, *(kwargs[key] for key in ("batch1", "batch2") if key in kwargs)]
                products = watched.before if watched.scores is None else watched.after
                products.append((given[-2], given[-1], result))
            elif closely and name == "gather":
                watched.gathered.append((args[0], kwargs["index"] if "index" in kwargs else args[2], result))

    def enter(module: Any, args: Any, kwargs: Any) -> None:
        limits.look()
        watched = Watched(module, arguments_of(module, args, kwargs) if closely else {})
        state.update(inside=module, layer=state["layer"] + 1, watched=watched)

    def leave(module: Any, args: Any) -> None:
        if state["inside"] is None:
            return
        state["watched"].received = args[0]
        state["inside"] = None
        show(state["layer"], state["watched"])
        state["watched"] = Watched()
        if last is not None and state["layer"] >= last:
            raise Enough

    handles = []
    try:
        with implementation(model, "eager"), Softmax():
            for module, projection in attention_modules(model, family):
                handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
                handles.append(projection.register_forward_pre_hook(leave))
            forward(model, inputs)
    except Enough:
        pass
    finally:
        for handle in handles:
            handle.remove()


def products_of(watched: Watched, family: Family) -> Products | str:
    """Queries, keys, values and masks of a module that was watched closely, or what is strange about it."""
    if watched.scores is None or watched.scores.ndim != 4:
        return "its attention has no softmax over heads, queries and keys"
    n_queries, n_keys = (int(n) for n in watched.scores.shape[-2:])
    scored = [product for product in watched.before if product[2].shape[-2:] == (n_queries, n_keys)]
    mixed = [product for product in watched.after if product[0].shape[-2:] == (n_queries, n_keys)]
    if not scored or not mixed:
        return "its attention has no product of queries and keys before its softmax, or none after it"
    asked, met = scored[0][:2]
    found: dict[str, Any] = {}
    for source, rows, result in watched.gathered:
        for left, right, product in watched.before:
            if product is not source or family.relative is None:
                continue
            factor = family.relative(watched.module)
            if left is asked and "relative_keys" not in found:
                found["relative_keys"] = right.transpose(-1, -2).flatten(0, -3) * factor
                found["relative_place"] = rows.flatten(0, -3)[0]
            elif left is not asked and "bias" not in found:
                found["bias"] = result.transpose(-1, -2).flatten(0, -3)[None] * factor
    return Products(
        query=asked.flatten(0, -3)[None],
        key=met.transpose(-1, -2).flatten(0, -3)[None],
        value=mixed[0][1].flatten(0, -3)[None],
        present=watched.scores > _MASKED,
        **found,
    )
