"""Ollama's protocol, for the many programs that speak no other: chat, generate, tags, show, ps, version.

Replies are lines of JSON, and durations nanoseconds. Errors are ``{"error": "..."}``.
"""
