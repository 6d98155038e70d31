"""The fused step; for now the torch loop stands in for it."""

from hardmax.lab.torch_loop import TorchSteps as FusedSteps

__all__ = ["FusedSteps"]
