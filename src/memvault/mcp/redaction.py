"""Masks over secrets in what a client is told.

A client hands on what it gets, to a model and its provider. Where a part of a
result tells of a memory, that memory's own secrets are masked in it even where
the text is cut, and are left where the memory allows them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple

from memvault.call import Call
from memvault.errors import MemvaultError
from memvault.model import Memory
from memvault.secrets import detector

_IDS = ("memId", "id")
_PIECES = ("content", "snippet", "text", "diff")
"""Keys under which a memory's text is told, often a piece of it."""
_NAMED = re.compile(r"\(([\w.-]{1,200})[;)]")
"""How ``context`` names the memory that a line is from."""
_MOST_NAMED = 1_000
"""Memories that one text may name so; ``context`` names ten."""


class KnownSecrets(NamedTuple):
    """The secrets of a memory with their kinds, and those that it allows."""

    secrets: Mapping[str, str] = {}
    fine: frozenset[str] = frozenset()


class _Looks(NamedTuple):
    """What is looked up once for a result, however often a text of the vault's names it."""

    in_vault: Callable[[str], Call]
    known: Callable[[Call, str, str], KnownSecrets | None]


def masked(call: Call, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with its secrets masked."""
    call.only_reads = True
    with call.workspace.lock:
        looks = _Looks(cache(partial(_in_vault, call)), cache(_known))
        out: dict[str, Any] = _masked(call, found, KnownSecrets(), looks)
    return out


def masked_file(memory: Memory, text: str) -> str:
    """Return the text of a memory's file with its secrets masked, unless it allows them."""
    return text if detector.allows(memory.metadata) else detector.masked(text)


def _masked(call: Call, value: Any, known: KnownSecrets, looks: _Looks) -> Any:
    if isinstance(value, str):
        return _text(call, value, known, looks)
    if isinstance(value, Mapping):
        vault = value.get("vault")
        call = looks.in_vault(vault) if isinstance(vault, str) and vault else call
        known = _secrets_of(call, value, looks) or known
        return {
            _text(call, key, known, looks): _masked(call, entry, known, looks)
            for key, entry in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(call, entry, known, looks) for entry in value]
    return value


def _in_vault(call: Call, name: str) -> Call:
    """Return a call for the vault that a part of a result is of."""
    with contextlib.suppress(MemvaultError):
        roots = [root for root in call.vaults([name]).values() if root != call.root]
        if len(roots) == 1:
            call = Call(call.workspace.open_other(roots[0]), call.caller)
            call.only_reads = True
    return call


def _text(call: Call, text: str, known: KnownSecrets, looks: _Looks) -> str:
    out = detector.masked_part(text, *known)
    if out != text and not known.fine:
        names = islice(dict.fromkeys(match[1] for match in _NAMED.finditer(text)), _MOST_NAMED)
        named = (looks.known(call, "", name) for name in names)
        fine = frozenset(value for one in named if one for value in one.fine)
        out = detector.masked_part(text, known.secrets, fine) if fine else out
    return out


def _secrets_of(call: Call, value: Mapping[str, Any], looks: _Looks) -> KnownSecrets | None:
    """Return what is known of the memory that a part of a result gives text of, if it does."""
    path = str(value.get("filePath") or "")
    mem_id = next((str(value[key]) for key in _IDS if value.get(key)), "")
    if not (path or mem_id) or not any(value.get(key) for key in _PIECES):
        return None
    return looks.known(call, path, mem_id)


def _known(call: Call, path: str, mem_id: str) -> KnownSecrets | None:
    memory = None
    with contextlib.suppress(MemvaultError):
        memory = call.store.read_listed(path) if path else call.engine.resolve(mem_id)
    if memory is None:
        return None
    secrets = detector.secret_values(f"{memory.title}\n{memory.body}")
    if detector.allows(memory.metadata):
        return KnownSecrets(fine=frozenset(secrets))
    return KnownSecrets(secrets)
