"""Forged certificates: everything that once passed, and what somebody would try next. All are refused."""

from __future__ import annotations

import copy
import gzip
import hashlib
import importlib.util
import json
import os
from itertools import combinations
from pathlib import Path
from typing import Any

import ledger_checks
import pytest
from click.testing import CliRunner

from hardmax.cli import main
from hardmax.networks.constructions import genuine_sawtooth, narrow_sawtooth, sawtooth_network
from hardmax.papers import replay
from hardmax.papers.ledger import Verdict, all_claims, exact, network_record
from hardmax.papers.paper import papers

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def records() -> dict[str, dict[str, Any]]:
    found = {}
    for paper in papers():
        for entry in ledger_checks.certified(ledger_checks.quick_ledger(paper)):
            found[entry.name] = ledger_checks.record_of(entry)
    return found


def test_the_real_certificates_are_accepted_and_every_rule_has_one(records):
    assert {name: why for name in records if (why := replay.failure(records[name])) is not None} == {}
    assert set(records) == set(replay.RULES) == set(replay.STATEMENTS)


def relabelled(source: str, claim: str, **more: Any):
    """The certificate of one claim with the label of another, statement and hash included."""

    def forge(records):
        record, other = copy.deepcopy(records[source]), records[claim]
        for name in ("claim", "place", "statement", "hypotheses", "sha256"):
            record[name] = other[name]
        return {**record, **{name: other[name] for name in ("kind", "verdict")}, **more}

    return forge


def fields(claim: str, /, **more: Any):
    """The certificate of a claim with other fields of the record."""
    return lambda records: {**records[claim], **more}


def data(claim: str, /, *way: Any, **more: Any):
    """The certificate of a claim with other data: ``way`` ends in the new value, ``more`` are whole parts."""

    def forge(records):
        record = copy.deepcopy(records[claim])
        record["data"].update(more)
        if way:
            *steps, last, value = way
            inner = record["data"]
            for step in steps:
                inner = inner[step]
            inner[last] = (
                value(inner.get(last) if isinstance(inner, dict) else inner[last])
                if callable(value)
                else value
            )
        return record

    return forge


def expecting(claim: str, expected: Any):
    return lambda records: {**records[claim], "expected": expected}


def without(claim: str, name: str):
    return lambda records: {key: value for key, value in records[claim].items() if key != name}


def twice(claim: str, part: str, value: str, times: int, entry: int = 0):
    """One instance several times in place of several instances, with the value that belongs to it."""

    def forge(records):
        record = copy.deepcopy(records[claim])
        for holder, name in ((record["data"], part), (record["expected"], value)):
            holder[name] = [holder[name][entry]] * times
        return record

    return forge


def more_units(claim: str):
    """A transformer with a unit more, which does nothing."""

    def forge(records):
        record = copy.deepcopy(records[claim])
        record["data"]["w_in"].append([0] * len(record["data"]["w_in"][0]))
        for row in record["data"]["w_out"]:
            row.append(0)
        return record

    return forge


def instance(claim: str, expected: Any, **parts: Any):
    """Another instance of a claim, with the value that belongs to it."""

    def forge(records):
        record = copy.deepcopy(records[claim])
        return {**record, "data": {**record["data"], **parts}, "expected": expected}

    return forge


def flat_teeth(_):
    """A transformer that is right at a point of each of four pieces and has two pieces: its second unit, on
    in every other piece, is read by nothing."""
    return {
        "size": [1, 2, 1, 1],
        "tokens": [["-45/8", "-25/8"], ["-77/8", "-49/8"], [-16, -16], [2, 1]],
        "w_q": [[[1, 0], [0, 1]]], "w_k": [[[-1, 1], [0, 1]]], "w_v": [[[1, -1]]], "w_o": [[[1], [0]]],
        "w_in": [[1, "1/2"], [1, 0], [-1, "-1/2"], [0, 1], [0, -1]],
        "w_out": [["4/3", 0, -1, "22/9", "1/2"], [0, 0, 0, 1, -1]],
    }  # fmt: skip


def one_layer(claim: str, build: Any, width: int):
    """A transformer of one layer: it does not show that the next layer meets what it needs."""

    def forge(records):
        layer, tokens = build(2, 3, 1)
        names = ("w_q", "w_k", "w_v", "w_o", "w_in", "w_out")
        parts = {"tokens": tokens, "size": [2, 3, 1, 1], **{name: getattr(layer, name) for name in names}}
        return {**records[claim], "data": exact(parts), "expected": {"signatures": 36, "width": width}}

    return forge


def slow_case(_):
    """Two lists of numbers with denominators that have nothing in common: sums have 30,000 digits."""
    weights = [f"1/{10**100 + k}" for k in range(300)]
    return {"weights": ["1/3", *weights], "vector": [1, *weights]}


def winner_named(rename):
    """A diagram in which a winner has another name for its number."""

    def forge(records):
        record = copy.deepcopy(records["tropical.cell_nonempty_iff_vertex"])
        winners = record["data"]["diagrams"][0]["winners"]
        first = min(winners)
        winners[rename(first)] = winners.pop(first)
        return record

    return forge


FIG4, POWER, HESSIAN = "tropical.fig4_216", "tropical.pow_512_8", "tropical.lse_hess_paper"
LOWER, PAIR = "infoflow.t1.lower", "infoflow.t2.pair"
INTERIOR = "tropical.fig6b_interior_explanation"
HOLDS = str(Verdict.PROVED)

FORGERIES = {
    # what was accepted before certificates were bound to claims
    "6^3 as proof that 216 vertices are there": relabelled(
        POWER, FIG4, kind="power", verdict=HOLDS, data={"base": 6, "exponent": 3}, expected={"value": 216}
    ),
    "1 < 2 as the bound of the Hessian": relabelled(
        POWER,
        HESSIAN,
        kind="relations",
        verdict=HOLDS,
        data={"relations": [[1, "<", 2]]},
        expected={"true": [True]},
    ),
    "trees without cases": data("infoflow.cmp.tri.lb", cases=[]),
    "trees without trees": data("infoflow.cmp.tri.lb", "cases", 0, "trees", []),
    "no diagrams": data("tropical.fig3_caption", diagrams=[]),
    "no diagrams, and nothing expected": lambda r: {
        **r["tropical.cell_nonempty_iff_vertex"], "data": {"diagrams": []}, "expected": {"winning": []}
    },
    "soft signatures without points": lambda r: {
        **r["tropical.finite_tau_depth"], "data": {"cells": []}, "expected": {"cells": 0, "kept": 0}
    },
    "an unrelated network as the construction": relabelled("tropical.cpwl_closure", "tropical.v7_count"),
    "a second line in the claim": fields(POWER, claim="x\naccepted   tropical.fig4_216: holds"),
    "a carriage return in the claim": fields(POWER, claim=f"{POWER}\raccepted"),
    "a terminal escape in the claim": fields(POWER, claim=f"\x1b[32m{POWER}"),
    "a terminal escape in the statement": fields(POWER, statement="\x1b[2Jall is well"),
    "an exponent of 10^12": data(POWER, exponent=10**12),
    "a base of 10^9": data(POWER, base=10**9),
    "1e99999999 as a number": data("tropical.uniform_limit", weights=[1, "1e99999999"]),
    "1e99999999 as a centre": data("infoflow.t1.kset", "centre", 0, "1e99999999"),
    # relabelled, and with another verdict
    "fails relabelled as holds": fields(FIG4, verdict=HOLDS),
    "a misprint relabelled as a failure": fields(POWER, verdict="fails"),
    "a verdict that there is not": fields(FIG4, verdict="true"),
    "no verdict": fields(FIG4, verdict=None),
    "an unknown claim": fields(FIG4, claim="tropical.riemann"),
    "an empty claim": fields(FIG4, claim=""),
    "a claim that is a list": fields(FIG4, claim=[FIG4]),
    "a claim of the other paper": relabelled(FIG4, "infoflow.cmp.tri.lb"),
    "one family as another claim about heads": relabelled(FIG4, "tropical.saturated_floor_d_half"),
    "equal log-values as a bent head": relabelled("tropical.rem_iii12", "tropical.loglift_same_walls"),
    "the table of one claim for another": relabelled("infoflow.tab.11a", "infoflow.tab.11b"),
    "one exponent for another": relabelled("infoflow.law.versions", "infoflow.p2-b"),
    "another kind": fields(FIG4, kind="power"),
    "the kind of another claim": fields(FIG4, kind="diagrams"),
    "another statement, and its hash": lambda r: {
        **r[FIG4],
        "statement": "Everything holds.",
        "sha256": replay.statement_digest(FIG4, "Figure 4", "Everything holds.", r[FIG4]["hypotheses"]),
    },
    "another statement under the old hash": fields(FIG4, statement="Everything holds."),
    "weaker hypotheses": fields(FIG4, hypotheses="none"),
    "another place": fields(FIG4, place="Theorem V.2"),
    "no hash": fields(FIG4, sha256=""),
    "a long statement": fields(FIG4, statement="a" * 10**5),
    # the record itself
    "an older schema": fields(FIG4, schema=1),
    "a schema that is true": fields(FIG4, schema=True),
    "a schema in words": fields(FIG4, schema="2"),
    "a field too many": fields(FIG4, accepted=True),
    "no expectation": without(FIG4, "expected"),
    "no hypotheses": without(FIG4, "hypotheses"),
    "no version": without(FIG4, "hardmax"),
    "a version with an escape": fields(FIG4, hardmax="1\x1b[0m"),
    "a commit with a second line": fields(FIG4, commit="unknown\naccepted"),
    "no record": lambda records: [records[FIG4]],
    "nothing": lambda records: None,
    # emptied and shrunk
    "no families": data(FIG4, families=[]),
    "no points": data(FIG4, "families", 0, "points", []),
    "points of fewer cells": data(FIG4, "families", 0, "points", lambda points: points[:91]),
    "a head without keys": data(FIG4, "families", 0, "heads", 0, []),
    "five keys for six": data(FIG4, "families", 0, "heads", 0, lambda rows: rows[:5]),
    "two heads for three": data(FIG4, "families", 0, "heads", lambda heads: heads[:2]),
    "two families for three": data("tropical.saturated_floor_d_half", families=[]),
    "no sizes": data("tropical.v7_count", sizes=[]),
    "one size": data("tropical.v7_count", "sizes", lambda sizes: sizes[:1]),
    "no losers": data("tropical.fig6b_interior_explanation", losers=[]),
    "no winners": data("tropical.fig6b_interior_explanation", winners=[]),
    "a table with a row less": data("infoflow.tab.12", "rows", lambda rows: rows[1:]),
    "a table with a better number": data("infoflow.tab.11a", "rows", 0, 1, "1/2"),
    "no cases": data(HESSIAN, cases=[]),
    "without N = 512": data(HESSIAN, "cases", lambda cases: cases[:2]),
    "an empty grid": data("infoflow.t1.identity14", grid=[]),
    "two values for three": data("infoflow.t1.identity14", grid=[1, 2]),
    "no hyperplanes": data("tropical.zaslavsky", hyperplanes=[]),
    "no leaves": data("infoflow.cmp.zero", leaves=[]),
    # swapped, scaled, duplicated
    "the same key twice": data("tropical.layernorm_norms_keys", "keys", 1, [1, -1, 1, -1]),
    "the same point in place of another": data("tropical.zaslavsky", "points", 1, lambda _: [0, 0]),
    "the same value three times": data("infoflow.t1.identity14", grid=[2, 2, 2]),
    "a cell twice": data("tropical.finite_tau_depth", "cells", 1, 0),
    "points in another order": data("tropical.def_iii7", "points", lambda points: points[::-1]),
    "weights in another order": data("tropical.uniform_limit", "weights", lambda pair: pair[::-1]),
    "a weight scaled down": data(HESSIAN, "cases", 0, "weights", [1, "1/2"]),
    "weights that are negative": data(HESSIAN, "cases", 0, "weights", [1, "-1/10"]),
    "keys scaled out of the cube": data("infoflow.cmp.dret.ae", "tokens", 0, [6, 6]),
    "a point outside the interval": data("tropical.mc_lower_bound_regions", "points", 0, [9]),
    "a centre off the sphere": data("infoflow.t1.kset", centre=["-1/2", "-1/2", "-1/2"]),
    "a leaf that is too long": data("infoflow.cmp.zero", leaves=[[0, 1, 2], [3]]),
    "a leaf that does not exist": data("infoflow.cmp.zero", leaves=[[0, 1], [2, 4]]),
    "a tree that misses a triple": data(
        "infoflow.cmp.tri.lb", "cases", 0, "trees", 2, "leaves", lambda leaves: leaves[1:]
    ),
    "four trees": data("infoflow.cmp.tri.lb", "cases", 0, "trees", lambda trees: [*trees, trees[0]]),
    "a negative position": data("infoflow.cmp.zero", leaves=[[0, 1], [2, -1]]),
    "a wall value that is none": data("tropical.def_iii1", outputs=[[[0], [0]], [[2], [2]]]),
    "a network of another size": data("tropical.v7_bound", size=[1, 2, 1, 2]),
    "a huge network": data("tropical.v7_maps_distinct", size=[4, 16, 8, 4]),
    "a negative size": data("tropical.v7_maps_distinct", size=[2, -2, 1, 2]),
    "an incomplete transformer": data("tropical.v7_genuine_d_plus_3", "tokens", lambda rows: rows[:-1]),
    "other weights of the transformer": data("tropical.v7_genuine_d_plus_3", "w_q", 0, 0, 0, 5),
    "a narrow transformer without its sink": data("tropical.v7_genuine_d_plus_1", "tokens", lambda t: t[1:]),
    "other weights of the narrow one": data("tropical.v7_genuine_d_plus_1", "w_k", 0, 0, 0, 5),
    "the wide transformer as the narrow one": relabelled(
        "tropical.v7_genuine_d_plus_3", "tropical.v7_genuine_d_plus_1"
    ),
    "sizes that do not grow": data("infoflow.t3.o", sizes=[16, 16, 16, 16]),
    "a tuple on both lists": lambda r: {
        **r["tropical.fig6b_interior_explanation"],
        "data": {
            **r["tropical.fig6b_interior_explanation"]["data"],
            "losers": [
                *r["tropical.fig6b_interior_explanation"]["data"]["losers"],
                [r["tropical.fig6b_interior_explanation"]["data"]["winners"][0][0], [[0, 0, 0]], [1]],
            ],
        },
    },
    "a size twice": fields("tropical.v7_count", data={"sizes": [[1, 2, 1, 2]] * 2},
                           expected={"regions": [16] * 2}),
    "one key and one layer": fields("tropical.v7_maps_distinct", data={"size": [2, 1, 1, 1]},
                                    expected={"signatures": 4, "maps": 4}),
    "one layer on the line": fields("tropical.v7_continuous", data={"sizes": [[1, 2, 1, 1], [1, 3, 1, 1]]},
                                    expected={"cells": [4, 6]}),
    "one key": fields("tropical.v7_formula_equality", data={"size": [1, 1, 1, 1]},
                      expected={"maps": 2, "printed": 1}),
    "a grid head twice": fields("tropical.lemma_f1", data={"sizes": [2, 2]}, expected={"cells": [2, 2]}),
    "a sawtooth twice": fields("tropical.lemma_f2", data={"sizes": [1, 1]}, expected={"pieces": [2, 2]}),
    "a case three times": twice("infoflow.t2.exponents", "cases", "exponents", 3),
    "an input twice": twice("infoflow.p1.distinct", "inputs", "active", 2),
    "a domain twice": twice("infoflow.cmp.tri.domain", "inputs", "active", 2),
    "a softmax twice": twice(HESSIAN, "cases", "quotients", 2, entry=2),
    "trees twice": twice("infoflow.cmp.tri.lb", "cases", "comparisons", 2),
    "a diagram twice": twice("tropical.cell_nonempty_iff_vertex", "diagrams", "winning", 2),
    "a printed term twice": lambda r: {
        **r["infoflow.p2-b"], "expected": {"cases": 3},
        "data": {"cases": [r["infoflow.p2-b"]["data"]["cases"][0]] * 3},
    },
    "widths twice": twice("classical.serra.line", "widths", "regions", 2),
    "folds twice": twice("classical.montufar.lower", "widths", "regions", 2),
    "units that a transformer of this size has not": more_units("tropical.v7_genuine_d_plus_1"),
    "units that the wide transformer has not": more_units("tropical.v7_genuine_d_plus_3"),
    "wider heads": data("tropical.v7_genuine_d_plus_1", "w_q", 0, lambda rows: [*rows, [0] * len(rows[0])]),
    "a context that is moved": data("tropical.v7_genuine_d_plus_1", "w_out", 2, 6, 2),
    "a diagram with a note": data("tropical.newton_characterises", "diagrams", 0, "note", lambda _: 1),
    "a number with a plus sign": winner_named(lambda j: f"+{j}"),
    "a number with a blank": winner_named(lambda j: f" {j}"),
    "a number in another script": winner_named(lambda j: chr(0x660 + int(j))),
    # instances that show nothing
    "a transformer that is right at points only": lambda r: {
        **r["tropical.v7_genuine_d_plus_1"], "data": flat_teeth(r), "expected": {"signatures": 4, "width": 2}
    },
    "values that are zero": instance(
        LOWER, {"width_at_least": 25335593911722829901768376417970014629208551307726888855529866510249996},
        values=[[[0, 0, 0]]]
    ),
    "values of a billionth": instance(
        LOWER, {"width_at_least": 296286612531552}, values=[[["1/1000000000", 0, 0]]]
    ),
    "scores that are zero": instance(LOWER, {"width_at_least": 1442}, scores=[[0, 0, 0]]),
    "targets that are far apart": instance(LOWER, {"width_at_least": 79826}, epsilon="1/1000000000000"),
    "four tokens, where the theorem says nothing": instance(
        LOWER, {"width_at_least": 40521}, first=[[1, 1, 1]] * 4, second=[[1, 1, 1]] * 4
    ),
    "a value that is constant": instance(PAIR, {"targets": 2, "collide": True}, value=["1/2"]),
    "a mean of nothing": instance(
        PAIR, {"targets": 2, "collide": True}, weight=[1], value=[0], first=[1, "1/2", 0, 0, 0, 0, 0],
        second=[1, "3/4", 0, 0, 0, 0, 0]
    ),
    "a value that hardly moves": instance(
        PAIR, {"targets": 2, "collide": True}, value=[0, "1/1000000000"], first=[1, "1/2", 0, 0, 0, 0, 0],
        second=[1, "3/4", 0, 0, 0, 0, 0]
    ),
    "weights that do not choose": instance(
        PAIR, {"targets": 2, "collide": True}, weight=[1], first=[1, "1/2", "1/4", 0, 0, 0, 0],
        second=[1, "1/2", "1/4", 0, 0, 0, 0]
    ),
    "two planes in four dimensions": instance(
        "tropical.zaslavsky", {"cells": 4, "maximum": 4}, hyperplanes=[[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]],
        points=[[1, 1, 0, 0], [1, -1, 0, 0], [-1, 1, 0, 0], [-1, -1, 0, 0]]
    ),
    "two lines in general position": instance(
        "classical.zaslavsky.general", {"regions": 4, "bounded": 0}, lines=[[1, 0, 0], [0, 1, 0]]
    ),
    "one token that is found": instance(
        "infoflow.cmp.zero", {"comparisons": 0}, tokens=1, max_active=1, dimension=1, leaves=[[0]]
    ),
    "leaves to spare": instance(
        "infoflow.cmp.zero", {"comparisons": 0}, tokens=4, max_active=3, dimension=2, leaves=[[0, 1], [2, 3]]
    ),
    "one unit": instance("infoflow.t1.outputo1", {"error_above": "1/5"}, units=1),
    "two tokens for two maxima": instance(
        "infoflow.cmp.dret.ae", {"active": [0]}, tokens=[["3/4", "3/4"], ["1/4", "1/4"]]
    ),
    "triples of two tokens": instance("infoflow.cmp.tri.upper", {"comparisons": 7}, tokens=2),
    "a token twice": instance(
        "infoflow.cmp.tri.domain", {"active": [[2], [2]]},
        inputs=[[["1/2"], ["1/2"], ["1/3"]], [["1/2"], ["1/2"], ["1/4"]]]
    ),
    "counts that nobody printed": instance(
        "tropical.fig1", {"regions": 64, "constants": [4, "1/256", "1/4096"]}, counts=[64, 1, 1]
    ),
    "log-values that agree for those that differ": instance(
        "tropical.rem_iii12", {"equal": [3, 1], "apart": [3, 1]}, apart=[3, 3, 3]
    ),
    "a key that is there twice": instance(
        "tropical.rem_iii12", {"equal": [2, 1], "apart": [3, 3]}, keys=[-1, -1, 1]
    ),
    "log-values that differ for those that agree": instance(
        "tropical.rem_iii12", {"equal": [4, 4], "apart": [4, 4]}, equal=[1, 3, 0]
    ),
    "an order that is left out": lambda r: {
        **data("tropical.rem_v6", "families", 0, "points", lambda points: points[1:])(r),
        "expected": {"cells": [23, 4]},
    },
    "a layer of another kind": data("tropical.def_iii1", "layer", "block", "Attention"),
    "values that agree": instance(
        "tropical.uniform_limit", {"distance": 0}, weights=[1, "1/2"], values=[1, 1]
    ),
    "a form that is zero": instance(
        "tropical.rem_iv5", {"winners": [0, 0, 1]}, form=[[0]], first=[[1], [0]], second=[[3], [2]]
    ),
    "a space of no dimension": instance(
        "tropical.cells_bounded", {"winner": 0, "unbounded": True}, scores=[[], []], point=[], direction=[]
    ),
    "three experts, where all sets are chosen": instance(
        "moe.capacity", {"at most": 7, "in score space": 3}, d=1, k=1,
        points=[[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    ),
    "two versions that agree": instance(
        "infoflow.law.versions",
        {"section 5.2": 1, "appendix A.3, section 6": 2, "section 4.2, appendix B.2": 1},
        tokens=1, d=2, width=1
    ),
    "a head of one key": instance("tropical.lemma_f1", {"cells": [1, 2]}, sizes=[1, 2]),
    "two units, of which none is lost": instance(
        "classical.montufar.lower", {"most": 4, "claimed": 4, "regions": [6]}, narrow=2, widths=[[2, 2]]
    ),
    "a wall on which nothing changes": instance(
        "tropical.def_iii1", {"beside": 0, "on the wall": 0}, outputs=[[[1], [1]], [[1], [1]]]
    ),
    # texts that are none
    "weights that take an hour to add": data(HESSIAN, "cases", 0, slow_case),
    "half a character in the statement": fields(POWER, statement="\ud800"),
    "half a character in the hypotheses": fields(POWER, hypotheses="\udfff"),
    "half a character in the place": fields(POWER, place="\ud800"),
    "half a character in the data": data("infoflow.tab.12", rows=["\ud800"]),
    "half a character in the value": expecting(POWER, {"value": "\ud800"}),
    "a wide digit in the claim": fields(POWER, claim="tropical.pow_512_\uff18"),
    "a hard blank in the verdict": fields(FIG4, verdict="fails\u00a0"),
    "a version in words": fields(POWER, hardmax="accepted"),
    "a hash in capitals": lambda r: {**r[POWER], "sha256": r[POWER]["sha256"].upper()},
    # numbers that are none
    "a fraction that can be shortened": data("infoflow.t1.step3.factor", token=["2/4", 0, 0]),
    "an integer as a fraction": data("infoflow.t1.step3.factor", token=["0/7", "1/1", 0]),
    "minus zero": data("infoflow.t1.step3.factor", token=["-0/1", "-0x0.0p+0", 0]),
    "a truth value as a number": data("infoflow.t1.step3.factor", token=[True, 0, 0]),
    "a fraction with denominator 0": data("infoflow.t1.step3.factor", token=["1/0", 0, 0]),
    "digits of another script": data("infoflow.t1.step3.factor", token=["١/٢", 0, 0]),
    "blanks around a number": data("infoflow.t1.step3.factor", token=[" 1/2", 0, 0]),
    "an underscore in a number": data("infoflow.t1.step3.factor", token=["1_0/20", 0, 0]),
    "infinity": data("infoflow.t1.step3.factor", token=["inf", 0, 0]),
    "a huge float": data("infoflow.t1.step3.factor", token=["0x1.8p+9999", 0, 0]),
    "an integer of 10^5 digits": data("infoflow.t1.step3.factor", token=[10**100000, 0, 0]),
    "a decimal fraction": data("infoflow.t1.step3.factor", token=["0.5", 0, 0]),
    "data that are a list": fields(POWER, data=[512, 8]),
    "data that are nothing": fields(POWER, data=None),
    "data with a name more": data(POWER, more=1),
    "deeply nested data": fields(POWER, data={"base": [[[[[[[[[[[[[[1]]]]]]]]]]]]]], "exponent": 8}),
    "very many data": fields(POWER, data={"base": [0] * 30000, "exponent": 8}),
    # other values
    "another value": expecting(POWER, {"value": 1100000000000000000000}),
    "a value as text": expecting(POWER, {"value": str(2**72)}),
    "no value": expecting(POWER, {}),
    "a value too many": expecting(POWER, {"value": 2**72, "holds": True}),
    "true for 1": expecting("tropical.def_iii1", {"beside": True, "on the wall": 0}),
}  # fmt: skip


FORGERIES |= {  # instances outside the hypotheses, and numbers written in odd ways
    "two points on a line": instance(
        "tropical.zaslavsky",
        {"cells": 3, "maximum": 3},
        hyperplanes=[[1, 0], [1, -1]],
        points=[[-1], ["1/2"], [2]],
    ),
    "a polytope without inner exponents": instance(
        "tropical.newton_characterises",
        {"winning": [[0, 1, 2], [0, 2], [0, 1]]},
        diagrams=[
            {"scores": [[0, 0], [1, 5], [2, 0]], "winners": {"0": [-6], "1": [0], "2": [6]}, "losers": {}},
            {
                "scores": [[0, 0], [1, -5], [2, 0]],
                "winners": {"0": [-1], "2": [1]},
                "losers": {"1": ["1/2", 0, "1/2"]},
            },
            {"scores": [[0, 0], [2, 0]], "winners": {"0": [-1], "1": [1]}, "losers": {}},
        ],
    ),
    "two coefficients that agree": instance(
        "tropical.def_iii7",
        {"winners": [[0], [1], [2]]},
        scores=[[-1, 0], [0, 1], [1, 0]],
        points=[[-2], [0], [2]],
    ),
    "four terms": instance(
        "tropical.def_iii7",
        {"winners": [[0], [1], [2]]},
        scores=[[-1, 0], [0, 1], [1, "1/2"], [2, -5]],
        points=[[-2], [0], [1]],
    ),
    "three keys for two": instance(
        "tropical.loglift_same_walls",
        {"values": [0, 0, 1], "winners": [[0], [0], [0]]},
        keys=[[-1], [0], [1]],
        log_values=[0, 0, 2],
        points=[[-2], ["-3/2"], ["-1/2"]],
    ),
    "output weights of one sign": instance(
        "tropical.ffn_is_trop_poly",
        {"values": [0, 0, -1]},
        network=[
            {"block": "FeedForward", "w_in": [[1]], "b_in": [0], "w_out": [[-1]], "b_out": [0], "skip": False}
        ],
        points=[[-1], [0], [1]],
    ),
    "three keys that jump": instance(
        "tropical.cpwl_closure",
        {"cells": 2, "regions": 2, "jumps": 1},
        network=[
            {
                "block": "Attention",
                "scores": [[[-1], [0], [1]]],
                "biases": [[0, 0, 0]],
                "outputs": [[[-1], [0], [1]]],
                "skip": True,
            }
        ],
        interval=[-4, 4],
    ),
    "keys on a line": instance(
        "tropical.cell_nonempty_iff_vertex",
        {"winning": [[0, 2]]},
        diagrams=[
            {
                "scores": [[-1, 0], [0, 0], [1, 0]],
                "winners": {"0": [-1], "2": [1]},
                "losers": {"1": ["1/2", 0, "1/2"]},
            }
        ],
    ),
    "light keys on a line": instance(
        "tropical.fig3_caption",
        {"winning": [[0, 2], [0, 2]]},
        diagrams=[
            {
                "scores": [[-1, 0], [5, 0], [10, 0]],
                "winners": {"0": [-1], "2": [1]},
                "losers": {"1": ["5/11", 0, "6/11"]},
            },
            {
                "scores": [[-1, 0], [5, 0], [10, 0]],
                "winners": {"0": [-2], "2": [1]},
                "losers": {"1": ["5/11", 0, "6/11"]},
            },
        ],
    ),
    "a gain of zero": instance(
        "tropical.layernorm_norms_keys",
        {"squared_norms": [4, 4, 4], "with_gain": [3, "51/25", "99/25"]},
        gain=[0, 1, 1, 1],
    ),
    "a gain that is negative": instance(
        "tropical.layernorm_norms_keys",
        {"squared_norms": [4, 4, 4], "with_gain": [7, "247/25", "103/25"]},
        gain=[-2, 1, 1, 1],
    ),
    "three keys in a block": instance(
        "tropical.block_is_refinement",
        {"block": 4, "refinement": 3},
        network=[
            {
                "block": "Attention",
                "scores": [[[-1], [0], [1]]],
                "biases": [[0, 0, 0]],
                "outputs": [[[3], [1], [0]]],
                "skip": True,
            },
            {
                "block": "FeedForward",
                "w_in": [[1]],
                "b_in": [-1],
                "w_out": [[1]],
                "b_out": [0],
                "skip": False,
            },
        ],
        interval=[-4, 4],
    ),
    "two units in a block": instance(
        "tropical.block_is_refinement",
        {"block": 6, "refinement": 4},
        network=[
            {
                "block": "Attention",
                "scores": [[[-1], [1]]],
                "biases": [[0, 0]],
                "outputs": [[[3], [0]]],
                "skip": True,
            },
            {
                "block": "FeedForward",
                "w_in": [[1], [1]],
                "b_in": [-1, -2],
                "w_out": [[1, 1]],
                "b_out": [0],
                "skip": False,
            },
        ],
        interval=[-4, 4],
    ),
    "a head that routes to one key only": instance(
        "tropical.block_is_refinement",
        {"block": 1, "refinement": 2},
        network=[
            {
                "block": "Attention",
                "scores": [[[-1], [1]]],
                "biases": [[100, 0]],
                "outputs": [[[9], [0]]],
                "skip": True,
            },
            {
                "block": "FeedForward",
                "w_in": [[1]],
                "b_in": [-1],
                "w_out": [[1]],
                "b_out": [0],
                "skip": False,
            },
        ],
        interval=[-4, 4],
    ),
    "a fold outside the interval": instance(
        "tropical.block_is_refinement",
        {"block": 3, "refinement": 2},
        network=[
            {
                "block": "Attention",
                "scores": [[[-1], [1]]],
                "biases": [[0, 0]],
                "outputs": [[[9], [0]]],
                "skip": True,
            },
            {
                "block": "FeedForward",
                "w_in": [[1]],
                "b_in": [-6],
                "w_out": [[1]],
                "b_out": [0],
                "skip": False,
            },
        ],
        interval=[-4, 4],
    ),
    "fewer heads than keys": instance(
        "tropical.app_e_constant",
        {"maximum": [2000000, 20000000, 200000000]},
        n_tokens=1000000,
        heads=[2, 20, 200],
    ),
    "the same number of heads twice": instance(
        "tropical.app_e_constant", {"maximum": [20, 2000, 2000]}, n_tokens=10, heads=[2, 200, 200]
    ),
    "one key per head": instance(
        "tropical.theta_exponent",
        {"regions": [4, 16, 64], "at_most": 22000000, "claimed": 1000000000000},
        tokens=[1, 2, 4],
    ),
    "one layer that grows": instance(
        "tropical.theta_exponent",
        {"regions": [4, 8, 16], "at_most": 22000000, "claimed": 1000000000000},
        depth=1,
    ),
    "wider teeth than those of the figure": instance(
        "tropical.fig1",
        {"regions": 256, "constants": [16, 256, 4096]},
        size=[2, 4, 2, 1],
        counts=[256, 65536, 16777216],
    ),
    "a ball that is too large": instance(
        "infoflow.t1.kset", {"third_coordinate_at_least": "1/10"}, centre=[0, 0, -1], radius="9/10"
    ),
    "one bit": instance(
        "infoflow.t3.heaviside",
        {"cells": 4},
        bits=1,
        encoder={"w_in": [[1, 0], [0, 1]], "b_in": ["-1/2", "-1/2"], "w_out": [["1/2", "1/4"]], "b_out": [0]},
        decoder={
            "w_in": [[1], [1], [1]],
            "b_in": ["-1/2", "-1/4", "-3/4"],
            "w_out": [["1/2", 0, 0], ["-1/2", "1/2", "1/2"]],
            "b_out": [0, 0],
        },
    ),
    "another length of the law": instance(
        "infoflow.law.versions",
        {"section 5.2": 5, "appendix A.3, section 6": 6, "section 4.2, appendix B.2": 2},
        tokens=2,
        d=3,
        width=1,
    ),
    "true for one and false for zero": instance(
        "infoflow.if.appe",
        {"printed": [0], "negated": [0, 2]},
        tokens=[[False, -1], ["7/10", "7/10"], [False, True], ["-1/5", "-9/10"]],
    ),
    "an empty set of another model": instance(
        "infoflow.if.eq5.empty",
        {"printed": 0, "clamped": 1},
        tokens=2,
        beta1=1,
        heads=[1],
        token_sets=[],
        cls_sets=[0],
    ),
    "another number of maxima": instance(
        "infoflow.if.eq5.global", {"printed": 126, "needed": 348, "repaired": 441}, tokens=64, maxima=6
    ),
    "pairs where no comparison is needed": instance(
        "infoflow.cmp.pair.half",
        {"comparisons": 1, "paper": 8},
        tokens=3,
        terms=1,
        trees=[{"term": 0, "leaves": [[0, 1]]}, {"term": 0, "leaves": [[0, 2], [1, 2]]}],
    ),
    "pairs of two tokens": instance(
        "infoflow.p1.distinct", {"active": [0, 0]}, inputs=[[[1, 0], [0, 0]], [[2, 0], [0, 0]]]
    ),
    "a token twice, written in two ways": instance(
        "infoflow.cmp.tri.domain",
        {"active": [[2], [2]]},
        inputs=[[["1/2"], ["0x1.0000000000000p-1"], ["1/3"]], [["1/2"], ["0x1.0000000000000p-1"], ["1/4"]]],
    ),
    "minus zero as a float": instance(
        "infoflow.t1.step3.factor",
        {"printed": "1/3", "corrected": "1/9", "limit": "1/9"},
        token=[1, "-0x0.0p+0", 0],
    ),
    "one over one": instance(
        "infoflow.t1.step3.factor",
        {"printed": "1/3", "corrected": "1/9", "limit": "1/9"},
        token=["1/1", 0, 0],
    ),
    "zero over one": instance(
        "infoflow.t1.step3.factor",
        {"printed": "1/3", "corrected": "1/9", "limit": "1/9"},
        token=[1, "0/1", 0],
    ),
    "a float with few digits": instance(
        "infoflow.t1.step3.factor",
        {"printed": "1/3", "corrected": "1/9", "limit": "1/9"},
        token=["0x1.0p+0", 0, 0],
    ),
    "a float that is not normal": instance(
        "infoflow.t1.step3.factor",
        {"printed": "1/3", "corrected": "1/9", "limit": "1/9"},
        token=["0x0.8000000000000p+1", 0, 0],
    ),
    "an exponent with zeros": instance(
        "infoflow.t1.step3.factor",
        {"printed": "1/3", "corrected": "1/9", "limit": "1/9"},
        token=["0x1.0000000000000p+000", 0, 0],
    ),
    "a pair that differs where nothing is read": instance(
        "infoflow.t1.lower",
        {"width_at_least": 802239388482},
        scores=[[1, 0, 0]],
        values=[[[1, 0, 0]]],
        beta=1,
        epsilon="1/1000",
        first=[
            ["1/2", "1/2", "1/2"],
            ["1/2", "1/2", "1/2"],
            ["1/2", "1/2", "1/2"],
            ["1/2", "1/2", "1/2"],
            ["1/2", "1/2", "1/2"],
            ["1/2", "1/2", "1/2"],
            ["1/2", "1/2", "1/2"],
            ["-1/2", "-1/2", "-1/2"],
        ],
        second=[
            ["1/2", "1/2", "1/2"],
            ["1/2", "1/2", "1/2"],
            ["1/2", "1/2", "1/2"],
            ["1/2", "1/2", "1/2"],
            ["1/2", "1/2", "1/2"],
            ["1/2", "1/2", "1/2"],
            ["1/2", "1/2", "1/2"],
            ["-499999999999/1000000000000", "-63/125", "-1/2"],
        ],
    ),
    "a triangle": instance(
        "classical.zaslavsky.bounded", {"bounded": 1}, lines=[[1, 0, 0], [0, 1, 0], [1, 1, -1]]
    ),
    "a temperature at which scores do not count": instance(
        "infoflow.t1.lower",
        {"width_at_least": 15999999999},
        scores=[[1, 0, 0]],
        values=[[[1, 0, 0]]],
        beta="1/1000000000000000000000",
        epsilon="1/1000",
        first=[
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/2", "1/2"],
            ["-1/2", "-1/2", "-1/2"],
        ],
        second=[
            ["504000000001/1000000000000", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/2", "1/2"],
            ["-63/125", "-1/2", "-1/2"],
        ],
    ),
    "tokens where the value is flat": instance(
        "infoflow.t2.pair",
        {"targets": 2, "collide": True},
        weight=[1, 0, 0, 0, 1],
        value=[0, 0, 0, 0, "1/4"],
        first=["1/50", "1/1000", "1/500", "3/1000", "1/250", "1/200", "3/500"],
        second=["1/50", "1/1000", "1/500", "3/1000", "1/250", "1/200", "221/16000"],
    ),
    "attention that reads only the largest token": instance(
        "infoflow.t2.pair",
        {"targets": 2, "collide": True},
        weight=[1, 0, 0, 0, 10**30],
        value=[0, 1],
        first=[1, "1/64", "1/100", "1/200", "1/300", "1/400", "1/500"],
        second=[1, "3/128", "1/101", "1/201", "1/301", "1/401", "1/501"],
    ),
    "a token without weight makes the difference": instance(
        "infoflow.t1.lower",
        {"width_at_least": 107116428571},
        scores=[[1, 0, 0]],
        values=[[[1, 0, 0]]],
        beta=16,
        epsilon="9/10000",
        first=[["9/10", 0, 0], *[["1/2", 0, 0]] * 6, ["-9/10", 0, 0]],
        second=[["9/10", 0, 0], *[["1/2", 0, 0]] * 6, ["-451/500", 0, 0]],
    ),
    "growth at one length": instance("infoflow.p2-b", {"cases": 2}, cases=[[64, 1, 1], [64, 1, 2]]),
    "lengths that fall": instance(
        "infoflow.p2.superpoly", {"degrees": [0, 0, 0, 3472]}, tokens=[64, 63, 62, 10**9]
    ),
    "an encoder of one of two numbers": instance(
        "infoflow.t3.supnorm",
        {"signs": [-1, 1], "side": 1},
        w_in=[[1, 0]],
        b_in=["-1/2"],
        w_out=[1],
        points=[[0, 1], [1, 1]],
    ),
    "an encoder of next to one of two numbers": instance(
        "infoflow.t3.supnorm",
        {"signs": [-1, 1], "side": 1},
        w_in=[[1, "1/1000000"]],
        b_in=["-1/2"],
        w_out=[1],
        points=[[0, 1], [1, 1]],
    ),
    "a sweep that ends below the number of maxima": data("infoflow.6-a", largest=4),
    "exponents that are negative": instance(
        "infoflow.t2.exponents",
        {"exponents": [[-1, "-1/2", 0], ["-64/65", "-63/65", "-62/65"], ["-63/65", "-62/65", "-61/65"]]},
        cases=[[3, 2, 1], [4, 2, 64], [5, 2, 64]],
    ),
    "tokens of norm above 1": instance(
        "infoflow.t1.lower",
        {"width_at_least": 174419981892568},
        scores=[[1, 0, 0]],
        values=[[[1, 0, 0]]],
        beta=1,
        epsilon="1/1000",
        first=[
            ["3/4", "3/4", "1/2"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/4", "1/8", "1/8"],
            ["-3/4", "-3/4", "-1/2"],
        ],
        second=[
            ["3/4", "3/4", "1/2"],
            ["2251067546632519/4503599627370496", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/2", "1/4", "1/8"],
            ["1/4", "1/8", "1/8"],
            ["-6779418639068387/9007199254740992", "-3/4", "-1/2"],
        ],
    ),
    "one layer of a transformer": one_layer("tropical.v7_genuine_d_plus_3", genuine_sawtooth, 5),
    "one layer of a narrow transformer": one_layer("tropical.v7_genuine_d_plus_1", narrow_sawtooth, 3),
    "eight tokens for 64, two maxima at one": instance(
        "infoflow.c1.two-layer",
        {"maxima": [1, 7, 3, 3, 5, 6], "cls": [1, 3, 5, 6, 7]},
        tokens=[
            [6, 6, 4, 4, 2, 0],
            [7, 0, 2, 5, 6, 4],
            [2, 4, 6, 3, 4, 1],
            [1, 1, 7, 7, 1, 3],
            [4, 5, 3, 6, 3, 6],
            [5, 2, 5, 2, 7, 2],
            [3, 3, 0, 1, 0, 7],
            [0, 7, 1, 0, 5, 5],
        ],
    ),
    "true for one in a tuple of keys": lambda r: {
        **r[INTERIOR],
        "data": {
            **r[INTERIOR]["data"],
            "winners": [
                [[j == 1 or j for j in choice], point] for choice, point in r[INTERIOR]["data"]["winners"]
            ],
        },
    },
    "an exponential that takes minutes": instance(
        "infoflow.t3.supnorm", {"signs": [-1, 1], "side": 1}, b_in=[10**5, "100001/3", "500003/6"]
    ),
    "a control character in the value": expecting(POWER, {"\x7f": 1}),
    "a control character in a number": data(POWER, base="\x7f"),
}


def tripled(records):
    """Every step of an encoder three times as steep; it steps at the same places."""
    encoder = copy.deepcopy(records["infoflow.t3.heaviside"]["data"]["encoder"])
    for name in ("w_in", "b_in"):
        rows = encoder[name] if name == "w_in" else [encoder[name]]
        for row in rows:
            row[:] = [replay.text(3 * replay.number(value)) for value in row]
    return {"encoder": encoder}


def thirds(records):
    """A third of the fourth key, alone and in its pairs: other positive multiples choose the same there."""
    families = copy.deepcopy(records["tropical.rem_v6"]["data"]["families"])
    keys = families[1]["heads"][0]
    keys[3] = [replay.text(replay.number(value) / 3) for value in keys[3]]
    families[0]["heads"] = [list(pair) for pair in combinations(keys, 2)]
    return {"families": families}


def three_keys(build):
    """A transformer of Theorem V.7 with three keys."""
    layer, tokens = build(2, 3, 1)
    names = ("w_q", "w_k", "w_v", "w_o", "w_in", "w_out")
    return exact({"tokens": tokens, "size": [2, 3, 1, 2], **{name: getattr(layer, name) for name in names}})


def triples(tokens):
    """Three trees for all triples: two single leaves, and the triples that they do not hold."""
    rest = [list(leaf) for leaf in combinations(range(tokens), 3) if leaf[2] >= 6]
    leaves = [[[0, 1, 2]], [[3, 4, 5]], rest]
    return [{"tokens": tokens, "trees": [{"term": 0, "leaves": each} for each in leaves]}]


GENUINE, NARROW = "tropical.v7_genuine_d_plus_3", "tropical.v7_genuine_d_plus_1"
OTHERS: list[tuple[str, Any, Any]] = [
    ("infoflow.cmp.zero", lambda _: {"tokens": 20, "max_active": 10, "dimension": 2,
                                     "leaves": [[2 * i, 2 * i + 1] for i in range(10)]}, {"comparisons": 0}),
    ("infoflow.t3.heaviside", tripled, {"cells": 64}),
    ("tropical.rem_v6", thirds, {"cells": [24, 4]}),
    ("infoflow.cmp.tri.lb", lambda _: {"cases": triples(16)}, {"comparisons": [[539, 557]]}),
    ("infoflow.p2-b", lambda _: {"cases": [[100, 2, 3], [1600, 2, 3]]}, {"cases": 2}),
    ("infoflow.6-a", lambda _: {"maxima": 16, "tokens": [100, 4096], "largest": 16}, {"fewest": [14, 16]}),
    ("classical.serra.line", lambda _: {"widths": [[11, 12], [4, 4, 4, 4]]}, {"regions": [156, 625]}),
    (GENUINE, lambda _: three_keys(genuine_sawtooth), {"signatures": 1296, "width": 5}),
    (NARROW, lambda _: three_keys(narrow_sawtooth), {"signatures": 1296, "width": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "parts", "expected"), OTHERS, ids=[claim for claim, *_ in OTHERS])
def test_another_honest_instance_is_accepted(records, claim, parts, expected):
    """The rules are no comparison with one instance: larger and rescaled ones pass."""
    record = copy.deepcopy(records[claim])
    record["data"].update(parts(records))
    assert replay.failure({**record, "expected": expected}) is None


def test_there_are_enough_forgeries():
    assert len(FORGERIES) >= 200


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_forgery_is_refused_in_one_harmless_line(records, forge):
    record = forge(records)
    assert not any(replay.same(real, record) for real in records.values())
    assert replay.failure(record) is not None
    accepted, line = replay.outcome(record, "a\nfile\x1b[0m.json")
    assert not accepted
    assert line.isprintable()
    assert line.isascii()


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": 2, "schema": 2}',
        "[" * 100_000,
        '"' + '\\"' * 100_000,
        "1" * 5000,
        '{"schema": 1e400}',
        '{"schema": Infinity}',
        " " * 500_000,
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
        '{"schema": 2, "\\u0073chema": 2}',
        '{"data": {"base": 6, "base": 512}}',
        '{"schema": NaN}',
        '{"schema": -Infinity}',
        '{"schema": 2.0}',
        '{"data": -0}',
        '{"schema": 2} {"schema": 2}',
        '{"schema": 2}\0',
        '{"schema": 2,}',
        '// no comment\n{"schema": 2}',
        "\ufeff{}",
        "[[" * 8 + "]]" * 8,
    ],
    ids=[
        "twice",
        "deep",
        "quotes",
        "digits",
        "float",
        "infinity",
        "large",
        "no-json",
        "twice-escaped",
        "twice-inside",
        "nan",
        "minus-infinity",
        "whole-float",
        "minus-zero",
        "two-documents",
        "nul",
        "comma",
        "comment",
        "byte-order",
        "sixteen-brackets",
    ],
)
def test_a_file_that_is_no_certificate_is_refused_at_once(tmp_path, text):
    path = tmp_path / "forged.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError):
        replay.read(path)
    done = CliRunner().invoke(main, ["claims", "replay", str(path)])
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1


def test_one_bad_file_does_not_hide_the_others(records, tmp_path, capsys):
    (tmp_path / "a.json").write_text(json.dumps({**records[POWER], "statement": "\ud800"}))
    (tmp_path / "b.json").write_bytes(gzip.compress(b" " * 10**7))
    (tmp_path / "c.json").mkdir()
    (tmp_path / "z.json").write_text(json.dumps(records[POWER]))
    if hasattr(os, "mkfifo"):  # reading it would wait for ever
        os.mkfifo(tmp_path / "d.json")
    assert replay.main([str(tmp_path)]) == 2
    *others, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in others[:3]] == ["REJECTED", "unreadable", "unreadable"]
    assert all(line.startswith("unreadable") for line in others[3:])
    assert last.startswith(f"accepted   {POWER}")


def test_a_folder_without_certificates_does_not_pass(records, tmp_path, capsys):
    (tmp_path / "z.json").write_text(json.dumps(records[POWER]))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "z.json.gz").write_bytes(b"")
    long = tmp_path / ("a" * 5000)
    for other in (tmp_path / "empty", long, tmp_path / "nothing.json"):
        assert replay.main([str(tmp_path), str(other)]) == 2
        first, last = capsys.readouterr().out.splitlines()
        assert first.startswith("accepted")
        assert last.startswith("unreadable")


def test_the_names_of_files_are_escaped(tmp_path, capsys):
    path = tmp_path / "x\naccepted   tropical.fig4_216.json"
    path.write_text("{}")
    assert replay.main([str(path)]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("REJECTED")


def test_work_is_bounded(monkeypatch, records):
    monkeypatch.setattr(replay, "MOST_STEPS", 100)
    assert replay.failure(records[FIG4]) == "it asks for too much work"


def certificate_mutations():
    path = ROOT / "tests" / "scripts" / "certificate_mutations.py"
    spec = importlib.util.spec_from_file_location("certificate_mutations", path)
    mutations = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mutations)
    return mutations


def test_random_mutations_are_refused_or_still_prove_their_claim(records):
    """A few hundred here; the script makes 5,000."""
    mutations = certificate_mutations()
    heavy = {"tropical.saturated_floor_d_half", "tropical.fig6b_interior_explanation"}
    light = [record for name, record in records.items() if name not in heavy]
    counts, wrong = mutations.survey(light, 300, seed=3)
    assert wrong == []
    assert counts["refused"] > 200
    assert counts["accepted, still a proof"] > 5


def test_the_second_opinion_says_yes_to_what_is_real(records):
    """Else it would be wrong about mutations that are proofs. Kinds with a single instance have none."""
    mutations = certificate_mutations()
    asked = 0
    for name, record in records.items():
        oracle = mutations.formula if name in mutations.SIZES else mutations.ORACLES.get(record["kind"])
        if oracle is not None and name != "infoflow.if.appe":
            assert oracle(record, mutations.numbers(record["data"])), name
            asked += 1
    assert asked > 80


def test_the_second_opinion_can_say_no(records):
    """What a mutation must not get away with is called no proof."""
    mutations = certificate_mutations()
    for forge in (
        data("tropical.def_iii7", "points", lambda points: points[::-1]),
        data("infoflow.cmp.dret.ae", "tokens", 0, [6, 6]),
        data("infoflow.cmp.tri.lb", "cases", 1, "trees", 2, "leaves", lambda leaves: leaves[:4]),
        data("infoflow.t1.kset", radius="9/10"),
        fields(FIG4, verdict=HOLDS),
    ):
        mutant = forge(records)
        assert not mutations.still_proves(records[mutant["claim"]], mutant)


# What the file says of itself
# ------------------------------------------------------------------------------------------------------------


def test_the_published_hash_is_that_of_the_file():
    published = (ROOT / "docs" / "replay.sha256").read_text()
    found = hashlib.sha256(Path(replay.__file__).read_bytes()).hexdigest()
    assert published == f"{found}  replay.py\n", "run: python docs/write.py replay"
    assert found in (ROOT / "docs" / "claims.md").read_text(), "run: python docs/write.py claims"


def test_the_file_knows_the_statements_as_they_are():
    statements = {claim.name: claim.sha256 for claim in all_claims()}
    assert {name: statements[name] for name in replay.STATEMENTS} == replay.STATEMENTS


def test_the_rules_support_the_pinned_verdicts_and_say_what_they_check():
    pinned = {claim.name: str(claim.expected) for claim in all_claims()}
    assert {name: rule.verdict for name, rule in replay.RULES.items()} == {
        name: pinned[name] for name in replay.RULES
    }
    assert all(rule.check.__doc__ for rule in replay.RULES.values())


@pytest.mark.parametrize("variant", ["plain", "ffn_skip", "bias_free"])
@pytest.mark.parametrize("size", [(2, 3, 2, 1), (3, 2, 1, 2)])
def test_the_networks_of_theorem_v7_are_built_as_in_the_library(size, variant):
    made = replay.sawtooth(*size, variant)
    assert json.loads(json.dumps(made)) == network_record(sawtooth_network(*size, variant=variant))


def test_a_certificate_names_version_and_commit(records):
    record = records[FIG4]
    assert record["hardmax"]
    assert record["commit"]
    assert replay.failure({**record, "commit": "0" * 40}) is None  # provenance, not part of the proof
