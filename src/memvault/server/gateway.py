"""The HTTP gateway, an ASGI application that authenticates, limits and routes requests.

All refusals happen here, before the MCP server receives any part of the request. No answer reveals
vaults or tokens other than the caller's own.
"""

from __future__ import annotations

import json
import time
from typing import Any

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from memvault import __version__
from memvault.errors import MemvaultError
from memvault.mcp.calls import REPLIES, ReplyTracker
from memvault.mcp.notifications import SESSION
from memvault.mcp.request_queue import QUEUE_SLOT, QueueSlot, RequestQueue
from memvault.mcp.stdio import has_valid_id
from memvault.named_tuple import NamedTuple
from memvault.server import tenants
from memvault.server.audit import AuditLog, AuditRecord
from memvault.server.tenants import TenantServers
from memvault.server.tokens import ApiToken, TokenStore

PATH = "/mcp"
HEALTH = "/healthz"
_RETRY_AFTER = 5
"""Seconds for ``Retry-After`` if the queue is full or a request waited too long in it."""
_METHODS = ("GET", "POST", "DELETE")


class RequestLimits(NamedTuple):
    """The limits of one token.

    A request's body may have up to ``body`` bytes and take up to ``seconds`` to arrive. ``calls``
    requests run concurrently and ``rate`` may start per second. Up to ``queue`` further requests
    wait, each for at most ``wait`` seconds.
    """

    body: int = 4 * 1024 * 1024
    seconds: float = 30.0
    calls: int = 16
    rate: float = 50.0
    queue: int = 100
    wait: float = 30.0


class RateLimiter:
    """A token bucket for the requests of one API token.

    It gains ``rate`` requests per second, up to twice that number.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._available = 2 * rate
        self._updated = time.monotonic()

    def try_acquire(self) -> bool:
        """Take one request from the bucket; return whether there was one."""
        now = time.monotonic()
        self._available = min(2 * self._rate, self._available + (now - self._updated) * self._rate)
        self._updated = now
        if self._available < 1:
            return False
        self._available -= 1
        return True


class HttpGateway:
    """The ASGI application that passes requests with a valid token to that token's vaults."""

    def __init__(
        self,
        tokens: TokenStore,
        tenant_servers: TenantServers,
        security: TransportSecuritySettings,
        limits: RequestLimits,
        audit: AuditLog,
    ) -> None:
        self._tokens = tokens
        self._tenants = tenant_servers
        self._security = TransportSecurityMiddleware(security)
        self._limits = limits
        self._audit = audit
        self._rate_limiters: dict[ApiToken, RateLimiter] = {}
        self._queue = RequestQueue(limits.calls, waiting=limits.queue)
        self._stream_queue = RequestQueue(limits.calls)
        self._control_queue = RequestQueue(limits.calls)
        self._active_request_ids: set[tuple[str, str]] = set()
        self.is_ending = False

    def drop_revoked(self) -> None:
        """Close the MCP servers of tokens that were removed or have expired.

        Raises:
            MemvaultError: the tokens cannot be read; nothing is closed.
        """
        self._tenants.close_revoked(self._tokens.is_valid)
        self._rate_limiters = {
            token: limiter
            for token, limiter in self._rate_limiters.items()
            if self._tokens.is_valid(token)
        }

    @property
    def in_flight(self) -> int:
        """The number of requests that run or wait for a slot, without open streams."""
        return self._queue.size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":  # No other protocol is supported.
            return
        request = Request(scope, receive)
        refused = await self._security.validate_request(request)
        if refused is None:
            refused = await self._handle(request, scope, receive, send)
        if refused is not None:
            await refused(scope, receive, send)

    async def _handle(
        self, request: Request, scope: Scope, receive: Receive, send: Send
    ) -> Response | None:
        """Answer a request and return None, or return the response that refuses it."""
        if request.url.path == HEALTH:
            state = "ending" if self.is_ending else "ok"
            return JSONResponse(
                {"status": state, "version": __version__}, 503 if self.is_ending else 200
            )
        token = self._authenticate(request)
        if isinstance(token, Response):
            return token
        if request.method not in _METHODS:
            self._log_refusal(token, "", "not_allowed")
            return _error_response(
                405,
                "Method not allowed",
                f"use {', '.join(_METHODS)}",
                {"Allow": ", ".join(_METHODS)},
            )
        vault = self._requested_vault(request.url.path, token)
        if vault is None:
            self._log_refusal(token, "", "not_found")
            return _error_response(404, "The token does not permit this vault", f"use {PATH}/NAME")
        if not self._rate_limiters.setdefault(token, RateLimiter(self._limits.rate)).try_acquire():
            return self._too_many(token, vault, "requests per second")
        exchange = HttpExchange(scope, receive, send)
        slot = await self._acquire_slot(token, vault, request.method, exchange)
        if isinstance(slot, Response):
            return slot
        scope[QUEUE_SLOT] = slot
        try:
            body = await self._body(exchange, token, vault)
            if isinstance(body, Response):
                return body
            try:
                manager = await self._tenants.server_for(token, vault)
            except MemvaultError as error:
                tenants.log_operator_note(error)
                self._log_refusal(token, vault, error.code)
                return _error_response(
                    503, f"The vault {vault} cannot be read", "ask the server's administrator"
                )
            request_id = _request_id(body)
            request_key = request.headers.get(SESSION, ""), request_id or ""
            if refused := self._check_id(request_key, request_id is not None):
                self._log_refusal(token, vault, "invalid")
                return refused
            await self._answer(manager, request_key, exchange)
        finally:
            slot.leave()
        return None

    def _check_id(self, request_key: tuple[str, str], is_valid: bool) -> Response | None:
        """Return the response that refuses a request's id, or None."""
        if not is_valid:  # The SDK would treat it as a notification.
            return _error_response(
                400,
                "The request id must be a string or an integer",
                "use a new id for each request",
            )
        # The SDK would answer only one of two requests with the same id.
        if all(request_key) and request_key in self._active_request_ids:
            return _error_response(400, "The request id is in use", "use a new id for each request")
        return None

    def _authenticate(self, request: Request) -> ApiToken | Response:
        """Return the token of a request, or the response that refuses it."""
        if self.is_ending:
            return _error_response(
                503, "The server is shutting down", "try again", {"Retry-After": "5"}
            )
        try:
            token = self._tokens.verify(_bearer(request))
        except MemvaultError as error:
            self._log_refusal(None, "", error.code)
            return _error_response(
                503, "The tokens cannot be read", "ask the server's administrator"
            )
        if token is None:
            self._log_refusal(None, "", "unauthorized")
            challenge = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            return _error_response(401, "Missing or invalid token", "", challenge)
        return token

    async def _answer(
        self,
        manager: StreamableHTTPSessionManager,
        request_key: tuple[str, str],
        exchange: HttpExchange,
    ) -> None:
        """Let the SDK answer a request; ``request_key`` is its session and its id."""
        self._active_request_ids.add(request_key)
        try:
            await manager.handle_request(exchange.scope, exchange.receive, exchange.send)
        finally:
            exchange.close()
            self._active_request_ids.discard(request_key)

    def _requested_vault(self, path: str, token: ApiToken) -> str | None:
        """Return the vault in a path, or None if the token does not permit it.

        The bare path means the token's first vault.
        """
        permitted = self._tenants.vaults_of(token)
        start, _, name = path.rstrip("/").rpartition("/")
        if (start, name) == ("", PATH[1:]):
            return permitted[0] if permitted else None
        return name if start == PATH and name in permitted else None

    async def _acquire_slot(
        self, token: ApiToken, vault: str, method: str, exchange: HttpExchange
    ) -> QueueSlot | Response:
        """Wait for a queue slot for a request; return it, or the response that refuses it.

        Streams and control messages have their own slots, so they never wait behind calls. A call
        waits up to ``wait`` seconds, unless its client disconnects.
        """
        queue = self._stream_queue if method == "GET" else self._queue
        slot = queue.take_free(token)
        if slot is None and await self._is_control(method, exchange):
            slot = self._control_queue.take_free(token)
        if slot is not None:
            return slot
        if method == "GET" or queue.is_full(token):
            return self._too_many(token, vault, "concurrent requests", _RETRY_AFTER)
        try:
            async with anyio.create_task_group() as tasks:

                async def watch() -> None:
                    await exchange.wait_for_disconnect()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(watch)
                with anyio.move_on_after(self._limits.wait):
                    slot = await queue.take(token)
                tasks.cancel_scope.cancel()
        except BaseException:  # The request was canceled after it got its slot.
            if slot is not None:
                slot.leave()
            raise
        if slot is not None:
            return slot
        if exchange.is_disconnected:
            self._log_refusal(token, vault, "gone")
            return Response(status_code=400)  # Never read, because the client has disconnected.
        return self._too_many(token, vault, "queued requests", _RETRY_AFTER)

    async def _is_control(self, method: str, exchange: HttpExchange) -> bool:
        """Return whether a request ends a session or is a notification, which may free slots."""
        if method != "POST":
            return method == "DELETE"
        with anyio.move_on_after(self._limits.seconds):
            return _is_notification(await exchange.first_part())
        return False

    async def _body(self, exchange: HttpExchange, token: ApiToken, vault: str) -> bytes | Response:
        """Read a request's body; return it, or a refusal if it is too large or too slow."""
        max_bytes = self._limits.body
        try:
            with anyio.move_on_after(self._limits.seconds):
                body = await exchange.read_body(max_bytes)
                if body is not None:
                    return body
                self._log_refusal(token, vault, "too_large")
                message = f"The request is larger than {max_bytes:,} bytes"
                return _error_response(413, message, "send smaller requests")
        except ClientDisconnect:
            self._log_refusal(token, vault, "gone")
            return Response(status_code=400)  # Never read, because the client has disconnected.
        self._log_refusal(token, vault, "too_slow")
        return _error_response(408, "The request did not arrive in time", "")

    def _too_many(self, token: ApiToken, vault: str, what: str, seconds: int = 1) -> Response:
        self._log_refusal(token, vault, "too_many")
        return _error_response(
            429, f"Too many {what}", "retry later", {"Retry-After": str(seconds)}
        )

    def _log_refusal(self, token: ApiToken | None, vault: str, outcome: str) -> None:
        identity = (token.name, token.agent) if token is not None else ("", "")
        self._audit.note_refused(AuditRecord(*identity, vault, "", outcome, 0))


class HttpExchange:
    """An HTTP request that reads its body once and tracks whether its response was sent.

    Events delivered by the request's tool calls are acknowledged only after the complete response
    was sent; otherwise they are requeued.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        self._replies = ReplyTracker()
        scope[REPLIES] = self._replies
        self._next: Message | None = None  # Already read; the next receive returns it.
        self.is_disconnected = False
        self._is_complete = False

    async def first_part(self) -> Message:
        """Return the first message of the request, without consuming it."""
        if self._next is None:
            self._next = await self._receive()
        return self._next

    async def wait_for_disconnect(self) -> None:
        """Wait until the client disconnects, while the request is queued for a slot.

        If the body has several parts, only the first is read and a disconnect is not detected.
        """
        first = await self.first_part()
        if first["type"] == "http.request":
            if first.get("more_body", False):
                await anyio.sleep_forever()
            await self._receive()
        self.is_disconnected = True

    async def read_body(self, max_bytes: int) -> bytes | None:
        """Read the body for ``receive`` to return in one part; return None if it is too large.

        Raises:
            ClientDisconnect: the client has disconnected before the end.
        """
        part, body = await self.first_part(), bytearray()
        while part["type"] == "http.request":
            body += part.get("body", b"")
            if len(body) > max_bytes:
                return None
            if not part.get("more_body", False):
                self._next = {"type": "http.request", "body": bytes(body), "more_body": False}
                return bytes(body)
            part = await self._receive()
        raise ClientDisconnect

    async def receive(self) -> Message:
        """Return the body, which was already read, and later the client's disconnect."""
        message, self._next = self._next, None
        if message is None:
            message = await self._receive()
            self.is_disconnected = self.is_disconnected or message["type"] == "http.disconnect"
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer; before the last one, check that the client is connected."""
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if is_last and self._replies.has_pending:
            with anyio.move_on_after(0):
                await self.receive()
        await self._send(message)
        self._is_complete = is_last and not self.is_disconnected

    def close(self) -> None:
        """Acknowledge the delivered events, or requeue them if the answer is incomplete."""
        self._replies.finish_all(is_sent=self._is_complete)


def _bearer(request: Request) -> str:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if kind.lower() == "bearer" else ""


def _message(body: bytes) -> Any:
    """Return the JSON of a body, or None if it is invalid."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _is_notification(part: Message) -> bool:
    """Return whether the first part of a request is a complete notification."""
    message = None if part.get("more_body", False) else _message(part.get("body", b""))
    return isinstance(message, dict) and "method" in message and "id" not in message


def _request_id(body: bytes) -> str | None:
    """Return the id of a JSON-RPC request, or None if it has an invalid type.

    Returns an empty string for other messages, such as notifications and responses.
    """
    message = _message(body)
    if not isinstance(message, dict) or "method" not in message or "id" not in message:
        return ""
    return str(message["id"]) if has_valid_id(message) else None


def _error_response(
    status: int, message: str, hint: str, headers: dict[str, str] | None = None
) -> Response:
    content = {"error": message, **({"hint": hint} if hint else {})}
    return JSONResponse(content, status, headers)
