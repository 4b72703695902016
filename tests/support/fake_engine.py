"""An engine that computes nothing: it recites given words, round by round, as a real one would.

For tests of whatever stands before the engine's door, and for trying pages without a model: known words,
a known speed, every kind of round, queues, cancelling, and failures where they are asked for. Torch-free.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace

from engine.api import (
    Capabilities,
    Generation,
    Loaded,
    LoadRequest,
    OptionInfo,
    ProposerInfo,
    TopToken,
    Unavailable,
    Watcher,
    check_drafting,
    check_supported,
    has,
    having,
)
from engine.drafting import proposers
from engine.errors import (
    ContextExceeded,
    DownloadCancelled,
    ForetokenError,
    InvalidRequest,
    LoadCancelled,
    NotLoaded,
)
from engine.events import (
    Finished,
    FinishReason,
    Prefilled,
    Started,
)
from engine.loading.catalog import Catalog
from engine.loading.progress import DownloadProgress, LoadProgress, Stage
from engine.loading.specs import Pairing
from engine.request import FIXED_DEPTH, PLAIN, Request, Speculation
from engine.scheduler import Publish, Scheduler
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.fake_rounds import VOCABULARY, as_shown, before_stop, recited, split, token_id

CONTEXT = 4096

DRAFT = "draft"
"""The proposer that needs a draft model."""


def _offered(name: str, *options: OptionInfo) -> ProposerInfo:
    entry = proposers.entry_of(name)
    return ProposerInfo(name, options, entry.isolated_options, entry.depth, entry.about)


CAPABILITIES = Capabilities(
    proposers=(
        _offered(PLAIN),
        _offered(DRAFT),
        _offered(
            "ngram",
            OptionInfo("prompt_lookup_min", int, 2, ""),
            OptionInfo("prompt_lookup_max", int, 5, ""),
            OptionInfo("remember", bool, False, ""),
        ),
    ),
    preferred=DRAFT,
    rules=tuple(AcceptanceRule),
    sampling=frozenset(each.name for each in fields(Sampling)),
    logit_bias=False,  # what is recited has no logits
    top_logprobs=False,
    unavailable=(
        Unavailable(
            "eagle3",
            "It needs a head of kind eagle3 for this target.",
            proposers.entry_of("eagle3").about,
        ),
    ),
)
"""What a pair with a draft can do, unless a test says otherwise."""


@dataclass(frozen=True, slots=True)
class Script:
    """What one reply is. ``tokens`` are its texts, one each.

    ``proposals`` are what is drafted, a sequence of texts for each round; without them most drafts are
    the reply's own next tokens. ``failure``: the reply fails with these words in place of its tokens.
    """

    tokens: Sequence[str]
    proposals: Sequence[Sequence[str]] | None = None
    failure: str | None = None


def echo(request: Request) -> Script:
    """Replies with the question."""
    return Script(split(_asked(request)) or ["."])


class FakeEngine:
    """An ``engine.api.Engine``. What is public may be set at any time, ``loaded`` included.

    ``script`` makes each reply from its request. ``seconds_a_round`` and ``seconds_to_load`` are waited.
    ``capabilities`` are those of pairs loaded from then on; without a draft model they lack ``draft``.
    ``load_error`` is raised by every load while it is set. ``downloads`` and then ``stages`` are reported
    to a load's watcher, which may cancel in between. ``runner_up`` is the text and probability of the
    token that is second likeliest everywhere; the script's own has the rest. ``held`` says of a reply
    (``replies`` counts them) and its round, both from 0, whether it waits, at most until it is cancelled.
    """

    def __init__(
        self,
        script: Callable[[Request], Script] = echo,
        *,
        catalog: Callable[[], Catalog] = lambda: Catalog((), ()),
        loads: LoadRequest | None = None,
        seconds_a_round: float = 0.0,
        capabilities: Capabilities = CAPABILITIES,
    ) -> None:
        """``loads``: what is loaded from the start. ``catalog``: the one by which pairs are looked up."""
        self.script, self.seconds_a_round = script, seconds_a_round
        self.seconds_to_load = 0.0
        self.held: Callable[[int, int], bool] = lambda reply, number: False
        self.replies = 0
        self.capabilities = capabilities
        self.load_error: Exception | None = None
        self.downloads: Iterable[DownloadProgress] = ()
        self.stages: Iterable[LoadProgress] = ()
        self.runner_up = (" otherwise", 0.1)
        self.loaded: Loaded | None = None
        self.catalog = catalog
        self._turns = Scheduler("fake engine")
        if loads is not None:
            self.load(loads)

    @property
    def resident(self) -> tuple[Loaded, ...]:
        """The loaded pair alone."""
        return () if self.loaded is None else (self.loaded,)

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits, loading included."""
        return self._turns.busy

    def load(self, request: LoadRequest, watcher: Watcher | None = None) -> Loaded:
        """Looks the pair up and says that it is loaded; see ``Engine.load``."""
        pairing = self.catalog().resolve(request)
        if watcher is not None:
            self._download(watcher)
        waits = self.busy
        if watcher is not None and waits:
            watcher.on_loading(LoadProgress(Stage.WAITING))

        def work() -> Loaded:
            if watcher is not None:
                if waits and watcher.cancelled:  # meanwhile
                    raise LoadCancelled("Loading was cancelled.")
                self._report_stages(watcher)
            time.sleep(self.seconds_to_load)
            if self.load_error is not None:
                raise self.load_error
            self.loaded = self._describe(pairing, request)
            return self.loaded

        return self._turns.exchange(work)

    def unload(self, pair: Loaded | None = None) -> None:
        """Forgets the pair, after the requests that wait."""

        def work() -> None:
            if pair is None or has(self, pair):
                self.loaded = None

        self._turns.exchange(work)

    def generate(self, request: Request) -> Generation:
        """Queues a request. Raises NotLoaded, InvalidRequest or ContextExceeded at once."""
        loaded = self.loaded
        if loaded is None:
            self._turns.check_open()
            raise NotLoaded(
                "No model is loaded. Choose one on the Models page, or start with --pair."
            )
        check_supported(request, loaded.capabilities)
        check_drafting(request.speculation, loaded.capabilities)
        prompt = _prompt(request)
        length = len(prompt) + len(request.reply_prefix)
        if length + 1 > loaded.context:
            raise ContextExceeded(length, loaded.context)
        return self._turns.generate(
            request, lambda generation, publish: self._recite(generation, prompt, publish)
        )

    @property
    def tokenizer(self) -> None:
        """None: only words are known, not their places in a chat."""

    def tokenize(self, texts: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
        """A token for each word; see ``Engine.tokenize``."""
        if self.loaded is None:
            raise NotLoaded("No model is loaded, so no text has tokens.")
        return tuple(tuple(map(token_id, split(text))) for text in texts)

    def top_tokens(
        self, request: Request, reply: Sequence[int], count: int
    ) -> tuple[TopToken, ...]:
        """The script's own next token, and ``runner_up``. Raises NotLoaded."""
        if self.loaded is None:
            raise NotLoaded("No model is loaded.")
        tokens = self.script(request).tokens
        text, p = self.runner_up
        best = tokens[len(reply)] if len(reply) < len(tokens) else "(end)"
        found = [
            TopToken(token_id(text), text, p, math.log(p)) for text, p in ((best, 1 - p), (text, p))
        ]
        return tuple(found[:count])

    def of(self, pair: Loaded) -> FakeEngine:
        """This engine itself. Raises NotLoaded."""
        return having(self, pair)

    def pin(self, pair: Loaded) -> AbstractContextManager[None]:
        """See ``Engine.hold``."""
        return self._turns.pin(lambda: has(self, pair))

    @property
    def idle_s(self) -> float:
        """Seconds since anything ran or waited."""
        return self._turns.idle_s

    def embed(self, tokens: Sequence[int]) -> tuple[float, ...]:
        """Raises InvalidRequest: recited words have no vectors."""
        raise InvalidRequest("model", "The fake engine has no embeddings.")

    def next_logits(self, tokens: Sequence[int], choices: Sequence[int]) -> tuple[float, ...]:
        """Raises InvalidRequest, as ``embed``."""
        raise InvalidRequest("model", "The fake engine has no logits.")

    def close(self) -> None:
        """Cancels everything and forgets the pair."""

        def forget() -> None:
            self.loaded = None

        self._turns.close(forget)

    def _download(self, watcher: Watcher) -> None:
        for progress in self.downloads:
            watcher.on_progress(progress)
            if watcher.cancelled:
                raise DownloadCancelled(f"The download of {progress.repository} was cancelled.")

    def _report_stages(self, watcher: Watcher) -> None:
        for progress in self.stages:
            watcher.on_loading(progress)
            if watcher.cancelled:
                raise LoadCancelled("Loading was cancelled.")

    def _describe(self, pairing: Pairing, request: LoadRequest) -> Loaded:
        target, draft = pairing.target, pairing.draft
        capabilities = self.capabilities
        if draft is None:
            left = tuple(each for each in capabilities.proposers if each.name != DRAFT)
            preferred = capabilities.preferred
            if preferred == DRAFT:
                preferred = proposers.preferred([each.name for each in left])
            lacking = Unavailable(DRAFT, "It needs a draft model.")
            unavailable = (*capabilities.unavailable, lacking)
            capabilities = replace(
                capabilities, proposers=left, preferred=preferred, unavailable=unavailable
            )
        return Loaded(
            request=request,
            name=pairing.name,
            target=target.id,
            draft=None if draft is None else draft.id,
            target_id=target.id,
            draft_id=None if draft is None else draft.id,
            target_name=target.called,
            draft_name=None if draft is None else draft.called,
            heads=tuple(folder.name for folder in pairing.heads),
            context=CONTEXT,
            vocabulary=VOCABULARY,
            parameters=target.parameters,
            quantization="fp32",
            kv_cache_dtype="fp32",
            device="cpu",
            capabilities=capabilities,
        )

    def _recite(self, generation: Generation, prompt: Sequence[int], publish: Publish) -> None:
        loaded, request = self.loaded, generation.request
        if loaded is None:
            raise NotLoaded("The model was unloaded while this request waited.")
        script, reply = self.script(request), self.replies
        self.replies += 1
        publish(
            Started(
                loaded.target,
                request.speculation.proposer,
                _rule(request),
                tuple(prompt),
                request.sampling.seed or 0,
            )
        )
        publish(Prefilled(len(prompt), 0, self.seconds_a_round))
        if script.failure is not None:
            raise ForetokenError(script.failure)
        begun = len(request.reply_prefix)
        limit = begun + (request.max_tokens or len(script.tokens))
        limit = min(limit, loaded.context - len(prompt))
        whole = script.tokens[:limit]
        tokens = before_stop(whole, request.stop)
        said = list(tokens[:begun])
        started = time.perf_counter()
        speculation = request.speculation
        rounds = recited(
            tokens,
            script.proposals,
            proposer=speculation.proposer,
            depth=_depth(speculation),
            seconds=self.seconds_a_round,
            begun=begun,
        )
        for number, emitted in enumerate(rounds):
            while self.held(reply, number) and not generation.cancelled:
                time.sleep(0.005)
            if generation.cancelled:
                break
            time.sleep(self.seconds_a_round)
            said += [token.text for token in emitted.tokens or ()]
            publish(as_shown(emitted, loaded.capabilities, time.perf_counter() - started))
        ended = tokens != list(whole) or len(whole) == len(script.tokens)
        reason = FinishReason.STOP if ended else FinishReason.LENGTH
        if generation.cancelled:
            reason = FinishReason.CANCELLED
        ids = tuple(map(token_id, said)) if loaded.capabilities.tokens else None
        text = "".join(whole)
        found = [(at, stop) for stop in request.stop if (at := text.find(stop)) >= 0]
        stop = min(found)[1] if found else None
        publish(Finished(reason, "", "".join(said), ids, stop_string=stop))


def _depth(speculation: Speculation) -> int:
    """Tokens drafted a round."""
    return min(speculation.deepest, speculation.depth or FIXED_DEPTH)


def _rule(request: Request) -> AcceptanceRule:
    rule = request.speculation.acceptance
    if rule is not AcceptanceRule.AUTO:
        return rule
    greedy = request.sampling.temperature == 0
    return AcceptanceRule.GREEDY if greedy else AcceptanceRule.COUPLED


def _asked(request: Request) -> str:
    """The question's text; "" where there are only tokens."""
    return request.messages[-1].content if request.messages else request.prompt or ""


def _prompt(request: Request) -> Sequence[int]:
    if request.token_ids is not None:
        return request.token_ids
    texts = [message.content for message in request.messages] or [request.prompt or ""]
    found = [token_id(token) for text in texts for token in split(text)]
    if not found:
        raise InvalidRequest("messages", "The prompt is empty.")
    return found
