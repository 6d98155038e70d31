"""Certificates: what anybody needs to check a verdict without trusting this library.

A certificate is data for one function of :mod:`hardmax.papers.replay`, a single file that uses nothing but
the standard library: ``check_<kind>(data)`` recomputes a value, in rationals, and the value must be
``expected``. As a file it is one JSON object::

    {"schema": 1, "kind": "winners", "claim": "tropical.fig4_216", "statement": "...",
     "data": {...}, "expected": {...}}

There are no floating-point literals in it: an exact number is an integer or a string ``"p/q"``, a float64 is
the string that ``float.hex`` gives. So nothing is rounded on the way.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.errors import InvalidInputError
from hardmax.networks.blocks import Block, state_of
from hardmax.papers import replay
from hardmax.storage import written_whole

if TYPE_CHECKING:
    from hardmax.networks.network import Network
    from hardmax.papers.ledger import Entry

__all__ = ["Certificate", "exact", "network_record", "relations", "write_certificates"]


@dataclass(frozen=True)
class Certificate:
    """Data that :mod:`hardmax.papers.replay` checks without importing hardmax.

    Parameters
    ----------
    kind : str
        Which function of ``replay.py`` reads it: ``check_<kind>``.
    data : mapping
        What that function is given. Numbers may be ints, fractions, floats or arrays: they are written as
        :func:`exact` says.
    expected : object
        What the function must return for ``data``, likewise.

    Examples
    --------
    >>> certificate = Certificate("power", {"base": 512, "exponent": 8}, {"value": 2**72})
    >>> certificate.replayed()
    {'value': 4722366482869645213696}
    >>> certificate.holds
    True
    """

    kind: str
    data: Mapping[str, Any]
    expected: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", exact(self.data))
        object.__setattr__(self, "expected", exact(self.expected))

    def record(self, claim: str, statement: str) -> dict[str, Any]:
        """The JSON object of the certificate's file."""
        return {
            "schema": replay.SCHEMA,
            "kind": self.kind,
            "claim": claim,
            "statement": statement,
            "data": self.data,
            "expected": self.expected,
        }

    def replayed(self) -> Any:
        """What ``replay.py`` computes from the data, here and now."""
        return replay.value_of(self.kind, self.data)

    @property
    def holds(self) -> bool:
        """Whether ``replay.py`` accepts the certificate."""
        return replay.failure(self.record("", "")) is None


def exact(value: Any) -> Any:
    """``value`` in JSON without rounding: fractions as ``"p/q"``, floats by ``float.hex``, arrays as lists.

    Examples
    --------
    >>> exact({"p": Fraction(1, 3), "x": np.array([0.1, 2.0]), "n": 7})
    {'p': '1/3', 'x': ['0x1.999999999999ap-4', '0x1.0000000000000p+1'], 'n': 7}
    """
    if isinstance(value, np.ndarray):
        return exact(value.tolist())
    if isinstance(value, np.generic):
        return exact(value.item())
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else str(value)
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): exact(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [exact(item) for item in value]
    raise InvalidInputError(
        f"a certificate holds integers, fractions, floats, strings, lists and mappings, but was given a "
        f"{type(value).__name__}."
    )


def network_record(network: Network) -> list[dict[str, Any]]:
    """The blocks of a network as certificates hold them, in exact numbers.

    Examples
    --------
    >>> import hardmax as hm
    >>> network_record(hm.Network([hm.Affine([[0.5]], [2])]))
    [{'block': 'Affine', 'w': [['1/2']], 'b': [2]}]
    """
    return [_block_record(block) for block in network.blocks]


def _block_record(block: Block) -> dict[str, Any]:
    state = state_of(block)
    mask = state.pop("mask", None)
    if state["block"] == "Maxout" or "slope" in state or not (mask is None or np.all(mask)):
        raise InvalidInputError(
            "network must be made of affine maps, ReLU layers and unmasked attention to become a certificate."
        )
    return {name: _fractions(value) for name, value in state.items()}


def _fractions(value: Any) -> Any:
    """Arrays as nested lists of exact numbers; a float is the fraction it stands for."""
    if isinstance(value, np.ndarray):
        return _fractions(value.tolist())
    if isinstance(value, list):
        return [_fractions(item) for item in value]
    return exact(Fraction(value)) if isinstance(value, float) else exact(value)


def relations(*lines: tuple[Any, str, Any], true: Sequence[bool] | None = None) -> Certificate:
    """A certificate that says of each line ``(left, relation, right)`` whether it is true (all, by default).

    Examples
    --------
    >>> relations((24797, ">=", ["*", 6, ["-", ["^", 64, 2], 1]])).holds
    True
    """
    expected = [True] * len(lines) if true is None else list(true)
    return Certificate("relations", {"relations": [list(line) for line in lines]}, {"true": expected})


def write_certificates(entries: Iterable[Entry], folder: str | os.PathLike[str]) -> list[Path]:
    """Write one JSON file per certificate into ``folder``, and ``replay.py`` beside them.

    Parameters
    ----------
    entries : iterable of Entry
        Entries of a ledger; those without a certificate are passed over.
    folder : path-like
        Made if it does not exist.

    Returns
    -------
    list of Path
        The certificates, named after their claims; ``python replay.py *.json`` in the folder checks them.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for entry in entries:
        if entry.certificate is None:
            continue
        path = folder / f"{entry.name}.json"
        record = entry.certificate.record(entry.name, entry.statement)
        with written_whole(path) as file:
            file.write(json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n")
        paths.append(path)
    with written_whole(folder / "replay.py") as copy, open(replay.__file__, "rb") as original:
        shutil.copyfileobj(original, copy)
    return paths
