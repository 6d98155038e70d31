r"""How a fixed number of parameters is best cut into heads (P1 Example V.3).

The four matrices of an attention layer with heads of width :math:`d_{head} = d / H` have :math:`4 d^2`
entries for every H. The number of routing cells grows like :math:`N^H`, until heads of width 1 can tell only
two keys apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from hardmax.bounds.heads import vertex_maximum
from hardmax.bounds.large_integers import log10_of, positive, readable, whole_numbers
from hardmax.errors import InvalidInputError
from hardmax.results import Result

__all__ = ["HeadBudget", "head_budget"]


@dataclass(frozen=True, eq=False, repr=False)
class HeadBudget(Result):
    """The same parameters cut into different numbers of heads.

    Attributes
    ----------
    heads, d_head, n_parameters, vertices : tuple of int
        One entry per number of heads; ``vertices`` is the largest number of routing cells.
    n_tokens, d_model : int
    biased : bool

    Examples
    --------
    >>> head_budget(512, 512, heads=[1, 8, 256, 512])
    <HeadBudget: 1048576 parameters; most cells with 256 heads of width 2: 3.742e693>
    """

    kind: ClassVar[str] = "HeadBudget"

    n_tokens: int
    d_model: int
    biased: bool
    heads: tuple[int, ...]
    d_head: tuple[int, ...]
    n_parameters: tuple[int, ...]
    vertices: tuple[int, ...]

    @property
    def best(self) -> int:
        """The position of the cut with the most cells."""
        return max(range(len(self.heads)), key=self.vertices.__getitem__)

    def to_dict(self) -> dict[str, Any]:
        """The budget in plain Python; vertex counts as text, log10 and hex."""
        state = {**self._state(), "vertices": [readable(value) for value in self.vertices]}
        state["log10"] = [log10_of(value) for value in self.vertices]
        state["hex"] = [hex(value) for value in self.vertices]
        return {"kind": self.kind, **state, "provenance": self.provenance}

    def _state(self) -> dict[str, Any]:
        return {
            "n_tokens": self.n_tokens,
            "d_model": self.d_model,
            "biased": self.biased,
            "heads": list(self.heads),
            "d_head": list(self.d_head),
            "n_parameters": list(self.n_parameters),
            "vertices": [hex(value) for value in self.vertices],
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        lists = {name: tuple(state[name]) for name in ("heads", "d_head", "n_parameters")}
        return cls(**{**state, **lists, "vertices": tuple(int(value, 16) for value in state["vertices"])})

    def _summary(self) -> str:
        i = self.best
        counts = sorted(set(self.n_parameters))
        parameters = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        return (
            f"{parameters} parameters; most cells with {self.heads[i]} heads of width {self.d_head[i]}: "
            f"{readable(self.vertices[i])}"
        )

    def _table(self) -> dict[str, Any]:
        return {
            "heads": list(self.heads),
            "d_head": list(self.d_head),
            "parameters": list(self.n_parameters),
            "most cells": [readable(value) for value in self.vertices],
            "log10": [log10_of(value) for value in self.vertices],
            "N^H": [readable(self.n_tokens, H) for H in self.heads],
        }


def head_budget(
    n_tokens: int, d_model: int, *, heads: Sequence[int] | None = None, biased: bool = False
) -> HeadBudget:
    r"""Compare cuts of one attention layer into heads at a fixed number of parameters (P1 Example V.3).

    .. math::

        3 d \cdot d_{head} H + d^2 = 4 d^2 \quad\text{for}\quad d_{head} = d / H .

    Parameters
    ----------
    n_tokens, d_model : int
        N and d.
    heads : sequence of int, optional
        Numbers of heads, each a divisor of ``d_model``; all divisors otherwise.
    biased : bool
        Whether queries carry a bias.

    Returns
    -------
    HeadBudget
        The largest number of routing cells for each, with what ``d_head`` allows.

    Examples
    --------
    P1 prints 1.1e21 for eight heads; it is 2^72.

    >>> budget = head_budget(512, 512, heads=[1, 8])
    >>> budget.n_parameters, budget.vertices
    ((1048576, 1048576), (512, 4722366482869645213696))
    """
    n, d = positive("n_tokens", n_tokens), positive("d_model", d_model)
    if heads is None:
        cuts = tuple(H for H in range(1, d + 1) if d % H == 0)
    else:
        cuts = whole_numbers("heads", heads)
    if not cuts:
        raise InvalidInputError("heads must hold at least one number of heads, but is empty.")
    wrong = [H for H in cuts if d % H]
    if wrong:
        raise InvalidInputError(
            f"heads must divide d_model ({d}), but {wrong[0]} does not; leave heads out for all divisors."
        )
    width = tuple(d // H for H in cuts)
    return HeadBudget(
        n,
        d,
        bool(biased),
        cuts,
        width,
        tuple(3 * d * k * H + d * d for k, H in zip(width, cuts, strict=True)),
        tuple(vertex_maximum(n, H, d, biased=biased, d_head=k) for k, H in zip(width, cuts, strict=True)),
    )
