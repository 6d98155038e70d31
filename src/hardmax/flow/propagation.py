"""How information spreads for a block of inputs, once the winners of all heads are known.

Two views of the same thing: the position in a slot of a token, found by following winners back through the
layers, and the set of positions of a token as a word of bits, found by uniting the sets of its sources. Sets
are united word by word where nothing was pruned, slot by slot otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.flow import bitsets
from hardmax.flow.bitsets import Words
from hardmax.flow.slots import Block, Group, Layout

__all__ = ["Propagation"]

Indices = NDArray[Any]  # integers of any width


class Propagation:
    """The spread of information for ``n`` inputs, layer by layer.

    ``winners[l]`` of the tokens is (n, T, heads), of the classification token (n, heads), -1 for a head that
    looks for no maximum.
    """

    def __init__(self, layout: Layout, n: int) -> None:
        self.layout = layout
        self.n = n
        self.n_tokens = layout.architecture.n_tokens
        self.token_winners: list[Indices] = []
        self.cls_winners: list[Indices] = []
        self._places: dict[tuple[int, int, bool], Indices] = {}
        self._inputs = np.arange(n)[:, None]

    def token_places(self, layer: int, slot: int) -> Indices:
        """The positions in a slot of all tokens after ``layer`` layers, (n, T); -1 where a slot is empty."""
        key = (layer, slot, False)
        if key not in self._places:
            self._places[key] = self._find_token_places(layer, slot)
        return self._places[key]

    def cls_places(self, layer: int, slot: int) -> Indices:
        """The positions in a slot of the classification token, (n,)."""
        key = (layer, slot, True)
        if key not in self._places:
            group = self.layout.cls[layer - 1]
            block, inner = group.locate(slot)
            self._places[key] = self._from_block(layer, group, block, inner, True)[:, 0]
        return self._places[key]

    def _find_token_places(self, layer: int, slot: int) -> Indices:
        if layer == 0:
            return np.broadcast_to(np.arange(self.n_tokens), (self.n, self.n_tokens))
        groups = self.layout.tokens[layer - 1]
        if groups[0].everyone:
            return self._from_block(layer, groups[0], *groups[0].locate(slot), False)
        places = np.full((self.n, self.n_tokens), -1, dtype=np.intp)
        for group in groups:
            if slot < group.n_slots:
                places[:, group.rows] = self._from_block(layer, group, *group.locate(slot), False)
        return places

    def _from_block(self, layer: int, group: Group, block: Block, inner: int, is_cls: bool) -> Indices:
        """The positions that a block hands on from slot ``inner`` of its source, (n, rows)."""
        if block.source == "all":
            return np.full((self.n, len(group.rows)), inner, dtype=np.intp)
        if block.source == "own":
            if is_cls:
                return self.cls_places(layer - 1, inner)[:, None]
            own = self.token_places(layer - 1, inner)
            return own if group.everyone else own[:, group.rows]
        sources = self._sources(layer, group, block, is_cls)
        places: Indices = self.token_places(layer - 1, inner)[self._inputs, sources]
        return np.where(sources < 0, -1, places) if block.source == "position" else places

    def _sources(self, layer: int, group: Group, block: Block, is_cls: bool) -> Indices:
        """The tokens that a block reads, (n, rows)."""
        if block.source == "position":
            return np.broadcast_to(group.table[:, block.index], (self.n, len(group.rows)))
        if is_cls:
            return self.cls_winners[layer - 1][:, None, block.index]
        winners = self.token_winners[layer - 1]
        return winners[:, :, block.index] if group.everyone else winners[:, group.rows, block.index]

    def token_sets(self, layer: int, before: Words) -> Words:
        """The sets of all tokens after ``layer`` layers, from those one layer before, (n, T, W)."""
        groups = self.layout.tokens[layer - 1]
        if groups[0].everyone:
            return self._united(layer, groups[0], before, before, False)
        sets = np.empty_like(before)
        for group in groups:
            sets[:, group.rows] = self._united(layer, group, before, before[:, group.rows], False)
        return sets

    def cls_sets(self, layer: int, before: Words, own: Words) -> Words:
        """The sets of the classification token, (n, W), from the sets of the tokens and its own."""
        return self._united(layer, self.layout.cls[layer - 1], before, own[:, None], True)[:, 0]

    def _united(self, layer: int, group: Group, before: Words, own: Words, is_cls: bool) -> Words:
        sets = np.zeros((self.n, len(group.rows), before.shape[-1]), dtype=np.uint64)
        for block in group.blocks:
            if block.source == "all":
                sets |= bitsets.full(self.n_tokens)
            elif block.whole and block.source == "own":
                sets |= own
            elif block.whole:
                sources = self._sources(layer, group, block, is_cls)
                found = before[self._inputs, sources]
                if block.source == "position":
                    found = np.where((sources < 0)[..., None], np.uint64(0), found)
                sets |= found
            else:
                for inner in block.kept:
                    places = self._from_block(layer, group, block, inner, is_cls)
                    bitsets.add_positions(sets, places)
        return sets

    def first_sets(self) -> Words:
        """The sets before the first layer: every token holds itself."""
        words = bitsets.singletons(self.n_tokens)
        return np.broadcast_to(words, (self.n, *words.shape))
