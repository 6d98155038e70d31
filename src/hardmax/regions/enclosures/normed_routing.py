r"""The first routing behind a norm, where it is polyhedral all the same.

A norm divides by a positive number :math:`\rho(x)`. Behind it, the score of key j is

.. math:: \frac{a_j \cdot (\gamma \odot Py)}{\rho} + c_j, \qquad c_j = a_j \cdot \beta + b_j .

If the :math:`c_j` of a head are equal, the winner is that of :math:`a_j \cdot (\gamma \odot Py)`: the norm
can be left out, and the cells are polyhedra. Otherwise walls are :math:`\ell(x) + c\,\rho(x) = 0`: parts of
conics on a plane.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import as_exact
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import Affine, Block
from hardmax.networks.network import Network
from hardmax.networks.norms import NormBlock
from hardmax.networks.reading.sources import NetworkLike, as_network


def normed_head(network: Network) -> tuple[tuple[Affine, ...], NormBlock, Attention] | None:
    """The affine blocks, the norm and the attention that a network begins with; ``None`` if it does not."""
    blocks = network.blocks
    start = next((i for i, block in enumerate(blocks) if block.cuts or block.smooth), len(blocks))
    norm = blocks[start] if start < len(blocks) else None
    head = blocks[start + 1] if start + 1 < len(blocks) else None
    if not isinstance(norm, NormBlock) or not isinstance(head, Attention):
        return None
    affine: tuple[Block, ...] = blocks[:start]
    return affine, norm, head  # type: ignore[return-value]


def normed_scores(norm: NormBlock, head: Attention) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
    r"""The slopes :math:`(a_j \odot \gamma) P` and the constants :math:`c_j`, as fractions."""
    a, b = fractions_of(head.scores), fractions_of(head.biases)
    slopes = a * fractions_of(norm.scale)
    if norm.centred:
        slopes = slopes - slopes.sum(axis=2, keepdims=True) * Fraction(1, norm.d_in)
    return slopes, b + (a * fractions_of(norm.shift)).sum(axis=2)


def routing_network(network: NetworkLike) -> Network:
    r"""A piecewise-affine network with the cells of the first routing behind a norm.

    The network must begin with a norm, after affine blocks at most, and attention whose constants
    :math:`c_j = a_j \cdot \beta + b_j` are the same for all keys of a head: scores without bias behind a norm
    without shift, for example. Then the norm does not change the winner, and is left out.

    Parameters
    ----------
    network : Network, torch module, or path of an ONNX file or a saved network

    Returns
    -------
    Network
        Affine blocks and one attention block without a skip connection, for ``enumerate_regions``,
        ``count_cells`` and the like. Its routings are those of the network; its values are not. Where a norm
        with epsilon 0 is not defined the network has no routing, and this one has.

    Examples
    --------
    >>> import hardmax as hm
    >>> keys = [[[1, 0], [0, 1], [-1, -1]]]
    >>> net = hm.Network([hm.networks.RMSNorm([1, 2]), hm.Attention(keys, None, keys)])
    >>> hm.count_cells(hm.regions.routing_network(net), hm.Box.cube(2, -1, 1))
    <CellCount: 3 cells, complete, exact>
    """
    network = as_network(network)
    found = normed_head(network)
    if found is None:
        raise InvalidInputError(
            "network must begin with a LayerNorm or RMSNorm and attention, after affine blocks at most, but "
            f"its blocks are {', '.join(type(block).__name__ for block in network.blocks)}."
        )
    affine, norm, head = found
    slopes, constants = normed_scores(norm, head)
    for h in range(head.heads):
        values = constants[h][head.mask[h]]
        if (values != values[0]).any():
            raise InvalidInputError(
                "the keys of a head must have the same constant behind the norm (no bias, no shift), or its "
                f"walls are not flat, but head {h} has constants from {float(min(values)):g} to "
                f"{float(max(values)):g}; on a plane try hm.regions.normed_diagram."
            )
    outputs: object = head.outputs
    scores = as_exact(slopes, "scores", ndim=3)
    flat = Attention(scores, None, outputs, mask=head.mask, skip=False)  # type: ignore[arg-type]
    return Network((*affine, flat), network.description)
