"""Pip's tokenizer: byte-level BPE, trained here, saved in transformers' layout.

Byte-level means that any UTF-8 text round-trips. The chat form is one line per marker:

    <|bos|><|user|>
    Hello<|end|>
    <|assistant|>
    Hi!<|end|>

A line break always stands alone as a token after a marker, because content is trimmed; so the tokens
of a chat up to a reply are a prefix of the tokens of any longer chat, and a KV cache can be reused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from engine.errors import ModelError
from tools.pip.corpora.example import Message

BOS, END, PAD = "<|bos|>", "<|end|>", "<|pad|>"
SYSTEM, USER, ASSISTANT = "<|system|>", "<|user|>", "<|assistant|>"
SPECIAL = (BOS, END, PAD, SYSTEM, USER, ASSISTANT)

TEMPLATE = (
    "{{- '<|bos|>' -}}"
    "{%- for message in messages -%}"
    "{{- '<|' + message['role'] + '|>\\n' + message['content'] | trim + '<|end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' -}}{%- endif -%}"
)

# GPT-2's split (Radford et al. 2019) with two changes: digits stand alone, so that numbers are
# spelled the same everywhere, and line breaks never join other white space.
SPLIT = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|[\r\n]+|[^\S\r\n]+(?!\S)|\s+"


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """A tokenizer of `vocabulary` entries; the special ones come first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, context: int) -> None:
    """Writes tokenizer.json and tokenizer_config.json into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=True)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": END,
        "pad_token": PAD,
        "extra_special_tokens": [SYSTEM, USER, ASSISTANT],
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        "chat_template": TEMPLATE,
    }
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")


def render(messages: Sequence[Message], reply_next: bool = False) -> str:
    """What the chat template renders, without Jinja; `reply_next` opens the assistant's turn."""
    body = "".join(f"<|{said.role}|>\n{said.content.strip()}{END}\n" for said in messages)
    return BOS + body + (f"{ASSISTANT}\n" if reply_next else "")


@dataclass(frozen=True, slots=True)
class Document:
    """Token ids of one document, `<|bos|>` first, and which of them are learned."""

    tokens: list[int]
    learned: list[bool]


class Encoder:
    """Examples and texts to documents. Chats teach the replies and their `<|end|>`, texts everything."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.bos, self.end, self.pad = (_marker(tokenizer, text) for text in (BOS, END, PAD))
        self.assistant = _marker(tokenizer, ASSISTANT)

    def chats(self, chats: Sequence[Sequence[Message]]) -> list[Document]:
        texts = [render(messages) for messages in chats]
        encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [Document(entry.ids, self._replies(entry.ids)) for entry in encoded]

    def texts(self, texts: Sequence[str]) -> list[Document]:
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        ids = [[self.bos, *entry.ids] for entry in encoded]
        return [Document(tokens, [False] + [True] * (len(tokens) - 1)) for tokens in ids]

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a chat that waits for the assistant's reply."""
        text = render(messages, reply_next=True)
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def _replies(self, tokens: Sequence[int]) -> list[bool]:
        """True from after `<|assistant|>` and its line break up to the reply's `<|end|>`."""
        learned = [False] * len(tokens)
        at = 0
        while at < len(tokens):
            if tokens[at] == self.assistant:
                at += 2  # the marker and its line break are given, not predicted
                while at < len(tokens):
                    learned[at] = True
                    if tokens[at] == self.end:
                        break
                    at += 1
            at += 1
        return learned


def _marker(tokenizer: Tokenizer, text: str) -> int:
    """The id of a special token, which `train_tokenizer` put in."""
    found = tokenizer.token_to_id(text)
    if found is None:
        raise ModelError(f"The tokenizer has no {text}; it was not made for this training.")
    return int(found)
