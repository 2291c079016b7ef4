"""Import of a Dendron vault: notes named by dots, with links whose label comes first.

``a.b.md`` is below ``a.md``; the header has ``id``, ``title``, ``desc`` and times in milliseconds;
``[[label|a.b]]`` links to ``a.b`` and ``![[a.b#heading]]`` embeds it (Dendron 0.124,
wiki.dendron.so). Schemas are left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from memvault.importers import folder, records, values
from memvault.importers.items import ImportedNote, Item
from memvault.importers.kinds import NO, SURE
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern
from memvault.vault.document import Document
from memvault.vault.markdown import replace_outside_code

_LINK = lazy_pattern(r"(?<!!)\[\[([^\[\]|\n]{1,300})\|([^\[\]|\n]{1,300})\]\]")
_EMBED_RANGE = lazy_pattern(r"(!\[\[[^\[\]#\n]+#[^\[\]:,\n]+)[:,][^\[\]\n]*(?=\]\])")
_MILLISECONDS = lazy_pattern(r"^(created|updated): *'?(\d{12,14})'?[ \t]*\n", re.MULTILINE)
_OWN = (".schema.yml", ".code-workspace", ".ws")
_MAX_SNIFFED = 20


def recognise(source: Source) -> int:
    """Return ``SURE`` if there is ``dendron.yml``, or notes have its times and ids."""
    if any(name.rpartition("/")[2] in ("dendron.yml", ".dendron.ws") for name in source.names):
        return SURE
    heads = [source.head(name) for name in source.named(".md")[:_MAX_SNIFFED]]
    own = sum(b"\ndesc:" in head and b"\nupdated: 1" in head for head in heads)
    return SURE if own and own * 2 > len(heads) else NO


def claims(source: Source) -> list[str]:
    """Return all files except hidden ones and those in hidden folders."""
    return folder.claims(source)


def read(source: Source) -> Iterator[Item]:
    """Yield the notes and their assets."""
    for item in folder.items(source, itertools.filterfalse(_is_own, claims(source))):
        if isinstance(item, ImportedNote):
            yield from records.items_of(item.key, _note, item)
        else:
            yield item


def _is_own(name: str) -> bool:
    """Return whether a file has settings or schemas, and no notes."""
    return name.endswith(_OWN) or name.rpartition("/")[2].startswith("dendron.")


def _note(item: ImportedNote) -> ImportedNote:
    header = Document.parse(item.text.encode("utf-8", "replace")).header or {}
    created = values.time_of(header.get("created"), 1e-3)
    modified = values.time_of(header.get("updated"), 1e-3)
    times = {"created": created or item.header["created"], "modified": modified or created}
    text = replace_outside_code(_LINK, lambda link: f"[[{link[2]}|{link[1]}]]", item.text)
    text = replace_outside_code(_EMBED_RANGE, lambda embed: embed[1], text)
    text = _MILLISECONDS.sub("", text, 2)
    name = item.path[: -len(".md")]
    key = str(header.get("id") or item.key)
    text = re.sub(r"\Aid: .*\n|(?<=\A---\n)id: .*\n", "", text)
    return ImportedNote(key, item.path, text, times, (name,))
