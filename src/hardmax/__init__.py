"""What a transformer can express, computed exactly.

``hardmax`` is softmax at temperature zero, the object that two papers share: "Expressivity of Transformers: A
Tropical Geometry Perspective" (here ``tropical``, P1 in docstrings) and "InfoFlow: A Framework for
Multi-Layer Transformer Analysis" (here ``infoflow``, P2). This file holds the public names and nothing else;
each is loaded from its module on first use, so that ``import hardmax`` costs a few milliseconds.

Examples
--------
>>> import hardmax as hm
>>> hm.oplus(2.0, 3.0)
3.0
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardmax import errors as errors
    from hardmax import targets as targets
    from hardmax import training as training
    from hardmax.bounds import HeadBudget as HeadBudget
    from hardmax.bounds import RegionBounds as RegionBounds
    from hardmax.bounds import head_budget as head_budget
    from hardmax.bounds import mlp_bounds as mlp_bounds
    from hardmax.bounds import region_bounds as region_bounds
    from hardmax.bounds import vertex_maximum as vertex_maximum
    from hardmax.bounds import zaslavsky as zaslavsky
    from hardmax.flow.architectures import Architecture as Architecture
    from hardmax.flow.costs.advise import Advice as Advice
    from hardmax.flow.costs.advise import advise as advise
    from hardmax.flow.costs.estimate import CostEstimate as CostEstimate
    from hardmax.flow.costs.estimate import estimate_cost as estimate_cost
    from hardmax.flow.head_scores import BilinearScore as BilinearScore
    from hardmax.flow.head_scores import KeyScore as KeyScore
    from hardmax.flow.information_flow import InformationFlow as InformationFlow
    from hardmax.flow.information_sets import information_sets as information_sets
    from hardmax.flow.plans import GlobalRead as GlobalRead
    from hardmax.flow.plans import MaxPosition as MaxPosition
    from hardmax.flow.plans import Plan as Plan
    from hardmax.flow.plans import Positions as Positions
    from hardmax.geometry.diagrams.max_margins import Reach as Reach
    from hardmax.geometry.diagrams.power_diagrams import PowerDiagram as PowerDiagram
    from hardmax.geometry.diagrams.power_diagrams import attention_diagram as attention_diagram
    from hardmax.geometry.diagrams.power_diagrams import power_diagram as power_diagram
    from hardmax.geometry.domains import Box as Box
    from hardmax.geometry.domains import Polytope as Polytope
    from hardmax.geometry.domains import WholeSpace as WholeSpace
    from hardmax.geometry.minkowski import MinkowskiVertices as MinkowskiVertices
    from hardmax.geometry.minkowski import minkowski_vertices as minkowski_vertices
    from hardmax.geometry.minkowski import parabolic_heads as parabolic_heads
    from hardmax.models.atlas.assumptions import AssumptionReport as AssumptionReport
    from hardmax.models.atlas.assumptions import check_assumptions as check_assumptions
    from hardmax.models.atlas.frozen_norms import FrozenNormEffect as FrozenNormEffect
    from hardmax.models.atlas.frozen_norms import frozen_norm_effect as frozen_norm_effect
    from hardmax.models.atlas.head_atlas import HeadAtlas as HeadAtlas
    from hardmax.models.atlas.head_atlas import head_atlas as head_atlas
    from hardmax.models.influence.influence_report import InfluenceReport as InfluenceReport
    from hardmax.models.influence.measure import measure_influence as measure_influence
    from hardmax.models.influence.routing_flow import TokenFlow as TokenFlow
    from hardmax.models.influence.routing_flow import token_flow as token_flow
    from hardmax.models.report.report import ModelReport as ModelReport
    from hardmax.models.report.report import report as report
    from hardmax.networks.blocks import Affine as Affine
    from hardmax.networks.blocks import Attention as Attention
    from hardmax.networks.blocks import FeedForward as FeedForward
    from hardmax.networks.blocks import Maxout as Maxout
    from hardmax.networks.constructions.sawtooth import sawtooth_network as sawtooth_network
    from hardmax.networks.network import Network as Network
    from hardmax.networks.signatures import Signature as Signature
    from hardmax.papers.ledger import Ledger as Ledger
    from hardmax.papers.ledger import check_claims as check_claims
    from hardmax.papers.recipes import Reproduction as Reproduction
    from hardmax.papers.recipes import reproduce as reproduce
    from hardmax.regions.api import count_cells as count_cells
    from hardmax.regions.api import count_regions as count_regions
    from hardmax.regions.api import enumerate_regions as enumerate_regions
    from hardmax.regions.counts import CellCount as CellCount
    from hardmax.regions.counts import RegionCount as RegionCount
    from hardmax.regions.result import RegionSet as RegionSet
    from hardmax.regions.sampling.estimate import CellEstimate as CellEstimate
    from hardmax.regions.sampling.estimate import estimate_cells as estimate_cells
    from hardmax.regions.segment.trace import SegmentTrace as SegmentTrace
    from hardmax.regions.segment.trace import trace_segment as trace_segment
    from hardmax.results import load as load
    from hardmax.targets.target import Target as Target
    from hardmax.temperature.bands import TransitionBand as TransitionBand
    from hardmax.temperature.bands import margin_needed as margin_needed
    from hardmax.temperature.bands import transition_band as transition_band
    from hardmax.temperature.margin_bounds import StabilityBounds as StabilityBounds
    from hardmax.temperature.margin_bounds import stability_bounds as stability_bounds
    from hardmax.temperature.margin_bounds import standard_temperature as standard_temperature
    from hardmax.temperature.observed_scores import StabilityReport as StabilityReport
    from hardmax.temperature.observed_scores import check_stability as check_stability
    from hardmax.temperature.outputs import output_error_bound as output_error_bound
    from hardmax.temperature.surviving_cells import CellSurvival as CellSurvival
    from hardmax.temperature.surviving_cells import surviving_cells as surviving_cells
    from hardmax.tropical.layers import log_lifted_head as log_lifted_head
    from hardmax.tropical.layers import relu_layer as relu_layer
    from hardmax.tropical.polynomials import TropicalPolynomial as TropicalPolynomial
    from hardmax.tropical.rational_maps import TropicalProduct as TropicalProduct
    from hardmax.tropical.rational_maps import TropicalRationalMap as TropicalRationalMap
    from hardmax.tropical.refinements import CommonRefinement as CommonRefinement
    from hardmax.tropical.refinements import Hypersurface as Hypersurface
    from hardmax.tropical.refinements import common_refinement as common_refinement
    from hardmax.tropical.semirings import oplus as oplus
    from hardmax.tropical.semirings import otimes as otimes
    from hardmax.tropical.semirings import tropical_matmul as tropical_matmul
    from hardmax.tropical.semirings import tropical_sum as tropical_sum
    from hardmax.versions import show_versions as show_versions

__version__ = "0.1.0"

_HOME_OF = {
    "oplus": "hardmax.tropical.semirings",
    "otimes": "hardmax.tropical.semirings",
    "tropical_sum": "hardmax.tropical.semirings",
    "tropical_matmul": "hardmax.tropical.semirings",
    "TropicalPolynomial": "hardmax.tropical.polynomials",
    "TropicalRationalMap": "hardmax.tropical.rational_maps",
    "TropicalProduct": "hardmax.tropical.rational_maps",
    "common_refinement": "hardmax.tropical.refinements",
    "CommonRefinement": "hardmax.tropical.refinements",
    "Hypersurface": "hardmax.tropical.refinements",
    "log_lifted_head": "hardmax.tropical.layers",
    "relu_layer": "hardmax.tropical.layers",
    "Box": "hardmax.geometry.domains",
    "Polytope": "hardmax.geometry.domains",
    "WholeSpace": "hardmax.geometry.domains",
    "power_diagram": "hardmax.geometry.diagrams.power_diagrams",
    "attention_diagram": "hardmax.geometry.diagrams.power_diagrams",
    "PowerDiagram": "hardmax.geometry.diagrams.power_diagrams",
    "Reach": "hardmax.geometry.diagrams.max_margins",
    "minkowski_vertices": "hardmax.geometry.minkowski",
    "MinkowskiVertices": "hardmax.geometry.minkowski",
    "parabolic_heads": "hardmax.geometry.minkowski",
    "vertex_maximum": "hardmax.bounds",
    "region_bounds": "hardmax.bounds",
    "RegionBounds": "hardmax.bounds",
    "mlp_bounds": "hardmax.bounds",
    "zaslavsky": "hardmax.bounds",
    "head_budget": "hardmax.bounds",
    "HeadBudget": "hardmax.bounds",
    "Attention": "hardmax.networks.blocks",
    "FeedForward": "hardmax.networks.blocks",
    "Maxout": "hardmax.networks.blocks",
    "Affine": "hardmax.networks.blocks",
    "Network": "hardmax.networks.network",
    "Signature": "hardmax.networks.signatures",
    "sawtooth_network": "hardmax.networks.constructions.sawtooth",
    "enumerate_regions": "hardmax.regions.api",
    "count_cells": "hardmax.regions.api",
    "count_regions": "hardmax.regions.api",
    "RegionSet": "hardmax.regions.result",
    "CellCount": "hardmax.regions.counts",
    "RegionCount": "hardmax.regions.counts",
    "estimate_cells": "hardmax.regions.sampling.estimate",
    "CellEstimate": "hardmax.regions.sampling.estimate",
    "trace_segment": "hardmax.regions.segment.trace",
    "SegmentTrace": "hardmax.regions.segment.trace",
    "check_claims": "hardmax.papers.ledger",
    "Ledger": "hardmax.papers.ledger",
    "reproduce": "hardmax.papers.recipes",
    "Reproduction": "hardmax.papers.recipes",
    "Target": "hardmax.targets.target",
    "Architecture": "hardmax.flow.architectures",
    "MaxPosition": "hardmax.flow.plans",
    "GlobalRead": "hardmax.flow.plans",
    "Positions": "hardmax.flow.plans",
    "Plan": "hardmax.flow.plans",
    "information_sets": "hardmax.flow.information_sets",
    "InformationFlow": "hardmax.flow.information_flow",
    "estimate_cost": "hardmax.flow.costs.estimate",
    "CostEstimate": "hardmax.flow.costs.estimate",
    "advise": "hardmax.flow.costs.advise",
    "Advice": "hardmax.flow.costs.advise",
    "BilinearScore": "hardmax.flow.head_scores",
    "KeyScore": "hardmax.flow.head_scores",
    "stability_bounds": "hardmax.temperature.margin_bounds",
    "StabilityBounds": "hardmax.temperature.margin_bounds",
    "standard_temperature": "hardmax.temperature.margin_bounds",
    "check_stability": "hardmax.temperature.observed_scores",
    "StabilityReport": "hardmax.temperature.observed_scores",
    "margin_needed": "hardmax.temperature.bands",
    "transition_band": "hardmax.temperature.bands",
    "TransitionBand": "hardmax.temperature.bands",
    "output_error_bound": "hardmax.temperature.outputs",
    "surviving_cells": "hardmax.temperature.surviving_cells",
    "CellSurvival": "hardmax.temperature.surviving_cells",
    "head_atlas": "hardmax.models.atlas.head_atlas",
    "report": "hardmax.models.report.report",
    "ModelReport": "hardmax.models.report.report",
    "HeadAtlas": "hardmax.models.atlas.head_atlas",
    "token_flow": "hardmax.models.influence.routing_flow",
    "TokenFlow": "hardmax.models.influence.routing_flow",
    "measure_influence": "hardmax.models.influence.measure",
    "InfluenceReport": "hardmax.models.influence.influence_report",
    "frozen_norm_effect": "hardmax.models.atlas.frozen_norms",
    "FrozenNormEffect": "hardmax.models.atlas.frozen_norms",
    "check_assumptions": "hardmax.models.atlas.assumptions",
    "AssumptionReport": "hardmax.models.atlas.assumptions",
    "load": "hardmax.results",
    "show_versions": "hardmax.versions",
}

_ROOMS = ("errors", "targets", "training")  # modules that are public as they are

__all__ = [*_HOME_OF, *_ROOMS]  # a test holds the table to the imports above, which type checkers read


def __getattr__(name: str) -> object:
    """Load a public name from its module the first time it is asked for."""
    if name in _ROOMS:
        return import_module(f"hardmax.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'hardmax' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
