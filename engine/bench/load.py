"""Many clients at once: their tokens per second together, and each one's time to first token.

Each client asks one question after the other, so as many are in flight as there are clients. Where
another engine stands beside ours both answer the same tokens, and who comes first turns from count to
count: speeds of one machine drift.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median
from time import perf_counter

from engine.api import Engine, Loaded
from engine.bench.prompts import Prompt
from engine.bench.real.peers import llama_cpp
from engine.bench.real.process import Server
from engine.bench.reports.tables import Table
from engine.errors import ForetokenError, InvalidRequest, PeerFailed
from engine.events import Emitted, Failed
from engine.files import expanded
from engine.machine import threads
from engine.models.checkpoints.gguf.description import is_gguf
from engine.request import Request, Speculation


@dataclass(frozen=True, slots=True)
class Contender:
    """An engine that answers any number of clients.

    ``tokens`` continues a prompt greedily by some tokens; it yields when tokens came, by
    ``perf_counter``, and how many. It raises ForetokenError.
    """

    name: str
    tokens: Callable[[Sequence[int], int], Iterator[tuple[float, int]]]


def ours(engine: Engine, speculation: Speculation) -> Contender:
    """Return this process's engine, which has a pair loaded."""

    def tokens(prompt: Sequence[int], limit: int) -> Iterator[tuple[float, int]]:
        request = Request(
            token_ids=tuple(prompt), max_tokens=limit, ignore_eos=True, speculation=speculation
        )
        for event in engine.generate(request):
            if isinstance(event, Failed):
                raise ForetokenError(event.message)
            if isinstance(event, Emitted):
                yield perf_counter(), len(event.tokens or ())

    return Contender("Foretoken", tokens)


def theirs(server: Server) -> Contender:
    """Return llama.cpp's server, started with as many slots as there are clients."""

    def tokens(prompt: Sequence[int], limit: int) -> Iterator[tuple[float, int]]:
        body = llama_cpp.body(prompt, limit, ignore_eos=True, stream=True)
        for at, told in server.stream("/completion", body):
            if "error" in told:
                raise PeerFailed(f"llama-server refused a request: {told['error']}")
            if came := len(told.get("tokens") or ()):
                yield at, came

    return Contender(llama_cpp.NAME, tokens)


@contextmanager
def llama_server(loaded: Loaded, folder: Path, context: int, slots: int) -> Iterator[Contender]:
    """Start llama.cpp's server in ``folder`` with the file and threads of ``loaded`` and
    ``slots`` of ``context`` tokens. Raises InvalidRequest, PeerFailed."""
    program, target = llama_cpp.find(folder, llama_cpp.SERVER), expanded(loaded.target_id)
    if program is None:
        raise InvalidRequest("llama_cpp", f"{folder} has no {llama_cpp.SERVER}: build it there.")
    if not is_gguf(target):
        reason = f"llama.cpp reads GGUF files only, and {target} is not one. Load a GGUF file."
        raise InvalidRequest("llama_cpp", reason)
    count = loaded.request.threads or threads.default()
    command = llama_cpp.command(program, target, context * slots, count, (), parallel=slots)
    with (
        tempfile.TemporaryDirectory() as logs,
        closing(Server(llama_cpp.SERVER, command, Path(logs) / "server.log")) as server,
    ):
        yield theirs(server)


@dataclass(frozen=True, slots=True)
class Plan:
    """``clients`` at a time, each with ``rounds`` questions of ``max_tokens`` tokens."""

    clients: tuple[int, ...]
    rounds: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one engine for a number of clients. Seconds to the first token count from
    the question on."""

    engine: str
    clients: int
    replies: int
    tokens: int
    seconds: float
    first_median_s: float
    first_p95_s: float
    longest_pause_s: float

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class _Reply:
    tokens: int
    first_s: float
    longest_pause_s: float
    ended: float


def run(
    contenders: Sequence[Contender],
    prompts: Sequence[Sequence[int]],
    plan: Plan,
    on_row: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Run every count with every contender. Each question is another one of ``prompts``, of
    which ``needed`` are used. Raises ForetokenError for a reply that fails or is too short."""
    rows, left = list[Row](), list(prompts)
    for contender in contenders:  # what is made at the first step is not counted
        _ask(contender, left[0], plan.max_tokens)
    left = left[1:]
    for number, clients in enumerate(plan.clients):
        asked, left = left[: clients * plan.rounds], left[clients * plan.rounds :]
        in_turn = contenders if number % 2 == 0 else contenders[::-1]
        for contender in in_turn:
            rows.append(_crowd(contender, asked, clients, plan))
            on_row(rows[-1])
    return rows


def needed(plan: Plan) -> int:
    """Return how many prompts ``run`` needs."""
    return 1 + plan.rounds * sum(plan.clients)


def numbered(prompts: Sequence[Prompt], count: int) -> list[str]:
    """Return that many questions, no two of which begin alike, so that no cached prefix is reused."""
    return [
        f"({number}) {prompts[number % len(prompts)].turns[0]}" for number in range(1, count + 1)
    ]


def table(rows: Sequence[Row]) -> Table:
    """Return a line for each row."""
    head = ("engine", "clients", "tok/s", "first, median", "first, p95", "longest pause")
    return head, [
        (
            row.engine,
            str(row.clients),
            f"{row.tokens_per_s:.1f}",
            *(
                f"{each:.2f} s"
                for each in (row.first_median_s, row.first_p95_s, row.longest_pause_s)
            ),
        )
        for row in rows
    ]


def _crowd(contender: Contender, prompts: Sequence[Sequence[int]], clients: int, plan: Plan) -> Row:
    def ask_all(client: int) -> list[_Reply]:
        own = prompts[client * plan.rounds : (client + 1) * plan.rounds]
        return [_ask(contender, prompt, plan.max_tokens) for prompt in own]

    began = perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        replies = [reply for own in pool.map(ask_all, range(clients)) for reply in own]
    firsts = sorted(reply.first_s for reply in replies)
    return Row(
        engine=contender.name,
        clients=clients,
        replies=len(replies),
        tokens=sum(reply.tokens for reply in replies),
        seconds=max(reply.ended for reply in replies) - began,
        first_median_s=median(firsts),
        first_p95_s=firsts[ceil(0.95 * len(firsts)) - 1],
        longest_pause_s=max(reply.longest_pause_s for reply in replies),
    )


def _ask(contender: Contender, prompt: Sequence[int], limit: int) -> _Reply:
    began = last = perf_counter()
    first, tokens, pause = 0.0, 0, 0.0
    for at, came in contender.tokens(prompt, limit):
        if tokens:
            pause = max(pause, at - last)
        else:
            first = at - began
        tokens, last = tokens + came, at
    if tokens < limit:
        raise ForetokenError(
            f"{contender.name} wrote {tokens} of {limit} tokens. Its context may be too short for a "
            "prompt and its reply."
        )
    return _Reply(tokens, first, pause, last)
