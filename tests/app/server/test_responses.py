"""/v1/responses, asked by the openai package."""

from __future__ import annotations

from typing import Any

import pytest
from openai import APIStatusError, OpenAI

from app.server.errors import ApiError
from app.server.responses.response_store import MOST_BYTES, ResponseStore, StoredResponse
from engine.events import Finished, Started
from engine.request import Request
from engine.values.messages import Message

ASK = "Tell me a tale of a fox."


def said(server, *messages: Message, max_tokens: int) -> str:
    last = server.direct(Request(messages=messages, max_tokens=max_tokens))[-1]
    assert isinstance(last, Finished)
    return last.text


def test_a_response_is_the_chats_reply_and_another_goes_on_from_it(server, client: OpenAI) -> None:
    first = client.responses.create(model=server.model, input=ASK, max_output_tokens=12)
    assert first.output_text == said(server, Message("user", ASK), max_tokens=12)
    assert (first.status, first.object) == ("incomplete", "response")
    assert first.incomplete_details.reason == "max_output_tokens"
    assert (
        first.usage.total_tokens
        == first.usage.input_tokens + first.usage.output_tokens
        == (first.usage.input_tokens + 12)
    )
    server.recorder.clear()
    parts: Any = [{"role": "user", "content": [{"type": "input_text", "text": "And then?"}]}]
    second = client.responses.create(
        model=server.model,
        input=parts,
        instructions="Be brief.",
        previous_response_id=first.id,
        max_output_tokens=5,
    )
    whole = (
        Message("system", "Be brief."),
        Message("user", ASK),
        Message("assistant", first.output_text),
        Message("user", "And then?"),
    )
    assert second.output_text == said(server, *whole, max_tokens=5)
    assert client.responses.retrieve(second.id).output_text == second.output_text
    (item,) = client.responses.input_items.list(second.id).data
    assert (item.content[0].type, item.content[0].text) == ("input_text", "And then?")
    client.responses.delete(second.id)
    unkept = client.responses.create(
        model=server.model, input=ASK, max_output_tokens=1, store=False
    )
    for gone in (second.id, unkept.id, "resp_none"):
        with pytest.raises(APIStatusError) as caught:
            client.responses.create(model=server.model, input="Hi", previous_response_id=gone)
        assert (caught.value.status_code, caught.value.param) == (404, "previous_response_id")
        with pytest.raises(APIStatusError):
            client.responses.retrieve(gone)


def test_a_stream_has_openais_events_in_their_order(server, client: OpenAI) -> None:
    with client.responses.stream(
        model=server.model,
        input=ASK,
        max_output_tokens=20,
        include=["message.output_text.logprobs"],
        top_logprobs=2,
    ) as stream:
        events = list(stream)
    final = events[-1].response
    kinds = [event.type for event in events]
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * len(deltas),
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        f"response.{final.status}",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in deltas)
    assert text == final.output_text == said(server, Message("user", ASK), max_tokens=20)
    logprobs = final.output[0].content[0].logprobs
    assert [len(entry.top_logprobs) for entry in logprobs] == [2] * 20
    assert client.responses.retrieve(final.id).output_text == text
    with pytest.raises(APIStatusError, match="streaming a stored response"):
        client.responses.retrieve(final.id, stream=True)


def test_what_was_asked_comes_in_pages_the_last_first(server, client: OpenAI) -> None:
    """``order``, ``limit`` and ``after`` were ignored."""
    asked: Any = [{"role": "user", "content": str(number)} for number in range(25)]
    kept = client.responses.create(model=server.model, input=asked, max_output_tokens=1)
    listed = client.responses.input_items.list
    said = [item.content[0].text for item in listed(kept.id, order="asc")]  # page by page
    assert said == [str(number) for number in range(25)]
    first = listed(kept.id)
    assert len(first.data) == 20 and first.has_more
    rest = listed(kept.id, after=first.data[-1].id)
    assert [item.content[0].text for item in rest.data] == ["4", "3", "2", "1", "0"]
    assert not rest.has_more
    for wrong in ({"limit": 0}, {"after": "msg_none"}, {"order": "odd"}):
        with pytest.raises(APIStatusError) as caught:
            listed(kept.id, **wrong)
        assert (caught.value.status_code, caught.value.param) == (400, *wrong)


def test_what_it_lacks_is_refused_by_name(server, client: OpenAI) -> None:
    client.responses.create(
        model=server.model, input=ASK, max_output_tokens=1, include=["reasoning.encrypted_content"]
    )
    for field, value in (
        ("include", ["x"]),
        ("background", True),
        ("truncation", "auto"),
        ("input", []),
        ("input", [{"type": "web_search_call", "id": "1"}]),
        ("max_output_tokens", 0),
        ("metadata", dict.fromkeys(map(str, range(17)), "")),
        ("metadata.long", {"long": "x" * 513}),
        ("metadata." + "x" * 65, {"x" * 65: ""}),
    ):
        name = field.partition(".")[0]
        given: dict[str, Any] = {"model": server.model, "input": ASK, name: value}
        with pytest.raises(APIStatusError) as caught:
            client.responses.create(**given)
        assert (caught.value.status_code, caught.value.param) == (400, field)


def test_all_that_stored_responses_hold_is_bounded() -> None:
    """Only texts were counted: a thousand requests with megabytes of tools filled the memory."""
    store, large = ResponseStore(), "x" * (MOST_BYTES // 4)
    for number in range(10):
        response = {"id": f"resp_{number}", "output": [], "tools": [large]}
        store.put(StoredResponse(response, (), (Message("user", "Hi"),)))
    left = [store.get(f"resp_{number}") for number in range(7, 10)]  # the newest
    assert all(each.response["tools"] == [large] for each in left)
    with pytest.raises(ApiError, match="no response"):
        store.get("resp_6")


def test_who_leaves_a_stream_ends_its_reply(server, client: OpenAI) -> None:
    server.recorder.hold()
    stream = client.responses.create(
        model=server.model, input=ASK, stream=True, extra_body={"ignore_eos": True}
    )
    while not any(isinstance(e, Started) for t in server.recorder.traces for e in t):
        next(iter(stream))
    stream.close()
    server.recorder.release()
    assert server.idle()
