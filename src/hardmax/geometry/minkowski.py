r"""Vertices of Minkowski sums: how several heads together cut space (P1 section V-A).

Head h routes x to :math:`\arg\max_j a_{hj} \cdot x`. The inputs that a tuple of keys :math:`(j_1, \dots,
j_H)` wins together have interior exactly when :math:`\sum_h a_{h j_h}` is a vertex of :math:`P_1 + \dots +
P_H`, :math:`P_h = \operatorname{conv}\{a_{hj}\}` (Definition III.13). With biases the polytopes are lifted to
:math:`(a_{hj}, b_{hj})` and only upper vertices count.

:func:`minkowski_vertices` lists all of them with a witness each. Up to five homogeneous dimensions it carries
cells with their rays (:mod:`hardmax.geometry.cones.splitting`). Beyond that a cell has too many vertices to
be carried along, and :class:`PrefixSearch` decides each tuple by itself: it is a cell when some :math:`y`
satisfies :math:`(p_{h j_h} - p_{h l}) \cdot y > 0` for every head h and every other key l. The depth-first
search extends prefixes that can still win, so it asks about :math:`N` extensions per cell of the previous
heads, each a small min-norm-point problem warm-started from its parent
(:mod:`hardmax.geometry.feasibility.linear_programs`). A feasible prefix keeps its point as a witness, an
infeasible one is proven so by a positive combination of rows that vanishes; what floats cannot settle is
decided in rationals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any, ClassVar, Self

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import (
    DamagedFileError,
    DimensionMismatchError,
    InvalidInputError,
    NotFiniteError,
    UnsupportedDimensionError,
)
from hardmax.exact.rationals import ExactArray, as_exact, dot, fraction, nearest_float
from hardmax.fields import check_finite, check_range, check_shapes
from hardmax.geometry.cones.heads import Frame, Head, independent_columns, scaled_heads
from hardmax.geometry.cones.rational_splitting import is_inside, surely_inside
from hardmax.geometry.cones.splitting import Refinement, refine
from hardmax.geometry.diagrams.order_k import winning_sets
from hardmax.geometry.diagrams.order_k_diagrams import checked_k
from hardmax.geometry.domains import WholeSpace
from hardmax.geometry.feasibility.linear_programs import (
    corral_workspace,
    fill_rows_kernel,
    search_prefixes_kernel,
    tabulate_walls_kernel,
)
from hardmax.geometry.feasibility.rational_programs import Separation, separate_exactly
from hardmax.geometry.scores import Scores
from hardmax.limits import Clock
from hardmax.progress import Progress, shown
from hardmax.randomness import MOST_EXACT, check_room
from hardmax.results import Result

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_RAYS_UP_TO = 5  # homogeneous dimensions in which carrying rays beats one small program per tuple
# the same for sums of k keys: from four dimensions on their cells are not simple, and floats prove no ray
_RAYS_OF_SUMS_UP_TO = 3
_HIGHEST = 10
_SUBFAMILIES = 1024  # Euler's identity counts every subfamily of heads; beyond this many it is skipped


@dataclass(frozen=True)
class Verification:
    """What :meth:`MinkowskiVertices.verify` found.

    ``checks`` maps the name of a check to ``"passed"``, ``"failed: ..."`` or ``"skipped: ..."``.
    """

    checks: dict[str, str]

    @property
    def ok(self) -> bool:
        """No check failed."""
        return not any(outcome.startswith("failed") for outcome in self.checks.values())

    def __repr__(self) -> str:
        return f"<Verification: {'; '.join(f'{name} {outcome}' for name, outcome in self.checks.items())}>"


@dataclass(frozen=True, eq=False, repr=False)
class MinkowskiVertices(Result):
    """All vertices of a Minkowski sum, or all upper vertices of a lifted one.

    Attributes
    ----------
    choices : (count, H) int64
        The key of each head whose points add up to the vertex, the lowest index among identical keys;
        lexicographic order. Of top-k heads the row of ``sets[h]``; :meth:`winning_keys` gives the keys.
    vertices : (count, d) float64
        The vertices, rounded.
    witnesses : (count, d) float64
        An input (a direction, without biases) at which every chosen key wins strictly.
    exact_witnesses : dict
        Rational witnesses for the rows, rarely any, whose cell is too thin for the float witness to be shown
        inside.
    degenerate : bool or None
        Whether the sets are not in general position; ``None`` where the algorithm does not see it.
    sets : tuple of (n_h, k_h) int64, or None
        Of top-k heads: the sets of keys of each head that win on an open set.

    Examples
    --------
    >>> square = minkowski_vertices([[[0, 0], [1, 0]], [[0, 0], [0, 1]]])
    >>> square.count, square.vertices.tolist()
    (4, [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> square.witnesses[3].tolist()  # a direction in which both second keys win
    [1.0, 1.0]
    """

    kind: ClassVar[str] = "MinkowskiVertices"
    _optional: ClassVar[tuple[str, ...]] = ("sets",)

    choices: Integers
    vertices: Floats
    witnesses: Floats
    exact_witnesses: dict[int, tuple[Fraction, ...]]
    degenerate: bool | None
    n_decided_exactly: int
    point_sets: tuple[ExactArray, ...] = field(repr=False)
    biases: tuple[ExactArray, ...] | None = field(repr=False, default=None)
    sets: tuple[Integers, ...] | None = field(repr=False, default=None)

    @property
    def count(self) -> int:
        """The number of vertices, which is the number of routing cells of the heads together."""
        return len(self.choices)

    @property
    def heads(self) -> int:
        """The number of heads."""
        return int(self.choices.shape[1])

    @property
    def d(self) -> int:
        """The dimension of the space."""
        return int(self.witnesses.shape[1])

    @property
    def families(self) -> list[Scores]:
        """The scores of each head; of top-k heads one score per row of ``sets``."""
        families = _families(list(self.point_sets), None if self.biases is None else list(self.biases))
        return families if self.sets is None else _sums(families, self.sets)

    def winning_keys(self, h: int) -> Integers:
        """The keys that head ``h`` reads at each vertex, one row per vertex.

        Examples
        --------
        >>> minkowski_vertices([[[0], [1], [3]], [[0], [5]]], k=[2, 1]).winning_keys(0)
        array([[0, 1],
               [1, 2]])
        """
        chosen = self.choices[:, h]
        return chosen[:, None] if self.sets is None else self.sets[h][chosen]

    def verify(self) -> Verification:
        r"""Check the result from the outside.

        * every witness makes its tuple win strictly, in certified floats or in rationals;
        * the tuples are pairwise different, and so are the sums they stand for;
        * no more than :func:`hardmax.vertex_maximum` allows;
        * in general position Euler's identity: with r(S) the count of a subfamily S of heads and
          :math:`m(T) = \sum_{S \subseteq T} (-1)^{|T| - |S|} r(S)`, one has m(T) = 0 for \|T\| > d (biased),
          and
          :math:`m(T) = (-1)^{d+|T|}` for \|T\| >= d (linear);
        * Weibel's formula, which it implies: the count from the sums of at most d-1 heads (d when biased).

        Examples
        --------
        >>> import numpy as np
        >>> minkowski_vertices(np.random.default_rng(0).standard_normal((3, 7, 4))).verify().ok
        True
        """
        distinct = len(np.unique(self.choices, axis=0)) == self.count
        checks = {
            "witnesses": self._check_witnesses(),
            "distinct": "passed" if distinct else "failed: a tuple occurs twice",
            "maximum": self._check_maximum(),
        }
        return Verification(checks | self._check_identities())

    def _check_witnesses(self) -> str:
        families, domain = self.families, WholeSpace(self.d)
        shown = surely_inside(families, domain, self.choices, self.witnesses)
        for i in np.flatnonzero(~shown).tolist():
            point = self.exact_witnesses.get(i, self.witnesses[i])
            if not is_inside(families, domain, self.choices[i], point):
                return f"failed: the witness of row {i} does not win"
        return "passed"

    def _check_maximum(self) -> str:
        from hardmax.bounds import vertex_maximum

        sizes = [family.n_keys for family in self.families]
        most = vertex_maximum(sizes, self.heads, self.d, biased=self.biases is not None)
        return "passed" if self.count <= most else f"failed: {self.count} vertices, but {most} is the maximum"

    def _check_identities(self) -> dict[str, str]:
        names = ("euler", "weibel")
        if self.degenerate is not False:
            return dict.fromkeys(names, "skipped: the sets are not known to be in general position")
        biased = not all(family.linear for family in self.families)  # biases that are all zero are none
        threshold = self.d + 1 if biased else self.d
        # a head with one key has no walls and changes no count
        families = [family for family in self.families if len(np.unique(family.tie_group)) > 1]
        H = len(families)
        if threshold > H:
            return dict.fromkeys(names, f"skipped: it says something from {threshold} heads on")
        if 2**H > _SUBFAMILIES:
            return dict.fromkeys(names, f"skipped: 2^{H} subfamilies")
        subsets = [subset for size in range(H + 1) for subset in combinations(range(H), size)]
        counts = {subset: len(_enumerate([families[h] for h in subset]).choices) for subset in subsets[1:-1]}
        counts |= {(): 1, subsets[-1]: self.count}
        mixed = mixed_counts(counts)
        expected = {T: 0 if biased else (-1) ** (self.d + len(T)) for T in subsets if len(T) >= threshold}
        wrong = [T for T, value in expected.items() if mixed[T] != value]
        total = sum(expected.get(T, value) for T, value in mixed.items())
        return {
            "euler": "passed" if not wrong else f"failed: for the heads {wrong[0]}",
            "weibel": "passed" if total == self.count else f"failed: it gives {total}",
        }

    def _state(self) -> dict[str, Any]:
        rows = sorted(self.exact_witnesses)
        exact = [list(self.exact_witnesses[i]) for i in rows]
        return {**super()._state(), "exact_rows": rows, "exact_witnesses": exact}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        values = dict(state)
        exact = zip(values.pop("exact_rows"), values["exact_witnesses"], strict=True)
        values["exact_witnesses"] = {int(i): tuple(point) for i, point in exact}
        for name, ndim in (("point_sets", 2), ("biases", 1)):
            if values[name] is not None:
                values[name] = tuple(as_exact(array, name, ndim=ndim) for array in values[name])
        if "sets" in values:
            values["sets"] = tuple(values["sets"])
        found = cls(**values)
        found._check()
        return found

    def _check(self) -> None:
        """Refuse a file whose choices are not those of its heads."""
        check_shapes(
            vars(self), {"choices": "vertices heads", "vertices": "vertices d", "witnesses": "vertices d"}
        )
        heads = len(self.point_sets)
        sizes = [len(points.floats) for points in self.point_sets]
        if self.biases is not None and [len(b.floats) for b in self.biases] != sizes:
            raise DamagedFileError("its biases must be as many as its point_sets, but are not.")
        if self.choices.shape[1:] != (heads,) or any(p.shape[1] != self.d for p in self.point_sets):
            raise DamagedFileError("its choices must be those of its point_sets, but are not.")
        if self.sets is not None:
            for rows, size in zip(self.sets, sizes, strict=True):
                if rows.ndim != 2:
                    raise DamagedFileError("its sets must have one row per set, but do not.")
                check_range("sets", rows, 0, size)
            sizes = [len(rows) for rows in self.sets]
        for h, size in enumerate(sizes):
            check_range(f"choices of head {h}", self.choices[:, h], 0, size)
        check_finite("witnesses", self.witnesses)
        check_range("exact_rows", np.array([*self.exact_witnesses], dtype=np.int64), 0, max(self.count, 1))
        if any(len(point) != self.d for point in self.exact_witnesses.values()):
            raise DamagedFileError("its exact_witnesses must be points of the space, but are not.")

    def _summary(self) -> str:
        sizes = ", ".join(str(len(points.floats)) for points in self.point_sets)
        best = "" if self.sets is None else f", the {', '.join(str(s.shape[1]) for s in self.sets)} best win"
        what = "vertex" if self.count == 1 else "vertices"
        what = f"upper {what} of the lifted sum" if self.biases is not None else f"{what} of the sum"
        return f"{self.count} {what} of {self.heads} heads ({sizes} keys{best}) in R^{self.d}"

    def _table(self) -> dict[str, Any]:
        return {"choice": self.choices, "vertex": self.vertices, "witness": self.witnesses}


def minkowski_vertices(
    point_sets: Sequence[ArrayLike] | ArrayLike,
    biases: Sequence[ArrayLike] | ArrayLike | None = None,
    *,
    k: int | Sequence[int] = 1,
    time_limit: float | None = None,
    progress: bool | Callable[[Progress], object] | None = None,
) -> MinkowskiVertices:
    r"""All vertices of :math:`P_1 + \dots + P_H`, each with the keys that make it and a witness.

    .. math::

        \{(j_1, \dots, j_H) : \exists x\ \ a_{h j_h} \cdot x + b_{h j_h} > a_{hl} \cdot x + b_{hl}
        \ \ \forall h,\ l \ne j_h\}

    Parameters
    ----------
    point_sets : sequence of (N_h, d) arrays, or one (H, N, d) array
        The keys of each head. Sizes may differ. Floats, integers and ``Fraction`` are taken as the exact
        numbers they are.
    biases : sequence of (N_h,) arrays, optional
        Biases make the scores affine; then only upper vertices of the lifted sum count (cells with interior).
    k : int or sequence of int
        How many keys of a head win together, for all heads or one number per head. Head h then counts with
        the polytope of all sums of k of its keys, and a vertex names a set of keys per head
        (``winning_keys``). The sets that win are found first (:func:`hardmax.attention_diagram`), not all
        :math:`\binom{N}{k}`.
    time_limit : float, optional
        Seconds after which the search is given up.
    progress : bool or callable, optional
        ``True`` shows a bar, a function is called with a :class:`~hardmax.progress.Progress`.

    Raises
    ------
    IncompleteError
        When the time is over: the vertices of some heads are not among those of all.

    Returns
    -------
    MinkowskiVertices
        ``.count``, ``.choices``, ``.vertices``, ``.witnesses``, ``.verify()``.

    Notes
    -----
    Identical keys of one head win together and appear as one, under the lowest index. Nothing is perturbed:
    integer grids, collinear and lower-dimensional sets give their exact answer. The work grows with the
    number of vertices, not with
    :math:`\prod N_h`.

    Examples
    --------
    Two triangles in general position: a hexagon.

    >>> hexagon = minkowski_vertices([[[0, 0], [1, 0], [0, 1]], [[0, 0], [-1, 0], [0, -1]]])
    >>> hexagon
    <MinkowskiVertices: 6 vertices of the sum of 2 heads (3, 3 keys) in R^2>
    >>> hexagon.choices[0].tolist(), hexagon.vertices[0].tolist()
    ([0, 1], [-1.0, 0.0])

    The pairs of keys that two top-2 heads can read together:

    >>> pairs = minkowski_vertices([[[0, 0], [1, 0], [0, 1]], [[0, 0], [-1, 0], [0, -1]]], k=2)
    >>> pairs.count, pairs.winning_keys(0)[0].tolist(), pairs.winning_keys(1)[0].tolist()
    (6, [0, 1], [0, 2])
    """
    sets, values = as_heads(point_sets, biases)
    given = _families(sets, values)
    d = given[0].d
    if d > _HIGHEST:
        raise UnsupportedDimensionError(
            f"point_sets must have dimension at most {_HIGHEST}, but have {d}; "
            "project the keys to fewer coordinates first."
        )
    clock = Clock(time_limit, "find all vertices")
    orders = _orders(k, given)
    winners = None
    with shown(progress, Progress.line) as report:
        look = None if report is None and not clock.limited else _Look(given, clock, report)
        if orders is not None:
            seen = None if look is None else partial(look, None)
            winners = tuple(
                winning_sets(f, order, look=seen).sets for f, order in zip(given, orders, strict=True)
            )
        families = given if winners is None else _sums(given, winners)
        if look is not None:
            look.families = families
        found = _enumerate(families, _RAYS_UP_TO if winners is None else _RAYS_OF_SUMS_UP_TO, look)
    vertices = np.zeros((len(found.choices), d))
    with np.errstate(over="ignore"):
        for h, family in enumerate(families):
            vertices += family.slopes[found.choices[:, h]]
    if not np.isfinite(vertices).all():
        raise NotFiniteError(
            "the sums of point_sets must stay within float64, but a vertex overflows; rescale the keys."
        )
    return MinkowskiVertices(
        choices=found.choices,
        vertices=vertices,
        witnesses=found.witnesses,
        exact_witnesses=found.exact_witnesses,
        degenerate=found.degenerate,
        n_decided_exactly=found.n_decided_exactly,
        point_sets=tuple(family.source["keys"] for family in given),
        biases=None if values is None else tuple(family.source["biases"] for family in given),
        sets=winners,
    )


def mixed_counts(counts: Mapping[tuple[int, ...], int]) -> dict[tuple[int, ...], int]:
    r"""m(T) for every set T of heads, from the numbers of cells :math:`r(S) = \sum_{T \subseteq S} m(T)`.

    The keys are sorted tuples of heads; with a set all its subsets must be there.

    >>> mixed_counts({(): 1, (0,): 4, (1,): 4, (0, 1): 13})
    {(): 1, (0,): 3, (1,): 3, (0, 1): 6}
    """
    return {
        T: sum((-1) ** (len(T) - k) * counts[S] for k in range(len(T) + 1) for S in combinations(T, k))
        for T in counts
    }


def parabolic_heads(
    n_tokens: int, heads: int, d: int, *, biased: bool = False
) -> tuple[list[NDArray[Any]], list[NDArray[Any]] | None]:
    r"""Integer keys whose Minkowski sum attains :func:`hardmax.vertex_maximum`.

    Head h has the scores :math:`2 p\,(u_h \cdot x) - p^2` for N equally spaced integers :math:`p`, tangents
    of a parabola, so it cuts by N - 1 parallel hyperplanes orthogonal to :math:`u_h`. With biases the
    :math:`u_h` live in :math:`\mathbb{R}^d` and :math:`-p^2` is the bias; without, they live in
    :math:`\mathbb{R}^{d-1}` and :math:`-p^2` is the last coordinate of the key (P1 calls this parabolic
    lifting, Lemma F.1).

    The H families of hyperplanes meet in as many cells as they can: with k the dimension of the :math:`u_h`,
    :math:`u_h = (1, t_h, \dots, t_h^{k-1})` for distinct integers, spacing a prime :math:`q > H` and offset
    :math:`t_h^k \bmod q`, any k directions are independent, and any k + 1 of the vectors (direction, wall
    position) are independent modulo q, because they form a Vandermonde matrix; so no k + 1 hyperplanes have a
    common point.

    Returns
    -------
    point_sets : list of H integer arrays (N, d)
    biases : list of H integer arrays (N,), or None
        Arrays of Python integers where 64 bits are too few.

    Examples
    --------
    >>> sets, _ = parabolic_heads(6, 3, 3)
    >>> minkowski_vertices(sets).count
    92
    """
    from hardmax.bounds.large_integers import dimension, positive

    sizes = positive("n_tokens", n_tokens), positive("heads", heads), dimension("d", d)
    check_room("keys", *sizes, most=MOST_EXACT)
    check_room("keys, in words of 64 bits,", *sizes, 1 + d * heads.bit_length() // 64)
    k = d if biased else d - 1
    spacing = _odd_prime_above(heads)
    sets, biases = [], []
    for h in range(heads):
        t = (h + 1) // 2 * (1 if h % 2 else -1)
        positions = [spacing * (j - n_tokens // 2) + t**k % spacing for j in range(n_tokens)]
        rows = [[*(2 * p * t**i for i in range(k)), -p * p] for p in positions]
        sets.append(_integers([row[:k] for row in rows] if biased else rows))
        biases.append(_integers([row[k] for row in rows]))
    return sets, biases if biased else None


def _integers(values: list[Any]) -> NDArray[Any]:
    """Integers of 64 bits if all of them fit, else Python's."""
    exact = np.array(values, dtype=object)
    small = exact.size == 0 or max(abs(v) for v in exact.flat) < 2**63
    return exact.astype(np.int64) if small else exact


def _odd_prime_above(n: int) -> int:
    candidate = max(3, n + 1 + n % 2)
    while any(candidate % i == 0 for i in range(3, int(candidate**0.5) + 1, 2)):
        candidate += 2
    return candidate


class _Look:
    """Reports where a search is, and ends it when its time is over."""

    def __init__(
        self, families: list[Scores], clock: Clock, report: Callable[[Progress], object] | None
    ) -> None:
        self.families, self.clock, self.report = families, clock, report

    def __call__(self, share: float | None, n_cells: int) -> None:
        """What a search calls again and again."""
        if self.report is not None:
            self.report(Progress(n_cells, share, self.clock.seconds))
        if self.clock.over:
            from hardmax.bounds import vertex_maximum
            from hardmax.bounds.large_integers import readable

            sizes, biased = [f.n_keys for f in self.families], not all(f.linear for f in self.families)
            most = vertex_maximum(sizes, len(sizes), self.families[0].d, biased=biased)
            self.clock.check(
                f"{n_cells:,} cells of some heads, where all have at most {readable(most)} vertices; give "
                "more time, fewer keys or fewer heads"
            )


def _enumerate(
    families: list[Scores], rays_up_to: int = _RAYS_UP_TO, look: _Look | None = None
) -> Refinement | PrefixSearch:
    homogeneous = families[0].d + (not all(f.linear for f in families))
    return refine(families, look=look) if homogeneous <= rays_up_to else PrefixSearch(families, look)


def _sums(families: list[Scores], sets: Sequence[Integers]) -> list[Scores]:
    return [family.sums(members) for family, members in zip(families, sets, strict=True)]


def _orders(k: Any, families: list[Scores]) -> list[int] | None:
    """One k per head; ``None`` when every head has one winner."""
    H = len(families)
    given = [k] * H if np.ndim(k) == 0 else list(k)
    if len(given) != H:
        raise DimensionMismatchError(
            f"k must be one integer, or one for each of the {H} heads, but holds {len(given)}."
        )
    names = ["k"] * H if np.ndim(k) == 0 else [f"k[{h}]" for h in range(H)]
    orders = [checked_k(v, f.n_keys, name) for v, f, name in zip(given, families, names, strict=True)]
    return None if all(order == 1 for order in orders) else orders


def as_heads(point_sets: Any, biases: Any) -> tuple[list[Any], list[Any] | None]:
    """The arguments of :func:`minkowski_vertices` as lists, one entry per head."""
    sets = _sequence(point_sets, "point_sets")
    if not sets:
        raise InvalidInputError("point_sets must hold at least one head, but is empty.")
    if biases is None:
        return sets, None
    values = _sequence(biases, "biases")
    if len(values) != len(sets):
        raise DimensionMismatchError(
            f"biases must hold one array per head ({len(sets)}), but holds {len(values)}."
        )
    return sets, values


def _sequence(values: Any, name: str) -> list[Any]:
    if hasattr(values, "__array__"):
        array = np.asarray(values)
        if array.ndim == 0:
            raise InvalidInputError(
                f"{name} must be a sequence of arrays, one per head, but is a single number."
            )
        return list(array)
    try:
        return list(values)
    except TypeError:
        raise InvalidInputError(
            f"{name} must be a sequence of arrays, one per head, but is {type(values).__name__}."
        ) from None


def _families(sets: list[Any], biases: list[Any] | None) -> list[Scores]:
    families = [
        Scores.of_keys(points, None if biases is None else biases[h], name=f"point_sets[{h}]")
        for h, points in enumerate(sets)
    ]
    for h, family in enumerate(families):
        if family.d != families[0].d:
            raise DimensionMismatchError(
                f"all heads must live in one space, but point_sets[0] has dimension {families[0].d} "
                f"and point_sets[{h}] {family.d}."
            )
    return families


_WALLS_IN_MEMORY = 10**7  # entries; beyond, rows are formed again for every prefix


class PrefixSearch:
    """One search in the whole space; the answers are the attributes.

    Attributes
    ----------
    choices : (n, H) int64
        Winning tuples in lexicographic order, each key the lowest index of its group of identical scores.
    witnesses : (n, d) float64
    exact_witnesses : dict
        Rational witnesses of the rows whose float witness could not be shown to win.
    n_decided_exactly : int
        How many prefixes needed rational arithmetic.
    """

    def __init__(self, families: list[Scores], look: _Look | None = None) -> None:
        self.families, self._look = families, look
        self.domain = WholeSpace(families[0].d)
        linear = all(f.linear for f in families)
        self.frame = Frame(families[0].d, independent_columns(families, self.domain), linear)
        self.n_decided_exactly = 0
        heads = scaled_heads(families, self.domain, self.frame)
        self.heads = [self._winners(head) for head in heads]
        choices, points, exact = self._search(self.heads)
        self.degenerate: bool | None = True if self.n_decided_exactly else None
        self._finish(choices, points, exact)

    def _winners(self, head: Head) -> Head:
        """The head without the keys that have no cell of their own: they never win in a tuple either."""
        if head.n_keys <= 2:
            return head
        choices, _, _ = self._search([head])
        nobody = np.empty(0, dtype=np.int64)
        return head.restricted(np.sort(choices[:, 0]), nobody, nobody)

    def _search(self, heads: list[Head]) -> tuple[Integers, Floats, dict[tuple[int, ...], list[Fraction]]]:
        D, H = self.frame.D, len(heads)
        if D == 0:
            return np.zeros((1, H), dtype=np.int64), np.zeros((1, 0)), {}
        affine = not self.frame.linear
        points = np.concatenate([head.rows.points for head in heads])
        error = np.concatenate([head.rows.error for head in heads])
        key_start = np.concatenate([[0], np.cumsum([head.n_keys for head in heads])])
        row_start = np.concatenate([[0], np.cumsum([head.n_keys - 1 for head in heads])]) + int(affine)
        n_rows = int(row_start[-1])
        rows, row_error = np.zeros((max(n_rows, 1), D)), np.zeros(max(n_rows, 1))
        if affine:
            rows[0, -1] = 1.0
        walls, wall_start = _tabulated_walls(points, error, key_start)
        state = np.zeros(3, dtype=np.int64)
        next_key, choice = np.zeros(H + 1, dtype=np.int64), np.zeros(H, dtype=np.int64)
        sure, x = np.zeros(H + 1, dtype=np.bool_), np.zeros((H + 1, D))
        corral, weights = np.zeros((H + 1, D + 1), dtype=np.int64), np.zeros((H + 1, D + 1))
        sizes, values, work = np.zeros(H + 1, dtype=np.int64), np.empty(n_rows + 1), corral_workspace(D)
        out_choices, out_points = np.empty((1024, H), dtype=np.int64), np.empty((1024, D))
        parked = np.empty((256, H + 1), dtype=np.int64)
        found_choices: list[Integers] = []
        found_points: list[Floats] = []
        exact: dict[tuple[int, ...], list[Fraction]] = {}
        waiting: list[tuple[list[int], Floats]] = []
        x[0] = 0.7 + 0.3 * np.sin(2.4 * np.arange(D))
        lowest = 0
        while True:
            search_prefixes_kernel(
                points, error, key_start, row_start, walls, wall_start, lowest, state, next_key, sure, choice,
                x, corral, sizes, weights, rows, row_error, values, work, out_choices, out_points, parked,
            )  # fmt: skip
            if self._look is not None:
                self._look(None, sum(map(len, found_choices)))
            found_choices.append(out_choices[: state[1]].copy())
            found_points.append(out_points[: state[1]].copy())
            for node in parked[: state[2]]:
                prefix = node[: node[H]].tolist()
                answer = self._decide(heads, prefix)
                if answer.witness is None:
                    continue
                point = [fraction(v) for v in answer.witness]
                size = max(abs(v) for v in point)
                floats = np.array([float(v / size) for v in point])
                if len(prefix) == H:
                    exact[tuple(prefix)] = point
                    found_choices.append(np.array([prefix], dtype=np.int64))
                    found_points.append(floats[None, :])
                else:
                    waiting.append((prefix, floats))
            state[1:] = 0
            if state[0] >= lowest:
                continue
            if not waiting:
                break
            # go on below a prefix that the rationals have shown to be feasible
            prefix, floats = waiting.pop()
            lowest = len(prefix)
            for g, j in enumerate(prefix):
                choice[g] = j
                first, last = key_start[g], key_start[g + 1]
                fill_rows_kernel(points, error, first, last, first + j, rows, row_error, row_start[g])
            state[0], next_key[lowest], sure[lowest], sizes[lowest] = lowest, 0, False, 0
            x[lowest] = floats
        return np.concatenate(found_choices), np.concatenate(found_points), exact

    def _decide(self, heads: list[Head], prefix: list[int]) -> Separation:
        """One prefix, in rationals."""
        self.n_decided_exactly += 1
        rows: list[list[flint.fmpq]] = []
        if not self.frame.linear:
            rows.append([flint.fmpq(0)] * (self.frame.D - 1) + [flint.fmpq(1)])
        for head, j in zip(heads, prefix, strict=False):
            own = head.exact(j)
            others = [head.exact(l) for l in range(head.n_keys) if l != j]
            rows += [[a - b for a, b in zip(own, other, strict=True)] for other in others]
        if not rows:
            return Separation(tuple(flint.fmpq(1) for _ in range(self.frame.D)))

        def not_positive(y: list[flint.fmpz]) -> list[int]:
            point = [flint.fmpq(v) for v in y]
            values = [dot(row, point) for row in rows]
            worst = min(range(len(rows)), key=lambda i: values[i])
            return [worst] if values[worst] <= 0 else []

        return separate_exactly(rows.__getitem__, [0], not_positive)

    def _finish(
        self, choices: Integers, points: Floats, exact: dict[tuple[int, ...], list[Fraction]]
    ) -> None:
        users = np.column_stack([head.index[choices[:, h]] for h, head in enumerate(self.heads)])
        order = np.lexsort(users.T[::-1])
        witnesses = self.frame.to_space(points) if self.frame.D else np.zeros((len(users), self.frame.d))
        shown = surely_inside(self.families, self.domain, users, witnesses)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self.exact_witnesses: dict[int, tuple[Fraction, ...]] = {}
        for i in np.flatnonzero(~shown).tolist():
            if is_inside(self.families, self.domain, users[i], witnesses[i]):
                continue
            prefix = choices[i].tolist()
            y = exact.get(tuple(prefix))
            if y is None:
                witness = self._decide(self.heads, prefix).witness
                y = [fraction(v) for v in witness or ()]
            x = self.frame.to_space_exactly(y)
            witnesses[i] = [nearest_float(v) for v in x]
            if not is_inside(self.families, self.domain, users[i], witnesses[i]):
                self.exact_witnesses[int(rank[i])] = tuple(x)
        self.choices = np.ascontiguousarray(users[order])
        self.witnesses = np.ascontiguousarray(witnesses[order])


def _tabulated_walls(points: Floats, error: Floats, key_start: Integers) -> tuple[Floats, Integers]:
    """The walls of all pairs of keys within each head, or nothing when they are too many."""
    sizes = np.diff(key_start)
    wall_start = np.concatenate([[0], np.cumsum(sizes * (sizes - 1))])
    width = points.shape[1] + 1
    walls = np.empty((int(wall_start[-1]) if wall_start[-1] * width <= _WALLS_IN_MEMORY else 0, width))
    if len(walls):
        tabulate_walls_kernel(points, error, key_start, walls)
    return walls, wall_start
