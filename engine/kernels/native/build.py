"""Compiles the step with the machine's C++ compiler, once for each source, compiler and processor."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from engine.request import MAX_ROWS

SOURCE = Path(__file__).parent
ALL = ("products.cpp", "native.cpp")
PRODUCTS = ALL[:1]
"""Matrices alone: what is written for each kind of processor."""
COMPILERS = ("g++", "clang++", "c++")
FLAGS = (
    "-O3", "-ffp-contract=off", "-std=c++20", "-fPIC", "-pthread", f"-DFORETOKEN_MAX_ROWS={MAX_ROWS}",
)  # fmt: skip
"""Sums keep the order in which they are written, and are fused only where the source says so: the
compiler would fuse for some numbers of rows and not for others."""
LIMIT_S = 300


class BuildError(Exception):
    """There is no compiler, or it refused; the message says which."""


def built() -> Path | None:
    """The library for this machine, if it was built before."""
    try:
        found = _path(compiler(), "native", *ALL)
    except BuildError:
        return None
    return found if found.exists() else None


def build(sources: Sequence[str] = ALL, processor: str = "native") -> Path:
    """The library for this machine, compiled now if need be: some tens of seconds. Raises BuildError.

    ``processor``: another that the compiler knows by this name; ``sources``: a part of it.
    """
    chosen = compiler()
    target = _path(chosen, processor, *sources)
    if not target.exists():
        _compile(chosen, target, sources, f"-march={processor}")
    return target


def _compile(chosen: str, target: Path, sources: Sequence[str], processor: str) -> None:
    """All of ``sources`` at once."""
    # Under other names first: two processes may build at once, and one may be killed.
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(dir=target.parent, suffix=".tmp")
    except OSError as error:
        raise BuildError(
            f"The native step cannot be kept in {target.parent}: {error.strerror or error}. Models run "
            "without it, slower. Check the folder's permissions and free space."
        ) from error
    with temporary as name:
        objects = [Path(name) / source for source in sources]
        flags = *FLAGS, processor
        try:
            _run(
                [chosen, *flags, "-c", str(SOURCE / source), "-o", f"{made}.o"]
                for source, made in zip(sources, objects, strict=True)
            )
            whole = Path(name) / target.name
            _run(
                [
                    [
                        chosen,
                        "-shared",
                        "-pthread",
                        *(f"{one}.o" for one in objects),
                        "-o",
                        str(whole),
                    ]
                ]
            )
            os.replace(whole, target)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"{chosen} could not compile the native step: {error}") from error


def _run(commands: Iterable[Sequence[str]]) -> None:
    """All ``commands`` at once. Raises BuildError, OSError or TimeoutExpired once none of them runs."""
    with contextlib.ExitStack() as stack:
        running = []
        for command in commands:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            running.append((command[0], stack.enter_context(process)))
            stack.callback(process.kill)
        for name, process in running:
            said = process.communicate(timeout=LIMIT_S)[1].decode(errors="replace")
            if process.returncode:
                raise BuildError(f"{name} could not compile the native step: {said[-2000:]}")


@functools.cache
def compiler() -> str:
    """The C++ compiler. Raises BuildError where there is none."""
    asked = os.environ.get("CXX")
    for name in (asked, *COMPILERS) if asked else COMPILERS:
        found = shutil.which(name)
        if found:
            return found
    raise BuildError(
        f"No C++ compiler was found (looked for {', '.join(COMPILERS)}). Models run without the "
        "compiled step, slower. Install g++ or clang to have it."
    )


def folder() -> Path:
    """Where libraries are kept."""
    try:
        from platformdirs import user_cache_path
    except ImportError:  # a machine with torch alone
        return Path.home() / ".cache" / "foretoken" / "native"
    return user_cache_path("foretoken") / "native"


@functools.cache
def _path(chosen: str, *wanted: str) -> Path:
    """Another wish, source, compiler, flag or processor makes another name."""
    parts = [file.read_bytes() for file in sorted(SOURCE.glob("*.[ch]*")) if file.suffix != ".pyc"]
    version = subprocess.run(
        [chosen, "--version"], check=False, capture_output=True, timeout=LIMIT_S
    ).stdout
    parts += [
        version,
        " ".join((*FLAGS, *wanted)).encode(),
        platform.machine().encode(),
        _features(),
    ]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    return folder() / f"foretoken-{digest}{'.dylib' if sys.platform == 'darwin' else '.so'}"


def _features() -> bytes:
    """What tells apart processors that -march=native compiles for."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode()
    kept = (b"model name", b"flags", b"Features", b"CPU part")
    return b"\n".join(sorted({line for line in lines if line.startswith(kept)}))
