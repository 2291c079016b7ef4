"""The kinds of sources that can be imported, and their recognition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from memvault.errors import MemvaultError, UsageError
from memvault.importers import claims, records
from memvault.importers.items import UNCLAIMED, Counted, ImportedNote, Item, Noted, Unreadable
from memvault.importers.source import Source

MAX_RESTARTS = 20
"""The maximum number of files of a source that may fail; after that, the remaining files are left
out."""
_MAX_PARTS = 50
"""Maximum number of folders, and of files, of a folder that are recognised by themselves."""
_MIN_FILES = 3
"""Minimum number of files of a folder that is recognised in another one."""
REST = "the rest cannot be read"
FOLDER = "folder"
NO, POSSIBLE, LIKELY, SURE, OWN = range(5)
"""How sure a kind is that a source is its own; ``OWN`` is for what memvault itself wrote."""


class SeenItems:
    """The items that were read, so that a reader which starts again yields no item twice."""

    def __init__(self) -> None:
        self._before: set[int] = set()
        self._now: set[int] = set()

    def is_new(self, item: Item) -> bool:
        """Return whether an item was not read before the last restart, and note it."""
        if isinstance(item, ImportedNote):
            identity = hash((item.key, item.path))
        elif isinstance(item, Unreadable | Noted | Counted):
            identity = hash(item)
        else:
            identity = hash(item.path)
        self._now.add(identity)
        return identity not in self._before

    def restart(self) -> None:
        """Begin to read from the start."""
        self._before |= self._now


class Kind(NamedTuple):
    """A kind of source: its name, its title, what a user names, its default folder in the vault.

    ``module`` is its module in this package. With ``has_names``, the ids of its items are names,
    such as paths, which those of another source may have too.
    """

    name: str
    title: str
    needs: str
    folder: str
    module: str
    has_names: bool = False

    def recognise(self, source: Source) -> int:
        """Return how sure the kind is that a source is its own."""
        found: int = self._module.recognise(source)
        return found

    def claims(self, source: Source) -> frozenset[str]:
        """Return the names of the files that the kind reads, or knows to have no notes."""
        return frozenset(self._module.claims(source))

    def read(self, source: Source) -> Iterator[Item]:
        """Yield the items of a source, its unreadable and noted parts, and its other files.

        If reading a file fails unexpectedly, the rest of this file is left out, and the others are
        read. A stranger's source is read in a process of its own (``reader_process``).

        Raises:
            UsageError: the kind claims none of the source's files.
        """
        claimed = self.claims(source)
        if source.names and not claimed and not source.left_out:
            reason = f"{source.path} contains no {self.name} files"
            raise UsageError(reason, f"--from {self.name} needs {self.needs}")
        seen = SeenItems()
        while True:
            source.tally.clear()
            source.noted.clear()
            try:
                for item in self._module.read(source):
                    if seen.is_new(item):
                        yield self._with_name(item, source)
            except MemvaultError:
                raise
            except Exception as error:
                name = source.current
                yield Unreadable(name or source.label, f"{REST}: {records.reason_of(error)}")
                source.leave_out(name)
                seen.restart()
                if source.names and name and len(source.left_out) < MAX_RESTARTS:
                    continue
            break
        yield from source.skipped
        yield from source.noted
        for name in claims.missed(source, claimed):
            yield Unreadable(name, UNCLAIMED)
        yield from source.tally.items()

    def _with_name(self, item: Item, source: Source) -> Item:
        if self.has_names and isinstance(item, ImportedNote):
            return item._replace(key=f"{source.label}/{item.key}")
        return item

    @property
    def _module(self) -> Any:
        return import_module(f"memvault.importers.{self.module}")


KINDS = (
    Kind(
        "memvault",
        "Another vault",
        "its folder, a zip of it, or its export as JSON lines",
        ".",
        "memvault",
    ),
    Kind(
        FOLDER,
        "A folder of markdown files",
        "the folder, or a zip of it",
        "imported/notes",
        "folder",
        has_names=True,
    ),
    Kind(
        "mnemonics",
        "opencode-historian's memories",
        "the project's folder, or its .mnemonics",
        ".",
        "mnemonics",
        has_names=True,
    ),
    Kind(
        "basic-memory",
        "Basic Memory",
        "its folder of notes, or memory.db",
        "imported/basic-memory",
        "basic_memory",
        has_names=True,
    ),
    Kind(
        "mcp-memory",
        "The MCP reference server's knowledge graph",
        "memory.jsonl",
        "imported/mcp-memory",
        "mcp_memory",
        has_names=True,
    ),
    Kind(
        "mem0",
        "mem0",
        "its JSON export, or its folder with history.db or a local Qdrant",
        "imported/mem0",
        "mem0",
    ),
    Kind(
        "agent-zero",
        "Agent Zero's memory",
        "its folder memory, with index.pkl",
        "imported/agent-zero",
        "agent_zero",
    ),
    Kind(
        "claude-memory",
        "Claude's memory files",
        "CLAUDE.md, ~/.claude, or a folder memories",
        "imported/claude-memory",
        "claude_memory",
        has_names=True,
    ),
    Kind(
        "claude",
        "Claude's data export",
        "the zip from claude.ai, or conversations.json",
        "imported/claude",
        "claude",
    ),
    Kind(
        "chatgpt",
        "ChatGPT's data export",
        "the zip, or conversations.json",
        "imported/chatgpt",
        "chatgpt",
    ),
    Kind(
        "claude-code",
        "Claude Code's sessions",
        "~/.claude/projects, a project's folder in it, or a session",
        "episode",
        "claude_code",
    ),
    Kind(
        "codex",
        "Codex's sessions",
        "~/.codex/sessions, or a rollout-….jsonl",
        "episode",
        "codex",
    ),
    Kind(
        "opencode",
        "OpenCode's sessions",
        "~/.local/share/opencode, or its opencode.db",
        "episode",
        "opencode",
    ),
    Kind(
        "gemini",
        "Gemini CLI's sessions",
        "~/.gemini/tmp, or a session in a folder chats",
        "episode",
        "gemini",
    ),
    Kind(
        "notion",
        "Notion's export",
        "the zip or folder of its export as Markdown & CSV",
        "imported/notion",
        "notion",
    ),
    Kind(
        "evernote",
        "Evernote's export",
        "an .enex file, or a folder of them",
        "imported/evernote",
        "evernote",
        has_names=True,
    ),
    Kind(
        "keep",
        "Google Keep, from Takeout",
        "the zip, or its folder Keep",
        "imported/keep",
        "keep",
        has_names=True,
    ),
    Kind(
        "apple-notes",
        "Apple Notes",
        "the folder of Apple's copy, or of notes exported as markdown",
        "imported/apple-notes",
        "apple_notes",
        has_names=True,
    ),
    Kind(
        "joplin",
        "Joplin",
        "a .jex file, or the folder of its export as RAW",
        "imported/joplin",
        "joplin",
    ),
    Kind(
        "simplenote",
        "Simplenote",
        "the zip of its export, or notes.json",
        "imported/simplenote",
        "simplenote",
    ),
    Kind(
        "standard-notes",
        "Standard Notes",
        "the zip of a decrypted backup, or its file of notes",
        "imported/standard-notes",
        "standard_notes",
    ),
    Kind(
        "textbundle",
        "Bear, and TextBundles of other programs",
        "a .bear2bk file, or .textbundle and .textpack files",
        "imported/textbundle",
        "textbundle",
    ),
    Kind(
        "word",
        "Word documents, such as OneNote's exports",
        "a .docx file, or a folder of them",
        "imported/word",
        "word",
        has_names=True,
    ),
    Kind(
        "bookmarks",
        "A browser's bookmarks",
        "the HTML file, Chrome's or Safari's own file, Firefox's JSON backup",
        "imported/bookmarks",
        "bookmarks",
    ),
    Kind(
        "logseq",
        "A Logseq graph",
        "its folder, with pages and journals",
        "imported/logseq",
        "logseq",
        has_names=True,
    ),
    Kind(
        "dendron",
        "A Dendron vault",
        "its folder, with dendron.yml",
        "imported/dendron",
        "dendron",
        has_names=True,
    ),
    Kind(
        "roam",
        "Roam Research's export",
        "its export as JSON, or a zip of it",
        "imported/roam",
        "roam",
    ),
    Kind(
        "zotero",
        "Zotero's notes and annotations",
        "zotero.sqlite, or the folder with it",
        "imported/zotero",
        "zotero",
    ),
)
_LIST_HINT = "memvault import --kinds lists the kinds and what each needs"


def find(name: str) -> Kind:
    """Return the kind with a name.

    Raises:
        UsageError: there is none; the hint names similar ones.
    """
    from difflib import get_close_matches

    for kind in KINDS:
        if kind.name == name.strip().lower():
            return kind
    near = get_close_matches(name.lower(), [kind.name for kind in KINDS], n=1)
    hint = f"did you mean {near[0]}?" if near else _LIST_HINT
    raise UsageError(f"There is no kind {name!r} of source to import", hint)


class Recognition(NamedTuple):
    """The kind of a source, how many of its note files the kind claims, and how many it has."""

    kind: Kind
    covered: int
    total: int

    @property
    def is_partial(self) -> bool:
        """Whether the kind claims less than half of the note files."""
        return self.covered * 2 < self.total


def in_sentence(kind: Kind) -> str:
    """Return the title of a kind as it is within a sentence."""
    article, _, rest = kind.title.partition(" ")
    return f"{article.lower()} {rest}" if article in ("A", "The", "Another") else kind.title


def import_command(path: Path, kind: Kind | None = None) -> str:
    """Return the command that imports a source, for people; as a kind if it is given."""
    import shlex

    option = f" --from {kind.name}" if kind is not None else ""
    return f"`memvault import {shlex.quote(str(path))}{option}`"


def recognition(source: Source) -> Recognition:
    """Return the kind of a source, and how much of it the kind claims.

    All of it counts as claimed unless the source may be a folder of markdown as well.

    Raises:
        UsageError: no kind or several fit; the message names those.
    """
    kind = recognised(source)
    claimed = kind.claims(source)
    if kind.name == FOLDER:
        parts = _exports_in(source)
        if any(part.is_dir() for part in parts):
            raise _several(source, parts)
    elif find(FOLDER).recognise(source) != NO:
        found = Recognition(kind, *claims.coverage(source, claimed))
        if found.is_partial and len(parts := _exports_in(source)) > 1:
            raise _several(source, parts)
        return found
    return Recognition(kind, len(claimed), len(claimed))


def _exports_in(source: Source) -> list[Path]:
    """Return the folders and files directly in a folder that each are one program's export.

    Of a folder the program must have written most files, and several.
    """
    from memvault.importers.archives import open_source

    if not source.path.is_dir():
        return []
    parts: list[Path] = []
    folders = {name.partition("/")[0] for name in source.visible if "/" in name}
    names = {name for name in source.visible if "/" not in name and not claims.is_text(name)}
    for name in sorted(folders)[:_MAX_PARTS] + sorted(names)[:_MAX_PARTS]:
        with suppress(MemvaultError), closing(open_source(str(source.path / name))) as part:
            sure = [kind for kind in KINDS if kind.recognise(part) == SURE]
            claimed = len(sure[0].claims(part)) if len(sure) == 1 else 0
            if claimed >= (_MIN_FILES if name in folders else 1) and claimed * 2 >= len(part.names):
                parts.append(source.path / name)
    return parts


def _several(source: Source, parts: list[Path]) -> UsageError:
    """Return the error for a folder with exports of other programs."""
    commands = [import_command(part) for part in parts]
    listed = " and ".join(filter(None, (", ".join(commands[:-1]), commands[-1])))
    everything = import_command(source.path, find(FOLDER))
    return UsageError(
        f"{source.path} contains exports of other programs",
        f"{listed} {'import' if commands[1:] else 'imports'} them; "
        f"{everything} imports all as a folder of markdown",
    )


def recognised(source: Source) -> Kind:
    """Return the kind of a source.

    Raises:
        UsageError: no kind or several fit; the message names those.
    """
    if not source.names and source.skipped:
        what, reason = source.skipped[0]
        raise UsageError(f"Nothing in {source.path} can be read: {what}: {reason}", _LIST_HINT)
    sureness = {kind: kind.recognise(source) for kind in KINDS}
    best = max(sureness.values())
    fitting = [kind for kind, found in sureness.items() if found == best]
    if best == NO:
        raise UsageError(f"{source.path} is of no kind that can be imported", _LIST_HINT)
    if len(fitting) > 1:
        parts = _exports_in(source)
        if len(parts) > len(fitting) or any(part.is_dir() for part in parts):
            raise _several(source, parts)
        names = " or ".join(kind.name for kind in fitting)
        commands = " and ".join(import_command(source.path, kind) for kind in fitting)
        raise UsageError(f"{source.path} may be {names}", f"run {commands}; each imports a part")
    return fitting[0]
