"""Secrets in what a tool is about to write, that the file did not hold before."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from memvault.errors import Refused
from memvault.secrets_found import detect
from memvault.secrets_found.detect import Secret
from memvault.vault import codec

_NAMED = 5


class HoldsSecret(Refused):
    """A text with a secret, in a vault that takes none."""


def of(before: bytes, after: bytes) -> list[Secret]:
    """Return the secrets that come with a file's new bytes, unless its header allows them."""
    text = codec.decode(after).text
    secrets = detect.found(text)
    if not secrets:
        return []
    with contextlib.suppress(ValueError):
        if detect.allows(codec.read_header(after)[0] or {}):
            return []
    known = detect.values(codec.decode(before).text)
    return [one for one in secrets if text[one.start : one.end] not in known]


def overwritten(before: bytes, after: bytes) -> Refused | None:
    """Return what stops a write that has a mask where the file has a secret.

    Who was shown a text with masks and sends it back whole would lose the secret.
    """
    text = codec.decode(after).text
    if detect.MASK not in text:
        return None
    old, kept = codec.decode(before).text, detect.values(text)
    gone = {kind for value, kind in detect.values(old).items() if value not in kept}
    for mask in map(detect.mask, sorted(gone)):
        if text.count(mask) > old.count(mask):
            return Refused(
                f"The text has {mask} where the file has the secret itself, which would be lost",
                "add to the text with compound, or let its owner edit the file",
            )
    return None


def refusal(secrets: Sequence[Secret]) -> HoldsSecret:
    """Return what stops a write that brings secrets along."""
    return HoldsSecret(
        f"A secret is not written, as memvault.toml says: {told(secrets)}",
        "say where it is kept instead, or write gitleaks:allow on its line if it is fine",
    )


def warning(path: str, secrets: Sequence[Secret]) -> str:
    """Return what is said of secrets that were written."""
    return (
        f"{path} holds a secret now: {told(secrets)}; keep it elsewhere, and revoke it if others "
        "can read the vault or its history; secrets: allowed in the header says that it is fine"
    )


def told(secrets: Sequence[Secret]) -> str:
    """Say which kinds of secrets stand where, and not what they are."""
    places = list(dict.fromkeys((one.kind, one.line) for one in secrets))
    told = [f"{kind} in line {line}" for kind, line in places[:_NAMED]]
    more = f", and {len(places) - len(told)} more" if len(places) > len(told) else ""
    return ", ".join(told) + more
