"""What the Models page asks for, in plain values: the table, drafters, memory, opening, and the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from app import browse, disk
from app.downloads import Download, DownloadState, key_of
from app.loading import LoadState
from app.runtime import Runtime
from app.ui.pages.models.rows import Rows, measured
from app.ui.view import View
from app.ui.words import Words
from engine.errors import ForetokenError, InvalidRequest, ModelError, TokenNeeded
from engine.loading import fit as memory
from engine.loading import hub
from engine.loading.drafts import DraftChoice, HeadChoice, break_even, judge_head
from engine.loading.fit import human
from engine.loading.forecast import Forecast, forecast
from engine.loading.request import LoadRequest
from engine.loading.specs import ModelSpec


class ModelsBackend:
    """The models of one running app: those of its catalog, those on its machine, those on the hub."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.rows = Rows(runtime)
        self._looked_up: dict[str, ModelSpec] = {}  # by key, what people may download

    # ---- the table

    def table(self, data: View | None = None) -> View:
        """All models. In ``data``, ``again`` looks for them anew, ``look`` unless that was done;
        ``compare`` compares what lies here with each other, behind the answer."""
        found, asked = self.runtime.found, data or {}
        if asked.get("again"):
            found.scan()
        elif asked.get("look"):
            found.scan_once()
        if asked.get("compare"):
            self._compare_all()
        looking = found.scanning  # asked first: what is found by the end is in the last answer
        return {
            "rows": self.rows.all(),
            "looking": looking,
            "problems": list(self.runtime.catalog.problems),
            "unusable": [
                {"name": model.name, "place": self._place(model.place), "reason": model.reason}
                for model in found.found
                if model.spec is None
            ],
            "folders": [{"path": str(path), "there": path.is_dir()} for path in found.folders],
            "memory": Words.memory(human(memory.free_bytes()), human(memory.total_bytes())),
        }

    def _compare_all(self) -> None:
        here = [spec for spec in self.runtime.catalog.models if self.runtime.locate(spec)]
        here += self.runtime.beside_catalog()
        for spec in here:
            self.runtime.found.compare(spec, here)

    def _place(self, place: str) -> str:
        return Words.DOWNLOADS if place == str(self.runtime.models) else place

    # ---- one model

    def why_not(self, data: View) -> View:
        """Everything that could draft for one target, each with the reason if it does not fit.

        ``pending``: what was found is still being compared.
        """
        try:
            target = self.runtime.known().spec(str(data["target"]))
            found = self.runtime.drafts_for(target)
        except ForetokenError as error:
            return {"drafts": [], "pending": False, "error": str(error)}
        drafts = [self._draft(target, choice) for choice in found.choices]
        folders = {head: None for pair in self.runtime.catalog.pairs for head in pair.heads}
        heads = [judge_head(target, folder, self.runtime.locate) for folder in folders]
        known = [self._head(target, head) for head in heads if head.kind]
        return {"drafts": [*known, *drafts], "pending": found.pending, "error": None}

    def _draft(self, target: ModelSpec, choice: DraftChoice) -> View:
        draft = choice.spec
        least = break_even(target, draft) if choice.fits else None
        default = measured(self.runtime).get((target.id, draft.id))
        return {
            "id": draft.id,
            "kind": "draft",
            "name": draft.name,
            "reason": choice.reason,
            "across": choice.cross_vocabulary,
            "here": self.runtime.locate(draft) is not None,
            "size": human(draft.bytes) if draft.bytes else "",
            "downloads": [key_of(draft)] if draft.repository else [],
            "measured": str(default) if default else None,
            "break_even": least,
            "open": {"target": target.id, "draft": draft.id},
        }

    def _head(self, target: ModelSpec, head: HeadChoice) -> View:
        pairs = [p for p in self.runtime.catalog.pairs if head.folder in p.heads]
        draft = next((p.draft for p in pairs if p.target.id == target.id), None)
        default = measured(self.runtime).get((target.id, draft.id if draft else None))
        won = default is not None and default.winner.proposer == head.kind
        return {
            "id": str(head.folder),
            "kind": head.kind,
            "name": head.folder.name,
            "reason": head.reason,
            "across": None,
            "here": True,
            "size": "",
            "downloads": [],
            "measured": str(default) if won else None,
            "break_even": None,
            "open": {
                "target": target.id,
                "draft": draft.id if draft else "",
                "heads": [str(head.folder)],
            },
        }

    def fit(self, data: View) -> View:
        """What a pair takes of memory with ``context`` tokens, part by part."""
        try:
            request = self._request(data)
            pairing = self.runtime.known().resolve(request, self.runtime.locate)
            context = data.get("context")
            found = forecast(
                pairing, request, self.runtime.locate, int(context) if context else None
            )
        except ForetokenError as error:
            return {"error": str(error)}
        room = found.room
        return {
            "error": None,
            "parts": show_parts(found),
            "needed": human(room.needed),
            "free": human(room.free),
            "share": room.needed / max(room.needed, room.free, 1),
            "context": found.context,
            "longest": found.longest,
            "largest": room.context,
            "held": found.held,
            "fits": "yes" if room.fits else "part" if room.context else "no",
            "sentence": room.sentence,
        }

    # ---- opening

    def open(self, data: View) -> View:
        """Open a pair, a folder or models by their ids; the answer holds what is known at once to be
        wrong, if anything."""

        def start() -> None:
            request = self._request(data)
            self.runtime.loader.start(request)
            if "folder" in data:
                paths = (request.target, request.draft)
                opened = (Path(path).expanduser().absolute() for path in paths if path)
                self.runtime.found.remember(*opened)

        return _then(start)

    def _request(self, data: View) -> LoadRequest:
        draft = data.get("draft")
        if "folder" in data:
            return self._folders(str(data["folder"]), str(draft or ""))
        if "target" in data:
            heads = tuple(map(str, data.get("heads") or ()))
            request = self.runtime.request(str(data["target"]), str(draft or ""))
            return replace(request, heads=heads)
        return self.runtime.request(str(data["pair"]))

    def _folders(self, target: str, draft: str) -> LoadRequest:
        target, draft = _cleaned(target), _cleaned(draft)
        if not target:
            raise ModelError(Words.FOLDER_EMPTY)
        return self.runtime.request(_path(target), _path(draft) if draft else "")

    def browse(self, data: View) -> View:
        """What lies in a folder of this machine; for pages on it alone, which the page itself checks."""
        try:
            found = browse.listing(_cleaned(data.get("folder")), self.runtime.system.home)
        except ForetokenError as error:
            return {"error": str(error)}
        found["error"] = None
        for entry in found["entries"]:
            entry["size"] = human(entry["bytes"]) if entry["bytes"] else ""
        return found

    def dropped(self, data: View) -> View:
        """Where a file lies that was dropped on the page, of which the browser tells name and size; the
        same limit as for ``browse``."""
        name, size = str(data.get("name") or ""), int(data.get("size") or 0)
        home = self.runtime.system.home
        usual = [home / "Downloads", home / "Desktop", home, self.runtime.models]
        known = [model.path for model in self.runtime.found.found]
        path = browse.find(name, size, [path.parent for path in known] + usual)
        return {"path": path, "error": None if path else Words.DROPPED_WHERE.format(name=name)}

    # ---- folders that are looked into

    def add_folder(self, data: View) -> View:
        """Look there from now on, too."""

        def add() -> None:
            path = _cleaned(data.get("folder"))
            if not path:
                raise InvalidRequest("folder", Words.PLACE_EMPTY)
            self.runtime.found.add(Path(path))

        return _then(add)

    def remove_folder(self, data: View) -> View:
        """Look there no more; nothing in it is touched."""
        return _then(lambda: self.runtime.found.remove(Path(str(data["folder"]))))

    def forget(self, data: View) -> View:
        """A model that was opened by its path is remembered no more; nothing of it is touched."""
        return _then(lambda: self.runtime.found.forget(Path(str(data["path"]))))

    # ---- the hub

    def look_up(self, data: View) -> View:
        """What of a repository can be downloaded."""
        try:
            found = hub.look_up(str(data.get("repository") or ""))
        except ForetokenError as error:
            return {"error": str(error), "needs_token": isinstance(error, TokenNeeded)}
        free = memory.free_bytes()
        self._looked_up |= {key_of(spec): spec for spec in found.choices}
        return {
            "error": None,
            "name": found.name,
            "licence": "" if found.licence == "unknown" else found.licence,
            "gated": found.gated,
            "reason": found.reason,
            "choices": [
                {
                    "key": key_of(spec),
                    "name": spec.name,
                    "type": hub.type_of(spec) or Words.LAYOUT,
                    "size": human(spec.bytes),
                    "fits": spec.bytes < free,
                    "fit": Words.weights_alone(human(spec.bytes), human(free)),
                    "path": str(self.runtime.locate(spec) or "") or None,
                }
                for spec in found.choices
            ],
        }

    def download(self, data: View) -> View:
        """Begin, or queue, what ``ids`` of the catalog lack, or what ``key`` names of a look-up."""

        def start() -> None:
            if "key" in data:
                key = str(data["key"])
                if key in self._looked_up:
                    self.runtime.downloads.start(self._looked_up[key])
                else:
                    self.runtime.downloads.resume(key)
                return
            for spec in self._missing(data):
                self.runtime.downloads.start(spec)

        return _then(start)

    def _missing(self, data: View) -> list[ModelSpec]:
        catalog = self.runtime.catalog
        if data.get("pair"):
            pair = catalog.pair(str(data["pair"]))
            specs = [pair.target, *([pair.draft] if pair.draft else [])]
        else:
            specs = [catalog.model(str(data["id"]))]
        return [one for one in specs if one.repository and self.runtime.locate(one) is None]

    def downloads(self, data: View | None = None) -> View:
        """How they stand, by key."""
        downloads = self.runtime.downloads
        working, finished = (
            downloads.working,
            downloads.finished,
        )  # asked first, as with what is found
        shown = {key: self._download(one) for key, one in downloads.all().items()}
        return {"downloads": shown, "working": working, "finished": finished}

    def _download(self, one: Download) -> View:
        progress = one.progress
        if progress is None:
            done, total = hub.arrived(one.spec, self.runtime.models), one.spec.bytes
        else:
            done, total = progress.bytes, progress.total
        running = progress is not None and one.state is DownloadState.RUNNING
        eta = progress.eta_s if progress and running else None
        return {
            "name": one.spec.name,
            "source": one.spec.repository,
            "state": str(one.state),
            "done": human(done),
            "total": human(total) if total else "",
            "share": min(done / total, 1.0) if total else None,
            "speed": f"{human(int(progress.bytes_per_s))}/s" if progress and running else None,
            "eta": None if eta is None else Words.duration(eta),
            "waiting": progress.waiting if progress and running else "",
            "error": one.message or None,
            "needs_token": one.needs_token,
            "page": f"{hub.endpoint()}/{one.spec.repository}",
        }

    def pause(self, data: View) -> View:
        """End one at the next bytes; what has arrived stays."""
        return _then(lambda: self.runtime.downloads.pause(str(data["key"])))

    def discard(self, data: View) -> View:
        """Delete what has arrived of one that does not run."""
        return _then(lambda: self.runtime.downloads.discard(str(data["key"])))

    def keep_token(self, data: View) -> View:
        """Keep an access token; where it is kept is said."""
        try:
            place = hub.keep_token(str(data.get("token") or ""))
        except ForetokenError as error:
            return {"error": str(error), "kept": None}
        return {"error": None, "kept": Words.TOKEN_KEPT[place].format(file=hub.token_file())}

    def forget_token(self, data: View | None = None) -> View:
        """Delete what was kept."""
        return _then(hub.forget_token)

    # ---- the disk

    def disk(self, data: View | None = None) -> View:
        """What the downloads take, each of which can be deleted."""
        models = self.runtime.models
        kept = disk.kept(models)
        place = hub.token()[1]
        return {
            "folder": str(models),
            "free": human(disk.free_bytes(models)),
            "total": human(sum(one.bytes for one in kept)),
            "kept": [
                {
                    "path": str(one.path),
                    "name": one.name,
                    "size": human(one.bytes),
                    "unfinished": one.unfinished,
                    "in_use": bool(_uses(one, self._in_use())),
                }
                for one in kept
            ],
            "token": Words.TOKEN_AT[place].format(file=hub.token_file()),
            "own_token": place in (hub.KeptIn.KEYRING, hub.KeptIn.FILE),
        }

    def delete(self, data: View) -> View:
        """Delete one of what ``disk`` lists."""

        def remove() -> None:
            disk.delete(self.runtime.models, Path(str(data["path"])), self._in_use())
            self.runtime.found.scan()

        return _then(remove)

    def _in_use(self) -> tuple[Path, ...]:
        """Where the models lie that are loaded, being loaded or downloaded."""
        runtime, used = self.runtime, []
        names: list[str | None] = []
        loaded, status = runtime.engine.loaded, runtime.loader.status
        if loaded is not None:
            names += [loaded.target_id, loaded.draft_id]
            used += [Path(head) for head in loaded.request.heads]
        if status.state is LoadState.WORKING:
            names += [status.target_id, status.draft_id]
        for name in filter(None, names):
            try:
                place = runtime.locate(runtime.known().spec(name))
            except ForetokenError:
                place = Path(name)  # a file that cannot be read any more is loaded all the same
            used += [place] if place else []
        for one in runtime.downloads.all().values():
            if one.state in (DownloadState.RUNNING, DownloadState.WAITING):
                used.append(hub.folder_for(one.spec, runtime.models) / hub.PARTIAL / "any")
        return tuple(used)


def show_parts(found: Forecast) -> list[View]:
    """The bar's parts from left to right; the last is what stays free, or what is missing."""
    room = found.room
    parts = [("work", "", "", room.work)]
    for role, model in zip(found.roles, room.models, strict=True):
        parts.append(("weights", role, model.name, model.weights))
        if model.kv:
            parts.append(("kv", role, model.name, model.kv))
    whole = max(room.needed, room.free, 1)
    left = room.free - room.needed
    parts.append(("free" if left >= 0 else "lacking", "", "", abs(left)))
    return [
        {
            "kind": kind,
            "role": role,
            "name": name,
            "size": human(size),
            # What is lacking is no part of its own: the others reach beyond what there is.
            "share": 0.0 if kind == "lacking" else size / whole,
        }
        for kind, role, name, size in parts
    ]


def _uses(one: disk.Kept, used: Iterable[Path]) -> bool:
    own = one.files or (one.path,)
    return any(file == place or file in place.parents for file in own for place in used)


def _then(act: Callable[[], object]) -> View:
    """``act``, and why it was refused, if it was."""
    try:
        act()
    except ForetokenError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": Words.disk_refused(error)}
    return {"error": None}


def _cleaned(text: object) -> str:
    """A path as people paste or drop it."""
    return str(text or "").strip().strip("\"'").removeprefix("file://")


def _path(text: str) -> str:
    """A bare name is meant as a folder here, not as a model's id."""
    return text if any(sign in text for sign in "/\\~") else f"./{text}"
