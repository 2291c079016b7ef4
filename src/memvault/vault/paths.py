"""Names, ids and folders in a vault, and its private folder ``.memvault``.

``.memvault`` holds what belongs to this machine and cannot be rebuilt; it is kept out of git.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path, PurePosixPath

from memvault import clock
from memvault.errors import MemvaultError, Refused, UsageError
from memvault.files import atomic, plain_files
from memvault.lazy_pattern import lazy_pattern
from memvault.settings.exclusions import Exclusions
from memvault.vault.file_names import normalize

RESERVED = frozenset({"agents", "spaces", "tools", "templates"})
_WINDOWS = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))]
)
_NOT_IN_NAMES = frozenset('\\/:*?"<>|#^[]')
"""Characters not used in file names: some systems forbid them, or links to the file would break."""
_LEADING_MARKS = lazy_pattern(r"^[^\w]+")
_MAX_SLUG_BYTES = 120
_MAX_ID_SLUG = 40
_MAX_ID = 120


def is_reserved(name: str) -> bool:
    """Return whether Windows reserves a file's name, whatever its suffix."""
    return name.lower().partition(".")[0] in _WINDOWS


_NOT_ALPHANUMERIC = lazy_pattern(r"[^a-z0-9]")


def slug(title: str, limit: int = _MAX_SLUG_BYTES) -> str:
    """Return a file name's stem for a title: letters and digits of any script, joined by hyphens.

    It is cut between words to at most ``limit`` bytes of UTF-8, is never empty, and is never a name
    reserved by Windows.
    """
    folded = normalize("NFC", title).lower()
    cleaned = (
        _NOT_ALPHANUMERIC.sub("-", folded)
        if folded.isascii()
        else "".join(char if unicodedata.category(char)[0] in "LMN" else "-" for char in folded)
    )
    words = [word for word in (_LEADING_MARKS.sub("", part) for part in cleaned.split("-")) if word]
    out = ""
    for word in words:
        longer = f"{out}-{word}" if out else word
        if len(longer.encode()) > limit:
            out = out or word.encode()[:limit].decode("utf-8", "ignore")
            break
        out = longer
    if not out:
        return "memory"
    return f"{out}-memory" if is_reserved(out) else out


def file_name(title: str) -> str:
    """Return a title as a file's stem if Obsidian and every system allow it, else its slug."""
    fits = len(title.encode("utf-8", "replace")) <= _MAX_SLUG_BYTES and title.isprintable()
    is_odd = title.startswith(".") or title != title.strip() or is_reserved(title)
    is_usable = fits and not is_odd and not _NOT_IN_NAMES.intersection(title)
    return title if is_usable and title else slug(title)


def belongs_to_other_agent(path: str, agent: str) -> bool:
    """Return whether a file belongs to another agent: one of its values, goals, plans or events."""
    parts = PurePosixPath(path).parts
    return len(parts) > 1 and parts[0] == "agents" and parts[1] != agent


def numbered_names(path: str, is_taken: Callable[[str], bool]) -> Iterator[str]:
    """Yield a path, then numbered variants of it that are likely to be free, without end.

    The first number is found by doubling and then bisection, so that a thousand files of one name
    cost twenty checks rather than a thousand.
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


def new_id(title: str) -> str:
    """Return a new memId: the shortened slug of the title and six random characters."""
    return f"{slug(title, _MAX_ID_SLUG)}-{clock.random_id()}"


def derived_id(path: str) -> str:
    """Return the memId of a file whose header has none, derived from its path only."""
    return f"{slug(PurePosixPath(path).stem, _MAX_ID_SLUG)}-{_hash_suffix(path)}"


def id_from_name(name: str) -> str:
    """Return an id derived from a name only, the same on every machine."""
    return f"{slug(name, _MAX_ID_SLUG)}-{_hash_suffix(name)}"


def _hash_suffix(text: str) -> str:
    import hashlib

    digest = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass")).digest()[:8])
    return "".join(clock.ID_ALPHABET[(digest >> (5 * position)) & 31] for position in range(6))


def is_mem_id(text: str) -> bool:
    """Return whether a text is a valid memId: letters, digits and marks, with - _ . inside."""
    return 1 < len(text) <= _MAX_ID and all(
        unicodedata.category(char)[0] in "LMN" or (position and char in "-_.")
        for position, char in enumerate(text)
    )


def normal_type(name: str) -> str:
    """Return a type's name in kebab-case.

    Raises:
        UsageError: it cannot be the name of a folder for memories.
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.strip())
    kebab = re.sub(r"[\s_-]+", "-", normalize("NFC", spaced)).strip("-").lower()
    if slug(kebab, 200) not in (kebab, f"{kebab}-memory") or len(kebab) > 60:
        raise UsageError(
            f"{name!r} cannot be a memory type",
            "use letters, digits and hyphens, such as design-decision",
        )
    if kebab in RESERVED or is_reserved(kebab):
        raise UsageError(f"The folder {kebab!r} is not for memories", "choose another type")
    return kebab


def is_memory_path(path: str) -> bool:
    """Return whether a file at this path can be a memory, apart from exclusions."""
    parts = PurePosixPath(path).parts
    hidden = any(part.startswith(".") for part in parts)
    reserved = len(parts) > 1 and parts[0] in RESERVED
    return path.lower().endswith(".md") and not hidden and not reserved


def is_memory(path: str, exclusions: Exclusions) -> bool:
    """Return whether a file at this path is a memory in a vault with these exclusions."""
    return is_memory_path(path) and not exclusions.covers(path)


def require_outside(root: Path, target: Path) -> None:
    """Raise ``Refused`` for a place to write to that is the vault or in it, links resolved."""
    if target.resolve().is_relative_to(root.resolve()):
        raise Refused(f"{target} is inside the vault", "write it to a place outside of it")


def resolve_inside(root: Path, given: str) -> str:
    """Return a caller's path relative to the vault, with links and ``..`` resolved.

    Raises:
        Refused: the path is outside the vault.
        UsageError: the path is empty or invalid.
    """
    if "\0" in given or not given.strip():
        raise UsageError("A file's path cannot be empty or hold a NUL")
    try:
        resolved = Path(os.path.realpath(root / given))
        inside = resolved.relative_to(os.path.realpath(root))
    except ValueError as error:
        raise Refused(
            f"{given} lies outside the vault", "name a file by its path inside the vault"
        ) from error
    except OSError as error:
        raise UsageError(f"{given!r} cannot be a file's path: {error.strerror}") from error
    return inside.as_posix()


def require_plain_folders(root: Path, folder: str) -> None:
    """Check that a folder of the vault is a plain folder, or can be created as one.

    Raises:
        Refused: the folder or one of its parents is a link or a file.
    """
    path = root
    for part in PurePosixPath(folder).parts:
        path /= part
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return  # nothing there yet, or a name that no file can have
        if stat.S_ISLNK(mode):
            raise Refused(
                f"{path} is a link, and memvault does not follow links here",
                "make it a plain folder",
            )
        if not stat.S_ISDIR(mode):
            raise Refused(f"{path} is a file where a folder should be", "rename that file")


def private_folder(root: Path, name: str = "") -> Path:
    """Return ``.memvault``, created if missing and kept out of git, or the path of a folder in it.

    Raises:
        StorageError: it cannot be created.
        Refused: a part of the path is a link or a file, or ``.memvault`` has links in it.
    """
    folder = root / ".memvault"
    with atomic.map_os_errors(folder):
        require_plain_folders(root, f"{folder.name}/{name}")
        for path in (folder / part for part in ("lock", "history", "trash", "journal")):
            if path.is_symlink():
                raise Refused(f"{path} is a link", "remove the link")
        if not (folder / ".gitignore").is_file():
            atomic.make_folders(folder)
            with contextlib.suppress(FileExistsError):
                atomic.create(folder / ".gitignore", b"*\n")
                _exclude_from_git(root)
    return folder / name


def existing_private(root: Path, name: str = "") -> Path | None:
    """Return the path of a folder in ``.memvault`` for reading; None if a part of it is a link.

    Reading through a link would present the files of others as the vault's own.
    """
    with contextlib.suppress(Refused):
        require_plain_folders(root, f".memvault/{name}")
        return root / ".memvault" / name
    return None


def list_private(root: Path, name: str) -> list[str]:
    """Return the sorted names in a folder of ``.memvault``; none if it is missing or a link."""
    folder = existing_private(root, name)
    with contextlib.suppress(OSError):
        return sorted(os.listdir(folder)) if folder else []
    return []


def _exclude_from_git(root: Path) -> None:
    """Make git ignore temporary files in a vault that has no .gitignore for them.

    ``.git/info/exclude`` belongs to this clone only and is never committed. A repository whose root
    is above the vault is left unchanged.
    """
    exclude = root / ".git" / "info" / "exclude"
    with contextlib.suppress(MemvaultError, OSError):
        require_plain_folders(root, ".git/info")
        data = plain_files.read(exclude, plain_files.SETTING)
        if b".*.tmp" not in data.splitlines():
            atomic.replace_unchanged(exclude, data, data.rstrip(b"\n") + b"\n.*.tmp\n")
