"""What the loaded pair offers, as the pages show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.ui.words import Words
from engine.api import Capabilities, OptionInfo, ProposerInfo
from engine.request import AcceptanceRule


def options_of(capabilities: Capabilities | None, proposer: str) -> tuple[OptionInfo, ...]:
    """A proposer's own options; none where the loaded pair does not offer it."""
    found = capabilities.proposer(proposer) if capabilities is not None else None
    return found.options if found is not None else ()


def standing(
    capabilities: Capabilities | None, chosen: str | None, *, without: tuple[str, ...] = ()
) -> str | None:
    """The proposer that a picker shows: the chosen one, or for one that the loaded pair lacks, its own
    choice."""
    if capabilities is None:
        return chosen
    names = [name for name in capabilities.names if name not in without]
    return next((name for name in (chosen, capabilities.preferred, *names) if name in names), None)


def rules_update(capabilities: Capabilities, chosen: str) -> dict[str, Any]:
    """How a picker of acceptance rules is to be; auto stands in for one that the loaded pair lacks."""
    rules = list(dict.fromkeys(map(str, (AcceptanceRule.AUTO, *capabilities.rules))))
    value = {} if chosen in rules else {"value": str(AcceptanceRule.AUTO)}
    return {"choices": rules, **value}


def proposer_update(
    capabilities: Capabilities | None,
    chosen: str | None,
    *,
    label: Callable[[ProposerInfo], str] = lambda info: info.name,
    without: tuple[str, ...] = (),
) -> dict[str, Any]:
    """How a proposer picker is to be: what the loaded pair offers, or at rest while none is loaded.

    The pair's own choice stands in for what it does not offer, and the picker says so. Values
    are not held to the choices: what a browser sends may be older than they are, and Gradio would answer
    it with an error.
    A proposer that is not there is refused by the engine, in words.
    """
    if capabilities is None:
        choices = [(chosen, chosen)] if chosen else []
        return {
            "choices": choices,
            "value": chosen,
            "interactive": False,
            "info": Words.NO_PAIR,
            "allow_custom_value": True,
        }
    offered = [each for each in capabilities.proposers if each.name not in without]
    value = standing(capabilities, chosen, without=without)
    choices = [(label(each), each.name) for each in offered]
    return {
        "choices": choices,
        "value": value,
        "interactive": True,
        "info": Words.not_offered(chosen) if chosen and chosen != value else "",
        "allow_custom_value": True,
    }
