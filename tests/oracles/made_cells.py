"""Region sets of machines that a test has run itself, and cells with some of their numbers replaced."""

from __future__ import annotations

from dataclasses import replace

from hardmax.regions.cells import Cells, Ragged
from hardmax.regions.result import RegionSet


def changed(cells: Cells, name: str, column, values) -> Cells:
    """The same cells with other values in some columns of their facets or vertices."""
    ragged = getattr(cells, name)
    content = ragged.content.copy()
    content[:, column] = values
    return replace(cells, **{name: Ragged(ragged.offsets, content)})


def region_set(network, domain, machine, *, arithmetic="certified", complete=True) -> RegionSet:
    """What a machine has found, as a result."""
    return RegionSet.of_machine(
        network,
        domain,
        machine,
        machine.cells(),
        arithmetic=arithmetic,
        complete=complete,
        covered=machine.coverage,
    )
