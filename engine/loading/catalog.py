"""Read model_catalog.yaml into frozen models and pairs, and look up what a request names.

Never imports torch, never uses the network: sizes come from the file, or from headers in folders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.drafting.heads import check as check_head
from engine.drafting.heads import kind_in
from engine.errors import CatalogError, IncompatiblePair, InvalidRequest, ModelError
from engine.files import expanded
from engine.kernels.formats import AUTO, KV_CACHE_DTYPES, QUANTIZATIONS
from engine.loading.catalog_file import PLAN_KEYS, Entry, read_catalog_file
from engine.loading.drafts import DraftChoice, judge_draft, ranked, why_not, why_not_by_catalog
from engine.loading.planning.gguf_size import BF16_WIDTH, gguf_bytes
from engine.loading.request import LoadRequest
from engine.loading.specs import Locate, ModelSpec, Pairing, folder_of, with_sizes
from engine.models.checkpoints import checkpoint
from engine.models.checkpoints.gguf.description import SUFFIX, name_of
from engine.models.sizes.weight_counts import head_weights
from engine.values import shown
from engine.values.address import Address, is_address
from engine.values.units import closest

EMBEDDED = "pip"
"""The id of the pair that ships with the app, and of its target."""
_HOST_AND_PORT = re.compile(r"[\w.-]+:\d{2,5}(?=[/#]|$)")
LOADABLE = {
    "assistant": "MTP assistant", "eagle3": "EAGLE-3 head", "dflash": "DFlash head",
    "dspark": "DSpark head", "medusa": "Medusa heads", "mlp_speculator": "MLP speculator",
    "arctic": "LSTM speculator", "mtp": "MTP layers",
}  # fmt: skip
"""Methods of an entry's ``drafters`` that are loaded here too, not only planned for, with names."""
_SHOWN = 5
"""Most known names that a message lists."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All known models and pairs. ``problems`` are messages on entries that were left out.

    ``found``: models outside the catalog, whose names are used for their paths. ``servers``: models that
    run elsewhere.
    """

    models: tuple[ModelSpec, ...]
    pairs: tuple[Pairing, ...]
    problems: tuple[str, ...] = ()
    found: tuple[ModelSpec, ...] = ()
    servers: tuple[ModelSpec, ...] = ()

    def pair(self, pair_id: str) -> Pairing:
        """Return the pair of this id. Raises CatalogError."""
        for pairing in self.pairs:
            if pairing.id == pair_id:
                return pairing
        raise CatalogError(_unknown("pair", pair_id, [pairing.id for pairing in self.pairs]))

    def model(self, model_id: str) -> ModelSpec:
        """Return the model, file or drafter of this id. Raises CatalogError."""
        if (found := _by_id(self.models, model_id)) is not None:
            return found
        raise CatalogError(_unknown("model", model_id, [spec.id for spec in self.models]))

    def paired(self, target: ModelSpec) -> frozenset[str]:
        """Return the ids of the drafts that pairs have for ``target``."""
        return frozenset(p.draft.id for p in self.pairs if p.draft and p.target.id == target.id)

    def drafts_for(self, target: ModelSpec, locate: Locate = folder_of) -> tuple[DraftChoice, ...]:
        """Return every other model as a draft, ranked, each with its reason.

        With ``locate`` (``locate`` of hub/disk.py) models on disk are compared by their tokenizers.
        """
        others = (other for other in self.models if other.id != target.id)
        return ranked(judge_draft(target, other, locate) for other in others)

    def named(self, request: LoadRequest) -> Pairing:
        """Return the target and what drafts for it that ``request`` names, whether or not they fit.

        Raises CatalogError for an unknown name, ModelError for a broken folder.
        """
        base = next((pairing for pairing in self.pairs if pairing.id == request.target), None)
        if base is not None and request.draft is None and not request.heads:
            return base
        target = self.spec(request.target) if base is None else base.target
        if target.address:
            _refuse_drafters(target, request)
            return Pairing(name=target.name, target=target)
        draft = base.draft if base else None
        if request.draft is not None:
            draft = self.spec(request.draft) if request.draft else None
            if draft is not None and draft.address:
                raise IncompatiblePair(
                    f"{draft.name} cannot draft for {target.name}: a draft must run on the same "
                    "machine as its target. Leave it out."
                )
        if base is not None and draft == base.draft and not request.heads:
            return base  # spelt out: one pair has one name
        heads = tuple(expanded(folder) for folder in request.heads)
        kinds = {check_head(folder) for folder in heads}
        others = [folder for folder in (base.heads if base else ()) if kind_in(folder) not in kinds]
        names = [target.name, *([draft.name] if draft else ()), *(each.name for each in heads)]
        return Pairing(name=" + ".join(names), target=target, draft=draft, heads=(*others, *heads))

    def resolve(self, request: LoadRequest, locate: Locate = folder_of) -> Pairing:
        """Return what ``request`` names, if its draft fits as far as is known before a download.

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
        """Return the model of this id, path or address. Raises as ``named``, and InvalidRequest for a
        malformed address."""
        if (found := _by_id((*self.models, *self.servers), text)) is not None:
            return found
        if is_address(text):
            return server_spec(Address.parse(text))
        path = expanded(text)
        if text and (os.path.exists(path) or _looks_like_path(text)):
            spec = local_spec(path)
            name = next((known.name for known in self.found if known.id == spec.id), spec.name)
            return replace(spec, name=name)
        known = [pairing.id for pairing in self.pairs]
        known += [spec.id for spec in (*self.models, *self.servers)]
        raise CatalogError(_unknown("pair or model", text, list(dict.fromkeys(known))))


def _by_id(specs: Sequence[ModelSpec], id: str) -> ModelSpec | None:
    """Return the model, file or drafter of this id among those of ``specs``."""
    every = (one for spec in specs for one in (spec, *spec.files, *spec.drafters))
    return next((one for one in every if one.id == id), None)


def load_catalog(path: Path, extra: Path | None = None) -> Catalog:
    """Return the catalog in ``path`` with the user's own file ``extra``, if it exists.

    An entry of ``extra`` replaces one of the same id. Raises CatalogError for the first mistake in either
    file; ``open_catalog`` leaves a broken file out instead.
    """
    models: dict[str, ModelSpec] = {}
    pairs: dict[str, Entry] = {}
    servers: dict[str, ModelSpec] = {}
    for file in (path, extra):
        if file is None or (file is extra and not file.is_file()):
            continue
        entries = read_catalog_file(file)
        for entry in entries.models:
            if not entry.values.get("plan_only"):
                models[entry.values["id"]] = _model(entry, shipped=file is path)
        pairs.update((entry.values["id"], entry) for entry in entries.pairs)
        for entry in entries.pairs:
            _pairing(entry, models)  # so that a mistake is reported in the file that holds it
        servers.update((entry.values["id"], _server(entry)) for entry in entries.servers)
    pairings = tuple(_pairing(entry, models) for entry in pairs.values())
    return Catalog(tuple(models.values()), pairings, servers=tuple(servers.values()))


def open_catalog(path: Path, extra: Path | None = None) -> Catalog:
    """Like ``load_catalog``, but leave a broken file out and report it in ``problems``.

    Without the shipped file the embedded pair remains.
    """
    try:
        return load_catalog(path, extra)
    except CatalogError as error:
        problem = str(error)
    try:
        return replace(load_catalog(path), problems=(problem,))
    except CatalogError as error:
        embedded = _embedded(path.parent)
        models = tuple(filter(None, (embedded.target, embedded.draft)))
        return Catalog(models, (embedded,), (str(error),))


def local_spec(path: Path) -> ModelSpec:
    """Return the spec of a folder or GGUF file outside the catalog. Raises ModelError."""
    found = checkpoint.inspect(path)
    whole = Path(os.path.abspath(path))  # links stay: behind them caches name files by their hashes
    spec = ModelSpec(id=str(whole), name=name_of(whole), path=path)
    return with_sizes(spec, found)


def server_spec(address: Address) -> ModelSpec:
    """Return the spec of a server outside the catalog."""
    name = f"{address.model} on {address.place}" if address.model else address.place
    return ModelSpec(id=address.text, name=name, address=address.text)


def _server(entry: Entry) -> ModelSpec:
    values = entry.values
    try:
        address = Address.parse(values["address"])
    except InvalidRequest as error:
        raise entry.error("address", str(error)) from error
    if "model" in values:
        address = replace(address, model=values["model"])
    return ModelSpec(
        id=values["id"], name=values["name"], address=address.text, note=values.get("note", "")
    )


def _refuse_drafters(target: ModelSpec, request: LoadRequest) -> None:
    if request.draft or request.heads:
        raise IncompatiblePair(
            f"{request.draft or ' and '.join(request.heads)} cannot draft for "
            f"{target.name}, which is on a server; servers use their own drafts. Leave it "
            "out."
        )


def _model(entry: Entry, *, shipped: bool) -> ModelSpec:
    """Return the model of an entry. ``shipped``: the entry is in the app's own catalog."""
    values = {key: value for key, value in entry.values.items() if key not in PLAN_KEYS}
    for key, known in (("quantization", QUANTIZATIONS), ("kv_cache_dtype", KV_CACHE_DTYPES)):
        if values.get(key, AUTO) not in known:
            raise entry.error(key, f"it is {shown(values[key])}; choose one of {', '.join(known)}")
    patterns, drafters = values.pop("gguf", ()), values.pop("drafters", {})
    if "path" not in values:
        return _on_hub(entry, values, patterns, drafters)
    values["path"] = entry.file.parent / expanded(values["path"])
    spec = ModelSpec(**values, shipped=shipped)
    try:
        return with_sizes(spec, checkpoint.inspect(values["path"]))
    except ModelError:
        return spec  # opening it will say what is wrong; the others stay usable


def _on_hub(
    entry: Entry, values: dict[str, Any], patterns: Sequence[str], drafters: dict[str, str]
) -> ModelSpec:
    """Return a model of the hub: in the first GGUF file that ``patterns`` name, else in safetensors."""
    spec = ModelSpec(**{"bytes": BF16_WIDTH * values["parameters"], **values})
    own = tuple(
        _head_of(spec, method, place)
        for method, place in drafters.items()
        if method in LOADABLE and "/" in place
    )
    spec = replace(spec, drafters=own)
    if not patterns:
        return spec
    ggufs = (one for pattern in patterns for one in _gguf_files(entry, spec, pattern))
    files = (*ggufs, _in_format(spec))
    return replace(files[0], id=spec.id, name=spec.name, files=files)


def _head_of(spec: ModelSpec, method: str, place: str) -> ModelSpec:
    """Return a head on the hub, with its sizes if they follow from the target's."""
    head = ModelSpec(
        id=f"{spec.id}:{method}",
        name=f"{LOADABLE[method]} for {spec.name}",
        repository="/".join(place.split("/")[:2]),
        file="/".join(place.split("/")[2:]),
        method=method,
    )
    target = spec.architecture
    weights = None if target is None else head_weights(method, target)
    if target is None or weights is None:
        return head
    attention = target.attentions[-1]
    head = replace(head, parameters=weights.parameters)
    return replace(
        head,
        bytes=gguf_bytes(head),
        layers=weights.layers,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        context=spec.context,
    )


def _gguf_files(entry: Entry, spec: ModelSpec, pattern: str) -> Iterator[ModelSpec]:
    """Yield a model's GGUF files, named by ``owner/name/file`` with alternatives in braces."""
    owner, _, rest = pattern.partition("/")
    name, _, file = rest.partition("/")
    if not (owner and name and file.endswith(SUFFIX)):
        raise entry.error("gguf", "must have the form 'owner/name/file.gguf'")
    before, _, rest = file.partition("{")
    among, _, after = rest.partition("}")
    for one in among.split(","):
        there = f"{before}{one}{after}"
        found = replace(spec, repository=f"{owner}/{name}", file=there, gated=False)
        yield _in_format(replace(found, bytes=gguf_bytes(found)))


def _in_format(spec: ModelSpec) -> ModelSpec:
    format = spec.format
    return replace(spec, id=f"{spec.id}:{format}", name=f"{spec.name}, {format}")


def _pairing(entry: Entry, models: dict[str, ModelSpec]) -> Pairing:
    values = entry.values
    target = _referenced(entry, "target", models)
    draft = _referenced(entry, "draft", models) if "draft" in values else None
    if draft is not None and target.vocabulary and draft.vocabulary:
        reason = why_not_by_catalog(target, draft)
        if reason is not None:
            raise entry.error("draft", reason)
    return Pairing(
        id=values["id"],
        name=values["name"],
        target=target,
        draft=draft,
        heads=tuple(entry.file.parent / expanded(folder) for folder in values.get("heads", ())),
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
            id=model_id,
            name=name,
            path=path,
            shipped=True,
            tokenizer=EMBEDDED,
            licence="apache-2.0",
        )
        try:
            return with_sizes(known, checkpoint.inspect(path))
        except ModelError:
            return known

    target, draft = spec(EMBEDDED, "Pip", "target"), spec("pip-draft", "Pip's draft", "draft")
    return Pairing(id=EMBEDDED, name="Pip", target=target, draft=draft)


def _looks_like_path(text: str) -> bool:
    if _HOST_AND_PORT.match(text):
        return False
    return "/" in text or "\\" in text or text.startswith((".", "~")) or text.endswith(SUFFIX)


def _unknown(kind: str, text: str, known: list[str]) -> str:
    if _HOST_AND_PORT.match(text):
        return f"There is no {kind} '{text}'. If it is a server, write http://{text}"
    close = closest(text, known)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    listed = f"Known: {', '.join(known[:_SHOWN])}{more}."
    hint = f"Did you mean '{close}'?" if close else listed
    return (
        f"There is no {kind} '{text}'. {hint} You can also give a folder or a GGUF file "
        "(TARGET or TARGET::DRAFT), or a server's address (http://...)."
    )
