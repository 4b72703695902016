"""Token tables of both kinds of tokenizers."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.drafting.cross_vocabulary.token_table import (
    TokenTable,
    VocabularyMap,
    map_vocabularies,
    read_token_table,
)
from tests.support.checkpoints import write_tokenizer
from tests.support.vocabularies import write_sentencepiece

ROWS = 512


def mapped(target: TokenTable, draft: TokenTable) -> VocabularyMap:
    return map_vocabularies(target, draft, target_rows=ROWS, draft_rows=ROWS)


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TokenTable]:
    """``bytes``: byte-level; ``pieces``: SentencePiece's way; ``bare``: without byte tokens."""
    folder: Path = tmp_path_factory.mktemp("tokenizers")
    write_tokenizer(folder / "bytes")
    write_sentencepiece(folder / "pieces")
    write_sentencepiece(folder / "bare", byte_tokens=False)
    return {name: read_token_table(folder / name) for name in ("bytes", "pieces", "bare")}
