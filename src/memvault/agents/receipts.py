"""Record the text that hooks and ``context`` inject, and its memories, on this machine only.

Each session has a file of JSON lines in ``.memvault/receipts``, readable only by its owner. A
receipt shows later which text an agent had seen; it also prevents a hook from repeating a memory in
the same session. Another file counts how often each memory was given since it was last used.
Damaged lines and counts are ignored.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from memvault import clock
from memvault.errors import MemvaultError, TimedOut, Unwritable
from memvault.files import atomic, plain_files
from memvault.files.lock import FileLock
from memvault.named_tuple import NamedTuple
from memvault.recall.answer import RELEVANT, STRONG
from memvault.settings.vault_settings import Settings
from memvault.vault.private_folder import RECEIPTS, existing_private, private_folder

_COUNTS = "unused.json"
_LOCK = "lock"
_LOCK_SECONDS = 0.05
"""Maximum seconds to wait for the lock, because an agent may be waiting for a hook."""
_OLDER = "older-"
"""The prefix of a full file's name; the next full file replaces it."""
_MAX_BYTES = 256 * 1024
_MAX_SESSIONS = 200
"""Number of sessions to keep; older ones are deleted once there are a quarter more."""
_MAX_NAME = 200
"""Maximum length of a session's name in characters."""
_MAX_COUNTED = 2_000
"""Maximum number of memories with counts; the most recently given ones are kept."""
_MAX_COUNTS_BYTES = 1024 * 1024
_MAX_COUNT = 1_000_000
OFTEN_GIVEN = 10
"""Number of times a memory may be given without being used; after that, it must match strongly."""
RESETS = ("session-start", "pre-compact")
"""Events after which an agent no longer has the memories that it was given before."""


class GivenMemory(NamedTuple):
    """A memory in a text: its memId, the etag of its file, and its match probability.

    For a memory that mentions a file, a command or an error, ``probability`` is its line's score.
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


def claim(root: Path, settings: Settings, receipt: Receipt) -> bool:
    """Record a receipt without secrets, and return whether the agent should get its text.

    It should not if a parallel hook has just given this session all of the receipt's memories.
    Nothing is recorded if ``receipts`` is off; errors are ignored.
    """
    if not settings.receipts:
        return True
    masked = receipt._replace(text=settings.detector.masked(receipt.text))
    with contextlib.suppress(MemvaultError, OSError, ValueError):
        return record(root, masked)
    return True


def record(root: Path, receipt: Receipt) -> bool:
    """Append a receipt to the file of its session or, without a session, of the day.

    Return False, and record nothing, if the session was already given all of its memories. Without
    the lock, which another process may hold, parallel hooks may both give a memory.

    Raises:
        StorageError: the vault cannot be written.
        Refused: a part of the path is a link or not a regular file.
    """
    when = clock.iso()
    session = receipt.session[:_MAX_NAME] or when[:10]
    folder = private_folder(root, RECEIPTS)
    line = json.dumps(receipt._replace(session=session, when=when)._asdict(), ensure_ascii=False)
    memories = {memory.mem_id: memory.etag for memory in receipt.memories}
    with _locked(folder):
        if receipt.event not in RESETS:
            earlier = given(root, session, receipt.agent) if memories else {}
            if receipt.session and memories and memories.items() <= earlier.items():
                return False
            memories = dict(memories.items() - earlier.items())
        if _append(folder / _file_name(session), line):
            _delete_oldest(folder)
        if memories:
            _count_given(root, memories)
    return True


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock if it can be acquired in time and the file system has locks."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(TimedOut, Unwritable):
            stack.enter_context(FileLock(folder / _LOCK, _LOCK_SECONDS))
        yield


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
    """Record that memories were used.

    Raises:
        StorageError: the vault cannot be written.
        Refused: a part of the path is a link or not a regular file.
    """
    if _read_counts(root).keys().isdisjoint(mem_ids):
        return
    folder = private_folder(root, RECEIPTS)
    with _locked(folder):
        counts = _read_counts(root)
        _write_counts(root, {key: counts[key] for key in counts if key not in mem_ids})


def unused(root: Path, minimum: int = OFTEN_GIVEN) -> dict[tuple[str, str], int]:
    """Return the memories given at least ``minimum`` times since they were last used.

    Maps a memId and the etag of the memory's file to the number of times, highest first. A file
    with a different etag has changed since.
    """
    counts = [(count, (mem_id, etag)) for mem_id, (count, etag) in _read_counts(root).items()]
    counts.sort(key=lambda entry: -entry[0])
    return {memory: count for count, memory in counts if count >= minimum}


def may_give(root: Path, settings: Settings) -> Callable[[str, str, float], bool]:
    """Return a function that tells whether to give an agent a memory that it did not ask for.

    The function gets the memId, the etag and the match probability. A memory that was given often
    without being used, and has not changed since, must be a strong match.
    """
    ignored = unused(root) if settings.receipts else {}
    return lambda mem_id, etag, probability: (mem_id, etag) not in ignored or probability > STRONG


def _read_counts(root: Path) -> dict[str, tuple[int, str]]:
    """Return how often each memory was given since it was last used, and its etag, by memId."""
    folder = existing_private(root, RECEIPTS)
    path = folder / _COUNTS if folder is not None else None
    stored = plain_files.read_json(path, _MAX_COUNTS_BYTES) if path is not None else {}
    counts: dict[str, tuple[int, str]] = {}
    for mem_id, value in stored.items():
        match value:
            case [count, str(etag)] if type(count) is int and 0 < count < _MAX_COUNT:
                counts[mem_id] = count, etag
    return counts


def _count_given(root: Path, memories: Mapping[str, str]) -> None:
    """Increment the counts of memories, given as etags by memId; a changed one starts at 1."""
    counts = _read_counts(root)
    for mem_id, etag in memories.items():
        count, earlier_etag = counts.pop(mem_id, (0, etag))
        counts[mem_id] = (count + 1 if earlier_etag == etag else 1), etag
    _write_counts(root, counts)


def _write_counts(root: Path, counts: Mapping[str, tuple[int, str]]) -> None:
    data = json.dumps(dict([*counts.items()][-_MAX_COUNTED:]), ensure_ascii=False)
    path = private_folder(root, RECEIPTS) / _COUNTS
    atomic.write(path, data.encode("utf-8", "replace"), durable=False, private=True)


def _file_name(session: str) -> str:
    """Return the name of a session's file, because its id may be anything."""
    return f"{plain_files.digest_of(session.encode('utf-8', 'replace'), 12).hex()}.jsonl"


def _append(path: Path, line: str) -> bool:
    """Append a line, and return whether the file is new; a full file is renamed first."""
    size = _size(path)
    if size > _MAX_BYTES:
        with contextlib.suppress(OSError):
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
            if entry.name.endswith(".jsonl") and not entry.name.startswith(_OLDER):
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
