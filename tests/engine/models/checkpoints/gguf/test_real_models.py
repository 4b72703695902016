"""Files that people have: read whole, described, and run as they are stored."""

from __future__ import annotations

import torch

from engine.decoding.text.codec import TextCodec
from engine.models.base import Model
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.gguf.tensors import GgufTensors
from engine.request import Request
from engine.values.messages import Message
from tests.support.loading import load_model
from tests.support.places import real_models


def test_every_tensor_can_be_read() -> None:
    for file in real_models():
        found = inspect(file)
        source = GgufTensors(found, torch.float32, torch.device("cpu"))
        assert all(
            tuple(source.weight(name).shape) == info.shape for name, info in found.tensors.items()
        )


def test_the_smallest_says_the_words_of_its_widened_weights() -> None:
    """Where the compiled step is built; else both are the same way."""
    file = real_models()[0]
    codec = TextCodec(file)
    asked = Request(messages=(Message("user", "Count from one to five."),))
    prompt = codec.encode(codec.render(asked), special=False)
    stored = greedy(load_model(file, context=256), prompt, 8)
    assert stored == greedy(load_model(file, quantization="fp32", context=256), prompt, 8)
    assert codec.decode(stored).strip()


def greedy(model: Model, prompt: list[int], count: int) -> list[int]:
    cache, text = model.new_state(256), list(prompt)
    text.append(int(model.forward(prompt, cache, last=1).argmax()))
    while len(text) < len(prompt) + count and text[-1] not in model.info.eos:
        text.append(int(model.forward(text[-1:], cache, last=1).argmax()))
    return text[len(prompt) :]
