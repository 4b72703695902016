"""Whether one model can draft for another, by files or the catalog, and which is the default."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.drafting import heads
from engine.errors import IncompatiblePair, ModelError, what_failed
from engine.loading.planning.pairing import Compatibility, compare, hopeless, why_not_size
from engine.loading.specs import Locate, ModelSpec, bytes_read, folder_of
from engine.models.checkpoints import checkpoint
from engine.values.method_titles import head_title

LARGEST_SHARE, USUAL_SHARE = 1 / 2, 1 / 10
"""Bytes that a token reads of a default draft at most, and usually, as a share of its target's."""


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """A possible draft; ``reason`` says why it cannot draft, or is not worth it, or is None.

    ``cross_vocabulary`` says how it drafts if its vocabulary is not the target's.
    """

    spec: ModelSpec
    reason: str | None
    cross_vocabulary: str | None = None

    @property
    def fits(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True)
class HeadChoice:
    """A head in ``folder`` of this ``kind``; ``reason`` says why it cannot draft for a target."""

    folder: Path
    kind: str
    reason: str | None
    parameters: int = 0

    @property
    def title(self) -> str:
        """What people call it."""
        return head_title(self.kind, self.folder.name)


def judge_draft(target: ModelSpec, draft: ModelSpec, locate: Locate = folder_of) -> DraftChoice:
    """Return whether ``draft`` can usefully draft for ``target``, and how or why not.

    Models on disk are compared by their files, others by the catalog.
    """
    if 0 < draft.vocabulary < target.vocabulary and draft.parameters < target.parameters:
        # Known without reading the tokens, which takes seconds.
        reason = hopeless(draft.vocabulary, target.vocabulary, draft.vocabulary)
        if reason is not None:
            return DraftChoice(draft, reason)
    found = _compared(target, draft, locate)
    return DraftChoice(draft, found.reason or found.hopeless, found.cross_vocabulary)


def _compared(target: ModelSpec, draft: ModelSpec, locate: Locate) -> Compatibility:
    folders = locate(target), locate(draft)
    if folders[0] is None or folders[1] is None:
        return Compatibility(why_not_by_catalog(target, draft))
    try:
        return compare(checkpoint.inspect(folders[0]), checkpoint.inspect(folders[1]))
    except ModelError as error:
        return Compatibility(str(error))
    except Exception as error:  # a file that damages its reader is one more that does not fit
        return Compatibility(f"It cannot be compared: {what_failed(error)}.")


def best_draft(
    target: ModelSpec,
    drafts: Iterable[ModelSpec],
    suits: Callable[[ModelSpec], bool],
    paired: Collection[str] = (),
) -> ModelSpec | None:
    """Return the default draft of ``target``, or None.

    The catalog's own (``paired``, by ids) go first, then the largest of ``USUAL_SHARE`` of the target
    or less, then the smallest up to ``LARGEST_SHARE``. The first that ``suits`` is returned.
    """
    shares = {one: share for one in drafts if (share := break_even(target, one)) is not None}

    def order(draft: ModelSpec) -> tuple[bool, bool, float, str]:
        share = shares[draft]
        large = share > USUAL_SHARE
        return draft.id not in paired, large, share if large else -share, draft.id

    paying = sorted((one for one, share in shares.items() if share <= LARGEST_SHARE), key=order)
    return next((one for one in paying if one.id != target.id and suits(one)), None)


def why_not(target: ModelSpec, draft: ModelSpec, locate: Locate = folder_of) -> str | None:
    """Return why ``draft`` cannot draft for ``target`` at all, or None."""
    return _compared(target, draft, locate).reason


def ranked(choices: Iterable[DraftChoice]) -> tuple[DraftChoice, ...]:
    """Sort fitting drafts first, of them those with the target's vocabulary first, small before big."""

    def order(choice: DraftChoice) -> tuple[bool, bool, int, str]:
        spec = choice.spec
        return not choice.fits, choice.cross_vocabulary is not None, spec.parameters, spec.id

    return tuple(sorted(choices, key=order))


def judge_head(target: ModelSpec, folder: Path, locate: Locate = folder_of) -> HeadChoice:
    """Return whether the head in ``folder`` was trained for ``target``, by both's files, or why not."""
    kind, place = heads.kind_in(folder) or "", locate(target)
    if place is None:
        return HeadChoice(
            folder, kind, f"Download {target.name} first; its files show whether this head fits."
        )
    try:
        plan = heads.inspect(folder, checkpoint.inspect(place))
    except (ModelError, IncompatiblePair) as error:
        return HeadChoice(folder, kind, str(error))
    return HeadChoice(folder, kind, None, plan.parameters)


def break_even(target: ModelSpec, draft: ModelSpec) -> float | None:
    """Return the acceptance rate above which drafting pays: None if sizes are not known, 1 or more if it
    cannot.

    Decoding is bandwidth-bound, so a token costs the bytes that it reads: with c = draft / target, a
    draft of k tokens that are each accepted with probability a pays where (1 + a + ... + a^k) / (1 + k
    c) > 1, which some k does exactly where a > c. A lower bound: it assumes that the target verifies
    several tokens in the time of one, though of a mixture they read more experts.
    """
    sizes = bytes_read(draft), bytes_read(target)
    return sizes[0] / sizes[1] if all(sizes) else None


def why_not_by_catalog(target: ModelSpec, draft: ModelSpec) -> str | None:
    """Return why ``draft`` cannot draft for ``target`` as far as the catalog tells, or None."""
    for spec in (target, draft):
        if spec.address:
            return f"{spec.name} runs on a server; a draft must run on the machine of its target."
        if not spec.vocabulary:
            return f"The files of {spec.name} are missing, so it cannot be compared yet."
    return _why_not_vocabulary(target, draft) or why_not_size(target, draft)


def _why_not_vocabulary(target: ModelSpec, draft: ModelSpec) -> str | None:
    if target.tokenizer and target.tokenizer == draft.tokenizer:
        return None
    sizes = (
        f"{target.name} has {target.vocabulary:,} tokens{_named(target)}, "
        f"{draft.name} {draft.vocabulary:,}{_named(draft)}"
    )
    if (target.tokenizer and draft.tokenizer) or target.vocabulary != draft.vocabulary:
        return (
            f"Different vocabularies: {sizes}. Download both models to see whether it can "
            "draft anyway."
        )
    return (
        f"The vocabularies have the same size ({sizes}). Download the model to see "
        "whether they are the same."
    )


def _named(spec: ModelSpec) -> str:
    return f" ({spec.tokenizer})" if spec.tokenizer else ""
