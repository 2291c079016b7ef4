"""Serve the pages: a socket on loopback, uvicorn, and the URL with its token."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from memvault.errors import Refused

_HOST = "127.0.0.1"


def listening(port: int | None) -> socket.socket:
    """Return a loopback socket on a port of 127.0.0.1; 0 selects a free port.

    Without a port, it uses a random loopback address if the system has several. Browsers store
    cookies per address, and service workers per address and port, so a random address has none from
    other servers.

    Raises:
        Refused: the port is taken, or this user may not use it.
    """
    if port is None and sys.platform == "linux" and "microsoft" not in os.uname().release.lower():
        host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(3))])
        with contextlib.suppress(OSError):
            return _bound(host, 0)
    try:
        return _bound(_HOST, port or 0)
    except OSError as error:
        problem = f"Port {port or 0} is not available: {error.strerror or error}"
        raise Refused(problem, "omit `--port` to use a free port") from error


def _bound(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen()
    except BaseException:
        made.close()
        raise
    return made


def serve(
    root: Path,
    port: int | None,
    ready: Callable[[str], None],
    opened: Callable[[], None],
    writes: bool = False,
) -> None:
    """Serve a vault's pages until interrupted; ``listening`` explains ``port``.

    With ``writes``, the pages can edit memories.
    ``ready`` gets the URL to open, and ``opened`` is called when a browser has opened it.
    """
    import uvicorn

    from memvault.web.access import Access
    from memvault.web.app import application
    from memvault.web.session import WebSession
    from memvault.web.slow_worker import SlowWorker

    with listening(port) as made:
        host, bound_port = made.getsockname()
        access = Access.random()
        session = WebSession(root, SlowWorker(root))
        app = application(session, access, (host, bound_port), opened, writes)
        config = uvicorn.Config(app, log_level="critical", lifespan="off")
        server = uvicorn.Server(config)
        try:
            ready(f"http://{host}:{bound_port}{access.first}")
            server.run(sockets=[made])
        finally:
            session.close()
