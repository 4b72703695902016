"""What each kind of server is known by, is asked, and counts; and that nothing else is told of it."""

from __future__ import annotations

import copy
import json
import threading
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from engine.api import LoadRequest
from engine.errors import InvalidRequest
from engine.events import Emitted, Finished, FinishReason, Prefilled, Started
from engine.remote.engine import RemoteEngine
from engine.remote.reading import CALLS, Reading
from engine.reply import ReplyState
from engine.request import Control, Request, Speculation
from engine.tool_calls.reading import Arguments, CallReader, CallStart, Content
from engine.values.grammar import Grammar, GrammarKind
from engine.values.messages import Message
from engine.values.sampling import Sampling
from engine.values.tools import Tool, ToolCall
from tests.engine.remote.conftest import Connect
from tests.support.model_server import Played, playing, said, sse

SERVER = Speculation(proposer="server")
USAGE = {"prompt_tokens": 7, "completion_tokens": 3}


def asked(**fields: Any) -> Request:
    return Request(**{"messages": (Message("user", "Hi"),), "speculation": SERVER, **fields})


def page(generated: int, drafts: int, accepted: tuple[int, ...], model: str = "small") -> str:
    labels = f'engine="0",model_name="{model}"'
    lines = [
        "# TYPE vllm:generation_tokens counter",
        f"vllm:generation_tokens_total{{{labels}}} {generated}.0",
        'vllm:generation_tokens_total{engine="0",model_name="other"} 1000.0',
        f"vllm:spec_decode_num_drafts_total{{{labels}}} {drafts}.0",
        f"vllm:spec_decode_num_drafts_created{{{labels}}} 1.7e+09",
        f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {4 * drafts}.0",
        f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {sum(accepted)}.0",
    ]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{at}"}} {count}.0'
        for at, count in enumerate(accepted)
    ]
    return "\n".join(lines) + "\n"


def owned(by: str, **more: Any) -> tuple[dict[str, Any], ...]:
    return ({"id": "small", "object": "model", "owned_by": by, **more},)


LM = {"id": "small", "type": "llm", "state": "loaded", "max_context_length": 512}
DRAFTED = {"num_spec_steps": 2, "num_draft_tokens": 8, "num_accepted_draft_tokens": 3}
KINDS: dict[str, tuple[Played, dict[str, Any], dict[str, Any]]] = {
    "vLLM 0.32.0": (
        Played(
            owned("vllm", max_model_len=4096),
            {
                "/version": {"version": "0.32.0"},
                "/metrics": [page(9, 4, (3, 1)), page(12, 6, (5, 2))],
            },
            sse(*said("One", " two"), {"choices": [], "usage": USAGE}),
        ),
        {"context": 4096},
        {"drafted": 8, "accepted": 3, "rounds": 2, "accepted_at": (2, 1), "shared": False},
    ),
    "vLLM that others use": (
        Played(
            owned("vllm"),
            {"/metrics": [page(9, 4, (3, 1)), page(99, 6, (5, 2))]},
            sse(*said("One", " two"), {"choices": [], "usage": USAGE}),
        ),
        {"context": 0},
        {"drafted": 8, "accepted": 3, "shared": True},
    ),
    "vLLM by request": (
        Played(
            owned("vllm"),
            {"/metrics": [page(9, 4, (3, 1)), page(99, 6, (5, 2))]},
            sse(
                *said("One", " two"),
                {
                    "choices": [],
                    "usage": USAGE,
                    "metrics": {
                        "speculative_decoding": {
                            **DRAFTED,
                            "acceptance_histogram": {"1": 1, "2": 1},
                        }
                    },
                },
            ),
        ),
        {},
        {"drafted": 8, "accepted": 3, "rounds": 2, "accepted_at": (2, 1), "shared": False},
    ),
    **{
        name: (
            Played(
                owned("sglang", max_model_len=2048),
                {
                    path: {
                        "version": "0.5.16",
                        "internal_states": [{"avg_spec_accept_length": 2.5}],
                    }
                },
                sse(*said("One", " two"), {"choices": [], "usage": USAGE}),
            ),
            {"context": 2048},
            {"drafted": 0, "reported_acceptance_length": 2.5, "shared": True},
        )
        for name, path in (("SGLang", "/server_info"), ("SGLang of old", "/get_server_info"))
    },
    "TensorRT-LLM": (
        Played(
            owned("tensorrt_llm"),
            {
                "/version": {"version": "1.3.0"},
                "/metrics": [
                    {
                        "specDecodingStats": {
                            "numDraftTokens": 8,
                            "numAcceptedTokens": 3,
                            "numRequestsWithDraftTokens": 2,
                        }
                    }
                ],
            },
            sse(*said("One", " two", usage=USAGE)),
        ),
        {},
        {"drafted": 8, "accepted": 3, "rounds": 2, "shared": True},
    ),
    "llama-server": (
        Played(
            owned("llamacpp", meta={"n_ctx_train": 32768, "n_params": 500, "n_vocab": 90}),
            {"/props": {"build_info": "b6500", "default_generation_settings": {"n_ctx": 1024}}},
            sse(
                *said("One", " two"),
                {
                    "choices": [],
                    "usage": USAGE,
                    "timings": {
                        "prompt_n": 5,
                        "cache_n": 2,
                        "prompt_ms": 100.0,
                        "predicted_n": 3,
                        "predicted_ms": 30.0,
                        "draft_n": 8,
                        "draft_n_accepted": 3,
                    },
                },
            ),
        ),
        {"context": 1024, "parameters": 500, "vocabulary": 90},
        {"drafted": 8, "accepted": 3, "reused_tokens": 2, "decode_s": 0.03, "prefill_s": 0.1},
    ),
    "LM Studio": (
        Played(
            owned("organization_owner"),
            {
                "/api/v0/models": {
                    "data": [{"id": "vectors", "type": "embeddings", "state": "x"}, LM]
                }
            },
            sse(
                *said("One", " two"),
                {
                    "choices": [],
                    "usage": {
                        **USAGE,
                        "total_draft_tokens_count": 8,
                        "accepted_draft_tokens_count": 3,
                    },
                    "stats": {"generation_time": 0.03, "stop_reason": "eosFound"},
                },
            ),
        ),
        {"context": 512},
        {"drafted": 8, "accepted": 3, "decode_s": 0.03},
    ),
    "Ollama": (
        Played(
            owned("library"),
            {"/": "Ollama is running", "/api/version": {"version": "0.12.6"}},
            [
                json.dumps({"message": {"content": text}, "done": False}).encode() + b"\n"
                for text in ("One", " two")
            ]
            + [
                json.dumps(
                    {
                        "message": {"content": ""},
                        "done": True,
                        "done_reason": "stop",
                        "prompt_eval_count": 7,
                        "prompt_eval_duration": 100_000_000,
                        "eval_count": 3,
                        "eval_duration": 30_000_000,
                    }
                ).encode()
                + b"\n"
            ],
            "application/x-ndjson",
        ),
        {},
        {"drafted": 0, "decode_s": pytest.approx(0.03), "prefill_s": pytest.approx(0.1)},
    ),
    "Dynamo": (
        Played(
            owned("nvidia"),
            {"/health": {"status": "healthy", "endpoints": [], "instances": []}},
            sse(*said("One", " two"), {"choices": [], "usage": USAGE}),
        ),
        {},
        {"drafted": 0, "reported_acceptance_length": None},
    ),
    "Dynamo with workers of ours": (
        Played(
            owned("nvidia"),
            {"/health": {"status": "healthy", "endpoints": [], "instances": []}},
            sse(
                *said("One", " two"),
                {
                    "choices": [],
                    "usage": USAGE,
                    "nvext": {
                        "engine_data": {
                            "timings": {
                                "predicted_n": 3,
                                "predicted_ms": 30.0,
                                "draft_n": 8,
                                "draft_n_accepted": 3,
                            }
                        }
                    },
                },
            ),
        ),
        {},
        {"drafted": 8, "accepted": 3, "rounds": 0, "shared": False},
    ),
    "an OpenAI-compatible server": (
        Played(owned("openai"), {}, sse(*said("One", " two"))),
        {},
        {"drafted": 0, "reported_acceptance_length": None, "tokens_per_s": None},
    ),
}


def fresh(name: str) -> Played:
    """A server of that kind that nobody has asked yet."""
    found = copy.deepcopy(KINDS[name][0].found)
    return replace(KINDS[name][0], found=found, asked=[], left=threading.Event())


@pytest.mark.parametrize("name", KINDS)
def test_it_is_found_out_by_asking_and_tells_what_it_counts(name: str, connect: Connect) -> None:
    (_, known, counts), played = KINDS[name], fresh(name)
    engine = connect(played)
    loaded = engine.loaded
    assert loaded is not None
    kind = next((each for each in ("vLLM", "SGLang", "Dynamo") if name.startswith(each)), name)
    assert loaded.server.startswith(kind) and loaded.server.endswith(f"at {played.url}")
    assert {each: getattr(loaded, each) for each in known} == known
    tells = loaded.capabilities
    assert not (tells.rounds or tells.probabilities or tells.tokens or tells.rules)
    events = list(engine.generate(asked()))
    assert isinstance(events[0], Started) and events[0].prompt_tokens is None
    assert not any(isinstance(event, Prefilled) for event in events)
    reply = ReplyState.of(events)
    assert (reply.text, reply.reason, reply.token_ids) == ("One two", FinishReason.STOP, None)
    statistics = reply.statistics
    assert {each: getattr(statistics, each) for each in counts} == counts
    if counts.get("tokens_per_s", 0) is not None:
        assert (statistics.prompt_tokens, statistics.completion_tokens) == (7, 3)
        assert statistics.tokens_per_s is not None and statistics.time_to_first_token_s is not None


def test_a_text_of_ollama_may_hold_what_ends_lines_elsewhere(connect: Connect) -> None:
    """The reply broke off there: httpx2 cuts lines where Python does."""
    text = "One\x85two\u2028three"
    lines = [{"message": {"content": text}, "done": False}, {"done": True, "done_reason": "stop"}]
    sent = b"\n\n".join(json.dumps(line, ensure_ascii=False).encode() for line in lines)
    stream = [sent[at : at + 7] for at in range(0, len(sent), 7)]
    reply = ReplyState.of(connect(replace(fresh("Ollama"), stream=stream)).generate(asked()))
    assert (reply.text, reply.reason) == (text, FinishReason.STOP)


def test_settings_go_in_each_servers_own_words(connect: Connect) -> None:
    sampling = Sampling(temperature=0.5, top_k=7, repetition_penalty=1.5, seed=3)
    bodies = {}
    for name in ("vLLM that others use", "llama-server", "an OpenAI-compatible server"):
        played = fresh(name)
        engine = connect(played)
        offered = engine.loaded.capabilities.sampling if engine.loaded else frozenset()
        fitting = sampling if "top_k" in offered else Sampling(temperature=0.5, seed=3)
        list(engine.generate(asked(sampling=fitting, stop=("END",), max_tokens=5)))
        (bodies[name],) = played.posted("/v1/chat/completions")
    vllm, llama, other = bodies.values()
    assert (vllm["repetition_penalty"], vllm["top_k"], vllm["top_p"]) == (1.5, 7, 1.0)
    assert (llama["repeat_penalty"], llama["min_p"]) == (1.5, 0.0)
    assert other == {
        "model": "small",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "seed": 3,
        "stop": ["END"],
        "max_tokens": 5,
    }


def test_how_much_to_think_is_told_each_server_in_its_words(connect: Connect) -> None:
    told = {}
    for name in ("vLLM that others use", "llama-server", "an OpenAI-compatible server"):
        played = fresh(name)
        limited = {} if name.startswith("an") else {"thinking_budget": 9}
        list(connect(played).generate(asked(thinking="off", max_tokens=5, **limited)))
        (body,) = played.posted("/v1/chat/completions")
        told[name] = {key: body[key] for key in body if "think" in key or "reason" in key}
        told[name] |= body.get("chat_template_kwargs", {})
    effort, switch = {"reasoning_effort": "none"}, {"enable_thinking": False}
    assert [*told.values()] == [
        {**effort, **switch, "thinking_token_budget": 9},
        {**effort, **switch, "thinking_budget_tokens": 9},
        effort,
    ]


def test_what_a_server_does_not_take_is_refused_and_not_left_out(connect: Connect) -> None:
    played = fresh("an OpenAI-compatible server")
    engine = connect(played)
    for request, field in (
        (asked(sampling=Sampling(top_k=3)), "top_k"),
        (asked(grammar=Grammar(GrammarKind.REGEX, "a+")), "grammar"),
        (asked(speculation=Speculation(proposer="server", depth=3)), "controller"),
        (asked(speculation=Speculation(proposer="server", controller=Control.OFF)), "depth"),
        (asked(speculation=Speculation(proposer="draft")), "proposer"),
        (asked(top_logprobs=2), "top_logprobs"),
        (asked(thinking_budget=2), "thinking_budget"),
        (Request(token_ids=(1, 2), speculation=SERVER), "prompt"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            engine.generate(request)
        assert caught.value.field == field
    assert not played.posted("/v1/chat/completions")


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def call(index: int, **function: str) -> dict[str, Any]:
    return delta(tool_calls=[{"index": index, "id": "x", "function": function}])


END, CUT = (
    {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    for reason in ("tool_calls", "length")
)


@pytest.mark.parametrize(
    ("deltas", "said", "calls"),
    [
        ([call(0, name="find"), call(1, name="open", arguments="{}")], "", ["find {}", "open {}"]),
        ([call(0, name="find"), END], "", ["find {}"]),
        ([call(0, name="find"), CUT], "", ["find "]),
        (
            [call(0, name="find", arguments="{"), delta(reasoning="x"), call(0, arguments="}")],
            "",
            ["find {}"],
        ),
        ([delta(content="A"), delta(reasoning="x"), delta(content="B")], "AB", []),
        (
            [delta(content="\n"), delta(reasoning="x"), delta(content="A")],
            "\n<think>\nx\n</think>\n\nA",
            [],
        ),
    ],
)
def test_a_call_has_arguments_and_a_thought_stands_in_front(
    deltas: list[dict[str, Any]], said: str, calls: list[str]
) -> None:
    """A call without arguments, or a thought inside of one, was no JSON; one behind text was text."""
    reading, reader = Reading(), CallReader(CALLS)
    text = "".join(map(reading.add, deltas)) + "".join(reading.end())
    parts = [*reader.read(text), *reader.end()]
    assert "".join(each.text for each in parts if isinstance(each, Content)) == said
    told = [f"{each.name} " for each in parts if isinstance(each, CallStart)]
    for each in parts:
        if isinstance(each, Arguments):
            told[each.index] += each.text
    assert told == calls


def test_thoughts_and_calls_stand_in_the_text_as_models_write_them(connect: Connect) -> None:
    played = Played(
        stream=sse(
            delta(reasoning_content="Let me"),
            delta(reasoning_content=" see."),
            delta(content="Well:"),
            call(0, name="find", arguments='{"q":'),
            call(0, arguments=' "a"}'),
            call(1, name="open", arguments="{}"),
            END,
        )
    )
    engine = connect(played)
    tools = (Tool("find"), Tool("open"))
    history = (
        Message("user", "Find a"),
        Message("assistant", "", tool_calls=(ToolCall("c1", "find", '{"q": "a"}'),)),
        Message("tool", "nothing", tool_call_id="c1", name="find"),
    )
    *events, finished = engine.generate(asked(messages=history, tools=tools))
    assert isinstance(finished, Finished)
    assert finished.text.startswith("<think>\nLet me see.\n</think>\n\nWell:<tool_call>")
    assert "".join(each.text for each in events if isinstance(each, Emitted)) == finished.text
    loaded = engine.loaded
    assert loaded is not None and loaded.capabilities.calls is not None
    reader = CallReader(loaded.capabilities.calls)
    parts = [*reader.read(finished.text), *reader.end()]
    assert [part.name for part in parts if isinstance(part, CallStart)] == ["find", "open"]
    told = "".join(part.text for part in parts if isinstance(part, Arguments))
    assert told == '{"q": "a"}{}'
    (body,) = played.posted("/v1/chat/completions")
    assert [each["function"]["name"] for each in body["tools"]] == ["find", "open"]
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"q": "a"}'
    assert body["messages"][2]["tool_call_id"] == "c1"


def test_openvino_model_server_answers_at_its_own_version_of_the_api() -> None:
    listed = {"object": "list", "data": [{"id": "OpenVINO/Qwen3-8B-int4-ov", "owned_by": "OVMS"}]}
    stream = sse(*said("One", " two"), {"choices": [], "usage": USAGE})
    with (
        playing(Played(found={"/v3/models": listed}, stream=stream)) as played,
        closing(RemoteEngine()) as engine,
    ):
        engine.load(LoadRequest(target=f"{played.url}/v3"))
        reply = ReplyState.of(engine.generate(asked()))
        assert (reply.text, reply.statistics.completion_tokens) == ("One two", 3)
        assert len(played.posted("/v3/chat/completions")) == 1


def test_of_several_models_the_one_that_is_named_answers(connect: Connect) -> None:
    models = [
        {"id": "cold", "type": "llm", "state": "not-loaded"},
        {"id": "warm", "type": "llm", "state": "loaded"},
    ]
    played = Played(models, {"/api/v0/models": {"data": models}}, sse(*said("Yes")))

    def name(engine: RemoteEngine) -> str:
        assert engine.loaded is not None
        return engine.loaded.target_name

    assert name(connect(played)) == "warm"
    assert name(connect(played, "cold")) == "cold"
