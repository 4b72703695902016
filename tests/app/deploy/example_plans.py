"""Plans that tests render: every method of every engine, several copies, several hosts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from app.deploy.gpus import parse_gpus
from app.deploy.model import find
from app.deploy.planning import make_plan
from app.deploy.request import Plan, PlanRequest, Targets

PLANS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "dynamo-vllm-eagle3": {"engine": "dynamo", "method": "eagle3", "depth": 2},
        "vllm-fp8-online": {
            "target": "qwen3-8b",
            "quantization": "fp8",
            "kv_cache_dtype": "fp8",
        },
        "dynamo-sglang-eagle3": {"engine": "dynamo", "backend": "sglang", "method": "eagle3"},
        "dynamo-trtllm-eagle3-copies": {
            "engine": "dynamo",
            "backend": "trtllm",
            "method": "eagle3",
            "gpus": "4xH100",
            "users": 400,
            "context": 2048,
        },
        "dynamo-vllm-405b-nodes": {
            "engine": "dynamo",
            "target": "llama-3.1-405b",
            "gpus": "16xH100",
            "context": 4096,
        },
        "dynamo-trtllm-405b-nodes": {
            "engine": "dynamo",
            "backend": "trtllm",
            "target": "llama-3.1-405b",
            "gpus": "16xH100",
            "context": 4096,
        },
        "trtllm-405b-nodes": {
            "engine": "trtllm",
            "target": "llama-3.1-405b",
            "gpus": "16xH100",
            "context": 4096,
        },
        "trtllm-eagle3": {"engine": "trtllm", "method": "eagle3", "depth": 4, "users": 1},
        "trtllm-draft-target-fp4": {
            "engine": "trtllm",
            "target": "nvidia/Llama-3.3-70B-Instruct-FP4",
            "method": "draft_model",
            "depth": 4,
            "gpus": "1xGB10",
            "users": 1,
        },
        "trtllm-ngram-copies": {
            "engine": "trtllm",
            "method": "ngram",
            "gpus": "2xH100",
            "users": 200,
            "context": 2048,
        },
        "trtllm-suffix": {"engine": "trtllm", "method": "suffix"},
        "trtllm-dflash": {"engine": "trtllm", "method": "dflash"},
        "trtllm-mtp": {
            "engine": "trtllm",
            "target": "deepseek-r1",
            "method": "mtp",
            "gpus": "8xH200",
        },
        "vllm-plain": {},
        "vllm-ngram": {"method": "ngram"},
        "vllm-suffix": {"method": "suffix"},
        "vllm-draft": {
            "target": "llama-3.3-70b",
            "method": "draft_model",
            "gpus": "8xH100",
            "quantization": "fp8",
            "kv_cache_dtype": "fp8",
        },
        "vllm-eagle": {"method": "eagle", "draft": "somebody/eagle"},
        "vllm-eagle3": {"method": "eagle3"},
        "vllm-eagle3-schedule": {
            "method": "eagle3",
            "users": 900,
            "context": 256,
            "quantization": "fp8",
        },
        "vllm-eagle3-copies": {
            "method": "eagle3",
            "gpus": "8xH100",
            "users": 1000,
            "context": 2048,
        },
        "vllm-medusa": {"method": "medusa", "draft": "somebody/medusa-llama-3.1-8b"},
        "vllm-dspark": {"target": "qwen3-8b", "method": "dspark"},
        "vllm-mtp-nodes": {"target": "deepseek-v3", "method": "mtp", "gpus": "16xH100"},
        "vllm-dflash": {"method": "dflash"},
        "vllm-gemma-assistant": {"target": "gemma-4-31b", "method": "mtp", "gpus": "1xH200"},
        "vllm-hybrid-mtp": {"target": "qwen3.8-27b", "method": "mtp"},
        "vllm-experts-fp8": {
            "target": "qwen3-235b-a22b",
            "quantization": "fp8",
            "gpus": "8xH100",
            "users": 1,
        },
        "vllm-experts-copies": {
            "target": "qwen3-30b-a3b",
            "quantization": "fp8",
            "gpus": "8xH100",
            "users": 400,
            "context": 2048,
        },
        "vllm-t4": {"target": "qwen3-4b", "gpus": "1xT4", "users": 1, "context": 4096},
        "vllm-mi300x": {"target": "llama-3.3-70b", "gpus": "2xMI300X", "quantization": "fp8"},
        "vllm-attention-apart": {
            "target": "deepseek-v3.2",
            "gpus": "8xB200",
            "users": 512,
            "method": "mtp",
        },
        "vllm-nodes-balanced": {
            "target": "llama-3.3-70b",
            "gpus": "32xH100",
            "users": 2000,
            "context": 2048,
            "method": "eagle3",
        },
        "vllm-405b-stages": {"target": "llama-3.1-405b", "gpus": "16xH100", "context": 4096},
        "sglang-eagle3": {"engine": "sglang", "method": "eagle3"},
        "sglang-eagle": {"engine": "sglang", "method": "eagle", "draft": "somebody/eagle"},
        "sglang-dflash": {"engine": "sglang", "method": "dflash"},
        "sglang-nextn": {
            "engine": "sglang",
            "target": "deepseek-r1",
            "method": "mtp",
            "gpus": "8xH200",
        },
        "sglang-standalone": {
            "engine": "sglang",
            "target": "llama-3.1-70b",
            "method": "draft_model",
            "gpus": "4xH100",
            "quantization": "fp8",
        },
        "sglang-ngram": {"engine": "sglang", "method": "ngram"},
        "sglang-gemma-assistant": {
            "engine": "sglang",
            "target": "gemma-4-31b",
            "method": "mtp",
            "gpus": "1xH200",
        },
        "sglang-dspark": {"engine": "sglang", "target": "qwen3-8b", "method": "dspark"},
        "sglang-experts-fp8": {
            "engine": "sglang",
            "target": "qwen3-235b-a22b",
            "quantization": "fp8",
            "gpus": "8xH100",
            "users": 1,
        },
        "sglang-attention-apart": {
            "engine": "sglang",
            "target": "deepseek-r1",
            "gpus": "8xH200",
            "users": 512,
            "context": 2048,
        },
        "trtllm-gpt-oss": {
            "engine": "trtllm",
            "target": "gpt-oss-120b",
            "method": "eagle3",
            "gpus": "1xGB10",
            "users": 1,
        },
        "dynamo-vllm-nodes": {
            "engine": "dynamo",
            "target": "llama-3.3-70b",
            "gpus": "32xH100",
            "users": 2000,
            "context": 2048,
            "method": "eagle3",
            "targets": Targets(1536, 512, 20.0, 2000.0, 30.0),
        },
        "vllm-own-tokenizer": {"target": "kimi-k2.5", "gpus": "8xH200"},
        "sglang-own-tokenizer": {"engine": "sglang", "target": "kimi-k2", "gpus": "16xH200"},
        "trtllm-own-tokenizer": {"engine": "trtllm", "target": "kimi-k2", "gpus": "16xH200"},
        "dynamo-vllm-own-tokenizer": {
            "engine": "dynamo",
            "target": "kimi-k2",
            "gpus": "16xH200",
            "targets": Targets(1000, 200, 1.0),
        },
        "dynamo-trtllm-own-tokenizer": {
            "engine": "dynamo",
            "backend": "trtllm",
            "target": "kimi-k2.5",
            "quantization": "nvfp4",
            "gpus": "8xB200",
        },
        "sglang-nodes-balanced": {
            "engine": "sglang",
            "target": "llama-3.3-70b",
            "gpus": "32xH100",
            "users": 2000,
            "context": 2048,
        },
        "dynamo-vllm-suffix": {"engine": "dynamo", "method": "suffix"},
        "dynamo-sglang-nextn-nodes": {
            "engine": "dynamo",
            "backend": "sglang",
            "target": "deepseek-r1",
            "method": "mtp",
            "gpus": "16xH100",
            "users": 256,
        },
        "sglang-nextn-nodes": {
            "engine": "sglang",
            "target": "deepseek-v3",
            "method": "mtp",
            "gpus": "16xH100",
        },
        "sglang-fp4-copies": {
            "engine": "sglang",
            "target": "deepseek-r1",
            "gpus": "16xB200",
            "users": 200,
            "quantization": "nvfp4",
        },
    }
)
"""What differs from Llama-3.1-8B on one H100 with vLLM, 8 users of 8,192 tokens, without drafts."""


def example_plan(name: str) -> Plan:
    """Return the plan of this name."""
    given = {"engine": "vllm", "target": "llama-3.1-8b", "gpus": "1xH100", **PLANS[name]}
    target = find(given.pop("target"))
    assert target is not None
    gpus = parse_gpus(given.pop("gpus"))
    return make_plan(PlanRequest(given.pop("engine"), target, gpus, **given))
