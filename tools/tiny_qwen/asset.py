"""The trained model as a folder in the layout of Qwen3.5's checkpoints, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import Qwen3_5ForCausalLM

from tools.pip.export import UNREAD
from tools.pip.tokenizer import save_tokenizer
from tools.tiny_qwen.network import CONTEXT, Mtp

WEIGHTS = "model.safetensors"
_PREFIX = "mtp."


def export(model: Any, mtp: Mtp, tokenizer: Tokenizer, folder: Path) -> None:
    """Write what transformers writes, in bf16, and the MTP layer under its published names."""
    model.to(torch.bfloat16).save_pretrained(folder)
    tensors = load_file(folder / WEIGHTS)
    for name, value in mtp.state_dict().items():
        tensors[_PREFIX + name] = value.detach().to(torch.bfloat16).contiguous()
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kept = {key: value for key, value in config.items() if key not in UNREAD}
    kept |= {"mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False}
    (folder / "config.json").write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    save_tokenizer(tokenizer, folder, CONTEXT)


def load(folder: Path) -> tuple[Any, Mtp, Tokenizer]:
    """Return the target and the MTP layer in fp32, with the values that are stored."""
    build: Any = Qwen3_5ForCausalLM
    model = build.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()
    mtp = Mtp(model.config)
    tensors = load_file(folder / WEIGHTS).items()
    mtp.load_state_dict(
        {name[len(_PREFIX) :]: value for name, value in tensors if name.startswith(_PREFIX)}
    )
    return model, mtp.eval(), Tokenizer.from_file(str(folder / "tokenizer.json"))
