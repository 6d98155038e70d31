"""The machinery of the ledger: selection, findings, files, the command, and a replay that is not fooled."""

from __future__ import annotations

import ast
import json
import sys
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import ledger_checks
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.cli import main
from hardmax.errors import IncompleteError, InvalidInputError, MissingExtraError
from hardmax.papers import ledger as ledgers
from hardmax.papers import replay
from hardmax.papers.ledger import (
    Certificate,
    Claim,
    Effort,
    Finding,
    Verdict,
    all_claims,
    earned,
    exact,
    failing,
    holding,
    network_record,
    selected,
    write_certificates,
)
from hardmax.papers.paper import papers, sections
from hardmax.papers.recipes import Recipe

PACKAGE = Path(replay.__file__).parent
MISPRINT = str(Verdict.MISPRINT)


def run(*args: object):
    return CliRunner().invoke(main, [str(arg) for arg in args])


def claim(check, name="a_claim", expected=Verdict.PROVED, paper="tropical"):
    return Claim(
        f"{paper}.{name}",
        "Nowhere",
        "A statement.",
        hypotheses="none",
        computation="a computation",
        check=check,
        expected=expected,
    )


def nested(depth: int) -> list:
    """The expression 1 in so many brackets."""
    tree: list = ["+", 1]
    for _ in range(depth):
        tree = ["+", tree]
    return tree


@pytest.fixture
def only(monkeypatch):
    """A ledger that knows just the given claims."""

    def use(*claims):
        monkeypatch.setattr(ledgers, "all_claims", lambda: claims)

    return use


# Claims and their selection
# ------------------------------------------------------------------------------------------------------------


def test_every_section_with_claims_or_recipes_is_listed():
    there = [path for paper in papers() for path in (PACKAGE / paper).glob("*.py")]
    listed = set()
    for name in (f"{path.parent.name}.{path.stem}" for path in there):
        module = import_module(f"hardmax.papers.{name}")
        if any(isinstance(thing, (Claim, Recipe)) for thing in vars(module).values()):
            listed.add(name)
    assert listed == set(sections())
    assert len(sections()) == len(set(sections()))


def test_names_are_unique_and_begin_with_their_paper():
    names = [each.name for each in all_claims()]
    assert len(names) == len(set(names))
    assert all(each.name.startswith(f"{each.paper}.") for each in all_claims())


@pytest.mark.parametrize(
    ("select", "names"),
    [
        ("tropical.pow_512_8", {"pow_512_8"}),
        ("POW_512_8", {"pow_512_8"}),
        ("pow_5", {"pow_512_8"}),
        ("onehot_interior", {"onehot_interior"}),  # a whole name is not the beginning of another
        ("onehot", {"onehot_interior"}),
        ("*_216", {"fig4_216"}),
        (["fig4_216", "tropical.lemma_f?"], {"fig4_216", "lemma_f1", "lemma_f2"}),
    ],
)
def test_claims_are_selected_by_name_beginning_or_pattern(select, names):
    assert {each.name for each in selected(select)} == {f"tropical.{name}" for name in names}


def test_a_paper_is_a_selection_and_none_is_everything():
    assert {each.paper for each in selected("tropical")} == {"tropical"}
    assert selected(None) == all_claims()


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("fig4_261", "did you mean tropical.fig4_216?"),
        ("zzz", "nothing matches 'zzz'."),
        ("", "nothing matches"),
    ],
)
def test_an_unknown_claim_gets_a_suggestion(select, words):
    with pytest.raises(InvalidInputError) as refused:
        hm.check_claims(select)
    assert words in str(refused.value)


def test_an_unknown_effort_is_refused():
    with pytest.raises(InvalidInputError, match="effort must be 'quick' or 'full', but was 'huge'"):
        hm.check_claims("pow_512_8", effort="huge")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"paper": "other"}, "paper must be one of tropical, infoflow"),
        ({"name": "Fig 4"}, "name must be made"),
    ],
)
def test_a_claim_with_a_bad_name_is_refused(changes, words):
    with pytest.raises(InvalidInputError, match=words):
        claim(None, **changes)


def test_a_selection_must_be_names():
    with pytest.raises(InvalidInputError, match="select must be a name or several, but was 5"):
        hm.check_claims(5)


# Findings
# ------------------------------------------------------------------------------------------------------------

GOOD = Certificate("power", {"base": 512, "exponent": 8}, {"value": 2**72})
BAD = Certificate("power", {"base": 512, "exponent": 8}, {"value": 9})


def test_a_verdict_needs_a_computed_condition():
    assert failing(True, "", {}, GOOD).verdict == Verdict.FAILS
    assert failing(False, "", {}, GOOD).verdict == Verdict.OPEN
    assert holding(True, "").verdict == Verdict.PROVED
    assert holding(False, "").verdict == Verdict.OPEN
    assert holding(True, "", by=Verdict.NUMERICAL).verdict == Verdict.NUMERICAL
    assert earned(Verdict.MISPRINT, False, "").verdict == Verdict.OPEN


@pytest.mark.parametrize(
    ("certificate", "verdict", "words"),
    [
        (BAD, Verdict.MISPRINT, "computed"),
        (GOOD, Verdict.FAILS, "can only show: fails as printed"),
        (Certificate("heads", {"base": 512, "exponent": 8}, {}), Verdict.MISPRINT, "data of the kind power"),
    ],
)
def test_a_finding_is_only_as_good_as_its_certificate(only, certificate, verdict, words):
    (real,) = selected("tropical.pow_512_8")
    only(replace(real, check=lambda effort: earned(verdict, True, "so", {}, certificate)))
    entry = hm.check_claims().entries[0]
    assert entry.verdict == Verdict.OPEN
    assert words in entry.computed


def test_a_certificate_of_another_claim_does_not_count(only):
    only(claim(lambda effort: failing(True, "no", {}, GOOD)))
    assert hm.check_claims().entries[0].verdict == Verdict.OPEN


@pytest.mark.parametrize(("expected", "unstated"), [(Verdict.UNSTATED, ""), (Verdict.PROVED, "d = 1")])
def test_an_unstated_hypothesis_is_named_exactly_where_it_belongs(expected, unstated):
    words = {"hypotheses": "none", "computation": "none", "check": None, "unstated": unstated}
    with pytest.raises(InvalidInputError, match="unstated must name the hypothesis"):
        Claim("tropical.a", "Nowhere", "A statement.", expected=expected, **words)


def test_no_module_makes_findings_or_comparisons_but_by_the_functions_that_compute_them():
    """No literal verdict in a recipe, no finding without a condition."""
    made = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                made += [(path.name, node.func.id)] if node.func.id in ("Finding", "Comparison") else []
    assert set(made) == {("ledger.py", "Finding"), ("recipes.py", "Comparison")}


def test_no_condition_of_a_finding_is_a_literal():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            place = {"earned": 1, "holding": 0, "failing": 0}.get(node.func.id)
            if place is not None and path.name != "ledger.py":
                assert not isinstance(node.args[place], ast.Constant), (path.name, node.lineno)


def test_the_verdict_comes_from_the_check_and_not_from_what_is_expected(only):
    only(claim(lambda effort: Finding(Verdict.FAILS, "no")))
    ledger = hm.check_claims()
    assert ledger["tropical.a_claim"].verdict == Verdict.FAILS
    assert [entry.name for entry in ledger.surprises] == ["tropical.a_claim"]


def test_the_effort_reaches_the_check(only):
    only(claim(lambda effort: Finding(Verdict.PROVED, f"{effort is Effort.FULL}")))
    assert hm.check_claims(effort="full")["tropical.a_claim"].computed == "True"


@pytest.mark.parametrize("error", [IncompleteError("Stopped."), MissingExtraError("No torch.")])
def test_what_could_not_be_finished_is_undecided(only, error):
    def check(effort):
        raise error

    only(claim(check))
    entry = hm.check_claims().entries[0]
    assert (entry.verdict, entry.computed) == (Verdict.OPEN, str(error))


def test_a_broken_check_says_which_one_it_was(only):
    only(claim(lambda effort: 1 / 0))
    with pytest.raises(ZeroDivisionError) as broken:
        hm.check_claims()
    assert broken.value.__notes__ == ["while checking tropical.a_claim"]


def test_progress_is_reported_claim_by_claim(only):
    only(*(claim(lambda effort: Finding(Verdict.PROVED, ""), name=name) for name in ("one", "two")))
    seen = []
    hm.check_claims(progress=lambda done, total, entry: seen.append((done, total, entry.name)))
    assert seen == [(1, 2, "tropical.one"), (2, 2, "tropical.two")]


def test_a_ledger_survives_a_file(tmp_path):
    ledger = hm.check_claims(["pow_512_8", "newton_characterises"])
    again = hm.load(ledger.save(tmp_path / "ledger.npz"))
    times_are_not_saved = [replace(entry, seconds=0.0) for entry in ledger.entries]
    assert list(again.entries) == times_are_not_saved
    assert again.effort is Effort.QUICK
    assert repr(again) == (
        "<Ledger: 2 claims: 1 holds under an unstated hypothesis, 1 fails as printed (a misprint); "
        "2 certificates>"
    )
    entry = again["TROPICAL.pow_512_8"]
    assert entry.certificate.failure(entry, entry.verdict) is None
    assert json.loads(json.dumps(ledger.to_dict()))["entries"][1]["verdict"] == MISPRINT
    assert "tropical.pow_512_8" in ledger._repr_html_()
    assert ledger.verdicts["tropical.pow_512_8"] == MISPRINT
    assert ledger.by_origin == {"tropical": ledger.counts, "own": {}}
    with pytest.raises(InvalidInputError, match=r"did you mean tropical\.pow_512_8"):
        ledger["tropical.pow_512"]


# Certificates
# ------------------------------------------------------------------------------------------------------------


def test_certificates_hold_exact_numbers_only():
    assert exact([Fraction(6, 4), Fraction(4, 2), 0.5, np.float32(0.25), np.int8(3), True, None, "x"]) == [
        "3/2",
        2,
        "0x1.0000000000000p-1",
        "0x1.0000000000000p-2",
        3,
        True,
        None,
        "x",
    ]
    with pytest.raises(InvalidInputError, match="but was given a complex"):
        exact(1j)


@given(st.one_of(st.integers(), st.fractions(), st.floats(allow_nan=False, allow_infinity=False)))
def test_numbers_survive_a_certificate(value):
    assert replay.number(json.loads(json.dumps(exact(value)))) == Fraction(value)


@pytest.mark.parametrize(
    "block",
    [
        hm.Maxout([[[1], [2]]], None, [[1]], [0]),
        hm.FeedForward([[1]], [0], [[1]], [0], slope=0.1),
        hm.Attention([[[1], [2]]], None, [[[0], [0]]], mask=[[True, False]]),
    ],
)
def test_a_network_that_replay_does_not_know_is_refused(block):
    with pytest.raises(InvalidInputError, match="affine maps, ReLU layers and unmasked attention"):
        network_record(hm.Network([block]))


def test_a_certificate_takes_a_network_as_it_is():
    network = hm.Network([hm.Attention([[[-1], [1]]], None, [[[-1], [1]]])])
    assert exact({"networks": [network]}) == {"networks": [network_record(network)]}


def test_the_replay_imports_nothing_but_the_standard_library():
    tree = ast.parse(Path(replay.__file__).read_text())
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= set(sys.stdlib_module_names)
    called = {
        node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and hasattr(node.func, "id")
    }
    assert called.isdisjoint({"eval", "exec", "__import__", "compile", "float"})


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        (1, 1, True),
        (1, True, False),
        (1, "1", False),
        ({1: (2, [3])}, {"1": [2, [3]]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [1], False),
        pytest.param(10**5000, 10**5000, True, id="many digits"),
        pytest.param(10**5000, 10**5000 + 1, False, id="the last of many digits"),
        (None, 0, False),
    ],
)
def test_values_are_compared_strictly(value, expected, same):
    assert replay.same(value, expected) == same


def test_every_kind_says_what_it_checks():
    assert len({rule.kind for rule in replay.RULES.values()}) > 30
    assert all(rule.check.__doc__ for rule in replay.RULES.values())


@pytest.fixture
def folder(tmp_path):
    write_certificates(hm.check_claims(["pow_512_8", "fig4_216"]), tmp_path)
    return tmp_path


def test_a_folder_of_certificates_is_checked_by_its_own_replay(folder):
    assert sorted(path.name for path in folder.iterdir()) == [
        "replay.py",
        "tropical.fig4_216.json",
        "tropical.pow_512_8.json",
    ]
    done = ledger_checks.run_replay(folder, "replay.py", ".")
    assert (done.returncode, done.stderr) == (0, "")
    assert "accepted   tropical.pow_512_8: fails as printed (a misprint); power = " in done.stdout
    record = json.loads((folder / "tropical.pow_512_8.json").read_text())
    assert set(record) == set(replay.NAMES)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (
            lambda text: text.replace('"exponent":8', '"exponent":7'),
            1,
            "REJECTED   tropical.pow_512_8: 7 is no integer from 8 to 8",
        ),
        (lambda text: text.replace('"exponent":8', '"exponent":"8"'), 1, "'8' is no integer from 8 to 8"),
        (lambda text: text.replace('"exponent":8', '"exponent":8.0'), 2, "8.0 is a floating-point literal"),
        (lambda text: text.replace('"exponent":8', '"exponent":NaN'), 2, "NaN is a floating-point literal"),
        (
            lambda text: text.replace('"exponent"', '"other"'),
            1,
            "the data must be base, exponent, and nothing else",
        ),
        (
            lambda text: text.replace('"kind":"power"', '"kind":"magic"'),
            1,
            "tropical.pow_512_8 needs data of the kind power",
        ),
        (
            lambda text: text.replace('"kind":"power"', '"kind":["power"]'),
            1,
            "tropical.pow_512_8 needs data of the kind power",
        ),
        (
            lambda text: text.replace('"schema":2', '"schema":1'),
            1,
            "its schema is 1, not 2",
        ),
        (lambda text: text.replace('"expected"', '"other"'), 1, "it is no certificate"),
        (lambda text: "[1]", 1, "it is no certificate"),
        (lambda text: text[:40], 2, "unreadable"),
        (lambda text: "[" * 100_000, 2, "unreadable"),
        (lambda text: "", 2, "unreadable"),
    ],
)
def test_a_damaged_certificate_is_refused_in_one_line(folder, change, code, words):
    path = folder / "tropical.pow_512_8.json"
    path.write_text(change(path.read_text()))
    done = ledger_checks.run_replay(folder, "replay.py", path.name)
    assert done.returncode == code
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
    assert words in done.stdout


def test_replay_without_files_explains_itself(folder):
    done = ledger_checks.run_replay(folder, "replay.py")
    assert done.returncode == 2
    assert "python -I replay.py certificate.json" in done.stderr


@pytest.mark.parametrize(
    "diagram",
    [
        {"scores": [[1, 0], [2, 0]], "winners": {"1": [1]}, "losers": {}},
        {"scores": [[1, 0]], "winners": {"0": [1]}, "losers": {"0": [1]}},
        {"scores": [[1, 0], [2, 0]], "winners": {"1": [-1], "0": [1]}, "losers": {}},
        {  # key 1 wins between the others, but is called a loser with weights that do not fit
            "scores": [[0, 0], [1, 1], [2, 0]],
            "winners": {"0": [-2], "2": [2]},
            "losers": {"1": ["1/2", 0, "1/2"]},
        },
        {  # weights that are not convex
            "scores": [[0, 0], [3, 0], [1, 0]],
            "winners": {"0": [-1], "1": [1]},
            "losers": {"2": [2, -1, 0]},
        },
        # two equal scores, each called a loser because of the other
        {"scores": [[1, 0], [1, 0]], "winners": {}, "losers": {"0": [0, 1], "1": [1, 0]}},
    ],
)
def test_a_false_diagram_is_rejected(diagram):
    with pytest.raises(replay.Rejected):
        replay.winning_scores(diagram)


# The replay computes what the library computes
# ------------------------------------------------------------------------------------------------------------


def random_line_network(seed: int, skip: bool) -> hm.Network:
    rng = np.random.default_rng(seed)
    head = hm.Attention(
        rng.integers(-5, 6, (2, 3, 1)), rng.integers(-5, 6, (2, 3)), rng.integers(-5, 6, (2, 3, 1))
    )
    relu = hm.FeedForward(
        rng.integers(1, 6, (3, 1)), rng.integers(-9, 10, 3), rng.integers(-5, 6, (1, 3)), [1], skip=skip
    )
    return hm.Network([head, relu, head, relu])


def test_the_line_is_cut_as_by_the_library():
    compared = 0
    for seed in range(24):
        network = random_line_network(seed, skip=bool(seed % 2))
        found = hm.count_regions(network, hm.Box([-4], [4]))
        with suppress(replay.Rejected):  # identical keys, or a unit that is zero on a cell
            line = replay.counts_of(replay.on_line(network_record(network), Fraction(-4), Fraction(4)))
            assert (line["cells"], line["regions"]) == (found.n_cells, found.n_regions)
            compared += 1
    assert compared >= 12


@pytest.mark.parametrize("seed", range(3))
def test_points_show_the_signatures_and_maps_of_the_library(seed):
    network = hm.Network.random(2, n_tokens=3, heads=2, depth=1, d_ff=3, rng=seed)
    cells = hm.enumerate_regions(network, hm.Box.cube(2, -4, 4))
    points = [cells.exact_witness(i) for i in range(cells.n_cells)]
    exact_points = [[Fraction(x) for x in point] for point in points]
    replay.Work.begin()
    assert replay.at_points(network_record(network), exact_points)[0] == cells.n_cells
    for point in points[:5]:
        _, linear, offset, result = replay.passed(network_record(network), [Fraction(x) for x in point])
        assert tuple(result) == network.exact_value(point)
        a, b = network.affine_at(np.array(point, dtype=float))
        np.testing.assert_allclose(np.array(linear, dtype=float), a, atol=1e-9)
        np.testing.assert_allclose(np.array(offset, dtype=float), b, atol=1e-9)


@given(st.integers(1, 9), st.integers(1, 6), st.integers(1, 5), st.booleans())
def test_the_replay_knows_the_same_maximum(n, heads, d, biased):
    assert replay.vertex_maximum(n, heads, d, not biased) == hm.vertex_maximum(n, heads, d, biased=biased)


def test_the_page_of_claims_is_fresh():
    write = ledger_checks.docs_write()
    page = (write.PAGES / "claims.md").read_text()
    assert write.claims_are_fresh(page), "run: python docs/write.py claims"
    assert not write.claims_are_fresh(page.replace("**fails**", "**open**", 1))


def test_the_four_pages_count_the_verdicts_of_the_two_papers():
    pair = ("tropical", "infoflow")
    theirs = [each.expected for each in all_claims() if each.paper in pair and not each.own]
    proved, unstated, fails, slips = (
        theirs.count(each) for each in (Verdict.PROVED, Verdict.UNSTATED, Verdict.FAILS, Verdict.MISPRINT)
    )
    sentence = (
        f"Of the {len(theirs)} statements of the two papers {proved} are proved, {unstated} hold under a "
        f"hypothesis that is not stated, {fails} fail with an exact counterexample, {slips} are misprints;"
    )
    assert sentence in (ledger_checks.DOCS / "hardmax-in-four-pages.md").read_text()


# The command
# ------------------------------------------------------------------------------------------------------------


def test_the_command_lists_checks_and_replays(tmp_path):
    listed = json.loads(run("claims", "list", "--paper", "tropical", "--json").stdout)
    assert {each["paper"] for each in listed} == {"tropical"}
    assert "tropical.fig4_216  (Figure 4)" in run("claims", "list", "--select", "fig4*").stdout

    checked = run("claims", "check", "--select", "pow_512_8", "--certificates", tmp_path / "made")
    assert checked.exit_code == 0
    assert f"[1/1] tropical.pow_512_8 (Example V.3): {MISPRINT}" in checked.stdout
    assert f"1 claim: 1 {MISPRINT}" in checked.stdout
    counted = run("claims", "count", "--select", "pow_512_8", "--select", "lse_hess_fixed").stdout
    assert [line.split()[-2:] for line in counted.splitlines()[1:]] == [["0", "1"], ["1", "0"], ["1", "1"]]
    assert "wrote 1 certificate and replay.py" in checked.stderr

    replayed = run("claims", "replay", tmp_path / "made")
    assert replayed.exit_code == 0
    assert "accepted  tropical.pow_512_8" in replayed.stdout
    (result,) = json.loads(run("claims", "replay", tmp_path / "made", "--json").stdout)
    assert result["accepted"]


def test_the_command_prints_strict_json():
    report = json.loads(run("claims", "check", "--select", "pow_512_8", "--json").stdout)
    assert report["counts"] == {MISPRINT: 1}
    assert report["entries"][0]["certificate"]["data"] == {"base": 512, "exponent": 8}


def test_an_unexpected_verdict_is_exit_code_1(only):
    only(claim(lambda effort: Finding(Verdict.OPEN, "no idea")))
    done = run("claims", "check")
    assert done.exit_code == 1
    assert "UNEXPECTED: the pinned verdict is holds (proved)" in done.stdout


def test_a_rejected_certificate_is_exit_code_1(folder):
    path = folder / "tropical.pow_512_8.json"
    path.write_text(path.read_text().replace('"exponent":8', '"exponent":9'))
    done = run("claims", "replay", folder)
    assert done.exit_code == 1
    assert "REJECTED  tropical.pow_512_8: 9 is no integer" in done.stdout
    assert "2 certificates, 1 rejected" in done.stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["check", "--select", "fig4_261"], "did you mean tropical.fig4_216?"),
        (["check", "--paper", "infoflow", "--select", "fig4_216"], "no claim of the paper infoflow matches"),
        (["replay", "nowhere.json"], "cannot read nowhere.json: there is no such file."),
        (["replay", "empty"], "there is no certificate in empty"),
        (["replay", "broken.json"], "broken.json must be a certificate, but is no JSON file"),
        (["check", "--effort", "huge"], "'huge' is not one of"),
    ],
)
def test_wrong_input_gets_one_sentence(tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text("{")
    done = run("claims", *args)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
