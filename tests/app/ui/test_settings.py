"""The side panel's values become requests, and mistakes name their field."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.ui.controls.settings import Settings, typed, whole
from engine.api import OptionInfo, ProposerInfo
from engine.errors import InvalidRequest
from engine.request import Control, Speculation
from engine.values.messages import Message
from tests.support.fake_engine import CAPABILITIES

ASK = (Message("user", "Hi"),)


def test_the_defaults_make_a_request():
    request = Settings().request(ASK)
    assert request.messages == ASK
    assert request.speculation.proposer == "draft"
    assert request.stop == ()


def test_plain_decoding_has_no_depth():
    assert Settings(proposer="none", depth=5).request(ASK).speculation.depth == 0


def test_stop_strings_come_one_a_line():
    assert Settings(stop="END\n\n###\n").request(ASK).stop == ("END", "###")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"controller": "fixed", "depth": 0}, "depth"),
        ({"controller": "fixed", "depth": 99}, "depth"),
        ({"controller": "lucky"}, "controller"),
        ({"acceptance": "typical"}, "acceptance"),
        ({"temperature": -1.0}, "temperature"),
    ],
)
def test_a_value_out_of_range_names_its_field(change, field):
    with pytest.raises(InvalidRequest) as caught:
        Settings(**change).request(ASK)
    assert caught.value.field == field


def test_number_fields_are_whole_or_empty():
    assert whole("seed", 3.0) == 3
    assert whole("seed", None) is None
    assert whole("seed", "") is None
    with pytest.raises(InvalidRequest, match=r"seed is 1\.5"):
        whole("seed", 1.5)


def test_settings_survive_their_json():
    settings = Settings(depth=7, stop="END", options={"ngram": {"prompt_lookup_min": 3}})
    assert Settings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize(
    ("speculation", "shown"),
    [
        (Speculation(proposer="suffix", controller=Control.AUTO), ("suffix", "auto", 4)),
        (Speculation(proposer="draft", depth=2, controller=Control.FIXED), ("draft", "fixed", 2)),
        (Speculation(proposer="none"), ("none", "auto", 4)),
    ],
)
def test_a_default_is_shown_as_it_drafts(speculation, shown):
    settings = Settings.drafting_as(speculation)
    assert (settings.proposer, settings.controller, settings.depth) == shown
    meant = settings.speculation()
    assert (meant.proposer, meant.control) == (speculation.proposer, speculation.control)


@pytest.mark.parametrize("kept", [None, [], {"gone": 1}])
def test_unusable_kept_settings_fall_back_to_defaults(kept):
    assert Settings.from_json(kept) == Settings()


@pytest.mark.parametrize(
    "broken",
    [
        {"temperature": "hot"},
        {"temperature": None},
        {"temperature": True},
        {"acceptance": "typical"},
        {"acceptance": ["greedy"]},
        {"controller": "lucky"},
        {"proposer": 5},
        {"depth": "4"},
        {"top_p": float("nan"), "min_p": 10**400},
        {"seed": "lucky"},
        {"max_tokens": []},
        {"stop": 5},
        {"options": [1]},
        {"options": {"draft": [1], "ngram": 5}},
        {"options": {"draft": {"across": None, "other": {}}}},
    ],
)
def test_a_kept_value_that_is_no_use_falls_back_and_the_others_stay(broken):
    default = Settings(temperature=0.5, stop="END", max_tokens=None)
    kept = Settings(proposer="ngram", top_k=7, seed=None, max_tokens=None).to_json()
    usable = {name: value for name, value in kept.items() if name not in broken}
    found = Settings.from_json(json.loads(json.dumps({**kept, **broken})), default)
    assert not any(found.options.values())
    found = replace(found, options={})
    assert found == Settings.from_json(usable, default)
    assert found.request(ASK) and (found.top_k, found.max_tokens) == (7, None)


def test_kept_options_that_a_proposer_has_no_use_for_are_not_asked_for():
    kept = {
        "ngram": {"prompt_lookup_min": "x", "prompt_lookup_max": 3, "remember": 1},
        "gone": {"left": True},
    }
    settings = Settings.from_json({"options": kept})
    assert typed(settings.options, CAPABILITIES) == {
        "ngram": {"prompt_lookup_max": 3},
        "gone": {"left": True},
    }


def test_options_come_back_from_a_page_in_their_own_types():
    """A page sends 1.0 as 1, and the engine refuses an int for a float."""
    kinds = (OptionInfo("share", float, 0.5, ""), OptionInfo("most", int, 3, ""))
    offered = replace(CAPABILITIES, proposers=(ProposerInfo("ngram", kinds),))
    sent = {"ngram": {"share": 1, "most": 4.0}, "gone": {"left": True}}
    made = typed(sent, offered)
    assert made == sent
    assert [type(value) for value in made["ngram"].values()] == [float, int]
    assert typed({"ngram": {"share": None, "most": 2}}, offered) == {"ngram": {"most": 2}}
    assert typed(sent, None) == sent
