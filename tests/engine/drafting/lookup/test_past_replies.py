"""Past replies: what is found again, what is dropped, and what survives a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drafting.lookup.past_replies import NEWER, OLDER, PastReplies, line_of
from engine.drafting.lookup.suffix_automaton import Match

replies = st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=12), max_size=20)


def holds(past: PastReplies, reply: list[int]) -> bool:
    """Whether the reply's last token is known to follow the others."""
    for automaton in past.automata:
        match = Match()
        for token in reply[:-1]:
            match = automaton.follow(match, token)
        if match.length == len(reply) - 1 and reply[-1] in automaton.followers(match):
            return True
    return False


def test_a_past_reply_is_found_and_the_oldest_is_dropped_first() -> None:
    past = PastReplies(8, 4)
    for first in range(10, 100, 10):
        past.add([first, first + 1, first + 2])
        past.check()
        assert holds(past, [first, first + 1, first + 2])
        assert first == 10 or holds(past, [first - 10, first - 9, first - 8])
    assert not holds(past, [10, 11, 12])


def test_the_tokens_are_bounded_too_and_of_a_long_reply_the_end_counts() -> None:
    past = PastReplies(8, 100, tokens=20)
    past.add(list(range(100)))
    past.check()
    assert holds(past, [97, 98, 99])
    assert not holds(past, [1, 2, 3])


def test_none_are_held_where_none_are_wanted(tmp_path: Path) -> None:
    past = PastReplies(8, 0, tmp_path)
    past.add([1, 2, 3])
    assert past.counts == (0, 0)
    assert not list(tmp_path.iterdir())


@settings(max_examples=30, deadline=None)
@given(added=replies, requests=st.integers(1, 8), tokens=st.integers(24, 60))
def test_a_restart_finds_what_was_there(
    added: list[list[int]], requests: int, tokens: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("replies")
    before = PastReplies(6, requests, folder, tokens=tokens)
    for reply in added:
        before.add(reply)
    before.check()
    after = PastReplies(6, requests, folder, tokens=tokens)
    after.check()
    assert after.counts == before.counts
    assert [a.size for a in after.automata] == [b.size for b in before.automata]
    assert all(holds(after, reply[-6:]) for reply in added if holds(before, reply[-6:]))


def test_a_smaller_bound_keeps_the_newest(tmp_path: Path) -> None:
    large = PastReplies(8, 20, tmp_path)
    for first in range(0, 100, 10):
        large.add([first, first + 1])
    small = PastReplies(8, 2, tmp_path)
    small.check()
    assert holds(small, [90, 91])
    assert not holds(small, [10, 11])


def test_a_line_cut_off_by_a_crash_is_dropped_and_nothing_is_written_behind_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = line_of([1, 2, 3])
    for length in range(len(line_of([5, 6, 7]))):
        (tmp_path / NEWER).write_bytes(whole + line_of([5, 6, 7])[:length])
        past = PastReplies(8, 10, tmp_path)
        assert past.counts == (1, 0)
        past.add([7, 8, 9])
        assert (tmp_path / NEWER).read_bytes() == whole + line_of([7, 8, 9])
    assert not caplog.text


@pytest.mark.parametrize(
    "damage",
    [
        b"nonsense\n",
        b'{"a": 1}\n',
        b"[4]\n",
        b"[]\n",
        b"\xff\xfe[1,2]\n",
        line_of([1, 2, 3]).replace(b"2", b"4"),  # a token that nobody said
        line_of([1, 2, 3]).replace(b",", b", "),
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_damaged_file_is_told_and_begun_afresh_and_the_other_one_is_kept(
    damage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / OLDER).write_bytes(line_of([1, 2, 3]))
    (tmp_path / NEWER).write_bytes(line_of([4, 5, 6]) + damage)
    past = PastReplies(8, 10, tmp_path)
    assert past.counts == (0, 1)
    assert holds(past, [1, 2, 3])
    assert "damaged" in caplog.text and "start empty" in caplog.text
    past.add([7, 8, 9])
    caplog.clear()
    assert PastReplies(8, 10, tmp_path).counts == (1, 1)
    assert not caplog.text


def test_a_folder_that_cannot_be_written_costs_no_reply(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    past = PastReplies(8, 10, blocked / "replies")
    past.add([1, 2, 3])
    assert holds(past, [1, 2, 3])
    assert "could not be stored" in caplog.text
