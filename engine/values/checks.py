"""Refuse a wrong value by the name of its field."""

from __future__ import annotations

from engine.errors import InvalidRequest


def require(condition: bool, name: str, message: str) -> None:
    """Raise InvalidRequest, "NAME MESSAGE", unless ``condition`` holds."""
    if not condition:
        raise InvalidRequest(name, f"{name} {message}")
