"""What every engine behind the door keeps to, and no more than ``engine.api`` promises.

Run for all of ``tests.support.engines``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from engine.api import Capabilities, Engine
from engine.errors import CatalogError, ContextExceeded, InvalidRequest, ModelError, NotLoaded
from engine.events import Emitted, Event, Failed, Finished, FinishReason, Prefilled, Queued, Started
from engine.loading.request import LoadRequest
from engine.local.capabilities import proposer_info
from engine.request import Request, Speculation
from engine.values.grammar import Grammar, GrammarKind
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from engine.values.tools import Tool
from tests.support.engines import (
    FAILS,
    LENGTH,
    PATIENCE,
    Heard,
    asked,
    engine,
    far,
    finish,
    held,
    long,
    queued_as,
    tells,
    unloaded,
)
from tests.support.fake_engine import CAPABILITIES, FakeEngine
from tests.support.loading import request_for
from tests.support.remote import ServedEngine

__all__ = ["engine", "far", "unloaded"]


def test_events_come_in_order_and_tell_the_same_words_three_times(engine: Engine) -> None:
    offered = tells(engine)
    started, prefilled, *parts, finished = engine.generate(asked(offered.preferred))
    assert isinstance(started, Started) and started.proposer == offered.preferred
    assert isinstance(prefilled, Prefilled)
    assert started.prompt_tokens is None or prefilled.tokens == len(started.prompt_tokens)
    assert parts and isinstance(finished, Finished)
    text, tokens = "", []
    for emitted in parts:
        assert isinstance(emitted, Emitted)
        assert (emitted.tokens is not None, emitted.round is not None) == (
            offered.tokens,
            offered.rounds,
        )
        text += emitted.text
        own = [token.id for token in emitted.tokens or ()]
        tokens += own
        if emitted.round is not None:
            assert not own or own == [*emitted.round.tokens[: emitted.round.emitted]]
            assert len(emitted.drafted) == len(emitted.round.tree.tokens)
    assert text + finished.tail == finished.text
    if offered.tokens:
        assert finished.token_ids == tuple(tokens) and len(tokens) == LENGTH


def test_everyone_who_listens_hears_all_of_it_however_late(engine: Engine) -> None:
    generation = engine.generate(asked())
    early = Heard(), Heard()
    for listener in early:
        generation.listen(listener)
    assert all(listener.ended.wait(PATIENCE) for listener in early)
    late = Heard()
    generation.listen(late)
    assert early[0].events == early[1].events == late.events == list(generation)
    assert generation.ended and list(generation) == list(generation)


def test_a_listener_that_fails_is_left_out_and_the_reply_goes_on(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    _, heard = held(engine, LENGTH)
    waiting, told = engine.generate(asked()), 0

    def broken(event: Event) -> None:
        nonlocal told
        if not isinstance(event, Queued):
            told += 1
            raise ZeroDivisionError

    waiting.listen(broken)
    heard.go_on.set()
    assert finish(waiting).text == finish(engine.generate(asked())).text
    assert told == 1 and "ZeroDivisionError" in caplog.text


def test_a_reply_that_runs_is_cancelled_before_more_of_it_is_told(engine: Engine) -> None:
    generation, heard = held(engine)
    generation.cancel()
    generation.cancel()
    heard.go_on.set()
    finished = finish(generation)
    assert finished.reason is FinishReason.CANCELLED and generation.cancelled
    (only,) = (event for event in heard.events if isinstance(event, Emitted))
    assert only.text + finished.tail == finished.text
    assert finish(engine.generate(asked())).reason is not FinishReason.CANCELLED


def test_a_stop_string_ends_the_reply_and_is_not_in_it(engine: Engine) -> None:
    request = asked(tells(engine).preferred)
    whole = finish(engine.generate(request)).text
    middle = len(whole) // 2
    stop = whole[middle : middle + 4]
    *events, finished = engine.generate(replace(request, stop=("never to be found", stop)))
    assert isinstance(finished, Finished) and finished.reason is FinishReason.STOP
    assert finished.text == whole[: whole.index(stop)]
    text = "".join(event.text for event in events if isinstance(event, Emitted))
    assert text + finished.tail == finished.text


def test_the_seed_that_is_told_makes_the_reply_again(engine: Engine) -> None:
    request = asked(tells(engine).preferred)

    def drawn(seed: int | None) -> tuple[int | None, str]:
        sampling = Sampling(temperature=1.0, seed=seed)
        started, *_, finished = engine.generate(replace(request, sampling=sampling))
        assert isinstance(started, Started) and isinstance(finished, Finished)
        return started.seed, finished.text

    seed, text = drawn(None)
    assert seed is not None
    assert drawn(seed) == (seed, text)
    assert drawn(7)[0] == 7


def test_a_reply_that_fails_says_so_and_the_next_one_is_whole(engine: Engine) -> None:
    words = finish(engine.generate(asked())).text
    with FAILS[type(engine)](engine):
        *events, last = engine.generate(asked())
    assert isinstance(last, Failed) and last.message
    assert not any(isinstance(event, Finished) for event in events)
    assert finish(engine.generate(asked())).text == words


def test_who_waits_is_told_and_is_cancelled_at_once(engine: Engine) -> None:
    running, heard = held(engine, LENGTH)
    second = engine.generate(asked())
    queued_as(second, 1)
    third = engine.generate(asked())
    queued_as(third, 2)
    assert engine.busy
    second.cancel()
    queued, ended = second
    assert queued == Queued(1) and isinstance(ended, Finished)
    assert (ended.reason, ended.text, ended.token_ids or ()) == (FinishReason.CANCELLED, "", ())
    heard.go_on.set()
    waited = [event.ahead for event in third if isinstance(event, Queued)]
    assert waited == [2, 1]
    assert finish(running).reason is not FinishReason.CANCELLED


def test_without_a_pair_there_is_no_reply(unloaded: Engine) -> None:
    assert unloaded.loaded is None and not unloaded.busy
    with pytest.raises(NotLoaded, match="No model is loaded"):
        unloaded.generate(asked())


def test_what_is_loaded_says_what_was_asked_for(engine: Engine, pair: tuple[Path, Path]) -> None:
    if isinstance(engine, ServedEngine):
        pytest.skip("a server was asked by somebody else")
    loaded = engine.loaded
    assert loaded is not None
    assert loaded.request == request_for(*pair)
    assert loaded.name == "target + draft"
    assert (loaded.target_id, loaded.draft_id) == tuple(map(str, pair))
    alone = engine.load(request_for(pair[0]))
    assert engine.loaded == alone
    assert (alone.draft, alone.draft_id) == (None, None)
    assert set(alone.capabilities.names) < set(loaded.capabilities.names)


@pytest.mark.parametrize(
    ("target", "error"), [("nothing-of-that-name", CatalogError), ("./no/folder", ModelError)]
)
def test_a_load_that_fails_keeps_the_pair_that_was_there(
    engine: Engine, target: str, error: type[Exception]
) -> None:
    before, words = engine.loaded, finish(engine.generate(asked())).text
    with pytest.raises(error):
        engine.load(LoadRequest(target=target))
    assert engine.loaded == before
    assert finish(engine.generate(asked())).text == words


def test_what_is_offered_is_accepted_and_nothing_else(engine: Engine) -> None:
    offered = tells(engine)
    assert offered.preferred in offered.names and "none" in offered.names
    for proposer in offered.proposers:
        defaults = {option.name: option.default for option in proposer.options}
        assert finish(engine.generate(asked(proposer.name, defaults)))
        for option in proposer.options:
            assert not option.choices or option.default in option.choices
            for wrong in ({option.name: None}, {"no_such_option": 1}):
                with pytest.raises(InvalidRequest) as caught:
                    engine.generate(asked(proposer.name, wrong))  # type: ignore[arg-type]
                assert caught.value.field == "options"
    with pytest.raises(InvalidRequest) as caught:
        engine.generate(asked("oracle"))
    assert caught.value.field == "proposer"
    for rule in offered.rules:
        temperature = 0.0 if rule is AcceptanceRule.GREEDY else 0.7
        request = Request(
            prompt="Once",
            max_tokens=2,
            sampling=Sampling(temperature=temperature, seed=1),
            speculation=Speculation(proposer=offered.preferred, acceptance=rule),
        )
        started = next(event for event in engine.generate(request) if isinstance(event, Started))
        assert started.acceptance == (
            AcceptanceRule.COUPLED if rule is AcceptanceRule.AUTO else rule
        )


ENDING: dict[str, Any] = {"ignore_eos": False}
CHAT: dict[str, Any] = {"prompt": None, "messages": (Message("user", "Hello"),)}


NOT_OFFERED: list[tuple[str | None, dict[str, Any], AcceptanceRule]] = [
    ("top_p", {"sampling": Sampling(temperature=0.7, top_p=0.5)}, AcceptanceRule.AUTO),
    ("seed", {"sampling": Sampling(seed=0)}, AcceptanceRule.AUTO),
    ("acceptance", {"sampling": Sampling(temperature=0.7)}, AcceptanceRule.BLOCK),
    ("logit_bias", {"logit_bias": ((5, -100.0),)}, AcceptanceRule.AUTO),
    ("top_logprobs", {"top_logprobs": 3}, AcceptanceRule.AUTO),
    ("grammar", {"grammar": Grammar(GrammarKind.REGEX, "a+")} | ENDING, AcceptanceRule.AUTO),
    ("tools", {"tools": (Tool("f"),)} | ENDING | CHAT, AcceptanceRule.AUTO),
    (None, {"sampling": Sampling(temperature=0.7)}, AcceptanceRule.AUTO),
    (None, {}, AcceptanceRule.GREEDY),
]
"""Fields of requests that an engine with little to offer refuses; two that it answers."""


def test_sampling_and_rules_that_are_not_offered_are_refused(
    unloaded: Engine, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    less = replace(
        CAPABILITIES,
        rules=(AcceptanceRule.GREEDY,),
        sampling=frozenset({"temperature"}),
        logit_bias=False,
        top_logprobs=False,
        grammars=False,
        calls=None,
    )
    if isinstance(unloaded, FakeEngine):
        unloaded.capabilities = less
    elif isinstance(unloaded, ServedEngine):
        unloaded.far.capabilities = less
    else:
        monkeypatch.setattr("engine.local.pair.capabilities", lambda *_, **__: less)
    unloaded.load(request_for(*pair))
    for field, given, rule in NOT_OFFERED:
        request = replace(asked(tokens=2), speculation=Speculation(acceptance=rule), **given)
        if field is None:
            assert finish(unloaded.generate(request))
            continue
        with pytest.raises(InvalidRequest, match=f"^{field} (is|are|cannot be used)") as caught:
            unloaded.generate(request)
        assert caught.value.field == field


def test_a_prompt_that_is_too_long_is_refused_at_once(engine: Engine) -> None:
    assert engine.loaded is not None
    tokens = (1,) * engine.loaded.context
    with pytest.raises(ContextExceeded):
        engine.generate(Request(token_ids=tokens))


def test_a_pinned_pair_stays_until_nobody_pins_it(engine: Engine) -> None:
    pair = engine.loaded
    assert pair is not None
    another = replace(pair, request=LoadRequest(target="another"))
    engine.unload(another)
    with pytest.raises(NotLoaded), engine.pin(another):
        pass
    with pytest.raises(NotLoaded):
        engine.of(another)
    begun = threading.Event()

    def unload() -> None:
        begun.set()
        engine.unload(pair)

    with engine.pin(pair):
        unloading = threading.Thread(target=unload)
        unloading.start()
        assert begun.wait(PATIENCE)
        assert finish(engine.of(pair).generate(asked())).text
        assert engine.loaded is pair and unloading.is_alive()
    unloading.join(PATIENCE)
    assert engine.loaded is None
    with pytest.raises(NotLoaded), engine.pin(pair):
        pass


def test_unloading_comes_behind_who_waits(engine: Engine) -> None:
    running, heard = held(engine, LENGTH)
    waiting = engine.generate(asked())
    order: list[str] = []
    comes = threading.Event()

    def on_event(event: Event) -> None:
        if isinstance(event, Finished):
            order.append("answered")

    def unload() -> None:
        comes.set()
        engine.unload()
        order.append("unloaded")

    waiting.listen(on_event)
    unloading = threading.Thread(target=unload)
    unloading.start()
    assert comes.wait(PATIENCE)
    heard.go_on.set()
    unloading.join(PATIENCE)
    for generation in (running, waiting):
        assert finish(generation).reason is not FinishReason.CANCELLED
    assert order == ["answered", "unloaded"]
    assert engine.loaded is None


def test_closing_ends_everything_and_closes_the_door(
    engine: Engine, pair: tuple[Path, Path]
) -> None:
    running, heard = held(engine)
    waiting = engine.generate(asked())
    closing_ = threading.Thread(target=engine.close)
    closing_.start()
    assert finish(waiting).reason is FinishReason.CANCELLED
    heard.go_on.set()
    closing_.join(PATIENCE)
    assert finish(running).reason is FinishReason.CANCELLED
    assert engine.loaded is None and not engine.busy
    attempts: tuple[Callable[[], object], ...] = (
        lambda: engine.generate(asked()),
        lambda: engine.load(request_for(*pair)),
    )
    for attempt in attempts:
        with pytest.raises(NotLoaded, match="shut down"):
            attempt()
    engine.close()


def test_tokens_of_texts_are_told_or_said_to_be_unknown(engine: Engine) -> None:
    found = engine.tokenize(["one two three", ""])
    assert found is None or (len(found[0]) >= 3 and found[1] == ())
    assert (found is None) is isinstance(engine, ServedEngine)


def test_a_reply_can_begin_with_words_that_somebody_else_wrote(engine: Engine) -> None:
    written = engine.tokenize(["once upon a"])
    if written is None or isinstance(engine, FakeEngine):  # it recites its own words
        return
    request = replace(asked(), reply_prefix=written[0])
    assert finish(engine.generate(request)).text.startswith("once upon a")


def test_the_fakes_proposers_have_the_options_of_the_real_ones() -> None:
    """Pages send the options of the proposers that they know."""
    for proposer in CAPABILITIES.proposers:
        real = proposer_info(proposer.name)
        options = tuple(replace(option, help="") for option in real.options)
        assert proposer == replace(real, options=options)


LESS = (("rounds",), ("probabilities",), ("tokens", "rounds"))
"""What an engine may not tell."""
LACKING = {"logit_bias", "top_logprobs", "grammars", "images"}
"""What it may not have: see ``test_sampling_and_rules_that_are_not_offered_are_refused``."""

UNUSED = {"thinking_budget", "template_tools"}
"""What a request may have all the same: a model that does not think keeps to every budget, and
tools that are not given need no template."""


def test_there_is_no_more_that_an_engine_may_not_tell() -> None:
    kinds = get_type_hints(Capabilities)
    told = {name for missing in LESS for name in missing}
    assert {name for name, kind in kinds.items() if kind is bool} == told | LACKING | UNUSED


@pytest.mark.parametrize("missing", LESS)
def test_an_engine_tells_no_more_than_its_capabilities_say(
    pair: tuple[Path, Path], missing: tuple[str, ...]
) -> None:
    """What an engine elsewhere looks like from here."""
    less = replace(CAPABILITIES, **dict.fromkeys(missing, False))  # type: ignore[arg-type]
    with closing(FakeEngine(long, capabilities=less)) as engine:
        engine.load(request_for(*pair))
        *events, finished = engine.generate(asked())
    emitted = [event for event in events if isinstance(event, Emitted)]
    assert isinstance(finished, Finished) and emitted
    assert "".join(event.text for event in emitted) == finished.text
    for event in emitted:
        assert (event.round is None) is ("rounds" in missing)
        assert (event.tokens is None) is ("tokens" in missing)
        if event.round is not None:
            assert event.round.next_p is None and not any((*event.round.p, *event.round.q))
    assert (finished.token_ids is None) is ("tokens" in missing)


def test_the_stop_string_that_ended_a_reply_is_told(engine: Engine) -> None:
    whole = finish(engine.generate(asked()))
    assert whole.stop_string is None
    stop = whole.text[2:5]
    stopped = finish(engine.generate(replace(asked(), stop=("never said", stop))))
    assert (stopped.text, stopped.stop_string) == (whole.text[: whole.text.find(stop)], stop)


def test_what_is_in_memory_and_its_tokenizer_are_told(engine: Engine) -> None:
    assert list(engine.resident) == [engine.loaded]
    assert engine.of(engine.loaded).loaded is engine.loaded
    tokenizer = engine.tokenizer
    if tokenizer is None:
        assert isinstance(engine, FakeEngine | ServedEngine)
        return
    request = Request(messages=(Message("user", "Hello"),))
    assert tokenizer.decode(tokenizer.prompt(request)) == tokenizer.render(request)


def test_a_model_that_is_not_made_for_embeddings_says_so(engine: Engine) -> None:
    with pytest.raises(InvalidRequest):
        engine.embed([40, 41])
    if isinstance(engine, FakeEngine | ServedEngine):
        with pytest.raises(InvalidRequest):
            engine.next_logits([40, 41], [42])
        return
    first, second = engine.next_logits([40, 41], [42, 43])
    assert [first, second] != [0.0, 0.0]
    assert list(engine.next_logits([40, 41], [43, 42])) == [second, first]
