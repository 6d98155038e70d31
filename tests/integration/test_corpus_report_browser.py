"""The report over many texts in a browser: the reader chooses a text, and everything works in it."""

from __future__ import annotations

import pytest
from report_sources import HOSTILE, WordSource
from test_report_browser import BROWSER, CONTRAST, Visit, browser, playwright  # noqa: F401 (a fixture)

import hardmax as hm

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on the path: the page is not opened")

TEXTS = {
    "one": "the cat sat on the mat and slept",
    "two": "a dog ran over the old log",
    "<b>three</b>": "who saw the little bird </script><b>that flew",
    "four": "red blue red blue red",
}


@pytest.fixture(scope="module")
def found():
    return hm.report(WordSource(layers=3, heads=4), TEXTS, rules=["argmax"], influence=False)


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory):
    out = tmp_path_factory.mktemp("texts")
    found.write(out)
    return out


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_every_text_can_be_chosen_and_used(browser, found, folder, width, scheme):  # noqa: F811
    path = folder / "report.html"
    with Visit(browser, path, viewport={"width": width, "height": 844}, color_scheme=scheme) as visit:
        page = visit.page
        shown = " ".join(page.locator("#verdict p, #verdict li").all_inner_texts()).replace("\u00a0", " ")
        assert all(sentence in shown for sentence in found.verdict.sentences)
        for k, (i, text) in enumerate(zip(found.full, found.texts, strict=True)):
            page.locator("#text-choice").select_option(str(k))
            assert page.locator(".one-text:visible").count() == 1
            prefix = f"text-{i + 1}-"
            assert page.locator(f"#{prefix}text > h2").inner_text() == list(TEXTS)[i]
            own = " ".join(page.locator(f"#{prefix}verdict p, #{prefix}verdict li").all_inner_texts())
            assert all(one in own.replace("\u00a0", " ") for one in text.verdict.sentences)
            assert page.locator(f"#{prefix}routes-app .place").count() == 4 * len(text.atlas.text_tokens)
            page.locator(f"#{prefix}routes-app .place[data-column='2'][data-token='1']").click()
            said = page.locator(f"#{prefix}routes-said").inner_text()
            assert said.startswith(f"Under argmax, “{text.atlas.text_tokens[1]}”")
            assert " after layer 1 can hold" in said
            page.locator(f"#{prefix}rule").fill("5")
            assert page.locator(f"#{prefix}rule-name").inner_text() == "mass 0.5"
            page.locator(f"#{prefix}heads-grid .head-button").nth(5).click()
            assert page.locator(f"#{prefix}head-name").inner_text() == "Layer 1, head 1"
            assert page.locator(f"#{prefix}diagram polygon").count() >= 1
            assert page.locator(f"#{prefix}margins-of-head rect").count() == len(text.atlas.text_tokens)
            link = page.locator("nav a", has_text="Which keys win?")
            assert link.get_attribute("href") == f"#{prefix}winning-keys"
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        outside = page.evaluate(
            """width => [...document.querySelectorAll("main *")].filter(
                 e => !e.closest(".wide, .routes, .pattern-box, .away, svg")
                 && e.getBoundingClientRect().width && e.getBoundingClientRect().right > width + 1)
                 .map(e => e.tagName)""",
            width,
        )
        assert outside == []
        assert page.evaluate(CONTRAST) == []
        assert visit.said == []
        assert visit.asked == [path.as_uri()]


def test_texts_are_chosen_from_the_table_a_link_and_the_verdict(browser, found, folder):  # noqa: F811
    with Visit(browser, folder / "report.html") as visit:
        page = visit.page
        page.locator("[data-choose='2']").click()
        assert page.locator("#text-choice").input_value() == "2"
        assert page.locator(".one-text:visible").get_attribute("id") == f"text-{found.full[2] + 1}-text"
        page.evaluate(f"location.hash = '#text-{found.full[1] + 1}-cells'")
        page.wait_for_function("document.getElementById('text-choice').value === '1'")
        prefix = f"text-{found.full[1] + 1}-"
        assert page.locator(f"#{prefix}cells").is_visible()
        best = found.verdict.hardest[0]
        page.locator("#verdict .to-head", has_text=f"layer {best.layer} head {best.head}").first.click()
        name = page.locator(f"#{prefix}head-name")
        assert name.inner_text() == f"Layer {best.layer}, head {best.head}"
        page.locator("#text-choice").focus()
        page.keyboard.press("ArrowUp")  # by keyboard too
        assert page.locator("#text-choice").input_value() == "0"
        assert page.locator(f"#text-{found.full[0] + 1}-text").is_visible()
        assert visit.said == []


def test_the_table_over_texts_is_sorted_and_saved(browser, found, folder):  # noqa: F811
    with Visit(browser, folder / "report.html", accept_downloads=True) as visit:
        page = visit.page
        head = page.locator("#over-table thead th").nth(4)
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        cells = page.locator("#over-table tbody tr > *:nth-child(5)")
        values = [float(v) for v in cells.evaluate_all("all => all.map(cell => cell.dataset.v)")]
        means = found.atlas.interval("top_probability").mean
        assert values == pytest.approx(sorted(means.tolist(), reverse=True), rel=1e-6)
        with page.expect_download() as saved:
            page.locator("#over-texts [data-save='csv']").click()
        assert saved.value.path().read_bytes() == (folder / "heads.csv").read_bytes()
        assert visit.said == []


def test_without_scripts_all_texts_stand_below_each_other(browser, found, folder):  # noqa: F811
    with Visit(browser, folder / "report.html", java_script_enabled=False) as visit:
        assert visit.page.locator(".one-text:visible").count() == 3
        assert not visit.page.locator("#choose-row").is_visible()
        assert not visit.page.locator("[data-choose]").first.is_visible()


def test_hostile_names_and_tokens_do_nothing(browser, tmp_path):  # noqa: F811
    words = " ".join(word for word in HOSTILE if word.split())
    texts = {"</script><img src=x onerror=\"document.title='broken'\">": words, "two": "a b c d"}
    hm.report(WordSource(layers=1, heads=2), texts, rules=["argmax"], influence=False).write(tmp_path)
    with Visit(browser, tmp_path / "report.html") as visit:
        assert visit.page.title() == "arrays: hardmax report"
        assert visit.page.locator("img, iframe, object").count() == 0
        visit.page.locator("#text-choice").select_option("1")
        assert visit.said == []
