"""llama.cpp: its server on the same weights, exported to GGUF for the run where they are none yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.bench.real.llama_cpp import (
    SERVER,
    SPEC_TYPE,
    VARIABLE,
    command,
    complete,
    drafting,
    find,
    known_flags,
)
from engine.bench.real.server import Server
from engine.errors import ModelError, PeerFailed
from engine.kernels.formats import AS_STORED, Q4
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.gguf.description import is_gguf
from engine.models.checkpoints.gguf.write import export, why_not_installed
from engine.request import FIXED_DEPTH
from tools.peers.base import (
    DRAFT,
    NGRAM,
    PLAIN,
    Case,
    Contender,
    Entrant,
    Reply,
    Source,
)
from tools.peers.llama_steps import LlamaSteps

TYPES = {
    "fp32": "f32", "bf16": "bf16", "int8": "q8_0", "nf4": "q4_0", Q4: "q4_0", AS_STORED: "q8_0",
}  # fmt: skip
"""What comes nearest to how our engine holds the weights: as many bits. A GGUF file stays what it is."""
BATCHED_BENCH = "llama-batched-bench"
_HOW = (
    f"Give the folder where it was built with --llama-cpp or {VARIABLE}. To build it: git clone "
    "https://github.com/ggml-org/llama.cpp, then in there cmake -B build "
    f"-DCMAKE_BUILD_TYPE=Release && cmake --build build --target {SERVER} {BATCHED_BENCH}."
)


@dataclass(frozen=True, slots=True)
class Files:
    """The pair in GGUF, and what its matrices are stored as."""

    target: Path
    draft: Path | None
    kind: str


class LlamaCpp:
    """There if its folder holds a server and the package gguf is installed."""

    name = "llama.cpp"

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def absent(self) -> str | None:
        if self.folder is None:
            return f"llama.cpp is not given. {_HOW}"
        if find(self.folder, SERVER) is None:
            return f"{self.folder} holds no {SERVER}. {_HOW}"
        return why_not_installed()

    def contenders(self, case: Case, workspace: Path) -> list[Contender]:
        files = _files(case, workspace)
        assert self.folder is not None
        server = find(self.folder, SERVER)
        assert server is not None
        flags = known_flags(server)
        made: list[Contender] = []
        try:
            for setting, extra, detail, source in _settings(flags, files, case):
                entrant = Entrant(self.name, setting, files.kind, detail, source)
                log = workspace / f"llama-server-{len(made)}.log"
                made.append(LlamaContender(server, entrant, files, case, extra, log))
            program = find(self.folder, BATCHED_BENCH)
            if case.acceptance is not None and files.draft is not None and program is not None:
                made.append(LlamaSteps(program, files.target, files.draft, files.kind, case))
        except BaseException:
            for contender in made:
                contender.close()
            raise
        return made


class LlamaContender:
    """One server with one way of drafting, or none; it answers one request at a time."""

    def __init__(
        self,
        program: Path,
        entrant: Entrant,
        files: Files,
        case: Case,
        extra: Sequence[str],
        log: Path,
    ) -> None:
        self.entrant, self.case = entrant, case
        words = command(program, files.target, case.longest, case.threads, extra)
        self.server = Server(SERVER, words, log)

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        seed, ignore_eos = self.case.seed, not self.case.eos
        reply = complete(self.server, prompt, limit, ignore_eos=ignore_eos, seed=seed)
        simulated = self.entrant.source is Source.SIMULATED
        return Reply(None if simulated else reply.tokens, reply.decoded, reply.decode_s)

    def close(self) -> None:
        self.server.close()


def _files(case: Case, workspace: Path) -> Files:
    """GGUF files as they are, folders exported. Raises PeerFailed."""
    kind = TYPES[case.quantization]

    def file(model: Path, name: str) -> Path:
        return model if is_gguf(model) else export(model, workspace / name, kind).file

    try:
        target = file(case.target, "target.gguf")
        draft = case.draft and file(case.draft, "draft.gguf")
    except ModelError as error:
        raise PeerFailed(f"llama.cpp cannot be given these weights. {error}") from error
    stored = inspect(case.target).dtype.lower() if is_gguf(case.target) else kind
    return Files(target, draft, stored)


def _settings(
    flags: str, files: Files, case: Case
) -> list[tuple[str, tuple[str, ...], str, Source]]:
    """Setting, arguments, detail and source of every server to start."""
    made: list[tuple[str, tuple[str, ...], str, Source]] = [(PLAIN, (), "", Source.MEASURED)]
    if case.acceptance is None:
        if files.draft is not None:
            words = drafting(flags, files.draft, case.depth)
            made.append((DRAFT, words, _without(words, files.draft), Source.MEASURED))
        if SPEC_TYPE in flags and "ngram-simple" in flags:
            made.append((NGRAM, (SPEC_TYPE, "ngram-simple"), "ngram-simple", Source.MEASURED))
    elif files.draft is not None and "--spec-synth-rates" in flags:
        depth = case.depth or FIXED_DEPTH
        words = drafting(flags, files.draft, depth)
        rates = ",".join(f"{case.acceptance**place:.6f}" for place in range(1, depth + 1))
        detail = f"--spec-synth-rates, {_without(words, files.draft)}, {case.acceptance:g} right"
        made.append((DRAFT, (*words, "--spec-synth-rates", rates), detail, Source.SIMULATED))
    return made


def _without(words: Sequence[str], file: Path) -> str:
    return " ".join(word for word in words if word != str(file))
