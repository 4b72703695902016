"""Where a pair's parts are computed beside a GPU, by the memory that is free on each device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.backends.native import build
from engine.errors import InvalidRequest, OutOfMemory
from engine.kernels.native.library import Library
from engine.loading.catalog import Catalog
from engine.loading.files import fetch_pair
from engine.loading.planning import placement
from engine.loading.planning.choices import Backend
from engine.loading.planning.fit import ENOUGH_CONTEXT, GPU_PASS_BYTES
from engine.loading.planning.plan import LoadPlan, plan_loading
from engine.machine import device_memory, devices, memory
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import inspect
from tests.support.checkpoints import write_random
from tests.support.heads import WRITERS
from tests.support.loading import request_for

CPU = torch.device("cpu")
CAPTURED = (3 * 9 + 18 - 8) * GPU_PASS_BYTES
"""What graphs of rounds take more than those of the passes of a target in two parts."""


class Machine:
    """A GPU and main memory with so many free bytes, as far as planning asks."""

    def __init__(self, patch: pytest.MonkeyPatch, target: Path, draft: Path) -> None:
        self.target, self.draft, self.gpu, self.host = target, draft, 10**10, 10**10
        device = Device(torch.device("cuda"), kernels=True)
        patch.setattr(devices, "choose", lambda *_, **__: device)
        patch.setattr(device_memory, "gpu_free_bytes", lambda _: self.gpu)
        patch.setattr(memory, "free_bytes", lambda: self.host)

    def plan(self, draft: bool = True, heads: Sequence[Path] = (), **settings: Any) -> LoadPlan:
        files = self.target, self.draft if draft else None
        request = request_for(*files, heads, **{"quantization": "bf16", **settings})
        return plan_loading(fetch_pair(request, Catalog((), ()), None), request)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    sizes = {"hidden_size": 64, "intermediate_size": 64, "head_dim": 16}
    sizes["max_position_embeddings"] = 16384
    write_random(tmp_path / "target", **sizes, num_hidden_layers=3)
    write_random(tmp_path / "draft", **sizes, num_hidden_layers=1)
    return Machine(monkeypatch, tmp_path / "target", tmp_path / "draft")


def place_of(plan: LoadPlan) -> str:
    assert plan.draft is not None and plan.target.device.torch_device.type == "cuda"
    return plan.draft.device.torch_device.type


def test_a_draft_goes_to_the_cpu_only_where_both_do_not_fit_on_the_gpu(
    machine: Machine, library: Library
) -> None:
    whole = machine.plan()
    assert place_of(whole) == "cuda" and not any("drafts on" in note for note in whole.notes)
    alone = machine.plan(draft=False)
    machine.gpu = (whole.memory_fit.needed + alone.memory_fit.needed) // 2 - whole.memory_fit.kv
    beside = machine.plan()
    assert place_of(beside) == "cpu" and beside.target.context > 0
    (note, *_) = beside.notes
    assert "draft drafts on the CPU, because both models do not fit on the GPU: " in note
    assert "of main memory" in note and "GB/s" in note
    assert beside.draft is not None and beside.draft.backend is Backend.NATIVE


def test_a_little_less_context_is_no_reason_to_draft_on_the_cpu(machine: Machine) -> None:
    whole = machine.plan()
    machine.gpu = whole.memory_fit.needed - whole.memory_fit.kv // 8
    shorter = machine.plan()
    assert place_of(shorter) == "cuda" and ENOUGH_CONTEXT < shorter.target.context < 16384
    assert place_of(machine.plan(context=16384)) == "cpu"  # who asks for it has it
    assert place_of(machine.plan(context=16384, draft_device="cuda")) == "cuda"


def test_each_devices_memory_counts_for_what_is_on_it(machine: Machine, library: Library) -> None:
    there, here = machine.plan(), machine.plan(draft_device="cpu")
    alone = machine.plan(draft=False)
    assert here.memory_fit.needed == alone.memory_fit.needed < there.memory_fit.needed
    assert here.footprint.keys() == there.footprint.keys()
    host = here.memory_fit.host
    assert host is not None and there.memory_fit.host is None
    assert here.memory_fit.sentence == f"{alone.memory_fit.sentence} {host.sentence}"
    assert host.sentence.startswith("draft on the CPU needs ") and "on the GPU" not in host.sentence
    machine.host = host.needed - host.kv // 2
    some = machine.plan(draft_device="cpu")
    assert 0 < some.target.context < here.target.context
    machine.host = host.weights
    with pytest.raises(OutOfMemory, match=r"draft on the CPU needs .* are free"):
        machine.plan(draft_device="cpu")
    each, own = here.memory_fit.request, host.request
    machine.host, machine.gpu = 10**10, here.memory_fit.needed + 2 * each
    assert machine.plan(draft_device="cpu", parallel=8).parallel == 3
    machine.host = host.needed + own
    assert machine.plan(draft_device="cpu", parallel=8).parallel == 2


def test_without_a_gpu_nothing_is_placed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered for a model must not keep it from loading where the GPU is gone."""
    with pytest.raises(InvalidRequest, match=r"draft_device is 'x'; it must be one of") as told:
        machine.plan(draft_device="x")
    assert told.value.field == "draft_device"
    monkeypatch.setattr(devices, "choose", lambda *_, **__: Device(CPU))
    for name, value in {"draft_device": "cuda", "gpu_layers": 1, "kv_cache_dtype": "fp8"}.items():
        with pytest.raises(InvalidRequest, match=rf"^{name} is .*, but .* the CPU\. ") as told:
            machine.plan(**{name: value})
        assert told.value.field == name
        plan = machine.plan(**{name: value}, remembered=frozenset({name}))
        assert plan.memory_fit.host is plan.target.host is None
        assert f"A remembered setting was left out: {told.value}" in plan.notes
    assert not any("left out" in note for note in machine.plan(draft_device="cpu").notes)


def test_a_remembered_gpu_that_is_gone_is_left_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The app did not start with its model once the GPU was gone."""
    gone = devices.Facts(built_with_cuda=False, has_driver=False)
    monkeypatch.setattr(
        devices,
        "choose",
        lambda wanted, **_: Device(CPU) if wanted == "auto" else devices.decide(wanted, gone),
    )
    with pytest.raises(InvalidRequest, match="device is 'cuda', which is not available"):
        machine.plan(device="cuda")
    plan = machine.plan(device="cuda", gpu_layers=1, remembered=frozenset({"device", "gpu_layers"}))
    assert not plan.device.is_gpu
    assert {note.partition(": ")[2].split()[0] for note in plan.notes[:2]} == {
        "device",
        "gpu_layers",
    }


def test_the_step_is_compiled_first_where_a_draft_needs_it_beside_a_gpu(
    machine: Machine, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pair cannot be exchanged later: the GPU may have no room for two."""
    assert not machine.plan(draft_device="cpu").lacks_step
    monkeypatch.setattr(build, "ready", lambda *_: None)
    plan = machine.plan(draft_device="cpu")
    assert plan.lacks_step and not plan.waits_for_native
    assert not machine.plan().lacks_step and not machine.plan(draft=False).lacks_step


def test_layers_that_do_not_fit_on_the_gpu_are_left_on_the_cpu(
    machine: Machine, library: Library
) -> None:
    whole = machine.plan(draft=False)
    assert whole.target.host is None
    machine.gpu = whole.memory_fit.needed - whole.memory_fit.kv // 2
    assert machine.plan(draft=False).target.host is None  # it has more than 4,096 tokens
    machine.gpu -= CAPTURED
    split = machine.plan(draft=False, context=16384)
    host = split.target.host
    assert host is not None and split.target.host_layers == 2 and split.target.context == 16384
    assert (split.target.backend, host.backend) == (Backend.CUDA, Backend.NATIVE)
    assert host.quantization == "bf16" and host.library is not None
    (note, *_) = split.notes
    assert note.startswith(
        "Of the 3 layers of target, 1 are on the GPU and 2 on the CPU, because all do not fit on the "
        "GPU: a pass reads "
    )
    parts = split.footprint
    assert parts.keys() == {"target", "layers on the CPU"}
    assert split.memory_fit.needed <= machine.gpu and split.memory_fit.host is not None
    # The output head is the embedding, which is on both, packed and in rows on the CPU; the hidden states
    # between the parts are kept.
    table = 2 * 2 * inspect(machine.target).vocabulary * 64
    between = 16384 * 2 * 64
    assert sum(parts.values()) == pytest.approx(
        whole.footprint["target"] + table + between, abs=1000
    )


def test_a_draft_stays_on_the_gpu_for_a_target_that_is_split(
    machine: Machine, library: Library
) -> None:
    machine.gpu = machine.plan(draft=False).memory_fit.needed + 10**6 - CAPTURED
    split = machine.plan(context=16384)
    assert place_of(split) == "cuda" and split.target.host_layers == 2
    both = machine.plan(context=16384, draft_device="cpu")
    assert place_of(both) == "cpu" and both.target.host_layers == 1
    assert [note.split(":")[0] for note in both.notes[:2]] == [
        "Of the 3 layers of target, 2 are on the GPU and 1 on the CPU, because all do not fit on the GPU",
        "draft drafts on the CPU",
    ]


def test_auto_takes_fewer_bits_before_layers_are_left_on_the_cpu(
    machine: Machine, library: Library
) -> None:
    """On a GPU with kernels it did so on a CPU only."""
    needed = {
        kind: machine.plan(draft=False, quantization=kind).memory_fit.needed
        for kind in ("bf16", "int8", "nf4")
    }
    assert needed["nf4"] < needed["int8"] < needed["bf16"]
    auto: dict[str, Any] = {"draft": False, "quantization": "auto", "context": 16384}
    for kind, gpu in needed.items():
        machine.gpu = gpu
        plan = machine.plan(**auto)
        assert (plan.target.quantization, plan.target.host_layers) == (kind, 0)
        told = f"bf16 would not fit in memory, so {kind} is used."
        assert (told in plan.notes) is (kind != "bf16")
    machine.gpu = needed["nf4"] - 10**5
    split = machine.plan(**auto)
    assert split.target.quantization == "nf4" and split.target.host_layers > 0
    asked = machine.plan(**auto, gpu_layers=1)
    assert (asked.target.quantization, asked.target.host_layers) == ("bf16", 2)
    machine.gpu = 10**6
    with pytest.raises(OutOfMemory, match=r"Even nf4 would need"):
        machine.plan(**auto)


def test_as_many_layers_are_on_the_gpu_as_are_asked_for(
    machine: Machine, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wanted, left in ((1, 2), (2, 1), (3, 0), (99, 0)):
        assert machine.plan(gpu_layers=wanted).target.host_layers == left
    plan = machine.plan(gpu_layers=2, parallel=4)
    assert plan.parallel == 1 and any("layers are on the CPU" in note for note in plan.notes)
    with pytest.raises(InvalidRequest, match=r"must be 1 or more\. For none, choose the"):
        machine.plan(gpu_layers=0)
    machine.host = 10**6
    with pytest.raises(OutOfMemory, match=r"target on the CPU needs .* are free\."):
        machine.plan(gpu_layers=2)
    device = Device(torch.device("cuda"), kernels=True, native=False)
    monkeypatch.setattr(devices, "choose", lambda *_, **__: device)
    with pytest.raises(InvalidRequest, match=r"kernels cannot run it in bf16 .* Leave it") as told:
        machine.plan(gpu_layers=1)
    assert told.value.field == "gpu_layers"


def test_heads_are_left_out_before_layers(
    machine: Machine, tmp_path: Path, library: Library
) -> None:
    """They read hidden states of all layers; without them, more layers fit."""
    WRITERS["eagle3"](tmp_path / "head", inspect(machine.target))
    head = (tmp_path / "head",)
    with_head, without = machine.plan(False, heads=head), machine.plan(False)
    assert len(with_head.heads) == 1 and not any("do not draft" in each for each in with_head.notes)
    machine.gpu = without.memory_fit.needed
    left_out = machine.plan(False, heads=head, context=16384)
    assert not left_out.heads and not left_out.target.host_layers
    assert any("The heads of target do not draft: " in each for each in left_out.notes)
    assert left_out.memory_fit.needed == without.memory_fit.needed


class Gpu(SimpleNamespace):
    """What torch says of a GPU that reads so many GB/s."""

    def __init__(self, speed: float) -> None:
        super().__init__(memory_clock_rate=speed * 1e6 / 64, memory_bus_width=256)


def test_a_draft_on_the_cpu_that_can_only_lose_is_left_out_or_warned_of(
    machine: Machine, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was kept, and made every reply slower beside a mixture or a slow processor."""
    whole, alone = machine.plan(), machine.plan(draft=False)
    machine.gpu = (whole.memory_fit.needed + alone.memory_fit.needed) // 2 - whole.memory_fit.kv
    monkeypatch.setattr(placement, "_bandwidth", lambda _: 10.0)
    (unknown, *_) = machine.plan().notes
    assert unknown.endswith("; how long a token of the target's own takes is not known here.")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)
    parts = whole.footprint["target"] / whole.footprint["draft"]  # of weights, about
    for speed, pays in ((10 * parts * 0.8, True), (10 * parts * 1.3, False)):
        gpu = Gpu(speed)
        plan = machine.plan()
        assert (plan.draft is not None) is pays
        told = " ".join(plan.notes)
        assert ("draft drafts on the CPU, because" in told) is pays
        assert (
            "draft does not draft, because both models do not fit on the GPU: " in told
        ) is not pays
        assert (
            f"({speed:.0f} GB/s on the GPU), so drafting can only take longer" in told
        ) is not pays
        assert "at the measured 10.0 GB/s" in told
        if not pays:
            assert (plan.target.context, plan.footprint.keys()) == (alone_in(machine), {"target"})
        asked = machine.plan(draft_device="cpu")
        assert place_of(asked) == "cpu"
        assert ("drafting can only take longer" in asked.notes[0]) is not pays
    machine.gpu = 10**10
    assert place_of(machine.plan()) == "cuda"


def alone_in(machine: Machine) -> int:
    return machine.plan(draft=False).target.context
