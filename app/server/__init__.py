"""The OpenAI-compatible HTTP API over the same engine that the pages use."""

from app.server.api import create_api
from app.server.request_queue import RequestQueue

__all__ = ["RequestQueue", "create_api"]
