"""Random plans against the plain loop, as many as wanted: ``python tests/scripts/flow_sweep.py 5000 0``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "unit/flow"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hypothesis import HealthCheck, given, seed, settings
from test_information_sets import plans, test_any_plan_does_what_the_plain_loop_does


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    check = given(plans())(test_any_plan_does_what_the_plain_loop_does.hypothesis.inner_test)
    quiet = settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    seed(first)(quiet(check))()
    print(f"{count} plans agree with the plain loop")


if __name__ == "__main__":
    main()
