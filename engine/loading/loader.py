"""Load a planned model: with a decoder of this engine, or through transformers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.trial import verdicts
from engine.backends.native import cache as native_cache
from engine.backends.native.decoder import Library, NativeDecoder, takes_file_dtype
from engine.backends.split import SplitDecoder, first_layers, later_layers
from engine.backends.torch import decoder as eager
from engine.backends.torch.decoder import TorchDecoder
from engine.errors import MALFORMED, ModelError, what_failed
from engine.kernels.cuda import kv_cache
from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.factory import kernels_on
from engine.kernels.formats import AS_STORED, FP8, Q4, QUANTISED
from engine.kernels.torch.factory import DTYPES, kernels_for
from engine.loading.planning.choices import Backend
from engine.loading.planning.model_plan import ModelPlan
from engine.loading.progress import LoadWatch
from engine.machine import devices
from engine.machine.devices import device_errors
from engine.models.architecture import Architecture
from engine.models.base import Model, ModelInfo
from engine.models.checkpoints.checkpoint import Checkpoint, not_text
from engine.models.checkpoints.config_file import refusal
from engine.models.checkpoints.gguf.header import is_blocks
from engine.models.checkpoints.stored_tensor import check_finite
from engine.models.checkpoints.tensors import FLOATS, open_tensors
from engine.models.families import FAMILIES, described
from engine.models.four_bits import in_four_bits
from engine.models.tensor_shapes import Names, tensor_shapes, unread_tensors
from engine.models.weight_loading import WeightSource
from engine.values.units import counted

IGNORED_TENSORS = (".rotary_emb.inv_freq",)
"""Early Llama checkpoints store what is computed from config.json."""


def load_planned(plan: ModelPlan, watch: LoadWatch | None = None) -> Model:
    """Load a model and report to ``watch``. Raises ModelError, DeviceLost, LoadCancelled."""
    watch = watch or LoadWatch()
    with device_errors(plan.device.torch_device):
        adapted = plan.backend is Backend.TRANSFORMERS
        model = _load_adapter(plan) if adapted else _load_own(plan, watch)
    watch.loaded(plan.checkpoint)
    return model


def _info(plan: ModelPlan, context: int) -> ModelInfo:
    checkpoint = plan.checkpoint
    return ModelInfo(
        name=checkpoint.name,
        architecture=checkpoint.architecture,
        vocabulary=checkpoint.vocabulary,
        context=context,
        parameters=checkpoint.parameters,
        quantization=plan.quantization,
        device=str(plan.device.torch_device),
        eos=frozenset(checkpoint.eos_ids),
        layers=checkpoint.layers,
        hidden=checkpoint.hidden,
        checkpoint_bytes=plan.checkpoint_mb << 20,
    )


def _load_own(plan: ModelPlan, watch: LoadWatch) -> Model:
    architecture, names = _described(plan)
    if plan.library is not None:
        return _load_native(plan, architecture, names, plan.library, watch)
    first, source = None, _weights(plan, watch)
    if plan.host is not None:
        if plan.host.library is None:
            raise ModelError(
                f"The first {plan.host_layers} layers of {plan.checkpoint.name} are left on the CPU and "
                "need the compiled kernels, which could not be built. `foretoken diagnostics` says why. "
                "Or choose fewer bits, a smaller model or the device cpu."
            )
        part = first_layers(architecture, plan.host_layers)
        first = _load_native(plan.host, part, names, plan.host.library, watch)
        architecture, names, source = later_layers(architecture, names, source, plan.host_layers)
    load = _load_cuda if plan.backend is Backend.CUDA else _load_torch
    rest = load(plan, architecture, names, source)
    return rest if first is None else SplitDecoder(first, rest)


def _described(plan: ModelPlan) -> tuple[Architecture, Names]:
    """Return architecture and tensor names by configuration and header. Raises ModelError."""
    checkpoint = plan.checkpoint
    try:
        architecture = FAMILIES[checkpoint.architecture](checkpoint, plan.context)
        names = Names.among(checkpoint.tensors)
        _check_tensors(checkpoint, architecture, names)
    except KeyError as error:
        raise ModelError(
            f"{checkpoint.path} has no tensor or setting {error}: it is incomplete, or its "
            "architecture is not the stated one. Download it again."
        ) from error
    except MALFORMED as error:
        raise ModelError(
            f"{checkpoint.config_file} cannot be used: {what_failed(error)}. {checkpoint.config_remedy}"
        ) from error
    return architecture, names


def _load_cuda(
    plan: ModelPlan, architecture: Architecture, names: Names, source: WeightSource
) -> CudaDecoder:
    info = _info(plan, plan.context)
    cache_dtype = kv_cache.FP8 if plan.kv_cache_dtype == FP8 else torch.bfloat16
    model = CudaDecoder(architecture, names, source, info, plan.quantization, cache_dtype)
    if not plan.device.cuda_graphs:
        model.without_graphs()
    return model


def _load_native(
    plan: ModelPlan, architecture: Architecture, names: Names, library: Library, watch: LoadWatch
) -> NativeDecoder:
    info = replace(_info(plan, plan.context), compiled=True)
    weights, kind = _native_weights(plan, architecture)
    source = watch.reading(plan.checkpoint, weights)
    cached = DTYPES[plan.compute]
    cache = None
    if len(architecture.layers) == plan.checkpoint.layers:  # what is stored is of the whole model
        cache = native_cache.of_model(plan.checkpoint.path, library, f"{kind} {plan.rounded}")
    decoder = NativeDecoder(
        architecture, names, source, info, library, kind, cached, plan.rounded, cache
    )
    if cache is not None:
        cache.save()
    return decoder


def _native_weights(plan: ModelPlan, architecture: Architecture) -> tuple[WeightSource, str]:
    """Return a source of vectors in float32 and matrices in the file's dtype, and the format that the
    compiled step keeps them in. It widens bf16 as it multiplies."""
    checkpoint, device = plan.checkpoint, plan.device.torch_device
    if plan.quantization == AS_STORED:
        return _stored(plan, torch.float32), "fp32"
    if plan.quantization == Q4:
        numbers = open_tensors(checkpoint, torch.float32, device, in_file_dtype=True)
        return in_four_bits(numbers, Names.among(checkpoint.tensors)), "fp32"
    whole = takes_file_dtype(architecture, plan.quantization)
    tensors = open_tensors(checkpoint, torch.float32, device, in_file_dtype=whole)
    return tensors, plan.quantization


def _stored(plan: ModelPlan, dtype: torch.dtype) -> WeightSource:
    """Return a source of vectors in ``dtype`` and of matrices as the file has them."""
    device = plan.device.torch_device
    return open_tensors(plan.checkpoint, dtype, device, in_file_dtype=True).weight


def _load_torch(
    plan: ModelPlan, architecture: Architecture, names: Names, source: WeightSource
) -> TorchDecoder:
    blocks = plan.checkpoint.block_formats
    reason = eager.SUPPORT.why_not(architecture, plan.quantization, blocks)
    if reason is not None:
        raise ModelError(
            f"{plan.checkpoint.path} cannot run here. {reason} Ignoring this would change "
            "the output. Choose another model."
        )
    dtype, device = DTYPES[plan.compute], plan.device.torch_device
    kernels, products = kernels_for(plan.quantization, dtype, device), list[BulkLinear]()
    planned = described(plan.checkpoint) or architecture  # by which verdicts are kept
    if (
        plan.device.kernels
        and dtype is torch.bfloat16
        and verdicts.why_not(planned, plan.quantization, blocks) is None
    ):
        kernels, products = kernels_on(plan.quantization, device)
    model = TorchDecoder(architecture, names, source, _info(plan, plan.context), kernels)
    model.gpu_products = products
    return model


def _weights(plan: ModelPlan, watch: LoadWatch) -> WeightSource:
    """Return the weights in the compute dtype; in the file's dtype if they are quantised here; or as they
    are stored."""
    checkpoint, dtype, device = plan.checkpoint, DTYPES[plan.compute], plan.device.torch_device
    if plan.quantization == AS_STORED:
        return watch.reading(checkpoint, _stored(plan, dtype))
    in_file_dtype = plan.quantization in QUANTISED
    tensors = open_tensors(checkpoint, dtype, device, in_file_dtype=in_file_dtype)
    return watch.reading(checkpoint, tensors)


def _check_tensors(checkpoint: Checkpoint, architecture: Architecture, names: Names) -> None:
    """Raise ModelError if configuration and weights belong to different models."""
    expected = tensor_shapes(architecture, names)
    for name, shape in expected.items():
        _, found, dtype = checkpoint.tensors[name]
        if found != shape:
            raise ModelError(
                f"In {checkpoint.path}, {name} has shape {found}; {checkpoint.config_file.name} "
                f"requires {shape}. The files belong to different models: download the model "
                "again."
            )
        if dtype not in FLOATS and not is_blocks(dtype):
            raise ModelError(
                f"In {checkpoint.path}, {name} is stored in {dtype}, which is not supported. "
                "Use the original model in bf16, fp16 or fp32; loading it in int8 or q4 saves "
                "memory."
            )
    layers = f"{names.root}layers."
    drafting = int(checkpoint.text_config.get("num_nextn_predict_layers") or 0)
    others = tuple(f"{layers}{checkpoint.layers + each}." for each in range(drafting))
    held = [
        name
        for name in checkpoint.tensors
        if name.startswith(layers) and not name.startswith(others)
    ]
    count = len({name.removeprefix(layers).split(".")[0] for name in held})
    if count != checkpoint.layers:
        raise ModelError(
            f"{checkpoint.path} has {count} layers; {checkpoint.config_file.name} says "
            f"{checkpoint.layers}. The files belong to different models: download the model "
            "again."
        )
    known = expected.keys() | unread_tensors(architecture, names)
    unread = sorted(
        name for name in held if name not in known and not name.endswith(IGNORED_TENSORS)
    )
    if unread:
        raise ModelError(
            f"{checkpoint.path} has {counted(len(unread), 'tensor')} unknown to "
            f"{checkpoint.architecture}, such as {unread[0]}. Ignoring them would change "
            "the output. Use weights and configuration that were published together."
        )


_TEXT_ALONE = ("gemma3n",)
"""Model types whose text part is loaded alone, because the rest needs packages that are not installed."""


def _load_adapter(plan: ModelPlan) -> Model:
    from transformers import AutoConfig, AutoModelForCausalLM

    from engine.backends.transformers_adapter import WINDOW, TransformersModel

    checkpoint = plan.checkpoint
    if not checkpoint.writes_text:
        raise ModelError(not_text(checkpoint.path, checkpoint.architecture))
    if checkpoint.quantised:
        raise ModelError(
            f"{checkpoint.path} is quantised by bitsandbytes, which is not supported for "
            f"{checkpoint.architecture}. Use the original model in bf16."
        )
    try:
        config: Any = None
        if checkpoint.config.get("model_type") in _TEXT_ALONE:
            config = AutoConfig.from_pretrained(checkpoint.path, local_files_only=True)
            config = config.get_text_config()
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            checkpoint.path,
            config=config,
            dtype=DTYPES[plan.quantization],
            trust_remote_code=False,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    except Exception as error:  # transformers raises what its parsers and validators raise
        raise ModelError(
            f"transformers could not load {checkpoint.path} ({checkpoint.architecture}): "
            f"{what_failed(error)}. Use the files that were published together, or another model."
        ) from error
    model, found = loaded
    if missing := found["missing_keys"]:  # transformers would make up random ones
        raise ModelError(
            f"{checkpoint.path} lacks {counted(len(missing), 'tensor')} that transformers' "
            f"{type(model).__name__} needs, such as {min(missing)}. Download the model "
            "again, or choose another one."
        )
    if getattr(model, "_is_stateful", False):
        raise ModelError(refusal(checkpoint.architecture))
    for name, weight in model.named_parameters():
        check_finite(checkpoint.path, name, weight)
    context = plan.context - plan.context % WINDOW  # windows are whole
    adapted = TransformersModel(model, _info(plan, context))
    try:  # on the processor, where an error leaves no device behind that is lost
        rows = min(WINDOW + 1, context)  # a window behind another is masked, which the first is not
        adapted.forward([0] * rows, adapted.new_state(2 * WINDOW), last=1)
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        if devices.ran_out(error):
            raise
        raise ModelError(
            f"transformers loads {checkpoint.path} ({checkpoint.architecture}) but cannot "
            f"run it: {what_failed(error)}. Use the config.json that was published with the weights."
        ) from error
    model.to(plan.device.torch_device)
    return adapted
