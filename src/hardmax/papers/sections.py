"""The sections of both papers: each is a module with the tuples ``CLAIMS`` and ``RECIPES``, or with one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["SECTIONS", "collected"]

SECTIONS = (
    "tropical.sec3_algebra",
    "tropical.sec3_relu_layers",
    "tropical.sec4_diagrams",
    "tropical.sec5_heads",
    "tropical.sec5_blocks",
    "tropical.sec5_theorem_v7",
    "tropical.sec5_growth",
    "tropical.sec6_bounds",
    "tropical.sec6_limits",
    "tropical.sec7_signatures",
    "tropical.sec7_figure6",
    "infoflow.theorem1",
    "infoflow.theorem2",
    "infoflow.theorem3",
    "infoflow.theorems_trained",
    "infoflow.sec4_information_sets",
    "infoflow.figure4",
    "infoflow.tables1_to_10",
    "infoflow.sec5_comparisons",
    "infoflow.sec6_proposition1",
    "infoflow.table11",
    "infoflow.sec6_proposition2",
    "infoflow.table12",
    "infoflow.beyond",
)
"""Modules of :mod:`hardmax.papers`, in the order of the ledger."""


def collected(name: str) -> tuple[Any, ...]:
    """What stands in the tuples ``name`` of all sections, in their order."""
    modules = [import_module(f"hardmax.papers.{section}") for section in SECTIONS]
    return tuple(entry for module in modules for entry in getattr(module, name, ()))
