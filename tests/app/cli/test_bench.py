"""``foretoken bench``: tables, JSON as the last line, and a status that scripts can go by."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import PeerFailed
from tests.app.cli.conftest import Foretoken


def test_clients_at_once_are_a_table_and_json(
    foretoken: Foretoken, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("bench", "load", "--pair", model, "--clients", 1, "--clients", 2, "--max-tokens", 4)
    result = foretoken(*asked, "--rounds", 1, "--json")
    assert result.status == 0, result.err
    assert "first, p95" in result.out
    rows = result.last_json["results"]
    assert [(row["clients"], row["tokens"]) for row in rows] == [(1, 4), (2, 8)]
    result = foretoken(*asked, "--llama-cpp", tmp_path)
    assert result.status == 2
    assert "has no llama-server" in result.err
    given: list[object] = []

    def peer(*words: object) -> None:
        given.extend(words[2:])
        raise PeerFailed("asked")

    monkeypatch.setattr("engine.bench.load.llama_server", peer)
    foretoken(*asked, "--llama-cpp", tmp_path, "--context", 96)
    assert given == [96, 2]
