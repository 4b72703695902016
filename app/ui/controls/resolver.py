"""Resolve chosen settings against the loaded pair. Pure functions, without Gradio.

A choice of proposer and depth is stored for the pair that it was made with: for another pair it may be
slow or unavailable. Every other pair keeps its own choice or its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from app.settings.defaults import Default
from app.ui.controls.settings import DRAFTING, Settings, typed
from app.ui.words import pair as pair_words
from engine.api import Capabilities
from engine.request import PLAIN, Speculation
from engine.values.sampling import AcceptanceRule, Sampling

OWN, LAST, SAID = "drafting", "last", "said"
"""Keys of stored settings: drafting by a pair's key, the pair of the last choice, and whether the user
was told since then that this choice is not used for other pairs."""

_NEUTRAL, _USUAL = Sampling(), Settings()


@dataclass(frozen=True, slots=True)
class Pair:
    """The facts of a loaded pair that choices depend on. ``default``: its drafting without a choice;
    ``measured``: the result of a sweep on this machine, if there is one."""

    key: str
    name: str
    capabilities: Capabilities
    default: Speculation
    measured: Default | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings that the pair can serve, and sentences that say what was changed for that and why.
    ``news``: those sentences that are shown as a notice after another pair was loaded."""

    settings: Settings
    changes: tuple[str, ...] = ()
    news: tuple[str, ...] = ()


def resolve(asked: Settings, pair: Pair | None) -> Resolved:
    """Replace what the loaded pair cannot do, and say so; change nothing while no pair is loaded."""
    if pair is None:
        return Resolved(asked)
    changes: list[str] = []
    capabilities = pair.capabilities
    settings = replace(asked, options=typed(asked.options, capabilities))
    if settings.proposer not in capabilities.names:
        settings = settings.drafting_like(default_of(pair))
        if asked.proposer:
            changes.append(
                pair_words.method_unavailable(
                    asked.proposer, why_not(capabilities, asked.proposer), settings.proposer
                )
            )
    if settings.proposer != PLAIN and settings.controller not in capabilities.controllers:
        used = str(capabilities.controllers[0])
        changes.append(
            f"The depth control {settings.controller} is not available for this model; {used} is used."
        )
        settings = replace(settings, controller=used)
    if settings.acceptance not in (AcceptanceRule.AUTO, *capabilities.rules):
        changes.append(
            f"The acceptance rule {settings.acceptance} is not available for this model; auto is used."
        )
        settings = replace(settings, acceptance=str(AcceptanceRule.AUTO))
    if settings.acceptance == AcceptanceRule.GREEDY and settings.temperature:
        changes.append("The acceptance rule greedy needs temperature 0; auto is used.")
        settings = replace(settings, acceptance=str(AcceptanceRule.AUTO))
    # Nothing is said of these: a model without the choice has no switch either.
    if settings.thinking not in capabilities.thinking:
        settings = replace(settings, thinking="")
    if not capabilities.thinking_budget:
        settings = replace(settings, thinking_budget=None)
    for each in fields(Sampling):
        neutral = getattr(_NEUTRAL, each.name)
        asked_for = getattr(settings, each.name)
        if each.name not in capabilities.sampling and asked_for != neutral:
            if asked_for != getattr(_USUAL, each.name):  # nobody chose that
                changes.append(
                    f"This model does not support {each.name.replace('_', ' ')}; it is ignored."
                )
            settings = replace(settings, **{each.name: neutral})
    return Resolved(settings, tuple(changes))


def resolve_for_pair(asked: Settings, own: Settings, pair: Pair) -> Resolved:
    """Resolve the settings of a page that believes another pair to be loaded: ``own`` settings of this
    pair say how to draft."""
    served = resolve(asked.drafting_like(own), pair)
    changes = _instead(asked.proposer, "", pair, served.settings.proposer)
    return replace(served, changes=(*changes, *served.changes))


def resolve_stored(pair: Pair | None, kept: Mapping[str, Any]) -> Resolved:
    """Resolve the stored settings for a page that opens or a pair that was loaded."""
    if pair is None:
        return Resolved(Settings.from_json(kept))
    default = default_of(pair)
    own = mapping(kept.get(OWN)).get(pair.key)
    plain = {name: value for name, value in kept.items() if name not in DRAFTING}
    settings = Settings.from_json({**plain, **mapping(own)}, default)
    found = resolve(settings, pair)
    if own is not None:
        return replace(found, news=found.changes)
    left = _instead(kept.get("proposer"), str(kept.get(LAST) or ""), pair, default.proposer)
    news = found.changes if kept.get(SAID) else (*left, *found.changes)
    return replace(found, changes=(*left, *found.changes), news=news)


def with_choice(
    kept: Mapping[str, Any], settings: Settings, pair: Pair | None, *, chosen: bool
) -> dict[str, Any]:
    """Return what to store. How to draft is stored only if it was ``chosen``, for this pair; choosing
    the pair's default removes the stored choice."""
    values = settings.to_json()
    drafting = {name: values.pop(name) for name in DRAFTING}
    own = dict(mapping(kept.get(OWN)))
    last = {name: kept[name] for name in DRAFTING if name in kept}
    with_pair, said = kept.get(LAST), kept.get(SAID) is True
    if chosen and pair is not None:
        last, with_pair, said = drafting, pair.name, False
        default = default_of(pair)
        own.pop(pair.key, None)
        if any(drafting[name] != getattr(default, name) for name in DRAFTING):
            own[pair.key] = drafting
    return {**values, **last, OWN: own, LAST: with_pair, SAID: said}


def default_of(pair: Pair) -> Settings:
    """Return default settings that draft by the pair's default, with a proposer that the pair has."""
    usable = pair.default.proposer in pair.capabilities.names
    preferred = Speculation(proposer=pair.capabilities.preferred)
    return Settings.drafting_as(pair.default if usable else preferred)


def why_not(capabilities: Capabilities, proposer: str) -> str:
    """Return why a pair lacks a proposer, as a sentence."""
    reasons = (each.reason for each in capabilities.unavailable if each.name == proposer)
    return next(reasons, "It is not available for this model.")


def _instead(asked: Any, where: str, pair: Pair, used: str) -> tuple[str, ...]:
    """Say that the proposer chosen for the pair ``where`` is not used with this one, and why."""
    if not isinstance(asked, str) or asked == used:
        return ()
    if asked not in pair.capabilities.names:
        return (pair_words.method_unavailable(asked, why_not(pair.capabilities, asked), used),)
    return (pair_words.method_of_pair(asked, where, used, measured=pair.measured is not None),)


def mapping(value: Any) -> dict[str, Any]:
    """Return a stored object, empty where anything else is stored."""
    return value if isinstance(value, dict) else {}
