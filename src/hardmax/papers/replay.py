"""Check certificates of hardmax without hardmax: one file, nothing but the standard library.

    python -I replay.py certificate.json ...     files, or folders of them

A certificate is a JSON object that names a claim and a verdict about it: "this statement fails". This file
knows every claim that can be certified (``RULES``). For each of them a function below says what the data must
be, builds or validates the instance that the statement is about, recomputes a value in exact arithmetic, and
requires of it what the verdict needs. A certificate is accepted if its claim, statement, kind and verdict are
those of the rule, the function accepts its data, and the value is the one in the file. So an accepted
certificate proves its verdict about its instance; nothing else in the file can lend weight to another one.

Exact numbers are integers or strings "p/q"; a string with "0x" is a float64 as ``float.hex`` writes it.
Floating-point literals are refused, so nothing is rounded on the way. The size of the file, its nesting, the
length of every number and the work are bounded before anything is computed. What is printed is escaped.

``sha256sum replay.py`` must be the number published in docs/replay.sha256 of the project: a stranger takes
the file from there, not from the folder of the certificates. With ``-I`` Python imports nothing from that
folder either.

Exit code 0: every certificate was accepted. 1: at least one was not. 2: a file is no certificate.
"""

import hashlib
import json
import re
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from itertools import combinations, pairwise, product
from math import comb, factorial, isqrt, lcm
from pathlib import Path
from typing import Any, NamedTuple

SCHEMA = 2

LARGEST_FILE = 400_000  # bytes
DEEPEST = 12  # brackets inside one another
MOST_LEAVES = 20_000  # numbers, words and truth values in a file
LONGEST_NUMBER = 120  # characters
LONGEST_DENOMINATOR = 4_000  # bits of the common denominator of a vector or matrix, so that sums stay short
LONGEST_TEXT = 1_000  # characters of a statement
MOST_STEPS = 4_000_000  # multiplications in vectors, per certificate
MOST_SECONDS = 60.0  # per certificate


class Rejected(Exception):
    """A certificate that does not show what it says."""


# What all rules share
# ----------------------------------------------------------------------------------------------------------


class Work:
    """What is left of the work that one certificate may ask for."""

    steps = MOST_STEPS
    deadline = 1e12

    @classmethod
    def begin(cls):
        """Grant the work of one certificate."""
        cls.steps, cls.deadline = MOST_STEPS, time.monotonic() + MOST_SECONDS

    @classmethod
    def end(cls):
        """Forget what one certificate has asked for, so that it does not count against later calls."""
        cls.steps, cls.deadline = MOST_STEPS, 1e12


def spend(steps):
    """Count steps before they are done, and reject what asks for too many of them or for too much time."""
    Work.steps -= steps
    require(Work.steps >= 0 and time.monotonic() < Work.deadline, "it asks for too much work")


def require(condition: object, why: str) -> None:
    """Reject the certificate unless the condition holds."""
    if not condition:
        raise Rejected(why)


def number(value):
    """An exact number: an integer, "p/q", or the hexadecimal form of a float."""
    if isinstance(value, int) and not isinstance(value, bool):
        require(value.bit_length() <= 4 * LONGEST_NUMBER, "a number with too many digits")
        return Fraction(value)
    fits = isinstance(value, str) and len(value) <= LONGEST_NUMBER
    if fits and re.fullmatch(r"-?[0-9]+/[1-9][0-9]*", value, re.ASCII):
        made = Fraction(value)
        require(text(made) == value, f"{shown(value)} is not in lowest terms")
        return made
    if fits and re.fullmatch(r"-?0x[01]\.[0-9a-f]{1,13}p[+-][0-9]{1,4}", value, re.ASCII):
        try:
            double = float.fromhex(value)
            if double.hex() == value and (double != 0 or value[0] != "-"):
                return Fraction(double)
        except OverflowError:
            pass
    raise Rejected(f"{shown(value)} is no exact number")


def whole(value, low, high):
    """An integer between two others."""
    fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    require(fits, f"{shown(value)} is no integer from {low} to {high}")
    return value


def natural(value):
    """An integer of at least 0, and not huge."""
    return whole(value, 0, 10**9)


def items(values, low, high):
    """A list with so many entries."""
    fits = isinstance(values, list) and low <= len(values) <= high
    require(fits, f"a list of {low} to {high} entries is needed")
    return values


def several(values, low, high):
    """A list with so many entries, no two of which are equal, however their numbers are written."""
    made = items(values, low, high)
    require(len({digest(one_way(value)) for value in made}) == len(made), "an entry stands twice")
    return made


def one_way(value):
    """Data in which every number that is written as a text stands as ``text`` writes it."""
    if isinstance(value, dict):
        return {name: one_way(item) for name, item in value.items()}
    if isinstance(value, list):
        return [one_way(item) for item in value]
    return text(number(value)) if isinstance(value, str) and value[:1] in "-0123456789" else value


def fields(data, names):
    """The values of exactly these names."""
    wanted = names.split()
    fits = isinstance(data, dict) and sorted(data) == sorted(wanted)
    require(fits, f"the data must be {', '.join(wanted)}, and nothing else")
    return [data[name] for name in wanted]


def vector(values):
    """A list of exact numbers."""
    made = [number(value) for value in items(values, 0, 600)]
    common_denominator(made)
    return made


def matrix(rows):
    """A list of vectors of one length."""
    made = [vector(row) for row in items(rows, 0, 2000)]
    require(len({len(row) for row in made}) <= 1, "rows of different lengths")
    common_denominator([value for row in made for value in row])
    return made


def common_denominator(values):
    """The least one of several numbers, which must not be too long."""
    common = 1
    for value in values:
        common = lcm(common, value.denominator)
        require(common.bit_length() <= LONGEST_DENOMINATOR, "too many different denominators")
    return common


def shaped(rows, height, width):
    """A matrix with so many rows and columns."""
    made = matrix(rows)
    fits = len(made) == height and all(len(row) == width for row in made)
    require(fits, f"a matrix of {height} rows and {width} columns is needed")
    return made


def dot(a, b):
    """The inner product of two vectors of one length."""
    require(len(a) == len(b), "vectors of different lengths")
    spend(len(a))
    return sum((p * q for p, q in zip(a, b, strict=True)), Fraction(0))


def affine(rows, point, shifts):
    """What the rows make of a point, each moved by its shift."""
    return [dot(row, point) + shift for row, shift in zip(rows, shifts, strict=True)]


def added(a, b):
    """The sum of two vectors."""
    return [x + y for x, y in zip(a, b, strict=True)]


def identity(d):
    """The rows of the identity."""
    return [[Fraction(int(i == j)) for j in range(d)] for i in range(d)]


def only_best(values, why="a tie"):
    """The position of the largest value, which must be the only one."""
    top = max(values)
    require(values.count(top) == 1, why)
    return values.index(top)


def text(value):
    """An exact number as certificates write it."""
    value = Fraction(value)
    return int(value) if value.denominator == 1 else str(value)


def digest(value: Any) -> str:
    """The SHA-256 of a text, or of JSON data without blanks."""
    line = value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(line.encode("utf-8", "surrogatepass")).hexdigest()


def shown(value: Any) -> str:
    """A value for one line of output: short, and without control characters."""
    try:
        line = ascii(value) if isinstance(value, str) else json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError):  # an integer may have more digits than Python prints
        line = f"a {type(value).__name__}"
    return line if len(line) <= 200 else f"{line[:200]}..."


# Scores and diagrams
# ----------------------------------------------------------------------------------------------------------


def winning_scores(diagram):
    """The numbers of the winners, each proven, and each of the others proven to lose."""
    scores, winning, losing = fields(diagram, "scores winners losers")
    rows = matrix(scores)
    require(all(str(int(j)) == j for j in (*winning, *losing)), "a number of a score that is none")
    winners = {natural(int(j)): vector(point) for j, point in winning.items()}
    losers = {natural(int(j)): vector(weights) for j, weights in losing.items()}
    require(len({tuple(row) for row in rows}) == len(rows), "two scores are the same function")
    require(not set(winners) & set(losers), "a score both wins and loses")
    require(set(winners) | set(losers) == set(range(len(rows))), "a score is not accounted for")
    for j, point in winners.items():
        require(best(rows, point) == [j], f"score {j} does not win at its point")
    for j, weights in losers.items():
        of_others = len(weights) == len(rows) and weights[j] == 0
        require(of_others, f"score {j} must be below a combination of others")
        require(min(weights) >= 0 and sum(weights) == 1, f"no convex combination for score {j}")
        *slope, height = [dot(weights, column) for column in zip(*rows, strict=True)]
        below = slope == rows[j][:-1] and height >= rows[j][-1]
        require(below, f"score {j} is not below its combination")
    return sorted(winners)


def best(rows, point):
    """The numbers of all largest scores at a point."""
    scores = [dot(row, [*point, 1]) for row in rows]
    return [j for j, score in enumerate(scores) if score == max(scores)]


def log_lifted(keys, values, points):
    """The log-lifted head max_j(k_j.q + v_j) - max_l k_l.q at points, and which keys are routed to."""
    lifted, winners = [], []
    for point in points:
        scores = [dot(key, point) for key in keys]
        lifted.append(max(added(scores, values)) - max(scores))
        winners.append([j for j, score in enumerate(scores) if score == max(scores)])
    return lifted, winners


# Networks: a list of blocks, each with its exact arrays
# ----------------------------------------------------------------------------------------------------------


def passed(network, point):
    """Signature, linear part and offset of the affine map, and value of a network at a point."""
    linear, offset, value, signature = identity(len(point)), [Fraction(0)] * len(point), list(point), []
    for block in network:
        choice, through, shift = block_map(block, value)
        linear = [[dot(row, column) for column in zip(*linear, strict=True)] for row in through]
        offset, value = affine(through, offset, shift), affine(through, value, shift)
        signature.append(choice)
    return signature, linear, offset, value


def block_map(block, value):
    """What a block does around a value: its part of the signature, and its affine map."""
    d = len(value)
    if block["block"] == "Affine":
        return [], matrix(block["w"]), vector(block["b"])
    if block["block"] == "Attention":
        choice, read = [], []
        for rows, biases, outputs in heads_of(block):
            choice.append(only_best(affine(rows, value, biases), "a point lies on a wall"))
            read.append(outputs[choice[-1]])
        shift = reduce(added, read)
        return choice, identity(d) if block["skip"] else [[Fraction(0)] * d for _ in shift], shift
    require(block["block"] == "FeedForward", f"unknown block {block['block']!r}")
    w_in, b_in, w_out, b_out = units_of(block)
    before = affine(w_in, value, b_in)
    require(all(before), "a point lies on a fold")
    on = [int(b > 0) for b in before]
    kept = [[weight * bit for weight, bit in zip(row, on, strict=True)] for row in w_out]
    through = [[dot(row, column) for column in zip(*w_in, strict=True)] for row in kept]
    if block["skip"]:
        through = [added(row, unit) for row, unit in zip(through, identity(d), strict=True)]
    return on, through, affine(kept, b_in, b_out)


def heads_of(block):
    """Scores, biases and outputs of every head of an attention block."""
    biases = block["biases"] or [[0] * len(rows) for rows in block["scores"]]
    for rows, shifts, outputs in zip(block["scores"], biases, block["outputs"], strict=True):
        yield matrix(rows), vector(shifts), matrix(outputs)


def units_of(block):
    """The weights and biases of a ReLU layer."""
    return matrix(block["w_in"]), vector(block["b_in"]), matrix(block["w_out"]), vector(block["b_out"])


def at_points(network, points):
    """How many different signatures, and how many different affine maps, a network shows at points."""
    signatures, maps = set(), set()
    for point in points:
        signature, linear, offset, _ = passed(network, point)
        signatures.add(json.dumps(signature))
        maps.add(json.dumps([[text(a) for a in row] for row in [*linear, offset]]))
    return len(signatures), len(maps)


def relu_value(block, value):
    """The value of a ReLU layer, whether on a fold or not."""
    w_in, b_in, w_out, b_out = units_of(block)
    out = affine(w_out, [max(b, Fraction(0)) for b in affine(w_in, value, b_in)], b_out)
    return added(out, value) if block["skip"] else out


def on_line(network, low, high):
    """Every cell of a network with one input on an interval, with its signature and its affine map."""
    require(low < high, "an empty interval")
    pieces = [(low, high, [], [Fraction(1)], [Fraction(0)])]
    for block in network:
        pieces = [part for piece in pieces for part in cut(block, piece)]
        require(len(pieces) <= 2000, "too many cells")
    return pieces


def counts_of(pieces):
    """Cells, linear regions and jumps of pieces of the line."""
    regions = 1 + sum(one[3:] != two[3:] for one, two in pairwise(pieces))
    jumps = sum(value_at(one[1], one) != value_at(one[1], two) for one, two in pairwise(pieces))
    return {"cells": len(pieces), "regions": regions, "jumps": jumps}


def ends_of(pieces):
    """Where pieces of the line end, and the values of the map of each piece at its two ends."""
    values = [[[text(v) for v in value_at(t, piece)] for t in piece[:2]] for piece in pieces]
    return {"ends": [text(t) for t in (pieces[0][0], *(piece[1] for piece in pieces))], "values": values}


def value_at(t, piece):
    """The value of the map of a piece at a place, in the piece or not."""
    return [a * t + b for a, b in zip(*piece[3:], strict=True)]


def cut(block, piece):
    """The parts of an interval with one affine map a t + b into which a block cuts it."""
    low, high, signature, slope, offset = piece

    def lines_of(rows, shifts):
        return list(zip([dot(row, slope) for row in rows], affine(rows, offset, shifts), strict=True))

    groups = []  # of lines a t + b, whose upper envelope decides
    if block["block"] == "Attention":
        groups = [lines_of(rows, biases) for rows, biases, _ in heads_of(block)]
    elif block["block"] == "FeedForward":
        groups = [[line, (Fraction(0), Fraction(0))] for line in lines_of(*units_of(block)[:2])]
    ends = {low, high}
    for lines in groups:  # breakpoints of the upper envelope are among the crossings of its lines
        for i, (a, b) in enumerate(lines):
            for c, d in lines[:i]:
                t = (d - b) / (a - c) if a != c else None
                if t is not None and low < t < high and a * t + b == max(p * t + q for p, q in lines):
                    ends.add(t)
    parts = []
    for start, end in pairwise(sorted(ends)):
        middle = (start + end) / 2
        if block["block"] == "FeedForward":
            before = [lines[0][0] * middle + lines[0][1] for lines in groups]
            require(all(before), "a unit is zero on a whole cell")
        choice, through, shift = block_map(block, value_at(middle, piece))
        moved = [dot(row, slope) for row in through]
        parts.append((start, end, [*signature, choice], moved, affine(through, offset, shift)))
    joined = parts[:1]
    for part in parts[1:]:  # lines may cross at the top without a change of the winner
        if part[2] == joined[-1][2]:
            joined[-1] = (joined[-1][0], *part[1:])
        else:
            joined.append(part)
    return joined


def blocks(network, kinds):
    """A network with one input, made of blocks of these kinds in this order, with few keys and units."""
    items(network, len(kinds), len(kinds))
    for block, kind in zip(network, kinds, strict=True):
        require(isinstance(block, dict) and block.get("block") == kind, f"a block {kind} is needed")
        names = {
            "Attention": "block scores biases outputs skip",
            "FeedForward": "block w_in b_in w_out b_out skip",
        }
        fields(block, names[kind])
        require(isinstance(block["skip"], bool), "skip must be true or false")
        if kind == "Attention":
            heads = len(items(block["scores"], 1, 8))
            items(block["biases"], heads, heads), items(block["outputs"], heads, heads)
            for rows, shifts, outputs in heads_of(block):
                fits = 1 <= len(rows) <= 16 and len(rows) == len(shifts) == len(outputs)
                require(fits and len(rows[0]) == len(outputs[0]) == 1, "keys that do not fit")
        else:
            w_in, b_in, w_out, b_out = units_of(block)
            fits = 1 <= len(w_in) == len(b_in) <= 64 and len(w_in[0]) == 1
            require(fits and len(w_out) == len(b_out) == 1, "units that do not fit")
    return network


def one_head_of_two_keys(block):
    """Require an attention block with a residual, one head and two keys."""
    fits = block["skip"] is True and len(block["scores"]) == 1 and len(block["scores"][0]) == 2
    require(fits, "one head of two keys with a residual is needed")


def sawtooth(d, n, w, depth, variant="plain"):
    """The network of Theorem V.7 with d heads of n keys and 2 w units per coordinate, as appendix F gives it.

    "ffn_skip" adds a skip connection around the ReLU layer; "bias_free" has linear scores, its last
    coordinate is 1, and the others are folded.
    """
    whole(d, 1, 4), whole(n, 1, 16), whole(w, 1, 8), whole(depth, 1, 4)
    linear, skip = variant == "bias_free", variant == "ffn_skip"
    folded = d - 1 if linear else d
    sites = [Fraction(2 * j + 1, 2 * n) for j in range(n)]
    lows = [-p * p / 2 for p in sites]
    scores = [[[p * (i == h) for i in range(d)] for p in sites] for h in range(folded)]
    outputs = [[[-p * (i == h) for i in range(d)] for p in sites] for h in range(folded)]
    if linear:
        for rows in scores:
            for row, low in zip(rows, lows, strict=True):
                row[-1] = low
    attention = {"block": "Attention", "scores": scores, "biases": None, "outputs": outputs, "skip": True}
    attention["biases"] = [[Fraction(0)] * n if linear else lows] * folded
    units = [(h, m) for h in range(folded) for m in range(2 * w)]
    heights = [Fraction(2 * w if m == 0 else 4 * w * (-1) ** m) for _, m in units]
    w_out = [[height * (i == h) for (h, _), height in zip(units, heights, strict=True)] for i in range(d)]
    b_out = [Fraction(1, 2 * n) if skip else Fraction(0)] * d
    if skip:  # y = (z - 1/2) / n is added; the first unit is z itself on [0, 1] and takes it away again
        for h in range(d):
            w_out[h][2 * w * h] -= Fraction(1, n)
    if linear:
        b_out[-1] = Fraction(1)
    fold = {
        "block": "FeedForward",
        "w_in": [[Fraction(n) * (i == h) for i in range(d)] for h, _ in units],
        "b_in": [Fraction(1, 2) - Fraction(m, 2 * w) for _, m in units],
        "w_out": w_out,
        "b_out": b_out,
        "skip": skip,
    }
    return [plain(attention), plain(fold)] * depth


def plain(block):
    """A block with its numbers as certificates write them."""
    if isinstance(block, dict):
        return {name: plain(value) for name, value in block.items()}
    if isinstance(block, list):
        return [plain(value) for value in block]
    return text(block) if isinstance(block, Fraction) else block


def middles(d, pieces):
    """A point inside every piece of the grid of the unit cube, off its middle."""
    require(pieces**d <= 2000, "too many pieces")
    line = [Fraction(3 * i + 1, 3 * pieces) for i in range(pieces)]
    return list(product(line, repeat=d))


def sawtooth_at_points(d, n, w, depth, variant="plain"):
    """Signatures and affine maps that the network of Theorem V.7 shows at one point per piece."""
    free = d - 1 if variant == "bias_free" else d
    pieces = (2 * w * n) ** depth
    points = [[*point, *[Fraction(1)] * (d - free)] for point in middles(free, pieces)]
    return at_points(sawtooth(d, n, w, depth, variant), points)


# Several heads
# ----------------------------------------------------------------------------------------------------------


def family(data, size):
    """The heads of a family, in whole numbers: a list of matrices whose last column is a bias; the points."""
    heads, points = fields(data, "heads points")
    made = [whole_rows(matrix(rows)) for rows in items(heads, 1, 8)]
    n, d = size
    fits = all(len(rows) == n and all(len(row) == d + 1 for row in rows) for rows in made)
    require(fits, f"heads of {n} keys with {d} coordinates and a bias are needed")
    return made, items(points, 1, 1500)


def winning_tuples(heads, points):
    """The tuples of keys, one per head, that win together at the given points."""
    choices = set()
    for point in points:
        (scaled,) = whole_rows([[*vector(point), Fraction(1)]])
        choices.add(tuple(strict_winner(rows, scaled) for rows in heads))
    return choices


def is_linear(heads):
    """Whether no key has a bias."""
    return all(row[-1] == 0 for rows in heads for row in rows)


def whole_rows(rows):
    """The rows times one positive number that makes them whole."""
    common = common_denominator([value for row in rows for value in row])
    return [[int(value * common) for value in row] for row in rows]


def strict_winner(rows, point):
    """The number of the row with the largest product, which must be the only one."""
    spend(len(rows) * len(point))
    scores = [sum(a * b for a, b in zip(row, point, strict=True)) for row in rows]
    return only_best(scores, "a point lies on a wall")


def vertex_maximum(n, heads, d, linear):
    """The largest number of cells of ``heads`` heads with n keys each in dimension d."""
    if n == 1:
        return 1
    last = comb(heads - 1, d - 1) if linear else comb(heads, d) * (n - 1) ** d
    return sum(comb(heads, j) * (n - 1) ** j for j in range(d)) + last


def arrangement(n, d):
    """The largest number of cells of n hyperplanes in dimension d (Zaslavsky)."""
    return sum(comb(n, j) for j in range(d + 1))


def in_general_position(heads: Any) -> bool:
    """Whether every d + H points of the Cayley embedding, at least one of each head, are independent.

    The embedding puts the keys of head h at (key, e_h). If so, every facet that meets all heads is a simplex.
    (A facet that misses a head holds all points of the others, in every family.) Determinants are taken
    modulo a prime; one that is not zero there is not zero.
    """
    prime = 2**61 - 1
    d, count = len(heads[0][0]) - 1, len(heads)
    points = [
        (h, [*row[:-1], *(int(i == h) for i in range(count))]) for h, rows in enumerate(heads) for row in rows
    ]
    require(comb(len(points), d + count) <= 12_000, "too many keys for the check of general position")
    for chosen in combinations(points, d + count):
        if len({h for h, _ in chosen}) == count and not determinant([row for _, row in chosen], prime):
            return False
    return True


def determinant(rows, prime):
    """The determinant of whole numbers modulo a prime."""
    rows, value = [[x % prime for x in row] for row in rows], 1
    for i in range(len(rows)):
        pivot = next((j for j in range(i, len(rows)) if rows[j][i]), None)
        if pivot is None:
            return 0
        if pivot != i:
            rows[i], rows[pivot], value = rows[pivot], rows[i], -value
        value = value * rows[i][i] % prime
        inverse = pow(rows[i][i], -1, prime)
        for j in range(i + 1, len(rows)):
            factor = rows[j][i] * inverse % prime
            if factor:
                rows[j] = [(a - factor * b) % prime for a, b in zip(rows[j], rows[i], strict=True)]
    return value % prime


def whole_layer(heads, w_in, w_out):
    """The weights of a layer without biases in whole numbers, and by what its values are then too large.

    Queries and keys of a head, times any positive number, choose the same; the values of all heads share a
    factor, so do their outputs, and so do the rows of w_in and of w_out.
    """
    w_q, w_k, w_v, w_o = zip(*heads, strict=True)
    made = [whole_rows([row for rows in each for row in rows]) for each in (w_v, w_o)]
    sizes = [common_denominator([x for rows in each for row in rows for x in row]) for each in (w_v, w_o)]
    more = [common_denominator([x for row in rows for x in row]) for rows in (w_in, w_out)]
    width = len(w_out)
    whole_heads = [
        [sparse(rows) for rows in (whole_rows(w_q[h]), whole_rows(w_k[h]), made[0][h : h + 1],
                                   made[1][h * width : (h + 1) * width])]
        for h in range(len(heads))
    ]  # fmt: skip
    after = sparse(whole_rows(w_in)), sparse(whole_rows(w_out))
    return whole_heads, *after, sizes[0] * sizes[1], more[0] * more[1]


def sparse(rows):
    """The entries of rows that are not zero, each with its place."""
    return [[(j, a) for j, a in enumerate(row) if a] for row in rows]


def times(rows, point):
    """The products of sparse rows and a point, all in whole numbers."""
    spend(sum(map(len, rows)) + 1)
    return [sum(a * point[j] for j, a in row) for row in rows]


def shared_layer(layer, tokens):
    """FFN(x + MHSA(x)) for all tokens, in whole numbers; by what it is too large; and what each token met:
    the keys of every head that win, and the units.

    A layer without biases maps tokens that are all t times as large, t > 0, to values t times as large, and
    they meet the same. Ties are averaged, and refused for the last token. Tokens that meet the same do so on
    a convex set.
    """
    heads, w_in, w_out, factor, more = layer
    after, met, shares = [], [], lcm(*range(1, len(tokens) + 1))
    made = [
        [(times(w_k, other), times(w_o, times(w_v, other))) for other in tokens] for _, w_k, w_v, w_o in heads
    ]
    for t, token in enumerate(tokens):
        y, choice = [factor * shares * x for x in token], []
        for (w_q, *_), keys in zip(heads, made, strict=True):
            query = times(w_q, token)
            spend(len(query) * len(keys))
            scores = [sum(a * b for a, b in zip(key, query, strict=True)) for key, _ in keys]
            tied = [j for j, score in enumerate(scores) if score == max(scores)]
            require(t < len(tokens) - 1 or len(tied) == 1, "the point lies on a wall")
            choice.append(tied)
            for j in tied:
                y = [a + b * (shares // len(tied)) for a, b in zip(y, keys[j][1], strict=True)]
        before = times(w_in, y)
        after.append(times(w_out, [max(b, 0) for b in before]))
        met.append([choice, [int(b > 0) for b in before]])
    return after, factor * shares * more, met


def key_sum(heads, choice):
    """The sum of one key per head."""
    require(len(choice) == len(heads), "one key per head is needed")
    keys = [rows[natural(j)] for rows, j in zip(heads, choice, strict=True)]
    return [sum(column, Fraction(0)) for column in zip(*keys, strict=True)]


# Exponentials and logarithms in intervals
# ----------------------------------------------------------------------------------------------------------

BITS = 256  # of the ends of intervals; they are rounded outwards


def outwards(low, high):
    """An interval with ends of few bits that holds the given one."""
    return few_bits(low, 0), few_bits(high, 1)


def few_bits(value, up):
    """A fraction of about 256 bits at or below a value, or at or above it."""
    if value == 0:
        return value
    shift = BITS - (abs(value.numerator).bit_length() - value.denominator.bit_length())
    scaled = value.numerator * 2 ** max(shift, 0), value.denominator * 2 ** max(-shift, 0)
    whole = -(-scaled[0] // scaled[1]) if up else scaled[0] // scaled[1]
    return Fraction(whole * 2 ** max(-shift, 0), 2 ** max(shift, 0))


def exponential(value):
    """An interval around exp(value), for a rational value of less than 10^4 in size.

    Proof. Let h >= 0 be such that y = value / 2^h has |y| < 1/64; exp(value) = exp(y)^(2^h). Write ulp =
    2^-P. The integer A = floor(y / ulp) has A ulp <= y < (A + 1) ulp, and exp increases, so exp(A ulp) <=
    exp(y) <= exp((A + 1) ulp). For either dyadic number a = A ulp, or (A + 1) ulp, |a| <= 1/64, the integers
    t_0 = 2^P and t_j = floor(t_(j-1) A / (2^P j)) approximate the terms T_j = a^j / j! of the series. Their
    errors e_j = |t_j ulp - T_j| obey e_0 = 0 and e_j <= e_(j-1) |a| / j + ulp <= e_(j-1) / 64 + ulp, so that
    e_j <= 64/63 ulp < 2 ulp. After the term J the rest of the series is at most 2 |a|^(J+1) / (J+1)! <= 2 *
    64^-(J+1) <= ulp for J = ceil(P / 6): 64^(J+1) = 2^(6J+6) >= 2 * 2^P. So the sum of t_0, ..., t_J is off
    by at most (2 J + 1) ulp. Squaring keeps 0 < low <= exp <= high, because both ends are positive: the sum
    is at least 1 - 2/64 and the error below 1/2; every square is rounded outwards. []
    """
    require(abs(value) < 10**4, "an exponent that is too large")
    spend(10)
    halvings = max(0, abs(value.numerator).bit_length() - value.denominator.bit_length() + 7)
    y = value / 2**halvings  # |value| < 2^(halvings - 6), by the lengths of numerator and denominator
    require(abs(y) < Fraction(1, 64), "an argument that is too large")
    precision = BITS + halvings + 16
    below = y.numerator * 2**precision // y.denominator
    low, high = exponential_sum(below, precision)[0], exponential_sum(below + 1, precision)[1]
    low, high = outwards(low, high)
    for _ in range(halvings):
        low, high = outwards(low * low, high * high)
    return low, high


def exponential_sum(whole_part, precision):
    """Bounds of exp(whole_part / 2^precision), as ``exponential`` proves them."""
    terms = -(-precision // 6)
    term = total = 2**precision
    for j in range(1, terms + 1):
        term = term * whole_part // (2**precision * j)
        total += term
    error = 2 * terms + 1
    return Fraction(total - error, 2**precision), Fraction(total + error, 2**precision)


def logarithm(value):
    """An interval around log(value) for a positive rational value.

    Powers of two are split off: value = 2^k x with 1/2 < x < 2, and log(value) = k log 2 + log x. Both
    logarithms are 2 artanh(z), z = (x - 1) / (x + 1), |z| <= 1/3, by ``artanh_sum``; artanh increases.
    """
    require(value > 0, "the logarithm of a number that is not positive")
    twos = value.numerator.bit_length() - value.denominator.bit_length()
    require(abs(twos) <= 10**6, "a logarithm of too large a number")
    low, high = one_logarithm(value / Fraction(2) ** twos)
    below, above = sorted(twos * end for end in one_logarithm(Fraction(2)))
    return outwards(low + below, high + above)


def one_logarithm(value):
    """An interval around log(value) for a value between 1/2 and 2."""
    z = (value - 1) / (value + 1)
    require(abs(z) <= Fraction(1, 3), "an argument that is too large")
    precision = BITS + 32
    below = z.numerator * 2**precision // z.denominator
    return 2 * artanh_sum(below, precision)[0], 2 * artanh_sum(below + 1, precision)[1]


def artanh_sum(whole_part, precision):
    """Bounds of artanh(a), a = whole_part / 2^precision, |a| <= 1/3 + 2^-precision.

    Proof. Let ulp = 2^-precision and s = floor(whole_part^2 / 2^precision), which is a^2 up to one ulp. The
    integers p_0 = whole_part, p_(k+1) = floor(p_k s / 2^precision) approximate a^(2k+1) with errors e_0 = 0,
    e_(k+1) <= e_k / 9 + |a|^(2k+1) ulp + 2 ulp <= e_k / 8 + 3 ulp, so e_k <= 4 ulp. The terms floor(p_k /
    (2k + 1)) are then off by at most 5 ulp each. After K terms the rest is at most |a|^(2K+1) 9/8 <= 9^-K <=
    ulp for K >= precision / 3, as 9 > 2^3. In all (5 K + 1) ulp. []
    """
    terms = -(-precision // 3)
    square = whole_part * whole_part >> precision
    power, total = whole_part, 0
    for k in range(terms):
        total += power // (2 * k + 1)
        power = power * square >> precision
    error = 5 * terms + 1
    return Fraction(total - error, 2**precision), Fraction(total + error, 2**precision)


def thousandths(interval):
    """A number in thousandths, rounded down, if the interval leaves no doubt."""
    low, high = (int(1000 * end // 1) for end in interval)
    require(low == high, "the interval is too wide")
    return low


def softmax_tail(n, margin, tau):
    """What n - 1 rivals at a margin do at a temperature, each number truncated to six digits.

    value: the log-sum-exp above the maximum; gradient: the printed bound 2 m e; hessian_printed: m e over the
    temperature; hessian_attained: n e / (1 + m e)^2 over it; top_probability: 1 / (1 + m e).
    """
    ends = exponential(-margin / tau)
    m = n - 1
    value = [tau * logarithm(1 + m * e)[i] for i, e in enumerate(ends)]
    attained = [n * ends[i] / (1 + m * ends[1 - i]) ** 2 / tau for i in (0, 1)]
    return {
        "value": digits(value),
        "gradient": digits([2 * m * e for e in ends]),
        "hessian_printed": digits([m * e / tau for e in ends]),
        "hessian_attained": digits(attained),
        "attained_above_printed": attained[0] > m * ends[1] / tau,
        "top_probability": digits([1 / (1 + m * e) for e in reversed(ends)]),
    }


def digits(interval):
    """A positive number truncated to six digits as "d.ddddde-x", if the interval leaves no doubt."""
    low, high = interval
    require(0 < low <= high, "no interval of positive numbers")
    ten = 0
    while low >= 10:
        low, high, ten = low / 10, high / 10, ten + 1
    while low < 1:
        low, high, ten = low * 10, high * 10, ten - 1
    shown = int(low * 10**5)
    require(shown == int(high * 10**5), "the interval is too wide")
    return f"{shown // 10**5}.{shown % 10**5:05d}e{ten}"


def interval_signature(blocks, x, tau):
    """Routings and bits along the forward pass; tau is None for temperature zero."""
    seen = []
    for block in blocks:
        y = x
        if block["block"] == "Attention":
            if not block["skip"]:
                y = [(Fraction(0), Fraction(0)) for _ in block["outputs"][0][0]]
            for slopes, biases, outputs in heads_of(block):
                scores = mixed_rows(slopes, x, biases)
                best = first_above(scores)
                seen.append(best)
                read = [(v, v) for v in outputs[best]] if tau is None else soft(scores, best, outputs, tau)
                y = [added(a, b) for a, b in zip(y, read, strict=True)]
        elif block["block"] == "FeedForward":
            w_in, b_in, w_out, b_out = units_of(block)
            z = mixed_rows(w_in, x, b_in)
            require(all(a > 0 or b <= 0 for a, b in z), "a ReLU bit is not decided")
            seen.extend(a > 0 for a, _ in z)
            y = mixed_rows(w_out, [(a, b) if a > 0 else (Fraction(0), Fraction(0)) for a, b in z], b_out)
            y = [added(a, b) for a, b in zip(y, x, strict=True)] if block["skip"] else y
        else:
            raise Rejected(f"unknown block {block['block']!r}")
        x = [outwards(*interval) for interval in y]
    return seen


def mixed_rows(rows, x, shifts):
    """What the rows make of intervals, each moved by its shift."""
    return [shifted(mixed(row, x), shift) for row, shift in zip(rows, shifts, strict=True)]


def mixed(row, x):
    """A combination of intervals."""
    require(len(row) == len(x), "vectors of different lengths")
    ends = [
        (a * low, a * high) if a >= 0 else (a * high, a * low) for a, (low, high) in zip(row, x, strict=True)
    ]
    return sum((low for low, _ in ends), Fraction(0)), sum((high for _, high in ends), Fraction(0))


def shifted(interval, constant):
    """An interval moved by a number."""
    return interval[0] + constant, interval[1] + constant


def first_above(scores):
    """The score that is above all others for certain."""
    best = max(range(len(scores)), key=lambda j: scores[j][0])
    above = all(scores[best][0] > high for j, (_, high) in enumerate(scores) if j != best)
    require(above, "a routing is not decided")
    return best


def soft(scores, best, outputs, tau):
    """The mean of the outputs under softmax weights, as intervals."""
    low_best, high_best = scores[best]
    weights = [
        (Fraction(1), Fraction(1))
        if j == best
        else (exponential((low - high_best) / tau)[0], exponential((high - low_best) / tau)[1])
        for j, (low, high) in enumerate(scores)
    ]
    total = sum(low for low, _ in weights), sum(high for _, high in weights)
    means = []
    for column in zip(*outputs, strict=True):
        offset = min(column)  # so that every term is positive, and the quotient monotone
        low, high = mixed([v - offset for v in column], weights)
        means.append(shifted((low / total[1], high / total[0]), offset))
    return means


def tanh_bounds(x):
    """Rationals around tanh(x) = (1 - e) / (1 + e), e = exp(-2x)."""
    low, high = exponential(-2 * x)
    return (1 - high) / (1 + high), (1 - low) / (1 + low)


def tanh_sum_sign(constant, terms):
    """The sign of constant + sum of c tanh(a), proven."""
    low, high = shifted(mixed([c for c, _ in terms], [tanh_bounds(a) for _, a in terms]), constant)
    require(low > 0 or high < 0, "the sign is not certain")
    return 1 if low > 0 else -1


# Targets, trees of comparison and information sets
# ----------------------------------------------------------------------------------------------------------


def active_set(terms, tokens):
    """The positions of the best tuples of all terms."""
    found = set()
    for term in terms:
        values = {}
        for place in product(range(len(tokens)), repeat=natural(term["arity"])):
            key = tuple(sorted(place))
            value = term["sign"] * form_value(term["form"], [tokens[t] for t in place])
            values[key] = max(value, values.get(key, value))
        found |= set(list(values)[only_best(list(values.values()))])
    return sorted(found)


def form_value(form, tokens):
    """The value of a form at the tokens of a tuple."""
    if form[0] == "linear":
        return dot(vector(form[1]), tokens[0])
    if form[0] == "bilinear":
        return dot(tokens[0], [dot(row, tokens[1]) for row in matrix(form[1])])
    require(form[0] == "norm", f"unknown form {form[0]!r}")
    total = [sum(column, Fraction(0)) for column in zip(*tokens, strict=True)]
    return dot(total, total)


def covering_trees(trees: Any, n_tokens: int, n_terms: int, arity: int) -> tuple[int, int]:
    """How many comparisons trees make whose roots hold the best tuple of every term, whatever the input.

    A tree compares, for one term, the best value over all tuples of positions of a leaf; its root is a best
    leaf. ``covered`` are the positions of trees with a single leaf: they are always in a root. Let S be the
    positions of the best tuple of a term, at most ``arity`` of them. If S is covered, nothing is asked of the
    other trees. If not, a tree of the term with a leaf that holds S has a root that holds S: that leaf has
    the best value of all tuples, and (up to a set of measure zero) only leaves that hold S have it. So the
    trees work for almost every input if every such S is covered or held by a leaf of a tree of each term.
    """
    covered: set[int] = set()
    longest = comparisons = 0
    leaves_of: dict[int, list[set[int]]] = {term: [] for term in range(n_terms)}
    for tree in items(trees, 1, 16):
        term, leaves = fields(tree, "term leaves")
        whole(term, 0, n_terms - 1)
        made = []
        for leaf in items(leaves, 1, 1200):
            positions = {whole(t, 0, n_tokens - 1) for t in items(leaf, 1, 4)}
            made.append(positions)
            longest = max(longest, len(leaf))
        if len(made) == 1:
            covered |= made[0]
        else:
            leaves_of[term] += made
        comparisons += len(made) - 1
    spend(n_terms * comb(n_tokens, arity) * 4)
    for leaves in leaves_of.values():
        held = {frozenset(part) for leaf in leaves for k in range(1, arity + 1)
                for part in combinations(sorted(leaf), k)}  # fmt: skip
        for k in range(1, arity + 1):
            for part in combinations(range(n_tokens), k):
                reached = set(part) <= covered or frozenset(part) in held
                require(reached, "a tuple of positions is on no leaf")
    return comparisons, longest


def leaf_value(term, tokens, leaf):
    """The best value of a term over the tuples of positions of one leaf."""
    places = product(leaf, repeat=natural(term["arity"]))
    return max(term["sign"] * form_value(term["form"], [tokens[t] for t in place]) for place in places)


def information_sets(tokens, sign):
    """Appendix E with both scores multiplied by a sign: the sets after one layer, and what CLS ends with.

    Token t reads the s with the largest score sign x(t).x(s); CLS reads the token whose set has the largest
    sign min x(a).x(b) over its pairs. The lowest position wins a tie.
    """
    sets = [{t, first_best([sign * dot(x, y) for y in tokens])} for t, x in enumerate(tokens)]
    least = [min(dot(tokens[a], tokens[b]) for a in held for b in held) for held in sets]
    return [sorted(held) for held in sets], sorted(sets[first_best([sign * value for value in least])])


def first_best(values):
    """The first position of the largest value."""
    return values.index(max(values))


def model_comparisons(n_tokens, beta, heads, token_sets, cls_sets):
    """Equation (5): the comparisons of a model with sets of the given sizes, the same for all tokens."""
    last = zip(heads, cls_sets, strict=True)
    total = sum(size**beta - 1 + h * (n_tokens - 1) for h, size in last)
    for h, size in zip(heads, token_sets, strict=False):
        total += n_tokens * (size**beta - 1 + h * (n_tokens - 1))
    return total


def two_layer_maximum(n_tokens, h1, h2):
    """The largest value of (5) for pairs and two layers of max-position heads."""
    cls = [h1, min(n_tokens, h1 * h2 + h1 + h2)]
    return model_comparisons(n_tokens, 2, [h1, h2], [min(n_tokens, h1 + 1)], cls)


# The rules: what proves which verdict about which claim
# ----------------------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """What a certificate of a claim must hold: the kind of its data, its verdict, and the check of both."""

    kind: str
    verdict: str
    check: Callable[[Any], Any]


RULES: dict[str, Rule] = {}

PROVED = "holds (proved)"
UNSTATED = "holds under an unstated hypothesis"
FAILS = "fails"
MISPRINT = "fails as printed (a misprint)"
VACUOUS = "vacuous"
INCONSISTENT = "inconsistent versions"


def rule(claim, kind, verdict):
    """Make the function below the rule of a claim."""

    def kept(check):
        require(claim not in RULES, f"two rules for {claim}")
        RULES[claim] = Rule(kind, verdict, check)
        return check

    return kept


# The first paper, section III


@rule("tropical.def_iii1", "wall_value", UNSTATED)
def value_on_a_wall(data):
    """Heads with the same two keys -1 and 1, then a ReLU layer: one affine map on both sides of the wall, and
    another value on the wall, where ties are averaged. Read literally, no region reaches across the wall."""
    outputs, relu = fields(data, "outputs layer")
    heads = [shaped(rows, 2, 1) for rows in items(outputs, 1, 4)]
    require(isinstance(relu, dict), "a ReLU layer is needed")
    fields(relu, "block w_in b_in w_out b_out skip")
    left, right, tied = ([rows[0][0] for rows in heads], [rows[1][0] for rows in heads],
                         [(rows[0][0] + rows[1][0]) / 2 for rows in heads])  # fmt: skip
    _, b_in, w_out, b_out = units_of(relu)
    shaped(relu["w_in"], len(b_in), len(heads))
    fits = 1 <= len(b_in) <= 8 and len(w_out) == len(b_out) == 1
    require(fits and relu["block"] == "FeedForward" and relu["skip"] is False, "units that do not fit")
    values = [relu_value(relu, y)[0] for y in (left, right, tied)]
    require(values[0] == values[1] != values[2], "the wall must be the only place with another value")
    return {"beside": text(values[0]), "on the wall": text(values[2])}


@rule("tropical.zaslavsky", "sign_vectors", PROVED)
def sign_vectors(data):
    """n hyperplanes in dimension d and points off them: as many sign vectors as cells are possible."""
    rows, points = fields(data, "hyperplanes points")
    planes = matrix(items(rows, 2, 12))
    d = len(planes[0]) - 1
    require(2 <= d <= 4, "two to four dimensions")
    seen = set()
    for point in items(points, 1, 600):
        values = [dot(plane, [*vector(point), 1]) for plane in planes]
        require(all(values), "a point lies on a hyperplane")
        seen.add(tuple(value > 0 for value in values))
    require(len(planes) > d, "so few hyperplanes have all sign vectors, whatever the formula")
    most = arrangement(len(planes), d)
    require(len(seen) == most, "a cell is missing")
    return {"cells": len(seen), "maximum": most}


@rule("tropical.newton_characterises", "diagrams", UNSTATED)
def newton_polytopes(data):
    """Two polynomials in one variable with one Newton polytope and different numbers of regions; a third
    whose coefficients are equal, and whose regions are the vertices of the polytope."""
    (diagrams,) = fields(data, "diagrams")
    shapes, winning = [], []
    for diagram in items(diagrams, 3, 3):
        rows = shaped(diagram["scores"], len(items(diagram["scores"], 2, 6)), 2)
        winning.append(winning_scores(diagram))
        exponents = [row[0] for row in rows]
        shapes.append((min(exponents), max(exponents), rows))
    (low, high, _), second, (least, largest, equal) = shapes
    require(any(least < row[0] < largest for row in equal), "the third has no exponent inside its polytope")
    require((low, high) == second[:2], "two Newton polytopes")
    require(len(winning[0]) != len(winning[1]), "as many regions")
    require(len({row[1] for row in equal}) == 1, "the coefficients of the third must be equal")
    require({equal[j][0] for j in winning[2]} == {least, largest}, "regions that are no vertices")
    return {"winning": winning}


@rule("tropical.def_iii7", "routing", FAILS)
def a_bounded_cell(data):
    """Three terms in one variable with different coefficients, and three points in a row: the term that wins
    in the middle, alone, loses on both sides, so its convex cell is a bounded interval with interior, and no
    cone."""
    scores, points = fields(data, "scores points")
    rows = shaped(scores, 3, 2)
    require(len({row[1] for row in rows}) == 3, "the coefficients must be different")
    places = shaped(points, 3, 1)
    require(places[0] < places[1] < places[2], "points must stand in order")
    winners = [best(rows, place) for place in places]
    alone = all(len(winner) == 1 for winner in winners)
    require(alone and winners[0] != winners[1] != winners[2], "the cell in the middle must end on both sides")
    return {"winners": winners}


@rule("tropical.loglift_same_walls", "log_lift", FAILS)
def a_wall_of_the_values(data):
    """Three queries on a line that go to one of two keys, and a log-lifted head that is bent between them."""
    keys, log_values, points = fields(data, "keys log_values points")
    rows, values = shaped(keys, 2, 1), vector(log_values)
    require(len(values) == len(rows), "one log-value per key is needed")
    (a,), (b,), (c,) = places = shaped(points, 3, 1)
    require(a < b < c, "points must stand in order")
    lifted, winners = log_lifted(rows, values, places)
    require(winners[0] == winners[1] == winners[2] and len(winners[0]) == 1, "a routing wall between them")
    bent = (lifted[1] - lifted[0]) * (c - b) != (lifted[2] - lifted[1]) * (b - a)
    require(bent, "the head is straight there")
    return {"values": [text(value) for value in lifted], "winners": winners}


@rule("tropical.rem_iii12", "refinement_line", UNSTATED)
def cells_of_the_refinement(data):
    """Different keys on the line, one channel. With equal log-values the refinement has more cells than the
    lifted head has linear regions; with log-values that are all different it has as many."""
    keys, equal, apart = (vector(items(values, 2, 12)) for values in fields(data, "keys equal apart"))
    require(len(set(keys)) == len(keys), "two keys are equal")
    require(len(keys) == len(equal) == len(apart), "one log-value per key is needed")
    require(len(set(equal)) == 1 and len(set(apart)) == len(apart), "log-values that do not fit")
    (fine, coarse), counts = lifted_line(keys, equal), lifted_line(keys, apart)
    require(fine > coarse, "as many regions as cells")
    require(counts[0] == counts[1] > 2, "another number of regions")
    return {"equal": [fine, coarse], "apart": list(counts)}


def lifted_line(keys, values):
    """Cells of the refinement of numerator and denominator of a lifted head on the line, and its regions."""
    envelopes = [list(zip(keys, shifts, strict=True)) for shifts in (values, [Fraction(0)] * len(keys))]
    ends = set()
    for lines in envelopes:
        for (a, b), (c, d) in combinations(lines, 2):
            t = (d - b) / (a - c)
            if a * t + b == max(p * t + q for p, q in lines):
                ends.add(t)
    walls = sorted(ends)
    inside = [walls[0] - 1, *((s + t) / 2 for s, t in pairwise(walls)), walls[-1] + 1]
    slopes = []
    for t in inside:
        above, below = (max(lines, key=lambda line: line[0] * t + line[1])[0] for lines in envelopes)
        slopes.append(above - below)
    return len(inside), 1 + sum(a != b for a, b in pairwise(slopes))


@rule("tropical.ffn_is_trop_poly", "relu_layer", FAILS)
def a_layer_that_is_not_convex(data):
    """A ReLU layer of one variable, with output weights of both signs, above its chord; tropical polynomials
    are convex."""
    network, points = fields(data, "network points")
    (layer,) = blocks(network, ["FeedForward"])
    (weights,) = matrix(layer["w_out"])
    require(min(weights) < 0 < max(weights), "output weights of both signs are needed")
    (a,), (b,), (c,) = places = shaped(points, 3, 1)
    require(a < b < c and layer["skip"] is False, "points must stand in order, without a skip connection")
    values = [relu_value(layer, place)[0] for place in places]
    above = values[1] * (c - a) > values[0] * (c - b) + values[2] * (b - a)
    require(above, "the value in the middle is not above the chord")
    return {"values": [text(value) for value in values]}


@rule("tropical.cpwl_closure", "network_line", FAILS)
def a_jump(data):
    """x + attention with one head of two keys on the line, at temperature zero: a jump inside the
    interval."""
    network, interval = fields(data, "network interval")
    (head,) = blocks(network, ["Attention"])
    one_head_of_two_keys(head)
    found = counts_of(on_line(network, *vector(items(interval, 2, 2))))
    require(found["jumps"] >= 1, "there is no jump")
    return found


@rule("tropical.ex_iii3_49", "two_layers", FAILS)
def two_layers_of_units(data):
    """A bound on the cells of a ReLU network with two layers of 3 units in dimension 2, below 49.

    On a cell of the first layer with k units on, the second layer sees an image of dimension min(k, d), and
    cells of the first layer have different patterns: take the best patterns, as many as there can be cells.
    """
    n, d = fields(data, "n d")
    whole(n, 3, 3), whole(d, 2, 2)
    pieces = [arrangement(n, min(k, d)) for k in range(n + 1) for _ in range(comb(n, k))]
    best_first = sorted(pieces, reverse=True)
    most = sum(best_first[: arrangement(n, d)])
    require(most < arrangement(n, d) ** 2 == 49, "49 is not excluded")
    return {"at_most": most, "product": arrangement(n, d) ** 2}


@rule("tropical.zaslavsky_e_bound", "arrangement", UNSTATED)
def cells_and_the_number_e(data):
    """n < d hyperplanes with more than (e n / d)^d cells, and no pair n >= d up to a size with more."""
    n, d, largest = fields(data, "n d largest")
    whole(d, 2, 12), whole(n, 1, d - 1), whole(largest, 12, 60)
    below = sum(Fraction(1, factorial(k)) for k in range(21))
    above = below + Fraction(2, factorial(21))
    require(arrangement(n, d) > (above * n / d) ** d, "the bound holds there")
    pairs = [(m, k) for k in range(1, 13) for m in range(k, largest + 1)]
    require(all(arrangement(m, k) <= (below * m / k) ** k for m, k in pairs), "the bound fails for n >= d")
    return {"cells": arrangement(n, d), "pairs": len(pairs)}


# The first paper, section IV


def linear_diagram(diagram):
    """The keys of a diagram of linear scores, distinct, and which of them win: three at least, which there
    are not on a line."""
    rows = matrix(items(diagram["scores"], 3, 40))
    linear = all(row[-1] == 0 for row in rows) and len(rows[0]) >= 2
    require(linear, "linear scores are needed")
    winners = winning_scores(diagram)
    require(len(winners) >= 3, "the keys lie on a line")
    return [row[:-1] for row in rows], winners


@rule("tropical.cell_nonempty_iff_vertex", "diagrams", PROVED)
def cells_and_vertices(data):
    """Every key wins alone somewhere, or lies in the hull of the others; both occur."""
    (diagrams,) = fields(data, "diagrams")
    winning = []
    for diagram in several(diagrams, 1, 4):
        keys, winners = linear_diagram(diagram)
        require(0 < len(winners) < len(keys), "keys with and without a cell are needed")
        winning.append(winners)
    return {"winning": winning}


@rule("tropical.fig3_caption", "diagrams", PROVED)
def light_keys(data):
    """Keys without a cell are shorter than another key; but the shortest key may have a cell, while a longer
    one has none."""
    (diagrams,) = fields(data, "diagrams")
    winning, lost, passed_over = [], 0, False
    for diagram in several(diagrams, 2, 4):
        keys, winners = linear_diagram(diagram)
        weights = [dot(key, key) for key in keys]
        losers = [j for j in range(len(keys)) if j not in winners]
        require(all(weights[j] < max(weights) for j in losers), "the longest key has no cell")
        lost += len(losers)
        passed_over |= any(weights[i] < weights[j] for i in winners for j in losers)
        winning.append(winners)
    require(lost > 0 and passed_over, "a short key with a cell and a longer one without are needed")
    return {"winning": winning}


@rule("tropical.cells_bounded", "recession", MISPRINT)
def an_unbounded_cell(data):
    """A ray in a cell of linear scores: the key that wins at a point, alone, wins along a direction."""
    scores, point, direction = fields(data, "scores point direction")
    keys, start, way = matrix(items(scores, 2, 20)), vector(point), vector(direction)
    require(any(way), "the direction is zero")
    winner = only_best([dot(key, start) for key in keys], "the point lies on a wall")
    slopes = [dot(key, way) for key in keys]
    require(slopes[winner] == max(slopes), "another score catches up along the ray")
    return {"winner": winner, "unbounded": True}


@rule("tropical.layernorm_norms_keys", "normalised_keys", UNSTATED)
def normalised_keys(data):
    """Keys that LayerNorm leaves as they are have one norm; with a gain of its own they have not."""
    keys, gain = fields(data, "keys gain")
    rows, factors = matrix(items(keys, 2, 12)), vector(gain)
    require(len(set(map(tuple, rows))) == len(rows), "the same key twice")
    require(min(factors) > 0, "a gain that is not positive")
    for row in rows:
        require(sum(row) == 0 and dot(row, row) == len(row), "a key is not normalised")
    norms = [dot(row, row) for row in rows]
    gained = [[a * b for a, b in zip(row, factors, strict=True)] for row in rows]
    scaled = [dot(row, row) for row in gained]
    require(len(set(norms)) == 1 < len(set(scaled)), "the gain must change the norms apart")
    return {"squared_norms": [text(x) for x in norms], "with_gain": [text(x) for x in scaled]}


@rule("tropical.rem_iv5", "self_attention", PROVED)
def not_a_product(data):
    """Self-attention in which keys move along: two sequences at which token 0 attends to itself, and a third,
    token 0 of the first and the others of the second, at which it does not."""
    form, first, second = fields(data, "form first second")
    one, two = matrix(items(first, 2, 6)), matrix(items(second, 2, 6))
    require(len(one) == len(two), "sequences of different lengths")
    rows = shaped(form, len(one[0]), len(one[0]))
    winners = []
    for tokens in (one, two, [one[0], *two[1:]]):
        winners.append(only_best([dot(tokens[0], [dot(row, key) for row in rows]) for key in tokens]))
    require(winners[0] == winners[1] == 0 != winners[2], "the set where token 0 wins looks like a product")
    return {"winners": winners}


# The first paper, section V


@rule("tropical.mink_product_regime", "heads", PROVED)
def every_combination(data):
    """Two heads of three keys, with linear scores in space and with affine ones in the plane, so that
    H <= d - 1 and H <= d: all N^H tuples win."""
    found = []
    for each, (n, count, d, linear) in zip(
        items(fields(data, "families")[0], 2, 2), ((3, 2, 3, True), (3, 2, 2, False)), strict=True
    ):
        heads, points = family(each, (n, d))
        require(len(heads) == count and is_linear(heads) == linear, "another family is needed")
        found.append(len(winning_tuples(heads, points)))
        require(found[-1] == n**count, "a combination is missing")
    return {"cells": found}


def largest_families(data, settings, linear):
    """Families of given (N, H, d) whose number of cells is the largest possible."""
    found = []
    for each, (n, count, d) in zip(
        items(fields(data, "families")[0], len(settings), len(settings)), settings, strict=True
    ):
        heads, points = family(each, (n, d))
        require(len(heads) == count and (is_linear(heads) or not linear), "another family is needed")
        found.append(len(winning_tuples(heads, points)))
        require(found[-1] == vertex_maximum(n, count, d, linear), "the maximum is not reached")
    return {"cells": found}


@rule("tropical.mink_max_linear", "heads", PROVED)
def most_cells_linear(data):
    """Heads with linear scores that reach the maximum, in two to four dimensions: (N, H, d) is (5, 4, 2),
    (4, 4, 3), (3, 5, 3) and (3, 4, 4)."""
    return largest_families(data, [(5, 4, 2), (4, 4, 3), (3, 5, 3), (3, 4, 4)], True)


@rule("tropical.mink_max_affine", "heads", PROVED)
def most_cells_affine(data):
    """Heads with affine scores that reach the maximum, in one to three dimensions: (N, H, d) is (5, 4, 1),
    (4, 4, 2), (3, 5, 2) and (3, 4, 3)."""
    return largest_families(data, [(5, 4, 1), (4, 4, 2), (3, 5, 2), (3, 4, 3)], False)


@rule("tropical.saturated_floor_d_half", "heads", FAILS)
def quadratic_growth(data):
    """Four heads with linear scores in space, in general position where that is checked (N = 4): as many
    cells as possible for N = 4, 8, 16, that is more than 1.8 times as many per key with every doubling. Each
    tuple wins alone at its point, so keys that are moved a little to general position have as many cells."""
    found = largest_families(data, [(4, 4, 3), (8, 4, 3), (16, 4, 3)], True)
    smallest, _ = family(data["families"][0], (4, 3))
    require(in_general_position(smallest), "the heads are not in general position")
    ratios = [Fraction(cells, 4 * n) for cells, n in zip(found["cells"], (4, 8, 16), strict=True)]
    require(all(5 * b > 9 * a for a, b in pairwise(ratios)), "the growth is linear")
    return found


@rule("tropical.fig4_216", "heads", FAILS)
def most_vertices_in_space(data):
    """Three heads of six keys in space: the maximum is below 216, and the given keys reach it."""
    found = largest_families(data, [(6, 3, 3)], True)
    require(found["cells"][0] < 6**3, "216 is possible")
    return found


@rule("tropical.cor_v4", "heads", PROVED)
def power_of_the_heads(data):
    """Two heads in four dimensions have N^2 cells for N = 2, 4, and one head no more than N."""
    found = []
    for each, n in zip(items(fields(data, "families")[0], 2, 2), (2, 4), strict=True):
        heads, points = family(each, (n, 4))
        require(len(heads) == 2 and is_linear(heads), "two heads with linear scores are needed")
        both, one = len(winning_tuples(heads, points)), len(winning_tuples(heads[:1], points))
        require(both == n**2 and one <= n, "the cells are not N^H")
        found.append([one, both])
    return {"cells": found}


@rule("tropical.pow_512_8", "power", MISPRINT)
def a_power(data):
    """512^8, which differs from the printed 1.1e21 by more than rounding to two digits can."""
    base, exponent = fields(data, "base exponent")
    value = whole(base, 512, 512) ** whole(exponent, 8, 8)
    require(not 105 * 10**19 <= value < 115 * 10**19, "the printed number is right")
    return {"value": value}


@rule("tropical.rem_v6", "heads", PROVED)
def orders_and_routings(data):
    """Four keys in space: the heads of their pairs have a cell for each of the 24 orders of scores, the one
    head of all keys has four."""
    pairs, single = items(fields(data, "families")[0], 2, 2)
    heads, points = family(single, (4, 3))
    two, places = family(pairs, (2, 3))
    require(len(heads) == 1 and is_linear(heads), "one head with linear scores is needed")
    expected = [whole_rows(list(pair)) for pair in combinations(matrix(single["heads"][0]), 2)]
    require(two == expected, "the pairs of the same keys are needed")
    found = [len(winning_tuples(two, places)), len(winning_tuples(heads, points))]
    require(found == [24, 4], "an order or a cell is missing")
    return {"cells": found}


@rule("tropical.block_is_refinement", "network_line", FAILS)
def shifted_folds(data):
    """A block on the line with two keys that both win and one unit, and the same block with all values 0,
    whose cells are those of the common refinement of its two partitions, three: their numbers differ."""
    network, interval = fields(data, "network interval")
    head, layer = blocks(network, ["Attention", "FeedForward"])
    one_head_of_two_keys(head)
    require(len(layer["w_in"]) == 1 and layer["skip"] is False, "one unit without a residual is needed")
    still = {**head, "outputs": [[[0] for _ in rows] for rows in head["outputs"]]}
    ends = vector(items(interval, 2, 2))
    cells = [len(on_line(each, *ends)) for each in (network, [still, layer])]
    require(cells[0] != cells[1] == 3, "as many cells as the refinement has, or no wall, or no fold")
    return {"block": cells[0], "refinement": cells[1]}


@rule("tropical.app_e_constant", "cell_bound", MISPRINT)
def constant_with_heads(data):
    """More and more heads with linear scores in the plane: the maximum N H is no constant of d alone times
    N^min(H, d), as the number of heads over N is not bounded: it ends above 1 here."""
    n, heads = fields(data, "n_tokens heads")
    whole(n, 2, 10**6)
    counts = [whole(h, 2, 10**6) for h in several(heads, 3, 8)]
    most = [vertex_maximum(n, h, 2, True) for h in counts]
    require(all(m == n * h for m, h in zip(most, counts, strict=True)), "the maximum is another")
    require(max(counts) >= 100 * min(counts), "the numbers of heads must differ more")
    require(max(most) > n**2, "the constant 1 is enough")
    return {"maximum": most}


# The first paper, Theorem V.7


def network_size(given):
    """The size (d, N, w, L) of a network of Theorem V.7; one key would cut nothing."""
    d, n, w, depth = items(given, 4, 4)
    return d, whole(n, 2, 16), whole(w, 1, 8), whole(depth, 1, 4)


@rule("tropical.lemma_f1", "grid_heads", UNSTATED)
def grid_heads(data):
    """The head of Lemma F.1 with the query (x, 1), cut exactly on [0, 1]: N cells of width 1/N."""
    found = []
    for n in several(fields(data, "sizes")[0], 2, 4):
        head = sawtooth(1, whole(n, 2, 16), 1, 1)[:1]
        pieces = on_line(head, Fraction(0), Fraction(1))
        ends = [piece[1] for piece in pieces]
        require(ends == [Fraction(j, n) for j in range(1, n + 1)], "the cells are not congruent")
        found.append(len(pieces))
    return {"cells": found}


@rule("tropical.lemma_f2", "sawtooth_line", PROVED)
def teeth(data):
    """The sawtooth of Lemma F.2 with w teeth and 2w units, cut exactly: 2w bijections onto [0, 1]."""
    found = []
    for w in several(fields(data, "sizes")[0], 2, 4):
        layer = sawtooth(1, 1, whole(w, 1, 8), 1)[1]
        layer = {**layer, "b_in": [text(number(b) - Fraction(1, 2)) for b in layer["b_in"]]}  # z = x
        require(len(layer["w_in"]) == 2 * w, "another number of units")
        pieces = on_line([layer], Fraction(0), Fraction(1))
        require([piece[1] for piece in pieces] == [Fraction(k, 2 * w) for k in range(1, 2 * w + 1)], "uneven")
        for k, piece in enumerate(pieces):
            values = [value_at(t, piece)[0] for t in piece[:2]]
            require(values == [k % 2, (k + 1) % 2], "a piece is not mapped onto [0, 1]")
        found.append(len(pieces))
    return {"pieces": found}


@rule("tropical.v7_count", "sawtooth_line", PROVED)
def sawtooth_lines(data):
    """The networks of Theorem V.7 for d = 1, cut exactly on [0, 1]: (2wN)^L cells and regions."""
    found = []
    for size in several(fields(data, "sizes")[0], 2, 4):
        d, n, w, depth = network_size(size)
        require(d == 1 and depth >= 2, "one dimension and two layers")
        require((2 * w * n) ** depth <= 2000, "too many cells")
        pieces = counts_of(on_line(sawtooth(d, n, w, depth), Fraction(0), Fraction(1)))
        require(pieces["cells"] == pieces["regions"] == (2 * w * n) ** depth, "another number of regions")
        found.append(pieces["regions"])
    return {"regions": found}


@rule("tropical.v7_continuous", "sawtooth_line", PROVED)
def no_jumps(data):
    """The networks of Theorem V.7 for d = 1, cut exactly on [0, 1]: no jump."""
    found = []
    for size in several(fields(data, "sizes")[0], 2, 4):
        d, n, w, depth = network_size(size)
        require(d == 1 and depth >= 2, "one dimension and two layers")
        require((2 * w * n) ** depth <= 2000, "too many cells")
        pieces = counts_of(on_line(sawtooth(d, n, w, depth), Fraction(0), Fraction(1)))
        require(pieces["jumps"] == 0 and pieces["cells"] > 1, "a jump")
        found.append(pieces["cells"])
    return {"cells": found}


@rule("tropical.v7_formula_equality", "sawtooth_points", MISPRINT)
def lost_factor(data):
    """More affine maps in the unit cube than (N^d w^d)^L."""
    d, n, w, depth = network_size(fields(data, "size")[0])
    _, maps = sawtooth_at_points(d, n, w, depth)
    printed = (n**d * w**d) ** depth
    require(maps > printed, "no more maps than printed")
    return {"maps": maps, "printed": printed}


@rule("tropical.v7_bound", "sawtooth_points", UNSTATED)
def reached_with_biases(data):
    """With affine scores the network of the proof has at least as many regions as stated; with linear scores
    no network with H = d heads can have as many at another size."""
    size, bias_free = fields(data, "size bias_free")
    d, n, w, depth = network_size(size)
    require(d >= 2 and depth >= 2, "two dimensions and two layers")
    _, maps = sawtooth_at_points(d, n, w, depth)
    printed = (n**d * w**d) ** depth
    require(maps >= printed, "fewer regions than stated")
    most, claimed = without_biases(bias_free)
    require(most < claimed, "the bound does not exclude it")
    return {"maps": maps, "stated": printed, "at_most": most, "claimed": claimed}


def without_biases(size):
    """The bound (V R)^L on the cells of a transformer with linear scores, and the number (N^d w^d)^L,
    w = floor(d_ff / 2d), that it is claimed to reach with H = d heads."""
    n, d, d_ff, depth = items(size, 4, 4)
    whole(n, 2, 10**7), whole(d, 2, 6), whole(d_ff, 2 * d, 64), whole(depth, 1, 8)
    most = (vertex_maximum(n, d, d, True) * arrangement(d_ff, d)) ** depth
    return most, (n**d * (d_ff // (2 * d)) ** d) ** depth


@rule("tropical.v7_bias_free_fixed", "sawtooth_points", PROVED)
def slice_without_biases(data):
    """With linear scores, on the slice x_d = 1: (2wN)^((d-1)L) affine maps at as many points."""
    d, n, w, depth = network_size(fields(data, "size")[0])
    require(d >= 2 and depth >= 2, "two dimensions and two layers")
    signatures, maps = sawtooth_at_points(d, n, w, depth, "bias_free")
    require(signatures == maps == (2 * w * n) ** ((d - 1) * depth), "another number of regions")
    return {"signatures": signatures, "maps": maps}


@rule("tropical.v7_maps_distinct", "sawtooth_points", PROVED)
def different_maps(data):
    """As many affine maps as cells."""
    d, n, w, depth = network_size(fields(data, "size")[0])
    require(d >= 2 and depth >= 2, "two dimensions and two layers")
    signatures, maps = sawtooth_at_points(d, n, w, depth)
    require(signatures == maps == (2 * w * n) ** (d * depth), "two cells with one map")
    return {"signatures": signatures, "maps": maps}


@rule("tropical.v7_with_ffn_skip", "sawtooth_points", PROVED)
def second_skip(data):
    """With a skip connection around the ReLU layer, and as many units: as many affine maps."""
    d, n, w, depth = network_size(fields(data, "size")[0])
    require(d >= 2 and depth >= 2, "two dimensions and two layers")
    signatures, maps = sawtooth_at_points(d, n, w, depth, "ffn_skip")
    require(signatures == maps == (2 * w * n) ** (d * depth), "another number of regions")
    return {"signatures": signatures, "maps": maps}


@rule("tropical.v7_genuine_d_plus_3", "shared_layer", PROVED)
def genuine_transformer(data):
    """A transformer of width d + 3 without biases, d heads of width 2 and 2wd + 3 units, whose N + 1 tokens
    all pass through one layer: on a simplex in every piece of the unit cube its last token ends where the
    network of Theorem V.7 ends, whose maps differ, and it meets as many different keys and units as that
    network has cells. The last three coordinates of all tokens stay as they are, layer by layer."""
    return followed_token(data, 1, 3, lambda v, n: v, lambda u, n: u, lambda d, w: 2 * w * d + 3)


@rule("tropical.v7_genuine_d_plus_1", "shared_layer", PROVED)
def narrow_transformer(data):
    """The same of width d + 1 with N + 2 tokens and d(2w + 1) + 2 units; the cube is [2, N + 2]^d there. All
    tokens but the last stay as they are, and so does the last coordinate of that one."""
    return followed_token(
        data, 2, 1, lambda v, n: 2 + n * v, lambda u, n: (u - 2) / n, lambda d, w: d * (2 * w + 1) + 2
    )


def followed_token(data, more_tokens, more_width, into, back, units):
    """The last token of a sequence, through layers that all tokens pass, on a simplex in every piece.

    At the d + 1 corners all tokens meet the same keys and units, layer by layer. So they do in between, the
    map is affine there, and its values at the corners make it the map that the network of Theorem V.7 has
    around the first of them.
    """
    size, tokens, *weights = fields(data, "size tokens w_q w_k w_v w_o w_in w_out")
    d, n, w, depth = network_size(size)
    require(d >= 2 and depth >= 2, "two dimensions and two layers")
    ideal, pieces, width = sawtooth(d, n, w, depth), (2 * w * n) ** depth, d + more_width
    context = shaped(tokens, n + more_tokens, width)
    shapes = ((2, width), (2, width), (1, width), (width, 1))
    heads = list(zip(*([shaped(rows, *shape) for rows in items(each, d, d)]
                       for each, shape in zip(weights[:4], shapes, strict=True)), strict=True))  # fmt: skip
    w_in, w_out = shaped(weights[4], units(d, w), width), shaped(weights[5], width, units(d, w))
    free = 0 if more_width == 1 else d  # what the other tokens may change
    layer = whole_layer(heads, w_in, w_out)
    signatures, maps, step = set(), set(), Fraction(1, 12 * pieces)
    for corner in middles(d, pieces):
        met = set()
        _, linear, offset, _ = passed(ideal, list(corner))
        for point in (corner, *([c + step * (i == j) for j, c in enumerate(corner)] for i in range(d))):
            start, seen = [*context[:-1], [*(into(v, n) for v in point), *context[-1][d:]]], []
            row, scale = whole_rows(start), common_denominator([x for token in start for x in token])
            for _ in range(depth):
                row, factor, here = shared_layer(layer, row)
                scale *= factor
                seen.append(here)
                stay = all(
                    a == [scale * x for x in b[free:]]
                    for a, b in zip((a[free:] for a in row[:-1]), context[:-1], strict=True)
                )
                stay = stay and row[-1][d:] == [scale * x for x in context[-1][d:]]
                require(stay, "what layers share does not stay as it is")
            met.add(json.dumps(seen))
            ends = [back(Fraction(u, scale), n) for u in row[-1][:d]]
            require(ends == affine(linear, point, offset), "another value than the network's")
        require(len(met) == 1, "a fold or a wall inside a piece")
        signatures.add(json.dumps([here[-1] for here in seen]))
        maps.add(json.dumps([[text(a) for a in line] for line in [*linear, offset]]))
    require(len(signatures) == len(maps) == pieces**d, "fewer signatures or maps than cells")
    return {"signatures": len(signatures), "width": width}


@rule("tropical.rem_v8", "sign_vectors", FAILS)
def more_than_the_construction(data):
    """Eight units in the plane with more cells than the (2w)^d into which the construction cuts one."""
    found = sign_vectors(data)
    rows = data["hyperplanes"]
    require(len(rows) == 8 and len(rows[0]) == 3, "eight lines in the plane are needed")
    require(found["cells"] > (2 * (8 // 4)) ** 2, "the construction has as many")
    return {**found, "construction": (2 * (8 // 4)) ** 2}


@rule("tropical.theta_exponent", "growth", UNSTATED)
def growth_of_regions(data):
    """With affine scores and free keys (2wN)^L regions for d = 1, which grow by 2^L when N doubles; with
    linear scores a bound below (N^d w^d)^L at another size, which falls behind by (3/2)^L more when N doubles
    there."""
    depth, tokens, bias_free = fields(data, "depth tokens bias_free")
    found = []
    require(whole(depth, 1, 4) >= 2, "two layers are needed")
    for n in items(tokens, 3, 4):
        pieces = counts_of(on_line(sawtooth(*network_size([1, n, 1, depth])), Fraction(0), Fraction(1)))
        found.append(pieces["regions"])
    doubled = all(b == 2 * a for a, b in pairwise(tokens))
    require(doubled and all(b == 2**depth * a for a, b in pairwise(found)), "another growth")
    most, claimed = without_biases(bias_free)
    require(most < claimed, "the bound does not exclude it")
    n, *others, layers = bias_free
    later, more = without_biases([2 * n, *others, layers])
    require(more * most * 2**layers >= later * claimed * 3**layers, "the bound grows as fast")
    return {"regions": found, "at_most": most, "claimed": claimed}


@rule("tropical.v9_gap", "gap", UNSTATED)
def gap_of_the_constants(data):
    """Upper over lower bound at H = d, affine scores: R(d_ff, d) / (2w)^d per layer, whatever N is; at one d
    it grows with the depth beyond every number that depends on d alone."""
    d, d_ff, depths = fields(data, "d d_ff depths")
    whole(d, 1, 6), whole(d_ff, 2 * d, 64)
    ratio = Fraction(arrangement(d_ff, d), (2 * (d_ff // (2 * d))) ** d)
    gaps = [ratio ** whole(depth, 1, 60) for depth in items(depths, 3, 6)]
    grows = ratio > 1 and all(b > 2 * a for a, b in pairwise(gaps))
    require(grows, "the gap does not grow with the depth")
    for n in (2, 16, 1024):
        most, reached = (
            vertex_maximum(n, d, d, False) * arrangement(d_ff, d),
            (2 * (d_ff // (2 * d)) * n) ** d,
        )
        require(most == ratio * reached, "the gap depends on N")
    return {"per layer": text(ratio), "gaps": [int(gap) for gap in gaps]}


@rule("tropical.fig1", "sawtooth_points", VACUOUS)
def three_numbers(data):
    """The regions that the network of Theorem V.7 shows for d = 2, N = 4, w = 1 at depth 1, and their powers
    for depth 2 and 3; whatever three counts a figure shows, each is a constant times N^(dL), so that
    Theta(N^(dL)) excludes none."""
    size, counts = fields(data, "size counts")
    d, n, w, depth = network_size(size)
    _, maps = sawtooth_at_points(d, n, w, depth)
    require([d, n, w, depth] == [2, 4, 1, 1] and maps == (2 * w * n) ** d, "another figure")
    shares = [Fraction(whole(c, 1, 10**12), n ** (d * (k + 1))) for k, c in enumerate(items(counts, 3, 3))]
    require(counts == [maps, maps**2, maps**3], "other counts than those of the theorem")
    return {"regions": maps, "constants": [text(share) for share in shares]}


# The first paper, sections VI and VII


def softmax_cases(data):
    """The variance of a vector u under weights, over u.u: a lower bound on the norm of diag(p) - p p^T.

    For each case: the quotient, max p(1 - p), and m e, where the first of m + 1 weights is the largest and e
    is the largest of the others over it.
    """
    for case in several(fields(data, "cases")[0], 1, 8):
        given, direction = fields(case, "weights vector")
        weights, u = vector(items(given, 2, 600)), vector(direction)
        fit = min(weights) > 0 and max(weights) == weights[0] and any(u)
        require(fit, "no weights with the largest first")
        total = sum(weights)
        p = [w / total for w in weights]
        quotient = (dot(p, [x * x for x in u]) - dot(p, u) ** 2) / dot(u, u)
        yield quotient, max(x * (1 - x) for x in p), (len(p) - 1) * max(weights[1:]) / weights[0], len(p)


@rule("tropical.cov_lemma", "softmax_covariance", FAILS)
def larger_covariance(data):
    """Probability vectors at which the norm is larger than max p(1 - p)."""
    found = list(softmax_cases(data))
    require(all(quotient > lemma for quotient, lemma, _, _ in found), "the lemma holds there")
    return {"quotients": [text(quotient) for quotient, *_ in found]}


@rule("tropical.lse_hess_paper", "softmax_covariance", FAILS)
def larger_hessian(data):
    """Softmax weights at a margin at which the norm, times the temperature, is larger than m e; among them
    N = 512."""
    found = list(softmax_cases(data))
    require(all(quotient > printed for quotient, _, printed, _ in found), "the bound holds there")
    require(512 in {n for *_, n in found}, "N = 512 is needed")
    return {"quotients": [text(quotient) for quotient, *_ in found]}


@rule("tropical.lse_affine_paper", "tangent_error", FAILS)
def larger_step(data):
    """Two keys at temperature 1, with e = exp(-margin) before and after a step: how far the gradient and the
    tangent plane are off, over the printed bounds e |s - s'| and e |s - s'|^2 / 2, in thousandths, rounded
    down: both above 1000.
    """
    before, after = (number(value) for value in fields(data, "before after"))
    require(0 < after < before < 1, "the step must go away from the wall")
    low, high = logarithm(before / after)  # the margin grows by this, each score moves by half of it
    moved = before / (1 + before) - after / (1 + after)
    # |s - s'| = sqrt(2) x / 2 and |difference of gradients| = sqrt(2) moved, so the roots cancel
    gradient = [moved / (before * x / 2) for x in (high, low)]
    curve = logarithm((1 + after) / (1 + before))
    share = before / (1 + before)
    rest = [share * low + curve[0], share * high + curve[1]]
    tangent = [rest[0] / (before * high * high / 4), rest[1] / (before * low * low / 4)]
    found = {"gradient": thousandths(gradient), "tangent": thousandths(tangent)}
    require(min(found.values()) > 1000, "the bounds hold there")
    return found


@rule("tropical.ex_vi2_numbers", "softmax_tail", PROVED)
def printed_numbers(data):
    """N = 512, margin 2, temperature 1/8: the printed digits, truncated; the concentration is 1 minus the
    bound of the gradient."""
    n, margin, tau = fields(data, "n_tokens margin temperature")
    require((n, margin, tau) == (512, 2, "1/8"), "another example")
    found = softmax_tail(n, Fraction(margin), number(tau))
    shown_digits = [(found[name][:length], found[name][7:]) for name, length in
                    (("value", 4), ("gradient", 4), ("hessian_printed", 3))]  # fmt: skip
    require(shown_digits == [("7.18", "e-6"), ("1.15", "e-4"), ("4.6", "e-4")], "other digits")
    kept = [1 - 2 * (n - 1) * end for end in exponential(-margin / number(tau))]
    require({int(10**4 * share) for share in kept} == {9998}, "another concentration")
    return found


@rule("tropical.ex_vi2_tau", "softmax_tail", FAILS)
def another_temperature(data):
    """Scores divided by sqrt(d_k) = 8, as in a standard head, and scores at temperature 1/8: the largest
    weight is below 1/100 in one case and above 99/100 in the other."""
    n, margin, d_head = fields(data, "n_tokens margin d_head")
    require((n, margin, d_head) == (512, 2, 64), "another example")
    root = isqrt(d_head)
    standard, printed = (
        softmax_tail(n, Fraction(margin), tau) for tau in (Fraction(root), Fraction(1, root))
    )
    apart = standard["top_probability"][-2:] == "-3" and printed["top_probability"][:4] == "9.99"
    require(apart, "the temperatures agree")
    return {"standard": standard["top_probability"], "printed": printed["top_probability"]}


@rule("tropical.uniform_limit", "soft_output", FAILS)
def a_distance_that_stays(data):
    """Softmax weights of the keys 1 and -1, one larger; some query inside the cell of the larger has them, at
    every temperature. The output is then as far from the winner's value as nine tenths of the mean is."""
    given, values = fields(data, "weights values")
    weights, v = vector(items(given, 2, 2)), vector(items(values, 2, 2))
    require(weights[0] > weights[1] > 0 and v[0] != v[1], "the first weight must be the larger")
    output = dot(weights, v) / sum(weights)
    distance = abs(output - v[0])
    require(20 * distance > 9 * abs(v[0] - v[1]), "the output is close to the value")
    return {"distance": text(distance)}


@rule("tropical.finite_tau_depth", "soft_signatures", FAILS)
def lost_signatures(data):
    """The network of Theorem V.7 with d = 1, N = 4, w = 1, L = 3 at temperature 1/8: at none of the given
    middles of its 512 cells does it keep its signature. At temperature zero everything is rational; above it
    intervals are carried along, and every routing and every ReLU bit must be decided by them."""
    (cells,) = fields(data, "cells")
    places = {whole(i, 0, 511) for i in items(cells, 8, 64)}
    require(len(places) == len(cells), "a cell twice")
    network, kept = sawtooth(1, 4, 1, 3), 0
    for i in sorted(places):
        x = [(Fraction(2 * i + 1, 1024), Fraction(2 * i + 1, 1024))]
        hard, warm = (interval_signature(network, x, tau) for tau in (None, Fraction(1, 8)))
        kept += hard == warm
    require(kept == 0, "a signature is kept")
    return {"cells": len(places), "kept": kept}


@rule("tropical.mc_lower_bound_regions", "network_line", FAILS)
def more_signatures_than_regions(data):
    """A block FFN(x + MHSA(x)) on an interval, and points in it that show more signatures than it has linear
    regions there."""
    network, interval, points = fields(data, "network interval points")
    head, layer = blocks(network, ["Attention", "FeedForward"])
    require(head["skip"] is True and layer["skip"] is False, "the block FFN(x + MHSA(x)) is needed")
    low, high = vector(items(interval, 2, 2))
    found = counts_of(on_line(network, low, high))
    places = shaped(points, len(items(points, 2, 16)), 1)
    require(all(low < place[0] < high for place in places), "a point outside the interval")
    seen = {json.dumps(passed(network, place)[0]) for place in places}
    require(len(seen) > found["regions"], "no more signatures than regions")
    return {"signatures": len(seen), "regions": found["regions"]}


@rule("tropical.fig6b_interior_explanation", "sum_of_heads", FAILS)
def extreme_keys_and_sums(data):
    """Three heads of seven keys in four dimensions, every key extreme, and fewer than 343 sums that are
    vertices.

    A winner is a tuple of keys with a query at which it beats every other key in every head; a loser is a
    tuple whose sum is a convex combination of sums of other tuples. Every tuple must be one or the other.
    """
    given, winning, losing = fields(data, "heads winners losers")
    heads = [shaped(rows, 7, 4) for rows in items(given, 3, 3)]
    everything = set(product(range(7), repeat=3))
    winners = set()
    for entry in items(winning, 1, 343):
        choice, point = items(entry, 2, 2)
        choice = [natural(j) for j in choice]
        query = vector(point)
        won = tuple(only_best([dot(row, query) for row in rows], "a tie at the query") for rows in heads)
        require(list(won) == choice, "another tuple wins at the query")
        winners.add(won)
    losers = set()
    for entry in items(losing, 1, 343):
        choice, support, weights = items(entry, 3, 3)
        shares = vector(items(weights, 1, 8))
        require(min(shares) > 0 and sum(shares) == 1, "no convex combination")
        require(choice not in support and len(support) == len(shares), "a tuple in its own combination")
        points = [key_sum(heads, other) for other in support]
        mean = [dot(shares, column) for column in zip(*points, strict=True)]
        require(mean == key_sum(heads, choice), "a sum is not the combination of others")
        require(any(point != mean for point in points), "a sum is only compared with itself")
        losers.add(tuple(choice))
    require(not winners & losers, "a tuple both wins and loses")
    require(winners | losers == everything, "a tuple is not accounted for")
    extreme = [len({choice[h] for choice in winners}) for h in range(3)]
    require(extreme == [7, 7, 7] and len(winners) < 343, "interior keys explain it")
    return {"extreme_keys": extreme, "sums": len(everything), "vertices": len(winners)}


# The second paper, Theorems 1 to 3


@rule("infoflow.t1.lower", "separation_pair", PROVED)
def hard_for_one_layer(data):
    """One attention layer of H heads of dimension n on [-1, 1]^3, and two sequences whose targets differ by
    4 epsilon: how wide a block behind it must at least be to be right up to epsilon at both.

    The weights of head i are exp(beta q_i.x), its values V_i x, all entries at most 1, and none of these rows
    below 1/4 everywhere: a layer that reads next to nothing shows nothing. In every head the weights of two
    tokens differ by a factor of at least exp(1/2), and every row sees that the sequences differ. One token
    makes the difference of the targets: the closest pairs share the other. If it alone is exchanged, all
    that heads read changes by at least epsilon/100; so the other tokens hide it. The exponent
    of the theorem must be positive. A block of p tanh units with weights at most 1 behind an output matrix
    with entries at most 1 has a Lipschitz constant of at most p (nH)^(3/2) in the 2-norm; it must move by 2
    epsilon, while its input moves by what intervals bound."""
    scores, values, beta, epsilon, first, second = fields(data, "scores values beta epsilon first second")
    queries = matrix(items(scores, 1, 3))
    maps = [matrix(rows) for rows in items(values, len(queries), len(queries))]
    b, eps = number(beta), number(epsilon)
    require(1 <= b <= 16 and 0 < eps < Fraction(1, 100), "beta or epsilon out of range")
    small = all(abs(x) <= 1 for rows in (queries, *maps) for row in rows for x in row)
    fits = all(len(row) == 3 for rows in (queries, *maps) for row in rows)
    require(small and fits and len({len(rows) for rows in maps}) == 1, "weights that do not fit")
    reads_much = all(max(map(abs, row)) >= Fraction(1, 4) for rows in (queries, *maps) for row in rows)
    require(maps[0] and reads_much, "a head that reads next to nothing")
    seen = []  # what each row makes of the tokens, in order of size
    targets, reads, sequences, pairs = [], [], [], []
    for given in (first, second):
        tokens = shaped(given, len(items(given, 4, 16)), 3)
        sequences.append(tokens)
        require(all(abs(x) <= 1 for token in tokens for x in token), "a token outside [-1, 1]^3")
        short = all(dot(token, token) <= 1 + Fraction(1, 10**9) for token in tokens)  # up to rounding
        require(short, "a token of norm above 1")
        closest = {frozenset((tuple(x), tuple(y))): 2 * (1 + dot(x, y)) for x in tokens for y in tokens}
        targets.append(min(closest.values()))
        pairs.append({pair for pair, value in closest.items() if value == targets[-1]})
        seen.append(
            [sorted(dot(row, token) for token in tokens) for rows in (queries, *maps) for row in rows]
        )
        reads.append(read_by_softmax(queries, maps, b, tokens))
    require(len(first) == len(second), "sequences of different lengths")
    for one, two in zip(*seen, strict=True):
        apart = max(abs(a - b) for a, b in zip(one, two, strict=True))
        require(1000 * apart >= 1, "a row does not see what differs")
    require(len(pairs[0]) == len(pairs[1]) == 1, "several pairs decide")
    (one,), (two,) = pairs
    require(len(one) == len(two) == 2 and len(one & two) == 1, "the deciding pairs must share a token")
    for tokens, mine, others in ((sequences[0], one, two), (sequences[1], two, one)):
        (old,), (new,) = mine - others, others - mine
        require(tokens.count(list(old)) == 1, "a deciding token stands twice")
        alone = read_by_softmax(queries, maps, b, [list(new) if x == list(old) else x for x in tokens])
        before = reads[0] if tokens is sequences[0] else reads[1]
        change = [max(a[0] - c[1], c[0] - a[1]) for a, c in zip(alone, before, strict=True)]
        require(100 * min(change) >= eps, "a head that does not see the deciding token")
    heads, n = len(queries), len(maps[0])
    require(len(first) >= heads * (n + 2) + 3, "the theorem says nothing about sequences so short")
    gap = abs(targets[0] - targets[1])
    require(39 * eps < 10 * gap < 42 * eps, "the targets are not 4 epsilon apart")
    apart = sum(max(abs(a[1] - c[0]), abs(c[1] - a[0])) ** 2 for a, c in zip(*reads, strict=True))
    size = n * heads
    # width^2 >= (gap - 2 epsilon)^2 / (size^3 apart)
    width = isqrt(int((gap - 2 * eps) ** 2 / (size**3 * apart)))
    require(width >= 1000, "the pair asks for no wide block")
    return {"width_at_least": width}


def read_by_softmax(queries, maps, beta, tokens):
    """What heads with weights exp(beta q.x) read, row by row of their values, each increased by 3."""
    outputs = []
    for query, rows in zip(queries, maps, strict=True):
        logs = [beta * dot(query, token) for token in tokens]
        require(2 * (max(logs) - min(logs)) >= 1, "a head that weighs all tokens alike")
        weights = [exponential(value - max(logs)) for value in logs]
        total = sum(low for low, _ in weights), sum(high for _, high in weights)
        for line in rows:
            low, high = mixed([dot(line, token) + 3 for token in tokens], weights)  # at least 0
            outputs.append((low / total[1], high / total[0]))
    return outputs


@rule("infoflow.t1.k.order", "separation_exponents", PROVED)
def two_exponents(data):
    """Both printed exponents of Theorem 1, part 1, for all H, n, T in ranges: the informal one is never
    larger, and equal exactly for one head."""
    heads, n, tokens = fields(data, "heads n tokens")
    ranges = (
        range(1, whole(heads, 2, 16) + 1),
        range(1, whole(n, 2, 12) + 1),
        range(1, whole(tokens, 8, 256) + 1),
    )
    smaller = equal = 0
    for h, width, t in product(*ranges):
        informal = Fraction(t - 2 * h, h * (width + 1) + 1) - 1
        formal = Fraction(t - h - 1, h * (width + 1) + 1) - 1
        require(informal <= formal and (informal == formal) == (h == 1), "the informal exponent is larger")
        smaller, equal = smaller + (informal < formal), equal + (informal == formal)
    return {"smaller": smaller, "equal": equal}


@rule("infoflow.t1.identity14", "weighted_means", PROVED)
def weighted_means(data):
    """Identity (14) = (15) at all Q in a grid and V at unit vectors.

    Both sides are linear in (V1, V2, V4, V5) and, times the two denominators, of degree at most 2 in each
    Q, so three values per Q prove it.
    """
    grid = vector(items(fields(data, "grid")[0], 3, 4))
    require(len(set(grid)) >= 3 and min(grid) > 0, "three positive values are needed")
    cases = 0
    for q1, q2, q4, q5 in product(grid, repeat=4):
        for v1, v2, v4, v5 in identity(4):
            first, second = q1 + q4 + q5, q2 + q4 + q5
            left = (q1 * v1 + q4 * v4 + q5 * v5) / first - (q2 * v2 + q4 * v4 + q5 * v5) / second
            right = (q2 - q1) * (q4 * (v4 - v2) + q5 * (v5 - v2)) / (first * second)
            right += q1 / first * (v1 - v2)
            require(left == right, "the sides differ")
            cases += 1
    return {"cases": cases}


@rule("infoflow.t1.kset", "mirrored_cap", MISPRINT)
def mirrored_cap(data):
    """A point b of Q0 and a radius L: no point of -B(b, L) has a negative third coordinate, so it misses
    Q0."""
    centre, given = fields(data, "centre radius")
    b, radius = vector(items(centre, 3, 3)), number(given)
    require(dot(b, b) == 1, "the centre is not on the sphere")
    require(0 < radius < Fraction(7, 10), "a radius above 0 and below 0.7 is needed")
    require(all(Fraction(-1, 2) <= c <= 0 for c in b[:2]) and b[2] < 0, "the centre is not in Q0")
    lowest = -b[2] - radius  # of the third coordinate on -B(b, L)
    require(lowest > 0, "the sets may meet")
    return {"third_coordinate_at_least": text(lowest)}


@rule("infoflow.t1.step3.factor", "single_token", MISPRINT)
def single_token(data):
    """One token x of [-1, 1]^3: softmax has a single weight, so v = x/3 at every beta; x.v is not m/9, the
    stated limit, and (x/3).v is."""
    x = vector(items(fields(data, "token")[0], 3, 3))
    require(any(x) and all(abs(c) <= 1 for c in x), "a token of [-1, 1]^3, not zero, is needed")
    v = [c / 3 for c in x]
    printed, corrected, limit = dot(x, v), dot(v, v), dot(x, x) / 9
    require(printed != limit == corrected, "the printed limit is right")
    return {"printed": text(printed), "corrected": text(corrected), "limit": text(limit)}


@rule("infoflow.t1.a21", "matrix_product", PROVED)
def matrix_product(data):
    """Two matrices of width 6 with entries at most 1, whose product has the single entry -2 in row 2, column
    1."""
    left, right = (shaped(rows, 6, 6) for rows in fields(data, "left right"))
    require(all(abs(entry) <= 1 for row in [*left, *right] for entry in row), "an entry above 1")
    found = [[dot(a, b) for b in zip(*right, strict=True)] for a in zip(*left, strict=True)]
    expected = [[-2 * (i == 1 and j == 0) for j in range(6)] for i in range(6)]
    require(found == expected, "another product")
    return {"entry": text(found[1][0])}


@rule("infoflow.t1.outputo1", "tanh_signs", FAILS)
def few_units(data):
    """p tanh units with weights at most 1 change by at most 2 p tanh(1/3) between c = -1/3 and c = 1/3, where
    2 + 18 c changes by 12; so they are off by at least 6 - p tanh(1/3), here more than 1/5."""
    p = whole(fields(data, "units")[0], 18, 18)
    require(tanh_sum_sign(Fraction(29, 5), [(Fraction(-p), Fraction(1, 3))]) == 1, "the error may be small")
    return {"error_above": "1/5"}


@rule("infoflow.t2.exponents", "retrieval_exponents", PROVED)
def three_exponents(data):
    """The three printed exponents of Theorem 2 at given (T, k, n): that of the proof is the largest."""
    found = []
    for case in several(fields(data, "cases")[0], 3, 8):
        tokens, k, n = (whole(value, 1, 4096) for value in items(case, 3, 3))
        require(2 <= k < tokens, "k must be at least 2 and below T")
        informal, formal, proof = (Fraction(tokens - k + i, n + 1) - 1 for i in (-1, 0, 1))
        require(0 < informal < formal < proof, "the exponents are not positive, or not in order")
        found.append([text(informal), text(formal), text(proof)])
    return {"exponents": found}


@rule("infoflow.t2.pair", "retrieval_pair", PROVED)
def retrieval_pair(data):
    """Seven tokens, k = 2, epsilon = 1/512: two sequences under attention with polynomial weights w(x) =
    exp(rho(x)), which do not decrease and at least double, and one polynomial value f(x) in [0, 1] that
    changes by at least 1/4. Their second largest tokens are 4 epsilon apart (up to 1e-12), and weights and
    values by 1/1000 there; what attention reads less than 1e-6. It reads more than 1e-4 else if the second
    largest token alone is exchanged; so the other tokens hide it."""
    weight, value, first, second = fields(data, "weight value first second")
    w, f = vector(items(weight, 1, 5)), vector(items(value, 1, 5))
    require(min(w) >= 0 and w[0] > 0, "weights must be positive and not decrease")
    high, low = f[0] + sum(max(c, 0) for c in f[1:]), f[0] + sum(min(c, 0) for c in f[1:])
    require(low >= 0 and high <= 1, "values must lie in [0, 1]")
    require(sum(w) >= 2 * w[0] and 4 * abs(sum(f[1:])) >= 1, "attention that reads next to nothing")

    def at(coefficients, x):
        return sum((c * x**i for i, c in enumerate(coefficients)), Fraction(0))

    def read(tokens):
        weights = [at(w, x) for x in tokens]
        return dot(weights, [at(f, x) for x in tokens]) / sum(weights)

    sequences, targets = [], []
    for given in (first, second):
        tokens = vector(items(given, 7, 7))
        require(all(0 <= x <= 1 for x in tokens), "a token outside [0, 1]")
        require(len(set(tokens)) == 7, "a token twice")
        sequences.append(tokens)
        targets.append(sorted(tokens, reverse=True)[1])
    gap = abs(targets[0] - targets[1])
    require(abs(gap - Fraction(4, 512)) <= Fraction(1, 10**12), "the targets are not 4 epsilon apart")
    seen = all(1000 * abs(at(c, targets[0]) - at(c, targets[1])) >= 1 for c in (w, f))
    require(seen, "weights or values that are flat there")
    reads = [read(tokens) for tokens in sequences]
    require(abs(reads[0] - reads[1]) <= Fraction(1, 10**6), "attention tells them apart")
    for tokens, before, old, new in zip(sequences, reads, targets, targets[::-1], strict=True):
        alone = read([new if x == old else x for x in tokens])
        require(10**4 * abs(alone - before) >= 1, "attention does not see the second largest token")
    return {"targets": 2, "collide": True}


@rule("infoflow.t3.heaviside", "step_code", PROVED)
def step_code(data):
    """A code of two Heaviside blocks, from 2 numbers to 1 and back, at every dyadic cell: it is the
    truncation to so many bits."""
    given, encoder, decoder = fields(data, "bits encoder decoder")
    bits, layers = whole(given, 2, 3), []
    for block, (inner, outer) in ((encoder, (2, 1)), (decoder, (1, 2))):
        fields(block, "w_in b_in w_out b_out")
        w_in, b_in, w_out, b_out = units_of(block)
        fits = (
            1 <= len(w_in) == len(b_in) <= 128 and len(w_in[0]) == inner and len(w_out) == len(b_out) == outer
        )
        require(fits, "blocks from 2 numbers to 1 and back are needed")
        layers.append((w_in, b_in, w_out, b_out))
    ticks = {Fraction(k, 2**bits) for k in range(1, 2**bits)}
    for row, b in zip(*layers[0][:2], strict=True):  # nothing happens inside a cell
        one_coordinate = 0 < max(row) == sum(abs(c) for c in row)
        require(one_coordinate and -b / max(row) in ticks, "a step inside a cell")
    cells = 0
    for corner in product((Fraction(0), *sorted(ticks)), repeat=2):
        value = list(corner)
        for w_in, b_in, w_out, b_out in layers:
            value = affine(w_out, [Fraction(int(b >= 0)) for b in affine(w_in, value, b_in)], b_out)
        require(value == list(corner), "a cell is not truncated")
        cells += 1
    return {"cells": cells}


@rule("infoflow.t3.supnorm", "antipodal_signs", VACUOUS)
def antipodal_signs(data):
    """f(V) - f(1 - V) for a tanh encoder of 2 numbers with one output, at two points of one side of the
    square.

    Opposite signs: between the two points, on the side, lies a V with f(V) = f(1 - V), and V and 1 - V differ
    by 1 in the coordinate of the side; so every decoder is off by 1/2 at one of them.
    """
    weights, shifts, outer, points = fields(data, "w_in b_in w_out points")
    b_in, w_out = vector(items(shifts, 1, 8)), vector(outer)
    w_in, corners = shaped(weights, len(b_in), 2), shaped(points, 2, 2)
    used = [[c * w for w in row] for c, row in zip(w_out, w_in, strict=True)]
    shares = [sum(map(abs, column)) for column in zip(*used, strict=True)]
    require(100 * min(shares) >= max(shares), "an encoder that next to ignores one of the numbers")
    require(all(0 <= c <= 1 for point in corners for c in point), "a point outside the square")
    sides = [i for i, values in enumerate(zip(*corners, strict=True)) if set(values) in ({0}, {1})]
    require(sides, "the points do not lie on one side")
    signs = []
    for point in corners:
        terms = []
        for row, b, c in zip(w_in, b_in, w_out, strict=True):
            terms.append((c, dot(row, point) + b))
            terms.append((-c, dot(row, [1 - v for v in point]) + b))
        signs.append(tanh_sum_sign(Fraction(0), terms))
    require(signs[0] * signs[1] < 0, "the signs agree")
    return {"signs": signs, "side": sides[0]}


def tanh_sizes(data):
    """Numbers of units, rising, and bounds of p tanh(1/p) for each."""
    sizes = [whole(p, 1, 256) for p in items(fields(data, "sizes")[0], 3, 8)]
    require(all(a < b for a, b in pairwise(sizes)) and sizes[-1] >= 16 * sizes[0], "sizes must grow")
    return {p: mixed([Fraction(p)], [tanh_bounds(Fraction(1, p))]) for p in sizes}


@rule("infoflow.t3.o", "tanh_signs", MISPRINT)
def networks_of_every_size(data):
    """p tanh(v/p) is within 1/4 of v on [0, 1] for p of every size: its error is largest at 1, where it is
    below 1/4. So an upper bound on the number of parameters does not follow."""
    found = tanh_sizes(data)
    require(all(low > Fraction(3, 4) for low, _ in found.values()), "an error of 1/4 or more")
    return {"sizes": list(found)}


@rule("infoflow.t3.identity", "tanh_signs", FAILS)
def never_exact(data):
    """p tanh(v/p), with weights at most 1, is off at v = 1 for every p: below 1."""
    found = tanh_sizes(data)
    require(all(high < 1 for _, high in found.values()), "it is exact")
    return {"sizes": list(found)}


# The second paper, information sets and comparisons

APPENDIX_E = [[0, -1], ["7/10", "7/10"], [0, 1], ["-1/5", "-9/10"]]


@rule("infoflow.law.versions", "exponents", INCONSISTENT)
def versions_of_the_law(data):
    """The exponents of the cost of reading 64 tokens of 4 numbers in width 36, as five places print them."""
    tokens, d, width = (whole(value, 1, 4096) for value in fields(data, "tokens d width"))
    require([tokens, d, width] == [64, 4, 36], "another example")
    law, upper, plain_share = (
        Fraction(tokens * d, width) - 1, Fraction(tokens * d, width), Fraction(tokens, width)
    )  # fmt: skip
    require(len({law, upper, plain_share}) == 3, "the versions agree there")
    return {"section 5.2": text(law), "appendix A.3, section 6": text(upper),
            "section 4.2, appendix B.2": text(plain_share)}  # fmt: skip


@rule("infoflow.if.appe", "information_sets", MISPRINT)
def example_of_appendix_e(data):
    """With the printed score the example ends without the active set {1, 3}; with the other sign it runs as
    printed. Positions count from 0 here."""
    require(same(APPENDIX_E, fields(data, "tokens")[0]), "the tokens of appendix E are needed")
    tokens = matrix(APPENDIX_E)
    least = min(dot(x, y) for x in tokens for y in tokens)
    active = {t for t, x in enumerate(tokens) if any(dot(x, y) == least for y in tokens)}
    printed, negated = (information_sets(tokens, sign) for sign in (1, -1))
    require(not active <= set(printed[1]) and active == set(negated[1]), "the printed sign is right")
    require(negated[0] == [[0, 2], [1, 3], [0, 2], [2, 3]], "the other sign gives other sets than printed")
    return {"printed": printed[1], "negated": negated[1]}


@rule("infoflow.c1.two-layer", "information_sets", FAILS)
def three_and_three(data):
    """64 tokens, maxima of six coordinates at six of them, two layers with three heads each: CLS reads the
    first three maxima in layer 1 and the others in layer 2, and holds all of them."""
    tokens = shaped(fields(data, "tokens")[0], 64, 6)
    winners = [only_best([token[i] for token in tokens]) for i in range(6)]
    layer_1, layer_2 = set(winners[:3]), set(winners[3:])
    require(len(set(winners)) == 6, "fewer heads could hold them")
    return {"maxima": winners, "cls": sorted(layer_1 | layer_2)}


@rule("infoflow.fig4", "positional_weights", PROVED)
def positional_weights(data):
    """A head that scores b on three of ten positions and 0 elsewhere, whatever the tokens are: the weight of
    each of the three, and what the other seven get together, cut to six digits."""
    (score,) = fields(data, "score")
    low, high = exponential(-Fraction(whole(score, 5, 60)))
    each = [1 / (3 + 7 * high), 1 / (3 + 7 * low)]
    rest = [7 * low / (3 + 7 * low), 7 * high / (3 + 7 * high)]
    require(rest[1] < Fraction(1, 1000), "the others still count")
    return {"each": digits(each), "others": digits(rest)}


@rule("infoflow.if.fig2", "comparison_trees", PROVED)
def two_small_trees(data):
    """The inputs of figure 2, and two trees over {1, 2}, {3, 4}: their roots are 3 and 1, from 1."""
    values = vector(items(fields(data, "inputs")[0], 4, 4))
    require(values == [Fraction(n, 10) for n in (1, 3, 4, 2)], "the inputs of figure 2 are needed")
    roots = []
    for sign in (1, -1):
        left, right = (max(pair, key=lambda t: sign * values[t]) for pair in ((0, 1), (2, 3)))
        roots.append([left, right, max((left, right), key=lambda t: sign * values[t])])
    require([root[2] for root in roots] == [2, 0], "other roots")
    return {"roots": roots, "comparisons": 6}


@rule("infoflow.if.eq5.empty", "equation_5", PROVED)
def empty_sets(data):
    """Equation (5) for the example of appendix E, where the first set of CLS is empty: it counts -1; counted
    0, the sum is larger."""
    given = fields(data, "tokens beta1 heads token_sets cls_sets")
    require(same([4, 2, [1, 1], [2], [0, 2]], given), "the example of appendix E is needed")
    printed = model_comparisons(*given)
    return {"printed": printed, "clamped": printed + given[-1].count(0)}


@rule("infoflow.if.eq5.global", "equation_5", FAILS)
def global_head(data):
    """Three maxima of eight tokens, one layer, one head that reads everything and so learns by definition:
    (5) is less than the D(T - D) comparisons that the target needs; with D trees inside the set it is at
    least D(T - 1)."""
    tokens, maxima = fields(data, "tokens maxima")
    whole(tokens, 8, 8), whole(maxima, 3, 3)
    printed = model_comparisons(tokens, 1, [1], [], [tokens])
    repaired = maxima * (tokens - 1) + tokens - 1
    require(printed < maxima * (tokens - maxima), "step 1 accepts the model")
    return {"printed": printed, "needed": maxima * (tokens - maxima), "repaired": repaired}


@rule("infoflow.cmp.dret.ae", "active_sets", FAILS)
def one_token_for_two_maxima(data):
    """max x_1 + max x_2 on [0, 1]^2: one token is larger than all others in both coordinates, strictly, so on
    an open set the active set has one element."""
    tokens = matrix(items(fields(data, "tokens")[0], 3, 12))
    inside = all(len(token) == 2 and all(0 < c < 1 for c in token) for token in tokens)
    require(inside, "tokens inside the unit square are needed")
    winners = [only_best([token[i] for token in tokens]) for i in range(2)]
    require(winners[0] == winners[1], "two tokens win")
    return {"active": [winners[0]]}


@rule("infoflow.cmp.zero", "single_leaves", PROVED)
def single_leaves(data):
    """D0 single leaves of at most beta1 positions that hold all T = D0 beta1 positions: no comparison."""
    tokens, max_active, dimension, leaves = fields(data, "tokens max_active dimension leaves")
    whole(tokens, 4, 64), whole(max_active, 2, 16), whole(dimension, 2, 4)
    trees = [{"term": 0, "leaves": [leaf]} for leaf in items(leaves, 1, max_active)]
    require(tokens == max_active * dimension, "T must be the largest number possible")
    comparisons, longest = covering_trees(trees, tokens, 1, 1)
    require(longest <= dimension and comparisons == 0, "a leaf that is too long")
    return {"comparisons": comparisons}


@rule("infoflow.cmp.pair.half", "covering_trees", PROVED)
def trees_of_pairs(data):
    """Trees over unordered pairs for D bilinear terms, D0 = 2D of them at most: they work for almost every
    input and make D(C(T,2) - C(2D,2) - 1) comparisons."""
    tokens, terms, trees = fields(data, "tokens terms trees")
    D, T = whole(terms, 2, 4), whole(tokens, 3, 24)
    require(4 * D < T and items(trees, 1, 2 * D), "no comparison is needed for T <= 4D")
    comparisons, longest = covering_trees(trees, T, D, 2)
    require(longest <= 2, "a leaf that is too long")
    require(comparisons == D * (comb(T, 2) - comb(2 * D, 2) - 1), "another number of comparisons")
    return {"comparisons": comparisons, "paper": D * (T**2 - 1)}


@rule("infoflow.cmp.tri.lb", "covering_trees", FAILS)
def trees_of_triples(data):
    """At most D0 = 3 trees over triples that work for almost every input with fewer than C(T,3) - 3
    comparisons, T > 6."""
    found = []
    for case in several(fields(data, "cases")[0], 1, 4):
        tokens, trees = fields(case, "tokens trees")
        T = whole(tokens, 7, 16)
        comparisons, longest = covering_trees(items(trees, 1, 3), T, 1, 3)
        require(longest <= 3 and comparisons < comb(T, 3) - 3, "as many comparisons as stated")
        found.append([comparisons, comb(T, 3) - 3])
    return {"comparisons": found}


@rule("infoflow.cmp.tri.upper", "covering_trees", PROVED)
def tree_of_all_triples(data):
    """One tree with T^3 leaves, the ordered triples with repetition: it works, with T^3 - 1 comparisons."""
    T = whole(fields(data, "tokens")[0], 3, 8)
    leaves = [list(triple) for triple in product(range(T), repeat=3)]
    comparisons, longest = covering_trees([{"term": 0, "leaves": leaves}], T, 1, 3)
    require(comparisons == T**3 - 1 and longest == 3, "another number of comparisons")
    return {"comparisons": comparisons}


@rule("infoflow.cmp.tri.domain", "active_sets", UNSTATED)
def triples_of_one_token(data):
    """The triangle-center target on [0, 1]: at inputs of different tokens the active set is the least token
    alone, so that without a shift D0 is 1 there."""
    active = []
    for given in several(fields(data, "inputs")[0], 2, 8):
        tokens = shaped(given, len(several(given, 3, 8)), 1)
        require(all(0 <= token[0] <= 1 for token in tokens), "a token outside [0, 1]")
        found = active_set([{"sign": -1, "arity": 3, "form": ["norm"]}], tokens)
        require(len(found) == 1, "several tokens are active")
        active.append(found)
    return {"active": active}


@rule("infoflow.6-a", "head_counts", UNSTATED)
def heads_by_counting(data):
    """The least s with s(T - 1) >= D(T - D): D exactly for T > D(D - 1) + 1, for D from 2 to a bound and
    D < T < 3 D^2; and at the given lengths."""
    maxima, tokens, largest = fields(data, "maxima tokens largest")
    whole(maxima, 2, whole(largest, 4, 16))

    def fewest(D, T):
        return -(-(D * (T - D)) // (T - 1))

    for D in range(2, largest + 1):
        for T in range(D + 1, 3 * D * D):
            require((fewest(D, T) == D) == (T > D * (D - 1) + 1), "another condition")
    found = [fewest(maxima, whole(T, maxima + 1, 4096)) for T in items(tokens, 2, 8)]
    require(min(found) < maxima == max(found), "lengths on both sides of the condition are needed")
    return {"fewest": found}


@rule("infoflow.p1.47", "equation_5", MISPRINT)
def printed_inequality(data):
    """The count (5) of two layers of max-position heads is larger than the right side of (47), and at most
    that with (h1 + h2)(T - 1) in place of 2(T - 1)."""
    tokens, heads = fields(data, "tokens heads")
    T = whole(tokens, 16, 4096)
    h1, h2 = (whole(h, 1, 8) for h in items(heads, 2, 2))
    exact = two_layer_maximum(T, h1, h2)
    rest = T * (h1 + 1) ** 2 - T + h1 * T * (T - 1) + h1**2 + (h1 + 1) ** 2 * (h2 + 1) ** 2 - 2
    require(rest + 2 * (T - 1) < exact <= rest + (h1 + h2) * (T - 1), "(47) holds there")
    return {"exact": exact, "printed": rest + 2 * (T - 1)}


@rule("infoflow.p1.h1", "equation_5", FAILS)
def fewer_first_heads(data):
    """Heads (h1, D) with h1 < D, and yet enough comparisons for N = D(T^2 - 1), at T = 64; and half of D
    heads in layer 1 at lengths up to a million, for the number that is enough (infoflow.cmp.pair.half)."""
    maxima, first, lengths = fields(data, "maxima first lengths")
    D, h1 = whole(maxima, 2, 6), whole(first, 1, 6)
    reached, half = two_layer_maximum(64, h1, D), (D + 1) // 2
    require(h1 < D and reached >= D * (64**2 - 1), "the count refuses these heads")
    tokens = [whole(T, 2 * D + 1, 10**7) for T in several(lengths, 3, 6)]
    enough = [D * (comb(T, 2) - comb(2 * D, 2) - 1) for T in tokens]
    accepted = all(two_layer_maximum(T, half, D) >= n for T, n in zip(tokens, enough, strict=True))
    require(accepted and max(tokens) >= 10**6, "the count refuses half of the heads, or lengths are short")
    return {"reached": reached, "needed": D * (64**2 - 1), "half": half}


@rule("infoflow.p1.h2", "equation_5", FAILS)
def fewer_last_heads(data):
    """Heads (D, h2) with h2 < D, and yet enough comparisons for N = D(T^2 - 1), at T = 64."""
    maxima, last = fields(data, "maxima last")
    D, h2 = whole(maxima, 2, 6), whole(last, 1, 6)
    reached = two_layer_maximum(64, D, h2)
    require(h2 < D and reached >= D * (64**2 - 1), "the count refuses these heads")
    return {"reached": reached, "needed": D * (64**2 - 1)}


@rule("infoflow.p1.distinct", "active_sets", FAILS)
def multiples_of_the_identity(data):
    """Distinct multiples c I of the identity: at every given input one token, the longest, is active for all
    terms."""
    factors, inputs = fields(data, "factors inputs")
    multiples = vector(items(factors, 2, 4))
    require(min(multiples) > 0 and len(set(multiples)) == len(multiples), "distinct positive factors")
    active = []
    for given in several(inputs, 2, 8):
        tokens = shaped(given, len(several(given, 4, 6)), 2)
        terms = [
            {"sign": 1, "arity": 2, "form": ["bilinear", [[text(c), 0], [0, text(c)]]]} for c in multiples
        ]
        found = active_set(terms, tokens)
        require(len(found) == 1, "several tokens are active")
        active.append(found[0])
    return {"active": active}


@rule("infoflow.p2.premise", "square_roots", FAILS)
def slow_targets(data):
    """The maximum over the first r of T = r^2 positions: r - 1 comparisons are enough, and (r - 1)/T falls
    below every constant; yet no order is below 1."""
    roots = [whole(r, 2, 10**6) for r in items(fields(data, "roots")[0], 3, 8)]
    shares = [Fraction(r - 1, r * r) for r in roots]
    falls = all(5 * b < a for a, b in pairwise(shares)) and shares[-1] < Fraction(1, 1000)
    require(falls, "the shares do not fall")
    return {"shares": [text(share) for share in shares]}


@rule("infoflow.p2.heads", "equation_5", FAILS)
def many_heads(data):
    """Two layers of H heads, all sets of size 1: enough comparisons for C(T,3) - 3, with H below T/4."""
    tokens, heads = fields(data, "tokens heads")
    T, H = whole(tokens, 16, 4096), whole(heads, 1, 1024)
    reached = model_comparisons(T, 3, [H, H], [1], [1, 1])
    require(reached >= comb(T, 3) - 3 and 4 * H < T, "more heads are needed")
    return {"reached": reached, "needed": comb(T, 3) - 3}


@rule("infoflow.p2.superpoly", "exponents", FAILS)
def one_exponent_per_length(data):
    """For fixed T, L, E the exponent T^(2/3)/(6LE) - 1 is one number: the cost is at most a power of 1/eps
    with a whole exponent that does not depend on eps; given for rising T."""
    tokens, depth, width = fields(data, "tokens depth width")
    L, E = whole(depth, 1, 64), whole(width, 1, 1024)
    degrees = []
    lengths = several(tokens, 3, 8)
    for T in lengths:
        square = whole(T, 2, 10**9) ** 2
        degree = 0
        while (6 * L * E * (degree + 1)) ** 3 < square:  # T^(2/3) / (6LE) - 1 <= degree
            degree += 1
            require(degree <= 10**4, "too large an exponent")
        degrees.append(degree)
    require(all(a < b for a, b in pairwise(lengths)), "T must rise")
    require(degrees[-1] > degrees[0], "no growth to be seen")
    return {"degrees": degrees}


@rule("infoflow.p2-b", "exponents", MISPRINT)
def printed_term(data):
    """With beta1 = beta' = 3 the printed term H L T^3 alone is at least N <= C(T,3); with H L T^2, as in
    (55), it is smaller for T > 6 H L + 3. With each H and L at two lengths, one 16 times the other or
    more: what grows is T."""
    cases = several(fields(data, "cases")[0], 2, 12)
    for case in cases:
        T, H, L = (whole(value, 1, 10**6) for value in items(case, 3, 3))
        require(comb(T, 3) <= H * L * T**3, "something follows about M")
        require(T > 6 * H * L + 3 and comb(T, 3) > H * L * T**2, "T must be large against H L")
    for size in {(H, L) for _, H, L in cases}:
        lengths = [T for T, *given in cases if tuple(given) == size]
        require(max(lengths) >= 16 * min(lengths), "T does not grow")
    return {"cases": len(cases)}


# The second paper, its tables; the digests are of the printed numbers, as the certificates list them


def printed_table(table, sha256):
    """A table of exact numbers that is the printed one."""
    require(digest(table) == sha256, "these are not the printed numbers")
    return table


RECOVERY_TABLES = "dc7cc28aa8f2cea50b5ecb8ae89fc89d6ef4176eea93356140f3456dbf460eb4"
TABLE_11 = "dac660dd2e8e41cccc40faf70617433ae2caa1465c42b81a6dbfb1632c0c7d0e"
TABLE_12 = "b9da89200b23100d0b859117376eadad3a194766ac2d178691f56363a405ac32"


@rule("infoflow.tab.ratios", "printed_table", PROVED)
def quotients(data):
    """Tables 1 to 10: initialised, trained and ratio of every head, rounded to four digits; the ratios
    fit."""
    rounding, count = Fraction(1, 20000), 0
    for entry in printed_table(fields(data, "tables")[0], RECOVERY_TABLES):
        for before, after, ratio in (vector(column) for column in entry["columns"]):
            low, high = (after - rounding) / (before + rounding), (after + rounding) / (before - rounding)
            require(low <= ratio + rounding and high >= ratio - rounding, "a ratio that does not fit")
            count += 1
    return {"columns": count}


@rule("infoflow.tab.range", "printed_table", FAILS)
def range_of_ratios(data):
    """Tables 1 to 3: the smallest and the largest ratio, and how many are a tenth or less. The largest does
    not count: the appendix announces six tables, and three of them are not printed."""
    tables = printed_table(fields(data, "tables")[0], RECOVERY_TABLES)[:3]
    ratios = [number(column[2]) for entry in tables for column in entry["columns"]]
    tenth = sum(ratio <= Fraction(1, 10) for ratio in ratios)
    below = min(ratios) < Fraction(75, 1000)  # so it is not 0.08 when rounded
    require(below and tenth < len(ratios), "0.08 is the smallest, or all are a tenth or less")
    return {"smallest": text(min(ratios)), "largest": text(max(ratios)), "at most a tenth": tenth}


@rule("infoflow.c1.configs", "printed_table", FAILS)
def configurations(data):
    """Tables 1 to 10: the configurations of heads, and the width per head of the first layer."""
    tables = printed_table(fields(data, "tables")[0], RECOVERY_TABLES)
    heads = {tuple(entry["heads"]) for entry in tables}
    widths = {entry["heads"][0]: Fraction(entry["width"], entry["heads"][0]) for entry in tables}
    require(len(heads) != 6 and len(set(widths.values())) > 1, "six configurations of one width")
    return {"configurations": len(heads), "widths": [text(widths[h]) for h in sorted(widths)]}


@rule("infoflow.tab.11a", "printed_table", FAILS)
def order_of_magnitude(data):
    """Table 11: errors of (D, D) that are not below 1e-4, so not of the order 1e-5."""
    table = printed_table(fields(data, "rows")[0], TABLE_11)
    large = [D for D, *errors in table if number(errors[0]) >= Fraction(1, 10**4)]
    require(large, "all are below 1e-4")
    return {"not below 1e-4": large}


@rule("infoflow.tab.11b", "printed_table", FAILS)
def two_orders(data):
    """Table 11: D <= 5 at which one head less costs a factor below 100."""
    table = printed_table(fields(data, "rows")[0], TABLE_11)
    gaps = {D: [number(error) / number(full) for error in others] for D, full, *others in table if D <= 5}
    small = [D for D, each in gaps.items() if min(each) < 100]
    require(small, "all factors are 100 or more")
    return {"below 100": small}


@rule("infoflow.tab.12", "printed_table", FAILS)
def almost_identical(data):
    """Table 12: an error below 0.85 at T = 16, and lengths at which the models differ by more than 5 %."""
    table = {T: vector(errors) for T, *errors in printed_table(fields(data, "rows")[0], TABLE_12)}
    differ = [T for T, errors in table.items() if max(errors) / min(errors) > Fraction(21, 20)]
    require(min(table[16]) <= Fraction(85, 100) and differ, "above 0.85, and almost identical")
    return {"smallest at 16": text(min(table[16])), "differ": differ}


# Rules that stand in the folders of papers; docs/write.py copies them
# moe


def top_set(scores, k):
    """The k experts with the largest scores, which must be apart from the others."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    require(scores[order[k - 1]] > scores[order[k]], "the best k are not determined")
    return frozenset(order[:k])


@rule("moe.capacity", "top_k_sets", UNSTATED)
def fewer_sets_than_vertices(data):
    """N experts and inputs of dimension d: fewer cells of N hyperplanes in dimension d + 1 than sets of k
    experts, so no router chooses all. And score vectors in R^N at which every set of k is chosen."""
    d, k, points = fields(data, "d k points")
    rows = matrix(items(points, 2, 1000))
    n = len(rows[0])
    whole(n, 3, 12), whole(k, 1, n - 1), whole(d, 1, n - 2)
    spend(len(rows) * n)
    chosen = {top_set(scores, k) for scores in rows}
    most = arrangement(n, d + 1)
    require(most < comb(n, k) == len(chosen), "not fewer in dimension d, or not all in score space")
    return {"at most": most, "in score space": len(chosen)}


# classical


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


# end of the rules of folders


STATEMENTS: dict[str, str] = {
    "tropical.def_iii1": "8f8c847a67a183f1d2c4148845a7a5aeac3a0852684594ec4655fc3a33ee6f86",
    "tropical.newton_characterises": "642679c05e88b4f141069ba177e96b791645510375712069e58f6edaa4ddf74a",
    "tropical.def_iii7": "95278eb9f105fb52b02ac45dd11df48bcceaeec0f76a483d0ca4f3f1c27f6da1",
    "tropical.loglift_same_walls": "4686d1e77e684c98ffca6ba3393cb5124a78886d7b94a06e3418f5c5195d526f",
    "tropical.rem_iii12": "fef039eb9358159080efe04e0e32b975f2f73a9662f0f06a0bbdd4df84345559",
    "tropical.ffn_is_trop_poly": "405395b3c34e6854c7d942954164c9744e73e7ea91128efd4bb609c2a907bb96",
    "tropical.cpwl_closure": "031a7ca5c6fb3e6a7c60cfe95b3dd2540e96cd197ed29321980514a938f39768",
    "tropical.ex_iii3_49": "e3bb2c03fed114ff6e91ee6ab14426f63fdb640d21686f5653a1b5c65ccc02d1",
    "tropical.zaslavsky": "5209f00dc30300ae070d6fb143422dfd3451f57388b02a4cbe54b16b378e432d",
    "tropical.zaslavsky_e_bound": "e9d0922fd70d478b44e76dc2d1ad47bd6641a953b8e78510d26c07aab956da1d",
    "tropical.cell_nonempty_iff_vertex": "4194ae8c836bf2535d45b940f098533b08e3eee28514d22042d348d83bc3d232",
    "tropical.cells_bounded": "dee2fa20bcadea49d6a8cd54897ad6f8095fcdf1f45afc030e0b008f608b8045",
    "tropical.layernorm_norms_keys": "399d7b977fc8649aaac30c1db2df2c36c3d648c16f4cfb4a2bc9de315a5ffe16",
    "tropical.fig3_caption": "80d4b177d519a70035b0da536bf62fb1f046409afbe456b7cf22ba65cdf846a3",
    "tropical.rem_iv5": "bb604fb1f9ea31f98457a5aef9cfdd6acefb27126be380bc27c88593d6ddf510",
    "tropical.mink_product_regime": "6ce9f7bcc0d36db35696cd962ab94ea19917f3ca4b2361d99c5cbf7f04163810",
    "tropical.mink_max_linear": "f37c04a544f6f9fa13bbaa5767423414b72c10620beb05ecb83168e55b60c20f",
    "tropical.mink_max_affine": "ec4f16d663f55e935706f166b19b41460a47d9e3ecde3f9694b87dd55cf1b373",
    "tropical.saturated_floor_d_half": "eda4c3f0fcad02ffbbafc679e89f95c9cb720e6f08fe4a3a981e37fb03728d6a",
    "tropical.fig4_216": "3404814ae54c8b73b6f080cc1f15a6257fcb8ed5a2d9dfcf820d35d9dd164331",
    "tropical.pow_512_8": "d075691104749cd55395f17dbcc1b6bebf1e74e81dd636d3a17f965863a36433",
    "tropical.cor_v4": "5dffa8a46f709113202a668c852d20783146e2ec348d4231bd5b5971c8758309",
    "tropical.app_e_constant": "6086c55a9bafcde4c1e5f1e8c280de80273f1e3bcb73431ffa27fb2d7993fc63",
    "tropical.rem_v6": "236f258eb5de3c69bc82ee8f18f1d1ff5d71d74fdf92e7299e5a5655c89df2c5",
    "tropical.block_is_refinement": "7cfcd9fbea8c7522ad6e4c5ca568ad880bb59ccec6fc01e4d348ce66f12f4822",
    "tropical.lemma_f1": "d4a15ca41a2b030c3aef8f93c2b91da041734f64aee5463ae92a8a68885de6e4",
    "tropical.lemma_f2": "3b5ac113e100f386b121c16bebee3fe9a7bf4aa808b883e091ff86a2b516b7f2",
    "tropical.v7_count": "bcda603c2ab7fecb6329314d1a8144fd428a003e30d45f247f18a7b3f19d7e94",
    "tropical.v7_formula_equality": "4ca4d95ac68606c88cd5410f213315e995c9ffdb0e1847d70f4f9678a69da9fd",
    "tropical.v7_bound": "d85fbc0a61ee8715f2757fb60f08cfb74ad99448ba13b1d116491395430fa204",
    "tropical.v7_bias_free_fixed": "cd94095588b7d35e05dc2f2a76d2c77613e94d09e78a58a56e50c2c00a58e218",
    "tropical.v7_continuous": "04823e3f828b4b09c6cd05fc48dfc13043c7278bd918b3599c786e49396eaab4",
    "tropical.v7_maps_distinct": "68b39012a91f3397cd26f5d5fefbbc6dbad47424ed93682210bacf9de45cc850",
    "tropical.v7_with_ffn_skip": "cfb835e22e749bca5729a0404a48a34f801ef916af338670373bd3d61ff3655a",
    "tropical.v7_genuine_d_plus_3": "2b16cd46babd5951f228d5f959ba9dd8bc1dc3921edee9627128f6e7a2686a6e",
    "tropical.v7_genuine_d_plus_1": "8f62ab580bb29badc2506577b8ecc82090f0c2b045b9c9d6e4f36950a88049b5",
    "tropical.rem_v8": "5281199f73e33058a08b7ddb63fe72b3bd8902cb795bfee5db6fc05eb2019f60",
    "tropical.theta_exponent": "6fdad4f3697eee89d5dee73408130ff2fed80f4288610a56d3ebdfe745c31df4",
    "tropical.v9_gap": "ffa40d4044de7b4060980853c401c25f20c8056c2aa4f0dfa9e9b3a00dffa723",
    "tropical.fig1": "60fa666f28949b731f6ed0b0c066d764661e11948d2e318adbf6f3e74e3b9e21",
    "tropical.cov_lemma": "cb934e13e13b1929ba2a624ddc8aa5ce23830567178f593a7519cc1fcd1ba855",
    "tropical.lse_hess_paper": "960e5d5080e1ec1cfc652170a375a4a0ecaaf5adc722c09f658a0da2674551bf",
    "tropical.lse_affine_paper": "d211c603ff9d4d4457603aa0ab7549c9eba5912d11c6c0d208c7705806b5b4c9",
    "tropical.ex_vi2_numbers": "769ad867057c799adf14331f6fab28b407707e5dfb918ca8d3d5e0d9a5d9e4d5",
    "tropical.ex_vi2_tau": "0bfc7ebe617f6a782a9091c2f40707fba79bdb2185570d881e5046ca90f74495",
    "tropical.uniform_limit": "ff49978bf19ef9f82089a21da456d39ffc744025f5a6a11b1cf7c4c914c527da",
    "tropical.finite_tau_depth": "fd11ff502f5c8ba0b8c6a9d866063189fefd4010507b36715f4cd778eb327f9d",
    "tropical.mc_lower_bound_regions": "eec25df1a862de8b85098ee848b4ba7ba98d996c0ac3753fd1764f8e00ef0e9d",
    "tropical.fig6b_interior_explanation": "3f0824bb0660834799269a9e4b0cbe9c4ae133afbb69f6f0b488334348f90236",
    "infoflow.t1.lower": "dd1f1a4748e2aed6927ca5dd8b4eafdde711f794c4abef2203710e935858a3ee",
    "infoflow.t1.k.order": "55eaf08ec5f7a2b1daf90a0142a0597a28b7716849563208c3fa1141c4cc8428",
    "infoflow.t1.identity14": "ffe1ed613b448ed00981123b4b6ed1f3c72a970bc6aaa8a447e47f6a707f51ec",
    "infoflow.t1.kset": "a9d9922d5b318f3b0932dda8e4e4dbe1cdf4eaf88c482b9e0d35b449ce363029",
    "infoflow.t1.step3.factor": "90f24fe994b28c8d488c795697504024a5dd388a4dc78c0deedd6723a7b47d9f",
    "infoflow.t1.a21": "543f36588a7f2fddf662e9260fe4320e6d5d0d8e06918ee31d543bcde2b3363d",
    "infoflow.t1.outputo1": "2a40ce9354b251280a7596dda83d752344a634eb5ac658e210185d37f76595a1",
    "infoflow.t2.exponents": "192327388c26ace10a91cff6982d891a8c10094f91251eacfe4894b2321faaab",
    "infoflow.t2.pair": "48de8ad06cc8ba87eb46cb36703514f011cacffaf8c07d8c4158a531f827765b",
    "infoflow.t3.heaviside": "1b0bbfd647d583038b8032a8188acdb84c69ee61a25c49db9f6d95521c4d6078",
    "infoflow.t3.supnorm": "85c586092d302d732e57f053207f85c85c2605e15c17584cdd3e38af10b51e6e",
    "infoflow.t3.o": "ac03926f0d09d35208510b7ee8d58bb1568a98d636cd5bdfd8d22289d4270b0e",
    "infoflow.t3.identity": "456ec81fc90986cc70139b6998523423e1f990c4ee2cb5ac795a5f68fc8e912b",
    "infoflow.law.versions": "01f9c37936483be50345ccdd39161c120812608e9e2daf2c2f53bf4bcc5a0364",
    "infoflow.if.appe": "8e0d05d2c5a344aa39f5af1267f200aa5f97e620fbc6e2e00ca473f0de8ed312",
    "infoflow.c1.two-layer": "6bfdfa488dbec75280e32334e4f1b20f84c6e82313df3a21e40792b71e84e2f8",
    "infoflow.fig4": "86a30dc893562cb4e44d78038d9186b86a90abf453c02befad6a251234efde0f",
    "infoflow.tab.ratios": "411d2862f05f0b351eceef4566029ef3260e77c60ffaf1da6699531bc547d2bf",
    "infoflow.tab.range": "082b8eae3d883f6d4cb15fa56cbbb4ec3e60d9be53d334ce7456bc69df12f119",
    "infoflow.c1.configs": "36ad43446d5fdfc1b31f5eb342ffc9f2eb023541dc1eeb2783361bda2857721b",
    "infoflow.if.fig2": "606ec4ab6f41927f58f05f96409c82c7b4db2549ceae70fe6862aa4d6c151a7a",
    "infoflow.if.eq5.empty": "2fb9b4a07e5c997cad8ac127521fba0c91bb247478594d4658848587651201d5",
    "infoflow.if.eq5.global": "e9b970a3a859b268fd8aebdad70c2795d4d8dcdcf73203bd38ab4ae113876d40",
    "infoflow.cmp.dret.ae": "18330a3dbd6bffea0f591244a2265c10f98898d516f879bb00d2aa7b77b160e3",
    "infoflow.cmp.zero": "3c25d7f3001591fb8bfc81a960a912931596b8366fb879dc5255e05b0e33801b",
    "infoflow.cmp.pair.half": "be4972686429e8ccfb45e390ecb556fb05e4550e6ff6a9eeaf887014ddcee164",
    "infoflow.cmp.tri.lb": "3eac136b194df60d7569a6fac0750542fd3849726edf598d1e578ec005951747",
    "infoflow.cmp.tri.upper": "4c115bd4aaa86c168e189aac234aa637f0ad17b63460badbf442c5cb2d53a888",
    "infoflow.cmp.tri.domain": "fc8d336752c41988171a99d02608a3138517cbb1c2b9b4a37ccb17f4f3f4054b",
    "infoflow.6-a": "16a1c0d2054b970ac5461a9abcfbbc54020486d4591dfd0f0598b12b6f76afc8",
    "infoflow.p1.47": "98ff7ba03426b3c9c0871d18332db56eed7beb872b2dcf0ddd343b88bfba88ae",
    "infoflow.p1.h1": "7869e842031d3b0aa0b18db43502f4430c018b01eb6bbc0507ca5d098845f028",
    "infoflow.p1.h2": "f4668860269c3cb91902d92e9ea8815ee7b6d5801ed35e2005f21f76fcd70e69",
    "infoflow.p1.distinct": "e9bc4ea76d662ab7f681546f4168983d84f0c13be6fe99a604d71fc734337cd1",
    "infoflow.tab.11a": "e6824ff54a95fec1e51511ae6f7d71157a6b275fbb85180188c0c99719f065ce",
    "infoflow.tab.11b": "4337febebd0a7c15c3f976c48929c455b447ccca1397b316a1b130373989248b",
    "infoflow.p2.premise": "e9d79c73cb5007ee89f0f6517638471d31ec7335b07baa9a84aac57a014247c2",
    "infoflow.p2.heads": "ca38d13457fcaf0233a5711034e7909b71665f85b10487c6715e5e9f0b51530d",
    "infoflow.p2.superpoly": "82c281780d07ec78b5c712438e67acddb6e5abc28aaaacee970ae9eebfa6a139",
    "infoflow.p2-b": "91eeb2a07dd4874054ee6a832e2912751179b8f81d5a6bac8eee56b768880902",
    "infoflow.tab.12": "5f64eacd0d3b4899b617231ab55027d818b1624db3f58208de7d5dfbc83530db",
    "moe.capacity": "af4bf293a845a651aadfc21cca89c2303901bc145aaa2fb7d02c302fbcadbf2d",
    "classical.zaslavsky.regions": "69e1a6e86719436deb89d110c52bae0f67be3ce2b88e6a47b9c80efbe2cffc9f",
    "classical.zaslavsky.bounded": "edfa221ae39f84c6766b810d1771e897f4c9fd306350306865c17d662bf407cb",
    "classical.zaslavsky.general": "8eab5c6d26cc7b3aa3e85ba43cebe7680843c956f174d063625fd6363ae7a207",
    "classical.montufar.lower": "8653584edc5946cdee1d81c36bc8733efdfc8813df8e028e1d126b5229e23d18",
    "classical.serra.line": "6291bf6e1adad799dd9d7fd537420de8e3f6af05c0a28ebb3c5baa32c2dfb0c2",
}
# end of the statements


# Reading certificates
# ----------------------------------------------------------------------------------------------------------

NAMES = (
    "schema", "claim", "place", "statement", "hypotheses", "sha256", "verdict", "kind", "data", "expected",
    "hardmax", "commit",
)  # fmt: skip


def statement_digest(claim: str, place: str, statement: str, hypotheses: str) -> str:
    """The SHA-256 that stands for a statement: its name, place, words and hypotheses, line by line."""
    return digest("\n".join((claim, place, statement, hypotheses)))


def value_of(claim: object, data: Any) -> Any:
    """What the rule of a claim computes from data, or why it refuses them."""
    if not isinstance(claim, str) or claim not in RULES:
        raise Rejected(f"unknown claim {shown(claim)}")
    Work.begin()
    try:
        bounded(data)
        return RULES[claim].check(data)
    except RecursionError:
        raise Rejected("the data are nested too deeply") from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise Rejected(f"the data do not fit together ({type(error).__name__})") from None
    finally:
        Work.end()


def bounded(value: Any, depth: int = 0) -> int:
    """How many leaves a value has; too many, or too deep a nesting, is refused."""
    require(depth <= DEEPEST, "the data are nested too deeply")
    if isinstance(value, dict):
        require(all(isinstance(name, str) and len(name) <= 40 for name in value), "a name that is too long")
        leaves = sum(bounded(item, depth + 1) for item in value.values())
    elif isinstance(value, list):
        leaves = sum(bounded(item, depth + 1) for item in value)
    else:
        leaves = 1
    require(leaves <= MOST_LEAVES, "there are too many data")
    return leaves


def failure(record: Any) -> str | None:
    """Why a certificate is not accepted, or None if it is."""
    try:
        judge(record)
    except Rejected as reason:
        return str(reason)
    return None


def judge(record: Any) -> None:
    """Reject a certificate, or return."""
    fits = isinstance(record, dict) and sorted(record) == sorted(NAMES)
    require(fits, f"it is no certificate: {', '.join(NAMES)} are needed, and nothing else")
    schema = record["schema"]
    require(schema == SCHEMA and type(schema) is int, f"its schema is {shown(schema)}, not {SCHEMA}")
    words = [record[name] for name in ("claim", "place", "statement", "hypotheses")]
    short = all(isinstance(word, str) and len(word) <= LONGEST_TEXT for word in words)
    require(short, "claim, place, statement and hypotheses must be short texts")
    claim = words[0]
    require(claim in RULES, f"unknown claim {shown(claim)}")
    rule = RULES[claim]
    found = statement_digest(*words)
    require(record["sha256"] == found, "its SHA-256 is not that of its statement")
    require(found == STATEMENTS.get(claim), "its statement is not that of the claim")
    version, commit = record["hardmax"], record["commit"]
    named = isinstance(version, str) and re.fullmatch(r"[0-9][0-9a-z.+!-]{0,39}", version, re.ASCII)
    require(named, "hardmax must be the version of the package")
    named = isinstance(commit, str) and re.fullmatch(r"[0-9a-f]{40}( changed)?|unknown", commit, re.ASCII)
    require(named, "commit must name a commit, or be unknown")
    require(record["kind"] == rule.kind, f"{claim} needs data of the kind {rule.kind}")
    require(record["verdict"] == rule.verdict, f"the data of {claim} can only show: {rule.verdict}")
    value = value_of(claim, record["data"])
    same_value = same(value, record["expected"])
    require(same_value, f"computed {shown(value)}, expected {shown(record['expected'])}")


def same(value: Any, expected: Any) -> bool:
    """Whether a computed value is what a file says, entry by entry; 1, "1" and true are three things."""
    if isinstance(value, dict) and isinstance(expected, dict):
        named = {str(key): item for key, item in value.items()}
        return named.keys() == expected.keys() and all(same(named[key], expected[key]) for key in named)
    if isinstance(value, (list, tuple)) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(same, value, expected))
    return type(value) is type(expected) and value == expected


def no_floats(literal):
    """Refuse floating-point literals."""
    raise ValueError(f"{literal[:40]} is a floating-point literal")


def short_integer(literal):
    """An integer of bounded length."""
    if len(literal) > LONGEST_NUMBER:
        raise ValueError("an integer has too many digits")
    if literal == "-0":
        raise ValueError("minus zero is no integer")
    return int(literal)


def no_doubles(pairs):
    """An object whose names are all different."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return made


def read(path: Any) -> Any:
    """The certificate in a file; ValueError or OSError if there is none."""
    if not Path(path).is_file():  # a named pipe would keep the reader waiting
        raise OSError("it is no file, or cannot be read")
    with open(path, "rb") as file:
        raw = file.read(LARGEST_FILE + 1)
    if len(raw) > LARGEST_FILE:
        raise ValueError(f"the file is larger than {LARGEST_FILE} bytes")
    line = raw.decode("utf-8")
    depth = deepest = 0
    quoted = False
    for mark in re.findall(r'\\.|["\[\]{}]', line, re.DOTALL):
        if mark == '"':
            quoted = not quoted
        elif not quoted:
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark, 0)
            deepest = max(deepest, depth)
    if deepest > DEEPEST + 1:
        raise ValueError("the brackets are nested too deeply")
    return json.loads(
        line,
        parse_float=no_floats,
        parse_constant=no_floats,
        parse_int=short_integer,
        object_pairs_hook=no_doubles,
    )


def files_in(arguments):
    """The files that are meant: a folder stands for the JSON files in it, or for itself if it has none."""
    for argument in arguments:
        path = Path(argument)
        try:
            found = sorted(path.glob("*.json")) if path.is_dir() else []
        except (OSError, ValueError):
            found = []
        yield from found or [path]


def outcome(record: Any, path: object) -> tuple[bool, str]:
    """Whether a certificate is accepted, and one line about it that holds no control character."""
    why = failure(record)
    if why is None:
        return True, f"{record['claim']}: {record['verdict']}; {record['kind']} = {shown(record['expected'])}"
    claim = record.get("claim") if isinstance(record, dict) else None
    name = claim if isinstance(claim, str) and claim in RULES else f"the file {shown(str(path))}"
    return False, f"{name}: {why}"


def main(arguments: list[str]) -> int:
    """Check every certificate, print a line for each, and return the exit code."""
    paths = list(files_in(arguments))
    if not paths:
        sys.stderr.write(__doc__)
        return 2
    code = 0
    for path in paths:
        try:
            record = read(path)
        except (OSError, ValueError, RecursionError) as error:
            sys.stdout.write(f"unreadable the file {shown(str(path))}: {shown(str(error))}\n")
            code = 2
            continue
        accepted, line = outcome(record, path)
        sys.stdout.write(f"{'accepted  ' if accepted else 'REJECTED  '} {line}\n")
        code = code if accepted else max(code, 1)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
