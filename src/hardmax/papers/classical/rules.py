"""The rules of certificates about classical results; docs/write.py copies them into ``replay.py``."""

from fractions import Fraction
from itertools import combinations
from math import comb

from hardmax.papers.paper import rule
from hardmax.papers.replay import (
    PROVED,
    UNSTATED,
    counts_of,
    dot,
    fields,
    items,
    on_line,
    require,
    several,
    shaped,
    spend,
    vector,
    whole,
)


def whitney_sum(lines, t):
    """The characteristic polynomial of lines in the plane at t, by Whitney's sum over central sets."""
    total = Fraction(t) ** 2 - len(lines) * Fraction(t)
    for size in range(2, len(lines) + 1):
        for chosen in combinations(lines, size):
            spend(size)
            total += (-1) ** size * (common_point(chosen) is not None)
    return total


def crossing(first, second):
    """Where two lines a x + b y + c = 0 meet, or None if they are parallel."""
    (a, b, c), (p, q, r) = first, second
    area = a * q - b * p
    return None if area == 0 else ((b * r - c * q) / area, (c * p - a * r) / area)


def common_point(lines):
    """A point that lies on all of two or more lines, or None."""
    point = crossing(lines[0], lines[1])
    on_all = point is not None and all(dot(line, [*point, 1]) == 0 for line in lines[2:])
    return point if on_all else None


def plane_lines(rows):
    """Different lines in the plane, and how many meet in each crossing."""
    lines = shaped(rows, len(items(rows, 2, 10)), 3)
    require(all(line[0] != 0 or line[1] != 0 for line in lines), "a row that is no line")
    for first, second in combinations(lines, 2):
        same = crossing(first, second) is None and all(
            first[i] * second[j] == first[j] * second[i] for i in range(3) for j in range(i)
        )
        require(not same, "a line that is there twice")
    met = {crossing(first, second) for first, second in combinations(lines, 2)} - {None}
    meeting = {point: sum(dot(line, [*point, 1]) == 0 for line in lines) for point in met}
    require(meeting, "the lines are all parallel")
    return lines, meeting


@rule("classical.zaslavsky.regions", "line_arrangement", PROVED)
def regions_of_lines(data):
    """Lines, some of them parallel or concurrent, and a point in every region: as many sign vectors as
    Whitney's sum at -1 says, and as Euler's formula says from the crossings."""
    rows, points = fields(data, "lines points")
    lines, meeting = plane_lines(rows)
    require(max(meeting.values()) > 2, "no three lines meet")
    by_euler = 1 + len(lines) + sum(m - 1 for m in meeting.values())
    seen = set()
    for point in items(points, 1, 60):
        values = [dot(line, [*vector(items(point, 2, 2)), 1]) for line in lines]
        require(all(values), "a point lies on a line")
        seen.add(tuple(value > 0 for value in values))
    require(len(seen) == by_euler == whitney_sum(lines, -1), "the numbers differ")
    return {"regions": len(seen)}


@rule("classical.zaslavsky.bounded", "line_arrangement", PROVED)
def bounded_regions_of_lines(data):
    """Lines, some of them parallel or concurrent, but not all parallel: a large circle meets 2 n regions, the
    others are bounded, as many as Whitney's sum at 1 says."""
    lines, meeting = plane_lines(fields(data, "lines")[0])
    require(len(meeting) < comb(len(lines), 2), "the lines are in general position")
    bounded = 1 - len(lines) + sum(m - 1 for m in meeting.values())
    require(bounded == whitney_sum(lines, 1), "the numbers differ")
    require(bounded > 0, "no region is bounded")
    return {"bounded": bounded}


@rule("classical.zaslavsky.general", "line_arrangement", PROVED)
def lines_in_general_position(data):
    """Lines, no two parallel and no three through one point: the binomial numbers of regions."""
    lines, meeting = plane_lines(fields(data, "lines")[0])
    n = len(lines)
    require(n >= 4 and len(meeting) == comb(n, 2), "four lines or more in general position are needed")
    total = 1 + n + sum(m - 1 for m in meeting.values())
    bounded = 1 - n + sum(m - 1 for m in meeting.values())
    require(total == whitney_sum(lines, -1) == 1 + n + comb(n, 2), "not as many regions")
    require(bounded == whitney_sum(lines, 1) == comb(n - 1, 2), "not as many bounded regions")
    return {"regions": total, "bounded": bounded}


def line_widths(values):
    """Lists of hidden widths for networks on the line."""
    return [[whole(n, 2, 12) for n in items(widths, 2, 4)] for widths in several(values, 1, 6)]


def layer_on_the_line(kinks, weights, shift=0):
    """A ReLU layer of one input and one output: units (slope, bias), their output weights, a constant."""
    w_in, b_in = [[slope] for slope, _ in kinks], [bias for _, bias in kinks]
    return {"block": "FeedForward", "w_in": exact_rows(w_in), "b_in": exact_rows([b_in])[0],
            "w_out": exact_rows([weights]), "b_out": exact_rows([[shift]])[0], "skip": False}  # fmt: skip


def exact_rows(rows):
    """Numbers as certificates write them."""
    exact = [[Fraction(x) for x in row] for row in rows]
    return [[int(x) if x.denominator == 1 else str(x) for x in row] for row in exact]


@rule("classical.montufar.lower", "folding_line", UNSTATED)
def folded_lines(data):
    """One input. With a last layer of one unit: an upper bound on linear pieces below the claimed number.
    With a last layer of more: networks built here whose regions on [0, 1] are as many as claimed."""
    narrow, lists = fields(data, "narrow widths")
    n = whole(narrow, 2, 50)
    most = 1 + max(n - b + min(n + 1, 2 * b + 2) for b in range(n + 1))
    require(most < 2 * n, "the bound does not exclude the claimed number")
    found = []
    for *hidden, last in line_widths(lists):
        network = [
            layer_on_the_line([(p, -m) for m in range(p)], [1, *(2 * (-1) ** m for m in range(1, p))])
            for p in hidden
        ]
        signs = [(-1) ** (last - 1 - i) for i in range(last)]
        kinks = [(-s, s * Fraction(2 * i + 1, 2 * last + 1)) for i, s in enumerate(signs)]
        network.append(layer_on_the_line(kinks, [(i + 2) ** 2 + 1 for i in range(last)]))
        claimed = last + 1
        for p in hidden:
            claimed *= p
        found.append(counts_of(on_line(network, Fraction(0), Fraction(1)))["regions"])
        require(found[-1] == claimed, "not as many regions as claimed")
    return {"most": most, "claimed": 2 * n, "regions": found}


@rule("classical.serra.line", "laps", PROVED)
def laps_on_the_line(data):
    """One input and widths of at least 3: networks built here with prod (n + 1) regions on [0, 1], which is
    also the upper bound, as each unit adds at most one kink to every piece."""
    found = []
    for *hidden, last in line_widths(fields(data, "widths")[0]):
        require(min(*hidden, last) >= 3, "every layer needs three units")
        network = [lap_layer(n) for n in hidden]
        facing = [-1, *[1] * (last - 1)]
        kinks = [(f, -f * Fraction(i + 1, last + 1)) for i, f in enumerate(facing)]
        network.append(layer_on_the_line(kinks, [i + 2 for i in range(last)]))
        claimed = last + 1
        for n in hidden:
            claimed *= n + 1
        found.append(counts_of(on_line(network, Fraction(0), Fraction(1)))["regions"])
        require(found[-1] == claimed, "not as many regions as claimed")
    return {"regions": found}


def lap_layer(n):
    """n units whose sum runs n + 1 times between 0 and 1 on [0, 1]."""
    sizes = [Fraction(2) if m == (0 if n % 2 else 2) else Fraction(1) for m in range(n + 1)]
    length = sum(1 / size for size in sizes)
    end, kinks, weights = Fraction(0), [], []
    for m in range(1, n + 1):
        end += 1 / sizes[m - 1] / length
        facing = 1 if m <= 2 else -1
        kinks.append((facing, -facing * end))
        weights.append((-1) ** m * (sizes[m - 1] + sizes[m]) * length)
    at_zero = sum(w * max(bias, Fraction(0)) for w, (_, bias) in zip(weights, kinks, strict=True))
    return layer_on_the_line(kinks, weights, -at_zero)
