"""Replies that fail on the device: memory runs out, the GPU is lost, or a graph does not run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from engine.backends.cuda import OTHER_GRAPHS, graphs, prepared
from engine.backends.cuda.capture import Graph
from engine.backends.cuda.graphs import Runner
from engine.backends.cuda.round import DeviceRound, Mode
from engine.backends.cuda.trial import verdicts
from engine.backends.cuda.trial.verdicts import kernel_errors
from engine.decoding.text.codec import TextCodec
from engine.drafting.heads.base import Head
from engine.drafting.resources import Resources
from engine.errors import DeviceLost, KernelsFailed
from engine.events import Emitted
from engine.local.session import Session
from engine.machine import devices
from engine.request import Request, Speculation
from engine.values.grammar import Grammar, GrammarKind
from tests.engine.backends.cuda.small import load, write_pair
from tests.engine.backends.cuda.test_heads import HOT, load_head
from tests.engine.backends.cuda.wrong_kernels import put_wrong, refuse

__all__ = ["load_head"]

LOST = RuntimeError("CUDA error: an illegal memory access was encountered")
REFUSED = RuntimeError("CUDA error: too many resources requested for launch")
ASKED = Request(
    token_ids=(5, 6, 7), max_tokens=5, ignore_eos=True, speculation=Speculation(proposer="none")
)


@pytest.fixture(autouse=True)
def _own_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices lost in a test are lost for this test alone."""
    monkeypatch.setattr(devices, "_lost", set())


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            torch.OutOfMemoryError("CUDA out of memory"),
            torch.OutOfMemoryError,
            marks=pytest.mark.exhaustive,
            id="no memory",
        ),
        pytest.param(LOST, DeviceLost, id="lost"),
    ],
)
def test_a_reply_that_fails_leaves_the_session_whole(
    error: RuntimeError, expected: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second round fails after the first one's tokens were shown; the next request succeeds."""
    write_pair(tmp_path / "target", tmp_path / "draft")
    session = Session(load(tmp_path / "target"), TextCodec(tmp_path / "target"), Resources())
    request = replace(ASKED, max_tokens=3)
    whole = list(session.run(request, lambda: False))[-1]
    run, rounds = DeviceRound.run, []

    def failing(self: DeviceRound, mode: Mode) -> None:
        rounds.append(mode)
        if len(rounds) == 3:
            raise error
        run(self, mode)

    with monkeypatch.context() as patch:
        patch.setattr(DeviceRound, "run", failing)
        patch.setattr("engine.backends.cuda.graphs.Runner._capture", lambda *_: None)
        session.target._runners.clear()
        with pytest.raises(expected):
            list(session.run(request, lambda: False))
    assert len(session.target.keys) == session.target.state.length
    assert list(session.run(request, lambda: False))[-1] == whole


@pytest.mark.gpu
@pytest.mark.parametrize("error", [REFUSED, LOST], ids=["refused", "lost"])
def test_a_graph_that_fails_in_mid_reply_is_run_without(
    error: RuntimeError, folders: tuple[Path, Path], device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """So the reply goes on from the last token, with the same words; not on a GPU that is lost."""
    session = Session(load(folders[0]), TextCodec(folders[0]), Resources())
    whole, runner = list(session.run(ASKED, lambda: False))[-1], session.target.round_runner(None)
    replays = 0

    def captured(run: Callable[[], object], what: str, pool: Any) -> Graph:
        """Return a graph that runs when it is replayed, but for the third time."""

        def replay() -> None:
            nonlocal replays
            replays += 1
            if replays == 3:
                raise error
            run()

        graph: Any = SimpleNamespace(replay=replay)
        return Graph(graph, what)

    monkeypatch.setattr(graphs, "capture", captured)
    monkeypatch.setattr(runner, "captures", True)
    monkeypatch.setattr(runner, "_graphs", {})
    if error is LOST:
        with pytest.raises(DeviceLost):
            list(session.run(ASKED, lambda: False))
        return
    assert list(session.run(ASKED, lambda: False))[-1] == whole
    assert replays == 3


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("fault", ["seed_and_length", "token_counts", "result", "nothing"])
def test_a_graph_that_gives_other_bits_is_not_used(
    fault: str, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an address that went stale; ``nothing``: the graph writes elsewhere altogether."""
    session = Session(load(folders[0]), TextCodec(folders[0]), Resources())
    whole, runner = list(session.run(ASKED, lambda: False))[-1], session.target.round_runner(None)
    tried = list[str]()

    def captured(run: Callable[[], object], what: str, pool: Any) -> Graph:
        def replay() -> None:
            tried.append(what)
            if fault != "nothing":
                run()
                state = runner.round.state
                result = {"result": runner.round.result}.get(fault)
                (getattr(state, fault) if result is None else result)[1] += 1

        graph: Any = SimpleNamespace(replay=replay)
        return Graph(graph, what)

    monkeypatch.setattr(graphs, "capture", captured)
    monkeypatch.setattr(runner, "captures", True)
    monkeypatch.setattr(runner, "_graphs", {})
    assert list(session.run(ASKED, lambda: False))[-1] == whole
    assert len(tried) == 1 and runner._uncaptured and not any(runner._graphs.values())


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
def test_memory_for_less_depth_is_used(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, tried = (
        Runner(DeviceRound(model := load(folders[0]), model.new_state(64))),
        list[Mode](),
    )

    def captured(run: Any, what: str, pool: Any) -> Any:
        tried.append(run.args[0])
        if tried[-1].depth >= 2:
            return torch.OutOfMemoryError("CUDA out of memory.")
        return SimpleNamespace(replay=lambda: (run(), True)[1])

    monkeypatch.setattr(graphs, "capture", captured)
    runner.captures = True
    assert runner.prepare() == "CUDA out of memory."
    assert [each.depth for each in tried] == [0, 1, 2, 0, 1, 0, 1]
    assert len(runner._graphs) == 6


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("steps", [0, 5, 15])
def test_a_load_captures_the_rounds_that_planning_counts_and_later_ones_are_bounded(
    steps: int, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning counted 9, a load made 27, or 51 with a draft, and later ones stayed for good."""
    drafter: Any = SimpleNamespace(steps=steps, changed=[]) if steps else None
    runner = Runner(DeviceRound(model := load(folders[0]), model.new_state(64), drafter))
    monkeypatch.setattr(graphs, "capture", lambda *_: SimpleNamespace(replay=None))
    monkeypatch.setattr(runner.round, "dry_run", lambda *_: [])
    runner.captures = True
    assert not runner.prepare()
    made = list(runner._graphs)
    assert len(made) == {0: 27, 5: 27 + 3 * 5, 15: 51}[steps] == len(list(prepared(steps)))
    trees, depths = (False, True), range(1, 16)
    later = [runner.mode(depth, masked=True, tree=tree) for tree in trees for depth in depths]
    for mode in later:
        runner._prepare(mode)
    assert list(runner._graphs) == [*made, *later[-OTHER_GRAPHS:]]


TREES = Speculation(proposer="medusa", depth=2, options={"tree_nodes": 3})
ON_HOST = Speculation(proposer="mtp", depth=2)
EVERY_ROUND = (
    "bf16_gemm", "normalise_rows", "rope_and_store", "attend_splits", "combine_parts", "accept_kernel"
)  # fmt: skip
GRAMMAR = Grammar(GrammarKind.REGEX, "[a-z ]+!")


@pytest.fixture(scope="module")
def session_of(
    folders: tuple[Path, Path], load_head: Callable[[str], Head]
) -> Callable[[str], Session]:
    def make(kind: str) -> Session:
        resources = Resources(heads={kind: load_head(kind)})
        return Session(load(folders[0]), TextCodec(folders[0]), resources)

    return functools.cache(make)


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("name", "speculation", "grammar"),
    [
        ("attend_splits", TREES, None),
        ("grow_kernel", TREES, None),
        ("bf16_gemm", TREES, GRAMMAR),
        ("bf16_gemm", ON_HOST, None),
        *(
            pytest.param(name, each, None, marks=pytest.mark.exhaustive)
            for name, each in (
                *((name, TREES) for name in EVERY_ROUND if name != "attend_splits"),
                *((name, TREES) for name in ("race_kernel", "times_kernel")),
                ("accept_kernel", ON_HOST),
            )
        ),
    ],
)
def test_a_kernel_that_is_refused_in_mid_reply_ends_it_with_what_was_written(
    name: str, speculation: Speculation, grammar: Grammar | None,
    session_of: Callable[[str], Session], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    """Wherever it is launched: in rounds, in drafts on the device or from the host. The session is whole
    after that, and the next load is without the kernels."""
    monkeypatch.setattr("engine.backends.cuda.heads.wrong_width", lambda _: "It is too wide.")
    monkeypatch.setattr(verdicts, "_file", lambda: tmp_path / "gpu-trials.json")
    session, emitted = session_of(speculation.proposer), 0
    model: Any = session.target.model
    monkeypatch.setattr(model, "verdict", verdicts.Verdict("gpu", "small", "shape", "bf16"))
    request = replace(
        ASKED, max_tokens=8, speculation=speculation, grammar=grammar, sampling=HOT,
        ignore_eos=grammar is None,
    )  # fmt: skip
    whole = list(session.run(request, lambda: False))[-1]
    with (
        monkeypatch.context() as patch,
        pytest.raises(KernelsFailed, match="What was written is kept"),
    ):
        for event in session.run(request, lambda: False):
            if isinstance(event, Emitted):
                emitted += 1
                if emitted == 1:
                    put_wrong(patch, name, refuse)
    assert emitted and len(session.target.keys) == session.target.state.length
    assert verdicts.kept()[0].fault
    assert list(session.run(request, lambda: False))[-1] == whole


def test_what_the_gpu_refused_is_a_kernels_fault_and_a_lost_gpu_is_not() -> None:
    """Triton's launcher tells of both."""
    with pytest.raises(KernelsFailed, match="too many resources"), kernel_errors(None):
        raise REFUSED
    lost = RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered")
    with pytest.raises(RuntimeError) as raised, kernel_errors(None):
        raise lost
    assert raised.value is lost
