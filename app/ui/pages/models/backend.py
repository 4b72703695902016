"""The Models page's backend: the table, drafters, memory, opening, and folders. Plain values.

``app.ui.pages.models.loading`` has unloading and each model's load options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from urllib.request import url2pathname

from app.inventory import model_folders
from app.inventory.downloads import key_of
from app.runtime import Runtime
from app.ui import words
from app.ui.endpoints import View, endpoint, local_endpoint
from app.ui.pages.models.rows import Best, Rows, companions_of, fits, measured, part_of
from app.ui.rounds.speeds import Speeds
from app.ui.words.names import titles
from engine.api import SEPARATOR, LoadRequest
from engine.errors import InvalidRequest, ModelError
from engine.files import expanded
from engine.loading.inventory import (
    DraftChoice,
    Forecast,
    FoundModel,
    HeadChoice,
    ModelSpec,
    break_even,
)
from engine.stats import times
from engine.values.method_titles import head_title, method_title
from engine.values.units import format_bytes


class ModelsBackend:
    """The models of one running app: those of its catalog, and those on its machine."""

    def __init__(
        self,
        runtime: Runtime,
        speeds: Speeds | None = None,
        raced: Callable[[str, str], float | None] = lambda target, draft: None,
    ) -> None:
        """``speeds``: of replies since the app started; ``raced``: the speedup over plain decoding that
        the last race measured, by the ids of target and draft."""
        self.runtime, self._speeds, self._raced = runtime, speeds or Speeds(), raced
        self.rows = Rows(runtime)

    # ---- the table

    @endpoint
    def table(self, data: View | None = None) -> View:
        """Return all models. ``again`` scans for them anew, ``look`` only if that was not done yet."""
        found, asked = self.runtime.found, data or {}
        if asked.get("again"):
            self.runtime.look_again()
        elif asked.get("look"):
            found.scan_once()
        listed = model_folders.model_folders(self.runtime.data_dir)
        looking = found.scanning  # asked first: what is found by the end is in the last answer
        return {
            "rows": self.rows.all(),
            "looking": looking,
            "comparing": found.working,
            "problems": list(self.runtime.catalog.problems),
            "unusable": self._unusable(found.found),
            "folders": [self._folder(path) for path in listed],
        }

    def _place(self, place: str) -> str:
        return words.DOWNLOADS if place == str(self.runtime.models) else place

    def _unusable(self, models: Iterable[FoundModel]) -> list[View]:
        return [
            {"name": model.name, "place": self._place(model.place), "reason": model.reason}
            for model in models
            if model.reason is not None
        ]

    def _folder(self, path: Path) -> View:
        """Return what was found in an added folder, which may be a model's own."""
        found = self.runtime.found.found
        inside = [model for model in found if path in (model.path, *model.path.parents)]
        return {
            "path": str(path),
            "there": path.is_dir(),
            "models": sum(model.reason is None for model in inside),
            "unusable": self._unusable(inside),
        }

    # ---- one model

    @endpoint
    def why_not(self, data: View) -> View:
        """Return everything that could draft for a target, each with the reason if it does not fit.

        ``mtp``: the target drafts with layers of its own by default. ``pending``: some models are still
        being compared. Raises ForetokenError.
        """
        target = self.runtime.inventory.spec(str(data["target"]))
        found = self.runtime.drafts_for(target)
        called = titles(*(choice.spec.name for choice in found.choices))
        best = measured(self.runtime)
        drafts = [
            self._draft(target, choice, name, best)
            for choice, name in zip(found.choices, called, strict=True)
        ]
        known_heads = (head for pair in self.runtime.catalog.pairs for head in pair.heads)
        folders = dict.fromkeys((*known_heads, *self.runtime.found.heads))
        here = self.runtime.locate(target) is not None
        heads = [self.runtime.inventory.judge_head(target, folder) for folder in folders]
        known = [self._head(target, head, best) for head in heads if head.kind]
        return {
            "drafts": [*known, *drafts],
            "mtp": target.mtp,
            "pending": found.pending,
            "here": here,
        }

    def _draft(self, target: ModelSpec, choice: DraftChoice, name: str, best: Best) -> View:
        draft = choice.spec
        least = break_even(target, draft) if choice.fits else None
        return {
            "id": draft.id,
            "kind": "draft",
            "name": name,
            "reason": choice.reason,
            "across": choice.cross_vocabulary,
            "here": self.runtime.locate(draft) is not None,
            "size": format_bytes(draft.bytes) if draft.bytes else "",
            "downloads": [key_of(draft)] if draft.repository else [],
            **self._speed(target, draft, best),
            "break_even": least,
            "open": {"target": target.id, "draft": draft.id},
        }

    def _speed(self, target: ModelSpec, draft: ModelSpec, best: Best) -> View:
        """Return the measured speedup, by Tune, else by a race, else by replies."""
        swept = best.get((target.id, draft.id))
        if swept is not None:
            return {"measured": str(swept), "faster": swept.winner.speedup > 1}
        if (raced := self._raced(target.id, draft.id)) is not None:
            return {"measured": f"{times(raced)} in the last race", "faster": raced > 1}
        tried = self._speeds.tried(target.id, draft.id)
        if tried is None or tried.speedup is None:
            return {"measured": None, "faster": False}
        chats = "1 reply" if tried.replies == 1 else f"the last {tried.replies} replies"
        told = f"{times(tried.speedup)} in {chats} here"
        return {"measured": told, "faster": tried.speedup > 1}

    def _head(self, target: ModelSpec, head: HeadChoice, best: Best) -> View:
        pairs = [p for p in self.runtime.catalog.pairs if head.folder in p.heads]
        draft = next((p.draft for p in pairs if p.target.id == target.id), None)
        default = best.get((target.id, draft.id if draft else None))
        won = default is not None and default.winner.proposer == head.kind
        trained_here = next((p.name for p in pairs if p.heads == (head.folder,)), None)
        return {
            "id": str(head.folder),
            "kind": head.kind,
            "name": head_title(head.kind, trained_here or head.folder.name),
            "reason": head.reason,
            **{"across": None, "here": True, "size": "", "downloads": [], "break_even": None},
            "measured": str(default) if won else None,
            "faster": won,
            "open": {
                "target": target.id,
                "draft": draft.id if draft else "",
                "heads": [str(head.folder)],
            },
        }

    @endpoint
    def files(self, data: View) -> View:
        """Return the files in which the catalog has a model, and the drafters published for it.

        ``whole``: the size of a download that brings a drafter along, else "".
        """
        spec = self.runtime.inventory.spec(str(data["target"]))
        chosen = key_of(spec) if spec.files else ""
        pair = next((one for one in self.runtime.catalog.pairs if one.target.id == spec.id), None)
        beside = self.rows.away(*companions_of(spec, pair, self.runtime.locate(spec) is not None))
        return {
            "files": [self._file(spec, one, chosen) for one in sorted(spec.files, key=_light)],
            "drafters": [self._file(spec, one, "") for one in spec.drafters],
            "whole": format_bytes(sum(one.bytes for one in (spec, *beside))) if beside else "",
        }

    def _file(self, spec: ModelSpec, one: ModelSpec, chosen: str) -> View:
        found = self.rows.forecast(self.runtime.request(spec.id, ""), [one])
        return {
            "id": one.id,
            "key": key_of(one),
            "name": part_of(spec, one),
            "place": f"{one.repository}/{one.file}".rstrip("/"),
            "size": format_bytes(one.bytes) if one.bytes else "",
            "fits": fits(found),
            "fit": found.sentence if found else "",
            "gated": one.gated,
            "here": self.runtime.locate(one) is not None,
            "head": bool(one.method),
            "chosen": key_of(one) == chosen,
        }

    @endpoint
    def fit(self, data: View) -> View:
        """Return the memory a pair takes with ``context`` tokens, part by part. Raises ForetokenError."""
        request = replace(self._request(data), context=None)
        found = self.runtime.inventory.forecast(request, _context(data))
        memory_fit = found.memory_fit
        return {
            "parts": show_parts(found),
            "needed": format_bytes(memory_fit.needed),
            "free": format_bytes(memory_fit.free),
            "context": found.context,
            "longest": found.longest,
            "held": found.quantization,
            "fits": fits(found),
            "sentence": found.sentence,
        }

    # ---- opening

    @endpoint
    def open(self, data: View) -> bool:
        """Begin to load a pair, a folder or models by their ids. Raises ForetokenError for what is known
        at once."""
        request = self._request(data)
        self.runtime.loader.start(request)
        if "folder" in data:
            paths = (request.target, request.draft, *request.heads)
            opened = (expanded(path).absolute() for path in paths if path)
            self.runtime.found.remember(*opened)
        return True

    def _request(self, data: View) -> LoadRequest:
        """Return the load request for a ``folder``, a ``target`` or a ``pair``; the best draft if none
        is given."""
        draft = None if data.get("draft") is None else str(data["draft"])
        if "folder" in data:
            request = self._folders(str(data["folder"]), draft or "")
        elif "target" in data:
            heads = tuple(map(str, data.get("heads") or ()))
            request = replace(self.runtime.request(str(data["target"]), draft), heads=heads)
        else:
            request = self.runtime.request(str(data["pair"]))
        return replace(request, context=_context(data) or request.context)

    def _folders(self, target: str, draft: str) -> LoadRequest:
        target, draft = _cleaned(target), _cleaned(draft)
        if not target:
            raise ModelError("Enter the path of a model folder or a GGUF file.")
        named = [_path(target), *([_path(draft)] if draft else [])]
        asked = LoadRequest.parse(SEPARATOR.join(named))  # which knows a head from a draft model
        return replace(self.runtime.request(asked.target, asked.draft), heads=asked.heads)

    @local_endpoint(words.BROWSE_AWAY)
    def browse(self, data: View) -> View:
        """List a folder of this machine. Raises ForetokenError."""
        found = model_folders.listing(_cleaned(data.get("folder")), self.runtime.system.home)
        for entry in found["entries"]:
            entry["size"] = format_bytes(entry["bytes"]) if entry["bytes"] else ""
        return found

    @local_endpoint(words.BROWSE_AWAY)
    def dropped(self, data: View) -> View:
        """Find the file that was dropped on the page, by its name and size: browsers do not tell its
        path. Raises InvalidRequest."""
        name, size = str(data.get("name") or ""), int(data.get("size") or 0)
        home = self.runtime.system.home
        usual = [home / "Downloads", home / "Desktop", home, self.runtime.models]
        known = [model.path for model in self.runtime.found.found]
        path = model_folders.find(name, size, [path.parent for path in known] + usual)
        if not path:
            raise InvalidRequest(
                "folder",
                f"Browsers hide file locations, and {name} is not in the usual folders. Paste its "
                "path, or browse for it.",
            )
        return {"path": path}

    # ---- folders that are looked into

    @endpoint
    def add_folder(self, data: View) -> bool:
        """Look for models in a folder from now on."""
        path = _cleaned(data.get("folder"))
        if not path:
            raise InvalidRequest("folder", "Enter the path of a folder with models.")
        self.runtime.found.add(Path(path))
        return True

    @endpoint
    def remove_folder(self, data: View) -> bool:
        """Stop looking in a folder; nothing in it is touched."""
        self.runtime.found.remove(Path(str(data["folder"])))
        return True

    @endpoint
    def forget(self, data: View) -> bool:
        """Forget a model that was opened by its path; nothing of it is touched."""
        self.runtime.found.forget(Path(str(data["path"])))
        return True


def _context(data: View) -> int | None:
    return int(data["context"]) if data.get("context") else None


def _light(one: ModelSpec) -> tuple[bool, int]:
    """Sort GGUF files by size before the weights in transformers' layout."""
    return not one.is_gguf, one.bytes


def show_parts(found: Forecast) -> list[View]:
    """Return the memory bar's parts from left to right; the last is what stays free, or what is
    missing. What is in main memory beside a GPU is left out."""
    memory_fit = found.memory_fit
    parts = [("work", "", "", memory_fit.work)]
    for kind, model in zip(found.roles, memory_fit.models, strict=True):
        if model.on_host:
            continue
        role = kind if kind == "draft" else method_title(kind)
        parts.append(("weights", role, model.name, model.weights))
        caches = (("kv", model.kv - model.saved), ("saved", model.saved))
        parts += [(kind, role, model.name, size) for kind, size in caches if size]
    whole = max(memory_fit.needed, memory_fit.free, 1)
    left = memory_fit.free - memory_fit.needed
    parts.append(("free" if left >= 0 else "lacking", "", "", abs(left)))
    return [
        {
            "kind": kind,
            "role": role,
            "name": name,
            "size": format_bytes(size),
            "share": size / whole,
        }
        for kind, role, name, size in parts
    ]


def _cleaned(text: object) -> str:
    """Return a path that was pasted or dropped, without quotes; that of a file's address is decoded."""
    path = str(text or "").strip().strip("\"'")
    return url2pathname(path.removeprefix("file://")) if path.startswith("file://") else path


def _path(text: str) -> str:
    """Mark a bare name as a folder, so that it is not taken for a model's id."""
    return text if any(sign in text for sign in "/\\~") else f"./{text}"
