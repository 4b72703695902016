"""The tokens of one generation: prompt and output so far."""

from __future__ import annotations

from collections.abc import Iterable


class Context:
    """All tokens. The last one is pending: the target's state does not hold it yet."""

    def __init__(self, prompt: Iterable[int]) -> None:
        self.tokens = list(prompt)
        self.prompt_length = len(self.tokens)

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt_length :]

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.prompt_length
