r"""The class of an input, as one more head: engines that cut cells by routings cut them by class.

A network with :math:`m \ge 2` outputs is a classifier: the class of :math:`x` is the lowest index of the
largest output, as ``argmax`` says. One output decides by its sign: class 1 where it is positive, else class
0. Both are the routing of a head whose keys are the classes, with the outputs for scores (with scores 0 and
:math:`f(x)` if there is one output). Put behind the network, a head that adds nothing changes no map, and the
cells of the longer network are the *class cells*: the cells of the network, cut by class. Where outputs agree
on a whole cell, the lowest class has it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import CertificateError, IncompleteError
from hardmax.networks.attention import Attention
from hardmax.networks.network import Network
from hardmax.regions.api import enumerate_regions
from hardmax.regions.result import RegionSet


def n_classes(network: Network) -> int:
    """The number of classes: one per output, or two signs."""
    return max(network.d_out, 2)


def with_classes(network: Network) -> Network:
    """The network with a head behind it whose routing is the class; values stay what they are.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1.0], [-1.0]], [0.0, 0.5])])
    >>> with_classes(net).signature([[2.0], [-2.0]]).routings[:, 0]
    array([0, 1], dtype=int32)
    """
    scores = np.eye(network.d_out) if network.d_out > 1 else np.array([[0.0], [1.0]])
    head = Attention([scores], None, [np.zeros_like(scores)], ties="leftmost")
    return Network((*network.blocks, head), network.description)


def cell_numbers(class_cells: RegionSet) -> NDArray[np.int64]:
    """The number of the network's cell in which each class cell lies.

    Class cells are in the order of their signatures, so those of one cell follow each other.
    """
    bits, routings = class_cells.bits, class_cells.routings[:, :-1]
    new = (bits[1:] != bits[:-1]).any(axis=1) | (routings[1:] != routings[:-1]).any(axis=1)
    return np.concatenate([np.zeros(min(1, len(bits)), dtype=np.int64), np.cumsum(new, dtype=np.int64)])


def classes_of(regions: RegionSet) -> NDArray[np.bool_]:
    """Which classes win on a part of each cell that has interior, (n_cells, n_classes)."""
    if not regions.complete:
        raise IncompleteError(
            "classes belong to all cells of a network, but these are not all; enumerate them without limits."
        )
    found = enumerate_regions(with_classes(regions.network), regions.domain, arithmetic=regions.arithmetic)
    numbers = cell_numbers(found)
    if numbers[-1] + 1 != regions.n_cells:
        raise CertificateError("cutting cells by class changed their number; please report this.")
    table = np.zeros((regions.n_cells, n_classes(regions.network)), dtype=np.bool_)
    table[numbers, found.routings[:, -1]] = True
    table.setflags(write=False)
    return table
