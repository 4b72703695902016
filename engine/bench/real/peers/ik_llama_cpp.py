"""ik_llama.cpp: llama.cpp's kin with other CPU kernels, and with drafting methods of its own.

Its server is llama.cpp's but for the arguments of drafting: ``--spec-type METHOD:key=value,...``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.bench.real.contest import Case, Method, NotMeasured, Setting
from engine.bench.real.peers.llama_cpp import SERVER, SPEC_TYPE, LlamaCpp, find, flags_of
from engine.errors import PeerFailed

NAME = "ik_llama.cpp"
VARIABLE = "FORETOKEN_IK_LLAMA_CPP"
_REPACK = "--run-time-repack"
"""Arranges weights for the processor when they are read, as this engine does; without it everything was
slower."""
_HOW = (
    f"Give the folder of its build with --ik-llama-cpp or {VARIABLE}: git clone "
    "https://github.com/ikawrakow/ik_llama.cpp, then in there cmake -B build "
    f"-DCMAKE_BUILD_TYPE=Release && cmake --build build --target {SERVER}."
)


def programs(folder: Path | None, case: Case) -> Sequence[LlamaCpp | NotMeasured]:
    """Return a program for each setting, or why there is none."""
    server = None if folder is None else find(folder, SERVER)
    if server is None:
        where = "It was not given." if folder is None else f"{folder} holds no {SERVER}."
        return [NotMeasured(NAME, f"{where} {_HOW}")]
    try:
        flags = flags_of(server, case)
    except PeerFailed as error:
        return [NotMeasured(NAME, str(error))]
    if f"{SPEC_TYPE} SPEC" not in flags:
        return [NotMeasured(NAME, f"{server} is another server, or an older one. {_HOW}")]
    return [LlamaCpp(server, setting, words, NAME) for setting, words in settings(case.draft)]


def settings(draft: Path | None) -> Iterator[tuple[Setting, tuple[str, ...]]]:
    """Return its settings, plain decoding first, with their arguments; the faster ones come first."""
    yield Setting("plain", Method.PLAIN), (_REPACK,)
    yield Setting("suffix", Method.LOOKUP), (_REPACK, SPEC_TYPE, "suffix:n_max=16")
    if draft is not None:
        words = (_REPACK, "--model-draft", str(draft), SPEC_TYPE)
        yield Setting("draft, n 4", Method.DRAFT), (*words, "draft:n_max=4,p_min=0.0")
    yield Setting("ngram-simple", Method.LOOKUP), (_REPACK, SPEC_TYPE, "ngram-simple")
