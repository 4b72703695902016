"""The tokenizer and chat template of a loaded pair, for whoever wants tokens without a reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.decoding.text.codec import TextCodec
from engine.models.base import ModelInfo
from engine.request import Request
from engine.values import require
from engine.values.prompt import Prompt


@dataclass(frozen=True, slots=True)
class SessionTokenizer:
    """An ``engine.api.Tokenizer``. ``prompt_of`` makes a request's prompt."""

    codec: TextCodec
    model: ModelInfo
    prompt_of: Callable[[Request], Prompt]

    def encode(self, text: str, *, special: bool = False, control: bool = True) -> tuple[int, ...]:
        if not control:
            return tuple(self.codec.encode_as_text(text, self.model.context))
        return tuple(self.codec.encode_bounded(text, self.model.context, special=special))

    def decode(self, tokens: Sequence[int]) -> str:
        self._check(tokens)
        return self.codec.decode(tokens, special=True)

    def piece(self, token: int) -> str:
        self._check([token])
        return self.codec.token_text(token)

    def named(self, name: str) -> int | None:
        return self.codec.token_named(name)

    def prompt(self, request: Request) -> tuple[int, ...]:
        return self.prompt_of(request).tokens

    def render(self, request: Request) -> str:
        return self.codec.render(request)

    def _check(self, tokens: Sequence[int]) -> None:
        size = self.model.vocabulary
        outside = next((token for token in tokens if not 0 <= token < size), None)
        where = f"contains {outside}, outside this model's vocabulary of {size} tokens."
        require(outside is None, "tokens", where)
