"""A state that cannot be cropped: the gated delta net's numbers, commits, rewinds, checkpoints.

The reference is transformers' Qwen3.5, with random weights.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from engine.backends.torch import decoder as eager
from engine.backends.torch import state as states
from engine.backends.torch.decoder import TorchDecoder
from engine.backends.torch.gated_delta import DeltaState, mix
from engine.backends.torch.state import TorchState
from engine.decoding.context import Context
from engine.decoding.target import Target
from engine.drafting.draft_reader import SameVocabulary
from engine.events import Tree
from engine.kernels.torch.factory import PLAIN
from engine.models.base import ModelInfo
from engine.models.weights import GatedDeltaWeights, Names, load_layer
from tests.support.random_tensors import (
    ARCHITECTURE,
    DELTA,
    HIDDEN,
    VOCABULARY,
    RandomTensors,
)
from tests.support.sameness import check_parts, check_rollback, check_rows

CONTEXT = 512


@pytest.fixture(scope="module")
def model() -> TorchDecoder:
    info = ModelInfo(
        "delta", "Delta", VOCABULARY, CONTEXT, 0, "fp32", "cpu", frozenset(), 3, HIDDEN
    )
    return TorchDecoder(ARCHITECTURE, Names(), RandomTensors(ARCHITECTURE).__getitem__, info)


def text(count: int, seed: int = 1) -> list[int]:
    return random.Random(seed).choices(range(VOCABULARY), k=count)


def logits(model: TorchDecoder, tokens: Sequence[int]) -> Tensor:
    return model.forward(tokens, model.new_state(CONTEXT), last=1)


def test_the_mixers_numbers_are_those_of_transformers() -> None:
    qwen = pytest.importorskip("transformers.models.qwen3_5.modeling_qwen3_5")
    config = qwen.Qwen3_5TextConfig(
        hidden_size=HIDDEN, linear_num_value_heads=4, linear_num_key_heads=2, num_hidden_layers=1,
        linear_key_head_dim=16, linear_value_head_dim=8, linear_conv_kernel_dim=4,
        layer_types=["linear_attention"],
    )  # fmt: skip
    tensors = RandomTensors(ARCHITECTURE)
    first = Names().layer(0)
    layer = load_layer(
        ARCHITECTURE, ARCHITECTURE.layers[0], lambda name: tensors[first + name], PLAIN
    )
    assert isinstance(layer.mixer, GatedDeltaWeights)
    reference = qwen.Qwen3_5GatedDeltaNet(config, 0)
    prefix = first + "linear_attn."
    own = {name.removeprefix(prefix): each for name, each in tensors.items() if prefix in name}
    reference.load_state_dict(own)
    x = torch.randn(90, HIDDEN, generator=torch.Generator().manual_seed(7))
    with torch.inference_mode():
        expected = reference(x[None])[0]
        found = mix(
            layer.mixer, DELTA, x, DeltaState(DELTA, x.device), config.rms_norm_eps, final=True
        )
    assert torch.allclose(found, expected, atol=2e-5), (found - expected).abs().max()


@pytest.mark.parametrize("start", [1, 3, 64, 130])
def test_rows_have_the_bits_they_have_alone(model: TorchDecoder, start: int) -> None:
    check_rows(model, text(start + 16), start)


def test_bits_do_not_depend_on_how_the_prompt_was_cut(model: TorchDecoder) -> None:
    check_parts(model, text(150), (1, 2, 7, 16, 100))


def test_rejected_rows_leave_no_trace(model: TorchDecoder) -> None:
    check_rollback(model, text(90), [text(15, seed) for seed in range(2, 8)])


def test_any_number_of_accepted_rows_stays(model: TorchDecoder) -> None:
    chance, target = random.Random(5), Target(model)
    tokens = text(300, 9)
    target.extend(tokens[:40])
    while target.length < 120:
        at = target.length
        right = chance.randrange(6)
        drafted = [*tokens[at + 1 : at + 1 + right], *text(5 - right, at)]
        found = target.verify(tokens[at], Tree.chain(drafted))
        assert torch.equal(found[:1], logits(model, tokens[: at + 1]))
        target.commit(range(right))
    at = target.length
    assert torch.equal(target.verify(tokens[at], Tree()), logits(model, tokens[: at + 1]))


def test_a_draft_with_such_a_state_is_after_each_round_that_of_a_fresh_start(
    model: TorchDecoder,
) -> None:
    """Its pending rows come one by one, and count together."""
    reader, context = SameVocabulary(model), Context(text(30))
    reader.begin(context)
    for _ in reader.prepare(context):
        pass
    for accepted in (0, 1, 4, 2, 3):
        behind = reader.catch_up(context)
        assert torch.equal(behind, logits(model, context.tokens))
        drafted = [int(behind.argmax())]
        while len(drafted) < 4:
            drafted.append(int(reader.extend(drafted[-1]).argmax()))
        reader.observe(accepted)
        context.tokens += [*drafted[:accepted], 11]


def test_what_was_read_before_is_used_again_from_a_checkpoint_on(model: TorchDecoder) -> None:
    """An edit goes back to the prompt's end, which was saved, and not to the middle of the reply."""
    target, prompt, reply = Target(model), text(70, 1), text(30, 2)
    target.extend(prompt)
    target.save_checkpoint()
    target.extend(reply)
    assert target.reuse([*prompt, *reply]) == 100, "nothing is forgotten where a text goes on"
    assert target.reuse([*prompt, *reply[:10], 3, 4]) == 70
    target.extend([5, 6])
    assert torch.equal(target.verify(7, Tree()), logits(model, [*prompt, 5, 6, 7]))
    assert target.reuse(prompt[:50]) == 0
    target.extend(prompt[:50])
    assert torch.equal(target.verify(9, Tree()), logits(model, [*prompt[:50], 9]))


def test_what_cannot_be_reached_is_not_rewound_to(model: TorchDecoder) -> None:
    state = model.new_state(CONTEXT)
    model.forward(text(20), state, last=0)
    assert (state.reachable(20), state.reachable(19)) == (20, 0)
    with pytest.raises(ValueError, match="20 tokens to 19"):
        state.rewind(19)


def test_checkpoints_are_bounded_by_bytes(
    model: TorchDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = model.new_state(CONTEXT)
    assert isinstance(state, TorchState)
    size = sum(memory.committed.bytes for memory in state.memories.values())
    monkeypatch.setattr(states, "CHECKPOINT_BYTES", 2 * size)
    for token in text(5):
        model.forward([token], state, last=0)
        state.save_checkpoint()
    model.forward(text(5), state, last=0)
    assert [state.reachable(length) for length in (3, 4, 5)] == [0, 4, 5]


def test_other_executors_refuse_it_by_name() -> None:
    from engine.backends.cuda import decoder as cuda
    from engine.backends.native import support as native

    assert eager.SUPPORT.why_not(ARCHITECTURE, "fp32") is None
    for reason in (cuda.why_not(ARCHITECTURE, "bf16"), native.why_not(ARCHITECTURE, "fp32", None)):
        assert reason is not None and "layers.mixer=GatedDeltaNet" in reason
