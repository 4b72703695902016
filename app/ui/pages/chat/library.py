"""The list of chats as the page shows it, with folders; and the system prompts that chats may have.

Plain values. Mistakes of users raise ``ForetokenError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from app.settings.settings_file import SettingsFile
from app.storage import chat_files
from app.storage.rows import SystemPrompt
from app.storage.store import Store
from app.ui import words
from app.ui.endpoints import View, endpoint
from engine.errors import InvalidRequest

PROMPTS = "system_prompts"
"""The name of the user's own system prompts among the stored settings."""
LONGEST_PROMPT = 20_000


class Library:
    """Chats, folders and system prompts of one data folder."""

    def __init__(self, store: Store, settings: SettingsFile) -> None:
        self._store, self._settings = store, settings

    def listing(self) -> View:
        """Return all chats, newest first, and all folders."""
        chats = [
            {"id": each.id, "title": each.title, "updated": each.updated, "folder": each.folder}
            for each in self._store.chats()
        ]
        return {"chats": chats, "folders": [asdict(each) for each in self._store.folders()]}

    @endpoint
    def search_chats(self, data: View) -> list[int]:
        """Return the chats whose title or messages contain all the words."""
        return list(self._store.search(str(data["text"])))

    @endpoint
    def export_chat(self, data: View) -> View:
        """Return a chat as a file: its name and text. ``form`` is markdown or json."""
        return chat_files.written(self._store, int(data["chat"]), str(data["form"]))

    @endpoint
    def rename_chat(self, data: View) -> View:
        self._store.rename(int(data["chat"]), str(data["title"]))
        return self.listing()

    # ---- folders

    @endpoint
    def new_folder(self, data: View) -> View:
        """Make a folder and move ``chat`` into it, if one is given."""
        folder = self._store.new_folder(_name(data, words.NO_FOLDER_NAME))
        if data.get("chat") is not None:
            self._store.move(int(data["chat"]), folder)
        return self.listing()

    @endpoint
    def change_folder(self, data: View) -> View:
        """Rename a folder, or fold or unfold it."""
        named = data.get("name") is not None
        self._store.change_folder(
            _folder(data),
            name=_name(data, words.NO_FOLDER_NAME) if named else None,
            folded=None if data.get("folded") is None else bool(data["folded"]),
        )
        return self.listing()

    @endpoint
    def delete_folder(self, data: View) -> View:
        """Delete a folder and keep its chats."""
        self._store.delete_folder(_folder(data))
        return self.listing()

    @endpoint
    def move_chat(self, data: View) -> View:
        """Move a chat into ``folder``; None moves it out of all."""
        folder = None if data.get("folder") is None else _folder(data)
        self._store.move(int(data["chat"]), folder)
        return self.listing()

    # ---- system prompts

    def prompts(self, data: View | None = None) -> list[View]:
        """Return the app's system prompts, then the user's own, which can be deleted."""
        kinds = {False: words.SYSTEM_PROMPTS, True: _own_prompts(self._settings.read())}
        return [
            {"name": name, "text": text, "own": own}
            for own, prompts in kinds.items()
            for name, text in prompts.items()
        ]

    @endpoint
    def keep_prompt(self, data: View) -> list[View]:
        """Store a system prompt under a new name, or change one of the user's."""
        name = _name(data, "Enter a name for the preset.")
        text = str(data.get("text") or "").strip()
        if not text:
            raise InvalidRequest(
                "system", "The system prompt is empty. Write it first, then save it."
            )
        if len(text) > LONGEST_PROMPT:
            raise InvalidRequest(
                "system",
                f"The system prompt is longer than {LONGEST_PROMPT:,} characters. Shorten it.",
            )
        if name in words.SYSTEM_PROMPTS:
            raise InvalidRequest(
                "system", f"{name} is the name of an included preset. Choose another name."
            )
        with self._settings.change() as values:
            values[PROMPTS] = {**_own_prompts(values), name: text}
        return self.prompts()

    @endpoint
    def delete_prompt(self, data: View) -> list[View]:
        """Delete a system prompt; chats that use it keep its text."""
        with self._settings.change() as values:
            values[PROMPTS] = _own_prompts(values)
            values[PROMPTS].pop(str(data["name"]), None)
        return self.prompts()

    def system_named(self, name: object) -> SystemPrompt | None:
        """Return the system prompt of that name; None for no name. Raises InvalidRequest."""
        if not name:
            return None
        found = {each["name"]: each["text"] for each in self.prompts()}
        if name not in found:
            raise InvalidRequest(
                "system", f"The preset {name!s} was deleted. Choose another one for this chat."
            )
        return SystemPrompt(str(name), found[str(name)])


def _own_prompts(values: Mapping[str, Any]) -> dict[str, str]:
    prompts = values.get(PROMPTS)
    prompts = prompts if isinstance(prompts, dict) else {}
    return {name: text for name, text in prompts.items() if isinstance(text, str)}


def _name(data: View, missing: str) -> str:
    name = str(data.get("name") or "").strip()
    if not name:
        raise InvalidRequest("name", missing)
    return name[:80]


def _folder(data: View) -> int:
    """Return the number of a folder of chats; elsewhere a field of that name is a path."""
    with suppress(ValueError):
        if 0 <= (number := int(data["folder"])) < 2**63:
            return number
    raise InvalidRequest("folder", words.field_malformed("folder"))
