"""Block drafters' loader and pass, against the papers' equations written out here, row by row."""

from __future__ import annotations

import ctypes as c
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.backends.torch.eager import EagerMemory, EagerOperations
from engine.decoding.target import Target
from engine.drafting import heads
from engine.drafting.heads.block import BlockDraft, BlockHead
from engine.errors import IncompatiblePair, ModelError
from engine.kernels.native.library import Library
from engine.kernels.operands import Number
from engine.models.hidden_states import NORMED, AuxLayer
from tests.support.fakes import TableModel
from tests.support.heads import (
    BLOCK,
    EAGER,
    FakeShape,
    block,
    block_pass,
    dflash2,
    write_head,
)

TARGET = FakeShape(
    hidden=TableModel.HIDDEN, vocabulary=40, layers=TableModel.LAYERS, path=Path("ours")
)
CPU = torch.device("cpu")
TEXT, PENDING = (3, 1, 4, 1, 5, 9, 2, 6), 7
READ = (-1, 2, 7)  # the embedding, what leaves layer 2, and the last behind the final norm
TAPS = (AuxLayer(0), AuxLayer(3), NORMED)


def load(folder: Path, products: LinearFactory | None = None) -> BlockHead:
    plan = heads.inspect(folder, TARGET)
    head = heads.load(plan, products or LinearFactory("fp32", CPU))
    assert isinstance(head, BlockHead)
    return head


def backbone() -> Target:
    """A target that has read TEXT."""
    target = Target(TableModel(lambda tokens: [0.0] * 40, 40), TAPS)
    target.extend(TEXT)
    return target


def norm(x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.pow(2).mean() + 1e-6).sqrt() * weight


def turned(x: Tensor, position: int) -> Tensor:
    """Rotary positions: dimension i with i + d/2, by position * 10000^(-2i/d)."""
    half = len(x) // 2
    out = x.clone()
    for i in range(half):
        angle = torch.tensor(position * 10000.0 ** (-2 * i / len(x)))
        a, b = x[i], x[i + half]
        out[i] = a * angle.cos() - b * angle.sin()
        out[i + half] = b * angle.cos() + a * angle.sin()
    return out


def by_the_papers(
    config: dict[str, Any], tensors: dict[str, Tensor], target: Target, pending: int
) -> Tensor:
    """(block, hidden): DFlash's section 3 and z-lab's code, for one row and one head at a time.

    DFlash2's convolutions and windows as well, by the formulas of its description.
    """
    own = config.get("dflash_config") or config
    window, group = config.get("sliding_window") or 10**6, own.get("conv_group_size", 1)

    def convolved(x: list[Tensor], inputs: list[Tensor], name: str, side: int) -> list[Tensor]:
        if f"{name}.base_kernel" not in tensors:
            return x
        base, made = tensors[f"{name}.base_kernel"], []
        for row, plain in enumerate(inputs):
            added = (tensors[f"{name}.kernel_projection.weight"] @ plain).view(2, len(base[0]), -1)
            total = torch.zeros_like(x[row])
            for tap in range(min(len(base[0]), row + 1)):
                factor = base[side, tap] + added[side, tap].repeat_interleave(group)
                total += factor * x[row - tap]
            made.append(total)
        return made

    start, width = target.length, BLOCK["head_dim"]
    states = torch.cat([target.aux_hidden_states(aux_layer, 0, start) for aux_layer in TAPS], dim=1)
    text = [norm(tensors["fc.weight"] @ row, tensors["hidden_norm.weight"]) for row in states]
    mask = (config.get("dflash_config") or config)["mask_token_id"]
    rows = list(target.embed([pending] + [mask] * (config["block_size"] - 1)))
    for number in range(config["num_hidden_layers"]):

        def at(name: str, number: int = number) -> Tensor:
            return tensors[f"layers.{number}.{name}.weight"]

        prefix = f"layers.{number}."
        plain_rows = [norm(row, at("input_layernorm")) for row in rows]
        inputs = text + convolved(plain_rows, plain_rows, f"{prefix}attention_conv", 0)
        keys, values = [], []
        for position, x in enumerate(inputs):
            by_head = (at("self_attn.k_proj") @ x).view(-1, width)
            keys.append([turned(norm(k, at("self_attn.k_norm")), position) for k in by_head])
            values.append((at("self_attn.v_proj") @ x).view(-1, width))
        attended = []
        for position in range(start, start + len(rows)):
            first = max(0, position - window + 1)
            queries = (at("self_attn.q_proj") @ inputs[position]).view(-1, width)
            mixed = []
            for number_of, plain in enumerate(queries):
                shared = number_of // (BLOCK["heads"] // BLOCK["kv_heads"])
                query = turned(norm(plain, at("self_attn.q_norm")), position)
                scores = torch.stack([query @ key[shared] for key in keys[first:]]) / width**0.5
                seen = torch.stack([value[shared] for value in values[first:]])
                mixed.append(torch.softmax(scores, 0) @ seen)
            attended.append(at("self_attn.o_proj") @ torch.cat(mixed))
        attended = convolved(attended, plain_rows, f"{prefix}attention_conv", 1)
        seeing = [row + one for row, one in zip(rows, attended, strict=True)]
        normed = [norm(row, at("post_attention_layernorm")) for row in seeing]
        out = []
        for x in convolved(normed, normed, f"{prefix}mlp_conv", 0):
            gate = at("mlp.gate_proj") @ x
            swiglu = gate / (1 + torch.exp(-gate)) * (at("mlp.up_proj") @ x)
            out.append(at("mlp.down_proj") @ swiglu)
        out = convolved(out, normed, f"{prefix}mlp_conv", 1)
        rows = [row + one for row, one in zip(seeing, out, strict=True)]
    return torch.stack([norm(row, tensors["norm.weight"]) for row in rows])


@pytest.mark.parametrize("form", ["dflash", "dspark", "dflash2"])
def test_states_are_those_of_the_papers_equations(tmp_path: Path, form: str) -> None:
    rank = 8 if form == "dspark" else 0
    make = dflash2 if form == "dflash2" else block
    config, tensors = make(TARGET, rank=rank, read=READ)
    head, target = load(write_head(tmp_path, config, tensors)), backbone()
    assert head.aux_layers == TAPS
    expected = by_the_papers(config, tensors, target, PENDING)
    drafts = block_pass(head, target, PENDING)
    found = drafts.states
    # In DFlash the pending token's own row names nothing.
    assert torch.allclose(found, expected if rank else expected[1:], atol=1e-4)
    assert len(found) == head.shape.depth
    assert torch.allclose(drafts.logits, target.logits(found))


def test_more_rows_than_an_output_head_takes_at_once_are_split(tmp_path: Path) -> None:
    head, target = load(write_head(tmp_path, *block(TARGET, size=24, read=READ))), backbone()
    drafts = block_pass(head, target, PENDING)
    assert len(drafts.states) == 23
    assert torch.allclose(drafts.logits, target.logits(drafts.states), atol=1e-6)


def held(drafts: BlockDraft) -> tuple[Tensor, Tensor]:
    """Keys and values of TEXT."""
    memory = drafts.memory
    assert isinstance(memory, EagerMemory)
    return memory.keys[:, :, :8], memory.values[:, :, :8]


def test_the_text_is_kept_as_if_read_at_once_whatever_was_drafted(tmp_path: Path) -> None:
    head, target = load(write_head(tmp_path, *block(TARGET, read=READ))), backbone()
    whole, parts = (BlockDraft(head, EagerOperations(target)) for _ in range(2))
    whole.read(0, 8)
    for start, end in ((0, 3), (3, 4), (4, 8)):
        parts.begin(start, end, PENDING, 1).logits(0)
    for one, other in zip(held(whole), held(parts), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_memory_grows_and_keeps_what_it_holds(tmp_path: Path) -> None:
    head, target = load(write_head(tmp_path, *block(TARGET, read=READ))), backbone()
    drafts = block_pass(head, target, PENDING)
    before, memory = drafts.states, drafts.memory
    assert isinstance(memory, EagerMemory)
    memory.reserve(memory.keys.shape[2] + 1)
    assert memory.keys.shape[2] == len(memory.rope) == 512
    drafts.begin(8, 8, PENDING, 1).logits(0)
    assert torch.equal(drafts.states, before)


def test_the_markov_head_adds_what_the_token_before_makes_likely(tmp_path: Path) -> None:
    """DeepSpec's VanillaMarkov: W2 W1[token]; its AcceptRatePredictor: a line through both."""
    config, tensors = block(TARGET, rank=8)
    tensors["confidence_head.proj.bias"] += 0.25
    head = load(write_head(tmp_path, config, tensors))
    assert head.markov is not None
    before, after = (tensors[f"markov_head.markov_{name}.weight"] for name in ("w1", "w2"))
    chain = (c.c_int64 * 1)(7)
    (row,) = head.rows(
        EAGER, chain, torch.ones(1, TARGET.vocabulary), torch.empty(0), Number(1), None
    )
    assert torch.allclose(row[0], 1 + after @ before[7], atol=1e-5)
    state = torch.randn(1, TARGET.hidden, generator=torch.Generator().manual_seed(3))
    line = tensors["confidence_head.proj.weight"][0] @ torch.cat([state[0], before[7]]) + 0.25
    assert head.confidence(state, 7) == pytest.approx(float(torch.sigmoid(line)), abs=1e-5)


def test_the_selector_ranks_the_likeliest_tokens_by_the_one_before(tmp_path: Path) -> None:
    config, tensors = dflash2(TARGET, read=READ)
    head, target = load(write_head(tmp_path, config, tensors)), backbone()
    drafts, before = BlockDraft(head, EagerOperations(target)), PENDING
    draft = drafts.begin(0, target.length, PENDING, head.shape.depth)
    a, b = (tensors[f"candidate_selector.{name}_codebook"] for name in ("predecessor", "successor"))
    for step in range(head.shape.depth):
        row, state = draft.logits(step)[0], drafts.states[step]
        logits = target.logits(state[None])[0]
        gate = a[before] * (tensors["candidate_selector.hidden_projection.weight"] @ state)
        kept = logits.topk(6).indices
        assert row.isfinite().nonzero()[:, 0].tolist() == sorted(kept.tolist())
        assert torch.allclose(row[kept], logits[kept] + b[kept] @ gate, atol=1e-4)
        before = int(row.argmax())
        draft.chain[step + 1] = before


def test_speculators_name_hidden_states_by_what_they_enter(tmp_path: Path) -> None:
    config, tensors = block(TARGET, read=READ)
    named = {
        "speculators_model_type": "dflash",
        "architectures": ["DFlashSpeculator"],
        "aux_hidden_state_layer_ids": [layer + 1 for layer in READ],
        "block_size": config["block_size"],
        "mask_token_id": config["dflash_config"]["mask_token_id"],
        "transformer_layer_config": config,
    }
    shapes = [
        heads.inspect(write_head(tmp_path / name, given, tensors), TARGET).shape
        for name, given in (("z-lab", config), ("speculators", named))
    ]
    assert shapes[0] == shapes[1]


def test_a_confidence_head_may_look_at_the_state_alone(tmp_path: Path) -> None:
    config, tensors = block(TARGET, rank=8)
    config["confidence_head_with_markov"] = False
    weight = tensors["confidence_head.proj.weight"][:, : TARGET.hidden].clone()
    tensors["confidence_head.proj.weight"] = weight
    head = load(write_head(tmp_path, config, tensors))
    state = torch.ones(1, TARGET.hidden)
    assert head.confidence(state, 7) == pytest.approx(float(torch.sigmoid(weight.sum())), abs=1e-5)
    plain = load(write_head(tmp_path / "dflash", *block(TARGET)))
    assert plain.markov is None and plain.confidence(state, 7) == 1.0


def test_files_that_hold_the_targets_tables_too_are_read_without_them(tmp_path: Path) -> None:
    """As deepseek-ai publishes them."""
    config, tensors = block(TARGET, rank=8)
    plan = heads.inspect(write_head(tmp_path / "lean", config, tensors), TARGET)
    tables = {f"{name}.weight": torch.zeros(40, 16) for name in ("embed_tokens", "lm_head")}
    full = heads.inspect(write_head(tmp_path / "full", config, {**tensors, **tables}), TARGET)
    assert (plan.parameters, plan.shape) == (full.parameters, full.shape)
    keys = BLOCK["kv_heads"] * BLOCK["head_dim"] * TARGET.hidden
    held = sum(tensor.numel() for tensor in tensors.values())
    assert plan.parameters == held + 2 * 2 * keys  # of both layers, keys and values
    assert [(each.kv_heads, each.head_dim) for each in plan.attentions] == [(2, 8)] * 2


def test_where_rows_name_their_own_place_is_told_by_the_architecture_or_a_key(
    tmp_path: Path,
) -> None:
    config, tensors = block(TARGET, rank=8, size=5)
    assert load(write_head(tmp_path / "dspark", config, tensors)).shape.depth == 5
    config["sample_from_anchor"] = False
    assert load(write_head(tmp_path / "told", config, tensors)).shape.depth == 4
    flat, tensors = block(TARGET, size=5)
    flat |= flat.pop("dflash_config")  # as Muse's assistants have it
    assert load(write_head(tmp_path / "flat", flat, tensors)).shape.depth == 4


def test_quantised_heads_are_near(tmp_path: Path, library: Library) -> None:
    folder, target = write_head(tmp_path, *block(TARGET, rank=8, read=READ)), backbone()

    def states(products: LinearFactory) -> Tensor:
        return block_pass(load(folder, products), target, PENDING).states

    expected = states(LinearFactory("fp32", CPU))
    kinds = [LinearFactory("bf16", CPU)]
    if "int8" in library.kinds:
        kinds.append(LinearFactory("int8", CPU, library))
    for products in kinds:
        assert (states(products) - expected).norm() < 0.08 * expected.norm(), products.kind


def test_a_head_of_another_target_is_refused_with_both_sizes(tmp_path: Path) -> None:
    folder = write_head(tmp_path, *block(TARGET, read=READ))
    with pytest.raises(IncompatiblePair, match=r"width 16; ours has width 24"):
        heads.inspect(folder, FakeShape(24, 40, 8, path=Path("ours")))
    with pytest.raises(IncompatiblePair, match=r"knows 40 tokens, ours 41"):
        heads.inspect(folder, FakeShape(16, 41, 8, path=Path("ours")))
    with pytest.raises(IncompatiblePair, match=r"reads layers -1, 2, 7; ours has 6"):
        heads.inspect(folder, FakeShape(16, 40, 6, path=Path("ours")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_size": "16"}, "block_size is '16'"),
        ({"block_size": 1}, "block_size is 1, so nothing would be drafted"),
        ({"num_attention_heads": 3}, "do not match 3 heads of size 8"),
        ({"num_hidden_layers": 3, "layer_types": None}, r"has no tensor layers\.2\."),
        ({"dflash_config": {"mask_token_id": 1}}, "target_layer_ids is missing"),
        ({"dflash_config": {"target_layer_ids": [1, 2]}}, "fc.weight has shape"),
        ({"dflash_config": {"target_layer_ids": [1, 2, 3]}}, "mask_token_id is missing"),
        ({"dflash_config": {"target_layer_ids": [1, 2, 3], "mask_token_id": 40}}, "of the 40"),
        ({"layer_types": ["sliding_attention"] * 2}, "sliding_window is missing"),
        ({"selector_rank": 8}, "selector_top_k is missing"),
        ({"conv_kernel_size": 2, "conv_group_size": 5}, "a divisor of 16"),
        ({"causal_head": True}, "ignores later rows"),
        ({"output_multiplier": 0.5}, "scaled embeddings, values or logits"),
        ({"model_type": "gemma4_text"}, "Gemma's layers"),
        ({"rope_scaling": {"rope_type": "spiral"}}, "spiral"),
    ],
)
def test_what_cannot_be_computed_is_refused_by_name(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    config, tensors = block(TARGET, read=READ)
    with pytest.raises(ModelError, match=message):
        heads.inspect(write_head(tmp_path, {**config, **change}, tensors), TARGET)


def test_other_markov_heads_and_absent_or_misshapen_tensors_are_named(tmp_path: Path) -> None:
    config, tensors = block(TARGET, rank=8)
    with pytest.raises(ModelError, match="a Markov head of type 'gated'"):
        gated = {**config, "markov_head_type": "gated"}
        heads.inspect(write_head(tmp_path / "gated", gated, tensors), TARGET)
    few = {name: tensor for name, tensor in tensors.items() if "markov_w2" not in name}
    with pytest.raises(ModelError, match=r"has no tensor markov_head\.markov_w2\.weight"):
        heads.inspect(write_head(tmp_path / "few", config, few), TARGET)
    odd = {**tensors, "layers.1.self_attn.q_norm.weight": torch.ones(7)}
    with pytest.raises(ModelError, match=r"layers\.1\.self_attn\.q_norm\.weight has shape"):
        heads.inspect(write_head(tmp_path / "odd", config, odd), TARGET)
    own = {**tensors, "d2t": torch.zeros(4, dtype=torch.long)}
    with pytest.raises(ModelError, match="its own vocabulary"):
        heads.inspect(write_head(tmp_path / "own", config, own), TARGET)
    tensors["fc.weight"][0, 0] = float("nan")
    with pytest.raises(ModelError, match=r"fc\.weight contains NaN"):
        load(write_head(tmp_path / "nan", config, tensors))


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    config, tensors = block(TARGET)
    folder = write_head(tmp_path, config, tensors)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(ModelError):
        load(folder)
    save_file(tensors, str(folder / "model.safetensors"))
    load(folder)


def test_a_pickle_is_read_with_the_weights_only_loader(tmp_path: Path) -> None:
    plan = heads.inspect(write_head(tmp_path, *block(TARGET), "pytorch_model.bin"), TARGET)
    assert plan.note is not None and "weights-only" in plan.note
    heads.load(plan, LinearFactory("fp32", CPU))
