"""Matrices mapped from the cache multiply exactly as packed ones; a damaged file is not used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.backends.native.cache import bound
from engine.errors import BROKEN_LOGITS, DAMAGED_CACHE
from engine.kernels.formats.block_formats import DRAFT_FORMAT, NATIVE_FORMATS
from engine.kernels.native import weight_cache
from engine.kernels.native.library import Kind, Library, Matrix
from engine.kernels.native.weight_cache import CachedWeights, WeightCache
from engine.values.units import format_bytes
from tests.engine.kernels.test_stored_rows import INPUTS, OUTPUTS, stored
from tests.support.block_matrices import random_blocks

ROWS = torch.randn(3, INPUTS, generator=torch.Generator().manual_seed(1))


@dataclass(frozen=True)
class Model:
    """Two matrices of a file, one of them with a scale and a bias, and the cache of them."""

    library: Library
    folder: Path
    cache: WeightCache
    format: str = "q4_k"
    rounded: str | None = None

    def entry(self, library: Path | None = None) -> CachedWeights:
        """Return what is stored; every load asks anew."""
        file, library = self.folder / "model", library or self.library.path
        if not file.exists():
            file.touch()
        found = self.cache.of_model([(file, "header")], library, str(self.rounded))
        assert found is not None
        return found

    def load(self, entry: CachedWeights) -> list[Tensor]:
        """Return the results and rows of the matrices, and wait until what is to be stored is stored."""
        results = []
        for seed, scale in enumerate((1.0, 0.125)):
            blocks = random_blocks(self.format, OUTPUTS, INPUTS, seed=seed).times(scale)
            part = stored(blocks, self.folder / f"rows{seed}")
            matrix = Matrix(self.library, Kind.FP32, part, self.rounded, entry)
            matrix.set_bias(torch.arange(float(OUTPUTS)))
            results += [matrix(ROWS), matrix.rows(range(OUTPUTS))]
        entry.save()
        weight_cache.wait(60)
        return results

    @property
    def files(self) -> list[Path]:
        return sorted(self.cache.folder.glob("*"))


@pytest.fixture
def model(library: Library, tmp_path: Path) -> Model:
    return Model(library, tmp_path, WeightCache(tmp_path / "cache", 1 << 30, spared=0, fewest=0))


def check_equal(ours: list[Tensor], theirs: list[Tensor]) -> None:
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("rounded", [None, DRAFT_FORMAT])
@pytest.mark.parametrize("format", NATIVE_FORMATS)
def test_mapped_matrices_are_the_packed_ones(
    model: Model, format: str, rounded: str | None
) -> None:
    model = replace(model, format=format, rounded=rounded)
    first = model.entry()
    packed = model.load(first)
    mapped = model.entry()
    assert first.mapped is None
    assert mapped.mapped is not None
    before = model.files[0].read_bytes()
    check_equal(model.load(mapped), packed)
    assert model.files[0].read_bytes() == before
    assert mapped._packed == {}


def test_rows_in_another_order_are_another_matrix_and_are_not_read_again(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = random_blocks(model.format, OUTPUTS, INPUTS)
    part = stored(blocks, model.folder / "rows")
    orders = [torch.arange(OUTPUTS).roll(by) for by in (1, 2)]

    def load() -> CachedWeights:
        entry = model.entry()
        for order in orders:
            matrix = Matrix(model.library, Kind.FP32, part.rows(order), None, entry)
            assert torch.equal(matrix.rows(range(OUTPUTS)), blocks.rows(order).dequantise())
        entry.save()
        weight_cache.wait(60)
        return entry

    with monkeypatch.context() as patch:
        patch.setattr(type(part.data), "__getitem__", lambda _, rows: blocks.data[rows])
        assert load().mapped is None
    assert load().mapped is not None  # reading raises here


def test_a_check_at_the_process_s_end_finds_no_damage(model: Model) -> None:
    """Its thread goes on while Python ends, and closed files would look damaged."""
    model.load(model.entry())
    code = """
import atexit, pathlib, sys
atexit.register(lambda: print(weights.check()))
from engine.kernels.native.weight_cache import CachedWeights
weights = CachedWeights(None, pathlib.Path(sys.argv[1]), ())
assert weights.mapped is not None
"""
    command = [sys.executable, "-c", code, str(model.files[0])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_matrices_live_until_the_process_ends(library: Library) -> None:
    """Threads still save them, or compute with them, while Python ends: that read freed memory."""
    code = """
import atexit, pathlib, sys
atexit.register(lambda: print(bool((matrix.rows(range(2048)) == 1).all())))
import torch
from engine.kernels.native.library import Kind, Library, Matrix
matrix = Matrix(Library(pathlib.Path(sys.argv[1])), Kind.FP32, torch.ones(2048, 256))
"""
    command = [sys.executable, "-c", code, str(library.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "True\n"


def damaged(content: bytes, how: str) -> bytes:
    match how:
        case "truncated":
            return content[:-5000]
        case "shortened":
            return content[4096:]
        case "first page":
            return b"\1" * 64 + content[64:]
        case "table":
            return content[:-60] + b"?" + content[-59:]
        case "empty":
            return b""
    return os.urandom(100_000)


@pytest.mark.parametrize("how", ["truncated", "shortened", "first page", "table", "empty", "other"])
def test_a_damaged_or_foreign_file_is_replaced(model: Model, how: str) -> None:
    packed = model.load(model.entry())
    (file,) = model.files
    whole = file.read_bytes()
    file.chmod(0o600)
    file.write_bytes(damaged(whole, how))
    entry = model.entry()
    assert entry.mapped is None
    check_equal(model.load(entry), packed)
    assert model.files == [file]
    again = model.entry()
    assert again.mapped is not None
    check_equal(model.load(again), packed)


def test_damage_in_the_middle_is_found_while_the_file_is_mapped(
    model: Model, caplog: pytest.LogCaptureFixture
) -> None:
    packed = model.load(model.entry())
    (file,) = model.files
    entry = model.entry()
    check_equal(model.load(entry), packed)
    assert entry.check()
    assert weight_cache.why_broken() == BROKEN_LOGITS
    assert model.files == [file]
    at, size, _ = next(iter(entry._images.values()))
    assert size > 3 * 4096
    file.chmod(0o600)
    with file.open("r+b") as stream:
        stream.seek(at + size // 2)
        stream.write(b"\xff" * 64)
    assert model.entry().mapped is not None  # the ends are whole
    why = weight_cache.why_broken()
    assert why == DAMAGED_CACHE.format(and_now=" and have been removed.")
    assert model.files == []
    assert str(file) in caplog.text
    check_equal(model.load(model.entry()), packed)
    again = model.entry()
    check_equal(model.load(again), packed)
    assert again.check()


def test_a_damaged_file_that_cannot_be_deleted_is_named(
    model: Model, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the next load would map it again, and the message would send the user in a circle."""
    model.load(model.entry())
    (file,) = model.files
    entry = model.entry()
    at, size, _ = next(iter(entry._images.values()))
    file.chmod(0o600)
    with file.open("r+b") as stream:
        stream.seek(at + size // 2)
        stream.write(b"\xff" * 64)

    def refused(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refused)
    why = weight_cache.why_broken()
    assert f"could not be deleted. Delete {file}. Load" in why and "removed" not in why
    assert f"Delete {file}." in caplog.text


def test_what_is_mapped_is_checked_and_not_what_replaced_it(model: Model) -> None:
    """Another process may have found the damage first."""
    model.load(model.entry())
    (file,) = model.files
    entry, whole = model.entry(), file.read_bytes()
    at, size, _ = next(iter(entry._images.values()))
    file.chmod(0o600)
    with file.open("r+b") as stream:
        stream.seek(at + size // 2)
        stream.write(b"\xff" * 64)
    file.unlink()
    file.write_bytes(whole)
    assert not entry.check()


def test_all_is_checked_some_time_after_a_load(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.load(model.entry())
    (file,) = model.files
    file.chmod(0o600)
    with file.open("r+b") as stream:
        stream.seek(3 * 4096 // 2)
        stream.write(b"\xff" * 64)
    monkeypatch.setattr(weight_cache, "_CHECK_AFTER_S", 0.0)
    before = set(threading.enumerate())
    entry = model.entry()
    model.load(entry)
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert entry.is_damaged
    assert model.files == []


def test_another_library_setting_or_file_is_another_entry(model: Model) -> None:
    model.load(model.entry())
    assert model.entry(Path("another.so")).mapped is None
    assert replace(model, rounded=DRAFT_FORMAT).entry().mapped is None
    (model.folder / "model").write_bytes(b"changed")
    assert model.entry().mapped is None


def test_a_file_of_other_matrices_is_dropped(model: Model) -> None:
    """A later version may join other parts."""
    model.load(model.entry())
    other = replace(model, format="q6_k")
    packed = other.load(WeightCache(model.folder / "none", 1 << 30, 0, 0).of_model([], Path(), ""))
    check_equal(other.load(other.entry()), packed)
    assert model.files == []


def test_what_was_not_flushed_before_the_system_started_anew_does_not_count(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_cache, "_flush_behind", lambda file: None)
    model.load(model.entry())
    assert model.entry().mapped is not None
    monkeypatch.setattr(weight_cache, "_boot", lambda: "another")
    assert model.entry().mapped is None
    weight_cache._flush(model.files[0])
    assert model.entry().mapped is not None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_read(model: Model) -> None:
    packed = model.load(model.entry())
    model.cache.folder.chmod(0o500)
    check_equal(model.load(model.entry()), packed)
    check_equal(model.load(model.entry(Path("another.so"))), packed)


def test_a_folder_that_cannot_be_made_changes_nothing(
    model: Model, caplog: pytest.LogCaptureFixture
) -> None:
    packed = model.load(model.entry())
    (model.folder / "taken").touch()
    elsewhere = replace(model, cache=replace(model.cache, folder=model.folder / "taken" / "cache"))
    check_equal(elsewhere.load(elsewhere.entry()), packed)
    check_equal(elsewhere.load(elsewhere.entry()), packed)
    (told,) = caplog.messages
    assert str(elsewhere.cache.folder) in told
    assert "Every load packs them again" in told


def test_files_stay_within_the_limit_and_leave_the_disk_room(model: Model) -> None:
    model.load(model.entry())
    (file,) = model.files
    size = file.stat().st_size
    two = replace(model, cache=replace(model.cache, limit=2 * size))
    for age, name in enumerate(["b", "c"]):
        two.load(two.entry(Path(name)))
        for each in two.files:
            os.utime(each, ns=(0, each.stat().st_mtime_ns - 10**9 * (age + 1)))
    assert len(two.files) == 2
    assert file not in two.files  # the least recently used one
    full = replace(model, cache=replace(model.cache, spared=1 << 60))
    full.load(full.entry(Path("d")))
    small = replace(model, cache=replace(model.cache, limit=size // 2))
    small.load(small.entry(Path("e")))
    assert len(full.files) == 2, "what can never be stored takes nobody's place"


def test_what_bounds_the_files_is_told(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Settings page said 20 GB, whatever the limit and the disk were."""
    model.load(model.entry())
    (file,) = model.files
    free, used = 5 * 10**9, file.stat().st_size
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert replace(model.cache, limit=3 * 10**9, spared=10**9).bound() == (
        "at most 3.0 GB; change with the variable FORETOKEN_WEIGHT_CACHE_GB"
    )
    tight = replace(model.cache, limit=3 * 10**9, spared=free - 10**6)
    assert tight.bound() == (
        f"at most {format_bytes(10**6 + used)} now, since 5.0 GB of the disk stay free"
    )
    assert not tight.make_room(10**6 + used + 1)
    assert tight.make_room(10**6) and model.files == [file]
    assert tight.make_room(10**6 + 1) and model.files == [], "old files make room on a full disk"
    none = replace(tight, spared=free + 2 * used)
    assert none.bound().startswith("at most 0 B now") and not none.make_room(1)


def test_files_of_deleted_models_go(model: Model) -> None:
    model.load(model.entry())
    model.cache.forget_gone()
    assert len(model.files) == 1
    (model.folder / "model").unlink()
    model.cache.forget_gone()
    assert model.files == []


@pytest.mark.parametrize("given", ["-1", "abc", "nan", "inf", "1e300"])
def test_a_limit_that_is_none_says_what_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, given: str
) -> None:
    weight_cache._warn_once.cache_clear()
    monkeypatch.setenv(weight_cache.LIMIT, given)
    cache = WeightCache.of_app(tmp_path)
    assert cache is not None
    assert cache.limit == 20 * 10**9
    (told,) = caplog.messages
    assert repr(given) in told
    assert "20 GB is used" in told


def test_what_a_killed_process_left_goes_and_what_is_being_written_stays(model: Model) -> None:
    model.cache.folder.mkdir()
    code = f"""
import tempfile
from pathlib import Path
from engine.kernels.native import weight_cache
descriptor, part = tempfile.mkstemp(".part", dir={str(model.cache.folder)!r})
weight_cache._lock(descriptor)
print("ready", flush=True)
input()
"""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        model.entry()
        assert len(model.files) == 1
        writer.kill()
        writer.wait()
    model.entry()
    assert len(model.files) == 1  # a young one, which a process may be about to lock
    os.utime(model.files[0], (0, 0))
    model.entry()
    assert model.files == []


def test_the_cache_can_be_turned_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(weight_cache.LIMIT, "0")
    assert WeightCache.of_app(tmp_path) is None
    assert bound() == "No packed weights are stored."


def test_processes_that_write_at_once_leave_one_whole_file(model: Model) -> None:
    packed = model.load(model.entry())
    code = f"""
from pathlib import Path
from engine.kernels.native.library import Library
from engine.kernels.native.weight_cache import WeightCache
from tests.engine.kernels.test_weight_cache import Model
folder = Path({str(model.folder)!r})
cache = WeightCache(folder / "both", 1 << 30, spared=0, fewest=0)
own = folder / str(__import__("os").getpid())
own.mkdir()
model = Model(Library(Path({str(model.library.path)!r})), folder, cache)
entry = model.entry()
object.__setattr__(model, "folder", own)
assert entry.mapped is None
print("ready", flush=True)
input()
model.load(entry)
"""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([sys.executable, "-c", code], **pipes) for _ in range(2)]
    for process in running:  # both find nothing before either writes
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        process.communicate()
    assert [process.returncode for process in running] == [0, 0]
    both = replace(model, cache=replace(model.cache, folder=model.folder / "both"))
    assert len(both.files) == 1
    entry = both.entry()
    assert entry.mapped is not None
    check_equal(both.load(entry), packed)
