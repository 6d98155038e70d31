"""Random mutations of the certificates of the ledger: none may be accepted unless it still proves its claim.

    python tests/scripts/certificate_mutations.py [--mutations 5000] [--seed 0]

Every mutation changes one certificate: a number, a list, a name, a field of the record, or its label. What
``replay.py`` refuses is fine. What it accepts is judged by ``still_proves``, which does not know the rules:
claim, statement and verdict must be untouched, and the data must be the same numbers or pass a second check,
written with numpy and the library, of what the verdict needs. Exit code 1 if a mutation is accepted that does
not prove its claim.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
from collections import Counter
from contextlib import suppress
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import comb, prod
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.flow.costs.cost_law import maximum_comparisons
from hardmax.papers import replay
from hardmax.papers.classical.relu_networks import folding_network, lap_network

PROVENANCE = ("hardmax", "commit")


# Mutations
# ----------------------------------------------------------------------------------------------------------


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where leaves, lists and objects stand."""
    found = [way]
    if isinstance(value, dict):
        for name, item in value.items():
            found += places(item, (*way, name))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            found += places(item, (*way, i))
    return found


def at(value: Any, way: tuple[Any, ...]) -> Any:
    for step in way:
        value = value[step]
    return value


def changed_leaf(leaf: Any, rng: random.Random) -> Any:
    """Another number, word or truth value."""
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int):
        return rng.choice(
            [leaf + 1, leaf - 1, -leaf, 2 * leaf, leaf * 10**6, 0, str(leaf), f"{leaf}/1", bool(leaf)]
        )
    if isinstance(leaf, str):
        try:
            number = Fraction(float.fromhex(leaf)) if "0x" in leaf else Fraction(leaf)
        except (ValueError, OverflowError):
            return rng.choice([leaf + "\n", leaf + "\x1b[31m", leaf.upper(), leaf[::-1], "", leaf * 2])
        near = number + Fraction(rng.choice([-1, 1]), rng.choice([1, 10**3, 10**9]))
        return rng.choice(
            [str(-number), str(near), str(2 * number), "1e99999999", leaf + "0", float(number).hex()]
        )
    return 0


def mutated(record: dict[str, Any], others: list[dict[str, Any]], rng: random.Random) -> dict[str, Any]:
    """The record with one change, half of the time with the value that the rule computes of it."""
    given, record = record["data"], copy.deepcopy(record)
    kind = rng.randrange(12)
    if kind == 0:  # another label, with the statement that belongs to it
        other = rng.choice(others)
        for name in ("claim", "place", "statement", "hypotheses", "sha256"):
            record[name] = other[name]
        if rng.random() < 0.5:
            record["verdict"], record["kind"] = other["verdict"], other["kind"]
    elif kind == 1:
        record["verdict"] = rng.choice([str(verdict) for verdict in hm.papers.ledger.Verdict])
    elif kind == 2:  # the data of another certificate, perhaps with its value
        other = rng.choice(others)
        record["data"] = copy.deepcopy(other["data"])
        if rng.random() < 0.5:
            record["expected"] = copy.deepcopy(other["expected"])
    elif kind == 3:
        name = rng.choice(sorted(record))
        record[name] = changed_leaf(record[name], rng) if not isinstance(record[name], (dict, list)) else {}
    else:
        part = "expected" if kind == 4 else "data"
        ways = [way for way in places(record[part]) if way]
        way = rng.choice(ways)
        holder, last = at(record[part], way[:-1]), way[-1]
        old = holder[last]
        if isinstance(old, list) and old:
            action = rng.randrange(5)
            if action == 0:
                holder[last] = []
            elif action == 1:
                del old[rng.randrange(len(old))]
            elif action == 2:
                old.append(copy.deepcopy(rng.choice(old)))
            elif action == 3:
                i, j = rng.randrange(len(old)), rng.randrange(len(old))
                old[i], old[j] = old[j], old[i]
            else:
                old[rng.randrange(len(old))] = copy.deepcopy(rng.choice(old))
        elif isinstance(old, dict):
            if old and rng.random() < 0.5:
                old.pop(rng.choice(sorted(old)))
            else:
                old["more"] = 1
        else:
            holder[last] = changed_leaf(old, rng)
    if record["data"] != given and rng.random() < 0.5:  # so that nothing but the data is wrong
        with suppress(replay.Rejected):
            record["expected"] = json.loads(json.dumps(replay.value_of(record["claim"], record["data"])))
    return record


# A second opinion
# ----------------------------------------------------------------------------------------------------------


def numbers(value: Any) -> Any:
    """The data with every number as a fraction; what is no number stays."""
    if isinstance(value, dict):
        return {name: numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [numbers(item) for item in value]
    if isinstance(value, str):
        try:
            return Fraction(float.fromhex(value)) if "0x" in value else Fraction(value)
        except (ValueError, OverflowError):
            return value
    return value if isinstance(value, bool) or value is None else Fraction(value)


def array(rows: Any) -> np.ndarray:
    return np.array(rows, dtype=object)


def winners(rows: Any, point: Any) -> list[int]:
    scores = [sum(a * b for a, b in zip(row, point, strict=True)) for row in rows]
    return [j for j, score in enumerate(scores) if score == max(scores)]


def diagrams(record: dict[str, Any], data: Any) -> bool:
    """Every named winner wins somewhere, and there are no more cells than winners."""
    found = []
    for diagram in data["diagrams"]:
        rows = diagram["scores"]
        named = sorted(int(j) for j in diagram["winners"])
        wins = all(winners(rows, [*diagram["winners"][str(j)], 1]) == [j] for j in named)
        cells = hm.TropicalPolynomial([row[:-1] for row in rows], [row[-1] for row in rows]).cells().n_cells
        if not wins or cells != len(named):
            return False
        found.append(named)
    return found == record["expected"]["winning"]


def heads(record: dict[str, Any], data: Any) -> bool:
    """The cells of the families, enumerated by the library; order keys as in the claim."""
    counts = []
    for each in data["families"]:
        sets = [[row[:-1] for row in head] for head in each["heads"]]
        biases = [[row[-1] for row in head] for head in each["heads"]]
        biased = any(any(row) for row in biases)
        whole = [np.array(rows, dtype=np.int64) for rows in sets]
        counts.append(
            hm.minkowski_vertices(
                whole, [np.array(b, dtype=np.int64) for b in biases] if biased else None
            ).count
        )
    expected = [each[-1] if isinstance(each, list) else each for each in record["expected"]["cells"]]
    return counts == expected


def sign_vectors(record: dict[str, Any], data: Any) -> bool:
    seen = set()
    for point in data["points"]:
        values = [sum(a * b for a, b in zip(line, [*point, 1], strict=True)) for line in data["hyperplanes"]]
        if 0 in values:
            return False
        seen.add(tuple(value > 0 for value in values))
    return len(seen) == record["expected"]["cells"]


def sum_of_heads(record: dict[str, Any], data: Any) -> bool:
    keys = [np.array(head, dtype=np.int64) for head in data["heads"]]
    count = hm.minkowski_vertices(keys).count
    extreme = [int(hm.attention_diagram(head).nonempty.sum()) for head in keys]
    return count == record["expected"]["vertices"] < 343 and extreme == [7, 7, 7]


def softmax(record: dict[str, Any], data: Any) -> bool:
    """The largest eigenvalue of the covariance, in floating point, against what is claimed to be exceeded."""
    for case in data["cases"]:
        w = np.array([float(x) for x in case["weights"]])
        p = w / w.sum()
        norm = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1]
        limit = (
            (p * (1 - p)).max()
            if record["claim"].endswith("cov_lemma")
            else (len(p) - 1) * w[1:].max() / w[0]
        )
        if not norm > limit * (1 + 1e-9) or w[0] != w.max():
            return False
    return True


def line(record: dict[str, Any], data: Any) -> bool:
    """Cells and regions on an interval, counted by the library."""
    box = hm.Box([float(data["interval"][0])], [float(data["interval"][1])])
    network = _network(data["network"])
    found, expected = hm.count_regions(network, box), record["expected"]
    if record["claim"].endswith("cpwl_closure"):
        offsets = hm.enumerate_regions(network, box)
        return expected["jumps"] >= 1 and found.n_cells == expected["cells"] and offsets.n_cells > 1
    if record["claim"].endswith("block_is_refinement"):
        return found.n_cells == expected["block"] != expected["refinement"]
    seen = {_cell(network.signature([float(p[0])])) for p in data["points"]}
    return len(seen) == expected["signatures"] > found.n_regions == expected["regions"]


def _cell(signature: Any) -> tuple[bytes, bytes]:
    return signature.routings.tobytes(), signature.bits.tobytes()


def _network(blocks: Any) -> hm.Network:
    made = []
    for block in blocks:
        if block["block"] == "Attention":
            made.append(hm.Attention(block["scores"], block["biases"], block["outputs"], skip=block["skip"]))
        else:
            layer = [block[name] for name in ("w_in", "b_in", "w_out", "b_out")]
            made.append(hm.FeedForward(*layer, skip=block["skip"]))
    return hm.Network(made)


def relu_layer(record: dict[str, Any], data: Any) -> bool:
    network = _network(data["network"])
    a, b, c = (point[0] for point in data["points"])
    values = [network.exact_value([x])[0] for x in (a, b, c)]
    return a < b < c and values[1] > values[0] + (values[2] - values[0]) * (b - a) / (c - a)


def routing(record: dict[str, Any], data: Any) -> bool:
    a, b, c = (point[0] for point in data["points"])
    found = [winners(data["scores"], [x, 1]) for x in (a, b, c)]
    return a < b < c and all(len(w) == 1 for w in found) and found[0] != found[1] != found[2]


def log_lift(record: dict[str, Any], data: Any) -> bool:
    from hardmax.tropical.layers import log_lifted_head

    head = log_lifted_head(data["keys"], data["log_values"])
    values = [head.exact_value(point)[0] for point in data["points"]]
    routed = [winners(data["keys"], point) for point in data["points"]]
    (a,), (b,), (c,) = data["points"]
    bent = (values[1] - values[0]) * (c - b) != (values[2] - values[1]) * (b - a)
    return a < b < c and bent and routed[0] == routed[1] == routed[2] and len(routed[0]) == 1


def refinement(record: dict[str, Any], data: Any) -> bool:
    """Slopes of the lifted head between all crossings of two scores."""
    from hardmax.tropical.layers import log_lifted_head

    keys, counts = [[key] for key in data["keys"]], []
    for name in ("equal", "apart"):
        head = log_lifted_head(keys, data[name])
        envelopes = [list(zip(data["keys"], shifts, strict=True)) for shifts in (data[name], [0] * len(keys))]
        pairs = [pair for lines in envelopes for pair in combinations(lines, 2)]
        ends = sorted({(d - b) / (a - c) for (a, b), (c, d) in pairs})
        inside = [ends[0] - 1, *((s + t) / 2 for s, t in pairwise(ends)), ends[-1] + 1]
        slopes = [head.affine_at([t])[0].item() for t in inside]
        counts.append([head.common_refinement().n_cells, 1 + sum(a != b for a, b in pairwise(slopes))])
    fine, same = counts[0][0] > counts[0][1], counts[1][0] == counts[1][1]
    return fine and same and counts == [record["expected"][name] for name in ("equal", "apart")]


def recession(record: dict[str, Any], data: Any) -> bool:
    keys, point, way = data["scores"], data["point"], data["direction"]
    far = [p + 10**9 * w for p, w in zip(point, way, strict=True)]
    near, there = winners(keys, point), winners(keys, far)
    return any(way) and len(near) == 1 and near[0] in there


def normalised(record: dict[str, Any], data: Any) -> bool:
    keys = [np.array([float(x) for x in key]) for key in data["keys"]]
    unit = all(abs(key.mean()) < 1e-12 and abs((key**2).mean() - 1) < 1e-12 for key in keys)
    gained = {
        round(float(((key * np.array([float(g) for g in data["gain"]])) ** 2).sum()), 9) for key in keys
    }
    return unit and len(gained) > 1


def self_attention(record: dict[str, Any], data: Any) -> bool:
    form = array(data["form"])
    found = []
    mixed = [data["first"][0], *data["second"][1:]]
    for tokens in (data["first"], data["second"], mixed):
        scores = [array(tokens[0]) @ form @ array(key) for key in tokens]
        found.append([j for j, s in enumerate(scores) if s == max(scores)])
    return found[0] == found[1] == [0] != found[2]


def wall_value(record: dict[str, Any], data: Any) -> bool:
    layer = _network([data["layer"]])
    left, right = ([rows[i][0] for rows in data["outputs"]] for i in (0, 1))
    tied = [(a + b) / 2 for a, b in zip(left, right, strict=True)]
    values = [layer.exact_value(y)[0] for y in (left, right, tied)]
    return values[0] == values[1] != values[2]


def tangent(record: dict[str, Any], data: Any) -> bool:
    e, f = float(data["before"]), float(data["after"])
    x = np.log(e / f)
    gradient = (e / (1 + e) - f / (1 + f)) / (e * x / 2)
    curve = (e / (1 + e) * x + np.log((1 + f) / (1 + e))) / (e * x * x / 4)
    return min(gradient, curve) > 1


def soft_output(record: dict[str, Any], data: Any) -> bool:
    (a, b), (v, w) = data["weights"], data["values"]
    return a > b > 0 and v != w and abs((a * v + b * w) / (a + b) - v) > Fraction(45, 100) * abs(v - w)


def retrieval(record: dict[str, Any], data: Any) -> bool:
    reads, targets = [], []
    for name in ("first", "second"):
        x = np.array([float(t) for t in data[name]])
        w = sum(float(c) * x**i for i, c in enumerate(data["weight"]))
        f = sum(float(c) * x**i for i, c in enumerate(data["value"]))
        reads.append(float((w * f).sum() / w.sum()))
        targets.append(float(np.sort(x)[-2]))
    grid = np.linspace(0, 1, 201)
    f = sum(float(c) * grid**i for i, c in enumerate(data["value"]))
    return (
        abs(targets[0] - targets[1]) > 4 / 512 - 1e-9 and abs(reads[0] - reads[1]) < 2e-6 and f.min() >= -1e-9
    )


def separation(record: dict[str, Any], data: Any) -> bool:
    from hardmax.flow.theorems.colliding_pairs import SingleLayer

    def floats(value: Any) -> Any:
        return [floats(item) for item in value] if isinstance(value, list) else float(value)

    layer = SingleLayer(floats(data["scores"]), floats(data["values"]), float(data["beta"]))
    first, second = (np.array(floats(data[name])) for name in ("first", "second"))
    gap = abs(2 * (first @ first.T).min() - 2 * (second @ second.T).min())
    apart = np.linalg.norm(layer(first) - layer(second))
    needed = (gap - 2 * float(data["epsilon"])) / ((layer.n * layer.heads) ** 1.5 * apart)
    inside = max(np.abs(first).max(), np.abs(second).max()) <= 1
    return bool(
        inside
        and gap > 3.9 * float(data["epsilon"])
        and needed * (1 + 1e-6) >= record["expected"]["width_at_least"]
    )


def antipodal(record: dict[str, Any], data: Any) -> bool:
    def code(v: Any) -> float:
        z = [sum(float(a) * float(x) for a, x in zip(row, v, strict=True)) + float(b)
             for row, b in zip(data["w_in"], data["b_in"], strict=True)]  # fmt: skip
        return sum(float(c) * np.tanh(t) for c, t in zip(data["w_out"], z, strict=True))

    odd = [code(v) - code([1 - x for x in v]) for v in data["points"]]
    side = any({p[i] for p in data["points"]} in ({Fraction(0)}, {Fraction(1)}) for i in range(2))
    return side and odd[0] * odd[1] < 0


def active(record: dict[str, Any], data: Any) -> bool:
    if "factors" in data:  # the longest token is alone, for positive factors
        lengths = [[sum(x * x for x in token) for token in tokens] for tokens in data["inputs"]]
        return (
            min(data["factors"]) > 0
            and len(set(data["factors"])) > 1
            and all(row.count(max(row)) == 1 for row in lengths)
        )
    if "inputs" in data:
        return all(
            min(tokens)[0] >= 0 and max(tokens)[0] <= 1 and tokens.count(min(tokens)) == 1
            for tokens in data["inputs"]
        )
    best = [max(range(len(data["tokens"])), key=lambda t: data["tokens"][t][i]) for i in (0, 1)]
    return best[0] == best[1] and all(0 < x < 1 for token in data["tokens"] for x in token)


def trees(record: dict[str, Any], data: Any) -> bool:
    """Random values of all tuples: the roots of the trees must hold a best tuple of every term."""
    cases = data.get("cases", [data])
    arity = 3 if "tri" in record["claim"] else 2
    rng = np.random.default_rng(0)
    for case in cases:
        T = int(case["tokens"])
        if "trees" not in case:
            return record["expected"]["comparisons"] == T**3 - 1
        comparisons = sum(len(tree["leaves"]) - 1 for tree in case["trees"])
        if arity == 3 and not (comparisons < comb(T, 3) - 3 and len(case["trees"]) <= 3):
            return False
        terms = int(case.get("terms", 1))
        for _ in range(60):
            for term in range(terms):
                value = {}
                for part in np.ndindex(*[T] * arity):
                    value.setdefault(frozenset(part), rng.random())
                best = max(value, key=lambda s: value[s])
                held: set[int] = set()
                for tree in case["trees"]:
                    if len(tree["leaves"]) == 1 or int(tree["term"]) == term:
                        leaves = [frozenset(int(t) for t in leaf) for leaf in tree["leaves"]]
                        held |= max(leaves, key=lambda leaf: max(v for s, v in value.items() if s <= leaf))
                if not best <= held:
                    return False
    return True


def shared_layer(record: dict[str, Any], data: Any) -> bool:
    """The transformer in floating point, beside the network of Theorem V.7 of the library."""
    d, n, w, depth = map(int, data["size"])
    narrow = record["claim"] == "tropical.v7_genuine_d_plus_1"
    side, low = (n, 2) if narrow else (1, 0)
    weights = {name: np.array(data[name], dtype=float) for name in data if name != "size"}
    ideal = hm.networks.sawtooth_network(d, n, w, depth)
    pieces = (2 * w * n) ** depth
    line_ = (3 * np.arange(pieces) + 1) / (3 * pieces)
    middles = np.stack(np.meshgrid(*[line_] * d), axis=-1).reshape(-1, d)
    for point in [*middles, *np.random.default_rng(0).uniform(size=(200, d))]:
        tokens = weights["tokens"].copy()
        tokens[-1, :d] = low + side * point
        for _ in range(depth):
            after = tokens.copy()
            for w_q, w_k, w_v, w_o in zip(*(weights[f"w_{x}"] for x in "qkvo"), strict=True):
                scores = (tokens @ w_q.T) @ (tokens @ w_k.T).T
                tied = np.isclose(scores, scores.max(axis=1, keepdims=True), atol=1e-9)
                after += (tied / tied.sum(axis=1, keepdims=True)) @ (tokens @ w_v.T) @ w_o.T
            tokens = np.maximum(after @ weights["w_in"].T, 0) @ weights["w_out"].T
        if np.abs((tokens[-1, :d] - low) / side - ideal(point)).max() > 1e-9:
            return False
    return weights["tokens"].shape == ((n + 2, d + 1) if narrow else (n + 1, d + 3))


def single_leaves(record: dict[str, Any], data: Any) -> bool:
    held = {int(t) for leaf in data["leaves"] for t in leaf}
    fits = len(data["leaves"]) <= data["max_active"] and max(map(len, data["leaves"])) <= data["dimension"]
    return held == set(range(int(data["tokens"]))) and fits


def maxima(record: dict[str, Any], data: Any) -> bool:
    if record["claim"].endswith("appe"):
        return False  # the tokens are those of the paper
    table = array(data["tokens"])
    best = [int(np.argmax([row[i] for row in table])) for i in range(6)]
    return best == record["expected"]["maxima"] and len(set(best)) > 3


def formula(record: dict[str, Any], data: Any) -> bool:
    """Rules that are a formula of a few sizes: another size is another instance; the value was recomputed by
    the rule, and is recomputed here."""
    return SIZES[record["claim"]](record["expected"], data)


def _eq5(T: Any, h1: Any, h2: Any) -> Any:
    shape = hm.flow.Architecture(int(T), 1, (int(h1), int(h2)), int(h1 * h2))
    return int(maximum_comparisons(shape, 2))


def _sawtooth(size: Any, variant: str = "plain") -> int:
    d, n, w, depth = map(int, size)
    network = hm.networks.sawtooth_network(d, n, w, depth, variant=variant)
    if variant == "bias_free":
        network = network.restrict([0] * (d - 1) + [1], np.eye(d, dtype=int)[: d - 1])
        d -= 1
    return hm.count_regions(network, hm.Box.cube(d, 0, 1)).n_regions


def _heads_by_counting(expected: Any, data: Any) -> bool:
    D = int(data["maxima"])
    fewest = [next(s for s in range(1, 99) if s * (T - 1) >= D * (T - D)) for T in map(int, data["tokens"])]
    return fewest == expected["fewest"] and min(fewest) < D == max(fewest)


def _step_code(expected: Any, data: Any) -> bool:
    value = np.array([[i, j] for i in range(8) for j in range(8)], dtype=float) / 8
    corners = value.copy()
    for name in ("encoder", "decoder"):
        w_in, b_in, w_out, b_out = (
            np.array(data[name][part], dtype=object) for part in ("w_in", "b_in", "w_out", "b_out")
        )
        steps = (np.array([[Fraction(x) for x in row] for row in value]) @ w_in.T + b_in) >= 0
        value = steps.astype(object) @ w_out.T + b_out
    exact = (value == np.array([[Fraction(x) for x in row] for row in corners])).all()
    return bool(exact) and expected["cells"] == 64 and data["bits"] == 3


def _cap(expected: Any, data: Any) -> bool:
    x, y, z = data["centre"]
    half = Fraction(1, 2)
    inside = x * x + y * y + z * z == 1 and -half <= x <= 0 and -half <= y <= 0 and z < 0
    return inside and data["radius"] > 0 and -z - data["radius"] > 0


def _superpoly(expected: Any, data: Any) -> bool:
    shares = [float(T) ** (2 / 3) / (6 * int(data["depth"]) * int(data["width"])) - 1 for T in data["tokens"]]
    return all(k - 1 - 1e-9 <= max(x, 0) <= k + 1e-9 or (x <= 0 and k == 0)
               for x, k in zip(shares, expected["degrees"], strict=True))  # fmt: skip


def _product(expected: Any, data: Any) -> bool:
    left, right = (np.array(data[name], dtype=float) for name in ("left", "right"))
    wanted = np.zeros((6, 6))
    wanted[1, 0] = -2
    return bool((left.T @ right == wanted).all() and max(abs(left).max(), abs(right).max()) <= 1)


def _not_in_a_set(expected: Any, data: Any) -> bool:
    return all(H * L * T**3 >= comb(int(T), 3) > H * L * T**2 for T, H, L in data["cases"])


def _shares(expected: Any, data: Any) -> bool:
    found = [(r - 1) / (r * r) for r in data["roots"]]
    return [str(x) for x in found] == expected["shares"] and all(5 * b < a for a, b in pairwise(found))


SIZES: dict[str, Any] = {
    "infoflow.6-a": _heads_by_counting,
    "infoflow.t3.heaviside": _step_code,
    "infoflow.t1.kset": _cap,
    "infoflow.p2.superpoly": _superpoly,
    "infoflow.t1.a21": _product,
    "infoflow.p2-b": _not_in_a_set,
    "infoflow.p2.premise": _shares,
    "infoflow.t1.identity14": lambda e, d: len(set(d["grid"])) >= 3 and min(d["grid"]) > 0,
    "infoflow.t1.step3.factor": lambda e, d: any(d["token"]) and max(map(abs, d["token"])) <= 1,
    "infoflow.t3.o": lambda e, d: all(p * np.tanh(1 / float(p)) > 0.75 for p in d["sizes"]),
    "infoflow.t3.identity": lambda e, d: all(p * np.tanh(1 / float(p)) < 1 for p in d["sizes"]),
    "infoflow.t2.exponents": lambda e, d: (
        [row[2] for row in e["exponents"]]
        == [replay.text(Fraction(T - k + 1) / (n + 1) - 1) for T, k, n in d["cases"]]
    ),
    "infoflow.t1.k.order": lambda e, d: e["smaller"] + e["equal"] == d["heads"] * d["n"] * d["tokens"],
    "infoflow.law.versions": lambda e, d: (
        e["section 5.2"] == replay.text(d["tokens"] * d["d"] / d["width"] - 1)
    ),
    "infoflow.fig4": lambda e, d: (
        abs(float(e["others"]) / (7 * np.exp(-float(d["score"])) / (3 + 7 * np.exp(-float(d["score"])))) - 1)
        < 1e-4
    ),
    "infoflow.if.eq5.empty": lambda e, d: e["clamped"] > e["printed"] and 0 in d["cls_sets"],
    "infoflow.if.eq5.global": lambda e, d: 2 * (d["tokens"] - 1) == e["printed"] < e["needed"],
    "infoflow.p2.heads": lambda e, d: d["heads"] * (d["tokens"] + 2) * (d["tokens"] - 1) >= e["needed"],
    "tropical.v9_gap": lambda e, d: (
        e["gaps"]
        == [
            int(
                (
                    Fraction(
                        hm.bounds.zaslavsky(int(d["d_ff"]), int(d["d"])),
                        (2 * (int(d["d_ff"]) // (2 * int(d["d"])))) ** int(d["d"]),
                    )
                )
                ** int(L)
            )
            for L in d["depths"]
        ]
    ),
    "tropical.theta_exponent": lambda e, d: (
        e["regions"] == [_sawtooth([1, n, 1, d["depth"]]) for n in d["tokens"]]
        and e["at_most"] < e["claimed"]
    ),
    "tropical.v7_bound": lambda e, d: (
        e["maps"] == _sawtooth(d["size"]) >= e["stated"] and e["at_most"] < e["claimed"]
    ),
    "tropical.finite_tau_depth": lambda e, d: len(set(d["cells"])) == e["cells"],  # all 512 cells are lost
    "tropical.lemma_f1": lambda e, d: e["cells"] == [int(n) for n in d["sizes"]],
    "tropical.lemma_f2": lambda e, d: e["pieces"] == [2 * int(w) for w in d["sizes"]],
    "tropical.v7_count": lambda e, d: e["regions"] == [_sawtooth(size) for size in d["sizes"]],
    "tropical.v7_continuous": lambda e, d: e["cells"] == [_sawtooth(size) for size in d["sizes"]],
    "tropical.v7_formula_equality": lambda e, d: e["maps"] == _sawtooth(d["size"]) > e["printed"],
    "tropical.v7_maps_distinct": lambda e, d: e["maps"] == _sawtooth(d["size"]),
    "tropical.v7_with_ffn_skip": lambda e, d: e["maps"] == _sawtooth(d["size"], "ffn_skip"),
    "tropical.v7_bias_free_fixed": lambda e, d: e["maps"] == _sawtooth(d["size"], "bias_free"),
    "tropical.fig1": lambda e, d: e["regions"] == _sawtooth(d["size"]) == int(d["counts"][0]),
    "tropical.app_e_constant": lambda e, d: (
        e["maximum"] == [hm.vertex_maximum(int(d["n_tokens"]), int(h), 2) for h in d["heads"]]
    ),
    "tropical.zaslavsky_e_bound": lambda e, d: e["cells"] > (np.e * d["n"] / d["d"]) ** int(d["d"]),
    "infoflow.t1.outputo1": lambda e, d: 6 - int(d["units"]) * np.tanh(1 / 3) > 0.2,
    "infoflow.p1.h1": lambda e, d: (
        e["reached"] == _eq5(64, d["first"], d["maxima"]) >= e["needed"]
        and d["first"] < d["maxima"] > e["half"]
        and all(_eq5(T, e["half"], d["maxima"]) > d["maxima"] * T * (T - 1) / 2 for T in d["lengths"])
    ),
    "infoflow.p1.h2": lambda e, d: e["reached"] == _eq5(64, d["maxima"], d["last"]) >= e["needed"],
    "infoflow.p1.47": lambda e, d: e["exact"] == _eq5(d["tokens"], *d["heads"]) > e["printed"],
}


def line_arrangement(mutant: dict[str, Any], data: Any) -> bool:
    """The cells of the lines, enumerated as those of a ReLU layer."""
    rows = [[int(x) if x.denominator == 1 else x for x in row] for row in data["lines"]]
    if len({tuple(Fraction(x) / next(y for y in row if y) for x in row) for row in rows}) < len(rows):
        return False
    layer = hm.FeedForward([row[:2] for row in rows], [row[2] for row in rows], [[1] * len(rows)], [0])
    cells = hm.enumerate_regions(hm.Network([layer]), hm.WholeSpace(2))
    found = {"regions": cells.n_cells, "bounded": int(cells.bounded.sum())}
    expected = mutant["expected"]
    if any(found[name] != value for name, value in expected.items()):
        return False
    if "points" in data:
        signs = {tuple(a * x + b * y + c > 0 for a, b, c in data["lines"]) for x, y in data["points"]}
        return len(signs) == expected["regions"]
    return set(expected) == {"bounded"} or found["bounded"] == comb(len(rows) - 1, 2)


def folding_line(mutant: dict[str, Any], data: Any) -> bool:
    """Kinks on both sides of zero by brute force; regions of the library's networks."""
    n, expected = int(data["narrow"]), mutant["expected"]
    most = max(sum(side) + sum(a != b for a, b in pairwise(side)) + 3 for side in product((0, 1), repeat=n))
    lists = [[1, *map(int, widths)] for widths in data["widths"]]
    found = [hm.regions.count_regions(folding_network(w), hm.Box([0], [1])).n_regions for w in lists]
    return most == expected["most"] < expected["claimed"] == 2 * n and found == expected["regions"]


def lap_regions(mutant: dict[str, Any], data: Any) -> bool:
    """Regions of the library's networks on the whole line."""
    lists = [list(map(int, widths)) for widths in data["widths"]]
    found = [hm.regions.count_regions(lap_network(w), hm.WholeSpace(1)).n_regions for w in lists]
    return found == mutant["expected"]["regions"] == [prod(n + 1 for n in w) for w in lists]


def top_k_sets(mutant: dict[str, Any], data: Any) -> bool:
    """The sets of the k best by sorting, and the cells of hyperplanes."""
    scores, k, expected = np.array(data["points"], dtype=float), int(data["k"]), mutant["expected"]
    sets = {tuple(sorted(row)) for row in np.argsort(-scores, axis=1)[:, :k].tolist()}
    n = scores.shape[1]
    cells = hm.bounds.zaslavsky(n, int(data["d"]) + 1)
    return len(sets) == comb(n, k) == expected["in score space"] > cells == expected["at most"]


ORACLES: dict[str, Any] = {
    "line_arrangement": line_arrangement,
    "folding_line": folding_line,
    "laps": lap_regions,
    "top_k_sets": top_k_sets,
    "diagrams": diagrams,
    "heads": heads,
    "sign_vectors": sign_vectors,
    "sum_of_heads": sum_of_heads,
    "softmax_covariance": softmax,
    "network_line": line,
    "relu_layer": relu_layer,
    "routing": routing,
    "log_lift": log_lift,
    "refinement_line": refinement,
    "recession": recession,
    "normalised_keys": normalised,
    "self_attention": self_attention,
    "wall_value": wall_value,
    "tangent_error": tangent,
    "soft_output": soft_output,
    "retrieval_pair": retrieval,
    "separation_pair": separation,
    "antipodal_signs": antipodal,
    "active_sets": active,
    "covering_trees": trees,
    "single_leaves": single_leaves,
    "shared_layer": shared_layer,
    "information_sets": maxima,
}


def still_proves(original: dict[str, Any], mutant: dict[str, Any]) -> bool:
    """Whether an accepted mutation proves what the original proves, by other means than the rules."""
    fixed = [name for name in original if name not in (*PROVENANCE, "data", "expected")]
    if any(mutant[name] != original[name] for name in fixed):
        return False
    if mutant["data"] == original["data"]:
        return mutant["expected"] == original["expected"]
    data = numbers(mutant["data"])
    if data == numbers(original["data"]):
        return mutant["expected"] == original["expected"]
    oracle = formula if mutant["claim"] in SIZES else ORACLES.get(mutant["kind"])
    return oracle is not None and bool(oracle(mutant, data))


def certificates(select: Any = None) -> list[dict[str, Any]]:
    """The records of all certificates, as files give them back."""
    ledger = hm.check_claims(select)
    records = [e.certificate.record(e, e.verdict) for e in ledger if e.certificate is not None]
    return json.loads(json.dumps(records))


def survey(records: list[dict[str, Any]], n: int, seed: int) -> tuple[Counter[str], list[str]]:
    """How many mutations are refused, accepted and still proofs, or neither; and what the last ones are."""
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    wrong = []
    named = {record["claim"]: record for record in records}
    for i in range(n):
        original = records[i % len(records)]
        mutant = mutated(original, records, rng)
        if mutant == original:
            counts["unchanged"] += 1
        elif replay.failure(mutant) is not None:
            counts["refused"] += 1
        elif still_proves(named[mutant["claim"]], mutant):  # with another label it may be another certificate
            counts["accepted, still a proof"] += 1
        else:
            counts["ACCEPTED, NO PROOF"] += 1
            changes = [name for name in original if mutant[name] != original[name]]
            before, after = (json.dumps(each["data"]) for each in (original, mutant))
            start = next((k for k, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
            wrong.append(f"{mutant['claim']} {changes}: {before[start:][:40]} -> {after[start:][:40]}")
    return counts, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--paper", default=None, help="only the certificates of this paper")
    options = parser.parse_args()
    records = certificates(options.paper)
    counts, wrong = survey(records, options.mutations, options.seed)
    print(f"{options.mutations} mutations of {len(records)} certificates: {dict(counts)}")
    for line_ in wrong:
        print("  ", line_)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
