"""``python -m tools.overhead``: microseconds of a round besides the models' steps.

These are proposing, judging, events, publishing and reading them. Target and draft are tables whose own
time is subtracted; what remains is Python's. Every token is predictable, so that a round has as many
tokens as its depth allows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

from app import paths
from app.cli import options
from app.cli.text.output import progress, table
from app.ui.rounds import view
from engine import trace
from engine.api import Generation
from engine.decoding.text.codec import TextCodec
from engine.drafting import proposers
from engine.drafting.resources import Resources
from engine.events import Emitted, Event
from engine.local.session import Session
from engine.models.base import ModelInfo
from engine.models.sequence_state import SequenceState
from engine.reply import ReplyState
from engine.request import PLAIN, Control, Request, Speculation
from engine.values.sampling import Sampling
from tools.running import run_command

RING = range(300, 361)
"""The tokens of every text, each followed by the next: a tokenizer's ordinary pieces."""
PROMPT = (*RING, *RING)  # n-grams find themselves from the first round on
VOCABULARY = 4096
_SURE = 30.0  # the logit of the only likely token

Reader = Callable[[Event], object]
"""Does with an event what those do who follow a reply."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A proposer; without a ``depth`` the controller finds it."""

    proposer: str
    depth: int | None


SETTINGS = (
    Setting("none", None),
    Setting("ngram", 4),
    Setting("suffix", None),
    Setting("draft", 4),
    Setting("draft", None),
)


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds a round, by what they go to.

    ``propose``: drafting, and the controller's budget. ``judge``: bringing logits, probabilities and
    acceptance together, and telling the proposer. ``events``: the controller's learning, and the round as
    text. ``door``: publishing the event. ``read``: what a reader does with it.
    """

    proposer: str
    depth: int | None
    rounds: int
    tokens_per_round: float
    propose: float
    judge: float
    events: float
    door: float
    read: float

    @property
    def total(self) -> float:
        return self.propose + self.judge + self.events + self.door + self.read


class SuccessorModel:
    """A model that is sure of one token, the next one of ``RING``. ``seconds``: what its steps took."""

    def __init__(self, vocabulary: int, context: int) -> None:
        self.info = ModelInfo(
            "Successor", "Table", vocabulary, context, 0, "fp32", "cpu", frozenset()
        )
        self.seconds = 0.0
        self._rows = torch.zeros(len(RING), vocabulary)  # of the token of the same place in RING
        for place in range(len(RING)):
            self._rows[place, RING[(place + 1) % len(RING)]] = _SURE

    def new_state(self, context: int) -> SequenceState:
        return SequenceState(context)

    def forward(
        self, tokens: Sequence[int], state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        """See ``Model``."""
        started = perf_counter()
        state.append(len(tokens), final=final)
        shown = tokens[len(tokens) - last :]
        places = torch.tensor(
            [(token - RING.start) % len(RING) for token in shown], dtype=torch.long
        )
        logits = self._rows[places]
        self.seconds += perf_counter() - started
        return logits


class _Bench:
    """A pair of tables, and the clocks around what is not theirs."""

    def __init__(self, tokenizer: Path, vocabulary: int, tokens: int, temperature: float) -> None:
        context = len(PROMPT) + tokens + 1
        self._models = SuccessorModel(vocabulary, context), SuccessorModel(vocabulary, context)
        target, draft = self._models
        self._session = Session(target, TextCodec(tokenizer), Resources(draft=draft))
        self._tokens = tokens
        self._sampling = Sampling(temperature=temperature, seed=1)

    def reply(self, setting: Setting, read: Reader) -> Row:
        """One whole reply, timed event by event."""
        generation = Generation(self._request(setting), lambda _: None)
        inbox: SimpleQueue[Event] = SimpleQueue()
        generation.listen(inbox.put)
        rounds = tokens = 0
        propose = judge = events = door = reading = 0.0
        stepped, draft_stepped = self._stepped()
        began = perf_counter()
        for event in self._session.run(generation.request, lambda: False):
            narrated = perf_counter()
            generation.publish(event)
            published = perf_counter()
            read(inbox.get())
            done = perf_counter()
            if isinstance(event, Emitted) and event.round is not None:
                timing = event.round.timing
                steps, draft_steps = (
                    now - before
                    for now, before in zip(self._stepped(), (stepped, draft_stepped), strict=True)
                )
                rounds, tokens = rounds + 1, tokens + event.round.emitted
                propose += timing.draft_s - draft_steps
                judge += timing.total_s - timing.draft_s - steps
                events += narrated - began - timing.total_s
                door += published - narrated
                reading += done - published
            stepped, draft_stepped = self._stepped()
            began = perf_counter()
        parts = (1e6 * part / rounds for part in (propose, judge, events, door, reading))
        return Row(setting.proposer, setting.depth, rounds, tokens / rounds, *parts)

    def close(self) -> None:
        self._session.close()

    def _stepped(self) -> tuple[float, float]:
        target, draft = self._models
        return target.seconds, draft.seconds

    def _request(self, setting: Setting) -> Request:
        auto = setting.depth is None and setting.proposer != "none"
        return Request(
            token_ids=PROMPT,
            sampling=self._sampling,
            speculation=Speculation(
                proposer=setting.proposer,
                depth=setting.depth,
                controller=Control.AUTO if auto else None,
                options=dict(proposers.entry_of(setting.proposer).isolated_options),
            ),
            max_tokens=self._tokens,
            reuse_cache=False,
            ignore_eos=True,
        )


def run(
    tokenizer: Path,
    reader: Callable[[], Reader],
    *,
    settings: Sequence[Setting] = SETTINGS,
    vocabulary: int = VOCABULARY,
    tokens: int = 256,
    temperature: float = 0.0,
    repeats: int = 9,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """A row for each setting: of ``repeats`` replies, in turns, the one whose total is in the middle.

    ``tokenizer``: the folder of any model. ``reader`` is asked for one who reads a reply from its start.
    """
    bench = _Bench(tokenizer, vocabulary, tokens, temperature)
    replies: dict[Setting, list[Row]] = {setting: [] for setting in settings}
    for setting in settings:  # first calls build what later ones reuse
        bench.reply(setting, reader())
    for repeat in range(repeats):
        for setting in settings:
            replies[setting].append(bench.reply(setting, reader()))
        on_progress(repeat + 1, repeats)
    bench.close()
    return [
        sorted(several, key=lambda row: row.total)[repeats // 2] for several in replies.values()
    ]


def as_json(rows: Sequence[Row]) -> dict[str, Any]:
    """Stable keys for scripts; times in microseconds a round."""
    return {"results": [{**asdict(row), "total": row.total} for row in rows]}


def measure(
    temperature: Annotated[float, typer.Option(help="0: always the most likely token.")] = 0.0,
    vocabulary: Annotated[int, typer.Option(min=1024, help="Tokens that are judged among.")] = 4096,
    max_tokens: Annotated[int, typer.Option(min=16, help="Of each reply.")] = 256,
    repeats: Annotated[int, typer.Option(min=1, help="Of each the middle one counts.")] = 9,
    json_too: options.JsonOption = False,
) -> None:
    """Microseconds a round besides the models' own steps, with models that take none."""
    Sampling(temperature=temperature)  # told before anything is measured
    with progress("Timing") as on_progress:
        rows = run(
            paths.assets() / "pip" / "target",
            reader,
            vocabulary=vocabulary,
            tokens=max_tokens,
            temperature=temperature,
            repeats=repeats,
            on_progress=on_progress,
        )
    _print(rows)
    if json_too:
        print(json.dumps(as_json(rows)))


def reader() -> Reader:
    """Return a reader that does what the chat page does: view, totals and a line of the trace."""
    reply = ReplyState()

    def read(event: Event) -> None:
        reply.add(event)
        view.show(event)
        view.totals(reply)
        json.dumps(trace.to_json(event), separators=(",", ":"))

    return read


def _print(rows: Sequence[Row]) -> None:
    head = ("proposer", "depth", "tokens", "propose", "judge", "events", "door", "read", "total")
    lines = [
        (
            row.proposer,
            "-" if row.proposer == PLAIN else str(row.depth or "auto"),
            f"{row.tokens_per_round:.1f}",
            *(
                f"{part:.0f}"
                for part in (row.propose, row.judge, row.events, row.door, row.read, row.total)
            ),
        )
        for row in rows
    ]
    print("Microseconds a round, the models' own steps left out:\n")
    print(table(head, lines, frozenset(range(1, len(head)))))


if __name__ == "__main__":
    run_command(measure)
