"""Several requests at once: the words of each are those it has alone, whoever comes, goes or fails."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from engine.decoding.work import PrefillWork, VerifyWork, WorkItem
from engine.drafting import proposers
from engine.drafting.controllers.auto import Auto
from engine.drafting.controllers.batch import BatchController
from engine.events import FinishReason, Tree
from engine.local.session import Session
from engine.models.base import Entry
from engine.request import Control, Request, Speculation
from engine.values import MAX_DEPTH, MAX_ROWS
from engine.values.grammar import Grammar, GrammarKind
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.checkpoints import open_session
from tests.support.crowd import Client, run
from tests.support.heads import heads_of_pip
from tests.support.lossless import COUPLED, GREEDY, PROMPTS, answer, tree_options
from tests.support.places import PIP

pytestmark = pytest.mark.usefixtures("library")

WEIGHING = Sampling(temperature=1.1, top_k=30, seed=8)
LIST = Grammar(GrammarKind.REGEX, r"(- [a-z ]{3,20}\n){1,3}")
AT_ONCE = 5


def opened(parallel: int) -> Session:
    heads = heads_of_pip()
    return open_session(PIP / "target", PIP / "draft", dtype="auto", heads=heads, parallel=parallel)


@pytest.fixture(scope="module")
def alone(library: Any) -> Session:
    return opened(1)


@pytest.fixture(scope="module")
def together(library: Any) -> Session:
    return opened(AT_ONCE)


def asked(chance: random.Random, session: Session) -> Request:
    """Anything that leaves a seed's words the same."""
    name = chance.choice(proposers.available(session.resources.loaded))
    control = chance.choice((Control.AUTO, Control.AUTO, Control.FIXED, Control.OFF))
    sampling = chance.choice((GREEDY, GREEDY, *COUPLED))
    depth = chance.choice((1, 2, 5, MAX_DEPTH))
    rule = AcceptanceRule.AUTO
    if chance.random() < 0.2:  # of a drawn draft the words depend on how deep it was
        sampling, control = WEIGHING, Control.FIXED
        rule = chance.choice((AcceptanceRule.REJECTION, AcceptanceRule.BLOCK))
    nodes = 0 if rule.weighs_q else chance.choice((0, 0, 6))
    prompt, grammar = chance.choice(PROMPTS), LIST if chance.random() < 0.2 else None
    return Request(
        messages=(
            Message("system", "You are brief. " * chance.choice((1, 9))),
            Message("user", prompt * chance.choice((1, 1, 4))),
        ),
        sampling=sampling,
        speculation=Speculation(
            proposer=name,
            depth=depth,
            controller=control,
            acceptance=rule,
            options=tree_options(name, nodes),
        ),
        max_tokens=chance.choice((1, 8, 24, 40)),
        stop=chance.choice(((), (), (" the",))),
        predicted=prompt if name != "none" and control is not Control.OFF and not nodes else "",
        top_logprobs=chance.choice((0, 2)),
        ignore_eos=grammar is None and chance.random() < 0.7,
        grammar=grammar,
    )


@pytest.mark.parametrize("seed", range(3))
def test_random_crowds_are_told_what_each_would_be_alone(
    alone: Session, together: Session, seed: int
) -> None:
    chance = random.Random(seed)
    clients = [
        Client(
            asked(chance, alone),
            arrives=chance.randrange(15),
            rounds=chance.choice((None, None, None, 0, 3)),
        )
        for _ in range(14)
    ]
    crowd = run(together, clients)
    assert max(crowd.waited) > 2
    whole = 0
    for client in clients:
        assert client.error is None
        expected = answer(alone, client.request).tokens
        found = client.finished.token_ids
        assert found is not None
        if client.finished.reason is FinishReason.CANCELLED:
            assert client.rounds is not None and found == expected[: len(found)]
        else:
            whole += 1
            assert found == expected, client.request
    assert whole >= 4


def test_logits_in_a_shared_pass_are_those_of_a_pass_alone(together: Session) -> None:
    """``torch.equal``, of what was in fact verified for requests that ran together."""
    model, compared = together.target.model, 0
    chance = random.Random(5)
    clients = [Client(asked(chance, together), arrives=3 * at) for at in range(8)]
    original = VerifyWork.finish

    def finish(self: VerifyWork, logits: torch.Tensor, began: float) -> None:
        nonlocal compared
        original(self, logits, began)
        if compared < 30 and self.tree.is_chain:
            text = [*self.target.keys, self.pending, *self.tree.tokens]
            fresh = model.new_state(len(text))
            assert torch.equal(logits, model.forward(text, fresh, last=self.rows))
            compared += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VerifyWork, "finish", finish)
        run(together, clients)
    assert compared == 30


def test_a_pass_has_sixteen_rows_for_everybody_and_nobody_starves(together: Session) -> None:
    deep = Speculation(proposer="draft", depth=MAX_DEPTH)
    request = Request(prompt="Once upon a time", max_tokens=30, ignore_eos=True, speculation=deep)
    clients = [Client(request) for _ in range(AT_ONCE)]
    longest: dict[int, int] = {}

    def look(waits: list[WorkItem]) -> None:
        for wait in waits:
            if isinstance(wait, VerifyWork):
                assert wait.rows <= MAX_ROWS
                longest[wait.number] = longest.get(wait.number, 0) + 1

    run(together, clients, look)
    assert len({client.finished.token_ids for client in clients}) == 1
    assert max(longest.values()) <= AT_ONCE


def test_a_draft_that_fits_no_pass_fails_its_request_alone(together: Session) -> None:
    """Nothing was ready for ever: neither it nor those beside it."""
    target = together.target
    target.clear()
    works = [VerifyWork(target, 40, Tree.chain(range(41, 41 + rows))) for rows in (MAX_ROWS, 2)]
    together.run_batch(works)
    assert works[0].ready and not works[1].ready
    with pytest.raises(ValueError, match="15 drafted tokens at most"):
        works[0].logits()


def test_a_short_prompt_does_not_wait_for_a_long_one() -> None:
    session = opened(3)
    plain = Speculation(proposer="none", depth=0)
    words = tuple(range(300, 340))
    long = Client(Request(token_ids=words * 20, max_tokens=2, ignore_eos=True, speculation=plain))
    quick = Client(
        Request(prompt="Hello", max_tokens=30, ignore_eos=True, speculation=plain), arrives=1
    )
    short = Client(
        Request(token_ids=words[::-1], max_tokens=3, ignore_eos=True, speculation=plain), arrives=2
    )
    unread: list[int] = []

    def look(waits: list[WorkItem]) -> None:
        left = [wait.left for wait in waits if isinstance(wait, PrefillWork)]
        if short.events and short.emitted and len(unread) == 0:
            unread.append(max(left, default=0))

    run(session, [long, quick, short], look)
    assert unread[0] > 300  # the long prompt was far from read when the short one's answer began
    assert len(long.emitted) == 2


@pytest.mark.parametrize("seed", range(2))
def test_however_much_of_a_prompt_a_pass_reads_the_words_are_the_same(
    alone: Session, together: Session, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    sizes = (1, 2, 7, 15, 64)
    monkeypatch.setattr(
        BatchController,
        "prefill_rows",
        lambda self, rows, most: min(chance.choice(sizes), most - rows),
    )
    read: set[int] = set()
    original = PrefillWork.entry

    def part(self: PrefillWork, count: int) -> Entry:
        read.add(count)
        return original(self, count)

    monkeypatch.setattr(PrefillWork, "entry", part)
    clients = [
        Client(
            replace(
                asked(chance, alone),
                messages=(Message("user", chance.choice(PROMPTS) * 9),),
                predicted="",
                reuse_cache=False,
            ),
            arrives=2 * at,
        )
        for at in range(AT_ONCE)
    ]
    run(together, clients)
    assert len(read) > 3
    for client in clients:
        assert client.error is None
        assert client.finished.token_ids == answer(alone, client.request).tokens


@pytest.mark.parametrize("name", ["draft", "eagle3", "block", "hybrid", "best"])
def test_a_reply_goes_on_while_its_proposer_reads_the_prompt(
    alone: Session, together: Session, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first token came, and then nothing until all of a long prompt was read again, for drafts."""
    decide = Auto.budget
    monkeypatch.setattr(
        Auto,
        "budget",
        lambda self, *beside, **prefill: replace(
            decide(self, *beside, **prefill), depth=3, nodes=3, floor=0.0, row_floor=0.0
        ),
    )
    wanted = Speculation(proposer=name, depth=4, controller=Control.AUTO)
    words = tuple(range(300, 340))
    short = Request(prompt="Hello", max_tokens=90, ignore_eos=True, speculation=wanted)
    long = replace(short, token_ids=words * 24, prompt=None, max_tokens=40, reuse_cache=False)
    clients = [Client(short), *(Client(long, arrives=at) for at in (1, 2))]
    told: list[list[int]] = []

    def look(waits: list[WorkItem]) -> None:
        if all(client.emitted for client in clients):
            told.append([len(client.emitted) for client in clients if not client.ended])

    run(together, clients, look)
    for before, after in pairwise(told):
        if len(before) == len(after):
            assert all(now == then + 1 for then, now in zip(before, after, strict=True))
    # Once all was read; ``best`` drafts from past text before.
    assert any(emitted.round.tree.tokens for emitted in clients[1].emitted)
    for client in clients:
        assert client.error is None
        assert client.finished.token_ids == answer(alone, client.request).tokens


def test_choices_of_one_prompt_read_it_once() -> None:
    session = opened(4)
    messages = (Message("user", "Tell me of the sea, the wind and the old lighthouse. " * 12),)
    plain = Speculation(proposer="none", depth=0)
    clients = [
        Client(
            Request(
                messages=messages,
                sampling=Sampling(temperature=1.0, seed=seed),
                max_tokens=6,
                speculation=plain,
            )
        )
        for seed in range(4)
    ]
    run(session, clients)
    tokens = clients[0].prefilled.tokens
    computed = sum(tokens - 1 - client.prefilled.reused for client in clients)
    assert computed < 1.5 * tokens
    fresh = opened(1)
    for client in clients:
        assert client.finished.token_ids == answer(fresh, client.request).tokens


def test_a_chat_goes_on_where_its_text_is_kept(together: Session) -> None:
    """Two chats by turns, each with a cache of its own: neither is read again."""
    plain = Speculation(proposer="draft", depth=2)
    chats = {
        subject: [Message("user", f"Tell me about {subject}, at some length. " * 4)]
        for subject in ("the sea", "an old clock")
    }
    for turn in range(3):
        for subject, messages in chats.items():
            client = Client(Request(messages=tuple(messages), max_tokens=8, speculation=plain))
            run(together, [client])
            prefilled = client.prefilled
            assert not turn or prefilled.tokens - prefilled.reused < 40, (subject, prefilled)
            messages += [
                Message("assistant", client.finished.text.strip() or "."),
                Message("user", f"Go on, {turn}."),
            ]


def test_a_request_that_fails_in_a_shared_pass_fails_alone(
    together: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Speculation(proposer="none", depth=0)
    request = Request(prompt="Once upon a time", max_tokens=12, ignore_eos=True, speculation=plain)
    others = [replace(request, prompt=prompt) for prompt in ("In the north", "A cat said")]
    clients = [Client(request), *map(Client, others)]
    bad: list[Any] = []

    def look(waits: list[WorkItem]) -> None:
        if not bad and all(isinstance(wait, VerifyWork) for wait in waits) and len(waits) == 3:
            bad.append(waits[0].target)  # type: ignore[attr-defined]

    def breaks(self: Any, *arguments: Any) -> Any:
        if bad and self is bad[0]:
            raise RuntimeError("its rows cannot be computed")
        return original(self, *arguments)

    original = type(together.target).verify_entry
    monkeypatch.setattr(type(together.target), "verify_entry", breaks)
    run(together, clients, look)
    assert "cannot be computed" in str(clients[0].error)
    assert [client.error for client in clients[1:]] == [None, None]
    assert all(len(client.emitted) == 12 for client in clients[1:])
    monkeypatch.undo()
    again = Client(request)
    run(together, [again])
    assert again.finished.reason is FinishReason.LENGTH
