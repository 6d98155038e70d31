"""The report in a browser: complete, readable, sortable by mouse and keyboard, silent on the network."""

from __future__ import annotations

import dataclasses
import math
import re
import shutil

import numpy as np
import pytest
from report_sources import HOSTILE, ArraySource

import hardmax as hm
from hardmax.models.report.kept_attention import STOPS
from hardmax.models.report.page import COLUMNS

playwright = pytest.importorskip("playwright.sync_api", reason="a browser is driven by playwright")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on the path: the page is not opened")

FIELDS = [column.field for column in COLUMNS]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def found():
    """A model of twelve heads, one of which says nothing."""
    report = hm.report(ArraySource([f"word{i}" for i in range(20)], layers=3, heads=4), "text")
    heads = list(report.atlas.heads)
    heads[5] = dataclasses.replace(heads[5], margin_median=math.nan)
    return dataclasses.replace(report, atlas=dataclasses.replace(report.atlas, heads=tuple(heads)))


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    found.write(out)
    return out


class Visit:
    """A page that was opened, and whatever it said or asked for."""

    def __init__(self, browser, path, **context):
        self.said, self.asked = [], []
        self.context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **context})
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message) or dialog.dismiss())
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        if context.get("java_script_enabled", True):  # sections whose premise fails are collapsed
            self.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.context.close()

    def column(self, field):
        cells = self.page.locator(f"#table tbody tr > *:nth-child({FIELDS.index(field) + 1})")
        values = cells.evaluate_all("cells => cells.map(cell => cell.dataset.v)")
        return [math.nan if value == "" else float(value) for value in values]


def with_nan_last(values, *, reverse):
    known = sorted((v for v in values if not math.isnan(v)), reverse=reverse)
    return [*known, *[math.nan] * (len(values) - len(known))]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_loaded_nothing_complains_nothing_sticks_out(browser, folder, width, scheme):
    path = folder / "report.html"
    with Visit(browser, path, viewport={"width": width, "height": 844}, color_scheme=scheme) as visit:
        assert visit.said == []
        assert visit.asked == [path.as_uri()]
        page = visit.page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        outside = page.evaluate(
            """width => [...document.querySelectorAll("main *")].filter(
                 e => !e.closest(".wide, .routes, .pattern-box, .away, svg")
                 && e.getBoundingClientRect().width && e.getBoundingClientRect().right > width + 1)
                 .map(e => e.tagName)""",
            width,
        )
        assert outside == []


def test_every_figure_is_there_and_named(browser, found, folder):
    with Visit(browser, folder / "report.html") as visit:
        for name, figure in found.figures.items():
            drawing = visit.page.locator(f"figure#{name} svg")
            box = drawing.bounding_box()
            assert box["width"] > 200
            assert box["height"] > 30
            assert visit.page.get_by_role("img", name=figure.title).count() == 1
            assert visit.page.locator(f"figure#{name} figcaption .sure").inner_text() == figure.certainty
        assert visit.page.locator("figure").count() == len(found.figures)


def test_drawings_stay_inside_their_frame(browser, folder):
    """No text is cut off at the border of its drawing, in the page or in its own file."""
    with Visit(browser, folder / "report.html") as visit:
        cut = visit.page.evaluate(
            """() => [...document.querySelectorAll("svg.drawing text")].filter(t => {
                 const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();
                 return a.left < b.left - 1 || a.right > b.right + 1
                   || a.top < b.top - 1 || a.bottom > b.bottom + 1;
               }).map(t => t.ownerSVGElement.parentElement.id + ": " + t.textContent)"""
        )
        assert cut == []
        for path in (folder / "figures").glob("*.svg"):
            visit.page.goto(path.as_uri())
            assert visit.page.locator("svg").get_attribute("viewBox").startswith("0 0 360 ")
        assert visit.said == []


def test_sorting_by_mouse(browser, folder):
    with Visit(browser, folder / "report.html") as visit:
        page = visit.page
        before = visit.column("margin_median")
        head = page.locator("#table thead th[aria-sort]").nth(FIELDS.index("margin_median"))
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert visit.column("margin_median") == pytest.approx(
            with_nan_last(before, reverse=True), nan_ok=True
        )
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        assert visit.column("margin_median") == pytest.approx(
            with_nan_last(before, reverse=False), nan_ok=True
        )
        other = page.locator("#table thead th[aria-sort]").nth(FIELDS.index("top_probability"))
        other.get_by_role("button").click()
        marks = page.locator("#table thead th[aria-sort]").evaluate_all("all => all.map(h => h.ariaSort)")
        assert marks.count("none") == len(FIELDS) - 1
        probabilities = visit.column("top_probability")
        assert probabilities == sorted(probabilities, reverse=True)
        assert visit.said == []


def test_sorting_by_keyboard(browser, folder):
    with Visit(browser, folder / "report.html") as visit:
        page = visit.page
        page.locator("#table thead button").nth(0).focus()
        for _ in range(FIELDS.index("tv_to_hardmax")):
            page.keyboard.press("Tab")
        focused = "document.activeElement.textContent"
        assert page.evaluate(focused) == "total variation"
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring == "solid"  # one sees where one is
        page.keyboard.press("Enter")
        found = visit.column("tv_to_hardmax")
        assert found == sorted(found, reverse=True)
        assert page.locator("#said").inner_text() == "Sorted by total variation, descending."
        page.keyboard.press("Space")
        assert visit.column("tv_to_hardmax") == sorted(found)
        assert page.evaluate(focused) == "total variation"  # the place is kept
        rows = list(zip(visit.column("layer"), visit.column("head"), strict=True))
        assert len(set(rows)) == 12


def test_everything_that_can_be_used_is_reached_by_keyboard(browser, folder):
    with Visit(browser, folder / "report.html") as visit:
        page = visit.page
        page.evaluate("document.getElementById('head-panel').remove()")  # has its own test
        focusable = "a, button, input, summary, [tabindex='0']"
        wanted = page.evaluate(
            """all => [...document.querySelectorAll(all)].filter(
                 e => e.getClientRects().length && e.tabIndex >= 0).length""",
            focusable,
        )
        reached = set()
        for _ in range(wanted + 1):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
        assert len(reached) >= wanted
        page.keyboard.press("Home")
        page.locator("a.skip").focus()
        assert page.locator("a.skip").bounding_box()["x"] >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#heads"


# Who reads whom
# ----------------------------------------------------------------------------------------------------------


def chosen_place(page):
    place = page.locator(".place[aria-pressed='true']")
    assert place.count() == 1
    return tuple(int(place.get_attribute(f"data-{name}")) for name in ("column", "token"))


def painted(page):
    """How many pixels of the picture of routes are painted."""
    return page.evaluate(
        """() => { const c = document.getElementById("routes-lines");
             const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
             let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; }"""
    )


def test_a_click_on_a_token_shows_its_paths(browser, found, folder):
    with Visit(browser, folder / "report.html") as visit:
        page = visit.page
        assert chosen_place(page) == (3, found.read_out)  # what the read-out has read
        page.locator(".place[data-column='1'][data-token='4']").click()
        assert chosen_place(page) == (1, 4)
        said = page.locator("#routes-said").inner_text()
        flow = found.flows[0]
        assert f"something of {len(flow.known_by(4, layer=1))} of 20 positions" in said
        reaches = bool(flow.on_the_way(found.read_out)[1, 4])
        assert ("cannot reach" not in said) == reaches
        marked = page.locator(".place.from[data-column='0']").evaluate_all(
            "all => all.map(e => Number(e.dataset.token))"
        )
        assert tuple(marked) == flow.known_by(4, layer=1)
        assert painted(page) > 200
        assert page.locator("#routes-words li").count() >= 1
        assert visit.said == []


def test_the_slider_follows_more_keys_and_keys_move_it(browser, found, folder):
    with Visit(browser, folder / "report.html") as visit:
        page, counts = visit.page, []
        slider = page.locator("#rule")
        slider.focus()
        for stop in STOPS:
            assert page.locator("#rule-name").inner_text() == stop
            assert slider.get_attribute("aria-valuetext") in (stop, None)
            counts.append(page.locator(".place.from[data-column='2']").count())
            page.keyboard.press("ArrowRight")
        assert counts[: STOPS.index("mass 0.5")] == sorted(counts[: STOPS.index("mass 0.5")])
        assert counts[0] < counts[4]  # argmax, top-8
        assert visit.said == []


def test_a_head_shows_its_pattern_its_margins_and_its_diagram(browser, found, folder):
    with Visit(browser, folder / "report.html") as visit:
        page = visit.page
        assert not page.locator("#head-panel").is_visible()
        page.locator(".head-button[data-layer='2'][data-head='1']").click()
        assert page.locator("#head-name").inner_text() == "Layer 2, head 1"
        box = page.locator("#pattern").bounding_box()
        assert box["width"] > 100
        assert page.locator("#margins-of-head rect").count() == 20
        assert page.locator("#diagram circle").count() == 20
        cells = page.locator("#diagram polygon").count()
        assert cells == int(page.locator("#diagram").get_attribute("data-cells")) > 1
        filled = page.locator("#diagram circle.token:not(.hollow)").count()
        assert f"{filled} of 20 queries are filled" in page.locator("#diagram-said").inner_text()
        assert filled >= 3  # the three tokens of the plane
        spanning = [piece.spanning for piece in found.atlas.slices if piece.layer == 2]
        chosen = [page.locator(f"#three-{i}").input_value() for i in range(3)]
        assert [tuple(map(int, chosen))] == spanning  # those of the exact picture, and it is named
        assert page.locator("#diagram-exact").is_visible()
        before = page.locator("#diagram").inner_html()
        page.locator("#three-2").select_option("17")
        assert page.locator("#diagram").inner_html() != before
        assert not page.locator("#diagram-exact").is_visible()
        page.locator("#three-2").select_option(page.locator("#three-1").input_value())
        assert "do not span a plane" in page.locator("#diagram-said").inner_text()
        page.mouse.move(box["x"] + box["width"] - 12, box["y"] + box["height"] - 12)
        page.locator("#pattern").hover(position={"x": box["width"] - 12, "y": box["height"] - 12})
        assert page.locator("#pattern-said").inner_text().startswith("“word19” reads “word19”: ")
        shown = float(page.locator("#pattern-said").inner_text().split(": ")[1].rstrip("."))
        [row] = [i for i, r in enumerate(found.atlas.heads) if (r.layer, r.head) == (2, 1)]
        place = list(found.attention.order[row, 19]).index(19)
        assert shown == pytest.approx(found.attention.probabilities[row, 19, place], abs=6e-4)
        page.locator("#one-head").check()
        assert visit.said == []


def test_sentences_name_tokens_in_quotes_and_repeated_ones_by_position(browser, tmp_path):
    """Commas and words that are there twice stay apart from the sentence and from each other."""
    hm.report(ArraySource(["[CLS]", "a", ",", "a", ",", "."]), "text").write(tmp_path)
    with Visit(browser, tmp_path / "report.html") as visit:
        page = visit.page
        page.locator(".place[data-column='1'][data-token='4']").click()
        page.locator(".head-button").nth(0).click()
        assert (
            page.locator("#routes-said").inner_text().startswith("Under argmax, “,” at 4 after layer 0 can")
        )
        assert "the read-out, " in page.locator("#routes-said").inner_text()
        assert page.locator("#head-said").inner_text().startswith("“,” at 4 reads ")
        name = r"(\[CLS\]|“\.”|“a” at [13]|“,” at [24])"
        reads = [
            part for item in page.locator("#routes-words li").all_inner_texts() for part in item.split("; ")
        ]
        assert all(re.search(rf"{name} reads {name} \(\d\.\d\d, head \d\)", part) for part in reads)
        rows = page.locator("#routes table tbody tr").all_inner_texts()
        assert rows
        assert all(len(re.findall(rf"{name} \(\d\.\d\d, head \d\)", row)) >= 1 for row in rows)
        assert visit.said == []


def test_every_head_and_stop_of_the_bundled_model_is_drawn(browser, tmp_path):
    """In its last layer one token alone reads, so that a window could shrink to a point."""
    hm.report().write(tmp_path)
    with Visit(browser, tmp_path / "report.html", viewport={"width": 390, "height": 844}) as visit:
        page = visit.page
        for head in page.locator(".head-button").all():
            head.click()
            assert page.locator("#diagram polygon").count() >= 1
            assert "NaN" not in page.locator("#diagram").inner_html()
        for stop in range(len(STOPS)):
            page.locator("#rule").fill(str(stop))
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert visit.said == []


def test_what_the_read_out_can_hold_is_what_the_flow_says(browser, tmp_path):
    """CLS of the bundled model is no key, and no position of the input."""
    report = hm.report()
    report.write(tmp_path)
    page = browser.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    argmax = next(flow for flow in report.flows if flow.rule == "argmax")
    known, keys = len(argmax.known_by(report.read_out)), len(argmax.key_tokens)
    assert f"can hold something of {known} of {keys} positions" in page.inner_text("#routes-said")
    page.close()


def test_heads_that_the_verdict_names_lead_to_their_panel(browser, found, folder):
    with Visit(browser, folder / "report.html") as visit:
        page, best = visit.page, found.verdict.hardest[0]
        before = " ".join(page.locator("#verdict li").all_inner_texts()).replace("\u00a0", " ")
        assert all(sentence in before for sentence in found.verdict.look_first)
        page.locator(".to-head", has_text=f"layer {best.layer} head {best.head}").first.click()
        assert page.locator("#head-name").inner_text() == f"Layer {best.layer}, head {best.head}"
        assert visit.said == []


def test_routes_and_heads_are_used_by_keyboard(browser, found, folder):
    with Visit(browser, folder / "report.html") as visit:
        page = visit.page
        page.locator(".place[tabindex='0']").focus()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        assert chosen_place(page) == (2, found.read_out - 1)
        page.locator(".head-button[tabindex='0']").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        assert page.locator("#head-name").inner_text() == "Layer 1, head 1"
        for name in ("three-0", "three-1", "three-2", "one-head", "pattern"):
            page.locator(f"#{name}").focus()
            assert page.evaluate("document.activeElement.id") == name
        token, kept = found.read_out - 1, found.attention
        [row] = [i for i, r in enumerate(found.atlas.heads) if (r.layer, r.head) == (1, 1)]
        page.keyboard.press("ArrowUp")  # the winner of the chosen token first, then the squares around it
        winner = kept.order[row, token, 0]
        for query, key, press in ((token, winner, "ArrowUp"), (token - 1, winner, "ArrowLeft")):
            [place] = np.flatnonzero(kept.order[row, query] == key)
            said = page.locator("#pattern-said").inner_text()
            assert said.startswith(f"“word{query}” reads “word{key}”: ")
            shown = float(said.split(": ")[1].rstrip("."))
            assert shown == pytest.approx(kept.probabilities[row, query, place], abs=6e-4)
            page.keyboard.press(press)
        assert visit.said == []


def test_what_scrolls_says_so(browser, folder):
    with Visit(browser, folder / "report.html", viewport={"width": 390, "height": 844}) as visit:
        table = visit.page.locator(".wide.tall")
        assert "more-right" in table.get_attribute("class")
        table.evaluate("box => { box.scrollLeft = box.scrollWidth; box.dispatchEvent(new Event('scroll')); }")
        assert "more-right" not in table.get_attribute("class")
        assert "more-right" not in visit.page.locator(".routes").get_attribute("class")  # begins at the end
        visit.page.locator(".routes").evaluate(
            "box => { box.scrollLeft = 0; box.dispatchEvent(new Event('scroll')); }"
        )
        assert "more-right" in visit.page.locator(".routes").get_attribute("class")


def test_sections_whose_premise_fails_are_collapsed_and_open_when_asked_for(browser, found, folder):
    with Visit(browser, folder / "report.html") as visit:
        page = visit.page
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = false)")
        assert not found.verdict.holds
        assert page.locator("section > details").count() == 3
        assert not page.locator("figure#slice-0").is_visible()
        assert page.locator("#cells .why").inner_text() == found.verdict.why_collapsed
        page.locator("nav a[href='#cells']").click()
        page.wait_for_function("document.querySelector('#cells details').open")
        assert page.locator("figure#slice-0").is_visible()


def test_a_frame_of_a_notebook_shows_the_page(browser, found, tmp_path):
    (tmp_path / "notebook.html").write_text(f"<!doctype html><body>{found._repr_html_()}", encoding="utf-8")
    with Visit(browser, tmp_path / "notebook.html") as visit:
        inside = visit.page.frame_locator("iframe")
        assert inside.locator("h1").inner_text() == "arrays"
        inside.locator(".place[data-column='0'][data-token='0']").click()
        assert inside.locator(".place[aria-pressed='true']").get_attribute("data-column") == "0"
        assert visit.said == []


def test_type_is_large_enough_on_a_telephone(browser, folder):
    with Visit(browser, folder / "report.html", viewport={"width": 390, "height": 844}) as visit:
        body = visit.page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)")
        assert body >= 16
        smallest = visit.page.evaluate(
            """() => Math.min(...[...document.querySelectorAll("svg .tick, svg .key, svg .axis-title")].map(
                 t => parseFloat(getComputedStyle(t).fontSize)
                   * Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b)))"""
        )
        assert smallest >= 9
        hidden = visit.page.evaluate(
            """() => [...document.querySelectorAll("main p, figcaption, td, th, h2, h3")].filter(
                 e => parseFloat(getComputedStyle(e).fontSize) < 12).length"""
        )
        assert hidden == 0


CONTRAST = """() => {
  const rgb = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => { const l = rgb(c).slice(0, 3).map(v => v / 255).map(
    v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]; };
  const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (rgb(c).length < 4 || rgb(c)[3] > 0) return c; } return "rgb(255, 255, 255)"; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + .05) / (y + .05); };
  const bad = [];
  const words = "h1, h2, h3, p, td, th, a, button, figcaption, dt, dd, span, li, footer";
  for (const e of document.querySelectorAll(words))
    if (e.textContent.trim() && e.getClientRects().length
        && ratio(getComputedStyle(e).color, ground(e)) < 4.5)
      bad.push(e.tagName + " " + e.className + " " + e.textContent.slice(0, 20));
  for (const t of document.querySelectorAll("svg text")) {
    const on = [...t.classList].find(c => c.startsWith("on-"));
    const square = on && t.ownerSVGElement.querySelector(".heat-" + on.slice(3));
    const under = square ? getComputedStyle(square).fill : ground(t);
    if (ratio(getComputedStyle(t).fill, under) < 4.5) bad.push("text " + t.textContent);
  }
  return bad;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out(browser, folder, scheme):
    with Visit(browser, folder / "report.html", color_scheme=scheme) as visit:
        assert visit.page.evaluate(CONTRAST) == []
        paper = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
        paint = "document.querySelector('h2').style.color = getComputedStyle(document.body).backgroundColor"
        visit.page.evaluate(paint)
        assert visit.page.evaluate(CONTRAST) != []  # the check can fail


def test_the_switch_between_light_and_dark(browser, folder):
    with Visit(browser, folder / "report.html") as visit:
        page = visit.page
        paper = "getComputedStyle(document.body).backgroundColor"
        ink = "getComputedStyle(document.querySelector('svg text')).fill"
        before = page.evaluate(paper), page.evaluate(ink)
        switch = page.get_by_role("button", name="Switch to dark")
        switch.focus()
        page.keyboard.press("Enter")
        after = page.evaluate(paper), page.evaluate(ink)
        assert before[0] != after[0]
        assert before[1] != after[1]
        page.get_by_role("button", name="Switch to light").click()
        assert (page.evaluate(paper), page.evaluate(ink)) == before
        assert visit.said == []


def test_it_prints_on_white_without_buttons_and_with_all_columns(browser, folder):
    with Visit(
        browser, folder / "report.html", viewport={"width": 688, "height": 970}, color_scheme="dark"
    ) as visit:
        page = visit.page
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not page.locator("#theme").is_visible()
        assert not page.locator("nav").is_visible()
        assert page.locator("#table").bounding_box()["width"] <= 688
        assert page.evaluate("document.documentElement.scrollWidth") <= 688
        assert page.locator("#table tbody tr").last.is_visible()
        page.set_viewport_size({"width": 1016, "height": 700})  # its page is turned
        cut = page.evaluate(
            """() => [...document.querySelectorAll("#table th, #table td")].filter(
                 c => c.scrollWidth > c.clientWidth + 1).map(c => c.textContent)"""
        )
        assert cut == []
        printed = page.pdf(format="A4")
        assert printed.startswith(b"%PDF")
        assert (
            printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") + printed.count(b"/Type/Page")
            >= 3
        )


def test_numbers_and_drawings_can_be_saved_from_the_page_alone(browser, found, folder, tmp_path):
    alone = tmp_path / "moved.html"
    shutil.copy(folder / "report.html", alone)
    with Visit(browser, alone, accept_downloads=True) as visit:
        page = visit.page
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save as CSV").click()
        assert saved.value.path().read_bytes() == (folder / "heads.csv").read_bytes()
        with page.expect_download() as saved:
            page.locator("figure#margins button").click()
        assert saved.value.suggested_filename == "margins.svg"
        drawn = saved.value.path().read_text()
        assert drawn.startswith("<svg")
        assert "var(" not in drawn
        assert visit.said == []


def test_hostile_tokens_do_nothing(browser, tmp_path):
    report = hm.report(ArraySource(HOSTILE, name="<script>document.title='broken'</script>"), "text")
    report.write(tmp_path)
    with Visit(browser, tmp_path / "report.html") as visit:
        page = visit.page
        assert visit.said == []
        assert visit.asked == [(tmp_path / "report.html").as_uri()]
        assert page.title() == "<script>document.title='broken'</script>: hardmax report"
        assert page.locator("h1").inner_text() == "<script>document.title='broken'</script>"
        assert page.locator("b:not(#routes-words b), img, iframe, object").count() == 0
        shown = page.locator(".tokens .tok").all_inner_texts()
        assert '</script><b>"&' in shown
        page.locator("#table thead button").nth(3).click()
        page.locator(".place").nth(0).click()
        page.locator(".head-button").nth(0).click()
        assert page.locator("#head-panel b, #head-panel img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 1440
        drawings = sorted((tmp_path / "figures").glob("*.svg"))
        for path in drawings:
            page.goto(path.as_uri())
        assert visit.said == []
        assert visit.asked[1:] == [path.as_uri() for path in drawings]


def test_a_script_that_got_in_would_not_run(browser, folder, tmp_path):
    """The policy of the page itself, and that the test above could fail."""
    text = (folder / "report.html").read_text()
    (tmp_path / "open.html").write_text(
        text.replace("<h1>", "<h1><script>document.title = 'broken'</script>")
    )
    with Visit(browser, tmp_path / "open.html") as visit:
        assert visit.page.title() != "broken"
        assert any("Content Security Policy" in word for word in visit.said)


def test_without_scripts_the_page_is_complete(browser, found, folder):
    with Visit(browser, folder / "report.html", java_script_enabled=False) as visit:
        assert visit.page.locator("figure svg").count() == len(found.figures)
        assert visit.page.locator("#table tbody tr").count() == 12
        assert not visit.page.locator("#theme").is_visible()  # what would not work is not offered
