"""The picture on top of the README: every cell of a small transformer on a wide piece of the plane.

python docs/pictures/banner.py         writes docs/pictures/banner.png and prints what it shows
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

import hardmax as hm

NETWORK = {"d": 2, "n_tokens": 30, "heads": 2, "depth": 2, "d_ff": 24, "rng": 3}
BOX = hm.Box([-4.2, -1.4], [4.2, 1.4])


def found() -> hm.regions.RegionSet:
    """The cells that are drawn."""
    return hm.enumerate_regions(hm.Network.random(**NETWORK), BOX)


def main() -> None:
    """Draw without axes, and say how many cells there are."""
    cells = found()
    figure = Figure(figsize=(12, 4))
    axes = figure.add_axes((0, 0, 1, 1))
    cells.plot(ax=axes)
    axes.set(title="", xlabel="", ylabel="", xticks=[], yticks=[])
    axes.axis("off")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=120)
    print(f"{cells.n_cells:,} cells, {'complete' if cells.complete else 'not complete'}")


if __name__ == "__main__":
    main()
