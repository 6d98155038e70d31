"""Train the controller of docs/verification.md: five inputs, six layers of 50 ReLU units, five scores.

The table is made up: two aircraft fly straight on in a plane, the own one after one of five turns, and a turn
is scored by the least distance that follows, less a price. The seed is fixed. Writes examples/controller.npz.

    python examples/train_controller.py        needs torch; about a minute
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import torch

import hardmax as hm

TURNS = np.radians([0.0, 20.0, -20.0, 45.0, -45.0])  # clear of conflict, weak left, weak right, left, right
PRICES = np.array([0.0, 0.1, 0.1, 0.25, 0.25])
ZERO = np.array([30_000.0, 0.0, 0.0, 600.0, 600.0])  # distance in ft, bearing, heading, own and other speed
ONE = np.array([30_000.0, np.pi, np.pi, 500.0, 500.0])


def scores(inputs: np.ndarray) -> np.ndarray:
    """The table: one column per turn, larger is better; inputs from -1 to 1."""
    distance, bearing, heading, own, other = (ZERO + ONE * inputs).T
    place = np.stack([distance * np.cos(bearing), distance * np.sin(bearing)])
    theirs = other * np.stack([np.cos(heading), np.sin(heading)])
    columns = []
    for turn, price in zip(TURNS, PRICES, strict=True):
        ours = own * np.stack([np.full_like(own, np.cos(turn)), np.full_like(own, np.sin(turn))])
        drift = theirs - ours
        speed = (drift**2).sum(axis=0) + 1.0
        when = np.clip(-(place * drift).sum(axis=0) / speed, 0.0, 60.0)
        least = np.sqrt(((place + drift * when) ** 2).sum(axis=0))
        columns.append(1.0 - np.exp(-least / 4000.0) - price)
    return np.stack(columns, axis=1)


def trained() -> torch.nn.Sequential:
    """The network, in float32."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    widths = [5, *[50] * 6, 5]
    layers: list[torch.nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers[:-1])
    steps = 8000
    optimiser = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        x = rng.uniform(-1, 1, (512, 5))
        wanted = torch.tensor(scores(x), dtype=torch.float32)
        loss = ((net(torch.tensor(x, dtype=torch.float32)) - wanted) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 1000 == 999:
            print(f"step {step + 1}: mean squared error {loss.item():.5f}")
    return net


if __name__ == "__main__":
    network = hm.Network.from_torch(trained())
    print(network.save(Path(__file__).with_name("controller.npz")))
