"""The networks that commands take, and where they look: boxes, convex polygons and slices.

A network is a saved file, or a short description of one that hardmax can make: a name, a colon and numbers,
as in ``mlp:2,64,64,64,1,seed=0``. It is taken apart, never run. Numbers are kept exactly as they were typed.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hardmax as hm
from hardmax.cli.inputs import Number, exact_number, read_matrix
from hardmax.errors import HardmaxError, InvalidInputError
from hardmax.geometry.domains import Polytope
from hardmax.results import load

if TYPE_CHECKING:
    from hardmax.networks.network import Network

DESCRIPTIONS = {
    "mlp": "mlp:2,64,64,64,1,seed=0",
    "transformer": "transformer:n_tokens=50,heads=2,d_ff=64,depth=2,seed=0",
    "sawtooth": "sawtooth:d=2,n_tokens=3,teeth=2,depth=1",
}
"""One example of each kind."""

_SIZES = re.compile(r"[0-9]{1,9}")
# The numbers of each kind with their defaults (without one they must be given), and the words it may have.
_NUMBERS: dict[str, dict[str, int | None]] = {
    "mlp": {"seed": 0},
    "transformer": {"n_tokens": None, "heads": None, "depth": None, "d_ff": None, "d": 2, "seed": 0},
    "sawtooth": {"d": None, "n_tokens": None, "teeth": None, "depth": None},
}
_WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    "mlp": {},
    "transformer": dict.fromkeys(("biased", "attention_skip", "ffn_skip"), ("yes", "no")),
    "sawtooth": {"variant": ("plain", "ffn_skip", "bias_free", "genuine")},
}


def read_network(text: str, *, or_saved: str | None = None) -> Any:
    """The network in a file, or the one that ``text`` describes; or a saved result of the kind ``or_saved``.

    Examples
    --------
    >>> read_network("mlp:2,64,64,64,1,seed=0")
    <Network: 2 -> 1, 3 blocks, 192 units>
    >>> read_network("sawtooth:d=2,n_tokens=3,teeth=2,depth=1")
    <Network: 2 -> 2, 2 blocks, 2 heads, 8 units>
    """
    kind, colon, _ = text.partition(":")
    if colon and kind in DESCRIPTIONS:
        return _described(text)
    path = Path(text)
    if colon and not path.exists():
        raise InvalidInputError(
            f"NETWORK must be a saved network, or described as in {' or '.join(DESCRIPTIONS.values())}, but "
            f"was {text!r}."
        )
    stored = load(path)
    if stored.kind not in ("Network", or_saved):
        wanted = "a Network" if or_saved is None else f"a Network or a {or_saved}"
        raise InvalidInputError(f"{path} must hold {wanted}, but holds a {stored.kind}.")
    return stored


def _described(text: str) -> Network:
    kind, _, rest = text.partition(":")
    sizes, options = _taken_apart(text, rest)
    if kind == "mlp" and len(sizes) < 2:
        raise InvalidInputError(
            f"{text} must name at least input and output widths, as in {DESCRIPTIONS['mlp']}."
        )
    if kind != "mlp" and sizes:
        raise InvalidInputError(f"{text} must give every number a name, as in {DESCRIPTIONS[kind]}.")
    numbers: dict[str, Any] = {
        name: _whole(text, options, name, default) for name, default in _NUMBERS[kind].items()
    }
    if kind == "transformer" and "d_head" in options:
        numbers["d_head"] = _whole(text, options, "d_head", None)
    words: dict[str, Any] = {}
    for name in _WORDS[kind].keys() & options.keys():
        words[name], values = options.pop(name), _WORDS[kind][name]
        if words[name] not in values:
            raise InvalidInputError(
                f"{text} must have {' or '.join(values)} for {name}, but has {words[name]!r}."
            )
    if options:
        raise InvalidInputError(
            f"{text} must be like {DESCRIPTIONS[kind]}, but has an unknown {', '.join(options)}."
        )
    seed = numbers.pop("seed", 0)
    try:
        if kind == "mlp":
            return hm.Network.random_mlp(sizes, seed)
        if kind == "sawtooth":
            return hm.networks.sawtooth_network(**numbers, **words)
        flags = {name: word == "yes" for name, word in words.items()}
        return hm.Network.random(**numbers, **flags, rng=seed)
    except HardmaxError as error:
        raise type(error)(f"{text}: {error}") from error


def _taken_apart(text: str, rest: str) -> tuple[list[int], dict[str, str]]:
    """Plain whole numbers first, then ``name=value``."""
    sizes: list[int] = []
    options: dict[str, str] = {}
    for entry in rest.split(","):
        name, equals, value = (part.strip() for part in entry.partition("="))
        if equals and name and value and name not in options:
            options[name.replace("-", "_")] = value
        elif not equals and not options and _SIZES.fullmatch(name):
            sizes.append(int(name))
        else:
            raise InvalidInputError(
                f"{text} must hold whole numbers, then name=value once each, but holds {entry!r}."
            )
    return sizes, options


def _whole(text: str, options: dict[str, str], name: str, default: int | None) -> int:
    if name not in options:
        if default is None:
            raise InvalidInputError(
                f"{text} must say {name}=..., as in {DESCRIPTIONS[text.partition(':')[0]]}."
            )
        return default
    value = options.pop(name)
    if not _SIZES.fullmatch(value):
        raise InvalidInputError(f"{text} must have a whole number for {name}, but has {value!r}.")
    return int(value)


def read_rules(text: str) -> dict[str, dict[str, Any]]:
    """The rules that a list names, each by how it was written.

    >>> read_rules("hardmax,top-2")
    {'hardmax': {'rule': 'hardmax'}, 'top-2': {'rule': 'top-k', 'k': 2}}
    """
    found: dict[str, dict[str, Any]] = {}
    for entry in (part.strip() for part in text.split(",")):
        name, colon, temperature = entry.partition(":")
        options: dict[str, Any] = {"rule": name}
        if name.startswith("top-") and _SIZES.fullmatch(name[4:]):
            options = {"rule": "top-k", "k": int(name[4:])}
        elif name not in ("hardmax", "sparsemax", "relu"):
            raise InvalidInputError(
                "--rules must list hardmax, top-K, sparsemax:T and relu:T, as in "
                f"hardmax,top-2,sparsemax:0.5, but holds {entry!r}."
            )
        found[entry] = options | ({"temperature": exact_number(temperature)} if colon else {})
    return found


class _Number(click.ParamType):
    """A number or a fraction on the command line."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Number:
        try:
            return value if isinstance(value, (float, Fraction)) else exact_number(str(value))
        except InvalidInputError as error:
            self.fail(str(error), param, ctx)


NUMBER = _Number()


def read_slice(text: str | None, path: Path | None) -> list[Any] | None:
    """Origin and directions of a slice, from the command line or from a file; ``None`` without one.

    >>> read_slice("0,0,1:1,0,0:0,1/2,0", None)
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, Fraction(1, 2), 0.0]]
    """
    if text is None and path is None:
        return None
    if text is not None and path is not None:
        raise InvalidInputError("--slice and --slice-file say the same twice; leave one out.")
    if path is not None:
        rows = read_matrix(path, "point").tolist()
    else:
        rows = [[exact_number(entry) for entry in row.split(",")] for row in str(text).split(":")]
    if len(rows) < 2 or len({len(row) for row in rows}) != 1:
        raise InvalidInputError(
            f"{path or '--slice'} must hold an origin and one or more directions of the same length, as in "
            "0,0,1:1,0,0:0,1,0."
        )
    return rows


def read_polygon(path: Path, d: int = 2) -> Polytope:
    """Half-spaces (a, b) with a.x <= b, or in the plane the corners (x, y) of a convex polygon in order."""
    rows: list[Any] = [[Fraction(entry) for entry in row] for row in read_matrix(path, "corner").tolist()]
    if len(rows[0]) == d + 1:
        return Polytope([row[:d] for row in rows], [row[d] for row in rows])
    if d != 2:
        raise InvalidInputError(
            f"{path} must hold half-spaces of {d + 1} numbers (a, b) with a.x <= b, but its rows have "
            f"{len(rows[0])}."
        )
    if len(rows[0]) != 2 or len(rows) < 3:
        raise InvalidInputError(
            f"{path} must hold at least three corners (x, y) or half-planes (a, b, c), but has shape "
            f"({len(rows)}, {len(rows[0])})."
        )
    turns = [_turn(rows[i - 2], rows[i - 1], rows[i]) for i in range(len(rows))]
    if not (all(turn > 0 for turn in turns) or all(turn < 0 for turn in turns)):
        raise InvalidInputError(f"{path} must hold the corners of a convex polygon in order.")
    sign = 1 if turns[0] > 0 else -1
    a: Any = [
        [sign * (q[1] - p[1]), sign * (p[0] - q[0])] for p, q in zip(rows, rows[1:] + rows[:1], strict=True)
    ]
    b: Any = [u * x + v * y for (u, v), (x, y) in zip(a, rows, strict=True)]
    return Polytope(a, b)


def _turn(p: list[Fraction], q: list[Fraction], r: list[Fraction]) -> Fraction:
    return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])
