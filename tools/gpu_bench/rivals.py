"""Other engines on the same weights in the same process: transformers, torch.compile, bitsandbytes."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from engine.backends.transformers_adapter import cache_argument
from engine.bench.real.peers.transformers import draft_constantly, generate
from tools.gpu_bench.clock import Clock
from tools.gpu_bench.contender import DRAFT, PLAIN, Contender, Entrant, Reply, Source
from tools.gpu_bench.kernels import Case, KernelTime, copies, random_rows, time_case
from tools.gpu_bench.shapes import EPSILON, ROPE_THETA, WIDTHS, Sizes
from tools.gpu_bench.speed import DEPTH
from tools.gpu_bench.weights import RandomWeights

BITSANDBYTES_ROWS = (1, 4, 8)


def transformers_model(sizes: Sizes, weights: RandomWeights, context: int) -> Any:
    """Return a model of transformers in bf16 with the weights of ``engines.make``."""
    from transformers import AutoConfig, AutoModelForCausalLM

    s = sizes.shape
    config = AutoConfig.for_model(
        "qwen3" if sizes.qk_norm else "llama",
        vocab_size=s.vocabulary, hidden_size=s.hidden, intermediate_size=s.intermediate,
        num_hidden_layers=s.layers, num_attention_heads=s.heads, num_key_value_heads=s.kv_heads,
        head_dim=s.head_dim, max_position_embeddings=context, rms_norm_eps=EPSILON,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=False, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    with torch.device(weights.device):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights(name))
    model.generation_config.eos_token_id = None
    return model.eval()


class Generate:
    """``generate`` of transformers with one set of arguments."""

    def __init__(self, model: Any, arguments: Mapping[str, Any], entrant: Entrant) -> None:
        self.model, self.arguments, self.entrant = model, arguments, entrant
        self.answer((0, 0), 4)  # the first call initialises

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        made = generate(self.model, prompt, limit, (), self.arguments)
        return Reply(made.tokens, made.decoded, made.decode_s)

    def close(self) -> None:
        self.model = None


def transformers(model: Any, draft: Any, right: float) -> list[Contender]:
    """Return ``generate`` plain, with a static cache, and with an assistant of acceptance ``right``."""
    draft_constantly(draft, DEPTH)
    static = {"cache_implementation": "static", "disable_compile": True}
    assisted = f"assistant_model={DEPTH}, {right:g} right"
    return [
        Generate(model, {}, Entrant("transformers", PLAIN, "bf16")),
        Generate(model, static, Entrant("transformers", PLAIN, "bf16", "static cache")),
        Generate(
            model,
            {"assistant_model": draft},
            Entrant("transformers", DRAFT, "bf16", assisted, Source.SIMULATED),
        ),
    ]


class Compiled:
    """Transformers' model over a static cache, with its step and argmax compiled.

    As in gpt-fast, nothing waits for the host between two tokens.
    """

    def __init__(self, model: Any, longest: int, backend: str = "inductor") -> None:
        from transformers import StaticCache

        self.model = model
        self.cache: Any = StaticCache(config=model.config, max_cache_len=longest)
        self.cached: Any = {cache_argument(model): self.cache}
        mode = "reduce-overhead" if backend == "inductor" else None
        self.step: Any = torch.compile(self._step, backend=backend, fullgraph=True, mode=mode)
        how = "torch.compile, static cache" + ("" if backend == "inductor" else f", {backend}")
        self.entrant = Entrant("transformers", PLAIN, "bf16", how)

    def _step(self, token: Tensor, position: Tensor) -> Tensor:
        """Return the next token (1, 1) after ``token (1, 1)`` at ``position (1, 1)``."""
        output = self.model(token, position_ids=position, use_cache=True, **self.cached)
        chosen: Tensor = output.logits[:, -1:].argmax(-1)
        return chosen

    @torch.inference_mode()
    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        device = self.model.device
        self.cache.reset()
        ids = torch.tensor([list(prompt)], device=device)
        positions = torch.arange(len(prompt) + limit, device=device)[:, None, None]
        first = self.model(ids, position_ids=positions[: len(prompt)].view(1, -1), **self.cached)
        token = first.logits[:, -1:].argmax(-1)
        tokens = [token]
        _wait(device)
        started = perf_counter()
        for position in positions[len(prompt) : len(prompt) + limit - 1]:
            token = self.step(token, position).clone()  # the graph overwrites its own memory
            tokens.append(token)
        _wait(device)
        took = perf_counter() - started
        return Reply(tuple(torch.cat(tokens).flatten().tolist()), limit - 1, took)

    def close(self) -> None:
        self.model = self.cache = self.cached = self.step = None


def why_no_bitsandbytes() -> str | None:
    """Return why it cannot be measured here; None if it can."""
    if importlib.util.find_spec("bitsandbytes") is None:
        return "bitsandbytes is not installed (pip install bitsandbytes)"
    return None


def time_bitsandbytes(
    sizes: Sizes, clock: Clock, bandwidth: float, repeats: int = 15
) -> list[KernelTime]:
    """Time bitsandbytes' NF4 product (``matmul_4bit``) with every weight of a layer and the head."""
    times = []
    for name, (out, width) in sizes.linear_layers().items():
        case = _bitsandbytes_case(name, out, width, clock)
        times += time_case(
            sizes.name, "nf4", case, clock, bandwidth, repeats, BITSANDBYTES_ROWS, promised=False
        )
    return times


def _bitsandbytes_case(name: str, out: int, width: int, clock: Clock) -> Case:
    bitsandbytes: Any = importlib.import_module("bitsandbytes")
    functional = bitsandbytes.functional
    size = out * width * WIDTHS["nf4"]
    layers = []
    for _ in range(copies(size, clock)):
        weight = random_rows(out, width, clock.device)
        layers.append(functional.quantize_4bit(weight, blocksize=64, quant_type="nf4"))
    x = random_rows(BITSANDBYTES_ROWS[-1], width, clock.device)

    def multiply(rows: int, packed: Tensor, state: Any) -> Tensor:
        result: Tensor = bitsandbytes.matmul_4bit(x[:rows], packed.t(), quant_state=state)
        return result

    def calls(rows: int) -> list[Callable[[], Tensor]]:
        return [partial(multiply, rows, packed, state) for packed, state in layers]

    return Case(f"bitsandbytes {name}", (out, width), size, calls)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
