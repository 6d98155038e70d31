"""The page about your own network: its torch example runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hardmax.cli import main

PAGE = Path(__file__).resolve().parents[4] / "docs" / "your-network.md"


def test_the_torch_example_runs():
    torch = pytest.importorskip("torch")
    pytest.importorskip("matplotlib").use("Agg")
    code = re.search(r"```py\n(import numpy.*?)```", PAGE.read_text(), re.DOTALL)[1]
    assert len([line for line in code.splitlines() if line.strip() and line[0] not in " )"]) <= 10
    scope: dict = {}
    exec(code, scope)
    regions, module = scope["regions"], scope["module"]
    assert regions.complete
    assert regions.exact
    inside = np.array([np.all([w >= [-1.5, -1.25], w <= [2.5, 1.75]]) for w in regions.witnesses])
    assert inside.all()
    with torch.no_grad():
        theirs = module.double()(torch.from_numpy(np.array(regions.witnesses))).numpy()
    assert regions.network(regions.witnesses) == pytest.approx(theirs, rel=1e-10, abs=1e-10)


def test_the_onnx_command_prints_what_the_page_says(monkeypatch):
    pytest.importorskip("onnx")
    block = re.search(r"```sh\n\$ hardmax (regions examples.*?)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(PAGE.parents[1])
    assert CliRunner().invoke(main, block[1].split()).stdout == block[2]


def test_the_page_lists_every_operator():
    from hardmax.networks.reading.onnx_operators import OPERATORS

    table = PAGE.read_text().partition("### Which operators are read")[2].partition("Opset 7")[0]
    assert set(re.findall(r"`([A-Z]\w+)`", table)) == set(OPERATORS)
