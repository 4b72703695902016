"""Packed matrices of a model in a file that the next load maps, in place of packing them again.

Its name is a hash of everything that the bytes depend on. It is used if its size, its table's hash, and
the first and last page of every matrix are as they were written. The rest is checked some time after the
load, or as soon as logits are broken. What was not flushed before the system started anew is not used.

Files are written once and then replaced or deleted, never changed, so a mapping stays as it is.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import math
import mmap
import os
import shutil
import stat
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine.errors import BROKEN_LOGITS, DAMAGED_CACHE
from engine.files import size_on_disk
from engine.kernels.native.weight_file import Packed, crc, ends, read_table, write
from engine.values.units import format_bytes

if sys.platform != "win32":
    import fcntl

log = logging.getLogger(__name__)

LIMIT = "FORETOKEN_WEIGHT_CACHE_GB"
"""Environment variable: bytes of all files in GB; 0 turns the cache off."""
LIMIT_GB = 20.0
SPARED = 10 * 10**9
"""Bytes of the disk that are left free."""
FEWEST = 64 << 20
"""Bytes of a model that is worth a file."""
_YOUNG_S = 10.0
"""Age up to which an unfinished file may be one that its process is about to lock."""
_SUFFIX, _PART = ".weights", ".part"
_FLUSHED = stat.S_IRUSR
"""The mode of a file that is on the disk."""
_CHECK_AFTER_S = 10.0
"""Seconds from a load to the check of all that is mapped, so that it delays no first token."""
_LOWEST = 19
"""The nice value of the thread that checks."""


@dataclass(frozen=True, slots=True)
class WeightCache:
    """The cache files in ``folder``, at most ``limit`` bytes together."""

    folder: Path
    limit: int
    spared: int = SPARED
    fewest: int = FEWEST

    @classmethod
    def of_app(cls, folder: Path) -> WeightCache | None:
        """Return the cache with the user's limit; None where it is turned off, or cannot be used.

        Only on Linux was it measured that matrices are as fast in a mapped file.
        """
        given = os.environ.get(LIMIT, str(LIMIT_GB))
        try:
            limit = float(given) * 1e9
        except ValueError:
            limit = math.nan
        if not 0 <= limit < math.inf:
            _warn_once(f"{LIMIT} is {given!r}, not a number of GB: {LIMIT_GB:g} GB is used.")
            limit = LIMIT_GB * 1e9
        return cls(folder, int(limit)) if limit > 0 and sys.platform == "linux" else None

    def of_model(
        self, files: Iterable[tuple[Path, str]], library: Path, setting: str
    ) -> CachedWeights | None:
        """Return what is stored of a model in ``files``, each with the hash of its header, packed by
        ``library`` in a ``setting``.

        None: it is too small, or a file is gone.
        """
        paths, parts = [], [library.name, setting]
        size = 0
        for file, digest in files:
            path = file.resolve()
            try:
                now = path.stat()
            except OSError:
                return None
            parts += [digest, *map(str, (now.st_size, now.st_mtime_ns, now.st_ctime_ns))]
            parts += map(str, (now.st_dev, now.st_ino))
            paths.append(str(path))
            size += now.st_size
        if size < self.fewest:
            return None
        self._forget_parts()
        name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
        return CachedWeights(self, self.folder / f"{name}{_SUFFIX}", tuple(paths))

    def make_room(self, size: int) -> bool:
        """Return whether ``size`` more bytes can be within the limits; delete files until they are."""
        self.forget_gone()
        kept = sorted(self.folder.glob(f"*{_SUFFIX}"), key=_last_use)
        total = sum(map(size_on_disk, kept))
        most = min(self.limit, self._room(total))
        while size <= most and total + size > most:
            total -= size_on_disk(kept[0])
            kept.pop(0).unlink(missing_ok=True)
        return size <= most

    def bound(self) -> str:
        """Return how many bytes all files may have now, and what bounds them, for people."""
        room = self._room(sum(map(size_on_disk, self.folder.glob(f"*{_SUFFIX}"))))
        if room < self.limit:
            left = f"{format_bytes(self.spared)} of the disk stay free"
            return f"at most {format_bytes(max(room, 0))} now, since {left}"
        return f"at most {format_bytes(self.limit)}; change with the variable {LIMIT}"

    def _room(self, total: int) -> int:
        """Return how many bytes the disk has for all files, which have ``total``."""
        there = next(each for each in (self.folder, *self.folder.parents) if each.exists())
        return total + shutil.disk_usage(there).free - self.spared

    def forget_gone(self) -> None:
        """Delete the files of models that are no longer where they were, and damaged ones."""
        for each in list(self.folder.glob(f"*{_SUFFIX}")):
            with contextlib.suppress(OSError):
                table = read_table(each)
                if table is None or not all(map(os.path.exists, table["files"])):
                    each.unlink(missing_ok=True)

    def _forget_parts(self) -> None:
        """Delete unfinished files whose processes are gone. A young one may not be locked yet."""
        for part in list(self.folder.glob(f"*{_PART}")):
            with contextlib.suppress(OSError), part.open("rb") as stream:
                if time.time() - part.stat().st_mtime < _YOUNG_S:
                    continue
                _lock(stream.fileno())
                part.unlink()


@dataclass(eq=False)
class CachedWeights:
    """The matrices of one model; see ``WeightCache.of_model``."""

    cache: WeightCache
    file: Path
    model: tuple[str, ...]
    mapped: np.ndarray | None = None
    is_damaged: bool = False
    """Whether the file was found damaged while it was mapped."""
    _images: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Places, sizes and checksums by key."""
    _descriptor: int = -1
    """Of what is mapped: another process may have replaced the file since."""
    _packed: dict[str, Packed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Map the file, if there is one that counts."""
        try:
            table = read_table(self.file)
            if table is None or not (_is_flushed(self.file) or _boot() == table["boot"] != ""):
                return
            self._descriptor = os.open(self.file, os.O_RDONLY)
            # Not at the process's end, where the check may still read it.
            weakref.finalize(self, os.close, self._descriptor).atexit = False
            pages = mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ)
            if ends(pages, table["matrices"].values()) != table["ends"]:
                return
            sums = table["sums"]
            self._images = {key: (*place, sums[key]) for key, place in table["matrices"].items()}
            with contextlib.suppress(OSError, AttributeError):  # a kernel without huge pages
                pages.madvise(mmap.MADV_HUGEPAGE)
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.info("%s is not used: %s", self.file, error)
            return
        with contextlib.suppress(OSError):  # a folder that is read-only
            os.utime(self.file)
        self.mapped = np.frombuffer(pages, np.uint8)
        _in_use.add(self)

    def find(self, key: str) -> int | None:
        """Return the address of a matrix's image, while ``mapped`` lives; None if it is not stored."""
        if self.mapped is None or key not in self._images:
            return None
        return int(self.mapped.ctypes.data) + self._images[key][0]

    def add(self, key: str, matrix: Packed) -> None:
        """Store a packed matrix with the next ``save``."""
        self._packed[key] = matrix

    def save(self) -> None:
        """Write all matrices in the background, if some were packed; see ``wait``."""
        matrices, self._packed = self._packed, {}
        if matrices and self.mapped is None:
            writer = threading.Thread(target=self._save, args=(matrices,), daemon=True)
            _writers.append(writer)
            writer.start()
        elif matrices:  # other code made the file
            self.file.unlink(missing_ok=True)
        elif self.mapped is not None:
            _flush_behind(self.file)
            timer = threading.Timer(_CHECK_AFTER_S, _check_behind, [weakref.ref(self)])
            timer.daemon = True
            timer.start()

    def check(self) -> bool:
        """Return whether all that is mapped is as it was written; if not, delete it. Reads 4 GB/s."""
        if self.mapped is None or self.is_damaged:
            return not self.is_damaged
        # Read, not through the map: pages that no step needs would count as memory.
        with contextlib.suppress(OSError):  # the disk cannot read it
            images = self._images.values()
            if all(crc(self._descriptor, at, size) == total for at, size, total in images):
                return True
        self.is_damaged = True
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)
        log.warning(
            "The packed weights in %s are damaged%s Replies since the model was loaded may be wrong: "
            "load it again.", self.file, _and_now([self.file]),
        )  # fmt: skip
        return False

    def _save(self, matrices: dict[str, Packed]) -> None:
        part = None
        try:
            self.cache.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sizes = {key: each.library.image_bytes(each.pointer) for key, each in matrices.items()}
            if not self.cache.make_room(sum(sizes.values())):
                raise OSError(
                    f"{sum(sizes.values()) / 1e9:.1f} GB are needed, {LIMIT} allows "
                    f"{self.cache.limit / 1e9:g} GB, and {self.cache.spared / 1e9:.0f} GB of the "
                    "disk stay free"
                )
            descriptor, part = tempfile.mkstemp(_PART, dir=self.cache.folder)
            with open(descriptor, "rb+", buffering=0) as stream:
                _lock(stream.fileno())
                write(stream.fileno(), matrices, sizes, self.model, _boot())
                os.replace(part, self.file)  # locked until it has its name
        except OSError as error:
            _warn_once(
                f"Packed weights are not stored in {self.cache.folder}: {error.strerror or error}. "
                "Every load packs them again, which takes seconds, and more memory."
            )
            if part is not None:
                Path(part).unlink(missing_ok=True)
        else:
            _flush_behind(self.file)


_in_use: weakref.WeakSet[CachedWeights] = weakref.WeakSet()


def why_broken() -> str:
    """Return why logits are no numbers. Deletes the files that are mapped and damaged."""
    damaged = [each.file for each in list(_in_use) if not each.check()]
    return DAMAGED_CACHE.format(and_now=_and_now(damaged)) if damaged else BROKEN_LOGITS


def _and_now(damaged: Sequence[Path]) -> str:
    """Return the end of a sentence: whether the files are gone."""
    left = ", ".join(str(each) for each in damaged if each.exists())
    return f", and could not be deleted. Delete {left}." if left else " and have been removed."


def _check_behind(weights: weakref.ref[CachedWeights]) -> None:
    if hasattr(os, "setpriority"):  # of this thread, on Linux
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)
    if (held := weights()) is not None:
        held.check()


@functools.cache
def _warn_once(text: str) -> None:
    log.warning("%s", text)


def _lock(descriptor: int) -> None:
    """Lock a file until it is closed or its process ends. Raises OSError if it is locked."""
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_writers: list[threading.Thread] = []


def wait(seconds: float) -> None:
    """Wait until files are complete, but not longer; they may be flushed to the disk later."""
    end = time.monotonic() + seconds
    while _writers:
        _writers.pop().join(max(end - time.monotonic(), 0))


def _flush_behind(file: Path) -> None:
    threading.Thread(target=_flush, args=(file,), daemon=True).start()


def _flush(file: Path) -> None:
    """Write a file from the system's memory to the disk, and mark it by making it read-only."""
    with contextlib.suppress(OSError):
        if not _is_flushed(file):
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
                os.fchmod(stream.fileno(), _FLUSHED)


def _is_flushed(file: Path) -> bool:
    return stat.S_IMODE(file.stat().st_mode) == _FLUSHED


def _boot() -> str:
    """Return what identifies this run of the system; "" if nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return ""


def _last_use(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
