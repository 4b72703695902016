"""The tokens of one generation, and the common prefix of two texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from engine.values.prompt import Prompt

PREFILL_CHUNK = 512
"""Tokens prefilled between two checks for a cancelled request."""
PREFILL_PART = 64
"""The same while other requests wait; the compiled step is no slower with such chunks."""


class Context:
    """Prompt and output. The last token is pending: the target's state does not hold it yet."""

    def __init__(self, prompt: Prompt | Iterable[int]) -> None:
        """``prompt``: its parts, or plain tokens."""
        self.prompt = prompt if isinstance(prompt, Prompt) else Prompt.of(prompt)
        self.tokens, keys = list(self.prompt.tokens), list(self.prompt.keys)
        self._prompt_keys = None if keys == self.tokens else keys
        self.prompt_length = len(self.tokens)

    @property
    def keys(self) -> list[int]:
        """The content key of each token, see ``Prompt``; ``tokens`` itself if all are plain."""
        return self.tokens if self._prompt_keys is None else [*self._prompt_keys, *self.output]

    @property
    def has_images(self) -> bool:
        """Return whether the prompt holds more than text."""
        return self._prompt_keys is not None

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt_length :]

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.prompt_length


def common_prefix(cached: Sequence[int], wanted: Sequence[int]) -> int:
    """Return the length of the common prefix of two texts' content keys (see ``Prompt``).

    All reuse of a state goes by this.
    """
    limit = min(len(cached), len(wanted))
    if cached[:limit] == wanted[:limit]:  # quick, and common in a follow-up
        return limit
    pairs = zip(cached, wanted, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), limit)


def chunks(tokens: Sequence[int], *, beside_others: bool = False) -> Iterator[Sequence[int]]:
    """Yield ``tokens`` in chunks of ``PREFILL_CHUNK``, or of ``PREFILL_PART`` ``beside_others``."""
    size = PREFILL_PART if beside_others else PREFILL_CHUNK
    for start in range(0, len(tokens), size):
        yield tokens[start : start + size]
