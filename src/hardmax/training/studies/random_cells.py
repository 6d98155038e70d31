"""The runner ``cells``: how many cells random ReLU networks have, one network per job.

A job is ``{"widths": [2, 16, 16, 1], "seed": 0, "box": 4}``: the network ``Network.random_mlp(widths, seed)``
in the cube of half side ``box``.
"""

from __future__ import annotations

import json
import math
from typing import Any

from hardmax.errors import InvalidInputError
from hardmax.geometry.domains import Box
from hardmax.networks.network import Network
from hardmax.regions.counts import CellCount

__all__ = ["read_job", "run_job"]


def read_job(text: str) -> dict[str, Any]:
    """Read a job, or refuse it.

    Examples
    --------
    >>> read_job('{"widths":[2,8,1],"seed":0,"box":4}')["widths"]
    [2, 8, 1]
    """
    job = json.loads(text)
    if not isinstance(job, dict) or job.keys() != {"widths", "seed", "box"}:
        raise InvalidInputError(
            f"a job of the runner 'cells' must have widths, seed and box, but was {text}."
        )
    widths, seed, box = job["widths"], job["seed"], job["box"]
    if not isinstance(widths, list) or len(widths) < 2 or not all(_whole(n) and n > 0 for n in widths):
        raise InvalidInputError(f"widths must be at least two positive whole numbers, but was {widths!r}.")
    if not _whole(seed) or seed < 0:
        raise InvalidInputError(f"seed must be a whole number, zero or more, but was {seed!r}.")
    if not (_whole(box) or isinstance(box, float)) or not (math.isfinite(box) and box > 0):
        raise InvalidInputError(f"box must be a positive number, but was {box!r}.")
    return job


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def run_job(text: str) -> CellCount:
    """Count the cells of the network that a job describes.

    Examples
    --------
    >>> run_job('{"widths":[2,8,1],"seed":0,"box":4}')
    <CellCount: 32 cells, complete, exact>
    """
    from hardmax.regions.api import count_cells

    job = read_job(text)
    network = Network.random_mlp(job["widths"], job["seed"])
    return count_cells(network, Box.cube(job["widths"][0], -job["box"], job["box"]), n_jobs=1)
