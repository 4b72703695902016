"""Documents become text with page marks, and hostile ones neither hang nor fill memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.documents import reading
from app.documents.reading import ReadDocument, read_file
from engine.errors import InvalidRequest
from engine.machine.worker_process import Limits, WorkerPool
from tests.support import documents as made
from tests.support.documents import paragraph, written


def read(folder: Path, name: str, content: bytes) -> ReadDocument:
    return read_file(written(folder, name, content), name)


def test_a_pdf_is_read_page_by_page(tmp_path: Path) -> None:
    found = read(tmp_path, "report.pdf", made.pdf(["One (fox)\nNext line", "Two", ""]))
    assert found.attachment.pages == ("One (fox)\nNext line", "Two", "")
    assert found.attachment.given.startswith("[Page 1]\nOne (fox)\nNext line\n\n[Page 2]\nTwo")
    assert found.notes == ("Of report.pdf, 1 of 3 pages have no text (blank, or pictures): 3.",)


def test_a_pdf_that_anybody_may_open_needs_no_password(tmp_path: Path) -> None:
    found = read(tmp_path, "open.pdf", made.locked_pdf(""))
    assert found.attachment.pages == ("Secret words",)


BREAK = "<w:lastRenderedPageBreak/>"
TABLE = (
    f"<w:tbl><w:tr><w:tc>{paragraph('a')}</w:tc><w:tc>{paragraph('b')}</w:tc></w:tr>"
    f"<w:tr><w:tc>{paragraph('1')}</w:tc><w:tc>{paragraph('2')}</w:tc></w:tr></w:tbl>"
)


def test_word_files_keep_headings_tables_and_pages(tmp_path: Path) -> None:
    body = paragraph("Foxes", "Heading1") + paragraph("They are red.") + TABLE
    whole = read(tmp_path, "a.docx", made.docx(body)).attachment
    assert whole.text == "# Foxes\nThey are red.\na | b | \n1 | 2 |"
    assert whole.kind == "document"
    odd = made.docx(paragraph("Foxes", "Heading123"))
    assert read(tmp_path, "d.docx", odd).attachment.text == "Foxes"
    stops = '<w:tabs><w:tab w:val="left" w:pos="720"/><w:tab w:val="right" w:pos="9360"/></w:tabs>'
    typed = f"<w:p><w:pPr>{stops}</w:pPr><w:r><w:t>1</w:t><w:tab/><w:t>Foxes</w:t></w:r></w:p>"
    tabbed = read(tmp_path, "c.docx", made.docx(paragraph("Contents") + typed))
    assert tabbed.attachment.text == "Contents\n1\tFoxes"
    explicit = '<w:r><w:br w:type="page"/></w:r>'
    paged = made.docx(body + f"<w:p>{explicit}</w:p>" + paragraph("Second", before=BREAK))
    pages = read(tmp_path, "b.docx", paged).attachment.pages
    assert [page.splitlines()[-1].strip() for page in pages] == ["1 | 2 |", "Second"]


def test_open_document_texts_are_read(tmp_path: Path) -> None:
    body = (
        '<text:h text:outline-level="2">Foxes</text:h><text:p>Red<text:s text:c="2"/>ones</text:p>'
        "<text:list><text:list-item><text:p>One</text:p></text:list-item></text:list>"
        "<office:annotation><text:p>A note</text:p></office:annotation>"
        "<text:p><text:soft-page-break/>Second</text:p>"
    )
    found = read(tmp_path, "a.odt", made.odt(body)).attachment
    assert found.pages == ("## Foxes\nRed  ones\n- One", "Second")


def test_slides_and_sheets_are_read_under_their_names(tmp_path: Path) -> None:
    slides = read(tmp_path, "a.pptx", made.pptx([f"Slide of {n}" for n in range(11)])).attachment
    assert slides.given.endswith("[Slide 11]\nSlide of 10")
    row = (
        "<a:tr>"
        + "".join(f"<a:tc><a:p><a:t>{text}</a:t></a:p></a:tc>" for text in "ab")
        + "</a:tr>"
    )
    twice = (
        "<Choice><a:p><a:t>New</a:t></a:p></Choice><Fallback><a:p><a:t>New</a:t></a:p></Fallback>"
    )
    slide = f"<p {made.DRAWING}>{row}{twice}</p>"
    parts = {"ppt/presentation.xml": "<p/>", "ppt/slides/slide1.xml": slide}
    assert read(tmp_path, "b.pptx", made.archive(parts)).attachment.pages == ("a | b | \nNew",)
    rows = (
        '<row><c r="A1" t="s"><v>1</v></c><c r="C1" t="inlineStr"><is><t>x, y</t></is></c></row>'
        '<row><c r="A2" s="1"><v>45000</v></c><c r="B2"><v>2.5</v></c><c r="C2" t="b"><v>1</v></c></row>'
    )
    styles = '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
    book = made.xlsx({"Prices": rows, "None": ""}, ["no", "When"], styles)
    found = read(tmp_path, "a.xlsx", book).attachment
    assert found.pages == ('Prices\nWhen,,"x, y"\n2023-03-15,2.5,TRUE', "None")
    assert found.unit == "Sheet"
    first_day = {"Old": '<row><c r="A1" s="1"><v>0</v></c></row>'}
    tall = '<cellXfs><xf numFmtId="0"/><xf numFmtId="164"/></cellXfs>'  # as wide as " DM"
    marks = f'<numFmts><numFmt numFmtId="164" formatCode="#,##0\\ _D_M"/></numFmts>{tall}'
    amount = {"Sum": '<row><c r="A1" s="1"><v>5</v></c></row>'}
    assert read(tmp_path, "c.xlsx", made.xlsx(amount, (), marks)).attachment.pages == ("Sum\n5",)
    old = made.xlsx(first_day, (), styles, '<workbookPr date1904="1"/>')  # four years early once
    assert read(tmp_path, "b.xlsx", old).attachment.pages == ("Old\n1904-01-01",)


def test_text_files_stay_what_they_are_and_saved_pages_lose_what_is_no_text(tmp_path: Path) -> None:
    for raw in (
        "naïve\r\n".encode("utf-8-sig"),
        "naïve\n".encode("utf-16"),
        "naïve\n".encode("cp1252"),
    ):
        found = read(tmp_path, "a.txt", raw).attachment
        assert (found.text, found.kind) == ("naïve\n", "text")
    page = "<html><title>Fox</title><script>{}</script><nav>Home</nav><main><h1>Foxes</h1>{}</main>"
    small = page.format("x", "<p>Red &amp; <b>quick</b></p>").encode()
    assert read(tmp_path, "a.html", small).attachment.text.startswith("<html>")
    saved = page.format("x" * 100_000, "<p>Red &amp; <b>quick</b></p>" * 99 + "<li>One<li>Two")
    found = read(tmp_path, "b.html", saved.encode())
    assert found.attachment.text.startswith("# Foxes\n\nRed & quick\n\nRed & quick")
    assert found.attachment.text.endswith("- One\n- Two")
    assert found.notes == ("Of b.html, only the page's text was read.",)


ENTITIES = "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'>]><x>&a;</x>"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("scan.pdf", made.pdf(["", ""]), "scan.pdf has no text: its pages are blank, or pictures"),
        ("locked.pdf", made.locked_pdf("x"), "locked.pdf has a password"),
        ("cut.pdf", made.pdf(["One"])[:60], "cut.pdf is damaged"),
        ("empty.txt", b"  \n", "empty.txt has no text"),
        ("program", b"\x7fELF\0\1\2", "program is not a supported file"),
        ("a.png", b"\x89PNG\r\n\x1a\n\0", "a.png is a picture"),
        (
            "old.doc",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
            "old.doc is an old Office file",
        ),
        ("a.rtf", b"{\\rtf1 x}", "a.rtf is an RTF file"),
        ("a.zip", made.archive({"x": "y"}), "a.zip is an archive. Unpack it"),
        ("cut.docx", made.docx(paragraph("x"))[:-30], "cut.docx is damaged"),
        ("deep.docx", made.docx("<w:p>" * 999), "deep.docx is nested too deeply"),
        ("bad.docx", made.docx("<w:p>"), "bad.docx is damaged"),
        ("entities.docx", made.archive({"word/document.xml": ENTITIES}), "defines entities"),
        (
            "sheet.ods",
            made.odt("x", "spreadsheet"),
            "sheet.ods is an OpenDocument file without text",
        ),
        (
            "locked.docx",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
            + bytes(600)
            + "EncryptedPackage".encode("utf-16-le"),
            "locked.docx has a password",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(
    name: str, content: bytes, told: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidRequest, match=told.replace("(", r"\(")):
        read(tmp_path, name, content)


LOOP = (
    b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"
    b"2 0 obj\n<< /Type /Pages /Kids [2 0 R]"
)


HOSTILE = {
    "bomb.pdf": lambda: made.bomb_pdf(200),
    "bomb.docx": lambda: made.archive({"word/document.xml": b"<w>" + b" " * (257 << 20) + b"</w>"}),
    "loop.pdf": lambda: LOOP + b" /Count 9 >>\nendobj\ntrailer\n<< /Root 1 0 R >>\n%%EOF",
    "nested.pdf": lambda: made.pdf_of([b"[" * 2_000_000]),
    "arrays.pdf": lambda: b"%PDF-1.4\n1 0 obj\n" + b"[" * 500_000 + b"\ntrailer\n<< /Root 1 0 R >>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_are_refused_in_time(name: str, tmp_path: Path) -> None:
    content = HOSTILE[name]()
    told = "unpacks to more than 256 MB" if name == "bomb.docx" else ""
    began = time.monotonic()
    with pytest.raises(InvalidRequest, match=f"{name}.*{told}"):
        read(tmp_path, name, content)
    assert time.monotonic() - began < 60


def test_a_document_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    """Its time is the processor's, so that a busy machine gives up no sound document."""
    assert max(each._limits.seconds for each in (reading._TEXTS, reading._DOCUMENTS)) <= 60
    with pytest.raises(InvalidRequest, match="larger than 64 MB"):
        path = tmp_path / "huge.pdf"
        with path.open("wb") as file:
            file.truncate(reading.LARGEST + 1)
        read_file(path, "huge.pdf")
    with pytest.raises(InvalidRequest, match="is not a file"):
        read_file(tmp_path, "folder")


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    """Texts have little time, so that a test need not wait for the end of it."""
    limits = Limits(0.9, memory=512 << 20, answer=1 << 20)
    pool = WorkerPool("app.documents.extract:extract", limits)
    monkeypatch.setattr(reading, "_TEXTS", pool)
    yield pool
    pool.close()


def test_a_hostile_page_keeps_no_other_file_waiting_and_its_end_is_said(
    brief: WorkerPool, tmp_path: Path
) -> None:
    """15 MB of opened comments held every document of everybody for minutes, and it was said that their
    process had crashed."""
    hostile = written(tmp_path, "page", b"<!--" * 500_000)
    told: list[str] = []

    def attack() -> None:
        with pytest.raises(InvalidRequest) as caught:
            read_file(hostile, "page", content_type="text/html")
        told.append(str(caught.value))

    thread = threading.Thread(target=attack)
    thread.start()
    while not brief._callers:
        time.sleep(0.001)
    assert read(tmp_path, "a.csv", b"a,b\n1,2\n").attachment.text == "a,b\n1,2\n"
    assert not told
    thread.join()
    assert told == [
        "page could not be read: reading it took more than 0.9 s. Attach a smaller part of it."
    ]


def test_of_a_page_only_so_much_is_read(tmp_path: Path) -> None:
    page = "<title>" + "t<b>" * 5000 + "</title>" + "<div>" * 9000 + "Foxes" + " are red" * 500_000
    path = written(tmp_path, "page", page.encode())
    found = read_file(path, "page", source="http://127.0.0.1/", content_type="text/html")
    assert found.attachment.name == "t" * 200 and found.attachment.text.startswith("Foxes are red")
    assert found.notes == ("Of page, only the first 4,000,000 characters were read.",)
