"""Import a Dendron workspace.

``a.b.md`` is a child of ``a.md``; the header has ``id``, ``title``, ``desc`` and times in
milliseconds. ``[[label|a.b]]`` links to ``a.b``, ``[[dendron://vault/a.b]]`` to a note in another
vault, ``![[a.b#heading:#end]]`` embeds a part of a note, and ``@ann`` links to ``user.ann``
(Dendron 0.124, wiki.dendron.so). Schemas and empty stubs are skipped.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from memvault.importers import convert, folder
from memvault.importers.formats import Confidence
from memvault.importers.items import ImportedNote, Item
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern
from memvault.vault.document import Document
from memvault.vault.markdown import replace_outside_code

_MARKUP = lazy_pattern(
    r"(!?)\[\[([^\[\]\n]{1,600})\]\]|(?<=\]\()/(?=assets/)"
    r"|@(?<![\w@/.]@)([A-Za-z0-9][\w.-]{0,99})"
)
"""Matches a link or embed, the start of an absolute file path, or a user."""
_OTHER_VAULT = lazy_pattern(r"dendron://([^/\s]{1,100})/(.+)")
_VAULT = lazy_pattern(r"^[ \t]*+(?:-[ \t]++)?(fsPath|name):[ \t]*+['\"]?([^\s'\"#]+)", re.MULTILINE)
_MILLISECONDS = lazy_pattern(r"^(created|updated): *'?(\d{12,14})'?[ \t]*\n", re.MULTILINE)
_EMPTY_DESCRIPTION = lazy_pattern(r"^desc: *(?:''|\"\")?[ \t]*\n", re.MULTILINE)
_OWN = (".schema.yml", ".code-workspace", ".ws")
_MAX_SNIFFED = 20


def recognize(source: Source) -> Confidence:
    """Return ``SURE`` for ``dendron.yml``, or if most notes have a Dendron header."""
    if any(name.rpartition("/")[2] in ("dendron.yml", ".dendron.ws") for name in source.names):
        return Confidence.SURE
    heads = [source.head(name) for name in source.with_endings(".md")[:_MAX_SNIFFED]]
    dendron_notes = sum(b"\ndesc:" in head and b"\nupdated: 1" in head for head in heads)
    return Confidence.sure_if(dendron_notes and dendron_notes * 2 > len(heads))


def read(source: Source) -> Iterator[Item]:
    """Yield the notes and their assets."""
    names = [name for name in source.visible if not _is_own(name)]
    yield from folder.items(source, names, _DendronWorkspace(source).note)
    source.counts.converted("asset", sum(not name.lower().endswith(".md") for name in names))
    source.counts.omitted("schema", len(source.with_endings(".schema.yml")))


def _is_own(name: str) -> bool:
    """Return whether a file contains settings or schemas."""
    return name.endswith(_OWN) or name.rpartition("/")[2].startswith("dendron.")


class _DendronWorkspace:
    """Converts the notes of a workspace, whose vaults and notes it looks up by name."""

    def __init__(self, source: Source) -> None:
        self._counts = source.counts
        self._keys: Counter[str] = Counter()
        """The keys of all notes so far, with counts; the root notes of vaults may share an id."""
        self._paths: dict[str, list[str]] = defaultdict(list)
        for name in source.with_endings(".md"):
            self._paths[posixpath.basename(name)[:-3].casefold()].append(name[:-3])
        self._vaults: dict[str, str] = {}
        """The folders of vaults by name."""
        for name in source.names:
            if posixpath.basename(name) == "dendron.yml":
                text = source.head(name, 1 << 16).decode("utf-8", "replace")
                self._add_vaults(text.partition("\nvaults:")[2], posixpath.dirname(name))

    def _add_vaults(self, text: str, root: str) -> None:
        path = ""
        for match in _VAULT.finditer(text):
            if match[1] == "fsPath":
                path = posixpath.normpath(posixpath.join(root, match[2]))
                self._vaults.setdefault(posixpath.basename(path), path)
            else:
                self._vaults[match[2]] = path

    def note(self, item: ImportedNote) -> ImportedNote | None:
        """Convert a note; None for an empty stub, which Dendron creates for its children."""
        data = item.text.encode("utf-8", "replace")
        document = Document.parse(data)
        header = document.header or {}
        if header.get("stub") is True and not document.parts.body.strip():
            self._counts.omitted("stub")
            return None
        self._counts.converted("note")
        created = convert.time_of(header.get("created"), 1e-3)
        modified = convert.time_of(header.get("updated"), 1e-3)
        times = {"created": created, "modified": modified or created or item.header["modified"]}
        name = item.path[: -len(".md")]
        beside = posixpath.dirname(name)
        text = replace_outside_code(_MARKUP, lambda match: self._written(match, beside), item.text)
        text = _MILLISECONDS.sub("", text, 2)
        text = _EMPTY_DESCRIPTION.sub("", text, 1) if header.get("desc") in ("", None) else text
        text = re.sub(r"\Aid: .*\n|(?<=\A---\n)id: .*\n", "", text)
        tag = posixpath.basename(name).removeprefix("tags.")
        tags = {"tags": [tag]} if posixpath.basename(name).startswith("tags.") else {}
        key = convert.unique_key_or(self._keys, str(header.get("id") or item.key), item.key)
        return ImportedNote(key, item.path, text, times | tags, (name,))

    def _written(self, markup: re.Match[str], beside: str) -> str:
        if markup[2]:
            return self._linked(markup, beside)
        return self._user(markup, beside) if markup[3] else ""

    def _linked(self, link: re.Match[str], beside: str) -> str:
        label, separator, target = link[2].rpartition("|")
        name, _, anchor = target.strip().partition("#")
        # An embed may have a range after a colon and an offset after a comma.
        anchor = re.split(r"[:,]", anchor, maxsplit=1)[0] if link[1] else anchor
        anchor = "" if anchor.strip() in ("", "*") else f"#{anchor}"
        path = self._path(name, beside)
        self._counts.converted("note reference" if link[1] else "link")
        shown = f"|{label.strip()}" if separator and not link[1] else ""
        return f"{link[1]}[[{path}{anchor}{shown}]]"

    def _path(self, name: str, beside: str) -> str:
        """Return a note's name, with its folder if several vaults have the name."""
        vault = _OTHER_VAULT.fullmatch(name)
        wished = self._vaults.get(vault[1], vault[1]) if vault else beside
        name = vault[2] if vault else name
        paths = self._paths.get(name.casefold(), [])
        if not vault and len(paths) < 2:
            return name
        near = [path for path in paths if path.startswith(f"{wished}/" if wished else "")]
        return next(iter(near or paths), name)

    def _user(self, user: re.Match[str], beside: str) -> str:
        name = user[3].rstrip(".-")
        if f"user.{name}".casefold() not in self._paths:
            return user[0]
        self._counts.converted("user")
        rest = user[3][len(name) :]
        return f"[[{self._path(f'user.{name}', beside)}|@{name}]]{rest}"
