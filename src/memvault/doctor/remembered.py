"""Cache the results of single-file checks next to the index, by file content."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memvault.call import Call
from memvault.errors import MemvaultError
from memvault.files import atomic, plain_files

_CODE = Path(__file__).resolve().parents[1]
_PACKAGES = ("doctor", "index/text", "insights", "secrets", "store", "vault")
"""The packages whose code determines the results."""
_MAX_BYTES = 256 * 1024 * 1024
_CHECKSUM = 16
"""Number of bytes of the checksum before the results."""


class RememberedResults:
    """The cached results of single-file checks; a file is checked again after its bytes change.

    ``name`` is the name of the file with the results, beside the index.

    A result is found by a hash of everything that it depends on, so it is never outdated. Results
    from other code or with other settings are not used. With a detector from another package, which
    may change at any time, nothing is cached.
    """

    def __init__(self, call: Call, name: str) -> None:
        secrets, folder = call.settings.secrets, call.index.folder
        is_used = folder is not None and secrets.detector == "builtin"
        self._file = folder / name if folder is not None and is_used else None
        code = [
            plain_files.stamp_of(file)
            for package in _PACKAGES
            for file in sorted((_CODE / package).glob("*.py"))
        ]
        self._made_with = repr((code, call.settings.encoding, secrets.on_write)).encode()
        self._stored = self._load()
        self._used: dict[str, dict[str, Any]] = {}
        self._has_new = False

    def _load(self) -> dict[str, dict[str, Any]]:
        """Return the stored results; empty if missing, damaged or computed by other code."""
        data = b""
        if self._file is not None:
            with contextlib.suppress(OSError):
                data = plain_files.read(self._file, _MAX_BYTES)
        results = memoryview(data)[_CHECKSUM:]
        if data[:_CHECKSUM] != self._checksum(results):
            return {}
        text = str(results, "utf-8")
        del data, results  # The file may be large.
        loaded: dict[str, dict[str, Any]] = json.loads(text)
        return loaded

    def _checksum(self, results: bytes | memoryview) -> bytes:
        digest = plain_files.digest_of(results, _CHECKSUM)
        return plain_files.digest_of(self._made_with + digest, _CHECKSUM)

    def get(self, check: str, inputs: Sequence[Any], compute: Callable[[], Any]) -> Any:
        """Return the result of a check, or None if it is empty.

        The result is a JSON value. The inputs that determine it are strings, and values whose
        representation contains only strings and constants.
        """
        key = plain_files.digest_of(repr(inputs).encode(), 12).hex()
        used = self._used.setdefault(check, {})
        if key not in used:
            stored = self._stored.get(check, {})
            if key in stored:
                used[key] = stored.pop(key)
            else:
                used[key] = compute() or None  # most results are empty
                self._has_new = True
        return used[key]

    def save(self) -> None:
        """Write the results; those of a check that did not run are kept."""
        has_old = any(self._stored.get(check) for check in self._used)
        if self._file is None or not (self._has_new or has_old):
            return
        data = json.dumps({**self._stored, **self._used}, separators=(",", ":")).encode()
        if len(data) > _MAX_BYTES - _CHECKSUM:
            return
        with contextlib.suppress(MemvaultError, OSError):
            atomic.write(self._file, self._checksum(data) + data, private=True, durable=False)


class NoResults(RememberedResults):
    """A cache that stores nothing, for a text that is not stored in a file."""

    def __init__(self) -> None:
        pass

    def get(self, check: str, inputs: Sequence[Any], compute: Callable[[], Any]) -> Any:  # noqa: ARG002  # the same signature
        """Return the computed result, or None if it is empty."""
        return compute() or None

    def save(self) -> None:
        """Do nothing."""
