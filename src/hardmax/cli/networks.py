"""The networks that commands take, and where they look: boxes, convex polygons and slices.

A network is a saved file, an ONNX file, or a short description of one that hardmax can make: a name, a colon
and numbers, as in ``mlp:2,64,64,64,1,seed=0``. It is taken apart, never run. Numbers are kept exactly as they
were typed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

import hardmax as hm
from hardmax.cli.inputs import Number, exact_number, read_matrix
from hardmax.cli.numbers import NUMBER
from hardmax.cli.outputs import FILE
from hardmax.errors import DimensionMismatchError, HardmaxError, InvalidInputError
from hardmax.geometry.domains import Polytope
from hardmax.networks.reading.sources import in_file

if TYPE_CHECKING:
    from hardmax.geometry.domains import Domain
    from hardmax.networks.network import Network
    from hardmax.networks.planes import PlaneThrough

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
    "sawtooth": {"variant": ("plain", "ffn_skip", "bias_free", "genuine", "narrow", "rounded")},
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
            "NETWORK must be an ONNX file or a saved network, or described as in "
            f"{' or '.join(DESCRIPTIONS.values())}, but was {text!r}."
        )
    stored = in_file(path)
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
        raise error.about(text) from error


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
        raise InvalidInputError(
            f"{text} must have a whole number for {name}, of at most nine digits, but has {value!r}."
        )
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


_PLACE = (
    click.option("--box", nargs=2, type=NUMBER, metavar="LOW HIGH", help="Look in the cube [LOW, HIGH]^d."),
    click.option("--whole", is_flag=True, help="Look in the whole space."),
    click.option(
        "--polygon",
        "--polytope",
        "polygon",
        type=FILE,
        metavar="FILE",
        help="Look in a convex polytope: half-spaces (a, b) with a.x <= b, or a polygon's corners in order.",
    ),
    click.option(
        "--slice",
        "slice_text",
        metavar="ORIGIN:DIRECTION[:...]",
        help="Cut a wider network to a line, a plane or more, as in 0,0,1:1,0,0:0,1,0.",
    ),
    click.option(
        "--slice-file", type=FILE, metavar="FILE", help="The same from a file: origin, then directions."
    ),
    click.option(
        "--through",
        type=FILE,
        metavar="FILE",
        help="Cut a wider network to the plane through three points; by default look around them.",
    ),
)


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say where in the space of inputs it looks."""
    for option in reversed(_PLACE):
        command = option(command)
    return command


@dataclass(frozen=True)
class Place:
    """A network cut to where a command looks, and the domain in it."""

    network: Network
    domain: Domain
    plane: PlaneThrough | None = None

    @classmethod
    def of(
        cls,
        network: Network,
        box: tuple[Number, Number] | None,
        whole: bool,
        polygon: Path | None,
        slice_text: str | None,
        slice_file: Path | None,
        through: Path | None,
    ) -> Place:
        """What the options of :func:`place_options` say."""
        if through is not None and (slice_text is not None or slice_file is not None):
            raise InvalidInputError("--through and --slice both cut the network; leave one out.")
        plane = None if through is None else _read_plane(network, through)
        cut = read_slice(slice_text, slice_file)
        if plane is not None:
            network = plane.network
        elif cut is not None:
            network = network.restrict(cut[0], cut[1:])
        if plane is not None and not (box or whole or polygon):
            return cls(network, _around(plane.points), plane)
        return cls(network, _domain(box, whole, polygon, network.d), plane)

    def read_points(self, path: Path | None) -> tuple[NDArray[Any] | None, NDArray[np.int64] | None]:
        """Data points with one row each, and their labels if there is one more column.

        On a plane through three points, inputs are put where the nearest point of the plane is; two columns
        are places in the plane, if inputs are wider. Without a file, the data are the three points.
        """
        if path is None:
            return None if self.plane is None else self.plane.points, None
        rows = read_matrix(path, "point")
        wide = 0 if self.plane is None else self.plane.origin.shape[0]
        if self.plane is not None and (wide == 2 or rows.shape[1] != 2):
            points, labels = _with_labels(rows, wide, path)
            return self.plane.project(points)[0], labels
        return _with_labels(rows, self.network.d, path)


def _with_labels(rows: NDArray[Any], d: int, path: Path) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    if rows.shape[1] == d:
        return rows, None
    if rows.shape[1] != d + 1:
        raise DimensionMismatchError(
            f"{path} must have {d} numbers on every line, and perhaps a label, but has {rows.shape[1]}."
        )
    labels = rows[:, d]
    if any(value != int(value) or value < 0 for value in labels):
        raise InvalidInputError(f"{path} must have whole numbers from 0 on in its last column, the labels.")
    return rows[:, :d], labels.astype(np.int64)


def _read_plane(network: Network, path: Path) -> PlaneThrough:
    rows = read_matrix(path, "point")
    if len(rows) != 3:
        raise InvalidInputError(f"{path} must hold three points, one per line, but holds {len(rows)}.")
    return network.plane_through(*rows)


def _around(points: NDArray[np.float64]) -> hm.Box:
    """A square around points, with half their spread on every side."""
    low, high = points.min(axis=0), points.max(axis=0)
    middle, reach = (low + high) / 2, float((high - low).max())
    return hm.Box((middle - reach).tolist(), (middle + reach).tolist())


def _domain(box: tuple[Number, Number] | None, whole: bool, polygon: Path | None, d: int) -> Domain:
    given = {"--box": box, "--whole": whole or None, "--polygon": polygon}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        found = "none of them" if not named else " and ".join(named)
        raise InvalidInputError(
            f"one of --box LOW HIGH, --whole and --polygon FILE must say where to look, but {found} did."
        )
    if box is not None:
        return hm.Box.cube(d, *box)
    return hm.WholeSpace(d) if polygon is None else read_polygon(polygon, d)


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
