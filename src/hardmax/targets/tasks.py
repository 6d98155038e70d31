r"""Tasks by name that people train transformers on, where P2 speaks of them, and what is known where not.

P2's law is about functions whose active set stays bounded as sequences grow. Two tasks are of its kind:

* ``copy:P``: the token at a fixed position, one head by position (mechanism III);
* ``associative-recall``: tokens (mark, key, value); the token with the largest mark asks for the value beside
  the key nearest to its own. As a best pair that is
  :math:`\max_{s \ne t} 100\, m_s - 10\, (k_s - k_t)^2 + v_t`: mark first, then key, then value, as far as
  marks and keys are apart.

The others have no such form, and naming one raises an error that says why and what is known
(:data:`ELSEWHERE`).
"""

from __future__ import annotations

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
        "hard attention computes it at no fixed depth (Hahn 2020); softmax attention can, with two layers "
        "whose margins shrink as T grows (Chiang and Cholak 2022)",
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
        "hardmax with ties",
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
        "two layers of one head each suffice, one that copies the token before and one that matches; one "
        "layer needs a size that grows with T (Sanford, Hsu and Telgarsky 2024); the match alone is "
        "associative-recall",
        False,
    ),
    "k-hop": KnownElsewhere(
        "each hop of k-hop recall starts where the last one ended, and no plan of maxima is known for chains "
        "of tokens",
        "about log2(k) layers suffice, and fewer do not unless a conjecture on parallel computation fails "
        "(Sanford, Hsu and Telgarsky 2024); one hop is associative-recall",
        False,
    ),
}
"""Tasks of which P2 says nothing, with the reason and what is known."""

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
