"""Pictures of the report of a model on three texts, at two widths, light and dark, to be looked at.

    python tests/scripts/report_screens.py MODEL FOLDER

MODEL is a folder of a Hugging Face model. A token, a head and the slider are used before a picture is taken;
whatever the page writes to the console is printed, and makes the script fail; so do a page that is wider
than its window, and a sentence of the verdict that it does not show. tests/integration/test_report_minilm.py
runs this.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

import hardmax as hm

TEXTS = {
    "a sentence": "The cat that chased the little mouse sat on the mat and slept.",
    "a question": "Who wrote the first program for a machine that had not been built yet?",
    "a list": "Apples, pears, plums, apples, pears, plums, apples and pears cost 3, 4 and 5 pounds.",
}


def main(model: str, folder: Path) -> int:
    """Write the report, take the pictures, and say what the console said."""
    found = hm.report(model, TEXTS, progress=True)
    page_file = found.write(folder)[0]
    size = page_file.stat().st_size / 1e6
    print(f"{page_file}: {size:.2f} MB")
    for sentence in found.verdict.sentences:
        print("-", sentence)
    said: list[str] = []
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for width in (390, 1440):
            for scheme in ("light", "dark"):
                context = browser.new_context(
                    viewport={"width": width, "height": 900},
                    color_scheme="dark" if scheme == "dark" else "light",
                )
                page = context.new_page()
                page.on("console", lambda message: said.append(message.text))
                page.on("pageerror", lambda error: said.append(str(error)))
                page.goto(page_file.resolve().as_uri())
                told = page.locator("#verdict").inner_text().replace("\u00a0", " ")
                said.extend(f"not shown: {s}" for s in found.verdict.sentences if s not in told)
                name = f"{width}-{scheme}"
                page.screenshot(path=folder / f"top-{name}.png")
                page.locator("#over-texts").screenshot(path=folder / f"over-{name}.png")
                page.locator("#texts-section").screenshot(path=folder / f"texts-{name}.png")
                page.locator("#text-choice").select_option("1")
                prefix = page.locator(".one-text:visible").get_attribute("id").removesuffix("text")
                page.locator(f"#{prefix}rule").fill("3")
                page.locator(f"#{prefix}routes-app .place[data-column='6'][data-token='3']").click()
                page.locator(f"#{prefix}routes-app .head-button").nth(2).click()
                shown = [
                    page.locator(f"#{prefix}{part}").inner_text() for part in ("routes-said", "head-name")
                ]
                if not shown[0].startswith("Under top-5, ") or shown[1] != "Layer 0, head 2":
                    said.append(f"slider, token and head show {shown}")
                page.locator(f"#{prefix}routes").screenshot(path=folder / f"routes-{name}.png")
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    said.append(f"the page is {wide} wide at {width}")
                context.close()
        browser.close()
    print("console:", said or "nothing")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
