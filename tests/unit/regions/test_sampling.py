"""The Monte Carlo estimate against brute force, exact counts and known distributions."""

from __future__ import annotations

import json
import tracemalloc
import warnings
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner
from oracles.random_networks import instances

import hardmax as hm
from hardmax.cli import main
from hardmax.errors import DimensionMismatchError, EmptyDomainError, InvalidInputError, NotFiniteError
from hardmax.regions.sampling import signature_hashes
from hardmax.regions.sampling.signature_hashes import SignatureHasher, SignatureTally, UniformPoints

SQUARE = hm.Box.cube(2, -4, 4)


def signature_rows(network, points):
    """Signatures as rows of numbers, from the forward pass of the network itself."""
    seen = network.signature(points)
    return np.concatenate([seen.routings.astype(np.int64), seen.relu], axis=1)


def classes(network, points):
    """The number of each point's signature among the distinct ones."""
    rows = signature_rows(network, points)
    return (
        np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        if rows.shape[1]
        else np.zeros(len(points), int)
    )


def hasher_of(network, domain, n_points, seed=0):
    return SignatureHasher(
        network, UniformPoints(domain), np.random.default_rng(seed), largest_batch=n_points
    )


def assert_same_partition(a, b):
    """Two labellings put the same points together."""
    pairs = len(set(zip(a.tolist(), b.tolist(), strict=True)))
    assert len(set(a.tolist())) == pairs == len(set(b.tolist()))


def networks():
    rng = np.random.default_rng(7)
    yield "mlp", hm.Network.random_mlp([2, 24, 24, 24, 1], 0)
    yield "wide and narrow", hm.Network.random_mlp([2, 90, 3, 130, 5], 1)
    yield "transformer", hm.Network.random(2, 20, 3, 2, 16, 0)
    yield "with skips", hm.Network.random(2, 11, 2, 3, 9, 1, ffn_skip=True)
    yield "unbiased, no skip", hm.Network.random(2, 8, 2, 2, 8, 2, biased=False, attention_skip=False)
    yield "attention only", hm.Network.random(2, 30, 4, 2, 0, 3)
    yield "one dimension", hm.Network.random_mlp([1, 40, 40, 1], 2)
    yield "three dimensions", hm.Network.random(3, 9, 2, 2, 12, 4)
    yield "five dimensions", hm.Network.random_mlp([5, 20, 20, 1], 5)
    yield "beyond sharing", hm.Network.random(11, 9, 2, 2, 12, 6)
    mask = rng.random((3, 12)) < 0.6
    mask[:, 4] = True
    scores = rng.integers(-1, 2, (3, 12, 2)).astype(float)  # many keys are equal
    head = hm.Attention(scores, None, rng.standard_normal((3, 12, 2)), mask=mask)
    yield (
        "masks and duplicates",
        hm.Network([head, hm.FeedForward(rng.standard_normal((7, 2)), None, np.ones((1, 7)))]),
    )
    wide = hm.Network.random_mlp([30, 50, 50, 2], 8)
    yield "a slice", wide.restrict(rng.standard_normal(30), rng.standard_normal((2, 30)))
    yield "affine in between", hm.Network(
        [*hm.Network.random_mlp([2, 16, 6], 9).blocks, hm.Affine(rng.standard_normal((2, 6)), [0.5, 1.0]),
         *hm.Network.random(2, 7, 2, 1, 5, 10).blocks, hm.Affine(np.ones((1, 2)))]
    )  # fmt: skip


NETWORKS = [pytest.param(network, id=name) for name, network in networks()]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("shares", [True, False])
def test_hashes_tell_points_apart_as_the_forward_pass_does(network, shares):
    domain = hm.Box.cube(network.d, -3, 3)
    points = UniformPoints(domain).draw(6000, np.random.default_rng(3))
    hasher = hasher_of(network, domain, 6000)
    hasher.shares = shares
    assert_same_partition(hasher.hashes(points), classes(network, points))


@pytest.mark.parametrize("network", NETWORKS)
def test_a_hash_is_the_exclusive_or_of_the_words_of_its_signature(network):
    domain = hm.Box.cube(network.d, -3, 3)
    points = UniformPoints(domain).draw(300, np.random.default_rng(4))
    hasher = hasher_of(network, domain, 300)
    seen = network.signature(points)
    expected = np.zeros(300, dtype=np.uint64)
    head = unit = word = 0
    for block in network.blocks:
        if isinstance(block, hm.Attention):
            keys = block.keys
            for h in range(block.heads):
                listed = keys.first[h][keys.counts[h] > 0]
                for i, key in enumerate(listed.tolist()):
                    expected[seen.routings[:, head] == key] ^= hasher.net.words[word + i]
                head, word = head + 1, word + len(listed)
        elif isinstance(block, hm.FeedForward):
            for u in range(block.width):
                expected[seen.relu[:, unit + u]] ^= hasher.net.words[word + u]
            unit, word = unit + block.width, word + block.width
        else:
            word += block.d_out  # never used
    np.testing.assert_array_equal(hasher.hashes(points), expected)


def margins(network, points):
    """How far the closest decision of the forward pass is from a tie, at each point."""
    least = np.full(len(points), np.inf)
    y = points
    for block in network.blocks:
        if isinstance(block, hm.Attention):
            scores = np.sort(block.keys.scores(y)[0], axis=2)
            if scores.shape[2] > 1:
                least = np.minimum(least, (scores[:, :, -1] - scores[:, :, -2]).min(axis=1))
        elif isinstance(block, hm.FeedForward):
            z = (y if block.w_in is None else y @ block.w_in.floats.T) + block.b_in.floats
            least = np.minimum(least, np.abs(z).min(axis=1, initial=np.inf))
        y = block.forward(y)
    return least


def test_networks_of_many_kinds():
    """Whatever the kind, away from ties the hashes tell points apart as the forward pass does."""
    checked = 0
    for instance in instances(400):
        if instance.place in ("whole plane", "unbounded polygon"):
            continue
        points = UniformPoints(instance.domain).draw(1000, np.random.default_rng(instance.number))
        hashes = hasher_of(instance.network, instance.domain, 1000).hashes(points)
        clear = margins(instance.network, points) > 1e-9
        assert_same_partition(hashes[clear], classes(instance.network, points[clear]))
        checked += clear.sum()
    assert checked > 50_000


def test_ties_on_open_sets():
    """Keys that a rank-deficient layer makes equal win together, and share their outputs from there on."""
    flatten = hm.FeedForward([[1, 0], [-1, 0]], None, [[1, -1], [1, -1]])  # (x, y) -> (x, x)
    tied = hm.Attention([[[2, 0], [0, 2], [-3, 1]]], None, [[[8, 0], [-2, 0], [1, 1]]], skip=False)
    # key 0 alone would put out (8, 0) and switch on the first unit; keys 0 and 1 together put out (3, 0)
    sees = hm.FeedForward([[1, 0], [0, 1], [1, 0]], [-4, 0, -2], np.ones((1, 3)))
    network = hm.Network([flatten, tied, sees])
    points = UniformPoints(SQUARE).draw(3000, np.random.default_rng(0))
    seen = network.signature(points)
    assert not seen.relu[:, 2].any()
    assert seen.relu[:, 4].any()
    for shares in (True, False):
        hasher = hasher_of(network, SQUARE, 3000)
        hasher.shares = shares
        assert_same_partition(hasher.hashes(points), classes(network, points))
    assert (
        hm.estimate_cells(network, SQUARE, n_samples=1000).n_signatures
        == hm.count_cells(network, SQUARE).n_cells
    )


def test_dead_units_and_constant_layers():
    dead = hm.FeedForward([[0, 0], [1, 1], [0, 0]], [-1, 0, 0], [[1, 1, 1], [0, 0, 0]])
    network = hm.Network([dead, dead, hm.FeedForward(np.zeros((2, 2)), [1, 0], np.eye(2))])
    assert hm.estimate_cells(network, SQUARE, n_samples=1000).n_signatures == 2
    assert hm.count_cells(network, SQUARE).n_cells == 2


def test_a_walk_that_is_interrupted_goes_on(monkeypatch):
    network = hm.Network.random(2, 15, 2, 2, 16, 0)
    points = UniformPoints(SQUARE).draw(4000, np.random.default_rng(0))
    whole = hasher_of(network, SQUARE, 4000).hashes(points)
    monkeypatch.setattr(signature_hashes, "_BUDGET", 100)
    np.testing.assert_array_equal(hasher_of(network, SQUARE, 4000).hashes(points), whole)


@pytest.mark.parametrize("network", NETWORKS)
def test_the_estimate_counts_what_numpy_counts(network):
    estimate = hm.estimate_cells(
        network, hm.Box.cube(network.d, -3, 3), n_samples=20_000, rng=1, first_points=True
    )
    stream = np.random.default_rng(1).spawn(2)[1]  # the first stream is for the words of the hash
    points = UniformPoints(hm.Box.cube(network.d, -3, 3)).draw(20_000, stream)
    rows = signature_rows(network, points)
    _, first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    np.testing.assert_array_equal(estimate.first_samples, first[order])
    np.testing.assert_array_equal(estimate.counts, counts[order])
    np.testing.assert_array_equal(estimate.first_points, points[first[order]])
    assert estimate.unseen_mass == (counts == 1).sum() / 20_000
    assert estimate.n_signatures_after(5000) == len(np.unique(rows[:5000], axis=0))


# Exact counts


@pytest.mark.parametrize(
    ("arguments", "cells"),
    [((2, 3, 2, 1), 144), ((2, 2, 1, 2), 256), ((1, 3, 2, 2), 144), ((3, 2, 1, 1), 64)],
)
def test_all_cells_of_the_sawtooth_are_found(arguments, cells):
    network = hm.networks.sawtooth_network(*arguments)
    estimate = hm.estimate_cells(network, hm.Box.cube(network.d, 0, 1), n_samples=100_000)
    assert estimate.n_signatures == cells
    assert estimate.unseen_mass == 0.0
    assert estimate.n_cells_chao1 == cells


def test_signatures_are_at_most_the_cells_of_the_exact_count():
    network = hm.Network.random_mlp([2, 32, 32, 32, 1], 0)
    estimate = hm.estimate_cells(network, SQUARE, n_samples=500_000)
    cells = hm.count_cells(network, SQUARE).n_cells
    assert cells == 3203
    assert 0.85 * cells < estimate.n_signatures <= cells
    assert estimate.n_signatures < estimate.n_cells_chao1 < 1.2 * cells


def test_there_may_be_more_signatures_than_regions():
    """Four keys with one value: four cells, a single linear region."""
    head = hm.Attention([[[1, 0], [-1, 0], [0, 1], [0, -1]]], None, [[[3, 0]] * 4])
    network = hm.Network([head])
    assert hm.estimate_cells(network, SQUARE, n_samples=1000).n_signatures == 4
    assert hm.count_regions(network, SQUARE).n_regions == 1


def test_an_affine_network_has_one_cell():
    network = hm.Network([hm.Affine([[1.0, 2.0]])])
    estimate = hm.estimate_cells(network, SQUARE, n_samples=1000)
    assert (estimate.n_signatures, estimate.collision_probability) == (1, 0.0)


# The hash


def test_naive_words_collide_and_random_ones_do_not():
    """1 ^ 2 = 3: small or linear words confuse signatures. Random words do not."""
    network = hm.Network.random_mlp([2, 48, 48, 1], 0)
    points = UniformPoints(SQUARE).draw(50_000, np.random.default_rng(0))
    n_signatures = len(np.unique(signature_rows(network, points), axis=0))
    hasher = hasher_of(network, SQUARE, len(points))
    assert len(np.unique(hasher.hashes(points))) == n_signatures
    for naive in (np.arange(1, len(hasher.net.words) + 1), 2 * np.arange(len(hasher.net.words)) + 1):
        hasher.net = hasher.net._replace(words=naive.astype(np.uint64))
        assert len(np.unique(hasher.hashes(points))) < n_signatures


def test_a_sum_of_key_numbers_collides():
    network = hm.Network.random(2, 12, 4, 1, 0, 0)
    points = UniformPoints(SQUARE).draw(20_000, np.random.default_rng(0))
    rows = signature_rows(network, points)
    n_signatures = len(np.unique(rows, axis=0))
    assert len(np.unique(rows.sum(axis=1))) < n_signatures
    assert len(np.unique(np.bitwise_xor.reduce(rows, axis=1))) < n_signatures
    assert len(np.unique(hasher_of(network, SQUARE, len(points)).hashes(points))) == n_signatures


def test_millions_of_signatures_do_not_collide():
    """In ten dimensions every point has its own signature."""
    network = hm.Network.random_mlp([10, 64, 64, 1], 0)
    estimate = hm.estimate_cells(network, hm.Box.cube(10, -4, 4), n_samples=300_000)
    assert estimate.n_signatures > 0.999 * 300_000
    assert estimate.collision_probability == pytest.approx(estimate.n_signatures**2 / 2**65, rel=1e-4)
    assert estimate.unseen_mass > 0.99
    assert estimate.unseen_mass_upper() > 0.99


def test_a_tally_grows_and_keeps_its_order():
    hashes = np.random.default_rng(0).integers(0, 2**64, 30_000, dtype=np.uint64)
    tally = SignatureTally(limit=10**6)
    for part in np.split(np.concatenate([hashes, hashes[::-1]]), 12):
        tally.add(part)
    assert len(tally) == 30_000
    assert (tally.counts == 2).all()
    np.testing.assert_array_equal(tally.first_samples, np.arange(30_000))


def test_hashes_that_differ_in_their_highest_bits_only_are_told_apart():
    hashes = np.arange(500, dtype=np.uint64) << np.uint64(55)
    tally = SignatureTally(limit=1000)
    tally.add(np.tile(hashes, 3))
    assert (tally.counts == 3).all()
    assert len(tally) == 500


# What was not seen


def staircase(ends):
    """A network on the line whose cells are the intervals between the given points."""
    return hm.Network([hm.FeedForward(np.ones((len(ends), 1)), -np.asarray(ends), np.ones((1, len(ends))))])


def test_unseen_mass_of_a_known_distribution():
    """Intervals of geometric lengths: the true unseen share is known for every draw of points."""
    lengths = 0.93 ** np.arange(200)
    lengths /= lengths.sum()
    ends = np.cumsum(lengths)
    network = staircase(ends[:-1])
    truths, estimates, held = [], [], 0
    for seed in range(150):
        estimate = hm.estimate_cells(
            network, hm.Box([0.0], [1.0]), n_samples=400, rng=seed, first_points=True
        )
        seen = np.unique(np.searchsorted(ends, estimate.first_points[:, 0]))
        truth = 1.0 - lengths[seen].sum()
        truths.append(truth)
        estimates.append(estimate.unseen_mass)
        held += truth <= estimate.unseen_mass_upper(0.9)
    assert np.mean(estimates) == pytest.approx(np.mean(truths), rel=0.1)
    assert held >= 0.9 * 150  # it holds more often than promised, because more points see more


def test_the_bound_is_tight_when_everything_was_seen():
    estimate = hm.estimate_cells(staircase([0.25, 0.5, 0.75]), hm.Box([0.0], [1.0]), n_samples=40_000)
    assert estimate.n_signatures == 4
    assert estimate.unseen_mass == 0.0
    assert estimate.unseen_mass_upper(0.95) == pytest.approx(1 - 0.05 ** (1 / 10_000))


def test_too_few_points_promise_nothing():
    estimate = hm.estimate_cells(staircase([0.5]), hm.Box([0.0], [1.0]), n_samples=3)
    assert estimate.unseen_mass_upper() == 1.0
    assert hm.estimate_cells(staircase([0.5]), hm.Box([0.0], [1.0]), n_samples=1).unseen_mass == 1.0


def test_chao1_of_equally_large_cells():
    estimate = hm.estimate_cells(staircase(np.arange(1, 1000) / 1000), hm.Box([0.0], [1.0]), n_samples=1500)
    assert estimate.n_signatures < 850
    assert estimate.n_cells_chao1 == pytest.approx(1000, rel=0.1)


# Reproducible, bounded


def test_the_number_of_threads_does_not_matter(monkeypatch):
    monkeypatch.setattr("hardmax.regions.sampling.estimate._BATCH", 1000)
    network = hm.Network.random(2, 10, 2, 2, 8, 0)
    one, two = (
        hm.estimate_cells(network, SQUARE, n_samples=9_500, first_points=True, n_jobs=jobs) for jobs in (1, 3)
    )
    for name in ("counts", "first_samples", "first_points"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert one.n_samples == 9_500


def test_the_same_seed_gives_the_same_points_and_another_one_does_not():
    network = hm.Network.random_mlp([2, 16, 1], 0)
    a, b, c, d = (
        hm.estimate_cells(network, SQUARE, n_samples=2000, rng=rng)
        for rng in (5, np.random.default_rng(5), 6, np.random.default_rng(5))
    )
    np.testing.assert_array_equal(a.counts, b.counts)
    np.testing.assert_array_equal(a.counts, d.counts)
    assert a.counts.tolist() != c.counts.tolist()


def test_a_generator_moves_on():
    network, generator = hm.Network.random_mlp([2, 16, 1], 0), np.random.default_rng(5)
    a, b = (hm.estimate_cells(network, SQUARE, n_samples=2000, rng=generator) for _ in range(2))
    assert a.counts.tolist() != b.counts.tolist()


def test_a_full_list_stops_the_sampling():
    network = hm.Network.random_mlp([2, 32, 1], 0)
    estimate = hm.estimate_cells(network, SQUARE, n_samples=50_000, max_signatures=100)
    assert not estimate.complete
    assert estimate.n_signatures == 100
    assert estimate.counts.sum() == estimate.n_samples < 50_000
    assert "of 50,000 asked for" in repr(estimate)


def test_memory_does_not_grow_with_the_number_of_points():
    network = hm.Network.random_mlp([2, 16, 16, 1], 0)
    peaks = []
    for n_samples in (600_000, 2_400_000):
        tracemalloc.start()
        hm.estimate_cells(network, SQUARE, n_samples=n_samples)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.05 * peaks[0] < 100e6


def test_a_file_keeps_everything(tmp_path):
    triangle = hm.Polytope([[-1, 0], [0, -1], [3, 3]], [0, 0, 1])
    network = hm.Network.random_mlp([2, 16, 1], 0)
    for domain in (SQUARE, triangle):
        estimate = hm.estimate_cells(network, domain, n_samples=2000, first_points=True)
        back = hm.load(estimate.save(tmp_path / "estimate.npz"))
        np.testing.assert_array_equal(back.counts, estimate.counts)
        np.testing.assert_array_equal(back.first_points, estimate.first_points)
        assert back.unseen_mass_upper() == estimate.unseen_mass_upper()
        assert repr(back) == repr(estimate)
        assert repr(back.domain) == repr(domain)
        assert len(back.to_frame()) == back.n_signatures


# Domains


def test_a_polygon_is_sampled_uniformly():
    polygon = hm.Polytope([[-1, 0], [0, -1], [1, 1], [1, 0]], [0, 0, 2, 1.5])  # cut triangle, area 1.875
    points = UniformPoints(polygon).draw(40_000, np.random.default_rng(0))
    assert polygon.contains(points).all()
    share = (points[:, 0] < 0.5).mean()
    assert share == pytest.approx(0.875 / 1.875, abs=0.01)


def test_a_needle_of_a_polygon_is_sampled():
    needle = hm.Polytope([[1, -1], [-1, 1], [1, 1], [-1, -1]], [1e-9, 1e-9, 4, 4])
    points = UniformPoints(needle).draw(1000, np.random.default_rng(0))
    assert np.abs(points[:, 0] - points[:, 1]).max() < 1.1e-9
    assert np.ptp(points[:, 0]) > 3.9


@pytest.mark.parametrize("d", [1, 3, 4])
def test_a_simplex_is_sampled_uniformly(d):
    simplex = hm.Polytope(np.vstack([-np.eye(d), np.ones(d)]), [0] * d + [1])
    points = UniformPoints(simplex).draw(20_000, np.random.default_rng(0))
    assert simplex.contains(points).all()
    np.testing.assert_allclose(points.mean(axis=0), 1 / (d + 1), atol=0.01)


def test_estimates_in_a_polygon():
    triangle = hm.Polytope([[-1, 0], [0, -1], [1, 1]], [0, 0, 1])
    network = hm.Network.random(2, 12, 2, 1, 8, 0)
    cells = hm.count_cells(network, triangle).n_cells
    assert 0.8 * cells <= hm.estimate_cells(network, triangle, n_samples=100_000).n_signatures <= cells


# Bad input


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (
            {"domain": hm.WholeSpace(2)},
            InvalidInputError,
            r"must be bounded.*but was WholeSpace.*hm.Box.cube\(2",
        ),
        ({"domain": hm.Polytope([[1, 0], [0, 1]], [1, 1])}, InvalidInputError, "must be bounded"),
        (
            {"domain": hm.Polytope([[1, 0], [-1, 0], [0, 1], [0, -1]], [0, 0, 1, 1])},
            EmptyDomainError,
            "interior",
        ),
        (
            {"domain": hm.Box.cube(3, -1, 1)},
            DimensionMismatchError,
            "dimension of the network's input, 2, but has 3",
        ),
        (
            {"domain": [[-1, 1], [-1, 1]]},
            InvalidInputError,
            "domain must be a Box or a Polytope, but was a list",
        ),
        ({"domain": hm.Box.cube(2, -1e308, 1e308)}, NotFiniteError, "sides that fit into float64"),
        (
            {"domain": hm.Box([0, Fraction(1, 3)], [1, Fraction(1, 3) + Fraction(1, 10**40)])},
            EmptyDomainError,
            "wide",
        ),
        ({"network": 3}, InvalidInputError, "network must be a Network, .* but was 3"),
        ({"n_samples": 0}, InvalidInputError, "n_samples must be a whole number of at least 1, but was 0"),
        ({"n_samples": 1e6}, InvalidInputError, "n_samples must be a whole number"),
        ({"n_samples": True}, InvalidInputError, "n_samples must be a whole number"),
        ({"max_signatures": -1}, InvalidInputError, "max_signatures must be a whole number"),
        ({"rng": -1}, InvalidInputError, "rng must be a whole number of at least 0 or a numpy Generator"),
        ({"rng": "seed"}, InvalidInputError, "rng must be a whole number"),
        ({"n_jobs": 0}, InvalidInputError, "n_jobs must not be 0"),
    ],
)
def test_bad_input_gets_one_sentence(change, error, sentence):
    arguments = {"network": hm.Network.random_mlp([2, 4, 1], 0), "domain": SQUARE, "n_samples": 100, **change}
    with pytest.raises(error, match=sentence):
        hm.estimate_cells(arguments.pop("network"), arguments.pop("domain"), **arguments)


@pytest.mark.parametrize(
    ("rows", "ends", "error"),
    [
        ([[1.0], [1.0]], [0, 1], InvalidInputError),
        ([[1.0], [-1.0]], [0, 0], EmptyDomainError),
        ([[0.0], [1.0], [-1.0]], [-1, 1, 1], EmptyDomainError),
        (np.eye(3), [1, 1, 1], InvalidInputError),
        (np.vstack([np.eye(3), -np.eye(3)]), [1, 1, 0, 1, 1, 0], EmptyDomainError),
        (np.vstack([np.eye(3), -np.eye(3)]), [1, 1, -2, 1, 1, 0], EmptyDomainError),
        (
            [[1, -1, 0], [-1, 1, 0], [0, 1, -1], [0, -1, 1], [1, 1, 1], [-1, -1, -1]],
            [1e-6] * 4 + [1, 1],
            InvalidInputError,
        ),
    ],
)
def test_domains_without_uniform_points(rows, ends, error):
    d = len(rows[0])
    with pytest.raises(error):
        hm.estimate_cells(hm.Network.random_mlp([d, 4, 1], 0), hm.Polytope(rows, ends), n_samples=100)


def test_overflow_is_reported():
    network = hm.Network([hm.FeedForward([[1e200]], None, [[1e200]]), hm.FeedForward([[1.0]], None, [[1.0]])])
    with pytest.raises(NotFiniteError):
        hm.estimate_cells(network, hm.Box([-1], [1]), n_samples=100)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -3, float("nan")])
def test_a_confidence_is_a_probability(confidence):
    estimate = hm.estimate_cells(staircase([0.5]), hm.Box([0.0], [1.0]), n_samples=100)
    with pytest.raises(InvalidInputError, match="confidence must lie between 0 and 1"):
        estimate.unseen_mass_upper(confidence)


# The command


@pytest.fixture
def network_file(tmp_path):
    return str(hm.Network.random_mlp([2, 16, 16, 16, 1], 0).save(tmp_path / "network.npz"))


def run(*arguments):
    return CliRunner().invoke(main, ["estimate", *arguments])


def test_the_command_prints_a_table(network_file):
    shown = run(network_file, "--box", "-4", "4", "--samples", "20000")
    assert shown.exit_code == 0, shown.output
    expected = hm.estimate_cells(hm.load(network_file), SQUARE, n_samples=20_000)
    assert shown.stdout.startswith(f"{expected.n_signatures} signatures at 20000 points")
    assert "at least this many cells" in shown.stdout


def test_the_command_prints_json(network_file):
    report = json.loads(
        run(network_file, "--box", "-4", "4", "--samples", "20000", "--seed", "3", "--json").stdout
    )
    expected = hm.estimate_cells(hm.load(network_file), SQUARE, n_samples=20_000, rng=3)
    assert report["n_signatures"] == expected.n_signatures
    assert report["unseen_mass"] == expected.unseen_mass
    assert report["unseen_mass_upper"] == expected.unseen_mass_upper()
    assert report["n_samples"] == 20_000


def test_the_command_saves_and_shows_again(network_file, tmp_path):
    path = str(tmp_path / "estimate.npz")
    first = run(network_file, "--box", "-4", "4", "--samples", "5000", "--out", path)
    again = run(path)
    assert again.exit_code == 0, again.output
    assert again.stdout == first.stdout
    assert run(path, "--box", "-4", "4").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--box must say where"),
        (["--box", "4", "-4"], "low must be below high"),
        (["--box", "-4", "4", "--samples", "0"], "n_samples must be a whole number of at least 1"),
        (["--box", "-4", "4", "--confidence", "2"], "confidence must lie between 0 and 1"),
    ],
)
def test_the_command_refuses_in_one_sentence(network_file, arguments, sentence):
    shown = run(network_file, *arguments)
    assert shown.exit_code == 2
    assert sentence in shown.stderr
    assert shown.stderr.count("\n") == 1


def test_the_command_wants_a_network(tmp_path):
    (tmp_path / "numbers.npy").write_bytes(b"")
    path = hm.attention_diagram([[1.0, 0.0], [0.0, 1.0]]).save(tmp_path / "diagram.npz")
    for file, sentence in (
        (path, "must hold a Network"),
        (tmp_path / "numbers.npy", ""),
        (tmp_path / "no.npz", "no such file"),
    ):
        shown = run(str(file), "--box", "-4", "4")
        assert shown.exit_code == 2
        assert sentence in shown.stderr


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_task_that_is_longer_than_the_time_limit_is_cut_off(n_jobs):
    wide, box = hm.Network.random_mlp([20, 1500, 1500, 1], 0), hm.Box.cube(20, -1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        part = hm.estimate_cells(wide, box, n_samples=10**9, time_limit=0.5, n_jobs=n_jobs)
    assert 0 < part.n_samples < 2**18
    assert part.n_samples < part.n_requested


def test_a_time_limit_that_is_not_reached_changes_nothing():
    network, box = hm.Network.random_mlp([3, 20, 20, 1], 0), hm.Box.cube(3, -1, 1)
    plain = hm.estimate_cells(network, box, n_samples=300_000)
    limited = hm.estimate_cells(network, box, n_samples=300_000, time_limit=1000.0)
    assert np.array_equal(plain.counts, limited.counts)
    assert np.array_equal(plain.first_samples, limited.first_samples)
