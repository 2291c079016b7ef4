"""An ENEX file of Evernote 10 (evernote-export4.dtd): a note with tasks and a picture."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

PICTURE = b"\x89PNG of a receipt"


def make(folder: Path) -> Path:
    """Write the file."""
    digest = hashlib.md5(PICTURE).hexdigest()
    content = (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<!DOCTYPE en-note SYSTEM "http://xml.evernote.com/pub/enml2.dtd">'
        "<en-note><div>Paid by <b>card</b>.</div>"
        '<div><en-todo checked="true"/>scan it</div><div><en-todo/>file it</div>'
        f'<div><en-media type="image/png" hash="{digest}"/></div>'
        "<script>alert(1)</script></en-note>"
    )
    note = (
        f"<note><title>Receipt &amp; co</title><content><![CDATA[{content}]]></content>"
        "<created>20261103T091500Z</created><updated>20261104T101500Z</updated>"
        "<tag>tax 2026</tag><note-attributes><source-url>https://shop.example/1</source-url>"
        "</note-attributes><resource>"
        f'<data encoding="base64">{base64.b64encode(PICTURE).decode()}</data>'
        "<mime>image/png</mime><resource-attributes><file-name>receipt.png</file-name>"
        "</resource-attributes></resource></note>"
    )
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<!DOCTYPE en-export SYSTEM "http://xml.evernote.com/pub/evernote-export4.dtd">\n'
        f'<en-export export-date="20261120T100000Z" application="Evernote">{note}</en-export>\n'
    )
    (folder / "Receipts.enex").write_text(text, "utf-8")
    return folder / "Receipts.enex"
