"""Networks that torch exports to ONNX, by both of its exporters: read from the file as from the module."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import hardmax as hm

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
nn = torch.nn


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second, self.end = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.Linear(4, 3)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(self.second(x)) + x
        return self.end(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def perceptron():
    layers = [nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.LeakyReLU(0.1), nn.Linear(8, 4), nn.Softmax(1)]
    return nn.Sequential(*layers), (3,)


def convolutional():
    layers = [nn.Conv2d(1, 3, 3, stride=2), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Hardtanh()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(6, 2)), (1, 6, 9)


def residual():
    return Residual(), (1, 4, 5)


@pytest.mark.parametrize("new_exporter", [False, True])
@pytest.mark.parametrize("make", [perceptron, convolutional, residual])
def test_exported_network(make, new_exporter, tmp_path):
    if new_exporter:
        pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    module, shape = make()
    module.train()
    with torch.no_grad():
        for _ in range(20):  # statistics of batch norms that are not 0 and 1
            module(2 * torch.randn(16, *shape) + 0.5)
    module.eval()
    path = tmp_path / "exported.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (torch.randn(1, *shape),), str(path), dynamo=new_exporter, verbose=False)
    network = hm.Network.from_onnx(path)
    points = torch.randn(200, *shape)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    expected = np.concatenate([session.run(None, {name: point[None].numpy()})[0] for point in points])
    found = network(points.reshape(200, -1).numpy().astype(float))
    if make is perceptron:
        assert network.description["dropped"] == "Softmax"
        found = np.exp(found) / np.exp(found).sum(axis=1, keepdims=True)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
    with torch.no_grad():
        assert expected == pytest.approx(module(points).numpy(), rel=1e-4, abs=1e-5)
