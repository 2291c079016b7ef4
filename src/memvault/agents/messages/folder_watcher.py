"""Wait for changes to the files in a folder. Only this module uses watchdog."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault.files import atomic

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent


_POLL_SECONDS = 0.2
_MAX_SLEEP = 5.0
"""Maximum length of one sleep in seconds.

Some network file systems send no notifications, and leases of killed processes are not in a watched
folder.
"""


class FolderWatcher:
    """Watches a folder; ``sleep`` ends when files in it may have changed.

    The operating system reports changes. Where that fails, or with ``MEMVAULT_POLL=1``, the folder
    is listed five times a second. A change after the watcher was created ends its first sleep.
    """

    def __init__(self, folder: Path, turn: threading.Condition) -> None:
        self._folder = folder
        self._turn = turn
        self._observer: Any = None
        self._watch()
        self._last_listing = _listing(folder)

    def sleep(self, seconds: float) -> None:
        """Sleep until the folder changes, the condition is notified, or the time is up."""
        seconds = min(seconds, _MAX_SLEEP)
        woken = False
        while seconds > 0 and not woken and _listing(self._folder) == self._last_listing:
            step = seconds if self._observer else min(seconds, _POLL_SECONDS)
            woken = self._turn.wait(step)
            seconds -= step
        if self._inode != _inode(self._folder):
            # The folder was recreated, for example by git, so the old watch has ended.
            self._watch()
        self._last_listing = _listing(self._folder)

    def close(self) -> None:
        """Stop the observer without joining its threads, one of which may need the condition."""
        if self._observer is not None:
            threading.Thread(target=self._observer.stop, daemon=True).start()
            self._observer = None

    def _watch(self) -> None:
        """Ask the operating system to report changes from now on, if it can."""
        self.close()
        if os.environ.get("MEMVAULT_POLL", "") in ("", "0"):
            # Ignore every watchdog error, such as too many watches or an unsupported file system.
            with contextlib.suppress(Exception):
                atomic.make_folders(self._folder)
                self._observer = self._start_observer()
        self._inode = _inode(self._folder)

    def _start_observer(self) -> Any:
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
        logging.getLogger("watchdog").addHandler(logging.NullHandler())  # suppress watchdog's log
        observer = Observer()
        observer.schedule(Handler(), str(self._folder), recursive=False, event_filter=kinds)
        observer.daemon = True
        observer.start()
        return observer

    def _notice(self, event: FileSystemEvent) -> None:
        is_gone = Path(os.fsdecode(event.src_path)) == self._folder
        if is_gone or _is_event_file(Path(os.fsdecode(event.dest_path or event.src_path)).name):
            with self._turn:
                if is_gone:
                    self._inode = 0  # A new folder of the same name may have the same inode.
                self._turn.notify_all()


def _is_event_file(name: str) -> bool:
    return name.endswith(".md") and not name.startswith(".")


def _listing(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Return the names, times and sizes of the events in a folder, and the folder's identity."""
    try:
        with os.scandir(folder) as entries:
            stats = [
                (entry.name, entry.stat(follow_symlinks=False))
                for entry in entries
                if _is_event_file(entry.name)
            ]
    except OSError:
        return frozenset()
    files = {(name, status.st_mtime_ns, status.st_size) for name, status in stats}
    return frozenset({*files, ("", _inode(folder), 0)})


def _inode(folder: Path) -> int:
    try:
        return os.stat(folder).st_ino
    except OSError:
        return 0
