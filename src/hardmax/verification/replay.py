"""Check certificates of hardmax verify without hardmax: one file, nothing but the standard library.

    python replay.py certificate.json[.gz] ...

A certificate is a JSON object {schema, kind, claim, statement, data, expected}. ``data`` holds the network,
number by number, and the unsafe set: boxes of inputs, each with conjunctions of linear constraints on inputs
and outputs. For the verdict "violated" it holds a point, which is evaluated. For "holds" it holds a tree of
cuts for each box. The replay walks the tree: the parts of a cut cover the node, and at every leaf each
conjunction must be closed by a combination of constraints and facts that is negative. Bounds are recomputed
here, in integers with outward rounding (proofs "b"), or the network is affine on the leaf and everything is
rational (proofs "e"). No number of the search is trusted. The hashes of network and unsafe set are recomputed
and printed: compare them with yours.

Exact numbers are integers or strings "p/q"; a string with "0x" is a float64 as ``float.hex`` writes it.

Exit code 0: every certificate was accepted. 1: at least one was not. 2: a file is no certificate.
"""

import gzip
import hashlib
import json
import math
import struct
import sys
import zlib
from fractions import Fraction
from itertools import pairwise
from operator import add, mul
from pathlib import Path

SCHEMA = 1
BITS = 52  # of the fraction of the largest number of a state
WORD = 64  # weights have so many bits more than they need, and lose them after a product
SLOT = 128  # a packed number
SYMBOLS = 512  # as many open decisions get a symbol of their own
SLOPE = 30  # bits of the slope of a relaxed unit
LIMIT = 1 << 30  # bytes of a certificate, unpacked


class Rejected(Exception):
    """A certificate that does not show what it says."""


def require(condition, why):
    """Reject the certificate unless the condition holds."""
    if not condition:
        raise Rejected(why)


def number(value):
    """An exact number: an integer, "p/q", or the hexadecimal form of a float."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise Rejected(f"{str(value)[:40]!r} is no exact number")
    try:
        if isinstance(value, str) and "0x" in value:
            return Fraction(float.fromhex(value))
        return Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise Rejected(f"{str(value)[:40]!r} is no exact number") from None


def natural(value, below=None):
    """An integer of at least 0, and below a limit."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or value < 0
        or (below is not None and value >= below)
    ):
        raise Rejected(f"{str(value)[:40]!r} is no index that is possible here")
    return value


def vector(values, length):
    """So many exact numbers."""
    require(isinstance(values, list) and len(values) == length, "a list has the wrong length")
    return [number(value) for value in values]


def digest(value):
    """SHA-256 of plain values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


# The network: stages one after the other
# ----------------------------------------------------------------------------------------------------------


class Affine:
    """y -> Wy + b, with rows as lists of (column, weight)."""

    def __init__(self, stage, size):
        w = stage["w"]
        require(natural(w["columns"]) == size, "a matrix does not fit the state")
        if "sparse" in w:
            self.rows = []
            for places, values in w["sparse"]:
                require(len(set(places)) == len(places), "a matrix names an entry twice")
                row = zip(places, vector(values, len(places)), strict=True)
                self.rows.append([(natural(j, size), v) for j, v in row if v])
        else:
            self.rows = [[(j, v) for j, v in enumerate(vector(row, size)) if v] for row in w["rows"]]
        self.offsets = vector(stage["b"], len(self.rows))
        self.size, self.out = size, len(self.rows)
        self.dense = sum(map(len, self.rows)) > size * self.out // 8
        self.scaled = {}

    def reach(self, size):
        """Bounds on absolute values; only to choose scales."""
        return [
            sum((abs(float(v)) * size[j] for j, v in row), abs(float(b)))
            for row, b in zip(self.rows, self.offsets, strict=True)
        ]

    def value(self, y):
        """At a point."""
        return [sum((v * y[j] for j, v in row), b) for row, b in zip(self.rows, self.offsets, strict=True)]

    def whole(self):
        """Integer rows and offsets with a common denominator."""
        if "whole" not in self.scaled:
            bottom = math.lcm(
                *(v.denominator for row in self.rows for _, v in row), *(b.denominator for b in self.offsets)
            )
            rows = [[(j, int(v * bottom)) for j, v in row] for row in self.rows]
            self.scaled["whole"] = rows, [int(b * bottom) for b in self.offsets], bottom
        return self.scaled["whole"]

    def fixed(self, before, after):
        """The matrix for states of 2^-before and 2^-after: packed columns, or rows."""
        key = before, after
        if key not in self.scaled:
            shift = WORD + after - before
            rows = [[(j, scaled(v, shift)) for j, v in row] for row in self.rows]
            offsets = [scaled(b, after) for b in self.offsets]
            if not self.dense:
                self.scaled[key] = by_column(rows, self.size), None, None, None, offsets
            else:
                packed, absolute, largest = [0] * self.size, [0] * self.size, [0] * self.size
                for i, row in enumerate(rows):
                    for j, w in row:
                        packed[j] += w << SLOT * i
                        absolute[j] += (abs(w) + 1) << SLOT * i
                        largest[j] = max(largest[j], abs(w) + 1)
                self.scaled[key] = None, packed, absolute, largest, offsets
        return self.scaled[key]


class Relu:
    """Coordinates from ``first`` on become their positive parts."""

    def __init__(self, stage, size):
        self.first, self.units = natural(stage["first"], size), natural(stage["size"])
        require(self.first + self.units == size, "a ReLU stage does not fit the state")
        self.out = size

    def reach(self, size):
        """Bounds on absolute values."""
        return size

    def value(self, y):
        """At a point."""
        return [*y[: self.first], *(max(v, Fraction(0)) for v in y[self.first :])]


class Groups:
    """A stage whose coordinates from ``first`` on fall into groups."""

    def __init__(self, stage, size):
        self.first, self.starts = natural(stage["first"], size), [natural(v) for v in stage["starts"]]
        fits = len(self.starts) > 1 and self.starts[0] == self.first and self.starts[-1] == size
        require(fits and all(a < b for a, b in pairwise(self.starts)), "groups do not fit the state")

    def groups(self):
        """Where each group begins and ends."""
        return list(pairwise(self.starts))


class Max(Groups):
    """Each group becomes its maximum, behind the coordinates before."""

    def __init__(self, stage, size):
        super().__init__(stage, size)
        self.out = self.first + len(self.starts) - 1

    def reach(self, size):
        """Bounds on absolute values."""
        return size[: self.first] + [max(size[a:b]) for a, b in self.groups()]

    def value(self, y):
        """At a point."""
        return y[: self.first] + [max(y[a:b]) for a, b in self.groups()]


class Choose(Groups):
    """Heads: the k best scores, or sparsemax of all, mix the outputs of their keys."""

    def __init__(self, stage, size):
        super().__init__(stage, size)
        rows = stage["outputs"]
        require(len(rows) == size - self.first and rows, "outputs do not fit the scores")
        self.out = len(rows[0])
        self.outputs = [vector(row, self.out) for row in rows]
        self.keep, self.ties, self.k = stage["keep"], stage["ties"], stage["k"]
        require(isinstance(self.keep, bool), "keep must be true or false")
        require(self.ties in ("mean", "leftmost", "rightmost"), "an unknown rule for ties")
        require(not self.keep or self.first == self.out, "a skip connection does not fit")
        least = min(b - a for a, b in self.groups())
        require(self.k is None or 1 <= natural(self.k) <= least, "k does not fit the heads")
        heads = len(self.starts) - 1
        self.taus = vector(stage["temperatures"], heads if self.k is None else 0)
        require(all(tau > 0 for tau in self.taus), "a temperature is not positive")
        self.equal = {}

    def values(self, head):
        """The outputs of the keys of a head."""
        a, b = self.starts[head], self.starts[head + 1]
        return self.outputs[a - self.first : b - self.first]

    def reach(self, size):
        """Bounds on absolute values."""
        total = size[: self.first] if self.keep else [0.0] * self.out
        for head in range(len(self.starts) - 1):
            columns = zip(*self.values(head), strict=True)
            total = [t + max(abs(float(v)) for v in column) for t, column in zip(total, columns, strict=True)]
        return total

    def value(self, y):
        """At a point."""
        total = y[: self.first] if self.keep else [Fraction(0)] * self.out
        for head, (a, b) in enumerate(self.groups()):
            scores = y[a:b]
            order = sorted(range(b - a), reverse=self.ties == "rightmost")
            order = sorted(order, key=lambda j, s=scores: s[j], reverse=True)
            if self.k is None:
                support, height = [], -self.taus[head]
                for j in order:
                    if support and scores[j] * len(support) <= height:
                        break
                    height += scores[j]
                    support.append(j)
                weights = {j: (scores[j] - height / len(support)) / self.taus[head] for j in support}
            else:
                last = scores[order[self.k - 1]]
                sure = [j for j in order if scores[j] > last]
                weights = shared(sure, [j for j in range(b - a) if scores[j] == last], self.k, self.ties)
            for j, weight in weights.items():
                total = [t + weight * v for t, v in zip(total, self.values(head)[j], strict=True)]
        return total


def shared(sure, tied, k, ties):
    """Weights where some keys surely win and others tie for the places that are left."""
    weights = dict.fromkeys(sure, Fraction(1, k))
    left = k - len(sure)
    if ties == "mean":
        return weights | dict.fromkeys(tied, Fraction(left, k * len(tied)))
    return weights | dict.fromkeys(sorted(tied, reverse=ties == "rightmost")[:left], Fraction(1, k))


KINDS = {"affine": Affine, "relu": Relu, "max": Max, "choose": Choose}


class Network:
    """The stages of a certificate."""

    def __init__(self, data):
        self.inputs, self.outputs = natural(data["inputs"]), natural(data["outputs"])
        size, self.stages = self.inputs, []
        require(size > 0, "a network without inputs")
        for stage in data["stages"]:
            require(stage["kind"] in KINDS, "an unknown stage")
            self.stages.append(KINDS[stage["kind"]](stage, size))
            made = self.stages[-1]
            if isinstance(made, Choose):
                read = self.stages[-2] if len(self.stages) > 1 else None
                for head, (a, b) in enumerate(made.groups()):
                    rows = (
                        [(read.rows[i], read.offsets[i]) for i in range(a, b)]
                        if isinstance(read, Affine)
                        else None
                    )
                    made.equal[head] = {
                        (i, j)
                        for i in range(b - a)
                        for j in range(b - a)
                        if i == j or (rows and rows[i] == rows[j])
                    }
            size = made.out
        require(size == self.outputs, "the last stage does not give the outputs")

    def value(self, point):
        """The output at a point, exactly."""
        y = list(point)
        for stage in self.stages:
            y = stage.value(y)
        return y


def by_column(rows, size):
    """The entries of a sparse matrix, column by column."""
    places = [[] for _ in range(size)]
    for i, row in enumerate(rows):
        for j, w in row:
            places[j].append((i, w))
    return places


# Bounds in integers
# ----------------------------------------------------------------------------------------------------------


def scaled(value, bits):
    """The integer next below value * 2^bits."""
    return (
        (value.numerator << bits) // value.denominator
        if bits >= 0
        else value.numerator // (value.denominator << -bits)
    )


def ceiling(value, bits):
    """The integer next above value * 2^bits."""
    return -scaled(-value, bits)


class Forms:
    """Affine forms of the inputs t and of symbols, all in [-1, 1], in units of 2^-scale.

    ``columns[0]`` are the constants, then one column per input, then one per symbol, each a dict of the
    entries that are not zero; ``radius`` bounds what is not in the columns: rounding, and decisions without a
    symbol.
    """

    def __init__(self, low, high, scale):
        middle = [scaled((a + b) / 2, scale) for a, b in zip(low, high, strict=True)]
        reach = [
            max(ceiling(b, scale) - m, m - scaled(a, scale))
            for a, b, m in zip(low, high, middle, strict=True)
        ]
        self.columns = [dict(enumerate(middle)), *({i: r} for i, r in enumerate(reach))]
        self.radius = [0] * len(low)
        self.scale = scale
        self.inputs = len(low)

    def middle(self):
        """The constants."""
        return [self.columns[0].get(i, 0) for i in range(len(self.radius))]

    def spread(self):
        """How far each form is from its constant, at most."""
        total = list(self.radius)
        for column in self.columns[1:]:
            for i, value in column.items():
                total[i] += abs(value)
        return total

    def row(self, weights):
        """A combination of the forms, with its radius: weights are integers."""
        made = [sum(w * column.get(j, 0) for j, w in weights.items()) for column in self.columns]
        return made, sum(abs(w) * self.radius[j] for j, w in weights.items())

    def affine(self, stage, scale):
        """Wy + b, rounded outwards."""
        places, packed, absolute, largest, offsets = stage.fixed(self.scale, scale)
        lost = self.rounding()
        if packed is None:
            self.multiply(places, offsets, scale, lost)
            return
        m = stage.out
        form = struct.Struct(f"<{2 * m}Q")
        bias = ((1 << SLOT * m) - 1) // ((1 << SLOT) - 1) << (SLOT - 1)
        half = 1 << (SLOT - 1 - WORD)

        def product(column, matrix):
            values = list(column.values())
            require(
                sum(map(mul, map(abs, values), map(largest.__getitem__, column))) < 1 << (SLOT - 2),
                "numbers are too large",
            )
            value = sum(map(mul, values, map(matrix.__getitem__, column))) + bias
            return [word - half for word in form.unpack(value.to_bytes(2 * 8 * m, "little"))[1::2]]

        made = [product(column, packed) for column in self.columns]
        made[0] = list(map(add, made[0], offsets))
        self.radius = [r + lost for r in product(dict(enumerate(self.radius)), absolute)]
        self.columns, self.scale = [dict(enumerate(column)) for column in made], scale

    def rounding(self):
        """What a product may lose: a unit per column, and the rounding of the weights."""
        total = sum(map(add, map(abs, self.middle()), self.spread()))
        return len(self.columns) + 3 + 2 * (total >> WORD)

    def multiply(self, places, offsets, scale, lost):
        """The product with a sparse matrix: ``places[j]`` lists the rows and weights of column j."""

        def product(column):
            made = {}
            for j, value in column.items():
                if value:
                    for i, w in places[j]:
                        made[i] = made.get(i, 0) + w * value
            return {i: value >> WORD for i, value in made.items() if value}

        self.columns = [product(column) for column in self.columns]
        for i, offset in enumerate(offsets):
            if offset:
                self.columns[0][i] = self.columns[0].get(i, 0) + offset
        radius = [0] * len(offsets)
        for j, r in enumerate(self.radius):
            if r:
                for i, w in places[j]:
                    radius[i] += (abs(w) + 1) * r
        self.radius, self.scale = [(r >> WORD) + lost for r in radius], scale

    def symbol(self, i, half):
        """A new column, if there is room; otherwise the radius grows."""
        if len(self.columns) - 1 - self.inputs < SYMBOLS:
            self.columns.append({i: half})
        else:
            self.radius[i] += half


class Walk:
    """The network on one node: forms, rows of facts, and what is decided."""

    def __init__(self, network, scales, node):
        self.node, self.empty = node, False
        self.forms = Forms(node.low, node.high, scales[0])
        self.box = self.forms.columns
        self.facts, self.choices = {}, []
        for number, stage in enumerate(network.stages):
            if isinstance(stage, Affine):
                self.forms.affine(stage, scales[number + 1])
                self.choices.append(True)
            elif isinstance(stage, Relu):
                self.relu(number, stage)
            elif isinstance(stage, Max):
                self.maxima(number, stage)
            else:
                self.choose(number, stage, scales[number + 1])

    def note(self, k, stage, fact):
        """Keep the row of a fact: it is at least zero on the node (or zero)."""
        cut, case = fact
        weights, constant = functional(stage, cut)
        row, radius = self.forms.row(weights)
        row[0] += scaled(constant, self.forms.scale)
        if case == "<":
            row = [-value for value in row]
        self.facts[k] = row, radius + 1, self.forms.scale

    def facts_of(self, number, stage):
        """The facts about a stage, noted on the way."""
        found = []
        for k, fact in enumerate(self.node.facts):
            if fact[0][1] == number:
                self.note(k, stage, fact)
                found.append(fact)
        return found

    def relu(self, number, stage):
        """Signs of units, from facts or bounds; open ones are relaxed."""
        known = {cut[2]: case for cut, case in self.facts_of(number, stage)}
        forms = self.forms
        spread, middle = forms.spread(), forms.middle()
        on, dead, unsure = [], [], []
        for u in range(stage.units):
            i = stage.first + u
            case = known.get(u)
            if case is None:
                case = ">=" if middle[i] >= spread[i] else "<" if middle[i] + spread[i] <= 0 else None
            if case is None:
                unsure.append((i, middle[i] - spread[i], middle[i] + spread[i]))
            elif case == ">=":
                on.append(u)
            else:
                dead.append(i)
        gone = set(dead)
        columns = forms.columns = [
            {i: v for i, v in column.items() if i not in gone} for column in forms.columns
        ]
        forms.radius = [0 if i in gone else r for i, r in enumerate(forms.radius)]
        n = len(columns)
        for i, low, high in unsure:
            slope = min(max((high << SLOPE) // (high - low), 0), 1 << SLOPE)
            half = (max(((1 << SLOPE) - slope) * high, -slope * low) >> (SLOPE + 1)) + 1
            for column in columns[:n]:
                if i in column:
                    column[i] = column[i] * slope >> SLOPE
            columns[0][i] = columns[0].get(i, 0) + half
            forms.radius[i] = (forms.radius[i] * slope >> SLOPE) + 1 + n
            forms.symbol(i, half)
        self.choices.append(set(on) if not unsure else None)

    def differences(self, number, stage, group):
        """Bounds on score i less score j, as two tables, and the facts about the group."""
        a, b = stage.starts[group], stage.starts[group + 1]
        forms, n = self.forms, b - a
        low = [[0] * n for _ in range(n)]
        for i in range(n):
            for j in range(i):
                middle, *others = forms.row({a + i: 1, a + j: -1})[0]
                spread = forms.radius[a + i] + forms.radius[a + j] + sum(map(abs, others))
                low[i][j], low[j][i] = middle - spread, -middle - spread
        facts = [fact for fact in self.facts_of(number, stage) if fact[0][2] == group]
        high = [[-low[j][i] for j in range(n)] for i in range(n)]
        for cut, case in facts:
            if cut[0] == "p":
                i, j = cut[3:]
                if case in (">", ">=", "="):
                    low[i][j], high[j][i] = max(low[i][j], 0), min(high[j][i], 0)
                if case in ("<", "="):
                    high[i][j], low[j][i] = min(high[i][j], 0), max(low[j][i], 0)
        return low, high, facts

    def maxima(self, number, stage):
        """The largest of each group, or what may be."""
        forms, winners, places, more = self.forms, [], list(range(stage.first)), []
        for group, (a, b) in enumerate(stage.groups()):
            low, high, _ = self.differences(number, stage, group)
            left = list(range(b - a))
            for j in range(b - a):
                if any(low[i][j] >= 0 for i in left if i != j):
                    left.remove(j)
            winner = max(left, key=lambda j, a=a: forms.columns[0].get(a + j, 0))
            places.append(a + winner)
            if len(left) == 1:
                winners.append(winner)
            else:
                gap = max(high[j][winner] for j in left if j != winner)
                winners.append(None)
                more.append((len(places) - 1, (max(gap, 0) >> 1) + 1))
        forms.columns = [
            {p: column[i] for p, i in enumerate(places) if i in column} for column in forms.columns
        ]
        forms.radius = [forms.radius[i] for i in places]
        for i, half in more:
            forms.columns[0][i] = forms.columns[0].get(i, 0) + half
            forms.symbol(i, half)
        self.choices.append(None if None in winners else winners)

    def choose(self, number, stage, scale):
        """What heads put out: a constant, an affine function, or a point of a hull."""
        rows = [[(c, Fraction(1))] if stage.keep else [] for c in range(stage.out)]
        offsets, half, segments, choices = [Fraction(0)] * stage.out, [Fraction(0)] * stage.out, [], []
        for head in range(len(stage.starts) - 1):
            values, start = stage.values(head), stage.starts[head]
            low, high, facts = self.differences(number, stage, head)
            decide = self.sparse if stage.k is None else self.top
            weights, sure, left = decide(stage, head, low, high, facts)
            choices.append(weights)
            if weights is not None:
                linear, constant = mixed(stage, head, weights)
                for c in range(stage.out):
                    offsets[c] += constant[c]
                    rows[c] += [(start + j, v) for j, v in linear[c].items()]
                continue
            share = Fraction(1) if stage.k is None else Fraction(stage.k - len(sure), stage.k)
            for c in range(stage.out):
                hull = [values[j][c] for j in left]
                bottom, top = min(hull), max(hull)
                offsets[c] += (
                    sum((values[j][c] / stage.k for j in sure), Fraction(0)) + share * (bottom + top) / 2
                )
                if len(left) != 2:
                    half[c] += share * (top - bottom) / 2
            if len(left) == 2:
                segments.append(
                    [share * (p - q) / 2 for p, q in zip(values[left[0]], values[left[1]], strict=True)]
                )
        forms = self.forms
        shift = WORD + scale - forms.scale
        fixed = by_column([[(j, scaled(v, shift)) for j, v in row if v] for row in rows], len(forms.radius))
        forms.multiply(fixed, [scaled(b, scale) for b in offsets], scale, forms.rounding())
        forms.radius = [r + ceiling(h, scale) for r, h in zip(forms.radius, half, strict=True)]
        for segment in segments:
            forms.columns.append({c: scaled(v, scale) for c, v in enumerate(segment)})
            forms.radius = [r + 1 for r in forms.radius]
        self.choices.append(None if None in choices else choices)

    def top(self, stage, head, low, high, facts):
        """Weights of a head's keys, or keys that surely win and keys that may."""
        n, k = len(low), stage.k
        larger = [[low[i][j] > 0 for j in range(n)] for i in range(n)]
        equal = set(stage.equal[head])
        for cut, case in facts:
            i, j = cut[3:]
            larger[i][j], larger[j][i] = case == ">", case == "<"
            equal = equal | {(i, j), (j, i)} if case == "=" else equal - {(i, j), (j, i)}
        sure = [i for i in range(n) if sum(not larger[i][j] for j in range(n) if j != i) <= k - 1]
        out = {j for j in range(n) if sum(larger[i][j] for i in range(n)) >= k}
        left = [j for j in range(n) if j not in sure and j not in out]
        if out & set(sure) or len(sure) > k or (len(sure) < k and not left):
            self.empty = True  # no scores are like that: bounds and facts contradict each other
            return None, [], list(range(n))
        if len(sure) == k:
            return dict.fromkeys(sure, Fraction(1, k)), None, None
        if all((i, j) in equal for i in left for j in left):
            return shared(sure, left, k, stage.ties), None, None
        return None, sure, left

    def sparse(self, stage, head, low, high, facts):
        """The support of a sparsemax head, or keys that may be in it."""
        n, scale = len(low), self.forms.scale
        most, least = ceiling(stage.taus[head], scale), scaled(stage.taus[head], scale)
        out = {j for j in range(n) if sum(max(low[i][j], 0) for i in range(n)) >= most}
        inside = {j for j in range(n) if sum(max(high[i][j], 0) for i in range(n)) <= least}
        for cut, case in facts:
            if cut[0] == "f":
                j, keys = cut[3], cut[4]
                if case == ">=":
                    out.add(j)
                elif all(low[i][j] >= 0 if i in keys else high[i][j] <= 0 for i in range(n)):
                    inside.add(j)
        if len(out | inside) == n and inside - out:
            return sorted(inside - out), None, None
        self.empty |= len(out | inside) == n  # weights must add up to 1
        left = [j for j in range(n) if j not in out]
        return None, [], left or list(range(n))


def functional(stage, cut):
    """What a cut compares with zero: integer weights of the state that enters the stage, and a constant."""
    if cut[0] == "s":
        return {stage.first + cut[2]: 1}, Fraction(0)
    start = stage.starts[cut[2]]
    if cut[0] == "p":
        return {start + cut[3]: 1, start + cut[4]: -1}, Fraction(0)
    return dict.fromkeys((start + i for i in cut[4]), 1) | {start + cut[3]: -len(cut[4])}, -stage.taus[cut[2]]


def mixed(stage, head, weights):
    """What a decided head puts out: for each coordinate weights of its scores, and a constant."""
    values = stage.values(head)
    if stage.k is not None:
        constant = [
            sum((w * values[j][c] for j, w in weights.items()), Fraction(0)) for c in range(stage.out)
        ]
        return [{} for _ in constant], constant
    n, tau = len(weights), stage.taus[head]
    linear, constant = [], []
    for c in range(stage.out):
        mean = sum((values[j][c] for j in weights), Fraction(0)) / n
        linear.append({j: (values[j][c] - mean) / tau for j in weights})
        constant.append(mean)
    return linear, constant


# The network on a node where everything is decided, in rationals
# ----------------------------------------------------------------------------------------------------------


class Exact:
    """Integer rows over the inputs and 1, with a common denominator; rows of facts as far as it goes."""

    def __init__(self, network, node, choices):
        d = network.inputs
        self.rows = [[int(i == j) for j in range(d + 1)] for i in range(d)]
        self.bottom, self.width = 1, d + 1
        self.facts, self.complete = {}, True
        for number, stage in enumerate(network.stages):
            for k, (cut, case) in enumerate(node.facts):
                if cut[1] == number:
                    weights, constant = functional(stage, cut)
                    row = self.combined({j: Fraction(w) for j, w in weights.items()}, constant)
                    self.facts[k] = [-v for v in row] if case == "<" else row
            if isinstance(stage, Affine):
                self.affine(stage, d)
            elif choices[number] is None:
                self.complete = False
                return
            elif isinstance(stage, Relu):
                on = choices[number]
                for u in range(stage.units):
                    if u not in on:
                        self.rows[stage.first + u] = None
            elif isinstance(stage, Max):
                kept = [
                    *range(stage.first),
                    *(a + w for (a, _), w in zip(stage.groups(), choices[number], strict=True)),
                ]
                self.rows = [self.rows[i] for i in kept]
            else:
                self.choose(stage, choices[number], d)

    def combined(self, weights, constant):
        """A rational combination of the rows as fractions."""
        made = None
        for j, w in weights.items():
            if self.rows[j] is not None and w:
                part = [w * v for v in self.rows[j]]
                made = part if made is None else list(map(add, made, part))
        made = [Fraction(v) / self.bottom for v in made or [0] * self.width]
        made[-1] += constant
        return made

    def affine(self, stage, d):
        """Wy + b without rounding; None stands for a row of zeros."""
        rows, offsets, bottom = stage.whole()
        made = []
        for row, b in zip(rows, offsets, strict=True):
            total = [0] * (d + 1)
            for j, w in row:
                if self.rows[j] is not None:
                    total = [t + w * v for t, v in zip(total, self.rows[j], strict=True)]
            total[-1] += b * self.bottom
            made.append(total)
        self.rows, self.bottom = made, self.bottom * bottom

    def choose(self, stage, choices, d):
        """The heads, decided."""
        made = []
        parts = [mixed(stage, head, weights) for head, weights in enumerate(choices)]
        for c in range(stage.out):
            weights = {c: Fraction(1)} if stage.keep else {}
            constant = Fraction(0)
            for head, (linear, constants) in enumerate(parts):
                constant += constants[c]
                for j, w in linear[c].items():
                    weights[stage.starts[head] + j] = weights.get(stage.starts[head] + j, Fraction(0)) + w
            made.append(self.combined(weights, constant))
        self.bottom = math.lcm(*(v.denominator for row in made for v in row))
        self.rows = [[int(v * self.bottom) for v in row] for row in made]


# The tree
# ----------------------------------------------------------------------------------------------------------


class Node:
    """A box, facts, and the conjunctions that are not closed yet."""

    def __init__(self, low, high, facts, live):
        self.low, self.high, self.facts, self.live = low, high, facts, live


class Constraint:
    """a.x + b.y + c >= 0, or > 0."""

    def __init__(self, data, inputs, outputs):
        self.x, self.y = vector(data["x"], inputs), vector(data["y"], outputs)
        self.constant, self.strict = number(data["constant"]), data["strict"]
        require(isinstance(self.strict, bool), "strict must be true or false")

    def holds(self, point, values):
        """At a point."""
        total = sum(map(mul, self.x, point), self.constant) + sum(map(mul, self.y, values))
        return total > 0 if self.strict else total >= 0


class Group:
    """A box and the conjunctions of which none may hold in it."""

    def __init__(self, data, network):
        self.low, self.high = vector(data["low"], network.inputs), vector(data["high"], network.inputs)
        require(all(a <= b for a, b in zip(self.low, self.high, strict=True)), "a box is empty")
        self.unsafe = [
            [Constraint(item, network.inputs, network.outputs) for item in conjunction]
            for conjunction in data["unsafe"]
        ]


class Tree:
    """Checks the tree of one group."""

    def __init__(self, network, group):
        self.network, self.group = network, group
        size = [float(max(abs(a), abs(b))) for a, b in zip(group.low, group.high, strict=True)]
        self.scales = [scale_of(size)]
        for stage in network.stages:
            size = stage.reach(size)
            self.scales.append(scale_of(size) if isinstance(stage, (Affine, Choose)) else self.scales[-1])

    def check(self, entries):
        """Every node of the tree, depth first."""
        stack = [Node(self.group.low, self.group.high, (), frozenset(range(len(self.group.unsafe))))]
        for entry in entries:
            require(stack, "there are nodes outside of the tree")
            node = stack.pop()
            require(isinstance(entry, list) and len(entry) == 2, "a node is open")
            proofs, cut = entry
            live = node.live - self.closed(node, proofs)
            if cut is None:
                require(not live, "a leaf is not closed")
                continue
            stack += reversed(self.parts(node, cut, live))
        require(not stack, "the tree does not cover the box")

    def closed(self, node, proofs):
        """The conjunctions that proofs close on a node."""
        if not proofs:
            return frozenset()
        walk, exact, found = Walk(self.network, self.scales, node), None, set()
        for proof in proofs:
            require(isinstance(proof, list) and len(proof) == 4, "a proof is malformed")
            kind, d, of_rows, of_facts = proof
            if d == -1:
                constraints = []
                require(not of_rows, "an empty node needs facts only")
            else:
                constraints = self.group.unsafe[natural(d, len(self.group.unsafe))]
            rows = {natural(i, len(constraints)): number(m) for i, m in of_rows}
            facts = {natural(k, len(node.facts)): number(m) for k, m in of_facts}
            require(all(m > 0 for m in rows.values()), "a multiplier is not positive")
            for k, m in facts.items():
                require(m > 0 or (m < 0 and node.facts[k][1] == "="), "a multiplier is not positive")
            require(len(rows) == len(of_rows) and len(facts) == len(of_facts), "a multiplier is given twice")
            if walk.empty:
                pass  # no input lies in the node
            elif kind == "b":
                require(self.bounded(walk, constraints, rows, facts), "a bound does not close its node")
            else:
                require(kind == "e", "an unknown proof")
                exact = exact or Exact(self.network, node, walk.choices)
                require(
                    self.decided(node, exact, constraints, rows, facts), "multipliers do not close their node"
                )
            found |= set(node.live) if d == -1 else {d}
        return frozenset(found)

    def bounded(self, walk, constraints, rows, facts):
        """Whether a combination is negative, in integers."""
        network, forms = self.network, walk.forms
        on_x = [
            sum((m * constraints[i].x[j] for i, m in rows.items()), Fraction(0))
            for j in range(network.inputs)
        ]
        on_y = [
            sum((m * constraints[i].y[j] for i, m in rows.items()), Fraction(0))
            for j in range(network.outputs)
        ]
        constant = sum((m * constraints[i].constant for i, m in rows.items()), Fraction(0))
        numbers = (*on_x, *on_y, constant, *facts.values())
        bottom = math.lcm(*(v.denominator for v in numbers))
        unit = max(forms.scale, self.scales[0], 0, *(walk.facts[k][2] for k in facts))
        total, radius = [0] * len(forms.columns), 0
        for weights, columns, errors, scale in (
            (on_y, forms.columns, forms.radius, forms.scale),
            (on_x, walk.box, [0] * network.inputs, self.scales[0]),
        ):
            for j, w in enumerate(weights):
                if w:
                    factor = int(w * bottom) << (unit - scale)
                    for v, column in enumerate(columns):
                        total[v] += factor * column.get(j, 0)
                    radius += abs(factor) * errors[j]
        for k, m in facts.items():
            row, error, scale = walk.facts[k]
            factor = int(m * bottom) << (unit - scale)
            for v, value in enumerate(row):
                total[v] += factor * value
            radius += abs(factor) * error
        total[0] += int(constant * bottom) << unit
        return total[0] + sum(map(abs, total[1:])) + radius < 0

    def decided(self, node, exact, constraints, rows, facts):
        """Whether a combination is negative, or not positive although it must be, in rationals."""
        require(exact.complete or not rows, "the node is not decided")
        require(all(k in exact.facts for k in facts), "a fact is not decided")
        d = self.network.inputs
        total, strict = [Fraction(0)] * (d + 1), False
        for i, m in rows.items():
            constraint = constraints[i]
            row = exact.combined(dict(enumerate(constraint.y)), constraint.constant)
            row = [v + x for v, x in zip(row, [*constraint.x, 0], strict=True)]
            total = [t + m * v for t, v in zip(total, row, strict=True)]
            strict |= constraint.strict
        for k, m in facts.items():
            total = [t + m * v for t, v in zip(total, exact.facts[k], strict=True)]
            strict |= node.facts[k][1] in ("<", ">")
        top = total[-1]
        for v, a, b in zip(total, node.low, node.high, strict=False):
            top += v * (b if v > 0 else a)
        return top < 0 or (top == 0 and strict)

    def parts(self, node, cut, live):
        """The parts of a node behind a cut, which cover it."""
        require(isinstance(cut, list) and len(cut) > 2, "a cut is malformed")
        if cut[0] == "x":
            i, value = natural(cut[1], self.network.inputs), number(cut[2])
            require(node.low[i] <= value <= node.high[i], "a cut lies outside of its node")
            below, above = list(node.high), list(node.low)
            below[i] = above[i] = value
            return [Node(node.low, below, node.facts, live), Node(above, node.high, node.facts, live)]
        stage = self.network.stages[natural(cut[1], len(self.network.stages))]
        cases = (">=", "<")
        if cut[0] == "s":
            require(isinstance(stage, Relu) and len(cut) == 3, "a cut does not fit its stage")
            natural(cut[2], stage.units)
        else:
            require(isinstance(stage, Groups), "a cut does not fit its stage")
            a, b = stage.groups()[natural(cut[2], len(stage.starts) - 1)]
            require(len(cut) == 5, "a cut does not fit its stage")
            natural(cut[3], b - a)
            if cut[0] == "p":
                require(natural(cut[4], b - a) != cut[3], "a cut compares a score with itself")
                if isinstance(stage, Choose) and stage.k is not None:
                    cases = (">", "<", "=")
            else:
                require(cut[0] == "f" and isinstance(stage, Choose) and stage.k is None, "an unknown cut")
                keys = [natural(i, b - a) for i in cut[4]]
                require(len({*keys, cut[3]}) == len(keys) + 1, "a cut names a key twice")
        return [Node(node.low, node.high, (*node.facts, (cut, case)), live) for case in cases]


def scale_of(size):
    """So many bits behind the point, for numbers up to the largest of these."""
    largest = max(size)
    require(largest < 2.0**1000, "numbers are too large")
    return BITS - math.frexp(max(largest, 2.0**-900))[1]


def check_verification(data):
    """The verdict that a certificate proves, with the hashes of what it is about."""
    network = Network(data["network"])
    groups = [Group(item, network) for item in data["property"]]
    hashes = {"network": digest(data["network"]), "property": digest(data["property"])}
    if "violation" in data:
        violation = data["violation"]
        group = groups[natural(violation["group"], len(groups))]
        point = vector(violation["point"], network.inputs)
        inside = all(a <= v <= b for a, v, b in zip(group.low, point, group.high, strict=True))
        require(inside, "the point lies outside of its box")
        values = network.value(point)
        for constraint in group.unsafe[natural(violation["conjunction"], len(group.unsafe))]:
            require(constraint.holds(point, values), "the point is not unsafe")
        return {"verdict": "violated", **hashes}
    require(len(data["trees"]) == len(groups), "there must be a tree for every box")
    for group, entries in zip(groups, data["trees"], strict=True):
        Tree(network, group).check(entries)
    return {"verdict": "holds", **hashes}


def failure(record):
    """Why a certificate is not accepted; None if it is."""
    try:
        require(
            isinstance(record, dict) and record.get("schema") == SCHEMA, "not a certificate of this schema"
        )
        require(record.get("kind") == "verification", "an unknown kind of certificate")
        found = check_verification(record["data"])
        require(found == record["expected"], "what was found is not what was expected")
    except Rejected as error:
        return str(error)
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        OverflowError,
        RecursionError,
    ) as error:
        return f"it is malformed ({type(error).__name__})"
    return None


def read(path):
    """The record in a file; numbers with a decimal point are refused."""

    def refuse(text):
        raise ValueError(f"{text} is not exact")

    with Path(path).open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        content = (gzip.GzipFile(fileobj=file) if packed else file).read(LIMIT + 1)
    if len(content) > LIMIT:
        raise ValueError(f"it holds more than {LIMIT} bytes")
    return json.loads(content, parse_float=refuse, parse_constant=refuse)


def main(arguments):
    """Check every certificate, print a line for each, and return the exit code."""
    if not arguments:
        sys.stderr.write(__doc__)
        return 2
    code = 0
    for path in arguments:
        try:
            record = read(path)
        except (OSError, ValueError, RecursionError, EOFError, zlib.error) as error:
            sys.stdout.write(f"unreadable {path}: {str(error)[:500]}\n")
            code = 2
            continue
        why = failure(record)
        if why is None:
            found = record["expected"]
            sys.stdout.write(
                f"accepted   {path}: {found['verdict']}, network {found['network']}, "
                f"property {found['property']}\n"
            )
        else:
            sys.stdout.write(f"REJECTED   {path}: {why}\n")
            code = max(code, 1)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
