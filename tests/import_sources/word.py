"""Word documents as exported by OneNote (ECMA-376): a single one, and a folder of pages.

No real export of OneNote was available; the converter was tested with Word documents.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

PICTURE = b"\x89PNG of a boat"
_SPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture" '
    'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml"'
)
_STYLES = f"""<w:styles {_SPACES}>
<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>
<w:style w:styleId="Eigene"><w:name w:val="Mine"/><w:basedOn w:val="berschrift1"/></w:style>
<w:style w:styleId="Zitat"><w:name w:val="Quote"/></w:style>
<w:style w:styleId="Schritt"><w:name w:val="Step"/>
<w:pPr><w:numPr><w:numId w:val="3"/></w:numPr></w:pPr></w:style>
<w:style w:styleId="Unter"><w:name w:val="Step below"/><w:basedOn w:val="Schritt"/>
<w:pPr><w:numPr><w:ilvl w:val="1"/></w:numPr></w:pPr></w:style>
<w:style w:styleId="Punkt2"><w:name w:val="List Bullet 2"/></w:style>
<w:style w:styleId="Zahl"><w:name w:val="List Number"/></w:style></w:styles>"""
_NUMBERS = f"""<w:numbering {_SPACES}>
<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="decimal"/></w:lvl>
<w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>
<w:num w:numId="3"><w:abstractNumId w:val="0"/></w:num></w:numbering>"""
_LINKS = """<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="rId1" Target="https://boats.example/1" TargetMode="External"/>
<Relationship Id="rId2" Target="media/image1.png"/></Relationships>"""
_PROPERTIES = """<cp:coreProperties
 xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">
<dc:creator>Ana</dc:creator><cp:keywords>boats; to do</cp:keywords>
<dcterms:created>2026-11-03T09:15:00Z</dcterms:created>
<dcterms:modified>2026-11-04T10:15:00Z</dcterms:modified></cp:coreProperties>"""
_NOTES = f"""<w:footnotes {_SPACES}><w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r>
<w:r><w:t>Or tar.</w:t></w:r></w:p></w:footnote></w:footnotes>"""


def paragraph(inner: str, properties: str = "") -> str:
    """Return a paragraph."""
    return f"<w:p><w:pPr>{properties}</w:pPr>{inner}</w:p>"


def run(text: str, properties: str = "") -> str:
    """Return a run of text."""
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def _item(text: str, level: int) -> str:
    number = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="3"/></w:numPr>'
    return paragraph(run(text), number)


def _box(is_done: int, text: str) -> str:
    box = f'<w14:checkbox><w14:checked w14:val="{is_done}"/></w14:checkbox>'
    sdt = f"<w:sdt><w:sdtPr>{box}</w:sdtPr><w:sdtContent>{run('x')}</w:sdtContent></w:sdt>"
    return paragraph(sdt + run(f" {text}"))


def _row(*texts: str) -> str:
    cells = "".join(f"<w:tc>{paragraph(run(text))}</w:tc>" for text in texts)
    return f"<w:tr>{cells}</w:tr>"


def styled(text: str, style: str, properties: str = "") -> str:
    """Return a paragraph with a style."""
    return paragraph(run(text), f'<w:pStyle w:val="{style}"/>{properties}')


def document(body: str, title: str = "", header: str = "") -> bytes:
    """Return a document with a body, the property title, and a header on each page."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as files:
        files.writestr("[Content_Types].xml", "<Types/>")
        files.writestr(
            "word/document.xml", f"<w:document {_SPACES}><w:body>{body}</w:body></w:document>"
        )
        files.writestr("word/styles.xml", _STYLES)
        files.writestr("word/numbering.xml", _NUMBERS)
        files.writestr("word/_rels/document.xml.rels", _LINKS)
        files.writestr("word/footnotes.xml", _NOTES)
        files.writestr("word/media/image1.png", PICTURE)
        properties = f"<dc:title>{title}</dc:title><dc:subject>Sea</dc:subject><dc:creator>"
        files.writestr(
            "docProps/core.xml",
            _PROPERTIES.replace("<dc:creator>", properties) if title else _PROPERTIES,
        )
        if header:
            text = f"<w:hdr {_SPACES}>{paragraph(run(header))}</w:hdr>"
            files.writestr("word/header1.xml", text)
    return made.getvalue()


def body() -> str:
    """Return a page's body."""
    picture = '<w:drawing><pic:pic><a:blip r:embed="rId2"/></pic:pic></w:drawing>'
    bold, code = "<w:b/>", '<w:rFonts w:ascii="Consolas"/>'
    return "".join(
        (
            paragraph(run("Boats", bold), '<w:pStyle w:val="Eigene"/>'),
            paragraph(
                run("Paint ", bold)
                + run("the hull", bold)
                + run(" with ")
                + run("x = [1]", code)
                + f'<w:hyperlink r:id="rId1">{run("oil")}</w:hyperlink>'
                + '<w:r><w:footnoteReference w:id="2"/></w:r>'
                + "<w:del><w:r><w:delText>red</w:delText></w:r></w:del>"
            ),
            _item("Sand", 0),
            _item("fine", 1),
            _item("Paint", 0),
            _box(1, "buy paint"),
            _box(0, "buy oil"),
            paragraph('<w:r><w:sym w:font="Wingdings" w:char="F0A8"/></w:r>' + run(" call Ana")),
            paragraph(run("if a:", code)),
            paragraph(run("    b = '*'", code)),
            paragraph(run("Slowly."), '<w:pStyle w:val="Zitat"/>'),
            f"<w:tbl>{_row('a|b', 'c')}{_row('d', 'e')}</w:tbl>",
            paragraph(f"<w:r>{picture}</w:r>"),
            paragraph("<w:r><w:object/></w:r>"),
            "<w:sectPr/>",
        )
    )


def make(folder: Path) -> Path:
    """Write one document."""
    (folder / "Boats.docx").write_bytes(document(body()))
    return folder / "Boats.docx"


def make_folder(folder: Path) -> Path:
    """Write a folder of pages, one of them damaged, and a section in OneNote's own format."""
    made = folder / "Notebook"
    (made / "Sea").mkdir(parents=True)
    (made / "Sea" / "Boats.docx").write_bytes(document(body()))
    (made / "Sea" / "Twin.docx").write_bytes(document(paragraph(run("Another page."))))
    (made / "Damaged.docx").write_bytes(document("")[:400])
    (made / "Harbor.one").write_bytes(b"\xe4\x52\x5c\x7b")
    (made / "map.pdf").write_bytes(b"%PDF-1.7")
    return made
