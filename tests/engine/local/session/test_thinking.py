"""A thought in a real reply: the template opens it, a budget ends it, a grammar waits for its end."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tokenizers import AddedToken, Tokenizer

from engine.decoding.thinking import HarmonyTokens, Thinking
from engine.errors import ContextExceeded, InvalidRequest
from engine.events import FinishReason
from engine.local.session import Session
from engine.reply import ReplyState
from engine.request import Request, Speculation
from engine.values.grammar import Grammar, GrammarKind
from engine.values.messages import Message
from engine.values.sampling import Sampling
from engine.values.tools import Calling, Tool, ToolChoice
from tests.engine.tool_calls.templates import GEMMA_4, GPT_OSS, QWEN35
from tests.support.checkpoints import LLAMA, open_session, write_random

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}},
    "required": ["a"],
    "additionalProperties": False,
}
DRAFTED = Speculation(proposer="ngram", depth=4)
ASK = Request(
    messages=(Message("user", "Say something, say something, say something."),),
    sampling=Sampling(temperature=1.0, seed=5),
    speculation=Speculation(proposer="none", depth=0),
    max_tokens=40,
)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Session]:
    """A random model with each of the vocabularies and templates."""
    made = {}
    for name, template, marks in (
        ("qwen3.5", QWEN35, ("<think>", "</think>", "<|im_start|>", "<|im_end|>")),
        ("gemma 4", GEMMA_4, ("<|channel>", "<channel|>", "<|turn>", "<turn|>")),
        (
            "gpt-oss",
            GPT_OSS,
            ("<|channel|>", "<|message|>", "<|constrain|>", "<|call|>", "<|return|>"),
        ),
        ("none", "{{ messages[0].content }}<think>", ()),
    ):
        folder = tmp_path_factory.mktemp("thinking")
        write_random(folder, vocab_size=LLAMA["vocab_size"] + 8)
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.add_special_tokens([AddedToken(mark, normalized=False) for mark in marks])
        tokenizer.save(str(folder / "tokenizer.json"))
        file = folder / "tokenizer_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "chat_template": template}))
        if name == "gpt-oss":  # the end of a message is not that of a reply
            ends = [tokenizer.token_to_id(mark) for mark in marks[-2:]]
            for file in (folder / "config.json", folder / "generation_config.json"):
                file.write_text(json.dumps({**json.loads(file.read_text()), "eos_token_id": ends}))
        made[name] = open_session(folder, native=False)
    return made


def reply(session: Session, request: Request) -> ReplyState:
    plain = ReplyState.of(session.run(request, lambda: False))
    drafted = ReplyState.of(session.run(replace(request, speculation=DRAFTED), lambda: False))
    assert drafted.text == plain.text and drafted.token_ids == plain.token_ids
    assert drafted.thought_tokens == plain.thought_tokens
    return plain


@pytest.mark.parametrize("budget", [0, 6])
def test_a_budget_ends_a_thought_that_the_template_opened(
    sessions: dict[str, Session], budget: int
) -> None:
    session = sessions["qwen3.5"]
    found = reply(session, replace(ASK, thinking_budget=budget))
    end = session.codec.encode("\n</think>\n\n", special=False)
    assert found.thinking and found.thoughts.closed
    assert list(found.token_ids or ())[budget : budget + len(end)] == end
    assert found.thought_tokens <= budget + 1  # the line feed may show a character that was cut
    off = reply(session, replace(ASK, thinking_budget=budget, thinking="off"))
    assert not off.thinking and not off.thoughts.thought


@pytest.mark.parametrize("tools", [(), (Tool("ring", parameters=json.dumps(SCHEMA)),)])
def test_a_grammar_begins_behind_the_thought(
    sessions: dict[str, Session], tools: tuple[Tool, ...]
) -> None:
    session = sessions["qwen3.5"]
    grammar = None if tools else Grammar(GrammarKind.JSON_SCHEMA, json.dumps(SCHEMA))
    request = replace(
        ASK,
        grammar=grammar,
        tools=tools,
        tool_choice=ToolChoice(Calling.REQUIRED if tools else Calling.AUTO),
    )
    found = reply(session, replace(request, thinking_budget=5, max_tokens=120))
    assert found.thoughts.closed and found.thought_tokens
    answer = found.thoughts.answer
    assert answer.startswith("<tool_call>\n<function=ring>\n<parameter=a>\n" if tools else '{"a": ')
    assert not reply(session, replace(request, thinking="off")).thoughts.thought


def test_gemma_thinks_where_it_likes_and_its_grammar_knows_the_channel(
    sessions: dict[str, Session],
) -> None:
    session = sessions["gemma 4"]
    opening = session.codec.token_named("<|channel>")
    assert opening is not None
    wanted = replace(ASK, thinking="on", thinking_budget=7, logit_bias=((opening, 100.0),))
    for grammar in (None, Grammar(GrammarKind.JSON_SCHEMA, json.dumps(SCHEMA))):
        found = reply(session, replace(wanted, grammar=grammar))
        assert (found.token_ids or (0,))[0] == opening
        assert found.text.startswith("<think>\n") and found.thoughts.closed
        assert grammar is None or found.thoughts.answer.startswith('{"a": ')


def test_gpt_oss_answers_once_it_has_thought_enough(sessions: dict[str, Session]) -> None:
    session = sessions["gpt-oss"]
    prepared = session.prepare(replace(ASK, thinking_budget=3))
    thinking = prepared.thinking
    assert isinstance(thinking, Thinking) and isinstance(thinking.tokens, HarmonyTokens)
    tokens, matcher = thinking.tokens, thinking.follow(None)
    header = [tokens.channel, tokens.analysis, tokens.message]
    matcher.consume([*header, 300, 301])
    assert not matcher.forced() and matcher.forced([302]) == [*tokens.end]
    assert matcher.count_fitting([302, tokens.stop, 7]) == 2
    matcher.consume([tokens.stop, *tokens.end[1:], tokens.analysis, tokens.message, 302])
    # The second thought reaches the budget that both share; a third one cannot begin.
    matcher.consume(matcher.forced())
    assert not matcher.allows([], tokens.analysis) and matcher.allows([], 303)
    assert not matcher.forced() and matcher.mask([303]) is matcher.free


@pytest.mark.parametrize("tools", [(), (Tool("ring", parameters=json.dumps(SCHEMA)),)])
def test_gpt_oss_is_held_to_a_schema_and_to_a_call_in_its_channels(
    sessions: dict[str, Session], tools: tuple[Tool, ...]
) -> None:
    session = sessions["gpt-oss"]
    grammar = None if tools else Grammar(GrammarKind.JSON_SCHEMA, json.dumps(SCHEMA))
    calling = Calling.REQUIRED if tools else Calling.AUTO
    wanted = replace(ASK, grammar=grammar, tools=tools, tool_choice=ToolChoice(calling))
    found = reply(session, replace(wanted, thinking_budget=4, max_tokens=200))
    answer = found.thoughts.answer
    if tools:
        assert answer.startswith('<tool_call>\n{"name": "ring", "arguments": {"a": '), found.text
        assert answer.endswith("}\n</tool_call>")
    else:
        assert json.loads(answer).keys() == {"a"}
    assert found.reason is FinishReason.STOP


def test_a_thought_without_a_token_that_ends_it_has_no_budget(sessions: dict[str, Session]) -> None:
    with pytest.raises(InvalidRequest, match="no token that ends a thought") as caught:
        sessions["none"].prepare(replace(ASK, thinking_budget=3))
    assert caught.value.field == "thinking_budget"


def test_a_prefill_follows_the_prompt_unless_a_thought_comes_first(
    sessions: dict[str, Session],
) -> None:
    """The reply goes on behind it: neither its text nor its tokens are the reply's."""
    session = sessions["qwen3.5"]
    with pytest.raises(InvalidRequest, match="Turn thinking off"):
        session.prepare(replace(ASK, prefill="Well, "))
    begun = replace(ASK, thinking="off", prefill="Well<|im_end|>,", stop=("Well",))
    plain = replace(begun, prefill="")
    prompt = session.encode(begun)
    own = session.codec.encode_as_text("Well<|im_end|>,")
    assert prompt == [*session.encode(plain), *own]
    assert session.codec.token_named("<|im_end|>") not in own
    found = reply(session, begun)
    as_tokens = Request(
        token_ids=tuple(prompt),
        sampling=ASK.sampling,
        speculation=ASK.speculation,
        max_tokens=ASK.max_tokens,
        stop=begun.stop,
    )
    assert found.token_ids == reply(session, as_tokens).token_ids
    with pytest.raises(InvalidRequest, match="in channels"):
        sessions["gpt-oss"].prepare(replace(ASK, prefill="Well, "))


def test_tokens_and_text_of_a_prompt_are_told_without_a_reply(sessions: dict[str, Session]) -> None:
    session = sessions["qwen3.5"]
    tokenizer = session.tokenizer
    tokens, text = tokenizer.prompt(ASK), tokenizer.render(ASK)
    assert list(tokens) == session.encode(ASK) and text.endswith("<think>\n")
    assert tokenizer.encode(text) == tokens
    assert tokenizer.decode(tokens) == text
    mark = tokenizer.named("<|im_end|>")
    assert tokenizer.encode("<|im_end|>") == (mark,) and tokenizer.piece(mark) == "<|im_end|>"
    assert mark not in tokenizer.encode("<|im_end|>", control=False)
    with pytest.raises(InvalidRequest, match="outside"):
        tokenizer.decode([10**6])
    with pytest.raises(ContextExceeded):
        tokenizer.encode("word " * 10**5)
