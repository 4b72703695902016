"""One thread owns the device; everybody else submits requests and reads events.

UI and API share it: a request that arrives while another runs waits its turn and is told how many
are ahead. Cancelling takes effect between two rounds, or at once for a request that waits.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch

from engine.backends.native.decoder import NativeDecoder
from engine.backends.torch.decoder import Decoder
from engine.decoding.text import TextCodec
from engine.drafting import heads as head_kinds
from engine.drafting import proposers
from engine.drafting.resources import Resources
from engine.errors import ForetokenError, NotLoaded
from engine.events import Event, Failed, Finished, FinishReason, Queued
from engine.kernels.native import library as native
from engine.loading.loader import load_model
from engine.loading.plan import LoadPlan, kv_cache_of, plan_loading
from engine.local.session import Session
from engine.machine import device_memory, threads
from engine.models.base import Model
from engine.models.checkpoints.checkpoint import AUTO, fingerprint
from engine.request import Request

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What is in memory. ``notes`` are sentences for people about limits of this pair."""

    name: str
    target: str
    draft: str | None
    context: int
    vocabulary: int
    dtype: str
    device: str
    proposers: tuple[str, ...]
    parameters: int
    notes: tuple[str, ...] = ()
    compiled: bool = False
    """Whether the target's step is the compiled one (engine/kernels/native)."""
    heads: tuple[str, ...] = ()
    kv_cache_dtype: str = AUTO
    """What the target's KV cache is kept in."""


class Generation:
    """One request's events, for one reader in any thread."""

    def __init__(
        self, number: int, request: Request, withdraw: Callable[[Generation], None]
    ) -> None:
        self.id = f"gen-{number}"
        self.request = request
        self.prepared: tuple[Session, list[int]] | None = None  # for the service only
        self._withdraw = withdraw
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._cancelled = threading.Event()
        self._ended = False

    def __iter__(self) -> Iterator[Event]:
        """Blocks for each event; ends after Finished or Failed. Iterating again goes on behind."""
        while not self._ended:
            event = self._events.get()
            self._ended = isinstance(event, Finished | Failed)
            yield event

    def cancel(self) -> None:
        """Ends the generation: at once while it waits, else before its next round.

        The stream still finishes properly.
        """
        self._cancelled.set()
        self._withdraw(self)

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def put(self, event: Event) -> None:
        """For the service only."""
        self._events.put(event)


@dataclass(slots=True)
class _Call:
    """Something else the engine thread is to do, and where its outcome goes."""

    work: Callable[[], Any]
    done: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: BaseException | None = None


class EngineService:
    """Loads pairs and runs requests, one at a time, in arrival order."""

    def __init__(self, remembered: Path | None = None, threads: int | None = None) -> None:
        """``remembered``: a folder for what proposers learn, where a request asks them to.

        ``threads`` that compute; None is one for each physical core.
        """
        self._remembered, self._threads = remembered, threads
        self._waiting: deque[Generation | _Call | None] = deque()
        self._lock = threading.Condition()
        self._numbers = itertools.count(1)
        self._running: Generation | _Call | None = None
        self._closed = False
        self._session: Session | None = None
        self._loaded: Loaded | None = None
        self._plan: LoadPlan | None = None
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    @property
    def loaded(self) -> Loaded | None:
        return self._loaded

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits, loading included."""
        with self._lock:
            return self._running is not None or bool(self._waiting)

    def load(
        self,
        target: Path,
        draft: Path | None,
        *,
        name: str,
        dtype: str = AUTO,
        heads: Sequence[Path] = (),
        kv_cache_dtype: str = AUTO,
    ) -> Loaded:
        """Replaces what is loaded, after the requests already waiting. Blocks.

        ``heads``: folders, one for each kind at most. ``kv_cache_dtype``: auto, or fp8 for the target's
        cache on a GPU. Raises ModelError, IncompatiblePair, InvalidRequest, OutOfMemory; the old pair
        then stays.
        """

        def load(kind: str) -> Loaded:
            return self._load(target, draft, heads, name, kind, kv_cache_dtype)

        loaded: Loaded = self._call(lambda: load(dtype))
        # Not ``dtype``: "auto" may choose another one once a step is compiled, and with it other words.
        self._compile_behind(loaded, lambda: load(loaded.dtype))
        return loaded

    def unload(self) -> None:
        """Frees the models' memory, after the requests already waiting."""
        self._call(self._unload)

    def measure(self, work: Callable[[Model], T]) -> T:
        """Runs ``work`` with the target model on the engine's thread (benchmarks). Raises NotLoaded."""

        def on_thread() -> T:
            if self._session is None:
                raise NotLoaded("No model is loaded, so there is nothing to measure.")
            return work(self._session.target.model)

        result: T = self._call(on_thread)
        return result

    def submit(self, request: Request) -> Generation:
        """Queues a request; its events come from the returned Generation.

        Raises NotLoaded, InvalidRequest or ContextExceeded at once, without waiting for a turn.
        """
        session = self._session
        if session is None:
            raise NotLoaded("No model is loaded. Choose a pair on the Models page, or use --pair.")
        prompt = session.prepare(request)
        generation = Generation(next(self._numbers), request, self._withdraw)
        generation.prepared = session, prompt
        with self._lock:
            self._check_open()
            ahead = self._ahead()
            if ahead:
                generation.put(Queued(ahead))
            self._waiting.append(generation)
            self._lock.notify()
        return generation

    def close(self) -> None:
        """Cancels everything and ends the thread."""
        with self._lock:
            for job in (*self._waiting, self._running):
                if isinstance(job, Generation):
                    job.cancel()
            self._closed = True
            self._waiting.append(None)
            self._lock.notify()
        self._thread.join(timeout=10)

    def _check_open(self) -> None:
        if self._closed:
            raise NotLoaded("The engine was shut down. Start the app again.")

    def _ahead(self) -> int:
        waiting = sum(isinstance(job, Generation) for job in self._waiting)
        return waiting + (self._running is not None)

    def _call(self, work: Callable[[], Any]) -> Any:
        call = _Call(work)
        with self._lock:
            self._check_open()
            self._waiting.append(call)
            self._lock.notify()
        call.done.wait()
        if call.error is not None:
            raise call.error
        return call.result

    def _work(self) -> None:
        """The engine thread."""
        while (job := self._next()) is not None:
            if isinstance(job, _Call):
                try:
                    job.result = job.work()
                except BaseException as error:
                    job.error = error
                job.done.set()
            else:
                self._run(job)

    def _next(self) -> Generation | _Call | None:
        with self._lock:
            self._running = None
            while not self._waiting:
                self._lock.wait()
            job = self._waiting.popleft()
            self._running = job
            self._tell_waiting()
            return job

    def _tell_waiting(self) -> None:
        """Someone left the queue: everyone behind learns how many are ahead now."""
        waiting = [job for job in self._waiting if isinstance(job, Generation)]
        for ahead, generation in enumerate(waiting, start=int(self._running is not None)):
            if ahead:
                generation.put(Queued(ahead))

    def _withdraw(self, generation: Generation) -> None:
        """Takes a cancelled request out of the queue, if that is where it is."""
        with self._lock:
            if generation in self._waiting:
                self._waiting.remove(generation)
                generation.put(Finished(FinishReason.CANCELLED, "", "", ()))
                self._tell_waiting()

    def _end(self, generation: Generation, event: Finished | Failed) -> None:
        """The last event. Who reads it and submits again finds nothing running."""
        with self._lock:
            self._running = None
        generation.put(event)

    def _run(self, generation: Generation) -> None:
        try:
            device_memory.within_memory(lambda: self._answer(generation), self._ran_out)
        except ForetokenError as error:
            self._end(generation, Failed(str(error)))
        except Exception as error:  # the thread must outlive any bug
            log.exception("generation %s failed", generation.id)
            message = (
                f"The engine failed inside: {type(error).__name__}: {error}. Your chat is kept; "
                "try again, and report this with the log if it comes back."
            )
            self._end(generation, Failed(message))

    def _answer(self, generation: Generation) -> None:
        session = self._session
        if session is None:
            raise NotLoaded("The model was unloaded while this request waited.")
        # Another pair may have been loaded meanwhile; its tokens are others.
        asked, prompt = generation.prepared or (None, None)
        prompt = prompt if asked is session else None
        generation.prepared = None
        for event in session.run(generation.request, lambda: generation.cancelled, prompt):
            if isinstance(event, Finished):
                self._end(generation, event)
            else:
                generation.put(event)

    def _ran_out(self) -> str:
        assert self._plan is not None
        return self._plan.ran_out("replying", loaded=True)

    def _load(
        self, target: Path, draft: Path | None, heads: Sequence[Path], name: str, dtype: str,
        kv_cache_dtype: str,
    ) -> Loaded:  # fmt: skip
        pair = plan_loading(target, draft, heads, dtype, kv_cache_dtype)
        return device_memory.within_memory(
            lambda: self._load_planned(pair, name),
            lambda: pair.ran_out(f"loading {name}", loaded=False),
        )

    def _load_planned(self, pair: LoadPlan, name: str) -> Loaded:
        target = pair.target.folder
        draft = None if pair.draft is None else pair.draft.folder
        threads.use(self._threads)  # each thread has its own setting, so it is made in this one
        codec = TextCodec(target)
        # Both fit beside what is loaded now, or this would have been refused: the old pair stays
        # until the new one is ready.
        model = load_model(
            target, dtype=pair.dtype, context=pair.context, kv_cache_dtype=pair.kv_cache_dtype
        )
        resources = Resources(
            draft=load_model(draft, dtype=pair.draft_dtype, context=pair.context)
            if draft
            else None,
            vocabularies=pair.vocabularies,
            remembered=self._remembered and self._remembered / fingerprint(target),
            heads={plan.kind: head_kinds.load(plan, pair.products) for plan in pair.heads},
        )
        session = Session(model, codec, resources)
        notes = list(pair.notes)
        if not codec.has_template:
            notes.append("This model has no chat template: it continues your text.")
        self._unload()
        self._session, self._plan = session, pair
        info = model.info
        compiled = isinstance(model, NativeDecoder)
        if compiled and (draft is None or isinstance(resources.draft, NativeDecoder)):
            # Its threads are its own; torch's would spin beside them after every small operation.
            torch.set_num_threads(1)
        self._loaded = Loaded(
            name=name,
            target=info.name,
            draft=resources.draft.info.name if resources.draft else None,
            context=info.context,
            vocabulary=info.vocabulary,
            dtype=info.dtype,
            device=info.device,
            heads=tuple(plan.name for plan in pair.heads),
            proposers=proposers.available(resources),
            parameters=info.parameters,
            notes=tuple(notes),
            compiled=compiled,
            kv_cache_dtype=kv_cache_of(pair.target, pair.dtype, pair.kv_cache_dtype),
        )
        return self._loaded

    def _compile_behind(self, loaded: Loaded, again: Callable[[], Loaded]) -> None:
        """Where the compiled step is not built yet: builds it, then loads the same pair once more.

        Requests go on meanwhile; the change waits its turn among them.
        """

        def swap() -> None:
            with contextlib.suppress(
                ForetokenError
            ):  # closed, or no room for both: nothing is lost
                self._call(lambda: again() if self._loaded is loaded else None)

        session = self._session
        model = None if session is None else session.target.model
        interpreted = isinstance(model, Decoder) and model.device.type == "cpu"
        if interpreted and loaded.dtype in native.KINDS:
            native.build_behind(swap)

    def _unload(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = self._loaded = self._plan = None
        device_memory.release()
