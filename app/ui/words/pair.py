"""Texts about the loaded pair: what it is, how it drafts, and which choices it cannot serve."""

from __future__ import annotations

from typing import Any

from app.ui.words import count
from app.ui.words.names import title
from engine.request import PLAIN, SERVER
from engine.stats import times

UNKNOWN_METHOD = "What is loaded does not have it."
NO_DRAFT = "no draft"
_WITHOUT_MODEL = (PLAIN, "ngram")
"""Default proposers of a model beside which nothing is loaded that drafts."""
_NAMED = {PLAIN: "plain decoding", SERVER: "the server's own drafting"}
"""Of methods whose name says little within a sentence."""


def deterministic(proposer: str) -> str:
    return f"Temperature 0: the same question gives the same words; {drafted_by(proposer)}."


def balanced(proposer: str) -> str:
    return f"Temperature 0.7, top-p 0.95: Retry gives other words; {drafted_by(proposer)}."


def method(settings: Any, default: bool) -> str:
    """Return how the pair drafts, for the text behind its name."""
    if settings.proposer == PLAIN:
        return "plain"
    if settings.proposer == SERVER:
        return "as the server drafts"
    if settings.controller == "off":
        return f"{settings.proposer}, off"
    if settings.controller == "fixed":
        return f"{settings.proposer}, depth {settings.depth}"
    return "auto" if default else f"{settings.proposer}, auto"


def measured_speed(speedup: float, day: str) -> str:
    return f"{times(speedup)} plain, measured on {day}"


def own_speed(tokens_per_s: float, replies: int) -> str:
    of = "the last reply" if replies == 1 else f"the last {replies} replies"
    return f"{tokens_per_s:.1f} tokens/s in {of}"


def method_unavailable(asked: str, reason: str, used: str) -> str:
    return f"{_first(asked)} cannot be used with this pair: {lower_first(reason)} {_instead(used)}"


def method_of_pair(last: str, where: str, used: str, reason: str, *, measured: bool) -> str:
    """Say that the last choice, made with the pair ``where``, is not used. ``reason``: why it cannot be
    used; empty if it could."""
    chosen = f"{_first(last)} was chosen last, with {title(where) or 'another pair'}"
    if reason:
        return f"{chosen}; this one cannot use it: {lower_first(reason)} {_instead(used)}"
    why = "was measured to be fastest with it" if measured else "is its default"
    return f"{chosen}. This pair uses {_NAMED.get(used, used)}, which {why}."


def _instead(used: str) -> str:
    return f"{_first(used)} is used instead."


def _first(proposer: str) -> str:
    """Return a proposer's name for the beginning of a sentence."""
    named = _NAMED.get(proposer)
    return proposer if named is None else named[0].upper() + named[1:]


def rule_unavailable(rule: str) -> str:
    return f"The acceptance rule {rule} is not there with what is loaded: auto judges instead."


def controller_unavailable(controller: str, used: str) -> str:
    return f"How far is drafted cannot be {controller} with what is loaded: it is {used}."


def sampling_unavailable(name: str) -> str:
    return f"What is loaded has no {name.replace('_', ' ')}: it is left off."


def label(name: str, loaded: Any) -> str:
    """Return ``name``, and that there is no draft where no model, head or server drafts by default."""
    return f"{name}, no draft" if drafts_of(loaded) == NO_DRAFT else name


def measured_default(default: str) -> str:
    return (
        f'Default: {default}. "Back to defaults" takes it up; the Tune page, where it can be measured '
        "anew, forgets it."
    )


def loaded_detail(loaded: Any) -> str:
    held = f"{loaded.quantization} on {loaded.device}{', compiled' if loaded.compiled else ''}"
    parts = [
        loaded.server,
        f"target {loaded.target_name}",
        drafts_of(loaded),
        f"{count(loaded.parameters)} parameters" if loaded.parameters else "",
        held if loaded.device else loaded.quantization,
        f"context {loaded.context}" if loaded.context else "",
        f"vocabulary {loaded.vocabulary}" if loaded.vocabulary else "",
    ]
    parts = [part for part in parts if part]
    return "\n".join((" · ".join(parts), *loaded.notes))


def drafts_of(loaded: Any) -> str:
    """Name what drafts; "" if a server does not say."""
    if loaded.draft_name:
        return f"draft {loaded.draft_name}"
    preferred = loaded.capabilities.preferred
    if preferred == SERVER:
        return ""
    return NO_DRAFT if preferred in _WITHOUT_MODEL else f"drafted by {preferred}"


def drafted_by(proposer: str) -> str:
    """Return how a pair drafts by default, for use within a sentence."""
    if proposer == SERVER:
        return "drafted as the server was started"
    return "nothing is drafted" if proposer == PLAIN else f"drafted by {proposer} as far as it pays"


def lower_first(sentence: str) -> str:
    """Return a sentence for use behind a colon."""
    return sentence[:1].lower() + sentence[1:]
