"""Secrets in what a tool is about to write, that the file did not hold before."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memvault.errors import Refused
from memvault.secrets_found import detect
from memvault.secrets_found.detect import Secret
from memvault.vault import codec

_NAMED = 5
_REFUSED = "A secret is not written, as memvault.toml says: "
_PLAIN_KEY = re.compile(r"\w{1,19}")
"""A key that can be named: it is too short to be a secret itself."""


class SecretRejected(Refused):
    """A text with a secret, in a vault that takes none."""

    def locate_in_arguments(self, given: Mapping[str, Any]) -> None:
        """Say which of a tool's arguments hold a secret, where they do by themselves."""
        places = [
            f"{one.kind} in {f'line {one.line} of ' if chr(10) in text.strip() else ''}{name}"
            for name, text in _texts("", given)
            for one in detect.find_secrets(text)
        ]
        if places:
            self.message = _REFUSED + _few(places)


def added_secrets(before: bytes, after: bytes) -> list[Secret]:
    """Return the secrets that come with a file's new bytes, unless its header allows them."""
    text = codec.decode(after).text
    secrets = detect.find_secrets(text)
    if not secrets or _are_fine(after):
        return []
    known = detect.secret_values(codec.decode(before).text)
    return [one for one in secrets if text[one.start : one.end] not in known]


def in_file(path: str, data: bytes) -> str:
    """Say which secrets are in a file or its name, and where; nothing if its header allows them."""
    secrets = detect.find_secrets(f"{path}\n{codec.decode(data).text}")
    if not secrets or _are_fine(data):
        return ""
    lines = ((one.kind, one.line - 1) for one in secrets)
    return _few([f"{kind} in {f'line {line}' if line else 'its name'}" for kind, line in lines])


def _are_fine(data: bytes) -> bool:
    """Say whether a file's header allows its secrets."""
    with contextlib.suppress(ValueError):
        return detect.allows(codec.read_header(data)[0] or {})
    return False


def check_masks(before: bytes, after: bytes) -> Refused | None:
    """Return what stops a write that has a mask where the file has a secret.

    Who was shown a text with masks and sends it back whole would lose the secret.
    """
    text = codec.decode(after).text
    if detect.MASK not in text:
        return None
    old, kept = codec.decode(before).text, detect.secret_values(text)
    gone = {kind for value, kind in detect.secret_values(old).items() if value not in kept}
    for mask in map(detect.mask, sorted(gone)):
        if text.count(mask) > old.count(mask):
            return Refused(
                f"The text has {mask} where the file has the secret itself, which would be lost",
                "add to the text with compound, or let its owner edit the file",
            )
    return None


def refusal(secrets: Sequence[Secret]) -> SecretRejected:
    """Return what stops a write that brings secrets along, of a file that has no lines yet."""
    return SecretRejected(
        _REFUSED + _few([one.kind for one in secrets]),
        "say where it is kept instead; in a text, gitleaks:allow on its line says that it is fine",
    )


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield each text in a value, keys among them, and which argument it is in."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield name, str(key)
            inner = f"{name}.{key}" if name else str(key)
            yield from _texts(inner if _PLAIN_KEY.fullmatch(str(key)) else name, entry)
    elif isinstance(value, list | tuple):
        for place, entry in enumerate(value):
            yield from _texts(f"{name}[{place}]", entry)


def warning(path: str, secrets: Sequence[Secret]) -> str:
    """Return what is said of secrets that were written."""
    return (
        f"{path} holds a secret now: {_told(secrets)}; keep it elsewhere, and revoke it if others "
        "can read the vault or its history; secrets: allowed in the header says that it is fine"
    )


def _told(secrets: Sequence[Secret]) -> str:
    """Say which kinds of secrets stand where, and not what they are."""
    return _few([f"{one.kind} in line {one.line}" for one in secrets])


def _few(places: Sequence[str]) -> str:
    """Name the first of several places, each once."""
    named = list(dict.fromkeys(places))
    more = f", and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return ", ".join(named[:_NAMED]) + more
