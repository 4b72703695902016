"""Hugging Face transformers: ``generate``, in this process, with the same threads and device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from engine.machine import devices
from engine.models.checkpoints.gguf.description import is_gguf
from tools.peers.base import DRAFT, NGRAM, PLAIN, Case, Contender, Entrant, Reply

DTYPES = {"fp32": torch.float32}
"""By our quantization; bf16 for all others."""
NGRAM_TOKENS = 10
"""What its documentation takes for prompt lookup; there is no default."""
_WARM_UP_TOKENS = 4


class Transformers:
    """Always there: it is a dependency."""

    name = "transformers"

    def absent(self) -> str | None:
        return None

    def contenders(self, case: Case, workspace: Path) -> list[Contender]:
        target = _load(case.target, case)
        made: list[Contender] = [Generate(PLAIN, target, {}, "", case)]
        if case.acceptance is not None:  # its drafts cannot be simulated
            return made
        if case.draft is not None:
            draft = _load(case.draft, case)
            if case.depth is not None:
                draft.generation_config.num_assistant_tokens = case.depth
                draft.generation_config.num_assistant_tokens_schedule = "constant"
                draft.generation_config.assistant_confidence_threshold = 0.0
            detail = f"assistant_model{_at(case.depth)}"
            made.append(Generate(DRAFT, target, {"assistant_model": draft}, detail, case))
        count = case.depth or NGRAM_TOKENS
        lookup = {"prompt_lookup_num_tokens": count}
        detail = f"prompt_lookup_num_tokens{_at(count)}"
        return [*made, Generate(NGRAM, target, lookup, detail, case)]


class Generate:
    """``generate`` with one set of arguments."""

    def __init__(
        self, setting: str, model: Any, arguments: Mapping[str, Any], detail: str, case: Case
    ) -> None:
        self.model, self.arguments, self.case = model, arguments, case
        held = "fp32" if model.dtype == torch.float32 else "bf16"
        self.entrant = Entrant("transformers", setting, held, detail)
        self.answer((0, 0), _WARM_UP_TOKENS)

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        ids = torch.tensor([list(prompt)], device=self.model.device)
        clock = Clock()
        with torch.inference_mode():
            output = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                generation_config=self._settings(limit),
                streamer=clock,
                **self.arguments,
            )
        tokens = tuple(output[0, len(prompt) :].tolist())
        return Reply(tokens, *clock.decoding())

    def close(self) -> None:
        self.model = None

    def _settings(self, limit: int) -> Any:
        from transformers import GenerationConfig

        eos = sorted(self.case.eos)
        return GenerationConfig(
            do_sample=False,
            max_new_tokens=limit,
            eos_token_id=eos or None,
            pad_token_id=eos[0] if eos else 0,
        )


class Clock:
    """A streamer: it is given the prompt, then the tokens of each step."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, float]] = []

    def put(self, value: Tensor) -> None:
        self.steps.append((value.numel(), perf_counter()))

    def end(self) -> None: ...

    def first(self, began: float) -> float:
        """Seconds from ``began`` to the first token."""
        return self.steps[1][1] - began if len(self.steps) > 1 else 0.0

    def decoding(self) -> tuple[int, float]:
        """Tokens and seconds after the step that took in the prompt."""
        after = self.steps[1:]
        if len(after) < 2:
            return 0, 0.0
        return sum(count for count, _ in after[1:]), after[-1][1] - after[0][1]


def load(path: Path, dtype: torch.dtype) -> Any:
    """A folder, or a GGUF file, which transformers widens to ``dtype``."""
    from transformers import AutoModelForCausalLM

    file = {"gguf_file": path.name} if is_gguf(path) else {}
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(path.parent if file else path),
        dtype=dtype,
        local_files_only=True,
        trust_remote_code=False,
        **file,
    )
    return model.eval()


def _load(path: Path, case: Case) -> Any:
    model = load(path, DTYPES.get(case.quantization, torch.bfloat16))
    return model.to(devices.choose(case.device).device)


def _at(count: int | None) -> str:
    return "" if count is None else f"={count}"
