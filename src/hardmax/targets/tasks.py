r"""Tasks by name that people train transformers on, where P2 speaks of them, and what is known where not.

P2's law is about functions whose active set stays bounded as sequences grow. Two tasks are of its kind:

* ``copy:P``: the token at a fixed position, one head by position (mechanism III);
* ``associative-recall``: tokens (mark, key, value); the token with the largest mark asks for the value beside
  the key nearest to its own. As a best pair that is
  :math:`\max_{s \ne t} 100\, m_s - 10\, (k_s - k_t)^2 + v_t`: mark first, then key, then value, as far as
  marks and keys are apart.

The others have no such form, and naming one raises an error that says why and what is known
(:data:`ELSEWHERE`). What can be computed here is: plans for induction and hops in
:mod:`hardmax.flow.theorems.hops`, means and majorities by a transformer with equal scores in the tests. The
rest is cited: Hahn, *Theoretical limitations of self-attention in neural sequence models* (TACL 2020); Hao,
Angluin and Frank, *Formal language recognition by hard attention transformers* (TACL 2022), which shows that
one winner per head stays in AC0; Chiang and Cholak, *Overcoming a theoretical limitation of self-attention*
(ACL 2022); Kozachinskiy, Steifer and Walega, *Parity, sensitivity, and transformers* (arXiv 2602.05896);
Sanford, Hsu and Telgarsky, *Transformers, parallel computation, and logarithmic depth* (ICML 2024, theorem
4.2 and corollary 4.3) and *One-layer transformers fail to solve the induction heads task* (arXiv 2408.14332).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hardmax.errors import GrowingActiveSetError, InvalidInputError
from hardmax.targets.builtin import position_sum
from hardmax.targets.parsing import parse
from hardmax.targets.target import Target
from hardmax.targets.tokens import InputDomain

RECALL = "max(s!=t) (100 x[s][0] - 10 (x[s][1] - x[t][1])^2 + x[t][2])"
"""Associative recall as a best pair: coordinates are mark, key and value."""


@dataclass(frozen=True)
class KnownElsewhere:
    """A task that the adviser cannot speak of."""

    why: str
    known: str
    grows: bool  # whether its active set grows with the sequence


ELSEWHERE = {
    "parity": KnownElsewhere(
        "parity depends on every token",
        "hard attention with one winner computes it at no fixed depth (Hahn 2020), softmax attention not in "
        "one layer (Kozachinskiy, Steifer and Walega 2026) but in two, with margins that shrink like 1/T "
        "unless layers are normalised (Chiang and Cholak 2022)",
        True,
    ),
    "majority": KnownElsewhere(
        "a majority depends on every token",
        "one head with equal scores averages and a threshold follows; hard attention with one winner "
        "computes it at no fixed depth (Hao, Angluin and Frank 2022)",
        True,
    ),
    "mean-pooling": KnownElsewhere(
        "a mean depends on every token",
        "one head with equal scores computes it exactly in one layer, by softmax at any temperature and by "
        "hardmax if ties are averaged",
        True,
    ),
    "sorting": KnownElsewhere(
        "sorting puts out every token",
        "each of its outputs alone is a k-th largest token, one layer per rank by Theorem 2 of the paper; "
        "try kth-largest:3",
        True,
    ),
    "induction": KnownElsewhere(
        "induction reads the token behind a match, and tuples of a target do not know who stands behind whom",
        "two layers of one head each suffice, and hm.advise has such a plan; in one layer heads times width "
        "times bits must grow in proportion to T (Sanford, Hsu and Telgarsky 2024); "
        "the match alone is associative-recall",
        False,
    ),
    "k-hop": KnownElsewhere(
        "each hop of k-hop recall starts where the last one ended, and tuples of a target are no chains",
        "floor(log2 k) + 2 layers of one head suffice, and hm.advise has such a plan; with heads times width "
        "of order k^(1-c) the depth is at least of order log k, unless a conjecture on parallel computation "
        "fails (Sanford, Hsu and Telgarsky 2024); one hop is induction",
        False,
    ),
}
"""Tasks of which P2 says nothing, with the reason and what is known."""


def hops_of(text: object) -> int | None:
    """How many hops a name asks for: 1 for ``"induction"``, K for ``"k-hop:K"``; None for anything else.

    Examples
    --------
    >>> hops_of("induction"), hops_of("k-hop:3"), hops_of("parity")
    (1, 3, None)
    """
    name, _, rest = str(text).strip().partition(":")
    if name == "induction" and not rest:
        return 1
    if name != "k-hop":
        return None
    if not re.fullmatch("[1-9][0-9]{0,99}", rest):
        raise InvalidInputError(f"k-hop must be followed by a number, as in k-hop:3, but was {rest!r}.")
    return int(rest)


NAMES = ("copy", "associative-recall", *ELSEWHERE)


def task(name: str, rest: str, *, domain: InputDomain | str | None = None) -> Target:
    """The target of a task.

    Raises
    ------
    GrowingActiveSetError, InvalidInputError
        Where P2 says nothing, with what is known.

    Examples
    --------
    The second token has the largest mark; the key nearest to its own is the third one's:

    >>> X = [[[0.1, 0.9, 0.3], [0.9, 0.2, 0.8], [0.2, 0.25, 0.5]]]
    >>> task("associative-recall", "").active_set(X)
    array([[False,  True,  True]])
    >>> task("copy", "2")([[[1.0], [2.0], [3.0]]])
    array([3.])
    >>> task("parity", "")
    Traceback (most recent call last):
    hardmax.errors.GrowingActiveSetError: parity depends on every token, so the InfoFlow paper says ...
    """
    if name == "copy":
        if not rest.isdigit():
            raise InvalidInputError(f"copy must be followed by a position, as in copy:3, but was {rest!r}.")
        return position_sum([int(rest)]) if domain is None else position_sum([int(rest)], domain=domain)
    if rest and name != "k-hop":
        raise InvalidInputError(f"{name} takes no number, but was given {rest!r}.")
    if name == "associative-recall":
        return parse(RECALL, d=3, domain="cube01" if domain is None else domain)
    found = ELSEWHERE[name]
    kind = GrowingActiveSetError if found.grows else InvalidInputError
    raise kind(f"{found.why}, so the InfoFlow paper says nothing about it; what is known: {found.known}.")
