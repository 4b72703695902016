"""One model in one format: this engine plain and with drafts, and its rivals, in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from engine.models.base import Model
from tools.gpu_bench import engines, rivals
from tools.gpu_bench.clock import Clock
from tools.gpu_bench.contender import Contender
from tools.gpu_bench.rounds import Rounds, run_here
from tools.gpu_bench.shapes import Sizes
from tools.gpu_bench.speed import Loop, OnError, OwnEngine, Speed, attempt, race, reraise
from tools.gpu_bench.steps import Graphs, time_steps
from tools.gpu_bench.weights import RandomWeights, TokenCycle

RIGHT = (0.6, 0.8)
"""Shares of tokens at which drafts agree with the target."""
SEED = 1
PROMPT = 64


class Contest:
    """Measures everything about one target, which it keeps loaded."""

    def __init__(self, sizes: Sizes, kind: str, clock: Clock) -> None:
        self.sizes, self.kind, self.clock = sizes, kind, clock
        self.cycle = TokenCycle.random(sizes.shape.vocabulary, SEED)
        self.weights = RandomWeights(sizes.architecture, self.cycle, SEED, clock.device)
        self.model = engines.make(sizes, self.weights, kind, sizes.shape.context)
        self.tokens, self.repeats = (96, 5) if clock.cuda else (24, 2)
        self.longest = PROMPT + self.tokens + 32

    def run(
        self,
        steps: Mapping[int, float],
        *,
        beside: bool,
        compiled: bool,
        on_error: OnError = reraise,
    ) -> tuple[list[Speed], list[Graphs]]:
        """Let all contenders decode in turns; return their speeds, and the graphs of rounds.

        ``steps``: seconds of the target's steps by rows, as far as known. ``beside``: include
        transformers. ``compiled``: compare plain decoding with transformers under torch.compile only.
        ``on_error`` is called for a contender that fails; the others go on.
        """
        drafts = {} if compiled else self._drafts(on_error)
        first = next(iter(drafts.values()), None)
        draft_s = first and attempt(on_error, "the draft's step", partial(self._draft_step, first))
        ours = self._ours(drafts, on_error)
        captured = [one.graphs for one in ours if isinstance(one, Rounds)]
        alone: dict[Contender, float] = {
            one: steps[1 + one.depth] + one.depth * (draft_s or 0.0)
            for one in ours
            if 1 + one.depth in steps and (draft_s or not one.depth)
        }
        theirs = attempt(on_error, "rivals", partial(self._rivals, beside, compiled)) or []
        contenders: list[Contender] = [*ours, *theirs]
        speeds = race(self.sizes.name, contenders, self._texts(), self.clock, alone, on_error)
        for one in contenders:
            one.close()
        return speeds, captured

    def _texts(self) -> list[tuple[list[int], list[int]]]:
        """Return prompts from several places of the cycle, each with its continuation."""
        starts = range(SEED, SEED + self.repeats + 1)
        texts = [self.cycle.after(start, PROMPT + self.tokens) for start in starts]
        return [(text[:PROMPT], text[PROMPT:]) for text in texts]

    def _draft(self, right: float) -> Model:
        sizes = self.sizes.draft()
        return engines.make(sizes, self._draft_weights(right), self.kind, sizes.shape.context)

    def _draft_weights(self, right: float) -> RandomWeights:
        cycle = self.cycle.mistaken(right, SEED)
        return RandomWeights(self.sizes.draft().architecture, cycle, SEED + 1, self.clock.device)

    def _draft_step(self, draft: Model) -> float:
        """Return the seconds of a step of one row."""
        steps, _ = time_steps(draft, self.sizes.draft(), self.clock, 1.0, 9, PROMPT, rows=(1,))
        return steps[0].times.median

    def _drafts(self, on_error: OnError) -> dict[float, Model]:
        """Make the drafts, by the share of tokens at which they are right."""
        made = {
            right: attempt(on_error, f"a draft, {right:g} right", partial(self._draft, right))
            for right in RIGHT
        }
        return {right: draft for right, draft in made.items() if draft is not None}

    def _ours(self, drafts: Mapping[float, Model], on_error: OnError) -> list[OwnEngine]:
        """Make this engine's contenders, plain first: captured rounds if possible, and the host loop."""
        model, longest = self.model, self.longest
        chosen: list[tuple[Model | None, float | None]] = [(None, None)]
        chosen += [(draft, right) for right, draft in drafts.items()]
        ways: list[Callable[[], OwnEngine]] = []
        if run_here(model):
            ways += [partial(Rounds, model, *one, longest, self.clock) for one in chosen]
            chosen = chosen[:1] if len(chosen) == 1 else [chosen[0], chosen[-1]]
        ways += [partial(Loop, model, *one, longest) for one in chosen]
        made = (attempt(on_error, "a way of decoding", way) for way in ways)
        return sorted((one for one in made if one is not None), key=lambda one: one.depth > 0)

    def _rivals(self, beside: bool, compiled: bool) -> list[Contender]:
        if not (beside or compiled):
            return []
        context, right = self.sizes.shape.context, RIGHT[-1]
        model = rivals.transformers_model(self.sizes, self.weights, context)
        if compiled:
            backend = "inductor" if self.clock.cuda else "eager"
            return [rivals.Compiled(model, self.longest, backend)]
        draft = rivals.transformers_model(self.sizes.draft(), self._draft_weights(right), context)
        return rivals.transformers(model, draft, right)
