"""This engine's captured rounds, which the app runs on a GPU, as a contender."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from engine.backends.cuda.decoder import CudaDecoder
from engine.models.base import Model
from engine.stats import Statistics
from engine.values.sampling import AcceptanceRule, Sampling
from tools.gpu_bench.clock import Clock
from tools.gpu_bench.contender import Reply
from tools.gpu_bench.speed import DEPTH, GRAPHS, OwnEngine
from tools.gpu_bench.steps import Graphs, device_free_bytes


def run_here(model: Model) -> bool:
    """Return True if rounds of ``model`` can run on the device."""
    return isinstance(model, CudaDecoder)


class Rounds(OwnEngine):
    """Whole rounds on the device, one ahead of the host; greedy, at a fixed depth."""

    def __init__(
        self, model: Any, draft: Any, right: float | None, longest: int, clock: Clock
    ) -> None:
        """Compile and capture a round."""
        self.model, self.draft, self.clock = model, draft, clock
        context = longest + 2 * (DEPTH + 1)  # one round more has been launched when a reply ends
        self.state = model.new_state(context)
        self.draft_state = None if draft is None else draft.new_state(context)
        drafter = None if draft is None else draft.round_drafter(self.draft_state)
        self.runner = model.round_runner(self.state, drafter)
        super().__init__(model, draft, right, GRAPHS)
        self.graphs = self._capture()
        if not self.runner.captures:
            super().__init__(model, draft, right, "rounds, no graphs")

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        self._begin(prompt)
        self.clock.wait()
        written: list[int] = []
        rounds = 0
        started = perf_counter()
        pending = self._launch()
        while len(written) < limit:
            ahead = self._launch()
            result = pending.read()
            written += result.tokens
            self.clocked_s += result.total_s
            rounds += 1
            pending = ahead
        took = perf_counter() - started
        pending.read()
        self.statistics = self.statistics + Statistics(
            completion_tokens=len(written),
            rounds=rounds,
            drafted=rounds * self.depth,
            accepted=len(written) - rounds,
            decode_s=took,
        )
        return Reply(tuple(written[:limit]), len(written), took)

    def close(self) -> None:
        del self.runner, self.state, self.draft_state

    def _begin(self, prompt: Sequence[int]) -> None:
        """Prefill all but the last token of the text in the target, all but the last two in the draft."""
        self.state.rewind(0)
        self.model.forward(prompt[:-1], self.state, last=0)
        if self.draft_state is not None:
            self.draft_state.rewind(0)
            self.draft.forward(prompt[:-2], self.draft_state, last=0)
        rule = AcceptanceRule.GREEDY
        self.runner.begin(Sampling(temperature=0.0, seed=1), rule, 1, prompt, len(prompt))

    def _launch(self) -> Any:
        return self.runner.launch(self.depth, drafts=self.draft is not None)

    def _capture(self) -> Graphs:
        """Measure a capture. A round that runs directly before it compiles the kernels."""
        self._begin((1, 2, 3, 4))
        self.runner.round.run(self.runner.mode(self.depth, drafts=self.draft is not None))
        self._begin((1, 2, 3, 4))
        self.clock.wait()
        free, started = device_free_bytes(self.clock), perf_counter()
        self._launch().read()
        self.clock.wait()
        took, taken = perf_counter() - started, free - device_free_bytes(self.clock)
        info, captured = self.model.info, bool(self.runner.captures)
        problem = None if captured or not self.clock.cuda else "the capture failed"
        what = f"a round of depth {self.depth}"
        return Graphs(
            info.name, info.quantization, what, int(captured), took, max(taken, 0), problem
        )
