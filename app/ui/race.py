"""A race: one prompt written plain and then with speculation, on the same warm model."""

from __future__ import annotations

import logging
import secrets
import threading
from dataclasses import dataclass, replace

from app.ui import view
from app.ui.feed import Feed, since
from app.ui.settings import Settings
from app.ui.view import Reply, Runner, View
from app.ui.words import Words
from engine.api import Engine, Generation
from engine.errors import ForetokenError, InvalidRequest
from engine.events import Emitted, Failed, Finished, FinishReason
from engine.request import AcceptanceRule, Request

logger = logging.getLogger(__name__)

WARM_UP_TOKENS = 8
LANES = ("plain", "speculative")


class Broken(Exception):
    """A run ended before its time; ``message`` is for people, empty after a cancel."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Plan:
    """The two requests of a race, and whether their words must be equal."""

    plain: Request
    speculative: Request
    expected_identical: bool


def plan(prompt: str, settings: Settings) -> Plan:
    """The race that ``settings`` describe. Raises ``InvalidRequest``.

    Both sides get the same seed, so that the coupled rule can keep its promise.
    """
    if not prompt.strip():
        raise InvalidRequest("prompt", Words.EMPTY)
    if settings.proposer == "none":
        raise InvalidRequest("proposer", Words.RACE_NONE)
    seed = settings.seed if settings.seed is not None else secrets.randbits(31)
    settings = replace(settings, seed=seed, stop="")
    request = replace(
        settings.request(view.history([("user", prompt)], settings.system)), reuse_cache=False
    )
    plain = replace(settings, proposer="none").speculation()
    others = AcceptanceRule(settings.acceptance).weighs_q and settings.temperature > 0
    return Plan(replace(request, speculation=plain), request, not others)


class Race:
    """One race under way. ``feed`` tells a page how it goes."""

    def __init__(self, engine: Engine, race: Plan) -> None:
        self.feed = Feed()
        self._engine = engine
        self._plan = race
        self._lock = threading.Lock()
        self._generation: Generation | None = None
        self._cancelled = False
        self._totals: dict[str, View] = {}

    def start(self) -> None:
        threading.Thread(target=self._work, name="race", daemon=True).start()

    def stop(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._generation is not None:
                self._generation.cancel()

    def _work(self) -> None:
        requests = (self._plan.plain, self._plan.speculative)
        try:
            for lane, request in zip(LANES, requests, strict=True):
                self._tell(lane, {"t": "lane", "state": "warming"})
                self._run(None, replace(request, max_tokens=WARM_UP_TOKENS))
            runners = []
            for lane, request in zip(LANES, requests, strict=True):
                self._tell(lane, {"t": "lane", "state": "running"})
                runners.append(self._run(lane, request))
                self._tell(lane, {"t": "lane", "state": "done"})
            self.feed.append(self._verdict(*runners), dict(self._totals))
        except Broken as broken:
            self.feed.append({"t": "broken", "message": broken.message})
        except ForetokenError as error:
            self.feed.append({"t": "broken", "message": str(error)})
        except Exception as error:
            logger.exception("a race broke off")
            self.feed.append({"t": "broken", "message": Words.race_failed(error)})
        finally:
            self.feed.close()

    def _run(self, lane: str | None, request: Request) -> Runner:
        """One run to its end; the warm-up has no lane and is not shown."""
        with self._lock:
            if self._cancelled:
                raise Broken("")
            self._generation = self._engine.generate(request)
        reply = Reply()
        texts: list[str] = []
        token_ids: tuple[int, ...] = ()
        for event in self._generation:
            shown = reply.add(event)
            if lane is not None:
                self._totals[lane] = view.totals(reply.statistics)
                self._tell(lane, shown)
            match event:
                case Emitted():
                    texts += [piece.text for piece in event.pieces]
                case Finished(FinishReason.CANCELLED):
                    raise Broken("")
                case Finished():
                    token_ids = event.token_ids
                case Failed(message):
                    raise Broken(message)
        return Runner(token_ids, tuple(texts), reply.statistics["tokens_per_s"])

    def _tell(self, lane: str, shown: View) -> None:
        self.feed.append({**shown, "lane": lane}, dict(self._totals))

    def _verdict(self, plain: Runner, speculative: Runner) -> View:
        verdict = view.judge(plain, speculative, expected_identical=self._plan.expected_identical)
        return {
            "t": "verdict",
            "speedup": verdict.speedup,
            "identical": verdict.identical,
            "difference": verdict.first_difference,
            "expected": verdict.expected_identical,
        }


class Races:
    """The races of one app, one at a time: two would slow each other down."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._number = 0
        self._race: Race | None = None

    def start(self, prompt: str, settings: Settings) -> int:
        """Start a race; returns the number to follow it by. Raises ``InvalidRequest``."""
        race = Race(self._engine, plan(prompt, settings))
        with self._lock:
            if self._race is not None and not self._race.feed.packet(0)["done"]:
                raise InvalidRequest("race", Words.RACE_BUSY)
            self._race = race
            self._number += 1
            race.start()
            return self._number

    def stop(self) -> None:
        if self._race is not None:
            self._race.stop()

    async def follow(self, data: View) -> View | None:
        """What came since the page asked last; None for a race that is over and gone."""
        if self._race is None or data["race"] != self._number:
            return None
        return await since(self._race.feed, int(data["from"]))
