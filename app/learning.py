"""Let the loaded head learn from replies while nobody waits, if the user switched it on.

Listeners collect each reply's tokens; a thread of the lowest priority does the rest: it stores lessons
below the data folder, has the head learn from them (``engine.train.learning``) and puts a better version
in use between two requests. Nothing is sent anywhere.
"""

from __future__ import annotations

import logging
import os
import queue
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from app import paths
from app.settings.preferences import PreferencesFile
from engine.api import Engine, Generation, Loaded
from engine.errors import DiskError, ForetokenError, NotLoaded
from engine.events import Emitted, Event, Finished, Started
from engine.files import write_private
from engine.loading.inventory import EMBEDDED
from engine.switching import SwitchingEngine

if TYPE_CHECKING:
    from engine.drafting.learned import LearnedHead
    from engine.local.engine import LocalEngine
    from engine.local.pair import LoadedPair
    from engine.train.data.prompts import Prompt
    from engine.train.learning import Slices, Subject

T = TypeVar("T")
Stamp = tuple[int, int] | None
"""Of a file, to see whether another process replaced it; None: there is none."""

log = logging.getLogger(__name__)

IDLE_S = 4.0
"""Seconds without a request after which a head learns."""
FRESH = 2000
"""Reply tokens since the last trial from which on it learns again."""
FEWEST = 16
"""Replies from which on a head learns."""
_LOOK_S = 0.5
_GENERATION = "generation"
_MOST_GENERAL = 200
KINDS = ("eagle3", "medusa", "lstm", "mlp")
"""Kinds of heads that can learn, the first one loaded does."""


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of a file that is replaced and never written in place."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError:  # nobody deleted it, so what was learned stays
        return 0, 0
    return found.st_ino, found.st_mtime_ns


def generation_of(root: Path) -> Stamp:
    """Return what changes when lessons are deleted, or another version is chosen, by any process."""
    return stamp_of(root / _GENERATION)


def new_generation(root: Path) -> Stamp:
    """Tell running apps that the files below ``root`` changed. Raises DiskError."""
    write_private(root / _GENERATION, "")
    return generation_of(root)


def forget(root: Path) -> None:
    """Delete lessons and learned versions. Raises DiskError if something could not be deleted."""
    try:
        (root / _GENERATION).unlink(missing_ok=True)  # first, so that running apps write no more
        if root.exists():
            shutil.rmtree(root)
    except OSError as error:
        raise DiskError.left(root, error) from error


def learned_heads(data_dir: Path) -> list[LearnedHead]:
    """Return the folders of what heads have learned."""
    from engine.drafting.learned import LearnedHead

    return LearnedHead.all(paths.learned(data_dir))


def summary(head: LearnedHead) -> dict[str, Any]:
    """Return what a head has learned, for pages. A day's length is the mean tokens a round of its
    drafts."""
    state = head.state()
    trials = [asdict(trial) for trial in state.trials]
    days = sorted(state.days.items())
    return {
        "id": head.name,
        "name": state.name,
        "used": state.used,
        "version": head.version.is_dir(),
        "replies": head.replies,
        "rounds": sum(rounds for _, (_, rounds, _) in days),
        "days": [[day, 1 + accepted / rounds] for day, (_, rounds, accepted) in days if rounds],
        "last": trials[-1] if trials else None,
        "taken": next((trial for trial in reversed(trials) if trial["taken"]), None),
        "trials": len(trials),
    }


def as_json(head: LearnedHead) -> dict[str, Any]:
    """Return the state with the number of stored replies, and days with named fields, for programs."""
    state = head.state()
    days = [
        {"day": day, "replies": replies, "rounds": rounds, "accepted": accepted}
        for day, (replies, rounds, accepted) in sorted(state.days.items())
    ]
    return {**asdict(state), "replies": head.replies, "days": days}


class _Stopped(ForetokenError):
    """Learning was switched off, or what it learns from deleted."""


class IdleLearning:
    """Learning of one running app. Any thread may call it."""

    def __init__(
        self,
        engine: Engine,
        data_dir: Path,
        preferences: PreferencesFile,
        busy: Callable[[], bool],
    ) -> None:
        """``busy``: whether the machine does something that the user waits for."""
        self._engine, self._preferences, self._busy = engine, preferences, busy
        self.root = paths.learned(data_dir)
        self._switch: tuple[Stamp, bool] = None, False
        self._generation = generation_of(self.root)
        self._todo: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._writing = threading.RLock()
        self._halts = 0  # of those who wait for learning to stop
        self._closed = False
        self._thread: threading.Thread | None = None
        self._subject: tuple[Loaded, Subject] | None = None  # of the last reply
        self.doing = False
        """True while a head learns."""

    @property
    def on(self) -> bool:
        """The stored switch, which other processes may change."""
        stamp = stamp_of(self._preferences.path)
        if stamp != self._switch[0]:
            self._switch = stamp, self._preferences.read().learn
        return self._switch[1]

    @on.setter
    def on(self, on: bool) -> None:
        self._preferences.keep(learn=on)

    def follow(self, generation: Generation, loaded: Loaded | None) -> None:
        """Take the reply as a lesson, once it is finished. Lessons are tokens, which images have not."""
        if generation_of(self.root) != self._generation:
            self._do(self._apply)
        images = any(message.images for message in generation.request.messages)
        if self.on and loaded is not None and not loaded.server and loaded.heads and not images:
            generation.listen(_Reply(lambda reply: self._do(lambda: self._add(loaded, reply))))

    def use(self, head: LearnedHead, learned: bool) -> None:
        """Let the learned or the published version draft, from the next request on."""
        with self._halted():
            head.keep(replace(head.state(), used=learned and head.version.is_dir()))
        self._do(self._apply)

    def forget(self) -> None:
        """See ``forget``."""
        with self._halted():
            forget(self.root)
        self._do(self._apply)

    def close(self) -> None:
        self._closed = True
        if self._thread is not None:
            self._do(lambda: None)
            self._thread.join(timeout=5)

    @contextmanager
    def _halted(self) -> Iterator[None]:
        """Stop learning, which begins again later, and let nothing be written meanwhile."""
        self._halts += 1
        try:
            with self._writing:
                yield
        finally:
            self._halts -= 1

    # ---- on the thread

    def _do(self, work: Callable[[], None]) -> None:
        self._todo.put(work)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="learn when idle", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        _lower_priority()
        while not self._closed:
            try:
                self._next(block=not self._wants())
                if self._wants() and not self._waits():
                    with self._writing:
                        self._learn()
            except Exception:  # this thread is the only one: later replies need it
                log.exception("Learning from replies failed; the next reply begins it again.")
                self._subject = None

    def _next(self, *, block: bool) -> None:
        """Do what was asked for; ``block`` until there is something."""
        with suppress(queue.Empty):
            while True:
                work = self._todo.get(timeout=None if block else _LOOK_S)
                block = False
                try:
                    with self._writing:
                        work()
                except (ForetokenError, OSError) as error:  # the pair is gone, or the disk full
                    log.warning("A reply was not learned from: %s", error)
                if self._todo.empty():
                    return

    def _wants(self) -> bool:
        """Return whether the last reply's head has enough to learn from."""
        if self._subject is None or self._closed or not self.on:
            return False
        place = self._subject[1].place
        return place.state().fresh >= FRESH and place.replies >= FEWEST

    def _waits(self) -> bool:
        return self._busy() or self._engine.idle_s < IDLE_S

    def _slices(self, loaded: Loaded) -> Slices:
        """Return slices that wait until nobody has asked for a while; what is to be done comes first."""
        began = self._generation

        def slices(work: Callable[[LoadedPair], T]) -> T:
            while True:
                self._check(began)
                while not self._todo.empty():
                    self._next(block=False)
                if not self._waits():
                    break
                time.sleep(_LOOK_S)
            return self._local().when_idle(lambda pair: work(_same(pair, loaded)))

        return slices

    def _check(self, began: Stamp) -> None:
        """Raise _Stopped if learning must end: also for what another process switched or deleted."""
        if self._halts or self._closed or not self.on or generation_of(self.root) != began:
            raise _Stopped("Learning was stopped.")

    def _local(self) -> LocalEngine:
        if not isinstance(self._engine, SwitchingEngine):
            raise NotLoaded("Nothing is loaded on this machine.")
        return self._engine.local

    def _find(self, loaded: Loaded) -> Subject | None:
        """Return the head of a loaded pair that can learn."""
        from engine.drafting.learned import LearnedHead
        from engine.train.learning import Subject

        if self._subject is not None and self._subject[0] is loaded:
            return self._subject[1]
        plan, info = self._local().when_idle(
            lambda pair: (_same(pair, loaded).plan, pair.session.target.model.info)
        )
        found = {head.kind: head for head in plan.heads}
        for kind in KINDS:
            if kind in found and (
                place := LearnedHead.of(self.root, plan.files.target, found[kind])
            ):
                general = partial(_general, loaded)
                self._subject = loaded, Subject(found[kind], place, info, general)
                return self._subject[1]
        return None

    def _add(self, loaded: Loaded, reply: _Reply) -> None:
        subject = self._find(loaded) if self.on else None
        if subject is None or len(reply.tokens) < 2:
            return
        if generation_of(self.root) != self._generation:  # what came before was forgotten
            return self._apply()
        if self._generation is None:
            self._generation = new_generation(self.root)
        place, kind = subject.place, subject.head.kind
        place.add([*reply.prompt, *reply.tokens], len(reply.prompt))
        state = replace(place.state(), name=f"{loaded.target_name}, {kind}")
        place.keep(state.with_reply(reply.rounds[kind], reply.accepted[kind], len(reply.tokens)))

    def _learn(self) -> None:
        from engine.train.learning import learn

        assert self._subject is not None
        loaded, subject = self._subject
        place, state, began = subject.place, subject.place.state(), self._generation
        self.doing = True
        try:
            trial = learn(self._slices(loaded), subject, state, place.lessons(subject.info.context))
            self._check(began)
            if trial.taken:
                place.take(place.work / "new")
            now = place.state()  # replies came meanwhile
            used, fresh = trial.taken or now.used, max(0, now.fresh - state.fresh)
            place.keep(replace(now, fresh=fresh, used=used, trials=(*now.trials, trial)))
            if trial.taken:
                self._apply()
        except _Stopped:
            if generation_of(self.root) != self._generation:
                self._do(self._apply)
        except NotLoaded:
            self._subject = None
        except Exception as error:  # the next try needs fresh replies
            expected = isinstance(error, ForetokenError | OSError)
            log.warning("The drafter could not learn: %s", error, exc_info=not expected)
            if generation_of(self.root) == began:
                place.keep(replace(place.state(), fresh=0))
        finally:
            self.doing = False
            gone = began is not None and generation_of(self.root) is None
            shutil.rmtree(self.root if gone else place.work, ignore_errors=True)

    def _apply(self) -> None:
        """Let the loaded head draft by what the files say now."""
        from engine.drafting import heads

        self._generation = generation_of(self.root)
        loaded = self._local().loaded
        subject = None if loaded is None else self._find(loaded)
        if subject is None:
            return

        def swap(pair: LoadedPair) -> None:
            plan, place = subject.head, subject.place
            if place.state().used:
                plan = place.plan(pair.plan.target.checkpoint, plan)
            pair.session.use_head(heads.load(plan, pair.plan.sizes.linear_factory))

        self._local().when_idle(swap)


class _Reply:
    """The tokens of one reply, and its rounds by who drafted."""

    def __init__(self, finished: Callable[[_Reply], None]) -> None:
        self._finished = finished
        self.prompt: tuple[int, ...] = ()
        self.tokens: tuple[int, ...] = ()
        self.rounds, self.accepted = Counter[str](), Counter[str]()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            self.prompt = event.prompt_tokens or ()
        elif isinstance(event, Emitted) and (round_ := event.round) is not None:
            if len(round_.tree):
                self.rounds[round_.proposer] += 1
                self.accepted[round_.proposer] += round_.accepted
        elif isinstance(event, Finished):
            self.tokens = event.token_ids or ()  # with those of a reply that it continues
            self._finished(self)


def _general(loaded: Loaded) -> Sequence[Prompt]:
    """Return prompts of all kinds that the model knows."""
    from engine.train.data import prompts
    from engine.train.data.general_prompts import general

    if loaded.target_id == EMBEDDED:
        return prompts.from_file(paths.pip_prompts(), _MOST_GENERAL, 0, 0).learned
    return general(0)[:_MOST_GENERAL]


def _same(pair: LoadedPair, loaded: Loaded) -> LoadedPair:
    if pair.loaded is not loaded:
        raise NotLoaded("Another model was loaded meanwhile.")
    return pair


def _lower_priority() -> None:
    """Let everything else run first: Linux alone has priorities of threads."""
    from engine.machine import threads

    threads.use(1)  # of this thread; more would heat the machine while nobody looks
    with suppress(OSError, AttributeError):
        if os.uname().sysname == "Linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
