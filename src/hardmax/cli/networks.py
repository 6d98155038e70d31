"""The networks that commands take: a saved file, or a short description of a network that hardmax can make.

A description is a name, a colon and numbers: ``mlp:2,64,64,64,1,seed=0``. It is taken apart, never run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax.errors import HardmaxError, InvalidInputError
from hardmax.results import load

if TYPE_CHECKING:
    from hardmax.networks.network import Network

__all__ = ["DESCRIPTIONS", "read_network"]

DESCRIPTIONS = {
    "mlp": "mlp:2,64,64,64,1,seed=0",
    "transformer": "transformer:n_tokens=50,heads=2,d_ff=64,depth=2,seed=0",
    "sawtooth": "sawtooth:d=2,n_tokens=3,teeth=2,depth=1",
}
"""One example of each kind."""

_SIZES = re.compile(r"[0-9]{1,9}")
_YES = {"yes": True, "no": False}
_VARIANTS = ("plain", "ffn_skip", "bias_free", "genuine")


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
    make: Callable[[], Network]
    if kind == "mlp":
        make = _mlp(text, sizes, options)
    elif sizes:
        raise InvalidInputError(f"{text} must give every number a name, as in {DESCRIPTIONS[kind]}.")
    else:
        make = _transformer(text, options) if kind == "transformer" else _sawtooth(text, options)
    if options:
        raise InvalidInputError(
            f"{text} must be like {DESCRIPTIONS[kind]}, but has an unknown {', '.join(options)}."
        )
    try:
        return make()
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


def _mlp(text: str, sizes: list[int], options: dict[str, str]) -> Callable[[], Network]:
    from hardmax.networks.network import Network

    if len(sizes) < 2:
        raise InvalidInputError(
            f"{text} must name at least input and output widths, as in {DESCRIPTIONS['mlp']}."
        )
    seed = _whole(text, options, "seed", 0)
    return lambda: Network.random_mlp(sizes, seed)


def _transformer(text: str, options: dict[str, str]) -> Callable[[], Network]:
    from hardmax.networks.network import Network

    more: dict[str, Any] = {}
    for name in ("n_tokens", "heads", "depth", "d_ff"):
        more[name] = _whole(text, options, name, None)
    d, seed = _whole(text, options, "d", 2), _whole(text, options, "seed", 0)
    if "d_head" in options:
        more["d_head"] = _whole(text, options, "d_head", None)
    for name in ("biased", "attention_skip", "ffn_skip"):
        if name in options:
            more[name] = _one_of(text, options, name, tuple(_YES)) == "yes"
    return lambda: Network.random(d, rng=seed, **more)


def _sawtooth(text: str, options: dict[str, str]) -> Callable[[], Network]:
    from hardmax.networks.constructions import sawtooth_network

    numbers = {name: _whole(text, options, name, None) for name in ("d", "n_tokens", "teeth", "depth")}
    variant: Any = _one_of(text, options, "variant", _VARIANTS) if "variant" in options else "plain"
    return lambda: sawtooth_network(**numbers, variant=variant)


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


def _one_of(text: str, options: dict[str, str], name: str, values: tuple[str, ...]) -> str:
    value = options.pop(name)
    if value not in values:
        raise InvalidInputError(f"{text} must have {' or '.join(values)} for {name}, but has {value!r}.")
    return value
