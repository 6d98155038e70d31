"""A small causal language model along its training, on text that a grammar writes.

    python examples/grammar_language_model.py                 a few steps, seconds
    python examples/grammar_language_model.py 3000 out        the one of docs/along-training.md: minutes

A GPT-2 of two layers with two heads learns sentences with agreement in number between a subject and a verb
that stand apart, and names that come back. Checkpoints are Hugging Face folders; hardness, margins,
information sets and exact cells follow from them (needs the extra models). At the end the model writes, and
every step shows what its heads read.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import hardmax as hm

NOUNS = {"one": ["cat", "dog", "bird", "king"], "many": ["cats", "dogs", "birds", "kings"]}
VERBS = {"one": ["sees", "likes", "hears"], "many": ["see", "like", "hear"]}
NAMES = ["anna", "bert", "carl", "dora", "emil", "fred", "gina", "hans"]
WORDS = ["[PAD]", "[UNK]", ".", "the", "that", "said", *NAMES]
PROMPT = "anna said the cats that the dog"
VOCABULARY = [*WORDS, *(word for part in (NOUNS, VERBS) for words in part.values() for word in words)]


def sentence(rng: np.random.Generator) -> str:
    """A speaker, a subject with a relative clause, its verb, and the speaker's name again."""
    number, other = rng.choice(["one", "many"], 2)
    subject, inner, last = rng.choice(NOUNS[number]), rng.choice(NOUNS[other]), rng.choice(NOUNS[other])
    clause = f" that the {inner} {rng.choice(VERBS[other])}" if rng.random() < 0.6 else ""
    name = rng.choice(NAMES)
    return f"{name} said the {subject}{clause} {rng.choice(VERBS[number])} the {last} said {name} ."


def text(rng: np.random.Generator, n: int = 2) -> str:
    """Some sentences."""
    return " ".join(sentence(rng) for _ in range(n))


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per word."""
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]")


def checkpoints(folder: Path, n_steps: int) -> list[Path]:
    """Train, and keep a folder at 0 and at n, n/2, n/4, ... steps."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    words, rng = tokenizer(), np.random.default_rng(0)
    config = GPT2Config(
        vocab_size=len(VOCABULARY), n_positions=64, n_embd=32, n_layer=2, n_head=2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    steps = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(steps, 3e-3, total_steps=n_steps + 1, pct_start=0.1)
    kept, at = {0}, n_steps
    while at >= max(8, n_steps // 256):
        kept.add(at)
        at //= 2
    found = []
    for step in range(n_steps + 1):
        if step in kept:
            path = folder / f"checkpoint-{step}"
            model.eval().save_pretrained(path)
            words.save_pretrained(path)
            model.train()
            found.append(path)
        batch = words([text(rng) for _ in range(32)], return_tensors="pt", padding=True)
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        batch.pop("token_type_ids", None)
        loss = model(**batch, labels=labels).loss
        if step in kept:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
        steps.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        schedule.step()
    return found


def main(n_steps: int = 24, out: Path | None = None) -> None:
    """Train, follow, print."""
    with tempfile.TemporaryDirectory() as temporary:
        folders = checkpoints(Path(temporary), n_steps)
        rng = np.random.default_rng(1)
        texts = [text(rng) for _ in range(40)]
        found = hm.along_training(folders, texts, n_cells=2, hard=0.5)
        written = hm.models.generation_atlas(folders[-1], PROMPT, n_steps=16)
    print(found, f"{found.seconds:.1f} s")
    share, margin = found.interval("share_within_10"), found.interval("margin")
    print("step   hard, head by head    margins              known  cells, layer by layer")
    for c, step in enumerate(found.steps):
        hard = " ".join(f"{value:4.0%}" for value in share.mean[c])
        lead = " ".join(f"{value:5.2f}" for value in margin.mean[c])
        known = " ".join(f"{value:4.0%}" for value in found.set_sizes[c].mean(axis=0)[1:])
        cells = " ".join(f"{value:6.1f}" for value in found.cells[c].mean(axis=0))
        print(f"{step:>5}  {hard}  {lead}  {known}  {cells}")
    for event in found.events:
        sure = "" if event.sure else ", not sure"
        print(f"{event.step:>5}  layer {event.layer}, head {event.head} becomes {event.what}{sure}")
    print(written, " ".join(written.written))
    if out is not None:
        out.mkdir(exist_ok=True)
        written.save(out / "generation.npz")
        written.plot().figure.savefig(out / "generation.png", dpi=110)
        found.save(out / "curves.npz")
        found.plot().figure.savefig(out / "curves.png", dpi=110)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*([int(given[0])] if given else []), *([Path(given[1])] if len(given) > 1 else []))
