r"""Induction heads, and chains of them: plans of one head per layer.

The token behind the last earlier occurrence of x(t) stands at

.. math:: f(t) = \max \{ s \le t : x(s-1) = x(t) \},

and k-hop recall asks for :math:`f^k(T-1)`, counted from 0; one hop is the induction task (definition 4.1 of
Sanford, Hsu and Telgarsky, *Transformers, parallel computation, and logarithmic depth*, 2024). They prove
that :math:`\lfloor \log_2 k \rfloor + 2` layers of one head suffice (theorem 4.2). The plan here has these
numbers: in layer 1 every token reads the one before it, in layer 2 it finds :math:`f(t)`, and each further
layer goes from :math:`f^a` to :math:`f^{2a}`, by reading the token that was found, or to
:math:`f^{2a+1}`, by reading the one that *that* token would find. The binary digits of k say which.

Tokens are (letter, position), whole numbers, so that scores are exact. Heads of width 3 suffice: with a, p
the letter and position of the query, b the letter before the key and s its position, the score

.. math:: N (2ab - b^2) + 4^s - 2 \cdot 16^s / 4^{p+1}, \qquad N > 2 \cdot 16^T,

has the winners of "b = a, s at most p, s largest" wherever there is such a key: matching keys up to p have
:math:`N a^2` plus a positive number that grows with s, the others less than :math:`N a^2`. It has rank 3, and
:math:`N (2ab - b^2) + s`, of rank 2, does where p is the last position. "The token at position p" is
:math:`2ps - s^2`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.bounds.large_integers import positive
from hardmax.flow.architectures import Architecture
from hardmax.flow.plans import MaxPosition, Plan, Positions, Rule

Floats = NDArray[np.float64]

_NEVER = -1e9  # below every score that can be true


def hop_plan(n_tokens: int, k: int = 1) -> tuple[Architecture, Plan]:
    r"""The plan for k hops: CLS ends with the token at :math:`f^k(T-1)` and nothing else.

    Where a hop has no answer the plan ends anywhere.

    Parameters
    ----------
    n_tokens : int
        T.
    k : int
        The hops; 1 is the induction task.

    Examples
    --------
    The last letter is a; behind the last a before it stands b, and behind the last b before that b stands c:

    >>> import hardmax as hm
    >>> text = "baebcabebdea"
    >>> X = [[[ord(letter) - ord("a"), t] for t, letter in enumerate(text)]]
    >>> for k in (1, 2):
    ...     shape, plan = hop_plan(len(text), k)
    ...     found = hm.information_sets(shape, plan, X).sets(shape.depth)[0]
    ...     print(shape.heads, text[found.argmax()])
    (1, 1) b
    (1, 1, 1) c
    """
    T, k = positive("n_tokens", n_tokens, least=2), positive("k", k)
    digits = bin(k)[3:]  # after the leading one, which is the hop of layer 2
    layers: list[dict[str, list[Rule]]] = [
        {"tokens": [Positions(lambda t: [t - 1] if t else [])], "cls": [Positions([T - 1])]}
    ]
    for number, digit in enumerate("1" + digits):
        score, rank = (_next_hop, 3 if k > 1 else 2) if digit == "1" else (_same_token, 2)
        at = 2 if number else 0  # the slot of a token that holds what it found so far: at first itself
        of_tokens = MaxPosition(score, (at,), (0, 1), query_slots=(at,), key_slots=(0, 1), rank=rank)
        of_cls = MaxPosition(score, (at,), False, query_slots=(0,), key_slots=(0, 1), rank=rank)
        last = number == len(digits)
        layers.append({"cls": [of_cls]} if last else {"tokens": [of_tokens], "cls": [of_cls]})
    depth = len(layers)
    return Architecture(T, 2, (1,) * depth, 2), Plan(layers)


def hops(sequences: ArrayLike, k: int = 1) -> NDArray[np.int64]:
    """f^k(T-1) of every sequence of letters (B, T), by the definition; -1 where a hop has no answer.

    Examples
    --------
    >>> hops([[1, 0, 4, 1, 2, 0, 1, 4, 1, 3, 4, 0]], 2), hops([[0, 1, 2]])
    (array([4]), array([-1]))
    """
    letters = np.asarray(sequences)
    rows, places = np.arange(len(letters)), np.arange(letters.shape[1])
    at = np.full(len(letters), letters.shape[1] - 1, dtype=np.int64)
    for _ in range(positive("k", k)):
        asked = letters[rows, at]
        behind = (letters[:, :-1] == asked[:, None]) & (places[1:] <= at[:, None])
        found = np.where(behind, places[1:], -1).max(axis=1)
        before, at = at, np.where(at < 0, -1, found)
        if np.array_equal(before, at):  # a place that is its own answer stays one
            break
    return at


def _same_token(queries: Floats, keys: Floats) -> Floats:
    """The token at the position that the query names."""
    scores: Floats = -((queries[:, :, None, 0, 1] - keys[:, None, :, 0, 1]) ** 2)
    return scores


def _next_hop(queries: Floats, keys: Floats) -> Floats:
    """The last token, not behind the query, before which stands the letter of the query."""
    letter, place = queries[:, :, None, 0, 0], queries[:, :, None, 0, 1]
    before, here = keys[:, None, :, 1, 0], keys[:, None, :, 0, 1]
    return np.where((before == letter) & (here <= place), here, _NEVER)
