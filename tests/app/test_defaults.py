"""Measured defaults: kept for a pair, used where nothing is chosen, and forgotten when asked."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.settings.defaults import FILE, Defaults, Winner
from engine import files
from engine.api import Capabilities, Loaded, LoadRequest, ProposerInfo
from engine.errors import ForetokenError
from engine.request import Control, Speculation
from tests.support.fake_engine import CAPABILITIES


def offering(*names: str) -> Capabilities:
    preferred = "draft" if "draft" in names else "ngram"
    return replace(CAPABILITIES, proposers=tuple(map(ProposerInfo, names)), preferred=preferred)


PIP = Loaded(
    request=LoadRequest(target="pip"),
    name="Pip",
    target="pip",
    draft="pip-draft",
    target_id="pip",
    draft_id="pip-draft",
    target_name="pip",
    draft_name="pip-draft",
    heads=(),
    context=1024,
    vocabulary=4096,
    parameters=7,
    quantization="int8",
    kv_cache_dtype="fp32",
    device="cpu",
    capabilities=offering("none", "draft", "suffix"),
)
BEST = Winner("suffix", "fixed", 8, 2.5, 48)
TALE = Winner("draft", "auto", 15, 3.1, 12)


def test_without_a_measurement_the_pair_drafts_as_suits_it(tmp_path: Path) -> None:
    defaults = Defaults(tmp_path)
    assert defaults.of(PIP) is None
    assert defaults.of(None) is None
    assert defaults.speculation(PIP) == Speculation(proposer="draft")
    alone = replace(PIP, draft=None, capabilities=offering("none", "ngram"))
    assert defaults.speculation(alone) == Speculation(proposer="ngram")


def test_only_another_faster_way_beats_the_present_default(tmp_path: Path) -> None:
    """The tune page advised "Use ngram, auto" where that was the default, or slower than it."""
    defaults = Defaults(tmp_path)
    assert defaults.beaten_by(PIP, BEST) and not defaults.beaten_by(PIP, TALE)
    defaults.keep(PIP, BEST, {})
    assert defaults.beaten_by(PIP, TALE) and not defaults.beaten_by(PIP, replace(BEST, speedup=3))
    assert not defaults.beaten_by(PIP, replace(TALE, speedup=2))


def test_a_kept_winner_drafts_for_its_pair_and_quantisation_alone(tmp_path: Path) -> None:
    Defaults(tmp_path).keep(PIP, BEST, {"tale": TALE})
    defaults = Defaults(tmp_path)
    kept = defaults.of(PIP)
    assert kept is not None
    assert (kept.pair, kept.winner, kept.kinds) == ("Pip", BEST, {"tale": TALE})
    assert "Suffix, depth 8, 2.5x (measured 20" in str(kept)
    assert str(kept).endswith("48 prompts)")
    assert defaults.speculation(PIP) == Speculation(
        proposer="suffix", depth=8, controller=Control.FIXED
    )
    others: tuple[dict[str, str | None], ...] = (
        {"quantization": "fp32"},
        {"kv_cache_dtype": "fp8"},
        {"draft": None, "draft_id": None},
        {"target_id": "other"},
        {"device": "cuda"},
    )
    for other in others:
        assert defaults.of(replace(PIP, **other)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("winner", "expected"),
    [
        (TALE, Speculation(proposer="draft", controller=Control.AUTO)),
        (Winner("none", "fixed", 0, 1.0, 3), Speculation(proposer="none")),
    ],
)
def test_auto_and_plain_decoding_can_win(
    tmp_path: Path, winner: Winner, expected: Speculation
) -> None:
    defaults = Defaults(tmp_path)
    defaults.keep(PIP, winner, {})
    assert defaults.speculation(PIP) == expected


def test_models_of_one_name_in_two_folders_have_a_default_each(tmp_path: Path) -> None:
    first = replace(PIP, name="model", target="model.gguf", target_id="/a/model.gguf")
    second = replace(first, target_id="/b/model.gguf")
    defaults = Defaults(tmp_path)
    defaults.keep(first, BEST, {})
    assert defaults.of(second) is None
    defaults.keep(second, TALE, {})
    kept = [defaults.of(each) for each in (first, second)]
    assert [each and each.winner for each in kept] == [BEST, TALE]


def test_a_winner_that_the_pair_no_longer_has_does_not_count(tmp_path: Path) -> None:
    defaults = Defaults(tmp_path)
    defaults.keep(PIP, BEST, {})
    without = replace(PIP, capabilities=offering("none", "draft"))
    assert defaults.of(without) is None
    assert defaults.speculation(without).proposer == "draft"


def test_defaults_are_forgotten_one_pair_or_all(tmp_path: Path) -> None:
    defaults = Defaults(tmp_path)
    defaults.keep(PIP, BEST, {})
    defaults.keep(replace(PIP, name="Other", target_id="other"), BEST, {})
    assert defaults.clear("Nobody") == 0
    assert defaults.clear("Pip") == 1
    assert [one.pair for one in defaults.all().values()] == ["Other"]
    assert defaults.clear() == 1
    assert defaults.all() == {}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"defaults": 3}',
        '{"defaults": []}',
        '{"defaults": {"k": {}}}',
        '{"defaults": {"k": {"pair": "a", "quantization": "b", "measured": "c", "kinds": {}, '
        '"winner": {"proposer": "x", "controller": "lucky", "depth": 1, "speedup": 1, "prompts": 1}}}}',
        b"\xff",
    ],
)
def test_a_damaged_file_is_told_counts_as_empty_and_is_kept_beside_the_next(
    tmp_path: Path, content: str | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    raw = content.encode() if isinstance(content, str) else content
    (tmp_path / FILE).write_bytes(raw)
    defaults = Defaults(tmp_path)
    assert defaults.speculation(PIP).proposer == "draft"
    assert FILE in caplog.text
    defaults.keep(PIP, BEST, {})
    assert defaults.of(PIP) is not None
    assert json.loads((tmp_path / FILE).read_text())["version"] == 1
    one_strange_entry = b'"k"' in raw
    assert one_strange_entry or (tmp_path / f"{FILE}.damaged").read_bytes() == raw


def test_one_strange_entry_costs_no_other_and_stays_in_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It once made all of them count as absent, and the next sweep then deleted them."""
    defaults, other = Defaults(tmp_path), replace(PIP, name="Other", target_id="other")
    defaults.keep(PIP, BEST, {})
    content = json.loads((tmp_path / FILE).read_text())
    content["defaults"]["strange"] = {"winner": "the best"}
    (tmp_path / FILE).write_text(json.dumps(content))
    assert defaults.of(PIP) is not None
    assert "strange cannot be read" in caplog.text
    defaults.keep(other, TALE, {})
    assert defaults.clear("Pip") == 1
    left = json.loads((tmp_path / FILE).read_text())["defaults"]
    assert left["strange"] == {"winner": "the best"}
    assert [one.pair for one in defaults.all().values()] == ["Other"]
    assert defaults.clear() == 1
    assert json.loads((tmp_path / FILE).read_text())["defaults"] == {}


def test_a_file_of_a_newer_version_is_told_not_used_and_never_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    defaults = Defaults(tmp_path)
    defaults.keep(PIP, BEST, {})
    newer = (tmp_path / FILE).read_text().replace('"version": 1', '"version": 2')
    (tmp_path / FILE).write_text(newer)
    assert defaults.speculation(PIP).proposer == "draft"
    assert "newer version of Foretoken (2)" in caplog.text
    for change in (lambda: defaults.keep(PIP, BEST, {}), defaults.clear):
        with pytest.raises(ForetokenError, match="Update Foretoken"):
            change()
    assert (tmp_path / FILE).read_text() == newer


def test_a_folder_that_cannot_be_written_is_told_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ForetokenError, match=r"No space left.* Free some space"):
        Defaults(tmp_path).keep(PIP, BEST, {})


def test_a_file_that_the_disk_does_not_give_out_is_told_and_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It once counted as empty, and the next sweep's winner was then the only one."""
    defaults = Defaults(tmp_path)
    defaults.keep(PIP, BEST, {})

    def failing(*_: object, **__: object) -> str:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(files, "bounded", failing)
        assert defaults.of(PIP) is None
        assert "Input/output error" in caplog.text
        for change in (lambda: defaults.keep(PIP, TALE, {}), defaults.clear):
            with pytest.raises(ForetokenError, match=r"cannot be read.*--data-dir"):
                change()
    kept = defaults.of(PIP)
    assert kept is not None and kept.winner == BEST
