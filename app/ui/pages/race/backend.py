"""What the race page asks for: two configurations, raced in pairs. Plain values, no Gradio."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

from app.measuring import CHATS, behind, last_prompts
from app.runtime import Runtime
from app.store import Store
from app.ui.measurements import Measurements
from app.ui.names import title
from app.ui.pages.race.course import USUAL, Course
from app.ui.pages.race.racing import Racing
from app.ui.settings import Settings, whole
from app.ui.view import View
from app.ui.words import Words
from engine.api import Capabilities, Loaded, LoadRequest
from engine.bench import prompts, race_report
from engine.bench.paired import PAIRS
from engine.bench.prompts import Prompt, first_of_each
from engine.errors import InvalidRequest, NotLoaded
from engine.loading.drafts import offered
from engine.request import MAX_DEPTH, PLAIN, AcceptanceRule, Control

PAGE = "race"
ONE, SET = "prompt", "set"
"""Sources of prompts beside ``CHATS``: what stands in the box, and the bench's own set."""
OF_EACH_KIND = 2
"""Prompts of each of its kinds that are raced on."""
MAX_TOKENS = 128


class RaceBackend:
    """Races of one running app."""

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        measurements: Measurements,
        chat_settings: Callable[[], Settings],
    ) -> None:
        """``chat_settings``: what the chat answers with just now."""
        self.runtime, self.store = runtime, store
        self.measurements, self.chat_settings = measurements, chat_settings
        self._course: Course | None = None

    def offer(self, data: View | None = None) -> View:
        """What can be raced with what is loaded, and the race to follow, if there is one."""
        loaded, own = self.runtime.engine.loaded, self.chat_settings()
        return {
            "loaded": loaded and loaded.name,
            "methods": _methods(loaded.capabilities) if loaded else [],
            "rules": _rules(loaded.capabilities) if loaded else [],
            "deepest": MAX_DEPTH,
            "own": side_of(own),
            "places": places(self.runtime, loaded) if loaded else [],
            "seed": own.seed,
            "max_tokens": min(own.max_tokens or MAX_TOKENS, MAX_TOKENS),
            "chats": len(self._own_prompts()),
            "set": len(_set()),
            "number": self.measurements.last(PAGE),
        }

    def look(self, data: View) -> View:
        """What the base can do at another ``place``: a pair of this machine, which is loaded for the race
        alone, or a server, which is asked. Raises ForetokenError."""
        request = self._place(data, self._loaded())
        pairing = self.runtime.known().named(request)
        usual = {"name": USUAL}
        if not pairing.target.address:
            methods = [{"name": name} for name in offered(pairing)]
            rules = list(map(str, AcceptanceRule))
            return {"methods": [usual, *methods], "rules": rules, "unknown": ""}
        with closing(self.runtime.another_engine()) as engine:
            found = engine.load(request)
        methods = _methods(found.capabilities)
        return {
            "methods": [usual, *methods] if len(methods) > 1 else methods,
            "rules": _rules(found.capabilities),
            "unknown": " ".join(race_report.unknown(found)),
        }

    def start(self, data: View) -> View:
        """A new race; the number to follow it by. Raises ForetokenError."""
        course = self._asked(data, self._loaded())
        count = max(PAIRS, len(course.prompts))
        number = self.measurements.start(PAGE, Racing(course, count))
        self._course = course
        return {"number": number}

    def more(self, data: View) -> View:
        """Five more pairs of the last race. Raises ForetokenError."""
        course = self._course
        if course is None or self.runtime.engine.loaded is not course.loaded:
            raise InvalidRequest("race", Words.RACE_GONE)
        return {"number": self.measurements.start(PAGE, Racing(course, PAIRS))}

    def stop(self, data: View | None = None) -> bool:
        self.measurements.stop(PAGE)
        return True

    async def follow(self, data: View) -> View | None:
        """What came since the page asked last."""
        return await self.measurements.follow(PAGE, data)

    def _loaded(self) -> Loaded:
        loaded = self.runtime.engine.loaded
        if loaded is None:
            raise NotLoaded(Words.NOT_LOADED)
        return loaded

    def _asked(self, data: View, loaded: Loaded) -> Course:
        own = self.chat_settings()
        seed = whole("seed", data.get("seed"))
        own = replace(
            own,
            seed=secrets.randbits(31) if seed is None else seed,
            max_tokens=whole("max_tokens", data.get("max_tokens")),
        )
        base, rival = (settings_of(own, each) for each in data["sides"])
        return Course(
            self.runtime,
            loaded,
            base,
            rival,
            tuple(behind(own.system, one) for one in self._prompts(data)),
            self._place(data, loaded) if data.get("place") is not None else None,
        )

    def _place(self, data: View, loaded: Loaded) -> LoadRequest:
        """What the base runs on, computed as what is loaded. Raises ForetokenError for what is no pair
        and no address."""
        text = str(data["place"]).strip()
        if not text:
            raise InvalidRequest("place", Words.ADDRESS_EMPTY)
        request = loaded.request.alike(text)
        self.runtime.known().named(request)
        return request

    def _prompts(self, data: View) -> list[Prompt]:
        if data["source"] == CHATS:
            return last_prompts(self.store)
        if data["source"] == SET:
            return _set()
        text = str(data.get("prompt") or "")
        if not text.strip():
            raise InvalidRequest("prompt", Words.EMPTY)
        return [Prompt(ONE, (text,))]

    def _own_prompts(self) -> list[Prompt]:
        try:
            return last_prompts(self.store)
        except InvalidRequest:
            return []


def side_of(settings: Settings) -> View:
    """How the chat answers, as one side of a race."""
    auto = settings.controller == Control.AUTO
    return {
        "method": settings.proposer,
        "depth": Control.AUTO if auto else str(settings.depth),
        "rule": settings.acceptance,
        "temperature": settings.temperature,
    }


def settings_of(own: Settings, side: View) -> Settings:
    """One side: what was chosen for it, and all else as the chat has it. Raises InvalidRequest."""
    depth = str(side["depth"])
    return replace(
        own,
        proposer=str(side["method"]),
        controller=Control.AUTO if depth == Control.AUTO else Control.FIXED,
        depth=own.depth if depth == Control.AUTO else whole("depth", depth) or 0,
        acceptance=str(side["rule"]),
        temperature=_temperature(side["temperature"]),
    )


def places(runtime: Runtime, loaded: Loaded) -> list[View]:
    """What else a base could run on: pairs and models that lie here, and servers in the catalog."""
    catalog, shown = runtime.catalog, (loaded.target_id, loaded.draft_id)
    pairs = [
        (each.id, each.name)
        for each in catalog.pairs
        if (each.target.id, each.draft and each.draft.id) != shown
        and all(spec is None or runtime.locate(spec) for spec in (each.target, each.draft))
    ]
    models = [
        (each.id, each.name)
        for each in (*catalog.models, *runtime.beside_catalog())
        if each.id not in {one.id for one in catalog.pairs}
        and (each.id, None) != shown
        and runtime.locate(each)
    ]
    servers = [(each.id, each.name) for each in catalog.servers if each.id != loaded.target_id]
    kinds = {"pair": pairs, "model": models, "server": servers}
    return [
        {"kind": kind, "id": identity, "name": title(name)}
        for kind, found in kinds.items()
        for identity, name in found
    ]


def _temperature(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            "temperature", f"temperature is {value!r}; it must be a number from 0 to 5."
        ) from error


def _methods(capabilities: Capabilities) -> list[View]:
    """Plain decoding first."""
    offered = sorted(capabilities.proposers, key=lambda one: one.name != PLAIN)
    return [{"name": one.name, "about": one.about, "depth": one.depth} for one in offered]


def _rules(capabilities: Capabilities) -> list[str]:
    return list(dict.fromkeys(map(str, (AcceptanceRule.AUTO, *capabilities.rules))))


def _set() -> list[Prompt]:
    return first_of_each(prompts.read(), OF_EACH_KIND)
