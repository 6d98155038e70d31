"""Modules that need an extra are left out where the extra is not installed: doctests would import them."""

from importlib.util import find_spec

collect_ignore = []
if not find_spec("torch"):
    collect_ignore += ["src/hardmax/training/transformer.py"]
if not find_spec("anywidget"):
    collect_ignore += ["src/hardmax/explorer/widget.py"]
if not (find_spec("torch") and find_spec("transformers")):
    collect_ignore += ["tests/scripts/reading_memory.py"]
if not (find_spec("onnx") and find_spec("onnxruntime")):
    collect_ignore += [f"tests/oracles/{name}_onnx.py" for name in ("mutated", "plain")]
    collect_ignore += ["tests/oracles/onnx_zoo.py", "tests/scripts/onnx_mutations.py"]
