"""model_catalog.yaml -> frozen models and pairs, and why a draft does not fit a target.

Never imports torch and never goes to the network: what is known comes from the file, and for models
in folders from their headers.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from engine.drafting.heads import check as check_head
from engine.drafting.heads import kind_in
from engine.errors import CatalogError, IncompatiblePair, ModelError
from engine.loading.catalog_file import Entry, read_catalog_file
from engine.loading.pairing import fit
from engine.loading.request import LoadRequest
from engine.models.checkpoints import checkpoint
from engine.models.checkpoints.checkpoint import AUTO, KV_CACHE_DTYPES, QUANTIZATIONS, Checkpoint

EMBEDDED = "pip"
"""The id of the pair that ships with the app, and of its target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One model: where it comes from and how big it is.

    Exactly one of ``repository`` (on the hub) and ``path`` (a folder here) is set. Counts are 0
    while unknown, which only happens to a ``path`` whose files are not there. ``tokenizer`` names
    the vocabulary; it is empty for a folder outside the catalog. ``quantization`` is how the model is
    loaded unless somebody asks for another; ``kv_cache_dtype`` what its cache is kept in where the
    machine has it and it is a target.
    """

    id: str
    name: str
    repository: str | None = None
    revision: str = "main"
    path: Path | None = None
    tokenizer: str = ""
    licence: str = "unknown"
    gated: bool = False
    parameters: int = 0
    bytes: int = 0
    context: int = 0
    vocabulary: int = 0
    layers: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    quantization: str = AUTO
    kv_cache_dtype: str = AUTO
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """A target and what drafts for it: a draft model, heads (folders), or neither."""

    id: str
    name: str
    target: ModelSpec
    draft: ModelSpec | None = None
    heads: tuple[Path, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """A model that could draft; ``reason`` says why it cannot, and is None when it can.

    ``cross_vocabulary`` says how it drafts where its vocabulary is not the target's.
    """

    spec: ModelSpec
    reason: str | None
    cross_vocabulary: str | None = None

    @property
    def fits(self) -> bool:
        return self.reason is None


Locate = Callable[[ModelSpec], Path | None]
"""Where a model lies on disk, complete; None when it does not (``hub.locate``)."""


def _folder_of(spec: ModelSpec) -> Path | None:
    return spec.path


@dataclass(frozen=True, slots=True)
class Catalog:
    """All known models and pairs. ``problems`` are entries that were left out, in words."""

    models: tuple[ModelSpec, ...]
    pairs: tuple[Pairing, ...]
    problems: tuple[str, ...] = ()

    def pair(self, pair_id: str) -> Pairing:
        """The pair of this id; ``CatalogError`` when there is none."""
        for pairing in self.pairs:
            if pairing.id == pair_id:
                return pairing
        raise CatalogError(_unknown("pair", pair_id, [pairing.id for pairing in self.pairs]))

    def model(self, model_id: str) -> ModelSpec:
        """The model of this id; ``CatalogError`` when there is none."""
        for spec in self.models:
            if spec.id == model_id:
                return spec
        raise CatalogError(_unknown("model", model_id, [spec.id for spec in self.models]))

    def drafts_for(
        self, target: str | ModelSpec, locate: Locate = _folder_of
    ) -> tuple[DraftChoice, ...]:
        """Every other model: fitting ones first, of them those with the target's vocabulary first,
        small before big; each with its reason.

        ``locate`` (``hub.locate``) lets models on disk be compared by their real tokenizers.
        """
        spec = self.model(target) if isinstance(target, str) else target
        choices = [judge_draft(spec, other, locate) for other in self.models if other.id != spec.id]
        choices.sort(key=_preference)
        return tuple(choices)

    def named(self, request: LoadRequest) -> Pairing:
        """The target and what drafts for it that ``request`` names, whether or not they fit.

        Raises CatalogError for what is not in the catalog, ModelError for a folder that is broken.
        """
        base = next((pairing for pairing in self.pairs if pairing.id == request.target), None)
        if base is not None and request.draft is None and not request.heads:
            return base
        target = self.spec(request.target) if base is None else base.target
        draft = base.draft if base else None
        if request.draft is not None:
            draft = self.spec(request.draft) if request.draft else None
        heads = tuple(Path(folder).expanduser() for folder in request.heads)
        kinds = {check_head(folder) for folder in heads}
        kept = [folder for folder in (base.heads if base else ()) if kind_in(folder) not in kinds]
        names = [target.name, *([draft.name] if draft else ()), *(each.name for each in heads)]
        return Pairing(
            id=request.text,
            name=" + ".join(names),
            target=target,
            draft=draft,
            heads=(*kept, *heads),
        )

    def resolve(self, request: LoadRequest, locate: Locate = _folder_of) -> Pairing:
        """What ``request`` names, whose draft fits as far as is known before anything is fetched.

        ``locate`` as for ``drafts_for``. Raises as ``named``, and IncompatiblePair.
        """
        pairing = self.named(request)
        target, draft = pairing.target, pairing.draft
        if draft is None or pairing in self.pairs:
            return pairing
        reason = why_not(target, draft, locate)
        if reason is not None:
            raise IncompatiblePair(f"{draft.name} cannot draft for {target.name}. {reason}")
        return pairing

    def spec(self, text: str) -> ModelSpec:
        """The model of this id, or in this folder; raises as ``named`` does."""
        for spec in self.models:
            if spec.id == text:
                return spec
        folder = Path(text).expanduser()
        if text and (folder.exists() or _looks_like_path(text)):
            return local_spec(folder)
        known = [pairing.id for pairing in self.pairs] + [spec.id for spec in self.models]
        raise CatalogError(_unknown("pair or model", text, list(dict.fromkeys(known))))


def load_catalog(path: Path, extra: Path | None = None) -> Catalog:
    """The catalog in ``path``, with the user's own file ``extra`` (if it exists) on top.

    An entry of ``extra`` replaces one of the same id. Raises ``CatalogError`` for the first mistake
    in either file. ``open_catalog`` goes on without the broken file instead.
    """
    models: dict[str, ModelSpec] = {}
    pairs: dict[str, Entry] = {}
    for file in (path, extra):
        if file is None or (file is extra and not file.is_file()):
            continue
        model_entries, pair_entries = read_catalog_file(file)
        models.update((entry.values["id"], _model(entry)) for entry in model_entries)
        pairs.update((entry.values["id"], entry) for entry in pair_entries)
        for entry in pair_entries:
            _pairing(entry, models)  # so that a mistake is reported in the file that holds it
    pairings = tuple(_pairing(entry, models) for entry in pairs.values())
    return Catalog(tuple(models.values()), pairings)


def open_catalog(path: Path, extra: Path | None = None) -> Catalog:
    """Like ``load_catalog``, but a broken file is left out and told in ``problems``.

    Without the shipped file the embedded pair is still there.
    """
    try:
        return load_catalog(path, extra)
    except CatalogError as error:
        problem = str(error)
    try:
        return replace(load_catalog(path), problems=(problem,))
    except CatalogError as error:
        embedded = _embedded(path.parent)
        return Catalog((embedded.target, *_some(embedded.draft)), (embedded,), (str(error),))


def local_spec(folder: Path) -> ModelSpec:
    """A folder outside the catalog; ``ModelError`` when it holds no model."""
    found = checkpoint.inspect(folder)
    whole = folder.resolve()
    spec = ModelSpec(id=str(whole), name=whole.name, path=folder)
    return _with_sizes(spec, found)


def judge_draft(target: ModelSpec, draft: ModelSpec, locate: Locate = _folder_of) -> DraftChoice:
    """Whether ``draft`` can draft for ``target``, and how; if not, why, with sizes.

    Models on disk are compared by their files, others by what the catalog says.
    """
    folders = locate(target), locate(draft)
    if folders[0] is None or folders[1] is None:
        return DraftChoice(draft, _why_not_by_catalog(target, draft))
    try:
        found = fit(checkpoint.inspect(folders[0]), checkpoint.inspect(folders[1]))
    except ModelError as error:
        return DraftChoice(draft, str(error))
    return DraftChoice(draft, found.reason, found.cross_vocabulary)


def why_not(target: ModelSpec, draft: ModelSpec, locate: Locate = _folder_of) -> str | None:
    """Why ``draft`` cannot draft for ``target``; None when it can. See ``judge_draft``."""
    return judge_draft(target, draft, locate).reason


def _preference(choice: DraftChoice) -> tuple[bool, bool, int, str]:
    spec = choice.spec
    return not choice.fits, choice.cross_vocabulary is not None, spec.parameters, spec.id


def _why_not_by_catalog(target: ModelSpec, draft: ModelSpec) -> str | None:
    for spec in (target, draft):
        if not spec.vocabulary:
            return f"The files of {spec.name} are not here, so nothing is known about it yet."
    return _why_not_vocabulary(target, draft) or _why_not_size(target, draft)


def _why_not_vocabulary(target: ModelSpec, draft: ModelSpec) -> str | None:
    if target.tokenizer and target.tokenizer == draft.tokenizer:
        return None
    sizes = (
        f"{target.name} has {target.vocabulary:,} tokens{_named(target)}, "
        f"{draft.name} {draft.vocabulary:,}{_named(draft)}"
    )
    if (target.tokenizer and draft.tokenizer) or target.vocabulary != draft.vocabulary:
        return (
            f"The vocabularies differ: {sizes}. Whether it can draft across them can only be told "
            "from the files: download both models first."
        )
    return (
        f"The vocabularies are of one size ({sizes}), but whether they are the same can only be "
        "told from the files. Download the model first."
    )


def _named(spec: ModelSpec) -> str:
    return f" ({spec.tokenizer})" if spec.tokenizer else ""


def _why_not_size(target: ModelSpec, draft: ModelSpec) -> str | None:
    if draft.parameters < target.parameters:
        return None
    return (
        f"The draft is not smaller than the target: {draft.parameters:,} parameters against "
        f"{target.parameters:,}. Drafting would cost more than it saves."
    )


def _model(entry: Entry) -> ModelSpec:
    values = dict(entry.values)
    for key, known in (("quantization", QUANTIZATIONS), ("kv_cache_dtype", KV_CACHE_DTYPES)):
        if values.get(key, AUTO) not in known:
            raise entry.error(key, f"it is {values[key]!r}; choose one of {', '.join(known)}")
    if "path" not in values:
        return ModelSpec(**values)
    values["path"] = entry.file.parent / Path(values["path"]).expanduser()
    spec = ModelSpec(**values)
    try:
        return _with_sizes(spec, checkpoint.inspect(values["path"]))
    except ModelError:
        return spec  # opening it will say what is wrong; the others stay usable


def _with_sizes(spec: ModelSpec, found: Checkpoint) -> ModelSpec:
    return replace(
        spec,
        parameters=found.parameters,
        bytes=found.bytes,
        context=found.context,
        vocabulary=found.vocabulary,
        layers=found.layers,
        kv_heads=found.kv_heads,
        head_dim=found.head_dim,
    )


def _pairing(entry: Entry, models: dict[str, ModelSpec]) -> Pairing:
    values = entry.values
    target = _referenced(entry, "target", models)
    draft = _referenced(entry, "draft", models) if "draft" in values else None
    if draft is not None and target.vocabulary and draft.vocabulary:
        reason = _why_not_vocabulary(target, draft) or _why_not_size(target, draft)
        if reason is not None:
            raise entry.error("draft", reason)
    return Pairing(
        id=values["id"],
        name=values["name"],
        target=target,
        draft=draft,
        heads=tuple(
            entry.file.parent / Path(folder).expanduser() for folder in values.get("heads", ())
        ),
        note=values.get("note", ""),
    )


def _referenced(entry: Entry, key: str, models: dict[str, ModelSpec]) -> ModelSpec:
    name = entry.values[key]
    if name not in models:
        raise entry.error(key, _unknown("model", name, list(models)))
    return models[name]


def _embedded(folder: Path) -> Pairing:
    def spec(model_id: str, name: str, part: str) -> ModelSpec:
        path = folder / "assets" / "pip" / part
        known = ModelSpec(
            id=model_id, name=name, path=path, tokenizer=EMBEDDED, licence="apache-2.0"
        )
        try:
            return _with_sizes(known, checkpoint.inspect(path))
        except ModelError:
            return known

    target, draft = spec(EMBEDDED, "Pip", "target"), spec("pip-draft", "Pip's draft", "draft")
    return Pairing(id=EMBEDDED, name="Pip", target=target, draft=draft)


def _some(spec: ModelSpec | None) -> tuple[ModelSpec, ...]:
    return () if spec is None else (spec,)


def _looks_like_path(text: str) -> bool:
    return "/" in text or "\\" in text or text.startswith((".", "~"))


def _unknown(kind: str, text: str, known: list[str]) -> str:
    close = difflib.get_close_matches(text, known, n=1)
    hint = f"Did you mean '{close[0]}'?" if close else f"Known are {', '.join(known)}."
    return f"There is no {kind} '{text}'. {hint} A folder can be given as TARGET or TARGET::DRAFT."
