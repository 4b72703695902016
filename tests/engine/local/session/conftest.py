"""A session with a random pair, one with a target that counts, and requests for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.decoding.text.codec import TextCodec
from engine.drafting.resources import Resources
from engine.events import Event, Finished, Prefilled
from engine.local.session import Session
from engine.request import Request, Speculation
from engine.values.sampling import Sampling
from tests.support.checkpoints import VOCABULARY, open_session
from tests.support.fakes import TableModel

PROMPT = tuple(range(40, 70))
COUPLED = Sampling(temperature=1.0, seed=3)


@pytest.fixture
def session(pair: tuple[Path, Path], pair_heads: tuple[Path, ...]) -> Session:
    return open_session(*pair, heads=pair_heads)


@pytest.fixture
def fake(pair: tuple[Path, Path]) -> tuple[Session, TableModel]:
    """A target that says 40, 41, 42, ... and counts what it is fed."""

    def count(tokens: list[int]) -> list[float]:
        return [float(token == 5 + (tokens[-1] - 4) % 300) for token in range(VOCABULARY)]

    model = TableModel(count, VOCABULARY, context=100)  # type: ignore[arg-type]
    return Session(model, TextCodec(pair[0]), Resources()), model


def asked(
    tokens: tuple[int, ...] = PROMPT,
    *,
    proposer: str = "draft",
    depth: int = 4,
    sampling: Sampling = COUPLED,
    max_tokens: int | None = 20,
    stop: tuple[str, ...] = (),
    ignore_eos: bool = True,
    reuse_cache: bool = True,
) -> Request:
    return Request(
        token_ids=tokens,
        sampling=sampling,
        speculation=Speculation(proposer=proposer, depth=depth),
        max_tokens=max_tokens,
        stop=stop,
        ignore_eos=ignore_eos,
        reuse_cache=reuse_cache,
    )


def never() -> bool:
    return False


def after(looks: int) -> Callable[[], bool]:
    """A cancel switch that is on from the given look on."""
    left = iter(range(looks))
    return lambda: next(left, None) is None


def answered(
    session: Session, request: Request, cancelled: Callable[[], bool] = never
) -> tuple[list[Event], Finished]:
    events = list(session.run(request, cancelled))
    last = events[-1]
    assert isinstance(last, Finished)
    return events, last


def prefilled(events: list[Event]) -> Prefilled:
    return next(event for event in events if isinstance(event, Prefilled))


def fresh_reply(
    pair: tuple[Path, Path], request: Request, heads: tuple[Path, ...] = ()
) -> tuple[int, ...]:
    return answered(open_session(*pair, heads=heads), request)[1].token_ids
