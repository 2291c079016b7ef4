"""What git keeps: trees, files and commits, read and written without a working tree."""

from __future__ import annotations

import re
import tempfile
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from memvault.errors import Refused
from memvault.upkeep.git.program import Git
from memvault.vault.codec import replace_surrogates
from memvault.vault.normal_form import normalize

SCRATCH = "memvault-sync-"
"""How the folders begin that a killed sync leaves in git's own."""
_SHORT = re.compile(r"(?:git|memvau)~[0-9]+")
"""What Windows calls .git and .memvault besides."""
_FIELDS = "%H%x00%T%x00%P%x00%an%x00%ae%x00%ad%x00%B"


class TreeEntry(NamedTuple):
    """A file in a tree: its mode, and the name of its bytes."""

    mode: str
    name: str

    @property
    def is_plain(self) -> bool:
        """Whether it is a file, and no link or other repository."""
        return self.mode.startswith("100")


class ChangedPath(NamedTuple):
    """A path that two trees differ in; None where there is no such file."""

    path: str
    before: TreeEntry | None
    after: TreeEntry | None


class Commit(NamedTuple):
    """A commit: its name, tree and parents, and who wrote it, when, with which message."""

    name: str
    tree: str
    parents: list[str]
    author: str
    email: str
    date: str
    message: str


class Objects:
    """Git's objects, and an index of their own for trees that are being made.

    ``scratch`` is a folder for as long, in git's own ``folder``.
    """

    def __init__(self, git: Git, folder: Path) -> None:
        self._git = git
        self._folder = tempfile.TemporaryDirectory(prefix=SCRATCH, dir=folder)
        self.scratch = Path(self._folder.name)
        self._own = {"GIT_INDEX_FILE": str(self.scratch / "index")}

    def __enter__(self) -> Objects:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def files(self, tree: str) -> dict[str, TreeEntry]:
        """Return the files of a tree by path."""
        found = {}
        for line in _parts(self._git.run("ls-tree", "-r", "-z", "--full-tree", tree)):
            about, path = line.split("\t", 1)
            mode, _, name = about.split(" ")
            found[path] = TreeEntry(mode, name)
        return found

    def differences(self, before: str, after: str) -> list[ChangedPath]:
        """Return what two trees differ in."""
        words = ("diff-tree", "-r", "-z", "--no-renames", "--raw", "--full-index", before, after)
        parts = _parts(self._git.run(*words))
        found = []
        for about, path in zip(parts[::2], parts[1::2], strict=True):
            mode, new_mode, name, new_name, _ = about.lstrip(":").split(" ")
            found.append(ChangedPath(path, _entry(mode, name), _entry(new_mode, new_name)))
        return found

    def check_names(self, tree: str) -> None:
        """Make sure that each name in a tree means one file, whatever system it comes to.

        Raises:
            Refused: one is .memvault or .git to some system, or a file and a folder at once.
        """
        files: dict[str, str] = {}
        folders: set[str] = set()
        words = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree)
        for path in _parts(self._git.run(*words)):
            if is_private(path):
                hint = "take it out with git rm -r --cached where it was committed, and push that"
                raise Refused(
                    f"{replace_surrogates(path)} is of one machine, and no file to share", hint
                )
            above = _folded(path)
            files[above] = path
            while (above := above.rpartition("/")[0]) and above not in folders:
                folders.add(above)
        for name in folders & files.keys():
            hint = "rename one of the two where it was committed, and push that with git"
            raise Refused(f"{replace_surrogates(files[name])} is a file and a folder at once", hint)

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of files by their names."""
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        data = self._git.run("cat-file", "--batch", data="".join(f"{n}\n" for n in wanted).encode())
        found, place = {}, 0
        for name in wanted:
            end = data.index(b"\n", place)
            size = int(data[place:end].rsplit(b" ", 1)[1])
            found[name] = data[end + 1 : end + 1 + size]
            place = end + size + 2
        return found

    def small(self, names: Iterable[str], most: int) -> list[str]:
        """Return the names of files that have so many bytes at most."""
        wanted = dict.fromkeys(names)
        data = "".join(f"{name}\n" for name in wanted).encode()
        said = self._git.run("cat-file", "--batch-check=%(objectsize)", data=data).split()
        return [name for name, size in zip(wanted, map(int, said), strict=True) if size <= most]

    def write(self, data: bytes) -> str:
        """Keep bytes; return their name."""
        return self._git.run("hash-object", "-w", "--stdin", data=data).decode().strip()

    def begin_tree(self, tree: str) -> None:
        """Begin with the files of a tree."""
        self._nothing = TreeEntry("0", "0" * len(tree))
        self._git.run("read-tree", tree, more=self._own)

    def tree(self, changes: Mapping[str, TreeEntry | None]) -> str:
        """Change the files that were begun with; return the name of the tree that they make."""
        if changes:
            ordered = sorted(changes.items(), key=lambda change: change[1] is not None)
            lines = (f"{mode} {name}\t{path}\0" for path, (mode, name) in
                     ((path, entry or self._nothing) for path, entry in ordered))  # fmt: skip
            data = "".join(lines).encode("utf-8", "surrogateescape")
            self._git.run("update-index", "-z", "--index-info", data=data, more=self._own)
        return self._git.run("write-tree", more=self._own).decode().strip()

    def commits(self, since: str, until: str) -> list[Commit]:
        """Return the commits that lead from one to another, the first first."""
        words = ("log", "-z", "--reverse", "--topo-order", "--date=raw", f"--format={_FIELDS}")
        fields = self._git.run(*words, f"{since}..{until}").decode("utf-8", "surrogateescape")
        parts = fields.removesuffix("\0").split("\0") if fields else []
        found = []
        for at in range(0, len(parts), 7):
            name, tree, parents, author, email, date, message = parts[at : at + 7]
            found.append(Commit(name, tree, parents.split(), author, email, date, message))
        return found

    @cached_property
    def _committer(self) -> tuple[list[str], dict[str, str]]:
        """Whether commits are signed, as git's option, and who makes them."""
        is_signing = self._git.config("commit.gpgSign").lower() == "true"
        return ["-S"] if is_signing else [], self._git.identity()

    def commit(self, tree: str, parents: Iterable[str], old: Commit, message: str) -> str:
        """Make a commit in another one's place; return its name."""
        author = {
            "GIT_AUTHOR_NAME": old.author or "unknown",
            "GIT_AUTHOR_EMAIL": old.email,
            "GIT_AUTHOR_DATE": old.date,
        }
        above = [word for parent in parents for word in ("-p", parent)]
        data = message.encode("utf-8", "surrogateescape")
        signed, who = self._committer
        more = {**who, **author}
        words = ("commit-tree", *signed, *above, tree)
        return self._git.run(*words, data=data, more=more).decode().strip()


def is_private(path: str) -> bool:
    """Return whether a path leads into .git or .memvault on Linux, macOS or Windows."""
    names = (name.partition(":")[0].rstrip(" .") for name in _folded(path).split("/"))
    return any(name in (".git", ".memvault") or _SHORT.fullmatch(name) for name in names)


def _folded(path: str) -> str:
    """Return a path as a file system sees it that tells neither cases nor normal forms apart."""
    if path.isascii():
        return path.lower()
    kept = "".join(char for char in path if unicodedata.category(char) != "Cf")
    return normalize("NFC", normalize("NFC", kept).casefold())


def _entry(mode: str, name: str) -> TreeEntry | None:
    return None if set(mode) == {"0"} else TreeEntry(mode, name)


def _parts(data: bytes) -> list[str]:
    return [part.decode("utf-8", "surrogateescape") for part in data.split(b"\0") if part]
