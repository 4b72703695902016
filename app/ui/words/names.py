"""A pair's name as a heading has it: short, and without what a file's name says of its contents."""

from __future__ import annotations

import re

_SIZE = re.compile(r"\d+(\.\d+)?[bm]", re.IGNORECASE)
_OF_FILES = re.compile(r"instruct|chat|it|hf|gguf|(i?q\d\w*|[bf]?f(p)?(16|32))", re.IGNORECASE)
"""Words of a file's name that tell one file from another, and no model."""
_ON_A_SERVER = re.compile(r"(.+)( on )(\S+)")
_FOLDERS = re.compile(r"\A(?=/|[a-z]:\\|[^ ]*\.gguf\b).*[/\\](?=.)", re.IGNORECASE)
"""What stands before the file, where a server calls its model by a path."""


def title(name: str) -> str:
    """Return ``Qwen2.5 Coder 1.5B + 0.5B`` for a pair of two files, ``... on HOST`` on a server; other
    names unchanged."""
    pair, on, host = found.groups() if (found := _ON_A_SERVER.fullmatch(name)) else (name, "", "")
    target, *others = (model_title(part) for part in pair.split(" + "))
    return " + ".join((target, *(_without_shared(target, other) for other in others))) + on + host


def titles(*names: str) -> tuple[str, ...]:
    """Return the titles of several names; those that would be alike stay whole."""
    short = [title(name) for name in names]
    return tuple(
        one if short.count(one) == 1 else name for one, name in zip(short, names, strict=True)
    )


def model_title(name: str) -> str:
    """Return ``Qwen2.5 Coder 1.5B`` for ``qwen2.5-coder-1.5b-instruct-q4_k_m``; other names unchanged."""
    name = _FOLDERS.sub("", name)
    words = name.rsplit("/", 1)[-1].removesuffix(".gguf").split("-")
    if " " in name or not any(map(_SIZE.fullmatch, words)):
        return name
    kept = [word for word in words if word and not _OF_FILES.fullmatch(word)]
    return " ".join(
        word.upper() if _SIZE.fullmatch(word) else word[:1].upper() + word[1:] for word in kept
    )


def target_title(pair: str) -> str:
    """Return the title of the target in the title or name of a pair."""
    return model_title(pair.split(" + ", maxsplit=1)[0])


def says_size(name: str) -> bool:
    """Return whether a model's name says how many parameters it has."""
    return any(map(_SIZE.fullmatch, re.split(r"[ /_-]", name.removesuffix(".gguf"))))


def beside(target: str, draft: str) -> str:
    """Return a draft's title in its target's row: "0.5B"."""
    return title(f"{target} + {draft}").removeprefix(f"{model_title(target)} + ")


def _without_shared(target: str, other: str) -> str:
    """Return ``other`` without the words that both begin with."""
    ours, theirs = target.split(" "), other.split(" ")
    shared = 0
    while shared < min(len(ours), len(theirs) - 1) and ours[shared] == theirs[shared]:
        shared += 1
    return " ".join(theirs[shared:])
