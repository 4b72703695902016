"""The OpenAI-compatible HTTP API over the same engine that the pages use."""

from app.server.api import create_api
from app.server.monitoring.counter import Counter

__all__ = ["Counter", "create_api"]
