"""The parts of a run: each model's rounds, kernels, steps and bits, by format; transformers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import Any

import torch
import triton
from torch import Tensor

from engine.backends.cuda.decoder import CudaDecoder
from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.values import MAX_ROWS
from engine.values.sampling import AcceptanceRule, Sampling
from tools.gpu_bench import models
from tools.gpu_bench.clock import Clock, spread
from tools.gpu_bench.models import WIDTHS, RandomWeights, Sizes
from tools.gpu_bench.supervise import tell

DEPTH, RIGHT = 5, (0.6, 0.8)
"""Tokens drafted in each round, and the shares of tokens at which drafts agree with the target."""
SEED = 1
_PLACES = {
    "qkv": "inputs", "output": "output", "gate_up": "feed_forward.gate_up",
    "down": "feed_forward.down",
}  # fmt: skip
"""Where a layer has its weights."""
Calls = Callable[[int], list[Callable[[], Tensor]]]
"""Return calls of so many rows, each of another layer."""
Answer = Callable[[list[int]], tuple[list[int], int, float]]
"""Continue a prompt; return the tokens, how many were decoded, and in how many seconds."""


def estimates(device: str) -> dict[str, float]:
    """Return the parts in their order, and at most how many seconds each takes on an H200."""
    names = [one.name for one in (models.REAL if device == "cuda" else models.TINY)]
    return {f"{kind} {name}": 40.0 for name in names for kind in (*WIDTHS, "transformers")}


def products(model: CudaDecoder, name: str) -> list[BulkLinear]:
    """Return the linear layers by one of the names of ``Sizes.linear_layers``."""
    if name == "head":
        return [model.head]
    return [attrgetter(_PLACES[name])(layer) for layer in model.layers]


class Bench:
    """Measures parts on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.clock = device, Clock(device)
        self.repeats, self.rows = 15, tuple(range(1, MAX_ROWS + 1))
        self.pasts: tuple[int, ...] = (1024, 8192)
        self.prompt, self.tokens, self.texts = 64, 96, 5
        if not self.clock.cuda:
            from tests.support import interpreter

            interpreter.repair()
            self.repeats, self.rows, self.pasts = 1, (1, 2, 4, 8, 16), (24,)
            self.prompt, self.tokens, self.texts = 4, 8, 1
        self.bandwidth, self.plain = self._bandwidth(), 0.0

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"name": "CPU rehearsal"}
        if self.clock.cuda:
            found = torch.cuda.get_device_properties(self.device)
            facts = {"name": found.name, "capability": f"{found.major}.{found.minor}"}
            facts["multiprocessors"] = found.multi_processor_count
        facts["bandwidth"] = f"{self.bandwidth / 1e9:,.0f} GB/s"
        return {**facts, "torch": torch.__version__, "triton": triton.__version__}

    def do(self, part: str) -> None:
        """Measure one of ``estimates``, and tell what is found."""
        tell(facts=self._facts())
        kind, name = part.split(" ")
        (sizes,) = (one for one in (*models.REAL, *models.TINY) if one.name == name)
        if kind == "transformers":
            return self._transformers(sizes)
        following = models.random_cycle(sizes.vocabulary, SEED)
        model = models.make(RandomWeights(sizes, following, SEED, self.device), kind)
        self._rounds(model, None, 0.0, following)
        for right in RIGHT:
            mistaken = models.mistaken(following, right, SEED)
            weights = RandomWeights(sizes.draft(), mistaken, SEED + 1, self.device)
            self._rounds(model, models.make(weights, kind), right, following)
        self._steps(model, sizes, self._linear(model, sizes))
        for past in self.pasts if kind == "bf16" else ():
            self._attention(model, sizes, past)

    def _bandwidth(self) -> float:
        """Return the bytes/s of reading memory: a sum reads all and writes nothing, like one row."""
        size = min(2**32, torch.cuda.mem_get_info()[0] // 2) if self.clock.cuda else 2**24
        buffer = torch.ones(size // 4, device=self.device)
        took = self.clock.interleaved({1: self.clock.capture([buffer.sum])}, self.repeats)
        return buffer.nbytes / took[1][0]

    def _time(self, size: float, calls: Calls, **row: object) -> None:
        """Time ``calls(rows)``, of which each reads ``size`` bytes; compare rows with those of 16."""
        captured = {rows: self.clock.capture(calls(rows)) for rows in self.rows}
        took = self.clock.interleaved(captured, self.repeats)
        count, whole, different = len(calls(1)), calls(MAX_ROWS)[0](), 0
        for rows in self.rows:
            different += int((calls(rows)[0]() != whole[:rows]).flatten(1).any(-1).sum())
        times = {rows: [1e6 * one / count for one in each] for rows, each in took.items()}
        row |= {"1 row, us": times[1], "of bandwidth": size / times[1][0] * 1e6 / self.bandwidth}
        row |= {f"T({rows})/T(1)": times[rows][0] / times[1][0] for rows in (2, 4, 8, 16)}
        tell(row={**row, "rows that differ": different, "times": times})

    def _linear(self, model: CudaDecoder, sizes: Sizes) -> float:
        """Time each weight in all layers, in one graph, which fit into no cache; return their bytes."""
        kind, total = model.info.quantization, 0.0
        for name, (out, width) in sizes.linear_layers().items():
            layers = products(model, name)
            x = torch.randn(MAX_ROWS, width, device=self.device)
            x = x if name == "head" else x.bfloat16()  # logits are not rounded

            def calls(rows: int, layers: Any = layers, x: Tensor = x) -> list[Callable[[], Tensor]]:
                return [partial(layer, x[:rows]) for layer in layers]

            size = out * width * WIDTHS[kind]
            self._time(size, calls, table="Kernels", model=sizes.name, kernel=name, weights=kind)
            total += size * len(layers)
        return total

    def _attention(self, model: CudaDecoder, sizes: Sizes, past: int) -> None:
        """Time attention over ``past`` positions, of all layers in one graph."""
        cache = model.new_state(past + MAX_ROWS).static
        for slot in cache.slots:
            slot.keys.normal_()
            slot.values.normal_()
        cache.set_length(past)
        query = torch.randn(MAX_ROWS, sizes.heads, sizes.head_dim, device=self.device).bfloat16()
        spec = sizes.architecture.attentions[0]

        def calls(rows: int) -> list[Callable[[], Tensor]]:
            part = query[:rows]
            attend = model.attention.attend
            return [partial(attend, part, slot, cache.length, spec) for slot in cache.slots]

        name, size = f"attention of {past}", 4 * sizes.kv_heads * sizes.head_dim * past
        self._time(size, calls, table="Kernels", model=sizes.name, kernel=name, weights="bf16")

    def _steps(self, model: CudaDecoder, sizes: Sizes, size: float) -> None:
        past = self.pasts[0] // 2
        state = model.new_state(past + MAX_ROWS)
        ids = torch.arange(past + MAX_ROWS, device=self.device) * 7919 % sizes.vocabulary
        model.forward(ids[:past].tolist(), state, last=0)

        @torch.inference_mode()
        def step(rows: int) -> Tensor:
            return model.predict(model.step(ids[past : past + rows], state))

        def calls(rows: int) -> list[Callable[[], Tensor]]:
            return [partial(step, rows)]

        size += 4 * sizes.layers * sizes.kv_heads * sizes.head_dim * past
        kind = model.info.quantization
        self._time(size, calls, table="Whole steps", model=sizes.name, weights=kind)

    def _rounds(
        self, model: CudaDecoder, draft: CudaDecoder | None, right: float, following: Tensor
    ) -> None:
        """Decode texts in captured rounds, one ahead of the host, as the app does."""
        depth, context = 0 if draft is None else DEPTH, self.prompt + self.tokens + 4 * (DEPTH + 1)
        state = model.new_state(context)
        draft_state = (draft or model).new_state(context)
        drafter = None if draft is None else draft.round_drafter(draft_state)
        runner = model.round_runner(state, drafter)
        launch = partial(runner.launch, depth, drafts=depth > 0)
        rounds = accepted = 0

        def answer(prompt: list[int]) -> tuple[list[int], int, float]:
            nonlocal rounds, accepted
            state.rewind(0)
            model.forward(prompt[:-1], state, last=0)
            if draft is not None:
                draft_state.rewind(0)
                draft.forward(prompt[:-2], draft_state, last=0)
            runner.begin(Sampling(), AcceptanceRule.GREEDY, SEED, prompt, len(prompt))
            self.clock.wait()
            written: list[int] = []
            started, pending = perf_counter(), launch()
            while len(written) < self.tokens:
                ahead = launch()
                tokens = pending.read().tokens
                written += tokens
                rounds, accepted, pending = rounds + 1, accepted + len(tokens) - 1, ahead
            took = perf_counter() - started
            pending.read()
            return written[: self.tokens], len(written), took

        how = f"draft of depth {DEPTH}, {right:g} right" if depth else "plain"
        row = self._speed(answer, following, model.info.name, model.info.quantization)
        self.plain = self.plain if depth else row["tokens/s"][0]
        row |= {"engine": "foretoken", "how": how, "to plain": row["tokens/s"][0] / self.plain}
        tell(row={**row, "accepted": accepted / (rounds * depth) if depth else "-"})

    def _speed(self, answer: Answer, following: Tensor, model: str, kind: str) -> dict[str, Any]:
        """Return the tokens/s of replies after the first, and whether they are the cycle's text."""
        speeds, right = [], True
        for start in range(SEED, SEED + self.texts + 1):
            text = models.after(following, start, self.prompt + self.tokens)
            tokens, decoded, took = answer(text[: self.prompt])
            right &= tokens == text[self.prompt :]
            speeds.append(decoded / took)
        row = {"table": "Tokens a second", "model": model, "weights": kind}
        return {**row, "tokens/s": spread(speeds[1:]), "words": "right" if right else "**wrong**"}

    def _transformers(self, sizes: Sizes) -> None:
        """Measure ``generate`` of transformers in bf16 on the same weights."""
        from engine.bench.real.peers.transformers_child import generate

        following = models.random_cycle(sizes.vocabulary, SEED)
        model = models.of_transformers(RandomWeights(sizes, following, SEED, self.device))

        def answer(prompt: list[int]) -> tuple[list[int], int, float]:
            made = generate(model, prompt, self.tokens, (), {})
            return list(made.tokens), made.decoded, made.decode_s

        row = self._speed(answer, following, sizes.name, "bf16")
        tell(
            row={**row, "engine": "transformers", "how": "plain", "to plain": "-", "accepted": "-"}
        )
