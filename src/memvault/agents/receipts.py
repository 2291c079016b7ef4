"""Record the text that hooks and ``context`` give agents, and its memories, on this machine only.

Each session has a file of JSON lines in ``.memvault/receipts``, readable only by its owner. A
receipt shows later what an agent knew; it also prevents a hook from repeating a memory in the same
session. Damaged lines are ignored.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import MemvaultError
from memvault.files import atomic, plain_files
from memvault.files.lock import FileLock
from memvault.recall.answer import RELEVANT
from memvault.settings.vault_settings import Settings
from memvault.vault.private_folder import (
    RECEIPTS,
    existing_private,
    list_private,
    private_folder,
)

_USES = "uses.jsonl"
_LOCK = "lock"
_LOCK_SECONDS = 1.0
_OLDER = "older-"
"""The prefix of a full file's name; the next full file replaces it."""
_MAX_BYTES, _MAX_USES_BYTES = 256 * 1024, 2 * 1024 * 1024
_MAX_SESSIONS = 200
"""Number of sessions to keep; older ones are deleted once there are a quarter more."""
_MAX_NAME = 200
"""Maximum length of a session's name in characters."""
RESETS = ("session-start", "pre-compact")
"""Events after which an agent no longer has the memories that it was given before."""


class GivenMemory(NamedTuple):
    """A memory in a text: its memId, the etag of its file, and its match probability.

    For a memory that names a file, a command or an error, ``probability`` is its line's score.
    """

    mem_id: str
    etag: str
    probability: float

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> GivenMemory:
        """Create an entry from a memory in a tool's result."""
        return cls(entry["memId"], entry["etag"], entry["probability"])


class Receipt(NamedTuple):
    """A text that an agent was given at an event, and the memories in it.

    ``program`` is the agent program, if known. ``threshold`` is the minimum match probability, and
    ``tokens`` and ``budget`` are the size of the text and its maximum.
    """

    session: str
    agent: str
    event: str
    program: str = ""
    text: str = ""
    tokens: int = 0
    budget: int = 0
    threshold: float = RELEVANT
    memories: tuple[GivenMemory, ...] = ()
    when: str = ""


def keep(root: Path, settings: Settings, receipt: Receipt) -> None:
    """Record a receipt without secrets, unless ``receipts`` is off; ignore if that fails."""
    if settings.receipts:
        with contextlib.suppress(MemvaultError):
            record(root, receipt._replace(text=settings.detector.masked(receipt.text)))


def record(root: Path, receipt: Receipt) -> None:
    """Append a receipt to the file of its session or, without a session, of the day.

    Raises:
        StorageError: the vault cannot be written.
        Refused: a part of the path is a link or not a regular file.
        TimedOut: another process is renaming the file.
    """
    when = clock.iso()
    session = receipt.session[:_MAX_NAME] or when[:10]
    folder = private_folder(root, RECEIPTS)
    line = json.dumps(receipt._replace(session=session, when=when)._asdict(), ensure_ascii=False)
    if _append(folder / _file_name(session), line):
        _delete_oldest(folder)


def given(root: Path, session: str, agent: str) -> dict[str, str]:
    """Return the etags of the memories that an agent has been given in a session, by memId."""
    etags: dict[str, str] = {}
    for receipt in of_session(root, session):
        if receipt.agent == agent:
            if receipt.event in RESETS:
                etags.clear()
            etags |= {memory.mem_id: memory.etag for memory in receipt.memories}
    return etags


def of_session(root: Path, session: str) -> list[Receipt]:
    """Return the receipts of a session, oldest first; empty if there are none."""
    name = _file_name(session[:_MAX_NAME])
    newest = _read(root, name)
    return [*_read(root, _OLDER + name), *newest] if newest else []


def latest_first(root: Path, agent: str = "") -> Iterator[Receipt]:
    """Yield the last receipt of each session, the most recent session first.

    With ``agent``, yield only the last receipt of that agent in each session.
    """
    folder = existing_private(root, RECEIPTS)
    if folder is not None:
        for path in _by_time(folder):
            own = [entry for entry in _read(root, path.name) if agent in ("", entry.agent)]
            yield from own[-1:]


def record_uses(root: Path, mem_ids: Collection[str]) -> None:
    """Record that memories were used; raises the same errors as ``record``."""
    line = json.dumps([clock.iso(), *sorted(mem_ids)], ensure_ascii=False)
    _append(private_folder(root, RECEIPTS) / _USES, line)


def unused(root: Path, minimum: int) -> list[tuple[str, int]]:
    """Return the memIds that were injected at least ``minimum`` times and never used.

    Each memId comes with its number of injections; they are sorted by it, highest first.
    """
    lines = [line for name in (_USES, _OLDER + _USES) for line in _lines(root, name)]
    used = {
        mem_id
        for line in lines
        if isinstance(line, list)
        for mem_id in line[1:]
        if isinstance(mem_id, str)
    }
    return [
        (mem_id, count)
        for mem_id, count in _counts(root).most_common()
        if count >= minimum and mem_id not in used
    ]


def _counts(root: Path) -> Counter[str]:
    """Return how often each memory was injected, according to the existing receipts, by memId."""
    names = [name for name in list_private(root, RECEIPTS) if name not in (_USES, _OLDER + _USES)]
    return Counter(
        memory.mem_id
        for name in names
        for receipt in _read(root, name)
        for memory in receipt.memories
    )


def _file_name(session: str) -> str:
    """Return the name of a session's file, since its id may be anything."""
    return f"{plain_files.digest_of(session.encode('utf-8', 'replace'), 12).hex()}.jsonl"


def _append(path: Path, line: str) -> bool:
    """Append a line, and return whether the file is new.

    A full file is renamed first, so a concurrent line is not lost.
    """
    size = _size(path)
    limit = _MAX_USES_BYTES if path.name == _USES else _MAX_BYTES
    if size > limit:
        with FileLock(path.with_name(_LOCK), _LOCK_SECONDS), contextlib.suppress(OSError):
            if _size(path) > limit:  # Another process may have renamed it.
                os.replace(path, path.with_name(_OLDER + path.name))
    atomic.append_line(path, line.encode("utf-8", "replace"), private=True)
    return not size


def _size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it is missing."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _delete_oldest(folder: Path) -> None:
    """Delete the oldest sessions once their number exceeds the maximum by a quarter."""
    # Reading the times of the files takes longer than everything else in a call.
    if len(os.listdir(folder)) <= _MAX_SESSIONS * 5 // 4:
        return
    for path in _by_time(folder)[_MAX_SESSIONS:]:
        for name in (path.name, _OLDER + path.name):
            with contextlib.suppress(OSError):
                (folder / name).unlink()


def _by_time(folder: Path) -> list[Path]:
    """Return the current files of the sessions, last changed first."""
    times: dict[Path, float] = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name not in (_USES, _LOCK) and not entry.name.startswith(_OLDER):
                with contextlib.suppress(OSError):
                    times[folder / entry.name] = entry.stat(follow_symlinks=False).st_mtime
    return sorted(times, key=times.__getitem__, reverse=True)


def _read(root: Path, name: str) -> list[Receipt]:
    return [receipt for line in _lines(root, name) if (receipt := _receipt(line)) is not None]


def _lines(root: Path, name: str) -> Iterable[Any]:
    """Yield the intact lines of a file; none if it is missing or too large."""
    folder = existing_private(root, RECEIPTS)
    if folder is None:
        return
    try:
        data = plain_files.read(folder / name, plain_files.MAX_STATE_BYTES)
    except OSError:
        return
    for line in data.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            yield json.loads(line)


def _receipt(value: Any) -> Receipt | None:
    """Return a receipt from a line; None unless all its values have the right types."""
    try:
        memories = tuple(
            GivenMemory(str(mem_id), str(etag), float(probability))
            for mem_id, etag, probability in value["memories"]
        )
        receipt = Receipt(**{**value, "memories": memories})
        numbers = (receipt.tokens, receipt.budget, receipt.threshold)
        texts = (receipt.session, receipt.agent, receipt.event, receipt.program, receipt.text)
        is_valid = all(isinstance(text, str) for text in (*texts, receipt.when))
        is_valid = is_valid and all(type(n) in (int, float) for n in numbers)
        scores = (memory.probability for memory in memories)
        return receipt if is_valid and all(map(math.isfinite, (*numbers, *scores))) else None
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
