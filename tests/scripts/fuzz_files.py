"""Files that were changed in every way: each is refused with a sentence, or read as what it says.

Every mutant has a number. It decides the file that is changed, how, and whether the digest is computed anew,
as somebody would who means harm; ``--kind plane --only 4711`` repeats one. Mutants run in child processes,
many in each, with a limit of memory and of time; a child that dies is named after the mutant on which it
died. ``docs/results/fuzz.json`` keeps which numbers were tried and what became of them, so that a run that
was interrupted goes on.

    python tests/scripts/fuzz_files.py --count 1000
    python tests/scripts/fuzz_files.py --table           # what the record says

Outcomes: ``refused`` with a sentence of ours; ``equal``: what changed means nothing; ``noticed``: read, and
``verify()`` says that it is wrong; ``another``: a digest was computed anew and the contents fit together, so
that this is a sound file of something else; and the failures WRONG, TRACEBACK, CRASH, HANG and MEMORY.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]

import records  # noqa: E402

import hardmax as hm  # noqa: E402
from hardmax import storage  # noqa: E402
from hardmax.errors import HardmaxError  # noqa: E402

RECORD = records.RESULTS / "fuzz.json"
OUTCOMES = ("refused", "equal", "noticed", "another")
FAILURES = ("WRONG", "TRACEBACK", "CRASH", "HANG", "MEMORY")
MOST_MEMORY = 4 << 30  # bytes
MOST_SECONDS = 60
LONGEST_SENTENCE = 2000
Rng = np.random.Generator

EXTREMES = (0, 1, -1, 2, 63, 64, 255, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 10**40)
FLOATS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e-320, 1e308, -1e308, 0.1, 2.0**60)
WORDS = (
    "",
    "x" * 5000,
    "\x1b[31m\x07",
    "1e999999999",
    "1/0",
    "nan",
    "../../etc/passwd",
    "@",
    "Box",
    "é\u202e",
)


# Files to start from
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """Files of one kind: the originals, how they are used, and how they are changed."""

    name: str
    words: str
    originals: Callable[[], dict[str, bytes]]
    use: Callable[[bytes, str], tuple[str, bool]]  # a fingerprint of what was read; whether all is well
    mutate: Callable[[Rng, str, bytes], tuple[str, bytes, bool]]  # words, content, whether sealed anew


def plain_networks() -> dict[str, tuple[Any, Any]]:
    """Small networks of every engine, with attention, in bounded and unbounded domains."""
    rng = np.random.default_rng(7)

    def head(d: int, heads: int = 2, keys: int = 4) -> Any:
        return hm.Attention(
            rng.integers(-4, 5, (heads, keys, d)),
            rng.integers(-3, 4, (heads, keys)),
            rng.integers(-4, 5, (heads, keys, d)),
        )

    mlp = hm.Network.random_mlp
    mixed = hm.Network([head(2), *mlp([2, 6, 2], 1).blocks, head(2, 1, 3)])
    return {
        "line": (mlp([1, 5, 4, 1], 0), hm.Box([-3], [3])),
        "whole line": (hm.Network([head(1), *mlp([1, 4, 1], 3).blocks]), hm.WholeSpace(1)),
        "plane": (mlp([2, 5, 4, 1], 0), hm.Box.cube(2, -3, 3)),
        "mixed plane": (mixed, hm.WholeSpace(2)),
        "space": (mlp([3, 4, 3, 1], 0), hm.Box.cube(3, -2, 2)),
        "mixed space": (hm.Network([head(3, 1), *mlp([3, 3, 1], 2).blocks]), hm.WholeSpace(3)),
        "search": (mlp([7, 4, 2, 1], 0), hm.Box.cube(7, -1, 1)),
    }


@cache
def region_sets() -> dict[str, bytes]:
    return {
        name: storage.to_bytes(
            storage.Stored("RegionSet", hm.enumerate_regions(*case)._state(), {"made": "x"})
        )
        for name, case in plain_networks().items()
    }


@cache
def saved_results() -> dict[str, bytes]:
    """One file per kind of result, half of them as an earlier version wrote them."""
    found = {}
    for path in sorted((TESTS / "unit/saved").glob("*.npz")):
        result = hm.load(path)
        found[path.stem] = storage.to_bytes(storage.Stored(result.kind, result._state(), result.provenance))
        found[f"{path.stem}, schema 1"] = path.read_bytes()
    net, box = plain_networks()["plane"]
    more = {
        "SegmentTrace of attention": hm.trace_segment(plain_networks()["mixed plane"][0], [-3, 1], [2, 5]),
        "DecisionBoundary": hm.decision_boundary(hm.Network.random_mlp([2, 5, 3], 0), box),
        "CellCount": hm.count_cells(net, box),
        "MinkowskiVertices": hm.minkowski_vertices(np.random.default_rng(0).standard_normal((3, 4, 3))),
        "PowerDiagram": hm.power_diagram(np.random.default_rng(1).integers(-3, 4, (12, 2))),
        "top-k": hm.enumerate_regions(
            hm.Network(
                [hm.Attention([[[1.0], [0.5], [-1.0]]], None, [[[0.0], [1.0], [2.0]]], rule="top-k", k=2)]
            ),
            hm.Box([-1], [1]),
        ),
    }
    for name, result in more.items():
        found[f"{name}, new"] = storage.to_bytes(
            storage.Stored(result.kind, result._state(), result.provenance)
        )
    return found


def fingerprint(value: Any) -> str:
    """Of everything that a result holds."""
    stored = storage.Stored(value.kind, value._state(), dict(value.provenance))
    return hashlib.sha256(storage.to_bytes(stored)).hexdigest()


def use_result(content: bytes, name: str) -> tuple[str, bool]:
    """Load a result and ask it what users ask."""
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        file.write(content)
        file.flush()
        result = hm.load(file.name)
    mark = fingerprint(result)
    if mark == original_mark(name):
        return mark, True
    repr(result)
    result._repr_html_()
    result.to_dict()
    questions = QUESTIONS.get(result.kind, ())
    for question in questions:
        question(result)
    verified = result.verify() if hasattr(result, "verify") and result.kind != "CellSurvival" else None
    return mark, verified is None or bool(verified.ok)


def _region_questions(found: Any) -> None:
    found.linear, found.offset, found.bounded, found.volumes  # noqa: B018
    found.adjacency, found.adjacency_length, found.n_regions, found.classes  # noqa: B018
    for cell in [found[i] for i in range(min(len(found), 2))]:
        cell.exact_witness, cell.halfspaces, cell.vertices, cell.exact_map  # noqa: B018


def _trace_questions(found: Any) -> None:
    found.values, found.slopes, found.kinds  # noqa: B018
    for i in range(min(len(found.breakpoints), 2)):
        found.exact_breakpoint(i)


QUESTIONS: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "RegionSet": (_region_questions,),
    "SegmentTrace": (_trace_questions,),
    "DecisionBoundary": (lambda found: (found.sizes, found.classes, found.n_decision_regions),),
    "MinkowskiVertices": (lambda found: [found.winning_keys(h) for h in range(found.heads)],),
    "PowerDiagram": (lambda found: (found.locate(np.zeros((1, found.d))), found.tie_group),),
    "Network": (lambda found: found(np.zeros((2, found.d))),),
    "Transformer": (lambda found: found(np.zeros((found.n_tokens or 2, found.d))),),
    "Hypersurface": (lambda found: [found.vertices(i) for i in range(found.n_walls)],),
}


@cache
def original_mark(name: str) -> str:
    """The fingerprint of an original."""
    content = (saved_results() if name in saved_results() else region_sets())[name]
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        file.write(content)
        file.flush()
        return fingerprint(hm.load(file.name))


# Checkpoints
# ----------------------------------------------------------------------------------------------------------


@cache
def checkpoints() -> dict[str, bytes]:
    """Enumerations that were stopped in the middle, in every engine."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (net, domain) in plain_networks().items():
            path = Path(folder) / "run.npz"
            most = max(hm.count_cells(net, domain).n_cells // 2, 1)
            hm.enumerate_regions(net, domain, max_cells=most, checkpoint=path, n_jobs=1)
            if path.exists():
                found[name] = path.read_bytes()
                path.unlink()
    return found


@cache
def true_count(name: str) -> int:
    return int(hm.count_cells(*plain_networks()[name]))


def use_checkpoint(content: bytes, name: str) -> tuple[str, bool]:
    """Go on where a checkpoint stopped."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        path.write_bytes(content)
        net, domain = plain_networks()[name]
        found = hm.enumerate_regions(net, domain, checkpoint=path, n_jobs=1)
    if found.n_cells == true_count(name) and found.complete:
        return original_checkpoint_mark(name), True
    return str(found.n_cells), False


def original_checkpoint_mark(name: str) -> str:
    return str(true_count(name))


# Other files
# ----------------------------------------------------------------------------------------------------------


@cache
def arrays() -> dict[str, bytes]:
    keys = np.random.default_rng(0).standard_normal((5, 3))
    one, many = io.BytesIO(), io.BytesIO()
    np.save(one, keys)
    np.savez_compressed(many, a=keys, b=np.arange(4))
    return {"keys.npy": one.getvalue(), "keys.npz": many.getvalue(), "keys.csv": b"x,y\n1,2/3\n-4.5,1e-3\n"}


def use_arrays(content: bytes, name: str) -> tuple[str, bool]:
    from hardmax.cli.inputs import read_arrays

    with tempfile.NamedTemporaryFile(suffix=Path(name).suffix) as file:
        file.write(content)
        file.flush()
        found = read_arrays(Path(file.name))
    marks = [(key if len(found) > 1 else "", array.dtype.str, array.tolist()) for key, array in found.items()]
    return hashlib.sha256(repr(marks).encode()).hexdigest(), True


@cache
def models() -> dict[str, bytes]:
    from hardmax.training.layout import TransformerShape
    from hardmax.training.trained_models import TrainedModel

    shape = TransformerShape(3, 1, widths=(4,), heads=(1,), hidden=(8,))
    with tempfile.TemporaryDirectory() as folder:
        path = TrainedModel(shape, shape.initial(0), about={"NMSE": 1.0}).save(Path(folder) / "m.safetensors")
        return {"model.safetensors": path.read_bytes()}


def use_model(content: bytes, _: str) -> tuple[str, bool]:
    from hardmax.training.trained_models import load_model

    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(content)
        file.flush()
        model = load_model(file.name)
    model(np.zeros((1, model.shape.n_tokens, model.shape.d_token)))
    mark = repr(
        (model.shape, model.vector.tobytes(), model.mean.tobytes(), model.scale.tobytes(), model.about)
    )
    return hashlib.sha256(mark.encode()).hexdigest(), True


@cache
def folders() -> dict[str, bytes]:
    """The files of a small Hugging Face model, one after the other."""
    import tiny_models

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = tiny_models.tiny_folder(Path(folder), "bert")
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
            if (path / name).exists():
                found[name] = (path / name).read_bytes()
    return found


def use_folder(content: bytes, name: str) -> tuple[str, bool]:
    from hardmax.models.reading.loading import open_model

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for other, original in folders().items():
            (folder / other).write_bytes(content if other == name else original)
        model = open_model(folder)
        words = None if model.tokenizer is None else model.encode("the cat")["input_ids"].tolist()
        numbers = [float(p.double().sum()) for p in model.module.parameters()]
    return hashlib.sha256(repr((words, numbers)).encode()).hexdigest(), True


def run_key() -> str:
    return "0" * 64


@cache
def study_files() -> dict[str, bytes]:
    from hardmax.training.studies.store import RunRecord, run_file

    record = RunRecord(run_key(), {"best": 0.5}, 1.0, 0.5, 1, "0.1.0", 1.7e9)
    result = hm.load(TESTS / "unit/saved/TrainingResult.npz")
    content = storage.to_bytes(storage.Stored(result.kind, result._state(), result.provenance))
    return {
        "run": run_file(content, record),
        "study.json": b'{"schema": 1, "study": "roots", "runner": "train", "version": "0.1.0"}',
        "plan.json": b'{"study": "roots", "runner": "my:root", "job": {"n": 1}, "vary": {"n": [2, 3]}}',
    }


def use_study(content: bytes, name: str) -> tuple[str, bool]:
    from hardmax.training.studies import store
    from hardmax.training.studies.study import read_study

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if name == "run":
            path = folder / f"{run_key()}.npz"
            path.write_bytes(content)
            record = store.read_record(path)
            result = store.read_result(path)
            return fingerprint(result) + repr(record), True
        path = folder / name
        path.write_bytes(content)
        if name == "plan.json":
            study = read_study(path)
            return repr((study.name, study.runner, [job.text for job in study.jobs])), True
        return repr(store._read_description(path)), True


# Changes
# ----------------------------------------------------------------------------------------------------------


def change_bytes(rng: Rng, _: str, content: bytes) -> tuple[str, bytes, bool]:
    """Bytes, bits, ends, and pieces that move."""
    data = bytearray(content)
    n = len(data)
    at = int(rng.integers(n))
    match int(rng.integers(9)):
        case 0:
            for _i in range(int(rng.integers(1, 5))):
                data[int(rng.integers(n))] ^= 1 << int(rng.integers(8))
            words = "bits"
        case 1:
            for _i in range(int(rng.integers(1, 9))):
                data[int(rng.integers(n))] = int(rng.integers(256))
            words = "bytes"
        case 2:
            del data[at:]
            words = "truncated"
        case 3:
            data[at:at] = rng.bytes(int(rng.integers(1, 40)))
            words = "inserted"
        case 4:
            del data[at : at + int(rng.integers(1, 40))]
            words = "deleted"
        case 5:
            other = int(rng.integers(n))
            data[at : at + 16] = data[other : other + 16]
            words = "copied"
        case 6:
            data[at : at + 8] = (0, 2**63 - 1, 2**64 - 1, 2**32)[int(rng.integers(4))].to_bytes(8, "little")
            words = "a number"
        case 7:
            data += rng.bytes(int(rng.integers(1, 200)))
            words = "appended"
        case _:
            data[at : at + 64] = bytes(64)
            words = "zeros"
    return words, bytes(data), False


def members_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: dict[str, bytes] | list[tuple[str, bytes]], sealed: bool) -> bytes:
    pairs = list(members.items()) if isinstance(members, dict) else members
    if sealed and any(name == storage.DIGEST for name, _ in pairs):
        pairs = [(name, data) for name, data in pairs if name != storage.DIGEST]
        pairs.append((storage.DIGEST, storage.digest_of(dict(pairs)).encode()))
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        for name, data in pairs:
            archive.writestr(name, data)
    return file.getvalue()


def change_zip(rng: Rng, name: str, content: bytes) -> tuple[str, bytes, bool]:
    """The structure of the archive: names, members, sizes, ways of packing."""
    try:
        members = members_of(content)
    except (zipfile.BadZipFile, NotImplementedError):
        return change_bytes(rng, name, content)
    names = list(members)
    pick = names[int(rng.integers(len(names)))]
    match int(rng.integers(8)):
        case 0:
            del members[pick]
            return f"without {pick}", packed(members, False), False
        case 1:
            pairs = [*members.items(), (pick, members[names[0]])]
            return f"{pick} twice", packed(pairs, False), False
        case 2:
            other = names[int(rng.integers(len(names)))]
            members[pick], members[other] = members[other], members[pick]
            return f"{pick} and {other} swapped", packed(members, False), False
        case 3:
            others = region_sets()
            foreign = members_of(others[list(others)[int(rng.integers(len(others)))]])
            members[pick] = foreign.get(pick, next(iter(foreign.values())))
            sealed = bool(rng.integers(2))
            return f"{pick} of another file", packed(members, sealed), sealed
        case 4:  # fields of the directory
            data = bytearray(content)
            at = data.find(b"PK\1\2", int(rng.integers(len(data))))
            at = at if at >= 0 else data.find(b"PK\1\2")
            place = at + int(rng.integers(46))
            data[place] = int(rng.integers(256))
            return "directory", bytes(data), False
        case 5:
            data = bytearray(content)
            at = data.rfind(b"PK\5\6") + int(rng.integers(4, 22))
            data[at] = int(rng.integers(256))
            return "end of directory", bytes(data), False
        case 6:  # a member that unpacks to a great deal
            size = 2**30 if rng.integers(50) == 0 else 2**20
            begin = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little")
            text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({size // 8},), }}".ljust(117) + "\n"
            members[pick] = begin + text.encode() + bytes(size)
            return f"{pick} of {size} zeros", packed(members, bool(rng.integers(2))), True
        case _:
            members[f"{pick}{rng.integers(100)}"] = members.pop(pick)
            return f"{pick} renamed", packed(members, False), False


def _changed_array(rng: Rng, data: bytes) -> tuple[str, bytes]:
    array = np.load(io.BytesIO(data)).copy()
    flat = array.reshape(-1)
    choice = int(rng.integers(8))
    if choice < 4 and flat.size:
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(flat.size))
            if array.dtype.kind == "f":
                flat[at] = float(rng.choice(FLOATS)) if rng.integers(2) else float(flat[at]) + 1.0
            elif array.dtype.kind in "iu":
                info = np.iinfo(array.dtype)
                value = EXTREMES[int(rng.integers(len(EXTREMES)))] if rng.integers(2) else int(flat[at]) + 1
                flat[at] = min(max(value, info.min), info.max)
            elif array.dtype.kind == "b":
                flat[at] = not flat[at]
        words = "values"
    elif choice == 4 and array.ndim and len(array) > 1:
        array = array[rng.permutation(len(array))]
        words = "rows permuted"
    elif choice == 5 and array.ndim and len(array):
        array = array[: int(rng.integers(len(array)))] if rng.integers(2) else np.concatenate([array, array])
        words = "another length"
    elif choice == 6 and array.dtype.kind in "fiub":
        other = rng.choice(["<f8", "<i8", "<u8", "<i4", "|u1", "|b1", "<f4", ">f8", "<c16", "<U3", ">i8"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = array.astype(str(other))
        words = f"type {other}"
    else:
        array = array.reshape(-1) if rng.integers(2) else array[None]
        words = "another shape"
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    if choice == 7 and rng.integers(2):  # the text of the header
        raw = bytearray(file.getvalue())
        raw[int(rng.integers(6, min(128, len(raw))))] = int(rng.integers(256))
        return "npy header", bytes(raw)
    return words, file.getvalue()


def _paths(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [before] if before else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += _paths(item, (*before, key))
    elif isinstance(value, list):
        for i, item in enumerate(value[:50]):
            found += _paths(item, (*before, i))
    return found


def changed_json(rng: Rng, text: bytes) -> tuple[str, bytes]:
    """One entry replaced, removed, renamed, or the text made monstrous."""
    value = json.loads(text)
    paths = _paths(value)
    if not paths or rng.integers(20) == 0:
        monster = int(rng.integers(4))
        return f"monster {monster}", (
            b"[" * 200_000,
            b"9" * 1_000_000,
            b'{"format": "hardmax", "schema": ' + b"1" * 5000 + b"}",
            b'{"a": NaN, "b": Infinity}',
        )[monster]
    *way, last = paths[int(rng.integers(len(paths)))]
    place = value
    for step in way:
        place = place[step]
    old = place[last]
    match int(rng.integers(9)):
        case 0:
            new: Any = EXTREMES[int(rng.integers(len(EXTREMES)))]
        case 1:
            new = float(rng.choice([0.0, -1.5, 1e308, 5e-324, 1e16]))
        case 2:
            new = str(rng.choice(WORDS))
        case 3:
            new = [None, True, False, [], {}, [[]], {"@": "array"}, {"@": "fraction", "value": "1e9999999"}][
                int(rng.integers(8))
            ]
        case 4:
            del place[last]
            return f"{way} {last} removed", json.dumps(value).encode()
        case 5:
            new = json.loads(json.dumps(_at(value, paths[int(rng.integers(len(paths)))])))
        case 6:
            new = [old] * int(rng.integers(2, 5))
        case 7 if isinstance(old, (int, float)) and not isinstance(old, bool):
            new = old + int(rng.choice([-1, 1]))
        case _:
            new = {
                "@": str(rng.choice(["array", "float", "fractions", "integer"])),
                "value": "1",
                "name": "x",
            }
    place[last] = new
    return f"{way} {last} = {str(new)[:40]!r}", json.dumps(value).encode()


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def change_content(rng: Rng, name: str, content: bytes) -> tuple[str, bytes, bool]:
    """Values inside, with the digest computed anew in three of four: what somebody does who means harm."""
    try:
        members = members_of(content)
        pick = list(members)[int(rng.integers(len(members)))]
        if pick == storage.HEADER or rng.integers(3) == 0:
            pick = storage.HEADER
            words, members[pick] = changed_json(rng, members[pick])
        elif pick.endswith(".npy"):
            words, members[pick] = _changed_array(rng, members[pick])
        else:
            words, members[pick] = "digest", rng.bytes(64).hex()[:64].encode()
    except (ValueError, KeyError, zipfile.BadZipFile, OverflowError):
        return change_bytes(rng, name, content)
    sealed = bool(rng.integers(4))
    return f"{pick}: {words}", packed(members, sealed), sealed or storage.DIGEST not in members


def change_archive(rng: Rng, name: str, content: bytes) -> tuple[str, bytes, bool]:
    how = (change_bytes, change_zip, change_content, change_content)[int(rng.integers(4))]
    return how(rng, name, content)


def change_array_file(rng: Rng, name: str, content: bytes) -> tuple[str, bytes, bool]:
    if name.endswith(".npz"):
        words, data, _ = (
            change_zip(rng, name, content) if rng.integers(2) else change_bytes(rng, name, content)
        )
    elif name.endswith(".npy") and rng.integers(2):
        words, data = _changed_array(rng, content)
    elif name.endswith(".csv") and rng.integers(2):
        fields = content.split(b",")
        fields[int(rng.integers(len(fields)))] = str(rng.choice(WORDS)).encode()
        words, data = "entry", b",".join(fields)
    else:
        words, data, _ = change_bytes(rng, name, content)
    return words, data, True  # plain arrays have no digest: what is read is what the file says


def change_text(rng: Rng, name: str, content: bytes) -> tuple[str, bytes, bool]:
    if name.endswith(".json") and rng.integers(3):
        words, data = changed_json(rng, content)
        return words, data, True
    words, data, _ = change_bytes(rng, name, content)
    return words, data, name != "run"


def change_safetensors(rng: Rng, name: str, content: bytes) -> tuple[str, bytes, bool]:
    if not name.endswith(".safetensors"):
        return change_text(rng, name, content)
    length = int.from_bytes(content[:8], "little")
    if rng.integers(3):
        words, text = changed_json(rng, content[8 : 8 + length])
        return words, len(text).to_bytes(8, "little") + text + content[8 + length :], True
    words, data, _ = change_bytes(rng, name, content)
    return words, data, True


def change_onnx(rng: Rng, _: str, __: bytes) -> tuple[str, bytes, bool]:
    from oracles.mutated_onnx import mutated

    words, data = mutated(int(rng.integers(10**9)))
    return words, data, True


def use_onnx(content: bytes, _: str) -> tuple[str, bool]:
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(content)
        file.flush()
        return repr(hm.Network.from_onnx(file.name)), True


@cache
def onnx_files() -> dict[str, bytes]:
    return {"network.onnx": b"x"}


KINDS = {
    kind.name: kind
    for kind in (
        Kind("result", "results of all kinds", saved_results, use_result, change_archive),
        Kind("regions", "cells in every dimension", region_sets, use_result, change_archive),
        Kind("checkpoint", "checkpoints", checkpoints, use_checkpoint, change_archive),
        Kind("arrays", "arrays (npy, npz, csv)", arrays, use_arrays, change_array_file),
        Kind("trained model", "trained models (safetensors)", models, use_model, change_safetensors),
        Kind("study", "studies and runs", study_files, use_study, change_text),
        Kind("onnx", "ONNX", onnx_files, use_onnx, change_onnx),
        Kind("model folder", "folders of Hugging Face models", folders, use_folder, change_safetensors),
    )
}
SHARE = {"model folder": 0.02, "onnx": 0.1}  # of the mutants of the others: these take longer


# Running
# ----------------------------------------------------------------------------------------------------------


@cache
def mark_of(kind: str, name: str) -> str:
    """The fingerprint of an original."""
    found = KINDS[kind]
    if kind == "checkpoint":
        return original_checkpoint_mark(name)
    if found.use is use_result:
        return original_mark(name)
    if kind == "onnx":
        return ""
    return found.use(found.originals()[name], name)[0]


def mutant(kind: str, number: int) -> tuple[str, str, bytes, bool]:
    """The original, what was done, the content, and whether somebody who means harm did it."""
    found = KINDS[kind]
    rng = np.random.default_rng([sum(map(ord, kind)), number])
    names = list(found.originals())
    name = names[int(rng.integers(len(names)))]
    original = found.originals()[name]
    words, content, harm = found.mutate(rng, name, original)
    return name, words, content, harm or "schema 1" in name  # which has no digest


def outcome_of(kind: str, number: int) -> tuple[str, str]:
    """What became of a mutant, and a word about it."""
    name, words, content, harm = mutant(kind, number)
    expected = mark_of(kind, name)
    about = f"{name}: {words}"
    signal.alarm(MOST_SECONDS)  # which ends the process
    try:
        mark, well = KINDS[kind].use(content, name)
    except (HardmaxError, FileNotFoundError) as error:
        text = str(error)
        ugly = len(text) > LONGEST_SENTENCE or any(ord(c) < 32 or ord(c) == 127 for c in text)
        return ("TRACEBACK", f"{about}: not a plain sentence: {text[:300]!r}") if ugly else ("refused", about)
    except MemoryError:
        return "MEMORY", about
    except Exception as error:  # what users would see as a traceback
        import traceback

        where = traceback.extract_tb(error.__traceback__)[-1]
        return (
            "TRACEBACK",
            f"{about}: {type(error).__name__}: {str(error)[:200]} ({where.filename}:{where.lineno})",
        )
    if mark == expected:
        return "equal", about
    if not well and kind != "checkpoint":
        return "noticed", about
    return ("another" if harm else "WRONG"), about


def run_batch(kind: str, numbers: list[int]) -> None:
    """In a child: write what becomes of each mutant, and before it that it begins."""
    warnings.simplefilter("ignore")
    for name in KINDS[kind].originals():
        mark_of(kind, name)
    address_space = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = address_space + MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else may write between the lines
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for number in numbers:
        out.write(f"begin {number}\n")
        out.flush()
        outcome, about = outcome_of(kind, number)
        signal.alarm(0)
        out.write(json.dumps([number, outcome, about]) + "\n")
        out.flush()


def supervised(kind: str, numbers: list[int]) -> list[tuple[int, str, str]]:
    """Run mutants in children; one that dies costs the mutant on which it died."""
    results: list[tuple[int, str, str]] = []
    left = list(numbers)
    while left:
        child = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--batch", kind, *map(str, left)],
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONPATH": str(TESTS.parent / "src")},
            check=False,
        )
        last = None
        for line in child.stdout.splitlines():
            if line.startswith("begin "):
                last = int(line.split()[1])
            elif line.startswith("["):
                results.append(tuple(json.loads(line)))
                last = None
        done = {number for number, _, _ in results}
        if child.returncode == 0 and last is None:
            break
        if last is None:
            raise SystemExit(f"a child failed before it began:\n{child.stderr[-3000:]}")
        died = "HANG" if child.returncode == -signal.SIGALRM else "CRASH"
        if "MemoryError" in child.stderr[-2000:] or child.returncode == -signal.SIGKILL:
            died = "MEMORY"
        results.append((last, died, f"exit {child.returncode}: {child.stderr[-300:]}"))
        left = [number for number in left if number not in done and number != last]
    return results


def corpus() -> dict[str, list[int]]:
    """Mutants that once failed, kind by kind."""
    found: dict[str, list[int]] = {}
    for line in (TESTS / "scripts/fuzz_corpus.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            kind, _, numbers = line.partition(":")
            found[kind] = [int(number) for number in numbers.split()]
    return found


def run_corpus() -> int:
    """Every mutant of the corpus in this process; 1 if one failed again."""
    warnings.simplefilter("ignore")
    tally: Counter[str] = Counter()
    for kind, numbers in corpus().items():
        for number in numbers:
            print(f"begin {kind} {number}", file=sys.stderr, flush=True)  # the last line, if it dies
            outcome, about = outcome_of(kind, number)
            tally[outcome] += 1
            if outcome in FAILURES:
                print(f"{outcome} {kind} {number}: {about}", flush=True)
    print(f"{tally.total()} mutants: {', '.join(f'{n} {name}' for name, n in sorted(tally.items()))}")
    return 1 if any(tally[outcome] for outcome in FAILURES) else 0


def fuzz_on(record: dict[str, Any], options: argparse.Namespace) -> None:
    """Try again what failed, and so many mutants of each kind as are not in the record yet."""
    for kind in options.kind or KINDS:
        empty = {"numbers": [], "tried": 0, "outcomes": {}, "failures": {}, "commits": []}
        entry = record.setdefault(kind, empty)
        wanted, version = int(options.count * SHARE.get(kind, 1.0)), records.commit()
        outcomes = Counter(entry["outcomes"])
        for number, outcome, about in supervised(kind, list(map(int, entry["failures"]))):
            before = entry["failures"].pop(str(number)).partition(":")[0]
            outcomes += Counter({outcome: 1})
            outcomes[before] -= 1
            if outcome in FAILURES:
                entry["failures"][str(number)] = f"{outcome}: {about}"
        entry["outcomes"] = +outcomes
        records.write(options.record, record)
        while entry["tried"] < wanted:
            size = min(options.batch_size, wanted - entry["tried"])
            low, high = records.next_part(entry["numbers"], 0, size)
            results = supervised(kind, list(range(low, high)))
            entry["numbers"] = records.joined([*entry["numbers"], [low, high]])
            entry["tried"] += len(results)
            entry["outcomes"] = Counter(entry["outcomes"]) + Counter(outcome for _, outcome, _ in results)
            entry["commits"] = list(dict.fromkeys([*entry["commits"], version]))
            for number, outcome, about in results:
                if outcome in FAILURES:
                    entry["failures"][str(number)] = f"{outcome}: {about}"
                    print(f"{outcome} {kind} {number}: {about}", flush=True)
            records.write(options.record, record)
            print(f"{kind}: {entry['tried']:,} of {wanted:,}", flush=True)


def table(record: dict[str, Any]) -> str:
    """Of the record, as docs/reliability.md shows it."""
    lines: list[tuple[object, ...]] = []
    for kind, entry in record.items():
        outcomes = (entry["outcomes"].get(outcome, 0) for outcome in OUTCOMES)
        lines.append((KINDS[kind].words, entry["tried"], *outcomes, len(entry["failures"])))
    sums = (sum(column) for column in zip(*(line[1:] for line in lines), strict=True))
    return records.rows(("files", "tried", *OUTCOMES, "failed"), *lines, ("all", *sums))


def main() -> int:
    if sys.argv[1:2] == ["--batch"]:
        run_batch(sys.argv[2], [int(number) for number in sys.argv[3:]])
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20_000, help="mutants of each kind in the record")
    parser.add_argument("--kind", choices=list(KINDS), action="append", help="only these kinds")
    parser.add_argument("--only", type=int, nargs="+", help="only these numbers, in this process")
    parser.add_argument("--corpus", action="store_true", help="the mutants that once failed, in this process")
    parser.add_argument("--table", action="store_true", help="try nothing")
    parser.add_argument("--batch-size", type=int, default=500)
    parser.add_argument("--record", type=Path, default=RECORD)
    options = parser.parse_args()
    if options.corpus:
        return run_corpus()
    if options.only:
        for kind in options.kind or KINDS:
            for number in options.only:
                print(kind, number, *outcome_of(kind, number), flush=True)
        return 0
    record = records.read(options.record)
    if not options.table:
        fuzz_on(record, options)
    print(table(record))
    return 1 if any(entry["failures"] for entry in record.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
