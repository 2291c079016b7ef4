"""Everything that can go wrong, as a tree.

::

    MemvaultError              1   failed
    ├── NotFound               1   not_found
    │   └── Ambiguous          1   ambiguous
    ├── Conflict               1   conflict
    ├── Refused                1   refused
    ├── StorageError           1   storage
    │   └── Unwritable         1   storage
    ├── EmbedderError          1   embedder
    ├── UsageError             2   usage
    ├── VaultNotFound          3   vault_not_found
    ├── VaultUnreadable        3   vault_unreadable
    ├── TimedOut               4   timed_out
    └── Bug                   70   bug

The number is the exit code of the command line, the word the ``code`` of a
failed result. A message is one sentence without a full stop that can be
understood alone; the hint says what to type next.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "Ambiguous",
    "Bug",
    "Conflict",
    "EmbedderError",
    "MemvaultError",
    "NotFound",
    "Refused",
    "StorageError",
    "TimedOut",
    "Unwritable",
    "UsageError",
    "VaultNotFound",
    "VaultUnreadable",
    "to_memvault_error",
]


class MemvaultError(Exception):
    """Base of every error that a user may see.

    ``details`` are further keys of the failed result, such as ``candidates``.
    """

    code = "failed"
    exit_code = 1

    def __init__(
        self, message: str, hint: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = dict(details or {})

    def result(self) -> dict[str, object]:
        """Return the failed result that every front end hands out."""
        error = {"code": self.code, "message": self.message}
        if self.hint:
            error["hint"] = self.hint
        return {"success": False, "error": error, **self.details}


class NotFound(MemvaultError):
    """No memory, tool or file of that name."""

    code = "not_found"


class Ambiguous(NotFound):
    """A name that fits several memories."""

    code = "ambiguous"

    def candidates(self) -> list[dict[str, str]]:
        """Return the memories that the name fits: memId, title and path of each."""
        found = self.details.get("candidates")
        return list(found) if isinstance(found, list) else []


class Conflict(MemvaultError):
    """The file is not what the caller last saw."""

    code = "conflict"


class Refused(MemvaultError):
    """Understood, possible, and not done: it would break a rule of the vault."""

    code = "refused"


class StorageError(MemvaultError):
    """The disk said no: full, read-only, no permission."""

    code = "storage"


class Unwritable(StorageError):
    """The disk, or this user's rights, allow no writing; reading may work all the same."""


class EmbedderError(MemvaultError):
    """An embedding model that cannot be loaded or run."""

    code = "embedder"


class UsageError(MemvaultError):
    """Arguments that make no sense."""

    code = "usage"
    exit_code = 2


class VaultNotFound(MemvaultError):
    """No vault where one was expected."""

    code = "vault_not_found"
    exit_code = 3


class VaultUnreadable(MemvaultError):
    """A vault that cannot be read: permissions, broken settings."""

    code = "vault_unreadable"
    exit_code = 3


class TimedOut(MemvaultError):
    """Timed out while waiting, for a lock or an event."""

    code = "timed_out"
    exit_code = 4


class Bug(MemvaultError):
    """An error in memvault itself."""

    code = "bug"
    exit_code = 70


def to_memvault_error(error: Exception) -> MemvaultError:
    """Return what a user is told of an exception: the system's refusal, or a bug of memvault's."""
    if isinstance(error, MemvaultError):
        return error
    if isinstance(error, OSError):
        message = f"{error.strerror or error}: {error.filename or 'the vault'}"
        return StorageError(message, "look at the file and try again")
    text = f"memvault met a bug: {type(error).__name__}: {error}".replace("\n", " ")
    return Bug(text, "MEMVAULT_DEBUG=1 shows where; please report it")
