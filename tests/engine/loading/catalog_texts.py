"""A catalog without mistakes, and how tests write one and read the complaint about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import CatalogError
from engine.loading.catalog import load_catalog

MODEL = """\
  - id: {id}
    name: {id}
    repository: owner/{id}
    tokenizer: family
    licence: mit
    parameters: {parameters}
    bytes: 2_000
    context: 256
    vocabulary: 32
    layers: 1
    kv_heads: 1
    head_dim: 4
"""
GOOD = f"""\
models:
{MODEL.format(id="big", parameters=1000)}\
{MODEL.format(id="small", parameters=100)}\
pairs:
  - id: pair
    name: A pair
    target: big
    draft: small
"""


def write(folder: Path, text: str, name: str = "model_catalog.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def mistake(folder: Path, text: str) -> str:
    file = write(folder, text)
    with pytest.raises(CatalogError) as caught:
        load_catalog(file)
    message = str(caught.value)
    assert str(file) in message
    return message
