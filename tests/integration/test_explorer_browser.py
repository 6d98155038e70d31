"""The explorer in a browser: drag a key, compare with the library; phones, dark mode, keyboard, links."""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path

import pytest

import hardmax as hm
from hardmax.explorer.answers import answer
from hardmax.explorer.server import ExplorerServer

playwright = pytest.importorskip("playwright.sync_api", reason="a browser is driven by playwright")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on the path: the page is not opened")

# `npm install --no-save axe-core` in the folder of the sources puts it there
AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return hm.explore().save(tmp_path_factory.mktemp("explorer") / "explorer.html").as_uri()


class Visit:
    """A page that was opened, and whatever it said or asked for."""

    def __init__(self, browser, url, **context):
        self.said, self.asked = [], []
        self.context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **context})
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(url)

    def __enter__(self):
        self.confirmed()
        return self

    def __exit__(self, *failure):
        self.context.close()

    def confirmed(self, words="exact"):
        """Wait for the badge, and return the count beside it."""
        badge = self.page.locator("#badge")
        playwright.expect(badge).to_contain_text(words, timeout=30_000)
        return int(self.page.inner_text("#count").replace(",", ""))

    @property
    def state(self):
        """The state of the page, as its link says."""
        coded = re.fullmatch(r".*#state=([\w-]+)", self.page.url)
        if coded is None:
            name = self.page.url.rpartition("#scene=")[2]
            return next(scene["state"] for scene in hm.explorer.scenes() if scene["name"] == name)
        text = self.page.evaluate(
            "text => atob(text.replaceAll('-', '+').replaceAll('_', '/'))", coded.group(1)
        )
        return json.loads(text)

    def drag(self, handle, dx, dy, steps=8):
        """Drag a handle by pixels; returns the badge while it moves."""
        box = self.page.locator(f".handle[data-id='{handle}'] .knob").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        mouse = self.page.mouse
        mouse.move(x, y)
        mouse.down()
        mouse.move(x + dx, y + dy, steps=steps)
        self.page.wait_for_timeout(80)
        during = self.page.inner_text("#badge")
        mouse.up()
        return during


@pytest.mark.parametrize(
    ("scene", "handle"),
    [
        ("fig3", "k4"),
        ("fig5", "k4"),
        ("fig4", "h1k2"),
        ("fig7", "h0k1"),
        ("classifier", "u3"),
        ("infoflow", "t1"),
    ],
)
def test_a_dragged_key_is_confirmed_with_the_count_of_the_library(browser, address, scene, handle):
    with Visit(browser, f"{address}#scene={scene}") as visit:
        during = visit.drag(handle, -60, 45)
        assert "floating point" in during
        assert visit.confirmed() == answer(visit.state)["count"]
        assert visit.state != next(s["state"] for s in hm.explorer.scenes() if s["name"] == scene)
        assert visit.said == []


def test_a_tie_made_by_hand_is_counted_exactly(browser, address):
    """A key dragged onto another: they win together, and count once."""
    with Visit(browser, f"{address}#scene=fig3") as visit:
        page = visit.page
        spots = [page.locator(f".handle[data-id='k{j}'] .knob").bounding_box() for j in (0, 6)]
        visit.drag("k6", spots[0]["x"] - spots[1]["x"], spots[0]["y"] - spots[1]["y"])
        count = visit.confirmed()
        keys = visit.state["keys"]
        assert keys[0][:2] == pytest.approx(keys[6][:2], abs=0.02)
        assert count == answer(visit.state)["count"]


def test_where_it_is_served_the_library_is_asked(browser):
    with ExplorerServer("fig3") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            with Visit(browser, server.url) as visit:
                visit.confirmed("Python agrees")
                visit.drag("k1", 70, 70)
                assert visit.confirmed("Python agrees") == answer(visit.state)["count"]
                assert {url.partition("#")[0] for url in visit.asked} <= {server.url, server.url + "answer"}
        finally:
            server.shutdown()
            thread.join(5)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_loaded_nothing_complains_nothing_sticks_out(browser, address, width, scheme):
    with Visit(browser, address, viewport={"width": width, "height": 844}, color_scheme=scheme) as visit:
        page = visit.page
        for scene in hm.explorer.scenes():
            page.locator(f"#scenes button[data-scene={scene['name']}]").click()
            playwright.expect(page.locator("#scene-title")).to_have_text(scene["title"])
            visit.confirmed()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            outside = page.evaluate(
                """width => [...document.querySelectorAll("main *")].filter(e => !e.closest("#scenes, svg")
                     && e.getBoundingClientRect().width && e.getBoundingClientRect().right > width + 1)
                     .map(e => e.tagName)""",
                width,
            )
            assert outside == [], scene["name"]
        assert visit.said == []
        assert visit.asked == [address]


def test_undo_redo_and_links(browser, address):
    with Visit(browser, f"{address}#scene=fig3") as visit:
        page = visit.page
        visit.drag("k4", -120, 0)
        moved = visit.confirmed()
        link = page.url
        assert "#state=" in link
        page.keyboard.press("Control+z")
        assert visit.confirmed() == 5
        assert page.url.endswith("#scene=fig3")
        page.keyboard.press("Control+Shift+z")
        assert visit.confirmed() == moved
        with Visit(browser, link) as other:
            assert other.confirmed() == moved


@pytest.mark.parametrize(
    "hash", ["#state=xxxx", "#scene=nowhere", "#state=" + "A" * 9000, "#<script>alert(1)</script>"]
)
def test_a_bad_link_shows_the_first_scene(browser, address, hash):
    with Visit(browser, address + hash) as visit:
        assert visit.confirmed() == 5
        assert "could not be read" in visit.page.inner_text("#said")
        assert visit.said == []


def test_the_keyboard_moves_weighs_and_removes(browser, address):
    with Visit(browser, f"{address}#scene=fig3") as visit:
        page = visit.page
        page.locator(".handle[data-id='k0']").focus()
        page.keyboard.press("n")
        before = visit.state["keys"][1]
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Shift+ArrowUp")
        page.keyboard.press("+")
        visit.confirmed()
        after = visit.state["keys"][1]
        assert after[0] < before[0]
        assert after[1] > before[1]
        assert after[2] > 0
        page.keyboard.press("Delete")
        visit.confirmed()
        assert len(visit.state["keys"]) == 6
        assert visit.confirmed() == answer(visit.state)["count"]


def test_double_click_adds_and_rules_change(browser, address):
    with Visit(browser, f"{address}#scene=fig3") as visit:
        page = visit.page
        page.locator(".board").dblclick(position={"x": 420, "y": 500})
        visit.confirmed()
        assert len(visit.state["keys"]) == 8
        for words in ("Power", "Voronoi", "Top-2", "Sparsemax", "Attention"):
            page.get_by_role("radio", name=words).check()
            page.wait_for_timeout(60)
            assert visit.confirmed() == answer(visit.state)["count"], words


def test_a_finger_drags_a_key(browser, address):
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with Visit(browser, f"{address}#scene=fig3", **phone) as visit:
        box = visit.page.locator(".handle[data-id='k1'] .knob").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        session = visit.context.new_cdp_session(visit.page)
        for kind, points in (
            ("touchStart", [{"x": x, "y": y}]),
            ("touchMove", [{"x": x + 20, "y": y + 20}]),
            ("touchMove", [{"x": x + 50, "y": y + 60}]),
            ("touchEnd", []),
        ):
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
            visit.page.wait_for_timeout(30)
        visit.confirmed()
        assert visit.state["keys"][1][1] < 2.4
        assert visit.confirmed() == answer(visit.state)["count"]


def test_a_frame_in_a_notebook_counts_too(browser):
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_content(hm.explore("fig3")._repr_html_())
    frame = page.frame_locator("iframe")
    playwright.expect(frame.locator("#badge")).to_have_text("exact")
    key = frame.locator(".handle[data-id='k4']")
    assert "never wins" in key.get_attribute("aria-label")
    box = key.locator(".knob").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 5, steps=4)  # to the right of all others
    page.mouse.up()
    playwright.expect(key).not_to_have_attribute("aria-label", re.compile("never wins"))
    playwright.expect(frame.locator("#badge")).to_have_text("exact")
    assert errors == []
    page.close()


def test_a_widget_asks_python_and_python_has_its_state(browser):
    """The script of the widget with a model as anywidget gives it; messages go to the widget and back."""
    pytest.importorskip("anywidget")
    widget, sent = hm.explore("fig3").widget, []
    widget.send = sent.append
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.expose_function("ask", lambda question: widget._asked(None, question, []) or sent[-1])
    page.evaluate(
        """async ([script, text]) => {
             const { default: widget } = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
             let told;
             const model = { get: () => text, on: (_, act) => { told = act; }, off: () => {}, send: question => ask(question).then(told) };
             window.end = widget.render({ model, el: document.body });
           }""",  # noqa: E501
        [widget._esm, widget.page],
    )
    frame = page.frame_locator("iframe")
    playwright.expect(frame.locator("#badge")).to_have_text("exact, Python agrees", timeout=30_000)
    frame.locator(".handle[data-id='k4']").focus()
    page.keyboard.press("ArrowRight")
    playwright.expect(frame.locator("#badge")).to_have_text("exact, Python agrees", timeout=30_000)
    assert widget.state != hm.explore("fig3").state
    assert int(frame.locator("#count").inner_text()) == answer(widget.state)["count"]
    page.evaluate("end()")
    assert errors == []
    page.close()


def test_hovering_a_cell_lights_its_vertex(browser, address):
    with Visit(browser, f"{address}#scene=fig4") as visit:
        sums = visit.page.locator(".board.sum canvas")
        before = sums.evaluate("c => c.toDataURL()")
        visit.page.locator(".board.plane").hover(position={"x": 60, "y": 200})
        playwright.expect(visit.page.locator("#hover")).to_contain_text("the keys add up to")
        assert sums.evaluate("c => c.toDataURL()") != before


def test_a_head_that_is_removed_loses_a_token(browser, address):
    with Visit(browser, f"{address}#scene=infoflow") as visit:
        visit.page.locator(".switches input").first.uncheck()
        playwright.expect(visit.page.locator("#lines")).to_contain_text("Lost: {x1, x3}")
        assert visit.confirmed() == 1


def test_svg_and_python_leave_the_page(browser, address, tmp_path):
    with Visit(browser, f"{address}#scene=fig5") as visit:
        with visit.page.expect_download() as download:
            visit.page.locator("#svg").click()
        path = tmp_path / "drawing.svg"
        download.value.save_as(path)
        text = path.read_text()
        assert text.startswith("<svg ")
        assert text.count("<circle") >= 5
        visit.page.locator("#python").click()
        visit.page.wait_for_timeout(100)
        copied = visit.page.locator("#copied")
        if copied.is_visible():  # a page from disk may not write to the clipboard
            assert "hm.attention_diagram(keys, biases)" in copied.input_value()


@pytest.mark.skipif(not AXE.exists(), reason="no axe-core in node_modules")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_no_serious_fault(browser, address, width, scheme):
    """In every scene, and with a key that never wins selected."""
    view = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme, "bypass_csp": True}
    with Visit(browser, address, **view) as visit:
        page = visit.page
        page.add_script_tag(path=str(AXE))
        for scene in hm.explorer.scenes():
            page.locator(f"#scenes button[data-scene={scene['name']}]").click()
            visit.confirmed()
            page.locator(".handle.grey, .handle").first.focus()
            found = page.evaluate("axe.run().then(r => r.violations)")
            serious = [
                (v["id"], [n["html"][:120] for n in v["nodes"][:3]])
                for v in found
                if v["impact"] in ("serious", "critical")
            ]
            assert serious == [], scene["name"]
