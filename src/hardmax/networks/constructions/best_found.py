"""Small networks with the most cells that anyone has found (P1 Example III.3).

Between the bound with ranks and the best example a gap is left; :func:`hardmax.bounds.mlp_bounds` names both
sides.
"""

from __future__ import annotations

from collections.abc import Sequence

from hardmax.errors import InvalidInputError
from hardmax.networks.network import Network

__all__ = ["best_found_layers", "best_found_mlp"]

Layers = tuple[tuple[list[list[int]], list[int]], ...]

# The lines x = 0, y = 0 and x + y = 1, and three bent lines that cross them and one another as often as a
# search over twenty million networks could make them.
_WEIGHTS: dict[tuple[int, ...], Layers] = {
    (2, 3, 3): (
        ([[1, 0], [0, 1], [1, 1]], [0, 0, -1]),
        ([[4, 3, -5], [3, 4, -7], [3, 6, -11]], [-3, -3, -4]),
    ),
}


def best_found_layers(widths: Sequence[int]) -> Layers:
    """Weights and biases of its layers.

    >>> best_found_layers([2, 3, 3])[1]
    ([[4, 3, -5], [3, 4, -7], [3, 6, -11]], [-3, -3, -4])
    """
    layers = _WEIGHTS.get(tuple(int(width) for width in widths))
    if layers is None:
        known = "; ".join(str(list(sizes)) for sizes in _WEIGHTS)
        raise InvalidInputError(f"widths must be one of {known}, but was {list(widths)}.")
    return layers


def best_found_mlp(widths: Sequence[int] = (2, 3, 3)) -> Network:
    """The ReLU network of these widths (input first) with the most cells known, in small integers.

    Examples
    --------
    >>> import hardmax as hm
    >>> int(hm.count_cells(best_found_mlp([2, 3, 3]), hm.WholeSpace(2)))
    34
    """
    layers = best_found_layers(widths)
    width = len(layers[-1][1])
    identity = [[int(i == j) for j in range(width)] for i in range(width)]
    return Network.mlp([*layers, (identity, [0] * width)])
