"""A folder on disk to a ``Model``: the own decoder where it can, the adapter otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from engine.checkpoint import Checkpoint, inspect
from engine.errors import InvalidRequest, ModelError
from engine.models.architecture import Architecture
from engine.models.base import Model, ModelInfo
from engine.models.decoder import Decoder
from engine.models.families import FAMILIES
from engine.models.weights import Names, tensor_shapes

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
IGNORED_TENSORS = (".rotary_emb.inv_freq",)
"""Early Llama checkpoints store what is computed from config.json."""
SMALL = 100_000_000
"""Below this many parameters fp32 is as fast as bf16 on a CPU: small steps wait for calls, not bytes."""


def load_model(folder: Path, *, dtype: str = "auto", context: int | None = None) -> Model:
    """Loads the model in ``folder``. Raises ModelError with cause and remedy.

    ``dtype``: auto, fp32 or bf16. ``context`` bounds the model's own, for which memory is taken.
    """
    checkpoint = inspect(folder)
    kind = choose_dtype(checkpoint, dtype)
    device = choose_device()
    limit = context or checkpoint.context
    try:
        own = checkpoint.architecture in FAMILIES
        return (_load_own if own else _load_adapter)(checkpoint, kind, device, limit)
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelError(
            f"{folder / 'config.json'} holds a value that cannot be used: {error}. Correct it, or "
            "use the config.json that was published with the weights."
        ) from error
    except KeyError as error:
        raise ModelError(
            f"{folder} has no tensor or setting {error}: the checkpoint is incomplete or of another "
            "architecture than its config.json says. Download it again."
        ) from error


def choose_device() -> torch.device:
    """CUDA where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def choose_dtype(checkpoint: Checkpoint, dtype: str) -> str:
    """Resolves ``auto`` to what is fastest here. Raises InvalidRequest for an unknown one."""
    if dtype in DTYPES:
        return dtype
    if dtype != "auto":
        known = ", ".join(("auto", *DTYPES))
        raise InvalidRequest(
            "quantization", f"quantization is {dtype!r}; it must be one of {known}."
        )
    if choose_device().type == "cuda":
        return "bf16"
    quick = checkpoint.parameters > SMALL and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return "bf16" if quick else "fp32"


def _info(checkpoint: Checkpoint, dtype: str, device: torch.device, context: int) -> ModelInfo:
    return ModelInfo(
        name=checkpoint.folder.name,
        architecture=checkpoint.architecture,
        vocabulary=checkpoint.vocabulary,
        context=context,
        parameters=checkpoint.parameters,
        dtype=dtype,
        device=str(device),
        eos=frozenset(checkpoint.eos_ids),
    )


def _load_own(checkpoint: Checkpoint, dtype: str, device: torch.device, limit: int) -> Model:
    info = _info(checkpoint, dtype, device, min(checkpoint.context, limit))
    architecture = FAMILIES[checkpoint.architecture](checkpoint, info.context)
    names = Names.among(checkpoint.tensors)
    _check_tensors(checkpoint, architecture, names)
    with _Tensors(checkpoint, DTYPES[dtype], device) as tensor:
        return Decoder(architecture, names, tensor, info)


def _check_tensors(checkpoint: Checkpoint, architecture: Architecture, names: Names) -> None:
    """Raises ModelError where config.json and the weights tell of different models."""
    expected = tensor_shapes(architecture, names)
    for name, shape in expected.items():
        found = checkpoint.tensors[name].shape
        if found != shape:
            raise ModelError(
                f"In {checkpoint.folder}, {name} has the shape {found}; by config.json it should have "
                f"{shape}. The two belong to different models: download the model again."
            )
    layers = f"{names.root}layers."
    stored = [name for name in checkpoint.tensors if name.startswith(layers)]
    count = len({name.removeprefix(layers).split(".")[0] for name in stored})
    if count != checkpoint.layers:
        raise ModelError(
            f"{checkpoint.folder} holds {count} layers, config.json says {checkpoint.layers}. "
            "The two belong to different models: download the model again."
        )
    unread = sorted(
        name for name in stored if name not in expected and not name.endswith(IGNORED_TENSORS)
    )
    if unread:
        raise ModelError(
            f"{checkpoint.folder} holds {len(unread)} tensors that no {checkpoint.architecture} has, "
            f"such as {unread[0]}. Left out, they would change what the model says. Use weights and "
            "a config.json that were published together."
        )


class _Tensors:
    """Fetches tensors by name from all shards, each file opened once."""

    def __init__(self, checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> None:
        self.places = checkpoint.tensors
        self.dtype, self.device = dtype, device
        self.files: dict[Path, Any] = {}

    def __enter__(self) -> Callable[[str], Tensor]:
        return self.fetch

    def __exit__(self, *_: object) -> None:
        self.files.clear()

    def fetch(self, name: str) -> Tensor:
        file = self.places[name].file
        if file not in self.files:
            self.files[file] = safe_open(file, framework="pt")
        tensor: Tensor = self.files[file].get_tensor(name)
        return tensor.to(self.device, self.dtype)


def _load_adapter(checkpoint: Checkpoint, dtype: str, device: torch.device, limit: int) -> Model:
    from transformers import AutoModelForCausalLM

    from engine.models.adapter import WINDOW, TransformersModel

    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            checkpoint.folder,
            dtype=DTYPES[dtype],
            trust_remote_code=False,
            use_safetensors=True,
            local_files_only=True,
        )
    except Exception as error:  # transformers raises what its parsers and validators raise
        raise ModelError(
            f"transformers could not load {checkpoint.folder} ({checkpoint.architecture}): {error}"
        ) from error
    if getattr(model, "_is_stateful", False):
        raise ModelError(
            f"{checkpoint.architecture} keeps a recurrent state that cannot be rolled back to drop "
            "rejected tokens. Choose a model whose memory is a KV cache."
        )
    context = min(checkpoint.context, limit)
    context -= context % WINDOW  # windows are whole
    model.to(device)
    return TransformersModel(model, _info(checkpoint, dtype, device, context))
