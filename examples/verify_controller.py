"""Five properties of a controller with 6 x 50 ReLU units, decided exactly, and their certificates replayed.

    python examples/verify_controller.py [--plot docs/pictures/verified-controller.png]

The controller (examples/controller.npz, made by train_controller.py) scores five turns by distance, bearing
and heading of another aircraft and by both speeds, each between -1 and 1.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import hardmax as hm

CLEAR_IS_BEST = "y0 > y1 and y0 > y2 and y0 > y3 and y0 > y4"
PROPERTIES = {
    "first score at most 1.2 wherever the other aircraft is (3 inputs vary)": (
        [-1, -1, -1, 0.2, 0.2], [1, 1, 1, 0.2, 0.2], "y0 <= 1.2"),
    "head-on and near, clear of conflict is never best (4 inputs)": (
        [-0.9, -0.05, 0.95, 0, 0.2], [-0.8, 0.05, 1, 0.4, 0.2], "y0 < y1 or y0 < y2 or y0 < y3 or y0 < y4"),
    "no score above 1.1 near the same course (5 inputs)": (
        [-1, -0.1, -0.1, -0.2, -0.2], [-0.6, 0.1, 0.1, 0.2, 0.2],
        "y0 <= 1.1 and y1 <= 1.1 and y2 <= 1.1 and y3 <= 1.1 and y4 <= 1.1"),
    "far away at any speed up to the mean, clear of conflict is best (5 inputs)": (
        [0.8, -0.1, -0.1, -0.5, -0.5], [1, 0.1, 0.1, 0, 0], CLEAR_IS_BEST),
    "the same on a wider box (5 inputs)": (
        [0.7, -0.3, -0.3, -0.5, -0.5], [1, 0.3, 0.3, 0.5, 0.5], CLEAR_IS_BEST),
}  # fmt: skip


def bounds(low: list[float], high: list[float]) -> str:
    """A box as text; sides of width zero are allowed there."""
    return " and ".join(
        f"{a} <= x{i} and x{i} <= {b}" for i, (a, b) in enumerate(zip(low, high, strict=True))
    )


def decided(net: hm.Network, low: list[float], high: list[float], text: str) -> hm.verification.Verdict:
    """The verdict on a property inside a box."""
    return hm.verify(net, f"not ({bounds(low, high)}) or ({text})", time_limit=300)


def main() -> None:
    """Decide and replay."""
    net = hm.load(Path(__file__).with_name("controller.npz"))
    for name, (low, high, text) in PROPERTIES.items():
        begun = time.process_time()
        found = decided(net, low, high, text)
        searched = time.process_time()
        found.certificate.replay()
        replayed = time.process_time() - searched
        print(
            f"{name}: {found!r}, {found.n_nodes} nodes, {searched - begun:.1f} s, "
            f"replayed in {replayed:.1f} s"
        )
    if "--plot" in sys.argv:
        draw(net, Path(sys.argv[sys.argv.index("--plot") + 1]))


def draw(net: hm.Network, target: Path) -> None:
    """The leaves of the tree that proves the maximum over two inputs, coloured by how they were proven."""
    plane = net.restrict([0, 0, 0.5, 0.2, 0.2], [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]])
    found = hm.maximise(plane, 0, hm.Box.cube(2, -1, 1))
    print(found)
    ax = found.certificate.plot()
    ax.set(xlabel="x0: distance", ylabel="x1: bearing")
    ax.plot(*map(float, found.point), marker="*", color="black", markersize=9, clip_on=False)
    ax.set_title(f"The largest score is {float(found.value):.6f}: {found.certificate.n_leaves} leaves")
    ax.figure.savefig(target)


if __name__ == "__main__":
    main()
