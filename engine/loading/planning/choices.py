"""Choose a model's format, backend and KV cache for a device, and say why another is not possible."""

from __future__ import annotations

from enum import StrEnum

import torch

from engine.backends.cuda import decoder as cuda
from engine.backends.cuda.trial import verdicts
from engine.backends.native import build
from engine.backends.native import support as native_step
from engine.backends.native.decoder import Library
from engine.kernels.formats import AS_STORED, AUTO, FP8, IN_BLOCKS, Q4, QUANTISED, UNQUANTISED, int8
from engine.kernels.formats.block_formats import DRAFT_FORMAT
from engine.kernels.torch import int8 as int8_linear
from engine.loading.planning.fit import SMALL
from engine.machine import compilers, processor
from engine.machine.devices import Device
from engine.models.architecture import Architecture
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families import FAMILIES, described
from engine.models.four_bits import bytes_in_four_bits, formats_in_four_bits
from engine.values import require
from engine.values.memory import WIDTHS

PAIRS = "avx512_bf16"
"""The instruction for which the compiled step keeps bf16 weights in pairs."""
_LEAST_INT8_LAYER = 5_000_000
"""Weights of a layer that a GPU computes sooner in int8 than in bf16. It reads a byte a weight less, and
takes two launches more (see docs/log/cuda.md)."""


class Backend(StrEnum):
    """The executor of a model: a package of ``engine.backends``."""

    TORCH = "torch"
    NATIVE = "native"
    CUDA = "cuda"
    TRANSFORMERS = "transformers"


def choose_quantization(checkpoint: Checkpoint, quantization: str, device: Device) -> str:
    """Return ``quantization``, ``auto`` resolved: stored if the files are quantised, else unquantised.

    Raises InvalidRequest for one that this model or machine does not have.
    """
    if quantization in (*QUANTISED, Q4):
        why_not = why_not_q4 if quantization == Q4 else why_not_quantised
        reason = why_not(checkpoint, device)
        require(reason is None, "quantization", f"is {quantization!r}, but {reason}")
        return quantization
    if quantization in UNQUANTISED:
        return quantization
    reason = why_not_stored(checkpoint, device)
    if reason is None:
        return AS_STORED
    require(quantization != AS_STORED, "quantization", f"is {quantization!r}, but {reason}")
    quantised = why_not_quantised(checkpoint, device) is None
    if checkpoint.quantised and quantised:
        return "nf4"
    if checkpoint.block_formats and quantised:
        return "int8"
    return _unquantised(checkpoint, device)


def choose_backend(checkpoint: Checkpoint, quantization: str, device: Device) -> Backend:
    """Return the fastest backend that can run the model with this quantization and is built."""
    if checkpoint.architecture not in FAMILIES:
        return Backend.TRANSFORMERS
    architecture = described(checkpoint)
    if architecture is None:
        return Backend.TORCH  # nothing will: loading it says what is wrong
    if device.kernels and _why_no_kernels(checkpoint, quantization) is None:
        return Backend.CUDA
    return Backend.NATIVE if _compiled(checkpoint, quantization, device) else Backend.TORCH


def compiled_step(device: Device) -> Library | None:
    """Return the compiled step if it is built and may be used."""
    return build.ready(device.threads) if _may_be_compiled(device) else None


def could_be_compiled(checkpoint: Checkpoint, quantization: str, device: Device) -> bool:
    """Return whether the compiled step, built or not yet, would run the model with this quantization."""
    architecture = described(checkpoint) if _may_be_compiled(device) else None
    return (
        architecture is not None
        and _why_not_compiled(checkpoint, architecture, quantization, device) is None
    )


def compute_dtype(checkpoint: Checkpoint, quantization: str, device: Device) -> str:
    """Return the dtype of activations and KV cache with weights in ``quantization``: fp32 or bf16."""
    return quantization if quantization in UNQUANTISED else _eager_dtype(checkpoint, device)


def draft_quantization(checkpoint: Checkpoint, quantization: str, device: Device) -> str:
    """Return a draft's quantization beside a target in ``quantization``: the same if possible, else
    int8 or unquantised.

    In int8 a draft takes half the time in the compiled step, and on a GPU if its layers are not small. It
    only proposes, so people need no note.
    """
    if why_not_stored(checkpoint, device) is None:
        return AS_STORED
    if quantization == Q4 and why_not_q4(checkpoint, device) is None:
        return Q4
    if quantization != "int8" and _compiled(checkpoint, "int8", device):
        return "int8"
    if quantization in IN_BLOCKS:
        return choose_quantization(checkpoint, AUTO, device)
    if quantization == "bf16" and device.kernels and why_not_quantised(checkpoint, device) is None:
        return "int8" if _layer_weights(checkpoint) >= _LEAST_INT8_LAYER else "bf16"
    if quantization in QUANTISED and why_not_quantised(checkpoint, device) is not None:
        return _unquantised(checkpoint, device)
    return quantization


def _layer_weights(checkpoint: Checkpoint) -> int:
    """Return the weights of a layer, on average."""
    table = checkpoint.vocabulary * checkpoint.hidden
    return (checkpoint.parameters - table) // checkpoint.layers


def draft_rounding(checkpoint: Checkpoint, quantization: str, device: Device) -> str | None:
    """Return what wider weights of a draft are rounded to when the compiled step packs them, or None.

    Decoding is bandwidth-bound and a draft needs no exact weights: 4 bits cost little acceptance and save
    a quarter of its time (see docs/log/drafting.md).
    """
    large = checkpoint.parameters > SMALL
    return DRAFT_FORMAT if large and _compiled(checkpoint, quantization, device) else None


def quantization_note(quantization: str, checkpoint: Checkpoint, device: Device) -> str | None:
    """Return a note for people on how this machine computes ``quantization``, or None."""
    notes = [_stored_note(quantization, checkpoint), _device_note(quantization, checkpoint, device)]
    return " ".join(note for note in notes if note) or None


def _stored_note(quantization: str, checkpoint: Checkpoint) -> str | None:
    """Return a note on how the blocks of a GGUF file are used."""
    if not checkpoint.block_formats:
        return None
    if quantization == AS_STORED:
        return f"Runs the file's {checkpoint.dtype} weights directly."
    again = "widened to" if quantization in UNQUANTISED else "converted, then rounded to"
    return f"The file's {checkpoint.dtype} weights are {again} {quantization}."


def _device_note(quantization: str, checkpoint: Checkpoint, device: Device) -> str | None:
    if device.is_gpu:
        return _gpu_note(quantization, checkpoint, device)
    if quantization == Q4:
        formats = " and ".join(each.upper() for each in formats_in_four_bits(checkpoint))
        return f"Weights are rounded to {formats} blocks while loading."
    if quantization == "nf4" and not _compiled(checkpoint, quantization, device):
        return (
            "No NF4 kernel is available for this model (it needs a C++ compiler), so "
            "weights are converted as they are used. int8 is faster."
        )
    if quantization != "int8":
        return None
    levels = int8_linear.exact_levels(checkpoint.hidden)
    if levels is None:
        return "This processor has no exact int8 kernel, so int8 is slow. Choose bf16 or fp32."
    if levels < int8.ACTIVATION_LEVELS[0]:
        return (
            "This processor lacks VNNI, so activations use 7 bits instead of 8: still "
            "exact sums, coarser rounding."
        )
    return None


def _gpu_note(quantization: str, checkpoint: Checkpoint, device: Device) -> str | None:
    """Return why a GPU that has the kernels does not use them for this model."""
    if not device.kernels or checkpoint.architecture not in FAMILIES:
        return None
    reason = _why_no_kernels(checkpoint, quantization)
    return reason and (
        "This model runs with PyTorch operations, which are launched one by one, so a token takes longer "
        f"than in the kernels: {reason}"
    )


def why_not_quantised(checkpoint: Checkpoint, device: Device) -> str | None:
    """Return why this model cannot run in int8 or nf4 here, with the remedy, or None."""
    if checkpoint.architecture not in FAMILIES:
        return _why_adapted(checkpoint)
    if device.torch_device.type == "cpu":
        return None
    remedy = f"Choose {'bf16 or fp32' if device.bf16 else 'fp32'}, or the device cpu."
    if not device.kernels:
        return f"its kernels do not run on this GPU. {remedy}"
    return None


def _why_adapted(checkpoint: Checkpoint) -> str:
    return (
        f"{checkpoint.architecture} runs through transformers, where weights are not "
        "quantised. Choose bf16 or fp32."
    )


def why_not_q4(checkpoint: Checkpoint, device: Device) -> str | None:
    """Return why this model's matrices cannot be rounded to 4-bit blocks here, or None."""
    if checkpoint.architecture not in FAMILIES:
        return _why_adapted(checkpoint)
    return _why_no_blocks(checkpoint, Q4, device)


def why_not_stored(checkpoint: Checkpoint, device: Device) -> str | None:
    """Return why the model's matrices cannot be multiplied as a GGUF file has them, or None."""
    if not checkpoint.block_formats:
        return (
            "it needs a GGUF file with quantised weights, and this model has "
            f"{checkpoint.dtype} weights. Choose auto."
        )
    return _why_no_blocks(checkpoint, AS_STORED, device)


def _why_no_blocks(checkpoint: Checkpoint, quantization: str, device: Device) -> str | None:
    if device.kernels and quantization == AS_STORED:
        unknown = sorted(checkpoint.block_formats - cuda.SUPPORT.blocks)
        if unknown:
            return (
                f"its kernels cannot compute with {', '.join(unknown).upper()} blocks. Choose int8."
            )
        return None
    if compiled_step(device) is None:
        return "it needs the compiled kernels on a CPU, which are not available. Choose int8."
    architecture = described(checkpoint)
    if architecture is None:
        return "nothing can run a model with its settings. Choose auto, which says why."
    reason = _why_not_compiled(checkpoint, architecture, quantization, device)
    return reason and f"the compiled kernels cannot run this model. {reason} Choose int8."


def check_kv_cache(checkpoint: Checkpoint, quantization: str, wanted: str, device: Device) -> str:
    """Return ``wanted`` if the model can have such a KV cache. Raises InvalidRequest."""
    reason = why_no_fp8_cache(checkpoint, quantization, device) if wanted == FP8 else None
    require(reason is None, "kv_cache_dtype", f"is {wanted!r}, but {reason}")
    return wanted


def why_no_fp8_cache(checkpoint: Checkpoint, quantization: str, device: Device) -> str | None:
    """Return why the model in ``quantization`` cannot have a KV cache in fp8 here, or None."""
    remedy = "Choose auto, the same format as the model."
    if not device.kernels:
        where = (
            "the model runs on the CPU"
            if device.torch_device.type == "cpu"
            else "they do not run on this GPU"
        )
        return f"it needs the CUDA kernels, and {where}. {remedy}"
    if checkpoint.architecture not in FAMILIES:
        return (
            f"{checkpoint.architecture} runs through transformers, which does not support "
            f"it here. {remedy}"
        )
    if not device.fp8:
        return f"this GPU does not support fp8 (compute capability 8.9 or newer). {remedy}"
    if quantization == "fp32":
        return f"it needs the kernels, which have no fp32. Choose bf16, or: {remedy}"
    reason = _why_no_kernels(checkpoint, quantization)
    return reason and f"its kernels cannot run this model. {reason} {remedy}"


def packs(checkpoint: Checkpoint, device: Device) -> bool:
    """Return whether weights are packed for the products, as this engine's decoders do on a CPU."""
    return device.torch_device.type == "cpu" and checkpoint.architecture in FAMILIES


def quantizations(checkpoint: Checkpoint, device: Device) -> tuple[str, ...]:
    """Return the quantisations that shrink this model on this machine, from wide to narrow.

    Blocks of a GGUF file that can stay as they are, are only rounded again if that saves a third. Of the
    4-bit formats the faster one is listed.
    """
    kinds = QUANTISED if why_not_quantised(checkpoint, device) is None else ()
    if not checkpoint.quantised and why_not_q4(checkpoint, device) is None:
        kinds = ("int8", Q4)
    floats = ("bf16",) if device.bf16 else ()
    if why_not_stored(checkpoint, device) is not None:
        return (*floats, *kinds)
    sizes = {kind: checkpoint.parameters * WIDTHS[kind] for kind in QUANTISED}
    sizes[Q4] = bytes_in_four_bits(checkpoint)
    return (
        *floats,
        AS_STORED,
        *(kind for kind in kinds if sizes[kind] <= 2 / 3 * checkpoint.bytes),
    )


def _unquantised(checkpoint: Checkpoint, device: Device) -> str:
    """Return the faster of fp32 and bf16 here."""
    return "bf16" if _compiled_in_bf16(checkpoint, device) else _eager_dtype(checkpoint, device)


def _eager_dtype(checkpoint: Checkpoint, device: Device) -> str:
    """Return the faster of fp32 and bf16 without the compiled step."""
    if device.torch_device.type == "cuda":
        return "bf16" if device.bf16 else "fp32"
    quick = checkpoint.parameters > SMALL and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return "bf16" if quick else "fp32"


def _compiled_in_bf16(checkpoint: Checkpoint, device: Device) -> bool:
    """Return whether the weights are in bf16 and the compiled step, built or not yet, multiplies pairs of
    bf16: a first start must use the same weights as every later one."""
    dtypes = {dtype for _, _, dtype in checkpoint.tensors.values()}
    if dtypes != {"BF16"} or not could_be_compiled(checkpoint, "bf16", device):
        return False
    library = compiled_step(device)
    if library is not None:
        return library.pairs_bf16
    return PAIRS in processor.instructions() and bool(compilers.found())


def _compiled(checkpoint: Checkpoint, quantization: str, device: Device) -> bool:
    """Return whether the compiled step is built and would run the model in ``quantization``."""
    return compiled_step(device) is not None and could_be_compiled(checkpoint, quantization, device)


def _why_not_compiled(
    checkpoint: Checkpoint, architecture: Architecture, quantization: str, device: Device
) -> str | None:
    """Return why the compiled step, built or not yet, cannot run the model so, or None."""
    library = compiled_step(device)
    return native_step.why_not(architecture, quantization, library, checkpoint.block_formats)


def _may_be_compiled(device: Device) -> bool:
    return device.native and device.torch_device.type == "cpu"


def _why_no_kernels(checkpoint: Checkpoint, quantization: str) -> str | None:
    """Return why the Triton kernels do not run the model in this quantization, or None.

    Kernels that failed their trial leave the format as it is: torch computes with the same weights.
    """
    architecture = described(checkpoint)
    if architecture is None:
        return None
    blocks = checkpoint.block_formats
    reason = cuda.why_not(architecture, quantization, blocks)
    return reason or verdicts.why_not(architecture, quantization, blocks)
