"""Every mistake in a catalog is told with file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import CatalogError
from engine.loading.catalog import load_catalog
from tests.engine.loading.catalog_texts import GOOD, mistake


def test_invalid_yaml_tells_line_and_key(tmp_path: Path) -> None:
    message = mistake(tmp_path, "models:\n  - id: a\n    name: 'unclosed\n")
    assert "line 4" in message or "line 3" in message
    assert "near key 'name'" in message


def test_a_tab_in_the_indentation(tmp_path: Path) -> None:
    message = mistake(tmp_path, "models:\n\t- id: a\n")
    assert "line 2" in message
    assert "not valid YAML" in message


def test_an_unknown_key_gets_a_suggestion(tmp_path: Path) -> None:
    message = mistake(tmp_path, GOOD.replace("licence: mit", "license: mit", 1))
    assert "line 6, key 'models[0].license': unknown key; did you mean 'licence'?" in message


@pytest.mark.parametrize(
    ("key", "value", "known"),
    [("quantization", "int3", "auto, fp32"), ("kv_cache_dtype", "fp4", "auto, fp8")],
)
def test_weights_and_caches_are_held_in_what_there_is(
    tmp_path: Path, key: str, value: str, known: str
) -> None:
    written = GOOD.replace("licence: mit", f"licence: mit\n    {key}: {value}", 1)
    message = mistake(tmp_path, written)
    assert f"key 'models[0].{key}': it is '{value}'; choose one of {known}" in message


@pytest.mark.parametrize("pattern", ["owner/name", "file.gguf", "owner/name/file.bin"])
def test_a_gguf_file_is_named_with_its_repository(tmp_path: Path, pattern: str) -> None:
    message = mistake(
        tmp_path, GOOD.replace("licence: mit", f"gguf: [{pattern}]\n    licence: mit", 1)
    )
    assert "line 6, key 'models[0].gguf': must have the form 'owner/name/file.gguf'" in message


def test_an_unknown_section(tmp_path: Path) -> None:
    assert "line 1, key 'pears'" in mistake(tmp_path, "pears: []\n")


def test_a_missing_key(tmp_path: Path) -> None:
    message = mistake(tmp_path, GOOD.replace("    context: 256\n", "", 1))
    assert "line 2, key 'models[0].context': is missing." in message


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "kind"),
    [
        ("parameters: 1000", "parameters: many", 7, "parameters", "a whole number above 0"),
        ("parameters: 1000", "parameters: -3", 7, "parameters", "a whole number above 0"),
        ("parameters: 1000", "parameters: true", 7, "parameters", "a whole number above 0"),
        ("parameters: 1000", "parameters: 1.5", 7, "parameters", "a whole number above 0"),
        ("name: big", "name: [big]", 3, "name", "a text"),
        ("name: big", "name:", 3, "name", "a text"),
        ("name: big", "name: 2024-13-45", 3, "name", "a text"),  # an error of Python's
        ("name: big", "name: !!bool perhaps", 3, "name", "a text"),
        ("licence: mit", "gated: perhaps", 6, "gated", "true or false"),
    ],
)
def test_a_value_of_the_wrong_kind(
    tmp_path: Path, old: str, new: str, line: int, key: str, kind: str
) -> None:
    message = mistake(tmp_path, GOOD.replace(old, new, 1))
    assert f"line {line}, key 'models[0].{key}'" in message
    assert f"must be {kind}" in message


def test_a_repeated_key(tmp_path: Path) -> None:
    message = mistake(tmp_path, GOOD.replace("    name: big\n", "    name: big\n    name: two\n"))
    assert "line 4, key 'models[0].name': is given twice" in message


def test_a_repeated_id(tmp_path: Path) -> None:
    message = mistake(tmp_path, GOOD.replace("id: small", "id: big"))
    assert "key 'models[1].id': 'big' is already used on line 2" in message


@pytest.mark.parametrize("extra", ["    path: here\n", ""])
def test_repository_or_path_but_one_of_them(tmp_path: Path, extra: str) -> None:
    text = GOOD.replace(
        "    repository: owner/big\n", extra + ("    repository: owner/big\n" if extra else "")
    )
    assert "either 'repository' or 'path'" in mistake(tmp_path, text)


def test_a_repository_needs_an_owner(tmp_path: Path) -> None:
    message = mistake(tmp_path, GOOD.replace("owner/big", "big"))
    assert "line 4, key 'models[0].repository': must have the form 'owner/name'" in message


def test_a_pair_of_an_unknown_model(tmp_path: Path) -> None:
    message = mistake(tmp_path, GOOD.replace("draft: small", "draft: smal"))
    assert "key 'pairs[0].draft'" in message
    assert "Did you mean 'small'?" in message


def test_a_pair_that_cannot_work(tmp_path: Path) -> None:
    text = GOOD.replace("tokenizer: family\n", "tokenizer: other\n", 1)
    assert "Different vocabularies" in mistake(tmp_path, text)
    swapped = GOOD.replace("target: big\n    draft: small", "target: small\n    draft: big")
    assert "not smaller" in mistake(tmp_path, swapped)


@pytest.mark.parametrize("text", ["- a list\n", "just text\n"])
def test_a_file_of_another_shape(tmp_path: Path, text: str) -> None:
    assert "keys among models, pairs, servers" in mistake(tmp_path, text)


def test_a_section_that_is_no_list(tmp_path: Path) -> None:
    assert "line 1, key 'models': must be a list" in mistake(tmp_path, "models: {a: b}\n")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="cannot be read"):
        load_catalog(tmp_path / "absent.yaml")


def test_code_in_the_catalog_is_not_run(tmp_path: Path) -> None:
    evil = GOOD.replace("name: big", "name: !!python/object/apply:os.getcwd []", 1)
    assert "models[0].name" in mistake(tmp_path, evil)


PLAN = """\
models:
  - id: planned
    repository: owner/planned
    plan_only: true
    config: {model_type: llama, hidden_size: 64, num_hidden_layers: 2}
    checkpoints: {fp8: owner/planned-fp8}
"""


def test_a_model_for_plans_alone_needs_no_more_and_is_not_offered(tmp_path: Path) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_text(PLAN)
    assert load_catalog(file).models == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hidden_size", "hiden_size", "models[0].config.hiden_size': unknown key; did you mean"),
        ("64", "wide", "models[0].config.hidden_size': is 'wide'; it must be a whole number"),
        ("model_type: llama, ", "", "models[0].config.model_type': is missing"),
        (
            "fp8: owner/planned-fp8",
            "fp8: 1",
            "models[0].checkpoints.fp8': is '1'; it must be a text",
        ),
        (
            "{fp8: owner/planned-fp8}",
            "[a]",
            "checkpoints': is a list or a mapping; it must be a mapping",
        ),
        ("config: {model_type", "# {model_type", "models[0].config': is missing"),
    ],
)
def test_keys_for_plans_are_checked(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in mistake(tmp_path, PLAN.replace(old, new, 1))
