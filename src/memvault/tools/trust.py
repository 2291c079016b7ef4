"""Which tools of which vaults may run on this machine, because their user said so.

A vault is data that may come from anyone, so nothing in it counts here. What
the user decided lies in the user's own state folder, one file for each vault
and tool, and holds for exactly the bytes that were looked at.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from memvault import clock, config
from memvault.errors import Refused, StorageError, UsageError
from memvault.tools import registry, running
from memvault.tools.toolfiles import Kept
from memvault.vault import atomic

__all__ = ["Cover", "cover", "grant", "is_trusted", "require", "revoke"]

_WORDS = re.compile(r"[\s;|&<>()'\"=,:]+")
_VAULT = re.compile(r"\$(?:MEMVAULT_VAULT|PWD)\b|\$\{(?:MEMVAULT_VAULT|PWD)\}")
_PIECE = 1024 * 1024


class Cover(NamedTuple):
    """What trust in a tool covers: the digest of all of it, and the vault's files it names.

    ``folders`` are named too, and what lies in them is not covered.
    """

    digest: str
    files: list[str]
    folders: list[str]


def cover(root: Path, kept: Kept) -> Cover:
    """Return what trust in a tool covers: its file, and every file of the vault it names.

    Raises:
        Refused: its command names a link.
        StorageError: a file that it names cannot be read.
    """
    files: dict[str, str] = {}
    folders: list[str] = []
    for path in _inside(root, kept.definition.command):
        digest = _file_digest(root, path)
        if digest:
            files[path] = digest
        else:
            folders.append(path)
    text = hashlib.sha256(kept.data).hexdigest()
    whole = json.dumps([text, *sorted(files.items())]).encode()
    return Cover(hashlib.sha256(whole).hexdigest(), sorted(files), sorted(folders))


def _inside(root: Path, command: Sequence[str]) -> list[str]:
    """Return the paths in the vault that a command names, also inside of its words."""
    base = os.path.realpath(root)
    words = [_VAULT.sub(lambda _: base, word) for word in command]
    with contextlib.suppress(UsageError):  # PATH may lead into the vault
        words.append(running.located(command[0], root))
    found: dict[str, None] = {}
    for word in words:
        for part in dict.fromkeys((word, *_WORDS.split(word))):
            if not part or len(part) > 4_000:
                continue
            whole = os.path.normpath(os.path.join(base, part))
            if not _is_below(whole, base):
                whole = os.path.realpath(whole)
            if _is_below(whole, base) and os.path.lexists(whole):
                found[os.path.relpath(whole, base).replace(os.sep, "/")] = None
    return list(found)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _file_digest(root: Path, path: str) -> str:
    """Return the digest of a plain file's bytes; it is empty for a folder."""
    whole = root
    for part in path.split("/"):
        whole /= part
        if whole.is_symlink():
            raise Refused(f"{path} is a link, and memvault follows none here", "copy what it is")
    digest = hashlib.sha256()
    try:
        if whole.is_dir():
            return ""
        if not stat.S_ISREG(os.lstat(whole).st_mode):
            raise Refused(f"{path} is no plain file", "let the command name another")
        with open(whole, "rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}", "check it") from error
    return digest.hexdigest()


def require(root: Path, kept: Kept) -> None:
    """Make sure that a tool may run here as it is now.

    Raises:
        Refused: its user never said so of exactly this.
    """
    name = kept.definition.name
    folder = _folder()
    given = _granted(folder, root, name)
    if given == cover(root, kept).digest:
        return
    changed = f"is not as it was when it was trusted: {kept.path} or a file that it runs"
    raise Refused(
        f"The tool {name} {changed}" if given else f"The tool {name} is not trusted here",
        f"look at {kept.path}, then memvault tools trust {name}",
    )


def is_trusted(root: Path, kept: Kept) -> bool:
    """Say whether a tool may run here as it is now."""
    with contextlib.suppress(Refused, StorageError):
        require(root, kept)
        return True
    return False


def grant(root: Path, kept: Kept, covered: Cover) -> None:
    """Let a tool run on this machine as long as what was covered stays the same.

    Raises:
        Refused: the state folder lies in a vault.
        StorageError: it cannot be written.
    """
    folder = _folder()
    record = {
        "vault": os.path.realpath(root),
        "tool": registry.normal(kept.definition.name),
        "digest": covered.digest,
        "command": list(kept.definition.command),
        "files": covered.files,
        "trusted": clock.iso(),
    }
    with atomic.explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # before anything lies in it
        file = folder / _key(root, kept.definition.name)
        atomic.put(file, json.dumps(record, indent=2).encode())
        file.chmod(0o600)


def revoke(root: Path, name: str) -> bool:
    """Let a tool no longer run on this machine; say whether it could."""
    folder = _folder()
    had = bool(_granted(folder, root, name))
    with atomic.explained(folder):
        (folder / _key(root, name)).unlink(missing_ok=True)
    return had


def _granted(folder: Path, root: Path, name: str) -> str:
    """Return the digest that was trusted, or nothing."""
    file = folder / _key(root, name)
    try:
        if not (_is_ones_own(folder) and _is_ones_own(file)):
            return ""
        record = json.loads(atomic.read(file))
        mine = (record["vault"], record["tool"]) == (os.path.realpath(root), registry.normal(name))
        return str(record["digest"]) if mine else ""
    except (OSError, ValueError, TypeError, KeyError):
        return ""


def _is_ones_own(path: Path) -> bool:
    """Say whether nobody else can have written a file or folder."""
    status = os.lstat(path)
    if os.name != "posix":
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _key(root: Path, name: str) -> str:
    whole = json.dumps([os.path.realpath(root), registry.normal(name)])
    return f"{hashlib.sha256(whole.encode()).hexdigest()}.json"


def _folder() -> Path:
    """Return the folder of trust, which no vault may bring along.

    Raises:
        Refused: the state folder lies in a vault.
    """
    folder = Path(os.path.realpath(config.state_folder())) / "trust"
    for parent in folder.parents:
        if (parent / config.SETTINGS_FILE).is_file():
            raise Refused(
                f"The state folder {folder.parent} lies in the vault {parent}, where trust is none",
                "set MEMVAULT_STATE to a folder outside of every vault",
            )
    return folder
