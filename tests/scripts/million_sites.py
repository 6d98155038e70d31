"""A Voronoi diagram of a million sites in the plane, checked as the tests check a smaller one.

python tests/scripts/million_sites.py                 # about half a minute
python tests/scripts/million_sites.py 3000000
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "oracles"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from test_power_diagram_oracles import check_sites

if __name__ == "__main__":
    n_sites, begin = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, time.process_time()
    check_sites(n_sites)
    print(
        f"{n_sites:,} sites: every cell has a witness, 200 of them checked in rationals; "
        f"{time.process_time() - begin:.1f} CPU s"
    )
