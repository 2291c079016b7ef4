"""Arbitrary bytes sent to the web pages: valid answers, no failure, no file change, no leak."""

from __future__ import annotations

import asyncio
from functools import cache

from memvault.web.access import Access
from memvault.web.app import application
from memvault.web.session import WebSession
from targets import door
from targets.connections import HTTP_TOKENS, Connections, Reply, own_environment
from targets.gateway import files
from targets.shapes import folder

_ACCESS = Access("a-folder", "a-token-that-nobody-guesses", "a-session", "a-form-token")
_TOKEN, _PORT = _ACCESS.token, 8421
_HOST = f"Host: 127.0.0.1:{_PORT}\r\n"
_OK = frozenset((200, 303, 307, 400, 403, 404, 405, 413, 415, 421))
"""The allowed status codes."""
_PATHS = (
    "/ /results /m/m1 /m/m2/history /m/m1/history?from= /tags /map /map.json /overview /review "
    "/f/ /f/alpha.md /f/memvault.toml /style.css /app.js /?q= /?tag=x /?type=fact /results?q=zebra "
    "/new /undo /preview /m/m1/edit /m/m1/tags /m/m1/rename /m/m1/forget /write.js"
).split()
TOKENS = (
    *HTTP_TOKENS,
    *(f"{_ACCESS.base}{path}\n" for path in _PATHS),
    _HOST,
    "@cookie@",
    *("POST ", f"Origin: http://127.0.0.1:{_PORT}\r\n", "Sec-Fetch-Site: same-origin\r\n"),
    *("Content-Type: application/x-www-form-urlencoded\r\n", "token=x&title=x&text=", "&etag="),
    *("q=", "&tag=", "&type=", "?from=", "?token=", "%ed%a0%80", "%0d%0a", "+", "é"),
)


def check(data: bytes) -> None:
    """Send the bytes over a connection, or as an address if they are not a request."""
    with own_environment():
        _Server.get().check(_as_request(data))


def _as_request(data: bytes) -> bytes:
    if b" HTTP/" in data:
        return data
    address = b"/" + data.strip().lstrip(b"/").replace(b" ", b"+").replace(b"\n", b"")
    return b"GET %s HTTP/1.1\r\n%s@cookie@\r\n" % (address, _HOST.encode())


class _Server:
    """The pages of a vault, and the cookie of a browser that has opened them."""

    def __init__(self) -> None:
        door.vault()
        self._loop = asyncio.new_event_loop()
        app = application(WebSession(folder()), _ACCESS, ("127.0.0.1", _PORT), writes=True)
        self._connections = Connections(app)
        opened = f"GET {_ACCESS.first} HTTP/1.1\r\n{_HOST}\r\n".encode()
        (reply,) = self._sent(opened)
        assert reply.status == 303, reply
        cookie = reply.headers["set-cookie"].partition(";")[0]
        self._cookie = f"Cookie: {cookie}\r\n".encode()

    @staticmethod
    @cache
    def get() -> _Server:
        """Return the cached server."""
        return _Server()

    def check(self, data: bytes) -> None:
        """Send bytes, then a valid request."""
        before = files(folder())  # other targets in this process write to it
        for reply in self._sent(data.replace(b"@cookie@", self._cookie)):
            assert reply.status in _OK, reply
            assert str(folder()).encode() not in reply.body
            assert b"Traceback" not in reply.body
            assert _TOKEN.encode() not in reply.body or _TOKEN.encode() in data
        assert files(folder()) == before
        (good,) = self._sent(
            _as_request(f"{_ACCESS.base}/style.css".encode()).replace(b"@cookie@", self._cookie)
        )
        assert good.status == 200, good

    def _sent(self, data: bytes) -> list[Reply]:
        return self._loop.run_until_complete(self._connections.sent(data))
