"""Hand a command line over to the resident process, before anything else is loaded.

The client sends its arguments and environment. The process answers within ``PATIENCE`` seconds
that it is ready, and begins only when the client confirms that it still waits, with its standard
streams; otherwise the command is run here, as always. So no other process holds the streams of a
command that runs here. If the process dies meanwhile, a command is run here only if it reads and
has printed nothing.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as signal, which takes 3 ms to load
import os
import sys

from memvault import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from socket import socket

VARIABLE = "MEMVAULT_RESIDENT"
FOLDER = "resident"
"""The folder in the user's cache folder that contains the socket."""
SOCKET = "socket"
PATIENCE = 0.1
"""Seconds to wait for the resident process."""
HOOK_SECONDS = 0.9
"""Seconds that a hook may take; the client's agent waits for it."""
READS, WRITES, BEGIN = b"r", b"w", b"b"
"""The answers of a process that is ready to run a command that reads, or one that changes
something, and the confirmation of the client."""
PRINTS, ENDED, LATE = b"p", b"e", b"l"
"""Messages of the process: it begins to print; the command has ended, with the exit code."""
SIZE = 4
"""Bytes of the number before a request: its length."""
MAX_REQUEST = 1 << 20
_RECENT_SECONDS = 600.0
_LOST = 70
_LOST_MESSAGE = (
    b"error: The resident process ended while it ran the command\n"
    b"hint: memvault log shows what was changed; then run it again\n"
)


def hand_over(arguments: Sequence[str]) -> int | None:
    """Run a command line in the resident process; None if it has to be run in this process.

    The exit code is returned once the command has ended.
    """
    if sys.platform != "linux" or os.environ.get(VARIABLE) == "off":
        return None
    if None in (sys.stdin, sys.stdout, sys.stderr) or sys.gettrace() or sys.getprofile():
        return None
    if sys.getfilesystemencoding() != "utf-8" or sys.stdout.encoding.lower() != "utf-8":
        return None
    folder = socket_folder(os.environ)
    try:
        connection = connected(folder) if folder else None
        return None if connection is None else _run(connection, arguments)
    except OSError:
        return None


def end_at_once_on_interrupt() -> None:
    """Replace Python's handler, whose exception is lost in a callback; imports run many."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def was_used_lately() -> bool:
    """Return whether a recall was run within the last ten minutes; note that one is run now.

    False too if no resident process is to be started.
    """
    if sys.platform != "linux" or os.environ.get(VARIABLE) == "off":
        return False
    import time
    from contextlib import suppress
    from pathlib import Path

    name = socket_folder(os.environ)
    if not name:
        return False
    folder = Path(name)
    try:
        age = time.time() - folder.stat().st_mtime
        os.utime(folder)
    except OSError:
        with suppress(OSError):
            folder.mkdir(0o700)
        return False
    return 0 <= age < _RECENT_SECONDS


def socket_folder(environment: Mapping[str, str]) -> str:
    """Return the folder of the socket, below the user's cache folder; empty if it is unknown.

    The cache folder is that of ``user_folders.user_folder`` on Linux.
    """
    base = os.path.expanduser(environment.get("MEMVAULT_CACHE", ""))  # noqa: PTH111  # pathlib takes 5 ms
    if not base:
        base = environment.get("XDG_CACHE_HOME", "")
        if not base.startswith("/"):
            base = os.path.join(environment.get("HOME", ""), ".cache")
        base = os.path.join(base, "memvault")
    return os.path.join(base, FOLDER) if base.startswith("/") else ""


def identity() -> str:
    """Return the program's version and folder, and Python's flags, which both processes share."""
    package = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120  # the same
    flags = [
        f"{name}={value}" for name, value in sorted(os.environ.items()) if name[:6] == "PYTHON"
    ]
    modes = sys.flags.optimize, sys.flags.dev_mode, sys.warnoptions
    return f"{__version__} {package} {sys.prefix} {sys.hexversion} {modes} {flags}"


def connected(folder: str) -> socket | None:
    """Connect to the socket in a private folder of this user; None if it is not one.

    Raises:
        OSError: no process listens.
    """
    if sys.platform != "linux":
        return None
    import _socket

    # A descriptor, since the folder cannot be replaced then, and its path may be too long.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return None
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.settimeout(PATIENCE)
        connection.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
    finally:
        os.close(descriptor)
    return connection  # type: ignore[return-value]  # what socket.socket is a subclass of


def _run(connection: socket, arguments: Sequence[str]) -> int | None:
    if sys.platform != "linux":
        return None
    import _socket

    message = request(arguments)
    if len(message) > MAX_REQUEST:
        return None
    connection.sendall(len(message).to_bytes(SIZE, "big") + message)
    answer = connection.recv(1)
    if answer not in (READS, WRITES):
        return None
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    connection.sendmsg([BEGIN], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    # From here on the process may have begun, so a command that writes is not run again.
    signals = _Signals(connection)
    connection.settimeout(HOOK_SECONDS if arguments[:1] == ["hook"] else None)
    message = _last_message(connection)
    if len(message) > 1:
        return message[1]
    if message == LATE:
        return 0
    signals.restore()
    if signals.received:
        return 128 + signals.received
    if answer == READS and message != PRINTS:
        return None
    os.write(2, _LOST_MESSAGE)
    return _LOST


def _last_message(connection: socket) -> bytes:
    """Return what the process says last: ``ENDED`` and the exit code, ``PRINTS``, or nothing.

    ``LATE`` if it takes too long.
    """
    message = b""
    try:
        while piece := connection.recv(1):
            message = piece
            if piece == ENDED:
                return message + connection.recv(1)
    except TimeoutError:
        return LATE
    except OSError:  # it has ended without having read a signal
        pass
    return message


def request(arguments: Sequence[str]) -> bytes:
    """Return a command line as the resident process reads it: texts that end with a null byte."""
    errors = sys.stdin.errors or "strict"
    has_terminal = "terminal" if any(map(os.isatty, (0, 1, 2))) else ""
    texts = [identity(), errors, has_terminal, str(len(arguments)), *arguments]
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    return b"\0".join(os.fsencode(text) for text in (*texts, *variables))


class _Signals:
    """Sends the signals that end a command to the process that runs it, which then answers.

    A second signal ends this process. ``received`` is the first one, or 0.
    """

    def __init__(self, connection: socket) -> None:
        self.received = 0
        self._connection = connection
        numbers = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)
        handled = [number for number in numbers if _signal.getsignal(number) != _signal.SIG_IGN]
        self._replaced = {number: _signal.signal(number, self._send) for number in handled}

    def restore(self) -> None:
        """Restore the handlers."""
        for number, handler in self._replaced.items():
            _signal.signal(number, handler)

    def _send(self, number: int, _: object) -> None:
        if self.received:
            _signal.signal(number, _signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.received = number
        from contextlib import suppress

        with suppress(OSError):  # the process has ended, which is noticed where it is waited for
            self._connection.send(bytes([number]))
