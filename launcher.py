#!/usr/bin/env python3
"""Install Foretoken into .venv and start it. Needs Python 3.11 to 3.13, and a network the first time.

    python launcher.py [options]         prepare .venv if needed, start the app, open the browser
    python launcher.py test [pytest...]  install what the tests need, run the whole suite

Options of the app:
    --port N         the port of the page, which must be free (default: 7860, or the next free one)
    --host ADDRESS   the address to listen on (default 127.0.0.1: this machine only)
    --no-browser     do not open the browser
    --data-dir DIR   where chats and settings are kept
    --api            switch the OpenAI-compatible API on from the start
    --api-key-file FILE
                     the key that API clients must send and the page asks for, in a file; with
                     --api-key KEY every account of this machine could see it
    --pair PAIR      the models to load: pip, another pair of the catalog, or
                     TARGET[::DRAFT], each a folder or a GGUF file
"""

from __future__ import annotations

import ast
import contextlib
import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent
OLDEST_PYTHON = (3, 11)
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BIG_DOWNLOAD_MB = 20
NVIDIA_SIGNS = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")
"""Any of these is there on a Linux whose driver is loaded; the last one is WSL's."""
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "constraint": "UV_CONSTRAINT",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
"""uv's variables by pip's settings, which uv does not read."""
SIDE_BY_SIDE = ("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder")
"""One file's tests share what they load, so they run in one process; `-n 0` runs all in one."""

NETWORK_SIGNS = (
    "NewConnectionError",
    "NameResolutionError",
    "ConnectTimeout",
    "Read timed out",
    "getaddrinfo failed",
    "Network is unreachable",
    "Temporary failure in name resolution",
    "Connection refused",
    "Connection aborted",
    "ProxyError",
    "SSLError",
)
UNAVAILABLE = ("No matching distribution found", "Could not find a version", "ResolutionImpossible")
REMEDIES = (
    (
        NETWORK_SIGNS,
        "The package index could not be reached. Check the network connection (and the proxy, if "
        "there is one), then run the same command again; what is already downloaded is kept.",
    ),
    (
        ("No space left on device", "not enough space"),
        "The disk is full. About 3 GB are needed, 8 GB with a CUDA build of torch. Make room, "
        "then run the same command again.",
    ),
    (
        ("Permission denied", "Access is denied"),
        "The folder cannot be written to, or a running program holds a file in it. Close other "
        "Foretoken windows or move this folder to a place of your own, then run the same command "
        "again.",
    ),
    (
        UNAVAILABLE,
        "A package has no build for this Python and system. Python 3.11 to 3.13 on 64-bit Linux, "
        "macOS or Windows have them all: install one of these and start the launcher with it.",
    ),
)
OTHER_REMEDY = (
    "Read the last lines above for the cause. Deleting the folder .venv and running the same "
    "command again starts from the beginning."
)


class LauncherError(Exception):
    """What happened, why, and what to do, for the terminal."""


def main(arguments: list[str]) -> int:
    """Prepare the environment, then hand over to it. Returns the exit status."""
    if arguments[:1] == ["-h"] or arguments[:1] == ["--help"]:
        print(__doc__)
        return 0
    try:
        check_python(sys.version_info[:2])
        if arguments[:1] == ["ui"]:  # as the app's messages name what is started
            arguments = arguments[1:]
        if arguments and not arguments[0].startswith("-") and arguments[0] != "test":
            raise LauncherError(
                f"launcher.py has no command {arguments[0]!r}. Its only one is test; --help lists the "
                "options of the app."
            )
        if arguments[:1] == ["test"]:
            return run_tests(arguments[1:])
        prepare("app")
        os.environ["FORETOKEN_PROGRAM"] = "python launcher.py"  # for the app's messages
        # -P: a folder "app" where the launcher was called from is not ours.
        return hand_over([venv_python(), "-P", "-m", "app", "ui", *arguments])
    except LauncherError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"\n{error}\n{remedy(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130


def check_python(version: tuple[int, ...]) -> None:
    """Raise for a Python that cannot run Foretoken."""
    if version < OLDEST_PYTHON:
        raise LauncherError(
            f"Foretoken needs Python {dotted(OLDEST_PYTHON)} or newer; this is {dotted(version)} "
            f"({sys.executable}).\nInstall a newer one from https://www.python.org/downloads/ or "
            "your system's packages, then start the launcher with it: python3.12 launcher.py"
        )


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version[:2])


# --- the environment -----------------------------------------------------------------------------


def prepare(extra: str, root: Path = ROOT) -> None:
    """Make ``.venv`` and install the project with ``extra`` ("app" or "test"), unless it is done.

    One launcher at a time does this; a second one waits, and then finds nothing left to do.
    """
    if is_prepared(extra, root):
        return
    with only_one(root / ".venv.lock"):
        if not is_prepared(extra, root):
            make_environment(root)
            install(extra, root)


def is_prepared(extra: str, root: Path = ROOT) -> bool:
    """Return whether the environment belongs to this pyproject.toml, this Python and this folder."""
    try:
        recorded = stamp_file(extra, root).read_text(encoding="utf-8")
    except OSError:
        return False
    return recorded == fingerprint(root) and venv_python(root).exists()


def fingerprint(root: Path = ROOT) -> str:
    """Return what an installation depends on, as one line."""
    files = (root / "pyproject.toml", root / ".ci" / "constraints.txt")
    digest = hashlib.sha256(b"".join(f.read_bytes() for f in files if f.exists())).hexdigest()
    return f"{digest} python {dotted(sys.version_info[:2])} in {root}\n"


def stamp_file(extra: str, root: Path = ROOT) -> Path:
    return root / ".venv" / f"foretoken-{extra}.stamp"


def unfinished_mark(root: Path = ROOT) -> Path:
    """Return the file that stands in .venv while pip works; if it is left over, a run was interrupted."""
    return root / ".venv" / "foretoken-unfinished"


def venv_python(root: Path = ROOT) -> Path:
    if sys.platform == "win32":
        return root / ".venv" / "Scripts" / "python.exe"
    return root / ".venv" / "bin" / "python"


def make_environment(root: Path = ROOT) -> None:
    """Make ``.venv``, or make it anew where the one that is there does not work."""
    folder = root / ".venv"
    if folder.exists() and works(root):
        return
    if folder.exists():
        say("[1/2] .venv is incomplete or does not run here: rebuilding it")
    else:
        say("[1/2] Creating a Python environment in .venv")
    command = [sys.executable, "-m", "venv", "--clear", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LauncherError(
            f"{done.stdout}{done.stderr}\nPython could not make the environment {folder}. On "
            "Debian and Ubuntu install the package python3-venv; elsewhere check that the folder "
            "can be written to. Then run the same command again."
        )


def works(root: Path = ROOT) -> bool:
    """Return whether .venv has a new enough Python with pip, and no interrupted installation."""
    if unfinished_mark(root).exists():
        return False
    check = f"import pip, sys; sys.exit(sys.version_info[:2] < {OLDEST_PYTHON})"
    try:
        command = [str(venv_python(root)), "-c", check]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def install(extra: str, root: Path = ROOT) -> None:
    """Install the project into .venv, in place, and record it."""
    what = ".[test]" if extra == "test" else "."
    purpose = "Foretoken and its tests need" if extra == "test" else "Foretoken needs"
    say(f"[2/2] Installing what {purpose} (the first time this takes minutes; torch is large)")
    started = time.monotonic()
    unfinished_mark(root).touch()
    # An error of pip's own leaves the environment consistent; being killed does not. So the mark
    # goes for every ending that returns here, and stays for the others.
    status, output = run_installers(what, root)
    unfinished_mark(root).unlink(missing_ok=True)
    if status:
        raise LauncherError(f"{output}\nInstalling failed.\n{remedy(output)}")
    # On all processors; pip would take one. What fails or is left out here is compiled when it is
    # imported: a third of all is packages' own tests, and models of which none or one is used.
    unused = r"site-packages.*[/\\](tests?|transformers[/\\]models)[/\\]"
    compiler = (str(venv_python(root)), "-m", "compileall", "-qq", "-j", "0", "-x", unused)
    subprocess.run([*compiler, str(root / ".venv")], check=False)
    for done in {"app", extra}:
        stamp_file(done, root).write_text(fingerprint(root), encoding="utf-8")
    say(f"      done in {time.monotonic() - started:.0f} s")


def run_installers(what: str, root: Path) -> tuple[int, str]:
    """Install ``what``, by uv if it can be had and else by pip, with the tested versions if they are
    listed. Returns the last installer's status and output."""
    pins = root / ".ci" / "constraints.txt"
    tested = ["-c", str(pins)] if pins.exists() else []
    uv = find_uv(root) if tested else None
    for backend in dict.fromkeys((torch_backend(), None)) if uv else ():
        build = ["--torch-backend", backend] if backend else []
        here = ["--python", str(venv_python(root)), "--index-strategy", "unsafe-best-match"]
        command = [str(uv), "pip", "install", *here, "-e", what, *tested, *build]
        status, output = run(command, root, settings_of_pip(venv_python(root)))
        if not status:
            return status, output
        failed = (
            f"uv could not get PyTorch's build for {'CPUs' if backend == 'cpu' else 'the GPU'}"
            if backend
            else "uv could not install this"
        )
        say(f"      {failed}; using {'the usual build' if build else 'pip'}. {last_line(output)}")
    install = ["install", "--no-compile", "-e", what]
    status, output = run_pip([*install, *tested], root)
    if status and tested and any(sign in output for sign in UNAVAILABLE):
        say("      Some tested versions are not available here; using the newest that fit")
        status, output = run_pip(install, root)
    return status, output


def torch_backend(system: str = sys.platform) -> str | None:
    """Return uv's name of PyTorch's build, where the usual one is wrong: on Linux it brings gigabytes of
    CUDA, on Windows none."""
    has_gpu = shutil.which("nvidia-smi") is not None
    if system == "linux":
        return None if has_gpu or any(map(os.path.exists, NVIDIA_SIGNS)) else "cpu"
    return "auto" if system == "win32" and has_gpu else None


def find_uv(root: Path) -> str | None:
    """Return uv, which is some times faster than pip and can choose PyTorch's build; install it if need
    be. None if that fails."""
    own = venv_python(root).with_name("uv.exe" if sys.platform == "win32" else "uv")
    found = shutil.which("uv") or (str(own) if own.exists() else None)
    if found is None and run_pip(["install", "uv"], root)[0] == 0:
        found = str(own)
    return found


def last_line(output: str) -> str:
    return output.strip().rsplit("\n", 1)[-1].strip()


def settings_of_pip(python: Path) -> dict[str, str]:
    """Return the package indexes that pip is configured with, as variables of uv that are not set."""
    command = [str(python), "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, str] = {}
    lines = [line.partition("=") for line in done.stdout.splitlines()]
    for section in ("global", "install", ":env:"):  # each overrides those before
        for name, _, value in lines:
            variable = UV_NAMES.get(name.replace(f"{section}.", "", 1))
            if variable and variable not in os.environ:
                apart = "," if variable == "UV_FIND_LINKS" else " "
                found[variable] = apart.join(str(ast.literal_eval(value)).split())
    return found


def run_pip(arguments: list[str], root: Path = ROOT) -> tuple[int, str]:
    """Run pip in .venv; see ``run``."""
    quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    pip = [str(venv_python(root)), "-m", "pip", arguments[0], *quiet, *arguments[1:]]
    return run(pip, root, {"PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"})


def run(command: list[str], root: Path, settings: dict[str, str]) -> tuple[int, str]:
    """Run an installer with ``settings`` as environment variables, showing a summary as it goes. Returns
    its status and whole output."""
    lines = []
    with subprocess.Popen(
        command,
        cwd=root,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        progress = Progress(sys.stdout)
        for line in process.stdout:
            lines.append(line)
            progress.show(line)
        progress.end()
    return process.returncode, "".join(lines)


class Progress:
    """pip's output as one changing line on a terminal; elsewhere a line per large download."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.live = stream.isatty()
        self.packages = 0
        self.width = 0

    def show(self, line: str) -> None:
        """Take one line of pip's output."""
        verb, _, rest = line.strip().partition(" ")
        what, _, size = rest.partition(" ")
        if verb == "Resolved" and what.isdigit():  # uv's, as is "Prepared"
            self.packages = int(what)
        elif verb == "Collecting":
            self.packages += 1
            self._update(f"{self.packages} packages; looking at {what}")
        elif verb == "Downloading" and what and not what.endswith(".metadata"):
            name = what.rsplit("/", 1)[-1].split("-")[0]
            size = size.strip("()")
            self._update(f"{self.packages} packages; downloading {name}, {size}")
            if not self.live and megabytes(size) >= BIG_DOWNLOAD_MB:
                say(f"      downloading {name}, {size}")
        elif line.startswith(("Installing collected packages", "Prepared ")):
            count = self.packages if verb == "Prepared" else line.count(",") + 1
            self._update(f"unpacking {count} packages")
            if not self.live:
                say(f"      unpacking {count} packages")

    def _update(self, text: str) -> None:
        if not self.live:
            return
        text = text[: shutil.get_terminal_size().columns - 8]
        self.stream.write(f"\r      {text.ljust(self.width)}")
        self.stream.flush()
        self.width = len(text)

    def end(self) -> None:
        """Take the changing line away."""
        if self.live:
            self.stream.write("\r" + " " * (self.width + 6) + "\r")
            self.stream.flush()


def megabytes(size: str) -> float:
    """Return ``"202.4 MB"`` (pip's) or ``"193.0MiB"`` (uv's) as a number; 0 for anything else."""
    found = re.fullmatch(r"([\d.]+) ?([kKMG])i?B", size)
    return float(found[1]) * {"k": 1e-3, "K": 1e-3, "M": 1.0, "G": 1e3}[found[2]] if found else 0.0


def remedy(output: str) -> str:
    """Return what to do about a failing pip, judged by its output."""
    for signs, advice in REMEDIES:
        if any(sign in output for sign in signs):
            return advice
    return OTHER_REMEDY


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold an exclusive lock; the system releases it however this process ends."""
    with path.open("a+") as file:
        if not try_lock(file):
            say("Another launcher is preparing .venv; waiting for it")
            while not try_lock(file):
                time.sleep(0.2)
        yield


def try_lock(file: IO[str]) -> bool:
    """Take the lock on an open file if nobody has it; closing the file gives it back. A file system
    without locks counts as one whose lock is free."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
    return True


# --- running -------------------------------------------------------------------------------------


def hand_over(command: list[Path | str]) -> int:
    """Replace this process by ``command`` (POSIX), or run it and wait (Windows). Returns its exit
    status."""
    words = [str(word) for word in command]
    sys.stdout.flush()
    if sys.platform != "win32":
        os.execv(words[0], words)
    process = subprocess.Popen(words)
    while True:
        # Ctrl-C reaches the child as well, which stops by itself: only wait for it.
        with contextlib.suppress(KeyboardInterrupt):
            return process.wait()


def run_tests(arguments: list[str]) -> int:
    """Install the tests' needs, then become pytest on the whole suite."""
    prepare("test")
    find_chromium()
    os.chdir(ROOT)
    return hand_over([venv_python(), "-m", "pytest", *SIDE_BY_SIDE, *arguments])


def find_chromium(which: Callable[[str], str | None] = shutil.which) -> str | None:
    """Return Chromium's path for the browser tests; install it if that needs no question."""
    found = first_found(which)
    if found:
        return found
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if is_root and which("apt-get"):
        say("Installing Chromium for the browser tests")
        for step in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", "-qq", *step], capture_output=True, check=False)
        found = first_found(which)
    if not found:
        say(
            "No Chromium on this machine, so the browser tests will be skipped. Install it to run them."
        )
    return found


def first_found(which: Callable[[str], str | None]) -> str | None:
    return next((path for name in CHROMIUM_NAMES if (path := which(name))), None)


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
