"""Measure how smoothly the explorer follows a key that is dragged, in headless Chromium.

A key is moved in a circle, one step per animation frame, by the events that a mouse would send. Printed is
the time between frames.

Usage: PYTHONPATH=src python tests/scripts/explorer_frames.py
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

import hardmax as hm

FRAMES = 120

DRAG = """async ([id, frames]) => {
  const handle = document.querySelector(`.handle[data-id="${id}"]`), box = handle.querySelector(".knob").getBoundingClientRect();
  const x = box.left + box.width / 2, y = box.top + box.height / 2;
  const send = (kind, dx, dy) => handle.dispatchEvent(new PointerEvent(kind, { bubbles: true, pointerId: 1, button: 0, clientX: x + dx, clientY: y + dy }));
  handle.setPointerCapture = () => {};
  send("pointerdown", 0, 0);
  const times = [];
  await new Promise(done => {
    let last = null, n = 0;
    const step = now => {
      if (last !== null) times.push(now - last);
      last = now;
      if (n++ >= frames) return done();
      send("pointermove", 40 * Math.cos(n / 9) - 40, 40 * Math.sin(n / 9));
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  send("pointerup", 0, 0);
  return times;
}"""  # noqa: E501


def layouts() -> dict[str, tuple[dict[str, Any], str]]:
    rng = np.random.default_rng(0)
    keys = np.column_stack([rng.uniform(-3, 3, (200, 2)), np.zeros(200)]).round(2)
    head = {"mode": "head", "rule": "hardmax", "temperature": 0, "half": 3, "keys": keys.tolist()}
    weighed = np.column_stack([keys[:, :2], rng.uniform(0, 0.5, 200)]).round(3).tolist()
    heads = rng.standard_normal((3, 30, 3)).round(2).tolist()
    flat = [[[x, y, 0] for x, y, _ in rows] for rows in heads]
    return {
        "200 keys, Voronoi": ({**head, "scores": "voronoi"}, "k0"),
        "200 keys, power diagram": ({**head, "scores": "power", "keys": weighed}, "k0"),
        "200 keys, attention": ({**head, "scores": "attention"}, "k0"),
        "200 keys, softmax at temperature 0.1": ({**head, "scores": "voronoi", "temperature": 0.1}, "k0"),
        "3 heads of 30 keys": ({"mode": "heads", "half": 3, "heads": flat}, "h0k0"),
        "3 heads of 30 keys with biases": ({"mode": "heads", "half": 3, "heads": heads}, "h0k0"),
        "sawtooth, 256 cells": (hm.explore("sawtooth").state, "h0k0"),
    }


def main() -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    folder = Path(tempfile.mkdtemp())
    with sync_playwright() as running:
        opened = running.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for name, (state, handle) in layouts().items():
            page = opened.new_page(viewport={"width": 1440, "height": 900})
            page.goto(hm.explore(state).save(folder / "explorer.html").as_uri())
            page.wait_for_selector("#badge[data-state=exact], #badge[data-state=partial]", timeout=60_000)
            times = page.evaluate(DRAG, [handle, FRAMES])
            median, worst = statistics.median(times), sorted(times)[int(0.95 * len(times))]
            cells = page.inner_text("#count")
            print(f"{name}: {1000 / median:.0f} frames per second, {cells} cells")
            print(f"  between frames: median {median:.1f} ms, 95 % below {worst:.1f} ms")
            page.close()
        opened.close()


if __name__ == "__main__":
    main()
