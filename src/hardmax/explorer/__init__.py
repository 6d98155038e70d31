"""The explorer: keys that one drags, and what follows, in one page (``hardmax explore``)."""

from hardmax.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
