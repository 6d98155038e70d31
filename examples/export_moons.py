"""Train a small classifier of two half-moons in torch and write it as an ONNX file (needs torch and onnx).

    python examples/export_moons.py examples/moons.onnx

The file that comes with the repository was made like this. It holds three layers, batch norm and a softmax.
"""

from __future__ import annotations

import sys
import warnings
from math import pi

import torch
from torch import nn


def moons(n: int, noise: float = 0.1) -> tuple[torch.Tensor, torch.Tensor]:
    """Points on two half-circles that reach into each other, and which of the two each is on."""
    angle, label = pi * torch.rand(n), torch.arange(n) % 2
    upper = torch.stack([torch.cos(angle), torch.sin(angle)], dim=1)
    lower = torch.stack([1 - torch.cos(angle), 0.5 - torch.sin(angle)], dim=1)
    points = torch.where(label[:, None] == 0, upper, lower)
    return points + noise * torch.randn(n, 2), label


def main(path: str) -> None:
    """Train, and write the network."""
    torch.manual_seed(0)
    points, label = moons(400)
    network = nn.Sequential(
        nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 2)
    )
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(600):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(points), label).backward()
        optimiser.step()
    network.eval()
    right = (network(points).argmax(dim=1) == label).float().mean()
    print(f"{100 * right:.1f} % of the points are classified right")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter writes one file and is told to be old
        torch.onnx.export(
            nn.Sequential(network, nn.Softmax(dim=1)).eval(),
            (points[:1],),
            path,
            dynamo=False,
            input_names=["point"],
            output_names=["probabilities"],
            dynamic_axes={"point": {0: "batch"}, "probabilities": {0: "batch"}},
            training=torch.onnx.TrainingMode.PRESERVE,  # batch norm stays a node of its own
            do_constant_folding=False,
        )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "moons.onnx")
