"""Seeds of a run's parts, each from the recipe's one."""

from __future__ import annotations

import hashlib


def subseed(*parts: object) -> int:
    """A 62-bit seed from any values; the same in every process, unlike hash()."""
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 2
