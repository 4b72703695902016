"""llama.cpp's server on the same GGUF files, with every drafting method that it has.

Its settings are its command line's, so each is a program of its own. What flags there are is read from
``--help``, for they have changed their names.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.bench.real.contest import Case, Method, NotMeasured, Reply, Running, Setting
from engine.bench.real.process import HOST, ServedEngine, Server
from engine.errors import PeerFailed, what_failed
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.gguf.description import is_gguf

NAME = "llama.cpp"
VARIABLE = "FORETOKEN_LLAMA_CPP"
SERVER = "llama-server"
SPEC_TYPE = "--spec-type"
"""Older versions do not have it, and draft with a model alone."""
DEPTHS = (2, 4, 8)
"""Of the draft model; beside them one that drafts deep and stops where it is not sure."""
SURE = (16, "0.75")
"""Its depth, and the minimum probability, which is that of llama.cpp's own examples."""
SHORT = ("4", "12")
"""Tokens looked up and tokens drafted by n-grams, beside the defaults, which are for long copies."""
_LOOKUPS = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
USUAL = ("plain", "ngram-simple", "draft, n 4", "draft, n 16 while p > 0.75")
"""Among them is the fastest setting of each method in every run of docs/results. The faster ones come
first, for time may run out."""
_HOW = (
    f"Give the folder of its build or installation with --llama-cpp or {VARIABLE}, "
    f"or put {SERVER} on the PATH. To build it: git clone "
    "https://github.com/ggml-org/llama.cpp, then in there cmake -B build "
    f"-DCMAKE_BUILD_TYPE=Release && cmake --build build --target {SERVER}."
)

_EXPORT = "Make one with foretoken models export-gguf."


def find(folder: Path, program: str) -> Path | None:
    """Return a program of llama.cpp in the folder where it was built or installed."""
    for inner in ("bin", ".", "build/bin"):
        for name in (program, f"{program}.exe"):
            if (folder / inner / name).is_file():
                return folder / inner / name
    return None


def printed(server: Path, flag: str) -> str:
    """Return what a server prints for ``--help`` or ``--version``. Raises PeerFailed."""
    try:
        done = subprocess.run(
            [str(server), flag], capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerFailed(
            f"{server} cannot be run: {what_failed(error)}. Build llama.cpp again."
        ) from error
    return done.stdout + done.stderr


def programs(
    folder: Path | None, case: Case, *, everything: bool = True
) -> Sequence[LlamaCpp | NotMeasured]:
    """Return a program for each setting, or only for the ``USUAL`` ones; or why there is none.

    ``folder`` goes before the PATH.
    """
    server = find(folder, SERVER) if folder is not None else _on_path()
    if server is None:
        where = "It is not on the PATH." if folder is None else f"{folder} holds no {SERVER}."
        return [NotMeasured(NAME, f"{where} {_HOW}")]
    try:
        flags = flags_of(server, case)
    except PeerFailed as error:
        return [NotMeasured(NAME, str(error))]
    available = [LlamaCpp(server, setting, words) for setting, words in settings(flags, case.draft)]
    if everything:
        return available
    usual = [one for one in available if one.setting.name in USUAL]
    return sorted(usual, key=lambda one: USUAL.index(one.setting.name))


def flags_of(server: Path, case: Case) -> str:
    """Return the help of a server that reads the case's files. Raises PeerFailed."""
    for model in filter(None, (case.target, case.draft)):
        if not is_gguf(model):
            raise PeerFailed(f"It reads GGUF files only, and {model} is not one. {_EXPORT}")
    return printed(server, "--help")


def settings(flags: str, draft: Path | None) -> Iterator[tuple[Setting, tuple[str, ...]]]:
    """Return every setting that ``flags`` support, plain decoding first, with its arguments."""
    yield Setting("plain", Method.PLAIN), ()
    if draft is not None:
        sure = "--spec-draft-p-min" if "--spec-draft-p-min" in flags else "--draft-p-min"
        for depth in DEPTHS:
            words = (*drafting(flags, draft, depth), sure, "0")
            yield Setting(f"draft, n {depth}", Method.DRAFT), words
        words = (*drafting(flags, draft, SURE[0]), sure, SURE[1])
        yield Setting(f"draft, n {SURE[0]} while p > {SURE[1]}", Method.DRAFT), words
    for name in _LOOKUPS:
        if SPEC_TYPE in flags and re.search(rf"\b{name}\b(?!-)", flags):
            yield Setting(name, Method.LOOKUP), (SPEC_TYPE, name)
            sizes = [f"--spec-{name}-size-{size}" for size in "nm"]
            if all(size in flags for size in sizes):
                words = tuple(word for pair in zip(sizes, SHORT, strict=True) for word in pair)
                setting = Setting(f"{name}, {SHORT[1]} after {SHORT[0]}", Method.LOOKUP)
                yield setting, (SPEC_TYPE, name, *words)


def drafting(flags: str, draft: Path, depth: int | None) -> tuple[str, ...]:
    """Return the arguments for a draft model with that many tokens a round; None: llama.cpp's default."""
    words: tuple[str, ...] = ("--model-draft", str(draft))
    if SPEC_TYPE in flags:
        words += (SPEC_TYPE, "draft-simple")
    deep = "--spec-draft-n-max" if "--spec-draft-n-max" in flags else "--draft-max"
    return words if depth is None else (*words, deep, str(depth))


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """The server in one setting."""

    server: Path
    setting: Setting
    words: Sequence[str]
    engine: str = NAME

    @property
    def name(self) -> str:
        return f"{self.engine} {self.setting.name}"

    def start(self, case: Case, log: Path) -> Running:
        words = command(self.server, case.target, case.context, case.threads, self.words)
        return _Serving(Server(SERVER, words, log), self.setting, case)


class _Serving(ServedEngine):
    """One server, asked one request at a time."""

    def __init__(self, server: Server, setting: Setting, case: Case) -> None:
        self.server, self.ignore_eos = server, not case.eos
        self.settings = (setting,)
        self.weights = inspect(case.target).dtype

    def answer(self, setting: Setting, prompt: Sequence[int], limit: int) -> Reply:
        return complete(self.server, prompt, limit, ignore_eos=self.ignore_eos)


def command(
    server: Path, target: Path, context: int, threads: int, words: Sequence[str], parallel: int = 1
) -> list[str]:
    """Return the command of a server for ``parallel`` requests, which share ``context`` tokens;
    ``words`` are the arguments of its setting."""
    return [
        str(server), "--model", str(target), "--host", HOST, "--port", "{port}",
        "--ctx-size", str(context), "--parallel", str(parallel),
        "--threads", str(threads), "--threads-batch", str(threads), *words,
    ]  # fmt: skip


def complete(
    server: Server, prompt: Sequence[int], limit: int, *, ignore_eos: bool, seed: int = 1
) -> Reply:
    """Continue ``prompt`` greedily, from an empty cache. Raises PeerFailed.

    A server that does not return tokens (ik_llama.cpp) is asked for those of the text it wrote.
    """
    body = {
        "prompt": list(prompt),
        "n_predict": limit,
        "temperature": 0,
        "repeat_penalty": 1.0,
        "seed": seed,
        "ignore_eos": ignore_eos,
        "cache_prompt": False,
        "return_tokens": True,
    }
    answer = server.post("/completion", body)
    try:
        tokens = answer.get("tokens")
        if tokens is None:
            tokens = server.post("/tokenize", {"content": answer["content"]})["tokens"]
        return _reply(tokens, answer["timings"])
    except (KeyError, TypeError, ValueError) as error:
        raise PeerFailed(
            f"llama-server answered without tokens or timings: {what_failed(error)}. Use a version "
            "that supports return_tokens."
        ) from error


def _reply(tokens: Sequence[int], timings: Mapping[str, float]) -> Reply:
    count = int(timings["predicted_n"]) - 1  # the clock starts when the first token is there
    drafted = timings.get("draft_n")
    accepted = timings.get("draft_n_accepted")
    return Reply(
        tokens=tuple(int(token) for token in tokens),
        prompt_tokens=int(timings["prompt_n"]),
        prompt_s=timings["prompt_ms"] / 1e3,
        decoded=max(count, 0),
        decode_s=timings["predicted_ms"] / 1e3 if count > 0 else 0.0,
        drafted=None if drafted is None else int(drafted),
        accepted=None if accepted is None else int(accepted),
    )


def _on_path() -> Path | None:
    found = shutil.which(SERVER)
    return None if found is None else Path(found)
