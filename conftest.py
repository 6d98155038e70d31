"""Doctests of modules that need an extra are left out where the extra is not installed."""

from importlib.util import find_spec

collect_ignore = (
    [] if find_spec("torch") else ["src/hardmax/lab/torch_loop.py", "src/hardmax/lab/transformer.py"]
)
