"""The nodes of a ``forward`` that ``torch.fx`` has traced, with values in the place of the nodes they read.

torch changes some tensors in place. A trace does not show that, so a tensor that is read again after it, or
something that shares its memory, was changed is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# functions whose result may share the memory of their argument
_VIEWS = {
    *("view", "reshape", "flatten", "unflatten", "transpose", "swapaxes", "swapdims", "permute", "squeeze"),
    *("unsqueeze", "getitem", "split", "chunk", "detach", "contiguous", "alias", "identity", "t", "expand"),
    *("float", "double", "to", "type_as", "cpu", "dropout", "dropout1d", "dropout2d", "alpha_dropout"),
    *("feature_alpha_dropout", "Identity", "Flatten", "Unflatten", "Dropout", "Dropout1d", "Dropout2d"),
    *("AlphaDropout", "FeatureAlphaDropout"),
}
_IN_PLACE = {"iadd", "isub", "imul", "itruediv"}


@dataclass
class Values:
    """The values of nodes, and which of them were overwritten since."""

    known: dict[Any, Any] = field(default_factory=dict)
    _owner: dict[Any, Any] = field(default_factory=dict)  # the node whose memory a node shares
    _stale: set[Any] = field(default_factory=set)

    def of(self, argument: Any) -> Any:
        """An argument of a node with values in the place of nodes."""
        if isinstance(argument, (tuple, list)):
            entries = [self.of(entry) for entry in argument]
            return tuple(entries) if isinstance(argument, tuple) else entries
        if isinstance(argument, slice):
            return slice(self.of(argument.start), self.of(argument.stop), self.of(argument.step))
        if isinstance(argument, dict):
            return {name: self.of(entry) for name, entry in argument.items()}
        return self.known[argument] if _is_node(argument) else argument

    def overwritten(self, node: Any) -> bool:
        """Whether a node reads what was changed in place before."""
        return any(source in self._stale for source in node.all_input_nodes)

    def share(self, node: Any, name: str, in_place: bool) -> None:
        """Keep whose memory the result of a function shares, and what it overwrites."""
        sources = list(node.all_input_nodes)
        in_place = in_place or name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))
        owner = self._owner.get(sources[0], sources[0]) if sources else node
        if in_place and sources:
            self._stale |= {owner, *(other for other, root in self._owner.items() if root is owner)}
        if sources and (in_place or name in _VIEWS):
            self._owner[node] = owner


def _is_node(argument: Any) -> bool:
    return type(argument).__name__ == "Node" and hasattr(argument, "all_input_nodes")


def entries(values: Any) -> Iterator[Any]:
    """The values in nested tuples, lists and dictionaries.

    >>> list(entries([1, (2, {"a": 3})]))
    [1, 2, 3]
    """
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from entries(value)
        elif isinstance(value, dict):
            yield from entries(value.values())
        else:
            yield value
