"""A reply that is held to a grammar has the words of the masked target alone, whoever drafts."""

from __future__ import annotations

import functools
import json
from dataclasses import replace

import pytest
import torch

from engine.decoding.constraint import GRAMMAR, Constraint
from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.decoding.thinking import Phase, Tags, Thinking, ThoughtState
from engine.drafting.proposers.drawing import deterministic
from engine.events import Finished, FinishReason
from engine.local.session import Session
from engine.request import Control, Request, Speculation
from engine.tool_calls.lark import grammar_of_calls
from engine.tool_calls.styles import GEMMA4, GLM45, LFM2, QWEN3_CODER
from engine.values.grammar import Grammar, GrammarKind
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from engine.values.tools import Calling, Tool, ToolChoice
from tests.engine.grammar.test_matcher import RECORD
from tests.support.checkpoints import open_session
from tests.support.heads import IN_FOLDERS, heads_of_pip
from tests.support.lossless import (
    COUPLED,
    GREEDY,
    PLAIN,
    PROMPTS,
    Answer,
    answer,
    chi_square_p,
    tree_options,
)
from tests.support.pairwise import all_pairs
from tests.support.places import PIP

DRAFTING = IN_FOLDERS[1:]
LENGTH = 48
ANIMALS = Grammar(GrammarKind.REGEX, r"(The|A) [a-z]{3,9}( (and|or) (the|a) [a-z]{3,9}){0,3}\.")
WEATHER = Tool("weather", parameters=json.dumps({
    "type": "object", "required": ["city", "days"],
    "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer"}},
}))  # fmt: skip
CALLS = tuple(
    grammar_of_calls((WEATHER,), ToolChoice(Calling.REQUIRED), style, {})
    for style in (QWEN3_CODER, GEMMA4, LFM2, GLM45)
)
CASES = all_pairs(
    DRAFTING,
    (GREEDY, COUPLED[0], COUPLED[5], COUPLED[7]),
    (2, 5),
    (0, 6),
    (Control.FIXED, Control.AUTO),
    (RECORD, ANIMALS, Grammar(GrammarKind.JSON_OBJECT), *CALLS),
)


@functools.cache
def embedded() -> Session:
    return open_session(PIP / "target", PIP / "draft", heads=heads_of_pip(), dtype="auto")


def said(
    prompt: str, sampling: Sampling, grammar: Grammar, speculation: Speculation = PLAIN
) -> Answer:
    request = Request(
        messages=(Message("user", prompt),),
        sampling=sampling,
        speculation=speculation,
        max_tokens=LENGTH,
        grammar=grammar,
    )
    return answer(embedded(), request)


@functools.cache
def plainly(prompt: str, sampling: Sampling, grammar: Grammar) -> tuple[int, ...]:
    return said(prompt, sampling, grammar).tokens


@pytest.mark.parametrize("name", DRAFTING)
def test_a_grammar_changes_no_words_with_drafts(name: str) -> None:
    forced = accepted = 0
    for number, (proposer, sampling, depth, nodes, control, grammar) in enumerate(CASES):
        if proposer != name:
            continue
        wanted = Speculation(
            proposer=name, depth=depth, controller=control, options=tree_options(name, nodes)
        )
        prompt = PROMPTS[10 * (number % 20) + 2]
        found, plain = said(prompt, sampling, grammar, wanted), plainly(prompt, sampling, grammar)
        assert found.tokens == plain, (sampling, wanted)
        text = embedded().codec.decode(plain)
        if grammar is RECORD and len(plain) < LENGTH:
            assert set(json.loads(text)) == {"name", "age", "tags"}
        forced += sum(one.proposer == GRAMMAR for one in found.rounds)
        accepted += found.accepted
    assert forced and accepted


@pytest.mark.parametrize("name", ["none", "draft", "eagle3", "suffix"])
def test_a_call_that_has_to_be_made_is_not_made_without_end(name: str) -> None:
    """Where several are allowed nothing else may follow but the end, which is taken away here."""
    session = embedded()
    eos = session.target.model.info.eos
    nothing = {"type": "object", "properties": {}, "additionalProperties": False}
    request = Request(
        messages=(Message("user", "Ring the bell."),),
        tools=(Tool("ring", parameters=json.dumps(nothing)),),
        tool_choice=ToolChoice(Calling.REQUIRED),
        logit_bias=tuple((token, -100.0) for token in eos),
        speculation=Speculation(proposer=name, depth=4 if name != "none" else 0),
        max_tokens=200,
    )
    *_, finished = session.run(request, lambda: False)
    assert isinstance(finished, Finished) and finished.reason is FinishReason.STOP
    assert finished.text.count('"ring"') == 2


RULES = [
    ("draft", AcceptanceRule.REJECTION),
    ("draft", AcceptanceRule.BLOCK),
    ("eagle3", AcceptanceRule.REJECTION),
    ("medusa", AcceptanceRule.BLOCK),
]
FIRST_TWO = Grammar(GrammarKind.REGEX, r"(red|green|blue|old|new)[a-z]{2,8} [a-z]*")


@pytest.mark.parametrize(("name", "rule"), RULES)
def test_rules_that_weigh_q_leave_the_masked_targets_distribution(
    name: str, rule: AcceptanceRule
) -> None:
    """First tokens, and second ones behind the commonest first, by chi-square."""
    session, sampling = embedded(), Sampling(temperature=1.5)
    wanted = Speculation(proposer=name, depth=2, acceptance=rule)
    base = Request(
        messages=(Message("user", "Say anything."),),
        sampling=sampling,
        speculation=wanted,
        max_tokens=3,
        grammar=FIRST_TWO,
    )
    prompt = session.encode(base)
    replies = [
        answer(session, replace(base, sampling=replace(sampling, seed=seed))).tokens
        for seed in range(200)
    ]
    firsts = [each[0] for each in replies]
    assert chi_square_p(firsts, masked_p(session, prompt, [], sampling)) > 1e-6
    common = max(set(firsts), key=firsts.count)
    seconds = [each[1] for each in replies if each[0] == common]
    assert chi_square_p(seconds, masked_p(session, prompt, [common], sampling)) > 1e-6


def masked_p(
    session: Session, prompt: list[int], behind: list[int], sampling: Sampling
) -> torch.Tensor:
    """The target's p behind a text, masked: (vocabulary,)."""
    model, context = session.target.model, Context(prompt)
    context.tokens += behind
    logits = model.forward(context.tokens, model.new_state(len(context.tokens)), last=1)
    constraint = Constraint(session.grammars.compiled(FIRST_TWO).start(), context)
    sampler = Sampler(
        sampling, AcceptanceRule.REJECTION, 0, context, model.info.vocabulary, mask=constraint
    )
    return sampler.probabilities(sampler.adjusted(logits, [()]))[0].double()


def thinking(budget: int, place: ThoughtState) -> Thinking:
    """A thought between two of Pip's own tokens, which other text holds too."""
    codec, info = embedded().codec, embedded().target.model.info
    (opening,), (closing,) = (codec.encode(text, special=False) for text in ("(", "."))
    end = (
        *codec.encode(" so it ends", special=False),
        closing,
        *codec.encode(" Yes", special=False),
    )
    tags = Tags(opening, closing, end, frozenset(codec.encode("\n", special=False)))
    return Thinking(tags, place, budget, info.vocabulary, frozenset(info.eos))


def thought(
    grammar: Grammar | None, sampling: Sampling, budget: int, wanted: Speculation = PLAIN
) -> Answer:
    request = Request(
        messages=(Message("user", PROMPTS[12]),),
        sampling=sampling,
        speculation=wanted,
        max_tokens=28,
        grammar=grammar,
    )
    session = embedded()
    # No full stop by itself, so that the budget ends the thought.
    full_stop = session.codec.encode(".", special=False)[0]
    request = replace(request, logit_bias=() if grammar else ((full_stop, -100.0),))
    prepared = session.prepare(request)
    prepared = replace(prepared, thinking=thinking(budget, ThoughtState(Phase.INSIDE)))
    return answer(session, request, prepared)


@functools.cache
def plain_thought(grammar: Grammar | None, sampling: Sampling, budget: int) -> tuple[int, ...]:
    return thought(grammar, sampling, budget).tokens


@pytest.mark.parametrize("name", DRAFTING)
def test_a_budget_ends_a_thought_in_the_same_words_whoever_drafts(name: str) -> None:
    session, forced = embedded(), 0
    end = thinking(0, ThoughtState(Phase.INSIDE)).tokens.end
    for budget, sampling, control in (
        (0, GREEDY, Control.FIXED),
        (7, COUPLED[0], Control.AUTO),
        (9, COUPLED[7], Control.FIXED),
    ):
        wanted = Speculation(proposer=name, depth=5, controller=control)
        for grammar in (None, RECORD):
            plain = plain_thought(grammar, sampling, budget)
            found = thought(grammar, sampling, budget, wanted)
            assert found.tokens == plain, (budget, sampling, grammar)
            forced += sum(one.proposer == GRAMMAR for one in found.rounds)
            if grammar is None:
                assert plain[budget : budget + len(end)] == end
            else:  # it holds behind the thought, which may end by itself
                closing = plain.index(thinking(0, ThoughtState(Phase.INSIDE)).tokens.closing)
                behind = session.codec.decode(plain[closing + 1 :])
                assert behind.removeprefix(" Yes").startswith('{"name": "')
    assert forced


def test_forced_tokens_make_no_draft_longer_than_its_budget_or_its_proposer_did() -> None:
    """After recalled text longer than its budget's depth, forced tokens were appended without end."""
    session, recalled = embedded(), "Once upon a time"
    grammar = Grammar(GrammarKind.REGEX, recalled + " there was a tale" * 20)
    constraint = Constraint(session.grammars.compiled(grammar).start(), Context(()))
    fitting, forbidden = (session.codec.encode(text, special=False) for text in (recalled, "!"))
    for depth in (2, len(fitting) + 3):
        draft = deterministic((*fitting, *forbidden), "predicted")
        truncated, kept = constraint.truncate(draft, depth)
        assert truncated.tree.tokens[: len(fitting)] == tuple(fitting)
        assert len(truncated.tree) == max(depth, len(fitting)) and len(kept) == len(fitting)


def test_what_would_come_next_is_masked_too() -> None:
    request = Request(messages=(Message("user", PROMPTS[2]),), grammar=RECORD, max_tokens=4)
    (best, *others) = embedded().top_tokens(request, (), 3)
    assert (best.p == pytest.approx(1) and not others) or all(each.p == 0 for each in others)
