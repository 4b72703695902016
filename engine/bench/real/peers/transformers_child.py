"""transformers as a process of the contest: ``generate`` on the same file, which it dequantizes."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from engine.bench.real.child import Answer, serve
from engine.bench.real.contest import Method, Reply
from engine.errors import PeerFailed
from engine.models.checkpoints.gguf.description import is_gguf

_CONSTANT = 4
"""Tokens drafted a round, beside what it finds by itself."""
_CONSTANTLY = f"assistant, {_CONSTANT}"
_LOOKUPS = (3, 10)


def why_not_loaded(path: Path) -> str | None:
    """Return what ``load`` lacks for the file, and how to get it; None if nothing."""
    if is_gguf(path) and find_spec("accelerate") is None:
        return "It needs the package accelerate to read GGUF files: pip install accelerate."
    return None


def load(path: Path, dtype: torch.dtype) -> Any:
    """Load a folder, or a GGUF file, which transformers dequantizes to ``dtype``. Raises PeerFailed."""
    import transformers

    if (lacking := why_not_loaded(path)) is not None:
        raise PeerFailed(f"{path.name} cannot be loaded by transformers. {lacking}")

    extra: dict[str, Any] = {}
    if is_gguf(path):
        extra["gguf_file"] = path.name
        # Since 5.23 weights stay in their blocks otherwise, where they can be neither cast nor saved.
        if (config := getattr(transformers, "GgufConfig", None)) is not None:
            extra["quantization_config"] = config(dequantize=True)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        str(path.parent if extra else path),
        dtype=dtype,
        local_files_only=True,
        trust_remote_code=False,
        **extra,
    )
    return model.eval()


def generate(
    model: Any, prompt: Sequence[int], limit: int, eos: Collection[int], drafting: Mapping[str, Any]
) -> Reply:
    """Continue ``prompt`` greedily. Without ``eos`` generate ``limit`` tokens."""
    from transformers import GenerationConfig

    ends = sorted(eos)
    configuration = GenerationConfig(
        do_sample=False,
        max_new_tokens=limit,
        eos_token_id=ends or None,
        pad_token_id=ends[0] if ends else 0,
    )
    # What is None above would be the model's own: its ends, and a penalty of repetitions.
    model.generation_config = GenerationConfig()
    ids = torch.tensor([list(prompt)], device=model.device)
    clock, began = _Clock(), perf_counter()
    with torch.inference_mode():
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=configuration,
            streamer=clock,
            **drafting,
        )
    _, *steps = clock.steps  # the first is the prompt
    return Reply(
        tokens=tuple(output[0, len(prompt) :].tolist()),
        prompt_tokens=len(prompt),
        prompt_s=steps[0][1] - began,
        decoded=sum(count for count, _ in steps[1:]),
        decode_s=steps[-1][1] - steps[0][1],
    )


class _Clock:
    """A streamer: it is given the prompt, then the tokens of each step."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, float]] = []

    def put(self, value: Tensor) -> None:
        self.steps.append((value.numel(), perf_counter()))

    def end(self) -> None: ...


class Pair:
    """The target, its draft, and the arguments of each setting."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        torch.set_num_threads(options["threads"])
        self.eos: list[int] = options["eos"]
        self.target = load(Path(options["target"]), _fast_dtype())
        self.settings: dict[str, tuple[Method, dict[str, Any]]] = {"plain": (Method.PLAIN, {})}
        if options["draft"]:
            draft = load(Path(options["draft"]), _fast_dtype())
            self._own = draft.generation_config
            for name in ("assistant", _CONSTANTLY):
                self.settings[name] = Method.DRAFT, {"assistant_model": draft}
        for count in _LOOKUPS:
            lookup = {"prompt_lookup_num_tokens": count}
            self.settings[f"prompt lookup, {count}"] = Method.LOOKUP, lookup

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        _, drafting = self.settings[request["setting"]]
        if "assistant_model" in drafting:
            self._configure(drafting["assistant_model"], request["setting"])
        asked = request["prompt"], request["limit"], self.eos
        return asdict(generate(self.target, *asked, drafting))

    def _configure(self, draft: Any, setting: str) -> None:
        """Configure anew for every reply: what transformers adapts would carry over to the next."""
        from transformers import GenerationConfig

        draft.generation_config = GenerationConfig(**self._own.to_diff_dict())
        if setting == _CONSTANTLY:  # that many tokens every round, whatever its confidence
            draft.generation_config.num_assistant_tokens = _CONSTANT
            draft.generation_config.num_assistant_tokens_schedule = "constant"
            draft.generation_config.assistant_confidence_threshold = 0.0


def _fast_dtype() -> torch.dtype:
    """Return bf16 if the processor multiplies it; elsewhere it is emulated, at half of the bytes."""
    has = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return torch.bfloat16 if has() else torch.float32


def _start() -> tuple[dict[str, Any], Answer]:
    """Load what the command line states."""
    pair = Pair(json.loads(sys.argv[1]))
    weights = "fp32" if pair.target.dtype == torch.float32 else "bf16"
    listed = [(name, method) for name, (method, _) in pair.settings.items()]
    return {"weights": weights, "settings": listed}, pair


if __name__ == "__main__":
    serve(_start, prompts_alone=True)
