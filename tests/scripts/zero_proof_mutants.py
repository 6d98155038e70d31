"""Wrong zero proofs against the tests that must notice: `python tests/scripts/zero_proof_mutants.py`.

Each mutant is one change of the text of a source: a prime too few, a bound halved, a check left out. It is
applied to a copy of the sources, and tests that are part of `make test` run against that copy until one
fails. The same tests first run against a copy in which that source has one more comment: so kernels are
compiled there too, and the time is one to compare with. A mutant that takes five times as long, and a minute
more, is stopped and counts as caught, by the limit: a proof that accepts too much can send an engine in
circles. Where the tests fail without the change there is no result.

Parts of names choose some of the mutants. The exit code is 1 unless all of them are caught.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LADDER = "regions/engine/sign_kernels.py"
TWINS = "regions/engine/twin_kernels.py"
LINE = "regions/segment/sign_kernels.py"
WHOLE = "regions/search/integer_kernels.py"
DEPENDENCE = "regions/search/dependence_kernels.py"

TESTS = {
    "plane": [
        "test_signs.py",
        "-k",
        "(but_one or dependent or at_vertices) and not -1] and not 3] and not [4]",
    ],
    "line": ["test_signs.py", "-k", "but_one and -1]"],
    "ties": ["test_tied_keys.py", "-k", "denominators and -2]"],
    "search": ["test_search_programs.py", "-k", "prime or prove or exact_up or taken_for_equal"],
    "whole": ["test_tied_keys.py", "-k", "whole_numbers"],
}


class Mutant(NamedTuple):
    name: str
    file: str
    before: str
    after: str
    tests: str


MUTANTS = [
    Mutant("vertices: one prime fewer", LADDER, "known = -2.0 ", "known = 21.9 ", "plane"),
    Mutant("vertices: bound halved", LADDER, "    if not (bits < 1e6):\n        return OPEN\n    known",
           "    bits *= 0.5\n    if not (bits < 1e6):\n        return OPEN\n    known", "plane"),
    Mutant("vertices: no denominators", LADDER,
           "bits += rungs.denominators[layer] + state.errors[layer, MEANS]", "bits += 0.0", "plane"),
    Mutant("vertices: dependent facets accepted", LADDER, "known > bits and independent",
           "known > bits", "plane"),
    Mutant("zero rows: one prime fewer", LADDER, "bits = 2.0 + _bits(most) + denominator\n",
           "bits = 2.0 + _bits(most) + denominator - modulo.BITS\n", "plane"),
    Mutant("zero rows: bound halved", LADDER, "bits = 2.0 + _bits(most) + denominator\n",
           "bits = 0.5 * (2.0 + _bits(most) + denominator)\n", "plane"),
    Mutant("zero rows: one coordinate too few", LADDER,
           "        for c in range(D):\n            z = here.z_at + c * here.rows\n            value",
           "        for c in range(D - 1):\n            z = here.z_at + c * here.rows\n            value",
           "plane"),
    Mutant("twins: one prime fewer", LADDER, "bits = 2.0 + _bits(most) + 2.0 * denominator",
           "bits = 2.0 + _bits(most) + 2.0 * denominator - modulo.BITS", "plane"),
    Mutant("twins: bound halved", LADDER, "bits = 2.0 + _bits(most) + 2.0 * denominator",
           "bits = 0.5 * (2.0 + _bits(most) + 2.0 * denominator)", "plane"),
    Mutant("twins: one denominator", LADDER, "bits = 2.0 + _bits(most) + 2.0 * denominator",
           "bits = 2.0 + _bits(most) + denominator\n", "plane"),
    Mutant("tied keys: no shares in denominators", TWINS, "return bits + math.log2(float(common)) + 1e-9",
           "return 0.0", "ties"),
    Mutant("tied keys: bits of shares halved", TWINS, "return bits + math.log2(float(common)) + 1e-9",
           "return 0.5 * (bits + math.log2(float(common)))", "ties"),
    Mutant("tied keys: one prime fewer", LADDER, "bits = 2.0 + _bits(most) + denominator\n",
           "bits = 2.0 + _bits(most) + denominator - modulo.BITS\n", "ties"),
    Mutant("line: one prime fewer", LADDER, "known = -2.0 ", "known = 21.9 ", "line"),
    Mutant("line: bound of vertices halved", LADDER,
           "    if not (bits < 1e6):\n        return OPEN\n    known",
           "    bits *= 0.5\n    if not (bits < 1e6):\n        return OPEN\n    known", "line"),
    Mutant("line: bound of zero rows halved", LADDER, "bits = 2.0 + _bits(most) + denominator\n",
           "bits = 0.5 * (2.0 + _bits(most) + denominator)\n", "line"),
    Mutant("line: bound of twins halved", LADDER, "bits = 2.0 + _bits(most) + 2.0 * denominator",
           "bits = 0.5 * (2.0 + _bits(most) + 2.0 * denominator)", "line"),
    Mutant("line: values at places halved", LINE,
           "    t = alpha * (abs(s) + e) + kappa + abs(a) * e + 5.0 * UNIT * (size_a * abs(s) + size_c)\n",
           "    t = 1e-3 * (alpha * (abs(s) + e) + kappa)\n", "line"),
    Mutant("search: one prime fewer", DEPENDENCE, "while bits > 0.0:", "while bits > PRIME_BITS:", "search"),
    Mutant("search: bound halved", DEPENDENCE, "bits += 0.5 * np.log2(square) + 1e-6",
           "bits += 0.25 * np.log2(square)", "search"),
    Mutant("search: one rank more", DEPENDENCE, "if rank == most:", "if rank == most + 1:", "search"),
    Mutant("search: rows nearly whole", WHOLE, "+ rounding < 0.49", "+ rounding < 0.98", "whole"),
    Mutant("search: no last rounding", WHOLE, "3.0 * UNIT * abs(found)", "0.0 * abs(found)", "whole"),
    Mutant("search: one digit more", WHOLE, "DIGITS = 2.0**53", "DIGITS = 2.0**54", "search"),
    Mutant("search: no shares of tied keys", WHOLE, "multiple = e[MULTIPLE] * u[DENOMINATOR]",
           "multiple = min(e[MULTIPLE], 1.0) * u[DENOMINATOR]", "whole"),
    Mutant("search: no denominators", WHOLE, "multiple = e[MULTIPLE] * u[DENOMINATOR]",
           "multiple = e[MULTIPLE]", "whole"),
]  # fmt: skip


def run(file: str, before: str, after: str, tests: str, limit: float | None) -> tuple[str, float]:
    """Which test fails first against sources with a change, "" if none does; and after how many seconds.

    Without ``after`` the source only has one more comment.
    """
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    name, *choice = TESTS[tests]
    command = [sys.executable, "-m", "pytest", f"tests/unit/regions/{name}", *choice]
    command += ["-q", "-x", "-p", "no:cacheprovider"]
    with tempfile.TemporaryDirectory() as folder:
        # compiled kernels come along: they are valid until a source changes
        shutil.copytree(ROOT / "src", Path(folder) / "src")
        path = Path(folder) / "src" / "hardmax" / file
        text = path.read_text()
        if text.count(before) != 1:
            raise SystemExit(f"{before!r} stands {text.count(before)} times in {file}, not once.")
        path.write_text(text.replace(before, after) if after else f"{text}# the same\n")
        environment["PYTHONPATH"] = str(Path(folder) / "src")
        begin = time.monotonic()
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return "the limit", time.monotonic() - begin
    seconds = time.monotonic() - begin
    if done.returncode == 0:
        return "", seconds
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return failed[0].partition("::")[2].partition(" - ")[0] if failed else "no test, a crash", seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of mutants; all of them by default")
    options = parser.parse_args()
    chosen = [m for m in MUTANTS if not options.names or any(name in m.name for name in options.names)]
    caught = 0
    unchanged: dict[tuple[str, str], tuple[str, float]] = {}
    for mutant in chosen:
        name, file, before, after, tests = mutant
        if (file, tests) not in unchanged:
            failed, seconds = unchanged[file, tests] = run(file, before, "", tests, None)
            print(f"{'  unchanged: ' + tests:40} {seconds:5.0f} s  {failed or 'passes'}", flush=True)
        failed, usual = unchanged[file, tests]
        if failed:
            print(f"{name:40}          no result: tests fail without the change", flush=True)
            continue
        failed, seconds = run(file, before, after, tests, 60.0 + 5.0 * usual)
        caught += failed != ""
        print(f"{name:40} {seconds:5.0f} s  {'caught by ' + failed if failed else 'SURVIVED'}", flush=True)
    print(f"{caught} of {len(chosen)} caught")
    sys.exit(caught < len(chosen))


if __name__ == "__main__":
    main()
