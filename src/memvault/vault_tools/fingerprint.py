"""Compute a tool's fingerprint: a digest of the files that trusting the tool covers.

A tool runs in ``tools/``. Its fingerprint covers its own file, every other file below ``tools/``
except the definitions of other tools, and the vault's files in its command.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from memvault import process
from memvault.errors import Refused, StorageError, UsageError
from memvault.files.walk import is_link, walk
from memvault.named_tuple import NamedTuple
from memvault.vault import program_files
from memvault.vault_tools.definition import FOLDER
from memvault.vault_tools.tool_files import ToolFile, read_all

_MAX_BYTES = 50_000_000
_MAX_FILES = 10_000
_CHUNK_BYTES = 1024 * 1024
_OPEN_FLAGS = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
    _OPEN_FLAGS |= getattr(os, _flag, 0)


class CoveredFiles:
    """The files that trust covers in one vault; each is listed and read only once for all tools."""

    def __init__(self, root: Path) -> None:
        self.base = os.path.realpath(root)
        self.digests: dict[str, tuple[str, int]] = {}
        """The digest and size of each file already read, by its path in the vault."""

    @cached_property
    def tool_folder(self) -> frozenset[str]:
        """Every file below ``tools/``, except the files that define tools.

        A file such as ``CLAUDE.md``, which programs read as instructions, is included even if it
        defines a tool.

        Raises:
            Refused: ``tools/`` contains a link.
            StorageError: a folder cannot be read.
        """
        definitions = {tool.path for tool in read_all(Path(self.base)).tools.values()}
        return frozenset(
            path
            for path in _files_below(self.base, FOLDER)
            if path not in definitions or program_files.read_as(path)
        )


class ToolFingerprint(NamedTuple):
    """A digest of everything that trust in a tool covers, and the paths of the covered files.

    ``program`` is the resolved first word of the command. ``uncovered`` contains the folders and
    outside files in the command, which the digest does not cover.
    """

    digest: str
    files: list[str]
    program: str
    uncovered: list[str]


def fingerprint_of(
    root: Path, tool: ToolFile, vault_files: CoveredFiles | None = None
) -> ToolFingerprint:
    """Return a tool's fingerprint, with the program to run.

    To check several tools, pass the same ``vault_files``, so that each file is read once; to run a
    tool, omit ``vault_files``, so that the files are read again.

    Raises:
        Refused: its command goes through a link in the vault, ``tools/`` contains a link, or its
        files exceed the limits.
        StorageError: a file cannot be read.
    """
    vault_files = vault_files or CoveredFiles(root)
    base = vault_files.base
    program, *arguments = tool.definition.command
    with contextlib.suppress(UsageError):  # A missing program is reported when the tool runs.
        folder = Path(base, FOLDER)
        program = process.find_program(program, folder, process.environment(root))
    covered = set(vault_files.tool_folder)
    uncovered = []
    for word in dict.fromkeys((program, *arguments)):
        path = _resolve(base, word)
        if path is None or (word == program and os.sep not in program):  # Not in tools/.
            continue
        if process.is_below(path, base):
            if word == program:
                program = path
            if not os.path.isdir(path):
                covered.add(os.path.relpath(path, base).replace(os.sep, "/"))
            elif path != os.path.join(base, FOLDER):
                uncovered.append(f"{word}, a folder")
        elif word != program:
            uncovered.append(f"{word}, outside the vault")
    files = sorted(covered)
    if len(files) > _MAX_FILES:
        raise Refused(
            f"{FOLDER}/ contains more than {_MAX_FILES:,} files",
            f"move files that no tool needs out of {FOLDER}/",
        )
    digests = list(_digests(vault_files, files))
    definition = hashlib.sha256(tool.data).hexdigest()
    digest = hashlib.sha256(json.dumps([definition, digests]).encode()).hexdigest()
    return ToolFingerprint(digest, files, program, uncovered)


def _resolve(base: str, path: str) -> str | None:
    """Return a path relative to ``tools/`` with links resolved, or None if it does not exist.

    Raises:
        Refused: the path goes through a link inside the vault.
    """
    if not path or "\0" in path:
        return None
    folder = os.path.join(base, FOLDER)
    here = "/" if Path(path).is_absolute() else folder
    if sys.platform == "win32":
        path = os.path.realpath(os.path.join(folder, path))
        return path if os.path.lexists(path) else None
    link = ""
    for part in path.split("/"):
        if part in ("", "."):
            continue
        here = str(Path(here).parent) if part == ".." else os.path.join(here, part)
        try:
            if not stat.S_ISLNK(os.lstat(here).st_mode):
                continue
            link = link or (here if process.is_below(here, base) else "")
            here = os.path.realpath(here, strict=True)
        except OSError:  # missing or inaccessible
            if not link:
                return None
            break
    if link:
        shown = os.path.relpath(link, base)
        raise Refused(
            f"{shown} is a link, and memvault does not follow links here", "replace it with a copy"
        )
    return here


def _files_below(base: str, top: str) -> Iterator[str]:
    """Yield every file below a folder in the vault.

    Raises:
        Refused: a file is a link, whose target could change without notice.
        StorageError: a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise StorageError(
            f"{top}/ cannot be read: {error.strerror}", "check its permissions"
        ) from error

    for folder, folders, files in walk(os.path.join(base, top), refuse):
        inside = os.path.relpath(folder, base).replace(os.sep, "/")
        for name in (*files, *folders):
            if is_link(os.path.join(folder, name)):
                raise Refused(
                    f"{inside}/{name} is a link, and trust does not cover its target",
                    "replace it with a copy",
                )
        yield from (f"{inside}/{name}" for name in files)


def _digests(vault_files: CoveredFiles, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each path with the digest of its bytes.

    Raises:
        Refused: the files are too large.
        StorageError: a file cannot be read.
    """
    remaining, digests = _MAX_BYTES, vault_files.digests
    for path in paths:
        if path not in digests:
            try:
                digests[path] = _digest_file(vault_files.base, path, remaining)
            except OSError as error:
                raise StorageError(
                    f"{path} cannot be read: {error.strerror}", "check its permissions"
                ) from error
        digest, size = digests[path]
        remaining -= size
        if remaining < 0:
            raise _too_much(path)
        yield path, digest


def _digest_file(base: str, path: str, max_bytes: int) -> tuple[str, int]:
    """Return the digest and the size of a regular file of at most ``max_bytes`` bytes."""
    whole = os.path.join(base, path)
    mode = os.lstat(whole)
    if not stat.S_ISREG(mode.st_mode):
        raise Refused(f"{path} is not a regular file", "remove it, or use another file")
    if mode.st_size > max_bytes:
        raise _too_much(path)
    return _digest(whole, max_bytes)


def _too_much(path: str) -> Refused:
    return Refused(
        f"The tool's files and {FOLDER}/ have more than {_MAX_BYTES // 10**6} MB",
        f"move {path} out of {FOLDER}/ and change its path in the tool",
    )


def _digest(path: str, max_bytes: int) -> tuple[str, int]:
    """Return the digest of a regular file and the number of bytes read.

    Reading stops soon after ``max_bytes``.
    """
    digest = hashlib.sha256()
    size = 0
    with open(os.open(path, _OPEN_FLAGS), "rb") as file:
        while size <= max_bytes and (piece := file.read(_CHUNK_BYTES)):
            digest.update(piece)
            size += len(piece)
    return digest.hexdigest(), size
