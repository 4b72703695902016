"""What git knows: commits, and a worktree of an older one."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from engine.errors import InvalidRequest
from tools.running import ROOT


def commit_of(name: str = "HEAD") -> str:
    """Return the short id of a commit. Raises InvalidRequest for one that is not there."""
    done = _git("rev-parse", "--verify", "--short=10", f"{name}^{{commit}}")
    if done.returncode:
        raise InvalidRequest("against", f"{name} is no commit here: {done.stderr.strip()}.")
    return done.stdout.strip()


def is_changed() -> bool:
    """Return whether tracked files differ from the commit."""
    return bool(_git("status", "--porcelain", "--untracked-files=no").stdout.strip())


@contextlib.contextmanager
def worktree(commit: str, folder: Path) -> Iterator[Path]:
    """Check a commit out into ``folder``, and remove it in the end."""
    added = _git("worktree", "add", "--detach", str(folder), commit)
    if added.returncode:
        raise InvalidRequest("against", f"{commit} cannot be checked out: {added.stderr.strip()}")
    try:
        yield folder
    finally:
        _git("worktree", "remove", "--force", str(folder))


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False
    )
