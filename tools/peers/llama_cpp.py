"""llama.cpp: its server on the same weights, exported to GGUF for the run where they are none yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.bench.real.llama_cpp import SERVER, VARIABLE, find, known_flags
from engine.bench.real.server import HOST, Server
from engine.errors import ModelError, PeerFailed
from engine.kernels.formats import AS_STORED
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

TYPES = {"fp32": "f32", "bf16": "bf16", "int8": "q8_0", "nf4": "q4_0", AS_STORED: "q8_0"}
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
        command = [
            str(program), "--model", str(files.target), "--host", HOST, "--port", "{port}",
            "--ctx-size", str(case.longest), "--parallel", "1", "--threads", str(case.threads),
            *extra,
        ]  # fmt: skip
        self.server = Server("llama-server", command, log)

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        body = {
            "prompt": list(prompt),
            "n_predict": limit,
            "temperature": 0,
            "repeat_penalty": 1.0,
            "seed": self.case.seed,
            "ignore_eos": not self.case.eos,
            "cache_prompt": False,
            "return_tokens": True,
        }
        answer = self.server.post("/completion", body)
        try:
            timings = answer["timings"]
            # The clock starts when the first token is there.
            count, seconds = int(timings["predicted_n"]) - 1, timings["predicted_ms"] / 1e3
            tokens = tuple(int(token) for token in answer["tokens"])
        except (KeyError, TypeError, ValueError) as error:
            raise PeerFailed(
                f"llama-server answered without tokens or timings ({error!r}). Use a version that "
                "knows return_tokens."
            ) from error
        simulated = self.entrant.source is Source.SIMULATED
        return Reply(None if simulated else tokens, max(count, 0), seconds if count > 0 else 0.0)

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


def _settings(flags: str, files: Files, case: Case) -> list[tuple[str, list[str], str, Source]]:
    """Setting, arguments, detail and source of every server to start."""
    made: list[tuple[str, list[str], str, Source]] = [(PLAIN, [], "", Source.MEASURED)]
    newer = "--spec-type" in flags
    if files.draft is not None:
        loads = ["--model-draft", str(files.draft)]
        loads += ["--spec-type", "draft-simple"] if newer else []
        count = "--spec-draft-n-max" if "--spec-draft-n-max" in flags else "--draft-max"
        if case.acceptance is None:
            depth = [] if case.depth is None else [count, str(case.depth)]
            detail = " ".join(["--model-draft", *depth])
            made.append((DRAFT, [*loads, *depth], detail, Source.MEASURED))
        elif "--spec-synth-rates" in flags:
            depth = [count, str(case.depth or FIXED_DEPTH)]
            rates = [case.acceptance**place for place in range(1, int(depth[1]) + 1)]
            listed = ",".join(f"{rate:.6f}" for rate in rates)
            detail = f"--spec-synth-rates, {' '.join(depth)}, {case.acceptance:g} right"
            synthetic = [*loads, *depth, "--spec-synth-rates", listed]
            made.append((DRAFT, synthetic, detail, Source.SIMULATED))
    if case.acceptance is None and newer and "ngram-simple" in flags:
        made.append((NGRAM, ["--spec-type", "ngram-simple"], "ngram-simple", Source.MEASURED))
    return made
