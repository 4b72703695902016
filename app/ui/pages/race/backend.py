"""The race page's backend: two configurations, raced in pairs. Plain values, no Gradio."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

from app.measuring import CHATS, behind, last_prompts
from app.runtime import Runtime
from app.storage.store import Store
from app.ui import words
from app.ui.controls.panel import rules_of
from app.ui.controls.settings import Settings, decimal, whole
from app.ui.endpoints import View, endpoint, waits
from app.ui.pages.race.opponents import look, methods_of, opponents
from app.ui.pages.race.run import RaceRun
from app.ui.pages.race.session import RaceSession, configuration
from app.ui.rounds.measurements import Measurements, MeasuringBackend
from app.ui.rounds.speeds import DRAFT
from app.ui.words.names import title
from engine.api import Loaded, LoadRequest
from engine.bench import prompts
from engine.bench.prompts import Prompt, first_of_each
from engine.bench.reports.paired import PAIRS
from engine.errors import InvalidRequest
from engine.request import PLAIN, Control
from engine.values import MAX_DEPTH

ONE, SET = "prompt", "set"
"""Other sources of prompts than ``CHATS``: the text box, and the bench's own set."""
OF_EACH_KIND = 2
"""Prompts of each of its kinds that are raced on."""
MAX_TOKENS = 128


class RaceBackend(MeasuringBackend):
    """Races of one running app."""

    PAGE = "race"

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        measurements: Measurements,
        chat_settings: Callable[[], Settings],
    ) -> None:
        """``chat_settings`` returns the chat's current settings."""
        super().__init__(runtime, store, measurements)
        self.chat_settings = chat_settings
        self._session: RaceSession | None = None
        self._data: View = {}
        runtime.uses.append(self._uses)

    @endpoint
    def offer(self, data: View | None = None) -> View:
        """Return what the loaded pair can race, and the race to follow, if any. ``asked``: how it was
        started, while it runs."""
        loaded, own = self.runtime.engine.loaded, self.chat_settings()
        return {
            "loaded": loaded and title(loaded.name),
            "methods": methods_of(loaded.capabilities) if loaded else [],
            "rules": rules_of(loaded.capabilities) if loaded else [],
            "deepest": MAX_DEPTH,
            "own": side_of(own),
            "places": opponents(self.runtime, loaded) if loaded else [],
            "seed": own.seed,
            "max_tokens": min(own.max_tokens or MAX_TOKENS, MAX_TOKENS),
            "chats": len(own_prompts(self.store)),
            "set": len(_set()),
            "number": self.measurements.last(self.PAGE),
            "asked": self.measurements.asked(self.PAGE),
        }

    @waits
    @endpoint
    def look(self, data: View) -> View:
        """Return what an opponent can do, named by ``place``: a pair on this machine, loaded for the race
        only, or a server. Raises ForetokenError."""
        return look(self.runtime, self._opponent(data, self._loaded()))

    @endpoint
    def start(self, data: View) -> View:
        """Start a race. Return the number to follow it by. Raises ForetokenError."""
        session = self._asked(data, self._loaded())
        count = max(PAIRS, len(session.prompts))
        number = self.measurements.start(self.PAGE, RaceRun(session, count), data)
        self._session, self._data = session, data
        return {"number": number}

    def raced(self, target: str, draft: str) -> float | None:
        """Return the speedup over plain decoding that the last race measured for this draft, by ids."""
        session, race = self._session, self._session and self._session.race
        if session is None or not race or race.estimate is None or race.contest.target_names:
            return None
        contest, loaded, median = race.contest, session.loaded, race.estimate.median
        sides = [contest.base.speculation.proposer, contest.rival.speculation.proposer]
        if (loaded.target_id, loaded.draft_id) != (target, draft) or {*sides} != {PLAIN, DRAFT}:
            return None
        return median if sides[0] == PLAIN else 1 / median

    def _uses(self) -> tuple[LoadRequest, ...]:
        """Return the pair or server that a running race loads for its base."""
        place = (self.measurements.asked(self.PAGE) or {}).get("place")
        return () if place is None else (LoadRequest.parse(str(place).strip()),)

    @endpoint
    def more(self, data: View) -> View:
        """Run five more pairs of the last race. Raises ForetokenError."""
        session = self._session
        if session is None or self.runtime.engine.loaded is not session.loaded:
            raise InvalidRequest("race", "This race is no longer available. Start a new one.")
        return {"number": self.measurements.start(self.PAGE, RaceRun(session, PAIRS), self._data)}

    def _asked(self, data: View, loaded: Loaded) -> RaceSession:
        own = self.chat_settings()
        seed = whole("seed", data.get("seed"))
        own = replace(
            own,
            seed=secrets.randbits(31) if seed is None else seed,
            max_tokens=whole("max_tokens", data.get("max_tokens")),
        )
        base, rival = (settings_of(own, each) for each in data["sides"])
        if data.get("place") is None and configuration(base) == configuration(rival):
            raise InvalidRequest(
                "sides",
                "Both sides are the same. Choose another method or setting for one of them.",
            )
        return RaceSession(
            self.runtime,
            loaded,
            base,
            rival,
            tuple(behind(own.system, one) for one in self._prompts(data)),
            self._opponent(data, loaded) if data.get("place") is not None else None,
        )

    def _opponent(self, data: View, loaded: Loaded) -> LoadRequest:
        """Return the opponent's load request, computed as the loaded pair. Raises
        ForetokenError."""
        text = str(data["place"]).strip()
        if not text:
            raise InvalidRequest("place", words.ADDRESS_EMPTY)
        request = loaded.request.alike(text)
        self.runtime.inventory.named(request)
        return request

    def _prompts(self, data: View) -> list[Prompt]:
        if data["source"] == CHATS:
            return last_prompts(self.store)
        if data["source"] == SET:
            return _set()
        text = str(data.get("prompt") or "")
        if not text.strip():
            raise InvalidRequest("prompt", words.EMPTY)
        return [Prompt(ONE, (text,))]


def own_prompts(store: Store) -> list[Prompt]:
    """Return the user's last prompts, if there are any."""
    try:
        return last_prompts(store)
    except InvalidRequest:
        return []


def side_of(settings: Settings) -> View:
    """Return the chat's settings as one side of a race."""
    auto = settings.controller == Control.AUTO
    return {
        "method": settings.proposer,
        "depth": Control.AUTO if auto else str(settings.depth),
        "rule": settings.acceptance,
        "temperature": settings.temperature,
    }


def settings_of(own: Settings, side: View) -> Settings:
    """Return one side's settings: what was chosen for it, the rest as in the chat. Raises
    InvalidRequest."""
    depth = str(side["depth"])
    return replace(
        own,
        proposer=str(side["method"]),
        controller=Control.AUTO if depth == Control.AUTO else Control.FIXED,
        depth=own.depth if depth == Control.AUTO else whole("depth", depth) or 0,
        acceptance=str(side["rule"]),
        temperature=decimal("temperature", side["temperature"]),
    )


def _set() -> list[Prompt]:
    return first_of_each(prompts.read(), OF_EACH_KIND)
