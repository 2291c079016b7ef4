"""List the parts of a repository that can make git run programs, and store their approval.

The repository is read without running git. Dozens of git's settings run programs, and other
settings redirect git to other folders and machines. Approval therefore covers every setting except
a short list of harmless ones, and also hooks, attributes, and files that the settings include or
refer to. A line that is not in the plain format written by ``git config`` needs approval too.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from memvault import grants
from memvault.errors import MemvaultError, Refused
from memvault.files import plain_files
from memvault.files.git_location import RepositoryLocation
from memvault.files.user_folders import expand_home
from memvault.named_tuple import NamedTuple
from memvault.repository.location import GRANT
from memvault.sanitize import replace_surrogates
from memvault.vault.names import folded

_HEADER = re.compile(r'\[([A-Za-z][A-Za-z0-9-]*)(?: "([^"\\\x00-\x1f\x7f]*)")?\]')
_SETTING = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9-]*)(?:[ \t]*=((?: |[^\s\"\\#;\x00-\x1f\x7f])*))?")
"""Matches a setting in plain format.

Spaces are the only whitespace allowed in a value: git strips ASCII whitespace, but no other.
"""
_NOTHING = re.compile(r"[ \t\r]*(?:[#;].*)?")
_QUOTES = re.compile(r"[\"'`\\]+")
_MARKS = re.compile(r"[\s!\"#$&'()*,:;<=>?\[\\\]`{|}]+")
"""Characters that separate words in git's settings or in a shell."""
_LONGEST = 4_096
"""Maximum number of characters in a path."""
_ENDS = 32
"""Maximum number of trailing parts of a path to try as paths in the vault."""
_ELSEWHERE = re.compile(r"include|hookspath|worktree", re.IGNORECASE)
"""Settings whose value is a file or folder that must be read too."""
_NETWORK = r"(?:https?|ssh|git)://[^\s/-]\S*|(?:\w[\w.-]*@)?\w[\w.-]+:(?!:|//)\S*"
"""Matches a URL on another machine; a path is not harmless, because a repository has hooks.

A host of one letter counts as a path, because it may be a Windows drive.
"""
_REMOTE_NAME = re.compile(r"[A-Za-z0-9][\w-]*")
_HARMLESS = re.compile(
    r"user\.(?:name|email)=.*"
    rf"|branch\.(?:remote|pushremote)={_REMOTE_NAME.pattern}"
    r"|branch\.(?!remote|pushremote|mergeoptions)[\w-]+=.*"
    rf"|remote\.(?:url|pushurl)=(?:{_NETWORK})"
    r"|remote\.fetch=\+?refs/heads/[^:]*:refs/remotes/[^:]*"
    r"|core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase"
    r"|precomposeunicode|symlinks|autocrlf|eol|safecrlf|quotepath)=.*"
    r"|extensions\.objectformat=.*"
    r"|pull\.(?:rebase|ff)=.*"
    r"|merge memvault\.(?:name|driver)=.*"  # Set by memvault; merging also works without it.
)
_REMOTE_SETTINGS = "branch.remote", "branch.pushremote", "remote.pushdefault"
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_OTHERS = "info/attributes", "objects/info/alternates", "objects/info/http-alternates"
_FOLDERS = "remotes", "branches"
"""Folders in which old versions of git stored remotes; git still reads them."""
_DEEPEST = 10
_LINKS = 40
"""Maximum number of symbolic links that the system follows to resolve a path."""
_MAX_PARTS = 1_000
_SHOWN = 100


class ApprovalItem(NamedTuple):
    """A setting or file that needs approval: a readable name and a SHA-256 digest."""

    name: str
    digest: str


def items_to_approve(location: RepositoryLocation) -> list[ApprovalItem]:
    """Return the parts of a repository that need approval, without running git.

    Raises:
        Refused: a part cannot be read.
    """
    return _RepositoryScan(location).items


def paths_git_may_run(location: RepositoryLocation, paths: Iterable[str]) -> list[str]:
    """Return the given paths that git may run or read settings from.

    The paths are relative to the repository's top folder. A folder or link on the way to such a
    file is returned too, and so is a missing file that a setting refers to.

    Raises:
        Refused: a part of the repository cannot be read.
    """
    scan = _RepositoryScan(location)
    used = {entry for path in (*scan.used, *scan.hooks) for entry in _below(location.top, path)}
    real = (Path(os.path.realpath(path)) for path in scan.hooks)
    folders = {
        _name_below(location.top, path) for path in real if path.is_relative_to(location.top)
    }
    return [
        path
        for path in paths
        if folded(path) in used
        or any(str(above) in folders for above in PurePosixPath(folded(path)).parents)
    ]


def _below(top: Path, path: Path) -> Iterator[str]:
    """Yield each folder, link and file below ``top`` that is opened to resolve a path."""
    remaining, here, links = list(reversed(path.parts)), Path(), 0
    while remaining and links <= _LINKS:
        name = remaining.pop()
        if name == "..":
            here = here.parent
            continue
        entry = here / name
        if entry.is_relative_to(top):
            yield _name_below(top, entry)
        try:
            remaining += reversed(entry.readlink().parts)
            links += 1
        except (OSError, ValueError):
            here = entry


def _name_below(top: Path, path: Path) -> str:
    return folded(path.relative_to(top).as_posix())


def approved_items(root: Path, location: RepositoryLocation) -> list[ApprovalItem] | None:
    """Return the approved parts of a vault's repository, or None without an approval."""
    try:
        grant = grants.get(root, *GRANT)
        if grant.get("folder") != str(location.folder):
            return None
        return [ApprovalItem(str(name), str(digest)) for name, digest in grant.get("covers", [])]
    except (MemvaultError, ValueError, TypeError):
        return None


def is_approved(now: list[ApprovalItem], before: list[ApprovalItem]) -> bool:
    """Return whether all current parts were approved, in this order.

    The order matters, since the last of two equal settings takes effect.
    """
    rest = iter(before)
    return all(part in rest for part in now)


def unapproved_names(now: list[ApprovalItem], before: list[ApprovalItem]) -> list[str]:
    """Return the names of new and changed parts, or of all parts if only their order changed."""
    unapproved = [part.name for part in now if part not in before]
    return list(dict.fromkeys(unapproved or [part.name for part in now]))


def store_approval(root: Path, location: RepositoryLocation, items: list[ApprovalItem]) -> None:
    """Approve a repository's current state.

    Raises:
        Refused: the state folder is inside a vault.
        StorageError: the grant cannot be written.
    """
    covers = [list(part) for part in items]
    grants.add(root, *GRANT, {"folder": str(location.folder), "covers": covers})


def remote_urls(location: RepositoryLocation) -> dict[str, str]:
    """Return remote URLs by remote name, from the settings that are in plain format."""
    lines = _lines(_read(location.common / "config") or b"")
    return {line.below: line.value for line in lines
            if (line.section, line.key) == ("remote", "url") and line.value}  # fmt: skip


class _Line(NamedTuple):
    """A line of a settings file; ``key`` is empty if the line is not in plain format."""

    text: str
    section: str
    below: str
    key: str = ""
    value: str = ""

    @property
    def is_harmless(self) -> bool:
        is_ours = (self.section, self.below) == ("merge", "memvault")
        section = "merge memvault" if is_ours else self.section
        # A remote with this name would be parsed by git as an option.
        if self.below.startswith("-"):
            return False
        return bool(self.key and _HARMLESS.fullmatch(f"{section}.{self.key}={self.value}"))

    @property
    def shown(self) -> str:
        key = self.text.partition("=")[0].strip()
        name = ".".join(part for part in (self.section, self.below, key) if part)
        text = f"{name} = {self.value}" if self.key else self.text.strip()
        return replace_surrogates(_CREDENTIALS.sub("", text)[:_SHOWN])


def _lines(data: bytes) -> Iterator[_Line]:
    """Yield the settings in a file, each with its section as git interprets it."""
    section = below = ""
    lines = [text.removesuffix("\r") for text in os.fsdecode(data).split("\n")]
    for at, text in enumerate(lines):
        if text.endswith("\\"):  # The line is continued, so the rest may not be separate lines.
            yield _Line("\n".join(lines[at:]), section, below)
            return
        header = _HEADER.fullmatch(text)
        setting = _SETTING.fullmatch(text)
        if header:
            section, below = header[1].lower(), header[2] or ""
        elif setting and section:
            yield _Line(text, section, below, setting[1].lower(), (setting[2] or "").strip(" "))
        elif not _NOTHING.fullmatch(text):
            if "[" in text:
                section = below = ""  # The section of the following lines is unknown.
            yield _Line(text, section, below)


class _RepositoryScan:
    """A repository's settings, its hooks and the files they refer to, each read once.

    ``items`` are the parts that need approval, and ``hooks`` are the hook folders, which may be
    missing.

    Raises:
        Refused: one of the files cannot be read.
    """

    def __init__(self, location: RepositoryLocation) -> None:
        self._location = location
        self._parsed: set[Path] = set()
        self._digested: set[str] = set()
        self.hooks = [location.common / "hooks"]
        self.used: set[Path] = set()
        """Files that settings and hooks refer to, including missing ones."""
        self._remotes: dict[str, None] = {}
        self._with_url: set[str] = set()
        self.items = list(self._items())

    def _items(self) -> Iterator[ApprovalItem]:
        """Yield the items that need approval: settings in their order, then files."""
        top, folder, common = self._location
        if folder != top / ".git":
            yield _item(f".git = {replace_surrogates(str(folder))}", str(folder))
        if common != folder:
            yield _item(f".git/commondir = {replace_surrogates(str(common))}", str(common))
        for file in dict.fromkeys((common / "config", folder / "config.worktree")):
            yield from self._settings(file)
        for name in self._remotes:
            if name not in self._with_url:  # Git treats the name as a path.
                yield _item(_Line(f"url = {name}", "remote", name, "url", name).shown, name)
        for hooks in self.hooks:
            yield from self._folder(hooks)
        for above in dict.fromkeys((common, folder)):
            for name in _OTHERS:
                yield from self._file(above / name)
            for name in _FOLDERS:
                yield from self._folder(above / name)

    def _settings(self, file: Path, depth: int = 0) -> Iterator[ApprovalItem]:
        real = Path(os.path.realpath(file)) if depth else file
        data = _read(real, plain_files.MAX_SETTING_BYTES)
        if data is None or depth > _DEEPEST:
            return
        for line in _lines(data):
            self._note_remote(line, file)
            is_include = line.section in ("include", "includeif") and line.key == "path"
            is_hooks = (line.section, line.key) == ("core", "hookspath")
            if is_include or is_hooks:
                yield _item(line.shown, f"{line.section} {line.below}\n{line.text}")
                named = self._named(line.value, file.parent if is_include else self._location.top)
                if is_hooks:
                    self.hooks.append(named)
                    continue
                self.used.add(named)
                # Includes in a linked file are relative to the link's folder.
                named = Path(os.path.realpath(named.parent), named.name)
                if named not in self._parsed:
                    self._parsed.add(named)
                    yield from self._settings(named, depth + 1)
            elif (line.section, line.key) == ("core", "worktree"):
                named = self._named(line.value, self._location.folder)
                if os.path.realpath(named) != str(self._location.top):
                    hint = "`git config --unset core.worktree`"
                    raise Refused("The setting core.worktree points to another folder", hint)
            elif not line.key and _ELSEWHERE.search(f"{line.section}.{line.text}"):
                hint = "write each setting with a file name on a separate line, as git config does"
                raise Refused(f"{self._name(file)} cannot be read: {line.shown}", hint)
            elif not line.is_harmless:
                yield _item(line.shown, f"{line.section} {line.below}\n{line.text}")
                yield from self._words(line)

    def _note_remote(self, line: _Line, file: Path) -> None:
        """Record the remotes that a setting uses, and which of them have a URL.

        Only URLs in the repository's own settings count: git may not read a worktree's settings or
        a conditionally included file.
        """
        if line.section == "remote" and line.below:
            self._remotes[line.below] = None
            if line.key == "url" and not line.value:  # clears the list of URLs
                self._with_url.discard(line.below)
            elif line.key == "url" and file == self._location.common / "config":
                self._with_url.add(line.below)
            return
        is_named = f"{line.section}.{line.key}" in _REMOTE_SETTINGS
        if is_named and _REMOTE_NAME.fullmatch(line.value):
            self._remotes[line.value] = None

    @staticmethod
    def _named(value: str, below: Path) -> Path:
        if not value or value.startswith(("%", ":(")):  # prefixes that git expands
            raise Refused(
                f"The settings refer to a file as {value!r}", "use a path without variables"
            )
        return below / expand_home(value)

    def _words(self, line: _Line) -> Iterator[ApprovalItem]:
        """Yield the files in the vault that a setting refers to, if its text contains their paths.

        The trailing parts of a path are tried too, because it may begin with ``~`` or a variable.
        """
        text, top = line.text, self._location.top
        candidates = [line.value, *text.split(), *_QUOTES.split(text), *_MARKS.split(text)]
        candidates += [word[2:] for word in candidates if word.startswith("-")]
        for word in filter(None, dict.fromkeys(map(str.strip, candidates))):
            names = word.split("/") if len(word) <= _LONGEST else []
            ends = ("/".join(names[at:]) for at in range(max(1, len(names) - _ENDS), len(names)))
            for path in (word, *filter(None, ends)):
                file = os.path.join(top, path)
                self.used.add(Path(file))
                if os.path.isfile(file):  # noqa: PTH113 - Path raises for a name that is too long
                    real = Path(os.path.realpath(file))
                    if any(Path(way).is_relative_to(top) for way in (real, os.path.normpath(file))):
                        yield from self._file(real)

    def _folder(self, folder: Path) -> Iterator[ApprovalItem]:
        count = 0
        for parent, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                count += 1
                if count > _MAX_PARTS:
                    hint = "delete the files that git does not need"
                    raise Refused(f"{self._name(folder)} contains too many files", hint)
                if not name.endswith(".sample"):
                    yield from self._file(Path(parent, name))

    def _file(self, file: Path) -> Iterator[ApprovalItem]:
        self.used.add(file)
        if str(file) not in self._digested:
            self._digested.add(str(file))
            data = _read(Path(os.path.realpath(file)))
            if data is not None:
                yield _item(self._name(file), data)

    def _name(self, file: Path) -> str:
        for above in (self._location.folder, self._location.common, self._location.top):
            if file.is_relative_to(above):
                return replace_surrogates(file.relative_to(above).as_posix())
        return replace_surrogates(file.name)


def _item(name: str, data: bytes | str) -> ApprovalItem:
    whole = os.fsencode(data) if isinstance(data, str) else data
    return ApprovalItem(name, hashlib.sha256(whole).hexdigest())


def _read(file: Path, max_bytes: int = plain_files.MAX_STATE_BYTES) -> bytes | None:
    """Return a file's bytes, or None if it is missing.

    Raises:
        Refused: the file is not a regular file, or is larger than ``max_bytes``.
    """
    try:
        return plain_files.read(file, max_bytes)
    except OSError as error:
        if not os.path.lexists(file):
            return None
        message = f"git's {replace_surrogates(file.name)} cannot be read: {error.strerror}"
        hint = "git would read it; replace it with a regular file or move it away"
        raise Refused(message, hint) from error
