"""``/metrics``: the API's requests under vLLM's names, in Prometheus' text format.

Requests of the pages are not counted; the pages show them.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from engine.events import Counted, Emitted, Event, Failed, Finished, FinishReason, Started

if TYPE_CHECKING:
    from engine.api import Generation

CONTENT_TYPE = CONTENT_TYPE_LATEST

LABELS = ("model_name", "engine")
ENGINE = "0"
"""vLLM's number of the engine; here there is one."""

_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
         20.0, 40.0, 80.0, 160.0, 640.0)  # fmt: skip
_PER_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
              1.0, 2.5, 5.0)  # fmt: skip
_WHOLE = (0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0,
          240.0, 480.0, 960.0)  # fmt: skip

_REASONS = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.CANCELLED: "abort",
}


class Meter:
    """All series of one server. Thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.running = self._gauge("num_requests_running", "Running replies.")
        self.waiting = self._gauge("num_requests_waiting", "Waiting replies.")
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens.")
        self.generation_tokens = self._counter("generation_tokens", "Generated tokens.")
        self.success = self._counter("request_success", "Finished replies.", "finished_reason")
        self.drafts = self._counter("spec_decode_num_drafts", "Rounds with a draft.")
        self.drafted = self._counter("spec_decode_num_draft_tokens", "Tokens drafted.")
        self.accepted = self._counter("spec_decode_num_accepted_tokens", "Accepted draft tokens.")
        self.accepted_at = self._counter(
            "spec_decode_num_accepted_tokens_per_pos",
            "Accepted draft tokens by position in the draft.",
            "position",
        )
        self.first = self._histogram(
            "time_to_first_token_seconds",
            "Time from the request's arrival to its first token, with queueing.",
            _TTFT,
        )
        self.per_token = self._histogram(
            "request_time_per_output_token_seconds",
            "Time per token after the first ones.",
            _PER_TOKEN,
        )
        self.whole = self._histogram(
            "e2e_request_latency_seconds",
            "Time from the request's arrival to its last token.",
            _WHOLE,
        )

    def watch(self, generation: Generation, model: str) -> None:
        """Count a generation's events. Call it when the generation has just been submitted."""
        generation.listen(_Watch(self, (model, ENGINE)).hear)

    def page(self) -> bytes:
        """Return the text of ``/metrics``."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"vllm:{name}", text, (*LABELS, *labels), registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"vllm:{name}", text, LABELS, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(
            f"vllm:{name}", text, LABELS, buckets=tuple(buckets), registry=self.registry
        )


class _Watch:
    """Count the events of one generation."""

    def __init__(self, meter: Meter, labels: tuple[str, str]) -> None:
        self._meter, self._labels = meter, labels
        self._arrived = perf_counter()
        self._started = False
        self._first: float | None = None  # when the first tokens came
        self._tokens = 0
        self._later = 0  # tokens after the first ones
        self._add(meter.waiting)

    def _add(self, series: Counter | Gauge, count: float = 1, *labels: str) -> None:
        series.labels(*self._labels, *labels).inc(count)

    def hear(self, event: Event) -> None:
        meter = self._meter
        match event:
            case Started():
                self._started = True
                self._add(meter.waiting, -1)
                self._add(meter.running)
                self._add(meter.prompt_tokens, len(event.prompt_tokens or ()))
            case Emitted():
                self._emitted(event)
            case Finished():
                if event.counted is not None and not self._tokens:
                    self._counted(event.counted)
                self._end(_REASONS[event.reason])
            case Failed():
                self._end("error")
            case _:
                pass

    def _emitted(self, event: Emitted) -> None:
        meter, count = self._meter, len(event.tokens or ())
        self._tokens += count
        self._add(meter.generation_tokens, count)
        if self._first is None:
            self._first = perf_counter()
            meter.first.labels(*self._labels).observe(self._first - self._arrived)
        else:
            self._later += count
        if event.round is not None and len(event.round.tree):
            self._add(meter.drafts)
            self._add(meter.drafted, len(event.round.tree))
            self._add(meter.accepted, event.round.accepted)
            for position in range(event.round.accepted):
                self._add(meter.accepted_at, 1, str(position))

    def _counted(self, counted: Counted) -> None:
        """Add a server's own counts of its reply, without drafts that include other replies."""
        meter, completed = self._meter, counted.completion_tokens or 0
        self._add(meter.prompt_tokens, counted.prompt_tokens or 0)
        self._add(meter.generation_tokens, completed)
        self._later = max(completed - 1, 0)
        if counted.shared:
            return
        if counted.rounds is not None:  # no series is better than a zero that means are divided by
            self._add(meter.drafts, counted.rounds)
        self._add(meter.drafted, counted.drafted or 0)
        self._add(meter.accepted, counted.accepted or 0)
        for position, count in enumerate(counted.accepted_at):
            self._add(meter.accepted_at, count, str(position))

    def _end(self, reason: str) -> None:
        now, meter = perf_counter(), self._meter
        self._add(meter.running if self._started else meter.waiting, -1)
        self._add(meter.success, 1, reason)
        meter.whole.labels(*self._labels).observe(now - self._arrived)
        if self._first is not None and self._later:
            seconds = (now - self._first) / self._later
            meter.per_token.labels(*self._labels).observe(seconds)
