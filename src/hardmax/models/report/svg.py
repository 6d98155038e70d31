"""Drawing for the report: scalable vector graphics as text, with nothing but the standard library.

A figure is 360 units wide, the width of a column in a paper and of a telephone. Colours are names (``ink``,
``line-0``, ``heat-3``) that a style sheet turns into light or dark ones, so that one drawing serves the page,
its dark form, paper and a file of its own. Text stays text. Whatever a model calls its tokens is data and is
escaped here, in one place.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape as _escape
from importlib.resources import files

WIDTH = 360
"""Width of a figure in its own units."""

LEFT, RIGHT = 40.0, WIDTH - 8.0
"""Where the axes of a chart begin and end."""

_LETTER = 0.53  # the width of a letter over the size of the type, a little generous
CONTROL = {code: chr(0x2400 + code) for code in range(32)} | {127: "\u2421"}


def escape(value: object) -> str:
    """Text for the inside of an element or an attribute; control characters become visible pictures.

    Examples
    --------
    >>> escape('</script>&"')
    '&lt;/script&gt;&amp;&quot;'
    """
    return _escape(str(value).translate(CONTROL), quote=True)


def element(name: str, content: str | None = None, /, **attributes: object) -> str:
    """One element; ``content`` is markup already, attributes are escaped.

    Examples
    --------
    >>> element("rect", width=2.0, class_="heat-1", stroke_width=0.5)
    '<rect width="2" class="heat-1" stroke-width="0.5"/>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}/>" if content is None else f"<{name}{written}>{content}</{name}>"


def text(x: float, y: float, words: object, /, **attributes: object) -> str:
    """Words at a point."""
    return element("text", escape(words), x=x, y=y, **attributes)


def tick(x: float, y: float, words: object, *, anchor: str = "middle") -> str:
    """A number beside an axis."""
    return text(x, y, words, class_="tick", text_anchor=anchor)


def axis_title(x: float, y: float, words: str, **attributes: object) -> str:
    """What an axis shows, centred."""
    return text(x, y, words, class_="axis-title", text_anchor="middle", **attributes)


def line(x1: float, x2: float, y1: float, y2: float, class_: str, **attributes: object) -> str:
    """A line between two points."""
    return element("line", x1=x1, x2=x2, y1=y1, y2=y2, class_=class_, **attributes)


def mark(
    x: float,
    y: float,
    hover: str = "",
    *,
    ring: bool = False,
    colour: int = 0,
    r: float = 2.6,
    stroke: float = 1.2,
) -> str:
    """A dot or a ring, with what a pointer shows."""
    style = {"class_": f"ring line-{colour}", "stroke_width": stroke} if ring else {"class_": f"dot-{colour}"}
    return element("circle", element("title", escape(hover)) if hover else None, cx=x, cy=y, r=r, **style)


def _attribute(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"
    return escape(value)


def number(value: float, digits: int = 3) -> str:
    """A number for people: three significant digits, no needless zeros, a dash where there is none.

    Examples
    --------
    >>> [number(x) for x in (0.0, 0.12345, 12345.0, 3.2e-7, float("nan"), float("inf"))]
    ['0', '0.123', '12,345', '3.2e-7', '–', '∞']
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.{digits - 1}e}".replace("e+0", "e")
    if abs(value) < 1e-3:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return f"{value:.{digits}g}"


def shortened(token: str, letters: int) -> str:
    """A token in at most so many letters.

    Examples
    --------
    >>> shortened("transformer", 6)
    'trans…'
    """
    token = token if token.strip() else "␣"
    return token if len(token) <= letters else token[: letters - 1] + "…"


@dataclass(frozen=True)
class Scale:
    """Where numbers lie on an axis, and which of them are written beside it."""

    place: Callable[[float], float]
    ticks: tuple[tuple[float, str], ...]


def linear_scale(
    low: float, high: float, start: float, end: float, steps: int = 4, *, whole: bool = False
) -> Scale:
    """Evenly from ``start`` to ``end``, with round numbers as ticks; ``whole`` ones for counts.

    Examples
    --------
    >>> scale = linear_scale(0, 1, 100, 0)
    >>> scale.place(0.25), [word for _, word in scale.ticks]
    (75.0, ['0', '0.25', '0.5', '0.75', '1'])
    >>> [word for _, word in linear_scale(0, 10, 100, 0, whole=True).ticks]
    ['0', '5', '10']
    """
    if not high > low:
        high = low + 1.0
    raw = (high - low) / steps
    unit = 10.0 ** math.floor(math.log10(raw))
    round_ones = (1, 2, 5, 10) if whole else (1, 2, 2.5, 5, 10)
    step = next(unit * k for k in round_ones if unit * k >= raw * 0.999)
    step = max(step, 1.0) if whole else step
    ticks, k = [], math.ceil(low / step - 1e-9)
    while k * step <= high + 1e-9 * step:
        ticks.append((k * step, number(k * step)))
        k += 1
    return Scale(lambda v: start + (v - low) / (high - low) * (end - start), tuple(ticks))


def log_scale(low: float, high: float, start: float, end: float) -> Scale:
    """Whole decades from ``start`` to ``end``; what lies outside is put on the edge."""
    first = math.floor(math.log10(low) + 1e-9)
    last = max(math.ceil(math.log10(high) - 1e-9), first + 1)

    def place(value: float) -> float:
        if value <= 0 or math.isnan(value):
            return start
        share = (math.log10(value) - first) / (last - first) if math.isfinite(value) else 1.0
        return start + min(max(share, 0.0), 1.0) * (end - start)

    every = 1 + (last - first) // 6
    return Scale(place, tuple((10.0**k, f"{10.0**k:g}") for k in range(first, last + 1, every)))


def y_axis(scale: Scale, left: float, right: float, title: str, top: float) -> list[str]:
    """Hairlines across the drawing with their numbers, and what is measured above them."""
    parts = [text(left - 34, top - 12, title, class_="axis-title")]
    for value, word in scale.ticks:
        y = scale.place(value)
        parts.append(line(left, right, y, y, "grid"))
        parts.append(tick(left - 5, y + 3.2, word, anchor="end"))
    return parts


def legend(items: Sequence[tuple[str, str]], x: float, y: float, width: float) -> tuple[list[str], float]:
    """Marks with words, wrapped to a width; the parts and the height they take.

    Each item is the markup of a mark drawn around (0, 0) within six units, and its words.
    """
    parts, at, row = [], x, y
    for mark, words in items:
        needed = 18 + len(words) * 10 * _LETTER + 10
        if at > x and at + needed > x + width:
            at, row = x, row + 15
        parts.append(element("g", mark, transform=f"translate({at + 6:.1f} {row - 3.4:.1f})"))
        parts.append(text(at + 17, row, words, class_="key"))
        at += needed
    return parts, row - y + 15


@dataclass(frozen=True)
class Figure:
    """One drawing with its words."""

    name: str  # names the file and the place in the page
    title: str  # what it shows, as a sentence
    caption: str  # how to read it, and how sure it is
    certainty: str  # "exact", "certified", "measured", "bounded", ...
    body: str  # the markup inside
    height: float
    description: str  # the same in words, for those who do not see it

    def inline(self, prefix: str = "") -> str:
        """As part of a page whose style sheet knows the classes; ``prefix`` stands before its ids."""
        label, description = f"{prefix}{self.name}-title", f"{prefix}{self.name}-desc"
        title = element("title", escape(self.title), id=label)
        inside = title + element("desc", escape(self.description), id=description) + self.body
        box, labels = f"0 0 {WIDTH} {self.height:.0f}", f"{label} {description}"
        return element("svg", inside, viewBox=box, role="img", aria_labelledby=labels, class_="drawing")

    def standalone(self) -> str:
        """As a file of its own, in light colours written out: programs for paper know no variables."""
        size = f'width="{WIDTH}" height="{self.height:.0f}"'
        inline = self.inline().replace("<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" {size} ', 1)
        start = inline.index(">") + 1
        background = element("rect", width="100%", height="100%", class_="paper")
        style = element("style", drawing_style())
        return inline[:start] + style + background + inline[start:] + "\n"


def figure_style() -> str:
    """The style sheet of drawings, which the page uses too."""
    return (files("hardmax.models.report") / "figures.css").read_text(encoding="utf-8")


def drawing_style() -> str:
    """Its rules for drawings with light colours in place of variables."""
    style = figure_style()
    light = dict(re.findall(r"(--[\w-]+): light-dark\((#\w+),", style))
    rules = "\n".join(line for line in style.splitlines() if line.startswith("svg "))
    return re.sub(r"var\((--[\w-]+)\)", lambda found: light[found[1]], rules)
