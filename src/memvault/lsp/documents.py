"""Find an open file's vault, and its memories and links including unsaved texts."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from memvault import clock
from memvault.call import LOCAL, Call
from memvault.errors import NotFound, VaultNotFound
from memvault.files.plain_files import FileStamp, stamp_of
from memvault.index.protocol import LinkEntry, MemoryRecord, View, latest_first
from memvault.lsp.positions import TextLines
from memvault.memories import tagging
from memvault.memories.link_graph import LinkGraph
from memvault.model import FileState, Memory
from memvault.named_tuple import NamedTuple
from memvault.recall.resolve import match_wikilink
from memvault.sanitize import escape_line, replace_surrogates, shorten
from memvault.settings import locate
from memvault.store.memory_store import MemoryStore
from memvault.tools.core.invoke import require_local_files
from memvault.vault import decoding, paths
from memvault.vault.document import with_line_feeds
from memvault.vault.front_matter import FrontMatter, split_front_matter
from memvault.vault.names import link_path, name_key, normalize_title
from memvault.workspace import Workspace

MAX_TEXT = 2_000_000
"""Maximum length of an unsaved text in characters; for longer ones, the file is used."""
MAX_NAME = 300
"""Maximum length in characters of a name that is listed or linked to."""
_MAX_COMPARED = 10
"""Maximum number of memories with the same name, ignoring case, that completion compares."""
MAX_SECRET = 20_000
"""Number of characters searched for secrets if only the beginning of a text is shown."""
_CALLER = LOCAL._replace(may_run_programs=False, scope="read", sees_worktrees=False)


class Buffer(NamedTuple):
    """An open file as the editor shows it: its URI, version and text."""

    uri: str
    version: int | None
    text: str


def file_of(uri: str) -> str | None:
    """Return the path in a ``file:`` URI, or None for any other URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path, errors="surrogateescape")
    is_local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return path if is_local and path.startswith("/") and "\0" not in path else None


def _unsaved_state(path: str, data: bytes) -> FileState:
    now = int(clock.now().timestamp() * 1e9)
    return FileState(path, len(data), now, now, 0)


class BufferedStore(MemoryStore):
    """A read-only store of a vault's memories that uses unsaved texts instead of files."""

    def __init__(self, store: MemoryStore, texts: Mapping[str, bytes]) -> None:
        super().__init__(
            store.root,
            store.settings,
            open_dates=lambda: store.dates,
            open_documents=lambda: store.documents,
        )
        self._unsaved = texts

    def read_bytes(self, path: str) -> tuple[bytes, FileState]:
        """Return a file's bytes, or its unsaved text, and its state."""
        data = self._unsaved.get(path)
        return super().read_bytes(path) if data is None else (data, _unsaved_state(path, data))

    def require_writable(self, path: str) -> None:
        """Check a file that the editor has not opened."""
        if path not in self._unsaved:
            super().require_writable(path)


class IndexedNames:
    """The records and links of all saved memories, with the names that completion searches."""

    def __init__(self, view: View) -> None:
        self.missing = view.missing
        self.records = {record.uid: record for record in latest_first(view.records())}
        self.links = view.links()
        self.uids = {record.path: uid for uid, record in self.records.items()}

    @cached_property
    def names(self) -> list[CompletionName]:
        """The names of all memories, latest first."""
        return [name for record in self.records.values() for name in completion_names(record)]

    @cached_property
    def counts(self) -> Counter[str]:
        """The number of memories with each name, by ``name_key``."""
        return Counter(name for entry in self.links.values() for name in entry.names)

    @cached_property
    def shared(self) -> dict[str, list[int]]:
        """The uids of the memories that share a name, by ``name_key``."""
        shared: dict[str, list[int]] = {}
        for uid, entry in self.links.items():
            for name in entry.names:
                if self.counts[name] > 1:
                    shared.setdefault(name, []).append(uid)
        return shared

    @cached_property
    def tags(self) -> list[tagging.TagCount]:
        """All tags with their counts, the most frequent first."""
        counts = tagging.counted(self.records.values())
        return sorted(counts, key=lambda count: (-count.memories, count.tag))

    @cached_property
    def header_values(self) -> dict[str, Counter[str | int | float | bool]]:
        """The short values of each header key, with their counts."""
        values: dict[str, Counter[str | int | float | bool]] = {}
        for record in self.records.values():
            for key, value in record.metadata.items():
                counts = values.setdefault(key, Counter())
                for entry in value if isinstance(value, list) else [value]:
                    is_short = isinstance(entry, str) and 0 < len(entry) <= 60
                    if is_short or isinstance(entry, int | float):
                        counts[entry] += 1
        return values


class CompletionName(NamedTuple):
    """A memory's name, and the normalized text that a search compares."""

    folded: str
    name: str
    kind: str
    record: MemoryRecord


def completion_names(record: MemoryRecord) -> Iterator[CompletionName]:
    """Yield the title, aliases and path of a memory."""
    path = link_path(record.path)
    aliases = (("alias", alias) for alias in record.aliases)
    for kind, name in (("title", record.title), *aliases, ("path", path)):
        if len(name) <= MAX_NAME:
            yield CompletionName(normalize_title(name), name, kind, record)


class EditorState:
    """A snapshot of a vault's memories and links that uses unsaved texts instead of files.

    ``unsaved`` contains the memories of these texts by path, and ``buffers`` all open files.
    ``shown_root`` is the vault's folder as the editor spells it, which may contain links.
    """

    def __init__(
        self,
        call: Call,
        saved: IndexedNames,
        unsaved: Mapping[str, Memory],
        store: BufferedStore,
        shown_root: str,
    ) -> None:
        self.call = call
        self.saved = saved
        self.unsaved = unsaved
        self.store = store
        self.buffers: Mapping[str, Buffer] = {}
        self._shown_root = shown_root
        self._replaced = {saved.uids[path] for path in unsaved if path in saved.uids}
        memories = dict(enumerate(unsaved.values(), start=1))
        self._added = {
            -number: MemoryRecord.from_memory(-number, len(memory.body), memory, "")
            for number, memory in memories.items()
        }
        self._added_links = {
            -number: LinkEntry.from_memory(memory) for number, memory in memories.items()
        }

    @cached_property
    def graph(self) -> LinkGraph:
        """The links between all memories."""
        links = {uid: entry for uid, entry in self.saved.links.items() if uid not in self._replaced}
        records = self.saved.records
        return LinkGraph(
            {**links, **self._added_links}, lambda uid: self._added.get(uid) or records.get(uid)
        )

    def record_at(self, path: str) -> MemoryRecord | None:
        """Return the record of the memory at a path, or None."""
        added = (record for record in self._added.values() if record.path == path)
        return next(added, None) or self.saved.records.get(self.saved.uids.get(path, 0))

    def names(self) -> Iterator[CompletionName]:
        """Yield the names of all memories."""
        for record in self._added.values():
            yield from completion_names(record)
        for name in self.saved.names:
            if name.record.uid not in self._replaced:
                yield name

    def leads_only_to(self, name: str, record: MemoryRecord) -> bool:
        """Return whether a wikilink with this name of a memory refers only to that memory."""
        key, links = name_key(name), self.saved.links
        replaced = sum(key in links[uid].names for uid in self._replaced)
        added = [uid for uid, entry in self._added_links.items() if key in entry.names]
        count = self.saved.counts[key] - replaced + len(added)
        if not 1 < count <= _MAX_COMPARED:
            return count == 1
        saved = (uid for uid in self.saved.shared.get(key, ()) if uid not in self._replaced)
        records = [self._added[uid] for uid in added]
        records += [self.saved.records[uid] for uid in saved]
        return [match.path for match in match_wikilink(name, records)] == [record.path]

    def is_clean(self, text: str) -> bool:
        """Return whether a text contains no secrets."""
        return not self.call.settings.detector.find(text)

    def mask(self, text: str) -> str:
        """Return a short text of any memory on one line, with its secrets masked."""
        masked = self.call.settings.detector.masked(text[:MAX_SECRET])
        return escape_line(shorten(masked, MAX_NAME))

    def text_of(self, path: str) -> str:
        """Return the text of a file as the editor shows it."""
        buffer = self.buffers.get(path)
        if buffer is not None:
            return buffer.text
        return decoding.decode(self.store.read_bytes(path)[0], self.store.settings.encoding).text

    def uri(self, path: str) -> str:
        """Return the URI of a file as the editor spells it."""
        buffer = self.buffers.get(path)
        return buffer.uri if buffer is not None else Path(self._shown_root, path).as_uri()


class EditorDocument(NamedTuple):
    """A memory that is open in the editor: its text in lines and in parts."""

    state: EditorState
    path: str
    lines: TextLines
    parts: FrontMatter
    memory: Memory

    @property
    def text(self) -> str:
        """The complete text."""
        return self.lines.text

    @property
    def body_start(self) -> int:
        """The body's offset."""
        return len(self.text) - len(self.parts.body)

    def line_at(self, offset: int) -> tuple[int, int]:
        """Return the start and end of the line at an offset."""
        return self.lines.span(self.lines.line_number(offset))


class EditorVault:
    """One vault with files that are open in the editor; see ``EditorState``."""

    def __init__(self, root: Path, shown_root: str) -> None:
        self.root = root
        self._shown_root = shown_root
        self.workspace = Workspace(root, long_lived=True)
        self._saved: tuple[object, IndexedNames] | None = None
        self._unsaved: dict[str, tuple[str, FileStamp | None, Memory | None]] = {}
        self._state: EditorState | None = None

    def state(self, buffers: Mapping[str, Buffer], complete: bool = False) -> EditorState:
        """Return the current state of the vault with the editor's texts.

        Raises:
            MemvaultError: the vault cannot be read, or with ``complete``, another process is
                still indexing it after a minute.
        """
        self.workspace.refresh_settings()
        call = Call(self.workspace, _CALLER, read_only=not complete)
        require_local_files(call, "the language server")
        saved = call.engine.on_view(self._indexed)
        read = {path: self._unsaved_memory(call, path, buffers[path].text) for path in buffers}
        unsaved = {path: memory for path, memory in read.items() if memory is not None}
        state, settings = self._state, call.settings
        if (
            state is None
            or (state.saved, state.unsaved) != (saved, unsaved)
            or state.store.settings is not settings
        ):
            texts = {path: buffers[path].text.encode() for path in unsaved}
            store = BufferedStore(call.store, texts)
            state = EditorState(call, saved, unsaved, store, self._shown_root)
        state.call, state.buffers = call, buffers
        self._state = state
        return state

    def _indexed(self, view: View) -> IndexedNames:
        state = view.state
        if self._saved is None or state is None or self._saved[0] != state:
            self._saved = state, IndexedNames(view)
        return self._saved[1]

    def _unsaved_memory(self, call: Call, path: str, text: str) -> Memory | None:
        """Return the memory in an open text; None if the text equals the file or is too large."""
        stamp = stamp_of(self.root / path)
        known = self._unsaved.get(path)
        if known is not None and known[:2] == (text, stamp):
            return known[2]
        memory = None
        if len(text) <= MAX_TEXT:
            stored = None
            with contextlib.suppress(NotFound):
                stored = decoding.decode(call.store.read_bytes(path)[0], call.settings.encoding)
            if stored is None or with_line_feeds(stored.text) != with_line_feeds(text):
                data = text.encode()
                memory = call.store.parse(data, _unsaved_state(path, data))
        self._unsaved[path] = text, stamp, memory
        return memory

    def free_memory(self) -> None:
        """Release cached data, which the next request reloads."""
        self._saved = self._state = None
        self._unsaved.clear()
        self.workspace.free_memory()


class EditorVaults:
    """The vaults of the files that are open in the editor.

    With ``only``, files outside that vault are not served. Otherwise the vault of a file is the
    nearest one above it, as on the command line.
    """

    def __init__(self, only: Path | None) -> None:
        self._only = only
        self._open: dict[Path, EditorVault] = {}

    def find(self, uri: str) -> tuple[EditorVault, str] | None:
        """Return the vault of a file and the path in it; None unless the file can be a memory.

        Raises:
            MemvaultError: the vault is not trusted, or its settings cannot be read.
        """
        file = file_of(uri)
        if file is None:
            return None
        real = Path(os.path.realpath(file))
        root = self._only or locate.vault_above(real.parent)
        if root is None or not real.is_relative_to(root):
            return None
        path = real.relative_to(root).as_posix()
        if root not in self._open:
            shown_root = file.removesuffix(f"/{path}") if file.endswith(f"/{path}") else str(root)
            self._open[root] = EditorVault(root, shown_root)
        vault = self._open[root]
        vault.workspace.refresh_settings()
        is_memory = paths.is_memory(path, vault.workspace.settings.exclusions)
        return (vault, path) if is_memory else None

    def all(self) -> list[EditorVault]:
        """Return the open vaults, except deleted ones."""
        for root, vault in list(self._open.items()):
            try:
                vault.workspace.refresh_settings()
            except VaultNotFound:
                self._open.pop(root).workspace.close()
        return list(self._open.values())

    def state(
        self, vault: EditorVault, open_files: Mapping[str, Buffer], complete: bool = False
    ) -> EditorState:
        """Return the state of a vault with all open files; see ``EditorVault.state``."""
        buffers: dict[str, Buffer] = {}
        for buffer in open_files.values():
            place = self.find(buffer.uri)
            if place is not None and place[0] is vault:
                buffers[place[1]] = buffer._replace(text=replace_surrogates(buffer.text))
        return vault.state(buffers, complete)

    def open(
        self, uri: str, open_files: Mapping[str, Buffer], encoding: str, complete: bool = False
    ) -> EditorDocument | None:
        """Return an open memory; None if the file is not a memory or is too large to parse."""
        place = self.find(uri)
        if place is None:
            return None
        vault, path = place
        state = self.state(vault, open_files, complete)
        buffer = state.buffers.get(path)
        if buffer is None or len(buffer.text) > MAX_TEXT:
            return None
        memory = state.unsaved.get(path) or state.store.read(path)
        parts = split_front_matter(buffer.text)
        lines = TextLines(buffer.text, encoding)
        return EditorDocument(state, path, lines, parts, memory._replace(body=parts.body))

    def free_memory(self) -> None:
        """Release cached data, which the next request reloads."""
        for vault in self._open.values():
            vault.free_memory()
