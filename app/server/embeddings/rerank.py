"""Relevance by Qwen3-Reranker: the probability of "yes" as the next word of its prompt.

Source: the model's card. Other rerankers are encoders, which this engine does not run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.server.errors import ApiError
from engine.api import Engine, Loaded, Tokenizer
from engine.errors import InvalidRequest
from engine.values import CHARACTERS_PER_TOKEN

INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
_BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    'Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
_NAME = "qwen3-reranker"


@dataclass(frozen=True, slots=True)
class Reranker:
    """A reranker: its tokens of "no" and "yes", those around what it judges, and the room for that."""

    choices: tuple[int, int]
    before: tuple[int, ...]
    after: tuple[int, ...]
    tokens: Callable[[str], tuple[int, ...]]
    room: int

    @classmethod
    def of(cls, loaded: Loaded, tokenizer: Tokenizer) -> Reranker:
        """Return that of the loaded model. Raises ApiError for a model that is none."""
        no, yes = tokenizer.named("no"), tokenizer.named("yes")
        names = (loaded.target_name, loaded.target_id, loaded.name)
        known = any(_NAME in name.lower().replace(" ", "-").replace("_", "-") for name in names)
        if no is None or yes is None or not known:
            raise ApiError(
                400,
                f"The model {loaded.id!r} is not a reranker. Load Qwen3-Reranker; its name must contain "
                "these words.",
                code="unsupported_value",
                param="model",
            )

        def as_text(text: str) -> tuple[int, ...]:
            return tokenizer.encode(text, control=False)

        before, after = tokenizer.encode(_BEFORE), tokenizer.encode(_AFTER)
        return cls((no, yes), before, after, as_text, loaded.context - len(before) - len(after))

    def prompt(self, query: str, document: str, instruction: str | None) -> tuple[int, ...]:
        """Return the tokens of the prompt on one document, whose end is cut if it is too long. Raises
        InvalidRequest for a query that leaves it no room."""
        asked = f"<Instruct>: {instruction or INSTRUCTION}\n<Query>: {query}\n<Document>: "
        tokens = self._tokens(asked + document)
        if len(tokens) >= self.room and len(self._tokens(asked)) >= self.room:
            raise InvalidRequest(
                "query",
                f"query, with its instruction, does not fit: the context has room for {self.room:,} "
                "tokens of it and a document. Shorten it, or load the model with a longer context.",
            )
        return (*self.before, *tokens, *self.after)

    def _tokens(self, text: str) -> tuple[int, ...]:
        """Return the tokens for which there is room."""
        room = max(0, self.room)
        return self.tokens(text[: CHARACTERS_PER_TOKEN * room])[:room]

    def score(self, engine: Engine, prompt: Sequence[int]) -> float:
        """Return the relevance, from 0 to 1."""
        no, yes = engine.next_logits(prompt, self.choices)
        return 1 / (1 + math.exp(min(no - yes, 700)))
