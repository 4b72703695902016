"""Generate the target's replies through the engine, and record tokens and hidden states."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice
from typing import Any, ClassVar

import torch
from torch import Tensor

from engine.decoding.target import Target
from engine.decoding.text.codec import TextCodec
from engine.decoding.work import WorkItem
from engine.drafting.resources import DRAFT, Resources
from engine.errors import InvalidRequest
from engine.local.session import Session
from engine.machine.devices import Device
from engine.models.base import BatchModel, Model
from engine.models.hidden_states import AuxLayer
from engine.reply import ReplyState
from engine.request import Control, Request, Speculation
from engine.train.data.prompts import Prompt, PromptsError
from engine.train.data.recording import RecordedReply, Recording, batched
from engine.train.progress import Phase, ProgressFile, Timer, report
from engine.train.recipe import RepliesStage
from engine.train.schema import subseed
from engine.values import MAX_ROWS
from engine.values.sampling import Sampling

Answer = tuple[RecordedReply, Tensor]
"""A reply and its hidden states (aux layers, tokens - 1, hidden)."""

_FULL = "recipe key replies.gigabytes ({:g}) is reached, so recording ends"
_OVER = "recipe key replies.minutes ({:g}) is over, so recording ends"
AT_ONCE = MAX_ROWS
"""Requests in a batch, each with a row."""
REPORT_MINUTES = 0.25
"""Interval of progress lines."""
SHARD, SHARD_MINUTES = 64, 2.0
"""A shard is written after so many replies or minutes: the most that a stop loses."""


def at_once(model: Model) -> bool:
    """Return True if the model can batch requests. ``record`` then drafts nothing: another request's row
    always counts, a drafted one only if accepted."""
    return (
        isinstance(model, BatchModel) and model.info.compiled
    )  # a GPU's memory is planned for one


class _StateRecorder:
    """A fake head, so that the session computes the hidden states to record."""

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
    """Add the replies that ``recording`` lacks, up to the size and time that ``stage`` allows.

    Prompts that the model does not take are skipped. ``place`` as of ``Session``. Requests are batched if
    the model can; otherwise ``drafting`` may hold a draft model, and without one n-grams draft. Raises
    RecordingError when the disk is full, PromptsError if it takes none.
    """
    heads: dict[str, Any] = {_StateRecorder.kind: _StateRecorder(recording.aux_layers)}
    resources = replace(drafting or Resources(), heads=heads)
    batches = at_once(model)
    session = Session(model, codec, resources, place, AT_ONCE if batches else 1)
    drafter = "best" if DRAFT in resources.loaded else "ngram"
    speculation = Speculation(proposer=drafter, controller=Control.OFF if batches else Control.AUTO)
    # Lazily: encoding thousands delays the first reply.
    fitting = (one for one in _requests(prompts, stage, seed, speculation) if takes(session, one))
    missing = islice(fitting, len(recording.replies), None)
    report(_beginning(len(recording.replies), len(prompts), stage))
    answers = _answers(session, recording, missing, len(prompts), stage, progress)
    start = time.monotonic()
    for shard in batched(answers, SHARD, Timer(SHARD_MINUTES).due):
        recording.add(shard, time.monotonic() - start)
        start = time.monotonic()
    session.close()
    if not recording.replies:
        raise none_taken(model)


def _answers(
    session: Session,
    recording: Recording,
    missing: Iterable[Request],
    of: int,
    stage: RepliesStage,
    progress: ProgressFile | None,
) -> Iterator[Answer]:
    """Yield replies while there is room and time, but at least one; ``of`` is the total."""
    before, spent, start = len(recording.replies), recording.seconds, time.monotonic()
    allowed = float("inf") if stage.minutes is None else 60 * stage.minutes

    def allowable() -> Iterator[Request]:
        for number, request in enumerate(missing):
            if recording.bytes > stage.gigabytes * 1e9:
                return report(_FULL.format(stage.gigabytes))
            if before + number and spent + time.monotonic() - start >= allowed:
                return report(_OVER.format(stage.minutes))
            yield request

    reports = Timer(REPORT_MINUTES)
    if progress is not None:
        progress.write(Phase.RECORDING, done=before, of=of)
    for number, answer in enumerate(_replies(session, allowable(), recording.aux_layers), 1):
        yield answer
        done, passed = before + number, time.monotonic() - start
        left = min(passed / number * (of - done), max(0.0, allowed - spent - passed))
        if reports.due():
            report(f"replies {done} of up to {of}, {left / 60:.0f} min left")
        if progress is not None:
            progress.write(Phase.RECORDING, done=done, of=of, seconds_left=round(left, 1))


def _beginning(recorded: int, of: int, stage: RepliesStage) -> str:
    """Return the line that announces the recording."""
    limit = "" if stage.minutes is None else f" for up to {stage.minutes:g} minutes"
    already = f"; {recorded} already recorded" if recorded else ""
    return (
        f"Recording the model's replies to {of} prompts{limit}{already}. Training "
        "starts after that."
    )


def _requests(
    prompts: Sequence[Prompt], stage: RepliesStage, seed: int, speculation: Speculation
) -> Iterator[Request]:
    """Yield a request for each prompt; the temperatures alternate."""
    for number, (prompt, temperature) in enumerate(
        zip(prompts, cycle(stage.temperatures), strict=False)
    ):
        yield Request(
            messages=prompt,
            sampling=Sampling(temperature=temperature, seed=subseed(seed, "reply", number)),
            speculation=speculation,
            max_tokens=stage.tokens,
        )


def takes(session: Session, request: Request) -> bool:
    """Return whether the model takes the prompt: it may be too long, or its template refuse it."""
    try:
        session.encode(request)
    except InvalidRequest as error:
        if error.field != "messages":
            raise
        return False
    return True


def none_taken(model: Model) -> PromptsError:
    """Return the error for prompts of which the model takes none."""
    return PromptsError(
        f"{model.info.name} takes none of the prompts: they are longer than its context of "
        f"{model.info.context:,} tokens, or its chat template refuses them. Choose other prompts."
    )


def _replies(
    session: Session, requests: Iterable[Request], aux_layers: Sequence[AuxLayer]
) -> Iterator[Answer]:
    """Yield the answers to ``requests``, in their order.

    As many requests run at once as the session can; the next is taken from ``requests`` when a slot is
    free. Raises what ``Session.steps`` raises.
    """
    waiting, started = iter(requests), deque[_Running]()
    more = True
    while more or started:
        running = [one for one in started if not one.done]
        while more and len(running) < session.parallel:
            request = next(waiting, None)
            if request is None:
                more = False
                break
            running.append(_Running(session, request, aux_layers))
            started.append(running[-1])
        for one in running:
            one.go_on()
        work = [one.work for one in running if one.work is not None]
        if work:
            session.run_batch(work)
        while started and started[0].done:
            yield from started.popleft().answers


class _Running:
    """A reply up to its next work item. ``answers``: its answer, once it is ``done``."""

    def __init__(self, session: Session, request: Request, aux_layers: Sequence[AuxLayer]) -> None:
        self.answers: list[Answer] = []
        self.work: WorkItem | None = None
        self.done = False
        self._request, self._aux_layers, self._state = request, aux_layers, ReplyState()
        self._steps = session.steps(request, self._state.add, lambda: False, on_finished=self._keep)

    def go_on(self) -> None:
        """Run up to the next work item, or to the end."""
        if self.work is not None and not self.work.ready:
            return
        self.work = next((work for work in self._steps if work is not None), None)
        self.done = self.work is None

    def _keep(self, target: Target) -> None:
        reply = self._state
        tokens = (*reply.prompt, *(reply.token_ids or ()))
        states = [target.aux_hidden_states(each, 0, len(tokens) - 1) for each in self._aux_layers]
        temperature = self._request.sampling.temperature
        recorded = RecordedReply(tokens, len(reply.prompt), temperature)
        self.answers.append((recorded, torch.stack(states)))
