"""Vision towers, computed by transformers' own classes: from the pixels of an image to its embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from engine.errors import ModelError
from engine.models.checkpoints.safetensors_header import read_header
from engine.models.checkpoints.stored_tensor import check_finite, read_tensor
from engine.models.checkpoints.weight_files import read_tensors
from engine.vision.plan import MOST_TOKENS, VisionPlan, weights

if TYPE_CHECKING:
    from PIL.Image import Image as Picture


class Cancelled(Exception):
    """The request was cancelled while its image was computed."""


@dataclass(frozen=True, slots=True, eq=False)
class Pixels:
    """An image, scaled for a tower: uint8 (height, width, 3). ``grid``: rows and columns of tokens."""

    pixels: np.ndarray[Any, Any]
    grid: tuple[int, int]


class Tower:
    """The tower of one model, which is Qwen3.5's: patches, of which four neighbours become a token. Its
    weights are loaded with the first image."""

    def __init__(self, plan: VisionPlan, device: torch.device) -> None:
        self.plan, self.device = plan, device
        self.dtype = dtype_of(plan, device)
        self._module: Any = None
        config = plan.config
        self._patch = int(config.get("patch_size", 16))
        self._merge = int(config.get("spatial_merge_size", 2))
        self._frames = int(config.get("temporal_patch_size", 2))

    def scaled(self, picture: Picture) -> Pixels:
        """Return a picture at the size that the tower takes."""
        from PIL.Image import Resampling
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        cell, prepare = self._patch * self._merge, self.plan.prepare
        most = min(prepare["most"], MOST_TOKENS * cell**2)
        height, width = smart_resize(
            picture.height, picture.width, cell, min(prepare["least"], most), most
        )
        resized = picture.resize((width, height), Resampling.BICUBIC)
        return Pixels(np.asarray(resized), (height // cell, width // cell))

    @torch.inference_mode()
    def embeddings(self, pixels: Pixels, cancelled: Callable[[], bool]) -> Tensor:
        """Return the embeddings of an image: float32 (tokens, hidden), on the CPU.

        Raises Cancelled between two layers, and ModelError for weights that do not fit.
        """
        module = self._loaded()

        def check(*_: object) -> None:
            if cancelled():
                raise Cancelled

        hooks = [each.register_forward_pre_hook(check) for each in module.blocks]
        try:
            result = self.compute(module, pixels)
        finally:
            for hook in hooks:
                hook.remove()
        assert result.shape == (math.prod(pixels.grid), self.plan.hidden)
        return result.float().cpu().contiguous()

    def compute(self, module: Any, pixels: Pixels) -> Tensor:
        """Return the embeddings of an image: (tokens, hidden)."""
        rows, columns = pixels.grid
        grid = torch.tensor([[1, rows * self._merge, columns * self._merge]], device=self.device)
        patches = self._patches(pixels).to(self.device, self.dtype)
        embeddings: Tensor = module(patches, grid_thw=grid).pooler_output
        return embeddings

    def _patches(self, pixels: Pixels) -> Tensor:
        """Return the patches, those of a token one after the other: (patches, numbers of a patch)."""
        rows, columns = pixels.grid
        size, merge = self._patch, self._merge
        image = _normalised(pixels.pixels, self.plan.prepare)
        parts = image.view(3, rows, merge, size, columns, merge, size)
        parts = parts.permute(1, 4, 2, 5, 0, 3, 6)  # rows, columns, merge, merge, 3, size, size
        frames = parts[:, :, :, :, :, None].expand(-1, -1, -1, -1, -1, self._frames, -1, -1)
        return frames.reshape(rows * columns * merge**2, -1)

    def _loaded(self) -> Any:
        if self._module is None:
            from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5VisionConfig
            from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5VisionModel
            from transformers.utils.logging import disable_progress_bar

            disable_progress_bar()  # a bar of its own in the terminal
            config, kind = Qwen3_5VisionConfig(**_known(self.plan.config)), Qwen3_5VisionModel
            with torch.random.fork_rng(devices=[]):
                module, found = cast(Any, kind).from_pretrained(
                    None,
                    config=config,
                    state_dict=self._weights(),
                    dtype=self.dtype,
                    output_loading_info=True,
                )
            missing = [*found["missing_keys"], *found["mismatched_keys"]]
            if missing:
                raise ModelError(
                    f"{self.plan.path} lacks {len(missing)} tensors of its vision tower, or has them in "
                    f"other shapes, such as {missing[0]}. Download it again."
                )
            self._module = module.eval().to(self.device)
        return self._module

    def _weights(self) -> dict[str, Tensor]:
        """Return the weights by transformers' names. Raises ModelError."""
        plan = self.plan
        if plan.path.is_file():
            return weights(plan.path, self.dtype)
        tensors, root = {}, plan.root
        for name, info in read_tensors(plan.path)[0].items():
            if name.startswith(root):
                tensor = read_tensor(info.file, read_header(info.file)[name])
                check_finite(plan.path, name, tensor)
                tensors[name.removeprefix(root)] = tensor.to(self.dtype)
        return tensors


def _normalised(pixels: np.ndarray[Any, Any], prepare: Mapping[str, Any]) -> Tensor:
    """Return float32 (3, height, width) for uint8 (height, width, 3)."""
    image = torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255
    mean, std = (torch.tensor(prepare[name])[:, None, None] for name in ("image_mean", "image_std"))
    return (image - mean) / std


def _known(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without what belongs to a file's form."""
    left_out = {"model_type", "dtype", "torch_dtype", "transformers_version", "architectures"}
    return {name: value for name, value in config.items() if name not in left_out}


def dtype_of(plan: VisionPlan, device: torch.device) -> torch.dtype:
    """Return what the tower computes in: 16 bits if the file has them and the device multiplies them."""
    quick = device.type == "cuda" or torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if quick and not plan.wide else torch.float32
