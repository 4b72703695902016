"""Plain text for pretraining: a folder of Markdown tales in, cleaned chunks of 300 to 700 words out.

Files begin with a header (title, author, year) that ends at a line of dashes. What follows is text with `##` headings.
The cleaned text is ASCII, so a byte-level tokenizer spends no tokens on rare characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FEWEST_WORDS = 300
MOST_WORDS = 700
_LONG_PARAGRAPH = (
    400  # a longer one is cut at sentences, so that every chunk can keep within its bounds
)
_TAIL_WORDS = 100  # a shorter rest at the end of a book is dropped

_TYPOGRAPHY = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2013": "-",
        "\u2014": "--",
        "\u2026": "...",
        "\u00a3": "L",
        "\u00b0": " degrees",
        "\u00c6": "Ae",
        "\u00e6": "ae",
        "\u0153": "oe",
        "\u00d7": "x",
        "\u00a0": " ",
    }
)
_HEADER_END = re.compile(r"^-{5,}[ \t]*$", re.MULTILINE)
_MARKUP = re.compile(r"\\|[_*]+(?=\S)|(?<=\S)[_*]+|^\s*[_*]+\s*$")
_FOOTNOTE = re.compile(r"\[(?:Footnote|Bon)?:?[^\]]*\]|\[Footnote:.*$|\[\d+\]")
_SPACES = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?=\s)|(?<=[.!?][\"'])(?=\s)")
# Old books carry words that no guide of ours should learn; a paragraph with one is left out.
_UNWANTED = re.compile(
    r"\b(?:nigger\w*|darkey?s?|darkies|pickaninn\w+|squaws?|chinam[ae]n|redskins?|injuns?|blackamoors?|half-?breeds?"
    r"|savages?|rap(?:e|ed|ist)|whores?|sluts?|jews?|jewess|gyps(?:y|ies)|niggardly|negro(?:es)?|mulatto(?:es)?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of a book under one heading; `title` is empty before the first heading."""

    title: str
    paragraphs: tuple[str, ...]


def documents(folder: Path) -> Iterator[str]:
    """Cleaned chunks of every Markdown file in `folder`, in the order of the file names."""
    files = sorted(folder.glob("*.md"))
    if not files:
        raise FileNotFoundError(
            f"no .md files in {folder}; point to the folder that holds the tales"
        )
    for file in files:
        yield from chunks(sections(file.read_text(encoding="utf-8")))


def sections(text: str) -> list[Section]:
    """The cleaned sections of one book, its header left out."""
    header = _HEADER_END.search(text)
    body = ascii_text(text[header.end() :] if header else text)
    found: list[Section] = []
    title, paragraphs = "", list[str]()
    for block in re.split(r"\n\s*\n|\n(?=#)|(?<=\n)(?=#)", body):
        heading, rest = _split_heading(block.strip())
        if heading:
            found.append(Section(title, tuple(paragraphs)))
            title, paragraphs = plain_title(heading), []
        cleaned = clean(rest)
        if cleaned and not is_unwanted(cleaned):
            paragraphs.append(cleaned)
    found.append(Section(title, tuple(paragraphs)))
    return [section for section in found if section.paragraphs]


def chunks(book: list[Section]) -> Iterator[str]:
    """Pieces of 300 to 700 words, cut at paragraphs; a book's last piece may be shorter."""
    pending: list[str] = []
    count = 0
    for paragraph in _paragraphs(book):
        words = len(paragraph.split())
        if pending and (
            count + words > MOST_WORDS or (count >= FEWEST_WORDS and count + words > 550)
        ):
            yield "\n\n".join(pending)
            pending, count = [], 0
        pending.append(paragraph)
        count += words
    if count >= _TAIL_WORDS:
        yield "\n\n".join(pending)


def clean(text: str) -> str:
    """One paragraph without markup, footnotes, line breaks and anything that is not ASCII."""
    return ascii_text(_SPACES.sub(" ", _MARKUP.sub("", _FOOTNOTE.sub("", text)))).strip()


def ascii_text(text: str) -> str:
    """The text with typographic signs spelled plainly and accents dropped."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", text.translate(_TYPOGRAPHY))
    return plain.encode("ascii", "ignore").decode("ascii")


def is_unwanted(text: str) -> bool:
    """Whether the text has a slur or another word that Pip should not learn."""
    return _UNWANTED.search(text) is not None


def plain_title(heading: str) -> str:
    """A heading in title case: 'THE FOX AND THE GRAPES' becomes 'The Fox and the Grapes'."""
    words = clean(heading).strip(" .").split()
    if any(word[1:].islower() for word in words):
        return " ".join(words)
    return " ".join(_capital(word, first=number == 0) for number, word in enumerate(words))


def _capital(word: str, first: bool) -> str:
    small = word.lower()
    if not first and small in {
        "a",
        "an",
        "and",
        "at",
        "by",
        "for",
        "from",
        "his",
        "in",
        "of",
        "on",
        "or",
        "the",
        "to",
    }:
        return small
    return "-".join(part[:1].upper() + part[1:] for part in small.split("-"))


def _split_heading(block: str) -> tuple[str, str]:
    """The heading that a block begins with, or "", and the rest."""
    if not block.startswith("#"):
        return "", block
    heading, _, rest = block.partition("\n")
    return heading.lstrip("#").strip(), rest


def _paragraphs(book: list[Section]) -> Iterator[str]:
    for section in book:
        if section.title:
            yield section.title
        for paragraph in section.paragraphs:
            yield from _short_enough(paragraph)


def _short_enough(paragraph: str) -> Iterator[str]:
    """The paragraph, cut at sentences where it is long."""
    if len(paragraph.split()) <= _LONG_PARAGRAPH:
        yield paragraph
        return
    pending: list[str] = []
    count = 0
    for sentence in _SENTENCE_END.split(paragraph):
        words = len(sentence.split())
        if pending and count + words > _LONG_PARAGRAPH:
            yield "".join(pending).strip()
            pending, count = [], 0
        pending.append(sentence)
        count += words
    yield "".join(pending).strip()
