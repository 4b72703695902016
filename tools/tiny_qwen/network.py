"""The tiny Qwen3.5: transformers' own Qwen3.5, and the MTP layer that transformers leaves out.

What the MTP layer reads and hands on is as in vLLM (`qwen3_5_mtp.py`) and llama.cpp (`qwen35.cpp`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, Qwen3_5ForCausalLM, Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5DecoderLayer, Qwen3_5RMSNorm

CONTEXT = 1024


def config_of(vocabulary: int, bos: int, end: int, pad: int) -> Qwen3_5TextConfig:
    """Return a model in which everything occurs that Qwen3.5 has: value heads that share keys, too."""
    build: Any = Qwen3_5TextConfig
    config: Qwen3_5TextConfig = build(
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,  # three gated delta nets, one full attention
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        linear_num_key_heads=2,
        linear_num_value_heads=16,  # the compiled step takes multiples of 16
        linear_key_head_dim=32,
        linear_value_head_dim=16,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [3, 3, 2],
        },
        bos_token_id=bos,
        eos_token_id=end,
        pad_token_id=pad,
        attn_implementation="sdpa",
    )
    return config


def new_target(config: Qwen3_5TextConfig, seed: int) -> Any:
    """Return a Qwen3_5ForCausalLM in fp32."""
    torch.manual_seed(seed)
    model: Any = Qwen3_5ForCausalLM(config)
    return model.train()


class Mtp(nn.Module):
    """The MTP layer, with the published names behind `mtp.`. Embedding and head are the target's."""

    def __init__(self, config: Qwen3_5TextConfig) -> None:
        super().__init__()
        own: Any = copy.deepcopy(config)
        own.layer_types, own.num_hidden_layers = ["full_attention"], 1
        width, epsilon = config.hidden_size, config.rms_norm_eps
        self.pre_fc_norm_embedding: Any = Qwen3_5RMSNorm(width, epsilon)
        self.pre_fc_norm_hidden: Any = Qwen3_5RMSNorm(width, epsilon)
        self.fc = nn.Linear(2 * width, width, bias=False)
        self.layers: Any = nn.ModuleList([Qwen3_5DecoderLayer(own, 0)])
        self.norm: Any = Qwen3_5RMSNorm(width, epsilon)

    def begin_as(self, target: Any) -> None:
        """Begin with a copy of the target's last layer, which attends too, on the sum of both inputs."""
        self.layers[0].load_state_dict(target.model.layers[-1].state_dict())
        width = len(self.fc.weight)
        with torch.no_grad():
            self.fc.weight.copy_(torch.eye(width).repeat(1, 2))

    def steps(
        self, target: Any, hidden: Tensor, count: int, tokens: Callable[[int, Tensor], Tensor]
    ) -> list[Tensor]:
        """Return the states after 1 to `count` steps from each position, all positions at once.

        hidden (rows, length, width): the target's states after its last norm. Step k, from 0, of position
        t reads `tokens(k, state)[:, t]`, the token at t + k + 1, and the state of the step before. Like a
        draft, it attends to the first steps of positions up to t and to the other steps of its own.
        """
        rows, length, _ = hidden.shape
        places = torch.arange(length, device=hidden.device)
        causal = torch.ones(length, length, dtype=torch.bool, device=hidden.device).tril()
        own = torch.eye(length, dtype=torch.bool, device=hidden.device)
        cache, state, found = DynamicCache(), hidden, list[Tensor]()
        for step in range(count):
            embedded = target.model.embed_tokens(tokens(step, state))
            both = [self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(state)]
            mixed = self.fc(torch.cat(both, -1))
            mixed = self.layers[0](
                mixed,
                position_embeddings=target.model.rotary_emb(
                    mixed, (places + step).expand(rows, -1)
                ),
                attention_mask=torch.cat([causal, *[own] * step], 1)[None, None],
                cache=cache,
            )
            state = self.norm(mixed)
            found.append(state)
        return found
