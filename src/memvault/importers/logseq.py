"""Import of a Logseq graph: ``pages``, ``journals`` and ``assets``.

Pages are outlines; ``key:: value`` lines are properties, those of the first block belong to the
page; ``((id))`` refers to the block with ``id:: id``, ``___`` in a file's name is a slash, and a
task begins with a word such as TODO (Logseq 0.10, docs.logseq.com).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from urllib.parse import unquote

from memvault.importers import folder, records, values
from memvault.importers.items import ImportedNote, Item, Unreadable
from memvault.importers.kinds import NO, SURE
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern
from memvault.vault.markdown import replace_outside_code

_BLOCK_ID = lazy_pattern(r"[ \t]*id:: ([0-9a-f-]{36})[ \t]*")
_REFERENCE = lazy_pattern(r"(?:\{\{embed )?\(\(([0-9a-f-]{36})\)\)(?:\}\})?")
_PROPERTY = lazy_pattern(r"[ \t]*(?:- )?([\w-]{1,60}):: (.*)")
_HIDDEN = lazy_pattern(r"^[ \t]*(?:collapsed|id|logseq\.[\w.-]+|heading):: .*\n?", re.MULTILINE)
_TASK = lazy_pattern(
    r"^([ \t]*- )(TODO|LATER|NOW|DOING|WAITING|DONE|CANCELED|CANCELLED) ", re.MULTILINE
)
_JOURNAL = lazy_pattern(r"(\d{4})[_-](\d\d)[_-](\d\d)\.md")
_MARKS = {"DONE": "x", "CANCELED": "-", "CANCELLED": "-"}
_MAX_QUOTED = 300
"""Maximum length of the text of a block where another refers to it."""
_LISTS = frozenset(("tags", "alias"))


def recognise(source: Source) -> int:
    """Return ``SURE`` if the folder has Logseq's settings and pages or journals."""
    has_pages = any(name.startswith(("pages/", "journals/")) for name in source.names)
    return SURE if has_pages and "logseq/config.edn" in source.name_set else NO


def read(source: Source) -> Iterator[Item]:
    """Yield the pages, the journals and the assets; Logseq's own files and drafts are left out."""
    blocks: dict[str, str] = {}
    for name in source.named(".md"):
        item = folder.read_file(source, name)
        if isinstance(item, ImportedNote):
            blocks |= _blocks(item.text)
    for name in source.names:
        if not name.startswith(("pages/", "journals/", "assets/", "draws/")):
            if reason := _why_left_out(name):
                yield Unreadable(name, reason)
            continue
        if not name.lower().endswith(".md"):
            yield folder.attachment(source, name)
            continue
        item = folder.read_file(source, name)
        if isinstance(item, ImportedNote):
            yield from records.items_of(name, _page, item, blocks)
        else:
            yield item


def _why_left_out(name: str) -> str:
    """Return why a file outside of the folders that are read is none of Logseq's own, if so."""
    if name.startswith("whiteboards/"):
        return "a whiteboard, which is no text"
    is_own = name.startswith("logseq/") or any(part.startswith(".") for part in name.split("/"))
    is_note = name.lower().endswith(".md") and not is_own
    return "neither in pages nor in journals" if is_note else ""


def _blocks(text: str) -> dict[str, str]:
    """Return the first line of each block that has an id."""
    found, first = {}, ""
    for line in text.splitlines():
        if line.lstrip().startswith("- "):
            first = line.lstrip()[2:].strip()[:_MAX_QUOTED]
        elif match := _BLOCK_ID.fullmatch(line):
            found[match[1]] = first
    return found


def _page(item: ImportedNote, blocks: dict[str, str]) -> ImportedNote:
    folder_name, base = posixpath.split(item.path)
    name = unquote(base[: -len(".md")]).replace("___", "/")
    journal = _JOURNAL.fullmatch(base)
    path = (
        f"{folder_name}/{'-'.join(journal.groups())}.md" if journal else f"{folder_name}/{name}.md"
    )
    header: dict[str, object] = {**item.header}
    if not journal:
        header["title"] = name
    lines = item.text.splitlines(keepends=True)
    first = 0
    while first < len(lines) and (match := _PROPERTY.fullmatch(lines[first].rstrip())):
        value = re.sub(r"\[\[|\]\]|#", "", match[2]).strip()
        key = match[1].lower()
        if key == "title":
            header["title"] = value
        elif key in _LISTS:
            words = [" ".join(part.split()) for part in value.split(",") if part.strip()]
            tags = list(map(values.tag, words))
            header["aliases" if key == "alias" else "tags"] = words if key == "alias" else tags
        elif key not in ("id", "collapsed") and not key.startswith("logseq."):
            header[key.replace("-", "_")] = value
        first += 1
    text = replace_outside_code(
        _REFERENCE,
        lambda match: f"“{blocks[match[1]]}”" if match[1] in blocks else match[0],
        "".join(lines[first:]),
    )
    text = replace_outside_code(_HIDDEN, lambda _: "", text)
    text = replace_outside_code(
        _TASK, lambda match: f"{match[1]}[{_MARKS.get(match[2], ' ')}] ", text
    )
    return ImportedNote(item.key, path, text.lstrip("\n"), header, (name,))
