"""How kernels are compiled: on first use, cached on disk, without the interpreter's lock.

Kernels may call kernels of other files. numba's cache notices only edits of the file a function stands in, so
each kernel is stamped with a digest of its file and of every file of its package that this one imports,
directly or through others. Compiling takes seconds, so the first real compilation of a process is announced
through the logger ``hardmax``; loading from the cache is not.

Compiling is shortened, and the machine code made faster, by replacing four private parts of numba, and only
while a kernel is compiled. That is tested with the versions in ``TESTED``. Any other numba, one whose private
parts look different, and one that fails on the way compile plainly: with the same results, in about twice the
time, and to kernels that are two to four times slower. The environment variable ``HARDMAX_PLAIN_NUMBA=1``
asks for that.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any

import numba

from hardmax.errors import HardmaxError

# the first and the last version of numba with which the shortcuts are tested
TESTED = ((0, 60), (0, 68))

# sums may be reordered and fused; error bounds that hold for any order allow it
REORDER = frozenset({"reassoc", "contract", "nsz"})

_OF_NUMBA = "_ZN5numba"  # how the names of numba's own functions begin in machine code

_log = logging.getLogger("hardmax")


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
        Only other kernels call it: it is compiled as a part of them, nothing of it is kept on disk or made
        callable from Python.
    inlined : bool
        Copy the function into its callers, which are kernels: for the small ones in inner loops, where
        passing the arrays costs more than the work.
    """
    if getattr(numba.config, "DISABLE_JIT", False):
        raise HardmaxError(
            "NUMBA_DISABLE_JIT is set, but the kernels of hardmax call instructions of the processor and "
            "cannot run as Python: unset it."
        )
    inner = inner or inlined
    options: dict[str, Any] = {"nogil": True}
    if _shortcuts.apply:
        options |= {"_nrt": allocates, "forceinline": inlined, "no_cfunc_wrapper": True}
        options["no_cpython_wrapper"] = inner
    if reorder or finite:
        options["fastmath"] = set(REORDER if reorder else ()) | ({"nnan", "ninf", "nsz"} if finite else set())
    compile_with = numba.njit(**options)

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = compile_with(function) if inner else _kept_on_disk(compile_with, function)
        return _shortcuts.use_for(dispatcher, inner=inner)

    return compiled if function is None else compiled(function)


# The cache on disk
# ----------------------------------------------------------------------------------------------------------


def _kept_on_disk(compile_with: Any, function: Callable[..., Any]) -> Any:
    """A kernel whose machine code is kept for as long as no source that went into it changes.

    Without the digest in the stamp, code of an older source could run: then nothing is kept.
    """
    dispatcher = compile_with(function)
    try:
        dispatcher.enable_caching()
        index = dispatcher._cache._cache_file
        index._source_stamp = (index._source_stamp, _digest_of(function.__module__))
        index._load_index = partial(_loaded, index._load_index)
        index._load_data = partial(_whole, index._load_data)
    except (AttributeError, KeyError, OSError, RuntimeError):
        return compile_with(function)
    return dispatcher


def _loaded(load_index: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    """What the index of a cache lists; nothing if it names types of an older version or is damaged."""
    try:
        return load_index()
    except (ImportError, AttributeError, ValueError, EOFError, pickle.UnpicklingError):
        return {}


def _whole(load_data: Callable[[str], Any], name: str) -> Any:
    """The machine code of a kernel; a file that was cut off counts as one that cannot be read."""
    try:
        return load_data(name)
    except (ImportError, AttributeError, ValueError, EOFError, IndexError, pickle.UnpicklingError) as error:
        raise OSError(f"{name} is damaged") from error


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


# Shortcuts
# ----------------------------------------------------------------------------------------------------------


class _Shortcuts:
    """Three ways to spare numba work and one to spare the processor some, none of which changes what a kernel
    computes.

    *Constants.* numba compiles a kernel once more for each constant integer or boolean among its arguments,
    which is a third of the time that the bigger engines take. Here all numbers of a type share one kernel.

    *Operations.* numba tries all implementations of ``+`` or ``a[i]``, those for sets and strings among them,
    at each place where one stands and twice over, which is a quarter of the time. Here the answer is
    remembered.

    *Inner kernels.* numba optimises every kernel and translates it into machine code, then links and
    optimises it once more in each kernel that calls it, and so on upwards. Here that is done once, in the
    outermost kernel, which is the only one that runs: it saves another quarter.

    *Indices.* In Python, a negative index counts from the end. numba tests for that at each access ``a[i]``,
    and a loop over ``a[start + i]`` is then not vectorised, because its addresses may jump. Here an index is
    taken as it is: a kernel must not index from the end, not even by a constant.
    """

    lock: Any
    plain: Any
    operations: Any
    contexts: Any
    arrays: Any
    integer: Any
    resolve: Any
    make_executable: Any
    from_the_end: Any

    def __init__(self) -> None:
        self.known: dict[Any, Any] = {}
        self.inner: list[Any] = []
        self.apply = os.environ.get("HARDMAX_PLAIN_NUMBA", "0") in ("", "0") and self._find()

    def _find(self) -> bool:
        """Look up what is replaced or called; whether all of it is as expected."""
        version = tuple(map(int, re.findall(r"\d+", numba.__version__)[:2]))
        if not TESTED[0] <= version <= TESTED[1]:
            return False
        try:
            from numba.core import types
            from numba.core.codegen import CPUCodeLibrary
            from numba.core.compiler_lock import global_compiler_lock
            from numba.core.cpu import CPUContext
            from numba.core.dispatcher import Dispatcher
            from numba.core.types.functions import BaseFunction
            from numba.np import arrayobj

            self.lock, self.plain = global_compiler_lock, types.unliteral
            self.operations, self.contexts = BaseFunction, CPUContext
            self.resolve, self.make_executable = BaseFunction.get_call_type, CPUContext.get_executable
            self.arrays, self.integer, self.from_the_end = arrayobj, types.intp, arrayobj.fix_integer_index
            expected: dict[Any, list[str]] = {
                BaseFunction.get_call_type: ["self", "context", "args", "kws"],
                BaseFunction.get_impl_key: ["self", "sig"],
                CPUContext.get_executable: ["self", "library", "fndesc", "env"],
                CPUCodeLibrary._optimize_final_module: ["self"],
                CPUCodeLibrary._finalize_final_module: ["self"],
                CPUCodeLibrary._finalize_dynamic_globals: ["self"],
                CPUCodeLibrary._verify_declare_only_symbols: ["self"],
                Dispatcher.compile: ["self", "sig"],
                Dispatcher.get_call_template: ["self", "args", "kws"],
                arrayobj.fix_integer_index: ["context", "builder", "idxty", "idx", "size"],
            }
            return all(list(signature(part).parameters) == names for part, names in expected.items())
        except (ImportError, AttributeError, TypeError, ValueError):
            return False

    def use_for(self, dispatcher: Any, *, inner: bool) -> Any:
        """Let a kernel be compiled with the shortcuts, if they apply."""
        if self.apply:
            dispatcher.get_call_template = partial(self._resolve_call, dispatcher.get_call_template)
            if inner:
                self.inner.append(dispatcher)
            else:
                dispatcher.compile = partial(self._compile, dispatcher.compile)
        return dispatcher

    def _compile(self, compile_plainly: Any, kind: Any) -> Any:
        if self.apply:
            try:
                with self.lock, self._replaced():
                    return compile_plainly(kind)
            except Exception as error:  # an error of the kernel itself comes again below
                self.apply = False
                _log.info("compiling plainly from now on: %s", error)
                for dispatcher in self.inner:
                    dispatcher.overloads.clear()
        return compile_plainly(kind)

    @contextmanager
    def _replaced(self) -> Iterator[None]:
        """Inside, numba's own functions are replaced by those below; kernels may nest."""
        before = self.operations.get_call_type, self.contexts.get_executable
        index_before = self.arrays.fix_integer_index
        collecting = gc.isenabled()
        self.operations.get_call_type = lambda *question: self._operation(*question)
        self.contexts.get_executable = lambda *parts: self._executable(*parts)
        self.arrays.fix_integer_index = lambda *access: self._index(*access)
        gc.disable()  # what a compiler builds, it keeps: looking for garbage again and again finds nothing
        try:
            yield
        finally:
            self.operations.get_call_type, self.contexts.get_executable = before
            self.arrays.fix_integer_index = index_before
            if collecting:
                gc.enable()

    def _resolve_call(self, resolve: Any, arguments: Any, named: Any) -> Any:
        """The kernel for a call, in which a constant is like any other number of its type."""
        if not self.apply:
            return resolve(arguments, named)
        plain = self.plain
        return resolve(tuple(map(plain, arguments)), {name: plain(value) for name, value in named.items()})

    def _operation(self, operation: Any, context: Any, arguments: Any, named: Any) -> Any:
        """The signature of an operation on given types, asked once per process."""
        question = (operation, context, tuple(arguments))
        answer = None if named else self.known.get(question)
        if answer is None:
            answer = self.resolve(operation, context, arguments, named)
            # an implementation that is itself compiled depends on the options of the kernel that asks for it
            if not named and operation.get_impl_key(answer) is operation.typing_key:
                self.known[question] = answer
        return answer

    def _index(self, context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
        """Where an array is read or written: at the index itself, which must not be negative.

        numba's own functions keep theirs: code that is not ours may share them.
        """
        if not kind.signed or builder.function.name.startswith(_OF_NUMBA):
            return self.from_the_end(context, builder, kind, index, size)
        return context.cast(builder, index, kind, self.integer)

    def _executable(self, context: Any, library: Any, description: Any, environment: Any) -> Any:
        """What Python calls: nothing for an inner kernel, whose code is only linked into others."""
        with suppress(NameError):
            if not library._finalized:  # what comes from the disk is
                library._final_module.get_function(description.llvm_cpython_wrapper_name)
            return self.make_executable(context, library, description, environment)

        def finish() -> None:
            library._finalize_dynamic_globals()
            library._verify_declare_only_symbols()
            library._finalized = True

        library._optimize_final_module = lambda: None
        library._finalize_final_module = finish
        return {}.__getitem__  # a key for numba's tables; it must be a new built-in function


_shortcuts = _Shortcuts()


# The announcement
# ----------------------------------------------------------------------------------------------------------


def _announce_once() -> None:
    """Say once per process that kernels are being compiled, if numba tells us."""
    try:
        from numba.core import event

        class Announcement(event.Listener):
            made = False

            def on_start(self, event: Any) -> None:
                function = getattr(event.data.get("dispatcher"), "py_func", None)
                if not self.made and getattr(function, "__module__", "").startswith("hardmax."):
                    self.made = True
                    _log.warning(
                        "compiling kernels for their first use; this takes up to half a minute, later "
                        "processes load them from the cache (`hardmax compile` does all of it at once)"
                    )

            def on_end(self, event: Any) -> None:
                """Nothing to say."""

        event.register("numba:compile", Announcement())  # type: ignore[no-untyped-call]
    except (ImportError, AttributeError, TypeError):
        return


_announce_once()
