"""Whether the engine that settings or a person name can be used here."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from memvault.config import COLLECTION, EngineSettings, is_address, is_collection, is_patience
from memvault.errors import UsageError
from memvault.index.milvus.where import TOKEN

WRITE = 'write [index], engine = "milvus" and uri = "http://…" into memvault.toml'


def validate_engine(shared: EngineSettings) -> None:
    """Make sure that an engine's address is one, and that its client is installed.

    Raises:
        UsageError: it is not, or it is missing.
    """
    if find_spec("pymilvus") is None:
        raise UsageError(
            "Milvus needs the extra milvus", "pip install '.[milvus]' in a checkout of memvault"
        )
    if not shared.uri:
        raise UsageError("The engine's address is missing", WRITE)
    if "@" in shared.uri:
        raise UsageError(
            "The engine's address holds a name or a password",
            f"{TOKEN} may hold them, as NAME:PASSWORD; others may read the address",
        )
    if not is_address(shared.uri):
        raise UsageError(
            f"{shared.uri!r} is not an engine's address",
            "write it as http://HOST:19530, or as a file that ends with .db",
        )
    if not is_collection(shared.collection):
        raise UsageError(
            f"A collection cannot be named {shared.collection!r}", f"take {COLLECTION}"
        )
    if not is_patience(shared.patience):
        raise UsageError(f"An engine cannot have {shared.patience:g} s", "take 1 to 600 seconds")
    if "://" not in shared.uri and not Path(shared.uri).expanduser().is_absolute():
        raise UsageError(
            f"{shared.uri!r} is neither an address nor a whole path",
            "begin it with http://, or with / for a file of milvus-lite's",
        )
