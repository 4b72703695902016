"""Find this machine's C++ compilers, or download one.

Most of Windows and many Macs have none. The wheel ``ziglang`` is one: clang with the headers and
libraries of every system, from the index that everything else came from. It is large, so nothing fetches
it unasked.
"""

from __future__ import annotations

import functools
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from engine.errors import ForetokenError, what_failed

NAMES = ("clang++",) if sys.platform == "win32" else ("g++", "clang++", "c++")
"""On Windows not GCC: what it keeps of wide vectors on the stack lies where AVX cannot read it
(gcc.gnu.org/bugzilla/show_bug.cgi?id=54412), and that ends the process."""
WHEEL = "ziglang>=0.16,<0.18"
COMMAND = "foretoken compiler --fetch"
SIZE = "about 100 MB to download, 410 MB on disk"
"""The size of the wheel."""
LIMIT_S = 60
"""Seconds for a compiler to print its version."""
QUIETLY = getattr(subprocess, "CREATE_NO_WINDOW", 0)
"""No console appears on Windows for what runs in the background."""


class BuildError(ForetokenError):
    """There is no compiler, or it refused; the message says which."""


class NoCompiler(BuildError):
    """There is no compiler; the message says how to get one."""

    def __init__(self) -> None:
        super().__init__(
            f"No C++ compiler found (tried {', '.join(NAMES)} and zig), so models run "
            f"without the compiled kernels, slower. Install a compiler, or run `{COMMAND}` "
            f"({SIZE})."
        )


@dataclass(frozen=True, slots=True)
class Compiler:
    """``command``: the program and its first arguments."""

    command: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.command)

    @property
    def is_zig(self) -> bool:
        """True for ``zig c++``, which has its own names for processors."""
        return Path(self.command[0]).stem == "zig"

    def processor(self, name: str) -> str:
        """Return the option to compile for ``name``; "native" is this machine's processor."""
        if self.is_zig:
            return f"-mcpu={name.replace('-', '_')}"
        # Apple's clang knows the processor at hand by this option alone; on x86 it is out of use.
        option = "-mcpu" if platform.machine() in ("arm64", "aarch64") else "-march"
        return f"{option}={name}"

    def version(self) -> bytes:
        """Return a string that differs between the compiler's versions."""
        return _version(self.command[:1] if self.is_zig else self.command, self.is_zig)

    def environment(self, scratch: Path) -> dict[str, str]:
        """Return the environment variables to run it with. zig caches the C++ library in ``folder``."""
        if not self.is_zig:
            return dict(os.environ)
        caches = {
            "ZIG_GLOBAL_CACHE_DIR": str(folder() / "cache"),
            "ZIG_LOCAL_CACHE_DIR": str(scratch / "cache"),
        }
        return {**os.environ, **caches}


def found() -> tuple[Compiler, ...]:
    """Return the machine's compilers, in the order in which they are tried.

    $CXX, then ``NAMES``, then zig: from this environment, from what was fetched. Looked for anew each
    time: one may be installed while the app runs.
    """
    asked = os.environ.get("CXX", "").strip()
    commands = [_command(asked)] if asked else []
    commands += [(path,) for name in NAMES if (path := shutil.which(name)) and _is_real(path)]
    commands += [(str(path), "c++") for path in _zigs()]
    return tuple(Compiler(command) for command in dict.fromkeys(commands) if command)


def folder() -> Path:
    """Return the folder of downloaded compilers."""
    return cache_folder() / "compiler"


def cache_folder() -> Path:
    """Return the folder for files that can be made again."""
    try:
        from platformdirs import user_cache_path
    except ImportError:  # a machine with torch alone
        return Path.home() / ".cache" / "foretoken"
    return user_cache_path("foretoken")


def fetch() -> Compiler:
    """Install the wheel into ``folder``, replacing an older one; pip prints its progress.

    Raises BuildError.
    """
    if find_spec("pip") is None:
        raise BuildError(
            f"pip is missing in {sys.prefix}, so nothing was downloaded. Install it with "
            f"`{Path(sys.executable).name} -m ensurepip`, or install a C++ compiler "
            "yourself."
        )
    try:
        folder().mkdir(parents=True, exist_ok=True)
        # Under another name first: a download may be cut off, and another process may look for one.
        with tempfile.TemporaryDirectory(dir=folder(), prefix="fetching-") as name:
            _install(Path(name))
            wheel = folder() / "ziglang"
            shutil.rmtree(wheel, ignore_errors=True)
            os.replace(Path(name) / "ziglang", wheel)
    except OSError as error:
        raise BuildError(
            f"The compiler could not be saved in {folder()}: {what_failed(error)}. Free some space, or "
            "install a C++ compiler yourself."
        ) from error
    zig = _program(folder() / "ziglang")
    if zig is None:
        raise BuildError(f"{WHEEL} was installed into {folder()}, but has no program zig.")
    return Compiler((str(zig), "c++"))


def _install(target: Path) -> None:
    """Install the published wheel alone; never build anything from source."""
    done = subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps",
            "--no-compile", "--only-binary", ":all:", "--target", str(target), WHEEL,
        ],
        check=False, stderr=subprocess.PIPE,
    )  # fmt: skip
    if done.returncode:
        output = done.stderr.decode(errors="replace").strip()
        raise BuildError(
            f"pip could not install {WHEEL}: {output[-1000:]} Try again, or install a C++ "
            "compiler yourself."
        )


def _command(text: str) -> tuple[str, ...]:
    """Return the command that $CXX names, perhaps with arguments; empty if it names none."""
    whole = shutil.which(text)
    if whole:
        return (whole,)
    try:
        first, *others = shlex.split(text, posix=os.name == "posix")
    except ValueError:  # a quotation mark is open
        return ()
    program = shutil.which(first)
    return (program, *others) if program else ()


def _zigs() -> list[Path]:
    """Return the zig programs that wheels installed in this environment and in ``folder``."""
    spec = find_spec("ziglang")
    packages = list(spec.submodule_search_locations or ()) if spec is not None else []
    places = [*map(Path, packages), folder() / "ziglang"]
    programs = [_program(place) for place in places]
    return [program for program in programs if program is not None]


def _program(package: Path) -> Path | None:
    program = package / ("zig.exe" if sys.platform == "win32" else "zig")
    return program if os.access(program, os.X_OK) else None


@functools.cache
def _version(command: tuple[str, ...], is_zig: bool) -> bytes:
    asked = [*command, "version" if is_zig else "--version"]
    try:
        return subprocess.run(
            asked, check=False, capture_output=True, timeout=LIMIT_S, creationflags=QUIETLY
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(
            f"{command[0]} does not report its version: {what_failed(error)}"
        ) from error


def _is_real(path: str) -> bool:
    """Return False for the stubs in a Mac's /usr/bin that only offer to install a compiler."""
    if sys.platform != "darwin" or Path(path).parent != Path("/usr/bin"):
        return True
    try:
        asked = subprocess.run(
            ["xcode-select", "-p"], check=False, capture_output=True, timeout=LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0
