"""Run requests concurrently and hand each finished reply's cache to a callback."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from engine.decoding.target import Target
from engine.decoding.work import WorkItem
from engine.local.session import Session
from engine.reply import ReplyState
from engine.request import Request

T = TypeVar("T")

Take = Callable[[Request, ReplyState, Target], T]
"""Makes a result from a reply and the target's state behind it."""


def replies(session: Session, requests: Iterable[Request], take: Take[T]) -> Iterator[T]:
    """Yield what ``take`` makes of each reply, in the order of ``requests``.

    As many requests run at once as the session can; the next is taken from ``requests`` when a slot is
    free. Raises what ``Session.steps`` raises.
    """
    coming, going = iter(requests), deque[_Going[T]]()
    more = True
    while more or going:
        running = [one for one in going if not one.done]
        while more and len(running) < session.parallel:
            request = next(coming, None)
            if request is None:
                more = False
                break
            running.append(_Going(session, request, take))
            going.append(running[-1])
        for one in running:
            one.go_on()
        waits = [one.work for one in running if one.work is not None]
        if waits:
            session.serve(waits)
        while going and going[0].done:
            yield from going.popleft().made


class _Going(Generic[T]):
    """A reply up to its next work item. ``made``: the result, once it is ``done``."""

    def __init__(self, session: Session, request: Request, take: Take[T]) -> None:
        self.made: list[T] = []
        self.work: WorkItem | None = None
        self.done = False
        self._request, self._take, self._state = request, take, ReplyState()
        self._steps = session.steps(request, self._state.add, lambda: False, kept=self._keep)

    def go_on(self) -> None:
        """Run up to the next work item, or to the end."""
        if self.work is not None and not self.work.ready:
            return
        self.work = next((work for work in self._steps if work is not None), None)
        self.done = self.work is None

    def _keep(self, target: Target) -> None:
        self.made.append(self._take(self._request, self._state, target))
