"""Networks that were made elsewhere: torch modules, ONNX files and saved ones, read exactly.

A reader writes the operations that it finds into a :class:`~hardmax.networks.reading.graph.Graph`, and the
graph gives the blocks of a :class:`~hardmax.networks.network.Network`.
"""
