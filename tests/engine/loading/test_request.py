"""A load request: what people write, and what nothing can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import IncompatiblePair, InvalidRequest, ModelError
from engine.loading.catalog import Catalog
from engine.loading.request import LoadRequest


@pytest.fixture
def head(tmp_path: Path) -> str:
    folder = tmp_path / "medusa"
    folder.mkdir()
    (folder / "config.json").write_text('{"medusa_num_heads": 3}')
    return str(folder)


def test_what_people_write_is_read_and_written_back(head: str) -> None:
    for text, draft, heads in (
        ("pip", None, ()),
        ("pip::", "", ()),
        ("one::two", "two", ()),
        (f"one::{head}", None, (head,)),
        (f"one::two::{head}", "two", (head,)),
        (f"one::::{head}", "", (head,)),
    ):
        request = LoadRequest.parse(text, threads=1)
        assert request == LoadRequest(
            target=text.split("::")[0], draft=draft, heads=heads, threads=1
        )
        assert LoadRequest.parse(request.text, threads=1) == request


def test_other_heads_stand_behind_those_in_the_text(head: str) -> None:
    request = LoadRequest.parse(f" one :: two :: {head} ", [Path("other")])
    assert (request.draft, request.heads) == ("two", (head, "other"))


def test_two_drafts_are_refused() -> None:
    with pytest.raises(IncompatiblePair, match="two and three are both draft models"):
        LoadRequest.parse("one::two::three")
    with pytest.raises(ModelError, match="There is no folder or file ~nobody-here/a"):
        LoadRequest.parse("one::~nobody-here/a::two")
    with pytest.raises(ModelError, match=r"There is no folder .*~nobody-here/a"):
        Catalog((), ()).spec("~nobody-here/a")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("quantization", "int3"),
        ("kv_cache_dtype", "fp4"),
        ("device", "tpu"),
        ("threads", 0),
        ("context", 0),
    ],
)
def test_what_nothing_can_be_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest, match=f"{field} is {value!r}; it must be") as caught:
        LoadRequest(target="pip", **{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field
