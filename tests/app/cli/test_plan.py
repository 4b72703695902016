"""``foretoken plan``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import yaml

from app.deploy.methods import BACKENDS, DEPTHS, ENGINES, METHODS
from tests.app.cli.conftest import Foretoken
from tests.support.fixtures import gguf_pair
from tests.support.model_server import Played, playing

__all__ = ["gguf_pair"]

EAGLE3 = ("plan", "llama-3.1-8b", "--engine", "trtllm", "--method", "eagle3", "--gpus", "1xH100")


def test_a_plan_is_told_and_written(foretoken: Foretoken, tmp_path: Path) -> None:
    out = tmp_path / "launch"
    result = foretoken(*EAGLE3, "--depth", 4, "--users", 2, "--out", out, "--json")
    assert result.status == 0, result.err
    assert "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B" in result.out
    assert "estimate" in result.out
    known = result.last_json
    assert known["depth"] == 4
    assert known["layout"]["tensor"] == 1
    written = {file.name for file in out.iterdir()}
    assert written == {*known["files"], "README.md", "plan.json"}
    assert os.access(out / "start.sh", os.X_OK)
    config = yaml.safe_load((out / "extra-llm-api-config.yml").read_text())
    assert config["speculative_config"]["decoding_type"] == "Eagle3"


def test_a_plan_fits_a_screen_and_names_its_other_files(foretoken: Foretoken) -> None:
    """240 of 468 lines were a dashboard as JSON."""
    result = foretoken("plan", "llama-3.1-8b", "--gpus", "1xH100")
    lines = result.out.splitlines()
    assert "    vllm serve meta-llama/Llama-3.1-8B-Instruct \\" in lines
    assert len(lines) < 50
    assert lines[-1].startswith("More with --out FOLDER, which writes start.sh, docker.sh, ")
    assert "grafana.json" in lines[-1]


def test_a_server_does_not_steer_the_terminal(foretoken: Foretoken) -> None:
    page = (
        "vllm:spec_decode_num_drafts_total 500.0\nvllm:spec_decode_num_draft_tokens_total 900.0\n"
    )
    with playing(Played(({"id": "\x1b[2Jmine"},), {"/metrics": page})) as played:
        result = foretoken("plan", "llama-3.1-8b", "--gpus", "1xH100", "--from", played.url)
    assert result.status == 0, result.err
    assert "?[2Jmine" in result.out and "\x1b" not in result.out


def test_an_unknown_card_is_told_with_those_that_are_known(foretoken: Foretoken) -> None:
    """An RTX 5080 was proposed for a GTX 1080."""
    result = foretoken("plan", "llama-3.1-8b", "--gpus", "GTX 1080")
    assert result.status == 2
    assert "Plans know no GPU 'GTX 1080'. Known: A100 (80 GB), " in result.err
    assert "Did you mean" not in result.err


def test_help_names_what_the_tables_have(foretoken: Foretoken) -> None:
    told = " ".join(foretoken("plan", "--help").out.replace("│", " ").split())
    for names in (ENGINES, METHODS, BACKENDS, DEPTHS):
        *first, last = names
        assert f"{', '.join(first)} or {last}." in told


def test_another_plan_replaces_the_first_but_not_what_people_wrote(
    foretoken: Foretoken, tmp_path: Path
) -> None:
    out, config = tmp_path / "launch", tmp_path / "launch" / "extra-llm-api-config.yml"
    other = ("plan", "llama-3.1-8b", "--engine", "vllm", "--gpus", "1xH100", "--out", out)
    for own in (None, "# my own"):
        assert foretoken(*EAGLE3, "--out", out).status == 0
        if own is not None:
            config.write_text(own)
        assert foretoken(*other).status == 0
        assert (config.read_text() if config.exists() else None) == own


def test_speeds_under_load_are_shown(foretoken: Foretoken) -> None:
    result = foretoken(
        "plan", "qwen3-0.6b", "--method", "ngram", "--gpus", "H100", "--context", 64, "--loads"
    )
    assert result.status == 0, result.err
    lines = [line.split() for line in result.out.split("\n")]
    assert [line[0] for line in lines if len(line) == 8][-1] == "1,000"


def test_a_folder_is_planned_for_by_its_config(foretoken: Foretoken, tmp_path: Path) -> None:
    model = tmp_path / "own model"
    model.mkdir()
    sizes = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "vocab_size": 512,
        "max_position_embeddings": 256,
    }
    (model / "config.json").write_text(json.dumps(sizes))
    result = foretoken("plan", model, "--gpus", "1xL4", "--json")
    assert result.status == 0, result.err
    assert result.last_json["target"]["loads"] == str(model)
    assert result.last_json["context"] == 256
    assert f"vllm serve '{model}'" in result.last_json["files"]["start.sh"]


def test_scripts_name_no_gguf_file_which_engines_for_gpus_do_not_load(
    foretoken: Foretoken, gguf_pair: tuple[Path, Path]
) -> None:
    target, draft = gguf_pair
    words = ("--method", "draft_model", "--draft", draft, "--gpus", "1xL4", "--json")
    result = foretoken("plan", target, *words)
    assert result.status == 0, result.err
    known = result.last_json
    for file in gguf_pair:
        assert f"/path/to/{file.stem}" in known["files"]["start.sh"]
        assert any(f"Replace /path/to/{file.stem}" in note for note in known["notes"])
    assert not [name for name, text in known["files"].items() if str(target.parent) in text]


def test_what_does_not_fit_is_told_with_what_would(foretoken: Foretoken) -> None:
    result = foretoken("plan", "llama-3.1-405b", "--gpus", "8xH100")
    assert result.status == 2
    assert "What would fit" in result.err
    assert "16xH100" in result.err


def test_an_unknown_model_is_told_with_those_that_are_known(foretoken: Foretoken) -> None:
    result = foretoken("plan", "lama-3.1-8b", "--gpus", "8xH100")
    assert result.status == 2
    assert "Did you mean llama-3.1-8b?" in result.err
    other = foretoken("plan", "Qwen/Qwen4.5-72B-Instruct", "--gpus", "8xH100")
    assert "Did you mean" not in other.err  # there is no such size or version


def test_a_folder_that_cannot_be_written_is_told(foretoken: Foretoken, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", Path("/proc/x")):
        result = foretoken(*EAGLE3, "--out", place)
        assert result.status == 2
        assert f"{place} cannot be written to" in result.err
        assert "Free some space" not in result.err
        assert not result.out  # told before the plan


def test_one_of_a_thing_is_told_as_one(foretoken: Foretoken) -> None:
    """It was "2 replicas, on one GPU" and "1 GPUs with 1 requests"."""
    two = foretoken("plan", "llama-3.1-8b", "--gpus", "2xH100", "--users", 200, "--context", 1024)
    assert "2 replicas, each on one GPU." in two.out
    idle = foretoken("plan", "llama-3.1-8b", "--gpus", "3xH100", "--users", 3)
    assert "1 of 3 GPUs stays free" in idle.out
    rate = foretoken("plan", "llama-3.1-8b", "--gpus", "1xH100", "--rps", 0.1)
    assert "on 1 GPU with 1 request at once" in rate.out
