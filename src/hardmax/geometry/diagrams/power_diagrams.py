r"""Power diagrams: how zero-temperature attention cuts the space of queries (P1 section IV).

The power diagram of sites :math:`c_j` with weights :math:`w_j` gives each point to the site of least power
:math:`|x - c_j|^2 - w_j`. Dropping :math:`|x|^2`, that is the largest affine score :math:`a_j \cdot x + b_j`
with :math:`a_j = c_j` and :math:`b_j = (w_j - |c_j|^2)/2`. Hence Theorem IV.3: keys :math:`k_j` without
biases are the power diagram with sites :math:`k_j` and weights :math:`|k_j|^2`; with biases, weights
:math:`|k_j|^2 + 2 b_j`, so every power diagram is one of attention. Keys of equal norm give the Voronoi
diagram (Remark IV.6).

Slopes and offsets are the primary data here, because rounding :math:`|k_j|^2` would move the walls. Unbiased
cells are cones through the origin and never empty as sets; the question is whether they have *interior*, that
is whether key j is a vertex of the hull of all keys. The caption of P1 figure 3 blames small weights for
vanishing cells; that is not the criterion (see ``docs/power-diagrams.md``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import BiasedDiagramError, DamagedFileError, InvalidInputError
from hardmax.exact.rationals import ExactArray
from hardmax.fields import check_finite, check_object, check_offsets, check_range
from hardmax.geometry.diagrams.interiors import (
    EmptinessCertificate,
    Interiors,
    decide_interiors,
    find_support,
)
from hardmax.geometry.diagrams.key_diagrams import KeyDiagram, scores_of_source
from hardmax.geometry.diagrams.location import Locator
from hardmax.geometry.diagrams.max_margins import MaxMargin, max_margins
from hardmax.geometry.diagrams.order_k_diagrams import OrderKDiagram, checked_k
from hardmax.geometry.diagrams.voronoi_views import VoronoiView, voronoi_view
from hardmax.geometry.scores import Scores
from hardmax.limits import Clock, heard, look
from hardmax.progress import shown

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MANY_SCORES = 1 << 28  # beyond this many pairs of point and key, finding the winning keys first pays off


@dataclass(frozen=True, eq=False, repr=False)
class PowerDiagram(KeyDiagram):
    r"""The cells of the keys of one head: :math:`C_j = \{x : a_j \cdot x + b_j \ge a_l \cdot x + b_l \
    \forall l\}`.

    Made by :func:`power_diagram` and :func:`attention_diagram`. Everything is computed when first asked for,
    and kept.

    Attributes
    ----------
    slopes : (N, d) float64
        :math:`a_j`: the keys, or the keys seen through the query map.
    offsets : (N,) float64
        :math:`b_j`.
    n_keys, d : int
    biased : bool
        Whether some offset is not exactly zero.
    nonempty : (N,) bool
        Whether the cell has interior; true for every member of a tie group that wins together.
    witnesses : (N, d) float64
        A point inside each cell (a direction when unbiased), NaN for cells without interior.
    exact_witnesses : dict
        Key -> rational point, for the cells so thin that no float64 witness was found inside.

    Examples
    --------
    >>> import hardmax as hm
    >>> diagram = hm.attention_diagram([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0], [0.2, 0.1]])
    >>> diagram.nonempty
    array([ True,  True,  True, False])
    >>> diagram
    <PowerDiagram: 4 keys in 2-d, unbiased, 3 cells with interior>
    >>> diagram.locate([[1.0, 0.0], [-1.0, 1.0]])
    array([0, 1])
    """

    kind: ClassVar[str] = "PowerDiagram"

    @property
    def _cell_scores(self) -> Scores:
        return self.scores

    # Which cells have interior
    # ------------------------------------------------------------------------------------------------------

    def find(
        self, *, time_limit: float | None = None, progress: bool | Callable[[float], object] | None = None
    ) -> Self:
        """Find the cells with interior now, instead of when they are first asked for; returns the diagram.

        Parameters
        ----------
        time_limit : float, optional
            Seconds after which the search is given up.
        progress : bool or callable, optional
            ``True`` shows a line; a function is called with the seconds since it began.

        Raises
        ------
        IncompleteError
            When the time is over.

        Examples
        --------
        >>> import hardmax as hm
        >>> int(hm.attention_diagram([[1, 0], [0, 1], [0, 0]]).find(time_limit=60).nonempty.sum())
        3
        """
        clock = Clock(time_limit, "find all cells with interior")

        def line(seconds: float) -> tuple[float | None, str]:
            return None, f"{seconds:.0f} s for {self.n_keys:,} keys"

        with shown(progress, line, clock) as report:
            if "_interiors" not in self.__dict__:
                seen = None if report is None else lambda: report(clock.seconds)
                self.__dict__["_interiors"] = self._decided(seen)
        return self

    @cached_property
    def _interiors(self) -> Interiors:
        return self._decided(look if heard() else None)

    def _decided(self, seen: Callable[[], object] | None) -> Interiors:
        found = decide_interiors(self.scores, look=seen)
        found.nonempty.setflags(write=False)
        found.witnesses.setflags(write=False)
        return found

    @property
    def nonempty(self) -> NDArray[np.bool_]:
        """Which cells have interior; certified for every key."""
        return self._interiors.nonempty

    @property
    def witnesses(self) -> Floats:
        """A point inside each cell with interior, NaN elsewhere."""
        return self._interiors.witnesses

    @property
    def exact_witnesses(self) -> dict[int, tuple[Fraction, ...]]:
        """Rational witnesses of the cells that hold none of the float ones."""
        return self._interiors.exact_witnesses

    def empty_certificate(self, j: int) -> EmptinessCertificate:
        r"""Why the cell of key ``j`` has no interior: a convex combination of at most d + 1 other keys.

        Parameters
        ----------
        j : int
            A key with ``nonempty[j]`` false.

        Raises
        ------
        InvalidInputError
            When the cell has interior, or there is no such key.

        Examples
        --------
        >>> import hardmax as hm
        >>> hm.power_diagram([[0], [1], [2]], [4, 0, 4]).empty_certificate(1).weights
        (Fraction(1, 2), Fraction(1, 2))
        """
        if not -self.n_keys <= j < self.n_keys:
            raise InvalidInputError(f"j must be a key from 0 to {self.n_keys - 1}, but was {j}.")
        key = int(j) % self.n_keys
        if self.nonempty[key]:
            raise InvalidInputError(
                f"j must be a key whose cell has no interior, but key {key} wins on an open set, "
                f"for example at witnesses[{key}]."
            )
        kept = self._certificates
        if key not in kept:
            found = self._interiors.support(key) or find_support(self.scores, key, self.nonempty)
            kept[key] = EmptinessCertificate(key, self.scores, found)
        return kept[key]

    @cached_property
    def _certificates(self) -> dict[int, EmptinessCertificate]:
        return {}

    # Where points are
    # ------------------------------------------------------------------------------------------------------

    def locate(self, points: ArrayLike, *, certified: bool = True) -> Integers:
        """The key whose cell holds each point, the lowest index among exact ties.

        Parameters
        ----------
        points : (M, d) array_like
            Millions are fine: scores are computed block by block.
        certified : bool
            Whether points within rounding of a wall are decided exactly; otherwise the larger float score
            wins there.

        Returns
        -------
        (M,) int64

        Examples
        --------
        >>> import hardmax as hm
        >>> hm.power_diagram([[0.0, 0.0], [2.0, 0.0]]).locate([[0.5, 7.0], [1.0, 0.0], [1.5, 0.0]])
        array([0, 0, 1])
        """
        x = self._points(points)
        many = self.n_keys > 1000 and x.shape[0] * self.n_keys > _MANY_SCORES
        if many and self.d <= 3 and not self._locator.prefers_tree:
            return self._locate_among_winners(x, certified)
        return self._locator.locate(x, certified=certified)

    def _locate_among_winners(self, x: ExactArray | Floats, certified: bool) -> Integers:
        """Hold points against the keys with interior only, and against all keys where two of these may tie.

        Away from the walls the best key has interior: a key without it lies below a combination of at least
        two others, so that it can tie with the best only where these tie.
        """
        floats = x.floats if isinstance(x, ExactArray) else x
        winner, still_open = self._winner_locator.likely_winner(floats)
        keys = self._winner_locator.index[winner]
        if certified and still_open.any():
            rows = np.flatnonzero(still_open)
            keys[rows] = self._locator.locate(x.take(rows) if isinstance(x, ExactArray) else x[rows])
        return keys

    @cached_property
    def _locator(self) -> Locator:
        return Locator(self.scores)

    @cached_property
    def _winner_locator(self) -> Locator:
        return Locator(self.scores, np.unique(self.tie_group[self.nonempty]))

    # How clearly a key can win
    # ------------------------------------------------------------------------------------------------------

    def max_margin(self) -> MaxMargin:
        r"""The largest margin that a query of norm at most 1 can give each key (unbiased diagrams only).

        .. math:: \operatorname{margin}_j = \max_{|q| \le 1} \min_{l \ne j} (a_j - a_l) \cdot q
           = \operatorname{dist}(a_j, \operatorname{conv}\{a_l : l \ne j\})

        With a query map, q is the input of the map.

        Raises
        ------
        BiasedDiagramError
            With biases the margin is not homogeneous in the query, and the largest one may be attained inside
            the ball.

        Examples
        --------
        >>> import hardmax as hm
        >>> diagram = hm.attention_diagram([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [1.0, 1.0]])
        >>> diagram.max_margin().values.round(6)
        array([1.414214, 3.162278, 3.162278, 0.      ])
        """
        if self.biased:
            raise BiasedDiagramError(
                "max_margin needs unbiased keys, but some offset of this diagram is not zero; "
                "drop the biases, or use attention_diagram(keys) for the keys alone."
            )
        return self._reach

    @cached_property
    def _reach(self) -> MaxMargin:
        return max_margins(self.scores, self.nonempty, self.witnesses)

    # In the form of SciPy
    # ------------------------------------------------------------------------------------------------------

    def as_voronoi(self) -> VoronoiView:
        """The diagram with the attributes of ``scipy.spatial.Voronoi``, for code written for that class.

        In at most four dimensions. Regions are those of cells with interior; a site without one has region
        -1.

        Examples
        --------
        >>> import hardmax as hm
        >>> view = hm.power_diagram([[0, 0], [2, 0], [0, 2], [2, 2]]).as_voronoi()
        >>> view.vertices.tolist(), view.ridge_points.tolist()
        ([[1.0, 1.0]], [[0, 1], [0, 2], [1, 3], [2, 3]])
        >>> view.regions, view.ridge_vertices
        ([[-1, 0], [-1, 0], [-1, 0], [-1, 0]], [[-1, 0], [-1, 0], [-1, 0], [-1, 0]])
        """
        return voronoi_view(self, self._cells)

    # As a result
    # ------------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        found = self._interiors
        return {
            "source": self._source(),
            **vars(found),
            "exact_witnesses": {str(j): list(point) for j, point in found.exact_witnesses.items()},
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        state = dict(state)
        scores = scores_of_source(state.pop("source"))
        exact = {int(j): tuple(point) for j, point in state["exact_witnesses"].items()}
        found = Interiors(**{**state, "exact_witnesses": exact})
        shapes = (found.nonempty.shape, found.witnesses.shape, found.support_start.shape)
        if shapes != ((scores.n_keys,), scores.slopes.shape, (scores.n_keys + 1,)):
            raise DamagedFileError("its answer must be that of its keys, but has another shape.")
        check_object(found)
        check_offsets("support_start", found.support_start, len(found.support_keys))
        check_range("support_keys", found.support_keys, 0, scores.n_keys + 1)
        check_range("exact_witnesses", np.array([*exact], dtype=np.int64), 0, scores.n_keys)
        check_finite("witnesses", found.witnesses[found.nonempty])
        diagram = cls(scores)
        diagram.__dict__["_interiors"] = found
        return diagram

    def _summary(self) -> str:
        text = f"{self.n_keys} keys in {self.d}-d, {'biased' if self.biased else 'unbiased'}"
        if "_interiors" in self.__dict__:  # a repr starts no computation
            text += f", {int(self.nonempty.sum())} cells with interior"
        return text

    def _table(self) -> dict[str, NDArray[Any]]:
        return {"nonempty": self.nonempty, "tie_group": self.tie_group, "witness": self.witnesses}


@overload
def power_diagram(
    sites: ArrayLike, weights: ArrayLike | None = None, *, k: Literal[1] = 1
) -> PowerDiagram: ...
@overload
def power_diagram(
    sites: ArrayLike, weights: ArrayLike | None = None, *, k: int
) -> PowerDiagram | OrderKDiagram: ...
def power_diagram(
    sites: ArrayLike, weights: ArrayLike | None = None, *, k: int = 1
) -> PowerDiagram | OrderKDiagram:
    r"""The power diagram of sites and weights: cells of least :math:`|x - c_j|^2 - w_j`.

    Parameters
    ----------
    sites : (N, d) array_like
        Any dimension; floats are taken as the dyadic rationals they are, ``Fraction`` entries are kept
        exactly.
    weights : (N,) array_like, optional
        Zero by default, which gives the Voronoi diagram.
    k : int
        How many sites win together; from 2 on the result is an :class:`hardmax.geometry.OrderKDiagram`, whose
        cells belong to sets of k sites.

    Notes
    -----
    Nothing is computed before it is asked for. With k = 1 the work is known beforehand: at most one linear
    program per site. With k from 2 on it grows with the sets that win (at most
    :func:`hardmax.bounds.order_k_bounds`); ``find(time_limit=...)`` of the result limits it.

    Examples
    --------
    A site of small weight inside the hull of the others loses its cell; Voronoi cells are never lost.

    >>> import hardmax as hm
    >>> sites = [[0, 0], [2, 0], [0, 2], [2, 2], [1, 1]]
    >>> hm.power_diagram(sites).nonempty
    array([ True,  True,  True,  True,  True])
    >>> hm.power_diagram(sites, [0, 0, 0, 0, -2]).nonempty
    array([ True,  True,  True,  True, False])

    The pairs of nearest sites; opposite corners are never the two nearest.

    >>> hm.power_diagram(sites, k=2).sets.tolist()
    [[0, 1], [0, 2], [0, 4], [1, 3], [1, 4], [2, 3], [2, 4], [3, 4]]
    """
    return _of_order(Scores.of_sites(sites, weights), k)


@overload
def attention_diagram(
    keys: ArrayLike,
    biases: ArrayLike | None = None,
    *,
    k: Literal[1] = 1,
    query_map: tuple[ArrayLike, ArrayLike | None] | None = None,
) -> PowerDiagram: ...
@overload
def attention_diagram(
    keys: ArrayLike,
    biases: ArrayLike | None = None,
    *,
    k: int,
    query_map: tuple[ArrayLike, ArrayLike | None] | None = None,
) -> PowerDiagram | OrderKDiagram: ...
def attention_diagram(
    keys: ArrayLike,
    biases: ArrayLike | None = None,
    *,
    k: int = 1,
    query_map: tuple[ArrayLike, ArrayLike | None] | None = None,
) -> PowerDiagram | OrderKDiagram:
    r"""How a head at temperature zero routes: cells of the largest score :math:`k_j \cdot (W_Q x + b_Q) +
    b_j`.

    Parameters
    ----------
    keys : (N, d_head) array_like
    biases : (N,) array_like, optional
        Score biases :math:`b_j`; zero by default.
    k : int
        How many keys win together (a top-k head); from 2 on the result is an
        :class:`hardmax.geometry.OrderKDiagram`, whose cells belong to sets of k keys.
    query_map : (W_Q, b_Q), optional
        ``W_Q`` (d_head, d) and ``b_Q`` (d_head,) or ``None``: the diagram in the space of inputs (Remark
        IV.5). The factors are kept, so that a rank-deficient ``W_Q`` is rank-deficient exactly.

    Notes
    -----
    Nothing is computed before it is asked for. With k = 1 the work is known beforehand: at most one linear
    program per key. With k from 2 on it grows with the sets that win (at most
    :func:`hardmax.bounds.order_k_bounds`); ``find(time_limit=...)`` of the result limits it.

    Examples
    --------
    The smallest key can have a cell with interior, and the criterion is the hull (P1 figure 3 says
    otherwise):

    >>> import hardmax as hm
    >>> hm.attention_diagram([[0.1, 0.0], [-5.0, 1.0], [-5.0, -1.0]]).nonempty
    array([ True,  True,  True])

    Which pairs of keys a top-2 head can read:

    >>> hm.attention_diagram([[1, 0], [0, 1], [-1, 0], [0, -1]], k=2).sets.tolist()
    [[0, 1], [0, 3], [1, 2], [2, 3]]
    """
    return _of_order(Scores.of_keys(keys, biases, query_map), k)


def _of_order(scores: Scores, k: int) -> PowerDiagram | OrderKDiagram:
    k = checked_k(k, scores.n_keys)
    return PowerDiagram(scores) if k == 1 else OrderKDiagram(scores, k)
