"""Rows are read from a file's pages as SQLite reads them, and garbage without an error or an end."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.storage import sqlite_pages

values = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.builds(lambda text, times: text * times, st.text("aé", min_size=1), st.integers(1, 9000))
)
tables = st.lists(st.lists(values, min_size=3, max_size=3), max_size=40)


def written(path: Path, rows: list[list[Any]], page: int, wal: bool) -> sqlite3.Connection:
    """A file with a table of these rows; the caller closes the connection."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"pragma page_size = {page}")
    db.execute("pragma journal_mode = wal" if wal else "pragma journal_mode = delete")
    db.execute("pragma wal_autocheckpoint = 0")
    db.execute("create table kept (a, b, c)")
    db.executemany("insert into kept values (?, ?, ?)", rows)
    return db


@settings(max_examples=60, deadline=None)
@given(tables, st.sampled_from([512, 1024, 4096, 65536]), st.booleans())
def test_every_row_is_read_as_sqlite_reads_it(rows: list[list[Any]], page: int, wal: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.db"
        with closing(written(path, rows, page, wal)) as db:
            expected = dict(enumerate(map(tuple, db.execute("select * from kept")), 1))
            log = path.with_name("some.db-wal")
            content = path.read_bytes(), log.read_bytes() if wal else b""
    found = {number: row for number, row in sqlite_pages.rows(*content) if len(row) == 3}
    assert found == expected


@cache
def long_rows() -> bytes:
    """A file with rows that go on on other pages."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.db"
        rows = [[number, "long " * 400 * (number % 4), None] for number in range(60)]
        written(path, rows, 512, False).close()
        return path.read_bytes()


@settings(max_examples=200, deadline=None)
@given(st.data(), st.binary(max_size=300))
def test_garbage_is_read_without_an_error(data: st.DataObject, spoilt: bytes) -> None:
    content = bytearray(long_rows())
    for byte in spoilt:
        content[data.draw(st.integers(0, len(content) - 1))] = byte
    end = data.draw(st.integers(0, len(content)))
    list(sqlite_pages.rows(bytes(content[:end]), bytes(content[end:])))


@given(st.binary(max_size=9000), st.binary(max_size=9000))
@example(b"", b"")
@example(b"SQLite format 3\0", b"")
@example(b"\x0d" * 8192, b"\xff" * 8192)
def test_what_is_no_database_at_all_ends(content: bytes, log: bytes) -> None:
    list(sqlite_pages.rows(content, log))


def test_a_circle_of_pages_ends() -> None:
    """A row may say that it goes on for ever: on a page that goes on on itself."""
    page = bytearray(4096)
    page[0], page[4], page[8:10] = 13, 1, (100).to_bytes(2, "big")
    page[100:110] = b"\xff" * 8 + b"\x7f" + b"\x01"  # 2**63 bytes
    begun = time.monotonic()
    for start in range(102, 4092, 4):
        page[start : start + 4] = (2).to_bytes(4, "big")
    list(sqlite_pages.rows(bytes(4096) + bytes(page)))
    assert time.monotonic() - begun < 1
