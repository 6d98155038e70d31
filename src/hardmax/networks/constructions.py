r"""Networks that are built, not trained: the sawtooth of P1 Theorem V.7, and the best small ones known.

A layer of the sawtooth network (P1 Appendix F) folds the unit cube onto itself. Attention with the parabolic
keys :math:`x_h p_j - p_j^2 / 2`, :math:`p_j = (j - 1/2)/N`, sends coordinate :math:`h` to the nearest
:math:`p_j` and subtracts it (Lemma F.1), so that N intervals are laid onto one; a ReLU layer then folds that
interval 2w times (Lemma F.2). Every layer multiplies the number of regions by :math:`(2wN)^d`, and L layers
have exactly :math:`(2wN)^{dL}` of them on :math:`[0, 1]^d`, all with different affine maps.

The paper has to be corrected in three places. Its count drops a factor :math:`2^{dL}`: a sawtooth with w
teeth has 2w pieces. Its scores need a bias, which its own definition of attention does not have: without one,
a coordinate has to be spent on the constant 1 (``variant="bias_free"``). And its keys are chosen freely in
every layer; a transformer whose context tokens pass through the same layers achieves the same with three more
coordinates (``variant="genuine"``, :class:`SharedLayer`), and with one (``variant="narrow"``).

Softmax undoes most of these cells. A network that rounds what attention reads before it computes with it
(``variant="rounded"``) keeps exponentially many of them at a fixed temperature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import Affine, Block, FeedForward
from hardmax.networks.network import Network
from hardmax.networks.random_networks import check_size
from hardmax.randomness import MOST_EXACT, check_room

Variant = Literal["plain", "ffn_skip", "bias_free", "genuine", "narrow", "rounded"]
Matrix = NDArray[np.object_]

_VARIANTS = ("plain", "ffn_skip", "bias_free", "genuine", "narrow", "rounded")


def sawtooth_network(d: int, n_tokens: int, teeth: int, depth: int, *, variant: Variant = "plain") -> Network:
    r"""A transformer with exactly :math:`(2wN)^{dL}` linear regions on :math:`[0, 1]^d` (P1 Theorem V.7).

    Parameters
    ----------
    d : int
        Dimension of the tokens; there are as many heads.
    n_tokens : int
        Keys per head, N.
    teeth : int
        Teeth of the sawtooth, w: the ReLU layer has :math:`2wd` units.
    depth : int
        Layers, L.
    variant : {"plain", "ffn_skip", "bias_free", "genuine", "narrow", "rounded"}
        ``"plain"``: the paper's block FFN(x + MHSA(x)), with affine scores.
        ``"ffn_skip"``: y + FFN(y) with y = x + MHSA(x), as transformers are built; as many units, as many
        regions.
        ``"bias_free"``: linear scores, as the paper defines attention. The last coordinate must be 1 (take
        that slice with :meth:`Network.restrict`) and d - 1 heads fold the others: :math:`(2wN)^{(d-1)L}`
        regions.
        ``"genuine"``: hidden width d + 3; the N context tokens and the token itself pass through the same
        layers, without a bias anywhere. Equal to ``"plain"`` on :math:`[0, 1]^d`.
        ``"narrow"``: the same with hidden width d + 1 and one context token more
        (:func:`narrow_sawtooth`).
        ``"rounded"``: hidden width 2d and two ReLU layers behind every attention, of which the first rounds
        what attention read to whole numbers. Equal to ``"plain"`` on :math:`[0, 1]^d`, and at a temperature
        up to :func:`rounding_temperature` equal to itself at temperature zero, wherever no layer reads a
        point within 1/2wN of a wall.

    Returns
    -------
    Network
        With ``Fraction`` weights.

    Examples
    --------
    >>> net = sawtooth_network(1, n_tokens=3, teeth=2, depth=1)
    >>> import numpy as np
    >>> x = (np.arange(12)[:, None] + 0.5) / 12             # one point per region
    >>> [int(net.affine_at(point)[0][0, 0]) for point in x]
    [12, -12, 12, -12, 12, -12, 12, -12, 12, -12, 12, -12]
    >>> net.exact_value([Fraction(1, 48)])
    (Fraction(1, 4),)
    """
    for name, value in (("d", d), ("n_tokens", n_tokens), ("teeth", teeth), ("depth", depth)):
        check_size(value, name, 1)
    check_room("the network", d, n_tokens + 2 * teeth, d, depth, most=MOST_EXACT)
    if variant not in _VARIANTS:
        raise InvalidInputError(f"variant must be one of {', '.join(_VARIANTS)}, but was {variant!r}.")
    if variant == "bias_free" and d == 1:
        raise InvalidInputError("d must be at least 2 for the bias-free variant, whose last coordinate is 1.")
    description = {
        "made_by": "sawtooth_network",
        "d": int(d),
        "n_tokens": int(n_tokens),
        "teeth": int(teeth),
        "depth": int(depth),
        "variant": variant,
    }
    if variant == "genuine":
        blocks = _followed(*genuine_sawtooth(d, n_tokens, teeth), d, n_tokens, depth)
    elif variant == "narrow":
        sides = (Fraction(n_tokens), Fraction(2))  # it folds the cube [2, N + 2]^d
        blocks = _followed(*narrow_sawtooth(d, n_tokens, teeth), d, n_tokens, depth, *sides)
    elif variant == "rounded":
        blocks = _rounded(d, n_tokens, teeth, depth)
    else:
        attention = _grid_attention(d, n_tokens, linear=variant == "bias_free")
        fold = _fold(d, n_tokens, teeth, skip=variant == "ffn_skip", constant=variant == "bias_free")
        blocks = (attention, fold) * depth
    return Network(blocks, description)


def _sites(n_tokens: int) -> list[Fraction]:
    return [Fraction(2 * j + 1, 2 * n_tokens) for j in range(n_tokens)]


def _zeros(*shape: int) -> Matrix:
    return np.full(shape, Fraction(0), dtype=object)


def _grid_attention(d: int, n_tokens: int, *, linear: bool) -> Attention:
    """Lemma F.1: each head subtracts from its coordinate the nearest of N points.

    With ``linear``, the last coordinate is the constant 1 and carries what would be the bias.
    """
    p = np.array(_sites(n_tokens), dtype=object)
    heads = d - 1 if linear else d
    scores, outputs = _zeros(heads, n_tokens, d), _zeros(heads, n_tokens, d)
    for h in range(heads):
        scores[h, :, h], outputs[h, :, h] = p, -p
    if linear:
        scores[:, :, -1] = -(p**2) / 2
        return Attention(scores, None, outputs)
    return Attention(scores, np.tile(-(p**2) / 2, (heads, 1)), outputs)


def tooth_units(n_tokens: int, teeth: int) -> list[tuple[Fraction, Fraction, Fraction]]:
    r"""Lemma F.2 after the scaling :math:`z = N y + 1/2`: slope, bias and output weight of each of 2w units.

    >>> sum(out * max(0, slope * Fraction(1, 4) + bias) for slope, bias, out in tooth_units(1, 1))
    Fraction(1, 2)
    """
    slope, pieces = Fraction(n_tokens), 2 * teeth
    units = []
    for m in range(pieces):
        out = Fraction(pieces) if m == 0 else Fraction(2 * pieces * (-1) ** m)
        units.append((slope, Fraction(1, 2) - Fraction(m, pieces), out))
    return units


def _fold(d: int, n_tokens: int, teeth: int, *, skip: bool, constant: bool) -> FeedForward:
    """The sawtooth of every coordinate; with ``constant`` the last one is left out and set to 1."""
    folded = d - 1 if constant else d
    units = tooth_units(n_tokens, teeth)
    w_in, b_in = _zeros(folded * len(units), d), _zeros(folded * len(units))
    w_out, b_out = _zeros(d, folded * len(units)), _zeros(d)
    for h in range(folded):
        for m, (slope, bias, out) in enumerate(units):
            u = h * len(units) + m
            w_in[u, h], b_in[u], w_out[h, u] = slope, bias, out
        if skip:  # y = (z - 1/2) / N is added; the first unit is z itself on [0, 1] and takes it away again
            w_out[h, h * len(units)] -= Fraction(1, n_tokens)
            b_out[h] = Fraction(1, 2 * n_tokens)
    if constant:
        b_out[-1] = Fraction(1)
    return FeedForward(w_in, b_in, w_out, b_out, skip=skip)


def _followed(
    layer: SharedLayer,
    tokens: Matrix,
    d: int,
    n_tokens: int,
    depth: int,
    side: Fraction = Fraction(1),
    low: Fraction = Fraction(0),
) -> tuple[Block, ...]:
    """The last token, through layers whose keys come from the context as those layers left it.

    x enters it as ``low + side x``. The first N + 1 tokens offer keys. That is all of the genuine variant,
    whose last token has a key and a value that do not depend on x; in the narrow one it is the context, and
    the key of the last token never wins.
    """
    width = tokens.shape[1]
    embedding, readout, start = _zeros(width, d), _zeros(d, width), tokens[-1].copy()
    for i in range(d):
        embedding[i, i], readout[i, i] = side, 1 / side
        start[i] = low
    blocks: list[Block] = [Affine(embedding, start)]
    for _ in range(depth):
        blocks += [layer.attention(tokens[: n_tokens + 1]), layer.feed_forward()]
        tokens = layer(tokens)
    return (*blocks, Affine(readout, np.array([-low / side] * d, dtype=object)))


def genuine_sawtooth(d: int, n_tokens: int, teeth: int) -> tuple[SharedLayer, Matrix]:
    r"""The layer of the genuine variant, and its N + 1 tokens with the input at zero in the last one.

    A token is :math:`(x, p, c, 1)`. Context token :math:`j` has :math:`p = p_j`, :math:`c = p_j^2/2`, and its
    own x, which no key or value reads, starts at :math:`(p_j, \dots, p_j)`. The last token has :math:`p = 0`
    and :math:`c = 1`; its key then scores :math:`-1`, less than :math:`x p_j - p_j^2/2` for any x in
    :math:`[0, 1]`, so it never wins. The layer rewrites x and passes :math:`(p, c, 1)`, none of them
    negative, through three ReLUs.

    >>> layer, tokens = genuine_sawtooth(1, n_tokens=2, teeth=1)
    >>> tokens.shape
    (3, 4)
    >>> bool((layer(tokens)[:, 1:] == tokens[:, 1:]).all())
    True
    """
    width = d + 3
    at_p, at_c, at_one = d, d + 1, d + 2
    units = tooth_units(n_tokens, teeth)
    w_q, w_k = _zeros(d, 2, width), _zeros(d, 2, width)
    w_v, w_o = _zeros(d, 1, width), _zeros(d, width, 1)
    for h in range(d):
        w_q[h, 0, h] = w_q[h, 1, at_one] = Fraction(1)  # query (x_h, 1)
        w_k[h, 0, at_p], w_k[h, 1, at_c] = Fraction(1), Fraction(-1)  # key (p, -c)
        w_v[h, 0, at_p], w_o[h, h, 0] = Fraction(-1), Fraction(1)
    n_units = d * len(units) + 3
    w_in, w_out = _zeros(n_units, width), _zeros(width, n_units)
    for h in range(d):
        for m, (slope, bias, out) in enumerate(units):
            u = h * len(units) + m
            w_in[u, h], w_in[u, at_one], w_out[h, u] = slope, bias, out
    for i in (at_p, at_c, at_one):
        u = n_units - width + i
        w_in[u, i] = w_out[i, u] = Fraction(1)
    tokens = _zeros(n_tokens + 1, width)
    for j, p in enumerate(_sites(n_tokens)):
        tokens[j] = [p] * d + [p, p**2 / 2, Fraction(1)]
    tokens[-1, at_c] = tokens[-1, at_one] = Fraction(1)
    weights: tuple[Any, ...] = (w_q, w_k, w_v, w_o, w_in, w_out)
    return SharedLayer(*weights), tokens


def narrow_sawtooth(d: int, n_tokens: int, teeth: int) -> tuple[SharedLayer, Matrix]:
    r"""A layer of width d + 1 that folds :math:`[2, N + 2]^d`, and its N + 2 tokens; the last one moves.

    A token is :math:`(u, c)`. The last one is :math:`(x, 1)`. Context token j is :math:`u = -p - p^2/2` in
    every coordinate and :math:`c = -p^2/2`, with :math:`p = j + 3/2`. Head h has the query :math:`(u_h, c)`,
    the key :math:`(c - u_h, c)` and the value :math:`u_h - c`: the last token gives context token j the score
    :math:`x_h p - p^2/2` and reads :math:`-p`. One token more, :math:`u = c = -(N + 2)^2`, has the key
    :math:`(0, c)` and the value 0; every token but the last attends to it, because their c is negative. So
    attention leaves the context as it is. The ReLU layer folds u where c is positive, and is the identity on
    the context.

    >>> layer, tokens = narrow_sawtooth(1, n_tokens=3, teeth=1)
    >>> tokens.shape, layer.w_in.shape
    ((5, 2), (5, 2))
    >>> bool((layer(tokens)[:-1] == tokens[:-1]).all())
    True
    """
    width, last = d + 1, d
    w_q, w_k = _zeros(d, 2, width), _zeros(d, 2, width)
    w_v, w_o = _zeros(d, 1, width), _zeros(d, width, 1)
    for h in range(d):
        w_q[h, 0, h] = w_q[h, 1, last] = Fraction(1)
        w_k[h, 0, h], w_k[h, 0, last], w_k[h, 1, last] = Fraction(-1), Fraction(1), Fraction(1)
        w_v[h, 0, h], w_v[h, 0, last], w_o[h, h, 0] = Fraction(1), Fraction(-1), Fraction(1)
    units = tooth_units(1, teeth)
    n_units = d * (len(units) + 1) + 2
    w_in, w_out = _zeros(n_units, width), _zeros(width, n_units)
    above, below = n_units - 2, n_units - 1  # relu(c) and relu(-c)
    for h in range(d):
        first = h * (len(units) + 1)
        for m, (slope, bias, out) in enumerate(units):
            w_in[first + m, h], w_in[first + m, last], w_out[h, first + m] = slope, bias, n_tokens * out
        w_in[first + len(units), h], w_in[first + len(units), last] = Fraction(-1), Fraction(-1, 2)
        w_out[h, first + len(units)] = Fraction(-1)  # u = -relu(-u - c/2) + relu(-c)/2 on the context
        w_out[h, below], w_out[h, above] = Fraction(1, 2), Fraction(2)
    w_in[above, last] = w_out[last, above] = Fraction(1)
    w_in[below, last] = w_out[last, below] = Fraction(-1)
    tokens = _zeros(n_tokens + 2, width)
    for j in range(n_tokens):
        p = Fraction(2 * j + 5, 2)
        tokens[j] = [-p - p**2 / 2] * d + [-(p**2) / 2]
    tokens[n_tokens] = [Fraction(-((n_tokens + 2) ** 2))] * width
    tokens[-1] = [Fraction(2)] * d + [Fraction(1)]
    weights: tuple[Any, ...] = (w_q, w_k, w_v, w_o, w_in, w_out)
    return SharedLayer(*weights), tokens


def _rounded(d: int, n_tokens: int, teeth: int, depth: int) -> tuple[Block, ...]:
    """Attention writes the number of the nearest point beside x, one layer rounds it, the next one folds."""
    p = np.array(_sites(n_tokens), dtype=object)
    scores, outputs = _zeros(d, n_tokens, 2 * d), _zeros(d, n_tokens, 2 * d)
    for h in range(d):
        scores[h, :, h], outputs[h, :, d + h] = p, np.array([Fraction(j) for j in range(n_tokens)])
    attention = Attention(scores, np.tile(-(p**2) / 2, (d, 1)), outputs)
    steps = 2 * (n_tokens - 1)
    w_in, b_in = _zeros(d * (1 + steps), 2 * d), _zeros(d * (1 + steps))
    w_out = _zeros(2 * d, d * (1 + steps))
    for h in range(d):
        first = h * (1 + steps)
        w_in[first, h] = w_out[h, first] = Fraction(1)  # x is not negative
        for k in range(steps):  # from k to k + 1 between k + 1/4 and k + 3/4
            w_in[first + 1 + k, d + h], w_out[d + h, first + 1 + k] = Fraction(1), Fraction(2 * (-1) ** k)
            b_in[first + 1 + k] = -Fraction(k // 2) - (Fraction(3, 4) if k % 2 else Fraction(1, 4))
    rounding = FeedForward(w_in, b_in, w_out, None)
    units = tooth_units(1, teeth)
    w_in, b_in = _zeros(d * len(units), 2 * d), _zeros(d * len(units))
    w_out = _zeros(2 * d, d * len(units))
    for h in range(d):
        for m, (_, bias, out) in enumerate(units):
            u = h * len(units) + m
            w_in[u, h], w_in[u, d + h], w_out[h, u] = Fraction(n_tokens), Fraction(-1), out
            b_in[u] = bias - Fraction(1, 2)
    embedding = np.concatenate([_identity(d), _zeros(d, d)])
    fold = FeedForward(w_in, b_in, w_out, None)
    return (Affine(embedding), *(attention, rounding, fold) * depth, Affine(embedding.T.copy()))


def _identity(d: int) -> Matrix:
    return np.array([[Fraction(int(i == j)) for j in range(d)] for i in range(d)], dtype=object)


def rounding_temperature(n_tokens: int, teeth: int) -> float:
    r"""Up to this temperature the rounded network of :func:`sawtooth_network` keeps the values of the pieces
    that touch no wall: :math:`1 / (2 w N^2 \log(4 (N-1)^2))`, infinite for one key.

    At a distance of :math:`1/2wN` from every wall the margin is at least :math:`1/2wN^2`, so the weights of
    the other keys add up to at most :math:`1/4(N-1)`, and the number that attention reads is wrong by at
    most 1/4, which is rounded away.

    Examples
    --------
    >>> round(rounding_temperature(2, 2), 6)
    0.045084
    """
    check_size(n_tokens, "n_tokens", 1)
    check_size(teeth, "teeth", 1)
    if n_tokens == 1:
        return math.inf
    return 1 / (2 * teeth * n_tokens**2) / math.log(4 * (n_tokens - 1) ** 2)  # integers of any size


@dataclass(frozen=True, eq=False)
class SharedLayer:
    """FFN(x + MHSA(x)) without biases, for every token of a sequence.

    Attributes
    ----------
    w_q, w_k, w_v : (H, r, d_model) arrays of Fraction
    w_o : (H, d_model, r) array of Fraction
    w_in, w_out : (n, d_model) and (d_model, n) arrays of Fraction
    """

    w_q: Matrix
    w_k: Matrix
    w_v: Matrix
    w_o: Matrix
    w_in: Matrix
    w_out: Matrix

    def __call__(self, tokens: Matrix) -> Matrix:
        """The layer at temperature zero, applied to all tokens at once, without rounding.

        >>> one = np.array([[[Fraction(1)]]], dtype=object)
        >>> layer = SharedLayer(one, one, one, one, one[0], one[0])
        >>> layer(np.array([[Fraction(1)], [Fraction(-2)]], dtype=object))[:, 0]
        array([Fraction(2, 1), Fraction(0, 1)], dtype=object)
        """
        after = tokens.copy()
        for w_q, w_k, w_v, w_o in zip(self.w_q, self.w_k, self.w_v, self.w_o, strict=True):
            queries, keys, values = tokens @ w_q.T, tokens @ w_k.T, tokens @ w_v.T
            for t, scores in enumerate(queries @ keys.T):
                best = max(scores)
                tied = [j for j, score in enumerate(scores) if score == best]
                after[t] = after[t] + w_o @ (values[tied].sum(axis=0) / len(tied))
        seen = after @ self.w_in.T
        rectified = np.array([max(Fraction(0), z) for z in seen.flat], dtype=object).reshape(seen.shape)
        return np.asarray(rectified @ self.w_out.T)

    def attention(self, tokens: Matrix) -> Attention:
        """The attention block that one token meets when the sequence is ``tokens``."""
        return Attention.from_weights(tokens, self.w_q, self.w_k, self.w_v, self.w_o)

    def feed_forward(self) -> FeedForward:
        """The ReLU layer."""
        return FeedForward(self.w_in, None, self.w_out, None)


Layers = tuple[tuple[list[list[int]], list[int]], ...]

# The lines x = 0, y = 0 and x + y = 1, and three bent lines that cross them and one another as often as a
# search over twenty million networks could make them.
_WEIGHTS: dict[tuple[int, ...], Layers] = {
    (2, 3, 3): (
        ([[1, 0], [0, 1], [1, 1]], [0, 0, -1]),
        ([[4, 3, -5], [3, 4, -7], [3, 6, -11]], [-3, -3, -4]),
    ),
}


def best_found_layers(widths: Sequence[int]) -> Layers:
    """Weights and biases of its layers.

    >>> best_found_layers([2, 3, 3])[1]
    ([[4, 3, -5], [3, 4, -7], [3, 6, -11]], [-3, -3, -4])
    """
    layers = _WEIGHTS.get(tuple(int(width) for width in widths))
    if layers is None:
        known = "; ".join(str(list(sizes)) for sizes in _WEIGHTS)
        raise InvalidInputError(f"widths must be one of {known}, but was {list(widths)}.")
    return layers


def best_found_mlp(widths: Sequence[int] = (2, 3, 3)) -> Network:
    """The ReLU network of these widths (input first) with the most cells known, in small integers.

    Examples
    --------
    >>> import hardmax as hm
    >>> int(hm.count_cells(best_found_mlp([2, 3, 3]), hm.WholeSpace(2)))
    34
    """
    layers = best_found_layers(widths)
    width = len(layers[-1][1])
    identity = [[int(i == j) for j in range(width)] for i in range(width)]
    return Network.mlp([*layers, (identity, [0] * width)])
