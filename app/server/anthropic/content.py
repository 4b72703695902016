"""Convert Anthropic's blocks to the parts of OpenAI's messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from app.documents.reading import is_pdf, read_file
from app.server.anthropic.schemas import OTHERS, BlockBody, SourceBody
from app.server.errors import ApiError, missing
from app.server.fields.images import file_in
from app.server.fields.unsupported import unsupported
from app.storage.attachments import Attachment, with_files
from engine.errors import InvalidRequest

Json = dict[str, Any]
"""A part of a message."""
T = TypeVar("T")

MOST_FILES = 16
"""Documents of a request that must be read in another process, at most."""


def parts_of(blocks: Sequence[BlockBody], path: str, *, first: int = 0) -> Iterator[Json]:
    """Yield the parts of a user's blocks, or of a tool's result. Raises ApiError for other types.
    ``first``: the place of the first block in the list at ``path``."""
    for at, block in enumerate(blocks, first):
        place = f"{path}[{at}]"
        match block.type:
            case "text":
                yield text_part(given(block.text, f"{place}.text"))
            case "image":
                yield _image(source_of(block, place), f"{place}.source")
            case "document":
                yield from _document(block, place)
            case "search_result":
                texts = texts_of(given(block.content, f"{place}.content"), f"{place}.content")
                heads = filter(None, (block.title, block.source))
                yield text_part("\n".join([*map(str, heads), *texts]))
            case _:
                raise _unsupported(block, place)


def texts_of(blocks: Sequence[BlockBody], path: str, *, first: int = 0) -> list[str]:
    """Return the texts of blocks. Raises ApiError for other blocks. ``first``: as for ``parts_of``."""
    for at, block in enumerate(blocks, first):
        if block.type != "text":
            raise _unsupported(block, f"{path}[{at}]")
    return [given(block.text, f"{path}[{at}].text") for at, block in enumerate(blocks, first)]


def _unsupported(block: BlockBody, path: str) -> ApiError:
    what = f"blocks of type {block.type[:80]!r} here"
    return unsupported(f"{path}.type", what, "Leave the block out.")


def text_part(text: str) -> Json:
    return {"type": "text", "text": text}


def given(value: T | None, path: str) -> T:
    """Return a field's value. Raises ApiError if it is missing."""
    if value is None:
        raise missing(path)
    return value


def source_of(block: BlockBody, path: str) -> SourceBody:
    """Return the source of an image or a document. Raises ApiError for one that must be fetched."""
    source = block.source
    if not isinstance(source, SourceBody):
        raise missing(f"{path}.source")
    if source.type in OTHERS:
        what = f"sources of type {source.type!r}, which it would have to fetch"
        raise unsupported(f"{path}.source.type", what, "Send the data itself.")
    return source


def _image(source: SourceBody, path: str) -> Json:
    if source.type != "base64":
        what = f"images of type {source.type[:80]!r}"
        raise unsupported(f"{path}.type", what, "Send them as base64.")
    data = given(source.data, f"{path}.data")
    file_in(data, f"{path}.data")
    return {"type": "image_url", "image_url": f"data:image/any;base64,{data}"}


def _document(block: BlockBody, place: str) -> Iterator[Json]:
    """Yield a document as the pages give one to a model: its title, then its text in a fence."""
    source, path = source_of(block, place), f"{place}.source"
    title = block.title or "Document"
    if block.context:
        title += f"\n{block.context}"
    match source.type:
        case "text":
            yield _file(Attachment(title, given(source.data, f"{path}.data")))
        case "base64":
            yield _file(_pdf(title, given(source.data, f"{path}.data"), f"{path}.data"))
        case "content":
            yield text_part(title)
            yield from parts_of(given(source.content, f"{path}.content"), f"{path}.content")
        case _:
            what = f"documents of type {source.type[:80]!r}"
            raise unsupported(f"{path}.type", what, "Send base64, text or content.")


def _pdf(title: str, data: str, path: str) -> Attachment:
    """Return a document that is read in a worker process. Raises InvalidRequest if it cannot be."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "document.pdf"
        content = file_in(data, path)
        if not is_pdf(content):
            raise InvalidRequest(
                path, f"{path}: the document is no PDF. Send its text as type text."
            )
        file.write_bytes(content)
        try:
            return replace(read_file(file, file.name).attachment, name=title)
        except InvalidRequest as error:
            why = str(error).removeprefix(file.name).strip()
            raise InvalidRequest(path, f"{path}: the document {why}") from error


def files_in(blocks: Sequence[BlockBody]) -> int:
    """Return how many documents must be read in another process."""
    return sum(
        files_in(block.content or ())
        + (
            block.type == "document"
            and isinstance(block.source, SourceBody)
            and block.source.type == "base64"
        )
        for block in blocks
    )


def _file(attachment: Attachment) -> Json:
    return text_part(with_files("", [attachment]))
