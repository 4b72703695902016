"""Control tokens are the chat template's to set: what people write of them is text.

Templates are rendered to one text, and there the "<|end|>" of a template and one in a message look alike.
So a message's are hidden while the template runs. Afterwards the template's own get names that nobody
could have written, and a copy of the tokenizer that knows them by these names alone makes the tokens:
whatever else it does with a text (spaces, normal forms, cutting) it does as before. A chat without such
names needs none of this and gets none.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from engine.errors import InvalidRequest

_BARS = re.compile(r"<[|\uff5c][^<>]*[|\uff5c]>|</?tool_\w+>")
"""Control tokens by their look, where the file forgets to say so: DeepSeek's <\uff5cUser\uff5c>, and what
Qwen's templates put around calls of tools and what these return."""


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
        # As the tokenizer finds them: from the left, the longest; others may cover such a name.
        names = [token.content for token in added.values() if token.content.strip()]
        self._names, self._either = _any_of(names), _any_of([*names, *self._marks.values()])
        self._renamed = {mark: name for name, mark in self._marks.items()} | self._own_names
        normalized = any(token.normalized for token in added.values() if token.content in control)
        self._normalizer = backend.normalizer if normalized else None
        # Some vocabularies hold their control tokens as words like others: signs that a tokenizer leaves
        # out, or merges, can make one of what is not its name.
        model, unknown = backend.model, getattr(backend.model, "unk_token", None)
        self._words = frozenset(
            number
            for name, number in control.items()
            if name != unknown and model.token_to_id(name) == number
        )
        self._copy: Any = None
        self._copying = threading.Lock()

    def hide(self, content: str) -> str:
        """``content`` with marks in the place of names of control tokens; itself where it has none."""
        return self._names.sub(lambda found: self._marks.get(found[0], found[0]), content)

    def forged(self, content: str) -> bool:
        """Whether ``content``, encoded plainly, would become a control token."""
        if any(found[0] in self._ids for found in self._names.finditer(content)):
            return True
        if self._normalizer is not None:
            normal = self._normalizer.normalize_str(content)
            if any(found[0] in self._ids for found in self._names.finditer(normal)):
                return True
        return bool(self._words) and not self._words.isdisjoint(self._plainly(content))

    def _plainly(self, content: str) -> list[int]:
        try:
            ids: list[int] = self._backend.encode(content, add_special_tokens=False).ids
        except TypeError:  # no Unicode, which whoever encodes the chat says
            return []
        return ids

    def encode(self, text: str, *, special: bool) -> list[int]:
        """The tokens of a ``text`` in which marks are text and names are control tokens.

        ``special`` adds what the tokenizer puts around a text. Raises InvalidRequest where no copy of the
        tokenizer can be made.
        """
        renamed = self._either.sub(lambda found: self._renamed.get(found[0], found[0]), text)
        ids: list[int] = self._renaming().encode(renamed, add_special_tokens=special).ids
        return ids

    def _mark(self, kind: str, number: int) -> str:
        # Private use: no normal form changes it, and no template looks for it.
        return f"\ue000{self._secret}{kind}{number:x}\ue001"

    def _renaming(self) -> Any:
        """The copy, made by the first who needs it: it takes about a second for a large vocabulary."""
        with self._copying:
            if self._copy is None:
                self._copy = self._made()
            return self._copy

    def _made(self) -> Any:
        from tokenizers import Tokenizer

        content = json.loads(self._backend.to_str())
        _rename(content, self._own_names)
        try:
            copy = Tokenizer.from_str(json.dumps(content))
        except Exception as error:  # tokenizers raises nothing more exact
            raise _cannot() from error
        if any(copy.token_to_id(self._own_names[name]) != at for name, at in self._ids.items()):
            raise _cannot()
        return copy


def _cannot() -> InvalidRequest:
    return InvalidRequest(
        "messages",
        "A message holds the name of a control token, and this model's tokenizer cannot take it as text. "
        "Remove it, or put a space into it.",
    )


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    """Finds any of ``names``, the longest at its place; nothing where there are none."""
    longest_first = sorted(set(names), key=lambda name: (-len(name), name))
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _rename(content: dict[str, Any], names: Mapping[str, str]) -> None:
    """Gives tokens other ``names`` in what a tokenizer.json holds, wherever they stand."""
    for token in content["added_tokens"]:
        if token["content"] in names:
            # A name that no text holds needs no normal form, nor must a word end beside it.
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
    """Whether a merge takes or makes one of ``names``; some vocabularies list how it could be joined."""
    left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
    return left in names or right in names or left + right in names
