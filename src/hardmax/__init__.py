"""What a transformer can express, computed exactly.

``hardmax`` is softmax at temperature zero, the object that two papers share: "Expressivity of Transformers: A
Tropical Geometry Perspective" (here ``tropical``, P1 in docstrings) and "InfoFlow: A Framework for
Multi-Layer Transformer Analysis" (here ``infoflow``, P2). The public names and their modules stand in
``__init__.pyi``; each is loaded on first use, so that ``import hardmax`` costs a few milliseconds.

Examples
--------
>>> import hardmax as hm
>>> hm.tropical.oplus(2.0, 3.0)
3.0
"""

from hardmax.lazy import attach

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach(__name__)
