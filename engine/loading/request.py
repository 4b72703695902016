"""The request for a load, as one frozen value. Torch-free."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from engine.drafting.heads import kind_in
from engine.errors import IncompatiblePair, ModelError
from engine.files import expanded
from engine.kernels.formats import AUTO, KV_CACHE_DTYPES, QUANTIZATIONS
from engine.machine import devices, threads
from engine.values import CHECKPOINT_MB, LEAST_CONTEXT, MAX_ROWS, require, require_range
from engine.values.address import is_address

SEPARATOR = "::"
"""Separates target, draft and heads in one text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """A target, what drafts for it, and how both are loaded.

    ``target`` is the id of a pair, a model or a server in the catalog, a folder, a GGUF file, or a
    server's address. ``draft`` is a model's id, a folder or a GGUF file, "" for none, and None for what
    the catalog pairs with the target.
    ``heads`` are folders or GGUF files: they replace the pair's own of their kind, and are added to the
    others. ``quantization`` and ``kv_cache_dtype`` auto are what the catalog, else model and machine,
    suggest; ``quantization`` stored is how a GGUF file has its weights, and for no folder.
    ``context`` bounds the model's own. ``device``: auto, cpu or cuda. ``draft_device``: the same for the
    draft; auto is the target's, or cpu if both do not fit on the GPU. ``gpu_layers``: how many of the
    target's layers, the last ones, a GPU computes; None: as many as fit. ``native``: whether a step that
    is compiled for this processor may be used; ``cuda_graphs``: whether rounds on a GPU may be captured.
    ``threads`` that compute; None is one for each physical core, or one for a few MB of weights.
    ``parallel``: how many requests may run at once, where the backend can and memory allows it; None: a
    few. ``checkpoint_mb``: memory of each sequence for earlier states of a model with recurrent layers,
    to which an edit goes back.
    ``remembered``: fields chosen for an earlier load. Where machine or model cannot have these any more,
    they are left out with a note; what is asked for now is refused.

    A value that nothing can have raises InvalidRequest, which names the field.
    """

    target: str
    draft: str | None = None
    heads: tuple[str, ...] = ()
    quantization: str = AUTO
    kv_cache_dtype: str = AUTO
    context: int | None = None
    device: str = AUTO
    draft_device: str = AUTO
    gpu_layers: int | None = None
    native: bool = True
    cuda_graphs: bool = True
    threads: int | None = None
    parallel: int | None = None
    checkpoint_mb: int = CHECKPOINT_MB
    remembered: frozenset[str] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        for name, known in _KNOWN.items():
            value = getattr(self, name)
            require(value in known, name, f"is {value!r}; it must be one of {', '.join(known)}.")
        threads.check(self.threads)
        require_range("context", self.context, LEAST_CONTEXT)
        require(
            self.gpu_layers is None or self.gpu_layers >= 1,
            "gpu_layers",
            f"is {self.gpu_layers}; it must be 1 or more. For none, choose the device cpu.",
        )
        require_range("checkpoint_mb", self.checkpoint_mb, 0)
        require_range("parallel", self.parallel, 1, MAX_ROWS)

    @classmethod
    def parse(cls, text: str, heads: Sequence[str | Path] = (), **settings: Any) -> LoadRequest:
        """Parse ``TARGET[::DRAFT][::HEAD...]`` or a server's address; ``heads`` are added.

        ``TARGET`` is a pair, a model, a folder or a GGUF file; what a folder behind it holds is said by
        its config.json, and a folder here goes before a model of the catalog whose id is spelt so.
        Nothing behind ``::`` is no draft. Raises IncompatiblePair for two drafts, ModelError if one is a
        path where nothing is, and as the class does for ``settings``, its other fields.
        """
        if is_address(text):  # which may hold "::" itself
            return cls(target=text.strip(), heads=tuple(map(str, heads)), **settings)
        target, *others = (part.strip() for part in text.strip().split(SEPARATOR))
        own = tuple(part for part in others if part and kind_in(expanded(part)) is not None)
        drafts = [part for part in others if part not in own]
        if len(drafts) > 1:
            for path in map(Path, drafts):
                if path.name != str(path) and not os.path.exists(expanded(path)):
                    raise ModelError(f"There is no folder or file {path}. Check the path.")
            raise IncompatiblePair(
                f"{' and '.join(drafts)} are both draft models, and only one can be loaded. "
                "Leave one out."
            )
        return cls(
            target=target,
            draft=drafts[0] if drafts else None,
            heads=(*own, *map(str, heads)),
            **settings,
        )

    def alike(self, pair: str) -> LoadRequest:
        """Return a request for another pair or server with this one's settings. Raises as ``parse``."""
        other = LoadRequest.parse(pair)
        return replace(self, target=other.target, draft=other.draft, heads=other.heads)

    def without(self, name: str) -> LoadRequest:
        """Return the request with the default of a field."""
        default: Any = next(each.default for each in fields(self) if each.name == name)
        return replace(self, **{name: default}, remembered=self.remembered - {name})

    def no_more(self, context: int) -> str:
        """Return the note that the model has only ``context`` tokens, fewer than were asked for."""
        return f"The context is {context:,} tokens, not {self.context:,}: the model has no more."

    @property
    def text(self) -> str:
        """The models, as ``parse`` reads them."""
        parts = [self.target, *(() if self.draft is None else (self.draft,)), *self.heads]
        return SEPARATOR.join(parts)


_KNOWN = {
    "quantization": QUANTIZATIONS,
    "kv_cache_dtype": KV_CACHE_DTYPES,
    "device": devices.DEVICES,
    "draft_device": devices.DEVICES,
}
