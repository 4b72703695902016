"""End a thought at its budget, and begin a grammar behind the thought.

What is allowed depends on the reply's tokens alone, like a grammar's mask. So the forced end of a thought
is part of the text's rule, the same under any draft and any acceptance rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np

from engine.grammar.matcher import Bits, Matcher
from engine.thoughts import MARKS


class Phase(Enum):
    """Where a reply stands."""

    BEFORE = auto()  # a thought may begin
    HEADER = auto()  # in the name of one of harmony's channels
    INSIDE = auto()
    BEHIND = auto()  # the thought has just ended: white space may follow
    AFTER = auto()


@dataclass(frozen=True, slots=True)
class ThoughtState:
    """A place in a reply. ``count``: tokens of thoughts so far; ``done``: how many of the forced end."""

    phase: Phase
    count: int = 0
    done: int = 0


@dataclass(frozen=True, slots=True)
class Tags:
    """A thought between an opening and a closing token; ``header`` tokens follow the opening.

    ``end`` is what ends a thought that reached its budget, ``blank`` what may stand around one, and
    ``whole`` whether a grammar of calls covers the thought too.
    """

    opening: int
    closing: int
    end: tuple[int, ...]
    blank: frozenset[int]
    header: int = 0
    whole: bool = False

    def start(self, *, opened: bool, closed: bool) -> ThoughtState:
        """Return the start of a reply whose prompt may have ``opened`` or ``closed`` a thought."""
        return ThoughtState(Phase.INSIDE if opened else Phase.AFTER if closed else Phase.BEFORE)

    def step(self, place: ThoughtState, token: int) -> ThoughtState:
        """Return the place behind ``token``, disregarding budgets."""
        match place.phase:
            case Phase.BEFORE if token == self.opening:
                return ThoughtState(Phase.INSIDE, -self.header)
            case Phase.BEFORE if token in self.blank:
                return place
            case Phase.INSIDE if token == self.closing:
                return ThoughtState(Phase.BEHIND, place.count)
            case Phase.INSIDE:
                return replace(place, count=place.count + 1)
            case _:
                return ThoughtState(Phase.AFTER, place.count)

    def forbidden(self, place: ThoughtState) -> int | None:
        """Return the token that would begin another thought here, if there is one."""
        return None


@dataclass(frozen=True, slots=True)
class HarmonyTokens:
    """gpt-oss': the thoughts are messages of the channel that begins with the token ``analysis``."""

    channel: int
    message: int
    stop: int
    analysis: int
    end: tuple[int, ...]
    whole: bool = True

    def start(self, *, opened: bool, closed: bool) -> ThoughtState:
        return ThoughtState(Phase.AFTER)

    def step(self, place: ThoughtState, token: int) -> ThoughtState:
        count = place.count
        match place.phase:
            case Phase.HEADER:
                return ThoughtState(Phase.BEHIND if token == self.analysis else Phase.AFTER, count)
            case Phase.BEHIND if token == self.message:  # the name was read
                return ThoughtState(Phase.INSIDE, count)
            case Phase.INSIDE if token == self.stop:
                return ThoughtState(Phase.AFTER, count)
            case Phase.INSIDE:
                return ThoughtState(Phase.INSIDE, count + 1, place.done)
            case _ if token == self.channel:
                return ThoughtState(Phase.HEADER, count)
            case _:
                return ThoughtState(place.phase, count)

    def forbidden(self, place: ThoughtState) -> int | None:
        return self.analysis if place.phase is Phase.HEADER else None


ThoughtTokens = Tags | HarmonyTokens
"""The tokens around thoughts of one model."""


def thought_tokens(
    token_named: Callable[[str], int | None], encode: Callable[[str], list[int]]
) -> ThoughtTokens | None:
    """Return the tokens around thoughts of a model with this vocabulary; None if it has none."""

    def ids(*names: str) -> list[int] | None:
        found = [token for name in names if (token := token_named(name)) is not None]
        return found if len(found) == len(names) else None

    blank = frozenset(each[0] for each in map(encode, ("\n", "\n\n")) if len(each) == 1)
    if (known := ids("<|channel|>", "<|message|>", "<|end|>", "<|start|>")) is not None:
        channel, message, stop, start = known
        end = (stop, start, *encode("assistant"), channel)
        return HarmonyTokens(channel, message, stop, encode("analysis")[0], end)
    if (known := ids("<|channel>", "<channel|>")) is not None:
        opening, closing = known
        return Tags(opening, closing, (closing,), blank, len(encode("thought\n")))
    if (known := ids("<|START_THINKING|>", "<|END_THINKING|>")) is not None:
        opening, closing = known
        return Tags(opening, closing, (closing,), blank)
    for marks in MARKS:
        if (known := ids(*marks)) is not None:
            opening, closing = known
            behind = () if marks[1].startswith("[") else tuple(encode("\n\n"))
            before = tuple(encode("\n")) if behind else ()
            return Tags(opening, closing, (*before, closing, *behind), blank)
    return None


@dataclass(frozen=True, slots=True)
class Thinking:
    """How one reply thinks. ``budget`` None: as long as it likes. ``ends``: tokens that end a text."""

    tokens: ThoughtTokens
    place: ThoughtState
    budget: int | None
    vocabulary: int
    ends: frozenset[int]

    def follow(self, grammar: Matcher | None) -> ThinkingMatcher:
        """Return a matcher at the start of the reply; ``grammar`` is what must follow the thought."""
        return ThinkingMatcher(self, grammar)


class ThinkingMatcher:
    """A ``Matcher`` of a reply that may think before its grammar begins, or that has no grammar."""

    def __init__(self, thinking: Thinking, grammar: Matcher | None) -> None:
        self._thinking, self._tokens, self._grammar = thinking, thinking.tokens, grammar
        self._place = thinking.place
        self.free: Bits = np.full(-(-thinking.vocabulary // 32), -1, np.int32)
        """The mask that allows every token."""
        self.read = 0

    @property
    def ended(self) -> bool:
        return self._grammar is not None and self._grammar.ended

    def consume(self, tokens: Sequence[int]) -> None:
        """Append ``tokens`` to the text. Raises as the grammar's ``consume``."""
        for token in tokens:
            place = self._step(self._place, (), token)
            if self._grammar is not None and self._is_grammars(self._place, (), token):
                self._grammar.consume([token])
            self._place = place
            self.read += 1

    def mask(self, drafted: Sequence[int] = ()) -> Bits | None:
        """Return the mask of tokens allowed after ``drafted``; None if these are not allowed or end the
        text."""
        found = self._walk(drafted)
        return None if found is None else self._mask(*found)

    def allows(self, drafted: Sequence[int], token: int) -> bool:
        """Return True if ``token`` is allowed after ``drafted``, which is allowed."""
        found = self._walk(drafted)
        return found is not None and self._allows(*found, token)

    def forced(self, drafted: Sequence[int] = ()) -> list[int]:
        """Return the tokens that must follow ``drafted``, in order; often none."""
        found = self._walk(drafted)
        if found is None:
            return []
        place, path = found
        if required := self._required(place, path):
            return list(required)
        if self._grammar is None or not self._in_grammar(place):
            return []
        return self._grammar.forced(path)

    def count_fitting(self, tokens: Sequence[int]) -> int:
        """Return how many of ``tokens``, from the first on, are allowed, up to one that ends the text."""
        if self._in_grammar(self._place) and not self._tokens.whole:
            return len(tokens) if self._grammar is None else self._grammar.count_fitting(tokens)
        place, path = self._place, tuple[int, ...]()
        for at, token in enumerate(tokens):
            if self._ends(place, path) or not self._allows(place, path, token):
                return at
            place, path = self._advance(place, path, token)
        return len(tokens)

    def ends(self, drafted: Sequence[int]) -> bool:
        """Return True if the text ends with ``drafted``."""
        found = self._walk(drafted)
        return found is not None and self._ends(*found)

    def _walk(self, drafted: Sequence[int]) -> tuple[ThoughtState, tuple[int, ...]] | None:
        """Return the place behind ``drafted``, and those of its tokens that the grammar reads; None if
        the thought's rule forbids them."""
        place, path = self._place, tuple[int, ...]()
        for token in drafted:
            required = self._required(place, path)
            if required and token != required[0]:
                return None
            place, path = self._advance(place, path, token)
        return place, path

    def _advance(
        self, place: ThoughtState, path: tuple[int, ...], token: int
    ) -> tuple[ThoughtState, tuple[int, ...]]:
        read = self._is_grammars(place, path, token)
        return self._step(place, path, token), (*path, token) if read else path

    def _step(self, place: ThoughtState, path: tuple[int, ...], token: int) -> ThoughtState:
        required, stepped = self._required(place, path), self._tokens.step(place, token)
        if not required or token != required[0] or stepped.phase is not Phase.INSIDE:
            # The last tokens of the end may stand behind the closing one.
            behind = required[1:] if required and token == required[0] else ()
            return replace(stepped, done=-len(behind) if behind else 0)
        return replace(stepped, count=place.count, done=place.done + 1)

    def _required(self, place: ThoughtState, path: tuple[int, ...]) -> tuple[int, ...]:
        """Return what is left of the forced end of a thought.

        It waits for the end of a character where a grammar reads the thought too.
        """
        end, budget = self._tokens.end, self._thinking.budget
        if place.done < 0:
            return end[place.done :]
        if place.phase is not Phase.INSIDE or budget is None or place.count < budget:
            return ()
        left, grammar = end[place.done :], self._grammar if self._tokens.whole else None
        return left if grammar is None or grammar.allows(path, left[0]) else ()

    def _in_grammar(self, place: ThoughtState) -> bool:
        return self._tokens.whole or (place.phase is Phase.AFTER and not place.done)

    def _is_grammars(self, place: ThoughtState, path: tuple[int, ...], token: int) -> bool:
        """Return whether the grammar reads ``token``: what stands before or inside a thought it does not,
        nor white space behind one that it does not allow."""
        if self._grammar is None or self._in_grammar(place):
            return self._grammar is not None
        if place.done < 0 or self._tokens.step(place, token).phase is not Phase.AFTER:
            return False
        return place.phase is Phase.BEFORE or self._grammar.allows(path, token)

    def _ends(self, place: ThoughtState, path: tuple[int, ...]) -> bool:
        if self._grammar is None or not (self._in_grammar(place) or path):
            return False
        return self._grammar.ends(path)

    def _allows(self, place: ThoughtState, path: tuple[int, ...], token: int) -> bool:
        mask = self._mask(place, path)
        return mask is not None and bool(mask[token // 32] >> (token % 32) & 1)

    def _mask(self, place: ThoughtState, path: tuple[int, ...]) -> Bits | None:
        if required := self._required(place, path):
            return self._only(required[:1])
        grammar = self._grammar
        if grammar is not None and (self._in_grammar(place) or place.phase is not Phase.INSIDE):
            mask = grammar.mask(path)
            if mask is not None and not self._in_grammar(place):
                mask = mask | self._only(self._beside(place))
        else:
            mask = self.free if grammar is None else self._without(self.free, self._thinking.ends)
        forbidden = self._tokens.forbidden(place)
        budget = self._thinking.budget
        if mask is None or forbidden is None or budget is None or place.count < budget:
            return mask
        return self._without(mask, (forbidden,))

    def _beside(self, place: ThoughtState) -> Sequence[int]:
        """Return what may stand before a grammar begins."""
        tokens = self._tokens
        if not isinstance(tokens, Tags):
            return ()
        return (tokens.opening, *tokens.blank) if place.phase is Phase.BEFORE else [*tokens.blank]

    def _only(self, tokens: Sequence[int]) -> Bits:
        mask = np.zeros_like(self.free)
        for token in tokens:
            mask[token // 32] |= np.uint32(1 << (token % 32)).view(np.int32)
        return mask

    def _without(self, mask: Bits, tokens: Sequence[int] | frozenset[int]) -> Bits:
        return mask & ~self._only([*tokens])
