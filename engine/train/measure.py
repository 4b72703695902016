"""How well a drafter drafts: it drafts for held-out prompts in the engine, as it will in the app."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.decoding.text.codec import TextCodec
from engine.drafting.resources import Resources
from engine.local.session import Session
from engine.machine.devices import Device
from engine.models.base import Model
from engine.reply import ReplyState
from engine.request import Control, Request, Speculation
from engine.stats import Statistics
from engine.train.data.prompts import Prompt
from engine.values.sampling import AcceptanceRule, Sampling


@dataclass(frozen=True, slots=True)
class Exam:
    """The prompts, and how long the replies may be."""

    prompts: Sequence[Prompt]
    tokens: int = 64


def measure(
    model: Model,
    codec: TextCodec,
    resources: Resources,
    proposer: str,
    depth: int,
    exam: Exam,
    place: Device | None = None,
) -> dict[str, object]:
    """Acceptance at ``depth`` for greedy replies: mean length, and the share of rounds per position.

    ``place`` as of ``Session``.
    """
    session = Session(model, codec, resources, place)
    total = Statistics()
    for prompt in exam.prompts:
        request = Request(
            messages=prompt,
            sampling=Sampling(temperature=0),
            speculation=Speculation(
                proposer=proposer,
                depth=depth,
                controller=Control.FIXED,
                acceptance=AcceptanceRule.AUTO,
            ),
            max_tokens=exam.tokens,
        )
        total += ReplyState.of(session.run(request, lambda: False)).statistics
    session.close()
    return {
        "depth": depth,
        "acceptance_length": round(total.mean_acceptance_length or 1.0, 3),
        "per_position": [round(share, 3) for share in total.per_position],
    }
