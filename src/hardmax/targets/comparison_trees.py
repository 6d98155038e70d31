r"""Trees of comparison that run (P2 Definitions 1 and 2).

A tree of comparison is a full binary tree. Its leaves carry tuples of positions that depend on T only; an
inner node carries a continuous function :math:`f_{in}` and takes over the tuple of the child at which
:math:`f_{in}` of its tokens is larger. Trees retrieve a target if the tuples at their roots together
contain its active set, almost everywhere. :meth:`hardmax.targets.Target.trees` makes such trees of the parts
here, with at most :math:`D_0` of them and as few comparisons as are known:

- one tree for each role of the target, whose leaves are subsets rather than ordered tuples, because
  :math:`f_{in}` may try the orders itself;
- the trees that :math:`D_0` allows beyond these are single leaves; subsets inside what they hold need not be
  leaves again. With :math:`T \le D_0 \beta_1` single leaves hold everything and nothing is compared;
- for a k-th best value, a tree of single positions that works by halves.

A tie goes to the left child.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import InvalidInputError
from hardmax.targets.terms import Term
from hardmax.targets.tokens import as_sequences, one_or_many, returned

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

_BLOCK = 1 << 20  # numbers that a block of leaves may hold


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonTree:
    """A full binary tree that compares tuples of tokens.

    Parameters
    ----------
    leaves : sequence of tuples of int
        Positions from 0, left to right.
    functions : callable or sequence of callables
        f_in: takes tokens (B, m, d), tuples of m tokens, and returns (B,). It must accept every length of
        tuple that the leaves have.
    nodes : (n_leaves - 1, 3) int, optional
        Left child, right child and number of the function of each inner node. Children are leaves (0, 1,
        ...) or earlier nodes (n_leaves, n_leaves + 1, ...); the last node is the root. Without them the
        tree is balanced and uses the first function throughout.

    Examples
    --------
    The first tree of figure 2, which finds a maximum:

    >>> from hardmax.targets.comparison_trees import ComparisonTree
    >>> tree = ComparisonTree([(0,), (1,), (2,), (3,)], lambda tokens: tokens[:, 0, 0])
    >>> tree([[[0.1], [0.3], [0.4], [0.2]]])
    array([[2]])
    >>> tree.n_comparisons, tree.dimension
    (3, 1)
    """

    leaves: tuple[tuple[int, ...], ...]
    functions: tuple[Callable[[Floats], Any], ...]
    nodes: Integers | None = None

    def __post_init__(self) -> None:
        leaves = tuple(tuple(int(t) for t in leaf) for leaf in self.leaves)
        if not leaves or not all(leaves):
            raise InvalidInputError(
                "leaves must be a sequence of at least one tuple, each with a position in it."
            )
        if min(min(leaf) for leaf in leaves) < 0:
            raise InvalidInputError("leaves must hold positions that count from 0, but one was negative.")
        functions = self.functions if isinstance(self.functions, Sequence) else (self.functions,)
        object.__setattr__(self, "leaves", leaves)
        object.__setattr__(self, "functions", tuple(functions))
        if self.nodes is not None:
            nodes = np.array(self.nodes, dtype=np.int64).reshape(-1, 3)
            self._check_nodes(nodes)
            nodes.setflags(write=False)
            object.__setattr__(self, "nodes", nodes)

    def _check_nodes(self, nodes: Integers) -> None:
        count = len(self.leaves)
        children = nodes[:, :2]
        if len(nodes) != count - 1 or not np.array_equal(
            np.sort(children, axis=None), np.arange(2 * count - 2)
        ):
            raise InvalidInputError(
                f"nodes must be {count - 1} rows for {count} leaves in which every leaf and every node but "
                f"the root is a child once, but were {nodes.tolist()}."
            )
        if (children >= np.arange(count, 2 * count - 1)[:, None]).any():
            raise InvalidInputError("nodes must come after their children, but one names a later node.")
        if len(nodes) and not (nodes[:, 2].min() >= 0 and nodes[:, 2].max() < len(self.functions)):
            raise InvalidInputError(
                f"nodes must name one of {len(self.functions)} functions in their last column."
            )

    @property
    def n_leaves(self) -> int:
        """The size of the tree."""
        return len(self.leaves)

    @property
    def n_comparisons(self) -> int:
        """One for each inner node."""
        return len(self.leaves) - 1

    @property
    def dimension(self) -> int:
        """The length of the longest tuple at a leaf."""
        return max(map(len, self.leaves))

    @property
    def n_tokens(self) -> int:
        """The shortest sequence on which the tree can run."""
        return 1 + max(max(leaf) for leaf in self.leaves)

    @one_or_many
    def __call__(self, sequences: ArrayLike) -> Integers:
        """The tuple at the root for each sequence: (B, T, d) gives (B, dimension); -1 fills shorter
        tuples."""
        winner = self.root_leaves(sequences)
        table = np.full((self.n_leaves, self.dimension), -1, dtype=np.int64)
        for i, leaf in enumerate(self.leaves):
            table[i, : len(leaf)] = leaf
        return table[winner]

    @one_or_many
    def root_leaves(self, sequences: ArrayLike) -> Integers:
        """The number of the leaf that arrives at the root, for each sequence."""
        X = as_sequences(sequences, least=self.n_tokens)
        if self.nodes is None:
            return self._tournament(X)
        arrived = [np.full(len(X), i, dtype=np.int64) for i in range(self.n_leaves)]
        scores: dict[int, Floats] = {}
        for left, right, which in self.nodes.tolist():
            if which not in scores:
                scores[which] = self._leaf_scores(X, which)
            rows = np.arange(len(X))
            stays = scores[which][rows, arrived[left]] >= scores[which][rows, arrived[right]]
            arrived.append(np.where(stays, arrived[left], arrived[right]))
        return arrived[-1]

    def _tournament(self, X: Floats) -> Integers:
        """One function throughout: whatever the shape of the tree, the first of the best leaves arrives."""
        best, winner = np.full(len(X), -np.inf), np.zeros(len(X), dtype=np.int64)
        step = max(1, _BLOCK // (len(X) * self.dimension * X.shape[2] + 1))
        for start in range(0, self.n_leaves if self.n_leaves > 1 else 0, step):
            scores = self._leaf_scores(X, 0, start, start + step)
            at = scores.argmax(axis=1)
            value = scores[np.arange(len(X)), at]
            winner = np.where(value > best, start + at, winner)
            best = np.maximum(value, best)
        return winner

    def _leaf_scores(self, X: Floats, which: int, start: int = 0, stop: int | None = None) -> Floats:
        """f_in of the tokens of leaves: (B, leaves)."""
        leaves = self.leaves[start:stop]
        scores = np.empty((len(X), len(leaves)))
        lengths = np.array([len(leaf) for leaf in leaves])
        for length in np.unique(lengths):
            at = np.flatnonzero(lengths == length)
            tokens = X[:, np.array([leaves[i] for i in at])]
            flat = tokens.reshape(-1, int(length), X.shape[2])
            value = returned(self.functions[which](flat), (len(flat),), "f_in")
            scores[:, at] = value.reshape(len(X), len(at))
        return scores

    def __repr__(self) -> str:
        if self.n_leaves == 1:
            return f"<ComparisonTree: the leaf {self.leaves[0]}>"
        return (
            f"<ComparisonTree: {self.n_leaves} leaves of {self.dimension}, {self.n_comparisons} comparisons>"
        )


def retrieve(trees: Sequence[ComparisonTree], sequences: ArrayLike) -> Bools:
    """Which positions the roots hold together: (B, T, d) gives bool (B, T).

    Examples
    --------
    >>> import hardmax as hm
    >>> from hardmax.targets.comparison_trees import retrieve
    >>> target = hm.targets.retrieval(2)
    >>> X = target.sample(100, 6)
    >>> bool((retrieve(target.trees(6), X) >= target.active_set(X)).all())
    True
    """
    X = np.asarray(sequences, dtype=np.float64)
    held = np.zeros((len(X), X.shape[1] + 1), dtype=bool)  # the last column takes the -1 of short tuples
    for tree in trees:
        np.put_along_axis(held, tree(X), True, axis=1)
    return held[:, :-1]


def single_leaf_trees(positions: Sequence[int], width: int) -> tuple[ComparisonTree, ...]:
    """Trees that compare nothing and hold ``width`` positions each."""
    return tuple(ComparisonTree((leaf,), ()) for leaf in _packed(positions, width))


def _packed(positions: Sequence[int], width: int) -> list[tuple[int, ...]]:
    return [tuple(positions[i : i + width]) for i in range(0, len(positions), width)]


def role_tree(term: Term, width: int, n_tokens: int, held: Sequence[int]) -> ComparisonTree:
    """The tuples of a term that are not inside ``held``; single positions are packed into leaves of
    ``width``."""
    inside = set(held)
    if term.arity == 1:
        leaves = _packed([t for t in range(n_tokens) if t not in inside], width)
    else:
        subsets = combinations(range(n_tokens), min(term.arity, n_tokens))
        leaves = [leaf for leaf in subsets if not inside.issuperset(leaf)]
    return ComparisonTree(tuple(leaves) or ((0,),), (term.best_within,))


@cache
def threshold_leaves(k: int, n: int) -> int:
    """Leaves of the tree that finds the k-th best of n single tokens.

    The better half of the work is done by halves: the k-th best of A and B is the best over i of the worse
    of the i-th best of A and the (k-i)-th best of B; dually for ranks beyond the middle. For fixed k this
    grows as T log(T)^(k-1), so pairs are never worth it.

    Examples
    --------
    >>> threshold_leaves(1, 8), threshold_leaves(2, 8), threshold_leaves(8, 8)
    (8, 24, 8)
    """
    k = min(k, n + 1 - k)
    if k == 1:
        return n
    left, right = n // 2, n - n // 2
    return sum(
        (threshold_leaves(i, left) if i else 0) + (threshold_leaves(k - i, right) if k - i else 0)
        for i in range(max(0, k - right), min(k, left) + 1)
    )


def threshold_tree(term: Term, n_tokens: int) -> ComparisonTree:
    """The k-th best of all positions, by halves."""
    leaves: list[tuple[int, ...]] = []

    def joined(children: list[Any], which: int) -> Any:
        if len(children) == 1:
            return children[0]
        half = len(children) // 2
        return (joined(children[:half], which), joined(children[half:], which), which)

    def grow(k: int, positions: range, better: int) -> Any:
        """The k-th best, where ``better`` is the number of the function that picks the better of two."""
        n = len(positions)
        if k > n + 1 - k:
            return grow(n + 1 - k, positions, 1 - better)
        if k == 1:
            first = len(leaves)
            leaves.extend((t,) for t in positions)
            return joined(list(range(first, len(leaves))), better)
        left, right = positions[: n // 2], positions[n // 2 :]
        options = []
        for i in range(max(0, k - len(right)), min(k, len(left)) + 1):
            halves = ((i, left), (k - i, right))
            parts = [grow(rank, half, better) for rank, half in halves if rank]
            options.append(joined(parts, 1 - better))
        return joined(options, better)

    nodes: list[tuple[int, int, int]] = []

    def number(node: Any) -> int:
        if isinstance(node, int):
            return node
        left, right = number(node[0]), number(node[1])
        nodes.append((left, right, node[2]))
        return len(leaves) + len(nodes) - 1

    number(grow(term.rank, range(n_tokens), 0))
    scores = tuple(partial(_signed, term.function, sign) for sign in (term.sign, -term.sign))
    return ComparisonTree(tuple(leaves), scores, np.array(nodes, dtype=np.int64).reshape(-1, 3))


def _signed(function: Callable[..., Any], sign: float, tokens: Floats) -> Any:
    """The value of single tokens times a sign."""
    return sign * np.asarray(function(tokens[:, 0]), dtype=np.float64)
