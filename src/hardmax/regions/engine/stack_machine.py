r"""What machines with a stack of subtrees share: numbers found so far, limits, and how to cut them in pieces.

A machine such as that of :mod:`hardmax.regions.plane.machine` walks through a tree depth first. Its stack
holds the subtrees that wait; the one on top comes first in the order of cells. What a subtree needs of the
way that led to it, the maps of the layers before, stands in the machine's ``path``, ``errors`` and ``signs``,
and is the same for all of them up to their own layer. So any run of the stack, with a copy of these three, is
a machine's state of its own: a *piece* that another machine can work off.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax.networks.layers import FoldLayer, Layer, WallLayer
from hardmax.regions.engine.layers import SIGN_AT
from hardmax.regions.engine.program import Program

__all__ = ["SERIALS", "StackMachine", "State", "Tally"]

State = dict[str, NDArray[Any]]
SERIALS = 32  # bits of the number of a layer cell that count inside one piece; those above name the piece


@dataclass(frozen=True)
class Tally:
    """What a machine has counted.

    Attributes
    ----------
    n_cells, n_slivers, n_unbounded : int
    serials : int
        Layer cells that got a number.
    size : float
        Area or volume of the bounded cells, in the machine's unit.
    layer_cells : tuple of int
        Cells after each layer.
    decided_exactly, decided_by_pairs : int
    """

    n_cells: int = 0
    n_slivers: int = 0
    n_unbounded: int = 0
    serials: int = 0
    size: float = 0.0
    layer_cells: tuple[int, ...] = ()
    decided_exactly: int = 0
    decided_by_pairs: int = 0

    def __add__(self, other: Tally) -> Tally:
        long, short = sorted((self.layer_cells, other.layer_cells), key=len, reverse=True)
        return Tally(
            self.n_cells + other.n_cells,
            self.n_slivers + other.n_slivers,
            self.n_unbounded + other.n_unbounded,
            self.serials + other.serials,
            self.size + other.size,
            tuple(a + b for a, b in zip(long, (*short, *(0,) * (len(long) - len(short))), strict=True)),
            self.decided_exactly + other.decided_exactly,
            self.decided_by_pairs + other.decided_by_pairs,
        )


class StackMachine:
    """A machine whose state is a stack of nodes, each ending with a header of eight integers.

    Entries 1, 2 and 4 of a header are the layer, the head and the number of units that still cross the cell;
    entries 6 and 7 say how many integers and floats the node has.
    """

    kernels: ClassVar[Any]
    slow: int = 0
    layers: tuple[Layer, ...]
    program: Program
    control: NDArray[np.int64]
    signs: NDArray[np.int64]
    layer_cells: NDArray[np.int64]
    decided_exactly: int
    decided_by_pairs: int

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
        names = ("C_ANSWERED", "C_FREE")
        return [int(getattr(cls.kernels, name)) for name in names if hasattr(cls.kernels, name)]

    def _count(self, name: str) -> int:
        return int(self.control[getattr(self.kernels, name)]) if hasattr(self.kernels, name) else 0

    @property
    def n_cells(self) -> int:
        """Cells found so far."""
        return self._count("C_CELLS")

    @property
    def n_slivers(self) -> int | None:
        """Slivers found so far; ``None`` if nobody looks at them on the way."""
        return self._count("C_SLIVERS") if hasattr(self.kernels, "C_SLIVERS") else None

    @property
    def size(self) -> float:
        """Area of the bounded cells so far, in the machine's unit; 0 if nobody adds it up on the way."""
        return 0.0

    def share(self, size: float) -> float | None:
        """A size over that of the domain; ``None`` where that has no meaning or is not known."""
        return None

    @property
    def coverage(self) -> float | None:
        """Size of the cells found over that of the domain, where it is known."""
        return self.share(self.size)

    @property
    def n_unbounded(self) -> int | None:
        """Unbounded cells found so far; ``None`` if nobody looks at that on the way."""
        return self._count("C_UNBOUNDED") if hasattr(self.kernels, "C_UNBOUNDED") else None

    @property
    def done(self) -> bool:
        """Whether every node has been worked off."""
        return bool(self._count("C_STATUS") == self.kernels.DONE)

    def limit(self, max_cells: int | None) -> None:
        """Stop at this many cells."""
        most = np.iinfo(np.int64).max if max_cells is None else max_cells
        self.control[self.kernels.C_MOST_CELLS] = most

    @property
    def toil(self) -> int:
        """A cell takes about 2^toil times as long as in the plane, in floats."""
        return self.slow + (6 if self._count("C_TRUST") == self.kernels.EXACT else 0)

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
            self.decided_exactly,
            self.decided_by_pairs,
        )

    # where a node stands

    def _prefix(self, layer: int) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """The signature of the path up to a layer, in the public form."""
        bits = np.zeros(self.program.words + 1, dtype=np.uint64)
        routings = np.zeros(self.program.heads, dtype=np.int32)
        for i, block in enumerate(self.layers[:layer]):
            at = int(self.program.table[i, SIGN_AT]) + 2
            if isinstance(block, FoldLayer):
                word, shift = divmod(block.first_unit, 64)
                for j in range(-(-block.units // 64)):
                    value = int(self.signs[at + j]) & (2**64 - 1)
                    bits[word + j] |= np.uint64((value << shift) & (2**64 - 1))
                    if shift:
                        bits[word + j + 1] |= np.uint64(value >> (64 - shift))
            elif isinstance(block, WallLayer):
                winners = self.signs[at : at + block.heads]
                routings[block.first_head : block.first_head + block.heads] = block.key[winners]
        return bits, routings

    # pieces

    @classmethod
    def cut(cls, state: State, most: int) -> list[State]:
        """The subtrees on the stack of a state, in the order of cells, each a state that has found nothing.

        Nodes near the bottom of the stack are the biggest; if there are more than ``most``, those on top stay
        together in the first piece.
        """
        ints, floats = state["stack_ints"], state["stack_floats"]
        ends = [(len(ints), len(floats))]
        while ends[-1][0] > 0:
            i, f = ends[-1]
            ends.append((i - int(ints[i - 2]), f - int(ints[i - 1])))
        if len(ends) - 1 > most:
            del ends[1 : len(ends) - most]
        own = {"control", "totals", "layer_cells", "decided", "stack_ints", "stack_floats"}
        shared = {name: array.copy() for name, array in state.items() if not name.startswith("output_")}
        for name in shared.keys() - own:
            shared[name].setflags(write=False)
        pieces: list[State] = []
        for (i1, f1), (i0, f0) in pairwise(ends):
            control = state["control"].copy()
            control[cls._counters()] = 0
            control[cls.kernels.C_INTS], control[cls.kernels.C_FLOATS] = i1 - i0, f1 - f0
            if pieces:
                control[cls._remarks()] = 0
            piece = {**shared, "control": control}
            piece |= {name: np.zeros_like(state[name]) for name in ("layer_cells", "decided")}
            piece |= {"stack_ints": ints[i0:i1].copy(), "stack_floats": floats[f0:f1].copy()}
            if "totals" in state:
                piece["totals"] = state["totals"].copy()
                piece["totals"][0] = 0.0
            pieces.append(piece)
        return pieces

    @classmethod
    def numbered(cls, state: State, number: int) -> State:
        """The state of a piece whose layer cells are numbered from ``number`` times 2^32 on."""
        control = state["control"].copy()
        control[cls.kernels.C_SERIAL] = number << SERIALS
        return {**state, "control": control}

    @classmethod
    def depth(cls, state: State) -> tuple[int, int, int]:
        """How far the node on top of a piece is from the root: the lower, the bigger its subtree may be."""
        header = state["stack_ints"][-cls.kernels.HEADER :]
        return int(header[1]), int(header[2]), -int(header[4])
