"""The ledger of the tropical paper: pinned verdicts, and certificates that stand alone."""

from __future__ import annotations

import pytest
from ledger_checks import LedgerContract

import hardmax as hm
from hardmax.papers.ledger import all_claims

HOLDS, FAILS = "holds", "fails"

PINNED = {
    "III": {
        "newton_characterises": FAILS,
        "def_iii7": FAILS,
        "rem_iii11a": HOLDS,
        "loglift_same_walls": FAILS,
        "rem_iii12": FAILS,
        "def_iii13": HOLDS,
        "ffn_is_trop_poly": FAILS,
        "cpwl_closure": FAILS,
        "piecewise_affine_closure": HOLDS,
    },
    "IV": {
        "power_voronoi": HOLDS,
        "onehot_interior": FAILS,
        "onehot_interior_fixed": HOLDS,
        "cell_nonempty_iff_vertex": HOLDS,
        "cells_are_cones": HOLDS,
        "contains_origin": HOLDS,
        "cells_bounded": FAILS,
        "equal_norm_voronoi": HOLDS,
        "layernorm_norms_keys": FAILS,
        "fig3_caption": FAILS,
        "full_input_polyhedral": FAILS,
    },
    "V-A": {
        "single_head_le_n": HOLDS,
        "mink_product_regime": HOLDS,
        "mink_max_linear": HOLDS,
        "mink_max_affine": HOLDS,
        "euler_identity": HOLDS,
        "saturated_floor_d_half": FAILS,
        "gs_quoted_ineq": HOLDS,
        "fig4_216": FAILS,
        "pow_512_8": FAILS,
        "rem_v6": HOLDS,
    },
    "III-B, V-B, VII": {
        "ex_iii3_49": FAILS,
        "zaslavsky_e_bound": FAILS,
        "zaslavsky_e_bound_fixed": HOLDS,
        "sig_ge_regions": HOLDS,
        "sig_eq_regions": FAILS,
        "sig_eq_regions_skip": "holds numerically",
        "mc_lower_bound_regions": FAILS,
        "mc_lower_bound_cells": HOLDS,
        "block_is_refinement": FAILS,
        "block_product_bound": HOLDS,
    },
    "Theorem V.7": {
        "lemma_f1": HOLDS,
        "lemma_f2": HOLDS,
        "v7_count": HOLDS,
        "v7_formula_equality": FAILS,
        "v7_bound": HOLDS,
        "v7_bias_free": FAILS,
        "v7_bias_free_fixed": HOLDS,
        "v7_continuous": HOLDS,
        "v7_maps_distinct": HOLDS,
        "v7_with_ffn_skip": HOLDS,
        "v7_genuine_d_plus_3": HOLDS,
    },
    "V.8 and V.9": {
        "rem_v8": FAILS,
        "theta_exponent": FAILS,
        "theta_exponent_affine": HOLDS,
    },
}

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
    return hm.check_claims("tropical")


def test_the_verdicts_are_the_pinned_ones(ledger):
    pinned = {f"tropical.{name}": v for names in PINNED.values() for name, v in names.items()}
    assert {name: str(ledger[name].verdict) for name in pinned} == pinned


@pytest.mark.parametrize("section", NAMED)
def test_every_statement_has_an_entry(section):
    names = {claim.name for claim in all_claims()}
    assert {name for name in NAMED[section] if f"tropical.{name}" not in names} == set()


class TestLedger(LedgerContract):
    fewest_certificates = 31


def test_the_numbers_of_the_claims_are_there_for_machines(ledger):
    assert ledger["tropical.fig4_216"].numbers["attained"] == [6, 36, 92]
    assert ledger["tropical.saturated_floor_d_half"].numbers["cells"] == [70, 326, 1414]
    assert ledger["tropical.ex_iii3_49"].numbers == {"first_layer": 7, "at_most": 40, "found": 34}
    assert ledger["tropical.v7_bias_free"].numbers == {"at_most": 2200, "claimed": 10000}
    assert ledger["tropical.v7_count"].numbers["regions"]["(2, 3, 2, 1)"] == 144
    assert ledger["tropical.pow_512_8"].numbers["value"] == 2**72
