"""What a loaded pair says that it can do."""

from __future__ import annotations

import dataclasses

import pytest

from engine.drafting import proposers
from engine.local.capabilities import proposer_info


@pytest.mark.parametrize("name", proposers.names())
def test_every_option_of_every_proposer_is_told_with_its_help(name: str) -> None:
    told = proposer_info(name)
    own = dataclasses.fields(proposers.options_of(name))
    assert [option.name for option in told.options] == [field.name for field in own]
    assert all(option.help for option in told.options)
    assert told.forgetful.keys() <= {option.name for option in told.options}


def test_what_is_one_of_few_is_told_as_a_list_even_where_the_registry_says_which() -> None:
    choices = {
        (name, option.name): option.choices
        for name in ("draft", "hybrid", "ngram")
        for option in proposer_info(name).options
    }
    assert choices["draft", "cross_vocabulary"] == ("auto", "tli", "slem")
    assert choices["hybrid", "neural"] == proposers.neural()
    assert "eagle3" in proposers.neural()
    assert choices["ngram", "prompt_lookup_min"] == ()
