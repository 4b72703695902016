"""transformers as a process of the contest: ``generate`` on the same file, widened as it widens it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from engine.bench.real.child import Answer, serve
from engine.bench.real.contest import Method
from tools.peers.transformers import Clock, load

_CONSTANT = 4
"""Tokens drafted a round, beside what it finds by itself."""
_LOOKUPS = (3, 10)


class Generate:
    """The target, its draft, and the arguments of each setting."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        torch.set_num_threads(told["threads"])
        self.eos: list[int] = told["eos"]
        self.target = load(Path(told["target"]), fast_dtype())
        self.settings: dict[str, tuple[Method, dict[str, Any]]] = {"plain": (Method.PLAIN, {})}
        if told["draft"]:
            draft = load(Path(told["draft"]), fast_dtype())
            name = f"assistant, {_CONSTANT}"
            self.settings["assistant"] = Method.DRAFT, {"assistant_model": draft}
            self.settings[name] = Method.DRAFT, {"assistant_model": draft, "num": _CONSTANT}
            self._own = draft.generation_config
        for count in _LOOKUPS:
            lookup = {"prompt_lookup_num_tokens": count}
            self.settings[f"prompt lookup, {count}"] = Method.LOOKUP, lookup

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("steps"):
            return {}
        prompt, limit = request["prompt"], request["limit"]
        _, arguments = self.settings[request["setting"]]
        ids = torch.tensor([prompt])
        clock, began = Clock(), perf_counter()
        with torch.inference_mode():
            output = self.target.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                generation_config=self._configured(limit),
                streamer=clock,
                **self._drafting(arguments),
            )
        decoded, seconds = clock.decoding()
        return {
            "tokens": output[0, len(prompt) :].tolist(),
            "prompt_tokens": len(prompt),
            "prompt_s": clock.first(began),
            "decoded": decoded,
            "decode_s": seconds,
        }

    def _drafting(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The draft carries how far it drafts: the same number every round, or what it finds."""
        if "assistant_model" in arguments:
            from transformers import GenerationConfig

            draft = arguments["assistant_model"]
            draft.generation_config = GenerationConfig(**self._own.to_diff_dict())
            if "num" in arguments:
                draft.generation_config.num_assistant_tokens = arguments["num"]
                draft.generation_config.num_assistant_tokens_schedule = "constant"
                draft.generation_config.assistant_confidence_threshold = 0.0
        return {name: value for name, value in arguments.items() if name != "num"}

    def _configured(self, limit: int) -> Any:
        from transformers import GenerationConfig

        return GenerationConfig(
            do_sample=False,
            max_new_tokens=limit,
            eos_token_id=self.eos or None,
            pad_token_id=self.eos[0] if self.eos else 0,
        )


def fast_dtype() -> torch.dtype:
    """bf16 where the processor multiplies it: elsewhere it is half of the bytes, but emulated."""
    has = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return torch.bfloat16 if has() else torch.float32


def start() -> tuple[dict[str, Any], Answer]:
    """Loads what the command line says."""
    made = Generate(json.loads(sys.argv[1]))
    held = "fp32" if made.target.dtype == torch.float32 else "bf16"
    listed = [(name, method) for name, (method, _) in made.settings.items()]
    return {"weights": held, "settings": listed}, made


if __name__ == "__main__":
    serve(start)
