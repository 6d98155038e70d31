"""P2, "InfoFlow: A Framework for Multi-Layer Transformer Analysis": its claims and its recipes."""

from hardmax.papers.paper import Paper

PAPER = Paper(
    number=2,
    title="InfoFlow: A Framework for Multi-Layer Transformer Analysis",
    authors="Penghao Yu, Haotian Jiang, Zeyu Bao and Qianxiao Li",
    year="2026",
    source="arXiv:2605.17930",
    sections=(
        "theorem1",
        "theorems2_3",
        "trained",
        "sec4_information_sets",
        "tables1_to_10",
        "sec5_comparisons",
        "sec6_pairwise",
        "sec6_triangles",
        "experiments",
    ),
    contents="""
Section 3: - the model; networks of this form are built and run in hardmax.training and in theorem 1
Theorem 1: t1.lower t1.build t1.k.order
Section 4.2, mechanism I: tab.range exp.recovered exp.tenfold exp.second
Theorem 2: t2.exponents
Section 4.2, mechanism II: law.versions - the cost is cited from Yu et al. (2026); their abstract has none
Section 4.2, mechanism III: pe.floor fig4 exp.positions
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
Section 6: 6-a - the other sentence is about Theorem 2.3 of Yu et al. (2026); only its abstract was at hand
Proposition 1: p1.h1 p1.h2 p1.dd cmp.beta
Equation (6): p1.distinct
Section 6.1: tab.11a exp.heads exp.order exp.gap exp.first-layer
Proposition 2: p2.l
Section 6.2: 6.2-a p2.heads p2.superpoly tab12-c tab.12 exp.growth exp.t16 exp.t32 exp.alike
Section 7: exp.heads exp.growth - sums up the experiments, as the abstract and section 1 do
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
Appendix C.1: tab.range c1.configs c1.two-layer exp.recovered exp.enough-heads exp.tenfold
Appendix C.2: c.2 exp.second
Appendix C.3: fig4 pe.floor exp.positions
Appendix C.4: tab.11b exp.heads exp.gap exp.narrows
Appendix C.5: tab.12 exp.growth exp.t16 exp.t32 exp.alike
Remark in appendix C.5: c5.rem
Appendix D: cmp.dret.exact cmp.tri.upper
Appendix D.1: cmp.dret.ae cmp.tri.lb cmp.tri.domain
Appendix E: if.appe
Figure 1: tab.11a tab.11b tab.12 exp.heads exp.growth
Figure 2: if.fig2
Figure 3: - an illustration of the three mechanisms; drawn by the recipe infoflow.fig3
Figure 4: fig4 exp.positions
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
""",
)
