"""Turn rounds into events with text; stop at stop strings and at a repeated tool call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from engine.decoding.loop import StoppingCriteria
from engine.decoding.text.channels import Channels
from engine.decoding.text.codec import Detokenizer, StopStrings, TextCodec
from engine.events import Emitted, Finished, FinishReason, Origin, Round, Token, TopLogprob
from engine.tool_calls.reading import CallReader
from engine.tool_calls.styles import CallStyle


class OutputProcessor:
    """The output of one reply."""

    def __init__(
        self,
        codec: TextCodec,
        prompt: Sequence[int],
        stop: Sequence[str],
        stopping: StoppingCriteria,
        shown: Mapping[str, int] | None = None,
        calls: CallStyle | None = None,
        tools: Collection[str] = (),
        channels: Channels | None = None,
    ) -> None:
        """``stop``: strings that end the reply and are not part of it. ``shown``: control tokens that are
        shown in the text by name. ``calls``: how the model writes tool calls; None without tools.
        ``tools``: names whose calls are read without the style's mark too. ``channels``: those that the
        reply is written in."""
        self.codec, self.stopping = codec, stopping
        names = {token: name for name, token in (shown or {}).items()}
        self.names = {token: name for token, name in names.items() if not codec.decode([token])}
        self.detokenizer = Detokenizer(codec, prompt)
        self.stops = StopStrings(stop)
        self.channels = channels
        self.calls = None if calls is None else CallReader(calls, tools=tools)
        self.stopped = False  # at a stop string or a repeated call
        self.end = 0  # characters of all tokens' texts, shown or not
        self.text: list[str] = []
        self.tokens: list[int] = []

    def resume(self, tokens: Sequence[int]) -> None:
        """Continue a reply that begins with ``tokens``."""
        for token in tokens:
            self._add(token)

    def add(self, round: Round) -> Emitted:
        """Add the round's tokens to the text, up to where it is ``stopped``, and return their event."""
        shown = len(self.text)
        tokens: list[Token] = []
        shown_p = [round.p[node] for node in round.accepted_path] + [round.next_p]
        origins = [Origin.DRAFT] * len(round.accepted_path) + [round.origin]
        emitted = zip(round.tokens[: round.emitted], origins, shown_p, strict=False)
        for at, (token, origin, p) in enumerate(emitted):
            others = self._top_logprobs(round.top_logprobs[at]) if round.top_logprobs else ()
            start = self.end
            tokens.append(Token(token, self._add(token), start, origin, p, others))
            if self.stopped:
                break
        return Emitted(
            text="".join(self.text[shown:]),
            tokens=tuple(tokens),
            round=replace(round, emitted=len(tokens), top_logprobs=()),
            drafted=tuple(map(self.codec.token_text, round.tree.tokens)),
            next_text=self.codec.token_text(round.next_token),
            top_texts=tuple(self.codec.token_text(token) for token, _ in round.top_tokens),
        )

    def _add(self, token: int) -> str:
        """Add one token to the text, up to where it stops; return its own text."""
        text = self.detokenizer.push(token) + self.names.get(token, "")
        mark = ""
        if self.channels is not None:
            mark, text = self.channels.read(token, text)
        # No stop string is found in a mark, nor across it: the model did not write it.
        before = self.stops.flush() + mark if mark else ""
        self.end += len(mark + text)
        self.tokens.append(token)
        self.text.append(before + self.stops.push(text))
        self.stopped = self.stops.found is not None or self._repeats(self.text[-1])
        return mark + text

    def _repeats(self, text: str) -> bool:
        """Return whether the reply's next ``text`` completes a call that was made before."""
        if self.calls is None:
            return False
        for _ in self.calls.read(text):
            pass
        return self.calls.repeated

    def _top_logprobs(self, top: Sequence[tuple[int, float]]) -> tuple[TopLogprob, ...]:
        return tuple(TopLogprob(token, self.codec.token_text(token), p) for token, p in top)

    def finish(self, *, cancelled: bool) -> Finished:
        """Return the last event. A reply that stopped by itself was not cancelled."""
        found = self.stops.found
        tail = self.stops.flush() + self.detokenizer.flush() if found is None else ""
        return Finished(
            self._reason(cancelled),
            tail,
            "".join(self.text) + tail,
            tuple(self.tokens),
            stop_string=found,
        )

    def _reason(self, cancelled: bool) -> FinishReason:
        if self.stopped or (self.tokens and self.tokens[-1] in self.stopping.eos):
            return FinishReason.STOP
        ended = len(self.tokens) >= self.stopping.limit
        return FinishReason.CANCELLED if cancelled and not ended else FinishReason.LENGTH
