"""Replies for the fake engine to recite: known texts of every kind that pages have to show."""

from __future__ import annotations

import re

from engine.api import Capabilities, LoadRequest
from engine.loading.catalog import open_catalog
from engine.request import Request
from tests.support.fake_engine import CAPABILITIES, FakeEngine, Script
from tests.support.fake_rounds import split
from tests.support.places import ROOT

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


def recite(request: Request) -> Script:
    """The reply that the question's words ask for; ``fail`` asks for a failure.

    The words depend on the prompt alone, so that plain and speculative runs agree; under ``differ``
    they do not.
    """
    asked = request.messages[-1].content
    tokens = split(reply_to(asked))
    if "differ" in asked and request.speculation.proposer != "none":
        tokens[5:6] = [" otherwise"]
    failure = "The fake engine was asked to fail. Ask for something else."
    return Script(tokens, failure=failure if "fail" in asked else None)


def reciting_engine(
    seconds_a_round: float = 0.001, capabilities: Capabilities = CAPABILITIES
) -> FakeEngine:
    """With Pip loaded, as far as anybody can tell."""
    catalog = open_catalog(ROOT / "model_catalog.yaml")
    return FakeEngine(
        recite,
        catalog=lambda: catalog,
        loads=LoadRequest(target="pip"),
        seconds_a_round=seconds_a_round,
        capabilities=capabilities,
    )
