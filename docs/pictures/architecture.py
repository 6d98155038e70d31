"""The picture of docs/architecture.md: packages by layer, from the contract of imports in pyproject.toml.

python docs/pictures/architecture.py         writes docs/pictures/architecture.png
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from hardmax.plotting.style import FILLS, INK

ROOT = Path(__file__).resolve().parents[2]
WORDS = {
    "cli": "commands",
    "explorer": "the page with keys to drag",
    "papers": "claims, certificates, recipes",
    "plotting": "pictures",
    "training": "small transformers",
    "models": "Hugging Face models",
    "temperature": "distance from softmax",
    "targets": "functions of sequences",
    "flow": "information sets, costs",
    "verification": "proofs of properties",
    "regions": "cells, maps, adjacency, boundaries, segments",
    "tropical": "tropical polynomials",
    "geometry": "diagrams, cones, Minkowski sums",
    "networks": "blocks, readers of torch and ONNX",
    "exact": "rationals, double-double, residues",
    "bounds": "closed forms",
}


def layers() -> list[list[str]]:
    """The packages of each layer, highest first; single modules are left out."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    rows = [re.split(r"\s*[:|]\s*", line.replace("hardmax.", "")) for line in contract["layers"]]
    return [row for row in rows if (ROOT / "src" / "hardmax" / row[0]).is_dir()]


def main() -> None:
    """Draw one row per layer."""
    rows = layers()
    figure = Figure(figsize=(9, 0.5 * len(rows) + 0.35))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 9), ylim=(-len(rows), 0.45))
    axes.axis("off")
    look = {"boxstyle": "round,pad=0,rounding_size=0.08", "facecolor": FILLS[5], "edgecolor": INK}
    for i, row in enumerate(rows):
        width = 8.6 / len(row)
        for j, name in enumerate(row):
            left = 0.2 + j * width
            axes.add_patch(FancyBboxPatch((left + 0.05, -i - 0.85), width - 0.1, 0.78, linewidth=0.8, **look))
            axes.text(left + width / 2, -i - 0.33, name, ha="center", va="center", weight="bold", color=INK)
            axes.text(left + width / 2, -i - 0.65, WORDS[name], ha="center", va="center", size=8, color=INK)
    axes.text(
        4.5, 0.2, "imports point downwards", ha="center", va="center", size=9, style="italic", color=INK
    )
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    main()
