"""Run a draft model on one text, in the tokens of its own vocabulary.

``SameVocabulary`` feeds the target's tokens as they are. ``OtherVocabulary`` feeds the text in the
draft's own tokens, and splits the text that the draft writes into the target's: string-level exact match
(SLEM; Timor et al. 2025, arXiv 2502.05202; transformers' universal assisted decoding). The text alone
decides what is proposed, so the proposal has no q: it is deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import takewhile

from torch import Tensor

from engine.decoding.context import Context, chunks, common_prefix
from engine.decoding.sampling import Sampler
from engine.drafting.cross_vocabulary.retokenized_text import RetokenizedText, target_tokens
from engine.drafting.cross_vocabulary.token_table import VocabularyMap
from engine.drafting.vocabulary_trimmer import VocabularyTrimmer, frequent_tokens
from engine.models.base import GeneratingModel, Model
from engine.models.rounds import RoundDrafter, RoundModel
from engine.models.trimmed_vocabulary import TrimmedVocabulary
from engine.noise import Draws
from engine.values import MAX_ROWS

_STEPS = 4
"""Maximum number of draft tokens for one token of the target."""


class _Draft:
    """A model, its state, and the content keys of its tokens: the text's, then drafted ones."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.state = model.new_state(model.info.context)
        self.tokens: list[int] = []
        # Checked once, because isinstance looks up all of a protocol's members each time.
        self.generating = model if isinstance(model, GeneratingModel) else None
        frequent = None if self.generating is None else frequent_tokens(model.info.vocabulary)
        self.trimmer = None if frequent is None else VocabularyTrimmer(frequent, model.info.eos)
        self.trimmed: TrimmedVocabulary | None = None  # the candidates; None: all tokens

    def trim(self, text: Sequence[int]) -> None:
        """Choose the candidates of the next draft, from ``text`` in the draft's tokens."""
        self.trimmed = None if self.trimmer is None else self.trimmer.trim(text)

    def keep(self, length: int) -> int:
        """Commit the first ``length`` tokens and drop the rest; return how many remain.

        Fewer than ``length`` remain if the state cannot go back to it.
        """
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
        """Return the logits of the ``last`` tokens (last, vocabulary of the draft).

        ``final``: the tokens belong to the text and are not drafted. Without ``keys`` they are plain.
        """
        ids = self.ids(tokens)
        if self.generating is not None and self.trimmed is not None and last == 1:
            logits = self.generating.forward_trimmed(ids, self.state, self.trimmed, final=final)
        else:
            logits = self.model.forward(ids, self.state, last=last, final=final)
        self.tokens.extend(tokens if keys is None else keys)
        return logits

    def ids(self, tokens: Sequence[int]) -> list[int]:
        """Return ``tokens`` with 0 in place of ids that the draft lacks.

        The target may have a few rows more (padding, reserved tokens). Token 0 can only make the draft's
        guess worse.
        """
        rows = self.model.info.vocabulary
        return [token if token < rows else 0 for token in tokens]

    def generate(
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
        """Feed ``new`` and draft ``count`` tokens in one call, fewer where ``floor`` ends the draft.

        Return the tokens and their probabilities.
        """
        assert self.generating is not None
        chosen, q = self.generating.generate(
            self.ids(new), self.state, count, limit, draws, floor, self.trimmed, final=final
        )
        self.tokens += [*(new if keys is None else keys), *chosen[:-1]]  # the last one is not fed
        return chosen, q


class SameVocabulary(_Draft):
    """See ``RoundDraft``. The draft's tokens are the target's."""

    def begin(self, context: Context) -> None:
        """Start another text; keep the state's common prefix with it."""
        self.keep(common_prefix(self.tokens, context.keys[:-1]))
        if self.trimmer is not None:
            self.trimmer.begin()

    def prepare(self, context: Context) -> Iterator[int]:
        """See ``Proposer.prepare``."""
        if len(context.tokens) >= self.model.info.context:
            return  # nothing will be drafted
        missing = range(len(self.tokens), len(context.tokens) - 1)
        for chunk in chunks(missing, beside_others=self.model.info.compiled):
            yield missing.stop - chunk[0]
            part = slice(chunk[0], chunk[-1] + 1)
            self.feed(context.tokens[part], last=0, keys=context.keys[part])
        self.state.save_checkpoint()

    def room(self, context: Context) -> int:
        """Return how many tokens the draft's context still holds."""
        return self.model.info.context - len(context.tokens)

    def drafts_at_once(self, sampler: Sampler) -> bool:
        """Return whether ``draft`` can be used; otherwise sample from ``catch_up`` and ``extend``."""
        return sampler.samples_raw and self.generating is not None

    def draft(
        self, context: Context, depth: int, limit: int, draws: Draws | None, floor: float
    ) -> tuple[list[int], list[float]]:
        """Return at most ``depth`` tokens below ``limit`` and their q, computed in one call.

        ``draws`` and ``floor`` as in ``GeneratingModel``.
        """
        self.trim(context.tokens)
        new = slice(len(self.tokens), None)
        return self.generate(
            context.tokens[new], depth, limit, draws, floor, keys=context.keys[new]
        )

    def catch_up(self, context: Context) -> Tensor:
        """Feed the tokens that the state lacks; return the logits (1, vocabulary) of the next one."""
        self.trim(context.tokens)
        new = slice(len(self.tokens), None)
        return self.feed(context.tokens[new], keys=context.keys[new])

    def extend(self, token: int) -> Tensor:
        """Feed a drafted token; return the logits (1, vocabulary) of the next one."""
        return self.feed([token], final=False)

    @cached_property
    def drafter(self) -> RoundDrafter:
        assert isinstance(self.model, RoundModel)
        return self.model.round_drafter(self.state)

    def is_ready(self, context: Context) -> bool:
        return len(self.tokens) >= len(context.tokens) - 2  # a round feeds the last two

    def read_text(self, context: Context) -> None:
        for _ in self.prepare(context):
            pass

    def set_tokens(self, keys: Sequence[int]) -> None:
        self.tokens = list(keys)
        self.state.settle(len(keys))

    def observe(self, accepted: int) -> None:
        """Keep the first ``accepted`` drafted tokens."""
        # The last drafted token was never fed to the draft.
        self.keep(self.state.length + min(accepted, self.state.pending))


class OtherVocabulary(_Draft):
    """The draft has its own tokenizer."""

    def __init__(self, model: Model, vocabularies: VocabularyMap) -> None:
        super().__init__(model)
        self.vocabularies = vocabularies
        self.begin(Context(()))

    def begin(self, context: Context) -> None:
        """Start another text; keep the state's common prefix with it."""
        self.retokenized = RetokenizedText(self.vocabularies)
        self._read = 0  # number of the target's tokens in the retokenised text
        self._agreed = 0  # number of settled tokens that the state holds for certain
        if self.trimmer is not None:
            self.trimmer.begin()
        self._retokenize(context)
        text = [*self.retokenized.settled, *(self.retokenized.unsettled() or ())]
        self.keep(common_prefix(self.tokens, text[:-1]))

    def prepare(self, context: Context) -> Iterator[int]:
        """See ``Proposer.prepare``."""
        if self.room(context) < 1:
            return  # nothing will be drafted
        missing = self._missing()[:-1]
        left = len(missing)
        for chunk in chunks(missing, beside_others=self.model.info.compiled):
            yield left
            self.feed(chunk, last=0)
            left -= len(chunk)

    def room(self, context: Context) -> int:
        """Return how many tokens the draft's context still holds; 0 within an unfinished character."""
        self._retokenize(context)
        unsettled = self.retokenized.unsettled()
        if unsettled is None:
            return 0
        length = len(self.retokenized.settled) + len(unsettled)
        return self.model.info.context - length if length else 0

    def draft(self, context: Context, depth: int, limit: int) -> list[int]:
        """Return at most ``depth`` of the target's tokens, all below ``limit``.

        The draft writes greedily until there is text for ``depth`` tokens of the target and one more.
        """
        most = _STEPS * (depth + 1) if self.state.crops else MAX_ROWS  # that it can take back
        max_tokens = min(most, self.room(context))
        table, eos = self.vocabularies.draft.token_bytes, self.vocabularies.draft.eos
        new, written, drafted, end = self._missing(), list[int](), list[int](), None
        self.trim(self.retokenized.settled)
        while end is None and len(drafted) < depth and len(written) < max_tokens:
            count = min(depth + 1 - len(drafted), max_tokens - len(written))
            more = self._greedy(new, count, final=not written)
            end = next((at for at, token in enumerate(more) if token not in table), None)
            written += more[:end]
            drafted = target_tokens(self.vocabularies, written, ended=end is not None)
            if end is not None and more[end] == eos and self.vocabularies.target.eos is not None:
                drafted.append(self.vocabularies.target.eos)
            new = more[-1:]
        return list(takewhile(lambda token: token < limit, drafted[:depth]))

    def observe(self, accepted: int) -> None:
        """Do nothing: ``_missing`` compares the state with the text."""

    def _greedy(self, new: Sequence[int], count: int, *, final: bool) -> list[int]:
        """Feed ``new``, which are ``final`` or drafted; return the next ``count`` greedy tokens."""
        if self.generating is not None:
            return self.generate(new, count, self.model.info.vocabulary, final=final)[0]
        chosen: list[int] = []
        while len(chosen) < count:
            chosen.append(int(self.feed(new, final=final and not chosen).argmax()))
            new = chosen[-1:]
        return chosen

    def _retokenize(self, context: Context) -> None:
        self.retokenized.extend(context.tokens[self._read :])
        self._read = len(context.tokens)

    def _missing(self) -> list[int]:
        """Rewind the state to its common prefix with the text; return the rest, at least one token."""
        settled, unsettled = self.retokenized.settled, self.retokenized.unsettled() or []
        start = min(self._agreed, len(self.tokens), len(settled) + len(unsettled) - 1)
        text = [*settled[start:], *unsettled]
        shared = min(common_prefix(self.tokens[start:], text), len(text) - 1)
        length = self.keep(start + shared)
        self._agreed = min(len(settled), length)
        return [*settled[length:], *unsettled[max(length - len(settled), 0) :]]
