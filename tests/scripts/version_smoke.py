"""Try every public name and a few questions with the versions that are installed.

`nox` runs it on each Python and on the oldest supported dependencies (docs/versions.md).

Usage: python tests/scripts/version_smoke.py
"""

from __future__ import annotations

import inspect
import tempfile
from importlib.util import find_spec
from pathlib import Path

import hardmax as hm
from hardmax.errors import MissingExtraError


def names() -> int:
    """Import whatever is public; what needs an optional package may say so."""
    found = 0
    for module in [hm, *(thing for name in hm.__all__ if inspect.ismodule(thing := getattr(hm, name)))]:
        for name in getattr(module, "__all__", []):
            try:
                getattr(module, name)
            except MissingExtraError:
                continue
            found += 1
    return found


def main() -> None:
    print(f"{names()} public names")
    keys = [[2, 0], [-1, 2], [-1, -2], [0.2, 0.1]]
    diagram = hm.attention_diagram(keys)
    assert diagram.nonempty.tolist() == [True, True, True, False]
    assert diagram.empty_certificate(3).verify()
    assert diagram.as_voronoi().regions == [[-1, 0]] * 3
    assert hm.minkowski_vertices([keys, keys]).count == 3
    network = hm.Network.random_mlp([2, 8, 8, 1], rng=0)
    box = hm.Box.cube(2, -1, 1)
    regions = hm.enumerate_regions(network, box)
    regions.verify()
    print(f"{regions.n_cells} cells, {regions.n_regions} regions")
    assert hm.count_cells(network, box).n_cells == regions.n_cells
    assert hm.verify(network, "y0 <= 1000", box).verdict == "holds"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "regions.npz"
        regions.save(path)
        assert hm.load(path).n_cells == regions.n_cells
        assert hm.explore("fig5").save(Path(folder) / "explorer.html").stat().st_size > 100_000
        if find_spec("matplotlib"):
            regions.plot().figure.savefig(Path(folder) / "regions.svg")
    if find_spec("pandas"):
        assert len(regions.to_frame()) == regions.n_cells
    hm.show_versions()


if __name__ == "__main__":
    main()
