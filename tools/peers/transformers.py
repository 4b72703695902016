"""Hugging Face transformers: ``generate``, in this process, with the same threads and device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from engine.bench.real.transformers import draft_constantly, generate, load
from engine.machine import devices
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
                draft_constantly(draft, case.depth)
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
        made = generate(self.model, prompt, limit, self.case.eos, self.arguments)
        return Reply(made.tokens, made.decoded, made.decode_s)

    def close(self) -> None:
        self.model = None


def _load(path: Path, case: Case) -> Any:
    model = load(path, DTYPES.get(case.quantization, torch.bfloat16))
    return model.to(devices.choose(case.device).device)


def _at(count: int | None) -> str:
    return "" if count is None else f"={count}"
