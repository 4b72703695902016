"""The tokens of one generation: prompt and output so far."""

from __future__ import annotations

from collections.abc import Iterable

from engine.values.prompt import Prompt


class Context:
    """All tokens. The last one is pending: the target's state does not hold it yet."""

    def __init__(self, prompt: Prompt | Iterable[int]) -> None:
        """``prompt``: its parts, or plain tokens."""
        parts = prompt if isinstance(prompt, Prompt) else Prompt.of(prompt)
        self.tokens, keys = list(parts.tokens), list(parts.keys)
        self._prompt_keys = None if keys == self.tokens else keys
        self.prompt_length = len(self.tokens)

    @property
    def keys(self) -> list[int]:
        """The content key of each token, see ``Prompt``; ``tokens`` itself if all are plain."""
        return self.tokens if self._prompt_keys is None else [*self._prompt_keys, *self.output]

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt_length :]

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.prompt_length
