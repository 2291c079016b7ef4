"""The journal: which call changed which files of the vault, in lines that are only ever added.

It lies in ``.memvault/journal``, in parts that are numbered, since clocks go back;
all lines of one call are in one part. A line says where the bytes from before
are kept. Adding one takes no lock, and one cut off spoils no other.

Like all of ``.memvault`` it is read as a stranger's: a line that is not as this
program writes it says nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from memvault import clock, plain_files
from memvault.vault import atomic
from memvault.vault.deed import KINDS, FileChange, JournalEntry

_PART = 1024 * 1024
"""Bytes from which on a new part is begun; one call may make a part longer."""
_NAMED = re.compile(r"([1-9]\d{0,8})\.jsonl", re.ASCII)
_LAST = 999_999_999
_LONGEST_TITLE = 200


class Journal:
    """The journal of one vault, of which a reader gets what it ``sees`` the files of."""

    def __init__(self, folder: Path, sees: Callable[[str], bool] = lambda _: True) -> None:
        self._folder = folder
        self._sees = sees

    def current_segment(self) -> Path:
        """Return the part that a call's lines go to: the last one, or a new one."""
        last = next(self._parts(), None)
        if last is None:
            return self._folder / "1.jsonl"
        number = int(last.stem)
        with contextlib.suppress(OSError):
            if last.stat().st_size >= _PART and number < _LAST:
                return self._folder / f"{number + 1}.jsonl"
        return last

    def add(self, part: Path, change: JournalEntry) -> None:
        """Write down what a change did to the files that it names.

        Raises:
            StorageError: the disk refused.
        """
        head = {"id": change.change_id, "when": change.when}
        head |= {"tool": change.tool, "agent": change.agent}
        if change.reverts:
            head["undoes"] = change.reverts
        for entry in change.files:
            told = entry._replace(title=entry.title[:_LONGEST_TITLE])
            line = json.dumps({**head, **told._asdict()})
            atomic.append_line(part, line.encode("utf-8", "replace"))

    def changes(self) -> Iterator[JournalEntry]:
        """Yield every change, newest first, each with what took it back."""
        undone: dict[str, str] = {}
        for part in self._parts():
            for change in reversed(_read(part)):
                made = change._replace(reverted_by=undone.get(change.change_id, ""))
                if made.reverts and not made.reverted_by:
                    undone[made.reverts] = made.change_id
                if all(self._sees(entry.path) for entry in made.files):
                    yield made

    def damaged_lines(self) -> Iterator[tuple[str, int]]:
        """Yield the name of each part that holds lines which say nothing, and how many."""
        for part in self._parts():
            try:
                data = plain_files.read(part)
            except OSError:
                yield part.name, 1
                continue
            broken = sum(_line(line) is None for line in data.splitlines() if line.strip())
            if broken:
                yield part.name, broken

    def prune(self, days: int, most: int) -> None:
        """Delete the oldest parts: those that end before so many days, and past so many bytes."""
        oldest = clock.now() - timedelta(days=days)
        held = 0
        for part in list(self._parts())[1:]:
            with contextlib.suppress(OSError):
                status = part.stat()
                held += status.st_size
                if held > most or status.st_mtime < oldest.timestamp():
                    part.unlink()

    def _parts(self) -> Iterator[Path]:
        """Yield the journal's parts, newest first."""
        names: list[str] = []
        with contextlib.suppress(OSError):
            if not self._folder.is_symlink() and not self._folder.parent.is_symlink():
                names = os.listdir(self._folder)
        numbers = (int(match[1]) for name in names if (match := _NAMED.fullmatch(name)))
        for number in sorted(numbers, reverse=True):
            yield self._folder / f"{number}.jsonl"


def _read(part: Path) -> list[JournalEntry]:
    """Return the changes in a part, in their order."""
    try:
        data = plain_files.read(part)
    except OSError:
        return []
    found: dict[str, JournalEntry] = {}
    files: dict[str, list[FileChange]] = {}
    for line in data.splitlines():
        made = _line(line)
        if made is not None:
            found.setdefault(made.change_id, made)
            files.setdefault(made.change_id, []).extend(made.files)
    return [change._replace(files=tuple(files[name])) for name, change in found.items()]


def _line(line: bytes) -> JournalEntry | None:
    """Return what a line says of one file; None where it says nothing."""
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        return _parsed(json.loads(line))
    return None


def _parsed(line: dict[str, Any]) -> JournalEntry:
    texts = {key: line[key] for key in ("id", "when", "tool", "agent", "undoes") if key in line}
    told = FileChange(**{key: line[key] for key in FileChange._fields})
    if not all(isinstance(value, str) for value in (*texts.values(), *told)):
        raise TypeError("not a text")
    if told.kind not in KINDS or not texts["id"] or clock.parse(texts["when"]) is None:
        raise ValueError("not as it is written")
    return JournalEntry(
        texts["id"],
        texts["when"],
        texts["tool"],
        texts["agent"],
        (told,),
        texts.get("undoes", ""),
    )
