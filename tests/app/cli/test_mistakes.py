"""Every mistake on the command line: one message, status 2, no traceback."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

from app.main import Settings, first_load
from engine.api import LoadRequest
from engine.loading.planning.facts import device_for
from tests.app.cli.conftest import Foretoken
from tests.support.checkpoints import VOCABULARY

SERVER = "--pair http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--depth", 0], "--depth is 0; it must be 1 to 15"),
        (["--depth", 99], "--depth is 99; it must be 1 to 15"),
        (["--controller", "lucky"], "--controller is 'lucky'; it must be one of auto, fixed, off"),
        (["--temperature", -1], "--temperature is -1.0; it must be 0"),
        (["--temperature", "nan"], "--temperature must be a finite number"),
        (["--top-p", 0], "--top-p is 0.0"),
        (
            ["--acceptance", "lucky"],
            "--acceptance is 'lucky'; it must be one of auto, greedy, coupled",
        ),
        (["--proposer", "oracle"], "choose one of none, draft, ngram"),
        (["--quantization", "int1"], "must be one of auto, fp32, bf16, int8, nf4"),
        (["--kv-cache-dtype", "fp4"], "--kv-cache-dtype is 'fp4'; it must be one of auto, fp8"),
        (["--device", "tpu"], "--device is 'tpu'; it must be one of auto, cpu, cuda"),
        (["--device", "cpu", "--gpu-layers", 5], "runs on the CPU, as the device cpu asks. Choose"),
        (["--threads", 0], "--threads is 0; it must be 1 to"),
        (["--threads", 100_000], "--threads is 100000; it must be 1 to"),
        (["--pair", "no-such-pair"], "There is no pair or model 'no-such-pair'"),
        (["--pair", "./no/such/folder"], "no/such/folder"),
        (["--pair", "pip::pip-draft::/no/such"], "There is no folder or file /no/such."),
        (["--head", "/no/such"], "--head: There is no folder /no/such"),
        (["--trace", "/no/such/folder/trace.jsonl"], "or choose another --trace"),
        (["--max-tokens", "many"], "--max-tokens"),
        (["--max-tokens", 0, "--pair", "/no"], "--max-tokens is 0; it must be 1 or more"),
        (["--frobnicate"], "--frobnicate"),
        (
            ["--proposer", "ngram", "--option", "size=3"],
            "--option: The proposer 'ngram' has no option 'size'",
        ),
        (["--proposer", "ngram", "--option", "prompt_lookup_max=x"], "must be a whole number"),
        (["--proposer", "ngram", "--option", "prompt_lookup_max"], "NAME=VALUE"),
    ],
)
def test_a_mistake_is_one_message_and_status_2(
    foretoken: Foretoken, words: list[object], message: str
) -> None:
    result = foretoken("chat", "Hello", *words)
    assert result.status == 2
    assert message in result.err
    assert "Traceback" not in result.err
    assert result.out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("bench compare --controller off", "--controller is 'off', which drafts nothing"),
        ("bench sweep --depths 99", "--depths is 99"),
        ("bench real --pair pip --all-settings", "--all-settings has no use without --llama-cpp"),
        ("race Hello --per-kind 2", "--per-kind has no use without --prompts"),
        ("race Hello --rival none,4", "--rival: 'none,4' is not a method"),
        ("race Hello --rival draft,99", "--rival: depth is 99"),
        ("race Hello --rival oracle", "--rival: There is no proposer 'oracle'"),
        ("race Hello --base mtp", "--base: The proposer 'mtp' needs"),
        ("race Hello --base-temperature 9", "--base-temperature: temperature is 9.0"),
        ("plan llama-3.1-8b --gpus H100 --method x", "--method: There is no method 'x'"),
        ("plan llama-3.1-8b --gpus H100 --from x", "--from: 'x' is not an address"),
        ("chat Hello --proposer none --depth 3", "--depth has no use with --proposer none"),
        ("chat Hello --proposer none --acceptance block", "--acceptance has no use with --prop"),
        ("race Hello --base none --base-acceptance block", "--base-acceptance has no use with --b"),
        ("race Hello --base ngram,2 --rival ngram,2", "Both sides are the same, N-gram, depth 2."),
        ("chat Hello --raw --system Be", "--system needs a chat template, which --raw"),
        (f"chat Hi {SERVER} --quantization q4", "--quantization has no use with a server"),
        (f"chat Hi {SERVER} --context 64", "--context has no use with a server"),
        (f"chat Hi {SERVER} --gpu-layers 2", "--gpu-layers has no use with a server"),
        (f"chat Hi {SERVER} --parallel 2", "--parallel has no use with a server"),
        (f"chat Hi {SERVER} --no-native", "--native has no use with a server"),
        (f"chat Hi {SERVER} --no-cuda-graphs", "--cuda-graphs has no use with a server"),
        (f"chat Hi {SERVER} --checkpoint-mb 1", "--checkpoint-mb has no use with a server"),
        (f"chat Hi {SERVER} --kv-cache-dtype fp8", "--kv-cache-dtype has no use with a server"),
        (f"chat Hi {SERVER} --threads 1", "--threads has no use with a server"),
        (f"chat Hi {SERVER} --device cpu", "--device has no use with a server"),
        (f"race Hi {SERVER} --threads 1", "--threads has no use with a server"),
        (f"race Hi {SERVER} --base-pair pip --threads 1", "127.0.0.1:9"),  # one side has it
        (f"bench sweep {SERVER} --threads 1", "--threads has no use with a server"),
        ("chat Hello --mcp-trust x", "--mcp-trust has no use without --mcp"),
        ("chat Hello --controller off --depth 3", "--depth has no use with --controller off"),
        ("chat Hello --pair pip:: --draft-device cpu", "--draft-device has no use without a draft"),
        ("ui --pair pip:: --draft-device cpu", "--draft-device has no use without a draft"),
        (
            "chat Hi --raw --thinking-budget 5",
            "--thinking-budget needs a chat template, which --raw",
        ),
        ("chat Hi --raw --thinking high", "--thinking needs a chat template, which --raw"),
        ("race Hello --rival none", "The baseline is plain decoding, without drafts, already."),
        ("models defaults nope --clear", "'nope' has no measured default"),
        ("models download pip --file a.gguf", "--file chooses in a repository, which pip is not"),
        ("plan llama-3.1-8b --gpus H100 --context 31", "--context is 31; it must be 32 to"),
        ("ui --context 5", "--context is 5; it must be 32 or more"),
        ("models list --data-dir=~nobody-here/x", "cannot be saved in ~nobody-here/x"),
        ("chat Hi --head=~nobody-here/x", "There is no folder ~nobody-here/x"),
        ("chat Hi --file=~nobody-here/x", "--file ~nobody-here/x cannot be read"),
        ("train ~nobody-here/x", "There is no recipe ~nobody-here/x"),
        ("ui --api-key-file=~nobody-here/x", "~nobody-here/x cannot be read"),
        ("bench sweep --prompts=~nobody-here/x", "~nobody-here/x cannot be read"),
        ("diagnostics --pair pip", "--pair has no use without --gpu"),
        ("diagnostics --gpu --pair nope", "There is no pair or model 'nope'"),
    ],
)
def test_no_option_is_ignored(foretoken: Foretoken, words: str, message: str) -> None:
    result = foretoken(*words.split())
    assert result.status == 2
    assert message in result.err
    assert result.out == ""


def test_a_prompt_and_a_file_are_too_much(foretoken: Foretoken, tmp_path: Path) -> None:
    both = foretoken("chat", "Hello", "--prompts", tmp_path / "file")
    assert both.status == 2
    assert "Give either a prompt" in both.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no prompts"),
        ("{not json", "prompts.jsonl, line 1: it is not JSON"),
        ('{"prompt": "a"}\n[1]', "prompts.jsonl, line 2: it is not a JSON object"),
        ('{"turns": []}', "prompts.jsonl, line 1: a turn is empty or not a user's text"),
        ('{"prompt": 3}', "prompts.jsonl, line 1: a turn is empty or not a user's text"),
        ("\xff", "cannot be read"),
    ],
)
def test_a_broken_file_of_prompts_is_told_with_its_line(
    foretoken: Foretoken, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(text.encode("latin-1"))
    result = foretoken("chat", "--prompts", file)
    assert result.status == 2
    assert message in result.err


def test_a_missing_file_of_prompts_is_told(foretoken: Foretoken, tmp_path: Path) -> None:
    result = foretoken("chat", "--prompts", tmp_path / "absent.jsonl")
    assert result.status == 2
    assert "absent.jsonl cannot be read" in result.err


def test_a_folder_that_is_no_model_is_told(foretoken: Foretoken, tmp_path: Path) -> None:
    result = foretoken("chat", "Hello", "--pair", tmp_path)
    assert result.status == 2
    assert str(tmp_path) in result.err


@pytest.mark.parametrize("words", [("--pair", "no-such-pair"), ("--mcp", "absent.json")])
def test_a_mistake_leaves_the_last_trace_as_it_was(
    foretoken: Foretoken, model: Path, tmp_path: Path, words: tuple[str, str]
) -> None:
    """It was emptied before the model was loaded."""
    file = tmp_path / "trace.jsonl"
    file.write_text("kept")
    result = foretoken("chat", "Hello", "--pair", model, *words, "--trace", file)
    assert (result.status, file.read_text()) == (2, "kept")


def test_a_draft_with_another_vocabulary_is_told_with_sizes(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(model, tmp_path / "other")
    words = {str(number): number for number in range(VOCABULARY)}
    kind = {"type": "WordLevel", "vocab": words, "unk_token": "0"}
    (other / "tokenizer.json").write_text(json.dumps({"model": kind}))
    result = foretoken("chat", "Hello", "--pair", f"{model}::{other}")
    assert result.status == 2
    assert "cannot draft for" in result.err


@pytest.mark.parametrize(
    "words",
    [
        ("chat", "Hello", "--proposer", "draft"),
        ("race", "Hello", "--rival", "draft,4"),
        ("race", "Hello", "--base", "draft"),
        ("bench", "compare", "--proposer", "draft"),
        ("bench", "load", "--proposer", "draft"),
        ("bench", "sweep", "--methods", "ngram,draft"),
    ],
)
def test_a_draft_is_needed_to_draft_with_one_and_missed_before_anything_is_loaded(
    foretoken: Foretoken, model: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """People waited for a pair of gigabytes, and were told then."""
    monkeypatch.delattr("app.cli.loading.compile_before")
    result = foretoken(*words, "--pair", model)
    assert result.status == 2
    assert "needs a draft model" in result.err
    assert "or choose one of none, ngram, suffix, best." in result.err


def test_a_prompt_longer_than_the_context_says_by_how_much(
    foretoken: Foretoken, model: Path
) -> None:
    result = foretoken("chat", "word " * 3000, "--pair", model)
    assert result.status == 2
    assert "Shorten it by" in result.err


def test_standard_input_that_is_no_text_is_told(
    foretoken: Foretoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended in a traceback."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), "utf-8"))
    result = foretoken("chat", "-")
    assert result.status == 2
    assert "Standard input cannot be read: it is not UTF-8 text." in result.err


@pytest.mark.parametrize("command", ["chat", "race"])
def test_an_empty_message_is_told(foretoken: Foretoken, command: str) -> None:
    result = foretoken(command, "  ")
    assert result.status == 2
    assert "The prompt is empty" in result.err


def test_a_missing_model_is_told_with_the_way_to_get_it(
    foretoken: Foretoken, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FORETOKEN_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    result = foretoken("chat", "Hello", "--pair", "smollm2-360m")
    assert result.status == 2
    assert "hf download HuggingFaceTB/SmolLM2-360M-Instruct" in result.err


@pytest.mark.parametrize("command", ["ui", "serve"])
def test_what_needs_a_gpu_is_refused_before_an_app_starts(
    foretoken: Foretoken, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """It started without a model, and every later load was refused as well."""
    monkeypatch.setattr("engine.machine.devices.has_driver", lambda: False)
    for option, value in (
        ("--device", "cuda"),
        ("--draft-device", "cuda"),
        ("--gpu-layers", 3),
        ("--kv-cache-dtype", "fp8"),
    ):
        result = foretoken(command, option, value)
        assert (result.status, result.out) == (2, "")
        assert f"{option} is {value}, but there is no NVIDIA driver here" in result.err


def test_a_gpu_is_kept_for_another_machine_and_left_out_here(
    foretoken: Foretoken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was refused, also where an image for another machine was made."""
    monkeypatch.setattr("engine.machine.devices.has_driver", lambda: False)
    kept = foretoken("settings", "--device", "cuda", "--data-dir", tmp_path)
    assert (
        kept.status == 0 and "Device: cuda." in kept.out and "Note: without an NVIDIA" in kept.err
    )
    settings = Settings(load=LoadRequest(target="pip"), data_dir=tmp_path)
    load = first_load(tmp_path, settings).load
    assert load.device == "cuda" and not device_for(load).is_gpu


@pytest.mark.parametrize("command", ["ui", "serve"])
def test_a_server_that_cannot_start_says_why(foretoken: Foretoken, command: str) -> None:
    for words, message in (
        (["--port", 70000], "Port 70000 does not exist"),
        (["--host", "192.0.2.1", "--api-key", "k"], "Cannot listen on 192.0.2.1"),
        (["--pair", "no-such-pair"], "There is no pair or model 'no-such-pair'"),
    ):
        result = foretoken(command, *words)
        assert result.status == 2
        assert message in result.err


def test_beyond_this_machine_the_api_needs_a_key(foretoken: Foretoken) -> None:
    result = foretoken("serve", "--host", "0.0.0.0", "--port", 0)
    assert result.status == 2
    assert "--api-key" in result.err


def test_help_names_every_command(foretoken: Foretoken) -> None:
    """That it is quick is tested by what it does not import, in test_architecture."""
    result = foretoken("--help")
    assert result.status == 0
    for name in ("ui", "chat", "bench", "serve", "train", "models"):
        assert f"\n  {name} " in result.out


def test_no_help_is_cut_off(foretoken: Foretoken) -> None:
    def tell(*path: str) -> None:
        shown = foretoken(*path, "--help").out
        assert not [line for line in shown.splitlines()[1:] if line.endswith("...")], shown
        for line in shown.partition("\nCommands:\n")[2].splitlines():
            if line[2:3].strip():
                tell(*path, line.split()[0])

    tell()
