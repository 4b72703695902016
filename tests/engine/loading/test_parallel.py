"""How many requests a pair may run at once: as its backend can, as memory allows, as it was asked."""

from __future__ import annotations

import pytest

from engine.errors import InvalidRequest
from engine.kernels.native.library import Library
from engine.loading.catalog import Catalog
from engine.loading.files import fetch_pair
from engine.loading.planning.plan import DEFAULT_PARALLEL, LoadPlan, plan_loading
from engine.loading.request import LoadRequest
from engine.machine import memory
from tests.support.places import PIP


def planned(**settings: object) -> LoadPlan:
    request = LoadRequest(target=str(PIP / "target"), draft=str(PIP / "draft"), **settings)  # type: ignore[arg-type]
    return plan_loading(fetch_pair(request, Catalog((), ()), None), request)


def test_a_few_where_nobody_says_and_as_many_as_somebody_says(library: Library) -> None:
    assert planned().parallel == DEFAULT_PARALLEL
    assert planned(parallel=16).parallel == 16
    assert planned(parallel=1).parallel == 1


def test_caches_count_for_each_and_what_does_not_fit_is_said(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = planned().memory_fit
    monkeypatch.setattr(memory, "free_bytes", lambda: room.needed + 2 * room.kv + room.kv // 2)
    plan = planned(parallel=8)
    assert plan.parallel == 3
    assert any("Of 8 parallel requests, 3" in n for n in plan.notes)
    assert planned().parallel == 2  # unasked, half of what is free stays so
    assert not any("parallel" in note for note in planned().notes)
    monkeypatch.setattr(memory, "free_bytes", lambda: room.needed)
    assert planned().parallel == 1


def test_other_backends_run_one_after_the_other_and_say_so_if_asked() -> None:
    plan = planned(native=False, parallel=4)
    assert plan.parallel == 1
    assert any("one at a time instead of 4" in note for note in plan.notes)
    assert not any("at a time" in note for note in planned(native=False).notes)


@pytest.mark.parametrize("count", [0, 17])
def test_what_no_pass_has_room_for_is_refused(count: int) -> None:
    with pytest.raises(InvalidRequest, match="parallel is") as told:
        LoadRequest(target="pip", parallel=count)
    assert told.value.field == "parallel"
