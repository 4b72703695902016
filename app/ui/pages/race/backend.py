"""A race: one prompt written plain and then with speculation, on the same warm model."""

from __future__ import annotations

import logging
import secrets
import threading
from dataclasses import dataclass, replace

from app.history import history
from app.ui import view
from app.ui.feed import Feed, since
from app.ui.settings import Settings
from app.ui.view import View
from app.ui.words import Words
from engine.api import Engine, Generation
from engine.errors import ForetokenError, InvalidRequest
from engine.events import FinishReason
from engine.reply import ReplyState
from engine.request import PLAIN, Request

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
    if settings.proposer == PLAIN:
        raise InvalidRequest("proposer", Words.RACE_NONE)
    seed = settings.seed if settings.seed is not None else secrets.randbits(31)
    settings = replace(settings, seed=seed, stop="")
    request = replace(
        settings.request(history([("user", prompt)], settings.system)), reuse_cache=False
    )
    plain = replace(settings, proposer=PLAIN).speculation()
    others = request.speculation.acceptance.weighs_q and settings.temperature > 0
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
            replies = []
            for lane, request in zip(LANES, requests, strict=True):
                self._tell(lane, {"t": "lane", "state": "running"})
                replies.append(self._run(lane, request))
                self._tell(lane, {"t": "lane", "state": "done"})
            self.feed.append(self._result(*replies), dict(self._totals))
        except Broken as broken:
            self.feed.append({"t": "broken", "message": broken.message})
        except ForetokenError as error:
            self.feed.append({"t": "broken", "message": str(error)})
        except Exception as error:
            logger.exception("a race broke off")
            self.feed.append({"t": "broken", "message": Words.race_failed(error)})
        finally:
            self.feed.close()

    def _run(self, lane: str | None, request: Request) -> ReplyState:
        """One run to its end; the warm-up has no lane and is not shown."""
        with self._lock:
            if self._cancelled:
                raise Broken("")
            self._generation = self._engine.generate(request)
        reply = ReplyState()
        for event in self._generation:
            reply.add(event)
            if lane is not None:
                self._totals[lane] = view.totals(reply.statistics)
                self._tell(lane, view.show(event))
        if reply.error is not None:
            raise Broken(reply.error)
        if reply.reason is FinishReason.CANCELLED:
            raise Broken("")
        return reply

    def _tell(self, lane: str, shown: View) -> None:
        self.feed.append({**shown, "lane": lane}, dict(self._totals))

    def _result(self, plain: ReplyState, speculative: ReplyState) -> View:
        return {
            "t": "result",
            "speedup": speedup(plain, speculative),
            "identical": same_words(plain, speculative),
            "difference": first_difference(plain, speculative),
            "expected": self._plan.expected_identical,
            "acceptance": self._plan.speculative.speculation.acceptance,
        }


def speedup(plain: ReplyState, other: ReplyState) -> float | None:
    """How many times as fast the other was; None where a speed is not known."""
    before, after = plain.statistics.tokens_per_s, other.statistics.tokens_per_s
    return after / before if before and after else None


def same_words(one: ReplyState, other: ReplyState) -> bool:
    """Token for token; by their texts where the engine tells no tokens."""
    if one.token_ids is None or other.token_ids is None:
        return one.text == other.text
    return one.token_ids == other.token_ids


def first_difference(one: ReplyState, other: ReplyState) -> tuple[int, str, str] | None:
    """Position and both tokens where two replies part; one that ended has no token there.

    None where they do not part, or where the engine tells no tokens.
    """
    ids, others = one.token_ids, other.token_ids
    if ids is None or others is None or ids == others:
        return None
    shared = min(len(ids), len(others))
    position = next((i for i in range(shared) if ids[i] != others[i]), shared)
    return position, _token(one, position), _token(other, position)


def _token(reply: ReplyState, position: int) -> str:
    tokens = reply.tokens or []
    return tokens[position].text if position < len(tokens) else "(end)"


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
