r"""Colours of cells: similar for similar affine maps, or different for neighbouring regions.

By map: the maps, as vectors of slopes and values, are projected onto their three main directions (principal
components, weighted by area); the first two become the colour, the third the lightness, in the perceptual
colour space Oklab, so that equal steps look equally large. Equal maps get equal colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardmax.plotting.style import FILLS
from hardmax.regions.maps.float_maps import projected_maps

if TYPE_CHECKING:
    from hardmax.geometry.domains import Box
    from hardmax.regions.result import RegionSet

__all__ = ["map_colours", "region_colours"]

Floats = NDArray[np.float64]

_LIGHTNESS, _CHROMA = 0.82, 0.073  # calm enough for black and white lines on top
_WIDE = 8  # networks with more outputs are coloured by two combinations of them
_FILLS = FILLS[:7] + FILLS[8:]  # olive beside its lighter sister is hard to tell in small cells
_SOFT = 0.3  # share of white in the colours of regions


def map_colours(result: RegionSet, box: Box, areas: Floats) -> Floats:
    """One colour (red, green, blue) per cell; the more alike two maps, the more alike their colours.

    Examples
    --------
    >>> import numpy as np
    >>> import hardmax as hm
    >>> found = hm.enumerate_regions(hm.Network.random_mlp([2, 3, 1], 0), hm.Box.cube(2, -4, 4))
    >>> colours = map_colours(found, found.domain, found.volumes)
    >>> colours.shape == (found.n_cells, 3), bool((colours >= 0).all() and (colours <= 1).all())
    (True, True)
    """
    maps = _features(result, box)
    weights = areas / areas.sum() if areas.sum() > 0.0 else np.full(len(maps), 1.0 / max(len(maps), 1))
    maps = maps - weights @ maps
    spread, axes = np.linalg.eigh((maps * weights[:, None]).T @ maps)
    axes = axes[:, ::-1][:, :3]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1.0, 1.0)
    spread = spread[::-1][:3]
    main = np.zeros((len(maps), 3))
    shown = spread > 1e-18 * max(float(spread[0]), 1e-300)
    main[:, : len(spread)][:, shown] = (maps @ axes)[:, shown] / np.sqrt(spread[shown])
    # neighbouring maps are often close: a ripple in lightness, itself a function of the map, tells them apart
    ripple = np.abs((main @ np.array([7.3, 5.1, 3.7])) % 2.0 - 1.0) - 0.5
    first, second, third = np.tanh(0.8 * main).T
    return _rgb(_LIGHTNESS + 0.04 * third + 0.05 * ripple, _CHROMA * first, _CHROMA * second)


def _features(result: RegionSet, box: Box) -> Floats:
    """Slopes over half the box and the value in its middle, one row per cell."""
    if result.network.d_out <= _WIDE:
        linear, offset = result.linear, result.offset
    else:
        cells, exact = result.cells, result._exact_maps
        maps: Any = projected_maps(exact.layers, cells.bits, cells.routings, cells.tied, exact)
        linear, offset = maps.linear[:, :, : result.d], maps.offset
    middle = (box.low.floats + box.high.floats) / 2
    half = (box.high.floats - box.low.floats) / 2
    slopes = (linear * half).reshape(len(linear), -1)
    return np.concatenate([slopes, linear @ middle + offset], axis=1)


def _rgb(lightness: Floats, a: Floats, b: Floats) -> Floats:
    """From Oklab to sRGB (Ottosson 2020)."""
    lms = (
        np.stack(
            [
                lightness + 0.3963377774 * a + 0.2158037573 * b,
                lightness - 0.1055613458 * a - 0.0638541728 * b,
                lightness - 0.0894841775 * a - 1.2914855480 * b,
            ],
            axis=-1,
        )
        ** 3
    )
    linear = lms @ np.array(
        [
            [4.0767416621, -1.2684380046, -0.0041960863],
            [-3.3077115913, 2.6097574011, -0.7034186147],
            [0.2309699292, -0.3413193965, 1.7076147010],
        ]
    )
    linear = np.clip(linear, 0.0, 1.0)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def region_colours(result: RegionSet) -> Floats:
    """One colour (red, green, blue) per cell: one per region, neighbouring regions in different ones.

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.enumerate_regions(hm.Network.random_mlp([2, 3, 1], 0), hm.Box.cube(2, -4, 4))
    >>> colours = region_colours(found)
    >>> all((colours[i] != colours[j]).any() for i, j in found.adjacency)
    True
    """
    palette = np.array([[int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5)] for fill in _FILLS])
    palette = palette + _SOFT * (1.0 - palette)
    region = result.region_of_cell
    pairs = region[result.adjacency]
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    starts = np.searchsorted(both[:, 0], np.arange(result.n_regions + 1)).tolist()
    neighbours = both[:, 1].tolist()
    chosen = [-1] * result.n_regions
    n = len(palette)
    for i in range(result.n_regions):
        taken = {chosen[j] for j in neighbours[starts[i] : starts[i + 1]]}
        # begin elsewhere each time, so that all colours occur
        chosen[i] = next((colour for k in range(n) if (colour := (i + k) % n) not in taken), i % n)
    return palette[np.array(chosen, dtype=np.int64)[region]]
