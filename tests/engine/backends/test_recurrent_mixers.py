"""States that cannot be cropped: their commits, rewinds and checkpoints, for each recurrent mixer.

Their numbers are compared with transformers' in test_decoder.py, those of one gated delta net also here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from engine.backends.native.decoder import NativeDecoder
from engine.backends.torch import decoder as eager
from engine.backends.torch.decoder import TorchDecoder
from engine.backends.torch.gated_delta import Memory, mix
from engine.backends.torch.recurrence import RecurrentState
from engine.decoding.context import Context
from engine.decoding.target import Target
from engine.drafting.draft_reader import SameVocabulary
from engine.events import Tree
from engine.kernels.native.library import Library
from engine.kernels.torch.factory import PLAIN
from engine.models.architecture import LayerSpec, Recurrent
from engine.models.base import Model, ModelInfo
from engine.models.tensor_shapes import Names
from engine.models.weight_loading import load_layer
from engine.models.weights import GatedDeltaWeights
from tests.support.random_tensors import (
    ARCHITECTURE,
    CONVOLUTION,
    DELTA,
    HIDDEN,
    MAMBA,
    MLP,
    VOCABULARY,
    RandomTensors,
    recurrent,
)
from tests.support.sameness import (
    check_parts,
    check_rollback,
    check_rows,
    check_together,
    check_tree,
)

CONTEXT = 512
INFO = ModelInfo("delta", "Delta", VOCABULARY, CONTEXT, 0, "fp32", "cpu", frozenset(), 3, HIDDEN)
MIXERS: dict[str, Recurrent] = {"delta": DELTA, "mamba2": MAMBA, "convolution": CONVOLUTION}


@pytest.fixture(
    scope="module",
    params=[f"{executor} {name}" for executor in ("torch", "compiled") for name in MIXERS],
)
def model(request: pytest.FixtureRequest) -> Model:
    executor, name = request.param.split()
    if executor == "torch":
        return eager_model(MIXERS[name])
    return compiled(request.getfixturevalue("library"), MIXERS[name])


@pytest.fixture(params=MIXERS.values(), ids=MIXERS)
def mixer(request: pytest.FixtureRequest) -> Recurrent:
    found: Recurrent = request.param
    return found


def eager_model(mixer: Recurrent) -> TorchDecoder:
    architecture = recurrent(mixer)
    return TorchDecoder(architecture, Names(), RandomTensors(architecture).__getitem__, INFO)


def compiled(library: Library, mixer: Recurrent) -> NativeDecoder:
    architecture = recurrent(mixer)
    source = RandomTensors(architecture).__getitem__
    return NativeDecoder(architecture, Names(), source, INFO, library, "fp32", torch.float32)


def text(count: int, seed: int = 1) -> list[int]:
    return random.Random(seed).choices(range(VOCABULARY), k=count)


def logits(model: Model, tokens: Sequence[int]) -> Tensor:
    return model.forward(tokens, model.new_state(CONTEXT), last=1)


def test_a_gated_delta_nets_numbers_are_those_of_transformers() -> None:
    qwen = pytest.importorskip("transformers.models.qwen3_5.modeling_qwen3_5")
    config = qwen.Qwen3_5TextConfig(
        hidden_size=HIDDEN, linear_num_value_heads=16, linear_num_key_heads=4, num_hidden_layers=1,
        linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4,
        layer_types=["linear_attention"],
    )  # fmt: skip
    tensors = RandomTensors(ARCHITECTURE)
    source = Names().within(0, tensors.__getitem__)
    layer = load_layer(ARCHITECTURE, ARCHITECTURE.layers[0], source, PLAIN)
    assert isinstance(layer.mixer, GatedDeltaWeights)
    reference = qwen.Qwen3_5GatedDeltaNet(config, 0)
    prefix = Names().layer(0) + "linear_attn."
    own = {name.removeprefix(prefix): each for name, each in tensors.items() if prefix in name}
    reference.load_state_dict(own)
    x = torch.randn(90, HIDDEN, generator=torch.Generator().manual_seed(7))
    with torch.inference_mode():
        expected = reference(x[None])[0]
        found = mix(
            layer.mixer,
            DELTA,
            x,
            RecurrentState(Memory.empty(DELTA, x.device)),
            config.rms_norm_eps,
            final=True,
        )
    assert torch.allclose(found, expected, atol=2e-5), (found - expected).abs().max()


@pytest.mark.parametrize("start", [1, 3, 64, 130])
def test_rows_have_the_bits_they_have_alone(model: Model, start: int) -> None:
    check_rows(model, text(start + 16), start)


def test_bits_do_not_depend_on_how_the_prompt_was_cut(model: Model) -> None:
    check_parts(model, text(150), (1, 2, 7, 16, 100))


def test_rejected_rows_leave_no_trace(model: Model) -> None:
    check_rollback(model, text(90), [text(15, seed) for seed in range(2, 8)])


def test_any_number_of_accepted_rows_stays(model: Model) -> None:
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
    model: Model,
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


def test_what_was_read_before_is_used_again_from_a_checkpoint_on(model: Model) -> None:
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


def test_what_cannot_be_reached_is_not_rewound_to(model: Model) -> None:
    state = model.new_state(CONTEXT)
    model.forward(text(20), state, last=0)
    assert (state.reachable(20), state.reachable(19)) == (20, 0)
    with pytest.raises(ValueError, match="20 tokens to 19"):
        state.rewind(19)


def test_checkpoints_are_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch, model: Model) -> None:
    state = model.new_state(CONTEXT)
    model.forward(text(8), state, last=0)
    state.save_checkpoint()
    (size,) = (size for _, size in state._checkpoints._saved.values())  # type: ignore[attr-defined]
    info = replace(model.info, checkpoint_bytes=int(2.5 * size))
    monkeypatch.setattr(model, "_info", info)
    state = model.new_state(CONTEXT)
    model.forward(text(8), state, last=0)
    state.save_checkpoint()
    for token in text(4):
        model.forward([token], state, last=0)
        state.save_checkpoint()
    model.forward(text(5), state, last=0)
    assert [state.reachable(length) for length in (10, 11, 12)] == [0, 11, 12]


def test_both_executors_compute_the_same(library: Library, mixer: Recurrent) -> None:
    tokens = text(200)
    found, expected = (
        each.forward(tokens, each.new_state(CONTEXT), last=200)
        for each in (compiled(library, mixer), eager_model(mixer))
    )
    assert (found - expected).abs().max() < 1e-4 * expected.abs().max()


def test_trees_and_batches_have_the_bits_of_chains_alone(
    library: Library, mixer: Recurrent
) -> None:
    model = compiled(library, mixer)
    for start in (1, 2, 40):
        check_tree(model, text(start), seed=start)
    check_together(model, seed=3)


def test_a_draft_that_is_written_at_once_is_that_of_single_steps(
    library: Library, mixer: Recurrent
) -> None:
    """In each way that pending rows may stand behind committed ones."""
    model, tokens = compiled(library, mixer), text(40)
    for final in (True, False):
        state, single = model.new_state(CONTEXT), model.new_state(CONTEXT)
        for each in (state, single):
            model.forward(tokens, each, last=0)
        written, _ = model.generate([3, 4], state, 6, VOCABULARY, final=final)
        logits = model.forward([3, 4], single, last=1, final=final)
        for token in written:
            assert token == int(logits.argmax())
            logits = model.forward([token], single, last=1, final=False)
        kept = range(2 * (not final) + 3)
        state.commit(kept)
        single.commit(kept)
        assert torch.equal(model.forward([9], state, last=1), model.forward([9], single, last=1))


def test_a_prefix_is_copied_where_the_other_state_can_be_had(
    library: Library, mixer: Recurrent
) -> None:
    model, tokens = compiled(library, mixer), text(60)
    one, other, third = (model.new_state(CONTEXT) for _ in range(3))
    model.forward(tokens[:30], one, last=0)
    one.save_checkpoint()
    model.forward(tokens[30:], one, last=0)
    assert other.copy_prefix(one, 60) == 60
    assert third.copy_prefix(one, 45) == 30
    model.forward(tokens[30:], third, last=0)
    rest = [model.forward([5], each, last=1) for each in (one, other, third)]
    assert torch.equal(rest[0], rest[1])
    assert torch.equal(rest[0], rest[2])


def test_an_executor_refuses_sizes_that_it_lacks() -> None:
    from engine.backends.native import support as native

    assert eager.SUPPORT.why_not(ARCHITECTURE, "fp32") is None
    assert native.why_not(ARCHITECTURE, "fp32", None) is None
    odd = replace(ARCHITECTURE, layers=(LayerSpec(replace(DELTA, value_dim=8), MLP),))
    assert "value size 8" in (native.why_not(odd, "fp32", None) or "")
