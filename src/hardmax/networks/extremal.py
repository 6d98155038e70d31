r"""Small networks with as many cells as networks of their size can have (docs/theorems-extremal.md).

* ReLU layers of three and n units in the plane: :math:`7 + 6n + 3\binom n2` cells, 34 for n = 3.
* Attention whose cells each hold the point that their own values move to the origin: the next layer, made
  small, cuts every cell completely, and L layers have the L-th power of the cells of one.
* Transformers on the line: :math:`((H (N - 1) + 1)(n + 1))^L` cells.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import Block, FeedForward
from hardmax.networks.network import Network
from hardmax.networks.random_networks import check_size

Matrix = NDArray[np.object_]

# Lines g . x + c = 0 of heads with two keys, and the step w of each: with s the heads in which g . x + c > 0,
# the point sum_{h in s} w_h lies in the cell of s, for all 7, 11 or 16 cells. Found by search.
_CENTRED: dict[int, tuple[list[list[int]], list[int], list[list[int]]]] = {
    3: ([[1, 0], [0, 1], [-1, -1]], [2, 2, 2], [[6, -3], [-3, 6], [-3, -3]]),
    4: (
        [[8, 4], [29, 9], [1, 21], [17, -8]],
        [-754, -2601, -23, -23],
        [[54, 47], [72, -4], [-42, 133], [61, -132]],
    ),
    5: (
        [[-29046, -1903], [-4183, -4510], [-1760, 17964], [15424, -3142], [-5342, 271]],
        [-91930190, -11236523, -76322567, 58288017, -29540],
        [[-3205, 600], [-1521, -24737], [1254, 24714], [3344, -3102], [-3360, 3004]],
    ),
}


def most_cells_mlp(width: int) -> Network:
    r"""Three units, then ``width`` units in the plane, with :math:`7 + 6n + 3\binom n2` cells: the maximum.

    The first layer is x, y and x + y - 1. Unit k of the second has the weights
    :math:`(2 + t + t^2, 2 - t + t^2, -5 + 3t)` and the bias -1, with :math:`t = k / 20n`; the last but one
    has the opposite signs, so that (for n = 3, ..., 8, as counted) all cells are linear regions.

    Examples
    --------
    >>> import hardmax as hm
    >>> [int(hm.count_cells(most_cells_mlp(n), hm.WholeSpace(2))) for n in (1, 2, 3, 4)]
    [13, 22, 34, 49]
    """
    check_size(width, "width", 1)
    n = int(width)
    times = [Fraction(k, 20 * n) for k in range(1, n + 1)]
    signs = [-1 if k == n - 1 else 1 for k in range(1, n + 1)]
    rows = [
        [s * (2 + t + t * t), s * (2 - t + t * t), s * (3 * t - 5)] for s, t in zip(signs, times, strict=True)
    ]
    second = np.array(rows, dtype=object)
    identity = [[int(i == j) for j in range(n)] for i in range(n)]
    return Network.mlp(
        [([[1, 0], [0, 1], [1, 1]], [0, 0, -1]), (second, [-s for s in signs]), (identity, [0] * n)]
    )


def centred_attention(heads: int, depth: int) -> Network:
    """Attention in the plane, heads of two keys, with :math:`R(H, 2)^L` cells: the maximum.

    Parameters
    ----------
    heads : {3, 4, 5}
    depth : int
        L. The arrangement of a layer is that of the one before, made smaller.

    Examples
    --------
    >>> import hardmax as hm
    >>> int(hm.count_cells(centred_attention(3, depth=2), hm.WholeSpace(2)))
    49
    """
    if heads not in _CENTRED:
        raise InvalidInputError(f"heads must be one of {sorted(_CENTRED)}, but was {heads}.")
    lines, offsets, steps = (np.array(each, dtype=object) for each in _CENTRED[heads])
    check_size(depth, "depth", 1)
    scale, blocks = Fraction(1), list[Block]()
    for _ in range(depth):
        scores = np.stack([0 * lines, lines], axis=1)
        biases = np.stack([0 * offsets, scale * offsets], axis=1)
        outputs = np.stack([0 * steps, -scale * steps], axis=1)
        blocks.append(Attention(scores, biases, outputs))
        scale *= _room(lines, offsets, steps)
    return Network(tuple(blocks))


def centres(heads: int) -> list[tuple[tuple[int, ...], Matrix]]:
    """The cells that hold their centre, as heads that choose the second key, with these centres.

    >>> [len(centres(heads)) for heads in (3, 4, 5)]
    [7, 11, 16]
    """
    lines, offsets, steps = (np.array(each, dtype=object) for each in _CENTRED[heads])
    found = []
    for on in product((0, 1), repeat=heads):
        centre = np.array(on, dtype=object) @ steps
        signs = np.array([2 * s - 1 for s in on], dtype=object)
        if (signs * (lines @ centre + offsets) > 0).all():
            found.append((on, centre))
    return found


def _room(lines: Matrix, offsets: Matrix, steps: Matrix) -> Fraction:
    """A factor that brings all centres, and all sums of smaller and smaller ones, into one cell's room."""
    points = [centre for _, centre in centres(len(lines))]
    margin = min(abs(value) for centre in points for value in lines @ centre + offsets)
    reach = max(abs(value) for centre in points for value in lines @ centre)
    return Fraction(margin, 4 * (margin + reach))


def line_transformer(n_tokens: int, heads: int, d_ff: int, depth: int) -> Network:
    r"""Blocks on the line with :math:`((H (N - 1) + 1)(n + 1))^L` cells: the maximum.

    Attention with a skip lays its :math:`K = H (N - 1) + 1` intervals onto one; the ReLU layer, with a skip,
    folds it n times, and every piece runs over the window of the next block.

    Parameters
    ----------
    n_tokens, heads, d_ff, depth : int
        N keys per head, H heads, n units and L blocks.

    Examples
    --------
    >>> import hardmax as hm
    >>> int(hm.count_cells(line_transformer(3, 2, d_ff=1, depth=2), hm.WholeSpace(1)))
    100
    """
    for name, size in {"n_tokens": n_tokens, "heads": heads, "d_ff": d_ff, "depth": depth}.items():
        check_size(size, name, 1)
    pieces = heads * (n_tokens - 1) + 1
    fold = Fraction(1, 4 * d_ff + 4)
    scale, blocks = Fraction(1), list[Block]()
    for _ in range(depth):
        blocks += [_shifts(n_tokens, heads, pieces, scale), _folds(d_ff, fold, scale)]
        scale *= pieces / fold
    return Network(tuple(blocks))


def _shifts(keys: int, heads: int, pieces: int, scale: Fraction) -> Attention:
    """With X = scale z + pieces / 2: wall m at X = m, and X falls by 1 at each, to X - m - 1/2 after m."""
    scores, biases, outputs = (np.zeros((heads, keys), dtype=object) for _ in range(3))
    start = Fraction(pieces, 2)
    for h in range(heads):
        walls = range(h + 1, pieces, heads)
        for j in range(keys):
            scores[h, j] = j * scale
            biases[h, j] = j * start - sum(walls[:j])
            outputs[h, j] = ((start - Fraction(1, 2) if h == 0 else 0) - j) / scale
    return Attention(scores[:, :, None], biases, outputs[:, :, None])


def _folds(n: int, fold: Fraction, scale: Fraction) -> FeedForward:
    """z + sum of -2, 2, -2, ... times the units that open at (2k - 1) fold: slopes 1, -1, 1, ..."""
    breaks: list[Any] = [-(2 * k - 1) * fold / scale for k in range(1, n + 1)]
    return FeedForward([[1]] * n, breaks, [[2 * (-1) ** k for k in range(1, n + 1)]], [0], skip=True)
