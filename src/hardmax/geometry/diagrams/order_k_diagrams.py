r"""Order-k diagrams: how a head that reads its k best keys cuts the space of queries.

A top-k head gives a query to the set of the k keys with the largest scores. The cells are those of the power
diagram of all sums of k keys (order-k power diagrams, of sites without weights order-k Voronoi diagrams);
only the sets that win are found (:mod:`hardmax.geometry.diagrams.order_k`). The result keeps each with its
witness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import index
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DamagedFileError, InvalidInputError, UnsupportedDimensionError, written
from hardmax.fields import check_finite, check_object, check_range, check_shapes
from hardmax.geometry.diagrams.key_diagrams import KeyDiagram, scores_of_source
from hardmax.geometry.diagrams.order_k import WinningSets, winning_sets
from hardmax.geometry.diagrams.set_location import locate_sets
from hardmax.geometry.scores import Scores
from hardmax.limits import Clock
from hardmax.progress import shown

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def _line(n: int) -> tuple[float | None, str]:
    """What is shown of a search: sets, or where a walk finds them the pieces of their cells."""
    return None, f"{n:,} found"


@dataclass(frozen=True, eq=False, repr=False)
class OrderKDiagram(KeyDiagram):
    r"""The cells of the sets of k keys of one head.

    .. math:: C_S = \{x : s_i(x) \ge s_l(x) \ \forall i \in S,\ l \notin S\}

    Made by :func:`hardmax.attention_diagram` and :func:`hardmax.power_diagram` for k of at least 2.
    Everything is computed when first asked for, and kept. Keys with identical scores are ordered by index:
    the lowest indices are in the set.

    Attributes
    ----------
    k : int
        How many keys win together.
    n_cells : int
    sets : (n_cells, k) int64
        The sets of keys that win on an open set, members in increasing order, rows in lexicographic order.
    witnesses : (n_cells, d) float64
        A point inside each cell (a direction when unbiased).
    exact_witnesses : dict
        Row -> rational point, for the cells so thin that no float64 witness was found inside.
    reachable : (N,) bool
        Whether a key is ever among the k best on an open set.
    slopes, offsets, n_keys, d, biased, tie_group, sites, weights
        As in :class:`hardmax.geometry.PowerDiagram`.

    Examples
    --------
    >>> import hardmax as hm
    >>> diagram = hm.attention_diagram([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0], [0.2, 0.1]], k=2)
    >>> diagram.sets.tolist()
    [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    >>> diagram
    <OrderKDiagram: 4 keys in 2-d, unbiased, the 2 best win, 6 cells>
    >>> diagram.locate([[1.0, 0.0], [-1.0, 0.0]])
    array([[0, 3],
           [1, 2]])
    """

    kind: ClassVar[str] = "OrderKDiagram"

    k: int

    @cached_property
    def _winning(self) -> WinningSets:
        return self._found(None)

    def _found(self, look: Callable[[int], object] | None) -> WinningSets:
        found = winning_sets(self.scores, self.k, look=look)
        for array in (found.sets, found.witnesses):
            array.setflags(write=False)
        return found

    def find(
        self, *, time_limit: float | None = None, progress: bool | Callable[[int], object] | None = None
    ) -> Self:
        """Find the sets that win now, instead of when they are first asked for; returns the diagram.

        Parameters
        ----------
        time_limit : float, optional
            Seconds after which the search is given up.
        progress : bool or callable, optional
            ``True`` shows a line; a function is called with the number of sets (or parts of their cells)
            found so far.

        Raises
        ------
        IncompleteError
            When the time is over.

        Examples
        --------
        >>> import hardmax as hm
        >>> hm.attention_diagram([[1, 0], [0, 1], [-1, 0], [0, -1]], k=2).find(time_limit=60).n_cells
        4
        """
        clock = Clock(time_limit, "find all sets that win")
        with shown(progress, _line, clock) as look:
            if "_winning" not in self.__dict__:
                self.__dict__["_winning"] = self._found(look)
        return self

    @property
    def sets(self) -> Integers:
        """The sets of keys that win on an open set; the list is complete."""
        return self._winning.sets

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self.sets)

    @property
    def witnesses(self) -> Floats:
        """A point inside each cell."""
        return self._winning.witnesses

    @property
    def exact_witnesses(self) -> dict[int, tuple[Fraction, ...]]:
        """Rational witnesses of the cells that do not hold the float one."""
        return self._winning.exact_witnesses

    @property
    def n_decided_exactly(self) -> int:
        """How many decisions needed rational arithmetic."""
        return self._winning.n_decided_exactly

    @property
    def reachable(self) -> NDArray[np.bool_]:
        """Which keys are among the k best on an open set."""
        out = np.zeros(self.n_keys, dtype=np.bool_)
        out[self.sets] = True
        return out

    @cached_property
    def set_scores(self) -> Scores:
        """One score per row of ``sets``, the sum of its members' scores: their argmax is this diagram."""
        return self.scores.sums(self.sets)

    @property
    def _cell_scores(self) -> Scores:
        return self.set_scores

    def locate(self, points: ArrayLike) -> Integers:
        """The k best keys at each point, in increasing order; exact ties go to the lower index.

        Parameters
        ----------
        points : (M, d) array_like

        Returns
        -------
        (M, k) int64

        Examples
        --------
        >>> import hardmax as hm
        >>> hm.power_diagram([[0.0], [1.0], [3.0]], k=2).locate([[-5.0], [1.5], [2.0]]).tolist()
        [[0, 1], [0, 1], [1, 2]]
        """
        return locate_sets(self.scores, self.k, self._points(points))

    def adjacency(self) -> Integers:
        """Pairs of rows of ``sets`` whose cells meet in dimension d - 1.

        Examples
        --------
        >>> import hardmax as hm
        >>> diagram = hm.power_diagram([[0.0], [1.0], [3.0], [7.0]], k=2)
        >>> diagram.sets.tolist(), diagram.adjacency().tolist()
        ([[0, 1], [1, 2], [2, 3]], [[0, 1], [1, 2]])
        """
        found = self._winning.adjacency
        if found is None:
            raise UnsupportedDimensionError(
                f"adjacency is known up to dimension 4, but this diagram has dimension {self.d}; sets, "
                "witnesses and locate work in any dimension."
            )
        return found

    def _state(self) -> dict[str, Any]:
        found = self._winning
        exact = {str(i): list(point) for i, point in found.exact_witnesses.items()}
        return {"source": self._source(), "k": self.k, **vars(found), "exact_witnesses": exact}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        state = dict(state)
        scores, k = scores_of_source(state.pop("source")), int(state.pop("k"))
        exact = {int(i): tuple(point) for i, point in state["exact_witnesses"].items()}
        found = WinningSets(**{**state, "exact_witnesses": exact})
        n = len(found.sets)
        fits = (found.sets.shape, found.witnesses.shape) == ((n, k), (n, scores.d))
        if not fits:
            raise DamagedFileError("its sets must be those of its keys, but have another shape.")
        check_object(found)
        check_range("sets", found.sets, 0, scores.n_keys)
        check_finite("witnesses", found.witnesses)
        check_range("exact_witnesses", np.array([*exact], dtype=np.int64), 0, n)
        if found.adjacency is not None:
            check_shapes({"adjacency": found.adjacency}, {"adjacency": "pairs 2"})
            check_range("adjacency", found.adjacency, 0, n)
        diagram = cls(scores, k)
        diagram.__dict__["_winning"] = found
        return diagram

    def _summary(self) -> str:
        text = f"{self.n_keys} keys in {self.d}-d, {'biased' if self.biased else 'unbiased'}"
        text += f", the {self.k} best win"
        if "_winning" in self.__dict__:  # a repr starts no computation
            text += f", {self.n_cells} cells"
        return text

    def _table(self) -> dict[str, NDArray[Any]]:
        return {"key": self.sets, "witness": self.witnesses}


def checked_k(k: Any, n_keys: int, name: str = "k") -> int:
    """``k`` as an integer from 1 to the number of keys, or the sentence that says what is wrong.

    >>> checked_k(2, 5)
    2
    """
    try:
        number = index(k)
    except TypeError:
        number = 0
    if isinstance(k, (bool, np.bool_)) or number < 1:
        raise InvalidInputError(f"{name} must be an integer of at least 1, but was {written(k)}.")
    if number > n_keys:
        keys = "1 key" if n_keys == 1 else f"{n_keys} keys"
        raise InvalidInputError(
            f"{name} must be at most the number of keys, but was {written(number)} for {keys}."
        )
    return number
