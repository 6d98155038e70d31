"""Every benchmark in one table: ``python benchmarks/run.py``. Ratios within one run, on one thread."""

from __future__ import annotations

import sys

from timing import Comparison, print_table

import bench_flow  # isort: skip (timing sets the thread counts first)
import bench_training  # isort: skip
import bench_minkowski  # isort: skip
import bench_models  # isort: skip
import bench_order_k  # isort: skip
import bench_power  # isort: skip
import bench_regions  # isort: skip
import bench_rules  # isort: skip
import bench_segment  # isort: skip
import bench_space  # isort: skip


def main() -> int:
    comparisons: list[Comparison] = [
        *bench_flow.run(),
        *bench_training.run(),
        *bench_minkowski.run(),
        *bench_models.run(),
        *bench_order_k.run(),
        *bench_power.run(),
        *bench_regions.run(),
        *bench_rules.run(),
        *bench_segment.run(),
        *bench_space.run(),
    ]
    print_table(comparisons)
    return 1 if any(line.fails for line in comparisons) else 0


if __name__ == "__main__":
    sys.exit(main())
