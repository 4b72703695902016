"""The target answers prompts through the engine; its words and hidden states are recorded."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from typing import Any, ClassVar

import torch
from torch import Tensor

from engine.decoding.target import Target
from engine.decoding.text.codec import TextCodec
from engine.drafting.resources import DRAFT, Resources
from engine.errors import ContextExceeded
from engine.local.session import Session
from engine.machine.devices import Device
from engine.models.base import BatchModel, Model
from engine.models.hidden_states import AuxLayer
from engine.reply import ReplyState
from engine.request import Control, Request, Speculation
from engine.train.clock import Timer
from engine.train.data.concurrent import replies
from engine.train.data.prompts import Prompt
from engine.train.data.recording import RecordedReply, Recording, batched
from engine.train.progress import Phase, ProgressFile, report
from engine.train.recipe import RepliesStage
from engine.train.seeds import subseed
from engine.values import MAX_ROWS
from engine.values.sampling import Sampling

_FULL = "recipe key replies.gigabytes, {:g}, is reached: these are all"
_OVER = "recipe key replies.minutes, {:g}, are over: these are all"
AT_ONCE = MAX_ROWS
"""Replies that share their passes, each with a row."""
TOLD_MINUTES = 0.25
"""How often it is said how far the recording is."""
SHARD, SHARD_MINUTES = 64, 2.0
"""A file of replies is written after so many, or so long: what a stopped recording loses at most."""


def at_once(model: Model) -> bool:
    """Whether ``record`` asks it for several replies at once. A row of a draft stands often, and one of
    another reply always, so it then drafts nothing."""
    return isinstance(model, BatchModel)


class _Listener:
    """Stands where a head would, so that the session keeps the hidden states to be recorded."""

    kind: ClassVar[str] = "recording"

    def __init__(self, aux_layers: Sequence[AuxLayer]) -> None:
        self.aux_layers = tuple(aux_layers)


def record(
    model: Model,
    codec: TextCodec,
    prompts: Sequence[Prompt],
    stage: RepliesStage,
    recording: Recording,
    seed: int,
    progress: ProgressFile | None = None,
    place: Device | None = None,
    drafting: Resources | None = None,
) -> None:
    """Adds the replies that ``recording`` lacks, until its size or time reaches what ``stage`` allows.

    Prompts that the context has no room for are left out. ``place`` as of ``Session``. A model that can
    gives as many replies at once as a pass has rows, and one that cannot gives them one by one: then
    ``drafting`` may hold a model that drafts for them, and without one past text does. Raises
    RecordingError when the disk is full.
    """
    heads: dict[str, Any] = {_Listener.kind: _Listener(recording.aux_layers)}
    resources = replace(drafting or Resources(), heads=heads)
    together = at_once(model)
    session = Session(model, codec, resources, place, AT_ONCE if together else 1)
    drafter = "best" if DRAFT in resources.loaded else "ngram"
    speculation = Speculation(
        proposer=drafter, controller=Control.OFF if together else Control.AUTO
    )
    # One by one: to encode thousands takes longer than most wait for the first reply.
    fitting = (one for one in _requests(prompts, stage, seed, speculation) if _fits(session, one))
    lacking = islice(fitting, len(recording.replies), None)
    report(_beginning(len(recording.replies), len(prompts), stage))
    answers = _answers(session, recording, lacking, len(prompts), stage, progress)
    start = time.monotonic()
    for shard in batched(answers, SHARD, Timer(SHARD_MINUTES).due):
        recording.add(shard, time.monotonic() - start)
        start = time.monotonic()
    session.close()


def _answers(
    session: Session,
    recording: Recording,
    lacking: Iterable[Request],
    of: int,
    stage: RepliesStage,
    progress: ProgressFile | None,
) -> Iterator[tuple[RecordedReply, Tensor]]:
    """As long as there is room and time, but one in any case; ``of`` are to be there."""
    before, spent, start = len(recording.replies), recording.seconds, time.monotonic()
    allowed = float("inf") if stage.minutes is None else 60 * stage.minutes

    def allowable() -> Iterator[Request]:
        for number, request in enumerate(lacking):
            if recording.bytes > stage.gigabytes * 1e9:
                return report(_FULL.format(stage.gigabytes))
            if before + number and spent + time.monotonic() - start >= allowed:
                return report(_OVER.format(stage.minutes))
            yield request

    take, told = partial(_answer, recording.aux_layers), Timer(TOLD_MINUTES)
    if progress is not None:
        progress.write(Phase.RECORDING, done=before, of=of)
    for number, answer in enumerate(replies(session, allowable(), take), 1):
        yield answer
        done, passed = before + number, time.monotonic() - start
        left = min(passed / number * (of - done), max(0.0, allowed - spent - passed))
        if told.due():
            report(f"replies {done} of {of} at most, {left / 60:.0f} min left")
        if progress is not None:
            progress.write(Phase.RECORDING, done=done, of=of, seconds_left=round(left, 1))


def _beginning(there: int, of: int, stage: RepliesStage) -> str:
    """What is about to be done, before the first reply is there."""
    bound = "" if stage.minutes is None else f", or for {stage.minutes:g} minutes in all"
    kept = f"; {there} are here already" if there else ""
    return (
        f"Recording the model's replies to {of} prompts{bound}{kept}. Learning begins behind that."
    )


def _requests(
    prompts: Sequence[Prompt], stage: RepliesStage, seed: int, speculation: Speculation
) -> Iterator[Request]:
    """The temperatures take turns."""
    for number, (prompt, warmth) in enumerate(
        zip(prompts, cycle(stage.temperatures), strict=False)
    ):
        yield Request(
            messages=prompt,
            sampling=Sampling(temperature=warmth, seed=subseed(seed, "reply", number)),
            speculation=speculation,
            max_tokens=stage.tokens,
        )


def _fits(session: Session, request: Request) -> bool:
    try:
        session.prepare(request)
    except ContextExceeded:
        return False
    return True


def _answer(
    aux_layers: Sequence[AuxLayer], request: Request, reply: ReplyState, target: Target
) -> tuple[RecordedReply, Tensor]:
    """The reply, and its hidden states (aux layers, tokens - 1, hidden)."""
    tokens = (*reply.prompt, *(reply.token_ids or ()))
    states = [target.aux_hidden_states(aux_layer, 0, len(tokens) - 1) for aux_layer in aux_layers]
    recorded = RecordedReply(tokens, len(reply.prompt), request.sampling.temperature)
    return recorded, torch.stack(states)
