r"""The stack machine: arrays, growth, state and limits of every engine that walks through a tree depth first.

An engine declares its arrays. The named tuples of its kernels give names and types; the engine gives the
sizes, which arrays are saved (``saved``), and what an entry of an array of cells describes (``units``,
``_columns``).
The machine allocates them, makes them longer when a kernel finds them full, writes them into a state and
reads them back. A kernel runs until it needs something; the machine provides it and calls it again.

A machine such as that of :mod:`hardmax.regions.plane.machine` walks through a tree depth first. Its stack
holds the subtrees that wait; the one on top comes first in the order of cells. A subtree needs
the maps of the earlier layers. They are stored in ``path``, ``errors`` and ``signs``, and the subtrees on the
stack share them up to their own layer. So any run of the stack, with a copy of these three, is
a machine's state of its own: a *piece* that another machine can process.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.domains import Domain
from hardmax.networks.layers import Layer
from hardmax.regions.engine.decide import Ladder, OutOfTime
from hardmax.regions.engine.layer_kernels import CERTIFIED, CHANGES, ERRORS, EXACT, FLOAT, FOLD, HEADER, WALL
from hardmax.regions.engine.program import Program
from hardmax.regions.engine.sign_kernels import join_key
from hardmax.regions.maps.exact_maps import ExactMaps

State = dict[str, NDArray[Any]]
ARITHMETICS = {"exact": EXACT, "certified": CERTIFIED, "float": FLOAT}
SERIALS = 32  # bits of the number of a layer cell that count inside one piece; those above name the piece


class Column(NamedTuple):
    """The layout of an array of cells: what it has entries for, numbers per entry, and numbers at the end."""

    unit: str
    width: int = 1
    more: int = 0
    table: bool = False  # whether entries are rows of a matrix


@cache
def types_of(kind: Any) -> dict[str, np.dtype[Any]]:
    """The types of the arrays of a named tuple, from its annotations.

    ``NDArray[T]`` is ``ndarray[shape, dtype[T]]``, and from NumPy 2.5 on an alias of its own with the one
    argument ``T``.
    """
    last = {name: get_args(hint)[-1] for name, hint in get_type_hints(kind).items()}
    return {name: np.dtype((get_args(one) or [one])[0]) for name, one in last.items()}


def allocated(kind: Any, shapes: dict[str, Any]) -> Any:
    """A named tuple of zeros.

    >>> class Pair(NamedTuple):
    ...     left: NDArray[np.float64]
    ...     right: NDArray[np.int64]
    >>> allocated(Pair, {"left": 2, "right": (1, 2)})
    Pair(left=array([0., 0.]), right=array([[0, 0]]))
    """
    return kind(**{name: np.zeros(shapes[name], dtype=dtype) for name, dtype in types_of(kind).items()})


@dataclass(frozen=True)
class Tally:
    """What a machine has counted.

    Attributes
    ----------
    n_cells, n_slivers, n_unbounded : int
    serials : int
        Layer cells that got a number.
    size : float
        Area or volume of the bounded cells, in the machine's unit; where linear programs search, the share
        of the tree of cells.
    layer_cells : tuple of int
        Cells after each layer.
    n_rational, n_double_double, n_zero : int
    """

    n_cells: int = 0
    n_slivers: int = 0
    n_unbounded: int = 0
    serials: int = 0
    size: float = 0.0
    layer_cells: tuple[int, ...] = ()
    n_rational: int = 0
    n_double_double: int = 0
    n_zero: int = 0

    def __add__(self, other: Tally) -> Tally:
        long, short = sorted((self.layer_cells, other.layer_cells), key=len, reverse=True)
        return Tally(
            self.n_cells + other.n_cells,
            self.n_slivers + other.n_slivers,
            self.n_unbounded + other.n_unbounded,
            self.serials + other.serials,
            self.size + other.size,
            tuple(a + b for a, b in zip(long, (*short, *(0,) * (len(long) - len(short))), strict=True)),
            self.n_rational + other.n_rational,
            self.n_double_double + other.n_double_double,
            self.n_zero + other.n_zero,
        )


class StackMachine(ABC):
    """A machine whose state is a stack of nodes, each ending with a header of eight integers.

    Entries 1, 2 and 4 of a header are the layer, the head and the number of units that still cross the cell;
    entries 6 and 7 say how many integers and floats the node has.
    """

    kernels: ClassVar[Any]
    units: ClassVar[tuple[str, ...]]  # what cells are written down in: the counters C_OUT_*, cells first
    saved: ClassVar[tuple[str, ...]] = ("control", "layer_cells", "path", "errors", "signs")
    stack: ClassVar[tuple[int, int]] = (1 << 16, 1 << 17)  # integers and floats to begin with
    slow: int = 0
    small_steps: ClassVar[bool] = True  # whether a step takes next to no time
    begins_at_once: ClassVar[bool] = True  # whether a new machine has entered the first layer
    state_lasts: ClassVar[bool] = False  # whether the arrays of a state are never written again
    deadline: float = np.inf  # when, by time.monotonic, even a decision in rationals is left

    def __init__(self, layers: tuple[Layer, ...], domain: Domain, *, arithmetic: str, store: bool) -> None:
        kernels = self.kernels
        self.layers = layers
        self.domain = domain
        self.exact_maps = ExactMaps(layers, domain)
        self.program = program = Program.of(layers, columns=domain.d + 1)
        self.control = np.zeros(kernels.CONTROL, dtype=np.int64)
        self.control[kernels.C_TRUST] = ARITHMETICS[arithmetic]
        self.control[kernels.C_LAST] = program.last
        self.control[kernels.C_EMIT] = store
        self.control[kernels.C_WORDS] = program.words
        self.control[kernels.C_ROUTES] = program.heads
        self.limit(None)
        self.layer_cells = np.zeros(program.last + 2, dtype=np.int64)
        self.path = np.zeros(program.path_size)
        # the maps up to the scores of the first max-groups never change: a state does without them
        self._fixed = program.path_end(program.first) if self.begins_at_once else 0
        self.errors = np.zeros((program.last + 2, ERRORS))
        self.signs = np.zeros(program.sign_size, dtype=np.int64)
        self.si: NDArray[np.int64] = np.zeros(self.stack[0], dtype=np.int64)
        self.sf: NDArray[np.float64] = np.zeros(self.stack[1])
        self.output: dict[str, NDArray[Any]] = {}
        self.ladder = self._ladder()
        self.whole = True  # false while the node on top of the stack is being replaced

    # what an engine adds

    def _ladder(self) -> Ladder:
        """What decides signs that floats leave open."""
        return Ladder()

    def _columns(self) -> dict[str, Column]:
        """The arrays of cells; every engine has these, and more."""
        words, heads = self.program.words, self.program.heads
        return {"bits": Column("cells", words), "routes": Column("cells", heads), "tied": Column("cells")}

    @abstractmethod
    def _largest(self) -> tuple[int, ...]:
        """The most entries that one cell may take, unit by unit."""

    @abstractmethod
    def _run(self, budget: int) -> None:
        """Let the kernel process at most ``budget`` nodes."""

    @abstractmethod
    def _fold_exactly(self) -> None:
        """Decide them in rationals."""

    @abstractmethod
    def _head_exactly(self) -> None:
        """Decide the head at which the node on top of the stack stopped."""

    @abstractmethod
    def _resume(self, status: int) -> None:
        """Handle a status of the kernel that is particular to this engine."""

    @abstractmethod
    def cells(self) -> Any:
        """The cells that are stored."""

    # arrays

    def _grow_stack(self, ints: int = 0, floats: int = 0) -> None:
        """Grow the stack to twice its size, or to twice the given sizes if those are larger."""
        self.si = _longer(self.si, 2 * max(len(self.si), ints))
        self.sf = _longer(self.sf, 2 * max(len(self.sf), floats))

    def _make_output(self, *rooms: int) -> None:
        """Resize the arrays of cells to this many entries per unit, existing ones included.

        New entries are not cleared: kernels write before they read, but for the first of the offsets.
        """
        room = dict(zip(self.units, rooms, strict=True))
        types = types_of(self.kernels.Out)
        for name, column in self._columns().items():
            n = room[column.unit]
            shape = (max(n, 1), column.width) if column.table else (max(column.width * n + column.more, 1),)
            before = self.output.get(name)
            if before is not None and len(before) >= shape[0]:
                before.resize(shape, refcheck=False)
                continue
            self.output[name] = array = np.empty(shape, dtype=types[name])
            if before is None:
                array[: column.more] = 0
            else:
                array[: len(before)] = before

    def _rooms(self) -> list[int]:
        """Room in the arrays of cells, unit by unit."""
        sizes: dict[str, list[int]] = {unit: [] for unit in self.units}
        for name, column in self._columns().items():
            if column.width:
                width = 1 if column.table else column.width
                sizes[column.unit].append((len(self.output[name]) - column.more) // width)
        return [min(sizes[unit]) for unit in self.units]

    def _used(self) -> list[int]:
        """Entries that are written down, unit by unit."""
        return [self._count(f"C_OUT_{unit.upper()}") for unit in self.units]

    def _grow_output(self) -> None:
        """Twice the room where the next cell may not fit."""
        grown = [
            2 * room + most if used + most > room else room
            for room, used, most in zip(self._rooms(), self._used(), self._largest(), strict=True)
        ]
        self._make_output(*grown)

    # running

    def advance(self, steps: int) -> None:
        """Process at most ``steps`` nodes of the stack, deciding what floats cannot."""
        decided = self.n_rational
        try:
            with np.errstate(all="ignore"):  # a number that overflows decides nothing
                self._advance(steps)
        except OutOfTime:
            self.ladder.n_rational = max(decided, self.n_rational - 1)  # the last one is not decided

    def check_time(self) -> None:
        """Leave a decision that takes too long."""
        if time.monotonic() > self.deadline:
            raise OutOfTime

    def _advance(self, steps: int) -> None:
        kernels, control = self.kernels, self.control
        end = control[kernels.C_STEPS] + steps
        while control[kernels.C_STEPS] < end:
            self._run(int(end - control[kernels.C_STEPS]))
            status = int(control[kernels.C_STATUS])
            if status in (kernels.DONE, kernels.BUDGET) or time.monotonic() > self.deadline:
                return
            if status in (kernels.UNDECIDED_FOLD, kernels.UNDECIDED_HEAD):
                if not self.ladder.grow():
                    fold = status == kernels.UNDECIDED_FOLD
                    self.ladder.decide(self._fold_exactly if fold else self._head_exactly)
            elif status == kernels.STACK_FULL:
                self._grow_stack()
            elif status == kernels.OUTPUT_FULL:
                self._grow_output()
            else:
                self._resume(status)

    def take(self) -> Any:
        """Return the cells that were stored since the last call, and clear them."""
        rooms = self._rooms()
        with np.errstate(all="ignore"):  # margins and witnesses of cells that reach beyond floats
            cells = self.cells()
        for unit in self.units:
            self.control[getattr(self.kernels, f"C_OUT_{unit.upper()}")] = 0
        self.output = {}
        self._make_output(*rooms)
        return cells

    # checkpoints

    def state(self) -> State:
        """Everything a later process needs to go on, as arrays."""
        used = dict(zip(self.units, self._used(), strict=True))
        state = {name: getattr(self, name) for name in self.saved}
        state["path"] = self.path[self._fixed :]
        state["stack_ints"] = self.si[: self.control[self.kernels.C_INTS]]
        state["stack_floats"] = self.sf[: self.control[self.kernels.C_FLOATS]]
        state["decided"] = np.array(self.ladder.decided)
        for name, column in self._columns().items():
            width = 1 if column.table else column.width
            state[f"output_{name}"] = self.output[name][: width * used[column.unit] + column.more]
        return state

    def restore(self, state: State) -> None:
        """Go back to a saved state of a machine for the same question."""
        for name in self.saved:
            first = self._fixed if name == "path" else 0
            getattr(self, name)[first : first + len(state[name])] = state[name]
        ints, floats = state["stack_ints"], state["stack_floats"]
        if len(ints) > len(self.si) or len(floats) > len(self.sf):
            self._grow_stack(len(ints), len(floats))
        self.si[: len(ints)], self.sf[: len(floats)] = ints, floats
        self.ladder.decided = state["decided"]
        self.ladder.forget()
        if len(state.get("output_tied", ())):  # a piece brings no cells along
            for name, array in self.output.items():
                saved = state[f"output_{name}"]
                self.output[name] = _longer(saved.astype(array.dtype, copy=False), max(len(saved), 1))
        self.whole = True

    @classmethod
    @cache
    def _counters(cls) -> list[int]:
        """Entries of the control array that count what was found."""
        names = ("C_CELLS", "C_STEPS", "C_SLIVERS", "C_UNBOUNDED")
        outputs = [name for name in vars(cls.kernels) if name.startswith("C_OUT_")]
        return [int(getattr(cls.kernels, name)) for name in (*names, *outputs) if hasattr(cls.kernels, name)]

    @classmethod
    @cache
    def _remarks(cls) -> list[int]:
        """Entries of the control array that say something about the node on top."""
        names = ("C_ANSWERED", "C_FREE", "C_PREPARING")
        return [int(getattr(cls.kernels, name)) for name in names if hasattr(cls.kernels, name)]

    def _count(self, name: str) -> int:
        return int(self.control[getattr(self.kernels, name)]) if hasattr(self.kernels, name) else 0

    @property
    def n_cells(self) -> int:
        """Cells found so far."""
        return self._count("C_CELLS")

    @property
    def n_slivers(self) -> int | None:
        """Slivers found so far; ``None`` if this engine does not count them."""
        return self._count("C_SLIVERS") if hasattr(self.kernels, "C_SLIVERS") else None

    @property
    def size(self) -> float:
        """Area of the bounded cells so far, in the machine's unit; 0 if this engine does not add it up."""
        return 0.0

    def share(self, size: float) -> float | None:
        """A size over that of the domain; ``None`` where that has no meaning or is not known."""
        return None

    def settled(self, size: float) -> float | None:
        """The share of the work that cells of this size stand for, for a report of progress."""
        return self.share(size)

    @property
    def coverage(self) -> float | None:
        """Size of the cells found over that of the domain, where it is known."""
        return self.share(self.size)

    @property
    def n_unbounded(self) -> int | None:
        """Unbounded cells found so far; ``None`` if this engine does not count them."""
        return self._count("C_UNBOUNDED") if hasattr(self.kernels, "C_UNBOUNDED") else None

    @property
    def done(self) -> bool:
        """Whether every node has been processed."""
        return bool(self._count("C_STATUS") == self.kernels.DONE)

    def limit(self, max_cells: int | None) -> None:
        """Stop at this many cells."""
        most = np.iinfo(np.int64).max if max_cells is None else max_cells
        self.control[self.kernels.C_MOST_CELLS] = most

    @property
    def log2_cost(self) -> int:
        """A cell takes about 2^log2_cost times as long as in the plane, in floats."""
        return self.slow + (6 if self._count("C_TRUST") == self.kernels.EXACT else 0)

    @property
    def n_double_double(self) -> int:
        """How often floats could not tell and double-double arithmetic decided."""
        return self.ladder.n_double_double

    @property
    def n_zero(self) -> int:
        """How often floats could not tell and residues proved a zero."""
        return self.ladder.n_zero

    @property
    def n_rational(self) -> int:
        """How often rationals decided."""
        return self.ladder.n_rational

    @property
    def tally(self) -> Tally:
        """All numbers at once."""
        return Tally(
            self.n_cells,
            self._count("C_SLIVERS"),
            self._count("C_UNBOUNDED"),
            self._count("C_SERIAL") & ((1 << SERIALS) - 1),
            self.size,
            tuple(self.layer_cells.tolist()),
            self.n_rational,
            self.n_double_double,
            self.n_zero,
        )

    def _join_keys(self, layer: int, groups: list[list[int]]) -> None:
        """Write down which keys tie on the layer cell, as rationals found them, in groups."""
        row = self.program.row(layer)
        at = row.sign_at + 2 + row.words + row.heads
        known = set(self.signs[at + 1 : at + 1 + 2 * self.signs[at] : 2].tolist())
        for first, *others in groups:
            for key in sorted({*others} - known):
                join_key(self.program.net, self.errors, self.signs, layer, key, first)

    def _owner(self, layer: int) -> int:
        """The number of the layer cell that the path goes through."""
        return int(self.signs[self.program.row(layer).sign_at])

    def _written(self) -> tuple[list[int], dict[str, Any]]:
        """How many entries were written down, unit by unit, and the columns that all engines have."""
        used, words, heads = self._used(), self.program.words, self.program.heads
        self._make_output(*used)
        for array in self.output.values():
            array.setflags(write=False)
        n, out = used[0], self.output
        bits, routes = out["bits"][: n * words], out["routes"][: n * heads]
        return used, {
            "bits": bits.reshape(n, words),
            "routings": routes.reshape(n, heads),
            "tied": out["tied"][:n],
        }

    # where a node stands

    def _prefix(self, layer: int) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """The signature of the path up to a layer, in the public form."""
        bits = np.zeros(self.program.words + 1, dtype=np.uint64)
        routings = np.zeros(self.program.heads, dtype=np.int32)
        for i in range(layer):
            row = self.program.row(i)
            at = row.sign_at + 2
            if row.kind == FOLD:
                word, shift = divmod(row.first, 64)
                for j in range(row.words):
                    value = int(self.signs[at + j]) & (2**64 - 1)
                    bits[word + j] |= np.uint64((value << shift) & (2**64 - 1))
                    if shift:
                        bits[word + j + 1] |= np.uint64(value >> (64 - shift))
            elif row.kind == WALL:
                winners = self.signs[at : at + row.heads]
                routings[row.first : row.first + row.heads] = self.program.key_of[row.offsets + winners]
        return bits, routings

    # pieces

    def cut(self, state: State, most: int) -> list[State]:
        """The subtrees on the stack of a state, in the order of cells, each a state that has found nothing.

        Nodes near the bottom of the stack are the biggest; if there are more than ``most``, those on top stay
        together in the first piece. A piece has the maps and signs up to the layer of its nodes only: most
        are in an early layer, and thousands of pieces wait in lists and travel in messages.
        """
        ints, floats = state["stack_ints"], state["stack_floats"]
        ends, layers = [(len(ints), len(floats))], []
        while ends[-1][0] > 0:
            i, f = ends[-1]
            layers.append(int(ints[i - HEADER + 1]))
            ends.append((i - int(ints[i - 2]), f - int(ints[i - 1])))
        if len(layers) > most:
            together = len(layers) - most
            layers[: together + 1] = [max(layers[: together + 1])]
            del ends[1 : together + 1]
        own = {"control", "totals", "layer_cells", "decided", "stack_ints", "stack_floats", "path", "signs"}
        shared = {name: array.copy() for name, array in state.items() if not name.startswith("output_")}
        shared["errors"][:, CHANGES] = -1.0  # a piece computes its first maps anew, wherever it is processed
        for name in shared.keys() - own:
            shared[name].setflags(write=False)
        up_to = {layer: self._up_to(shared, layer) for layer in set(layers)}
        pieces: list[State] = []
        for layer, ((i1, f1), (i0, f0)) in zip(layers, pairwise(ends), strict=True):
            control = state["control"].copy()
            control[self._counters()] = 0
            control[self.kernels.C_INTS], control[self.kernels.C_FLOATS] = i1 - i0, f1 - f0
            if pieces:
                control[self._remarks()] = 0
            piece = {**shared, **up_to[layer], "control": control}
            piece |= {name: np.zeros_like(state[name]) for name in ("layer_cells", "decided")}
            piece |= {"stack_ints": ints[i0:i1].copy(), "stack_floats": floats[f0:f1].copy()}
            if "totals" in state:
                piece["totals"] = state["totals"].copy()
                piece["totals"][0] = 0.0
            pieces.append(piece)
        return pieces

    def _up_to(self, state: State, layer: int) -> State:
        """Maps and signs of a state up to those of a layer."""
        row, signs = self.program.row(layer), state["signs"]
        at = row.sign_at + 2 + row.heads
        if row.kind == FOLD:  # behind the bits, how many units follow others, and these in pairs
            at += row.words + 1
            at += 2 * int(signs[at - 1])
        found = {"path": state["path"][: self.program.path_end(layer) - self._fixed].copy()}
        found["signs"] = signs[:at].copy()
        for array in found.values():
            array.setflags(write=False)
        return found

    @classmethod
    def numbered(cls, state: State, number: int) -> State:
        """The state of a piece whose layer cells are numbered from ``number`` times 2^32 on."""
        control = state["control"].copy()
        control[cls.kernels.C_SERIAL] = number << SERIALS
        return {**state, "control": control}

    def weight(self, state: State) -> float:
        """About how many cells a piece has: with p units that cross a cell there may be about p^2 / 2.

        It only says which pieces are worth a message of their own to a cluster.
        """
        ints, total = state["stack_ints"], 0.0
        end = len(ints)
        while end > 0:
            layer, pending = int(ints[end - HEADER + 1]), int(ints[end - HEADER + 4])
            row = self.program.row(layer)
            total += 0.5 * (1.0 + (pending if row.kind == FOLD and pending >= 0 else row.rows)) ** 2
            end -= int(ints[end - 2])
        return total

    @classmethod
    def depth(cls, state: State) -> tuple[int, int, int]:
        """How far the node on top of a piece is from the root: the lower, the bigger its subtree may be."""
        header = state["stack_ints"][-HEADER:]
        return int(header[1]), int(header[2]), -int(header[4])


def _longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    """A copy with zeros at its end."""
    longer = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer
