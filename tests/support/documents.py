"""Writers of small documents, sound and hostile."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
)
DRAWING = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
SHEET = (
    'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)


def pdf(pages: Sequence[str]) -> bytes:
    """Return a PDF with a line of text on each page; an empty one has a drawing and no text."""
    contents = []
    for text in pages:
        lines = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)").split("\n")
        shown = " T* ".join(f"({line}) Tj" for line in lines)
        drawn = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET" if text else "0 0 100 100 re f"
        contents.append(drawn.encode("latin-1"))
    return pdf_of(contents)


def pdf_of(contents: Sequence[bytes], filters: str = "") -> bytes:
    """Return a PDF of pages with these content streams."""
    count = len(contents)
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, content in enumerate(contents):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        head = f"<< /Length {len(content)} {filters} >>".encode()
        objects.append(head + b"\nstream\n" + content + b"\nendstream")
    out, places = io.BytesIO(), []
    out.write(b"%PDF-1.4\n")
    for number, each in enumerate(objects, 1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n".encode() + each + b"\nendobj\n")
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    out.writelines(f"{place:010} 00000 n \n".encode() for place in places)
    out.write(
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    )
    return out.getvalue()


def locked_pdf(password: str, owner: str = "owner") -> bytes:
    """Return a PDF encrypted with AES; an empty ``password`` opens for everybody."""
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(["Secret words"]))))
    writer.encrypt(password, owner, algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def bomb_pdf(megabytes: int) -> bytes:
    """Return a PDF whose page unpacks to so many megabytes of text."""
    return pdf_of(
        [zlib.compress(b"BT (x) Tj ET " * (megabytes << 20 >> 4), 9)], "/Filter /FlateDecode"
    )


def archive(parts: Mapping[str, str | bytes]) -> bytes:
    """Return a zip file with these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return out.getvalue()


def docx(body: str) -> bytes:
    """Return a Word file; ``body`` is the content of ``w:body``."""
    return archive(
        {"word/document.xml": f"<w:document {WORD}><w:body>{body}</w:body></w:document>"}
    )


def paragraph(text: str, style: str = "", before: str = "") -> str:
    """Return a paragraph of a Word file, ``before`` which stands something else."""
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r>{before}<w:t>{text}</w:t></w:r></w:p>"


def odt(body: str, kind: str = "text") -> bytes:
    """Return an OpenDocument file; ``body`` is the content of ``office:text``."""
    content = f"<office:document-content {ODF}><office:body><office:text>{body}</office:text>"
    return archive(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"{content}</office:body></office:document-content>",
        }
    )


def pptx(slides: Sequence[str]) -> bytes:
    """Return a PowerPoint file with a line on each slide."""
    parts = {
        f"ppt/slides/slide{n}.xml": f"<p {DRAWING}><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p>"
        for n, text in enumerate(slides, 1)
    }
    return archive({"ppt/presentation.xml": "<p/>", **parts})


def xlsx(
    sheets: Mapping[str, str], texts: Sequence[str] = (), styles: str = "", properties: str = ""
) -> bytes:
    """Return an Excel file; each sheet's value is the content of ``sheetData``. ``properties``: of the
    workbook."""
    numbers = range(1, len(sheets) + 1)
    names = "".join(
        f'<sheet name="{s}" r:id="r{n}"/>' for n, s in zip(numbers, sheets, strict=True)
    )
    relations = "".join(
        f'<Relationship Id="r{n}" Target="worksheets/sheet{n}.xml"/>' for n in numbers
    )
    parts = {
        "xl/workbook.xml": f"<workbook {SHEET}>{properties}<sheets>{names}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f"<Relationships>{relations}</Relationships>",
        "xl/sharedStrings.xml": "<sst>" + "".join(f"<si><t>{t}</t></si>" for t in texts) + "</sst>",
        "xl/styles.xml": f"<styleSheet>{styles}</styleSheet>",
    }
    for number, rows in zip(numbers, sheets.values(), strict=True):
        name = f"xl/worksheets/sheet{number}.xml"
        parts[name] = f"<worksheet><sheetData>{rows}</sheetData></worksheet>"
    return archive(parts)


def written(folder: Path, name: str, content: bytes) -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_bytes(content)
    return path
