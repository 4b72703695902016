"""The engine as Dynamo's worker: imports Dynamo, and nothing else of the app imports this at the start.

Tokens in, tokens out, and not OpenAI's words: so the frontend can route a chat to the worker whose cache
has its beginning, and can have another worker go on with a reply whose worker died (its option
--migration-limit). Replies at temperature 0, and those with a seed, go on in the same words then, up to
ties of rounding: noise is keyed by seed and position. Penalties that count the reply alone count anew.

Lifecycle, signals, draining and cancelling are those of Dynamo's ``dynamo.common.backend`` (1.6.1).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamo._core import get_tool_parser_names
from dynamo.common.backend import EngineConfig, LLMEngine, LlmRegistration, Worker, WorkerConfig
from dynamo.common.backend.metrics import register_engine_registry
from dynamo.common.backend.publisher import PushSource
from dynamo.common.configuration.groups.runtime_args import (
    DynamoRuntimeArgGroup,
    DynamoRuntimeConfig,
)
from dynamo.common.utils.token_ids import normalize_request_token_ids
from dynamo.llm import ModelInput
from dynamo.llm.exceptions import EngineShutdown, InvalidArgument, Unknown

from app.server.errors import ApiError, closing
from app.server.monitoring.counter import Counter, Ticket
from app.worker import discovery
from app.worker.asked import asked_of
from app.worker.card import Card
from app.worker.chunks import Chunk, Chunks
from app.worker.held import BLOCK, Change, Held, Stored
from engine.errors import ForetokenError, InvalidRequest
from engine.events import Event, Finished, FinishReason
from engine.request import Speculation

if TYPE_CHECKING:
    from engine.api import Engine, Loaded
    from engine.local.engine import LocalEngine

COMPONENT = "foretoken"

DRAIN_S = 20
"""Seconds that replies have to end in when the worker is asked to; with Dynamo's own grace before it and
what its runtime takes, within the 30 that Kubernetes gives."""
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Offer:
    """What is served: the model's card, the name that clients ask for, and how it drafts for all."""

    card: Card
    name: str
    speculation: Speculation


class ForetokenEngine(LLMEngine):
    """A loaded engine behind Dynamo's own interface. Answers as many at once as it can; others wait."""

    def __init__(self, engine: Engine, offer: Offer) -> None:
        loaded = engine.loaded
        assert loaded is not None
        self._loaded: Loaded = loaded
        self._offer = offer
        self._counter = Counter(engine)
        self._tickets: dict[str, Ticket] = {}
        self._kv: Any = None

    @classmethod
    async def from_args(cls, argv: list[str] | None = None) -> tuple[ForetokenEngine, WorkerConfig]:
        """How Dynamo's own launcher would make one: from words alone. Raises InvalidRequest."""
        raise InvalidRequest(
            "dynamo",
            "Dynamo's launcher knows no pair to load. Start the worker with `foretoken worker --dynamo`, "
            "which loads one first.",
        )

    async def start(self, worker_id: int) -> EngineConfig:
        """What is registered. Everything is loaded by now."""
        context, at_once = self._loaded.context, self._loaded.capabilities.parallel
        return EngineConfig(
            model=str(self._offer.card.folder),
            served_model_name=self._offer.name,
            llm=LlmRegistration(
                context_length=context,
                kv_cache_block_size=BLOCK,
                total_kv_blocks=at_once * -(-context // BLOCK),
                max_num_seqs=at_once,
                max_num_batched_tokens=context,
            ),
        )

    async def generate(self, request: Any, context: Any) -> AsyncGenerator[Chunk, None]:
        """One reply. Raises Dynamo's exceptions, by which the frontend answers or tries elsewhere."""
        with _translated():
            offer, body = self._offer, normalize_request_token_ids(request)
            asked = asked_of(body, offer.speculation, offer.card.eos, offer.card.opening)
            ticket = await self._counter.admit((asked.request,), offer.name)
            (generation,) = ticket.generations
            self._tickets[context.id()] = ticket
            chunks = Chunks(asked)
            try:
                async with contextlib.aclosing(ticket.events_of(generation)) as events:
                    async for event in events:
                        if _cut_short(event) and not context.is_stopped():
                            raise closing()  # nobody asked for that: another worker goes on
                        chunk = chunks.of(event)
                        if chunk is not None:
                            yield chunk
            finally:
                self._tickets.pop(context.id(), None)
                ticket.close()

    async def abort(self, context: Any) -> None:
        """The client left, or the frontend has what it wants."""
        ticket = self._tickets.pop(context.id(), None)
        if ticket is not None:
            ticket.close()

    async def cleanup(self) -> None:
        """Lets replies end, and hands on those that take too long; whoever loaded the engine closes it.

        Dynamo has taken the worker off the list by now, and waited for a few seconds.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while self._counter.tickets:
                    await asyncio.sleep(LOOK_S)
        self._counter.end()
        self._kv = None

    async def kv_event_sources(self) -> list[PushSource]:
        """What the cache holds is told as it changes."""
        return [PushSource(on_ready=self._publish_by)]

    async def register_prometheus(self, metrics: Any) -> None:
        """The series of our own API's /metrics, under vLLM's names."""
        register_engine_registry(metrics, self._counter.meter.registry, prefix_filters=["vllm:"])

    def _publish_by(self, publisher: Any) -> None:
        self._kv = publisher

    def tell(self, change: Change) -> None:
        """Tells routers what the caches hold; in the engine's thread."""
        publisher = self._kv
        if publisher is None:
            return
        if isinstance(change, Stored):
            publisher.publish_stored(
                token_ids=list(change.tokens),
                num_block_tokens=[BLOCK] * len(change.hashes),
                block_hashes=list(change.hashes),
                parent_hash=change.parent,
            )
        else:
            publisher.publish_removed(block_hashes=list(change.hashes))


def _cut_short(event: Event) -> bool:
    return isinstance(event, Finished) and event.reason is FinishReason.CANCELLED


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Our errors as Dynamo's: a client's mistake is a 400, and a worker that ends is tried elsewhere."""
    try:
        yield
    except InvalidRequest as error:
        raise InvalidArgument(str(error)) from error
    except ApiError as error:
        raise EngineShutdown(error.message) from error
    except ForetokenError as error:
        raise Unknown(str(error)) from error


def read_options(words: Sequence[str]) -> DynamoRuntimeConfig:
    """Dynamo's own options of a worker, from ``words`` and its environment variables.

    Ends the process, as a command line does, where they are misspelt. Raises InvalidRequest where they
    contradict each other, and ForetokenError where there is no etcd to be found by.
    """
    parser = argparse.ArgumentParser(prog="foretoken worker --dynamo --", allow_abbrev=False)
    DynamoRuntimeArgGroup().add_arguments(parser)
    config = DynamoRuntimeConfig.from_cli_args(parser.parse_args(list(words)))
    try:
        config.validate()
    except ValueError as error:
        raise InvalidRequest("dynamo", f"Dynamo's options do not go together: {error}") from error
    if config.dyn_structural_tag:
        raise InvalidRequest(
            "dynamo",
            "Dynamo's --dyn-structural-tag holds calls of tools to a grammar of xgrammar's, which this "
            "engine does not read. Leave it out: calls are written freely, and read by their style.",
        )
    discovery.settle(config.discovery_backend)
    return config


def serve(engine: LocalEngine, offer: Offer, config: DynamoRuntimeConfig) -> None:
    """Registers, answers until SIGTERM or Ctrl-C, then takes no more, ends what runs, and returns.

    Raises ForetokenError where it cannot be registered, and where it ended though nobody asked it to:
    Dynamo ends a worker that has not reached what workers are found by for some seconds. For the main
    thread.
    """
    with _noting_signals() as asked:
        try:
            asyncio.run(_serve(engine, offer, config))
        except ForetokenError:
            raise
        except Exception as error:  # Dynamo's own, which have no kind but this
            raise ForetokenError(f"Dynamo's worker ended: {error}. {_FOUND_BY}") from error
    if not asked:
        raise ForetokenError(f"Dynamo ended this worker, and nobody had asked it to. {_FOUND_BY}")


_FOUND_BY = (
    "Does what workers are found by run (etcd by default), and can this machine reach it? Then start "
    "the worker again. With -- --discovery-backend file nothing but this machine's disk is needed."
)


@contextlib.contextmanager
def _noting_signals() -> Iterator[list[int]]:
    """Those of SIGINT and SIGTERM that come. Dynamo acts on both, beside Python: left as it is, Python's
    own handler of Ctrl-C would cancel every reply that Dynamo lets end."""
    noted: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: noted.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _serve(engine: LocalEngine, offer: Offer, config: DynamoRuntimeConfig) -> None:
    loaded = engine.loaded
    assert loaded is not None
    worker = ForetokenEngine(engine, offer)
    engine.follow_caches(Held(worker.tell))
    if not loaded.device.startswith("cuda"):
        # By this alone Dynamo knows, and tells routers, that a worker computes on a processor.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    # Workers share a model only where they name its card alike, and on each machine it lies elsewhere.
    os.chdir(offer.card.folder.parent)
    await Worker(worker, _configuration(engine, offer, config)).run()


def _configuration(engine: Engine, offer: Offer, config: DynamoRuntimeConfig) -> WorkerConfig:
    loaded = engine.loaded
    assert loaded is not None
    calls = loaded.capabilities.calls
    known = calls.name if calls is not None and calls.name in get_tool_parser_names() else None
    return WorkerConfig.from_runtime_config(
        config,
        model_name=offer.card.folder.name,
        served_model_name=offer.name,
        model_input=ModelInput.Tokens,
        component=COMPONENT,
        endpoint_types=config.endpoint_types if offer.card.chats else "completions",
        tool_call_parser=config.dyn_tool_call_parser or known,
        structural_tag=None,  # on by default; see ``read_options``
    )
