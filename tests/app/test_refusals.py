"""A model that cannot be loaded is refused in the same words by page, API and command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from app.loading import LoadState
from app.runtime import Runtime, create_runtime
from app.server.errors import ApiError
from app.server.models import Models
from engine.api import LoadRequest
from engine.errors import ForetokenError, ModelError
from engine.machine.devices import Device
from tests.app.cli.conftest import Foretoken, foretoken
from tests.support.folders import write_model

__all__ = ["foretoken"]  # a fixture


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with contextlib.closing(create_runtime(tmp_path, LoadRequest(target="pip"))) as made:
        yield made


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("scheme", ("'gptq'", "Use the original model", "with int8 or q4")),
        ("machine", ("quantization is 'int8'", "do not run on this GPU", "Choose bf16 or fp32")),
        ("cache", ("kv_cache_dtype is 'fp8'", "model runs on the CPU", "Choose auto")),
        ("memory", ("needs 300 MB", "1 kB are free", "nf4 would need 300 MB", "a smaller model")),
    ],
)
def test_the_words_are_the_same_everywhere(
    case: str,
    words: tuple[str, ...],
    runtime: Runtime,
    foretoken: Foretoken,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheme = {"quantization_config": {"quant_method": "gptq"}} if case == "scheme" else {}
    folder = str(write_model(tmp_path / "model", config=scheme))
    dtype = "int8" if case == "machine" else "fp32"
    if case == "machine":
        place = Device(torch.device("cuda"), kernels=False)
        monkeypatch.setattr("engine.machine.devices.choose", lambda *_, **__: place)
    monkeypatch.setattr("engine.machine.memory.free_bytes", lambda: 1000)
    monkeypatch.setattr("engine.local.pair.load_planned", lambda _: pytest.fail("it was loaded"))

    cached = "fp8" if case == "cache" else "auto"
    device = "cuda" if case == "machine" else "auto"  # by auto the CPU would be taken
    request = LoadRequest(target=folder, quantization=dtype, kv_cache_dtype=cached, device=device)
    with pytest.raises(ForetokenError) as told:
        runtime.engine.load(request)
    message = str(told.value)
    assert all(word in message for word in words), message

    if case == "scheme":  # a folder that is no use is told before anything is begun
        with pytest.raises(ModelError) as at_once:
            runtime.loader.start(request)
        assert str(at_once.value) == message
    else:
        runtime.loader.start(request).join(timeout=60)
        status = runtime.loader.status
        assert (status.state, status.message) == (LoadState.FAILED, message)
        said_by_the_api(runtime, message)

    held = ("--quantization", dtype, "--kv-cache-dtype", cached, "--device", device)
    result = foretoken("chat", "Hello", "--pair", folder, *held)
    assert result.status == 2
    if case in ("machine", "cache"):  # the command line names its option
        field, _, rest = message.partition(" is ")
        message = f"--{field.replace('_', '-')} is {rest}"
    assert result.err.strip().endswith(message)
    assert "Traceback" not in result.err


def said_by_the_api(runtime: Runtime, message: str) -> None:
    with pytest.raises(ApiError) as answered:
        Models(runtime).find(None)
    assert (answered.value.status, answered.value.message) == (
        503,
        f"No model is loaded. {message}",
    )
