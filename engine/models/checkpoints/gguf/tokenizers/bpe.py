"""BPE of ``tokenizers`` from what a GGUF file lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizers.models import BPE

from engine.models.checkpoints.gguf.tokenizers.listed_tokens import broken, listed_texts

Merge = tuple[str, str]


def listed_merges(metadata: Mapping[str, Any]) -> list[Merge]:
    """The pairs to join, the first of them first. Raises ModelError where there are none."""
    merges = listed_texts(metadata, "merges")
    if not merges:
        raise broken("it lists no merges (tokenizer.ggml.merges)")
    return [tuple(merge.split(" ", 1)) for merge in merges]  # type: ignore[misc]  # BPE counts them


def make_bpe(ids: dict[str, int], merges: list[Merge], **options: Any) -> BPE:
    """Raises ModelError for merges that do not belong to the tokens."""
    try:
        return BPE(ids, merges, **options)
    except Exception as error:  # tokenizers raises nothing more exact
        raise broken(f"its merges do not belong to its tokens ({error})") from error
