"""Writes a trained model in transformers' layout, with its tokenizer and model card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from engine.train.output.model_card import FRONT_MATTER, LOG_FILE, curve_table, thinned

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
UNREAD = frozenset(
    ("_name_or_path", "id2label", "label2id", "chunk_size_feed_forward", "output_attentions",
     "output_hidden_states", "problem_type", "return_dict")
)  # fmt: skip
"""What transformers writes into every config, and a language model has no use for."""
_SHAPE = (
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "max_position_embeddings",
)
_DATA = """\
| data | licence |
|---|---|
| guide, tales, records, rewrites, problems and talk written for this project | Apache-2.0 |
| English tales and novels | public domain |
| Schema-Guided Dialogue | CC BY-SA 4.0 |
| SODA | CC BY 4.0 |
| GSM8K, training part | MIT |
"""


def export_model(model: Any, tokenizer: Path, folder: Path) -> None:
    """config.json, model.safetensors (bf16), generation_config.json and the tokenizer into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {key: value for key, value in model.config.to_dict().items() if key not in UNREAD}
    config |= {"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}
    _write_json(folder / "config.json", config)
    ends = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _write_json(folder / "generation_config.json", {"do_sample": False, **ends})
    # The head is the embedding; transformers' layout leaves tied weights out.
    tensors = {
        name: value.detach().to("cpu", torch.bfloat16).contiguous()
        for name, value in model.state_dict().items()
        if name != "lm_head.weight"
    }
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})
    for name in TOKENIZER_FILES:
        shutil.copyfile(tokenizer / name, folder / name)


def write_card(
    folder: Path, title: str, about: str, log: Sequence[Mapping[str, Any]], evaluation: Path
) -> None:
    """README.md: data, licences, training curve, and the figures in `evaluation` if it is there.

    Beside it LOG_FILE: what a later run needs of the log, at most some 256 lines of it and its last.
    """
    lines = "".join(json.dumps(entry) + "\n" for entry in thinned(log))
    (folder / LOG_FILE).write_text(lines, encoding="utf-8")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    parts = [
        f"{FRONT_MATTER}# {title}\n\n{about}",
        f"## Shape\n\n{_shape_table(config)}",
        f"## Data\n\nMixed by `python -m tools.pip train`. Spec-Bench is not in it.\n\n{_DATA}",
        f"## Training curve\n\n{curve_table(log)}\n\n{_held_out_table(log)}",
        f"## Evaluation\n\n{_evaluation(evaluation)}",
    ]
    (folder / "README.md").write_text("\n\n".join(part.strip() for part in parts) + "\n", "utf-8")


def _held_out_table(log: Sequence[Mapping[str, Any]]) -> str:
    """Return the last held-out losses; empty if there are none."""
    losses = next((entry["held_out"] for entry in reversed(log) if "held_out" in entry), None)
    if not losses:
        return ""
    rows = "\n".join(f"| {kind} | {value:.3f} |" for kind, value in sorted(losses.items()))
    return f"Held-out loss at the end:\n\n| kind | loss |\n|---|---|\n{rows}"


def _shape_table(config: Mapping[str, Any]) -> str:
    rows = "\n".join(f"| {name} | {config[name]} |" for name in _SHAPE)
    return f"| key | value |\n|---|---|\n{rows}"


def _evaluation(path: Path) -> str:
    if not path.exists():
        return "Not measured yet; `python -m tools.pip exam` does."
    figures = json.loads(path.read_text(encoding="utf-8"))
    rows = "\n".join(f"| {name} | {value} |" for name, value in figures.items())
    return f"| measure | value |\n|---|---|\n{rows}"


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
