"""The server of the pages: a socket on loopback, uvicorn, and the address with its token."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from memvault.errors import Refused

_HOST = "127.0.0.1"


def listening(port: int) -> socket.socket:
    """Return a socket on loopback at a port; 0 is a free one.

    Raises:
        Refused: the port is taken, or this user may not use it.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((_HOST, port))
        made.listen()
    except (OSError, OverflowError) as error:
        made.close()
        raise Refused(
            f"Port {port} cannot be used: {error}", "omit --port for a free one"
        ) from error
    return made


def serve(root: Path, port: int, ready: Callable[[str], None], opened: Callable[[], None]) -> None:
    """Serve the pages of a vault until it is interrupted.

    ``ready`` gets the address to open, and ``opened`` is called when a browser has opened it.
    """
    import uvicorn

    from memvault.web.access import Access
    from memvault.web.app import application
    from memvault.web.session import WebSession

    with listening(port) as made:
        own = made.getsockname()[1]
        access = Access.random()
        session = WebSession(root)
        app = application(session, access, own, opened)
        config = uvicorn.Config(app, log_level="critical", lifespan="off")
        server = uvicorn.Server(config)
        try:
            ready(f"http://{_HOST}:{own}{access.first}")
            server.run(sockets=[made])
        finally:
            session.close()
