"""Encode names of control tokens in messages as text: only the chat template may set control tokens.

In the rendered text the "<|end|>" of a template and one in a message look alike. So names in messages are
replaced by marks while the template runs. Afterwards the template's own names are replaced by secret
ones, and a copy of the tokenizer that knows control tokens by the secret names encodes the text. In all
else (spaces, normal forms, splitting) the copy acts as the tokenizer. Chats without such names skip this.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Collection, Mapping
from typing import Any

from engine.errors import InvalidRequest

_BARS = re.compile(r"<[|\uff5c][^<>]*[|\uff5c]>|</?tool_\w+>")
"""Names of control tokens that files do not mark as special: DeepSeek's <\uff5cUser\uff5c>, and the tags
of Qwen's templates around tool calls and their results."""


class ControlTokens:
    """The control tokens of one tokenizer. Threads may share it."""

    def __init__(self, backend: Any) -> None:
        """``backend``: a ``tokenizers.Tokenizer``, which is not changed."""
        self._backend = backend
        self._secret = secrets.token_hex(8)
        added = backend.get_added_tokens_decoder()
        control = {
            token.content: number
            for number, token in added.items()
            if (token.special or _BARS.fullmatch(token.content)) and token.content.strip()
        }
        self._ids: Mapping[str, int] = control
        self._own_names = {name: self._mark("t", number) for name, number in control.items()}
        self._marks = {name: self._mark("c", number) for name, number in control.items()}
        # As the tokenizer matches: from the left, the longest; another added token may contain a name.
        names = [token.content for token in added.values() if token.content.strip()]
        self._names, self._either = _Names(names), _Names([*names, *self._marks.values()])
        self._renamed = {mark: name for name, mark in self._marks.items()} | self._own_names
        normalized = any(token.normalized for token in added.values() if token.content in control)
        self._normalizer = backend.normalizer if normalized else None
        # Control tokens that are also ordinary words of the vocabulary: a tokenizer that drops or merges
        # characters can produce one from text that is not its name.
        model, unknown = backend.model, getattr(backend.model, "unk_token", None)
        self._words = frozenset(
            number
            for name, number in control.items()
            if name != unknown and model.token_to_id(name) == number
        )
        self._copy: Any = None
        self._copying = threading.Lock()

    def escape(self, content: str) -> str:
        """Return ``content`` with the names of control tokens replaced by marks."""
        return self._names.replaced(content, self._marks)

    def contains_control_token(self, content: str) -> bool:
        """Return whether ``content``, encoded plainly, would yield a control token."""
        if self.escape(content) != content:
            return True
        if self._normalizer is not None:
            normal = self._normalizer.normalize_str(content)
            if self.escape(normal) != normal:
                return True
        return bool(self._words) and not self._words.isdisjoint(self._encode_plainly(content))

    def _encode_plainly(self, content: str) -> list[int]:
        try:
            ids: list[int] = self._backend.encode(content, add_special_tokens=False).ids
        except TypeError:  # not Unicode: encoding the chat will raise
            return []
        return ids

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of a ``text`` in which marks are text and names are control tokens.

        ``special``: as in ``TextCodec.encode``. Raises InvalidRequest if the tokenizer cannot be copied.
        """
        renamed = self._either.replaced(text, self._renamed)
        ids: list[int] = self._renamed_copy().encode(renamed, add_special_tokens=special).ids
        return ids

    def _mark(self, kind: str, number: int) -> str:
        # Private use characters: no normal form changes them, and no template looks for them.
        return f"\ue000{self._secret}{kind}{number:x}\ue001"

    def _renamed_copy(self) -> Any:
        """Return the copy, made at first use: it takes about a second for a large vocabulary."""
        with self._copying:
            if self._copy is None:
                self._copy = self._copied()
            return self._copy

    def _copied(self) -> Any:
        from tokenizers import Tokenizer

        content = json.loads(self._backend.to_str())
        _rename(content, self._own_names)
        try:
            copy = Tokenizer.from_str(json.dumps(content))
        except Exception as error:  # tokenizers raises nothing more exact
            raise _not_encodable() from error
        if any(copy.token_to_id(self._own_names[name]) != at for name, at in self._ids.items()):
            raise _not_encodable()
        return copy


def _not_encodable() -> InvalidRequest:
    return InvalidRequest(
        "messages",
        "A message contains the name of a control token, and this model's tokenizer "
        "cannot encode it as text. Remove it, or put a space into it.",
    )


class _Names:
    """Names of tokens, found from the left, the longest first. A pattern of the thousands that some
    vocabularies have would try each of them at every "<"."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        sizes: dict[str, set[int]] = {}
        for name in names:
            sizes.setdefault(name[0], set()).add(len(name))
        self._sizes = {first: sorted(each, reverse=True) for first, each in sizes.items()}
        self._firsts = re.compile("|".join(map(re.escape, sizes)) or r"(?!)")

    def replaced(self, text: str, by: Mapping[str, str]) -> str:
        """Return ``text`` with the names that ``by`` has replaced."""
        parts, done, end = list[str](), 0, 0
        while (first := self._firsts.search(text, end)) is not None:
            at = first.start()
            each = (text[at : at + size] for size in self._sizes[first[0]])
            name = next((part for part in each if part in self._names), "")
            end = at + max(len(name), 1)
            if name in by:
                parts += text[done:at], by[name]
                done = end
        return "".join([*parts, text[done:]])


def _rename(content: dict[str, Any], names: Mapping[str, str]) -> None:
    """Rename tokens by ``names`` wherever the ``content`` of a tokenizer.json has them."""
    for token in content["added_tokens"]:
        if token["content"] in names:
            # No text has the secret name, so it needs no normal form and no word boundary.
            token |= {"content": names[token["content"]], "normalized": False, "single_word": False}
    model = content["model"]
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(text, text): number for text, number in vocabulary.items()}
    elif isinstance(vocabulary, list):  # Unigram: pieces with their scores
        model["vocab"] = [[names.get(text, text), score] for text, score in vocabulary]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    if model.get("merges"):
        model["merges"] = [merge for merge in model["merges"] if not _touches(merge, names)]


def _touches(merge: Any, names: Mapping[str, str]) -> bool:
    """Return whether a merge takes or makes one of ``names``, as some vocabularies list."""
    left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
    return left in names or right in names or left + right in names
