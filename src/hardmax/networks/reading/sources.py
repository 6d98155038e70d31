"""Anything that is plainly a network is one: a torch module, an ONNX file, a saved network.

Every verb that takes a network asks :func:`as_network` first.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hardmax.errors import FileFormatError, InvalidInputError
from hardmax.networks.network import Network
from hardmax.networks.planes import PlaneThrough
from hardmax.networks.transformer import Transformer
from hardmax.results import load

NetworkLike = Any  # a Network, its plane through points, a torch module, an ONNX file or a saved network

_PICKLES = (".pt", ".pth", ".ckpt", ".bin", ".pkl")


def as_network(source: NetworkLike) -> Network:
    """The network that a source is, or that its file holds.

    Parameters
    ----------
    source : Network, PlaneThrough, torch module, or path
        A path ends in .onnx, or is a file that ``network.save`` wrote.

    Raises
    ------
    UnsupportedNetworkError
        If a module or an ONNX file holds what is not read, naming all of it.
    InvalidInputError, FileFormatError
        If the source is no network.

    Examples
    --------
    >>> as_network(Network.random_mlp([2, 3, 1], rng=0))
    <Network: 2 -> 1, 1 block, 3 units>
    """
    network = _network_of(source)
    if not isinstance(network, Network):
        raise InvalidInputError(
            "network must be a Network, a torch module, an ONNX file or a saved network, but was "
            f"{_shown(network)}."
        )
    return network


def as_network_or_transformer(source: NetworkLike) -> Network | Transformer:
    """The same where sequences may pass, too."""
    network = _network_of(source)
    return network if isinstance(network, Transformer) else as_network(network)


def _network_of(source: Any) -> Any:
    if isinstance(source, (str, os.PathLike)):
        return in_file(Path(source))
    if isinstance(source, PlaneThrough):
        return source.network
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, torch.nn.Module):
        return Network.from_torch(source)
    return source


def in_file(path: Path) -> Any:
    """The network of an ONNX file, or whatever hardmax saved in a file."""
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        return Network.from_onnx(path)
    if suffix in _PICKLES and path.exists():
        raise FileFormatError(
            f"{path} must be an ONNX file or a saved network, but a {suffix} file can run code when it is "
            "opened; open it with torch and give the module, or write it with torch.onnx.export."
        )
    return load(path)


def _shown(value: Any) -> str:
    text = repr(value).splitlines()[0]
    return text if len(text) <= 80 else f"a {type(value).__name__}"
