"""Mask secrets in results; only ``invoke`` uses this.

In a part of a result that comes from a memory, that memory's secrets are masked, even truncated
ones, unless its header allows them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import islice
from typing import Any

from memvault.call import Call
from memvault.errors import MemvaultError
from memvault.lazy_pattern import lazy_pattern
from memvault.model import FileState, Memory
from memvault.named_tuple import NamedTuple
from memvault.secrets.detector import BUILTIN, SecretDetector, allows
from memvault.store.memory_store import MemoryStore
from memvault.vault.scan import file_state, is_settled
from memvault.workspace import Workspace

_ID_KEYS = ("memId", "id")
_TEXT_KEYS = ("content", "snippet", "text", "diff")
"""Keys of a result whose value is a memory's text or an excerpt of it."""
_MEM_ID = lazy_pattern(r"\(([\w.-]{1,200})[;)]")
"""Matches the memId that ``context`` adds to a line as its source."""
_MAX_MEM_IDS = 1_000
"""The maximum number of source memIds to look up in one string; ``context`` adds up to ten."""
_BETWEEN = "\n\0\n"
"""A string that no secret contains."""
_OPEN_MARKUP = lazy_pattern(r"%%|[<>]")
"""Matches delimiters of hidden text; joining strings could pair delimiters of two strings."""
_MAX_FILES = 4_096
"""Maximum number of files whose secrets are cached."""


class KnownSecrets(NamedTuple):
    """The secrets to mask in a memory's text, with their kinds, and the secrets it allows."""

    secrets: Mapping[str, str] = {}
    allowed: frozenset[str] = frozenset()


_VERSIONS: dict[tuple[MemoryStore, str, str], KnownSecrets | None] = {}
"""Cached secrets of each memory version, by store, path and etag."""


class _Lookups(NamedTuple):
    """The lookups for one result, cached because its strings may mention a memory many times.

    ``in_vault`` returns a call for a named vault; ``known`` returns the secrets of a memory by its
    path or memId.
    """

    in_vault: Callable[[str], Call]
    known: Callable[[Call, str, str], KnownSecrets | None]


def masked(call: Call, unmasked: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with its secrets masked; ``call`` reads the memories mentioned in it."""
    texts: list[str] = []
    excerpts: list[Mapping[str, Any]] = []
    _collect(unmasked, texts, excerpts)
    is_clean = not _has_secrets(detector_of(call.workspace), texts)
    if is_clean and not excerpts:
        return dict(unmasked)
    with call.workspace.lock:
        lookups = _Lookups(cache(partial(_in_vault, call)), cache(_known))
        if is_clean and not any(_may_have_secrets(call, part, lookups) for part in excerpts):
            return dict(unmasked)
        result: dict[str, Any] = _masked(call, unmasked, KnownSecrets(), lookups)
    return result


def _collect(value: Any, texts: list[str], excerpts: list[Mapping[str, Any]]) -> None:
    """Collect all strings in a value, and the mappings that contain a memory's text."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, Mapping):
        if any(map(value.get, _TEXT_KEYS)):
            excerpts.append(value)
        for key, entry in value.items():
            _collect(key, texts, excerpts)
            _collect(entry, texts, excerpts)
    elif isinstance(value, list | tuple):
        for entry in value:
            _collect(entry, texts, excerpts)


def _has_secrets(detector: SecretDetector, texts: Sequence[str]) -> bool:
    """Return whether any of the texts contains a secret."""
    joined: list[str] = []
    alone: list[str] = []
    for text in texts:
        (alone if _OPEN_MARKUP.search(text) else joined).append(text)
    return any(map(detector.find, [_BETWEEN.join(joined), *alone]))


def _may_have_secrets(call: Call, excerpt: Mapping[str, Any], lookups: _Lookups) -> bool:
    """Return whether an excerpt's memory contains secrets or is in another vault."""
    vault = excerpt.get("vault")
    if isinstance(vault, str) and vault and lookups.in_vault(vault) is not call:
        return True
    known_secrets = _secrets_of(call, excerpt, lookups)
    return known_secrets is not None and bool(known_secrets.secrets)


def detector_of(workspace: Workspace) -> SecretDetector:
    """Return a vault's detector; the built-in one if its settings cannot be read."""
    try:
        return workspace.settings.detector
    except MemvaultError:
        return BUILTIN


def _masked(call: Call, value: Any, known_secrets: KnownSecrets, lookups: _Lookups) -> Any:
    if isinstance(value, str):
        return _masked_text(call, value, known_secrets, lookups)
    if isinstance(value, Mapping):
        vault = value.get("vault")
        call = lookups.in_vault(vault) if isinstance(vault, str) and vault else call
        memory_secrets = (
            _secrets_of(call, value, lookups) if any(map(value.get, _TEXT_KEYS)) else None
        )
        result = _masked_entries(call, value, memory_secrets or known_secrets, lookups)
        if memory_secrets is None and result != value:
            # A secret was masked; check whether the memory allows it.
            memory_secrets = _secrets_of(call, value, lookups)
            if memory_secrets is not None and memory_secrets.allowed:
                result = _masked_entries(call, value, memory_secrets, lookups)
        return result
    if isinstance(value, list | tuple):
        return [_masked(call, entry, known_secrets, lookups) for entry in value]
    return value


def _masked_entries(
    call: Call, value: Mapping[Any, Any], known_secrets: KnownSecrets, lookups: _Lookups
) -> dict[Any, Any]:
    return {
        _masked(call, key, known_secrets, lookups): _masked(call, entry, known_secrets, lookups)
        for key, entry in value.items()
    }


def _in_vault(call: Call, name: str) -> Call:
    """Return a call for the vault in a part of a result, or the given call if unknown."""
    with contextlib.suppress(MemvaultError):
        roots = [root for root in call.vaults([name]).values() if root != call.root]
        if len(roots) == 1:
            return Call(call.workspace.open_other(roots[0]), call.caller, read_only=True)
    return call


def _masked_text(call: Call, text: str, known_secrets: KnownSecrets, lookups: _Lookups) -> str:
    detector = detector_of(call.workspace)
    result = detector.masked_part(text, *known_secrets)
    if result != text and not known_secrets.allowed:
        names = islice(dict.fromkeys(match[1] for match in _MEM_ID.finditer(text)), _MAX_MEM_IDS)
        named = (lookups.known(call, "", name) for name in names)
        allowed = frozenset(
            value for memory_secrets in named if memory_secrets for value in memory_secrets.allowed
        )
        result = detector.masked_part(text, known_secrets.secrets, allowed) if allowed else result
    return result


def _secrets_of(call: Call, value: Mapping[str, Any], lookups: _Lookups) -> KnownSecrets | None:
    """Return the secrets of the memory that a part of a result is about, or None."""
    path, *mem_ids = (_text(value.get(key)) for key in ("filePath", *_ID_KEYS))
    mem_id = next(filter(None, mem_ids), "")
    if not (path or mem_id):
        return None
    return lookups.known(call, path, mem_id)


def _text(value: Any) -> str:
    """Return a string, or an empty string for any other value, such as a path's schema."""
    return value if isinstance(value, str) else ""


def _known(call: Call, path: str, mem_id: str) -> KnownSecrets | None:
    with contextlib.suppress(MemvaultError):
        if not path:
            return _in_memory(call.engine.names.resolve(mem_id), detector_of(call.workspace))
        if path in call.memories_read:
            return _in_version(call.workspace.store, call.memories_read[path])
        state = None if call.settings.index.sent else file_state(call.root, path)
        if state is not None and is_settled(state):
            return _in_file(call.workspace.store, state)
        return _in_memory(call.reader.read_listed(path), detector_of(call.workspace))
    return None


@lru_cache(_MAX_FILES)
def _in_file(store: MemoryStore, state: FileState) -> KnownSecrets | None:
    """Return the secrets of a memory while its file has this state; raises like ``read``."""
    return _in_memory(store.read_listed(state.path), store.settings.detector)


def _in_version(store: MemoryStore, memory: Memory) -> KnownSecrets | None:
    """Return the secrets of a memory that was read, which are cached by its etag."""
    key = store, memory.path, memory.etag
    if key in _VERSIONS:
        return _VERSIONS[key]
    if len(_VERSIONS) >= _MAX_FILES:
        _VERSIONS.clear()
    _VERSIONS[key] = found = _in_memory(memory, store.settings.detector)
    return found


def _in_memory(memory: Memory | None, detector: SecretDetector) -> KnownSecrets | None:
    if memory is None:
        return None
    secrets = detector.values(f"{memory.title}\n{memory.body}")
    if allows(memory.metadata):
        names = (memory.path, memory.mem_id, *_texts(memory.metadata))
        return KnownSecrets(allowed=frozenset(secrets).union(*map(detector.values, names)))
    return KnownSecrets(secrets)


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings in a header value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from (*_texts(key), *_texts(entry))
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _texts(entry)
