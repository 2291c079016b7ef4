"""Documents made with the standard library: PDF, office files and books."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence

_TYPES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATION = '<Relationship Id="{}" Type="' + _TYPES + '/{}" Target="{}"/>'
_OFFICE = f'xmlns:r="{_TYPES}"'


def pdf(pages: Sequence[str], title: str = "", extra: str = "") -> bytes:
    """Return a PDF file with a text on each page; ``extra`` is added to its trailer."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", ""]
    objects[2] = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    kids = []
    for page in pages:
        lines = " ".join(f"({line}) Tj T*" for line in page.split("\n"))
        stream = f"BT /F1 12 Tf 72 720 Td 14 TL {lines} ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    objects.append(f"<< /Title ({title}) /CreationDate (D:20240301120000Z) >>")
    data, offsets = "%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    start, count = len(data), len(objects) + 1
    data += f"xref\n0 {count}\n0000000000 65535 f \n{table}"
    data += f"trailer << /Size {count} /Root 1 0 R /Info {len(objects)} 0 R {extra} >>\n"
    return f"{data}startxref\n{start}\n%%EOF\n".encode("latin-1")


def packed(files: Mapping[str, str | bytes]) -> bytes:
    """Return a zip with these files."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


def _relations(*entries: tuple[str, str, str]) -> str:
    return (
        f"<Relationships>{''.join(_RELATION.format(*entry) for entry in entries)}</Relationships>"
    )


def docx(body: str, title: str = "") -> bytes:
    """Return a Word document; ``body`` is XML with the prefix ``w``."""
    core = f"<coreProperties><title>{title}</title><created>2024-03-01T12:00:00Z</created>"
    return packed(
        {
            "_rels/.rels": _relations(("r1", "officeDocument", "word/document.xml")),
            "word/document.xml": f'<w:document xmlns:w="w"><w:body>{body}</w:body></w:document>',
            "word/styles.xml": '<w:styles xmlns:w="w"><w:style w:styleId="H1"><w:name '
            'w:val="heading 1"/></w:style></w:styles>',
            "docProps/core.xml": f"{core}</coreProperties>",
        }
    )


def paragraph(text: str, style: str = "") -> str:
    """Return a paragraph of a Word document as XML."""
    named = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{named}<w:r><w:t>{text}</w:t></w:r></w:p>"


def pptx(slides: Sequence[tuple[str, str]]) -> bytes:
    """Return a presentation of slides with a title and a text."""
    shape = "<p:sp><p:nvSpPr><p:nvPr>{}</p:nvPr></p:nvSpPr><a:p><a:t>{}</a:t></a:p></p:sp>"
    ids = "".join(f'<p:sldId r:id="r{number}"/>' for number, _ in enumerate(slides))
    targets = [("r" + str(n), "slide", f"slides/slide{n}.xml") for n, _ in enumerate(slides)]
    files = {
        f"ppt/slides/slide{number}.xml": '<p:sld xmlns:p="p" xmlns:a="a">'
        + shape.format('<p:ph type="title"/>', title)
        + shape.format("", text)
        + "</p:sld>"
        for number, (title, text) in enumerate(slides)
    }
    listed = f'<p:presentation xmlns:p="p" {_OFFICE}><p:sldIdLst>{ids}</p:sldIdLst>'
    return packed(
        {
            "ppt/presentation.xml": f"{listed}</p:presentation>",
            "ppt/_rels/presentation.xml.rels": _relations(*targets),
            **files,
        }
    )


def xlsx(rows: Iterable[Sequence[object]], sheet: str = "Costs") -> bytes:
    """Return a workbook with one sheet; the style of numbers in the last column is a date."""
    lines = []
    for number, row in enumerate(rows, 1):
        cells = ""
        for column, cell in enumerate(row):
            place = f"{chr(64 + column // 26).strip('@')}{chr(65 + column % 26)}{number}"
            if isinstance(cell, str):
                cells += f'<c r="{place}" t="inlineStr"><is><t>{cell}</t></is></c>'
            else:
                style = ' s="1"' if column == len(row) - 1 else ""
                cells += f'<c r="{place}"{style}><v>{cell}</v></c>'
        lines.append(f'<row r="{number}">{cells}</row>')
    return packed(
        {
            "xl/workbook.xml": f'<workbook {_OFFICE}><sheets><sheet name="{sheet}" r:id="r1"/>'
            "</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": _relations(("r1", "worksheet", "worksheets/sheet1.xml")),
            "xl/styles.xml": '<styleSheet><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/>'
            "</cellXfs></styleSheet>",
            "xl/worksheets/sheet1.xml": f"<worksheet><sheetData>{''.join(lines)}</sheetData>"
            "</worksheet>",
        }
    )


def epub(chapters: Sequence[str], title: str = "", extra: Mapping[str, str] | None = None) -> bytes:
    """Return a book with chapters in HTML."""
    names = [f"c{number}.xhtml" for number, _ in enumerate(chapters)]
    items = "".join(f'<item id="{name}" href="{name}"/>' for name in names)
    spine = "".join(f'<itemref idref="{name}"/>' for name in names)
    return packed(
        {
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="b/book.opf"/>'
            "</rootfiles></container>",
            "b/book.opf": f"<package><metadata><title>{title}</title></metadata>"
            f"<manifest>{items}</manifest><spine>{spine}</spine></package>",
            **{f"b/{name}": text for name, text in zip(names, chapters, strict=True)},
            **(extra or {}),
        }
    )
