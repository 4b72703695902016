"""Sizes of models that people run, as metadata and tensors of a GGUF file.

Sources of sizes: tests/data/published_configs.yaml and model_catalog.yaml; of Gemma 4 and LFM2 the
defaults of transformers' configurations. Names are those of llama.cpp's converter, types those of its
``llama-quantize``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Sizes = tuple[int, ...]
"""Of a tensor, outputs before inputs, as numpy has them."""
Tensor = tuple[str, Sizes]


@dataclass(frozen=True, slots=True)
class Shape:
    """A model of ``layers``; ``written`` of them by default, so that the file stays below 6 GB.

    ``metadata`` and ``tensors`` take the number of layers to be written. ``mxfp4``: experts are in MXFP4
    and all else in Q8_0; else the mix is Q4_K_M.
    """

    architecture: str
    layers: int
    written: int
    vocabulary: int
    metadata: Callable[[int], dict[str, Any]]
    tensors: Callable[[int], Iterator[Tensor]]
    mxfp4: bool = False

    def types(self, layers: int) -> dict[str, str]:
        """Return the type of each tensor of a file of ``layers``."""
        sizes = dict(self.tensors(layers))
        values = [name for name in sizes if name.endswith(("attn_v.weight", "attn_qkv.weight"))]
        downs = [name for name in sizes if "ffn_down" in name and name.endswith("weight")]
        better = {name for each in (values, downs) for name in _better(each)}
        better.add("token_embd.weight" if "output.weight" not in sizes else "output.weight")
        return {name: self._type(name, size, better) for name, size in sizes.items()}

    def _type(self, name: str, size: Sizes, better: set[str]) -> str:
        if len(size) == 1 or name.endswith(".bias") or any(part in name for part in _UNROUNDED):
            return "F32"
        if self.mxfp4:
            return "MXFP4" if len(size) == 3 else "Q8_0"
        return "Q6_K" if name in better else "Q4_K"


_UNROUNDED = ("ffn_gate_inp", "ssm_conv1d", "shortconv.conv.", "per_layer_model_proj")


def _better(names: list[str]) -> list[str]:
    """Return those that Q4_K_M has in Q6_K (use_more_bits in llama.cpp's llama-quant.cpp)."""
    count, eighth = len(names), len(names) // 8
    chosen = (at < eighth or at >= 7 * count // 8 or (at - eighth) % 3 == 2 for at in range(count))
    return [name for name, more in zip(names, chosen, strict=True) if more]


def _block(number: int, tensors: Mapping[str, Sizes]) -> Iterator[Tensor]:
    for name, size in tensors.items():
        stem = name if name == "ssm_a" or name.endswith(".bias") else f"{name}.weight"
        yield f"blk.{number}.{stem}", size


def _mlp(hidden: int, intermediate: int) -> dict[str, Sizes]:
    up = (intermediate, hidden)
    return {"ffn_gate": up, "ffn_up": up, "ffn_down": (hidden, intermediate)}


def _experts(hidden: int, intermediate: int, count: int) -> dict[str, Sizes]:
    up = (count, intermediate, hidden)
    return {
        "ffn_gate_inp": (count, hidden),
        "ffn_gate_exps": up,
        "ffn_up_exps": up,
        "ffn_down_exps": (count, hidden, intermediate),
    }


def _attention(
    hidden: int, heads: int, kv_heads: int, width: int, gates: int = 1
) -> dict[str, Sizes]:
    keys = (kv_heads * width, hidden)
    return {
        "attn_q": (gates * heads * width, hidden),
        "attn_k": keys,
        "attn_v": keys,
        "attn_output": (hidden, heads * width),
    }


def _norms(hidden: int, *names: str) -> dict[str, Sizes]:
    return dict.fromkeys(names, (hidden,))


def _qwen35(
    hidden: int, intermediate: int, layers: int, heads: int, kv_heads: int, value_heads: int
) -> Shape:
    """A Qwen3.5 with its MTP layer."""
    vocabulary, width, key_heads, state = 248_320, 256, 16, 128
    values = value_heads * state

    def metadata(written: int) -> dict[str, Any]:
        return {
            "context_length": 262_144,
            "block_count": written + 1,
            "nextn_predict_layers": 1,
            "embedding_length": hidden,
            "feed_forward_length": intermediate,
            "attention.head_count": heads,
            "attention.head_count_kv": kv_heads,
            "attention.key_length": width,
            "attention.value_length": width,
            "attention.layer_norm_rms_epsilon": 1e-6,
            "rope.freq_base": 1e7,
            "rope.dimension_count": 64,
            "rope.dimension_sections": [11, 11, 10, 0],
            "full_attention_interval": 4,
            "ssm.conv_kernel": 4,
            "ssm.state_size": state,
            "ssm.group_count": key_heads,
            "ssm.time_step_rank": value_heads,
            "ssm.inner_size": values,
        }

    def tensors(written: int) -> Iterator[Tensor]:
        channels = 2 * key_heads * state + values
        both = _norms(hidden, "attn_norm", "post_attention_norm") | _mlp(hidden, intermediate)
        full = both | _attention(hidden, heads, kv_heads, width, gates=2)
        full |= _norms(width, "attn_q_norm", "attn_k_norm")
        linear = both | {
            "attn_qkv": (channels, hidden),
            "attn_gate": (values, hidden),
            "ssm_conv1d": (channels, 4),
            "ssm_dt.bias": (value_heads,),
            "ssm_a": (value_heads,),
            "ssm_beta": (value_heads, hidden),
            "ssm_alpha": (value_heads, hidden),
            "ssm_norm": (state,),
            "ssm_out": (hidden, values),
        }
        yield "token_embd.weight", (vocabulary, hidden)
        for number in range(written):
            yield from _block(number, linear if (number + 1) % 4 else full)
        nextn: dict[str, Sizes] = {"nextn.eh_proj": (hidden, 2 * hidden)}
        nextn |= _norms(hidden, "nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm")
        yield from _block(written, full | nextn)
        yield "output_norm.weight", (hidden,)

    return Shape("qwen35", layers, layers, vocabulary, metadata, tensors)


def _gemma4_e2b() -> Shape:
    hidden, heads, vocabulary, own, makers, intermediate = 1536, 8, 262_144, 256, 15, 6144

    def slides(number: int) -> bool:
        return (number + 1) % 5 != 0

    def metadata(written: int) -> dict[str, Any]:
        return {
            "context_length": 131_072,
            "block_count": written,
            "embedding_length": hidden,
            "feed_forward_length": [
                intermediate if at < makers else 2 * intermediate for at in range(written)
            ],
            "attention.head_count": heads,
            "attention.head_count_kv": 1,
            "attention.key_length": 512,
            "attention.value_length": 512,
            "attention.key_length_swa": 256,
            "attention.value_length_swa": 256,
            "attention.layer_norm_rms_epsilon": 1e-6,
            "attention.sliding_window": 512,
            "attention.sliding_window_pattern": [slides(at) for at in range(written)],
            "attention.shared_kv_layers": written - makers,
            "embedding_length_per_layer_input": own,
            "final_logit_softcapping": 30.0,
            "rope.freq_base": 1e6,
            "rope.freq_base_swa": 1e4,
            "rope.dimension_count": 512,
            "rope.dimension_count_swa": 256,
        }

    def tensors(written: int) -> Iterator[Tensor]:
        yield "token_embd.weight", (vocabulary, hidden)
        yield "per_layer_token_embd.weight", (vocabulary, own * written)
        yield "per_layer_model_proj.weight", (own * written, hidden)
        yield "per_layer_proj_norm.weight", (own,)
        yield "rope_freqs.weight", (256,)
        for number in range(written):
            width = 256 if slides(number) else 512
            layer = _norms(hidden, "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
            layer |= _attention(hidden, heads, 1, width) | _norms(
                width, "attn_q_norm", "attn_k_norm"
            )
            if number >= makers:
                layer = {name: size for name, size in layer.items() if name not in _KEYS_AND_VALUES}
            layer |= _mlp(hidden, intermediate if number < makers else 2 * intermediate)
            layer |= {"inp_gate": (own, hidden), "proj": (hidden, own), "post_norm": (hidden,)}
            yield from _block(number, layer | {"layer_output_scale": (1,)})
        yield "output_norm.weight", (hidden,)

    return Shape("gemma4", 35, 35, vocabulary, metadata, tensors)


_KEYS_AND_VALUES = ("attn_k", "attn_v", "attn_k_norm")


def _lfm2() -> Shape:
    hidden, vocabulary, attending = 2048, 65_536, (2, 5, 8, 10, 12, 14)

    def metadata(written: int) -> dict[str, Any]:
        return {
            "context_length": 128_000,
            "block_count": written,
            "embedding_length": hidden,
            "feed_forward_length": 8192,
            "vocab_size": vocabulary,
            "attention.head_count": 32,
            "attention.head_count_kv": [8 if at in attending else 0 for at in range(written)],
            "attention.layer_norm_rms_epsilon": 1e-5,
            "rope.freq_base": 1e6,
            "shortconv.l_cache": 3,
        }

    def tensors(written: int) -> Iterator[Tensor]:
        both = _norms(hidden, "attn_norm", "ffn_norm") | _mlp(hidden, 8192)
        full = both | _attention(hidden, 32, 8, 64) | _norms(64, "attn_q_norm", "attn_k_norm")
        conv = both | {
            "shortconv.conv": (hidden, 3),
            "shortconv.in_proj": (3 * hidden, hidden),
            "shortconv.out_proj": (hidden, hidden),
        }
        yield "token_embd.weight", (vocabulary, hidden)
        for number in range(written):
            yield from _block(number, full if number in attending else conv)
        yield "token_embd_norm.weight", (hidden,)

    return Shape("lfm2", 16, 16, vocabulary, metadata, tensors)


def _qwen3_moe() -> Shape:
    hidden, vocabulary, experts = 2048, 151_936, 128

    def metadata(written: int) -> dict[str, Any]:
        return {
            "context_length": 40_960,
            "block_count": written,
            "embedding_length": hidden,
            "feed_forward_length": 6144,
            "expert_feed_forward_length": 768,
            "expert_count": experts,
            "expert_used_count": 8,
            "attention.head_count": 32,
            "attention.head_count_kv": 4,
            "attention.key_length": 128,
            "attention.value_length": 128,
            "attention.layer_norm_rms_epsilon": 1e-6,
            "rope.freq_base": 1e6,
        }

    def tensors(written: int) -> Iterator[Tensor]:
        layer = _norms(hidden, "attn_norm", "ffn_norm") | _attention(hidden, 32, 4, 128)
        layer |= _norms(128, "attn_q_norm", "attn_k_norm") | _experts(hidden, 768, experts)
        yield "token_embd.weight", (vocabulary, hidden)
        for number in range(written):
            yield from _block(number, layer)
        yield "output_norm.weight", (hidden,)
        yield "output.weight", (vocabulary, hidden)

    return Shape("qwen3moe", 48, 8, vocabulary, metadata, tensors)


def _gpt_oss() -> Shape:
    hidden, vocabulary, experts, heads, kv_heads = 2880, 201_088, 32, 64, 8

    def metadata(written: int) -> dict[str, Any]:
        return {
            "context_length": 131_072,
            "block_count": written,
            "embedding_length": hidden,
            "feed_forward_length": hidden,
            "expert_feed_forward_length": hidden,
            "expert_count": experts,
            "expert_used_count": 4,
            "attention.head_count": heads,
            "attention.head_count_kv": kv_heads,
            "attention.key_length": 64,
            "attention.value_length": 64,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "attention.sliding_window": 128,
            "rope.freq_base": 150_000.0,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 32.0,
            "rope.scaling.original_context_length": 4096,
        }

    def tensors(written: int) -> Iterator[Tensor]:
        layer = _norms(hidden, "attn_norm", "post_attention_norm")
        layer |= _attention(hidden, heads, kv_heads, 64) | {"attn_sinks": (heads,)}
        layer |= _experts(hidden, hidden, experts)
        biases = {f"{name}.bias": size[:-1] for name, size in layer.items() if len(size) > 1}
        yield "token_embd.weight", (vocabulary, hidden)
        for number in range(written):
            yield from _block(number, layer | biases)
        yield "output_norm.weight", (hidden,)
        yield "output.weight", (vocabulary, hidden)

    return Shape("gpt-oss", 24, 6, vocabulary, metadata, tensors, mxfp4=True)


SHAPES = {
    "qwen3.5-0.8b": _qwen35(1024, 3584, 24, heads=8, kv_heads=2, value_heads=16),
    "qwen3.5-4b": _qwen35(2560, 9216, 32, heads=16, kv_heads=4, value_heads=32),
    "gemma-4-e2b": _gemma4_e2b(),
    "lfm2.5-1.2b": _lfm2(),
    "qwen3-30b-a3b": _qwen3_moe(),
    "gpt-oss-20b": _gpt_oss(),
}
