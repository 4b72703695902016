"""What the Models page and the pickers ask for: the catalog in plain values, and opening pairs."""

from __future__ import annotations

from app.runtime import OpeningState, Runtime
from app.ui.opener import Opener
from app.ui.view import View
from app.ui.words import Words, count
from engine.errors import ForetokenError
from engine.loading import fit as memory
from engine.loading import hub
from engine.loading.catalog import SEPARATOR, DraftChoice, ModelSpec, Pairing, judge_draft
from engine.loading.fit import ModelSize, human

Choice = tuple[str, str]


class Shelf:
    """The catalog of one running app."""

    def __init__(self, runtime: Runtime, opener: Opener) -> None:
        self.runtime = runtime
        self.opener = opener

    # ---- the pickers

    def targets(self) -> list[Choice]:
        """Every model that can be a target: one in a folder of its own, then those of pairs."""
        catalog = self.runtime.catalog
        drafts = {pair.draft.id for pair in catalog.pairs if pair.draft is not None}
        first = list(dict.fromkeys(pair.target.id for pair in catalog.pairs))
        rest = [spec.id for spec in catalog.models if spec.id not in (*first, *drafts)]
        own, _ = self.shown()
        listed = [own] if own and own not in (*first, *rest) else []
        return [(self._label(catalog.spec(name)), name) for name in (*listed, *first, *rest)]

    def drafts_of(self, target: str | None) -> tuple[list[Choice], str]:
        """The drafts that fit, and the one the catalog pairs with the target ('' for none)."""
        none = (Words.NO_DRAFT, "")
        if not target:
            return [none], ""
        catalog = self.runtime.catalog
        try:
            choices = catalog.drafts_for(catalog.spec(target), hub.locate)
        except ForetokenError:
            return [none], ""
        fitting = [choice for choice in choices if choice.fits]
        shown, draft = self.shown()
        if shown == target and draft and draft not in {choice.spec.id for choice in fitting}:
            found = judge_draft(catalog.spec(target), catalog.spec(draft), hub.locate)
            fitting.append(found)
        paired = [p.draft.id for p in catalog.pairs if p.target.id == target and p.draft]
        chosen = next((choice.spec.id for choice in fitting if choice.spec.id in paired), "")
        return [*((self._draft_label(choice), choice.spec.id) for choice in fitting), none], chosen

    def load_label(self, target: str | None, draft: str | None) -> str:
        """The load button says beforehand whether something will be downloaded."""
        try:
            specs = [self.runtime.catalog.spec(name) for name in (target, draft) if name]
        except ForetokenError:  # a folder that is gone; Load says so
            return Words.LOAD
        missing = sum(spec.bytes for spec in specs if hub.locate(spec) is None)
        return f"{Words.LOAD_DOWNLOAD}, {human(missing)}" if missing else Words.LOAD

    def shown(self) -> tuple[str | None, str]:
        """Target and draft, as ids or folders, of what is loaded or being opened; None: nothing."""
        try:
            pairing = self.runtime.catalog.resolve(self.runtime.opening.shown, hub.locate)
        except ForetokenError:
            return None, ""
        return pairing.target.id, pairing.draft.id if pairing.draft else ""

    @staticmethod
    def _label(spec: ModelSpec) -> str:
        if hub.locate(spec):
            return spec.name
        return Words.away(spec.name, human(spec.bytes) if spec.repository else None)

    def _draft_label(self, choice: DraftChoice) -> str:
        label = self._label(choice.spec)
        return Words.across(label) if choice.across else label

    # ---- the Models page

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
        missing = sum(spec.bytes for spec in specs if hub.locate(spec) is None)
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

    @staticmethod
    def _model(role: str, spec: ModelSpec) -> View:
        return {
            "role": role,
            "name": spec.name,
            "source": spec.repository or Words.SHIPPED,
            "size": human(spec.bytes) if spec.bytes else "",
            "parameters": count(spec.parameters) if spec.parameters else "",
            "context": f"{spec.context:,}" if spec.context else "",
            "licence": spec.licence,
            "gated": spec.gated,
            "here": hub.locate(spec) is not None,
            "note": spec.note,
        }

    def why_not(self, data: View) -> list[View]:
        """Every other model as a draft for one target, each with the reason it does not fit."""
        choices = self.runtime.catalog.drafts_for(str(data["target"]), hub.locate)
        return [{"name": c.spec.name, "reason": c.reason, "across": c.across} for c in choices]

    def open(self, data: View) -> View:
        """Open a pair or a folder; the answer holds the error that is known at once, if any."""
        try:
            if "folder" in data:
                text = _folders(str(data["folder"]), str(data.get("draft") or ""))
            else:
                text = str(data["pair"])
            self.opener.start(text)
        except ForetokenError as error:
            return {"error": str(error)}
        return {"error": None}

    def cancel(self, data: View | None = None) -> bool:
        self.opener.cancel()
        return self.runtime.opening.status.state is OpeningState.WORKING


def _folders(target: str, draft: str) -> str:
    from engine.errors import ModelError

    target, draft = target.strip().strip("\"'"), draft.strip().strip("\"'")
    if not target:
        raise ModelError(Words.FOLDER_EMPTY)
    parts = [_path(target), *([_path(draft)] if draft else [])]
    return SEPARATOR.join(parts)


def _path(text: str) -> str:
    """A bare name is meant as a folder here, not as a model's id."""
    return text if any(sign in text for sign in "/\\~") else f"./{text}"
