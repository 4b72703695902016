"""Chats of ChatGPT and LM Studio: branches, thoughts, code, what is left out; and files without chats."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.storage import chat_files
from app.storage.imports import chatgpt, importing
from app.storage.imports import conversation as conversation_limits
from app.storage.imports import conversation as streaming
from app.storage.imports.conversation import objects
from app.storage.imports.importing import Summary, import_file
from app.storage.store import Store
from app.ui import words
from engine.errors import InvalidRequest


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path)) as store:
        yield store


def take(store: Store, path: Path, content: Any) -> Summary:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(raw)
    return import_file(store, path, path.name)


def told(store: Store, chat: int) -> list[str]:
    return [message.text for message in store.messages(chat)]


# ---- ChatGPT


def node(parent: str | None, role: str = "", text: Any = "", **fields: Any) -> dict[str, Any]:
    """A node of a conversation; ``text`` is one, or a whole content."""
    content = {"content_type": "text", "parts": [text]} if isinstance(text, str) else text
    message = {"author": {"role": role}, "content": content, "recipient": "all", **fields}
    return {"message": message if role else None, "parent": parent, "children": []}


def conversation(nodes: dict[str, dict[str, Any]], last: str, **fields: Any) -> dict[str, Any]:
    for name, each in nodes.items():
        if each["parent"]:
            nodes[each["parent"]]["children"].append(name)
    return {
        "title": "Foxes",
        "update_time": 1.7e9,
        "mapping": nodes,
        "current_node": last,
        **fields,
    }


HIDDEN = {"metadata": {"is_visually_hidden_from_conversation": True}}
THOUGHT = {
    "content_type": "thoughts",
    "thoughts": [{"summary": "Colour", "content": "Foxes are red."}],
}
CODE = {"content_type": "code", "language": "unknown", "text": "print(1 + 1)"}
OUTPUT = {"content_type": "execution_output", "text": "2"}
PICTURE = {
    "content_type": "multimodal_text",
    "parts": [{"content_type": "image_asset_pointer", "asset_pointer": "file-1"}, "What is this?"],
}


def foxes() -> dict[str, Any]:
    return conversation(
        {
            "root": node(None),
            "system": node("root", "system", "You are helpful.", **HIDDEN),
            "q": node("system", "user", PICTURE, metadata={"attachments": [{"name": "a.pdf"}]}),
            "thought": node("q", "assistant", THOUGHT),
            "code": node("thought", "assistant", CODE, recipient="python"),
            "output": node("code", "tool", OUTPUT),
            "search": node("output", "assistant", "fox", recipient="browser"),
            "found": node("search", "tool", {"content_type": "tether_quote", "text": "x"}),
            "a": node(
                "found",
                "assistant",
                "Red.\ue200cite\ue202turn0\ue201",
                metadata={"model_slug": "o9"},
            ),
            "other": node("q", "assistant", "Blue?"),
            "q2": node("a", "user", "Why?"),
            "a2": node("q2", "assistant", "They are."),
            "edited": node("a", "user", "How?"),
        },
        "a2",
    )


def test_a_conversation_of_chatgpt_keeps_branches_thoughts_and_code(store, tmp_path: Path) -> None:
    found = take(store, tmp_path / "conversations.json", [foxes()])
    (chat,) = found.chats
    assert told(store, chat) == [
        "[File left out: a.pdf]\n\n[Picture left out]\nWhat is this?",
        "<think>\nColour\nFoxes are red.\n</think>\n\n"
        "```python\nprint(1 + 1)\n```\n\n```\n2\n```\n\nRed.",
        "Why?",
        "They are.",
    ]
    first, reply = store.messages(chat)[:2]
    assert (reply.model, len(reply.siblings), reply.parts.answer[:9]) == ("o9", 2, "```python")
    assert first.status == "done"
    texts = {each.text for each in store.all_messages(chat)}
    assert {"Blue?", "How?"} < texts and len(texts) == 6
    assert dict(found.left_out) == {"pictures": 1, "files": 1, "calls of tools": 2}
    (listed,) = store.chats()
    assert (listed.title, listed.updated) == ("Foxes", 1.7e9)
    assert words.imported(found) == [
        "Imported 1 chat from ChatGPT, 6 messages.",
        "Left out: calls of tools (2), files (1), pictures (1). The messages say where a picture or "
        "file was.",
    ]


def test_an_export_brings_all_its_chats_into_a_folder_and_says_which_failed(
    store, tmp_path: Path
) -> None:
    packed = io.BytesIO()
    empty = conversation({"root": node(None)}, "root", title="Nothing said")
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("export/conversations-000.json", json.dumps([foxes(), empty]))
        file.writestr("export/conversations-001.json", json.dumps([foxes(), {"mapping": 1}]))
        file.writestr("export/user.json", "{}")
    found = take(store, tmp_path / "export.zip", packed.getvalue())
    assert (len(found.chats), found.failures) == (2, 2)
    assert found.failed[0] == ("Nothing said", "it has no messages")
    (folder,) = store.folders()
    assert folder.name == "ChatGPT"
    assert {chat.folder for chat in store.chats()} == {folder.id}
    assert words.imported(found)[2:4] == ["Not imported: 2.", "Nothing said: it has no messages"]


def test_a_broken_or_hostile_tree_neither_hangs_nor_loses_the_others(store, tmp_path: Path) -> None:
    cycle = conversation({"a": node(None, "user", "Hi"), "b": node("a", "assistant", "Ho")}, "b")
    cycle["mapping"]["b"]["children"] = ["a", "b", "gone", 7]
    cycle["mapping"]["a"]["parent"] = "b"
    odd = conversation({"a": node(None, "user", "\ud800 x\0")}, "a", title="Half \ud83d")
    odd["mapping"] |= {
        "c": None,
        "d": {"message": {"author": 3}},
        "e": {"message": {"content": []}},
    }
    deep = conversation(
        {f"n{n}": node(f"n{n - 1}" if n else None, "user", f"Line {n}") for n in range(5000)},
        "n4999",
    )
    found = take(store, tmp_path / "conversations.json", [cycle, odd, deep])
    assert [len(told(store, chat)) for chat in found.chats] == [1, 5000]
    assert told(store, found.chats[0]) == ["? x"]
    # A title that ends in half an emoji ended the import.
    assert [chat.title for chat in store.chats()] == ["Foxes", "Half ?"]
    assert found.failed == [("Foxes", "it has no messages")]  # nothing in a cycle comes first


def test_branches_do_not_multiply_a_chat(store, tmp_path: Path) -> None:
    """900 replies of 1 KB, each with one more branch, became 388 MB: each leaf took all before it."""
    nodes = {"q": node(None, "user", "Hi")}
    for at in range(900):
        nodes[f"n{at}"] = node(f"n{at - 1}" if at else "q", "assistant", "x" * 1000)
        nodes[f"leaf{at}"] = node(f"n{at}", "assistant", "y")
    found = take(store, tmp_path / "a.json", [conversation(nodes, "n899"), foxes()])
    assert len(found.chats) == 1
    assert found.failed == [("Foxes", "the branches of its replies repeat too much text")]
    few = conversation({name: nodes[name] | {"children": []} for name in [*nodes][:40]}, "n19")
    found = take(store, tmp_path / "b.json", [few])
    assert len(told(store, found.chats[0])[1]) == 20 * 1002 - 2
    assert len(store.all_messages(found.chats[0])) == 21


def test_marks_without_an_end_take_no_time(store, tmp_path: Path) -> None:
    """Each mark of a source was searched for its end through 2,000 characters, by one call."""
    text = "\ue200" * 1_000_000
    (value,) = [conversation({"a": node(None, "user", text)}, "a")]
    begun = time.process_time()
    assert len(chatgpt.read(value).messages[0].text) == len(text)
    assert time.process_time() - begun < 1


# ---- LM Studio


def said(role: str, *texts: str, selected: int = 0) -> dict[str, Any]:
    versions = [
        {"type": "singleStep", "role": role, "content": [{"type": "text", "text": text}]}
        for text in texts
    ]
    return {"versions": versions, "currentlySelected": selected}


def block(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "contentBlock", "content": [{"type": "text", "text": text}], **fields}


def test_a_conversation_of_lm_studio_keeps_versions_thoughts_and_its_prompt(
    store, tmp_path: Path
) -> None:
    steps = [
        block("Hm.", style={"type": "thinking", "ended": True}),
        block("Red"),
        {"type": "toolStatus", "statusState": {}},
        {"type": "debugInfoBlock", "debugInfo": "x"},
        block(" and quick."),
    ]
    reply = {
        "versions": [
            {"type": "multiStep", "role": "assistant", "steps": [block("Blue.")]},
            {
                "type": "multiStep",
                "role": "assistant",
                "senderInfo": {"senderName": "qwen3-4b"},
                "steps": steps,
            },
        ],
        "currentlySelected": 1,
    }
    question = said("user", "What colour?")
    question["versions"][0]["content"].append({"type": "file", "fileIdentifier": "fox.png"})
    value = {
        "name": "Foxes",
        "createdAt": 1.7e12,
        "systemPrompt": "Be brief.",
        "messages": [question, reply, said("user", "Why?")],
    }
    found = take(store, tmp_path / "1700000000000.conversation.json", value)
    (chat,) = found.chats
    assert told(store, chat) == [
        "What colour?[Picture left out: fox.png]\n\n",
        "<think>\nHm.\n</think>\n\nRed and quick.",
        "Why?",
    ]
    shown = store.messages(chat)[1]
    assert (shown.model, len(shown.siblings), shown.parts.thought) == ("qwen3-4b", 2, "Hm.")
    assert store.system_of(chat).text == "Be brief."
    assert store.chats()[0].updated == 1.7e9
    assert dict(found.left_out) == {"pictures": 1, "calls of tools": 1}


# ---- files


def test_the_app_s_own_file_is_known_too(store, tmp_path: Path) -> None:
    chat = store.new_chat("Mine")
    store.begin_turn(chat, "Hi", keep=None)
    text = chat_files.written(store, chat, "json")["text"]
    found = take(store, tmp_path / "mine.json", text.encode())
    assert (found.source, len(found.chats)) == ("", 1)
    assert told(store, found.chats[0])[0] == "Hi"


def test_chats_that_are_here_already_are_skipped_and_counted(store, tmp_path: Path) -> None:
    """An export that was imported twice doubled its chats without a word."""
    other = {"name": "Other", "messages": [said("user", "Why?"), said("assistant", "So.")]}
    (chat,) = take(store, tmp_path / "a.json", [foxes()]).chats
    take(store, tmp_path / "b.json", other)
    store.rename(chat, "Renamed")
    store.begin_turn(chat, "It goes on here.", keep=None)
    again = take(store, tmp_path / "a.json", [foxes(), foxes()])
    assert (again.chats, again.known) == ([], [chat, chat])
    assert words.imported(again) == ["Skipped 2 chats from ChatGPT: they are here already."]
    longer = {**other, "messages": [*other["messages"], said("user", "More?")]}
    both = take(store, tmp_path / "b.json", [other, longer])
    assert (len(both.chats), len(both.known), len(store.chats())) == (1, 1, 3)
    assert words.imported(both) == [
        "Imported 1 chat from LM Studio, 3 messages.",
        "Skipped 1 chat from LM Studio: it is here already.",
    ]


def test_the_export_of_an_unknown_program_is_told_which_are_known(store, tmp_path: Path) -> None:
    exported = [{"id": "1", "title": "Hi", "chat": {"messages": []}}]  # as Open WebUI writes it
    with pytest.raises(InvalidRequest, match="no chat of Foretoken, ChatGPT or LM Studio"):
        take(store, tmp_path / "chats.json", exported)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b"Hello"),
        ("empty.json", b"[]"),
        ("other.json", b'[{"x": 1}]'),
        ("cut.json", json.dumps([foxes()]).encode()[:-40]),
        ("deep.json", b'{"mapping": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        ("cut.zip", b"PK\x03\x04" + bytes(99)),
        ("odd.json", b'{"messages": [{"versions": 7}, {"versions": [{"role": "user"}, 3]}]}'),
    ],
)
def test_files_without_chats_are_refused_by_name(store, tmp_path: Path, name, content) -> None:
    with pytest.raises(InvalidRequest, match=f"No chat could be imported from {name}"):
        take(store, tmp_path / name, content)
    assert store.chats() == ()


def test_what_came_before_a_break_stays_and_the_break_is_told(store, tmp_path: Path) -> None:
    raw = json.dumps([foxes(), foxes()]).encode()[:-40]
    found = take(store, tmp_path / "conversations.json", raw)
    assert len(found.chats) == 1
    assert found.failed[0][1].startswith(
        "The rest of the file cannot be read: it ends in the middle"
    )


def packed(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, json.dumps([foxes()]))
    return file.getvalue()


def test_a_zip_file_that_is_damaged_or_unpacks_to_too_much_is_refused(
    store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = bytearray(packed("conversations.json"))
    damaged[60:70] = bytes([255] * 10)
    with pytest.raises(InvalidRequest, match=r"imported from a\.zip"):
        take(store, tmp_path / "a.zip", bytes(damaged))
    many = packed("conversations-0.json", "conversations-1.json")
    monkeypatch.setattr(importing, "LARGEST_LIST", len(json.dumps([foxes()])))
    with pytest.raises(InvalidRequest, match="it unpacks to more than"):
        take(store, tmp_path / "b.zip", many)
    assert store.chats() == ()


def test_a_list_is_read_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [{"a": 'x"}]\\', "b": ["{", {}]}, {}, {"c": "é" * 70}, {"d": [[], "\\\\"]}]
    raw = json.dumps(values, ensure_ascii=False, indent=1).encode()
    for size in (1, 2, 3, 7, 64, 1 << 20):
        monkeypatch.setattr(streaming, "_BLOCK", size)
        assert list(objects(io.BytesIO(raw))) == values
    monkeypatch.setattr(streaming, "_BLOCK", 1 << 10)
    monkeypatch.setattr(streaming, "LARGEST_ITEM", 10_000)
    with pytest.raises(streaming.TooLarge, match="one chat in it is larger"):
        list(objects(io.BytesIO(b'[{"a": "' + b"x" * 30_000 + b'"}]')))


def test_a_file_of_foretoken_has_the_limit_of_messages_too(store, tmp_path: Path) -> None:
    """300,000 messages took two minutes, and the chat could not be opened."""
    message = {"id": 1, "role": "user", "text": "", "parent": None}
    file = {"format": chat_files.FORMAT, "version": chat_files.VERSION, "title": "Long"}
    file |= {"messages": [message] * (conversation_limits.MOST_MESSAGES + 1)}
    with pytest.raises(InvalidRequest, match="more than 20,000 messages"):
        take(store, tmp_path / "long.json", file)
    assert store.chats() == ()


def test_objects_that_are_no_chats_end_a_file(store, tmp_path: Path) -> None:
    """12 MB of empty objects took a minute."""
    empty = b"[" + b"{}," * (importing.MOST_FAILURES + 1)
    with pytest.raises(InvalidRequest, match="more than 1,000 chats that cannot"):
        take(store, tmp_path / "empty.json", empty + b"{]")  # where it is broken is not reached
    found = take(store, tmp_path / "a.json", json.dumps([foxes()]).encode()[:-1] + b"," + empty)
    assert len(found.chats) == 1
    assert found.failures == importing.MOST_FAILURES + 2


@pytest.mark.parametrize("repeated", [b"[],", b"0,", b'{"a":', b'"\\\\",'])
def test_a_chat_has_a_limit_of_values(monkeypatch: pytest.MonkeyPatch, repeated: bytes) -> None:
    monkeypatch.setattr(streaming, "MOST_VALUES", 1000)
    monkeypatch.setattr(streaming, "MOST_CONTAINERS", 1000)
    few = b'{"a": [' + b'"[,{\\"", ' * 999 + b"0]}"
    assert len(list(objects(io.BytesIO(b"[" + few + b"," + few + b"]")))) == 2
    with pytest.raises(streaming.TooLarge, match="values"):
        list(objects(io.BytesIO(b'[{"a": [' + repeated * 1001)))


def test_others_run_while_a_long_string_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A string of 64 MB was searched by one call, which held the interpreter's lock for seconds."""
    searched = []

    class Watched:
        def __init__(self, pattern: Any) -> None:
            self._pattern = pattern

        def __getattr__(self, name: str) -> Any:
            def call(buffer: bytes, at: int) -> Any:
                searched.append(len(buffer) - at)
                return getattr(self._pattern, name)(buffer, at)

            return call

    for name in ("_SIGNS", "_STRING"):
        monkeypatch.setattr(streaming, name, Watched(getattr(streaming, name)))
    (found,) = objects(io.BytesIO(json.dumps({"a": "\\" * (1 << 20)}).encode()))
    assert len(found["a"]) == 1 << 20
    assert max(searched) <= (1 << 16) + 1


def test_a_zip_file_that_is_mostly_repetition_or_a_list_of_files_is_refused(
    store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "LARGEST_ITEM", 1000)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b" " * 1_000_000)
    with pytest.raises(InvalidRequest, match="more than 100 times its size"):
        take(store, tmp_path / "bomb.zip", file.getvalue())
    monkeypatch.setattr(importing, "_LARGEST_LISTING", 10_000)
    with pytest.raises(InvalidRequest, match="it lists too many files"):
        take(store, tmp_path / "list.zip", packed(*(f"{number}.json" for number in range(300))))
