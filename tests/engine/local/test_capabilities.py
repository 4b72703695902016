"""What a loaded pair says that it can do."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from engine.api import Capabilities, OptionInfo, Unavailable
from engine.drafting import proposers
from engine.drafting.resources import Resources
from engine.local.capabilities import capabilities, proposer_info
from engine.tool_calls.styles import HERMES
from engine.values import MAX_DEPTH
from engine.values.sampling import AcceptanceRule, Sampling

WHY = {
    name: (
        "It needs a draft model. Load one with the target."
        if name in ("draft", "hybrid", "best")
        else "It needs a model with a built-in MTP layer. Load one."
        if name == "mtp"
        else f"It needs a head of kind {name} for this model. Load one with the target, or on the "
        "Models page."
    )
    for name in proposers.names()
}


def told(value: Any) -> dict[str, Any]:
    """Every field, so that one that joins has to be said below too."""
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def test_all_that_a_target_alone_can_do_is_told() -> None:
    names = proposers.available(Resources().loaded)
    assert told(capabilities(Resources(), HERMES)) == told(
        Capabilities(
            proposers=tuple(map(proposer_info, names)),
            preferred="ngram",
            rules=tuple(AcceptanceRule),
            sampling=frozenset(told(Sampling())),
            rounds=True,
            probabilities=True,
            tokens=True,
            grammars=True,
            calls=HERMES,
            unavailable=tuple(
                Unavailable(name, WHY[name], proposers.entry_of(name).about)
                for name in proposers.names()
                if name not in names
            ),
        )
    )


@pytest.mark.parametrize("name", proposers.names())
def test_all_of_every_proposer_is_told(name: str) -> None:
    info, entry = told(proposer_info(name)), proposers.entry_of(name)
    options = info.pop("options")
    assert info == {
        "name": name,
        "isolated_options": entry.isolated_options,
        "depth": entry.depth,
        "about": entry.about,
    }
    assert entry.about and 1 <= entry.depth <= MAX_DEPTH
    own = dataclasses.fields(proposers.options_of(name))
    assert options == tuple(
        OptionInfo(
            each.name, type(each.default), each.default, each.metadata["help"], option.choices
        )
        for each, option in zip(own, options, strict=True)
    )
    assert entry.isolated_options.keys() <= {option.name for option in options}


def test_what_is_one_of_few_is_told_as_a_list_even_where_the_registry_says_which() -> None:
    choices = {
        (name, option.name): option.choices
        for name in ("hybrid", "ngram")
        for option in proposer_info(name).options
    }
    assert choices["hybrid", "neural"] == proposers.neural()
    assert "eagle3" in proposers.neural()
    assert choices["ngram", "prompt_lookup_min"] == ()
