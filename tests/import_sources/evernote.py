"""ENEX files of Evernote 10 (evernote-export4.dtd): notes with tasks, blocks and an image.

The blocks follow the descriptions of Evernote's styles in other importers; no export was available.
"""

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


def exported(*notes: str) -> str:
    """Return an export of notes."""
    begin = '<?xml version="1.0" encoding="UTF-8"?>\n<en-export application="Evernote">\n'
    return f"{begin}{chr(10).join(notes)}\n</en-export>\n"


def note(title: str, body: str, more: str = "", created: str = "20261103T091500Z") -> str:
    """Return a note with ENML in its content, and other elements after it."""
    enml = f'<?xml version="1.0" encoding="UTF-8"?><en-note>{body}</en-note>'
    return (
        f"<note><title>{title}</title><created>{created}</created>"
        f"<content><![CDATA[{enml}]]></content>{more}</note>"
    )


def task(title: str, status: str, weight: str, group: str = "g-1", more: str = "") -> str:
    """Return an Evernote task."""
    return (
        f"<task><title>{title}</title><taskStatus>{status}</taskStatus><inNote>true</inNote>"
        f"<taskFlag>false</taskFlag><sortWeight>{weight}</sortWeight>"
        f"<taskGroupNoteLevelID>{group}</taskGroupNoteLevelID>{more}</task>"
    )


BLOCKS = (
    '<ul style="--en-todo:true;"><li style="--en-checked:true;"><div>buy twine</div></li>'
    '<ul style="--en-todo:true;"><li style="--en-checked:false;"><div>thin</div></li></ul>'
    '<li style="--en-checked:false;"><div>mend the net</div></li></ul>'
    '<div style="padding: 8px; -en-codeblock:true;"><div>def swap(a, b):</div>'
    "<div>&nbsp;   a, b = b, a</div><div><br/></div><div># *bold_</div></div>"
    '<div style="--en-codeblock:true; --en-syntaxLanguage:python;"><div>if x:</div>'
    "<div>  go()</div></div>"
    '<div style="--en-task-group:true; --en-id:g-1;"><br/></div>'
    '<div style="--en-formulablock:true;"><div>a_b^2</div></div>'
    '<div style="--en-callout:true; --en-emoji:x;"><div>Mind the gap</div></div>'
    '<div style="--en-toggle:true; --en-isCollapsed:true;"><div style="--en-toggleSummary:true;">'
    'More</div><div style="--en-toggleContent:true;"><div>inside</div></div></div>'
    '<div style="--en-mystery:true;"><span style="--en-highlight:yellow;">bright</span>'
    "&nbsp;text</div>"
    '<div><a href="evernote:///view/1/s1/a-b/a-b/">Signs</a> '
    '<a href="evernote:///view/1/s1/c-d/c-d/">Lost note</a></div>'
    '<en-crypt hint="the pet" cipher="AES">AAAA</en-crypt>'
    '<en-media type="image/png" hash="00000000000000000000000000000000"/>'
)
SIGNS = (
    "<div># not a heading</div><div>1. not a list</div><div>[ ] no box</div><div>_x_ #nottag</div>"
    "<div>see https://example.org/a_b_c</div>"
)


def make_blocks(folder: Path) -> Path:
    """Write a file with the blocks of Evernote 10, tasks and attributes of a note."""
    due = "<dueDate>20260301T050000Z</dueDate><timeZone>America/New_York</timeZone>"
    tasks = (
        task("Rinse the cans", "completed", "B"),
        task("Order #seeds", "open", "A", more=f"{due}<recurrence>DAILY</recurrence>"),
        task("Loose end", "open", "A", "g-2"),
    )
    attributes = (
        "<note-attributes><latitude>52.5</latitude><longitude>13.4</longitude><author>Ana</author>"
        "<reminder-time>20261201T080000Z</reminder-time><source>desktop.mac</source>"
        "<application-data key='a'>b</application-data></note-attributes>"
    )
    text = exported(note("Blocks", BLOCKS, "".join(tasks) + attributes), note("Signs", SIGNS))
    (folder / "Blocks.enex").write_text(text, "utf-8")
    return folder / "Blocks.enex"
