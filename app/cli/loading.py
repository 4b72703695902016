"""Opening a pair for a command: its drafting options, its progress on the terminal, and a clean end.

``--option NAME=VALUE`` is parsed by the types of the proposer's ``Options``.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from app.cli.options import no_use
from app.settings.defaults import Defaults
from engine.errors import InvalidRequest
from engine.files import parse_json
from engine.request import PLAIN, Control, OptionValue, Speculation
from engine.values import require
from engine.values.sampling import AcceptanceRule

if TYPE_CHECKING:
    from engine.api import DownloadProgress, Engine, Loaded, LoadProgress, LoadRequest
    from engine.loading.inventory import Inventory, Pairing
    from engine.local.engine import LocalEngine
    from engine.switching import SwitchingEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """The options of a command; what nobody gave is None or empty.

    Raises InvalidRequest where it is made: mistakes are told before any model is loaded.
    """

    proposer: str | None = None
    depth: int | None = None
    control: Control | None = None
    acceptance: AcceptanceRule = AcceptanceRule.AUTO
    options: Sequence[str] = ()

    def __post_init__(self) -> None:
        plain = self.proposer == PLAIN and "--proposer none"
        if off := plain or (self.control is Control.OFF and "--controller off"):
            none = f"has no use with {off}, which drafts nothing. Leave one out."
            require(self.depth is None, "depth", none)
            require(self.control in (None, Control.OFF), "controller", none)
            require(self.acceptance is AcceptanceRule.AUTO, "acceptance", none)
        self._named(self.proposer or Speculation().proposer)
        if self.proposer:
            parse(self.proposer, self.options)

    @property
    def chosen(self) -> bool:
        """True if any option was given; then the measured default, which is a whole, does not apply."""
        return bool(self.proposer or self.depth is not None or self.control or self.options)

    def speculation(self, loaded: Loaded, defaults: Defaults) -> Speculation:
        """Return the speculation for the pair. Raises InvalidRequest for options its proposer does not
        have."""
        if not self.chosen:
            return replace(defaults.speculation(loaded), acceptance=self.acceptance)
        name = self.proposer or loaded.capabilities.preferred
        return replace(self._named(name), options=parse(name, self.options))

    def _named(self, proposer: str) -> Speculation:
        return Speculation(
            proposer=proposer, depth=self.depth, controller=self.control, acceptance=self.acceptance
        )


def parse(proposer: str, pairs: Sequence[str]) -> dict[str, OptionValue]:
    """Return the options as typed values. Raises InvalidRequest for an unknown name or a wrong value."""
    from engine.drafting.proposers import check_options

    options: dict[str, OptionValue] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        require(bool(equals), "option", f"is {pair!r}; write NAME=VALUE.")
        value: OptionValue = text.strip()
        with contextlib.suppress(ValueError):  # text
            value = parse_json(text.lower())
        options[name.strip().replace("-", "_")] = value
    check_options(proposer, options)
    return options


E = TypeVar("E", bound="Engine")


LINE_S = 15.0
"""Seconds between two lines of a log about one step."""


class Status:
    """One changing line on standard error, where that is a terminal; elsewhere silence, or a log.

    An ``engine.api.Watcher``; Ctrl-C is what cancels here.
    """

    cancelled = False

    def __init__(self, *, log: bool = False) -> None:
        """``log``: where there is no terminal, print a line for each step, and again each ``LINE_S``."""
        self._width, self._log = 0, log
        self._step, self._printed_at = "", 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.say("")

    def say(self, text: str, step: str = "") -> None:
        """Replace the line. ``step`` names what is done, if ``text`` also says how far it is."""
        if sys.stderr.isatty():
            end = "\r" if not text else ""
            print(f"\r{text.ljust(self._width)}", end=end, file=sys.stderr, flush=True)
            self._width = len(text)
        elif self._log and text:
            step, now = step or text, time.monotonic()
            if step != self._step or now - self._printed_at >= LINE_S:
                self._step, self._printed_at = step, now
                print(text, file=sys.stderr, flush=True)

    def on_progress(self, progress: DownloadProgress) -> None:
        """Show how far a download has come, its speed, and the remaining time."""
        from engine.values.units import format_bytes

        done, total = format_bytes(progress.bytes), format_bytes(progress.total)
        speed, left = format_bytes(int(progress.bytes_per_s)), ""
        if progress.eta_s is not None:
            left = ", {}:{:02} left".format(*divmod(round(progress.eta_s), 60))
        text = f"Downloading {progress.repository}: {done} of {total}, {speed}/s{left}"
        self.say(text, progress.repository)

    def on_loading(self, progress: LoadProgress) -> None:
        """Show what is done, and how far it is."""
        from app.loading import STAGES

        share = "" if progress.fraction is None else f", {progress.fraction:.0%}"
        self.say(f"Loading: {STAGES[progress.stage]}{share}", progress.stage)


def by_files(load: LoadRequest, data_dir: Path, status: Status) -> LoadRequest:
    """Return the request with paths in place of names, for other engines; download missing files. Raises
    CatalogError, ModelError, IncompatiblePair or DownloadError."""
    from app.inventory import open_inventory
    from engine.api import AUTO

    files = open_inventory(data_dir).download_pair(load, status.on_progress)
    default = files.pairing.target.quantization
    return replace(
        load,
        target=str(files.target.resolve()),
        draft="" if files.draft is None else str(files.draft.resolve()),
        heads=tuple(map(str, files.pairing.heads)),
        quantization=default if load.quantization == AUTO else load.quantization,
    )


@cache
def with_default_draft(request: LoadRequest, data_dir: Path, *proposers: str | None) -> LoadRequest:
    """Return ``request`` with the draft that suits its target best, where none is named and one of
    ``proposers`` may use it (None: the pair's default may). Raises CatalogError or ModelError."""
    from app.inventory import open_inventory
    from engine.drafting.proposers import drafts_with

    may = any(name is None or "draft" in drafts_with(name, ["draft"]) for name in proposers)
    if request.draft is not None or not may:
        return request
    inventory = open_inventory(data_dir)
    chosen = inventory.with_best_draft(request)
    if chosen.draft:
        print(
            f"Note: {inventory.spec(chosen.draft).name} is loaded as the draft, the best "
            f"one on this machine. For none: --pair {request.target}::",
            file=sys.stderr,
        )
    return chosen


def check_settings(data_dir: Path, *loads: LoadRequest) -> None:
    """Raise InvalidRequest for a setting of ``loads``, which share them, if all of these are servers."""
    from app.inventory import open_inventory

    first, pair = loads[0], ("target", "draft", "heads")
    compared = (each for each in fields(first) if each.compare and each.name not in pair)
    chosen = [each.name for each in compared if getattr(first, each.name) != each.default]
    if not chosen:  # mostly, and reading the catalog takes time
        return
    inventory = open_inventory(data_dir)
    server = all(inventory.named(load).target.address for load in loads)
    require(not server, chosen[0], "has no use with a server. Leave it out.")


def check_load(
    data_dir: Path, request: LoadRequest, proposer: str | None, *, here: bool = False
) -> None:
    """Check a load and its proposer, as far as possible before anything is downloaded or loaded.
    ``here``: refuse servers.

    Raises CatalogError, ModelError, IncompatiblePair or InvalidRequest.
    """
    from app.inventory import open_inventory

    _resolved(request, data_dir, open_inventory(data_dir), (proposer,), here=here)


def _resolved(
    request: LoadRequest,
    data_dir: Path,
    inventory: Inventory,
    names: Sequence[str | None],
    *,
    here: bool,
) -> tuple[LoadRequest, Pairing]:
    """Return ``with_default_draft`` and what it names. Raises InvalidRequest for what it lacks, such as
    what a proposer of ``names`` needs; a server's own proposers are not checked."""
    from engine.drafting import proposers

    if here and inventory.named(request).target.address:
        raise InvalidRequest(
            "pair",
            f"{request.text} is a server, and this needs a model on this machine. Servers "
            "work with `foretoken chat`, `foretoken race` and `foretoken bench sweep`.",
        )
    request = with_default_draft(request, data_dir, *names)
    pairing = inventory.named(request)
    elsewhere = request.draft_device != "auto" and pairing.draft is None
    no_use("draft_device", elsewhere, without="a draft model")
    for name in () if pairing.target.address else filter(None, names):
        lacking = not proposers.needs_of(name) <= pairing.drafting
        unused = pairing.unused_inside() if lacking else ""
        proposers.check_needs(name, pairing.drafting, unused)
    return request, pairing


def open_for_command(
    request: LoadRequest, data_dir: Path, *proposers: str | None
) -> contextlib.AbstractContextManager[tuple[SwitchingEngine, Loaded]]:
    """Load a pair, here or on a server, and yield its engine with the pair; close it at the end.

    Raises InvalidRequest before anything is loaded if one of ``proposers`` needs more than the pair
    has.
    """
    from engine.switching import SwitchingEngine

    return _opened(SwitchingEngine, request, data_dir, proposers)


def open_here(
    request: LoadRequest, data_dir: Path, *proposers: str | None, log: bool = False
) -> contextlib.AbstractContextManager[tuple[LocalEngine, Loaded]]:
    """Do the same on this machine, for what the interface of ``Engine`` does not measure. Raises
    InvalidRequest for a server too. ``log``: see ``Status``."""
    from engine.local.engine import LocalEngine

    return _opened(LocalEngine, request, data_dir, proposers, here=True, log=log)


@contextlib.contextmanager
def _opened(
    kind: Callable[..., E],
    request: LoadRequest,
    data_dir: Path,
    proposers: Sequence[str | None],
    *,
    here: bool = False,
    log: bool = False,
) -> Iterator[tuple[E, Loaded]]:
    from app import paths
    from app.inventory import open_inventory

    inventory = open_inventory(data_dir)
    request, pairing = _resolved(request, data_dir, inventory, proposers, here=here)
    engine = kind(
        lambda: inventory.catalog,
        models=inventory.models,
        remembered=paths.remembered(data_dir),
        measured=paths.measured(data_dir),
    )
    with contextlib.closing(engine):
        with Status(log=log) as status:
            if not pairing.target.address:
                compile_before(request, status)
            status.say(
                f"{'Connecting to' if pairing.target.address else 'Loading'} {request.text} ..."
            )
            loaded = engine.load(request, status)
        for note in loaded.notes:
            print(f"Note: {note}", file=sys.stderr)
        yield engine, loaded


def compile_before(request: LoadRequest, status: Status) -> None:
    """Build the compiled step first: a command should not run half with and half without it."""
    from engine.loading.compile_first import compile_first, for_blocks

    if not request.native:
        return
    text = "Compiling the kernels for this processor (once; may take minutes) ..."
    problem = compile_first(lambda: for_blocks(request), lambda: status.say(text))
    if problem is not None:
        print(f"Note: {problem}", file=sys.stderr)
