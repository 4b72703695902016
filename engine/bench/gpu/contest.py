"""One model in one format: this engine plain and with drafts, and its rivals, in turns."""

from __future__ import annotations

from collections.abc import Mapping

from engine.bench.gpu import engines, rivals
from engine.bench.gpu.clock import Clock
from engine.bench.gpu.rounds import Rounds, run_here
from engine.bench.gpu.shapes import Sizes
from engine.bench.gpu.speed import Loop, Ours, Speed, race
from engine.bench.gpu.steps import Graphs, time_steps
from engine.bench.gpu.weights import Circle, RandomWeights
from engine.bench.peers.base import Contender
from engine.models.base import Model

RIGHT = (0.6, 0.8)
"""Shares of tokens at which drafts are right."""
SEED = 1
PROMPT = 64


class Contest:
    """Holds the target while everything about it is measured."""

    def __init__(self, sizes: Sizes, kind: str, clock: Clock) -> None:
        self.sizes, self.kind, self.clock = sizes, kind, clock
        self.circle = Circle.random(sizes.shape.vocabulary, SEED)
        self.weights = RandomWeights(sizes.architecture, self.circle, SEED, clock.device)
        self.model = engines.make(sizes, self.weights, kind, sizes.shape.context)
        self.tokens, self.repeats = (96, 5) if clock.cuda else (24, 2)
        self.longest = PROMPT + self.tokens + 32

    def run(
        self, steps: Mapping[int, float], *, beside: bool, compiled: bool
    ) -> tuple[list[Speed], list[Graphs]]:
        """``steps``: seconds of the target's by rows. ``beside``: with transformers' ways of decoding.
        ``compiled``: plain decoding alone, beside theirs under torch.compile."""
        drafts = {} if compiled else {right: self._draft(right) for right in RIGHT}
        draft_s = self._draft_step(drafts[RIGHT[0]]) if drafts else 0.0
        ours, captured = self._ours(drafts)
        alone: dict[Contender, float] = {
            one: steps[1 + one.depth] + one.depth * draft_s for one in ours
        }
        contenders: list[Contender] = [*ours, *self._rivals(beside, compiled)]
        speeds = race(self.sizes.name, contenders, self._texts(), self.clock, alone)
        for one in contenders:
            one.close()
        return speeds, captured

    def _texts(self) -> list[tuple[list[int], list[int]]]:
        """Prompts from several places of the circle, each with what follows."""
        starts = range(SEED, SEED + self.repeats + 1)
        told = [self.circle.after(start, PROMPT + self.tokens) for start in starts]
        return [(text[:PROMPT], text[PROMPT:]) for text in told]

    def _draft(self, right: float) -> Model:
        sizes = self.sizes.draft()
        return engines.make(sizes, self._draft_weights(right), self.kind, sizes.shape.context)

    def _draft_weights(self, right: float) -> RandomWeights:
        circle = self.circle.mistaken(right, SEED)
        return RandomWeights(self.sizes.draft().architecture, circle, SEED + 1, self.clock.device)

    def _draft_step(self, draft: Model) -> float:
        """Seconds of one row."""
        steps, _ = time_steps(draft, self.sizes.draft(), self.clock, 1.0, 9, PROMPT, rows=(1,))
        return steps[0].times.median

    def _ours(self, drafts: Mapping[float, Model]) -> tuple[list[Ours], list[Graphs]]:
        """Plain first. Where rounds can be captured they are, and the loop stands beside them."""
        model, longest = self.model, self.longest
        chosen: list[tuple[Model | None, float | None]] = [(None, None)]
        chosen += [(draft, right) for right, draft in drafts.items()]
        loop = [Loop(model, draft, right, longest) for draft, right in chosen]
        if not run_here(model):
            return [*loop], []
        rounds = [Rounds(model, draft, right, longest, self.clock) for draft, right in chosen]
        beside = loop[:1] if len(loop) == 1 else [loop[0], loop[-1]]
        return [*rounds, *beside], [one.graphs for one in rounds]

    def _rivals(self, beside: bool, compiled: bool) -> list[Contender]:
        if not (beside or compiled):
            return []
        context, right = self.sizes.shape.context, RIGHT[-1]
        model = rivals.transformers_model(self.sizes, self.weights, context)
        if compiled:
            backend = "inductor" if self.clock.cuda else "eager"
            return [rivals.Compiled(model, self.longest, backend)]
        draft = rivals.transformers_model(self.sizes.draft(), self._draft_weights(right), context)
        return rivals.transformers(model, draft, right, self.longest)
