"""API tokens for the vaults served by this machine, each with an agent, vaults and a scope.

Each token is a file in the user's configuration folder. It contains a hash of the token, never the
token itself. SHA-256 suffices, because 256 random bits cannot be guessed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from memvault import clock
from memvault.agents.address import USER, address
from memvault.errors import Conflict, MemvaultError, NotFound, StorageError, UsageError, suggestion
from memvault.files import atomic, plain_files
from memvault.files.user_folders import make_private, only_user_can_write
from memvault.named_tuple import NamedTuple
from memvault.named_vaults import NAME
from memvault.secrets.patterns import OUR_MARK
from memvault.settings import locate, user_settings

READ: Literal["read"] = "read"
SCOPES = (READ, "write")
_RESOURCE_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_TEXT_FIELDS = ("name", "agent", "scope", "created", "expires", "hash")


class ApiToken(NamedTuple):
    """A token's permissions.

    ``vaults`` contains names; the first is the default. ``expires`` is empty if it never expires.
    """

    name: str
    agent: str
    vaults: tuple[str, ...]
    scope: Literal["read", "write"]
    created: str
    expires: str
    hash: str

    @property
    def is_expired(self) -> bool:
        """Whether the token has expired."""
        return bool(self.expires) and self.expires <= clock.iso()

    def public_fields(self) -> dict[str, Any]:
        """Return the fields to show to a person, without the hash."""
        expiry = {"expires": self.expires} if self.expires else {}
        problem = {"problem": "expired"} if self.is_expired else {}
        return {
            "name": self.name,
            "agent": self.agent,
            "vaults": list(self.vaults),
            "scope": self.scope,
            "created": self.created,
            **expiry,
            **problem,
        }


def add(
    name: str, vaults: Sequence[str], scope: str, agent: str, days: int
) -> tuple[ApiToken, str]:
    """Create a token; return its record and the token's text, which is not stored.

    ``agent`` defaults to ``name``. The token expires after ``days``; 0 means never.

    Raises:
        UsageError: a name, the agent or the scope is invalid, or no vault is given.
        VaultNotFound: no vault has one of the names.
        Conflict: a token with that name exists.
        StorageError: the token cannot be written.
    """
    if not name:
        raise UsageError(
            "The token's name is missing", "run `memvault tokens add NAME --vaults NAME`"
        )
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid token name", "use up to 40 lowercase letters, digits, - and _"
        )
    if scope not in SCOPES:
        raise UsageError(f"{scope!r} is not a scope", f"use {' or '.join(SCOPES)}")
    if not vaults:
        raise UsageError(
            "The vaults are missing", f"run `memvault tokens add {name} --vaults NAME,NAME`"
        )
    for vault in vaults:
        locate.vault_named(vault)
    speaker = address(agent or name)
    if speaker.brain or speaker.agent == USER:
        raise UsageError(
            f"A token cannot act as {agent or name}", "pass an agent with `--as AGENT`"
        )
    text = f"{OUR_MARK}{secrets.token_urlsafe(32)}"
    expires = clock.iso(clock.now() + timedelta(days=days)) if days else ""
    vault_names = tuple(dict.fromkeys(vaults))
    token = ApiToken(
        name, speaker.agent, vault_names, _scope(scope), clock.iso(), expires, _hash(text)
    )
    path = _folder(make=True) / f"{name}.json"
    data = json.dumps(token._asdict(), indent=1).encode()
    try:
        atomic.create(path, data)
    except FileExistsError as error:
        raise Conflict(
            f"A token named {name} already exists",
            f"choose another name, or run `memvault tokens remove {name}` first",
        ) from error
    return token, text


def remove(name: str) -> None:
    """Delete a token; a running server refuses it from then on.

    Raises:
        UsageError: the name is missing.
        NotFound: no token has that name.
    """
    if not name:
        raise UsageError("The token's name is missing", "run `memvault tokens remove NAME`")
    token_names = {token.name for token in all_tokens()}
    if name not in token_names:
        names = ", ".join(sorted(token_names))
        hint = f"tokens: {names}" if names else "run `memvault tokens list` to list the tokens"
        raise NotFound(f"There is no token named {name!r}", suggestion(name, token_names, hint))
    with atomic.map_os_errors(name):
        (_folder() / f"{name}.json").unlink(missing_ok=True)


def all_tokens() -> list[ApiToken]:
    """Return every token, sorted by name.

    Raises:
        StorageError: the tokens cannot be read.
    """
    return sorted(_read(), key=lambda token: token.name)


class TokenStore:
    """The current tokens, read again when their files change.

    A removed or expired token is refused from the next request on.
    """

    def __init__(self) -> None:
        self._state: tuple[object, ...] | None = None
        self._tokens: dict[str, ApiToken] = {}

    def verify(self, text: str) -> ApiToken | None:
        """Return the record of a token, or None if it is unknown or expired.

        Raises:
            MemvaultError: the tokens cannot be read; until they can, no token is accepted.
        """
        self._refresh()
        token = self._tokens.get(_hash(text))
        return None if token is None or token.is_expired else token

    def is_valid(self, token: ApiToken) -> bool:
        """Return whether a token still exists, unchanged, and has not expired.

        Raises:
            MemvaultError: the tokens cannot be read.
        """
        self._refresh()
        return self._tokens.get(token.hash) == token and not token.is_expired

    def _refresh(self) -> None:
        """Read the tokens again if one was added, changed or removed."""
        try:
            state = _state()
            if state == self._state:
                return
            tokens = {token.hash: token for token in _read()}
        except MemvaultError:
            self._state, self._tokens = None, {}
            raise
        self._state, self._tokens = state, tokens


def _state() -> tuple[object, ...]:
    """Return the names, times and inodes of the token files, which change with every token."""
    state: list[object] = []
    with (
        contextlib.suppress(FileNotFoundError),
        atomic.map_os_errors("the tokens"),
        os.scandir(_folder()) as entries,
    ):
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            state.append((entry.name, status.st_mtime_ns, status.st_ctime_ns, status.st_ino))
    return tuple(state)


def _read() -> Iterator[ApiToken]:
    """Yield every token, skipping files that are not tokens or cannot be read.

    Links, and files that other users can write to, are skipped too.

    Raises:
        StorageError: the folder cannot be read, or the process has too many files open.
    """
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError), atomic.map_os_errors("the tokens"):
        names = os.listdir(_folder())
    for name in names:
        path = _folder() / name
        if name.endswith(".json") and not name.startswith("."):
            try:
                token = (
                    _parsed(json.loads(plain_files.read(path)))
                    if only_user_can_write(path)
                    else None
                )
            except (OSError, ValueError, KeyError, TypeError) as error:
                # A token that cannot be read for lack of resources may be valid.
                if isinstance(error, OSError) and error.errno in _RESOURCE_ERRORS:
                    raise StorageError(
                        f"The tokens cannot be read: {error.strerror}", "try again later"
                    ) from error
                continue
            if token is not None and f"{token.name}.json" == name:  # Ignore copies of a file.
                yield token


def _parsed(data: dict[str, Any]) -> ApiToken:
    texts = {key: data[key] for key in _TEXT_FIELDS}
    vaults = data["vaults"]
    if not all(isinstance(text, str) for text in (*texts.values(), *vaults)) or not vaults:
        raise TypeError("invalid fields")
    return ApiToken(**{**texts, "vaults": tuple(vaults), "scope": _scope(texts["scope"])})


def _scope(text: str) -> Literal["read", "write"]:
    return "write" if text == "write" else READ


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _folder(make: bool = False) -> Path:
    """Return the folder of the tokens; with ``make``, create it, accessible only to this user.

    Raises:
        StorageError: the user has no configuration folder, or the folder cannot be created.
        UsageError: the folder is in a vault.
    """
    folder = user_settings.file().parent / "tokens"
    if make:
        try:
            make_private(folder)
        except OSError as error:
            raise StorageError(
                f"Cannot create {folder}: {error.strerror}",
                "set MEMVAULT_CONFIG to use another folder for your settings",
            ) from error
    return folder
