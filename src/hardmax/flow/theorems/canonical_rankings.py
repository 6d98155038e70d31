"""Do D terms need D heads in the first layer? Decided for large alphabets by a finite set of rules.

:mod:`hardmax.flow.theorems.pair_search` asks about one alphabet at a time. Here the alphabet may be as large
as one likes. Its letters are ordered, and every pair of letters has at most one *colour* 1, ..., D: the value
of a pair for term i is high if the pair has colour i, else low. If an input holds exactly one pair of colour
i, that pair wins term i, and one token must hold both of its letters.

By the Ramsey theorem for ordered graphs with coloured edges, a large enough alphabet contains every given one
in such a way that all rankings are *canonical* on it: whether a query u ranks s above t depends on nothing
but the order of the letters u, s, t and the colours of their three pairs. There are finitely many canonical
rules. What they must satisfy is a formula of propositional logic, and if it cannot be satisfied, no score
functions exist, whatever their form (docs/theorems-extremal.md, Theorem 12).

A refutation is a list of clauses, each of which follows from the ones before by unit propagation, the last
one empty. :func:`refuted` checks it with plain loops; no solver is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError

Clause = tuple[int, ...]


@dataclass(frozen=True)
class ColouredInput:
    """T letters in their order, the colours of their pairs, and the pair that must be held.

    Attributes
    ----------
    pair : tuple of int
        The two places of the only pair of its colour.
    colours : tuple of int
        The colours of the pairs (0, 1), (0, 2), ..., (T-2, T-1); 0 is no colour.
    """

    pair: tuple[int, int]
    colours: tuple[int, ...]

    @property
    def n_tokens(self) -> int:
        """T, from the number of pairs.

        >>> ColouredInput((0, 1), (1, 0, 0)).n_tokens
        3
        """
        return (1 + isqrt(1 + 8 * len(self.colours))) // 2

    def table(self) -> dict[tuple[int, int], int]:
        """The colour of every pair of places, in both orders."""
        places = combinations(range(self.n_tokens), 2)
        return {key: c for (a, b), c in zip(places, self.colours, strict=True) for key in ((a, b), (b, a))}

    def defect(self, n_terms: int) -> str:
        """Why this input demands nothing, or an empty string.

        >>> ColouredInput((0, 1), (1, 1, 0)).defect(2)
        'colour 1 occurs 2 times'
        """
        if len(self.colours) != self.n_tokens * (self.n_tokens - 1) // 2:
            return f"{len(self.colours)} colours are not those of all pairs of some letters"
        if any(c not in range(n_terms + 1) for c in self.colours):
            return f"colours must be in range({n_terms + 1})"
        if self.pair not in combinations(range(self.n_tokens), 2):
            return f"{self.pair} is no pair of places"
        colour = self.table()[self.pair]
        if colour == 0:
            return "the pair has no colour"
        times = self.colours.count(colour)
        return "" if times == 1 else f"colour {colour} occurs {times} times"


class CanonicalRules:
    """The formula that canonical rankings must satisfy.

    A variable says that head g of query u ranks s above t, where s precedes t; it depends on the place of u
    (before, between, after) and on the colours of us, ut and st.

    Examples
    --------
    Two terms, one head, three tokens: a demand that can be met.

    >>> rules = CanonicalRules(n_terms=2, heads=1)
    >>> rules.demand(ColouredInput((0, 1), (1, 2, 0)))
    >>> len(rules.clauses), rules.n_variables
    (4827, 83)
    """

    def __init__(self, n_terms: int, heads: int) -> None:
        self.n_terms, self.heads = n_terms, heads
        kinds = product(range(heads), range(3), *[range(n_terms + 1)] * 3)
        self.variables = {kind: number for number, kind in enumerate(kinds, start=1)}
        self.n_variables = len(self.variables)
        self.clauses: list[Clause] = sorted(set(self._transitive()))

    def demand(self, coloured: ColouredInput) -> None:
        """Add the clauses which say that one token holds the pair of an input."""
        defect = coloured.defect(self.n_terms)
        if defect:
            raise InvalidInputError(f"coloured must hold one pair of its colour, but {defect}.")
        (p, q), heads, ways = coloured.pair, range(self.heads), []
        for g in heads:
            ways += [self._picks(coloured, p, g, q), self._picks(coloured, q, g, p)]
        for u in range(coloured.n_tokens):
            if u not in coloured.pair and self.heads > 1:
                first = [self._picks(coloured, u, g, p) for g in heads]
                second = [self._picks(coloured, u, g, q) for g in heads]
                ways += [self._both(first[g], second[k]) for g, k in permutations(heads, 2)]
        self.clauses.append(tuple(ways))

    def above(self, colours: dict[tuple[int, int], int], head: int, u: int, s: int, t: int) -> int:
        """The literal which says that ``head`` of u ranks s above t; places are in the order of letters."""
        sign = 1 if s < t else -1
        s, t = min(s, t), max(s, t)
        return sign * self.variables[head, (s < u) + (t < u), colours[u, s], colours[u, t], colours[s, t]]

    def _picks(self, coloured: ColouredInput, u: int, head: int, s: int) -> int:
        """A new variable that implies: ``head`` of u ranks s above all others."""
        self.n_variables += 1
        colours = coloured.table()
        for t in range(coloured.n_tokens):
            if t not in (u, s):
                self.clauses.append((-self.n_variables, self.above(colours, head, u, s, t)))
        return self.n_variables

    def _both(self, first: int, second: int) -> int:
        self.n_variables += 1
        self.clauses += [(-self.n_variables, first), (-self.n_variables, second)]
        return self.n_variables

    def _transitive(self) -> Iterator[Clause]:
        """No three letters are ranked in a circle: every query u, every place of it, all colours."""
        for u in range(4):
            s, t, w = (place for place in range(4) if place != u)
            for shades in product(range(self.n_terms + 1), repeat=6):
                colours = ColouredInput((0, 1), shades).table()
                for g in range(self.heads):
                    a, b, c = (self.above(colours, g, u, *pair) for pair in ((s, t), (t, w), (s, w)))
                    for clause in ({-a, -b, c}, {a, b, -c}):
                        if not any(-literal in clause for literal in clause):
                            yield tuple(sorted(clause))


def refuted(clauses: Iterable[Clause], steps: Sequence[Clause]) -> bool:
    """Whether every step follows from what stands before it by unit propagation, and the last is empty.

    A literal is the number of a variable, from 1 on, or its negative. Clauses with a 0 are refused.

    Examples
    --------
    >>> clauses = [(1, 2), (1, -2), (-1, 2), (-1, -2)]
    >>> refuted(clauses, [(1,), ()]), refuted(clauses[1:], [(1,), ()]), refuted(clauses, [(1,)])
    (True, False, False)
    """
    if not steps or steps[-1]:
        return False
    known = _Propagation(clauses)
    for step in steps:
        if 0 in step or known.conflict_of(step) is None:
            return False
        known.add(step)
    return True


def needed_steps(clauses: Sequence[Clause], steps: Sequence[Clause]) -> list[Clause]:
    """The steps of a refutation without those that no later step needs.

    >>> needed_steps([(1, 2), (1, -2), (-1, 2), (-1, -2)], [(1, 2), (1,), ()])
    [(1,), ()]
    """
    known, used = _Propagation(clauses), list[set[int]]()
    for step in steps:
        reasons = known.conflict_of(step)
        if reasons is None:
            raise InvalidInputError("steps must be a refutation, but one does not follow by propagation.")
        used.append(reasons)
        known.add(step)
        if not step:
            break
    wanted = {known.n_clauses - 1}
    for number in range(len(used) - 1, -1, -1):
        if len(clauses) + number in wanted:
            wanted |= used[number]
    return [step for number, step in enumerate(steps[: len(used)]) if len(clauses) + number in wanted]


class _Propagation:
    """Unit propagation with two watched literals in every clause."""

    def __init__(self, clauses: Iterable[Clause]) -> None:
        self.clauses: list[list[int]] = []
        self.watching: dict[int, list[int]] = {}
        self.units: list[int] = []
        for clause in clauses:
            self.add(clause)

    @property
    def n_clauses(self) -> int:
        return len(self.clauses)

    def add(self, clause: Clause) -> None:
        if 0 in clause:
            raise InvalidInputError(
                f"clauses must hold variables from 1 on and negatives, but one is {clause}."
            )
        number, literals = len(self.clauses), list(dict.fromkeys(clause))
        self.clauses.append(literals)
        if len(literals) < 2:
            self.units.append(number)
        for literal in literals[:2] if len(literals) > 1 else ():
            self.watching.setdefault(-literal, []).append(number)

    def conflict_of(self, denied: Clause) -> set[int] | None:
        """The clauses that lead from the denial of one to a contradiction, or None if there is none."""
        reason: dict[int, int] = {}  # true literal -> the clause that made it true, -1 if denied
        queue: list[int] = []
        for literal in denied:
            if literal in reason:
                return set()  # a literal and its negation: the clause is always true
            if -literal not in reason:
                reason[-literal] = -1
                queue.append(-literal)
        for number in self.units:
            if all(-literal in reason for literal in self.clauses[number]):  # the empty clause too
                return self._traced(number, reason)
            for literal in self.clauses[number]:
                if literal not in reason:
                    reason[literal] = number
                    queue.append(literal)
        done = 0
        while done < len(queue):
            conflict = self._visit(queue[done], reason, queue)
            done += 1
            if conflict is not None:
                return self._traced(conflict, reason)
        return None

    def _visit(self, true: int, reason: dict[int, int], queue: list[int]) -> int | None:
        """Look at the clauses in which the negation of a true literal is watched."""
        watching, kept = self.watching.get(true, []), []
        for place, number in enumerate(watching):
            literals = self.clauses[number]
            if literals[0] == -true:
                literals[0], literals[1] = literals[1], literals[0]
            if literals[0] in reason:
                kept.append(number)
                continue
            for k in range(2, len(literals)):
                if -literals[k] not in reason:
                    literals[1], literals[k] = literals[k], literals[1]
                    self.watching.setdefault(-literals[1], []).append(number)
                    break
            else:
                kept.append(number)
                if -literals[0] in reason:
                    self.watching[true] = kept + watching[place + 1 :]
                    return number
                reason[literals[0]] = number
                queue.append(literals[0])
        self.watching[true] = kept
        return None

    def _traced(self, conflict: int, reason: dict[int, int]) -> set[int]:
        """All clauses behind a conflict."""
        found, waiting = {conflict}, [conflict]
        while waiting:
            for literal in self.clauses[waiting.pop()]:
                number = reason.get(-literal, -1)
                if number >= 0 and number not in found:
                    found.add(number)
                    waiting.append(number)
        return found


def cyclic_rankings(n_letters: int, heads: int) -> NDArray[np.int64]:
    """Every letter ranks the others by who comes next in a circle, with a second head by who came before.

    One head holds all pairs of up to three tokens, two heads all pairs of up to five.

    Examples
    --------
    >>> cyclic_rankings(4, 2)[0].tolist()
    [[1, 2, 3], [3, 2, 1]]
    """
    if heads not in (1, 2):
        raise InvalidInputError(f"heads must be 1 or 2, the directions of a circle, but was {heads}.")
    steps = np.arange(1, n_letters)
    turns = np.stack([steps, -steps])[:heads]
    return (np.arange(n_letters)[:, None, None] + turns) % n_letters
