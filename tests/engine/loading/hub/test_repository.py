"""Repositories that are typed in: what of them can be downloaded, and GGUF files that are."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import DownloadError, InvalidRequest
from engine.loading.hub.disk import locate
from engine.loading.hub.fetch import download
from engine.loading.hub.repository import look_up, named_in
from tests.support.hub_server import HostedRepository, HubServer

SPLIT = {f"big/Tale-BF16-{part:05}-of-00002.gguf": bytes(700 + part) for part in (1, 2)}
FILES = {
    "Tale-Q4_K_M.gguf": bytes(range(256)) * 40,
    "mmproj-F16.gguf": b"reads images",
    "mtp-Tale-Q8_0.gguf": b"drafts",
    "mtp-Other-Q8_0.gguf": b"drafts for another",
    "LICENSE": b"yours",
    "README.md": b"about",
    **SPLIT,
}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (" Qwen/Qwen3-0.6B ", ("Qwen/Qwen3-0.6B", "main")),
        ("owner/name@v2", ("owner/name", "v2")),
        ("https://huggingface.co/owner/name", ("owner/name", "main")),
        ("https://hf.co/owner/name/tree/v2?x=1", ("owner/name", "v2")),
        ("https://hf.co/owner/name/resolve/refs%2Fpr%2F1/a.gguf", ("owner/name", "refs/pr/1")),
        ("https://huggingface.co/owner/name/blob/main/a.gguf", ("owner/name", "main")),
    ],
)
def test_a_repository_is_named_as_people_copy_it(text: str, named: tuple[str, str]) -> None:
    assert named_in(text) == named


@pytest.mark.parametrize("text", ["", "qwen", "a/b/c", "../x", "a/..", "C:\\x", "a b/c"])
def test_anything_else_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(InvalidRequest, match="owner/name"):
        named_in(text)


def test_its_models_are_told_with_licence_type_and_size(
    server: HubServer, repository: HostedRepository
) -> None:
    found = look_up("owner/tiny")
    assert (found.licence, found.gated, found.reason) == ("mit", False, None)
    (whole,) = found.choices
    assert (whole.file, whole.bytes) == ("", len(repository.files["model.safetensors"]))
    server.repositories["maker/Tale-GGUF"] = HostedRepository(FILES, gated=True, licence="llama3")
    found = look_up(f"{server.url}/maker/Tale-GGUF")
    assert (found.licence, found.gated) == ("llama3", True)
    assert [(one.name, one.gguf_type, one.bytes) for one in found.choices] == [
        ("Tale-BF16", "BF16", 1403),
        ("Tale-Q4_K_M", "Q4_K_M", 10240),
    ]
    assert [[each.file for each in one.companions] for one in found.choices] == [
        [],
        ["mtp-Tale-Q8_0.gguf"],
    ]


def test_one_gguf_file_is_downloaded_with_all_its_parts(server: HubServer, models: Path) -> None:
    hosted = server.repositories["maker/Tale-GGUF"] = HostedRepository(FILES, block=64)
    split, single = look_up("maker/Tale-GGUF").choices
    path = download(split, models)
    assert server.fetched() == ["LICENSE", *(name.split("/")[1] for name in SPLIT)]
    assert path == models / "maker--Tale-GGUF" / "big" / "Tale-BF16-00001-of-00002.gguf"
    assert [(path.parent / name[4:]).read_bytes() for name in SPLIT] == [*SPLIT.values()]
    assert locate(single, models) is None
    hosted.breaks[single.file] = [640]
    assert download(single, models).read_bytes() == FILES[single.file]
    assert "bytes=640-" in [seen.range for seen in server.seen]
    assert not list(models.rglob("*.part"))


def test_what_cannot_be_run_says_why(server: HubServer) -> None:
    server.repositories["owner/pickled"] = HostedRepository({"pytorch_model.bin": b"x"})
    server.repositories["owner/words"] = HostedRepository({"README.md": b"x"})
    assert "only pickle weights" in str(look_up("owner/pickled").reason)
    assert "it cannot run here" in str(look_up("owner/words").reason)
    with pytest.raises(DownloadError, match="There is no repository owner/gone"):
        look_up("owner/gone")
