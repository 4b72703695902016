"""Compiles the step with the machine's C++ compiler, once for each source, compiler and processor."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from engine.request import MAX_ROWS

SOURCE = Path(__file__).parent
COMPILERS = ("g++", "clang++", "c++")
FLAGS = (
    "-O3", "-march=native", "-ffp-contract=off", "-std=c++20", "-fPIC", "-shared", "-pthread",
    f"-DFORETOKEN_MAX_ROWS={MAX_ROWS}",
)  # fmt: skip
"""Sums keep the order in which they are written, and are fused only where the source says so: the
compiler would fuse for some numbers of rows and not for others."""
LIMIT_S = 300


class BuildError(Exception):
    """There is no compiler, or it refused; the message says which."""


def built() -> Path | None:
    """The library for this machine, if it was built before."""
    try:
        found = _path(compiler())
    except BuildError:
        return None
    return found if found.exists() else None


def build() -> Path:
    """The library for this machine, compiled now if need be: some ten seconds. Raises BuildError."""
    chosen = compiler()
    target = _path(chosen)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # Under another name first: two processes may build at once, and one may be killed.
    handle, unfinished = tempfile.mkstemp(suffix=".tmp", dir=target.parent)
    os.close(handle)
    command = [chosen, *FLAGS, str(SOURCE / "native.cpp"), "-o", unfinished]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
        if done.returncode:
            raise BuildError(f"{chosen} could not compile the native step: {done.stderr[-2000:]}")
        os.replace(unfinished, target)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{chosen} could not compile the native step: {error}") from error
    finally:
        Path(unfinished).unlink(missing_ok=True)
    return target


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
def _path(chosen: str) -> Path:
    """Another source, compiler, flag or processor makes another name."""
    parts = [file.read_bytes() for file in sorted(SOURCE.glob("*.[ch]*")) if file.suffix != ".pyc"]
    version = subprocess.run(
        [chosen, "--version"], check=False, capture_output=True, timeout=LIMIT_S
    ).stdout
    parts += [version, " ".join(FLAGS).encode(), platform.machine().encode(), _features()]
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
