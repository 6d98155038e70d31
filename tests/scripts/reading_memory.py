"""How much memory reading a long text takes above the model itself: 2048 tokens on 12 layers.

Run ``python tests/scripts/reading_memory.py [gpt2|llama] [float32|bfloat16] [tokens]``; a random model of the
size of GPT-2 small is made, loaded from its folder, and read. What counts is the largest memory of the
process during the reading less what it holds before. Linux only.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel

from hardmax.models.reading.loading import open_model


def main(family: str = "gpt2", dtype: str = "float32", tokens: str = "2048") -> None:
    n = int(tokens)
    config = AutoConfig.for_model(
        family,
        vocab_size=50257,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        max_position_embeddings=n,
        initializer_range=0.1,
    )
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        AutoModel.from_config(config).to(getattr(torch, dtype)).save_pretrained(folder)
        # in a process of its own, because the model above must not count
        command = [sys.executable, __file__, family, dtype, tokens, folder, "--child"]
        subprocess.run(command, check=True)


def child(family: str, dtype: str, tokens: str, folder: str) -> None:
    torch.set_num_threads(1)
    model = open_model(folder)
    pages = int(Path("/proc/self/statm").read_text().split()[1])  # now, not at its peak while loading
    before = pages * resource.getpagesize() / 2**30
    inputs = {"input_ids": torch.arange(int(tokens))[None] * 7919 % 50257}
    heads = []
    start = time.process_time()
    reading = model.read(inputs, lambda layer: heads.append(layer.heads))
    seconds = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{family} {dtype} {tokens} tokens, {len(heads)} layers: {after - before:.2f} GB above "
        f"{before:.2f} GB (process with model and libraries), {seconds:.0f} s for reading, "
        f"{reading.forward_seconds:.1f} s for the plain pass; scores {reading.score_difference:.1e}, "
        f"probabilities {reading.probability_difference:.1e}, native {reading.native_difference}"
    )


if __name__ == "__main__":
    if sys.argv[-1] == "--child":
        child(*sys.argv[1:5])
    else:
        main(*sys.argv[1:])
