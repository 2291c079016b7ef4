"""Check whether the code that memories cite is still the same, and where it is now.

Verdicts are stored beside the index, so code is read again only after its file has changed, and git
runs, if it may, only once for each change.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from memvault import grants
from memvault.errors import MemvaultError, TimedOut
from memvault.files import atomic, plain_files
from memvault.files.git_location import RepositoryLocation
from memvault.named_tuple import NamedTuple
from memvault.repository.citations import KEY, Citation, cited, entries, parse
from memvault.repository.code_files import CodeFiles
from memvault.repository.location import GRANT, find_repository

if TYPE_CHECKING:
    from memvault.repository.code_history import CodeHistory
    from memvault.results import CitationState, CitedCode

_FILE = "cites.json"
_MAX_CACHED = 2_000
_SECONDS = 1.0
"""Time limit in seconds for comparing code; git may use half of it."""
UNHURRIED_SECONDS = 60.0
"""Time limit in seconds for a check that no user waits for."""
_MAX_MOVED = 5
"""Maximum number of moved citations to return for a path."""
_MAX_NAMED = 20
"""Maximum number of files with the name of a missing one to read."""


class CodeCitations:
    """The citations of one vault in a repository; ``find_folder`` returns the index's folder."""

    def __init__(self, root: Path, find_folder: Callable[[], Path | None]) -> None:
        self._root = root
        self._find_folder = find_folder

    def check(
        self, headers: Sequence[Mapping[str, Any]], seconds: float = _SECONDS
    ) -> list[list[CitedCode]]:
        """Return the state of each header's citations; ``line`` is where cited lines are now.

        After ``seconds``, citations whose stored verdicts are not current are left out.
        """
        location = self._location() if any(KEY in header for header in headers) else None
        if location is None:
            return [[] for _ in headers]
        check = _Check(self._root, location, self._find_folder(), seconds)
        states = [check.states(header) for header in headers]
        check.save()
        return states

    def anchors(self, text: str, folder: str) -> list[Citation]:
        """Return citations of the code that a text mentions, as the code is now.

        ``folder`` is the folder in the vault from which the text's relative paths start.
        """
        from memvault.repository.code_mentions import mentioned_code

        location = self._location()
        if location is None:
            return []
        check = _Check(self._root, location)
        return mentioned_code(text, folder, check.files, check.history)

    def anchors_of_each(self, texts: Iterable[tuple[str, str]]) -> Iterator[list[Citation]]:
        """Yield the result of ``anchors`` for texts and their folders, without running git."""
        from memvault.repository.code_mentions import mentioned_code

        location = self._location()
        if location is not None:
            files = CodeFiles(self._root, location)
            for text, folder in texts:
                yield mentioned_code(text, folder, files, lambda: None)

    def moved_to(self, path: str) -> list[Citation]:
        """Return citations of code that the latest checks found in a file that it moved to.

        ``path`` is absolute or relative to the repository's top folder. At most five citations are
        returned, the most recently checked last.
        """
        location = self._location()
        if location is None:
            return []
        top = Path(os.path.realpath(location.top))
        path = Path(os.path.relpath(top / path, top)).as_posix()
        return _Check(self._root, location, self._find_folder()).moved_to(path)

    def renewed(self, headers: Sequence[Mapping[str, Any]]) -> list[list[object] | None]:
        """Return each header's ``cites`` with the code as it is now, and without missing files.

        If the symbol or the lines are missing, the whole file is cited. Entries that are not
        citations stay; None if no entry is left.
        """
        location = self._location() if headers else None
        if location is None:
            return [entries(header) for header in headers]
        check = _Check(self._root, location, self._find_folder(), UNHURRIED_SECONDS)
        renewed: list[list[object] | None] = []
        for header in headers:
            cites: list[object] = []
            for value in map(check.renewed, entries(header)):
                if value is not None and value not in cites:
                    cites.append(value)
            renewed.append(cites or None)
        return renewed

    def _location(self) -> RepositoryLocation | None:
        with contextlib.suppress(MemvaultError, OSError):
            return find_repository(self._root)
        return None


class _Verdict(NamedTuple):
    """The state of a citation, and the files and repository state it depends on.

    ``stamp`` and ``moved_stamp`` are the stamps of the files. ``git`` is the state of the
    repository if the verdict may change with it, else empty.
    """

    state: CitationState
    line: int = 0
    moved_to: str = ""
    since: str = ""
    stamp: list[int] | None = None
    moved_stamp: list[int] | None = None
    git: str = ""


class _Check:
    """Compares citations with files; verdicts are stored in the index's ``folder``, if given."""

    def __init__(
        self,
        root: Path,
        location: RepositoryLocation,
        folder: Path | None = None,
        seconds: float = _SECONDS,
    ) -> None:
        self.files = CodeFiles(root, location)
        self._root = root
        self._location = location
        self._opened: list[CodeHistory | None] = []
        self._file = None if folder is None else folder / _FILE
        self._cached = {} if self._file is None else plain_files.read_json(self._file)
        self._has_new = False
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def states(self, header: Mapping[str, Any]) -> list[CitedCode]:
        """Return the state of each citation in a header.

        An entry without a digest, symbol and lines may be something else, such as a book; it is
        left out if there is no such file. Citations that are not compared in time are left out too.
        """
        states: list[CitedCode] = []
        for citation in cited(header):
            if str(citation) == citation.path and self.files.stamp(citation.path) is None:
                continue
            verdict = self._verdict(citation)
            if verdict is None:
                continue
            fields = {
                "path": citation.path,
                "symbol": citation.symbol,
                "line": citation.line and (verdict.line or citation.line),
                "state": verdict.state,
                "movedTo": verdict.moved_to,
                "since": verdict.since,
            }
            states.append(cast("CitedCode", {key: fields[key] for key in fields if fields[key]}))
        return states

    def renewed(self, value: object) -> object | None:
        """Return an entry of ``cites`` with the code as it is now; None if the file is missing."""
        citation = parse(value)
        verdict = self._verdict(citation) if citation is not None else None
        if citation is None or verdict is None:
            return value
        line = verdict.line if citation.line else 0
        moved = citation._replace(path=verdict.moved_to or citation.path)
        if line:
            moved = moved._replace(line=line, end=line + max(citation.end - citation.line, 0))
        with contextlib.suppress(OSError):
            anchored = moved.anchored_in(self.files.lines(moved.path))
            # A whole file is cited if the lines or the symbol are missing or ambiguous now.
            return str(anchored or Citation(moved.path).anchored_in(self.files.lines(moved.path)))
        return None

    def moved_to(self, path: str) -> list[Citation]:
        """Return the most recently checked citations whose code has moved to ``path``."""
        names = [name for name in self._cached if self._stored(name).moved_to == path]
        return [*filter(None, map(parse, names[-_MAX_MOVED:]))]

    def save(self) -> None:
        """Write the verdicts, if any are new; if that fails, they are computed again."""
        if self._has_new and self._file is not None:
            latest = dict(list(self._cached.items())[-_MAX_CACHED:])
            with contextlib.suppress(MemvaultError, OSError):
                atomic.write(self._file, json.dumps(latest).encode(), private=True, durable=False)

    def history(self) -> CodeHistory | None:
        """Return the repository's history, if the user has approved git and it works."""
        if not self._opened:
            self._opened.append(None)
            if self._is_granted:
                from memvault.repository.approved import approved_repository
                from memvault.repository.code_history import CodeHistory

                with contextlib.suppress(MemvaultError, OSError):
                    until = min(time.monotonic() + self._seconds / 2, self._until)
                    repository = approved_repository(self._root, self._location)
                    self._opened[0] = CodeHistory(repository, until)
        return self._opened[0]

    @property
    def _is_git_complete(self) -> bool:
        """Whether git was not needed, may not run, or has answered everything."""
        return all(history is None or history.is_complete for history in self._opened)

    def _verdict(self, citation: Citation) -> _Verdict | None:
        """Return the stored verdict if it is current, else a new one; None if out of time."""
        key, stamp = str(citation), self.files.stamp(citation.path)
        stored = self._stored(key)
        moved_stamp = self.files.stamp(stored.moved_to) if stored.moved_to else None
        is_same_git = not stored.git or stored.git == self._state_of_git
        if is_same_git and (stored.stamp, stored.moved_stamp) == (stamp, moved_stamp):
            return stored
        if time.monotonic() > self._until:
            return None
        try:
            verdict = self._compare(citation, stored.moved_to)
        except TimedOut:
            return None
        if verdict.state in ("changed", "gone"):
            is_known = stored.state in ("changed", "gone") and is_same_git
            since = stored.since if is_known else self._changed_in(citation, verdict.moved_to)
            verdict = verdict._replace(since=since)
            if not self._is_git_complete and (not since or verdict.state == "gone"):
                return verdict
        is_final = verdict.state != "gone" and (verdict.state != "changed" or verdict.since)
        verdict = verdict._replace(
            stamp=stamp,
            moved_stamp=self.files.stamp(verdict.moved_to) if verdict.moved_to else None,
            git="" if is_final else self._state_of_git,
        )
        self._cached.pop(key, None)  # The latest entries are last, and are kept.
        self._cached[key] = list(verdict)
        self._has_new = True
        return verdict

    def _stored(self, key: str) -> _Verdict:
        """Return the stored verdict; without one, a verdict that is never current."""
        with contextlib.suppress(KeyError, TypeError):
            verdict = _Verdict(*self._cached[key])
            if verdict.state in ("same", "moved", "changed", "gone"):
                return verdict
        return _Verdict("same", stamp=[])

    def _changed_in(self, citation: Citation, moved_to: str) -> str:
        history = self.history()
        if history is None:
            return ""
        paths = filter(None, [*history.names_of(citation.path), moved_to])
        since = history.changed_in(list(dict.fromkeys(paths)), citation)
        return since if history.is_complete else ""

    @cached_property
    def _state_of_git(self) -> str:
        """Return a text that changes with a commit, a checkout, ``git add`` or the approval."""
        stamp = plain_files.stamp_of(self._location.folder / "index")
        return f"{self._location.state} {stamp} {self._is_granted}"

    @cached_property
    def _is_granted(self) -> bool:
        with contextlib.suppress(MemvaultError):
            return grants.get(self._root, *GRANT).get("folder") == str(self._location.folder)
        return False

    def _compare(self, citation: Citation, moved_to: str) -> _Verdict:
        """Compare a citation with its file, or with the files to which the code may have moved.

        ``moved_to`` is where it was at the last check. A file or definition with the same name
        elsewhere counts only if its code is the same.

        Raises:
            TimedOut: the check has taken too long.
        """
        place = self._place(citation.path, citation)
        if place is not None:
            return _Verdict("same" if place else "changed", place)
        renamed, others = self._new_paths(citation, moved_to)
        for path in (*renamed, *others):
            if place := self._place(path, citation):
                return _Verdict("moved", place, path)
        changed = (path for path in renamed if self._place(path, citation) == 0)
        if path := next(changed, ""):
            return _Verdict("changed", 0, path)
        history = self.history() if citation.symbol and citation.digest else None
        names = [citation.symbol.rpartition(".")[2]]
        for path in history.files_with(names) if history is not None else ():
            if place := self._place(path, citation):
                return _Verdict("moved", place, path)
        return _Verdict("gone")

    def _place(self, path: str, citation: Citation) -> int | None:
        with contextlib.suppress(OSError):
            return citation.place_in(self.files.lines(path), self._until)
        return None

    def _new_paths(self, citation: Citation, moved_to: str) -> tuple[list[str], list[str]]:
        """Return where a missing file has moved to, and files with its name to compare."""
        renamed: list[str] = []
        if self.files.stamp(citation.path) is not None:
            return renamed, renamed
        if moved_to and self.files.stamp(moved_to) is not None:
            return [moved_to], []
        if (history := self.history()) is not None:
            renamed += history.names_of(citation.path)[1:]
        if not citation.digest:
            return renamed, []
        named = self.files.ending_with(posixpath.basename(citation.path))[:_MAX_NAMED]
        if not citation.symbol and not citation.line:
            named = [path for path in named if self._is_copy(path, citation)]
        return renamed, named

    def _is_copy(self, path: str, citation: Citation) -> bool:
        """Return whether a file has the digest of a cited file."""
        with contextlib.suppress(OSError):
            anchored = Citation(path).anchored_in(self.files.lines(path))
            return anchored is not None and anchored.digest == citation.digest
        return False
