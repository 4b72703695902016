"""The engine of this machine: one thread owns the device.

The first load imports torch and what needs it, so that an app can answer before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engine.api import (
    CacheListener,
    Generation,
    Loaded,
    LoadRequest,
    Tokenizer,
    TopToken,
    Watcher,
    check_supported,
    has,
    having,
)
from engine.backends.native import cache
from engine.errors import ForetokenError, KernelsFailed, NotLoaded
from engine.loading.catalog import Catalog
from engine.loading.files import PairFiles, fetch_pair
from engine.loading.progress import LoadWatch, Stage
from engine.machine import device_memory
from engine.machine.device_memory import uncollected_imports
from engine.request import Request
from engine.scheduler import Publish, Scheduler

if TYPE_CHECKING:
    from engine.decoding.work import WorkItem
    from engine.loading.planning.plan import LoadPlan
    from engine.local.pair import LoadedPair
    from engine.local.session import PreparedRequest, Session
    from engine.machine.devices import Device
    from engine.models.base import Model

T = TypeVar("T")

log = logging.getLogger(__name__)

_WRITING_S = 10.0
"""Most seconds that a short command waits for packed weights to be written, once for each model."""


class LocalEngine:
    """An ``engine.api.Engine`` that loads pairs and runs requests, batched on the compiled step."""

    def __init__(
        self,
        catalog: Callable[[], Catalog] = lambda: Catalog((), ()),
        *,
        models: Path | None = None,
        remembered: Path | None = None,
        measured: Path | None = None,
        learned: Path | None = None,
    ) -> None:
        """``catalog`` returns the one for the next load; by default only folders can be loaded.

        ``models``: a folder for downloads; None: none. ``remembered``: a folder for past replies, if a
        request wants them stored. ``measured``: a folder for times of steps; None: measure after each
        load. ``learned``: a folder for what heads learned, see ``engine.drafting.learned``; None:
        they draft as published.
        """
        self._catalog, self._models = catalog, models
        self._remembered, self._measured, self._learned = remembered, measured, learned
        self._pair: LoadedPair | None = None
        self._cache_listener: CacheListener | None = None
        self._scheduler = Scheduler("engine", self._max_running, self._run_batch)

    @property
    def loaded(self) -> Loaded | None:
        pair = self._pair
        return None if pair is None else pair.loaded

    @property
    def resident(self) -> tuple[Loaded, ...]:
        return () if self.loaded is None else (self.loaded,)

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits, loading included."""
        return self._scheduler.busy

    @property
    def footprint(self) -> dict[str, int]:
        """Bytes of the loaded target, draft and each kind of head. Raises NotLoaded."""
        return self._need_pair().plan.footprint

    def load(self, request: LoadRequest, watcher: Watcher | None = None) -> Loaded:
        source = request, self._catalog(), self._models
        if watcher is None:
            files, watch = fetch_pair(*source), LoadWatch()
        else:
            files = fetch_pair(*source, watcher.on_progress, lambda: watcher.cancelled)
            watch = LoadWatch(watcher.on_loading, lambda: watcher.cancelled)
        _compile_first(files, request, watch)
        watch.begin(Stage.WAITING if self.busy else Stage.CHECKING)
        plan, loaded = self._scheduler.exchange(lambda: self._load(files, request, watch))
        if plan.waits_for_native:
            self._compile_behind(plan, loaded)
        return loaded

    def unload(self, pair: Loaded | None = None) -> None:
        def work() -> None:
            if pair is None or has(self, pair):  # a load may have replaced it
                self._unload()

        self._scheduler.exchange(work)

    def generate(self, request: Request) -> Generation:
        pair = self._pair
        if pair is None:
            self._scheduler.check_open()
            raise NotLoaded(
                "No model is loaded. Choose one on the Models page, or start with --pair."
            )
        check_supported(request, pair.loaded.capabilities)
        prepared = _QueuedRequest(pair, pair.session.prepare(request))
        return self._scheduler.generate(
            request, lambda generation, publish: self._start_request(prepared, generation, publish)
        )

    @property
    def tokenizer(self) -> Tokenizer | None:
        pair = self._pair
        return None if pair is None else pair.session.tokenizer

    def tokenize(self, texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        codec = self._need_pair().session.codec
        return tuple(tuple(codec.tokenize(text)) for text in texts)

    def top_tokens(
        self, request: Request, reply: Sequence[int], count: int
    ) -> tuple[TopToken, ...]:
        return self._computed(lambda session: session.top_tokens(request, reply, count))

    def of(self, pair: Loaded) -> LocalEngine:
        return having(self, pair)

    def pin(self, pair: Loaded) -> AbstractContextManager[None]:
        return self._scheduler.pin(lambda: has(self, pair))

    @property
    def idle_s(self) -> float:
        return self._scheduler.idle_s

    def embed(self, tokens: Sequence[int]) -> tuple[float, ...]:
        return self._computed(lambda session: tuple(session.embed(tokens)))

    def next_logits(self, tokens: Sequence[int], choices: Sequence[int]) -> tuple[float, ...]:
        return self._computed(lambda session: tuple(session.next_logits(tokens, choices)))

    def _computed(self, work: Callable[[Session], T]) -> T:
        """Run ``work`` on the engine's thread, after the requests that wait."""
        return self._scheduler.call(
            lambda: device_memory.within_memory(
                lambda: work(self._need_pair().session), self._ran_out_replying
            )
        )

    def tokens(self, request: Request) -> list[int]:
        """Return the prompt's tokens. Raises NotLoaded, InvalidRequest or ContextExceeded."""
        return self._need_pair().session.encode(request)

    def measure(self, work: Callable[[Model], T]) -> T:
        """Run ``work`` with the target model on the engine's thread, for benchmarks. Raises NotLoaded."""
        return self._scheduler.call(lambda: work(self._need_pair().session.target.model))

    def when_idle(self, work: Callable[[LoadedPair], T]) -> T:
        """Run short work with the loaded pair on the engine's thread, once no request runs or waits. It
        does not count as use. Raises NotLoaded."""
        return self._scheduler.when_idle(lambda: work(self._need_pair()))

    def follow_caches(self, listener: CacheListener) -> None:
        """Call only this listener when slots change, of this pair and of later ones."""
        self._scheduler.call(lambda: self._follow_caches(listener))

    def close(self) -> None:
        self._scheduler.close(self._unload)
        cache.wait(_WRITING_S)

    def _need_pair(self) -> LoadedPair:
        if self._pair is None:
            raise NotLoaded("No model is loaded, so there is nothing to measure.")
        return self._pair

    def _max_running(self) -> int:
        """Return how many requests may run at once."""
        pair = self._pair
        return 1 if pair is None else pair.session.parallel

    def _run_batch(self, items: Sequence[WorkItem]) -> None:
        self._need_pair().session.run_batch(items)

    def _start_request(
        self, prepared: _QueuedRequest, generation: Generation, publish: Publish
    ) -> Iterator[WorkItem | None]:
        pair = self._pair
        if pair is None:
            raise NotLoaded("The model was unloaded while this request waited.")
        request = generation.request
        steps = pair.session.steps(
            request,
            publish,
            lambda: generation.cancelled,
            prepared.take(pair),
            batched=not request.exclusive,
        )
        while True:
            try:
                step = device_memory.within_memory(lambda: next(steps), self._ran_out_replying)
            except StopIteration:
                return
            yield step

    def _ran_out_replying(self) -> str:
        return self._need_pair().plan.ran_out("replying", loaded=True)

    def _load(
        self, files: PairFiles, request: LoadRequest, watch: LoadWatch
    ) -> tuple[LoadPlan, Loaded]:
        """Plan and load; on the engine's thread."""
        watch.begin(Stage.CHECKING)
        with uncollected_imports():
            from engine.loading.planning.plan import plan_loading
            from engine.local.pair import load_pair  # noqa: F401  # for what follows

        def needs_gpu() -> bool:
            return _on_gpu(plan_loading(files, request, replacing=True))

        if self._pair is not None and _on_gpu(self._pair.plan) and needs_gpu():
            self._unload()  # its caches take what is free there
        plan = plan_loading(files, request)
        if plan.lacks_step:  # to exchange the pair later, the GPU would need room for two
            _build(lambda: plan.device.cpu, watch)
            plan = plan_loading(files, request)
        for _ in range(2):  # the kernels may fail for the target, and then for the draft
            try:
                return plan, self._replace(plan, request, watch)
            except KernelsFailed as error:
                log.warning("Loading again without the GPU's kernels. %s", error)
            device_memory.release()  # only now nothing refers to what failed
            plan = plan_loading(files, request)
        return plan, self._replace(plan, request, watch)

    def _replace(self, plan: LoadPlan, request: LoadRequest, watch: LoadWatch) -> Loaded:
        """Load the planned pair, then drop the old one; on the engine's thread."""
        from engine.local.pair import load_pair

        # The plan made sure that both fit: an old pair in main memory stays until the new one is ready.
        pair = device_memory.within_memory(
            lambda: load_pair(
                plan,
                request,
                watch,
                remembered=self._remembered,
                measured=self._measured,
                learned=self._learned,
            ),
            lambda: plan.ran_out(f"loading {plan.files.pairing.name}", loaded=False),
        )
        self._unload()
        self._pair = pair
        if self._cache_listener is not None:
            self._follow_caches(self._cache_listener)
        return pair.loaded

    def _follow_caches(self, listener: CacheListener) -> None:
        self._cache_listener = listener
        if self._pair is not None:
            self._pair.session.follow_caches(listener)

    def _compile_behind(self, plan: LoadPlan, loaded: Loaded) -> None:
        """Build the compiled step in the background, then load the same pair again with it.

        Nothing here refers to the pair itself: it may be unloaded before the build ends.
        """
        from engine.backends.native import build

        def swap() -> None:
            try:
                self._scheduler.call(lambda: self._exchange(plan, loaded))
            except ForetokenError as error:  # closed, or no memory for both
                log.info(
                    "The compiled kernels are ready, but the loaded model continues without them: %s",
                    error,
                )

        build.build_in_background(swap)

    def _exchange(self, earlier: LoadPlan, loaded: Loaded) -> None:
        """Load ``loaded`` again, compiled, if it is still loaded; on the engine's thread."""
        if self.loaded is not loaded:
            return
        from engine.loading.planning.plan import plan_loading

        plan = plan_loading(earlier.files, loaded.request, earlier)
        if plan.target.library is not None:  # this processor may lack instructions for the format
            self._replace(plan, loaded.request, LoadWatch())

    def _unload(self) -> None:
        if self._pair is None:
            return
        self._pair.session.close()
        self._pair = None
        device_memory.release()


def _on_gpu(plan: LoadPlan) -> bool:
    return plan.device.torch_device.type == "cuda"


def _compile_first(files: PairFiles, request: LoadRequest, watch: LoadWatch) -> None:
    """Build the compiled step before the load of weights that only it can multiply.

    Other models begin in torch meanwhile; a GGUF file's weights would be rounded once more and stay so,
    and q4 would be refused. If the build fails, the plan decides.
    """
    if not request.native:
        return
    with uncollected_imports():
        from engine.loading.compile_first import for_blocks, needs_step

    if needs_step(files.target, request.quantization, files.pairing.target.quantization):
        _build(lambda: for_blocks(request), watch)


def _build(choose: Callable[[], Device], watch: LoadWatch) -> None:
    """See ``compile_first``; log why it failed."""
    from engine.loading.compile_first import compile_first

    why = compile_first(choose, lambda: watch.begin(Stage.COMPILING))
    if why is not None:
        log.info("%s", why)


class _QueuedRequest:
    """A request, prepared for the pair that was loaded when it arrived."""

    def __init__(self, pair: LoadedPair, prepared: PreparedRequest) -> None:
        self._pair: LoadedPair | None = pair
        self._prepared: PreparedRequest | None = prepared

    def take(self, pair: LoadedPair) -> PreparedRequest | None:
        """Return it, or None if another pair, with other tokens, was loaded since. Release both."""
        same, self._pair = self._pair is pair, None
        prepared, self._prepared = self._prepared, None
        return prepared if same else None
