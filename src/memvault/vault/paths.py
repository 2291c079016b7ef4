"""Check paths of files in a vault: which can be memories, and which are inside the vault."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path, PurePosixPath

from memvault.errors import Refused, UsageError
from memvault.model import RESERVED_FOLDERS, is_document
from memvault.settings.exclusions import Exclusions


def belongs_to_other_agent(path: str, agent: str) -> bool:
    """Return whether a file is another agent's: its values, goals, plans or events."""
    parts = PurePosixPath(path).parts
    return len(parts) > 1 and parts[0] == "agents" and parts[1] != agent


def numbered_names(path: str, is_taken: Callable[[str], bool]) -> Iterator[str]:
    """Yield a path, then endless numbered variants of it that are likely to be free.

    The first number is found by doubling and bisection, so a thousand files with the same name
    require about twenty checks.
    """
    yield path
    pure = PurePosixPath(path)

    def numbered(number: int) -> str:
        return str(pure.with_name(f"{pure.stem}-{number}{pure.suffix}"))

    taken, free = 1, 2
    while is_taken(numbered(free)):
        taken, free = free, free * 2
    while free - taken > 1:
        middle = (taken + free) // 2
        taken, free = (middle, free) if is_taken(numbered(middle)) else (taken, middle)
    yield from map(numbered, count(free))


def is_memory_path(path: str) -> bool:
    """Return whether a file at this path can be a memory, apart from exclusions."""
    return path.lower().endswith(".md") and _may_be_listed(path)


def is_document_path(path: str) -> bool:
    """Return whether a file at this path can be a document, apart from exclusions."""
    name = path.rpartition("/")[2]
    return is_document(name) and not name.startswith("~$") and _may_be_listed(path)


def _may_be_listed(path: str) -> bool:
    """Return whether no part of a path is hidden or reserved."""
    parts = PurePosixPath(path).parts
    hidden = any(part.startswith(".") for part in parts)
    reserved = len(parts) > 1 and parts[0] in RESERVED_FOLDERS
    return not hidden and not reserved


def is_memory(path: str, exclusions: Exclusions) -> bool:
    """Return whether a file at this path is a memory in a vault with these exclusions."""
    return is_memory_path(path) and not exclusions.covers(path)


def require_outside(root: Path, target: Path) -> None:
    """Raise ``Refused`` if a path to write to is in the vault, after resolving links."""
    if Path(os.path.realpath(target)).is_relative_to(os.path.realpath(root)):
        raise Refused(f"{target} is inside the vault", "choose a path outside the vault")


def resolve_inside(root: Path, path: str) -> str:
    """Return a caller's path relative to the vault, with links and ``..`` resolved.

    Raises:
        Refused: the path is outside the vault.
        UsageError: the path is empty or invalid.
    """
    if "\0" in path or not path.strip():
        raise UsageError("A file's path cannot be empty or contain a NUL character")
    try:
        resolved = Path(os.path.realpath(root / path))
        inside = resolved.relative_to(os.path.realpath(root))
    except ValueError as error:
        raise Refused(f"{path} is outside the vault", "use a path inside the vault") from error
    except OSError as error:
        raise UsageError(f"{path!r} is not a valid file path: {error.strerror}") from error
    return inside.as_posix()


def require_plain_folders(root: Path, folder: str) -> None:
    """Check that a folder in the vault is a real folder, or can be created as one.

    Raises:
        Refused: the folder or one of its parents is a link or a file.
    """
    path = root
    for part in PurePosixPath(folder).parts:
        path /= part
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return  # Nothing exists there, or the name is invalid.
        if stat.S_ISLNK(mode):
            raise Refused(
                f"{path} is a link, which memvault does not follow here",
                "replace it with a regular folder",
            )
        if not stat.S_ISDIR(mode):
            raise Refused(f"{path} is a file where a folder should be", "rename that file")
