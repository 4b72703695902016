"""What the Models page asks for: the catalog and what lies here in plain values, and opening pairs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.runtime import Runtime
from app.ui.view import View
from app.ui.words import Words, count
from engine.errors import ForetokenError, InvalidRequest, ModelError
from engine.loading import fit as memory
from engine.loading.discovery import FoundModel
from engine.loading.fit import MemoryFit, ModelSize, human
from engine.loading.request import LoadRequest
from engine.loading.specs import ModelSpec, Pairing


class ModelsBackend:
    """The catalog of one running app, and what lies on its machine."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def catalog(self, data: View | None = None) -> View:
        """All pairs with all that is known of them."""
        catalog = self.runtime.catalog
        free = memory.free_bytes()
        return {
            "pairs": [self._pair(pair, free) for pair in catalog.pairs],
            "problems": list(catalog.problems),
            "memory": Words.memory(human(free), human(memory.total_bytes())),
        }

    def _pair(self, pair: Pairing, free: int) -> View:
        specs = [pair.target] if pair.draft is None else [pair.target, pair.draft]
        missing = sum(spec.bytes for spec in specs if self.runtime.locate(spec) is None)
        known = all(spec.parameters for spec in specs)
        fit = memory.fit(*map(ModelSize.of, specs), free=free) if known else None
        return {
            "id": pair.id,
            "name": pair.name,
            "note": pair.note,
            "models": [
                self._model(role, spec)
                for role, spec in zip((Words.TARGET, Words.DRAFT), specs, strict=False)
            ],
            "target": pair.target.id,
            "missing": human(missing) if missing else None,
            "broken": not known,
            "fits": _fits(fit),
            "fit": fit.sentence if fit else Words.FILES_MISSING,
        }

    def _model(self, role: str, spec: ModelSpec) -> View:
        return {
            "role": role,
            "name": spec.name,
            "source": spec.repository or (Words.SHIPPED if spec.shipped else str(spec.path)),
            **_sizes(spec),
            "licence": spec.licence,
            "gated": spec.gated,
            "here": self.runtime.locate(spec) is not None,
            "note": spec.note,
        }

    # ---- what lies on this machine

    def found(self, data: View | None = None) -> View:
        """What was found by now and is not in the catalog; ``again`` in ``data`` looks anew, ``look``
        unless that was done."""
        found, asked = self.runtime.found, data or {}
        if asked.get("again"):
            found.scan()
        elif asked.get("look"):
            found.scan_once()
        looking = found.scanning  # asked first: what is found by the end is in the last answer
        listed, beside = found.found, self.runtime.beside_catalog()
        free = memory.free_bytes()
        return {
            "looking": looking,
            "models": [self._found(model, free) for model in listed if model.spec in beside],
            "unusable": [
                {"name": model.name, "place": self._place(model), "reason": model.reason}
                for model in listed
                if model.spec is None
            ],
            "folders": [{"path": str(path), "there": path.is_dir()} for path in found.folders],
        }

    def _found(self, model: FoundModel, free: int) -> View:
        assert model.spec is not None
        fit = memory.fit(ModelSize.of(model.spec), free=free)
        return {
            "id": model.spec.id,
            "name": model.name,
            "path": str(model.path),
            "place": self._place(model),
            "architecture": Words.architecture(model.architecture),
            "type": model.type,
            **_sizes(model.spec),
            "fits": _fits(fit),
            "fit": None if fit.fits else fit.sentence,
        }

    def _place(self, model: FoundModel) -> str:
        return Words.DOWNLOADS if model.place == str(self.runtime.models) else model.place

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

    def why_not(self, data: View) -> View:
        """Every other model as a draft for one target, each with the reason if it does not fit.

        ``pending``: what was found is still being compared.
        """
        try:
            found = self.runtime.drafts_for(self.runtime.known().spec(str(data["target"])))
        except ForetokenError as error:
            return {"drafts": [], "pending": False, "error": str(error)}
        drafts = [
            {
                "id": choice.spec.id,
                "name": choice.spec.name,
                "reason": choice.reason,
                "across": choice.cross_vocabulary,
                "here": self.runtime.locate(choice.spec) is not None,
            }
            for choice in found.choices
        ]
        return {"drafts": drafts, "pending": found.pending, "error": None}

    # ---- opening

    def open(self, data: View) -> View:
        """Open a pair, a folder or models by their ids; the answer holds what is known at once to be
        wrong, if anything."""
        return _then(lambda: self.runtime.loader.start(self._request(data)))

    def _request(self, data: View) -> LoadRequest:
        draft = data.get("draft")
        if "folder" in data:
            return self._folders(str(data["folder"]), str(draft or ""))
        if "target" in data:
            return self.runtime.request(str(data["target"]), str(draft or ""))
        return self.runtime.request(str(data["pair"]))

    def _folders(self, target: str, draft: str) -> LoadRequest:
        target, draft = _cleaned(target), _cleaned(draft)
        if not target:
            raise ModelError(Words.FOLDER_EMPTY)
        return self.runtime.request(_path(target), _path(draft) if draft else "")


def _sizes(spec: ModelSpec) -> View:
    return {
        "size": human(spec.bytes) if spec.bytes else "",
        "parameters": count(spec.parameters) if spec.parameters else "",
        "context": f"{spec.context:,}" if spec.context else "",
    }


def _fits(fit: MemoryFit | None) -> str | None:
    return None if fit is None else "yes" if fit.fits else "part" if fit.context else "no"


def _then(act: Callable[[], object]) -> View:
    """``act``, and why it was refused, if it was."""
    try:
        act()
    except ForetokenError as error:
        return {"error": str(error)}
    return {"error": None}


def _cleaned(text: object) -> str:
    """A path as people paste it."""
    return str(text or "").strip().strip("\"'")


def _path(text: str) -> str:
    """A bare name is meant as a folder here, not as a model's id."""
    return text if any(sign in text for sign in "/\\~") else f"./{text}"
