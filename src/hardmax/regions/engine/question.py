r"""Which engine answers: the machine for a question, and the question as a message that a worker understands.

Dimension 1 is the segment engine's, 2 the plane engine's, 3 to 6 the space engine's; beyond, linear programs
search. The plane engine can do the line too, as a strip :math:`[l, h] \times [0, 1]` whose second coordinate
the network ignores, and the search can do the plane and space: cells correspond one to one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple, Self

import numpy as np

from hardmax.errors import InvalidInputError, UnsupportedDimensionError
from hardmax.exact.rationals import ExactArray
from hardmax.geometry.domains import Domain, domain_of
from hardmax.networks.layers import Layer, layers_of
from hardmax.networks.network import Network
from hardmax.regions.cells import Cells, Table
from hardmax.regions.engine.program import Program
from hardmax.regions.maps.merging import Fingerprints
from hardmax.regions.outlook import Outlook, outlook
from hardmax.regions.plane.geometry import planar
from hardmax.regions.space.machine import LARGEST_DIMENSION


class Engine(NamedTuple):
    """The dimensions that an engine can do, the kind of its cells, and whether it finds them in order."""

    lowest: int
    highest: int
    kind: str
    in_order: bool = True


ENGINES = {  # the engine of choice for a dimension first
    "segment": Engine(1, 1, "intervals", in_order=False),  # from left to right
    "plane": Engine(1, 2, "polygons"),
    "space": Engine(3, LARGEST_DIMENSION, "polyhedra"),
    "search": Engine(2, 1 << 20, "halfspaces"),
}
LAYOUT = 8  # grows when the state of a machine, or the way tasks are cut, changes its meaning


def engine_for(d: int, engine: str | None = None) -> str:
    """The engine for a dimension, or the one that was asked for if it can do it.

    >>> [engine_for(d) for d in (1, 2, 3, 7)]
    ['segment', 'plane', 'space', 'search']
    """
    if engine is not None and engine not in ENGINES:
        raise InvalidInputError(f"engine must be one of {', '.join(ENGINES)} or None, but was {engine!r}.")
    able = [name for name, able in ENGINES.items() if able.lowest <= d <= able.highest]
    if engine is not None and engine not in able:
        raise UnsupportedDimensionError(
            f"engine must be one that enumerates dimension {d}, such as {able[0]!r}, but was {engine!r}."
        )
    return engine or able[0]


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of an enumeration.

    Attributes
    ----------
    keep : str
        What becomes of the cells: ``"nothing"`` (they are counted), ``"cells"``, ``"prints"`` (a fingerprint
        of each cell's map) or ``"repeated"`` (cells whose fingerprint is among ``repeated``).
    """

    network: Network
    domain: Domain
    arithmetic: str
    sliver: float
    keep: str
    engine: str | None = None
    repeated: Any = None
    source: Network | None = None  # the network as given, where sets of keys are listed in ``network``
    norms: dict[str, Any] = field(default_factory=dict)  # of the program, as far as they are known

    @property
    def name(self) -> str:
        """The engine that answers."""
        return engine_for(self.domain.d, self.engine)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The network, the same for all machines: they share its program."""
        return layers_of(self.network)

    @cached_property
    def _laid_out(self) -> tuple[tuple[Layer, ...], Domain]:
        """The network and the domain as the engine takes them."""
        return planar(self.layers, self.domain) if self.name == "plane" else (self.layers, self.domain)

    @property
    def _program(self) -> Program:
        """The program that all machines share."""
        layers, domain = self._laid_out
        return Program.of(layers, columns=domain.d + 1, whole=self.name == "segment")

    def machine(self) -> Any:
        """A machine at its beginning."""
        layers, domain = self._laid_out
        if self.norms:
            program = self._program  # the machine asks for the same
            program.take_norms(self.norms)
        kind = getattr(
            import_module(f"hardmax.regions.{self.name}.machine"), f"{self.name.capitalize()}Machine"
        )
        store = self.keep != "nothing"
        with np.errstate(all="ignore"):  # a number that overflows decides nothing
            return kind(layers, domain, arithmetic=self.arithmetic, store=store, sliver=self.sliver)

    def kept(self, machine: Any, prints: Fingerprints | None) -> Table | None:
        """What is kept of the cells that a machine has written down."""
        if self.keep == "nothing":
            return None
        cells: Cells = machine.take()
        if prints is None:
            return cells.table
        if self.keep == "prints":
            return {"prints": prints.of(cells)}
        return prints.among(cells, self.repeated).table

    def prints(self, machine: Any) -> Fingerprints | None:
        """The maker of fingerprints, if the question needs one."""
        return Fingerprints(machine.exact_maps) if self.keep in ("prints", "repeated") else None

    def cells(self, table: Table, machine: Any) -> Cells:
        """The cells whose columns were kept, in the order of their signatures."""
        engine = ENGINES[self.name]
        cells = Cells(kind=engine.kind, **table) if table else machine.take()
        if engine.in_order:
            return cells
        # tasks find their cells from left to right, and so they were joined
        return replace(cells, position=np.arange(cells.n)).in_order(machine.layers)

    @cached_property
    def outlook(self) -> Outlook:
        """A bound and a sample of the number of cells."""
        return outlook(self.source or self.network, self.domain)

    @cached_property
    def digest(self) -> str:
        """A fingerprint of everything that decides how an enumeration runs."""
        digest = hashlib.sha256()

        def feed(value: Any) -> None:
            if isinstance(value, ExactArray):
                digest.update(repr(value.shape).encode())
                digest.update(value.floats.tobytes())
                if value.fractions is not None:
                    digest.update(repr([str(entry) for entry in value.fractions.flat]).encode())
            elif isinstance(value, np.ndarray):
                digest.update(value.tobytes())
            elif isinstance(value, dict):
                for name, entry in value.items():
                    feed(name)
                    feed(entry)
            elif isinstance(value, list):
                for entry in value:
                    feed(entry)
            else:
                digest.update(repr(value).encode())
            digest.update(b"|")

        if any(block.chooses_sets for block in self.network.blocks):
            feed(self.network._state()["blocks"])
        else:
            for layer in self.layers:
                feed(type(layer).__name__)
                for name in layer.__dataclass_fields__:
                    feed(getattr(layer, name))
        domain, options = self.domain, (self.arithmetic, self.sliver, self.keep, self.name, LAYOUT)
        for value in (domain.d, domain.a, domain.b, *options):
            feed(value)
        return digest.hexdigest()

    # messages

    def message(self) -> dict[str, Any]:
        """Plain values and arrays from which a worker rebuilds the question, and a machine that need not
        compute norms which are known here."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values |= {"network": self.network._state(), "domain": self.domain.state(), "source": None}
        return values | {"norms": self._program.norms}

    @classmethod
    def of_message(cls, message: dict[str, Any]) -> Self:
        """The question of a message."""
        network, domain = Network._from_state(message["network"]), domain_of(message["domain"])
        return cls(**message | {"network": network, "domain": domain})
