"""Classical results about regions and attention: Zaslavsky, Montufar et al., Serra et al., Hahn."""

from hardmax.papers.paper import Paper

PAPER = Paper(
    number=4,
    title="Classical results on regions and on attention",
    authors="Zaslavsky; Montufar, Pascanu, Cho and Bengio; Serra, Tjandraatmadja and Ramalingam; Hahn",
    year="1975 to 2020",
    source="Memoirs of the AMS 154, arXiv:1402.1869, arXiv:1711.02114, doi:10.1162/tacl_a_00306",
    sections=("arrangements", "relu_networks", "attention"),
    contents="""
Zaslavsky 1975, regions: zaslavsky.regions
Zaslavsky 1975, bounded regions: zaslavsky.bounded
Zaslavsky 1975, general position: zaslavsky.general
Zaslavsky 1975, faces of every dimension: - the ledger counts full-dimensional cells only
Montufar et al. 2014, rectifier networks: montufar.lower
Montufar et al. 2014, maxout networks: - another activation, with bounds of its own; not taken up
Serra et al. 2018, upper bound: serra.upper
Serra et al. 2018, inputs of dimension one: serra.line
Serra et al. 2018, maxout networks: - another activation, with bounds of its own; not taken up
Serra et al. 2018, counting: - a method by integer programs, not a statement about networks
Hahn 2020, hard attention: hahn.hard
Hahn 2020, soft attention: hahn.soft
Hahn 2020, hierarchical structure: - 2DYCK follows from the same lemma as parity; only parity was taken up
""",
)
