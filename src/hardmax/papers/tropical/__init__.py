"""P1, "Expressivity of Transformers: A Tropical Geometry Perspective": its claims and its recipes."""

from hardmax.papers.paper import Paper

PAPER = Paper(
    number=1,
    title="Expressivity of Transformers: A Tropical Geometry Perspective",
    authors="Ye Su and Yong Liu",
    year="2026",
    source="arXiv:2604.14727",
    sections=(
        "sec3_algebra",
        "sec3_relu_layers",
        "sec4_diagrams",
        "sec5_heads",
        "sec5_theorem_v7",
        "sec6_bounds",
        "sec6_limits",
        "sec7_counts",
    ),
    contents="""
Definition III.1: def_iii1
Definition III.2: zaslavsky
Example III.3: ex_iii3_49
Definition III.4: def_iii4
Definition III.5: newton_characterises
Definition III.6: def_iii6
Definition III.7: def_iii7
Definition III.8: def_iii8
Definition III.9: def_iii9
Definition III.10: loglift_limit
Remark III.11: rem_iii11a loglift_same_walls
Remark III.12: rem_iii12 rational_map
Definition III.13: def_iii13
Section III-D: ex_vi2_tau
Section III-E: ffn_is_trop_poly cpwl_closure
Definition IV.1: def_iv2
Definition IV.2: def_iv2
Theorem IV.3: power_voronoi onehot_interior
Corollary IV.4: onehot_interior cells_bounded uniform_limit
Remark IV.5: rem_iv5
Remark IV.6: equal_norm_voronoi layernorm_norms_keys
Proposition V.1: single_head_le_n
Theorem V.2: mink_product_regime saturated_floor_d_half
Example V.3: pow_512_8 mink_product_regime
Corollary V.4: cor_v4
Theorem V.5: block_product_bound
Remark V.6: rem_v6
Theorem V.7: v7_bound
Remark V.8: rem_v8
Corollary V.9: theta_exponent v9_gap
Theorem VI.1: lse_value lse_grad lse_hess_paper lse_affine_paper
Example VI.2: ex_vi2_numbers ex_vi2_tau
Remark VI.3: rem_vi3 finite_tau_depth
Section VII: mc_lower_bound_regions
Figure 1: fig1
Figure 2: ex_iii3_49
Figure 3: fig3_caption
Figure 4: fig4_216
Figure 5: fig5_hidden_regions
Figure 6: fig6a_slope_013 fig6a_depth fig6b_slopes_increase fig6b_interior_explanation
Figure 7: block_is_refinement
Table I: - notation; every symbol and its name in code is on the page notation.md, which a recipe checks
Table II: def_iii4 def_iii6 def_iii8 def_iii9 def_iii13 - rows are computed by the recipe tropical.table2
Appendix A: - holds Tables I and II
Appendix B: power_voronoi
Appendix C: uniform_limit
Appendix D: gs_quoted_ineq saturated_floor_d_half
Appendix E: zaslavsky_e_bound app_e_span app_e_constant block_is_refinement block_product_bound
Assumption E.1: - an assumption; nothing is asserted
Lemma F.1: lemma_f1
Lemma F.2: lemma_f2
Appendix F: v7_formula_equality v7_bound
Appendix G: cov_lemma lse_value lse_grad
""",
)
