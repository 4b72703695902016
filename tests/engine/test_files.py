"""What others wrote is read within bounds, or refused in words; never a RecursionError."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.cli.text.replies import collect
from app.inventory.model_folders import add_folder, remember_models
from app.settings.preferences import FILE, Preferences, PreferencesFile
from app.storage.imports.importing import import_file
from app.storage.store import Store
from engine import trace
from engine.drafting.controllers.stored_times import StoredTimes
from engine.drafting.lookup.past_replies import ReplyFiles
from engine.errors import CatalogError, DiskError, ForetokenError, ModelError
from engine.files import DEEPEST, bounded, parse_json, read_json, write_private
from engine.loading.catalog import load_catalog
from engine.loading.discovery.programs import ollama_models
from engine.models.checkpoints.safetensors_header import read_header
from engine.models.checkpoints.tokenizer import read_tokenizer
from engine.models.checkpoints.weight_files import read_json as read_config
from engine.train import schema
from engine.train.data import prompts
from engine.train.progress import Phase, ProgressFile
from engine.yaml_text import check_yaml

DEEP = "[" * 100_000
BALANCED = "[" * 900 + "]" * 900
"""Which json.loads would read."""

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_what_json_writes_is_read_as_it_was(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value).encode()):
        assert parse_json(text) == value


@pytest.mark.parametrize("depth", [1, DEEPEST - 1, DEEPEST, DEEPEST + 1, 900, 100_000])
@pytest.mark.parametrize(("opens", "inner", "closes"), [("[", "", "]"), ('{"a":', "1", "}")])
def test_depth_is_bounded_wherever_the_stack_stands(
    depth: int, opens: str, inner: str, closes: str
) -> None:
    text = opens * depth + inner + closes * depth
    if depth <= DEEPEST:
        parse_json(text)
    else:
        with pytest.raises(ValueError, match="more than 100 levels deep"):
            parse_json(text)


def test_brackets_in_texts_are_no_depth() -> None:
    assert parse_json(json.dumps("[" * 9_000_000)) == "[" * 9_000_000


def test_countless_values_are_refused_before_they_are_read() -> None:
    begun = time.thread_time()
    with pytest.raises(ValueError, match="more than 4194304 lists and objects"):
        parse_json("[" * 20_000_000)
    with pytest.raises(ValueError, match="more than 16777216 values"):
        parse_json("[" + "1," * 20_000_000 + "1]")
    assert time.thread_time() - begun < 5


@pytest.mark.parametrize("op", ["[", "- ", "a: {", "? "])
def test_deep_yaml_is_refused(op: str) -> None:
    with pytest.raises(yaml.YAMLError, match="more than 100 levels deep"):
        check_yaml(op * 100_000)


def test_aliases_of_aliases_are_refused() -> None:
    laughs = "a0: &a0 [x, x, x]\n" + "".join(
        f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)
    )
    with pytest.raises(yaml.YAMLError, match="aliases"):
        check_yaml(laughs)


def test_a_deep_catalog_does_not_kill_the_process(tmp_path: Path) -> None:
    """libyaml's recursion once overflowed the stack: SIGSEGV."""
    (tmp_path / "deep.yaml").write_text("models:\n  - " + "- " * 100_000)
    program = (
        "import sys\nfrom pathlib import Path\nfrom engine.errors import CatalogError\n"
        "from engine.loading.catalog import load_catalog\n"
        "try: load_catalog(Path(sys.argv[1]))\nexcept CatalogError as error: print(error)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "deep.yaml")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert "more than 100 levels deep" in found.stdout


def _file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _header(folder: Path, text: str) -> Path:
    raw = text.encode()
    path = folder / "model.safetensors"
    path.write_bytes(len(raw).to_bytes(8, "little") + raw)
    return path


def _import(folder: Path, text: str) -> None:
    store = Store(folder)
    try:
        import_file(store, _file(folder, "chat.json", text), "chat.json")
    finally:
        store.close()


READERS: dict[str, Callable[[Path, str], object]] = {
    "safetensors header": lambda folder, text: read_header(_header(folder, text)),
    "config.json": lambda folder, text: read_config(_file(folder, "config.json", text)),
    "tokenizer.json": lambda folder, text: read_tokenizer(
        _file(folder, "tokenizer.json", text).parent
    ),
    "train --prompts": lambda folder, text: prompts.read(_file(folder, "p.jsonl", text)),
    "chat --prompts": lambda folder, text: collect(None, _file(folder, "p.jsonl", text)),
    "trace": lambda folder, text: list(trace.read([text])),
    "recipe": lambda folder, text: schema.load(_file(folder, "recipe.yaml", text)),
    "catalog": lambda folder, text: load_catalog(_file(folder, "catalog.yaml", text)),
    "import of a chat": _import,
}


@pytest.mark.parametrize("text", [DEEP, BALANCED], ids=["open", "balanced"])
@pytest.mark.parametrize("name", READERS)
def test_deep_nesting_is_refused_in_words(name: str, text: str, tmp_path: Path) -> None:
    """Each of these once ended in a RecursionError's traceback."""
    with pytest.raises(ForetokenError):
        READERS[name](tmp_path, text)


def test_deep_settings_are_left_out_and_the_app_starts(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[" * 20_000_000)
    assert PreferencesFile(tmp_path).read() == Preferences()


def test_a_deep_manifest_of_ollamas_is_listed_with_the_reason(tmp_path: Path) -> None:
    _file(tmp_path, "manifests/registry.ollama.ai/library/deep/latest", DEEP)
    (listed,) = ollama_models(tmp_path)
    assert "more than 100 levels deep" in str(listed.reason)


def test_a_header_with_numbers_beyond_all_bounds_is_refused(tmp_path: Path) -> None:
    entry = '{"a": {"shape": [1e400], "dtype": "F32", "data_offsets": [0, 4]}}'
    with pytest.raises(ModelError, match="the header entry of tensor 'a' is invalid"):
        read_header(_header(tmp_path, entry))


def test_a_catalog_without_end_is_refused() -> None:
    with pytest.raises(CatalogError, match="not a regular file"):
        load_catalog(Path(os.devnull))


def test_a_file_larger_than_its_bound_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(40 << 30)
    with pytest.raises(OSError, match=r"^it is larger than 256 MB$"):
        read_json(tmp_path / "sparse")
    assert bounded(_file(tmp_path, "small", "1" * 8), 8) == b"1" * 8


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_private_file_is_its_owners_alone_whatever_was_there(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        write_private(_file(tmp_path, "kept", "old"), "new ü")
        write_private(tmp_path / "folder" / "kept", "new")
    finally:
        os.umask(old)
    assert (tmp_path / "kept").read_text("utf-8") == "new ü"
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o700
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "kept"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_what_the_app_keeps_is_its_owners_alone_in_a_folder_that_others_may_read(
    tmp_path: Path,
) -> None:
    """Settings, folders of models and what was measured were readable by all accounts of a machine."""
    tmp_path.chmod(0o755)
    PreferencesFile(tmp_path).keep(threads=1)
    (tmp_path / "model.gguf").touch(0o600)
    add_folder(tmp_path, tmp_path)
    remember_models(tmp_path, (tmp_path,))
    StoredTimes(tmp_path / "measured" / "model.json", "way").write({1: 0.1})
    ReplyFiles(tmp_path / "remembered").add([1, 2])
    ProgressFile(tmp_path / "progress.json").write(Phase.RECORDING)
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) == 6
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


def test_a_private_file_that_cannot_be_written_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    kept = _file(tmp_path, "kept", "old")
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DiskError, match="No space left"):
        write_private(kept, "new")
    assert kept.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
