"""Requests for models in folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.loading.request import LoadRequest


def request_for(
    target: Path, draft: Path | None = None, heads: Sequence[Path] = (), **settings: Any
) -> LoadRequest:
    """For the model in ``target`` and what drafts for it; ``settings`` are the other fields.

    Requests run one after the other, unless ``parallel`` is given."""
    settings.setdefault("parallel", 1)
    return LoadRequest(
        target=str(target),
        draft="" if draft is None else str(draft),
        heads=tuple(map(str, heads)),
        **settings,
    )
