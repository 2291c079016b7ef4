"""Where an engine is, and what the errors of its client mean here."""

from __future__ import annotations

from typing import NamedTuple

from memvault.errors import MemvaultError, Refused

_SHUT = ("UNAUTHENTICATED", "PERMISSION_DENIED")
_REFUSED = ("auth", "permission", "invalid token", "credential")
_MARKS = ".,;:'\"()[]<>"
TOKEN = "MEMVAULT_MILVUS_TOKEN"  # noqa: S105 - where the token is, not what it is


class EngineUnavailable(MemvaultError):
    """The engine does not answer."""

    code = "engine_away"


class EngineRefused(Refused):
    """The engine does not let us in, or holds something else under that name."""


class CollectionMissing(EngineRefused):
    """The engine has no such collections, or its file is missing."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"There is no {what}", "memvault index push makes it, on the machine that has the vault"
        )


class EngineAddress(NamedTuple):
    """Which engine: its address or a file, the name of the collections, and the token.

    ``patience`` are the seconds that a call may take, and all that look and search together.
    """

    uri: str
    collection: str
    token: str
    patience: float = 3.0


def display_address(where: EngineAddress) -> str:
    """Name an engine as sentences do."""
    return where.uri.partition("://")[2] or where.uri


def _code(error: BaseException) -> str:
    """Return an answer's status over gRPC: of a refusal the client tells in the cause alone."""
    code = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


def _without_names(text: str, where: EngineAddress) -> str:
    """Return what a message says, but for the engine's and the collections' names in it."""
    address = display_address(where)
    host = address.partition("/")[0].rpartition(":")[0] or address

    def is_name(word: str) -> bool:
        bare = word.strip(_MARKS)
        is_collection = bare == where.collection or bare.startswith(f"{where.collection}_")
        return address in word or bare == host or is_collection

    return " ".join(word for word in text.split() if not is_name(word)).lower()


def map_error(error: Exception, where: EngineAddress) -> MemvaultError | None:
    """Return what an error of the client's means; None for one that is not the engine's."""
    module = type(error).__module__
    if not module.startswith(("pymilvus", "grpc", "milvus_lite")):
        return None
    name = display_address(where)
    said = _without_names(str(getattr(error, "message", "") or error), where)
    if _code(error.__cause__ or error) in _SHUT or any(word in said for word in _REFUSED):
        if where.token:
            return EngineRefused(f"The engine at {name} refuses the token", f"{TOKEN} holds it")
        return EngineRefused(
            f"The engine at {name} wants a token",
            f"{TOKEN} holds it; memvault index push, or memvault vaults add for a vault of another "
            "machine, allows sending it to this address",
        )
    if "is illegal" in said:
        return EngineRefused(
            f"{where.uri!r} is not an engine's address",
            "write it as http://HOST:19530, or as a file that ends with .db",
        )
    if "open local milvus failed" in said:
        return EngineUnavailable(
            f"{name} cannot be opened as an engine",
            "one process at a time has it: serve, or another command; is it one of milvus-lite's?",
        )
    if any(word in said for word in ("memory quota", "disk quota", "resource exhausted", "full")):
        return EngineUnavailable(
            f"The engine at {name} is full", "free some room there, and try again"
        )
    return EngineUnavailable(
        f"The engine at {name} does not answer within {where.patience:g} s",
        "is it running? patience, below [index] or of vaults add, gives it longer; with "
        "fallback = true this machine answers meanwhile",
    )
