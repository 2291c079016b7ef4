"""The formats that can be imported; ``detection`` recognizes a source's format."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from importlib import import_module
from typing import Any

from memvault.errors import MemvaultError, UsageError, suggestion
from memvault.importers import claims, records
from memvault.importers.items import (
    UNCLAIMED,
    Attachment,
    ImportedNote,
    Item,
    SkippedItem,
    VaultFile,
)
from memvault.importers.source import Source
from memvault.named_tuple import NamedTuple

MAX_RESTARTS = 20
"""Maximum number of files in a source that may fail; after that, the remaining files are skipped.
"""
REST = "the rest cannot be read"
FOLDER = "folder"
LIST_HINT = "`memvault import --kinds` lists the formats"


class Confidence(IntEnum):
    """The degree of confidence that a source has a format."""

    NO = 0
    POSSIBLE = 1
    LIKELY = 2
    SURE = 3
    OWN = 4
    """The source was written by memvault itself."""

    @classmethod
    def sure_if(cls, condition: object) -> Confidence:
        """Return ``SURE`` if a value is true, else ``NO``."""
        return cls.SURE if condition else cls.NO


class SeenItems:
    """Tracks the items read so far, so that no item is repeated when reading restarts."""

    def __init__(self) -> None:
        self._before: set[int] = set()
        self._now: set[int] = set()

    def is_new(self, item: Item) -> bool:
        """Record an item; return whether it was not read before the last restart."""
        identity = hash(item.path if isinstance(item, Attachment | VaultFile) else item[:2])
        self._now.add(identity)
        return identity not in self._before

    def restart(self) -> None:
        """Start reading from the beginning."""
        self._before |= self._now


class ImportFormat(NamedTuple):
    """A format: its name and module name, its title, and a description of the path to pass."""

    name: str
    title: str
    needs: str

    @property
    def folder(self) -> str:
        """The default target folder in the vault."""
        return _FOLDERS.get(self.name, f"imported/{self.name}")

    @property
    def module_name(self) -> str:
        """The name of the module that reads the format."""
        return self.name.replace("-", "_")

    @property
    def module(self) -> Any:
        """The module that reads the format."""
        return import_module(f"memvault.importers.{self.module_name}")

    def recognize(self, source: Source) -> Confidence:
        """Return how certain it is that a source has this format."""
        if hasattr(self.module, "recognize"):
            return Confidence(self.module.recognize(source))
        return Confidence.sure_if(self.claims(source))

    def claims(self, source: Source) -> frozenset[str]:
        """Return the names of the files that are read, or known to contain no notes."""
        if not hasattr(self.module, "claims"):
            return frozenset(source.visible)
        return frozenset(self.module.claims(source))

    def read(self, source: Source) -> Iterator[Item]:
        """Yield the items of a source, then its skipped parts, warnings and counts.

        If reading a file fails unexpectedly, the rest of this file is skipped, and reading starts
        again. An untrusted source is read in a process with limits (``reader_process``).

        Raises:
            UsageError: if the format claims none of the files.
        """
        claimed = self.claims(source)
        if source.names and not claimed and not source.left_out:
            reason = f"{source.path} contains no {self.name} files"
            raise UsageError(reason, f"`--from {self.name}` needs {self.needs}")
        seen = SeenItems()
        while True:
            source.counts.clear()
            source.warnings.clear()
            try:
                for item in self.module.read(source):
                    if seen.is_new(item):
                        yield self._with_label(item, source)
            except MemvaultError:
                raise
            except Exception as error:
                name = source.current
                yield SkippedItem(name or source.label, f"{REST}: {records.reason_for(error)}")
                source.leave_out(name)
                seen.restart()
                if source.names and name and len(source.left_out) < MAX_RESTARTS:
                    continue
            break
        yield from dict.fromkeys(source.skipped)  # Reading again adds the same parts.
        yield from source.warnings
        for name in claims.missed_files(source, claimed):
            yield SkippedItem(name, UNCLAIMED)
        yield from source.counts.items()

    def _with_label(self, item: Item, source: Source) -> Item:
        if self.name in _KEYED_BY_NAME and isinstance(item, ImportedNote):
            return item._replace(key=f"{source.label}/{item.key}")
        return item


FORMATS = tuple(
    ImportFormat(*row)
    for row in (
        ("memvault", "Another vault", "its folder, a zip of it, or its JSON lines export"),
        ("folder", "A folder of markdown files", "the folder, or a zip of it"),
        ("mnemonics", "opencode-historian's memories", "a project's folder, or its .mnemonics"),
        ("basic-memory", "Basic Memory", "its folder of notes, or memory.db"),
        ("mcp-memory", "The MCP reference server's knowledge graph", "memory.jsonl"),
        ("mem0", "mem0", "its JSON export, or its folder with history.db or a local Qdrant"),
        ("agent-zero", "Agent Zero's memory", "its memory folder, with index.pkl"),
        ("claude-memory", "Claude's memory files", "CLAUDE.md, ~/.claude, or a memories folder"),
        ("claude", "Claude's data export", "the zip from claude.ai, or conversations.json"),
        ("chatgpt", "ChatGPT's data export", "the zip, or conversations.json"),
        ("claude-code", "Claude Code's sessions", "~/.claude/projects, a folder in it, or a file"),
        ("codex", "Codex's sessions", "~/.codex/sessions, or a rollout-….jsonl"),
        ("opencode", "OpenCode's sessions", "~/.local/share/opencode, or its opencode.db"),
        ("gemini", "Gemini CLI's sessions", "~/.gemini/tmp, or a session in a chats folder"),
        ("notion", "Notion's export", "the zip or folder of its Markdown & CSV export"),
        ("evernote", "Evernote's export", "an .enex file, or a folder of them"),
        ("keep", "Google Keep, from Takeout", "the zip, or its Keep folder"),
        ("apple-notes", "Apple Notes", "the folder of Apple's data export, or notes as markdown"),
        ("joplin", "Joplin", "a .jex file, or the folder of its RAW export"),
        ("simplenote", "Simplenote", "the zip of its export, or notes.json"),
        ("standard-notes", "Standard Notes", "the zip of a decrypted backup, or its notes file"),
        ("textbundle", "Bear, and TextBundles", "a .bear2bk, .textbundle or .textpack file"),
        ("word", "Word documents, such as OneNote's exports", "a .docx file, or a folder of them"),
        ("bookmarks", "A browser's bookmarks", "its HTML export, or the browser's own file"),
        ("logseq", "A Logseq graph", "its folder, with pages and journals"),
        ("dendron", "A Dendron vault", "its folder, with dendron.yml"),
        ("roam", "Roam Research's export", "its JSON export, or a zip of it"),
        ("zotero", "Zotero's notes and annotations", "zotero.sqlite, or its folder"),
    )
)
_FOLDERS = {
    **dict.fromkeys(("memvault", "mnemonics"), "."),
    **dict.fromkeys(("claude-code", "codex", "opencode", "gemini"), "episode"),
    FOLDER: "imported/notes",
}
_KEYED_BY_NAME = frozenset(
    "folder mnemonics basic-memory mcp-memory claude-memory evernote keep apple-notes word logseq "
    "dendron".split()
)
"""Formats whose keys are names, such as paths, which may also occur in other sources."""


def find_format(name: str) -> ImportFormat:
    """Return the format with a name.

    Raises:
        UsageError: if there is no such format; the hint suggests a similar one.
    """
    by_name = {entry.name: entry for entry in FORMATS}
    if name.strip().lower() in by_name:
        return by_name[name.strip().lower()]
    hint = suggestion(name.lower(), by_name, LIST_HINT)
    raise UsageError(f"Unknown import format: {name!r}", hint)
