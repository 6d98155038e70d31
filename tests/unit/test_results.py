"""Results are read-only values, and a file of one is whole, exact and harmless."""

from __future__ import annotations

import io
import json
import os
import pickle
import pkgutil
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

import hardmax as hm
from hardmax import results, storage
from hardmax.errors import FileFormatError, InvalidInputError, MissingExtraError
from hardmax.results import Result, load, plain


@dataclass(frozen=True, eq=False, repr=False)
class Sample(Result):
    kind: ClassVar[str] = "test.Sample"

    points: NDArray[np.float64]
    labels: NDArray[np.int64]
    exact: NDArray[np.object_]
    parts: tuple[NDArray[np.float64], ...]
    options: dict[str, Any]

    def _summary(self) -> str:
        return f"{len(self.points)} points <b>"

    def _table(self) -> dict[str, Any]:
        return {"point": self.points, "label": self.labels}


@pytest.fixture
def sample() -> Sample:
    return Sample(
        points=np.array([[0.1, np.nan], [-np.inf, 2.0]]),
        labels=np.array([3, 4]),
        exact=np.array([[Fraction(1, 3), Fraction(-2)]], dtype=object),
        parts=(np.arange(2.0), np.zeros((0, 3))),
        options={
            "tau": -np.inf,
            "third": Fraction(1, 3),
            "big": 2**80,
            "nested": [1, {"mask": np.array([True])}],
            "none": None,
        },
    )


@pytest.fixture
def saved(sample, tmp_path):
    return sample.save(tmp_path / "sample.npz")


def repacked(path, members):
    """An archive of these members with a digest that fits, as somebody would write it who means harm."""
    members = {name: data for name, data in members.items() if name != storage.DIGEST}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (*members.items(), (storage.DIGEST, storage.digest_of(members))):
            archive.writestr(name, data)
    return path


def rewritten(path, change):
    """The archive at ``path`` with its header passed through ``change``."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    change(header)
    members["header.json"] = json.dumps(header).encode()
    return repacked(path, members)


def test_a_round_trip_keeps_every_number(sample, saved):
    back = load(saved)
    assert type(back) is Sample
    np.testing.assert_array_equal(back.points, sample.points)
    assert back.points.dtype == np.float64
    np.testing.assert_array_equal(back.labels, sample.labels)
    assert back.labels.dtype == sample.labels.dtype
    assert back.exact.tolist() == [[Fraction(1, 3), Fraction(-2)]]
    assert back.parts[1].shape == (0, 3)
    assert back.options["tau"] == -np.inf
    assert back.options["third"] == Fraction(1, 3)
    assert back.options["big"] == 2**80
    assert back.options["nested"][1]["mask"].tolist() == [True]
    assert back.options["none"] is None
    assert back.provenance == sample.provenance
    assert back.provenance["hardmax"] == hm.__version__


def test_the_provenance_of_the_maker_survives(saved):
    rewritten(saved, lambda header: header["provenance"].update(hardmax="0.0.7"))
    again = load(load(saved).save(saved))
    assert again.provenance["hardmax"] == "0.0.7"


def test_arrays_are_read_only_and_the_callers_stay_writeable(saved):
    mine = np.arange(4.0).reshape(2, 2)
    result = Sample(mine, np.arange(2), np.array([], dtype=object), (mine,), {})
    for array in (
        result.points,
        result.labels,
        result.exact,
        *result.parts,
        load(saved).points,
        load(saved).exact,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    mine[0, 0] = 99.0
    assert result.points[0, 0] == 0.0
    with pytest.raises(AttributeError):
        result.points = mine


def test_the_same_result_gives_the_same_bytes(sample, tmp_path):
    one, two = sample.save(tmp_path / "one.npz"), sample.save(tmp_path / "two.npz")
    assert one.read_bytes() == two.read_bytes()


def test_numpy_opens_the_arrays_of_a_saved_result(saved):
    with np.load(saved) as arrays:
        assert arrays["labels"].tolist() == [3, 4]


def test_repr_is_one_line(sample):
    assert repr(sample) == "<Sample: 2 points <b>>"


def test_html_is_a_table_with_escaped_text(sample):
    html = sample._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<th>point_1</th>" in html
    assert html.count("<tr>") == 3


def test_html_of_a_long_result_is_cut(tmp_path):
    long = Sample(np.zeros((500, 1)), np.arange(500), np.array([], dtype=object), (), {})
    assert "490 more rows" in long._repr_html_()


def test_to_dict_is_plain(sample):
    plain_sample = sample.to_dict()
    assert plain_sample["kind"] == "test.Sample"
    assert plain_sample["exact"] == [["1/3", "-2"]]
    assert plain_sample["options"]["nested"] == [1, {"mask": [True]}]
    json.dumps(plain_sample)


def test_plain_knows_numpy_scalars():
    assert plain([np.int64(2), np.float64(0.5), np.bool_(True)]) == [2, 0.5, True]


def test_to_frame_splits_matrices_into_columns(sample):
    pytest.importorskip("pandas")
    frame = sample.to_frame()
    assert list(frame.columns) == ["point_0", "point_1", "label"]


def test_to_frame_without_pandas_names_the_extra(sample, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pip install pandas"):
        sample.to_frame()


# Files that are not what they should be
# ------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0.02, 0.3, 0.9, 0.999])
def test_a_truncated_file(saved, keep):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(FileFormatError, match=r"sample\.npz .* truncated or damaged"):
        load(saved)


def test_every_single_damaged_byte_is_harmless(saved):
    """A flipped byte gives the original or a clear error; nothing else ever comes out."""
    data = saved.read_bytes()
    for position in range(0, len(data), 7):
        saved.write_bytes(data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :])
        with suppress(FileFormatError):
            assert isinstance(load(saved), Sample)


def test_an_npz_of_another_program(tmp_path):
    np.savez(tmp_path / "foreign.npz", a=np.arange(3))
    with pytest.raises(
        FileFormatError, match=r"not a saved hardmax result; open plain arrays with numpy\.load"
    ):
        load(tmp_path / "foreign.npz")


def test_a_foreign_header(saved):
    with pytest.raises(FileFormatError, match="not a saved hardmax result"):
        load(rewritten(saved, lambda header: header.update(format="other")))


def test_a_newer_schema_says_what_to_do(saved):
    rewritten(saved, lambda header: header.update(schema=storage.SCHEMA + 1, provenance={"hardmax": "9.1"}))
    with pytest.raises(FileFormatError, match=r"newer hardmax 9\.1 \(schema 3.*upgrade hardmax"):
        load(saved)


@pytest.mark.parametrize("schema", [None, "1", 0, -3])
def test_a_schema_that_is_no_number(saved, schema):
    with pytest.raises(FileFormatError, match="schema number"):
        load(rewritten(saved, lambda header: header.update(schema=schema)))


def test_an_unknown_kind(saved):
    with pytest.raises(FileFormatError, match="'Klein bottle', which this version"):
        load(rewritten(saved, lambda header: header.update(kind="Klein bottle")))


def test_a_kind_cannot_name_code_to_run(saved):
    """Public functions are not results, and a module's name is not looked up."""
    for kind in ("show_versions", "errors", "os.system", "__builtins__"):
        with pytest.raises(FileFormatError, match="does not know"):
            load(rewritten(saved, lambda header, kind=kind: header.update(kind=kind)))


def test_contents_that_do_not_fit(saved):
    with pytest.raises(FileFormatError, match=r"complete test\.Sample"):
        load(rewritten(saved, lambda header: header["state"].pop("exact")))


def test_a_missing_array(saved):
    def change(header):
        header["state"]["points"]["name"] = "elsewhere"

    with pytest.raises(FileFormatError, match="array 'elsewhere' is missing"):
        load(rewritten(saved, change))


@pytest.mark.parametrize("broken", [{"@": "pickle"}, {"@": "fraction", "value": "1/0"}, {"@": "fraction"}])
def test_a_damaged_header_entry(saved, broken):
    with pytest.raises(FileFormatError, match="header is damaged"):
        load(rewritten(saved, lambda header: header["state"].update(options=broken)))


def test_a_text_file_named_npz(tmp_path):
    (tmp_path / "notes.npz").write_text("1, 2, 3\n")
    with pytest.raises(FileFormatError, match="no npz file"):
        load(tmp_path / "notes.npz")


def test_an_empty_file(tmp_path):
    (tmp_path / "empty.npz").touch()
    with pytest.raises(FileFormatError, match="0 bytes"):
        load(tmp_path / "empty.npz")


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        load(tmp_path / "nothing.npz")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        load(tmp_path)


class Bomb:
    def __reduce__(self):
        return (os.system, ("touch exploded",))


def test_pickled_arrays_are_refused(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["points.npy"] = buffer.getvalue()
    repacked(saved, members)
    with pytest.raises(FileFormatError, match="'points' must be a plain array of numbers, but holds Python"):
        load(saved)
    saved.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(FileFormatError, match="no npz file"):
        load(saved)
    assert not (tmp_path / "exploded").exists()


def test_an_array_that_claims_to_be_huge(saved):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }"
    npy = b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n"
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["points.npy"] = npy
    repacked(saved, members)
    with pytest.raises(FileFormatError, match="needs 8,000,000,000,000,000 bytes"):
        load(saved)


# Writing
# -------------------------------------------------------------------------------------------------------


def test_a_failing_write_leaves_the_old_file_and_no_other(sample, saved, tmp_path, monkeypatch):
    before = saved.read_bytes()

    def full_disk(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full_disk)
    with pytest.raises(OSError, match="No space left"):
        sample.save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["sample.npz"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interrupt_while_writing_leaves_the_old_file(sample, saved, tmp_path, monkeypatch, step):
    before = saved.read_bytes()

    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        sample.save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["sample.npz"]


def test_what_cannot_be_saved_says_where_it_is(saved, tmp_path):
    strange = Sample(np.zeros(1), np.zeros(1), np.array([], dtype=object), (), {"model": object()})
    before = saved.read_bytes()
    with pytest.raises(TypeError, match=r"options\.model cannot be saved: no file form for object"):
        strange.save(saved)
    assert saved.read_bytes() == before


def test_a_saved_file_has_ordinary_permissions(saved, tmp_path):
    (tmp_path / "plain").touch()
    assert saved.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_stays_a_link(sample, saved, tmp_path):
    link = tmp_path / "link.npz"
    link.symlink_to(saved)
    sample.save(link)
    assert link.is_symlink()
    assert isinstance(load(link), Sample)


def test_a_path_must_end_in_npz(sample, tmp_path):
    with pytest.raises(InvalidInputError, match=r"must end in \.npz, but was"):
        sample.save(tmp_path / "sample.pkl")


def test_a_missing_folder_is_named(sample, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder .*nowhere does not exist"):
        sample.save(tmp_path / "nowhere" / "sample.npz")


def test_every_result_keeps_the_house_rules():
    """One-line repr, no truth value of arrays, and found by ``load`` in a fresh interpreter."""
    for module in pkgutil.walk_packages(hm.__path__, "hardmax."):
        if not module.name.endswith("__main__"):
            with suppress(MissingExtraError):  # modules that need torch say so where it is absent
                import_module(module.name)
    found = {kind: cls for kind, cls in Result._kinds.items() if cls.__module__.startswith("hardmax.")}
    for cls in found.values():
        assert cls.kind == cls.__name__
        assert cls.__repr__ is Result.__repr__, f"{cls.__name__} needs repr=False"
        assert cls.__eq__ is object.__eq__, f"{cls.__name__} needs eq=False"
    assert {kind: cls.__module__ for kind, cls in found.items()} == results._HOME_OF_KIND


SAVED = Path(__file__).parent / "saved"  # one small file per kind, of an earlier version


@pytest.mark.parametrize("kind", sorted(results._HOME_OF_KIND))
def test_a_file_of_an_earlier_version_is_read_and_written_again_with_the_same_content(kind, tmp_path):
    path = SAVED / f"{kind}.npz"
    before = storage.read(path).state
    after = storage.read(load(path).save(tmp_path / "again.npz")).state
    for heads in (before.get("heads"), before.get("atlas", {}).get("heads")):
        if isinstance(heads, dict):
            heads.pop("certified", None)  # a column that said true everywhere
    if kind == "Advice":  # ranks were not said then
        for each in before["suggestions"]:
            each |= {"ranks": [], "missed": 0.0, "narrower": []}
    if kind == "CostEstimate":
        before["narrow"] = []
    if kind == "ModelReport":
        before["attention"]["null_keys"] = 0  # every key was a token then
    if kind == "CellCount":
        before["n_zero"] = 0  # zeros were not proven then
    if kind != "TrainingResult":
        before = results._untimed(before)  # how long it took was written then
    np.testing.assert_equal(after, before)


@pytest.mark.parametrize(
    ("column", "spoiled"),
    [
        ("facets", lambda r: {"offsets": r["offsets"] + 1, "content": r["content"]}),
        ("facets", lambda r: {"offsets": r["offsets"][::-1].copy(), "content": r["content"]}),
        ("vertices", lambda r: {"offsets": r["offsets"], "content": r["content"][:-1]}),
        ("facets", lambda r: {"offsets": r["offsets"][:-1], "content": r["content"]}),
        ("margins", lambda column: column[:-1]),
        ("kind", lambda kind: "crystals"),
        ("kind", lambda kind: "__class__"),
    ],
)
def test_cells_that_do_not_fit_together_are_refused(tmp_path, column, spoiled):
    """Compiled code follows offsets: a damaged or foreign file must not lead it outside of an array."""
    found = hm.enumerate_regions(hm.Network.random_mlp([2, 4, 1], 0), hm.Box.cube(2, -1, 1))
    state = found._state()
    state["cells"] = {**state["cells"], column: spoiled(state["cells"][column])}
    path = storage.write(tmp_path / "cells.npz", storage.Stored("RegionSet", state, {}))
    with pytest.raises(FileFormatError, match="must hold a complete RegionSet"):
        hm.load(path)


def test_cells_one_by_one():
    found = hm.enumerate_regions(hm.Network.random_mlp([2, 4, 1], 0), hm.Box.cube(2, -4, 4))
    assert len(found) == found.n_cells
    assert [cell.index for cell in found] == list(range(len(found)))
    last = found[-1]
    assert last.index == len(found) - 1
    assert np.array_equal(last.witness, found.witnesses[-1])
    assert np.array_equal(last.linear, found.linear[-1])
    assert np.array_equal(last.offset, found.offset[-1])
    assert np.array_equal(last.relu_bits, found.relu_bits[-1])
    assert np.array_equal(last.routings, found.routings[-1])
    assert np.array_equal(last.vertices, found.cell_vertices(len(found) - 1))
    assert np.array_equal(last.halfspaces[0], found.halfspaces(len(found) - 1)[0])
    assert last.region == found.region_of_cell[-1]
    assert repr(last).startswith(f"<Cell {len(found) - 1} of {len(found)}: witness [")
    with pytest.raises(IndexError, match="i must be in range"):
        found[len(found)]
