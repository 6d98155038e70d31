"""The ledger of the tropical paper: pinned verdicts, and certificates that stand alone."""

from __future__ import annotations

import pytest
from ledger_checks import LedgerContract, quick_ledger

from hardmax.papers.ledger import all_claims

PROVED, FAILS, MISPRINT = "holds (proved)", "fails", "fails as printed (a misprint)"
UNSTATED, CHECKED = "holds under an unstated hypothesis", "holds (checked on stated instances)"

PINNED = {
    UNSTATED: "def_iii1 newton_characterises zaslavsky_e_bound layernorm_norms_keys lemma_f1 v7_bound "
    "theta_exponent rem_iii12 v9_gap",
    FAILS: "def_iii7 loglift_same_walls ffn_is_trop_poly cpwl_closure ex_iii3_49 "
    "saturated_floor_d_half fig4_216 block_is_refinement rem_v8 cov_lemma lse_hess_paper "
    "lse_affine_paper ex_vi2_tau uniform_limit finite_tau_depth mc_lower_bound_regions "
    "fig6b_interior_explanation",
    MISPRINT: "cells_bounded pow_512_8 v7_formula_equality app_e_constant",
    CHECKED: "sig_eq_regions_skip fig6b_slopes_increase exact_plane",
    "vacuous": "fig1",
    "measurement only": "fig6a_slope_013 fig6a_depth",
    "holds numerically": "fig5_hidden_regions",
}  # all others are proved

# Statements of section VI and VII, which must be there too.
NAMED = {
    "VI": [
        "lse_value",
        "lse_grad",
        "cov_lemma",
        "lse_hess_paper",
        "lse_hess_fixed",
        "lse_hess_sharp",
        "lse_affine_paper",
        "lse_affine_fixed",
        "ex_vi2_numbers",
        "ex_vi2_tau",
        "uniform_limit",
        "ties_average",
        "loglift_limit",
        "finite_tau_depth",
    ],
    "VII": ["fig6a_slope_013", "fig6b_slopes_increase", "fig6b_interior_explanation"],
}


@pytest.fixture(scope="module")
def ledger():
    return quick_ledger("tropical")


def test_the_verdicts_are_the_pinned_ones(ledger):
    pinned = {f"tropical.{name}": verdict for verdict, names in PINNED.items() for name in names.split()}
    assert {e.name: str(e.verdict) for e in ledger} == {e.name: pinned.get(e.name, PROVED) for e in ledger}
    assert set(pinned) <= {e.name for e in ledger}


@pytest.mark.parametrize("section", NAMED)
def test_every_statement_has_an_entry(section):
    names = {claim.name for claim in all_claims()}
    assert {name for name in NAMED[section] if f"tropical.{name}" not in names} == set()


class TestLedger(LedgerContract):
    fewest_certificates = 31


def test_the_numbers_of_the_claims_are_there_for_machines(ledger):
    assert ledger["tropical.fig4_216"].numbers["attained"] == [6, 36, 92]
    assert ledger["tropical.saturated_floor_d_half"].numbers["cells"] == [70, 326, 1414]
    assert ledger["tropical.ex_iii3_49"].numbers == {
        "first_layer": 7,
        "at_most": 40,
        "found": 34,
        "regions": 34,
    }
    assert ledger["tropical.v7_bound"].numbers["at_most"] == 2200
    assert ledger["tropical.v7_count"].numbers["regions"]["(2, 3, 2, 1)"] == 144
    assert ledger["tropical.pow_512_8"].numbers["value"] == 2**72
