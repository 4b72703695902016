"""EAGLE-3's loader and layer, against the paper's equations written out here."""

from __future__ import annotations

import ctypes as c
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.backends.layer_decoder import norm
from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import Memory
from engine.backends.torch.eager import EagerOperations
from engine.drafting import heads
from engine.drafting.heads.eagle3 import Eagle3Head
from engine.errors import IncompatiblePair, ModelError
from engine.kernels.native.library import Library
from engine.kernels.operands import Number, Rows
from engine.models.hidden_states import AuxLayer, entering
from tests.support.heads import FakeShape, eagle3, peagle, write_head

TARGET = FakeShape(hidden=32, vocabulary=90, layers=12, path=Path("ours"))
CPU = torch.device("cpu")
PLAIN = LinearFactory("fp32", CPU)
TEXT = (7, 1, 64, 3, 3, 20, 89, 2)


class Shown:
    """A target that is nothing but its hidden states and its embedding."""

    def __init__(self, hidden: int = TARGET.hidden, seed: int = 3) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn(TARGET.vocabulary, hidden, generator=generator)
        self.states = {
            AuxLayer(layer): torch.randn(len(TEXT), hidden, generator=generator)
            for layer in range(TARGET.layers + 1)
        }
        self.length = len(TEXT)

    def aux_hidden_states(self, aux_layer: AuxLayer, start: int, end: int) -> Tensor:
        return self.states[aux_layer][start:end]

    def embed(self, tokens: Any) -> Tensor:
        return self.table[list(tokens)]

    def logits(self, normed: Tensor) -> Tensor:
        raise NotImplementedError


def by_the_paper(
    config: dict[str, Any], tensors: dict[str, Tensor], g: Tensor, table: Tensor, tokens: list[int]
) -> tuple[Tensor, Tensor]:
    """States and logits of rows (token i + 1, g_i): sections 3.1 and 3.2 of arXiv 2503.01840.

    One row after the other, one head after the other, each with the plain formula. Layers above the first
    are a Llama's.
    """
    mid = "midlayer." if "midlayer.hidden_norm.weight" in tensors else "layers.0."
    inner = config.get("transformer_layer_config", config)
    heads, eps = inner["num_attention_heads"], inner["rms_norm_eps"]
    groups = heads // inner["num_key_value_heads"]
    d, theta = inner["head_dim"], inner.get("rope_theta", 10000.0)

    def norm(x: Tensor, name: str) -> Tensor:
        return x / (x.square().mean() + eps).sqrt() * tensors[f"{name}.weight"]

    def turn(x: Tensor, position: int) -> Tensor:
        result = x.clone()
        for i in range(d // 2):
            angle = torch.tensor(position * theta ** (-2 * i / d), dtype=torch.float64)
            c, s = angle.cos().float(), angle.sin().float()
            a, b = x[i], x[i + d // 2]
            result[i], result[i + d // 2] = a * c - b * s, b * c + a * s
        return result

    cache: dict[str, tuple[list[Tensor], list[Tensor]]] = {}

    def layer(name: str, x: Tensor, y: Tensor, position: int) -> Tensor:
        keys, values = cache.setdefault(name, ([], []))
        q, k, v = (tensors[f"{name}self_attn.{n}_proj.weight"] @ x for n in "qkv")
        keys.append(torch.cat([turn(part, position) for part in k.split(d)]))
        values.append(v)
        mixed = []
        for head, query in enumerate(q.split(d)):
            at = slice(head // groups * d, (head // groups + 1) * d)
            scores = torch.stack([turn(query, position) @ key[at] for key in keys]) / d**0.5
            weights = scores.softmax(0)
            mixed.append(sum(w * value[at] for w, value in zip(weights, values, strict=True)))
        y = y + tensors[f"{name}self_attn.o_proj.weight"] @ torch.cat(mixed)
        m = norm(y, f"{name}post_attention_layernorm")
        gate = tensors[f"{name}mlp.gate_proj.weight"] @ m
        up = tensors[f"{name}mlp.up_proj.weight"] @ m
        return y + tensors[f"{name}mlp.down_proj.weight"] @ (gate * torch.sigmoid(gate) * up)

    states, logits = [], []
    for position, (token, state) in enumerate(zip(tokens, g, strict=True)):
        normed = norm(state, f"{mid}hidden_norm")
        x = torch.cat([norm(table[token], f"{mid}input_layernorm"), normed])
        y = layer(mid, x, normed if config.get("norm_before_residual") else state, position)
        if "layers.1.input_layernorm.weight" in tensors:
            y = layer("layers.1.", norm(y, "layers.1.input_layernorm"), y, position)
        states.append(norm(y, "norm") if config.get("norm_output") else y)
        logits.append(tensors["lm_head.weight"] @ norm(y, "norm"))
    return torch.stack(states), torch.stack(logits)


def speculators(**more: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The same kind of head in speculators' form, with an embedding of its own."""
    plain, tensors = eagle3(TARGET)
    left_out = ("draft_vocab_size", "architectures", "max_position_embeddings")
    inner = {key: value for key, value in plain.items() if key not in left_out}
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": plain["draft_vocab_size"],
        "transformer_layer_config": {**inner, "rope_theta": 500000.0},
        "speculators_config": {"algorithm": "eagle3", "verifier": {"name_or_path": "ours"}},
        "eagle_aux_hidden_state_layer_ids": [1, 5, 12],
        "norm_before_residual": True,
        **more,
    }
    generator = torch.Generator().manual_seed(8)
    renamed = {name.replace("midlayer.", "layers.0."): one for name, one in tensors.items()}
    renamed["embed_tokens.weight"] = torch.randn(
        TARGET.vocabulary, TARGET.hidden, generator=generator
    )
    if more.get("norm_before_fc"):
        renamed["input_norm.weight"] = 1 + 0.2 * torch.randn(3 * TARGET.hidden, generator=generator)
    if more.get("fc_norm"):
        renamed |= {
            f"fc_norm.{number}.weight": 1 + 0.2 * torch.randn(TARGET.hidden, generator=generator)
            for number in range(3)
        }
    return config, renamed


FORMS = {
    "safeailab": eagle3(TARGET),
    "speculators": speculators(),
    "norms": speculators(norm_before_fc=True, norm_output=True, norm_before_residual=False),
    "eagle 3.1": speculators(fc_norm=True, norm_output=True),
    "p-eagle": peagle(TARGET),
}


def load(folder: Path, products: LinearFactory = PLAIN, target: FakeShape = TARGET) -> Eagle3Head:
    head = heads.load(heads.inspect(folder, target), products)
    assert isinstance(head, Eagle3Head)
    return head


def read(head: Eagle3Head, target: Shown, memory: Memory, start: int, end: int) -> Tensor:
    """What the layer puts out where the target has read TEXT[start:end], in torch."""
    behind = (c.c_int64 * (end - start))(*TEXT[start:end])
    rows = Rows(Number(end - start), Number(start))
    return head.read(EagerOperations(target), memory, behind, rows)


def read_all(head: Eagle3Head, target: Shown) -> Tensor:
    memory = head.new_memory(EagerOperations(target))
    memory.reserve(len(TEXT))
    return read(head, target, memory, 0, len(TEXT))


@pytest.mark.parametrize("pickle", ["pytorch_model.bin", ""], ids=["pickle", "safetensors"])
@pytest.mark.parametrize("form", FORMS)
def test_states_and_logits_are_those_of_the_papers_equations(
    tmp_path: Path, form: str, pickle: str
) -> None:
    """Five rows from the target's states, three from the head's own, in calls of several sizes."""
    config, tensors = FORMS[form]
    target = Shown()
    head = load(write_head(tmp_path, config, tensors, pickle))
    layers = config.get("eagle_aux_hidden_state_layer_ids", (2, 6, 9))
    assert head.aux_layers == entering(*layers)

    def fused(*states: Tensor) -> Tensor:
        def normed(x: Tensor, name: str) -> Tensor:
            return x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt() * tensors[name]

        if config.get("fc_norm"):
            states = tuple(normed(x, f"fc_norm.{at}.weight") for at, x in enumerate(states))
        joint = torch.cat(states, dim=1)
        if config.get("norm_before_fc"):
            joint = normed(joint, "input_norm.weight")
        return joint @ tensors["fc.weight"].T

    g = fused(*(target.states[aux_layer][:5] for aux_layer in head.aux_layers))
    table = tensors.get("embed_tokens.weight", target.table)
    tokens = list(TEXT)
    for row in range(5, 8):  # the paper's a_i: what stands where the target has not read
        if "mask_hidden" in tensors:
            tokens[row] = config["mask_token_id"]
            g = torch.cat([g, fused(*tensors["mask_hidden"].view(1, -1).chunk(3, dim=1))])
            continue
        states, _ = by_the_paper(config, tensors, g[:row], table, tokens[:row])
        g = torch.cat([g, states[-1:]])
    states, logits = by_the_paper(config, tensors, g, table, tokens)

    memory = head.new_memory(EagerOperations(target))
    memory.reserve(len(tokens))
    found = [read(head, target, memory, start, end) for start, end in ((0, 3), (3, 4), (4, 5))]
    chain = (c.c_int64 * 16)(*TEXT[4:])
    steps = head.draft(EagerOperations(target), memory, Number(5), chain, found[-1])
    drafted = torch.cat([next(steps) for _ in range(4)])
    assert torch.allclose(torch.cat(found), states[:5], atol=1e-4)
    assert torch.allclose(drafted, logits[4:], atol=1e-4)


def test_draft_tokens_are_the_targets_by_their_offsets(tmp_path: Path) -> None:
    config, tensors = eagle3(TARGET)
    head = load(write_head(tmp_path, config, tensors))
    marked = tensors["t2d"].nonzero()[:, 0]
    logits = torch.arange(float(len(marked)))[None]
    wide = head.on_target(logits)
    assert wide.shape == (1, TARGET.vocabulary)
    assert torch.equal(wide[0, marked], logits[0])
    assert bool((wide[0, ~tensors["t2d"]] == float("-inf")).all())
    assert head.targets is not None and torch.equal(head.targets, marked)


def test_a_head_with_the_targets_vocabulary_needs_no_offsets(tmp_path: Path) -> None:
    config, tensors = eagle3(TARGET, draft_vocabulary=TARGET.vocabulary)
    del tensors["d2t"], tensors["t2d"]
    head = load(write_head(tmp_path, config, tensors))
    logits = torch.randn(1, TARGET.vocabulary)
    assert head.on_target(logits) is logits and head.targets is None


def test_quantised_heads_are_near(tmp_path: Path, library: Library) -> None:
    config, tensors = eagle3(TARGET)
    folder, target = write_head(tmp_path, config, tensors), Shown()
    kinds = [PLAIN, LinearFactory("bf16", CPU)]
    if "int8" in library.kinds:
        kinds.append(LinearFactory("int8", CPU, library))
    results = []
    for products in kinds:
        head = load(folder, products)
        results.append(
            head.output(norm(EagerOperations(target), head.norm, read_all(head, target)))
        )
    for result in results[1:]:
        assert (result - results[0]).norm() < 0.05 * results[0].norm()


def test_queries_and_keys_may_be_normed(tmp_path: Path) -> None:
    """As in a Qwen3 layer: a head that is scaled beforehand comes out the same."""
    config, tensors = eagle3(TARGET)
    tensors |= {f"midlayer.self_attn.{name}_norm.weight": torch.ones(8) for name in "qk"}
    target = Shown()
    larger = dict(tensors)
    for name in "qk":
        larger[f"midlayer.self_attn.{name}_proj.weight"] = (
            5 * tensors[f"midlayer.self_attn.{name}_proj.weight"]
        )
    states = []
    for number, given in enumerate((tensors, larger)):
        head = load(write_head(tmp_path / str(number), {**config, "rms_norm_eps": 1e-12}, given))
        states.append(read_all(head, target))
    assert torch.allclose(*states, atol=1e-4)


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        ({}, (2, 6, 9)),
        ({"eagle_aux_hidden_state_layer_ids": [0, 4, 12]}, (0, 4, 12)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 5, 8]}}, (2, 6, 9)),
    ],
)
def test_layers_are_numbered_as_vllm_does_and_sglang(
    tmp_path: Path, more: dict[str, Any], layers: tuple[int, ...]
) -> None:
    config, tensors = eagle3(TARGET)
    plan = heads.inspect(write_head(tmp_path, {**config, **more}, tensors), TARGET)
    assert plan.aux_layers == entering(*layers)


def test_a_plan_tells_what_the_head_keeps(tmp_path: Path) -> None:
    plan = heads.inspect(write_head(tmp_path, *eagle3(TARGET), "pytorch_model.bin"), TARGET)
    (own,) = plan.attentions
    assert (plan.kind, own.kv_heads, own.head_dim) == ("eagle3", 2, 8)
    assert plan.note is not None and "weights-only" in plan.note


@pytest.mark.parametrize(
    ("config", "known"),
    [
        ({"draft_vocab_size": 5, "model_type": "llama"}, "eagle3"),
        ({"speculators_model_type": "eagle3"}, "eagle3"),
        ({"speculators_model_type": "peagle"}, "eagle3"),
        ({"speculators_model_type": "dflash", "draft_vocab_size": 5}, None),
        ({"dflash_config": {}, "draft_vocab_size": 5}, None),
        ({"model_type": "llama", "vocab_size": 5}, None),
    ],
)
def test_a_folder_is_known_by_its_configuration(config: dict[str, Any], known: str | None) -> None:
    assert (heads.kind_of(config) == "eagle3") == (known == "eagle3")


def test_a_head_of_another_target_is_refused_with_both_sizes(tmp_path: Path) -> None:
    folder = write_head(tmp_path, *eagle3(TARGET))
    with pytest.raises(IncompatiblePair, match=r"of width 32; ours has width 64"):
        heads.inspect(folder, replace(TARGET, hidden=64))
    with pytest.raises(IncompatiblePair, match=r"knows 90 tokens, ours 91"):
        heads.inspect(folder, replace(TARGET, vocabulary=91))
    with pytest.raises(IncompatiblePair, match=r"inputs of layers 2, 1, -1; ours has 2 layers"):
        heads.inspect(folder, replace(TARGET, layers=2))


def test_tensors_that_are_absent_or_misshapen_are_named(tmp_path: Path) -> None:
    config, tensors = eagle3(TARGET)

    def inspected(name: str, **changed: Tensor | None) -> None:
        given = {**tensors, **{key.replace("__", "."): one for key, one in changed.items()}}
        kept = {key: one for key, one in given.items() if one is not None}
        heads.inspect(write_head(tmp_path / name, config, kept), TARGET)

    with pytest.raises(ModelError, match=r"has no tensor d2t"):
        inspected("d2t", d2t=None)
    with pytest.raises(ModelError, match=r"has no tensor midlayer\.mlp\.up_proj\.weight"):
        inspected("up", midlayer__mlp__up_proj__weight=None)
    with pytest.raises(ModelError, match=r"q_proj\.weight has shape \(32, 32\).*\(32, 64\)"):
        inspected("narrow", midlayer__self_attn__q_proj__weight=torch.zeros(32, 32))
    with pytest.raises(ModelError, match=r"not match 4 heads of size 8"):
        inspected("odd", midlayer__self_attn__q_proj__weight=torch.zeros(36, 64))
    with pytest.raises(ModelError, match=r"fc\.weight has 95 inputs"):
        inspected("fc", fc__weight=torch.zeros(32, 95))
    with pytest.raises(ModelError, match=r"has no tensor embed_tokens\.weight"):
        wide = FakeShape(hidden=16, vocabulary=90, layers=12)
        inspected_wide = {**tensors, "fc.weight": torch.zeros(32, 48)}
        heads.inspect(write_head(tmp_path / "wide", config, inspected_wide), wide)


def test_relatives_that_compute_something_else_are_refused(tmp_path: Path) -> None:
    config, tensors = speculators()
    both = {**config, "fc_norm": True, "norm_before_fc": True}
    with pytest.raises(ModelError, match="fc_norm and norm_before_fc"):
        heads.inspect(write_head(tmp_path / "fc", both, tensors), TARGET)
    with pytest.raises(ModelError, match=r"has no tensor fc_norm\.0\.weight"):
        heads.inspect(write_head(tmp_path / "one", {**config, "fc_norm": True}, tensors), TARGET)
    with pytest.raises(ModelError, match="mask_token_id is missing"):
        no_token = {**tensors, "mask_hidden": torch.zeros(1, 96)}
        heads.inspect(write_head(tmp_path / "mask", config, no_token), TARGET)
    with pytest.raises(ModelError, match="a single hidden state"):
        alone = {**config, "eagle_config": {"use_aux_hidden_state": False}}
        heads.inspect(write_head(tmp_path / "alone", alone, tensors), TARGET)


@pytest.mark.parametrize("wrong", [-1, 90, "twice"])
def test_offsets_that_lead_nowhere_are_refused(tmp_path: Path, wrong: int | str) -> None:
    config, tensors = eagle3(TARGET)
    targets = tensors["d2t"] + torch.arange(len(tensors["d2t"]))
    targets[4] = targets[5] if isinstance(wrong, str) else wrong
    tensors["d2t"] = targets - torch.arange(len(targets))
    folder = write_head(tmp_path, config, tensors)
    with pytest.raises(ModelError, match="d2t should map"):
        load(folder)


def test_speculators_leave_out_what_is_transformers_default(tmp_path: Path) -> None:
    """A head of 32 attention heads may not say so."""
    wide = FakeShape(hidden=64, vocabulary=90, layers=12)
    config, tensors = eagle3(wide)
    for name in ("q_proj", "o_proj"):
        weight = tensors[f"midlayer.self_attn.{name}.weight"]
        tensors[f"midlayer.self_attn.{name}.weight"] = (
            weight.repeat(8, 1) if name == "q_proj" else weight.repeat(1, 8)
        )
    config["transformer_layer_config"] = {"vocab_size": 90, "model_type": "llama"}
    for key in ("num_attention_heads", "head_dim", "rms_norm_eps"):
        del config[key]
    plan = heads.inspect(write_head(tmp_path, config, tensors), wide)
    architecture = plan.shape.architecture
    attention = architecture.layers[0].attention
    assert (attention.heads, attention.head_dim, attention.kv_heads) == (32, 8, 2)
    assert architecture.epsilon == 1e-6
    assert json.loads((tmp_path / "config.json").read_text())["draft_vocab_size"] == 67
