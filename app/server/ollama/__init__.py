"""Ollama's protocol, for programs that know no other: chat, generate, tags, show, ps, version.

Replies are lines of JSON, and durations nanoseconds. Errors are ``{"error": "..."}``.
"""
