"""What the Models page asks for: the catalog in plain values, and opening pairs."""

from __future__ import annotations

from app.runtime import Runtime
from app.ui.view import View
from app.ui.words import Words, count
from engine.errors import ForetokenError, ModelError
from engine.loading import fit as memory
from engine.loading.fit import ModelSize, human
from engine.loading.request import LoadRequest
from engine.loading.specs import ModelSpec, Pairing


class ModelsBackend:
    """The catalog of one running app."""

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
            "fits": None if fit is None else "yes" if fit.fits else "part" if fit.context else "no",
            "fit": fit.sentence if fit else Words.FILES_MISSING,
        }

    def _model(self, role: str, spec: ModelSpec) -> View:
        return {
            "role": role,
            "name": spec.name,
            "source": spec.repository or Words.SHIPPED,
            "size": human(spec.bytes) if spec.bytes else "",
            "parameters": count(spec.parameters) if spec.parameters else "",
            "context": f"{spec.context:,}" if spec.context else "",
            "licence": spec.licence,
            "gated": spec.gated,
            "here": self.runtime.locate(spec) is not None,
            "note": spec.note,
        }

    def why_not(self, data: View) -> list[View]:
        """Every other model as a draft for one target, each with the reason it does not fit."""
        choices = self.runtime.catalog.drafts_for(str(data["target"]), self.runtime.locate)
        return [
            {"name": c.spec.name, "reason": c.reason, "across": c.cross_vocabulary} for c in choices
        ]

    def open(self, data: View) -> View:
        """Open a pair or a folder; the answer holds the error that is known at once, if any."""
        try:
            if "folder" in data:
                request = self._folders(str(data["folder"]), str(data.get("draft") or ""))
            else:
                request = self.runtime.request(str(data["pair"]))
            self.runtime.loader.start(request)
        except ForetokenError as error:
            return {"error": str(error)}
        return {"error": None}

    def cancel(self, data: View | None = None) -> bool:
        self.runtime.loader.cancel()
        return self.runtime.loader.working

    def _folders(self, target: str, draft: str) -> LoadRequest:
        target, draft = target.strip().strip("\"'"), draft.strip().strip("\"'")
        if not target:
            raise ModelError(Words.FOLDER_EMPTY)
        return self.runtime.request(_path(target), _path(draft) if draft else "")


def _path(text: str) -> str:
    """A bare name is meant as a folder here, not as a model's id."""
    return text if any(sign in text for sign in "/\\~") else f"./{text}"
