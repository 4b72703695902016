"""Proposers side by side: same prompts, same seed, one run, alternating.

A machine's speed drifts while a benchmark runs. So each prompt is answered by every setting before
the next one is asked, in changing order, several times; of the repeats the median counts. Speed-up is
the ratio to ``none`` within this run, never to an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from engine.api import Engine
from engine.bench import answering
from engine.bench.answering import Answer, Configuration
from engine.bench.prompts import ALL, Prompt
from engine.errors import ForetokenError
from engine.request import PLAIN, AcceptanceRule, Control, Sampling, Speculation, resolve_rule
from engine.stats import Statistics


@dataclass(frozen=True, slots=True)
class Setting:
    """A proposer at a depth; under ``auto`` the depth is the most it may draft."""

    proposer: str
    depth: int
    controller: Control = Control.FIXED

    def speculation(self, acceptance: AcceptanceRule) -> Speculation:
        return Speculation(
            proposer=self.proposer,
            depth=self.depth,
            controller=self.controller,
            acceptance=acceptance,
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One setting on one kind of prompt. ``speedup`` is against ``none`` in the same run.

    ``identical``: every reply has the tokens of plain decoding; None where the acceptance rule
    promises the distribution instead of the words.
    """

    proposer: str
    depth: int
    controller: str
    prompt_kind: str
    tokens_per_s: float
    speedup: float
    acceptance_rate: float | None
    mean_acceptance_length: float | None
    identical: bool | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared, and how."""

    settings: tuple[Setting, ...]
    sampling: Sampling
    acceptance: AcceptanceRule = AcceptanceRule.AUTO
    max_tokens: int = 160
    repeats: int = 3

    def way(self, setting: Setting) -> Configuration:
        """How ``setting`` answers."""
        return Configuration(setting.speculation(self.acceptance), self.sampling, self.max_tokens)


def run(
    engine: Engine,
    prompts: Sequence[Prompt],
    plan: Plan,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """Answers every prompt by plain decoding and by every setting; a row for each kind and "all".

    Raises ForetokenError where a reply fails.
    """
    settings = (Setting(PLAIN, 0), *(s for s in plan.settings if s.proposer != PLAIN))
    # Warm: first calls build what later ones reuse.
    answering.answer(engine, prompts[0], plan.way(settings[-1]))
    answers: dict[Setting, list[Answer]] = {setting: [] for setting in settings}
    for index, prompt in enumerate(prompts):
        tries: dict[Setting, list[Answer]] = {setting: [] for setting in settings}
        for repeat in range(plan.repeats):
            turned = (index + repeat) % len(settings)
            for setting in settings[turned:] + settings[:turned]:
                tries[setting].append(answering.answer(engine, prompt, plan.way(setting)))
        for setting, several in tries.items():
            answers[setting].append(_typical(several))
        on_progress(index + 1, len(prompts))
    rule = resolve_rule(plan.acceptance, plan.sampling.temperature)
    same_words = not rule.weighs_q
    return [
        row
        for kind in (*dict.fromkeys(prompt.kind for prompt in prompts), ALL)
        for row in _rows(kind, prompts, answers, same_words)
    ]


def as_json(rows: Sequence[Row], verify_cost: dict[int, float]) -> dict[str, Any]:
    """The stable keys that scripts rely on."""
    return {
        "results": [asdict(row) for row in rows],
        "verify_cost": {str(rows_): ratio for rows_, ratio in verify_cost.items()},
    }


def _typical(several: Sequence[Answer]) -> Answer:
    """The first repeat's tokens and counts with the median time.

    Repeats of one setting must agree: a seed fixes the words.
    """
    first = several[0]
    if any(other.tokens != first.tokens for other in several):
        raise ForetokenError("The same request gave different words: this is a bug of the engine.")
    seconds = median(one.statistics.decode_s for one in several)
    return replace(first, statistics=replace(first.statistics, decode_s=seconds))


def _rows(
    kind: str,
    prompts: Sequence[Prompt],
    answers: dict[Setting, list[Answer]],
    same_words: bool,
) -> list[Row]:
    chosen = [i for i, prompt in enumerate(prompts) if kind in (ALL, prompt.kind)]
    plain = next(iter(answers.values()))
    speed: float | None = None
    rows = []
    for setting, replies in answers.items():
        total = sum((replies[i].statistics for i in chosen), Statistics())
        tokens_per_s = total.tokens_per_s or 0.0
        speed = speed or tokens_per_s
        rows.append(
            Row(
                proposer=setting.proposer,
                depth=setting.depth,
                controller=setting.controller,
                prompt_kind=kind,
                tokens_per_s=tokens_per_s,
                speedup=tokens_per_s / speed if speed else 0.0,
                acceptance_rate=total.acceptance_rate,
                mean_acceptance_length=total.mean_acceptance_length,
                identical=all(replies[i].tokens == plain[i].tokens for i in chosen)
                if same_words
                else None,
            )
        )
    return rows
