"""The engine as a worker of Dynamo. It imports Dynamo, so the app imports it only for this command.

Requests and replies are token ids, not text. So the frontend can route a chat to the worker that has its
prefix in the cache, and let another worker continue a reply whose worker died (--migration-limit).
Replies at temperature 0 or with a seed then continue with the same words, up to ties of rounding: noise
is keyed by seed and position. Penalties that count only the reply start again from zero.

Dynamo's ``dynamo.common.backend`` (1.6.1) handles lifecycle, signals, draining and cancelling.
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
from app.server.request_queue import RequestQueue, Ticket
from app.worker import discovery
from app.worker.kv_events import BLOCK, BlockStored, KvEvent, KvEventTracker
from app.worker.model_card import ModelCard
from app.worker.request_conversion import Chunk, OutputChunks, convert_request
from engine.errors import ForetokenError, InvalidRequest
from engine.events import Finished, FinishReason
from engine.request import Speculation

if TYPE_CHECKING:
    from engine.api import Engine, Loaded
    from engine.local.engine import LocalEngine

COMPONENT = "foretoken"

DRAIN_S = 20
"""Seconds for running replies when the worker must end. With Dynamo's own grace period before it and its
runtime's shutdown, that is within the 30 s of Kubernetes."""
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The model's card, its name for clients, and how it drafts for all requests."""

    card: ModelCard
    name: str
    speculation: Speculation


class ForetokenEngine(LLMEngine):
    """A loaded engine behind Dynamo's interface. Requests beyond its parallel ones wait."""

    def __init__(self, engine: Engine, served: ServedModel) -> None:
        loaded = engine.loaded
        assert loaded is not None
        self._loaded: Loaded = loaded
        self._served = served
        self._queue = RequestQueue(engine)
        self._tickets: dict[str, Ticket] = {}
        self._publisher: Any = None

    @classmethod
    async def from_args(cls, argv: list[str] | None = None) -> tuple[ForetokenEngine, WorkerConfig]:
        """Raise InvalidRequest: Dynamo's own launcher cannot load a pair."""
        raise InvalidRequest(
            "dynamo",
            "Dynamo's launcher has no pair to load. Start the worker with `foretoken "
            "worker --dynamo`.",
        )

    async def start(self, worker_id: int) -> EngineConfig:
        """Return what is registered. The model is loaded by now."""
        context, parallel = self._loaded.context, self._loaded.capabilities.parallel
        return EngineConfig(
            model=str(self._served.card.folder),
            served_model_name=self._served.name,
            llm=LlmRegistration(
                context_length=context,
                kv_cache_block_size=BLOCK,
                total_kv_blocks=parallel * -(-context // BLOCK),
                max_num_seqs=parallel,
                max_num_batched_tokens=context,
            ),
        )

    async def generate(self, request: Any, context: Any) -> AsyncGenerator[Chunk, None]:
        """Yield one reply. Raises Dynamo's exceptions: the frontend then answers or tries elsewhere."""
        with _translated_errors():
            served, body = self._served, normalize_request_token_ids(request)
            card = served.card
            converted = convert_request(body, served.speculation, card.eos, card.generation_prompt)
            ticket = await self._queue.admit((converted.request,), served.name)
            (generation,) = ticket.generations
            self._tickets[context.id()] = ticket
            chunks = OutputChunks(converted)
            try:
                async with contextlib.aclosing(ticket.events_of(generation)) as events:
                    async for event in events:
                        reason = event.reason if isinstance(event, Finished) else None
                        if reason is FinishReason.CANCELLED and not context.is_stopped():
                            raise closing()  # the worker ends: another one continues the reply
                        chunk = chunks.add(event)
                        if chunk is not None:
                            yield chunk
            finally:
                self._tickets.pop(context.id(), None)
                ticket.close()

    async def abort(self, context: Any) -> None:
        """Cancel a reply: the client left, or the frontend needs no more."""
        ticket = self._tickets.pop(context.id(), None)
        if ticket is not None:
            ticket.close()

    async def cleanup(self) -> None:
        """Let replies end for ``DRAIN_S``, then hand the others to other workers. The caller closes the
        engine. Dynamo has deregistered the worker and waited a few seconds by now."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while self._queue.tickets:
                    await asyncio.sleep(POLL_S)
        self._queue.end()
        self._publisher = None

    async def kv_event_sources(self) -> list[PushSource]:
        return [PushSource(on_ready=self._set_publisher)]

    async def register_prometheus(self, metrics: Any) -> None:
        """Register the series of the API's /metrics, which have vLLM's names."""
        register_engine_registry(metrics, self._queue.meter.registry, prefix_filters=["vllm:"])

    def _set_publisher(self, publisher: Any) -> None:
        self._publisher = publisher

    def publish(self, event: KvEvent) -> None:
        """Publish a change of the caches to routers; called in the engine's thread."""
        publisher = self._publisher
        if publisher is None:
            return
        if isinstance(event, BlockStored):
            publisher.publish_stored(
                token_ids=list(event.tokens),
                num_block_tokens=[BLOCK] * len(event.hashes),
                block_hashes=list(event.hashes),
                parent_hash=event.parent,
            )
        else:
            publisher.publish_removed(block_hashes=list(event.hashes))


@contextlib.contextmanager
def _translated_errors() -> Iterator[None]:
    """Translate errors to Dynamo's: a client's mistake is a 400; if the worker ends, another is tried."""
    try:
        yield
    except InvalidRequest as error:
        raise InvalidArgument(str(error)) from error
    except ApiError as error:
        raise EngineShutdown(error.message) from error
    except ForetokenError as error:
        raise Unknown(str(error)) from error


def read_options(words: Sequence[str]) -> DynamoRuntimeConfig:
    """Parse Dynamo's worker options from ``words`` and its environment variables.

    Ends the process for misspelt options, as argparse does. Raises InvalidRequest if they contradict each
    other, and ForetokenError if etcd does not answer.
    """
    parser = argparse.ArgumentParser(prog="foretoken worker --dynamo --", allow_abbrev=False)
    DynamoRuntimeArgGroup().add_arguments(parser)
    config = DynamoRuntimeConfig.from_cli_args(parser.parse_args(list(words)))
    try:
        config.validate()
    except ValueError as error:
        raise InvalidRequest("dynamo", f"Dynamo's options do not fit together: {error}") from error
    if config.dyn_structural_tag:
        raise InvalidRequest(
            "dynamo",
            "Dynamo's --dyn-structural-tag uses an xgrammar grammar for tool calls, which "
            "this engine does not support. Leave it out: calls are parsed from the text.",
        )
    discovery.settle(config.discovery_backend)
    return config


def serve(engine: LocalEngine, served: ServedModel, config: DynamoRuntimeConfig) -> None:
    """Register the worker, answer until SIGTERM or Ctrl-C, then drain and return. For the main thread.

    Raises ForetokenError if it cannot be registered, and if Dynamo ends it by itself, as it does when
    the discovery service is unreachable for some seconds.
    """
    with _recorded_signals() as signals:
        try:
            asyncio.run(_serve(engine, served, config))
        except ForetokenError:
            raise
        except Exception as error:  # Dynamo raises plain exceptions
            raise ForetokenError(f"Dynamo's worker ended: {error}. {_DISCOVERY_REMEDY}") from error
    if not signals:
        raise ForetokenError(f"Dynamo stopped this worker unexpectedly. {_DISCOVERY_REMEDY}")


_DISCOVERY_REMEDY = (
    "Is the discovery service running (etcd by default), and reachable from here? "
    "Then start the worker again. With -- --discovery-backend file only this "
    "machine's disk is needed."
)


@contextlib.contextmanager
def _recorded_signals() -> Iterator[list[int]]:
    """Record SIGINT and SIGTERM instead of handling them. Dynamo handles both; Python's own handler of
    Ctrl-C would cancel every reply that Dynamo lets end."""
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _serve(engine: LocalEngine, served: ServedModel, config: DynamoRuntimeConfig) -> None:
    loaded = engine.loaded
    assert loaded is not None
    worker = ForetokenEngine(engine, served)
    engine.follow_caches(KvEventTracker(worker.publish))
    if not loaded.device.startswith("cuda"):
        # Only this variable tells Dynamo, and routers, that the worker runs on a CPU.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    # Workers share a model only if they name its card alike; its folder differs between machines.
    os.chdir(served.card.folder.parent)
    await Worker(worker, _configuration(engine, served, config)).run()


def _configuration(
    engine: Engine, served: ServedModel, config: DynamoRuntimeConfig
) -> WorkerConfig:
    loaded = engine.loaded
    assert loaded is not None
    calls = loaded.capabilities.calls
    parser = calls.name if calls is not None and calls.name in get_tool_parser_names() else None
    return WorkerConfig.from_runtime_config(
        config,
        model_name=served.card.folder.name,
        served_model_name=served.name,
        model_input=ModelInput.Tokens,
        component=COMPONENT,
        endpoint_types=config.endpoint_types if served.card.has_template else "completions",
        tool_call_parser=config.dyn_tool_call_parser or parser,
        structural_tag=None,  # on by default; see ``read_options``
    )
