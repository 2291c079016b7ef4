"""Control access to the pages with secrets generated at each server start.

Browsers share a host's cookies among all of its ports, and other users may listen on other ports.
So the cookie is limited to a random path prefix, and a request needs both the prefix and the
cookie.
"""

from __future__ import annotations

import hmac
import secrets

from memvault.named_tuple import NamedTuple

COOKIE = "memvault"
_BYTES = 16


class Access(NamedTuple):
    """Random strings: the path prefix of all URLs, the token, the cookie, and the form token."""

    folder: str
    token: str
    session: str
    form: str = ""

    @classmethod
    def random(cls) -> Access:
        """Return new random secrets."""
        return cls(*(secrets.token_hex(_BYTES) for _ in cls._fields))

    @property
    def base(self) -> str:
        """The path prefix, without a slash at its end."""
        return f"/{self.folder}"

    @property
    def first(self) -> str:
        """The path and query of the URL to open."""
        return f"{self.base}/?token={self.token}"

    def is_folder(self, name: str) -> bool:
        """Return whether a path segment equals the prefix."""
        return _same(name, self.folder)

    def is_token(self, candidate: str) -> bool:
        """Return whether a string is the token."""
        return _same(candidate, self.token)

    def is_form(self, candidate: str) -> bool:
        """Return whether a string is the token that each form of the pages contains."""
        return bool(self.form) and _same(candidate, self.form)

    def is_in(self, cookies: list[str]) -> bool:
        """Return whether a ``Cookie`` header contains this session's cookie.

        The header may contain several cookies with its name, because servers on other ports can set
        them.
        """
        expected = f"{COOKIE}={self.session}"
        pairs = (pair.strip() for header in cookies for pair in header.split(";"))
        return any(_same(pair, expected) for pair in pairs)


def _same(candidate: str, expected: str) -> bool:
    return hmac.compare_digest(candidate.encode("utf-8", "replace"), expected.encode())
