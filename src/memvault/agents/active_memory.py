"""Keep the few memories that an agent has in its context, within a token budget.

The set is a list of excerpts in the agent's private folder, least recently used first. Content
stays in the vault's files: an excerpt records the memory, the loaded part, and how many tokens that
part had at the last refresh. Excerpts are refreshed whenever the set is changed or listed.

Every operation acquires the agent's lock first. Indexing to find a moved file can take a long time,
so it is done before the lock is acquired.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from memvault.agents.address import Address, agent_lock
from memvault.errors import Ambiguous, MemvaultError, NotFound, Refused, StorageError, UsageError
from memvault.files import atomic, plain_files
from memvault.index.embedding import tokenizer
from memvault.model import Memory
from memvault.named_tuple import NamedTuple
from memvault.recall import resolve
from memvault.recall.recall_engine import RecallEngine
from memvault.store.memory_store import MemoryStore
from memvault.vault.paths import resolve_inside

MAX_LENGTH = 20_000
"""Maximum number of characters that one load adds to active memory."""


class ActiveExcerpt(NamedTuple):
    """A part of a memory in active memory.

    Lengths are in characters: ``wanted`` is the requested length (0 for all), and ``total`` is the
    length of the complete memory.
    """

    mem_id: str
    path: str
    title: str
    etag: str
    offset: int
    wanted: int
    length: int
    total: int
    tokens: int

    @property
    def aliases(self) -> tuple[str, ...]:
        """Always empty, because the set stores only titles."""
        return ()


class ActiveSet(NamedTuple):
    """The current set, least recently used first, and the excerpts that a refresh removed.

    ``missing`` lists excerpts whose memory is no longer in the vault. If a loaded memory's file was
    moved and several files have its memId, ``duplicate_ids`` lists these files, and the excerpt
    stays unchanged.
    """

    pieces: list[ActiveExcerpt]
    evicted: list[ActiveExcerpt]
    missing: list[ActiveExcerpt]
    duplicate_ids: Mapping[str, list[str]] = {}

    def notes(self) -> list[str]:
        """Return warnings about memories that are missing or whose id is in several files."""
        return [
            f"{piece.mem_id} is no longer in the vault and was removed from active memory"
            for piece in self.missing
        ] + [
            f"{len(paths)} files have the memory id {mem_id}; active memory skips it until only "
            f"one has it: {', '.join(paths)}"
            for mem_id, paths in self.duplicate_ids.items()
        ]


class ActiveMemory:
    """The active memory of one agent or sub-brain, stored in its private folder."""

    def __init__(self, store: MemoryStore, engine: RecallEngine, owner: Address) -> None:
        self._store = store
        self._engine = engine
        self._owner = owner
        self._file = owner.private(store.root) / "active.json"
        self._budget = store.settings.active.budget

    def refresh(self) -> ActiveSet:
        """Return the refreshed set, and save it unless the vault cannot be written."""
        if not self._file.is_file():
            return ActiveSet([], [], [])
        try:
            return self._update(lambda pieces: pieces)
        except StorageError:
            return self._refreshed(self._read())

    def text(self, piece: ActiveExcerpt) -> str:
        """Return an excerpt's current text; empty if its memory is missing or has duplicates."""
        with contextlib.suppress(Ambiguous):
            if memory := self._read_memory(piece):
                return _content(memory)[piece.offset : piece.offset + piece.length]
        return ""

    def load(
        self, memory: Memory, offset: int = 0, wanted: int = 0
    ) -> tuple[ActiveExcerpt, str, ActiveSet]:
        """Load a part of a memory in place of its loaded part, and evict other memories if needed.

        Returns the excerpt, its text, and the resulting set.

        Raises:
            UsageError: the memory ends before ``offset``.
        """
        piece, text = self.cut(memory, offset, wanted)
        return piece, text, self._update(lambda pieces: [*_without(pieces, piece.mem_id), piece])

    def evict(self, name: str) -> ActiveExcerpt:
        """Remove a memory from the set.

        Raises:
            NotFound: the memory is not in the set.
        """
        self._resolve(self._read(), name)
        with self._locked():
            pieces = self._read()
            piece = self._resolve(pieces, name)
            self._write(_without(pieces, piece.mem_id))
            return piece

    def mutate(self, name: str, change: Callable[[Memory], Memory]) -> ActiveSet:
        """Change a memory in the set, and load all of it.

        Raises:
            NotFound: the memory is not in the set.
        """
        self._read_by_name(name)
        with self._locked():
            excerpt, _ = self.cut(change(self._read_by_name(name)), 0, 0)
        return self._update(lambda pieces: [*_without(pieces, excerpt.mem_id), excerpt])

    def _read_by_name(self, name: str) -> Memory:
        """Read a memory in the set.

        Raises:
            NotFound: the memory is not in the set, or not in the vault.
        """
        piece = self._resolve(self._read(), name)
        memory = self._read_memory(piece)
        if memory is None:
            raise NotFound(
                f"{piece.mem_id} is no longer in the vault",
                "restore it from the trash with `memvault restore`",
            )
        return memory

    def _locked(self) -> AbstractContextManager[None]:
        return self._engine.fresh_under(agent_lock(self._store.root, self._owner))

    def _update(self, change: Callable[[list[ActiveExcerpt]], list[ActiveExcerpt]]) -> ActiveSet:
        """Change the set, refresh it and save it."""
        before = self._read()
        active = self._refreshed(change(before))
        if active.pieces == before:
            return active
        with self._locked():
            now = self._read()
            if now != before:
                active = self._refreshed(change(now))
            if active.pieces != now:
                self._write(active.pieces)
            return active

    def _refreshed(self, pieces: list[ActiveExcerpt]) -> ActiveSet:
        """Refresh excerpts from their files, then evict some to fit the budget."""
        fresh: list[ActiveExcerpt] = []
        missing: list[ActiveExcerpt] = []
        duplicates: dict[str, list[str]] = {}
        for piece in pieces:
            try:
                memory = self._read_memory(piece)
            except Ambiguous as error:
                duplicates[piece.mem_id] = sorted(entry["filePath"] for entry in error.candidates())
                fresh.append(piece)
                continue
            except StorageError:  # It exists but is currently unreadable.
                fresh.append(piece)
                continue
            if memory is None:
                missing.append(piece)
            elif memory.etag == piece.etag and piece.tokens <= self._budget:
                fresh.append(piece._replace(path=memory.path, title=memory.title))
            else:
                offset = min(piece.offset, max(0, len(_content(memory)) - 1))
                fresh.append(self.cut(memory, offset, piece.wanted)[0])
        total, evicted_count = sum(piece.tokens for piece in fresh), 0
        while total > self._budget and evicted_count < len(fresh) - 1:
            total -= fresh[evicted_count].tokens
            evicted_count += 1
        return ActiveSet(fresh[evicted_count:], fresh[:evicted_count], missing, duplicates)

    def cut(self, memory: Memory, offset: int, wanted: int) -> tuple[ActiveExcerpt, str]:
        """Return the longest excerpt that the request, ``MAX_LENGTH`` and the budget allow.

        Raises:
            UsageError: the memory ends before ``offset``.
        """
        content = _content(memory)
        if offset and offset >= len(content):
            raise UsageError(
                f"{memory.mem_id} ends before offset {offset}: it has {len(content)} characters",
                "use a smaller offset",
            )
        text = content[offset : offset + min(wanted or MAX_LENGTH, MAX_LENGTH)]
        text = text[: tokenizer.prefix_within(text, self._budget)]
        piece = ActiveExcerpt(
            mem_id=memory.mem_id,
            path=memory.path,
            title=memory.title,
            etag=memory.etag,
            offset=offset,
            wanted=wanted,
            length=len(text),
            total=len(content),
            tokens=max(1, tokenizer.count_tokens(text)),
        )
        return piece, text

    def _resolve(self, pieces: list[ActiveExcerpt], name: str) -> ActiveExcerpt:
        """Return the excerpt of the memory that a name refers to in the entire vault.

        If the name matches several memories, the one in the set is chosen. If the vault has no
        match, the name is compared with titles and paths from the last refresh, and with prefixes
        of memIds.
        """
        mem_id = resolve.normalize(name)
        by_name = resolve.match_name(mem_id, pieces)
        if [piece.mem_id for piece in by_name] == [mem_id]:
            return by_name[0]
        try:
            mem_id = self._engine.names.resolve(name).mem_id
            matches = [piece for piece in pieces if piece.mem_id == mem_id]
        except Ambiguous as error:
            candidate_ids = {entry["memId"] for entry in error.candidates()}
            matches = [piece for piece in by_name if piece.mem_id in candidate_ids]
            if not matches:
                raise
        except NotFound:
            matches = by_name
            if not matches:
                mem_id = self._engine.names.resolve_similar(name, partial=False).mem_id
                matches = [piece for piece in pieces if piece.mem_id == mem_id]
        if not matches:
            hint = f"load it with `memvault load {mem_id}`"
            raise NotFound(f"{mem_id} is not in active memory", hint)
        if len(matches) > 1:
            candidates = [
                {"memId": piece.mem_id, "title": piece.title, "filePath": piece.path}
                for piece in matches
            ]
            raise Ambiguous(
                f"{mem_id!r} matches {len(matches)} memories in active memory",
                "use one of their memory ids",
                {"candidates": candidates},
            )
        return matches[0]

    def _read_memory(self, piece: ActiveExcerpt) -> Memory | None:
        """Read the memory of an excerpt, even if its file was moved; None if it is missing.

        Raises:
            Ambiguous: its file was moved, and several files have its memId.
        """
        with contextlib.suppress(NotFound):
            if not self._store.settings.exclusions.covers(piece.path):
                memory = self._store.read(piece.path)
                if memory.mem_id == piece.mem_id:
                    return memory
        try:
            memory = self._engine.names.resolve(piece.mem_id)
        except Ambiguous as error:
            if all(entry["memId"] != piece.mem_id for entry in error.candidates()):
                return None
            raise
        except NotFound:
            return None
        return memory if memory.mem_id == piece.mem_id else None

    def _read(self) -> list[ActiveExcerpt]:
        """Load the set; entries that are not valid excerpts from this vault are left out."""
        entries = plain_files.read_json(self._file).get("pieces")
        pieces = map(self._parse_excerpt, entries if isinstance(entries, list) else [])
        return [piece for piece in pieces if piece is not None]

    def _parse_excerpt(self, entry: Any) -> ActiveExcerpt | None:
        with contextlib.suppress(TypeError, MemvaultError):
            piece = ActiveExcerpt(**entry)
            values: list[object] = list(piece)
            if (
                all(type(text) is str and text for text in values[:4])
                and all(type(number) is int and number >= 0 for number in values[4:])
                and self._store.may_list(piece.path)
                and resolve_inside(self._store.root, piece.path) == piece.path
            ):
                return piece
        return None

    def _write(self, pieces: list[ActiveExcerpt]) -> None:
        document = {"version": 1, "pieces": [piece._asdict() for piece in pieces]}
        data = json.dumps(document, indent=1).encode()
        if self._file.is_symlink():
            raise Refused(f"{self._file} is a link", "remove the link")
        if self._file.exists():
            atomic.replace(self._file, data)
        else:
            atomic.create(self._file, data)


def _without(pieces: list[ActiveExcerpt], mem_id: str) -> list[ActiveExcerpt]:
    return [piece for piece in pieces if piece.mem_id != mem_id]


def _content(memory: Memory) -> str:
    """Return a memory's body without surrounding blank lines; offsets refer to this text."""
    return memory.body.strip("\r\n")
