"""Files that were damaged, tampered with or made to do harm end in one sentence."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import platform
import subprocess
import sys
import time
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax import storage
from hardmax.cli import main
from hardmax.errors import (
    LONGEST_SENTENCE,
    DamagedFileError,
    FileFormatError,
    InvalidInputError,
    readable,
)
from hardmax.models.reading.folders import check_folder
from hardmax.models.reading.text_runs import _Folder
from hardmax.regions.engine import seals
from hardmax.training.studies.store import RunStore
from hardmax.training.studies.study import Study, read_study
from hardmax.training.trained_models import load_model
from hardmax.untrusted import (
    parsed_json,
    parsed_npy,
    plain_bytes,
    plain_text,
    ratio_of,
    ratio_text,
    said_plainly,
)
from hardmax.verification.vnnlib import parse_vnnlib, read_vnnlib

TESTS = Path(__file__).resolve().parent.parent


def test_mutants_that_once_failed_are_refused_or_read_as_what_they_say():
    found = subprocess.run(
        [sys.executable, str(TESTS / "scripts/fuzz_files.py"), "--corpus"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS.parent / "src")},
    )
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-500:]
    assert "mutants:" in found.stdout


@pytest.fixture
def saved(tmp_path):
    cells = hm.enumerate_regions(hm.Network.random_mlp([2, 4, 1], 0), hm.Box.cube(2, -1, 1))
    return cells.save(tmp_path / "cells.npz")


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def repacked(path, members, *, sealed):
    if sealed:
        members = {name: data for name, data in members.items() if name != storage.DIGEST}
        members[storage.DIGEST] = storage.digest_of(members).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def changed(data, change):
    file = io.BytesIO()
    np.save(file, change(np.load(io.BytesIO(data)).copy()))
    return file.getvalue()


def test_a_change_that_fits_its_checksums_is_told_by_the_digest(saved):
    members = members_of(saved)
    members["cells.witnesses.npy"] = changed(members["cells.witnesses.npy"], lambda x: x + 0.25)
    repacked(saved, members, sealed=False)
    with pytest.raises(DamagedFileError, match="was changed after it was written"):
        hm.load(saved)
    repacked(saved, members, sealed=True)  # whoever computes the digest anew is told by verify
    assert not hm.load(saved).verify(n_points=50).ok


@pytest.mark.parametrize(
    ("member", "change", "names"),
    [
        ("cells.facets.offsets", lambda x: x[::-1].copy(), "facets.offsets"),
        ("cells.facets.content", lambda x: x + 2**40, "facets"),
        ("cells.bits", lambda x: x + np.uint64(2**40), "bits"),
        ("cells.bits", lambda x: x.astype(np.int64), "bits"),
        ("cells.vertices.content", lambda x: x * np.nan, "vertices"),
        ("cells.margins", lambda x: x - 1e9, "margins"),
        ("cells.witnesses", lambda x: x[:-1], "witnesses"),
    ],
)
def test_numbers_that_stand_for_nothing_are_named(saved, member, change, names):
    members = members_of(saved)
    members[f"{member}.npy"] = changed(members[f"{member}.npy"], change)
    repacked(saved, members, sealed=True)
    with pytest.raises(DamagedFileError, match=names):
        hm.load(saved)


def test_a_bomb_is_refused_before_it_is_unpacked(saved):
    members = members_of(saved)
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        with archive.open("bomb.npy", "w") as file:
            for _ in range(9):
                file.write(bytes(2**26))
    begin = time.perf_counter()
    with pytest.raises(DamagedFileError, match="must not unpack to more than"):
        hm.load(saved)
    assert time.perf_counter() - begin < 1.0


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b"9" * 100_000, b'{"a": NaN}', b"[" + b"1," * 9_000_000 + b"1]", b"\xff\xfe{"]
)
def test_json_that_bites(text):
    with pytest.raises(DamagedFileError, match="header"):
        parsed_json(text, "header")


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"9" * 60 + b",), }",
        b"{'descr': '<f8', 'shape': __import__('os'), }",
        b"((((((((((((((((",
    ],
)
def test_npy_headers_are_never_evaluated(header):
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)
    with pytest.raises(DamagedFileError, match=r"^keys\.npy"):
        parsed_npy(data, "keys.npy")


def test_large_exact_numbers_survive_a_file_and_exponents_are_refused():
    for value in (Fraction(1, 3), 10**6000, -Fraction(3**9000, 7**5000)):
        assert ratio_of(ratio_text(value)) == value
    for text in ("1e999999999", "1/0", "nan", "", "0x", "1/-2"):
        with pytest.raises(ValueError, match="an exact number"):
            ratio_of(text)
    stored = storage.Stored("x", {"big": 10**6000, "small": 7}, {})
    assert storage.from_bytes(storage.to_bytes(stored), "file").state == stored.state


def test_a_checkpoint_of_somebody_else_is_refused(tmp_path, monkeypatch):
    net, box, path = hm.Network.random_mlp([2, 8, 8, 1], 0), hm.Box.cube(2, -4, 4), tmp_path / "run.npz"
    monkeypatch.setenv("HARDMAX_CHECKPOINT_KEY", "mine")
    whole = int(hm.count_cells(net, box))
    hm.count_cells(net, box, max_cells=5, checkpoint=path)
    monkeypatch.setenv("HARDMAX_CHECKPOINT_KEY", "somebody else's")
    with pytest.raises(DamagedFileError, match="HARDMAX_TRUST_CHECKPOINTS=1"):
        hm.count_cells(net, box, checkpoint=path)
    monkeypatch.setenv("HARDMAX_TRUST_CHECKPOINTS", "1")
    assert int(hm.count_cells(net, box, checkpoint=path)) == whole


def test_the_key_is_private_and_made_once(tmp_path, monkeypatch):
    monkeypatch.delenv("HARDMAX_CHECKPOINT_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    first = seals.seal_of("digest")
    assert seals.seal_of("digest") == first
    assert seals.key_path().stat().st_mode & 0o077 == 0
    assert [p.name for p in seals.key_path().parent.iterdir()] == ["checkpoint.key"]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "checkpoint.key" / "no folder"))
    assert seals.seal_of("digest") != first


def test_sentences_are_bounded_and_plain():
    error = InvalidInputError(f"name must be short, but was {'x' * 100_000}\x1b[31m\x00; try another.")
    assert len(str(error)) < 1500
    assert str(error).endswith("\\x1b[31m\\x00; try another.")
    assert readable("plain") == "plain"


def test_a_header_with_a_type_of_another_kind_is_named(tmp_path):
    count = hm.count_cells(hm.Network.random_mlp([2, 4, 1], 0), hm.Box.cube(2, -1, 1))
    path = count.save(tmp_path / "count.npz")
    for field, value in (("n_cells", "many"), ("n_cells", -1), ("complete", 1), ("cells_by_depth", 3)):
        members = members_of(path)
        header = json.loads(members["header.json"])
        header["state"][field] = value
        repacked(
            other := tmp_path / "other.npz",
            {**members, "header.json": json.dumps(header).encode()},
            sealed=True,
        )
        with pytest.raises(FileFormatError):
            hm.load(other)


def test_two_processes_may_close_what_they_like():
    def run(command):
        return subprocess.run(
            ["bash", "-c", f"{sys.executable} -m hardmax {command}"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(TESTS.parent / "src")},
        )

    closed, full = run("bounds --mlp 2,3 >&-"), run("bounds --mlp 2,3 > /dev/full")
    for found, why in ((closed, "closed"), (full, "no space left")):
        assert found.returncode == 2
        assert why in found.stderr
        assert "Traceback" not in found.stderr
    assert run("bounds --mlp 2,3 2>&-").returncode == 0


@pytest.mark.parametrize(
    "line",
    [
        "regions fifo.onnx --box -1 1",
        "verify mlp:2,3,1,seed=0 fifo.vnnlib",
        "verify --replay fifo.json.gz",
        "claims replay fifo.json",
        "diagram fifo.npy",
        "atlas --texts fifo.txt",
        "trace fifo.safetensors --from 0 --to 1",
    ],
)
def test_a_pipe_is_refused_before_anybody_waits_for_it(line, tmp_path):
    (name,) = (word for word in line.split() if word.startswith("fifo"))
    os.mkfifo(tmp_path / name)
    found = subprocess.run(
        [sys.executable, "-m", "hardmax", *line.split()],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=100,
        env={**os.environ, "PYTHONPATH": str(TESTS.parent / "src")},
    )
    assert found.returncode == 2
    assert len(found.stderr.splitlines()) == 1
    assert name in found.stderr


def test_marks_that_turn_the_direction_of_writing_are_escaped():
    assert readable("zero\u200bwidth \U000e0041 \u2060") == "zero\\u200bwidth \\U000e0041 \\u2060"
    for letter in ("\x1b", "\u202e", "\ud800", "\U000e0041"):  # each becomes up to ten
        for length in (1199, 1200, 5000, 10**6):
            assert len(str(InvalidInputError(letter * length))) <= LONGEST_SENTENCE
    assert readable("a\u200fb\u061cc\u202ed") == "a\\u200fb\\u061cc\\u202ed"


def test_a_whole_number_of_many_digits_in_a_target_is_refused():
    for text in ("max(t) x[t][" + "9" * 10_000 + "]", "sum(i<" + "9" * 10_000 + ") max(t) x[t] A[i] x[t]"):
        with pytest.raises(InvalidInputError, match="column"):
            hm.targets.named(text)


def test_a_device_or_a_pipe_is_not_replaced_by_a_result(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.npz").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link.npz"):
        with (
            pytest.raises(FileFormatError, match="a pipe or a device"),
            storage.written_whole(tmp_path / name) as file,
        ):
            file.write(b"x")
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.npz", "pipe"]


def test_a_link_to_itself_gets_a_sentence(tmp_path):
    (tmp_path / "loop.npz").symlink_to(tmp_path / "loop.npz")
    with (
        pytest.raises(FileFormatError, match="leads back to itself"),
        storage.written_whole(tmp_path / "loop.npz"),
    ):
        pass
    found = CliRunner().invoke(main, ["bounds", "--mlp", "2,3", "--out", str(tmp_path / "loop.npz")])
    assert found.exit_code == 2
    assert "leads back to itself" in found.stderr


@pytest.mark.parametrize(
    "error",
    [
        hm.errors.UnsupportedNetworkError(["a Softmax", "a Loop"], "try another"),
        hm.errors.UnsupportedModelError("m", ["its attention is unknown"], ["bert"]),
        hm.errors.TargetSyntaxError("max(s", 6, "a bracket is open"),
        hm.errors.MissingExtraError("install hardmax[plot]"),
        DamagedFileError("cut off"),
    ],
)
def test_an_error_of_any_kind_can_be_copied_and_can_name_a_file(error):
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # as between processes
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)
    named = error.about("f.npz")
    assert type(named) is type(error)
    assert str(named) == f"f.npz: {error}"


def never_ends(path, how):
    """Put something at a path that a careless reader waits for, or takes all memory for."""
    if how == "pipe":
        os.mkfifo(path)
    elif how == "device":
        path.symlink_to("/dev/zero")
    elif how == "loop":
        path.symlink_to(path)
    else:
        with open(path, "wb") as file:
            file.truncate(100 << 30)  # takes no room on the disk
    return path


NEVER_ENDING = ("pipe", "device", "loop", "huge")


@pytest.mark.parametrize("how", NEVER_ENDING)
def test_only_files_of_a_known_size_are_read(how, tmp_path):
    path = never_ends(tmp_path / "study.json", how)
    with pytest.raises(FileFormatError, match=r"study\.json"):
        plain_bytes(path)
    with pytest.raises(FileFormatError, match=r"study\.json"):
        plain_text(path)
    for read in (read_study, load_model, read_vnnlib):
        with pytest.raises(FileFormatError, match=r"study\.json"):
            read(path)


@pytest.mark.parametrize("how", NEVER_ENDING)
@pytest.mark.parametrize("name", ["lines.txt", "rows.jsonl", "names.json"])
def test_texts_are_read_from_files_of_a_known_size(how, name, tmp_path):
    with pytest.raises((FileFormatError, FileNotFoundError), match=name):
        hm.models.read_texts(never_ends(tmp_path / name, how))


def test_texts_of_too_many_lines_are_refused(tmp_path):
    (tmp_path / "lines.txt").write_bytes(b"\n" * 5_000_000)
    with pytest.raises(FileFormatError, match="lines, but has more"):
        hm.models.read_texts(tmp_path / "lines.txt")


@pytest.mark.parametrize("how", ["pipe", "device", "huge"])
@pytest.mark.parametrize("name", ["config.json", "vocab.txt", "special_tokens_map.json"])
def test_every_file_of_a_model_has_a_known_size(how, name, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / name).unlink(missing_ok=True)
    never_ends(tmp_path / name, how)
    with pytest.raises(FileFormatError, match=r"a pipe or a device|at most|must hold the config\.json"):
        check_folder(tmp_path)


@pytest.mark.parametrize("how", [*NEVER_ENDING, "empty", "short", "folder"])
def test_a_damaged_key_counts_as_none_nowhere(how, tmp_path, monkeypatch):
    monkeypatch.delenv("HARDMAX_CHECKPOINT_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "hardmax").mkdir()
    key = seals.key_path()
    if how == "folder":
        key.mkdir()
    elif how in ("empty", "short"):
        key.write_bytes(b"" if how == "empty" else b"x" * 31)
    else:
        never_ends(key, how)
    net, box, path = hm.Network.random_mlp([2, 4, 1], 0), hm.Box.cube(2, -1, 1), tmp_path / "run.npz"
    with pytest.raises(DamagedFileError, match="seals checkpoints"):
        hm.count_cells(net, box, max_cells=2, checkpoint=path)
    assert not path.exists()
    monkeypatch.setenv("HARDMAX_CHECKPOINT_KEY", "mine")
    hm.count_cells(net, box, max_cells=2, checkpoint=path)
    monkeypatch.delenv("HARDMAX_CHECKPOINT_KEY")
    with pytest.raises(DamagedFileError, match="seals checkpoints"):
        hm.count_cells(net, box, checkpoint=path)


@pytest.mark.parametrize("how", NEVER_ENDING)
def test_a_store_does_not_wait_for_its_files(how, tmp_path):
    study = Study.of("s", [{"n": 2}, {"n": 3}], runner="my_module:root")
    store = RunStore.create(tmp_path / "s", study)
    first, second = store.jobs
    never_ends(store.result_path(first), how)
    never_ends(store.folder / "failed" / f"{second}.json", how)
    never_ends(store.folder / "drivers" / "x.json", how)
    assert RunStore(store.folder).counts() == {"waiting": 2, "running": 0, "finished": 0, "failed": 0}
    assert store.damaged() == [first]
    never_ends(store.folder / "jobs" / "000009-x.json", how)
    with pytest.raises(FileFormatError, match="000009-x"):
        RunStore(store.folder)


def test_a_driver_that_no_process_can_be_is_gone(tmp_path):
    store = RunStore.create(tmp_path / "s", Study.of("s", [{"n": 2}], runner="my_module:root"))
    driver = {"host": platform.node(), "pid": 10**30, "slots": 1, "running": {}, "at": time.time()}
    (store.folder / "drivers" / "x.json").write_text(json.dumps(driver))
    assert store.drivers() == []


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "null", '{"a": NaN}', "9" * 5000])
def test_a_folder_of_measured_texts_that_says_something_else(text, tmp_path):
    (tmp_path / "question.json").write_text(text)
    with pytest.raises(FileFormatError, match=r"question\.json"):
        _Folder(tmp_path, {"model": "m"})


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        (f"(* {'1e900 ' * 1000})", "32,768 bits"),
        (f"(* {'1e-900 ' * 1000})", "32,768 bits"),
        (f"(+ {' '.join(f'(/ 1 {n})' for n in range(1, 30_000))})", "32,768 bits"),
        ("1 " * 4_000_001, "names, numbers and brackets"),
    ],
)
def test_numbers_of_a_property_stay_of_a_size(expression, problem):
    with pytest.raises(InvalidInputError, match=problem):
        parse_vnnlib(f"(declare-const Y_0 Real) (assert (<= Y_0 {expression}))")


def test_a_sum_of_many_terms_takes_linear_time():
    names = [f"X_{i}" for i in range(20_000)]
    declared = "".join(f"(declare-const {name} Real)" for name in names)
    begin = time.process_time()
    parse_vnnlib(f"{declared} (assert (<= (+ {' '.join(names)}) 1))")
    assert time.process_time() - begin < 10  # some hundred seconds when every sum was made anew


def test_a_scene_of_integers_beyond_all_floats():
    head = {"mode": "head", "scores": "attention", "rule": "hardmax", "temperature": 0.5, "half": 2}
    for change in ({"half": 10**400}, {"temperature": -(10**400)}, {"keys": [[10**400, 0, 0]]}):
        with pytest.raises(InvalidInputError, match="numbers up to"):
            hm.explore(scene={**head, "keys": [[0, 0, 0]], **change})


def test_a_short_target_that_stands_for_much():
    with pytest.raises(InvalidInputError, match="sums stand for more than 200,000 symbols"):
        hm.targets.named("sum(i<1000) sum(j<1000) sum(k<1000) max(t) x[t][0]")
    with pytest.raises(InvalidInputError, match="a token must hold at most"):
        hm.targets.named("max(t) x[t][999999999]")
    wide = hm.targets.named("max(t) x[t][99999]")
    assert wide(np.eye(2, 100_000, 99_999)[None]).tolist() == [1.0]


def sound_folder(folder):
    """Enough of a model for the checks before it is loaded."""
    (folder / "config.json").write_text('{"model_type": "bert"}')
    safetensors = pytest.importorskip("safetensors.numpy")
    safetensors.save_file({"a": np.zeros(2, dtype=np.float32)}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("config.json", '{"num_labels": 1000000000}', "labels"),
        ("model.safetensors.index.json", '{"weight_map": {}}', "names none"),
        (
            "tokenizer.json",
            json.dumps({"normalizer": {"type": "Sequence", "normalizers": [{"content": "t" * 50}] * 2}}),
            "longer than 100 times",
        ),
        ("tokenizer.json", json.dumps({"normalizer": {"type": "Prepend", "prepend": "t" * 101}}), "longer"),
    ],
)
def test_a_model_folder_that_asks_for_too_much(name, text, problem, tmp_path):
    check_folder(sound_folder(tmp_path))
    (tmp_path / name).write_text(text)
    with pytest.raises(FileFormatError, match=problem):
        check_folder(tmp_path)


def test_a_weights_file_of_too_many_tensors_is_refused(tmp_path):
    entries = {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(100_001)}
    text = json.dumps(entries).encode()
    sound_folder(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(DamagedFileError, match="at most 100,000 tensors"):
        check_folder(tmp_path)


def test_a_panic_of_compiled_code_becomes_a_sentence_and_ctrl_c_does_not():
    panic = type("PanicException", (BaseException,), {})
    with (
        pytest.raises(DamagedFileError, match=r"a file, but is not \(at line 0\)"),
        said_plainly("a file, but is not"),
    ):
        raise panic("at line 0")
    with pytest.raises(KeyboardInterrupt), said_plainly("a file, but is not"):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "values",
    [{}, {"layers": 1, "ties": "x"}, {"layers": [[{"who": "cls", "rules": [{"rule": "x"}]}]], "ties": "all"}],
)
def test_a_saved_plan_that_is_none(values):
    with pytest.raises(DamagedFileError, match="as to_dict wrote it"):
        hm.flow.Plan.from_dict(values)
