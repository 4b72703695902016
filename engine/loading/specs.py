"""A model and a pair, as the catalog or a folder describes them. Frozen values; torch-free."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.drafting import heads, proposers
from engine.errors import ModelError
from engine.kernels.formats import AUTO
from engine.models.architecture import Architecture
from engine.models.checkpoints.checkpoint import Checkpoint, inspect
from engine.models.checkpoints.gguf.description import TYPE, is_gguf
from engine.models.families import described_by
from engine.models.sizes.weight_counts import share_read
from engine.vision.plan import VisionPlan, vision_of

SAFETENSORS = "safetensors"
"""The format of a model in transformers' layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One model: where it comes from and how big it is.

    Exactly one of ``repository`` (on the hub), ``path`` (a folder or GGUF file here) and ``address``
    (of a server, as ``engine.values.address`` reads it) is set.
    ``file``: of a repository of GGUF files the one that is meant, of a split model its first part; ""
    for a repository in transformers' layout. ``files``: the same model in every file that the catalog
    names, the four-bit one first, safetensors last; their ids say the format too. ``drafters``: what was
    published to draft for it, by ``method``. ``mtp``: its files hold MTP layers of their own.
    ``sees``: it takes images.
    Counts are 0 while unknown, which only happens to a ``path`` whose files are not there; ``hidden``,
    which sizes the embedding, may be left out. ``tied``: the embedding is the output head too.
    ``tokenizer`` names the vocabulary; it is empty for a folder outside the catalog.
    ``quantization`` is how the model is loaded unless somebody asks for another; ``kv_cache_dtype``
    what its cache is kept in where the machine has it and it is a target. ``shipped``: whether ``path``
    comes with the app. ``config``: what the catalog has of its config.json.
    """

    id: str
    name: str
    repository: str | None = None
    revision: str = "main"
    file: str = ""
    path: Path | None = None
    address: str = ""
    shipped: bool = False
    tokenizer: str = ""
    licence: str = "unknown"
    gated: bool = False
    parameters: int = 0
    bytes: int = 0
    context: int = 0
    vocabulary: int = 0
    layers: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    hidden: int = 0
    tied: bool = False
    mtp: bool = False
    sees: bool = False
    method: str = ""
    files: tuple[ModelSpec, ...] = ()
    drafters: tuple[ModelSpec, ...] = ()
    quantization: str = AUTO
    kv_cache_dtype: str = AUTO
    note: str = ""
    config: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def architecture(self) -> Architecture | None:
        """What ``config`` describes, None for what no family does."""
        return described_by(self.config) if self.config else None

    @property
    def is_gguf(self) -> bool:
        """True for a GGUF file, here or on the hub."""
        return bool(self.file) or (self.path is not None and is_gguf(self.path))

    @property
    def gguf_type(self) -> str:
        """The quantisation type of a GGUF file on the hub, by its name, or ""."""
        found = TYPE.search(without_part(Path(self.file).stem))
        return found[1].upper() if found else ""

    @property
    def format(self) -> str:
        """The type of a GGUF file on the hub, else "safetensors"."""
        return self.gguf_type or SAFETENSORS

    @property
    def companions(self) -> tuple[ModelSpec, ...]:
        """What is downloaded with it to draft for it, where no pair says: the first of ``drafters``, none
        if its own file has MTP layers."""
        return () if self.mtp else self.drafters[:1]

    @property
    def called(self) -> str:
        """The name for people: its id, or its name if the id is a path."""
        return self.name if Path(self.id).is_absolute() else self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """A target and what drafts for it: a draft model, heads (folders), or neither.

    ``id`` is the catalog's; one that is put together has none.
    """

    id: str = ""
    name: str
    target: ModelSpec
    draft: ModelSpec | None = None
    heads: tuple[Path, ...] = ()
    note: str = ""

    @property
    def drafting(self) -> frozenset[str]:
        """What of the pair drafts, by the names in proposers' ``needs``: ``draft`` and kinds of heads."""
        kinds = {kind for head in self.heads if (kind := heads.kind_in(head))}
        inside = heads.INSIDE if self.target.mtp else ()
        return frozenset({*kinds, *inside, *(() if self.draft is None else ("draft",))})

    @property
    def proposers(self) -> tuple[str, ...]:
        """The proposers that the pair will have on this machine, as far as is known before a load."""
        return proposers.available(self.drafting)

    def unused_inside(self) -> str:
        """Return why what the target's files bring to draft for it does not; "" where that is not so."""
        try:
            found = heads.inside(inspect(self.target.path)) if self.target.path else None
        except ModelError:  # loading says it
            return ""
        return found if isinstance(found, str) else ""


@lru_cache(maxsize=1024)
def bytes_read(spec: ModelSpec) -> float:
    """Return the bytes of a model that one token reads, 0 if its size is not known. Cached, as lists
    compare all pairs."""
    return spec.bytes * share_read(spec.architecture)


Locate = Callable[[ModelSpec], Path | None]
"""Return a model's complete files, or None (``locate`` of hub/disk.py)."""


def without_part(stem: str) -> str:
    """Return a GGUF file's name without the number of its first part."""
    return re.sub(r"-00001-of-\d{5}$", "", stem)


def folder_of(spec: ModelSpec) -> Path | None:
    return spec.path


_SIZES = (
    "parameters", "bytes", "context", "vocabulary", "layers", "kv_heads", "head_dim", "hidden",
)  # fmt: skip


def with_sizes(spec: ModelSpec, checkpoint: Checkpoint) -> ModelSpec:
    """Return ``spec`` with the sizes of its files, and whether they bring what drafts for them."""
    sizes = {name: getattr(checkpoint, name) for name in _SIZES}
    return replace(
        spec,
        tied=checkpoint.repeats_embedding,
        mtp=_drafts(checkpoint),
        sees=isinstance(vision_of(checkpoint), VisionPlan),
        config=checkpoint.config,
        **sizes,
    )


def _drafts(checkpoint: Checkpoint) -> bool:
    try:
        return not isinstance(heads.inside(checkpoint), str | None)
    except ModelError:  # loading says it
        return False
