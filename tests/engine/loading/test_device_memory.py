"""Memory that runs out: known by whatever says so, told with what would fit, and released."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.errors import InvalidRequest, OutOfMemory
from engine.events import Emitted, Failed, Finished
from engine.loading.catalog import Catalog
from engine.loading.files import fetch_pair
from engine.loading.loader import load_planned
from engine.loading.planning.fit import GPU_POOL_BYTES
from engine.loading.planning.model_plan import ModelPlan
from engine.loading.planning.plan import LoadPlan, plan_loading
from engine.loading.progress import LoadWatch
from engine.local.engine import LocalEngine
from engine.machine import device_memory
from engine.machine.device_memory import within_memory
from engine.machine.devices import Device, ran_out
from engine.request import Request
from engine.values.sampling import Sampling
from tests.support.checkpoints import write_random
from tests.support.loading import request_for

REQUEST = Request(token_ids=(2, 5, 9), sampling=Sampling(temperature=0), max_tokens=4)
# One object for all tests, as bad as can be: it keeps the frames that it went through.
FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        (FULL, True),
        (MemoryError(), True),
        (OutOfMemory("No room for this step."), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("Triton Error [CUDA]: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried ..."), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_everyone_who_says_it_is_understood(error: Exception, is_it: bool) -> None:
    assert ran_out(error) is is_it


def test_the_cpus_own_allocator_is_understood() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**61, dtype=torch.uint8)
    assert ran_out(caught.value)


def test_what_was_half_made_is_gone_before_anything_is_told() -> None:
    """The error's frames would hold it, and whoever shows the error holds the error."""
    alive: list[weakref.ref[torch.Tensor]] = []

    def work() -> None:
        half = torch.zeros(1000)
        alive.append(weakref.ref(half))
        raise FULL

    with pytest.raises(OutOfMemory) as caught:
        within_memory(work, lambda: f"alive: {alive[0]()}")
    assert str(caught.value) == "alive: None"
    assert caught.value.__context__ is None


def test_other_errors_pass_as_they_are() -> None:
    def work() -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        within_memory(work, lambda: "")


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    with closing(LocalEngine()) as running:
        yield running


def last(engine: LocalEngine) -> Finished | Failed:
    for event in engine.generate(REQUEST):
        if isinstance(event, Finished | Failed):
            return event
    raise AssertionError("the stream ended without a last event")


models: list[weakref.ref[Any]] = []


def fill(when: int) -> Callable[..., Any]:
    """``load_planned`` that runs out of memory at the ``when``-th model, having allocated some."""
    calls: list[ModelPlan] = []

    def load(plan: ModelPlan, watch: LoadWatch) -> Any:
        calls.append(plan)
        model = load_planned(plan, watch)
        models.append(weakref.ref(model))
        if len(calls) == when:
            raise FULL
        return model

    return load


@pytest.mark.parametrize("when", [1, 2], ids=["target", "draft"])
def test_a_load_that_runs_out_is_told_and_leaves_the_old_pair(
    engine: LocalEngine, pair: tuple[Path, Path], when: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.load(request_for(*pair, quantization="fp32", threads=1))
    before = last(engine)
    models.clear()
    monkeypatch.setattr("engine.local.pair.load_planned", fill(when))
    with pytest.raises(OutOfMemory) as caught:
        engine.load(request_for(*pair, quantization="fp32"))
    said = str(caught.value)
    assert said.startswith("Memory ran out while loading target + draft. target and draft need ")
    assert "Load the model again, in nf4 if it happens again" in said
    gc.collect()
    assert len(models) == when and not any(model() for model in models)
    assert engine.loaded is not None and engine.loaded.request.threads == 1
    assert last(engine) == before


def test_on_a_gpu_the_old_pair_is_gone_before_the_new_one_is_loaded(
    engine: LocalEngine, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caches take what is free there, so the next model was planned for what was left: mostly for
    the CPU, or refused."""
    engine.load(request_for(*pair, quantization="fp32", threads=1))
    assert engine._pair is not None
    old, seen = weakref.ref(engine._pair.session.target.model), list[object]()

    def load(plan: ModelPlan, watch: LoadWatch) -> Any:
        gc.collect()
        seen.append(old())
        return load_planned(plan, watch)

    monkeypatch.setattr("engine.local.pair.load_planned", load)
    engine.load(request_for(*pair, quantization="bf16"))
    assert seen[0] is not None  # in main memory it stays until the new one is ready
    old, seen[:] = weakref.ref(engine._pair.session.target.model), []
    there = engine._pair.plan  # for a pair on the CPU, one on the GPU stays too
    monkeypatch.setattr("engine.local.engine._on_gpu", lambda plan: plan is there)
    engine.load(request_for(*pair, quantization="fp32"))
    assert seen[0] is not None
    old, seen[:] = weakref.ref(engine._pair.session.target.model), []
    monkeypatch.setattr("engine.local.engine._on_gpu", lambda plan: True)
    engine.load(request_for(*pair, quantization="fp32"))
    assert seen == [None, None]
    loaded = engine.loaded
    with pytest.raises(InvalidRequest, match="needs a GGUF file"):  # nothing is freed for it
        engine.load(request_for(*pair, quantization="stored"))
    assert engine.loaded is loaded is not None and isinstance(last(engine), Finished)


def test_what_the_old_pair_has_on_a_gpu_counts_as_free_for_the_new_one(
    engine: LocalEngine, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planned for what that pair leaves, the new one would go to the CPU. It does if other programs have
    the memory, and then the old pair stays until the new one is ready."""
    gpu, free, planned = Device(torch.device("cuda")), 10**10, list[tuple[str, bool]]()

    def free_bytes(device: torch.device) -> int | None:
        if device.type == "cpu":
            return None
        return free if engine.loaded is None else 10**6

    def load(plan: LoadPlan, *_: object, **__: object) -> Any:
        planned.append((plan.device.torch_device.type, engine.loaded is not None))
        session = SimpleNamespace(close=lambda: None, parallel=1)
        return SimpleNamespace(plan=plan, session=session, loaded=SimpleNamespace())

    monkeypatch.setattr("engine.machine.devices.choose", lambda *_, **__: gpu)
    monkeypatch.setattr(device_memory, "gpu_free_bytes", free_bytes)
    monkeypatch.setattr(device_memory, "gpu_held_bytes", lambda _: free)
    monkeypatch.setattr("engine.local.pair.load_pair", load)
    request = request_for(*pair, quantization="fp32", native=False)
    engine.load(request)
    engine.load(request)
    assert planned == [("cuda", False)] * 2
    free = 0
    engine.load(request)
    assert planned[2:] == [("cpu", True)]


def test_a_reply_that_runs_out_is_told_and_the_next_one_works(
    engine: LocalEngine, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.load(request_for(*pair, quantization="fp32"))
    before = last(engine)
    assert engine._pair is not None
    session = engine._pair.session

    def breaks(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with monkeypatch.context() as patched:
        patched.setattr(session.target, "verify", breaks)
        failed = last(engine)
    assert isinstance(failed, Failed)
    assert failed.message.startswith("Memory ran out while replying. target and draft need ")
    assert "engine failed" not in failed.message
    assert last(engine) == before


def plan(
    pair: tuple[Path, Path | None], dtype: str, cached: str = "auto", **settings: Any
) -> LoadPlan:
    """Of a GPU: by auto, what does not fit there goes to the CPU."""
    settings = {"device": "cuda", **settings}
    request = request_for(*pair, quantization=dtype, kv_cache_dtype=cached, **settings)
    return plan_loading(fetch_pair(request, Catalog((), ()), None), request)


@pytest.fixture
def gpu_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A GPU with so many free bytes, as far as planning asks."""

    device = Device(torch.device("cuda"), kernels=False)
    monkeypatch.setattr("engine.machine.devices.choose", lambda *_, **__: device)

    def make(free: int) -> None:
        monkeypatch.setattr("engine.machine.device_memory.gpu_free_bytes", lambda _: free)

    return make


def test_the_context_is_what_the_gpu_has_room_for(
    tmp_path: Path, gpu_of: Callable[[int], None]
) -> None:
    write_random(tmp_path, max_position_embeddings=8192)
    gpu_of(10**10)
    whole = plan((tmp_path, None), "fp32")
    assert (whole.target.context, whole.notes) == (8192, ())
    (note,) = plan((tmp_path, None), "fp32", context=100_000).notes
    assert note == "The context is 8,192 tokens, not 100,000: the model has no more."
    gpu_of(whole.memory_fit.needed - whole.memory_fit.kv // 2)
    some = plan((tmp_path, None), "fp32")
    assert 3500 < some.target.context < 8192
    assert "more does not fit in memory" in some.notes[-1]
    gpu_of(whole.memory_fit.weights)
    with pytest.raises(OutOfMemory, match=r"a context of 8,192 tokens; .* free on the GPU"):
        plan((tmp_path, None), "fp32")


def test_a_cache_in_fp8_leaves_room_for_a_longer_context(
    tmp_path: Path, gpu_of: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has too little for the model's context is told of it; whoever chose it has it."""
    device = Device(torch.device("cuda"), kernels=True)
    monkeypatch.setattr("engine.machine.devices.choose", lambda *_, **__: device)
    write_random(tmp_path, max_position_embeddings=8192, head_dim=64)
    gpu_of(10**10)
    whole = plan((tmp_path, None), "bf16")
    narrow = plan((tmp_path, None), "bf16", "fp8")
    assert narrow.memory_fit.kv == pytest.approx(whole.memory_fit.kv * 68 / 128, rel=0.01)
    assert narrow.memory_fit.weights == whole.memory_fit.weights
    gpu_of(whole.memory_fit.needed - whole.memory_fit.kv // 2)
    some = plan((tmp_path, None), "bf16")
    longer = plan((tmp_path, None), "bf16", "fp8")
    assert longer.target.context > 1.4 * some.target.context
    assert some.notes[-1] == f"With an fp8 KV cache it would be {longer.target.context:,}."
    assert not any("fp8" in note for note in longer.notes)


def test_a_draft_keeps_its_cache_wide(
    pair: tuple[Path, Path], gpu_of: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(torch.device("cuda"), kernels=True)
    monkeypatch.setattr("engine.machine.devices.choose", lambda *_, **__: device)
    gpu_of(10**10)
    bytes_of = [plan(pair, "bf16", cached).footprint for cached in ("auto", "fp8")]
    assert bytes_of[0]["draft"] == bytes_of[1]["draft"]
    assert bytes_of[0]["target"] > bytes_of[1]["target"]


def test_requests_at_once_on_a_gpu_have_caches_and_graphs_of_their_own(
    tmp_path: Path, gpu_of: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one unless somebody asks, then as many as fit."""
    device = Device(torch.device("cuda"), kernels=True)
    monkeypatch.setattr("engine.machine.devices.choose", lambda *_, **__: device)
    write_random(tmp_path)
    gpu_of(10**10)
    one = plan((tmp_path, None), "bf16")
    each = one.memory_fit.request
    assert one.parallel == 1 and each > one.memory_fit.kv + 2 * GPU_POOL_BYTES
    gpu_of(one.memory_fit.needed + 2 * each)
    for wanted, found in ((2, 2), (8, 3)):
        assert plan((tmp_path, None), "bf16", parallel=wanted).parallel == found


def test_what_does_not_fit_on_the_gpu_is_refused_before_anything_is_loaded(
    engine: LocalEngine,
    pair: tuple[Path, Path],
    gpu_of: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "engine.local.pair.load_planned", lambda *_, **__: pytest.fail("it was loaded")
    )
    gpu_of(400_000_000)
    with pytest.raises(
        OutOfMemory, match=r"400 MB are free on the GPU\..*programs that use the GPU"
    ):
        engine.load(request_for(*pair, quantization="fp32", device="cuda"))


def test_a_shortage_names_what_is_free_now(
    pair: tuple[Path, Path], gpu_of: Callable[[int], None]
) -> None:
    gpu_of(10**10)
    loaded = plan(pair, "bf16")
    gpu_of(1_000_000)
    said = loaded.ran_out("loading it", loaded=False)
    assert said.startswith("The GPU's memory ran out while loading it. ")
    assert "1.0 MB are free on the GPU." in said and "The weights alone do not fit" in said
    gpu_of(10**10)
    assert "It should have fitted" in loaded.ran_out("replying", loaded=True)


on_device = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


class TestOnDevice:
    pytestmark = on_device

    def test_a_real_shortage_is_told_and_the_memory_is_free_again(self) -> None:
        before = device_memory.gpu_free_bytes(torch.device("cuda"))
        assert before is not None

        def work() -> None:
            kept = []
            while True:
                kept.append(torch.empty(before // 4, dtype=torch.uint8, device="cuda"))

        with pytest.raises(OutOfMemory, match=r"^\d+$") as caught:
            within_memory(work, lambda: str(device_memory.gpu_free_bytes(torch.device("cuda"))))
        assert int(str(caught.value)) > 0.95 * before
        assert torch.ones(10, device="cuda").sum() == 10

    def test_a_chat_outlives_it(
        self, engine: LocalEngine, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Everything that is free is taken while a reply is written, then given back."""
        engine.load(request_for(*pair, quantization="bf16"))
        before = last(engine)
        assert isinstance(before, Finished)
        taken: list[torch.Tensor] = []

        def greedy(*_: Any, **__: Any) -> Any:
            while True:
                taken.append(torch.empty(2**30, dtype=torch.uint8, device="cuda"))

        with monkeypatch.context() as patched:
            patched.setattr("engine.backends.cuda.graphs.Runner.launch", greedy)
            failed = last(engine)
        taken.clear()
        assert isinstance(failed, Failed)
        assert "ran out while replying" in failed.message
        again = last(engine)
        assert isinstance(again, Finished) and again.token_ids == before.token_ids

    def test_unloading_frees_the_gpu(self, engine: LocalEngine, pair: tuple[Path, Path]) -> None:
        before = device_memory.gpu_free_bytes(torch.device("cuda"))
        engine.load(request_for(*pair, quantization="bf16"))
        assert any(isinstance(event, Emitted) for event in engine.generate(REQUEST))
        engine.unload()
        after = device_memory.gpu_free_bytes(torch.device("cuda"))
        assert before is not None and after is not None
        assert after > before - 200_000_000  # the kernels' code stays

    def test_a_model_that_is_too_large_never_touches_the_gpu(
        self, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("engine.machine.device_memory.gpu_free_bytes", lambda _: 1_000_000)
        used = torch.cuda.memory_allocated()
        with pytest.raises(OutOfMemory):
            plan(pair, "auto")
        assert torch.cuda.memory_allocated() == used
