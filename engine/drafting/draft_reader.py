"""How a draft model reads along with the target: its state, and the text in its own tokens.

``SameVocabulary`` feeds the target's tokens as they are. ``OtherVocabulary`` feeds the text again in
the draft's own tokens, and turns what the draft says into the target's, in one of two ways (Timor et
al. 2025, arXiv 2502.05202; transformers' universal assisted decoding):

TLI, token-level intersection
    The draft chooses among the tokens that both have. Its distribution, renormalised over them, is one
    over the target's vocabulary, so every acceptance rule holds as it is.
SLEM, string-level exact match
    The draft writes its likeliest text in all its tokens, and the target's tokenizer makes tokens of
    it. The text alone decides what is proposed, so that no q is needed: it is drafted without chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import takewhile
from typing import Protocol

import torch
from torch import Tensor

from engine.decoding.context import Context, chunks, common_prefix
from engine.decoding.sampling import Sampler
from engine.drafting.cross_vocabulary.retokenized_text import RetokenizedText, respelled
from engine.drafting.cross_vocabulary.vocabulary_map import VocabularyMap
from engine.drafting.vocabulary_trimmer import VocabularyTrimmer, kept_of
from engine.models.base import Model, WritingModel
from engine.models.trimmed_vocabulary import TrimmedVocabulary
from engine.noise import Draws

_STEPS = 4
"""Tokens of its own that a draft writes for one of the target's, at most."""


class CrossVocabulary(StrEnum):
    """How a draft with another vocabulary drafts.

    auto: by SLEM, which had more tokens accepted and took less time (docs/log); by TLI under
    rejection sampling, whose acceptance is made for drawn drafts, where enough tokens are shared.
    """

    AUTO = "auto"
    TLI = "tli"
    SLEM = "slem"


class Reader(Protocol):
    """One draft model beside one text. Logits are (1, width); tokens in and out are the target's."""

    def begin(self, context: Context) -> None:
        """Another text; what the state shares with it stays."""

    def prepare(self, context: Context) -> Iterator[None]:
        """Takes in the prompt; yields before each part."""

    def room(self, context: Context) -> int:
        """How many tokens may be drafted behind the text."""

    def writes_on(self, sampler: Sampler) -> bool:
        """Whether ``write_on`` drafts, rather than draws from ``catch_up`` and ``write``."""

    def write_on(
        self, context: Context, depth: int, limit: int, draws: Draws | None, floor: float
    ) -> tuple[list[int], list[float] | None]:
        """At most ``depth`` tokens, all below ``limit``, and their q; None where that is not known.

        ``draws`` and ``floor`` as in ``WritingModel``.
        """

    def catch_up(self, context: Context) -> Tensor:
        """The draft's logits behind the text."""

    def write(self, token: int) -> Tensor:
        """The draft's logits behind ``token``, which was drawn from the last ones."""

    def observe(self, accepted: int) -> None:
        """So many of the drafted tokens stand."""


class _Draft:
    """The model, its state, and the content keys of its tokens: the text's, then drafted ones."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.state = model.new_state(model.info.context)
        self.tokens: list[int] = []
        # Asked once: isinstance looks up all of a protocol's members each time.
        self.writing = model if isinstance(model, WritingModel) else None
        frequent = kept_of(model.info.vocabulary)
        cut = self.writing is not None and frequent is not None
        self.kept = VocabularyTrimmer(frequent, model.info.eos) if cut and frequent else None
        self.among: TrimmedVocabulary | None = None  # what is chosen among; None: all tokens

    def look_at(self, text: Sequence[int]) -> None:
        """Before a draft: chooses what to draft from behind ``text``, in the draft's tokens."""
        self.among = None if self.kept is None else self.kept.beside(text)

    def keep(self, length: int) -> int:
        """Commit the first ``length`` tokens and forget the rest; fewer stay where the state cannot go
        back to so many. Return how many are left."""
        if length >= self.state.length:
            self.state.commit(range(length - self.state.length))
        else:
            length = self.state.reachable(length)
            self.state.rewind(length)
        del self.tokens[length:]
        return length

    def feed(
        self,
        tokens: Sequence[int],
        last: int = 1,
        *,
        keys: Sequence[int] | None = None,
        final: bool = True,
    ) -> Tensor:
        """Return the ``last`` ones' logits (last, vocabulary of the draft). ``final``: tokens of the
        text, not drafted ones. Without ``keys`` they are plain tokens."""
        known = self.known(tokens)
        if self.writing is not None and self.among is not None and last == 1:
            logits = self.writing.forward_among(known, self.state, self.among, final=final)
        else:
            logits = self.model.forward(known, self.state, last=last, final=final)
        self.tokens.extend(tokens if keys is None else keys)
        return logits

    def known(self, tokens: Sequence[int]) -> list[int]:
        """The target may have a few rows more (padding, reserved tokens); the draft is fed token 0
        in place of one it lacks, which can only make its guess worse."""
        rows = self.model.info.vocabulary
        return [token if token < rows else 0 for token in tokens]

    def written_on(
        self,
        new: Sequence[int],
        count: int,
        limit: int,
        draws: Draws | None = None,
        floor: float = 0.0,
        *,
        keys: Sequence[int] | None = None,
        final: bool = True,
    ) -> tuple[list[int], list[float]]:
        """Feed ``new`` and write ``count`` tokens in one call, fewer where ``floor`` ends them."""
        assert self.writing is not None
        chosen, likely = self.writing.write_on(
            self.known(new), self.state, count, limit, draws, floor, self.among, final=final
        )
        self.tokens += [*(new if keys is None else keys), *chosen[:-1]]  # the last one is not fed
        return chosen, likely


class SameVocabulary(_Draft):
    """The draft's tokens are the target's."""

    def begin(self, context: Context) -> None:
        self.keep(common_prefix(self.tokens, context.keys[:-1]))
        if self.kept is not None:
            self.kept.begin()

    def prepare(self, context: Context) -> Iterator[None]:
        if len(context.tokens) >= self.model.info.context:
            return  # nothing will be drafted
        missing = range(len(self.tokens), len(context.tokens) - 1)
        for chunk in chunks(missing, beside_others=self.model.info.compiled):
            yield
            part = slice(chunk[0], chunk[-1] + 1)
            self.feed(context.tokens[part], last=0, keys=context.keys[part])
        self.state.save_checkpoint()

    def room(self, context: Context) -> int:
        return self.model.info.context - len(context.tokens)

    def writes_on(self, sampler: Sampler) -> bool:
        return sampler.samples_raw and self.writing is not None

    def write_on(
        self, context: Context, depth: int, limit: int, draws: Draws | None, floor: float
    ) -> tuple[list[int], list[float] | None]:
        """What would be drawn from ``catch_up`` and ``write``, in one call."""
        self.look_at(context.tokens)
        new = slice(len(self.tokens), None)
        return self.written_on(
            context.tokens[new], depth, limit, draws, floor, keys=context.keys[new]
        )

    def catch_up(self, context: Context) -> Tensor:
        self.look_at(context.tokens)
        new = slice(len(self.tokens), None)
        return self.feed(context.tokens[new], keys=context.keys[new])

    def write(self, token: int) -> Tensor:
        return self.feed([token], final=False)

    def set_tokens(self, keys: Sequence[int]) -> None:
        """See ``RoundDraft``."""
        self.tokens = list(keys)
        self.state.settle(len(keys))

    def observe(self, accepted: int) -> None:
        # The last drafted token was never fed to the draft.
        self.keep(self.state.length + min(accepted, self.state.pending))


class OtherVocabulary(_Draft):
    """The draft has a tokenizer of its own."""

    def __init__(self, model: Model, vocabularies: VocabularyMap, method: CrossVocabulary) -> None:
        super().__init__(model)
        self.vocabularies, self.method = vocabularies, method
        self._own = dict(zip(vocabularies.target_ids, vocabularies.draft_ids, strict=True))
        self._ids = (
            torch.tensor(vocabularies.target_ids, device=model.info.device),
            torch.tensor(vocabularies.draft_ids, device=model.info.device),
        )
        self.begin(Context(()))

    def begin(self, context: Context) -> None:
        self.retokenized = RetokenizedText(self.vocabularies)
        self._read = 0  # tokens of the target that the transcript holds
        self._agreed = 0  # settled tokens that the state is known to hold
        if self.kept is not None:
            self.kept.begin()
        wanted = self._text(context)
        self.keep(common_prefix(self.tokens, wanted[:-1]))

    def prepare(self, context: Context) -> Iterator[None]:
        if self.room(context) < 1:
            return  # nothing will be drafted
        for chunk in chunks(self._missing()[:-1], beside_others=self.model.info.compiled):
            yield
            self.feed(chunk, last=0)

    def room(self, context: Context) -> int:
        self._take_in(context)
        unsettled = self.retokenized.unsettled()
        if unsettled is None:
            return 0  # until the character is finished
        held = len(self.retokenized.settled) + len(unsettled)
        return self.model.info.context - held if held else 0

    def writes_on(self, sampler: Sampler) -> bool:
        if self.method is CrossVocabulary.AUTO:
            return not sampler.rule.weighs_q or self.vocabularies.shared.little
        return self.method is CrossVocabulary.SLEM

    def write_on(
        self, context: Context, depth: int, limit: int, draws: Draws | None, floor: float
    ) -> tuple[list[int], list[float] | None]:
        """SLEM, always the likeliest: writes until there is text for ``depth`` tokens of the target
        and one more. ``floor`` is about tokens of the target, whose likelihood is not known here."""
        most = min(_STEPS * (depth + 1), self.room(context))
        spelled, eos = self.vocabularies.draft.spelled, self.vocabularies.draft.eos
        new, written, drafted, end = self._missing(), list[int](), list[int](), None
        self.look_at(self.retokenized.settled)
        while end is None and len(drafted) < depth and len(written) < most:
            count = min(depth + 1 - len(drafted), most - len(written))
            more = self._greedily(new, count, final=not written)
            end = next((at for at, token in enumerate(more) if token not in spelled), None)
            written += more[:end]
            drafted = respelled(self.vocabularies, written, ended=end is not None)
            if end is not None and more[end] == eos and self.vocabularies.target.eos is not None:
                drafted.append(self.vocabularies.target.eos)
            new = more[-1:]
        drafted = list(takewhile(lambda token: token < limit, drafted[:depth]))
        return drafted, None

    def catch_up(self, context: Context) -> Tensor:
        self._take_in(context)
        self.among = None  # no token that both have may be left out: there may be few
        return self._shared(self.feed(self._missing()))

    def write(self, token: int) -> Tensor:
        return self._shared(self.feed([self._own[token]], final=False))

    def observe(self, accepted: int) -> None:
        """Nothing: what stands is found by comparing, when the text is read on."""

    def _shared(self, logits: Tensor) -> Tensor:
        """TLI: the draft's logits at the target's ids; (1, rows of the target)."""
        ours, theirs = self._ids
        row = logits.new_full((1, self.vocabularies.target_rows), float("-inf"))
        row[:, ours] = logits[:, theirs]
        return row

    def _greedily(self, new: Sequence[int], count: int, *, final: bool) -> list[int]:
        """Feed ``new``, which are ``final`` or drafted, and write ``count`` of the draft's own tokens,
        each the likeliest."""
        if self.writing is not None:
            return self.written_on(new, count, self.model.info.vocabulary, final=final)[0]
        chosen: list[int] = []
        while len(chosen) < count:
            chosen.append(int(self.feed(new, final=final and not chosen).argmax()))
            new = chosen[-1:]
        return chosen

    def _take_in(self, context: Context) -> None:
        self.retokenized.extend(context.tokens[self._read :])
        self._read = len(context.tokens)

    def _text(self, context: Context) -> list[int]:
        self._take_in(context)
        return [*self.retokenized.settled, *(self.retokenized.unsettled() or ())]

    def _missing(self) -> list[int]:
        """Cut the state to what it shares with the text; return the rest, at least one token."""
        settled, unsettled = self.retokenized.settled, self.retokenized.unsettled() or []
        start = min(self._agreed, len(self.tokens), len(settled) + len(unsettled) - 1)
        wanted = [*settled[start:], *unsettled]
        shared = min(common_prefix(self.tokens[start:], wanted), len(wanted) - 1)
        known = self.keep(start + shared)
        self._agreed = min(len(settled), known)
        return [*settled[known:], *unsettled[max(known - len(settled), 0) :]]
