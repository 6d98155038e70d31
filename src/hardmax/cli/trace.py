"""``hardmax trace``: a network or a transformer along a segment, piece by piece."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import hardmax as hm
from hardmax.cli.inputs import exact_number, read_arrays, read_result
from hardmax.cli.models import refuse_words
from hardmax.cli.networks import DESCRIPTIONS, read_network
from hardmax.cli.numbers import NUMBER, REAL, WHOLE, WholeRange
from hardmax.cli.outputs import (
    check_targets,
    counted,
    number,
    output_options,
    print_json,
    print_table,
    save_and_draw,
)
from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.networks.transformer import Transformer
from hardmax.randomness import generator_of
from hardmax.results import plain

if TYPE_CHECKING:
    from hardmax.training.trained_models import TrainedModel

_TRACES = ("SegmentTrace", "TransformerTrace", "CertifiedTrace")
_RANDOM = re.compile(r"random:[0-9]{1,9}")
_SHOWN = 3  # changes at one place in the table


@click.command()
@click.argument("network", metavar="NETWORK")
@click.option(
    "--from", "start", metavar="A", help="Where the segment begins: a file, numbers or random:SEED."
)
@click.option("--to", "end", metavar="B", help="Where it ends.")
@click.option("--text", help="With the folder of a BERT model: the text at the beginning.")
@click.option("--to-text", help="The text at the end, with as many tokens.")
@click.option("--depth", type=WHOLE, metavar="N", help="With such a folder: only its first N layers.")
@click.option(
    "--rule",
    type=click.Choice(["hardmax", "softmax"]),
    help="How a trained model reads: at temperature zero (the default), or as it was trained.",
)
@click.option("--exact", is_flag=True, help="Decide everything in rationals; networks of this kind alone.")
@click.option("--max-pieces", type=WholeRange(min=1), metavar="N", help="Stop after this many pieces.")
@click.option("--time-limit", type=REAL, metavar="S", help="Stop after this many seconds.")
@click.option(
    "--bracket-width",
    type=NUMBER,
    default=1e-12,
    show_default=True,
    metavar="W",
    help="How short brackets should be where changes are enclosed, as a share of the segment.",
)
@output_options
def trace(
    network: str,
    start: str | None,
    end: str | None,
    text: str | None,
    to_text: str | None,
    depth: int | None,
    rule: str | None,
    exact: bool,
    max_pieces: int | None,
    time_limit: float | None,
    bracket_width: Any,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """A network or a transformer along a segment, piece by piece.

    NETWORK is a file written by network.save or transformer.save, a description as in hardmax regions, the
    name of a bundled model (pairwise-2, pairwise-2-relu, pairwise-2-relu-64), a .safetensors file of a model
    that hardmax trained, or the folder of a BERT model. A saved trace is shown again.

    A and B are points, or sequences for a transformer: a file of numbers (one row per token), numbers as in
    0,0,1 (rows as in 0,1:1,0), or random:SEED. Trained models get their CLS token added.

    Piecewise-affine networks are traced exactly. Norms, smooth activations and softmax are enclosed: a change
    is known up to a bracket, and what could not be separated is counted.

    \b
    Examples:
      hardmax trace mlp:2,64,64,1,seed=0 --from -4,-4 --to 4,4 --plot trace.svg
      hardmax trace pairwise-2-relu --from random:0 --to random:1
      hardmax trace pairwise-2 --rule softmax --from random:0 --to random:1 --json
      hardmax trace transformer.npz --from first.csv --to last.csv --out trace.npz
      hardmax trace ./all-MiniLM-L6-v2 --text "The cat sat." --to-text "The dog sat." --depth 2
    """
    check_targets(out, plot)
    given = (start, end, text, to_text, depth, rule)
    found = read_result(Path(network), "Network", "Transformer", *_TRACES)
    if found is not None and found.kind in _TRACES:
        if any(option is not None for option in given) or exact:
            raise InvalidInputError(f"{network} is a saved trace; it is shown without further options.")
    else:
        model, first, last = _asked(network, found, *given)
        found = hm.trace_segment(
            model,
            first,
            last,
            arithmetic="exact" if exact else "certified",
            max_pieces=max_pieces,
            time_limit=time_limit,
            progress=sys.stderr.isatty(),
            bracket_width=float(bracket_width),
        )
    save_and_draw(found, out, plot)
    if as_json:
        print_json(_report(found))
    else:
        _print(found)


# Asking
# ----------------------------------------------------------------------------------------------------------


def _asked(
    network: str,
    stored: Any,
    start: str | None,
    end: str | None,
    text: str | None,
    to_text: str | None,
    depth: int | None,
    rule: str | None,
) -> tuple[Any, Any, Any]:
    """What is traced, and the two ends of the segment."""
    if stored is None and Path(network).is_dir():
        if start is not None or end is not None or rule is not None:
            raise InvalidInputError(
                "the folder of a model takes --text and --to-text, not --from, --to, --rule."
            )
        return _encoder(network, text, to_text, depth)
    refuse_words(text, to_text)
    if depth is not None:
        raise InvalidInputError("--depth belongs to the folder of a model; leave it out.")
    if start is None or end is None:
        raise InvalidInputError("--from A and --to B must say where the segment begins and ends.")
    trained = _trained(network) if stored is None else None
    if trained is not None:
        first, last = _sequence(trained, start, "--from"), _sequence(trained, end, "--to")
        model = trained.to_transformer(rule=rule or "hardmax")
        return model, trained.with_cls(first), trained.with_cls(last)
    if rule is not None:
        raise InvalidInputError("--rule belongs to a trained model; a saved network has rules of its own.")
    plain_model = _plain(network) if stored is None else stored
    return plain_model, _end(plain_model, start, "--from"), _end(plain_model, end, "--to")


def _encoder(folder: str, text: str | None, to_text: str | None, depth: int | None) -> tuple[Any, Any, Any]:
    from hardmax.models.reading.loading import open_model

    if text is None or to_text is None:
        raise InvalidInputError(
            "the folder of a model needs --text and --to-text, the two ends of the segment."
        )
    opened = open_model(folder)
    ends = [hm.models.token_embeddings(opened, words) for words in (text, to_text)]
    if len(ends[0]) != len(ends[1]):
        raise DimensionMismatchError(
            f"--text and --to-text must have as many tokens, but have {len(ends[0])} and {len(ends[1])}; "
            "exchange words for words that are one token each."
        )
    return hm.models.encoder_transformer(opened, depth=depth), ends[0], ends[1]


def _trained(network: str) -> TrainedModel | None:
    from hardmax.training.trained_models import MODELS, bundled_model, load_model

    if network in MODELS:
        return bundled_model(network)
    return load_model(network) if Path(network).suffix == ".safetensors" else None


def _plain(network: str) -> Any:
    from hardmax.training.trained_models import MODELS

    described = network.partition(":")[0] in DESCRIPTIONS
    if not described and not Path(network).exists():
        raise InvalidInputError(
            "NETWORK must be a saved network or transformer, a description as in "
            f"{DESCRIPTIONS['mlp']}, a bundled model ({', '.join(MODELS)}) or the folder of a model, but "
            f"there is no {network!r}."
        )
    return read_network(network)


def _sequence(model: TrainedModel, words: str, name: str) -> Any:
    """A sequence of a trained model; a random one is from the domain of its target."""
    from hardmax.training.data import outputs_of

    shape = (model.shape.n_tokens, model.shape.d_token)
    if _RANDOM.fullmatch(words):
        rng = int(words.partition(":")[2])
        job = (model.about or {}).get("job")
        if job is None:
            return generator_of(rng).uniform(-1.0, 1.0, size=shape)
        return np.asarray(outputs_of(job["target"])[0].sample(1, shape[0], rng=rng)[0], dtype=np.float64)
    rows = _numbers(words, name)
    if rows.shape != shape:
        raise DimensionMismatchError(
            f"{name} must hold {shape[0]} tokens of {shape[1]} numbers, but has shape {rows.shape}."
        )
    return rows


def _end(network: Any, words: str, name: str) -> Any:
    """A point of a network, or a sequence of a transformer."""
    sequences = isinstance(network, Transformer)
    if _RANDOM.fullmatch(words):
        if sequences and network.n_tokens is None:
            raise InvalidInputError(
                f"{name} must be a file or numbers: a random sequence needs a length, and this transformer "
                "takes any."
            )
        size = (network.n_tokens, network.d) if sequences else network.d
        return np.random.default_rng(int(words.partition(":")[2])).standard_normal(size)
    rows = _numbers(words, name)
    return rows if sequences else rows[0] if rows.shape[0] == 1 else rows.reshape(-1)


def _numbers(words: str, name: str) -> Any:
    """The rows of numbers in a file, or those that were typed."""
    path = Path(words)
    if path.suffix.lower() in (".npy", ".npz", ".csv"):
        arrays = read_arrays(path)
        if len(arrays) != 1 or next(iter(arrays.values())).ndim not in (1, 2):
            raise DimensionMismatchError(f"{path} must hold one vector or one matrix of numbers.")
        return np.atleast_2d(next(iter(arrays.values())))
    rows = [[exact_number(entry) for entry in row.split(",")] for row in words.split(":")]
    if len({len(row) for row in rows}) != 1:
        raise DimensionMismatchError(
            f"{name} must have rows of one length, as in 0,1:1,0, but was {words!r}."
        )
    return np.array(rows, dtype=object)


# Telling
# ----------------------------------------------------------------------------------------------------------


def _ends(found: Any) -> tuple[list[float], list[float]]:
    table = found._table()
    return np.asarray(table["begin"]).tolist(), np.asarray(table["end"]).tolist()


def _changes(found: Any) -> Iterator[list[dict[str, Any]]]:
    """What changes between one piece and the next: heads with old and new key, units that go on or off."""
    routings = found.routings
    relu = found.signatures.relu if found.kind == "SegmentTrace" else found.relu
    for i in range(found.n_pieces - 1):
        heads = [
            _place("head", at) | {"from": int(routings[(i, *at)]), "to": int(routings[(i + 1, *at)])}
            for at in np.argwhere(routings[i] != routings[i + 1]).tolist()
        ]
        units = [
            _place("unit", at) | {"on": bool(relu[(i + 1, *at)])}
            for at in np.argwhere(relu[i] != relu[i + 1]).tolist()
        ]
        yield [*heads, *units]


def _place(what: str, at: list[int]) -> dict[str, Any]:
    return {what: at[0]} | ({"token": at[1]} if len(at) > 1 else {})


def _said(change: dict[str, Any]) -> str:
    where = f", token {change['token']}" if "token" in change else ""
    if "head" in change:
        return f"head {change['head']}{where}: {change['from']} -> {change['to']}"
    return f"unit {change['unit']}{where}: {'on' if change['on'] else 'off'}"


def _report(found: Any) -> dict[str, Any]:
    begin, end = _ends(found)
    certified = found.kind == "CertifiedTrace"
    report: dict[str, Any] = {
        "kind": found.kind,
        "n_pieces": found.n_pieces,
        "complete": found.complete,
        "exact": False if certified else found.exact,
        "begin": begin,
        "end": end,
        "breakpoints": found.breakpoints,
        "errors": found.errors,
        "changes": [*_changes(found)],
        "routings": found.routings,
    }
    if certified:
        report |= {"n_unseparated": found.n_unseparated, "brackets": found.brackets, "proven": found.proven}
    return {**plain(report), "provenance": plain(found.provenance)}


def _print(found: Any) -> None:
    rows: list[list[str]] = []
    for begin, end, changes in zip(*_ends(found), [*_changes(found), []], strict=False):
        said = [_said(change) for change in changes[:_SHOWN]]
        if len(changes) > _SHOWN:
            said.append(f"and {len(changes) - _SHOWN} more")
        rows.append([str(len(rows)), number(begin), number(end), "; ".join(said)])
    notes = ["Places are shares of the way; heads, units, tokens and keys count from 0."]
    if found.kind == "CertifiedTrace":
        proven = int(found.proven.sum())
        notes.append(
            f"{counted(proven, 'bracket')} with exactly one change each, proven; {found.n_unseparated} not "
            "separated; every piece is proven."
        )
    else:
        notes.append("Every break and its place among the others is exact." if found.exact else "Not proven.")
    if not found.complete:
        notes.append(f"Stopped after {_ends(found)[1][-1] if rows else 0.0:.6g} of the way.")
    title = f"{counted(found.n_pieces, 'piece')} ({found.kind})"
    print_table(title, ["piece", "begin", "end", "what changes at its end"], rows, notes)
