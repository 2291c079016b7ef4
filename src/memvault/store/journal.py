"""The journal: a log of the file changes of every call, as JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from memvault import clock
from memvault.files import atomic, plain_files
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.vault.private_folder import existing_private

_SEGMENT_BYTES = 1024 * 1024
"""Size in bytes at which a new segment is started. All lines of one call go to the same segment,
so a segment can grow larger."""
_SEGMENT_NAME = lazy_pattern(r"([1-9]\d{0,8})\.jsonl", re.ASCII)
_LAST_SEGMENT = 999_999_999
_MAX_TITLE = 200


class Journal:
    """The journal of one vault: a log of changes in JSON lines, split into numbered segments.

    ``sees`` is called with paths relative to the vault. Readers get only the changes whose files
    all pass ``sees``.
    """

    def __init__(self, root: Path, sees: Callable[[str], bool] = lambda _: True) -> None:
        self._root = root
        self._folder = root / ".memvault" / "journal"
        self._sees = sees

    def current_segment(self) -> Path:
        """Return the segment to append to: the last one, or a new one if the last one is full."""
        last = next(self._segments(), None)
        if last is None:
            return self._folder / "1.jsonl"
        number = int(last.stem)
        with contextlib.suppress(OSError):
            if last.stat().st_size >= _SEGMENT_BYTES and number < _LAST_SEGMENT:
                return self._folder / f"{number + 1}.jsonl"
        return last

    def add(self, part: Path, change: JournalEntry) -> None:
        """Append one line for each file in a change to a segment.

        Raises:
            StorageError: the lines cannot be written.
        """
        head = {"id": change.change_id, "when": change.when}
        head |= {"tool": change.tool, "agent": change.agent}
        if change.reverts:
            head["undoes"] = change.reverts
        for entry in change.files:
            shortened = entry._replace(title=entry.title[:_MAX_TITLE])
            line = json.dumps({**head, **shortened._asdict()})
            atomic.append_line(part, line.encode("utf-8", "replace"))

    def changes(self) -> Iterator[JournalEntry]:
        """Yield every visible change, newest first, with the id of the change that undid it."""
        reverted: dict[str, str] = {}
        for segment in self._segments():
            for change in reversed(_read_segment(segment)):
                annotated = change._replace(reverted_by=reverted.get(change.change_id, ""))
                if annotated.reverts and not annotated.reverted_by:
                    reverted[annotated.reverts] = annotated.change_id
                if all(self._sees(entry.path) for entry in annotated.files):
                    yield annotated

    def damaged_lines(self) -> Iterator[tuple[str, int]]:
        """Yield the name of each segment with unreadable lines, and the number of such lines.

        A segment that cannot be read at all counts as one line.
        """
        for segment in self._segments():
            try:
                data = plain_files.read(segment)
            except OSError:
                yield segment.name, 1
                continue
            broken = sum(_parse_line(line) is None for line in data.splitlines() if line.strip())
            if broken:
                yield segment.name, broken

    def prune(self, days: int, max_bytes: int) -> None:
        """Delete the segments that exceed the limits, except the newest one.

        These are segments last written over ``days`` days ago, and the oldest segments beyond
        ``max_bytes`` bytes.
        """
        oldest = clock.now() - timedelta(days=days)
        total_bytes = 0
        for segment in list(self._segments())[1:]:
            with contextlib.suppress(OSError):
                status = segment.stat()
                total_bytes += status.st_size
                if total_bytes > max_bytes or status.st_mtime < oldest.timestamp():
                    segment.unlink()

    def _segments(self) -> Iterator[Path]:
        """Yield the paths of the journal's segments, newest first; none if the folder is a link."""
        folder, names = existing_private(self._root, "journal"), []
        with contextlib.suppress(OSError):
            names = os.listdir(folder) if folder else []
        numbers = (int(match[1]) for name in names if (match := _SEGMENT_NAME.fullmatch(name)))
        for number in sorted(numbers, reverse=True):
            yield self._folder / f"{number}.jsonl"


def _read_segment(part: Path) -> list[JournalEntry]:
    """Return the changes in a segment, oldest first, with the lines of one change merged."""
    try:
        data = plain_files.read(part)
    except OSError:
        return []
    entries: dict[str, JournalEntry] = {}
    files: dict[str, list[FileChange]] = {}
    for line in data.splitlines():
        entry = _parse_line(line)
        if entry is not None:
            entries.setdefault(entry.change_id, entry)
            files.setdefault(entry.change_id, []).extend(entry.files)
    return [change._replace(files=tuple(files[name])) for name, change in entries.items()]


def _parse_line(line: bytes) -> JournalEntry | None:
    """Return the change to one file that a line records, or None if the line is invalid."""
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        return _parse_entry(json.loads(line))
    return None


def _parse_entry(line: dict[str, Any]) -> JournalEntry:
    texts = {key: line[key] for key in ("id", "when", "tool", "agent", "undoes") if key in line}
    file_change = FileChange(**{key: line[key] for key in FileChange._fields})
    if not all(isinstance(value, str) for value in (*texts.values(), *file_change)):
        raise TypeError("not a text")
    if file_change.kind not in KINDS or not texts["id"] or clock.parse(texts["when"]) is None:
        raise ValueError("not a valid journal line")
    return JournalEntry(
        texts["id"],
        texts["when"],
        texts["tool"],
        texts["agent"],
        (file_change,),
        texts.get("undoes", ""),
    )


Kind = Literal["created", "changed", "removed", "forgotten", "restored"]
KINDS: frozenset[str] = frozenset(get_args(Kind))


class FileChange(NamedTuple):
    """One call's change to one file.

    ``before`` is where the previous bytes are stored: the name of a revision, or of a trash folder
    if the file was forgotten or restored; empty if the file was created. ``after`` is the etag of
    the file after the change (in the trash if it was forgotten); empty if the file was removed.
    """

    kind: Kind
    path: str
    mem_id: str
    title: str
    before: str
    after: str

    @property
    def etag_after(self) -> str:
        """The etag of the file at its path after the change; empty if there is no file."""
        return "" if self.kind in ("removed", "forgotten") else self.after


class JournalEntry(NamedTuple):
    """The changes of one call, as recorded in the journal.

    ``reverts`` is the id of the change that this one undid, and ``reverted_by`` is the id of the
    change that undid this one; each is empty if there is no such change.
    """

    change_id: str
    when: str
    tool: str
    agent: str
    files: tuple[FileChange, ...]
    reverts: str = ""
    reverted_by: str = ""
