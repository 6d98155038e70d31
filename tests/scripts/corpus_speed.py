"""How fast and in how much memory a corpus is read: texts per second, and the peak after each quarter.

    python tests/scripts/corpus_speed.py MODEL [TEXTS]

MODEL is a folder of a Hugging Face model. Texts are random words, 8 to 24 each.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time

import numpy as np

import hardmax as hm
from hardmax.models.reading.loading import open_model

WORDS = "the a cat dog bird red old man house tree sat ran looked at on over and quickly it was never"


def peak() -> float:
    """The most memory this process has held, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(model: str, n: int) -> None:
    """Read n texts and print what it took."""
    rng = np.random.default_rng(0)
    words = WORDS.split()
    texts = [" ".join(rng.choice(words, rng.integers(8, 25))) for _ in range(n)]
    source = open_model(model)
    print(f"opened: {peak():.0f} MB", flush=True)
    start, cpu = time.perf_counter(), time.process_time()

    def report(done: int, total: int) -> None:
        if done % max(1, total // 4) == 0:
            seconds = time.perf_counter() - start
            print(
                f"{done} texts: {seconds:.0f} s, {done / seconds:.1f} per second, peak {peak():.0f} MB",
                flush=True,
            )

    with tempfile.TemporaryDirectory() as folder:
        atlas = hm.head_atlas(source, texts, checkpoint=f"{folder}/run", progress=report)
    print(atlas)
    spent, kept = time.process_time() - cpu, atlas.values.nbytes / n / 1e3
    print(f"{atlas.seconds:.1f} s, {spent:.1f} CPU s, {kept:.1f} kB kept per text")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
