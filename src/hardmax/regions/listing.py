r"""Which sets of keys win somewhere: the lists that heads with several winners need, found with proof.

An engine cuts cells with a list of keys. A top-k head has a key for every set of k, a sparsemax head for
every support, far too many to list (:mod:`hardmax.networks.heads.key_sets`). But a list is enough if no
other set wins anywhere, and that can be checked at the vertices of the cells that were found with it:

    On a cell, the winning set S has the largest score among those listed, exactly. It has the largest of all
    if no neighbour of S (one key exchanged; for sparsemax one key more or fewer) is above it at a vertex: a
    set that no exchange improves is the best, and differences of scores are affine. A neighbour that is
    listed is not above S. One that is not listed must be below S at every vertex, beyond all rounding errors.

A cell that passes is a cell of the network with all sets: S wins on it, and wherever S wins it was not cut by
more than the listed sets. If every cell passes, all cells are known. Otherwise what was missing is listed,
together with the sets that win at those vertices, and the cells are found again. Sets that are listed in vain
have no cell; nothing is lost but time. The first list comes from random points.

On an unbounded cell vertices at infinity count as directions, and where no vertices are known (the search
engine) linear programs look for a point of the cell at which a neighbour is above S.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain, pairwise
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.geometry.domains import Box, Domain, WholeSpace
from hardmax.networks.block import rounded_up
from hardmax.networks.blocks import Affine, Block
from hardmax.networks.heads.key_sets import MOST_TIED, Choices, Listed, Set, choices_of, listed
from hardmax.networks.heads.rules import chosen_keys, sparsemax
from hardmax.networks.layers import AffineLayer, Layer, layers_of
from hardmax.networks.network import Network
from hardmax.regions import listing_kernels as kernels
from hardmax.regions.cells import Cells
from hardmax.regions.maps.exact_maps import ExactMaps, inner_row
from hardmax.regions.maps.float_maps import pattern_maps
from hardmax.regions.sampling.signature_hashes import UniformPoints
from hardmax.regions.search.geometry import inner_point
from hardmax.regions.set_walks import walked_sets

Floats = NDArray[np.float64]
Sets = dict[int, list[set[Set]]]

_POINTS = 2048  # random points whose sets are the first list


class KeySetList:
    """The sets that are listed so far for a network in a domain.

    Examples
    --------
    >>> import hardmax as hm
    >>> head = hm.Attention([[[1.0], [0.0], [-1.0]]], None, [[[0.0], [1.0], [2.0]]], rule="top-k", k=2)
    >>> sets = KeySetList(hm.Network([head]), hm.Box([-1], [1]))
    >>> sets.begin()
    >>> sets.listed().sets
    {0: [[(0, 1), (1, 2)]]}
    """

    def __init__(self, network: Network, domain: Domain) -> None:
        self.network, self.domain = network, domain
        self.choices = choices_of(network, partial(domain_size, domain))
        self.sets: Sets = {b: [set() for _ in c.keys] for b, c in self.choices.items()}

    def begin(self, find: Callable[[Network], tuple[Cells, ExactMaps]] | None = None) -> None:
        """List the sets that a walk through the cells of the blocks before finds, block by block.

        ``find`` returns the cells of a network, with vertices; without it, random points must do.
        """
        blocks: list[Block] = []
        y = _points(self.domain) if find is None else None
        for b, block in enumerate(self.network.blocks[: max(self.choices, default=-1) + 1]):
            choices = self.choices.get(b)
            if y is not None and choices is None:
                y = block.forward(y)
            elif y is not None and choices is not None:
                y, _, chosen = block.trace(y)
                mask = choices.block.mask
                self._add_chosen(b, chosen[:, : mask.size].reshape(len(y), *mask.shape))
            elif choices is None:
                blocks.append(block)
            else:
                assert find is not None
                front = choices.front
                self._walk(b, *find(Network((*blocks, *front) or (Affine(np.eye(self.network.d)),))))
                if b < max(self.choices):
                    blocks += choices.blocks([choices.order(h, sets) for h, sets in enumerate(self.sets[b])])

    def _walk(self, b: int, cells: Cells, exact_maps: ExactMaps) -> None:
        choices = self.choices[b]
        scores = AffineLayer(choices.wide_scores, choices.biases)
        before = ExactMaps((*exact_maps.layers, scores), exact_maps.domain)
        rows, _, prefix = prefix_maps(before, cells)
        rule = choices.block._rule
        for h, (start, stop) in enumerate(pairwise(choices.starts.tolist())):
            tau = 0.0 if rule.k is not None else max(float(rule.temperatures[h]), 5e-324)
            own = np.ascontiguousarray(rows[:, start:stop])
            for members in walked_sets(rule.k or 0, tau, own, prefix, cells):
                self.sets[b][h].add(choices.canonical(h, members))

    def state(self) -> list[list[dict[str, Any]]]:
        """The sets as plain arrays, for a file."""
        found = []
        for b, heads in self.sets.items():
            rows = [self.choices[b].order(h, sets) for h, sets in enumerate(heads)]
            found.append([
                {"sizes": np.array([len(some) for some in of_head]), "members": np.concatenate(of_head)}
                for of_head in rows
            ])  # fmt: skip
        return found

    def restore(self, state: list[list[dict[str, Any]]]) -> None:
        """List the sets of a file."""
        for heads, of_block in zip(self.sets.values(), state, strict=True):
            for sets, of_head in zip(heads, of_block, strict=True):
                ends = [0, *np.cumsum(of_head["sizes"]).tolist()]
                members = of_head["members"].tolist()
                sets.update(tuple(members[start:stop]) for start, stop in pairwise(ends))

    def listed(self) -> Listed:
        """The network with the sets of now."""
        return listed(self.network, self.choices, self.sets)

    def grow(self, found: Listed, cells: Cells, exact_maps: ExactMaps) -> NDArray[np.bool_]:
        """List what the cells of ``found`` lack; returns which of them are cells of the network as given."""
        proven = np.ones(cells.n, dtype=np.bool_)
        if cells.n == 0:  # stopped before the first one
            return proven
        layers = exact_maps.layers
        front = len(layers) - _n_layers(found, layers)
        for b, choices in self.choices.items():
            scores = AffineLayer(choices.wide_scores, choices.biases)
            prefix = (*layers[: front + found.layers_before[b]], scores)
            proven &= self._grow(b, found, cells, ExactMaps(prefix, exact_maps.domain), exact_maps)
        return proven

    def _grow(
        self, b: int, found: Listed, cells: Cells, before: ExactMaps, exact_maps: ExactMaps
    ) -> NDArray[np.bool_]:
        choices, lists = self.choices[b], found.sets[b]
        decider: Any = found.network.blocks[found.deciders[b]]
        near = [
            choices.steps(of_head) if steps is None else steps
            for steps, of_head in zip(decider.near, lists, strict=True)
        ]
        check = _Check(choices, lists, near, cells, before, found.first_heads[b])
        if cells.kind == "halfspaces":
            proven = check.by_programs(exact_maps)
        else:
            proven = check.by_vertices()
        for h, members in check.wanted():
            self.sets[b][h].add(members)
        for h, chosen in check.above:
            for row in chosen:
                self.sets[b][h].add(choices.canonical(h, np.flatnonzero(row).tolist()))
        if choices.block.rule == "top-k" and choices.block.ties == "mean":
            for i in np.flatnonzero(cells.tied).tolist():
                proven[i] &= self._add_tied(b, found, cells, i, before)
        return proven

    def _add_tied(self, b: int, found: Listed, cells: Cells, i: int, before: ExactMaps) -> bool:
        """List all sets that win together on a cell, so that the mean over them is right."""
        choices, complete = self.choices[b], True
        rows = before.output(cells.bits[i], cells.routings[i])[0].tolist()
        for h, (start, stop) in enumerate(pairwise(choices.starts.tolist())):
            chosen = found.sets[b][h][int(cells.routings[i, found.first_heads[b] + h])]
            scores = rows[start:stop]
            inside = {tuple(scores[j]) for j in chosen}
            level = [j for j in range(len(scores)) if j not in chosen and tuple(scores[j]) in inside]
            if not level:
                continue
            level = [j for j in range(len(scores)) if tuple(scores[j]) == tuple(scores[level[0]])]
            if len(set(choices.groups[h][level].tolist())) == 1:
                continue  # keys with the same score everywhere: one set stands for all
            n_inside = sum(j in chosen for j in level)
            if comb(len(level), n_inside) > MOST_TIED:
                raise InvalidInputError(
                    f"head {h} of block {b} has {len(level)} keys that tie for {n_inside} places on a whole "
                    'cell, too many to share them exactly; try ties="leftmost".'
                )
            for members in choices.tied_sets(h, chosen, level):
                some = choices.canonical(h, members)
                if some not in found.sets[b][h]:
                    self.sets[b][h].add(some)
                    complete = False
        return complete

    def _add_chosen(self, b: int, chosen: NDArray[np.bool_]) -> None:
        for h, keys in enumerate(self.choices[b].keys):
            for row in _different(chosen[:, h, keys]):
                self.sets[b][h].add(self.choices[b].canonical(h, np.flatnonzero(row).tolist()))


def domain_size(domain: Domain) -> Floats:
    """A bound on the absolute value of each coordinate in a domain; infinite where there is none.

    A polytope is measured by linear programs in floats; rationals prove what they say, or the next power of
    two.

    >>> from hardmax.geometry.domains import Polytope
    >>> domain_size(Polytope([[1, 1], [-1, 0], [0, -1]], [1, 0, 0]))
    array([2., 2.])
    """
    if isinstance(domain, Box):
        return rounded_up(np.maximum(np.abs(domain.low.floats), np.abs(domain.high.floats)))
    found = np.full(domain.d, np.inf)
    try:
        source = None if isinstance(domain, WholeSpace) else UniformPoints(domain)
    except InvalidInputError:
        source = None
    if source is None:
        return found
    lines = ExactMaps((), domain)
    rows = [tuple(lines.domain_line(i)) for i in range(domain.b.shape[0])]
    for i, end in enumerate(np.maximum(np.abs(source.low), np.abs(source.high)).tolist()):
        power = int(np.frexp(end)[1])
        for more in range(power, power + 3):
            p, q = 2 ** max(more, 0), 2 ** max(-more, 0)
            if all(inner_point([*rows, _beyond(domain.d, i, sign * q, p)]) is None for sign in (1, -1)):
                found[i] = np.ldexp(1.0, more)
                break
    return found


def _beyond(d: int, i: int, slope: int, most: int) -> tuple[int, ...]:
    """The row that is positive where a coordinate times ``slope`` is above ``most``."""
    return tuple(slope if j == i else -most if j == d else 0 for j in range(d + 1))


def _n_layers(found: Listed, layers: tuple[Layer, ...]) -> int:
    """How many of the layers that an engine sees belong to the network itself."""
    return len(layers_of(found.network))


def _different(chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The different rows."""
    packed = np.ascontiguousarray(np.packbits(chosen, axis=1))
    _, first = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_index=True)
    return chosen[first]


def _points(domain: Domain) -> Floats:
    """Points of the domain to begin with; the origin where there are no random ones."""
    if not isinstance(domain, WholeSpace):
        try:
            return UniformPoints(domain).draw(_POINTS, np.random.default_rng(0))
        except InvalidInputError:
            pass
    return np.zeros((1, domain.d))


class _Check:
    """Whether the sets that win on cells are the best ones, for the heads of one block."""

    def __init__(
        self,
        choices: Choices,
        sets: list[list[Set]],
        near: list[list[list[int]]],
        cells: Cells,
        before: ExactMaps,
        first_head: int,
    ) -> None:
        self.choices, self.sets, self.cells, self.before = choices, sets, cells, before
        self.first_head, self.rule = first_head, choices.block._rule
        self.numbers = [set(of_head) for of_head in sets]
        self.near, self.members = near, []
        for h, of_head in enumerate(sets):
            if self.rule.k is not None:
                table = np.array(of_head, dtype=np.int64)
            else:
                table = np.zeros((len(of_head), len(choices.keys[h])), dtype=np.int64)
                which = np.repeat(np.arange(len(of_head)), [len(members) for members in of_head])
                table[which, np.fromiter(chain.from_iterable(of_head), dtype=np.int64, count=len(which))] = 1
            self.members.append(table)
        self.missing: list[set[tuple[int, int, int]]] = [set() for _ in sets]
        self.above: list[tuple[int, NDArray[np.bool_]]] = []

    def _neighbour(self, h: int, s: int, a: int, j: int) -> Set:
        """A set with member number ``a`` exchanged for key ``j``; of sparsemax, with key j more or fewer."""
        members = self.sets[h][s]
        if self.rule.k is None:
            return tuple(sorted({*members} ^ {j}))
        return self.choices.canonical(h, {*members[:a], *members[a + 1 :], j})

    def _is_listed(self, h: int, s: int, a: int, j: int) -> bool:
        if self.rule.k is not None and j in self.sets[h][s]:
            return True
        neighbour = self._neighbour(h, s, a, j)
        return not neighbour or neighbour in self.numbers[h]  # no keys are no set

    def wanted(self) -> list[tuple[int, Set]]:
        """The neighbours that are missing, by heads."""
        return [
            (h, self._neighbour(h, *at)) for h, missing in enumerate(self.missing) for at in sorted(missing)
        ]

    # where vertices are known

    def by_vertices(self) -> NDArray[np.bool_]:
        """Which cells pass; what is missing is noted."""
        cells, starts = self.cells, self.choices.starts
        proven = np.ones(cells.n, dtype=np.bool_)
        offsets, rays, errors = homogeneous(cells)
        rows, row_error, prefix = prefix_maps(self.before, cells)
        for h in range(len(self.sets)):
            own = np.ascontiguousarray(rows[:, starts[h] : starts[h + 1]])
            tau = 0.0 if self.rule.k is not None else float(self.rule.temperatures[h])
            winner = np.ascontiguousarray(cells.routings[:, self.first_head + h])
            asked = (
                self.rule.k or 0, tau, own, row_error, prefix, offsets, rays, errors, winner, self.members[h],
            )  # fmt: skip
            rivals, n = np.zeros((4 * len(rays) + 64, 5), dtype=np.int64), -1
            while n < 0:
                n = kernels.find_rivals(*asked, rivals)
                rivals = np.zeros((4 * len(rivals), 5), dtype=np.int64) if n < 0 else rivals[:n]
            missing = self._missing(h, winner[rivals[:, 0]], rivals[:, 2], rivals[:, 3])
            proven[rivals[missing, 0]] = False
            self._note_above(
                h, own, prefix, offsets, rays, np.unique(rivals[missing & (rivals[:, 4] != 0), 1])
            )
        return proven

    def _missing(self, h: int, s: Any, a: Any, j: Any) -> NDArray[np.bool_]:
        """Which neighbours (a, j) of sets s are not listed; they are noted."""
        n, places = len(self.choices.keys[h]), self.rule.k or 1
        codes, which = np.unique((s * places + a) * n + j, return_inverse=True)
        unknown = np.flatnonzero(~np.isin(codes, self._listed_codes(h)))
        missing = np.zeros(len(codes), dtype=np.bool_)
        for i in unknown.tolist():
            rest, key = divmod(int(codes[i]), n)
            at = (*divmod(rest, places), key)
            if not self._is_listed(h, *at):
                self.missing[h].add(at)
                missing[i] = True
        return missing[which.ravel()]

    def _listed_codes(self, h: int) -> NDArray[np.int64]:
        """Codes of the neighbours that are listed, from the lists of near sets."""
        n, table, near = len(self.choices.keys[h]), self.members[h], self.near[h]
        one = np.repeat(np.arange(len(near)), [len(others) for others in near])
        other = np.fromiter(chain.from_iterable(near), dtype=np.int64, count=len(one))
        if self.rule.k is None:  # the sum of numbers from 1 on tells which one is more or fewer
            sums = table @ np.arange(1, n + 1)
            return one * n + np.abs(sums[one] - sums[other]) - 1
        sums, squares = table.sum(axis=1), np.square(table).sum(axis=1)
        step = sums[other] - sums[one]  # of the key that comes, beyond the one that goes
        gone = ((squares[other] - squares[one]) // step - step) // 2
        a = (table[one] == gone[:, None]).argmax(axis=1)
        return np.asarray((one * self.rule.k + a) * n + gone + step)

    def _note_above(
        self, h: int, rows: Floats, prefix: NDArray[np.int64], offsets: Any, rays: Floats, at: Any
    ) -> None:
        """The sets that win at vertices at which another one was expected."""
        at = at[rays[at, -1] > 0.0]
        if not len(at):
            return
        cell = np.searchsorted(offsets, at, side="right") - 1
        values = np.einsum("vkc,vc->vk", rows[prefix[cell]], rays[at]) / rays[at, -1:]
        if self.rule.k is None:
            chosen = sparsemax(values, self.rule._column[h])[1]
        else:
            chosen = chosen_keys(values, self.rule.k, self.rule.ties)
        self.above.append((h, _different(chosen)))

    # where they are not

    def by_programs(self, exact_maps: ExactMaps) -> NDArray[np.bool_]:
        """The same for cells of which only half-spaces are known: a point at which a neighbour is above?"""
        cells, proven = self.cells, np.ones(self.cells.n, dtype=np.bool_)
        for i in range(cells.n):
            bits, routings = cells.bits[i], cells.routings[i]
            rows = [inner_row(exact_maps, name, bits, routings) for name in cells.names(i)]
            table, q = self.before.output(bits, routings)
            scores = [[int(v) for v in row] for row in table.tolist()]
            for h, (start, stop) in enumerate(pairwise(self.choices.starts.tolist())):
                s = int(routings[self.first_head + h])
                for a, j in np.ndindex(self.rule.k or 1, stop - start):
                    if self._is_listed(h, s, a, j):
                        continue
                    row = self._above(h, s, a, j, scores[start:stop], int(q))
                    level = not any(row)  # ties on the whole cell: shared by all sets, or won by the first
                    if self.rule.k is not None if level else inner_point([*rows, row]) is not None:
                        self.missing[h].add((s, a, j))
                        proven[i] = False
        return proven

    def _above(self, h: int, s: int, a: int, j: int, scores: list[list[int]], q: int) -> tuple[int, ...]:
        """The row that is positive where a neighbour is above a set, in integers."""
        members = self.sets[h][s]
        if self.rule.k is not None:
            return tuple(v - w for v, w in zip(scores[j], scores[members[a]], strict=True))
        tau, m = self.rule.temperatures[h], len(members)
        total = [sum(column) for column in zip(*(scores[i] for i in members), strict=True)]
        row = [tau.denominator * (m * v - w) for v, w in zip(scores[j], total, strict=True)]
        row[-1] += tau.numerator * q
        return tuple(-v for v in row) if j in members else tuple(row)


def prefix_maps(before: ExactMaps, cells: Cells) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """What some layers make of cells, as maps with the constant last; bounds on their errors; and which map
    is that of each cell.
    """
    last = before._prefixes[-1]
    words = last.words + (last.tail > 0)
    bits = cells.bits[:, :words].copy()
    if last.tail:
        bits[:, -1] &= np.uint64(last.tail)
    routings = np.ascontiguousarray(cells.routings[:, : last.heads])
    table = np.concatenate([bits.view(np.int32).reshape(cells.n, -1), routings], axis=1)
    _, first, prefix = np.unique(table, axis=0, return_index=True, return_inverse=True)
    maps = pattern_maps(before.layers, bits[first], routings[first], cells.tied[first], before)
    rows = np.concatenate([maps.linear, maps.offset[:, :, None]], axis=2)
    return rows, maps.error, prefix.ravel().astype(np.int64)


def homogeneous(cells: Cells) -> tuple[NDArray[np.int64], Floats, Floats]:
    """The vertices of cells as rays, the constant last, a bound on the error of their entries, and where
    those of each cell begin. A vertex at infinity is its direction.
    """
    content, offsets = cells.vertices.content, np.asarray(cells.vertices.offsets, dtype=np.int64)
    d = cells.d
    if cells.kind == "polyhedra":
        errors = np.array(content[:, -1])
        errors[np.repeat(cells.free != 0, np.diff(offsets))] = np.inf  # lines: no vertices
        return offsets, np.ascontiguousarray(content[:, :-1]), errors
    rays = np.ones((len(content), d + 1))
    rays[:, :d] = content[:, :d]
    errors = np.array(content[:, d])
    if cells.kind == "intervals":
        far = ~np.isfinite(content[:, 0])
        rays[far] = np.column_stack([np.sign(content[far, 0]), np.zeros(far.sum())])
        errors[far] = 0.0
    elif cells.unbounded:
        far = (content[:, 3] != 0.0) | (content[:, 4] != 0.0)
        rays[far, :2], rays[far, 2] = content[far, 3:5], 0.0
        errors[far] = 1e-14 * np.abs(content[far, 3:5]).max(axis=1, initial=0.0)
    return offsets, rays, errors


def until_listed(
    sets: KeySetList,
    find: Callable[[Network], tuple[Any, Cells, ExactMaps, bool]],
    before: Callable[[Network], tuple[Cells, ExactMaps]] | None,
) -> tuple[Listed, Any, Cells, NDArray[np.bool_]]:
    """Find cells, and find them again with longer lists, until no set is missing.

    ``find`` returns what it found, the cells, their exact maps, and whether it may be called again;
    ``before`` the cells of the first blocks, if they have vertices.
    """
    if not all(of_head for heads in sets.sets.values() for of_head in heads):  # none came from a file
        sets.begin(before)
    while True:
        current = sets.listed()
        found, cells, exact_maps, go_on = find(current.network)
        proven = sets.grow(current, cells, exact_maps)
        if proven.all() or not go_on:
            return current, found, cells, proven
