"""Files that were damaged, tampered with or made to do harm end in one sentence."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
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
from hardmax.regions.engine import seals
from hardmax.untrusted import parsed_json, parsed_npy, ratio_of, ratio_text

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
