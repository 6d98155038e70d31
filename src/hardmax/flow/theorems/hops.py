r"""Induction heads, and chains of them: plans of one head per layer.

The token behind the last earlier occurrence of x(t) stands at

.. math:: f(t) = \max \{ s \le t : x(s-1) = x(t) \},

and k-hop recall asks for :math:`f^k(T-1)`, counted from 0; one hop is the induction task (definition 4.1 of
Sanford, Hsu and Telgarsky, *Transformers, parallel computation, and logarithmic depth*, 2024). They prove
that :math:`\lfloor \log_2 k \rfloor + 2` layers of one head suffice (theorem 4.2). The plan here has these
numbers: in layer 1 every token reads the one before it, in layer 2 it finds :math:`f(t)`, and each further
layer goes from :math:`f^a` to :math:`f^{2a}`, by reading the token that was found, or to
:math:`f^{2a+1}`, by reading the one that *that* token would find. The binary digits of k say which.

Tokens are (letter, position), whole numbers, so that scores are exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
    found = (0, 0)  # the slots of tokens and of CLS that hold what was found so far: themselves
    for number, digit in enumerate("1" + digits):
        score = _next_hop if digit == "1" else _same_token
        last = number == len(digits)
        kept = (found[0],)
        of_tokens = MaxPosition(score, kept, query_slots=(found[0],), key_slots=(0, 1))
        of_cls = MaxPosition(score, kept, not last, query_slots=(found[1],), key_slots=(0, 1))
        layers.append({"cls": [of_cls]} if last else {"tokens": [of_tokens], "cls": [of_cls]})
        found = (2 + number, 1 + number)
    depth = len(layers)
    return Architecture(T, 2, (1,) * depth, 2), Plan(layers)


def _same_token(queries: Floats, keys: Floats) -> Floats:
    """The token at the position that the query names."""
    scores: Floats = -((queries[:, :, None, 0, 1] - keys[:, None, :, 0, 1]) ** 2)
    return scores


def _next_hop(queries: Floats, keys: Floats) -> Floats:
    """The last token, not behind the query, before which stands the letter of the query."""
    letter, place = queries[:, :, None, 0, 0], queries[:, :, None, 0, 1]
    before, here = keys[:, None, :, 1, 0], keys[:, None, :, 0, 1]
    return np.where((before == letter) & (here <= place), here, _NEVER)
