"""Model folders, whole and broken, and pairs that fit or do not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.checkpoint import (
    caution,
    inspect,
    tokenizer_signature,
    weights_complete,
    why_not,
)
from engine.errors import ModelError
from engine.testing.folders import model_files, tokenizer_json, write_files, write_model

ROOT = Path(__file__).resolve().parents[2]
SHARED_MODELS = ROOT.parent / "shared" / "models"
INDEX = "model.safetensors.index.json"


def shared_model(name: str) -> Path:
    folder = SHARED_MODELS / name
    if not folder.is_dir():
        pytest.skip(f"{name} is not beside the repository")
    return folder


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


def test_a_llama_is_described_from_its_headers() -> None:
    found = inspect(shared_model("stories260K"))
    assert (found.architecture, found.model_type) == ("LlamaForCausalLM", "llama")
    assert (found.layers, found.hidden, found.kv_heads, found.head_dim) == (5, 64, 4, 8)
    assert (found.vocabulary, found.context, found.eos_ids) == (512, 512, (2,))
    assert found.parameters == 260_032
    assert found.bytes == 4 * 260_032
    assert found.tensors["model.embed_tokens.weight"].shape == (512, 64)
    assert not found.has_chat_template


def test_other_architectures_name_their_sizes_differently() -> None:
    found = inspect(shared_model("tiny-chat-gptneo"))
    assert found.architecture == "GPTNeoForCausalLM"
    assert (found.layers, found.hidden, found.kv_heads, found.context) == (8, 128, 16, 256)
    assert found.vocabulary == 14_019
    assert found.has_chat_template


def test_shards_are_read_through_their_index(tmp_path: Path) -> None:
    single = inspect(write_model(tmp_path / "single"))
    sharded = inspect(write_model(tmp_path / "sharded", shards=3))
    assert sharded.parameters == single.parameters
    assert sharded.tensors.keys() == single.tensors.keys()
    assert len({info.file for info in sharded.tensors.values()}) == 3


def test_a_stored_copy_of_the_tied_embedding_does_not_count_as_parameters(tmp_path: Path) -> None:
    from engine.testing.folders import safetensors_bytes

    folder = write_model(tmp_path, vocabulary=32, hidden=8)
    shapes = {"model.embed_tokens.weight": (32, 8), "lm_head.weight": (32, 8)}
    (folder / "model.safetensors").write_bytes(safetensors_bytes(shapes))
    found = inspect(folder)
    assert found.parameters == 32 * 8
    assert found.bytes == 2 * 4 * 32 * 8


def test_the_text_part_describes_a_multimodal_model(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    outer = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3"}
    text = {key: value for key, value in config.items() if key not in outer}
    (folder / "config.json").write_text(json.dumps({**outer, "text_config": text}))
    found = inspect(folder)
    assert (found.model_type, found.layers, found.context) == ("gemma3", 1, 256)


def test_generation_config_knows_all_the_ends(tmp_path: Path) -> None:
    folder = write_model(tmp_path, eos=1)
    (folder / "generation_config.json").write_text('{"eos_token_id": [3, 2]}')
    assert inspect(folder).eos_ids == (2, 3)


def test_a_checkpoint_cannot_be_changed(tmp_path: Path) -> None:
    found = inspect(write_model(tmp_path))
    with pytest.raises(TypeError):
        found.config["vocab_size"] = 1  # type: ignore[index]


# -- folders that are no model


def test_no_folder(tmp_path: Path) -> None:
    assert "There is no folder" in refusal(tmp_path / "absent")


def test_a_file_instead_of_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"x")
    assert "is a file" in refusal(file)


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
    assert re.search(r"config\.json is not valid JSON: line 3, column 3", refusal(folder))


def test_json_that_is_no_object(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    (folder / "config.json").write_text("[]")
    assert "must hold a JSON object" in refusal(folder)


@pytest.mark.parametrize("key", ["architectures", "num_hidden_layers", "max_position_embeddings"])
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    folder = change(write_model(tmp_path), "config.json", **{key: None})
    assert f"'{key}'" in refusal(folder)


def test_a_key_of_the_wrong_kind_is_named(tmp_path: Path) -> None:
    folder = change(write_model(tmp_path), "config.json", num_hidden_layers="many")
    message = refusal(folder)
    assert "'num_hidden_layers'" in message
    assert "'many'" in message


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
    assert "names 1 tensor " in message
    assert "model.layers.9.mlp" in message


def test_an_index_cannot_reach_outside_its_folder(tmp_path: Path) -> None:
    folder = write_model(tmp_path, shards=2)
    index = {"weight_map": {"x": "../secret.safetensors"}}
    (folder / INDEX).write_text(json.dumps(index))
    assert "no safetensors file of this folder" in refusal(folder)


def test_truncated_weights_tell_both_sizes(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    message = refusal(folder)
    assert f"promises {len(whole):,} bytes" in message
    assert f"the file has {len(whole) - 100:,}" in message


@pytest.mark.parametrize("keep", [0, 5, 8, 30])
def test_weights_cut_within_the_header(tmp_path: Path, keep: int) -> None:
    folder = write_model(tmp_path)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    assert "delete it and download" in refusal(folder)


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


def test_text_instead_of_weights(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    (folder / "model.safetensors").write_text("<html>Sign in to continue</html>" * 4)
    assert "not a safetensors file" in refusal(folder)


def test_weights_and_configuration_of_different_models(tmp_path: Path) -> None:
    folder = change(write_model(tmp_path, vocabulary=32), "config.json", vocab_size=40)
    message = refusal(folder)
    assert "40 tokens" in message
    assert "32 rows" in message


# -- tokenizers


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
    assert "tokenizer.json cannot be read" in refusal(folder)


def test_merges_in_both_notations_are_the_same_tokenizer(tmp_path: Path) -> None:
    tokens = ["a", "b", "ab"]
    old = write_files(
        tmp_path / "old", {"tokenizer.json": tokenizer_json(tokens, ["a b"]).encode()}
    )
    content = json.loads(tokenizer_json(tokens))
    content["model"]["merges"] = [["a", "b"]]
    new = write_files(tmp_path / "new", {"tokenizer.json": json.dumps(content).encode()})
    assert tokenizer_signature(old).difference(tokenizer_signature(new), below=3) is None


def test_a_changed_tokenizer_file_is_read_again(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    before = tokenizer_signature(folder)
    (folder / "tokenizer.json").write_text(tokenizer_json(["another"]))
    assert tokenizer_signature(folder).vocabulary != before.vocabulary


def test_older_tokenizer_files_are_compared_as_a_whole(tmp_path: Path) -> None:
    one = write_files(tmp_path / "one", {"tokenizer.model": b"sentencepiece"})
    same = write_files(tmp_path / "same", {"tokenizer.model": b"sentencepiece"})
    other = write_files(tmp_path / "other", {"tokenizer.model": b"different"})
    assert tokenizer_signature(one).difference(tokenizer_signature(same), below=9) is None
    assert tokenizer_signature(one).difference(tokenizer_signature(other), below=9) is not None


# -- pairs


def pair_verdict(target: Path, draft: Path) -> str | None:
    return why_not(inspect(target), inspect(draft))


def test_a_smaller_model_with_the_same_tokenizer_fits(tmp_path: Path) -> None:
    target = write_model(tmp_path / "target", hidden=16)
    assert pair_verdict(target, write_model(tmp_path / "draft", hidden=8)) is None


def test_padding_rows_may_differ_when_the_tokenizer_is_the_same(tmp_path: Path) -> None:
    tokens = [f"t{number}" for number in range(30)]
    target = write_model(tmp_path / "target", hidden=16, vocabulary=40, tokens=tokens)
    draft = write_model(tmp_path / "draft", hidden=8, vocabulary=32, tokens=tokens)
    assert pair_verdict(target, draft) is None


def test_an_added_token_without_a_row_in_the_draft_does_not_matter(tmp_path: Path) -> None:
    tokens = [f"t{number}" for number in range(32)]
    image = {32: "<image_soft_token>"}
    target = write_model(tmp_path / "t", hidden=16, vocabulary=40, tokens=tokens, added=image)
    draft = write_model(tmp_path / "d", hidden=8, vocabulary=32, tokens=tokens, added=image)
    assert pair_verdict(target, draft) is None
    bare = write_model(tmp_path / "bare", hidden=8, vocabulary=32, tokens=tokens)
    assert pair_verdict(target, bare) is None


def test_different_vocabularies_are_refused_with_both_sizes() -> None:
    reason = pair_verdict(shared_model("tiny-chat-gptneo"), shared_model("stories260K"))
    assert reason is not None
    assert "14,019" in reason
    assert "512" in reason
    assert "same family" in reason


def test_equal_sizes_do_not_hide_different_tokens(tmp_path: Path) -> None:
    swapped = [f"t{number}" for number in range(32)]
    swapped[4], swapped[5] = swapped[5], swapped[4]
    target = write_model(tmp_path / "target", hidden=16)
    reason = pair_verdict(target, write_model(tmp_path / "draft", tokens=swapped))
    assert reason is not None
    assert "2 token ids mean different things, the first is 4" in reason


def test_a_different_special_token_is_named(tmp_path: Path) -> None:
    tokens = [f"t{number}" for number in range(30)]
    target = write_model(tmp_path / "t", hidden=16, tokens=tokens, added={30: "<|eot|>"})
    draft = write_model(tmp_path / "d", hidden=8, tokens=tokens, added={30: "<|im_end|>"})
    reason = pair_verdict(target, draft)
    assert reason is not None
    assert "special token 30 is '<|eot|>' in the target and '<|im_end|>' in the draft" in reason


def test_a_reserved_slot_may_have_a_name_unless_it_ends_replies(tmp_path: Path) -> None:
    tokens = [f"t{number}" for number in range(30)]
    reserved, named = {30: "<|reserved_special_token_0|>"}, {30: "<tool>"}
    target = write_model(tmp_path / "t", hidden=16, tokens=tokens, added=named)
    draft = write_model(tmp_path / "d", hidden=8, tokens=tokens, added=reserved)
    assert pair_verdict(target, draft) is None
    ending = write_model(tmp_path / "e", hidden=16, tokens=tokens, added=named, eos=30)
    reason = pair_verdict(ending, draft)
    assert reason is not None
    assert "special token 30" in reason


def test_a_draft_must_be_smaller(tmp_path: Path) -> None:
    target = write_model(tmp_path / "target", hidden=8)
    reason = pair_verdict(target, write_model(tmp_path / "draft", hidden=16))
    assert reason is not None
    assert "not smaller" in reason
    assert f"{inspect(target).parameters:,}" in reason


def test_a_draft_with_hardly_any_context_is_refused(tmp_path: Path) -> None:
    target = write_model(tmp_path / "target", hidden=16, context=4096)
    reason = pair_verdict(target, write_model(tmp_path / "draft", context=64))
    assert reason is not None
    assert "64 tokens" in reason
    assert "4,096" in reason


def test_a_shorter_context_is_a_caution_only(tmp_path: Path) -> None:
    target = inspect(write_model(tmp_path / "target", hidden=16, context=4096))
    draft = inspect(write_model(tmp_path / "draft", hidden=8, context=1024))
    assert why_not(target, draft) is None
    assert "nothing is drafted beyond 1,024" in str(caution(target, draft))
    assert caution(draft, draft) is None


# -- and besides


def test_completeness_needs_configuration_tokenizer_and_weights(tmp_path: Path) -> None:
    files = model_files(shards=2)
    assert weights_complete(write_files(tmp_path / "all", files))
    for name in ("config.json", "tokenizer.json", INDEX, "model-00001-of-00002.safetensors"):
        rest = {file: content for file, content in files.items() if file != name}
        assert not weights_complete(write_files(tmp_path / name, rest))
    assert not weights_complete(tmp_path / "absent")


def test_inspecting_does_not_bring_torch() -> None:
    code = "import sys, engine.checkpoint, engine.catalog, engine.memory, engine.hub\n"
    code += "print([m for m in ('torch', 'transformers') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
