"""One chat example and the check that grades a reply to it.

The last message of an example is the reference reply. A check judges that last reply alone, so a scorer shows a model
`example.prompt`, and asks `example.check.passes(reply)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant")

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Message:
    """What one side said."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class JsonCheck:
    """The reply is JSON, nothing around it, with the same value as `expected`. Layout and order of keys are free."""

    expected: str

    def passes(self, reply: str) -> bool:
        try:
            return _same_json(json.loads(reply), json.loads(self.expected))
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class TextCheck:
    """The reply is `expected`, letter for letter; only white space around the whole is forgiven."""

    expected: str

    def passes(self, reply: str) -> bool:
        return reply.strip() == self.expected.strip()


@dataclass(frozen=True, slots=True)
class KeywordCheck:
    """The reply has at least one word of every group and none of `forbidden`; case does not matter."""

    groups: tuple[tuple[str, ...], ...]
    forbidden: tuple[str, ...] = ()

    def passes(self, reply: str) -> bool:
        text = reply.lower()
        present = all(any(word.lower() in text for word in group) for group in self.groups)
        return present and not any(word.lower() in text for word in self.forbidden)


@dataclass(frozen=True, slots=True)
class NumberCheck:
    """The last number in the reply is `expected`."""

    expected: float

    def passes(self, reply: str) -> bool:
        found = _NUMBER.findall(reply)
        return bool(found) and abs(float(found[-1].replace(",", "")) - self.expected) < 1e-6


Check = JsonCheck | TextCheck | KeywordCheck | NumberCheck


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation that ends with the reference reply. `kind` names the skill, as in `records.json`."""

    kind: str
    messages: tuple[Message, ...]
    check: Check | None

    @property
    def prompt(self) -> tuple[Message, ...]:
        """All messages before the reference reply."""
        return self.messages[:-1]

    @property
    def reply(self) -> str:
        """The reference reply."""
        return self.messages[-1].content


def chat(*turns: str, system: str | None = None) -> tuple[Message, ...]:
    """Messages from what user and assistant say in turn, the user first."""
    head = () if system is None else (Message("system", system),)
    sides: tuple[Role, Role] = ("user", "assistant")
    return head + tuple(Message(sides[number % 2], text) for number, text in enumerate(turns))


def to_json(example: Example) -> str:
    """The example as one line of JSONL, without the line break."""
    return json.dumps(
        {
            "kind": example.kind,
            "messages": [
                {"role": message.role, "content": message.content} for message in example.messages
            ],
            "check": None if example.check is None else _check_to_data(example.check),
        },
        ensure_ascii=False,
    )


def from_json(line: str) -> Example:
    """The example that `to_json` wrote. Raises ValueError for a role or check it does not know."""
    data = json.loads(line)
    return Example(
        kind=data["kind"],
        messages=tuple(
            Message(_role(entry["role"]), entry["content"]) for entry in data["messages"]
        ),
        check=None if data["check"] is None else _check_from_data(data["check"]),
    )


def _same_json(left: Any, right: Any) -> bool:
    """Equality that, unlike Python's, keeps true apart from 1 and still takes 2.0 for 2."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            _same_json(left[key], right[key]) for key in left
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same_json, left, right))
    return bool(left == right)


def _role(name: str) -> Role:
    for role in ROLES:
        if role == name:
            return role
    raise ValueError(f"unknown role {name!r}; known: {', '.join(ROLES)}")


def _check_to_data(check: Check) -> dict[str, object]:
    match check:
        case JsonCheck(expected):
            return {"type": "json", "expected": expected}
        case TextCheck(expected):
            return {"type": "text", "expected": expected}
        case NumberCheck(number):
            return {"type": "number", "expected": number}
        case KeywordCheck(groups, forbidden):
            return {"type": "keywords", "groups": groups, "forbidden": forbidden}


def _check_from_data(data: Mapping[str, Any]) -> Check:
    match data["type"]:
        case "json":
            return JsonCheck(data["expected"])
        case "text":
            return TextCheck(data["expected"])
        case "number":
            return NumberCheck(float(data["expected"]))
        case "keywords":
            return KeywordCheck(_groups(data["groups"]), tuple(data["forbidden"]))
        case other:
            raise ValueError(f"unknown check {other!r}; known: json, text, number, keywords")


def _groups(groups: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(group) for group in groups)
