"""Check a file's new bytes for secrets, overwritten secrets and size before writing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memvault.errors import FailedCall, Refused
from memvault.files import plain_files
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.secrets.detector import Secret, SecretDetector, allows, mask
from memvault.secrets.patterns import MASK
from memvault.settings.vault_settings import Settings
from memvault.vault import decoding, document

_MAX_PLACES = 5
_REFUSED_MESSAGE = "memvault.toml is set to refuse secrets: "
_PLAIN_KEY = lazy_pattern(r"\w{1,19}")
"""Matches keys that are too short to be secrets and can be shown in messages."""


class CheckedBytes(NamedTuple):
    """Bytes that ``SecretPolicy`` accepted, and the secrets that they add."""

    data: bytes
    secrets: Sequence[Secret] = ()


class SecretPolicy:
    """The rules for new bytes in a vault's files.

    With ``restores``, the new bytes are earlier bytes of the file, which may contain secrets and
    masks.
    """

    def __init__(self, settings: Settings, restores: bool = False) -> None:
        self._settings = settings
        self._restores = restores

    def check(self, before: bytes, after: bytes) -> CheckedBytes:
        """Check the new bytes of a file; ``before`` is empty for a new file.

        Raises:
            Refused: the data is too large, a mask would replace a secret, or the settings refuse
                the secrets that the bytes add.
        """
        plain_files.check_size(after)
        if self._restores:
            return CheckedBytes(after)
        lost = check_masks(before, after, self._settings)
        if lost is not None:
            raise lost
        checked = self.inspect(before, after)
        if checked.secrets and self._settings.secrets.on_write == "refuse":
            raise SecretRejected(checked.secrets, self._settings.detector)
        return checked

    def inspect(self, before: bytes, after: bytes) -> CheckedBytes:
        """Return the secrets that an already written change adds, without refusing any."""
        if self._settings.secrets.on_write == "off":
            return CheckedBytes(after)
        return CheckedBytes(after, added_secrets(before, after, self._settings))


class SecretRejected(Refused):
    """The text contains a secret, and the vault's settings refuse secrets.

    The message has no line numbers, because no file exists yet.
    """

    def __init__(self, secrets: Sequence[Secret], detector: SecretDetector) -> None:
        super().__init__(
            _REFUSED_MESSAGE + _join_places([secret.kind for secret in secrets]),
            "write where it is stored; to allow it in a memory, add gitleaks:allow to its line",
        )
        self._detector = detector

    def add_context(self, failed: FailedCall) -> None:
        """Add the arguments that contain a secret to the message."""
        places = [
            f"{secret.kind} in {f'line {secret.line} of ' if chr(10) in text.strip() else ''}{name}"
            for name, text in _strings_in("", failed.arguments)
            for secret in self._detector.find(text)
        ]
        if places:
            self.message = _REFUSED_MESSAGE + _join_places(places)


def added_secrets(before: bytes, after: bytes, settings: Settings) -> list[Secret]:
    """Return the secrets that a file's new bytes add, unless its header allows them.

    ``before`` is empty for a new file.
    """
    secrets = settings.detector.find(decoding.decode(after, settings.encoding).text)
    if not secrets or _allows_secrets(after, settings.encoding):
        return []
    old_values = settings.detector.values(decoding.decode(before, settings.encoding).text)
    return [secret for secret in secrets if not secret.is_in(old_values)]


def secrets_in_file(path: str, data: bytes, settings: Settings) -> str:
    """Describe the secrets in a file or its name; empty if its header allows them."""
    text = decoding.decode(data, settings.encoding).text
    secrets = settings.detector.find(f"{path}\n{text}")
    if not secrets or _allows_secrets(data, settings.encoding):
        return ""
    lines = ((secret.kind, secret.line - 1) for secret in secrets)
    return _join_places(
        [f"{kind} in {f'line {line}' if line else 'its name'}" for kind, line in lines]
    )


def _allows_secrets(data: bytes, encoding: str) -> bool:
    """Return whether a file's header allows its secrets."""
    return allows(document.Document.parse(data, encoding=encoding).header or {})


def check_masks(before: bytes, after: bytes, settings: Settings) -> Refused | None:
    """Return the error if a write would replace a secret in the file with its mask.

    A caller who reads masked text and writes it back would destroy the secret. ``before`` is
    empty for a new file.
    """
    detector = settings.detector
    text = decoding.decode(after, settings.encoding).text
    if MASK not in text:
        return None
    old = decoding.decode(before, settings.encoding).text
    remaining = detector.values(text)
    lost_kinds = {kind for value, kind in detector.values(old).items() if value not in remaining}
    for masked in map(mask, sorted(lost_kinds)):
        if text.count(masked) > old.count(masked):
            return Refused(
                f"The text has {masked} where the file has the secret, which would be lost",
                "add text with `memvault compound`, or ask the owner to edit the file",
            )
    return None


def _strings_in(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield each string in a value, including keys, with the name of its argument."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield name, str(key)
            inner = f"{name}.{key}" if name else str(key)
            yield from _strings_in(inner if _PLAIN_KEY.fullmatch(str(key)) else name, entry)
    elif isinstance(value, list | tuple):
        for position, entry in enumerate(value):
            yield from _strings_in(f"{name}[{position}]", entry)


def secret_warning(path: str, secrets: Sequence[Secret]) -> str:
    """Return a warning about secrets that were written, by kind and line."""
    places = _join_places([f"{secret.kind} in line {secret.line}" for secret in secrets])
    return (
        f"{path} now contains a secret: {places}; store it elsewhere and "
        "revoke it if others can read the vault or its history; to allow it, "
        + (
            "set secrets: allowed in the header"
            if path.endswith(".md")
            else "add gitleaks:allow in a comment on its line"
        )
    )


def _join_places(places: Sequence[str]) -> str:
    """Join the first few distinct places, and count the rest."""
    named = list(dict.fromkeys(places))
    others = f", and {len(named) - _MAX_PLACES} more" if len(named) > _MAX_PLACES else ""
    return ", ".join(named[:_MAX_PLACES]) + others
