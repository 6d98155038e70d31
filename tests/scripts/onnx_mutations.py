"""Broken ONNX files are read or refused with a sentence: no traceback, no hang, no memory without end.

    python tests/scripts/onnx_mutations.py --count 2000 --start 0

Every file is read in a process that may take ``--memory`` bytes and ``--patience`` seconds per file. Files
that are read nevertheless are run by onnxruntime too, if it loads them, and the values must agree.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS)]

import numpy as np  # noqa: E402
from oracles.mutated_onnx import mutated  # noqa: E402

import hardmax as hm  # noqa: E402
from hardmax.errors import HardmaxError  # noqa: E402


def read_one(number: int, folder: Path) -> dict:
    """What happens to one file."""
    kind, data = mutated(number)
    path = folder / "model.onnx"
    path.write_bytes(data)
    begin = time.process_time()
    try:
        network = hm.Network.from_onnx(path)
        outcome, words = "read", repr(network)
    except HardmaxError as error:
        outcome, words = "refused", str(error)
    except BaseException as error:
        outcome, words = "traceback", "".join(traceback.format_exception(error, limit=-4))
    seconds = time.process_time() - begin
    if outcome == "read" and len(data) < 10**6:
        outcome, words = judged(network, path, words)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {
        "number": number,
        "kind": kind,
        "outcome": outcome,
        "words": words[:2000],
        "seconds": seconds,
        "megabytes": megabytes,
    }


def judged(network: hm.Network, path: Path, words: str) -> tuple[str, str]:
    """The network against onnxruntime at some points, where that loads the file."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    try:
        session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
        (entry,) = session.get_inputs()
        shape = network.description["input_shape"]
        kind = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}[
            entry.type
        ]
        points = np.random.default_rng(0).normal(size=(3, *shape)).astype(kind)
        expected = np.array(
            [session.run(None, {entry.name: point})[0].reshape(-1) for point in points], dtype=float
        )
    except Exception:
        return "read, onnxruntime does not", words
    if "dropped" in network.description or not np.isfinite(expected).all():
        return "read", words
    try:
        found = network(points.reshape(3, -1).astype(float))
    except HardmaxError as error:
        return "read", str(error)
    size = np.abs(expected).max() + sum(
        float(np.abs(b.reach(np.full(b.d_in, 4.0))).max()) for b in network.blocks
    )
    if found.shape != expected.shape or np.abs(found - expected).max() > (
        1e-5 if kind != np.float16 else 1e-1
    ) * (1.0 + size):
        return "other values", f"{words}: {found[0][:5]} where onnxruntime has {expected[0][:5]}"
    return "read, values agree", words


def run(options: argparse.Namespace) -> None:
    """Read a range of files in this process, one line of JSON each."""
    warnings.simplefilter("error")
    warnings.filterwarnings("default", category=DeprecationWarning)
    resource.setrlimit(resource.RLIMIT_DATA, (options.memory, options.memory))

    def give_up(*_: object) -> None:
        raise TimeoutError(f"not finished after {options.patience} s")

    signal.signal(signal.SIGALRM, give_up)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.start, options.start + options.count):
            signal.alarm(options.patience)
            print(json.dumps(read_one(number, Path(folder))), flush=True)
            signal.alarm(0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--memory", type=int, default=4 * 2**30)
    parser.add_argument("--patience", type=int, default=60)
    parser.add_argument("--part", type=int, default=100, help="files per process")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        run(options)
        return 0
    found: list[dict] = []
    stop = options.start + options.count
    number = options.start
    while number < stop:  # a process that dies is followed by one that begins behind the file that killed it
        count = min(options.part, stop - number)
        arguments = [f"--{name}={getattr(options, name)}" for name in ("memory", "patience")]
        command = [sys.executable, __file__, "--inside", f"--start={number}", f"--count={count}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        found += lines
        number += len(lines)
        if len(lines) < count:
            words = f"exit {done.returncode}: {done.stderr[-500:]}"
            found.append(
                {
                    "number": number,
                    "kind": mutated(number)[0],
                    "outcome": "process died",
                    "words": words,
                    "seconds": 0.0,
                    "megabytes": 0,
                }
            )
            number += 1
    bad = [line for line in found if line["outcome"] in ("traceback", "process died", "other values")]
    bad += [line for line in found if "\n" in line["words"] and line not in bad]
    for line in bad:
        print(f"number {line['number']} ({line['kind']}): {line['outcome']}\n{line['words']}")
    print(
        ", ".join(
            f"{count} {outcome}"
            for outcome, count in Counter(line["outcome"] for line in found).most_common()
        )
    )
    slowest, largest = (max(found, key=lambda line: line[key]) for key in ("seconds", "megabytes"))
    print(
        f"{len(found)} files, {len(bad)} bad; slowest {slowest['seconds']:.1f} s of CPU (number "
        f"{slowest['number']}, {slowest['kind']}), most memory {largest['megabytes']} MB (by number "
        f"{largest['number']})"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
