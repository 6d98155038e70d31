r"""How many routing cells several heads can cut (P1 section V-A).

The cells of H heads are the vertices of a Minkowski sum, and their largest number is known exactly. A head
counts by the number of keys that can win at all: with keys on a line only the two ends, so that heads with
``d_head`` = 1 give at most :math:`2^H` cells however long the sequence is. At a fixed number of parameters
the cells grow like :math:`N^H`, until the heads are that narrow: :func:`head_budget` compares the ways to cut
a layer into heads.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import comb, prod
from typing import Any, ClassVar, Self

from hardmax.bounds.arrangements import zaslavsky
from hardmax.bounds.large_integers import (
    binomial_digits,
    check_digits,
    dimension,
    log10_of,
    positive,
    readable,
    whole_numbers,
)
from hardmax.errors import InvalidInputError
from hardmax.results import Result


@dataclass(frozen=True)
class Heads:
    """What the largest number of routing cells depends on.

    ``winners`` is the number of keys of each head that can win on an open set, ``long`` the number of heads
    in which it grows with the sequence, ``span`` the dimension in which the keys differ.
    """

    winners: tuple[int, ...]
    long: int
    span: int
    biased: bool

    @property
    def top(self) -> int:
        """The largest number of heads whose walls can meet in general position away from the origin."""
        return self.span if self.biased else self.span - 1

    @property
    def exponent(self) -> int:
        """The exponent of N in the maximum."""
        return max(0, min(self.long, self.top))

    @property
    def maximum(self) -> int:
        """The largest number of cells."""
        walls = [keys - 1 for keys in self.winners if keys > 1]
        if not walls:
            return 1
        total = symmetric_sum(walls, self.top)
        return total if self.biased else total + comb(len(walls) - 1, self.span - 1)

    def on_subspaces(self, d: int) -> list[int]:
        """The largest number of cells that an affine subspace of dimension 0, 1, ..., d meets.

        Linear scores are affine on a subspace that misses the origin.
        """
        walls, most = [keys - 1 for keys in self.winners if keys > 1], self.maximum
        there = [min(most, total) for total in symmetric_sums(walls, min(self.span, d))]
        return there + there[-1:] * (d + 1 - len(there))


def heads_of(
    n_tokens: int | Sequence[int],
    heads: int,
    d: int,
    *,
    biased: bool,
    d_head: int | None,
    ranks: Sequence[int] | int | None,
    key_span: int | None,
) -> Heads:
    """Check the arguments that all functions of this package share."""
    heads, d = positive("heads", heads), dimension("d", d)
    keys = whole_numbers("n_tokens", n_tokens, length=heads)
    if d_head is not None and ranks is not None:
        raise InvalidInputError(
            "d_head and ranks must not both be given, because d_head is a rank for every head; leave one out."
        )
    if d_head is not None:
        ranks = positive("d_head", d_head)
    rank_of = whole_numbers("ranks", 2 if ranks is None else ranks, length=heads, least=0)
    span = d if key_span is None else positive("key_span", key_span, least=0)
    if span > d:
        raise InvalidInputError(f"key_span must be at most the dimension {d}, but was {span}.")
    if span == 0:  # the scores of a head differ by constants: one key wins everywhere
        rank_of = (0,) * heads
    winners = tuple(min(n, 2**rank) if rank < 2 else n for n, rank in zip(keys, rank_of, strict=True))
    return Heads(winners, sum(rank >= 2 for rank in rank_of), span, bool(biased))


def vertex_maximum(
    n_tokens: int | Sequence[int],
    heads: int,
    d: int,
    *,
    biased: bool = False,
    d_head: int | None = None,
    ranks: Sequence[int] | int | None = None,
    key_span: int | None = None,
) -> int:
    r"""The largest number of routing cells of H heads with N keys each in :math:`\mathbb{R}^d`, attained.

    .. math::

        V_{\mathrm{lin}}(N, H, d) = \sum_{j=0}^{d-1} \binom{H}{j} (N-1)^j + \binom{H-1}{d-1}, \qquad
        V_{\mathrm{aff}}(N, H, d) = \sum_{j=0}^{d} \binom{H}{j} (N-1)^j .

    The linear form counts the vertices of a Minkowski sum of H polytopes with N vertices each (bias-free
    scores), the affine form the upper vertices of the lifted sum (scores with free biases). Heads of
    different sizes have elementary symmetric sums :math:`e_j(N_1 - 1, \dots, N_H - 1)` in place of
    :math:`\binom{H}{j} (N-1)^j`; heads with one key have no walls and do not count. P1 Theorem V.2 prints
    :math:`O((NH)^{\lfloor d/2 \rfloor})` for H > d; that is too small for every d >= 3.

    Parameters
    ----------
    n_tokens : int or sequence of int
        N, or one number per head.
    heads, d : int
        H and d, at least 1.
    biased : bool
        Whether scores may carry biases.
    d_head : int, optional
        Width of the heads when scores are :math:`k_j \cdot (W_Q x + b_Q)` with :math:`k_j` in
        :math:`\mathbb{R}^{d_{head}}`. From 2 on it changes nothing; 1 leaves two keys per head that can win.
    ranks : int or sequence of int, optional
        In place of ``d_head``: the dimension of the affine hull of the keys of each head, of the pairs
        (key, bias) when biased. Rank 0 has one cell, rank 1 at most two, rank 2 already N.
    key_span : int, optional
        The dimension spanned by all differences of keys of one head, all heads together; it takes the place
        of d (the remark in P1 Appendix E).

    See Also
    --------
    hardmax.geometry.parabolic_heads : keys that attain the maximum.

    Notes
    -----
    A theorem of Montufar, Ren and Zhang (2021), after Weibel (2012); proven in every dimension in
    ``docs/theorems.md``, Theorem 3. :func:`hardmax.geometry.parabolic_heads` attains it.

    Examples
    --------
    P1 figure 4 claims 216 vertices for three heads of six keys in space; no more than 92 are possible.

    >>> vertex_maximum(6, 3, 3), vertex_maximum(6, 3, 3, biased=True), vertex_maximum(6, 3, 4)
    (92, 216, 216)

    Heads of width 1 see two keys each, however many there are.

    >>> vertex_maximum(512, 8, 512, d_head=1), vertex_maximum(512, 8, 512, d_head=2) == 512**8
    (256, True)
    """
    return heads_of(n_tokens, heads, d, biased=biased, d_head=d_head, ranks=ranks, key_span=key_span).maximum


def growth_exponent(
    heads: int,
    d: int,
    *,
    biased: bool = False,
    d_head: int | None = None,
    ranks: Sequence[int] | int | None = None,
    key_span: int | None = None,
) -> int:
    r"""The exponent e with which :func:`vertex_maximum` grows in the length of the sequence, :math:`N^e`.

    It is min(H, d - 1) for linear scores and min(H, d) for affine ones, with H the number of heads of rank
    two or more and d the dimension that the keys span.

    Examples
    --------
    >>> growth_exponent(4, 3), growth_exponent(4, 3, biased=True), growth_exponent(4, 3, d_head=1)
    (2, 3, 0)
    """
    return heads_of(2, heads, d, biased=biased, d_head=d_head, ranks=ranks, key_span=key_span).exponent


def pair_arrangement(n_tokens: int, heads: int, d: int, *, biased: bool = False) -> int:
    r"""The bound of one who compares all pairs of keys: the cells of :math:`H \binom{N}{2}` hyperplanes.

    P1 Remark V.6 prints it as :math:`O((H N^2)^d)` and is right that it is loose: most of these hyperplanes
    separate keys neither of which wins.

    Examples
    --------
    >>> pair_arrangement(4, 1, 3), vertex_maximum(4, 1, 3)
    (32, 4)
    """
    n = positive("heads", heads) * comb(positive("n_tokens", n_tokens), 2)
    return zaslavsky(n, dimension("d", d), central=not biased)


def symmetric_sum(values: Sequence[int], top: int) -> int:
    r"""The sum of the elementary symmetric polynomials :math:`e_0, \dots, e_{top}` of the values, at least 1.

    >>> symmetric_sum([2, 2, 2], 2), symmetric_sum([1, 2, 3], 5)
    (19, 24)
    """
    if top >= len(values):
        factors = Counter(value + 1 for value in values)
        check_digits(sum(n * log10_of(factor) for factor, n in factors.items()), len(factors))
        return prod(factor**n for factor, n in factors.items())
    return deque(symmetric_sums(values, top), maxlen=1).pop()


def symmetric_sums(values: Sequence[int], top: int) -> Iterator[int]:
    r"""The sums :math:`e_0 + \dots + e_j` of elementary symmetric polynomials of the values, j up to ``top``.

    >>> list(symmetric_sums([2, 2, 2], 2)), list(symmetric_sums([1, 2, 3], 5))
    ([1, 7, 19], [1, 7, 18, 24])
    """
    n, top = len(values), min(top, len(values))
    largest = max(values, default=1)
    digits = binomial_digits(n, min(top, n // 2)) + top * log10_of(largest)
    steps = (top + 1) * (1 + largest.bit_length() // 30)
    if len(set(values)) <= 1:
        check_digits(digits, steps)
        term = total = 1
        yield total
        for j in range(top):
            term = term * (n - j) // (j + 1) * values[0]
            total += term
            yield total
        return
    check_digits(digits, n * steps)
    sums = [1] + [0] * top
    for value in values:
        for j in range(top, 0, -1):
            sums[j] += value * sums[j - 1]
    yield from accumulate(sums)


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
        return {
            **super().to_dict(),
            "vertices": [readable(value) for value in self.vertices],
            "log10": [log10_of(value) for value in self.vertices],
            "hex": [hex(value) for value in self.vertices],
        }

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "vertices": [hex(value) for value in self.vertices]}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        vertices = [int(value, 16) for value in state["vertices"]]
        return super()._from_state({**state, "vertices": vertices})

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

    Examples
    --------
    P1 prints 1.1e21 for eight heads; it is 2^72.

    >>> budget = head_budget(512, 512, heads=[1, 8])
    >>> budget.n_parameters, budget.vertices
    ((1048576, 1048576), (512, 4722366482869645213696))
    """
    n, d = positive("n_tokens", n_tokens), dimension("d_model", d_model)
    divisors = [H for H in range(1, d + 1) if d % H == 0]
    cuts = whole_numbers("heads", divisors if heads is None else heads)
    if not cuts:
        raise InvalidInputError("heads must hold at least one number of heads, but is empty.")
    wrong = [H for H in cuts if d % H]
    if wrong:
        raise InvalidInputError(
            f"heads must divide d_model ({d}), but {wrong[0]} does not; leave heads out for all divisors."
        )
    widths = tuple(d // H for H in cuts)
    parameters = tuple(3 * d * k * H + d * d for k, H in zip(widths, cuts, strict=True))
    vertices = tuple(vertex_maximum(n, H, d, biased=biased, d_head=d // H) for H in cuts)
    return HeadBudget(n, d, bool(biased), cuts, widths, parameters, vertices)
