"""The registry: names, needs and options of every proposer, and what is refused."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from pathlib import Path

import pytest

from engine.backends.linear_factory import LinearFactory
from engine.drafting import proposers
from engine.drafting.heads import INSIDE, kinds
from engine.drafting.heads import load as load_head
from engine.drafting.resources import DRAFT, Resources
from engine.errors import InvalidRequest
from engine.machine import devices
from engine.models.checkpoints.checkpoint import inspect
from engine.request import PREDICTED, SERVER
from engine.values.method_titles import METHOD_TITLES
from tests.support.checkpoints import open_session
from tests.support.fakes import TableModel
from tests.support.heads import WRITERS, mtp_plan

PAIR = Resources(draft=TableModel(lambda tokens: [0.0, 0.0], 2))
ALONE = Resources()


@pytest.fixture(scope="module")
def everything(pair: tuple[Path, Path], pair_heads: tuple[Path, ...]) -> Resources:
    """A draft, a head of every kind, and a layer as other targets bring it."""
    resources = open_session(*pair, heads=pair_heads).resources
    plan = mtp_plan(inspect(pair[0]))
    inside = load_head(plan, LinearFactory.choose("fp32", devices.choose()))
    return replace(resources, heads={**resources.heads, plan.kind: inside})


def test_the_stable_names_are_registered() -> None:
    assert proposers.names()[:3] == ("none", "draft", "ngram")


def test_every_file_of_a_method_is_registered() -> None:
    folder = Path(proposers.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {
        "__init__",
        "branches",
        "drawing",
    }
    places = [proposers.entry_of(name).path.partition(":")[0] for name in proposers.names()]
    assert files == {place.rpartition(".")[2] for place in places}


def test_every_method_has_a_title_for_people() -> None:
    assert {*proposers.names(), SERVER, PREDICTED} == set(METHOD_TITLES)


def test_only_what_needs_nothing_more_is_offered(everything: Resources) -> None:
    assert proposers.available(everything.loaded) == proposers.names()
    assert proposers.available(PAIR.loaded) == (
        "none",
        "draft",
        "ngram",
        "suffix",
        "hybrid",
        "best",
    )
    assert proposers.available(ALONE.loaded) == ("none", "ngram", "suffix", "best")


def test_who_loads_something_that_drafts_wants_it_used() -> None:
    """By whatever is fastest at the moment; in rounds on a GPU, and with many to choose from, by the
    draft model, or else a head."""
    for given in (("draft",), ("draft", kinds()[0]), *((kind,) for kind in kinds())):
        choices = ("none", "ngram", "suffix", *given, "hybrid", "best")
        assert proposers.preferred(choices) == "best"
        assert proposers.preferred(choices, in_rounds=True) == given[0]
    assert proposers.preferred(("none", "ngram", "draft", *kinds(), "best")) == "draft"
    assert proposers.preferred(("none", "ngram", "suffix", "hybrid", "best")) == "ngram"


def test_what_a_proposer_runs_is_what_it_needs_or_all_there_is() -> None:
    loaded = ("draft", "eagle3", "mlp")
    assert proposers.drafts_with("eagle3", loaded) == {"eagle3"}
    assert proposers.drafts_with("suffix", loaded) == set()
    assert proposers.drafts_with("best", loaded) == set(loaded)


def test_every_head_has_a_proposer_and_every_need_can_be_met() -> None:
    needs = frozenset().union(*(proposers.needs_of(name) for name in proposers.names()))
    assert needs == {DRAFT, *INSIDE, *kinds()} == {DRAFT, *INSIDE, *WRITERS}


@pytest.mark.parametrize("name", proposers.names())
def test_options_are_frozen_plain_and_explained(name: str) -> None:
    options = proposers.options_of(name)
    assert is_dataclass(options)
    for field in fields(options):
        assert type(field.default) in (int, float, str, bool)
        assert field.metadata["help"]
        with pytest.raises(FrozenInstanceError):
            setattr(options(), field.name, field.default)


@pytest.mark.parametrize("name", proposers.names())
def test_every_proposer_can_be_made_with_its_defaults(name: str, everything: Resources) -> None:
    proposers.create(name, {}, everything).close()


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match=r"no proposer 'oracle'.*none, draft, ngram") as caught:
        proposers.check("oracle", {}, PAIR)
    assert caught.value.field == "proposer"


def test_a_draft_that_is_not_loaded_is_missed() -> None:
    with pytest.raises(InvalidRequest, match="needs a draft model") as caught:
        proposers.create("draft", {}, ALONE)
    assert caught.value.field == "proposer"


@pytest.mark.parametrize("kind", kinds())
def test_a_head_that_is_not_loaded_is_missed_by_its_kind(kind: str, everything: Resources) -> None:
    with pytest.raises(
        InvalidRequest, match=f"needs a head of kind {kind} for this model"
    ) as caught:
        proposers.create(kind, {}, PAIR)
    assert caught.value.field == "proposer"
    others = {other: head for other, head in everything.heads.items() if other != kind}
    with pytest.raises(InvalidRequest) as caught:
        proposers.create(kind, {}, Resources(heads=others))
    assert all(other in str(caught.value) for other in others)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lookup": 3}, "no option 'lookup'; it has: prompt_lookup_min, prompt_lookup_max"),
        ({"prompt_lookup_min": "3"}, "must be a whole number"),
        ({"prompt_lookup_min": True}, "must be a whole number"),
        ({"prompt_lookup_min": 2.0}, "must be a whole number"),
    ],
)
def test_unknown_options_and_wrong_types_are_refused(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message) as caught:
        proposers.check("ngram", options, ALONE)
    assert caught.value.field == "options"


@pytest.mark.parametrize("nodes", [-1, 16])
def test_a_tree_that_is_too_large_is_refused(nodes: int, everything: Resources) -> None:
    with pytest.raises(InvalidRequest, match=f"tree_nodes is {nodes}; it must be 0 to 15"):
        proposers.check("medusa", {"tree_nodes": nodes}, everything)
