"""The server of the pages: a socket on loopback, uvicorn, and the address with its token."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from memvault.errors import Refused

_HOST = "127.0.0.1"
DEFAULT_PORT = 8421


def listening(port: int | None) -> socket.socket:
    """Return a socket on loopback; without a port the default one, or a free one if it is taken.

    Raises:
        Refused: the port is taken, or this user may not use it.
    """
    for wanted in (port,) if port is not None else (DEFAULT_PORT, 0):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((_HOST, wanted))
            made.listen()
        except (OSError, OverflowError) as error:
            made.close()
            if wanted == 0 or port is not None:
                raise Refused(
                    f"Port {wanted} cannot be used: {error}", "--port 0 takes a free one"
                ) from error
        else:
            return made
    raise AssertionError("the last port returns or raises")


def serve(root: Path, port: int | None, ready: Callable[[str], None]) -> None:
    """Serve the pages of a vault until it is interrupted; ``ready`` gets the address."""
    import uvicorn

    from memvault.web.app import application
    from memvault.web.session import WebSession

    with listening(port) as made:
        own = made.getsockname()[1]
        token = secrets.token_urlsafe(24)
        session = WebSession(root)
        config = uvicorn.Config(
            application(session, token, own), log_level="critical", lifespan="off"
        )
        server = uvicorn.Server(config)
        try:
            ready(f"http://{_HOST}:{own}/?token={token}")
            server.run(sockets=[made])
        finally:
            session.close()
