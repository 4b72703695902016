"""``foretoken bench real`` on a GGUF pair, beside a stand-in for llama.cpp's server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.bench.prompts import Prompt
from engine.bench.real import case
from engine.errors import InvalidRequest
from engine.loading.request import LoadRequest
from tests.app.cli.conftest import Foretoken
from tests.support.fixtures import gguf_pair
from tests.support.stand_ins import stand_in

__all__ = ["gguf_pair"]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"kind": "chat", "prompt": "Hello there"}\n')
    return file


def test_a_pair_is_measured_and_written_down(
    foretoken: Foretoken, gguf_pair: tuple[Path, Path], prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "real"
    words = ("--prompts", prompts, "--max-tokens", 12, "--repeats", 1, "--depth", 2, "--no-native")
    peer = ("--llama-cpp", stand_in(tmp_path / "peer", "llama-server"))
    pair = ("--pair", "::".join(map(str, gguf_pair)))
    result = foretoken("bench", "real", *pair, *words, *peer, "--out", out, "--json")
    assert result.status == 0, result.err
    value = result.last_json
    assert "Turn 1, llama.cpp, plain: " in result.out.partition("---")[0]  # before the tables
    assert [one["name"] for one in value["absent"]] == ["ik_llama.cpp", "mistral.rs", "openvino"]
    ours = [row for row in value["results"] if row["engine"] == "foretoken"]
    settings = [row["setting"]["name"] for row in ours]
    assert settings[:3] == ["plain", "draft, auto", "draft, depth 2"]
    assert {"ngram, auto", "suffix, auto", "best, auto"} <= set(settings)
    assert all(row["differ"] == 0 and row["tokens_per_s"]["all"]["median"] > 0 for row in ours)
    assert {"1", "2", "4", "8", "16"} == set(value["steps"]["verify"])
    assert value["steps"]["draft"] > 0
    cost = value["costs"][0]
    assert cost["ready_s"]["median"] > 0 and cost["prompt_tokens_per_s"]["median"] > 0
    assert [lead["engine"] for lead in value["leads"]] == ["llama.cpp"]
    assert json.loads(out.with_suffix(".json").read_text())["results"] == value["results"]
    assert "foretoken" in out.with_suffix(".md").read_text()
    assert out.with_suffix(".svg").read_text().startswith("<svg")


def test_what_cannot_be_is_told_before_anything_starts(
    foretoken: Foretoken, gguf_pair: tuple[Path, Path], prompts: Path
) -> None:
    asked = ("bench", "real", "--pair", gguf_pair[0], "--prompts", prompts)
    assert "with --max-tokens" in foretoken(*asked, "--max-tokens", 100_000).err
    assert "depth" in foretoken(*asked, "--depth", 99).err
    load, long = LoadRequest.parse(str(gguf_pair[0])), Prompt("chat", ("word " * 10_000,))
    with pytest.raises(InvalidRequest, match="longest prompt"):
        case.make(load, [long], 8, skip_long=True)
    _, kept = case.make(load, [Prompt("code", ("Hi",)), long], 8, skip_long=True)
    assert [one.kind for one in kept] == ["code"]
    assert foretoken("bench", "real", "--pair", "missing.gguf").status == 2
