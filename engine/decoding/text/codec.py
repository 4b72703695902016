"""Convert text to tokens and back: chat template, incremental detokenisation, stop strings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from engine.decoding.text.chat import Chat, ChatTemplate
from engine.decoding.text.control_tokens import ControlTokens
from engine.errors import ContextExceeded, InvalidRequest
from engine.models.checkpoints.tokenizer import load_tokenizer
from engine.request import Request
from engine.tool_calls.styles import CallStyle, told
from engine.values import CHARACTERS_PER_TOKEN

_UNFINISHED = "\ufffd"  # what an incomplete UTF-8 sequence decodes to
_TAIL = 6
"""Tokens of context before a decoded piece: without them some decoders drop a leading space."""
_WINDOW = 16
"""Most tokens that are decoded again for each new one: finding where a shorter window may begin costs
a decoding of its own."""
_LONGEST = 4
"""Bytes, so at most tokens, of one UTF-8 character."""
_PART = 32_768
"""Characters that are encoded at once while a long text is measured."""


class TextCodec:
    """A tokenizer with its chat template. Runs no code from the folder.

    Threads may share it: nothing here changes the tokenizer once it is loaded.
    """

    def __init__(self, path: Path) -> None:
        """Load the tokenizer of the model in ``path``, a folder or a GGUF file. Raises ModelError."""
        loaded = load_tokenizer(path)
        self._backend = loaded.backend
        self._template = ChatTemplate(loaded.render, loaded.template)
        self.token_text = lru_cache(maxsize=65_536)(self._token_text)
        self._anchor = self._backend.encode("a", add_special_tokens=False).ids
        self._control = ControlTokens(self._backend)

    def tokenizer_json(self) -> str:
        """Return the tokenizer as a tokenizer.json, with what its config adds."""
        content: str = self._backend.to_str()
        return content

    @property
    def has_template(self) -> bool:
        return self._template.exists

    @property
    def written_calls(self) -> CallStyle:
        """The style in which the model writes tool calls."""
        return self._template.calls

    @property
    def calls(self) -> CallStyle:
        """The style in which the text of its replies has them."""
        return told(self._template.calls)

    @property
    def template_tools(self) -> bool:
        """Whether the chat template has tools."""
        return self._template.has_tools

    @property
    def thinking(self) -> tuple[str, ...]:
        """The choices of how much to think that the chat template has."""
        return self._template.thinking

    def token_named(self, name: str) -> int | None:
        """Return the id of the token with that name, or None."""
        token: int | None = self._backend.token_to_id(name)
        return token

    def encode_request(self, request: Request, context: int | None = None) -> list[int]:
        """Return the prompt's tokens. Raises InvalidRequest if the template refuses the messages.

        Names of control tokens are text in messages, and control tokens in a ``prompt``, which takes the
        place of a rendered chat. With a ``context``, raises ContextExceeded for a text many times too
        long, without encoding all of it.
        """
        if request.token_ids is not None:
            return list(request.token_ids)
        if request.prompt is not None:
            return self.encode_bounded(request.prompt, context, special=True)
        special = not self.has_template
        chat = Chat.of(request)
        plain = self._template.render(chat)
        self._check_length(plain, context)
        if not any(map(self._control.contains_control_token, chat.texts())):
            return self.encode(plain, special=special)
        text = self._template.render(chat.mapped(self._control.escape))
        self._check_length(text, context)
        return self._encode_escaped(text, special=special)

    def encode_bounded(self, text: str, context: int | None, *, special: bool) -> list[int]:
        """Return the tokens of ``text``. Raises as ``encode``, and ContextExceeded as
        ``encode_request``."""
        self._check_length(text, context)
        return self.encode(text, special=special)

    def _check_length(self, text: str, context: int | None) -> None:
        """Raise ContextExceeded for a text that cannot fit, before it takes time and memory.

        Counts part by part. Each cut may add a token or two, which is far from doubling the number.
        """
        if context is None or len(text) <= max(_PART, CHARACTERS_PER_TOKEN * context):
            return
        count = 0
        for part in self._encoded_parts(text):
            count += len(part)
            if count > 2 * context:
                raise ContextExceeded.by_far(context)

    def tokenize(self, text: str) -> list[int]:
        """Return tokens of a text within a message. A long text is encoded part by part, which may add a
        token at each cut. Raises as ``encode``."""
        return [token for part in self._encoded_parts(text) for token in part]

    def encode_as_text(self, text: str, context: int | None = None) -> list[int]:
        """Return the tokens of ``text``, in which names of control tokens are text. Raises as
        ``encode_bounded``."""
        self._check_length(text, context)
        if not self._control.contains_control_token(text):
            return self.encode(text, special=False)
        return self._encode_escaped(self._control.escape(text), special=False)

    def _encode_escaped(self, text: str, *, special: bool) -> list[int]:
        try:
            return self._control.encode(text, special=special)
        except TypeError as error:
            raise _broken() from error

    def _encoded_parts(self, text: str) -> Iterator[list[int]]:
        for start in range(0, len(text), _PART):
            yield self.encode(text[start : start + _PART], special=False)

    def render(self, request: Request) -> str:
        """Return the chat's text up to the assistant's reply; without a template, the messages joined."""
        return self._template.render(Chat.of(request)) + request.prefill

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of ``text``. Raises InvalidRequest for text that is not Unicode.

        ``special``: add the tokens that the tokenizer puts around a text, such as a first <s>.
        """
        try:
            ids: list[int] = self._backend.encode(text, add_special_tokens=special).ids
        except TypeError as error:  # a lone half of a surrogate pair is no Unicode text
            raise _broken() from error
        return ids

    def encode_part(self, text: str, context: int) -> list[int]:
        """Encode part of a chat, as far as it may fit ``context``. Raises as ``encode``."""
        return self.encode(text[: max(_PART, CHARACTERS_PER_TOKEN * context)], special=False)

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Return the text of ``tokens``; special tokens decode to nothing, or to their names if
        ``special``."""
        text: str = self._backend.decode(list(tokens), skip_special_tokens=not special)
        return text

    def _token_text(self, token: int) -> str:
        """Return the text of one token with its leading space; a special token's is its name."""
        before = self._backend.decode(self._anchor, skip_special_tokens=False)
        both: str = self._backend.decode([*self._anchor, token], skip_special_tokens=False)
        return both[len(before) :] or str(self._backend.id_to_token(token) or "")


def _broken() -> InvalidRequest:
    return InvalidRequest(
        "messages", "The text contains an invalid character that cannot be encoded. Remove it."
    )


class Detokenizer:
    """Decodes tokens one by one into text, in whole characters.

    Decoding is not concatenation (spaces, split UTF-8), so each piece is the difference between two
    decodings that begin at the same earlier token.
    """

    def __init__(self, codec: TextCodec, prompt: Sequence[int]) -> None:
        self._codec = codec
        self._unfinished = 0  # tokens since the text last ended in a whole character
        self._window: list[int] = []
        self._shown = 0  # characters of the window's text
        self._keep(list(prompt))

    def push(self, token: int) -> str:
        """Return the text that ``token`` completes; empty while a character is unfinished."""
        self._window.append(token)
        text = self._codec.decode(self._window)
        if text.endswith(_UNFINISHED):
            self._unfinished += 1
            if self._unfinished < _LONGEST:
                return ""
            # No character is that long, so these bytes are invalid. Only the last may begin one.
            piece = text[self._shown : -1]
            self._keep(self._window, open_end=1)
            return piece
        self._unfinished = 0
        piece = text[self._shown :]
        if len(self._window) < _WINDOW:
            self._shown = len(text)
        else:
            self._keep(self._window)
        return piece

    def flush(self) -> str:
        """Return the rest of the text: an unfinished character as U+FFFD."""
        return self._codec.decode(self._window)[self._shown :]

    def _keep(self, tokens: list[int], open_end: int = 0) -> None:
        """Continue after ``tokens``; all of their text but the last ``open_end`` characters is shown."""
        self._window, text = self._end(tokens)
        self._shown = len(text) - open_end

    def _end(self, tokens: list[int]) -> tuple[list[int], str]:
        """Return the last tokens that decode as they would in the whole text, and their text.

        They have some text, so that no space counts as leading. They do not begin inside a character:
        sentencepiece would decode a whole run of byte tokens to U+FFFD.
        """
        size = _TAIL
        text = self._codec.decode(tokens[-size:])
        while not text and size < len(tokens):
            size *= 2
            text = self._codec.decode(tokens[-size:])
        if text.startswith(_UNFINISHED):
            for longer in range(size + 1, size + _LONGEST):
                whole = self._codec.decode(tokens[-longer:])
                if not whole.startswith(_UNFINISHED):
                    return tokens[-longer:], whole
        return tokens[-size:], text


class StopStrings:
    """Finds stop strings in streamed text and holds back a possible beginning of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._withheld = ""
        self.found: str | None = None
        """The stop string that ended the text."""

    def push(self, text: str) -> str:
        """Return text that is safe to show; set ``found`` once a stop string is complete."""
        pending = self._withheld + text
        found = [(at, stop) for stop in self._stops if (at := pending.find(stop)) >= 0]
        if found:
            (at, self.found), self._withheld = min(found), ""
            return pending[:at]
        keep = self._overlap(pending)
        self._withheld = pending[len(pending) - keep :]
        return pending[: len(pending) - keep]

    def flush(self) -> str:
        """Return the text that was held back and is no stop string."""
        text, self._withheld = self._withheld, ""
        return text

    def _overlap(self, text: str) -> int:
        """Return the length of the longest suffix of ``text`` that begins a stop string."""
        longest = max(map(len, self._stops), default=1) - 1
        return next(
            (
                size
                for size in range(min(longest, len(text)), 0, -1)
                if any(stop.startswith(text[-size:]) for stop in self._stops)
            ),
            0,
        )
