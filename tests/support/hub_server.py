"""A hub on this machine: repositories over a real socket, for the real client.

Speaks what a search and a download need: a list of repositories by words of their names, model
information with the SHA-256 of large files, HEAD with ETag and commit, GET with Range. It can refuse like
a gated repository or a hub that is busy or broken, and break connections off in the middle of a file.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from engine.loading.hub import errors
from engine.machine.secrets import HUB_TOKEN_FILE

COMMIT = "c0ffee" + "0" * 34
PATIENCE_S = 60.0


def _set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass
class HostedRepository:
    """One repository. ``breaks``: by file, after how many bytes its next GETs are cut off, or if
    ``silent`` send nothing more.

    ``hollow``: by file, how many of its next GETs end properly without a byte of it. ``refusals``: by
    file, and by "" for the model's information, the status and Retry-After of its next answers.
    ``gated`` lets only ``token`` in, ``private`` does not even say that it is there; ``pause_s`` waits
    before each block of ``block`` bytes, and ``go_on`` is waited for behind the first one. ``sha256``:
    by file, what the hub says of it instead; ``weak_etags``: ETags that say nothing of the content, as
    something between may make of them.
    """

    files: dict[str, bytes]
    gated: bool = False
    token: str = "hf_right"
    breaks: dict[str, list[int]] = field(default_factory=dict)
    silent: bool = False
    hollow: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, list[tuple[int, str | None]]] = field(default_factory=dict)
    private: bool = False
    sha256: dict[str, str] = field(default_factory=dict)
    weak_etags: bool = False
    licence: str = "mit"
    pause_s: float = 0.0
    go_on: threading.Event = field(default_factory=_set)
    block: int = 4096
    ignore_range: bool = False
    damage: bool = False
    downloads: int = 0
    likes: int = 0


@dataclass(frozen=True)
class Seen:
    """One request the server answered."""

    method: str
    path: str
    range: str | None


class HubServer:
    """Serves ``repositories`` (by 'owner/name') at ``url`` until closed; use as a context."""

    def __init__(self, repositories: dict[str, HostedRepository]) -> None:
        self.repositories = repositories
        self.seen: list[Seen] = []
        self.over = threading.Event()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.hub = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def fetched(self) -> list[str]:
        """Names of the files whose bytes were asked for, in order."""
        return [seen.path.rsplit("/", 1)[1] for seen in self.seen if seen.method == "GET/file"]

    def __enter__(self) -> HubServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: HubServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: tests look at ``HubServer.seen``."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        parts = path.strip("/").split("/")
        is_api = parts[:2] == ["api", "models"]
        method = self.command if is_api or not body else "GET/file"
        self.server.hub.seen.append(Seen(method, path, self.headers.get("Range")))
        if parts == ["api", "models"]:
            wanted = parse_qs(urlsplit(self.path).query)
            return self._json(_found(wanted, self.server.hub.repositories))
        name = "/".join(parts[2:4] if is_api else parts[:2])
        repository = self.server.hub.repositories.get(name)
        if repository is None:
            return self._refuse(404, "RepoNotFound")
        if repository.private and not self._has_token(repository):
            return self._refuse(401, "RepoNotFound")
        file = "" if is_api else "/".join(parts[4:])
        if repository.refusals.get(file):
            status, after = repository.refusals[file].pop(0)
            return self._refuse(status, None, after)
        if is_api:
            if parts[5:] not in ([], ["main"], [COMMIT]):
                return self._refuse(404, "RevisionNotFound")
            tree = parts[4:5] == ["tree"]
            return self._json(_tree(repository) if tree else _information(name, repository))
        if repository.gated and not self._has_token(repository):
            status = 403 if self.headers.get("Authorization") else 401
            return self._refuse(status, "GatedRepo")
        content = repository.files.get(file)
        if content is None:
            return self._refuse(404, "EntryNotFound")
        return self._file(repository, file, content, body)

    def _has_token(self, repository: HostedRepository) -> bool:
        return self.headers.get("Authorization") == f"Bearer {repository.token}"

    def _refuse(self, status: int, code: str | None, retry_after: str | None = None) -> None:
        self.send_response(status)
        if code is not None:
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", code)
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _json(self, answer: object) -> None:
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _file(self, repository: HostedRepository, file: str, content: bytes, body: bool) -> None:
        start = 0
        asked = self.headers.get("Range")
        if asked and not repository.ignore_range:
            start = int(asked.removeprefix("bytes=").split("-")[0])
        sent = content[start:]
        if body and repository.hollow.get(file):
            repository.hollow[file] -= 1
            sent = b""
        self.send_response(206 if start else 200)
        self.send_header("ETag", '"weak"' if repository.weak_etags else f'"{_etag(content)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(sent)))
        if start:
            last = len(content) - 1
            self.send_header("Content-Range", f"bytes {start}-{last}/{len(content)}")
        self.end_headers()
        if body:
            cuts = repository.breaks.get(file)
            limit = cuts.pop(0) if cuts else len(sent)
            self._send(repository, bytes(len(sent)) if repository.damage else sent, limit)

    def _send(self, repository: HostedRepository, content: bytes, limit: int) -> None:
        try:
            for start in range(0, min(limit, len(content)), repository.block):
                time.sleep(repository.pause_s)
                assert not start or repository.go_on.wait(PATIENCE_S)
                self.wfile.write(content[start : min(start + repository.block, limit)])
                self.wfile.flush()
        except OSError:
            pass  # the client went away
        if limit < len(content):
            if repository.silent:
                self.server.hub.over.wait(60)
            self.close_connection = True


def _found(
    wanted: dict[str, list[str]], repositories: dict[str, HostedRepository]
) -> list[dict[str, object]]:
    """Return the repositories with GGUF files whose names have the words, as a search is answered."""
    assert (wanted["filter"], wanted["sort"]) == (["gguf"], ["downloads"])
    words = wanted["search"][0].lower().split()
    found: list[dict[str, object]] = [
        {
            "id": name,
            "downloads": one.downloads,
            "likes": one.likes,
            "gated": one.gated and "manual",
        }
        for name, one in repositories.items()
        if all(word in name.lower() for word in words)
        and any(file.endswith(".gguf") for file in one.files)
    ]
    found.sort(key=lambda one: -repositories[str(one["id"])].downloads)
    return found[: int(wanted["limit"][0])]


def _information(name: str, repository: HostedRepository) -> dict[str, object]:
    siblings = [
        {"rfilename": file, "size": len(content), "blobId": _etag(content)[:40]}
        | ({"lfs": _lfs(repository, file)} if file.endswith((".safetensors", ".gguf")) else {})
        for file, content in repository.files.items()
    ]
    return {
        "_id": "0",
        "id": name,
        "modelId": name,
        "sha": COMMIT,
        "private": False,
        "gated": "manual" if repository.gated else False,
        "siblings": siblings,
        "tags": [],
        "cardData": {"license": repository.licence},
    }


def _lfs(repository: HostedRepository, file: str) -> dict[str, object]:
    content = repository.files[file]
    digest = repository.sha256.get(file, _etag(content))
    return {"size": len(content), "sha256": digest, "pointerSize": 134}


def _tree(repository: HostedRepository) -> list[dict[str, object]]:
    return [
        {"type": "file", "path": file, "size": len(content), "oid": _etag(content)[:40]}
        for file, content in repository.files.items()
    ]


def _etag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def use_hub(hub: HubServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Download from ``hub``, with short waits; keep token and cache in ``folder``."""
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv(HUB_TOKEN_FILE, str(folder / "token"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder / "cache"))
    monkeypatch.setattr(errors, "BACKOFF_S", 0.01)
