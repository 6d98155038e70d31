"""Check certificates of hardmax without hardmax: one file, nothing but the standard library.

    python replay.py certificate.json ...        files, or folders of them

A certificate is a JSON object {schema, kind, claim, statement, data, expected}. For its kind there is one
function ``check_<kind>(data)`` below that recomputes a value in exact arithmetic; the certificate is accepted
if that value is ``expected``. Exact numbers are integers or strings "p/q"; a string with "0x" is a float64 as
``float.hex`` writes it. Floating-point literals are refused, so nothing is rounded on the way.

Exit code 0: every certificate was accepted. 1: at least one was not. 2: a file is no certificate.
"""

import json
import re
import sys
from fractions import Fraction
from functools import reduce
from itertools import pairwise, product
from math import comb, factorial, lcm
from operator import add, mul, sub, truediv
from pathlib import Path
from typing import Any

SCHEMA = 1


class Rejected(Exception):
    """A certificate that does not show what it says."""


# What all kinds share
# ----------------------------------------------------------------------------------------------------------


def number(value):
    """An exact number: an integer, "p/q", or the hexadecimal form of a float."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise Rejected(f"{value!r} is no exact number")
    try:
        if isinstance(value, str) and "0x" in value:
            return Fraction(float.fromhex(value))
        return Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise Rejected(f"{value!r} is no exact number") from None


def natural(value):
    """An integer of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Rejected(f"{value!r} is no natural number")
    return value


def vector(values):
    """A list of exact numbers."""
    return [number(value) for value in values]


def matrix(rows):
    """A list of vectors of one length."""
    made = [vector(row) for row in rows]
    require(len({len(row) for row in made}) <= 1, "rows of different lengths")
    return made


def dot(a, b):
    """The inner product of two vectors of one length."""
    require(len(a) == len(b), "vectors of different lengths")
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
    return int(value) if value.denominator == 1 else str(value)


def require(condition, why):
    """Reject the certificate unless the condition holds."""
    if not condition:
        raise Rejected(why)


# Claims of hardmax.papers.tropical.sec3_algebra and sec4_diagrams
# ----------------------------------------------------------------------------------------------------------


def check_diagrams(data):
    """Which scores a.x + b of each diagram win on an open set.

    A winner has a point at which its score is larger than every other; a loser is at most a convex
    combination of the others everywhere. Every score must be one or the other.
    """
    return {"winning": [winning_scores(diagram) for diagram in data["diagrams"]]}


def winning_scores(diagram):
    """The numbers of the winners, each proven, and each of the others proven to lose."""
    rows = matrix(diagram["scores"])
    winners = {natural(int(j)): vector(point) for j, point in diagram["winners"].items()}
    losers = {natural(int(j)): vector(weights) for j, weights in diagram["losers"].items()}
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


def check_routing(data):
    """All scores a.x + b that are largest at each point, and which scores are the same function."""
    rows = matrix(data["scores"])
    same = [[i, j] for j in range(len(rows)) for i in range(j) if rows[i] == rows[j]]
    return {"winners": [best(rows, vector(point)) for point in data["points"]], "identical": same}


def best(rows, point):
    """The numbers of all largest scores at a point."""
    scores = [dot(row, [*point, 1]) for row in rows]
    return [j for j, score in enumerate(scores) if score == max(scores)]


def check_recession(data):
    """A ray in a cell: the score that is largest at ``point`` stays so along ``direction``, without end."""
    rows, point, direction = matrix(data["scores"]), vector(data["point"]), vector(data["direction"])
    winner = only_best([dot(row, [*point, 1]) for row in rows], "the point lies on a wall")
    require(any(direction), "the direction is zero")
    slopes = [dot(row[:-1], direction) for row in rows]
    require(slopes[winner] == max(slopes), "another score catches up along the ray")
    return {"winner": winner, "unbounded": True}


def check_normalised_keys(data):
    """Keys of tokens that LayerNorm leaves as they are: norms, best score and nearest key at a query."""
    tokens, key_map, query = matrix(data["tokens"]), matrix(data["key_map"]), vector(data["query"])
    for token in tokens:
        require(sum(token) == 0 and dot(token, token) == len(token), "a token is not normalised")
    keys = [[dot(row, token) for row in key_map] for token in tokens]
    scores = [dot(key, query) for key in keys]
    nearness = [-sum((a - b) ** 2 for a, b in zip(key, query, strict=True)) for key in keys]
    return {
        "squared_norms": [text(dot(key, key)) for key in keys],
        "largest_score": only_best(scores, "a tie at the query"),
        "nearest": only_best(nearness, "a tie at the query"),
    }


def check_self_attention(data):
    """Which tokens the first token attends to, at two sequences and at their midpoint; keys move along."""
    form, first, second = matrix(data["form"]), matrix(data["first"]), matrix(data["second"])
    require(len(first) == len(second), "sequences of different lengths")
    middle = [[(a + b) / 2 for a, b in zip(x, y, strict=True)] for x, y in zip(first, second, strict=True)]
    winners = []
    for tokens in (first, second, middle):
        winners.append(only_best([dot(tokens[0], [dot(row, key) for row in form]) for key in tokens]))
    return {"winners": winners}


def check_log_lift(data):
    """The log-lifted head max_j(k_j.q + v_j) - max_l k_l.q at points, and which keys are routed to."""
    keys, values = matrix(data["keys"]), vector(data["log_values"])
    require(len(keys) == len(values), "one log-value per key is needed")
    lifted, winners = [], []
    for point in matrix(data["points"]):
        scores = [dot(key, point) for key in keys]
        lifted.append(text(max(s + v for s, v in zip(scores, values, strict=True)) - max(scores)))
        winners.append([j for j, s in enumerate(scores) if s == max(scores)])
    return {"values": lifted, "winners": winners}


# Networks: a list of blocks, each with its exact arrays


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


def check_network_points(data):
    """How many different signatures, and how many different affine maps, a network shows at points.

    With ``box``, a list [low, high] per coordinate, the points must lie in it, and the value names it.
    """
    signatures, maps = set(), set()
    box = [vector(ends) for ends in data.get("box", [])]
    for coordinates in data["points"]:
        point = vector(coordinates)
        if box:
            inside = (low <= x <= high for x, (low, high) in zip(point, box, strict=True))
            require(all(inside), "a point lies outside the box")
        signature, linear, offset, _ = passed(data["network"], point)
        signatures.add(json.dumps(signature))
        maps.add(json.dumps([[text(a) for a in row] for row in [*linear, offset]]))
    found = {"signatures": len(signatures), "maps": len(maps)}
    return {**found, "box": [[text(end) for end in ends] for ends in box]} if box else found


def check_network_values(data):
    """The values of a network at points, whether on a fold or not."""
    return {"values": [[text(v) for v in plain_value(data["network"], vector(p))] for p in data["points"]]}


def plain_value(network, value):
    """The value of a network of affine maps and ReLU layers."""
    for block in network:
        if block["block"] == "Affine":
            value = affine(matrix(block["w"]), value, vector(block["b"]))
            continue
        require(block["block"] == "FeedForward", "only affine maps and ReLU layers")
        w_in, b_in, w_out, b_out = units_of(block)
        out = affine(w_out, [max(b, 0) for b in affine(w_in, value, b_in)], b_out)
        value = added(out, value) if block["skip"] else out
    return value


def check_network_line(data):
    """Every cell of networks with one input on an interval: cells, linear regions, jumps, and how many
    signatures given points show. With ``ends``, also the ends of the cells, and the values that the map of
    each cell has at its two."""
    found = []
    for network in data["networks"]:
        low, high = vector(data["interval"])
        require(low < high, "an empty interval")
        pieces = [(low, high, [], [Fraction(1)], [Fraction(0)])]
        for block in network:
            pieces = [part for piece in pieces for part in cut(block, piece)]
        seen = {json.dumps(passed(network, vector(point))[0]) for point in data.get("points", [])}
        regions = 1 + sum(one[3:] != two[3:] for one, two in pairwise(pieces))
        jumps = sum(value_at(one[1], one) != value_at(one[1], two) for one, two in pairwise(pieces))
        counts = {"cells": len(pieces), "regions": regions, "jumps": jumps, "signatures": len(seen)}
        found.append({**counts, **ends_of(pieces)} if data.get("ends") else counts)
    return {"networks": found}


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


# Claims of hardmax.papers.tropical.sec5_heads, sec3_relu_layers and sec5_theorem_v7
# ----------------------------------------------------------------------------------------------------------


def check_heads(data):
    """How many tuples of keys, one per head, win together at the given points.

    Beside it stands the largest number that heads with as many keys can have. It is proven in
    docs/minkowski.md for linear scores up to three dimensions and affine scores up to two; beyond, it is due
    to Weibel (2012) and to Montufar, Ren and Zhang (2021).
    """
    found = []
    for family in data["families"]:
        heads = [whole_rows(matrix(rows)) for rows in family["heads"]]
        linear = all(row[-1] == 0 for rows in heads for row in rows)
        choices = set()
        for point in family["points"]:
            (scaled,) = whole_rows([[*vector(point), Fraction(1)]])
            choices.add(tuple(strict_winner(rows, scaled) for rows in heads))
        d = len(heads[0][0]) - 1
        most = vertex_maximum(max(map(len, heads)), len(heads), d, linear)
        found.append({"cells": len(choices), "at_most": most})
    return {"families": found}


def whole_rows(rows):
    """The rows times one positive number that makes them whole."""
    common = lcm(*(value.denominator for row in rows for value in row))
    return [[int(value * common) for value in row] for row in rows]


def strict_winner(rows, point):
    """The number of the row with the largest product, which must be the only one."""
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


def check_power(data):
    """An integer power."""
    return {"value": natural(data["base"]) ** natural(data["exponent"])}


def check_arrangement(data):
    """Cells of n hyperplanes in dimension d, and whether they are more than (e n / d)^d."""
    n, d = natural(data["n"]), natural(data["d"])
    e_above = sum(Fraction(1, factorial(k)) for k in range(20)) + Fraction(2, factorial(20))
    return {"cells": arrangement(n, d), "more": arrangement(n, d) > (e_above * n / d) ** d}


def check_cell_bound(data):
    """The bound (V R)^L on the cells of a transformer with linear scores, and the number (N^d w^d)^L,
    w = floor(d_ff / 2d), that it is claimed to reach with H = d heads."""
    n, d = natural(data["n_tokens"]), natural(data["d"])
    d_ff, depth = natural(data["d_ff"]), natural(data["depth"])
    most = (vertex_maximum(n, d, d, True) * arrangement(d_ff, d)) ** depth
    return {"at_most": most, "claimed": (n**d * (d_ff // (2 * d)) ** d) ** depth}


def check_two_layers(data):
    """A bound on the cells of a ReLU network with two layers of n units in dimension d.

    On a cell of the first layer with k units on, the second layer sees an image of dimension min(k, d), and
    cells of the first layer have different patterns: take the best patterns, as many as there can be cells.
    """
    n, d = natural(data["n"]), natural(data["d"])
    pieces = [arrangement(n, min(k, d)) for k in range(n + 1) for _ in range(comb(n, k))]
    best_first = sorted(pieces, reverse=True)
    return {"at_most": sum(best_first[: arrangement(n, d)]), "product": arrangement(n, d) ** 2}


def check_shared_layer(data):
    """A transformer whose tokens all pass through one layer again and again, without biases.

    The first ``moving`` coordinates of the last token are the input. Counted are its signatures, that is
    which keys and which ReLU units it meets on its way, and the different values it ends with.
    """
    parts = ([matrix(w) for w in data[name]] for name in ("w_q", "w_k", "w_v", "w_o"))
    heads = list(zip(*parts, strict=True))
    w_in, w_out, moving = matrix(data["w_in"]), matrix(data["w_out"]), natural(data["moving"])
    signatures, values = set(), set()
    for point in data["points"]:
        tokens = matrix(data["tokens"])
        tokens[-1][:moving] = vector(point)
        require(len(point) == moving, "a point of another dimension")
        signature = []
        for _ in range(natural(data["depth"])):
            tokens, seen = shared_layer(heads, w_in, w_out, tokens)
            signature.append(seen)
        signatures.add(json.dumps(signature))
        values.add(tuple(tokens[-1][:moving]))
    return {"signatures": len(signatures), "values": len(values)}


def shared_layer(heads, w_in, w_out, tokens):
    """FFN(x + MHSA(x)) for all tokens, and what the last one met; ties of other tokens are averaged."""
    after, met = [], []
    for t, token in enumerate(tokens):
        y, choice = list(token), []
        for w_q, w_k, w_v, w_o in heads:
            query = [dot(row, token) for row in w_q]
            scores = [dot([dot(row, other) for row in w_k], query) for other in tokens]
            tied = [j for j, score in enumerate(scores) if score == max(scores)]
            require(t < len(tokens) - 1 or len(tied) == 1, "the point lies on a wall")
            choice.append(tied[0])
            for j in tied:
                read = [dot(row, [dot(v, tokens[j]) for v in w_v]) for row in w_o]
                y = [a + b / len(tied) for a, b in zip(y, read, strict=True)]
        before = [dot(row, y) for row in w_in]
        after.append([dot(row, [max(b, Fraction(0)) for b in before]) for row in w_out])
        met = [choice, [int(b > 0) for b in before]]
    return after, met


# Claims of hardmax.papers.tropical.sec6_bounds and sec6_limits
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
    """An interval around exp(value): a Taylor polynomial near zero, squared again and again."""
    require(abs(value) < 10**6, "an exponent that is too large")
    halvings = max(0, abs(value.numerator).bit_length() - value.denominator.bit_length() + 9)
    x = value / 2**halvings
    require(abs(x) <= Fraction(1, 128), "an argument that is too large")
    term, total, j = Fraction(1), Fraction(1), 0
    while abs(term) > Fraction(1, 2 ** (BITS + halvings)):
        j += 1
        term = few_bits(term * x / j, 1)
        total += term
    error = (j + 2) * Fraction(1, 2 ** (BITS + halvings - 1))  # the rest of the series, and each rounding
    low, high = outwards(total - error, total + error)
    for _ in range(halvings):
        low, high = outwards(low * low, high * high)
    return low, high


def logarithm(value):
    """An interval around log(value): powers of two are split off, the rest is 2 artanh((x - 1) / (x + 1))."""
    require(value > 0, "the logarithm of a number that is not positive")
    twos = value.numerator.bit_length() - value.denominator.bit_length()
    low, high = artanh(value / Fraction(2) ** twos)
    below, above = sorted(twos * end for end in artanh(Fraction(2)))
    return outwards(low + below, high + above)


def artanh(value):
    """An interval around log(value) for a value between 1/2 and 2, by the series of 2 artanh."""
    z = (value - 1) / (value + 1)
    require(abs(z) <= Fraction(1, 3), "an argument that is too large")
    power, total, j = z, Fraction(0), 1
    for _ in range(BITS // 3):
        total += power / j
        power, j = few_bits(power * z * z, 0), j + 2
    error = abs(power) + Fraction(BITS, 2 ** (BITS - 2))
    return 2 * (total - error), 2 * (total + error)


def check_softmax_covariance(data):
    """The variance of a vector u under weights, over u.u: a lower bound on the norm of diag(p) - p p^T.

    For each case: the quotient, whether it exceeds max p(1 - p), and whether it exceeds m e, where the first
    of m + 1 weights is the largest and e is the largest of the others over it.
    """
    cases = []
    for case in data["cases"]:
        weights, u = vector(case["weights"]), vector(case["vector"])
        fit = min(weights) > 0 and max(weights) == weights[0] and any(u)
        require(fit, "no weights with the largest first")
        p = [w / sum(weights) for w in weights]
        quotient = (dot(p, [x * x for x in u]) - dot(p, u) ** 2) / dot(u, u)
        printed = (len(p) - 1) * max(weights[1:]) / weights[0]
        cases.append(
            {
                "quotient": text(quotient),
                "above_lemma": quotient > max(x * (1 - x) for x in p),
                "above_printed": quotient > printed,
            }
        )
    return cases


def check_tangent_error(data):
    """Two keys at temperature 1, with e = exp(-margin) before and after a step: how far the gradient and the
    tangent plane are off, over the printed bounds e |s - s'| and e |s - s'|^2 / 2, in thousandths, rounded
    down.
    """
    before, after = number(data["before"]), number(data["after"])
    require(0 < after < before <= 1, "the step must go away from the wall")
    low, high = logarithm(before / after)  # the margin grows by this, each score moves by half of it
    moved = before / (1 + before) - after / (1 + after)
    gradient = [moved / (before * x / 2) for x in (high, low)]
    curve = logarithm((1 + after) / (1 + before))
    share = before / (1 + before)
    rest = [share * low + curve[0], share * high + curve[1]]
    tangent = [rest[0] / (before * high * high / 4), rest[1] / (before * low * low / 4)]
    return {"gradient": thousandths(gradient), "tangent": thousandths(tangent)}


def thousandths(interval):
    """A number in thousandths, rounded down, if the interval leaves no doubt."""
    low, high = (int(1000 * end // 1) for end in interval)
    require(low == high, "the interval is too wide")
    return low


def check_softmax_tail(data):
    """What N - 1 rivals at a margin do at a temperature, each number truncated to six digits.

    value: the log-sum-exp above the maximum; gradient: the printed bound 2 m e; hessian_printed: m e over the
    temperature; hessian_attained: N e / (1 + m e)^2 over it; top_probability: 1 / (1 + m e).
    """
    n, margin, tau = natural(data["n_tokens"]), number(data["margin"]), number(data["temperature"])
    require(n >= 2 and margin > 0 and tau > 0, "no rivals, no margin or no temperature")
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


def check_soft_output(data):
    """The distance of a soft output from the value of its largest weight, on the line.

    Weights w_j are softmax weights up to a factor; scores s_j = log(w_j) temperature have them at every
    temperature.
    """
    weights, values = vector(data["weights"]), vector(data["values"])
    require(min(weights) > 0 and weights.count(max(weights)) == 1, "no single largest weight")
    output = dot(weights, values) / sum(weights)
    return text(abs(output - values[weights.index(max(weights))]))


def check_soft_signatures(data):
    """At how many points a network has the same signature at a temperature as at zero.

    Blocks are attention and ReLU layers in exact numbers. At temperature zero everything is rational; above
    it intervals are carried along, and every routing and every ReLU bit must be decided by them.
    """
    tau = number(data["temperature"])
    require(tau > 0, "no temperature")
    kept = 0
    for point in data["points"]:
        x = [(c, c) for c in vector(point)]
        kept += interval_signature(data["network"], x, None) == interval_signature(data["network"], x, tau)
    return {"points": len(data["points"]), "kept": kept}


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


# Claims of hardmax.papers.tropical.sec7_counts
# ----------------------------------------------------------------------------------------------------------


def check_sum_of_heads(data):
    """How many sums of one key per head are vertices, and how many keys of each head are.

    A winner is a tuple of keys with a query at which it beats every other key in every head; a loser is a
    tuple whose sum is a convex combination of sums of other tuples. Every tuple must be one or the other.
    """
    heads = [matrix(rows) for rows in data["heads"]]
    everything = set(product(*(range(len(rows)) for rows in heads)))
    winners = set()
    for choice, point in data["winners"]:
        query = vector(point)
        won = tuple(only_best([dot(row, query) for row in rows], "a tie at the query") for rows in heads)
        require(won == tuple(choice), "another tuple wins at the query")
        winners.add(won)
    losers = set()
    for choice, support, weights in data["losers"]:
        shares = vector(weights)
        require(shares and min(shares) > 0 and sum(shares) == 1, "no convex combination")
        require(choice not in support and len(support) == len(shares), "a tuple in its own combination")
        points = [key_sum(heads, other) for other in support]
        mixed = [dot(shares, column) for column in zip(*points, strict=True)]
        require(mixed == key_sum(heads, choice), "a sum is not the combination of others")
        require(any(point != mixed for point in points), "a sum is only compared with itself")
        losers.add(tuple(choice))
    require(not winners & losers, "a tuple both wins and loses")
    require(winners | losers == everything, "a tuple is not accounted for")
    return {
        "extreme_keys": [len({choice[h] for choice in winners}) for h in range(len(heads))],
        "sums": len(everything),
        "vertices": len(winners),
    }


def key_sum(heads, choice):
    """The sum of one key per head."""
    require(len(choice) == len(heads), "one key per head is needed")
    keys = [rows[natural(j)] for rows, j in zip(heads, choice, strict=True)]
    return [sum(column, Fraction(0)) for column in zip(*keys, strict=True)]


# Claims about the theorems of the InfoFlow paper
# ----------------------------------------------------------------------------------------------------------


def check_separation_exponents(data):
    """Both printed exponents of Theorem 1, part 1, for all H, n, T in ranges: is the informal one ever
    larger?"""
    smaller = equal = cases = 0
    equal_only_for_one_head = True
    ranges = (range(1, natural(data[name]) + 1) for name in ("heads", "n", "tokens"))
    for heads, n, tokens in product(*ranges):
        informal = Fraction(tokens - 2 * heads, heads * (n + 1) + 1) - 1
        formal = Fraction(tokens - heads - 1, heads * (n + 1) + 1) - 1
        cases, smaller, equal = cases + 1, smaller + (informal < formal), equal + (informal == formal)
        equal_only_for_one_head &= (informal == formal) == (heads == 1)
    return {"cases": cases, "smaller": smaller, "equal": equal, "equal_iff_one_head": equal_only_for_one_head}


def check_retrieval_exponents(data):
    """The three printed exponents of Theorem 2 at given (T, k, n)."""
    found = []
    for tokens, k, n in data["cases"]:
        informal, formal, proof = (Fraction(tokens - k + i, n + 1) - 1 for i in (-1, 0, 1))
        require(informal < formal < proof, "the exponents are not in order")
        found.append([text(informal), text(formal), text(proof)])
    return {"exponents": found}


def check_weighted_means(data):
    """Identity (14) = (15) of P2 at all Q in a grid and V at unit vectors.

    Both sides are linear in (V1, V2, V4, V5) and, times the two denominators, of degree at most 2 in each
    Q, so three values per Q prove it.
    """
    grid = vector(data["grid"])
    require(len(set(grid)) >= 3 and min(grid) > 0, "three positive values are needed")
    agree = cases = 0
    for q1, q2, q4, q5 in product(grid, repeat=4):
        for v1, v2, v4, v5 in identity(4):
            first, second = q1 + q4 + q5, q2 + q4 + q5
            left = (q1 * v1 + q4 * v4 + q5 * v5) / first - (q2 * v2 + q4 * v4 + q5 * v5) / second
            right = (q2 - q1) * (q4 * (v4 - v2) + q5 * (v5 - v2)) / (first * second)
            right += q1 / first * (v1 - v2)
            cases, agree = cases + 1, agree + (left == right)
    return {"cases": cases, "agree": agree}


def check_mirrored_cap(data):
    """A point b of Q0 and a radius L: no point of -B(b, L) has a negative third coordinate, so it misses
    Q0."""
    b, radius = vector(data["centre"]), number(data["radius"])
    require(dot(b, b) == 1, "the centre is not on the sphere")
    require(all(Fraction(-1, 2) <= c <= 0 for c in b[:2]) and b[2] < 0, "the centre is not in Q0")
    lowest = -b[2] - radius  # of the third coordinate on -B(b, L)
    return {"third_coordinate_at_least": text(lowest), "misses": lowest > 0}


def check_single_token(data):
    """One token x: softmax has a single weight, so v = x/3 at every beta; x.v, (x/3).v and m/9."""
    x = vector(data["token"])
    v = [c / 3 for c in x]
    return {"printed": text(dot(x, v)), "corrected": text(dot(v, v)), "limit": text(dot(x, x) / 9)}


def check_matrix_product(data):
    """The product of a transposed matrix and a matrix, and the largest entry of either factor."""
    left, right = matrix(data["left"]), matrix(data["right"])
    require(len(left) == len(right), "factors that do not fit")
    product = [[dot(a, b) for b in zip(*right, strict=True)] for a in zip(*left, strict=True)]
    largest = max(abs(entry) for row in [*left, *right] for entry in row)
    return {"product": [[text(entry) for entry in row] for row in product], "largest": text(largest)}


def tanh_bounds(x):
    """Rationals around tanh(x) = (1 - e) / (1 + e), e = exp(-2x)."""
    low, high = exponential(-2 * x)
    return (1 - high) / (1 + high), (1 - low) / (1 + low)


def tanh_sum_sign(constant, terms):
    """The sign of constant + sum of c tanh(a), proven."""
    low, high = shifted(mixed([c for c, _ in terms], [tanh_bounds(a) for _, a in terms]), constant)
    require(low > 0 or high < 0, "the sign is not certain")
    return 1 if low > 0 else -1


def check_tanh_signs(data):
    """Signs of sums constant + sum_i c_i tanh(a_i)."""
    found = []
    for entry in data["sums"]:
        terms = [(number(c), number(a)) for c, a in entry["terms"]]
        found.append(tanh_sum_sign(number(entry["constant"]), terms))
    return {"signs": found}


def check_antipodal_signs(data):
    """f(V) - f(1 - V) for a tanh encoder with one output at two points of one face of the cube.

    Opposite signs: between the two points, on the face, lies a V with f(V) = f(1 - V), and V and 1 - V
    differ by 1 in the coordinate of the face.
    """
    w_in, b_in, w_out = matrix(data["w_in"]), vector(data["b_in"]), vector(data["w_out"])
    points = matrix(data["points"])
    require(all(0 <= c <= 1 for point in points for c in point), "a point outside the cube")
    faces = [i for i, values in enumerate(zip(*points, strict=True)) if set(values) in ({0}, {1})]
    require(faces, "the points do not lie in one face")
    signs = []
    for point in points:
        terms = []
        for row, b, c in zip(w_in, b_in, w_out, strict=True):
            terms.append((c, dot(row, point) + b))
            terms.append((-c, dot(row, [1 - v for v in point]) + b))
        signs.append(tanh_sum_sign(Fraction(0), terms))
    return {"signs": signs, "face": faces[0]}


def check_retrieval_pair(data):
    """Two sequences under attention with polynomial weights w(x) = exp(rho(x)) and one polynomial value
    f(x)."""
    weight, value, k = vector(data["weight"]), vector(data["value"]), natural(data["k"])
    require(min(weight) >= 0 and weight[0] > 0, "weights must be positive and not decrease")

    def at(coefficients, x):
        return sum((c * x**i for i, c in enumerate(coefficients)), Fraction(0))

    reads, targets = [], []
    for name in ("first", "second"):
        tokens = vector(data[name])
        require(all(0 <= x <= 1 for x in tokens), "a token outside [0, 1]")
        weights = [at(weight, x) for x in tokens]
        reads.append(dot(weights, [at(value, x) for x in tokens]) / sum(weights))
        targets.append(sorted(tokens, reverse=True)[k - 1])
    gap, attention = abs(targets[0] - targets[1]), abs(reads[0] - reads[1])
    return {
        "targets_apart": gap >= number(data["target_gap"]),
        "attention_apart": attention > number(data["attention_gap"]),
    }


def check_step_code(data):
    """A code of two Heaviside blocks at every dyadic cell: is it the truncation to so many bits?"""
    bits, m = natural(data["bits"]), len(data["encoder"]["w_in"][0])
    blocks = [units_of(data["encoder"]), units_of(data["decoder"])]
    ticks = {Fraction(k, 2**bits) for k in range(1, 2**bits)}
    for row, b in zip(*blocks[0][:2], strict=True):  # nothing happens inside a cell
        one_coordinate = max(row) == 1 and sum(abs(c) for c in row) == 1
        require(one_coordinate and -b in ticks, "a step inside a cell")
    exact = cells = 0
    for corner in product((Fraction(0), *sorted(ticks)), repeat=m):
        value = list(corner)
        for w_in, b_in, w_out, b_out in blocks:
            value = affine(w_out, [Fraction(int(b >= 0)) for b in affine(w_in, value, b_in)], b_out)
        cells, exact = cells + 1, exact + (value == list(corner))
    return {"cells": cells, "truncated": exact}


# Claims about information sets and comparisons
# ----------------------------------------------------------------------------------------------------------


def check_active_sets(data):
    """Which positions a target depends on at every input, found by trying all tuples.

    A term is {"sign": 1 or -1, "arity": r, "form": ...}: the maximum (sign 1) or minimum (sign -1) over all
    r-tuples of positions, with repetition, of a form: ["linear", w] is w.x, ["bilinear", A] is x'Ay,
    ["norm"] is the squared norm of the sum. A best tuple must be unique up to order.
    """
    return {"active": [active_set(data["terms"], matrix(tokens)) for tokens in data["inputs"]]}


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


def check_comparison_trees(data):
    """How many comparisons trees make, and at how many inputs their roots miss the active set.

    Every tree is a list of leaves (tuples of positions); its root is the leaf that is best for one term of
    ``data["terms"]``, over all tuples made of the positions of the leaf. A leaf longer than the dimension
    that the certificate names is refused.
    """
    terms, trees = data["terms"], data["trees"]
    longest = natural(data["dimension"])
    for tree in trees:
        require(tree["leaves"], "a tree without leaves")
        require(all(1 <= len(leaf) <= longest for leaf in tree["leaves"]), "a leaf that is too long")
    missed = 0
    for rows in data["inputs"]:
        tokens = matrix(rows)
        roots = set()
        for tree in trees:
            term = terms[natural(tree["term"])]
            roots |= set(max(tree["leaves"], key=lambda leaf: leaf_value(term, tokens, leaf)))
        missed += not set(active_set(terms, tokens)) <= roots
    comparisons = sum(len(tree["leaves"]) - 1 for tree in trees)
    return {"comparisons": comparisons, "missed": missed}


def leaf_value(term, tokens, leaf):
    """The best value of a term over the tuples of positions of one leaf."""
    places = product(leaf, repeat=natural(term["arity"]))
    return max(term["sign"] * form_value(term["form"], [tokens[t] for t in place]) for place in places)


def check_information_sets(data):
    """Information sets of max-position heads with bilinear scores, position by position.

    ``first``: per head of the first layer a matrix B, so that token t reads argmax_s x_t'Bx_s (lowest s at a
    tie). ``reads``: which sets the classification token reads in the first layer, as linear scores.
    ``last``: per head of the last layer a form, whose best value over the set of a token is its score (with
    the other sign, if it says "negated").
    """
    tokens = matrix(data["tokens"])
    sets = []
    for t, x in enumerate(tokens):
        held = {t}
        for rows in data["first"]:
            held.add(first_best([form_value(["bilinear", rows], [x, y]) for y in tokens]))
        sets.append(held)
    cls = {first_best([dot(vector(w), y) for y in tokens]) for w in data["reads"]}
    after_one = [sorted(held) for held in sets]
    kept = [{t} for t in range(len(tokens))] if data["pruned"] else sets
    for term in data["last"]:
        factor = -1 if term.get("negated") else 1
        cls |= kept[first_best([factor * leaf_value(term, tokens, sorted(held)) for held in kept])]
    return {"after one layer": after_one, "cls": sorted(cls)}


def first_best(values):
    """The first position of the largest value."""
    return values.index(max(values))


# Claims about the tables of the InfoFlow paper
# ----------------------------------------------------------------------------------------------------------


def check_relations(data):
    """Which relations between exact expressions are true.

    An expression is a number, or a list of an operation and its arguments: + - * / ^ min max binomial.
    """
    return {"true": [relation_holds(*line) for line in data["relations"]]}


def relation_holds(left, relation, right):
    """Whether one relation is true."""
    a, b = expression(left), expression(right)
    truths = {"<": a < b, "<=": a <= b, "=": a == b, "!=": a != b, ">=": a >= b, ">": a > b}
    require(relation in truths, f"unknown relation {relation!r}")
    return truths[relation]


def expression(tree):
    """The value of an expression."""
    if not isinstance(tree, list):
        return number(tree)
    operation, *rest = tree
    values = [expression(each) for each in rest]
    require(values, "an operation without arguments")
    require(operation in OPERATIONS, f"unknown operation {operation!r}")
    return reduce(OPERATIONS[operation], values)


def power(base, exponent):
    """A number to a whole power."""
    require(exponent.denominator == 1, "a fractional power")
    return base ** int(exponent)


def binomial(n, k):
    """How many k-element subsets n things have."""
    require(n.denominator == 1 and k.denominator == 1 and k >= 0, "a binomial of fractions")
    return Fraction(comb(int(n), int(k)))


OPERATIONS = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": truediv,
    "^": power,
    "binomial": binomial,
    "min": min,
    "max": max,
}


# Reading certificates
# ----------------------------------------------------------------------------------------------------------


def value_of(kind: object, data: Any) -> Any:
    """What the function of ``kind`` computes from ``data``."""
    check = globals().get(f"check_{kind}") if isinstance(kind, str) else None
    if check is None:
        raise Rejected(f"unknown kind {kind!r}")
    try:
        return check(data)
    except RecursionError:
        raise Rejected("the data are nested too deeply") from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise Rejected(f"the data do not fit together ({type(error).__name__}: {error})") from None


def failure(record: Any) -> str | None:
    """Why a certificate is not accepted, or None if it is."""
    needed = {"schema", "kind", "claim", "statement", "data", "expected"}
    if not isinstance(record, dict) or not needed <= set(record):
        return "it is no certificate: schema, kind, claim, statement, data and expected are needed"
    if record["schema"] != SCHEMA:
        return f"its schema is {record['schema']!r}, this file reads schema {SCHEMA}"
    try:
        value = value_of(record["kind"], record["data"])
    except Rejected as reason:
        return str(reason)
    if not same(value, record["expected"]):
        return f"computed {shortened(value)}, expected {shortened(record['expected'])}"
    return None


def same(value: Any, expected: Any) -> bool:
    """Whether a computed value is what a file says, entry by entry; 1, "1" and true are three things."""
    if isinstance(value, dict) and isinstance(expected, dict):
        named = {str(key): item for key, item in value.items()}
        return named.keys() == expected.keys() and all(same(named[key], expected[key]) for key in named)
    if isinstance(value, (list, tuple)) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(same, value, expected))
    return type(value) is type(expected) and value == expected


def shortened(value):
    """A value for one line of output."""
    try:
        line = json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):  # an integer may have more digits than Python prints
        line = f"a {type(value).__name__}"
    return line if len(line) <= 200 else f"{line[:200]}..."


def no_floats(literal):
    """Refuse floating-point literals."""
    raise ValueError(f"{literal} is a floating-point literal")


LARGEST = 2**28  # bytes of a certificate
LONG_NUMBER = re.compile(rb"[0-9]{200001}")


def read(path):
    """The certificate in a file."""
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)  # region bounds have thousands of digits
    with open(path, "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    if LONG_NUMBER.search(content):  # reading one takes time that grows with the square of its length
        raise ValueError("it holds a number of more than 200,000 digits")
    return json.loads(content.decode("utf-8"), parse_float=no_floats, parse_constant=no_floats)


def files_in(arguments):
    """The files that are meant: folders stand for the JSON files in them."""
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            yield from sorted(path.glob("*.json"))
        else:
            yield path


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
            sys.stdout.write(f"unreadable {path}: {str(error)[:500]}\n")
            code = 2
            continue
        why = failure(record)
        claim = record.get("claim", path) if isinstance(record, dict) else path
        if why is None:
            sys.stdout.write(f"accepted   {claim}: {record['kind']} = {shortened(record['expected'])}\n")
        else:
            sys.stdout.write(f"REJECTED   {claim}: {why}\n")
            code = max(code, 1)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
