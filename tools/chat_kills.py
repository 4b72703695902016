"""``python -m tools.chat_kills [COUNT]``: kills the writer of chats at random, and looks at what is left.

A child process sends, retries, deletes and takes back, over an engine that recites, and reports each
finished reply, and each text once a page could have read it. It is killed with SIGKILL; then the file of
chats is opened as the app would open it. All kills share one file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from app.paths import catalog_file
from app.runtime import Runtime
from app.storage.store import Store
from app.ui.controls.settings import Settings
from app.ui.pages.chat.backend import ChatBackend
from app.ui.replies import SAVE_PERIOD
from engine.loading.catalog import open_catalog
from engine.loading.request import LoadRequest
from tests.support.fake_engine import FakeEngine, Script

LATE = 0.5
"""Seconds beside ``SAVE_PERIOD`` that a busy machine may take to write."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=50)
    arguments = parser.parse_args()
    kept: dict[int, str] = {}
    partial = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.count):
            random.seed(number)
            lines, killed = kill_one(Path(folder), random.uniform(0.05, 3.0))
            partial += examine(Path(folder), lines, killed, kept)
            print(f"{number + 1} kills, {len(kept)} finished replies there", file=sys.stderr)
    found = {"kills": arguments.count, "finished": len(kept), "cut short, text kept": partial}
    print(json.dumps(found))


def kill_one(folder: Path, after: float) -> tuple[list[dict[str, Any]], float]:
    """What a child reported before it was killed, ``after`` seconds from its first report, and when."""
    end, told = os.pipe()
    child = os.fork()  # what is imported is there already
    if not child:
        os.close(end)
        write_on(folder, told)
    os.close(told)
    with os.fdopen(end) as reports:
        first = reports.readline()
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
        killed = time.time()
        rest = reports.read()
    os.waitpid(child, 0)
    whole = f"{first}{rest}".rpartition("\n")[0]  # a line that was cut short says nothing
    return [json.loads(line) for line in whole.split("\n") if line], killed


def examine(folder: Path, lines: list[dict[str, Any]], killed: float, kept: dict[int, str]) -> int:
    """Checks every finished reply so far, and that of a reply that was cut short no more is lost than
    the last moments; returns how many such replies have text."""
    with closing(Store(folder)) as store:
        found = {
            message.id: message for chat in store.chats() for message in store.all_messages(chat.id)
        }
    texts = {}
    for line in lines:
        match line["t"]:
            case "done":
                kept[line["id"]] = line["text"]
            case "deleted":
                kept.pop(line["id"], None)
            case "text" if line["at"] < killed - SAVE_PERIOD - LATE:
                texts[line["id"]] = line["text"]
    for message, text in kept.items():
        assert (found[message].text, found[message].status) == (text, "done"), message
    for message, text in texts.items():
        if message in found:
            assert found[message].text.startswith(text), (message, text, found[message].text)
    assert all(message.status != "running" for message in found.values())
    cut = {line["id"] for line in lines if line["t"] == "text"} & found.keys()
    return sum(found[each].status == "interrupted" and bool(found[each].text) for each in cut)


def write_on(folder: Path, told: int) -> None:
    """The child: chats until it is killed, and reports to the file of that number."""

    def tell(**line: object) -> None:
        os.write(told, f"{json.dumps(line)}\n".encode())

    random.seed(time.time_ns())
    catalog = open_catalog(catalog_file())
    engine = FakeEngine(
        lambda request: Script([f" {number}" for number in range(random.randrange(1, 120))]),
        catalog=lambda: catalog,
        loads=LoadRequest(target="pip"),
        seconds_a_round=0.01,
    )
    backend = ChatBackend(Runtime(engine, catalog, folder, folder / "models"), Store(folder))
    chat = None
    while True:
        shown = backend.store.messages(chat) if chat else ()
        chat = None if len(shown) > 20 else chat
        if shown and chat and random.random() < 0.1:
            last = shown[-1]
            tell(t="deleted", id=last.id)  # before it is: either end is right if it is killed here
            deleted = backend.chats.delete_message({"chat": chat, "message": last.id})
            if random.random() < 0.5:
                backend.chats.restore({"deleted": deleted["deleted"]})
                tell(t="done", id=last.id, text=last.text)
            continue
        data: dict[str, Any] = {"chat": chat, "action": "send", "text": "Count."}
        if shown and chat and shown[-1].role == "assistant" and random.random() < 0.3:
            data |= {"action": "retry", "message": shown[-1].id}
        begun = backend.reply(data, Settings(proposer="ngram"))
        chat, message = begun["chat"], begun["reply"]["id"]
        writing = backend.live_replies.find(begun["run"])
        assert writing is not None
        while not writing.done.wait(0.02):
            events = writing.feed.packet(0)["events"]
            text = "".join(event.get("s", "") for event in events)
            if text:
                tell(t="text", id=message, text=text, at=time.time())
        stored = next(m for m in backend.store.messages(chat) if m.id == message)
        tell(t="done", id=message, text=stored.text)


if __name__ == "__main__":
    main()
