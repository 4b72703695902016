"""The OpenAI-compatible HTTP API over the same engine that the pages use."""

from app.server.api import create_api

__all__ = ["create_api"]
