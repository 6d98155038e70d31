"""The ledgers of the papers that were added: classical results, and an abstract on top-k routing."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise, product
from math import comb

import ledger_checks
import numpy as np
import pytest

from hardmax.networks.network import Network
from hardmax.papers import replay
from hardmax.papers.classical import arrangements, attention, relu_networks
from hardmax.papers.ledger import network_record
from hardmax.papers.moe.routing import chosen_sets
from hardmax.papers.paper import papers


class TestClassical(ledger_checks.LedgerContract):
    fewest_certificates = 5

    @pytest.fixture
    def ledger(self):
        return ledger_checks.quick_ledger("classical")


class TestMixtureOfExperts(ledger_checks.LedgerContract):
    @pytest.fixture
    def ledger(self):
        return ledger_checks.quick_ledger("moe")


def test_replay_holds_the_rules_of_the_folders_once():
    write = ledger_checks.docs_write()
    text = write.REPLAY.read_text()
    copied = write.FOLDER_RULES.search(text)[0]
    assert copied == "".join(write.rules_of(paper) for paper in papers())
    assert copied.count("@rule(") == 6
    names = [line.split("(")[0] for line in text.splitlines() if line.startswith("def ")]
    assert len(names) == len(set(names))


def test_a_rule_must_not_need_what_replay_does_not_have(tmp_path, monkeypatch):
    write = ledger_checks.docs_write()
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "rules.py").write_text('"""Rules."""\n\nfrom numpy import linspace\n\n\nX = linspace\n')
    monkeypatch.setattr(write, "REPLAY", tmp_path / "replay.py")
    with pytest.raises(SystemExit, match=r"imports linspace, which replay\.py does not have"):
        write.rules_of("toy")
    assert write.rules_of("without_rules") == ""


# Numbers by other means
# ------------------------------------------------------------------------------------------------------------


def test_orders_and_the_grid_have_the_polynomials_that_are_known():
    """t (t - 1) (t - 2) (t - 3) for the orders of four numbers, (t - 3) (t - 2) for a grid."""
    orders = arrangements.characteristic_polynomial(arrangements.DEGENERATE["orders of four numbers"])
    assert orders == [0, -6, 11, -6, 1]
    assert arrangements.characteristic_polynomial(arrangements.DEGENERATE["a grid"]) == [6, -5, 1]


@pytest.mark.parametrize("n", range(1, 8))
def test_the_most_pieces_of_one_unit_bound_every_zigzag(n):
    """Brute force over the sides of the kinks: kinks on two sides of zero have a crossing between them, and
    both ends may cross."""
    sides = product((0, 1), repeat=n)
    bends = max(sum(above) + sum(a != b for a, b in pairwise(above)) + 2 for above in sides)
    assert 1 + bends == relu_networks.most_pieces_of_one_unit(n)


@pytest.mark.parametrize("n", [3, 4, 5, 6, 7])
def test_laps_run_from_end_to_end(n):
    network = Network((relu_networks.laps(n),))
    (layer,) = network_record(network)
    kinks = sorted(-Fraction(b) / w for (w,), b in zip(layer["w_in"], layer["b_in"], strict=True))
    values = [network.exact_value([t])[0] for t in (0, *kinks, 1)]
    assert values == [i % 2 for i in range(n + 2)]


def test_sets_of_two_agree_with_points():
    """Sets that random points find are never more than those enumerated, and all are found here."""
    rng = np.random.default_rng(1)
    keys, biases = rng.standard_normal((5, 2)), rng.standard_normal(5)
    points = 40 * rng.standard_normal((20_000, 2)) * rng.random((20_000, 1)) ** 3
    best = np.argsort(-(points @ keys.T + biases), axis=1)[:, :2]
    assert len({tuple(sorted(pair)) for pair in best.tolist()}) == chosen_sets(keys, biases, 2)


def test_parity_is_decided_only_by_what_separates_it():
    assert attention.decides_parity(3, lambda x: x)
    assert attention.decides_parity(3, lambda x: sum(x))
    assert not attention.decides_parity(3, lambda x: x[:2])


@pytest.mark.parametrize(
    ("claim", "data"),
    [
        ("classical.zaslavsky.bounded", {"lines": [[1, 0, 0], [1, 0, 1]]}),  # parallel: nothing is bounded
        ("classical.zaslavsky.bounded", {"lines": [[1, 0, 0], [0, 1, 0], [2, 0, 0]]}),  # one line twice
        ("classical.zaslavsky.bounded", {"lines": [[1, 0, 0], [0, 1, 0]]}),  # no bounded region
        ("classical.zaslavsky.general", {"lines": [[1, 0, 0], [0, 1, 0], [1, 1, 0]]}),  # through one point
        ("classical.zaslavsky.general", {"lines": [[0, 0, 1], [0, 1, 0], [1, 1, 0]]}),  # no line
        ("classical.zaslavsky.regions", {"lines": [[1, 0, 0], [0, 1, 0], [1, 1, 0]], "points": [[1, 2]]}),
        ("classical.montufar.lower", {"narrow": 5, "widths": [[6, 2]]}),  # 10 pieces, as claimed
        ("classical.montufar.lower", {"narrow": 6, "widths": []}),
        ("classical.montufar.lower", {"narrow": 6, "widths": [[6]]}),
        ("classical.serra.line", {"widths": [[2, 3]]}),  # two units cannot run three laps
        ("classical.serra.line", {"widths": []}),
        ("moe.capacity", {"d": 1, "k": 2, "points": [[1, 1, 0], [1, 0, 1], [0, 1, 1]]}),  # not fewer
        ("moe.capacity", {"d": 1, "k": 4, "points": [[1, 1, 1, 1, 0, 0, 0, 0]]}),  # not all
        ("moe.capacity", {"d": 1, "k": 4, "points": [[1] * 8] * 70}),  # ties
    ],
)
def test_data_that_prove_nothing_are_refused(claim, data):
    with pytest.raises(replay.Rejected):
        replay.value_of(claim, data)


def test_every_set_is_chosen_in_score_space():
    assert chosen_sets(np.eye(4, dtype=int), None, 2) == comb(4, 2) == len(list(combinations(range(4), 2)))
