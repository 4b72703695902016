"""Texts about the loaded pair: what it is, how it drafts, and which choices it cannot serve."""

from __future__ import annotations

from typing import Any

from app.ui.words import count
from app.ui.words.names import beside, title
from engine.request import PLAIN, SERVER
from engine.values.method_titles import method_title

NO_DRAFT = "no draft"
_WITHOUT_MODEL = (PLAIN, "ngram", "suffix", "hybrid", "best")
"""Proposers that need no model or head of their own name."""


def method(settings: Any) -> str:
    """Return how the pair drafts, for the text behind its name."""
    title = method_title(settings.proposer)
    if settings.proposer == PLAIN:
        return title.lower()
    if settings.proposer == SERVER:
        return title
    if settings.controller == "off":
        return f"{title}, off"
    if settings.controller == "fixed":
        return f"{title}, depth {settings.depth}"
    return f"{title}, auto"


def method_unavailable(asked: str, reason: str, used: str) -> str:
    why = reason[:1].lower() + reason[1:]
    instead = "There is no drafting." if used == PLAIN else f"{method_title(used)} is used instead."
    return f"{method_title(asked)} is unavailable: {why} {instead}"


def method_of_pair(last: str, where: str, used: str, *, measured: bool) -> str:
    """Say that the last choice, made with the pair ``where``, is not used, though it could be."""
    why = "measured to be the fastest for this model" if measured else "the default for this model"
    chosen = f"{method_title(last)} was chosen for {title(where) or 'another model'}"
    return f"{chosen}. Now used: {method_title(used)}, {why}."


def label(name: str, loaded: Any) -> str:
    """Return ``name``, and that there is no draft where no model, head or server drafts by default."""
    return f"{name}, no draft" if drafts_of(loaded) == NO_DRAFT else name


def loaded_detail(loaded: Any) -> str:
    held = f"{loaded.quantization} on {loaded.device}{', compiled' if loaded.compiled else ''}"
    parts = [
        loaded.server,
        f"target {loaded.target_name}",
        drafts_of(loaded),
        f"{count(loaded.parameters)} parameters" if loaded.parameters else "",
        held if loaded.device else loaded.quantization,
        f"context {loaded.context:,}" if loaded.context else "",
        f"vocabulary {loaded.vocabulary:,}" if loaded.vocabulary else "",
    ]
    parts = [part for part in parts if part]
    return "\n".join((" · ".join(parts), *loaded.notes))


def drafts_of(loaded: Any) -> str:
    """Name what drafts; "" if a server does not say."""
    if loaded.draft_name:
        return f"draft {loaded.draft_name}"
    if loaded.capabilities.preferred == SERVER:
        return ""
    name = next((name for name in loaded.capabilities.names if name not in _WITHOUT_MODEL), None)
    return NO_DRAFT if name is None else method_title(name)


def drafter(loaded: Any) -> str:
    """Name what drafts beside a loaded model, for its row in a list; "" for nothing."""
    if loaded.draft_name:
        return beside(loaded.target_name, loaded.draft_name)
    named = drafts_of(loaded)
    return "" if named == NO_DRAFT else named
