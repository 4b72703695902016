"""Commands, scripts and YAML, as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

Options = list[tuple[str, ...]]
"""An option with its values each; written one a line."""


class Shell(str):
    """Words for the shell to expand, written as they are."""


def command(words: Options, environment: Mapping[str, str] | None = None, indent: str = "") -> str:
    """One command over several lines."""
    before = [f"{name}={quoted(value)}" for name, value in (environment or {}).items()]
    lines = [" ".join(quoted(word) for word in group) for group in words]
    lines[0] = " ".join([*before, lines[0]])
    return f" \\\n{indent}    ".join(lines)


def quoted(word: str) -> str:
    """``word`` for the shell."""
    return str(word) if isinstance(word, Shell) else shlex.quote(word)


def script(*parts: str, says: Sequence[str] = ()) -> str:
    """A script that stops at the first mistake; ``says`` are its comments."""
    head = ["#!/usr/bin/env bash", *(f"# {line}" for line in says), "set -euo pipefail"]
    return "\n".join([*head, *parts]) + "\n"


def as_yaml(value: Any) -> str:
    """YAML in the order of the keys."""
    return yaml.safe_dump(value, sort_keys=False, width=1000, allow_unicode=True)
