"""The scheduler: one thread that runs requests and other work in arrival order.

Several requests may run at once. A request that must wait publishes how many are ahead of it. Other work
waits until no request runs, and later requests wait for it. A running request is cancelled between two
rounds, a waiting one at once. Does not import torch.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from engine.api import Generation
from engine.errors import ForetokenError, InvalidRequest, NotLoaded
from engine.events import Event, Failed, Finished, FinishReason, Queued
from engine.request import Request

if TYPE_CHECKING:
    from engine.decoding.work import WorkItem

T = TypeVar("T")
Publish = Callable[[Event], None]
StartRequest = Callable[[Generation, Publish], "Iterator[WorkItem | None] | None"]
"""Publishes a generation's events, from Started to Finished; an error becomes Failed. It may return
steps, between which other requests run. A step that yields a work item is followed once that is ready."""
RunBatch = Callable[[Sequence[Any]], None]
"""Does at least one of the work items."""

log = logging.getLogger(__name__)

_CLOSED = "The engine was shut down. Restart Foretoken."


@dataclass(slots=True, eq=False)
class _Request:
    """A request that waits or runs; ``steps`` is set once it runs."""

    generation: Generation
    start: StartRequest
    steps: Iterator[WorkItem | None] | None = None
    work: WorkItem | None = None

    @property
    def exclusive(self) -> bool:
        return self.generation.request.exclusive


@dataclass(slots=True, eq=False)
class _Call:
    """Other work, and its result or error."""

    work: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)

    def run(self) -> None:
        try:
            self.future.set_result(self.work())
        except BaseException as error:
            self.future.set_exception(error)
            del self  # the error's traceback holds this frame: a cycle would keep all that failed


class Scheduler:
    """One engine thread, the queue of waiting requests and work, and the running requests."""

    def __init__(
        self,
        name: str,
        max_running: Callable[[], int] = lambda: 1,
        run_batch: RunBatch | None = None,
    ) -> None:
        """``name``: the thread's. ``max_running`` returns how many requests may run at once."""
        self._waiting: deque[_Request | _Call] = deque()
        lock = threading.RLock()
        self._changed, self._released = threading.Condition(lock), threading.Condition(lock)
        self._pins = self._exchanges = 0
        self._used = time.monotonic()
        self._running: list[_Request] = []
        self._calling = self._resting = False
        self._quiet: deque[_Call] = deque()
        self._max_running, self._run_batch = max_running, run_batch
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """True while anything runs or waits, or is about to."""
        with self._changed:
            return self._occupied or bool(self._waiting or self._pins)

    @property
    def idle_s(self) -> float:
        """Return the seconds since it was last busy; 0 while it is."""
        with self._changed:
            return 0.0 if self.busy else time.monotonic() - self._used

    @property
    def _occupied(self) -> bool:
        return self._calling or bool(self._running)

    def call(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns on the thread, or raise its error. Raises NotLoaded if closed."""
        return self._submit(
            work, self._waiting
        ).result()  # no local refers to the future: see ``_Call.run``

    def when_idle(self, work: Callable[[], T]) -> T:
        """Do as ``call`` with short work, once nothing else runs or waits. It is no use: neither ``busy``
        nor ``idle_s`` shows it, and a request that comes meanwhile is not told that it waits."""
        return self._submit(work, self._quiet).result()

    def exchange(self, work: Callable[[], T]) -> T:
        """Do as ``call`` with work that replaces the model, once nobody pins it."""
        with self._released:
            self._exchanges += 1
            self._released.wait_for(lambda: not self._pins)
        try:
            return self.call(work)
        finally:
            with self._released:
                self._exchanges -= 1

    @contextmanager
    def pin(self, there: Callable[[], bool]) -> Iterator[None]:
        """Let ``exchange`` wait until the end. Raises NotLoaded if one waits, or not ``there``."""
        with self._changed:
            if self._exchanges or not there():
                raise NotLoaded("The model is being unloaded. Send the request again.")
            self._pins += 1
        try:
            yield
        finally:
            with self._released:
                self._pins -= 1
                self._used = time.monotonic()
                self._released.notify_all()

    def _submit(self, work: Callable[[], T], queue: deque[Any]) -> Future[T]:
        call = _Call(work)
        with self._changed:
            self.check_open()
            queue.append(call)
            self._changed.notify()
        return call.future

    def generate(self, request: Request, start: StartRequest) -> Generation:
        """Queue a request; ``start`` is called on the thread. Raises NotLoaded if closed."""
        generation = Generation(request, self._withdraw)
        with self._changed:
            self.check_open()
            self._waiting.append(_Request(generation, start))
            *_, (job, ahead) = self._ahead()
            if ahead:
                job.generation.publish(Queued(ahead))
            self._changed.notify()
        return generation

    def close(self, then: Callable[[], None] = lambda: None) -> None:
        """Cancel all requests, do the other queued work, and call ``then`` last.

        An error of ``then`` is logged: no caller is left to handle it.
        """
        with self._changed:
            if self._closed:
                return
            jobs = (*self._waiting, *self._running)
            self._closed = True
            for call in self._quiet:
                call.future.set_exception(NotLoaded(_CLOSED))
            self._quiet.clear()
            self._waiting.append(_Call(lambda: _logged(then)))
            self._changed.notify()
        for job in jobs:
            if isinstance(job, _Request):
                job.generation.cancel()
        self._thread.join(timeout=10)

    def check_open(self) -> None:
        """Raise NotLoaded if closed."""
        if self._closed:
            raise NotLoaded(_CLOSED)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            if isinstance(job, _Call):
                job.run()
            else:
                self._step()
            del job  # else it would keep a finished load's model alive while the thread waits

    def _next(self) -> _Call | bool | None:
        """Wait for a call to run and return it, or True if requests run, or None once closed and done."""
        with self._changed:
            if not self._resting:
                self._used = time.monotonic()
            self._calling = self._resting = False
            while True:
                while self._waiting and isinstance(self._waiting[0], _Request):
                    if not self._fits(self._waiting[0]):
                        break
                    self._running.append(self._waiting.popleft())  # type: ignore[arg-type]
                    self._tell_waiting()
                if self._running:
                    return True
                if self._waiting:
                    call = self._waiting.popleft()
                    assert isinstance(call, _Call)
                    self._calling = True
                    self._tell_waiting()
                    return call
                if self._closed:
                    return None
                if self._quiet:
                    self._resting = True
                    return self._quiet.popleft()
                self._changed.wait()

    def _fits(self, job: _Request) -> bool:
        """Return whether ``job`` may run beside the running requests."""
        if not self._occupied:
            return True
        alone = job.exclusive or any(other.exclusive for other in self._running)
        return not (alone or self._calling) and len(self._running) < self._max_running()

    def _tell_waiting(self) -> None:
        """Publish to each waiting request how many are ahead of it now."""
        for job, ahead in self._ahead():
            if ahead:
                job.generation.publish(Queued(ahead))

    def _ahead(self) -> Iterator[tuple[_Request, int]]:
        """Yield each waiting request, and how many must end before it runs."""
        places = self._max_running() - len(self._running)
        before, in_turn = 0, self._calling or any(job.exclusive for job in self._running)
        for job in self._waiting:
            if isinstance(job, _Call):
                in_turn = True
                continue
            in_turn = in_turn or job.exclusive  # from here on each waits for all before it
            yield job, before + self._occupied if in_turn else max(0, before + 1 - places)
            before += 1

    def _withdraw(self, generation: Generation) -> None:
        """Remove a cancelled request from the queue, if it waits there."""
        with self._changed:
            for job in self._waiting:
                if isinstance(job, _Request) and job.generation is generation:
                    self._waiting.remove(job)
                    generation.publish(Finished(FinishReason.CANCELLED, "", "", ()))
                    self._tell_waiting()
                    return

    def _step(self) -> None:
        """Advance every running request; once all have a work item, do some of these in one pass."""
        for job in tuple(self._running):
            if job.work is None or job.work.ready:
                self._advance(job)
        work = [job.work for job in self._running if job.work is not None and not job.work.ready]
        if not work or len(work) < len(self._running):
            return
        assert self._run_batch is not None
        try:
            self._run_batch(work)
        except Exception as error:  # it may be any request's, and the thread must outlive any bug
            log.exception("a pass failed")
            for job in tuple(self._running):
                self._end(job, _failed_inside(error))

    def _advance(self, job: _Request) -> None:
        generation = job.generation

        def publish(event: Event) -> None:
            if isinstance(event, Finished | Failed):
                self._leave(job)  # first: a listener may send the next request at once
            generation.publish(event)

        try:
            if job.steps is None:
                job.steps = job.start(generation, publish) or iter(())
            job.work = next(job.steps)
        except StopIteration:
            self._leave(job)
        except ForetokenError as error:
            self._end(job, str(error), refused=isinstance(error, InvalidRequest))
        except Exception as error:  # the thread must outlive any bug
            log.exception("a generation failed")
            self._end(job, _failed_inside(error))

    def _end(self, job: _Request, failed: str, refused: bool = False) -> None:
        job.steps = job.work = None
        self._leave(job)
        if not job.generation.ended:  # readers do not care what fails after the last event
            job.generation.publish(Failed(failed, refused))

    def _leave(self, job: _Request) -> None:
        with self._changed:
            if job in self._running:
                self._running.remove(job)


def _failed_inside(error: Exception) -> str:
    return (
        f"The engine failed: {type(error).__name__}: {error}. Your chat is kept. Try "
        "again; if it happens again, report it with the log."
    )


def _logged(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        log.exception("closing failed")
