"""A small head of every kind for any target, made where a test needs it.

``WRITERS`` must name every kind of the registry: tests that go through all proposers load one head of
each, so that a new kind cannot go untested.
"""

from __future__ import annotations

import atexit
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.backends import executors
from engine.backends.linear_factory import LinearFactory
from engine.backends.torch.eager import EagerOperations
from engine.decoding.target import Target
from engine.drafting import heads, proposers
from engine.drafting.heads.base import Head, HeadPlan, TargetShape
from engine.drafting.heads.block import BlockDraft, BlockHead
from engine.drafting.heads.mtp import LayerNames, MtpShape, expected_tensors
from engine.drafting.heads.stateless import StatelessHead
from engine.drafting.heads.stored import Stored
from engine.kernels.operands import Tokens
from engine.machine import devices
from engine.models.architecture import Architecture, Attention, GatedMlp, LayerSpec, Rope
from engine.models.base import HiddenStateModel
from engine.models.checkpoints.checkpoint import Checkpoint, inspect
from engine.models.hidden_states import NORMED, Backbone
from tests.support.fakes import HEAD_DIM, KV_HEADS
from tests.support.loading import load_model
from tests.support.places import PIP

EAGER = EagerOperations(cast(Backbone, None))
"""Torch's executor without a target, for heads that need nothing of it but a hidden state."""
PICKLE = "medusa_lm_head.pt"
IN_FOLDERS = tuple(
    name for name in proposers.names() if not proposers.needs_of(name) & heads.INSIDE.keys()
)
"""The proposers that do not need a target whose checkpoint brings what drafts."""
_RIDGE, _SHARPNESS = 1e-2, 20.0


@dataclass(frozen=True, slots=True)
class FakeShape:
    """A target without files."""

    hidden: int
    vocabulary: int
    layers: int
    context: int = 64
    path: Path = Path("fake")


def write_heads(root: Path, target: Path) -> tuple[Path, ...]:
    """A random head of every kind for the model in ``target``, each in a folder of ``root``."""
    shape = inspect(target)
    return tuple(WRITERS[kind](root / kind, shape) for kind in heads.kinds())


def random_heads(target: TargetShape) -> dict[str, Head]:
    """A loaded one of every kind."""
    with TemporaryDirectory() as root:
        plans = [
            heads.inspect(WRITERS[kind](Path(root) / kind, target), target)
            for kind in heads.kinds()
        ]
        plans.append(mtp_plan(target))
        return {
            plan.kind: heads.load(plan, LinearFactory.choose("fp32", devices.choose()))
            for plan in plans
        }


def write_head(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], pickle: str = ""
) -> Path:
    """A head's folder: config.json, and the tensors as safetensors or under the pickle's name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(config)))
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    if pickle:
        torch.save(whole, folder / pickle)
    else:
        save_file(whole, folder / "model.safetensors")
    return folder


@contextmanager
def in_torch() -> Iterator[None]:
    """Proposers that are made meanwhile compute their heads in torch, also where these are compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors, "TracedOperations", EagerOperations)
        yield


def logits_behind(head: StatelessHead, normed: Tensor, chain: Sequence[int]) -> Tensor:
    """(steps, vocabulary): the logits of a step behind each token of ``chain``, in torch.

    ``normed (hidden,)`` is the target's hidden state of the token before.
    """
    held = Tokens(len(chain))
    held[:] = list(chain)
    steps = head.draft(EAGER, held, normed[None])
    return torch.cat([next(steps) for _ in chain])


def block_pass(head: BlockHead, target: Backbone, pending: int) -> BlockDraft:
    """A draft in torch behind all that ``target`` has read, with its states and logits."""
    drafts = BlockDraft(head, EagerOperations(target))
    drafts.begin(0, target.length, pending, head.shape.depth).logits(0)
    return drafts


def noise(generator: torch.Generator, *shape: int) -> Tensor:
    """A weight that neither shrinks nor grows what it multiplies."""
    drawn = torch.randn(shape, generator=generator)
    return drawn.div_(shape[-1] ** 0.5)


def medusa(
    target: TargetShape, *, count: int = 3, layers: int = 1, seed: int = 0
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """config.json and random tensors in FasterDecoding's layout."""
    generator, width = torch.Generator().manual_seed(seed), target.hidden
    tensors = {}
    for head in range(count):
        for layer in range(layers):
            tensors[f"{head}.{layer}.linear.weight"] = noise(generator, width, width)
            tensors[f"{head}.{layer}.linear.bias"] = noise(generator, width)
        tensors[f"{head}.{layers}.weight"] = noise(generator, target.vocabulary, width)
    config = {
        "base_model_name_or_path": target.path.name,
        "medusa_num_heads": count,
        "medusa_num_layers": layers,
    }
    return config, tensors


def write_medusa(folder: Path, target: TargetShape) -> Path:
    """As it is published."""
    return write_head(folder, *medusa(target), PICKLE)


def mlp(
    target: TargetShape, *, steps: int = 3, width: int = 16, tied: bool = True, seed: int = 0
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """config.json and random tensors in IBM's layout; with ``tied`` those of later steps are absent."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for step in range(1 if tied else steps):
        tensors[f"speculator.emb.{step}.weight"] = noise(generator, target.vocabulary, width)
        tensors[f"speculator.head.{step}.weight"] = noise(generator, target.vocabulary, width)
        tensors |= _norm(generator, f"speculator.ln.{step}", width)
    for step in range(min(steps, 2) if tied else steps):
        inputs = width if step else target.hidden
        tensors[f"speculator.proj.{step}.weight"] = noise(generator, width, inputs)
    config = {
        "architectures": ["MLPSpeculatorPreTrainedModel"],
        "model_type": "mlp_speculator",
        "emb_dim": target.hidden,
        "inner_dim": width,
        "n_predict": steps,
        "n_candidates": steps,
        "top_k_tokens_per_head": [1] * steps,
        "tie_weights": tied,
        "scale_input": tied,
        "vocab_size": target.vocabulary,
    }
    return config, tensors


def lstm(
    target: TargetShape, *, steps: int = 3, width: int = 16, tied: bool = True, seed: int = 0
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """config.json and random tensors in Arctic's layout; ``tied``: the gates share their embedding.

    The files on the hub hold the shared embedding under all four names, so these do.
    """
    generator = torch.Generator().manual_seed(seed)
    shared = noise(generator, target.vocabulary, width)
    tensors = {"head.0.weight": noise(generator, target.vocabulary, width)}
    for gate in ("forget", "input", "output", "cell"):
        own = shared.clone() if tied else noise(generator, target.vocabulary, width)
        tensors[f"{gate}_emb.0.weight"] = own
        tensors[f"{gate}_proj.0.weight"] = noise(generator, width, target.hidden)
        tensors[f"{gate}_proj.1.weight"] = noise(generator, width, width)
    tensors |= _norm(generator, "cell_ln.0", width) | _norm(generator, "state_ln.0", width)
    tensors |= {f"head.{step}.weight": tensors["head.0.weight"].clone() for step in range(steps)}
    config = {
        "architectures": ["ArcticLSTMSpeculatorPreTrainedModel"],
        "model_type": "mlp_speculator",
        "method": "sum_lstm",
        "input_hidden_dim": target.hidden,
        "inner_dim": str(width),
        "proj_dim": str(width),
        "emb_dim": str(width),
        "n_predict": steps,
        "n_candidates": steps,
        "tie_weights": True,
        "tie_lstm_embs": tied,
        "scale_input": tied,
        "vocab_size": target.vocabulary,
    }
    return config, tensors


def _norm(generator: torch.Generator, name: str, width: int) -> dict[str, Tensor]:
    """Scales around 1, shifts around 0."""
    scale, shift = torch.randn((2, width), generator=generator).mul_(0.1)
    return {f"{name}.weight": 1 + scale, f"{name}.bias": shift}


def write_mlp(folder: Path, target: TargetShape) -> Path:
    """As it is published."""
    return write_head(folder, *mlp(target))


def write_lstm(folder: Path, target: TargetShape) -> Path:
    """As it is published."""
    return write_head(folder, *lstm(target))


def fit_medusa(folder: Path, target: Path, tokens: int = 400) -> Path:
    """Medusa heads that are right now and then: least squares on text of the target's own."""
    config, tensors = medusa(inspect(target))
    text, states = _own_text(target, tokens)
    gram = states.T @ states + _RIDGE * len(states) * torch.eye(states.shape[1])
    for head in range(config["medusa_num_heads"]):
        further = text[head + 2 :]
        onto = torch.zeros_like(tensors[f"{head}.1.weight"])
        onto.index_add_(0, torch.tensor(further), states[: len(further)])
        tensors[f"{head}.1.weight"] = _SHARPNESS * torch.linalg.solve(gram, onto.T).T
        tensors[f"{head}.0.linear.weight"].zero_()  # SiLU(0) = 0: the block passes what it is given
        tensors[f"{head}.0.linear.bias"].zero_()
    return write_head(folder, config, tensors, PICKLE)


def _own_text(folder: Path, count: int) -> tuple[list[int], Tensor]:
    """Tokens that the model drew, and its normed hidden states (tokens - 1, hidden)."""
    model = load_model(folder, quantization="fp32")
    assert isinstance(model, HiddenStateModel)
    target = Target(model, [NORMED])
    generator = torch.Generator().manual_seed(0)
    text = [0]
    for _ in range(min(count, target.context - 1)):
        logits = model.forward(text[-1:], target.state, last=1)
        target.keys.append(text[-1])
        p = torch.softmax(logits[0], dim=-1)
        text.append(int(torch.multinomial(p, 1, generator=generator)))
    return text, target.aux_hidden_states(NORMED, 0, target.length)


EAGLE3 = {"heads": 4, "kv_heads": 2, "head_dim": 8, "intermediate": 24}


def eagle3(
    target: TargetShape,
    *,
    draft_vocabulary: int | None = None,
    sizes: Mapping[str, int] = EAGLE3,
    seed: int = 0,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """config.json and random tensors in SafeAILab's layout; the embedding is the target's.

    ``draft_vocabulary``: 3 of 4 of the target's tokens, unless told.
    """
    generator, width, layer = torch.Generator().manual_seed(seed), target.hidden, "midlayer."
    count = draft_vocabulary or 3 * target.vocabulary // 4
    queries, keys = (sizes[heads] * sizes["head_dim"] for heads in ("heads", "kv_heads"))
    chosen = torch.randperm(target.vocabulary, generator=generator)[:count].sort().values
    marked = torch.zeros(target.vocabulary, dtype=torch.bool)
    marked[chosen] = True
    shapes = {
        "fc": (width, 3 * width),
        f"{layer}self_attn.q_proj": (queries, 2 * width),
        f"{layer}self_attn.k_proj": (keys, 2 * width),
        f"{layer}self_attn.v_proj": (keys, 2 * width),
        f"{layer}self_attn.o_proj": (width, queries),
        f"{layer}mlp.gate_proj": (sizes["intermediate"], width),
        f"{layer}mlp.up_proj": (sizes["intermediate"], width),
        f"{layer}mlp.down_proj": (width, sizes["intermediate"]),
        "lm_head": (count, width),
    }
    tensors = {f"{name}.weight": noise(generator, *size) for name, size in shapes.items()}
    tensors["lm_head.weight"] *= 3  # its favourite should change from token to token
    norms = ("hidden_norm", "input_layernorm", "post_attention_layernorm")
    for name in (*(layer + norm for norm in norms), "norm"):
        tensors[f"{name}.weight"] = 1 + 0.3 * torch.randn(width, generator=generator)
    tensors |= {"d2t": chosen - torch.arange(count), "t2d": marked}
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": sizes["intermediate"],
        "num_hidden_layers": 1,
        "num_attention_heads": sizes["heads"],
        "num_key_value_heads": sizes["kv_heads"],
        "head_dim": sizes["head_dim"],
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 2048,
        "vocab_size": target.vocabulary,
        "draft_vocab_size": count,
    }
    if target.layers < 4:  # there is no layer L - 3 above the second
        config["eagle_aux_hidden_state_layer_ids"] = [0, target.layers // 2, target.layers]
    return config, tensors


def peagle(
    target: TargetShape, *, sizes: Mapping[str, int] = EAGLE3, seed: int = 0
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """config.json and random tensors of a P-EAGLE of two layers in vLLM's layout."""
    config, tensors = eagle3(target, sizes=sizes, seed=seed)
    generator, width = torch.Generator().manual_seed(seed + 1), target.hidden
    tensors = {name.replace("midlayer.", "layers.0."): one for name, one in tensors.items()}
    for name, weight in list(tensors.items()):
        if name.startswith("layers.0.") and "hidden_norm" not in name:
            halved = weight[:, :width] if weight.shape[-1] == 2 * width else weight
            tensors[name.replace("layers.0.", "layers.1.")] = halved.flip(0)
    tensors["mask_hidden"] = torch.randn(1, 1, 3 * width, generator=generator)
    tensors["embed_tokens.weight"] = torch.randn(target.vocabulary, width, generator=generator)
    config |= {"mask_token_id": target.vocabulary - 1, "num_hidden_layers": 2, "fc_norm": True}
    for number in range(3):
        tensors[f"fc_norm.{number}.weight"] = 1 + 0.2 * torch.randn(width, generator=generator)
    return config, tensors


def write_eagle3(folder: Path, target: TargetShape) -> Path:
    """As SafeAILab publishes it, but for the file's format."""
    return write_head(folder, *eagle3(target))


BLOCK = {"heads": 4, "kv_heads": 2, "head_dim": 8, "intermediate": 24}


def block(
    target: TargetShape,
    *,
    layers: int = 2,
    size: int = 5,
    rank: int = 0,
    read: Sequence[int] = (0, 1),
    sizes: Mapping[str, int] = BLOCK,
    seed: int = 0,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """config.json and random tensors in DFlash's layout; with a ``rank``, in DSpark's."""
    generator, width = torch.Generator().manual_seed(seed), target.hidden
    tensors = {"fc.weight": noise(generator, width, len(read) * width)}
    for layer in range(layers):
        tensors |= _block_layer(generator, f"layers.{layer}.", width, sizes)
    for name in ("hidden_norm", "norm"):
        tensors[f"{name}.weight"] = 1 + 0.3 * torch.randn(width, generator=generator)
    own = {"target_layer_ids": list(read), "mask_token_id": target.vocabulary - 1}
    config = {
        "model_type": "qwen3",
        "attention_bias": False,
        "block_size": size,
        "head_dim": sizes["head_dim"],
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": sizes["intermediate"],
        "layer_types": ["full_attention"] * layers,
        "max_position_embeddings": target.context,
        "num_attention_heads": sizes["heads"],
        "num_hidden_layers": layers,
        "num_key_value_heads": sizes["kv_heads"],
        "num_target_layers": target.layers,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "vocab_size": target.vocabulary,
    }
    if not rank:
        return {**config, "architectures": ["DFlashDraftModel"], "dflash_config": own}, tensors
    for name in ("markov_w1", "markov_w2"):
        tensors[f"markov_head.{name}.weight"] = noise(generator, target.vocabulary, rank) * 2
    tensors["confidence_head.proj.weight"] = noise(generator, 1, width + rank)
    tensors["confidence_head.proj.bias"] = torch.zeros(1)
    markov = {"markov_rank": rank, "markov_head_type": "vanilla", "enable_confidence_head": True}
    config |= {"architectures": ["Qwen3DSparkModel"], "confidence_head_with_markov": True}
    return {**config, **own, **markov}, tensors


def _block_layer(
    generator: torch.Generator, prefix: str, width: int, sizes: Mapping[str, int]
) -> dict[str, Tensor]:
    queries, keys = (sizes[heads] * sizes["head_dim"] for heads in ("heads", "kv_heads"))
    shapes = {
        "self_attn.q_proj": (queries, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (width, queries),
        "mlp.gate_proj": (sizes["intermediate"], width),
        "mlp.up_proj": (sizes["intermediate"], width),
        "mlp.down_proj": (width, sizes["intermediate"]),
    }
    tensors = {f"{prefix}{name}.weight": noise(generator, *size) for name, size in shapes.items()}
    norms = {"input_layernorm": width, "post_attention_layernorm": width}
    norms |= {"self_attn.q_norm": sizes["head_dim"], "self_attn.k_norm": sizes["head_dim"]}
    for name, size in norms.items():
        tensors[f"{prefix}{name}.weight"] = 1 + 0.3 * torch.randn(size, generator=generator)
    return tensors


CONVOLVED = {
    "conv_kernel_size": 3, "conv_group_size": 16, "selector_rank": 16, "selector_top_k": 6,
}  # fmt: skip


def dflash2(target: TargetShape, **changes: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """config.json and random tensors in DFlash2's layout, its layers sliding as the published ones do."""
    config, tensors = block(target, **changes)
    generator, width = torch.Generator().manual_seed(9), target.hidden
    taps, rank = CONVOLVED["conv_kernel_size"], CONVOLVED["selector_rank"]
    for layer in range(config["num_hidden_layers"]):
        for name in ("attention_conv", "mlp_conv"):
            prefix = f"layers.{layer}.{name}."
            shape = 2 * taps * width // CONVOLVED["conv_group_size"], width
            tensors[f"{prefix}base_kernel"] = noise(generator, 2, taps, width) * width**0.5 / 2
            tensors[f"{prefix}kernel_projection.weight"] = noise(generator, *shape)
    for name in ("predecessor", "successor"):
        table = torch.randn(target.vocabulary, rank, generator=generator)
        tensors[f"candidate_selector.{name}_codebook"] = table
    tensors["candidate_selector.hidden_projection.weight"] = noise(generator, rank, width)
    config["dflash_config"] |= CONVOLVED
    layers = ["sliding_attention"] * config["num_hidden_layers"]
    config |= {"layer_types": layers, "sliding_window": 6, "is_causal": False}
    return config | {"architectures": ["DFlash2DraftModel"]}, tensors


def write_block(folder: Path, target: TargetShape) -> Path:
    """DSpark's, which does all that DFlash's does and more."""
    return write_head(folder, *block(target, rank=8))


ASSISTANT = {"width": 32, "intermediate": 48, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM}


def assistant(target: TargetShape, *, seed: int = 0) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """config.json and random tensors in transformers' layout: two layers on a target's global ones."""
    generator, width = torch.Generator().manual_seed(seed), ASSISTANT["width"]
    kv_heads, head_dim = ASSISTANT["kv_heads"], ASSISTANT["head_dim"]
    if isinstance(target, Checkpoint):
        kv_heads, head_dim = target.kv_heads, target.head_dim
    queries, intermediate = 2 * kv_heads * head_dim, ASSISTANT["intermediate"]
    shapes = {
        "model.embed_tokens": (target.vocabulary, width),
        "pre_projection": (width, 2 * target.hidden),
        "post_projection": (target.hidden, width),
    }
    norms = {"model.norm": width}
    for layer in ("model.layers.0.", "model.layers.1."):
        shapes |= {
            f"{layer}self_attn.q_proj": (queries, width),
            f"{layer}self_attn.o_proj": (width, queries),
            f"{layer}mlp.gate_proj": (intermediate, width),
            f"{layer}mlp.up_proj": (intermediate, width),
            f"{layer}mlp.down_proj": (width, intermediate),
        }
        norms[f"{layer}self_attn.q_norm"] = head_dim
        for name in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            norms[f"{layer}{name}_layernorm"] = width
    tensors = {f"{name}.weight": noise(generator, *size) for name, size in shapes.items()}
    for name, size in norms.items():
        tensors[f"{name}.weight"] = 1 + 0.3 * torch.randn(size, generator=generator)
    tensors |= {f"model.layers.{layer}.layer_scalar": torch.tensor([0.8]) for layer in (0, 1)}
    text = {
        "model_type": "gemma4_text",
        "head_dim": head_dim,
        "hidden_size": width,
        "hidden_size_per_layer_input": 0,
        "intermediate_size": intermediate,
        "layer_types": ["full_attention"] * 2,
        "max_position_embeddings": target.context,
        "num_attention_heads": 2 * kv_heads,
        "num_hidden_layers": 2,
        "num_key_value_heads": kv_heads,
        "num_kv_shared_layers": 2,
        "per_layer_config": {},
        "vocab_size": target.vocabulary,
    }
    config = {
        "architectures": ["Gemma4AssistantForCausalLM"],
        "backbone_hidden_size": target.hidden,
        "model_type": "gemma4_assistant",
        "text_config": text,
    }
    return config, tensors


def write_assistant(folder: Path, target: TargetShape) -> Path:
    """As it is published."""
    return write_head(folder, *assistant(target))


@cache
def heads_of_pip() -> tuple[Path, ...]:
    """A head of every kind for Pip: its own, or a random one if it has none of a kind."""
    folder, target = Path(mkdtemp()), inspect(PIP / "target")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return tuple(
        PIP / kind if (PIP / kind).is_dir() else WRITERS[kind](folder / kind, target)
        for kind in heads.kinds()
    )


WRITERS: Mapping[str, Callable[[Path, TargetShape], Path]] = {
    "medusa": write_medusa,
    "eagle3": write_eagle3,
    "block": write_block,
    "mlp": write_mlp,
    "lstm": write_lstm,
    "assistant": write_assistant,
}


def mtp_plan(target: TargetShape, *, seed: int = 0) -> HeadPlan:
    """A random layer for multi-token prediction, as a checkpoint of ``target``'s sizes would bring."""
    generator = torch.Generator().manual_seed(seed)
    rope = Rope(tuple(0.5**pair for pair in range(4)))
    layer = LayerSpec(
        Attention(2, 1, 16, 0.25, rope, qk_norm=True, output_gate=True), GatedMlp(32, "silu")
    )
    a = Architecture((layer,), target.vocabulary, target.hidden, 1e-6, False, centred_norms=True)
    names = (LayerNames("layers.0.", "fc", "embedding_norm", "hidden_norm", "norm"),)
    tensors = {name: noise(generator, *shape) for name, shape in expected_tensors(a, names).items()}
    stored = Stored(target.path, {}, {}, fetch=tensors.__getitem__)
    shape = MtpShape(a, (), names, tensors.__getitem__)
    return HeadPlan("mtp", stored, (NORMED,), 0, shape, a.attentions)


MTP_PARTS: Mapping[str, tuple[str, ...]] = {
    "mtp.": ("fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"),
    "model.layers.": ("eh_proj", "enorm", "hnorm", "shared_head.norm"),
    "model.mtp_layers.": ("input_proj", "token_layernorm", "hidden_layernorm", "final_layernorm"),
}
"""The parts of a layer for multi-token prediction, as Qwen, GLM and MiMo name them."""


def mtp_prefixes(root: str, layers: int, index: int) -> tuple[str, str]:
    """The beginnings of such a layer's names behind so many ``layers``: any layer's parts, its own."""
    number = layers + index if root == "model.layers." else index
    layer = f"{root}layers.{number}." if root == "mtp." else f"{root}{number}."
    return layer, root if root == "mtp." else layer


def write_mtp(folder: Path, *, root: str = "mtp.", count: int = 1, seed: int = 0) -> None:
    """Adds random layers for multi-token prediction to the checkpoint in ``folder``."""
    file, generator = folder / "model.safetensors", torch.Generator().manual_seed(seed)
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(file)
    text = config.get("text_config", config)
    stem = "model." if text is config else "model.language_model."
    attends = [name for name in tensors if name.endswith("self_attn.q_proj.weight")]
    last = max(int(name.removeprefix(stem).split(".")[1]) for name in attends)
    hidden = tensors[f"{stem}norm.weight"]
    joined = torch.empty(len(hidden), 2 * len(hidden))
    made: dict[str, Tensor] = {}
    for index in range(count):
        layer, own = mtp_prefixes(root, text["num_hidden_layers"], index)
        fc, *norms = MTP_PARTS[root]
        made |= {f"{own}{fc}.weight": joined, **{f"{own}{name}.weight": hidden for name in norms}}
        like = f"{stem}layers.{last}."
        made |= {
            layer + name.removeprefix(like): each
            for name, each in tensors.items()
            if name.startswith(like)
        }
    for name, tensor in made.items():
        weight = noise(generator, *tensor.shape)
        made[name] = weight if tensor.dim() > 1 else 0.3 * weight * len(hidden) ** 0.5
    save_file(tensors | made, file, metadata={"format": "pt"})
    text["num_nextn_predict_layers"] = count
    (folder / "config.json").write_text(json.dumps(config))
