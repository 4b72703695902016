"""Folders that are no model, or a broken one: what is said of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.models.checkpoints.checkpoint import inspect, weights_complete
from tests.support.folders import safetensors_bytes, write_model

INDEX = "model.safetensors.index.json"


def change(folder: Path, file: str, **values: object) -> Path:
    """Set keys of a JSON file; None removes."""
    content = json.loads((folder / file).read_text())
    content.update(values)
    kept = {key: value for key, value in content.items() if value is not None}
    (folder / file).write_text(json.dumps(kept))
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        inspect(folder)
    return str(caught.value)


def test_no_folder(tmp_path: Path) -> None:
    assert "There is no folder" in refusal(tmp_path / "absent")


def test_a_file_instead_of_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"x")
    assert "is not a GGUF file" in refusal(file)


def test_a_folder_without_config(tmp_path: Path) -> None:
    assert "no config.json" in refusal(tmp_path)


def test_the_model_folder_inside_is_suggested(tmp_path: Path) -> None:
    write_model(tmp_path / "target")
    assert "Did you mean a folder inside it (target)" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("file", "word"), [("llama.Q4_K_M.gguf", "GGUF"), ("adapter_config.json", "PEFT adapter")]
)
def test_other_formats_are_named(tmp_path: Path, file: str, word: str) -> None:
    (tmp_path / file).write_text("{}")
    assert word in refusal(tmp_path)


def test_broken_json_tells_line_and_column(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    (folder / "config.json").write_text('{\n  "vocab_size": 32,\n  oops\n}')
    assert re.search(r"config\.json is not valid JSON: .*line 3 column 3", refusal(folder))


def test_json_that_is_no_object(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    (folder / "config.json").write_text("[]")
    assert "must hold a JSON object" in refusal(folder)


@pytest.mark.parametrize("key", ["architectures", "num_hidden_layers", "max_position_embeddings"])
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    folder = change(write_model(tmp_path), "config.json", **{key: None})
    assert f"'{key}'" in refusal(folder)


@pytest.mark.parametrize(
    ("layers", "changes"),
    [
        ("Mamba-2 layers", {"model_type": "nemotron_h", "layers_block_type": ["linear_attention"]}),
        ("Mamba-2 layers", {"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*-"}),
        ("Mamba-2 layers", {"model_type": "mamba2"}),
        ("Mamba layers", {"model_type": "falcon_mamba"}),
        (
            "Kimi delta attention",
            {"model_type": "kimi_linear", "layer_types": ["linear_attention"]},
        ),
        (
            "its own kind of recurrent layers",
            {"model_type": "new", "linear_attn_config": {"kda_layers": [1]}},
        ),
        ("latent attention with an indexer", {"model_type": "deepseek_v32", "index_topk": 2048}),
        ("compressed attention", {"model_type": "deepseek_v4"}),
    ],
)
def test_layers_that_are_not_computed_are_the_reason_and_not_a_key_that_such_models_lack(
    tmp_path: Path, layers: str, changes: dict[str, object]
) -> None:
    """It was said that config.json lacks 'num_hidden_layers' or 'max_position_embeddings'."""
    lacking = {"num_hidden_layers": None, "max_position_embeddings": None}
    folder = change(write_model(tmp_path), "config.json", **lacking, **changes)
    said = refusal(folder)
    assert f"{changes['model_type']} has {layers}" in said and "lacks" not in said


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("WhisperForConditionalGeneration", {"is_encoder_decoder": True}),
        ("ViTForImageClassification", {"vocab_size": None}),
    ],
)
def test_what_continues_no_text_is_named_and_not_a_key_that_it_lacks(
    tmp_path: Path, name: str, changes: dict[str, object]
) -> None:
    """It was said that config.json lacks 'num_attention_heads' or 'vocab_size'."""
    lacking = {"num_attention_heads": None, "max_position_embeddings": None}
    folder = write_model(tmp_path)
    change(folder, "config.json", architectures=[name], **lacking, **changes)
    assert f"is {name}, which cannot continue text" in refusal(folder)


@pytest.mark.parametrize("value", ["many", -1, 10**9])
@pytest.mark.parametrize("key", ["num_hidden_layers", "num_nextn_predict_layers"])
def test_a_key_of_the_wrong_kind_is_named(tmp_path: Path, key: str, value: object) -> None:
    """A thousand million layers were listed, until the memory was full."""
    message = refusal(change(write_model(tmp_path), "config.json", **{key: value}))
    assert f"'{key}' is {value!r}; it must be a whole number above 0, at most 10,000" in message


def test_experts_without_end(tmp_path: Path) -> None:
    """A header of a hundred bytes had 10**12 of them listed, until the memory was full."""
    folder = write_model(tmp_path)
    shapes = {"model.layers.0.mlp.experts.down_proj": (10**12, 0, 16)}
    (folder / "model.safetensors").write_bytes(safetensors_bytes(shapes))
    assert "must be of 1 to 4,096 experts" in refusal(folder)


@pytest.mark.parametrize("value", [[], {}, 5])
def test_a_model_type_that_is_no_text_is_named(tmp_path: Path, value: object) -> None:
    """A list or an object ended the command with Python's traceback: "unhashable type"."""
    message = refusal(change(write_model(tmp_path), "config.json", model_type=value))
    assert f"'model_type' is {value}; it must be text" in message


def test_an_unknown_quantisation_is_named_with_a_remedy(tmp_path: Path) -> None:
    folder = change(
        write_model(tmp_path), "config.json", quantization_config={"quant_method": "gptq"}
    )
    message = refusal(folder)
    assert "'gptq'" in message
    assert "original model" in message


@pytest.mark.parametrize("file", ["pytorch_model.bin", "consolidated.00.pth", "weights.pt"])
def test_pickles_are_refused_with_the_reason(tmp_path: Path, file: str) -> None:
    folder = write_model(tmp_path)
    (folder / "model.safetensors").rename(folder / file)
    message = refusal(folder)
    assert file in message
    assert "can run any code" in message
    assert "safetensors" in message


def test_no_weights_at_all(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    (folder / "model.safetensors").unlink()
    assert "model.safetensors is missing" in refusal(folder)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path, shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    message = refusal(folder)
    assert "lacks 1 of its 3 weight files" in message
    assert "model-00002-of-00003.safetensors" in message


def test_shards_without_their_index(tmp_path: Path) -> None:
    folder = write_model(tmp_path, shards=2)
    (folder / INDEX).unlink()
    assert "neither model.safetensors nor model.safetensors.index.json" in refusal(folder)


def test_an_index_that_promises_absent_tensors(tmp_path: Path) -> None:
    folder = write_model(tmp_path, shards=2)
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["model.layers.9.mlp"] = "model-00001-of-00002.safetensors"
    (folder / INDEX).write_text(json.dumps(index))
    message = refusal(folder)
    assert "lists 1 tensor " in message
    assert "model.layers.9.mlp" in message


def test_an_index_cannot_reach_outside_its_folder(tmp_path: Path) -> None:
    folder = write_model(tmp_path, shards=2)
    index = {"weight_map": {"x": "../secret.safetensors"}}
    (folder / INDEX).write_text(json.dumps(index))
    assert "not a safetensors file of this folder" in refusal(folder)


def test_truncated_weights_tell_both_sizes(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    message = refusal(folder)
    assert f"announces {len(whole):,} bytes" in message
    assert f"the file has {len(whole) - 100:,}" in message


@pytest.mark.parametrize("keep", [0, 5, 8, 30])
def test_weights_cut_within_the_header(tmp_path: Path, keep: int) -> None:
    folder = write_model(tmp_path)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    assert "download or copy" in refusal(folder)


def test_weights_with_bytes_behind_the_end(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    with (folder / "model.safetensors").open("ab") as stream:
        stream.write(b"more")
    assert "too long" in refusal(folder)


def test_a_lfs_pointer_is_recognised(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n"
    (folder / "model.safetensors").write_bytes(pointer)
    assert "git lfs pull" in refusal(folder)


def test_a_header_that_lies_about_a_tensor(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    header = {"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 4]}}
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text + bytes(4)
    (folder / "model.safetensors").write_bytes(content)
    assert "tensor 'x'" in refusal(folder)


def test_a_tensor_with_axes_without_end(tmp_path: Path) -> None:
    """The product of a million sizes kept the scan for models busy for minutes."""
    folder = write_model(tmp_path)
    header = {"x": {"dtype": "F32", "shape": [1] * 1000, "data_offsets": [0, 4]}}
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text + bytes(4)
    (folder / "model.safetensors").write_bytes(content)
    assert "the header entry of tensor 'x' is invalid" in refusal(folder)


def test_a_quantisation_with_sizes_without_end(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    name, state = "x.quant_state.bitsandbytes__nf4", b'{"shape": [1e400, 3], "blocksize": 64}'
    header = {
        "x": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]},
        name: {"dtype": "U8", "shape": [len(state)], "data_offsets": [0, len(state)]},
    }
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + state)
    assert "the quantisation of 'x' cannot be read" in refusal(folder)


def test_text_instead_of_weights(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    (folder / "model.safetensors").write_text("<html>Sign in to continue</html>" * 4)
    assert "not a safetensors file" in refusal(folder)


def test_weights_and_configuration_of_different_models(tmp_path: Path) -> None:
    folder = change(write_model(tmp_path, vocabulary=32), "config.json", vocab_size=40)
    message = refusal(folder)
    assert "40 tokens" in message
    assert "32 rows" in message


def test_a_tokenizer_that_is_too_big_for_the_model(tmp_path: Path) -> None:
    folder = write_model(tmp_path, vocabulary=32, tokens=[f"t{n}" for n in range(50)])
    message = refusal(folder)
    assert "does not match" in message
    assert "50 tokens, the model 32" in message


def test_a_tokenizer_far_too_small_for_the_model(tmp_path: Path) -> None:
    folder = write_model(tmp_path, vocabulary=32, tokens=["a", "b"])
    assert "2 tokens, the model 32" in refusal(folder)


def test_no_tokenizer(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    (folder / "tokenizer.json").unlink()
    assert "no tokenizer" in refusal(folder)


def test_a_broken_tokenizer(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    (folder / "tokenizer.json").write_text('{"model": ')
    assert "tokenizer.json is not valid JSON" in refusal(folder)


@pytest.mark.parametrize(
    "content",
    [
        {"model": {"vocab": {"a": None}}},
        {"model": {"vocab": "abc"}},
        {"model": {"vocab": {"a": 0}, "merges": [[1, 2]]}},
        {"model": {"vocab": {"a": 0}}, "added_tokens": [{"content": "x"}]},
    ],
)
def test_a_tokenizer_of_wrong_values(tmp_path: Path, content: object) -> None:
    """Python's errors ended the command, and the look through the models folder."""
    folder = write_model(tmp_path)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert "tokenizer.json is not a tokenizer (" in refusal(folder)
    assert not weights_complete(folder)
