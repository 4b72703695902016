"""A folder's tokenizer: the published file, and what its configuration adds to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from engine.files import LARGEST
from engine.models.checkpoints.tokenizer import load_tokenizer, named_ends
from engine.models.checkpoints.tokenizer_folder import has_template
from tests.support.checkpoints import write_tokenizer

CHAT = [{"role": "user", "content": "hi"}]


def folder_with(tmp_path: Path, **settings: object) -> Path:
    """``settings`` go over those of a small tokenizer."""
    write_tokenizer(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    return tmp_path


def by_transformers(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def test_tokens_that_the_file_lacks_are_added_as_transformers_adds_them(tmp_path: Path) -> None:
    added = {
        "320": {"content": "<tool>", "special": False, "normalized": False},
        "321": {"content": "<end>", "special": True, "normalized": False},
    }
    folder = folder_with(
        tmp_path, added_tokens_decoder=added, pad_token="<pad>", extra_special_tokens=["<extra>"]
    )
    ours, theirs = load_tokenizer(folder).backend, by_transformers(folder).backend_tokenizer
    text = "a<tool>b<end><pad>c<extra><|end|>"
    ids = ours.encode(text).ids
    assert ids == theirs.encode(text).ids
    for special in (True, False):
        assert ours.decode(ids, skip_special_tokens=special) == theirs.decode(
            ids, skip_special_tokens=special
        )


def test_a_template_names_special_tokens_of_any_role(tmp_path: Path) -> None:
    folder = folder_with(
        tmp_path,
        eos_token={"content": "<|end|>", "__type": "AddedToken"},
        turn_token="<|end|>",
        chat_template="{{ bos_token }}{{ eos_token }}{{ turn_token }}{{ pad_token }}",
    )
    render = load_tokenizer(folder).render
    assert render is not None
    assert render(CHAT) == "<|start|><|end|><|end|>"
    assert named_ends(folder) == ("<|start|>", "<|end|>")


def test_the_template_is_the_one_that_transformers_takes(tmp_path: Path) -> None:
    """A file of its own before the configuration; of several, the default."""
    several = [
        {"name": "tool_use", "template": "tools"},
        {"name": "default", "template": "by name"},
    ]
    folder = folder_with(tmp_path, chat_template=several)
    render = load_tokenizer(folder).render
    assert render is not None and render(CHAT) == "by name"
    older = folder_with(tmp_path / "older", chat_template=None)
    assert not has_template(older)
    (older / "chat_template.json").write_text('{"chat_template": "in an older file"}')
    render = load_tokenizer(older).render
    assert has_template(older) and render is not None and render(CHAT) == "in an older file"
    (folder / "chat_template.jinja").write_text("by file {{ messages[0].content }}")
    render = load_tokenizer(folder).render
    assert render is not None and render(CHAT) == "by file hi"
    theirs = by_transformers(folder).apply_chat_template(CHAT, tokenize=False)
    assert theirs == render(CHAT)


def test_what_is_broken_is_told(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(ModelError, match=r"tokenizer in .* cannot be read"):
        load_tokenizer(folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match=r"tokenizer in .* cannot be read"):
        load_tokenizer(folder)


def test_a_template_without_end_is_not_read(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    with (folder / "chat_template.jinja").open("wb") as file:
        file.truncate(LARGEST + 1)  # holes, which take no room
    with pytest.raises(ModelError, match="it is larger than 256 MB"):
        has_template(folder)
