"""Lists of key sets: a list that lacks a winning set never passes, and what is cut short says so."""

from __future__ import annotations

import math

import numpy as np
import pytest
from oracles.attention_rules import cells_by_rules
from oracles.judging_rules import rule_problems, states_of

import hardmax as hm
from hardmax.regions import listing
from hardmax.regions.listing import KeySetList

TOP_2 = {"rule": "top-k", "k": 2}
SPARSEMAX = {"rule": "sparsemax", "temperature": 0.5}
FAR = 10**5  # beyond all vertices of small integer weights


def network_of(options, d, seed=0, *, n=5, integers=False, deep=True):
    rng = np.random.default_rng(seed)
    draw = (lambda shape: rng.integers(-2, 3, shape).astype(float)) if integers else rng.standard_normal
    blocks = [
        hm.Attention(draw((1, n, d)), draw((1, n)), draw((1, n, d)), **options) for _ in range(1 + deep)
    ]
    return hm.Network(blocks)


def found_with(sets: KeySetList, domain, engine=None):
    """The cells with the sets that are listed now, which of them pass, and what they are."""
    current = sets.listed()
    found = hm.enumerate_regions(current.network, domain, engine=engine)
    proven = sets.grow(current, found.cells, found._exact_maps)
    as_given = hm.regions.RegionSet(
        sets.network, domain, found.cells, "certified", True, None, found.sliver, listed=current
    )
    return as_given, proven


def complete_sets(network, domain) -> KeySetList:
    """The sets that win somewhere, and no others."""
    full = hm.enumerate_regions(network, domain)
    sets = KeySetList(network, domain)
    for b, choices in sets.choices.items():
        for h, keys in enumerate(choices.keys):
            rows = np.unique(full.chosen(b)[:, h, keys], axis=0)
            sets.sets[b][h] = {tuple(np.flatnonzero(row).tolist()) for row in rows}
    return sets


@pytest.mark.parametrize(("d", "engine"), [(1, None), (2, None), (2, "search"), (3, None)])
@pytest.mark.parametrize("options", [TOP_2, SPARSEMAX], ids=["top-2", "sparsemax"])
@pytest.mark.parametrize("integers", [False, True])
def test_a_list_that_lacks_a_winning_set_does_not_pass(options, d, engine, integers):
    network, domain = network_of(options, d, 1, integers=integers, deep=d < 3), hm.Box.cube(d, -1, 1)
    full = hm.enumerate_regions(network, domain)
    volumes = dict(zip(states_of(full), full.volumes, strict=True))
    whole = complete_sets(network, domain)
    wanted = {b: [set(of_head) for of_head in heads] for b, heads in whole.sets.items()}
    mutants = [(b, s) for b, heads in wanted.items() for s in sorted(heads[0]) if len(heads[0]) > 1]
    assert mutants
    for b, missing in mutants[:8]:
        sets = complete_sets(network, domain)
        sets.sets[b][0].remove(missing)
        cells, proven = found_with(sets, domain, engine)
        assert not proven.all(), (b, missing)
        for i in np.flatnonzero(proven):  # what passes is a cell of the network
            state = states_of(cells)[i]
            assert state in volumes
            if engine is None:
                assert math.isclose(cells.volumes[i], volumes[state], rel_tol=1e-9)
        for _ in range(20):
            cells, proven = found_with(sets, domain, engine)
            if proven.all():
                break
        assert missing in sets.sets[b][0]
        assert sorted(states_of(cells)) == sorted(volumes)


@pytest.mark.parametrize("options", [TOP_2, SPARSEMAX], ids=["top-2", "sparsemax"])
def test_a_list_of_one_set_grows_to_all(options, monkeypatch):
    """Nothing but the origin is known at first."""
    network, domain = network_of(options, 2, 2, n=12, deep=False), hm.Box.cube(2, -2, 2)
    full = hm.enumerate_regions(network, domain)
    monkeypatch.setattr(listing, "_points", lambda domain: np.zeros((1, domain.d)))
    again = hm.enumerate_regions(network, domain)
    assert full.n_cells > 5
    assert sorted(states_of(again)) == sorted(states_of(full))
    assert again.complete


# ----------------------------------------------------------------------------------------------
# Limits
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [TOP_2, SPARSEMAX], ids=["top-2", "sparsemax"])
@pytest.mark.parametrize("engine", ["plane", "search"])
def test_the_first_cells_are_cells(options, engine):
    network, domain = network_of(options, 2, 3, n=7), hm.Box.cube(2, -2, 2)
    full = hm.enumerate_regions(network, domain)
    volumes = dict(zip(states_of(full), full.volumes, strict=True))
    assert full.n_cells > 10
    some = hm.enumerate_regions(network, domain, max_cells=5, engine=engine)
    assert some.n_cells == 5
    assert not some.complete
    assert set(states_of(some)) <= set(volumes)
    count = hm.count_cells(network, domain, max_cells=5, engine=engine)
    assert (count.n_cells, count.complete) == (5, False)
    if engine == "plane":
        covered = sum(volumes[state] for state in states_of(some)) / 16
        assert some.coverage == pytest.approx(covered, rel=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("options", [TOP_2, SPARSEMAX], ids=["top-2", "sparsemax"])
def test_cells_that_are_not_proven_in_time_are_left_out(options, d, monkeypatch):
    """The time is over after the first round, whose list has one set: what it covers is not claimed."""
    network, domain = network_of(options, d, 4, n=9, deep=False), hm.Box.cube(d, -2, 2)
    full = hm.enumerate_regions(network, domain)
    volumes = dict(zip(states_of(full), full.volumes, strict=True))
    monkeypatch.setattr(listing, "_points", lambda domain: np.zeros((1, domain.d)))
    for time_limit in (1e-9, 1e-3, 3e-3, 1e-2):
        some = hm.enumerate_regions(network, domain, time_limit=time_limit)
        states = states_of(some)
        assert set(states) <= set(volumes)
        assert some.complete == (len(states) == len(volumes))
        covered = sum(volumes[state] for state in states) / sum(volumes.values())
        assert some.coverage == pytest.approx(covered, rel=1e-9, abs=1e-12)
        assert np.allclose(some.volumes, [volumes[state] for state in states], rtol=1e-9)
        count = hm.count_cells(network, domain, time_limit=time_limit)
        assert count.complete or count.n_cells < len(volumes)
        if d < 3 and not count.complete:
            assert count.coverage < 1 - 1e-9


@pytest.mark.parametrize("options", [TOP_2, SPARSEMAX], ids=["top-2", "sparsemax"])
def test_threads_change_nothing(options):
    network, domain = network_of(options, 2, 5, n=8), hm.Box.cube(2, -2, 2)
    one, two = (hm.enumerate_regions(network, domain, n_jobs=n) for n in (1, 2))
    assert states_of(one) == states_of(two)
    np.testing.assert_array_equal(one.vertices, two.vertices)
    assert [one.exact_map(i) for i in range(len(one))] == [two.exact_map(i) for i in range(len(two))]


@pytest.mark.parametrize("options", [TOP_2, SPARSEMAX], ids=["top-2", "sparsemax"])
@pytest.mark.parametrize("integers", [False, True], ids=["random", "integers"])
def test_stopped_and_resumed_gives_the_same_bits(tmp_path, options, integers):
    network, domain = network_of(options, 2, 3, n=6, integers=integers), hm.Box.cube(2, -2, 2)
    straight = hm.enumerate_regions(network, domain)
    path = tmp_path / "run.npz"
    for most in (1, 2, 7, len(straight) - 1):
        part = hm.enumerate_regions(network, domain, max_cells=most, checkpoint=path)
        assert not part.complete
        assert len(part) <= most
        assert path.exists()

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hm.enumerate_regions(network, domain, checkpoint=path, progress=interrupt)
    resumed = hm.enumerate_regions(network, domain, checkpoint=path)
    assert not path.exists()
    assert resumed.complete
    np.testing.assert_array_equal(resumed.cells.routings, straight.cells.routings)
    np.testing.assert_array_equal(resumed.vertices, straight.vertices)
    np.testing.assert_array_equal(resumed.linear, straight.linear)
    assert states_of(resumed) == states_of(straight)
    counted = hm.count_cells(network, domain, max_cells=3, checkpoint=path)
    assert not counted.complete
    with pytest.raises(hm.errors.FileFormatError, match="belongs to another network"):
        hm.enumerate_regions(network, domain, checkpoint=path)
    assert hm.count_cells(network, domain, checkpoint=path).n_cells == len(straight)


@pytest.mark.parametrize(("scale", "tau"), [(1.0, 1.0), (1e8, 1.0), (1.0, 1e-9), (1e8, 1e-9), (1.0, 1e-17)])
def test_float_maps_of_sparsemax_keep_their_digits(scale, tau):
    """Scores cancel before they are divided by the temperature: |score| / tau is up to 1e17 here."""
    keys = np.array([[[-1.6, -0.9], [1.5, -1.2], [0.2, 1.7]]])
    head = hm.Attention(
        scale * keys,
        -scale * np.square(keys).sum(axis=2) / 2,
        keys,
        skip=False,
        rule="sparsemax",
        temperature=tau,
    )
    cells = hm.enumerate_regions(hm.Network([head]), hm.Box.cube(2, -3, 3))
    assert len(cells) == 7
    for i in range(len(cells)):
        linear, offset = cells.exact_map(i)
        exact = np.array([[*row, b] for row, b in zip(linear, offset, strict=True)], dtype=np.float64)
        stored = np.column_stack([cells.linear[i], cells.offset[i]])
        assert np.abs(stored - exact).max() <= 1e-9 * np.abs(exact).max()


def test_as_the_temperature_falls_cells_are_faces_of_the_diagram_and_only_keys_keep_area():
    """In general position: a cell per key, wall and vertex of the power diagram, once tau is small.

    Six keys in the plane, in a box whose boundary no vertex lies on: by Euler's relation in the box, cells of
    single keys, pairs and triples are as many as cells, edges and vertices of the diagram. The area of pairs
    is tau times a constant, that of triples tau squared times one, exactly.
    """
    keys = np.array([[[-1.6, -0.9], [1.5, -1.2], [0.2, 1.7], [-0.9, 0.6], [0.6, 0.1], [1.7, 1.1]]])
    hard = hm.Network([hm.Attention(keys, -np.square(keys).sum(axis=2) / 2, keys, skip=False)])
    box = hm.Box.cube(2, -3, 3)
    diagram = hm.enumerate_regions(hard, box)
    corners = diagram.vertices.round(9)
    inner = np.unique(corners[(np.abs(corners) < 3).all(axis=1)], axis=0)
    areas = []
    for tau in (2.0**-10, 2.0**-20, 2.0**-30):
        soft = hm.enumerate_regions(hard.with_rule("sparsemax", temperature=tau), box)
        sizes = soft.chosen(0)[:, 0].sum(axis=1)
        counts = np.bincount(sizes, minlength=4).tolist()
        assert counts == [0, len(diagram), len(diagram.adjacency), len(inner)]
        winners = {int(np.flatnonzero(row)[0]) for row in soft.chosen(0)[sizes == 1, 0]}
        assert winners == set(diagram.routings[:, 0].tolist())
        areas.append([soft.volumes[sizes == n].sum() for n in (2, 3)])
    ratios = np.array(areas[:-1]) / np.array(areas[1:])
    np.testing.assert_allclose(ratios[:, 1], 2.0**20, rtol=1e-4)
    np.testing.assert_allclose(ratios[:, 0], 2.0**10, rtol=1e-2)


# ----------------------------------------------------------------------------------------------
# Unbounded domains
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("d", "engine"), [(1, None), (2, None), (2, "search"), (3, None)])
@pytest.mark.parametrize("options", [TOP_2, SPARSEMAX], ids=["top-2", "sparsemax"])
def test_the_whole_space_has_the_cells_of_a_large_box(options, d, engine, seed):
    """Vertices of small integer weights lie well inside the box, so every cell of the space has a part in
    it."""
    network = network_of(options, d, seed, n=4, integers=True, deep=d < 3)
    found = hm.enumerate_regions(network, hm.WholeSpace(d), engine=engine)
    expected = cells_by_rules(network, [-FAR] * d, [FAR] * d)
    inner = [v for cell in expected.cells for v, _ in cell.piece.vertices]
    assert all(
        abs(x) * 100 < FAR * v[-1] or max(map(abs, v[:-1])) == FAR * v[-1] for v in inner for x in v[:-1]
    )
    problems = rule_problems(found, expected, expected.n_regions if engine is None else None)
    assert problems == []
    for i, state in enumerate(states_of(found)):
        points = [v for v, _ in expected.by_states[state].piece.vertices]
        inside = all(max(map(abs, v[:-1])) < FAR * v[-1] for v in points)
        assert bool(found.bounded[i]) == inside


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("options", [TOP_2, SPARSEMAX], ids=["top-2", "sparsemax"])
def test_a_half_space_has_the_cells_of_a_large_box(options, d, seed):
    network = network_of(options, d, seed, n=4, integers=True, deep=d < 3)
    half = hm.Polytope([[1.0] + [0.0] * (d - 1)], [0.5])
    found = hm.enumerate_regions(network, half)
    expected = cells_by_rules(network, [-FAR] * d, [0.5] + [FAR] * (d - 1))
    assert rule_problems(found, expected, expected.n_regions) == []
