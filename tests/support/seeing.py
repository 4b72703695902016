"""Small random models that see images, by transformers' own classes, and pictures for them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import torch
from PIL import Image as Pillow

from tests.support.checkpoints import END, VOCABULARY, write_tokenizer
from tests.support.families import HYBRID

SPECIAL = ["<|vision_start|>", "<|image_pad|>", "<|vision_end|>"]
PAD = 6
"""The placeholder's id."""
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PREPARING = {"shortest_edge": 4 * 16**2, "longest_edge": 30 * 16**2}
"""4 to 30 tokens of 16 pixels a side."""


def write_seeing(
    folder: Path, *, seed: int = 0, sizes: dict[str, int] = PREPARING, **config: Any
) -> Any:
    """A random Qwen3.5 with its vision tower, as transformers writes it; returns the model.

    ``sizes``: least and most pixels of an image. ``config`` goes over the text's."""
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    text = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "bos_token_id": 0,
        "eos_token_id": END,
        "tie_word_embeddings": True,
        "initializer_range": 0.1,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 100.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [3, 3, 2],
            "mrope_interleaved": True,
        },
        **HYBRID,
        **config,
    }
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "patch_size": 8,
        "out_hidden_size": text["hidden_size"],
        "num_position_embeddings": 36,
        "initializer_range": 0.2,
    }
    settings = Qwen3_5Config(
        text_config=text,
        vision_config=vision,
        image_token_id=PAD,
        vision_start_token_id=PAD - 1,
        vision_end_token_id=PAD + 1,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3_5ForConditionalGeneration._from_config(settings, dtype=torch.float32).eval()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() == 1:
                    weight.add_(0.1 * torch.randn(weight.shape))
    write_tokenizer(folder, template=TEMPLATE, special=SPECIAL)
    model.save_pretrained(folder)
    preparing = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "size": sizes,
        "patch_size": 8,
        "merge_size": 2,
        "temporal_patch_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(preparing))
    return model


def picture(
    width: int = 70, height: int = 50, seed: int = 1, format: str = "PNG", **options: Any
) -> bytes:
    """A file of a picture of coloured noise, in large spots."""
    generator = torch.Generator().manual_seed(seed)
    spots = torch.randint(0, 256, (5, 7, 3), dtype=torch.uint8, generator=generator)
    image = Pillow.fromarray(spots.numpy()).resize((width, height), Pillow.Resampling.BICUBIC)
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()
