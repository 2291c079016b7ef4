"""Being woken when a folder changes; the only home of watchdog.

A waker sleeps by waiting on a condition whose lock its caller holds, so that
others can go on meanwhile, and whoever notices a change must wait until the
caller really sleeps: no change falls between looking and sleeping.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent

_POLL = 0.2
_AT_LEAST = 5.0
"""Seconds that a sleep takes at most: some network file systems tell nothing, and what a
taker left that was killed shows in no folder that is watched."""


class PollingWatcher:
    """Looks at the folder five times a second."""

    def __init__(self, folder: Path, turn: threading.Condition) -> None:
        self._folder = folder
        self._turn = turn
        self._seen = _state(folder)

    def sleep(self, seconds: float) -> None:
        """Sleep until a listing differs, someone notifies the condition, or the time is over."""
        seconds = min(seconds, _AT_LEAST)
        while seconds > 0:
            woken = self._turn.wait(min(seconds, _POLL))
            seconds -= _POLL
            state = _state(self._folder)
            if woken or state != self._seen:
                self._seen = state
                return

    def close(self) -> None:
        """Nothing is open."""


class FolderWatcher:
    """Is told of changes by the operating system; polls from where that stops working."""

    def __init__(self, folder: Path, turn: threading.Condition) -> None:
        self._folder = folder
        self._turn = turn
        self._changed = False
        self._gone = False
        self._observer: Any = None
        self._inode = 0
        self._instead: PollingWatcher | None = None
        self._start()

    def sleep(self, seconds: float) -> None:
        """Sleep until the system says that a file came or changed, or the time is over."""
        if self._instead is not None:
            self._instead.sleep(seconds)
            return
        if not self._changed and self._inode == _inode(self._folder):
            self._turn.wait(min(seconds, _AT_LEAST))
        self._changed = False
        # Made anew, as by git, perhaps with the same inode: the old one tells nothing more.
        if self._gone or self._inode != _inode(self._folder):
            self.close()
            try:
                self._start()
            except Exception:  # whatever watchdog meets; what came since wakes at once
                self._instead = PollingWatcher(self._folder, self._turn)

    def close(self) -> None:
        """Stop the observer, without waiting for its threads: one may want the condition."""
        if self._observer is not None:
            threading.Thread(target=self._observer.stop, daemon=True).start()
            self._observer = None

    def _start(self) -> None:
        import logging

        from watchdog import events
        from watchdog.observers import Observer

        notice = self._notice

        class Handler(events.FileSystemEventHandler):
            def on_any_event(self, event: events.FileSystemEvent) -> None:
                notice(event)

        kinds = [
            events.FileCreatedEvent,
            events.FileMovedEvent,
            events.FileModifiedEvent,
            events.FileClosedEvent,
            events.DirDeletedEvent,
            events.DirMovedEvent,
        ]
        self._gone = False
        self._folder.mkdir(parents=True, exist_ok=True)
        self._inode = _inode(self._folder)
        logging.getLogger("watchdog").addHandler(logging.NullHandler())  # it has nothing to say
        observer = Observer()
        observer.schedule(Handler(), str(self._folder), recursive=False, event_filter=kinds)
        observer.daemon = True
        observer.start()
        self._observer = observer

    def _notice(self, event: FileSystemEvent) -> None:
        name = Path(os.fsdecode(event.dest_path or event.src_path)).name
        gone = Path(os.fsdecode(event.src_path)) == self._folder
        if gone or (name.endswith(".md") and not name.startswith(".")):
            with self._turn:
                self._changed = True
                self._gone = self._gone or gone
                self._turn.notify_all()


Waker = PollingWatcher | FolderWatcher
"""Something that sleeps until files of a folder may have changed.

What changed since it was made wakes its first sleep.
"""


def waker(folder: Path, turn: threading.Condition) -> Waker:
    """Return a waker for a folder: told by the system, or polling where that does not work."""
    if os.environ.get("MEMVAULT_POLL", "") in ("", "0"):
        # Whatever watchdog meets: no more watches, no such file system.
        with contextlib.suppress(Exception):
            return FolderWatcher(folder, turn)
    return PollingWatcher(folder, turn)


def _state(folder: Path) -> frozenset[tuple[str, int, int]]:
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except OSError:
        return frozenset()
    return frozenset((name, status.st_mtime_ns, status.st_size) for name, status in found)


def _inode(folder: Path) -> int:
    try:
        return os.stat(folder).st_ino
    except OSError:
        return 0
