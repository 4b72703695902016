"""Learning while nobody waits: the loaded head takes steps on the target's own replies, and is tried.

Learning runs on a thread of its own. All that it needs of the loaded models it asks for in slices of some
50 ms, which the engine does when no request runs or waits (``Slices``); between two of them it computes
gradients for a few rows. So a request that comes waits for one slice at most.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import Tensor

from engine.decoding.context import Context, common_prefix
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.drafting import heads, proposers
from engine.drafting.heads.base import Head, HeadPlan
from engine.drafting.learned import LearnedHead, LearnedState, Lesson, Trial
from engine.drafting.resources import Resources
from engine.events import Budget
from engine.local.pair import LoadedPair
from engine.models.base import HiddenStateModel, ModelInfo
from engine.request import Request, Speculation
from engine.train.data.prompts import Prompt
from engine.train.data.recording import RecordedReply, Recording, with_normed
from engine.train.distillation import DistilTask
from engine.train.heads import kinds
from engine.train.loop import Loop
from engine.train.output.run_directory import RunDirectory
from engine.train.progress import Clock
from engine.train.recipe import Recipe
from engine.train.schema import Budget as TrainingBudget
from engine.train.schema import OptimizerStage
from engine.train.trainer import Continuing, TargetView, continued
from engine.values.sampling import AcceptanceRule, Sampling

T = TypeVar("T")

_HELD_OUT = 8  # of so many replies the newest one is held out
_MOST_HELD_OUT = 24
_EPOCHS = 3
_ROWS = 32  # of a slice: some 90 ms for a target of 1.5 billion parameters
_SHARD = 32  # replies
_STATE_BYTES = 512 << 20  # hidden states on disk while a head learns
_OTHERS, _REPLY, _TEMPERATURE = 144, 96, 0.8  # replies to general prompts, most tokens in one
_KEEPS = 0.98
"""Share of the accepted length on general prompts that a new version must keep. The mean of 48 replies is
certain to about a hundredth."""
_SHARES = 1.0, 0.6, 0.4  # of the way from the old weights to the new ones, each tried
_DEPTH = 6  # tokens drafted a round in a trial
_RECIPE = Recipe(
    kind="",
    name="",
    target="",
    seed=0,
    budget=TrainingBudget(),
    shape={},
    optimizer=OptimizerStage("adamw", learning_rate=3e-4, weight_decay=0.0, warmup=0.05, decay=0.5),
    window=192,
    batch_tokens=192,
    micro_batches=6,
)
"""Short rows, whose gradients take some 50 ms each."""


class Slices(Protocol):
    """Does short work with the loaded pair when nobody waits."""

    def __call__(self, work: Callable[[LoadedPair], T]) -> T:
        """Raises NotLoaded if another pair, or none, is loaded."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The head that learns: as published, with its folder and its target. ``general`` returns prompts of
    all kinds, so that it unlearns nothing."""

    head: HeadPlan
    place: LearnedHead
    info: ModelInfo
    general: Callable[[], Sequence[Prompt]]


class _Target:
    """The part of a target that trainers use, computed in slices."""

    def __init__(self, slices: Slices, info: ModelInfo) -> None:
        self._slices, self.info = slices, info

    def embed(self, tokens: Sequence[int]) -> Tensor:
        return self._slices(lambda pair: _model(pair).embed(tokens))

    def logits(self, normed: Tensor) -> Tensor:
        return self._slices(lambda pair: _model(pair).logits(normed))


def learn(slices: Slices, subject: Subject, state: LearnedState, lessons: list[Lesson]) -> Trial:
    """Make a new version from ``lessons``, try it on the newest of them, and leave it in ``work/new``.

    It continues from the version in use. Raises NotLoaded when the pair goes, ModelError for a head that
    cannot learn, RecordingError and OSError for a full disk.
    """
    place, began = subject.place, time.monotonic()
    shutil.rmtree(place.work, ignore_errors=True)
    place.work.mkdir(mode=0o700, parents=True)
    held_out = lessons[-max(1, min(_MOST_HELD_OUT, len(lessons) // _HELD_OUT)) :]
    others = _others(slices, subject)
    kept = others[-(len(others) // 3) :]
    model = cast(HiddenStateModel, _Target(slices, subject.info))
    view = TargetView(model, torch.device("cpu"), _RECIPE.hard_weight)
    used = slices(lambda pair: _plan_in(pair, subject)) if state.used else subject.head
    trainer = continued(kinds.trainer(subject.head.kind), used.stored, view)
    first = [weight.detach().clone() for weight in trainer.module.parameters()]
    recording = Recording(place.work / "states", with_normed(trainer.aux_layers))
    learned = lessons[: -len(held_out)]
    studied = _studied(slices, subject, learned, others[: -len(kept)])
    own = _compute(slices, recording, studied).intersection(learned)
    positions = sum(reply.length for reply in recording.replies)
    recipe = replace(_RECIPE, seed=len(state.trials))
    task = DistilTask(trainer, recording, recipe, view.device, lambda tell: {})
    loop: Loop[Any] = Loop(
        subject.head.kind, trainer.module, recipe, task, RunDirectory(place.work)
    )
    clock = Clock(TrainingBudget(tokens=_EPOCHS * positions))
    loop.begin_at(clock)
    batches = task.batches(clock)
    while clock.progress < 1.0:
        loop.update(batches)
    before, others_before = (accepted_length(slices, used, texts) for texts in (held_out, kept))
    tried: dict[Path, Trial] = {}
    for made in _between(trainer, first, place.work):
        plan = slices(lambda pair, made=made: _plan_in(pair, subject, made))  # type: ignore[misc]
        after, others_after = (accepted_length(slices, plan, texts) for texts in (held_out, kept))
        tried[made] = Trial(
            at=date.today().isoformat(),
            replies=len(own),
            tokens=sum(len(lesson.tokens) - lesson.start for lesson in own),
            seconds=round(time.monotonic() - began, 1),
            before=before,
            after=after,
            others_before=others_before,
            others_after=others_after,
            taken=after > before and others_after >= _KEEPS * others_before,
        )
    best = max(tried, key=lambda made: (tried[made].taken, tried[made].after))
    best.rename(place.work / "new")
    return tried[best]


@torch.no_grad()
def _between(trainer: Continuing, first: Sequence[Tensor], folder: Path) -> Iterator[Path]:
    """Export what was learned, then weights between those and the ``first`` ones.

    The latter keep most of what was learned and lose less elsewhere (WiSE-FT, arXiv 2109.01903).
    """
    weights = list(trainer.module.parameters())
    last = [weight.clone() for weight in weights]
    for share in _SHARES:
        for weight, old, new in zip(weights, first, last, strict=True):
            weight.copy_(old.lerp(new, share))
        made = folder / f"share-{share:g}"
        trainer.export(made)
        yield made


def accepted_length(slices: Slices, plan: HeadPlan, texts: Sequence[Lesson]) -> float:
    """Return the mean accepted length of the head's drafts for these replies, each as it was written."""
    rounds = accepted = 0
    head = slices(lambda pair: heads.load(plan, pair.plan.sizes.linear_factory))
    for text in texts:
        replay = slices(lambda pair, text=text: _replay(pair, head, text))  # type: ignore[misc]
        while (stood := slices(lambda pair: next(replay, None))) is not None:  # noqa: B023
            rounds += stood >= 0
            accepted += max(0, stood)
    return round(1 + accepted / max(1, rounds), 3)


def _replay(pair: LoadedPair, head: Head, text: Lesson) -> Iterator[int]:
    """Yield how many drafted tokens are the reply's own in each round; -1 after a part of the prompt."""
    model = _model(pair)
    target = Target(model, head.aux_layers, captures=False)
    resources = Resources(heads={head.kind: head}, backbone=target)
    proposer = proposers.create(head.kind, {}, resources)
    context = Context(text.tokens[: text.start])
    sampler = Sampler(
        Sampling(temperature=0), AcceptanceRule.GREEDY, 0, context, model.info.vocabulary
    )
    proposer.begin(context, sampler)
    for at in range(0, text.start - 1, _ROWS):
        target.extend(text.tokens[at : min(at + _ROWS, text.start - 1)])
        yield -1
    for _ in proposer.prepare(context):
        yield -1
    at = text.start
    while at < len(text.tokens):
        left = text.tokens[at:]
        drafted = proposer.propose(context, Budget(_DEPTH, _DEPTH)).tree.tokens
        stood = common_prefix(drafted, left[:-1])
        target.extend(text.tokens[at - 1 : at + stood])
        context.tokens.extend(left[: stood + 1])
        at += stood + 1
        yield stood
    proposer.close()


def _others(slices: Slices, subject: Subject) -> list[Lesson]:
    """Return the target's replies to general prompts; write those that are not there yet."""
    place = LearnedHead(subject.place.folder / "others")
    found = place.lessons(subject.info.context)
    for number, prompt in enumerate(subject.general()[len(found) : _OTHERS], len(found)):
        request = Request(messages=prompt, speculation=Speculation(proposer="none"))
        asked = slices(lambda pair, request=request: pair.session.encode(request))  # type: ignore[misc]
        reply = _written(slices, asked, subject.info, number)
        place.add([*asked, *reply], len(asked))
    return place.lessons(subject.info.context)


def _again(slices: Slices, subject: Subject, lesson: Lesson, seed: int) -> Lesson:
    """Return another reply of the target to the same prompt, so that a head sees more of its topics."""
    asked = list(lesson.tokens[: lesson.start])
    reply = _written(slices, asked, subject.info, 2 * seed + 1)
    return Lesson((*asked, *reply), lesson.start)


def _studied(
    slices: Slices, subject: Subject, learned: Sequence[Lesson], general: Sequence[Lesson]
) -> Iterator[Lesson]:
    """Yield by turns, since not all may have room: a reply to a general prompt, the newest one of the
    user's, and another one to its prompt, which is written now."""
    others = iter(general)
    for seed, lesson in reversed([*enumerate(learned)]):
        yield from islice(others, 1)
        yield lesson
        yield _again(slices, subject, lesson, seed)
    yield from others


def _written(slices: Slices, asked: list[int], info: ModelInfo, seed: int) -> list[int]:
    """Return the target's reply, of at most ``_REPLY`` tokens; every other one is sampled."""
    most = min(_REPLY, info.context - len(asked))
    state = slices(lambda pair: _model(pair).new_state(len(asked) + most))
    for at in range(0, len(asked) - 1, _ROWS):
        part = asked[at : min(at + _ROWS, len(asked) - 1)]
        slices(lambda pair, part=part: _model(pair).forward(part, state, last=0))  # type: ignore[misc]
    reply, token, noise = list[int](), asked[-1], torch.Generator().manual_seed(seed)
    while len(reply) < most and token not in info.eos:
        logits = slices(lambda pair: _model(pair).forward([token], state, last=1))  # noqa: B023
        p = torch.softmax(logits[0].cpu() / _TEMPERATURE, -1)  # as the noise
        token = int(torch.multinomial(p, 1, generator=noise) if seed % 2 else p.argmax())
        reply.append(token)
    return reply


def _compute(slices: Slices, recording: Recording, lessons: Iterable[Lesson]) -> set[Lesson]:
    """Record the hidden states of the first lessons, as many as there is room for, and return these."""
    recorded = set[Lesson]()
    shard: list[tuple[RecordedReply, Tensor]] = []
    room = _STATE_BYTES
    for lesson in lessons:
        states = _states(slices, recording, lesson.tokens)
        room -= 2 * states.numel()
        if room < 0:
            break
        recorded.add(lesson)
        shard.append((RecordedReply(lesson.tokens, lesson.start, 0.0), states))
        if len(shard) == _SHARD:
            recording.add(shard)
            shard = []
    if shard:
        recording.add(shard)
    return recorded


def _states(slices: Slices, recording: Recording, tokens: Sequence[int]) -> Tensor:
    """Return the hidden states of all tokens but the last: (aux layers, tokens - 1, hidden)."""
    layers, read = recording.aux_layers, tokens[:-1]
    state = slices(lambda pair: _model(pair).new_state(len(tokens), layers))
    for at in range(0, len(read), _ROWS):
        part = read[at : at + _ROWS]
        slices(lambda pair, part=part: _model(pair).forward(part, state, last=0))  # type: ignore[misc]
    assert state.aux is not None
    return torch.stack([state.aux.at(layer)[: len(read)].float() for layer in layers])


def _plan_in(pair: LoadedPair, subject: Subject, made: Path | None = None) -> HeadPlan:
    """Return the plan of a version that was ``made``, by default of the one in use."""
    return subject.place.plan(pair.plan.target.checkpoint, subject.head, made)


def _model(pair: LoadedPair) -> HiddenStateModel:
    model = pair.session.target.model
    assert isinstance(model, HiddenStateModel)
    return model
