"""llama.cpp's server and that of its kin ik_llama.cpp, on the same GGUF files.

Their settings are their command lines', so each is a program of its own. What flags there are is read
from ``--help``, for they have changed their names.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from engine.bench.real.contest import Case, LineUp, Method, NotMeasured, Program, Reply, Setting
from engine.bench.real.process import HOST, Served, Server
from engine.errors import PeerFailed, what_failed
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.gguf.description import is_gguf

NAME, IK_NAME = "llama.cpp", "ik_llama.cpp"
VARIABLE, IK_VARIABLE = "FORETOKEN_LLAMA_CPP", "FORETOKEN_IK_LLAMA_CPP"
SERVER = "llama-server"
SPEC_TYPE = "--spec-type"
"""Older versions do not have it, and draft with a model alone. ik_llama.cpp's takes
``METHOD:key=value,...``."""
DEPTHS = (2, 4, 8)
"""Of the draft model; beside them one that drafts deep and stops where it is not sure."""
SURE = (16, "0.75")
"""Its depth, and the minimum probability, which is that of llama.cpp's own examples."""
SHORT = ("4", "12")
"""Tokens looked up and tokens drafted by n-grams, beside the defaults, which are for long copies."""
USUAL = ("plain", "ngram-simple", "draft, n 4", "draft, n 16 while p > 0.75")
"""Among them is the fastest setting of each method in every run of docs/results. The faster ones come
first, for time may run out."""
_LOOKUPS = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
_REPACK = "--run-time-repack"
"""Arranges weights for the processor when ik_llama.cpp reads them, as this engine does; without it
everything was slower."""
_BUILD = (
    f"in there cmake -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build --target {SERVER}."
)
_HOW = (
    f"Give the folder of its build or installation with --llama-cpp or {VARIABLE}, or put {SERVER} on "
    f"the PATH. To build it: git clone https://github.com/ggml-org/llama.cpp, then {_BUILD}"
)
_IK_HOW = (
    f"Give the folder of its build with --ik-llama-cpp or {IK_VARIABLE}: git clone "
    f"https://github.com/ikawrakow/ik_llama.cpp, then {_BUILD}"
)

_Settings = Iterator[tuple[Setting, tuple[str, ...]]]


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
            [str(server), flag],
            capture_output=True, encoding="utf-8", errors="replace", timeout=120, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerFailed(
            f"{server} cannot be run: {what_failed(error)}. Build llama.cpp again."
        ) from error
    return done.stdout + done.stderr


def programs(folder: Path | None, case: Case, *, everything: bool = True) -> LineUp:
    """Return a program for each setting, or only for the ``USUAL`` ones; or why there is none.

    ``folder`` goes before the PATH.
    """
    if folder is None:
        there, why = shutil.which(SERVER), "It is not on the PATH."
        server = Path(there) if there else None
    else:
        server, why = find(folder, SERVER), f"{folder} holds no {SERVER}."
    made = _programs(NAME, server, f"{why} {_HOW}", case, settings)
    if everything or isinstance(made[0], NotMeasured):
        return made
    by_name = {one.name: one for one in made}
    return [by_name[name] for name in (f"{NAME} {one}" for one in USUAL) if name in by_name]


def ik_programs(folder: Path | None, case: Case) -> LineUp:
    """Return a program for each setting of ik_llama.cpp, or why there is none."""
    server = None if folder is None else find(folder, SERVER)
    why = "It was not given." if folder is None else f"{folder} holds no {SERVER}."
    return _programs(IK_NAME, server, f"{why} {_IK_HOW}", case, partial(_ik_settings, server))


def settings(flags: str, draft: Path | None) -> _Settings:
    """Return every setting that ``flags`` support, plain decoding first, with its arguments."""
    yield Setting("plain", Method.PLAIN), ()
    if draft is not None:
        deep = "--spec-draft-n-max" if "--spec-draft-n-max" in flags else "--draft-max"
        sure = "--spec-draft-p-min" if "--spec-draft-p-min" in flags else "--draft-p-min"
        kind = (SPEC_TYPE, "draft-simple") if SPEC_TYPE in flags else ()
        model = ("--model-draft", str(draft), *kind)
        for depth in DEPTHS:
            yield Setting(f"draft, n {depth}", Method.DRAFT), (*model, deep, str(depth), sure, "0")
        name = f"draft, n {SURE[0]} while p > {SURE[1]}"
        yield Setting(name, Method.DRAFT), (*model, deep, str(SURE[0]), sure, SURE[1])
    for name in _LOOKUPS:
        if SPEC_TYPE in flags and re.search(rf"\b{name}\b(?!-)", flags):
            yield Setting(name, Method.LOOKUP), (SPEC_TYPE, name)
            sizes = [f"--spec-{name}-size-{size}" for size in "nm"]
            if all(size in flags for size in sizes):
                words = tuple(word for pair in zip(sizes, SHORT, strict=True) for word in pair)
                setting = Setting(f"{name}, {SHORT[1]} after {SHORT[0]}", Method.LOOKUP)
                yield setting, (SPEC_TYPE, name, *words)


def _ik_settings(server: Path | None, flags: str, draft: Path | None) -> _Settings:
    """Return ik_llama.cpp's settings, plain decoding first; the faster ones come first."""
    if f"{SPEC_TYPE} SPEC" not in flags:
        raise PeerFailed(f"{server} is another server, or an older one. {_IK_HOW}")
    yield Setting("plain", Method.PLAIN), (_REPACK,)
    yield Setting("suffix", Method.LOOKUP), (_REPACK, SPEC_TYPE, "suffix:n_max=16")
    if draft is not None:
        words = (_REPACK, "--model-draft", str(draft), SPEC_TYPE)
        yield Setting("draft, n 4", Method.DRAFT), (*words, "draft:n_max=4,p_min=0.0")
    yield Setting("ngram-simple", Method.LOOKUP), (_REPACK, SPEC_TYPE, "ngram-simple")


def _programs(
    name: str,
    server: Path | None,
    missing: str,
    case: Case,
    known: Callable[[str, Path | None], _Settings],
) -> LineUp:
    """Return a program for each setting that is ``known`` of the server's help and the draft."""
    if server is None:
        return [NotMeasured(name, missing)]
    try:
        for model in filter(None, (case.target, case.draft)):
            if not is_gguf(model):
                raise PeerFailed(
                    f"It reads GGUF files only, and {model} is not one. Make one with foretoken "
                    "models export-gguf."
                )
        return [
            Program(name, f"{name} {one.name}", partial(_start, server, one, words), server)
            for one, words in known(printed(server, "--help"), case.draft)
        ]
    except PeerFailed as error:
        return [NotMeasured(name, str(error))]


def _start(server: Path, setting: Setting, words: Sequence[str], case: Case, log: Path) -> Served:
    started = Server(SERVER, command(server, case.target, case.context, case.threads, words), log)
    ask = partial(complete, ignore_eos=not case.eos)
    return Served(started, inspect(case.target).dtype, (setting,), ask)


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


def body(prompt: Sequence[int], limit: int, **more: Any) -> dict[str, Any]:
    """Return a request to continue ``prompt`` greedily, and to say with which tokens."""
    greedy = {"temperature": 0, "repeat_penalty": 1.0, "return_tokens": True}
    return {"prompt": list(prompt), "n_predict": limit, **greedy, **more}


def complete(server: Server, prompt: Sequence[int], limit: int, *, ignore_eos: bool) -> Reply:
    """Continue ``prompt`` greedily, from an empty cache. Raises PeerFailed.

    A server that does not return tokens (ik_llama.cpp) is asked for those of the text it wrote.
    """
    asked = body(prompt, limit, seed=1, ignore_eos=ignore_eos, cache_prompt=False)
    answer = server.post("/completion", asked)
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
    drafted, accepted = (timings.get(name) for name in ("draft_n", "draft_n_accepted"))
    return Reply(
        tokens=tuple(int(token) for token in tokens),
        prompt_tokens=int(timings["prompt_n"]),
        prompt_s=timings["prompt_ms"] / 1e3,
        decoded=max(count, 0),
        decode_s=timings["predicted_ms"] / 1e3 if count > 0 else 0.0,
        drafted=None if drafted is None else int(drafted),
        accepted=None if accepted is None else int(accepted),
    )
