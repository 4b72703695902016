"""Compile the step on this machine, once for each source, compiler and processor, and load it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import platform
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import what_failed
from engine.kernels import native
from engine.machine import compilers
from engine.machine.compilers import BuildError, Compiler, NoCompiler
from engine.machine.processor import name as processor_name
from engine.values import MAX_ROWS

if TYPE_CHECKING:
    from engine.kernels.native.library import Library

log = logging.getLogger(__name__)

SOURCE = Path(native.__file__).parent
ALL = ("matrix/linear.cpp", "step/native.cpp")
LINEAR = ALL[:1]
"""Matrices alone, whose code differs by processor."""
FLAGS = (
    "-O3", "-ffp-contract=off", "-std=c++20", "-pthread", f"-DFORETOKEN_MAX_ROWS={MAX_ROWS}",
    *(() if sys.platform == "win32" else ("-fPIC",)),
)  # fmt: skip
"""Sums keep their written order, and are fused only where the source says so: the compiler would fuse for
some numbers of rows and not for others. On Windows all code is relocatable, and clang refuses -fPIC."""
LINKED = ("-shared", *(("-static",) if sys.platform == "win32" else ()))
"""Static on Windows, where the compiler's own libraries would not be found."""
SUFFIXES = {"darwin": ".dylib", "win32": ".dll"}
"""Suffixes of libraries by system; ".so" elsewhere."""
LIMIT_S = 900
"""Limit of a compilation. zig compiles its C++ library before the first one."""


def built() -> Path | None:
    """Return the library for this machine; None if it is not built."""
    for chosen in compilers.found():
        with contextlib.suppress(BuildError):
            path = _path(chosen, "native", *ALL)
            if path.exists():
                return path
    return None


def build(
    sources: Sequence[str] = ALL,
    processor: str = "native",
    candidates: Iterable[Compiler] | None = None,
) -> Path:
    """Return the library for this machine, compiled if need be, which takes some tens of seconds.

    ``sources``: a part of it. ``processor``: another one, by the compilers' name. ``candidates``: the
    compilers to try in order; None means those of this machine. Raises NoCompiler, and BuildError with
    the first compiler's message.
    """
    refused = None
    for chosen in compilers.found() if candidates is None else candidates:
        try:
            target = _path(chosen, processor, *sources)
            if not target.exists():
                _compile(chosen, target, sources, processor)
            return target
        except BuildError as error:
            refused = refused or error
    raise refused or NoCompiler()


def _compile(chosen: Compiler, target: Path, sources: Sequence[str], processor: str) -> None:
    """Compile all ``sources`` at once and link them to ``target``; wait while another process does it."""
    from filelock import FileLock

    flags = (*chosen.command, *FLAGS, chosen.processor(processor))
    with contextlib.ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(target.with_suffix(".lock")))
            if target.exists():  # from that other process
                return
            # In a temporary folder first: this process may be killed.
            temporary = tempfile.TemporaryDirectory(dir=target.parent, suffix=".tmp")
            scratch = Path(stack.enter_context(temporary))
        except OSError as error:
            raise BuildError(
                f"The compiled kernels cannot be saved in {target.parent}: "
                f"{what_failed(error)}. Models run without them, slower. Check the folder's "
                "permissions and free space."
            ) from error
        objects = {source: str(scratch / f"{Path(source).stem}.o") for source in sources}
        linked = scratch / target.name
        try:
            environment = chosen.environment(scratch)
            _run(
                ([*flags, "-c", str(SOURCE / source), "-o", to] for source, to in objects.items()),
                environment,
            )
            _run([[*flags, *LINKED, *objects.values(), "-o", str(linked)]], environment)
            _move(linked, target)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildError(
                f"{chosen} could not compile the kernels: {what_failed(error)}"
            ) from error


def _move(linked: Path, target: Path) -> None:
    try:
        os.replace(linked, target)
    except PermissionError:  # Windows, where another process built it meanwhile and has it open
        if not target.exists():
            raise


def _run(commands: Iterable[Sequence[str]], environment: dict[str, str]) -> None:
    """Run all ``commands`` at once. Raises BuildError, OSError or TimeoutExpired once none runs."""
    with contextlib.ExitStack() as stack:
        running = []
        for command in commands:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                creationflags=compilers.QUIETLY,
            )
            running.append((command[0], stack.enter_context(process)))
            stack.callback(process.kill)
        for name, process in running:
            output = process.communicate(timeout=LIMIT_S)[1].decode(errors="replace")
            if process.returncode:
                raise BuildError(f"{name} could not compile the kernels: {output[-2000:]}")


@functools.cache
def load(path: Path, threads: int | None = None) -> Library | None:
    """Return the library in ``path``, on ``threads``; None where this system will not load it."""
    from engine.kernels.native.library import Library  # brings torch

    try:
        return Library(path, threads)
    except OSError as error:
        log.warning("The compiled kernels in %s cannot be loaded: %s", path, error)
        return None


def ready(threads: int | None = None) -> Library | None:
    """Return the compiled library, or None where it is not built yet.

    There is one for each number of ``threads``. ``Device.native`` says whether it may be used.
    """
    path = built()
    return None if path is None else load(path, threads)


def build_in_background(done: Callable[[], None]) -> None:
    """Build the library on a thread of its own; call ``done`` once it is there.

    Another process may have built it since the caller looked.
    """
    threading.Thread(target=_build_and_load, args=(done,), name="build", daemon=True).start()


def _build_and_load(done: Callable[[], None]) -> None:
    try:
        path = build()
    except BuildError as error:
        log.info("%s", error)
        return
    if load(path) is not None:
        done()


def folder() -> Path:
    """Return the folder of the libraries."""
    return compilers.cache_folder() / "native"


@functools.cache
def _path(chosen: Compiler, processor: str, *sources: str) -> Path:
    """Return a path that names processor, source, compiler, flags and machine. Raises BuildError."""
    files = sorted(file for file in SOURCE.rglob("*") if file.suffix in (".cpp", ".h"))
    parts = [file.read_bytes() for file in files]
    parts += [
        chosen.version(),
        " ".join((*FLAGS, processor, *sources)).encode(),
        platform.machine().encode(),
        _features(),
    ]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    return folder() / f"foretoken-{digest}{SUFFIXES.get(sys.platform, '.so')}"


def _features() -> bytes:
    """Return the properties of the processor that -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return processor_name().encode()
    fields = (b"model name", b"flags", b"Features", b"CPU part")
    return b"\n".join(sorted({line for line in lines if line.startswith(fields)}))
