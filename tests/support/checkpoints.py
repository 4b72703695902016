"""Small random models that run: real checkpoints in transformers' layout, made where a test needs them.

Untrained, but not trivial: their weights are large enough that the likeliest token changes from
position to position, and a ``perturbed`` copy is a draft that is right now and then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from engine.backends.linear_factory import LinearFactory
from engine.decoding.text.codec import TextCodec
from engine.drafting import heads as head_kinds
from engine.drafting.resources import Resources
from engine.loading.planning.pairing import vocabularies
from engine.local.session import Session
from engine.machine import devices
from engine.models.checkpoints.checkpoint import inspect
from tests.support.loading import load_model

VOCABULARY = 320
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_SPECIAL = ["<|start|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
END = 1
_TEXT = [
    "The target verifies what the draft wrote ahead, and the words stay the same.",
    "Once upon a time there was a little key that opened every second door.",
]
LLAMA: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": END,
}
"""A Llama that computes a token in well under a millisecond."""


def write_tokenizer(folder: Path, *, template: str = TEMPLATE, special: Sequence[str] = ()) -> None:
    """A byte-level BPE tokenizer of 320 tokens with a chat template; ``special``: further such tokens."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[*_SPECIAL, *special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXT, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "TokenizersBackend",
        "bos_token": "<|start|>",
        "eos_token": "<|end|>",
        "clean_up_tokenization_spaces": False,
        "chat_template": template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_random(
    folder: Path,
    kind: str = "llama",
    *,
    seed: int = 0,
    shard: str = "1GB",
    uneven: float = 0.0,
    **config: Any,
) -> Any:
    """A random model of transformers' ``kind`` with a tokenizer; returns the transformers model.

    ``config`` goes over ``LLAMA``'s sizes. ``shard`` is the size of one weights file. Norms and
    biases begin as ones and zeros, which hide a decoder's mistakes; ``uneven`` moves them so much.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = AutoConfig.for_model(kind, **{**LLAMA, "initializer_range": 0.25, **config})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = AutoModelForCausalLM.from_config(settings, dtype=torch.float32).eval()
        with torch.no_grad():
            scalars = [each for name, each in model.named_buffers() if name.endswith("scalar")]
            for weight in (*model.parameters(), *scalars):
                if uneven and weight.dim() == 1:
                    weight.add_(uneven * torch.randn(weight.shape))
            for name, buffer in model.named_buffers():
                if uneven and name.endswith("bias"):  # of routers
                    buffer.add_(uneven * torch.randn(buffer.shape))
    write_tokenizer(folder)
    model.save_pretrained(folder, max_shard_size=shard)
    return model


def write_perturbed(model: Any, folder: Path, *, noise: float = 0.02, seed: int = 1) -> None:
    """Saves ``model`` with weights moved by ``noise``, one layer less: a draft for it. Mutates it."""
    generator = torch.Generator().manual_seed(seed)
    model.model.layers = model.model.layers[:-1]
    if getattr(model.config, "layer_types", None):
        model.config.layer_types = model.config.layer_types[:-1]
    model.config.num_hidden_layers -= 1
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(noise * torch.randn(weight.shape, generator=generator))
    write_tokenizer(folder)
    model.save_pretrained(folder)


def write_pair(target: Path, draft: Path) -> None:
    """A random target and a draft that is right now and then."""
    model = write_random(target)
    # The last layer says little, so that the draft, which lacks it, often agrees.
    with torch.no_grad():
        for weight in model.model.layers[-1].parameters():
            weight.mul_(0.6)
    model.save_pretrained(target)
    write_perturbed(model, draft)


def open_session(
    target: Path,
    draft: Path | None = None,
    *,
    dtype: str = "fp32",
    heads: Sequence[Path] = (),
    native: bool = True,
    parallel: int = 1,
) -> Session:
    """What the engine makes of a pair of folders, and of folders with heads.

    ``native``: whether the compiled step may be used, if it is built. ``parallel``: see ``Session``.
    """
    device = devices.choose(native=native)
    checkpoint, linear_factory = inspect(target), LinearFactory.choose("fp32", device)
    load = partial(load_model, quantization=dtype, native=native)
    plans = [head_kinds.inspect(folder, checkpoint) for folder in heads]
    inside = head_kinds.inside(checkpoint)
    plans += [] if inside is None or isinstance(inside, str) else [inside]
    resources = Resources(
        draft=load(draft) if draft else None,
        vocabularies=vocabularies(checkpoint, inspect(draft)) if draft else None,
        heads={plan.kind: head_kinds.load(plan, linear_factory) for plan in plans},
    )
    return Session(load(target), TextCodec(target), resources, device, parallel)
