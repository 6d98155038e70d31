"""P2, "InfoFlow: A Framework for Multi-Layer Transformer Analysis": its claims and its recipes."""
