"""The table of contents of both papers: every numbered place, with its claims or the reason why it has none.

Places only, in the order of the papers: definitions, lemmas, theorems, corollaries, remarks, examples, tables
and figures, and the sections that hold claims of their own. A place has the names of claims of the ledger
(without the paper in front), or a sentence behind ``-`` that says why there is nothing to check, or both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

TROPICAL = """
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
Theorem V.5: block_product_bound block_is_refinement
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
Appendix E: zaslavsky_e_bound app_e_span app_e_constant block_product_bound
Assumption E.1: - an assumption; nothing is asserted
Lemma F.1: lemma_f1
Lemma F.2: lemma_f2
Appendix F: v7_formula_equality v7_bound
Appendix G: cov_lemma lse_value lse_grad
"""

INFOFLOW = """
Section 3: - the model; networks of this form are built and run in hardmax.training and in theorem 1
Theorem 1: t1.lower t1.build t1.k.order
Section 4.2, mechanism I: tab.range - the experiments are those of Tables 1 to 10
Theorem 2: t2.exponents
Section 4.2, mechanism II: law.versions - the cost is cited from Yu et al. (2026), whose text was not at hand
Section 4.2, mechanism III: pe.floor fig4
Section 5.1: - rules and definitions; what they leave open is infoflow.rules
Remark, section 5.1: - names the targets that are considered; nothing is asserted
Theorem 3: t3.supnorm t3.o
Section 5.2: law.versions
Remark, section 5.2: - a cost that is left out, without a constant or an exponent to check
Definition 1: if.fig2 - the definition itself is used by every entry about trees
Definition 2: p2.premise cmp.beta
Section 5.3: cmp.dret.exact cmp.tri.upper if.eq5.global
Equation (5): if.eq5.global
Two-step procedure, section 5.3: if.eq5.global t3.o - a heuristic; its two inequalities are these entries
Section 6: 6-a - that the other sentence matches Theorem 2.3 of Yu et al. (2026) needs its text, not at hand
Proposition 1: p1.h1 p1.h2 p1.dd cmp.beta
Equation (6): p1.distinct
Section 6.1: tab.11a
Proposition 2: p2.l
Section 6.2: 6.2-a p2.heads p2.superpoly tab12-c tab.12
Theorem 4: t1.lower t1.build
Appendix A.1: t1.identity14 t1.kset t1.step3.factor t1.softmaxgap t1.width t1.a21 t1.outputo1
Remark after Theorem 4: t1-rem
Theorem 5: t2.exponents
Appendix A.2: t2.pair t2.bound
Remark after Theorem 5: t2.rem
Theorem 6: t3.slope t3.tanhlp t3.supnorm t3.o
Appendix A.3: t3.heaviside t3.identity
Lemma 1: lemma1
Remark after Theorem 6: t3.rem
Appendix B.1: p1.47
Appendix B.2: p2.premise p2-b
Appendix C.1: tab.range c1.configs c1.two-layer
Appendix C.2: c.2
Appendix C.3: fig4 pe.floor
Appendix C.4: tab.11b
Appendix C.5: tab.12
Remark in appendix C.5: c5.rem
Appendix D: cmp.dret.exact cmp.tri.upper
Appendix D.1: cmp.dret.ae cmp.tri.lb cmp.tri.domain
Appendix E: if.appe
Figure 1: tab.11a tab.11b tab.12
Figure 2: if.fig2
Figure 3: - an illustration of the three mechanisms; drawn by the recipe infoflow.fig3
Figure 4: fig4
Figure 5: if.appe
Table 1: tab.ratios tab.range c1.configs
Table 2: tab.ratios tab.range
Table 3: tab.ratios tab.range
Table 4: tab.ratios c.2
Table 5: tab.ratios c.2
Table 6: tab.ratios c.2
Table 7: tab.ratios c.2
Table 8: tab.ratios c.2
Table 9: tab.ratios c.2
Table 10: tab.ratios c.2
Table 11: tab.11a tab.11b
Table 12: tab.12 tab12-c
"""


@dataclass(frozen=True)
class Place:
    """A place of a paper, the claims of the ledger about it, and why there are none, or not more.

    Examples
    --------
    >>> [place.claims for place in contents() if place.name == "Figure 4"]
    [('tropical.fig4_216',), ('infoflow.fig4',)]
    """

    paper: str
    name: str
    claims: tuple[str, ...]
    reason: str


def contents() -> Iterator[Place]:
    """Every place of both papers, in their order."""
    for paper, page in (("tropical", TROPICAL), ("infoflow", INFOFLOW)):
        for line in page.strip().splitlines():
            name, _, rest = line.partition(": ")
            names, _, reason = rest.partition("- ") if rest.startswith("- ") else rest.partition(" - ")
            yield Place(paper, name, tuple(f"{paper}.{each}" for each in names.split()), reason)
