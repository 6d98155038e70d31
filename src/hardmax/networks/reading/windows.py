r"""Windows that slide over a grid: convolution and pooling, written into a graph.

A tensor has its channels on the first axis and a grid on the others. A convolution is a sparse matrix, a
maximum over windows is a group of entries per window, and an average is a sparse matrix again.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError
from hardmax.networks.reading.forms import SparseMatrix, numbers_of
from hardmax.networks.reading.graph import Graph, Tensor
from hardmax.networks.reading.lowering import check_size

Integers = NDArray[np.int64]
PADDING, BEYOND = -1, -2  # places of a window that hold no entry: in the padding, or behind it


def windows(
    grid: Sequence[int],
    kernel: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[tuple[int, int]] | None = None,
    dilations: Sequence[int] | None = None,
    ceil: bool = False,
) -> tuple[Integers, tuple[int, ...]]:
    """The entries of a grid that each window covers.

    Parameters
    ----------
    grid, kernel : sequences of int
        Lengths along each axis.
    strides, dilations : sequences of int, optional
        Ones by default.
    pads : sequence of (before, behind), optional
        Zeros by default.
    ceil : bool, default False
        Whether a window may end behind the padding; it must begin before.

    Returns
    -------
    index : (n_windows, n_places) int64
        Numbers of entries; PADDING and BEYOND where there is none.
    shape : tuple of int
        How many windows there are along each axis.

    Examples
    --------
    >>> windows([4], [2], strides=[2], pads=[(1, 0)])
    (array([[-1,  0],
           [ 1,  2]]), (2,))
    """
    axes = len(grid)
    strides, dilations = strides or [1] * axes, dilations or [1] * axes
    pads = pads or [(0, 0)] * axes
    index: Integers = np.zeros((1, 1), dtype=np.int64)
    shape = []
    for n, k, stride, dilation, (before, behind) in zip(grid, kernel, strides, dilations, pads, strict=True):
        room = n + before + behind - dilation * (k - 1) - 1
        count = (-(-room // stride) if ceil else room // stride) + 1
        if ceil and (count - 1) * stride >= n + before:
            count -= 1  # a window that would begin in the padding behind
        if room < 0 or count < 1:
            raise DimensionMismatchError(
                f"a window of kernel {k} must fit into the {n} coordinates before it, but does not."
            )
        place = stride * np.arange(count)[:, None] + dilation * np.arange(k) - before
        place = np.where(place >= n + behind, BEYOND, np.where((place < 0) | (place >= n), PADDING, place))
        joint = index[:, None, :, None] * n + place[None, :, None, :]
        holes = np.minimum(index[:, None, :, None], place[None, :, None, :])
        index = np.where(holes < 0, holes, joint).reshape(len(index) * count, -1)
        shape.append(count)
    return index, tuple(shape)


def convolve(
    graph: Graph, tensor: Tensor, kernel: Any, bias: Any = None, *, groups: int = 1, **options: Any
) -> Tensor:
    """A convolution without flipping the kernel, as torch and ONNX define it.

    Parameters
    ----------
    graph : Graph
    tensor : Tensor
        Of shape (channels, *grid).
    kernel : (out, channels / groups, *lengths) array_like
    bias : (out,) array_like, optional
    groups : int, default 1
    options
        ``strides``, ``pads`` and ``dilations`` of :func:`windows`.

    Examples
    --------
    >>> graph = Graph((1, 4))
    >>> y = convolve(graph, graph.input, [[[1, -1]]])
    >>> graph.blocks(y)[0]([1.0, 3.0, 7.0, 7.0])
    array([-2., -4.,  0.])
    """
    weights = numbers_of(kernel, "kernel")
    channels, *grid = tensor.shape
    out, depth, *lengths = weights.shape
    if len(lengths) != len(grid) or depth * groups != channels or out % groups:
        raise DimensionMismatchError(
            f"a kernel of shape {weights.shape} with {groups} groups must fit the tensor before it, but that "
            f"has shape {tensor.shape}."
        )
    index, shape = windows(grid, lengths, **options)
    n, size = len(index), prod(grid)
    check_size(out * n, tensor.size)
    flat = weights.reshape(out, depth, -1)
    group = np.arange(out) // (out // groups)
    channel = group[:, None] * depth + np.arange(depth)
    full = (out, n, depth, index.shape[1])
    rows = np.broadcast_to((np.arange(out)[:, None] * n + np.arange(n))[:, :, None, None], full)
    columns = channel[:, None, :, None] * size + index[None, :, None, :]
    inside = np.broadcast_to((index >= 0)[None, :, None, :], full)
    values = np.broadcast_to(flat[:, None], full)[inside]
    matrix = SparseMatrix.of_entries(rows[inside], columns[inside], values, (out * n, tensor.size))
    offsets = None if bias is None else np.repeat(numbers_of(bias, "bias"), n)
    return graph.affine(tensor, matrix, offsets, (out, *shape))


def max_pool(graph: Graph, tensor: Tensor, kernel: Sequence[int], **options: Any) -> Tensor:
    """The largest entry of each window of a tensor (channels, *grid); padding never wins."""
    channels, *grid = tensor.shape
    index, shape = windows(grid, kernel, **options)
    if not (index >= 0).any(axis=1).all():
        raise DimensionMismatchError("every window must hold an entry, but one lies in the padding.")
    return graph.pool_max(tensor, _of_channels(index, channels, prod(grid)), (channels, *shape))


def average_pool(
    graph: Graph,
    tensor: Tensor,
    kernel: Sequence[int],
    *,
    count_padding: bool = True,
    divisor: int | None = None,
    **options: Any,
) -> Tensor:
    """The mean over each window of a tensor (channels, *grid).

    Padding holds zeros, which count unless ``count_padding`` is false; places behind the padding never do. A
    ``divisor`` takes the place of the number of entries.
    """
    channels, *grid = tensor.shape
    index, shape = windows(grid, kernel, **options)
    counted = (index >= (PADDING if count_padding else 0)).sum(axis=1)
    if not counted.all():
        raise DimensionMismatchError("every window must hold an entry, but one lies in the padding.")
    shares = [Fraction(1, divisor or int(n)) for n in counted.tolist()]
    table = _of_channels(index, channels, prod(grid))
    rows, places = np.nonzero(table >= 0)
    values = numbers_of(np.array(shares, dtype=object), "shares")[rows % len(index)]
    matrix = SparseMatrix.of_entries(rows, table[rows, places], values, (len(table), tensor.size))
    return graph.affine(tensor, matrix, None, (channels, *shape))


def _of_channels(index: Integers, channels: int, size: int) -> Integers:
    """The windows of one channel, for all channels one after the other."""
    starts = size * np.arange(channels)[:, None, None]
    return np.where(index >= 0, index + starts, index).reshape(-1, index.shape[1])
