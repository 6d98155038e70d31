"""Five properties of a controller with 6 x 50 ReLU units, decided exactly, and their certificates replayed.

    python examples/verify_controller.py [--plot docs/pictures/verified-controller.svg]

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
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch, Rectangle

    from hardmax.verification import replay

    plane = net.restrict([0, 0, 0.5, 0.2, 0.2], [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]])
    found = hm.maximise(plane, 0, hm.Box.cube(2, -1, 1))
    print(found)
    colours = {"bound": "#9ecae1", "combination": "#fdae6b", "exact": "#31a354"}
    figure, ax = plt.subplots(figsize=(6.4, 5.2))
    data = found.certificate.record["data"]
    stack, kinds = (
        [tuple([replay.number(v) for v in data["property"][0][side]] for side in ("low", "high"))],
        {},
    )
    for proofs, cut in data["trees"][0]:
        a, b = stack.pop()
        here = kinds.setdefault((a[0], a[1], b[0], b[1]), set())
        for kind, _, rows, facts in proofs:
            here.add("exact" if kind == "e" else "combination" if len(rows) + len(facts) > 1 else "bound")
        if cut is not None and cut[0] == "x":
            i, value = cut[1], replay.number(cut[2])
            stack += [(a[:i] + [value] + a[i + 1 :], b), (a, b[:i] + [value] + b[i + 1 :])]
        elif cut is not None:
            stack += [(a, b)] * 2
        if cut is None or cut[0] != "x":
            corner, size = (float(a[0]), float(a[1])), (float(b[0] - a[0]), float(b[1] - a[1]))
            colour = colours[max(here, key=list(colours).index, default="bound")]
            ax.add_patch(Rectangle(corner, *size, facecolor=colour, edgecolor="white", lw=0.4))
    ax.set(xlim=(-1, 1), ylim=(-1, 1), xlabel="x0: distance", ylabel="x1: bearing")
    ax.plot(*map(float, found.point), marker="*", color="black", markersize=9, linestyle="none")
    ax.set_title(f"The largest score is {float(found.value):.6f}: {found.certificate.n_leaves} leaves")
    names = {"bound": "one bound", "combination": "a combination with facts", "exact": "rationals"}
    handles = [Patch(facecolor=colours[kind], label=text) for kind, text in names.items()]
    figure.legend(handles=handles, loc="lower center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(target)


if __name__ == "__main__":
    main()
