"""Record what every drafter of a pair drafts at every position of its replies.

Each reply is decoded plainly. At each position each drafter drafts as far as it may; its tokens are
compared with the reply's, and dropped. Replaying such a recording (replay.py) needs no model: n-grams and
suffixes are computed from the tokens.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from pathlib import Path
from statistics import median
from time import perf_counter
from unittest.mock import patch

from app import paths
from app.inventory import open_inventory
from engine.bench.prompts import Prompt
from engine.bench.verify_cost import step_times
from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DraftProposal, Proposer
from engine.decoding.sampling import Sampler
from engine.drafting import proposers
from engine.drafting.resources import Resources
from engine.errors import GenerationFailed
from engine.events import Budget, Failed, Tree
from engine.loading.request import LoadRequest
from engine.local.engine import LocalEngine
from engine.local.slots import Slot
from engine.request import Request, Speculation
from engine.values import MAX_DEPTH, MAX_ROWS
from engine.values.messages import Message
from engine.values.sampling import Sampling

_REPEATS = 9
_FLOOR = 0.01
"""Probability of a draft at which recording it ends: what follows is hardly ever accepted."""
Draft = tuple[int, tuple[float, ...]]
"""How many of a draft's tokens are those of the reply, and the probability that the drafter gave each."""


@dataclass(frozen=True, slots=True)
class Text:
    """A recorded reply. ``drafts``: by drafter, its draft at each position of the reply."""

    kind: str
    temperature: float
    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    drafts: Mapping[str, Sequence[Draft]]


@dataclass(frozen=True, slots=True)
class Recording:
    """``verify_s``: seconds of a pass of 1, 2, ... rows. ``token_s``: of a drafted token, by drafter."""

    texts: tuple[Text, ...]
    verify_s: tuple[float, ...]
    token_s: Mapping[str, float]


def read(file: Path) -> Recording:
    """Return a stored recording."""
    stored = json.loads(lzma.decompress(file.read_bytes()))
    texts = [
        Text(
            one["kind"],
            one["temperature"],
            tuple(one["prompt"]),
            tuple(one["reply"]),
            {
                name: [(agreed, tuple(q)) for agreed, q in each]
                for name, each in one["drafts"].items()
            },
        )
        for one in stored["texts"]
    ]
    return Recording(tuple(texts), tuple(stored["verify_s"]), stored["token_s"])


def write(recording: Recording, file: Path) -> None:
    """Store a recording, compressed."""
    file.write_bytes(lzma.compress(json.dumps(asdict(recording), separators=(",", ":")).encode()))


class Recorder:
    """Drafts nothing, but has each of ``members`` draft at each position."""

    def __init__(self, members: Mapping[str, Proposer]) -> None:
        self.members = members
        self.seconds: dict[str, list[float]] = {name: [] for name in members}

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.context = context
        self.drafted: dict[str, list[DraftProposal]] = {name: [] for name in self.members}
        for member in self.members.values():
            member.begin(context, sampler)

    def prepare(self, context: Context) -> Iterator[int]:
        for member in self.members.values():
            yield from member.prepare(context)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        for name, member in self.members.items():
            began = perf_counter()
            found = member.propose(context, Budget(MAX_DEPTH, MAX_DEPTH, floor=_FLOOR))
            if found.tree.is_chain and len(found.tree):
                self.seconds[name].append((perf_counter() - began) / len(found.tree))
            self.drafted[name].append(found)
        return NOTHING

    def observe(self, acceptance: Acceptance) -> None:
        for member in self.members.values():
            member.observe(acceptance)

    def close(self) -> None: ...

    def drafts(self) -> dict[str, list[Draft]]:
        """Return the drafts of the reply that has ended, of drafters whose drafts are chains."""
        reply = self.context.output
        return {
            name: [
                (
                    _agreeing(one.tree, reply[place:]),
                    tuple(round(q or 0.0, 4) for q in one.chosen_q),
                )
                for place, one in enumerate(found)
            ]
            for name, found in self.drafted.items()
            if all(one.tree.is_chain for one in found)
        }


def _agreeing(tree: Tree, reply: Sequence[int]) -> int:
    pairs = zip(tree.tokens, reply, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@dataclass(slots=True)
class _Recorders:
    """Takes the place of a slot's proposers."""

    made: list[Recorder] = field(default_factory=list)

    def proposer(self, slot: Slot) -> Recorder:
        if not self.made:
            self.made.append(Recorder(_members(slot.resources)))
        return self.made[0]


def _members(resources: Resources) -> dict[str, Proposer]:
    names = [name for name in proposers.neural() if name in proposers.available(resources.loaded)]
    return {name: proposers.create(name, {}, resources) for name in names}


def record(
    request: LoadRequest, prompts: Sequence[Prompt], temperatures: Sequence[float], tokens: int
) -> Recording:
    """Return what the pair drafts in the replies to ``prompts``. Raises GenerationFailed."""
    catalog = open_inventory(paths.data_folder(None)).catalog
    engine, recorders, texts = LocalEngine(lambda: catalog), _Recorders(), list[Text]()
    with patch.object(Slot, "proposer", lambda slot, _: recorders.proposer(slot)):
        try:
            engine.load(request)
            seconds = engine.measure(
                lambda model: step_times(model, range(1, MAX_ROWS + 1), repeats=_REPEATS)
            )
            for temperature in temperatures:
                for prompt in prompts:
                    texts.append(_text(engine, prompt, temperature, tokens, recorders.made))
                    print(temperature, prompt.kind, len(texts[-1].reply), flush=True)
        finally:
            engine.close()
    token_s = {name: median(each) for name, each in recorders.made[0].seconds.items() if each}
    return Recording(tuple(texts), tuple(seconds.values()), token_s)


def _text(
    engine: LocalEngine, prompt: Prompt, temperature: float, tokens: int, made: list[Recorder]
) -> Text:
    request = Request(
        messages=(*prompt.before, Message("user", prompt.turns[0])),
        sampling=Sampling(temperature=temperature, seed=1),
        speculation=Speculation(proposer="draft", depth=1),
        max_tokens=tokens,
    )
    for event in engine.generate(request):
        if isinstance(event, Failed):
            raise GenerationFailed(event.message)
    context = made[0].context
    written = tuple(context.output)
    return Text(prompt.kind, temperature, tuple(context.prompt.tokens), written, made[0].drafts())
