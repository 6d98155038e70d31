"""The picture of the report in the README: what the read-out of MiniLM has read, layer by layer.

python docs/pictures/report.py MODEL        writes docs/pictures/report.png; MODEL is a folder of a model
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import hardmax as hm

TEXT = "Paris is the capital of France. Berlin is the capital of Germany. Rome is the capital of"


def main(model: str) -> None:
    """Write the report, choose the read-out, leave out the lines to it, and take the picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        page_file = hm.report(model, TEXT, influence=False).write(Path(folder) / "report")[0]
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 1400})
        page.goto(page_file.resolve().as_uri())
        page.locator("#no-sink").check()
        page.locator("#routes-app .place[data-column='6'][data-token='0']").click()
        top, bottom = page.evaluate(
            """() => {
              const places = ["#routes-said", "#routes-words"].map(
                (id) => document.querySelector(id).getBoundingClientRect());
              return [places[0].top + scrollY - 10, places[1].bottom + scrollY + 10];
            }"""
        )
        clip = {"x": 0, "y": top, "width": 1000, "height": bottom - top}
        page.screenshot(path=Path(__file__).with_suffix(".png"), full_page=True, clip=clip)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
