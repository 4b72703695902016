"""What is to be loaded: one frozen value, made once and handed on whole."""

from __future__ import annotations

from dataclasses import dataclass

from engine.models.checkpoints.checkpoint import AUTO

SEPARATOR = "::"
"""Between target, draft and heads where people write all of it as one text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """A target, what drafts for it, and how both are held and computed.

    ``target`` is the id of a pair or of a model in the catalog, or a folder. ``draft`` is a model's id
    or a folder, "" for none, and None for what the catalog pairs with the target. ``heads`` are folders,
    added to the pair's own. ``quantization`` and ``kv_cache_dtype`` auto are what the catalog, else model
    and machine, suggest. ``context`` bounds the model's own. ``device``: auto, cpu or cuda. ``native``:
    whether a step that is compiled for this processor may be used; ``cuda_graphs``: whether rounds on a
    GPU may be captured. ``threads`` that compute; None is one for each physical core.
    """

    target: str
    draft: str | None = None
    heads: tuple[str, ...] = ()
    quantization: str = AUTO
    kv_cache_dtype: str = AUTO
    context: int | None = None
    device: str = AUTO
    native: bool = True
    cuda_graphs: bool = True
    threads: int | None = None
