"""Run a command line in the resident process, before loading anything else.

Both processes first check each other (``_agree``). Then the client sends its arguments and the
relevant environment variables (``is_sent``). The daemon confirms within ``PATIENCE`` seconds that
it is ready, and starts only after the client confirms that it is still waiting and passes its
standard streams. Otherwise the command runs in the client, and no other process has the client's
streams open. If the daemon dies later, the client reruns the command only if it is read-only and
has printed nothing.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal takes 3 ms to load
import os
import sys
import time

from memvault import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from socket import socket

    if sys.platform == "linux":
        from memvault.cli.daemon.peer_check import Process
    else:
        from typing import Any as Process

VARIABLE = "MEMVAULT_RESIDENT"
FOLDER = "resident"
"""The subfolder of the user's cache folder that belongs to the resident process."""
SOCKET = "socket"
"""The name of the socket in that folder, if there is no runtime folder."""
PATIENCE = 0.1
"""Seconds to wait for the resident process."""
HOOK_SECONDS = 0.9
"""Seconds to wait for a hook's answer, because the user's agent waits for it."""
SECRET_DESCRIPTOR = 3
"""The file descriptor with the resident process's secret."""
SECRET_SIZE, DESCRIPTOR_SIZE = 8, 4
"""Size in bytes of a secret, and of a descriptor number.

The client first sends the daemon's secret and the descriptor of its own secret. The daemon
answers with the client's secret and a number that the client repeats in its request.
"""
READS, WRITES, BEGIN = b"r", b"w", b"b"
"""Handshake before a command: the daemon can run a read-only command (``READS``) or one that makes
changes (``WRITES``), and the client confirms (``BEGIN``)."""
PRINTS, ENDED, LATE = b"p", b"e", b"l"
"""The daemon's messages that output has started, and that the command has finished (followed by its
exit code). ``LATE`` marks a timeout in the client."""
LEFT = b"d"
"""The daemon's answer if the client must run the command itself, optionally followed by the
reason."""
SIZE = 4
"""Size in bytes of the length that precedes a request."""
MAX_REQUEST = 1 << 20
TERMINAL = "terminal"
APPLIED = frozenset((
    "COLUMNS", "LINES", "MEMVAULT_AGENT", "MEMVAULT_JSON", "MEMVAULT_VAULT", "NO_COLOR", "TERM",
    "TZ",
))  # fmt: skip
"""Variables that the daemon sets to the client's values for one command."""
_COMPARED = (
    "ANDROID_DATA", "HOME", "SUDO_UID", "TEMP", "TMP", "TMPDIR", "TZDIR", "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME", "XDG_STATE_HOME",
)  # fmt: skip
_COMPARED_PREFIXES = (
    "FAKETIME", "GLIBC_", "GRPC_", "HF_", "LD_", "MALLOC_", "MEMVAULT_", "OMP_", "OPENBLAS_",
    "PYTHON", "SSL_CERT_",
)  # fmt: skip
_NOT_COMPARED = (VARIABLE, "MEMVAULT_PAGER")
"""Variables that only the client reads."""
_RECENT_SECONDS = 600.0
_LOST = 70
_LOST_MESSAGE = "The resident process died while running the command"
_LOST_HINT = "check `memvault log` for its changes before you run the command again"


def run_in_daemon(arguments: Sequence[str]) -> int | None:
    """Run a command line in the resident process; return None if this process must run it.

    Returns the exit code after the command has finished.
    """
    if sys.platform != "linux" or os.environ.get(VARIABLE) == "off" or not hasattr(os, "eventfd"):
        return None
    if None in (sys.stdin, sys.stdout, sys.stderr) or sys.gettrace() or sys.getprofile():
        return None
    if sys.getfilesystemencoding() != "utf-8" or sys.stdout.encoding.lower() != "utf-8":
        return None
    try:
        connection = connected(socket_folder(os.environ))
        if connection is None:
            return None
        try:
            return _run(connection, arguments)
        finally:
            connection.close()
    except OSError:
        return None


def end_at_once_on_interrupt() -> None:
    """Let SIGINT end the process, because ``KeyboardInterrupt`` can be lost in a callback.

    This is likely during imports, which run many callbacks.
    """
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def was_used_lately() -> bool:
    """Record a recall, and return whether another one ran within the last ten minutes.

    Returns False if no resident process should be started.
    """
    if sys.platform != "linux" or os.environ.get(VARIABLE) == "off":
        return False
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
    """Return the folder of the daemon in the cache folder; empty if it is unknown.

    The cache folder is the same as in ``user_folders.user_folder`` on Linux.
    """
    base = os.path.expanduser(environment.get("MEMVAULT_CACHE", ""))  # noqa: PTH111  # pathlib takes 5 ms
    if not base:
        base = environment.get("XDG_CACHE_HOME", "")
        if not base.startswith("/"):
            base = os.path.join(environment.get("HOME", ""), ".cache")
        base = os.path.join(base, "memvault")
    return os.path.join(base, FOLDER) if base.startswith("/") else ""


def socket_place(folder: str) -> tuple[str, str]:
    """Return the folder and the name of the socket of the daemon for ``folder``.

    The socket is in the user's runtime folder, because a sandbox may be allowed to write to a cache
    folder.

    Raises:
        OSError: there is no such folder, so no daemon is running.
    """
    status = os.stat(folder)
    if sys.platform != "win32":
        for runtime_folder in (os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.geteuid()}"):
            try:
                if runtime_folder.startswith("/") and _is_private(os.lstat(runtime_folder)):
                    return runtime_folder, f"memvault-{status.st_dev:x}-{status.st_ino:x}"
            except OSError:
                continue
    return folder, SOCKET


def _is_private(status: os.stat_result) -> bool:
    """Return whether a file status describes a folder that only this user can access."""
    is_folder = status.st_mode & 0o170000 == 0o040000
    is_own = sys.platform == "win32" or status.st_uid == os.geteuid()
    return is_folder and is_own and not status.st_mode & 0o077


def identity() -> str:
    """Return the program's version, folder and Python flags, which both processes must share."""
    package = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120  # the same
    modes = sys.flags.optimize, sys.flags.dev_mode, sys.warnoptions
    return f"{__version__} {package} {sys.prefix} {sys.hexversion} {modes}"


def is_sent(name: str) -> bool:
    """Return whether a variable is part of a request, because a command may read it."""
    return name not in _NOT_COMPARED and (
        name in APPLIED
        or name in _COMPARED
        or name.startswith(_COMPARED_PREFIXES)
        or name[-6:].lower() == "_proxy"
    )


def connected(folder: str) -> socket | None:
    """Connect to the daemon of a folder; return None if other users can access its socket.

    Raises:
        OSError: no daemon is listening.
    """
    if sys.platform != "linux" or not folder:
        return None
    import _socket

    socket_folder, name = socket_place(folder)
    # Use a descriptor, because the path could be replaced, or be too long for a socket.
    descriptor = os.open(socket_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if not _is_private(os.fstat(descriptor)):
            return None
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, 1)
        connection.settimeout(PATIENCE)
        connection.connect(f"/proc/self/fd/{descriptor}/{name}")
    finally:
        os.close(descriptor)
    return connection  # type: ignore[return-value]  # the base class of socket.socket


def ask(connection: socket, arguments: Sequence[str]) -> bytes:
    """Send a command line to the daemon after a mutual check; return its answer.

    Raises:
        OSError: the daemon is not allowed to run this process's commands, or does not answer.
    """
    if sys.platform != "linux":
        raise OSError
    from memvault.cli.daemon import peer_check

    until = time.monotonic() + PATIENCE
    with peer_check.find_peer(connection) as server:
        number = _agree(connection, server)
    message = request(arguments)
    if len(message) > MAX_REQUEST:
        raise OSError("the command line is too long")
    connection.settimeout(max(0.001, until - time.monotonic()))
    connection.sendall(len(message).to_bytes(SIZE, "big") + number + message)
    return connection.recv(1)


def _agree(connection: socket, server: Process) -> bytes:
    """Check a daemon, and have it check this process; return the number to repeat in a request.

    Raises:
        OSError: the daemon's rights differ, it may be in a sandbox, or another process answered.
    """
    if sys.platform != "linux":
        raise OSError
    import _socket

    from memvault.cli.daemon import peer_check

    with peer_check.Process(os.getpid()) as own_process:
        differing = peer_check.differences(server.rights(), own_process.rights())
    if differing:
        raise PermissionError(f"different {', '.join(differing)}")
    secret, descriptor = peer_check.keep_secret()
    try:
        theirs = server.secret(SECRET_DESCRIPTOR).to_bytes(SECRET_SIZE, "big")
        connection.sendall(theirs + descriptor.to_bytes(DESCRIPTOR_SIZE, "big"))
        space = _socket.CMSG_SPACE(peer_check.CREDENTIALS)
        answer, ancillary, _, _ = connection.recvmsg(2 * SECRET_SIZE, space)
    finally:
        os.close(descriptor)
    senders = [
        peer_check.sender_of(data) for _, kind, data in ancillary if kind == _socket.SCM_CREDENTIALS
    ]
    server.check()  # The process is still alive, so its id was not reused.
    if senders != [server.number] or answer[:SECRET_SIZE] != secret.to_bytes(SECRET_SIZE, "big"):
        raise PermissionError("the socket's peer is another process")
    return answer[SECRET_SIZE:]


def _run(connection: socket, arguments: Sequence[str]) -> int | None:
    if sys.platform != "linux":
        return None
    import _socket

    answer = ask(connection, arguments)
    if answer not in (READS, WRITES):
        return None
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    connection.sendmsg([BEGIN], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    # The daemon may have started the command by now, so a command that writes is not rerun.
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
    if message == LEFT or (answer == READS and message != PRINTS):
        return None
    return _lost(arguments, message == PRINTS)


def _lost(arguments: Sequence[str], has_printed: bool) -> int:
    """Report that the daemon has died; return the exit code."""
    from memvault.cli.options import GlobalOptions

    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in options or GlobalOptions.from_environment().json
    if as_json and not has_printed:
        from memvault.errors import Bug
        from memvault.sanitize import as_json_lines

        text, stream = as_json_lines(Bug(_LOST_MESSAGE, _LOST_HINT).result()), 1
    else:
        text, stream = f"error: {_LOST_MESSAGE}\nhint: {_LOST_HINT}", 2
    data = text.encode() + b"\n"
    from contextlib import suppress

    with suppress(OSError):  # The output is closed.
        os.write(stream, data)
    return _LOST


def _last_message(connection: socket) -> bytes:
    """Return the daemon's last message, normally ``ENDED`` and the exit code.

    The message is empty if the daemon died without sending one, and ``LATE`` after a timeout.
    """
    message = b""
    try:
        while piece := connection.recv(1):
            message = piece
            if piece == ENDED:
                return message + connection.recv(1)
    except TimeoutError:
        return LATE
    except OSError:  # The daemon died without reading a forwarded signal.
        pass
    return message


def request(arguments: Sequence[str]) -> bytes:
    """Return a command line in the format of ``request.parse``: null-terminated strings."""
    has_terminal = TERMINAL if any(map(os.isatty, (0, 1, 2))) else ""
    errors = sys.stdin.errors or "strict"
    texts = [identity(), str(int(time.time() * 1_000)), errors, has_terminal]
    variables = [f"{name}={value}" for name, value in os.environ.items() if is_sent(name)]
    return encoded((*texts, str(len(arguments)), *arguments, *variables))


def encoded(texts: Sequence[str]) -> bytes:
    """Return the strings of a request as bytes."""
    return b"\0".join(map(os.fsencode, texts))


class _Signals:
    """Forwards termination signals to the daemon, which then answers.

    A second signal ends this process. ``received`` is the first signal, or 0.
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

        with suppress(OSError):  # The waiting code notices that the daemon has died.
            self._connection.send(bytes([number]))
