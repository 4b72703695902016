"""Prompts by name, and the stored result of a sweep, for races and sweeps of pages and command line."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from app.settings.defaults import Default, Defaults, Winner
from app.storage.store import Store
from engine.api import Loaded
from engine.bench import prompts as prompt_sets
from engine.bench.prompts import ALL, Prompt
from engine.bench.sweep import Result, Row, winners
from engine.errors import InvalidRequest
from engine.request import Control
from engine.values.messages import Message

CHATS = "chats"
"""The set of the user's own last prompts; also their kind."""
LAST = 5
"""The number of these prompts."""


def named(name: str, folder: Path, vocabulary: int) -> list[Prompt]:
    """Return the prompts of a set: of ``engine.bench.prompts``, or the last ones of the chats
    in ``folder``.

    Raises InvalidRequest.
    """
    if name != CHATS:
        return prompt_sets.named(name, folder, vocabulary)
    with closing(Store(folder, alone=False)) as store:
        return last_prompts(store)


def last_prompts(store: Store) -> list[Prompt]:
    """Return the last different questions of the chats, newest first, each with its
    conversation before it.

    Raises InvalidRequest where there is none.
    """
    prompts: list[Prompt] = []
    for chat in store.chats():
        if len(prompts) >= LAST:
            break
        for *before, question in reversed(store.questions(chat.id)):
            prompt = Prompt(CHATS, (question.content,), before=tuple(before))
            text = question.content.strip()  # none of an image alone, which is left out here
            prompts += [prompt] if text and prompt not in prompts else []
    if not prompts:
        raise InvalidRequest(
            "prompts", "Your chats have no prompts yet. Ask something there first."
        )
    return prompts[:LAST]


def behind(system: str, prompt: Prompt) -> Prompt:
    """Put a system prompt, if there is one, before the prompt."""
    if not system.strip() or prompt.token_ids:
        return prompt
    first = Message("system", system.strip())
    return Prompt(prompt.kind, prompt.turns, before=(first, *prompt.before))


def check_tunable(loaded: Loaded) -> None:
    """Raise InvalidRequest for a server that ignores a request's depth."""
    if Control.FIXED not in loaded.capabilities.controllers:
        raise InvalidRequest(
            "controller",
            f"The server of {loaded.name} decides how far it drafts, so it cannot be tuned "
            "from here. Start the server with other settings and compare the two with Race.",
        )


def keep_winners(
    folder: Path, loaded: Loaded, result: Result, confirmed: float | None = None
) -> Default:
    """Make the fastest method of a sweep the pair's default on this machine. ``confirmed``: its speed-up
    in a race that followed.

    Raises InvalidRequest if nothing was measured, ForetokenError if it cannot be stored.
    """
    best = {kind: winner(row) for kind, row in winners(result).items()}
    if ALL not in best:
        raise InvalidRequest("sweep", "No prompt was measured completely, so there is no winner.")
    first = best.pop(ALL)
    if confirmed is not None:
        first = replace(first, speedup=round(confirmed, 3))
    return Defaults(folder).keep(loaded, first, best)


def winner(row: Row) -> Winner:
    """Return the part of a sweep's row that is stored."""
    return Winner(row.proposer, row.controller, row.depth, round(row.speedup, 3), row.prompts)
