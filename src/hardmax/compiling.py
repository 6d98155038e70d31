"""How kernels are compiled: on first use, cached on disk, without the interpreter's lock.

Kernels may call kernels of other files. numba's cache notices only edits of the file a function stands in, so
each kernel is stamped with a digest of its file and of every file of its package that this one imports,
directly or through others. Compiling takes seconds, so the first real compilation of a process is announced
through the logger ``hardmax``; loading from the cache is not.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import event, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.types.functions import BaseFunction

__all__ = ["kernel"]

# sums may be reordered and fused; error bounds that hold for any order allow it
REORDER = frozenset({"reassoc", "contract", "nsz"})


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    reorder: bool = False,
    finite: bool = False,
    allocates: bool = False,
    inner: bool = False,
    inlined: bool = False,
) -> Any:
    """Compile a function with numba.

    Parameters
    ----------
    reorder : bool
        Allow the compiler to reorder and fuse sums.
    finite : bool
        Promise that no NaN or infinity occurs, so that a maximum may be searched in parallel.
    allocates : bool
        Whether the function creates arrays. Kernels that only work on the arrays they are given need no
        reference counts; leaving them out makes those that pass many arrays around twice as fast.
    inner : bool
        Only other kernels call it: nothing of it needs to be kept on disk or made callable from Python,
        which saves a fifth of the time that compiling takes.
    inlined : bool
        Copy the function into its callers, which are kernels: for the small ones in inner loops, where
        handing over the arrays costs more than the work.
    """
    options: dict[str, Any] = {"nogil": True, "_nrt": allocates, "forceinline": inlined}
    if inner or inlined:
        options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    if reorder or finite:
        options["fastmath"] = set(REORDER if reorder else ()) | ({"nnan", "ninf", "nsz"} if finite else set())
    compile_with = numba.njit(**options)

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = _without_literals(compile_with(function))
        return dispatcher if inner or inlined else _with_memory(_cached(dispatcher, function))

    return compiled if function is None else compiled(function)


def _cached(dispatcher: Any, function: Callable[..., Any]) -> Any:
    """Keep the machine code on disk for as long as no source that went into it changes."""
    dispatcher.enable_caching()
    index = dispatcher._cache._cache_file
    index._source_stamp = (index._source_stamp, _digest_of(function.__module__))
    return dispatcher


_IMPORT = re.compile(rb"^(?:from|import) ([\w.]+)(?: import (\([^)]*\)|.*))?", re.MULTILINE)


@cache
def _digest_of(module: str) -> str:
    """SHA-256 of the sources that a kernel of a module can depend on.

    These are its own file, the files of the same package that it imports at its top, what those import in
    turn, and this file. Constants count: numba copies them into the machine code.
    """
    package, found, pending = module.partition(".")[0], {Path(__file__)}, [module]
    while pending:
        path = Path(sys.modules[pending.pop()].__file__ or "")
        if path in found:
            continue
        found.add(path)
        for source, names in _IMPORT.findall(path.read_bytes()):
            parent = source.decode()
            inside = [parent, *(f"{parent}.{name.decode()}" for name in re.findall(rb"\w+", names))]
            pending += [name for name in inside if name.partition(".")[0] == package and name in sys.modules]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(found))).hexdigest()


def _without_literals(dispatcher: Any) -> Any:
    """Let a kernel that is called with a constant be the same kernel as one called with any other number.

    Left to itself numba compiles a kernel once more for each constant integer or boolean among its arguments,
    which is a third of the time that the bigger engines take.
    """
    resolve: Any = dispatcher.get_call_template
    plain: Any = types.unliteral

    def resolve_plain(arguments: Any, named: Any) -> Any:
        return resolve(tuple(map(plain, arguments)), {name: plain(value) for name, value in named.items()})

    dispatcher.get_call_template = resolve_plain
    return dispatcher


def _with_memory(dispatcher: Any) -> Any:
    """Let numba remember, while it compiles this kernel, which implementation an operation has.

    Left to itself it tries all implementations of ``+`` or ``a[i]``, those for sets and strings among them,
    at each place where one stands and twice over, which is a quarter of the time.
    """
    compile_plainly: Any = dispatcher.compile

    def compile_with_memory(signature: Any) -> Any:
        with global_compiler_lock, _memory_of_operations():
            return compile_plainly(signature)

    dispatcher.compile = compile_with_memory
    return dispatcher


_resolve: Any = BaseFunction.get_call_type
_known: dict[Any, Any] = {}


def _resolved(operation: Any, context: Any, arguments: Any, named: Any) -> Any:
    question = (operation, context, tuple(arguments))
    answer = None if named else _known.get(question)
    if answer is None:
        answer = _resolve(operation, context, arguments, named)
        # an implementation that is itself compiled depends on the options of the kernel that asks for it
        if not named and operation.get_impl_key(answer) is operation.typing_key:
            _known[question] = answer
    return answer


@contextmanager
def _memory_of_operations() -> Iterator[None]:
    """Inside, what an operation on given types means is asked once per process; kernels may nest."""
    kind: Any = BaseFunction
    before, collecting = kind.get_call_type, gc.isenabled()
    kind.get_call_type = _resolved
    gc.disable()  # what a compiler builds, it keeps: looking for garbage again and again finds nothing
    try:
        yield
    finally:
        kind.get_call_type = before
        if collecting:
            gc.enable()


class _Announcement(event.Listener):
    """Says once per process that kernels are being compiled."""

    def __init__(self) -> None:
        self.made = False

    def on_start(self, event: Any) -> None:
        function = getattr(getattr(event.data.get("dispatcher"), "py_func", None), "__module__", "")
        if not self.made and function.startswith("hardmax."):
            self.made = True
            logging.getLogger("hardmax").warning(
                "compiling kernels for their first use; this takes up to half a minute, later processes load "
                "them from the cache (`hardmax compile` does all of it at once)"
            )

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]
