"""``foretoken race``: two configurations in pairs, and a verdict only where the pairs give one."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Argument, Option

from app import main, paths
from app.cli import options
from app.cli.loading import check_load, check_settings, open_for_command, with_default_draft
from app.cli.text.output import progress, table
from app.inventory import open_inventory
from app.settings.defaults import Defaults
from engine.api import AUTO, LoadRequest
from engine.errors import InvalidRequest
from engine.request import PLAIN, Control, Speculation
from engine.values import require
from engine.values.sampling import AcceptanceRule, Sampling, rule_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.api import Engine, Loaded
    from engine.bench.divergence import Divergence
    from engine.bench.prompts import Prompt
    from engine.bench.race import Race

METHOD = "METHOD[,DEPTH]"
RIGHT = frozenset(range(4))


@options.with_load
def race(
    prompt: str | None = Argument(None, help="Prompt for both sides."),
    load: LoadRequest = main.DEFAULT_LOAD,
    rival: str | None = Option(
        None,
        metavar=METHOD,
        help="Drafting method, with a depth or auto, such as draft,4. Default: the pair's default.",
    ),
    base: str | None = Option(
        None,
        metavar=METHOD,
        help="The baseline. Default: none (no drafting); on a server, its default.",
    ),
    base_pair: str | None = Option(
        None, metavar="PAIR", help="Another pair or a server for the baseline; both are loaded."
    ),
    acceptance: options.AcceptanceOption = AcceptanceRule.AUTO.value,
    base_acceptance: str | None = Option(None, help="The baseline's rule. Default: the same."),
    temperature: float = Option(0.0, help="0 = always the most likely token."),
    base_temperature: float | None = Option(
        None, help="The baseline's temperature. Default: the same."
    ),
    seed: int = Option(1, help="Same seed, same text."),
    max_tokens: int = Option(160, min=1, help="Most tokens per reply."),
    pairs: int | None = Option(
        None, min=1, help="Number of runs. Default: 5, or one per prompt of a set."
    ),
    prompts: list[str] | None = Option(
        None,
        help="Instead of a prompt: pip, random, spec_bench, chats (your last prompts), or a "
        "file of JSON lines. Repeatable.",
    ),
    per_kind: int = Option(0, min=0, help="Use only the first N prompts of each kind; 0 = all."),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Compare two setups on a prompt or a set; exit status 1 if text differs that must not."""
    from engine.api import keeps_words, one_target
    from engine.bench import divergence
    from engine.bench.answering import Configuration
    from engine.bench.race import Contest, Race
    from engine.bench.reports import race as race_report

    folder = paths.data_folder(data_dir)
    rule, sampling = rule_named(acceptance), Sampling(temperature=temperature, seed=seed)
    with options.about("base_acceptance"):
        rules = (rule_named(base_acceptance or acceptance), rule)
    with options.about("base_temperature"):
        base_heat = temperature if base_temperature is None else base_temperature
        samplings = (replace(sampling, temperature=base_heat), sampling)
    with options.about("base"):
        way = speculation(base, rules[0])
    none = "has no use with --base none, which drafts nothing. Leave one out."
    drafts_not = way is not None and way.proposer == PLAIN
    require(base_acceptance is None or not drafts_not, "base_acceptance", none)
    with options.about("rival"):
        ways = (way, speculation(rival, rule))
    options.no_use("per_kind", per_kind and not prompts, without="--prompts")
    find_prompts = _prompts(prompt, prompts or [], per_kind, folder)
    find_prompts(1)  # mistakes are told before anything is loaded
    base_load = load if base_pair is None else load.alike(base_pair)
    check_settings(folder, load, base_load)
    drafts, rivals = (way.proposer if way else None for way in ways)
    if base_load == load:  # one load, whose draft may be for one side only
        load = base_load = with_default_draft(load, folder, drafts, rivals)
    elif load.draft_device != AUTO:
        load, base_load = _where_drafts_are(folder, (load, rivals), (base_load, drafts))
    # Both first: else mistakes in the second are told after the first is loaded.
    with options.about("rival", "proposer"):
        check_load(folder, load, rivals)
    with options.about("base", "proposer"):
        check_load(folder, base_load, drafts)
    if base_load != load:
        open_inventory(folder).check_room((load, base_load))
    with contextlib.ExitStack() as stack:

        def opened(request: LoadRequest, *proposers: str | None) -> tuple[Engine, Loaded]:
            return stack.enter_context(open_for_command(request, folder, *proposers))

        if base_load == load:
            engine, loaded = base_engine, base_loaded = opened(load, drafts, rivals)
        else:
            engine, loaded = opened(load, rivals)
            base_engine, base_loaded = opened(base_load, drafts)
        usual = [
            _usual_base(base_loaded, rules[0]),
            replace(Defaults(folder).speculation(loaded), acceptance=rules[1]),
        ]
        both = [
            Configuration(way or default, sampling, max_tokens)
            for way, default, sampling in zip(ways, usual, samplings, strict=True)
        ]
        unknown = race_report.unknown(base_loaded, loaded)
        contest = Contest(
            both[0],
            both[1],
            tuple(find_prompts(loaded.vocabulary)),
            None if base_engine is engine else (base_loaded.name, loaded.name),
            keeps_words(loaded) and keeps_words(base_loaded),
            one_target(base_loaded, loaded),
        )
        if contest.alike:
            same = f"Both sides are the same, {race_report.name(both[1])}."
            if both[1].speculation.proposer == PLAIN:
                same = "The baseline is plain decoding, without drafts, already."
            raise InvalidRequest("rival", f"{same} Choose another --rival.")
        running = Race(engine, contest, base_engine)
        interrupted = _run(running, pairs or contest.pairs)
        first_difference = None if interrupted else divergence.of_race(engine, running)
    _print(running, first_difference)
    for text in unknown:
        print(f"Note: {text}")
    if as_json:
        print(json.dumps(race_report.as_json(running, first_difference, unknown)))
    if interrupted:
        raise typer.Exit(130)
    if contest.promises_words and not all(each.same_words for each in running.pairs):
        raise typer.Exit(1)


def _where_drafts_are(
    folder: Path, *sides: tuple[LoadRequest, str | None]
) -> Iterator[LoadRequest]:
    """Yield the loads of both sides. If one side alone has a draft, ``draft_device`` is for that one."""
    inventory = open_inventory(folder)
    named = [inventory.named(with_default_draft(load, folder, name)) for load, name in sides]
    one = any(pairing.draft for pairing in named)
    for (load, _), pairing in zip(sides, named, strict=True):
        yield load.without("draft_device") if one and pairing.draft is None else load


def _run(running: Race, pairs: int) -> bool:
    """Run the pairs. Return whether Ctrl-C ended it; what was measured until then is kept."""
    with progress("Racing") as on_progress:
        try:
            running.run(pairs, on_pair=lambda _: on_progress(len(running.pairs), pairs))
        except KeyboardInterrupt:
            return True
    return False


def speculation(text: str | None, rule: AcceptanceRule) -> Speculation | None:
    """Parse ``METHOD[,DEPTH]``; None gives None. Raises InvalidRequest."""
    if text is None:
        return None
    name, _, depth = (part.strip() for part in text.partition(","))
    wrong = not name or not (depth in ("", Control.AUTO) or depth.isdecimal())
    if wrong or (name == PLAIN and depth):
        raise InvalidRequest(
            "proposer",
            f"{text!r} is not a method: give one, and optionally a depth, such as draft,4. "
            "none takes no depth.",
        )
    return Speculation(
        proposer=name, depth=int(depth) if depth.isdecimal() else None, acceptance=rule
    )


def _usual_base(loaded: Loaded, rule: AcceptanceRule) -> Speculation:
    """Return plain decoding, or the preferred proposer of an engine that has no plain decoding."""
    capabilities = loaded.capabilities
    has_plain = capabilities.proposer(PLAIN) is not None
    return Speculation(proposer=PLAIN if has_plain else capabilities.preferred, acceptance=rule)


def _prompts(
    prompt: str | None, names: list[str], per_kind: int, folder: Path
) -> Callable[[int], list[Prompt]]:
    """Return a function from the size of the vocabulary to the prompts. Raises InvalidRequest."""
    from app import measuring
    from engine.bench.prompts import Prompt, first_of_each

    if (prompt is None) == (not names):
        raise InvalidRequest("prompt", "Give either a prompt or a set with --prompts.")
    if prompt is not None and not prompt.strip():
        raise InvalidRequest("messages", "The prompt is empty. Write a message.")

    def prompts_for(vocabulary: int) -> list[Prompt]:
        if prompt is not None:
            return [Prompt("prompt", (prompt,))]
        every = [one for name in names for one in measuring.named(name, folder, vocabulary)]
        return first_of_each(every, per_kind)

    return prompts_for


def _print(running: Race, first_difference: Divergence | None) -> None:
    from engine.bench.reports import race as report
    from engine.stats import times

    base, rival = report.names(running.contest)
    word = {True: "equal", False: "differ"}
    figures = [report.pair_json(pair) for pair in running.pairs]
    rows = [
        (
            str(number),
            f"{each['base_tokens_per_s']:.1f}",
            f"{each['rival_tokens_per_s']:.1f}",
            times(each["ratio"], 2),
            word[each["same_words"]] if running.contest.compares_words else "-",
        )
        for number, each in enumerate(figures, start=1)
    ]
    print(table(("run", f"{base}, tok/s", f"{rival}, tok/s", "ratio", "words"), rows, RIGHT))
    estimate = running.estimate
    if estimate is not None:
        print(f"\n{report.certainty(estimate, running.noise)}")
        different = sum(not pair.same_words for pair in running.pairs)
        print(report.words(running.contest, different, first_difference))
    print(report.verdict(estimate, running.contest, running.noise))
