"""Half-precision weights in float32, one module at a time.

A model whose weights are bfloat16 or float16 is read in float32: rounding of activations would hide what is
to be compared. A second copy of all weights is not needed for that. Before a module runs, the weights that it
holds itself are replaced by their float32 values, which are exact, and afterwards by the originals; so there
is one copy of the model and one of the module at work. A plain embedding only copies rows, so its output is
converted instead of its table.

Weights and attention implementations are exchanged in the model itself, so one thread at a time may do it:
:func:`alone` makes the others wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

from hardmax.models.reading.required import required

__all__ = ["alone", "as_it_is", "in_float32", "weight_precision"]

_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_ENTERING = Lock()


def weight_precision(model: Any) -> str:
    """The type of the weights in words: ``"float32"``, ``"bfloat16"``, or several joined by ``+``."""
    kinds = {str(p.dtype).removeprefix("torch.") for p in model.parameters() if p.is_floating_point()}
    return "+".join(sorted(kinds))


@contextmanager
def alone(model: Any) -> Iterator[None]:
    """Lock a model for this thread; other threads that ask for it wait, the same thread does not."""
    with _ENTERING:
        lock = _LOCKS.setdefault(model, RLock())
    with lock:
        yield


@contextmanager
def in_float32(model: Any) -> Iterator[None]:
    """Run ``model`` in float32 for a while; its own weights are back afterwards, whatever happens."""
    torch = required("torch")
    half = (torch.float16, torch.bfloat16)
    kept: dict[Any, tuple[dict[str, Any], dict[str, Any]]] = {}
    handles = []

    def widen(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        for part in _used_by(module, torch):
            kept[part] = _narrow(part._parameters, half), _narrow(part._buffers, half)
            for own, narrow in zip((part._parameters, part._buffers), kept[part], strict=True):
                own.update({name: t.float() for name, t in narrow.items()})
        return tuple(_wide(a, half) for a in args), {name: _wide(a, half) for name, a in kwargs.items()}

    def restore(module: Any, args: Any = None, output: Any = None) -> None:
        for part in _used_by(module, torch):
            for own, narrow in zip((part._parameters, part._buffers), kept.pop(part, ()), strict=False):
                own.update(narrow)

    def widen_output(module: Any, args: Any, output: Any) -> Any:
        return output.float()

    try:
        for module in model.modules():
            if not _narrow(module._parameters, half) and not _narrow(module._buffers, half):
                continue
            if type(module) is torch.nn.Embedding:
                handles.append(module.register_forward_hook(widen_output))
            else:
                handles.append(module.register_forward_pre_hook(widen, with_kwargs=True))
                handles.append(module.register_forward_hook(restore, always_call=True))
        yield
    finally:
        for handle in handles:
            handle.remove()
        for module in list(kept):
            restore(module)


@contextmanager
def as_it_is(precision: str) -> Iterator[None]:
    """Run a half-precision model in its own precision, by torch's own kernels.

    oneDNN takes matrix instructions that the processor announces, and where a virtual machine announces more
    than it allows the whole process dies. A pass that only measures rounding is not worth that risk.
    """
    if "float16" not in precision:
        yield
        return
    torch = required("torch")
    with alone(torch):  # the switch is one for the whole process
        before = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)
        try:
            yield
        finally:
            torch._C._set_mkldnn_enabled(before)


def _used_by(module: Any, torch: Any) -> list[Any]:
    """Whose weights a module uses: its own, and for torch's attention also those of its output projection."""
    return list(module.modules()) if isinstance(module, torch.nn.MultiheadAttention) else [module]


def _narrow(tensors: dict[str, Any], half: tuple[Any, ...]) -> dict[str, Any]:
    return {name: tensor for name, tensor in tensors.items() if tensor is not None and tensor.dtype in half}


def _wide(value: Any, half: tuple[Any, ...]) -> Any:
    return value.float() if getattr(value, "dtype", None) in half else value
