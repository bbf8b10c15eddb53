"""One file of JSON and arrays: what was written comes back, and nothing else is believed."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.core import container
from leastnoise.core.errors import PlanFileError, TooLargeError
from leastnoise.privacy import GDP, Ledger
from leastnoise.privacy.ledger import sqlite_file as ledger_file
from support import refuses

CONTENT = {"a": 1, "text": "ä <b>", "nested": {"list": [1.5, None, True]}}
ARRAYS = {"rows": np.arange(6).reshape(2, 3), "q": np.array([0.1, 1e-300, 1e300])}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return container.write(tmp_path / "thing.bin", "thing", CONTENT, ARRAYS)


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(path: Path, parts: dict[str, bytes], *, fix_digest: bool = True, **how: Any) -> Path:
    """The archive with other parts; its digest made right, as an attacker would."""
    if fix_digest and "head.json" in parts and "content.json" in parts:
        head = json.loads(parts["head.json"])
        arrays = {n: d for n, d in parts.items() if n not in ("head.json", "content.json")}
        head["digest"] = container._digest(parts["content.json"], arrays)
        parts = parts | {"head.json": json.dumps(head).encode()}
    with zipfile.ZipFile(path, "w", **how) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def npy(array: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def refused(path: Path, words: str = "") -> None:
    with pytest.raises(PlanFileError, match=words):
        container.read(path, "thing")


def test_what_was_written_comes_back(saved: Path) -> None:
    content, arrays = container.read(saved, "thing")
    assert content == CONTENT and set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype and np.array_equal(arrays[name], array)


def test_a_rewritten_file_is_read_where_nothing_changed(saved: Path) -> None:
    """The twin of all refusals below: what they rewrite would be read if it were right."""
    assert container.read(rewritten(saved, members(saved)), "thing")[0] == CONTENT


def test_missing_foreign_and_empty_files(tmp_path: Path, saved: Path) -> None:
    refused(tmp_path / "none.bin", "there is no file '.*none.bin'")
    refused(tmp_path, "damaged or not a leastnoise file")
    for data in (b"", b"PK", b"hello", pickle.dumps({"a": 1}), npy(np.ones(3))):
        (tmp_path / "other").write_bytes(data)
        refused(tmp_path / "other", "'other' cannot be read: it is damaged or not a leastnoise file")
    with refuses(PlanFileError, "path", "thing.bin"):
        container.read(saved, "plan")


def test_truncation_at_every_length_is_refused(saved: Path, tmp_path: Path) -> None:
    data = saved.read_bytes()
    for length in range(0, len(data), 7):
        (tmp_path / "cut").write_bytes(data[:length])
        refused(tmp_path / "cut", "damaged or not a leastnoise file")


SURROUNDED = "'around' cannot be read: it is damaged or not a leastnoise file"


@pytest.mark.parametrize("before", [b"x", b"PK\x03\x04", bytes(4096), b"SQLite format 2\0"])
def test_nothing_may_stand_before_the_archive(before: bytes, saved: Path, tmp_path: Path) -> None:
    """zipfile finds an archive anywhere in a file, also where its places were moved on purpose."""
    around = tmp_path / "around"
    around.write_bytes(before + saved.read_bytes())
    assert zipfile.is_zipfile(around)
    refused(around, SURROUNDED)
    with pytest.raises(PlanFileError, match=SURROUNDED):
        container.from_bytes(around.read_bytes(), "thing", "around")
    parts = members(saved)
    around.write_bytes(before)
    with zipfile.ZipFile(around, "a") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    refused(around, SURROUNDED)


def test_an_archive_that_skips_its_first_part_is_refused(saved: Path, tmp_path: Path) -> None:
    """Begun as an archive and ended as one, with something that is no part of it in front."""
    around = tmp_path / "around"
    around.write_bytes(saved.read_bytes() * 2)
    with zipfile.ZipFile(around) as archive:
        assert archive.infolist()[0].header_offset > 0
    refused(around, SURROUNDED)


@pytest.mark.parametrize("after", [b"x", bytes(22), b"PK\x05\x06" + bytes(17), bytes(4096)])
def test_nothing_may_stand_after_the_archive(
    after: bytes, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = tmp_path / "around"
    around.write_bytes(saved.read_bytes() + after)
    refused(around, SURROUNDED)
    # A twin that leaves the looking to zipfile reads most of them.
    monkeypatch.setattr(container, "_whole_size", lambda source, _: source.seek(0, io.SEEK_END))
    if b"PK" not in after and len(after) != 22:
        assert container.read(around, "thing")[0] == CONTENT


def test_a_comment_is_something_after_the_archive(saved: Path) -> None:
    with zipfile.ZipFile(saved, "a") as archive:
        archive.comment = b"hidden"
    refused(saved, "damaged or not a leastnoise file")


def test_a_ledger_is_named_as_one(saved: Path, tmp_path: Path) -> None:
    """The releases that a ledger stores used to be found within its file."""
    path = tmp_path / "budget.db"
    Ledger(path, dataset="people", limit=GDP(1))
    words = "'budget.db' is a ledger; `leastnoise ledger fetch budget.db ID` hands out a release"
    refused(path, words)
    path.write_bytes(path.read_bytes() + saved.read_bytes())
    refused(path, words)
    assert path.read_bytes()[68:72] == container._LEDGER == ledger_file._APPLICATION.to_bytes(4, "big")
    path.write_bytes(b"SQLite format 3\0" + bytes(100))
    refused(path, "path must be a saved plan or release, not a database, got 'budget.db'")


def test_an_altered_part_is_noticed(saved: Path) -> None:
    parts = members(saved)
    parts["content.json"] = parts["content.json"].replace(b"1.5", b"2.5")
    refused(
        rewritten(saved, parts, fix_digest=False), "has been modified or damaged since it was saved; save it"
    )
    parts["q.npy"], parts["rows.npy"] = parts["rows.npy"], parts["q.npy"]
    refused(rewritten(saved, parts, fix_digest=False), "has been modified or damaged")


@pytest.mark.parametrize("missing", ["head.json", "content.json"])
def test_a_missing_part_is_refused(saved: Path, missing: str) -> None:
    parts = members(saved)
    del parts[missing]
    refused(rewritten(saved, parts), "damaged or not a leastnoise file")


@pytest.mark.parametrize(
    "head", [b"", b"[]", b"3", b'"x"', b"{}", b'{"kind": "thing"}', b"\xff", b"[" * 100_000]
)
def test_heads_that_are_none_are_refused(saved: Path, head: bytes) -> None:
    refused(rewritten(saved, members(saved) | {"head.json": head}, fix_digest=False), "cannot be read")


@pytest.mark.parametrize("content", [b"", b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"a": ' * 50_000])
def test_contents_that_are_none_are_refused(saved: Path, content: bytes) -> None:
    refused(rewritten(saved, members(saved) | {"content.json": content}), "cannot be read")


class _Bomb:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("/tmp/leastnoise-was-unpickled",))


@pytest.mark.parametrize(
    "data",
    [
        npy(np.array([_Bomb()], dtype=object), allow_pickle=True),
        pickle.dumps(_Bomb()),
        npy(np.array(["text"])),
        npy(np.array([1 + 2j])),
        npy(np.array([True])),
        npy(np.array([(1, 2.0)], dtype=[("a", "i8"), ("b", "f8")])),
        npy(np.arange(3)) + b"\0",
        npy(np.arange(3))[:-1],
        b"\x93NUMPY\x09\x00" + npy(np.arange(3))[8:],
        b"",
    ],
)
def test_arrays_that_are_not_plain_numbers_are_refused(saved: Path, data: bytes) -> None:
    refused(rewritten(saved, members(saved) | {"q.npy": data}), "damaged or not a leastnoise file")
    assert not Path("/tmp/leastnoise-was-unpickled").exists()


def test_a_header_that_claims_terabytes_allocates_nothing(saved: Path) -> None:
    data = npy(np.arange(3))
    for shape in (b"(10**12,)", b"(999999999999,)", b"(4294967296, 4294967296)", b"(-1,)"):
        # The header is padded with spaces: keep its length.
        longer = re.sub(rb"\(3,\), }( *)", lambda m, s=shape: s + b", }" + m[1][len(s) - 4 :], data)
        assert len(longer) == len(data)
        tracemalloc.start()
        refused(rewritten(saved, members(saved) | {"q.npy": longer}), "damaged or not a leastnoise file")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10 * 2**20


# Bombs and names -----------------------------------------------------------------------------


def bomb(saved: Path, name: str, size: int, **how: Any) -> Path:
    with zipfile.ZipFile(saved, "w", **({"compression": zipfile.ZIP_DEFLATED} | how)) as archive:
        for part, data in {"head.json": b"{}", "content.json": b"{}"}.items():
            archive.writestr(part, data)
        with archive.open(name, "w", force_zip64=True) as member:
            for _ in range(size // 2**22):
                member.write(bytes(2**22))
    return saved


def refused_unopened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*given: Any) -> Any:
        raise AssertionError("a part was unpacked")

    monkeypatch.setattr(zipfile.ZipFile, "read", opened)
    monkeypatch.setattr(zipfile.ZipFile, "open", opened)
    refused(path, "would unpack to more than a leastnoise file holds")


@pytest.mark.thorough
@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_bomb_of_zeros_is_refused_without_unpacking(
    saved: Path, monkeypatch: pytest.MonkeyPatch, compression: int
) -> None:
    """Honest deflate makes a thousand to one of zeros; the files written here never do."""
    path = bomb(saved, "rows.npy", 2**28, compression=compression)
    assert path.stat().st_size < 2**20
    refused_unopened(path, monkeypatch)


def test_a_huge_header_is_refused_without_unpacking(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"head.json": b"{}", "content.json": b" " * (container.MAX_JSON_BYTES + 1)}
    refused_unopened(rewritten(saved, parts, fix_digest=False), monkeypatch)


def test_sizes_that_the_file_does_not_have_are_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A central directory may claim a large packed size, which makes any ratio look honest."""
    path = bomb(saved, "rows.npy", 2**24)
    with zipfile.ZipFile(path) as archive:
        true_size = archive.getinfo("rows.npy").compress_size
    data = path.read_bytes()
    at = data.rindex(true_size.to_bytes(4, "little"))
    path.write_bytes(data[:at] + (2**24).to_bytes(4, "little") + data[at + 4 :])
    refused_unopened(path, monkeypatch)


def test_arrays_of_zeros_are_saved_and_loaded(tmp_path: Path) -> None:
    zeros = np.zeros((2000, 1000), dtype=np.int64)
    path = container.write(tmp_path / "zeros", "thing", {}, {"rows": zeros})
    assert path.stat().st_size < 2**20
    assert np.array_equal(container.read(path, "thing")[1]["rows"], zeros)


def test_what_shrinks_too_well_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "_MAX_RATIO", 50)
    zeros = np.zeros(10**5)
    path = container.write(tmp_path / "zeros", "thing", {}, {"q": zeros})
    assert path.stat().st_size > zeros.nbytes
    assert np.array_equal(container.read(path, "thing")[1]["q"], zeros)


@pytest.mark.parametrize(
    "name",
    ["../q.npy", "/etc/passwd", "a/b.npy", "..\\q.npy", "q", "q.npy.npy", "q.txt", ".npy", "C:q.npy", "q/"],
)
def test_names_that_lead_elsewhere_are_refused(saved: Path, name: str) -> None:
    refused(
        rewritten(saved, members(saved) | {name: npy(np.ones(2))}), "holds parts that no leastnoise file has"
    )


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_repeated_parts_are_refused(saved: Path) -> None:
    with zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("q.npy", npy(np.ones(3)))
    refused(saved, "has too many parts or repeats one")


def test_many_parts_are_refused(saved: Path) -> None:
    extra = {f"x{i}.npy": npy(np.ones(1)) for i in range(container.MAX_MEMBERS)}
    refused(rewritten(saved, members(saved) | extra), "has too many parts or repeats one")


def test_every_flipped_byte_is_noticed_or_harmless(saved: Path, tmp_path: Path) -> None:
    data = bytearray(saved.read_bytes())
    rng = np.random.default_rng(1)
    loaded = 0
    for at in range(len(data)):
        other = data.copy()
        other[at] ^= int(rng.integers(1, 256))
        (tmp_path / "flipped").write_bytes(other)
        try:
            content, arrays = container.read(tmp_path / "flipped", "thing")
        except PlanFileError:
            continue
        loaded += 1
        assert content == CONTENT and all(np.array_equal(arrays[n], a) for n, a in ARRAYS.items())
    assert loaded < len(data) / 2


# Writing -------------------------------------------------------------------------------------


def test_a_failed_write_leaves_nothing_behind(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def fails(*given: Any, **options: Any) -> None:
        raise OSError("disk full")

    for target, name in ((os, "replace"), (zipfile.ZipFile, "writestr"), (container, "_npy")):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, fails)
            with pytest.raises(OSError, match="disk full"):
                container.write(saved, "thing", {"b": 2}, ARRAYS)
        assert saved.read_bytes() == before
        assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_an_interrupted_write_leaves_nothing_behind(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "writestr", interrupted)
    with pytest.raises(KeyboardInterrupt):
        container.write(saved, "thing", {"b": 2}, ARRAYS)
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_content_that_json_cannot_hold_is_refused_before_writing(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        container.write(tmp_path / "x", "thing", {"a": object()}, {})
    with pytest.raises(ValueError, match="allow_pickle=False"):
        container.write(tmp_path / "x", "thing", {}, {"a": np.array([object()])})
    assert not list(tmp_path.iterdir())


def test_what_could_not_be_read_back_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dense matrix of millions of reals was saved and then refused on loading."""
    monkeypatch.setattr(container, "MAX_JSON_BYTES", 1000)
    with refuses(TooLargeError, "workload", 1009):
        container.write(tmp_path / "x", "thing", {"a": "x" * 1000}, {})
    assert not list(tmp_path.iterdir())


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        container.write(tmp_path / "no" / "x", "thing", {}, {})
    assert not list(tmp_path.iterdir())
