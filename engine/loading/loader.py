"""A planned model to a ``Model``: an own decoder where one can, the adapter otherwise."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch

from engine.backends.cuda import decoder as cuda
from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.native import decoder as native_step
from engine.backends.native.decoder import NativeDecoder, is_row_independent, keeps_stored
from engine.backends.torch import decoder as interpreted
from engine.backends.torch.decoder import Decoder
from engine.errors import InvalidRequest, ModelError
from engine.kernels.cpu import int8
from engine.kernels.cpu.factory import DTYPES, kernels_for
from engine.kernels.cuda import kv_cache
from engine.kernels.formats import QUANTISED, UNQUANTISED
from engine.kernels.native import library as native
from engine.kernels.native.library import Library
from engine.machine import devices
from engine.machine.devices import Place
from engine.machine.failures import device_errors
from engine.models.architecture import Architecture
from engine.models.base import Model, ModelInfo
from engine.models.checkpoints.checkpoint import (
    AUTO,
    FP8,
    KV_CACHE_DTYPES,
    QUANTIZATIONS,
    Checkpoint,
    inspect,
)
from engine.models.checkpoints.tensors import FLOATS, Tensors, check_finite
from engine.models.families import FAMILIES
from engine.models.weights import Names, tensor_shapes

log = logging.getLogger(__name__)

IGNORED_TENSORS = (".rotary_emb.inv_freq",)
"""Early Llama checkpoints store what is computed from config.json."""
SMALL = 100_000_000
"""Below this many parameters fp32 is as fast as bf16 where steps are interpreted: they wait for calls."""


class Backend(StrEnum):
    """What runs a model's step: a package of ``engine.backends``."""

    TORCH = "torch"
    NATIVE = "native"
    CUDA = "cuda"
    TRANSFORMERS = "transformers"


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """How one model is loaded; whoever loads it decides nothing any more, but for one measurement:
    where a trial finds rows of the native step dependent on each other, torch takes its place.

    ``dtype`` is what weights are held in: fp32, bf16, int8 or nf4. ``compute`` is what is computed in
    between products: fp32 or bf16. ``kv_cache_dtype``: auto, which is what is computed in, or fp8.
    ``context``: tokens for which memory is taken.
    """

    checkpoint: Checkpoint
    place: Place
    backend: Backend
    dtype: str
    compute: str
    kv_cache_dtype: str
    context: int

    @property
    def cached(self) -> str:
        """What the cache is kept in, auto resolved: fp32, bf16 or fp8."""
        return FP8 if self.kv_cache_dtype == FP8 else self.compute


def plan_model(
    checkpoint: Checkpoint,
    place: Place,
    dtype: str = AUTO,
    *,
    context: int | None = None,
    kv_cache_dtype: str = AUTO,
) -> ModelPlan:
    """The plan for a model in ``place``. ``dtype``: auto, fp32, bf16, int8 or nf4; ``context`` bounds
    the model's own. Raises InvalidRequest for what this model or place lacks."""
    kind = choose_dtype(checkpoint, dtype, place)
    return ModelPlan(
        checkpoint=checkpoint,
        place=place,
        backend=choose_backend(checkpoint, kind, place),
        dtype=kind,
        compute=compute_dtype(checkpoint, kind, place),
        kv_cache_dtype=check_kv_cache(checkpoint, kind, kv_cache_dtype, place),
        context=min(checkpoint.context, context or checkpoint.context),
    )


def load_planned(plan: ModelPlan) -> Model:
    """Loads a model. Raises ModelError, DeviceLost."""
    folder = plan.checkpoint.folder
    try:
        with device_errors(plan.place.device):
            if plan.backend is Backend.TRANSFORMERS:
                return _load_adapter(plan)
            return _load_own(plan)
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


def load_model(
    folder: Path,
    *,
    dtype: str = AUTO,
    context: int | None = None,
    device: str = AUTO,
    kv_cache_dtype: str = AUTO,
    native: bool = True,
) -> Model:
    """Loads the model in ``folder`` alone, as training and benches do. Raises as ``inspect``,
    ``plan_model``, ``devices.choose`` and ``load_planned``, whose arguments these are."""
    place = devices.choose(device, native=native)
    checkpoint = inspect(folder)
    return load_planned(
        plan_model(checkpoint, place, dtype, context=context, kv_cache_dtype=kv_cache_dtype)
    )


def choose_dtype(checkpoint: Checkpoint, dtype: str, place: Place) -> str:
    """Resolves ``auto`` to what suits model and machine: as stored in 4 bits, else unquantised.

    Raises InvalidRequest for an unknown one, and for one that this model or machine lacks.
    """
    if dtype not in QUANTIZATIONS:
        raise InvalidRequest(
            "quantization",
            f"quantization is {dtype!r}; it must be one of {', '.join(QUANTIZATIONS)}.",
        )
    if dtype in QUANTISED:
        reason = why_not_quantised(checkpoint, place)
        if reason is not None:
            raise InvalidRequest("quantization", f"quantization is {dtype!r}, but {reason}")
        return dtype
    if dtype in UNQUANTISED:
        return dtype
    if checkpoint.quantised and why_not_quantised(checkpoint, place) is None:
        return "nf4"
    return _unquantised(checkpoint, place)


def choose_backend(checkpoint: Checkpoint, kind: str, place: Place) -> Backend:
    """What runs the model, its weights in ``kind``: the quickest that can, of what is built by now."""
    if checkpoint.architecture not in FAMILIES:
        return Backend.TRANSFORMERS
    architecture = _architecture(checkpoint)
    if architecture is None:
        return Backend.TORCH  # nothing will: loading it says what is wrong
    if place.kernels and cuda.why_not(architecture, kind) is None:
        return Backend.CUDA
    return Backend.NATIVE if _compiled(checkpoint, kind, place) else Backend.TORCH


def compute_dtype(checkpoint: Checkpoint, kind: str, place: Place) -> str:
    """What is computed in, and cached, between the products of ``kind``: fp32 or bf16."""
    return kind if kind in UNQUANTISED else _interpreted(checkpoint, place)


def draft_dtype(checkpoint: Checkpoint, kind: str, place: Place) -> str:
    """What a target in ``kind`` has its draft in: the same, or unquantised where that cannot be.

    Compiled, a draft in int8 takes half the time, and on a GPU too, where a weight's bytes are what
    takes time. It only proposes, so that nobody needs to be told.
    """
    if kind != "int8" and _compiled(checkpoint, "int8", place):
        return "int8"
    if kind == "bf16" and place.kernels and why_not_quantised(checkpoint, place) is None:
        return "int8"
    if kind in QUANTISED and why_not_quantised(checkpoint, place) is not None:
        return _unquantised(checkpoint, place)
    return kind


def quantisation_note(kind: str, checkpoint: Checkpoint, place: Place) -> str | None:
    """What this machine makes of ``kind``, where that is worth telling people."""
    if place.device.type == "cuda":
        return _gpu_note(kind, checkpoint, place)
    if kind == "nf4" and not _compiled(checkpoint, kind, place):
        return (
            "There is no NF4 kernel for this model here (it needs a C++ compiler): weights are widened "
            "as they are used. int8 is faster."
        )
    if kind != "int8":
        return None
    levels = int8.exact_levels(checkpoint.hidden)
    if levels is None:
        return "There is no exact int8 kernel for this processor: int8 is slow here. Choose bf16 or fp32."
    if levels < int8.ACTIVATION_LEVELS[0]:
        return (
            "This processor lacks VNNI, so activations have 7 bits in place of 8: sums stay exact, "
            "rounding is coarser."
        )
    return None


def _gpu_note(kind: str, checkpoint: Checkpoint, place: Place) -> str | None:
    """Why a GPU that runs the kernels does not run this model through them."""
    if not place.kernels or checkpoint.architecture not in FAMILIES:
        return None
    reason = _why_no_kernels(checkpoint, kind)
    return (
        reason and f"This model runs as torch's own operations, not through the kernels: {reason}"
    )


def why_not_quantised(checkpoint: Checkpoint, place: Place) -> str | None:
    """Why this model cannot run in int8 or nf4 here, with the remedy; None when it can."""
    if checkpoint.architecture not in FAMILIES:
        return (
            f"{checkpoint.architecture} runs through transformers, whose products are not quantised "
            "here. Choose bf16 or fp32."
        )
    if place.device.type == "cpu":
        return None
    remedy = "Choose bf16 or fp32, or the device cpu."
    if not place.kernels:
        return f"the kernels for it do not run on this GPU. {remedy}"
    reason = _why_no_kernels(checkpoint, QUANTISED[0])
    return reason and f"the kernels for it cannot run this model. {reason} {remedy}"


def check_kv_cache(checkpoint: Checkpoint, kind: str, wanted: str, place: Place) -> str:
    """``wanted`` if the model, in ``kind``, can have its KV cache so. Raises InvalidRequest."""
    if wanted not in KV_CACHE_DTYPES:
        raise InvalidRequest(
            "kv_cache_dtype",
            f"kv_cache_dtype is {wanted!r}; it must be one of {', '.join(KV_CACHE_DTYPES)}.",
        )
    reason = why_no_fp8_cache(checkpoint, kind, place) if wanted == FP8 else None
    if reason is not None:
        raise InvalidRequest("kv_cache_dtype", f"kv_cache_dtype is {wanted!r}, but {reason}")
    return wanted


def why_no_fp8_cache(checkpoint: Checkpoint, kind: str, place: Place) -> str | None:
    """Why the model, in ``kind``, cannot keep its KV cache in fp8 here; None where it can."""
    remedy = "Choose auto, which keeps it as the model computes."
    if not place.kernels:
        where = (
            "models run on the CPU" if place.device.type == "cpu" else "they do not run on this GPU"
        )
        return f"only the kernels for CUDA read such a cache, and here {where}. {remedy}"
    if checkpoint.architecture not in FAMILIES:
        return (
            f"{checkpoint.architecture} runs through transformers, whose cache is not narrowed here. "
            f"{remedy}"
        )
    if not place.fp8:
        return f"this GPU converts no fp8; compute capability 8.9 or newer does. {remedy}"
    if kind == "fp32":
        return (
            f"only the kernels read such a cache, and they have no fp32. Choose bf16, or: {remedy}"
        )
    reason = _why_no_kernels(checkpoint, kind)
    return reason and f"the kernels that read such a cache cannot run this model. {reason} {remedy}"


def packs(checkpoint: Checkpoint, place: Place) -> bool:
    """Whether products keep their weights in a layout of their own: the own decoder's do on a CPU."""
    return place.device.type == "cpu" and checkpoint.architecture in FAMILIES


def quantisations(checkpoint: Checkpoint, place: Place) -> tuple[str, ...]:
    """What this model can be shrunk to on this machine, from wide to narrow."""
    return ("bf16", *QUANTISED) if why_not_quantised(checkpoint, place) is None else ("bf16",)


def _unquantised(checkpoint: Checkpoint, place: Place) -> str:
    """The faster of fp32 and bf16 here."""
    return "bf16" if _compiled_in_bf16(checkpoint, place) else _interpreted(checkpoint, place)


def _interpreted(checkpoint: Checkpoint, place: Place) -> str:
    """The faster of fp32 and bf16 where no step is compiled for the processor."""
    if place.device.type == "cuda":
        return "bf16" if place.bf16 else "fp32"
    quick = checkpoint.parameters > SMALL and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return "bf16" if quick else "fp32"


def _compiled_in_bf16(checkpoint: Checkpoint, place: Place) -> bool:
    """Whether the weights are stored in bf16, and the compiled step multiplies twice as many of such."""
    stored = {kind for _, _, kind in checkpoint.tensors.values()}
    library = _library(place)
    pairs = library is not None and library.kinds["bf16"] is native.Kind.PAIRS
    return pairs and stored == {"BF16"} and _compiled(checkpoint, "bf16", place)


def _compiled(checkpoint: Checkpoint, kind: str, place: Place) -> bool:
    """Whether the compiled step would run the model in ``kind``."""
    library = _library(place)
    architecture = None if library is None else _architecture(checkpoint)
    if library is None or architecture is None:
        return False
    return native_step.why_not(architecture, kind, library) is None


def _library(place: Place) -> Library | None:
    """The compiled step, where it is built and may be used."""
    return native.ready() if place.native and place.device.type == "cpu" else None


def _why_no_kernels(checkpoint: Checkpoint, kind: str) -> str | None:
    """Why Triton's kernels cannot run one of the families' models in ``kind``; None where they can."""
    architecture = _architecture(checkpoint)
    return None if architecture is None else cuda.why_not(architecture, kind)


def _architecture(checkpoint: Checkpoint) -> Architecture | None:
    """None where no family has it, or its settings are no use."""
    if checkpoint.architecture not in FAMILIES:
        return None
    try:
        return FAMILIES[checkpoint.architecture](checkpoint, checkpoint.context)
    except (ModelError, AttributeError, KeyError, TypeError, ValueError):
        return None  # loading it will say what is wrong


def _info(plan: ModelPlan, context: int) -> ModelInfo:
    checkpoint = plan.checkpoint
    return ModelInfo(
        name=checkpoint.folder.name,
        architecture=checkpoint.architecture,
        vocabulary=checkpoint.vocabulary,
        context=context,
        parameters=checkpoint.parameters,
        dtype=plan.dtype,
        device=str(plan.place.device),
        eos=frozenset(checkpoint.eos_ids),
        layers=checkpoint.layers,
        hidden=checkpoint.hidden,
    )


def _load_own(plan: ModelPlan) -> Model:
    checkpoint = plan.checkpoint
    architecture = FAMILIES[checkpoint.architecture](checkpoint, plan.context)
    names = Names.among(checkpoint.tensors)
    _check_tensors(checkpoint, architecture, names)
    if plan.backend is Backend.CUDA:
        return _load_cuda(plan, architecture, names)
    if plan.backend is Backend.NATIVE:
        model = _load_native(plan, architecture, names)
        if model is not None:
            return model
    return _load_torch(plan, architecture, names)


def _load_cuda(plan: ModelPlan, architecture: Architecture, names: Names) -> Model:
    info = _info(plan, plan.context)
    kept = kv_cache.FP8 if plan.kv_cache_dtype == FP8 else torch.bfloat16
    return CudaDecoder(architecture, names, _tensors(plan), info, plan.dtype, kept)


def _load_native(plan: ModelPlan, architecture: Architecture, names: Names) -> Model | None:
    """None, and a warning in the log, where the compiled step may not be used after all."""
    library = native.ready()
    if library is None:
        log.warning("The compiled step was there when this load was planned. It is gone.")
        return None
    # Vectors in float32, matrices as they are stored: the step widens bf16 as it multiplies.
    stored = keeps_stored(architecture, plan.dtype)
    tensors = Tensors(plan.checkpoint, torch.float32, plan.place.device, as_stored=stored)
    info, cached = _info(plan, plan.context), DTYPES[plan.compute]
    model = NativeDecoder(architecture, names, tensors, info, library, plan.dtype, cached)
    if is_row_independent(model):
        return model
    log.warning(
        "The compiled step gives a token other bits when others stand beside it. It is not used."
    )
    return None


def _load_torch(plan: ModelPlan, architecture: Architecture, names: Names) -> Model:
    reason = interpreted.SUPPORT.why_not(architecture, plan.dtype)
    if reason is not None:
        raise ModelError(
            f"{plan.checkpoint.folder} cannot run here. {reason} Left out, it would change what the "
            "model says. Use a model without it."
        )
    kernels = kernels_for(plan.dtype, DTYPES[plan.compute])
    return Decoder(architecture, names, _tensors(plan), _info(plan, plan.context), kernels)


def _tensors(plan: ModelPlan) -> Tensors:
    """The weights in what is computed in; as they are stored where they are quantised here."""
    return Tensors(
        plan.checkpoint,
        DTYPES[plan.compute],
        plan.place.device,
        as_stored=plan.dtype in QUANTISED,
    )


def _check_tensors(checkpoint: Checkpoint, architecture: Architecture, names: Names) -> None:
    """Raises ModelError where config.json and the weights tell of different models."""
    expected = tensor_shapes(architecture, names)
    for name, shape in expected.items():
        _, found, stored = checkpoint.tensors[name]
        if found != shape:
            raise ModelError(
                f"In {checkpoint.folder}, {name} has the shape {found}; by config.json it should have "
                f"{shape}. The two belong to different models: download the model again."
            )
        if stored not in FLOATS:
            raise ModelError(
                f"In {checkpoint.folder}, {name} is stored in {stored}, which is not read here. Use the "
                "original model in bf16, fp16 or fp32; --quantization int8 or nf4 shrinks it on loading."
            )
    layers = f"{names.root}layers."
    held = [name for name in checkpoint.tensors if name.startswith(layers)]
    count = len({name.removeprefix(layers).split(".")[0] for name in held})
    if count != checkpoint.layers:
        raise ModelError(
            f"{checkpoint.folder} holds {count} layers, config.json says {checkpoint.layers}. "
            "The two belong to different models: download the model again."
        )
    unread = sorted(
        name for name in held if name not in expected and not name.endswith(IGNORED_TENSORS)
    )
    if unread:
        raise ModelError(
            f"{checkpoint.folder} holds {len(unread)} tensors that no {checkpoint.architecture} has, "
            f"such as {unread[0]}. Left out, they would change what the model says. Use weights and "
            "a config.json that were published together."
        )


def _load_adapter(plan: ModelPlan) -> Model:
    from transformers import AutoModelForCausalLM

    from engine.backends.transformers_adapter import WINDOW, TransformersModel

    checkpoint = plan.checkpoint
    if checkpoint.quantised:
        raise ModelError(
            f"{checkpoint.folder} is quantised by bitsandbytes, and {checkpoint.architecture} runs "
            "through transformers, where that is not read. Use the original model in bf16."
        )
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            checkpoint.folder,
            dtype=DTYPES[plan.dtype],
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
    for name, weight in model.named_parameters():
        check_finite(checkpoint.folder, name, weight)
    context = plan.context - plan.context % WINDOW  # windows are whole
    model.to(plan.place.device)
    return TransformersModel(model, _info(plan, context))
