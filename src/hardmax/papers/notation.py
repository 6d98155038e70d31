"""P1 table I as a page: every symbol of the paper, what it means, and what it is called in code.

A name of code is written ``hm.region_bounds(n_tokens)`` for a parameter, ``hm.geometry.PowerDiagram.locate``
for an attribute; :func:`resolve` finds it or says that it is not there, so that the table cannot go stale.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hardmax.errors import InvalidInputError

__all__ = ["NOTATION", "Symbol", "notation_page", "resolve"]


@dataclass(frozen=True)
class Symbol:
    """A symbol of the paper; ``code`` may hold several names, and none where there is no counterpart."""

    group: str
    symbol: str
    meaning: str
    code: tuple[str, ...] = ()
    remark: str = ""


def _group(group: str, *rows: tuple[str, str, str, str]) -> list[Symbol]:
    return [
        Symbol(group, symbol, meaning, tuple(name for name in code.split("; ") if name), remark)
        for symbol, meaning, code, remark in rows
    ]


NOTATION = (
    *_group(
        "Sizes",
        ("$N$", "tokens, which are keys and sites", "hm.region_bounds(n_tokens)", ""),
        (r"$d_{\mathrm{model}}$", "dimension of a token", "hm.region_bounds(d_model)", ""),
        ("$d_k, d_v$", "width of a head", "hm.region_bounds(d_head)", "1 leaves two keys that can win"),
        ("$d$", "dimension in geometry", "hm.vertex_maximum(d); hm.geometry.PowerDiagram.d", ""),
        ("$H$", "heads", "hm.region_bounds(heads)", ""),
        (
            r"$d_{\mathrm{ff}}, n$",
            "ReLU units, hyperplanes",
            "hm.region_bounds(d_ff); hm.bounds.zaslavsky(n)",
            "",
        ),
        ("$L$", "blocks", "hm.region_bounds(depth)", ""),
        (r"$\mathcal{T}$", "the network", "hm.Network; hm.Network.random", ""),
        (
            r"$\mathcal{N}(\mathcal{T})$",
            "number of linear regions",
            "hm.count_regions; hm.regions.RegionCount.n_regions; hm.regions.CellCount.n_cells",
            "cells are what the bounds count; regions are cells glued together",
        ),
        (
            r"$V_{\mathrm{single}}, V_{\mathrm{multi}}$",
            "vertices",
            "hm.vertex_maximum; hm.geometry.MinkowskiVertices.count",
            "",
        ),
        (r"$\Theta, \Omega, O$", "growth", "hm.bounds.RegionBounds", "each bound carries its exponent of N"),
    ),
    *_group(
        "Inputs and projections",
        (
            "$X$",
            "the other tokens",
            "hm.Attention.from_weights(context)",
            "held fixed; only the query varies",
        ),
        ("$x, q$", "the query", "hm.Network.signature(x)", ""),
        ("$W_Q, W_K, W_V, W_O$", "projections", "hm.Attention.from_weights(W_Q)", "rows are outputs"),
        ("$k_j, v_j$", "keys and values", "hm.attention_diagram(keys); hm.Attention.outputs", ""),
        (
            r"$\tilde k_j, a_j = W_Q^\top k_j$",
            "key pulled back to the input",
            "hm.Attention.scores; hm.attention_diagram(query_map)",
            "",
        ),
        (r"$Z(q; \tau)$", "output of a head", "hm.Network.__call__(temperature)", "0 is hardmax"),
    ),
    *_group(
        "Temperature",
        (
            r"$\tau$",
            "temperature",
            "hm.tropical.oplus(temperature); hm.stability_bounds(temperature); "
            "hm.temperature.standard_temperature",
            r"a standard softmax has $\tau = \sqrt{d_k}$ on raw scores, not $1/\sqrt{d_k}$",
        ),
        ("$s_j, S_l$", "score of a key", "hm.check_stability(scores)", ""),
        (r"$P^{(\tau)}, P^{(0)}$", "log-sum-exp and maximum", "hm.tropical.tropical_sum", ""),
        (r"$\tilde v_{j,c}$", "log-lifted value", "hm.tropical.log_lifted_head", ""),
        (
            "$p_j$",
            "probability of a key",
            "hm.temperature.StabilityReport.top_probability",
            "the largest of them",
        ),
        (
            r"$\delta, \mathcal{R}_i^\delta$",
            "margin",
            "hm.stability_bounds(margin); hm.temperature.StabilityReport.margin",
            "",
        ),
        (
            r"$\nabla^2 P^{(\tau)}$",
            "Hessian",
            "hm.temperature.StabilityBounds.hessian",
            r"$N$ in place of $N - 1$",
        ),
    ),
    *_group(
        "Tropical geometry",
        (
            r"$\oplus, \otimes$",
            "maximum and sum",
            "hm.tropical.oplus; hm.tropical.otimes; hm.tropical.tropical_matmul",
            "",
        ),
        (r"$\oslash$", "difference", "hm.tropical.TropicalRationalMap", "p / q for polynomials"),
        (r"$\oplus_\tau, \otimes_\tau$", "the same, smoothed", "hm.tropical.oplus(temperature)", ""),
        ("$P(x)$", "tropical polynomial", "hm.TropicalPolynomial", "real exponents"),
        (
            r"$\mathrm{Newt}(P)$",
            "Newton polytope",
            "hm.TropicalPolynomial.newton_polytope",
            "the lifted polytope decides cells, not Newt alone",
        ),
        (
            r"$\Sigma(P), \sigma_j$",
            "cells of a polynomial",
            "hm.TropicalPolynomial.cells",
            "cones without coefficients only",
        ),
        (r"$\mathcal{H}(P)$", "walls", "hm.TropicalPolynomial.hypersurface; hm.tropical.Hypersurface", ""),
        (r"$\Sigma_1 \wedge \Sigma_2$", "common refinement", "hm.common_refinement", ""),
        (r"$f_h, P_h$", "a head and its polytope", "hm.minkowski_vertices(point_sets)", ""),
        (r"$\Psi, \mathrm{Newt}(\Psi)$", "sum over heads", "hm.minkowski_vertices", ""),
        (
            r"$\mathbf{F}, \Phi$",
            "rational map, network",
            "hm.tropical.TropicalRationalMap; hm.Network",
            "piecewise affine, with jumps",
        ),
        (r"$\omega, \Omega$", "a linear region", "hm.regions.RegionSet.region_of_cell", "may be non-convex"),
    ),
    *_group(
        "Diagrams and arrangements",
        (r"$c_j, S, \hat S$", "sites", "hm.power_diagram(sites)", ""),
        ("$w_j$", "weight of a site", "hm.power_diagram(weights)", r"$\|k_j\|^2 + 2 b_j$ for a biased key"),
        (r"$d_{\mathrm{pow}}$", "power distance", "hm.geometry.PowerDiagram.locate", "the nearest site wins"),
        (
            r"$\mathcal{V}(K)$",
            "power diagram of the keys",
            "hm.attention_diagram; hm.geometry.PowerDiagram",
            "",
        ),
        (
            r"$C_j, \mathrm{int}(C_j)$",
            "a cell, and whether it has interior",
            "hm.geometry.PowerDiagram.nonempty",
            "",
        ),
        (
            "$R(n, d)$",
            "cells of an arrangement",
            "hm.bounds.zaslavsky",
            "a maximum, attained in general position",
        ),
        ("$f_0(P)$", "number of vertices", "hm.geometry.MinkowskiVertices.count", ""),
        (
            r"$A_\Omega, b_\Omega$",
            "the affine map of a cell",
            "hm.regions.RegionSet.linear; hm.regions.RegionSet.offset",
            "",
        ),
    ),
    *_group(
        "Proofs",
        (
            r"$\mathcal{P}_{\mathrm{MHSA}}, \mathcal{P}_{\mathrm{FFN}}$",
            "partitions of a block",
            "hm.enumerate_regions; hm.Network.truncate",
            "the second is shifted in each cell of the first",
        ),
        (
            r"$\mathcal{M}_{\mathrm{MHSA}}, \mathcal{M}_{\mathrm{FFN}}, C_d$",
            "their sizes",
            "hm.vertex_maximum; hm.bounds.zaslavsky",
            "exact, so no constant is needed",
        ),
        (
            r"$\mathcal{S}_l, \mathcal{R}_l, N_l$",
            "cells after l blocks",
            "hm.regions.CellCount.cells_by_depth",
            "",
        ),
        (r"$\mathrm{Refine}(\Omega)$", "what a block makes of a cell", "", "inside the engines"),
        (
            "$p_j = (j - 1/2)/N$",
            "sites of the parabola",
            "hm.networks.sawtooth_network(n_tokens); hm.geometry.parabolic_heads",
            "",
        ),
        ("$w, s(x)$", "teeth, sawtooth", "hm.networks.sawtooth_network(teeth)", "w teeth are 2w pieces"),
        (r"$\Omega_0, J(x)$", "the unit cube, the Jacobian", "hm.Box.cube; hm.Network.affine_at", ""),
        (
            r"$\sigma_i, \beta$",
            "fold sign; bound on the Hessian",
            "hm.temperature.StabilityBounds.lipschitz",
            "",
        ),
    ),
)


def resolve(code: str) -> Any:
    """The object that a name of the table stands for.

    Examples
    --------
    >>> resolve("hm.vertex_maximum(heads)").__name__
    'vertex_maximum'
    >>> resolve("hm.vertex_maximum(layers)")
    Traceback (most recent call last):
    hardmax.errors.InvalidInputError: the table names hm.vertex_maximum(layers), which does not exist.
    """
    parts = re.fullmatch(r"hm((?:\.\w+)+)(?:\((\w+)\))?", code)
    found: Any = import_module("hardmax") if parts else None
    for name in parts[1].split(".")[1:] if parts else ():
        fields = getattr(found, "__dataclass_fields__", {})
        found = fields.get(name) if name in fields else getattr(found, name, None)
    if found is not None and parts and parts[2] and parts[2] not in inspect.signature(found).parameters:
        found = None
    if found is None:
        raise InvalidInputError(f"the table names {code}, which does not exist.")
    return found


def notation_page() -> str:
    """The page ``docs/notation.md``."""
    lines = [
        "# Notation",
        "",
        "The symbols of the tropical paper (its table I) and what they are called here; `hm.f(x)` is the",
        "parameter `x` of `hm.f`. `hardmax reproduce tropical.table1` writes the same table and checks that",
        "every name exists; this page is written by `python docs/build.py --write-notation`.",
    ]
    group = ""
    for row in NOTATION:
        if row.group != group:
            group = row.group
            lines += ["", f"## {group}", "", "| symbol | meaning | in code | remark |", "|---|---|---|---|"]
        code = ", ".join(f"`{name}`" for name in row.code)
        lines.append(f"| {row.symbol} | {row.meaning} | {code} | {row.remark} |")
    return "\n".join(lines) + "\n"
