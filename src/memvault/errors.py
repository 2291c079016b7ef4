"""memvault's errors, as a class hierarchy.

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

The number is the exit code of the command line, and the text after it the ``code`` of a failed
result. A message is one self-contained sentence without a period; the hint suggests the next
action.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memvault.named_tuple import NamedTuple

__all__ = [
    "Ambiguous",
    "Bug",
    "Conflict",
    "EmbedderError",
    "FailedCall",
    "MemvaultError",
    "NotFound",
    "Refused",
    "StorageError",
    "TimedOut",
    "Unwritable",
    "UsageError",
    "VaultNotFound",
    "VaultUnreadable",
    "closest",
    "did_you_mean",
    "exclusive",
    "suggestion",
    "to_memvault_error",
]


class Verbatim(str):
    """A message or hint to show verbatim: from a vault's tool, or already in the caller's terms.

    ``tools.core.messages`` rewrites commands and options in all other messages.
    """

    __slots__ = ()


def closest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the name closest in spelling to an unknown one; empty if none is close."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(names), n=1, cutoff=cutoff)), "")


def suggestion(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return a hint for an unknown name: the closest known name, or else another hint."""
    match = closest(name, names)
    return f"did you mean {match}?" if match else otherwise


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of a note that suggests the closest known name; empty if none is close."""
    match = closest(name, names)
    return f"; did you mean {match}?" if match else ""


class FailedCall(NamedTuple):
    """A call that failed: its arguments, and a description of the files it had changed."""

    arguments: Mapping[str, object]
    changed: str


INSTALL = "in a checkout of memvault, pip install"
"""The beginning of hints about packages to install; memvault is not on PyPI."""


class MemvaultError(Exception):
    """Base class of all errors shown to users.

    ``details`` contains additional keys of the failed result, such as ``candidates``. With
    ``is_flat``, ``error`` in that result is only the message, next to ``code`` and ``hint``. With
    ``lists_changes``, the hint lists the files that the call had changed before it failed.
    """

    code = "failed"
    exit_code = 1
    is_flat = False
    lists_changes = False

    def __init__(
        self, message: str, hint: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = dict(details or {})

    def add_context(self, failed: FailedCall) -> None:
        """Add details about the failed call to the error."""
        if self.lists_changes and failed.changed:
            self.hint = f"{self.hint}; {failed.changed}"

    def result(self) -> dict[str, object]:
        """Return the failed result that all front ends return."""
        hint = {"hint": self.hint} if self.hint else {}
        if self.is_flat:
            flat = {"error": self.message, "code": self.code, **hint}
            return {"success": False, **flat, **self.details}
        error = {"code": self.code, "message": self.message, **hint}
        return {"success": False, "error": error, **self.details}


class NotFound(MemvaultError):
    """There is no memory, tool or file with that name."""

    code = "not_found"


class Ambiguous(NotFound):
    """A name matches several memories."""

    code = "ambiguous"

    def candidates(self) -> list[dict[str, str]]:
        """Return the memories that match the name, each with memId, title and path."""
        candidates = self.details.get("candidates")
        return list(candidates) if isinstance(candidates, list) else []


class Conflict(MemvaultError):
    """The file has changed since the caller read it."""

    code = "conflict"

    @classmethod
    def changed(cls, path: object, hint: str = "try again") -> Conflict:
        """Return the error for a file that was changed between two steps of one call."""
        return Conflict(f"{str(path)!r} has changed since it was read", hint)


class Refused(MemvaultError):
    """The request is valid, but would violate one of the vault's rules."""

    code = "refused"


class StorageError(MemvaultError):
    """The file system failed: it is full or read-only, or access was denied."""

    code = "storage"
    lists_changes = True


class Unwritable(StorageError):
    """The file system or this user's permissions do not allow writing; reading may still work."""


class EmbedderError(MemvaultError):
    """An embedding model cannot be loaded or run."""

    code = "embedder"


class UsageError(MemvaultError):
    """The arguments are invalid."""

    code = "usage"
    exit_code = 2


def exclusive(options: Mapping[str, object]) -> None:
    """Raise ``UsageError`` if more than one option has a true value."""
    names = [f"`{name}`" for name, value in options.items() if value]
    if len(names) > 1:
        raise UsageError(f"{names[0]} and {names[1]} cannot be combined", "pass only one of them")


class VaultNotFound(MemvaultError):
    """There is no vault where one was expected."""

    code = "vault_not_found"
    exit_code = 3


class VaultUnreadable(MemvaultError):
    """A vault cannot be read, because of permissions or invalid settings."""

    code = "vault_unreadable"
    exit_code = 3


class TimedOut(MemvaultError):
    """A lock or an event did not arrive in time."""

    code = "timed_out"
    exit_code = 4


class Bug(MemvaultError):
    """An error in memvault itself."""

    code = "bug"
    exit_code = 70
    lists_changes = True


def to_memvault_error(error: Exception) -> MemvaultError:
    """Convert an exception to an error shown to users: a storage error, or a bug in memvault."""
    if isinstance(error, MemvaultError):
        return error
    if isinstance(error, MemoryError):
        return StorageError("The process ran out of memory", "close other programs and try again")
    if isinstance(error, OSError):
        message = f"{error.strerror or error}: {error.filename or 'the vault'}"
        return StorageError(message, "check the file and try again")
    text = f"memvault hit a bug: {type(error).__name__}: {error}".replace("\n", " ")
    return Bug(text, "please report it with the traceback that MEMVAULT_DEBUG=1 prints")
