r"""Which engine answers: the machine for a question, and the question as a message that a worker understands.

Dimension 1 is the segment engine's, 2 the plane engine's, 3 to 6 the space engine's; beyond, linear programs
search. The plane engine can do the line too, as a strip :math:`[l, h] \times [0, 1]` whose second coordinate
the network ignores, and the search can do the plane and space: cells correspond one to one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Self

import numpy as np

from hardmax.errors import InvalidInputError, UnsupportedDimensionError
from hardmax.exact.rationals import ExactArray
from hardmax.geometry.domains import Domain, Polytope
from hardmax.networks.groups import AffineLayer, Layer, layers_of
from hardmax.networks.network import Network
from hardmax.regions.maps.fingerprints import Fingerprints
from hardmax.regions.result import _domain_from_state, _domain_state
from hardmax.regions.space.machine import LARGEST_DIMENSION

__all__ = ["ENGINES", "Question", "engine_for", "planar"]

ENGINES = ("plane", "space", "search", "segment")
_DIMENSIONS = {  # lowest and highest, the engine of choice first
    "segment": (1, 1),
    "plane": (1, 2),
    "space": (3, LARGEST_DIMENSION),
    "search": (2, 1 << 20),
}
LAYOUT = 2  # grows when the state of a machine, or the way tasks are cut, changes its meaning


def engine_for(d: int, engine: str | None = None) -> str:
    """The engine for a dimension, or the one that was asked for if it can do it.

    >>> [engine_for(d) for d in (1, 2, 3, 7)]
    ['segment', 'plane', 'space', 'search']
    """
    if engine is not None and engine not in ENGINES:
        raise InvalidInputError(f"engine must be one of {', '.join(ENGINES)} or None, but was {engine!r}.")
    able = [name for name, (lowest, highest) in _DIMENSIONS.items() if lowest <= d <= highest]
    if engine is not None and engine not in able:
        raise UnsupportedDimensionError(
            f"engine must be one that enumerates dimension {d}, such as {able[0]!r}, but was {engine!r}."
        )
    return engine or able[0]


def planar(layers: tuple[Layer, ...], domain: Domain) -> tuple[tuple[Layer, ...], Domain]:
    """The same question in the plane: a line becomes a strip of height 1."""
    if domain.d != 1:
        return layers, domain
    forget = AffineLayer(ExactArray(np.array([[1.0, 0.0]])), ExactArray(np.zeros(1)))
    sides = [[0.0, 1.0], [0.0, -1.0]]
    a, b = domain.a, domain.b
    rows: list[list[Any]] = [[a.rational((i, 0)), 0] for i in range(a.shape[0])]
    ends = [b.rational(i) for i in range(b.shape[0])]
    strip = Polytope(
        np.array(rows + sides, dtype=object),
        np.array([*ends, 1, 0], dtype=object),
    )
    return (forget, *layers), strip


def _machine_for(
    layers: tuple[Layer, ...],
    domain: Domain,
    *,
    arithmetic: str,
    store: bool,
    sliver: float,
    engine: str | None = None,
) -> Any:
    """A machine of the right engine."""
    name = engine_for(domain.d, engine)
    if name == "plane":
        layers, domain = planar(layers, domain)
    kind = getattr(import_module(f"hardmax.regions.{name}.machine"), f"{name.capitalize()}Machine")
    return kind(layers, domain, arithmetic=arithmetic, store=store, sliver=sliver)


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

    def machine(self) -> Any:
        """A machine at its beginning."""
        return _machine_for(
            layers_of(self.network),
            self.domain,
            arithmetic=self.arithmetic,
            store=self.keep != "nothing",
            sliver=self.sliver,
            engine=self.engine,
        )

    def kept(self, machine: Any, prints: Fingerprints | None) -> Any:
        """What is kept of the cells that a machine has written down."""
        if self.keep == "nothing":
            return None
        cells = machine.take()
        if prints is None or self.keep == "cells":
            return cells
        return prints.of(cells) if self.keep == "prints" else prints.among(cells, self.repeated)

    def prints(self, machine: Any) -> Fingerprints | None:
        """The maker of fingerprints, if the question needs one."""
        return Fingerprints(machine.exact_maps) if self.keep in ("prints", "repeated") else None

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
            else:
                digest.update(repr(value).encode())
            digest.update(b"|")

        for layer in layers_of(self.network):
            feed(type(layer).__name__)
            for name in layer.__dataclass_fields__:
                feed(getattr(layer, name))
        engine = engine_for(self.domain.d, self.engine)
        domain = self.domain
        for value in (domain.d, domain.a, domain.b, self.arithmetic, self.sliver, self.keep, engine, LAYOUT):
            feed(value)
        return digest.hexdigest()

    # messages

    def message(self) -> dict[str, Any]:
        """Plain values and arrays from which a worker rebuilds the question."""
        return {
            "network": self.network._state(),
            "domain": _domain_state(self.domain),
            "arithmetic": self.arithmetic,
            "sliver": self.sliver,
            "keep": self.keep,
            "engine": self.engine,
            "repeated": self.repeated,
        }

    @classmethod
    def of_message(cls, message: dict[str, Any]) -> Self:
        """The question of a message."""
        return cls(
            **{
                **message,
                "network": Network._from_state(message["network"]),
                "domain": _domain_from_state(message["domain"]),
            }
        )
