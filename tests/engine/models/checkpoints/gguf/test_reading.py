"""A GGUF file runs as the checkpoint it was made of: the same logits, tokens and texts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.loading.loader import load_model
from tests.support.families import MODELS, write_family
from tests.support.gguf_files import write_gguf

CPU = torch.device("cpu")
LAST_BITS = {"llama3 rope", "phi3, longrope"}
"""Whose rotary factors the file holds as float32."""
AS_THE_FILE_HAS_IT = {
    # What llama.cpp computes, and a file cannot say otherwise.
    "gemma2": {"query_pre_attn_scalar": 8},
    "gemma3": {"query_pre_attn_scalar": 8, "layer_types": ["sliding_attention"] * 2},
    "mistral without window": {},
}
LEFT_OUT = {
    "biases": "llama.cpp's Llama has no bias on the output of attention",
    "dynamic rope": "is the default rope up to the model's context",
    "mistral": "llama.cpp's Llama has no window",
    "qwen2, later layers slide": "llama.cpp's Qwen has no window",
    "qwen3, biases, a window": "llama.cpp's Qwen has no window",
    "llama3 rope": "tested by itself",
}


def logits(path: Path, text: list[int]) -> torch.Tensor:
    model = load_model(path, dtype="fp32", native=False)
    return model.forward(text, model.new_cache(len(text)), last=len(text))


@pytest.mark.parametrize("name", sorted(MODELS.keys() - LEFT_OUT))
def test_every_family_has_the_logits_of_its_folder(name: str, tmp_path: Path) -> None:
    write_family(tmp_path / "folder", name, **AS_THE_FILE_HAS_IT.get(name, {}))
    file = write_gguf(tmp_path / "folder", tmp_path / "model.gguf")
    text = torch.randint(300, (100,), generator=torch.Generator().manual_seed(3)).tolist()
    ours, theirs = logits(file, text), logits(tmp_path / "folder", text)
    if name in LAST_BITS:
        assert torch.allclose(ours, theirs, atol=1e-4)
    else:
        assert torch.equal(ours, theirs)
