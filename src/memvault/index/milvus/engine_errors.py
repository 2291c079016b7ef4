"""The address of an engine, and the mapping of its client's errors."""

from __future__ import annotations

from memvault.errors import MemvaultError, Refused
from memvault.index.local.backend import BackendUnavailable
from memvault.named_tuple import NamedTuple

_DENIED_CODES = ("UNAUTHENTICATED", "PERMISSION_DENIED")
_DENIED_WORDS = ("auth", "permission", "invalid token", "credential")
_PUNCTUATION = ".,;:'\"()[]<>"
TOKEN = "MEMVAULT_MILVUS_TOKEN"  # noqa: S105 - the name of a variable, not a token


class EngineUnavailable(BackendUnavailable):
    """The engine does not respond."""

    code = "engine_away"


class EngineRefused(Refused):
    """The engine denies access, or its collections belong to another program."""


class CollectionMissing(EngineRefused):
    """The engine has no such collections, or its file is missing."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"There is no {what}",
            "run `memvault index push` on the machine that has the vault",
        )


class EngineAddress(NamedTuple):
    """The address or file of an engine, the name of its collections, and the token.

    ``timeout`` is the number of seconds allowed for one call, and also for a refresh and its
    searches in total.
    """

    uri: str
    collection: str
    token: str
    timeout: float = 3.0


def display_address(where: EngineAddress) -> str:
    """Return an engine's address for use in messages."""
    return where.uri.partition("://")[2] or where.uri


def _status_code(error: BaseException) -> str:
    """Return the gRPC status of an error; for refusals, only the error's cause has a status."""
    code = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


def _without_names(text: str, where: EngineAddress) -> str:
    """Return a message in lower case without the names of the engine and its collections.

    Users choose these names, which could otherwise be mistaken for part of an error message.
    """
    address = display_address(where)
    host = address.partition("/")[0].rpartition(":")[0] or address

    def is_name(word: str) -> bool:
        stripped = word.strip(_PUNCTUATION)
        is_collection = stripped == where.collection or stripped.startswith(f"{where.collection}_")
        return address in word or stripped == host or is_collection

    return " ".join(word for word in text.split() if not is_name(word)).lower()


def map_error(error: Exception, where: EngineAddress) -> MemvaultError | None:
    """Map a client error to one of this program's errors; return None for any other error."""
    module = type(error).__module__
    if not module.startswith(("pymilvus", "grpc", "milvus_lite")):
        return None
    name = display_address(where)
    message = _without_names(str(getattr(error, "message", "") or error), where)
    if _status_code(error.__cause__ or error) in _DENIED_CODES or any(
        word in message for word in _DENIED_WORDS
    ):
        if where.token:
            return EngineRefused(f"The engine at {name} refused the token", f"correct {TOKEN}")
        return EngineRefused(
            f"The engine at {name} requires a token",
            f"set {TOKEN}, then allow sending it there with `memvault index push`, or with "
            "`memvault vaults add` for another machine's vault",
        )
    if "is illegal" in message:
        return EngineRefused(
            f"{where.uri!r} is not an engine address",
            "write http://HOST:19530, or the path of a file that ends with .db",
        )
    if "open local milvus failed" in message:
        return EngineUnavailable(
            f"{name} cannot be opened as an engine",
            "wait until no other process uses it, and check that milvus-lite created it",
        )
    if any(
        word in message for word in ("memory quota", "disk quota", "resource exhausted", "full")
    ):
        return EngineUnavailable(
            f"The engine at {name} is full", "free some space there and try again"
        )
    return EngineUnavailable(
        f"The engine at {name} did not answer within {where.timeout:g} s",
        "check that it is running, increase patience in [index] or in `memvault vaults add`, or "
        "set fallback = true to use this machine's own index",
    )
