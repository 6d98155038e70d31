r"""Where a sign is decided when floats cannot tell: one ladder for every engine of regions.

1. *Floats.* A kernel computes the value of a row at a point and a proven bound on its error:
   ``threshold`` of the engine, from the bounds of :func:`~hardmax.regions.engine.layer_kernels.enter`. A
   value beyond its bound has a certain sign. A value within it is undecided, and the kernel stops and
   asks.
2. *Double-double.* The same rows with thirty digits, and a proven bound again
   (:mod:`hardmax.regions.plane.double_double` in the plane,
   :mod:`hardmax.regions.segment.undecided` on the line).
3. *Rationals.* The rows as integers (:class:`~hardmax.regions.maps.exact_maps.ExactMaps`): the last word.
   What arrives here is almost always exactly zero.

ReLU units in the plane and everything on the line have the second rung; heads in the plane, space and the
search go from floats to rationals. The first rung is compiled into the kernels. The others are functions
of an engine; :class:`Ladder` calls them in order and counts what each of them decides. In exact arithmetic
floats decide nothing and double-double is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Ladder:
    """The rungs behind floats, and how many questions each of them has decided.

    Parameters
    ----------
    pairs : bool
        Whether double-double is tried.

    Examples
    --------
    >>> ladder = Ladder(pairs=True)
    >>> ladder.decide(lambda x: 0, lambda x: 1 if x > 1e-30 else None, 1e-20)
    1
    >>> ladder.decide(lambda x: 0, lambda x: 1 if x > 1e-30 else None, 0.0)
    0
    >>> ladder.n_double_double, ladder.n_rational
    (1, 1)
    """

    def __init__(self, *, pairs: bool) -> None:
        self.pairs = pairs
        self.n_double_double = 0
        self.n_rational = 0

    def decide(
        self, in_rationals: Callable[..., Any], in_pairs: Callable[..., Any] | None = None, *question: Any
    ) -> Any:
        """The answer of the first rung that has one; ``None`` means that the question stays open."""
        if self.pairs and in_pairs is not None:
            answer = in_pairs(*question)
            if answer is not None:
                self.n_double_double += 1
                return answer
        self.n_rational += 1
        return in_rationals(*question)
