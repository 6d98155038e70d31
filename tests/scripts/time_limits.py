"""Questions without an end in sight, asked with a limit: how long they really take.

    python tests/scripts/time_limits.py            # with a limit of 3 seconds each
    python tests/scripts/time_limits.py --table    # what was found last

Kernels are compiled before. Seconds are those of a clock on the wall, and those of the processor, all cores
together. Every answer must come within two seconds of the limit and say that it is
incomplete, or be complete; the exit code is 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import records

import hardmax as hm
from hardmax.cli.networks import read_network

RECORD = records.RESULTS / "time_limits.json"
RNG = np.random.default_rng(0)


def counted(widths: str, **options: Any) -> Callable[..., Any]:
    network = read_network(f"mlp:{widths},seed=0")
    return partial(hm.count_cells, network, hm.Box.cube(int(widths.partition(",")[0]), -4, 4), **options)


def training_job(n_samples: int) -> hm.training.Job:
    shape = hm.training.TransformerShape(15, 4, widths=(64, 64), heads=(2, 2), hidden=(128, 128))
    target = {"name": "pairwise", "D": 2, "d": 4, "seed": 0}
    return hm.training.Job(target, shape, hm.training.TrainingSettings(n_samples=n_samples))


def study(time_limit: float) -> Any:
    from hardmax.training.studies import Study, run_study

    jobs = [{"widths": [4, 60, 60, 1], "seed": 0, "box": 4}]
    with tempfile.TemporaryDirectory() as folder:
        return run_study(f"{folder}/cells", Study.of("cells", jobs, runner="cells"), time_limit=time_limit)


def reproduced(name: str, time_limit: float) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return hm.reproduce(name, folder, "paper", time_limit=time_limit)


def arrays(n_layers: int) -> list[Any]:
    """Layers of a router of 256 experts."""
    weights = RNG.standard_normal((256, 256))
    return [hm.models.RouterLayer(RNG.standard_normal((2000, 256)), weights) for _ in range(n_layers)]


PAIRS = hm.MaxPosition(lambda q, k: np.einsum("bsid,btjd->bst", q, k))


def heads() -> Any:
    scores, biases = RNG.standard_normal((8, 100, 20)), RNG.standard_normal((8, 100))
    return hm.Attention(scores, biases, 0.1 * RNG.standard_normal((8, 100, 20)))


def shown_boundary(time_limit: float) -> Any:
    network = read_network("mlp:8,30,30,3,seed=0")
    found = hm.decision_boundary(network, hm.WholeSpace(8), time_limit=time_limit)
    repr(found)
    return found


def questions() -> dict[str, Callable[..., Any]]:
    long = read_network("mlp:8,300,300,300,1,seed=0")
    classes = read_network("mlp:6,80,80,3,seed=0")
    wide = read_network("mlp:784,1000,1000,10,seed=0")
    return {
        '`count_cells`, [2,64,64,64,1], `arithmetic="exact"`': counted("2,64,64,64,1", arithmetic="exact"),
        '`count_cells`, [3,40,40,1], `arithmetic="exact"`': counted("3,40,40,1", arithmetic="exact"),
        '`count_cells`, [1,300,300,1], `arithmetic="exact"`': counted("1,300,300,1", arithmetic="exact"),
        "`count_cells`, [4,60,60,1]": counted("4,60,60,1"),
        "`count_cells`, [50,300,300,1]": counted("50,300,300,1"),
        '`trace_segment`, [8,300,300,300,1], `arithmetic="exact"`': partial(
            hm.trace_segment, long, -np.ones(8), np.ones(8), arithmetic="exact"
        ),
        "`estimate_cells`, 10^12 points": partial(
            hm.estimate_cells, read_network("mlp:3,32,32,1,seed=0"), hm.Box.cube(3, -4, 4), n_samples=10**12
        ),
        "`minkowski_vertices`, 8 heads of 60 keys in R^6": partial(
            hm.minkowski_vertices, [RNG.standard_normal((60, 6)) for _ in range(8)]
        ),
        "`verify`, [6,80,80,3]": partial(hm.verify, classes, "y0 <= y1", hm.Box.cube(6, -1, 1)),
        "`decision_boundary`, [6,80,80,3]": partial(hm.decision_boundary, classes, hm.Box.cube(6, -1, 1)),
        "`verify`, [784,1000,1000,10]": partial(
            hm.verify,
            wide,
            " and ".join(f"y0 >= y{i} - 3" for i in range(1, 10)),
            hm.Box.cube(784, -0.1, 0.1),
        ),
        "`decision_boundary` and its `repr`, [8,30,30,3]": shown_boundary,
        "`count_cells`, [2,500,500,500,1]": counted("2,500,500,500,1"),
        "`trace_segment`, [8,1000,1000,1000,1000,1]": partial(
            hm.trace_segment, read_network("mlp:8,1000,1000,1000,1000,1,seed=0"), -np.ones(8), np.ones(8)
        ),
        "`minkowski_vertices`, 8 heads of 60 keys in R^8": partial(
            hm.minkowski_vertices, [RNG.standard_normal((60, 8)) for _ in range(8)]
        ),
        "`minkowski_vertices`, 400 heads of 2,000 keys in the plane": partial(
            hm.minkowski_vertices, [RNG.standard_normal((2000, 2)) for _ in range(400)]
        ),
        "`attention_diagram(k=5).find`, 2,000 keys in R^4": hm.attention_diagram(
            RNG.standard_normal((2000, 4)), k=5
        ).find,
        "`attention_diagram(k=3).find`, 300 keys in R^16": hm.attention_diagram(
            RNG.standard_normal((300, 16)), k=3
        ).find,
        "`common_refinement`, 12 polynomials of 60 terms in R^4": partial(
            hm.common_refinement,
            *(
                hm.TropicalPolynomial(RNG.standard_normal((60, 4)), RNG.standard_normal(60))
                for _ in range(12)
            ),
        ),
        "`advise`, pairwise:2, 1,000 tokens": partial(hm.advise, "pairwise:2", 1000),
        "`estimate_cost`, pairwise:2, 1,000 tokens": partial(
            hm.estimate_cost, "pairwise:2", hm.Architecture(1000, 4, (2, 2), 24)
        ),
        "`information_sets`, 1,000 inputs of 1,000 tokens": partial(
            hm.information_sets,
            hm.Architecture(1000, 4, (2, 2), 24),
            hm.Plan([{"tokens": [PAIRS]}, {"cls": [PAIRS]}]),
            RNG.standard_normal((1000, 1000, 4)),
        ),
        "`certified_temperature`, 2,000 inputs, 2 blocks of 8 heads of 100 keys": partial(
            hm.certified_temperature,
            hm.Network([heads(), heads()]),
            RNG.standard_normal((2000, 20)),
        ),
        "`report`, 2,000 sequences": partial(hm.report, None, RNG.standard_normal((2000, 15, 4))),
        "`compare`, 5,000 sequences": partial(
            hm.compare,
            hm.models.bundled_source(),
            hm.models.bundled_source(),
            RNG.standard_normal((5000, 15, 4)),
        ),
        "`measure_influence`, 2,000 sequences": partial(
            hm.measure_influence, hm.models.bundled_source(), RNG.standard_normal((2000, 15, 4))
        ),
        "`head_atlas`, 5,000 sequences": partial(
            hm.head_atlas, hm.models.bundled_source(), RNG.standard_normal((5000, 15, 4))
        ),
        "`along_training`, 20 checkpoints, 500 sequences": partial(
            hm.along_training, [hm.models.bundled_source()] * 20, RNG.standard_normal((500, 15, 4))
        ),
        "`models.check_assumptions`, 2,000 sequences": partial(
            hm.models.check_assumptions,
            hm.models.bundled_source(),
            {str(i): sequence for i, sequence in enumerate(RNG.standard_normal((2000, 15, 4)))},
        ),
        "`models.router_flips`, 2,000 decisions among 256 experts in each of 100 layers": partial(
            hm.models.router_flips, arrays(100), k=8
        ),
        '`check_claims`, `effort="full"`': partial(hm.check_claims, None, "full"),
        '`reproduce("tropical.fig6")`, profile paper': partial(reproduced, "tropical.fig6"),
        '`reproduce("infoflow.fig4")`, profile paper': partial(reproduced, "infoflow.fig4"),
        "`training.train`, 10^8 samples": lambda time_limit: hm.training.train(
            training_job(10**8), time_limit=time_limit
        ),
        "`training.examples`, 10^7 sequences": partial(
            hm.training.examples, {"name": "triangle_center"}, 8, 10**7
        ),
        "`run_study`, a count of [4,60,60,1]": study,
        "`attention_diagram(...).find`, 20,000 keys in R^24": lambda time_limit: hm.attention_diagram(
            RNG.standard_normal((20_000, 24))
        ).find(time_limit=time_limit),
        "`geometry.vertices_from_subsets`, 60 heads of 8 keys in R^4": partial(
            hm.geometry.vertices_from_subsets, RNG.standard_normal((60, 8, 4)), n_samples=20_000
        ),
        "`temperature.surviving_cells`, 10^6 points": partial(
            hm.temperature.surviving_cells,
            read_network("mlp:8,300,300,300,1,seed=0"),
            RNG.standard_normal((10**6, 8)),
            0.1,
        ),
        "`targets.switch_support`, 4,000 segments": partial(
            hm.targets.switch_support, hm.targets.triangle_center(), n=4000, n_tokens=40
        ),
        "`targets.winning_supports`, 10^5 sequences": partial(
            hm.targets.winning_supports, hm.targets.triangle_center(), 60, n=10**5
        ),
    }


def table(record: dict[str, Any]) -> str:
    """Of the record, as docs/reliability.md shows it."""
    head = (f"question, `time_limit={record['limit']:g}`", "seconds", "of the processor", "answer")
    return records.rows(head, *record["answers"])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=float, default=3.0, help="seconds")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument(
        "--only", default="", help="ask the questions with this in their name; keep no record"
    )
    parser.add_argument("--table", action="store_true", help="ask nothing")
    options = parser.parse_args()
    limit, late = options.limit, 0
    if options.table:
        print(table(records.read(options.record)))
        return 0
    answers: list[tuple[str, str, str, str]] = []
    for name, ask in questions().items():
        if options.only not in name:
            continue
        for seconds in (0.2, limit):  # once for the kernels
            begin, work = time.monotonic(), time.process_time()
            try:
                found = ask(time_limit=seconds)
                complete = getattr(found, "complete", True)
                said = f"complete: {found}" if complete else "incomplete, and says so"
                said = getattr(found, "verdict", said)
            except hm.errors.HardmaxError as error:
                said = f"refused: {error}"
            taken, worked = time.monotonic() - begin, time.process_time() - work
        late += taken > limit + 2.0
        answers.append((name, f"{taken:.1f}", f"{worked:.1f}", said))
        print(*answers[-1], sep=" | ", flush=True)
    record = {"limit": limit, "answers": answers}
    if not options.only:
        records.write(options.record, record)
    print(table(record))
    return bool(late)


if __name__ == "__main__":
    sys.exit(main())
