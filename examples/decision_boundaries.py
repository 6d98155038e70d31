"""Two classifiers and their exact decision boundaries: two moons, and handwritten digits.

    python examples/decision_boundaries.py                 the numbers of docs/decision-boundaries.md
    python examples/decision_boundaries.py --pictures DIR  and its pictures
    python examples/decision_boundaries.py --train         train both networks anew (digits: scikit-learn's)

Both are small ReLU networks, trained with L-BFGS from scipy; the weights are rounded afterwards, and what is
computed about them is exact for the rounded ones. The digits' network and three images are in digits.npz.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

import hardmax as hm

HERE = Path(__file__).resolve().parent
DIGITS, IMAGES = HERE / "digits.npz", HERE / "digit_images.npy"
W_IN = [[-0.95, 0.6], [4.12, 0.23], [-1.43, 1.02], [-2.51, 1.69], [-0.36, 0.07], [2.77, 2.92]]
B_IN = [-0.24, -4.1, -0.41, -0.68, -0.02, -1.14]
W_OUT = [[0.81, -4.11, 1.26, 2.26, 0.22, 2.95], [-0.81, 4.1, -1.28, -2.24, -0.23, -2.94]]
B_OUT = [-2.97, 2.97]
MOONS = hm.Box([-1.75, -1.25], [2.75, 1.75])


def moons(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two half circles that reach into each other, with noise."""
    angles, labels = rng.uniform(0, np.pi, n), np.arange(n) % 2
    upper = np.column_stack([np.cos(angles), np.sin(angles)])
    lower = np.column_stack([1 - np.cos(angles), 0.5 - np.sin(angles)])
    return np.where(labels[:, None], lower, upper) + 0.12 * rng.standard_normal((n, 2)), labels


def trained(x: Any, y: Any, widths: list[int], decay: float, grain: float, rng: Any) -> hm.Network:
    """A ReLU network that minimises the cross entropy plus weight decay, its weights rounded to a grain."""
    shapes = [(b, a) for a, b in pairwise(widths)]
    ends = np.cumsum([0, *(b * a + b for b, a in shapes)])

    def layers(theta: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        parts = [theta[i:j] for i, j in pairwise(ends)]
        return [(p[: b * a].reshape(b, a), p[b * a :]) for p, (b, a) in zip(parts, shapes, strict=True)]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        hidden = [x]
        for i, (w, b) in enumerate(layers(theta)):
            z = hidden[-1] @ w.T + b
            hidden.append(np.maximum(z, 0) if i < len(shapes) - 1 else z)
        logits = hidden[-1] - hidden[-1].max(axis=1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(axis=1, keepdims=True)
        value = -np.log(p[np.arange(len(y)), y]).mean() + decay * (theta**2).sum() / 2
        slope = p.copy()
        slope[np.arange(len(y)), y] -= 1
        slope /= len(y)
        parts = []
        for i in reversed(range(len(shapes))):
            parts.append(np.concatenate([(slope.T @ hidden[i]).ravel(), slope.sum(axis=0)]))
            slope = (slope @ layers(theta)[i][0]) * (hidden[i] > 0)
        return value, np.concatenate(parts[::-1]) + decay * theta

    start = np.concatenate(
        [np.concatenate([rng.standard_normal(b * a) * (2 / a) ** 0.5, np.zeros(b)]) for b, a in shapes]
    )
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    rounded = np.round(best.x / grain) * grain
    return hm.Network.mlp([(np.round(w, 6), np.round(b, 6)) for w, b in layers(rounded)])


def moons_network() -> hm.Network:
    """What ``train_moons`` found, as docs/decision-boundaries.md has it."""
    return hm.Network.mlp([(W_IN, B_IN), (W_OUT, B_OUT)])


def train_moons() -> hm.Network:
    """Six hidden units, weights with two digits; prints them as docs/decision-boundaries.md has them."""
    x, y = moons(300, np.random.default_rng(0))
    net = trained(x, y, [2, 6, 2], 2e-4, 0.01, np.random.default_rng(4))
    block = net.blocks[0]
    for array in (block.w_in, block.b_in, block.w_out, block.b_out):
        print(array.floats.tolist())
    print(f"moons: {(net(x).argmax(axis=1) == y).mean():.1%} of 300 points are classified as labelled")
    return net


def train_digits() -> None:
    """Train on three quarters of scikit-learn's digits and keep the network and three other images."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x, y = data.data / 16, data.target
    train = np.arange(len(x)) % 4 != 0
    net = trained(x[train], y[train], [64, 16, 16, 10], 3e-4, 1 / 64, np.random.default_rng(0))
    print(f"digits: {(net(x[~train]).argmax(axis=1) == y[~train]).mean():.1%} of the other images are right")
    net.save(DIGITS)
    sure = np.sort(net(x), axis=1)
    sure = (sure[:, -1] - sure[:, -2]) * (net(x).argmax(axis=1) == y) * ~train
    np.save(IMAGES, np.array([x[np.flatnonzero(y == c)[sure[y == c].argmax()]] for c in (3, 5, 8)]))


def digits_plane() -> tuple[hm.Network, Any, hm.regions.DecisionBoundary]:
    """The network on the plane through a 3, a 5 and an 8, and its boundary in a square around them."""
    net, images = hm.load(DIGITS), np.load(IMAGES)
    plane = net.plane_through(*images)
    square = hm.Box([-2, -2], [5, 5])
    return net, plane, hm.decision_boundary(plane.network, square)


def draw(folder: Path) -> None:
    """The pictures of the page."""
    x, y = moons(300, np.random.default_rng(0))
    found = hm.decision_boundary(moons_network(), MOONS)
    axes = found.plot(points=x[:120], labels=y[:120])
    for i in (0, 1, 2, 7):
        near = found.distance(x[i]).nearest
        axes.plot(*np.array([x[i], near]).T, color="#1A1A1A", linewidth=1.4, zorder=6)
        axes.plot(*near, marker="o", markersize=4, color="#1A1A1A", zorder=6)
    axes.figure.savefig(folder / "moons-boundary.png")
    axes = hm.enumerate_regions(moons_network(), MOONS).plot(colour="class")
    axes.figure.savefig(folder / "moons-cells.png")
    _, plane, found = digits_plane()
    axes = found.plot()
    axes.set_title("which digit? the plane through a 3, a 5 and an 8")
    places = ((0.15, -0.4), (-0.4, 0.15), (0.15, -0.4))  # of the lower left corner, so that numbers are seen
    for place, image, corner in zip(plane.points, np.load(IMAGES), places, strict=True):
        axes.plot(*place, marker="o", color="#1A1A1A", markeredgecolor="white", zorder=6)
        left, bottom = place + corner
        axes.imshow(
            image.reshape(8, 8), cmap="Greys", extent=(left, left + 0.8, bottom, bottom + 0.8), zorder=5
        )
    box = found.domain
    axes.set(xlim=(box.low.floats[0], box.high.floats[0]), ylim=(box.low.floats[1], box.high.floats[1]))
    axes.figure.savefig(folder / "digits-plane.png")


def main(arguments: list[str] | None = None) -> None:
    """Print, and draw if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", type=Path, help="write the pictures into this folder")
    parser.add_argument("--train", action="store_true", help="train both networks anew")
    options = parser.parse_args(arguments)
    if options.train:
        train_moons()
        train_digits()
        return
    begin = time.process_time()
    found = hm.decision_boundary(moons_network(), MOONS)
    print(f"moons: {found}, {1e3 * (time.process_time() - begin):.0f} ms of processor time")
    begin = time.process_time()
    net, plane, found = digits_plane()
    print(f"digits: {net}, {plane}")
    print(f"  {found}, {1e3 * (time.process_time() - begin):.0f} ms")
    print(f"  {hm.enumerate_regions(plane.network, found.domain).n_cells} cells of the network")
    for point in plane.points:
        print(f"  {found.distance(point)}")
    if options.pictures is not None:
        draw(options.pictures)


if __name__ == "__main__":
    main()
