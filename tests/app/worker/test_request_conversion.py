"""A request from Dynamo's frontend as the engine's: everything it says, and nothing quietly left out."""

from __future__ import annotations

from typing import Any

import pytest

from app.worker.request_conversion import convert_request
from engine.errors import InvalidRequest
from engine.request import Speculation
from engine.values.grammar import Grammar, GrammarKind
from engine.values.sampling import Sampling

NGRAM = Speculation(proposer="ngram", depth=4)


def body(**parts: Any) -> dict[str, Any]:
    """A request with null wherever nothing was asked, as the frontend sends it."""
    nothing: dict[str, Any] = {
        "sampling_options": {
            "n": None,
            "best_of": None,
            "use_beam_search": None,
            "guided_decoding": None,
        },
        "stop_conditions": {"max_tokens": None, "stop": None, "min_tokens": None},
        "output_options": {"logprobs": None, "prompt_logprobs": None},
        "multi_modal_data": None,
    }
    for part, given in parts.items():
        nothing[part] = {**(nothing.get(part) or {}), **given}
    return {"model": "pip", "token_ids": [3, 4, 5], **nothing}


def test_a_request_that_asks_for_nothing_has_the_engines_defaults() -> None:
    found = convert_request(body(), NGRAM, (1,))
    assert found.request.token_ids == (3, 4, 5)
    assert found.request.sampling == Sampling()
    assert found.request.speculation == NGRAM
    assert found.request.max_tokens is None
    assert (found.logprobs, found.with_text) == (None, True)


def test_all_that_is_asked_for_is_done() -> None:
    sampling = {
        "n": 1,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": -1,
        "min_p": 0.05,
        "seed": 42,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.25,
        "repetition_penalty": 1.1,
    }
    stops = {
        "max_tokens": 7,
        "stop": ["END"],
        "stop_token_ids_hidden": [1],
        "stop_token_ids": [1],
        "ignore_eos": False,
    }
    found = convert_request(
        body(sampling_options=sampling, stop_conditions=stops, output_options={"logprobs": 3}),
        NGRAM,
        (1,),
    )
    request = found.request
    assert request.sampling == Sampling(
        temperature=0.7,
        top_p=0.9,
        min_p=0.05,
        seed=42,
        presence_penalty=0.5,
        frequency_penalty=0.25,
        repetition_penalty=1.1,
    )
    assert (request.max_tokens, request.stop, request.top_logprobs) == (7, ("END",), 3)


@pytest.mark.parametrize(
    ("guided", "grammar"),
    [
        ({"regex": "[0-9]+"}, Grammar(GrammarKind.REGEX, "[0-9]+")),
        ({"json": {"type": "object"}}, Grammar(GrammarKind.JSON_SCHEMA, '{"type": "object"}')),
        ({"choice": ["a", "b"]}, Grammar(GrammarKind.LARK, 'start: "a" | "b"\n')),
        ({"backend": "xgrammar"}, None),
    ],
)
def test_guided_decoding_is_a_grammar(guided: dict[str, Any], grammar: Grammar | None) -> None:
    found = convert_request(body(sampling_options={"guided_decoding": guided}), NGRAM, ())
    assert found.request.grammar == grammar


def test_text_with_special_tokens_or_stop_strings_is_the_frontends_to_make() -> None:
    assert not convert_request(
        body(output_options={"skip_special_tokens": False}), NGRAM, ()
    ).with_text
    kept = body(sampling_options={"include_stop_str_in_output": True})
    assert not convert_request(kept, NGRAM, ()).with_text


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"sampling_options": {"n": 2}}, "n"),
        ({"sampling_options": {"use_beam_search": True}}, "use_beam_search"),
        ({"sampling_options": {"length_penalty": 0.5}}, "length_penalty"),
        ({"sampling_options": {"allowed_token_ids": [1]}}, "allowed_token_ids"),
        ({"sampling_options": {"temperature": 9.0}}, "temperature"),
        ({"sampling_options": {"guided_decoding": {"structural_tag": {}}}}, "guided_decoding"),
        ({"sampling_options": {"guided_decoding": {"choice": []}}}, "guided_decoding"),
        ({"stop_conditions": {"min_tokens": 5}}, "min_tokens"),
        ({"stop_conditions": {"stop_token_ids": [77]}}, "stop_token_ids"),
        ({"output_options": {"prompt_logprobs": 1}}, "prompt_logprobs"),
        ({"multi_modal_data": {"image_url": ["x"]}}, "multi_modal_data"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(parts: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        convert_request(body(**parts), NGRAM, (1,))
    assert refused.value.field == field
    assert field in str(refused.value)
