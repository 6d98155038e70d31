"""P3, "Sparsity is Combinatorial Depth": what its abstract says of routing; the text was not at hand."""

from hardmax.papers.paper import Paper

PAPER = Paper(
    number=3,
    title="Sparsity is Combinatorial Depth: Quantifying MoE Expressivity via Tropical Geometry",
    authors="Ye Su, Huayi Tang, Zixuan Gong and Yong Liu",
    year="2026",
    source="arXiv:2602.03204, the abstract of version 2",
    sections=("routing",),
    contents="""
Abstract, top-k routing: top_k_polynomial
Abstract, normal fan: hypersimplex_fan
Abstract, binomial coefficient: capacity
Abstract, effective capacity: - a notion of the text, which was not at hand; nothing exact to check
Abstract, combinatorial resilience: - a theorem of the text, whose hypotheses were not at hand
Abstract, expert granularity: - asymptotic limits of the text, whose formulas were not at hand
Abstract, shared experts: - a theorem of the text, whose hypotheses were not at hand
Main text: - not at hand; its statements can be added to this folder
""",
)
