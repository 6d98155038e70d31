r"""Networks: blocks one after the other, as a map that can be evaluated, cut to a slice and saved.

A network is a piecewise-affine map :math:`f = f_L \circ \dots \circ f_1` from :math:`\mathbb{R}^d` to
:math:`\mathbb{R}^e` (P1 Definition III.1 at temperature zero). On a cell, the inputs of one signature, it is
affine. It need not be continuous: where a routing changes it may jump.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError, written
from hardmax.exact.rationals import ExactArray, as_exact, vector_of
from hardmax.limits import look
from hardmax.networks import affine_maps, random_networks
from hardmax.networks.block import checked_temperature, many, points_of
from hardmax.networks.blocks import Affine, Block, FeedForward, block_of
from hardmax.networks.planes import PlaneThrough, plane_through
from hardmax.networks.reading.onnx_files import read_onnx
from hardmax.networks.reading.torch_attention import AttentionOptions
from hardmax.networks.reading.torch_modules import read_module
from hardmax.networks.signatures import Signature, pack_bits
from hardmax.randomness import generator_of
from hardmax.results import Result

Floats = NDArray[np.float64]

# per array while many points are evaluated: 2 MB, so that the arrays of a layer stay in cache
_NUMBERS = 2**18


@dataclass(frozen=True, eq=False, repr=False)
class Network(Result):
    r"""Blocks one after the other: :math:`f = f_L \circ \dots \circ f_1`.

    Parameters
    ----------
    blocks : sequence of Attention, FeedForward, Maxout, MixtureOfExperts, Affine, LayerNorm, RMSNorm,
        SmoothFeedForward
        Each must take what the one before it gives. With one of the last three, or with softmax, the network
        is not piecewise affine: it has values and can be traced along segments, but has no linear regions.
    description : dict, optional
        How the network was made, in plain values; it is saved along.

    Attributes
    ----------
    blocks : tuple
    d, d_out : int
        Dimensions of input and output.
    heads_total, units_total : int
        Heads (the groups of a :class:`Maxout` count as heads) and ReLU units of all blocks together.

    Examples
    --------
    >>> import hardmax as hm
    >>> head = hm.Attention([[[-1], [1]]], None, [[[-1], [1]]])
    >>> net = hm.Network([head, hm.FeedForward([[1]], [0], [[1]], [0])])
    >>> net
    <Network: 1 -> 1, 2 blocks, 1 head, 1 unit>
    >>> net([[-0.5], [0.5]])[:, 0]
    array([0. , 1.5])
    >>> net.signature([0.5]).routings, net.affine_at([0.5])
    (array([[1]], dtype=int32), (array([[1.]]), array([1.])))
    """

    kind: ClassVar[str] = "Network"

    blocks: tuple[Block, ...]
    description: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            blocks = tuple(self.blocks)
        except TypeError:
            raise InvalidInputError(
                f"blocks must be a sequence of blocks, but was {self.blocks!r}."
            ) from None
        if not blocks:
            raise InvalidInputError("blocks must hold at least one block, but is empty.")
        for i, block in enumerate(blocks):
            if not isinstance(block, Block):
                raise InvalidInputError(
                    "blocks must hold Attention, FeedForward, Maxout, MixtureOfExperts, Affine, LayerNorm, "
                    f"RMSNorm and SmoothFeedForward, but block {i} is a {type(block).__name__}."
                )
        for i, (before, after) in enumerate(pairwise(blocks)):
            if before.d_out != after.d_in:
                raise DimensionMismatchError(
                    f"block {i + 1} must take what block {i} gives, but block {i}, {before!r}, gives "
                    f"{many(before.d_out, 'coordinate')} and block {i + 1}, {after!r}, takes {after.d_in}."
                )
        object.__setattr__(self, "blocks", blocks)

    @property
    def d(self) -> int:
        """The dimension of the input."""
        return self.blocks[0].d_in

    @property
    def d_out(self) -> int:
        """The dimension of the output."""
        return self.blocks[-1].d_out

    @property
    def heads_total(self) -> int:
        """The number of heads of all blocks."""
        return sum(block.heads for block in self.blocks)

    @property
    def units_total(self) -> int:
        """The number of ReLU units of all blocks."""
        return sum(block.width for block in self.blocks)

    # Values
    # ------------------------------------------------------------------------------------------------------

    def __call__(self, x: ArrayLike, temperature: float = 0.0) -> Floats:
        r"""The output :math:`f(x)`.

        Parameters
        ----------
        x : (d,) or (n, d) array_like
            One point, or many: millions are evaluated part by part.
        temperature : float, default 0.0
            :math:`\tau`. At zero the winning key of a head is fetched, and keys whose float scores tie share:
            the mean of their outputs. Above zero each head adds :math:`\sum_j p_j v_j` with
            :math:`p = \mathrm{softmax}(s / \tau)`.

        Returns
        -------
        (d_out,) or (n, d_out) float64

        Raises
        ------
        NotFiniteError
            If x is not finite, or something overflows on the way.
        """
        tau = checked_temperature(temperature)
        points, single = points_of(x, self.d)
        values = np.empty((len(points), self.d_out))
        for rows, y in self._parts(points):
            for block in self.blocks:
                y = block.forward(y, tau)
            values[rows] = _finite(y)
        return values[0] if single else values

    def signature(self, x: ArrayLike, temperature: float = 0.0) -> Signature:
        """The routings of all heads and the bits of all ReLU units, in float arithmetic.

        Parameters
        ----------
        x : (d,) or (n, d) array_like
        temperature : float, default 0.0
            Of the forward pass; routings are those of the keys with the largest score on its way.

        Returns
        -------
        Signature
            One row per point. Among tied keys the lowest index; a unit is on when its pre-activation is above
            zero.

        Examples
        --------
        >>> net = Network.mlp([([[1, 0], [0, 1]], [0, 0]), ([[1, 1]], [-1]), ([[2]], [0])])
        >>> net.signature([[3.0, -1.0], [0.5, 0.25]]).relu.astype(int)
        array([[1, 0, 1],
               [1, 1, 0]])
        """
        tau = checked_temperature(temperature)
        points, _ = points_of(x, self.d)
        routings = np.empty((len(points), self.heads_total), dtype=np.int32)
        bits = np.empty((len(points), -(-self.units_total // 64)), dtype=np.uint64)
        for rows, y in self._parts(points):
            relu = np.empty((len(y), self.units_total), dtype=np.bool_)
            for block, heads, units in self._places():
                hard, routings[rows, heads], relu[:, units] = block.trace(y)
                y = hard if tau == 0.0 else block.forward(y, tau)
            _finite(y)
            bits[rows] = pack_bits(relu)
        return Signature(routings, bits, self.units_total)

    def affine_at(self, x: ArrayLike) -> tuple[Floats, Floats]:
        """The affine map of the cell whose signature is that of ``x``.

        Sums run in the order of keys and units, so that the same numbers come out on every machine. Keys that
        tie on the whole cell share their outputs.

        Parameters
        ----------
        x : (d,) array_like

        Returns
        -------
        linear : (d_out, d) float64
        offset : (d_out,) float64

        Examples
        --------
        >>> net = Network.mlp([([[1], [1]], [0, -0.5]), ([[2, -4]], [0])])
        >>> net.affine_at([0.75])
        (array([[-2.]]), array([2.]))
        """
        point = self._one_point(x)
        seen = self.signature(point.floats)
        choices = [
            seen.routings[0, heads] if block.heads else seen.relu[0, units]
            for block, heads, units in self._places()
        ]
        return affine_maps.affine_map(self.blocks, choices)

    def exact_value(self, x: ArrayLike) -> tuple[Fraction, ...]:
        """The output at one point at temperature zero, computed in rationals: nothing is rounded.

        Parameters
        ----------
        x : (d,) array_like
            Floats count as the rational numbers that they are.

        Examples
        --------
        >>> from fractions import Fraction
        >>> Network.mlp([([[Fraction(1, 3)]], [0])]).exact_value([0.5])
        (Fraction(1, 6),)
        """
        look()
        return affine_maps.exact_value(self.blocks, self._one_point(x))

    def _places(self) -> Iterator[tuple[Block, slice, slice]]:
        """Each block with the places of its heads and units among all heads and units."""
        head = unit = 0
        for block in self.blocks:
            yield block, slice(head, head + block.heads), slice(unit, unit + block.width)
            head, unit = head + block.heads, unit + block.width

    def _one_point(self, x: ArrayLike) -> ExactArray:
        point = as_exact(x, "x", ndim=1)
        if point.shape[0] != self.d:
            raise DimensionMismatchError(f"x must have {self.d} coordinates, but has {point.shape[0]}.")
        return point

    def _parts(self, points: NDArray[Any]) -> Iterator[tuple[slice, Floats]]:
        """The points as floats, so many at a time that no array of the forward pass is large."""
        widest = max(self.units_total // 8, *(block.largest for block in self.blocks))
        step = max(1, _NUMBERS // widest)
        for start in range(0, len(points), step):
            look()
            rows = slice(start, start + step)
            yield rows, as_exact(points[rows], "x", ndim=2).floats

    # Parts and slices
    # ------------------------------------------------------------------------------------------------------

    def restrict(self, origin: ArrayLike, directions: ArrayLike) -> Network:
        r"""The network on the affine slice :math:`t \mapsto f(o + \sum_i t_i u_i)`.

        An :class:`Affine` block is put in front and nothing is multiplied out, so the slice is exact; its
        regions are those that the slice sees.

        Parameters
        ----------
        origin : (d,) array_like
            :math:`o`.
        directions : (k, d) array_like
            :math:`u_i`, one per row.

        Returns
        -------
        Network
            With k inputs.

        Examples
        --------
        >>> net = Network.mlp([([[1, 2, 3]], [0])])
        >>> net.restrict([1, 0, 0], [[0, 1, 0], [0, 0, 1]])([10.0, 100.0])
        array([321.])
        """
        o, u = as_exact(origin, "origin", ndim=1), as_exact(directions, "directions", ndim=2)
        if o.shape[0] != self.d or u.shape[1] != self.d or u.shape[0] == 0:
            raise DimensionMismatchError(
                f"origin and directions must live in the {self.d} input dimensions of the network, but have "
                f"shapes {o.shape} and {u.shape}."
            )
        slice_map: Any = (u.transposed, o)
        return Network((Affine(*slice_map), *self.blocks), self.description)

    def plane_through(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> PlaneThrough:
        """The network on the plane through three points, and where they lie in it; nothing is rounded.

        Parameters
        ----------
        a, b, c : (d,) array_like
            Three points that are not on one line, such as three images.

        Returns
        -------
        PlaneThrough
            With ``network``, which has two inputs, and ``points``, the coordinates of the three points. The
            coordinates are those of an orthogonal frame: lengths in the plane are lengths in space.

        Examples
        --------
        >>> net = Network.random_mlp([5, 8, 3], 0)
        >>> plane = net.plane_through([0, 0, 0, 0, 0], [0, 0, 0, 0, 2], [0, 3, 0, 0, 1])
        >>> plane
        <PlaneThrough: <Network: 2 -> 3, 2 blocks, 8 units>, points at (0, 0), (2, 0), (1, 3)>
        """
        return plane_through(self, a, b, c)

    def truncate(self, n_blocks: int) -> Network:
        """The first blocks only, to see what each depth adds.

        Examples
        --------
        >>> net = Network.random(2, n_tokens=5, heads=2, depth=3, d_ff=8, rng=0)
        >>> net.truncate(2)
        <Network: 2 -> 2, 2 blocks, 2 heads, 8 units>
        """
        if not 1 <= n_blocks <= len(self.blocks):
            raise InvalidInputError(
                f"n_blocks must be from 1 to {len(self.blocks)}, the number of blocks, "
                f"but was {written(n_blocks)}."
            )
        return Network(self.blocks[:n_blocks], self.description)

    def with_rule(
        self,
        rule: str | None = None,
        *,
        k: int | None = None,
        temperature: ArrayLike | None = None,
        ties: str | None = None,
    ) -> Network:
        """The network with another rule in all its attention blocks, to compare what rules do.

        Parameters
        ----------
        rule : {"hardmax", "top-k", "sparsemax", "relu"}, optional
            By default every block keeps its own.
        k, temperature, ties : optional
            As in :class:`~hardmax.networks.attention.Attention`.

        Examples
        --------
        >>> net = Network.random(2, n_tokens=5, heads=2, depth=1, d_ff=0, rng=0)
        >>> net.with_rule("top-k", k=2).blocks
        (Attention(2 heads, 5 keys, 2 -> 2, skip, top-2),)
        """
        given = {"rule": rule, "k": k, "temperature": temperature, "ties": ties}
        changes = {name: value for name, value in given.items() if value is not None}
        if not any(block.name == "attention" for block in self.blocks):
            raise InvalidInputError(f"network must have attention to have a rule, but has {self.blocks!r}.")
        words = {name: value if isinstance(value, str) else written(value) for name, value in changes.items()}
        return Network(tuple(block.with_rule(**changes) for block in self.blocks), self.description | words)

    # Ways to make one
    # ------------------------------------------------------------------------------------------------------

    @classmethod
    def mlp(cls, layers: Sequence[tuple[ArrayLike, ArrayLike | None]], *, slope: Any = 0) -> Self:
        """A multilayer perceptron: affine layers with a ReLU between them.

        Parameters
        ----------
        layers : sequence of (W, b)
            W of shape (out, in); b of shape (out,) or ``None`` for zeros.
        slope : number, default 0
            The slope of a unit that is off: not zero for leaky ReLU.

        Returns
        -------
        Network
            The first two layers make one :class:`FeedForward`, every other layer one more.

        Examples
        --------
        >>> Network.mlp([([[1], [1]], [0, -0.5]), ([[2, -4]], None)])([0.25])
        array([0.5])
        """
        pairs = _pairs(layers)
        shapes = [np.shape(w.floats) for w, _ in pairs]
        for i, (before, after) in enumerate(pairwise(shapes)):
            if before[0] != after[1]:
                raise DimensionMismatchError(
                    f"layer {i + 1} must take what layer {i} gives ({before[0]}), but W has shape {after}."
                )
        if len(pairs) == 1:
            return cls((Affine(*pairs[0]),))
        first = FeedForward(*pairs[0], *pairs[1], slope=slope)
        return cls((first, *(FeedForward(None, None, w, b, slope=slope) for w, b in pairs[2:])))

    @classmethod
    def from_torch(
        cls,
        module: Any,
        *,
        input_shape: Sequence[int] | int | None = None,
        context: ArrayLike | None = None,
        rule: str = "hardmax",
        k: int | None = None,
        temperature: ArrayLike | None = None,
        ties: str = "mean",
        mask: ArrayLike | None = None,
    ) -> Self:
        """A torch module in evaluation mode, exactly.

        Modules that torch defines are read by their attributes; any other module is traced by ``torch.fx``,
        so nested modules, residual sums, concatenations and functions are read, too. torch is not imported
        unless the module is one of torch's. The page :doc:`/your-network` lists what is read.

        Parameters
        ----------
        module : torch module
        input_shape : sequence of int, optional
            The shape of one point, without the batch axis, where the module does not tell it. A point of the
            network is the flattened tensor.
        context : (N, d) array_like, optional
            The tokens that ``nn.MultiheadAttention`` or ``nn.TransformerEncoderLayer`` attends to; they stay
            fixed.
        rule, k, temperature, ties, mask : optional
            Of attention, as in :meth:`Attention.from_torch`.

        Returns
        -------
        Network
            Nothing is rounded but one factor per channel of a batch normalisation. A final Softmax,
            LogSoftmax or Sigmoid is dropped, because it does not change which output is the largest.
            ``description`` says both.

        Raises
        ------
        UnsupportedNetworkError
            Naming everything that is not read.

        Examples
        --------
        >>> class Linear:
        ...     weight, bias = np.array([[1.0, -1.0]]), np.array([0.5])
        >>> Network.from_torch(Linear())([2.0, 1.0])
        array([1.5])
        """
        options = None
        if context is not None:
            options = AttentionOptions(context, rule, k, temperature, ties, mask)
        return cls(*read_module(module, input_shape, options))

    @classmethod
    def from_onnx(cls, path: str | Path) -> Self:
        """The network in an ONNX file, exactly: its numbers are those of the file, and nothing is rounded.

        Needs the package ``onnx``. Graphs may have branches; the operators that are read are listed in
        ``docs/your-network.md``. A first axis without a fixed length, the batch, counts as one long, and
        input and output are flattened. A final softmax or sigmoid, which does not move the argmax, is left
        out; the ``description`` says so.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        MissingExtraError
            Without the package ``onnx``.
        FileFormatError
            If the file is no ONNX file, is damaged or too large.
        UnsupportedNetworkError
            Naming everything in it that is not read.
        """
        return cls(*read_onnx(path))

    @classmethod
    def random(
        cls,
        d: int,
        n_tokens: int,
        heads: int,
        depth: int,
        d_ff: int,
        rng: int | np.random.Generator,
        *,
        d_head: int | None = None,
        biased: bool = True,
        attention_skip: bool = True,
        ffn_skip: bool = False,
        score_scale: float = 1.0,
        bias_scale: float = 1.0,
        output_scale: float = 1.0,
        ffn_scale: float = 1.0,
        ffn_bias_scale: float = 0.5,
    ) -> Self:
        r"""A random transformer with Gaussian weights; every choice is declared here.

        Each of ``depth`` layers is an attention block and, if ``d_ff`` is not zero, a ReLU layer. With
        :math:`g` for independent standard normal numbers, they are drawn layer by layer in this order:

        ==========  =====================  =========================================================
        array       shape                  entries
        ==========  =====================  =========================================================
        scores      (heads, n_tokens, d)   ``score_scale`` g
        biases      (heads, n_tokens)      ``bias_scale`` g; not drawn and zero unless ``biased``
        outputs     (heads, n_tokens, d)   ``output_scale`` g
        w_in        (d_ff, d)              ``ffn_scale`` g / sqrt(d)
        b_in        (d_ff,)                ``ffn_bias_scale`` g
        w_out       (d, d_ff)              ``ffn_scale`` g / sqrt(d_ff)
        b_out       (d,)                   ``ffn_bias_scale`` g
        ==========  =====================  =========================================================

        Parameters
        ----------
        d : int
            Dimension of the tokens.
        n_tokens, heads, depth, d_ff : int
        rng : int or numpy Generator
        d_head : int, optional
            Scores of rank ``d_head``: instead of the scores, keys k of shape (heads, n_tokens, d_head) are
            drawn with entries ``score_scale`` g, then query maps of shape (heads, d_head, d) with entries
            g / sqrt(d_head), and the scores are their products, exactly.
        biased : bool, default True
            Whether scores are affine. P1 writes linear scores but uses affine ones in Theorem V.7.
        attention_skip, ffn_skip : bool
            Whether a block adds its input. P1's block is FFN(x + MHSA(x)): the default.

        Returns
        -------
        Network
            Its ``description`` repeats all of this.

        Examples
        --------
        >>> Network.random(2, n_tokens=5, heads=2, depth=2, d_ff=8, rng=0)
        <Network: 2 -> 2, 4 blocks, 4 heads, 16 units>
        """
        choices = random_networks.RandomTransformer(
            d=d,
            n_tokens=n_tokens,
            heads=heads,
            depth=depth,
            d_ff=d_ff,
            d_head=d_head,
            biased=biased,
            attention_skip=attention_skip,
            ffn_skip=ffn_skip,
            score_scale=score_scale,
            bias_scale=bias_scale,
            output_scale=output_scale,
            ffn_scale=ffn_scale,
            ffn_bias_scale=ffn_bias_scale,
        )
        description = {"made_by": "Network.random", **choices.description(), "rng": _seed(rng)}
        return cls(choices.draw(generator_of(rng)), description)

    @classmethod
    def random_mlp(cls, widths: Sequence[int], rng: int | np.random.Generator) -> Self:
        r"""A random multilayer perceptron with Gaussian weights.

        Layer by layer, first :math:`W \sim g / \sqrt{\text{in}}` of shape (out, in), then
        :math:`b \sim g / 2`, with independent standard normal g.

        Parameters
        ----------
        widths : sequence of int
            Input, hidden layers, output.
        rng : int or numpy Generator

        Examples
        --------
        >>> Network.random_mlp([2, 64, 64, 64, 1], rng=0)
        <Network: 2 -> 1, 3 blocks, 192 units>
        """
        sizes = list(widths)
        description = {"made_by": "Network.random_mlp", "widths": sizes, "rng": _seed(rng)}
        layers = random_networks.mlp_layers(sizes, generator_of(rng))
        return cls(cls.mlp(layers).blocks, description)

    # What every result has
    # ------------------------------------------------------------------------------------------------------

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        description = state["description"]
        if not isinstance(description, dict):
            raise TypeError("a description is a dictionary")
        return cls(tuple(block_of(block) for block in state["blocks"]), description)

    def _summary(self) -> str:
        counts = [many(len(self.blocks), "block")]
        counts += [many(self.heads_total, "head")] if self.heads_total else []
        counts += [many(self.units_total, "unit")] if self.units_total else []
        return f"{self.d} -> {self.d_out}, {', '.join(counts)}"

    def _table(self) -> dict[str, list[Any]]:
        blocks = self.blocks
        return {
            "block": [type(block).__name__ for block in blocks],
            "d_in": [block.d_in for block in blocks],
            "d_out": [block.d_out for block in blocks],
            "heads": [block.heads for block in blocks],
            "n_tokens": [block.n_tokens for block in blocks],
            "units": [block.width for block in blocks],
            "skip": [block.skip for block in blocks],
        }


def _finite(y: Floats) -> Floats:
    if not np.isfinite(y).all():
        raise NotFiniteError("f(x) must stay within float64, but overflows at some x; rescale the input.")
    return y


def _pairs(layers: Any) -> list[tuple[Any, Any]]:
    """Pairs (W, b) with their exact numbers."""
    pairs: list[tuple[Any, Any]] = []
    for i, layer in enumerate(layers):
        try:
            w, b = layer
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"layers must hold pairs (W, b), but layer {i} is no pair; write (W, None) for zero biases."
            ) from None
        matrix = as_exact(w, f"W of layer {i}", ndim=2)
        pairs.append((matrix, vector_of(b, f"b of layer {i}", matrix.shape[0], "row of its W")))
    if not pairs:
        raise InvalidInputError("layers must hold at least one pair (W, b), but is empty.")
    return pairs


def _seed(rng: Any) -> int | str:
    return int(rng) if isinstance(rng, (int, np.integer)) else type(rng).__name__
