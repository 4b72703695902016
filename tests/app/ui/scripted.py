"""An engine service without a model: it recites replies, round by round, as the real one would.

For browser tests that need a known text, a known speed and every kind of round. The real service
is driven in its own tests and in tests/app/test_app_in_browser.py.
"""

from __future__ import annotations

import itertools
import random
import re
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.errors import ContextExceeded, NotLoaded
from engine.events import (
    Budget,
    Emitted,
    Event,
    Failed,
    Finished,
    FinishReason,
    Origin,
    Prefilled,
    Queued,
    Round,
    Started,
    Timing,
    Token,
    Tree,
)
from engine.local.service import Loaded
from engine.request import Request

CONTEXT = 4096

REPLIES = {
    "markdown": """# A round, step by step

The draft guesses **four tokens**, the target checks them in *one pass*. With acceptance $\\alpha$ and
depth $k$ a round yields, on average,

$$E = \\frac{1 - \\alpha^{k+1}}{1 - \\alpha}$$

tokens. In code:

```python
def expected(alpha: float, depth: int) -> float:
    return (1 - alpha ** (depth + 1)) / (1 - alpha)  # tokens a round
```

| depth | acceptance | tokens a round |
|---|---|---|
| 2 | 0.6 | 1.96 |
| 4 | 0.8 | 3.36 |

- accepted tokens are free
- a rejected one costs its place, and `p` says why
""",
    "record": '{\n  "name": "Ada {1}",\n  "tags": ["a", "b"]\n}\n\nIts lines:\nfirst=1\nsecond=2',
    "hostile": 'Look: <img src=x onerror="window.hacked=1"> <script>window.hacked=2</script> '
    '<a href="javascript:window.hacked=3">link</a> and <b onclick="window.hacked=4">bold</b> end.',
    "plain": "Speculative decoding lets a small, cheap draft guess the next few tokens, and then the "
    "large target model checks all of them in one pass. Guesses the target agrees with are kept, "
    "the first wrong one is replaced by the target's own token. You get the same text, only sooner.",
}


def reply_to(text: str) -> str:
    """``N tokens`` asks for that many; ``markdown``, ``record`` and ``hostile`` for those texts."""
    long = re.search(r"(\d+) tokens", text)
    if long:
        return " ".join(f"word{n}" for n in range(int(long[1]) // 2 + 1))
    return next((reply for key, reply in REPLIES.items() if key in text), REPLIES["plain"])


def split(text: str) -> list[str]:
    """Tokens: words with their leading space, numbers and signs on their own."""
    return re.findall(r" ?[A-Za-z]+| ?\d+|\s+|.", text, re.DOTALL)


def number(token: str) -> int:
    """A token's id."""
    return zlib.crc32(token.encode()) % 100_000


class ScriptedGeneration:
    """One recital. Ends early when cancelled."""

    def __init__(self, service: ScriptedService, request: Request, ahead: int) -> None:
        self.id = "scripted"
        self._service, self._request, self._ahead = service, request, ahead
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()

    def __iter__(self) -> Iterator[Event]:
        if self._ahead:
            yield Queued(self._ahead)
        with self._service.turn:
            try:
                yield from self._recite()
            finally:
                self._service.ahead -= 1

    def _recite(self) -> Iterator[Event]:
        asked = self._request.messages[-1].content
        speculation = self._request.speculation
        plain = speculation.proposer == "none"
        yield Started("scripted", speculation.proposer, "greedy", tuple(range(len(split(asked)))))
        yield Prefilled(len(split(asked)), 0, 0.02)
        if "fail" in asked:
            yield Failed("The scripted engine was asked to fail. Ask for something else.")
            return
        tokens = split(reply_to(asked))
        limit = self._request.max_tokens or len(tokens)
        reason = FinishReason.LENGTH if limit < len(tokens) else FinishReason.STOP
        tokens = tokens[:limit]
        # The words depend on the prompt alone, so that plain and speculative runs agree; under
        # "differ" they do not.
        if "differ" in asked and not plain:
            tokens[5:6] = [" otherwise"]
        chance = random.Random(7)
        done: list[str] = []
        for index in itertools.count():
            left = tokens[len(done) :]
            if not left or self._cancelled.is_set():
                break
            seconds = self._service.seconds_a_round
            time.sleep(seconds)
            depth = 0 if plain else speculation.depth or 4
            right = 0
            while right < min(depth, len(left) - 1) and chance.random() < 0.8:
                right += 1
            wrong = max(0, depth - right) if right < depth else 0
            drafts = [*left[:right], *(f" guess{n}" for n in range(wrong))]
            cut = len(left) <= right
            after = "" if cut else left[right]
            emitted = [*left[:right], *([] if cut else [after])]
            p = tuple(
                0.97 - 0.1 * i if i < right else (0.04 if i == right else None)
                for i in range(len(drafts))
            )
            q = tuple(0.8 - 0.05 * i for i in range(len(drafts)))
            origin = Origin.CORRECTION if wrong else Origin.BONUS
            origins = [Origin.DRAFT] * right + ([] if cut else [origin])
            place = len("".join(done))
            told = []
            for token, where in zip(emitted, origins, strict=True):
                told.append(Token(number(token), token, place, where, 0.9))
                place += len(token)
            yield Emitted(
                text="".join(emitted),
                tokens=tuple(told),
                round=Round(
                    index,
                    speculation.proposer,
                    Budget(depth, depth),
                    Tree.chain([number(token) for token in drafts]),
                    tuple(range(right)),
                    number(after),
                    origin,
                    p,
                    q,
                    0.9,
                    Timing(seconds / 4, seconds / 2, seconds),
                    len(emitted),
                ),
                drafted=tuple(drafts),
                next_text=after,
            )
            done += emitted
        if self._cancelled.is_set():
            reason = FinishReason.CANCELLED
        yield Finished(reason, "", "".join(done), tuple(number(token) for token in done))


class ScriptedService:
    """The interface of ``EngineService`` that the pages use."""

    def __init__(self, seconds_a_round: float = 0.01) -> None:
        self.seconds_a_round = seconds_a_round
        self.turn = threading.Lock()
        self.ahead = 0
        self.loaded: Loaded | None = Loaded(
            name="Pip",
            target="pip",
            draft="pip-draft",
            context=CONTEXT,
            vocabulary=4096,
            dtype="float32",
            device="cpu",
            proposers=("none", "draft", "ngram"),
            parameters=7_500_000,
        )

    def submit(self, request: Request) -> ScriptedGeneration:
        if self.loaded is None:
            raise NotLoaded("No model is loaded.")
        prompt = sum(len(split(message.content)) for message in request.messages)
        if prompt >= CONTEXT:
            raise ContextExceeded(prompt, CONTEXT)
        ahead, self.ahead = self.ahead, self.ahead + 1
        return ScriptedGeneration(self, request, ahead)

    def load(
        self,
        target: Path,
        draft: Path | None,
        *,
        name: str,
        dtype: str = "auto",
        heads: Sequence[Path] = (),
        kv_cache_dtype: str = "auto",
    ) -> Loaded:
        time.sleep(0.2)
        self.loaded = Loaded(
            name,
            str(target),
            str(draft) if draft else None,
            CONTEXT,
            4096,
            "float32",
            "cpu",
            ("none", "ngram"),
            1,
        )
        return self.loaded

    def close(self) -> None:
        pass
