"""GGUF's kinds of tokens (``tokenizer.ggml.token_type``)."""

from __future__ import annotations

from enum import IntEnum


class TokenType(IntEnum):
    """What a token of the list is; llama.cpp's numbers."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6
