"""Run the HTTP server: listening address, TLS certificate, signals and graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

import anyio
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from uvicorn.protocols.http.h11_impl import H11Protocol

from memvault.errors import MemvaultError, StorageError, UsageError
from memvault.mcp.fair_shares import CallCosts, FairShares
from memvault.mcp.profiles import ToolSelection
from memvault.mcp.read_runner import Lane, shared_lane
from memvault.mcp.request_queue import RequestQueue
from memvault.mcp.server import handle_signals
from memvault.named_tuple import NamedTuple
from memvault.server import tokens
from memvault.server.audit import AuditLog, RepeatLimitingHandler
from memvault.server.gateway import PATH, HttpGateway, RequestLimits
from memvault.server.read_pool import ReadPool
from memvault.server.tenants import TenantServers, log_operator_note
from memvault.server.tokens import TokenStore
from memvault.settings import locate
from memvault.settings.vault_settings import load_settings

_HOST_NAME = re.compile(r"[\w.-]+|\[?[0-9a-fA-F:.]+\]?")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_GRACE_PERIOD = 30.0
"""Grace period in seconds for running calls after a shutdown signal."""
_EXIT_TIMEOUT, _FORCED_EXIT_TIMEOUT = 15.0, 2.0
"""Seconds for the process to exit after the grace period or a second signal."""
_EXIT_ABORTED = 1
"""The exit code if running calls were aborted."""
_MAX_CONNECTIONS = 1_000
_IDLE_TIMEOUT = 10.0
"""Seconds that a connection may stay open without a request."""
_SWITCH_INTERVAL = 0.001
"""The interpreter's thread switch interval in seconds, so the event loop stays responsive."""
_POLL_INTERVAL = 0.05
_REAP_INTERVAL = 1.0


class ListenAddress(NamedTuple):
    """The address to listen on, and the host names that clients use for it."""

    host: str
    port: int
    allowed_hosts: tuple[str, ...]

    @classmethod
    def read(cls, text: str, names: Sequence[str]) -> ListenAddress:
        """Parse ``HOST:PORT``, ``:PORT`` or ``PORT``; the default host is the loopback address.

        Raises:
            UsageError: the text is not an address, a name is not a host name, or the host is the
            wildcard address and no name is given.
        """
        host, _, port = text.strip().rpartition(":")
        host = host.strip("[]") or _LOOPBACK[0]
        if not port.isdecimal() or int(port) > 65_535:
            raise UsageError(f"{text!r} is not an address", "pass HOST:PORT, such as :8420")
        if not names and _is_any(host):
            raise UsageError(
                "Listening on all interfaces needs `--name HOST`",
                "pass the host name that clients use, such as `--name memory.example.org`",
            )
        invalid = next((name for name in names if not _HOST_NAME.fullmatch(name)), None)
        if invalid is not None:
            raise UsageError(
                f"{invalid!r} is not a host name",
                "pass a host name, such as `--name memory.example.org`",
            )
        return cls(host, int(port), tuple(names))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        with contextlib.suppress(ValueError):
            return ip_address(self.host).is_loopback
        return self.host in _LOOPBACK

    def security(self) -> TransportSecuritySettings:
        """Return the accepted values of ``Host`` and ``Origin``.

        Checking these headers protects the server from web pages of other origins and from DNS
        rebinding.
        """
        own_hosts = _LOOPBACK if self.is_loopback else (self.host,)
        names = [_bracketed(name) for name in (*own_hosts, *self.allowed_hosts)]
        hosts = [entry for name in names for entry in (name, f"{name}:*")]
        return TransportSecuritySettings(
            allowed_hosts=hosts,
            allowed_origins=[f"{kind}://{host}" for host in hosts for kind in ("http", "https")],
        )

    def bound(self) -> socket.socket:
        """Return a socket that listens on the address.

        Raises:
            StorageError: the address is in use, or does not belong to this machine.
        """
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # asyncio sets TCP_NODELAY only on sockets whose protocol is given; otherwise small packets
        # are delayed by 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.host, self.port))
            listener.listen()  # From here on, a client that reads the address can connect.
        except OSError as error:
            listener.close()
            raise StorageError(
                f"{self.host}:{self.port} is not available: {error.strerror or error}",
                f"use another port, such as :{self.port % 65_535 + 1}",
            ) from error
        return listener


class TlsCertificate(NamedTuple):
    """The files of a TLS certificate and its key, in PEM; empty for plain HTTP."""

    file: str = ""
    key: str = ""

    def check(self) -> None:
        """Check that certificate and key match, or that neither is given.

        Raises:
            UsageError: one of them is missing, or they cannot be used.
        """
        if bool(self.file) != bool(self.key):
            raise UsageError(
                "A certificate needs its key", "pass both `--certificate FILE` and `--key FILE`"
            )
        if self.file:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            try:
                context.load_cert_chain(self.file, self.key)
            except (OSError, ValueError) as error:
                raise UsageError(
                    f"The certificate cannot be used: {error}", "pass PEM files of a matching pair"
                ) from error


class _Uvicorn(uvicorn.Server):
    """The web server without its own signal handlers, so running calls can finish first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield


class IdleTimeoutProtocol(H11Protocol):
    """An HTTP connection that is closed if no request arrives in time.

    The number of connections is limited, so an idle one would keep other clients out.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as there
        """Start the timeout for the first request."""
        super().connection_made(transport)
        self._start_timeout()

    def send_400_response(self, msg: str) -> None:
        """Reject bytes that are not HTTP, and end the request whose body contained them, if any."""
        try:
            super().send_400_response(msg)
        except Exception:  # h11 raises a protocol error if the response was already started.
            self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def on_response_complete(self) -> None:
        """Start the timeout for the next request."""
        super().on_response_complete()
        self._start_timeout()

    def _start_timeout(self) -> None:
        self.loop.call_later(_IDLE_TIMEOUT, self._close_if_idle, self.cycle)

    def _close_if_idle(self, cycle: object) -> None:
        if self.cycle is cycle and not self.transport.is_closing():
            self.transport.close()


def serve(
    address: ListenAddress,
    certificate: TlsCertificate,
    vaults: Sequence[str],
    offer: ToolSelection,
    limits: RequestLimits,
    audit: AuditLog,
    workers: int = 0,
) -> int:
    """Serve vaults over HTTP until a signal ends the process; return the exit code.

    Without ``vaults``, all vaults on this machine are served to tokens that permit them.
    ``workers`` is the number of extra processes for read-only tools.

    Raises:
        StorageError: the address cannot be used.
        UsageError: the certificate cannot be used.
    """
    certificate.check()
    for name, root in locate.reachable_vaults(vaults or None).items():
        try:
            offer.selected(load_settings(root))
        # Calls to this vault report the error; the other vaults are still served.
        except MemvaultError as error:
            log_operator_note(error, name)
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    logging.getLogger("mcp").propagate = False  # Its messages contain data from clients.
    log = RepeatLimitingHandler()
    for name in ("uvicorn", "asyncio"):
        logging.getLogger(name).addHandler(log)
        logging.getLogger(name).propagate = False
    served = frozenset(vaults) if vaults else None
    with contextlib.closing(address.bound()) as listening:
        run = HttpServer(
            address, certificate, listening, served, offer, limits, audit, log, workers
        )
        return asyncio.run(run.run_until_signal())


@dataclass
class HttpServer:
    """One run of the server; without ``served`` it serves every vault on this machine."""

    address: ListenAddress
    certificate: TlsCertificate
    listening: socket.socket
    served: frozenset[str] | None
    offer: ToolSelection
    limits: RequestLimits
    audit: AuditLog
    log: RepeatLimitingHandler
    workers: int

    async def run_until_signal(self) -> int:
        """Serve until a signal arrives, and shut down; return the exit code.

        Running calls have a grace period to end; a second signal ends it immediately.
        """
        stop = asyncio.Event()
        signals: list[int] = []

        def on_signal() -> None:
            if len(signals) > 1:
                web.force_exit = True
                self._exit_after(_FORCED_EXIT_TIMEOUT)
            stop.set()

        shares, costs = FairShares(), CallCosts()
        apart = max(1, self.workers // 2)
        lane = Lane(RequestQueue(total=apart, shares=shares), costs)
        heavy_reads = ReadPool(apart, self.offer, lane, gives_way=True)
        reads = None
        if self.workers:
            lane = shared_lane(self.workers, shares, costs, heavy_reads)
            reads = ReadPool(self.workers, self.offer, lane)
        sys.setswitchinterval(_SWITCH_INTERVAL)
        async with _started(heavy_reads), _started(reads), anyio.create_task_group() as tasks:
            tenants = TenantServers(
                tasks,
                self.served,
                self.offer,
                self.audit,
                lambda: bool(signals),
                self.limits.body,
                heavy_reads,
                costs,
                shares,
                reads,
            )
            security = self.address.security()
            gateway = HttpGateway(TokenStore(), tenants, security, self.limits, self.audit)
            web = _Uvicorn(self._config(gateway))
            tasks.start_soon(_reap_revoked, gateway, self.audit, self.log)
            with handle_signals(signals, on_signal):
                serving = asyncio.create_task(web.serve([self.listening]))
                self._print_url()
                await asyncio.wait(
                    [serving, ending := asyncio.create_task(stop.wait())],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                ending.cancel()
                gateway.is_ending = True
                tenants.end_streams()
                await anyio.to_thread.run_sync(tenants.wake)
                with anyio.move_on_after(_GRACE_PERIOD):
                    while gateway.in_flight and not web.force_exit:
                        await asyncio.sleep(_POLL_INTERVAL)
                # Threads that wait for a lock or a disk cannot be stopped.
                self._exit_after(_EXIT_TIMEOUT)
                tenants.close_revoked(lambda _: False)
                web.should_exit = True
                await serving
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(tenants.close)
        self._flush()
        return 0

    def _exit_after(self, seconds: float) -> None:
        """Exit the process after ``seconds``, even if calls are running.

        As after a kill, completed writes are not lost.
        """
        timer = threading.Timer(seconds, self._abort)
        timer.daemon = True
        timer.start()

    def _flush(self) -> None:
        self.audit.flush(is_end=True)
        self.log.summarize(is_end=True)

    def _abort(self) -> None:
        self._flush()
        print("note: running calls were aborted", file=sys.stderr, flush=True)
        os._exit(_EXIT_ABORTED)

    def _config(self, gateway: HttpGateway) -> uvicorn.Config:
        return uvicorn.Config(
            gateway,
            http=IdleTimeoutProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=5,
            ssl_certfile=self.certificate.file or None,
            ssl_keyfile=self.certificate.key or None,
        )

    def _print_url(self) -> None:
        """Print the server's URL, and a warning if others can read its traffic."""
        scheme = "https" if self.certificate.file else "http"
        port = self.listening.getsockname()[1]
        name = self.address.allowed_hosts[0] if self.address.allowed_hosts else self.address.host
        print(f"Serving at {scheme}://{_bracketed(name)}:{port}{PATH}", file=sys.stderr)
        with contextlib.suppress(StorageError):  # Each request reports the error.
            if not tokens.all_tokens():
                print(
                    "note: there are no tokens yet; create one with `memvault tokens add`",
                    file=sys.stderr,
                )
        if not self.address.is_loopback and scheme == "http":
            print(
                "note: network traffic is not encrypted: pass `--certificate` and `--key`, or "
                "use a TLS proxy",
                file=sys.stderr,
            )
        sys.stderr.flush()


@contextlib.asynccontextmanager
async def _started(reads: ReadPool | None) -> AsyncIterator[None]:
    """Run the read processes, if any, during the block."""
    if reads is None:
        yield
        return
    try:
        await reads.start()
        yield
    finally:
        await reads.close()


async def _reap_revoked(gateway: HttpGateway, audit: AuditLog, log: RepeatLimitingHandler) -> None:
    """Close servers of removed or expired tokens, and write counted log lines, every second."""
    last_message = ""
    while True:
        await asyncio.sleep(_REAP_INTERVAL)
        audit.flush()
        log.summarize()
        try:
            gateway.drop_revoked()
            last_message = ""
        except MemvaultError as error:  # The gateway refuses every request.
            if error.message != last_message:
                last_message = error.message
                log_operator_note(error)


def _is_any(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ip_address(host).is_unspecified
    return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
