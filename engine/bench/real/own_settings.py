"""What this engine's process is told at its start, on its command line."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from engine.loading.request import LoadRequest


def encode(load: Mapping[str, Any], depths: Sequence[int], eos: Collection[int]) -> str:
    """One word for ``decode``."""
    return json.dumps({"load": load, "depths": list(depths), "ignore_eos": not eos})


def decode(word: str) -> tuple[LoadRequest, tuple[int, ...], bool]:
    """What is loaded, the draft model's fixed depths, and whether replies go on to their limit."""
    value = json.loads(word)
    load = LoadRequest(**{**value["load"], "heads": tuple(value["load"]["heads"])})
    return load, tuple(value["depths"]), value["ignore_eos"]
