"""One thread that does one thing after the other: requests and other work, in the order they came.

A request that arrives while another runs waits its turn and learns how many are ahead. Cancelling
takes effect between two rounds, or at once for a request that waits. Torch-free.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engine.api import Generation
from engine.errors import ForetokenError, NotLoaded
from engine.events import Event, Failed, Finished, FinishReason, Queued
from engine.request import Request

T = TypeVar("T")
Publish = Callable[[Event], None]
Answer = Callable[[Generation, Publish], None]
"""Publishes a generation's events, from Started to Finished; raises what then becomes Failed."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """A request that waits or runs."""

    generation: Generation
    answer: Answer


@dataclass(slots=True, eq=False)
class _Call:
    """Other work, and where its outcome goes."""

    work: Callable[[], Any]
    done: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: BaseException | None = None


class Turns:
    """The thread and who waits for it."""

    def __init__(self, name: str) -> None:
        """``name`` is the thread's."""
        self._waiting: deque[_Request | _Call] = deque()
        self._changed = threading.Condition()
        self._running: _Request | _Call | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits."""
        with self._changed:
            return self._running is not None or bool(self._waiting)

    def call(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises on the thread. Blocks. Raises NotLoaded once closed."""
        call = _Call(work)
        with self._changed:
            self.check_open()
            self._waiting.append(call)
            self._changed.notify()
        call.done.wait()
        error, call.error = call.error, None
        if error is not None:
            try:
                raise error
            finally:
                # Its traceback holds this frame, and with it all that the work held when it failed:
                # a circle would keep that until somebody collects garbage.
                del error
        result: T = call.result
        return result

    def generate(self, request: Request, answer: Answer) -> Generation:
        """Queues a request; ``answer`` is called on the thread. Raises NotLoaded once closed."""
        generation = Generation(request, self._withdraw)
        with self._changed:
            self.check_open()
            ahead = sum(isinstance(job, _Request) for job in self._waiting)
            ahead += self._running is not None
            if ahead:
                generation.publish(Queued(ahead))
            self._waiting.append(_Request(generation, answer))
            self._changed.notify()
        return generation

    def close(self, then: Callable[[], None] = lambda: None) -> None:
        """Cancels everything, does what waits to be called, and ``then`` as the last thing.

        What ``then`` raises goes to the log: nobody is left to answer it.
        """
        with self._changed:
            if self._closed:
                return
            jobs = (*self._waiting, self._running)
            self._closed = True
            self._waiting.append(_Call(lambda: _logged(then)))
            self._changed.notify()
        for job in jobs:
            if isinstance(job, _Request):
                job.generation.cancel()
        self._thread.join(timeout=10)

    def check_open(self) -> None:
        """Raises NotLoaded once closed."""
        if self._closed:
            raise NotLoaded("The engine was shut down. Start the app again.")

    def _work(self) -> None:
        while (job := self._next()) is not None:
            if isinstance(job, _Call):
                _do(job)
            else:
                self._answer(job)
            del job  # while it waits, the thread keeps nothing alive: no model of a finished load

    def _next(self) -> _Request | _Call | None:
        """None once it is closed and nothing is left."""
        with self._changed:
            self._running = None
            while not self._waiting:
                if self._closed:
                    return None
                self._changed.wait()
            job = self._waiting.popleft()
            self._running = job
            self._tell_waiting()
            return job

    def _tell_waiting(self) -> None:
        """Someone left the queue: everyone behind learns how many are ahead now."""
        waiting = [job.generation for job in self._waiting if isinstance(job, _Request)]
        for ahead, generation in enumerate(waiting, start=int(self._running is not None)):
            if ahead:
                generation.publish(Queued(ahead))

    def _withdraw(self, generation: Generation) -> None:
        """Takes a cancelled request out of the queue, if that is where it is."""
        with self._changed:
            for job in self._waiting:
                if isinstance(job, _Request) and job.generation is generation:
                    self._waiting.remove(job)
                    generation.publish(Finished(FinishReason.CANCELLED, "", "", ()))
                    self._tell_waiting()
                    return

    def _answer(self, job: _Request) -> None:
        generation = job.generation

        def publish(event: Event) -> None:
            if isinstance(event, Finished | Failed):
                # Whoever hears the end and asks again finds nothing running.
                with self._changed:
                    self._running = None
            generation.publish(event)

        try:
            job.answer(generation, publish)
        except ForetokenError as error:
            failed = str(error)
        except Exception as error:  # the thread must outlive any bug
            log.exception("a generation failed")
            failed = (
                f"The engine failed inside: {type(error).__name__}: {error}. Your chat is kept; "
                "try again, and report this with the log if it comes back."
            )
        else:
            return
        if not generation.ended:  # what fails behind the last event is nothing to its readers
            publish(Failed(failed))


def _do(call: _Call) -> None:
    try:
        call.result = call.work()
    except BaseException as error:
        call.error = error
    call.done.set()


def _logged(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        log.exception("closing failed")
