"""A loaded pair: requests in, events out.

Keeps states and proposers between requests in slots, so that a follow-up prefills only what is new. Not
thread-safe: the engine's thread runs all requests.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.api import CacheListener, TopToken
from engine.backends.gpu_trial import gpu_errors
from engine.backends.native import build
from engine.decoding.context import Context
from engine.decoding.target import Target
from engine.decoding.text.channels import channels_of
from engine.decoding.text.codec import TextCodec
from engine.decoding.text.output_processor import OutputProcessor
from engine.decoding.thinking import Thinking
from engine.decoding.top_tokens import top_tokens
from engine.decoding.work import WorkItem
from engine.drafting import proposers
from engine.drafting.controllers.factory import ControllerFactory
from engine.drafting.controllers.stored_times import StoredTimes
from engine.drafting.controllers.warm_up import warm_up
from engine.drafting.heads.base import Head
from engine.drafting.resources import Resources
from engine.errors import ContextExceeded, InvalidRequest
from engine.events import Event
from engine.grammar.compiler import CompiledGrammar, GrammarCompiler
from engine.loading.pooling import Pooling
from engine.local.batcher import Batcher
from engine.local.device_rounds import device_drafting, prepare_rounds
from engine.local.embedding import embedding, next_logits
from engine.local.run import Run
from engine.local.sequence import Sequence as RunningSequence
from engine.local.sequence import SessionResources, Steps, constraint_of, sampler_of
from engine.local.slots import Slot, Slots
from engine.local.thinking import begins_inside_thought, prefill_of, thinking_of
from engine.local.tokenizer import SessionTokenizer
from engine.machine.devices import Device
from engine.models.base import BatchModel, HiddenStateModel, Model
from engine.request import Control, Request
from engine.thoughts import CLOSING, OPENING
from engine.tool_calls.lark import content_in_channels, grammar_of_calls
from engine.tool_calls.styles import HARMONY
from engine.values import require
from engine.values.grammar import Grammar, GrammarKind
from engine.values.prompt import Prompt, TokenPart
from engine.values.tools import Tool
from engine.vision.encoder import ImageEncoder


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request's prompt, its grammar compiled, and how its reply thinks."""

    prompt: Prompt
    grammar: CompiledGrammar | None
    thinking: Thinking | None


class Session:
    """Runs requests on one target, with one draft or none."""

    def __init__(
        self,
        model: Model,
        codec: TextCodec,
        resources: Resources,
        device: Device | None = None,
        parallel: int = 1,
        times: StoredTimes | None = None,
        images: ImageEncoder | None = None,
        pooling: Pooling | None = None,
    ) -> None:
        """``device``: what the model may use; None: everything. ``parallel``: how many requests may run
        at once, more than one only with a ``BatchModel``. ``times``: stored times of verification; None:
        measure them. ``images``: None for a model that sees none. ``pooling``: None for one that is not
        made for embeddings.
        """
        assert parallel == 1 or isinstance(model, BatchModel)
        # Once: a step that is built later is for the pair that is loaded then.
        self.native = (device is None or device.native) and build.ready() is not None
        graphs = device is None or device.cuda_graphs
        self._images, self._pooling = images, pooling
        self._resources = resources
        self._slots = Slots(
            lambda: Slot(model, self._resources, captures=graphs, images=images), parallel
        )
        self._times = times
        self.uncaptured = ""
        """Why rounds that a GPU should replay as graphs run without; see ``prepare_rounds``."""
        self.codec = codec
        self._encoded: tuple[object, Prompt] | None = None  # the last request's text and its prompt
        self.grammars = GrammarCompiler(codec.tokenizer_json, model.info.vocabulary, model.info.eos)
        self.controllers = ControllerFactory(
            self.target.model, stops_early=not self.target.runs_rounds
        )
        self._sequence_resources = SessionResources(
            codec, self.controllers, self._slots, self.native
        )
        self._batcher = None
        if isinstance(model, BatchModel):
            rounds = self.target.runs_rounds
            self._batcher = Batcher(model, self.controllers.batch, rounds=rounds)

    @property
    def parallel(self) -> int:
        """The number of requests that may run at once."""
        return self._slots.most

    @property
    def target(self) -> Target:
        """The target of the first slot."""
        return self._slots.first.target

    @property
    def resources(self) -> Resources:
        """The resources of the first slot."""
        return self._slots.first.resources

    def use_head(self, head: Head) -> None:
        """Draft with ``head`` in place of the one of its kind. Both read the same hidden states. Call it
        between requests."""
        heads = {**self._resources.heads, head.kind: head}
        self._resources = replace(self._resources, heads=heads)
        self._slots.use(self._resources, head.kind)

    @property
    def tokenizer(self) -> SessionTokenizer:
        return SessionTokenizer(self.codec, self.target.model.info, self.prompt)

    def encode(self, request: Request) -> list[int]:
        """Return the prompt's tokens. Raises InvalidRequest or ContextExceeded. Thread-safe."""
        return list(self._prompt(request).tokens)

    def _prompt(self, request: Request) -> Prompt:
        """Return the prompt. Raises as ``encode``. Thread-safe."""
        prompt = self.prompt(request)
        tokens = prompt.tokens
        if not tokens:
            raise InvalidRequest("messages", "The prompt is empty.")
        length = len(tokens) + len(request.reply_prefix)
        if length + 1 > self.target.context:
            raise ContextExceeded(length, self.target.context)
        vocabulary = self.target.model.info.vocabulary
        outside = f"outside this model's vocabulary of {vocabulary} tokens."
        for token in (*tokens, *request.reply_prefix):
            if not 0 <= token < vocabulary:
                raise InvalidRequest("prompt", f"Token id {token} is {outside}")
        for token, _ in request.logit_bias:
            require(0 <= token < vocabulary, "logit_bias", f"names token {token}, {outside}")
        speculation = request.speculation
        why = self.target.model.info.undraftable
        can_draft = not why or speculation.proposer == "none"
        require(can_draft, "proposer", f"is {speculation.proposer!r}. {why} Choose none.")
        proposers.check(speculation.proposer, speculation.options, self.resources)
        return prompt

    def prepare(self, request: Request) -> PreparedRequest:
        """Return the parts of a request that depend on the model. Raises as ``encode``. Thread-safe."""
        prompt = self._prompt(request)
        thinking = thinking_of(request, prompt.tokens, self.codec, self.target.model.info)
        return PreparedRequest(prompt, self._grammar_of(request), thinking)

    def prompt(self, request: Request) -> Prompt:
        """Return the prompt, whether or not it fits the context. Raises as ``encode``. The last one is
        cached: an API request may want n replies."""
        key = (
            request.messages, request.prompt, request.token_ids, request.tools,
            request.thinking, request.thinking_budget, request.prefill,
            repr(request.template_values),  # 1, 1.0 and True are equal, but a template tells them apart
        )  # fmt: skip
        cached = self._encoded
        if cached is None or cached[0] != key:
            tokens = self.codec.encode_request(request, self.target.context)
            images = [image for message in request.messages for image in message.images]
            prompt = Prompt.of(tokens)
            if images and self._images is not None:
                prompt = self._images.prompt(tokens, images)
            if request.prefill:
                context = self.target.context
                begun = TokenPart(prefill_of(request, tokens, self.codec, context))
                prompt = Prompt((*prompt.parts, begun))
            cached = self._encoded = key, prompt
        return cached[1]

    def _grammar_of(self, request: Request) -> CompiledGrammar | None:
        """Return the reply's grammar, compiled. Raises InvalidRequest if it cannot be."""
        grammar, style = request.grammar, self.codec.written_calls
        if request.tools:
            for at, tool in enumerate(request.tools):
                self._check_parameters(tool, f"tools[{at}].function.parameters")
            special = self._special(style.control)
            grammar = grammar_of_calls(
                request.tools, request.tool_choice, style, special, request.grammar
            )
        elif grammar is not None and style is HARMONY and request.messages:
            grammar = content_in_channels(grammar, self._special(style.control))
        return None if grammar is None else self.grammars.compiled(grammar)

    def _check_parameters(self, tool: Tool, field: str) -> None:
        try:
            schema = json.dumps(tool.arguments)
            self.grammars.check(Grammar(GrammarKind.JSON_SCHEMA, schema, tool.strict))
        except InvalidRequest as error:
            why = str(error).removeprefix("grammar").strip()
            raise InvalidRequest(field, f"{field} {why}") from error

    def _special(self, names: Sequence[str]) -> dict[str, int]:
        """Return the ids of those names that are special tokens, which no grammar's text matches."""
        return {
            name: token
            for name in names
            if (token := self.codec.token_named(name)) is not None
            and self.grammars.names_special(token)
        }

    def run(
        self,
        request: Request,
        cancelled: Callable[[], bool],
        prepared: PreparedRequest | None = None,
    ) -> Iterator[Event]:
        """Yield Started, Prefilled, Emitted..., Finished, while no other request runs.

        ``prepared``: the result of that method, if there is one. Raises as it does, DeviceLost if the GPU
        is gone, and ModelError for logits that are not finite.
        """
        events = deque[Event]()
        for _ in self.steps(request, events.append, cancelled, prepared, batched=False):
            while events:
                yield events.popleft()
        yield from events

    def steps(
        self,
        request: Request,
        publish: Callable[[Event], None],
        cancelled: Callable[[], bool],
        prepared: PreparedRequest | None = None,
        *,
        batched: bool = True,
        on_finished: Callable[[Target], None] = lambda _: None,
    ) -> Steps:
        """Run a request step by step; its events go to ``publish``. Raises as ``run``.

        If ``batched``, up to ``parallel`` requests run at once: a step may end with a work item, and the
        next begins once that is ready. ``on_finished`` gets the target with the state of the whole text.
        """
        if prepared is None:
            prepared = self.prepare(request)
        info = self.target.model.info
        run = Run.resolve(request, prepared.prompt, info, prepared.grammar, prepared.thinking)
        batched = batched and self.parallel > 1
        joined = self.controllers.batch.joined() if batched else contextlib.nullcontext()
        with gpu_errors(self.target.model), self._slots.reserved(run) as slot, joined:
            if run.speculation.control is Control.AUTO:
                self._warm_up()
            sequence = RunningSequence(
                self._sequence_resources,
                slot,
                run,
                self._processor(request, run),
                publish,
                cancelled,
                batched,
                begins_inside_thought(request, run.prompt.tokens, self.codec, run.thinking),
            )
            yield from sequence.steps()
            on_finished(slot.target)

    def _processor(self, request: Request, run: Run) -> OutputProcessor:
        """Return the run's output processor, which holds the reply's prefix already."""
        calls = self.codec.calls if request.tools else None
        shown = {} if calls is None else self._special(calls.control)
        channels = channels_of(self.codec.token_named) if request.messages else None
        for mark in (*OPENING, *CLOSING):
            if (token := self.codec.token_named(mark)) is not None:
                shown[mark] = token
        # A reply by a schema calls no tool.
        tools = [] if request.grammar is not None else [tool.name for tool in request.tools]
        processor = OutputProcessor(
            self.codec, run.prompt.tokens, run.stop, run.stopping, shown, calls, tools, channels
        )
        processor.resume(run.reply_prefix)
        return processor

    def run_batch(self, items: Sequence[WorkItem]) -> None:
        """Do at least one of the work items that ``steps`` have yielded."""
        assert self._batcher is not None
        self._batcher.run(items)

    def top_tokens(
        self, request: Request, reply: Sequence[int], count: int
    ) -> tuple[TopToken, ...]:
        """See ``Engine.top_tokens``. Reuses no state: the caller may be looking for an error in it."""
        info = self.target.model.info
        prepared = self.prepare(request)
        run = Run.resolve(request, prepared.prompt, info, prepared.grammar, prepared.thinking)
        context = Context(run.prompt)
        context.tokens.extend(reply)
        if len(context.tokens) + 1 > self.target.context:
            raise ContextExceeded(len(context.tokens), self.target.context)
        constraint = constraint_of(run, context)
        sampler = sampler_of(run, context, constraint, info.vocabulary, native=self.native)
        with gpu_errors(self.target.model):
            slot = self._slots.first
            deque(slot.prefill(context, False, lambda: False, None), 0)
            scored = top_tokens(self.target, sampler, context, count)
            self._slots.publish(slot)
        return tuple(
            TopToken(token, self.codec.token_text(token), p, score) for token, p, score in scored
        )

    def embed(self, tokens: Sequence[int]) -> list[float]:
        """See ``Engine.embed``."""
        self._check_text(tokens)
        model, pooling = self.target.model, self._need_pooling()
        if not isinstance(model, HiddenStateModel):
            raise InvalidRequest(
                "model", f"{model.info.name} does not show its hidden states here."
            )
        with gpu_errors(model):
            return embedding(model, tokens, pooling)

    def next_logits(self, tokens: Sequence[int], choices: Sequence[int]) -> list[float]:
        """See ``Engine.next_logits``."""
        self._check_text(tokens)
        self._check_text(choices)
        model = self.target.model
        with gpu_errors(model):
            return next_logits(model, tokens, choices)

    def _check_text(self, tokens: Sequence[int]) -> None:
        require(bool(tokens), "input", "is empty.")
        if len(tokens) > self.target.context:
            raise ContextExceeded(len(tokens), self.target.context, replies=False)
        known = all(0 <= token < self.target.model.info.vocabulary for token in tokens)
        require(known, "input", "has a token outside this model's vocabulary.")

    def _need_pooling(self) -> Pooling:
        if self._pooling is None:
            raise InvalidRequest(
                "model",
                f"{self.target.model.info.name} is not made for embeddings: its files state no pooling. "
                "Load an embedding model, such as Qwen3-Embedding.",
            )
        return self._pooling

    def follow_caches(self, listener: CacheListener) -> None:
        """Call ``listener`` whenever the keys of a slot have changed."""
        self._slots.listener = listener

    def close(self) -> None:
        """Release the proposers' memory, and end the process that tries grammars."""
        self._slots.close()
        self.grammars.close()
        if self._images is not None:
            self._images.close()

    def prepare_rounds(self) -> None:
        """Compile and capture the rounds of all slots of a target that runs them on its device.

        Raises DeviceLost if the GPU is lost, and KernelsFailed if a kernel cannot be launched.
        """
        if not self.target.runs_rounds:
            return
        name = proposers.preferred(proposers.available(self.resources.loaded), in_rounds=True)
        with gpu_errors(self.target.model):
            self.uncaptured = prepare_rounds(self._slots, name)

    @property
    def heads_on_host(self) -> tuple[str, ...]:
        """The kinds of heads that draft from the host for a target that runs rounds on its device."""
        if not self.target.runs_rounds:
            return ()
        first = self._slots.first
        return tuple(kind for kind in self.resources.heads if device_drafting(first, kind) is None)

    def _warm_up(self) -> None:
        """Measure verification before the first request whose controller needs it.

        On a device all depths are assumed to cost the same until they are tried.
        """
        verify = self.controllers.costs.verify
        if not self.target.runs_rounds and not verify.known:
            warm_up(self.target.model, verify, stored=self._times)
