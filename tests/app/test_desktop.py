"""The app as a program of the desktop: its icon, its window, one instance, and its end."""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from app import cli, main
from app.desktop import instance, session, shortcut, window
from app.desktop.instance import announced
from app.desktop.window import Kind
from app.web.open_pages import LONGEST, OpenPages, routes
from app.web.request_log import RequestLog
from app.web.switch import ApiSwitch
from engine.errors import ForetokenError
from tests.support.commands import command

posix_only = pytest.mark.skipif(os.name == "nt", reason="runs a shell script")


# ---- the icon


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, in a folder whose name is hard to quote."""
    made = tmp_path / 'a "b" 100% $c'
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.setenv("USERPROFILE", str(made))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(sys, "executable", str(made / "bin" / "python3"))
    return made


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@posix_only
def test_on_linux_the_icon_comes_and_goes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert {str(path.relative_to(home)) for path in shortcut.install()} <= files_in(home)
    shortcut.install()  # again, over the first
    entry = home / ".local/share/applications/foretoken.desktop"
    text = entry.read_text(encoding="utf-8")
    start = next(line for line in text.splitlines() if line.startswith("Exec="))
    value = start.removeprefix("Exec=").replace("\\\\", "\\").replace("%%", "%")
    words = ["sh", "-c", f"printf '%s\\n' {value}"]  # whose rules within quotes are the same
    assert subprocess.check_output(words, text=True).splitlines() == shortcut.command()
    icons = home / ".local/share/icons/hicolor"
    assert (icons / "256x256/apps/foretoken.png").read_bytes().startswith(b"\x89PNG")
    assert (icons / "scalable/apps/foretoken.svg").is_file()
    if checker := shutil.which("desktop-file-validate"):
        checked = subprocess.run([checker, entry], capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    assert entry in shortcut.remove()
    assert not {name for name in files_in(home) if "foretoken" in name}
    assert shortcut.remove() == []


def test_on_macos_it_is_a_small_bundle(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert shortcut.install() == [home / "Applications" / "Foretoken.app"]
    contents = home / "Applications" / "Foretoken.app" / "Contents"
    about = plistlib.loads((contents / "Info.plist").read_bytes())
    program = contents / "MacOS" / about["CFBundleExecutable"]
    assert shlex.split(program.read_text().splitlines()[1])[1:] == shortcut.command()
    assert os.name == "nt" or os.access(program, os.X_OK)
    assert (contents / "Resources" / about["CFBundleIconFile"]).read_bytes().startswith(b"icns")
    shortcut.remove()
    assert files_in(home) == set()


def test_on_windows_powershell_writes_a_link(home: Path) -> None:
    words = [r"C:\a b\it's\pythonw.exe", "-P", "-m", "app", "app"]
    script = shortcut.windows_script(words, Path("Foretoken.lnk"), Path("foretoken.ico"))
    assert r"$link.TargetPath = 'C:\a b\it''s\pythonw.exe'" in script
    assert "$link.Arguments = '-P -m app app'" in script
    assert script.endswith("$link.Save()")


def test_an_icon_that_cannot_be_written_is_an_error_with_its_reason(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    (home / ".local").write_text("in the way")
    with pytest.raises(ForetokenError, match="could not be installed"):
        shortcut.install()


# ---- the window


@pytest.fixture
def no_webview(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "find_spec", lambda name: None)


@posix_only
@pytest.mark.parametrize(
    ("does", "kind"),
    [("exec sleep 60", Kind.APP_MODE), ("exit 0", Kind.APP_MODE), ("exit 1", Kind.BROWSER)],
)
def test_a_browser_that_cannot_open_a_window_is_passed_over(
    does: str,
    kind: Kind,
    no_webview: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    browser = tmp_path / "chromium"
    words = tmp_path / "words"
    written = f'printf "%s\\n" "$@" > "{words}.part"\nmv "{words}.part" "{words}"'
    browser.write_text(f"#!/bin/sh\n{written}\n{does}\n")
    browser.chmod(0o755)
    monkeypatch.setattr(window, "browsers", lambda: iter([str(tmp_path / "none"), str(browser)]))
    monkeypatch.setattr(window, "_START_S", 0.3 if "sleep" in does else 60)
    opened: list[str] = []
    monkeypatch.setattr(window.webbrowser, "open", opened.append)
    started = []
    start = window._start
    monkeypatch.setattr(
        window, "_start", lambda *words: started.append(start(*words)) or started[-1]
    )
    assert window.open_window("http://127.0.0.1:1", tmp_path / "profile") is kind
    while not words.exists():  # of one that sleeps: a slow machine takes longer than the start may
        time.sleep(0.01)
    told = set(words.read_text().splitlines())
    assert {"--app=http://127.0.0.1:1", f"--user-data-dir={tmp_path / 'profile'}"} <= told
    assert opened == (["http://127.0.0.1:1"] if kind is Kind.BROWSER else [])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert window.why_no_window() == "none did not open a window for root"
    for process in started:
        process.kill()
        process.wait()


def test_without_a_tray_there_is_no_icon_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    assert not session.show_icon(lambda: None, ApiSwitch(), lambda: None)


class FakeTray:
    """pystray as far as the icon needs it; ``has_menu``: whether this desktop's tray can show one."""

    def __init__(self, has_menu: bool) -> None:
        self.shown: list[Any] = []

        class Icon:
            HAS_MENU = has_menu

            def __init__(icon, name: str, picture: object, title: str, items: list[Any]) -> None:  # noqa: N805
                icon.items, icon.notes = items, []

            def run_detached(icon) -> None:  # noqa: N805
                self.shown.append(icon)

            def notify(icon, message: str, title: str) -> None:  # noqa: N805
                icon.notes.append(message)

            def stop(icon) -> None:  # noqa: N805
                self.shown.remove(icon)

        self.Icon = Icon

    def Menu(self, *items: Any) -> list[Any]:  # noqa: N802
        return list(items)

    def MenuItem(self, text: str, act: Any, **more: Any) -> Any:  # noqa: N802
        return SimpleNamespace(text=text, act=act, **more)


def test_the_tray_opens_a_window_switches_the_api_and_quits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(session, "find_spec", lambda name: True)
    monkeypatch.setitem(sys.modules, "pystray", FakeTray(has_menu=False))
    assert not session.show_icon(lambda: None, ApiSwitch(), lambda: None)
    system = FakeTray(has_menu=True)
    monkeypatch.setitem(sys.modules, "pystray", system)
    switch, done = ApiSwitch(needs_key=True), []
    assert session.show_icon(lambda: done.append("opened"), switch, lambda: done.append("stopped"))
    (icon,) = system.shown
    window_item, api, end = icon.items
    window_item.act(icon, window_item)
    api.act(icon, api)
    assert (switch.on, len(icon.notes)) == (False, 1)  # it needs a key, and says so
    switch.set_key("a-long-key")
    api.act(icon, api)
    assert (switch.on, api.checked(api)) == (True, True)
    end.act(icon, end)
    assert (done, system.shown) == (["opened", "stopped"], [])


def test_without_a_terminal_an_error_is_shown_in_a_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []
    monkeypatch.setattr("app.desktop.window.alert", shown.append)
    foretoken = command(cli.main, tmp_path, monkeypatch, capsys)
    done = foretoken("app", "--port", 99999)
    assert done.status == 2
    assert shown == [done.err.removeprefix("foretoken: ").strip()]


# ---- one instance


@contextmanager
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_second_start_opens_the_first_ones_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def open_window(url: str, profile: Path) -> Kind:
        opened.append(url)
        return Kind.APP_MODE

    def leave(status: int = 0) -> None:
        raise SystemExit(status)

    monkeypatch.setattr(session, "open_window", open_window)
    monkeypatch.setattr(main, "leave", leave)
    foretoken = command(cli.main, tmp_path, monkeypatch, capsys)
    with listening() as url, instance.lock(tmp_path) as alone, announced(tmp_path, url):
        assert alone
        done = foretoken("app", "--data-dir", tmp_path)
    assert (done.status, opened) == (0, [url])
    assert "already running" in done.out


def test_a_second_app_is_the_one_that_runs_once_the_first_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third one, alone as it seemed, marked its replies as interrupted and deleted its uploads."""
    monkeypatch.setattr(instance, "_POLL_S", 0.01)
    with listening() as url, ExitStack() as first:
        assert first.enter_context(instance.lock(tmp_path))
        with instance.waiting(tmp_path, url):
            assert not instance.others(tmp_path)
            with monkeypatch.context() as in_the_first:
                in_the_first.setattr(os, "getpid", lambda: 1)
                assert instance.others(tmp_path)
            first.close()
            end = time.monotonic() + 30
            while not (tmp_path / instance.FILE).exists() and time.monotonic() < end:
                time.sleep(0.01)
            found = instance.running(tmp_path)
            assert found is not None and found.url == url
            with instance.lock(tmp_path) as alone:
                assert not alone


def test_what_a_killed_app_left_behind_counts_for_nothing(tmp_path: Path) -> None:
    with listening() as url:
        with announced(tmp_path, url):
            left = (tmp_path / instance.FILE).read_text()
        assert instance.running(tmp_path) is None
        for text in (left.replace('"born": ', '"born": 9'), "{", "[]", '{"url": "x"}'):
            (tmp_path / instance.FILE).write_text(text)
            assert instance.running(tmp_path) is None
    (tmp_path / instance.FILE).write_text(left)  # its process lives, and nothing listens
    assert instance.running(tmp_path) is None


def test_an_app_that_never_answers_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance, "START_S", 0.3)
    with instance.lock(tmp_path), pytest.raises(ForetokenError, match="does not answer"):
        session.show_running(tmp_path)


# ---- its end


class Runtime:
    """What the end asks of a runtime."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir, self.busy = data_dir, False
        self.requests = RequestLog()


def begun(runtime: Any, pages: OpenPages, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A session that has begun, and whether it stopped the app."""
    stopped = threading.Event()
    monkeypatch.setattr(session, "GRACE_S", 0.05)
    monkeypatch.setattr(session, "LOOK_S", 0.01)
    monkeypatch.setattr(session, "open_window", lambda url, profile: Kind.APP_MODE)
    monkeypatch.setattr(session, "show_icon", lambda *_: False)
    listener: Any = SimpleNamespace(url="http://127.0.0.1:1")
    session.begin(runtime, ApiSwitch(True), pages, listener, stopped.set)
    return stopped


def test_it_ends_with_its_last_page_once_nothing_else_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, pages = Runtime(tmp_path), OpenPages()
    stopped = begun(runtime, pages, monkeypatch)
    assert not stopped.wait(0.2)  # no page has been there yet
    for page in "ab":
        pages.opened(page)
    pages.closed("a")
    assert not stopped.wait(0.2)
    runtime.busy = True
    pages.closed("b")
    assert not stopped.wait(0.2)
    runtime.requests.begin("127.0.0.1", "curl", "/v1/models")
    runtime.busy = False
    assert not stopped.wait(0.2)  # the API is on, and was just used
    runtime.requests.last_at -= session.API_IN_USE_S
    assert stopped.wait(10)


def test_a_reload_does_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = OpenPages()
    stopped = begun(Runtime(tmp_path), pages, monkeypatch)
    monkeypatch.setattr(session, "GRACE_S", 30)
    pages.opened("a")
    pages.closed("a")
    pages.opened("b")
    monkeypatch.setattr(session, "GRACE_S", 0.05)
    assert not stopped.wait(0.2)
    pages.closed("b")
    assert stopped.wait(10)


@pytest.mark.anyio
async def test_pages_say_that_they_are_open_and_that_they_close() -> None:
    pages = OpenPages()
    transport = httpx.ASGITransport(app=Starlette(routes=routes(pages)))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:

        async def tell(what: str) -> int:
            return (await http.post(f"/pages/{what}")).status_code

        assert await tell("closed?page=a") == 204  # nobody knows it
        assert await tell(f"opened?page={'a' * (LONGEST + 1)}") == 204
        assert await tell("opened") == 204
        assert pages.closed_for == 0
        assert await tell("opened?page=a") == 204
        assert pages.closed_for == 0
        assert await tell("closed?page=a") == 204
        assert pages.closed_for > 0
        assert (await http.get("/pages/opened?page=a")).status_code == 405


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
